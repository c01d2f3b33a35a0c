// SPDX-License-Identifier: GPL-3.0-or-later
/* Best-first search over geometries in rounds. */
#include "plan/search.h"

#include "base/clock.h"
#include "base/pool.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUND = 32, BOUND_CHUNK = 8 }; /* the second: how often a stop is looked for */

const char *geometry_end_name(enum geometry_end end) {
    static const char *const names[GEOMETRY_ENDS] = {
        "open",   "loss_bound",        "tokens_bound",    "memory_bound", "no_legal_layout",
        "solved", "solved_few_tokens", "solved_too_large"};
    return names[end];
}

/* What is known of one geometry beyond its fate. */
struct geometry_entry {
    int bin;
    bool is_opened;
    double n_active_law;
    double flops_bound;
};

/* What one item of a round, or of a chunk of the bound pass, comes back with. */
struct outcome {
    enum mosaic_status status;
    struct status_error error;
};

struct search {
    const struct problem *problem;
    const struct search_options *options;
    struct pool *pool;
    struct layout_scratch **scratch; /* one a worker */
    struct search_memo *memo;        /* the caller's or own_memo */
    struct search_memo *own_memo;
    struct geometry_entry *entries; /* in the order of the space, as the fates */
    size_t *order;                  /* opened in this order */
    size_t count, order_count, next, opened;
    double end_s; /* of the clock; INFINITY without a limit */
    size_t round[ROUND];
    size_t round_count;
    struct outcome outcomes[ROUND];
    size_t chunk; /* first geometry of the part of the bound pass that is running */
    struct search_result *out;
};

/* The bound of a step time is a product of rounded sums: what follows gives it back a hair. */
static const double hair = 1e-12;

/* The score and the FLOPs that no layout of a geometry beats, from the bound of its step. */
static void bound_score(const struct problem *problem, const struct geometry *g,
                        struct geometry_entry *e, struct geometry_fate *fate) {
    struct param_counts counts;
    struct training run;
    count_params(g, &counts);
    e->n_active_law = counts.n_active_law;
    fate->score_bound = (double)INFINITY;
    if (!isfinite(fate->bound_s) ||
        !candidate_train(problem, &problem->law, g, fate->bound_s, &run))
        return;
    fate->score_bound = run.score - hair * fabs(run.score);
    e->flops_bound = 6.0 * e->n_active_law * run.tokens * (1.0 + hair);
}

static void bound_one(void *context, int worker, size_t offset) {
    struct search *const s = context;
    const size_t i = s->chunk + offset;
    struct geometry_fate *const fate = &s->out->fates[i];
    struct geometry_memo *const memo = &s->memo->items[i];
    struct outcome *const o = &s->outcomes[offset];
    const struct geometry *const g = &s->problem->geometries.items[i];
    fate->score_bound = (double)INFINITY;
    o->status = s->scratch[worker]
                    ? search_memo_bound(memo, s->scratch[worker], s->problem, g, &o->error)
                    : status_no_memory(&o->error);
    if (o->status != MOSAIC_OK)
        return;
    fate->is_bounded = true;
    fate->bound_s = memo->bound_s;
    bound_score(s->problem, g, &s->entries[i], fate);
}

