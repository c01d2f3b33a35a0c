// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The end-to-end runs of arXiv 2609.14306: three models on 2, 4 and 8 nodes of 8 H200, at 128K and
 * 1M tokens, with all four memory schedules on.  Stated: EP = W, P = 8, D 2 to 16, ZeRO-3 dense, c
 * from 4,096 to 32,768.  Not stated, and assumed: D = 16 and one sequence for each group of D ranks
 * (a global batch of W / 16), c = 8,192, balanced routing, attention of 56 heads over 8, full
 * recomputation.  Throughput against the printed figures; that each run fits; what runs out without
 * the schedules, and what is next as they come on one by one.
 *
 * Nor does it say how the D ranks cut a causal sequence, or with which kernel they attend.  Two
 * cuts are held against the figures: balanced shards, as engines cut it, and one contiguous shard a
 * rank, whose last does 1.94 times the mean.  Beside them a third reading, picked after the
 * residuals of these were seen and so no prediction: balanced, the attention core of the generation
 * before.
 *
 * The paper's reach over FSDP2 (8x to 32x the context, 7.6x to 10.4x the throughput) is not
 * reproduced: in this model a tuned FSDP2 with the optimizer on the CPU and context parallelism of
 * 16 to 64 fits hundreds of thousands of tokens.  Its baseline is a sweep on a stack whose loss and
 * dispatch buffers are not published.
 */
#include "accuracy.h"
#include "doc/document.h"
#include "step/step.h"

#include <string.h>

enum { SHORT = 131072, LONG = 1048576, D = 16 };
#define AIM 0.25

struct run {
    const char *model;
    int nodes, sequence;
    double tokens_per_s; /* printed, a GPU */
};

static const struct run runs[] = {
    {"120b", 2, SHORT, 1355}, {"241b", 4, SHORT, 866}, {"667b", 8, SHORT, 316},
    {"120b", 2, LONG, 642},   {"241b", 4, LONG, 314},  {"667b", 8, LONG, 124},
};
enum { RUNS = sizeof runs / sizeof runs[0] };

static const struct reading {
    const char *name;
    enum context_shards shards;
    double attention_rate; /* over today's kernels */
    double reached[RUNS];  /* relative error, where the aim is missed */
    int within;            /* of the aim, all runs */
} readings[] = {
    {"balanced", CONTEXT_BALANCED, 1.0, {0.25, 0.25, 0.31, 0.31, 0.36, 0.25}, 3},
    {"contiguous", CONTEXT_CONTIGUOUS, 1.0, {0.25, 0.25, 0.25, 0.28, 0.26, 0.33}, 3},
    /* What PyTorch took on Hopper in 2026 unless told otherwise (pytorch/pytorch#131309):
     * FlashAttention-3 does 1.5 to 2 times the FLOP/s of FlashAttention-2 (arXiv 2407.08608). */
    {"older core", CONTEXT_BALANCED, 1.0 / 1.5, {0.25, 0.25, 0.25, 0.25, 0.25, 0.25}, 6},
};
enum { READINGS = sizeof readings / sizeof readings[0] };

static struct document *load(const struct run *r) {
    static struct diag_list said;
    struct document *d = NULL;
    char text[1024];
    const int size = snprintf(
        text, sizeof text,
        "schema: mosaic-plan/1\n"
        "cluster: clusters/h200-ib.yaml\n"
        "nodes: %d\n"
        "budget: {days: 20}\n"
        "engine: {name: mop, version: \"2026.09\"}\n"
        "workload: {sequence: %d, global_batch: %d, imbalance: 1.0}\n"
        "model: models/long-context-%s.yaml\n"
        "execution: {sharding: fsdp, gradients: bf16, expert_balance: llep, dispatch_chunk: 8192,\n"
        "  vocab_ring: 8, checkpoint_offload: 64 GiB, optimizer_bucket: 100M}\n"
        "search: {layout: {tp: 1, cp: %d, pp: 1, vpp: 1, ep: %d, etp: 1, micro_batch: 1,\n"
        "  recompute: full}}\n",
        r->nodes, r->sequence, r->nodes * 8 / D, r->model, (int)D, r->nodes * 8);
    diag_init(&said);
    if (document_parse("configs/test.yaml", text, (size_t)size, NULL, 0, &said, &d) != MOSAIC_OK) {
        char *const words = diag_text(NULL, &said, false);
        print_error("%s", words ? words : "");
        talloc_free(words);
        fail();
    }
    return d;
}

