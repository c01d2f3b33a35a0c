// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Plan documents: the shipped ones, defaults and their origins, overrides, the space of geometries
 * and its census, what `predict` needs pinned, provenance.
 */
#include "test_doc.h"

#include "model/count.h"

static const double giga = 1e9;

static void shipped_headline_plan(void **state) {
    (void)state;
    struct document *const d = must_load("configs/p6-b200-32n-20d.yaml", NULL, 0);
    const struct problem *const p = &d->problem;
    assert_int_equal(d->kind, DOCUMENT_PLAN);
    assert_true(d->has_problem);
    assert_int_equal(said.warnings, 0);
    assert_int_equal(cluster_gpus(&p->cluster), 256);
    assert_close(p->cluster.device.peak_flop_per_s[PRECISION_BF16], 2.25e15, 0);
    assert_close(p->cluster.device.memory_bytes, 179e9, 0);
    assert_int_equal(p->cluster.tier_count, 2);
    assert_int_equal(p->cluster.tiers[0].domain, 8);
    assert_close(p->cluster.tiers[1].bytes_per_s, 50e9, 0);
    assert_close(p->cluster.tiers[1].latency_s, 30e-6, 1e-12);
    assert_close(p->budget.seconds, 20 * 86400.0, 0);
    assert_close(p->budget.goodput, 1.0, 0);
    assert_close(p->law.beta, 0.2070, 0);
    assert_close(p->law.sparsity.max, 0.981, 0);
    assert_string_equal(p->engine.name, "megatron");
    assert_string_equal(p->engine.version, "2026.08");
    assert_true(p->engine.uneven_stages);
    assert_false(p->engine.kv_replication);
    assert_int_equal(p->engine.vocab_pad_unit, 128);
    assert_string_equal(p->calibration.name, "p6-b200-published");
    assert_false(p->is_published);
    assert_int_equal(p->workload.sequence, 2048);
    assert_int_equal(p->workload.vocab, 50257);
    assert_true(isinf(p->limits.n_total_max) && isinf(p->limits.unique_tokens));
    assert_close(p->limits.tokens_per_active_min, 40.0, 0);
    assert_close(p->limits.sparsity_max, 0.981, 1e-15);
    assert_int_equal(p->layouts.pp.count, 0);
    assert_int_equal(p->layouts.ep.count, 4);
    assert_int_equal(p->layouts.ep.values[3], 8);
    assert_true(p->layouts.recompute[RECOMPUTE_SELECTIVE]);
    document_free(d);
}

static void shipped_others(void **state) {
    (void)state;
    struct document *d = must_load("configs/p6-b200-4n-5d.yaml", NULL, 0);
    assert_close(d->problem.budget.model_flops, 3.3e21, 0);
    assert_int_equal(cluster_gpus(&d->problem.cluster), 32);
    document_free(d);
    d = must_load("configs/p6-b200-8n-10d.yaml", NULL, 0);
    assert_int_equal(d->problem.geometries.count, 4);
    assert_true(d->problem.layouts.recompute[RECOMPUTE_NONE]);
    assert_int_equal(d->problem.layouts.pp.values[0], 4);
    /* In geometry_compare's order: q 8 first, then fewer experts, then coarser. */
    static const char *const order[] = {"id4", "id3", "id1", "id2"};
    static const double n_total[] = {65.8, 66.0, 250.0, 126.4};
    for (int i = 0; i < 4; ++i) {
        struct param_counts n;
        count_params(&d->problem.geometries.items[i], &n);
        assert_string_equal(d->geometry_names[i], order[i]);
        assert_close(n.n_total_law / giga, n_total[i], 0.005);
    }
    document_free(d);
    d = must_load("configs/examples/impossible.yaml", NULL, 0);
    assert_true(d->has_geometry);
    assert_int_equal(d->geometry.experts, 256);
    assert_int_equal(d->problem.workload.vocab, 129280);
    assert_int_equal(cluster_gpus(&d->problem.cluster), 8);
    document_free(d);
}

