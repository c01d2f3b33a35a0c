// SPDX-License-Identifier: GPL-3.0-or-later
/* Enumerating and evaluating changes of a mesh. */
#include "plan/explain_changes.h"

#include "plan/explain_ways.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    AXES = LAYOUT_WAY + 1,
    VALUES_MAX = 512,
    NEIGHBOUR_AXES_MAX = 4,
    FIX_AXES_MAX = 2,
    DISTINCT_CHUNKS_MAX = 16,
    WAY_KEYS_MAX = 2 /* that one change of the way sets: more is another job */
};
static_assert((int)VALUES_MAX >= (int)EXPLAIN_WAYS_MAX, "every way may be a value");

/* What the enumeration goes through. */
struct around {
    struct explanation *explanation;
    struct mesh base;
    int counts[AXES]; /* of values other than the base's */
    int (*values)[VALUES_MAX];
    enum mosaic_status (*visit)(struct around *a, const struct mesh *mesh, unsigned axes,
                                struct status_error *err);
    void *context;
};

static const struct execution *execution_of(const struct explanation *e, const struct mesh *m) {
    return &problem_workload(&e->problem, m->way)->execution;
}

static int count_bits(unsigned set) {
    int count = 0;
    for (; set; set &= set - 1)
        count++;
    return count;
}

static void add_value(struct around *a, enum layout_axis axis, int value) {
    if (value != layout_axis_get(&a->base, axis) && a->counts[axis] < VALUES_MAX)
        a->values[axis][a->counts[axis]++] = value;
}

static void add_divisors(struct around *a, enum layout_axis axis, int whole, int most) {
    int divisors[VALUES_MAX];
    const int count = axis_divisors(whole, divisors, VALUES_MAX);
    for (int i = 0; i < count; ++i)
        if (divisors[i] <= most)
            add_value(a, axis, divisors[i]);
}

/* Every value that can be legal at all; without experts EP and ETP are 1. */
static void fill_values(struct around *a, bool has_recompute) {
    const struct problem *const problem = &a->explanation->problem;
    const struct geometry *const g = &a->explanation->geometry;
    const struct workload *const w = &problem->workload;
    const int gpus = cluster_gpus(&problem->cluster);
    add_divisors(a, LAYOUT_TP, gpus, g->heads);
    add_divisors(a, LAYOUT_CP, gpus, w->sequence);
    add_divisors(a, LAYOUT_PP, gpus, g->layers < LAYOUT_MAX_PP ? g->layers : LAYOUT_MAX_PP);
    if (w->execution.uneven_chunks)
        for (int v = 1; v <= DISTINCT_CHUNKS_MAX; ++v)
            add_value(a, LAYOUT_VPP, v);
    else
        add_divisors(a, LAYOUT_VPP, g->layers, g->layers);
    add_divisors(a, LAYOUT_EP, g->experts > 0 ? g->experts : 1, gpus);
    add_divisors(a, LAYOUT_ETP, g->experts > 0 ? gpus : 1, gpus);
    add_divisors(a, LAYOUT_MICRO_BATCH, w->global_batch, w->global_batch);
    for (int r = 0; has_recompute && r < RECOMPUTE_MODES; ++r)
        add_value(a, LAYOUT_RECOMPUTE, r);
    for (int s = 0; s < SCHEDULES; ++s)
        if (s == (int)SCHEDULE_1F1B || problem->layouts.schedule[s])
            add_value(a, LAYOUT_SCHEDULE, s);
}

/* Of the first `count` ways those that set few keys anew. */
static void add_ways(struct around *a, int count, int keys_most) {
    const struct explanation *const e = a->explanation;
    const struct execution *const base = execution_of(e, &a->base);
    for (int way = 0; way < count; ++way)
        if (count_bits(layout_way_difference(base, &e->ways[way].execution)) <= keys_most)
            add_value(a, LAYOUT_WAY, way);
}

static enum mosaic_status visit_legal(struct around *a, struct mesh m, unsigned axes,
                                      struct status_error *err) {
    const struct problem *const problem = &a->explanation->problem;
    const struct geometry *const g = &a->explanation->geometry;
    const struct workload *const w = problem_workload(problem, m.way);
    if (mesh_complete(&m, g, w, cluster_gpus(&problem->cluster), NULL) != MOSAIC_OK ||
        mesh_check_engine(&m, g, w, &problem->engine, NULL) != MOSAIC_OK)
        return MOSAIC_OK;
    return a->visit(a, &m, axes, err);
}

