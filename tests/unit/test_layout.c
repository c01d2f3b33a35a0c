// SPDX-License-Identifier: GPL-3.0-or-later
/* src/step/layout.c: what a mesh derives, what it refuses and how it says so, even splits. */
#include "p6.h"

#include <limits.h>

static struct geometry moe(void) {
    return ladder(8, 64, 2, 4); /* 32 layers, 32 heads, 8 KV heads, experts 2560 wide */
}

static struct workload work(int sequence, int global_batch) {
    struct workload w = p6.workload;
    w.sequence = sequence;
    w.global_batch = global_batch;
    return w;
}

static void test_derives(void **state) {
    (void)state;
    const struct geometry g = moe();
    const struct workload w = work(4096, 1024);
    struct status_error err = {0};
    struct mesh m = {.tp = 2, .cp = 2, .pp = 4, .vpp = 1, .ep = 8, .etp = 2, .micro_batch = 4};
    assert_int_equal(mesh_complete(&m, &g, &w, 256, &err), MOSAIC_OK);
    assert_int_equal(m.dp, 16);
    assert_int_equal(m.micro_batches, 16);
    assert_int_equal(mesh_edp(&m), 4);
    /* every GPU of a stage holds one shard of one copy, by both countings */
    assert_int_equal(m.tp * m.cp * m.dp * m.pp, 256);
    assert_int_equal(m.ep * m.etp * mesh_edp(&m) * m.pp, 256);
    assert_int_equal(mesh_schedule(&m), SCHEDULE_1F1B);
    m.vpp = 2;
    assert_int_equal(mesh_schedule(&m), SCHEDULE_INTERLEAVED);
}

/* The cases of people whose launcher let these through (research: user cases U29 to U36, U93). */
static const struct {
    struct mesh mesh;
    int gpus, sequence, global_batch;
    const char *word; /* NULL: legal */
} cases[] = {
    {{.tp = 1, .cp = 1, .pp = 2, .vpp = 1, .ep = 4, .etp = 1, .micro_batch = 1}, 8, 2048, 64, NULL},
    {{.tp = 1, .cp = 1, .pp = 2, .vpp = 1, .ep = 8, .etp = 1, .micro_batch = 1},
     8,
     2048,
     64,
     "EP 8 x ETP 1 = 8 does not divide TP 1 x CP 1 x DP 4 = 4"},
    {{.tp = 3, .cp = 1, .pp = 1, .vpp = 1, .ep = 1, .etp = 1, .micro_batch = 1},
     8,
     2048,
     64,
     "TP 3 x CP 1 x PP 1 = 3 does not divide 8"},
    {{.tp = 8, .cp = 2, .pp = 2, .vpp = 1, .ep = 1, .etp = 1, .micro_batch = 1},
     8,
     2048,
     64,
     "= 32 does not divide 8"},
    {{.tp = 1, .cp = 1, .pp = 1, .vpp = 1, .ep = 3, .etp = 1, .micro_batch = 1},
     24,
     2048,
     48,
     "EP 3 does not divide 64 experts"},
    {{.tp = 1, .cp = 1, .pp = 1, .vpp = 1, .ep = 1, .etp = 3, .micro_batch = 1},
     24,
     2048,
     48,
     "ETP 3 does not divide the expert width 2560"},
    {{.tp = 3, .cp = 1, .pp = 1, .vpp = 1, .ep = 1, .etp = 1, .micro_batch = 1},
     24,
     2049,
     48,
     "TP 3 does not divide 32 heads"},
    {{.tp = 1, .cp = 3, .pp = 1, .vpp = 1, .ep = 1, .etp = 1, .micro_batch = 1},
     24,
     4096,
     48,
     "not a multiple of 6"},
    {{.tp = 1, .cp = 4, .pp = 1, .vpp = 1, .ep = 1, .etp = 1, .micro_batch = 1},
     8,
     2,
     64,
     "not a multiple of 8"},
    {{.tp = 8, .cp = 1, .pp = 1, .vpp = 1, .ep = 1, .etp = 1, .micro_batch = 1}, 8, 4096, 64, NULL},
    {{.tp = 8, .cp = 1, .pp = 1, .vpp = 1, .ep = 1, .etp = 1, .micro_batch = 1},
     8,
     4092,
     64,
     "not a multiple of 8 (CP 1 x TP 8)"},
    {{.tp = 1, .cp = 1, .pp = 1, .vpp = 1, .ep = 1, .etp = 1, .micro_batch = 1},
     8,
     2048,
     100,
     "micro-batch 1 x DP 8 = 8 does not divide the global batch 100"},
    {{.tp = 4, .cp = 1, .pp = 1, .vpp = 1, .ep = 1, .etp = 1, .micro_batch = 8},
     16,
     2048,
     64,
     NULL},
    {{.tp = 1, .cp = 1, .pp = 1, .vpp = 1, .ep = 1, .etp = 1, .micro_batch = 8},
     16,
     2048,
     64,
     "= 128 does not divide the global batch 64"},
    {{.tp = 1, .cp = 1, .pp = 64, .vpp = 1, .ep = 1, .etp = 1, .micro_batch = 1},
     64,
     2048,
     64,
     "PP 64 exceeds 32"},
    {{.tp = 1, .cp = 1, .pp = 16, .vpp = 2, .ep = 1, .etp = 1, .micro_batch = 1},
     16,
     2048,
     64,
     NULL},
    {{.tp = 1, .cp = 1, .pp = 16, .vpp = 4, .ep = 1, .etp = 1, .micro_batch = 1},
     16,
     2048,
     64,
     "PP 16 x VPP 4 = 64 chunks"},
    {{.tp = 1, .cp = 1, .pp = 1, .vpp = 2, .ep = 1, .etp = 1, .micro_batch = 1},
     16,
     2048,
     64,
     "needs PP > 1"},
    {{.tp = 0, .cp = 1, .pp = 1, .vpp = 1, .ep = 1, .etp = 1, .micro_batch = 1},
     8,
     2048,
     64,
     "TP 0 is not at least 1"},
    {{.tp = 1, .cp = 1, .pp = 1, .vpp = 1, .ep = 1, .etp = 1, .micro_batch = -1},
     8,
     2048,
     64,
     "micro-batch -1"},
};

