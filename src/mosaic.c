// SPDX-License-Identifier: GPL-3.0-or-later
/* The public interface: a session around documents, the search and the result builders. */
#include "mosaic_session.h"

#include "doc/save_law.h"
#include "fit/fit_settings.h"
#include "report/build.h"
#include "report/explain_view.h"
#include "report/layout_list_view.h"
#include "report/result.h"
#include "report/schedules_view.h"

#include <gsl/gsl_errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>

#ifndef MOSAIC_VERSION
#define MOSAIC_VERSION "0.0.0"
#endif

enum { THREADS_MAX = 256 };

const char *mosaic_version(void) {
    return MOSAIC_VERSION;
}

struct mosaic *mosaic_new(void) {
    struct mosaic *const session = calloc(1, sizeof *session);
    if (!session)
        return NULL;
    session->memos = memo_store_new();
    if (!session->memos) {
        free(session);
        return NULL;
    }
    (void)gsl_set_error_handler_off();
    session->seed = 1;
    atomic_init(&session->stop, false);
    diag_init(&session->diags);
    return session;
}

static void override_free(const struct document_override *override) {
    free((void *)(uintptr_t) override->key);
    free((void *)(uintptr_t) override->value);
}

void mosaic_free(struct mosaic *session) {
    if (!session)
        return;
    for (size_t i = 0; i < session->override_count; ++i)
        override_free(&session->overrides[i]);
    free(session->overrides);
    memo_store_free(session->memos);
    talloc_free(session->text);
    free(session);
}

void call_begin(struct mosaic *session) {
    diag_init(&session->diags);
    talloc_free(session->text);
    session->text = NULL;
}

enum mosaic_status call_report(struct mosaic *session, const struct status_error *err) {
    return diag_from_error(&session->diags, NULL, err);
}

enum mosaic_status mosaic_set_threads(struct mosaic *session, int threads) {
    call_begin(session);
    if (threads < 0 || threads > THREADS_MAX)
        return diag_status(&session->diags, MOSAIC_USAGE, NULL,
                           "%d threads: takes 0 (all processors) to %d", threads, THREADS_MAX);
    session->threads = threads;
    return MOSAIC_OK;
}

void mosaic_set_seed(struct mosaic *session, unsigned long seed) {
    session->seed = seed;
}

/* An earlier value of the same key; the order of the others stays. */
static void drop_override(struct mosaic *session, const char *key) {
    for (size_t i = 0; i < session->override_count; ++i) {
        struct document_override *const at = &session->overrides[i];
        if (strcmp(at->key, key) == 0) {
            override_free(at);
            memmove(at, at + 1, (--session->override_count - i) * sizeof *at);
            return;
        }
    }
}

