// SPDX-License-Identifier: GPL-3.0-or-later
/* A lent expert's block goes out of, and its gradients come into, the place of its rank. */
#include "exec/expert_lend.h"

#include <stdbool.h>

struct sizes {
    size_t home_bytes[RANKS_MAX], home_offsets[RANKS_MAX]; /* home's side: one block a helper */
    size_t away_bytes[RANKS_MAX], away_offsets[RANKS_MAX]; /* helper's side: one block */
    int helpers;
};

/* Packed: the home has a block for each helper, else one for all. */
static struct sizes sizes_of(const struct expert_routes *r, const struct rank *rank, int expert,
                             size_t bytes, bool is_packed) {
    struct sizes s = {.helpers = 0};
    const int home = expert_home(&r->balance, expert);
    for (int i = 0; i < rank->count; ++i) {
        s.home_offsets[i] = is_packed ? (size_t)s.helpers * bytes : 0;
        if (!expert_routes_is_lent(r, expert, i))
            continue;
        s.helpers++;
        if (rank->index == home)
            s.home_bytes[i] = bytes;
        if (rank->index == i)
            s.away_bytes[home] = bytes;
    }
    return s;
}

static int local_experts(const struct expert_routes *r) {
    return r->balance.experts / r->balance.ranks;
}

/* Where this rank keeps a lent expert: at home or among the borrowed; -1 elsewhere. */
static long place_of(const struct expert_routes *r, const struct rank *rank, int expert) {
    const int place = r->places[expert];
    return expert_home(&r->balance, expert) == rank->index || place < 0 ? place
                                                                        : place - local_experts(r);
}

enum mosaic_status expert_lend_weights(const struct expert_routes *routes,
                                       const struct expert_shape *shape, struct rank *rank,
                                       const float *home, float *away, struct status_error *err) {
    const size_t count = expert_weight_count(shape);
    for (int e = 0; e < routes->balance.experts; ++e) {
        const struct sizes s = sizes_of(routes, rank, e, count * sizeof *home, false);
        if (s.helpers == 0)
            continue;
        const long place = place_of(routes, rank, e);
        const size_t at = place < 0 ? 0 : (size_t)place * count;
        const bool is_home = expert_home(&routes->balance, e) == rank->index;
        const struct exchange move = {
            is_home ? home + at : home,          s.home_bytes, s.home_offsets,
            is_home || !away ? away : away + at, s.away_bytes, s.away_offsets};
        TRY(rank_all_to_all(rank, &move, err));
    }
    return MOSAIC_OK;
}

static void add(float *sum, const float *more, size_t count) {
    for (size_t i = 0; i < count; ++i)
        sum[i] += more[i];
}

enum mosaic_status expert_return_gradients(const struct expert_routes *routes,
                                           const struct expert_shape *shape, struct rank *rank,
                                           const float *away, float *home,
                                           struct status_error *err) {
    const size_t count = expert_weight_count(shape);
    for (int e = 0; e < routes->balance.experts; ++e) {
        const struct sizes s = sizes_of(routes, rank, e, count * sizeof *home, true);
        if (s.helpers == 0)
            continue;
        const long place = place_of(routes, rank, e);
        const size_t at = place < 0 ? 0 : (size_t)place * count;
        const bool is_home = expert_home(&routes->balance, e) == rank->index;
        float *const returned =
            ledger_take(&rank->device, is_home ? (size_t)s.helpers * count * sizeof *home : 0);
        if (!returned)
            return status_no_memory(err);
        const struct exchange move = {is_home || !away ? away : away + at,
                                      s.away_bytes,
                                      s.away_offsets,
                                      returned,
                                      s.home_bytes,
                                      s.home_offsets};
        const enum mosaic_status status = rank_all_to_all(rank, &move, err);
        for (int i = 0; status == MOSAIC_OK && is_home && i < s.helpers; ++i)
            add(home + at, returned + (size_t)i * count, count);
        ledger_give(&rank->device, returned);
        TRY(status);
    }
    return MOSAIC_OK;
}
