// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Rows travel in the order of their destination, then of token and slot, so that packing and
 * unpacking are the same walk over a chunk's tokens and need no index.
 */
#include "exec/expert_dispatch.h"

#include "exec/expert_lend.h"

#include <string.h>

/* Bytes alive of one kind. */
struct meter {
    size_t live, peak;
};

struct block {
    void *at;
    size_t bytes;
    struct meter *meter; /* NULL: counted by the device's ledger alone */
};

/* Rows of a chunk at their experts' rank. */
struct landed {
    long rows;
    struct block hidden, gates, experts;
};

struct run {
    const struct moe_job *job;
    struct rank *rank;
    struct moe_result *result;
    struct expert_routes routes;
    size_t hidden, top_k, local;
    struct meter landed_meter, staging_meter, interior_meter;
    struct landed now, next;
    struct block staging, interior, dy, gate_gradients;
    struct block foreign_weights, foreign_gradients;
    long exchanges;
};

/* ---- blocks ---- */

static void give(struct run *run, struct block *block) {
    if (block->meter)
        block->meter->live -= block->bytes;
    ledger_give(&run->rank->device, block->at);
    *block = (struct block){NULL, 0, NULL};
}

static enum mosaic_status take(struct run *run, struct block *block, size_t bytes,
                               struct meter *meter, struct status_error *err) {
    void *const at = ledger_take(&run->rank->device, bytes);
    if (!at)
        return status_no_memory(err);
    *block = (struct block){at, bytes, meter};
    if (meter) {
        meter->live += bytes;
        meter->peak = meter->live > meter->peak ? meter->live : meter->peak;
    }
    return MOSAIC_OK;
}

static void give_landed(struct run *run, struct landed *landed) {
    give(run, &landed->experts);
    give(run, &landed->gates);
    give(run, &landed->hidden);
    landed->rows = 0;
}

static void give_all(struct run *run) {
    give(run, &run->foreign_gradients);
    give(run, &run->foreign_weights);
    give(run, &run->gate_gradients);
    give(run, &run->dy);
    give(run, &run->interior);
    give(run, &run->staging);
    give_landed(run, &run->next);
    give_landed(run, &run->now);
    expert_routes_free(&run->routes, run->rank);
}

/* ---- moving rows ---- */

static long sends(const struct run *run, long chunk, int to) {
    return expert_routes_rows(&run->routes, chunk, run->rank->index, to);
}

static long rows_sent(const struct run *run, long chunk) {
    return token_chunk_size(&run->routes.chunks, chunk) * run->job->shape->top_k;
}

enum way { TO_EXPERTS, TO_TOKENS };

static enum mosaic_status move(struct run *run, long chunk, enum way way, const void *send,
                               void *receive, size_t row_bytes, struct status_error *err) {
    size_t own[RANKS_MAX], own_at[RANKS_MAX], landed[RANKS_MAX], landed_at[RANKS_MAX];
    size_t own_sum = 0, landed_sum = 0;
    for (int i = 0; i < run->rank->count; ++i) {
        own[i] = (size_t)sends(run, chunk, i) * row_bytes;
        landed[i] =
            (size_t)expert_routes_rows(&run->routes, chunk, i, run->rank->index) * row_bytes;
        own_at[i] = own_sum;
        landed_at[i] = landed_sum;
        own_sum += own[i];
        landed_sum += landed[i];
    }
    const struct exchange exchange =
        way == TO_EXPERTS ? (struct exchange){send, own, own_at, receive, landed, landed_at}
                          : (struct exchange){send, landed, landed_at, receive, own, own_at};
    run->exchanges++;
    return rank_all_to_all(run->rank, &exchange, err);
}

/* Where each destination's next row lies in what this rank sends. */
struct walk {
    size_t next[RANKS_MAX];
};

static struct walk walk_from(const struct run *run, long chunk) {
    struct walk w = {{0}};
    size_t sum = 0;
    for (int i = 0; i < run->rank->count; ++i) {
        w.next[i] = sum;
        sum += (size_t)sends(run, chunk, i);
    }
    return w;
}

