// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A section is a mapping, the path of a file, or names a document of the library:
 *   law: {published: NAME}      engine: {name: NAME, version: VERSION}      calibration: NAME
 * A law {runs: FILE, ...} is no document: it stays as it is.
 * Overrides apply in their order.  One that reaches below a section has its document put in place
 * first, so that `cluster.device.memory` means the same whichever way the cluster is given.
 */
#include "doc/include.h"

#include "doc/builtin.h"
#include "doc/calibration_find.h"

#include <stdlib.h>
#include <string.h>
#include <talloc.h>

enum { NAME_MAX_LENGTH = 160 };

static const char default_law[] = "{published: mosaic-2608.10605}";
static const char default_engine[] = "{name: megatron, version: \"2026.08\"}";
static const char default_name[] = "default";

static bool is_empty(const struct node *node) {
    return node->kind == NODE_SCALAR && !node->is_quoted && node->text[0] == '\0';
}

static enum mosaic_status include_file(struct loader *l, struct yaml_tree *tree, struct node *node,
                                       enum document_kind kind) {
    if (is_empty(node)) {
        (void)diag_error(l->diags, &node->key_place, "'%s' is empty", node->key);
        diag_hint(l->diags, "give a file or a mapping");
        return MOSAIC_BAD_INPUT;
    }
    const bool is_engine = kind == DOCUMENT_ENGINE;
    if (is_engine || kind == DOCUMENT_CALIBRATION) {
        const char *const path = loader_path(l, node);
        if (!path)
            return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
        const enum mosaic_status status = library_refuse_missing(
            l, &node->place, is_engine ? "engines/" : "calibrations/", node->text, path);
        if (status != MOSAIC_OK && is_engine)
            diag_hint(l->diags, "those of the library are given as %s", default_engine);
        TRY(status);
    }
    return loader_include(l, tree, node, kind);
}

static enum mosaic_status include_named(struct loader *l, struct yaml_tree *tree, struct node *node,
                                        const struct place *place, const char *folder,
                                        const char *name) {
    char path[NAME_MAX_LENGTH], shown[STATUS_QUOTE_MAX];
    (void)snprintf(path, sizeof path, "%s%s", folder, name);
    if (builtin_find(path))
        return loader_include_builtin(l, tree, node, path);
    (void)diag_error(l->diags, place, "the library holds no %.*s '%s'", (int)strlen(folder) - 2,
                     folder, status_quote(name, shown, sizeof shown));
    const char *const near = library_near(folder, name);
    if (near)
        diag_hint(l->diags, "did you mean '%s'?", near);
    else
        diag_hint(l->diags, "documents of your own are given as a file");
    return MOSAIC_BAD_INPUT;
}

static enum mosaic_status include_law(struct loader *l, struct yaml_tree *tree, struct node *node) {
    const struct node *const runs = node_find(node, "runs");
    const struct node *const name = node_find(node, "published");
    if (runs && name)
        return diag_error(l->diags, &runs->key_place,
                          "a law is either fitted to 'runs' or 'published'");
    if (!name)
        return MOSAIC_OK; /* runs are fitted when the law is bound */
    if (name->kind != NODE_SCALAR || node->count != 1)
        return diag_error(l->diags, &node->place, "a published law is {published: NAME}");
    const struct place place = name->place;
    const bool is_default =
        place.source && (place.source->is_override ? strcmp(place.source->name, default_name) == 0
                                                   : loader_is_builtin(place.source));
    TRY(loader_record(l, "law.published", name->text,
                      is_default          ? DOCUMENT_DEFAULT
                      : node->is_override ? DOCUMENT_OVERRIDE
                                          : DOCUMENT_GIVEN,
                      "name of the law in the library", &place));
    return include_named(l, tree, node, &place, "laws/", name->text);
}

