// SPDX-License-Identifier: GPL-3.0-or-later
/* Every rank makes the same plan from the same counts, so only counts and splits travel. */
#include "exec/expert_routes.h"

#include <string.h>

static enum mosaic_status check(const struct moe_job *job, const struct rank *rank,
                                struct status_error *err) {
    const struct moe_shape *const s = job->shape;
    const struct moe_batch *const b = job->batch;
    if (s->experts < 1 || s->top_k < 1 || s->expert.hidden < 1 || s->expert.inner < 1)
        return status_set(err, MOSAIC_BAD_INPUT, "a MoE layer needs experts, top-k and widths");
    if (s->experts % rank->count != 0)
        return status_set(err, MOSAIC_BAD_INPUT, "%d experts do not divide among %d ranks",
                          s->experts, rank->count);
    if (b->tokens < 0 || job->rules->budget < 0 || (job->rules->budget > 0 && job->rules->most < 1))
        return status_set(err, MOSAIC_BAD_INPUT, "rank %d: %ld tokens in at most %ld chunks of %ld",
                          rank->index, b->tokens, job->rules->most, job->rules->budget);
    for (long i = 0; i < b->tokens * s->top_k; ++i)
        if (b->experts[i] < 0 || b->experts[i] >= s->experts)
            return status_set(err, MOSAIC_BAD_INPUT, "rank %d: token %ld goes to expert %d of %d",
                              rank->index, i / s->top_k, b->experts[i], s->experts);
    return MOSAIC_OK;
}

static void *take(struct rank *rank, size_t count, size_t bytes) {
    return ledger_take(&rank->device, count * bytes);
}

static enum mosaic_status make_plan(const struct moe_job *job, struct rank *rank,
                                    const long *tokens, struct expert_routes *r,
                                    struct status_error *err) {
    const struct moe_rules *const rules = job->rules;
    const size_t experts = (size_t)job->shape->experts;
    r->balance = (struct balance_rules){job->shape->experts, rank->count, rules->cap_factor,
                                        rules->smallest};
    const bool is_plain =
        !rules->is_balanced || expert_load_is_even(tokens, job->shape->experts, rules->threshold);
    if (is_plain) {
        r->balance.cap_factor = 1.0;
        r->balance.smallest = 1;
    }
    struct expert_plan *const p = &r->plan;
    p->pieces = take(rank, expert_pieces_most(job->shape->experts, rank->count), sizeof *p->pieces);
    p->spans = take(rank, experts, sizeof *p->spans);
    p->loads = take(rank, (size_t)rank->count, sizeof *p->loads);
    p->visits = take(rank, experts, sizeof *p->visits);
    if (!p->pieces || !p->spans || !p->loads || !p->visits)
        return status_no_memory(err);
    return is_plain ? expert_plan_natural(&r->balance, tokens, p, err)
                    : expert_plan_balanced(&r->balance, tokens, p, err);
}

static enum mosaic_status place_weights(const struct moe_job *job, struct rank *rank,
                                        struct expert_routes *r, struct status_error *err) {
    const int experts = job->shape->experts, local = experts / rank->count;
    r->places = take(rank, (size_t)experts, sizeof *r->places);
    if (!r->places)
        return status_no_memory(err);
    for (int e = 0; e < experts; ++e) {
        r->places[e] = -1;
        if (expert_home(&r->balance, e) == rank->index)
            r->places[e] = e - rank->index * local;
        else if (expert_routes_is_lent(r, e, rank->index))
            r->places[e] = local + r->foreign++;
    }
    return MOSAIC_OK;
}

/* counts[rank][expert] of the group become totals and where this rank's begin. */
static void sum_counts(const long *counts, const struct rank *rank, int experts, long *totals,
                       long *begins) {
    for (int e = 0; e < experts; ++e) {
        totals[e] = begins[e] = 0;
        for (int i = 0; i < rank->count; ++i) {
            const long count = counts[(size_t)i * (size_t)experts + (size_t)e];
            begins[e] += i < rank->index ? count : 0;
            totals[e] += count;
        }
    }
}

