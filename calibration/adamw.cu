// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Inner loop of the streamed optimizer (OffloadStreamAdamW, arXiv 2609.14306): buckets of FP32
 * state that lies on the host pass through slots on the device; copies up, the fused update with
 * the bf16 weight, and copies down run on three streams.  A slot is filled again once its copies
 * down are done.  Formulas in src/exec/adamw_stream.h; the update is compiled without contraction
 * and is bit for bit that of the executor.
 */
#include "device.h"
#include "quantity.h"

extern "C" {
#include "exec/adamw_stream.h"
}

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMS, BUCKET, SLOTS };
enum { MOST_SLOTS = 16 };

static const struct probe_key keys[] = {
    {"params", "parameters of the rank; 16 bytes of pinned host memory each", 1L << 28, 10007, 1,
     1L << 34, NULL},
    {"bucket", "parameters of a bucket", 1L << 25, 1009, 1, 1L << 34, NULL},
    {"slots", "buckets on the device, 16 bytes a parameter", 2, 3, 1, MOST_SLOTS, NULL},
};

struct update {
    float rate, beta1, beta2, epsilon, decay, scale;
    float correct1, correct2; /* 1 - beta^step */
};

struct slot {
    float *master, *mean, *square, *gradient;
};

__global__ void update_bucket(const struct update a, const struct slot s, __nv_bfloat16 *weight,
                              size_t params) {
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < params; i += stride) {
        const float g = s.gradient[i] * a.scale;
        const float mean = a.beta1 * s.mean[i] + (1.0F - a.beta1) * g;
        const float square = a.beta2 * s.square[i] + (1.0F - a.beta2) * g * g;
        const float kept = s.master[i] - a.rate * a.decay * s.master[i];
        const float moved = mean / a.correct1 / (sqrtf(square / a.correct2) + a.epsilon);
        const float master = kept - a.rate * moved;
        s.mean[i] = mean;
        s.square[i] = square;
        s.master[i] = master;
        weight[i] = __float2bfloat16_rn(master);
    }
}

/* ---- the stream ---- */

enum { UP, UPDATE, DOWN, LANES };

struct stream {
    struct update update;
    size_t params, bucket;
    int slots;
    struct slot host; /* pinned */
    struct slot slot[MOST_SLOTS];
    __nv_bfloat16 *weight;
    cudaEvent_t filled[MOST_SLOTS], updated[MOST_SLOTS], emptied[MOST_SLOTS];
};

static size_t bucket_params(const struct stream *s, size_t bucket) {
    const size_t at = bucket * s->bucket;
    return s->params - at < s->bucket ? s->params - at : s->bucket;
}

static void copy(float *to, const float *from, size_t count, cudaStream_t stream) {
    CUDA_CHECK(cudaMemcpyAsync(to, from, count * sizeof *to, cudaMemcpyDefault, stream));
}

static void fill(struct probe *p, const struct stream *s, size_t bucket) {
    const struct slot *const slot = &s->slot[bucket % (size_t)s->slots];
    const size_t at = bucket * s->bucket, params = bucket_params(s, bucket);
    copy(slot->master, s->host.master + at, params, p->lane[UP]);
    copy(slot->mean, s->host.mean + at, params, p->lane[UP]);
    copy(slot->square, s->host.square + at, params, p->lane[UP]);
    copy(slot->gradient, s->host.gradient + at, params, p->lane[UP]);
}

static void write_back(struct probe *p, const struct stream *s, size_t bucket) {
    const struct slot *const slot = &s->slot[bucket % (size_t)s->slots];
    const size_t at = bucket * s->bucket, params = bucket_params(s, bucket);
    copy(s->host.master + at, slot->master, params, p->lane[DOWN]);
    copy(s->host.mean + at, slot->mean, params, p->lane[DOWN]);
    copy(s->host.square + at, slot->square, params, p->lane[DOWN]);
}

static void queue_update(const struct probe *p, const struct stream *s, size_t bucket,
                         cudaStream_t stream) {
    const size_t params = bucket_params(s, bucket);
    update_bucket<<<device_blocks(p, params), BLOCK_THREADS, 0, stream>>>(
        s->update, s->slot[bucket % (size_t)s->slots], s->weight + bucket * s->bucket, params);
    LAUNCH_CHECK();
}

