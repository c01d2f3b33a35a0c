// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Shapes of what one device does by itself.  Sizes rise by powers of two from what any processor
 * ends in time to what fills the largest GPU; those that would last longer than a level's longest
 * job are left out, so that each device is measured where it is at home.
 */
#include "measure/job_shapes.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

enum { KEYS_TEXT_MAX = 256 };
/* Of planning alone: what a usual kernel reaches of the peak, FLOPs a byte that GPUs and processors
 * are built for and the peak that tells one from the other, setting a job up and checking it,
 * rounds that are not timed. */
static const double usual_share = 0.4, allowance_s = 0.15;
static const double gpu_balance = 300.0, processor_balance = 10.0, gpu_peak = 1e13;
/* Processors tell their peak.  A device that does not, and is on no list, is planned for as a GPU
 * that fills its units with products of 8192, as those since the A100 do. */
static const double unknown_peak = 3e14;
enum { WARM_UPS = 3 };
/* Of memory, what one job may hold. */
static const double memory_share = 0.6;

/* ---- adding ---- */

static enum mosaic_status set_key(struct sample *s, const char *word, struct status_error *err) {
    const struct sample_kind *const kind = sample_kind(s->quantity);
    const size_t length = strcspn(word, "=");
    for (int i = 0; word[length] == '=' && i < kind->key_count; ++i) {
        const struct sample_key *const key = &kind->keys[i];
        if (strlen(key->name) != length || strncmp(key->name, word, length) != 0)
            continue;
        const char *const text = word + length + 1;
        if (!key->words) {
            s->value[i] = strtoll(text, NULL, 10);
            return s->value[i] >= key->least && s->value[i] <= key->most
                       ? MOSAIC_OK
                       : status_set(err, MOSAIC_INTERNAL, "a job's %s is out of range", word);
        }
        for (int w = 0; key->words[w]; ++w)
            if (strcmp(key->words[w], text) == 0) {
                s->value[i] = w;
                return MOSAIC_OK;
            }
    }
    return status_set(err, MOSAIC_INTERNAL, "%s is no key of %s", word, kind->name);
}

static enum mosaic_status read_keys(struct sample *s, char *text, struct status_error *err) {
    int count = 0;
    for (char *at = text; *at; ++count) {
        const size_t length = strcspn(at, " ");
        const bool is_last = at[length] == '\0';
        at[length] = '\0';
        TRY(set_key(s, at, err));
        at += length + !is_last;
    }
    return count == sample_kind(s->quantity)->key_count
               ? MOSAIC_OK
               : status_set(err, MOSAIC_INTERNAL, "a job lacks keys of %s",
                            sample_kind(s->quantity)->name);
}

static const char *const dtypes[] = {"bf16", "fp32", "fp8", "fp8_block", "mxfp8", "nvfp4"};

/* By the data sheet, else as the probe tells; 0: neither does. */
static double peak_of(const struct job_scope *scope, const char *dtype) {
    static const char *const names[PRECISION_COUNT] = {[PRECISION_BF16] = "bf16",
                                                       [PRECISION_FP8] = "fp8",
                                                       [PRECISION_MXFP8] = "mxfp8",
                                                       [PRECISION_NVFP4] = "nvfp4"};
    for (int i = 0; scope->device && i < PRECISION_COUNT; ++i)
        if (strcmp(names[i], dtype) == 0 && scope->device->peak_flop_per_s[i] > 0.0)
            return scope->device->peak_flop_per_s[i];
    return protocol_peak(scope->hello, dtype);
}

/* A job is thought as long as at the base's speed where its own is not known. */
static double speed_of(const struct shapes *s, const char *dtype) {
    const double peak = dtype ? peak_of(s->scope, dtype) : 0.0;
    const double base = peak > 0.0 ? peak : peak_of(s->scope, s->base);
    return base > 0.0 ? base : unknown_peak;
}

/* Bytes a second of memory: told, or by what devices of this speed are built for. */
static double stream_of(const struct shapes *s) {
    const json_t *const device = json_object_get(s->scope->hello->root, "device");
    const double told = json_number_value(json_object_get(device, "copy_bytes_per_s"));
    const double peak = speed_of(s, NULL);
    if (s->scope->device && s->scope->device->hbm_bytes_per_s > 0.0)
        return s->scope->device->hbm_bytes_per_s;
    if (told > 0.0 && isfinite(told))
        return told;
    return peak / (peak > gpu_peak ? gpu_balance : processor_balance);
}

