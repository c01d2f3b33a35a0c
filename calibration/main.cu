// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Command line: mosaic-probe-cuda serve | selfcheck | GROUP NAME [--KEY VALUE]...  One table entry
 * a schedule's probe; parsing, --help and --list read it.
 */
#include "device.h"
#include "quantity.h"
#include "serve.h"

extern "C" {
#include "base/suggest.h"
}

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char program[] = "mosaic-probe-cuda";

const struct probe_kind *const probe_kinds[] = {&strip_probe, &copies_probe,  &pinned_probe,
                                                &adamw_probe, &grouped_probe, NULL};
enum { KINDS = sizeof probe_kinds / sizeof *probe_kinds - 1 };

enum { MOST_REPEATS = 10000, MOST_DEVICE = 1023 };
/* What every probe takes, after its own keys. */
enum { REPEATS, DEVICE, COMMON };
static const struct probe_key common[COMMON] = {
    {"repeats", "timed rounds", 9, 9, 1, MOST_REPEATS, NULL},
    {"device", "which device", 0, 0, 0, MOST_DEVICE, NULL},
};

/* ---- help ---- */

static void print_key(const struct probe_key *key) {
    printf("  --%-12s %s", key->name, key->help);
    if (key->words) {
        printf(":");
        for (int i = 0; key->words[i]; ++i)
            printf("%s%s", i ? ", " : " ", key->words[i]);
        printf("; default %s", key->words[key->initial]);
        if (key->check != key->initial)
            printf(", %s to check", key->words[key->check]);
    } else {
        printf(", %ld to %ld; default %ld", key->least, key->most, key->initial);
        if (key->check != key->initial)
            printf(", %ld to check", key->check);
    }
    printf("\n");
}

static void print_common(void) {
    for (const struct probe_key &key : common)
        print_key(&key);
    printf("  --check        compare with the executors on the host, measure nothing\n"
           "  --help         this text\n");
}

static void list_probes(void) {
    for (int i = 0; i < KINDS; ++i)
        printf("%s %-8s  %s\n", probe_kinds[i]->group, probe_kinds[i]->name, probe_kinds[i]->help);
}

static void print_help(void) {
    printf("Usage: %s GROUP NAME [--KEY VALUE]...\n"
           "       %s GROUP NAME --help\n"
           "       %s serve | selfcheck [--device N]\n"
           "       %s --list | --version | --help\n\n"
           "Measure kernels on one CUDA device; a sample a line, in JSON.\n\n"
           "  serve      answer requests on standard input, a line each (mosaic-probe/1)\n"
           "  selfcheck  compare every kernel with the host, measure nothing\n\nProbes:\n",
           program, program, program, program);
    list_probes();
    printf("\nOptions of every probe:\n");
    print_common();
    printf("\nExit status:\n"
           "  0    done\n"
           "  2    usage error\n"
           "  4    output failed\n"
           "  5    --check or selfcheck found a difference\n"
           "  6    no device, or one that refuses, or too little memory\n"
           "  70   internal error\n");
}

static void print_probe_help(const struct probe_kind *kind) {
    printf("Usage: %s %s %s [--KEY VALUE]...\n\nMeasure: %s.\n\nOptions:\n", program, kind->group,
           kind->name, kind->help);
    for (int i = 0; i < kind->key_count; ++i)
        print_key(&kind->keys[i]);
    print_common();
}

/* ---- arguments ---- */

static const struct probe_key *key_at(const struct probe_kind *kind, int i) {
    return i < kind->key_count ? &kind->keys[i] : &common[i - kind->key_count];
}

static const char *key_name_at(const void *kind, size_t i) {
    return key_at((const struct probe_kind *)kind, (int)i)->name;
}

