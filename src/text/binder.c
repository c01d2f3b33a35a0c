// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * From tree to struct: walks a table beside a mapping, binds what is given, falls back on what is
 * not, and keeps the origin of every value.  It goes on after an error, so that all are shown.
 */
#include "text/binder.h"

#include "base/suggest.h"

#include <stdarg.h>
#include <string.h>
#include <talloc.h>

enum { KEYS_LISTED = 12, HINT_TEXT_MAX = 320 };

size_t binder_push_key(struct binder *binder, const char *key) {
    const size_t length = strlen(binder->path);
    (void)snprintf(binder->path + length, sizeof binder->path - length, "%s%s",
                   length > 0 ? "." : "", key);
    return length;
}

size_t binder_push_index(struct binder *binder, size_t index) {
    const size_t length = strlen(binder->path);
    (void)snprintf(binder->path + length, sizeof binder->path - length, "[%zu]", index);
    return length;
}

void binder_pop(struct binder *binder, size_t length) {
    binder->path[length] = '\0';
}

void *binder_memory(struct binder *binder) {
    return binder->memory;
}

const char *binder_path(const struct binder *binder) {
    return binder->path;
}

enum mosaic_status binder_no_memory(struct binder *binder) {
    return diag_status(binder->diags, MOSAIC_INTERNAL, NULL, "out of memory");
}

