// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * From the keys of a configuration to those of mosaic-model/1.  A model with a vision or audio
 * tower keeps its language model in `text_config`: that alone is counted.  A key that is neither
 * used nor known to be neutral, and is not switched off (null, false, empty), is unmodelled.
 */
#include "doc/hf_config.h"

#include "doc/hf_import.h"

#include <string.h>
#include <talloc.h>

#define COUNT_OF(list) (sizeof(list) / sizeof((list)[0]))

/* Keys that pass from one document to the other as they are. */
struct pair {
    const char *theirs, *ours;
};

static void require(struct hf_import *im, const char *key) {
    if (hf_find(im, key))
        return;
    hf_error(im, im->config, "missing key '%s' of a model of type '%s'", key, im->kind->type);
}

/* False when it is absent or wrong. */
static bool pass(struct hf_import *im, const char *theirs, const char *ours, int *value) {
    if (!hf_whole(im, theirs, value))
        return false;
    hf_give(im, ours, hf_find(im, theirs), *value);
    return true;
}

static void pass_all(struct hf_import *im, const struct pair *pairs, size_t count) {
    int value = 0;
    for (size_t i = 0; i < count; ++i)
        (void)pass(im, pairs[i].theirs, pairs[i].ours, &value);
}

static void ignore(struct hf_import *im, const char *const *keys, size_t count) {
    for (size_t i = 0; i < count; ++i)
        (void)hf_find(im, keys[i]);
}

/* The first of the keys that is there; the others, if any, must say the same. */
static const char *first_of(struct hf_import *im, const char *const *keys, size_t count) {
    const struct node *found = NULL;
    for (size_t i = 0; i < count; ++i) {
        const struct node *const node = hf_find(im, keys[i]);
        if (found && node &&
            strcmp(node->text ? node->text : "", found->text ? found->text : "") != 0)
            hf_error(im, node, "'%s' and '%s' differ", found->key, node->key);
        if (!found)
            found = node;
    }
    return found ? found->key : keys[0];
}

/* Attention. */

static bool is_latent(struct hf_import *im) {
    return (im->kind->flags & HF_MLA) && hf_find(im, "kv_lora_rank");
}

static void take_latent(struct hf_import *im) {
    static const struct pair pairs[] = {{"kv_lora_rank", "kv_rank"},
                                        {"q_lora_rank", "q_rank"},
                                        {"qk_nope_head_dim", "head_dim"},
                                        {"qk_rope_head_dim", "rope_dim"},
                                        {"v_head_dim", "v_head_dim"}};
    /* Every head has keys and values of its own, and the three widths make up head_dim. */
    static const char *const implied[] = {"num_key_value_heads", "head_dim"};
    hf_derive_text(im, "attention", hf_find(im, "kv_lora_rank"), "mla", false);
    for (size_t i = 2; i < COUNT_OF(pairs); ++i)
        require(im, pairs[i].theirs);
    pass_all(im, pairs, COUNT_OF(pairs));
    ignore(im, implied, COUNT_OF(implied));
}

static void take_attention(struct hf_import *im, int layers) {
    static const struct pair pairs[] = {{"num_key_value_heads", "kv_heads"},
                                        {"head_dim", "head_dim"}};
    if ((im->kind->flags & HF_MLA) && !(im->kind->flags & HF_UNKNOWN))
        require(im, "kv_lora_rank");
    if (is_latent(im))
        take_latent(im);
    else
        pass_all(im, pairs, COUNT_OF(pairs));
    hf_windows(im, layers);
}

/* Feed-forward. */

/* At most `topk_group` of `n_group` groups, which lie on one node each, serve a token. */
static void take_groups(struct hf_import *im) {
    int groups = 0, used = 0;
    const struct node *const method = hf_find(im, "topk_method");
    const bool is_free = method && method->text && strcmp(method->text, "greedy") == 0;
    const bool has_groups = hf_whole(im, "n_group", &groups);
    const bool has_used = hf_whole(im, "topk_group", &used);
    if (has_groups && has_used && !is_free && used > 0 && used < groups)
        hf_give(im, "node_limit", hf_find(im, "topk_group"), used);
}

