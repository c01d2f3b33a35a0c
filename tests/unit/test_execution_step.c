// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Each switch of an execution by hand: who holds and sends what under every sharding, what a
 * dispatcher moves, what overlap and graphs leave, the bubbles of the schedules that fill it, what
 * the last stage carries beside its layers.
 */
#include "known_models.h"
#include "step_case.h"

#include "step/data_parallel.h"

static struct point p, q;
static struct calibration links; /* link bounds alone */

static int load(void **state) {
    if (p6_load(state) != 0)
        return -1;
    links = p6.calibration;
    links.collective_count = 0;
    return 0;
}

static void predict(struct point *at, const struct cluster *c, const struct workload *w,
                    const struct geometry *g, struct mesh m) {
    if (!point_prepare(at, c, &links, w, g, estimator_default(), m))
        fail_msg("illegal mesh");
    point_predict(at);
}

static struct mesh plain(void) {
    return (struct mesh){.tp = 1, .cp = 1, .pp = 1, .vpp = 1, .ep = 8, .etp = 1, .micro_batch = 1};
}

/* ---- sharding ---- */

/* Parameters of the whole model on one GPU: PP 1, TP 1. */
static void params_of(const struct point *at, double *dense, double *expert) {
    struct stage_cost stage;
    const struct stage_range all = {0, 0, at->ctx.geometry->layers};
    stage_cost_of(&at->ctx, &at->table, &at->mesh, all, &stage);
    *dense = stage.dense_params;
    *expert = stage.expert_params;
}

