// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Quantities among ranks: collectives of NCCL in bf16, and a product with a collective under it.
 * `bytes` is the whole buffer on one rank: of all-gather what it ends with, of reduce-scatter what
 * it begins with, of all-to-all all that a rank sends, its own share among it; point to point every
 * rank sends as much to the next one and receives it from the one before.  All ranks are asked the
 * same, meet on the device before each round, and run it equally often.
 */
#include "quantity.h"

#ifdef PROBE_NCCL

#include "device.h"
#include "group.h"
#include "lt.h"

#include <stdlib.h>
#include <string.h>

enum kind { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, POINT_TO_POINT, KINDS };
static const char *const kind_words[KINDS] = {"all_reduce", "all_gather", "reduce_scatter",
                                              "all_to_all", "point_to_point"};

struct exchange {
    enum kind kind;
    size_t count; /* elements of the whole buffer, whole in ranks */
    int rank, ranks;
    ncclComm_t comm;
    __nv_bfloat16 *from, *to;
};

static enum kind kind_asked(const struct sample *asked) {
    const char *const word = asked_word(asked, "kind");
    for (int i = 0; i < KINDS; ++i)
        if (strcmp(kind_words[i], word) == 0)
            return (enum kind)i;
    probe_refuse(REFUSED_UNSUPPORTED, "no collective '%s'", word);
}

static struct exchange take_exchange(struct probe *p, enum kind kind, size_t bytes) {
    const struct group *const g = p->group;
    const size_t ranks = (size_t)g->place.ranks;
    const size_t each = bytes / sizeof(__nv_bfloat16) / ranks;
    if (each == 0)
        probe_refuse(REFUSED_UNSUPPORTED, "%zu bytes are less than an element a rank", bytes);
    struct exchange x = {kind, each * ranks, g->place.rank, g->place.ranks, g->comm, NULL, NULL};
    x.from = (__nv_bfloat16 *)device_zeros(p, x.count * sizeof *x.from);
    x.to = (__nv_bfloat16 *)device_zeros(p, x.count * sizeof *x.to);
    return x;
}

static void queue_all_to_all(const struct exchange *x, cudaStream_t stream) {
    const size_t each = x->count / (size_t)x->ranks;
    NCCL_CHECK(ncclGroupStart());
    for (int i = 0; i < x->ranks; ++i) {
        const size_t at = (size_t)i * each;
        NCCL_CHECK(ncclSend(x->from + at, each, ncclBfloat16, i, x->comm, stream));
        NCCL_CHECK(ncclRecv(x->to + at, each, ncclBfloat16, i, x->comm, stream));
    }
    NCCL_CHECK(ncclGroupEnd());
}

static void queue_next(const struct exchange *x, cudaStream_t stream) {
    const int next = (x->rank + 1) % x->ranks, before = (x->rank + x->ranks - 1) % x->ranks;
    NCCL_CHECK(ncclGroupStart());
    NCCL_CHECK(ncclSend(x->from, x->count, ncclBfloat16, next, x->comm, stream));
    NCCL_CHECK(ncclRecv(x->to, x->count, ncclBfloat16, before, x->comm, stream));
    NCCL_CHECK(ncclGroupEnd());
}

static void queue_exchange(const struct exchange *x, cudaStream_t stream) {
    const size_t each = x->count / (size_t)x->ranks;
    switch (x->kind) {
    case ALL_REDUCE:
        NCCL_CHECK(ncclAllReduce(x->from, x->to, x->count, ncclBfloat16, ncclSum, x->comm, stream));
        break;
    case ALL_GATHER:
        NCCL_CHECK(ncclAllGather(x->from, x->to, each, ncclBfloat16, x->comm, stream));
        break;
    case REDUCE_SCATTER:
        NCCL_CHECK(ncclReduceScatter(x->from, x->to, each, ncclBfloat16, ncclSum, x->comm, stream));
        break;
    case ALL_TO_ALL:
        queue_all_to_all(x, stream);
        break;
    case POINT_TO_POINT:
    case KINDS:
        queue_next(x, stream);
        break;
    }
}

static void queue_alone(struct probe *p, void *context) {
    queue_exchange((const struct exchange *)context, p->stream);
}

static void meet(struct probe *p, void *) {
    group_barrier(p);
}

/* Of the bytes alone, so that all ranks agree: a round lasts some hundreds of microseconds. */
static int calls_for(size_t bytes) {
    return bytes <= 1UL << 20 ? 20 : bytes <= 64UL << 20 ? 5 : 1;
}

static void measure_collective(struct probe *p, const struct sample *asked, struct measured *out) {
    const size_t bytes = (size_t)asked_value(asked, "bytes");
    struct exchange x = take_exchange(p, kind_asked(asked), bytes);
    struct work work = {};
    work.queue = queue_alone;
    work.prepare = meet;
    work.context = &x;
    work.calls = calls_for(bytes);
    timing_measure(p, &work, &out->timing);
    out->how = "NCCL, bf16";
    measured_add(out, "bytes_per_s", (double)bytes / out->timing.time_s.median);
}

/* ---- the data ---- */

enum { EACH_OF_CHECK = 1009 };

