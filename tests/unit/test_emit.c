// SPDX-License-Identifier: GPL-3.0-or-later
/* Results: key paths, numbers as text, and the four output formats. */
#include "close.h"

#include "report/emit.h"
#include "report/number.h"
#include "report/result.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

static const char *const samples[] = {"plan",    "infeasible", "predict",  "count",
                                      "compare", "lint",       "validate", "layout",
                                      "import",  "fleet",      "target"};
enum { SAMPLES = sizeof samples / sizeof *samples };
static const enum mosaic_format formats[] = {MOSAIC_TABLE, MOSAIC_JSON, MOSAIC_CSV, MOSAIC_YAML};

static json_t *load_sample(const char *name) {
    char path[256];
    (void)snprintf(path, sizeof path, "tests/unit/samples/%s.json", name);
    json_t *const root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    return root;
}

/* What a format makes of a tree; free() it. */
static char *written(json_t *root, enum mosaic_format format, int width) {
    char *text = NULL;
    size_t size = 0;
    struct status_error err;
    const struct emit_options options = {.width = width, .show_values = true};
    FILE *const stream = open_memstream(&text, &size);
    assert_non_null(stream);
    assert_int_equal(emit(root, format, &options, stream, &err), MOSAIC_OK);
    assert_int_equal(fclose(stream), 0);
    return text;
}

static void check_written(json_t *root, enum mosaic_format format, const char *want) {
    char *const text = written(root, format, 0);
    assert_string_equal(text, want);
    free(text);
}

static void test_paths(void **state) {
    (void)state;
    struct status_error err;
    struct mosaic_result *result = NULL;
    double value = 7;
    assert_int_equal(result_new(load_sample("plan"), MOSAIC_OK, &result, &err), MOSAIC_OK);
    assert_int_equal(mosaic_result_number(result, "best.geometry.layers", &value), MOSAIC_OK);
    assert_close(value, 48.0, 0);
    assert_int_equal(mosaic_result_number(result, "alternatives[3].loss", &value), MOSAIC_OK);
    assert_close(value, 1.393, 1e-12);
    assert_int_equal(mosaic_result_number(result, "best.layout.stages[2].layers[1]", &value),
                     MOSAIC_OK);
    assert_close(value, 17.0, 0);
    assert_string_equal(mosaic_result_string(result, "status"), "optimal");
    assert_int_equal(mosaic_result_length(result, "best.layout.stages"), 8);
    assert_int_equal(mosaic_result_length(result, "best"), 0);
    assert_int_equal(mosaic_result_length(result, "nothing"), 0);
    static const char *const dead[] = {"status",
                                       "best.",
                                       ".best",
                                       "best..loss",
                                       "alternatives[4].loss",
                                       "[0]",
                                       "best.geometry",
                                       "alternatives[-1]",
                                       "alternatives[",
                                       "alternatives[x]",
                                       "best[0]",
                                       "alternatives[0]loss",
                                       "alternatives[99999999999999999999].loss"};
    value = 7;
    for (size_t i = 0; i < sizeof dead / sizeof *dead; i++)
        if (mosaic_result_number(result, dead[i], &value) != MOSAIC_USAGE)
            fail_msg("'%s' is a number", dead[i]);
    assert_close(value, 7.0, 0);
    assert_null(mosaic_result_string(result, "best.loss"));
    char *const text = mosaic_result_json(result);
    json_t *const back = json_loads(text, 0, NULL);
    assert_true(json_equal(back, result->root));
    json_decref(back);
    free(text);
    mosaic_result_free(result);
    mosaic_result_free(NULL);
    assert_int_equal(result_new(NULL, MOSAIC_OK, &result, &err), MOSAIC_INTERNAL);
}

