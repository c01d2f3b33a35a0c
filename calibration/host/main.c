// SPDX-License-Identifier: GPL-3.0-or-later
/* Command line: mosaic-probe-host serve|cluster|--check|--list [--OPTION VALUE]... */
#include "host.h"

#include "base/suggest.h"
#include "base/units.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char program[] = "mosaic-probe-host";

enum { SERVE, CLUSTER, CHECK, LIST, VERSION, HELP, ACTIONS };
static const char *const actions[ACTIONS] = {"serve",  "cluster",   "--check",
                                             "--list", "--version", "--help"};
enum { THREADS, KERNELS, LIMIT, WAIT, FAULT, OPTIONS };
static const char *const options[OPTIONS] = {"--threads", "--kernels", "--limit", "--wait",
                                             "--fault"};

static void say_why(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say_why(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)fprintf(stderr, "%s: ", program);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fputc('\n', stderr);
}

static void print_help(void) {
    printf(
        "Usage: %s serve [OPTION]...\n"
        "       %s cluster [OPTION]...\n"
        "       %s --check [OPTION]...\n"
        "       %s --list | --version | --help\n\n"
        "Measure this machine's processors.  `serve` answers requests, a line of JSON each;\n"
        "`cluster` prints a cluster document; --check measures a small job of each kind.\n\n"
        "Options:\n"
        "  --threads N    of one device, 1 to the number of processors; default 1\n"
        "  --kernels WHO  multiplies matrices: blas (OpenBLAS), own, executor (plain loops);\n"
        "                 default %s\n"
        "  --limit S      seconds that one job may last, 0.01 to 60; default 0.5\n"
        "  --wait S       seconds to wait for another process of a group, 0.1 to 600; default 10\n"
        "  --fault NAME   spoil the results of a quantity, to see that they are refused\n"
        "  --check        run a small job of each kind\n"
        "  --list         quantities and their keys\n"
        "  --version      the version\n"
        "  --help         this text\n\n"
        "Exit status:\n"
        "  0    done\n"
        "  2    usage error\n"
        "  4    output failed\n"
        "  5    --check found a wrong result\n"
        "  6    the processors cannot be used\n"
        "  70   internal error\n",
        program, program, program, program,
        host_kernels_words[host_has_blas() ? KERNELS_BLAS : KERNELS_OWN]);
}

static void print_keys(const struct sample_kind *kind) {
    for (int i = 0; i < kind->key_count; ++i) {
        const struct sample_key *const key = &kind->keys[i];
        printf("  %-16s %s", key->name, key->help);
        for (int w = 0; key->words && key->words[w]; ++w)
            printf("%s%s", w ? ", " : ": ", key->words[w]);
        if (!key->words)
            printf(", %lld to %lld", key->least, key->most);
        printf("\n");
    }
}

static void print_list(void) {
    for (int q = 0; q < SAMPLE_QUANTITIES; ++q)
        if (host_measures((enum sample_quantity)q)) {
            const struct sample_kind *const kind = sample_kind((enum sample_quantity)q);
            printf("%s: %s\n", kind->name, kind->help);
            print_keys(kind);
        }
}

static enum mosaic_status usage(struct status_error *err, const char *option, const char *takes,
                                const char *text) {
    char quote[STATUS_QUOTE_MAX];
    return status_set(err, MOSAIC_USAGE, "%s takes %s, not '%s'", option, takes,
                      status_quote(text, quote, sizeof quote));
}

static enum mosaic_status read_number(const char *option, const char *takes, const char *text,
                                      const double range[2], double *out,
                                      struct status_error *err) {
    double value = 0.0;
    if (units_parse_number(text, &value, err) != MOSAIC_OK || value < range[0] || value > range[1])
        return usage(err, option, takes, text);
    *out = value;
    return MOSAIC_OK;
}

static enum mosaic_status read_kernels(const char *text, enum host_kernels *out,
                                       struct status_error *err) {
    int i = 0;
    while (i < HOST_KERNELS && strcmp(host_kernels_words[i], text) != 0)
        ++i;
    if (i == HOST_KERNELS)
        return usage(err, "--kernels", "blas, own or executor", text);
    if (i == KERNELS_BLAS && !host_has_blas())
        return status_set(err, MOSAIC_USAGE, "--kernels blas: built without OpenBLAS");
    *out = (enum host_kernels)i;
    return MOSAIC_OK;
}