static enum mosaic_status include_engine(struct loader *l, struct yaml_tree *tree,
                                         struct node *node) {
    const struct node *const name = node_find(node, "name"), *const version =
                                                                 node_find(node, "version");
    const size_t known = (name ? 1u : 0u) + (version ? 1u : 0u);
    if (node->count > known)
        return MOSAIC_OK; /* rules of its own */
    if (!name || !version || name->kind != NODE_SCALAR || version->kind != NODE_SCALAR) {
        (void)diag_error(l->diags, &node->place, "an engine needs 'name' and 'version'");
        diag_hint(l->diags, "e.g. engine: %s", default_engine);
        return MOSAIC_BAD_INPUT;
    }
    char title[NAME_MAX_LENGTH];
    (void)snprintf(title, sizeof title, "%s-%s", name->text, version->text);
    const struct place place = name->place;
    return include_named(l, tree, node, &place, "engines/", title);
}

/* A calibration by its name in the library, "generic" for the one below all others, or a file.  No
 * file lies beside a document of the library: its last part without ".yaml" is the name there. */
static enum mosaic_status include_measured(struct loader *l, struct yaml_tree *tree,
                                           struct node *node) {
    static const char folder[] = "calibrations/", ending[] = ".yaml";
    if (strcmp(node->text, "generic") == 0)
        return MOSAIC_OK;
    const bool is_inside = !node->is_override && loader_is_builtin(node->place.source);
    const char *const slash = is_inside ? strrchr(node->text, '/') : NULL;
    const char *const name = slash ? slash + 1 : node->text;
    size_t length = strlen(name);
    const size_t tail = sizeof ending - 1;
    if (is_inside && length > tail && strcmp(name + length - tail, ending) == 0)
        length -= tail;
    char title[NAME_MAX_LENGTH], path[NAME_MAX_LENGTH + sizeof folder];
    (void)snprintf(title, sizeof title, "%.*s", (int)length, name);
    (void)snprintf(path, sizeof path, "%s%s", folder, title);
    const struct place place = node->place;
    return is_inside || builtin_find(path) ? include_named(l, tree, node, &place, folder, title)
                                           : include_file(l, tree, node, DOCUMENT_CALIBRATION);
}

static enum mosaic_status include_node(struct loader *l, struct yaml_tree *tree, struct node *node,
                                       enum document_kind kind) {
    if (node->kind == NODE_SCALAR)
        return kind == DOCUMENT_CALIBRATION ? include_measured(l, tree, node)
                                            : include_file(l, tree, node, kind);
    if (node->kind == NODE_MAPPING && kind == DOCUMENT_LAW)
        return include_law(l, tree, node);
    if (node->kind == NODE_MAPPING && kind == DOCUMENT_ENGINE)
        return include_engine(l, tree, node);
    return MOSAIC_OK;
}

/* Put the section at a path in place, if it is there and not yet. */
static enum mosaic_status include_at(struct loader *l, struct yaml_tree *tree, const char *path,
                                     enum document_kind kind) {
    struct node *const node = node_at(tree->root, path);
    if (!node || loader_is_broken(l, node))
        return MOSAIC_OK;
    l->is_in_law = kind == DOCUMENT_LAW;
    const enum mosaic_status status = include_node(l, tree, node, kind);
    l->is_in_law = false;
    if (status != MOSAIC_OK)
        loader_break(l, node);
    return status;
}

enum mosaic_status include_calibration(struct loader *l, struct yaml_tree *tree, const char *path) {
    return include_at(l, tree, path, DOCUMENT_CALIBRATION);
}

static const struct {
    const char *path;
    enum document_kind kind;
    const char *fallback; /* what an absent section stands for, or NULL */
} sections[] = {
    {"cluster", DOCUMENT_CLUSTER, NULL},
    {"cluster.calibration", DOCUMENT_CALIBRATION, NULL},
    {"law", DOCUMENT_LAW, default_law},
    {"engine", DOCUMENT_ENGINE, default_engine},
    {"calibration", DOCUMENT_CALIBRATION, NULL},
    {"model", DOCUMENT_MODEL, NULL},
};
enum { SECTIONS = sizeof sections / sizeof sections[0] };