static void test_number_exact(void **state) {
    (void)state;
    uint64_t bits = 88172645463325252u; /* xorshift64 */
    char text[NUMBER_MAX];
    for (int i = 0; i < 100000; i++) {
        double value;
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        const double back = strtod(number_exact(value, text), NULL);
        assert_memory_equal(&back, &value, sizeof value);
        assert_non_null(strchr(text, '.'));
    }
    assert_string_equal(number_exact(0.1, text), "0.1");
    assert_string_equal(number_exact(3, text), "3.0");
    assert_string_equal(number_exact(1e100, text), "1.0e+100");
    assert_string_equal(number_exact(-0.0, text), "-0.0");
}

static void test_number_human(void **state) {
    (void)state;
    static const struct {
        double value;
        enum number_unit unit;
        const char *want;
    } cases[] = {
        {327.19e9, NUMBER_COUNT, "327.2 B"},
        {999.96e9, NUMBER_COUNT, "1.00 T"},
        {1.42e12, NUMBER_COUNT, "1.42 T"},
        {9999, NUMBER_COUNT, "9999"},
        {0.01234, NUMBER_TIME, "12.34 ms"},
        {2.553, NUMBER_TIME, "2.55 s"},
        {22e-6, NUMBER_TIME, "22.00 us"},
        {1e-9, NUMBER_TIME, "0.00 us"},
        {0, NUMBER_TIME, "0 s"},
        {0.1238, NUMBER_SHARE, "12.4 %"},
        {137438953472.0, NUMBER_MEMORY, "128.0 GiB"},
        {20, NUMBER_DAYS, "20 days"},
        {1.23e23, NUMBER_FLOP, "1.230e+23 FLOP"},
        {1.38972, NUMBER_LOSS, "1.3897"},
        {48, NUMBER_PLAIN, "48"},
        {0.98765432, NUMBER_PLAIN, "0.9877"},
    };
    char text[NUMBER_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(number_human(cases[i].value, cases[i].unit, text), cases[i].want);
}

static void test_json(void **state) {
    (void)state;
    json_t *const root = json_pack("{s:f, s:i, s:[f], s:o, s:{}}", "z", 0.1, "a", 3, "list", 2.0,
                                   "tokens", json_real(1.42e12), "none");
    check_written(root, MOSAIC_JSON,
                  "{\n  \"z\": 0.10000000000000001,\n  \"a\": 3,\n  \"list\": [\n    2.0\n  ],\n"
                  "  \"tokens\": 1420000000000.0,\n  \"none\": {}\n}\n");
    json_decref(root);
    /* The tree cannot hold what JSON cannot say. */
    assert_null(json_real((double)NAN));
    assert_null(json_real((double)INFINITY));
    for (size_t i = 0; i < SAMPLES; i++) {
        json_t *const sample = load_sample(samples[i]);
        char *const text = written(sample, MOSAIC_JSON, 0);
        json_t *const back = json_loads(text, 0, NULL);
        assert_true(json_equal(sample, back));
        json_decref(back);
        free(text);
        json_decref(sample);
    }
}

static void test_csv(void **state) {
    (void)state;
    json_t *const plan =
        json_pack("{s:s, s:[{s:i, s:{s:f}, s:[i]}, {s:i, s:s, s:b}]}", "schema", "mosaic.plan/1",
                  "alternatives", "rank", 1, "geometry", "sparsity", 0.5, "stages", 9, "rank", 2,
                  "note", "say \"a, b\"\n", "tight", 1);
    check_written(plan, MOSAIC_CSV,
                  "rank,geometry.sparsity,note,tight\n1,0.5,,\n2,,\"say \"\"a, b\"\"\n\",true\n");
    json_decref(plan);
    json_t *const predict = json_pack("{s:s, s:{s:f, s:{s:f}}, s:[{s:i}], s:n}", "schema",
                                      "mosaic.predict/1", "prediction", "mfu", 0.125, "memory",
                                      "peak_bytes", 8.0, "stages", "in_flight", 3, "nothing");
    check_written(predict, MOSAIC_CSV,
                  "key,value,unit\nschema,mosaic.predict/1,\nprediction.mfu,0.125,\n"
                  "prediction.memory.peak_bytes,8.0,byte\nstages[0].in_flight,3,\nnothing,,\n");
    json_decref(predict);
}

/* Strings a YAML 1.1 or 1.2 reader would take for another type, an indicator or nothing. */
static const char *const tricky[] = {
    "",          "yes",   "No",      "on",       "OFF",  "y",          "null",  "~",
    "true",      "False", "12",      "1.5",      "1e5",  "0x1F",       "010",   "1:30",
    ".inf",      ".NaN",  "nan",     "-",        "- a",  "? b",        ": c",   "a: b",
    "a #b",      "#c",    "&anchor", "*a",       "!tag", "%d",         "@at",   "`tick",
    "[1]",       "{a}",   "'q'",     "\"q\"",    "a'b",  " lead",      "tail ", "two\nlines",
    "tab\there", "=",     "<<",      "|",        ">",    "2026-08-01", "\x01",  "\xc3\xa9t\xc3\xa9",
    "1_000",     "+1",    "a\\b",    "key,value"};

static void test_yaml_strings(void **state) {
    (void)state;
    enum { TRICKY = sizeof tricky / sizeof *tricky };
    json_t *const list = json_array();
    for (size_t i = 0; i < TRICKY; i++)
        assert_int_equal(json_array_append_new(list, json_string(tricky[i])), 0);
    char *const text = written(list, MOSAIC_YAML, 0);
    yaml_parser_t parser;
    yaml_event_t event;
    size_t seen = 0;
    bool more = true;
    assert_int_equal(yaml_parser_initialize(&parser), 1);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
    while (more) {
        if (!yaml_parser_parse(&parser, &event))
            fail_msg("YAML: %s in\n%s", parser.problem, text);
        if (event.type == YAML_SCALAR_EVENT) {
            assert_string_equal((const char *)event.data.scalar.value, tricky[seen]);
            assert_int_not_equal(event.data.scalar.style, YAML_PLAIN_SCALAR_STYLE);
            seen++;
        }
        more = event.type != YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    assert_int_equal(seen, TRICKY);
    yaml_parser_delete(&parser);
    free(text);
    json_decref(list);
}

static void test_yaml(void **state) {
    (void)state;
    json_t *const root =
        json_pack("{s:s, s:f, s:i, s:b, s:[i,i], s:[{s:s}], s:{}, s:[], s:s}", "schema",
                  "mosaic.plan/1", "tokens", 1.42e20, "layers", 48, "tight", 0, "layers of", 0, 5,
                  "rows", "name", "full", "none", "empty", "long",
                  "a line that is far longer than eighty columns and would be "
                  "folded by an emitter with the usual width");
    check_written(root, MOSAIC_YAML,
                  "schema: mosaic.plan/1\ntokens: 1.42e+20\nlayers: 48\ntight: false\n"
                  "layers of: [0, 5]\nrows:\n- name: full\nnone: {}\nempty: []\n"
                  "long: a line that is far longer than eighty columns and would be folded by an "
                  "emitter with the usual width\n");
    json_decref(root);
}

static void test_full_disk(void **state) {
    (void)state;
    json_t *const root = load_sample("plan");
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        struct status_error err;
        FILE *const full = fopen("/dev/full", "w");
        if (!full)
            skip();
        assert_int_equal(emit(root, formats[i], NULL, full, &err), MOSAIC_IO);
        assert_non_null(strstr(err.message, "No space left"));
        (void)fclose(full);
    }
    json_decref(root);
}

static void test_table_plan(void **state) {
    (void)state;
    json_t *const root = load_sample("plan");
    char *const text = written(root, MOSAIC_TABLE, 0);
    static const char *const parts[] = {
        "Train L48 d6144 E96 K2 G4 with 327.2 B total",
        "1.42 T tokens: predicted loss 1.3897",
        "PP8 EP8 DP32, micro-batch 4, full recompute",
        "MFU 13.1 %",
        "Proved: nothing in the declared space",
        "131.0 GiB of 166.7 GiB usable: fits, 35.7 GiB free",
        "(causal, no recompute, dense bf16 peak)",
        "layers of each stage: 6 6 6 6 6 6 6 6",
        "<- least",
        "--set budget.days=20",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i]))
            fail_msg("no '%s' in\n%s", parts[i], text);
    /* Largest first, zero terms out, no colour unless asked for. */
    assert_true(strstr(text, "pipeline bubble") < strstr(text, "  GEMMs"));
    assert_null(strstr(text, "quantisation"));
    assert_null(strchr(text, '\033'));
    free(text);
    json_decref(root);
}

