// SPDX-License-Identifier: GPL-3.0-or-later
/* `search.layout.stages`: lists and pipeline layout strings, what is refused and where, and back
 * from the string of a result. */
#include "report/build.h"

#include "test_doc.h"

#include <stdlib.h>

enum { TEXT = 4096 };

static uint64_t state = 0x853c49e6748fea9bu;
static unsigned below(unsigned n) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % n;
}

/* 2048 GPUs: PP of every power of two; the model has 61 layers, the first 3 dense, and one MTP
 * layer. */
#define PLAN                                                                                       \
    "schema: mosaic-plan/1\n"                                                                      \
    "cluster: clusters/p5-h100.yaml\n"                                                             \
    "nodes: 256\n"                                                                                 \
    "budget: {days: 20}\n"                                                                         \
    "workload: {sequence: 4096, global_batch: 8192}\n"                                             \
    "engine: {name: megatron, version: \"2026.08\"}\n"                                             \
    "model: models/deepseek-v3.yaml\n"                                                             \
    "search:\n"                                                                                    \
    "  layout:\n"                                                                                  \
    "    tp: 1\n"                                                                                  \
    "    cp: 1\n"                                                                                  \
    "    ep: 8\n"                                                                                  \
    "    etp: 1\n"                                                                                 \
    "    micro_batch: 1\n"                                                                         \
    "    recompute: full\n"
enum { STAGES_LINE = 16 };

static struct document *stated(const char *stages) {
    char text[TEXT];
    (void)snprintf(text, sizeof text, PLAN "    stages: %s\n", stages);
    return must_parse(text, NULL, 0);
}