enum mosaic_status binder_error(struct binder *binder, const struct node *node, const char *format,
                                ...) {
    char text[STATUS_TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const struct node *at = node ? node : binder->current;
    /* A default that does not bind is the table's fault. */
    const enum mosaic_status status = binder->is_default ? MOSAIC_INTERNAL : MOSAIC_BAD_INPUT;
    return diag_status(binder->diags, status, at ? &at->place : NULL, "%s", text);
}

void binder_hint(struct binder *binder, const char *format, ...) {
    char text[STATUS_TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    diag_hint(binder->diags, "%s", text);
}

/* Origins. */

static enum mosaic_status record(struct binder *binder, const struct field *field,
                                 const struct node *node) {
    struct bound_list *bound = binder->bound;
    if (!bound)
        return MOSAIC_OK;
    if (bound->count == bound->capacity) {
        const size_t capacity = bound->capacity == 0 ? 64 : 2 * bound->capacity;
        struct bound_field *more =
            talloc_realloc(binder->memory, bound->items, struct bound_field, (unsigned)capacity);
        if (!more)
            return binder_no_memory(binder);
        bound->items = more;
        bound->capacity = capacity;
    }
    struct bound_field *item = &bound->items[bound->count];
    memset(item, 0, sizeof *item);
    item->path = talloc_strdup(binder->memory, binder->path);
    item->text = node_text(binder->memory, node);
    item->field = field;
    item->origin = binder->is_default  ? ORIGIN_DEFAULT
                   : node->is_override ? ORIGIN_OVERRIDE
                                       : ORIGIN_GIVEN;
    if (!binder->is_default)
        item->place = node->place;
    if (!item->path || !item->text)
        return binder_no_memory(binder);
    bound->count++;
    return MOSAIC_OK;
}

static size_t recorded(const struct binder *binder) {
    return binder->bound ? binder->bound->count : 0;
}

/* Values. */

static bool is_none(const struct field *field, const struct node *node) {
    return (field->flags & FIELD_NONE_OK) && field->kind != FIELD_CUSTOM &&
           node->kind == NODE_SCALAR && !node->is_quoted && strcmp(node->text, "none") == 0;
}

/* `none`: numbers store what the table says; texts, lists and mappings stay as they were. */
static void store_none(const struct field *field, void *target) {
    switch (field->kind) {
    case FIELD_INT:
    case FIELD_ENUM:
        *(int *)target = (int)field->none;
        break;
    case FIELD_NUMBER:
    case FIELD_QUANTITY:
        *(double *)target = field->none;
        break;
    case FIELD_RANGE:
        *(struct number_range *)target = (struct number_range){field->none, field->none};
        break;
    case FIELD_STRING:
    case FIELD_BOOL:
    case FIELD_LIST:
    case FIELD_MAPPING:
    case FIELD_CUSTOM:
    case FIELD_FREE:
        break;
    }
}

static enum mosaic_status refuse_empty(struct binder *binder, const struct field *field,
                                       const struct node *node) {
    char type[HINT_TEXT_MAX];
    field_type_text(field, type, sizeof type);
    (void)binder_error(binder, node, "'%s' has no value", binder->path);
    binder_hint(binder, "expected: %s", type);
    return MOSAIC_BAD_INPUT;
}

enum mosaic_status binder_value(struct binder *binder, const struct field *field,
                                const struct node *node, void *target) {
    const bool is_empty = node->kind == NODE_SCALAR && !node->is_quoted && node->text[0] == '\0';
    if (is_empty && field->kind != FIELD_FREE && !(field->flags & FIELD_EMPTY_OK))
        return refuse_empty(binder, field, node);
    if (is_none(field, node)) {
        store_none(field, target);
        return MOSAIC_OK;
    }
    switch (field->kind) {
    case FIELD_STRING:
    case FIELD_BOOL:
    case FIELD_INT:
    case FIELD_NUMBER:
    case FIELD_QUANTITY:
    case FIELD_ENUM:
        return bind_scalar(binder, field, node, target);
    case FIELD_RANGE:
        return bind_range(binder, field, node, target);
    case FIELD_LIST:
        return bind_list(binder, field, node, target);
    case FIELD_MAPPING:
        return binder_mapping(binder, field->nested, node, target);
    case FIELD_CUSTOM:
        return field->parse(binder, field, node, target);
    case FIELD_FREE:
        *(const struct node **)target = node;
        return MOSAIC_OK;
    }
    return MOSAIC_INTERNAL;
}

/* Bind, and keep the origin unless what is below has kept its own. */
static enum mosaic_status bind_field(struct binder *binder, const struct field *field,
                                     const struct node *node, void *target) {
    char *const base = target;
    const size_t before = recorded(binder);
    TRY(binder_value(binder, field, node, base + field->offset));
    if (field->presence > 0)
        *(bool *)(void *)(base + field->presence - 1) = !is_none(field, node);
    if (recorded(binder) == before)
        return record(binder, field, node);
    return MOSAIC_OK;
}

/* Default text as a tree that lives as long as what is bound. */
static enum mosaic_status parse_default(struct binder *binder, const struct field *field,
                                        const struct node **out) {
    if (!strpbrk(field->fallback, "[]{}\"'#:")) {
        struct node *plain = talloc_zero(binder->memory, struct node);
        if (!plain)
            return binder_no_memory(binder);
        plain->kind = NODE_SCALAR;
        plain->text = field->fallback;
        *out = plain;
        return MOSAIC_OK;
    }
    struct source *source = NULL;
    struct yaml_tree *tree = NULL;
    TRY(source_from_override(binder->memory, "default", field->fallback, &source, binder->diags));
    TRY(yaml_tree_parse(binder->memory, source, &tree, binder->diags));
    *out = tree->root;
    return MOSAIC_OK;
}

static enum mosaic_status bind_default(struct binder *binder, const struct field *field,
                                       void *target) {
    const struct node *node = NULL;
    const bool was_default = binder->is_default;
    binder->is_default = true;
    enum mosaic_status status = parse_default(binder, field, &node);
    if (status == MOSAIC_OK)
        status = bind_field(binder, field, node, target);
    binder->is_default = was_default;
    return status;
}

/* Mappings. */

static const struct place *key_place(const struct node *node) {
    return node->key ? &node->key_place : &node->place;
}

static enum mosaic_status refuse_missing(struct binder *binder, const struct field *field,
                                         const struct node *node) {
    char type[HINT_TEXT_MAX];
    field_type_text(field, type, sizeof type);
    if (binder->path[0])
        (void)diag_error(binder->diags, key_place(node), "missing key '%s' in '%s'", field->key,
                         binder->path);
    else
        (void)diag_error(binder->diags, key_place(node), "missing key '%s'", field->key);
    /* A key of any shape says more by what it is for. */
    binder_hint(binder, "expected: %s",
                field->kind == FIELD_FREE && field->help ? field->help : type);
    return MOSAIC_BAD_INPUT;
}

static const char *field_key_at(const void *context, size_t index) {
    const struct schema *schema = context;
    return schema->fields[index].key;
}

static void hint_keys(struct binder *binder, const struct schema *schema, const char *key) {
    const char *near = suggest_from(key, field_key_at, schema, schema->count);
    if (near) {
        binder_hint(binder, "did you mean '%s'?", near);
        return;
    }
    char list[HINT_TEXT_MAX] = "";
    size_t used = 0;
    if (schema->count > KEYS_LISTED)
        return;
    for (size_t i = 0; i < schema->count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "",
                                 schema->fields[i].key);
    binder_hint(binder, "known keys: %s", list);
}

static bool is_known(const struct schema *schema, const char *key) {
    if (schema->document && strcmp(key, "schema") == 0)
        return true;
    for (size_t i = 0; i < schema->count; i++) {
        if (strcmp(schema->fields[i].key, key) == 0)
            return true;
    }
    return false;
}

static enum mosaic_status refuse_unknown(struct binder *binder, const struct schema *schema,
                                         const struct node *node) {
    enum mosaic_status status = MOSAIC_OK;
    for (size_t i = 0; i < node->count; i++) {
        const struct node *member = node->items[i];
        if (is_known(schema, member->key))
            continue;
        char shown[STATUS_QUOTE_MAX];
        (void)status_quote(member->key, shown, sizeof shown);
        if (binder->path[0])
            status = diag_error(binder->diags, &member->key_place, "unknown key '%s' in '%s'",
                                shown, binder->path);
        else
            status = diag_error(binder->diags, &member->key_place, "unknown key '%s'", shown);
        hint_keys(binder, schema, member->key);
    }
    return status;
}

static enum mosaic_status bind_member(struct binder *binder, const struct field *field,
                                      const struct node *node, void *target) {
    const struct node *member = node_find(node, field->key);
    if (!member && !field->fallback)
        return field->flags & FIELD_REQUIRED ? refuse_missing(binder, field, node) : MOSAIC_OK;
    const size_t length = binder_push_key(binder, field->key);
    const enum mosaic_status status =
        member ? bind_field(binder, field, member, target) : bind_default(binder, field, target);
    binder_pop(binder, length);
    return status;
}

enum mosaic_status binder_mapping(struct binder *binder, const struct schema *schema,
                                  const struct node *node, void *target) {
    if (node->kind != NODE_MAPPING)
        return binder_error(binder, node, "'%s' must be a mapping, not %s",
                            binder->path[0] ? binder->path : schema->name, node_kind_text(node));
    const struct node *outer = binder->current;
    binder->current = node;
    enum mosaic_status status = refuse_unknown(binder, schema, node);
    for (size_t i = 0; i < schema->count; i++) {
        const enum mosaic_status one = bind_member(binder, &schema->fields[i], node, target);
        if (status == MOSAIC_OK)
            status = one;
    }
    if (status == MOSAIC_OK && schema->check)
        status = schema->check(binder, node, target);
    binder->current = outer;
    return status;
}

enum mosaic_status schema_bind(void *memory, const struct schema *schema, const struct node *node,
                               void *target, struct bound_list *bound, struct diag_list *diags) {
    struct binder binder = {.memory = memory, .diags = diags, .bound = bound};
    if (bound && bound->prefix)
        (void)snprintf(binder.path, sizeof binder.path, "%s", bound->prefix);
    return binder_mapping(&binder, schema, node, target);
}
