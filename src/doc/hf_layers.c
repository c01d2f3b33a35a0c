// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Layer by layer: experts or a dense FFN, a window or the whole sequence.  A geometry holds a
 * number of leading dense layers and a number of windowed ones.  Dense layers elsewhere change no
 * count, only what each stage of a pipeline holds: `approx` counts them as leading.
 */
#include "doc/hf_import.h"

#include <string.h>

/* Layer i (from 0) has experts if every rule says so. */
struct expert_rules {
    int first;           /* i >= first */
    int every;           /* i mod every = 0 */
    int step;            /* (i + 1) mod step = 0 */
    unsigned char *mark; /* by layer: excluded */
};

/* An empty list says as much as none; what is no list is for its reader to refuse. */
static bool is_list_used(const struct node *list) {
    return list && (list->kind != NODE_SEQUENCE || list->count > 0);
}

/* Set marks[i] to `mark` for each layer number i of a list. */
static void mark_layers(struct hf_import *im, const struct node *list, int layers,
                        unsigned char *marks, unsigned char mark) {
    if (list->kind != NODE_SEQUENCE) {
        hf_error(im, list, "'%s' must be a list, not %s", list->key, node_kind_text(list));
        return;
    }
    for (size_t i = 0; i < list->count; ++i) {
        int layer = 0;
        if (!hf_node_whole(im, list->items[i], list->key, &layer))
            return;
        if (layer >= layers) {
            hf_error(im, list->items[i], "'%s' names layer %d of %d, counted from 0", list->key,
                     layer, layers);
            return;
        }
        marks[layer] = mark;
    }
}

static bool has_experts(const struct expert_rules *rules, int i) {
    return i >= rules->first && i % rules->every == 0 && (i + 1) % rules->step == 0 &&
           !rules->mark[i];
}

/* Fills the rules and returns the key that bends them, or that of first_k_dense_replace. */
static const struct node *read_rules(struct hf_import *im, int layers, struct expert_rules *rules) {
    static const char *const steps[] = {"decoder_sparse_step", "interleave_moe_layer_step"};
    const struct node *cause = hf_find(im, "first_k_dense_replace");
    if (cause)
        (void)hf_node_whole(im, cause, cause->key, &rules->first);
    rules->every = hf_positive(im, "moe_layer_freq", 1);
    if (rules->every > 1)
        cause = hf_find(im, "moe_layer_freq");
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; ++i) {
        const int step = hf_positive(im, steps[i], 1);
        if (step > 1) {
            cause = hf_find(im, steps[i]);
            rules->step = step;
        }
    }
    const struct node *const dense = hf_find(im, "mlp_only_layers");
    if (is_list_used(dense)) {
        mark_layers(im, dense, layers, rules->mark, 1);
        cause = dense;
    }
    const struct node *const moe = hf_find(im, "moe_layers");
    if (is_list_used(moe)) {
        memset(rules->mark, 1, (size_t)layers);
        mark_layers(im, moe, layers, rules->mark, 0);
        cause = moe;
    }
    return cause;
}

void hf_expert_layers(struct hf_import *im, int layers) {
    unsigned char marks[GEOMETRY_MAX_LAYERS] = {0};
    struct expert_rules rules = {.every = 1, .step = 1, .mark = marks};
    if (layers > GEOMETRY_MAX_LAYERS)
        return; /* out of range: binding says so */
    const struct node *const cause = read_rules(im, layers, &rules);
    int dense = 0, leading = layers;
    for (int i = 0; i < layers; ++i) {
        if (!has_experts(&rules, i))
            ++dense;
        else if (leading == layers)
            leading = i;
    }
    if (!cause)
        return;
    if (dense == rules.first)
        hf_give(im, "first_dense", cause, dense);
    else
        hf_derive(im, "first_dense", cause, dense);
    if (dense != leading)
        hf_unmodelled(im, cause,
                      "'%s': %d dense layers stand among %d with experts; only leading dense "
                      "layers are modelled",
                      cause->key, dense, layers - dense);
}

/* Windows. */

static bool is_word(const struct node *node, const char *word) {
    return node->kind == NODE_SCALAR && node->is_quoted && strcmp(node->text, word) == 0;
}

