// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * From libyaml's events to the tree.  A stack of open lists and mappings, at most YAML_MAX_DEPTH,
 * takes the place of recursion.  Errors that leave the structure intact (anchor, tag, doubled key)
 * are reported and reading goes on, so that one run shows them all.
 */
#include "text/yaml_tree.h"

#include "text/yaml_problem.h"

#include <stdlib.h>
#include <string.h>
#include <talloc.h>
#include <yaml.h>

struct builder {
    struct yaml_tree *tree;
    struct source *source;
    struct diag_list *diags;
    size_t node_count;

    struct node *open[YAML_MAX_DEPTH]; /* containers not yet ended */
    size_t depth;
    const char *key; /* key read, value due */
    struct place key_place;
    bool is_done; /* the root is complete */
    size_t documents;
};

static struct place mark_place(const struct source *source, const yaml_mark_t *start,
                               const yaml_mark_t *end) {
    const bool is_one_line = end->line == start->line && end->column > start->column;
    return (struct place){source, (long)start->line + 1, (long)start->column + 1,
                          is_one_line ? (long)(end->column - start->column) : 1};
}

static struct place event_place(const struct builder *b, const yaml_event_t *event) {
    return mark_place(b->source, &event->start_mark, &event->end_mark);
}

static enum mosaic_status no_memory(struct builder *b) {
    return diag_status(b->diags, MOSAIC_INTERNAL, NULL, "out of memory");
}

static bool append(struct builder *b, struct node *parent, struct node *node) {
    /* Room for a power of two; counts grow by one. */
    if ((parent->count & (parent->count - 1)) == 0) {
        const size_t room = parent->count == 0 ? 1 : parent->count * 2;
        struct node **more = talloc_realloc(b->tree, parent->items, struct node *, (unsigned)room);
        if (!more)
            return false;
        parent->items = more;
    }
    parent->items[parent->count++] = node;
    return true;
}

/* A new node in its place in the tree; NULL when there is no memory. */
static struct node *add_node(struct builder *b, enum node_kind kind, const yaml_event_t *event) {
    struct node *node = talloc_zero(b->tree, struct node);
    if (!node)
        return NULL;
    node->kind = kind;
    node->place = event_place(b, event);
    node->key = b->key;
    node->key_place = b->key ? b->key_place : node->place;
    b->key = NULL;
    b->node_count++;
    if (b->depth == 0)
        b->tree->root = node;
    else if (!append(b, b->open[b->depth - 1], node))
        return NULL;
    return node;
}

static bool expects_key(const struct builder *b) {
    return b->depth > 0 && b->open[b->depth - 1]->kind == NODE_MAPPING && !b->key;
}

static void refuse_properties(struct builder *b, const yaml_event_t *event,
                              const yaml_char_t *anchor, const yaml_char_t *tag) {
    const struct place place = event_place(b, event);
    char shown[STATUS_QUOTE_MAX];
    if (anchor) {
        (void)diag_error(b->diags, &place, "anchor '&%s': anchors are not used here",
                         status_quote((const char *)anchor, shown, sizeof shown));
        diag_hint(b->diags, "write the value out where it is needed");
    }
    if (tag) {
        static const char standard[] = "tag:yaml.org,2002:"; /* what !! stands for */
        const char *name = (const char *)tag;
        const bool is_standard = strncmp(name, standard, sizeof standard - 1) == 0;
        (void)diag_error(
            b->diags, &place, "tag '%s%s': tags are not used here", is_standard ? "!!" : "",
            status_quote(is_standard ? name + sizeof standard - 1 : name, shown, sizeof shown));
        diag_hint(b->diags, "the schema knows each value's type");
    }
}

