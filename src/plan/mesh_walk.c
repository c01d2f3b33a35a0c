// SPDX-License-Identifier: GPL-3.0-or-later
/* Enumerating the legal meshes of one geometry. */
#include "plan/mesh_walk.h"

enum { AXIS_MAX = 512 };

struct values {
    int count;
    int items[AXIS_MAX];
};

int axis_divisors(int limit, int *values, int max_values) {
    int count = 0;
    for (int d = 1; d <= limit && count < max_values; ++d)
        if (limit % d == 0)
            values[count++] = d;
    return count;
}

static void resolve(const struct axis *axis, int limit, struct values *out) {
    if (axis->count == 0) {
        out->count = axis_divisors(limit, out->items, AXIS_MAX);
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

struct walk {
    const struct step_context *ctx;
    const struct layout_space *space;
    mesh_shape_call *on_shape;
    mesh_call *on_mesh;
    void *context;
    struct mesh_census *census;
    struct values pp, vpp, schedule;
    int gpus;
};

static bool is_measured(const struct walk *w, const struct axis *axis, enum collective_kind kind,
                        struct group group) {
    return axis->count > 0 || w->space->allow_extrapolation ||
           collective_is_measured(&w->ctx->network, kind, group);
}

static bool shape_is_measured(const struct walk *w, const struct mesh *m) {
    return is_measured(w, &w->space->tp, COLLECTIVE_ALL_GATHER, (struct group){m->tp, 1}) &&
           is_measured(w, &w->space->cp, COLLECTIVE_ALL_GATHER, (struct group){m->cp, m->tp}) &&
           is_measured(w, &w->space->ep, COLLECTIVE_ALL_TO_ALL, (struct group){m->ep, m->etp}) &&
           is_measured(w, &w->space->etp, COLLECTIVE_ALL_GATHER, (struct group){m->etp, 1});
}

static void visit_mesh(struct walk *w, struct mesh m) {
    if (mesh_complete(&m, w->ctx->geometry, w->ctx->workload, w->gpus, NULL) != MOSAIC_OK) {
        w->census->indivisible++;
    } else if (mesh_check_engine(&m, w->ctx->geometry, w->ctx->workload, &w->ctx->engine, NULL) !=
               MOSAIC_OK) {
        w->census->engine_rule++;
    } else {
        w->census->legal++;
        w->on_mesh(w->context, &m);
    }
}

static void walk_meshes(struct walk *w, const struct mesh *shape) {
    for (int p = 0; p < w->pp.count; ++p)
        for (int v = 0; v < w->vpp.count; ++v)
            for (int s = 0; s < w->schedule.count; ++s) {
                struct mesh m = *shape;
                m.pp = w->pp.items[p];
                m.vpp = w->vpp.items[v];
                m.schedule = (enum schedule)w->schedule.items[s];
                visit_mesh(w, m);
            }
}

/* A shape is worth a layer table only if some mesh of it can be legal. */
static bool shape_is_legal(const struct walk *w, const struct mesh *shape) {
    struct mesh m = *shape;
    m.vpp = 1;
    for (int p = 0; p < w->pp.count; ++p) {
        m.pp = w->pp.items[p];
        if (mesh_complete(&m, w->ctx->geometry, w->ctx->workload, w->gpus, NULL) == MOSAIC_OK)
            return true;
    }
    return false;
}

/* Every micro-batch and recomputation of one (tp, cp, ep, etp). */
static void walk_batches(struct walk *w, struct mesh shape, const struct values *micro_batch) {
    for (int b = 0; b < micro_batch->count; ++b) {
        shape.micro_batch = micro_batch->items[b];
        for (int r = 0; r < RECOMPUTE_MODES; ++r) {
            if (!w->space->recompute[r])
                continue;
            shape.recompute = (enum recompute)r;
            if (shape_is_legal(w, &shape)) {
                w->on_shape(w->context, &shape);
                walk_meshes(w, &shape);
            } else {
                w->census->indivisible++;
            }
        }
    }
}

/* What excludes a (tp, cp, ep, etp) whatever its micro-batch. */
static void visit_degrees(struct walk *w, const struct mesh *shape,
                          const struct values *micro_batch) {
    long shapes = 0;
    for (int r = 0; r < RECOMPUTE_MODES; ++r)
        shapes += w->space->recompute[r] ? micro_batch->count : 0;
    if (w->gpus % ((long)shape->tp * shape->cp) != 0 ||
        w->gpus % ((long)shape->ep * shape->etp) != 0)
        w->census->indivisible += shapes;
    else if (!shape_is_measured(w, shape))
        w->census->unmeasured += shapes;
    else
        walk_batches(w, *shape, micro_batch);
}

void mesh_walk(const struct step_context *ctx, const struct layout_space *space,
               mesh_shape_call *on_shape, mesh_call *on_mesh, void *context,
               struct mesh_census *census) {
    struct walk w = {.ctx = ctx,
                     .space = space,
                     .on_shape = on_shape,
                     .on_mesh = on_mesh,
                     .context = context,
                     .census = census,
                     .gpus = cluster_gpus(ctx->cluster)};
    const struct geometry *const g = ctx->geometry;
    struct values tp, cp, ep, etp, micro_batch;
    resolve(&space->tp, w.gpus, &tp);
    resolve(&space->cp, w.gpus, &cp);
    resolve(&space->pp, w.gpus, &w.pp);
    resolve(&space->vpp, g->layers, &w.vpp);
    resolve_schedules(space->schedule, &w.schedule);
    resolve(&space->ep, g->experts > 0 ? g->experts : 1, &ep);
    resolve(&space->etp, g->experts > 0 ? w.gpus : 1, &etp);
    resolve(&space->micro_batch, ctx->workload->global_batch, &micro_batch);
    for (int a = 0; a < tp.count; ++a)
        for (int b = 0; b < cp.count; ++b)
            for (int c = 0; c < ep.count; ++c)
                for (int d = 0; d < etp.count; ++d) {
                    const struct mesh shape = {.way = ctx->way,
                                               .tp = tp.items[a],
                                               .cp = cp.items[b],
                                               .ep = ep.items[c],
                                               .etp = etp.items[d]};
                    visit_degrees(&w, &shape, &micro_batch);
                }
}
