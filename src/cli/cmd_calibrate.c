// SPDX-License-Identifier: GPL-3.0-or-later
/* mosaic calibrate --probe NAME; mosaic calibrate --compare OLD NEW */
#define _XOPEN_SOURCE 700 /* readlink */ // NOLINT(bugprone-reserved-identifier,cert-*)
#include "cli/output.h"
#include "cli/session.h"
#include "cli/settings.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

/* Probes lie beside the program. */
static void add_folder(struct settings *settings) {
    char path[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0)
        return;
    path[length] = '\0';
    char *const slash = strrchr(path, '/');
    if (!slash || slash == path)
        return;
    *slash = '\0';
    settings_add(settings, "beside", path);
}

static void collect(const struct option_set *options, struct settings *settings) {
    static const struct setting_option table[] = {
        {OPTION_PROBE, "probe", NULL},     {OPTION_CLUSTER, "cluster", NULL},
        {OPTION_SAMPLES, "samples", NULL}, {OPTION_TIMEOUT, "timeout", NULL},
        {OPTION_QUICK, "level", "quick"},  {OPTION_TIME_BUDGET, "budget", NULL},
        {OPTION_FULL, "level", "full"},    {OPTION_RESTART, "restart", "on"}};
    const bool compares = options->value[OPTION_COMPARE].given;
    const char *const path = options->value[OPTION_LAW].text;
    settings_options(settings, options, table, sizeof table / sizeof *table);
    for (size_t i = 0; i < options->pair_count; i++)
        if (options->pair_of[i] == OPTION_TOLERANCE)
            settings_add_pair(settings, "tolerance.", options->pairs[i]);
    if (compares) {
        settings_add(settings, "old", options->operands[0]);
        settings_add(settings, "new", options->operands[1]);
        return;
    }
    add_folder(settings);
    if (path) {
        settings_add_name(settings, path);
        settings_add(settings, "output", path);
    }
    for (int i = 0; i < options->operand_count; i++)
        settings_add(settings, "option", options->operands[i]);
}

/* The reason, or NULL. */
static const char *conflict(const struct option_set *options) {
    const struct option_value *const value = options->value;
    const bool compares = value[OPTION_COMPARE].given;
    if (compares && options->operand_count != 2)
        return "--compare takes two calibrations: OLD NEW";
    if (compares && (value[OPTION_PROBE].given || value[OPTION_SAMPLES].given ||
                     value[OPTION_LAW].given || value[OPTION_RESTART].given))
        return "--compare measures nothing: no --probe, --samples, --restart, --output";
    if (compares)
        return NULL;
    if (!value[OPTION_PROBE].given)
        return "--probe NAME is needed, or --compare OLD NEW";
    if (value[OPTION_TOLERANCE].given)
        return "--tolerance is of --compare";
    if (value[OPTION_QUICK].given && value[OPTION_FULL].given)
        return "--quick and --full exclude each other";
    if (value[OPTION_RESTART].given && !value[OPTION_SAMPLES].given)
        return "--restart is of the journal: --samples FILE";
    if (value[OPTION_LAW].given && strcmp(value[OPTION_LAW].text, "-") == 0)
        return "standard output is taken by the report: --output FILE";
    if (value[OPTION_SAMPLES].given && strcmp(value[OPTION_SAMPLES].text, "-") == 0)
        return "--samples takes a file that can be read again";
    return NULL;
}

/* A run that was broken off leaves an earlier document as it is. */
static enum mosaic_status keep_document(const char *path, const struct mosaic_result *result) {
    const char *const text = mosaic_result_string(result, "document");
    const char *const status = mosaic_result_string(result, "status");
    if (text && (strcmp(status, "ok") == 0 || strcmp(status, "partial") == 0))
        return output_text(path, text);
    (void)fprintf(stderr, "mosaic: %s was not written: the calibration is not complete\n", path);
    return MOSAIC_OK;
}

enum mosaic_status cmd_calibrate(const struct command *command, const struct option_set *options) {
    struct session session;
    struct settings settings = {NULL, 0, false};
    struct mosaic_result *result = NULL;
    enum mosaic_status written = MOSAIC_OK;
    const char *const wrong = conflict(options);
    if (wrong)
        return command_refuse(command, wrong);
    if (session_begin(&session, options) == MOSAIC_OK) {
        collect(options, &settings);
        const char *const *const list = settings_list(&settings);
        const enum mosaic_status status =
            list ? mosaic_calibrate(session.mosaic, list, &result) : MOSAIC_INTERNAL;
        session_report(&session, "calibrate", status);
        if (result && options->value[OPTION_LAW].given)
            written = keep_document(options->value[OPTION_LAW].text, result);
    }
    settings_free(&settings);
    const enum mosaic_status status = session_end(&session, result);
    return written != MOSAIC_OK ? written : status;
}