enum mosaic_status mosaic_set(struct mosaic *session, const char *key, const char *value) {
    call_begin(session);
    static const char schema[] = "schema";
    const size_t length = strlen(key), tail = sizeof schema - 1;
    if (length >= tail && strcmp(key + length - tail, schema) == 0 &&
        (length == tail || key[length - tail - 1] == '.'))
        return diag_status(&session->diags, MOSAIC_BAD_INPUT, NULL,
                           "--set %s: the schema of a document cannot be set", key);
    struct document_override *const grown =
        realloc(session->overrides, (session->override_count + 1) * sizeof *grown);
    if (!grown)
        return diag_status(&session->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    session->overrides = grown;
    const struct document_override next = {strdup(key), strdup(value)};
    if (!next.key || !next.value) {
        override_free(&next);
        return diag_status(&session->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    }
    drop_override(session, key);
    session->overrides[session->override_count++] = next;
    return MOSAIC_OK;
}

void mosaic_interrupt(struct mosaic *session) {
    atomic_store(&session->stop, true);
}

void mosaic_on_progress(struct mosaic *session,
                        void (*call)(void *context, double done, double total), void *context) {
    session->progress = call;
    session->progress_context = context;
}

const char *mosaic_diagnostics(const struct mosaic *session) {
    struct mosaic *const s = (struct mosaic *)(uintptr_t)session;
    if (!s->text)
        s->text = diag_text(NULL, &s->diags, false);
    return s->text ? s->text : "";
}

enum mosaic_status mosaic_load(struct mosaic *session, const char *path,
                               struct mosaic_document **document) {
    call_begin(session);
    struct mosaic_document *const d = calloc(1, sizeof *d);
    if (!d)
        return diag_status(&session->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    const struct document_options options = {.overrides = session->overrides,
                                             .override_count = session->override_count,
                                             .threads = session->threads,
                                             .seed = session->seed,
                                             .stop = &session->stop};
    const enum mosaic_status status =
        document_load_with(path, &options, &session->diags, &d->document);
    if (status != MOSAIC_OK) {
        free(d);
        return status;
    }
    d->diags = session->diags;
    *document = d;
    return MOSAIC_OK;
}

void mosaic_document_free(struct mosaic_document *document) {
    if (!document)
        return;
    document_free(document->document);
    free(document);
}

enum mosaic_status call_needs_problem(struct mosaic *session, const struct document *document) {
    if (document->has_problem)
        return MOSAIC_OK;
    return diag_status(&session->diags, MOSAIC_BAD_INPUT, NULL,
                       "%s holds a document of kind %s: a plan, or a cluster with nodes and a "
                       "budget, is needed",
                       document->path, document_kind_name(document->kind));
}

enum mosaic_status call_finish(struct mosaic *session, json_t *root, enum mosaic_status status,
                               struct mosaic_result **result) {
    struct status_error err = {0};
    const enum mosaic_status made = result_new(root, status, result, &err);
    return made == MOSAIC_OK ? status : call_report(session, &err);
}

struct search_options call_search_options(const struct mosaic *session) {
    return (struct search_options){.threads = session->threads,
                                   .stop = &session->stop,
                                   .progress = session->progress,
                                   .progress_context = session->progress_context};
}

/* What training a point comes to, where it can be. */
static void point_training(struct report_point *point) {
    const struct problem *const problem = point->problem;
    point->has_tokens = candidate_train(problem, &problem->law, &point->geometry,
                                        point->prediction.step_time_s, &point->run) &&
                        point->prediction.verdict != VERDICT_NO;
}

/* Of a point that has been predicted. */
static enum mosaic_status finish_point(struct report_point *point, struct status_error *err) {
    TRY(best_layout_check(&point->prediction, err));
    point_training(point);
    return MOSAIC_OK;
}

/* The stated split, else the even one or a better one where the engine may launch it: what `plan`
 * would launch. */
static enum mosaic_status pinned_point(const struct mosaic_document *document,
                                       struct report_point *point, struct status_error *err) {
    const struct problem *const problem = &document->document->problem;
    point->document = document->document;
    point->problem = problem;
    point->diags = &document->diags;
    TRY(document_pinned(document->document, &point->geometry, &point->layout.mesh, err));
    TRY(mesh_check_engine(&point->layout.mesh, &point->geometry, &problem->workload,
                          &problem->engine, err));
    const struct mesh mesh = point->layout.mesh;
    TRY(best_layout_evaluate(problem, &point->geometry, &mesh, &point->layout, &point->prediction,
                             point->stages, err));
    return finish_point(point, err);
}

enum mosaic_status mosaic_predict(struct mosaic *session, const struct mosaic_document *document,
                                  struct mosaic_result **result) {
    call_begin(session);
    TRY(call_needs_problem(session, document->document));
    struct status_error err = {0};
    struct report_point *const point = calloc(1, sizeof *point);
    if (!point)
        return diag_status(&session->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    enum mosaic_status status = pinned_point(document, point, &err);
    const bool fits = status != MOSAIC_OK || point->prediction.verdict != VERDICT_NO;
    if (status == MOSAIC_OK)
        status = call_finish(session, build_predict(point, session->seed),
                             fits ? MOSAIC_OK
                                  : diag_status(&session->diags, MOSAIC_NO_PLAN, NULL,
                                                "the layout does not fit in memory"),
                             result);
    else
        (void)call_report(session, &err);
    free(point);
    return status;
}

/* Once the point is known. */
static enum mosaic_status schedules_result(struct mosaic *session, const struct report_point *point,
                                           struct mosaic_result **result) {
    const struct problem *const problem = point->problem;
    struct step_context ctx;
    struct layer_table table;
    struct live_sets sets;
    struct live_timeline timeline;
    problem_context(problem, &point->geometry, point->layout.mesh.way, &ctx);
    layer_table_fill(&ctx, &point->layout.mesh, &table);
    live_sets_of(&ctx, &table, &point->layout.mesh, &point->layout.split, &sets);
    live_timeline_of(&ctx, &table, &point->layout.mesh, &point->layout.split, &sets, &timeline);
    const struct schedules_view view = {point, &sets, &timeline, session->seed};
    const enum mosaic_status end = point->prediction.verdict != VERDICT_NO
                                       ? MOSAIC_OK
                                       : diag_status(&session->diags, MOSAIC_NO_PLAN, NULL,
                                                     "the layout does not fit in memory");
    return call_finish(session, build_schedules(&view), end, result);
}

enum mosaic_status mosaic_schedules(struct mosaic *session, const struct mosaic_document *document,
                                    struct mosaic_result **result) {
    call_begin(session);
    TRY(call_needs_problem(session, document->document));
    struct status_error err = {0};
    if (document->document->problem.estimator.release_memory) {
        (void)status_set(&err, MOSAIC_BAD_INPUT,
                         "the published estimator knows no memory schedules");
        status_hint(&err, "estimator: default prices them");
        return call_report(session, &err);
    }
    struct report_point *const point = calloc(1, sizeof *point);
    if (!point)
        return diag_status(&session->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    enum mosaic_status status = pinned_point(document, point, &err);
    status =
        status == MOSAIC_OK ? schedules_result(session, point, result) : call_report(session, &err);
    free(point);
    return status;
}

enum mosaic_status mosaic_layout(struct mosaic *session, const struct mosaic_document *document,
                                 long top, struct mosaic_result **result) {
    static const enum mosaic_status ends[] = {[SEARCH_OPTIMAL] = MOSAIC_OK,
                                              [SEARCH_INFEASIBLE] = MOSAIC_NO_PLAN,
                                              [SEARCH_INTERRUPTED] = MOSAIC_INTERRUPTED};
    call_begin(session);
    TRY(call_needs_problem(session, document->document));
    struct layout_study *const study = malloc(sizeof *study);
    if (!study)
        return diag_status(&session->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    struct status_error err = {0};
    const struct layout_list_options options = {.top = top > 0 ? (size_t)top : 0,
                                                .stop = &session->stop,
                                                .progress = session->progress,
                                                .progress_context = session->progress_context};
    enum mosaic_status status =
        layout_study_run(&document->document->problem, &options, study, &err);
    const struct layout_list_view view = {document->document, study, &document->diags,
                                          session->seed};
    status = status == MOSAIC_OK
                 ? call_finish(session, build_layout_list(&view), ends[study->list.status], result)
                 : call_report(session, &err);
    free(study);
    return status;
}

enum mosaic_status mosaic_explain(struct mosaic *session, const struct mosaic_document *document,
                                  const char *layout, struct mosaic_result **result) {
    call_begin(session);
    TRY(call_needs_problem(session, document->document));
    struct explanation *const explanation = malloc(sizeof *explanation);
    if (!explanation)
        return diag_status(&session->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    struct status_error err = {0};
    const struct search_options options = call_search_options(session);
    enum mosaic_status status =
        explain_layout(&document->document->problem, layout, &options, explanation, &err);
    const struct explain_view view = {document->document, &document->diags, explanation};
    status = status == MOSAIC_OK
                 ? call_finish(session, build_explain(&view, session->seed), MOSAIC_OK, result)
                 : call_report(session, &err);
    free(explanation);
    return status;
}

enum mosaic_status mosaic_count(struct mosaic *session, const struct mosaic_document *document,
                                long sequence, struct mosaic_result **result) {
    call_begin(session);
    const struct document *const d = document->document;
    if (!d->has_geometry)
        return diag_status(&session->diags, MOSAIC_BAD_INPUT, NULL,
                           "%s does not name exactly one model", d->path);
    const long default_sequence = 4096, longest = 16777216;
    long tokens = sequence;
    if (tokens == 0)
        tokens = d->has_problem ? (long)d->problem.workload.sequence : default_sequence;
    if (tokens < 1 || tokens > longest)
        return diag_status(&session->diags, MOSAIC_USAGE, NULL,
                           "sequence %ld is not within 1 to %ld", tokens, longest);
    return call_finish(session,
                       build_count(d, &document->diags, &d->geometry, tokens, session->seed),
                       MOSAIC_OK, result);
}

/* The best plan of a document that leaves something to choose. */
struct planned {
    struct search_result search;
    struct fleet fleet;
};

static enum mosaic_status planned_point(struct mosaic *session,
                                        const struct mosaic_document *document,
                                        struct planned *planned, struct report_point *point,
                                        struct status_error *err) {
    const struct document *const d = document->document;
    const struct search_options options = call_search_options(session);
    const struct search_result *const search = &planned->search;
    struct series series;
    series_begin(&series, &options, (size_t)fleet_size(&d->problem));
    TRY(fleet_search(&d->problem, &series, &point->on_best, &planned->search, &planned->fleet,
                     err));
    if (search->status == SEARCH_INTERRUPTED)
        return status_set(err, MOSAIC_INTERRUPTED, "interrupted while %s is planned", d->path);
    if (search->kept_count == 0)
        return status_set(err, MOSAIC_NO_PLAN, "%s has no feasible plan", d->path);
    point->document = d;
    point->diags = &document->diags;
    point->problem = &point->on_best;
    point->geometry = d->problem.geometries.items[search->kept[0].index];
    point->layout = search->kept[0].layout;
    best_layout_predict(point->problem, &point->geometry, &point->layout, &point->prediction,
                        point->stages);
    return finish_point(point, err);
}

enum mosaic_status call_point(struct mosaic *session, const struct mosaic_document *document,
                              struct report_point *point, struct status_error *err) {
    struct geometry geometry;
    struct mesh mesh;
    struct status_error not_pinned;
    if (document_pinned(document->document, &geometry, &mesh, &not_pinned) == MOSAIC_OK)
        return pinned_point(document, point, err);
    struct planned *const planned = calloc(1, sizeof *planned);
    if (!planned)
        return status_no_memory(err);
    const enum mosaic_status status = planned_point(session, document, planned, point, err);
    search_result_free(&planned->search);
    free(planned);
    return status;
}

enum mosaic_status mosaic_compare(struct mosaic *session, const struct mosaic_document *a,
                                  const struct mosaic_document *b, struct mosaic_result **result) {
    call_begin(session);
    TRY(call_needs_problem(session, a->document));
    TRY(call_needs_problem(session, b->document));
    struct status_error err = {0};
    struct report_point *const points = calloc(2, sizeof *points);
    if (!points)
        return diag_status(&session->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    enum mosaic_status status = call_point(session, a, &points[0], &err);
    if (status == MOSAIC_OK)
        status = call_point(session, b, &points[1], &err);
    if (status == MOSAIC_OK)
        status = call_finish(session, build_compare(&points[0], &points[1], session->seed),
                             points[0].prediction.verdict == VERDICT_NO ||
                                     points[1].prediction.verdict == VERDICT_NO
                                 ? MOSAIC_NO_PLAN
                                 : MOSAIC_OK,
                             result);
    else
        (void)call_report(session, &err);
    free(points);
    return status;
}

enum mosaic_status mosaic_lint(struct mosaic *session, const struct mosaic_document *document,
                               struct mosaic_result **result) {
    call_begin(session);
    return call_finish(session, build_lint(document->document, &document->diags, session->seed),
                       MOSAIC_OK, result);
}

static enum mosaic_status fit_settings_of(struct mosaic *session, const char *const *settings,
                                          struct fit_settings *out) {
    struct status_error err = {0};
    fit_settings_init(out);
    fit_job_options_seed(&out->job, session->seed);
    out->job.stop = &session->stop;
    for (size_t i = 0; settings && settings[i]; ++i)
        if (fit_settings_put(out, settings[i], &err) != MOSAIC_OK)
            return call_report(session, &err);
    return fit_settings_check(out, &err) == MOSAIC_OK ? MOSAIC_OK : call_report(session, &err);
}

/* The result, and the law where there is one. */
static enum mosaic_status fit_result(struct mosaic *session, const struct fit_settings *settings,
                                     const char *const *pairs, const struct fit_job *job,
                                     struct mosaic_result **result) {
    static const enum mosaic_status ends[] = {[FIT_DONE] = MOSAIC_OK,
                                              [FIT_UNKNOWABLE] = MOSAIC_NUMERIC,
                                              [FIT_LIMIT] = MOSAIC_NUMERIC,
                                              [FIT_STOPPED] = MOSAIC_INTERRUPTED};
    const struct fit_view view = {.job = job,
                                  .measure = &settings->job.fit.measure,
                                  .bootstrap = settings->job.bootstrap.kind,
                                  .settings = pairs,
                                  .diags = &session->diags,
                                  .seed = session->seed};
    struct status_error err = {0};
    char *law = NULL;
    if (job->outcome == FIT_DONE && save_law_can(job->form) &&
        save_law(job, session->seed, &law, &err) != MOSAIC_OK)
        return call_report(session, &err);
    struct mosaic_result *made = NULL;
    const enum mosaic_status status =
        call_finish(session, build_fit(&view), ends[job->outcome], &made);
    if (!made) {
        free(law);
        return status;
    }
    made->document = law;
    *result = made;
    return status;
}

enum mosaic_status mosaic_fit(struct mosaic *session, const char *path, const char *const *settings,
                              struct mosaic_result **result) {
    call_begin(session);
    struct fit_settings s;
    struct fit_job *job = NULL;
    struct pool *pool = NULL;
    struct status_error err = {0};
    enum mosaic_status status = fit_settings_of(session, settings, &s);
    if (status == MOSAIC_OK && pool_create(session->threads, NULL, &pool, &err) != MOSAIC_OK)
        status = call_report(session, &err);
    if (status == MOSAIC_OK)
        status = fit_job_run(path, NULL, &s.job, pool, &job, &session->diags);
    pool_free(pool);
    if (status == MOSAIC_OK)
        status = fit_result(session, &s, settings, job, result);
    fit_job_free(job);
    fit_settings_free(&s);
    return status;
}
