// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Coroutines, and the functions of the CUDA runtime that the probe calls: one device whose memory
 * is the process's.  Memory is filled with NaN bytes when taken, so that what is read before it is
 * written shows.
 */
#include "emulator.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>
#include <vector>

struct emulated_index threadIdx, blockIdx, blockDim, gridDim;

/* ---- threads of a block ---- */

enum { THREADS_MOST = 1024, STACK_BYTES = 64 << 10, WARP = 32, WARPS_MOST = THREADS_MOST / WARP };

struct meeting {
    int there, present, round;
};
/* The context starts it; from then on jumps, which need no call of the system. */
struct thread {
    ucontext_t context;
    jmp_buf at;
    char *stack;
    bool has_begun, is_done;
};
static struct thread threads[THREADS_MOST];
static struct meeting of_block, of_warp[WARPS_MOST];
static char boards[THREADS_MOST][64];
static jmp_buf scheduler;
static unsigned current;
static const std::function<void()> *body;
static std::vector<double> memory;

void *emulated_memory() {
    return memory.data();
}
int emulated_lane() {
    return (int)(current % WARP);
}
char *emulated_board(int lane) {
    return boards[current / WARP * WARP + (unsigned)lane];
}

static void close_if_all(struct meeting *m) {
    if (m->there < m->present || m->present == 0)
        return;
    m->there = 0;
    ++m->round;
}

static void meet(struct meeting *m) {
    const int round = m->round;
    ++m->there;
    close_if_all(m);
    while (m->round == round) {
        if (_setjmp(threads[current].at) == 0)
            _longjmp(scheduler, 1);
    }
}

void emulated_meet_warp() {
    meet(&of_warp[current / WARP]);
}
void emulated_meet_block() {
    meet(&of_block);
}

static void run_thread() {
    (*body)();
    threads[current].is_done = true;
    --of_block.present;
    --of_warp[current / WARP].present;
    close_if_all(&of_block);
    close_if_all(&of_warp[current / WARP]);
    _longjmp(scheduler, 1);
}

/* Until it waits or ends. */
static void go_on(struct thread *t) {
    if (_setjmp(scheduler) != 0)
        return;
    if (t->has_begun)
        _longjmp(t->at, 1);
    t->has_begun = true;
    (void)setcontext(&t->context);
}

static void start(unsigned count) {
    of_block = {0, (int)count, 0};
    for (struct meeting &m : of_warp)
        m = {0, 0, 0};
    for (unsigned i = 0; i < count; ++i) {
        struct thread *const t = &threads[i];
        if (!t->stack)
            t->stack = (char *)malloc(STACK_BYTES);
        getcontext(&t->context);
        t->context.uc_stack.ss_sp = t->stack;
        t->context.uc_stack.ss_size = STACK_BYTES;
        t->context.uc_link = NULL;
        makecontext(&t->context, run_thread, 0);
        t->has_begun = t->is_done = false;
        ++of_warp[i / WARP].present;
    }
}

/* Threads that wait for each other for ever would hang a device too. */
static void run_block(unsigned count) {
    start(count);
    for (unsigned left = count, before = 0, idle = 0; left > 0;) {
        left = 0;
        for (unsigned i = 0; i < count; ++i) {
            if (threads[i].is_done)
                continue;
            current = i;
            threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
            go_on(&threads[i]);
            left += !threads[i].is_done;
        }
        const unsigned now = (unsigned)of_block.round;
        idle = left == before && now == 0 ? idle + 1 : 0;
        before = left;
        if (idle > 1000000) {
            (void)fputs("emulator: the threads of a block wait for ever\n", stderr);
            abort();
        }
    }
}

/* ---- launches; into a graph where one is being made ---- */

struct kernel {
    struct emulated_launch launch;
    std::function<void()> thread;
};
struct CUgraph_st {
    std::vector<struct kernel> kernels;
};
struct CUgraphExec_st {
    std::vector<struct kernel> kernels;
};
static cudaGraph_t capturing;
static cudaError_t last_error;

void emulate(const struct emulated_launch &l, const std::function<void()> &thread) {
    const unsigned count = l.threads.x * l.threads.y * l.threads.z;
    const bool is_right = count > 0 && count <= THREADS_MOST && l.blocks.x > 0 && l.blocks.y > 0 &&
                          l.blocks.z > 0 && l.blocks.y <= 65535 && l.blocks.z <= 65535 &&
                          l.blocks.x <= 2147483647;
    if (!is_right) {
        last_error = cudaErrorInvalidConfiguration;
        return;
    }
    if (capturing) {
        capturing->kernels.push_back({l, thread});
        return;
    }
    memory.assign(l.bytes / sizeof(double) + 1, NAN);
    body = &thread;
    blockDim = {l.threads.x, l.threads.y, l.threads.z};
    gridDim = {l.blocks.x, l.blocks.y, l.blocks.z};
    for (unsigned z = 0; z < l.blocks.z; ++z)
        for (unsigned y = 0; y < l.blocks.y; ++y)
            for (unsigned x = 0; x < l.blocks.x; ++x) {
                blockIdx = {x, y, z};
                run_block(count);
            }
}

cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
    capturing = new CUgraph_st;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *graph) {
    *graph = capturing;
    capturing = NULL;
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *to, cudaGraph_t graph, unsigned long long) {
    *to = new CUgraphExec_st{graph->kernels};
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
    for (const struct kernel &k : graph->kernels)
        emulate(k.launch, k.thread);
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    delete graph;
    return cudaSuccess;
}

/* ---- device ---- */

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int) {
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *to, int) {
    *to = cudaDeviceProp();
    (void)snprintf(to->name, sizeof to->name, "NVIDIA H200");
    to->major = 9;
    to->multiProcessorCount = 1;
    to->l2CacheSize = 1 << 12;
    to->totalGlobalMem = 1UL << 30;
    to->sharedMemPerBlock = 48 << 10;
    to->sharedMemPerBlockOptin = 227 << 10;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char *to, int size, int) {
    (void)snprintf(to, (size_t)size, "0000:00:00.0");
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
    return cudaSuccess;
}
cudaError_t cudaGetLastError() {
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}
const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaErrorInvalidConfiguration ? "invalid configuration argument"
                                                  : "emulated error";
}

/* ---- streams and events ---- */

struct CUevent_st {
    double at;
};

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *to, unsigned) {
    *to = (cudaStream_t)malloc(1);
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *to, unsigned) {
    *to = new CUevent_st{0};
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *to) {
    return cudaEventCreateWithFlags(to, 0);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete event;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    event->at = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    *ms = (float)(1e3 * (to->at - from->at));
    return cudaSuccess;
}

/* ---- memory ---- */

static cudaError_t take(void **to, size_t bytes) {
    *to = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!*to)
        return cudaErrorMemoryAllocation;
    memset(*to, 0xFF, bytes);
    return cudaSuccess;
}
cudaError_t cudaMalloc(void **to, size_t bytes) {
    return take(to, bytes);
}
cudaError_t cudaHostAlloc(void **to, size_t bytes, unsigned) {
    return take(to, bytes);
}
cudaError_t cudaFree(void *at) {
    free(at);
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void *at) {
    free(at);
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *unused, size_t *total) {
    *unused = *total = 1UL << 30;
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) {
    memmove(to, from, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
    memmove(to, from, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t) {
    memset(to, value, bytes);
    return cudaSuccess;
}
