// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * src/step/layer_cost.c and stage_content.c: what TP, EP, ETP and CP divide and what they do not,
 * rows per expert, recomputation, host launches, parameters on one GPU.
 */
#include "known_models.h"
#include "p6.h"

static struct point a, b;
static struct workload work;

static struct mesh plain(void) {
    return (struct mesh){.tp = 1, .cp = 1, .pp = 1, .vpp = 1, .ep = 1, .etp = 1, .micro_batch = 1};
}

static void fill(struct point *p, const struct geometry *g, struct estimator e, struct mesh m) {
    assert_true(point_prepare(p, &p6.cluster, &p6.calibration, &work, g, e, m));
}

static int load(void **state) {
    if (p6_load(state) != 0)
        return -1;
    work = p6.workload;
    return 0;
}

/* U15: EP shards the routed weights; what a rank keeps and computes comes from its own tokens. */
static void test_ep_moves_weights_not_activations(void **state) {
    (void)state;
    struct mesh m = plain();
    fill(&a, &qwen3_30b_a3b, estimator_default(), m);
    m.ep = 8;
    fill(&b, &qwen3_30b_a3b, estimator_default(), m);
    const struct layer_cost *const one = &a.table.cost[LAYER_MOE];
    const struct layer_cost *const eight = &b.table.cost[LAYER_MOE];
    assert_close(b.table.params[LAYER_MOE].expert, a.table.params[LAYER_MOE].expert / 8.0, 1e-12);
    assert_close(b.table.params[LAYER_MOE].dense, a.table.params[LAYER_MOE].dense, 0.0);
    assert_close(eight->kept_bytes, one->kept_bytes, 0.0);
    assert_close(eight->kept_routed_bytes, one->kept_routed_bytes, 1e-12);
    /* 8 tokens' worth of inputs and three widths, bf16 */
    assert_close(one->kept_routed_bytes, 2048.0 * 8.0 * (2048.0 + 3.0 * 768.0) * 2.0, 1e-12);
    assert_close_abs(one->ep_s, 0.0, 0.0);
    assert_true(eight->ep_s > 0.0);
    /* eight times the rows per local expert, over an eighth of the experts: less weight traffic */
    assert_true(eight->kernels.grouped_gemm_s < one->kernels.grouped_gemm_s);
    assert_close(eight->kernels.gemm_s, one->kernels.gemm_s, 0.0);
}

/* The release leaves out what EP peers send, so its experts do 1/EP of the work. */
static void test_published_rows(void **state) {
    (void)state;
    const struct geometry g = ladder(8, 64, 2, 4);
    struct mesh m = plain();
    m.recompute = RECOMPUTE_FULL;
    fill(&a, &g, estimator_published(), m);
    m.ep = 8;
    fill(&b, &g, estimator_published(), m);
    assert_close(a.table.cost[LAYER_MOE].kernels.grouped_gemm_s /
                     b.table.cost[LAYER_MOE].kernels.grouped_gemm_s,
                 8.0, 1e-9);
    fill(&a, &g, estimator_default(), m);
    const double routed = 2.0 * 3.0 * 4096.0 * 2560.0 * 2048.0 * 2.0; /* FLOPs, top-2 */
    assert_close(a.table.cost[LAYER_MOE].recompute_flop - b.table.cost[LAYER_MOE].recompute_flop,
                 routed * 7.0 / 8.0, 1e-9);
}

