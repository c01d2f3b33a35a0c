// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What users reported of pipelines and links, with the right answer: U40 to U53.  Known figures are
 * compared with their tolerance; elsewhere the sign and the size are what counts.
 */
#include "user_case.h"

#include "plan/best_layout.h"

/* Bus bandwidth of one kind, flat in the size. */
static void measure(struct calibration *c, enum collective_kind kind, int ranks, int inside,
                    double bus) {
    const double x[] = {1.0, 1e12}, y[] = {bus, bus};
    struct collective_curve *const curve = &c->collective[c->collective_count++];
    curve->kind = kind;
    curve->ranks = ranks;
    curve->ranks_per_domain = inside;
    assert_int_equal(curve_build(&curve->bus, CURVE_STEFFEN, x, y, 2, NULL), MOSAIC_OK);
}

/* ---- pipeline ---- */

/* A larger micro-batch halves the number of them: the bubble's share grows while kernels and
 * launches gain.  (The three shares are in test_step.c.) */
static void u40_two_effects(void **state) {
    (void)state;
    const struct geometry g = ladder(8, 64, 2, 4);
    const struct cluster c = p6_nodes(8);
    struct workload w = p6.workload;
    w.global_batch = 256;
    struct mesh m = plain(1);
    m.pp = m.ep = 8;
    predict(&p, &c, &p6.calibration, &w, &g, m);
    m.micro_batch = 2;
    predict(&q, &c, &p6.calibration, &w, &g, m);
    assert_int_equal(p.mesh.micro_batches, 32);
    assert_int_equal(q.mesh.micro_batches, 16);
    assert_true(q.out.split.bubble_s / q.out.step_time_s >
                1.2 * p.out.split.bubble_s / p.out.step_time_s);
    assert_true(q.out.split.grouped_gemm_s < p.out.split.grouped_gemm_s);
    assert_true(q.out.split.dispatch_exposed_s < p.out.split.dispatch_exposed_s);
}

/* 6.2e9 parameters on 8 H800: 55 samples/s and 48 GB with 1F1B, 66 and 57 interleaved, 67 and 79
 * with a zero-bubble schedule of twice the memory; ours is the one that keeps to 1F1B's. */
static void u41_schedules(void **state) {
    (void)state;
    struct geometry g = llama3_8b;
    g.kv_heads = 32;
    g.ffn_matrices = 2;
    g.dense_ffn = 4 * g.hidden;
    g.vocab = 51200;
    struct cluster c = nodes_of(&h100, 1);
    c.tiers[0].bytes_per_s = 200e9; /* H800 */
    const struct workload w = job_of(&g, 1024, 64);
    static const struct {
        int vpp;
        enum schedule schedule;
    } cases[] = {{1, SCHEDULE_1F1B}, {4, SCHEDULE_1F1B}, {1, SCHEDULE_ZERO_BUBBLE}};
    double time_s[3] = {0}, kept[3] = {0}, total[3] = {0};
    for (int i = 0; i < 3; ++i) {
        struct mesh m = plain(1);
        m.pp = 8;
        m.vpp = cases[i].vpp;
        m.schedule = cases[i].schedule;
        predict(&p, &c, &h100.calibration, &w, &g, m);
        time_s[i] = p.out.step_time_s;
        kept[i] = p.stages[0].activations;
        total[i] = p.out.memory.total;
    }
    assert_true(time_s[1] < time_s[0] && time_s[2] < time_s[0]);
    assert_true(total[1] > total[0] && total[2] >= total[0]);
    assert_close(kept[1] / kept[0], 1.22, 0.05);
}

/* ---- links ---- */

/* An all-to-all cannot pool NICs: S bytes of a rank leave the node but for its own share, through
 * one NIC. */
static void u43_all_to_all(void **state) {
    (void)state;
    static const int nodes[] = {2, 4, 6, 8};
    static const double bus_bound[] = {97.0, 64.7, 58.2, 55.4};
    const double nic = 48.5e9, bytes = 1e9;
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; ++i) {
        struct cluster c = nodes_of(&h100, nodes[i]);
        c.tiers[0].bytes_per_s = 1e18;
        c.tiers[0].latency_s = c.tiers[1].latency_s = 0.0;
        struct calibration cal = h100.calibration;
        cal.scalar[CAL_COLLECTIVE_INTER_SHARE] = nic / c.tiers[1].bytes_per_s;
        const struct network net = network_of(&c, &cal);
        const double n = (double)nodes[i];
        const double time_s = collective_time_s(&net, COLLECTIVE_ALL_TO_ALL,
                                                (struct group){8 * nodes[i], 1}, bytes, NULL);
        assert_close(time_s, bytes * (n - 1.0) / n / nic, 1e-6);
        assert_close(bytes / time_s, 1e9 * bus_bound[i], 1e-3);
    }
}

