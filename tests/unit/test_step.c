// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * src/step/step.c: the split of the step time adds up at any point, bounds hold for any split, the
 * pipeline's bubble is the textbook's, one GPU talks to nobody.
 */
#include "p6.h"
#include "step/data_parallel.h"

static struct sample s;

enum { POINTS = 40000, BOUND_POINTS = 120000 };

static void print_sample(void) {
    const struct mesh *const m = &s.at.mesh;
    print_error(
        "%d GPUs, %d layers (%d dense), hidden %d, %d experts top %d; tp %d cp %d pp %d vpp %d "
        "ep %d etp %d dp %d, %d x %d, recompute %d, precision %d, sequence %d\n",
        cluster_gpus(&s.cluster), s.geometry.layers, s.geometry.first_dense, s.geometry.hidden,
        s.geometry.experts, s.geometry.top_k, m->tp, m->cp, m->pp, m->vpp, m->ep, m->etp, m->dp,
        m->micro_batches, m->micro_batch, (int)m->recompute, (int)s.workload.precision,
        s.workload.sequence);
}

/* Finite, of the right sign, and the terms make up the step. */
static void expect_sound(const struct prediction *p) {
    double sum = 0.0;
    for (int i = 0; i < TIME_TERM_COUNT; ++i) {
        double seconds = (double)NAN;
        const char *const name = time_term(&p->split, i, &seconds);
        const bool may_be_negative = strcmp(name, "correction_s") == 0;
        if (!isfinite(seconds) || (seconds < 0.0 && !may_be_negative)) {
            print_sample();
            fail_msg("%s is %g", name, seconds);
        }
        sum += seconds;
    }
    assert_close(sum, p->step_time_s, 1e-12);
    assert_true(p->step_time_s > 0.0);
    const double rates[] = {p->tokens_per_s_per_gpu,
                            p->mfu,
                            p->mfu_full_attention,
                            p->mfu_6n,
                            p->hfu,
                            p->interval_low_s,
                            p->interval_high_s,
                            p->allocated_bytes};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; ++i)
        assert_true(isfinite(rates[i]) && rates[i] > 0.0);
    assert_true(p->hfu >= p->mfu && p->mfu_full_attention >= p->mfu);
    assert_true(p->interval_low_s < p->step_time_s && p->step_time_s < p->interval_high_s);
    double bytes_sum = 0.0;
    for (int i = 0; i < MEMORY_ITEM_COUNT; ++i) {
        double bytes = (double)NAN;
        (void)memory_item(&p->memory, i, &bytes);
        assert_true(bytes >= 0.0 && bytes == floor(bytes));
        bytes_sum += bytes;
    }
    assert_true(bytes_sum == p->memory.total);
}

static void test_terms_add_up(void **state) {
    (void)state;
    for (int i = 0; i < POINTS; ++i) {
        random_sample(&s, i % 2 ? estimator_published() : estimator_default());
        if (s.at.mesh.vpp == 1 && i % 3)
            random_split(s.geometry.layers, s.at.mesh.pp, &s.at.split);
        point_predict(&s.at);
        expect_sound(&s.at.out);
        for (int k = 0; k < s.at.mesh.pp; ++k)
            assert_true(s.at.stages[k].total <= s.at.out.memory.total);
        assert_true(s.at.stages[s.at.out.worst_stage].total == s.at.out.memory.total);
    }
}

