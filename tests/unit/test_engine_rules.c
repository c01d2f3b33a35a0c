// SPDX-License-Identifier: GPL-3.0-or-later
/* Rules of engines: which features a layout has, what shipped and other documents refuse. */
#include "step/engine_rules.h"

#include "known_models.h"
#include "step_case.h"
#include "test_doc.h"

#define ENGINE                                                                                     \
    "schema: mosaic-engine/1\nname: e\nversion: \"1\"\nuneven_stages: true\n"                      \
    "recompute_per_stage: false\ninterleaved_batches_divide: false\nkv_replication: false\n"       \
    "vocab_pad_unit: 1\n"

static struct document *shipped(const char *name, const char *version) {
    char plan[512];
    (void)snprintf(plan, sizeof plan, HEAD "engine: {name: %s, version: \"%s\"}\n", name, version);
    return must_parse(plan, NULL, 0);
}

/* DeepSeek-V3 on PP 4, VPP 2 and EP 8, which is legal everywhere. */
static const struct mesh plain_mesh = {.tp = 2,
                                       .cp = 1,
                                       .pp = 4,
                                       .vpp = 2,
                                       .ep = 8,
                                       .etp = 1,
                                       .dp = 16,
                                       .micro_batch = 1,
                                       .micro_batches = 16};

static bool has(const struct mesh *m, const struct geometry *g, const struct workload *w, int f) {
    return (engine_features(m, g, w) & FEATURE_BIT(f)) != 0;
}

static void refused(const struct engine *e, const struct mesh *m, const struct geometry *g,
                    const struct workload *w, const char *word, const char *hint) {
    struct status_error err = {0};
    if (engine_rules_check(m, g, w, e, &err) != MOSAIC_BAD_INPUT)
        fail_msg("not refused: %s", word);
    if (!strstr(err.message, word) || !strstr(err.hint, hint))
        fail_msg("'%s' ('%s'), want '%s' ('%s')", err.message, err.hint, word, hint);
    assert_int_equal(engine_rules_check(m, g, w, e, NULL), MOSAIC_BAD_INPUT);
}

