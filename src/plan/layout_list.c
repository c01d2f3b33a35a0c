// SPDX-License-Identifier: GPL-3.0-or-later
/* Bounding and opening the meshes of one geometry for its N best, and what to say when none fits.
 */
#include "plan/layout_list.h"

#include "plan/layout_axes.h"

#include <math.h>
#include <stdlib.h>

enum { GPUS_MOST = 4096, PROGRESS_EVERY = 16 };

struct bounded_mesh {
    struct mesh mesh;
    double bound_s;
    size_t order; /* of the walk: decides between equal bounds */
};

/* What the walk's callbacks fill. */
struct gathering {
    const struct problem *problem;
    const struct geometry *geometry;
    const struct step_context *ctx; /* of the way being walked */
    struct layer_table table;       /* of the shape being walked */
    struct layout_counts *counts;
    struct bounded_mesh *meshes;
    size_t count, capacity;
    bool out_of_memory;
};

static void gather_shape(void *context, const struct mesh *shape) {
    struct gathering *const g = context;
    layer_table_fill(g->ctx, shape, &g->table);
}

static void gather_mesh(void *context, const struct mesh *mesh) {
    struct gathering *const g = context;
    if (g->out_of_memory)
        return;
    g->counts->meshes++;
    if (memory_verdict(g->ctx, step_memory_bound(g->ctx, &g->table, mesh)) == VERDICT_NO) {
        g->counts->closed_by_memory++;
        return;
    }
    if (g->count == g->capacity) {
        const size_t larger = g->capacity ? g->capacity * 2 : 256;
        struct bounded_mesh *const grown = realloc(g->meshes, larger * sizeof *grown);
        if (!grown) {
            g->out_of_memory = true;
            return;
        }
        g->meshes = grown;
        g->capacity = larger;
    }
    g->meshes[g->count] =
        (struct bounded_mesh){*mesh, best_split_bound(g->ctx, &g->table, mesh), g->count};
    g->count++;
}

