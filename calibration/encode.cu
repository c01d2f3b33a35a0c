// SPDX-License-Identifier: GPL-3.0-or-later
/* One function makes a value for host and device; see the header. */
#include "encode.h"

#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <string.h>

struct e4m3 {
    __nv_fp8_storage_t bits;
};
/* Two values. */
struct e2m1_pair {
    uint8_t bits;
};

/* Sixteen codes, the sign the highest bit. */
__host__ __device__ inline unsigned e2m1_code(uint32_t series, uint64_t i) {
    return (unsigned)(8.0F * (random_at(series, i) + 1.0F)) & 15U;
}
static float e2m1_value(unsigned code) {
    static const float magnitudes[] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
    return (code & 8U ? -1.0F : 1.0F) * magnitudes[code & 7U];
}

__device__ inline void encode(float *to, float x) {
    *to = x;
}
__device__ inline void encode(double *to, float x) {
    *to = (double)x;
}
__device__ inline void encode(__half *to, float x) {
    *to = __float2half_rn(x);
}
__device__ inline void encode(__nv_bfloat16 *to, float x) {
    *to = __float2bfloat16_rn(x);
}
__device__ inline void encode(struct e4m3 *to, float x) {
    to->bits = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
}

template <typename T>
__global__ void fill_series(T *to, size_t count, uint32_t series, float scale) {
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
        encode(to + i, scale * random_at(series, i));
}

__global__ void fill_pairs(struct e2m1_pair *to, size_t pairs, uint32_t series) {
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < pairs; i += stride)
        to[i].bits = (uint8_t)(e2m1_code(series, 2 * i) | e2m1_code(series, 2 * i + 1) << 4);
}

__global__ void fill_constant(float *to, size_t count, float value) {
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
        to[i] = value;
}

void encode_constant(struct probe *p, float *to, size_t count, float value) {
    fill_constant<<<device_blocks(p, count), BLOCK_THREADS, 0, p->stream>>>(to, count, value);
    LAUNCH_CHECK();
}

template <typename T>
static void launch_fill(struct probe *p, void *to, size_t count, uint32_t series, float scale) {
    fill_series<<<device_blocks(p, count), BLOCK_THREADS, 0, p->stream>>>((T *)to, count, series,
                                                                          scale);
}

/* E2M1 as CUDA 12.8 and later number it; older ones have no such type. */
enum { E2M1_TYPE = 33 };

void encode_series(struct probe *p, void *to, size_t count, uint32_t series, float scale,
                   cudaDataType type) {
    const size_t pairs = (count + 1) / 2;
    if ((int)type == E2M1_TYPE)
        fill_pairs<<<device_blocks(p, pairs), BLOCK_THREADS, 0, p->stream>>>((struct e2m1_pair *)to,
                                                                             pairs, series);
    else if (type == CUDA_R_8F_E4M3)
        launch_fill<struct e4m3>(p, to, count, series, scale);
    else if (type == CUDA_R_16F)
        launch_fill<__half>(p, to, count, series, scale);
    else if (type == CUDA_R_16BF)
        launch_fill<__nv_bfloat16>(p, to, count, series, scale);
    else if (type == CUDA_R_64F)
        launch_fill<double>(p, to, count, series, scale);
    else
        launch_fill<float>(p, to, count, series, scale);
    LAUNCH_CHECK();
}

static float rounded(float x, cudaDataType type) {
    if (type == CUDA_R_8F_E4M3) {
        const __nv_fp8_storage_t bits = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
        return __half2float(__half(__nv_cvt_fp8_to_halfraw(bits, __NV_E4M3)));
    }
    if (type == CUDA_R_16F)
        return __half2float(__float2half_rn(x));
    if (type == CUDA_R_16BF)
        return __bfloat162float(__float2bfloat16_rn(x));
    return x;
}

void encode_on_host(float *to, size_t count, uint32_t series, float scale, cudaDataType type) {
    for (size_t i = 0; i < count; ++i)
        to[i] = (int)type == E2M1_TYPE ? e2m1_value(e2m1_code(series, i))
                                       : rounded(scale * random_at(series, i), type);
}

static float widened(const char *at, cudaDataType type) {
    double of_64 = 0;
    float of_32 = 0;
    __half of_16;
    __nv_bfloat16 of_bf16;
    if (type == CUDA_R_64F) {
        memcpy(&of_64, at, sizeof of_64);
        return (float)of_64;
    }
    if (type == CUDA_R_32F) {
        memcpy(&of_32, at, sizeof of_32);
        return of_32;
    }
    if (type == CUDA_R_16F) {
        memcpy(&of_16, at, sizeof of_16);
        return __half2float(of_16);
    }
    memcpy(&of_bf16, at, sizeof of_bf16);
    return __bfloat162float(of_bf16);
}

void encode_read(struct probe *p, const void *from, float *to, size_t count, cudaDataType type) {
    const size_t width = type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
    char *const raw = (char *)host_take(count * width);
    CUDA_CHECK(cudaStreamSynchronize(p->stream));
    CUDA_CHECK(cudaMemcpy(raw, from, count * width, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; ++i)
        to[i] = widened(raw + i * width, type);
}
