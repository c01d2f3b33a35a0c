// SPDX-License-Identifier: GPL-3.0-or-later
/* The limit that leaves a space without a plan. */
#include "plan/shortfall.h"

#include "plan/best_split.h"

#include <math.h>

const char *shortfall_name(enum shortfall_limit limit) {
    static const char *const names[] = {"memory", "layout", "tokens", "target_loss", "mfu"};
    return (unsigned)limit <= SHORTFALL_MFU ? names[limit] : "unknown";
}

/* Least need over the layouts of a larger cluster, exactly for even and stated splits. */
struct fitting {
    const struct step_context *ctx;
    struct step_context on_nodes; /* what ctx points to */
    struct layer_table table;
    double least_bytes; /* scaled: stage_need_scaled */
    struct stage_need need;
    struct split_scratch *splits; /* NULL: memory is short */
    int programs;                 /* that may still be solved */
};

enum { PROGRAMS_MOST = 256 }; /* for stages that share hosts: each takes about a millisecond */

static void fit_shape(void *context, const struct mesh *shape) {
    struct fitting *const f = context;
    layer_table_fill(f->ctx, shape, &f->table);
}

static bool stage_fits(const struct fitting *f, const struct mesh *mesh, struct stage_range range) {
    struct stage_need need;
    stage_need_of(f->ctx, &f->table, mesh, range, &need);
    return stage_need_fits(f->ctx, &need);
}

/* Whether some split fits device and hosts, as the search asks it. */
static bool program_fits(struct fitting *f, const struct mesh *mesh) {
    const struct split_request request = {f->ctx, &f->table, mesh, (double)INFINITY};
    struct best_split best;
    struct split_work work = {0};
    struct status_error err;
    if (!f->splits || f->programs == 0)
        return false;
    f->programs--;
    return best_split_find(f->splits, &request, &best, &work, &err) == MOSAIC_OK && !best.too_large;
}

/* Both needs rise with a stage's layers, so stages that take as many as they can hold, in order,
 * place all layers whenever any split does.  Stages that share a host may do better otherwise. */
static bool fits_unevenly(struct fitting *f, const struct mesh *mesh) {
    const int layers = f->ctx->geometry->layers;
    struct split split = {.stages = mesh->pp};
    struct stage_need need;
    int first = 0;
    for (int i = 0; i < mesh->pp; ++i) {
        const int most = layers - (mesh->pp - 1 - i);
        int last = first;
        while (last < most && stage_fits(f, mesh, (struct stage_range){i, first, last + 1}))
            ++last;
        if (last == first)
            return false;
        first = last;
        split.first[i + 1] = (uint16_t)last;
    }
    if (first < layers)
        return false;
    if (!stage_need_is_shared(f->ctx, mesh))
        return true;
    split_need_of(f->ctx, &f->table, mesh, &split, &need);
    return stage_need_fits(f->ctx, &need) || program_fits(f, mesh);
}

static void fit_mesh(void *context, const struct mesh *mesh) {
    struct fitting *const f = context;
    if (step_memory_bound(f->ctx, &f->table, mesh) >= f->least_bytes)
        return;
    struct split split;
    struct stage_need need;
    const bool is_stated = split_first(f->ctx->workload, mesh, f->ctx->geometry->layers, &split);
    split_need_of(f->ctx, &f->table, mesh, &split, &need);
    double fullest = stage_need_scaled(f->ctx, &need);
    const double capacity = f->ctx->cluster->device.memory_bytes;
    if (!is_stated && fullest > capacity && mesh->vpp == 1 && f->ctx->engine.uneven_stages &&
        step_memory_bound(f->ctx, &f->table, mesh) <= capacity && fits_unevenly(f, mesh)) {
        fullest = capacity;
        need = (struct stage_need){.device_bytes = capacity};
    }
    if (fullest < f->least_bytes) {
        f->least_bytes = fullest;
        f->need = need;
    }
}

static void keep_first(struct axis *axis) {
    if (axis->count == 0 && axis_forbids(axis, 1))
        return; /* what there is of it */
    axis->values[0] = axis->count > 0 ? axis->values[0] : 1;
    axis->count = 1;
}

/* The corner of the declared space where layouts are leanest: smallest micro-batch, strongest
 * recomputation; axes that are free and save little beside those stay at 1. */
static struct layout_space leanest_corner(const struct layout_space *declared, bool has_cp) {
    struct layout_space lean = *declared;
    keep_first(&lean.micro_batch);
    keep_first(&lean.vpp);
    if (lean.cp.count == 0 && !has_cp)
        keep_first(&lean.cp);
    if (lean.etp.count == 0)
        keep_first(&lean.etp);
    bool is_set = false;
    for (int r = RECOMPUTE_MODES - 1; r >= 0; --r) {
        lean.recompute[r] = declared->recompute[r] && !is_set;
        is_set = is_set || declared->recompute[r];
    }
    return lean;
}

