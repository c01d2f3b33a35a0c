// SPDX-License-Identifier: GPL-3.0-or-later
/* Opening the device, memory and data; see the header. */
#include "device.h"

#include <stdlib.h>
#include <string.h>

const char *const precision_words[] = {"bf16", "fp32", NULL};

size_t precision_bytes(enum precision precision) {
    return precision == BF16 ? sizeof(__nv_bfloat16) : sizeof(float);
}

void device_open(struct probe *p) {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count == 0)
        probe_die(MOSAIC_DEVICE, "no CUDA device: %s",
                  status == cudaSuccess ? "the driver lists none" : cudaGetErrorString(status));
    if (p->device >= count)
        probe_die(MOSAIC_DEVICE, "no CUDA device %d: there are %d", p->device, count);
    CUDA_CHECK(cudaSetDevice(p->device));
    CUDA_CHECK(cudaGetDeviceProperties(&p->properties, p->device));
    CUDA_CHECK(cudaRuntimeGetVersion(&p->runtime));
    CUDA_CHECK(cudaDriverGetVersion(&p->driver));
    CUDA_CHECK(cudaStreamCreateWithFlags(&p->stream, cudaStreamNonBlocking));
    CUDA_CHECK(cudaEventCreate(&p->begin));
    CUDA_CHECK(cudaEventCreate(&p->end));
    for (int i = 0; i < PROBE_LANES; ++i) {
        CUDA_CHECK(cudaStreamCreateWithFlags(&p->lane[i], cudaStreamNonBlocking));
        CUDA_CHECK(cudaEventCreate(&p->lane_end[i]));
    }
    p->release = (volatile int *)pinned_take(sizeof *p->release);
    BLAS_CHECK(cublasCreate(&p->blas));
    BLAS_CHECK(cublasGetVersion(p->blas, &p->blas_version));
    BLAS_CHECK(cublasSetStream(p->blas, p->stream));
}

void *device_take(size_t bytes) {
    size_t unused = 0, total = 0;
    void *block = NULL;
    CUDA_CHECK(cudaMemGetInfo(&unused, &total));
    if (bytes > unused)
        probe_die(MOSAIC_DEVICE, "%zu bytes of device memory wanted, %zu of %zu are free", bytes,
                  unused, total);
    CUDA_CHECK(cudaMalloc(&block, bytes ? bytes : 1));
    return block;
}

void *pinned_take(size_t bytes) {
    void *block = NULL;
    CUDA_CHECK(cudaHostAlloc(&block, bytes ? bytes : 1, cudaHostAllocMapped));
    return block;
}

unsigned device_blocks(const struct probe *p, size_t items) {
    const size_t needed = (items + BLOCK_THREADS - 1) / BLOCK_THREADS;
    const size_t most = (size_t)p->properties.multiProcessorCount * 32; /* a few waves */
    return (unsigned)(needed == 0 ? 1 : needed < most ? needed : most);
}

void host_random(float *to, size_t count, uint32_t series, float scale, enum precision precision) {
    for (size_t i = 0; i < count; ++i) {
        const float x = scale * random_at(series, i);
        to[i] = precision == BF16 ? __bfloat162float(__float2bfloat16_rn(x)) : x;
    }
}

template <typename T>
__global__ void fill_random(T *to, size_t count, uint32_t series, float scale) {
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
        from_float(to + i, scale * random_at(series, i));
}

void device_random(struct probe *p, void *to, size_t count, uint32_t series, float scale,
                   enum precision precision) {
    const unsigned blocks = device_blocks(p, count);
    if (precision == BF16)
        fill_random<<<blocks, BLOCK_THREADS, 0, p->stream>>>((__nv_bfloat16 *)to, count, series,
                                                             scale);
    else
        fill_random<<<blocks, BLOCK_THREADS, 0, p->stream>>>((float *)to, count, series, scale);
    LAUNCH_CHECK();
}

float *device_read(struct probe *p, const void *from, size_t count, enum precision precision) {
    float *const out = (float *)calloc(count + 1, sizeof *out);
    if (!out)
        probe_die(MOSAIC_INTERNAL, "out of memory");
    CUDA_CHECK(cudaStreamSynchronize(p->stream));
    CUDA_CHECK(cudaMemcpy(out, from, count * precision_bytes(precision), cudaMemcpyDeviceToHost));
    if (precision == BF16)
        for (size_t i = count; i-- > 0;) { /* widened in place, from the end */
            __nv_bfloat16 narrow;
            memcpy(&narrow, (const char *)out + i * sizeof narrow, sizeof narrow);
            out[i] = __bfloat162float(narrow);
        }
    return out;
}
