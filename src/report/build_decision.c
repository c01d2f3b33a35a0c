// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * How sure a plan is of its step times: who wins how often, the short runs that would settle it
 * with the table to fill in, and what runs already made have changed.
 */
#include "doc/doc_measured.h"
#include "plan/shortlist_id.h"
#include "report/build.h"
#include "report/put.h"
#include "report/score.h"
#include "report/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* "regret_" + unit, name + "_above_best". */
static bool put_joined(json_t *o, const char *start, const char *end, double value) {
    char key[SCORE_TEXT_MAX];
    (void)snprintf(key, sizeof key, "%s%s", start, end);
    return put_real(o, key, value);
}

/* "regret_nats", "regret_after_days", ... of a difference of scores. */
static bool put_regret(json_t *o, const struct problem *problem, const char *start,
                       double difference) {
    const struct score_unit *const unit = score_unit(problem);
    return put_joined(o, start, unit->unit, difference * fabs(unit->scale));
}

static const char regret[] = "regret_", regret_after[] = "regret_after_";

struct texts {
    char geometry[LABEL_MAX], layout[LABEL_MAX];
};

static bool texts_of(const struct problem *problem, size_t index, const struct layout *layout,
                     struct texts *out) {
    const struct geometry *const g = &problem->geometries.items[index];
    json_t *const geometry = build_geometry(g, problem->workload.sequence);
    json_t *const laid = build_layout(problem, g, layout);
    if (geometry && laid) {
        (void)table_geometry_text(geometry, out->geometry);
        (void)table_layout_text(laid, out->layout);
    }
    const bool ok = geometry && laid;
    json_decref(geometry);
    json_decref(laid);
    return ok;
}

static bool put_texts(json_t *o, const struct problem *problem, size_t index,
                      const struct layout *layout) {
    struct texts texts;
    return texts_of(problem, index, layout, &texts) &&
           put(o, "geometry", json_string(texts.geometry)) &&
           put(o, "layout", json_string(texts.layout));
}

/* ---- decision ---- */

enum { WINNERS_SHOWN = 10 };

static bool is_before(const struct decision *d, size_t a, size_t b) {
    if (d->items[a].share != d->items[b].share)
        return d->items[a].share > d->items[b].share;
    return a < b;
}

/* The plan, its near ties, the others: each by share, of the ten that win most. */
static size_t order_winners(const struct decision *d, size_t order[WINNERS_SHOWN]) {
    size_t ranked[CONTENDERS_MAX], count = 0, shown = 0;
    for (size_t i = 1; i < d->count; ++i) {
        size_t at = count;
        if (!(d->items[i].share > 0.0))
            continue;
        for (; at > 0 && is_before(d, i, ranked[at - 1]); --at)
            ranked[at] = ranked[at - 1];
        ranked[at] = i;
        count++;
    }
    count = count < WINNERS_SHOWN - 1 ? count : WINNERS_SHOWN - 1;
    order[shown++] = 0;
    for (int tie = 1; tie >= 0; --tie)
        for (size_t i = 0; i < count; ++i)
            if (d->items[ranked[i]].is_near_tie == (tie == 1))
                order[shown++] = ranked[i];
    return shown;
}

static json_t *winner(const struct problem *problem, const struct decision *d, size_t i) {
    const struct contender *const c = &d->items[i];
    const struct score_unit *const unit = score_unit(problem);
    json_t *const o = json_pack("{s:f, s:f, s:b, s:b, s:b}", "share", c->share, "step_time_s",
                                c->expected_s, "plan", (int)(i == 0), "near_tie",
                                (int)c->is_near_tie, "measured", (int)c->is_measured);
    return whole_or_null(
        o, o && put_texts(o, problem, c->index, &c->layout) &&
               put_regret(o, problem, regret, c->regret) &&
               (!c->can_be_planned || !d->items[0].can_be_planned ||
                put_joined(o, unit->name, "_above_best",
                           (c->run.score - d->items[0].run.score) * fabs(unit->scale))));
}

static json_t *winners(const struct problem *problem, const struct decision *d) {
    size_t order[WINNERS_SHOWN];
    const size_t count = order_winners(d, order);
    json_t *const list = json_array();
    bool ok = list != NULL;
    for (size_t i = 0; ok && i < count; ++i)
        ok = json_array_append_new(list, winner(problem, d, order[i])) == 0;
    return whole_or_null(list, ok);
}

static json_t *joint(const struct problem *problem, const struct joint_decision *j) {
    json_t *const o =
        json_pack("{s:I, s:f}", "draws", (json_int_t)j->draws, "share_of_plan", j->share_of_plan);
    return whole_or_null(o, o && put_regret(o, problem, regret, j->regret));
}

