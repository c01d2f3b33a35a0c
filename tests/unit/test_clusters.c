// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The cluster documents of configs/clusters: one per device and fabric, figures of the vendors'
 * sheets, and what is said about figures that are not what they are taken for (U09, U10, U52).
 */
#include "test_doc.h"

#include <dirent.h>

#define FOLDER "configs/clusters"

/* Facts that hold whatever the source: TFLOP/s dense, GB/s one way. */
static const struct {
    const char *file, *device, *fabric, *architecture;
    double bf16, fp8, nvfp4, nvlink, nic;
    int gpus, domain;
} shipped[] = {
    {"a100-ib.yaml", "A100", "ib", "ampere", 312, 0, 0, 300, 25, 8, 8},
    {"h100-ib.yaml", "H100", "ib", "hopper", 989, 1979, 0, 450, 50, 8, 8},
    {"h100-96g-ib.yaml", "H100-96G500W", "ib", "hopper", 989, 1979, 0, 450, 50, 8, 8},
    {"h200-ib.yaml", "H200", "ib", "hopper", 989, 1979, 0, 450, 50, 8, 8},
    {"b200-ib.yaml", "B200", "ib", "blackwell", 2250, 4500, 9000, 900, 50, 8, 8},
    {"b300-ib.yaml", "B300", "ib", "blackwell", 2250, 4500, 13500, 900, 100, 8, 8},
    {"gb200-ib.yaml", "GB200", "ib", "blackwell", 2500, 5000, 10000, 900, 50, 4, 72},
    {"gb300-ib.yaml", "GB300", "ib", "blackwell", 2500, 5000, 15000, 900, 100, 4, 72},
    {"p5-h100.yaml", "H100", "efa", "hopper", 989, 1979, 0, 450, 50, 8, 8},
    {"p6-b200.yaml", "B200", "efa", "blackwell", 2250, 4500, 9000, 900, 50, 8, 8},
    {"p6-b300.yaml", "B300", "efa", "blackwell", 2250, 4500, 13500, 900, 100, 8, 8},
};
enum { SHIPPED = sizeof shipped / sizeof shipped[0] };

/* A cluster by itself is only checked; a budget makes it one that can be looked at. */
static struct document *load(const char *file) {
    static const struct document_override set[] = {{"nodes", "18"}, {"budget.days", "1"}};
    char path[256];
    (void)snprintf(path, sizeof path, FOLDER "/%s", file);
    return must_load(path, set, 2);
}

static void documents(void **state) {
    (void)state;
    for (size_t i = 0; i < SHIPPED; ++i) {
        struct document *const d = load(shipped[i].file);
        const struct cluster *const c = &d->problem.cluster;
        const struct tier *const out = &c->tiers[c->tier_count - 1];
        assert_int_equal(said.warnings, 0);
        assert_string_equal(c->device.name, shipped[i].device);
        assert_string_equal(c->device.architecture, shipped[i].architecture);
        assert_string_equal(out->name, shipped[i].fabric);
        assert_int_equal(c->gpus_per_node, shipped[i].gpus);
        assert_int_equal(c->tiers[0].domain, shipped[i].domain);
        assert_close(c->tiers[0].bytes_per_s, shipped[i].nvlink * 1e9, 1e-12);
        assert_close(out->bytes_per_s, shipped[i].nic * 1e9, 1e-12);
        const double *const peak = c->device.peak_flop_per_s;
        assert_close(peak[PRECISION_BF16], shipped[i].bf16 * 1e12, 1e-12);
        assert_close(peak[PRECISION_FP8], shipped[i].fp8 * 1e12, 1e-12);
        assert_close(peak[PRECISION_NVFP4], shipped[i].nvfp4 * 1e12, 1e-12);
        /* MXFP8 is Blackwell's, at the rate of fp8. */
        const double mxfp8 = shipped[i].nvfp4 > 0.0 ? peak[PRECISION_FP8] : 0.0;
        assert_close(peak[PRECISION_MXFP8], mxfp8, 1e-12);
        document_free(d);
    }
}

