// SPDX-License-Identifier: GPL-3.0-or-later
/* Launch arguments: sections as they are read, facts of layouts, what is given and what refused. */
#include "doc/doc_launch.h"
#include "report/launch_view.h"
#include "step/engine_rules.h"

#include "known_models.h"
#include "step_case.h"
#include "test_doc.h"

#include <stdlib.h>

#define ENGINE                                                                                     \
    "schema: mosaic-engine/1\nname: e\nversion: \"1\"\nuneven_stages: true\n"                      \
    "recompute_per_stage: false\ninterleaved_batches_divide: false\nkv_replication: false\n"       \
    "vocab_pad_unit: 1\n"
#define LAUNCH ENGINE "launch:\n  source: a test\n  styles: [flags]\n  arguments:\n"
/* Whatever the known models have. */
#define SILENT                                                                                     \
    "  silent: [tp, pp, vpp, ep, etp, nccl, deepep, zero1, bf16, moe, mla, shared_experts, mtp, "  \
    "gated, ungated, tied, untied, dense_first, node_limit, dp_overlap, grouped_queries, "         \
    "free_head_dim, uneven_split, recompute_selective, recompute_norm, recompute_activation, "     \
    "recompute_rope]\n"

/* ---- sections ---- */

static void must_refuse(const char *text, const char *place, const char *words, const char *hint) {
    struct document *d = NULL;
    assert_int_equal(parse(text, NULL, 0, &d), MOSAIC_BAD_INPUT);
    char *const all = diag_text(NULL, &said, false);
    if (!strstr(all, place) || !strstr(all, words) || !strstr(all, hint))
        fail_msg("'%s' lacks '%s', '%s' or '%s'", all, place, words, hint);
    talloc_free(all);
}

static void sections_name_what_is_wrong(void **state) {
    (void)state;
    must_refuse(LAUNCH "    - {name: --a, value: tpp}\n", "configs/test.yaml:13:", "tpp", "'tp'");
    must_refuse(LAUNCH "    - {name: --a, value: tp, text: b}\n", ":13:", "'value' or a 'text'",
                "");
    must_refuse(LAUNCH "    - {value: tp}\n", ":13:", "name", "");
    must_refuse(LAUNCH "    - {name: --a, when: [fdsp]}\n", ":13:", "fdsp", "'fsdp'");
    must_refuse(LAUNCH "    - {name: --a, when: [moe], unless: [moe]}\n", ":13:", "never given",
                "");
    must_refuse(LAUNCH "    - {name: --a, value: tp, words: {a: b}}\n", ":13:", "not a number", "");
    must_refuse(LAUNCH "    - {name: --a, value: precision, words: {bf61: b}}\n", ":13:", "bf61",
                "'bf16'");
    must_refuse(LAUNCH "    - {name: --a, text: \"{layer}\"}\n", ":13:", "unknown fact 'layer'",
                "'layers'");
    must_refuse(LAUNCH "    - {name: --a, text: \"{layers\"}\n", ":13:", "without a fact", "");
    must_refuse(LAUNCH "    - {name: --a}\n  left:\n    - {text: \"{vocabs}\"}\n", ":15:", "vocabs",
                "'vocab'");
    must_refuse(ENGINE "launch: {styles: [flags], arguments: [{name: a}]}\n", ":9:", "source", "");
    must_refuse(ENGINE "launch: {source: a, styles: [ini], arguments: [{name: a}]}\n", ":9:", "ini",
                "");
}

static void a_section_of_a_plan_is_read(void **state) {
    (void)state;
    struct document *const d = must_parse(
        HEAD "engine: {name: e, version: \"1\", uneven_stages: true, recompute_per_stage: false, "
             "interleaved_batches_divide: false, kv_replication: false, vocab_pad_unit: 1, "
             "launch: {source: a, styles: [yaml], arguments: [{name: a, value: tp}]}}\n",
        NULL, 0);
    assert_non_null(d->problem.engine.launch);
    assert_int_equal(d->problem.engine.launch->styles[0], LAUNCH_YAML);
    document_free(d);
    struct document *const shipped = must_parse(HEAD, NULL, 0);
    assert_null(shipped->problem.engine.launch); /* read when something is exported */
    document_free(shipped);
}

