// SPDX-License-Identifier: GPL-3.0-or-later
/* The public interface to plans: the search, and everything after it that the report needs. */
#include "mosaic_session.h"

#include "doc/plan_settings.h"
#include "doc/step_key.h"
#include "mosaic_measured.h"
#include "report/result.h"

#include <stdlib.h>

/* The optimum on paper at the declared comparison budget, or at what the best plan spends. */
static enum mosaic_status paper_of(const struct problem *problem, struct search_result *search,
                                   struct paper_optimum *paper, struct status_error *err) {
    double flops = problem->budget.model_flops;
    if (!(flops > 0.0) && search->kept_count > 0)
        flops = search->kept[0].model_flops;
    if (!(flops > 0.0)) {
        *paper = (struct paper_optimum){0};
        return MOSAIC_OK;
    }
    return paper_optimum_find(problem, flops, search, paper, err);
}

/* A limit reached with a plan in hand is no failure. */
static enum mosaic_status end_of(const struct search_result *search, bool is_cut_short) {
    static const enum mosaic_status ends[] = {[SEARCH_OPTIMAL] = MOSAIC_OK,
                                              [SEARCH_INFEASIBLE] = MOSAIC_NO_PLAN,
                                              [SEARCH_INTERRUPTED] = MOSAIC_INTERRUPTED,
                                              [SEARCH_LIMIT] = MOSAIC_NUMERIC};
    if (is_cut_short)
        return MOSAIC_INTERRUPTED;
    return search->status == SEARCH_LIMIT && search->kept_count > 0 ? MOSAIC_OK
                                                                    : ends[search->status];
}

/* Everything that one plan comes from; on the heap, it is large. */
struct plan_study {
    const struct mosaic_document *document;
    const struct problem *declared; /* the document's, or that with measured steps */
    const struct problem *problem;  /* the same; once searched, that on the best nodes */
    struct problem on_best;
    struct plan_settings asked;
    struct search_options options;
    struct memo_store *own_memos; /* of a problem that is not the document's */
    struct memo_source memos;
    char steps[DOCUMENT_HASH_MAX];
    struct search_result search;
    struct fleet fleet;
    struct pareto pareto;
    struct paper_optimum paper;
    struct mfu_elasticities elasticities;
    struct shortfall shortfall;
    struct law_uncertainty law;
    struct sensitivity sensitivity;
    struct decision decision;
    struct measured_study *measured; /* NULL without measured steps */
    struct measured_pair pairs[MEASURED_LAYOUTS_MAX];
};

/* Everything after the search that the report needs. */
static enum mosaic_status study_result(struct plan_study *s, unsigned long seed,
                                       struct status_error *err) {
    const bool is_done = s->search.status == SEARCH_OPTIMAL;
    TRY(paper_of(s->problem, &s->search, &s->paper, err));
    if (is_done)
        TRY(mfu_elasticities_find(s->problem, &s->search.kept[0], &s->elasticities, err));
    if (is_done)
        TRY(law_uncertainty_find(s->problem, &s->search, &s->law, err));
    const struct measured_pairs measured =
        s->measured
            ? measured_pairs_on(&s->measured->table.layouts, s->problem->cluster.nodes, s->pairs)
            : (struct measured_pairs){.count = 0};
    TRY(decision_find(s->problem, &s->search, &measured, seed, &s->decision, err));
    if (is_done && s->asked.sensitivity)
        TRY(sensitivity_find(s->problem, &s->search, &s->options, &s->sensitivity, err));
    if (s->search.status == SEARCH_INFEASIBLE)
        TRY(shortfall_find(s->problem, &s->search, &s->shortfall, err));
    return MOSAIC_OK;
}

/* Steps measured on the layouts of an earlier plan, where there are such. */
static enum mosaic_status study_measured(struct mosaic *session, struct plan_study *s,
                                         struct status_error *err) {
    TRY(measured_study_run(session, s->document->document, &s->asked, &s->measured, err));
    if (s->measured)
        s->declared = s->problem = &s->measured->anchored.problem;
    return MOSAIC_OK;
}

