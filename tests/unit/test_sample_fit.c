// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A machine whose constants are known, measured without noise: the fit finds them, a sample scaled
 * by 1.1 moves what it feeds and nothing else, and the document loads as what was fitted.
 */
#include "sample_bench.h"

#include "doc/save_calibration.h"

static void finds_the_constants(void **state) {
    const struct bench *const b = *state;
    static const struct {
        enum scalar id;
        double value;
    } want[] = {{CAL_GEMM_SHARE_BF16, share16},
                {CAL_GEMM_SHARE_FP8, share8},
                {CAL_GEMM_BLOCK_FACTOR, block},
                {CAL_GEMM_HALF_SIZE, half},
                {CAL_GEMM_SUSTAINED, 0.75},
                {CAL_GROUPED_SHARE, grouped},
                {CAL_GROUPED_HALF_ROWS, half_rows},
                {CAL_GROUPED_EXPONENT, 1.3},
                {CAL_HBM_SHARE, hbm_share},
                {CAL_ATTENTION_SHARE, 0.5},
                {CAL_ATTENTION_HALF_SEQUENCE, 700},
                {CAL_ATTENTION_BACKWARD_RATE, 0.8},
                {CAL_ATTENTION_FP8_FACTOR, 1.3},
                {CAL_TOP_K_RATE, 2e10},
                {CAL_ROUTER_BYTES, 30},
                {CAL_PERMUTE_PASSES, 1.4},
                {CAL_QUANTISE_BYTES, 5},
                {CAL_CROSS_ENTROPY_PASSES, 6},
                {CAL_HEAD_FORWARD_SHARE, 0.65},
                {CAL_HOST_LINK_SHARE, 0.85},
                {CAL_HOST_MEMORY_RATE, 7e10},
                {CAL_OPTIMIZER_BYTES, 30},
                {CAL_OPTIMIZER_FIXED, 5e-5},
                {CAL_HOST_GAP, 7e-6},
                {CAL_TP_OVERLAPPED, 0.2},
                {CAL_EP_OVERLAPPED, 0.4},
                {CAL_PP_OVERLAPPED, 0.1},
                {CAL_DP_OVERLAP, 0.75}};
    struct sample_fit *const fit = run(b);
    const struct calibration *const c = &fit->calibration;
    for (size_t i = 0; i < sizeof want / sizeof *want; ++i) {
        assert_int_equal(c->scalar_origin[want[i].id], ORIGIN_CALIBRATED);
        if (fabs(c->scalar[want[i].id] / want[i].value - 1) > 1e-4)
            fail_msg("%s: %g, not %g", calibration_scalar_info(want[i].id)->key,
                     c->scalar[want[i].id], want[i].value);
    }
    size_t calibrated = 0;
    for (int i = 0; i < SCALAR_COUNT; ++i)
        calibrated += c->scalar_origin[i] == ORIGIN_CALIBRATED;
    assert_int_equal(calibrated, sizeof want / sizeof *want); /* nothing is invented */
    struct lookup_count ignored = {{0}};
    assert_close(curve_at(&c->curve[CAL_ATTENTION_CURVE], 4096, &ignored),
                 0.5 * peak16 / (1 + 700.0 / 4096), 1e-5);
    assert_int_equal(c->collective_count, GROUPS);
    for (int i = 0; i < c->collective_count; ++i) {
        size_t g = 0;
        while (strcmp(groups[g].kind, collective_name(c->collective[i].kind)) != 0)
            ++g;
        const double bytes = 1 << 28,
                     factor = collective_bus_factor(c->collective[i].kind, groups[g].ranks);
        assert_int_equal(c->collective[i].ranks_per_domain, groups[g].inside);
        assert_close(curve_at(&c->collective[i].bus, bytes, &ignored),
                     bytes * factor / group_s(g, bytes), 1e-5);
    }
    for (size_t i = 0; i < fit->entry_count; ++i)
        if (fit->entry[i].kind == SAMPLE_ENTRY_COLLECTIVE)
            assert_close(fit->entry[i].asymptote, groups[fit->entry[i].id].bus, 1e-3);
    for (size_t i = 0; i < fit->note_count; ++i)
        assert_int_equal(fit->note[i].kind, SAMPLE_NOTE_LEFT_OUT);
    sample_fit_free(fit);
}