/* The stages' costs and the pipeline's form give the same step as step_predict. */
static void test_stages_make_the_step(void **state) {
    (void)state;
    for (int i = 0; i < POINTS / 8; ++i) {
        random_sample(&s, estimator_default());
        if (s.at.mesh.vpp == 1)
            random_split(s.geometry.layers, s.at.mesh.pp, &s.at.split);
        point_predict(&s.at);
        double max_s = 0.0, sum_s = 0.0, tail_s = 0.0;
        for (int k = 0; k < s.at.mesh.pp; ++k) {
            struct stage_cost stage;
            const struct stage_range range = {k, s.at.split.first[k], s.at.split.first[k + 1]};
            stage_cost_of(&s.at.ctx, &s.at.table, &s.at.mesh, range, &stage);
            max_s = fmax(max_s, stage.busy_s);
            sum_s += stage.busy_s;
            tail_s = fmax(tail_s, stage.tail_s);
            assert_true(stage.forward_s > 0.0 && stage.forward_s < stage.busy_s);
        }
        const struct pipeline_form form = pipeline_form_of(&s.at.ctx, &s.at.table, &s.at.mesh);
        const double step_s = form.max_weight * max_s + form.sum_weight * sum_s + tail_s;
        assert_close(step_s * step_straggler_factor(&s.at.ctx), s.at.out.step_time_s, 1e-9);
    }
}

static void test_bounds(void **state) {
    (void)state;
    double tightest = 0.0;
    for (int i = 0; i < BOUND_POINTS;) {
        random_sample(&s, estimator_default());
        const double bound_s = step_bound(&s.at.ctx, &s.at.table, &s.at.mesh);
        const double bound_bytes = step_memory_bound(&s.at.ctx, &s.at.table, &s.at.mesh);
        assert_true(bound_s > 0.0 && isfinite(bound_s));
        const int splits = s.at.mesh.pp > 1 && s.at.mesh.vpp == 1 ? 6 : 1;
        for (int k = 0; k < splits; ++k, ++i) {
            if (k > 0)
                random_split(s.geometry.layers, s.at.mesh.pp, &s.at.split);
            point_predict(&s.at);
            tightest = fmax(tightest, bound_s / s.at.out.step_time_s);
            if (bound_s <= s.at.out.step_time_s && bound_bytes <= s.at.out.memory.total)
                continue;
            print_sample();
            fail_msg("bounds %.17g s, %.17g B above %.17g s, %.17g B (split %d)", bound_s,
                     bound_bytes, s.at.out.step_time_s, s.at.out.memory.total, k);
        }
    }
    assert_true(tightest > 0.99); /* else it would hold for the wrong reason */
}

/* One micro-batch, few layers, leading dense ones: the step is then the sum of the stages and the
 * tail, and nothing hides a tail bound that is too high. */
static void test_bounds_of_one_micro_batch(void **state) {
    (void)state;
    for (int i = 0; i < POINTS / 2;) {
        s.cluster = p6_nodes(PICK(1, 2, 4, 8));
        s.geometry = random_geometry();
        s.geometry.layers = PICK(2, 3, 4, 6, 8);
        s.geometry.first_dense = s.geometry.experts ? PICK(1, 2, 3) : s.geometry.layers;
        s.geometry.window = s.geometry.window_layers = s.geometry.mtp_layers = 0;
        s.workload = random_workload();
        struct mesh m = random_mesh();
        m.pp = PICK(2, 4);
        m.vpp = 1;
        s.workload.global_batch = m.micro_batch * (cluster_gpus(&s.cluster) / (m.tp * m.cp * m.pp));
        struct status_error err;
        if (geometry_check(&s.geometry, &err) != MOSAIC_OK ||
            !point_prepare(&s.at, &s.cluster, &p6.calibration, &s.workload, &s.geometry,
                           estimator_default(), m))
            continue;
        assert_int_equal(s.at.mesh.micro_batches, 1);
        const double bound_s = step_bound(&s.at.ctx, &s.at.table, &s.at.mesh);
        for (int k = 0; k < 4; ++k, ++i) {
            if (k > 0)
                random_split(s.geometry.layers, m.pp, &s.at.split);
            point_predict(&s.at);
            if (bound_s <= s.at.out.step_time_s)
                continue;
            print_sample();
            fail_msg("bound %.17g s above %.17g s", bound_s, s.at.out.step_time_s);
        }
    }
}

/* The released estimator's memory has a bound as well. */
static void test_published_memory_bound(void **state) {
    (void)state;
    for (int i = 0; i < POINTS / 4; ++i) {
        random_sample(&s, estimator_published());
        if (s.at.mesh.vpp == 1)
            random_split(s.geometry.layers, s.at.mesh.pp, &s.at.split);
        point_predict(&s.at);
        assert_true(step_memory_bound(&s.at.ctx, &s.at.table, &s.at.mesh) <= s.at.out.memory.total);
    }
}