/* A device and a fabric name one document; every document is in the table above. */
static void one_per_device_and_fabric(void **state) {
    (void)state;
    for (size_t i = 0; i < SHIPPED; ++i)
        for (size_t j = 0; j < i; ++j)
            assert_false(strcmp(shipped[i].device, shipped[j].device) == 0 &&
                         strcmp(shipped[i].fabric, shipped[j].fabric) == 0);
    DIR *const folder = opendir(FOLDER);
    assert_non_null(folder);
    size_t files = 0;
    for (const struct dirent *entry = readdir(folder); entry; entry = readdir(folder))
        files += strstr(entry->d_name, ".yaml") != NULL;
    (void)closedir(folder);
    assert_int_equal(files, SHIPPED);
}

/* Parts of one chip differ in what the board gives them, not in compute or NVLink. */
static void same_device_same_figures(void **state) {
    (void)state;
    static const char *const pairs[][2] = {{"h100-ib.yaml", "p5-h100.yaml"},
                                           {"b200-ib.yaml", "p6-b200.yaml"},
                                           {"b300-ib.yaml", "p6-b300.yaml"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; ++i) {
        struct document *const a = load(pairs[i][0]);
        struct document *const b = load(pairs[i][1]);
        const struct cluster *const x = &a->problem.cluster;
        const struct cluster *const y = &b->problem.cluster;
        for (int p = 0; p < PRECISION_COUNT; ++p)
            assert_close(x->device.peak_flop_per_s[p], y->device.peak_flop_per_s[p], 0);
        assert_close(x->device.hbm_bytes_per_s, y->device.hbm_bytes_per_s, 0);
        assert_close(x->tiers[0].bytes_per_s, y->tiers[0].bytes_per_s, 0);
        document_free(a);
        document_free(b);
    }
}

static void architecture(void **state) {
    (void)state;
    struct document *d = must_parse(HEAD, NULL, 0);
    assert_int_equal(origin(d, "cluster.device.architecture"), DOCUMENT_GIVEN);
    document_free(d);
    static const struct document_override set = {"cluster.device.architecture", "rubin"};
    d = must_parse(HEAD, &set, 1);
    assert_string_equal(d->problem.cluster.device.architecture, "rubin");
    document_free(d);
    static const struct document_override none = {"cluster", "configs/examples/cluster.yaml"};
    d = must_parse(HEAD, &none, 1);
    assert_string_equal(d->problem.cluster.device.architecture, "");
    document_free(d);
    static const struct document_override longer = {"cluster.device.architecture",
                                                    "an-architecture-with-too-long-a-name"};
    assert_int_equal(parse(HEAD, &longer, 1, &d), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(said.items[0].message, "architecture"));
}

/* warning NULL: none */
static const struct {
    const char *device, *key, *value, *warning;
} figures[] = {
    {"H100 SXM", "bf16", "1979 TFLOP/s", "2:4 sparsity; dense is 989 TFLOP/s"},
    {"H100-96G500W", "bf16", "1979 TFLOP/s", "dense is 989 TFLOP/s"},
    {"H100", "fp8", "3958 TFLOP/s", "dense is 1.98 PFLOP/s"},
    {"H100", "fp8", "1979 TFLOP/s", NULL},
    {"H100", "fp8", "989 TFLOP/s", "half of the fp8 peak"},
    {"NVIDIA H100 NVL", "bf16", "1671 TFLOP/s", "dense is 835 TFLOP/s"},
    {"H100-PCIe-80GB", "bf16", "1513 TFLOP/s", "dense is 756 TFLOP/s"},
    {"H100 PCIe", "bf16", "378 TFLOP/s", "half of the bf16 peak"},
    {"H200", "bf16", "1979 TFLOP/s", "dense is 989 TFLOP/s"},
    {"H200 NVL", "bf16", "1671 TFLOP/s", "dense is 835 TFLOP/s"},
    {"H20", "bf16", "148 TFLOP/s", NULL},
    {"H20", "bf16", "296 TFLOP/s", "dense is 148 TFLOP/s"},
    {"H20", "fp8", "592 TFLOP/s", "dense is 296 TFLOP/s"},
    {"H800", "bf16", "1979 TFLOP/s", "dense is 989 TFLOP/s"},
    {"A100", "bf16", "156 TFLOP/s",
     "half of the bf16 peak of 'A100', halved once too often; dense is 312"},
    {"NVIDIA A100-PCIE-40GB", "bf16", "624 TFLOP/s", "dense is 312 TFLOP/s"},
    {"A100", "bf16", "300 TFLOP/s", NULL},
    {"B200", "fp8", "9 PFLOP/s", "dense is 4.5 PFLOP/s"},
    {"B200", "mxfp8", "9 PFLOP/s", "the mxfp8 peak of 'B200'"},
    {"B200", "mxfp8", "2.25 PFLOP/s", "half of the mxfp8 peak"},
    {"B200", "nvfp4", "18 PFLOP/s", "dense is 9 PFLOP/s"},
    {"B200", "nvfp4", "4.5 PFLOP/s", "half of the nvfp4 peak"},
    {"B300", "nvfp4", "18 PFLOP/s", "dense is 13.5 PFLOP/s"},
    {"B300", "nvfp4", "14 PFLOP/s", NULL},
    {"GB200", "bf16", "2450 TFLOP/s", NULL},
    {"GB200", "bf16", "4900 TFLOP/s", "dense is 2.5 PFLOP/s"},
    {"GB200", "bf16", "5 PFLOP/s", "dense is 2.5 PFLOP/s"},
    {"GB200 NVL72", "nvfp4", "20 PFLOP/s", "dense is 10 PFLOP/s"},
    {"GB300", "nvfp4", "20 PFLOP/s", "dense is 15 PFLOP/s"},
    {"MI300X", "bf16", "2614 TFLOP/s", "dense is 1.31 PFLOP/s"},
    {"ACME H1000", "bf16", "1979 TFLOP/s", NULL},
};

static void mistaken_peaks(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; ++i) {
        char key[64];
        (void)snprintf(key, sizeof key, "cluster.device.peak.%s", figures[i].key);
        const struct document_override set[] = {{"cluster", "configs/examples/cluster.yaml"},
                                                {"calibration", "generic"}, /* of any device */
                                                {"cluster.device.name", figures[i].device},
                                                {"cluster.tiers[0].bandwidth", "1 GB/s"},
                                                {"cluster.device.peak.bf16", "1 TFLOP/s"},
                                                {"cluster.device.peak.fp8", "1 TFLOP/s"},
                                                {key, figures[i].value}};
        struct document *const d = must_parse(HEAD, set, sizeof set / sizeof set[0]);
        if (said.warnings != (figures[i].warning ? 1U : 0U) ||
            (figures[i].warning && !strstr(said.items[0].message, figures[i].warning)))
            fail_msg("%s, %s %s: %zu warnings, %s", figures[i].device, figures[i].key,
                     figures[i].value, (size_t)said.warnings,
                     said.warnings ? said.items[0].message : "");
        assert_true(d->has_problem);
        document_free(d);
    }
}