static void accepted(const struct engine *e, const struct mesh *m, const struct geometry *g,
                     const struct workload *w) {
    struct status_error err = {0};
    if (engine_rules_check(m, g, w, e, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
}

/* ---- features ---- */

static void words_of_a_plain_job(void **state) {
    (void)state;
    const struct workload w = {.sequence = 4096, .global_batch = 256};
    const struct geometry g = deepseek_v3;
    static const enum feature present[] = {FEATURE_TP,
                                           FEATURE_PP,
                                           FEATURE_VPP,
                                           FEATURE_EP,
                                           FEATURE_RECOMPUTE_NONE,
                                           FEATURE_NCCL,
                                           FEATURE_ZERO1,
                                           FEATURE_BF16,
                                           FEATURE_MOE,
                                           FEATURE_MLA,
                                           FEATURE_SHARED_EXPERTS,
                                           FEATURE_MTP,
                                           FEATURE_UNEVEN_STAGES};
    uint64_t want = 0;
    for (size_t i = 0; i < sizeof present / sizeof present[0]; ++i)
        want |= FEATURE_BIT(present[i]);
    const uint64_t got = engine_features(&plain_mesh, &g, &w);
    for (int f = 0; f < FEATURES; ++f)
        if ((got ^ want) & FEATURE_BIT(f))
            fail_msg("%s", feature_words[f]);
    assert_null(feature_words[FEATURES]);
}

/* A switch counts where it does something. */
static void words_that_need_more(void **state) {
    (void)state;
    struct workload w = {.sequence = 4096, .global_batch = 256};
    w.execution = (struct execution){.sharding = SHARD_HYBRID,
                                     .shard_ranks = 8,
                                     .dispatcher = DISPATCH_DEEPEP,
                                     .graphs = GRAPHS_MODULE,
                                     .overlap = 15,
                                     .selective = 255,
                                     .context_shards = CONTEXT_CONTIGUOUS};
    struct mesh m = plain_mesh;
    m.recompute = RECOMPUTE_SELECTIVE;
    const struct geometry moe = deepseek_v3, gqa = qwen3_30b_a3b;
    struct geometry dense = mixtral_8x7b;
    dense.experts = dense.top_k = dense.expert_ffn = 0;
    dense.first_dense = dense.layers;
    dense.dense_ffn = 14336;
    assert_true(has(&m, &moe, &w, FEATURE_CUDA_GRAPHS_ROUTER));
    assert_true(has(&m, &moe, &w, FEATURE_CUDA_GRAPHS_MODULE));
    assert_false(has(&m, &dense, &w, FEATURE_CUDA_GRAPHS_ROUTER));
    assert_true(has(&m, &moe, &w, FEATURE_FSDP));
    assert_true(has(&m, &moe, &w, FEATURE_HYBRID));
    assert_true(has(&m, &moe, &w, FEATURE_DEEPEP));
    assert_false(has(&m, &dense, &w, FEATURE_DEEPEP));
    assert_true(has(&m, &moe, &w, FEATURE_OVERLAP_EP));
    assert_false(has(&m, &dense, &w, FEATURE_OVERLAP_EP));
    assert_true(has(&m, &moe, &w, FEATURE_OVERLAP_TP));
    assert_false(has(&m, &moe, &w, FEATURE_OVERLAP_CP)); /* CP 1 */
    assert_false(has(&m, &moe, &w, FEATURE_CONTIGUOUS_CONTEXT));
    m.cp = 2;
    assert_true(has(&m, &moe, &w, FEATURE_CONTIGUOUS_CONTEXT));
    m.cp = 1;
    assert_true(has(&m, &moe, &w, FEATURE_RECOMPUTE_MLA_UP));
    assert_false(has(&m, &gqa, &w, FEATURE_RECOMPUTE_MLA_UP));
    assert_true(has(&m, &moe, &w, FEATURE_RECOMPUTE_SHARED));
    assert_false(has(&m, &gqa, &w, FEATURE_RECOMPUTE_SHARED));
    assert_true(has(&m, &gqa, &w, FEATURE_RECOMPUTE_EXPERTS));
    assert_false(has(&m, &dense, &w, FEATURE_RECOMPUTE_EXPERTS));
    assert_true(has(&m, &dense, &w, FEATURE_RECOMPUTE_MLP));
    assert_false(has(&m, &gqa, &w, FEATURE_RECOMPUTE_MLP));
    m.recompute = RECOMPUTE_FULL;
    assert_false(has(&m, &moe, &w, FEATURE_RECOMPUTE_EXPERTS));
    assert_true(has(&m, &moe, &w, FEATURE_RECOMPUTE_FULL));
    m.ep = 1;
    assert_false(has(&m, &moe, &w, FEATURE_OVERLAP_EP));
    m.etp = 2;
    assert_false(has(&m, &moe, &w, FEATURE_ETP_UNLIKE_TP));
    m.tp = 8;
    assert_true(has(&m, &moe, &w, FEATURE_ETP_UNLIKE_TP));
    assert_true(has(&m, &gqa, &w, FEATURE_KV_REPLICATION)); /* 4 KV heads */
    assert_false(has(&m, &moe, &w, FEATURE_KV_REPLICATION));
}

/* ---- documents ---- */

static void documents(void **state) {
    (void)state;
    struct document *d =
        must_parse(ENGINE "conflicts:\n"
                          "  - {features: [muon, fsdp], text: why, source: there}\n"
                          "  - features: vpp\n"
                          "    unless: [dense, pp]\n"
                          "    text: because\n"
                          "    source: here\n",
                   NULL, 0);
    const struct engine_rules *const r = &d->problem.engine.rules;
    assert_int_equal(r->count, 2);
    assert_true(r->items[0].features == (FEATURE_BIT(FEATURE_MUON) | FEATURE_BIT(FEATURE_FSDP)));
    assert_true(r->items[0].unless == 0);
    assert_true(r->items[1].features == FEATURE_BIT(FEATURE_VPP));
    assert_true(r->items[1].unless == (FEATURE_BIT(FEATURE_DENSE) | FEATURE_BIT(FEATURE_PP)));
    assert_string_equal(r->items[0].text, "why");
    assert_string_equal(r->items[1].source, "here");
    assert_false(d->problem.engine.interleaved_rounds_divide);
    document_free(d);
    d = must_parse(ENGINE "conflicts: []\ninterleaved_rounds_divide: true\n", NULL, 0);
    assert_int_equal(d->problem.engine.rules.count, 0);
    assert_true(d->problem.engine.interleaved_rounds_divide);
    document_free(d);
}

static void bad_documents(void **state) {
    (void)state;
    static const struct {
        const char *text, *word;
        long line;
    } cases[] = {
        {"conflicts: [{features: [overlap_op], text: a, source: b}]\n", "overlap_op", 9},
        {"conflicts: [{features: [], text: a, source: b}]\n", "features", 9},
        {"conflicts: [{features: [tp], source: b}]\n", "text", 9},
        {"conflicts: [{features: [tp], text: a}]\n", "source", 9},
        {"conflicts: [{features: [tp, tp], text: a, source: b}]\n", "a value twice", 9},
        {"conflicts:\n  - features: [pp]\n    unless: [vpp, pp]\n    text: a\n    source: b\n",
         "'pp' is in 'features' too", 11},
        {"conflicts: {features: [tp], text: a, source: b}\n", "conflicts", 9},
        {"conflicts: [{features: [tp], text: a, source: b, needs: [pp]}]\n", "needs", 9},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        char text[1024];
        struct document *d = NULL;
        (void)snprintf(text, sizeof text, "%s%s", ENGINE, cases[i].text);
        assert_int_equal(parse(text, NULL, 0, &d), MOSAIC_BAD_INPUT);
        if (!strstr(said.items[0].message, cases[i].word) || said.items[0].line != cases[i].line)
            fail_msg("%ld: %s", said.items[0].line, said.items[0].message);
    }
}

/* Rules found by a release live as long as what asked for them. */
static void every_shipped_rule_is_told(void **state) {
    (void)state;
    static const char *const engines[][2] = {
        {"megatron", "2022"},      {"megatron", "2024.07"},   {"megatron", "2025.12"},
        {"megatron", "2026.01"},   {"megatron", "2026.08"},   {"megatron-bridge", "0.4"},
        {"torchtitan", "2024.12"}, {"torchtitan", "2025.12"}, {"torchtitan", "2026.08"}};
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; ++i) {
        struct document *const d = shipped(engines[i][0], engines[i][1]);
        const struct engine_rules *const r = &d->problem.engine.rules;
        assert_true(r->count > 0);
        for (size_t k = 0; k < r->count; ++k) {
            size_t from = 0;
            assert_true(r->items[k].features != 0);
            assert_true(strlen(r->items[k].text) > 10 && strlen(r->items[k].source) > 10);
            while (engine_rule_broken(r, r->items[k].features, &from) != &r->items[k])
                assert_true(from < r->count);
            from = k;
            assert_true(engine_rule_broken(r, r->items[k].features | r->items[k].unless, &from) !=
                            &r->items[k] ||
                        r->items[k].unless == 0);
        }
        document_free(d);
    }
}

/* ---- users' cases ---- */

/* U31: two KV heads on TP 8, on an engine that replicates them and one that does not. */
static void kv_heads_by_engine(void **state) {
    (void)state;
    struct document *const d = must_parse(ENGINE, NULL, 0);
    struct engine replicates = d->problem.engine;
    replicates.kv_replication = true;
    struct geometry g = qwen3_30b_a3b;
    g.kv_heads = 2;
    struct mesh m = plain_mesh;
    m.tp = 8;
    struct status_error err = {0};
    assert_int_equal(mesh_check_engine(&m, &g, NULL, &d->problem.engine, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "TP 8 does not divide 2 KV heads"));
    assert_int_equal(mesh_check_engine(&m, &g, NULL, &replicates, &err), MOSAIC_OK);
    g = deepseek_v3; /* no KV heads */
    assert_int_equal(mesh_check_engine(&m, &g, NULL, &d->problem.engine, &err), MOSAIC_OK);
    document_free(d);
}

/* U34: ten micro-batches interleaved over four stages; one 1F1B of four over eight. */
static void micro_batches_by_engine(void **state) {
    (void)state;
    struct document *const strict = shipped("megatron", "2026.08");
    struct document *const flexible = shipped("torchtitan", "2025.12");
    const struct geometry g = qwen3_30b_a3b;
    const struct workload w = {.sequence = 4096, .global_batch = 40};
    struct mesh m = plain_mesh;
    struct status_error err = {0};
    m.micro_batches = 10;
    assert_int_equal(mesh_check_engine(&m, &g, NULL, &strict->problem.engine, &err),
                     MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "10 mod 4 = 2"));
    assert_int_equal(mesh_check_engine(&m, &g, NULL, &flexible->problem.engine, &err), MOSAIC_OK);
    accepted(&flexible->problem.engine, &m, &g, &w);
    m.micro_batches = 3; /* one round */
    accepted(&flexible->problem.engine, &m, &g, &w);
    m.micro_batches = 13; /* three rounds */
    refused(&flexible->problem.engine, &m, &g, &w, "in 3 rounds, but 13 mod 3 = 1", "");
    m.vpp = 1;
    accepted(&flexible->problem.engine, &m, &g, &w);
    m.pp = 8;
    m.micro_batches = 4;
    assert_int_equal(mesh_check_engine(&m, &g, NULL, &strict->problem.engine, &err), MOSAIC_OK);
    accepted(&strict->problem.engine, &m, &g, &w);
    document_free(strict);
    document_free(flexible);
}

