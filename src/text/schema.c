// SPDX-License-Identifier: GPL-3.0-or-later
/* Tables described in words, walked and checked; the first key of a document. */
#include "text/schema.h"

#include "base/suggest.h"
#include "text/binder.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <talloc.h>

enum { WALK_PATH_MAX = 512, WALK_MAX_DEPTH = 16 };

/* Append to a fixed buffer; what does not fit is cut. */
static void __attribute__((format(printf, 3, 4)))
add(char *buffer, size_t size, const char *format, ...) {
    const size_t used = strlen(buffer);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(buffer + used, size - used, format, args);
    va_end(args);
}

static void add_words(const struct field *field, char *buffer, size_t size) {
    add(buffer, size, "one of ");
    for (size_t i = 0; field->words && field->words[i]; i++)
        add(buffer, size, "%s%s", i > 0 ? ", " : "", field->words[i]);
}

static void add_kind(const struct field *field, enum field_kind kind, char *buffer, size_t size) {
    switch (kind) {
    case FIELD_STRING:
        add(buffer, size, "text");
        break;
    case FIELD_BOOL:
        add(buffer, size, "true or false");
        break;
    case FIELD_INT:
        add(buffer, size, "whole number");
        break;
    case FIELD_NUMBER:
    case FIELD_QUANTITY:
        if (field->dimension == DIM_NUMBER)
            add(buffer, size, "number");
        else
            add(buffer, size, "%s, e.g. %s", units_name(field->dimension),
                units_example(field->dimension));
        break;
    case FIELD_ENUM:
        add_words(field, buffer, size);
        break;
    case FIELD_RANGE:
        add(buffer, size, "[low, high] or one value; ");
        add_kind(field, FIELD_QUANTITY, buffer, size);
        break;
    case FIELD_LIST:
        add(buffer, size, "list");
        break;
    case FIELD_MAPPING:
        add(buffer, size, "mapping");
        break;
    case FIELD_CUSTOM:
        add(buffer, size, "%s", field->forms ? field->forms : "one of several forms");
        break;
    case FIELD_FREE:
        add(buffer, size, "anything");
        break;
    }
}

void field_type_text(const struct field *field, char *buffer, size_t size) {
    buffer[0] = '\0';
    if (field->kind == FIELD_LIST) {
        add(buffer, size, "list: ");
        add_kind(field, field->item, buffer, size);
        if (field->item == FIELD_INT)
            add(buffer, size, ", or {from, to, step | factor}");
    } else {
        add_kind(field, field->kind, buffer, size);
    }
    if (field->flags & FIELD_NONE_OK)
        add(buffer, size, ", or none");
}

/* A bound as a person writes it. */
static void bound_text(const struct field *field, double value, char *buffer, size_t size) {
    units_format_exact(value, field->dimension, buffer, size);
}

static bool has_range(const struct field *field) {
    const enum field_kind kind = field->kind == FIELD_LIST ? field->item : field->kind;
    return kind == FIELD_INT || kind == FIELD_NUMBER || kind == FIELD_QUANTITY ||
           kind == FIELD_RANGE;
}

void field_range_text(const struct field *field, char *buffer, size_t size) {
    bool is_open_min;
    const struct number_range range = field_bounds(field, &is_open_min);
    const bool has_low = isfinite(range.low), has_high = isfinite(range.high);
    char low[UNITS_TEXT_MAX], high[UNITS_TEXT_MAX];
    buffer[0] = '\0';
    if (!has_range(field) || (!has_low && !has_high))
        return;
    bound_text(field, range.low, low, sizeof low);
    bound_text(field, range.high, high, sizeof high);
    if (has_low && has_high && is_open_min)
        add(buffer, size, "above %s and at most %s", low, high);
    else if (has_low && has_high)
        add(buffer, size, "%s to %s", low, high);
    else if (has_low)
        add(buffer, size, "%s %s", is_open_min ? "above" : "at least", low);
    else
        add(buffer, size, "at most %s", high);
}

/* Walking. */

struct walk {
    schema_visit *visit;
    void *context;
    char path[WALK_PATH_MAX];
    int depth;
};

static void walk(struct walk *w, const struct schema *schema) {
    if (w->depth == WALK_MAX_DEPTH)
        return;
    w->depth++;
    for (size_t i = 0; i < schema->count; i++) {
        const struct field *field = &schema->fields[i];
        const size_t length = strlen(w->path);
        const bool is_list = field->kind == FIELD_LIST && field->item == FIELD_MAPPING;
        add(w->path, sizeof w->path, "%s%s", length > 0 ? "." : "", field->key);
        w->visit(w->context, w->path, field);
        if (field->nested && (is_list || field->kind == FIELD_MAPPING)) {
            add(w->path, sizeof w->path, "%s", is_list ? "[]" : "");
            walk(w, field->nested);
        }
        w->path[length] = '\0';
    }
    w->depth--;
}

void schema_walk(const struct schema *schema, schema_visit *visit, void *context) {
    struct walk w = {.visit = visit, .context = context};
    walk(&w, schema);
}

/* Checking a table. */

