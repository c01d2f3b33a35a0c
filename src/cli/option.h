// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * One table a command describes its options; parsing (getopt_long), --help and shell completion
 * all read it, so that they cannot disagree.
 */
#ifndef MOSAIC_CLI_OPTION_H
#define MOSAIC_CLI_OPTION_H

#include <stdbool.h>
#include <stdio.h>

enum option_kind {
    OPTION_FLAG,
    OPTION_CHOICE, /* one of `choices` */
    OPTION_NUMBER, /* whole, from `least` to `most` */
    OPTION_FILE,
    OPTION_TEXT, /* any, not empty */
    OPTION_PAIR  /* KEY=VALUE, may be repeated */
};

enum option_id {
    OPTION_FORMAT,
    OPTION_OUTPUT,
    OPTION_SET,
    OPTION_THREADS,
    OPTION_SEED,
    OPTION_COLOR,
    OPTION_PROGRESS,
    OPTION_VERBOSE,
    OPTION_HELP,
    OPTION_SEQUENCE,
    OPTION_SHOW_DEFAULTS,
    OPTION_VERSION,
    OPTION_FORM,
    OPTION_LOSS,
    OPTION_PARAMETERS,
    OPTION_FIX,
    OPTION_FILTER,
    OPTION_STARTS,
    OPTION_BOOTSTRAP,
    OPTION_DRAWS,
    OPTION_AT,
    OPTION_COMPARE_FORMS,
    OPTION_NO_CROSS_VALIDATION,
    OPTION_LAW,
    OPTION_PLOT,
    OPTION_STEPS,
    OPTION_MODELS,
    OPTION_CALIBRATION,
    OPTION_ANCHOR,
    OPTION_GROUP_BY,
    OPTION_WORST,
    OPTION_MODEL,
    OPTION_TOP,
    OPTION_LAYOUT,
    OPTION_BASELINE,
    OPTION_UPDATE,
    OPTION_TOLERANCE,
    OPTION_JUNIT,
    OPTION_ANNOTATIONS,
    OPTION_VARY,
    OPTION_RESUME,
    OPTION_SHARD,
    OPTION_CERTIFICATE,
    OPTION_SENSITIVITY,
    OPTION_MEASURED,
    OPTION_TIME_LIMIT,
    OPTION_GEOMETRY_LIMIT,
    OPTION_MERGE,
    OPTION_CLUSTER,
    OPTION_DEVICE,
    OPTION_OVER,
    OPTION_COLLECTIVE,
    OPTION_RANKS,
    OPTION_RANKS_PER_NODE,
    OPTION_SOFTWARE,
    OPTION_LICENCE,
    OPTION_QUANTISATION,
    OPTION_STRICT,
    OPTION_PROBE,
    OPTION_QUICK,
    OPTION_FULL,
    OPTION_SAMPLES,
    OPTION_RESTART,
    OPTION_TIMEOUT,
    OPTION_TIME_BUDGET,
    OPTION_COMPARE,
    OPTION_TO,
    OPTION_ENTRY,
    OPTION_COUNT
};

struct option_spec {
    enum option_id id;
    enum option_kind kind;
    const char *name;           /* without dashes */
    char letter;                /* '\0' for none */
    const char *argument;       /* "FILE"; NULL for a flag */
    const char *const *choices; /* ends with NULL; for OPTION_CHOICE */
    long least, most;           /* for OPTION_NUMBER */
    const char *initial;        /* default as --help shows it, or NULL */
    const char *help;           /* no full stop */
};

/* What a command takes besides options. */
struct operand_spec {
    const char *usage; /* "FILE", "A B", "" */
    int least, most;
    bool is_file;               /* completed as file names */
    const char *const *choices; /* completed from these instead, or NULL */
};

struct option_value {
    bool given;
    const char *text;
    long number; /* OPTION_NUMBER: the value; OPTION_CHOICE: index of the choice */
};

struct option_set {
    struct option_value value[OPTION_COUNT];
    const char **pairs;      /* of OPTION_PAIR, in order; freed by option_set_free() */
    enum option_id *pair_of; /* which option each came from; the same */
    size_t pair_count;
    char *const *operands;
    int operand_count;
};

enum { OPTION_MESSAGE_MAX = 256 };

/* argv[0] is the command itself.  False leaves a one-line reason in `message`.  --help ends parsing
 * well, whatever else is wrong. */
bool option_parse(const struct option_spec *specs, size_t count,
                  const struct operand_spec *operands, int argc, char **argv,
                  struct option_set *out, char message[OPTION_MESSAGE_MAX]);
void option_set_free(struct option_set *set);
/* The "Options:" part of --help. */
void option_print(const struct option_spec *specs, size_t count, FILE *stream);

#endif
