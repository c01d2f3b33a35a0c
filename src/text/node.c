// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Finding, printing and replacing nodes of a tree.  Paths are words joined by dots, with list
 * positions in brackets: tiers[1].bandwidth.
 */
#include "text/yaml_tree.h"

#include <string.h>
#include <talloc.h>

enum { STEP_KEY_MAX = 128, INDEX_DIGITS_MAX = 6 };

/* One step of a path: a key, or an index in brackets. */
struct step {
    char key[STEP_KEY_MAX];
    bool is_index;
    size_t index;
};

/* Read one step; *path moves on.  False when the path is malformed. */
static bool next_step(const char **path, bool is_first, struct step *step) {
    const char *at = *path;
    memset(step, 0, sizeof *step);
    if (*at == '[') {
        const size_t digits = strspn(at + 1, "0123456789");
        if (digits == 0 || digits > INDEX_DIGITS_MAX || at[1 + digits] != ']')
            return false;
        step->is_index = true;
        for (size_t i = 1; i <= digits; i++)
            step->index = step->index * 10 + (size_t)(at[i] - '0');
        *path = at + digits + 2;
        return true;
    }
    if (!is_first && *at++ != '.')
        return false;
    const size_t length = strcspn(at, ".[");
    if (length == 0 || length >= STEP_KEY_MAX)
        return false;
    memcpy(step->key, at, length);
    *path = at + length;
    return true;
}

struct node *node_find(const struct node *mapping, const char *key) {
    if (!mapping || mapping->kind != NODE_MAPPING)
        return NULL;
    for (size_t i = 0; i < mapping->count; i++) {
        if (strcmp(mapping->items[i]->key, key) == 0)
            return mapping->items[i];
    }
    return NULL;
}

static struct node *take_step(const struct node *node, const struct step *step) {
    if (!step->is_index)
        return node_find(node, step->key);
    return node->kind == NODE_SEQUENCE && step->index < node->count ? node->items[step->index]
                                                                    : NULL;
}

struct node *node_at(const struct node *node, const char *path) {
    const char *const start = path;
    struct node *found = NULL;
    while (*path) {
        struct step step;
        if (!node || !next_step(&path, path == start, &step))
            return NULL;
        found = take_step(node, &step);
        node = found;
    }
    return found;
}

const char *node_kind_text(const struct node *node) {
    switch (node->kind) {
    case NODE_SCALAR:
        return "a scalar";
    case NODE_SEQUENCE:
        return "a list";
    case NODE_MAPPING:
        return "a mapping";
    }
    return "a node";
}

/* A text that grows by doubling; a failed one stays NULL. */
struct growing_text {
    void *memory;
    char *text;
    size_t used, capacity;
};

static void append(struct growing_text *out, const char *text, size_t length) {
    if (out->capacity - out->used <= length) {
        const size_t capacity = 2 * (out->capacity + length + 1);
        char *more = out->text || out->capacity == 0
                         ? talloc_realloc_size(out->memory, out->text, capacity)
                         : NULL;
        if (!more)
            talloc_free(out->text);
        out->text = more;
        out->capacity = capacity;
    }
    if (out->text) {
        memcpy(out->text + out->used, text, length);
        out->used += length;
        out->text[out->used] = '\0';
    }
}

static void append_text(struct growing_text *out, const char *text) {
    append(out, text, strlen(text));
}

static void append_quoted(struct growing_text *out, const char *text) {
    append_text(out, "\"");
    for (const char *at = text; *at; at++) {
        if (*at == '"' || *at == '\\')
            append_text(out, "\\");
        if (*at == '\n')
            append_text(out, "\\n");
        else
            append(out, at, 1);
    }
    append_text(out, "\"");
}

/* Depth is bounded: a tree has YAML_MAX_DEPTH levels, and few are grafted into each other. */
static void append_node(struct growing_text *out, const struct node *node) {
    const bool is_list = node->kind == NODE_SEQUENCE;
    if (node->kind == NODE_SCALAR) {
        if (node->is_quoted)
            append_quoted(out, node->text);
        else
            append_text(out, node->text);
        return;
    }
    append_text(out, is_list ? "[" : "{");
    for (size_t i = 0; i < node->count; i++) {
        if (i > 0)
            append_text(out, ", ");
        if (!is_list) {
            append_text(out, node->items[i]->key);
            append_text(out, ": ");
        }
        append_node(out, node->items[i]);
    }
    append_text(out, is_list ? "]" : "}");
}

char *node_text(void *memory, const struct node *node) {
    struct growing_text out = {.memory = memory};
    append_text(&out, ""); /* an empty scalar is a text as well */
    append_node(&out, node);
    return out.text;
}

/* Changing a tree. */