static enum mosaic_status include_section(struct loader *l, struct yaml_tree *tree, size_t i) {
    if (sections[i].fallback && tree->root->kind == NODE_MAPPING &&
        !node_at(tree->root, sections[i].path))
        TRY(yaml_tree_set(tree, sections[i].path, sections[i].fallback, default_name, l->diags));
    return include_at(l, tree, sections[i].path, sections[i].kind);
}

static bool is_below(const char *key, const char *path) {
    const size_t length = strlen(path);
    return strncmp(key, path, length) == 0 && (key[length] == '.' || key[length] == '[');
}

/* These name a document of the library and do not reach into it. */
static bool is_name(const char *key) {
    return strcmp(key, "law.published") == 0 || strcmp(key, "law.runs") == 0 ||
           strcmp(key, "engine.name") == 0 || strcmp(key, "engine.version") == 0;
}

/* Models of a list: "search.geometry.list[3].model". */
static enum mosaic_status include_listed(struct loader *l, struct yaml_tree *tree,
                                         const char *key) {
    static const char head[] = "search.geometry.list[", tail[] = "].model";
    if (strncmp(key, head, sizeof head - 1) != 0)
        return MOSAIC_OK;
    const char *const end = strstr(key, tail);
    if (!end)
        return MOSAIC_OK;
    const char *const path = talloc_strndup(l->memory, key, (size_t)(end - key) + sizeof tail - 1);
    if (!path)
        return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    return is_below(key, path) ? include_at(l, tree, path, DOCUMENT_MODEL) : MOSAIC_OK;
}

static enum mosaic_status reach(struct loader *l, struct yaml_tree *tree, const char *key) {
    if (is_name(key))
        return MOSAIC_OK;
    for (size_t i = 0; i < SECTIONS; ++i)
        if (is_below(key, sections[i].path))
            TRY(include_section(l, tree, i));
    return include_listed(l, tree, key);
}

static enum mosaic_status include_rest(struct loader *l, struct yaml_tree *tree) {
    enum mosaic_status status = MOSAIC_OK;
    for (size_t i = 0; i < SECTIONS; ++i) {
        const enum mosaic_status one = include_section(l, tree, i);
        if (status == MOSAIC_OK)
            status = one;
    }
    const struct node *const list = node_at(tree->root, "search.geometry.list");
    for (size_t i = 0; list && list->kind == NODE_SEQUENCE && i < list->count; ++i) {
        struct node *const model =
            list->items[i]->kind == NODE_MAPPING ? node_find(list->items[i], "model") : NULL;
        if (model && model->kind == NODE_SCALAR) {
            const enum mosaic_status one = include_file(l, tree, model, DOCUMENT_MODEL);
            if (one != MOSAIC_OK)
                loader_break(l, model);
            if (status == MOSAIC_OK)
                status = one;
        }
    }
    return status;
}

static enum mosaic_status apply(struct loader *l, struct yaml_tree *tree,
                                bool (*is_mine)(const char *key), bool is_plan) {
    for (size_t i = 0; i < l->document->override_count; ++i) {
        const struct document_override *const o = &l->document->overrides[i];
        if (is_mine && !is_mine(o->key))
            continue;
        if (is_plan)
            TRY(reach(l, tree, o->key));
        TRY(yaml_tree_set(tree, o->key, o->value, NULL, l->diags));
    }
    return MOSAIC_OK;
}

enum mosaic_status include_overrides(struct loader *l, struct yaml_tree *tree,
                                     bool (*is_mine)(const char *key)) {
    return apply(l, tree, is_mine, false);
}

enum mosaic_status include_sections(struct loader *l, struct yaml_tree *plan,
                                    bool (*is_mine)(const char *key)) {
    TRY(apply(l, plan, is_mine, true));
    return include_rest(l, plan);
}