static const struct {
    const char *device, *link, *warning;
} links[] = {
    {"H100", "900 GB/s", "one way is 450 GB/s"},  {"H100", "450 GB/s", NULL},
    {"H800", "400 GB/s", "one way is 200 GB/s"},  {"H800", "200 GB/s", NULL},
    {"H20", "900 GB/s", "one way is 450 GB/s"},   {"H100 NVL", "600 GB/s", "one way is 300 GB/s"},
    {"A100", "600 GB/s", "one way is 300 GB/s"},  {"B300", "1.8 TB/s", "one way is 900 GB/s"},
    {"GB300", "1.8 TB/s", "one way is 900 GB/s"}, {"MI300X", "896 GB/s", "one way is 448 GB/s"},
};

static void mistaken_links(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof links / sizeof links[0]; ++i) {
        const struct document_override set[] = {{"cluster", "configs/examples/cluster.yaml"},
                                                {"calibration", "generic"}, /* of any device */
                                                {"cluster.device.name", links[i].device},
                                                {"cluster.device.peak.bf16", "1 TFLOP/s"},
                                                {"cluster.device.peak.fp8", "1 TFLOP/s"},
                                                {"cluster.tiers[0].bandwidth", links[i].link}};
        struct document *const d = must_parse(HEAD, set, sizeof set / sizeof set[0]);
        assert_int_equal(said.warnings, links[i].warning ? 1 : 0);
        if (links[i].warning)
            assert_non_null(strstr(said.items[0].message, links[i].warning));
        document_free(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents),
        cmocka_unit_test(one_per_device_and_fabric),
        cmocka_unit_test(same_device_same_figures),
        cmocka_unit_test(architecture),
        cmocka_unit_test(mistaken_peaks),
        cmocka_unit_test(mistaken_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