static void test_refuses(void **state) {
    (void)state;
    const struct geometry g = moe();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        const struct workload w = work(cases[i].sequence, cases[i].global_batch);
        struct status_error err = {0};
        struct mesh m = cases[i].mesh;
        const enum mosaic_status status = mesh_complete(&m, &g, &w, cases[i].gpus, &err);
        if (!cases[i].word && status != MOSAIC_OK)
            fail_msg("case %zu refused: %s", i, err.message);
        if (cases[i].word && (status != MOSAIC_BAD_INPUT || !strstr(err.message, cases[i].word)))
            fail_msg("case %zu: '%s', no '%s' in it", i, err.message, cases[i].word);
        if (!cases[i].word)
            assert_int_equal(m.micro_batches * m.micro_batch * m.dp, cases[i].global_batch);
    }
}

/* 2 KV heads on TP 8 are replicated; 8 on TP 3 or 6 do not come out. */
static void test_kv_heads(void **state) {
    (void)state;
    struct geometry g = moe();
    g.heads = 48;
    const struct workload w = work(6144, 48);
    struct status_error err = {0};
    struct mesh m = {.tp = 8, .cp = 1, .pp = 1, .vpp = 1, .ep = 1, .etp = 1, .micro_batch = 1};
    g.kv_heads = 2;
    assert_int_equal(mesh_complete(&m, &g, &w, 8, &err), MOSAIC_OK);
    g.kv_heads = 8;
    m.tp = 6;
    assert_int_equal(mesh_complete(&m, &g, &w, 6, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "TP 6 and 8 KV heads"));
    g.kv_heads = 0; /* latent attention has none */
    g.dense_ffn = g.shared_ffn = 6 * 1024;
    assert_int_equal(mesh_complete(&m, &g, &w, 6, &err), MOSAIC_OK);
}