/* Document key of each entry with its text, to see which of them moved. */
static bool moved(const struct sample_fit *a, const struct sample_fit *b,
                  const struct sample_entry *e) {
    if (e->kind == SAMPLE_ENTRY_SCALAR)
        return a->calibration.scalar[e->id] < b->calibration.scalar[e->id] ||
               a->calibration.scalar[e->id] > b->calibration.scalar[e->id];
    const bool is_curve = e->kind == SAMPLE_ENTRY_CURVE;
    const struct curve *const one =
        is_curve ? &a->calibration.curve[e->id] : &a->calibration.collective[e->id].bus;
    const struct curve *const two =
        is_curve ? &b->calibration.curve[e->id] : &b->calibration.collective[e->id].bus;
    return memcmp(one->y, two->y, sizeof one->y) != 0;
}

static bool is_in(const char *list, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = strstr(list, name); at; at = strstr(at + 1, name))
        if ((at == list || at[-1] == '|') && (at[length] == '|' || at[length] == '\0'))
            return true;
    return false;
}

/* What a quantity's sample feeds, what stands on that, and the piece of a name that picks one. */
static const struct {
    const char *sample, *feeds, *follows;
} fed[] = {
    {"gemm bf16 forward m=4096", "gemm.bf16.share|gemm.half_size",
     "gemm.fp8.share|gemm.fp8_block.factor|grouped_gemm.share|grouped_gemm.half_rows|grouped_gemm."
     "exponent"},
    {"gemm bf16 forward m=8192 n=8192 k=8192", "gemm.bf16.share|gemm.half_size|gemm.sustained",
     "gemm.fp8.share|gemm.fp8_block.factor|grouped_gemm.share|grouped_gemm.half_rows|grouped_gemm."
     "exponent"},
    {"gemm fp8 forward m=4096", "gemm.fp8.share", "gemm.fp8_block.factor"},
    {"gemm fp8_block forward m=4096", "gemm.fp8_block.factor", ""},
    {"grouped_gemm", "grouped_gemm.share|grouped_gemm.half_rows|grouped_gemm.exponent", ""},
    {"sustained", "gemm.sustained", ""},
    {"attention bf16 forward", "attention.bf16.forward|attention.share|attention.half_sequence",
     "attention.backward_rate|attention.fp8_factor"},
    {"attention bf16 backward", "attention.backward_rate", ""},
    {"attention fp8 forward", "attention.fp8_factor", ""},
    {"elementwise router_top_k forward", "router.top_k_rate", ""},
    {"elementwise router_top_k backward", "router.bytes_per_logit", ""},
    {"elementwise permute", "permute.passes", ""},
    {"elementwise cross_entropy", "head.cross_entropy_passes", ""},
    {"elementwise quantise", "quantise.bytes_per_element", ""},
    {"stream copy bytes=1073741824", "hbm.share",
     "gemm.bf16.share|gemm.half_size|gemm.fp8.share|gemm.fp8_block.factor|grouped_gemm.share|"
     "grouped_gemm.half_rows|grouped_gemm.exponent|router.bytes_per_logit|permute.passes|"
     "quantise.bytes_per_element"},
    {"stream copy bytes=1048576", "", ""},
    {"launch", "host.launch_gap", ""},
    {"host_copy to_host bytes=1073741824", "offload.link_share", ""},
    {"host_copy both bytes=1073741824", "offload.host_memory_rate", ""},
    {"adamw", "optimizer.bytes_per_parameter|optimizer.fixed", ""},
    {"ring_strip", "head.forward_share", ""},
    {"collective all_reduce", "all_reduce over 8 ranks, 8 in a domain", ""},
    {"collective all_gather", "all_gather over 16 ranks, 8 in a domain", ""},
    {"collective all_to_all", "all_to_all over 8 ranks, 8 in a domain", ""},
    {"collective point_to_point", "point_to_point over 2 ranks, 1 in a domain", ""},
    {"overlap bf16 m=4096 n=4096 k=4096 all_gather", "overlapped.tp", ""},
    {"overlap bf16 m=4096 n=4096 k=4096 all_to_all", "overlapped.ep", ""},
    {"overlap bf16 m=4096 n=4096 k=4096 point_to_point", "overlapped.pp", ""},
    {"overlap bf16 m=4096 n=4096 k=4096 all_reduce", "dp.overlap", ""},
};

