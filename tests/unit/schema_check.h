// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Checks a JSON value against a JSON schema (draft 7).  Known keywords: $ref (same file or a file
 * beside it), type, enum, const, required, properties, additionalProperties, items, minItems,
 * maxItems, minimum, maximum, exclusiveMinimum, minLength, maxLength, anyOf.  Any other keyword
 * that is no annotation is an error, so that a schema cannot ask for more than is checked.
 */
#ifndef MOSAIC_TESTS_SCHEMA_CHECK_H
#define MOSAIC_TESTS_SCHEMA_CHECK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { SCHEMA_MESSAGE_MAX = 512 };

/* False leaves the first violation, with its place, in `message`. */
bool schema_check_file(const char *schema_path, json_t *value, char message[SCHEMA_MESSAGE_MAX]);

#endif
