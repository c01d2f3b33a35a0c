// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Copies of boundary-sized blocks between pinned host memory and the device, as offloaded
 * checkpoints travel (SCO, arXiv 2609.14306): each direction alone, both at once, and beside bf16
 * GEMMs that last at least as long.  Beside GEMMs the lanes' own times tell who slows whom; no rate
 * is told, because the whole lasts as long as the longer one.
 */
#include "gemm.h"
#include "timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES, BLOCKS, GEMM };

static const struct probe_key keys[] = {
    /* A boundary of gpt-oss-20b, 557,056 tokens on 8 GPUs, 2,880 wide. */
    {"bytes", "bytes of a block", 557056L / 8 * 2880 * 2, 100003, 1, 1L << 34, NULL},
    {"blocks", "blocks copied in a row", 4, 3, 1, 4096, NULL},
    {"gemm", "edge of the square GEMMs beside", 8192, 64, 1, 1 << 16, NULL},
};

enum { DOWN, UP, COMPUTE, LANES };

struct areas {
    char *device_from, *device_to, *host_from, *host_to;
};

struct traffic {
    const struct areas *areas;
    size_t bytes;
    long blocks, gemms;
    bool is_down, is_up;
    struct gemm gemm;
};

/* The directions in turn, so that neither has a head start. */
static void queue_traffic(struct probe *p, void *context) {
    const struct traffic *const t = (const struct traffic *)context;
    for (long i = 0; i < t->gemms; ++i)
        gemm_queue(p, &t->gemm);
    for (long i = 0; i < t->blocks; ++i) {
        const size_t at = (size_t)i * t->bytes;
        if (t->is_down)
            CUDA_CHECK(cudaMemcpyAsync(t->areas->host_to + at, t->areas->device_from + at, t->bytes,
                                       cudaMemcpyDeviceToHost, p->lane[DOWN]));
        if (t->is_up)
            CUDA_CHECK(cudaMemcpyAsync(t->areas->device_to + at, t->areas->host_from + at, t->bytes,
                                       cudaMemcpyHostToDevice, p->lane[UP]));
    }
}

static struct areas take_areas(const struct probe *p) {
    const size_t bytes = (size_t)p->values[BYTES] * (size_t)p->values[BLOCKS];
    return {(char *)device_take(bytes), (char *)device_take(bytes), (char *)pinned_take(bytes),
            (char *)pinned_take(bytes)};
}

static struct gemm make_gemm(struct probe *p) {
    const long edge = p->values[GEMM];
    const size_t count = (size_t)edge * (size_t)edge, bytes = count * sizeof(__nv_bfloat16);
    void *const a = device_take(bytes), *const b = device_take(bytes);
    device_random(p, a, count, 1, 1, BF16);
    device_random(p, b, count, 2, 1, BF16);
    CUDA_CHECK(cudaStreamSynchronize(p->stream));
    return {GEMM_ABT, BF16, edge, edge, edge, 1, a, b, device_take(bytes), false};
}

struct way {
    const char *quantity;
    bool is_down, is_up, has_gemms;
};

static struct timing run_way(struct probe *p, const struct way *way, const struct traffic *whole) {
    struct traffic t = *whole;
    const bool has_copies = way->is_down || way->is_up;
    t.is_down = way->is_down;
    t.is_up = way->is_up;
    t.gemms = way->has_gemms ? whole->gemms : 0;
    const double bytes = (double)t.blocks * (double)t.bytes * ((double)t.is_down + (double)t.is_up);
    const double flop = (double)t.gemms * gemm_flop(&t.gemm);
    const struct work work = {way->quantity,
                              queue_traffic,
                              &t,
                              has_copies ? 0 : flop,
                              way->has_gemms ? 0 : bytes,
                              LANES,
                              {way->is_down ? "d2h_s" : NULL, way->is_up ? "h2d_s" : NULL,
                               way->has_gemms ? "gemm_s" : NULL}};
    struct timing timing;
    timing_measure(p, &work, &timing);
    timing_print(p, &work, &timing);
    return timing;
}

static void run(struct probe *p) {
    const struct areas areas = take_areas(p);
    memset(areas.host_from, 1, (size_t)p->values[BYTES] * (size_t)p->values[BLOCKS]);
    BLAS_CHECK(cublasSetStream(p->blas, p->lane[COMPUTE]));
    struct traffic whole = {
        &areas, (size_t)p->values[BYTES], p->values[BLOCKS], 1, false, false, make_gemm(p)};
    const struct way alone[] = {{"gemm", false, false, true},
                                {"d2h", true, false, false},
                                {"h2d", false, true, false},
                                {"both", true, true, false}};
    double gemm_s = 0, copies_s = 0;
    for (const struct way &way : alone) {
        const struct timing timing = run_way(p, &way, &whole);
        if (way.has_gemms)
            gemm_s = timing.time_s.median;
        copies_s = timing.time_s.median; /* of the last: both */
    }
    whole.gemms = (long)ceil(copies_s / gemm_s);
    const struct way beside[] = {{"gemms", false, false, true},
                                 {"d2h_beside_gemms", true, false, true},
                                 {"h2d_beside_gemms", false, true, true},
                                 {"both_beside_gemms", true, true, true}};
    for (const struct way &way : beside)
        (void)run_way(p, &way, &whole);
}

/* ---- what comes down is what went up ---- */

static void check(struct probe *p) {
    const struct areas areas = take_areas(p);
    const size_t bytes = (size_t)p->values[BYTES] * (size_t)p->values[BLOCKS];
    float *const want = (float *)malloc(bytes * sizeof *want);
    float *const got = (float *)malloc(bytes * sizeof *got);
    if (!want || !got)
        probe_die(MOSAIC_INTERNAL, "out of memory");
    for (size_t i = 0; i < bytes; ++i) {
        areas.host_from[i] = (char)(127.0F * random_at(1, i));
        want[i] = areas.host_from[i];
    }
    struct traffic t = {&areas, (size_t)p->values[BYTES], p->values[BLOCKS], 0, false, true, {}};
    queue_traffic(p, &t);
    CUDA_CHECK(cudaStreamSynchronize(p->lane[UP]));
    CUDA_CHECK(cudaMemcpy(areas.device_from, areas.device_to, bytes, cudaMemcpyDeviceToDevice));
    CUDA_CHECK(cudaDeviceSynchronize());
    t.is_up = false;
    t.is_down = true;
    queue_traffic(p, &t);
    CUDA_CHECK(cudaStreamSynchronize(p->lane[DOWN]));
    for (size_t i = 0; i < bytes; ++i)
        got[i] = areas.host_to[i];
    timing_compare(p, "round_trip", got, want, bytes, 0);
    free(got);
    free(want);
}

const struct probe_kind copies_probe = {
    "schedule",
    "copies",
    "pinned copies of boundaries, alone and beside GEMMs",
    keys,
    sizeof keys / sizeof *keys,
    run,
    check,
};
