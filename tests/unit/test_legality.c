// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The rules of a layout: what users were let into or kept out of (U29 to U38, U93), all broken
 * rules at once, and random meshes against a second checker written from the engines' stated rules.
 */
#include "p6.h"

#include "known_models.h"
#include "step/legality.h"

static struct violation broken[VIOLATIONS_MAX];

/* A case that nothing but the mesh, the model and the GPUs makes. */
static struct legality_point asked(const struct geometry *g, const struct workload *w, int gpus,
                                   struct mesh mesh) {
    int *const degrees[] = {&mesh.tp, &mesh.cp,  &mesh.pp,         &mesh.vpp,
                            &mesh.ep, &mesh.etp, &mesh.micro_batch};
    for (size_t i = 0; i < sizeof degrees / sizeof degrees[0]; ++i)
        *degrees[i] = *degrees[i] ? *degrees[i] : 1;
    return (struct legality_point){
        .mesh = mesh, .geometry = g, .workload = w, .engine = &p6.engine, .gpus = gpus};
}

static const struct violation unbroken = {.rule = ""};

static const struct violation *find(struct legality_point *p, const char *rule) {
    const int count = legality_find(p, broken);
    for (int i = 0; i < count; ++i)
        if (strcmp(broken[i].rule, rule) == 0)
            return &broken[i];
    return &unbroken;
}

static void assert_broken(struct legality_point p, const char *rule, const char *part) {
    const struct violation *const v = find(&p, rule);
    if (v == &unbroken)
        fail_msg("%s is not broken", rule);
    if (!strstr(v->text, part))
        fail_msg("'%s' is not in '%s'", part, v->text);
}

static void assert_legal(struct legality_point p) {
    if (legality_find(&p, broken) > 0)
        fail_msg("%s", broken[0].text);
}

static struct workload batch_of(int sequence, int global_batch) {
    struct workload w = p6.workload;
    w.sequence = sequence;
    w.global_batch = global_batch;
    return w;
}

/* 80 layers in 32 chunks once became 64 layers. */
static void u29_layers_in_chunks(void **state) {
    (void)state;
    struct geometry g = qwen3_30b_a3b;
    g.layers = 80;
    const struct workload w = batch_of(4096, 1024);
    assert_broken(asked(&g, &w, 256, (struct mesh){.pp = 16, .vpp = 2}), "chunks",
                  "PP 16 x VPP 2 = 32 chunks");
    assert_broken(asked(&g, &w, 256, (struct mesh){.pp = 16, .vpp = 2}), "chunks",
                  "80 mod 32 = 16");
    assert_legal(asked(&g, &w, 256, (struct mesh){.pp = 16, .vpp = 5}));
}

static void u30_kv_groups(void **state) {
    (void)state;
    static const int refused[] = {5, 0};
    for (int i = 0; i < 2; ++i) {
        struct geometry g = qwen3_30b_a3b;
        struct status_error err;
        g.kv_heads = refused[i];
        assert_int_not_equal(geometry_check(&g, &err), MOSAIC_OK);
        assert_non_null(strstr(err.message, i == 0 ? "5" : "0"));
    }
}

static void u31_kv_replication(void **state) {
    (void)state;
    struct geometry g = qwen3_30b_a3b;
    g.kv_heads = 2;
    const struct workload w = batch_of(4096, 1024);
    struct engine strict = p6.engine, lenient = p6.engine;
    strict.kv_replication = false;
    lenient.kv_replication = true;
    struct legality_point p = asked(&g, &w, 64, (struct mesh){.tp = 8});
    p.engine = &strict;
    const struct violation *const v = find(&p, "kv_replication");
    assert_int_equal(v->kind, LEGALITY_ENGINE);
    assert_non_null(strstr(v->text, "TP 8 does not divide 2 KV heads"));
    assert_non_null(strstr(v->text, strict.version));
    p.engine = &lenient;
    assert_legal(p);
    struct legality_point latent = asked(&deepseek_v3, &w, 64, (struct mesh){.tp = 8});
    latent.engine = &strict;
    assert_legal(latent);
}

