// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * mosaic-probe-cuda: kernels measured on one device, a JSON sample a line.  A program of its own,
 * of one thread, that ends where anything fails; of the library it links only the executors
 * (src/exec) that --check compares with.  A probe is an entry of the table in main.cu with its
 * keys; values come in the order of the keys.
 */
#ifndef MOSAIC_CALIBRATION_PROBE_H
#define MOSAIC_CALIBRATION_PROBE_H

#include "mosaic.h"

#include <cublas_v2.h>
#include <cuda_runtime.h>

struct probe;

/* A whole number, or one of `words` (ends with NULL; the value is its place). */
struct probe_key {
    const char *name; /* without dashes */
    const char *help;
    long initial, check; /* defaults, the second with --check */
    long least, most;    /* not used with words */
    const char *const *words;
};

struct probe_kind {
    const char *group, *name, *help;
    const struct probe_key *keys;
    int key_count;
    void (*run)(struct probe *probe);   /* prints samples */
    void (*check)(struct probe *probe); /* prints comparisons with the executors */
};

enum { PROBE_KEYS = 12, PROBE_LANES = 3 };

struct probe {
    const struct probe_kind *kind;
    long values[PROBE_KEYS];
    int device, repeats;
    bool has_failed; /* a comparison did */

    /* From device_open. */
    cudaDeviceProp properties;
    int runtime, driver, blas_version;
    cublasHandle_t blas;
    cudaStream_t stream;            /* what is measured runs here, */
    cudaStream_t lane[PROBE_LANES]; /* or on these, side by side */
    cudaEvent_t begin, end, lane_end[PROBE_LANES];
    volatile int *release; /* lets the held stream go; host memory that the device sees */
};

extern const struct probe_kind strip_probe, copies_probe, pinned_probe, adamw_probe, grouped_probe;

/* Say so on stderr and exit. */
[[noreturn]] void probe_die(enum mosaic_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Anything that CUDA or cuBLAS refuses ends the program as an unavailable device. */
#define CUDA_CHECK(call)                                                                           \
    do {                                                                                           \
        const cudaError_t cuda_status = (call);                                                    \
        if (cuda_status != cudaSuccess)                                                            \
            probe_die(MOSAIC_DEVICE, "%s:%d: %s: %s", __FILE__, __LINE__, #call,                   \
                      cudaGetErrorString(cuda_status));                                            \
    } while (0)
#define BLAS_CHECK(call)                                                                           \
    do {                                                                                           \
        const cublasStatus_t blas_status = (call);                                                 \
        if (blas_status != CUBLAS_STATUS_SUCCESS)                                                  \
            probe_die(MOSAIC_DEVICE, "%s:%d: %s: %s", __FILE__, __LINE__, #call,                   \
                      cublasGetStatusString(blas_status));                                         \
    } while (0)
/* After a kernel's launch. */
#define LAUNCH_CHECK() CUDA_CHECK(cudaGetLastError())

#endif
