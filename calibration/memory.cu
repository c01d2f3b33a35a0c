// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Quantities of memory and of the host's pace: streams on the device, copies to and from pinned
 * host memory, launches.
 */
#include "quantity.h"
#include "stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- streams ---- */

static const float triad_factor = 3.0F;
/* More than caches of 128 MiB hold, down to some hundred kilobytes a set. */
enum { MOST_SETS = 1024 };

__global__ void __launch_bounds__(BLOCK_THREADS)
    copy_packs(float4 *__restrict__ to, const float4 *__restrict__ from, size_t packs) {
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < packs; i += stride)
        to[i] = from[i];
}

__global__ void __launch_bounds__(BLOCK_THREADS)
    triad_packs(float4 *__restrict__ to, const float4 *__restrict__ from,
                const float4 *__restrict__ more, size_t packs, float factor) {
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < packs; i += stride) {
        const float4 a = from[i], b = more[i];
        to[i] = {a.x + factor * b.x, a.y + factor * b.y, a.z + factor * b.z, a.w + factor * b.w};
    }
}

enum { FROM_SERIES = 1, MORE_SERIES };

struct stream_blocks stream_take(struct probe *p, size_t bytes, bool is_triad) {
    struct stream_blocks b = {};
    const size_t blocks = is_triad ? 3 : 2;
    b.packs = bytes / (blocks * sizeof(float4));
    if (b.packs == 0)
        probe_refuse(REFUSED_UNSUPPORTED, "%zu bytes are less than 16 a block", bytes);
    const size_t sets = 1 + 2 * (size_t)p->properties.l2CacheSize / bytes;
    b.sets = (unsigned)(sets < MOST_SETS ? sets : (size_t)MOST_SETS);
    const size_t floats = 4 * b.packs * b.sets;
    b.to = (float4 *)device_zeros(p, floats * sizeof(float));
    b.from = (float4 *)device_series(p, floats, FROM_SERIES, 1, FP32);
    b.more = is_triad ? (float4 *)device_series(p, floats, MORE_SERIES, 1, FP32) : NULL;
    return b;
}

void stream_queue(struct probe *p, const struct stream_blocks *b, cudaStream_t stream) {
    const size_t at = p->turn % b->sets * b->packs;
    const unsigned blocks = device_blocks(p, b->packs);
    if (b->more)
        triad_packs<<<blocks, BLOCK_THREADS, 0, stream>>>(b->to + at, b->from + at, b->more + at,
                                                          b->packs, triad_factor);
    else
        copy_packs<<<blocks, BLOCK_THREADS, 0, stream>>>(b->to + at, b->from + at, b->packs);
    LAUNCH_CHECK();
}

static void queue_stream(struct probe *p, void *context) {
    stream_queue(p, (const struct stream_blocks *)context, p->stream);
}

static bool is_word(const struct sample *asked, const char *key, const char *word) {
    return strcmp(asked_word(asked, key), word) == 0;
}

static void measure_stream(struct probe *p, const struct sample *asked, struct measured *out) {
    const size_t bytes = (size_t)asked_value(asked, "bytes");
    struct stream_blocks blocks = stream_take(p, bytes, is_word(asked, "op", "triad"));
    struct work work = {};
    work.queue = queue_stream;
    work.context = &blocks;
    work.calls = CALLS_FILL;
    timing_measure(p, &work, &out->timing);
    out->how = "own kernel";
    measured_add(out, "bytes_per_s", (double)bytes / out->timing.time_s.median);
}

static void check_stream(struct probe *p, const struct sample *asked) {
    const bool is_triad = is_word(asked, "op", "triad");
    const struct stream_blocks b = stream_take(p, 48 * 10007, is_triad);
    const size_t floats = 4 * b.packs;
    float *const want = host_series(floats, FROM_SERIES, 1, FP32);
    const float *const more = host_series(floats, MORE_SERIES, 1, FP32);
    for (size_t i = 0; is_triad && i < floats; ++i)
        want[i] += triad_factor * more[i];
    p->turn = 0;
    stream_queue(p, &b, p->stream);
    float *const got = device_read(p, b.to, floats, FP32);
    timing_compare(p, asked_word(asked, "op"), got, want, floats, 0);
    free(got);
}

const struct quantity stream_quantity = {SAMPLE_STREAM, false, measure_stream, check_stream};

/* ---- copies ---- */

enum { DOWN, UP, LOAD, COPY_LANES };

/* Device memory streamed meanwhile: more than the cache holds. */
static const size_t load_bytes = 512UL << 20;

