// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What the parts of the import of a Hugging Face configuration share: reading its members, and
 * giving members to the model document that it becomes.  Errors go to the loader's diagnostics and
 * are remembered in `status`, so that one run shows all of them.
 */
#ifndef MOSAIC_DOC_HF_IMPORT_H
#define MOSAIC_DOC_HF_IMPORT_H

#include "doc/hf_keys.h"
#include "doc/load.h"

struct hf_import {
    struct loader *l;
    const struct hf_kind *kind;
    const struct node *config; /* the language model's mapping */
    bool *is_used;             /* by member of it: its key has a meaning here */
    struct yaml_tree *model;   /* what it becomes */
    struct source *derived;    /* the configuration's text again, marked as derived */
    struct node *unmodelled;   /* list in the model, NULL while empty */
    enum mosaic_status status; /* of the first error */
};

/* A member that is there and not null, or NULL; its key counts as used. */
const struct node *hf_find(struct hf_import *im, const char *key);
/* A member's whole number, 0 or more; false when it is absent or wrong, which is reported. */
bool hf_whole(struct hf_import *im, const char *key, int *value);
/* The same, 1 or more, with a fallback. */
int hf_positive(struct hf_import *im, const char *key, int fallback);
/* The same of any node; key is what an error calls it. */
bool hf_node_whole(struct hf_import *im, const struct node *node, const char *key, int *value);
bool hf_node_bool(struct hf_import *im, const struct node *node, bool *value);

/* Report at a node. */
void hf_error(struct hf_import *im, const struct node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Note a structure that the model leaves out, in words that begin with the key. */
void hf_unmodelled(struct hf_import *im, const struct node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A member of the model as `from` states it, or as it follows from `from`. */
void hf_give(struct hf_import *im, const char *key, const struct node *from, int value);
void hf_derive(struct hf_import *im, const char *key, const struct node *from, int value);
void hf_give_text(struct hf_import *im, const char *key, const struct node *from, const char *text,
                  bool is_quoted);
void hf_derive_text(struct hf_import *im, const char *key, const struct node *from,
                    const char *text, bool is_quoted);

/* hf_layers.c: which layers have experts, which a window. */
void hf_expert_layers(struct hf_import *im, int layers);
void hf_windows(struct hf_import *im, int layers);

#endif