/* Measured steps change the predictions, and so what is known of the document's own steps. */
static enum mosaic_status study_memos(const struct mosaic *session, struct plan_study *s,
                                      struct status_error *err) {
    TRY(document_step_key(s->document->document, s->steps, err));
    if (s->measured) {
        s->own_memos = memo_store_new();
        if (!s->own_memos)
            return status_no_memory(err);
    }
    s->memos = (struct memo_source){s->measured ? s->own_memos : session->memos, s->steps};
    return MOSAIC_OK;
}

static enum mosaic_status study_search(struct plan_study *s, struct status_error *err) {
    s->options.open_all = s->problem->law_draws.count > 0;
    s->options.time_limit_s = s->asked.time_limit_s;
    s->options.geometry_limit = s->asked.geometry_limit;
    struct series series;
    series_begin(&series, &s->options, (size_t)fleet_size(s->problem) + pareto_size(s->problem));
    series.memos = &s->memos;
    TRY(fleet_search(s->problem, &series, &s->on_best, &s->search, &s->fleet, err));
    TRY(pareto_find(s->problem, &series, &s->pareto, err));
    s->options.memo = s->fleet.memo;
    s->problem = &s->on_best;
    return MOSAIC_OK;
}

/* The result, and the certificate where it is asked for. */
static enum mosaic_status study_report(struct mosaic *session, const struct plan_study *s,
                                       struct mosaic_result **result) {
    const bool is_infeasible = s->search.status == SEARCH_INFEASIBLE;
    const bool has_sensitivity = s->asked.sensitivity && s->search.status == SEARCH_OPTIMAL;
    const bool is_cut_short = s->sensitivity.is_stopped ||
                              (s->pareto.searched < s->pareto.grid && atomic_load(&session->stop));
    const struct measured_study *const m = s->measured;
    const struct plan_before before = {.table = m ? &m->table : NULL,
                                       .problem = m ? &m->on_best : NULL,
                                       .search = m ? &m->search : NULL,
                                       .decision = m ? &m->decision : NULL};
    const struct plan_report plan = {.document = s->document->document,
                                     .declared = s->declared,
                                     .problem = s->problem,
                                     .search = &s->search,
                                     .fleet = &s->fleet,
                                     .pareto = &s->pareto,
                                     .paper = s->paper.model_flops > 0.0 ? &s->paper : NULL,
                                     .elasticities = &s->elasticities,
                                     .shortfall = is_infeasible ? &s->shortfall : NULL,
                                     .law_uncertainty = &s->law,
                                     .sensitivity = has_sensitivity ? &s->sensitivity : NULL,
                                     .decision = &s->decision,
                                     .measured = m ? &before : NULL,
                                     .diags = &s->document->diags};
    struct mosaic_result *made = NULL;
    const enum mosaic_status status = call_finish(session, build_plan(&plan, session->seed),
                                                  end_of(&s->search, is_cut_short), &made);
    if (!made)
        return status;
    if (s->asked.certificate) {
        made->document = build_certificate(&plan, s->fleet.memo, session->seed);
        if (!made->document) {
            mosaic_result_free(made);
            return diag_status(&session->diags, MOSAIC_INTERNAL, NULL, "out of memory");
        }
    }
    *result = made;
    return status;
}

enum mosaic_status mosaic_plan(struct mosaic *session, const struct mosaic_document *document,
                               const char *const *settings, struct mosaic_result **result) {
    call_begin(session);
    TRY(call_needs_problem(session, document->document));
    struct status_error err = {0};
    struct plan_study *const study = calloc(1, sizeof *study);
    if (!study)
        return diag_status(&session->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    study->document = document;
    study->declared = study->problem = &document->document->problem;
    study->options = call_search_options(session);
    enum mosaic_status status = plan_settings_read(settings, &study->asked, &err);
    if (status == MOSAIC_OK)
        status = study_measured(session, study, &err);
    if (status == MOSAIC_OK)
        status = study_memos(session, study, &err);
    if (status == MOSAIC_OK)
        status = study_search(study, &err);
    if (status == MOSAIC_OK)
        status = study_result(study, session->seed, &err);
    if (status == MOSAIC_OK)
        status = study_report(session, study, result);
    else if (err.status != MOSAIC_OK) /* else it has been reported */
        status = call_report(session, &err);
    search_result_free(&study->search);
    memo_store_give(study->memos.store, study->fleet.memo);
    memo_store_free(study->own_memos);
    pareto_free(&study->pareto);
    measured_study_free(study->measured);
    free(study);
    return status;
}