/* Under an execution, of which a test may have switched something off. */
static void predict(const struct document *d, const struct execution *e, struct prediction *out) {
    struct workload w = d->problem.workload;
    struct geometry g;
    struct mesh mesh;
    struct status_error err;
    struct step_context ctx;
    struct layer_table table;
    struct split split;
    w.execution = *e;
    assert_int_equal(document_pinned(d, &g, &mesh, &err), MOSAIC_OK);
    assert_int_equal(mesh_complete(&mesh, &g, &w, cluster_gpus(&d->problem.cluster), &err),
                     MOSAIC_OK);
    step_context_init(&ctx, &g, &d->problem.cluster, &d->problem.calibration, &w,
                      &d->problem.engine, estimator_default());
    layer_table_fill(&ctx, &mesh, &table);
    split_even(g.layers, mesh.pp, &split);
    step_predict(&ctx, &table, &mesh, &split, out, NULL);
}

/* Predicts a run under a reading; the document is the caller's to free. */
static struct document *read_as(const struct run *r, const struct reading *as,
                                struct prediction *p) {
    struct document *const d = load(r);
    struct execution e = d->problem.workload.execution;
    e.context_shards = as->shards;
    d->problem.engine.profile.attention_rate = as->attention_rate;
    predict(d, &e, p);
    return d;
}

static double error_of(const struct prediction *p, const struct run *r) {
    return p->tokens_per_s_per_gpu / r->tokens_per_s - 1.0;
}

/* Returns the relative error of the throughput. */
static double throughput(const struct run *r, const struct reading *as, double reached) {
    struct prediction p;
    struct document *const d = read_as(r, as, &p);
    const double error = error_of(&p, r);
    char what[64];
    (void)snprintf(what, sizeof what, "%s %dK %s", r->model, r->sequence / 1024, as->name);
    print_message("%s: %.1f, printed %.0f, %+.1f %%\n", what, p.tokens_per_s_per_gpu,
                  r->tokens_per_s, 100.0 * error);
    AT_MOST_SO_FAR("long context", what, fabs(error), AIM, reached);
    assert_int_not_equal(p.verdict, VERDICT_NO);
    assert_true(p.memory.total < p.capacity_bytes);
    assert_true(p.memory.optimizer == 0.0);
    assert_true(8.0 * p.host_bytes < d->problem.cluster.host_memory_bytes);
    document_free(d);
    return error;
}

static void test_throughput(void **state) {
    (void)state;
    double errors[READINGS][RUNS];
    for (int k = 0; k < READINGS; ++k) {
        int within = 0;
        for (int i = 0; i < RUNS; ++i) {
            errors[k][i] = throughput(&runs[i], &readings[k], readings[k].reached[i]);
            within += fabs(errors[k][i]) <= AIM;
        }
        print_message("%s: %d of %d within 25 %%\n", readings[k].name, within, (int)RUNS);
        assert_true(within >= readings[k].within);
    }
    /* At 1M tokens, most of whose time is attention, the truth lies between the two cuts. */
    for (int i = RUNS / 2; i < RUNS; ++i)
        assert_true(errors[0][i] > 0.0 && errors[1][i] < 0.0);
}

/* That all six lie within the aim does not hang on one rate. */
static void test_slower_cores(void **state) {
    (void)state;
    for (int slower = 115; slower <= 170; slower += 11)
        for (int i = 0; i < RUNS; ++i) {
            struct prediction p;
            const struct reading as = {.shards = CONTEXT_BALANCED,
                                       .attention_rate = 100.0 / (double)slower};
            document_free(read_as(&runs[i], &as, &p));
            assert_true(fabs(error_of(&p, &runs[i])) <= AIM);
        }
}

