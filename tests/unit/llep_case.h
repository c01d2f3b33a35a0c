// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Routing profiles and shapes of arXiv 2609.14306 (tables of PipelinedLLEP on 8 H200, 128 experts)
 * with a plan's arrays, for the tests of expert balance and chunks.
 */
#ifndef MOSAIC_TESTS_LLEP_CASE_H
#define MOSAIC_TESTS_LLEP_CASE_H

#include "step/token_chunks.h"

#include "close.h"

enum { LLEP_EXPERTS = 128, LLEP_RANKS = 8, LLEP_MOST_EXPERTS = 512, LLEP_MOST_RANKS = 64 };

/* alpha = 1, m = 1024: the rules that reproduce the paper. */
static const struct balance_rules llep_rules = {LLEP_EXPERTS, LLEP_RANKS, 1.0, 1024};

enum llep_profile { BALANCED, HOT_30_16, HOT_50_16, HOT_80_16, HOT_95_16, HOT_30_4, HOT_50_4 };
enum { LLEP_PROFILES = HOT_50_4 + 1 };

static inline struct route_profile llep_profile_of(int which, int experts, int top_k) {
    static const struct {
        int hot;
        double share;
    } rows[LLEP_PROFILES] = {{0, 0.0},   {16, 0.30}, {16, 0.50}, {16, 0.80},
                             {16, 0.95}, {4, 0.30},  {4, 0.50}};
    return (struct route_profile){experts, top_k, rows[which].hot, rows[which].share};
}

struct llep_plan {
    struct expert_piece pieces[2 * LLEP_MOST_EXPERTS + LLEP_MOST_RANKS];
    struct piece_span spans[LLEP_MOST_EXPERTS];
    long loads[LLEP_MOST_RANKS];
    struct expert_load visits[LLEP_MOST_EXPERTS];
    long tokens[LLEP_MOST_EXPERTS]; /* of each expert, all ranks together */
    struct expert_plan plan;
};

static inline void llep_plan_clear(struct llep_plan *p) {
    p->plan = (struct expert_plan){p->pieces, 0, p->spans, p->loads, p->visits};
}

/* The plan of a profile with so many tokens on each of the ranks. */
static inline void llep_plan_profile(struct llep_plan *p, const struct balance_rules *rules,
                                     const struct route_profile *profile, long rank_tokens) {
    llep_plan_clear(p);
    profile_counts(profile, rank_tokens, p->tokens);
    for (int e = 0; e < rules->experts; ++e)
        p->tokens[e] *= rules->ranks;
    struct status_error err;
    assert_int_equal(expert_plan_balanced(rules, p->tokens, &p->plan, &err), MOSAIC_OK);
}

/* Numbers below `below`, the same everywhere. */
static inline long llep_random(unsigned long *state, long below) {
    *state = *state * 6364136223846793005UL + 1442695040888963407UL;
    return (long)((*state >> 33) % (unsigned long)below);
}

#endif
