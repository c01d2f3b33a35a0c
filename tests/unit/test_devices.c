// SPDX-License-Identifier: GPL-3.0-or-later
/* Peaks of a well-known device by what a driver calls it. */
#include "test_doc.h"

#include "doc/devices.h"

static void finds_by_the_drivers_name(void **state) {
    static const struct {
        const char *name, *match;
        double bf16, fp8, mxfp8, nvfp4;
    } cases[] = {{"NVIDIA A800-SXM4-80GB", "A800", 312e12, 0, 0, 0},
                 {"NVIDIA H20", "H20", 148e12, 296e12, 0, 0},
                 {"NVIDIA H200", "H200", 989e12, 1979e12, 0, 0},
                 {"NVIDIA H100 PCIe", "H100 PCIe", 756e12, 1513e12, 0, 0},
                 {"NVIDIA GB200", "GB200", 2500e12, 5000e12, 5000e12, 10000e12},
                 {"AMD EPYC", NULL, 0, 0, 0, 0},
                 {"", NULL, 0, 0, 0, 0}};
    void *const memory = talloc_new(NULL);
    (void)state;
    diag_init(&said);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        struct device device;
        const char *match = "untouched";
        assert_int_equal(doc_devices_find(memory, &said, cases[i].name, &device, &match),
                         MOSAIC_OK);
        if (!cases[i].match)
            assert_null(match);
        else
            assert_string_equal(match, cases[i].match);
        assert_close_abs(device.peak_flop_per_s[PRECISION_BF16], cases[i].bf16, 1.0);
        assert_close_abs(device.peak_flop_per_s[PRECISION_FP8], cases[i].fp8, 1.0);
        assert_close_abs(device.peak_flop_per_s[PRECISION_MXFP8], cases[i].mxfp8, 1.0);
        assert_close_abs(device.peak_flop_per_s[PRECISION_NVFP4], cases[i].nvfp4, 1.0);
        assert_close_abs(device.hbm_bytes_per_s, 0.0, 0.0);
    }
    talloc_free(memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(finds_by_the_drivers_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
