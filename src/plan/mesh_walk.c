// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Enumerating the legal meshes of one geometry.  A degree that is illegal whatever the others are
 * is asked about once, with 1 for the others and a batch that any ranks divide: every rule of
 * arithmetic that such a mesh breaks is broken by all meshes with that degree (a divisor asked of
 * DP x CP at PP 1 is asked of its divisors at others).  What is left out that way is counted, not
 * visited.
 */
#include "plan/mesh_walk.h"

#include "plan/way_classes.h"
#include "step/engine_rules.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { AXIS_MAX = 512, PAIRS_MAX = AXIS_MAX * AXIS_MAX, MARKS_A_WORD = 64 };

struct values {
    int count;
    int items[AXIS_MAX];
};

bool axis_forbids(const struct axis *axis, int value) {
    for (int i = 0; i < axis->forbidden_count; ++i)
        if (axis->forbidden[i] == value)
            return true;
    return false;
}

int axis_divisors(int limit, int *values, int max_values) {
    int count = 0;
    for (int d = 1; d <= limit && count < max_values; ++d)
        if (limit % d == 0)
            values[count++] = d;
    return count;
}

static void resolve(const struct axis *axis, int limit, struct values *out) {
    if (axis->count == 0) {
        const int divisors = axis_divisors(limit, out->items, AXIS_MAX);
        out->count = 0;
        for (int i = 0; i < divisors; ++i)
            if (!axis_forbids(axis, out->items[i]))
                out->items[out->count++] = out->items[i];
        return;
    }
    out->count = axis->count;
    for (int i = 0; i < axis->count; ++i)
        out->items[i] = axis->values[i];
}

static void resolve_schedules(const bool *listed, struct values *out) {
    out->count = 0;
    for (int s = 0; s < SCHEDULES; ++s)
        if (listed[s])
            out->items[out->count++] = s;
    if (out->count == 0)
        out->items[out->count++] = (int)SCHEDULE_1F1B;
}

/* One mark for each pair of places on two axes. */
struct marks {
    uint64_t bits[PAIRS_MAX / MARKS_A_WORD];
};

/* Rows of the first axis alone: the whole is large. */
static void unmark(struct marks *m, int rows) {
    memset(m->bits, 0, (size_t)rows * (AXIS_MAX / MARKS_A_WORD) * sizeof m->bits[0]);
}

static void mark(struct marks *m, int a, int b) {
    const unsigned at = (unsigned)a * AXIS_MAX + (unsigned)b;
    m->bits[at / MARKS_A_WORD] |= UINT64_C(1) << at % MARKS_A_WORD;
}

static bool is_marked(const struct marks *m, int a, int b) {
    const unsigned at = (unsigned)a * AXIS_MAX + (unsigned)b;
    return (m->bits[at / MARKS_A_WORD] >> at % MARKS_A_WORD & 1) != 0;
}

struct mesh_walker {
    const struct step_context *ctx;
    const struct layout_space *space;
    struct mesh_calls calls;
    void *context;
    struct mesh_census *census;
    struct workload any_batch; /* the context's, with a batch that any ranks divide */
    struct engine engine;      /* the context's, without conflicts that no mesh here can have */
    struct engine_rule conflicts[WAY_CONFLICTS_MAX];
    bool recomputes_alike; /* no rule tells them apart */
    struct values tp, cp, pp, vpp, ep, etp, micro_batch, schedule;
    bool legal_tp[AXIS_MAX], legal_cp[AXIS_MAX], legal_ep[AXIS_MAX], legal_etp[AXIS_MAX];
    struct marks measured_ranks;   /* (tp, cp) */
    struct marks measured_experts; /* (ep, etp) */
    struct marks chunks;           /* (pp, vpp) that may be legal */
    struct marks legal[SCHEDULES]; /* (pp, vpp) of the shape, by place of its schedule */
    long shapes;                   /* of one (tp, cp, ep, etp) */
    int gpus;
};

