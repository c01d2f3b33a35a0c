// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * JSON as tools print it: one object or several after each other, with lines of a launcher or of
 * the system between them.  jansson, for such a text is no document with places.
 */
#ifndef MOSAIC_DOC_IMPORT_JSON_H
#define MOSAIC_DOC_IMPORT_JSON_H

#include "doc/import_set.h"

#include <jansson.h>

/* The next object from *at on, which moves behind it; *object NULL at the end of the text.  An
 * object that the end of the file cuts is an error. */
MOSAIC_MUST_USE enum mosaic_status import_json_next(struct import_set *set,
                                                    const struct source *source, size_t *at,
                                                    json_t **object, long *line);
/* A number, or a text that holds one; NaN otherwise ("N/A", null, missing). */
double import_json_number(const json_t *value);

#endif
