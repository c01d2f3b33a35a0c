// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Bad documents: every kind of error with its exact place and words.  A row is a whole document, or
 * what follows the head of a plan.
 */
#include "test_doc.h"

struct bad {
    const char *text;    /* after HEAD unless it starts with "schema:" */
    long line, column;   /* of the first error */
    const char *message; /* a part of it, or of its hint */
};

/* HEAD has four lines. */
static const struct bad plans[] = {
    {"workloads: {}\n", 5, 1, "workloads"},
    {"workload: {sequence: 0}\n", 5, 22, "sequence"},
    {"workload: {sequence: 16777217}\n", 5, 22, "sequence"},
    {"workload: {sequence: 2048 B}\n", 5, 22, "sequence"},
    {"workload: {precision: fp16}\n", 5, 23, "precision"},
    {"workload: {optimizer: adam}\n", 5, 23, "adamw"},
    {"workload: {vocab: 0}\n", 5, 19, "vocab"},
    {"workload: {imbalance: 0.5}\n", 5, 23, "imbalance"},
    {"workload: {imbalance: .nan}\n", 5, 23, "imbalance"},
    {"workload: {global_batch: 0x10}\n", 5, 26, "global_batch"},
    {"workload: {global_batch: 010}\n", 5, 26, "global_batch"},
    {"workload: {global_batch: [1, 2]}\n", 5, 26, "global_batch"},
    {"estimator: papers\n", 5, 12, "estimator"},
    {"limits: {n_total: -1}\n", 5, 19, "n_total"},
    {"law: {published: mosaic-2608.1060}\n", 5, 18, "mosaic-2608.10605"},
    {"law: {runs: runs/x.csv}\n", 5, 13, "x.csv"},
    {"law: {runs: runs/x.csv, published: none}\n", 5, 7, "either"},
    {"law: {runs: runs/x.csv, form: mosaik}\n", 5, 31, "'mosaic'"},
    {"law: {runs: runs/x.csv, form: clark}\n", 5, 31, "clark form cannot plan"},
    {"law: {runs: runs/x.csv, form: krajewski}\n", 5, 31, "krajewski form cannot plan"},
    {"law: {runs: runs/x.csv, draws: 20}\n", 5, 32, "draws"},
    {"law: {runs: runs/x.csv, fix: 1}\n", 5, 30, "not a mapping"},
    {"law: {runs: runs/x.csv, fix: {e: x}}\n", 5, 34, "law.fix"},
    {"law: {runs: runs/x.csv, filter: {name: [a]}}\n", 5, 40, "not a text"},
    {"law: {runs: runs/x.csv, loss: huber}\n", 5, 31, "huber"},
    {"law: {runs: runs/x.csv, bootstraps: wild}\n", 5, 25, "bootstrap"},
    {"engine: {name: megatron, version: \"2026.18\"}\n", 5, 16, "megatron-2026.08"},
    {"engine: {name: megatron}\n", 5, 9, "version"},
    {"calibration: nowhere.yaml\n", 5, 14, "nowhere.yaml"},
    {"calibration: clusters/p6-b200.yaml\n", 2, 9, "mosaic-calibration/1"},
    {"model: models/none.yaml\n", 5, 8, "none.yaml"},
    {"model: [1]\n", 5, 8, "list"},
    {"model: {layers: 4, hidden: 128, heads: 4, kv_heads: 3, dense_ffn: 256}\n", 5, 40,
     "kv_heads 3"},
    {"model: {ladder: {q: 4, experts: 8, top_k: 9, granularity: 1}}\n", 5, 17, "top_k"},
    {"model: {ladder: {q: 4, experts: 8, top_k: 2, granularity: 1}, layers: 3}\n", 5, 63, "ladder"},
    {"model: {vocab: 10}\n", 5, 8, "'layers' or 'ladder'"},
    {"search: {layout: {ep: [3]}}\n", 5, 23, "256 mod 3 = 1"},
    {"search: {layout: {tp: [0]}}\n", 5, 24, "tp"},
    {"search: {layout: {tp: [2, 2]}}\n", 5, 23, "twice"},
    {"search: {layout: {micro_batch: [3, 5]}}\n", 5, 32, "none of its 2 values"},
    {"search: {layout: {recompute: [all]}}\n", 5, 31, "recompute"},
    {"search: {geometry: {}}\n", 5, 20, "'ladder' and 'list'"},
    {"search: {geometry: {ladder: mosaic, q: 8, experts: 8, top_k: 2}}\n", 5, 20, "granularity"},
    {"search: {geometry: {ladder: mosaic, q: 8, experts: 8, top_k: 8, granularity: 1}}\n", 5, 20,
     "1 have top_k >= experts"},
    {"search: {geometry: {ladder: mosaic, q: {from: 1, to: 200, step: 1},\n"
     "  experts: {from: 2, to: 2000, step: 1}, top_k: {from: 1, to: 100, step: 1},\n"
     "  granularity: 1}}\n",
     5, 20, "200 x 1999 x 100 x 1 = 39980000"},
    {"search: {geometry: {list: [{name: a}]}}\n", 5, 28, "model"},
    {"search: {tokens: {per_active_parameter: [150, 40]}}\n", 5, 41, "per_active_parameter"},
    {"nodes: 3\n", 5, 1, "nodes"},
    {"schema: mosaic-plan/1\ncluster: clusters/p6-b200.yaml\nnodes: 32\n", 1, 1, "'budget'"},
    {"schema: mosaic-plan/1\ncluster: clusters/p6-b200.yaml\nbudget: {days: 2}\n", 1, 1, "'nodes'"},
    {"schema: mosaic-plan/1\nnodes: 32\nbudget: {days: 2}\n", 1, 1, "cluster"},
    {"schema: mosaic-plan/1\ncluster: clusters/p6-b200.yaml\nnodes: -4\nbudget: {days: 2}\n", 3, 8,
     "nodes"},
    {"schema: mosaic-plan/1\ncluster: clusters/p6-b200.yaml\nnodes: 4\nbudget: {days: 0}\n", 4, 16,
     "days"},
    {"schema: mosaic-plan/1\ncluster: clusters/p6-b200.yaml\nnodes: 4\nbudget: {}\n", 4, 9,
     "days, hours, duration"},
    {"schema: mosaic-plan/1\ncluster: clusters/p6-b200.yaml\nnodes: 4\n"
     "budget: {days: 1, hours: 2}\n",
     4, 9, "not several"},
    {"schema: mosaic-plan/1\ncluster: clusters/p6-b200.yaml\nnodes: 4\n"
     "budget: {days: 1, goodput: 1.5}\n",
     4, 28, "goodput"},
    {"schema: mosaic-plan/1\ncluster: clusters/p6-b200.yaml\nnodes: 4\n"
     "budget: {days: 1, goodput: 0}\n",
     4, 28, "goodput"},
    {"schema: mosaic-plan/1\ncluster: clusters/p6-b200.yaml\nnodes: 4\n"
     "objective: loss\nbudget: {target_loss: 2.0}\n",
     4, 12, "no use for budget.target_loss"},
    {"schema: mosaic-plan/1\ncluster: clusters/p6-b200.yaml\nnodes: 4\nbudget:\n  days: 1\n"
     "  goodput: {checkpoint_interval: 1 h, checkpoint_time: 1 min, restart_time: 1 min}\n",
     6, 12, "mtbf_per_node"},
    {"schema: mosaic-plan/1\ncluster: clusters/p6-b200.yaml\nnodes: 4\nbudget:\n  days: 1\n"
     "  goodput: {mtbf_per_node: 1 h, checkpoint_interval: 1 h, checkpoint_time: 1 min,\n"
     "            restart_time: 1 min}\n",
     6, 12, "no work gets done"},
    {"schema: mosaic-plant/1\n", 1, 9, "mosaic-plan/1"},
};