/* TP halves its matrices, heads and, with sequence parallelism, everything kept. */
static void test_tp_halves(void **state) {
    (void)state;
    struct geometry g = qwen3_30b_a3b;
    g.first_dense = 2;
    g.dense_ffn = 6144;
    g.vocab = 128 * 1024; /* padded alike under both */
    g.shared_experts = 1;
    g.shared_ffn = 768;
    struct mesh m = plain();
    m.ep = 8;
    fill(&a, &g, estimator_default(), m);
    m.tp = 2;
    fill(&b, &g, estimator_default(), m);
    for (int kind = 0; kind < LAYER_KINDS; ++kind) {
        assert_close(b.table.cost[kind].kept_bytes, a.table.cost[kind].kept_bytes / 2.0, 1e-12);
        assert_close(b.table.cost[kind].kernels.attention_s,
                     a.table.cost[kind].kernels.attention_s / 2.0, 1e-12);
        assert_close(b.table.cost[kind].kernels.elementwise_s,
                     a.table.cost[kind].kernels.elementwise_s / 2.0, 1e-12);
        assert_close_abs(a.table.cost[kind].tp_s, 0.0, 0.0);
        assert_true(b.table.cost[kind].tp_s > 0.0);
        /* GEMMs: half the FLOPs, but inputs are as large and shapes thinner */
        const double ratio = b.table.cost[kind].kernels.gemm_s / a.table.cost[kind].kernels.gemm_s;
        assert_true(ratio > 0.5 && ratio < 0.7);
    }
    assert_close(b.table.cost[LAYER_MOE].kept_routed_bytes,
                 a.table.cost[LAYER_MOE].kept_routed_bytes / 2.0, 1e-12);
    assert_close(b.table.params[LAYER_DENSE].dense, a.table.params[LAYER_DENSE].dense / 2.0, 1e-12);
    /* the router is replicated, routed experts are ETP's */
    const double router = 2048.0 * 128.0;
    assert_close(b.table.params[LAYER_MOE].dense - router,
                 (a.table.params[LAYER_MOE].dense - router) / 2.0, 1e-12);
    assert_close(b.table.params[LAYER_MOE].expert, a.table.params[LAYER_MOE].expert, 0.0);
    assert_close(b.table.hand_off_bytes, a.table.hand_off_bytes / 2.0, 1e-12);
    assert_close(b.table.logits_bytes, a.table.logits_bytes / 2.0, 1e-12);
    assert_close(b.table.embedding_params, a.table.embedding_params / 2.0, 1e-12);
    assert_close(b.table.head_params, a.table.head_params / 2.0, 1e-12);
}

/* Two KV heads on eight TP ranks: each rank holds one, four copies of each exist (U31). */
static void test_kv_replication(void **state) {
    (void)state;
    struct geometry g = qwen3_30b_a3b;
    g.kv_heads = 2;
    struct mesh m = plain();
    fill(&a, &g, estimator_default(), m);
    m.tp = 8;
    fill(&b, &g, estimator_default(), m);
    const double router = 2048.0 * 128.0, d = 2048.0 * 128.0;
    assert_close(a.table.params[LAYER_MOE].dense, d * (32.0 + 2.0 * 2.0 + 32.0) + router, 1e-12);
    assert_close(b.table.params[LAYER_MOE].dense, d * (4.0 + 2.0 * 1.0 + 4.0) + router, 1e-12);
}

static void test_etp_splits_experts(void **state) {
    (void)state;
    struct mesh m = plain();
    m.ep = 4;
    fill(&a, &qwen3_30b_a3b, estimator_default(), m);
    m.etp = 2;
    fill(&b, &qwen3_30b_a3b, estimator_default(), m);
    assert_close(b.table.params[LAYER_MOE].expert, a.table.params[LAYER_MOE].expert / 2.0, 1e-12);
    assert_true(b.table.cost[LAYER_MOE].tp_s > 0.0); /* rows gathered over the ETP group */
    /* half the width, twice the rows: widths alike, inputs doubled */
    const double inputs = 2048.0 * 8.0 * 2048.0 * 2.0;
    assert_close(b.table.cost[LAYER_MOE].kept_routed_bytes -
                     a.table.cost[LAYER_MOE].kept_routed_bytes,
                 inputs, 1e-12);
}

static void test_cp_divides_tokens_and_exchanges_keys(void **state) {
    (void)state;
    work.sequence = 8192;
    struct mesh m = plain();
    fill(&a, &qwen3_30b_a3b, estimator_default(), m);
    m.cp = 2;
    fill(&b, &qwen3_30b_a3b, estimator_default(), m);
    work.sequence = p6.workload.sequence;
    const struct layer_cost *const one = &a.table.cost[LAYER_MOE];
    const struct layer_cost *const two = &b.table.cost[LAYER_MOE];
    assert_close(two->kept_bytes, one->kept_bytes / 2.0, 1e-12);
    assert_close(two->kernels.attention_s, one->kernels.attention_s / 2.0, 1e-12);
    assert_close_abs(one->cp_s, 0.0, 0.0);
    assert_true(two->cp_s > 0.0);
    assert_close(b.table.params[LAYER_MOE].dense, a.table.params[LAYER_MOE].dense, 0.0);
}

