// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Tables of model types and keys, from the public configuration classes.  Biases, norms and sinks
 * are no matrices and are not counted (model/count.h), so what switches them is neutral.
 */
#include "doc/hf_keys.h"

#include <stddef.h>
#include <string.h>

#define COUNT_OF(list) (sizeof(list) / sizeof((list)[0]))

static const struct hf_kind kinds[] = {
    {"llama", "LlamaForCausalLM", 0, HF_WINDOW_NONE},
    {"mistral", "MistralForCausalLM", 0, HF_WINDOW_ALL},
    {"qwen2", "Qwen2ForCausalLM", 0, HF_WINDOW_UPPER},
    {"qwen3", "Qwen3ForCausalLM", 0, HF_WINDOW_UPPER},
    {"olmo2", "Olmo2ForCausalLM", 0, HF_WINDOW_NONE},
    {"gemma", "GemmaForCausalLM", HF_TIED, HF_WINDOW_NONE},
    {"gemma2", "Gemma2ForCausalLM", HF_TIED, HF_WINDOW_OTHER},
    {"gemma3_text", "Gemma3ForCausalLM", HF_TIED, HF_WINDOW_PATTERN},
    {"gemma3", "Gemma3ForConditionalGeneration", HF_TIED, HF_WINDOW_PATTERN},
    {"mixtral", "MixtralForCausalLM", HF_MOE | HF_EXPERT_IS_FFN, HF_WINDOW_ALL},
    {"olmoe", "OlmoeForCausalLM", HF_MOE | HF_EXPERT_IS_FFN, HF_WINDOW_NONE},
    {"qwen2_moe", "Qwen2MoeForCausalLM", HF_MOE, HF_WINDOW_UPPER},
    {"qwen3_moe", "Qwen3MoeForCausalLM", HF_MOE, HF_WINDOW_ALL},
    {"deepseek", "DeepseekForCausalLM", HF_MOE, HF_WINDOW_NONE},
    {"deepseek_v2", "DeepseekV2ForCausalLM", HF_MOE | HF_MLA, HF_WINDOW_NONE},
    {"deepseek_v3", "DeepseekV3ForCausalLM", HF_MOE | HF_MLA, HF_WINDOW_NONE},
    {"kimi_k2", "KimiK2ForCausalLM", HF_MOE | HF_MLA, HF_WINDOW_NONE},
    {"glm4_moe", "Glm4MoeForCausalLM", HF_MOE, HF_WINDOW_NONE},
    {"gpt_oss", "GptOssForCausalLM", HF_MOE | HF_EXPERT_IS_FFN, HF_WINDOW_OTHER},
    {"llama4_text", "Llama4ForCausalLM", HF_MOE | HF_EXPERT_IS_FFN | HF_SHARED, HF_WINDOW_CHUNKS},
    {"llama4", "Llama4ForConditionalGeneration", HF_MOE | HF_EXPERT_IS_FFN | HF_SHARED,
     HF_WINDOW_CHUNKS},
};
const struct hf_kind hf_kind_unknown = {"unknown", "", HF_MOE | HF_MLA | HF_UNKNOWN,
                                        HF_WINDOW_NONE};

const struct hf_kind *hf_kind_find(const char *type, const char *architecture) {
    for (size_t i = 0; i < COUNT_OF(kinds); ++i) {
        if (type ? strcmp(type, kinds[i].type) == 0
                 : architecture && strcmp(architecture, kinds[i].architecture) == 0)
            return &kinds[i];
    }
    return NULL;
}

