// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Quantities of matrix products: one, one an expert, and one at the end of a long loop, when clocks
 * have settled under power and heat.
 */
#include "clock.h"
#include "device.h"
#include "lt.h"
#include "quantity.h"

#include <math.h>
#include <string.h>

static const struct lt_format *format_asked(const struct sample *asked) {
    const char *const name = asked_word(asked, "dtype");
    const struct lt_format *const format = lt_format_of(name);
    if (!format)
        probe_refuse(REFUSED_UNSUPPORTED, "no products of %s in this toolkit", name);
    return format;
}

static enum lt_pass pass_asked(const struct sample *asked) {
    const char *const pass = asked_word(asked, "pass");
    return strcmp(pass, "forward") == 0         ? LT_FORWARD
           : strcmp(pass, "backward_data") == 0 ? LT_BACKWARD_DATA
                                                : LT_BACKWARD_WEIGHT;
}

static void queue_product(struct probe *p, void *context) {
    lt_queue(p, (const struct lt_product *)context, p->stream);
}

static void time_product(struct probe *p, struct lt_product *product, const struct lt_shape *shape,
                         struct timing *out) {
    struct work work = {};
    work.queue = queue_product;
    work.context = product;
    work.flop = lt_flop(shape);
    work.lanes = shape->loop > 1 ? PROBE_LANES : 0;
    work.calls = CALLS_FILL;
    try {
        timing_measure(p, &work, out);
    } catch (...) {
        lt_free(product);
        throw;
    }
}

/* ---- one product ---- */

static struct lt_shape shape_asked(const struct sample *asked, enum lt_pass pass) {
    return {format_asked(asked),
            pass,
            asked_value(asked, "m"),
            asked_value(asked, "n"),
            asked_value(asked, "k"),
            1,
            1};
}

/* Whole in every block of scales. */
static struct lt_shape shape_of_check(const struct sample *asked, enum lt_pass pass) {
    return {format_asked(asked), pass, 384, 256, 128, 1, 1};
}

static void measure_gemm(struct probe *p, const struct sample *asked, struct measured *out) {
    const struct lt_shape shape = shape_asked(asked, pass_asked(asked));
    struct lt_product *const product = lt_make(p, &shape);
    time_product(p, product, &shape, &out->timing);
    lt_free(product);
    out->how = "cublasLt";
    measured_add(out, "flop_per_s", lt_flop(&shape) / out->timing.time_s.median);
}

static void check_gemm(struct probe *p, const struct sample *asked) {
    const struct lt_shape shape = shape_of_check(asked, pass_asked(asked));
    lt_check(p, &shape);
}

const struct quantity gemm_quantity = {SAMPLE_GEMM, false, measure_gemm, check_gemm};

/* ---- experts ---- */

/* As one batch, or where scales stand in the way, a call an expert over several streams. */
static struct lt_product *make_grouped(struct probe *p, struct lt_shape *shape) {
    const long experts = shape->batch;
    if (shape->format->scaling == LT_UNSCALED)
        return lt_make(p, shape);
    shape->batch = 1;
    shape->loop = experts;
    return lt_make(p, shape);
}

static void measure_grouped(struct probe *p, const struct sample *asked, struct measured *out) {
    struct lt_shape shape = {format_asked(asked),
                             pass_asked(asked),
                             asked_value(asked, "rows"),
                             asked_value(asked, "n"),
                             asked_value(asked, "k"),
                             asked_value(asked, "experts"),
                             1};
    struct lt_product *const product = make_grouped(p, &shape);
    time_product(p, product, &shape, &out->timing);
    lt_free(product);
    out->how = shape.loop > 1 ? "cublasLt, a call an expert" : "cublasLt, one batch";
    measured_add(out, "flop_per_s", lt_flop(&shape) / out->timing.time_s.median);
}

static void check_grouped(struct probe *p, const struct sample *asked) {
    struct lt_shape shape = shape_of_check(asked, pass_asked(asked));
    shape.m = 128;
    *(shape.format->scaling == LT_UNSCALED ? &shape.batch : &shape.loop) = 5;
    lt_check(p, &shape);
}

const struct quantity grouped_gemm_quantity = {SAMPLE_GROUPED_GEMM, false, measure_grouped,
                                               check_grouped};

/* ---- a long loop ---- */

/* A batch of products between two events; the queue holds two. */
static const double batch_s = 20e-3;
enum { IN_FLIGHT = 2, EVENTS = IN_FLIGHT + 1 };

struct loop {
    struct lt_product *product;
    double seconds;
    int per_batch;
    double *last; /* seconds of a product in the last batches, a ring */
    int kept;
    long batches;
    struct clock_reading at_end;
};

static void run_loop(struct probe *p, struct loop *l) {
    cudaEvent_t ends[EVENTS];
    for (cudaEvent_t &end : ends)
        end = event_take(true);
    const double from = timing_clock_s();
    CUDA_CHECK(cudaEventRecord(ends[0], p->stream));
    for (long i = 1; timing_clock_s() - from < l->seconds || i <= l->kept + IN_FLIGHT; ++i) {
        for (int j = 0; j < l->per_batch; ++j, ++p->turn)
            lt_queue(p, l->product, p->stream);
        CUDA_CHECK(cudaEventRecord(ends[i % EVENTS], p->stream));
        if (i < IN_FLIGHT)
            continue;
        const long done = i - IN_FLIGHT + 1; /* this one's end and the one before are reused next */
        float ms = 0;
        CUDA_CHECK(cudaEventSynchronize(ends[done % EVENTS]));
        CUDA_CHECK(cudaEventElapsedTime(&ms, ends[(done - 1) % EVENTS], ends[done % EVENTS]));
        l->last[l->batches++ % l->kept] = 1e-3 * (double)ms / l->per_batch;
        l->at_end = clock_read(p);
    }
    CUDA_CHECK(cudaStreamSynchronize(p->stream));
}

static void measure_sustained(struct probe *p, const struct sample *asked, struct measured *out) {
    const struct lt_shape shape = shape_asked(asked, LT_FORWARD);
    struct lt_product *const product = lt_make(p, &shape);
    struct timing burst;
    time_product(p, product, &shape, &burst);
    struct loop loop = {};
    loop.product = product;
    loop.seconds = (double)asked_value(asked, "seconds");
    loop.per_batch = (int)fmin(fmax(batch_s / burst.time_s.median, 1), 1000);
    loop.kept = p->repeats;
    loop.last = (double *)host_take((size_t)loop.kept * sizeof *loop.last);
    try {
        run_loop(p, &loop);
    } catch (...) {
        lt_free(product);
        throw;
    }
    lt_free(product);
    out->timing.time_s = timing_spread(loop.last, loop.kept);
    out->how = "cublasLt";
    measured_add(out, "burst_s", burst.time_s.median);
    measured_add(out, "burst_least_s", burst.time_s.least);
    measured_add(out, "flop_per_s", lt_flop(&shape) / out->timing.time_s.median);
    measured_add(out, "loaded_clock_hz", loop.at_end.sm_hz);
    measured_add(out, "loaded_power_w", loop.at_end.power_w);
    measured_add(out, "loaded_temperature_c", loop.at_end.temperature_c);
}

static void check_sustained(struct probe *p, const struct sample *asked) {
    const struct lt_shape shape = shape_of_check(asked, LT_FORWARD);
    lt_check(p, &shape);
}

const struct quantity sustained_quantity = {SAMPLE_SUSTAINED, false, measure_sustained,
                                            check_sustained};
