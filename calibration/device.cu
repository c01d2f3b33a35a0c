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
    BLAS_CHECK(cublasLtCreate(&p->lt));
}

bool device_is_lost(struct probe *p) {
    *p->release = 1;
    (void)cudaGetLastError();
    if (cudaDeviceSynchronize() == cudaSuccess)
        return false;
    (void)cudaGetLastError();
    return cudaDeviceSynchronize() != cudaSuccess;
}

/* ---- what has been taken, the last first to go ---- */

enum block_kind { DEVICE_BLOCK, PINNED_BLOCK, HOST_BLOCK, EVENT };
struct block {
    enum block_kind kind;
    void *at;
};
static struct block *blocks;
static size_t taken, room;

static void *keep(enum block_kind kind, void *at) {
    if (taken == room) {
        const size_t wanted = room ? 2 * room : 64;
        struct block *const more = (struct block *)realloc(blocks, wanted * sizeof *blocks);
        if (!more)
            probe_die(MOSAIC_INTERNAL, "out of memory");
        blocks = more;
        room = wanted;
    }
    blocks[taken++] = {kind, at};
    return at;
}

void *device_take(size_t bytes) {
    size_t unused = 0, total = 0;
    void *block = NULL;
    CUDA_CHECK(cudaMemGetInfo(&unused, &total));
    if (bytes > unused)
        probe_refuse(REFUSED_MEMORY, "%zu bytes of device memory wanted, %zu of %zu are free",
                     bytes, unused, total);
    CUDA_CHECK(cudaMalloc(&block, bytes ? bytes : 1));
    return keep(DEVICE_BLOCK, block);
}

void *pinned_take(size_t bytes) {
    void *block = NULL;
    CUDA_CHECK(cudaHostAlloc(&block, bytes ? bytes : 1, cudaHostAllocMapped));
    return keep(PINNED_BLOCK, block);
}

void *host_take(size_t bytes) {
    void *const block = calloc(bytes ? bytes : 1, 1);
    if (!block)
        probe_refuse(REFUSED_MEMORY, "%zu bytes of host memory wanted", bytes);
    return keep(HOST_BLOCK, block);
}

void device_require(double elements) {
    if (!(elements < 0x1p50))
        probe_refuse(REFUSED_MEMORY, "%.3g elements wanted", elements);
}

cudaEvent_t event_take(bool is_timed) {
    cudaEvent_t event = NULL;
    const unsigned flags = is_timed ? cudaEventDefault : cudaEventDisableTiming;
    CUDA_CHECK(cudaEventCreateWithFlags(&event, flags));
    (void)keep(EVENT, event);
    return event;
}

size_t device_mark(void) {
    return taken;
}

/* Errors are those of a device that is lost, which device_is_lost tells. */
void device_release(size_t mark) {
    while (taken > mark) {
        const struct block *const block = &blocks[--taken];
        if (block->kind == DEVICE_BLOCK)
            (void)cudaFree(block->at);
        else if (block->kind == PINNED_BLOCK)
            (void)cudaFreeHost(block->at);
        else if (block->kind == EVENT)
            (void)cudaEventDestroy((cudaEvent_t)block->at);
        else
            free(block->at);
    }
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

float *host_series(size_t count, uint32_t series, float scale, enum precision precision) {
    float *const block = (float *)host_take(count * sizeof *block);
    host_random(block, count, series, scale, precision);
    return block;
}

void *device_series(struct probe *p, size_t count, uint32_t series, float scale,
                    enum precision precision) {
    void *const block = device_take(count * precision_bytes(precision));
    device_random(p, block, count, series, scale, precision);
    return block;
}

void *device_zeros(struct probe *p, size_t bytes) {
    void *const block = device_take(bytes);
    CUDA_CHECK(cudaMemsetAsync(block, 0, bytes, p->stream));
    return block;
}

void *device_copy(const void *from, size_t bytes) {
    void *const to = device_take(bytes);
    CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaStreamSynchronize(NULL)); /* pageable memory may still be on its way */
    return to;
}
