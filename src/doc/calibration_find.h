// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Calibrations by name: a document of the library, or a file.  And what is asked of one that is in
 * use: is it laid over another, was it made on this device.
 */
#ifndef MOSAIC_DOC_CALIBRATION_FIND_H
#define MOSAIC_DOC_CALIBRATION_FIND_H

#include "doc/sections.h"

/* The name nearest to one below a folder of the library ("calibrations/"), or NULL. */
const char *library_near(const char *folder, const char *name);
/* A section that names a document is either its file or its name: where there is neither, an error
 * that says so, with the nearest name. */
MOSAIC_MUST_USE enum mosaic_status library_refuse_missing(struct loader *l,
                                                          const struct place *place,
                                                          const char *folder, const char *name,
                                                          const char *path);

/* The document of a name; `node` holds the name and is where a file is looked for from, or NULL. */
MOSAIC_MUST_USE enum mosaic_status calibration_find(struct loader *l, const struct node *node,
                                                    const char *name, struct yaml_tree **tree);

/* The document that `document` is laid over by its key `over`, or NULL; one that is itself laid
 * over another is refused. */
MOSAIC_MUST_USE enum mosaic_status calibration_lower(struct loader *l, const struct node *document,
                                                     const struct node **lower);

/* Warn of a calibration made on another device than the cluster's. */
void calibration_warn_device(struct loader *l, const struct node *node,
                             const struct calibration *calibration, const struct cluster *cluster);

#endif