static bool is_legal(const struct mesh_walker *w, const struct workload *workload, struct mesh m) {
    return mesh_complete(&m, w->ctx->geometry, workload, w->gpus, NULL) == MOSAIC_OK;
}

/* The plainest mesh: what recomputation asks for is met, and 1F1B asks nothing. */
static struct mesh plain_mesh(void) {
    return (struct mesh){.tp = 1,
                         .cp = 1,
                         .pp = 1,
                         .vpp = 1,
                         .ep = 1,
                         .etp = 1,
                         .micro_batch = 1,
                         .recompute = RECOMPUTE_FULL};
}

static void find_legal(const struct mesh_walker *w, const struct values *values, size_t offset,
                       bool *legal) {
    for (int i = 0; i < values->count; ++i) {
        struct mesh m = plain_mesh();
        memcpy((char *)&m + offset, &values->items[i], sizeof values->items[i]);
        legal[i] = is_legal(w, &w->any_batch, m);
    }
}

static void find_chunks(struct mesh_walker *w) {
    unmark(&w->chunks, w->pp.count);
    for (int p = 0; p < w->pp.count; ++p)
        for (int v = 0; v < w->vpp.count; ++v) {
            struct mesh m = plain_mesh();
            m.pp = w->pp.items[p];
            m.vpp = w->vpp.items[v];
            if (is_legal(w, &w->any_batch, m))
                mark(&w->chunks, p, v);
        }
}

static bool is_measured(const struct mesh_walker *w, const struct axis *axis,
                        enum collective_kind kind, struct group group) {
    return axis->count > 0 || w->space->allow_extrapolation ||
           collective_is_measured(&w->ctx->network, kind, group);
}

static void find_measured_ranks(struct mesh_walker *w) {
    unmark(&w->measured_ranks, w->tp.count);
    for (int a = 0; a < w->tp.count; ++a)
        for (int b = 0; b < w->cp.count; ++b) {
            const int tp = w->tp.items[a], cp = w->cp.items[b];
            if (w->gpus % ((long)tp * cp) == 0 &&
                is_measured(w, &w->space->tp, COLLECTIVE_ALL_GATHER, (struct group){tp, 1}) &&
                is_measured(w, &w->space->cp, COLLECTIVE_ALL_GATHER, (struct group){cp, tp}))
                mark(&w->measured_ranks, a, b);
        }
}

static void find_measured_experts(struct mesh_walker *w) {
    unmark(&w->measured_experts, w->ep.count);
    for (int c = 0; c < w->ep.count; ++c)
        for (int d = 0; d < w->etp.count; ++d) {
            const int ep = w->ep.items[c], etp = w->etp.items[d];
            if (w->gpus % ((long)ep * etp) == 0 &&
                is_measured(w, &w->space->ep, COLLECTIVE_ALL_TO_ALL, (struct group){ep, etp}) &&
                is_measured(w, &w->space->etp, COLLECTIVE_ALL_GATHER, (struct group){etp, 1}))
                mark(&w->measured_experts, c, d);
        }
}

/* Whether arithmetic reads the recomputation: of boundaries alone. */
static bool asks_recompute(const struct workload *w) {
    return w->execution.checkpoint_host_bytes > 0.0;
}

/* Conflicts that meshes here can have.  Recomputation is read by them, and by the offloading of
 * boundaries. */