/* U37: padded vocabularies. */
static void padded_vocabularies(void **state) {
    (void)state;
    static const struct {
        int vocab, tp, padded;
    } cases[] = {{50257, 8, 51200}, {129280, 24, 132096}, {151936, 8, 152576}};
    struct document *const d = shipped("megatron", "2026.08");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        struct geometry g = qwen3_30b_a3b;
        struct step_context ctx = {.geometry = &g, .engine = d->problem.engine};
        g.vocab = cases[i].vocab;
        assert_close(step_padded_vocab(&ctx, cases[i].tp), (double)cases[i].padded, 0.0);
    }
    document_free(d);
}

/* U39: the published recipe whose captured router conflicts with recomputed MoE layers. */
static void feature_pairs(void **state) {
    (void)state;
    struct document *const d = shipped("megatron", "2026.01");
    const struct engine *const e = &d->problem.engine;
    const struct geometry g = deepseek_v3;
    struct workload w = {.sequence = 4096, .global_batch = 2048};
    struct mesh m = plain_mesh;
    accepted(e, &m, &g, &w);
    w.execution.graphs = GRAPHS_MODULE;
    w.execution.selective = MODULE_EXPERTS | MODULE_MLA_UP;
    accepted(e, &m, &g, &w); /* nothing is recomputed */
    m.recompute = RECOMPUTE_SELECTIVE;
    refused(e, &m, &g, &w,
            "megatron 2026.01: recompute_experts + cuda_graphs_router:", "NVIDIA/Megatron-LM#3000");
    w.execution.graphs = GRAPHS_ROUTER;
    refused(e, &m, &g, &w, "recompute_experts + cuda_graphs_router", "leave one of them out");
    w.execution.selective = MODULE_MLA_UP;
    accepted(e, &m, &g, &w);

    w.execution = (struct execution){.overlap = OVERLAP_EP};
    m.recompute = RECOMPUTE_NONE;
    accepted(e, &m, &g, &w);
    m.vpp = 1;
    refused(e, &m, &g, &w, "pp 4 + overlap_ep without vpp: hiding", "add vpp, or leave one");
    m.pp = 1;
    accepted(e, &m, &g, &w);
    m.recompute = RECOMPUTE_FULL;
    refused(e, &m, &g, &w, "recompute_full + overlap_ep", "Megatron-Bridge");
    document_free(d);
}