/* What the leanest layout on so many nodes needs, scaled and by device and host; INFINITY when none
 * is legal. */
static double least_memory(struct fitting *f, const struct problem *problem,
                           const struct geometry *g, int nodes, bool has_cp) {
    struct problem other = *problem;
    problem_resize(&other, nodes);
    f->ctx = &f->on_nodes;
    f->least_bytes = (double)INFINITY;
    f->need = (struct stage_need){.device_bytes = (double)INFINITY};
    struct mesh_census census = {0};
    const struct layout_space lean = leanest_corner(&problem->layouts, has_cp);
    for (int way = 0; way < problem_ways(problem); ++way) {
        problem_context(&other, g, way, &f->on_nodes);
        mesh_walk(f->ctx, &lean, fit_shape, fit_mesh, f, &census);
    }
    f->ctx = NULL;
    return f->least_bytes;
}

/* The candidate with the fewest parameters needs the fewest GPUs, to first order. */
static const struct geometry *smallest(const struct problem *problem, double *n_total) {
    const struct geometry *best = &problem->geometries.items[0];
    *n_total = (double)INFINITY;
    for (size_t i = 0; i < problem->geometries.count; ++i) {
        struct param_counts counts;
        count_params(&problem->geometries.items[i], &counts);
        if (counts.n_total < *n_total) {
            *n_total = counts.n_total;
            best = &problem->geometries.items[i];
        }
    }
    return best;
}

enum { GPUS_MOST = 65536, COUNTS_MOST = 2048 };

/* Where the scan begins: no sharding holds a parameter's weight and state in less than 2 bytes. */
static int first_nodes(const struct problem *problem, double n_total) {
    const double least_bytes_per_parameter = 2.0;
    const double node_bytes =
        problem->cluster.device.memory_bytes * (double)problem->cluster.gpus_per_node;
    const double begin = ceil(least_bytes_per_parameter * n_total / node_bytes);
    return (int)fmin(fmax(begin, (double)problem->cluster.nodes + 1.0), (double)GPUS_MOST);
}

/* Whether some layout on so many nodes fits. */
static bool holds(struct fitting *f, const struct problem *problem, const struct geometry *g,
                  int nodes, bool has_cp, struct shortfall *out) {
    const int gpus = nodes * problem->cluster.gpus_per_node;
    out->gpus_tried = gpus > out->gpus_tried ? gpus : out->gpus_tried;
    return least_memory(f, problem, g, nodes, has_cp) <= problem->cluster.device.memory_bytes;
}

/* Long sequences in few batches fit only with context parallelism, which is dear to walk: double
 * the nodes until something fits, then try every count since the last that did not. */
static int nodes_with_cp(struct fitting *f, const struct problem *problem, const struct geometry *g,
                         int nodes, struct shortfall *out) {
    int failed = nodes - 1;
    for (; !holds(f, problem, g, nodes, true, out); nodes *= 2) {
        failed = nodes;
        if (2.0 * (double)nodes * (double)problem->cluster.gpus_per_node > (double)GPUS_MOST)
            return 0;
    }
    for (int tried = 0; tried < COUNTS_MOST && failed + 1 < nodes; ++tried, ++failed)
        if (holds(f, problem, g, failed + 1, true, out))
            return failed + 1;
    return nodes;
}

void shortfall_need(const struct problem *problem, const struct stage_need *need,
                    struct shortfall *out) {
    const struct cluster *const c = &problem->cluster;
    out->needed_bytes = need->device_bytes;
    out->capacity_bytes = c->device.memory_bytes;
    out->host_needed_bytes = out->host_capacity_bytes = 0.0;
    if (need->device_bytes <= c->device.memory_bytes && c->host_memory_bytes > 0.0 &&
        need->host_bytes > c->host_memory_bytes) {
        out->host_needed_bytes = need->host_bytes;
        out->host_capacity_bytes = c->host_memory_bytes;
    }
}

void shortfall_gpus(const struct problem *problem, const struct geometry *g,
                    struct shortfall *out) {
    struct param_counts counts;
    struct fitting fitting = {.splits = split_scratch_new(), .programs = PROGRAMS_MOST};
    struct fitting *const f = &fitting;
    count_params(g, &counts);
    out->gpus = cluster_gpus(&problem->cluster);
    const int per_node = problem->cluster.gpus_per_node,
              begin = first_nodes(problem, counts.n_total);
    (void)least_memory(f, problem, g, problem->cluster.nodes, true);
    shortfall_need(problem, &f->need, out);
    int nodes = 0;
    for (int tried = 0, n = begin;
         nodes == 0 && tried < COUNTS_MOST && (double)n * (double)per_node <= (double)GPUS_MOST;
         ++tried, ++n)
        if (holds(f, problem, g, n, false, out))
            nodes = n;
    if (problem->layouts.cp.count == 0 && nodes != begin) {
        const int with_cp = nodes_with_cp(f, problem, g, begin, out);
        nodes = nodes == 0 || (with_cp > 0 && with_cp < nodes) ? with_cp : nodes;
    }
    split_scratch_free(f->splits);
    out->gpus_needed = nodes * per_node;
}