static enum mosaic_status read_option(int option, const char *text, struct host_options *out,
                                      struct status_error *err) {
    static const double thread_range[] = {1, POOL_MAX_THREADS}, limit_range[] = {0.01, 60};
    static const double wait_range[] = {0.1, 600};
    double value = 0.0;
    switch (option) {
    case THREADS:
        TRY(read_number("--threads", "a whole number from 1 to 256", text, thread_range, &value,
                        err));
        out->threads = (int)value;
        if ((double)out->threads < value)
            return usage(err, "--threads", "a whole number from 1 to 256", text);
        return MOSAIC_OK;
    case LIMIT:
        return read_number("--limit", "seconds from 0.01 to 60", text, limit_range, &out->limit_s,
                           err);
    case WAIT:
        return read_number("--wait", "seconds from 0.1 to 600", text, wait_range, &out->wait_s,
                           err);
    case KERNELS:
        return read_kernels(text, &out->kernels, err);
    default:
        break;
    }
    for (int q = 0; q < SAMPLE_QUANTITIES; ++q)
        if (strcmp(sample_kind((enum sample_quantity)q)->name, text) == 0) {
            out->fault = (enum sample_quantity)q;
            return MOSAIC_OK;
        }
    return usage(err, "--fault", "a quantity of --list", text);
}

static const char *option_at(const void *context, size_t i) {
    (void)context;
    return options[i];
}

static enum mosaic_status unknown(const char *argument, struct status_error *err) {
    char quote[STATUS_QUOTE_MAX];
    const char *const near = suggest_from(argument, option_at, NULL, OPTIONS);
    (void)status_quote(argument, quote, sizeof quote);
    if (near)
        return status_set(err, MOSAIC_USAGE, "unknown option '%s'; did you mean '%s'?", quote,
                          near);
    return status_set(err, MOSAIC_USAGE, "%s '%s'",
                      argument[0] == '-' ? "unknown option" : "unexpected argument", quote);
}

/* "--NAME VALUE" or "--NAME=VALUE". */
static enum mosaic_status read_options(char **arguments, int count, struct host_options *out,
                                       struct status_error *err) {
    for (int i = 0; i < count; ++i) {
        const size_t length = strcspn(arguments[i], "=");
        int option = 0;
        while (option < OPTIONS && (strlen(options[option]) != length ||
                                    strncmp(options[option], arguments[i], length) != 0))
            ++option;
        if (option == OPTIONS)
            return unknown(arguments[i], err);
        const bool is_inside = arguments[i][length] == '=';
        if (!is_inside && i + 1 == count)
            return status_set(err, MOSAIC_USAGE, "%s needs a value", arguments[i]);
        const char *const text = is_inside ? arguments[i] + length + 1 : arguments[++i];
        TRY(read_option(option, text, out, err));
    }
    return MOSAIC_OK;
}

static enum mosaic_status run(int action, char **arguments, int count, struct status_error *err) {
    struct host_options chosen = {.threads = 1,
                                  .kernels = host_has_blas() ? KERNELS_BLAS : KERNELS_OWN,
                                  .limit_s = 0.5,
                                  .wait_s = 10.0,
                                  .fault = SAMPLE_QUANTITIES};
    static struct host host;
    TRY(read_options(arguments, count, &chosen, err));
    TRY(host_open(&chosen, &host, err));
    const enum mosaic_status status = action == SERVE     ? host_serve(&host)
                                      : action == CLUSTER ? host_print_cluster(&host, stdout)
                                                          : host_check(&host);
    host_close(&host);
    if (status == MOSAIC_NUMERIC)
        return status_set(err, status, "a result is wrong");
    if (status == MOSAIC_DEVICE)
        return status_set(err, status, "the processors cannot be measured");
    return status == MOSAIC_OK ? status
                               : status_set(err, status, "cannot write to standard output");
}

static int finish(enum mosaic_status status, const struct status_error *err) {
    if (status == MOSAIC_OK && (fflush(stdout) != 0 || ferror(stdout))) {
        say_why("cannot write to standard output");
        return MOSAIC_IO;
    }
    if (status != MOSAIC_OK)
        say_why("%s", err->message);
    if (status == MOSAIC_USAGE)
        (void)fprintf(stderr, "try '%s --help'\n", program);
    return (int)status;
}

int main(int argc, char **argv) {
    struct status_error err = {.status = MOSAIC_OK};
    int action = 0;
    while (argc > 1 && action < ACTIONS && strcmp(actions[action], argv[1]) != 0)
        ++action;
    if (argc < 2)
        return finish(status_set(&err, MOSAIC_USAGE, "needs serve, cluster or --check"), &err);
    switch (action) {
    case SERVE:
    case CLUSTER:
    case CHECK:
        return finish(run(action, argv + 2, argc - 2, &err), &err);
    case LIST:
        print_list();
        break;
    case VERSION:
        printf("%s %s\n", program, MOSAIC_VERSION);
        break;
    case HELP:
        print_help();
        break;
    default:
        return finish(unknown(argv[1], &err), &err);
    }
    return finish(MOSAIC_OK, &err);
}