/* U40: PP 8, DP 8, global batch 256; the bubble's share of the step with equal stages. */
static void test_bubble_of_equal_stages(void **state) {
    (void)state;
    static const struct {
        int vpp, micro_batches;
        double share;
    } cases[] = {{1, 32, .179}, {1, 16, .304}, {4, 32, .052}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        const struct mesh m = {
            .pp = 8, .vpp = cases[i].vpp, .micro_batches = cases[i].micro_batches};
        const struct step_context ctx = {.calibration = &p6.calibration};
        const struct layer_table table = {0};
        const struct pipeline_form form = pipeline_form_of(&ctx, &table, &m);
        const double step = form.max_weight + form.sum_weight * 8.0; /* every stage takes 1 */
        assert_close_abs((step - (double)m.micro_batches) / step, cases[i].share, 5e-4);
    }
}

/* The same through the evaluator: 32 like layers, no ends, no host, free hand-offs. */
static void test_bubble_of_the_evaluator(void **state) {
    (void)state;
    struct calibration cal = p6.calibration;
    cal.scalar[CAL_HOST_GAP] = cal.scalar[CAL_HOST_MICRO_BATCH] = cal.scalar[CAL_HOST_EP_SYNC] =
        0.0;
    cal.scalar[CAL_PP_EXPOSED] = cal.scalar[CAL_CROSS_ENTROPY_PASSES] = 0.0;
    cal.scalar[CAL_STRAGGLER] = 0.0;
    struct geometry g = ladder(8, 64, 2, 4);
    g.first_dense = 0;
    g.vocab = 1; /* padded to 128: next to nothing */
    const struct cluster c = p6_nodes(8);
    struct workload w = p6.workload;
    w.global_batch = 256;
    static struct point p;
    static const struct {
        int vpp, micro_batch;
        double share;
    } cases[] = {{1, 1, .179}, {1, 2, .304}, {4, 1, .052}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        const struct mesh m = {.tp = 1,
                               .cp = 1,
                               .pp = 8,
                               .vpp = cases[i].vpp,
                               .ep = 8,
                               .etp = 1,
                               .micro_batch = cases[i].micro_batch};
        assert_true(point_prepare(&p, &c, &cal, &w, &g, estimator_default(), m));
        point_predict(&p);
        const double tail_s = p.out.split.dp_exposed_s + p.out.split.optimizer_s;
        assert_close_abs(p.out.split.bubble_s / (p.out.step_time_s - tail_s), cases[i].share, 2e-3);
    }
}

/* Groups, buckets and windows by hand. */
static void test_data_parallel(void **state) {
    (void)state;
    static struct point p;
    const struct geometry g = ladder(8, 64, 2, 4);
    const struct mesh m = {
        .tp = 2, .cp = 2, .pp = 2, .vpp = 1, .ep = 4, .etp = 2, .micro_batch = 1};
    p6_predict(&p, &g, estimator_default(), m);
    const struct network *const net = &p.ctx.network;
    const struct group dense = {64, 2}, expert = {16, 8}; /* DP x CP; expert-DP */
    struct stage_cost stage = {
        .dense_params = 3e9, .expert_params = 2e9, .busy_s = 1e9, .forward_s = 5e8};
    struct data_parallel dp;
    struct shard_links wires;
    shard_links_of(&p.ctx, &p.mesh, &wires);
    data_parallel_of(&p.ctx, &p.table, &p.mesh, &wires, &stage, NULL, &dp);
    assert_close(dp.reduce_s,
                 collective_time_s(net, COLLECTIVE_REDUCE_SCATTER, dense, 12e9, NULL) +
                     collective_time_s(net, COLLECTIVE_REDUCE_SCATTER, expert, 8e9, NULL),
                 1e-12);
    assert_close(dp.gather_s,
                 collective_time_s(net, COLLECTIVE_ALL_GATHER, dense, 6e9, NULL) +
                     collective_time_s(net, COLLECTIVE_ALL_GATHER, expert, 4e9, NULL),
                 1e-12);
    /* one bucket of five always shows */
    assert_close(dp.reduce_exposed_s, dp.reduce_s / 5.0, 1e-12);
    assert_close(dp.gather_exposed_s, dp.gather_s / 5.0, 1e-12);
    assert_close(dp.optimizer_s, 10e-3 + 90.0 * (3e9 / 64.0 + 2e9 / 16.0) / 8e12, 1e-12);
    /* backward hides gradients, forward hides weights */
    stage.busy_s = 0.05;
    stage.forward_s = 0.02;
    data_parallel_of(&p.ctx, &p.table, &p.mesh, &wires, &stage, NULL, &dp);
    assert_close(dp.reduce_s - dp.reduce_exposed_s, 0.03, 1e-9);
    assert_close(dp.gather_s - dp.gather_exposed_s, 0.02, 1e-9);
}

