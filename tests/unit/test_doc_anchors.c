// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * `measured_steps` of a calibration: what a plan makes of one and of three, in any order; what is
 * left out with a note; and every way to write one wrong, at its place.
 */
#include "test_doc.h"

#include "plan/best_layout.h"
#include "step/anchor.h"

/* A small dense model on one node, predicted as it is measured. */
#define MODEL                                                                                      \
    "{layers: 16, hidden: 2048, heads: 16, head_dim: 128, kv_heads: 8, dense_ffn: 8192, "          \
    "first_dense: 16, vocab: 32000}"
#define PLAN                                                                                       \
    "schema: mosaic-plan/1\n"                                                                      \
    "cluster: clusters/h100-ib.yaml\n"                                                             \
    "nodes: 2\n"                                                                                   \
    "budget: {days: 5}\n"                                                                          \
    "model: " MODEL "\n"                                                                           \
    "workload: {sequence: 4096, global_batch: 256}\n"                                              \
    "search:\n"                                                                                    \
    "  tokens: {per_active_parameter: none}\n"                                                     \
    "  layout: {tp: 1, cp: 1, pp: 1, vpp: 1, ep: 1, etp: 1, micro_batch: 2, recompute: none}\n"    \
    "calibration:\n"                                                                               \
    "  name: mine\n"                                                                               \
    "  device: H100\n"                                                                             \
    "  entries:\n"                                                                                 \
    "    - {quantity: host.launch_gap, value: 9 us, source: s, licence: l}\n"
/* Line 15 of a plan is the key, line 16 the first step. */
#define STEPS "  measured_steps:\n"
#define JOB "nodes: 2, sequence: 4096, global_batch: 256, precision: bf16, source: s"
#define ON_TWO "layout: {micro_batch: 2, recompute: none}, execution: {}, " JOB

static struct document *plan_with(const char *steps) {
    static char text[16384];
    (void)snprintf(text, sizeof text, "%s%s", PLAN, steps);
    return must_parse(text, NULL, 0);
}

