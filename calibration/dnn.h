// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * cuDNN at run time, where there is one: graphs of tensors and operations through its backend
 * interface, which has been the same from 8.9 to 9.  The library is sought when first asked for
 * and never linked to; a build without its headers has the same functions, which refuse.  All that
 * fails here is a refusal whose text says why, for the caller to fall back from.
 */
#ifndef MOSAIC_CALIBRATION_DNN_H
#define MOSAIC_CALIBRATION_DNN_H

#include "probe.h"

enum { DNN_TEXT = 32 };

/* "9.19.0", or "" where there is none. */
void dnn_version(char text[DNN_TEXT]);

#if __has_include(<cudnn.h>)
#define PROBE_CUDNN
#include <cudnn.h>
#include <stdint.h>

enum { DNN_AXES = 4, DNN_DESCRIPTORS = 192, DNN_OPERATIONS = 40, DNN_BOUND = 16 };

struct dnn_shape {
    int64_t sizes[DNN_AXES], strides[DNN_AXES];
};

/* Kept in registers and shared memory, in the device's memory, a number of the host's. */
enum dnn_place { DNN_WITHIN, DNN_ON_DEVICE, DNN_VALUE };

struct dnn_tensor {
    cudnnBackendDescriptor_t descriptor;
    struct dnn_shape shape;
};

struct dnn_graph {
    cudnnBackendDescriptor_t all[DNN_DESCRIPTORS], operations[DNN_OPERATIONS];
    int count, operation_count, bound;
    int64_t last_id, ids[DNN_BOUND];
    void *at[DNN_BOUND];
    cudnnBackendDescriptor_t plan, pack;
};

/* Versions are major x 10000 + minor x 100 + patch, from 9 on. */
bool dnn_is_from(size_t version);
/* From now on there is none, for this reason. */
void dnn_give_up(const char *why);
/* Refuses without a library, and an older one. */
void dnn_require(size_t version);

/* `at` is its memory, NULL within. */
struct dnn_tensor dnn_tensor_of(struct dnn_graph *graph, const struct dnn_shape *shape,
                                cudnnDataType_t type, enum dnn_place place, void *at);
/* y = x mode b, or select(t, x, b); b and t may be NULL.  `axis` is that of GEN_INDEX. */
struct dnn_step {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t compute;
    const struct dnn_tensor *x, *b, *t, *y;
    int64_t axis;
};
void dnn_pointwise(struct dnn_graph *graph, const struct dnn_step *step);
void dnn_multiply(struct dnn_graph *graph, const struct dnn_tensor *a, const struct dnn_tensor *b,
                  const struct dnn_tensor *c);
void dnn_reduce(struct dnn_graph *graph, cudnnReduceTensorOp_t mode, const struct dnn_tensor *x,
                const struct dnn_tensor *y);
/* The same values under other axes. */
void dnn_reshape(struct dnn_graph *graph, const struct dnn_tensor *x, const struct dnn_tensor *y);

/* The first of the library's own choices that it can make a plan of; workspace is taken memory. */
void dnn_plan(struct probe *probe, struct dnn_graph *graph);
/* On the probe's stream. */
void dnn_run(struct probe *probe, const struct dnn_graph *graph);
void dnn_free(struct dnn_graph *graph);
#endif

#endif
