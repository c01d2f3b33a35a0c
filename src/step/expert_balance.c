// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Why 2 experts + ranks pieces are enough: a rank at or over the cap never comes below it again
 * (at home it takes what brings it back to the cap, no less), so each rank is filled at most once.
 */
#include "step/expert_balance.h"

#include <assert.h>
#include <limits.h>
#include <math.h>

size_t expert_pieces_most(int experts, int ranks) {
    return 2 * (size_t)experts + (size_t)ranks;
}

int expert_home(const struct balance_rules *rules, int expert) {
    return (int)((long)expert * rules->ranks / rules->experts); /* ranks divides experts */
}

static enum mosaic_status check(const struct balance_rules *r, const long *tokens, long *total,
                                struct status_error *err) {
    if (r->ranks < 1 || r->experts < 1 || r->experts % r->ranks != 0)
        return status_set(err, MOSAIC_BAD_INPUT, "%d experts do not divide among %d ranks",
                          r->experts, r->ranks);
    if (!(r->cap_factor >= 1.0) || !isfinite(r->cap_factor)) {
        status_set(err, MOSAIC_BAD_INPUT, "cap factor %g of the expert balance is below 1",
                   r->cap_factor);
        status_hint(err, "1 lets no rank hold more than the mean");
        return MOSAIC_BAD_INPUT;
    }
    if (r->smallest < 1)
        return status_set(err, MOSAIC_BAD_INPUT, "smallest piece of %ld tokens is below 1",
                          r->smallest);
    long sum = 0;
    for (int e = 0; e < r->experts; ++e) {
        if (tokens[e] < 0 || tokens[e] > LONG_MAX / 4 - sum)
            return status_set(err, MOSAIC_BAD_INPUT, "expert %d cannot have %ld tokens", e,
                              tokens[e]);
        sum += tokens[e];
    }
    *total = sum;
    return MOSAIC_OK;
}

static bool comes_before(struct expert_load a, struct expert_load b) {
    return a.tokens > b.tokens || (a.tokens == b.tokens && a.expert < b.expert);
}

static void sift(struct expert_load *heap, size_t root, size_t count) {
    const struct expert_load moved = heap[root];
    for (;;) {
        size_t child = 2 * root + 1;
        if (child >= count)
            break;
        if (child + 1 < count && comes_before(heap[child], heap[child + 1]))
            ++child;
        if (!comes_before(moved, heap[child]))
            break;
        heap[root] = heap[child];
        root = child;
    }
    heap[root] = moved;
}

/* Heap sort: qsort() may allocate. */
static void sort_visits(struct expert_load *visits, size_t count) {
    for (size_t i = count / 2; i-- > 0;)
        sift(visits, i, count);
    for (size_t end = count; end-- > 1;) {
        const struct expert_load last = visits[0];
        visits[0] = visits[end];
        visits[end] = last;
        sift(visits, 0, end);
    }
}

static void give(struct expert_plan *plan, int expert, int rank, long count) {
    struct piece_span *const span = &plan->spans[expert];
    plan->loads[rank] += count;
    if (span->count > 0) {
        struct expert_piece *const last = &plan->pieces[plan->count - 1];
        if (last->rank == rank) {
            last->last += count;
            return;
        }
        plan->pieces[plan->count] =
            (struct expert_piece){expert, rank, last->last, last->last + count};
    } else {
        span->first = plan->count;
        plan->pieces[plan->count] = (struct expert_piece){expert, rank, 0, count};
    }
    span->count++;
    plan->count++;
}

static int least_loaded_but(const long *loads, int ranks, int home) {
    int best = -1;
    for (int r = 0; r < ranks; ++r)
        if (r != home && (best < 0 || loads[r] < loads[best]))
            best = r;
    return best;
}

/* Others have at most the room of the least loaded: if it cannot take a piece, nobody can. */
static void place(const struct balance_rules *rules, struct expert_load visit, long cap,
                  struct expert_plan *plan) {
    const int home = expert_home(rules, visit.expert);
    long rest = visit.tokens;
    plan->loads[home] -= rest;
    const long room = cap - plan->loads[home];
    const long kept = rules->ranks == 1 || room >= rest ? rest : room > 0 ? room : 0;
    if (kept > 0)
        give(plan, visit.expert, home, kept);
    rest -= kept;
    while (rest > 0) {
        const int rank = least_loaded_but(plan->loads, rules->ranks, home);
        const long fits = cap - plan->loads[rank];
        const bool is_piece = fits > 0 && fits >= rules->smallest && fits < rest;
        const long taken = is_piece ? fits : rest;
        give(plan, visit.expert, rank, taken);
        rest -= taken;
    }
}

static void start(const struct balance_rules *rules, const long *tokens, struct expert_plan *plan) {
    plan->count = 0;
    for (int r = 0; r < rules->ranks; ++r)
        plan->loads[r] = 0;
    for (int e = 0; e < rules->experts; ++e) {
        plan->spans[e] = (struct piece_span){0, 0};
        plan->visits[e] = (struct expert_load){tokens[e], e};
    }
}