/* One way or the other, between `packed` rows and those of tokens (shared by a token's routes) or
 * of routes. */
typedef void visit_row(struct run *run, void *packed, size_t row, size_t token, size_t route);

struct row_kind {
    visit_row *visit;
    size_t bytes;
    bool is_wide; /* of the hidden width: metered */
};

static struct row_kind wide(const struct run *run, visit_row *visit) {
    return (struct row_kind){visit, run->hidden * sizeof(float), true};
}

static struct row_kind narrow(visit_row *visit) {
    _Static_assert(sizeof(float) == sizeof(int), "weights and ids of routes are as wide");
    return (struct row_kind){visit, sizeof(float), false};
}

static void walk_rows(struct run *run, long chunk, visit_row *visit, void *packed) {
    struct walk w = walk_from(run, chunk);
    const long size = token_chunk_size(&run->routes.chunks, chunk);
    for (long n = 0; n < size; ++n) {
        const size_t token = (size_t)token_chunk_token(&run->routes.chunks, chunk, n);
        for (size_t j = 0; j < run->top_k; ++j) {
            const size_t route = token * run->top_k + j;
            visit(run, packed, w.next[run->routes.to[route]]++, token, route);
        }
    }
}

static void pack_x(struct run *run, void *packed, size_t row, size_t token, size_t route) {
    (void)route;
    memcpy((float *)packed + row * run->hidden, run->job->batch->x + token * run->hidden,
           run->hidden * sizeof(float));
}

static void pack_dy(struct run *run, void *packed, size_t row, size_t token, size_t route) {
    (void)route;
    memcpy((float *)packed + row * run->hidden, run->job->batch->dy + token * run->hidden,
           run->hidden * sizeof(float));
}

static void pack_gate(struct run *run, void *packed, size_t row, size_t token, size_t route) {
    (void)token;
    ((float *)packed)[row] = run->job->batch->gates[route];
}

static void pack_expert(struct run *run, void *packed, size_t row, size_t token, size_t route) {
    (void)token;
    ((int *)packed)[row] = run->job->batch->experts[route];
}

static void add_row(const struct run *run, float *sum, const void *packed, size_t row) {
    const float *const more = (const float *)packed + row * run->hidden;
    for (size_t h = 0; h < run->hidden; ++h)
        sum[h] += more[h];
}

static void add_to_y(struct run *run, void *packed, size_t row, size_t token, size_t route) {
    (void)route;
    add_row(run, run->result->y + token * run->hidden, packed, row);
}

static void add_to_dx(struct run *run, void *packed, size_t row, size_t token, size_t route) {
    (void)route;
    add_row(run, run->result->dx + token * run->hidden, packed, row);
}

static void set_gate_gradient(struct run *run, void *packed, size_t row, size_t token,
                              size_t route) {
    (void)token;
    run->result->gate_gradients[route] = ((const float *)packed)[row];
}

/* Pack one kind of row and let it land. */
static enum mosaic_status send_rows(struct run *run, long chunk, struct row_kind kind,
                                    struct block *landed, struct status_error *err) {
    const size_t rows = (size_t)expert_routes_landing(&run->routes, run->rank, chunk);
    TRY(take(run, &run->staging, (size_t)rows_sent(run, chunk) * kind.bytes,
             kind.is_wide ? &run->staging_meter : NULL, err));
    walk_rows(run, chunk, kind.visit, run->staging.at);
    TRY(take(run, landed, rows * kind.bytes, kind.is_wide ? &run->landed_meter : NULL, err));
    TRY(move(run, chunk, TO_EXPERTS, run->staging.at, landed->at, kind.bytes, err));
    give(run, &run->staging);
    return MOSAIC_OK;
}

