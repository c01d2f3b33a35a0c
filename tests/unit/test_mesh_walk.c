// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The walk over meshes against trying every tuple of degrees, its order and census, and the rules
 * that users met: layers over chunks, KV heads, EP x ETP, batches, sequence parts.
 */
#include "oracle.h"
#include "plan_case.h"

#include "close.h"
#include "plan/mesh_walk.h"

#include <string.h>

enum { MESHES_MAX = 20000, SPACES = 80 };

struct found {
    const struct problem *problem;
    const struct geometry *geometry;
    int count, shapes;
    bool has_shape;
    struct mesh shape, meshes[MESHES_MAX];
};

static bool same_shape(const struct mesh *a, const struct mesh *b) {
    return a->tp == b->tp && a->cp == b->cp && a->ep == b->ep && a->etp == b->etp &&
           a->micro_batch == b->micro_batch && a->recompute == b->recompute;
}

static void on_shape(void *context, const struct mesh *shape) {
    struct found *const f = context;
    f->shape = *shape;
    f->has_shape = true;
    f->shapes++;
}

static void on_mesh(void *context, const struct mesh *mesh) {
    struct found *const f = context;
    const struct problem *const p = f->problem;
    assert_true(f->has_shape && same_shape(mesh, &f->shape));
    assert_true(oracle_is_legal(p, f->geometry, mesh));
    assert_int_equal(mesh->dp * mesh->tp * mesh->cp * mesh->pp, cluster_gpus(&p->cluster));
    assert_int_equal(mesh->micro_batches * mesh->micro_batch * mesh->dp, p->workload.global_batch);
    assert_true(f->count < MESHES_MAX);
    f->meshes[f->count++] = *mesh;
}

static void walk(const struct problem *p, const struct geometry *g, struct found *f,
                 struct mesh_census *census) {
    struct step_context ctx;
    step_context_init(&ctx, g, &p->cluster, &p->calibration, &p->workload, &p->engine,
                      p->estimator);
    f->problem = p;
    f->geometry = g;
    f->count = f->shapes = 0;
    f->has_shape = false;
    *census = (struct mesh_census){0};
    mesh_walk(&ctx, &p->layouts, on_shape, on_mesh, f, census);
    assert_int_equal(census->legal, f->count);
}

