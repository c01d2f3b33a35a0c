// SPDX-License-Identifier: GPL-3.0-or-later
/* A plan that takes measured steps is searched twice: without them, for what they change, and then
 * with them. */
#include "mosaic_measured.h"

#include <stdlib.h>

static enum mosaic_status search_before(struct mosaic *session, const struct problem *problem,
                                        const struct plan_settings *asked, struct measured_study *s,
                                        struct status_error *err) {
    struct search_options options = call_search_options(session);
    options.time_limit_s = asked->time_limit_s;
    options.geometry_limit = asked->geometry_limit;
    struct series series;
    series_begin(&series, &options, (size_t)fleet_size(problem));
    TRY(fleet_search(problem, &series, &s->on_best, &s->search, &s->fleet, err));
    return decision_find(&s->on_best, &s->search, NULL, session->seed, &s->decision, err);
}

enum mosaic_status measured_study_run(struct mosaic *session, const struct document *document,
                                      const struct plan_settings *asked,
                                      struct measured_study **out, struct status_error *err) {
    enum mosaic_status status = MOSAIC_OK;
    const struct problem *const problem = &document->problem;
    if (!asked->measured)
        return MOSAIC_OK;
    struct measured_study *const s = calloc(1, sizeof *s);
    if (!s)
        return status_no_memory(err);
    TRY_GOTO(doc_measured_read(document, asked->measured, &session->diags, &s->table));
    TRY_GOTO(search_before(session, problem, asked, s, err));
    TRY_GOTO(anchored_problem_init(problem, &s->table.layouts, &s->anchored, err));
    *out = s;
    return MOSAIC_OK;
out:
    measured_study_free(s);
    return status;
}

void measured_study_free(struct measured_study *study) {
    if (!study)
        return;
    search_result_free(&study->search);
    anchored_problem_free(&study->anchored);
    free(study);
}