static enum mosaic_status make_chunks(const struct moe_job *job, struct rank *rank,
                                      struct expert_routes *r, struct status_error *err) {
    const struct moe_rules *const rules = job->rules;
    const long tokens = job->batch->tokens;
    long most_tokens = tokens;
    TRY(rank_max(rank, &most_tokens, err));
    const struct token_chunks group = rules->budget > 0
                                          ? token_chunks_of(most_tokens, rules->budget, rules->most)
                                          : token_chunks_at(most_tokens, 1);
    r->chunks = token_chunks_at(tokens, group.count);
    r->chunks.order = rules->is_contiguous ? CHUNK_CONTIGUOUS : CHUNK_STRIDED;
    r->group_chunk_tokens = group.tokens;
    return MOSAIC_OK;
}

/* Destinations, own splits, everybody's splits. */
static enum mosaic_status make_splits(const struct moe_job *job, struct rank *rank, long *begins,
                                      struct expert_routes *r, struct status_error *err) {
    const size_t row = (size_t)r->chunks.count * (size_t)rank->count;
    r->to = take(rank, (size_t)job->batch->tokens * (size_t)job->shape->top_k, sizeof *r->to);
    r->splits = take(rank, row * (size_t)rank->count, sizeof *r->splits);
    long *const mine = take(rank, row, sizeof *mine);
    enum mosaic_status status = MOSAIC_OK;
    if (r->to && r->splits && mine) {
        const struct route_source source = {job->batch->experts, NULL, job->shape->top_k, begins};
        token_chunk_sends(&r->chunks, &r->plan, rank->count, &source, r->to, mine);
        status = rank_all_gather(rank, mine, row * sizeof *mine, r->splits, err);
    } else {
        status = status_no_memory(err);
    }
    ledger_give(&rank->device, mine);
    return status;
}

static enum mosaic_status make(const struct moe_job *job, struct rank *rank, long *counts,
                               struct expert_routes *r, struct status_error *err) {
    const int experts = job->shape->experts;
    long *const mine = counts, *const totals = counts + experts, *const begins = totals + experts,
                *const all = begins + experts;
    for (long i = 0; i < job->batch->tokens * job->shape->top_k; ++i)
        mine[job->batch->experts[i]]++;
    TRY(rank_all_gather(rank, mine, (size_t)experts * sizeof *mine, all, err));
    sum_counts(all, rank, experts, totals, begins);
    TRY(make_plan(job, rank, totals, r, err));
    TRY(place_weights(job, rank, r, err));
    TRY(make_chunks(job, rank, r, err));
    return make_splits(job, rank, begins, r, err);
}

enum mosaic_status expert_routes_make(const struct moe_job *job, struct rank *rank,
                                      struct expert_routes *routes, struct status_error *err) {
    memset(routes, 0, sizeof *routes);
    TRY(check(job, rank, err));
    long *const counts =
        take(rank, (size_t)job->shape->experts * (size_t)(3 + rank->count), sizeof *counts);
    if (!counts)
        return status_no_memory(err);
    const enum mosaic_status status = make(job, rank, counts, routes, err);
    ledger_give(&rank->device, counts);
    return status;
}

void expert_routes_free(struct expert_routes *r, struct rank *rank) {
    ledger_give(&rank->device, r->splits);
    ledger_give(&rank->device, r->to);
    ledger_give(&rank->device, r->places);
    ledger_give(&rank->device, r->plan.visits);
    ledger_give(&rank->device, r->plan.loads);
    ledger_give(&rank->device, r->plan.spans);
    ledger_give(&rank->device, r->plan.pieces);
    memset(r, 0, sizeof *r);
}

long expert_routes_rows(const struct expert_routes *r, long chunk, int source, int destination) {
    const long ranks = r->balance.ranks;
    return r->splits[((long)source * r->chunks.count + chunk) * ranks + destination];
}

long expert_routes_landing(const struct expert_routes *r, const struct rank *rank, long chunk) {
    long rows = 0;
    for (int s = 0; s < rank->count; ++s)
        rows += expert_routes_rows(r, chunk, s, rank->index);
    return rows;
}

bool expert_routes_is_lent(const struct expert_routes *r, int expert, int rank) {
    const struct piece_span span = r->plan.spans[expert];
    for (size_t i = span.first; i < span.first + span.count; ++i)
        if (r->plan.pieces[i].rank == rank)
            return expert_home(&r->balance, expert) != rank;
    return false;
}