/* Eight GPUs that share one NIC have an eighth of it each, and EP across nodes is bound by it. */
static void u44_shared_nic(void **state) {
    (void)state;
    const double nic = 50e9;
    struct cluster c = nodes_of(&h100, 2);
    c.tiers[1].bytes_per_s = nic / 8.0;
    const struct workload w = job_of(&qwen3_30b_a3b, 4096, 64);
    struct mesh m = plain(1);
    m.ep = 16;
    predict(&p, &c, &h100.calibration, &w, &qwen3_30b_a3b, m);
    assert_string_equal(binding(&p.out), "ep_exposed_s");
    const double payload = 2.0 * 2048.0 * 8.0 * 4096.0;
    const double least_s = payload / 2.0 / (nic / 8.0 * 0.85);
    assert_true(p.table.cost[LAYER_MOE].all_to_all_s > 4.0 * least_s);
    assert_true(p.table.cost[LAYER_MOE].all_to_all_s < 4.4 * least_s);
}

/* One cluster, four speeds: all-reduce 220, all-gather 101, all-to-all 25, send and receive 13.1
 * GB/s, where the links promise 340. */
static void u48_collectives_differ(void **state) {
    (void)state;
    const struct cluster c = nodes_of(&h100, 2);
    const struct workload w = job_of(&qwen3_30b_a3b, 4096, 256);
    static const double bus[COLLECTIVE_KINDS] = {220e9, 101e9, 101e9, 25e9, 13.1e9};
    struct calibration measured = h100.calibration;
    for (int kind = 0; kind < COLLECTIVE_POINT_TO_POINT; ++kind)
        measure(&measured, (enum collective_kind)kind, 16, 8, bus[kind]);
    measure(&measured, COLLECTIVE_POINT_TO_POINT, 2, 1, bus[COLLECTIVE_POINT_TO_POINT]);
    double growth[2];
    for (int i = 0; i < 2; ++i) {
        struct mesh m = plain(1);
        m.ep = i == 0 ? 16 : 8; /* across the nodes; inside, with DP alone across */
        predict(&p, &c, &h100.calibration, &w, &qwen3_30b_a3b, m);
        predict(&q, &c, &measured, &w, &qwen3_30b_a3b, m);
        growth[i] = q.out.step_time_s / p.out.step_time_s - 1.0;
    }
    print_message("EP across nodes %+.1f %%, DP across nodes %+.1f %%\n", 100.0 * growth[0],
                  100.0 * growth[1]);
    assert_true(growth[0] > 0.1);
    assert_true(fabs(growth[1]) < 0.02);
    /* of all four, the all-to-all matters most to the former */
    double slowed[COLLECTIVE_KINDS] = {0};
    struct mesh m = plain(1);
    m.ep = 16;
    for (int kind = 0; kind < COLLECTIVE_KINDS; ++kind) {
        struct calibration half = h100.calibration;
        for (int other = 0; other < COLLECTIVE_POINT_TO_POINT; ++other)
            measure(&half, (enum collective_kind)other, 16, 8,
                    bus[other] * (other == kind ? 0.5 : 1.0));
        predict(&q, &c, &half, &w, &qwen3_30b_a3b, m);
        slowed[kind] = q.out.step_time_s;
    }
    for (int kind = 0; kind < COLLECTIVE_KINDS; ++kind)
        if (kind != COLLECTIVE_ALL_TO_ALL)
            assert_true(slowed[kind] < slowed[COLLECTIVE_ALL_TO_ALL]);
}

/* The fastest layout of Qwen3-30B on four nodes of 8 H100 whose dispatch between nodes reaches
 * `bytes_per_s`. */
static struct mesh best_of(double bytes_per_s) {
    struct problem problem = {.cluster = nodes_of(&h100, 4),
                              .calibration = h100.calibration,
                              .engine = p6.engine,
                              .estimator = estimator_default(),
                              .workload = job_of(&qwen3_30b_a3b, 4096, 256)};
    problem.calibration.scalar[CAL_DISPATCH_INTER_SHARE] =
        bytes_per_s / problem.cluster.tiers[1].bytes_per_s;
    problem.workload.execution.dispatcher = DISPATCH_DEEPEP;
    problem.layouts = (struct layout_space){.tp = {1, {1}},
                                            .cp = {1, {1}},
                                            .vpp = {1, {1}},
                                            .etp = {1, {1}},
                                            .pp = {3, {1, 2, 4}},
                                            .ep = {4, {4, 8, 16, 32}},
                                            .micro_batch = {2, {1, 2}},
                                            .recompute = {true, true, true}};
    struct layout_scratch *const scratch = layout_scratch_new();
    struct best_layout best;
    struct layout_counts counts = {0};
    struct status_error err;
    assert_int_equal(best_layout_find(scratch, &problem, &qwen3_30b_a3b, &best, &counts, &err),
                     MOSAIC_OK);
    layout_scratch_free(scratch);
    assert_true(best.found);
    return best.layout.mesh;
}

