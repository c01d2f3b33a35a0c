// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What is known of Hugging Face model configurations: the model types whose shape a geometry can
 * hold, and the keys that say nothing about shape.
 */
#ifndef MOSAIC_DOC_HF_KEYS_H
#define MOSAIC_DOC_HF_KEYS_H

#include <stdbool.h>

enum hf_flags {
    HF_MOE = 1,           /* may have experts */
    HF_MLA = 2,           /* latent attention where kv_lora_rank is given */
    HF_EXPERT_IS_FFN = 4, /* intermediate_size is the width of an expert */
    HF_SHARED = 8,        /* one shared expert that no key names, as wide as a routed one */
    HF_TIED = 16,         /* input embedding and head are one matrix unless stated */
    HF_UNKNOWN = 32       /* no known type: every key counts as it would elsewhere */
};

/* Which layers use the window where `layer_types` does not say. */
enum hf_window {
    HF_WINDOW_NONE,
    HF_WINDOW_ALL,
    HF_WINDOW_UPPER,   /* those from max_window_layers on */
    HF_WINDOW_OTHER,   /* every other one, the first included */
    HF_WINDOW_PATTERN, /* all but each sliding_window_pattern-th */
    HF_WINDOW_CHUNKS   /* attention_chunk_size in all but each no_rope_layer_interval-th */
};

struct hf_kind {
    const char *type;         /* model_type */
    const char *architecture; /* of `architectures`, where there is no model_type */
    unsigned flags;           /* enum hf_flags */
    enum hf_window window;
};

/* By model_type or, that being NULL, by architecture; NULL when it is not known. */
const struct hf_kind *hf_kind_find(const char *type, const char *architecture);
/* The kind that stands in for an unknown one. */
extern const struct hf_kind hf_kind_unknown;

/* Does a key say nothing about matrices, attention spans or layers? */
bool hf_key_is_neutral(const char *key);
/* What a key that no geometry expresses stands for, "linear attention". */
const char *hf_key_meaning(const char *key);

#endif
