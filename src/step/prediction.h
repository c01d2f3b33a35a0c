// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What the evaluator says of one geometry under one layout: the step time split into named terms
 * that sum to it, utilisation under every convention, memory of the worst stage by item.
 */
#ifndef MOSAIC_STEP_PREDICTION_H
#define MOSAIC_STEP_PREDICTION_H

#include "machine/curve.h"

/* X(member): seconds per step; all but correction_s are >= 0, and they sum to step_time_s. */
#define TIME_TERMS(X)                                                                              \
    X(gemm_s)                                                                                      \
    X(grouped_gemm_s)                                                                              \
    X(attention_s)                                                                                 \
    X(elementwise_s)                                                                               \
    X(router_s)                                                                                    \
    X(permute_s)                                                                                   \
    X(head_loss_s)                                                                                 \
    X(quantise_s)                                                                                  \
    X(recompute_s)                                                                                 \
    X(dispatch_exposed_s)                                                                          \
    X(tp_exposed_s)                                                                                \
    X(cp_exposed_s)                                                                                \
    X(ep_exposed_s)                                                                                \
    X(pp_exposed_s)                                                                                \
    X(bubble_s)                                                                                    \
    X(stage_imbalance_s)                                                                           \
    X(dp_exposed_s)                                                                                \
    X(optimizer_s)                                                                                 \
    X(offload_exposed_s)                                                                           \
    X(straggler_s)                                                                                 \
    X(correction_s)

/* X(member): bytes on one GPU of one stage; they sum to total. */
#define MEMORY_ITEMS(X)                                                                            \
    X(weights)                                                                                     \
    X(gradients)                                                                                   \
    X(optimizer)                                                                                   \
    X(activations)                                                                                 \
    X(routed)                                                                                      \
    X(logits) X(workspace) X(communication) X(gathered) X(graphs) X(reserve) X(fragmentation)

struct time_split {
#define TIME_MEMBER(name) double name;
    TIME_TERMS(TIME_MEMBER)
#undef TIME_MEMBER
};

struct memory_items {
#define MEMORY_MEMBER(name) double name;
    MEMORY_ITEMS(MEMORY_MEMBER)
#undef MEMORY_MEMBER
    double total; /* whole bytes: the sum of the items, exactly */
};

enum verdict { VERDICT_FITS, VERDICT_TIGHT, VERDICT_NO };

struct prediction {
    double step_time_s;
    double tokens_per_s_per_gpu;
    double mfu, mfu_full_attention, mfu_6n, hfu; /* against the dense peak of the precision */
    double mfu_useful;                           /* mfu without the routed work that was dropped */
    double interval_low_s, interval_high_s;      /* 90 % */
    double sigma;         /* behind the interval: of ln(measured step time / predicted) */
    size_t anchor_steps;  /* measured steps behind correction_s, 0 for none */
    double anchor_factor; /* what they multiply the other terms by, else 1 */
    struct time_split split;
    struct lookup_count lookups;
    int worst_stage;
    struct memory_items memory; /* of the worst stage */
    double allocated_bytes;     /* total without reserve and fragmentation */
    double host_bytes;          /* offloaded, per GPU, of the stage with most of them */
    double host_node_bytes;     /* of the fullest node: its GPUs' together */
    double guarantee_bytes;     /* under memory schedules: sum over phases, any router; else 0 */
    double capacity_bytes;
    enum verdict verdict;
};

const char *verdict_name(enum verdict verdict);
/* Every member of the structs is one double. */
enum {
    TIME_TERM_COUNT = sizeof(struct time_split) / sizeof(double),
    MEMORY_ITEM_COUNT = sizeof(struct memory_items) / sizeof(double) - 1 /* total apart */
};
/* Name and value of entry i, in the order of the lists; NULL beyond the last. */
const char *time_term(const struct time_split *split, int i, double *seconds);
const char *memory_item(const struct memory_items *items, int i, double *bytes);

#endif