static void find_conflicts(struct mesh_walker *w) {
    const uint64_t recomputation = (FEATURE_BIT(FEATURE_RECOMPUTE_EXPERTS + 1) - 1) &
                                   ~(FEATURE_BIT(FEATURE_RECOMPUTE_NONE) - 1);
    uint64_t unlisted = 0;
    if (!w->space->schedule[SCHEDULE_ZERO_BUBBLE])
        unlisted |= FEATURE_BIT(FEATURE_ZERO_BUBBLE);
    if (!w->space->schedule[SCHEDULE_DUALPIPE])
        unlisted |= FEATURE_BIT(FEATURE_DUALPIPE);
    w->engine = w->ctx->engine;
    w->recomputes_alike = !asks_recompute(w->ctx->workload);
    const size_t all = way_conflicts(w->ctx, w->conflicts);
    if (all == SIZE_MAX) {
        w->recomputes_alike = false;
        return;
    }
    size_t count = 0;
    for (size_t i = 0; i < all; ++i) {
        const struct engine_rule rule = w->conflicts[i];
        if ((rule.features & unlisted) != 0)
            continue;
        if (((rule.features | rule.unless) & recomputation) != 0)
            w->recomputes_alike = false;
        w->conflicts[count++] = rule;
    }
    w->engine.rules = (struct engine_rules){count, w->conflicts};
}

/* PP of a shape that are legal with one chunk of 1F1B, complete. */
struct stages {
    int count;
    bool legal[AXIS_MAX];
    struct mesh mesh[AXIS_MAX];
};

static bool divides_batch(const struct workload *w, const struct mesh *shape, int dp) {
    return w->global_batch % ((long)shape->micro_batch * dp) == 0;
}

/* `among`: those of the same degrees with any batch, of which only the batch is left to ask. */
static void find_stages(const struct mesh_walker *w, const struct workload *workload,
                        struct mesh shape, const struct stages *among, struct stages *out) {
    out->count = 0;
    shape.vpp = 1;
    for (int p = 0; p < w->pp.count; ++p) {
        struct mesh *const m = &out->mesh[p];
        out->legal[p] = false;
        if (among && (!among->legal[p] || !divides_batch(workload, &shape, among->mesh[p].dp)))
            continue;
        *m = shape;
        m->pp = w->pp.items[p];
        if (among && !asks_recompute(workload)) {
            m->dp = among->mesh[p].dp;
            m->micro_batches = workload->global_batch / (m->micro_batch * m->dp);
            out->legal[p] = true;
        } else {
            out->legal[p] =
                mesh_complete(m, w->ctx->geometry, workload, w->gpus, NULL) == MOSAIC_OK;
        }
        out->count += out->legal[p];
    }
}

/* Of arithmetic, the chunks and schedules other than 1F1B alone read VPP. */
static bool judge(struct mesh_walker *w, struct mesh *m) {
    if (m->schedule != SCHEDULE_1F1B && !is_legal(w, w->ctx->workload, *m)) {
        w->census->indivisible++;
        return false;
    }
    if (mesh_check_engine(m, w->ctx->geometry, w->ctx->workload, &w->engine, NULL) != MOSAIC_OK) {
        w->census->engine_rule++;
        return false;
    }
    w->census->legal++;
    return true;
}

/* The meshes of a shape, marked and told. */
static void walk_meshes(struct mesh_walker *w, const struct stages *stages) {
    for (int s = 0; s < w->schedule.count; ++s)
        unmark(&w->legal[s], w->pp.count);
    for (int p = 0; p < w->pp.count; ++p)
        for (int v = 0; v < w->vpp.count; ++v) {
            if (!stages->legal[p] || !is_marked(&w->chunks, p, v)) {
                w->census->indivisible += w->schedule.count;
                continue;
            }
            for (int s = 0; s < w->schedule.count; ++s) {
                struct mesh m = stages->mesh[p];
                m.vpp = w->vpp.items[v];
                m.schedule = (enum schedule)w->schedule.items[s];
                if (!judge(w, &m))
                    continue;
                mark(&w->legal[s], p, v);
                w->calls.on_mesh(w->context, &m);
            }
        }
}

