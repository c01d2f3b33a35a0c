// SPDX-License-Identifier: GPL-3.0-or-later
/* Tolerances of a check and the baseline's document. */
#include "close.h"

#include "doc/check_settings.h"

#include <stdlib.h>
#include <string.h>
#include <talloc.h>

static enum mosaic_status put(struct check_settings *s, const char *pair) {
    struct status_error err;
    return check_settings_put(s, pair, &err);
}

static void test_tolerances(void **state) {
    struct check_settings s;
    (void)state;
    check_settings_init(&s);
    for (int i = 0; i < BASELINE_METRICS; ++i) {
        assert_false(s.tolerances[i].is_absolute);
        assert_close(s.tolerances[i].value, 1e-3, 1e-15);
    }
    assert_int_equal(put(&s, "baseline=b.json"), MOSAIC_OK);
    assert_int_equal(put(&s, "update=on"), MOSAIC_OK);
    assert_true(s.update && strcmp(s.baseline, "b.json") == 0);
    assert_int_equal(put(&s, "tolerance.all=0 %"), MOSAIC_OK);
    assert_close_abs(s.tolerances[BASELINE_LOSS].value, 0.0, 0.0);
    assert_int_equal(put(&s, "tolerance.mfu=1.5 %"), MOSAIC_OK);
    assert_close(s.tolerances[BASELINE_MFU].value, 0.015, 1e-12);
    assert_int_equal(put(&s, "tolerance.mfu=0.02"), MOSAIC_OK);
    assert_close(s.tolerances[BASELINE_MFU].value, 0.02, 1e-12);
    assert_int_equal(put(&s, "tolerance.loss=0.001 nat"), MOSAIC_OK);
    assert_true(s.tolerances[BASELINE_LOSS].is_absolute);
    assert_close(s.tolerances[BASELINE_LOSS].value, 1e-3, 1e-15);
    assert_int_equal(put(&s, "tolerance.step_time_s=5 ms"), MOSAIC_OK);
    assert_close(s.tolerances[BASELINE_STEP_TIME].value, 5e-3, 1e-12);
    assert_int_equal(put(&s, "tolerance.reserved_bytes=1 GiB"), MOSAIC_OK);
    assert_close(s.tolerances[BASELINE_MEMORY].value, 1073741824.0, 1e-15);
    assert_int_equal(put(&s, "tolerance.days=6 h"), MOSAIC_OK);
    assert_true(s.tolerances[BASELINE_DAYS].is_absolute);
    assert_close(s.tolerances[BASELINE_DAYS].value, 0.25, 1e-15);
    assert_int_equal(put(&s, "tolerance.gpu_hours=2 days"), MOSAIC_OK);
    assert_close(s.tolerances[BASELINE_GPU_HOURS].value, 48.0, 1e-15);
    assert_int_equal(put(&s, "tolerance.cost_usd=500 USD"), MOSAIC_OK);
    assert_close(s.tolerances[BASELINE_COST].value, 500.0, 1e-15);
    assert_int_equal(put(&s, "tolerance.days=2 %"), MOSAIC_OK);
    assert_false(s.tolerances[BASELINE_DAYS].is_absolute);
}

static void test_refused(void **state) {
    static const char *const bad[] = {
        "",
        "baseline",
        "update=off",
        "tolerance.mfu",
        "tolerance.mfu=",
        "tolerance.mfu=1",
        "tolerance.mfu=nan",
        "tolerance.mfu=inf %",
        "tolerance.mfu=1 GiB",
        "tolerance.loss=nat",
        "tolerance.days=1",
        "tolerance.days=1 USD",
        "tolerance.gpu_hours=-1 h",
        "tolerance.cost_usd=5 USD/h",
        "tolerance.cost=1 %",
        "tolerance.all=6 h",
        "tolerance.loss=-1 nat",
        "tolerance.loss=1e400 nat",
        "tolerance.=1 %",
        "tolerance.a_key_that_is_much_longer_than_any_metric_of_a_check_could_be=1 %",
        "tolerance.loss=0.00000000000000000000000000000000000000000000000000000000000000001 nat",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        struct check_settings s, before;
        check_settings_init(&s);
        before = s;
        if (put(&s, bad[i]) != MOSAIC_USAGE)
            fail_msg("'%s' is taken", bad[i]);
        for (int k = 0; k < BASELINE_METRICS; ++k)
            assert_close_abs(s.tolerances[k].value, before.tolerances[k].value, 0.0);
    }
}

static void test_table(void **state) {
    struct status_error err;
    (void)state;
    assert_int_equal(schema_self_check(&doc_baseline_schema, &err), MOSAIC_OK);
}

/* What is saved reads back to the same values and the same bytes. */
static void test_round_trip(void **state) {
    static const char path[] = "build/test_check_baseline.json";
    struct status_error err;
    struct diag_list diags;
    struct baseline_pair inputs[] = {{"a.yaml", "00"}},
                         overrides[] = {{"budget.days", "[1, \"x\"]"}};
    struct baseline_entry entries[] = {
        {.file = "b \"x\" \\.yaml", .sha256 = "12", .is_infeasible = 1},
        {.file = "a.yaml",
         .sha256 = "34",
         .model = "L1",
         .layout = "PP1",
         .inputs = {1, inputs},
         .overrides = {1, overrides}}};
    struct baseline made = {"0.1.0", {2, entries}}, *read = NULL;
    char *text = NULL, *again = NULL;
    void *const memory = talloc_new(NULL);
    const double values[] = {0.1 + 0.2, 1e-300, 63050253681.0, 1.0 / 3.0};
    (void)state;
    for (int i = 0; i <= BASELINE_RATE; ++i)
        assert_int_equal(baseline_add(memory, &entries[1].metrics,
                                      baseline_metric_info((enum baseline_metric)i)->key, values[i],
                                      &err),
                         MOSAIC_OK);
    baseline_sort(&made);
    assert_string_equal(baseline_entry(&made, 0)->file, "a.yaml");
    assert_int_equal(doc_baseline_save(&made, &text, &err), MOSAIC_OK);
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
    diag_init(&diags);
    assert_int_equal(doc_baseline_load(memory, path, false, &read, &diags), MOSAIC_OK);
    (void)remove(path);
    assert_int_equal(doc_baseline_save(read, &again, &err), MOSAIC_OK);
    assert_string_equal(text, again);
    const struct baseline_entry *const a = baseline_find(read, "a.yaml");
    assert_non_null(a);
    for (int i = 0; i <= BASELINE_RATE; ++i)
        assert_close_abs(a->metrics.items[i].value, values[i], 0.0);
    assert_string_equal(baseline_pair_of(&a->overrides, "budget.days")->value, "[1, \"x\"]");
    assert_null(baseline_pair_of(&a->inputs, "b.yaml"));
    assert_null(baseline_find(read, "c.yaml"));
    free(text);
    free(again);
    talloc_free(memory);
}

static void test_missing(void **state) {
    struct diag_list diags;
    struct baseline *read = NULL;
    (void)state;
    diag_init(&diags);
    assert_int_equal(doc_baseline_load(NULL, "build/none.json", true, &read, &diags), MOSAIC_OK);
    assert_null(read);
    assert_int_equal(doc_baseline_load(NULL, "build/none.json", false, &read, &diags),
                     MOSAIC_BAD_INPUT);
    assert_true(strstr(diags.items[0].hint, "--update") != NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tolerances), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_table),      cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
