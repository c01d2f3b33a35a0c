// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Predicted memory against the peaks that the shipped table of measured steps states, under each
 * row's own calibration: what tensors take, what the allocator holds, and that no job that ran is
 * refused.  A limit is the aim, or what is reached today where that is worse (printed as MISSED).
 */
#include "accuracy.h"

#include "fit/step_validate.h"

#include <stdlib.h>
#include <string.h>

static struct step_tables *shipped;
static struct step_validation *validation;
static struct memory_error *picked;

static int load(void **state) {
    (void)state;
    const struct validate_options options = {.anchors = 0};
    struct status_error err = {0};
    shipped = accuracy_load(ACCURACY_STEPS, ACCURACY_MODELS, NULL);
    if (step_validation_run(&shipped->steps, &options, &validation, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    picked = calloc(validation->count, sizeof *picked);
    return picked ? 0 : -1;
}

static int unload(void **state) {
    (void)state;
    free(picked);
    step_validation_free(validation);
    doc_steps_free(shipped);
    return 0;
}

typedef bool row_filter(const struct measured_step *step);

/* The rows that measured some memory and pass the filter. */
static struct memory_score score_of(row_filter *holds) {
    struct memory_score score;
    size_t count = 0;
    for (size_t i = 0; i < validation->count; ++i) {
        const struct measured_step *const step = validation->memory[i].step;
        if ((step->peak_allocated_bytes > 0.0 || step->peak_reserved_bytes > 0.0) && holds(step))
            picked[count++] = validation->memory[i];
    }
    memory_score_of(picked, count, &score);
    return score;
}

static bool on_b200(const struct measured_step *step) {
    return strcmp(step->gpu, "B200") == 0;
}

static bool is_state_known(const struct measured_step *step) {
    return (step->unstated & UNSTATED_STATE) == 0;
}

static bool is_moonlight(const struct measured_step *step) {
    return strcmp(step->model, "Moonlight-16B-A3B") == 0 && step->peak_allocated_bytes > 0.0;
}

static bool on_another(const struct measured_step *step) {
    return !on_b200(step);
}

static void print_rows(row_filter *holds) {
    for (size_t i = 0; i < validation->count; ++i) {
        const struct memory_error *const e = &validation->memory[i];
        const struct measured_step *const step = e->step;
        if (!holds(step))
            continue;
        if (step->peak_allocated_bytes > 0.0)
            print_message("%-10s %-20s allocated %7.2f GB, predicted %7.2f (%+.1f %%)\n", step->id,
                          step->model, step->peak_allocated_bytes / 1e9, e->allocated_bytes / 1e9,
                          100.0 * (e->allocated_bytes / step->peak_allocated_bytes - 1.0));
        if (step->peak_reserved_bytes > 0.0)
            print_message("%-10s %-20s reserved  %7.2f GB, predicted %7.2f (%+.1f %%)\n", step->id,
                          step->model, step->peak_reserved_bytes / 1e9, e->reserved_bytes / 1e9,
                          100.0 * (e->reserved_bytes / step->peak_reserved_bytes - 1.0));
    }
}

static void test_b200(void **state) {
    (void)state;
    const struct memory_score s = score_of(on_b200);
    assert_true(s.allocated_rows >= 25 && s.reserved_rows >= 25);
    AT_MOST("B200", "mean error of allocated peaks", s.allocated_mape, 0.015);
    AT_MOST("B200", "bias of allocated peaks", fabs(s.allocated_bias), 0.01);
    AT_MOST("B200", "mean error of reserved peaks", s.reserved_mape, 0.05);
    AT_MOST("B200", "jobs that ran, refused", (double)s.false_refusals, 0.0);
}

/* Rows that say how gradients and moments are held: none that measured memory does yet. */
static void test_state_is_stated(void **state) {
    (void)state;
    const struct memory_score s = score_of(is_state_known);
    print_message("%zu allocated peaks with stated formats\n", s.allocated_rows);
    if (s.allocated_rows > 0)
        AT_MOST("stated formats", "mean error of allocated peaks", s.allocated_mape, 0.05);
}

/* The recipe of the layout and release of these rows (Megatron-Bridge, recipes/moonlight/h100, TP 2
 * EP 8 on 8 GPUs) keeps gradients and moments in bf16, which the table does not say. */
static void test_state_by_the_recipe(void **state) {
    (void)state;
    struct memory_score s;
    size_t count = 0;
    for (size_t i = 0; i < validation->count; ++i) {
        if (!is_moonlight(validation->memory[i].step))
            continue;
        struct measured_step step = *validation->memory[i].step;
        struct prediction p;
        step.workload.execution.bf16_gradients = step.workload.execution.bf16_moments = true;
        measured_step_predict(&step, NULL, &p);
        picked[count] = validation->memory[i];
        picked[count++].allocated_bytes = p.allocated_bytes;
        print_message("%-10s allocated %7.2f GB, predicted %7.2f (%+.1f %%)\n", step.id,
                      step.peak_allocated_bytes / 1e9, p.allocated_bytes / 1e9,
                      100.0 * (p.allocated_bytes / step.peak_allocated_bytes - 1.0));
    }
    assert_true(count >= 6);
    memory_score_of(picked, count, &s);
    AT_MOST("known formats", "mean error of allocated peaks", s.allocated_mape, 0.05);
}

static void test_others(void **state) {
    (void)state;
    const struct memory_score s = score_of(on_another);
    print_rows(on_another);
    AT_MOST_SO_FAR("others", "mean error of allocated peaks", s.allocated_mape, 0.05, 0.05);
    AT_MOST_SO_FAR("others", "mean error of reserved peaks", s.reserved_mape, 0.05, 0.30);
    print_message("others: %zu of the jobs that ran are refused\n", s.false_refusals);
}

/* Every scored row is a job that ran, whether or not it measured memory. */
static void test_all_that_ran(void **state) {
    (void)state;
    struct memory_score s;
    size_t refused = 0;
    for (size_t i = 0; i < validation->count; ++i) {
        const struct memory_error *const e = &validation->memory[i];
        if (!(e->total_bytes > e->step->cluster.device.memory_bytes))
            continue;
        refused += on_b200(e->step);
        print_message("refused: %-10s %-20s %-12s %.1f GB of %.1f GB\n", e->step->id,
                      e->step->model, e->step->gpu, e->total_bytes / 1e9,
                      e->step->cluster.device.memory_bytes / 1e9);
    }
    memory_score_of(validation->memory, validation->count, &s);
    AT_MOST_SO_FAR("B200", "jobs that ran, refused", (double)refused, 0.0, 0.0);
    AT_MOST_SO_FAR("all", "share of jobs that ran, refused",
                   (double)s.false_refusals / (double)validation->count, 0.0, 0.025);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_b200),
        cmocka_unit_test(test_state_is_stated),
        cmocka_unit_test(test_state_by_the_recipe),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_all_that_ran),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