/* A plan that chose its nodes, and one of the least time. */
static void test_table_objectives(void **state) {
    (void)state;
    static const struct {
        const char *sample, *part;
    } parts[] = {
        {"fleet", "The best plan by number of nodes"},
        {"fleet", "<- this plan"},
        {"fleet", "What no other plan beats in loss, days, GPUs, memory and price"},
        {"fleet", "best interval"},
        {"fleet", "+nats"},
        {"target", "It takes 3.472 days: 2667 GPU-hours."},
        {"target", "Days to the target by sparsity"},
        {"target", "+days"},
        {"target", "days low"},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        json_t *const root = load_sample(parts[i].sample);
        char *const text = written(root, MOSAIC_TABLE, 0);
        if (!strstr(text, parts[i].part))
            fail_msg("no '%s' in\n%s", parts[i].part, text);
        free(text);
        json_decref(root);
    }
}

static void test_table_width(void **state) {
    (void)state;
    static const int widths[] = {80, 120};
    for (size_t s = 0; s < SAMPLES; s++) {
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            json_t *const root = load_sample(samples[s]);
            char *const text = written(root, MOSAIC_TABLE, widths[w]);
            /* Stages times memory items cannot be narrower. */
            const bool has_matrix = strcmp(samples[s], "predict") == 0 && widths[w] < 100;
            for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
                const size_t length = strcspn(line, "\n");
                if (length > (size_t)widths[w] && !has_matrix)
                    fail_msg("%s at %d: %.*s", samples[s], widths[w], (int)length, line);
                assert_true(length == 0 || line[length - 1] != ' ');
            }
            free(text);
            json_decref(root);
        }
    }
}