/* The experts' own ranks have to tile the GPUs, whatever TP and CP do. */
static void u32_expert_world(void **state) {
    (void)state;
    const struct workload w = batch_of(4096, 1024);
    struct legality_point p = asked(&qwen3_30b_a3b, &w, 8, (struct mesh){.pp = 2, .ep = 8});
    const struct violation *v = find(&p, "expert_ranks");
    assert_non_null(strstr(v->text, "EP 8 x ETP 1 = 8 does not divide TP 1 x CP 1 x DP 4 = 4"));
    assert_non_null(strstr(v->hint, "EP 8 x ETP 1 x PP 2 = 16 must divide 8 GPUs"));
    assert_true(v->operands & 1u << OPERAND_ETP);
    assert_int_equal(operand_value(&p, OPERAND_ETP), 1);
    assert_legal(asked(&qwen3_30b_a3b, &w, 8, (struct mesh){.pp = 2, .ep = 4}));
    /* Without a DP there still is a sum. */
    struct legality_point q = asked(&qwen3_30b_a3b, &w, 8, (struct mesh){.tp = 16, .ep = 16});
    assert_string_equal(find(&q, "world")->rule, "world");
    v = find(&q, "expert_world");
    assert_non_null(strstr(v->text, "EP 16 x ETP 1 x PP 1 = 16 does not divide 8 GPUs"));
    assert_ptr_equal(find(&q, "batch"), &unbroken);
}

static void u33_expert_degree(void **state) {
    (void)state;
    struct geometry g = qwen3_30b_a3b;
    const struct workload w = batch_of(4096, 1024);
    g.experts = 60;
    assert_broken(asked(&g, &w, 8, (struct mesh){.ep = 3}), "expert_ranks", "does not divide");
    assert_broken(asked(&g, &w, 8, (struct mesh){.ep = 8}), "experts",
                  "EP 8 does not divide 60 experts");
    g.experts = 64;
    assert_legal(asked(&g, &w, 8, (struct mesh){.ep = 8}));
}

/* Few micro-batches are legal; what interleaving asks of them is the engine's own rule. */
static void u34_micro_batches(void **state) {
    (void)state;
    const struct workload few = batch_of(4096, 4), ten = batch_of(4096, 10);
    assert_legal(asked(&qwen3_30b_a3b, &few, 8, (struct mesh){.pp = 8}));
    struct engine strict = p6.engine, lenient = p6.engine;
    strict.interleaved_batches_divide = true;
    lenient.interleaved_batches_divide = false;
    struct legality_point p = asked(&qwen3_30b_a3b, &ten, 4, (struct mesh){.pp = 4, .vpp = 2});
    p.engine = &strict;
    assert_broken(p, "interleaved_batches", "10 mod 4 = 2");
    p.engine = &lenient;
    assert_legal(p);
}

/* The batch of a replica is the global one over DP, not over all GPUs. */
static void u35_batch_of_a_replica(void **state) {
    (void)state;
    const struct workload w = batch_of(4096, 64);
    struct legality_point p =
        asked(&qwen3_30b_a3b, &w, 16, (struct mesh){.tp = 4, .micro_batch = 8});
    assert_int_equal(legality_find(&p, broken), 0);
    assert_int_equal(p.mesh.dp, 4);
    assert_int_equal(p.mesh.micro_batches, 2);
    assert_broken(asked(&qwen3_30b_a3b, &w, 16, (struct mesh){.micro_batch = 8}), "batch",
                  "micro-batch 8 x DP 16 = 128 does not divide the global batch 64");
}

static void u36_global_batch(void **state) {
    (void)state;
    const struct workload w = batch_of(4096, 100);
    struct legality_point p = asked(&qwen3_30b_a3b, &w, 8, (struct mesh){.tp = 1});
    const struct violation *const v = find(&p, "batch");
    assert_non_null(strstr(v->hint, "96 and 104"));
    assert_int_equal(w.global_batch, 100);
}