static enum mosaic_status return_rows(struct run *run, long chunk, struct row_kind kind,
                                      const struct block *landed, struct status_error *err) {
    TRY(take(run, &run->staging, (size_t)rows_sent(run, chunk) * kind.bytes,
             kind.is_wide ? &run->staging_meter : NULL, err));
    TRY(move(run, chunk, TO_TOKENS, landed->at, run->staging.at, kind.bytes, err));
    walk_rows(run, chunk, kind.visit, run->staging.at);
    give(run, &run->staging);
    return MOSAIC_OK;
}

static enum mosaic_status dispatch(struct run *run, long chunk, struct landed *landed,
                                   struct status_error *err) {
    landed->rows = expert_routes_landing(&run->routes, run->rank, chunk);
    TRY(send_rows(run, chunk, wide(run, pack_x), &landed->hidden, err));
    TRY(send_rows(run, chunk, narrow(pack_gate), &landed->gates, err));
    return send_rows(run, chunk, narrow(pack_expert), &landed->experts, err);
}

/* ---- experts ---- */

static size_t place_of(const struct run *run, const struct landed *landed, long row) {
    return (size_t)run->routes.places[((const int *)landed->experts.at)[row]];
}

static const float *weights_at(const struct run *run, size_t place) {
    const size_t count = expert_weight_count(&run->job->shape->expert);
    return place < run->local
               ? run->job->batch->weights + place * count
               : (const float *)run->foreign_weights.at + (place - run->local) * count;
}

static float *gradients_at(struct run *run, size_t place) {
    const size_t count = expert_weight_count(&run->job->shape->expert);
    return place < run->local ? run->result->expert_gradients + place * count
                              : (float *)run->foreign_gradients.at + (place - run->local) * count;
}

static float *interior_at(const struct run *run, long row) {
    return (float *)run->interior.at + 2 * (size_t)row * (size_t)run->job->shape->expert.inner;
}

/* Interiors of all rows, as a grouped GEMM leaves them. */
static enum mosaic_status fill_interior(struct run *run, const struct landed *landed,
                                        struct status_error *err) {
    const struct expert_shape *const shape = &run->job->shape->expert;
    TRY(take(run, &run->interior, 2 * (size_t)landed->rows * (size_t)shape->inner * sizeof(float),
             &run->interior_meter, err));
    for (long r = 0; r < landed->rows; ++r)
        expert_interior(shape, weights_at(run, place_of(run, landed, r)),
                        (const float *)landed->hidden.at + (size_t)r * run->hidden,
                        interior_at(run, r));
    return MOSAIC_OK;
}

static enum mosaic_status compute(struct run *run, struct landed *landed,
                                  struct status_error *err) {
    TRY(fill_interior(run, landed, err));
    for (long r = 0; r < landed->rows; ++r)
        expert_output(&run->job->shape->expert, weights_at(run, place_of(run, landed, r)),
                      ((const float *)landed->gates.at)[r], interior_at(run, r),
                      (float *)landed->hidden.at + (size_t)r * run->hidden);
    give(run, &run->interior);
    return MOSAIC_OK;
}

static enum mosaic_status compute_backward(struct run *run, struct landed *landed,
                                           struct status_error *err) {
    TRY(take(run, &run->gate_gradients, (size_t)landed->rows * sizeof(float), NULL, err));
    TRY(fill_interior(run, landed, err));
    for (long r = 0; r < landed->rows; ++r) {
        const size_t place = place_of(run, landed, r);
        const struct expert_row row = {((const float *)landed->gates.at)[r],
                                       (const float *)run->dy.at + (size_t)r * run->hidden,
                                       (float *)landed->hidden.at + (size_t)r * run->hidden,
                                       interior_at(run, r)};
        ((float *)run->gate_gradients.at)[r] = expert_backward(
            &run->job->shape->expert, weights_at(run, place), &row, gradients_at(run, place));
    }
    give(run, &run->interior);
    return MOSAIC_OK;
}

/* ---- the two passes ---- */

static void clear(float *values, size_t count) {
    for (size_t i = 0; i < count; ++i)
        values[i] = 0.0F;
}

