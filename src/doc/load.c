// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Reading: a file once for its tree and once for its SHA-256 (the tree's text lacks a byte-order
 * mark), sections grafted into the tree that names them, and one record a value.
 */
#include "doc/load.h"

#include "doc/builtin.h"
#include "doc/hf_config.h"
#include "text/json_tree.h"

#include <sha2.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <talloc.h>

static const char builtin_prefix[] = "built-in ";

static enum mosaic_status no_memory(struct loader *l) {
    return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
}

/* A pipe can be read once only. */
static bool is_regular(const char *path) {
    struct stat info;
    return strcmp(path, "-") != 0 && stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

enum mosaic_status loader_add_input(struct loader *l, const char *path, const char *sha256) {
    struct document_input *const grown =
        talloc_realloc(l->memory, l->inputs, struct document_input, (unsigned)l->input_count + 1);
    if (!grown)
        return no_memory(l);
    l->inputs = grown;
    struct document_input *const input = &grown[l->input_count];
    input->path = talloc_strdup(l->memory, path);
    if (!input->path)
        return no_memory(l);
    (void)snprintf(input->sha256, sizeof input->sha256, "%s", sha256);
    input->is_of_law = l->is_in_law;
    l->input_count++;
    return MOSAIC_OK;
}

static enum mosaic_status add_source(struct loader *l, const struct source *source,
                                     const char *path) {
    char sha256[DOCUMENT_HASH_MAX];
    if (!is_regular(path) || !SHA256File(path, sha256))
        (void)SHA256Data((const uint8_t *)source->text, source->size, sha256);
    return loader_add_input(l, path, sha256);
}

/* A document of ours may be written in JSON, which is YAML too; it has a key `schema`. */
static bool may_be_config(const struct source *source) {
    static const char json[] = ".json", schema[] = "schema", marks[] = " \t\r\n{\"";
    const size_t length = strlen(source->name), tail = sizeof json - 1;
    const bool is_json_file = length >= tail && strcmp(source->name + length - tail, json) == 0;
    const char *const first = source->text + strspn(source->text, marks);
    return (is_json_file || json_tree_looks_like(source)) &&
           strncmp(first, schema, sizeof schema - 1) != 0;
}

static enum mosaic_status parse(struct loader *l, struct source *source, struct yaml_tree **tree) {
    if (may_be_config(source)) {
        struct yaml_tree *json = NULL;
        TRY(json_tree_parse(l->memory, source, &json, l->diags));
        if (!node_find(json->root, "schema"))
            return hf_config_convert(l, json, tree);
    }
    return yaml_tree_parse(l->memory, source, tree, l->diags);
}

enum mosaic_status loader_read(struct loader *l, const char *path, const struct place *from,
                               struct yaml_tree **tree) {
    struct source *source = NULL;
    TRY(source_read(l->memory, path, SOURCE_MAX_BYTES, from, &source, l->diags));
    TRY(parse(l, source, tree));
    return add_source(l, source, path);
}

enum mosaic_status loader_read_text(struct loader *l, const char *name, const char *text,
                                    size_t size, struct yaml_tree **tree) {
    struct source *source = NULL;
    TRY(source_from_text(l->memory, name, text, size, &source, l->diags));
    return parse(l, source, tree);
}

enum mosaic_status loader_builtin(struct loader *l, const char *name, struct yaml_tree **tree) {
    const struct builtin_document *const found = builtin_find(name);
    if (!found)
        return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "the library holds no document '%s'",
                           name);
    char *const title = talloc_asprintf(l->memory, "%s%s", builtin_prefix, name);
    if (!title)
        return no_memory(l);
    return loader_read_text(l, title, found->text, found->size, tree);
}

bool loader_is_builtin(const struct source *source) {
    return source && strncmp(source->name, builtin_prefix, sizeof builtin_prefix - 1) == 0;
}

char *loader_path(struct loader *l, const struct node *node) {
    const struct source *const source = node->place.source;
    const bool is_plain = !source || source->is_override;
    return is_plain ? talloc_strdup(l->memory, node->text)
                    : source_resolve(l->memory, source, node->text);
}

