// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Samples that feed no entry are held against what the entries say of them; numbers of four bytes,
 * shares of links.
 */
#include "sample_bench.h"

/* ---- what feeds nothing ---- */

static double error_of(const struct sample_fit *fit, const char *name) {
    for (size_t i = 0; i < fit->check_count; ++i)
        if (strcmp(fit->check[i].name, name) == 0)
            return fit->check[i].error;
    fail_msg("no check %s", name);
    return 0.0;
}

/* Every sample feeds an entry or is held against them: none falls silent. */
static void holds_out_what_feeds_nothing(void **state) {
    struct bench *const b = *state;
    static const char wide[] = "{\"quantity\": \"elementwise\", \"op\": \"%s\", \"pass\": \"%s\", "
                               "\"rows\": 4096, \"width\": 4096}";
    static const char copy[] = "{\"quantity\": \"host_copy\", \"direction\": \"%s\", \"bytes\": "
                               "268435456, \"load\": \"stream\"}";
    static const char layer[] =
        "{\"quantity\": \"moe_layer\", \"tokens\": 4096, \"hidden\": 2048, \"ffn\": 1024, "
        "\"experts\": 16, \"top_k\": 4, \"ranks\": %d, \"pass\": \"%s\"}";
    static const char under[] =
        "{\"quantity\": \"overlap\", \"dtype\": \"bf16\", \"m\": 512, \"n\": 512, \"k\": 512, "
        "\"kind\": \"all_to_all\", \"ranks\": 8, \"bytes\": 1048576, \"part\": \"%s\"}";
    const double number = 4096.0 * 4096.0 * 2 / (hbm * hbm_share), bytes = 268435456.0;
    ADD(b, 2 * number / 1.25, wide, "norm", "forward");
    ADD(b, 4 * number, wide, "norm", "backward");
    ADD(b, 2 * number, wide, "rope", "forward");
    ADD(b, 3 * number, wide, "swiglu", "forward");
    ADD(b, 3 * 1.7 * number / 0.5, wide, "swiglu", "backward");
    ADD(b, bytes / (0.85 * link) / 0.8, copy, "to_host");
    ADD(b, 2 * bytes / 7e10 / 0.8, copy, "both");
    ADD(b, 7e-6 / 4, "{\"quantity\": \"launch\", \"graph\": 1, \"kernels\": 100}");
    ADD(b, 2e-5, under, "gemm");
    ADD(b, 1e-4, under, "collective");
    ADD(b, 1e-4, under, "both");
    ADD(b, 1e-3, layer, 1, "forward");
    ADD(b, 3e-3, layer, 8, "backward");
    struct sample_fit *const fit = run(b);
    assert_int_equal(fit->used + fit->checked, fit->samples);
    for (size_t i = 0; i < fit->note_count; ++i)
        if (strstr(fit->note[i].text, "no entry"))
            fail_msg("%s", fit->note[i].text);
    assert_close(error_of(fit, "elementwise norm forward"), 0.25, 1e-3);
    assert_close_abs(error_of(fit, "elementwise norm backward"), 0.0, 1e-4);
    assert_close_abs(error_of(fit, "elementwise rope forward"), 0.0, 1e-4);
    assert_close_abs(error_of(fit, "elementwise swiglu forward"), 0.0, 1e-4);
    assert_close(error_of(fit, "elementwise swiglu backward"), -0.5, 1e-3);
    assert_close(error_of(fit, "host_copy to_host stream"), -0.2, 1e-3);
    assert_close(error_of(fit, "host_copy both stream"), -0.2, 1e-3);
    assert_close(error_of(fit, "launch"), 3.0, 1e-3);
    /* a collective that outlasts its product hides no more than that: held out, and right */
    assert_close(fit->calibration.scalar[CAL_EP_OVERLAPPED], 0.4, 1e-3);
    assert_close_abs(error_of(fit, "overlap bf16 all_to_all both"), 0.0, 1e-6);
    /* streams and copies too short to count */
    assert_true(error_of(fit, "stream copy") < 0.0);
    sample_fit_free(fit);
}