json_t *build_decision(const struct plan_report *r) {
    const struct decision *const d = r->decision;
    if (!d || d->draws == 0)
        return NULL;
    const struct step_errors *const e = &d->errors;
    json_t *const o = json_pack(
        "{s:I, s:I, s:s, s:{s:f, s:f, s:f, s:f}, s:f, s:f, s:o}", "draws", (json_int_t)d->draws,
        "contenders", (json_int_t)d->count, "basis",
        "ln(measured step / predicted) of the best models and layouts: normal parts that all "
        "share, by model, by layout",
        "errors", "shared", e->shared, "model", e->model, "layout", e->layout, "run", e->noise,
        "share_of_plan", d->items[0].share, "share_of_near_ties", d->share_of_near_ties, "winners",
        winners(r->problem, d));
    return whole_or_null(
        o, o && put_regret(o, r->problem, regret, d->regret) &&
               (d->joint.draws == 0 || put(o, "with_law", joint(r->problem, &d->joint))));
}

/* ---- shortlist ---- */

static bool put_decides(json_t *o, const struct problem *problem, const struct decision *d,
                        const struct shortlisted *s) {
    const struct contender *const plan = &d->items[0];
    const struct contender *const other = &d->items[s->contender > 0 ? s->contender : s->rival];
    struct texts texts;
    char text[2 * LABEL_MAX + STATUS_QUOTE_MAX];
    if (!texts_of(problem, other->index, &other->layout, &texts))
        return false;
    if (other->index == plan->index)
        (void)snprintf(text, sizeof text, "decides between the plan's layout and %s", texts.layout);
    else
        (void)snprintf(text, sizeof text, "decides between the plan's model and %s",
                       texts.geometry);
    return put(o, "decides", json_string(text));
}

static json_t *short_run(const struct problem *problem, const struct decision *d, size_t i) {
    const struct shortlisted *const s = &d->shortlist[i];
    const struct contender *const c = &d->items[s->contender];
    char id[SHORTLIST_ID_MAX];
    struct prediction p;
    best_layout_predict(problem, &problem->geometries.items[c->index], &c->layout, &p, NULL);
    json_t *const o = json_pack("{s:s, s:b, s:i, s:f, s:f, s:f, s:f}", "id",
                                shortlist_id(problem, c->index, &c->layout.mesh, id), "plan",
                                (int)(s->contender == 0), "nodes", problem->cluster.nodes,
                                "step_time_s", p.step_time_s, "low_s", p.interval_low_s, "high_s",
                                p.interval_high_s, "share", c->share);
    return whole_or_null(o, o && put_texts(o, problem, c->index, &c->layout) &&
                                put_regret(o, problem, regret_after, s->regret_after) &&
                                put_decides(o, problem, d, s));
}

json_t *build_shortlist(const struct plan_report *r) {
    const struct decision *const d = r->decision;
    if (!d || d->draws == 0)
        return NULL;
    json_t *const list = json_array();
    bool ok = list != NULL;
    for (size_t i = 0; ok && i < d->shortlist_count; ++i)
        ok = json_array_append_new(list, short_run(r->problem, d, i)) == 0;
    return whole_or_null(list, ok);
}

json_t *build_shortlist_template(const struct plan_report *r) {
    enum { LINE_MAX_SIZE = SHORTLIST_ID_MAX + 2 };
    const struct decision *const d = r->decision;
    char text[(SHORTLIST_MAX + 1) * LINE_MAX_SIZE], id[SHORTLIST_ID_MAX];
    if (!d || d->shortlist_count == 0)
        return NULL;
    int used = snprintf(text, sizeof text, "%s\n", doc_measured_header);
    for (size_t i = 0; i < d->shortlist_count; ++i) {
        const struct contender *const c = &d->items[d->shortlist[i].contender];
        used += snprintf(text + used, sizeof text - (size_t)used, "%s,\n",
                         shortlist_id(r->problem, c->index, &c->layout.mesh, id));
    }
    return json_string(text);
}

/* ---- measured ---- */

static json_t *measured_layout(const struct problem *searched, const struct measured_layout *m) {
    struct problem at;
    char id[SHORTLIST_ID_MAX];
    problem_on(searched, m->nodes, &at);
    json_t *const o = json_pack(
        "{s:s, s:i, s:I, s:f, s:f, s:f}", "id", shortlist_id(&at, m->index, &m->layout.mesh, id),
        "nodes", m->nodes, "steps", (json_int_t)m->steps, "step_time_s", measured_layout_s(m),
        "predicted_s", m->predicted_s, "ratio", measured_layout_s(m) / m->predicted_s);
    return whole_or_null(o, o && put_texts(o, &at, m->index, &m->layout));
}

static json_t *one_plan(const struct problem *problem, const struct search_result *search,
                        const struct decision *d) {
    const struct candidate *const c = &search->kept[0];
    const struct score_unit *const unit = score_unit(problem);
    json_t *const o = json_pack("{s:i, s:f, s:f}", "nodes", problem->cluster.nodes, "step_time_s",
                                c->step_time_s, "loss", c->run.loss);
    return whole_or_null(o,
                         o && put_texts(o, problem, c->index, &c->layout) &&
                             (problem->objective == OBJECTIVE_LOSS ||
                              put_real(o, unit->name, c->run.score * unit->scale)) &&
                             (d->draws == 0 || (put_real(o, "share_of_plan", d->items[0].share) &&
                                                put_regret(o, problem, regret, d->regret))));
}

