// SPDX-License-Identifier: GPL-3.0-or-later
/* Best-first search over geometries in rounds. */
#include "plan/search.h"

#include "base/pool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUND = 32, BOUND_CHUNK = 8 }; /* the second: how often a stop is looked for */

double search_tie_width(void) {
    return 1e-3;
}

enum geometry_state { STATE_OPEN, STATE_OPENED, STATE_CLOSED };

/* What is known of one geometry; index is its place in the space. */
struct geometry_entry {
    size_t index;
    int bin;
    enum geometry_state state;
    bool is_bounded; /* the bound pass has reached it */
    double n_active_law;
    double bound_s;    /* INFINITY when no mesh can hold it */
    double loss_bound; /* INFINITY when it cannot be planned */
    double flops_bound;
};

/* What one item of a round, or of a chunk of the bound pass, comes back with. */
struct outcome {
    enum mosaic_status status;
    struct status_error error;
    struct layout_counts counts;
    double least_memory_bytes;
    struct best_layout best;
};

struct search {
    const struct problem *problem;
    const struct search_options *options;
    struct pool *pool;
    struct layout_scratch **scratch; /* one a worker */
    struct geometry_entry *entries;  /* in the order of the space */
    size_t *order;                   /* opened in this order */
    size_t count, order_count, next;
    size_t round[ROUND];
    size_t round_count;
    struct outcome outcomes[ROUND];
    size_t chunk; /* first geometry of the part of the bound pass that is running */
    struct search_result *out;
};

static void bound_one(void *context, int worker, size_t offset) {
    struct search *const s = context;
    const size_t i = s->chunk + offset;
    struct geometry_entry *const e = &s->entries[i];
    struct outcome *const o = &s->outcomes[offset];
    const struct geometry *const g = &s->problem->geometries.items[i];
    *o = (struct outcome){.status = MOSAIC_OK};
    e->loss_bound = (double)INFINITY;
    if (!s->scratch[worker]) {
        o->status = status_no_memory(&o->error);
        return;
    }
    o->status = best_layout_bound(s->scratch[worker], s->problem, g, &e->bound_s,
                                  &o->least_memory_bytes, &o->counts, &o->error);
    struct param_counts counts;
    count_params(g, &counts);
    e->index = i;
    e->is_bounded = true;
    e->n_active_law = counts.n_active_law;
    if (o->status != MOSAIC_OK || !isfinite(e->bound_s))
        return;
    double spare_seconds;
    enum token_limit limit;
    const double tokens =
        candidate_tokens(s->problem, e->n_active_law, e->bound_s, &spare_seconds, &limit);
    if (!(tokens > 0.0))
        return;
    /* The bound is a product of rounded sums: give it back a hair. */
    const double hair = 1e-12;
    e->loss_bound = candidate_loss(s->problem, i, tokens, NULL) * (1.0 - hair);
    e->flops_bound = 6.0 * e->n_active_law * tokens * (1.0 + hair);
}

static void solve_one(void *context, int worker, size_t i) {
    struct search *const s = context;
    struct outcome *const o = &s->outcomes[i];
    const size_t index = s->entries[s->round[i]].index;
    *o = (struct outcome){.status = MOSAIC_OK};
    o->status = s->scratch[worker] ? best_layout_find(s->scratch[worker], s->problem,
                                                      &s->problem->geometries.items[index],
                                                      &o->best, &o->counts, &o->error)
                                   : status_no_memory(&o->error);
}

/* A linear program lives and dies in one thread, and so does the scratch that holds it. */
static void worker_ends(void *context, int worker) {
    struct search *const s = context;
    layout_scratch_free(s->scratch[worker]);
    s->scratch[worker] = NULL;
}

static void worker_starts(void *context, int worker) {
    struct search *const s = context;
    s->scratch[worker] = layout_scratch_new();
}

/* A geometry whose loss is above this cannot enter the list. */
static double cutoff(const struct search_result *out) {
    if (out->kept_count < SEARCH_TOP)
        return (double)INFINITY;
    return fmax(out->kept[SEARCH_TOP - 1].loss, out->kept[0].loss + search_tie_width());
}