static double foresee_s(const struct shapes *s, const struct shape_cost *cost, int rounds) {
    const double peak = speed_of(s, cost->dtype);
    const double once = cost->seconds + cost->flop / (usual_share * peak) +
                        cost->bytes / (usual_share * stream_of(s));
    return once * (rounds + WARM_UPS);
}

bool shapes_is_slow(const struct shapes *s) {
    return speed_of(s, NULL) < gpu_peak;
}

static void append(struct shapes *s, const struct job *job) {
    struct job_list *const list = s->list;
    if (list->count == list->room) {
        const size_t room = list->room > 0 ? 2 * list->room : 256;
        struct job *const more = realloc(list->jobs, room * sizeof *more);
        if (!more) {
            s->status = status_no_memory(s->err);
            return;
        }
        list->jobs = more;
        list->room = room;
    }
    list->jobs[list->count++] = *job;
}

void shapes_add(struct shapes *s, enum sample_quantity quantity, int wave,
                const struct shape_cost *cost, const char *keys, ...) {
    char text[KEYS_TEXT_MAX];
    const double memory = s->scope->hello->memory_bytes;
    struct job job = {.keys = {.quantity = quantity}, .rounds = s->limits->rounds, .wave = wave};
    va_list args;
    va_start(args, keys);
    (void)vsnprintf(text, sizeof text, keys, args);
    va_end(args);
    if (s->status != MOSAIC_OK || wave >= s->limits->waves || !s->scope->hello->can[quantity])
        return;
    s->status = read_keys(&job.keys, text, s->err);
    job.seconds = foresee_s(s, cost, job.rounds);
    if (s->status != MOSAIC_OK)
        return;
    if (memory > 0.0 && cost->holds_bytes > memory_share * memory)
        s->list->too_large++;
    else if (job.seconds > s->limits->job_s && quantity != SAMPLE_SUSTAINED)
        s->list->too_long++;
    else {
        job.seconds += allowance_s;
        append(s, &job);
    }
}

struct job *shapes_last(struct shapes *s, size_t count_before) {
    return s->list->count > count_before ? &s->list->jobs[s->list->count - 1] : NULL;
}

/* ---- what the device computes in ---- */

const char *job_base_dtype(const struct probe_hello *hello) {
    for (size_t i = 0; i < COUNT_OF(dtypes); ++i)
        if (protocol_peak(hello, dtypes[i]) > 0.0)
            return dtypes[i];
    return dtypes[0];
}

/* fp8_block runs on the same units as fp8.  Where no peak is told the probe refuses by itself. */
static bool has_dtype(const struct shapes *s, const char *dtype) {
    const struct job_scope *const scope = s->scope;
    const bool is_told = peak_of(scope, s->base) > 0.0;
    if (strcmp(dtype, s->base) == 0 || peak_of(scope, dtype) > 0.0 || !is_told)
        return true;
    return strcmp(dtype, "fp8_block") == 0 && peak_of(scope, "fp8") > 0.0;
}

static double width_of(const char *dtype) {
    return strcmp(dtype, "fp32") == 0 ? 4.0 : strcmp(dtype, "bf16") == 0 ? 2.0 : 1.0;
}

/* ---- matrix products ---- */

static const char *const passes[] = {"forward", "backward_data", "backward_weight"};

static void add_gemm(struct shapes *s, int wave, const char *dtype, const char *pass,
                     const long long mnk[3]) {
    const double m = (double)mnk[0], n = (double)mnk[1], k = (double)mnk[2];
    const double bytes = (m * n + n * k + m * k) * width_of(dtype);
    const struct shape_cost cost = {
        .dtype = dtype, .flop = 2.0 * m * n * k, .bytes = bytes, .holds_bytes = 2.0 * bytes};
    shapes_add(s, SAMPLE_GEMM, wave, &cost, "dtype=%s pass=%s m=%lld n=%lld k=%lld", dtype, pass,
               mnk[0], mnk[1], mnk[2]);
}

/* What tells the rate of large products from the half size: a large one, one thin in each side, and
 * a small one.  Of a processor they are as large as end in time in fp32. */
static void add_corners(struct shapes *s) {
    const bool is_slow = shapes_is_slow(s);
    const long long large = is_slow ? 1024 : 8192, thin = is_slow ? 32 : 128;
    const long long small = is_slow ? 64 : 256;
    const long long corners[][3] = {{large, large, large},
                                    {small, small, small},
                                    {thin, large, large},
                                    {large, thin, large},
                                    {large, large, thin}};
    for (size_t i = 0; i < COUNT_OF(corners); ++i)
        for (size_t p = 0; p < COUNT_OF(passes); ++p)
            add_gemm(s, p == 0 ? 0 : 1, s->base, passes[p], corners[i]);
}