/* The paper's grid: 1,560 products, 1,416 with K < E, 1,092 of them with S >= 0.7. */
static void census_of_the_papers_grid(void **state) {
    (void)state;
    const struct document_override open = {"search.geometry.sparsity", "[0.7, 1]"};
    struct document *d = must_load("configs/p6-b200-32n-20d.yaml", &open, 1);
    assert_int_equal(d->census.products, 1560);
    assert_int_equal(d->census.products - d->census.top_k_large, 1416);
    assert_int_equal(d->problem.geometries.count, 1092);
    assert_int_equal(d->census.sparsity_low, 1416 - 1092);
    assert_int_equal(d->census.indivisible + d->census.illegal, 0);
    for (size_t i = 1; i < d->problem.geometries.count; ++i)
        assert_true(geometry_compare(&d->problem.geometries.items[i - 1],
                                     &d->problem.geometries.items[i]) < 0);
    document_free(d);
    d = must_load("configs/p6-b200-32n-20d.yaml", NULL, 0);
    assert_int_equal(d->problem.geometries.count + d->census.sparsity_high, 1092);
    assert_true(d->census.sparsity_high > 0);
    for (size_t i = 0; i < d->problem.geometries.count; ++i) {
        struct param_counts n;
        count_params(&d->problem.geometries.items[i], &n);
        assert_true(n.sparsity >= 0.7 - 1e-9 && n.sparsity <= 0.981 + 1e-9);
    }
    document_free(d);
}

static void ranges_steps_and_indivisible(void **state) {
    (void)state;
    struct document *const d = must_parse(
        HEAD "search:\n  geometry: {ladder: mosaic, q: {from: 4, to: 8, step: 2}, experts: 16,\n"
             "             top_k: [2, 1], granularity: [1, 3]}\n",
        NULL, 0);
    assert_int_equal(d->census.products, 12);
    /* 3 divides 1280 q at q 6 only. */
    assert_int_equal(d->census.indivisible, 4);
    assert_int_equal(d->problem.geometries.count, 8);
    assert_int_equal(d->problem.geometries.items[0].top_k, 1);
    assert_int_equal(said.warnings, 0);
    assert_true(said.count == 1 && said.items[0].level == DIAG_NOTE);
    document_free(d);
}

static void defaults_and_their_origins(void **state) {
    (void)state;
    struct document *const d = must_parse(HEAD "workload: {sequence: 4096}\n", NULL, 0);
    const struct problem *const p = &d->problem;
    assert_int_equal(p->workload.sequence, 4096);
    assert_int_equal(p->workload.global_batch, 1024);
    assert_int_equal(p->workload.precision, PRECISION_BF16);
    assert_int_equal(p->workload.optimizer, OPTIMIZER_ADAMW);
    assert_close(p->workload.imbalance, 1.0, 0);
    assert_close(p->limits.tokens_per_active_max, 150.0, 0);
    assert_string_equal(p->calibration.name, "generic");
    assert_string_equal(p->law.name, "mosaic-2608.10605");
    assert_int_equal(p->geometries.count + d->census.sparsity_high, 1092);
    assert_int_equal(p->layouts.tp.count, 0);
    assert_int_equal(origin(d, "workload.sequence"), DOCUMENT_GIVEN);
    assert_int_equal(origin(d, "workload.global_batch"), DOCUMENT_DEFAULT);
    assert_int_equal(origin(d, "law.coefficients.beta"), DOCUMENT_BUILT_IN);
    assert_int_equal(origin(d, "law.published"), DOCUMENT_DEFAULT);
    assert_int_equal(origin(d, "engine.vocab_pad_unit"), DOCUMENT_BUILT_IN);
    assert_int_equal(origin(d, "cluster.device.memory"), DOCUMENT_GIVEN);
    assert_int_equal(origin(d, "derived.gpus"), DOCUMENT_DERIVED);
    assert_string_equal(document_value(d, "cluster.device.memory")->text, "179 GB");
    assert_string_equal(document_value(d, "workload.sequence")->text, "4096");
    assert_int_equal(document_value(d, "workload.sequence")->place.line, 5);
    document_free(d);
}