static bool is_same_plan(const struct plan_report *r) {
    const struct candidate *const a = &r->measured->search->kept[0], *const b = &r->search->kept[0];
    return a->index == b->index && mesh_compare(&a->layout.mesh, &b->layout.mesh) == 0 &&
           r->measured->problem->cluster.nodes == r->problem->cluster.nodes;
}

static bool has_both(const struct plan_report *r) {
    return r->measured && r->measured->search->kept_count > 0 && r->search->kept_count > 0;
}

json_t *build_measured(const struct plan_report *r) {
    const struct plan_before *const m = r->measured;
    if (!m)
        return NULL;
    const struct measured_table *const t = m->table;
    json_t *const list = json_array();
    bool ok = list != NULL;
    for (size_t i = 0; ok && i < t->layouts.count; ++i)
        ok = json_array_append_new(list, measured_layout(m->problem, &t->layouts.items[i])) == 0;
    json_t *const o = json_pack("{s:s, s:s, s:I, s:I, s:o}", "path", t->input.path, "sha256",
                                t->input.sha256, "rows", (json_int_t)t->rows, "empty",
                                (json_int_t)t->empty, "layouts", whole_or_null(list, ok));
    if (o && has_both(r))
        ok = put(o, "changes_plan", json_boolean(!is_same_plan(r))) &&
             put(o, "before", one_plan(m->problem, m->search, m->decision)) &&
             put(o, "after", one_plan(r->problem, r->search, r->decision));
    return whole_or_null(o, ok);
}

/* ---- sentences ---- */

static bool append_measured(json_t *list, const struct plan_report *r) {
    struct texts before;
    char was[SCORE_TEXT_MAX], is[SCORE_TEXT_MAX];
    if (!has_both(r))
        return true;
    const struct plan_before *const m = r->measured;
    const struct candidate *const c = &m->search->kept[0];
    if (!texts_of(m->problem, c->index, &c->layout, &before))
        return false;
    const size_t layouts = m->table->layouts.count;
    const bool ok =
        is_same_plan(r)
            ? append_text(list, "With %zu measured layout%s the plan stays.", layouts,
                          layouts == 1 ? "" : "s")
            : append_text(list,
                          "With %zu measured layout%s the plan changes; before it was %s, %s.",
                          layouts, layouts == 1 ? "" : "s", before.geometry, before.layout);
    if (!ok || m->decision->draws == 0 || r->decision->draws == 0)
        return ok;
    return append_text(list, "Its expected regret was %s and is %s.",
                       score_difference(m->problem, m->decision->regret, was),
                       score_difference(r->problem, r->decision->regret, is));
}

/* A contender that is expected to be better by more than a near tie. */
static bool append_better(json_t *list, const struct plan_report *r) {
    const struct decision *const d = r->decision;
    const struct contender *const c = &d->items[d->best];
    const double lead = d->regret - c->regret;
    struct texts texts;
    char text[SCORE_TEXT_MAX];
    if (!(lead > objective_tie_width(r->problem->objective, d->items[0].run.score)))
        return true;
    if (!texts_of(r->problem, c->index, &c->layout, &texts))
        return false;
    return append_text(list, "%s, %s in %s is expected to be better by %s.",
                       r->measured ? "By what is measured" : "On average over the draws",
                       texts.geometry, texts.layout, score_difference(r->problem, lead, text));
}

bool append_decision(json_t *list, const struct plan_report *r) {
    const struct decision *const d = r->decision;
    const double percent = 100.0;
    char lost[SCORE_TEXT_MAX], left[SCORE_TEXT_MAX];
    if (!append_measured(list, r))
        return false;
    if (!d || d->draws == 0)
        return true;
    const double share = d->items[0].share, ties = d->share_of_near_ties;
    bool ok = append_text(list,
                          "Under the step model's own error the plan is the best of %zu in %.0f %% "
                          "of the draws, its near ties in %.0f %%, others in %.0f %%; its expected "
                          "regret is %s.",
                          d->count, percent * share, percent * ties,
                          percent * fmax(1.0 - share - ties, 0.0),
                          score_difference(r->problem, d->regret, lost));
    if (ok && d->joint.draws > 0)
        ok = append_text(list,
                         "Under law and step model together it wins %.0f %% of the draws and loses "
                         "%s on average.",
                         percent * d->joint.share_of_plan,
                         score_difference(r->problem, d->joint.regret, lost));
    if (ok && d->shortlist_count > 0)
        ok = append_text(
            list, "Short runs of the %zu layouts below would leave %s of regret.",
            d->shortlist_count,
            score_difference(r->problem, d->shortlist[d->shortlist_count - 1].regret_after, left));
    return ok && append_better(list, r);
}