/* Who talks to whom: CP ranks are TP apart, EP ranks ETP apart. */
static void test_groups(void **state) {
    (void)state;
    struct mesh m = plain();
    m.tp = 4;
    m.cp = 4;
    m.ep = 8;
    m.etp = 2;
    fill(&a, &qwen3_30b_a3b, estimator_default(), m);
    const struct network *const net = &a.ctx.network;
    const struct layer_cost *const layer = &a.table.cost[LAYER_MOE];
    /* both leave the node, with four and two members in it */
    const double tokens = 2048.0 / 4.0; /* CP */
    const double routed = 2.0 * 2048.0 * 8.0 * tokens / 4.0;
    const struct group ep = {8, 2}, cp = {4, 4}, tp = {4, 1}, etp = {2, 1};
    assert_close(a.table.routed_payload_bytes, routed, 1e-12);
    assert_close(layer->all_to_all_s,
                 4.0 * collective_time_s(net, COLLECTIVE_ALL_TO_ALL, ep, routed, NULL), 1e-12);
    assert_close(layer->ep_s, layer->all_to_all_s, 1e-12);
    const double keys = 2.0 * (128.0 + 128.0) * 2048.0; /* one KV head, the whole sequence */
    assert_close(layer->cp_s,
                 2.0 * collective_time_s(net, COLLECTIVE_ALL_GATHER, cp, keys, NULL) +
                     collective_time_s(net, COLLECTIVE_REDUCE_SCATTER, cp, keys, NULL),
                 1e-12);
    const double block = 2.0 * 2048.0 * tokens, rows = routed * 2.0;
    assert_close(layer->tp_s,
                 2.3 * (collective_time_s(net, COLLECTIVE_ALL_GATHER, tp, block, NULL) +
                        collective_time_s(net, COLLECTIVE_REDUCE_SCATTER, tp, block, NULL) +
                        collective_time_s(net, COLLECTIVE_ALL_GATHER, etp, rows, NULL) +
                        collective_time_s(net, COLLECTIVE_REDUCE_SCATTER, etp, rows, NULL)),
                 1e-12);
}

/* U13: the head costs 6 h V FLOPs a token, so a doubled vocabulary doubles its time. */
static void test_head(void **state) {
    (void)state;
    struct geometry g = qwen3_30b_a3b;
    g.vocab = 65536;
    fill(&a, &g, estimator_default(), plain());
    struct flop_counts before, now;
    count_flops(&g, 2048.0, &before);
    g.vocab *= 2;
    fill(&b, &g, estimator_default(), plain());
    count_flops(&g, 2048.0, &now);
    assert_close(now.causal - before.causal, 6.0 * 2048.0 * 65536.0, 1e-12);
    assert_close(b.table.head_s, 2.0 * a.table.head_s, 1e-12);
    const double gemm = 2.0 * 2048.0 * 2048.0 * 65536.0;
    assert_close(a.table.head_s,
                 gemm / (2.25e15 * .685) + 2.0 * gemm / (2.25e15 * .775) +
                     19.6 * 4.0 * 2048.0 * 65536.0 / 8e12,
                 1e-12);
    assert_close(a.table.logits_bytes, 4.4 * 2048.0 * 65536.0, 1e-12);
    /* an MTP layer brings a head pass, a layer and a two-to-one projection */
    g.mtp_layers = 1;
    fill(&a, &g, estimator_default(), plain());
    assert_true(a.table.head_s > 2.0 * b.table.head_s);
    assert_int_equal(a.table.mtp_kind, LAYER_MOE);
    assert_close(a.table.mtp.expert, b.table.params[LAYER_MOE].expert, 1e-12);
}

/* The published 20.7 ms for 8192 tokens over 257,664 words. */
static void test_cross_entropy(void **state) {
    (void)state;
    struct geometry g = ladder(4, 128, 3, 4);
    g.vocab = 257664;
    work.sequence = 8192;
    struct calibration cal = p6.calibration;
    cal.scalar[CAL_HEAD_FORWARD_SHARE] = cal.scalar[CAL_HEAD_BACKWARD_SHARE] = 1e30;
    assert_true(point_prepare(&a, &p6.cluster, &cal, &work, &g, estimator_default(), plain()));
    work.sequence = p6.workload.sequence;
    assert_close(a.table.head_s, 20.7e-3, 5e-3);
}

static void test_padded_vocabulary(void **state) {
    (void)state;
    struct geometry g = qwen3_30b_a3b;
    static const struct {
        int vocab, tp;
        double padded;
    } cases[] = {{50257, 8, 51200}, {151936, 8, 152576}, {50257, 1, 50304}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        g.vocab = cases[i].vocab;
        struct mesh m = plain();
        m.tp = cases[i].tp;
        fill(&a, &g, estimator_default(), m);
        assert_close(a.table.embedding_params * m.tp, cases[i].padded * 2048.0, 1e-15);
    }
}

