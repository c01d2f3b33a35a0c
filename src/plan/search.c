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
    double n_active_law;
    double bound_s, least_memory_bytes;
    double loss_bound; /* INFINITY when it cannot be planned */
    double flops_bound;
    struct layout_counts counts;
    enum mosaic_status status;
    struct status_error error;
    /* of the round */
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
    size_t chunk; /* first geometry of the part of the bound pass that is running */
    struct search_result *out;
};

static void bound_one(void *context, int worker, size_t offset) {
    struct search *const s = context;
    const size_t i = s->chunk + offset;
    struct geometry_entry *const e = &s->entries[i];
    const struct geometry *const g = &s->problem->geometries.items[i];
    if (!s->scratch[worker]) {
        e->status = status_no_memory(&e->error);
        return;
    }
    e->status = best_layout_bound(s->scratch[worker], s->problem, g, &e->bound_s,
                                  &e->least_memory_bytes, &e->counts, &e->error);
    struct param_counts counts;
    count_params(g, &counts);
    e->index = i;
    e->n_active_law = counts.n_active_law;
    e->loss_bound = (double)INFINITY;
    if (e->status != MOSAIC_OK || !isfinite(e->bound_s))
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
    struct geometry_entry *const e = &s->entries[s->round[i]];
    if (!s->scratch[worker]) {
        e->status = status_no_memory(&e->error);
        return;
    }
    memset(&e->counts, 0, sizeof e->counts);
    e->status =
        best_layout_find(s->scratch[worker], s->problem, &s->problem->geometries.items[e->index],
                         &e->best, &e->counts, &e->error);
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
    return e->loss_bound <= cutoff(out) || !bin->has_deliverable ||
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
        struct geometry_entry *const e = &s->entries[s->round[i]];
        if (e->status != MOSAIC_OK) {
            *err = e->error;
            return e->status;
        }
        layout_counts_add(&proof->counts, &e->counts);
        struct candidate c;
        if (!e->best.found) {
            proof->solved_too_large++;
        } else if (!candidate_fill(s->problem, e->index, &e->best, &c)) {
            proof->solved_few_tokens++;
        } else {
            proof->solved++;
            merge_candidate(s, e, &c);
        }
    }
    return MOSAIC_OK;
}

/* The next geometries that can still matter; what cannot is closed for good. */
static void fill_round(struct search *s) {
    s->round_count = 0;
    while (s->round_count < ROUND && s->next < s->order_count) {
        struct geometry_entry *const e = &s->entries[s->order[s->next++]];
        if (e->state != STATE_OPEN)
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

static enum mosaic_status run_rounds(struct search *s, struct status_error *err) {
    for (;;) {
        if (is_stopped(s)) {
            s->out->status = SEARCH_INTERRUPTED;
            return MOSAIC_OK;
        }
        fill_round(s);
        if (s->round_count == 0)
            return MOSAIC_OK;
        pool_run(s->pool, s->round_count, solve_one, s);
        TRY(merge_round(s, err));
        tell_progress(s, 0.5 + 0.5 * (double)s->next / (double)s->order_count);
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

/* Bounds of all geometries; those that cannot be planned are closed here. */
static enum mosaic_status bound_all(struct search *s, struct status_error *err) {
    for (s->chunk = 0; s->chunk < s->count; s->chunk += BOUND_CHUNK) {
        if (is_stopped(s)) {
            s->out->status = SEARCH_INTERRUPTED;
            break;
        }
        const size_t left = s->count - s->chunk;
        pool_run(s->pool, left < BOUND_CHUNK ? left : BOUND_CHUNK, bound_one, s);
        tell_progress(s, 0.5 * (double)s->chunk / (double)s->count);
    }
    const size_t bounded = s->chunk < s->count ? s->chunk : s->count;
    struct search_result *const out = s->out;
    const struct workload *const w = &s->problem->workload;
    out->least_memory_bytes = (double)INFINITY;
    for (size_t i = 0; i < bounded; ++i) {
        struct geometry_entry *const e = &s->entries[i];
        if (e->status != MOSAIC_OK) {
            *err = e->error;
            return e->status;
        }
        layout_counts_add(&out->proof.bound_counts, &e->counts);
        out->least_memory_bytes = fmin(out->least_memory_bytes, e->least_memory_bytes);
        if (isfinite(e->bound_s)) {
            const double seconds = s->problem->budget.seconds * s->problem->budget.goodput;
            const double tokens =
                seconds * (double)w->global_batch * (double)w->sequence / e->bound_s;
            out->largest_tokens_per_active =
                fmax(out->largest_tokens_per_active, tokens / e->n_active_law);
        }
        if (isfinite(e->loss_bound))
            continue;
        e->state = STATE_CLOSED;
        if (isfinite(e->bound_s))
            out->proof.closed_by_tokens++;
        else if (e->counts.meshes > 0)
            out->proof.closed_by_memory++;
        else
            out->proof.closed_by_layout++;
    }
    return MOSAIC_OK;
}

/* What is still open after an interruption bounds the optimum from below. */
static void close_proof(struct search *s) {
    struct search_result *const out = s->out;
    double open_bound = (double)INFINITY;
    for (size_t i = 0; i < s->count; ++i)
        if (s->entries[i].state == STATE_OPEN) {
            out->proof.bounded_only++;
            open_bound = fmin(open_bound, s->entries[i].loss_bound);
        }
    if (out->kept_count == 0) {
        if (out->status == SEARCH_OPTIMAL)
            out->status = SEARCH_INFEASIBLE;
        return;
    }
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
    if (!s->entries || !s->scratch)
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
    return status;
}
