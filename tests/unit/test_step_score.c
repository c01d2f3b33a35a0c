// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * src/fit/step_score.c, step_group.c: errors by layout, order, ranks and memory against cases
 * worked out by hand, and order against a count of all pairs.
 */
#include "close.h"

#include "fit/step_group.h"

#include <stdlib.h>
#include <string.h>

enum { MANY = 300, SEQUENCE = 1024 };

static struct measured_step steps[MANY];
static struct step_error errors[MANY];
static size_t count;
static struct step_score score;

/* A row of its own layout, of the same model on as many GPUs as the others. */
static struct measured_step *add(double measured_s, double predicted_s) {
    struct measured_step *const step = &steps[count];
    *step = (struct measured_step){.id = "row",
                                   .model = "model",
                                   .gpu = "gpu",
                                   .fabric = "ib",
                                   .source = "",
                                   .row = count + 1,
                                   .layout = count,
                                   .layout_rows = 1,
                                   .step_time_s = measured_s};
    step->workload.sequence = SEQUENCE;
    step->workload.global_batch = 1;
    step->mesh.tp = step->mesh.cp = step->mesh.pp = step->mesh.dp = 1;
    errors[count++] = (struct step_error){step, predicted_s, 0.9 * predicted_s, 1.1 * predicted_s};
    return step;
}

static int clear(void **state) {
    (void)state;
    count = 0;
    return 0;
}

static void take_all(void) {
    assert_true(step_score_of(errors, count, NULL, NULL, &score));
}

static void test_nothing(void **state) {
    (void)state;
    assert_false(step_score_of(errors, 0, NULL, NULL, &score));
}

static void test_one_row(void **state) {
    (void)state;
    add(2.0, 1.5);
    take_all();
    assert_int_equal(score.rows, 1);
    assert_int_equal(score.layouts, 1);
    assert_close(score.mape, 0.25, 1e-15);
    assert_close(score.median, 0.25, 1e-15);
    assert_close(score.p90, 0.25, 1e-15);
    assert_close(score.bias, -0.25, 1e-15);
    assert_close_abs(score.coverage, 0.0, 0.0); /* 1.35 to 1.65 */
    assert_int_equal(score.pairs, 0);
    assert_int_equal(score.ranked_groups, 0);
    assert_close_abs(score.pair_order, 0.0, 0.0);
}

/* Three rows of two layouts: errors of one +0.1 and -0.1, of the other +0.3. */
static void test_layouts_count_once(void **state) {
    (void)state;
    add(1.0, 1.1)->layout = 7;
    add(1.0, 1.3)->layout = 3;
    add(1.0, 0.9)->layout = 7;
    errors[1].low_s = 1.2;
    take_all();
    assert_int_equal(score.rows, 3);
    assert_int_equal(score.layouts, 2);
    assert_close(score.mape, (0.1 + 0.3) / 2, 1e-12); /* opposite errors do not cancel */
    assert_close(score.bias, (0.0 + 0.3) / 2, 1e-12);
    assert_close(score.median, 0.2, 1e-12);
    assert_close(score.p90, 0.1 + 0.9 * 0.2, 1e-12);
    assert_close(score.coverage, 1.0 / 3, 1e-12); /* 0.81 to 0.99 misses too */
    /* Means per token 1.0 and 1.0: nothing to order. */
    assert_int_equal(score.pairs, 0);
}

static void test_quantiles(void **state) {
    (void)state;
    static const double e[] = {0.5, 0.1, 0.4, 0.2, 0.3};
    for (size_t i = 0; i < 5; i++)
        add(1.0, 1.0 + e[i]);
    take_all();
    assert_close(score.median, 0.3, 1e-12);
    assert_close(score.p90, 0.4 + 0.6 * 0.1, 1e-12); /* 0.9 x 4 = 3.6 */
    count = 4;                                       /* without the 0.3 */
    take_all();
    assert_close(score.median, 0.3, 1e-12);
}

/* 1 and 1.05 are not more than 5 % apart, and 2 and 2.1 neither. */
static void test_five_percent(void **state) {
    (void)state;
    add(1.0, 1.0);
    add(1.05, 1.3);
    add(1.2, 1.25);
    take_all();
    assert_int_equal(score.pairs, 2);
    assert_close(score.pair_order, 0.5, 1e-15);
    assert_int_equal(score.ranked_groups, 1);
    assert_close(score.kendall_tau, 1.0 / 3, 1e-12); /* two in order, one reversed */
    assert_close_abs(score.regret, 0.0, 0.0);
    count = 0;
    add(1.1, 1.0);
    add(1.1 * 1.05, 2.0);
    add(1.7, 1.0)->model = "another";
    add(1.7 * 1.05, 2.0)->model = "another";
    take_all();
    assert_int_equal(score.pairs, 0);
    count = 0;
    add(1.0, 1.0);
    add(1.0501, 0.9);
    take_all();
    assert_int_equal(score.pairs, 1);
    assert_close_abs(score.pair_order, 0.0, 0.0);
    assert_int_equal(score.ranked_groups, 0); /* two are no ranking */
}