enum mosaic_status expert_plan_balanced(const struct balance_rules *rules, const long *tokens,
                                        struct expert_plan *plan, struct status_error *err) {
    long total = 0;
    TRY(check(rules, tokens, &total, err));
    /* Rounded up, so that the ranks' caps hold all tokens; never past what there is. */
    const double wanted = ceil(rules->cap_factor * (double)total / rules->ranks);
    const long cap = wanted < (double)total ? (long)wanted : total;
    start(rules, tokens, plan);
    sort_visits(plan->visits, (size_t)rules->experts);
    for (int e = 0; e < rules->experts; ++e)
        plan->loads[expert_home(rules, e)] += tokens[e];
    for (int i = 0; i < rules->experts; ++i)
        place(rules, plan->visits[i], cap, plan);
    return MOSAIC_OK;
}

enum mosaic_status expert_plan_natural(const struct balance_rules *rules, const long *tokens,
                                       struct expert_plan *plan, struct status_error *err) {
    long total = 0;
    TRY(check(rules, tokens, &total, err));
    start(rules, tokens, plan);
    for (int e = 0; e < rules->experts; ++e)
        if (tokens[e] > 0)
            give(plan, e, expert_home(rules, e), tokens[e]);
    return MOSAIC_OK;
}

int expert_plan_rank(const struct expert_plan *plan, int expert, long position) {
    const struct expert_piece *piece = plan->pieces + plan->spans[expert].first;
    const struct expert_piece *const end = piece + plan->spans[expert].count;
    while (piece + 1 < end && position >= piece->last)
        ++piece;
    assert(piece < end && position >= piece->first && position < piece->last);
    return piece->rank;
}

/* A rank may have two pieces of an expert, one forced on it. */
static bool is_again(const struct expert_piece *pieces, size_t at) {
    for (size_t i = at; i-- > 0 && pieces[i].expert == pieces[at].expert;)
        if (pieces[i].rank == pieces[at].rank)
            return true;
    return false;
}

int expert_plan_foreign(const struct balance_rules *rules, const struct expert_plan *plan,
                        int *foreign) {
    int most = 0;
    for (int r = 0; r < rules->ranks; ++r)
        foreign[r] = 0;
    for (size_t i = 0; i < plan->count; ++i) {
        const struct expert_piece *const p = &plan->pieces[i];
        if (expert_home(rules, p->expert) == p->rank || is_again(plan->pieces, i))
            continue;
        if (++foreign[p->rank] > most)
            most = foreign[p->rank];
    }
    return most;
}

static double most_over_mean(const long *values, int count) {
    double sum = 0.0, most = 0.0;
    for (int i = 0; i < count; ++i) {
        sum += (double)values[i];
        most = fmax(most, (double)values[i]);
    }
    return sum > 0.0 ? most * count / sum : 1.0;
}

double expert_plan_imbalance(const struct balance_rules *rules, const struct expert_plan *plan) {
    return most_over_mean(plan->loads, rules->ranks);
}

double expert_load_multiple(const struct balance_rules *rules, const long *tokens) {
    const int local = rules->experts / rules->ranks;
    double sum = 0.0, most = 0.0;
    for (int r = 0; r < rules->ranks; ++r) {
        double load = 0.0;
        for (int e = r * local; e < (r + 1) * local; ++e)
            load += (double)tokens[e];
        sum += load;
        most = fmax(most, load);
    }
    return sum > 0.0 ? most * rules->ranks / sum : 1.0;
}

bool expert_load_is_even(const long *tokens, int experts, double threshold) {
    return most_over_mean(tokens, experts) < threshold;
}

static long hot_tokens(const struct route_profile *p, long rank_tokens) {
    return p->hot > 0 ? (long)floor(p->share * (double)rank_tokens) : 0;
}

int profile_expert(const struct route_profile *p, long rank_tokens, long token, int slot) {
    if (token < hot_tokens(p, rank_tokens))
        return slot % p->hot;
    return p->hot + (int)((token + slot) % (p->experts - p->hot));
}

/* Numbers below `end` that leave `rest` when divided by `by`. */
static long count_below(long end, long rest, long by) {
    return end > rest ? (end - rest - 1) / by + 1 : 0;
}

void profile_counts(const struct route_profile *p, long rank_tokens, long *tokens) {
    const long hot = hot_tokens(p, rank_tokens);
    const int cold = p->experts - p->hot;
    for (int e = 0; e < p->hot; ++e)
        tokens[e] = hot * count_below(p->top_k, e, p->hot);
    for (int e = 0; e < cold; ++e) {
        long sum = 0;
        for (int j = 0; j < p->top_k; ++j) {
            const long rest = ((e - j) % cold + cold) % cold;
            sum += count_below(rank_tokens, rest, cold) - count_below(hot, rest, cold);
        }
        tokens[p->hot + e] = sum;
    }
}

double profile_load_multiple(const struct route_profile *p, int ranks) {
    if (p->hot == 0)
        return 1.0;
    const double local = (double)p->experts / ranks;
    return ranks * (p->share + (1.0 - p->share) * (local - p->hot) / (p->experts - p->hot));
}
