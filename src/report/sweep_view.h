// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A sweep (mosaic.sweep/1): a row a point of a grid, its figures flat and in fixed columns, so that
 * a row survives the way through CSV and back.
 */
#ifndef MOSAIC_REPORT_SWEEP_VIEW_H
#define MOSAIC_REPORT_SWEEP_VIEW_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* A column of a row after `point`, `points` and the values of the keys. */
struct sweep_column {
    const char *name;
    const char *path; /* in a point of a result; NULL: not from there */
    bool is_text;
};
extern const struct sweep_column sweep_columns[];
extern const size_t sweep_column_count;

struct sweep_view {
    json_t *vary; /* [{key, values[]}], last fastest */
    json_t *rows; /* of sweep_row() with `point` and `values`, by point */
    json_t *inputs, *overrides;
    size_t points;
    size_t shard, shards; /* 1 of 1: the whole grid */
    unsigned long seed;
    bool is_interrupted;
};

/* The columns of a plan's best or of a prediction, with its status. */
json_t *sweep_row(json_t *result);
/* The columns of a point that gave no result. */
json_t *sweep_error_row(const char *message);
/* SHA-256 of what stands behind a point besides the values of its keys: files, --set, seed,
 * version. */
enum { SWEEP_HASH_MAX = 65 };
bool sweep_inputs(json_t *result, json_t *overrides, char hash[SWEEP_HASH_MAX]);
/* Adds the inputs of a result to a list, each file once; a file by itself. */
bool sweep_add_inputs(json_t *inputs, json_t *result);
bool sweep_add_file(json_t *inputs, const char *path);

json_t *build_sweep(const struct sweep_view *view);

/* The line of names; a row.  root: the result, or its `vary` and `points` alone. */
void emit_sweep_names(json_t *root, FILE *stream);
void emit_sweep_row(json_t *root, json_t *row, FILE *stream);
void emit_sweep_csv(json_t *root, FILE *stream);

#endif