/* The same once more with another recomputation, which no rule tells from it. */
static void walk_again(struct mesh_walker *w, const struct stages *stages,
                       enum recompute recompute) {
    if (w->calls.on_again) {
        w->calls.on_again(w->context);
        return;
    }
    for (int p = 0; p < w->pp.count; ++p)
        for (int v = 0; stages->legal[p] && v < w->vpp.count; ++v)
            for (int s = 0; s < w->schedule.count; ++s) {
                if (!is_marked(&w->legal[s], p, v))
                    continue;
                struct mesh m = stages->mesh[p];
                m.vpp = w->vpp.items[v];
                m.schedule = (enum schedule)w->schedule.items[s];
                m.recompute = recompute;
                w->calls.on_mesh(w->context, &m);
            }
}

static void add_difference(struct mesh_census *sum, const struct mesh_census *after,
                           const struct mesh_census *before) {
    sum->legal += after->legal - before->legal;
    sum->indivisible += after->indivisible - before->indivisible;
    sum->engine_rule += after->engine_rule - before->engine_rule;
}

/* Every recomputation of one (tp, cp, ep, etp, micro-batch).  A shape is worth a layer table only
 * if some mesh of it can be legal. */
static void walk_recomputes(struct mesh_walker *w, struct mesh shape,
                            const struct stages *any_batch) {
    struct stages stages;
    struct mesh_census before = {0}, after = {0};
    bool is_known = false;
    for (int r = 0; r < RECOMPUTE_MODES; ++r) {
        if (!w->space->recompute[r])
            continue;
        shape.recompute = (enum recompute)r;
        const bool is_again = is_known && w->recomputes_alike;
        if (!is_again) {
            before = *w->census;
            find_stages(w, w->ctx->workload, shape, any_batch, &stages);
        }
        if (stages.count > 0)
            w->calls.on_shape(w->context, &shape);
        if (is_again && stages.count > 0)
            walk_again(w, &stages, shape.recompute);
        else if (stages.count > 0)
            walk_meshes(w, &stages);
        else if (!is_again)
            w->census->indivisible++;
        if (is_again)
            add_difference(w->census, &after, &before);
        else
            after = *w->census;
        is_known = true;
    }
}

static void walk_batches(struct mesh_walker *w, struct mesh shape) {
    struct stages any_batch;
    struct mesh any = shape;
    any.micro_batch = 1;
    any.recompute = RECOMPUTE_FULL;
    find_stages(w, &w->any_batch, any, NULL, &any_batch);
    if (any_batch.count == 0) {
        w->census->indivisible += w->shapes;
        return;
    }
    for (int b = 0; b < w->micro_batch.count; ++b) {
        shape.micro_batch = w->micro_batch.items[b];
        walk_recomputes(w, shape, &any_batch);
    }
}

/* All (ep, etp) beside one (tp, cp); what excludes them whatever the micro-batch. */
static void walk_experts(struct mesh_walker *w, int a, int b) {
    struct mesh shape = {.way = w->ctx->way, .tp = w->tp.items[a], .cp = w->cp.items[b]};
    const bool divides = w->gpus % ((long)shape.tp * shape.cp) == 0;
    const bool is_known = is_marked(&w->measured_ranks, a, b);
    const bool legal = w->legal_tp[a] && w->legal_cp[b];
    for (int c = 0; c < w->ep.count; ++c)
        for (int d = 0; d < w->etp.count; ++d) {
            shape.ep = w->ep.items[c];
            shape.etp = w->etp.items[d];
            const bool tiles = divides && w->gpus % ((long)shape.ep * shape.etp) == 0;
            if (tiles && !(is_known && is_marked(&w->measured_experts, c, d)))
                w->census->unmeasured += w->shapes;
            else if (tiles && legal && w->legal_ep[c] && w->legal_etp[d])
                walk_batches(w, shape);
            else
                w->census->indivisible += w->shapes;
        }
}

