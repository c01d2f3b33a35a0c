// SPDX-License-Identifier: GPL-3.0-or-later
/* The result of `layout`: mosaic.layout/1.  Every layout is set against the first term by term. */
#include "report/build.h"
#include "report/layout_list_view.h"
#include "report/number.h"

#include <math.h>
#include <string.h>

enum { SENTENCE_MAX = 384 };

static double term_of(const struct time_split *split, int i) {
    double seconds = 0.0;
    (void)time_term(split, i, &seconds);
    return seconds;
}

/* Seconds that a term takes more than in the best. */
static double growth(const struct prediction *p, const struct prediction *best, int i) {
    return term_of(&p->split, i) - term_of(&best->split, i);
}

/* The term that grows (sign 1) or shrinks (-1) most, but less than number `after` where that is one
 * (-1: none); -1 at the end. */
static int next_changed(const struct prediction *p, const struct prediction *best, double sign,
                        int after) {
    const double limit = after < 0 ? (double)INFINITY : sign * growth(p, best, after);
    int most = -1;
    double change = 0.0;
    for (int i = 0; i < TIME_TERM_COUNT; ++i) {
        const double by = sign * growth(p, best, i);
        if (by > change && by < limit) {
            change = by;
            most = i;
        }
    }
    return most;
}

/* "260 ms more for the pipeline bubble": amount, then `word`, then the term. */
static void add_term(char text[SENTENCE_MAX], const char *separator, const char *word,
                     const struct prediction *p, const struct prediction *best, int term) {
    char amount[NUMBER_MAX];
    double unused;
    const size_t used = strlen(text);
    (void)snprintf(text + used, SENTENCE_MAX - used, "%s%s %s %s", separator,
                   number_human(fabs(growth(p, best, term)), NUMBER_TIME, amount), word,
                   build_term_name(time_term(&p->split, term, &unused)));
}

/* One sentence: what costs it the lead (as many terms as outweigh the largest gain, at most three),
 * and that gain. */
static void why_not(const struct prediction *p, const struct prediction *best,
                    char text[SENTENCE_MAX]) {
    enum { LONGER_MOST = 3 };
    const double behind = p->step_time_s - best->step_time_s;
    const int gain = next_changed(p, best, -1.0, -1);
    int term = next_changed(p, best, 1.0, -1);
    if (!(behind > 0.0) || term < 0) {
        (void)snprintf(text, SENTENCE_MAX,
                       "As fast as the first; the order of the degrees decides.");
        return;
    }
    (void)snprintf(text, SENTENCE_MAX, "%.2g %% slower:", 100.0 * behind / best->step_time_s);
    double lost = 0.0;
    const double won = gain < 0 ? 0.0 : -growth(p, best, gain);
    for (int i = 0; i < LONGER_MOST && term >= 0 && (i == 0 || lost <= won); ++i) {
        add_term(text, i == 0 ? " " : ", ", i == 0 ? "more for" : "for", p, best, term);
        lost += growth(p, best, term);
        term = next_changed(p, best, 1.0, term);
    }
    if (gain >= 0)
        add_term(text, ", against ", "less for", p, best, gain);
    (void)strncat(text, ".", SENTENCE_MAX - strlen(text) - 1);
}

/* Seconds more than the best's, of the step and of every term that differs. */
static json_t *against_best(const struct prediction *p, const struct prediction *best) {
    json_t *const o = json_pack("{s:f}", "step_time_s", p->step_time_s - best->step_time_s);
    for (int i = 0; o && i < TIME_TERM_COUNT; ++i) {
        double seconds;
        const char *const name = time_term(&p->split, i, &seconds);
        const double by = seconds - term_of(&best->split, i);
        if (by > 0.0 || by < 0.0)
            (void)json_object_set_new(o, name, json_real(by));
    }
    return o;
}

/* rank 0: of no list, without the comparison. */
static json_t *one_layout(const struct problem *problem, const struct layout *layout, int rank,
                          const struct prediction *best) {
    const struct geometry *const g = &problem->geometries.items[0];
    struct prediction p;
    struct memory_items stages[LAYOUT_MAX_PP];
    best_layout_predict(problem, g, layout, &p, stages);
    json_t *const o = json_object();
    if (rank > 0)
        (void)json_object_set_new(o, "rank", json_integer(rank));
    if (rank > 0) {
        (void)json_object_set_new(o, "step_time_s", json_real(p.step_time_s));
        (void)json_object_set_new(o, "share_of_best", json_real(best->step_time_s / p.step_time_s));
    }
    json_t *const rest =
        json_pack("{s:o, s:o}", "layout", build_layout(problem, g, layout), "prediction",
                  build_prediction(problem, g, &p, stages, layout->mesh.pp));
    bool ok = rest && json_object_update(o, rest) == 0;
    json_decref(rest);
    if (ok && rank > 1) {
        char text[SENTENCE_MAX];
        why_not(&p, best, text);
        ok = json_object_set_new(o, "why_not", json_string(text)) == 0 &&
             json_object_set_new(o, "against_best", against_best(&p, best)) == 0;
    }
    if (ok)
        return o;
    json_decref(o);
    return NULL;
}

