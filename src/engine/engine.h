// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What a training engine of one version can launch, as data: the rules that a layout must keep to.
 */
#ifndef MOSAIC_ENGINE_ENGINE_H
#define MOSAIC_ENGINE_ENGINE_H

#include "base/status.h"

#include "engine/execution.h"
#include "engine/launch.h"
#include "engine/rules.h"

#include <stdbool.h>

/* How fast a generation of the stack is, over today's: what a calibration made with another one is
 * corrected by. */
struct engine_profile {
    double attention_rate; /* of the attention core's kernels, 1 = as calibrated */
    double host_factor;    /* of the time spent on launches */
};

/* What the engine's own recipes do where a description of a run does not say. */
struct engine_recipe {
    struct execution execution;
    enum recompute recompute;
    bool recompute_to_fit; /* the least of none, selective, full that fits the device instead */
};

struct engine {
    char name[32];
    char version[32];
    bool uneven_stages;              /* layers per stage may differ */
    bool pipeline_layouts;           /* takes a text that says which chunk holds what */
    bool recompute_per_stage;        /* recomputation may differ by stage */
    bool interleaved_batches_divide; /* VPP > 1 needs micro_batches mod PP = 0 */
    bool interleaved_rounds_divide;  /* ... micro_batches mod max(1, micro_batches / PP) = 0 */
    bool kv_replication;             /* TP > kv_heads allowed, KV heads replicated */
    bool shards_master;              /* FSDP's sharded weights are the FP32 ones, without a copy */
    bool keeps_quantised;            /* GEMM inputs are kept in the precision they were used in */
    bool memory_schedules;           /* LLEP, chunked dispatch, vocabulary ring, offload streams */
    int vocab_pad_unit;              /* vocabulary padded to a multiple of unit x TP */
    struct engine_rules rules;       /* features that exclude each other */
    struct engine_profile profile;   /* zeros count as 1 */
    struct engine_recipe recipe;
    const struct launch *launch; /* its arguments, of its document; NULL: not read */
};

#endif
