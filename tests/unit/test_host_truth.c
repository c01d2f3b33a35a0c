// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The whole chain without a GPU: the host probe (calibration/host) measures this processor with the
 * executors' own products, its samples are fitted into a calibration (fit/sample_fit.h), and the
 * step model predicts what exec/expert_dispatch.h takes for an expert layer, forward and backward,
 * at shapes that the calibration has not seen.
 *
 * What stands for what: FP32 for the model's bf16, so every byte count that is measured is told in
 * the model's numbers of two bytes.  The executor makes the experts' interior anew and dispatches
 * again in backward: selective recomputation of the experts.  It has no attention, projections and
 * router, whose terms are left out of the prediction; the norms that stay in weigh a percent.
 *
 * Times are the least of many rounds, calibration and truth in turn, since other work shares the
 * machine; where it cannot repeat its own times the test skips and says so.
 */
#include "host.h"
#include "layer.h"

#include "doc/document.h"
#include "fit/sample_fit.h"
#include "step/layer_cost.h"

#include "close.h"

#include <stdlib.h>
#include <string.h>
#include <talloc.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define IS_SLOWED true
#elif defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SLOWED true
#endif
#endif
#ifndef IS_SLOWED
#define IS_SLOWED false
#endif

enum { ROUNDS_LEAST = 8, ROUNDS_MOST = 60, SAMPLES_MOST = 128, SHAPES = 20 };
static const double repeats_within = 0.10, right_within = 0.25, pairs_right = 0.90;
static const double longest_s = 80.0;

/* ---- what is calibrated: n is twice the width of an expert ---- */

static const int product_shapes[][3] = {
    {8, 64, 64},  {16, 128, 128}, {64, 64, 64}, {8, 384, 96},
    {8, 96, 384}, {12, 160, 160}, {48, 96, 72}}; /* rows, n, k */
static const int grouped_shapes[][4] = {{4, 2, 128, 128}, {4, 8, 64, 192},
                                        {8, 4, 192, 96},  {12, 2, 128, 160},
                                        {4, 16, 96, 64},  {2, 8, 256, 192},
                                        {8, 4, 64, 64},   {24, 1, 128, 96},
                                        {2, 24, 160, 64}}; /* experts, rows, n, k */
/* As large as what a layer streams: in the caches. */
static const int stream_kib[] = {192, 384, 1536};

/* ---- the unseen shapes ---- */

struct shape {
    int tokens, hidden, ffn, experts, top_k;
};
static const struct shape shapes[SHAPES] = {
    {16, 96, 48, 8, 2},   {48, 72, 40, 4, 1},  {8, 176, 48, 12, 4},  {24, 80, 40, 8, 2},
    {12, 144, 72, 10, 2}, {56, 72, 56, 8, 1},  {8, 256, 56, 5, 2},   {10, 112, 104, 16, 4},
    {64, 88, 24, 8, 2},   {12, 208, 40, 6, 3}, {6, 288, 88, 3, 1},   {36, 136, 36, 14, 2},
    {20, 104, 144, 8, 1}, {6, 240, 40, 24, 6}, {16, 120, 104, 9, 3}, {40, 100, 68, 12, 2},
    {32, 224, 24, 4, 1},  {9, 84, 60, 20, 5},  {28, 152, 56, 7, 2},  {72, 68, 32, 6, 1},
};

struct truth {
    struct host_job job; /* holds the blocks */
    struct sample keys;
    struct host_layer layer;
    double even_s, odd_s; /* least of the even rounds and of the odd ones */
    double predicted_s;
};

static struct bench {
    struct host host;
    struct sample samples[SAMPLES_MOST]; /* the least of all rounds, thrice */
    double even_s[SAMPLES_MOST], odd_s[SAMPLES_MOST];
    int sample_count;
    struct truth truths[SHAPES];
    struct document *document;
} bench;

/* ---- measuring ---- */

static double least(double a, double b) {
    return a > 0.0 && a < b ? a : b;
}

static void measure_sample(int i, int round) {
    struct sample now = bench.samples[i];
    static struct host_job job;
    double *const to = round % 2 == 0 ? &bench.even_s[i] : &bench.odd_s[i];
    job = (struct host_job){.host = &bench.host, .sample = &now, .rounds = 3};
    host_job_run(&job);
    if (job.refusal != REFUSED_NOT)
        fail_msg("%s: %s", sample_kind(now.quantity)->name, job.text);
    *to = least(*to, now.least_s);
    now.least_s = now.median_s = now.most_s = least(bench.even_s[i], least(bench.odd_s[i], *to));
    bench.samples[i] = now;
}

