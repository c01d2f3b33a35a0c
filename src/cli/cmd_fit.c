// SPDX-License-Identifier: GPL-3.0-or-later
/* mosaic fit RUNS.csv; fit_steps.c has --steps. */
#include "cli/fit_steps.h"
#include "cli/output.h"
#include "cli/plot.h"
#include "cli/session.h"
#include "cli/settings.h"

#include <string.h>

static const struct setting_option table[] = {
    {OPTION_FORM, "form", NULL},
    {OPTION_LOSS, "loss", NULL},
    {OPTION_PARAMETERS, "count", NULL},
    {OPTION_STARTS, "starts", NULL},
    {OPTION_BOOTSTRAP, "bootstrap", NULL},
    {OPTION_DRAWS, "draws", NULL},
    {OPTION_AT, "at", NULL},
    {OPTION_COMPARE_FORMS, "comparison", "on"},
    {OPTION_NO_CROSS_VALIDATION, "cross_validation", "off"},
    {OPTION_PLOT, "plots", "on"},
};

static void collect(const struct option_set *options, struct settings *settings) {
    settings_options(settings, options, table, sizeof table / sizeof *table);
    for (size_t i = 0; i < options->pair_count; i++)
        settings_add(settings, options->pair_of[i] == OPTION_FIX ? "fix" : "filter",
                     options->pairs[i]);
}

static enum mosaic_status write_law(const char *path, const struct mosaic_result *result) {
    const char *const law = mosaic_result_string(result, "document");
    if (law)
        return output_text(path, law);
    (void)fprintf(stderr, "mosaic: %s is not written: there is no law\n", path);
    return MOSAIC_OK; /* the fit's own status says why */
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
    struct settings settings = {NULL, 0, false};
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
        collect(options, &settings);
        const char *const *const list = settings_list(&settings);
        session_report(&session, "fit",
                       list ? mosaic_fit(session.mosaic, options->operands[0], list, &result)
                            : MOSAIC_INTERNAL);
        if (result)
            written = write_files(options, result);
    }
    settings_free(&settings);
    const enum mosaic_status status = session_end(&session, result);
    return written != MOSAIC_OK ? written : status;
}
