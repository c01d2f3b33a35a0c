// SPDX-License-Identifier: GPL-3.0-or-later
/* Bounding and opening the meshes of one geometry for its N best, and what to say when none fits.
 */
#include "plan/layout_list.h"

#include "base/clock.h"
#include "plan/layout_axes.h"
#include "plan/mesh_queue.h"
#include "step/memory.h"

#include <math.h>
#include <stdlib.h>

enum { GPUS_MOST = 4096, PROGRESS_EVERY = 16 };

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

static enum mosaic_status open_mesh(struct split_scratch *scratch, const struct problem *problem,
                                    const struct queued_mesh *next, size_t top,
                                    struct layout_list *out, struct status_error *err) {
    struct best_split split;
    const struct split_request request = {next->ctx, next->table, &next->mesh, (double)INFINITY};
    TRY(best_split_find(scratch, &request, &split, &out->counts.work, err));
    out->counts.opened++;
    out->counts.too_large += split.too_large;
    out->counts.implausible += split.implausible;
    out->solved += split.found;
    if (split.found) {
        const struct listed_layout found = {{next->mesh, split.split}, split.step_time_s};
        keep(problem, out, top, &found);
    }
    return MOSAIC_OK;
}

/* Legal meshes that neither memory nor opening has settled. */
static long meshes_left(const struct queue_counts *seen, const struct layout_list *out) {
    return seen->meshes - seen->closed_by_memory - out->counts.opened;
}

static enum mosaic_status open_all(struct split_scratch *scratch, struct mesh_queue *queue,
                                   const struct problem *problem, struct queue_counts *seen,
                                   const struct layout_list_options *options,
                                   struct layout_list *out, struct status_error *err) {
    for (long i = 0;; ++i) {
        /* A tie is decided by the order of meshes, so an equal bound is opened too. */
        const double cutoff_s =
            out->count == options->top ? out->items[out->count - 1].step_time_s : (double)INFINITY;
        struct queued_mesh next;
        bool is_left = false;
        TRY(mesh_queue_next(queue, cutoff_s, &next, &is_left, err));
        if (!is_left)
            break;
        if (clock_stopped(options->stop)) {
            out->status = SEARCH_INTERRUPTED;
            out->open = meshes_left(seen, out);
            out->open_bound_s = next.bound_s;
            return MOSAIC_OK;
        }
        TRY(open_mesh(scratch, problem, &next, options->top, out, err));
        if (options->progress && i % PROGRESS_EVERY == 0)
            options->progress(options->progress_context, (double)i, (double)seen->meshes);
    }
    out->counts.closed_by_bound = meshes_left(seen, out);
    out->status = out->count > 0 ? SEARCH_OPTIMAL : SEARCH_INFEASIBLE;
    return MOSAIC_OK;
}

enum mosaic_status layout_list_find(const struct problem *problem, const struct geometry *geometry,
                                    const struct layout_list_options *options,
                                    struct layout_list *out, struct status_error *err) {
    if (options->top < 1 || options->top > LAYOUT_LIST_MAX)
        return status_set(err, MOSAIC_USAGE, "a list of %zu layouts: takes 1 to %d", options->top,
                          (int)LAYOUT_LIST_MAX);
    enum mosaic_status status = MOSAIC_OK;
    struct queue_counts seen = {.meshes = 0};
    *out = (struct layout_list){.open_bound_s = (double)INFINITY};
    struct split_scratch *const scratch = split_scratch_new();
    struct mesh_queue *const queue = mesh_queue_new();
    if (!scratch || !queue) {
        status = status_no_memory(err);
        goto out;
    }
    TRY_GOTO(mesh_queue_open(queue, problem, geometry, &seen, err));
    TRY_GOTO(open_all(scratch, queue, problem, &seen, options, out, err));
out:
    layout_counts_take(&out->counts, &seen);
    mesh_queue_free(queue);
    split_scratch_free(scratch);
    return status;
}

struct leaning {
    const struct step_context *ctx;
    struct layer_table table;
    struct leanest_layout *out;
    bool is_whole; /* a stage counts as if its node held no other */
};

static void lean_shape(void *context, const struct mesh *shape) {
    struct leaning *const l = context;
    layer_table_fill(l->ctx, shape, &l->table);
}

static double stage_bytes(const struct leaning *l, const struct mesh *mesh,
                          struct stage_range range) {
    struct stage_need need;
    stage_need_of(l->ctx, &l->table, mesh, range, &need);
    if (l->is_whole)
        need.host_bytes *= (double)l->ctx->cluster->gpus_per_node /
                           (double)stage_gpus_most(l->ctx, mesh, range.stage);
    return stage_need_scaled(l->ctx, &need);
}

static void keep_leanest(const struct leaning *l, const struct mesh *mesh,
                         const struct split *split, const struct stage_need *need) {
    *l->out =
        (struct leanest_layout){true, {*mesh, *split}, stage_need_scaled(l->ctx, need), *need};
}

/* Stages that take, in order, as many layers as stay below the limit; false when some are left.
 * Memory rises with a stage's layers, so this succeeds whenever any split does; where stages share
 * the memory of a host, each is looked at alone. */
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

/* Leaner splits while there are some. */
static void lean_splits(struct leaning *l, const struct mesh *mesh, double bound) {
    struct leanest_layout *const best = l->out;
    struct split split;
    struct stage_need need;
    double fullest = 0.0;
    while (bound < best->needed_bytes &&
           split_below(l, mesh, best->needed_bytes, &split, &fullest)) {
        split_need_of(l->ctx, &l->table, mesh, &split, &need);
        if (!(stage_need_scaled(l->ctx, &need) < best->needed_bytes))
            return; /* the stages of a node together */
        keep_leanest(l, mesh, &split, &need);
    }
}

static void lean_mesh(void *context, const struct mesh *mesh) {
    struct leaning *const l = context;
    struct leanest_layout *const best = l->out;
    const double bound = step_memory_bound(l->ctx, &l->table, mesh);
    if (best->found && bound >= best->needed_bytes)
        return;
    struct split split;
    struct stage_need need;
    const bool is_stated = split_first(l->ctx->workload, mesh, l->ctx->geometry->layers, &split);
    split_need_of(l->ctx, &l->table, mesh, &split, &need);
    if (!best->found || stage_need_scaled(l->ctx, &need) < best->needed_bytes)
        keep_leanest(l, mesh, &split, &need);
    if (is_stated || mesh->pp == 1 || mesh->vpp > 1 || !l->ctx->engine.uneven_stages ||
        l->ctx->estimator.pipeline_fraction)
        return;
    l->is_whole = stage_need_is_shared(l->ctx, mesh);
    lean_splits(l, mesh, bound);
    if (l->is_whole) {
        l->is_whole = false;
        lean_splits(l, mesh, bound);
    }
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
    search->proof.ended[END_TOO_LARGE] = study->list.counts.meshes > 0;
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
