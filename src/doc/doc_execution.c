// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * One table of fields for `execution` and `recipe`: what is left out is the plainest job, and the
 * recipe's own key comes last.
 */
#include "doc/doc_execution.h"

#include "machine/cluster.h"

/* In the order of the enums of engine/execution.h. */
static const char *const all_sharding_words[] = {"zero1",  "ddp",   "zero2", "fsdp",
                                                 "hybrid", "zero3", NULL};
enum { SHARDING_ZERO3 = SHARDINGS }; /* another name of fsdp */
static const char *const overlap_words[] = {"tp", "cp", "ep", "pp", NULL};
static const char *const module_words[] = {
    "norm", "activation", "rope", "core_attention", "mla_up", "mlp", "shared", "experts", NULL};
/* The second is the odd one. */
static const char *const state_words[] = {"fp32", "bf16", NULL};
/* In the order of enum vocab_move. */
static const char *const move_words[] = {"auto", "activations", "weights", NULL};
static const char *const master_words[] = {"fp32", "none", NULL};
static const char *const attention_words[] = {"bf16", "fp8", NULL};
static const char *const scaling_words[] = {"tensor", "block", NULL};
/* The last after the modes of recomputation. */
static const char *const recompute_words[] = {"none", "selective", "full", "to_fit", NULL};

enum { OVERLAPS = 4, SHARD_RANKS_MIN = 2, CHUNK_MAX = 1 << 24, CHUNKS_MOST = 4096, SLOTS_MAX = 64 };

#define WORD(member, table, plain, text)                                                           \
    {                                                                                              \
        .key = #member, .kind = FIELD_ENUM, .words = (table), .fallback = (plain),                 \
        FIELD_AT(struct execution_section, member), .help = (text)                                 \
    }
#define WORDS(member, table, most, flag, plain, text)                                              \
    {                                                                                              \
        .key = #member, .kind = FIELD_LIST, .item = FIELD_ENUM, .words = (table),                  \
        .flags = FIELD_UNIQUE | (flag), .fallback = (plain), .max_count = (most),                  \
        FIELD_AT(struct execution_section, member), .help = (text)                                 \
    }
#define SWITCH(member, plain, text)                                                                \
    {                                                                                              \
        .key = #member, .kind = FIELD_BOOL, .fallback = (plain),                                   \
        FIELD_AT(struct execution_section, member), .help = (text)                                 \
    }
static const struct field fields[] = {
    WORD(sharding, all_sharding_words, "zero1",
         "what data-parallel ranks share out of weights, gradients and optimizer states"),
    {.key = "shard_ranks",
     .kind = FIELD_INT,
     FIELD_AT(struct execution_section, shard_ranks),
     FIELD_PRESENCE(struct execution_section, has_shard_ranks),
     .min = SHARD_RANKS_MIN,
     .max = CLUSTER_MAX_GPUS,
     .help = "ranks of a group of hybrid sharding"},
    WORD(dispatcher, dispatcher_words, "nccl", "who moves tokens to their experts"),
    WORD(cuda_graphs, graphs_words, "none", "what is replayed from CUDA graphs"),
    WORDS(overlap, overlap_words, OVERLAPS, FIELD_EMPTY_OK, "[]",
          "transfers that hide behind compute"),
    SWITCH(dp_overlap, "true", "data-parallel collectives run beside the backward pass"),
    WORDS(selective, module_words, MODULE_COUNT, 0, "[norm, activation, rope]",
          "modules that selective recomputation runs again"),
    WORD(gradients, state_words, "fp32", "gradients are accumulated and reduced in this"),
    WORD(moments, state_words, "fp32", "the optimizer keeps its moments in this"),
    WORD(master, master_words, "fp32",
         "the optimizer's own weights; none: it steps the bf16 weights themselves"),
    WORD(fp8_scaling, scaling_words, "tensor",
         "scales of fp8 GEMM inputs, per tensor or per block"),
    WORD(attention, attention_words, "bf16", "number format of the attention core"),
    SWITCH(fused_attention, "true", "false: the score matrix is written to memory"),
    WORD(context_shards, context_shards_words, "balanced",
         "how context-parallel ranks share a causal sequence"),
    {.key = "dropped",
     .kind = FIELD_QUANTITY,
     .dimension = DIM_FRACTION,
     .fallback = "0",
     FIELD_AT(struct execution_section, dropped),
     .help = "share of the routed assignments that is dropped, below 1"},
    {.key = "offload_activations",
     .kind = FIELD_QUANTITY,
     .dimension = DIM_FRACTION,
     .fallback = "0",
     FIELD_AT(struct execution_section, offload_activations),
     .max = 1,
     .help = "share of the kept activations that waits in host memory"},
    WORDS(offload_modules, offload_part_words, OFFLOADS, 0,
          "[norm, qkv, core_attention, ffn, expert_input, expert_activation]",
          "parts of a layer whose kept activations may be offloaded"),
    {.key = "offload_optimizer",
     .kind = FIELD_QUANTITY,
     .dimension = DIM_FRACTION,
     .fallback = "0",
     FIELD_AT(struct execution_section, offload_optimizer),
     .max = 1,
     .help = "share of the optimizer state that the host keeps and steps"},
    WORD(expert_balance, balance_words, "none",
         "llep: rows of busy experts go to the least loaded ranks, which borrow the weights"),
    {.key = "dispatch_chunk",
     .kind = FIELD_INT,
     .fallback = "0",
     FIELD_AT(struct execution_section, dispatch_chunk),
     .min = 0,
     .max = CHUNK_MAX,
     .help = "tokens of a rank that go to their experts at once; 0: all"},
    {.key = "dispatch_chunks_max",
     .kind = FIELD_INT,
     .fallback = "10",
     FIELD_AT(struct execution_section, dispatch_chunks_max),
     .min = 1,
     .max = CHUNKS_MOST,
     .help = "chunks of a layer at most: beyond, they grow"},
    {.key = "vocab_ring",
     .kind = FIELD_INT,
     .fallback = "1",
     FIELD_AT(struct execution_section, vocab_ring),
     .min = 1,
     .max = CLUSTER_MAX_GPUS,
     .help = "ranks that share the vocabulary projection in a ring"},
    WORD(vocab_move, move_words, "auto", "what goes round the ring; auto: the fewer bytes"),
    {.key = "checkpoint_offload",
     .kind = FIELD_QUANTITY,
     .dimension = DIM_BYTES,
     .fallback = "0 B",
     FIELD_AT(struct execution_section, checkpoint_offload),
     .max = 1e15,
     .help = "host memory of a GPU for layer boundaries of full recomputation"},
    {.key = "restore_depth",
     .kind = FIELD_INT,
     .fallback = "1",
     FIELD_AT(struct execution_section, restore_depth),
     .min = 1,
     .max = SLOTS_MAX,
     .help = "boundaries on their way back ahead of their layer's backward"},
    {.key = "optimizer_bucket",
     .kind = FIELD_QUANTITY,
     .dimension = DIM_COUNT,
     .fallback = "0",
     FIELD_AT(struct execution_section, optimizer_bucket),
     .max = 1e12,
     .help = "parameters of a bucket in which AdamW's state streams from the host; 0: none"},
    {.key = "optimizer_slots",
     .kind = FIELD_INT,
     .fallback = "2",
     FIELD_AT(struct execution_section, optimizer_slots),
     .min = 1,
     .max = SLOTS_MAX,
     .help = "buckets on the device at once"},
    SWITCH(uneven_chunks, "false", "chunks of the interleaved schedule may differ by a layer"),
    WORD(recompute, recompute_words, "none",
         "recomputation; to_fit: the least of none, selective, full that fits"),
};
enum { FIELDS = sizeof fields / sizeof fields[0] };

