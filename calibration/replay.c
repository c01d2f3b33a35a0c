// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * mosaic-probe-replay: answers from a journal of `mosaic calibrate --samples` as the probe that was
 * recorded did, so that the way from samples to a calibration runs on any machine.  What the record
 * lacks is refused as unsupported.  For tests it can misbehave, and measure what was not: times of
 * a quantity scaled.
 */
#include "base/suggest.h"
#include "base/units.h"
#include "measure/journal.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char program[] = "mosaic-probe-replay";

/* X(identifier, option, text) */
#define FAULT_LIST(X)                                                                              \
    X(FAULT_CRASH, "--crash-after", "ends by SIGSEGV")                                             \
    X(FAULT_EXIT, "--exit-after", "exits with status 6 and a text on standard error")              \
    X(FAULT_HANG, "--hang-after", "is silent for ever")                                            \
    X(FAULT_RUBBISH, "--rubbish-after", "writes what is no JSON")                                  \
    X(FAULT_LONG, "--long-after", "writes a line without an end")                                  \
    X(FAULT_ID, "--wrong-id-after", "answers another request")                                     \
    X(FAULT_KEYS, "--wrong-keys-after", "answers another measurement")                             \
    X(FAULT_CLOSE, "--close-after", "closes its output and stays")
#define FAULT_ENUM(id, option, text) id,
enum fault { FAULT_LIST(FAULT_ENUM) FAULTS };
#undef FAULT_ENUM
static const struct {
    const char *option, *text;
} faults[FAULTS] = {
#define FAULT_ROW(id, option, text) {option, text},
    FAULT_LIST(FAULT_ROW)
#undef FAULT_ROW
};

struct replay {
    const char *path;
    long after[FAULTS]; /* lines before the fault; -1: never */
    double delay_s;
    double scale[SAMPLE_QUANTITIES];
    bool serves;
    struct journal journal;
    long lines; /* written */
};

static _Noreturn void die(enum mosaic_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static _Noreturn void die(enum mosaic_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)fprintf(stderr, "%s: ", program);
    (void)vfprintf(stderr, format, args);
    (void)fputs(status == MOSAIC_USAGE ? "\ntry 'mosaic-probe-replay --help'\n" : "\n", stderr);
    va_end(args);
    exit((int)status);
}

/* ---- options ---- */

static void print_help(void) {
    printf("Usage: %s serve --journal FILE [options]\n\n"
           "Answer requests of mosaic calibrate from a journal that it kept before.\n\nOptions:\n"
           "  --journal FILE         what --samples FILE recorded\n"
           "  --scale QUANTITY=F     times of a quantity multiplied by F; repeatable\n"
           "  --delay S              seconds before each answer\n"
           "  --help, --version\n\nFor tests, after N lines, of which the hello is the first:\n",
           program);
    for (int i = 0; i < FAULTS; ++i)
        printf("  %-18s N   %s\n", faults[i].option, faults[i].text);
}

static double read_number(const char *option, const char *text) {
    struct status_error err;
    double value = 0.0;
    if (units_parse_number(text, &value, &err) != MOSAIC_OK || value < 0.0)
        die(MOSAIC_USAGE, "%s takes a number, not '%s'", option, text);
    return value;
}

static void read_scale(struct replay *r, const char *text) {
    const char *const equals = strchr(text, '=');
    for (int q = 0; equals && q < SAMPLE_QUANTITIES; ++q) {
        const char *const name = sample_kind((enum sample_quantity)q)->name;
        if (strlen(name) == (size_t)(equals - text) && strncmp(text, name, strlen(name)) == 0) {
            r->scale[q] = read_number("--scale", equals + 1);
            if (r->scale[q] > 0.0)
                return;
        }
    }
    die(MOSAIC_USAGE, "--scale takes QUANTITY=FACTOR, not '%s'", text);
}

