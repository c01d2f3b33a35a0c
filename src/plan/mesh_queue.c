// SPDX-License-Identifier: GPL-3.0-or-later
/* Shapes and meshes in one heap, as numbers that sort as they do. */
#include "plan/mesh_queue.h"

#include "plan/best_split.h"
#include "plan/mesh_heap.h"
#include "plan/shape_bound.h"
#include "plan/split_room.h"
#include "plan/table_cache.h"
#include "plan/way_classes.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Ways with the same layer tables and the same legal meshes. */
struct way_group {
    const struct mesh_catalog *catalog;
    struct way_key key; /* of its tables */
    int first, count;   /* in the queue's list of ways */
    bool memory_rises;  /* never falls with the micro-batch */
    bool time_falls;    /* of a token with the micro-batch, but for dips of measured curves */
};

/* What waits, from the coarse to the fine; at equal bounds the coarse comes first. */
enum queue_level {
    LEVEL_DEGREES, /* (tp, cp, ep, etp) */
    LEVEL_BATCHES, /* and a recomputation: all its micro-batches */
    LEVEL_SHAPE,   /* and one micro-batch */
    LEVEL_MESH
};

struct queue_entry {
    double bound_s;
    uint16_t level, group;
    uint16_t way;  /* of a mesh: place in the queue's list */
    uint16_t part; /* of batches: recomputation */
    uint32_t at;   /* of the catalogue: degrees, or shape */
    uint32_t mesh; /* of the catalogue */
};
enum { STAGES_MAX = SCHEDULES * LAYOUT_MAX_PP };
/* An entry's key, from the highest bit down: level, way of a mesh or else group, at, mesh of its
 * shape or else part.  Ways stand group after group, so theirs is the order of groups too. */
enum { LEVEL_BITS = 2, WAY_BITS = 8, AT_BITS = 28, MESH_BITS = 26, KEY_BITS = 64 };
static_assert(LEVEL_BITS + WAY_BITS + AT_BITS + MESH_BITS == KEY_BITS, "a key is full");
static_assert(PROBLEM_WAYS_MAX <= 1 << WAY_BITS, "ways and groups have a place in a key");
enum { KEPT_MAX = 128 }; /* entries of a queue that is kept */

struct queue_start {
    struct queue_counts counts;
    double least_memory_bytes;
    struct heap_entry first; /* the mesh given */
    size_t count;
    struct heap_entry rest[]; /* as it stood in the heap */
};

struct mesh_queue {
    struct catalog_cache *cache;
    struct step_context *contexts; /* one a way, group after group */
    struct way_key *rules;         /* by way */
    int *group_of;                 /* by way */
    const struct mesh_catalog **catalog_of;
    int ways, way_room;
    struct way_group *groups;
    int group_count;
    struct mesh_heap heap;
    struct heap_entry given; /* the last one */
    struct table_cache *tables;
    const struct layer_table *table; /* the last one asked for */
    struct queue_counts *counts;
    struct collective_curve *dip_of; /* a copy of the collectives that the next one is of */
    int dip_curves;                  /* how many; -1: of none yet */
    double dip;
    double least_memory_bytes;
};

struct mesh_queue *mesh_queue_new(void) {
    struct mesh_queue *const q = calloc(1, sizeof *q);
    if (!q)
        return NULL;
    q->dip_curves = -1;
    q->cache = catalog_cache_new();
    q->tables = table_cache_new();
    if (q->cache && q->tables)
        return q;
    mesh_queue_free(q);
    return NULL;
}

void mesh_queue_free(struct mesh_queue *q) {
    if (!q)
        return;
    catalog_cache_free(q->cache);
    table_cache_free(q->tables);
    free(q->contexts);
    free(q->rules);
    free(q->group_of);
    free(q->catalog_of);
    free(q->groups);
    mesh_heap_free(&q->heap);
    free(q->dip_of);
    free(q);
}

/* ---- entries ---- */

static void push(struct mesh_queue *q, const struct queue_entry *e) {
    const bool is_mesh = e->level == LEVEL_MESH;
    const uint32_t first = is_mesh ? q->groups[e->group].catalog->shapes[e->at].first : 0;
    const uint64_t way = is_mesh ? e->way : e->group, last = is_mesh ? e->mesh - first : e->part;
    assert(e->at >> AT_BITS == 0 && last >> MESH_BITS == 0);
    const struct heap_entry entry = {e->bound_s, (uint64_t)e->level << (KEY_BITS - LEVEL_BITS) |
                                                     way << (AT_BITS + MESH_BITS) |
                                                     (uint64_t)e->at << MESH_BITS | last};
    mesh_heap_push(&q->heap, &entry);
}

