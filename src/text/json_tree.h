// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * JSON text (RFC 8259) as the tree of text/yaml_tree.h, so that whatever reads documents has places
 * for it too.  jansson judges the text; a walk over its tokens beside jansson's tree, which keeps
 * the order of keys, finds where each value stands.  Doubled keys, NaN, nesting over 64 levels and
 * more than YAML_MAX_NODES values are refused.
 *
 * Strings and keys are scalars with is_quoted, numbers keep their spelling, null is an empty
 * scalar.
 */
#ifndef MOSAIC_TEXT_JSON_TREE_H
#define MOSAIC_TEXT_JSON_TREE_H

#include "text/yaml_tree.h"

/* Does the text start like a JSON object?  YAML in flow style with quoted keys does too. */
bool json_tree_looks_like(const struct source *source);

/* Parse a text in memory; the tree refers to the source, which must outlive it. */
MOSAIC_MUST_USE enum mosaic_status json_tree_parse(void *memory, struct source *source,
                                                   struct yaml_tree **tree,
                                                   struct diag_list *diags);

#endif
