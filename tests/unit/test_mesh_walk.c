// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The walk over meshes against trying every tuple of degrees, its order and census, and the rules
 * that users met: layers over chunks, KV heads, EP x ETP, batches, sequence parts.
 */
#include "oracle.h"
#include "plan_case.h"

#include "close.h"
#include "plan/mesh_catalog.h"

#include <string.h>

enum { MESHES_MAX = 20000, SPACES = 80, CONFLICTS = 6 };

struct found {
    const struct problem *problem;
    const struct geometry *geometry;
    int count, shapes, launchable;
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

/* ---- kept lists ---- */

/* Conflicts of two features at random, some lifted by a third. */
static void draw_conflicts(struct random *r, struct engine_rule *rules, struct engine *engine) {
    const size_t count = (size_t)random_int(r, 0, CONFLICTS);
    for (size_t i = 0; i < count; ++i)
        rules[i] = (struct engine_rule){
            .features = FEATURE_BIT(random_int(r, 0, FEATURES - 1)) |
                        FEATURE_BIT(random_int(r, 0, FEATURES - 1)),
            .unless = random_chance(r, 0.3) ? FEATURE_BIT(random_int(r, 0, FEATURES - 1)) : 0,
            .text = "",
            .source = ""};
    engine->rules = (struct engine_rules){count, rules};
}

static void draw_job(struct random *r, struct execution *e) {
    e->sharding = (enum sharding)random_int(r, SHARD_ZERO1, SHARD_FSDP);
    e->dispatcher = (enum dispatcher)random_int(r, 0, DISPATCHERS - 1);
    e->graphs = (enum graphs)random_int(r, GRAPHS_NONE, GRAPHS_FULL);
    e->overlap = (unsigned)random_int(r, 0, 15);
    e->offload_optimizer = random_chance(r, 0.3) ? 0.5 : 0.0;
    e->checkpoint_host_bytes = random_chance(r, 0.2) ? 1e9 : 0.0;
    e->dispatch_chunk = random_chance(r, 0.2) ? 256 : 0;
    e->vocab_ring = random_chance(r, 0.2) ? 2 : 0;
    e->bucket_params = random_chance(r, 0.2) ? 1e6 : 0.0;
}

static bool is_kept(const struct mesh_catalog *c, const struct step_context *ctx,
                    const struct found *f, const struct mesh_census *census) {
    size_t at = 0;
    if (memcmp(&c->census, census, sizeof *census) != 0 || c->shape_count != (size_t)f->shapes)
        return false;
    for (size_t i = 0; i < c->shape_count; ++i)
        for (uint32_t k = 0; k < c->shapes[i].count; ++k) {
            struct mesh m;
            catalog_mesh_fill(&c->shapes[i], &c->meshes[c->shapes[i].first + k], ctx, &m);
            const struct mesh *const want = &f->meshes[at++];
            if (mesh_compare(&m, want) != 0 || m.dp != want->dp ||
                m.micro_batches != want->micro_batches)
                return false;
        }
    return at == (size_t)f->count;
}

static void count_launchable(void *context, const struct mesh *mesh) {
    struct found *const f = context;
    f->launchable += mesh_check_engine(mesh, f->geometry, &f->problem->workload,
                                       &f->problem->engine, NULL) == MOSAIC_OK;
}

static void ignore_shape(void *context, const struct mesh *shape) {
    (void)context;
    (void)shape;
}

static void skip_shape(void *context, const struct mesh *shape) {
    ((struct found *)context)->shape = *shape;
    ((struct found *)context)->shapes++;
}

static void keep_mesh(void *context, const struct mesh *mesh) {
    struct found *const f = context;
    assert_true(f->count < MESHES_MAX);
    f->meshes[f->count++] = *mesh;
}

/* One cache for many machines, spaces, models, engines and jobs: a list that it gives again is that
 * of a walk. */
static void lists_are_kept(void **state) {
    (void)state;
    static struct found f;
    static struct geometry models[CASE_GEOMETRIES_MAX];
    struct engine_rule rules[CONFLICTS];
    struct random r = {33};
    struct status_error err;
    struct problem p;
    struct catalog_cache *const cache = catalog_cache_new();
    const struct mesh_catalog *before = NULL;
    int again = 0, asked = 0;
    assert_non_null(cache);
    for (int i = 0; i < SPACES; ++i) {
        case_random(&r, &p, models, CASE_GEOMETRIES_MAX);
        draw_conflicts(&r, rules, &p.engine);
        p.engine.memory_schedules = random_chance(&r, 0.7);
        for (int s = 0; s < SCHEDULES; ++s)
            p.layouts.schedule[s] = s != SCHEDULE_INTERLEAVED && random_chance(&r, 0.3);
        catalog_cache_trim(cache);
        for (int k = 0; k < 3 * CASE_GEOMETRIES_MAX; ++k) {
            const struct mesh_catalog *c;
            struct step_context ctx;
            struct mesh_census census = {0};
            struct geometry g = models[k / 3];
            if (random_chance(&r, 0.5))
                g.hidden *= 2; /* the rules cannot tell */
            if (random_chance(&r, 0.6))
                draw_job(&r, &p.workload.execution);
            problem_context(&p, &g, 0, &ctx);
            f.count = f.shapes = 0;
            mesh_walk(&ctx, &p.layouts, skip_shape, keep_mesh, &f, &census);
            /* Conflicts left out because no mesh can have them are those of none. */
            f.problem = &p;
            f.geometry = &g;
            f.launchable = 0;
            ctx.engine.rules.count = 0;
            struct mesh_census unused = {0};
            mesh_walk(&ctx, &p.layouts, ignore_shape, count_launchable, &f, &unused);
            ctx.engine.rules = p.engine.rules;
            assert_int_equal(f.launchable, f.count);
            assert_int_equal(catalog_find(cache, &ctx, &p.layouts, &c, &err), MOSAIC_OK);
            assert_true(is_kept(c, &ctx, &f, &census));
            again += c == before;
            asked++;
            before = c;
        }
    }
    print_message("%d of %d lists were the one before\n", again, asked);
    assert_true(again > asked / 10);
    catalog_cache_free(cache);
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
        cmocka_unit_test(every_legal_mesh_once), cmocka_unit_test(rules_that_users_met),
        cmocka_unit_test(engine_rules),          cmocka_unit_test(measured_ranks_only),
        cmocka_unit_test(lists_are_kept),        cmocka_unit_test(divisors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