static uint16_t group_of_place(const struct mesh_queue *q, int place) {
    return (uint16_t)q->group_of[q->contexts[place].way];
}

static struct queue_entry entry_of(const struct mesh_queue *q, const struct heap_entry *from) {
    const uint64_t one = 1;
    const uint16_t way = (uint16_t)(from->key >> (AT_BITS + MESH_BITS) & ((one << WAY_BITS) - 1));
    const uint32_t last = (uint32_t)(from->key & ((one << MESH_BITS) - 1));
    struct queue_entry e = {.bound_s = from->bound_s,
                            .level = (uint16_t)(from->key >> (KEY_BITS - LEVEL_BITS)),
                            .group = way,
                            .at = (uint32_t)(from->key >> MESH_BITS & ((one << AT_BITS) - 1))};
    if (e.level == LEVEL_MESH) {
        e.way = way;
        e.group = group_of_place(q, way);
        e.mesh = q->groups[e.group].catalog->shapes[e.at].first + last;
    } else {
        e.part = (uint16_t)last;
    }
    return e;
}

/* ---- ways ---- */

static bool grow_ways(struct mesh_queue *q, int ways) {
    q->ways = ways;
    if (ways <= q->way_room)
        return true;
    free(q->contexts);
    free(q->rules);
    free(q->group_of);
    free(q->catalog_of);
    free(q->groups);
    q->contexts = calloc((size_t)ways, sizeof *q->contexts);
    q->rules = calloc((size_t)ways, sizeof *q->rules);
    q->group_of = calloc((size_t)ways, sizeof *q->group_of);
    q->catalog_of = calloc((size_t)ways, sizeof(const struct mesh_catalog *));
    q->groups = calloc((size_t)ways, sizeof *q->groups);
    const bool done = q->contexts && q->rules && q->group_of && q->catalog_of && q->groups;
    q->way_room = done ? ways : 0;
    return done;
}

/* Its legal meshes: those of an earlier way that legality cannot tell from it, or found. */
static enum mosaic_status find_catalog(struct mesh_queue *q, const struct problem *problem,
                                       const struct step_context *ctx, struct status_error *err) {
    const int way = ctx->way;
    way_rules_key(ctx, &q->rules[way]);
    for (int i = 0; i < way; ++i)
        if (way_key_equal(&q->rules[i], &q->rules[way])) {
            q->catalog_of[way] = q->catalog_of[i];
            return MOSAIC_OK;
        }
    return catalog_find(q->cache, ctx, &problem->layouts, &q->catalog_of[way], err);
}

static int find_group(struct mesh_queue *q, const struct step_context *ctx) {
    struct way_key key;
    way_table_key(ctx, &key);
    for (int i = 0; i < q->group_count; ++i) {
        struct way_group *const g = &q->groups[i];
        if (g->catalog == q->catalog_of[ctx->way] && g->memory_rises == memory_rises(ctx) &&
            way_key_equal(&g->key, &key)) {
            g->count++;
            return i;
        }
    }
    struct way_group *const g = &q->groups[q->group_count];
    g->catalog = q->catalog_of[ctx->way];
    g->key = key;
    g->first = 0;
    g->count = 1;
    g->memory_rises = memory_rises(ctx);
    g->time_falls = batches_are_bounded(ctx);
    return q->group_count++;
}

static enum mosaic_status open_ways(struct mesh_queue *q, const struct problem *problem,
                                    const struct geometry *geometry, struct status_error *err) {
    const int ways = problem_ways(problem);
    if (!grow_ways(q, ways))
        return status_no_memory(err);
    catalog_cache_trim(q->cache);
    q->group_count = 0;
    for (int way = 0; way < ways; ++way) {
        struct step_context ctx;
        problem_context(problem, geometry, way, &ctx);
        TRY(find_catalog(q, problem, &ctx, err));
        q->group_of[way] = find_group(q, &ctx);
    }
    for (int i = 1; i < q->group_count; ++i)
        q->groups[i].first = q->groups[i - 1].first + q->groups[i - 1].count;
    int placed[PROBLEM_WAYS_MAX] = {0};
    for (int way = 0; way < ways; ++way) {
        const int group = q->group_of[way];
        problem_context(problem, geometry, way,
                        &q->contexts[q->groups[group].first + placed[group]++]);
    }
    return MOSAIC_OK;
}

/* ---- tables ---- */