/* The layer is that of the step model: experts by the grouped rate, all-to-all as measured. */
static void predicts_a_layer(void **state) {
    struct bench *const b = *state;
    static const char keys[] =
        "{\"quantity\": \"moe_layer\", \"tokens\": 4096, \"hidden\": 2048, \"ffn\": 1024, "
        "\"experts\": 16, \"top_k\": 4, \"ranks\": %d, \"pass\": \"%s\"}";
    ADD(b, 1e-3, keys, 1, "forward");
    ADD(b, 1e-3, keys, 8, "forward");
    ADD(b, 1e-3, keys, 8, "backward");
    ADD(b, 1e-3, keys, 4, "forward"); /* no all-to-all of four: nothing to go by */
    struct sample_fit *const fit = run(b);
    double seconds[3];
    for (int i = 0; i < 3; ++i)
        assert_true(sample_layer_seconds(fit, &b->facts, &b->sample[b->count - 4 + (size_t)i],
                                         &seconds[i]));
    double ignored;
    assert_false(sample_layer_seconds(fit, &b->facts, &b->sample[b->count - 1], &ignored));
    assert_true(has_note(fit, SAMPLE_NOTE_LEFT_OUT, "1 moe_layer sample feeds no entry"));
    const double rows = 4096 * 4, each = rows / 16, stream = hbm * hbm_share;
    const double experts =
        2 * 3 * rows * 2048 * 1024 / (grouped * share16 * peak16) * pow(1 + half_rows / each, 1.3) +
        2 * (3.0 * 2048 * 1024 * 16 + rows * (2 * 2048 + 3 * 1024)) / stream;
    const double activation = 2 * 3 * rows * 1024 / stream;
    const double permute = 1.4 * 4 * 2048 * (4096 + rows) / stream;
    assert_close(seconds[0], experts + activation + permute, 1e-3);
    /* eight ranks: as many rows a rank, eight times as many an expert, an eighth of the weights */
    assert_true(seconds[1] > 2 * group_s(2, rows * 2048 * 2));
    assert_true(seconds[2] > 2 * seconds[1]);
    sample_fit_free(fit);
}

/* ---- numbers of four bytes ---- */

static void counts_the_bytes_of_its_numbers(void **state) {
    struct bench *const b = *state;
    struct sample all[SAMPLES_MAX];
    memcpy(all, b->sample, sizeof all);
    const size_t count = b->count;
    b->count = 0;
    for (int i = 5; i <= 10; ++i)
        for (int j = 5; j <= 10; ++j) {
            const double m = 1 << i, n = 1 << j, k = 1 << (15 - i);
            ADD(b,
                2 * m * n * k / (share16 * peak16) * (1 + half / m) * (1 + half / n) *
                        (1 + half / k) +
                    4 * (m * k + k * n + m * n) / (hbm * hbm_share),
                "{\"quantity\": \"gemm\", \"dtype\": \"fp32\", \"pass\": \"forward\", \"m\": %d, "
                "\"n\": %d, \"k\": %d}",
                (int)m, (int)n, (int)k);
        }
    ADD(b, 1e9 / (hbm * hbm_share),
        "{\"quantity\": \"stream\", \"op\": \"copy\", \"bytes\": 1000000000}");
    ADD(b, 1.4 * 8 * 4096 * 1024 / (hbm * hbm_share),
        "{\"quantity\": \"elementwise\", \"op\": \"permute\", \"pass\": \"forward\", \"rows\": "
        "4096, \"width\": 1024}");
    b->facts.base_dtype = "fp32";
    assert_close(sample_number_bytes(&b->facts), 4.0, 0.0);
    struct sample_fit *const fit = run(b);
    assert_close(fit->calibration.scalar[CAL_GEMM_SHARE_BF16], share16, 1e-4);
    assert_close(fit->calibration.scalar[CAL_GEMM_HALF_SIZE], half, 1e-4);
    assert_close(fit->calibration.scalar[CAL_PERMUTE_PASSES], 1.4, 1e-4);
    sample_fit_free(fit);
    b->facts.base_dtype = "bf16";
    assert_close(sample_number_bytes(&b->facts), 2.0, 0.0);
    memcpy(b->sample, all, sizeof all);
    b->count = count;
}