/* Small whole numbers, other ones on each rank. */
static float value_at(int rank, size_t i) {
    return (float)((i + 3 * (size_t)rank) % 5);
}

static float sum_at(int ranks, size_t i) {
    float sum = 0;
    for (int r = 0; r < ranks; ++r)
        sum += value_at(r, i);
    return sum;
}

/* Element i of what the rank ends with; how many there are. */
static float wanted_at(const struct exchange *x, size_t i) {
    const size_t each = x->count / (size_t)x->ranks, at = (size_t)x->rank * each;
    switch (x->kind) {
    case ALL_REDUCE:
        return sum_at(x->ranks, i);
    case ALL_GATHER:
        return value_at((int)(i / each), i % each);
    case REDUCE_SCATTER:
        return sum_at(x->ranks, at + i);
    case ALL_TO_ALL:
        return value_at((int)(i / each), at + i % each);
    case POINT_TO_POINT:
    case KINDS:
        break;
    }
    return value_at((x->rank + x->ranks - 1) % x->ranks, i);
}

static void check_exchange(struct probe *p, enum kind kind) {
    const size_t bytes = EACH_OF_CHECK * (size_t)p->group->place.ranks * sizeof(__nv_bfloat16);
    struct exchange x = take_exchange(p, kind, bytes);
    const size_t ends = kind == REDUCE_SCATTER ? (size_t)EACH_OF_CHECK : x.count;
    __nv_bfloat16 *const begin = (__nv_bfloat16 *)host_take(bytes);
    float *const want = (float *)host_take(ends * sizeof *want);
    for (size_t i = 0; i < x.count; ++i)
        begin[i] = __float2bfloat16_rn(value_at(x.rank, i));
    for (size_t i = 0; i < ends; ++i)
        want[i] = wanted_at(&x, i);
    x.from = (__nv_bfloat16 *)device_copy(begin, bytes);
    CUDA_CHECK(cudaDeviceSynchronize());
    queue_exchange(&x, p->stream);
    float *const got = device_read(p, x.to, ends, BF16);
    timing_compare(p, kind_words[kind], got, want, ends, 1e-2); /* sums of many ranks round */
    free(got);
}

static void check_collective(struct probe *p, const struct sample *asked) {
    check_exchange(p, kind_asked(asked));
}

const struct quantity collective_quantity = {SAMPLE_COLLECTIVE, true, measure_collective,
                                             check_collective};

/* ---- a product and a collective ---- */

enum { PRODUCT_LANE, EXCHANGE_LANE, OVERLAP_LANES };

struct overlap {
    struct exchange exchange;
    struct lt_product *product;
    bool has_product, has_exchange;
};

/* The collective first: it needs few multiprocessors, and the product takes all that are left. */
static void queue_overlap(struct probe *p, void *context) {
    const struct overlap *const o = (const struct overlap *)context;
    if (o->has_exchange)
        queue_exchange(&o->exchange, p->lane[EXCHANGE_LANE]);
    if (o->has_product)
        lt_queue(p, o->product, p->lane[PRODUCT_LANE]);
}

static struct lt_shape product_asked(const struct sample *asked) {
    const char *const name = asked_word(asked, "dtype");
    const struct lt_format *const format = lt_format_of(name);
    if (!format)
        probe_refuse(REFUSED_UNSUPPORTED, "no products of %s in this toolkit", name);
    return {format,
            LT_FORWARD,
            asked_value(asked, "m"),
            asked_value(asked, "n"),
            asked_value(asked, "k"),
            1,
            1};
}

static void time_overlap(struct probe *p, struct overlap *o, struct timing *out) {
    struct work work = {};
    work.queue = queue_overlap;
    work.prepare = meet;
    work.context = o;
    work.lanes = OVERLAP_LANES;
    try {
        timing_measure(p, &work, out);
    } catch (...) {
        lt_free(o->product);
        throw;
    }
    lt_free(o->product);
}

static void measure_overlap(struct probe *p, const struct sample *asked, struct measured *out) {
    const char *const part = asked_word(asked, "part");
    const struct lt_shape shape = product_asked(asked);
    struct overlap o = {};
    o.has_product = strcmp(part, "collective") != 0;
    o.has_exchange = strcmp(part, "gemm") != 0;
    o.exchange = take_exchange(p, kind_asked(asked), (size_t)asked_value(asked, "bytes"));
    o.product = lt_make(p, &shape);
    time_overlap(p, &o, &out->timing);
    out->how = "cublasLt and NCCL, bf16, on two streams";
    if (o.has_product)
        measured_add(out, "gemm_s", out->timing.lane_s[PRODUCT_LANE].median);
    if (o.has_exchange)
        measured_add(out, "collective_s", out->timing.lane_s[EXCHANGE_LANE].median);
}

static void check_overlap(struct probe *p, const struct sample *asked) {
    struct lt_shape shape = product_asked(asked);
    shape.m = 384;
    shape.n = 256;
    shape.k = 128;
    lt_check(p, &shape);
    check_exchange(p, kind_asked(asked));
}

const struct quantity overlap_quantity = {SAMPLE_OVERLAP, true, measure_overlap, check_overlap};

#endif