/* Every choice of `left` more axes from `next` on. */
static enum mosaic_status enumerate(struct around *a, const struct mesh *mesh, int next, int left,
                                    unsigned axes, struct status_error *err) {
    if (left == 0)
        return visit_legal(a, *mesh, axes, err);
    for (int axis = next; axis + left <= AXES; ++axis)
        for (int i = 0; i < a->counts[axis]; ++i) {
            struct mesh m = *mesh;
            layout_axis_set(&m, (enum layout_axis)axis, a->values[axis][i]);
            TRY(enumerate(a, &m, axis + 1, left - 1, axes | 1u << axis, err));
        }
    return MOSAIC_OK;
}

static double distance_of(const struct explanation *e, const struct mesh *from,
                          const struct mesh *to) {
    double sum =
        (double)count_bits(layout_way_difference(execution_of(e, from), execution_of(e, to)));
    for (int i = 0; i < LAYOUT_AXES; ++i) {
        const enum layout_axis axis = (enum layout_axis)i;
        const int old = layout_axis_get(from, axis), new = layout_axis_get(to, axis);
        if (old == new)
            continue;
        if (axis == LAYOUT_RECOMPUTE || axis == LAYOUT_SCHEDULE || old < 1 || new < 1)
            sum += 1.0;
        else
            sum += fabs(log2((double)new / (double)old));
    }
    return sum;
}

static bool is_declared(const struct explanation *e, const struct mesh *m) {
    for (int i = 0; i < LAYOUT_AXES; ++i)
        if (!layout_axis_declared(&e->problem.layouts, (enum layout_axis)i,
                                  layout_axis_get(m, (enum layout_axis)i)))
            return false;
    return m->way < e->declared_ways;
}

/* Put a change into a short list in its order; the last falls out of a full one. */
static void insert(struct explain_change *list, int *count, const struct explain_change *change,
                   bool (*is_before)(const struct explain_change *a,
                                     const struct explain_change *b)) {
    int at = *count;
    while (at > 0 && is_before(change, &list[at - 1]))
        --at;
    if (at == EXPLAIN_CHANGES)
        return;
    if (*count < EXPLAIN_CHANGES)
        ++*count;
    memmove(&list[at + 1], &list[at], (size_t)(*count - 1 - at) * sizeof *list);
    list[at] = *change;
}

/* ---- legal neighbours ---- */

static bool is_nearer(const struct explain_change *a, const struct explain_change *b) {
    if (a->distance != b->distance)
        return a->distance < b->distance;
    return mesh_compare(&a->layout.mesh, &b->layout.mesh) < 0;
}

static enum mosaic_status keep_nearest(struct around *a, const struct mesh *mesh, unsigned axes,
                                       struct status_error *err) {
    (void)err;
    struct explanation *const e = a->explanation;
    const struct explain_change change = {.layout = {.mesh = *mesh},
                                          .axes = axes,
                                          .distance = distance_of(e, &a->base, mesh),
                                          .is_declared = is_declared(e, mesh)};
    insert(e->neighbours, &e->neighbour_count, &change, is_nearer);
    return MOSAIC_OK;
}

static void fill_figures(const struct prediction *p, struct explain_change *c) {
    c->step_time_s = p->step_time_s;
    c->mfu = p->mfu;
    c->memory_bytes = p->memory.total;
    c->host_bytes = p->host_bytes;
    c->verdict = p->verdict;
}

static enum mosaic_status evaluate_change(const struct explanation *e, struct explain_change *c,
                                          struct status_error *err) {
    struct prediction p = {0};
    const struct mesh mesh = c->layout.mesh;
    TRY(best_layout_evaluate(&e->problem, &e->geometry, &mesh, &c->layout, &p, NULL, err));
    fill_figures(&p, c);
    return MOSAIC_OK;
}

static bool has_conflict(const struct explanation *e) {
    for (int i = 0; i < e->violation_count; ++i)
        if (strcmp(e->violations[i].rule, "conflicts") == 0 ||
            strcmp(e->violations[i].rule, "shards") == 0)
            return true;
    return false;
}

enum mosaic_status explain_neighbours(struct explanation *e, struct status_error *err) {
    struct around a = {.explanation = e, .base = e->point.mesh, .visit = keep_nearest};
    a.values = calloc(AXES, sizeof *a.values);
    if (!a.values)
        return status_no_memory(err);
    fill_values(&a, false);
    if (has_conflict(e))
        add_ways(&a, e->declared_ways, 1);
    enum mosaic_status status = MOSAIC_OK;
    e->neighbour_count = 0;
    for (int axes = 1; status == MOSAIC_OK && axes <= NEIGHBOUR_AXES_MAX && e->neighbour_count == 0;
         ++axes)
        status = enumerate(&a, &a.base, 0, axes, 0, err);
    for (int i = 0; status == MOSAIC_OK && i < e->neighbour_count; ++i)
        status = evaluate_change(e, &e->neighbours[i], err);
    free(a.values);
    return status;
}

