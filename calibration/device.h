// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The device: opening it, memory, random data that host and device make alike, elements of either
 * precision.
 */
#ifndef MOSAIC_CALIBRATION_DEVICE_H
#define MOSAIC_CALIBRATION_DEVICE_H

#include "probe.h"

#include <cuda_bf16.h>
#include <stdint.h>

enum precision { BF16, FP32 };
extern const char *const precision_words[];

/* Ends the program (exit status 6) where there is no such device. */
void device_open(struct probe *probe);
/* True once the device answers no more: an error that stays. */
bool device_is_lost(struct probe *probe);

size_t precision_bytes(enum precision precision);

/* Never NULL, host memory cleared; freed by device_release or the program's end. */
void *device_take(size_t bytes);
void *pinned_take(size_t bytes);
void *host_take(size_t bytes);
/* With or without timing. */
cudaEvent_t event_take(bool is_timed);
/* Refuses what no memory holds, before sizes overflow. */
void device_require(double elements);
/* What has been taken so far; frees what was taken since. */
size_t device_mark(void);
void device_release(size_t mark);

/* The i-th of a series, in [-1, 1). */
__host__ __device__ inline float random_at(uint32_t series, uint64_t i) {
    uint64_t x = (i + 1) * 0x9E3779B97F4A7C15ULL + ((uint64_t)series << 32);
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ x >> 27) * 0x94D049BB133111EBULL;
    return (float)(x >> 40) * 0x1p-23F - 1.0F;
}

/* scale x the series, as the precision keeps it: in host memory, on the device. */
void host_random(float *to, size_t count, uint32_t series, float scale, enum precision precision);
void device_random(struct probe *probe, void *to, size_t count, uint32_t series, float scale,
                   enum precision precision);
/* Both at once, of memory taken. */
float *host_series(size_t count, uint32_t series, float scale, enum precision precision);
void *device_series(struct probe *probe, size_t count, uint32_t series, float scale,
                    enum precision precision);
/* Zeroed, in the order of the probe's stream. */
void *device_zeros(struct probe *probe, size_t bytes);
/* A copy of host memory. */
void *device_copy(const void *from, size_t bytes);
/* Elements of the device as floats of a new host block; free() it. */
float *device_read(struct probe *probe, const void *from, size_t count, enum precision precision);

__device__ inline float to_float(float x) {
    return x;
}
__device__ inline float to_float(__nv_bfloat16 x) {
    return __bfloat162float(x);
}
__device__ inline void from_float(float *to, float x) {
    *to = x;
}
__device__ inline void from_float(__nv_bfloat16 *to, float x) {
    *to = __float2bfloat16_rn(x);
}

/* Neighbours that one thread reads at once, 16 bytes where rows are whole in those. */
template <typename T, int WIDTH> struct alignas(sizeof(T) * WIDTH) pack { T at[WIDTH]; };

/* Blocks for so many items of work, as a kernel with a grid-stride loop takes them. */
enum { BLOCK_THREADS = 256 };
unsigned device_blocks(const struct probe *probe, size_t items);

#endif
