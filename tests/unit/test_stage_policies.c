// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Pipelines whose stages recompute differently: the evaluator against stages priced one by one and
 * composed by hand, what a result says of each stage and reading that back bit for bit, and one
 * policy for all as if nothing had been there.
 */
#include "p6.h"
#include "plan/layout_list.h"
#include "report/build.h"
#include "test_doc.h"

#include "step_case.h"

#include "step/memory.h"
#include "step/published.h"

#include <stdlib.h>

enum { POINTS = 400, TEXT = 4096 };

/* ---- the evaluator ---- */

/* A random pipeline of a schedule that takes stages that differ, and a policy for each. */
static void random_mixed(struct job *job) {
    struct point *const at = &job->s.at;
    do
        random_job(job, &p6.calibration, true);
    while (!mesh_takes_policies(&at->mesh) ||
           job->s.workload.execution.checkpoint_host_bytes > 0.0);
    at->split.is_mixed = true;
    int most = 0;
    for (int i = 0; i < at->mesh.pp; ++i) {
        at->split.recompute[i] = (uint8_t)random_below(RECOMPUTE_MODES);
        most = at->split.recompute[i] > most ? at->split.recompute[i] : most;
    }
    at->mesh.recompute = (enum recompute)most;
    layer_table_fill(&at->ctx, &at->mesh, &at->table);
}

/* Stage i as one of a pipeline that recomputes alike. */
static void alike(const struct point *at, int i, struct mesh *mesh, struct layer_table *table) {
    *mesh = at->mesh;
    mesh->recompute = split_recompute(&at->split, &at->mesh, i);
    layer_table_fill(&at->ctx, mesh, table);
}

static void stages_by_themselves(void **unused) {
    (void)unused;
    static struct job job;
    int differ = 0;
    for (int k = 0; k < POINTS; ++k) {
        random_mixed(&job);
        struct point *const at = &job.s.at;
        step_predict(&at->ctx, &at->table, &at->mesh, &at->split, &at->out, at->stages);
        const struct pipeline_form form = pipeline_form_of(&at->ctx, &at->table, &at->mesh);
        double sum_s = 0.0, most_s = 0.0, tail_s = 0.0, bytes = 0.0;
        for (int i = 0; i < at->mesh.pp; ++i) {
            const struct stage_range range = {i, at->split.first[i], at->split.first[i + 1]};
            struct mesh mesh;
            struct layer_table table;
            struct stage_cost cost;
            struct memory_items items;
            alike(at, i, &mesh, &table);
            stage_cost_of(&at->ctx, &table, &mesh, range, &cost);
            stage_memory_of(&at->ctx, &table, &mesh, range, &items);
            sum_s += cost.busy_s;
            most_s = fmax(most_s, cost.busy_s);
            tail_s = fmax(tail_s, cost.tail_s);
            bytes = fmax(bytes, items.total);
            assert_memory_equal(&items, &at->stages[i], sizeof items);
        }
        const double step_s = form.max_weight * most_s + form.sum_weight * sum_s + tail_s;
        /* A bubble is never negative, whatever the share of imbalance. */
        assert_true(at->out.step_time_s >= step_s * step_factor(&at->ctx) * (1.0 - 1e-9));
        if (at->out.split.bubble_s > 0.0 && at->out.split.stage_imbalance_s > 0.0)
            assert_close(at->out.step_time_s, step_s * step_factor(&at->ctx), 1e-9);
        assert_close(at->out.memory.total, bytes, 0.0);
        assert_close(time_split_sum(&at->out.split), at->out.step_time_s, 1e-12);
        differ += split_policies(&at->split, &at->mesh) != 1U << at->mesh.recompute;
    }
    assert_true(differ > POINTS / 2);
}

/* The same policy everywhere is what the mesh says; between none and the most of any stage lies
 * what the stages do. */
