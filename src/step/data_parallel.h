// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Data-parallel collectives and the optimizer step of one stage.
 *   ZeRO-1   gradients reduce-scattered, bf16 weights all-gathered, once a step
 *   none     gradients all-reduced (as a reduce-scatter and an all-gather), once a step
 *   ZeRO-2   gradients reduce-scattered for each micro-batch, weights gathered once
 *   FSDP     weights gathered forward and backward, gradients scattered, for each micro-batch and
 *            layer; hybrid: inside groups of ranks, whose copies all-reduce their shards once
 * What runs once a step goes in buckets that may hide behind the last micro-batch's backward and
 * the first one's forward; all but one bucket can.  Each stage counts as if it ended last: the
 * slack that a pipeline's drain gives the later ones is not taken, since it hangs on the other
 * stages' loads.  FSDP's transfers t run beside compute c: what shows is
 * max(t - c, 0) + f min^2 / max, since a prefetch that is short beside its layer hides, and one
 * that is as long seldom does.
 */
#ifndef MOSAIC_STEP_DATA_PARALLEL_H
#define MOSAIC_STEP_DATA_PARALLEL_H

#include "step/state_stream.h"
#include "step/step.h"

/* Ranks that share out a parameter's state, and groups that hold copies of the same shard. */
struct shard_groups {
    struct group dense, expert;
    struct group dense_copies, expert_copies;
    double dense_states, expert_states; /* ranks over which optimizer states lie: 1 under ddp */
};
struct shard_groups sharding_groups(const struct step_context *ctx, const struct mesh *mesh);

/* Of a head in a ring, whose ranks hold 1/P each: what `ranks` that share it out hold per parameter
 * of the rest, over their part of the rank's own.  Together 1 / max(ranks, P) of the whole. */
double ring_rest_share(const struct step_context *ctx, double ranks);

/* The groups of one mesh with how their collectives travel. */
struct shard_links {
    struct shard_groups groups;
    bool gathers; /* sharding_gathers */
    /* Of dense and expert parameters: reduce-scatter and all-gather in the shard group, all-reduce
     * among its copies. */
    struct collective_path shards[2][2], copies[2];
};
void shard_links_of(const struct step_context *ctx, const struct mesh *mesh,
                    struct shard_links *out);
/* Whether weights are sharded and gathered layer by layer.  Under a pipeline they stay gathered for
 * the step, as engines do: each of many micro-batches would gather them again. */
bool sharding_gathers(const struct step_context *ctx, const struct mesh *mesh);

struct data_parallel {
    double reduce_s, gather_s;                 /* wire time */
    double reduce_exposed_s, gather_exposed_s; /* after the stage's own windows */
    double optimizer_s;
    double offload_s;       /* of the state on the host: gradients there, its step, weights back */
    double offload_least_s; /* what as many parameters or more take */
};

/* Sharded weights (FSDP): exposed part of gathering the stage's layers forward and backward and of
 * scattering their gradients, for one micro-batch whose compute is stage->busy_s; else 0. */
double gathering_exposed_s(const struct step_context *ctx, const struct shard_links *links,
                           const struct stage_cost *stage);

/* The optimizer's buckets of a rank with so many parameters, of an execution that streams them. */
struct state_stream optimizer_stream_of(const struct step_context *ctx,
                                        const struct layer_table *table,
                                        const struct shard_groups *groups, double params);
/* Its buckets on this machine, without the fixed time of an optimizer step. */
struct state_stream_time optimizer_stream_time(const struct step_context *ctx,
                                               const struct state_stream *stream);

/* lookups may be NULL. */
void data_parallel_of(const struct step_context *ctx, const struct layer_table *table,
                      const struct mesh *mesh, const struct shard_links *links,
                      const struct stage_cost *stage, struct lookup_count *lookups,
                      struct data_parallel *out);

#endif