/* ---- changes that fit ---- */

struct fixing {
    struct explanation *e;
    struct step_context ctx; /* of the way of the last mesh */
    struct layer_table table;
    struct split_scratch *scratch;
    bool has_single; /* a change of one axis fits; the fastest: */
    struct explain_change single;
};

/* Of equal ones the nearer. */
static bool is_faster(const struct explain_change *a, const struct explain_change *b) {
    if (a->step_time_s != b->step_time_s)
        return a->step_time_s < b->step_time_s;
    return is_nearer(a, b);
}

static enum mosaic_status keep_fastest(struct around *a, const struct mesh *mesh, unsigned axes,
                                       struct status_error *err) {
    struct fixing *const f = a->context;
    struct explanation *const e = f->e;
    if (mesh->way != f->ctx.way)
        problem_context(&e->problem, &e->geometry, mesh->way, &f->ctx);
    layer_table_fill(&f->ctx, mesh, &f->table);
    if (memory_verdict(&f->ctx, step_memory_bound(&f->ctx, &f->table, mesh)) == VERDICT_NO)
        return MOSAIC_OK;
    /* An equal time may win by its distance. */
    const double cutoff_s =
        e->fix_count == EXPLAIN_CHANGES
            ? nextafter(e->fixes[EXPLAIN_CHANGES - 1].step_time_s, (double)INFINITY)
            : (double)INFINITY;
    const struct split_request request = {&f->ctx, &f->table, mesh, cutoff_s};
    struct best_split best = {0};
    struct split_work work = {0};
    TRY(best_split_find(f->scratch, &request, &best, &work, err));
    if (!best.found)
        return MOSAIC_OK;
    struct prediction p;
    step_predict(&f->ctx, &f->table, mesh, &best.split, &p, NULL);
    struct explain_change change = {.layout = {*mesh, best.split},
                                    .axes = axes,
                                    .distance = distance_of(e, &a->base, mesh),
                                    .is_declared = is_declared(e, mesh)};
    fill_figures(&p, &change);
    insert(e->fixes, &e->fix_count, &change, is_faster);
    return MOSAIC_OK;
}

/* The fastest change of one axis is the plainest advice: it stays in the list. */
static void keep_single(struct fixing *f) {
    struct explanation *const e = f->e;
    for (int i = 0; i < e->fix_count; ++i)
        if (mesh_compare(&e->fixes[i].layout.mesh, &f->single.layout.mesh) == 0)
            return;
    if (f->has_single)
        e->fixes[e->fix_count - 1] = f->single;
}

enum mosaic_status explain_fixes(struct explanation *e, struct status_error *err) {
    struct around a = {.explanation = e, .base = e->point.mesh, .visit = keep_fastest};
    /* Of a legal one all changes of up to two axes; of another, of as few axes as any fits with. */
    const bool is_legal = e->violation_count == 0;
    const int least = is_legal ? 1 : count_bits(e->neighbours[0].axes),
              enough = is_legal ? FIX_AXES_MAX : least,
              most = is_legal ? FIX_AXES_MAX : NEIGHBOUR_AXES_MAX;
    struct fixing *const f = calloc(1, sizeof *f);
    a.values = calloc(AXES, sizeof *a.values);
    enum mosaic_status status = MOSAIC_OK;
    if (!f || !a.values) {
        status = status_no_memory(err);
        goto out;
    }
    a.context = f;
    f->e = e;
    f->scratch = split_scratch_new();
    if (!f->scratch) {
        status = status_no_memory(err);
        goto out;
    }
    problem_context(&e->problem, &e->geometry, a.base.way, &f->ctx);
    fill_values(&a, true);
    add_ways(&a, e->problem.ways.count, WAY_KEYS_MAX);
    e->fix_count = 0;
    for (int axes = least; axes <= most && (axes <= enough || e->fix_count == 0); ++axes) {
        TRY_GOTO(enumerate(&a, &a.base, 0, axes, 0, err));
        if (axes == 1 && e->fix_count > 0) {
            f->has_single = true;
            f->single = e->fixes[0];
        }
    }
    keep_single(f);
out:
    if (f)
        split_scratch_free(f->scratch);
    free(f);
    free(a.values);
    return status;
}
