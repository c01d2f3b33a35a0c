// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The quantity `elementwise`: which arrays each operator reads and writes.  bf16 but for logits,
 * statistics and the router, which are FP32.
 */
#include "elementwise.h"
#include "quantity.h"

#include <stdlib.h>
#include <string.h>

enum extent { NONE, CELLS, TWO_CELLS, COLUMNS, ROWS, PICKS, TURNS, MX_BLOCKS };
enum format { IN_BF16, IN_FP32, IN_BYTES };
enum role { INPUT, OUTPUT, SUM, IN_PLACE }; /* a sum starts at zero */

struct array {
    enum extent extent;
    enum format format;
    enum role role;
};

struct op {
    const char *name;
    bool is_backward;
    int multiple; /* that the width must be whole in */
    elementwise_launch *launch;
    elementwise_on_host *on_host;
    struct array arrays[ELEMENTWISE_ARRAYS];
};

static const struct array x_cells = {CELLS, IN_BF16, INPUT}, y_cells = {CELLS, IN_BF16, OUTPUT};
static const struct array no_array = {NONE, IN_BF16, INPUT};
#define FLOATS(extent, role)                                                                       \
    { extent, IN_FP32, role }

static const struct op ops[] = {
    {"norm",
     false,
     8,
     launch_norm,
     host_norm,
     {x_cells, {COLUMNS, IN_BF16, INPUT}, y_cells, FLOATS(ROWS, OUTPUT), no_array, no_array}},
    {"norm",
     true,
     8,
     launch_norm_backward,
     host_norm_backward,
     {x_cells,
      x_cells,
      {COLUMNS, IN_BF16, INPUT},
      FLOATS(ROWS, INPUT),
      y_cells,
      FLOATS(COLUMNS, SUM)}},
    {"rope",
     false,
     16,
     launch_rope,
     host_rope,
     {x_cells, FLOATS(TURNS, INPUT), y_cells, no_array, no_array, no_array}},
    {"rope",
     true,
     16,
     launch_rope_backward,
     host_rope_backward,
     {x_cells, FLOATS(TURNS, INPUT), y_cells, no_array, no_array, no_array}},
    {"swiglu",
     false,
     8,
     launch_swiglu,
     host_swiglu,
     {{TWO_CELLS, IN_BF16, INPUT}, y_cells, no_array, no_array, no_array, no_array}},
    {"swiglu",
     true,
     8,
     launch_swiglu_backward,
     host_swiglu_backward,
     {{TWO_CELLS, IN_BF16, INPUT},
      x_cells,
      {TWO_CELLS, IN_BF16, OUTPUT},
      no_array,
      no_array,
      no_array}},
    {"router_top_k",
     false,
     1,
     launch_top_k,
     host_top_k,
     {FLOATS(CELLS, INPUT), FLOATS(CELLS, OUTPUT), FLOATS(PICKS, OUTPUT), FLOATS(PICKS, OUTPUT),
      no_array, no_array}},
    {"router_top_k",
     true,
     1,
     launch_top_k_backward,
     host_top_k_backward,
     {FLOATS(CELLS, INPUT), FLOATS(PICKS, INPUT), FLOATS(CELLS, OUTPUT), no_array, no_array,
      no_array}},
    {"permute",
     false,
     8,
     launch_permute,
     host_permute,
     {x_cells, y_cells, no_array, no_array, no_array, no_array}},
    {"permute",
     true,
     8,
     launch_permute_backward,
     host_permute_backward,
     {x_cells, y_cells, no_array, no_array, no_array, no_array}},
    {"cross_entropy",
     false,
     4,
     launch_cross_entropy,
     host_cross_entropy,
     {FLOATS(CELLS, INPUT), FLOATS(ROWS, OUTPUT), FLOATS(ROWS, OUTPUT), no_array, no_array,
      no_array}},
    {"cross_entropy",
     true,
     4,
     launch_cross_entropy_backward,
     host_cross_entropy_backward,
     {FLOATS(CELLS, IN_PLACE), FLOATS(ROWS, INPUT), no_array, no_array, no_array, no_array}},
    {"quantise",
     false,
     MX_BLOCK,
     launch_quantise,
     host_quantise,
     {x_cells,
      {CELLS, IN_BYTES, OUTPUT},
      {MX_BLOCKS, IN_BYTES, OUTPUT},
      no_array,
      no_array,
      no_array}},
};

static const struct op *op_asked(const struct sample *asked) {
    const char *const name = asked_word(asked, "op");
    const bool is_backward = strcmp(asked_word(asked, "pass"), "backward") == 0;
    for (const struct op &op : ops)
        if (op.is_backward == is_backward && strcmp(op.name, name) == 0)
            return &op;
    probe_refuse(REFUSED_UNSUPPORTED, "no kernel for %s %s", name, asked_word(asked, "pass"));
}

static size_t count_of(const struct array *array, const struct elementwise_shape *s) {
    const size_t rows = (size_t)s->rows, width = (size_t)s->width;
    switch (array->extent) {
    case NONE:
        return 0;
    case CELLS:
        return rows * width;
    case TWO_CELLS:
        return 2 * rows * width;
    case COLUMNS:
        return width;
    case ROWS:
        return rows;
    case PICKS:
        return rows * (size_t)top_k_of(s->width);
    case TURNS:
        return rows * (size_t)rope_head(s->width);
    case MX_BLOCKS:
        return rows * width / MX_BLOCK;
    }
    return 0;
}

static size_t width_of(const struct array *array) {
    return array->format == IN_BF16   ? sizeof(__nv_bfloat16)
           : array->format == IN_FP32 ? sizeof(float)
                                      : 1;
}