/* One engine, two versions: graphs of the whole step. */
static void rules_by_version(void **state) {
    (void)state;
    struct document *const before = shipped("megatron", "2025.12");
    struct document *const now = shipped("megatron", "2026.08");
    const struct geometry g = qwen3_30b_a3b;
    struct workload w = {.sequence = 4096, .global_batch = 2048};
    w.execution.graphs = GRAPHS_FULL;
    w.execution.dispatcher = DISPATCH_HYBRIDEP;
    refused(&before->problem.engine, &plain_mesh, &g, &w, "cuda_graphs_full + moe", "#1598");
    accepted(&now->problem.engine, &plain_mesh, &g, &w);
    w.execution.dispatcher = DISPATCH_DEEPEP;
    refused(&now->problem.engine, &plain_mesh, &g, &w, "cuda_graphs_full + moe without hybridep",
            "add hybridep");
    document_free(before);
    document_free(now);
    struct document *const with = shipped("torchtitan", "2025.12");
    struct document *const without = shipped("torchtitan", "2026.08");
    struct mesh m = plain_mesh;
    w.execution = (struct execution){.sharding = SHARD_FSDP};
    m.etp = 2;
    accepted(&with->problem.engine, &m, &g, &w);
    refused(&without->problem.engine, &m, &g, &w, "torchtitan 2026.08: etp 2: ", "#3167");
    m.tp = 4;
    refused(&with->problem.engine, &m, &g, &w, "ep 8 + etp_unlike_tp", "#1555");
    document_free(with);
    document_free(without);
}