struct traffic {
    char *device_from, *device_to, *host_from, *host_to;
    size_t bytes;
    bool is_down, is_up;
    long loads;
    struct stream_blocks load;
};

static void queue_loads(struct probe *p, void *context) {
    const struct traffic *const t = (const struct traffic *)context;
    for (long i = 0; i < t->loads; ++i)
        stream_queue(p, &t->load, p->lane[LOAD]);
}

static void queue_traffic(struct probe *p, void *context) {
    const struct traffic *const t = (const struct traffic *)context;
    queue_loads(p, context);
    if (t->is_down)
        CUDA_CHECK(cudaMemcpyAsync(t->host_to, t->device_from, t->bytes, cudaMemcpyDeviceToHost,
                                   p->lane[DOWN]));
    if (t->is_up)
        CUDA_CHECK(cudaMemcpyAsync(t->device_to, t->host_from, t->bytes, cudaMemcpyHostToDevice,
                                   p->lane[UP]));
}

static struct traffic make_traffic(struct probe *p, const struct sample *asked, size_t bytes) {
    struct traffic t = {};
    t.bytes = bytes;
    t.is_down = !is_word(asked, "direction", "to_device");
    t.is_up = !is_word(asked, "direction", "to_host");
    t.device_from = t.is_down ? (char *)device_zeros(p, bytes) : NULL;
    t.device_to = t.is_up ? (char *)device_zeros(p, bytes) : NULL;
    t.host_to = t.is_down ? (char *)pinned_take(bytes) : NULL;
    t.host_from = t.is_up ? (char *)pinned_take(bytes) : NULL;
    if (t.is_up)
        memset(t.host_from, 1, bytes);
    if (is_word(asked, "load", "stream"))
        t.load = stream_take(p, load_bytes, false);
    return t;
}

static struct work work_of(struct traffic *t) {
    struct work work = {};
    work.queue = queue_traffic;
    work.context = t;
    work.lanes = COPY_LANES;
    return work;
}

/* So many that the copies end first. */
static long loads_for(struct probe *p, struct traffic *t, double copies_s) {
    struct timing timing;
    struct work work = work_of(t);
    t->loads = 1;
    work.queue = queue_loads;
    timing_measure(p, &work, &timing);
    return 2 + (long)ceil(2 * copies_s / timing.time_s.median);
}

static const struct spread *slower_copy(const struct traffic *t, const struct timing *timing) {
    const struct spread *const down = &timing->lane_s[DOWN], *const up = &timing->lane_s[UP];
    return t->is_down && (!t->is_up || down->median > up->median) ? down : up;
}

static void measure_host_copy(struct probe *p, const struct sample *asked, struct measured *out) {
    struct traffic t = make_traffic(p, asked, (size_t)asked_value(asked, "bytes"));
    struct work work = work_of(&t);
    struct timing timing;
    work.calls = CALLS_FILL;
    timing_measure(p, &work, &timing);
    if (t.load.packs > 0) {
        t.loads = loads_for(p, &t, slower_copy(&t, &timing)->median);
        work.calls = 1;
        timing_measure(p, &work, &timing);
    }
    out->timing = timing;
    out->timing.time_s = *slower_copy(&t, &timing);
    out->how = "copy engine";
    if (t.is_down)
        measured_add(out, "to_host_s", timing.lane_s[DOWN].median);
    if (t.is_up)
        measured_add(out, "to_device_s", timing.lane_s[UP].median);
}

static void compare_bytes(struct probe *p, const char *what, const char *got, const char *want,
                          size_t bytes) {
    float *const a = (float *)host_take(bytes * sizeof *a);
    float *const b = (float *)host_take(bytes * sizeof *b);
    for (size_t i = 0; i < bytes; ++i) {
        a[i] = (float)got[i];
        b[i] = (float)want[i];
    }
    timing_compare(p, what, a, b, bytes, 0);
}

static void check_host_copy(struct probe *p, const struct sample *asked) {
    const size_t bytes = 1000003;
    struct traffic t = make_traffic(p, asked, bytes);
    char *const want = (char *)host_take(bytes), *const got = (char *)host_take(bytes);
    for (size_t i = 0; i < bytes; ++i)
        want[i] = (char)(127.0F * random_at(1, i));
    CUDA_CHECK(cudaDeviceSynchronize());
    if (t.is_up)
        memcpy(t.host_from, want, bytes);
    if (t.is_down)
        CUDA_CHECK(cudaMemcpy(t.device_from, want, bytes, cudaMemcpyHostToDevice));
    t.loads = t.load.packs > 0 ? 1 : 0;
    CUDA_CHECK(cudaDeviceSynchronize());
    queue_traffic(p, &t);
    CUDA_CHECK(cudaDeviceSynchronize());
    if (t.is_down)
        compare_bytes(p, "to_host", t.host_to, want, bytes);
    if (t.is_up) {
        CUDA_CHECK(cudaMemcpy(got, t.device_to, bytes, cudaMemcpyDeviceToHost));
        compare_bytes(p, "to_device", got, want, bytes);
    }
}