static enum mosaic_status forward(struct run *run, struct status_error *err) {
    const long chunks = run->routes.chunks.count;
    clear(run->result->y, (size_t)run->job->batch->tokens * run->hidden);
    TRY(dispatch(run, 0, &run->now, err));
    for (long i = 0; i < chunks; ++i) {
        if (i + 1 < chunks)
            TRY(dispatch(run, i + 1, &run->next, err));
        TRY(compute(run, &run->now, err));
        TRY(return_rows(run, i, wide(run, add_to_y), &run->now.hidden, err));
        give_landed(run, &run->now);
        run->now = run->next;
        run->next = (struct landed){.rows = 0};
    }
    return MOSAIC_OK;
}

static enum mosaic_status backward_chunk(struct run *run, long chunk, struct status_error *err) {
    TRY(dispatch(run, chunk, &run->now, err));
    TRY(send_rows(run, chunk, wide(run, pack_dy), &run->dy, err));
    TRY(compute_backward(run, &run->now, err));
    give(run, &run->dy);
    TRY(return_rows(run, chunk, wide(run, add_to_dx), &run->now.hidden, err));
    TRY(return_rows(run, chunk, narrow(set_gate_gradient), &run->gate_gradients, err));
    give(run, &run->gate_gradients);
    give_landed(run, &run->now);
    return MOSAIC_OK;
}

static enum mosaic_status backward(struct run *run, struct status_error *err) {
    const struct expert_shape *const shape = &run->job->shape->expert;
    const size_t expert_bytes = expert_weight_count(shape) * sizeof(float);
    clear(run->result->dx, (size_t)run->job->batch->tokens * run->hidden);
    clear(run->result->expert_gradients, run->local * expert_weight_count(shape));
    TRY(take(run, &run->foreign_gradients, (size_t)run->routes.foreign * expert_bytes, NULL, err));
    for (long i = 0; i < run->routes.chunks.count; ++i)
        TRY(backward_chunk(run, i, err));
    return expert_return_gradients(&run->routes, shape, run->rank, run->foreign_gradients.at,
                                   run->result->expert_gradients, err);
}

static enum mosaic_status both(struct run *run, struct status_error *err) {
    const struct moe_job *const job = run->job;
    TRY(expert_routes_make(job, run->rank, &run->routes, err));
    const size_t expert_bytes = expert_weight_count(&job->shape->expert) * sizeof(float);
    run->local = (size_t)(job->shape->experts / run->rank->count);
    TRY(take(run, &run->foreign_weights, (size_t)run->routes.foreign * expert_bytes, NULL, err));
    TRY(expert_lend_weights(&run->routes, &job->shape->expert, run->rank, job->batch->weights,
                            run->foreign_weights.at, err));
    TRY(forward(run, err));
    return job->batch->dy ? backward(run, err) : MOSAIC_OK;
}

static struct dispatch_trace trace_of(const struct run *run) {
    const struct expert_routes *const r = &run->routes;
    long most = 0;
    for (long i = 0; i < r->chunks.count; ++i) {
        const long rows = expert_routes_landing(r, run->rank, i);
        most = rows > most ? rows : most;
    }
    return (struct dispatch_trace){.chunks = r->chunks.count,
                                   .chunk_tokens = r->group_chunk_tokens,
                                   .most_landed = most,
                                   .foreign = r->foreign,
                                   .exchanges = run->exchanges,
                                   .landed_bytes = run->landed_meter.peak,
                                   .staging_bytes = run->staging_meter.peak,
                                   .interior_bytes = run->interior_meter.peak};
}

enum mosaic_status expert_dispatch_run(const struct moe_job *job, struct rank *rank,
                                       struct moe_result *result, struct status_error *err) {
    struct run run = {.job = job,
                      .rank = rank,
                      .result = result,
                      .hidden = (size_t)job->shape->expert.hidden,
                      .top_k = (size_t)job->shape->top_k};
    const enum mosaic_status status = both(&run, err);
    if (status == MOSAIC_OK)
        result->trace = trace_of(&run);
    give_all(&run);
    return status;
}
