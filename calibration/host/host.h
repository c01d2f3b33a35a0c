// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * mosaic-probe-host: this machine's processors as devices that can be measured on any of them.  A
 * device is `threads` threads (one by default), the machine has cores / threads of them, numbers
 * are FP32 (four bytes), "device" and "host" memory are the same memory.  Times are of a monotonic
 * clock.  A program of its own, free of GLPK and GSL; of the library it links the samples
 * (machine/sample.h), the pool and the executors.
 */
#ifndef MOSAIC_CALIBRATION_HOST_H
#define MOSAIC_CALIBRATION_HOST_H

#include "base/pool.h"
#include "machine/sample.h"

#include <stddef.h>
#include <stdio.h>

/* Who multiplies matrices.
 *   BLAS      OpenBLAS, where the probe was built with it
 *   OWN       this program's blocked loops
 *   EXECUTOR  the plain loops of exec/expert_ffn.h, one row at a time: what the executors of the
 *             memory schedules run at, so that a model calibrated by it can predict them */
enum host_kernels { KERNELS_BLAS, KERNELS_OWN, KERNELS_EXECUTOR, HOST_KERNELS };
extern const char *const host_kernels_words[HOST_KERNELS + 1];
bool host_has_blas(void);

struct host_options {
    int threads; /* of a device */
    enum host_kernels kernels;
    double limit_s; /* of one job */
    double wait_s;  /* for another process of a group */
    /* A quantity whose first result is spoiled, to see that it is refused; SAMPLE_QUANTITIES for
     * none. */
    enum sample_quantity fault;
};

enum { HOST_CACHES_MAX = 8, HOST_NAME_MAX = 64 };

struct host_cache {
    int level;
    double bytes;
    char type[16]; /* Data, Instruction, Unified */
};

struct host {
    struct host_options options;
    char name[HOST_NAME_MAX], architecture[16], compiler[64], kernels[96];
    int cores, devices;
    double memory_bytes;    /* of a device: its share of the machine's */
    double available_bytes; /* what a job may take */
    double clock_hz;        /* 0: not told by the system */
    struct host_cache caches[HOST_CACHES_MAX];
    int cache_count;
    double peak_flop_per_s;  /* of a device, measured: multiply-adds in registers */
    double plain_flop_per_s; /* the executors' plain loops */
    double gemm_flop_per_s;  /* a small product by the chosen kernels: to foresee a job's time */
    double copy_bytes_per_s; /* read and written, of one thread; the same */
    struct pool *pool;       /* a device's threads; NULL with one */
};

MOSAIC_MUST_USE enum mosaic_status host_open(const struct host_options *options, struct host *host,
                                             struct status_error *err);
void host_close(struct host *host);

/* Ranges of 0 .. count - 1, one a thread of the device. */
typedef void host_range(void *context, size_t first, size_t end);
void host_parallel(const struct host *host, size_t count, host_range *range, void *context);

double host_clock_s(void);

/* ---- one job ---- */

enum refusal { REFUSED_NOT, REFUSED_UNSUPPORTED, REFUSED_MEMORY, REFUSED_FAILED, REFUSALS };
extern const char *const refusal_words[REFUSALS];

enum { JOB_BLOCKS_MAX = 24, JOB_TEXT_MAX = 256 };

struct host_group;

struct host_job {
    const struct host *host;
    struct host_group *group; /* of processes; or NULL */
    struct sample *sample;    /* keys in, times out */
    int rounds;
    enum refusal refusal;
    char text[JOB_TEXT_MAX];
    const char *how; /* by what, for the answer */
    void *blocks[JOB_BLOCKS_MAX];
    int block_count;
};

/* Measured, or refused with a text. */
void host_job_run(struct host_job *job);
bool host_measures(enum sample_quantity quantity);

/* All of the following return false once the job is refused. */
bool job_refuse(struct host_job *job, enum refusal refusal, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What one run is thought to take.  Jobs that would last longer than the limit are refused. */
bool job_foresee(struct host_job *job, double flop, double flop_per_s, double bytes);
/* Value of a key. */
size_t job_size(const struct host_job *job, const char *key);
bool job_is(const struct host_job *job, const char *key, const char *word);
/* Blocks live as long as the job; NULL and refused for lack of memory. */
void *job_take(struct host_job *job, size_t count, size_t size);
/* Whole numbers from -4 to 4, so that sums of products are exact in FP32. */
float *job_floats(struct host_job *job, size_t count, unsigned seed);

/* What is timed. */
struct host_work {
    void *context;
    void (*reset)(void *context); /* before every run, not timed; may be NULL */
    void (*run)(void *context);
    /* Or: runs it so many times and says how long all of them took; 0 when it failed. */
    double (*timed)(void *context, long times);
    /* One number for all processes that run it together; NULL: this is the only one. */
    long (*agree)(void *context, long value);
    /* Of the first run's data. */
    bool (*verify)(void *context);
    float *result; /* what a fault spoils */
    size_t result_count;
    double per_run; /* the time told is that of a run over this; 0 for 1 */
};
bool job_measure(struct host_job *job, const struct host_work *work);

/* ---- quantities ---- */

bool gemm_measure(struct host_job *job);
bool grouped_gemm_measure(struct host_job *job);
bool sustained_measure(struct host_job *job);
bool attention_measure(struct host_job *job);
bool elementwise_measure(struct host_job *job);
bool stream_measure(struct host_job *job);
bool host_copy_measure(struct host_job *job);
bool adamw_measure(struct host_job *job);
bool ring_strip_measure(struct host_job *job);
bool launch_measure(struct host_job *job);
bool collective_measure(struct host_job *job);
bool process_collective_measure(struct host_job *job);
bool overlap_measure(struct host_job *job);
bool moe_layer_measure(struct host_job *job);

/* ---- products ---- */

/* [rows, columns] = sum over `depth` of a(i, p) b(p, j). */
struct matrix_view {
    const float *at;
    size_t row, column; /* strides */
};
struct product {
    size_t rows, columns, depth;
    struct matrix_view a, b;
    float *out;
};
enum product_pass { PRODUCT_FORWARD, PRODUCT_DATA, PRODUCT_WEIGHT };
/* The product of a pass of y[m, n] = x[m, k] w[k, n] from x, w and dy. */
struct product product_of(enum product_pass pass, const size_t mnk[3], const float *const xwy[3],
                          float *out);
/* By BLAS or own loops. */
void product_run(const struct host *host, const struct product *product);
/* Some entries against sums in double. */
bool product_is_right(const struct product *product);
void blas_product(const struct product *product);
void blas_threads(int threads);
const char *blas_name(void);

/* The same passes by the executors' loops (executor.c), after so many seconds of them. */
bool executor_gemm_measure(struct host_job *job, enum product_pass pass, const size_t mnk[3],
                           size_t experts, double warm_s);
double executor_gemm_flop_per_s(void);

/* ---- the program ---- */

/* Answers requests until the input ends. */
enum mosaic_status host_serve(const struct host *host);
/* Every quantity at small sizes, a line each. */
enum mosaic_status host_check(const struct host *host);
/* This machine as a cluster document. */
enum mosaic_status host_print_cluster(const struct host *host, FILE *file);

#endif
