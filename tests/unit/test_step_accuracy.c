// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The step model under the shipped calibrations against the shipped table of measured steps: errors
 * by slice with each distinct layout once, intervals, the order of layouts, and the size of single
 * switches.  A limit is the aim, or what is reached today where that is worse (printed as MISSED).
 */
#include "accuracy.h"

#include "fit/step_validate.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLICES = 4 };
static const char *const slices[SLICES] = {"moe", "dense_2025", "a100", "other"};
static const char without_efa[] = "without efa";

static struct step_tables *shipped, *sheets;
static struct step_validation *validation, *datasheet;

static struct step_validation *validate(const struct step_tables *tables) {
    const struct validate_options options = {.anchors = 0};
    struct step_validation *v = NULL;
    struct status_error err = {0};
    if (step_validation_run(&tables->steps, &options, &v, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    return v;
}

static int load_all(void **state) {
    (void)state;
    shipped = accuracy_load(ACCURACY_STEPS, ACCURACY_MODELS, NULL);
    sheets = accuracy_load(ACCURACY_STEPS, ACCURACY_MODELS, "generic");
    validation = validate(shipped);
    datasheet = validate(sheets);
    return 0;
}

static int free_all(void **state) {
    (void)state;
    step_validation_free(validation);
    step_validation_free(datasheet);
    doc_steps_free(shipped);
    doc_steps_free(sheets);
    return 0;
}

static struct step_score score(enum step_grouping by, const char *name) {
    return score_of_group(validation->errors, validation->count, by, name);
}

/* ---- size of errors ---- */

static void test_nearly_all_rows_are_scored(void **state) {
    (void)state;
    assert_int_equal(validation->refused_count, 0);
    AT_LEAST("table", "share of rows that are scored",
             (double)validation->count / (double)shipped->steps.rows, 0.95);
    AT_LEAST("table", "distinct layouts", (double)shipped->steps.layouts, 350);
}

static void test_errors_by_slice(void **state) {
    (void)state;
    const struct step_score moe = score(GROUP_BY_SLICE, "moe");
    AT_MOST("moe", "mean error", moe.mape, 0.11);
    AT_MOST_SO_FAR("moe", "median error", moe.median, 0.07, 0.075);
    AT_MOST("moe", "bias", fabs(moe.bias), 0.03);
    const struct step_score dense = score(GROUP_BY_SLICE, "dense_2025");
    AT_MOST_SO_FAR("dense_2025", "mean error", dense.mape, 0.07, 0.0725);
    AT_MOST("dense_2025", "median error", dense.median, 0.045);
    AT_MOST("dense_2025", "bias", fabs(dense.bias), 0.03);
    const struct step_score a100 = score(GROUP_BY_SLICE, "a100");
    AT_MOST("a100", "mean error", a100.mape, 0.11);
    AT_MOST("a100", "bias", fabs(a100.bias), 0.03);
    const struct step_score other = score(GROUP_BY_SLICE, "other");
    AT_MOST("other", "mean error", other.mape, 0.08);
    AT_MOST("other", "bias", fabs(other.bias), 0.03);
    const struct step_score all = score(GROUP_BY_ALL, without_efa);
    AT_MOST(without_efa, "mean error", all.mape, 0.08);
    AT_MOST(without_efa, "bias", fabs(all.bias), 0.03);
}

/* What the fitted constants are worth. */
static void test_data_sheets_alone_are_worse(void **state) {
    (void)state;
    for (size_t i = 0; i < SLICES; ++i) {
        const struct step_score s =
            score_of_group(datasheet->errors, datasheet->count, GROUP_BY_SLICE, slices[i]);
        print_message("%-14s data sheets alone: mean error %.4f, median %.4f, bias %+.4f\n",
                      slices[i], s.mape, s.median, s.bias);
        assert_true(s.mape > score(GROUP_BY_SLICE, slices[i]).mape);
    }
    const double all =
        score_of_group(datasheet->errors, datasheet->count, GROUP_BY_ALL, without_efa).mape;
    AT_MOST(without_efa, "mean error over that of data sheets",
            score(GROUP_BY_ALL, without_efa).mape / all, 0.6);
    AT_MOST(without_efa, "mean error of data sheets", all, 0.25);
}

static void test_intervals_cover(void **state) {
    (void)state;
    for (size_t i = 0; i < SLICES; ++i) {
        const struct step_score s = score(GROUP_BY_SLICE, slices[i]);
        AT_LEAST(slices[i], "rows in their 90 % interval", s.coverage, 0.85);
        AT_MOST(slices[i], "rows in their 90 % interval", s.coverage, 0.95);
    }
}

/* ---- order ---- */

static void test_order_of_layouts(void **state) {
    (void)state;
    const struct step_score all = score(GROUP_BY_ALL, without_efa);
    AT_LEAST("all", "pairs", (double)all.pairs, 900);
    /* Nine in ten pairs are one source of 2023 on A100; two of its rows (V0760 in one micro-batch
     * of 64, V0786 with TP2) run half as long again as their neighbours, and lose a quarter of what
     * is out of order. */
    AT_LEAST_SO_FAR("all", "pairs in order", all.pair_order, 0.9, 0.86);
    AT_MOST("all", "regret", all.regret, 0.07);
    const struct step_score moe = score(GROUP_BY_SLICE, "moe");
    AT_LEAST("moe", "pairs in order", moe.pair_order, 0.9);
    AT_MOST("moe", "regret", moe.regret, 0.07);
    const struct step_score dense = score(GROUP_BY_SLICE, "dense_2025");
    AT_LEAST("dense_2025", "pairs in order", dense.pair_order, 0.9);
    const struct step_score a100 = score(GROUP_BY_SLICE, "a100");
    AT_LEAST_SO_FAR("a100", "pairs in order", a100.pair_order, 0.9, 0.86);
    AT_MOST("a100", "regret", a100.regret, 0.07);
}

/* ---- single rows ---- */

static const struct step_error *row_of(const char *id) {
    for (size_t i = 0; i < validation->count; ++i)
        if (strcmp(validation->errors[i].step->id, id) == 0)
            return &validation->errors[i];
    fail_msg("no row %s is scored", id);
    return NULL;
}

static double tokens_of(const struct measured_step *step) {
    return (double)step->workload.global_batch * (double)step->workload.sequence;
}

/* Two layouts of one job that a model without de-duplication or EP overlap puts the wrong way. */
static void test_deepseek_v3_on_256_b200(void **state) {
    (void)state;
    const struct step_error *const wide = row_of("V0053"), *const deep = row_of("V0086");
    assert_true(wide->step->mesh.ep == 32 && wide->step->mesh.pp == 8);
    assert_true((wide->step->workload.execution.overlap & OVERLAP_EP) != 0);
    assert_true(deep->step->mesh.ep == 8 && deep->step->mesh.pp == 16);
    assert_true(measured_step_gpus(wide->step) == 256 && measured_step_gpus(deep->step) == 256);
    const double measured = deep->step->step_time_s / tokens_of(deep->step) *
                            tokens_of(wide->step) / wide->step->step_time_s;
    const double predicted =
        deep->predicted_s / tokens_of(deep->step) * tokens_of(wide->step) / wide->predicted_s;
    print_message("DeepSeek-V3: EP8 PP16 takes %.3f times EP32 PP8, predicted %.3f\n", measured,
                  predicted);
    assert_true(predicted > 1.0);
    AT_MOST("DeepSeek-V3", "error of the ratio", fabs(predicted / measured - 1.0), 0.1);
}

/* Same layout of 256 H100 with forced and natural routing, by sequence. */
static void test_natural_routing(void **state) {
    (void)state;
    static const struct {
        const char *forced, *natural;
    } pairs[] = {{"V0241", "V0242"}, {"V0243", "V0244"}, {"V0247", "V0248"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i) {
        const struct step_error *const f = row_of(pairs[i].forced);
        const struct step_error *const n = row_of(pairs[i].natural);
        assert_true(n->step->workload.imbalance > f->step->workload.imbalance);
        assert_int_equal(n->step->workload.sequence, f->step->workload.sequence);
        const double measured = n->step->step_time_s / f->step->step_time_s;
        const double predicted = n->predicted_s / f->predicted_s;
        print_message("natural over forced at %d: %.3f, predicted %.3f\n",
                      f->step->workload.sequence, measured, predicted);
        AT_MOST("routing", "error of natural over forced", fabs(predicted - measured), 0.04);
    }
}

/* ---- EP overlap ---- */

/* Rows that are not in the table: Megatron-Bridge's study of EP overlap (Apache-2.0), with the
 * step's time off and on. */
static const char overlap_study[] =
    "id,model,gpu,n_gpus,gpus_per_node,nvlink_domain,fabric,precision,seq_len,mbs,gbs,tp,pp,vpp,cp,"
    "ep,etp,dp,shard,recompute,offload,moment_dtype,grad_dtype,optimizer,dispatcher,overlap,"
    "cuda_graph,routing,software,step_time_s,source,licence\n"
    "off,Qwen3-30B-A3B,H100,16,8,8,ib,BF16,4096,1,1024,1,1,1,1,16,1,16,zero1,none,,bf16,bf16,adamw,"
    "unstated,dp_grad_overlap,transformer_engine:attn+moe_router+moe_preprocess,forced,2026-08,24."
    "714,study,Apache-2.0\n"
    "on,Qwen3-30B-A3B,H100,16,8,8,ib,BF16,4096,1,1024,1,1,1,1,16,1,16,zero1,none,,bf16,bf16,adamw,"
    "unstated,ep_1f1b_overlap "
    "dp_grad_overlap,transformer_engine:attn+moe_router+moe_preprocess,forced,2026-08,20.992,study,"
    "Apache-2.0\n";

static struct step_tables *load_text(const char *text) {
    char path[] = "/tmp/test_step_accuracy_XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(close(file), 0);
    struct step_tables *const tables = accuracy_load(path, ACCURACY_MODELS, NULL);
    assert_int_equal(unlink(path), 0);
    return tables;
}

static void test_overlap_of_experts(void **state) {
    (void)state;
    double seconds[2];
    struct step_tables *const t = load_text(overlap_study);
    assert_int_equal(t->steps.count, 2);
    for (size_t i = 0; i < 2; ++i) {
        struct prediction p;
        measured_step_predict(&t->steps.items[i], NULL, &p);
        seconds[i] = p.step_time_s;
    }
    const double measured = 1.0 - t->steps.items[1].step_time_s / t->steps.items[0].step_time_s;
    const double predicted = 1.0 - seconds[1] / seconds[0];
    print_message(
        "EP overlap off and on: %.3g s and %.3g s predicted, %.3g s and %.3g s measured\n",
        seconds[0], seconds[1], t->steps.items[0].step_time_s, t->steps.items[1].step_time_s);
    AT_MOST_SO_FAR("Qwen3-30B", "error of the gain by EP overlap", fabs(predicted - measured), 0.03,
                   0.048);
    doc_steps_free(t);
}

/* A pair of the table: 256 H100, EP32 over four nodes. */
static void test_overlap_of_experts_over_nodes(void **state) {
    (void)state;
    const struct step_error *const off = row_of("V0236"), *const on = row_of("V0237");
    const double measured = 1.0 - on->step->step_time_s / off->step->step_time_s;
    const double predicted = 1.0 - on->predicted_s / off->predicted_s;
    print_message("Qwen3-235B, gain by EP overlap: %.3f, predicted %.3f\n", measured, predicted);
    assert_true(predicted > 0.0);
    AT_MOST("Qwen3-235B", "error of the gain by EP overlap", fabs(predicted - measured), 0.03);
}

/* ---- EFA ---- */

static void test_efa(void **state) {
    (void)state;
    const struct step_score s = score(GROUP_BY_FABRIC, "efa");
    AT_LEAST("efa", "layouts", (double)s.layouts, 10);
    AT_MOST("efa", "median error", s.median, 0.25);
    AT_LEAST("efa", "pairs in order", s.pair_order, 0.8);
}

/* A micro-batch of 1 takes longer than one of 4, and DeepEP longer than NCCL, in every such pair.
 */
static void test_efa_switches(void **state) {
    (void)state;
    static const struct {
        const char *fast, *slow;
    } pairs[] = {{"A058", "A061"}, {"A059", "A062"}, {"A067", "A070"}, {"A068", "A071"},
                 {"A058", "A059"}, {"A061", "A062"}, {"A067", "A068"}, {"A070", "A071"}};
    size_t in_order = 0;
    const size_t count = sizeof pairs / sizeof *pairs;
    for (size_t i = 0; i < count; ++i) {
        const struct step_error *const fast = row_of(pairs[i].fast);
        const struct step_error *const slow = row_of(pairs[i].slow);
        assert_true(fast->step->step_time_s < slow->step->step_time_s);
        in_order += fast->predicted_s < slow->predicted_s;
        print_message("efa %s %s: %.3f, predicted %.3f\n", pairs[i].fast, pairs[i].slow,
                      slow->step->step_time_s / fast->step->step_time_s,
                      slow->predicted_s / fast->predicted_s);
    }
    AT_LEAST("efa", "switches with the right sign", (double)in_order / (double)count, 1.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearly_all_rows_are_scored),
        cmocka_unit_test(test_errors_by_slice),
        cmocka_unit_test(test_data_sheets_alone_are_worse),
        cmocka_unit_test(test_intervals_cover),
        cmocka_unit_test(test_order_of_layouts),
        cmocka_unit_test(test_deepseek_v3_on_256_b200),
        cmocka_unit_test(test_natural_routing),
        cmocka_unit_test(test_overlap_of_experts),
        cmocka_unit_test(test_overlap_of_experts_over_nodes),
        cmocka_unit_test(test_efa),
        cmocka_unit_test(test_efa_switches),
    };
    return cmocka_run_group_tests(tests, load_all, free_all);
}
