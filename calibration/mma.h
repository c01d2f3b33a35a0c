// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A warp's matrix products in bf16 with FP32 sums, as every device from sm_80 on has them
 * (mma.m16n8k16), the loads that fill their fragments from shared memory, and all else that is
 * written in assembly.  With g = lane / 4
 * and t = lane % 4 a lane holds
 *   A[16 x 16]  a0 = (g, 2t), a1 = (g + 8, 2t), a2 = (g, 2t + 8), a3 = (g + 8, 2t + 8), two each
 *   B[16 x 8]   b0 = (2t, g), b1 = (2t + 8, g), two down each
 *   C[16 x 8]   c0, c1 = (g, 2t), (g, 2t + 1); c2, c3 the same of row g + 8
 */
#ifndef MOSAIC_CALIBRATION_MMA_H
#define MOSAIC_CALIBRATION_MMA_H

#include <cuda_bf16.h>
#include <stdint.h>
#include <string.h>

enum { WARP_LANES = 32 };

__device__ inline uint32_t shared_address(const void *at) {
    return (uint32_t)__cvta_generic_to_shared(at);
}

/* Four 8 x 8 blocks; lane l names row l % 8 of block l / 8. */
__device__ inline void load_blocks(uint32_t out[4], const __nv_bfloat16 *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(shared_address(row))
                 : "memory");
}
/* Each block transposed. */
__device__ inline void load_blocks_turned(uint32_t out[4], const __nv_bfloat16 *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(shared_address(row))
                 : "memory");
}

__device__ inline void multiply_add(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* 16 bytes of global memory to shared, zeros where `is_inside` is false. */
__device__ inline void copy_async(void *to, const void *from, bool is_inside) {
    const int bytes = is_inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(to)), "l"(from), "r"(bytes)
                 : "memory");
}
__device__ inline void copy_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* All but the last `LEFT` groups have landed. */
template <int LEFT> __device__ inline void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" : : "n"(LEFT) : "memory");
}

__device__ inline unsigned long long device_clock_ns() {
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

__device__ inline float fast_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ inline uint32_t pack_pair(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    uint32_t bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
}

/* Places within a lane's row of blocks: of A, of B held by columns (load_blocks), of B held by rows
 * (load_blocks_turned). */
struct place {
    int row, column;
};
__device__ inline struct place place_in_a(int lane) {
    return {lane % 16, lane / 16 * 8};
}
__device__ inline struct place place_in_columns(int lane) {
    return {lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8};
}
__device__ inline struct place place_in_rows(int lane) {
    return {lane % 16, lane / 16 * 8};
}
/* Of A held transposed. */
__device__ inline struct place place_in_a_turned(int lane) {
    return {lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8};
}

#endif