const struct quantity host_copy_quantity = {SAMPLE_HOST_COPY, false, measure_host_copy,
                                            check_host_copy};

/* ---- launches ---- */

enum { GRAPH_MOST = 1 << 16, HELD_MOST = 500 };

/* Does nothing without a counter. */
__global__ void touch(int *counter) {
    if (counter)
        atomicAdd(counter, 1);
}

struct launches {
    long kernels;
    int *counter;
    cudaGraphExec_t graph; /* or NULL */
};

static void queue_kernels(struct probe *p, void *context) {
    const struct launches *const l = (const struct launches *)context;
    for (long i = 0; i < l->kernels; ++i)
        touch<<<1, 1, 0, p->stream>>>(l->counter);
    LAUNCH_CHECK();
}

static void queue_graph(struct probe *p, void *context) {
    CUDA_CHECK(cudaGraphLaunch(((const struct launches *)context)->graph, p->stream));
}

static void make_graph(struct probe *p, struct launches *l) {
    cudaGraph_t graph = NULL;
    if (l->kernels > GRAPH_MOST)
        probe_refuse(REFUSED_UNSUPPORTED, "a graph of %d kernels at most", (int)GRAPH_MOST);
    CUDA_CHECK(cudaStreamBeginCapture(p->stream, cudaStreamCaptureModeThreadLocal));
    queue_kernels(p, l);
    CUDA_CHECK(cudaStreamEndCapture(p->stream, &graph));
    const cudaError_t made = cudaGraphInstantiate(&l->graph, graph, 0);
    (void)cudaGraphDestroy(graph);
    CUDA_CHECK(made);
}

static void scale(struct spread *spread, double factor) {
    spread->median *= factor;
    spread->least *= factor;
    spread->most *= factor;
}

/* On the device alone, back to back: what the host's pace hides. */
static double held_gap_s(struct probe *p, const struct launches *whole) {
    struct launches l = *whole;
    struct timing timing;
    struct work work = {};
    l.kernels = l.kernels < HELD_MOST ? l.kernels : (long)HELD_MOST;
    work.queue = queue_kernels;
    work.context = &l;
    timing_measure(p, &work, &timing);
    return timing.time_s.median / (double)l.kernels;
}

static void measure_launch(struct probe *p, const struct sample *asked, struct measured *out) {
    struct launches l = {asked_value(asked, "kernels"), NULL, NULL};
    struct work work = {};
    work.context = &l;
    work.is_free = true;
    work.queue = asked_value(asked, "graph") ? queue_graph : queue_kernels;
    if (work.queue == queue_graph)
        make_graph(p, &l);
    timing_measure(p, &work, &out->timing);
    if (l.graph)
        (void)cudaGraphExecDestroy(l.graph);
    scale(&out->timing.time_s, 1 / (double)l.kernels);
    scale(&out->timing.queue_s, 1 / (double)l.kernels);
    out->how = l.graph ? "one graph launch" : "a launch a kernel";
    measured_add(out, "device_gap_s", held_gap_s(p, &l));
}

static void check_launch(struct probe *p, const struct sample *asked) {
    struct launches l = {113, (int *)device_zeros(p, sizeof *l.counter), NULL};
    CUDA_CHECK(cudaStreamSynchronize(p->stream));
    if (asked_value(asked, "graph")) {
        make_graph(p, &l);
        queue_graph(p, &l);
    } else {
        queue_kernels(p, &l);
    }
    int count = 0;
    CUDA_CHECK(cudaStreamSynchronize(p->stream));
    CUDA_CHECK(cudaMemcpy(&count, l.counter, sizeof count, cudaMemcpyDeviceToHost));
    if (l.graph)
        (void)cudaGraphExecDestroy(l.graph);
    const float got = (float)count, want = (float)l.kernels;
    timing_compare(p, "kernels run", &got, &want, 1, 0);
}

const struct quantity launch_quantity = {SAMPLE_LAUNCH, false, measure_launch, check_launch};
