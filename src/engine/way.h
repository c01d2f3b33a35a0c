// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The parts of an execution that a search may choose, by name: plans, results and texts such as
 * "dispatcher=deepep" speak of them as of the axes of a layout.  A value is a number; of a word it
 * is its place among the words.
 */
#ifndef MOSAIC_ENGINE_WAY_H
#define MOSAIC_ENGINE_WAY_H

#include "base/status.h"
#include "engine/execution.h"

enum way_axis {
    WAY_SHARDING,
    WAY_DISPATCHER,
    WAY_CUDA_GRAPHS,
    WAY_OFFLOAD_ACTIVATIONS,
    WAY_OFFLOAD_OPTIMIZER,
    WAY_EXPERT_BALANCE,
    WAY_DISPATCH_CHUNK,
    WAY_VOCAB_RING,
    WAY_CHECKPOINT_OFFLOAD,
    WAY_OPTIMIZER_BUCKET,
    WAY_AXES
};

/* As the key of `execution` and of search.execution. */
const char *way_axis_name(enum way_axis axis);
double way_axis_get(const struct execution *e, enum way_axis axis);
void way_axis_set(struct execution *e, enum way_axis axis, double value);
/* The value as text: a word, a share, a count, or bytes; reads back as the same. */
const char *way_axis_text(enum way_axis axis, double value, char out[STATUS_QUOTE_MAX]);
/* The values of a word's axis, NULL for numbers. */
const char *const *way_axis_words(enum way_axis axis);
/* Reads what way_axis_text writes, and plain numbers; false for anything else. */
bool way_axis_read(enum way_axis axis, const char *text, double *value);

/* Whether a number is one of a number's axis, within what `execution` takes. */
bool way_axis_takes(enum way_axis axis, double value);

/* Whether a value above 0 copies to the host and back, for which a cluster states its link. */
bool way_axis_needs_host(enum way_axis axis);

#endif