static bool is_wanted(const struct search *s, const struct geometry_entry *e) {
    const struct search_result *const out = s->out;
    const struct sparsity_bin *const bin = &out->bins[e->bin];
    return s->options->open_all || e->loss_bound <= cutoff(out) || !bin->has_deliverable ||
           e->loss_bound <= bin->loss_deliverable || !out->has_most_flops ||
           e->flops_bound >= out->most_flops.model_flops;
}

static void keep(struct search *s, const struct candidate *c) {
    struct search_result *const out = s->out;
    size_t at = out->kept_count;
    while (at > 0 && candidate_compare(s->problem, c, &out->kept[at - 1]) < 0)
        --at;
    if (at == SEARCH_KEPT)
        return;
    const size_t moved = out->kept_count - at - (out->kept_count == SEARCH_KEPT ? 1 : 0);
    memmove(&out->kept[at + 1], &out->kept[at], moved * sizeof out->kept[0]);
    out->kept[at] = *c;
    if (out->kept_count < SEARCH_KEPT)
        out->kept_count++;
}

static void merge_candidate(struct search *s, const struct geometry_entry *e,
                            const struct candidate *c) {
    struct search_result *const out = s->out;
    keep(s, c);
    if (!out->has_most_flops || c->model_flops > out->most_flops.model_flops ||
        (c->model_flops == out->most_flops.model_flops &&
         candidate_compare(s->problem, c, &out->most_flops) < 0)) {
        out->has_most_flops = true;
        out->most_flops = *c;
    }
    struct sparsity_bin *const bin = &out->bins[e->bin];
    if (!bin->has_deliverable || c->loss < bin->loss_deliverable) {
        struct param_counts counts;
        count_params(&s->problem->geometries.items[e->index], &counts);
        bin->has_deliverable = true;
        bin->loss_deliverable = c->loss;
        bin->deliverable_sparsity = counts.sparsity;
    }
}

static enum mosaic_status merge_round(struct search *s, struct status_error *err) {
    struct search_proof *const proof = &s->out->proof;
    for (size_t i = 0; i < s->round_count; ++i) {
        const struct geometry_entry *const e = &s->entries[s->round[i]];
        const struct outcome *const o = &s->outcomes[i];
        if (o->status != MOSAIC_OK) {
            *err = o->error;
            return o->status;
        }
        layout_counts_add(&proof->counts, &o->counts);
        struct candidate c;
        if (!o->best.found) {
            proof->solved_too_large++;
        } else if (!candidate_fill(s->problem, e->index, &o->best, &c)) {
            proof->solved_few_tokens++;
        } else {
            proof->solved++;
            if (s->out->step_time_s)
                s->out->step_time_s[e->index] = o->best.step_time_s;
            merge_candidate(s, e, &c);
        }
    }
    return MOSAIC_OK;
}

/* The next geometries that can still matter; what cannot is closed for good. */
static void fill_round(struct search *s, size_t most) {
    s->round_count = 0;
    while (s->round_count < most && s->next < s->order_count) {
        struct geometry_entry *const e = &s->entries[s->order[s->next++]];
        if (e->state != STATE_OPEN || !e->is_bounded)
            continue;
        if (is_wanted(s, e)) {
            e->state = STATE_OPENED;
            s->round[s->round_count++] = e->index;
        } else {
            e->state = STATE_CLOSED;
            s->out->proof.closed_by_bound++;
        }
    }
}

static bool is_stopped(const struct search *s) {
    return s->options->stop && atomic_load(s->options->stop);
}

/* The bound pass counts for a half, the rounds for the other. */
static void tell_progress(const struct search *s, double share) {
    if (s->options->progress)
        s->options->progress(s->options->progress_context, share * (double)s->count,
                             (double)s->count);
}

static enum mosaic_status run_round(struct search *s, struct status_error *err) {
    pool_run(s->pool, s->round_count, solve_one, s);
    TRY(merge_round(s, err));
    tell_progress(s, 0.5 + 0.5 * (double)s->next / (double)s->order_count);
    return MOSAIC_OK;
}