static void fill_table(struct mesh_queue *q, const struct way_group *g, const struct mesh *shape) {
    bool is_filled;
    q->table = table_cache_find(q->tables, &q->contexts[g->first], (int)(g - q->groups), shape,
                                &is_filled);
    q->counts->tables += is_filled;
}

static void fill_shape_table(struct mesh_queue *q, const struct way_group *g,
                             const struct catalog_shape *shape, struct mesh *out) {
    catalog_shape_fill(shape, q->contexts[g->first].way, out);
    fill_table(q, g, out);
}

/* ---- memory ---- */

static bool stages_fit(struct mesh_queue *q, const struct step_context *ctx,
                       const struct catalog_shape *shape, const struct catalog_stages *stages) {
    const struct catalog_mesh place = {.pp = stages->pp, .vpp = 1, .schedule = stages->schedule};
    struct mesh m;
    catalog_mesh_fill(shape, &place, ctx, &m);
    const double bytes = step_memory_bound(ctx, q->table, &m);
    q->least_memory_bytes = fmin(q->least_memory_bytes, bytes);
    return memory_verdict(ctx, bytes) != VERDICT_NO;
}

/* Whether any mesh of a shape can hold the model in any way of its group; the most stages, which
 * need least each, are asked first. */
static bool shape_fits(struct mesh_queue *q, const struct way_group *g,
                       const struct catalog_shape *shape) {
    const struct catalog_stages *const stages = &g->catalog->stages[shape->first_stages];
    for (int i = 0; i < g->count; ++i)
        for (uint32_t k = shape->stages_count; k > 0; --k)
            if (stages_fit(q, &q->contexts[g->first + i], shape, &stages[k - 1]))
                return true;
    return false;
}

static bool has_stages(const struct mesh_catalog *c, const struct catalog_shape *shape,
                       const struct catalog_stages *stages) {
    for (uint32_t i = 0; i < shape->stages_count; ++i) {
        const struct catalog_stages *const own = &c->stages[shape->first_stages + i];
        if (own->pp == stages->pp && own->schedule == stages->schedule)
            return true;
    }
    return false;
}

/* Whether a smaller micro-batch, of which no stages hold the model, has all stages that this one
 * has. */
static bool is_closed_by(const struct mesh_catalog *c, const struct catalog_shape *smaller,
                         const struct catalog_shape *shape) {
    if (!smaller || smaller->micro_batch > shape->micro_batch)
        return false;
    for (uint32_t i = 0; i < shape->stages_count; ++i)
        if (!has_stages(c, smaller, &c->stages[shape->first_stages + i]))
            return false;
    return true;
}

/* ---- from the coarse to the fine ---- */

/* All micro-batches of one recomputation among some degrees; those that no mesh of any way can hold
 * are closed. */
static void open_batches(struct mesh_queue *q, uint16_t group, uint32_t degrees, int recompute) {
    const struct way_group *const g = &q->groups[group];
    const struct mesh_catalog *const c = g->catalog;
    const struct catalog_degrees *const d = &c->degrees[degrees];
    const struct catalog_shape *closed = NULL;
    for (uint32_t i = d->first; i < d->first + d->count; ++i) {
        const struct catalog_shape *const shape = &c->shapes[i];
        if ((int)shape->recompute != recompute || shape->count == 0)
            continue;
        if (!(g->memory_rises && is_closed_by(c, closed, shape))) {
            struct mesh m;
            fill_shape_table(q, g, shape, &m);
            if (shape_fits(q, g, shape)) {
                const struct queue_entry entry = {
                    .bound_s = shape_bound_s(&q->contexts[g->first], q->table, &m),
                    .level = LEVEL_SHAPE,
                    .group = group,
                    .at = i};
                push(q, &entry);
                continue;
            }
            closed = closed ? closed : shape;
        }
        q->counts->closed_by_memory += (long)shape->count * g->count;
    }
}

/* What the meshes of some degrees have: the recomputations, and the largest micro-batch of each. */
struct degrees_span {
    int most[RECOMPUTE_MODES]; /* 0: no legal mesh */
    int least_recompute, recomputes, most_of_all;
};

static struct degrees_span span_of(const struct mesh_catalog *c, uint32_t degrees) {
    const struct catalog_degrees *const d = &c->degrees[degrees];
    struct degrees_span out = {.least_recompute = RECOMPUTE_MODES};
    for (uint32_t i = d->first; i < d->first + d->count; ++i) {
        const struct catalog_shape *const s = &c->shapes[i];
        if (s->count > 0 && s->micro_batch > out.most[s->recompute])
            out.most[s->recompute] = s->micro_batch;
    }
    for (int r = RECOMPUTE_MODES - 1; r >= 0; --r)
        if (out.most[r] > 0) {
            out.least_recompute = r;
            out.recomputes++;
            out.most_of_all = out.most[r] > out.most_of_all ? out.most[r] : out.most_of_all;
        }
    return out;
}

