// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * jansson's values in the order of the text, and a cursor that moves over the text's tokens in
 * step.  jansson has accepted the text, so the cursor checks nothing.
 */
#include "text/json_tree.h"

#include <jansson.h>
#include <string.h>
#include <talloc.h>

struct walker {
    struct yaml_tree *tree;
    struct source *source;
    struct diag_list *diags;
    size_t at;         /* byte offset of the cursor */
    size_t seen;       /* byte whose line and column are known */
    long line, column; /* of it */
    size_t node_count;
};

/* As strspn() and strcspn(), which checked builds let read the whole text at each token. */
static size_t span_of(const char *text, const char *set, bool in_set) {
    size_t size = 0;
    while (text[size] && (strchr(set, text[size]) != NULL) == in_set)
        size++;
    return size;
}

bool json_tree_looks_like(const struct source *source) {
    const char *at = source->text + span_of(source->text, " \t\r\n", true);
    if (*at++ != '{')
        return false;
    at += span_of(at, " \t\r\n", true);
    return *at == '"' || *at == '}';
}

static enum mosaic_status no_memory(struct walker *w) {
    return diag_status(w->diags, MOSAIC_INTERNAL, NULL, "out of memory");
}

/* Bytes of the token at an offset: a string with its quotes, a word, a number, or one mark. */
static size_t token_size(const char *text) {
    if (*text != '"') {
        const size_t size = span_of(text, " \t\r\n,:[]{}", false);
        return size > 0 ? size : 1;
    }
    size_t size = 1;
    while (text[size] && text[size] != '"')
        size += text[size] == '\\' && text[size + 1] ? 2 : 1;
    return size + 1;
}

/* Lines and columns are counted once over the text: one line may hold all of it. */
static void advance(struct walker *w, size_t to) {
    const struct source *const source = w->source;
    for (; w->seen < to; ++w->seen) {
        w->column += ((unsigned char)source->text[w->seen] & 0xC0) != 0x80;
        if ((size_t)w->line < source->line_count && source->lines[w->line] == w->seen + 1) {
            w->line++;
            w->column = 1;
        }
    }
}

/* Move over the next token; commas and colons are none. */
static struct place next_token(struct walker *w, const char **start, size_t *size) {
    w->at += span_of(w->source->text + w->at, " \t\r\n,:", true);
    *start = w->source->text + w->at;
    *size = token_size(*start);
    long characters = 0;
    for (size_t i = 0; i < *size; ++i)
        characters += ((unsigned char)(*start)[i] & 0xC0) != 0x80;
    advance(w, w->at);
    const struct place place = {w->source, w->line, w->column, characters};
    w->at += *size;
    return place;
}

static enum mosaic_status build(struct walker *w, json_t *value, int depth, struct node **out);

static enum mosaic_status build_members(struct walker *w, json_t *object, int depth,
                                        struct node *node) {
    const char *key, *start;
    json_t *value;
    size_t size;
    json_object_foreach(object, key, value) {
        const struct place place = next_token(w, &start, &size);
        struct node *child = NULL;
        TRY(build(w, value, depth + 1, &child));
        char *const name = talloc_strdup(w->tree, key);
        if (!child || !name)
            return no_memory(w);
        child->key = name;
        child->key_place = place;
        node->items[node->count++] = child;
    }
    return MOSAIC_OK;
}

static enum mosaic_status build_container(struct walker *w, json_t *value, int depth,
                                          struct node *node) {
    const bool is_object = json_is_object(value);
    const size_t count = is_object ? json_object_size(value) : json_array_size(value);
    node->kind = is_object ? NODE_MAPPING : NODE_SEQUENCE;
    node->place.span = 1;
    node->items = talloc_zero_array(w->tree, struct node *, (unsigned)count + 1);
    if (!node->items)
        return no_memory(w);
    if (is_object) {
        TRY(build_members(w, value, depth, node));
    } else {
        for (size_t i = 0; i < count; ++i) {
            TRY(build(w, json_array_get(value, i), depth + 1, &node->items[i]));
            node->count++;
        }
    }
    const char *end;
    size_t size;
    (void)next_token(w, &end, &size);
    return MOSAIC_OK;
}

/* Depth is bounded by YAML_MAX_DEPTH. */
static enum mosaic_status build(struct walker *w, json_t *value, int depth, struct node **out) {
    const char *start;
    size_t size;
    const struct place place = next_token(w, &start, &size);
    const bool is_container = json_is_object(value) || json_is_array(value);
    if (is_container && depth >= YAML_MAX_DEPTH)
        return diag_error(w->diags, &place, "nested deeper than %d levels", (int)YAML_MAX_DEPTH);
    if (++w->node_count > YAML_MAX_NODES)
        return diag_error(w->diags, &place, "more than %d values", (int)YAML_MAX_NODES);
    struct node *const node = talloc_zero(w->tree, struct node);
    if (!node)
        return no_memory(w);
    node->place = node->key_place = place;
    *out = node;
    if (is_container)
        return build_container(w, value, depth, node);
    node->kind = NODE_SCALAR;
    node->is_quoted = json_is_string(value);
    node->text = json_is_string(value) ? talloc_strdup(w->tree, json_string_value(value))
                 : json_is_null(value) ? talloc_strdup(w->tree, "")
                                       : talloc_strndup(w->tree, start, size);
    return node->text ? MOSAIC_OK : no_memory(w);
}

/* jansson's position is the end of the token that it could not take. */
static enum mosaic_status refuse(const struct source *source, const json_error_t *error,
                                 struct diag_list *diags) {
    char shown[JSON_ERROR_TEXT_LENGTH];
    const size_t end = error->position > 0 ? (size_t)error->position - 1 : 0;
    const struct place place = source_place(source, end, 1);
    return diag_error(diags, &place, "not JSON: %s",
                      status_quote(error->text, shown, sizeof shown));
}

enum mosaic_status json_tree_parse(void *memory, struct source *source, struct yaml_tree **out,
                                   struct diag_list *diags) {
    json_error_t error;
    json_t *const value =
        json_loadb(source->text, source->size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!value)
        return refuse(source, &error, diags);
    struct yaml_tree *const tree = talloc_zero(memory, struct yaml_tree);
    struct walker w = {.tree = tree, .source = source, .diags = diags, .line = 1, .column = 1};
    enum mosaic_status status = tree ? MOSAIC_OK : no_memory(&w);
    if (status == MOSAIC_OK) {
        tree->source = source;
        status = build(&w, value, 0, &tree->root);
    }
    json_decref(value);
    if (status != MOSAIC_OK) {
        talloc_free(tree);
        return status;
    }
    *out = tree;
    return MOSAIC_OK;
}