/* Stopped before anything was solved: the most promising one still is, so that there is a plan. */
static enum mosaic_status run_last(struct search *s, struct status_error *err) {
    s->out->status = SEARCH_INTERRUPTED;
    while (s->out->kept_count == 0) {
        fill_round(s, 1);
        if (s->round_count == 0)
            break;
        TRY(run_round(s, err));
    }
    return MOSAIC_OK;
}

static enum mosaic_status run_rounds(struct search *s, struct status_error *err) {
    for (;;) {
        if (is_stopped(s))
            return run_last(s, err);
        fill_round(s, ROUND);
        if (s->round_count == 0)
            return MOSAIC_OK;
        TRY(run_round(s, err));
    }
}

/* Bins of equal width in ln(1 - S) over the candidates. */
static void lay_bins(struct search *s) {
    double low = (double)INFINITY, high = -(double)INFINITY;
    const struct geometry_space *const space = &s->problem->geometries;
    for (size_t i = 0; i < space->count; ++i) {
        struct param_counts counts;
        count_params(&space->items[i], &counts);
        const double log_dense = log1p(-counts.sparsity);
        low = fmin(low, log_dense);
        high = fmax(high, log_dense);
    }
    const double narrowest = 1e-9;
    s->out->bin_count = high - low > narrowest ? SEARCH_BINS : 1;
    const double width = (high - low) / (double)s->out->bin_count;
    for (int b = 0; b < s->out->bin_count; ++b) {
        s->out->bins[b].low = -expm1(high - width * (double)b);
        s->out->bins[b].high = -expm1(high - width * (double)(b + 1));
    }
    for (size_t i = 0; i < space->count; ++i) {
        struct param_counts counts;
        count_params(&space->items[i], &counts);
        const double at = width > 0.0 ? (high - log1p(-counts.sparsity)) / width : 0.0;
        const int last = s->out->bin_count - 1;
        s->entries[i].bin = at >= (double)last ? last : at > 0.0 ? (int)at : 0;
    }
}

struct sort_key {
    double key;
    size_t index;
};