static void take_shared(struct hf_import *im) {
    int value = 0;
    if (im->kind->flags & HF_SHARED) {
        hf_derive(im, "shared_experts", im->config, 1);
    } else if (hf_whole(im, "shared_expert_intermediate_size", &value) && value > 0) {
        const struct node *const width = hf_find(im, "shared_expert_intermediate_size");
        hf_derive(im, "shared_experts", width, 1);
        hf_give(im, "shared_ffn", width, value);
    } else {
        (void)pass(im, "n_shared_experts", "shared_experts", &value);
    }
}

static void take_experts(struct hf_import *im, const char *experts, int layers) {
    static const char *const top_keys[] = {"num_experts_per_tok", "experts_per_token"};
    const char *const top_k = first_of(im, top_keys, COUNT_OF(top_keys));
    const char *const width =
        im->kind->flags & HF_EXPERT_IS_FFN ? "intermediate_size" : "moe_intermediate_size";
    int value = 0;
    require(im, top_k);
    require(im, width);
    (void)pass(im, experts, "experts", &value);
    (void)pass(im, top_k, "top_k", &value);
    (void)pass(im, width, "expert_ffn", &value);
    take_shared(im);
    take_groups(im);
    hf_expert_layers(im, layers);
}

static void take_ffn(struct hf_import *im, int layers) {
    static const char *const expert_keys[] = {"num_local_experts", "num_experts",
                                              "n_routed_experts"};
    /* What a model of an MoE type without experts may carry all the same. */
    static const char *const unused[] = {"num_experts_per_tok",
                                         "experts_per_token",
                                         "moe_intermediate_size",
                                         "n_shared_experts",
                                         "shared_expert_intermediate_size",
                                         "n_group",
                                         "topk_group",
                                         "first_k_dense_replace",
                                         "moe_layer_freq",
                                         "mlp_only_layers",
                                         "decoder_sparse_step"};
    const bool is_expert_ffn = (im->kind->flags & HF_EXPERT_IS_FFN) != 0;
    const char *const dense = is_expert_ffn ? "intermediate_size_mlp" : "intermediate_size";
    int experts = 0, width = 0;
    if (im->kind->flags & HF_MOE) {
        const char *const key = first_of(im, expert_keys, COUNT_OF(expert_keys));
        if (!(im->kind->flags & HF_UNKNOWN) && !node_find(im->config, key))
            require(im, key); /* null or 0 would say that there are none */
        const bool has_experts = hf_whole(im, key, &experts) && experts > 0;
        if (has_experts)
            take_experts(im, key, layers);
        else
            ignore(im, unused, COUNT_OF(unused));
    }
    if (experts == 0 && !is_expert_ffn)
        require(im, dense);
    (void)pass(im, dense, "dense_ffn", &width);
}

/* The rest. */

static void take_tied(struct hf_import *im, const struct node *outer) {
    bool is_tied = (im->kind->flags & HF_TIED) != 0;
    const struct node *tied = hf_find(im, "tie_word_embeddings");
    if (!tied)
        tied = node_find(outer, "tie_word_embeddings");
    if (!tied)
        hf_derive_text(im, "tied", im->config, is_tied ? "true" : "false", false);
    else if (hf_node_bool(im, tied, &is_tied))
        hf_give_text(im, "tied", tied, is_tied ? "true" : "false", false);
}

static bool is_off(const struct node *node) {
    const bool is_bare = node->kind == NODE_SCALAR && !node->is_quoted;
    return is_bare ? node->text[0] == '\0' || strcmp(node->text, "false") == 0
                   : node->kind != NODE_SCALAR && node->count == 0;
}

static void take_unknown_key(struct hf_import *im, const struct node *node) {
    char key[STATUS_QUOTE_MAX];
    if (!hf_key_is_neutral(node->key) && !is_off(node))
        hf_unmodelled(im, node, "'%s': %s, which is not modelled",
                      status_quote(node->key, key, sizeof key), hf_key_meaning(node->key));
}

static void take_rest(struct hf_import *im, const struct node *outer) {
    static const char *const known[] = {"text_config", "tie_word_embeddings"};
    static const char *const towers[] = {"vision_config", "audio_config"};
    for (size_t i = 0; i < im->config->count; ++i)
        if (!im->is_used[i])
            take_unknown_key(im, im->config->items[i]);
    for (size_t i = 0; outer != im->config && i < outer->count; ++i) {
        const struct node *const node = outer->items[i];
        const bool is_tower =
            strcmp(node->key, towers[0]) == 0 || strcmp(node->key, towers[1]) == 0;
        if (is_tower)
            diag_note(im->l->diags, &node->key_place,
                      "'%s' is left out: the language model alone is counted", node->key);
        else if (strcmp(node->key, known[0]) != 0 && strcmp(node->key, known[1]) != 0)
            take_unknown_key(im, node);
    }
}