static double bound_of(struct mesh_queue *q, uint16_t group, uint32_t degrees, int recompute,
                       int micro_batch, bool is_any_recompute) {
    const struct way_group *const g = &q->groups[group];
    struct mesh m;
    catalog_shape_fill(&g->catalog->shapes[g->catalog->degrees[degrees].first],
                       q->contexts[g->first].way, &m);
    m.recompute = (enum recompute)recompute;
    m.micro_batch = micro_batch;
    fill_table(q, g, &m);
    return batches_bound_s(&q->contexts[g->first], q->table, &m, is_any_recompute, q->dip);
}

static void open_degrees(struct mesh_queue *q, uint16_t group, uint32_t degrees) {
    const struct degrees_span span = span_of(q->groups[group].catalog, degrees);
    for (int r = 0; r < RECOMPUTE_MODES; ++r) {
        if (span.most[r] == 0)
            continue;
        const struct queue_entry entry = {.bound_s =
                                              bound_of(q, group, degrees, r, span.most[r], false),
                                          .level = LEVEL_BATCHES,
                                          .group = group,
                                          .part = (uint16_t)r,
                                          .at = degrees};
        push(q, &entry);
    }
}

static void open_group(struct mesh_queue *q, uint16_t group) {
    const struct way_group *const g = &q->groups[group];
    const struct mesh_catalog *const c = g->catalog;
    struct queue_counts *const n = q->counts;
    assert(c);
    n->meshes += c->census.legal * g->count;
    n->census.legal += c->census.legal * g->count;
    n->census.indivisible += c->census.indivisible * g->count;
    n->census.unmeasured += c->census.unmeasured * g->count;
    n->census.engine_rule += c->census.engine_rule * g->count;
    n->shapes += (long)c->shape_count;
    for (uint32_t i = 0; i < c->degrees_count && !q->heap.out_of_memory; ++i) {
        const struct degrees_span span = span_of(c, i);
        if (span.recomputes == 0) /* all against a rule of the engine */
            continue;
        if (!g->time_falls) {
            for (int r = 0; r < RECOMPUTE_MODES; ++r)
                open_batches(q, group, i, r);
            continue;
        }
        const struct queue_entry entry = {
            .bound_s =
                bound_of(q, group, i, span.least_recompute, span.most_of_all, span.recomputes > 1),
            .level = LEVEL_DEGREES,
            .group = group,
            .at = i};
        push(q, &entry);
    }
}

/* The meshes of one way: those that may fit, each under its own bound. */
static void open_way(struct mesh_queue *q, const struct queue_entry *at, int way) {
    const struct mesh_catalog *const c = q->groups[at->group].catalog;
    const struct catalog_shape *const shape = &c->shapes[at->at];
    const struct step_context *const ctx = &q->contexts[way];
    bool fits[STAGES_MAX] = {false};
    for (uint32_t i = 0; i < shape->stages_count; ++i)
        fits[i] = stages_fit(q, ctx, shape, &c->stages[shape->first_stages + i]);
    for (uint32_t i = 0; i < shape->count; ++i) {
        const struct catalog_mesh *const place = &c->meshes[shape->first + i];
        if (!fits[place->stages]) {
            q->counts->closed_by_memory++;
            continue;
        }
        struct mesh m;
        catalog_mesh_fill(shape, place, ctx, &m);
        const struct queue_entry entry = {.bound_s = best_split_bound(ctx, q->table, &m),
                                          .level = LEVEL_MESH,
                                          .group = at->group,
                                          .way = (uint16_t)way,
                                          .at = at->at,
                                          .mesh = shape->first + i};
        q->counts->bounded++;
        push(q, &entry);
    }
}

static void open_shape(struct mesh_queue *q, const struct queue_entry *at) {
    const struct way_group *const g = &q->groups[at->group];
    struct mesh m;
    fill_shape_table(q, g, &g->catalog->shapes[at->at], &m);
    for (int i = 0; i < g->count && !q->heap.out_of_memory; ++i)
        open_way(q, at, g->first + i);
}