static void lists_and_strings_say_the_same(void **unused) {
    (void)unused;
    static const struct {
        const char *stages, *further;
        int pp, vpp;
        int layers[8]; /* of the first stages, ended by -1 */
    } cases[] = {
        {"[15, 16, 15, 15]", "", 4, 1, {15, 16, 15, 15, -1}},
        {"Et*15|t*16|t*15|t*15,mL", "", 4, 1, {15, 16, 15, 15, -1}},
        {"\"E(t*15|)*2t*16|t*15mL\"", "    pp: 4\n", 4, 1, {15, 15, 16, 15, -1}},
        {"[61]", "", 1, 1, {61, -1}},
        /* the embedding or the loss on a stage of its own */
        {"[0, 30, 31, 0]", "    vpp: 1\n", 4, 1, {0, 30, 31, 0, -1}},
        {"E|t*30|t*31|mL", "", 4, 1, {0, 30, 31, 0, -1}},
        /* chunk i is on stage i mod PP */
        {"[3, 10, 10, 10, 10, 10, 5, 3]", "    pp: 4\n", 4, 2, {13, 20, 15, 13, -1}},
        {"Et*3|(t*10|)*5t*5|t*3mL", "    vpp: 2\n", 4, 2, {13, 20, 15, 13, -1}},
        /* U38 */
        {"Et*3|(tt|)*29,m|L", "    pp: 16\n    vpp: 2\n", 16, 2, {5, 4, 4, 4, 4, 4, 4, -1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        char stages[TEXT];
        (void)snprintf(stages, sizeof stages, "%s\n%s", cases[i].stages, cases[i].further);
        struct document *const d = stated(stages);
        const struct stated_stages *const s = d->problem.workload.stages;
        assert_non_null(s);
        assert_int_equal(s->pp, cases[i].pp);
        assert_int_equal(s->vpp, cases[i].vpp);
        assert_int_equal(s->count, cases[i].pp * cases[i].vpp);
        assert_int_equal(s->split.stages, cases[i].pp);
        assert_int_equal(s->split.first[s->pp], 61);
        for (int k = 0; cases[i].layers[k] >= 0; ++k)
            assert_int_equal(s->split.first[k + 1] - s->split.first[k], cases[i].layers[k]);
        long mtp = 0;
        for (size_t k = 0; k < s->count; ++k)
            mtp += s->chunks[k].mtp;
        assert_int_equal(mtp, 1);
        struct geometry g;
        struct mesh m;
        struct status_error err = {0};
        if (document_pinned(d, &g, &m, &err) != MOSAIC_OK)
            fail_msg("%s: %s", cases[i].stages, err.message);
        assert_int_equal(m.pp, cases[i].pp);
        assert_int_equal(m.vpp, cases[i].vpp);
        document_free(d);
    }
    struct document *const d = must_parse(PLAN, NULL, 0);
    assert_null(d->problem.workload.stages);
    document_free(d);
}

static void refused_with_place_and_arithmetic(void **unused) {
    (void)unused;
    static const struct {
        const char *stages, *message, *hint;
        long line, column;
    } cases[] = {
        {"[15, 16, 15, 14]", "15 + 16 + 15 + 14 = 60 layers, but the model has 61",
         "[15, 16, 15, 15]", 0, 13},
        {"Et*3|(tt|)*30mL\n    vpp: 2", "3 + 30 x 2 + 0 = 63 layers, but the model has 61", "", 0,
         13},
        {"Et*30|t*31L", "0 MTP layers (m), but the model has 1", "Et*31|t*30mL", 0, 13},
        {"Et*30|t*31mmL", "2 MTP layers (m), but the model has 1", "", 0, 13},
        {"t*30|t*31mL", "embedding (E) belongs to the first chunk", "Et*31|t*30mL", 0, 13},
        {"Et*30|t*31m", "loss (L) belongs to the last chunk", "Et*31|t*30mL", 0, 13},
        {"Et*30||t*31m|L", "chunk 1 (stage 1, turn 0) is empty", "as even as can be", 0, 13},
        {"[30, 0, 16, 15]", "chunk 1 (stage 1, turn 0) is empty", "[15, 16, 15, 15]", 0, 13},
        {"[30, 31]\n    pp: 4", "2 chunks, which PP 4 does not divide: 2 mod 4 = 2",
         "PP x VPP chunks", 0, 13},
        {"[30, 31]\n    vpp: 3", "2 chunks, which VPP 3 does not divide: 2 mod 3 = 2",
         "PP x VPP chunks", 0, 13},
        {"[30, 31]\n    pp: 2\n    vpp: 2", "2 chunks, but PP 2 x VPP 2 = 4", "PP x VPP chunks", 0,
         13},
        {"[30, 31]\n    pp: [2, 4]", "pp has 2 values, but 'stages' is for one pipeline",
         "leave pp", 1, 9},
        {"Et*30|x*31mL", "character 7 ('x'): expected E, t, m, L", "expected: a list", 0, 19},
        {"\"Et*30|x*31mL\"", "character 7 ('x'): expected E, t, m, L", "expected: a list", 0, 20},
        {"60", "character 1 ('6')", "expected: a list", 0, 13},
        {"{pp: 4}", "'stages' is a mapping", "expected: a list", 0, 13},
        {"[30, -1]", "must be 0 to 1024", "", 0, 18},
        {"[]", "must not be empty", "", 0, 13},
        {"Et*61m(|)*255L", "256 chunks: PP 256 exceeds 128", "", 0, 13},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        char text[TEXT];
        (void)snprintf(text, sizeof text, PLAN "    stages: %s\n", cases[i].stages);
        struct document *d = NULL;
        assert_int_equal(parse(text, NULL, 0, &d), MOSAIC_BAD_INPUT);
        const struct diag *const first = &said.items[0];
        if (said.errors != 1 || !strstr(first->message, cases[i].message) ||
            !strstr(first->hint, cases[i].hint) || first->line != STAGES_LINE + cases[i].line ||
            first->column != cases[i].column)
            fail_msg("%s: %zu errors, %ld:%ld: %s; %s", cases[i].stages, said.errors, first->line,
                     first->column, first->message, first->hint);
    }
}

static void engines_and_models_may_refuse(void **unused) {
    (void)unused;
    static const struct document_override old = {"engine",
                                                 "{name: megatron, version: \"2024.07\"}"};
    struct document *d = NULL;
    assert_int_equal(parse(PLAN "    stages: [30, 31]\n", &old, 1, &d), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(said.items[0].message, "not launchable on megatron 2024.07: its stages "
                                                  "hold equal numbers of layers, not 30 + 31"));
    /* models of a grid have other numbers of layers */
    assert_int_equal(parse(HEAD "search: {layout: {stages: [20, 20]}}\n", NULL, 0, &d),
                     MOSAIC_BAD_INPUT);
    assert_non_null(strstr(said.items[0].message, "2 x 20 = 40 layers, but geometry 1 of "));
    /* PP that does not divide the GPUs is said at the stages that it follows from */
    assert_int_equal(parse(PLAN "    stages: [20, 20, 21]\n", NULL, 0, &d), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(said.items[0].message, "pp 3 does not divide"));
    assert_int_equal(said.items[0].line, STAGES_LINE);
}

/* Any place of MTP and dense layers is counted as it is stated. */
static void only_the_published_estimator_warns(void **unused) {
    (void)unused;
    static const char *const cases[] = {"Et*30|t*15|t*16m|L", "Et*3|(tt|)*29,m|L\n    pp: 16",
                                        "[2, 30, 10, 19]\n    pp: 2", "Et*15|t*16|t*15|t*15mL"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        struct document *const d = stated(cases[i]);
        assert_int_equal(said.warnings, 0);
        document_free(d);
    }
    static const struct document_override published = {"estimator", "published"};
    struct document *const d = must_parse(PLAN "    stages: [20, 41]\n", &published, 1);
    assert_int_equal(said.warnings, 1);
    assert_non_null(strstr(said.items[0].message, "does not see how layers are split"));
    document_free(d);
}

/* The chunks of a layout by the result's stages[] and its string. */
static void same_as_result(const struct document *d, json_t *layout) {
    const struct stated_stages *const s = d->problem.workload.stages;
    json_t *const stages = json_object_get(layout, "stages");
    assert_int_equal(json_array_size(stages), s->count);
    for (size_t i = 0; i < s->count; ++i) {
        json_t *const layers = json_object_get(json_array_get(stages, i), "layers");
        const long first = (long)json_integer_value(json_array_get(layers, 0)),
                   last = (long)json_integer_value(json_array_get(layers, 1));
        assert_int_equal(last - first + 1, s->chunks[i].layers);
    }
}

/* A random pipeline as a list -> the result's string -> the same pipeline. */
static void strings_of_results_read_back(void **unused) {
    (void)unused;
    int uneven = 0;
    for (int run = 0; run < 60; ++run) {
        const int pp = 2 << below(4), vpp = 1 + (int)below(3), count = pp * vpp;
        int chunks[64] = {0}, left = 61;
        for (int i = 0; i < count; ++i) { /* inner ones are never empty */
            chunks[i] = i > 0 && i + 1 < count ? 1 : 0;
            left -= chunks[i];
        }
        if (left < 0)
            continue;
        while (left-- > 0)
            ++chunks[below((unsigned)count)];
        char list[TEXT] = "[";
        for (int i = 0; i < count; ++i)
            (void)snprintf(list + strlen(list), sizeof list - strlen(list), "%s%d", i ? ", " : "",
                           chunks[i]);
        (void)snprintf(list + strlen(list), sizeof list - strlen(list), "]\n    pp: %d", pp);
        struct document *const d = stated(list);
        struct status_error err = {0};
        struct report_point *const point = calloc(1, sizeof *point);
        assert_non_null(point);
        point->document = d;
        assert_int_equal(document_pinned(d, &point->geometry, &point->layout.mesh, &err),
                         MOSAIC_OK);
        point->layout.split = d->problem.workload.stages->split;
        json_t *const layout = build_layout(&d->problem, &point->geometry, &point->layout);
        same_as_result(d, layout);
        const char *const text = json_string_value(json_object_get(layout, "pipeline_layout"));
        assert_non_null(text);
        char again[TEXT];
        (void)snprintf(again, sizeof again, "%s\n    pp: %d", text, pp);
        struct document *const back = stated(again);
        assert_int_equal(back->problem.workload.stages->vpp, vpp);
        assert_int_equal(back->problem.workload.stages->count, d->problem.workload.stages->count);
        assert_memory_equal(
            back->problem.workload.stages->chunks, d->problem.workload.stages->chunks,
            d->problem.workload.stages->count * sizeof *d->problem.workload.stages->chunks);
        assert_memory_equal(&back->problem.workload.stages->split,
                            &d->problem.workload.stages->split,
                            sizeof d->problem.workload.stages->split);
        same_as_result(back, layout);
        uneven += chunks[0] != chunks[1];
        json_decref(layout);
        free(point);
        document_free(back);
        document_free(d);
    }
    assert_true(uneven > 10);
}

#define OWN_ENGINE                                                                                 \
    "{schema: mosaic-engine/1, name: megatron, version: \"1\", uneven_stages: true, "              \
    "recompute_per_stage: true, interleaved_batches_divide: true, kv_replication: true, "          \
    "vocab_pad_unit: 1"

/* A rule about uneven stages sees stated ones, though PP divides the layers. */
static void stated_chunks_are_uneven_stages(void **unused) {
    (void)unused;
    static const struct document_override strict[] = {
        {"engine", OWN_ENGINE ", conflicts: [{features: [uneven_stages], text: even, source: s}]}"},
        {"model", "{layers: 8, hidden: 1024, heads: 8, head_dim: 128, dense_ffn: 4096, "
                  "first_dense: 8}"},
        {"search.layout.ep", "1"}};
    static const char *const stages[] = {"[4, 4]", "[3, 5]"};
    for (int uneven = 0; uneven < 2; ++uneven) {
        struct geometry g;
        struct mesh m;
        struct status_error err = {0};
        char text[TEXT];
        (void)snprintf(text, sizeof text, "%s    stages: %s\n", PLAN, stages[uneven]);
        struct document *const d = must_parse(text, strict, 3);
        const struct problem *const p = &d->problem;
        if (document_pinned(d, &g, &m, &err) != MOSAIC_OK)
            fail_msg("%s", err.message);
        assert_int_equal(mesh_check_engine(&m, &g, &p->workload, &p->engine, &err),
                         uneven ? MOSAIC_BAD_INPUT : MOSAIC_OK);
        document_free(d);
    }
}

/* Without stages: the split's own string; none where the engine takes none. */
static void strings_of_splits(void **unused) {
    (void)unused;
    static const struct {
        const char *engine, *schedule, *want;
        int pp, vpp;
    } cases[] = {
        {"{name: megatron, version: \"2026.08\"}", "1f1b", "Et*15|t*16(|t*15)*2mL", 4, 1},
        {"{name: megatron-bridge, version: \"0.4\"}", "1f1b", "Et*15|t*16(|t*15)*2mL", 4, 1},
        {"{name: megatron, version: \"2026.08\"}", "1f1b", NULL, 1, 1},
        {"{name: megatron, version: \"2026.08\"}", "dualpipe", NULL, 4, 1},
        {"{name: torchtitan, version: \"2026.08\"}", "1f1b", NULL, 4, 1},
        {"{name: megatron, version: \"2026.08\"}", "1f1b", "E(t*8|)*4t*7|t*8|t*7|t*7mL", 4, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        const struct document_override engine = {"engine", cases[i].engine};
        struct document *const d = must_parse(PLAN, &engine, 1);
        struct layout layout = {.mesh = {.tp = 1,
                                         .cp = 1,
                                         .pp = cases[i].pp,
                                         .vpp = cases[i].vpp,
                                         .ep = 8,
                                         .etp = 1,
                                         .dp = 1,
                                         .micro_batch = 1,
                                         .micro_batches = 64,
                                         .schedule = strcmp(cases[i].schedule, "dualpipe") == 0
                                                         ? SCHEDULE_DUALPIPE
                                                         : SCHEDULE_1F1B}};
        split_even(61, cases[i].pp, &layout.split);
        json_t *const o = build_layout(&d->problem, &d->problem.geometries.items[0], &layout);
        const char *const text = json_string_value(json_object_get(o, "pipeline_layout"));
        if (cases[i].want) {
            assert_non_null(text);
            assert_string_equal(text, cases[i].want);
        } else {
            assert_null(text);
        }
        json_decref(o);
        document_free(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_and_strings_say_the_same),
        cmocka_unit_test(refused_with_place_and_arithmetic),
        cmocka_unit_test(engines_and_models_may_refuse),
        cmocka_unit_test(only_the_published_estimator_warns),
        cmocka_unit_test(strings_of_results_read_back),
        cmocka_unit_test(strings_of_splits),
        cmocka_unit_test(stated_chunks_are_uneven_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