/* What dispatch was measured to reach decides how far EP may spread: across the nodes at 44 GB/s,
 * back inside one at 12.5, with one break-even between. */
static void u49_dispatch_speed_bounds_ep(void **state) {
    (void)state;
    int flips = 0;
    struct mesh before = best_of(44e9);
    assert_true(before.ep > 8);
    for (double rate = 42e9; rate > 12e9; rate -= 1.5e9) {
        const struct mesh now = best_of(rate);
        if ((now.ep > 8) != (before.ep > 8)) {
            print_message("EP %d PP %d -> EP %d PP %d below %.1f GB/s\n", before.ep, before.pp,
                          now.ep, now.pp, (rate + 1.5e9) / 1e9);
            ++flips;
        }
        before = now;
    }
    assert_int_equal(flips, 1);
    const struct mesh slow = best_of(12.5e9);
    assert_true(slow.ep <= 8);
}

/* A hand-off between stages runs at the speed of point-to-point, whatever an all-reduce reaches. */
static void u51_hand_off_is_point_to_point(void **state) {
    (void)state;
    const struct cluster c = nodes_of(&h100, 2);
    const struct workload w = job_of(&llama3_8b, 4096, 64);
    struct mesh m = plain(1);
    m.pp = 2;
    struct calibration cal = h100.calibration;
    measure(&cal, COLLECTIVE_POINT_TO_POINT, 2, 1, 3.5e9); /* 28 Gb/s */
    measure(&cal, COLLECTIVE_ALL_REDUCE, 8, 8, 100e9);
    predict(&p, &c, &cal, &w, &llama3_8b, m);
    const double bytes = 2.0 * 4096.0 * 4096.0;
    assert_close(p.out.split.pp_exposed_s, 8.0 * 2.0 * bytes / 3.5e9, 1e-9);
    for (int kind = 0; kind < COLLECTIVE_POINT_TO_POINT; ++kind) {
        struct calibration slow = cal;
        slow.collective_count = 1;
        for (int ranks = 2; ranks <= 8; ranks *= 2)
            measure(&slow, (enum collective_kind)kind, ranks, ranks, 1e9);
        predict(&q, &c, &slow, &w, &llama3_8b, m);
        assert_true(q.out.split.pp_exposed_s == p.out.split.pp_exposed_s);
    }
    cal.collective_count = 0;
    measure(&cal, COLLECTIVE_POINT_TO_POINT, 2, 1, 7e9);
    predict(&q, &c, &cal, &w, &llama3_8b, m);
    assert_close(q.out.split.pp_exposed_s, p.out.split.pp_exposed_s / 2.0, 1e-9);
}

static double ep_share(const struct point *at) {
    return at->out.split.ep_exposed_s / at->out.step_time_s;
}

/* 16 experts, one batch: fine on 8 GPUs, poor on 64.  Wider experts compute more for each byte. */
static void u53_more_nodes(void **state) {
    (void)state;
    struct geometry g = mixtral_8x7b;
    g.layers = 12;
    g.hidden = 1024;
    g.heads = 16;
    g.experts = 16;
    g.top_k = 1;
    g.expert_ffn = 4096;
    const struct workload w = job_of(&g, 1024, 512);
    const struct cluster one = nodes_of(&h100, 1), eight = nodes_of(&h100, 8);
    struct mesh m = plain(8);
    m.ep = 8;
    predict(&p, &one, &h100.calibration, &w, &g, m);
    m.ep = 16;
    predict(&q, &eight, &h100.calibration, &w, &g, m);
    print_message("MFU %.1f -> %.1f %%, all-to-all %.1f -> %.1f %% of the step\n",
                  100.0 * p.out.mfu, 100.0 * q.out.mfu, 100.0 * ep_share(&p), 100.0 * ep_share(&q));
    assert_true(q.out.mfu < 0.9 * p.out.mfu);
    assert_true(ep_share(&q) > 1.5 * ep_share(&p));
    const double narrow = ep_share(&q);
    g.expert_ffn *= 2;
    predict(&q, &eight, &h100.calibration, &w, &g, m);
    assert_true(ep_share(&q) < narrow);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(u40_two_effects),
        cmocka_unit_test(u41_schedules),
        cmocka_unit_test(u43_all_to_all),
        cmocka_unit_test(u44_shared_nic),
        cmocka_unit_test(u48_collectives_differ),
        cmocka_unit_test(u49_dispatch_speed_bounds_ep),
        cmocka_unit_test(u51_hand_off_is_point_to_point),
        cmocka_unit_test(u53_more_nodes),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}
