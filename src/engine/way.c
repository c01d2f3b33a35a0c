// SPDX-License-Identifier: GPL-3.0-or-later
/* One table: name, words or dimension, and where the value lies. */
#include "engine/way.h"

#include "base/units.h"
#include "machine/cluster.h"

#include <string.h>

static const struct {
    const char *name;
    const char *const *words;
    enum dimension dimension; /* of numbers */
    double most;              /* as the key of `execution` takes */
} axes[WAY_AXES] = {
    [WAY_SHARDING] = {"sharding", sharding_words, DIM_NUMBER, 0.0},
    [WAY_DISPATCHER] = {"dispatcher", dispatcher_words, DIM_NUMBER, 0.0},
    [WAY_CUDA_GRAPHS] = {"cuda_graphs", graphs_words, DIM_NUMBER, 0.0},
    [WAY_OFFLOAD_ACTIVATIONS] = {"offload_activations", NULL, DIM_FRACTION, 1.0},
    [WAY_OFFLOAD_OPTIMIZER] = {"offload_optimizer", NULL, DIM_FRACTION, 1.0},
    [WAY_EXPERT_BALANCE] = {"expert_balance", balance_words, DIM_NUMBER, 0.0},
    [WAY_DISPATCH_CHUNK] = {"dispatch_chunk", NULL, DIM_COUNT, 1 << 24},
    [WAY_VOCAB_RING] = {"vocab_ring", NULL, DIM_COUNT, CLUSTER_MAX_GPUS},
    [WAY_CHECKPOINT_OFFLOAD] = {"checkpoint_offload", NULL, DIM_BYTES, 1e15},
    [WAY_OPTIMIZER_BUCKET] = {"optimizer_bucket", NULL, DIM_COUNT, 1e12},
};

const char *way_axis_name(enum way_axis axis) {
    return (unsigned)axis < WAY_AXES ? axes[axis].name : "unknown";
}

const char *const *way_axis_words(enum way_axis axis) {
    return (unsigned)axis < WAY_AXES ? axes[axis].words : NULL;
}

double way_axis_get(const struct execution *e, enum way_axis axis) {
    const double values[WAY_AXES] = {[WAY_SHARDING] = (double)e->sharding,
                                     [WAY_DISPATCHER] = (double)e->dispatcher,
                                     [WAY_CUDA_GRAPHS] = (double)e->graphs,
                                     [WAY_OFFLOAD_ACTIVATIONS] = e->offload_activations,
                                     [WAY_OFFLOAD_OPTIMIZER] = e->offload_optimizer,
                                     [WAY_EXPERT_BALANCE] = (double)e->balance,
                                     [WAY_DISPATCH_CHUNK] = (double)e->dispatch_chunk,
                                     [WAY_VOCAB_RING] = (double)e->vocab_ring,
                                     [WAY_CHECKPOINT_OFFLOAD] = e->checkpoint_host_bytes,
                                     [WAY_OPTIMIZER_BUCKET] = e->bucket_params};
    return (unsigned)axis < WAY_AXES ? values[axis] : 0.0;
}

void way_axis_set(struct execution *e, enum way_axis axis, double value) {
    switch (axis) {
    case WAY_SHARDING:
        e->sharding = (enum sharding)(int)value;
        break;
    case WAY_DISPATCHER:
        e->dispatcher = (enum dispatcher)(int)value;
        break;
    case WAY_CUDA_GRAPHS:
        e->graphs = (enum graphs)(int)value;
        break;
    case WAY_OFFLOAD_ACTIVATIONS:
        e->offload_activations = value;
        break;
    case WAY_OFFLOAD_OPTIMIZER:
        e->offload_optimizer = value;
        break;
    case WAY_EXPERT_BALANCE:
        e->balance = (enum balance)(int)value;
        break;
    case WAY_DISPATCH_CHUNK:
        e->dispatch_chunk = (int)value;
        break;
    case WAY_VOCAB_RING:
        e->vocab_ring = value > 1.0 ? (int)value : 0; /* one rank is no ring */
        break;
    case WAY_CHECKPOINT_OFFLOAD:
        e->checkpoint_host_bytes = value;
        break;
    case WAY_OPTIMIZER_BUCKET:
        e->bucket_params = value;
        break;
    case WAY_AXES:
        break;
    }
}

const char *way_axis_text(enum way_axis axis, double value, char out[STATUS_QUOTE_MAX]) {
    out[0] = '\0';
    if ((unsigned)axis >= WAY_AXES)
        return out;
    if (axes[axis].words)
        return axes[axis].words[(int)value];
    units_format_exact(value, axes[axis].dimension, out, STATUS_QUOTE_MAX);
    return out;
}

bool way_axis_takes(enum way_axis axis, double value) {
    return (unsigned)axis < WAY_AXES && !axes[axis].words && value >= 0.0 &&
           value <= axes[axis].most;
}

bool way_axis_read(enum way_axis axis, const char *text, double *value) {
    if ((unsigned)axis >= WAY_AXES)
        return false;
    const char *const *const words = axes[axis].words;
    for (int i = 0; words && words[i]; ++i)
        if (strcmp(words[i], text) == 0) {
            *value = (double)i;
            return true;
        }
    double number = 0.0;
    if (!words && strcmp(text, "0") == 0) { /* none, whatever the unit */
        *value = 0.0;
        return true;
    }
    if (words || units_parse(text, axes[axis].dimension, &number, NULL) != MOSAIC_OK)
        return false;
    if (!way_axis_takes(axis, number))
        return false;
    *value = number;
    return true;
}

bool way_axis_needs_host(enum way_axis axis) {
    return axis == WAY_OFFLOAD_ACTIVATIONS || axis == WAY_OFFLOAD_OPTIMIZER ||
           axis == WAY_CHECKPOINT_OFFLOAD || axis == WAY_OPTIMIZER_BUCKET;
}
