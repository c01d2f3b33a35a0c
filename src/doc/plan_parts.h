// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Parts of a plan document that stand in files of their own.
 */
#ifndef MOSAIC_DOC_PLAN_PARTS_H
#define MOSAIC_DOC_PLAN_PARTS_H

#include "doc/sections.h"
#include "engine/pipeline_string.h"

/* `budget`, once the cluster and the numbers of nodes are known: goodput may follow from nodes and
 * failures, days from nodes and price. */
MOSAIC_MUST_USE enum mosaic_status plan_budget(struct loader *l, const struct node *node,
                                               const char *prefix, struct problem *problem);

/* `workload`: the target of its table, and the job that follows. */
struct workload_section {
    int sequence, global_batch, precision, optimizer, vocab;
    double imbalance, capacity_factor, unique_tokens;
    struct number_list expert_tokens;
};
extern const struct schema plan_workload_schema;
void plan_workload(const struct workload_section *section, struct workload *out);
/* Once the geometries are known: capacity and tokens by expert agree with them; fills the rest of
 * problem->workload, which borrows the list. */
MOSAIC_MUST_USE enum mosaic_status plan_routing(struct loader *l, const struct node *root,
                                                struct workload_section *section,
                                                struct problem *problem);

/* `search.layout.stages`: what each chunk holds; count 0: not stated. */
struct stages_section {
    size_t count;
    struct pipeline_chunk *chunks;
    int *recompute; /* enum recompute of each chunk, or NULL */
    bool is_list;   /* it says nothing of MTP layers */
};

/* `search.layout`: the target of its table, and the axes that follow. */
struct layout_section {
    struct int_list tp, cp, pp, vpp, ep, etp, micro_batch, recompute, schedule;
    struct stages_section stages;
    int mesh;
    bool allow_extrapolation;
};
extern const struct schema plan_layout_schema;
void plan_layout(const struct layout_section *section, struct layout_space *space);
/* Whether each axis has a value that the cluster, the batch and the geometries admit; node is
 * `search.layout` or NULL. */
MOSAIC_MUST_USE enum mosaic_status plan_layout_check(struct loader *l, const struct node *node,
                                                     const struct problem *problem);

/* `search.execution`: the target of its table, and the ways to run the job that follow, once the
 * rest of problem->workload is filled. */
struct ways_section {
    struct int_list sharding, dispatcher, cuda_graphs, expert_balance, dispatch_chunk, vocab_ring;
    struct number_list offload_activations, offload_optimizer, checkpoint_offload, optimizer_bucket;
};
extern const struct schema plan_ways_schema;
MOSAIC_MUST_USE enum mosaic_status plan_ways(struct loader *l, const struct node *root,
                                             const struct ways_section *section,
                                             struct problem *problem);

/* Reading stages; PP, VPP and recomputation that follow from them; whether models and engine take
 * them, then they are the workload's.  `layout` is `search.layout`. */
enum mosaic_status plan_stages_parse(struct binder *binder, const struct field *field,
                                     const struct node *node, void *target);
MOSAIC_MUST_USE enum mosaic_status plan_stages_pin(struct binder *binder, const struct node *layout,
                                                   struct layout_section *section);
MOSAIC_MUST_USE enum mosaic_status plan_stages_check(struct loader *l, const struct node *layout,
                                                     const struct layout_section *section,
                                                     struct problem *problem);

/* The geometries of the plan: its `model`, or else `space`, which is its `search.geometry` or the
 * library's.  Takes the vocabulary from problem->workload and fills geometries, the sparsity limits
 * and the vocabulary that counts. */
extern const struct schema plan_geometry_schema;
MOSAIC_MUST_USE enum mosaic_status plan_geometries(struct loader *l, const struct node *root,
                                                   const struct node *space,
                                                   struct problem *problem);

#endif
