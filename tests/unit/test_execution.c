// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * How a job runs, as written: each key of `execution` reaches its field, each wrong value is
 * refused at its place; capacity and tokens by expert; recipes and releases of engine documents;
 * schedules.
 */
#include "test_doc.h"

#include "doc/builtin.h"
#include "doc/doc_execution.h"
#include "doc/sections.h"
#include "plan/mesh_walk.h"
#include "step/schedule_rules.h"

/* One model of four experts, top 2. */
#define MODEL                                                                                      \
    "model: {name: m, layers: 4, hidden: 1024, heads: 8, kv_heads: 8, head_dim: 128,\n"            \
    "  expert_ffn: 512, experts: 4, top_k: 2, vocab: 1000, granularity: 1}\n"

static struct execution execution_of(const char *text) {
    char plan[2048];
    (void)snprintf(plan, sizeof plan, HEAD "execution: {%s}\n", text);
    struct document *const d = must_parse(plan, NULL, 0);
    const struct execution e = d->problem.workload.execution;
    document_free(d);
    return e;
}

static void assert_same(const struct execution *got, const struct execution *want,
                        const char *text) {
    const bool is_same =
        got->sharding == want->sharding && got->shard_ranks == want->shard_ranks &&
        got->dispatcher == want->dispatcher && got->graphs == want->graphs &&
        got->overlap == want->overlap && got->serial_dp == want->serial_dp &&
        got->selective == want->selective && got->bf16_gradients == want->bf16_gradients &&
        got->bf16_moments == want->bf16_moments && got->fp8_attention == want->fp8_attention &&
        got->unfused_attention == want->unfused_attention &&
        got->context_shards == want->context_shards && got->uneven_chunks == want->uneven_chunks &&
        !(got->dropped < want->dropped) && !(got->dropped > want->dropped);
    if (!is_same)
        fail_msg("execution: {%s}", text);
}