static int by_key(const void *left, const void *right) {
    const struct sort_key *const a = left, *const b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* The likely most-FLOPs geometries first, so that this incumbent is good early; then by loss. */
static enum mosaic_status lay_order(struct search *s, struct status_error *err) {
    const size_t leaders = s->count < ROUND / 2 ? s->count : ROUND / 2;
    struct sort_key *const keys = calloc(s->count, sizeof *keys);
    s->order = calloc(s->count + leaders, sizeof *s->order);
    if (!keys || !s->order) {
        free(keys);
        return status_no_memory(err);
    }
    for (size_t i = 0; i < s->count; ++i)
        keys[i] = (struct sort_key){-s->entries[i].flops_bound, i};
    qsort(keys, s->count, sizeof *keys, by_key);
    for (size_t i = 0; i < leaders; ++i)
        s->order[i] = keys[i].index;
    for (size_t i = 0; i < s->count; ++i)
        keys[i] = (struct sort_key){s->entries[i].loss_bound, i};
    qsort(keys, s->count, sizeof *keys, by_key);
    for (size_t i = 0; i < s->count; ++i)
        s->order[leaders + i] = keys[i].index;
    s->order_count = leaders + s->count;
    free(keys);
    return MOSAIC_OK;
}

/* Count one bounded geometry; what cannot be planned is closed here. */
static enum mosaic_status absorb(struct search *s, struct geometry_entry *e,
                                 const struct outcome *o, struct status_error *err) {
    struct search_result *const out = s->out;
    const struct workload *const w = &s->problem->workload;
    if (o->status != MOSAIC_OK) {
        *err = o->error;
        return o->status;
    }
    layout_counts_add(&out->proof.bound_counts, &o->counts);
    out->least_memory_bytes = fmin(out->least_memory_bytes, o->least_memory_bytes);
    if (isfinite(e->bound_s)) {
        const double seconds = s->problem->budget.seconds * s->problem->budget.goodput;
        const double tokens = seconds * (double)w->global_batch * (double)w->sequence / e->bound_s;
        out->largest_tokens_per_active =
            fmax(out->largest_tokens_per_active, tokens / e->n_active_law);
    }
    if (isfinite(e->loss_bound))
        return MOSAIC_OK;
    e->state = STATE_CLOSED;
    if (isfinite(e->bound_s))
        out->proof.closed_by_tokens++;
    else if (o->counts.meshes > 0)
        out->proof.closed_by_memory++;
    else
        out->proof.closed_by_layout++;
    return MOSAIC_OK;
}

/* Bounds of all geometries, chunk by chunk until there is a stop. */
static enum mosaic_status bound_all(struct search *s, struct status_error *err) {
    s->out->least_memory_bytes = (double)INFINITY;
    for (s->chunk = 0; s->chunk < s->count && !is_stopped(s); s->chunk += BOUND_CHUNK) {
        const size_t left = s->count - s->chunk;
        const size_t items = left < BOUND_CHUNK ? left : BOUND_CHUNK;
        pool_run(s->pool, items, bound_one, s);
        for (size_t i = 0; i < items; ++i)
            TRY(absorb(s, &s->entries[s->chunk + i], &s->outcomes[i], err));
        tell_progress(s, 0.5 * (double)s->chunk / (double)s->count);
    }
    for (size_t i = s->chunk; i < s->count; ++i)
        s->entries[i].loss_bound = (double)INFINITY; /* to the end of the order */
    return MOSAIC_OK;
}

/* What is still open after an interruption bounds the optimum from below, where it has a bound. */
static void close_proof(struct search *s) {
    struct search_result *const out = s->out;
    double open_bound = (double)INFINITY;
    out->proof.has_gap = out->kept_count > 0;
    for (size_t i = 0; i < s->count; ++i)
        if (s->entries[i].state == STATE_OPEN) {
            out->proof.bounded_only++;
            out->proof.has_gap = out->proof.has_gap && s->entries[i].is_bounded;
            open_bound = fmin(open_bound, s->entries[i].loss_bound);
        }
    if (out->kept_count == 0) {
        if (out->status == SEARCH_OPTIMAL)
            out->status = SEARCH_INFEASIBLE;
        return;
    }
    if (out->proof.has_gap)
        out->proof.gap_nats = fmax(0.0, out->kept[0].loss - open_bound);
    for (out->tie_count = 0;
         out->tie_count < out->kept_count &&
         out->kept[out->tie_count].loss <= out->kept[0].loss + search_tie_width();
         ++out->tie_count)
        continue;
}

static enum mosaic_status prepare(struct search *s, struct status_error *err) {
    s->entries = calloc(s->count, sizeof *s->entries);
    s->scratch = calloc(POOL_MAX_THREADS, sizeof(struct layout_scratch *));
    if (s->options->open_all)
        s->out->step_time_s = calloc(s->count, sizeof *s->out->step_time_s);
    if (!s->entries || !s->scratch || (s->options->open_all && !s->out->step_time_s))
        return status_no_memory(err);
    const struct pool_hooks hooks = {worker_starts, worker_ends, s};
    TRY(pool_create(s->options->threads, &hooks, &s->pool, err));
    lay_bins(s);
    return MOSAIC_OK;
}

enum mosaic_status search_run(const struct problem *problem, const struct search_options *options,
                              struct search_result *out, struct status_error *err) {
    enum mosaic_status status = MOSAIC_OK;
    struct search s = {
        .problem = problem, .options = options, .count = problem->geometries.count, .out = out};
    memset(out, 0, sizeof *out);
    out->proof.geometries = s.count;
    if (s.count == 0)
        return status_set(err, MOSAIC_BAD_INPUT, "the declared space holds no geometry");
    TRY_GOTO(prepare(&s, err));
    TRY_GOTO(bound_all(&s, err));
    TRY_GOTO(lay_order(&s, err));
    TRY_GOTO(run_rounds(&s, err));
    close_proof(&s);
out:
    pool_free(s.pool);
    free(s.scratch);
    free(s.entries);
    free(s.order);
    if (status != MOSAIC_OK)
        search_result_free(out);
    return status;
}

void search_result_free(struct search_result *result) {
    if (!result)
        return;
    free(result->step_time_s);
    result->step_time_s = NULL;
}
