// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Least-loaded expert parallelism (LLEP, arXiv 2601.17111): which rank computes which part of each
 * expert's tokens, and what natural routing costs without it.
 *
 * No rank shall hold more than cap = ceil(alpha total / ranks).  Experts are visited by decreasing
 * load; a rank's load is what it was given plus what is still to come of its own experts.  The rank
 * at home takes what fits under the cap, the rest goes piece by piece to the least loaded other
 * rank with room; a piece smaller than `smallest` is given only where it is the rest.  Where nobody
 * has room, the least loaded other rank takes all of the rest.  Ties go to the lower expert, then
 * to the lower rank.  Expert e is at home on rank e / (experts / ranks).
 */
#ifndef MOSAIC_STEP_EXPERT_BALANCE_H
#define MOSAIC_STEP_EXPERT_BALANCE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct balance_rules {
    int experts, ranks; /* ranks divides experts */
    double cap_factor;  /* alpha, >= 1 */
    long smallest;      /* m, tokens */
};

/* Positions [first, last) of an expert's global list of tokens: by rank, then token, then slot. */
struct expert_piece {
    int expert, rank;
    long first, last;
};

struct piece_span {
    size_t first, count;
};

struct expert_load {
    long tokens;
    int expert;
};

/* The caller brings the arrays; the planner fills them. */
struct expert_plan {
    struct expert_piece *pieces; /* [expert_pieces_most()], those of an expert in one row */
    size_t count;
    struct piece_span *spans;   /* [experts]: an expert's pieces, none where it has no tokens */
    long *loads;                /* [ranks]: tokens of each */
    struct expert_load *visits; /* [experts]: experts in the order of visiting */
};

/* Every expert: a piece at home and the last of its spill; every other piece fills a rank. */
size_t expert_pieces_most(int experts, int ranks);

MOSAIC_MUST_USE enum mosaic_status expert_plan_balanced(const struct balance_rules *rules,
                                                        const long *tokens,
                                                        struct expert_plan *plan,
                                                        struct status_error *err);
/* Every expert at home: plain expert parallelism. */
MOSAIC_MUST_USE enum mosaic_status expert_plan_natural(const struct balance_rules *rules,
                                                       const long *tokens, struct expert_plan *plan,
                                                       struct status_error *err);

int expert_home(const struct balance_rules *rules, int expert);
/* The rank that computes a position of an expert's list, which is not past its end. */
int expert_plan_rank(const struct expert_plan *plan, int expert, long position);
/* Experts that a rank computes away from their home; foreign[ranks]; the most. */
int expert_plan_foreign(const struct balance_rules *rules, const struct expert_plan *plan,
                        int *foreign);
/* Fullest rank over the mean, 1 without tokens. */
double expert_plan_imbalance(const struct balance_rules *rules, const struct expert_plan *plan);

/* Plain expert parallelism: tokens of the busiest rank over the mean, 1 without tokens. */
double expert_load_multiple(const struct balance_rules *rules, const long *tokens);
/* Busiest expert over the mean stays below lambda: balancing would not pay. */
bool expert_load_is_even(const long *tokens, int experts, double threshold);

/* Routing of arXiv 2609.14306: the first floor(share tokens) tokens of each rank choose among the
 * first `hot` experts, j mod hot for slot j; token i else hot + (i + j) mod (experts - hot). Not
 * skewed: hot = 0, all choose (i + j) mod experts. */
struct route_profile {
    int experts, top_k;
    int hot;      /* < experts */
    double share; /* [0, 1] */
};

int profile_expert(const struct route_profile *profile, long rank_tokens, long token, int slot);
/* Tokens that one rank sends to each expert. */
void profile_counts(const struct route_profile *profile, long rank_tokens, long *tokens);
/* expert_load_multiple() in the limit of many tokens, while the hot experts fit on one rank:
 * ranks (share + (1 - share) (local - hot) / (experts - hot)). */
double profile_load_multiple(const struct route_profile *profile, int ranks);

#endif