static void queue_step(struct probe *p, void *context) {
    const struct stream *const s = (const struct stream *)context;
    for (size_t i = 0; i * s->bucket < s->params; ++i) {
        const size_t slot = i % (size_t)s->slots;
        if (i >= (size_t)s->slots)
            CUDA_CHECK(cudaStreamWaitEvent(p->lane[UP], s->emptied[slot], 0));
        fill(p, s, i);
        CUDA_CHECK(cudaEventRecord(s->filled[slot], p->lane[UP]));
        CUDA_CHECK(cudaStreamWaitEvent(p->lane[UPDATE], s->filled[slot], 0));
        queue_update(p, s, i, p->lane[UPDATE]);
        CUDA_CHECK(cudaEventRecord(s->updated[slot], p->lane[UPDATE]));
        CUDA_CHECK(cudaStreamWaitEvent(p->lane[DOWN], s->updated[slot], 0));
        write_back(p, s, i);
        CUDA_CHECK(cudaEventRecord(s->emptied[slot], p->lane[DOWN]));
    }
}

/* Parts alone, of the first bucket. */
static void queue_first_update(struct probe *p, void *context) {
    queue_update(p, (const struct stream *)context, 0, p->lane[0]);
}
static void queue_first_up(struct probe *p, void *context) {
    fill(p, (const struct stream *)context, 0);
}
static void queue_first_down(struct probe *p, void *context) {
    write_back(p, (const struct stream *)context, 0);
}

/* ---- data ---- */

/* Figures of a usual run; clipping is on. */
static const struct adamw usual = {1e-3F, 0.9F, 0.95F, 1e-8F, 0.1F, 3, 0.5F};

static struct update update_of(const struct adamw *a) {
    return {a->rate,
            a->beta1,
            a->beta2,
            a->epsilon,
            a->decay,
            a->gradient_scale,
            (float)(1.0 - pow((double)a->beta1, (double)a->step)),
            (float)(1.0 - pow((double)a->beta2, (double)a->step))};
}

/* Any values do, but for the square, which has no sign. */
static void make_state(const struct slot *host, size_t params) {
    host_random(host->master, params, 1, 0.1F, FP32);
    host_random(host->mean, params, 2, 1e-2F, FP32);
    host_random(host->square, params, 3, 1e-4F, FP32);
    host_random(host->gradient, params, 4, 1e-1F, FP32);
    for (size_t i = 0; i < params; ++i)
        host->square[i] = fabsf(host->square[i]);
}

static void make_stream(const struct probe *p, struct stream *s) {
    *s = {};
    s->update = update_of(&usual);
    s->params = (size_t)p->values[PARAMS];
    s->bucket = (size_t)p->values[BUCKET] < s->params ? (size_t)p->values[BUCKET] : s->params;
    s->slots = (int)p->values[SLOTS];
    const size_t bytes = s->params * sizeof(float);
    s->host = {(float *)pinned_take(bytes), (float *)pinned_take(bytes),
               (float *)pinned_take(bytes), (float *)pinned_take(bytes)};
    make_state(&s->host, s->params);
    s->weight = (__nv_bfloat16 *)device_take(s->params * sizeof *s->weight);
    for (int i = 0; i < s->slots; ++i) {
        float *const block = (float *)device_take(4 * s->bucket * sizeof(float));
        s->slot[i] = {block, block + s->bucket, block + 2 * s->bucket, block + 3 * s->bucket};
        s->filled[i] = event_take(false);
        s->updated[i] = event_take(false);
        s->emptied[i] = event_take(false);
    }
}

static void run(struct probe *p) {
    static struct stream s;
    make_stream(p, &s);
    const double bucket = (double)s.bucket, params = (double)s.params;
    /* The update reads 16 bytes of a parameter and writes 12 and the weight; 16 go up, 12 down. */
    const struct work works[] = {
        {"up", queue_first_up, &s, 0, 16 * bucket, 1, {}},
        {"update", queue_first_update, &s, 0, 30 * bucket, 1, {}},
        {"down", queue_first_down, &s, 0, 12 * bucket, LANES, {}},
        {"stream", queue_step, &s, 0, 28 * params, LANES, {"up_s", "update_s", "down_s"}},
    };
    for (const struct work &work : works)
        timing_take(p, &work);
}

/* ---- against the executor ---- */

