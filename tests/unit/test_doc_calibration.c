// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Calibration documents laid over the generic one, every kind of bad entry, and the warnings about
 * figures of devices that are known to be something else.
 */
#include "test_doc.h"

#define CALIBRATION                                                                                \
    "schema: mosaic-calibration/1\n"                                                               \
    "name: mine\n"                                                                                 \
    "device: X\n"                                                                                  \
    "entries:\n"

#define SOURCE ", source: s, licence: l}\n"

static void overlay(void **state) {
    (void)state;
    struct document *generic = must_load("calibration/data/generic.yaml", NULL, 0);
    struct document *const d = must_parse(
        CALIBRATION
        "  - {quantity: host.launch_gap, value: 9 us" SOURCE
        "  - {quantity: attention.bf16.forward, against: sequence, samples: [[1024, 100 TFLOP/s],\n"
        "     [4096, 300 TFLOP/s], [8192, 400 TFLOP/s]]" SOURCE
        "  - {collective: all_to_all, ranks: 16, ranks_per_domain: 8, interpolate: latency,\n"
        "     samples: [[1 MB, 6 GB/s], [1.2 GB, 87 GB/s]]" SOURCE,
        NULL, 0);
    const struct calibration *const c = &d->problem.calibration;
    assert_string_equal(d->name, "mine");
    assert_close(c->scalar[CAL_HOST_GAP], 9e-6, 1e-12);
    assert_int_equal(c->scalar_origin[CAL_HOST_GAP], ORIGIN_CALIBRATED);
    assert_int_equal(c->scalar_origin[CAL_HBM_SHARE], ORIGIN_GENERIC);
    assert_close(c->scalar[CAL_HBM_SHARE], generic->problem.calibration.scalar[CAL_HBM_SHARE], 0);
    assert_true(c->has_curve[CAL_ATTENTION_CURVE]);
    struct lookup_count count = {{0}};
    assert_close(curve_at(&c->curve[CAL_ATTENTION_CURVE], 4096.0, &count), 300e12, 1e-3);
    assert_int_equal(count.tag[LOOKUP_EXACT], 1);
    assert_int_equal(c->collective_count, 1);
    assert_int_equal(c->collective[0].kind, COLLECTIVE_ALL_TO_ALL);
    assert_int_equal(c->collective[0].ranks_per_domain, 8);
    assert_int_equal(c->collective[0].bus.method, CURVE_LATENCY);
    assert_close(c->collective[0].bus.x[1], 1.2e9, 0);
    assert_int_equal(origin(d, "host.launch_gap"), DOCUMENT_GIVEN);
    assert_int_equal(origin(d, "hbm.share"), DOCUMENT_DEFAULT);
    document_free(d);
    document_free(generic);
}

static void recorded(void **state) {
    (void)state;
    struct document *const d = must_load("calibration/data/p6-b200-published.yaml", NULL, 0);
    const struct calibration *const c = &d->problem.calibration;
    assert_close(c->scalar[CAL_HOST_GAP], 22e-6, 1e-12);
    assert_close(c->scalar[CAL_HOST_EP_SYNC], 10e-3, 1e-12);
    assert_close(c->scalar[CAL_HOST_KERNELS_MOE], 642.0, 0);
    assert_true(c->has_curve[CAL_ATTENTION_CURVE]);
    assert_true(c->has_curve[CAL_GROUPED_FORWARD_CURVE]);
    assert_true(c->collective_count > 4);
    struct status_error err;
    assert_int_equal(calibration_check(c, &err), MOSAIC_OK);
    document_free(d);
}

static const struct {
    const char *entry; /* from line 5 */
    long line, column;
    const char *message;
} bad[] = {
    {"  - {quantity: host.launch_gab, value: 9 us" SOURCE, 5, 16, "host.launch_gap"},
    {"  - {quantity: host.launch_gap, value: 9" SOURCE, 5, 40, "time"},
    {"  - {quantity: host.launch_gap, value: 9 s" SOURCE, 5, 40, "not within"},
    {"  - {quantity: host.launch_gap, value: [1 s]" SOURCE, 5, 40, "a list"},
    {"  - {quantity: host.launch_gap, value: \"9 us\"" SOURCE, 5, 40, "quoted"},
    {"  - {quantity: host.launch_gap" SOURCE, 5, 16, "'value'"},
    {"  - {quantity: host.launch_gap, samples: [[1, 1]]" SOURCE, 5, 16, "'samples'"},
    {"  - {quantity: host.launch_gap, value: 9 us, source: s}\n", 5, 5, "licence"},
    {"  - {quantity: host.launch_gap, value: 9 us" SOURCE
     "  - {quantity: host.launch_gap, value: 8 us" SOURCE,
     6, 16, "twice; first on line 5"},
    {"  - {value: 9 us" SOURCE, 5, 5, "'quantity' or a 'collective'"},
    {"  - {quantity: attention.bf16.forward, value: 1 TFLOP/s" SOURCE, 5, 16, "curve"},
    {"  - {quantity: attention.bf16.forward, against: rows, samples: [[1, 1 TFLOP/s]]" SOURCE, 5,
     49, "against 'sequence'"},
    {"  - {quantity: attention.bf16.forward, against: sequence, samples: [[1, 1 TFLOP/s],\n"
     "     [1, 2 TFLOP/s]]" SOURCE,
     6, 6, "does not rise"},
    {"  - {quantity: attention.bf16.forward, against: sequence, samples: [[1, 1 GB/s]]" SOURCE, 5,
     73, "GB/s"},
    {"  - {quantity: attention.bf16.forward, against: sequence, samples: [[1, 0 FLOP/s]]" SOURCE, 5,
     73, "above 0"},
    {"  - {quantity: attention.bf16.forward, against: sequence, samples: [1, 2]" SOURCE, 5, 69,
     "pair"},
    {"  - {quantity: attention.bf16.forward, against: sequence, samples: []" SOURCE, 5, 68,
     "1 to 64 samples"},
    {"  - {collective: all_to_all, ranks: 8, samples: [[1 MB, 1 GB/s]]" SOURCE, 5, 5,
     "'ranks_per_domain'"},
    {"  - {collective: all_to_all, ranks: 8, ranks_per_domain: 16, samples: [[1 MB, 1 "
     "GB/s]]" SOURCE,
     5, 58, "8 ranks, 16"},
    {"  - {collective: alltoall, ranks: 8, ranks_per_domain: 8, samples: [[1 MB, 1 GB/s]]" SOURCE,
     5, 18, "all_to_all"},
    {"  - {collective: all_to_all, ranks: 8, ranks_per_domain: 8, samples: [[1 MB, 1 GB/s]]" SOURCE
     "  - {collective: all_to_all, ranks: 8, ranks_per_domain: 8, samples: [[1 MB, 2 GB/s]]" SOURCE,
     6, 5, "twice; first on line 5"},
};