/* Measured 1 2 2 3, predicted 1 2 3 3: of 6 pairs one tied on either side, 4 in order:
 * 4 / sqrt(5 x 5). */
static void test_ties(void **state) {
    (void)state;
    add(2.0, 3.0);
    add(1.0, 1.0);
    add(3.0, 3.0);
    add(2.0, 2.0);
    take_all();
    assert_close(score.kendall_tau, 0.8, 1e-12);
    assert_int_equal(score.pairs, 5);
    assert_close(score.pair_order, 0.8, 1e-12); /* an equal prediction orders nothing */
    count = 0;
    for (int i = 0; i < 4; i++)
        add(1.0 + i, 2.0);
    take_all();
    assert_close_abs(score.kendall_tau, 0.0, 0.0);
    assert_close_abs(score.pair_order, 0.0, 0.0);
    assert_close(score.regret, 3.0, 1e-12); /* any may be chosen: the worst */
    count = 0;
    for (int i = 0; i < 4; i++)
        add(2.0, 1.0 + i);
    take_all();
    assert_close_abs(score.kendall_tau, 0.0, 0.0);
    assert_close_abs(score.regret, 0.0, 0.0);
}

static void test_reversed(void **state) {
    (void)state;
    add(1.0, 3.0);
    add(1.5, 2.0);
    add(2.0, 1.0);
    take_all();
    assert_close(score.kendall_tau, -1.0, 1e-12);
    assert_close_abs(score.pair_order, 0.0, 0.0);
    assert_close(score.regret, 1.0, 1e-12);
}

/* Groups of 3, 3 and 1: means over the two that rank, pairs of all together. */
static void test_groups_apart(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++)
        add(1.0 + i, 1.0 + i);
    for (int i = 0; i < 3; i++)
        add(1.0 + i, 3.0 - i)->mesh.dp = 2;
    add(9.0, 1.0)->gpu = "other";
    add(9.0, 1.0)->workload.precision = PRECISION_FP8;
    add(9.0, 1.0)->workload.sequence = 2 * SEQUENCE;
    add(9.0, 1.0)->model = "another";
    take_all();
    assert_int_equal(score.ranked_groups, 2);
    assert_close_abs(score.kendall_tau, 0.0, 1e-12);
    assert_close(score.regret, (0.0 + 2.0) / 2, 1e-12);
    assert_int_equal(score.pairs, 6);
    assert_close(score.pair_order, 0.5, 1e-12);
}

/* Twice the batch in twice the time is no slower. */
static void test_per_token(void **state) {
    (void)state;
    add(1.0, 1.0);
    add(2.0, 1.0)->workload.global_batch = 2;
    take_all();
    assert_int_equal(score.pairs, 0);
    add(3.0, 3.0);
    take_all();
    assert_int_equal(score.pairs, 2);
    assert_close(score.pair_order, 1.0, 1e-12);
}

/* Every pair, one by one. */
static void brute(double *tau, double *order, size_t *pairs) {
    double concordant = 0, tied_measured = 0, tied_predicted = 0, in_order = 0;
    const double all = (double)count * (double)(count - 1) / 2;
    *pairs = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++) {
            const double m = steps[i].step_time_s - steps[k].step_time_s;
            const double gap = errors[i].predicted_s - errors[k].predicted_s;
            /* equal but for rounding is equal */
            const double p = fabs(gap) > 1e-12 * errors[i].predicted_s ? gap : 0.0;
            const double least = fmin(steps[i].step_time_s, steps[k].step_time_s);
            concordant += m * p > 0 ? 1 : m * p < 0 ? -1 : 0;
            tied_measured += !(fabs(m) > 0);
            tied_predicted += !(fabs(p) > 0);
            if (fabs(m) > 0.05 * least * (1 + 1e-9)) {
                ++*pairs;
                in_order += m * p > 0;
            }
        }
    *tau = concordant / sqrt((all - tied_measured) * (all - tied_predicted));
    *order = in_order / (double)*pairs;
}

static void test_all_pairs(void **state) {
    (void)state;
    unsigned random = 1;
    double tau, order;
    size_t pairs;
    for (size_t i = 0; i < MANY; i++) {
        random = random * 1664525u + 1013904223u;
        const double measured = 1.0 + (random >> 16) % 40 / 40.0;
        random = random * 1664525u + 1013904223u;
        add(measured, measured + (random >> 16) % 20 / 20.0);
    }
    brute(&tau, &order, &pairs);
    take_all();
    assert_int_equal(score.pairs, pairs);
    assert_close(score.pair_order, order, 1e-12);
    assert_close(score.kendall_tau, tau, 1e-12);
}