/* One refusal's arithmetic, for a first look; the census counts the rest. */
static void first_refusal(const struct problem *problem, struct shortfall *out) {
    const struct layout_space *const space = &problem->layouts;
    const struct axis *const axes[] = {&space->tp, &space->cp,  &space->pp,         &space->vpp,
                                       &space->ep, &space->etp, &space->micro_batch};
    int first[7];
    for (size_t i = 0; i < 7; ++i)
        first[i] = axes[i]->count > 0 ? axes[i]->values[0] : 1;
    struct mesh m = {.tp = first[0],
                     .cp = first[1],
                     .pp = first[2],
                     .vpp = first[3],
                     .ep = first[4],
                     .etp = first[5],
                     .micro_batch = first[6]};
    for (int r = RECOMPUTE_MODES; r-- > 0;)
        if (space->recompute[r])
            m.recompute = (enum recompute)r;
    for (int s = SCHEDULES; s-- > 0;)
        if (space->schedule[s])
            m.schedule = (enum schedule)s;
    double n_total;
    const struct geometry *const g = smallest(problem, &n_total);
    const struct workload *const w = problem_workload(problem, 0);
    struct status_error refusal = {0};
    if (mesh_complete(&m, g, w, cluster_gpus(&problem->cluster), &refusal) == MOSAIC_OK &&
        mesh_check_engine(&m, g, w, &problem->engine, &refusal) == MOSAIC_OK)
        (void)status_set(&refusal, MOSAIC_NO_PLAN,
                         "the engine's rules or unmeasured rank counts exclude every layout");
    (void)snprintf(out->first_rule, sizeof out->first_rule, "%s", refusal.message);
}

/* Of the geometry that reaches the target first, were there time, by the bounds of the steps; 0
 * where none ever does. */
static double days_to_target(const struct problem *problem, const struct search_result *search) {
    struct problem patient = *problem;
    double least_s = (double)INFINITY;
    patient.budget.seconds = (double)INFINITY;
    for (size_t i = 0; i < problem->geometries.count; ++i) {
        struct training run;
        if (search->fates[i].is_bounded && isfinite(search->fates[i].bound_s) &&
            candidate_train(&patient, &problem->law, &problem->geometries.items[i],
                            search->fates[i].bound_s, &run))
            least_s = fmin(least_s, run.seconds);
    }
    return isfinite(least_s) ? least_s / UNITS_SECONDS_PER_DAY : 0.0;
}

enum mosaic_status shortfall_find(const struct problem *problem, const struct search_result *search,
                                  struct shortfall *out, struct status_error *err) {
    if (problem->geometries.count == 0)
        return status_set(err, MOSAIC_BAD_INPUT, "the declared space holds no geometry");
    const struct search_proof *const proof = &search->proof;
    *out = (struct shortfall){.gpus = cluster_gpus(&problem->cluster),
                              .capacity_bytes = problem->cluster.device.memory_bytes,
                              .tokens_per_active = search->largest_tokens_per_active,
                              .tokens_per_active_min = problem->limits.tokens_per_active_min};
    const size_t few = proof->ended[END_BY_TOKENS] + proof->ended[END_FEW_TOKENS];
    if (few > 0 && objective_has_target(problem->objective)) {
        out->limit = SHORTFALL_TARGET;
        out->target_loss = problem->budget.target_loss;
        out->least_loss = search->least_loss;
        if (isfinite(problem->budget.seconds))
            out->days_needed = days_to_target(problem, search);
    } else if (few > 0) {
        out->limit = SHORTFALL_TOKENS;
        /* Where time is not what is missing, more of it is no answer. */
        if (out->tokens_per_active > 0.0 && out->tokens_per_active < out->tokens_per_active_min)
            out->days_needed = problem->budget.seconds / UNITS_SECONDS_PER_DAY *
                               out->tokens_per_active_min / out->tokens_per_active;
    } else if (proof->ended[END_BY_MEMORY] + proof->ended[END_TOO_LARGE] > 0) {
        out->limit = proof->counts.implausible > 0 ? SHORTFALL_MFU : SHORTFALL_MEMORY;
        if (out->limit == SHORTFALL_MEMORY) {
            double n_total;
            shortfall_gpus(problem, smallest(problem, &n_total), out);
        }
    } else {
        out->limit = SHORTFALL_LAYOUT;
        first_refusal(problem, out);
    }
    return MOSAIC_OK;
}