static void u37_padded_vocabulary(void **state) {
    (void)state;
    static const struct {
        int vocab, tp, padded;
    } cases[] = {{50257, 8, 51200}, {129280, 24, 132096}, {151936, 8, 152576}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        struct geometry g = qwen3_30b_a3b;
        struct step_context ctx;
        g.vocab = cases[i].vocab;
        step_context_init(&ctx, &g, &p6.cluster, &p6.calibration, &p6.workload, &p6.engine,
                          estimator_default());
        assert_int_equal(ctx.engine.vocab_pad_unit, 128);
        assert_close(step_padded_vocab(&ctx, cases[i].tp), (double)cases[i].padded, 0.0);
    }
}

/* 61 layers and two ends in 32 chunks: only as a stated pipeline layout. */
static void u38_uneven_chunks(void **state) {
    (void)state;
    struct workload w = batch_of(4096, 8192);
    const struct mesh mesh = {.tp = 2, .pp = 16, .vpp = 2, .ep = 64};
    assert_broken(asked(&deepseek_v3, &w, 1024, mesh), "chunks", "61 mod 32 = 29");
    struct legality_point even = asked(&deepseek_v3, &w, 1024, mesh);
    assert_non_null(strstr(find(&even, "chunks")->hint, "uneven_chunks"));
    w.execution.uneven_chunks = true;
    struct legality_point p = asked(&deepseek_v3, &w, 1024, mesh);
    assert_int_equal(legality_find(&p, broken), 0);
    assert_int_equal(p.mesh.dp, 32);
    assert_int_equal(mesh_edp(&p.mesh), 1);
    assert_int_equal(p.mesh.micro_batches, 256);
    /* (PP - 1)/(VPP x micro-batches) */
    assert_close((double)(p.mesh.pp - 1) / (double)(p.mesh.vpp * p.mesh.micro_batches),
                 15.0 / 512.0, 0.0);
    /* Chunks without anything in them. */
    assert_broken(asked(&deepseek_v3, &w, 1024, (struct mesh){.tp = 2, .pp = 16, .vpp = 5}),
                  "chunks", "more than 61 layers");
}

static void u93_sequence(void **state) {
    (void)state;
    struct workload w = batch_of(4096, 768);
    assert_broken(asked(&qwen3_30b_a3b, &w, 24, (struct mesh){.cp = 3}), "sequence",
                  "sequence 4096 is not a multiple of 6 (2 x CP 3 x TP 1)");
    assert_legal(asked(&mixtral_8x7b, &w, 24, (struct mesh){.tp = 8}));
    w.sequence = 2;
    struct legality_point p = asked(&qwen3_30b_a3b, &w, 24, (struct mesh){.cp = 4});
    const struct violation *const v = find(&p, "sequence");
    assert_non_null(strstr(v->text, "sequence 2 is not a multiple of 8"));
    assert_string_equal(v->hint, "the least sequence is 8");
}

static void values_below_one(void **state) {
    (void)state;
    struct legality_point p = asked(&qwen3_30b_a3b, &p6.workload, 8, (struct mesh){.tp = 1});
    p.mesh.cp = 0;
    p.mesh.etp = -2;
    assert_int_equal(legality_find(&p, broken), 1);
    assert_string_equal(broken[0].rule, "positive");
    assert_int_equal(broken[0].operands, 1u << OPERAND_CP | 1u << OPERAND_ETP);
}

static void names(void **state) {
    (void)state;
    for (int i = 0; i < OPERANDS; ++i)
        assert_string_not_equal(operand_name((enum operand)i), "unknown");
    assert_string_equal(operand_name(OPERANDS), "unknown");
    assert_string_equal(legality_kind_name(LEGALITY_ENGINE), "engine");
}

/* ---- random meshes against a second checker ---- */

static bool divides(long a, long b) {
    return a > 0 && b % a == 0;
}

