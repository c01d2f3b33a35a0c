// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The grid of a sweep from its --vary KEY=VALUE,VALUE...: commas split outside brackets, braces and
 * quotes; LOW..HIGH*FACTOR and LOW..HIGH+STEP stand for the numbers from LOW to HIGH, with a unit
 * behind any of them: 100..400*2 Gb/s.  The product of all keys, the last one fastest.
 */
#ifndef MOSAIC_CLI_SWEEP_GRID_H
#define MOSAIC_CLI_SWEEP_GRID_H

#include "base/status.h"

#include <jansson.h>
#include <stddef.h>

enum { SWEEP_KEYS_MAX = 8, SWEEP_VALUES_MAX = 10000, SWEEP_POINTS_MAX = 1000000 };

/* Adds {key, values[]} to the list; MOSAIC_USAGE for what cannot be read. */
MOSAIC_MUST_USE enum mosaic_status sweep_grid_add(json_t *vary, const char *pair,
                                                  struct status_error *err);
/* Points of the grid; 0 where there are more than SWEEP_POINTS_MAX. */
size_t sweep_grid_points(const json_t *vary);
/* The value of each key at a point, from 1: a new list of texts, NULL when memory is short. */
json_t *sweep_grid_values(const json_t *vary, size_t point);
/* The point that has these values; 0 where none has. */
size_t sweep_grid_find(const json_t *vary, const json_t *values);

#endif