static json_t *layouts(const struct layout_list_view *v, const struct prediction *best) {
    json_t *const list = json_array();
    for (size_t i = 0; list && i < v->study->list.count; ++i)
        if (json_array_append_new(list,
                                  one_layout(&v->document->problem, &v->study->list.items[i].layout,
                                             (int)i + 1, best)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *census(const struct layout_list *list) {
    const struct layout_counts *const c = &list->counts;
    return json_pack(
        "{s:I, s:{s:I, s:I, s:I}, s:{s:I, s:I, s:I, s:I, s:I, s:I}, s:I, s:I}", "legal",
        (json_int_t)c->meshes, "illegal", "indivisible", (json_int_t)c->census.indivisible,
        "unmeasured_ranks", (json_int_t)c->census.unmeasured, "engine_rules",
        (json_int_t)c->census.engine_rule, "legal_by_end", "memory_bound",
        (json_int_t)c->closed_by_memory, "too_large", (json_int_t)c->too_large, "mfu_above_one",
        (json_int_t)(c->opened - c->too_large - list->solved), "time_bound",
        (json_int_t)c->closed_by_bound, "solved", (json_int_t)list->solved, "open",
        (json_int_t)list->open, "evaluations", (json_int_t)c->work.evaluations, "stage_programs",
        (json_int_t)c->work.programs);
}

static json_t *fewest_gpus(const struct problem *problem, const struct fewest_gpus *f) {
    if (f->is_stopped)
        return NULL;
    const int per_node = problem->cluster.gpus_per_node;
    json_t *const tried = json_array(), *const o = json_object();
    for (int i = 0; i < f->count; ++i)
        (void)json_array_append_new(tried,
                                    json_pack("{s:i, s:i, s:s}", "nodes", f->tries[i].nodes, "gpus",
                                              f->tries[i].nodes * per_node, "outcome",
                                              fewest_outcome_name(f->tries[i].outcome)));
    if (f->nodes > 0) {
        (void)json_object_set_new(o, "nodes", json_integer(f->nodes));
        (void)json_object_set_new(o, "gpus", json_integer((json_int_t)f->nodes * per_node));
        (void)json_object_set_new(o, "step_time_s", json_real(f->best.step_time_s));
        (void)json_object_set_new(
            o, "layout", build_layout(problem, &problem->geometries.items[0], &f->best.layout));
    }
    (void)json_object_set_new(o, "global_batch", json_integer(problem->workload.global_batch));
    (void)json_object_set_new(o, "basis",
                              json_string("powers of two of nodes, the plan's own and, where it "
                                          "is too small, the least whose memory suffices; the "
                                          "same global batch, the declared layouts"));
    if (json_object_set_new(o, "tried", tried) == 0)
        return o;
    json_decref(o);
    return NULL;
}

static json_t *closest(const struct layout_list_view *v) {
    if (!v->study->leanest.found)
        return NULL;
    return one_layout(&v->document->problem, &v->study->leanest.layout, 0, NULL);
}

static json_t *warnings(const struct layout_list_view *v, const struct prediction *best) {
    const struct layout_list *const list = &v->study->list;
    json_t *const texts = json_array();
    bool ok = texts && append_diagnostics(texts, v->diags);
    if (ok && list->status == SEARCH_INTERRUPTED)
        ok = append_text(texts,
                         "interrupted: %ld of %ld legal meshes are not opened; none of them takes "
                         "less than %.4g s",
                         list->open, list->counts.meshes, list->open_bound_s);
    if (ok && list->count > 0)
        ok = append_prediction_warnings(texts, &v->document->problem, best);
    if (ok)
        return texts;
    json_decref(texts);
    return NULL;
}

static json_t *why(const struct layout_list_view *v, const struct prediction *best) {
    json_t *const texts = json_array();
    const struct problem *const problem = &v->document->problem;
    if (!texts || v->study->list.count == 0 ||
        (append_binding(texts, best) &&
         append_choices(texts, problem, &problem->geometries.items[0],
                        &v->study->list.items[0].layout, best)))
        return texts;
    json_decref(texts);
    return NULL;
}

json_t *build_layout_list(const struct layout_list_view *v) {
    static const char *const words[] = {[SEARCH_OPTIMAL] = "optimal",
                                        [SEARCH_INFEASIBLE] = "infeasible",
                                        [SEARCH_INTERRUPTED] = "interrupted"};
    const struct problem *const problem = &v->document->problem;
    const struct geometry *const g = &problem->geometries.items[0];
    const bool is_none = v->study->list.status == SEARCH_INFEASIBLE;
    struct prediction best = {0};
    if (v->study->list.count > 0)
        best_layout_predict(problem, g, &v->study->list.items[0].layout, &best, NULL);
    json_t *const root =
        build_head("mosaic.layout/1", &v->document, 1, v->seed, words[v->study->list.status]);
    if (!root || !build_setting(root, problem)) {
        json_decref(root);
        return NULL;
    }
    json_t *const parts =
        json_pack("{s:o*, s:o*, s:o, s:o, s:o, s:o, s:o*, s:o}", "infeasible",
                  is_none ? build_shortfall(&v->study->shortfall) : NULL, "closest", closest(v),
                  "why", why(v, &best), "geometry", build_geometry(g, problem->workload.sequence),
                  "layouts", layouts(v, &best), "census", census(&v->study->list), "fewest_gpus",
                  fewest_gpus(problem, &v->study->fewest), "warnings", warnings(v, &best));
    return build_joined(root, parts);
}