static void resolve_axes(struct mesh_walker *w) {
    const struct layout_space *const space = w->space;
    const struct geometry *const g = w->ctx->geometry;
    resolve(&space->tp, w->gpus, &w->tp);
    resolve(&space->cp, w->gpus, &w->cp);
    resolve(&space->pp, w->gpus, &w->pp);
    resolve(&space->vpp, g->layers, &w->vpp);
    resolve_schedules(space->schedule, &w->schedule);
    resolve(&space->ep, g->experts > 0 ? g->experts : 1, &w->ep);
    resolve(&space->etp, g->experts > 0 ? w->gpus : 1, &w->etp);
    resolve(&space->micro_batch, w->ctx->workload->global_batch, &w->micro_batch);
    w->shapes = 0;
    for (int r = 0; r < RECOMPUTE_MODES; ++r)
        w->shapes += space->recompute[r] ? w->micro_batch.count : 0;
}

struct mesh_walker *mesh_walker_new(void) {
    return malloc(sizeof(struct mesh_walker));
}

void mesh_walker_free(struct mesh_walker *walker) {
    free(walker);
}

void mesh_walker_open(struct mesh_walker *w, const struct step_context *ctx,
                      const struct layout_space *space) {
    w->ctx = ctx;
    w->space = space;
    w->gpus = cluster_gpus(ctx->cluster);
    w->any_batch = *ctx->workload;
    w->any_batch.global_batch = w->gpus;
    resolve_axes(w);
    find_legal(w, &w->tp, offsetof(struct mesh, tp), w->legal_tp);
    find_legal(w, &w->cp, offsetof(struct mesh, cp), w->legal_cp);
    find_legal(w, &w->ep, offsetof(struct mesh, ep), w->legal_ep);
    find_legal(w, &w->etp, offsetof(struct mesh, etp), w->legal_etp);
    find_conflicts(w);
    find_chunks(w);
    find_measured_ranks(w);
    find_measured_experts(w);
}

static void tell_values(const struct values *values, const bool *legal, mesh_tell_call *tell,
                        void *context) {
    tell(context, &values->count, sizeof values->count);
    tell(context, values->items, (size_t)values->count * sizeof values->items[0]);
    if (legal)
        tell(context, legal, (size_t)values->count * sizeof legal[0]);
}

static void tell_marks(const struct marks *marks, int rows, mesh_tell_call *tell, void *context) {
    tell(context, marks->bits, (size_t)rows * (AXIS_MAX / MARKS_A_WORD) * sizeof marks->bits[0]);
}

void mesh_walker_tell(const struct mesh_walker *w, mesh_tell_call *tell, void *context) {
    const struct geometry *const g = w->ctx->geometry;
    const int counts[] = {w->gpus, g->layers, g->mtp_layers, g->kv_heads, g->experts > 0};
    tell(context, counts, sizeof counts);
    tell(context, w->space->recompute, sizeof w->space->recompute);
    tell_values(&w->tp, w->legal_tp, tell, context);
    tell_values(&w->cp, w->legal_cp, tell, context);
    tell_values(&w->ep, w->legal_ep, tell, context);
    tell_values(&w->etp, w->legal_etp, tell, context);
    tell_values(&w->pp, NULL, tell, context);
    tell_values(&w->vpp, NULL, tell, context);
    tell_values(&w->micro_batch, NULL, tell, context);
    tell_values(&w->schedule, NULL, tell, context);
    tell_marks(&w->measured_ranks, w->tp.count, tell, context);
    tell_marks(&w->measured_experts, w->ep.count, tell, context);
}

void mesh_walker_run(struct mesh_walker *w, const struct mesh_calls *calls, void *context,
                     struct mesh_census *census) {
    w->calls = *calls;
    w->context = context;
    w->census = census;
    for (int a = 0; a < w->tp.count; ++a)
        for (int b = 0; b < w->cp.count; ++b)
            walk_experts(w, a, b);
}

void mesh_walk(const struct step_context *ctx, const struct layout_space *space,
               mesh_shape_call *on_shape, mesh_call *on_mesh, void *context,
               struct mesh_census *census) {
    struct mesh_walker walker;
    mesh_walker_open(&walker, ctx, space);
    mesh_walker_run(&walker, &(struct mesh_calls){on_shape, on_mesh, NULL}, context, census);
}