static const char *const neutral[] = {
    /* files, classes and numbers' formats */
    "_name_or_path",
    "architectures",
    "auto_map",
    "compression_config",
    "dtype",
    "finetuning_task",
    "id2label",
    "label2id",
    "model_type",
    "name_or_path",
    "problem_type",
    "quantization_config",
    "task_specific_params",
    "tokenizer_class",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "use_bfloat16",
    "prefix",
    "_attn_implementation",
    "attn_implementation",
    /* generation */
    "bad_words_ids",
    "begin_suppress_tokens",
    "cache_implementation",
    "chunk_size_feed_forward",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "exponential_decay_length_penalty",
    "length_penalty",
    "max_length",
    "min_length",
    "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "suppress_tokens",
    "temperature",
    "tf_legacy_loss",
    "top_k",
    "top_p",
    "typical_p",
    "use_cache",
    "is_decoder",
    /* biases, norms, activations, attention's details that hold no matrix */
    "attention_bias",
    "mlp_bias",
    "qkv_bias",
    "use_bias",
    "norm_type",
    "norm_bias",
    "qk_layernorm",
    "qk_norm",
    "use_qk_norm",
    "rms_norm",
    "hidden_act",
    "hidden_activation",
    "act_fn",
    "swiglu_limit",
    "clip_qkv",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "query_pre_attn_scalar",
    "attn_scale",
    "attn_temperature_tuning",
    "floor_scale",
    "use_bidirectional_attention",
    /* positions */
    "max_position_embeddings",
    "original_max_position_embeddings",
    "initial_context_length",
    "model_max_length",
    "partial_rotary_factor",
    "rotary_pct",
    "qk_head_dim",
    /* training and its start */
    "initializer_range",
    "initializer_cutoff_factor",
    "pretraining_tp",
    "ep_size",
    "aux_loss_alpha",
    "seq_aux",
    "router_jitter_noise",
    "for_llm_compressor",
    "max_seq_len",
    /* how a router scores */
    "norm_topk_prob",
    "routed_scaling_factor",
    "scoring_func",
    "topk_method",
    "moe_router_activation_func",
    "moe_renormalize",
};
static const char *const neutral_starts[] = {"rope_", "output_", "forced_"};
static const char *const neutral_ends[] = {"_token_id", "_token_index", "_dropout",
                                           "_pdrop",    "_eps",         "_loss_coef"};

static bool starts_with(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

bool hf_key_is_neutral(const char *key) {
    for (size_t i = 0; i < COUNT_OF(neutral); ++i)
        if (strcmp(key, neutral[i]) == 0)
            return true;
    for (size_t i = 0; i < COUNT_OF(neutral_starts); ++i)
        if (starts_with(key, neutral_starts[i]))
            return true;
    for (size_t i = 0; i < COUNT_OF(neutral_ends); ++i)
        if (ends_with(key, neutral_ends[i]))
            return true;
    return false;
}

const char *hf_key_meaning(const char *key) {
    static const struct {
        const char *start, *meaning;
    } known[] = {
        {"linear_", "linear attention"},
        {"kv_lora_", "latent attention"},
        {"q_lora_", "latent attention"},
        {"num_local_experts", "experts in a type without"},
        {"num_experts", "experts in a type without"},
        {"n_routed_experts", "experts in a type without"},
        {"lightning_", "linear attention"},
        {"full_attention_interval", "linear attention"},
        {"attn_output_gate", "gated attention"},
        {"attention_gate", "gated attention"},
        {"moe_latent", "latent MoE"},
        {"mamba_", "state-space layers"},
        {"ssm_", "state-space layers"},
        {"hybrid_", "a pattern of layer kinds"},
        {"layer_", "a pattern of layer kinds"},
        {"layers_", "a pattern of layer kinds"},
        {"block_", "a pattern of layer kinds"},
        {"attn_", "another kind of attention"},
        {"attention_", "another kind of attention"},
        {"sliding_window", "windows whose layers no rule of the type names"},
        {"index_", "sparse attention by an indexer"},
        {"cross_attention", "cross-attention"},
        {"add_cross_attention", "cross-attention"},
        {"is_encoder_decoder", "an encoder"},
        {"num_zero_computation_experts", "experts that compute nothing"},
        {"zero_expert", "experts that compute nothing"},
        {"moe_", "another kind of MoE"},
    };
    for (size_t i = 0; i < COUNT_OF(known); ++i)
        if (starts_with(key, known[i].start))
            return known[i].meaning;
    return "a key that may change the shape";
}