static void overrides_reach_everywhere(void **state) {
    (void)state;
    static const struct document_override set[] = {
        {"cluster.device.memory", "80 GB"},
        {"law.coefficients.beta", "0.25"},
        {"engine.uneven_stages", "false"},
        {"calibration", "calibration/data/generic.yaml"},
    };
    struct document *const d = must_parse(
        HEAD "engine: {name: megatron, version: \"2026.08\"}\ncalibration: none.yaml\n", set, 4);
    assert_close(d->problem.cluster.device.memory_bytes, 80e9, 0);
    assert_close(d->problem.law.beta, 0.25, 0);
    assert_close(d->problem.law.alpha, 0.1048, 0);
    assert_false(d->problem.engine.uneven_stages);
    assert_true(d->problem.engine.interleaved_batches_divide);
    assert_int_equal(origin(d, "cluster.device.memory"), DOCUMENT_OVERRIDE);
    assert_int_equal(d->override_count, 4);
    assert_string_equal(d->overrides[0].key, "cluster.device.memory");
    document_free(d);
}

static void overrides_apply_in_order(void **state) {
    (void)state;
    static const struct document_override set[] = {
        {"budget.days", "30"},      {"budget.days", "10"}, {"search.layout.tp", "2"},
        {"estimator", "published"}, {"nodes", "4"},
    };
    struct document *const d = must_parse(HEAD, set, sizeof set / sizeof set[0]);
    assert_close(d->problem.budget.seconds, 10 * 86400.0, 0);
    assert_int_equal(d->problem.layouts.tp.count, 1);
    assert_int_equal(d->problem.layouts.tp.values[0], 2);
    assert_true(d->problem.is_published && d->problem.estimator.chi);
    assert_int_equal(cluster_gpus(&d->problem.cluster), 32);
    document_free(d);
}

/* An override into a listed model and one that replaces the whole space. */
static void overrides_of_models(void **state) {
    (void)state;
    static const struct document_override set[] = {
        {"search.geometry.list[0].model.ladder.top_k", "4"}};
    struct document *d = must_load("configs/p6-b200-8n-10d.yaml", set, 1);
    bool found = false;
    for (size_t i = 0; i < d->problem.geometries.count; ++i)
        if (strcmp(d->geometry_names[i], "id1") == 0)
            found = d->problem.geometries.items[i].top_k == 4;
    assert_true(found);
    document_free(d);
    static const struct document_override other[] = {
        {"model", "configs/models/qwen3-30b-a3b.yaml"}};
    d = must_load("configs/p6-b200-32n-20d.yaml", other, 1);
    assert_true(d->has_geometry);
    assert_int_equal(d->geometry.head_dim, 128);
    assert_int_equal(d->problem.workload.vocab, 151936);
    document_free(d);
}

static void budgets(void **state) {
    (void)state;
    struct document *d = must_parse("schema: mosaic-plan/1\ncluster: clusters/p6-b200.yaml\n"
                                    "nodes: 10\nbudget:\n  duration: 36 h\n  goodput:\n"
                                    "    mtbf_per_node: 1000 h\n    checkpoint_interval: 1 h\n"
                                    "    checkpoint_time: 36 s\n    restart_time: 30 min\n",
                                    NULL, 0);
    assert_close(d->problem.budget.seconds, 36 * 3600.0, 0);
    assert_close(d->problem.budget.goodput, 0.99 * (1 - 1.0 * 10 / 1000), 1e-12);
    document_free(d);
    static const struct document_override hours = {"budget", "{hours: 12, goodput: 90 %}"};
    d = must_parse(HEAD, &hours, 1);
    assert_close(d->problem.budget.seconds, 12 * 3600.0, 0);
    assert_close(d->problem.budget.goodput, 0.9, 1e-15);
    document_free(d);
}