static void ask(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void ask(const char *format, ...) {
    char line[512];
    struct status_error err;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    assert_true(bench.sample_count < SAMPLES_MOST);
    struct sample *const s = &bench.samples[bench.sample_count++];
    if (sample_parse_keys(line, strlen(line), NULL, s, &err) != MOSAIC_OK)
        fail_msg("%s: %s", line, err.message);
}

static void list_samples(void) {
    static const char *const passes[] = {"forward", "backward_data", "backward_weight"};
    static const char *const ops[] = {"copy", "triad"};
    bench.sample_count = 0;
    for (size_t p = 0; p < 3; ++p) {
        for (size_t i = 0; i < sizeof product_shapes / sizeof *product_shapes; ++i) {
            const int *const s = product_shapes[i];
            ask("{\"quantity\": \"gemm\", \"dtype\": \"fp32\", \"pass\": \"%s\", \"m\": %d, "
                "\"n\": %d, \"k\": %d}",
                passes[p], s[0], s[1], s[2]);
        }
        for (size_t i = 0; i < sizeof grouped_shapes / sizeof *grouped_shapes; ++i) {
            const int *const s = grouped_shapes[i];
            ask("{\"quantity\": \"grouped_gemm\", \"dtype\": \"fp32\", \"pass\": \"%s\", "
                "\"experts\": %d, \"rows\": %d, \"n\": %d, \"k\": %d}",
                passes[p], s[0], s[1], s[2], s[3]);
        }
    }
    for (size_t i = 0; i < sizeof stream_kib / sizeof *stream_kib; ++i)
        for (size_t o = 0; o < 2; ++o)
            ask("{\"quantity\": \"stream\", \"op\": \"%s\", \"bytes\": %d}", ops[o],
                stream_kib[i] * 1024);
    for (int width = 64; width <= 1024; width *= 4)
        ask("{\"quantity\": \"elementwise\", \"op\": \"permute\", \"pass\": \"forward\", "
            "\"rows\": 256, \"width\": %d}",
            width);
}

static void prepare_truth(struct truth *t, const struct shape *s) {
    char line[512];
    struct status_error err;
    (void)snprintf(line, sizeof line,
                   "{\"quantity\": \"moe_layer\", \"tokens\": %d, \"hidden\": %d, \"ffn\": %d, "
                   "\"experts\": %d, \"top_k\": %d, \"ranks\": 1, \"pass\": \"backward\"}",
                   s->tokens, s->hidden, s->ffn, s->experts, s->top_k);
    *t = (struct truth){.job = {.host = &bench.host}};
    t->job.sample = &t->keys;
    if (sample_parse_keys(line, strlen(line), NULL, &t->keys, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    if (!host_layer_take(&t->job, &t->layer))
        fail_msg("%s", t->job.text);
}

static void measure_truth(struct truth *t, int round) {
    enum { REPEATS = 3 };
    double *const to = round % 2 == 0 ? &t->even_s : &t->odd_s;
    for (int i = 0; i < REPEATS; ++i) {
        const double time_s = host_layer_time_s(&t->layer, true);
        assert_true(time_s > 0.0);
        *to = least(*to, time_s);
    }
    assert_true(host_layer_is_right(&t->layer, true));
}

static void measure_round(int round) {
    for (int i = 0; i < bench.sample_count; ++i)
        measure_sample(i, round);
    for (int i = 0; i < SHAPES; ++i)
        measure_truth(&bench.truths[i], round);
}

static bool agree(double a, double b) {
    return fabs(log(a / b)) <= log(1.0 + repeats_within);
}

static bool is_repeated(const struct truth *t) {
    return agree(t->even_s, t->odd_s);
}

/* Nine products of ten and every shape gave the same times twice. */
static bool is_quiet(void) {
    int shapes_repeated = 0, samples = 0, repeated = 0;
    for (int i = 0; i < bench.sample_count; ++i) {
        const enum sample_quantity quantity = bench.samples[i].quantity;
        if (quantity != SAMPLE_GEMM && quantity != SAMPLE_GROUPED_GEMM)
            continue;
        samples++;
        repeated += agree(bench.even_s[i], bench.odd_s[i]);
    }
    for (int i = 0; i < SHAPES; ++i)
        shapes_repeated += is_repeated(&bench.truths[i]);
    print_message("%d of %d products, %d of %d shapes repeat within %.0f %%\n", repeated, samples,
                  shapes_repeated, (int)SHAPES, 100.0 * repeats_within);
    return shapes_repeated == SHAPES && repeated >= 0.9 * samples;
}

/* ---- predicting ---- */

/* In the model's numbers of two bytes where the host's have four. */
static void tell_in_model_bytes(struct sample *s) {
    const int at = sample_key_index(s->quantity, "bytes");
    if (at >= 0)
        s->value[at] = s->value[at] * BYTES_BF16 / BYTES_FP32;
}

/* What streams reach in the caches stands for the data sheet's bandwidth. */
static double fastest_stream(const struct sample *samples) {
    double most = 0.0;
    for (int i = 0; i < bench.sample_count; ++i)
        if (samples[i].quantity == SAMPLE_STREAM)
            most = fmax(most, (double)sample_value(&samples[i], "bytes") / samples[i].median_s);
    return most;
}

static struct sample_fit *fit_samples(void) {
    static struct sample samples[SAMPLES_MOST];
    struct sample_facts facts;
    struct sample_fit *out = NULL;
    struct status_error err;
    memcpy(samples, bench.samples, sizeof samples);
    for (int i = 0; i < bench.sample_count; ++i)
        tell_in_model_bytes(&samples[i]);
    bench.document->problem.cluster.device.hbm_bytes_per_s = fastest_stream(samples);
    sample_facts_of(&bench.document->problem.cluster, &bench.document->problem.calibration, &facts);
    facts.base_dtype = "fp32";
    if (sample_fit_run(samples, (size_t)bench.sample_count, &facts, &out, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    /* Rates are those of the same minutes, so no long loop slows them. */
    out->calibration.scalar[CAL_GEMM_SUSTAINED] = 1.0;
    return out;
}

static double predict(const struct shape *s, const struct calibration *calibration) {
    static struct engine engine;
    static struct step_context ctx;
    static struct layer_table table;
    const struct geometry g = {.layers = 1,
                               .hidden = s->hidden,
                               .heads = 1,
                               .kv_heads = 1,
                               .head_dim = 2,
                               .v_head_dim = 2,
                               .ffn_matrices = 3,
                               .expert_ffn = s->ffn,
                               .experts = s->experts,
                               .top_k = s->top_k,
                               .granularity = 1.0,
                               .vocab = 2};
    struct workload w = bench.document->problem.workload;
    w.sequence = s->tokens;
    w.global_batch = 1;
    w.precision = PRECISION_BF16;
    w.imbalance = 1.0;
    w.execution = (struct execution){.selective = MODULE_EXPERTS};
    const struct mesh mesh = {.tp = 1,
                              .cp = 1,
                              .pp = 1,
                              .vpp = 1,
                              .ep = 1,
                              .etp = 1,
                              .dp = 1,
                              .micro_batch = 1,
                              .micro_batches = 1,
                              .recompute = RECOMPUTE_SELECTIVE};
    engine = bench.document->problem.engine;
    step_context_init(&ctx, &g, &bench.document->problem.cluster, calibration, &w, &engine,
                      estimator_default());
    layer_table_fill(&ctx, &mesh, &table);
    const struct layer_cost *const c = &table.cost[LAYER_MOE];
    /* A router's forward, a third of its term, runs again with the experts. */
    return c->gpu_s - c->kernels.gemm_s - c->kernels.attention_s - c->kernels.router_s * 4.0 / 3.0;
}

/* ---- the comparison ---- */

static double measured_s(const struct truth *t) {
    return fmin(t->even_s, t->odd_s);
}

struct score {
    double sum, worst; /* of relative errors */
    int count, pairs, right;
};

static struct score compare(void) {
    struct sample_fit *const fitted = fit_samples();
    struct score score = {.count = SHAPES};
    for (int i = 0; i < SHAPES; ++i) {
        struct truth *const t = &bench.truths[i];
        t->predicted_s = predict(&shapes[i], &fitted->calibration);
        const double error = fabs(t->predicted_s / measured_s(t) - 1.0);
        score.sum += error;
        score.worst = fmax(score.worst, error);
        for (int j = 0; j < i; ++j) {
            const struct truth *const u = &bench.truths[j];
            score.pairs++;
            score.right += (measured_s(t) < measured_s(u)) == (t->predicted_s < u->predicted_s);
        }
    }
    sample_fit_free(fitted);
    return score;
}

static bool is_right(const struct score *score) {
    return score->worst <= right_within && score->right >= pairs_right * score->pairs;
}

static void print_score(const struct score *score) {
    for (int i = 0; i < SHAPES; ++i) {
        const struct truth *const t = &bench.truths[i];
        const struct shape *const s = &shapes[i];
        print_message("T %3d H %3d I %3d E %2d K %d: %7.3f ms, predicted %7.3f, %+5.1f %%\n",
                      s->tokens, s->hidden, s->ffn, s->experts, s->top_k, 1e3 * measured_s(t),
                      1e3 * t->predicted_s, 100.0 * (t->predicted_s / measured_s(t) - 1.0));
    }
    print_message("%d shapes: mean error %.1f %%, largest %.1f %%; order right in %d of %d pairs\n",
                  score->count, 100.0 * score->sum / score->count, 100.0 * score->worst,
                  score->right, score->pairs);
}

static void print_fit(void) {
    struct sample_fit *const fitted = fit_samples();
    for (size_t i = 0; i < fitted->entry_count; ++i) {
        const struct sample_entry *const e = &fitted->entry[i];
        char name[SAMPLE_FIT_TEXT];
        (void)sample_entry_name(fitted, e, name, sizeof name);
        print_message("%s %.4g, %zu samples, spread %.1f %%\n", name,
                      e->kind == SAMPLE_ENTRY_COLLECTIVE ? e->asymptote : e->value, e->samples,
                      100.0 * e->spread);
    }
    for (size_t i = 0; i < fitted->note_count; ++i)
        print_message("%s: %s\n", sample_note_name(fitted->note[i].kind), fitted->note[i].text);
    sample_fit_free(fitted);
}

static void test_layer_as_predicted(void **state) {
    (void)state;
    struct score score = {.count = 0};
    bool was_quiet = false;
    if (IS_SLOWED) {
        print_message("host truth: a sanitizer slows what is measured: skipped\n");
        skip();
    }
    const double until_s = host_clock_s() + longest_s;
    for (int round = 1; round <= ROUNDS_MOST && host_clock_s() < until_s; ++round) {
        measure_round(round);
        if (round % ROUNDS_LEAST != 0)
            continue;
        was_quiet = is_quiet();
        if (!was_quiet)
            continue;
        score = compare();
        if (is_right(&score))
            break;
    }
    if (!was_quiet) {
        print_message("host truth: the machine is too loaded to repeat its times within %.0f %%: "
                      "skipped\n",
                      100.0 * repeats_within);
        skip();
    }
    print_fit();
    print_score(&score);
    assert_true(is_right(&score));
}

/* ---- the machine as documents ---- */

static void load_cluster(void) {
    char *text = NULL;
    size_t size = 0;
    static struct diag_list said;
    FILE *const file = open_memstream(&text, &size);
    assert_non_null(file);
    assert_int_equal(host_print_cluster(&bench.host, file), MOSAIC_OK);
    (void)fputs("budget: {days: 1}\n", file);
    (void)fclose(file);
    diag_init(&said);
    if (document_parse("host.yaml", text, size, NULL, 0, &said, &bench.document) != MOSAIC_OK) {
        char *const words = diag_text(NULL, &said, false);
        print_error("%s\n%s", text, words ? words : "");
        talloc_free(words);
        fail();
    }
    free(text);
}

static int open_bench(void **state) {
    (void)state;
    const struct host_options options = {
        .threads = 1, .kernels = KERNELS_EXECUTOR, .limit_s = 0.5, .fault = SAMPLE_QUANTITIES};
    struct status_error err;
    if (host_open(&options, &bench.host, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    load_cluster();
    list_samples();
    for (int i = 0; i < SHAPES; ++i)
        prepare_truth(&bench.truths[i], &shapes[i]);
    return 0;
}

static int close_bench(void **state) {
    (void)state;
    for (int i = 0; i < SHAPES; ++i)
        for (int k = 0; k < bench.truths[i].job.block_count; ++k)
            free(bench.truths[i].job.blocks[k]);
    document_free(bench.document);
    host_close(&bench.host);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layer_as_predicted)};
    return cmocka_run_group_tests(tests, open_bench, close_bench);
}