enum mosaic_status loader_include(struct loader *l, struct yaml_tree *tree, struct node *node,
                                  enum document_kind kind) {
    const struct place from = node->place;
    char *const path = loader_path(l, node);
    if (!path)
        return no_memory(l);
    struct yaml_tree *other = NULL;
    TRY(loader_read(l, path, &from, &other));
    const char *const expected = document_schema_name(kind);
    size_t which = 0;
    TRY(schema_document(other->root, &expected, 1, &which, l->diags));
    yaml_tree_graft(tree, node, other);
    return MOSAIC_OK;
}

enum mosaic_status loader_include_builtin(struct loader *l, struct yaml_tree *tree,
                                          struct node *node, const char *name) {
    struct yaml_tree *other = NULL;
    TRY(loader_builtin(l, name, &other));
    yaml_tree_graft(tree, node, other);
    return MOSAIC_OK;
}

static enum document_origin origin_of(const struct loader *l, const struct bound_field *b) {
    switch (b->origin) {
    case ORIGIN_DEFAULT:
        return DOCUMENT_DEFAULT;
    case ORIGIN_OVERRIDE:
        return DOCUMENT_OVERRIDE;
    case ORIGIN_GIVEN:
        break;
    }
    if (b->place.source && b->place.source->is_derived)
        return DOCUMENT_DERIVED;
    if (!loader_is_builtin(b->place.source))
        return DOCUMENT_GIVEN;
    /* A bare cluster is planned with the library's plan, whose values are its defaults. */
    return l->is_default_plan && strstr(b->place.source->name, "cluster-plan") ? DOCUMENT_DEFAULT
                                                                               : DOCUMENT_BUILT_IN;
}

enum mosaic_status loader_record(struct loader *l, const char *path, const char *text,
                                 enum document_origin origin, const char *help,
                                 const struct place *place) {
    struct document_value *const grown =
        talloc_realloc(l->memory, l->values, struct document_value, (unsigned)l->value_count + 1);
    if (!grown)
        return no_memory(l);
    l->values = grown;
    const struct document_value value = {.path = talloc_strdup(l->memory, path),
                                         .text = talloc_strdup(l->memory, text ? text : ""),
                                         .help = help ? help : "",
                                         .origin = origin,
                                         .place = place ? *place : (struct place){0}};
    if (!value.path || !value.text)
        return no_memory(l);
    grown[l->value_count++] = value;
    return MOSAIC_OK;
}

enum mosaic_status loader_bind(struct loader *l, const struct schema *schema,
                               const struct node *node, const char *prefix, void *target) {
    struct schema table = *schema;
    if (!node_find(node, "schema"))
        table.document = NULL;
    struct bound_list bound = {.prefix = prefix};
    const enum mosaic_status status =
        schema_bind(l->memory, &table, node, target, &bound, l->diags);
    for (size_t i = 0; i < bound.count; ++i) {
        const struct bound_field *const b = &bound.items[i];
        if (b->field && b->field->kind == FIELD_FREE)
            continue; /* a section: its own binder records what is in it */
        TRY(loader_record(l, b->path, b->text, origin_of(l, b), b->field ? b->field->help : NULL,
                          &b->place));
    }
    return status;
}

struct place loader_place(const struct node *mapping, const char *path) {
    const struct node *const member = node_at(mapping, path);
    return member ? member->place : mapping->place;
}

struct place loader_override_place(const struct node *mapping) {
    for (size_t i = 0; i < mapping->count; ++i)
        if (mapping->items[i]->is_override)
            return mapping->items[i]->place;
    return mapping->place;
}

void loader_break(struct loader *l, const struct node *node) {
    if (l->broken_count < LOADER_MAX_BROKEN)
        l->broken[l->broken_count++] = node;
}

bool loader_is_broken(const struct loader *l, const struct node *node) {
    for (size_t i = 0; i < l->broken_count; ++i)
        if (l->broken[i] == node)
            return true;
    return false;
}

enum mosaic_status loader_copy(struct loader *l, const struct node *mapping, const char *key,
                               const char *text, char *buffer, size_t size) {
    const char *const from = text ? text : "";
    const size_t length = strlen(from);
    if (length >= size) {
        const struct place place = loader_place(mapping, key);
        return diag_error(l->diags, &place, "'%s' has %zu characters; at most %zu are kept", key,
                          length, size - 1);
    }
    memcpy(buffer, from, length + 1);
    return MOSAIC_OK;
}
