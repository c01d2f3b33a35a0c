// SPDX-License-Identifier: GPL-3.0-or-later
/* A rank without tokens still has a chunk, so that it takes part in its group's collectives. */
#include "step/token_chunks.h"

#include <assert.h>
#include <math.h>

static long divide_up(long value, long by) {
    return value > 0 ? (value - 1) / by + 1 : 0;
}

struct token_chunks token_chunks_at(long tokens, long count) {
    assert(tokens >= 0 && count >= 1);
    return (struct token_chunks){count, divide_up(tokens, count), tokens, CHUNK_STRIDED};
}

struct token_chunks token_chunks_of(long tokens, long budget, long most) {
    assert(budget >= 1 && most >= 1);
    const long wanted = divide_up(tokens, budget);
    return token_chunks_at(tokens, wanted < 1 ? 1 : wanted < most ? wanted : most);
}

long token_chunk_size(const struct token_chunks *c, long chunk) {
    if (c->order == CHUNK_STRIDED)
        return divide_up(c->total - chunk, c->count);
    const long before = chunk * c->tokens;
    const long rest = c->total - before;
    return rest <= 0 ? 0 : rest < c->tokens ? rest : c->tokens;
}

long token_chunk_token(const struct token_chunks *c, long chunk, long n) {
    return c->order == CHUNK_STRIDED ? chunk + n * c->count : chunk * c->tokens + n;
}

long token_chunk_of(const struct token_chunks *c, long token) {
    return c->order == CHUNK_STRIDED ? token % c->count : token / c->tokens;
}

static int expert_of(const struct route_source *source, long tokens, long token, int slot) {
    return source->experts ? source->experts[token * source->top_k + slot]
                           : profile_expert(source->profile, tokens, token, slot);
}

void token_chunk_sends(const struct token_chunks *chunks, const struct expert_plan *plan, int ranks,
                       const struct route_source *source, int *to, long *sends) {
    for (long i = 0; i < chunks->count * ranks; ++i)
        sends[i] = 0;
    for (long t = 0; t < chunks->total; ++t) {
        long *const row = sends + token_chunk_of(chunks, t) * ranks;
        for (int j = 0; j < source->top_k; ++j) {
            const long route = t * source->top_k + j;
            const int expert = expert_of(source, chunks->total, t, j);
            const int rank = expert_plan_rank(plan, expert, source->next[expert]++);
            row[rank]++;
            if (to)
                to[route] = rank;
        }
    }
}

double token_chunk_send_ratio(const long *sends, long chunks, int ranks) {
    double worst = 1.0;
    for (long i = 0; i < chunks; ++i) {
        double sum = 0.0, most = 0.0;
        for (int r = 0; r < ranks; ++r) {
            sum += (double)sends[i * ranks + r];
            most = fmax(most, (double)sends[i * ranks + r]);
        }
        if (sum > 0.0)
            worst = fmax(worst, most * ranks / sum);
    }
    return worst;
}

double chunk_staging_bytes(const struct dispatch_shape *s, const struct token_chunks *chunks) {
    return s->top_k * (double)chunks->tokens * s->hidden * s->scalar_bytes;
}

double chunk_even_bytes(const struct dispatch_shape *s, const struct token_chunks *chunks) {
    return 2.0 * chunk_staging_bytes(s, chunks);
}

double chunk_guarantee_bytes(const struct dispatch_shape *s, const struct token_chunks *chunks) {
    return s->ranks * chunk_even_bytes(s, chunks);
}

double whole_layer_bytes(const struct dispatch_shape *s, double routes) {
    return 2.0 * routes * s->hidden * s->scalar_bytes;
}

double route_interior_bytes(const struct dispatch_shape *s, const struct route_scale *scale,
                            double tokens) {
    return s->top_k * tokens * s->scalar_bytes *
           (scale->hidden * s->hidden + scale->inner * s->inner);
}

double expert_weight_bytes(const struct dispatch_shape *s) {
    return 3.0 * s->hidden * s->inner * s->scalar_bytes;
}

double chunked_peak_bytes(double kept_bytes, double interior_bytes, long chunks) {
    return kept_bytes + interior_bytes / (double)chunks;
}

double chunk_launches(long chunks, int forwards) {
    return (double)chunks * ((CHUNK_DISPATCHES + CHUNK_COMBINES) * forwards + CHUNK_INVERSES);
}

int chunk_expert_forwards(bool is_layer_recomputed, bool is_chunked) {
    return 1 + is_layer_recomputed + is_chunked;
}

double chunk_wire_bytes(const struct dispatch_shape *s, const struct token_chunks *chunks) {
    return chunk_staging_bytes(s, chunks) * (s->ranks - 1.0) / s->ranks;
}

double chunk_time_s(const struct chunk_times *t, long chunks) {
    const double once = t->plan_s + t->migrate_s + t->dispatch_s + t->combine_s;
    if (chunks == 1)
        return once + t->compute_s;
    const double middle = fmax(t->compute_s, t->dispatch_s + t->combine_s);
    return once + fmax(t->compute_s, t->dispatch_s) + fmax(t->compute_s, t->combine_s) +
           (double)(chunks - 2) * middle;
}

double chunk_exposed_s(const struct chunk_times *t, long chunks) {
    return chunk_time_s(t, chunks) - (double)chunks * t->compute_s;
}
