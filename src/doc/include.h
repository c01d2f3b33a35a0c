// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Sections of a plan that other documents hold, and overrides that reach into them.
 */
#ifndef MOSAIC_DOC_INCLUDE_H
#define MOSAIC_DOC_INCLUDE_H

#include "doc/load.h"

/* Apply the document's overrides for which `is_mine` (NULL: all) holds to a plan's tree, reading a
 * section's document first where an override reaches into it; then put every other section in
 * place. */
MOSAIC_MUST_USE enum mosaic_status include_sections(struct loader *l, struct yaml_tree *plan,
                                                    bool (*is_mine)(const char *key));
/* Apply overrides to a tree that has no sections. */
MOSAIC_MUST_USE enum mosaic_status include_overrides(struct loader *l, struct yaml_tree *tree,
                                                     bool (*is_mine)(const char *key));
/* Put the calibration that a cluster document names in its place; path "calibration" at a root. */
MOSAIC_MUST_USE enum mosaic_status include_calibration(struct loader *l, struct yaml_tree *tree,
                                                       const char *path);

#endif
