// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Groups of ranks: within one innermost domain, over all domains side by side, and one member a
 * domain, which is how tensor, data and expert parallel groups lie.  A probe by itself may hold
 * several devices; then the group is its own affair.
 */
#include "measure/job_shapes.h"

#include <math.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static const char *const kinds[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                    "point_to_point"};
enum { KINDS = COUNT_OF(kinds), POINT_TO_POINT = KINDS - 1 };
/* Forming a group takes connections between all pairs. */
static const double forming_s = 0.8;
/* Networks are slower than memory by about so much, threads of a processor less: of planning alone.
 */
static double slower(const struct shapes *s) {
    return shapes_is_slow(s) ? 4.0 : 30.0;
}

struct spot {
    int ranks, stride, inside; /* members of a domain */
};

static void put_group(struct shapes *s, size_t before, const struct spot *spot) {
    struct job *const job = shapes_last(s, before);
    if (!job || s->scope->ranks == 1)
        return;
    job->kind = JOB_GROUP;
    job->ranks = spot->ranks;
    job->stride = spot->stride;
    job->seconds += forming_s;
}

static void add_collectives(struct shapes *s, const struct spot *spot, bool is_main) {
    for (int k = 0; k < KINDS; ++k) {
        if (k == POINT_TO_POINT && spot->ranks != 2)
            continue;
        for (int power = 12; power <= 30; power += 2) {
            const double bytes = ldexp(1.0, power);
            const struct shape_cost cost = {.bytes = slower(s) * bytes, .holds_bytes = 3.0 * bytes};
            const bool is_first = power == 16 || power == 20 || power == 24 || power == 28;
            const size_t before = s->list->count;
            shapes_add(s, SAMPLE_COLLECTIVE,
                       is_main && is_first   ? 0
                       : is_main || is_first ? 1
                                             : 2,
                       &cost, "kind=%s ranks=%d ranks_per_domain=%d bytes=%lld", kinds[k],
                       spot->ranks, spot->inside, 1LL << power);
            put_group(s, before, spot);
        }
    }
}

static void add_overlap(struct shapes *s, const struct spot *spot) {
    static const char *const parts[] = {"gemm", "collective", "both"};
    static const long long sides[] = {4096, 512};
    for (int k = 0; k < POINT_TO_POINT; ++k)
        for (size_t i = 0; i < COUNT_OF(sides); ++i)
            for (size_t part = 0; part < COUNT_OF(parts); ++part) {
                const double side = (double)sides[i], bytes = ldexp(1.0, 24);
                const struct shape_cost cost = {.dtype = s->base,
                                                .flop = 2.0 * side * side * side,
                                                .bytes = slower(s) * bytes,
                                                .holds_bytes = 3.0 * bytes + 24.0 * side * side};
                const size_t before = s->list->count;
                shapes_add(s, SAMPLE_OVERLAP,
                           (k == 0 || k == 3) && (i == 0) != shapes_is_slow(s) ? 0 : 1, &cost,
                           "dtype=%s m=%lld n=%lld k=%lld kind=%s ranks=%d bytes=%lld part=%s",
                           s->base, sides[i], sides[i], sides[i], kinds[k], spot->ranks, 1LL << 24,
                           parts[part]);
                put_group(s, before, spot);
            }
}

static void add_layer(struct shapes *s, const struct spot *spot) {
    static const long long tokens[] = {256, 1024, 4096};
    static const char *const both[] = {"forward", "backward"};
    enum { HIDDEN = 1024, FFN = 512, TOP_K = 2 };
    for (size_t i = 0; i < COUNT_OF(tokens); ++i)
        for (int p = 0; p < 2; ++p) {
            const double rows = (double)tokens[i] * TOP_K;
            const struct shape_cost cost = {.dtype = s->base,
                                            .flop = (p + 1) * 6.0 * rows * HIDDEN * FFN,
                                            .bytes = slower(s) * rows * HIDDEN * 4.0,
                                            .holds_bytes = rows * HIDDEN * 16.0};
            const size_t before = s->list->count;
            shapes_add(s, SAMPLE_MOE_LAYER, shapes_is_slow(s) ? 1 : 2, &cost,
                       "tokens=%lld hidden=%d ffn=%d experts=%d top_k=%d ranks=%d pass=%s",
                       tokens[i], HIDDEN, FFN, 4 * spot->ranks, TOP_K, spot->ranks, both[p]);
            put_group(s, before, spot);
        }
}

/* Whether a round has a pair within one domain, or across two. */
static bool has_pair(const struct job_scope *scope, int round, bool is_inside) {
    for (int i = 0; i < scope->ranks; ++i) {
        const int other = job_pair_of(i, round - 1, scope->ranks), domain = scope->ranks_per_domain;
        if (other >= 0 && (i / domain == other / domain) == is_inside)
            return true;
    }
    return false;
}

static void add_pairs_of(struct shapes *s, int round, int inside) {
    static const long long sizes[] = {1LL << 26, 1LL << 16};
    for (size_t i = 0; i < COUNT_OF(sizes); ++i) {
        const double bytes = (double)sizes[i];
        const struct shape_cost cost = {.bytes = slower(s) * bytes, .holds_bytes = 3.0 * bytes};
        const size_t before = s->list->count;
        shapes_add(s, SAMPLE_COLLECTIVE, 0, &cost,
                   "kind=point_to_point ranks=2 ranks_per_domain=%d bytes=%lld", inside, sizes[i]);
        struct job *const job = shapes_last(s, before);
        if (!job)
            continue;
        job->kind = JOB_PAIRS;
        job->round = round;
        job->stride = s->scope->ranks_per_domain;
        job->seconds += forming_s;
    }
}

/* Point to point, every place with its partner at the same time: a link that is slower than its
 * like stands out.  A few rounds of partners are enough to name a rank; full meets all. */
static void add_pairs(struct shapes *s) {
    static const int rounds_most[JOB_LEVELS] = {3, 7, 63};
    const int all = job_pair_rounds(s->scope->ranks);
    const int most = rounds_most[s->scope->level], rounds = all < most ? all : most;
    for (int i = 0; i < rounds; ++i) {
        const int round = 1 + (all > most ? i * (all / most) : i);
        for (int inside = 2; inside >= 1; --inside)
            if (has_pair(s->scope, round, inside == 2))
                add_pairs_of(s, round, inside);
    }
}

void shapes_add_groups(struct shapes *s) {
    const int ranks = s->scope->ranks > 1 ? s->scope->ranks : s->scope->hello->devices;
    const int given = s->scope->ranks > 1 ? s->scope->ranks_per_domain : ranks;
    const int domain = given < 1 ? 1 : given > ranks ? ranks : given;
    if (s->scope->ranks > 1)
        add_pairs(s);
    for (int n = 2; n <= domain; n *= 2) {
        const struct spot spot = {n, 1, n};
        add_collectives(s, &spot, 2 * n > domain);
        if (2 * n > domain) {
            add_overlap(s, &spot);
            add_layer(s, &spot);
        }
    }
    /* Over two domains, four, ..., all of them; and strided. */
    for (int n = 2; domain * n <= ranks; n *= 2) {
        const bool is_last = 2 * n * domain > ranks;
        const struct spot whole = {n * domain, 1, domain}, strided = {n, domain, 1};
        add_collectives(s, &whole, is_last);
        if (domain > 1)
            add_collectives(s, &strided, is_last);
        if (is_last)
            add_overlap(s, &whole);
    }
}
