// SPDX-License-Identifier: GPL-3.0-or-later
/* The public interface to measured steps: predictions held against them, constants fitted to them.
 */
#include "mosaic_session.h"

#include "doc/doc_steps.h"
#include "doc/validate_settings.h"
#include "fit/step_validate.h"
#include "report/build.h"
#include "report/fit_steps_view.h"
#include "report/validate_view.h"

#include <stdlib.h>
#include <string.h>

/* The two tables; the models lie beside the rows unless they are named. */
static enum mosaic_status load_tables(struct mosaic *session, const char *rows_path,
                                      const char *models, const struct step_table_options *options,
                                      struct step_tables **tables) {
    struct status_error err = {0};
    char *beside = NULL;
    if (!models && validate_models_beside(rows_path, &beside, &err) != MOSAIC_OK)
        return call_report(session, &err);
    const enum mosaic_status status =
        doc_steps_load(rows_path, models ? models : beside, options, &session->diags, tables);
    free(beside);
    return status;
}

/* Once the tables are read. */
static enum mosaic_status validate_tables(struct mosaic *session,
                                          const struct validate_settings *settings,
                                          const char *const *pairs,
                                          const struct step_tables *tables,
                                          struct mosaic_result **result) {
    struct status_error err = {0};
    struct step_validation *validation = NULL;
    struct validate_options options = {.anchors = settings->anchors, .stop = &session->stop};
    TRY(validate_generic(tables->memory, &session->diags, &options.generic));
    if (step_validation_run(&tables->steps, &options, &validation, &err) != MOSAIC_OK)
        return call_report(session, &err);
    const struct validate_view view = {.tables = tables,
                                       .validation = validation,
                                       .asked = settings,
                                       .settings = pairs,
                                       .diags = &session->diags,
                                       .seed = session->seed};
    enum mosaic_status end = MOSAIC_OK;
    if (validation->stopped)
        end = MOSAIC_INTERRUPTED;
    else if (validation->count == 0)
        end = diag_status(&session->diags, MOSAIC_BAD_INPUT, NULL,
                          "none of %zu rows can be scored; the result names the reasons",
                          tables->steps.rows);
    const enum mosaic_status status = call_finish(session, build_validate(&view), end, result);
    step_validation_free(validation);
    return status;
}

enum mosaic_status mosaic_validate(struct mosaic *session, const char *rows_path,
                                   const char *const *settings, struct mosaic_result **result) {
    call_begin(session);
    struct validate_settings s;
    struct status_error err = {0};
    struct step_tables *tables = NULL;
    validate_settings_init(&s);
    for (size_t i = 0; settings && settings[i]; ++i)
        if (validate_settings_put(&s, settings[i], &err) != MOSAIC_OK)
            return call_report(session, &err);
    const struct step_table_options options = {.calibration = s.calibration};
    enum mosaic_status status = load_tables(session, rows_path, s.models, &options, &tables);
    if (status == MOSAIC_OK && tables)
        status = validate_tables(session, &s, settings, tables, result);
    doc_steps_free(tables);
    return status;
}

struct fit_steps_settings {
    const char *models, *calibration;
    bool hold_out;
};

static enum mosaic_status fit_steps_put(struct fit_steps_settings *s, const char *pair,
                                        struct status_error *err) {
    static const char models[] = "models=", calibration[] = "calibration=";
    char shown[STATUS_QUOTE_MAX];
    if (strncmp(pair, models, sizeof models - 1) == 0)
        s->models = pair + sizeof models - 1;
    else if (strncmp(pair, calibration, sizeof calibration - 1) == 0)
        s->calibration = pair + sizeof calibration - 1;
    else if (strcmp(pair, "cross_validation=off") == 0)
        s->hold_out = false;
    else
        return status_set(err, MOSAIC_USAGE, "step constants take no setting '%s'",
                          status_quote(pair, shown, sizeof shown));
    return MOSAIC_OK;
}

static enum mosaic_status fit_steps_tables(struct mosaic *session, const char *rows_path,
                                           const char *const *settings, bool hold_out,
                                           const struct step_tables *tables,
                                           struct mosaic_result **result) {
    struct step_study *study = NULL;
    struct status_error err = {0};
    const struct step_fit_options options = {.threads = session->threads, .stop = &session->stop};
    if (step_study_run(&tables->steps, hold_out, &options, &study, &err) != MOSAIC_OK)
        return call_report(session, &err);
    const struct fit_steps_view view = {.tables = tables,
                                        .study = study,
                                        .rows_path = rows_path,
                                        .settings = settings,
                                        .diags = &session->diags,
                                        .seed = session->seed};
    const enum mosaic_status status = call_finish(
        session, build_fit_steps(&view), study->fit.converged ? MOSAIC_OK : MOSAIC_NUMERIC, result);
    step_study_free(study);
    return status;
}

enum mosaic_status mosaic_fit_steps(struct mosaic *session, const char *rows_path,
                                    const char *const *settings, struct mosaic_result **result) {
    call_begin(session);
    struct fit_steps_settings s = {.calibration = "generic", .hold_out = true};
    struct status_error err = {0};
    struct step_tables *tables = NULL;
    for (size_t i = 0; settings && settings[i]; ++i)
        if (fit_steps_put(&s, settings[i], &err) != MOSAIC_OK)
            return call_report(session, &err);
    const struct step_table_options options = {.calibration = s.calibration, .is_screened = true};
    enum mosaic_status status = load_tables(session, rows_path, s.models, &options, &tables);
    if (status == MOSAIC_OK && tables)
        status = fit_steps_tables(session, rows_path, settings, s.hold_out, tables, result);
    doc_steps_free(tables);
    return status;
}