/* An activation goes to the next stage and a gradient comes back, once a chunk: TP x CP x DP away.
 */
static void test_hand_off(void **state) {
    (void)state;
    static struct point p;
    const struct geometry g = ladder(8, 64, 2, 4);
    for (int vpp = 1; vpp <= 2; ++vpp) {
        const struct mesh m = {
            .tp = 2, .cp = 1, .pp = 4, .vpp = vpp, .ep = 8, .etp = 1, .micro_batch = 2};
        const struct cluster c = p6_nodes(1); /* stages are two GPUs apart, inside the node */
        struct mesh near = m;
        near.ep = 2;
        p6_predict(&p, &g, estimator_default(), m);
        const struct group far_group = {2, 64}, near_group = {2, 2};
        const double bytes = 2.0 * 4096.0 * 2.0 * 2048.0 / 2.0;
        assert_close(p.out.split.pp_exposed_s,
                     p.mesh.micro_batches * 2.0 * vpp *
                         collective_time_s(&p.ctx.network, COLLECTIVE_POINT_TO_POINT, far_group,
                                           bytes, NULL),
                     1e-12);
        assert_true(
            point_prepare(&p, &c, &p6.calibration, &p6.workload, &g, estimator_default(), near));
        point_predict(&p);
        assert_close(p.out.split.pp_exposed_s,
                     p.mesh.micro_batches * 2.0 * vpp *
                         collective_time_s(&p.ctx.network, COLLECTIVE_POINT_TO_POINT, near_group,
                                           bytes, NULL),
                     1e-12);
    }
}

static void test_one_gpu_talks_to_nobody(void **state) {
    (void)state;
    struct cluster c = p6.cluster;
    c.nodes = c.gpus_per_node = 1;
    const struct geometry g = ladder(4, 8, 2, 4);
    struct workload w = p6.workload;
    w.global_batch = 16;
    static struct point p;
    const struct mesh m = {.tp = 1,
                           .cp = 1,
                           .pp = 1,
                           .vpp = 1,
                           .ep = 1,
                           .etp = 1,
                           .micro_batch = 2,
                           .recompute = RECOMPUTE_FULL};
    assert_true(point_prepare(&p, &c, &p6.calibration, &w, &g, estimator_default(), m));
    point_predict(&p);
    const struct time_split *const t = &p.out.split;
    const double none[] = {t->tp_exposed_s, t->cp_exposed_s,      t->ep_exposed_s, t->pp_exposed_s,
                           t->bubble_s,     t->stage_imbalance_s, t->dp_exposed_s, t->straggler_s,
                           t->quantise_s,   t->offload_exposed_s, t->correction_s, 0.0};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; ++i)
        assert_close_abs(none[i], 0.0, 0.0);
    const double some[] = {t->gemm_s,      t->grouped_gemm_s,    t->attention_s, t->elementwise_s,
                           t->router_s,    t->permute_s,         t->head_loss_s, t->recompute_s,
                           t->optimizer_s, t->dispatch_exposed_s};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; ++i)
        assert_true(some[i] > 0.0);
    assert_close_abs(p.out.memory.communication, 0.0, 0.0);
}