static void test_state_bytes(void **state) {
    (void)state;
    const struct cluster c = p6_nodes(8); /* DP 64, expert-DP 8 */
    struct workload w = p6.workload;
    static const struct {
        enum sharding sharding;
        int weights, gradients, optimizer; /* whether shared out */
    } cases[] = {{SHARD_NONE, 0, 0, 0},
                 {SHARD_ZERO1, 0, 0, 1},
                 {SHARD_ZERO2, 0, 1, 1},
                 {SHARD_FSDP, 1, 1, 1},
                 {SHARD_HYBRID, 1, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        w.execution = (struct execution){.sharding = cases[i].sharding, .shard_ranks = 16};
        predict(&p, &c, &w, &qwen3_30b_a3b, plain());
        double dense = 0.0, expert = 0.0;
        params_of(&p, &dense, &expert);
        const bool is_hybrid = cases[i].sharding == SHARD_HYBRID;
        const double shared = dense / (is_hybrid ? 16.0 : 64.0) + expert / (is_hybrid ? 2.0 : 8.0);
        const double whole = dense + expert;
        const struct memory_items *const m = &p.out.memory;
        assert_close(m->weights, 2.0 * (cases[i].weights ? shared : whole), 1e-9);
        assert_close(m->gradients, 4.0 * (cases[i].gradients ? shared : whole), 1e-9);
        assert_close(m->optimizer, 12.0 * (cases[i].optimizer ? shared : whole), 1e-9);
        w.execution.bf16_gradients = w.execution.bf16_moments = true;
        predict(&q, &c, &w, &qwen3_30b_a3b, plain());
        assert_close(q.out.memory.gradients, m->gradients / 2.0, 1e-9);
        assert_close(q.out.memory.optimizer, m->optimizer * 8.0 / 12.0, 1e-9);
    }
}

/* U21: gathered weights and gradients of two layers stand at once, not those of all. */
static void test_gathered_layers(void **state) {
    (void)state;
    const struct cluster c = p6_nodes(8);
    struct workload w = p6.workload;
    predict(&p, &c, &w, &qwen3_30b_a3b, plain());
    w.execution.sharding = SHARD_FSDP;
    predict(&q, &c, &w, &qwen3_30b_a3b, plain());
    const struct layer_params *const layer = &q.table.params[LAYER_MOE];
    assert_close(q.out.memory.gathered - p.out.memory.gathered,
                 (layer->dense + layer->expert + q.table.head_params) * (2.0 + 4.0), 1e-6);
    assert_true(q.table.head_params > layer->dense + layer->expert);
}

/* What travels, once a step or for each micro-batch. */
static void test_data_parallel_traffic(void **state) {
    (void)state;
    const struct cluster c = p6_nodes(8);
    struct workload w = p6.workload;
    w.execution.serial_dp = true; /* nothing hides */
    predict(&p, &c, &w, &qwen3_30b_a3b, plain());
    double dense = 0.0, expert = 0.0;
    params_of(&p, &dense, &expert);
    const struct network *const net = &p.ctx.network;
    const struct group all = {64, 1}, expert_ranks = {8, 8};
#define BOTH(kind, bytes)                                                                          \
    (collective_time_s(net, kind, all, (bytes)*dense, NULL) +                                      \
     collective_time_s(net, kind, expert_ranks, (bytes)*expert, NULL))
    const double scatter_s = BOTH(COLLECTIVE_REDUCE_SCATTER, 4.0);
    const double gather_s = BOTH(COLLECTIVE_ALL_GATHER, 2.0);
    const double back_s = BOTH(COLLECTIVE_ALL_GATHER, 4.0);
#undef BOTH
    const double m = (double)p.mesh.micro_batches;
    assert_close_abs(m, 16.0, 0.0);
    const struct {
        enum sharding sharding;
        double wire_s;
    } cases[] = {{SHARD_ZERO1, scatter_s + gather_s},
                 {SHARD_NONE, scatter_s + back_s},
                 {SHARD_ZERO2, m * scatter_s + gather_s},
                 {SHARD_FSDP, m * (scatter_s + 2.0 * gather_s)}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        w.execution.sharding = cases[i].sharding;
        predict(&q, &c, &w, &qwen3_30b_a3b, plain());
        assert_close(q.out.split.dp_exposed_s, cases[i].wire_s, 1e-9);
    }
    /* hybrid inside the node: gathered at its speed; copies reduce their shards once a step */
    w.execution.sharding = SHARD_HYBRID;
    w.execution.shard_ranks = 8;
    predict(&q, &c, &w, &qwen3_30b_a3b, plain());
    const struct group node = {8, 1}, copies = {8, 8};
    const double each_s =
        2.0 * collective_time_s(net, COLLECTIVE_ALL_GATHER, node, 2.0 * dense, NULL) +
        collective_time_s(net, COLLECTIVE_REDUCE_SCATTER, node, 4.0 * dense, NULL);
    const double once_s =
        collective_time_s(net, COLLECTIVE_ALL_REDUCE, copies, 4.0 * dense / 8.0, NULL) +
        collective_time_s(net, COLLECTIVE_ALL_REDUCE, copies, 4.0 * expert, NULL);
    assert_close(q.out.split.dp_exposed_s, m * each_s + once_s, 1e-9);
}

/* Under a pipeline weights stay gathered: once a step.  Copies of the shards still exchange theirs.
 */
static void test_sharding_under_a_pipeline(void **state) {
    (void)state;
    const struct cluster c = p6_nodes(8);
    struct workload w = p6.workload;
    w.execution = (struct execution){.serial_dp = true, .sharding = SHARD_FSDP};
    struct mesh m = plain();
    m.pp = 2;
    predict(&p, &c, &w, &qwen3_30b_a3b, m);
    w.execution.sharding = SHARD_ZERO1;
    predict(&q, &c, &w, &qwen3_30b_a3b, m);
    assert_close(p.out.split.dp_exposed_s, q.out.split.dp_exposed_s, 1e-12);
    assert_true(p.out.memory.total == q.out.memory.total);
    w.execution.sharding = SHARD_HYBRID;
    w.execution.shard_ranks = 8; /* four nodes a stage hold copies */
    predict(&p, &c, &w, &qwen3_30b_a3b, m);
    double least_s = 0.0;
    for (int i = 0; i < 2; ++i) {
        struct stage_cost stage;
        const struct stage_range range = {i, p.split.first[i], p.split.first[i + 1]};
        stage_cost_of(&p.ctx, &p.table, &p.mesh, range, &stage);
        const struct group copies = {4, 8};
        const double exchange_s = collective_time_s(&p.ctx.network, COLLECTIVE_ALL_REDUCE, copies,
                                                    4.0 * stage.dense_params / 8.0, NULL) +
                                  collective_time_s(&p.ctx.network, COLLECTIVE_ALL_REDUCE, copies,
                                                    4.0 * stage.expert_params, NULL);
        least_s = fmax(least_s, exchange_s);
    }
    assert_true(p.out.split.dp_exposed_s >= least_s);
}

/* Beside compute: the longer of both, and of the shorter the stated share, less as it is shorter.
 */
static void test_gathering_beside_compute(void **state) {
    (void)state;
    const struct cluster c = p6_nodes(8);
    struct workload w = p6.workload;
    w.execution.sharding = SHARD_FSDP;
    predict(&p, &c, &w, &llama3_8b, (struct mesh){1, 1, 1, 1, 1, 1, 0, 1, 0, 0, 0, 0});
    const double long_s = 1e3;
    struct stage_cost stage = {.dense_params = 8e9, .busy_s = long_s};
    const double share = links.scalar[CAL_FSDP_EXPOSED];
    struct shard_links wires;
    shard_links_of(&p.ctx, &p.mesh, &wires);
    const double short_s = gathering_exposed_s(&p.ctx, &wires, &stage);
    w.execution.serial_dp = true;
    const double wire_s = gathering_exposed_s(&p.ctx, &wires, &stage);
    assert_close(short_s, share * wire_s * wire_s / long_s, 1e-9);
    w.execution.serial_dp = false;
    stage.busy_s = wire_s / 4.0;
    assert_close(gathering_exposed_s(&p.ctx, &wires, &stage), 0.75 * wire_s + share * wire_s / 16.0,
                 1e-12);
}

/* ---- dispatch ---- */

static double one_way_s(enum dispatcher dispatcher, const struct cluster *c,
                        const struct geometry *g, int ep) {
    struct workload w = p6.workload;
    w.execution.dispatcher = dispatcher;
    struct mesh m = plain();
    m.ep = ep;
    predict(&p, c, &w, g, m);
    return p.table.cost[LAYER_MOE].all_to_all_s / 4.0;
}

static void test_dispatchers(void **state) {
    (void)state;
    struct cluster c = p6_nodes(4);
    c.tiers[0].latency_s = c.tiers[1].latency_s = 0.0;
    const double inner = c.tiers[0].bytes_per_s * links.scalar[CAL_COLLECTIVE_INTRA_SHARE];
    const double outer = c.tiers[1].bytes_per_s;
    const double rings = outer * links.scalar[CAL_COLLECTIVE_INTER_SHARE];
    const double token = 2.0 * 2048.0 * 2048.0; /* bytes of one micro-batch, hidden 2048 */
    struct geometry g = qwen3_30b_a3b;
    /* inside a node all copies cross NVLink */
    assert_close(one_way_s(DISPATCH_NCCL, &c, &g, 8), 8.0 * token * 7.0 / 8.0 / inner, 1e-9);
    assert_close(one_way_s(DISPATCH_DEEPEP, &c, &g, 8), 8.0 * token * 7.0 / 8.0 / inner, 1e-9);
    /* four nodes: 24 of 32 copies leave; once to each of the 4 (1 - (3/4)^8) nodes reached */
    assert_close(one_way_s(DISPATCH_NCCL, &c, &g, 32),
                 8.0 * token * (7.0 / 32.0 / inner + 24.0 / 32.0 / rings), 1e-9);
    const double sent_once = outer * links.scalar[CAL_DISPATCH_INTER_SHARE];
    const double reached = 4.0 * (1.0 - pow(0.75, 8.0));
    assert_close(one_way_s(DISPATCH_DEEPEP, &c, &g, 32), token * reached * 0.75 / sent_once, 1e-9);
    g.node_limit = 2;
    assert_close(one_way_s(DISPATCH_HYBRIDEP, &c, &g, 32), token * 2.0 * 0.75 / sent_once, 1e-9);
    /* gathering: every rank's tokens to all, whatever top-k */
    const double rate = fmin(inner, 8.0 * rings);
    assert_close(one_way_s(DISPATCH_ALL_GATHER, &c, &g, 32), 32.0 * token * 31.0 / 32.0 / rate,
                 1e-9);
}

/* Gathered tokens of every rank stand in memory, and their sums on the way back. */
static void test_gathered_tokens_take_memory(void **state) {
    (void)state;
    const struct cluster c = p6_nodes(4);
    struct workload w = p6.workload;
    w.execution.dispatcher = DISPATCH_ALL_GATHER;
    struct mesh m = plain();
    m.ep = 32;
    predict(&q, &c, &w, &qwen3_30b_a3b, m);
    w.execution.dispatcher = DISPATCH_NCCL; /* sends and receives eight copies of each token */
    predict(&p, &c, &w, &qwen3_30b_a3b, m);
    const double token = 2.0 * 2048.0 * 2048.0;
    assert_true(q.out.memory.communication >=
                p.out.memory.communication + (32.0 - 2.0 * 8.0) * token);
}

/* Beside another micro-batch's compute: what is longer than it, and a share at least. */
static void test_overlap_of_dispatch(void **state) {
    (void)state;
    struct cluster c = p6_nodes(4);
    struct mesh m = plain();
    m.ep = 32;
    struct workload w = p6.workload;
    for (int i = 0; i < 2; ++i) { /* links as they are; links that take longer than compute */
        w.execution.overlap = 0;
        predict(&p, &c, &w, &qwen3_30b_a3b, m);
        w.execution.overlap = OVERLAP_EP;
        predict(&q, &c, &w, &qwen3_30b_a3b, m);
        const struct layer_cost *const with = &q.table.cost[LAYER_MOE];
        const double wire_s = p.table.cost[LAYER_MOE].ep_s;
        assert_close(wire_s, with->all_to_all_s, 1e-12);
        const double compute_s = kernel_times_sum(&with->kernels) + with->recompute_s;
        assert_close(with->ep_s, fmax(wire_s - compute_s, links.scalar[CAL_EP_OVERLAPPED] * wire_s),
                     1e-12);
        assert_true((i == 0) == (wire_s < compute_s) || i == 0);
        c.tiers[1].bytes_per_s /= 50.0;
    }
    assert_true(q.table.cost[LAYER_MOE].ep_s > 0.5 * q.table.cost[LAYER_MOE].all_to_all_s);
}

/* CP and EP hidden at once: the time that hides one does not hide the other.  A faster attention
 * core then gains nothing, and loses nothing. */
static void test_two_overlaps(void **state) {
    (void)state;
    struct cluster c = p6_nodes(4);
    c.tiers[0].bytes_per_s /= 100.0;
    c.tiers[1].bytes_per_s /= 100.0;
    struct workload w = p6.workload;
    w.sequence = 32768;
    w.global_batch = 32;
    w.execution.overlap = OVERLAP_CP | OVERLAP_EP;
    struct mesh m = plain();
    m.cp = 4;
    predict(&p, &c, &w, &qwen3_30b_a3b, m);
    const struct calibration was = links;
    links.scalar[CAL_ATTENTION_BACKWARD_FLOP] *= 0.5;
    predict(&q, &c, &w, &qwen3_30b_a3b, m);
    links = was;
    assert_true(q.table.cost[LAYER_MOE].kernels.attention_s <
                p.table.cost[LAYER_MOE].kernels.attention_s);
    assert_true(q.table.cost[LAYER_MOE].gpu_s <= p.table.cost[LAYER_MOE].gpu_s * (1.0 + 1e-12));
}

/* ---- host ---- */

static void test_graphs(void **state) {
    (void)state;
    const struct cluster c = p6_nodes(1);
    struct workload w = p6.workload;
    predict(&p, &c, &w, &qwen3_30b_a3b, plain());
    const double eager_s = p.table.cost[LAYER_MOE].host_s, sync_s = links.scalar[CAL_HOST_EP_SYNC];
    w.execution.graphs = GRAPHS_MODULE;
    predict(&p, &c, &w, &qwen3_30b_a3b, plain());
    assert_close(p.table.cost[LAYER_MOE].host_s - sync_s,
                 (eager_s - sync_s) * links.scalar[CAL_HOST_MODULE_GRAPHS], 1e-9);
    const double share = links.scalar[CAL_GRAPHS_SHARE];
    assert_close(p.out.memory.graphs, share * p.out.memory.activations, 1e-6);
    w.execution.graphs = GRAPHS_FULL;
    predict(&p, &c, &w, &qwen3_30b_a3b, plain());
    assert_close(p.out.memory.graphs, share * (p.out.memory.activations + p.out.memory.routed),
                 1e-6);
    assert_close_abs(p.table.cost[LAYER_MOE].host_s, 0.0, 0.0);
    assert_close_abs(p.out.split.dispatch_exposed_s, 0.0, 0.0);
}

/* ---- schedules ---- */

/* F, B and W of the whole model, as the paper's tables weigh them. */
static void test_bubbles_that_are_filled(void **state) {
    (void)state;
    const struct step_context ctx = {.calibration = &links, .geometry = &llama3_8b};
    /* backward twice forward, half of it for the weights */
    struct layer_table table = {0};
    table.cost[LAYER_DENSE] =
        (struct layer_cost){.forward_s = 1.0, .gpu_s = 3.0, .weight_gradient_s = 1.0};
    struct mesh m = {.pp = 8, .vpp = 1, .micro_batches = 32, .schedule = SCHEDULE_1F1B};
    struct pipeline_form form = pipeline_form_of(&ctx, &table, &m);
    assert_close(form.max_weight + 8.0 * form.sum_weight - 32.0, 7.0, 1e-12);
    m.schedule = SCHEDULE_ZERO_BUBBLE; /* F + B - 2 W: a third */
    form = pipeline_form_of(&ctx, &table, &m);
    assert_close(form.max_weight + 8.0 * form.sum_weight - 32.0, 7.0 / 3.0, 1e-12);
    m.schedule = SCHEDULE_DUALPIPE; /* (p/2 - 1)(F + 2 B - 3 W) / (F + B) */
    form = pipeline_form_of(&ctx, &table, &m);
    assert_close(form.max_weight + 8.0 * form.sum_weight - 32.0, 3.0 * 2.0 / 3.0, 1e-12);
    m.pp = 2; /* both ends feed two stages: none is left */
    form = pipeline_form_of(&ctx, &table, &m);
    assert_close(form.max_weight + 2.0 * form.sum_weight - 32.0, 0.0, 1e-12);
}

/* DualPipe holds two stages and, at every device, the activations of PP + 1 micro-batches
 * (arXiv 2412.19437, table 2: 2 x parameters, PP + 1). */
static void test_dualpipe_memory(void **state) {
    (void)state;
    const struct cluster c = p6_nodes(4);
    struct workload w = p6.workload;
    struct mesh m = {.tp = 1, .cp = 1, .pp = 8, .vpp = 1, .ep = 1, .etp = 1, .micro_batch = 1};
    predict(&p, &c, &w, &llama3_8b, m);
    m.schedule = SCHEDULE_DUALPIPE;
    predict(&q, &c, &w, &llama3_8b, m);
    for (int i = 1; i < 7; ++i) {
        assert_close(q.stages[i].weights, 2.0 * p.stages[i].weights, 1e-9);
        /* 1F1B holds PP - i of them */
        assert_close(q.stages[i].activations, p.stages[i].activations * 9.0 / (8.0 - (double)i),
                     0.02);
    }
}

/* ---- ends ---- */

/* An MTP layer and its head pass sit on the last stage: time and parameters. */
static void test_mtp_on_the_last_stage(void **state) {
    (void)state;
    const struct cluster c = p6_nodes(32);
    struct geometry none = deepseek_v3;
    none.mtp_layers = 0;
    struct mesh m = plain();
    m.pp = 8;
    predict(&p, &c, &p6.workload, &none, m);
    predict(&q, &c, &p6.workload, &deepseek_v3, m);
    for (int i = 0; i < 8; ++i) {
        const struct stage_range range = {i, p.split.first[i], p.split.first[i + 1]};
        struct stage_cost before, after;
        stage_cost_of(&p.ctx, &p.table, &p.mesh, range, &before);
        stage_cost_of(&q.ctx, &q.table, &q.mesh, range, &after);
        if (i < 7) {
            assert_close(after.busy_s, before.busy_s, 1e-12);
            assert_true(q.stages[i].total == p.stages[i].total);
            continue;
        }
        const double layer = q.table.params[LAYER_MOE].dense;
        assert_close(after.dense_params - before.dense_params, layer + 2.0 * 7168.0 * 7168.0, 1e-9);
        assert_close(after.expert_params - before.expert_params, q.table.params[LAYER_MOE].expert,
                     1e-9);
        assert_close(q.table.head_s / p.table.head_s, 2.0, 0.2);
        assert_true(after.busy_s > before.busy_s + q.table.cost[LAYER_MOE].gpu_s);
        assert_true(q.stages[i].total > p.stages[i].total);
    }
}

/* ---- kernels ---- */

static void test_attention_switches(void **state) {
    (void)state;
    const struct cluster c = p6_nodes(1);
    struct workload w = p6.workload;
    struct mesh m = plain();
    m.ep = 1;
    predict(&p, &c, &w, &llama3_8b, m);
    w.execution.fp8_attention = true; /* no effect in bf16 */
    predict(&q, &c, &w, &llama3_8b, m);
    assert_true(q.out.step_time_s == p.out.step_time_s);
    w.precision = PRECISION_FP8;
    predict(&q, &c, &w, &llama3_8b, m);
    assert_close(p.out.split.attention_s / q.out.split.attention_s,
                 links.scalar[CAL_ATTENTION_FP8_FACTOR], 1e-9);
    /* U20: 5 bytes a score and head of every layer and micro-batch in flight */
    w = p6.workload;
    w.execution.unfused_attention = true;
    predict(&q, &c, &w, &llama3_8b, m);
    assert_close(q.out.memory.activations - p.out.memory.activations,
                 5.0 * 32.0 * 2048.0 * 2048.0 * 32.0, 1e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_state_bytes),
        cmocka_unit_test(test_gathered_layers),
        cmocka_unit_test(test_data_parallel_traffic),
        cmocka_unit_test(test_sharding_under_a_pipeline),
        cmocka_unit_test(test_gathering_beside_compute),
        cmocka_unit_test(test_dispatchers),
        cmocka_unit_test(test_gathered_tokens_take_memory),
        cmocka_unit_test(test_overlap_of_dispatch),
        cmocka_unit_test(test_two_overlaps),
        cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_bubbles_that_are_filled),
        cmocka_unit_test(test_dualpipe_memory),
        cmocka_unit_test(test_mtp_on_the_last_stage),
        cmocka_unit_test(test_attention_switches),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}