static void each_key_reaches_its_field(void **state) {
    (void)state;
    static const struct {
        const char *text;
        struct execution want;
    } cases[] = {
        {"", {0}},
        {"sharding: ddp", {.sharding = SHARD_NONE}},
        {"sharding: zero2", {.sharding = SHARD_ZERO2}},
        {"sharding: fsdp", {.sharding = SHARD_FSDP}},
        {"sharding: hybrid, shard_ranks: 8", {.sharding = SHARD_HYBRID, .shard_ranks = 8}},
        {"dispatcher: deepep", {.dispatcher = DISPATCH_DEEPEP}},
        {"dispatcher: hybridep", {.dispatcher = DISPATCH_HYBRIDEP}},
        {"dispatcher: allgather", {.dispatcher = DISPATCH_ALL_GATHER}},
        {"cuda_graphs: module", {.graphs = GRAPHS_MODULE}},
        {"cuda_graphs: full", {.graphs = GRAPHS_FULL}},
        {"overlap: [tp, cp]", {.overlap = OVERLAP_TP | OVERLAP_CP}},
        {"overlap: [pp, ep]", {.overlap = OVERLAP_EP | OVERLAP_PP}},
        {"overlap: []", {0}},
        {"dp_overlap: false", {.serial_dp = true}},
        {"dp_overlap: true", {0}},
        {"selective: [norm, rope, activation]", {0}},
        {"selective: core_attention", {.selective = MODULE_CORE_ATTENTION}},
        {"selective: [mla_up, mlp, shared, experts]",
         {.selective = MODULE_MLA_UP | MODULE_MLP | MODULE_SHARED | MODULE_EXPERTS}},
        {"gradients: bf16", {.bf16_gradients = true}},
        {"moments: bf16", {.bf16_moments = true}},
        {"attention: fp8", {.fp8_attention = true}},
        {"fused_attention: false", {.unfused_attention = true}},
        {"context_shards: contiguous", {.context_shards = CONTEXT_CONTIGUOUS}},
        {"context_shards: balanced", {0}},
        {"dropped: 0.25", {.dropped = 0.25}},
        {"dropped: 25 %", {.dropped = 0.25}},
        {"uneven_chunks: true", {.uneven_chunks = true}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        const struct execution got = execution_of(cases[i].text);
        assert_same(&got, &cases[i].want, cases[i].text);
    }
}

/* The words of the table are those of the enums, in their order. */
static void words_are_the_names(void **state) {
    (void)state;
    char text[128];
    for (int i = 0; i < SHARDINGS; ++i) {
        (void)snprintf(text, sizeof text, "sharding: %s%s", sharding_name((enum sharding)i),
                       i == SHARD_HYBRID ? ", shard_ranks: 2" : "");
        assert_int_equal(execution_of(text).sharding, i);
    }
    for (int i = 0; i < DISPATCHERS; ++i) {
        (void)snprintf(text, sizeof text, "dispatcher: %s", dispatcher_name((enum dispatcher)i));
        assert_int_equal(execution_of(text).dispatcher, i);
    }
    for (int i = 0; i < GRAPH_SCOPES; ++i) {
        (void)snprintf(text, sizeof text, "cuda_graphs: %s", graphs_name((enum graphs)i));
        assert_int_equal(execution_of(text).graphs, i);
    }
    for (int i = 0; i < CONTEXT_SHARDS; ++i) {
        (void)snprintf(text, sizeof text, "context_shards: %s",
                       context_shards_name((enum context_shards)i));
        assert_int_equal(execution_of(text).context_shards, i);
    }
    for (unsigned bit = 1; overlap_name((enum overlap)bit); bit <<= 1) {
        (void)snprintf(text, sizeof text, "overlap: %s", overlap_name((enum overlap)bit));
        assert_int_equal(execution_of(text).overlap, bit);
    }
    for (int i = 0; i < MODULE_COUNT; ++i) {
        const unsigned bit = 1U << (unsigned)i;
        (void)snprintf(text, sizeof text, "selective: %s", module_name((enum module)bit));
        const struct execution e = execution_of(text);
        assert_int_equal(execution_selective(&e), bit);
    }
}

/* The first error: where, and a part of its message or hint. */
static void assert_refused(const char *text, long line, long column, const char *message) {
    struct document *d = NULL;
    if (parse(text, NULL, 0, &d) == MOSAIC_OK)
        fail_msg("accepted:\n%s", text);
    const struct diag *first = NULL;
    for (size_t i = 0; i < said.count && !first; ++i)
        if (said.items[i].level == DIAG_ERROR)
            first = &said.items[i];
    if (!first) {
        fail_msg("no error:\n%s", text);
        return;
    }
    if (first->line != line || first->column != column ||
        (!strstr(first->message, message) && !strstr(first->hint, message)))
        fail_msg("%s%ld:%ld: %s (%s), want %ld:%ld with '%s'", text, first->line, first->column,
                 first->message, first->hint, line, column, message);
}

static void wrong_values_have_a_place(void **state) {
    (void)state;
    enum { INDENT = sizeof "execution: {" - sizeof "  " }; /* columns are those of a block */
    static const struct {
        const char *text;
        long column;
        const char *message;
    } cases[] = {
        {"sharding: zero4", 13, "did you mean 'zero"},
        {"sharding: hybrid", 13, "needs 'shard_ranks'"},
        {"sharding: hybrid, shard_ranks: 1", 34, "must be 2 to"},
        {"sharding: fsdp, shard_ranks: 8", 32, "of hybrid sharding only, not of fsdp"},
        {"dispatcher: all-to-all", 15, "cannot be 'all-to-all'"},
        {"cuda_graphs: true", 16, "cannot be 'true'"},
        {"overlap: [tp, dp]", 17, "cannot be 'dp'"},
        {"overlap: [tp, tp]", 12, "twice"},
        {"dp_overlap: yes", 15, "true or false"},
        {"selective: []", 14, "must not be empty"},
        {"selective: [attention]", 15, "core_attention"},
        {"gradients: fp8", 14, "cannot be 'fp8'"},
        {"moments: fp16", 12, "cannot be 'fp16'"},
        {"attention: fp32", 14, "cannot be 'fp32'"},
        {"fused_attention: 1", 20, "true or false"},
        {"context_shards: contigous", 19, "did you mean 'contiguous'"},
        {"context_shards: zigzag", 19, "cannot be 'zigzag'"},
        {"dropped: 1", 12, "below 1"},
        {"dropped: -0.1", 12, "must be"},
        {"uneven_chunks: 2", 18, "true or false"},
        {"recompute: full", 3, "unknown key"}, /* an axis of the layout */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        char plan[2048];
        (void)snprintf(plan, sizeof plan, HEAD "execution: {%s}\n", cases[i].text);
        assert_refused(plan, 5, cases[i].column + INDENT, cases[i].message);
    }
}

static struct workload workload_of(struct document **d, const char *text) {
    char plan[2048];
    (void)snprintf(plan, sizeof plan, HEAD MODEL "%s\n", text);
    *d = must_parse(plan, NULL, 0);
    return (*d)->problem.workload;
}

static void tokens_by_expert(void **state) {
    (void)state;
    struct document *d = NULL;
    /* U90: an equal list is the balanced answer, to the last bit. */
    struct workload w = workload_of(&d, "workload: {expert_tokens: [0.1, 0.1, 0.1, 0.1]}");
    for (int ep = 1; ep <= 4; ep *= 2)
        assert_close(workload_imbalance(&w, ep), 1.0, 0.0);
    document_free(d);
    w = workload_of(&d, "workload: {expert_tokens: [30, 10, 20, 20]}");
    assert_close(workload_imbalance(&w, 1), 1.0, 1e-15);
    assert_close(workload_imbalance(&w, 2), 1.0, 1e-15); /* 30 + 10 and 20 + 20 */
    assert_close(workload_imbalance(&w, 4), 1.5, 1e-15);
    document_free(d);
    /* Capacity 1.25 x 20 = 25 cuts the first expert: 75 of 80 are kept. */
    w = workload_of(&d, "workload: {expert_tokens: [30, 10, 20, 20], capacity_factor: 1.25}");
    assert_close(w.execution.dropped, 5.0 / 80.0, 1e-14);
    assert_close(workload_imbalance(&w, 4) * (1.0 - w.execution.dropped), 1.25, 1e-14);
    document_free(d);

    static const struct {
        const char *text;
        long line, column;
        const char *message;
    } bad[] = {
        {"workload: {expert_tokens: [1, 2, 3]}", 7, 27, "lists 3 experts, but the model has 4"},
        {"workload: {expert_tokens: [0, 0, 0, 0]}", 7, 27, "no expert has a token"},
        {"workload: {expert_tokens: [1, -2, 3, 4]}", 7, 31, "must be 0 to"},
        {"workload: {imbalance: 1.2, expert_tokens: [1, 2, 3, 4]}", 7, 23, "both say"},
        {"workload: {expert_tokens: [1, 2, 3, 4], capacity_factor: 2}\nexecution: {dropped: 0.1}",
         8, 22, "follows from"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        char plan[2048];
        (void)snprintf(plan, sizeof plan, HEAD MODEL "%s\n", bad[i].text);
        assert_refused(plan, bad[i].line, bad[i].column, bad[i].message);
    }
    assert_refused(HEAD "workload: {expert_tokens: [1, 2, 3, 4]}\n"
                        "search: {geometry: {ladder: mosaic, q: 8, experts: [4, 8], top_k: 2, "
                        "granularity: 1}}\n",
                   5, 27, "lists 4 experts, but a geometry has 8");
}

static void capacity(void **state) {
    (void)state;
    struct document *d = NULL;
    struct workload w = workload_of(&d, "workload: {imbalance: 1.6, capacity_factor: 1.25}");
    assert_close(w.imbalance, 1.25, 0.0);
    document_free(d);
    w = workload_of(&d, "workload: {imbalance: 1.1, capacity_factor: 1.25}");
    assert_close(w.imbalance, 1.1, 0.0);
    document_free(d);
    w = workload_of(&d, "workload: {capacity_factor: 0.5}"); /* 1/k: just one copy */
    assert_close(w.imbalance, 0.5, 0.0);
    document_free(d);
    w = workload_of(&d, "workload: {capacity_factor: none}");
    assert_close(w.imbalance, 1.0, 0.0);
    document_free(d);
    /* U66 */
    assert_refused(HEAD MODEL "workload: {capacity_factor: 0.4}\n", 7, 29, "0.4 x top_k 2 = 0.8");
    assert_refused(HEAD MODEL "workload: {sequence: 4096, capacity_factor: 16384}\n", 7, 45,
                   "16384 x top_k 2 x 4096 tokens x hidden 1024 x 2 bytes = 274.9 GB");
}

#define ENGINE                                                                                     \
    "schema: mosaic-engine/1\nname: e\nversion: \"1\"\nuneven_stages: true\n"                      \
    "recompute_per_stage: false\ninterleaved_batches_divide: true\nkv_replication: false\n"        \
    "vocab_pad_unit: 1\n"

static void engine_documents(void **state) {
    (void)state;
    struct document *d = must_parse(ENGINE, NULL, 0);
    static const struct execution plainest = {.overlap = 0};
    assert_same(&d->problem.engine.recipe.execution, &plainest, "no recipe");
    assert_false(d->problem.engine.recipe.recompute_to_fit);
    document_free(d);
    d = must_parse(ENGINE "profile: {attention_rate: 0.5, host_factor: 1.2}\n"
                          "recipe: {sharding: fsdp, overlap: [tp], recompute: to_fit}\n"
                          "releases: [\"1.0\", x]\n",
                   NULL, 0);
    const struct engine *const e = &d->problem.engine;
    assert_close(e->profile.attention_rate, 0.5, 0.0);
    assert_close(e->profile.host_factor, 1.2, 0.0);
    assert_int_equal(e->recipe.execution.sharding, SHARD_FSDP);
    assert_int_equal(e->recipe.execution.overlap, OVERLAP_TP);
    assert_true(e->recipe.recompute_to_fit);
    document_free(d);
    d = must_parse(ENGINE "recipe: {recompute: full}\n", NULL, 0);
    assert_int_equal(d->problem.engine.recipe.recompute, RECOMPUTE_FULL);
    assert_false(d->problem.engine.recipe.recompute_to_fit);
    document_free(d);
    assert_refused(ENGINE "recipe: {recompute: some}\n", 9, 21, "cannot be 'some'");
    assert_refused(ENGINE "recipe: {sharding: hybrid}\n", 9, 20, "needs 'shard_ranks'");
    assert_refused(ENGINE "profile: {host_factor: 0}\n", 9, 24, "must be above 0");
    assert_refused(ENGINE "releases: 26.02\n", 9, 11, "list of texts");
    assert_refused(ENGINE "releases: []\n", 9, 11, "list of texts");
    assert_refused(ENGINE "releases: [a, [b]]\n", 9, 15, "list of texts");
}

static bool find(struct document *d, const char *release, struct engine *out) {
    struct loader l = {.document = d, .memory = d->memory, .diags = &said};
    bool found = false;
    assert_int_equal(doc_engine_find(&l, release, out, &found), MOSAIC_OK);
    assert_int_equal(l.value_count, 0);
    assert_int_equal(l.input_count, 0);
    return found;
}

static void releases_name_an_engine(void **state) {
    (void)state;
    static const struct {
        const char *release, *name, *version;
        enum sharding sharding;
        bool to_fit;
    } known[] = {
        {"26.02", "megatron", "2026.08", SHARD_ZERO1, true},
        {"26.02.01", "megatron", "2026.08", SHARD_ZERO1, true},
        {"Bridge 0.4.2", "megatron", "2026.08", SHARD_ZERO1, true},
        {"2025", "megatron", "2025.12", SHARD_ZERO1, true},
        {"2025-10-30", "megatron", "2025.12", SHARD_ZERO1, true},
        {"2025-10", "automodel", "2025.10", SHARD_FSDP, false},
        {"2024", "megatron", "2024.07", SHARD_ZERO1, true},
        {"2024-12", "torchtitan", "2024.12", SHARD_FSDP, false},
        {"2023-06", "llm-foundry", "2023", SHARD_FSDP, false},
        {"Megatron-DeepSpeed 2023", "megatron-deepspeed", "2023", SHARD_ZERO1, true},
        {"2022-05", "megatron", "2022", SHARD_ZERO1, true},
    };
    struct document *const d = must_parse(ENGINE, NULL, 0);
    struct engine e;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i) {
        if (!find(d, known[i].release, &e))
            fail_msg("no engine lists '%s'", known[i].release);
        assert_string_equal(e.name, known[i].name);
        assert_string_equal(e.version, known[i].version);
        assert_int_equal(e.recipe.execution.sharding, known[i].sharding);
        assert_true(e.recipe.recompute_to_fit == known[i].to_fit);
    }
    assert_false(find(d, "26.0", &e)); /* part of others */
    assert_false(find(d, "1999", &e));
    assert_false(find(d, "", &e));
    document_free(d);
}

/* Each can be named in a plan, and no release twice. */
static void engines_of_the_library(void **state) {
    (void)state;
    static const char folder[] = "engines/";
    size_t engines = 0;
    const char *seen[256];
    size_t count = 0;
    void *const memory = talloc_new(NULL);
    for (size_t i = 0; i < builtin_document_count; ++i) {
        const struct builtin_document *const b = &builtin_documents[i];
        if (strncmp(b->name, folder, sizeof folder - 1) != 0)
            continue;
        struct document *d = must_parse(b->text, NULL, 0);
        char name[80], plan[512];
        const struct engine e = d->problem.engine;
        (void)snprintf(name, sizeof name, "%s%s-%s", folder, e.name, e.version);
        assert_string_equal(name, b->name);
        document_free(d);
        (void)snprintf(plan, sizeof plan, HEAD "engine: {name: %s, version: \"%s\"}\n", e.name,
                       e.version);
        d = must_parse(plan, NULL, 0);
        assert_string_equal(d->problem.engine.version, e.version);
        document_free(d);
        engines++;
        struct source *source = NULL;
        struct yaml_tree *tree = NULL;
        assert_int_equal(source_from_text(memory, b->name, b->text, b->size, &source, &said), 0);
        assert_int_equal(yaml_tree_parse(memory, source, &tree, &said), MOSAIC_OK);
        const struct node *const releases = node_find(tree->root, "releases");
        for (size_t k = 0; releases && k < releases->count; ++k) {
            for (size_t j = 0; j < count; ++j)
                assert_string_not_equal(seen[j], releases->items[k]->text);
            assert_true(count < sizeof seen / sizeof seen[0]);
            seen[count++] = releases->items[k]->text;
        }
    }
    assert_true(engines >= 8);
    talloc_free(memory);
}

/* All rules of schedules, in their order. */
static enum mosaic_status check_schedule(const struct mesh *m, struct status_error *err) {
    TRY(schedule_one_chunk(m, err));
    TRY(schedule_stages(m, err));
    TRY(schedule_even_stages(m, err));
    TRY(schedule_enough_batches(m, err));
    return schedule_even_batches(m, err);
}

static void assert_schedule(struct mesh m, enum schedule schedule, const char *message) {
    struct status_error err = {0};
    m.schedule = schedule;
    const enum mosaic_status status = check_schedule(&m, &err);
    if (!message)
        assert_int_equal(status, MOSAIC_OK);
    else if (status == MOSAIC_OK || !strstr(err.message, message))
        fail_msg("'%s', want '%s'", err.message, message);
}

static void schedules_have_rules(void **state) {
    (void)state;
    const struct mesh four = {.pp = 4, .vpp = 1, .micro_batches = 8};
    assert_schedule(four, SCHEDULE_1F1B, NULL);
    assert_schedule(four, SCHEDULE_ZERO_BUBBLE, NULL);
    assert_schedule(four, SCHEDULE_DUALPIPE, NULL);
    const struct mesh one = {.pp = 1, .vpp = 1, .micro_batches = 8};
    assert_schedule(one, SCHEDULE_1F1B, NULL);
    assert_schedule(one, SCHEDULE_ZERO_BUBBLE, "zero_bubble needs PP > 1, not PP 1");
    assert_schedule(one, SCHEDULE_DUALPIPE, "dualpipe needs PP > 1");
    const struct mesh chunks = {.pp = 4, .vpp = 2, .micro_batches = 8};
    assert_schedule(chunks, SCHEDULE_1F1B, NULL);
    assert_schedule(chunks, SCHEDULE_ZERO_BUBBLE, "VPP 2 is not 1");
    const struct mesh odd = {.pp = 3, .vpp = 1, .micro_batches = 8};
    assert_schedule(odd, SCHEDULE_ZERO_BUBBLE, NULL);
    assert_schedule(odd, SCHEDULE_DUALPIPE, "PP 3 mod 2 = 1");
    const struct mesh few = {.pp = 4, .vpp = 1, .micro_batches = 6};
    assert_schedule(few, SCHEDULE_DUALPIPE, "2 x PP 4 = 8 micro-batches or more, but there are 6");
    const struct mesh uneven = {.pp = 4, .vpp = 1, .micro_batches = 9};
    assert_schedule(uneven, SCHEDULE_DUALPIPE, "9 mod 2 = 1");
}

#define PINNED                                                                                     \
    HEAD MODEL "search: {layout: {tp: 1, cp: 1, pp: 2, vpp: 1, ep: 4, etp: 1, micro_batch: 1,\n"   \
               "  recompute: none%s}}\n"

static enum mosaic_status pin(const char *more, struct mesh *mesh, struct status_error *err) {
    char plan[2048];
    struct geometry g;
    (void)snprintf(plan, sizeof plan, PINNED, more);
    struct document *const d = must_parse(plan, NULL, 0);
    const enum mosaic_status status = document_pinned(d, &g, mesh, err);
    document_free(d);
    return status;
}

static void pinned_schedules(void **state) {
    (void)state;
    struct mesh m = {0};
    struct status_error err = {0};
    assert_int_equal(pin("", &m, &err), MOSAIC_OK);
    assert_int_equal(mesh_schedule(&m), SCHEDULE_1F1B);
    assert_int_equal(pin(", schedule: dualpipe", &m, &err), MOSAIC_OK);
    assert_int_equal(mesh_schedule(&m), SCHEDULE_DUALPIPE);
    assert_int_equal(m.micro_batches, 8);
    assert_int_not_equal(pin(", schedule: [1f1b, zero_bubble]", &m, &err), MOSAIC_OK);
    assert_non_null(strstr(err.message, "schedule (2 values)"));
    char plan[2048];
    struct geometry g;
    (void)snprintf(plan, sizeof plan, PINNED, ", schedule: zero_bubble");
    const struct document_override one_stage = {"search.layout.pp", "1"};
    struct document *const d = must_parse(plan, &one_stage, 1);
    assert_int_not_equal(document_pinned(d, &g, &m, &err), MOSAIC_OK);
    assert_non_null(strstr(err.message, "needs PP > 1"));
    assert_int_equal(err.line, 8);
    assert_int_equal(err.column, 30);
    document_free(d);
    assert_refused(HEAD "search: {layout: {schedule: [1f1b, gpipe]}}\n", 5, 36,
                   "cannot be 'gpipe'");
    assert_refused(HEAD "search: {layout: {schedule: interleaved}}\n", 5, 29, "one of 1f1b");
}

struct walked {
    long by_schedule[SCHEDULES];
    struct mesh last;
};

static void ignore_shape(void *context, const struct mesh *shape) {
    (void)context;
    (void)shape;
}

static void count_mesh(void *context, const struct mesh *mesh) {
    struct walked *const w = context;
    assert_int_equal(check_schedule(mesh, NULL), MOSAIC_OK);
    w->by_schedule[mesh_schedule(mesh)]++;
    w->last = *mesh;
}

static struct walked walk(const char *schedules) {
    /* An engine that runs them all. */
    const struct document_override sets[] = {
        {"search.layout.vpp", "[1, 2]"},
        {"search.layout.schedule", schedules},
        {"engine", "{name: torchtitan, version: \"2025.12\"}"}};
    struct document *const d = must_load("configs/examples/predict-table4.yaml", sets, 3);
    const struct problem *const p = &d->problem;
    struct step_context ctx;
    struct mesh_census census = {0};
    struct walked w = {.last = {0}};
    step_context_init(&ctx, &p->geometries.items[0], &p->cluster, &p->calibration, &p->workload,
                      &p->engine, p->estimator);
    mesh_walk(&ctx, &p->layouts, ignore_shape, count_mesh, &w, &census);
    document_free(d);
    return w;
}

/* PP 8, VPP 1 and 2, 8 micro-batches: too few for DualPipe. */
static void schedules_are_searched(void **state) {
    (void)state;
    struct walked w = walk("1f1b");
    assert_int_equal(w.by_schedule[SCHEDULE_1F1B], 1);
    const long interleaved = w.by_schedule[SCHEDULE_INTERLEAVED];
    w = walk("[dualpipe, zero_bubble, 1f1b]");
    assert_int_equal(w.by_schedule[SCHEDULE_1F1B], 1);
    assert_int_equal(w.by_schedule[SCHEDULE_ZERO_BUBBLE], 1);
    assert_int_equal(w.by_schedule[SCHEDULE_DUALPIPE], 0);
    assert_int_equal(w.by_schedule[SCHEDULE_INTERLEAVED], interleaved);
    w = walk("zero_bubble");
    assert_int_equal(w.by_schedule[SCHEDULE_1F1B] + w.by_schedule[SCHEDULE_INTERLEAVED], 0);
    assert_int_equal(w.last.schedule, SCHEDULE_ZERO_BUBBLE);
}

static void ties_go_by_schedule_last(void **state) {
    (void)state;
    const struct mesh a = {.tp = 1, .recompute = RECOMPUTE_FULL};
    struct mesh b = a;
    assert_int_equal(mesh_compare(&a, &b), 0);
    b.schedule = SCHEDULE_DUALPIPE;
    assert_true(mesh_compare(&a, &b) < 0);
    b.recompute = RECOMPUTE_NONE;
    assert_true(mesh_compare(&a, &b) > 0);
}

static void tables_are_sound(void **state) {
    (void)state;
    struct status_error err;
    assert_int_equal(schema_self_check(&doc_execution_schema, &err), MOSAIC_OK);
    assert_int_equal(schema_self_check(&doc_recipe_schema, &err), MOSAIC_OK);
    assert_int_equal(schema_self_check(&doc_engine_schema, &err), MOSAIC_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_key_reaches_its_field),
        cmocka_unit_test(words_are_the_names),
        cmocka_unit_test(wrong_values_have_a_place),
        cmocka_unit_test(tokens_by_expert),
        cmocka_unit_test(capacity),
        cmocka_unit_test(engine_documents),
        cmocka_unit_test(releases_name_an_engine),
        cmocka_unit_test(engines_of_the_library),
        cmocka_unit_test(schedules_have_rules),
        cmocka_unit_test(pinned_schedules),
        cmocka_unit_test(ties_go_by_schedule_last),
        cmocka_unit_test(tables_are_sound),
        cmocka_unit_test(schedules_are_searched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