static void read_option(struct replay *r, const char *option, const char *value) {
    if (!value)
        die(MOSAIC_USAGE, "%s needs a value", option);
    for (int i = 0; i < FAULTS; ++i)
        if (strcmp(option, faults[i].option) == 0) {
            r->after[i] = (long)read_number(option, value);
            return;
        }
    if (strcmp(option, "--journal") == 0)
        r->path = value;
    else if (strcmp(option, "--scale") == 0)
        read_scale(r, value);
    else if (strcmp(option, "--delay") == 0)
        r->delay_s = read_number(option, value);
    else
        die(MOSAIC_USAGE, "unknown option '%s'", option);
}

static void read_options(struct replay *r, int argc, char **argv) {
    for (int i = 0; i < FAULTS; ++i)
        r->after[i] = -1;
    for (int q = 0; q < SAMPLE_QUANTITIES; ++q)
        r->scale[q] = 1.0;
    for (int i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "--help") == 0) {
            print_help();
            exit(MOSAIC_OK);
        }
        if (strcmp(argv[i], "--version") == 0) {
            printf("%s %s\n", program, MOSAIC_VERSION);
            exit(MOSAIC_OK);
        }
        if (strcmp(argv[i], "serve") == 0) {
            r->serves = true;
            continue;
        }
        if (strncmp(argv[i], "--", 2) != 0)
            die(MOSAIC_USAGE, "unexpected argument '%s'", argv[i]);
        read_option(r, argv[i], argv[i + 1]);
        i++;
    }
    if (!r->serves || !r->path)
        die(MOSAIC_USAGE, "needs serve and --journal FILE");
}

/* ---- faults ---- */

static void misbehave(const struct replay *r) {
    enum { TOO_LONG = 2 * PROTOCOL_LINE_MAX };
    const long now = r->lines;
    (void)fflush(stdout);
    if (r->after[FAULT_CRASH] == now) {
        (void)signal(SIGSEGV, SIG_DFL);
        (void)raise(SIGSEGV);
    }
    if (r->after[FAULT_EXIT] == now)
        die(MOSAIC_DEVICE, "the device fell off the bus");
    while (r->after[FAULT_HANG] == now)
        (void)pause();
    if (r->after[FAULT_RUBBISH] == now)
        printf("NaN, as they say\n");
    for (long i = 0; r->after[FAULT_LONG] == now && i < TOO_LONG; ++i)
        (void)putchar('x');
    if (r->after[FAULT_CLOSE] == now) {
        (void)close(STDOUT_FILENO);
        for (;;)
            (void)pause();
    }
}

static void wait_s(double seconds) {
    const double whole = floor(seconds);
    struct timespec rest = {.tv_sec = (time_t)whole, .tv_nsec = (long)((seconds - whole) * 1e9)};
    if (seconds > 0.0)
        (void)nanosleep(&rest, NULL);
}

/* ---- serving ---- */

static void refuse(long long id, const char *reason, const char *text) {
    printf("{\"id\": %lld, \"refused\": \"%s\", \"text\": \"%s\"}\n", id, reason, text);
}

static void answer_sample(const struct replay *r, long long id, struct sample sample) {
    enum { TEXT = 4096 };
    char text[TEXT];
    const double factor = r->scale[sample.quantity];
    sample.median_s *= factor;
    sample.least_s *= factor;
    sample.most_s *= factor;
    if (r->after[FAULT_ID] == r->lines)
        id++;
    if (r->after[FAULT_KEYS] == r->lines)
        sample.value[sample_kind(sample.quantity)->key_count - 1]++;
    (void)sample_print(&sample, text, sizeof text);
    printf("{\"id\": %lld, %s\n", id, text + 1);
}

static int by_median(const void *a, const void *b) {
    const struct journal_entry *const *const x = a, *const *const y = b;
    const double p = (*x)->sample.median_s, q = (*y)->sample.median_s;
    return (p > q) - (p < q);
}

/* Of several rounds of partners the middle one, as the harness takes it; NULL: no sample. */
static const struct journal_entry *middle_of(const struct replay *r, const struct sample *keys) {
    const struct journal_entry **const list = calloc(r->journal.count + 1, sizeof *list);
    size_t count = 0;
    for (size_t i = 0; list && i < r->journal.count; ++i) {
        const struct journal_entry *const e = &r->journal.entries[i];
        if (e->kind == JOURNAL_SAMPLE && sample_compare_keys(&e->sample, keys) == 0)
            list[count++] = e;
    }
    if (count > 0)
        qsort(list, count, sizeof *list, by_median);
    const struct journal_entry *const middle = count > 0 ? list[(count - 1) / 2] : NULL;
    free(list);
    return middle;
}