static void check(const struct bad *bad) {
    char text[4096];
    const bool is_whole = strncmp(bad->text, "schema:", 7) == 0;
    (void)snprintf(text, sizeof text, "%s%s", is_whole ? "" : HEAD, bad->text);
    struct document *d = NULL;
    const enum mosaic_status status = parse(text, NULL, 0, &d);
    if (status == MOSAIC_OK)
        fail_msg("accepted:\n%s", text);
    const struct diag *first = NULL;
    for (size_t i = 0; i < said.count && !first; ++i)
        if (said.items[i].level == DIAG_ERROR)
            first = &said.items[i];
    assert_non_null(first);
    const bool is_said = strstr(first->message, bad->message) || strstr(first->hint, bad->message);
    if (first->line != bad->line || first->column != bad->column || !is_said)
        fail_msg("%s%s:%ld:%ld: %s (%s), want %ld:%ld with '%s'", bad->text, first->file,
                 first->line, first->column, first->message, first->hint, bad->line, bad->column,
                 bad->message);
    const bool is_file = strstr(bad->message, ".yaml") || strstr(bad->message, ".csv");
    assert_int_equal(status, is_file ? MOSAIC_IO : MOSAIC_BAD_INPUT);
}

static void bad_plans(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; ++i)
        check(&plans[i]);
}

static const char cluster_text[] = "schema: mosaic-cluster/1\n"
                                   "name: c\n"
                                   "device:\n"
                                   "  name: X\n"
                                   "  peak: {bf16: 100 TFLOP/s}\n"
                                   "  memory: 80 GB\n"
                                   "  hbm_bandwidth: 2 TB/s\n"
                                   "node: {gpus: 8}\n"
                                   "tiers:\n"
                                   "  - {name: a, domain: 8, bandwidth: 300 GB/s, latency: 2 us}\n"
                                   "  - {name: b, domain: 16, bandwidth: 25 GB/s, latency: 9 us}\n"
                                   "nodes: 2\n"
                                   "budget: {days: 1}\n";