static int by_bound(const void *left, const void *right) {
    const struct bounded_mesh *const a = left, *const b = right;
    if (a->bound_s != b->bound_s)
        return a->bound_s < b->bound_s ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static bool is_before(const struct listed_layout *a, const struct listed_layout *b) {
    if (a->step_time_s != b->step_time_s)
        return a->step_time_s < b->step_time_s;
    return mesh_compare(&a->layout.mesh, &b->layout.mesh) < 0;
}

/* Whether they are one job: without ranks to exchange with, how tokens are exchanged is no choice.
 */
static bool is_same_job(const struct problem *p, const struct listed_layout *a,
                        const struct listed_layout *b) {
    const unsigned exchange =
        1u << WAY_DISPATCHER | 1u << WAY_EXPERT_BALANCE | 1u << WAY_DISPATCH_CHUNK;
    struct mesh same = a->layout.mesh;
    same.way = b->layout.mesh.way;
    return same.ep == 1 && mesh_compare(&same, &b->layout.mesh) == 0 &&
           !(a->step_time_s < b->step_time_s || a->step_time_s > b->step_time_s) &&
           (layout_way_difference(&problem_workload(p, a->layout.mesh.way)->execution,
                                  &problem_workload(p, b->layout.mesh.way)->execution) &
            ~exchange) == 0;
}

/* Into its place among the best `top`; of two ways that are one job the first stays. */
static void keep(const struct problem *p, struct layout_list *list, size_t top,
                 const struct listed_layout *found) {
    size_t at = list->count;
    for (size_t i = 0; i < list->count; ++i)
        if (is_same_job(p, found, &list->items[i])) {
            if (found->layout.mesh.way < list->items[i].layout.mesh.way)
                list->items[i] = *found;
            return;
        }
    while (at > 0 && is_before(found, &list->items[at - 1]))
        --at;
    if (at >= top)
        return;
    if (list->count < top)
        list->count++;
    for (size_t i = list->count - 1; i > at; --i)
        list->items[i] = list->items[i - 1];
    list->items[at] = *found;
}

static bool is_stopped(const atomic_bool *stop) {
    return stop && atomic_load(stop);
}

static enum mosaic_status open_mesh(struct split_scratch *scratch, const struct problem *problem,
                                    const struct step_context *ctx, const struct mesh *mesh,
                                    size_t top, struct layout_list *out, struct status_error *err) {
    struct layer_table table;
    struct best_split split;
    layer_table_fill(ctx, mesh, &table);
    const struct split_request request = {ctx, &table, mesh, (double)INFINITY};
    TRY(best_split_find(scratch, &request, &split, &out->counts.work, err));
    out->counts.opened++;
    out->counts.too_large += split.too_large;
    out->counts.implausible += split.implausible;
    out->solved += split.found;
    if (split.found) {
        const struct listed_layout found = {{*mesh, split.split}, split.step_time_s};
        keep(problem, out, top, &found);
    }
    return MOSAIC_OK;
}

static enum mosaic_status open_all(struct split_scratch *scratch, const struct gathering *g,
                                   const struct layout_list_options *options,
                                   struct layout_list *out, struct status_error *err) {
    struct step_context ctx;
    for (size_t i = 0; i < g->count; ++i) {
        const double bound_s = g->meshes[i].bound_s;
        /* A tie is decided by the order of meshes, so an equal bound is opened too. */
        if (out->count == options->top && bound_s > out->items[out->count - 1].step_time_s) {
            out->counts.closed_by_bound += (long)(g->count - i);
            break;
        }
        if (is_stopped(options->stop)) {
            out->status = SEARCH_INTERRUPTED;
            out->open = (long)(g->count - i);
            out->open_bound_s = bound_s;
            return MOSAIC_OK;
        }
        problem_context(g->problem, g->geometry, g->meshes[i].mesh.way, &ctx);
        TRY(open_mesh(scratch, g->problem, &ctx, &g->meshes[i].mesh, options->top, out, err));
        if (options->progress && i % PROGRESS_EVERY == 0)
            options->progress(options->progress_context, (double)i, (double)g->count);
    }
    out->status = out->count > 0 ? SEARCH_OPTIMAL : SEARCH_INFEASIBLE;
    return MOSAIC_OK;
}

enum mosaic_status layout_list_find(const struct problem *problem, const struct geometry *geometry,
                                    const struct layout_list_options *options,
                                    struct layout_list *out, struct status_error *err) {
    if (options->top < 1 || options->top > LAYOUT_LIST_MAX)
        return status_set(err, MOSAIC_USAGE, "a list of %zu layouts: takes 1 to %d", options->top,
                          (int)LAYOUT_LIST_MAX);
    *out = (struct layout_list){.open_bound_s = (double)INFINITY};
    struct split_scratch *const scratch = split_scratch_new();
    if (!scratch)
        return status_no_memory(err);
    struct gathering g = {.problem = problem, .geometry = geometry, .counts = &out->counts};
    for (int way = 0; way < problem_ways(problem); ++way) {
        struct step_context ctx;
        problem_context(problem, geometry, way, &ctx);
        g.ctx = &ctx;
        mesh_walk(&ctx, &problem->layouts, gather_shape, gather_mesh, &g, &out->counts.census);
    }
    if (g.count > 0) /* without any there is no array */
        qsort(g.meshes, g.count, sizeof *g.meshes, by_bound);
    const enum mosaic_status status =
        g.out_of_memory ? status_no_memory(err) : open_all(scratch, &g, options, out, err);
    free(g.meshes);
    split_scratch_free(scratch);
    return status;
}

struct leaning {
    const struct step_context *ctx;
    struct layer_table table;
    struct leanest_layout *out;
};

static void lean_shape(void *context, const struct mesh *shape) {
    struct leaning *const l = context;
    layer_table_fill(l->ctx, shape, &l->table);
}

static double stage_bytes(const struct leaning *l, const struct mesh *mesh,
                          struct stage_range range) {
    struct stage_need need;
    stage_need_of(l->ctx, &l->table, mesh, range, &need);
    return stage_need_scaled(l->ctx, &need);
}

static void keep_leanest(const struct leaning *l, const struct mesh *mesh,
                         const struct split *split, double needed_bytes) {
    struct stage_need need;
    split_need_of(l->ctx, &l->table, mesh, split, &need);
    *l->out = (struct leanest_layout){true, {*mesh, *split}, needed_bytes, need};
}

/* Stages that take, in order, as many layers as stay below the limit; false when some are left.
 * Memory rises with a stage's layers, so this succeeds whenever any split does. */
static bool split_below(const struct leaning *l, const struct mesh *mesh, double limit_bytes,
                        struct split *out, double *fullest) {
    const int layers = l->ctx->geometry->layers;
    *out = (struct split){.stages = mesh->pp};
    *fullest = 0.0;
    for (int i = 0; i < mesh->pp; ++i) {
        const int first = out->first[i], most = layers - (mesh->pp - 1 - i);
        double taken = 0.0;
        int last = first;
        for (; last < most; ++last) {
            const double bytes = stage_bytes(l, mesh, (struct stage_range){i, first, last + 1});
            if (bytes >= limit_bytes)
                break;
            taken = bytes;
        }
        if (last == first)
            return false;
        *fullest = fmax(*fullest, taken);
        out->first[i + 1] = (uint16_t)last;
    }
    return out->first[mesh->pp] == layers;
}

static void lean_mesh(void *context, const struct mesh *mesh) {
    struct leaning *const l = context;
    struct leanest_layout *const best = l->out;
    const double bound = step_memory_bound(l->ctx, &l->table, mesh);
    if (best->found && bound >= best->needed_bytes)
        return;
    struct split split;
    double fullest = 0.0;
    const bool is_stated = split_first(l->ctx->workload, mesh, l->ctx->geometry->layers, &split);
    for (int i = 0; i < mesh->pp; ++i)
        fullest =
            fmax(fullest,
                 stage_bytes(l, mesh, (struct stage_range){i, split.first[i], split.first[i + 1]}));
    if (!best->found || fullest < best->needed_bytes)
        keep_leanest(l, mesh, &split, fullest);
    if (is_stated || mesh->pp == 1 || mesh->vpp > 1 || !l->ctx->engine.uneven_stages ||
        l->ctx->estimator.pipeline_fraction)
        return;
    while (bound < best->needed_bytes && split_below(l, mesh, best->needed_bytes, &split, &fullest))
        keep_leanest(l, mesh, &split, fullest);
}

void leanest_layout_find(const struct problem *problem, const struct geometry *geometry,
                         struct leanest_layout *out) {
    *out = (struct leanest_layout){.needed_bytes = (double)INFINITY};
    for (int way = 0; way < problem_ways(problem); ++way) {
        struct step_context ctx;
        problem_context(problem, geometry, way, &ctx);
        struct leaning l = {.ctx = &ctx, .out = out};
        struct mesh_census census = {0};
        mesh_walk(&ctx, &problem->layouts, lean_shape, lean_mesh, &l, &census);
    }
}

/* Why the list is empty; the leanest layout says how far off it is. */
static enum mosaic_status shortfall_of(const struct problem *problem, struct layout_study *study,
                                       struct status_error *err) {
    struct search_result *const search = calloc(1, sizeof *search);
    if (!search)
        return status_no_memory(err);
    search->proof.solved_too_large = study->list.counts.meshes > 0;
    search->proof.counts = study->list.counts;
    const enum mosaic_status status = shortfall_find(problem, search, &study->shortfall, err);
    if (study->leanest.found)
        shortfall_need(problem, &study->leanest.need, &study->shortfall);
    free(search);
    return status;
}

const char *fewest_outcome_name(enum fewest_outcome outcome) {
    static const char *const names[] = {"fits", "too_large", "no_legal_layout", "mfu_above_one"};
    return (unsigned)outcome <= FEWEST_IMPLAUSIBLE ? names[outcome] : "unknown";
}

static enum fewest_outcome outcome_of(const struct layout_list *list) {
    if (list->count > 0)
        return FEWEST_FITS;
    if (list->counts.meshes == 0)
        return FEWEST_ILLEGAL;
    return list->counts.implausible > 0 ? FEWEST_IMPLAUSIBLE : FEWEST_TOO_LARGE;
}

/* The next count to try: powers of two, the problem's own and `also` among them; 0 at the end. */
static int next_nodes(const struct problem *problem, int also, int nodes) {
    const int own = problem->cluster.nodes;
    int next = 1;
    while (next <= nodes)
        next *= 2;
    if (nodes < own && own < next)
        next = own;
    if (nodes < also && also < next)
        next = also;
    return next <= own || next <= GPUS_MOST / problem->cluster.gpus_per_node ? next : 0;
}

enum mosaic_status fewest_gpus_find(const struct problem *problem, const struct geometry *geometry,
                                    const struct layout_list *list, int also,
                                    const atomic_bool *stop, struct fewest_gpus *out,
                                    struct status_error *err) {
    const struct layout_list_options options = {.top = 1, .stop = stop};
    struct layout_list *const found = malloc(sizeof *found);
    if (!found)
        return status_no_memory(err);
    *out = (struct fewest_gpus){0};
    enum mosaic_status status = MOSAIC_OK;
    for (int nodes = next_nodes(problem, also, 0);
         status == MOSAIC_OK && nodes > 0 && out->count < FEWEST_TRIES_MAX;
         nodes = next_nodes(problem, also, nodes)) {
        const struct layout_list *at = list;
        if (nodes != problem->cluster.nodes) {
            struct problem other = *problem;
            problem_resize(&other, nodes);
            status = layout_list_find(&other, geometry, &options, found, err);
            at = found;
        }
        out->is_stopped = status == MOSAIC_OK && at->status == SEARCH_INTERRUPTED;
        if (status != MOSAIC_OK || out->is_stopped)
            break;
        out->tries[out->count].nodes = nodes;
        out->tries[out->count++].outcome = outcome_of(at);
        if (at->count > 0) {
            out->nodes = nodes;
            out->best = at->items[0];
            break;
        }
    }
    free(found);
    return status;
}

enum mosaic_status layout_study_run(const struct problem *problem,
                                    const struct layout_list_options *options,
                                    struct layout_study *out, struct status_error *err) {
    if (problem->geometries.count != 1) {
        (void)status_set(err, MOSAIC_BAD_INPUT,
                         "%zu models are declared; layouts are listed for one",
                         problem->geometries.count);
        status_hint(err,
                    "name it with --model FILE, or with 'model: FILE' in the plan; `mosaic plan` "
                    "chooses among many");
        return MOSAIC_BAD_INPUT;
    }
    const struct geometry *const geometry = &problem->geometries.items[0];
    out->fewest = (struct fewest_gpus){.is_stopped = true};
    out->leanest = (struct leanest_layout){.found = false};
    out->shortfall = (struct shortfall){0};
    TRY(layout_list_find(problem, geometry, options, &out->list, err));
    if (out->list.status == SEARCH_INTERRUPTED)
        return MOSAIC_OK;
    if (out->list.status == SEARCH_INFEASIBLE) {
        leanest_layout_find(problem, geometry, &out->leanest);
        TRY(shortfall_of(problem, out, err));
    }
    /* The least count whose memory suffices lies between powers of two. */
    const int also = out->shortfall.gpus_needed / problem->cluster.gpus_per_node;
    return fewest_gpus_find(problem, geometry, &out->list, also, options->stop, &out->fewest, err);
}
