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
    /* Of each kind first a large size, then a small one, then what lies between. */
    static const int powers[] = {24, 16, 20, 28, 12, 14, 18, 22, 26, 30};
    for (size_t i = 0; i < COUNT_OF(powers); ++i)
        for (int k = 0; k < KINDS; ++k) {
            if (k == POINT_TO_POINT && spot->ranks != 2)
                continue;
            const int power = powers[i];
            const double bytes = ldexp(1.0, power);
            const struct shape_cost cost = {.bytes = slower(s) * bytes, .holds_bytes = 3.0 * bytes};
            const bool is_first = i < 4;
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

/* The product lasts as long as the collective or longer: else there is nothing to hide it under. */
static void add_overlap(struct shapes *s, const struct spot *spot) {
    static const char *const parts[] = {"gemm", "collective", "both"};
    static const struct {
        long long side, bytes;
        bool is_slow;
    } shapes[] = {{4096, 1LL << 23, false},
                  {8192, 1LL << 25, false},
                  {512, 1LL << 18, true},
                  {1024, 1LL << 20, true}};
    for (int k = 0; k < POINT_TO_POINT; ++k)
        for (size_t i = 0; i < COUNT_OF(shapes); ++i)
            for (size_t part = 0; part < COUNT_OF(parts); ++part) {
                if (shapes[i].is_slow != shapes_is_slow(s))
                    continue;
                const long long edge = shapes[i].side;
                const double side = (double)edge, bytes = (double)shapes[i].bytes;
                const struct shape_cost cost = {.dtype = s->base,
                                                .flop = 2.0 * side * side * side,
                                                .bytes = slower(s) * bytes,
                                                .holds_bytes = 3.0 * bytes + 24.0 * side * side};
                const size_t before = s->list->count;
                shapes_add(s, SAMPLE_OVERLAP, i % 2 == 0 ? 0 : 1, &cost,
                           "dtype=%s m=%lld n=%lld k=%lld kind=%s ranks=%d bytes=%lld part=%s",
                           s->base, edge, edge, edge, kinds[k], spot->ranks, shapes[i].bytes,
                           parts[part]);
                put_group(s, before, spot);
            }
}

/* Held-out truth: no entry is fitted to a layer, what the entries say of it is checked. */
static void add_layer(struct shapes *s, const struct spot *spot) {
    static const char *const both[] = {"forward", "backward"};
    enum { TOP_K = 2, SHAPES = 3 };
    const bool is_slow = shapes_is_slow(s);
    const long long hidden = is_slow ? 192 : 1024, ffn = is_slow ? 96 : 512;
    for (int i = 0; i < SHAPES; ++i)
        for (int p = 0; p < 2; ++p) {
            const long long tokens = (is_slow ? 128LL : 1024LL) << i;
            const double rows = (double)tokens * TOP_K, width = (double)hidden;
            const struct shape_cost cost = {.dtype = s->base,
                                            .flop = (p + 1) * 6.0 * rows * width * (double)ffn,
                                            .bytes = slower(s) * rows * width * 4.0,
                                            .holds_bytes = rows * width * 16.0};
            const size_t before = s->list->count;
            shapes_add(s, SAMPLE_MOE_LAYER, i == 0 ? 0 : 1, &cost,
                       "tokens=%lld hidden=%lld ffn=%lld experts=%d top_k=%d ranks=%d pass=%s",
                       tokens, hidden, ffn, 4 * spot->ranks, TOP_K, spot->ranks, both[p]);
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
    const struct spot alone = {1, 1, 1};
    if (s->scope->ranks > 1)
        add_pairs(s);
    else
        add_layer(s, &alone);
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