/* Type. */

static const char *text_of(const struct node *node) {
    return node && node->kind == NODE_SCALAR && node->is_quoted ? node->text : NULL;
}

static const struct node *first_architecture(const struct node *mapping) {
    const struct node *const list = node_find(mapping, "architectures");
    return list && list->kind == NODE_SEQUENCE && list->count > 0 ? list->items[0] : NULL;
}

static const struct node *type_node(const struct node *config, const struct node *outer) {
    const struct node *const nodes[] = {node_find(config, "model_type"), first_architecture(config),
                                        node_find(outer, "model_type"), first_architecture(outer)};
    for (size_t i = 0; i < COUNT_OF(nodes); ++i)
        if (text_of(nodes[i]))
            return nodes[i];
    return NULL;
}

static enum mosaic_status take_type(struct hf_import *im, const struct node *outer) {
    const struct node *const type = type_node(im->config, outer);
    if (!type) {
        (void)diag_error(im->l->diags, &outer->place,
                         "neither 'model_type' nor 'architectures': not a model's configuration");
        diag_hint(im->l->diags, "a document of mosaic's own starts with its key 'schema'");
        return MOSAIC_BAD_INPUT;
    }
    const bool is_type = type->key != NULL;
    im->kind = is_type ? hf_kind_find(type->text, NULL) : hf_kind_find(NULL, type->text);
    hf_derive_text(im, "name", type, type->text, true);
    if (im->kind)
        return im->status;
    char shown[STATUS_QUOTE_MAX];
    im->kind = &hf_kind_unknown;
    hf_unmodelled(im, type, "'%s' %s is not known, nor what its layers hold",
                  is_type ? "model_type" : "architectures",
                  status_quote(type->text, shown, sizeof shown));
    return im->status;
}

/* The whole. */

static enum mosaic_status start(struct hf_import *im, const struct yaml_tree *json) {
    struct yaml_tree *const model = talloc_zero(im->l->memory, struct yaml_tree);
    if (model) {
        model->root = talloc_zero(model, struct node);
        im->derived = talloc_memdup(model, json->source, sizeof *json->source);
    }
    im->is_used = talloc_zero_array(im->l->memory, bool, (unsigned)im->config->count + 1);
    if (!model || !model->root || !im->derived || !im->is_used)
        return diag_status(im->l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    im->derived->is_derived = true;
    im->model = model;
    model->source = json->source;
    model->root->kind = NODE_MAPPING;
    model->root->place = model->root->key_place = json->root->place;
    hf_derive_text(im, "schema", json->root, document_schema_name(DOCUMENT_MODEL), false);
    return im->status;
}

enum mosaic_status hf_config_convert(struct loader *l, const struct yaml_tree *json,
                                     struct yaml_tree **model) {
    static const struct pair pairs[] = {{"num_hidden_layers", "layers"},
                                        {"hidden_size", "hidden"},
                                        {"num_attention_heads", "heads"},
                                        {"vocab_size", "vocab"}};
    const struct node *const outer = json->root;
    if (outer->kind != NODE_MAPPING)
        return diag_error(l->diags, &outer->place, "a model's configuration is an object, not %s",
                          node_kind_text(outer));
    const struct node *const text = node_find(outer, "text_config");
    struct hf_import im = {.l = l, .config = text && text->kind == NODE_MAPPING ? text : outer};
    TRY(start(&im, json));
    TRY(take_type(&im, outer));
    for (size_t i = 0; i < COUNT_OF(pairs); ++i)
        require(&im, pairs[i].theirs);
    pass_all(&im, pairs, COUNT_OF(pairs));
    TRY(im.status); /* what follows goes layer by layer */
    int layers = 0;
    (void)hf_whole(&im, "num_hidden_layers", &layers);
    take_attention(&im, layers);
    take_ffn(&im, layers);
    take_tied(&im, outer);
    int mtp = 0;
    (void)pass(&im, "num_nextn_predict_layers", "mtp_layers", &mtp);
    take_rest(&im, outer);
    TRY(im.status);
    *model = im.model;
    return MOSAIC_OK;
}