/* A text with its first `from` replaced. */
static void edit(char *out, size_t size, const char *from, const char *to) {
    const char *const at = strstr(cluster_text, from);
    assert_non_null(at);
    (void)snprintf(out, size, "%.*s%s%s", (int)(at - cluster_text), cluster_text, to,
                   at + strlen(from));
}

static const struct {
    const char *from, *to;
    long line, column;
    const char *message;
} clusters[] = {
    {"gpus: 8", "gpus: 0", 8, 14, "gpus"},
    {"gpus: 8", "gpu: 8", 8, 8, "gpu"},
    {"80 GB", "80", 6, 11, "memory"},
    {"80 GB", "80 GB/s", 6, 11, "memory"},
    {"80 GB", "0 GB", 6, 11, "memory"},
    {"100 TFLOP/s", "1e30 FLOP/s", 5, 16, "bf16"},
    {"bf16: 100", "fp16: 100", 5, 10, "fp16"},
    {"bf16: 100", "fp8: 100", 5, 9, "no dense peak for bf16"},
    {"domain: 16", "domain: 8", 11, 23, "does not exceed 8 of 'a'"},
    {"domain: 8,", "", 10, 5, "'domain'"},
    {"nodes: 2", "nodes: 4", 11, 23, "reaches 16 GPUs, the cluster has 32"},
    {"nodes: 2\n", "", 1, 1, "'nodes'"},
    {"latency: 2 us", "latency: -2 us", 10, 56, "latency"},
    {"latency: 2 us", "latency: 2", 10, 56, "latency"},
    {"300 GB/s", "300 Gb", 10, 37, "bandwidth"},
    {"{days: 1}", "{days: 1, gpu_hours: 2}", 13, 9, "not several"},
};

static void bad_clusters(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof clusters / sizeof clusters[0]; ++i) {
        char text[2048];
        edit(text, sizeof text, clusters[i].from, clusters[i].to);
        const struct bad bad = {text, clusters[i].line, clusters[i].column, clusters[i].message};
        check(&bad);
    }
}

static void all_errors_at_once(void **state) {
    (void)state;
    struct document *d = NULL;
    assert_int_equal(parse("schema: mosaic-plan/1\ncluster: clusters/p6-b200.yaml\nnodes: 0\n"
                           "budget: {days: -1}\nworkload: {sequence: x, vocab: 1.5}\n"
                           "law: {published: none}\nsearch: {layout: {tp: zero}}\n",
                           NULL, 0, &d),
                     MOSAIC_BAD_INPUT);
    static const long lines[] = {3, 4, 5, 5, 6, 7};
    bool has_line[8] = {false};
    assert_int_equal(said.errors, sizeof lines / sizeof lines[0]);
    for (size_t i = 0; i < said.count; ++i)
        has_line[said.items[i].line] = true;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; ++i)
        assert_true(has_line[lines[i]]);
}

static void bad_overrides(void **state) {
    (void)state;
    static const struct {
        struct document_override set;
        const char *message;
    } rows[] = {
        {{"budgt.days", "3"}, "budgt"},
        {{"budget.days", "many"}, "days"},
        {{"cluster.device.memory", "80"}, "memory"},
        {{"cluster.device.colour", "red"}, "colour"},
        {{"nodes[2]", "3"}, "nodes"},
        {{"law.coefficients.beta", "0"}, "beta"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        struct document *d = NULL;
        assert_int_equal(parse(HEAD, &rows[i].set, 1, &d), MOSAIC_BAD_INPUT);
        char *const text = diag_text(NULL, &said, false);
        if (!strstr(text, "--set ") || !strstr(text, rows[i].message))
            fail_msg("%s", text);
        talloc_free(text);
    }
}

/* An error inside an included file is reported at that file's place. */
static void places_in_other_files(void **state) {
    (void)state;
    struct document *d = NULL;
    assert_int_equal(parse("schema: mosaic-plan/1\ncluster: clusters/p6-b200.yaml\nnodes: 4\n"
                           "budget: {days: 2}\nworkload: {precision: nvfp4}\n",
                           NULL, 0, &d),
                     MOSAIC_OK);
    document_free(d);
    assert_int_equal(parse("schema: mosaic-plan/1\ncluster: clusters/p5-h100.yaml\nnodes: 4\n"
                           "budget: {days: 2}\nworkload: {precision: nvfp4}\n",
                           NULL, 0, &d),
                     MOSAIC_BAD_INPUT);
    assert_int_equal(said.items[0].line, 5);
    assert_string_equal(said.items[0].file, "configs/test.yaml");
    diag_init(&said);
    assert_int_equal(document_load("configs/none.yaml", NULL, 0, &said, &d), MOSAIC_IO);
    assert_string_equal(said.items[0].file, "configs/none.yaml");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_plans),
        cmocka_unit_test(bad_clusters),
        cmocka_unit_test(all_errors_at_once),
        cmocka_unit_test(bad_overrides),
        cmocka_unit_test(places_in_other_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
