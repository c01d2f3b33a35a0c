// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What the loaders of all documents share: reading files with their hashes, documents inside the
 * library, sections that name another file, overrides, and the record of every value's origin.
 */
#ifndef MOSAIC_DOC_LOAD_H
#define MOSAIC_DOC_LOAD_H

#include "doc/document.h"

enum { LOADER_MAX_BROKEN = 16 };

struct loader {
    struct document *document;
    const struct document_options *options;
    void *memory; /* the document's */
    struct diag_list *diags;
    struct document_input *inputs;
    struct document_value *values;
    size_t input_count, value_count;
    const struct node *broken[LOADER_MAX_BROKEN]; /* sections whose document could not be read */
    size_t broken_count;
    bool is_in_law;       /* what is read now belongs to the law */
    bool is_default_plan; /* what the plan's tree says came from no file of the user's */
};

/* The document's tree; the file goes to the inputs. */
MOSAIC_MUST_USE enum mosaic_status loader_read(struct loader *l, const char *path,
                                               const struct place *from, struct yaml_tree **tree);
MOSAIC_MUST_USE enum mosaic_status loader_read_text(struct loader *l, const char *name,
                                                    const char *text, size_t size,
                                                    struct yaml_tree **tree);
/* A document inside the library; MOSAIC_INTERNAL when there is none of that name. */
MOSAIC_MUST_USE enum mosaic_status loader_builtin(struct loader *l, const char *name,
                                                  struct yaml_tree **tree);
/* Count a file that was read elsewhere among the inputs. */
MOSAIC_MUST_USE enum mosaic_status loader_add_input(struct loader *l, const char *path,
                                                    const char *sha256);
/* A path as the file that holds the node sees it; NULL when memory is short. */
char *loader_path(struct loader *l, const struct node *node);
bool loader_is_builtin(const struct source *source);

/* Put the document whose path the scalar `node` holds in its place. */
MOSAIC_MUST_USE enum mosaic_status loader_include(struct loader *l, struct yaml_tree *tree,
                                                  struct node *node, enum document_kind kind);
/* The same with a document inside the library. */
MOSAIC_MUST_USE enum mosaic_status loader_include_builtin(struct loader *l, struct yaml_tree *tree,
                                                          struct node *node, const char *name);

/* A section whose failure has been reported: what depends on it is left out, the rest is checked.
 */
void loader_break(struct loader *l, const struct node *node);
bool loader_is_broken(const struct loader *l, const struct node *node);

/* Bind a mapping and record its values below `prefix` ("" at the root).  A root that says
 * `schema:` is bound as the whole document. */
MOSAIC_MUST_USE enum mosaic_status loader_bind(struct loader *l, const struct schema *schema,
                                               const struct node *node, const char *prefix,
                                               void *target);
/* Record one more value; text is copied. */
MOSAIC_MUST_USE enum mosaic_status loader_record(struct loader *l, const char *path,
                                                 const char *text, enum document_origin origin,
                                                 const char *help, const struct place *place);

/* Copy a text into a struct's array, or say at its node that it is too long. */
MOSAIC_MUST_USE enum mosaic_status loader_copy(struct loader *l, const struct node *mapping,
                                               const char *key, const char *text, char *buffer,
                                               size_t size);
/* Place of a member, or of the mapping itself. */
struct place loader_place(const struct node *mapping, const char *path);
/* Place of the first override among the members of a mapping, or of the mapping itself. */
struct place loader_override_place(const struct node *mapping);

#endif