static void test_dense_models_take_no_expert_axes(void **state) {
    (void)state;
    struct geometry g = moe();
    g.experts = g.top_k = g.shared_experts = 0;
    g.first_dense = g.layers;
    const struct workload w = work(2048, 64);
    struct status_error err = {0};
    struct mesh m = {.tp = 1, .cp = 1, .pp = 1, .vpp = 1, .ep = 2, .etp = 1, .micro_batch = 1};
    assert_int_equal(mesh_complete(&m, &g, &w, 8, &err), MOSAIC_BAD_INPUT);
    m.ep = 1;
    m.etp = 2;
    assert_int_equal(mesh_complete(&m, &g, &w, 8, &err), MOSAIC_BAD_INPUT);
    m.etp = 1;
    assert_int_equal(mesh_complete(&m, &g, &w, 8, &err), MOSAIC_OK);
}

/* Degrees whose products leave an int are refused like any other. */
static void test_huge_degrees(void **state) {
    (void)state;
    const struct geometry g = moe();
    const struct workload w = work(2048, 1024);
    static const int huge[] = {65536, 1 << 30, INT_MAX};
    for (size_t i = 0; i < sizeof huge / sizeof huge[0]; ++i)
        for (int axis = 0; axis < 7; ++axis) {
            struct mesh m = {
                .tp = 2, .cp = 2, .pp = 4, .vpp = 1, .ep = 2, .etp = 2, .micro_batch = 1};
            int *const axes[] = {&m.tp, &m.cp, &m.pp, &m.vpp, &m.ep, &m.etp, &m.micro_batch};
            *axes[axis] = huge[i];
            struct status_error err = {0};
            assert_int_equal(mesh_complete(&m, &g, &w, 256, &err), MOSAIC_BAD_INPUT);
        }
}

static void test_order(void **state) {
    (void)state;
    const struct mesh a = {.tp = 1,
                           .cp = 2,
                           .pp = 3,
                           .vpp = 4,
                           .ep = 5,
                           .etp = 6,
                           .dp = 7,
                           .micro_batch = 8,
                           .micro_batches = 9,
                           .recompute = RECOMPUTE_SELECTIVE};
    struct mesh b = a;
    b.dp = 70; /* follows from the others: not part of the order */
    assert_int_equal(mesh_compare(&a, &b), 0);
    int *const axes[] = {&b.tp, &b.cp, &b.pp, &b.vpp, &b.ep, &b.etp, &b.micro_batch};
    for (size_t i = 0; i < sizeof axes / sizeof axes[0]; ++i) {
        b = a;
        ++*axes[i];
        for (size_t later = i + 1; later < sizeof axes / sizeof axes[0]; ++later)
            *axes[later] = 1; /* an earlier axis decides */
        assert_int_equal(mesh_compare(&a, &b), -1);
        assert_int_equal(mesh_compare(&b, &a), 1);
    }
    b = a;
    b.recompute = RECOMPUTE_FULL;
    assert_int_equal(mesh_compare(&a, &b), -1);
}

static void test_even_split(void **state) {
    (void)state;
    for (int layers = 1; layers <= 130; ++layers)
        for (int stages = 1; stages <= layers && stages <= LAYOUT_MAX_PP; ++stages) {
            struct split s;
            split_even(layers, stages, &s);
            assert_int_equal(s.stages, stages);
            assert_int_equal(s.first[0], 0);
            assert_int_equal(s.first[stages], layers);
            int least = layers, most = 0;
            for (int i = 0; i < stages; ++i) {
                const int size = s.first[i + 1] - s.first[i];
                least = size < least ? size : least;
                most = size > most ? size : most;
            }
            assert_true(least >= 1 && most - least <= 1);
            /* the ends carry embedding and head: neither is longer than the middle */
            if (stages > 2 && most > least)
                assert_true(s.first[1] <= s.first[stages / 2 + 1] - s.first[stages / 2]);
        }
}

static void test_names(void **state) {
    (void)state;
    assert_string_equal(recompute_name(RECOMPUTE_SELECTIVE), "selective");
    assert_string_equal(recompute_name(RECOMPUTE_MODES), "unknown");
    assert_string_equal(optimizer_name(OPTIMIZER_MUON), "muon");
    assert_string_equal(optimizer_name(OPTIMIZERS), "unknown");
    assert_string_equal(schedule_name(SCHEDULE_1F1B), "1f1b");
    assert_string_equal(schedule_name(SCHEDULE_INTERLEAVED), "interleaved");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_derives),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_kv_heads),
        cmocka_unit_test(test_dense_models_take_no_expert_axes),
        cmocka_unit_test(test_huge_degrees),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_even_split),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, p6_load, NULL);
}