static void answer(const struct replay *r, const json_t *request) {
    const long long id = json_integer_value(json_object_get(request, "id"));
    const char *const group = json_string_value(json_object_get(request, "group"));
    struct sample keys;
    struct status_error err;
    if (group) {
        if (strcmp(group, "new") == 0)
            printf("{\"id\": %lld, \"group\": \"%016llx\"}\n", id, (unsigned long long)getpid());
        else
            printf("{\"id\": %lld, \"joined\": true}\n", id);
        return;
    }
    if (protocol_keys(request, &keys, &err) != MOSAIC_OK) {
        refuse(id, "unsupported", "not understood");
        return;
    }
    const struct journal_entry *const middle = middle_of(r, &keys);
    const struct journal_entry *const entry = journal_find(&r->journal, &keys, 0);
    if (middle)
        answer_sample(r, id, middle->sample);
    else if (entry && entry->kind == JOURNAL_REFUSED)
        refuse(id, refusal_name(entry->refusal), "as recorded");
    else
        refuse(id, "unsupported", "not recorded");
}

/* A recorded set is asked for what it has, no more. */
static void list_shapes(struct replay *r) {
    json_t *const hello = r->journal.hello.root;
    const char *const shapes = json_string_value(json_object_get(hello, "shapes"));
    json_t *const list = json_array();
    if (!list)
        die(MOSAIC_INTERNAL, "out of memory");
    for (size_t i = 0; shapes && strcmp(shapes, "recorded") == 0 && i < r->journal.count; ++i) {
        enum { TEXT = 4096 };
        char text[TEXT] = "{";
        const int used = sample_print_keys(&r->journal.entries[i].sample, text + 1, TEXT - 2);
        (void)snprintf(text + 1 + used, TEXT - 1 - (size_t)used, "}");
        (void)json_array_append_new(list, json_loads(text, 0, NULL));
    }
    if (json_array_size(list) > 0)
        (void)json_object_set(hello, "shapes", list);
    json_decref(list);
}

static void serve(struct replay *r) {
    static char line[PROTOCOL_LINE_MAX + 2];
    struct status_error err;
    misbehave(r);
    list_shapes(r);
    char *const hello = json_dumps(r->journal.hello.root, JSON_COMPACT);
    if (!hello)
        die(MOSAIC_INTERNAL, "out of memory");
    if (strlen(hello) > PROTOCOL_LINE_MAX)
        die(MOSAIC_BAD_INPUT, "%s: more shapes than a hello holds; import it as samples", r->path);
    printf("%s\n", hello);
    (void)fflush(stdout);
    free(hello);
    r->lines = 1;
    while (fgets(line, sizeof line, stdin)) {
        json_t *request = NULL;
        if (protocol_object(line, strlen(line), &request, &err) != MOSAIC_OK)
            die(MOSAIC_USAGE, "%s", err.message);

        misbehave(r);
        wait_s(r->delay_s);
        answer(r, request);
        r->lines++;
        json_decref(request);
        if (fflush(stdout) != 0)
            die(MOSAIC_IO, "cannot write to standard output");
    }
    printf("{\"bye\": true, \"answered\": %ld}\n", r->lines - 1);
}

int main(int argc, char **argv) {
    struct replay r = {.journal = {.file = -1}};
    const struct journal_options options = {.is_read_only = true};
    struct status_error err;
    read_options(&r, argc, argv);
    const enum mosaic_status status = journal_open(r.path, &options, &r.journal, &err);
    if (status != MOSAIC_OK)
        die(status, "%s%s%s", err.file, err.file[0] ? ": " : "", err.message);
    if (!r.journal.has_hello)
        die(MOSAIC_BAD_INPUT, "%s: nothing was recorded", r.path);
    serve(&r);
    journal_close(&r.journal);
    return fflush(stdout) == 0 ? MOSAIC_OK : MOSAIC_IO;
}