static enum mosaic_status check_field(const struct schema *schema, size_t index,
                                      struct status_error *err) {
    const struct field *field = &schema->fields[index];
    const enum field_kind kind = field->kind == FIELD_LIST ? field->item : field->kind;
    const char *fault = NULL;
    for (size_t i = 0; i < index; i++) {
        if (strcmp(schema->fields[i].key, field->key) == 0)
            fault = "is in the table twice";
    }
    if (!field->help)
        fault = "has no help";
    else if (kind == FIELD_ENUM && !field->words)
        fault = "has no words";
    else if (kind == FIELD_MAPPING && !field->nested)
        fault = "has no table of its own";
    else if (kind == FIELD_CUSTOM && (!field->parse || !field->forms))
        fault = "has no parse function or no forms";
    else if (field->kind == FIELD_LIST &&
             (kind == FIELD_BOOL || kind == FIELD_RANGE || kind == FIELD_LIST ||
              kind == FIELD_CUSTOM || kind == FIELD_FREE))
        fault = "is a list of what lists do not hold";
    else if (field->offset >= schema->size || field->presence > schema->size)
        fault = "lies outside its struct";
    else if ((field->flags & FIELD_REQUIRED) && field->fallback)
        fault = "is required and has a default";
    if (fault)
        return status_set(err, MOSAIC_INTERNAL, "%s.%s %s", schema->name, field->key, fault);
    return MOSAIC_OK;
}

/* Bind the table's defaults alone, each field by itself. */
static enum mosaic_status check_defaults(const struct schema *schema, struct status_error *err) {
    void *memory = talloc_new(NULL);
    struct diag_list *diags = talloc_zero(memory, struct diag_list);
    char *target = talloc_zero_size(memory, schema->size);
    struct node empty = {.kind = NODE_MAPPING};
    enum mosaic_status status = MOSAIC_OK;
    for (size_t i = 0; diags && target && i < schema->count; i++) {
        struct schema one = *schema;
        one.fields = &schema->fields[i];
        one.count = 1;
        one.check = NULL;
        if (schema->fields[i].fallback &&
            schema_bind(memory, &one, &empty, target, NULL, diags) != MOSAIC_OK) {
            (void)diag_to_error(diags, err);
            status_wrap(err, "default of %s.%s", schema->name, schema->fields[i].key);
            status = MOSAIC_INTERNAL;
            break;
        }
    }
    if (!diags || !target)
        status = status_no_memory(err);
    talloc_free(memory);
    return status;
}

static enum mosaic_status check_table(const struct schema *schema, int depth,
                                      struct status_error *err) {
    if (depth == WALK_MAX_DEPTH)
        return status_set(err, MOSAIC_INTERNAL, "%s: tables nest too deep", schema->name);
    for (size_t i = 0; i < schema->count; i++) {
        TRY(check_field(schema, i, err));
        if (schema->fields[i].nested)
            TRY(check_table(schema->fields[i].nested, depth + 1, err));
    }
    return check_defaults(schema, err);
}

enum mosaic_status schema_self_check(const struct schema *schema, struct status_error *err) {
    return check_table(schema, 0, err);
}

/* The key `schema`. */

/* "mosaic-plan" of "mosaic-plan/1". */
static size_t name_length(const char *document) {
    return strcspn(document, "/");
}

static enum mosaic_status refuse_document(const struct node *node, const char *const *documents,
                                          size_t count, struct diag_list *diags) {
    char shown[STATUS_QUOTE_MAX];
    (void)status_quote(node->text, shown, sizeof shown);
    for (size_t i = 0; i < count; i++) {
        const size_t length = name_length(documents[i]);
        if (name_length(node->text) == length && strncmp(node->text, documents[i], length) == 0) {
            (void)diag_error(diags, &node->place, "schema '%s' is of another version", shown);
            diag_hint(diags, "this version reads '%s'", documents[i]);
            return MOSAIC_BAD_INPUT;
        }
    }
    (void)diag_error(diags, &node->place, "unknown schema '%s'", shown);
    const char *near = suggest(node->text, documents, count);
    diag_hint(diags, near ? "did you mean '%s'?" : "write '%s'", near ? near : documents[0]);
    return MOSAIC_BAD_INPUT;
}

enum mosaic_status schema_document(const struct node *root, const char *const *documents,
                                   size_t count, size_t *which, struct diag_list *diags) {
    if (root->kind != NODE_MAPPING) {
        (void)diag_error(diags, &root->place, "a document is a mapping, not %s",
                         node_kind_text(root));
        diag_hint(diags, "start with 'schema: %s'", documents[0]);
        return MOSAIC_BAD_INPUT;
    }
    const struct node *node = node_find(root, "schema");
    if (!node) {
        (void)diag_error(diags, &root->place, "missing key 'schema'");
        diag_hint(diags, "start with 'schema: %s'", documents[0]);
        return MOSAIC_BAD_INPUT;
    }
    if (node->kind != NODE_SCALAR)
        return diag_error(diags, &node->place, "'schema' must be a text, not %s",
                          node_kind_text(node));
    for (size_t i = 0; i < count; i++) {
        if (strcmp(node->text, documents[i]) == 0) {
            *which = i;
            return MOSAIC_OK;
        }
    }
    return refuse_document(node, documents, count, diags);
}
