// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * "Did you mean": the known word nearest to a mistyped one, by the optimal string alignment
 * distance (insert, delete, replace, swap of neighbours cost 1).  Letter case does not count, and a
 * word further off than a third of its length is no suggestion.
 */
#ifndef MOSAIC_BASE_SUGGEST_H
#define MOSAIC_BASE_SUGGEST_H

#include <stddef.h>

/* The word at an index, or NULL to leave it out. */
typedef const char *suggest_at(const void *context, size_t index);

/* Nearest word or NULL; the first of equals. */
const char *suggest(const char *word, const char *const *known, size_t count);
const char *suggest_from(const char *word, suggest_at *at, const void *context, size_t count);
/* Distance of two words; words over 64 bytes count as far apart. */
size_t suggest_distance(const char *a, const char *b);

#endif