static void between_the_ends(void **unused) {
    (void)unused;
    static struct job job;
    for (int k = 0; k < POINTS; ++k) {
        random_mixed(&job);
        struct point *const at = &job.s.at;
        struct prediction mixed, whole, listed;
        step_predict(&at->ctx, &at->table, &at->mesh, &at->split, &mixed, NULL);
        struct split split = at->split;
        split.is_mixed = false;
        step_predict(&at->ctx, &at->table, &at->mesh, &split, &whole, NULL);
        split.is_mixed = true;
        memset(split.recompute, (int)at->mesh.recompute, sizeof split.recompute);
        step_predict(&at->ctx, &at->table, &at->mesh, &split, &listed, NULL);
        assert_close(listed.step_time_s, whole.step_time_s, 1e-12);
        assert_close(listed.hfu, whole.hfu, 1e-12);
        assert_close(listed.memory.total, whole.memory.total, 0.0);
        assert_close(listed.host_bytes, whole.host_bytes, 0.0);
        assert_close(listed.host_node_bytes, whole.host_node_bytes, 0.0);
        assert_int_equal(listed.verdict, whole.verdict);
        assert_true(mixed.split.recompute_s <= whole.split.recompute_s * (1.0 + 1e-12));
        assert_true(mixed.hfu >= mixed.mfu * (1.0 - 1e-12));
    }
}

/* ---- documents ---- */

#define PLAN(per_stage, layout)                                                                    \
    "schema: mosaic-plan/1\n"                                                                      \
    "cluster: clusters/p5-h100.yaml\n"                                                             \
    "nodes: 128\n"                                                                                 \
    "budget: {days: 20}\n"                                                                         \
    "workload: {sequence: 4096, global_batch: 4096}\n"                                             \
    "engine: {schema: mosaic-engine/1, name: own, version: \"1\", uneven_stages: true, "           \
    "recompute_per_stage: " per_stage ", interleaved_batches_divide: true, "                       \
    "kv_replication: true, vocab_pad_unit: 128}\n"                                                 \
    "model: models/deepseek-v3.yaml\n"                                                             \
    "search:\n"                                                                                    \
    "  layout:\n"                                                                                  \
    "    tp: 2\n"                                                                                  \
    "    cp: 1\n"                                                                                  \
    "    etp: 1\n"                                                                                 \
    "    micro_batch: 1\n" layout

static struct listed_layout fastest(const struct document *d) {
    static struct layout_list list;
    struct status_error err = {0};
    const struct layout_list_options options = {.top = 1};
    if (layout_list_find(&d->problem, &d->problem.geometries.items[0], &options, &list, &err) !=
        MOSAIC_OK)
        fail_msg("%s", err.message);
    assert_int_equal(list.count, 1);
    return list.items[0];
}

/* The stages of a result as a plan states them. */
static void state_stages(json_t *layout, char *text, size_t size) {
    json_t *const stages = json_object_get(layout, "stages");
    size_t i;
    json_t *stage;
    int used = snprintf(text, size, "    pp: %d\n    ep: %d\n    vpp: %d\n    stages:\n",
                        (int)json_integer_value(json_object_get(layout, "pp")),
                        (int)json_integer_value(json_object_get(layout, "ep")),
                        (int)json_integer_value(json_object_get(layout, "vpp")));
    json_array_foreach(stages, i, stage) {
        json_t *const layers = json_object_get(stage, "layers");
        used += snprintf(text + used, size - (size_t)used, "      - {layers: %d, recompute: %s}\n",
                         (int)(json_integer_value(json_array_get(layers, 1)) -
                               json_integer_value(json_array_get(layers, 0)) + 1),
                         json_string_value(json_object_get(stage, "recompute")));
    }
}