/* tokens/s, MFU and the step time are one fact. */
static void test_rates(void **state) {
    (void)state;
    static struct point p;
    const struct geometry g = ladder(8, 64, 2, 4);
    struct mesh m = {.tp = 1, .cp = 1, .pp = 4, .vpp = 1, .ep = 8, .etp = 1, .micro_batch = 4};
    p6_predict(&p, &g, estimator_default(), m);
    const double tokens = 1024.0 * 2048.0, gpus = 256.0;
    assert_close(p.out.tokens_per_s_per_gpu, tokens / p.out.step_time_s / gpus, 1e-12);
    struct flop_counts f;
    count_flops(&g, 2048.0, &f);
    assert_close(p.out.mfu, f.causal * tokens / (p.out.step_time_s * gpus * 2.25e15), 1e-12);
    assert_close(p.out.mfu_6n / p.out.mfu, f.six_n / f.causal, 1e-12);
    assert_close(p.out.hfu, p.out.mfu, 1e-12); /* nothing recomputed */
    m.recompute = RECOMPUTE_FULL;
    p6_predict(&p, &g, estimator_default(), m);
    /* all but the head runs forward once more: (4 c - head) / 3 c, c without the embedding */
    const double head = 6.0 * 4096.0 * 50257.0;
    assert_close(p.out.hfu / p.out.mfu, 1.0 + (f.causal - head) / 3.0 / f.causal, 1e-6);
    assert_close(log(p.out.interval_high_s / p.out.step_time_s), 1.6449 * 0.12, 1e-4);
    struct prediction bad = p.out;
    assert_true(step_is_plausible(&bad));
    bad.mfu = 1.01;
    assert_false(step_is_plausible(&bad));
    bad.mfu = (double)NAN;
    assert_false(step_is_plausible(&bad));
}

static void test_stragglers(void **state) {
    (void)state;
    struct step_context ctx;
    const struct geometry g = ladder(8, 64, 2, 4);
    static const int nodes[] = {1, 2, 32};
    for (size_t i = 0; i < 3; ++i) {
        const struct cluster c = p6_nodes(nodes[i]);
        step_context_init(&ctx, &g, &c, &p6.calibration, &p6.workload, &p6.engine,
                          estimator_default());
        assert_close(step_straggler_factor(&ctx), 1.0 + 0.006 * log2((double)nodes[i]), 1e-12);
        ctx.estimator = estimator_published();
        assert_close(step_straggler_factor(&ctx), 1.0, 0.0);
    }
}

/* Same inputs, same bits: nothing is left over from the point before. */
static void test_is_a_function(void **state) {
    (void)state;
    static struct sample first;
    for (int i = 0; i < 200; ++i) {
        random_sample(&s, estimator_default());
        point_predict(&s.at);
        first = s;
        layer_table_fill(&s.at.ctx, &s.at.mesh, &s.at.table);
        memset(&s.at.out, 0x5a, sizeof s.at.out);
        step_predict(&s.at.ctx, &s.at.table, &s.at.mesh, &s.at.split, &s.at.out, NULL);
        assert_true(s.at.out.step_time_s == first.at.out.step_time_s);
        assert_memory_equal(&s.at.out.split, &first.at.out.split, sizeof s.at.out.split);
        assert_memory_equal(&s.at.out.memory, &first.at.out.memory, sizeof s.at.out.memory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_terms_add_up),
        cmocka_unit_test(test_stages_make_the_step),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_bounds_of_one_micro_batch),
        cmocka_unit_test(test_published_memory_bound),
        cmocka_unit_test(test_bubble_of_equal_stages),
        cmocka_unit_test(test_bubble_of_the_evaluator),
        cmocka_unit_test(test_data_parallel),
        cmocka_unit_test(test_hand_off),
        cmocka_unit_test(test_one_gpu_talks_to_nobody),
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_stragglers),
        cmocka_unit_test(test_is_a_function),
    };
    return cmocka_run_group_tests(tests, p6_load, NULL);
}
