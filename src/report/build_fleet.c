// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What a plan says of the size of the cluster: the best plan of each number of nodes, the unbeaten
 * plans of a Pareto grid, and the goodput that failures and checkpoints leave on it.
 */
#include "report/build.h"
#include "report/put.h"
#include "report/table.h"

#include <math.h>

bool build_put_spent(json_t *o, const struct problem *problem, double seconds) {
    return put_real(o, "days", seconds / UNITS_SECONDS_PER_DAY) &&
           put_real(o, "gpu_hours", problem_gpu_hours(problem, seconds)) &&
           (!(problem->cluster.price_usd_per_gpu_h > 0.0) ||
            put_real(o, "cost_usd", problem_cost(problem, seconds)));
}

static bool put_texts(json_t *o, const struct problem *at, const struct candidate *c) {
    const struct geometry *const g = &at->geometries.items[c->index];
    char text[LABEL_MAX];
    json_t *const geometry = build_geometry(g, at->workload.sequence);
    json_t *const layout = build_layout(at, g, &c->layout);
    const bool ok = geometry && layout &&
                    put(o, "geometry", json_string(table_geometry_text(geometry, text))) &&
                    put(o, "layout", json_string(table_layout_text(layout, text)));
    json_decref(geometry);
    json_decref(layout);
    return ok;
}

/* One plan in a line, with the share of the device's whole memory that it fills. */
static bool put_plan(json_t *o, const struct problem *at, const struct candidate *c,
                     double whole_memory_bytes) {
    const struct geometry *const g = &at->geometries.items[c->index];
    struct param_counts counts;
    struct prediction p;
    count_params(g, &counts);
    best_layout_predict(at, g, &c->layout, &p, NULL);
    return put_real(o, "loss", c->run.loss) && build_put_spent(o, at, c->run.seconds) &&
           put_real(o, "tokens", c->run.tokens) &&
           put_real(o, "peak_memory_share", p.memory.total / whole_memory_bytes) &&
           put_real(o, "step_time_s", c->step_time_s) && put_real(o, "mfu", p.mfu) &&
           put_real(o, "sparsity", counts.sparsity) && put_texts(o, at, c);
}

static const char *point_status(const struct fleet_point *point) {
    return point->end == FLEET_NO_WORK   ? "no_work"
           : point->end == FLEET_UNTRIED ? "untried"
                                         : build_search_status(point->status);
}

static json_t *fleet_row(const struct plan_report *r, int index) {
    const struct fleet_point *const point = &r->fleet->points[index];
    struct problem at;
    problem_on(r->declared, point->nodes, &at);
    json_t *const o =
        json_pack("{s:i, s:i, s:s, s:b, s:f}", "nodes", point->nodes, "gpus",
                  cluster_gpus(&at.cluster), "status", point_status(point), "best",
                  (int)(point->has_plan && index == r->fleet->best), "goodput", at.budget.goodput);
    return whole_or_null(o, o && (!point->has_plan ||
                                  put_plan(o, &at, &point->best, at.cluster.device.memory_bytes)));
}

json_t *build_by_nodes(const struct plan_report *r) {
    if (r->declared->fleet.nodes.count == 0)
        return NULL;
    json_t *const list = json_array();
    bool ok = list != NULL;
    for (int i = 0; ok && i < r->fleet->count; ++i)
        ok = json_array_append_new(list, fleet_row(r, i)) == 0;
    return whole_or_null(list, ok);
}

static json_t *pareto_row(const struct problem *problem, const struct pareto_point *point) {
    struct problem at;
    pareto_problem(problem, point->nodes, point->memory_share, point->budget_s, &at);
    json_t *const o = json_pack("{s:i, s:i, s:f, s:f, s:s}", "nodes", point->nodes, "gpus",
                                cluster_gpus(&at.cluster), "memory_share", point->memory_share,
                                "budget_days", point->budget_s / UNITS_SECONDS_PER_DAY, "status",
                                build_search_status(point->status));
    return whole_or_null(o,
                         o && put_plan(o, &at, &point->best, problem->cluster.device.memory_bytes));
}

