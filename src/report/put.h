// SPDX-License-Identifier: GPL-3.0-or-later
/* Members of a JSON object, false where memory is short: for builders that check every one. */
#ifndef MOSAIC_REPORT_PUT_H
#define MOSAIC_REPORT_PUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

static inline bool put(json_t *object, const char *key, json_t *value) {
    return json_object_set_new(object, key, value) == 0;
}

static inline bool put_real(json_t *object, const char *key, double value) {
    return put(object, key, json_real(value));
}

static inline bool put_count(json_t *object, const char *key, size_t value) {
    return put(object, key, json_integer((json_int_t)value));
}

/* NULL, freed, when it could not be filled. */
static inline json_t *whole_or_null(json_t *value, bool ok) {
    if (value && ok)
        return value;
    json_decref(value);
    return NULL;
}

#endif