static size_t character_count(const char *text, size_t size) {
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

/* libyaml drops the tag "!" of a scalar, which then takes more room than its text. */
static bool has_bare_tag(const yaml_event_t *event) {
    if (event->data.scalar.tag || event->data.scalar.anchor)
        return false;
    if (event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return event->data.scalar.plain_implicit != 0;
    return event->start_mark.line == event->end_mark.line &&
           event->end_mark.column - event->start_mark.column !=
               character_count((const char *)event->data.scalar.value, event->data.scalar.length);
}

static enum mosaic_status take_key(struct builder *b, const yaml_event_t *event, const char *text) {
    const bool is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    b->key = text;
    b->key_place = event_place(b, event);
    if (is_plain && strcmp(text, "<<") == 0) {
        (void)diag_error(b->diags, &b->key_place, "merge key '<<': merging is not used here");
        diag_hint(b->diags, "write the keys out");
    } else if (text[0] == '\0') {
        (void)diag_error(b->diags, &b->key_place, "empty key");
    }
    return MOSAIC_OK;
}

static enum mosaic_status take_scalar(struct builder *b, const yaml_event_t *event) {
    static const yaml_char_t bare_tag[] = "!";
    refuse_properties(b, event, event->data.scalar.anchor,
                      has_bare_tag(event) ? bare_tag : event->data.scalar.tag);
    const char *value = (const char *)event->data.scalar.value;
    const struct place place = event_place(b, event);
    if (strlen(value) != event->data.scalar.length)
        return diag_error(b->diags, &place, "a NUL inside a text");
    const char *text = talloc_strdup(b->tree, value);
    if (!text)
        return no_memory(b);
    if (expects_key(b))
        return take_key(b, event, text);
    struct node *node = add_node(b, NODE_SCALAR, event);
    if (!node)
        return no_memory(b);
    node->text = text;
    node->is_quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return MOSAIC_OK;
}

static enum mosaic_status open_container(struct builder *b, enum node_kind kind,
                                         const yaml_event_t *event, const yaml_char_t *anchor,
                                         const yaml_char_t *tag) {
    const struct place place = event_place(b, event);
    refuse_properties(b, event, anchor, tag);
    if (expects_key(b)) {
        (void)diag_error(b->diags, &place, "a key must be a word, not a %s",
                         kind == NODE_MAPPING ? "mapping" : "list");
        return MOSAIC_BAD_INPUT;
    }
    if (b->depth == YAML_MAX_DEPTH)
        return diag_error(b->diags, &place, "nested deeper than %d levels", (int)YAML_MAX_DEPTH);
    struct node *node = add_node(b, kind, event);
    if (!node)
        return no_memory(b);
    b->open[b->depth++] = node;
    return MOSAIC_OK;
}

static enum mosaic_status take_alias(struct builder *b, const yaml_event_t *event) {
    const struct place place = event_place(b, event);
    char shown[STATUS_QUOTE_MAX];
    (void)diag_error(b->diags, &place, "alias '*%s': aliases are not used here",
                     status_quote((const char *)event->data.alias.anchor, shown, sizeof shown));
    diag_hint(b->diags, "write the value out, or quote a text that starts with '*'");
    if (expects_key(b)) {
        b->key = "*";
        b->key_place = place;
        return MOSAIC_OK;
    }
    struct node *node = add_node(b, NODE_SCALAR, event);
    if (!node)
        return no_memory(b);
    node->text = "";
    return MOSAIC_OK;
}

/* Order of keys, equal ones by their place in the file. */
static int compare_keys(const void *left, const void *right) {
    const struct node *const *l = left, *const *r = right;
    const int order = strcmp((*l)->key, (*r)->key);
    if (order != 0)
        return order;
    const struct place *a = &(*l)->key_place, *b = &(*r)->key_place;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    return a->column < b->column ? -1 : a->column > b->column;
}

static enum mosaic_status refuse_doubled_keys(struct builder *b, const struct node *mapping) {
    if (mapping->count < 2)
        return MOSAIC_OK;
    struct node **sorted = talloc_memdup(b->tree, mapping->items, mapping->count * sizeof *sorted);
    if (!sorted)
        return no_memory(b);
    qsort(sorted, mapping->count, sizeof *sorted, compare_keys);
    for (size_t i = 1; i < mapping->count; i++) {
        if (strcmp(sorted[i]->key, sorted[i - 1]->key) != 0)
            continue;
        char shown[STATUS_QUOTE_MAX];
        (void)diag_error(
            b->diags, &sorted[i]->key_place, "key '%s' is given twice, first on line %ld",
            status_quote(sorted[i]->key, shown, sizeof shown), sorted[i - 1]->key_place.line);
        diag_hint(b->diags, "keep one of them");
    }
    talloc_free(sorted);
    return MOSAIC_OK;
}

static enum mosaic_status close_container(struct builder *b) {
    const struct node *node = b->open[--b->depth];
    return node->kind == NODE_MAPPING ? refuse_doubled_keys(b, node) : MOSAIC_OK;
}

static enum mosaic_status start_document(struct builder *b, const yaml_event_t *event) {
    const struct place place = event_place(b, event);
    if (b->documents++ > 0) {
        (void)diag_error(b->diags, &place, "a second document starts here");
        diag_hint(b->diags, "one file holds one document");
        return MOSAIC_BAD_INPUT;
    }
    const bool has_tags = event->data.document_start.tag_directives.start !=
                          event->data.document_start.tag_directives.end;
    if (event->data.document_start.version_directive || has_tags) {
        const struct place first = mark_place(b->source, &event->start_mark, &event->start_mark);
        (void)diag_error(b->diags, &first, "directives (%%) are not used here");
        diag_hint(b->diags, "remove the line");
    }
    return MOSAIC_OK;
}

static enum mosaic_status take_event(struct builder *b, const yaml_event_t *event) {
    if (b->node_count > YAML_MAX_NODES) {
        const struct place place = event_place(b, event);
        return diag_error(b->diags, &place, "more than %d values", (int)YAML_MAX_NODES);
    }
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return start_document(b, event);
    case YAML_ALIAS_EVENT:
        return take_alias(b, event);
    case YAML_SCALAR_EVENT:
        return take_scalar(b, event);
    case YAML_SEQUENCE_START_EVENT:
        return open_container(b, NODE_SEQUENCE, event, event->data.sequence_start.anchor,
                              event->data.sequence_start.tag);
    case YAML_MAPPING_START_EVENT:
        return open_container(b, NODE_MAPPING, event, event->data.mapping_start.anchor,
                              event->data.mapping_start.tag);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return close_container(b);
    case YAML_STREAM_END_EVENT:
        b->is_done = true;
        return MOSAIC_OK;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        return MOSAIC_OK;
    }
    return MOSAIC_OK;
}

static enum mosaic_status read_events(struct builder *b, yaml_parser_t *parser) {
    while (!b->is_done) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event))
            return yaml_problem_report(parser, b->source, b->diags);
        const enum mosaic_status status = take_event(b, &event);
        yaml_event_delete(&event);
        TRY(status);
    }
    return MOSAIC_OK;
}