static void check_moved(struct bench *b, size_t row, const struct sample_fit *before) {
    size_t at = 0;
    char name[256];
    for (; at < b->count; ++at) {
        (void)sample_print_name(&b->sample[at], name, sizeof name);
        if (strncmp(name, fed[row].sample, strlen(fed[row].sample)) == 0)
            break;
    }
    if (at == b->count)
        fail_msg("no sample %s", fed[row].sample);
    const struct sample kept = b->sample[at];
    b->sample[at].median_s *= 1.1;
    b->sample[at].most_s *= 1.1;
    struct sample_fit *const after = run(b);
    b->sample[at] = kept;
    assert_int_equal(before->entry_count, after->entry_count);
    for (size_t i = 0; i < before->entry_count; ++i) {
        char entry[128];
        (void)sample_entry_name(before, &before->entry[i], entry, sizeof entry);
        const bool has_moved = moved(before, after, &before->entry[i]);
        if (is_in(fed[row].feeds, entry) && !has_moved)
            fail_msg("%s does not move %s", name, entry);
        if (has_moved && !is_in(fed[row].feeds, entry) && !is_in(fed[row].follows, entry))
            fail_msg("%s moves %s", name, entry);
    }
    sample_fit_free(after);
}

static void moves_what_it_feeds(void **state) {
    struct bench *const b = *state;
    struct sample_fit *const before = run(b);
    bool covered[SAMPLE_QUANTITIES] = {false};
    for (size_t row = 0; row < sizeof fed / sizeof *fed; ++row) {
        check_moved(b, row, before);
        for (int q = 0; q < SAMPLE_QUANTITIES; ++q) {
            const char *const name = sample_kind((enum sample_quantity)q)->name;
            covered[q] |= strncmp(fed[row].sample, name, strlen(name)) == 0;
        }
    }
    for (int q = 0; q < SAMPLE_QUANTITIES; ++q)
        assert_true(covered[q] || q == SAMPLE_MOE_LAYER);
    sample_fit_free(before);
}

/* ---- the document ---- */

static char *saved(const struct bench *b, const struct sample_fit *fit) {
    const struct save_calibration what = {.name = "toy-measured",
                                          .device = "toy",
                                          .source = "mosaic-probe-test 1 on \"toy\"",
                                          .software = "cuda 1.2",
                                          .method = "median of rounds",
                                          .writer = "mosaic calibrate",
                                          .fit = fit,
                                          .samples = b->sample,
                                          .sample_count = b->count};
    char *text = NULL;
    struct status_error err = {.message = ""};
    assert_int_equal(save_calibration(&what, &text, &err), MOSAIC_OK);
    return text;
}

static void loads_as_it_was_fitted(void **state) {
    const struct bench *const b = *state;
    struct sample_fit *const fit = run(b);
    char *const text = saved(b, fit);
    struct document *const d = must_parse(text, NULL, 0);
    const struct calibration *const c = &d->problem.calibration;
    for (int i = 0; i < SCALAR_COUNT; ++i) {
        assert_close(c->scalar[i], fit->calibration.scalar[i], 0);
        assert_int_equal(c->scalar_origin[i], fit->calibration.scalar_origin[i]);
    }
    assert_memory_equal(c->has_curve, fit->calibration.has_curve, sizeof c->has_curve);
    assert_memory_equal(c->curve[CAL_ATTENTION_CURVE].y,
                        fit->calibration.curve[CAL_ATTENTION_CURVE].y,
                        sizeof c->curve[CAL_ATTENTION_CURVE].y);
    assert_int_equal(c->collective_count, fit->calibration.collective_count);
    for (int i = 0; i < c->collective_count; ++i)
        assert_memory_equal(&c->collective[i], &fit->calibration.collective[i],
                            sizeof c->collective[i]);
    assert_string_equal(c->device, "toy");
    document_free(d);
    free(text);
    sample_fit_free(fit);
}

static void order_does_not_count(void **state) {
    struct bench *const b = *state;
    struct sample_fit *fit = run(b);
    char *const before = saved(b, fit);
    sample_fit_free(fit);
    for (size_t i = 0; i < b->count / 2; ++i) {
        const struct sample other = b->sample[i];
        b->sample[i] = b->sample[b->count - 1 - i];
        b->sample[b->count - 1 - i] = other;
    }
    fit = run(b);
    char *const after = saved(b, fit);
    assert_string_equal(before, after);
    free(before);
    free(after);
    sample_fit_free(fit);
}