static void bad_entries(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        char text[1024];
        (void)snprintf(text, sizeof text, "%s%s", CALIBRATION, bad[i].entry);
        struct document *d = NULL;
        if (parse(text, NULL, 0, &d) != MOSAIC_BAD_INPUT)
            fail_msg("accepted: %s", bad[i].entry);
        const struct diag *const one = &said.items[0];
        const bool is_said =
            strstr(one->message, bad[i].message) || strstr(one->hint, bad[i].message);
        if (one->line != bad[i].line || one->column != bad[i].column || !is_said)
            fail_msg("%s%ld:%ld: %s (%s), want %ld:%ld with '%s'", bad[i].entry, one->line,
                     one->column, one->message, one->hint, bad[i].line, bad[i].column,
                     bad[i].message);
    }
}

/* Curves and collectives are the machine's own: none comes from the generic document. */
static void plan_takes_the_clusters_calibration(void **state) {
    (void)state;
    static const struct document_override set[] = {
        {"cluster.calibration", "calibration/data/p6-b200-published.yaml"}};
    struct document *d = must_parse(HEAD, set, 1);
    assert_string_equal(d->problem.calibration.name, "p6-b200-published");
    document_free(d);
    static const struct document_override generic[] = {
        {"cluster.calibration", "calibration/data/p6-b200-published.yaml"},
        {"calibration", "generic"}};
    d = must_parse(HEAD, generic, 2);
    assert_string_equal(d->problem.calibration.name, "generic");
    assert_int_equal(d->problem.calibration.collective_count, 0);
    document_free(d);
}

static const struct {
    const char *device, *bf16, *link, *warning; /* warning NULL: none */
} devices[] = {
    {"H100 SXM", "989 TFLOP/s", "450 GB/s", NULL},
    {"H100 SXM", "1979 TFLOP/s", "450 GB/s", "989 TFLOP/s"},
    {"h100", "1978 TFLOP/s", "450 GB/s", "989 TFLOP/s"},
    {"NVIDIA H100 PCIe", "1513 TFLOP/s", "300 GB/s", "756 TFLOP/s"},
    {"H200", "989 TFLOP/s", "900 GB/s", "450 GB/s"},
    {"A100 SXM 80GB", "624 TFLOP/s", "300 GB/s", "312 TFLOP/s"},
    {"B200", "4.5 PFLOP/s", "900 GB/s", "2.25 PFLOP/s"},
    {"B200", "2.25 PFLOP/s", "1800 GB/s", "900 GB/s"},
    {"GB200", "2.5 PFLOP/s", "900 GB/s", NULL},
    {"ACME 1", "1979 TFLOP/s", "900 GB/s", NULL},
};

static void mistaken_figures(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; ++i) {
        char text[1024];
        (void)snprintf(text, sizeof text,
                       "schema: mosaic-cluster/1\nname: c\ndevice:\n  name: %s\n  peak:\n"
                       "    bf16: %s\n  memory: 80 GB\n  hbm_bandwidth: 2 TB/s\n"
                       "node: {gpus: 8}\ntiers:\n  - {name: a, domain: 8, bandwidth: %s, "
                       "latency: 2 us}\n  - {name: b, bandwidth: 25 GB/s, latency: 9 us}\n",
                       devices[i].device, devices[i].bf16, devices[i].link);
        struct document *const d = must_parse(text, NULL, 0);
        assert_false(d->has_problem);
        assert_int_equal(said.warnings, devices[i].warning ? 1 : 0);
        if (devices[i].warning) {
            assert_non_null(strstr(said.items[0].message, devices[i].warning));
            assert_true(said.items[0].line == 6 || said.items[0].line == 11);
        }
        document_free(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlay),          cmocka_unit_test(recorded),
        cmocka_unit_test(bad_entries),      cmocka_unit_test(plan_takes_the_clusters_calibration),
        cmocka_unit_test(mistaken_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
