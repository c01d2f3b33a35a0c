// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The result schemas against hand-written results and against damaged ones.  With arguments it is
 * a tool for the other tests: test_schema FILE.json... checks each file against the schema that it
 * names.
 */
#include "close.h"

#include "schema_check.h"

#include <stdio.h>
#include <string.h>

static const char *const samples[] = {"plan",  "infeasible", "predict", "count",  "compare",
                                      "lint",  "validate",   "layout",  "import", "calibrate",
                                      "drift", "fleet",      "target",  "launch"};

static json_t *load(const char *path) {
    json_error_t error;
    json_t *const root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        print_error("%s:%d:%d: %s\n", path, error.line, error.column, error.text);
    return root;
}

static json_t *load_sample(const char *name) {
    char path[256];
    (void)snprintf(path, sizeof path, "tests/unit/samples/%s.json", name);
    json_t *const root = load(path);
    assert_non_null(root);
    return root;
}

/* "mosaic.plan/1" -> src/report/schema/mosaic.plan-1.json */
static bool check(json_t *root, char message[SCHEMA_MESSAGE_MAX]) {
    char path[256];
    const char *const name = json_string_value(json_object_get(root, "schema"));
    if (!name) {
        (void)snprintf(message, SCHEMA_MESSAGE_MAX, "no schema key");
        return false;
    }
    (void)snprintf(path, sizeof path, "src/report/schema/%.100s.json", name);
    for (char *at = strchr(path + strlen("src/report/schema/"), '/'); at; at = NULL)
        *at = '-';
    return schema_check_file(path, root, message);
}

static void test_samples(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        char message[SCHEMA_MESSAGE_MAX] = "";
        json_t *const root = load_sample(samples[i]);
        if (!check(root, message))
            fail_msg("%s: %s", samples[i], message);
        json_decref(root);
    }
}

/* The damaged result is refused, and the message names the place. */
static void refuses(const char *sample, void (*damage)(json_t *root), const char *place) {
    char message[SCHEMA_MESSAGE_MAX] = "";
    json_t *const root = load_sample(sample);
    damage(root);
    assert_false(check(root, message));
    if (!strstr(message, place))
        fail_msg("'%s' does not name %s", message, place);
    json_decref(root);
}

static json_t *down(json_t *root, const char *a, const char *b) {
    return json_object_get(json_object_get(root, a), b);
}

static void drop_status(json_t *root) {
    assert_int_equal(json_object_del(root, "status"), 0);
}
static void wrong_status(json_t *root) {
    assert_int_equal(json_object_set_new(root, "status", json_string("fine")), 0);
}
static void drop_best(json_t *root) {
    assert_int_equal(json_object_del(root, "best"), 0);
}
static void half_layers(json_t *root) {
    assert_int_equal(json_object_set_new(down(root, "best", "geometry"), "layers", json_real(47.5)),
                     0);
}
static void negative_time(json_t *root) {
    json_t *const split = json_object_get(down(root, "best", "prediction"), "time_split");
    assert_int_equal(json_object_set_new(split, "gemm_s", json_real(-0.1)), 0);
}
static void unknown_time(json_t *root) {
    json_t *const split = json_object_get(json_object_get(root, "prediction"), "time_split");
    assert_int_equal(json_object_set_new(split, "magic_s", json_real(0.1)), 0);
}
static void mfu_above_one(json_t *root) {
    assert_int_equal(
        json_object_set_new(json_object_get(root, "prediction"), "mfu", json_real(1.2)), 0);
}
static void short_digest(json_t *root) {
    json_t *const input = json_array_get(down(root, "provenance", "inputs"), 0);
    assert_int_equal(json_object_set_new(input, "sha256", json_string("ab")), 0);
}
static void text_loss(json_t *root) {
    json_t *const row = json_array_get(json_object_get(root, "alternatives"), 3);
    assert_int_equal(json_object_set_new(row, "loss", json_string("1.39")), 0);
}

static void share_above_one(json_t *root) {
    assert_int_equal(json_object_set_new(root, "coverage_90", json_real(1.5)), 0);
}
static void nameless_group(json_t *root) {
    json_t *const group = json_array_get(json_object_get(root, "groups"), 1);
    assert_int_equal(json_object_del(group, "name"), 0);
}
static void drop_excluded(json_t *root) {
    assert_int_equal(json_object_del(root, "excluded"), 0);
}

static void test_damage(void **state) {
    (void)state;
    refuses("plan", drop_status, "status");
    refuses("plan", wrong_status, "status");
    refuses("plan", drop_best, "anyOf");
    refuses("infeasible", wrong_status, "status");
    refuses("plan", half_layers, "best.geometry.layers");
    refuses("plan", negative_time, "best.prediction.time_split.gemm_s");
    refuses("predict", unknown_time, "prediction.time_split.magic_s");
    refuses("predict", mfu_above_one, "prediction.mfu");
    refuses("count", short_digest, "provenance.inputs[0].sha256");
    refuses("plan", text_loss, "alternatives[3].loss");
    refuses("validate", share_above_one, "coverage_90");
    refuses("validate", nameless_group, "groups[1]");
    refuses("validate", drop_excluded, "excluded");
}

static int check_files(int count, char **paths) {
    int failures = 0;
    for (int i = 0; i < count; i++) {
        char message[SCHEMA_MESSAGE_MAX] = "";
        json_t *const root = load(paths[i]);
        if (!root || !check(root, message)) {
            (void)fprintf(stderr, "%s: %s\n", paths[i], message);
            failures++;
        }
        json_decref(root);
    }
    return failures > 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_damage),
    };
    if (argc > 1)
        return check_files(argc - 1, argv + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
