// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * mosaic-probe-cuda: a program of its own, of one thread, that measures one device.  Two ways in:
 *   serve     answers requests by the line (mosaic-probe/1, serve.cu); what it can measure is the
 *             table in quantity.cu, keys and words are those of src/machine/sample.h
 *   schedule  one of the memory schedules' inner loops with keys of its own, the table in main.cu
 * Of the library it links the samples and the executors (src/exec) that checks compare with.
 *
 * What cannot be done here is refused by an exception, the only ones of the program: it ends the
 * request under way, or the program where there is none.
 */
#ifndef MOSAIC_CALIBRATION_PROBE_H
#define MOSAIC_CALIBRATION_PROBE_H

#include "mosaic.h"

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>

struct probe;
struct group;

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

enum { PROBE_KEYS = 12, PROBE_LANES = 4, PROBE_TEXT = 480 };

struct probe {
    const struct probe_kind *kind;
    long values[PROBE_KEYS];
    int device, repeats;
    bool has_failed; /* a comparison did */
    /* Comparisons are counted, not printed. */
    bool is_quiet;
    int compared;
    double worst;                /* largest difference over its tolerance */
    char difference[PROBE_TEXT]; /* of the first that failed */

    /* From device_open. */
    cudaDeviceProp properties;
    int runtime, driver, blas_version;
    cublasHandle_t blas;
    cublasLtHandle_t lt;
    cudaStream_t stream;            /* what is measured runs here, */
    cudaStream_t lane[PROBE_LANES]; /* or on these, side by side */
    cudaEvent_t begin, end, lane_end[PROBE_LANES];
    volatile int *release; /* lets the held stream go; host memory that the device sees */
    unsigned turn;         /* counts calls: operands rotate, so that no cache keeps them */
    struct group *group;   /* ranks that this one has joined, or NULL */
};

extern const struct probe_kind strip_probe, copies_probe, pinned_probe, adamw_probe, grouped_probe;

/* The schedules' probes; ends with NULL. */
extern const struct probe_kind *const probe_kinds[];
/* A schedule's probe, its check in the usual sizes. */
void probe_check_kind(struct probe *probe, const struct probe_kind *kind);

/* Say so on stderr and exit. */
[[noreturn]] void probe_die(enum mosaic_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

enum refusal { REFUSED_UNSUPPORTED, REFUSED_MEMORY, REFUSED_FAILED };
struct probe_refused {
    enum refusal why;
    char text[PROBE_TEXT];
};
/* Throws. */
[[noreturn]] void probe_refuse(enum refusal why, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Where a call failed, and what it was. */
struct probe_call {
    const char *file;
    int line;
    const char *text;
};
[[noreturn]] void probe_cuda_failed(const struct probe_call *call, cudaError_t status);
[[noreturn]] void probe_blas_failed(const struct probe_call *call, cublasStatus_t status);

/* Anything that CUDA or cuBLAS refuses is a refusal of the probe. */
#define CUDA_CHECK(call)                                                                           \
    do {                                                                                           \
        const cudaError_t cuda_status = (call);                                                    \
        if (cuda_status != cudaSuccess) {                                                          \
            const struct probe_call failed = {__FILE__, __LINE__, #call};                          \
            probe_cuda_failed(&failed, cuda_status);                                               \
        }                                                                                          \
    } while (0)
#define BLAS_CHECK(call)                                                                           \
    do {                                                                                           \
        const cublasStatus_t blas_status = (call);                                                 \
        if (blas_status != CUBLAS_STATUS_SUCCESS) {                                                \
            const struct probe_call failed = {__FILE__, __LINE__, #call};                          \
            probe_blas_failed(&failed, blas_status);                                               \
        }                                                                                          \
    } while (0)
/* After a kernel's launch. */
#define LAUNCH_CHECK() CUDA_CHECK(cudaGetLastError())

#endif
