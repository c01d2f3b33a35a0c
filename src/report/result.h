// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * One result: a tree of named values and the status of the call that made it.  The tree is the
 * single source of every output format; keys and types are in report/schema.
 */
#ifndef MOSAIC_REPORT_RESULT_H
#define MOSAIC_REPORT_RESULT_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>

struct mosaic_result {
    json_t *root;
    enum mosaic_status status;
    char *document; /* that the call made, at path "document": a law, a baseline; or NULL */
};

/* Takes over `root`, also on failure; NULL stands for a build that ran out of memory. */
MOSAIC_MUST_USE enum mosaic_status result_new(json_t *root, enum mosaic_status status,
                                              struct mosaic_result **out, struct status_error *err);

/* The value at a key path such as "best.geometry.layers" or "alternatives[0].loss"; an empty path
 * is the root itself.  NULL when there is none.  Borrowed. */
json_t *result_at(json_t *root, const char *path);
/* Shorthands for a reader that leaves out what is absent. */
bool result_real(json_t *root, const char *path, double *value);
const char *result_text(json_t *root, const char *path);

#endif