/* libyaml lets some tabs pass; in indentation none is harmless. */
static enum mosaic_status refuse_tabs(const struct source *source, struct diag_list *diags) {
    size_t found = 0;
    struct place first = {0};
    for (size_t l = 0; l < source->line_count; l++) {
        size_t at = source->lines[l];
        size_t tab = source->size;
        for (; source->text[at] == ' ' || source->text[at] == '\t'; at++) {
            if (source->text[at] == '\t' && tab == source->size)
                tab = at;
        }
        const bool is_blank =
            at >= source->size || source->text[at] == '\r' || source->text[at] == '\n';
        if (tab == source->size || is_blank)
            continue;
        if (found++ == 0)
            first = source_place(source, tab, (long)(at - tab));
    }
    if (found == 0)
        return MOSAIC_OK;
    if (found == 1)
        (void)diag_error(diags, &first, "tab used as indentation");
    else
        (void)diag_error(diags, &first, "tab used as indentation, here and on %zu more line%s",
                         found - 1, found == 2 ? "" : "s");
    diag_hint(diags, "indent with blanks");
    return MOSAIC_BAD_INPUT;
}

static enum mosaic_status build(struct builder *b) {
    TRY(refuse_tabs(b->source, b->diags));
    const size_t errors_before = b->diags->errors;
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return no_memory(b);
    yaml_parser_set_input_string(&parser, (const unsigned char *)b->source->text, b->source->size);
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    const enum mosaic_status status = read_events(b, &parser);
    yaml_parser_delete(&parser);
    TRY(status);
    if (b->diags->errors > errors_before)
        return MOSAIC_BAD_INPUT;
    const struct node *root = b->tree->root;
    if (!root || (root->kind == NODE_SCALAR && !root->is_quoted && root->text[0] == '\0')) {
        const struct place start = {b->source, 1, 1, 1};
        (void)diag_error(b->diags, &start, "no document: the %s is empty",
                         b->source->is_override ? "value" : "file");
        return MOSAIC_BAD_INPUT;
    }
    return MOSAIC_OK;
}

enum mosaic_status yaml_tree_parse(void *memory, struct source *source, struct yaml_tree **out,
                                   struct diag_list *diags) {
    struct yaml_tree *tree = talloc_zero(memory, struct yaml_tree);
    if (!tree)
        return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
    tree->source = source;
    struct builder builder = {.tree = tree, .source = source, .diags = diags};
    const enum mosaic_status status = build(&builder);
    if (status != MOSAIC_OK) {
        talloc_free(tree);
        return status;
    }
    *out = tree;
    return MOSAIC_OK;
}

enum mosaic_status yaml_tree_load(void *memory, const char *path, const struct place *from,
                                  struct yaml_tree **out, struct diag_list *diags) {
    struct source *source = NULL;
    struct yaml_tree *tree = NULL;
    TRY(source_read(memory, path, SOURCE_MAX_BYTES, from, &source, diags));
    const enum mosaic_status status = yaml_tree_parse(memory, source, &tree, diags);
    if (status != MOSAIC_OK) {
        source_free(source);
        return status;
    }
    (void)talloc_reparent(memory, tree, source);
    *out = tree;
    return MOSAIC_OK;
}

void yaml_tree_free(struct yaml_tree *tree) {
    talloc_free(tree);
}