/* An element read or written, each counted once. */
static double bytes_of(const struct op *op, const struct elementwise_shape *s) {
    double bytes = 0;
    for (const struct array &array : op->arrays)
        bytes += (array.role == IN_PLACE ? 2.0 : 1.0) * (double)count_of(&array, s) *
                 (double)width_of(&array);
    return bytes;
}

/* ---- sets of arrays, more than the cache holds ---- */

enum { MOST_SETS = 1024, ALIGN = 256 };

struct operands {
    const struct op *op;
    struct elementwise_shape shape;
    unsigned sets;
    char *block[ELEMENTWISE_ARRAYS];
    size_t stride[ELEMENTWISE_ARRAYS];
};

static void fill(struct probe *p, const struct array *array, void *to, size_t count, int index) {
    const enum precision precision = array->format == IN_BF16 ? BF16 : FP32;
    if (array->role == INPUT || array->role == IN_PLACE)
        device_random(p, to, count, (uint32_t)index + 1, 1, precision);
    else
        CUDA_CHECK(cudaMemsetAsync(to, 0, count * width_of(array), p->stream));
}

static struct operands take_operands(struct probe *p, const struct op *op,
                                     const struct elementwise_shape *shape) {
    struct operands o = {op, *shape, 1, {}, {}};
    if (shape->width % op->multiple != 0)
        probe_refuse(REFUSED_UNSUPPORTED, "%s takes widths that are multiples of %d, not %ld",
                     op->name, op->multiple, shape->width);
    const double sets = 1 + 2.0 * p->properties.l2CacheSize / bytes_of(op, shape);
    o.sets = sets < MOST_SETS ? (unsigned)sets : (unsigned)MOST_SETS;
    for (int i = 0; i < ELEMENTWISE_ARRAYS; ++i) {
        const struct array *const array = &op->arrays[i];
        const size_t count = count_of(array, shape);
        if (count == 0)
            continue;
        o.stride[i] = (count * width_of(array) + ALIGN - 1) / ALIGN * ALIGN;
        o.block[i] = (char *)device_take(o.stride[i] * o.sets);
        for (unsigned set = 0; set < o.sets; ++set)
            fill(p, array, o.block[i] + set * o.stride[i], count, i);
    }
    return o;
}

static void queue_op(struct probe *p, void *context) {
    const struct operands *const o = (const struct operands *)context;
    void *at[ELEMENTWISE_ARRAYS];
    for (int i = 0; i < ELEMENTWISE_ARRAYS; ++i)
        at[i] = o->block[i] ? o->block[i] + p->turn % o->sets * o->stride[i] : NULL;
    o->op->launch(p, &o->shape, at);
    LAUNCH_CHECK();
}

static void measure_elementwise(struct probe *p, const struct sample *asked, struct measured *out) {
    const struct op *const op = op_asked(asked);
    const struct elementwise_shape shape = {asked_value(asked, "rows"),
                                            asked_value(asked, "width")};
    struct operands operands = take_operands(p, op, &shape);
    struct work work = {};
    work.queue = queue_op;
    work.context = &operands;
    work.calls = CALLS_FILL;
    timing_measure(p, &work, &out->timing);
    out->how = "own kernel";
    measured_add(out, "bytes", bytes_of(op, &shape));
    measured_add(out, "bytes_per_s", bytes_of(op, &shape) / out->timing.time_s.median);
}

/* ---- against the host ---- */

static float *read_array(struct probe *p, const struct array *array, const char *from,
                         size_t count) {
    if (array->format != IN_BYTES)
        return device_read(p, from, count, array->format == IN_BF16 ? BF16 : FP32);
    unsigned char *const bytes = (unsigned char *)host_take(count);
    float *const out = (float *)calloc(count, sizeof *out);
    if (!out)
        probe_die(MOSAIC_INTERNAL, "out of memory");
    CUDA_CHECK(cudaStreamSynchronize(p->stream));
    CUDA_CHECK(cudaMemcpy(bytes, from, count, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; ++i)
        out[i] = (float)bytes[i];
    return out;
}

static void check_elementwise(struct probe *p, const struct sample *asked) {
    const struct op *const op = op_asked(asked);
    const struct elementwise_shape shape = {37, 2 * ROPE_HEAD + 256};
    struct operands o = take_operands(p, op, &shape);
    float *want[ELEMENTWISE_ARRAYS] = {};
    for (int i = 0; i < ELEMENTWISE_ARRAYS; ++i) {
        const struct array *const array = &op->arrays[i];
        const size_t count = count_of(array, &shape);
        want[i] = (float *)host_take(count * sizeof(float));
        if (array->role == INPUT || array->role == IN_PLACE)
            host_random(want[i], count, (uint32_t)i + 1, 1, array->format == IN_BF16 ? BF16 : FP32);
    }
    p->turn = 0;
    queue_op(p, &o);
    op->on_host(&shape, want);
    for (int i = 0; i < ELEMENTWISE_ARRAYS; ++i) {
        const struct array *const array = &op->arrays[i];
        const size_t count = count_of(array, &shape);
        if (count == 0 || array->role == INPUT)
            continue;
        float *const got = read_array(p, array, o.block[i], count);
        const double tolerance = array->format == IN_BF16   ? 1e-2
                                 : array->format == IN_FP32 ? 1e-5
                                                            : 0;
        timing_compare(p, op->name, got, want[i], count, tolerance);
        free(got);
    }
}

const struct quantity elementwise_quantity = {SAMPLE_ELEMENTWISE, false, measure_elementwise,
                                              check_elementwise};