/* Shapes in order outside, (pp, vpp) in order inside; so no mesh comes twice. */
static int walk_order(const struct mesh *a, const struct mesh *b) {
    const int left[] = {a->tp, a->cp, a->ep, a->etp, a->micro_batch, (int)a->recompute,
                        a->pp, a->vpp};
    const int right[] = {b->tp, b->cp, b->ep, b->etp, b->micro_batch, (int)b->recompute,
                         b->pp, b->vpp};
    for (size_t i = 0; i < sizeof left / sizeof left[0]; ++i)
        if (left[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    return 0;
}

static void every_legal_mesh_once(void **state) {
    (void)state;
    static struct found f;
    struct random r = {31};
    struct geometry g;
    struct problem p;
    long total = 0;
    for (int i = 0; i < SPACES; ++i) {
        struct mesh_census census;
        struct oracle_layout want;
        case_random(&r, &p, &g, 1);
        p.engine.uneven_stages = false; /* one split a mesh: cheap to count */
        walk(&p, &g, &f, &census);
        for (int k = 1; k < f.count; ++k)
            assert_true(walk_order(&f.meshes[k - 1], &f.meshes[k]) < 0);
        oracle_best_layout(&p, &g, &want);
        assert_int_equal(f.count, want.meshes);
        total += want.meshes;
    }
    assert_true(total > 20 * SPACES);
}

/* One geometry, one layout; whether it is walked. */
static int walked(struct problem *p, const struct geometry *g, const int degrees[7],
                  struct mesh_census *census) {
    static struct found f;
    struct layout_space *const s = &p->layouts;
    struct axis *const axes[] = {&s->tp, &s->cp, &s->pp, &s->vpp, &s->ep, &s->etp, &s->micro_batch};
    for (int i = 0; i < 7; ++i)
        *axes[i] = (struct axis){.count = 1, .values = {degrees[i]}};
    walk(p, g, &f, census);
    return f.count;
}
#define WALKED(...) walked(&p, &g, (const int[7]){__VA_ARGS__}, &census)

static void start(struct problem *p, struct geometry *g, int gpus, int batch) {
    static struct geometry unused[2048];
    case_load("configs/p6-b200-32n-20d.yaml", p, unused, 2048);
    *g = (struct geometry){.layers = 80,
                           .hidden = 4096,
                           .heads = 32,
                           .kv_heads = 8,
                           .head_dim = 128,
                           .v_head_dim = 128,
                           .ffn_matrices = 3,
                           .dense_ffn = 8192,
                           .expert_ffn = 2048,
                           .experts = 64,
                           .top_k = 4,
                           .granularity = 4,
                           .vocab = 32000};
    p->cluster.nodes = gpus / p->cluster.gpus_per_node;
    p->workload.global_batch = batch;
    p->workload.sequence = 4096;
    p->engine.uneven_stages = true;
    p->engine.kv_replication = false;
    for (int i = 0; i < RECOMPUTE_MODES; ++i)
        p->layouts.recompute[i] = i == 0;
}

static void rules_that_users_met(void **state) {
    (void)state;
    struct mesh_census census;
    struct geometry g;
    struct problem p;
    start(&p, &g, 16, 64);
    /* tp cp pp vpp ep etp micro-batch */
    assert_int_equal(WALKED(1, 1, 16, 2, 1, 1, 1), 0); /* 32 chunks of 80 layers */
    assert_int_equal(census.indivisible, 1);
    assert_int_equal(WALKED(1, 1, 16, 5, 1, 1, 1), 1);
    assert_int_equal(WALKED(1, 1, 1, 2, 1, 1, 1), 0);  /* chunks need a pipeline */
    assert_int_equal(WALKED(16, 1, 1, 1, 1, 1, 1), 0); /* 8 KV heads over TP 16 */
    assert_int_equal(census.engine_rule, 1);
    p.engine.kv_replication = true;
    assert_int_equal(WALKED(16, 1, 1, 1, 1, 1, 1), 1);
    g.kv_heads = 0; /* latent attention has none to divide */
    g.attention = ATTENTION_MLA;
    g.kv_rank = 512;
    g.rope_dim = 64;
    p.engine.kv_replication = false;
    assert_int_equal(WALKED(16, 1, 1, 1, 1, 1, 1), 1);
    start(&p, &g, 8, 64);
    assert_int_equal(WALKED(1, 1, 2, 1, 8, 1, 1), 0); /* EP 8 x PP 2 on 8 GPUs */
    assert_int_equal(WALKED(1, 1, 2, 1, 4, 1, 1), 1);
    assert_int_equal(WALKED(1, 1, 2, 1, 4, 2, 1), 0);
    assert_int_equal(WALKED(1, 1, 1, 1, 3, 1, 1), 0);
    g.experts = 60;
    assert_int_equal(WALKED(1, 1, 1, 1, 8, 1, 1), 0);
    start(&p, &g, 16, 64); /* micro-batch from the batch per replica, not per GPU */
    assert_int_equal(WALKED(4, 1, 1, 1, 1, 1, 8), 1);
    assert_int_equal(WALKED(1, 1, 1, 1, 1, 1, 8), 0);
    p.workload.global_batch = 100;
    assert_int_equal(WALKED(2, 1, 1, 1, 1, 1, 1), 0); /* DP 8 does not divide 100 */
    start(&p, &g, 24, 72);
    assert_int_equal(WALKED(1, 3, 1, 1, 1, 1, 1), 0); /* sequence 4096 in 6 chunks */
    start(&p, &g, 8, 64);
    assert_int_equal(WALKED(8, 1, 1, 1, 1, 1, 1), 1);
    p.workload.sequence = 8;
    assert_int_equal(WALKED(2, 4, 1, 1, 1, 1, 1), 0); /* 16 parts of 8 tokens */
    assert_int_equal(WALKED(2, 2, 1, 1, 1, 1, 1), 1);
}

static void engine_rules(void **state) {
    (void)state;
    struct mesh_census census;
    struct geometry g;
    struct problem p;
    start(&p, &g, 32, 80); /* PP 4, DP 8: 10 micro-batches */
    p.engine.interleaved_batches_divide = true;
    assert_int_equal(WALKED(1, 1, 4, 2, 1, 1, 1), 0);
    assert_int_equal(census.engine_rule, 1);
    p.engine.interleaved_batches_divide = false;
    assert_int_equal(WALKED(1, 1, 4, 2, 1, 1, 1), 1);
    p.workload.global_batch = 32;
    assert_int_equal(WALKED(1, 1, 8, 1, 1, 1, 2), 1); /* fewer micro-batches than stages */
    g.layers = 46;
    assert_int_equal(WALKED(1, 1, 4, 1, 1, 1, 1), 1);
    p.engine.uneven_stages = false;
    assert_int_equal(WALKED(1, 1, 4, 1, 1, 1, 1), 0);
    assert_int_equal(WALKED(1, 1, 2, 1, 1, 1, 1), 1);
}

/* A free axis stays with what has been measured, unless told otherwise. */
static void measured_ranks_only(void **state) {
    (void)state;
    static struct found f;
    struct mesh_census census;
    struct geometry g;
    struct problem p;
    start(&p, &g, 256, 1024);
    g.heads = g.kv_heads = 64;
    p.layouts.tp = (struct axis){.count = 0};
    walk(&p, &g, &f, &census);
    int widest = 0;
    for (int i = 0; i < f.count; ++i)
        widest = f.meshes[i].tp > widest ? f.meshes[i].tp : widest;
    assert_int_equal(widest, 32); /* the widest all-gather of the calibration */
    assert_true(census.unmeasured > 0);
    p.layouts.allow_extrapolation = true;
    walk(&p, &g, &f, &census);
    for (int i = 0; i < f.count; ++i)
        widest = f.meshes[i].tp > widest ? f.meshes[i].tp : widest;
    assert_int_equal(widest, 64);
    assert_int_equal(census.unmeasured, 0);
}

static void divisors(void **state) {
    (void)state;
    static const int of_360[] = {1,  2,  3,  4,  5,  6,  8,  9,  10, 12,  15,  18,
                                 20, 24, 30, 36, 40, 45, 60, 72, 90, 120, 180, 360};
    int values[64];
    assert_int_equal(axis_divisors(360, values, 64), 24);
    assert_memory_equal(values, of_360, sizeof of_360);
    assert_int_equal(axis_divisors(1, values, 64), 1);
    assert_int_equal(axis_divisors(360, values, 5), 5);
    assert_int_equal(axis_divisors(0, values, 64), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_legal_mesh_once),
        cmocka_unit_test(rules_that_users_met),
        cmocka_unit_test(engine_rules),
        cmocka_unit_test(measured_ranks_only),
        cmocka_unit_test(divisors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