/* The key of "--NAME" or "--NAME=VALUE"; the length of NAME. */
static int find_key(const struct probe_kind *kind, const char *argument, size_t *length) {
    const int count = kind->key_count + COMMON;
    const char *const name = argument + 2;
    *length = strcspn(name, "=");
    for (int i = 0; i < count; ++i) {
        const char *const known = key_at(kind, i)->name;
        if (strlen(known) == *length && strncmp(known, name, *length) == 0)
            return i;
    }
    char word[64];
    (void)snprintf(word, sizeof word, "%.*s", (int)*length, name);
    const char *const near = suggest_from(word, key_name_at, kind, (size_t)count);
    if (near)
        probe_die(MOSAIC_USAGE, "unknown option '%s'; did you mean '--%s'?", argument, near);
    probe_die(MOSAIC_USAGE, "unknown option '%s'", argument);
}

static long read_value(const struct probe_key *key, const char *text) {
    for (int i = 0; key->words && key->words[i]; ++i)
        if (strcmp(key->words[i], text) == 0)
            return i;
    if (key->words) {
        char words[64] = "";
        for (int i = 0; key->words[i]; ++i) {
            const size_t used = strlen(words);
            (void)snprintf(words + used, sizeof words - used, "%s%s", i ? " or " : "",
                           key->words[i]);
        }
        probe_die(MOSAIC_USAGE, "--%s takes %s, not '%s'", key->name, words, text);
    }
    char *end = NULL;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || !strchr("0123456789", *text) ||
        value < key->least || value > key->most)
        probe_die(MOSAIC_USAGE, "--%s takes a whole number from %ld to %ld, not '%s'", key->name,
                  key->least, key->most, text);
    return value;
}

static bool has_word(char **arguments, int count, const char *word) {
    for (int i = 0; i < count; ++i)
        if (strcmp(arguments[i], word) == 0)
            return true;
    return false;
}

/* The probe's own values, then the common ones. */
static void read_options(struct probe *p, char **arguments, int count, bool is_check) {
    const int keys = p->kind->key_count;
    long values[PROBE_KEYS + COMMON];
    for (int i = 0; i < keys + COMMON; ++i)
        values[i] = is_check ? key_at(p->kind, i)->check : key_at(p->kind, i)->initial;
    for (int i = 0; i < count; ++i) {
        const char *const argument = arguments[i];
        if (strcmp(argument, "--check") == 0)
            continue;
        if (strncmp(argument, "--", 2) != 0)
            probe_die(MOSAIC_USAGE, "unexpected argument '%s'", argument);
        size_t length = 0;
        const int key = find_key(p->kind, argument, &length);
        const bool is_inside = argument[2 + length] == '=';
        if (!is_inside && i + 1 == count)
            probe_die(MOSAIC_USAGE, "%s needs a value", argument);
        values[key] =
            read_value(key_at(p->kind, key), is_inside ? argument + 3 + length : arguments[++i]);
    }
    memcpy(p->values, values, (size_t)keys * sizeof *values);
    p->repeats = (int)values[keys + REPEATS];
    p->device = (int)values[keys + DEVICE];
}

static const char *kind_name_at(const void *context, size_t i) {
    (void)context;
    return probe_kinds[i]->name;
}

static const struct probe_kind *find_kind(const char *group, const char *name) {
    bool is_group = false;
    for (int i = 0; i < KINDS; ++i) {
        const struct probe_kind *const kind = probe_kinds[i];
        const bool matches = strcmp(kind->group, group) == 0;
        is_group = is_group || matches;
        if (matches && strcmp(kind->name, name) == 0)
            return kind;
    }
    if (!is_group)
        probe_die(MOSAIC_USAGE, "unknown group '%s'", group);
    const char *const near = suggest_from(name, kind_name_at, NULL, KINDS);
    if (near)
        probe_die(MOSAIC_USAGE, "unknown probe '%s %s'; did you mean '%s'?", group, name, near);
    probe_die(MOSAIC_USAGE, "unknown probe '%s %s'", group, name);
}

static int finish(int status) {
    if (fflush(stdout) != 0 || ferror(stdout))
        probe_die(MOSAIC_IO, "cannot write to standard output");
    return status;
}

