// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * YAML text as a tree of scalars, sequences and mappings, each with its place.  Built from
 * libyaml's events, so that what a planner's document has no use for is refused by name: anchors,
 * aliases, merge keys, tags, directives, second documents, doubled and non-scalar keys, nesting
 * over 64, tabs as indentation.  A scalar stays text: what it means is for the schema to say.
 */
#ifndef MOSAIC_TEXT_YAML_TREE_H
#define MOSAIC_TEXT_YAML_TREE_H

#include "text/diag.h"
#include "text/source.h"

enum { YAML_MAX_DEPTH = 64, YAML_MAX_NODES = 200000 };

enum node_kind { NODE_SCALAR, NODE_SEQUENCE, NODE_MAPPING };

struct node {
    enum node_kind kind;
    bool is_quoted;         /* scalar in quotes or a block scalar: a text, never a number */
    bool is_override;       /* came by yaml_tree_set */
    const char *key;        /* when a member of a mapping, else NULL */
    const char *text;       /* scalar's text, else NULL */
    struct place place;     /* of the value */
    struct place key_place; /* of the key; of the value when there is no key */
    struct node **items;    /* members in the order written */
    size_t count;
};

struct yaml_tree {
    struct source *source;
    struct node *root;
};

/* Parse a text already in memory; the tree refers to the source, which must outlive it. */
MOSAIC_MUST_USE enum mosaic_status yaml_tree_parse(void *memory, struct source *source,
                                                   struct yaml_tree **tree,
                                                   struct diag_list *diags);
/* Read and parse a file ("-" is standard input); `from` is where its name was written, or NULL. */
MOSAIC_MUST_USE enum mosaic_status yaml_tree_load(void *memory, const char *path,
                                                  const struct place *from, struct yaml_tree **tree,
                                                  struct diag_list *diags);
void yaml_tree_free(struct yaml_tree *tree);

/* Replace or add the node at a dotted path ("tiers[1].bandwidth") by a value in flow style; `name`
 * is what diagnostics call it, NULL for "--set PATH=VALUE". */
MOSAIC_MUST_USE enum mosaic_status yaml_tree_set(struct yaml_tree *tree, const char *path,
                                                 const char *value, const char *name,
                                                 struct diag_list *diags);
/* Put the content of another tree in place of a node, which keeps its key.  `other` becomes a
 * talloc child of `tree` and is freed with it. */
void yaml_tree_graft(struct yaml_tree *tree, struct node *node, struct yaml_tree *other);

/* Member of a mapping, or NULL. */
struct node *node_find(const struct node *mapping, const char *key);
/* Node at a dotted path below this one, or NULL. */
struct node *node_at(const struct node *node, const char *path);
/* The node in flow style: "[1, 2]"; NULL when memory is short. */
char *node_text(void *memory, const struct node *node);
/* "a scalar", "a list", "a mapping". */
const char *node_kind_text(const struct node *node);

#endif
