// SPDX-License-Identifier: GPL-3.0-or-later
/* Option tables: parsing and help. */
#include "cli/option.h"

#include "base/suggest.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { SPECS_MAX = 24, HELP_COLUMN = 28, DECIMAL = 10 };

/* getopt_long returns this plus the index of the spec. */
enum { LONG_BASE = 0x100 };

static bool refuse(char message[OPTION_MESSAGE_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool refuse(char message[OPTION_MESSAGE_MAX], const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, OPTION_MESSAGE_MAX, format, args);
    va_end(args);
    return false;
}

struct known {
    const struct option_spec *specs;
    size_t count;
};

static const char *name_at(const void *context, size_t index) {
    const struct known *const known = context;
    return known->specs[index].name;
}

static size_t choice_count(const char *const *choices) {
    size_t count = 0;
    while (choices[count])
        count++;
    return count;
}

static bool take_choice(const struct option_spec *spec, const char *text, long *number,
                        char message[OPTION_MESSAGE_MAX]) {
    const size_t count = choice_count(spec->choices);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(spec->choices[i], text) == 0) {
            *number = (long)i;
            return true;
        }
    }
    const char *const near = suggest(text, spec->choices, count);
    char list[OPTION_MESSAGE_MAX / 2] = "";
    for (size_t i = 0; i < count; i++) {
        const size_t used = strlen(list);
        (void)snprintf(list + used, sizeof list - used, "%s%s",
                       i == 0           ? ""
                       : i + 1 == count ? " or "
                                        : ", ",
                       spec->choices[i]);
    }
    return refuse(message, "--%s takes %s, not '%.40s'%s%s%s", spec->name, list, text,
                  near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static bool take_number(const struct option_spec *spec, const char *text, long *number,
                        char message[OPTION_MESSAGE_MAX]) {
    char *end = NULL;
    errno = 0;
    const long value = strtol(text, &end, DECIMAL);
    const bool clean = *text >= '0' && *text <= '9' && end && *end == '\0' && errno == 0;
    if (!clean || value < spec->least || value > spec->most)
        return refuse(message, "--%s takes a whole number from %ld to %ld, not '%.40s'", spec->name,
                      spec->least, spec->most, text);
    *number = value;
    return true;
}

static bool take(const struct option_spec *spec, const char *text, struct option_set *out,
                 char message[OPTION_MESSAGE_MAX]) {
    struct option_value *const value = &out->value[spec->id];
    value->given = true;
    value->text = text;
    switch (spec->kind) {
    case OPTION_FLAG:
        return true;
    case OPTION_CHOICE:
        return take_choice(spec, text, &value->number, message);
    case OPTION_NUMBER:
        return take_number(spec, text, &value->number, message);
    case OPTION_TEXT:
        return *text ? true : refuse(message, "--%s needs %s", spec->name, spec->argument);
    case OPTION_FILE:
        return *text ? true : refuse(message, "--%s needs a file name", spec->name);
    case OPTION_PAIR:
        if (*text == '=' || !strchr(text, '='))
            return refuse(message, "--%s takes KEY=VALUE, not '%.60s'", spec->name, text);
        out->pair_of[out->pair_count] = spec->id;
        out->pairs[out->pair_count++] = text;
        return true;
    }
    return false;
}

/* Why getopt_long gave up on `word`. */
static bool explain(const struct option_spec *specs, size_t count, const char *word, int letter,
                    char message[OPTION_MESSAGE_MAX]) {
    if (letter >= LONG_BASE)
        return refuse(message, "--%s takes no value", specs[letter - LONG_BASE].name);
    if (letter != 0)
        return refuse(message, "unknown option '-%c'", letter);
    const char *const name = word + 2;
    const size_t length = strcspn(name, "=");
    char plain[OPTION_MESSAGE_MAX / 4];
    (void)snprintf(plain, sizeof plain, "%.*s", (int)(length < 60 ? length : 60), name);
    size_t prefixes = 0;
    for (size_t i = 0; i < count; i++)
        prefixes += length > 0 && strncmp(specs[i].name, name, length) == 0;
    if (prefixes > 1)
        return refuse(message, "option '--%s' is ambiguous", plain);
    const struct known known = {specs, count};
    const char *const near = suggest_from(plain, name_at, &known, count);
    return refuse(message, "unknown option '--%s'%s%s%s", plain, near ? "; did you mean '--" : "",
                  near ? near : "", near ? "'?" : "");
}

static void fill_tables(const struct option_spec *specs, size_t count,
                        struct option table[SPECS_MAX + 1], char letters[2 * SPECS_MAX + 2]) {
    size_t used = 0;
    letters[used++] = ':'; /* tell a missing argument from an unknown option */
    for (size_t i = 0; i < count; i++) {
        table[i] =
            (struct option){specs[i].name, specs[i].argument ? required_argument : no_argument,
                            NULL, LONG_BASE + (int)i};
        if (specs[i].letter) {
            letters[used++] = specs[i].letter;
            if (specs[i].argument)
                letters[used++] = ':';
        }
    }
    table[count] = (struct option){NULL, 0, NULL, 0};
    letters[used] = '\0';
}

static const struct option_spec *spec_of(const struct option_spec *specs, size_t count, int code) {
    if (code >= LONG_BASE)
        return &specs[code - LONG_BASE];
    for (size_t i = 0; i < count; i++)
        if (specs[i].letter == code)
            return &specs[i];
    return NULL;
}

static bool check_operands(const struct operand_spec *operands, const struct option_set *out,
                           char message[OPTION_MESSAGE_MAX]) {
    if (out->operand_count < operands->least)
        return refuse(message, "needs %s", operands->usage);
    if (out->operand_count > operands->most)
        return refuse(message, "unexpected argument '%.80s'", out->operands[operands->most]);
    return true;
}

bool option_parse(const struct option_spec *specs, size_t count,
                  const struct operand_spec *operands, int argc, char **argv,
                  struct option_set *out, char message[OPTION_MESSAGE_MAX]) {
    struct option table[SPECS_MAX + 1];
    char letters[2 * SPECS_MAX + 2];
    *out = (struct option_set){0};
    if (count > SPECS_MAX)
        return refuse(message, "too many options in a table");
    out->pairs = calloc((size_t)argc + 1, sizeof *out->pairs);
    out->pair_of = calloc((size_t)argc + 1, sizeof *out->pair_of);
    if (!out->pairs || !out->pair_of)
        return refuse(message, "out of memory");
    fill_tables(specs, count, table, letters);
    bool fine = true;
    optind = 0; /* also resets what a former call left behind */
    opterr = 0;
    for (;;) {
        optopt = 0;
        const int code = getopt_long(argc, argv, letters, table, NULL);
        if (code == -1)
            break;
        const struct option_spec *const spec =
            code == '?' || code == ':' ? NULL : spec_of(specs, count, code);
        if (spec && spec->id == OPTION_HELP) {
            out->value[OPTION_HELP].given = true;
            return true;
        }
        if (!fine)
            continue; /* the first error stands; go on only to find --help */
        if (spec) {
            fine = take(spec, optarg, out, message);
        } else if (code == ':') {
            const struct option_spec *const starved = spec_of(specs, count, optopt);
            fine = refuse(message, "--%s needs a value: %s", starved ? starved->name : "",
                          starved ? starved->argument : "");
        } else {
            fine = explain(specs, count, argv[optind - 1], optopt, message);
        }
    }
    out->operands = argv + optind;
    out->operand_count = argc - optind;
    return fine && check_operands(operands, out, message);
}

void option_set_free(struct option_set *set) {
    free(set->pairs);
    free(set->pair_of);
    set->pairs = NULL;
    set->pair_of = NULL;
}

static void print_help_text(const struct option_spec *spec, FILE *stream) {
    (void)fputs(spec->help, stream);
    for (size_t i = 0; spec->choices && spec->choices[i]; i++)
        (void)fprintf(stream, "%s%s", i ? ", " : ": ", spec->choices[i]);
    if (spec->initial)
        (void)fprintf(stream, " (default %s)", spec->initial);
    (void)fputc('\n', stream);
}

void option_print(const struct option_spec *specs, size_t count, FILE *stream) {
    (void)fputs("Options:\n", stream);
    for (size_t i = 0; i < count; i++) {
        char left[OPTION_MESSAGE_MAX];
        char letter[5] = "    ";
        if (specs[i].letter)
            (void)snprintf(letter, sizeof letter, "-%c, ", specs[i].letter);
        (void)snprintf(left, sizeof left, "  %.4s--%s%s%s", letter, specs[i].name,
                       specs[i].argument ? " " : "", specs[i].argument ? specs[i].argument : "");
        (void)fprintf(stream, "%-*s ", HELP_COLUMN, left);
        print_help_text(&specs[i], stream);
    }
}
