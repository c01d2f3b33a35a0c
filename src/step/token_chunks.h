// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Chunks of the tokens that a rank routes to experts (PipelinedLLEP, arXiv 2609.14306): the one
 * descriptor that is priced and executed.
 *   K = min(ceil(N / c), K_max), c_eff = ceil(N / K)
 * for N tokens, a budget of c tokens and at most K_max chunks.  Ranks of a group use the largest K
 * of any.  Strided, chunk i has the tokens i, i + K, i + 2K, ...; contiguous, those from i c_eff
 * on.
 *
 * Rows that land on a rank: at most Ep k c_eff of a chunk whatever the router does, k c_eff where
 * all ranks get the same; two buffers of them (this chunk's and the next one's forward, hidden
 * states and gradients backward).  The tensors between the two all-to-alls are alpha_H of a row's
 * hidden width and alpha_I of the expert's.
 */
#ifndef MOSAIC_STEP_TOKEN_CHUNKS_H
#define MOSAIC_STEP_TOKEN_CHUNKS_H

#include "step/expert_balance.h"

#include <stdbool.h>

enum chunk_order { CHUNK_STRIDED, CHUNK_CONTIGUOUS };

struct token_chunks {
    long count;  /* K >= 1 */
    long tokens; /* c_eff, of the largest chunk */
    long total;  /* N */
    enum chunk_order order;
};

/* Strided. tokens >= 0; budget and most >= 1. */
struct token_chunks token_chunks_of(long tokens, long budget, long most);
/* K known, as on a rank whose group needs more chunks than itself. */
struct token_chunks token_chunks_at(long tokens, long count);

long token_chunk_size(const struct token_chunks *chunks, long chunk);
/* The n-th token of a chunk, and the chunk of a token. */
long token_chunk_token(const struct token_chunks *chunks, long chunk, long n);
long token_chunk_of(const struct token_chunks *chunks, long token);

/* Routes of one rank's tokens: as listed, or by a profile. */
struct route_source {
    const int *experts; /* [tokens x top_k], or NULL */
    const struct route_profile *profile;
    int top_k;
    long *next; /* [experts]: where the rank's begin in each expert's list; moved to their end */
};
/* By the plan of the whole layer: each route's rank, to[tokens x top_k] (may be NULL), and how many
 * go to each rank with each chunk, sends[chunks x ranks]. */
void token_chunk_sends(const struct token_chunks *chunks, const struct expert_plan *plan, int ranks,
                       const struct route_source *source, int *to, long *sends);
/* The largest of one rank's sends over the mean of its chunk, over chunks. */
double token_chunk_send_ratio(const long *sends, long chunks, int ranks);

/* ---- bytes ---- */

/* Doubles as they meet in products. */
struct dispatch_shape {
    double ranks, top_k, hidden, inner, scalar_bytes; /* inner: width of one expert */
};

/* 2 Ep k c_eff H b: landed rows, any router. */
double chunk_guarantee_bytes(const struct dispatch_shape *shape, const struct token_chunks *chunks);
/* 2 k c_eff H b: the same where all ranks get as much. */
double chunk_even_bytes(const struct dispatch_shape *shape, const struct token_chunks *chunks);
/* k c_eff H b: what a rank packs to send, or gets back; one at a time. */
double chunk_staging_bytes(const struct dispatch_shape *shape, const struct token_chunks *chunks);
/* 2 R_d H b: a layer in one piece whose busiest rank gets so many routes. */
double whole_layer_bytes(const struct dispatch_shape *shape, double routes);

/* Route-scale tensors alive at the peak: 3 and 7 fit three models (memory of LLEP's figure 4). */
struct route_scale {
    double hidden, inner;
};
/* k N b (alpha_H H + alpha_I I): the interior of a balanced layer in one piece. Plain EP holds its
 * load multiple of it. */
double route_interior_bytes(const struct dispatch_shape *shape, const struct route_scale *scale,
                            double tokens);
/* 3 H I b: what a foreign expert adds and what its migration moves. */
double expert_weight_bytes(const struct dispatch_shape *shape);
/* A0 + B0 / K: a chunk's share of an interior of B0 beside what stays. */
double chunked_peak_bytes(double kept_bytes, double interior_bytes, long chunks);

/* ---- time and work ---- */

/* Collective launches of a chunk: hidden states, weights and ids of routes out, results back;
 * backward their gradients but the ids'. */
enum { CHUNK_DISPATCHES = 3, CHUNK_COMBINES = 1, CHUNK_INVERSES = 3 };
/* Of a layer whose forward runs so many times, recomputation of the layer included. */
double chunk_launches(long chunks, int forwards);
/* Forwards of the experts' GEMMs in one update: under recomputation of the layer one more; chunks
 * are recomputed by themselves once more. */
int chunk_expert_forwards(bool is_layer_recomputed, bool is_chunked);
/* One way on the wire: k c_eff H b (Ep - 1) / Ep, times the send ratio where chunks are skewed. */
double chunk_wire_bytes(const struct dispatch_shape *shape, const struct token_chunks *chunks);

/* Equal chunks. */
struct chunk_times {
    double plan_s, migrate_s;                /* once a layer */
    double compute_s, dispatch_s, combine_s; /* of one chunk */
};
/* plan + migrate + t_d + sum over chunks of max(t_x, t_d of the next + t_c of the one before)
 * + t_c. */
double chunk_time_s(const struct chunk_times *times, long chunks);
/* The part of it that is not the experts' compute. */
double chunk_exposed_s(const struct chunk_times *times, long chunks);

#endif