static void bare_cluster_is_planned(void **state) {
    (void)state;
    struct document *d = must_load("configs/examples/cluster.yaml", NULL, 0);
    assert_int_equal(d->kind, DOCUMENT_CLUSTER);
    assert_true(d->has_problem);
    assert_string_equal(d->name, "my-cluster");
    assert_int_equal(cluster_gpus(&d->problem.cluster), 256);
    assert_int_equal(d->problem.geometries.count + d->census.sparsity_high, 1092);
    assert_int_equal(d->problem.layouts.ep.count, 4);
    assert_int_equal(d->problem.layouts.pp.count, 0);
    assert_true(d->problem.budget.goodput < 1.0 && d->problem.budget.goodput > 0.9);
    assert_int_equal(origin(d, "search.layout.ep"), DOCUMENT_DEFAULT);
    assert_int_equal(origin(d, "law.published"), DOCUMENT_DEFAULT);
    assert_int_equal(origin(d, "cluster.device.memory"), DOCUMENT_GIVEN);
    assert_int_equal(d->input_count, 1);
    document_free(d);
    static const struct document_override set[] = {{"nodes", "8"},
                                                   {"workload.sequence", "4096"},
                                                   {"cluster.device.memory", "70 GB"},
                                                   {"budget.days", "3"},
                                                   {"device.hbm_bandwidth", "3 TB/s"}};
    d = must_load("configs/examples/cluster.yaml", set, 5);
    assert_int_equal(cluster_gpus(&d->problem.cluster), 64);
    assert_int_equal(d->problem.workload.sequence, 4096);
    assert_close(d->problem.cluster.device.memory_bytes, 70e9, 0);
    assert_close(d->problem.cluster.device.hbm_bytes_per_s, 3e12, 0);
    assert_close(d->problem.budget.seconds, 3 * 86400.0, 0);
    document_free(d);
}

static void every_shipped_document_loads(void **state) {
    (void)state;
    static const char *const paths[] = {
        "configs/clusters/p6-b200.yaml",         "configs/clusters/p5-h100.yaml",
        "configs/engines/megatron-2026.08.yaml", "configs/laws/mosaic-2608.10605.yaml",
        "configs/models/deepseek-v3.yaml",       "configs/models/llama3-8b.yaml",
        "configs/models/mixtral-8x7b.yaml",      "configs/models/mosaic-table4.yaml",
        "configs/models/qwen3-30b-a3b.yaml",     "configs/models/llama3-70b.yaml",
        "calibration/data/generic.yaml",         "calibration/data/p6-b200-published.yaml",
        "configs/examples/predict-table4.yaml",  "configs/examples/predict-table4-published.yaml"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; ++i) {
        struct document *const d = must_load(paths[i], NULL, 0);
        assert_int_equal(said.warnings, 0);
        assert_true(d->value_count > 0);
        document_free(d);
    }
}