static void refuses_a_bad_measurement(void **state) {
    (void)state;
    struct document *d = NULL;
    static const char head[] = "schema: mosaic-calibration/1\nname: n\ndevice: d\nentries: []\n";
    char text[512];
    (void)snprintf(text, sizeof text, "%smeasurements:\n  - '{\"quantity\": \"gem\"}'\n", head);
    assert_int_equal(parse(text, NULL, 0, &d), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(said.items[0].message, "unknown quantity 'gem'"));
    assert_int_equal(said.items[0].line, 6);
    (void)snprintf(text, sizeof text, "%smeasurements: {a: 1}\n", head);
    assert_int_equal(parse(text, NULL, 0, &d), MOSAIC_BAD_INPUT);
}

/* ---- doubts ---- */

static void names_outliers(void **state) {
    struct bench *const b = *state;
    const struct sample kept = b->sample[3];
    b->sample[3].median_s *= 3;
    b->sample[3].most_s *= 3;
    struct sample_fit *const fit = run(b);
    char name[256];
    (void)sample_print_name(&b->sample[3], name, sizeof name);
    assert_true(has_note(fit, SAMPLE_NOTE_OUTLIER, name));
    assert_close(fit->calibration.scalar[CAL_GEMM_SHARE_BF16], share16, 0.01);
    b->sample[3] = kept;
    sample_fit_free(fit);
}

static void refuses_more_than_a_peak(void **state) {
    struct bench *const b = *state;
    const struct sample_facts kept = b->facts;
    b->facts.peak_flop_per_s[PRECISION_BF16] /= 2;
    struct sample_fit *fit = run(b);
    assert_true(has_note(fit, SAMPLE_NOTE_RANGE, "gemm.bf16.share"));
    assert_int_equal(fit->calibration.scalar_origin[CAL_GEMM_SHARE_BF16], ORIGIN_GENERIC);
    sample_fit_free(fit);
    b->facts = kept;
    b->facts.hbm_bytes_per_s = 0; /* not stated: nothing that needs it */
    fit = run(b);
    assert_int_equal(fit->calibration.scalar_origin[CAL_HBM_SHARE], ORIGIN_GENERIC);
    assert_int_equal(fit->calibration.scalar_origin[CAL_OPTIMIZER_BYTES], ORIGIN_GENERIC);
    assert_true(has_note(fit, SAMPLE_NOTE_LEFT_OUT, "stream"));
    b->facts = kept;
    sample_fit_free(fit);
}

static void times_do_not_fall(void **state) {
    (void)state;
    struct bench *const b = calloc(1, sizeof *b);
    b->generic = must_load("calibration/data/generic.yaml", NULL, 0);
    b->facts =
        (struct sample_facts){.base_dtype = "bf16", .base = &b->generic->problem.calibration};
    static const double us[] = {20, 30, 26, 40};
    for (int i = 0; i < 4; ++i)
        ADD(b, 1e-6 * us[i],
            "{\"quantity\": \"collective\", \"kind\": \"all_gather\", \"ranks\": 4, "
            "\"ranks_per_domain\": 4, \"bytes\": %d}",
            1 << (16 + i));
    struct sample_fit *const fit = run(b);
    const struct curve *const bus = &fit->calibration.collective[0].bus;
    assert_true(has_note(fit, SAMPLE_NOTE_FALLING, "pooled"));
    for (int i = 1; i < bus->samples; ++i)
        assert_true(bus->x[i] / bus->y[i] >= bus->x[i - 1] / bus->y[i - 1] * (1 - 1e-5));
    sample_fit_free(fit);
    document_free(b->generic);
    free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(finds_the_constants, setup, teardown),
        cmocka_unit_test_setup_teardown(moves_what_it_feeds, setup, teardown),
        cmocka_unit_test_setup_teardown(loads_as_it_was_fitted, setup, teardown),
        cmocka_unit_test_setup_teardown(order_does_not_count, setup, teardown),
        cmocka_unit_test(refuses_a_bad_measurement),
        cmocka_unit_test_setup_teardown(names_outliers, setup, teardown),
        cmocka_unit_test_setup_teardown(refuses_more_than_a_peak, setup, teardown),
        cmocka_unit_test(times_do_not_fall),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
