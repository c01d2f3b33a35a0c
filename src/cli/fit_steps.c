// SPDX-License-Identifier: GPL-3.0-or-later
/* The fit of step constants, its report, and a calibration document a device. */
#include "cli/fit_steps.h"

#include "cli/output.h"
#include "cli/session.h"
#include "cli/settings.h"

#include <stdlib.h>
#include <string.h>

enum { PATH_MAX_KEY = 64 };
static const char suffix[] = ".yaml";

/* Options of a law. */
static const enum option_id foreign[] = {OPTION_FORM,   OPTION_LOSS,          OPTION_PARAMETERS,
                                         OPTION_STARTS, OPTION_BOOTSTRAP,     OPTION_DRAWS,
                                         OPTION_AT,     OPTION_COMPARE_FORMS, OPTION_PLOT};

static enum mosaic_status check(const struct command *command, const struct option_set *options) {
    const char *const directory = options->value[OPTION_LAW].text;
    if (options->operand_count > 0)
        return command_refuse(command, "--steps takes no RUNS.csv");
    if (options->pair_count > 0)
        return command_refuse(command, "--fix and --filter belong to a law, not to --steps");
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        char message[OPTION_MESSAGE_MAX];
        if (!options->value[foreign[i]].given)
            continue;
        for (size_t k = 0; k < command->option_count; k++)
            if (command->options[k].id == foreign[i])
                (void)snprintf(message, sizeof message, "--%s belongs to a law, not to --steps",
                               command->options[k].name);
        return command_refuse(command, message);
    }
    if (directory && strcmp(directory, "-") == 0)
        return command_refuse(command, "standard output is taken by the report");
    return MOSAIC_OK;
}

/* "PREFIX MIDDLE SUFFIX" in one piece; free() it. */
static char *joined(const char *prefix, const char *middle, const char *name, const char *end) {
    const size_t size = strlen(prefix) + strlen(middle) + strlen(name) + strlen(end) + 1;
    char *const text = malloc(size);
    if (text)
        (void)snprintf(text, size, "%s%s%s%s", prefix, middle, name, end);
    return text;
}

static enum mosaic_status write_one(const char *directory, const char *name, const char *text) {
    char *const path = joined(directory, "/", name, suffix);
    const enum mosaic_status status = path ? output_text(path, text) : MOSAIC_INTERNAL;
    free(path);
    return status;
}

/* Each file complete or not there. */
static enum mosaic_status write_all(const char *directory, const struct mosaic_result *result) {
    struct status_error err = {0};
    const size_t count = mosaic_result_length(result, "documents");
    enum mosaic_status status = MOSAIC_OK;
    if (count == 0) {
        (void)fprintf(stderr, "mosaic: nothing is written to %s: there are no constants\n",
                      directory);
    } else if (output_directory(directory, &err) != MOSAIC_OK) {
        (void)fprintf(stderr, "mosaic: %s\n", err.message);
        return MOSAIC_IO;
    }
    for (size_t i = 0; i < count && status == MOSAIC_OK; i++) {
        char name[PATH_MAX_KEY], text[PATH_MAX_KEY];
        (void)snprintf(name, sizeof name, "documents[%zu].name", i);
        (void)snprintf(text, sizeof text, "documents[%zu].text", i);
        status = write_one(directory, mosaic_result_string(result, name),
                           mosaic_result_string(result, text));
    }
    return status;
}

static enum mosaic_status call(const struct session *session, const struct option_set *options,
                               struct mosaic_result **result) {
    static const struct setting_option table[] = {
        {OPTION_MODELS, "models", NULL},
        {OPTION_CALIBRATION, "calibration", NULL},
        {OPTION_NO_CROSS_VALIDATION, "cross_validation", "off"},
    };
    struct settings settings = {NULL, 0, false};
    settings_options(&settings, options, table, sizeof table / sizeof *table);
    const char *const *const list = settings_list(&settings);
    const enum mosaic_status status =
        list ? mosaic_fit_steps(session->mosaic, options->value[OPTION_STEPS].text, list, result)
             : MOSAIC_INTERNAL;
    settings_free(&settings);
    return status;
}

enum mosaic_status fit_steps(const struct command *command, const struct option_set *options) {
    struct session session;
    struct mosaic_result *result = NULL;
    const char *const directory = options->value[OPTION_LAW].text;
    enum mosaic_status written = MOSAIC_OK;
    TRY(check(command, options));
    if (session_begin(&session, options) == MOSAIC_OK) {
        session_report(&session, "fit", call(&session, options, &result));
        if (result && directory)
            written = write_all(directory, result);
    }
    const enum mosaic_status status = session_end(&session, result);
    return written != MOSAIC_OK ? written : status;
}