static void test_recompute(void **state) {
    (void)state;
    const struct geometry g = ladder(8, 64, 2, 4);
    static struct point mode[RECOMPUTE_MODES];
    for (int r = 0; r < RECOMPUTE_MODES; ++r) {
        struct mesh m = plain();
        m.ep = 8;
        m.recompute = (enum recompute)r;
        fill(&mode[r], &g, estimator_default(), m);
    }
    for (int kind = 0; kind < LAYER_KINDS; ++kind) {
        const struct layer_cost *const none = &mode[RECOMPUTE_NONE].table.cost[kind];
        const struct layer_cost *const some = &mode[RECOMPUTE_SELECTIVE].table.cost[kind];
        const struct layer_cost *const full = &mode[RECOMPUTE_FULL].table.cost[kind];
        assert_close_abs(none->recompute_s, 0.0, 0.0);
        assert_true(some->recompute_s > 0.0 && some->recompute_s < 0.3 * full->recompute_s);
        assert_close(some->ep_s, none->ep_s, 0.0); /* GEMMs and all-to-alls are kept */
        assert_close(full->ep_s, 1.5 * none->ep_s, 1e-12);
        /* one more forward */
        assert_close(full->recompute_s + full->ep_s / 3.0, none->forward_s, 1e-12);
        assert_close(full->kept_bytes, 2.0 * 4096.0 * 2048.0, 1e-12); /* the layer's input */
        assert_close_abs(full->kept_routed_bytes, 0.0, 0.0);
        assert_true(some->kept_bytes < none->kept_bytes && full->kept_bytes < some->kept_bytes);
        assert_close(full->interior_bytes, none->kept_bytes + none->kept_routed_bytes, 1e-12);
        assert_true(none->host_s < some->host_s && some->host_s < full->host_s);
    }
}

/* 642 + 7.29 per local expert at 22 us, 10 ms with EP; counted with full recomputation. */
static void test_host(void **state) {
    (void)state;
    const struct geometry g = ladder(12, 96, 2, 4);
    struct mesh m = plain();
    m.ep = 8;
    m.recompute = RECOMPUTE_FULL;
    fill(&a, &g, estimator_default(), m);
    const double launches_s = (642.0 + 7.29 * 12.0) * 22e-6;
    assert_close(a.table.cost[LAYER_MOE].host_s, launches_s + 10e-3, 1e-12);
    assert_close(a.table.cost[LAYER_DENSE].host_s, 35.0 * 22e-6, 1e-12);
    m.recompute = RECOMPUTE_NONE;
    fill(&a, &g, estimator_default(), m);
    assert_close(a.table.cost[LAYER_MOE].host_s, launches_s / 1.3 + 10e-3, 1e-12);
    fill(&a, &g, estimator_published(), m); /* recomputation launches nothing there */
    assert_close(a.table.cost[LAYER_MOE].host_s, launches_s + 10e-3, 1e-12);
    m.ep = 1;
    m.tp = 2;
    m.recompute = RECOMPUTE_SELECTIVE;
    fill(&a, &g, estimator_default(), m);
    assert_close(a.table.cost[LAYER_MOE].host_s, (642.0 + 7.29 * 96.0) * 22e-6 * 1.05 / 1.3 * 1.15,
                 1e-12);
}

static void test_imbalance(void **state) {
    (void)state;
    struct mesh m = plain();
    m.ep = 8;
    fill(&a, &qwen3_30b_a3b, estimator_default(), m);
    work.imbalance = 1.6;
    fill(&b, &qwen3_30b_a3b, estimator_default(), m);
    const struct layer_cost *const even = &a.table.cost[LAYER_MOE];
    const struct layer_cost *const busy = &b.table.cost[LAYER_MOE];
    assert_close(busy->kept_routed_bytes, 1.6 * even->kept_routed_bytes, 1e-12);
    assert_close(b.table.routed_payload_bytes, 1.6 * a.table.routed_payload_bytes, 1e-12);
    assert_close(busy->kernels.gemm_s, even->kernels.gemm_s, 0.0);
    fill(&b, &qwen3_30b_a3b, estimator_published(), m); /* ignores it */
    fill(&a, &qwen3_30b_a3b, estimator_published(), m);
    work.imbalance = 1.0;
    fill(&a, &qwen3_30b_a3b, estimator_published(), m);
    assert_close(b.table.cost[LAYER_MOE].gpu_s, a.table.cost[LAYER_MOE].gpu_s, 0.0);
}