/* Curves are asked about once: every geometry of a machine has the same. */
static enum mosaic_status find_dip(struct mesh_queue *q, const struct calibration *calibration,
                                   struct status_error *err) {
    const int count = calibration->collective_count;
    const size_t size = (size_t)count * sizeof *q->dip_of;
    if (count == q->dip_curves &&
        (count == 0 || memcmp(q->dip_of, calibration->collective, size) == 0))
        return MOSAIC_OK;
    free(q->dip_of);
    q->dip_curves = -1;
    q->dip_of = malloc(size > 0 ? size : 1);
    if (!q->dip_of)
        return status_no_memory(err);
    memcpy(q->dip_of, calibration->collective, size);
    q->dip_curves = count;
    q->dip = collective_dip(calibration);
    return MOSAIC_OK;
}

static enum mosaic_status begin(struct mesh_queue *q, const struct problem *problem,
                                const struct geometry *geometry, struct queue_counts *counts,
                                struct status_error *err) {
    q->counts = counts;
    q->least_memory_bytes = (double)INFINITY;
    mesh_heap_clear(&q->heap);
    table_cache_clear(q->tables);
    TRY(find_dip(q, &problem->calibration, err));
    return open_ways(q, problem, geometry, err);
}

enum mosaic_status mesh_queue_open(struct mesh_queue *q, const struct problem *problem,
                                   const struct geometry *geometry, struct queue_counts *counts,
                                   struct status_error *err) {
    TRY(begin(q, problem, geometry, counts, err));
    for (int i = 0; i < q->group_count; ++i)
        open_group(q, (uint16_t)i);
    return q->heap.out_of_memory ? status_no_memory(err) : MOSAIC_OK;
}

double mesh_queue_least_memory(const struct mesh_queue *q) {
    return q->least_memory_bytes;
}

static void give(struct mesh_queue *q, const struct queue_entry *at, struct queued_mesh *out) {
    const struct way_group *const g = &q->groups[at->group];
    const struct catalog_shape *const shape = &g->catalog->shapes[at->at];
    fill_shape_table(q, g, shape, &out->mesh);
    out->ctx = &q->contexts[at->way];
    out->table = q->table;
    out->bound_s = at->bound_s;
    catalog_mesh_fill(shape, &g->catalog->meshes[at->mesh], out->ctx, &out->mesh);
}

enum mosaic_status mesh_queue_next(struct mesh_queue *q, double cutoff_s, struct queued_mesh *out,
                                   bool *found, struct status_error *err) {
    *found = false;
    while (q->heap.count > 0 && !(q->heap.items[0].bound_s > cutoff_s)) {
        q->given = mesh_heap_pop(&q->heap);
        const struct queue_entry entry = entry_of(q, &q->given);
        if (entry.level == LEVEL_MESH) {
            give(q, &entry, out);
            *found = split_has_room(out->ctx, out->table, &out->mesh);
            if (*found)
                return MOSAIC_OK;
            q->counts->closed_by_memory++;
            q->counts->closed_late++;
            continue;
        }
        if (entry.level == LEVEL_DEGREES)
            open_degrees(q, entry.group, entry.at);
        else if (entry.level == LEVEL_BATCHES)
            open_batches(q, entry.group, entry.at, entry.part);
        else
            open_shape(q, &entry);
        if (q->heap.out_of_memory)
            return status_no_memory(err);
    }
    return MOSAIC_OK;
}

struct queue_start *mesh_queue_keep(const struct mesh_queue *q) {
    const size_t count = q->heap.count;
    if (count > KEPT_MAX)
        return NULL;
    struct queue_start *const start = malloc(sizeof *start + count * sizeof start->rest[0]);
    if (!start)
        return NULL;
    start->counts = *q->counts;
    start->least_memory_bytes = q->least_memory_bytes;
    start->first = q->given;
    start->count = count;
    if (count > 0)
        memcpy(start->rest, q->heap.items, count * sizeof start->rest[0]);
    return start;
}

enum mosaic_status mesh_queue_resume(struct mesh_queue *q, const struct problem *problem,
                                     const struct geometry *geometry,
                                     const struct queue_start *start, struct queue_counts *counts,
                                     struct queued_mesh *first, struct status_error *err) {
    TRY(begin(q, problem, geometry, counts, err));
    mesh_heap_restore(&q->heap, start->rest, start->count);
    if (q->heap.out_of_memory)
        return status_no_memory(err);
    q->given = start->first;
    q->least_memory_bytes = start->least_memory_bytes;
    const struct queue_entry entry = entry_of(q, &start->first);
    give(q, &entry, first);
    *counts = start->counts; /* as if all had been done again */
    return MOSAIC_OK;
}