/* Where sizes do not tell share and half size apart, the share alone is fitted, not left out. */
static void falls_back_to_the_share(void **state) {
    struct bench *const b = *state;
    b->count = 0;
    for (int side = 64; side <= 512; side *= 2)
        ADD(b, 2.0 * side * side * side / (0.2 * peak16) * (1 + 900.0 / side),
            "{\"quantity\": \"gemm\", \"dtype\": \"bf16\", \"pass\": \"forward\", \"m\": %d, "
            "\"n\": 64, \"k\": %d}",
            side, side * side / 64);
    b->facts.peak_flop_per_s[PRECISION_BF16] = 0.05 * peak16;
    struct sample_fit *const fit = run(b);
    const double share = fit->calibration.scalar[CAL_GEMM_SHARE_BF16];
    assert_true(share > 0.0 && share <= 1.0);
    b->facts.peak_flop_per_s[PRECISION_BF16] = peak16;
    sample_fit_free(fit);
}

/* ---- links ---- */

static void finds_the_shares_of_links(void **state) {
    struct bench *const b = *state;
    b->cluster = (struct cluster){.device = {.memory_bytes = 1e11, .hbm_bytes_per_s = hbm},
                                  .nodes = 8,
                                  .gpus_per_node = 8,
                                  .tiers = {{"in", 8, 4e11, 3e-6}, {"out", 64, 5e10, 2e-5}},
                                  .tier_count = 2};
    const struct network links = {&b->cluster, b->facts.base, 0.72, 0.81};
    static const struct {
        enum collective_kind kind;
        struct group group;
        int inside;
    } asked[] = {{COLLECTIVE_ALL_GATHER, {8, 1}, 8},     {COLLECTIVE_ALL_TO_ALL, {4, 1}, 4},
                 {COLLECTIVE_ALL_GATHER, {16, 1}, 8},    {COLLECTIVE_ALL_TO_ALL, {32, 1}, 8},
                 {COLLECTIVE_REDUCE_SCATTER, {4, 8}, 1}, {COLLECTIVE_POINT_TO_POINT, {2, 8}, 1}};
    b->count = 0;
    for (size_t i = 0; i < sizeof asked / sizeof *asked; ++i)
        for (double bytes = 1 << 20; bytes <= 1 << 30; bytes *= 4)
            ADD(b, collective_time_s(&links, asked[i].kind, asked[i].group, bytes, NULL),
                "{\"quantity\": \"collective\", \"kind\": \"%s\", \"ranks\": %d, "
                "\"ranks_per_domain\": %d, \"bytes\": %.0f}",
                collective_name(asked[i].kind), asked[i].group.ranks, asked[i].inside, bytes);
    b->facts.cluster = &b->cluster;
    struct sample_fit *fit = run(b);
    assert_int_equal(fit->calibration.scalar_origin[CAL_COLLECTIVE_INTRA_SHARE], ORIGIN_GENERIC);
    sample_fit_free(fit);
    b->facts.fits_link_shares = true;
    fit = run(b);
    assert_close(fit->calibration.scalar[CAL_COLLECTIVE_INTRA_SHARE], 0.72, 1e-4);
    assert_close(fit->calibration.scalar[CAL_COLLECTIVE_INTER_SHARE], 0.81, 1e-4);
    assert_int_equal(fit->calibration.collective_count, sizeof asked / sizeof *asked);
    sample_fit_free(fit);
    b->facts.cluster = NULL;
    b->facts.fits_link_shares = false;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(holds_out_what_feeds_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(predicts_a_layer, setup, teardown),
        cmocka_unit_test_setup_teardown(counts_the_bytes_of_its_numbers, setup, teardown),
        cmocka_unit_test_setup_teardown(falls_back_to_the_share, setup, teardown),
        cmocka_unit_test_setup_teardown(finds_the_shares_of_links, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