/* Eight times the context: each model slows by its attention, and memory grows by N alone. */
static void test_longer_context(void **state) {
    (void)state;
    for (int i = 0; i < RUNS / 2; ++i) {
        struct prediction few, many;
        struct document *const one = load(&runs[i]), *const two = load(&runs[i + RUNS / 2]);
        predict(one, &one->problem.workload.execution, &few);
        predict(two, &two->problem.workload.execution, &many);
        const double slower = few.tokens_per_s_per_gpu / many.tokens_per_s_per_gpu;
        const double printed = runs[i].tokens_per_s / runs[i + RUNS / 2].tokens_per_s;
        print_message("%s: %.2f times slower, printed %.2f\n", runs[i].model, slower, printed);
        assert_true(slower > 1.0 && many.split.attention_s > few.split.attention_s);
        assert_true(many.memory.weights == few.memory.weights);
        assert_true(many.memory.activations <= 8.0 * few.memory.activations + 8.0);
        document_free(one);
        document_free(two);
    }
}

/* The largest item. */
static const char *largest(const struct memory_items *m) {
    const char *most = "", *name;
    double bytes = 0.0, most_bytes = 0.0;
    for (int i = 0; (name = memory_item(m, i, &bytes)); ++i)
        if (bytes > most_bytes) {
            most_bytes = bytes;
            most = name;
        }
    return most;
}

static void expect_largest(const struct document *d, const struct execution *e, const char *name,
                           bool fits) {
    struct prediction p;
    predict(d, e, &p);
    const double gib = 1073741824.0;
    print_message("%6.1f GiB of %.1f, most of it %s\n", p.memory.total / gib,
                  p.capacity_bytes / gib, largest(&p.memory));
    assert_string_equal(largest(&p.memory), name);
    assert_int_equal(p.memory.total <= p.capacity_bytes, fits);
}

/* 65,536 tokens a rank in one micro-batch.  AdamW's state is the first not to fit; without it the
 * logits; then boundaries of layers, and with those away what is left are weights. */
static void test_what_runs_out(void **state) {
    (void)state;
    struct document *const d = load(&runs[RUNS - 1]);
    const struct execution all = d->problem.workload.execution;
    struct execution e = all;
    e.bucket_params = e.checkpoint_host_bytes = 0.0;
    e.vocab_ring = e.dispatch_chunk = 0;
    e.balance = BALANCE_NONE;
    expect_largest(d, &e, "optimizer", false);
    e.bucket_params = all.bucket_params;
    expect_largest(d, &e, "logits", false);
    e.vocab_ring = all.vocab_ring;
    expect_largest(d, &e, "activations", true);
    e.checkpoint_host_bytes = all.checkpoint_host_bytes;
    struct prediction whole, cut;
    predict(d, &e, &whole);
    e.dispatch_chunk = all.dispatch_chunk;
    predict(d, &e, &cut);
    assert_close(cut.memory.communication * 8.0, whole.memory.communication, 1e-6);
    assert_close(whole.memory.communication, 2.0 * 65536.0 * 8.0 * 7168.0 * 2.0, 1e-6);
    expect_largest(d, &e, "weights", true);
    /* Any one of state and logits left out is one too many. */
    e = all;
    e.bucket_params = 0.0;
    expect_largest(d, &e, "optimizer", false);
    document_free(d);
}

/* The smaller models keep their state, and nothing else, on the device. */
static void test_smaller_models(void **state) {
    (void)state;
    for (int i = RUNS / 2; i < RUNS - 1; ++i) {
        struct document *const d = load(&runs[i]);
        struct execution e = d->problem.workload.execution;
        e.bucket_params = e.checkpoint_host_bytes = 0.0;
        e.vocab_ring = e.dispatch_chunk = 0;
        expect_largest(d, &e, "optimizer", false);
        e.bucket_params = d->problem.workload.execution.bucket_params;
        expect_largest(d, &e, "logits", true);
        document_free(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_throughput),     cmocka_unit_test(test_slower_cores),
        cmocka_unit_test(test_longer_context), cmocka_unit_test(test_what_runs_out),
        cmocka_unit_test(test_smaller_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
