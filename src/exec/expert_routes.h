// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What the ranks of a group agree on before a MoE layer moves a row (arXiv 2609.14306): how many
 * tokens each expert has, the plan of the whole layer, which fixes where every route goes, the
 * chunks, and the table of what every rank sends to every other with each.
 */
#ifndef MOSAIC_EXEC_EXPERT_ROUTES_H
#define MOSAIC_EXEC_EXPERT_ROUTES_H

#include "exec/expert_ffn.h"
#include "exec/ranks.h"
#include "step/token_chunks.h"

/* The same on all ranks. */
struct moe_shape {
    int experts, top_k;
    struct expert_shape expert;
};

/* The same on all ranks.  Plain expert parallelism, LLEP or PipelinedLLEP. */
struct moe_rules {
    bool is_balanced;   /* LLEP, else every expert at home */
    double cap_factor;  /* alpha */
    long smallest;      /* m */
    double threshold;   /* lambda: at home while busiest expert / mean is below; 0: never */
    bool is_contiguous; /* chunks, else strided */
    long budget, most;  /* c, K_max; budget 0: the layer in one piece */
};

/* One rank's, the caller's. */
struct moe_batch {
    long tokens;
    const float *x;       /* [tokens x hidden] */
    const int *experts;   /* [tokens x top_k] */
    const float *gates;   /* [tokens x top_k], the router's weights */
    const float *weights; /* of the experts at home, in order */
    const float *dy;      /* [tokens x hidden], or NULL: forward only */
};

struct moe_job {
    const struct moe_shape *shape;
    const struct moe_rules *rules;
    const struct moe_batch *batch;
};

struct expert_routes {
    struct token_chunks chunks; /* of this rank's tokens */
    long group_chunk_tokens;    /* c_eff of the rank with most tokens */
    struct balance_rules balance;
    struct expert_plan plan;
    int *to;      /* [tokens x top_k]: each route's rank */
    long *splits; /* [source][chunk][destination] */
    int *places; /* [experts]: place of its weights here, foreign ones after those at home; or -1 */
    int foreign;
};

/* From the rank's device; free after failure as well. */
MOSAIC_MUST_USE enum mosaic_status expert_routes_make(const struct moe_job *job, struct rank *rank,
                                                      struct expert_routes *routes,
                                                      struct status_error *err);
void expert_routes_free(struct expert_routes *routes, struct rank *rank);

/* Rows that `source` sends to `destination` with a chunk. */
long expert_routes_rows(const struct expert_routes *routes, long chunk, int source,
                        int destination);
/* Rows that land on this rank with a chunk. */
long expert_routes_landing(const struct expert_routes *routes, const struct rank *rank, long chunk);
/* A rank computes a part of an expert that is not at home there. */
bool expert_routes_is_lent(const struct expert_routes *routes, int expert, int rank);

#endif
