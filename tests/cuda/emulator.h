// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The CUDA probe on this machine's processor: what translated sources (translate.awk) use of CUDA.
 * A launch runs its blocks one after the other, the threads of a block as coroutines that go on
 * until they meet; it is over when the call returns, so streams and events have nothing to wait
 * for.  It shows whether kernels compute what they should and whether all threads meet; it cannot
 * show races between blocks or streams, nor times.
 */
#ifndef MOSAIC_TESTS_CUDA_EMULATOR_H
#define MOSAIC_TESTS_CUDA_EMULATOR_H

#include <cuda_runtime.h>

#include <functional>
#include <math.h>
#include <string.h>

struct emulated_index {
    unsigned x, y, z;
};
extern struct emulated_index threadIdx, blockIdx, blockDim, gridDim;

struct emulated_launch {
    dim3 blocks, threads;
    size_t bytes = 0;
    cudaStream_t stream = NULL;
};
void emulate(const struct emulated_launch &launch, const std::function<void()> &thread);

/* The block's dynamic shared memory. */
void *emulated_memory();
/* Of this thread in its warp. */
int emulated_lane();
/* The lanes of the warp, 64 bytes each, that all of them may read between two meetings. */
char *emulated_board(int lane);
void emulated_meet_warp();
void emulated_meet_block();

template <typename T> T emulated_from(T value, int lane) {
    static_assert(sizeof value <= 64, "a lane has 64 bytes");
    memcpy(emulated_board(emulated_lane()), &value, sizeof value);
    emulated_meet_warp();
    memcpy(&value, emulated_board(lane & 31), sizeof value);
    emulated_meet_warp();
    return value;
}

#define __syncthreads() emulated_meet_block()
#define __syncwarp() emulated_meet_warp()
template <typename T> T __shfl_xor_sync(unsigned, T value, int mask) {
    return emulated_from(value, emulated_lane() ^ mask);
}
template <typename T> T __shfl_down_sync(unsigned, T value, int distance) {
    const int lane = emulated_lane() + distance;
    return emulated_from(value, lane < 32 ? lane : emulated_lane());
}
template <typename T> T atomicAdd(T *to, T value) {
    const T before = *to;
    *to += value;
    return before;
}
inline float __expf(float x) {
    return expf(x);
}
inline float rsqrtf(float x) {
    return 1.0F / sqrtf(x);
}
inline int max(int a, int b) {
    return a > b ? a : b;
}
template <typename T>
cudaError_t cudaFuncSetAttribute(T *, cudaFuncAttribute attribute, int value) {
    const int most = 227 << 10; /* of sm_90 and sm_100 */
    const bool is_right = attribute == cudaFuncAttributeMaxDynamicSharedMemorySize && value <= most;
    return is_right ? cudaSuccess : cudaErrorInvalidValue;
}

#endif