static enum mosaic_status check(struct binder *b, const struct node *node, void *target) {
    const struct execution_section *const s = target;
    const struct node *const ranks = node_find(node, "shard_ranks");
    const bool is_hybrid = s->sharding == (int)SHARD_HYBRID;
    enum mosaic_status status = MOSAIC_OK;
    if (is_hybrid && !s->has_shard_ranks) {
        status =
            binder_error(b, node_find(node, "sharding"), "hybrid sharding needs 'shard_ranks'");
        binder_hint(b, "ranks of a shard group, e.g. shard_ranks: 8");
    } else if (!is_hybrid && s->has_shard_ranks) {
        status = binder_error(b, ranks, "'shard_ranks' is of hybrid sharding only, not of %s",
                              all_sharding_words[s->sharding]);
        binder_hint(b, "sharding: hybrid");
    }
    if (!(s->dropped < 1.0)) {
        status = binder_error(b, node_find(node, "dropped"), "'dropped' must be below 1");
        binder_hint(b, "with every assignment dropped nothing is computed");
    }
    return status;
}

const struct schema doc_execution_schema = {.name = "execution",
                                            .fields = fields,
                                            .count = FIELDS - 1,
                                            .size = sizeof(struct execution_section),
                                            .check = check};
const struct schema doc_recipe_schema = {.name = "recipe",
                                         .fields = fields,
                                         .count = FIELDS,
                                         .size = sizeof(struct execution_section),
                                         .check = check};

static unsigned bits(const struct int_list *list) {
    unsigned set = 0;
    for (size_t i = 0; i < list->count; ++i)
        set |= 1U << (unsigned)list->items[i];
    return set;
}

void doc_execution(const struct execution_section *s, struct execution *out) {
    const unsigned selective = bits(&s->selective), parts = bits(&s->offload_modules);
    *out = (struct execution){
        .sharding = s->sharding == (int)SHARDING_ZERO3 ? SHARD_FSDP : (enum sharding)s->sharding,
        .shard_ranks = s->shard_ranks,
        .dispatcher = (enum dispatcher)s->dispatcher,
        .graphs = (enum graphs)s->cuda_graphs,
        .overlap = bits(&s->overlap),
        .serial_dp = !s->dp_overlap,
        .selective = selective == MODULE_DEFAULT ? 0 : selective,
        .bf16_gradients = s->gradients == 1,
        .bf16_moments = s->moments == 1,
        .no_master = s->master == 1,
        .block_scaling = s->fp8_scaling == 1,
        .fp8_attention = s->attention == 1,
        .unfused_attention = !s->fused_attention,
        .context_shards = (enum context_shards)s->context_shards,
        .uneven_chunks = s->uneven_chunks,
        .offload_activations = s->offload_activations,
        .offload_parts = parts == (1U << OFFLOADS) - 1 ? 0 : parts,
        .offload_optimizer = s->offload_optimizer,
        .balance = (enum balance)s->expert_balance,
        .dispatch_chunk = s->dispatch_chunk,
        .dispatch_chunks_max = s->dispatch_chunks_max,
        .vocab_ring = s->vocab_ring > 1 ? s->vocab_ring : 0,
        .vocab_move = s->vocab_move,
        .checkpoint_host_bytes = s->checkpoint_offload,
        .restore_depth = s->restore_depth,
        .bucket_params = s->optimizer_bucket,
        .bucket_slots = s->optimizer_slots,
        .dropped = s->dropped};
}

void doc_recipe(const struct execution_section *s, struct engine_recipe *out) {
    doc_execution(s, &out->execution);
    out->recompute_to_fit = s->recompute == (int)RECOMPUTE_MODES;
    out->recompute = out->recompute_to_fit ? RECOMPUTE_NONE : (enum recompute)s->recompute;
}