/* ---- against checkers written from the stated rules ---- */

typedef bool checker(const struct mesh *m, const struct geometry *g, const struct workload *w);

static bool has_experts(const struct geometry *g) {
    return g->experts > 0 && g->first_dense < g->layers;
}

/* What no version of Megatron-Core runs. */
static bool megatron_runs(const struct mesh *m, const struct workload *w) {
    return (m->schedule == SCHEDULE_1F1B || m->vpp > 1) &&
           (m->cp == 1 || w->execution.context_shards == CONTEXT_BALANCED);
}

/* What Megatron-Core of any of these versions says of EP overlap and graphs of modules. */
static bool core_takes(const struct mesh *m, const struct geometry *g, const struct workload *w) {
    const struct execution *const e = &w->execution;
    const bool is_fsdp = e->sharding == SHARD_FSDP || e->sharding == SHARD_HYBRID;
    if (!megatron_runs(m, w))
        return false;
    if ((e->overlap & OVERLAP_EP) && has_experts(g) && m->ep > 1 &&
        ((m->pp > 1 && m->vpp < 2) || m->recompute == RECOMPUTE_FULL ||
         e->dispatcher == DISPATCH_ALL_GATHER))
        return false;
    const bool partial =
        e->graphs == GRAPHS_MODULE || (e->graphs == GRAPHS_ROUTER && has_experts(g));
    if (!partial)
        return true;
    if (m->recompute == RECOMPUTE_FULL || is_fsdp)
        return false;
    return !(has_experts(g) && m->recompute == RECOMPUTE_SELECTIVE &&
             ((e->selective ? e->selective : MODULE_DEFAULT) & MODULE_EXPERTS));
}

