// SPDX-License-Identifier: GPL-3.0-or-later
/* mosaic fit RUNS.csv; fit_steps.c has --steps. */
#include "cli/fit_steps.h"
#include "cli/output.h"
#include "cli/plot.h"
#include "cli/session.h"

#include <stdlib.h>
#include <string.h>

/* Options as the library's settings, in the order of the table. */
static const struct {
    enum option_id id;
    const char *key;
} single[] = {{OPTION_FORM, "form"},
              {OPTION_LOSS, "loss"},
              {OPTION_PARAMETERS, "count"},
              {OPTION_STARTS, "starts"},
              {OPTION_BOOTSTRAP, "bootstrap"},
              {OPTION_DRAWS, "draws"},
              {OPTION_AT, "at"},
              {OPTION_COMPARE_FORMS, "comparison"},
              {OPTION_NO_CROSS_VALIDATION, "cross_validation"},
              {OPTION_PLOT, "plots"}};
enum { SINGLE = sizeof single / sizeof *single };

struct settings {
    char **pairs; /* ends with NULL */
    size_t count;
};

static const char *value_of(const struct option_set *options, enum option_id id) {
    if (id == OPTION_COMPARE_FORMS || id == OPTION_PLOT)
        return "on";
    if (id == OPTION_NO_CROSS_VALIDATION)
        return "off";
    return options->value[id].text;
}

static bool add(struct settings *settings, const char *key, const char *value) {
    const size_t size = strlen(key) + strlen(value) + sizeof "=";
    char *const pair = malloc(size);
    if (!pair)
        return false;
    (void)snprintf(pair, size, "%s=%s", key, value);
    settings->pairs[settings->count++] = pair;
    return true;
}

static bool collect(const struct option_set *options, struct settings *settings) {
    bool ok = true;
    settings->pairs = calloc(SINGLE + options->pair_count + 1, sizeof *settings->pairs);
    if (!settings->pairs)
        return false;
    for (size_t i = 0; ok && i < SINGLE; i++)
        if (options->value[single[i].id].given)
            ok = add(settings, single[i].key, value_of(options, single[i].id));
    for (size_t i = 0; ok && i < options->pair_count; i++)
        ok = add(settings, options->pair_of[i] == OPTION_FIX ? "fix" : "filter", options->pairs[i]);
    return ok;
}

static void settings_free(struct settings *settings) {
    for (size_t i = 0; i < settings->count; i++)
        free(settings->pairs[i]);
    free(settings->pairs);
}

static enum mosaic_status write_law(const char *path, const struct mosaic_result *result) {
    struct status_error err = {0};
    struct output output;
    const char *const law = mosaic_result_string(result, "document");
    if (!law) {
        (void)fprintf(stderr, "mosaic: %s is not written: there is no law\n", path);
        return MOSAIC_OK; /* the fit's own status says why */
    }
    enum mosaic_status status = output_open(&output, path, &err);
    if (status == MOSAIC_OK) {
        (void)fputs(law, output.stream);
        status = output_commit(&output, &err);
    }
    if (status != MOSAIC_OK)
        (void)fprintf(stderr, "mosaic: %s\n", err.message);
    return status;
}

/* Files besides the report. */
static enum mosaic_status write_files(const struct option_set *options,
                                      const struct mosaic_result *result) {
    const char *const law = options->value[OPTION_LAW].text;
    const char *const directory = options->value[OPTION_PLOT].text;
    enum mosaic_status status = law ? write_law(law, result) : MOSAIC_OK;
    if (directory && status == MOSAIC_OK)
        status = plot_write(directory, result);
    return status;
}

/* Forms that no plan can use. */
static bool is_record(const char *form) {
    return form && (strcmp(form, "krajewski") == 0 || strcmp(form, "clark") == 0);
}

enum mosaic_status cmd_fit(const struct command *command, const struct option_set *options) {
    struct session session;
    struct settings settings = {NULL, 0};
    struct mosaic_result *result = NULL;
    const char *const law = options->value[OPTION_LAW].text;
    enum mosaic_status written = MOSAIC_OK;
    if (options->value[OPTION_STEPS].given)
        return fit_steps(command, options);
    if (options->operand_count == 0)
        return command_refuse(command, "needs RUNS.csv, or --steps ROWS.csv");
    if (options->value[OPTION_MODELS].given || options->value[OPTION_CALIBRATION].given)
        return command_refuse(command, "--models and --calibration belong to --steps");
    if (law && strcmp(law, "-") == 0)
        return command_refuse(command, "standard output is taken by the report");
    if (law && is_record(options->value[OPTION_FORM].text))
        return command_refuse(command, "a law of the krajewski or clark form cannot plan: it has "
                                       "no document");
    if (options->value[OPTION_PLOT].given)
        TRY(plot_prepare(options->value[OPTION_PLOT].text));
    if (session_begin(&session, options) == MOSAIC_OK) {
        enum mosaic_status status = MOSAIC_INTERNAL;
        if (collect(options, &settings))
            status = mosaic_fit(session.mosaic, options->operands[0],
                                (const char *const *)settings.pairs, &result);
        session_report(&session, "fit", status);
        if (result)
            written = write_files(options, result);
    }
    settings_free(&settings);
    const enum mosaic_status status = session_end(&session, result);
    return written != MOSAIC_OK ? written : status;
}