/* From what the engines say of themselves, in other words than the library. */
static bool stated_rules_allow(const struct mesh *m, const struct geometry *g,
                               const struct workload *w, const struct engine *e, int gpus) {
    const long tp = m->tp, cp = m->cp, pp = m->pp, ranks = tp * cp * pp;
    if (!divides(ranks, gpus))
        return false;
    const long dp = gpus / ranks;
    if (!divides(m->micro_batch * dp, w->global_batch))
        return false;
    const long micro_batches = w->global_batch / (m->micro_batch * dp);
    const bool heads =
        divides(tp, g->heads) && (g->attention == ATTENTION_MLA || divides(tp, g->kv_heads) ||
                                  (e->kv_replication && divides(g->kv_heads, tp)));
    const bool widths = (g->first_dense == 0 || divides(tp, g->dense_ffn)) &&
                        (g->shared_experts == 0 || divides(tp, g->shared_experts * g->shared_ffn));
    const bool experts = g->experts == 0
                             ? m->ep * m->etp == 1
                             : divides(m->ep, g->experts) && divides(m->etp, g->expert_ffn) &&
                                   divides((long)m->ep * m->etp * pp, gpus);
    const bool sequence = divides(cp == 1 ? tp : 2 * cp * tp, w->sequence);
    const bool stages = pp <= g->layers && (e->uneven_stages || divides(pp, g->layers));
    const bool chunks =
        m->vpp == 1 || (pp > 1 && divides(pp * m->vpp, g->layers) &&
                        (!e->interleaved_batches_divide || divides(pp, micro_batches)));
    return heads && widths && experts && sequence && stages && chunks;
}

static void agrees_with_stated_rules(void **state) {
    (void)state;
    int legal = 0, illegal = 0;
    for (int i = 0; i < 200000 && legal < 2000; ++i) {
        const struct geometry g = random_geometry();
        const struct workload w = random_workload();
        const struct mesh mesh = random_mesh();
        struct engine e = p6.engine;
        e.kv_replication = random_chance(2);
        e.uneven_stages = random_chance(2);
        e.interleaved_batches_divide = random_chance(2);
        const int gpus = 8 << random_below(8);
        struct legality_point p = {mesh, &g, &w, &e, gpus};
        struct mesh completed = mesh;
        struct status_error err = {0};
        const int count = legality_find(&p, broken);
        enum mosaic_status status = mesh_complete(&completed, &g, &w, gpus, &err);
        const bool is_complete = status == MOSAIC_OK;
        if (is_complete)
            status = mesh_check_engine(&completed, &g, &w, &e, &err);
        assert_int_equal(count == 0, stated_rules_allow(&mesh, &g, &w, &e, gpus));
        assert_int_equal(count == 0, status == MOSAIC_OK);
        if (count > 0)
            assert_string_equal(broken[0].text, err.message);
        if (is_complete) {
            assert_int_equal(p.mesh.dp, completed.dp);
            assert_int_equal(p.mesh.micro_batches, completed.micro_batches);
        }
        *(count == 0 ? &legal : &illegal) += 1;
    }
    assert_true(legal > 200 && illegal > 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(u29_layers_in_chunks),
        cmocka_unit_test(u30_kv_groups),
        cmocka_unit_test(u31_kv_replication),
        cmocka_unit_test(u32_expert_world),
        cmocka_unit_test(u33_expert_degree),
        cmocka_unit_test(u34_micro_batches),
        cmocka_unit_test(u35_batch_of_a_replica),
        cmocka_unit_test(u36_global_batch),
        cmocka_unit_test(u37_padded_vocabulary),
        cmocka_unit_test(u38_uneven_chunks),
        cmocka_unit_test(u93_sequence),
        cmocka_unit_test(values_below_one),
        cmocka_unit_test(names),
        cmocka_unit_test(agrees_with_stated_rules),
    };
    return cmocka_run_group_tests(tests, p6_load, NULL);
}