static void engines_by_name(void **state) {
    (void)state;
    static const struct {
        const char *name, *version;
    } cases[] = {
        {"megatron", "2026.08"},         {"megatron-2022", "2022"},
        {"megatron 2025.12", "2025.12"}, {"megatron-bridge", "0.4"},
        {"torchtitan", "2026.08"},       {"configs/engines/llm-foundry-2023.yaml", "2023"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        struct document *d = NULL;
        diag_init(&said);
        if (doc_launch_engine(cases[i].name, &said, &d) != MOSAIC_OK)
            fail_msg("%s", cases[i].name);
        assert_string_equal(d->problem.engine.version, cases[i].version);
        assert_non_null(d->problem.engine.launch);
        document_free(d);
    }
    struct document *d = NULL;
    diag_init(&said);
    assert_int_equal(doc_launch_engine("megatorn-2026.08", &said, &d), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(said.items[0].hint, "'megatron-2026.08'"));
    diag_init(&said);
    assert_int_equal(doc_launch_engine("configs/models/llama3-8b.yaml", &said, &d),
                     MOSAIC_BAD_INPUT);
    assert_non_null(strstr(said.items[0].message, "a model, not an engine"));
}

/* ---- facts ---- */

/* DeepSeek-V3 as published: PP 16, VPP 2, two layers a chunk, embedding and loss apart. */
struct launch_case {
    struct geometry geometry;
    struct workload workload;
    struct mesh mesh;
    struct pipeline_chunk chunks[32];
    struct stated_stages stages;
    struct cluster cluster;
    struct engine engine;
};

static struct launch_point point_of(struct launch_case *c) {
    c->geometry = deepseek_v3;
    c->workload = (struct workload){
        .sequence = 4096, .global_batch = 8192, .vocab = 129280, .stages = &c->stages};
    c->mesh = (struct mesh){.tp = 2,
                            .cp = 1,
                            .pp = 16,
                            .vpp = 2,
                            .ep = 64,
                            .etp = 1,
                            .dp = 32,
                            .micro_batch = 1,
                            .micro_batches = 256,
                            .recompute = RECOMPUTE_SELECTIVE};
    for (int i = 0; i < 32; ++i)
        c->chunks[i] = (struct pipeline_chunk){.layers = (uint16_t)(i == 0 ? 3 : i < 30 ? 2 : 0)};
    c->chunks[0].embedding = c->chunks[31].loss = true;
    c->chunks[30].mtp = (uint16_t)c->geometry.mtp_layers;
    c->stages = (struct stated_stages){.pp = 16, .vpp = 2, .count = 32, .chunks = c->chunks};
    c->cluster = (struct cluster){.nodes = 128, .gpus_per_node = 8};
    c->engine = (struct engine){.name = "e", .version = "1", .vocab_pad_unit = 128};
    return (struct launch_point){.geometry = &c->geometry,
                                 .mesh = &c->mesh,
                                 .workload = &c->workload,
                                 .cluster = &c->cluster,
                                 .engine = &c->engine,
                                 .tokens = 1e12};
}

static void is_text(const struct launch_point *p, enum launch_fact fact, const char *want) {
    json_t *const value = launch_facts_value(p, fact);
    char *const text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    if (strcmp(text ? text : "absent", want) != 0)
        fail_msg("%s: %s, want %s", launch_fact_words[fact], text ? text : "absent", want);
    free(text);
    json_decref(value);
}

static void facts_of_deepseek(void **state) {
    (void)state;
    struct launch_case c;
    struct launch_point p = point_of(&c);
    is_text(&p, FACT_GPUS, "1024");
    is_text(&p, FACT_LOCAL_BATCH, "256");
    is_text(&p, FACT_STEPS, "29803"); /* 1e12 / (8192 x 4096) = 29802.3 */
    is_text(&p, FACT_PIPELINE_LAYOUT, "\"Et(tt|)*30m|L\"");
    is_text(&p, FACT_LAYERS_PER_CHUNK, "absent");
    is_text(&p, FACT_KV_HEADS, "absent");
    is_text(&p, FACT_KV_RANK, "512");
    is_text(&p, FACT_FIRST_DENSE, "3");
    is_text(&p, FACT_MOE_LAYERS, "58");
    is_text(&p, FACT_SHARED_FFN, "2048");
    is_text(&p, FACT_SELECTIVE, "[\"norm\",\"activation\",\"rope\"]");
    is_text(&p, FACT_SHARDING, "\"zero1\"");
    is_text(&p, FACT_DP_SHARDS, "1");
    is_text(&p, FACT_OFFLOAD_OPTIMIZER, "absent");
    is_text(&p, FACT_VOCAB_PAD_UNIT, "128");
    p.tokens = 0.0;
    is_text(&p, FACT_STEPS, "absent");
    c.workload.execution.sharding = SHARD_HYBRID;
    c.workload.execution.shard_ranks = 8;
    is_text(&p, FACT_DP_SHARDS, "8");
    is_text(&p, FACT_DP_REPLICAS, "4");
}

static void stages_round_trip(void **state) {
    (void)state;
    struct launch_case c;
    const struct launch_point p = point_of(&c);
    struct pipeline_chunk again[64];
    struct status_error err = {0};
    size_t count = 0;
    json_t *const text = launch_facts_value(&p, FACT_PIPELINE_LAYOUT);
    assert_int_equal(pipeline_parse(json_string_value(text), again, 64, &count, &err), MOSAIC_OK);
    assert_int_equal(count, 32);
    assert_memory_equal(again, c.chunks, sizeof c.chunks);
    json_decref(text);
}

static void words_of_a_layout(void **state) {
    (void)state;
    struct launch_case c;
    const struct launch_point p = point_of(&c);
    const struct launch_set words = launch_facts_words(&p);
    assert_true(words.conditions & CONDITION_BIT(CONDITION_UNEVEN_SPLIT));
    assert_true(words.conditions & CONDITION_BIT(CONDITION_GATED));
    assert_true(words.conditions & CONDITION_BIT(CONDITION_DENSE_FIRST));
    assert_true(words.conditions & CONDITION_BIT(CONDITION_DP_OVERLAP));
    assert_false(words.conditions & CONDITION_BIT(CONDITION_ACCUMULATION));
    assert_false(words.conditions & CONDITION_BIT(CONDITION_GROUPED_QUERIES));
    assert_false(words.conditions & CONDITION_BIT(CONDITION_BLOCK_SCALING));
    c.workload.precision = PRECISION_FP8;
    c.workload.execution.block_scaling = true;
    assert_true(launch_facts_words(&p).conditions & CONDITION_BIT(CONDITION_BLOCK_SCALING));
}

/* ---- arguments ---- */

static struct document *document; /* of the engine under test */

/* The arguments of DeepSeek on an engine that is told so, as JSON; NULL where it is refused. */
static char *given(const char *arguments) {
    struct launch_case c;
    struct launch_point p = point_of(&c);
    json_t *list = NULL;
    document = must_parse(arguments, NULL, 0);
    c.engine = document->problem.engine;
    diag_init(&said);
    char *text = NULL;
    if (launch_arguments(&p, &said, &list) == MOSAIC_OK) {
        text = json_dumps(list, JSON_COMPACT);
        json_decref(list);
    }
    document_free(document);
    return text;
}

static void gives(const char *arguments, const char *want) {
    char text[4096];
    (void)snprintf(text, sizeof text, LAUNCH "%s" SILENT, arguments);
    char *const got = given(text);
    if (!got || strcmp(got, want) != 0)
        fail_msg("%s: %s, want %s", arguments, got ? got : said.items[0].message, want);
    free(got);
}

static void values_are_given_in_the_engines_words(void **state) {
    (void)state;
    gives("    - {name: -t, value: tp}\n", "[{\"name\":\"-t\",\"value\":2,\"fact\":\"tp\"}]");
    gives("    - {name: -t, value: kv_heads}\n", "[]");
    gives("    - {name: -m, value: recompute, words: {selective: some}}\n",
          "[{\"name\":\"-m\",\"value\":\"some\",\"fact\":\"recompute\"}]");
    gives("    - {name: -m, value: recompute, words: {selective: \"\"}}\n", "[]");
    gives("    - {name: -m, value: selective, words: {norm: ln, activation: act, rope: \"\"}}\n",
          "[{\"name\":\"-m\",\"value\":[\"ln\",\"act\"],\"fact\":\"selective\"}]");
    gives("    - {name: -s, when: [tp]}\n    - {name: -n, unless: [tp]}\n",
          "[{\"name\":\"-s\",\"value\":true}]");
    gives("    - {name: -f, text: \"[0]*{first_dense}\"}\n",
          "[{\"name\":\"-f\",\"value\":\"[0]*3\"}]");
    gives("    - {name: -f, text: \"7\"}\n    - {name: -g, text: \"false\"}\n",
          "[{\"name\":\"-f\",\"value\":7},{\"name\":\"-g\",\"value\":false}]");
    gives("    - {name: -f, text: [a, \"{ep}\"]}\n",
          "[{\"name\":\"-f\",\"value\":[\"a\",\"64\"]}]");
    gives("    - {name: -f, text: \"{kv_heads}\"}\n", "[]");
}

static void refuses(const char *text, const char *words, const char *hint) {
    char *const got = given(text);
    if (got)
        fail_msg("not refused: %s", got);
    if (!strstr(said.items[0].message, words) || !strstr(said.items[0].hint, hint))
        fail_msg("'%s' ('%s')", said.items[0].message, said.items[0].hint);
}

static void what_no_argument_says_is_refused(void **state) {
    (void)state;
    refuses(LAUNCH "    - {name: -m, value: recompute, words: {full: all}}\n" SILENT,
            "-m has no word for recompute 'selective'", "");
    char without[4096];
    (void)snprintf(without, sizeof without, LAUNCH "    - {name: -t, value: tp}\n" SILENT);
    memcpy(strstr(without, "zero1"), "fsdp ", 5);
    refuses(without, "not launchable on e 1: it has no argument for zero1", "it takes fsdp");
    (void)snprintf(without, sizeof without, LAUNCH "    - {name: -t, value: tp}   \n" SILENT);
    memcpy(strstr(without, "mtp"), "fp8", 3);
    refuses(without, "no argument for mtp", "plan without it");
    /* an argument that speaks of it is enough, and so is what is left to the user */
    char *const value = strstr(without, "value: tp}");
    memcpy(value, "when: [mtp]}", 12);
    value[12] = '\n';
    char *got = given(without);
    assert_non_null(got);
    free(got);
}

/* ---- shipped documents ---- */

/* Whatever a conflict's rule speaks of may be there; a section has no argument twice under the same
 * words. */
static void no_argument_is_given_twice(void **state) {
    (void)state;
    static const char *const names[] = {
        "megatron-2022",      "megatron-2024.07",        "megatron-2025.12",   "megatron-2026.01",
        "megatron-2026.08",   "megatron-bridge-0.4",     "torchtitan-2024.12", "torchtitan-2025.12",
        "torchtitan-2026.08", "megatron-deepspeed-2023", "automodel-2025.10",  "llm-foundry-2023"};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        struct document *d = NULL;
        diag_init(&said);
        assert_int_equal(doc_launch_engine(names[i], &said, &d), MOSAIC_OK);
        const struct launch *const l = d->problem.engine.launch;
        for (size_t a = 0; a < l->argument_count; ++a)
            for (size_t b = 0; b < a; ++b)
                if (strcmp(l->arguments[a].name, l->arguments[b].name) == 0 &&
                    memcmp(&l->arguments[a].when, &l->arguments[b].when,
                           sizeof l->arguments[a].when) == 0 &&
                    memcmp(&l->arguments[a].unless, &l->arguments[b].unless,
                           sizeof l->arguments[a].unless) == 0)
                    fail_msg("%s: %s", names[i], l->arguments[a].name);
        document_free(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sections_name_what_is_wrong),
        cmocka_unit_test(a_section_of_a_plan_is_read),
        cmocka_unit_test(engines_by_name),
        cmocka_unit_test(facts_of_deepseek),
        cmocka_unit_test(stages_round_trip),
        cmocka_unit_test(words_of_a_layout),
        cmocka_unit_test(values_are_given_in_the_engines_words),
        cmocka_unit_test(what_no_argument_says_is_refused),
        cmocka_unit_test(no_argument_is_given_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