/* What `predict` makes of a plan. */
static void predict(const struct document *d, struct report_point *point) {
    struct status_error err = {0};
    if (document_pinned(d, &point->geometry, &point->layout.mesh, &err) != MOSAIC_OK ||
        best_layout_evaluate(&d->problem, &point->geometry, &point->layout.mesh, &point->layout,
                             &point->prediction, point->stages, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
}

static void results_read_back(void **unused) {
    (void)unused;
    static const char *const layouts[] = {
        "    pp: [8, 16]\n    ep: [32, 64]\n    vpp: 1\n",
        "    pp: 16\n    ep: 32\n    vpp: 1\n    recompute: [none, selective]\n",
        "    pp: 8\n    ep: 32\n    vpp: 1\n    stages: [7, 8, 8, 8, 8, 8, 7, 7]\n"};
    for (size_t k = 0; k < sizeof layouts / sizeof layouts[0]; ++k) {
        char text[TEXT], stated[TEXT / 2];
        (void)snprintf(text, sizeof text, PLAN("true", "%s"), layouts[k]);
        struct document *const d = must_parse(text, NULL, 0);
        const struct listed_layout best = fastest(d);
        const struct geometry *const g = &d->problem.geometries.items[0];
        struct prediction at;
        best_layout_predict(&d->problem, g, &best.layout, &at, NULL);
        assert_true(best.layout.split.is_mixed);
        assert_memory_equal(&at.step_time_s, &best.step_time_s, sizeof at.step_time_s);
        json_t *const layout = build_layout(&d->problem, g, &best.layout);
        state_stages(layout, stated, sizeof stated);
        (void)snprintf(text, sizeof text, PLAN("true", "%s"), stated);
        struct document *const back = must_parse(text, NULL, 0);
        struct report_point *const point = calloc(1, sizeof *point);
        assert_non_null(point);
        predict(back, point);
        json_t *const again = build_layout(&back->problem, g, &point->layout);
        assert_true(json_equal(layout, again));
        assert_memory_equal(&point->prediction, &at, sizeof at);
        json_decref(layout);
        json_decref(again);
        free(point);
        document_free(back);
        document_free(d);
    }
}

/* Where one recomputation is declared, or the engine has one for all, stages do not differ. */
static void one_for_all(void **unused) {
    (void)unused;
    static const char rest[] = "    pp: [8, 16]\n    ep: [32, 64]\n    vpp: 1\n";
    static const char *const words[] = {"    recompute: full\n", "    recompute: selective\n", ""};
    for (size_t k = 0; k < sizeof words / sizeof words[0]; ++k) {
        char text[2][TEXT];
        (void)snprintf(text[0], TEXT, PLAN("true", "%s%s"), rest, words[k]);
        (void)snprintf(text[1], TEXT, PLAN("false", "%s%s"), rest, words[k]);
        struct document *const may = must_parse(text[0], NULL, 0);
        struct document *const may_not = must_parse(text[1], NULL, 0);
        const struct listed_layout a = fastest(may), b = fastest(may_not);
        assert_false(b.layout.split.is_mixed);
        assert_true(a.step_time_s <= b.step_time_s);
        if (words[k][0] != '\0') {
            assert_false(a.layout.split.is_mixed);
            assert_memory_equal(&a.step_time_s, &b.step_time_s, sizeof a.step_time_s);
            assert_int_equal(mesh_compare(&a.layout.mesh, &b.layout.mesh), 0);
        } else {
            assert_true(a.step_time_s < b.step_time_s);
        }
        document_free(may);
        document_free(may_not);
    }
}

static void refused(void **unused) {
    (void)unused;
    static const char mixed[] = "    stages: [{layers: 30, recompute: full}, "
                                "{layers: 31, recompute: none}]\n";
    static const struct {
        const char *per_stage, *layout, *further, *message;
    } cases[] = {
        {"false", mixed, "", "not launchable on own 1: all of its stages recompute alike"},
        {"true", mixed, "    recompute: [none, selective]\n", "recompute does not list full"},
        {"true", mixed, "    schedule: zero_bubble\n", "take the 1f1b schedule alone"},
        {"true", mixed, "execution: {checkpoint_offload: 8 GiB}\n", "all stages must be full"},
        {"true", mixed, "estimator: published\n", "knows one recomputation for all stages"},
        {"true", "    stages: [{layers: 30, recompute: full}, 31]\n", "", "must be a mapping"},
        {"true", "    stages: [{layers: 30}, {layers: 31, recompute: full}]\n", "",
         "missing key 'recompute'"},
        {"true",
         "    pp: 2\n    stages: [{layers: 30, recompute: full}, {layers: 10, recompute: full}, "
         "{layers: 11, recompute: none}, {layers: 10, recompute: full}]\n",
         "", "chunks 0 and 2 are on stage 0, but recompute differently: full and none"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        char text[TEXT];
        const bool is_true = strcmp(cases[i].per_stage, "true") == 0;
        (void)snprintf(text, sizeof text, is_true ? PLAN("true", "%s%s") : PLAN("false", "%s%s"),
                       cases[i].layout, cases[i].further);
        struct document *d = NULL;
        assert_int_equal(parse(text, NULL, 0, &d), MOSAIC_BAD_INPUT);
        if (!strstr(said.items[0].message, cases[i].message))
            fail_msg("case %zu: %s; %s", i, said.items[0].message, said.items[0].hint);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_by_themselves),
        cmocka_unit_test(between_the_ends),
        cmocka_unit_test(results_read_back),
        cmocka_unit_test(one_for_all),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, p6_load, NULL);
}