static struct prediction predicted(const struct document *d) {
    struct prediction p;
    struct layout layout = {.split = {.stages = 1}};
    struct geometry g;
    struct status_error err;
    if (document_pinned(d, &g, &layout.mesh, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    split_even(g.layers, 1, &layout.split);
    best_layout_predict(&d->problem, &g, &layout, &p, NULL);
    return p;
}

static double plain_s(void) {
    struct document *const d = plan_with("");
    const double step_s = predicted(d).step_time_s;
    assert_null(d->problem.workload.anchors);
    document_free(d);
    return step_s;
}

/* A step of the plan's own job at so many times its prediction. */
static void add_step(char *text, size_t size, double ratio) {
    const size_t used = strlen(text);
    (void)snprintf(text + used, size - used,
                   "    - {model: " MODEL ", " ON_TWO ", step_time: %.17g s}\n", ratio * plain_s());
}

static const double b = 0.12, w = 0.11; /* of the generic document */

static void one_step(void **state) {
    (void)state;
    char text[4096] = STEPS;
    add_step(text, sizeof text, 1.2);
    struct document *const d = plan_with(text);
    const struct prediction p = predicted(d);
    const double factor = exp(b * b / (b * b + w * w) * log(1.2));
    assert_int_equal(p.anchor_steps, 1);
    assert_close(p.anchor_factor, factor, 1e-9);
    assert_close(p.step_time_s, factor * plain_s(), 1e-9);
    assert_close(p.step_time_s - p.split.correction_s, plain_s(), 1e-9);
    assert_close(p.sigma,
                 fmin(sqrt(w * w + b * b * w * w / (b * b + w * w)),
                      d->problem.calibration.scalar[CAL_SIGMA]),
                 1e-9);
    assert_int_equal(said.count, 0);
    document_free(d);
}

static void three_steps_in_any_order(void **state) {
    (void)state;
    static const double orders[][3] = {{1.1, 0.7, 1.2}, {0.7, 1.2, 1.1}, {1.2, 1.1, 0.7}};
    double first = 0.0;
    for (size_t k = 0; k < sizeof orders / sizeof orders[0]; ++k) {
        char text[4096] = STEPS;
        for (int i = 0; i < 3; ++i)
            add_step(text, sizeof text, orders[k][i]);
        struct document *const d = plan_with(text);
        const struct prediction p = predicted(d);
        assert_int_equal(p.anchor_steps, 3);
        assert_close(p.anchor_factor, exp(3 * b * b / (3 * b * b + w * w) * log(1.1)), 1e-9);
        first = k == 0 ? p.step_time_s : first;
        assert_true(p.step_time_s == first);
        document_free(d);
    }
}

/* One model from a file and inline, by the step's own nodes. */
static void models_and_nodes(void **state) {
    (void)state;
    struct document *const d = plan_with(
        STEPS "    - {model: models/llama3-8b.yaml, layout: {tp: 2, micro_batch: 1, "
              "recompute: full},\n       nodes: 1, sequence: 8192, global_batch: 128, precision: "
              "bf16, source: s, step_time: 13.5 s}\n"
              "    - {model: ../tests/hf/qwen3-4b.json, " ON_TWO ", step_time: 3.5 s}\n");
    int notes = 0;
    for (size_t i = 0; i < said.count; ++i)
        notes += strstr(said.items[i].message, "change nothing here") != NULL;
    assert_int_equal(notes, 2);
    const struct anchors *const a = d->problem.workload.anchors;
    assert_non_null(a);
    assert_int_equal(a->count, 2);
    assert_int_equal(a->items[0].geometry.layers, 32);
    assert_int_equal(a->items[1].geometry.layers, 36);
    assert_int_equal(predicted(d).anchor_steps, 0);
    assert_true(predicted(d).step_time_s == plain_s());
    document_free(d);
}

static void left_out(void **state) {
    (void)state;
    static const struct document_override published = {"estimator", "published"};
    static const struct document_override none = {"calibration.measured_steps", "[]"};
    static const struct document_override faster = {"cluster.device.hbm_bandwidth", "6 TB/s"};
    static const struct {
        const char *step;
        const struct document_override *set;
        const char *message;
        bool is_anchored;
    } cases[] = {
        {"engine: {name: megatron, version: '2022'}, ", NULL, "megatron 2022 says nothing of",
         false},
        {"engine: {name: megatron, version: '2026.08'}, ", NULL, NULL, true},
        {"", &published, "the default estimator only", false},
        {"", &none, NULL, false},
        {"", &faster, "under cluster.device.hbm_bandwidth as set", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        char text[8192];
        (void)snprintf(text, sizeof text,
                       PLAN STEPS "    - {%smodel: " MODEL ", " ON_TWO ", step_time: %.17g s}\n",
                       cases[i].step, plain_s());
        struct document *const d = must_parse(text, cases[i].set, cases[i].set ? 1 : 0);
        bool is_said = cases[i].message == NULL;
        for (size_t k = 0; k < said.count; ++k)
            is_said = is_said || strstr(said.items[k].message, cases[i].message);
        if (!is_said || (d->problem.workload.anchors != NULL) != cases[i].is_anchored)
            fail_msg("case %zu: %s", i, said.count > 0 ? said.items[0].message : "nothing said");
        document_free(d);
    }
}

/* A what-if of the plan's execution shows in full: steps are of the engine's recipe. */
static void what_if_of_the_execution(void **state) {
    (void)state;
    static const struct document_override serial = {"execution.dp_overlap", "false"};
    char steps[4096] = STEPS, text[8192];
    add_step(steps, sizeof steps, 1.2);
    (void)snprintf(text, sizeof text, "%s%s", PLAN, steps);
    struct document *d = must_parse(text, NULL, 0);
    const double factor = predicted(d).anchor_factor;
    document_free(d);
    d = must_parse(text, &serial, 1);
    assert_true(predicted(d).anchor_factor == factor);
    document_free(d);
}

#define STEP(fields) "    - {" fields "}\n"
static const struct {
    const char *steps; /* from line 16 */
    long line, column;
    const char *message;
} bad[] = {
    {STEP("model: " MODEL ", " ON_TWO ", step_time: 0 s"), 16, 0, "step_time"},
    {STEP("model: " MODEL ", " ON_TWO ", step_time: 5"), 16, 0, "time"},
    {STEP("model: " MODEL ", " ON_TWO), 16, 7, "missing key 'step_time'"},
    {STEP(ON_TWO ", step_time: 1 s"), 16, 7, "missing key 'model'"},
    {STEP("model: nowhere.yaml, " ON_TWO ", step_time: 1 s"), 16, 15, "nowhere.yaml"},
    {STEP("model: [], " ON_TWO ", step_time: 1 s"), 16, 15, "FILE or a mapping"},
    {STEP("model: clusters/h100-ib.yaml, " ON_TWO ", step_time: 1 s"), 0, 0, "mosaic-cluster/1"},
    {STEP("layout: {ep: 3, micro_batch: 2, recompute: none}, " JOB
          ", step_time: 1 s, model: " MODEL),
     16, 21, "EP 3 and ETP 1"},
    {STEP("layout: {micro_batch: 5, recompute: none}, " JOB ", step_time: 1 s, model: " MODEL), 16,
     30, "micro-batch 5"},
    {STEP("layout: {tp: 3, micro_batch: 2, recompute: none}, " JOB
          ", step_time: 1 s, model: " MODEL),
     16, 21, "TP"},
    {STEP("layout: {pp: 2, micro_batch: 2, recompute: none, schedule: gpipe}, " JOB
          ", step_time: 1 s, model: " MODEL),
     16, 67, "schedule"},
    {STEP("layout: {micro_batch: 2}, " JOB ", step_time: 1 s, model: " MODEL), 16, 8, "recompute"},
    {STEP("step_time: 100 s, model: " MODEL ", " ON_TWO), 16, 19, "beyond 3 either way"},
    {STEP("step_time: 100 ms, model: " MODEL ", " ON_TWO), 16, 19, "MFU"},
    {STEP("engine: {name: megatron}, step_time: 1 s, model: " MODEL ", " ON_TWO), 16, 8, "version"},
    {STEP(
         "nodes: 2000000, layout: {micro_batch: 2, recompute: none}, sequence: 1, global_batch: 1, "
         "precision: bf16, source: s, step_time: 1 s, model: " MODEL),
     16, 15, "nodes"},
    {STEP("precision: nvfp4, nodes: 2, layout: {micro_batch: 2, recompute: none}, sequence: 4096, "
          "global_batch: 256, source: s, step_time: 1 s, model: " MODEL),
     16, 19, "nvfp4"},
    {STEP("speed: 3, step_time: 1 s, model: " MODEL ", " ON_TWO), 16, 8, "unknown key 'speed'"},
    {"    - 12\n", 16, 7, "mapping"},
};

static void bad_steps(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        char text[8192];
        (void)snprintf(text, sizeof text, "%s%s%s", PLAN, STEPS, bad[i].steps);
        struct document *d = NULL;
        if (parse(text, NULL, 0, &d) != MOSAIC_BAD_INPUT && said.status != MOSAIC_IO)
            fail_msg("accepted: %s", bad[i].steps);
        bool is_said = false;
        for (size_t k = 0; k < said.count; ++k) {
            const struct diag *const one = &said.items[k];
            const bool is_here = (bad[i].line == 0 || one->line == bad[i].line) &&
                                 (bad[i].column == 0 || one->column == bad[i].column);
            is_said = is_said || (is_here && (strstr(one->message, bad[i].message) ||
                                              strstr(one->hint, bad[i].message)));
        }
        if (!is_said)
            fail_msg("%s%ld:%ld: %s (%s), want %ld:%ld with '%s'", bad[i].steps, said.items[0].line,
                     said.items[0].column, said.items[0].message, said.items[0].hint, bad[i].line,
                     bad[i].column, bad[i].message);
    }
}

static void far_but_not_absurd(void **state) {
    (void)state;
    char text[4096] = STEPS;
    add_step(text, sizeof text, 1.7);
    struct document *const d = plan_with(text);
    assert_int_equal(said.warnings, 1);
    assert_non_null(strstr(said.items[0].message, "70 % apart"));
    assert_int_equal(said.items[0].line, 16);
    document_free(d);
}

static void at_most_so_many(void **state) {
    (void)state;
    static char steps[65536] = STEPS, text[131072];
    for (int i = 0; i <= ANCHORS_MAX; ++i)
        (void)snprintf(steps + strlen(steps), sizeof steps - strlen(steps),
                       "    - {model: models/llama3-8b.yaml, " ON_TWO ", step_time: 1 s}\n");
    (void)snprintf(text, sizeof text, "%s%s", PLAN, steps);
    struct document *d = NULL;
    assert_int_equal(parse(text, NULL, 0, &d), MOSAIC_BAD_INPUT);
    assert_int_equal(said.items[0].line, 16 + ANCHORS_MAX);
    assert_non_null(strstr(said.items[0].message, "at most 64"));
}

/* A calibration by itself has no machine: its steps are read, not predicted. */
static void a_calibration_alone(void **state) {
    (void)state;
    static const char head[] =
        "schema: mosaic-calibration/1\nname: mine\ndevice: X\nentries:\n"
        "  - {quantity: host.launch_gap, value: 9 us, source: s, licence: l}\n"
        "measured_steps:\n";
    char text[2048];
    (void)snprintf(text, sizeof text, "%s  - {model: " MODEL ", " ON_TWO ", step_time: 900 s}\n",
                   head);
    struct document *d = must_parse(text, NULL, 0);
    assert_int_equal(origin(d, "measured_steps[0].step_time"), DOCUMENT_GIVEN);
    document_free(d);
    (void)snprintf(text, sizeof text, "%s  - {model: " MODEL ", " ON_TWO ", step_time: 900 s/s}\n",
                   head);
    assert_int_equal(parse(text, NULL, 0, &d), MOSAIC_BAD_INPUT);
    assert_int_equal(said.items[0].line, 7);
    (void)snprintf(text, sizeof text, "%.*s measured\n", (int)sizeof head - 2, head);
    assert_int_equal(parse(text, NULL, 0, &d), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(said.items[0].message, "must be a list"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_step),
        cmocka_unit_test(three_steps_in_any_order),
        cmocka_unit_test(models_and_nodes),
        cmocka_unit_test(left_out),
        cmocka_unit_test(what_if_of_the_execution),
        cmocka_unit_test(bad_steps),
        cmocka_unit_test(far_but_not_absurd),
        cmocka_unit_test(at_most_so_many),
        cmocka_unit_test(a_calibration_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
