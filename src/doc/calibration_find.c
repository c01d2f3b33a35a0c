// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A name of the library comes before a file of that name.  Devices are the same when the one name
 * is the other or begins with it and a blank: "H100" and "H100 SXM", not "H100-96G".
 */
#include "doc/calibration_find.h"

#include "base/suggest.h"
#include "doc/builtin.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <talloc.h>

static const char folder[] = "calibrations/";
static const char generic_name[] = "generic", any_device[] = "any";

/* Name of a document of the library below a folder, for suggestions. */
static const char *builtin_at(const void *context, size_t i) {
    const char *const below = context;
    const char *const name = builtin_documents[i].name;
    const size_t length = strlen(below);
    return strncmp(name, below, length) == 0 ? name + length : NULL;
}

const char *library_near(const char *below, const char *name) {
    return suggest_from(name, builtin_at, below, builtin_document_count);
}

enum mosaic_status library_refuse_missing(struct loader *l, const struct place *place,
                                          const char *below, const char *name, const char *path) {
    struct stat info;
    char shown[STATUS_QUOTE_MAX];
    const bool is_name = !strchr(name, '/') && strcmp(name, "-") != 0 && name[0] != '\0';
    if (!is_name || stat(path, &info) == 0)
        return MOSAIC_OK;                    /* reading it says what is wrong */
    const int kind = (int)strlen(below) - 2; /* "calibrations/" */
    (void)diag_status(l->diags, MOSAIC_IO, place,
                      "there is no file '%s', and no %.*s of that name in the library",
                      status_quote(name, shown, sizeof shown), kind, below);
    const char *const near = library_near(below, name);
    if (near)
        diag_hint(l->diags, "did you mean '%s'?", near);
    else
        diag_hint(l->diags, "a file is looked for from the document that names it");
    return MOSAIC_IO;
}

enum mosaic_status calibration_find(struct loader *l, const struct node *node, const char *name,
                                    struct yaml_tree **tree) {
    const struct place *const from = node ? &node->place : NULL;
    const char *const expected = document_schema_name(DOCUMENT_CALIBRATION);
    char *const inside = talloc_asprintf(l->memory, "%s%s", folder, name);
    char *const path = node ? loader_path(l, node) : talloc_strdup(l->memory, name);
    size_t which = 0;
    if (!inside || !path)
        return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    if (builtin_find(inside))
        return loader_builtin(l, inside, tree);
    TRY(library_refuse_missing(l, from, folder, name, path));
    TRY(loader_read(l, path, from, tree));
    return schema_document((*tree)->root, &expected, 1, &which, l->diags);
}

/* ---- over ---- */

enum mosaic_status calibration_lower(struct loader *l, const struct node *document,
                                     const struct node **lower) {
    static const char key[] = "over", steps[] = "measured_steps";
    const struct node *const over = node_find(document, key);
    struct yaml_tree *tree = NULL;
    char shown[STATUS_QUOTE_MAX];
    *lower = NULL;
    if (!over || over->kind != NODE_SCALAR || strcmp(over->text, generic_name) == 0)
        return MOSAIC_OK; /* another kind is the binder's to refuse */
    TRY(calibration_find(l, over, over->text, &tree));
    if (!tree)
        return diag_status(l->diags, MOSAIC_INTERNAL, &over->place, "a document without a tree");
    const struct node *const second = node_find(tree->root, key);
    if (second) {
        (void)diag_error(l->diags, &over->place,
                         "'%s' is itself laid over '%s': one level is all there is",
                         status_quote(over->text, shown, sizeof shown),
                         second->kind == NODE_SCALAR ? second->text : "");
        diag_hint(l->diags, "name that one, and take over the entries of '%s'", shown);
        return MOSAIC_BAD_INPUT;
    }
    const struct node *const dropped = node_find(tree->root, steps);
    if (dropped && dropped->count > 0)
        diag_warning(l->diags, &dropped->place,
                     "these steps are not taken: only those of the document on top are");
    *lower = tree->root;
    return MOSAIC_OK;
}

/* ---- devices ---- */

/* b is a, or begins with it and a blank. */
static bool begins(const char *a, const char *b) {
    const size_t length = strlen(a);
    return length > 0 && strncasecmp(a, b, length) == 0 &&
           (b[length] == '\0' || isspace((unsigned char)b[length]));
}

void calibration_warn_device(struct loader *l, const struct node *node,
                             const struct calibration *calibration, const struct cluster *cluster) {
    const char *const made_on = calibration->device, *const device = cluster->device.name;
    if (!node || strcasecmp(made_on, any_device) == 0 || begins(made_on, device) ||
        begins(device, made_on))
        return;
    const struct place place = loader_place(node, "device");
    diag_warning(l->diags, &place,
                 "calibration %s was made on %s, the cluster's device is %s: its constants are "
                 "those of another machine",
                 calibration->name, made_on, device);
}