/* Layers of `layer_types` that do not see the whole sequence; *is_chunk tells in which way. */
static int count_types(struct hf_import *im, const struct node *types, int layers, bool *is_chunk) {
    if (types->kind != NODE_SEQUENCE || types->count != (size_t)layers) {
        hf_error(im, types, "'layer_types' must be a list of %d, one a layer", layers);
        return 0;
    }
    int windowed = 0;
    bool is_told = false;
    for (size_t i = 0; i < types->count; ++i) {
        const struct node *const type = types->items[i];
        const bool is_sliding = is_word(type, "sliding_attention");
        *is_chunk = *is_chunk || is_word(type, "chunked_attention");
        windowed += is_sliding || is_word(type, "chunked_attention");
        if (is_sliding || is_told || is_word(type, "chunked_attention") ||
            is_word(type, "full_attention"))
            continue;
        char shown[STATUS_QUOTE_MAX];
        hf_unmodelled(im, type, "'layer_types' holds %s, a kind of layer that is not modelled",
                      type->kind == NODE_SCALAR ? status_quote(type->text, shown, sizeof shown)
                                                : node_kind_text(type));
        is_told = true;
    }
    return windowed;
}

/* Layers of the type's own rule. */
static int count_by_rule(struct hf_import *im, int layers) {
    static const int gemma_pattern = 6, llama_interval = 4, qwen_upper = 28; /* classes' defaults */
    switch (im->kind->window) {
    case HF_WINDOW_NONE:
        break;
    case HF_WINDOW_ALL:
        return layers;
    case HF_WINDOW_UPPER: {
        int first = qwen_upper;
        (void)hf_whole(im, "max_window_layers", &first);
        return first < layers ? layers - first : 0;
    }
    case HF_WINDOW_OTHER:
        return layers - layers / 2;
    case HF_WINDOW_PATTERN:
        return layers - layers / hf_positive(im, "sliding_window_pattern", gemma_pattern);
    case HF_WINDOW_CHUNKS:
        return layers - layers / hf_positive(im, "no_rope_layer_interval", llama_interval);
    }
    return 0;
}

/* 1 in `no_rope_layers` is a layer with positions, which sees its chunk alone. */
static int count_rope_layers(struct hf_import *im, const struct node *list, int layers) {
    int windowed = 0;
    if (list->kind != NODE_SEQUENCE || list->count != (size_t)layers) {
        hf_error(im, list, "'no_rope_layers' must be a list of %d, one a layer", layers);
        return 0;
    }
    for (size_t i = 0; i < list->count; ++i) {
        int has_positions = 0;
        if (!hf_node_whole(im, list->items[i], list->key, &has_positions))
            return 0;
        windowed += has_positions != 0;
    }
    return windowed;
}

static int count_windowed(struct hf_import *im, int layers, const struct node **cause,
                          bool *is_chunk) {
    const struct node *const types = hf_find(im, "layer_types");
    const struct node *const ropes = hf_find(im, "no_rope_layers");
    if (is_list_used(types)) {
        *cause = types;
        return count_types(im, types, layers, is_chunk);
    }
    if (*is_chunk && is_list_used(ropes)) {
        *cause = ropes;
        return count_rope_layers(im, ropes, layers);
    }
    return count_by_rule(im, layers);
}

/* Is `use_sliding_window` there and false? */
static bool is_switched_off(struct hf_import *im) {
    bool is_on = true;
    const struct node *const use = hf_find(im, "use_sliding_window");
    return use && hf_node_bool(im, use, &is_on) && !is_on;
}

void hf_windows(struct hf_import *im, int layers) {
    static const char *const sizes[] = {"sliding_window", "attention_chunk_size"};
    static const char *const patterns[] = {"max_window_layers", "sliding_window_pattern",
                                           "_sliding_window_pattern", "no_rope_layer_interval"};
    bool is_chunk = im->kind->window == HF_WINDOW_CHUNKS;
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; ++i)
        (void)hf_find(im, patterns[i]);
    const bool is_off = is_switched_off(im);
    const struct node *cause = NULL;
    const int windowed = count_windowed(im, layers, &cause, &is_chunk);
    const struct node *const window = hf_find(im, sizes[is_chunk ? 1 : 0]);
    int size = 0;
    if (is_off || (!window && !cause) || (window && !hf_node_whole(im, window, window->key, &size)))
        return;
    if (windowed > 0 && !window) {
        hf_error(im, cause, "'%s' names layers with a window, but '%s' is missing", cause->key,
                 sizes[is_chunk ? 1 : 0]);
        return;
    }
    if (windowed == 0) {
        if (window && !cause && im->kind->window == HF_WINDOW_NONE)
            hf_unmodelled(im, window, "'%s' %d: %s", window->key, size,
                          hf_key_meaning(window->key));
        return;
    }
    hf_give(im, "window", window, size);
    hf_derive(im, "window_layers", cause ? cause : window, windowed);
    if (!is_chunk)
        return;
    diag_warning(im->l->diags, &window->place,
                 "'%s' %d is counted as a sliding window: beyond %d tokens the causal "
                 "attention of its %d layers is overrated, up to twice",
                 window->key, size, size, windowed);
}