/* Parameters on a GPU of each stage, and their mean. */
static double mean_params(const struct point *p) {
    double sum = 0.0;
    for (int i = 0; i < p->mesh.pp; ++i) {
        struct stage_content c;
        const struct stage_range range = {i, p->split.first[i], p->split.first[i + 1]};
        stage_content_of(&p->ctx, &p->table, &p->mesh, range, &c);
        sum += c.dense_params + c.expert_params;
    }
    return sum / p->mesh.pp;
}

/* U14: three buckets.  Total / TP would say 3.82e9 for the first, and all 30.5e9 for the second. */
static void test_parameters_per_gpu(void **state) {
    (void)state;
    static const struct {
        int tp, ep, pp;
        double params;
    } cases[] = {{8, 2, 1, 14.70e9}, {1, 8, 1, 5.16e9}, {2, 4, 2, 4.01e9}, {1, 1, 1, 30.53e9}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        struct mesh m = plain();
        m.tp = cases[i].tp;
        m.ep = cases[i].ep;
        m.pp = cases[i].pp;
        fill(&a, &qwen3_30b_a3b, estimator_default(), m);
        assert_close(mean_params(&a), cases[i].params, 2e-3);
    }
}

/* Over all GPUs of one copy the parameters are the model's, whatever the cut (no replication). */
static void test_parameters_add_up(void **state) {
    (void)state;
    static const struct geometry *const models[] = {&mixtral_8x7b, &qwen3_30b_a3b, &llama3_8b,
                                                    &deepseek_v3};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; ++i) {
        struct geometry g = *models[i];
        g.vocab = g.vocab / 128 * 128; /* no padding */
        struct param_counts n;
        count_params(&g, &n);
        for (int pp = 1; pp <= 8; pp *= 2) {
            struct mesh m = plain();
            m.pp = pp;
            fill(&a, &g, estimator_default(), m);
            assert_close(mean_params(&a) * pp, n.n_total + n.n_mtp, 1e-12);
        }
    }
}

static void test_tied_ends(void **state) {
    (void)state;
    struct geometry g = llama3_8b;
    struct mesh m = plain();
    m.pp = 2;
    fill(&a, &g, estimator_default(), m);
    const double untied_two = mean_params(&a) * 2.0;
    m.pp = 1;
    fill(&a, &g, estimator_default(), m);
    const double untied_one = mean_params(&a);
    g.tied = true;
    fill(&a, &g, estimator_default(), m);
    assert_close(untied_one - mean_params(&a), 4096.0 * 128256.0, 1e-12);
    m.pp = 2; /* each end holds a copy */
    fill(&a, &g, estimator_default(), m);
    assert_close(mean_params(&a) * 2.0, untied_two, 1e-15);
}

/* An MTP layer's routed experts are sharded like the others, and tying the ends spares none. */
static void test_mtp_parameters(void **state) {
    (void)state;
    struct geometry g = deepseek_v3;
    struct mesh m = plain();
    m.ep = 8;
    struct stage_content with, without;
    const struct stage_range all = {0, 0, g.layers};
    for (int tied = 0; tied < 2; ++tied) {
        g.tied = tied;
        g.mtp_layers = 1;
        fill(&a, &g, estimator_default(), m);
        stage_content_of(&a.ctx, &a.table, &a.mesh, all, &with);
        g.mtp_layers = 0;
        fill(&b, &g, estimator_default(), m);
        stage_content_of(&b.ctx, &b.table, &b.mesh, all, &without);
        const double layer = b.table.params[LAYER_MOE].dense + 2.0 * 7168.0 * 7168.0;
        assert_close(with.dense_params - without.dense_params, layer, 1e-9);
        assert_close(with.expert_params - without.expert_params, b.table.params[LAYER_MOE].expert,
                     1e-12);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ep_moves_weights_not_activations),
        cmocka_unit_test(test_published_rows),
        cmocka_unit_test(test_tp_halves),
        cmocka_unit_test(test_kv_replication),
        cmocka_unit_test(test_etp_splits_experts),
        cmocka_unit_test(test_cp_divides_tokens_and_exchanges_keys),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_cross_entropy),
        cmocka_unit_test(test_padded_vocabulary),
        cmocka_unit_test(test_recompute),
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_imbalance),
        cmocka_unit_test(test_parameters_per_gpu),
        cmocka_unit_test(test_parameters_add_up),
        cmocka_unit_test(test_tied_ends),
        cmocka_unit_test(test_mtp_parameters),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}