static void add_squares(struct shapes *s, const char *dtype, bool is_base) {
    static const long long squares[] = {8192, 4096, 1024, 2048, 512, 256, 16384};
    enum { LARGE = 4096 }; /* enough for another dtype's peak */
    for (size_t i = 0; i < COUNT_OF(squares); ++i)
        for (size_t p = 0; p < COUNT_OF(passes); ++p) {
            const long long mnk[] = {squares[i], squares[i], squares[i]};
            const int forward = is_base || squares[i] >= LARGE ? 0 : 1, backward = is_base ? 1 : 2;
            add_gemm(s, p == 0 ? forward : backward, dtype, passes[p], mnk);
        }
}

/* Rows of a micro-batch by the matrices of an expert, an attention projection, a dense block. */
static void add_sides(struct shapes *s, const char *dtype, bool is_base) {
    static const long long rows[] = {4096, 1024, 16384};
    static const long long sides[][2] = {{4096, 1536}, {1536, 4096}, {6144, 6144}, {24576, 6144}};
    for (size_t r = 0; r < COUNT_OF(rows); ++r)
        for (size_t i = 0; i < COUNT_OF(sides); ++i)
            for (size_t p = 0; p < COUNT_OF(passes); ++p) {
                const long long mnk[] = {rows[r], sides[i][0], sides[i][1]};
                const bool is_first = is_base && r == 0 && i < 2;
                add_gemm(s, is_first ? 0 : is_base ? 1 : 2, dtype, passes[p], mnk);
            }
}

static void add_gemms(struct shapes *s) {
    for (size_t d = 0; d < COUNT_OF(dtypes); ++d) {
        const bool is_base = strcmp(dtypes[d], s->base) == 0;
        if (!has_dtype(s, dtypes[d]))
            continue;
        if (is_base)
            add_corners(s);
        add_squares(s, dtypes[d], is_base);
        add_sides(s, dtypes[d], is_base);
    }
}

/* What a processor ends in time; GPUs learn from it only how they start. */
static void add_small_gemms(struct shapes *s) {
    static const long long rows[] = {512, 128, 2048};
    static const long long sides[][2] = {{1536, 512}, {256, 1024}, {1024, 256}, {512, 512}};
    for (size_t r = 0; r < COUNT_OF(rows); ++r)
        for (size_t i = 0; i < COUNT_OF(sides); ++i)
            for (size_t p = 0; p < COUNT_OF(passes); ++p) {
                const long long mnk[] = {rows[r], sides[i][0], sides[i][1]};
                const bool is_first = p == 0 && r < 2 && i < 3;
                add_gemm(s, !shapes_is_slow(s) ? 2 : is_first ? 0 : 1, s->base, passes[p], mnk);
            }
}

static void add_grouped(struct shapes *s) {
    static const long long rows[] = {16, 64, 128, 256, 512, 1024, 4096};
    static const long long experts[] = {4, 8, 32};
    static const long long sides[][2] = {{2048, 2048}, {512, 512}, {6144, 1536}, {1536, 6144}};
    for (size_t e = 0; e < COUNT_OF(experts); ++e)
        for (size_t i = 0; i < COUNT_OF(sides); ++i)
            for (size_t r = 0; r < COUNT_OF(rows); ++r)
                for (size_t p = 0; p < COUNT_OF(passes); ++p) {
                    const double each = (double)sides[i][0] * (double)sides[i][1];
                    const double lines = (double)rows[r] * (double)(sides[i][0] + sides[i][1]);
                    const double bytes = (double)experts[e] * (each + lines) * width_of(s->base);
                    const struct shape_cost cost = {.dtype = s->base,
                                                    .flop =
                                                        2.0 * (double)(experts[e] * rows[r]) * each,
                                                    .bytes = bytes,
                                                    .holds_bytes = 2.0 * bytes};
                    const int wave = experts[e] == 8 && i < 2 && p == 0     ? 0
                                     : p == 0 || (experts[e] == 8 && i < 2) ? 1
                                                                            : 2;
                    shapes_add(s, SAMPLE_GROUPED_GEMM, wave, &cost,
                               "dtype=%s pass=%s experts=%lld rows=%lld n=%lld k=%lld", s->base,
                               passes[p], experts[e], rows[r], sides[i][0], sides[i][1]);
                }
}