static int run_probe(const struct probe_kind *kind, char **arguments, int count) {
    static struct probe p;
    const bool is_check = has_word(arguments, count, "--check");
    p.kind = kind;
    read_options(&p, arguments, count, is_check);
    device_open(&p);
    if (is_check)
        kind->check(&p);
    else
        kind->run(&p);
    return finish(p.has_failed ? MOSAIC_NUMERIC : MOSAIC_OK);
}

void probe_check_kind(struct probe *p, const struct probe_kind *kind) {
    p->kind = kind;
    for (int i = 0; i < kind->key_count; ++i)
        p->values[i] = kind->keys[i].check;
    kind->check(p);
}

/* ---- serve and selfcheck ---- */

/* Launchers start a process a device and tell it which; they may also show it that one alone. */
static int device_of_rank(void) {
    static const char *const names[] = {"LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "MPI_LOCALRANKID"};
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count <= 1)
        return 0;
    for (const char *name : names) {
        const char *const text = getenv(name);
        char *end = NULL;
        const long rank = text ? strtol(text, &end, 10) : -1;
        if (text && *text && *end == '\0' && rank >= 0)
            return (int)(rank % count);
    }
    return 0;
}

static void read_device(struct probe *p, const char *mode, char **arguments, int count) {
    static const size_t length = sizeof "--device" - 1;
    p->device = -1;
    for (int i = 0; i < count; ++i) {
        const char *const argument = arguments[i];
        if (strncmp(argument, "--", 2) != 0)
            probe_die(MOSAIC_USAGE, "unexpected argument '%s'", argument);
        if (strncmp(argument, "--device", length) != 0 ||
            (argument[length] != '=' && argument[length] != '\0'))
            probe_die(MOSAIC_USAGE, "unknown option '%s' of %s", argument, mode);
        const bool is_inside = argument[length] == '=';
        if (!is_inside && i + 1 == count)
            probe_die(MOSAIC_USAGE, "%s needs a value", argument);
        p->device =
            (int)read_value(&common[DEVICE], is_inside ? argument + length + 1 : arguments[++i]);
    }
}

static int run_mode(const char *mode, char **arguments, int count) {
    static struct probe p;
    if (has_word(arguments, count, "--help")) {
        print_help();
        return finish(MOSAIC_OK);
    }
    read_device(&p, mode, arguments, count);
    if (p.device < 0)
        p.device = device_of_rank();
    p.repeats = (int)common[REPEATS].initial;
    device_open(&p);
    if (strcmp(mode, "serve") == 0)
        return serve_run(&p);
    return finish(quantity_self_check(&p) ? MOSAIC_OK : MOSAIC_NUMERIC);
}

static int run(int argc, char **argv) {
    const char *const first = argc > 1 ? argv[1] : "";
    if (argc < 2)
        probe_die(MOSAIC_USAGE, "needs serve, selfcheck, or a GROUP and a NAME");
    if (strcmp(first, "serve") == 0 || strcmp(first, "selfcheck") == 0)
        return run_mode(first, argv + 2, argc - 2);
    if (strcmp(first, "--list") == 0)
        list_probes();
    else if (strcmp(first, "--version") == 0)
        printf("%s %s\n", program, MOSAIC_VERSION);
    else if (strcmp(first, "--help") == 0)
        print_help();
    else if (first[0] == '-')
        probe_die(MOSAIC_USAGE, "unknown option '%s'", first);
    else if (argc < 3)
        probe_die(MOSAIC_USAGE, "needs the NAME of a probe of '%s'", first);
    else {
        const struct probe_kind *const kind = find_kind(first, argv[2]);
        if (!has_word(argv + 3, argc - 3, "--help"))
            return run_probe(kind, argv + 3, argc - 3);
        print_probe_help(kind);
    }
    return finish(MOSAIC_OK);
}

int main(int argc, char **argv) {
    try {
        return run(argc, argv);
    } catch (const probe_refused &refused) {
        probe_die(MOSAIC_DEVICE, "%s", refused.text);
    }
}