struct edit {
    struct yaml_tree *tree;
    struct place place; /* of the override */
    const char *path;
    struct diag_list *diags;
};

static void mark_override(struct node *node, const struct place *place) {
    node->is_override = true;
    node->place = *place;
    if (!node->key)
        node->key_place = *place;
    for (size_t i = 0; i < node->count; i++) {
        node->items[i]->key_place = *place;
        mark_override(node->items[i], place);
    }
}

static enum mosaic_status no_memory(struct diag_list *diags) {
    return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
}

/* Append an empty node to a list or mapping. */
static enum mosaic_status add_child(const struct edit *edit, struct node *parent,
                                    const struct step *step, struct node **out) {
    struct node *child = talloc_zero(edit->tree, struct node);
    struct node **items = talloc_array(edit->tree, struct node *, (unsigned)parent->count + 1);
    if (!child || !items)
        return no_memory(edit->diags);
    child->kind = NODE_SCALAR;
    child->text = "";
    child->place = child->key_place = edit->place;
    child->key = step->is_index ? NULL : talloc_strdup(edit->tree, step->key);
    if (!step->is_index && !child->key)
        return no_memory(edit->diags);
    if (parent->count > 0)
        memcpy(items, parent->items, parent->count * sizeof *items);
    talloc_free(parent->items);
    parent->items = items;
    parent->items[parent->count++] = child;
    *out = child;
    return MOSAIC_OK;
}

static bool is_unset(const struct node *node) {
    return node->kind == NODE_SCALAR && !node->is_quoted && node->text[0] == '\0';
}

/* The child that a step leads to, made when it is missing. */
static enum mosaic_status walk(const struct edit *edit, struct node *node, const struct step *step,
                               struct node **out) {
    if (is_unset(node)) {
        node->kind = step->is_index ? NODE_SEQUENCE : NODE_MAPPING;
        node->text = NULL;
    }
    const enum node_kind due = step->is_index ? NODE_SEQUENCE : NODE_MAPPING;
    if (node->kind != due)
        return diag_error(edit->diags, &edit->place, "'%s' is %s, not a %s",
                          node->key ? node->key : "the document", node_kind_text(node),
                          step->is_index ? "list" : "mapping");
    struct node *child = take_step(node, step);
    if (child) {
        *out = child;
        return MOSAIC_OK;
    }
    if (step->is_index && step->index > node->count)
        return diag_error(edit->diags, &edit->place, "the list '%s' has %zu item%s",
                          node->key ? node->key : "", node->count, node->count == 1 ? "" : "s");
    return add_child(edit, node, step, out);
}

static enum mosaic_status check_path(const struct edit *edit) {
    const char *at = edit->path;
    struct step step;
    do {
        if (!next_step(&at, at == edit->path, &step)) {
            (void)diag_error(edit->diags, &edit->place, "'%s' is not a key path", edit->path);
            diag_hint(edit->diags, "write budget.days or tiers[0].bandwidth");
            return MOSAIC_BAD_INPUT;
        }
    } while (*at);
    return MOSAIC_OK;
}

static void replace_content(struct node *node, const struct node *content) {
    node->kind = content->kind;
    node->is_quoted = content->is_quoted;
    node->is_override = content->is_override;
    node->text = content->text;
    node->place = content->place;
    node->items = content->items;
    node->count = content->count;
    if (!node->key)
        node->key_place = node->place;
}

static enum mosaic_status put_value(const struct edit *edit, struct node *content) {
    struct node *node = edit->tree->root;
    const char *at = edit->path;
    mark_override(content, &edit->place);
    do {
        struct step step;
        (void)next_step(&at, at == edit->path, &step); /* check_path has passed */
        TRY(walk(edit, node, &step, &node));
    } while (*at);
    replace_content(node, content);
    return MOSAIC_OK;
}

enum mosaic_status yaml_tree_set(struct yaml_tree *tree, const char *path, const char *value,
                                 const char *name, struct diag_list *diags) {
    const char *label =
        name ? talloc_strdup(tree, name) : talloc_asprintf(tree, "--set %s=%s", path, value);
    if (!label)
        return no_memory(diags);
    struct source *source = NULL;
    struct yaml_tree *parsed = NULL;
    TRY(source_from_override(tree, label, value, &source, diags));
    const struct edit edit = {tree, {source, 1, 1, 1}, path, diags};
    TRY(check_path(&edit));
    TRY(yaml_tree_parse(tree, source, &parsed, diags));
    return put_value(&edit, parsed->root);
}

void yaml_tree_graft(struct yaml_tree *tree, struct node *node, struct yaml_tree *other) {
    (void)talloc_reparent(talloc_parent(other), tree, other);
    replace_content(node, other->root);
}
