// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Reading a configuration's members and building the model document's.
 */
#include "doc/hf_import.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>

enum { TEXT_MAX = 320, NUMBER_TEXT_MAX = 16, UNMODELLED_MAX = 64 };

static void fail(struct hf_import *im, enum mosaic_status status) {
    if (im->status == MOSAIC_OK)
        im->status = status;
}

static void no_memory(struct hf_import *im) {
    fail(im, diag_status(im->l->diags, MOSAIC_INTERNAL, NULL, "out of memory"));
}

void hf_error(struct hf_import *im, const struct node *node, const char *format, ...) {
    char text[TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fail(im, diag_error(im->l->diags, &node->place, "%s", text));
}

static bool is_null(const struct node *node) {
    return node->kind == NODE_SCALAR && !node->is_quoted && node->text[0] == '\0';
}

const struct node *hf_find(struct hf_import *im, const char *key) {
    for (size_t i = 0; i < im->config->count; ++i) {
        const struct node *const member = im->config->items[i];
        if (strcmp(member->key, key) != 0)
            continue;
        im->is_used[i] = true;
        return is_null(member) ? NULL : member;
    }
    return NULL;
}

static const char *shown(const struct node *node, char *buffer, size_t size) {
    if (is_null(node))
        return "null";
    return node->kind == NODE_SCALAR ? status_quote(node->text, buffer, size)
                                     : node_kind_text(node);
}

bool hf_node_whole(struct hf_import *im, const struct node *node, const char *key, int *value) {
    char text[STATUS_QUOTE_MAX];
    const bool is_number = node->kind == NODE_SCALAR && !node->is_quoted && !is_null(node) &&
                           strchr("-0123456789", node->text[0]);
    if (!is_number) {
        hf_error(im, node, "'%s' must be a whole number, not %s%s", key,
                 node->is_quoted ? "the text " : "", shown(node, text, sizeof text));
        if (node->is_quoted)
            diag_hint(im->l->diags, "remove the quotes");
        return false;
    }
    char *end;
    errno = 0;
    const long number = strtol(node->text, &end, 10);
    if (*end != '\0')
        hf_error(im, node, "'%s' must be a whole number, not %s", key,
                 shown(node, text, sizeof text));
    else if (errno == ERANGE || number < 0 || number > INT_MAX)
        hf_error(im, node, "'%s' must be 0 to %d, not %s", key, INT_MAX,
                 shown(node, text, sizeof text));
    else
        *value = (int)number;
    return *end == '\0' && errno == 0 && number >= 0 && number <= INT_MAX;
}

bool hf_whole(struct hf_import *im, const char *key, int *value) {
    const struct node *const node = hf_find(im, key);
    return node && hf_node_whole(im, node, key, value);
}

int hf_positive(struct hf_import *im, const char *key, int fallback) {
    int value = 0;
    const struct node *const node = hf_find(im, key);
    if (!node || !hf_node_whole(im, node, key, &value))
        return fallback;
    if (value > 0)
        return value;
    hf_error(im, node, "'%s' must be 1 or more, not 0", key);
    return fallback;
}

bool hf_node_bool(struct hf_import *im, const struct node *node, bool *value) {
    char text[STATUS_QUOTE_MAX];
    const bool is_word = node->kind == NODE_SCALAR && !node->is_quoted;
    const bool is_true = is_word && strcmp(node->text, "true") == 0;
    if (is_true || (is_word && strcmp(node->text, "false") == 0)) {
        *value = is_true;
        return true;
    }
    hf_error(im, node, "'%s' must be true or false, not %s%s", node->key ? node->key : "",
             node->is_quoted ? "the text " : "", shown(node, text, sizeof text));
    return false;
}

/* A scalar at the end of a list or mapping of the model; key is NULL in a list. */
static void add(struct hf_import *im, struct node *parent, const char *key,
                const struct place *place, const char *text, bool is_quoted) {
    struct node *const node = talloc_zero(im->model, struct node);
    struct node **const items =
        talloc_realloc(im->model, parent->items, struct node *, (unsigned)parent->count + 1);
    if (items)
        parent->items = items;
    if (node) {
        node->kind = NODE_SCALAR;
        node->is_quoted = is_quoted;
        node->key = key ? talloc_strdup(im->model, key) : NULL;
        node->text = talloc_strdup(im->model, text);
        node->place = node->key_place = *place;
    }
    if (!items || !node || !node->text || (key && !node->key)) {
        no_memory(im);
        return;
    }
    parent->items[parent->count++] = node;
}

void hf_give_text(struct hf_import *im, const char *key, const struct node *from, const char *text,
                  bool is_quoted) {
    add(im, im->model->root, key, &from->place, text, is_quoted);
}

void hf_derive_text(struct hf_import *im, const char *key, const struct node *from,
                    const char *text, bool is_quoted) {
    struct place place = from->place;
    place.source = im->derived;
    add(im, im->model->root, key, &place, text, is_quoted);
}

void hf_give(struct hf_import *im, const char *key, const struct node *from, int value) {
    char text[NUMBER_TEXT_MAX];
    (void)snprintf(text, sizeof text, "%d", value);
    hf_give_text(im, key, from, text, false);
}

void hf_derive(struct hf_import *im, const char *key, const struct node *from, int value) {
    char text[NUMBER_TEXT_MAX];
    (void)snprintf(text, sizeof text, "%d", value);
    hf_derive_text(im, key, from, text, false);
}

void hf_unmodelled(struct hf_import *im, const struct node *node, const char *format, ...) {
    char text[TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!im->unmodelled) {
        struct node *const root = im->model->root;
        const size_t before = root->count;
        hf_derive_text(im, "unmodelled", im->config, "", false);
        if (root->count == before)
            return;
        im->unmodelled = root->items[before];
        im->unmodelled->kind = NODE_SEQUENCE;
        im->unmodelled->text = NULL;
    }
    if (im->unmodelled->count < UNMODELLED_MAX) /* fewer are shown */
        add(im, im->unmodelled, NULL, node->key ? &node->key_place : &node->place, text, true);
}