json_t *build_pareto(const struct plan_report *r) {
    if (r->pareto->grid == 0)
        return NULL;
    json_t *const list = json_array();
    bool ok = list != NULL;
    for (size_t i = 0; ok && i < r->pareto->count; ++i)
        ok = json_array_append_new(list, pareto_row(r->declared, &r->pareto->items[i])) == 0;
    return whole_or_null(list, ok);
}

json_t *build_goodput(const struct problem *problem) {
    const struct checkpointing *const c = &problem->budget.checkpoints;
    struct goodput found;
    struct status_error unused;
    if (!c->is_stated ||
        budget_checkpoints(c, problem->cluster.nodes, &found, &unused) != MOSAIC_OK)
        return NULL;
    json_t *const o = json_pack("{s:f, s:f}", "value", found.value, "interval_s", found.interval_s);
    return whole_or_null(o, o && (!(found.best_interval_s > 0.0) ||
                                  (put_real(o, "best_interval_s", found.best_interval_s) &&
                                   put_real(o, "best_value", found.best_value))));
}

/* Where another interval would be worth more than a thousandth of the time. */
static bool goodput_warning(json_t *list, const struct problem *problem) {
    const struct checkpointing *const c = &problem->budget.checkpoints;
    const double worth_saying = 1e-3, percent = 100.0;
    struct goodput g;
    struct status_error unused;
    if (!c->is_stated || budget_checkpoints(c, problem->cluster.nodes, &g, &unused) != MOSAIC_OK ||
        !(g.best_value > g.value * (1.0 + worth_saying)))
        return true;
    char interval[UNITS_TEXT_MAX], best[UNITS_TEXT_MAX];
    units_format(g.interval_s, DIM_TIME, interval, sizeof interval);
    units_format(g.best_interval_s, DIM_TIME, best, sizeof best);
    return append_text(list,
                       "a checkpoint every %s leaves a goodput of %.2f %%; every %s would leave "
                       "%.2f %% (checkpoint_interval: best)",
                       interval, percent * g.value, best, percent * g.best_value);
}

static bool fleet_warning(json_t *list, const struct plan_report *r) {
    const struct fleet *const f = r->fleet;
    int no_work = 0, untried = 0;
    bool ok = true;
    for (int i = 0; i < f->count; ++i) {
        no_work += f->points[i].end == FLEET_NO_WORK;
        untried += f->points[i].end == FLEET_UNTRIED;
    }
    if (no_work > 0)
        ok = append_text(list,
                         "on %d of the %d numbers of nodes failures and checkpoints leave no time "
                         "for work",
                         no_work, f->count);
    if (untried > 0)
        ok = append_text(list, "%d of the %d numbers of nodes are not tried", untried, f->count) &&
             ok;
    /* Of days on the wall, more nodes are always worth more. */
    const struct problem *const p = r->problem;
    const bool is_dear = objective_has_target(p->objective) || p->budget.gpu_hours > 0.0;
    if (f->count < 2 || !f->points[f->best].has_plan || !is_dear)
        return ok;
    const int nodes = f->points[f->best].nodes;
    if (f->best == f->count - 1 && untried == 0)
        ok =
            append_text(list, "the best number of nodes, %d, is the largest declared", nodes) && ok;
    else if (f->best == 0)
        ok = append_text(list, "the best number of nodes, %d, is the least declared", nodes) && ok;
    return ok;
}

bool append_fleet_warnings(json_t *list, const struct plan_report *r) {
    const struct pareto *const p = r->pareto;
    bool ok = goodput_warning(list, r->problem) && fleet_warning(list, r);
    if (p->searched < p->grid)
        ok = append_text(list, "the Pareto set is of %zu of the %zu points of its grid",
                         p->searched, p->grid) &&
             ok;
    return ok;
}