static bool megatron_2026_08(const struct mesh *m, const struct geometry *g,
                             const struct workload *w) {
    if (w->execution.graphs == GRAPHS_FULL && has_experts(g) &&
        w->execution.dispatcher != DISPATCH_HYBRIDEP)
        return false;
    return core_takes(m, g, w);
}

static bool bridge_0_4(const struct mesh *m, const struct geometry *g, const struct workload *w) {
    if (w->execution.graphs == GRAPHS_FULL &&
        (has_experts(g) || w->execution.sharding == SHARD_FSDP ||
         w->execution.sharding == SHARD_HYBRID))
        return false;
    return core_takes(m, g, w);
}

static bool megatron_2024(const struct mesh *m, const struct geometry *g,
                          const struct workload *w) {
    return megatron_runs(m, w) && (m->vpp == 1 || g->layers % (m->pp * m->vpp) == 0);
}

static bool rounds_come_out(const struct mesh *m) {
    int rounds = m->micro_batches / m->pp;
    if (rounds < 1)
        rounds = 1;
    return m->vpp == 1 || m->micro_batches % rounds == 0;
}

static bool torchtitan_2025(const struct mesh *m, const struct geometry *g,
                            const struct workload *w) {
    (void)g;
    (void)w;
    return rounds_come_out(m) && (m->ep == 1 || m->etp == 1 || m->etp == m->tp);
}

static bool torchtitan_2026(const struct mesh *m, const struct geometry *g,
                            const struct workload *w) {
    (void)g;
    (void)w;
    return rounds_come_out(m) && m->etp == 1;
}

static void agrees_with_the_stated_rules(void **state) {
    (void)state;
    static const struct {
        const char *name, *version;
        checker *takes;
    } engines[] = {
        {"megatron", "2026.08", megatron_2026_08},  {"megatron", "2024.07", megatron_2024},
        {"megatron", "2026.01", bridge_0_4},        {"megatron", "2025.12", bridge_0_4},
        {"megatron-bridge", "0.4", bridge_0_4},     {"torchtitan", "2025.12", torchtitan_2025},
        {"torchtitan", "2026.08", torchtitan_2026},
    };
    for (size_t k = 0; k < sizeof engines / sizeof engines[0]; ++k) {
        struct document *const d = shipped(engines[k].name, engines[k].version);
        int taken = 0, left = 0;
        for (int i = 0; i < 20000; ++i) {
            const struct geometry g = random_geometry();
            struct workload w = random_workload();
            w.execution = random_execution();
            struct mesh m = random_mesh();
            struct status_error err = {0};
            if (m.vpp == 1)
                m.schedule = (enum schedule)PICK(SCHEDULE_1F1B, SCHEDULE_1F1B, SCHEDULE_ZERO_BUBBLE,
                                                 SCHEDULE_DUALPIPE);
            if (mesh_complete(&m, &g, &w, PICK(8, 64, 256, 1024), &err) != MOSAIC_OK)
                continue;
            const bool takes = engines[k].takes(&m, &g, &w);
            const enum mosaic_status status =
                engine_rules_check(&m, &g, &w, &d->problem.engine, &err);
            if ((status == MOSAIC_OK) != takes)
                fail_msg("%s %s: %s", engines[k].name, engines[k].version,
                         takes ? err.message : "taken");
            taken += takes;
            left += !takes;
        }
        assert_true(taken > 20 && left > 1);
        document_free(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_of_a_plain_job),
        cmocka_unit_test(words_that_need_more),
        cmocka_unit_test(documents),
        cmocka_unit_test(bad_documents),
        cmocka_unit_test(every_shipped_rule_is_told),
        cmocka_unit_test(kv_heads_by_engine),
        cmocka_unit_test(micro_batches_by_engine),
        cmocka_unit_test(padded_vocabularies),
        cmocka_unit_test(feature_pairs),
        cmocka_unit_test(rules_by_version),
        cmocka_unit_test(agrees_with_the_stated_rules),
    };
    return cmocka_run_group_tests(tests, p6_load, NULL);
}
