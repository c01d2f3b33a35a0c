// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What a training engine of one version can launch, as data: the rules that a layout must keep to.
 */
#ifndef MOSAIC_ENGINE_ENGINE_H
#define MOSAIC_ENGINE_ENGINE_H

#include "base/status.h"

#include <stdbool.h>

struct engine {
    char name[32];
    char version[32];
    bool uneven_stages;              /* layers per stage may differ */
    bool recompute_per_stage;        /* recomputation may differ by stage */
    bool interleaved_batches_divide; /* VPP > 1 needs micro_batches mod PP = 0 */
    bool kv_replication;             /* TP > kv_heads allowed, KV heads replicated */
    int vocab_pad_unit;              /* vocabulary padded to a multiple of unit x TP */
};

#endif
