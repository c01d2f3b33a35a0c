// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Whether a layout can be, as a table of rules: the arithmetic that any engine needs, and what one
 * engine of one version adds.  mesh_complete and mesh_check_engine (layout.h) stop at the first
 * rule that is broken; legality_find reports all of them with what each read.
 */
#ifndef MOSAIC_STEP_LEGALITY_H
#define MOSAIC_STEP_LEGALITY_H

#include "step/layout.h"

enum legality_kind { LEGALITY_ARITHMETIC, LEGALITY_ENGINE };
const char *legality_kind_name(enum legality_kind kind); /* "arithmetic", "engine" */

/* What rules read; the degrees of a mesh come first, in its order. */
#define OPERAND_LIST(X)                                                                            \
    X(OPERAND_TP, "TP")                                                                            \
    X(OPERAND_CP, "CP")                                                                            \
    X(OPERAND_PP, "PP")                                                                            \
    X(OPERAND_VPP, "VPP")                                                                          \
    X(OPERAND_EP, "EP")                                                                            \
    X(OPERAND_ETP, "ETP")                                                                          \
    X(OPERAND_MICRO_BATCH, "micro-batch")                                                          \
    X(OPERAND_DP, "DP")                                                                            \
    X(OPERAND_MICRO_BATCHES, "micro-batches")                                                      \
    X(OPERAND_GPUS, "GPUs")                                                                        \
    X(OPERAND_GLOBAL_BATCH, "global batch")                                                        \
    X(OPERAND_SEQUENCE, "sequence")                                                                \
    X(OPERAND_SHARD_RANKS, "shard ranks")                                                          \
    X(OPERAND_VOCAB_RING, "ring ranks")                                                            \
    X(OPERAND_LAYERS, "layers")                                                                    \
    X(OPERAND_MTP_LAYERS, "MTP layers")                                                            \
    X(OPERAND_HEADS, "heads")                                                                      \
    X(OPERAND_KV_HEADS, "KV heads")                                                                \
    X(OPERAND_DENSE_WIDTH, "dense FFN width")                                                      \
    X(OPERAND_SHARED_WIDTH, "shared experts' width")                                               \
    X(OPERAND_EXPERTS, "experts")                                                                  \
    X(OPERAND_EXPERT_WIDTH, "expert width")

enum operand {
#define OPERAND_ENUM(id, name) id,
    OPERAND_LIST(OPERAND_ENUM)
#undef OPERAND_ENUM
        OPERANDS
};
const char *operand_name(enum operand operand);

/* A mesh and all that it is judged by; dp and micro_batches are 0 where they are no whole numbers.
 */
struct legality_point {
    struct mesh mesh;
    const struct geometry *geometry;
    const struct workload *workload;
    const struct engine *engine; /* may be NULL: arithmetic alone */
    int gpus;
};
int operand_value(const struct legality_point *point, enum operand operand);

struct violation {
    const char *rule; /* "expert_ranks" */
    enum legality_kind kind;
    unsigned operands;          /* bit i: operand i was read */
    char text[STATUS_TEXT_MAX]; /* with the arithmetic */
    char hint[STATUS_TEXT_MAX]; /* the nearest value of what is no degree, or "" */
};
enum { VIOLATIONS_MAX = 32 };

/* Every broken rule, at most VIOLATIONS_MAX; fills dp and micro_batches.  A rule about what another
 * broken one leaves undefined is not judged. */
int legality_find(struct legality_point *point, struct violation *out);

#endif