/* Deletes each key below `node` in turn: whatever is missing, every format is written. */
static void without_each(json_t *root, json_t *node, int depth) {
    if (json_is_array(node) && depth > 0)
        without_each(root, json_array_get(node, 0), depth - 1);
    if (!json_is_object(node) || depth == 0)
        return;
    /* Putting a key back moves it to the end, so the walk follows a copy. */
    json_t *const keys = json_copy(node);
    const char *key;
    json_t *value;
    json_object_foreach(keys, key, value) {
        without_each(root, value, depth - 1);
        assert_int_equal(json_object_del(node, key), 0);
        for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
            free(written(root, formats[i], 100));
        assert_int_equal(json_object_set(node, key, value), 0);
    }
    json_decref(keys);
}

static void test_missing_keys(void **state) {
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        json_t *const root = load_sample(samples[i]);
        without_each(root, root, 3);
        json_decref(root);
    }
    json_t *const empty = json_object();
    check_written(empty, MOSAIC_TABLE, "");
    check_written(empty, MOSAIC_JSON, "{}\n");
    check_written(empty, MOSAIC_YAML, "{}\n");
    check_written(empty, MOSAIC_CSV, "key,value,unit\n");
    json_decref(empty);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),        cmocka_unit_test(test_number_exact),
        cmocka_unit_test(test_number_human), cmocka_unit_test(test_json),
        cmocka_unit_test(test_csv),          cmocka_unit_test(test_yaml_strings),
        cmocka_unit_test(test_yaml),         cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_table_plan),   cmocka_unit_test(test_table_objectives),
        cmocka_unit_test(test_table_width),  cmocka_unit_test(test_missing_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