static void check(struct probe *p) {
    static struct stream s;
    make_stream(p, &s);
    const size_t n = s.params;
    float *const want = (float *)malloc(4 * n * sizeof(float));
    float *const want_weight = (float *)malloc(n * sizeof(float));
    uint16_t *const bits = (uint16_t *)malloc(n * sizeof(uint16_t));
    if (!want || !want_weight || !bits)
        probe_die(MOSAIC_INTERNAL, "out of memory");
    const struct slot copies = {want, want + n, want + 2 * n, want + 3 * n};
    make_state(&copies, n);
    const struct adamw_state state = {
        n, copies.master, copies.mean, copies.square, copies.gradient, bits};
    adamw_resident(&usual, &state);
    for (size_t i = 0; i < n; ++i) {
        const uint32_t widened = (uint32_t)bits[i] << 16;
        memcpy(&want_weight[i], &widened, sizeof widened);
    }
    queue_step(p, &s);
    CUDA_CHECK(cudaDeviceSynchronize());
    float *const weight = device_read(p, s.weight, n, BF16);
    timing_compare(p, "master", s.host.master, copies.master, n, 0);
    timing_compare(p, "mean", s.host.mean, copies.mean, n, 0);
    timing_compare(p, "square", s.host.square, copies.square, n, 0);
    timing_compare(p, "weight", weight, want_weight, n, 0);
    free(weight);
    free(bits);
    free(want_weight);
    free(want);
}

const struct probe_kind adamw_probe = {
    "schedule",
    "adamw",
    "AdamW over buckets that pass through slots",
    keys,
    sizeof keys / sizeof *keys,
    run,
    check,
};

/* ---- the quantity: all state on the device, a kernel a bucket ---- */

struct resident {
    struct update update;
    size_t params, buckets;
    struct slot state;
    __nv_bfloat16 *weight;
};

static void queue_resident(struct probe *p, void *context) {
    const struct resident *const r = (const struct resident *)context;
    for (size_t i = 0; i < r->buckets; ++i) {
        const size_t at = r->params * i / r->buckets;
        const size_t params = r->params * (i + 1) / r->buckets - at;
        const struct slot part = {r->state.master + at, r->state.mean + at, r->state.square + at,
                                  r->state.gradient + at};
        update_bucket<<<device_blocks(p, params), BLOCK_THREADS, 0, p->stream>>>(
            r->update, part, r->weight + at, params);
    }
    LAUNCH_CHECK();
}

static struct resident take_resident(size_t params, size_t buckets) {
    if (buckets > params)
        probe_refuse(REFUSED_UNSUPPORTED, "%zu buckets of %zu parameters", buckets, params);
    float *const block = (float *)device_take(4 * params * sizeof(float));
    return {update_of(&usual),
            params,
            buckets,
            {block, block + params, block + 2 * params, block + 3 * params},
            (__nv_bfloat16 *)device_take(params * sizeof(__nv_bfloat16))};
}

static void measure_resident(struct probe *p, const struct sample *asked, struct measured *out) {
    struct resident r = take_resident((size_t)asked_value(asked, "parameters"),
                                      (size_t)asked_value(asked, "buckets"));
    struct work work = {};
    work.queue = queue_resident;
    work.context = &r;
    CUDA_CHECK(cudaMemsetAsync(r.state.master, 0, 3 * r.params * sizeof(float), p->stream));
    device_random(p, r.state.gradient, r.params, 4, 1e-1F, FP32);
    timing_measure(p, &work, &out->timing);
    out->how = "own kernel, a launch a bucket";
    /* 16 bytes of state read, 12 and a weight of two written. */
    measured_add(out, "bytes_per_s", 30.0 * (double)r.params / out->timing.time_s.median);
}

static void check_resident(struct probe *p, const struct sample *) {
    const size_t n = 10007;
    const struct resident r = take_resident(n, 3);
    float *const want = (float *)host_take(4 * n * sizeof(float));
    uint16_t *const bits = (uint16_t *)host_take(n * sizeof(uint16_t));
    const struct slot copies = {want, want + n, want + 2 * n, want + 3 * n};
    make_state(&copies, n);
    CUDA_CHECK(cudaMemcpy(r.state.master, want, 4 * n * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaDeviceSynchronize());
    queue_resident(p, (void *)&r);
    const struct adamw_state state = {
        n, copies.master, copies.mean, copies.square, copies.gradient, bits};
    adamw_resident(&usual, &state);
    float *const got = device_read(p, r.state.master, 3 * n, FP32);
    timing_compare(p, "state", got, want, 3 * n, 0);
    free(got);
}

const struct quantity adamw_quantity = {SAMPLE_ADAMW, false, measure_resident, check_resident};
