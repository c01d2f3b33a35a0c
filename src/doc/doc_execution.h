// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * How a job runs beyond its degrees, as written: `execution` of a plan, and `recipe` of an engine
 * document, which is the same with a choice of recomputation.
 */
#ifndef MOSAIC_DOC_DOC_EXECUTION_H
#define MOSAIC_DOC_DOC_EXECUTION_H

#include "engine/engine.h"
#include "text/schema.h"

/* Target of both tables; `recompute` is the recipe's alone. */
struct execution_section {
    int sharding, shard_ranks, dispatcher, cuda_graphs, gradients, moments, attention, recompute;
    int fp8_scaling, master, expert_balance, dispatch_chunk, dispatch_chunks_max, vocab_ring;
    int optimizer_slots, vocab_move, restore_depth, context_shards;
    struct int_list overlap, selective, offload_modules;
    bool dp_overlap, fused_attention, uneven_chunks, has_shard_ranks;
    double dropped, offload_activations, offload_optimizer, checkpoint_offload, optimizer_bucket;
};

extern const struct schema doc_execution_schema, doc_recipe_schema;

void doc_execution(const struct execution_section *section, struct execution *out);
void doc_recipe(const struct execution_section *section, struct engine_recipe *out);

#endif