static void solve_one(void *context, int worker, size_t i) {
    struct search *const s = context;
    struct outcome *const o = &s->outcomes[i];
    const size_t index = s->round[i];
    o->status = s->scratch[worker]
                    ? search_memo_solve(&s->memo->items[index], s->scratch[worker], s->problem,
                                        &s->problem->geometries.items[index], &o->error)
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

/* Scores up to this are near ties of the best. */
static double tie_score(const struct search *s) {
    const double best = s->out->kept[0].run.score;
    return best + objective_tie_width(s->problem->objective, best);
}

/* A geometry whose score is above this cannot enter the list. */
static double cutoff(const struct search *s) {
    const struct search_result *const out = s->out;
    if (out->kept_count < SEARCH_TOP)
        return (double)INFINITY;
    return fmax(out->kept[SEARCH_TOP - 1].run.score, tie_score(s));
}

/* With a target, the most FLOPs are the worst plan. */
static bool wants_most_flops(const struct search *s) {
    return !s->options->best_only && !objective_has_target(s->problem->objective);
}

static bool is_wanted(const struct search *s, size_t index) {
    const struct search_result *const out = s->out;
    const struct geometry_entry *const e = &s->entries[index];
    const struct sparsity_bin *const bin = &out->bins[e->bin];
    const double bound = out->fates[index].score_bound;
    if (s->options->best_only)
        return out->kept_count == 0 || bound <= out->kept[0].run.score;
    return s->options->open_all || bound <= cutoff(s) || !bin->has_deliverable ||
           bound <= bin->score ||
           (wants_most_flops(s) &&
            (!out->has_most_flops || e->flops_bound >= out->most_flops.model_flops));
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

static void merge_candidate(struct search *s, size_t index, const struct candidate *c) {
    struct search_result *const out = s->out;
    keep(s, c);
    if (wants_most_flops(s) &&
        (!out->has_most_flops || c->model_flops > out->most_flops.model_flops ||
         (c->model_flops == out->most_flops.model_flops &&
          candidate_compare(s->problem, c, &out->most_flops) < 0))) {
        out->has_most_flops = true;
        out->most_flops = *c;
    }
    struct sparsity_bin *const bin = &out->bins[s->entries[index].bin];
    if (!bin->has_deliverable || c->run.score < bin->score) {
        struct param_counts counts;
        count_params(&s->problem->geometries.items[index], &counts);
        bin->has_deliverable = true;
        bin->score = c->run.score;
        bin->seconds = c->run.seconds;
        bin->loss_deliverable = c->run.loss;
        bin->deliverable_sparsity = counts.sparsity;
    }
}

static void end_as(struct search *s, size_t index, enum geometry_end end) {
    s->out->fates[index].end = end;
    s->out->proof.ended[end]++;
}

static enum mosaic_status merge_round(struct search *s, struct status_error *err) {
    for (size_t i = 0; i < s->round_count; ++i) {
        const size_t index = s->round[i];
        const struct geometry_memo *const memo = &s->memo->items[index];
        struct candidate c;
        if (s->outcomes[i].status != MOSAIC_OK) {
            *err = s->outcomes[i].error;
            return s->outcomes[i].status;
        }
        layout_counts_add(&s->out->proof.counts, &memo->counts);
        if (!memo->best->found) {
            end_as(s, index, END_TOO_LARGE);
        } else if (!candidate_fill(s->problem, index, memo->best, &c)) {
            end_as(s, index, END_FEW_TOKENS);
        } else {
            end_as(s, index, END_SOLVED);
            if (s->out->step_time_s)
                s->out->step_time_s[index] = memo->best->step_time_s;
            merge_candidate(s, index, &c);
        }
    }
    return MOSAIC_OK;
}

/* The next geometries that can still matter; what cannot is closed for good. */
static void fill_round(struct search *s, size_t most) {
    s->round_count = 0;
    while (s->round_count < most && s->next < s->order_count) {
        const size_t index = s->order[s->next++];
        struct geometry_entry *const e = &s->entries[index];
        const struct geometry_fate *const fate = &s->out->fates[index];
        if (e->is_opened || fate->end != END_OPEN || !fate->is_bounded)
            continue;
        if (is_wanted(s, index)) {
            e->is_opened = true;
            s->round[s->round_count++] = index;
        } else {
            end_as(s, index, END_BY_BOUND);
        }
    }
    s->opened += s->round_count;
}

/* Looked at between rounds: once over, the status says why. */
static bool is_over(struct search *s) {
    if (clock_stopped(s->options->stop))
        s->out->status = SEARCH_INTERRUPTED;
    else if (isfinite(s->end_s) && clock_now_s() >= s->end_s)
        s->out->status = SEARCH_LIMIT;
    return s->out->status != SEARCH_OPTIMAL;
}

/* How many more geometries may be opened; what is left open makes the gap. */
static size_t room_of_round(struct search *s) {
    const long limit = s->options->geometry_limit;
    if (limit <= 0 || s->opened + ROUND <= (size_t)limit)
        return ROUND;
    return s->opened < (size_t)limit ? (size_t)limit - s->opened : 0;
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
        if (is_over(s))
            return run_last(s, err);
        const size_t room = room_of_round(s);
        fill_round(s, room > 0 ? room : 1);
        if (s->round_count == 0)
            return MOSAIC_OK;
        if (room == 0) { /* something was still to be opened */
            s->out->status = SEARCH_LIMIT;
            s->entries[s->round[0]].is_opened = false;
            return MOSAIC_OK;
        }
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

/* The likely most-FLOPs geometries first, so that this incumbent is good early; then by score. */
static enum mosaic_status lay_order(struct search *s, struct status_error *err) {
    const size_t most = wants_most_flops(s) ? ROUND / 2 : 0;
    const size_t leaders = s->count < most ? s->count : most;
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
        keys[i] = (struct sort_key){s->out->fates[i].score_bound, i};
    qsort(keys, s->count, sizeof *keys, by_key);
    for (size_t i = 0; i < s->count; ++i)
        s->order[leaders + i] = keys[i].index;
    s->order_count = leaders + s->count;
    free(keys);
    return MOSAIC_OK;
}

/* Tokens that the budget buys at a step time, whatever the limits. */
static double tokens_bought(const struct problem *problem, double step_time_s) {
    const struct workload *const w = &problem->workload;
    const double seconds = problem->budget.seconds * problem->budget.goodput;
    return seconds * (double)w->global_batch * (double)w->sequence / step_time_s;
}

/* What the bound of a step time says of the tokens at best. */
static void absorb_reach(struct search *s, size_t i) {
    struct search_result *const out = s->out;
    const double bought = tokens_bought(s->problem, out->fates[i].bound_s);
    if (isfinite(bought))
        out->largest_tokens_per_active =
            fmax(out->largest_tokens_per_active, bought / s->entries[i].n_active_law);
}

/* The loss in reach of what cannot be planned, by the best step where this search has asked for it,
 * whatever else a memo knows; a geometry that may not be trained on so few tokens reaches none. */
static void find_least_loss(struct search *s) {
    const struct problem *const problem = s->problem;
    const struct space_limits *const limits = &problem->limits;
    for (size_t i = 0; i < s->count; ++i) {
        const struct geometry_memo *const memo = &s->memo->items[i];
        const bool is_solved = s->entries[i].is_opened && memo->is_solved;
        const bool is_known = is_solved && memo->best->found;
        const double step_s = is_known ? memo->best->step_time_s : s->out->fates[i].bound_s;
        if (!s->out->fates[i].is_bounded || !isfinite(step_s) || (is_solved && !is_known))
            continue;
        const double active = s->entries[i].n_active_law;
        const double tokens =
            fmin(fmin(tokens_bought(problem, step_s), limits->tokens_per_active_max * active),
                 LAW_COUNT_MAX);
        if (tokens >= 1.0 && tokens >= limits->tokens_per_active_min * active)
            s->out->least_loss = fmin(s->out->least_loss, candidate_loss(problem, i, tokens, NULL));
    }
}

/* Count one bounded geometry; what cannot be planned is closed here. */
static enum mosaic_status absorb(struct search *s, size_t i, const struct outcome *o,
                                 struct status_error *err) {
    struct search_result *const out = s->out;
    const struct geometry_memo *const memo = &s->memo->items[i];
    if (o->status != MOSAIC_OK) {
        *err = o->error;
        return o->status;
    }
    layout_counts_add(&out->proof.bound_counts, &memo->bound_counts);
    out->least_memory_bytes = fmin(out->least_memory_bytes, memo->least_memory_bytes);
    const bool has_mesh = isfinite(out->fates[i].bound_s);
    if (has_mesh)
        absorb_reach(s, i);
    if (isfinite(out->fates[i].score_bound))
        return MOSAIC_OK;
    end_as(s, i,
           has_mesh                        ? END_BY_TOKENS
           : memo->bound_counts.meshes > 0 ? END_BY_MEMORY
                                           : END_BY_LAYOUT);
    return MOSAIC_OK;
}

/* Bounds of all geometries, chunk by chunk until there is a stop. */
static enum mosaic_status bound_all(struct search *s, struct status_error *err) {
    s->out->least_memory_bytes = s->out->least_loss = (double)INFINITY;
    for (s->chunk = 0; s->chunk < s->count && !is_over(s); s->chunk += BOUND_CHUNK) {
        const size_t left = s->count - s->chunk;
        const size_t items = left < BOUND_CHUNK ? left : BOUND_CHUNK;
        pool_run(s->pool, items, bound_one, s);
        for (size_t i = 0; i < items; ++i)
            TRY(absorb(s, s->chunk + i, &s->outcomes[i], err));
        tell_progress(s, 0.5 * (double)s->chunk / (double)s->count);
    }
    for (size_t i = s->chunk; i < s->count; ++i)
        s->out->fates[i].score_bound = (double)INFINITY; /* to the end of the order */
    return MOSAIC_OK;
}

/* What is still open after a stop bounds the optimum from below, where it has a bound. */
static void close_proof(struct search *s) {
    struct search_result *const out = s->out;
    double open_bound = (double)INFINITY;
    out->proof.has_gap = out->kept_count > 0;
    for (size_t i = 0; i < s->count; ++i)
        if (out->fates[i].end == END_OPEN) {
            out->proof.ended[END_OPEN]++;
            out->proof.has_gap = out->proof.has_gap && out->fates[i].is_bounded;
            open_bound = fmin(open_bound, out->fates[i].score_bound);
        }
    if (out->kept_count == 0) {
        if (out->status == SEARCH_OPTIMAL)
            out->status = SEARCH_INFEASIBLE;
        find_least_loss(s);
        return;
    }
    if (out->proof.has_gap)
        out->proof.gap = fmax(0.0, out->kept[0].run.score - open_bound);
    for (out->tie_count = 0;
         out->tie_count < out->kept_count && out->kept[out->tie_count].run.score <= tie_score(s);
         ++out->tie_count)
        continue;
}

static enum mosaic_status prepare(struct search *s, struct status_error *err) {
    const double limit_s = s->options->time_limit_s;
    s->end_s = limit_s > 0.0 ? clock_now_s() + limit_s : (double)INFINITY;
    s->entries = calloc(s->count, sizeof *s->entries);
    s->out->fates = calloc(s->count, sizeof *s->out->fates);
    s->scratch = calloc(POOL_MAX_THREADS, sizeof(struct layout_scratch *));
    if (s->options->open_all)
        s->out->step_time_s = calloc(s->count, sizeof *s->out->step_time_s);
    if (!s->options->memo)
        TRY(search_memo_new(s->count, &s->own_memo, err));
    s->memo = s->options->memo ? s->options->memo : s->own_memo;
    assert(s->memo->count == s->count);
    if (!s->entries || !s->out->fates || !s->scratch ||
        (s->options->open_all && !s->out->step_time_s))
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
    if (s.memo)
        search_memo_drop_starts(s.memo);
    pool_free(s.pool);
    free(s.scratch);
    free(s.entries);
    free(s.order);
    search_memo_free(s.own_memo);
    if (status != MOSAIC_OK)
        search_result_free(out);
    return status;
}

void search_result_free(struct search_result *result) {
    if (!result)
        return;
    free(result->step_time_s);
    free(result->fates);
    result->step_time_s = NULL;
    result->fates = NULL;
}