static void pinned(void **state) {
    (void)state;
    struct status_error err;
    struct geometry g;
    struct mesh m;
    struct document *d = must_load("configs/examples/predict-table4.yaml", NULL, 0);
    assert_int_equal(document_pinned(d, &g, &m, &err), MOSAIC_OK);
    assert_int_equal(g.ladder_q, 12);
    assert_int_equal(m.dp, 32);
    assert_int_equal(m.micro_batches, 8);
    assert_int_equal(m.pp, 8);
    assert_int_equal(m.recompute, RECOMPUTE_FULL);
    document_free(d);
    d = must_load("configs/p6-b200-32n-20d.yaml", NULL, 0);
    assert_int_equal(document_pinned(d, &g, &m, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "pp (free)"));
    assert_non_null(strstr(err.message, "ep (4 values)"));
    assert_non_null(strstr(err.message, "geometry ("));
    assert_non_null(strstr(err.message, "micro_batch (3 values)"));
    assert_null(strstr(err.message, "vpp"));
    assert_string_equal(err.file, "configs/p6-b200-32n-20d.yaml");
    document_free(d);
    static const struct document_override ep[] = {{"search.layout.pp", "16"},
                                                  {"search.layout.ep", "32"}};
    d = must_load("configs/examples/predict-table4.yaml", ep, 2);
    assert_int_equal(document_pinned(d, &g, &m, &err), MOSAIC_BAD_INPUT);
    assert_string_equal(err.file, "--set search.layout.ep=32");
    document_free(d);
    static const struct document_override nodes = {"nodes", "8"};
    d = must_load("configs/examples/predict-table4.yaml", &nodes, 1);
    assert_int_equal(document_pinned(d, &g, &m, &err), MOSAIC_OK);
    assert_int_equal(m.dp, 8);
    document_free(d);
    static const struct document_override batch = {"workload.global_batch", "1000"};
    d = must_load("configs/examples/predict-table4.yaml", &batch, 1);
    assert_int_equal(document_pinned(d, &g, &m, &err), MOSAIC_BAD_INPUT);
    assert_int_equal(err.line, 18); /* micro_batch */
    assert_int_equal(err.column, 18);
    document_free(d);
    d = must_load("configs/models/mosaic-table4.yaml", NULL, 0);
    assert_int_equal(document_pinned(d, &g, &m, &err), MOSAIC_BAD_INPUT);
    document_free(d);
}

/* A user compares with what sha256sum prints. */
static void provenance(void **state) {
    (void)state;
    struct document *const d = must_load("configs/p6-b200-32n-20d.yaml", NULL, 0);
    assert_int_equal(d->input_count, 3);
    assert_string_equal(d->inputs[0].path, "configs/p6-b200-32n-20d.yaml");
    assert_string_equal(d->inputs[1].path, "configs/clusters/p6-b200.yaml");
    assert_string_equal(d->inputs[2].path, "configs/../calibration/data/p6-b200-published.yaml");
    for (size_t i = 0; i < d->input_count; ++i) {
        char command[512], hash[DOCUMENT_HASH_MAX] = "";
        (void)snprintf(command, sizeof command, "sha256sum '%s'", d->inputs[i].path);
        FILE *const pipe = popen(command, "r");
        assert_non_null(pipe);
        assert_int_equal(fread(hash, 1, DOCUMENT_HASH_MAX - 1, pipe), DOCUMENT_HASH_MAX - 1);
        assert_int_equal(pclose(pipe), 0);
        assert_string_equal(d->inputs[i].sha256, hash);
    }
    document_free(d);
}

static void tables_check_themselves(void **state) {
    (void)state;
    for (int i = 0; i < DOCUMENT_KINDS; ++i) {
        struct status_error err;
        if (schema_self_check(document_schema((enum document_kind)i), &err) != MOSAIC_OK)
            fail_msg("%s: %s", document_kind_name((enum document_kind)i), err.message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_headline_plan),
        cmocka_unit_test(shipped_others),
        cmocka_unit_test(census_of_the_papers_grid),
        cmocka_unit_test(ranges_steps_and_indivisible),
        cmocka_unit_test(defaults_and_their_origins),
        cmocka_unit_test(overrides_reach_everywhere),
        cmocka_unit_test(overrides_apply_in_order),
        cmocka_unit_test(overrides_of_models),
        cmocka_unit_test(budgets),
        cmocka_unit_test(bare_cluster_is_planned),
        cmocka_unit_test(every_shipped_document_loads),
        cmocka_unit_test(pinned),
        cmocka_unit_test(provenance),
        cmocka_unit_test(tables_check_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