static void test_memory(void **state) {
    (void)state;
    static struct memory_error memory[4];
    struct memory_score found;
    for (size_t i = 0; i < 4; i++) {
        memory[i] = (struct memory_error){add(1.0, 1.0), 60, 70, 70};
        steps[i].cluster.device.memory_bytes = 80;
    }
    steps[0].peak_allocated_bytes = 50;
    steps[1].peak_allocated_bytes = 75;
    steps[1].peak_reserved_bytes = 100;
    memory[3].total_bytes = 81; /* ran all the same */
    memory[2].total_bytes = 80; /* just fits */
    memory_score_of(memory, 4, &found);
    assert_int_equal(found.allocated_rows, 2);
    assert_close(found.allocated_mape, 0.2, 1e-12);
    assert_close_abs(found.allocated_bias, 0.0, 1e-12);
    assert_int_equal(found.reserved_rows, 1);
    assert_close(found.reserved_mape, 0.3, 1e-12);
    assert_int_equal(found.false_refusals, 1);
    memory_score_of(memory, 0, &found);
    assert_int_equal(found.allocated_rows + found.reserved_rows + found.false_refusals, 0);
}

/* ---- groups ---- */

static size_t rows_in(enum step_grouping by, const char *name) {
    const struct step_group group = {by, name};
    return step_score_of(errors, count, step_group_holds, &group, &score) ? score.rows : 0;
}

static void test_slices(void **state) {
    (void)state;
    add(1.0, 1.0)->geometry.experts = 8;
    steps[0].gpu = "A100";
    add(1.0, 1.0)->year = 2025;
    add(1.0, 1.0)->year = 2024;
    add(1.0, 1.0)->gpu = "A100-40G";
    add(1.0, 1.0)->fabric = "efa";
    assert_int_equal(rows_in(GROUP_BY_SLICE, "moe"), 1);
    assert_int_equal(rows_in(GROUP_BY_SLICE, "dense_2025"), 1);
    assert_int_equal(rows_in(GROUP_BY_SLICE, "a100"), 2);
    assert_int_equal(rows_in(GROUP_BY_SLICE, "other"), 2);
    assert_int_equal(rows_in(GROUP_BY_KIND, "dense"), 4);
    assert_int_equal(rows_in(GROUP_BY_ALL, "without efa"), 4);
    assert_int_equal(rows_in(GROUP_BY_SOURCE, "unstated"), 5);
    assert_int_equal(rows_in(GROUP_BY_MODEL, "none such"), 0);
}

static void names_of(enum step_grouping by, char *text, size_t size) {
    struct step_group *groups = NULL;
    size_t group_count = 0;
    text[0] = '\0';
    assert_true(step_groups_of(errors, count, by, &groups, &group_count));
    for (size_t i = 0; i < group_count; i++) {
        const size_t length = strlen(text);
        (void)snprintf(text + length, size - length, "%s;", groups[i].name);
    }
    free(groups);
}

static void test_ranges(void **state) {
    (void)state;
    static const int gpus[] = {512, 513, 1, 16, 17, 128, 129};
    char names[256];
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++)
        add(1.0, 1.0)->mesh.dp = gpus[i];
    steps[0].workload.sequence = 32768;
    steps[1].workload.sequence = 2048;
    steps[2].workload.sequence = 32769;
    names_of(GROUP_BY_GPUS, names, sizeof names);
    assert_string_equal(names, "<=16;17-128;129-512;>512;");
    assert_int_equal(rows_in(GROUP_BY_GPUS, "<=16"), 2);
    assert_int_equal(rows_in(GROUP_BY_GPUS, "17-128"), 2);
    assert_int_equal(rows_in(GROUP_BY_GPUS, "129-512"), 2);
    names_of(GROUP_BY_SEQUENCE, names, sizeof names);
    assert_string_equal(names, "<=2048;8193-32768;>32768;");
    steps[3].gpu = "b";
    steps[4].gpu = "a";
    names_of(GROUP_BY_GPU, names, sizeof names);
    assert_string_equal(names, "gpu;b;a;");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_nothing, clear),
        cmocka_unit_test_setup(test_one_row, clear),
        cmocka_unit_test_setup(test_layouts_count_once, clear),
        cmocka_unit_test_setup(test_quantiles, clear),
        cmocka_unit_test_setup(test_five_percent, clear),
        cmocka_unit_test_setup(test_ties, clear),
        cmocka_unit_test_setup(test_reversed, clear),
        cmocka_unit_test_setup(test_groups_apart, clear),
        cmocka_unit_test_setup(test_per_token, clear),
        cmocka_unit_test_setup(test_all_pairs, clear),
        cmocka_unit_test_setup(test_memory, clear),
        cmocka_unit_test_setup(test_slices, clear),
        cmocka_unit_test_setup(test_ranges, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