static void add_sustained(struct shapes *s) {
    static const int seconds[JOB_LEVELS] = {5, 20, 60};
    static const long long sizes[] = {8192, 4096, 2048, 1024, 512};
    const double peak = speed_of(s, NULL);
    const int lasts = seconds[s->scope->level];
    for (size_t i = 0; i < COUNT_OF(sizes); ++i) {
        const double side = (double)sizes[i], once = 2.0 * side * side * side / usual_share;
        const bool is_last = i + 1 == COUNT_OF(sizes);
        /* So large that the loop has a hundred or more. */
        if (!is_last && once / peak > (double)lasts / 100.0)
            continue;
        const double rounds = s->limits->rounds + WARM_UPS;
        const struct shape_cost cost = {.dtype = s->base, .seconds = (double)lasts / rounds};
        shapes_add(s, SAMPLE_SUSTAINED, 0, &cost, "dtype=%s m=%lld n=%lld k=%lld seconds=%d",
                   s->base, sizes[i], sizes[i], sizes[i], lasts);
        return;
    }
}

/* ---- attention ---- */

struct head_shape {
    int heads, kv_heads, head_dim, causal, wave;
};

static void add_attention_of(struct shapes *s, const char *dtype, const struct head_shape *h,
                             int wave) {
    static const long long lengths[] = {256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
    static const char *const both[] = {"forward", "backward"};
    for (size_t i = 0; i < COUNT_OF(lengths); ++i)
        for (int p = 0; p < 2; ++p) {
            const double length = (double)lengths[i], width = (double)h->heads * h->head_dim;
            const double flop = (h->causal ? 2.0 : 4.0) * length * length * width;
            const double bytes = 4.0 * length * width * width_of(dtype);
            const struct shape_cost cost = {.dtype = s->base,
                                            .flop = p == 0 ? flop : 2.5 * flop,
                                            .bytes = bytes,
                                            .holds_bytes = 4.0 * bytes};
            shapes_add(s, SAMPLE_ATTENTION, wave + (p == 1 && i % 2 == 1), &cost,
                       "dtype=%s pass=%s batch=1 sequence=%lld heads=%d kv_heads=%d head_dim=%d "
                       "causal=%d",
                       dtype, both[p], lengths[i], h->heads, h->kv_heads, h->head_dim, h->causal);
        }
}

static void add_attention(struct shapes *s) {
    static const struct head_shape shapes[] = {
        {16, 16, 128, 1, 0}, {16, 4, 128, 1, 1}, {16, 16, 64, 1, 1}};
    for (size_t i = 0; i < COUNT_OF(shapes); ++i)
        add_attention_of(s, s->base, &shapes[i], shapes[i].wave);
    if (has_dtype(s, "fp8") && strcmp(s->base, "fp8") != 0)
        add_attention_of(s, "fp8", &shapes[0], 1);
}

/* ---- what memory bounds ---- */

static void add_elementwise(struct shapes *s) {
    static const struct {
        const char *op;
        long long widths[2];
        double passes; /* over rows x width, forward */
    } ops[] = {{"norm", {4096, 8192}, 2.0},    {"rope", {4096, 8192}, 2.0},
               {"swiglu", {4096, 16384}, 3.0}, {"router_top_k", {64, 256}, 2.0},
               {"permute", {4096, 8192}, 2.0}, {"cross_entropy", {32768, 131072}, 3.0},
               {"quantise", {4096, 8192}, 2.0}};
    static const long long rows[] = {1024, 4096, 16384};
    static const char *const both[] = {"forward", "backward"};
    for (size_t i = 0; i < COUNT_OF(ops); ++i)
        for (size_t r = 0; r < COUNT_OF(rows); ++r)
            for (int w = 0; w < 2; ++w)
                for (int p = 0; p < 2; ++p) {
                    const double elements = (double)(rows[r] * ops[i].widths[w]);
                    const double bytes = elements * ops[i].passes * 4.0 * (1 + p);
                    const struct shape_cost cost = {.bytes = bytes, .holds_bytes = 4.0 * bytes};
                    const bool is_first = r == 1 && w == 0;
                    shapes_add(s, SAMPLE_ELEMENTWISE,
                               is_first           ? 0
                               : p == 0 || w == 0 ? 1
                                                  : 2,
                               &cost, "op=%s pass=%s rows=%lld width=%lld", ops[i].op, both[p],
                               rows[r], ops[i].widths[w]);
                }
}

static void add_streams(struct shapes *s) {
    static const char *const ops[] = {"copy", "triad"};
    for (int i = 0; i < 2; ++i)
        for (int power = 20; power <= 33; ++power) {
            const struct shape_cost cost = {.bytes = ldexp(1.0, power),
                                            .holds_bytes = ldexp(1.0, power)};
            const bool is_first = power == 26 || power == 28 || power == 30;
            shapes_add(s, SAMPLE_STREAM,
                       is_first         ? 0
                       : power % 2 == 0 ? 1
                                        : 2,
                       &cost, "op=%s bytes=%lld", ops[i], 1LL << power);
        }
}

static void add_copy(struct shapes *s, int power, const char *direction, bool is_loaded) {
    /* A host link is slower than the device's memory, but where they are one. */
    const double slower = shapes_is_slow(s) ? 4.0 : 50.0;
    const double ways = strcmp(direction, "both") == 0 ? 2.0 : 1.0;
    const double bytes = ways * ldexp(1.0, power);
    const struct shape_cost cost = {.bytes = slower * bytes, .holds_bytes = bytes};
    const bool is_first = power == 26 || (power == 22 && !is_loaded);
    const int wave = is_loaded ? 2 : 1;
    shapes_add(s, SAMPLE_HOST_COPY, is_first ? 0 : wave, &cost, "direction=%s bytes=%lld load=%s",
               direction, 1LL << power, is_loaded ? "stream" : "none");
}

static void add_host(struct shapes *s) {
    static const char *const directions[] = {"to_host", "to_device", "both"};
    static const int kernels[] = {1, 16, 256, 4096};
    for (int power = 16; power <= 30; power += 2)
        for (size_t d = 0; d < COUNT_OF(directions); ++d) {
            add_copy(s, power, directions[d], false);
            add_copy(s, power, directions[d], true);
        }
    for (size_t i = 0; i < COUNT_OF(kernels); ++i)
        for (int graph = 0; graph < 2; ++graph) {
            const struct shape_cost cost = {.seconds = 1e-5 * kernels[i]};
            shapes_add(s, SAMPLE_LAUNCH, kernels[i] == 256 ? 0 : 1, &cost, "graph=%d kernels=%d",
                       graph, kernels[i]);
        }
}

static void add_optimizer(struct shapes *s) {
    static const int buckets[] = {1, 8, 64};
    static const long long strip[][3] = {{1024, 2048, 4096},
                                         {256, 256, 2048},
                                         {4096, 4096, 8192},
                                         {1024, 512, 2048},
                                         {8192, 6144, 16384}};
    enum { BYTES_EACH = 30, HELD_EACH = 18 };
    for (int power = 16; power <= 30; power += 2)
        for (size_t b = 0; b < COUNT_OF(buckets); ++b) {
            const double parameters = ldexp(1.0, power);
            const struct shape_cost cost = {.bytes = BYTES_EACH * parameters,
                                            .holds_bytes = HELD_EACH * parameters};
            const bool is_first = b == 0 && power >= 20 && power % 4 == 0;
            shapes_add(s, SAMPLE_ADAMW,
                       is_first                ? 0
                       : b == 0 || power >= 24 ? 1
                                               : 2,
                       &cost, "parameters=%lld buckets=%d", 1LL << power, buckets[b]);
        }
    for (size_t i = 0; i < COUNT_OF(strip); ++i) {
        const double rows = (double)strip[i][0], width = (double)strip[i][1];
        const double vocab = (double)strip[i][2];
        const double bytes = 4.0 * (rows * vocab + width * (rows + vocab));
        const struct shape_cost cost = {.dtype = s->base,
                                        .flop = 6.0 * rows * width * vocab,
                                        .bytes = bytes,
                                        .holds_bytes = 2.0 * bytes};
        shapes_add(s, SAMPLE_RING_STRIP, i <= 1 ? 0 : 1, &cost, "rows=%lld width=%lld vocab=%lld",
                   strip[i][0], strip[i][1], strip[i][2]);
    }
}

enum mosaic_status job_shapes_all(const struct job_scope *scope, const struct shape_limits *limits,
                                  struct job_list *list, struct status_error *err) {
    struct shapes s = {.scope = scope,
                       .limits = limits,
                       .list = list,
                       .base = job_base_dtype(scope->hello),
                       .status = MOSAIC_OK,
                       .err = err};
    add_gemms(&s);
    add_small_gemms(&s);
    add_grouped(&s);
    add_sustained(&s);
    add_attention(&s);
    add_elementwise(&s);
    add_streams(&s);
    add_host(&s);
    add_optimizer(&s);
    shapes_add_groups(&s);
    return s.status;
}
