// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Selective checkpoint offload as priced: the measured runs of arXiv 2609.14306 (gpt-oss-20b on 8
 * GPUs), and over random schedules what a walk through forward and backward holds and waits for.
 */
#include "step/boundary_offload.h"

#include "close.h"
#include "xorshift.h"

#include <stdbool.h>
#include <string.h>

static const double gib = 1024.0 * 1024.0 * 1024.0;

static struct boundary_offload offload_of(long boundaries, double bytes, double budget, int depth,
                                          int streams) {
    struct boundary_offload out;
    struct status_error err = {0};
    if (boundary_offload_of(boundaries, bytes, budget, depth, streams, &out, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    return out;
}

/* ---- the measured runs: 557,056 tokens on 8 ranks, H 2,880, bf16, 24 layers of two streams ----
 */

enum { RANKS = 8, HIDDEN = 2880, LAYERS = 24, TOKENS = 557056 };

static const double off_peak_gib = 139.790;

static struct boundary_offload measured(double budget_gib) {
    return offload_of(boundary_count(LAYERS, 2), TOKENS / RANKS * HIDDEN * 2.0, budget_gib * gib, 1,
                      2);
}

static void one_boundary(void **state) {
    (void)state;
    assert_close_abs(measured(8).bytes / gib, 0.37354, 1e-4);
    assert_close_abs(measured(8).pinned_bytes / gib, 0.5, 0);
}

static void budgets_of_the_runs(void **state) {
    (void)state;
    static const struct {
        double budget_gib;
        long selected;
        double payload_gib, pinned_gib;
    } rows[] = {{8, 21, 7.84, 10.5}, {16, 42, 15.69, 21}, {INFINITY, 47, 17.56, 23.5}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        const struct boundary_offload o = measured(rows[i].budget_gib);
        assert_int_equal(o.boundaries, 47);
        assert_int_equal(o.selected, rows[i].selected);
        assert_close_abs(o.host_bytes / gib, rows[i].payload_gib, 0.01);
        assert_close_abs(o.host_pinned_bytes / gib, rows[i].pinned_gib, 0);
        assert_true(o.link_bytes == o.host_bytes);
    }
}

static double peak_gib(double budget_gib) {
    return off_peak_gib - (measured(0).device_bytes - measured(budget_gib).device_bytes) / gib;
}

static void peaks_of_the_runs(void **state) {
    (void)state;
    assert_close_abs(peak_gib(0), off_peak_gib, 0);
    assert_close_abs(peak_gib(INFINITY), 123.728, 0.05);
    assert_close_abs(peak_gib(8), 133.546, 0.3);
    assert_close_abs(peak_gib(16), 125.677, 0.3);
}

/* The phases alone would promise more at a part of the boundaries than the runs save. */
static void phases_promise_more(void **state) {
    (void)state;
    const struct boundary_offload none = measured(0), part = measured(8);
    const double saved_gib = (none.device_phase_bytes - part.device_phase_bytes) / gib;
    assert_true(saved_gib > off_peak_gib - 133.546 + 1.0);
    assert_true(part.device_phase_bytes <= part.device_bytes);
}

static void node_memory_of_the_run(void **state) {
    (void)state;
    assert_close(RANKS * measured(INFINITY).host_pinned_bytes / gib, 593.410 - 402.517, 0.03);
}

/* What did not fit after all boundaries had gone: the logits, of a size that no budget changes. */
static void logits_set_the_limit(void **state) {
    (void)state;
    const double tokens = 589824.0 / RANKS, vocab = 201088.0;
    const double logits_gib = tokens * vocab * 2.0 / gib;
    assert_close(logits_gib, 27.61, 0.005);
    const struct boundary_offload o = offload_of(47, tokens * HIDDEN * 2.0, (double)INFINITY, 1, 2);
    assert_true(logits_gib > o.device_bytes / gib); /* four boundaries are 1.6 GiB */
}

static void copies_hide_behind_layers(void **state) {
    (void)state;
    const struct boundary_offload o = measured(INFINITY);
    /* 8 ms a boundary at 50 GB/s, beside more than 200 ms a layer. */
    const struct boundary_exposed e = boundary_offload_exposed(&o, 0.1, 0.2, 50e9);
    assert_close_abs(e.forward_s, 0, 0);
    assert_close(e.backward_s, 2.0 * o.bytes / 50e9, 1e-12); /* the first to come back */
    assert_close(o.bytes / 50e9, 0.008, 0.01);
}

/* ---- any schedule ---- */

static double share(void) {
    return (double)(1 + below(1000)) / 1000.0;
}

struct schedule {
    struct boundary_offload offload;
    int layers;
};

static struct schedule draw(int deepest) {
    const int layers = 1 + (int)below(12), streams = 1 + (int)below(2);
    const long count = boundary_count(layers, streams);
    const double bytes = (double)(1 + below(5000));
    const double budget = below(4) == 0 ? (double)INFINITY : floor(share() * bytes * (double)count);
    return (struct schedule){offload_of(count, bytes, budget, (int)below(deepest + 1), streams),
                             layers};
}

static long first_of(const struct schedule *s, int layer) {
    return layer <= 0 ? 0 : boundary_count(layer, s->offload.streams);
}

static long in_layer(const struct schedule *s, int layer) {
    return layer < 0 || layer >= s->layers ? 0 : first_of(s, layer + 1) - first_of(s, layer);
}

static long selected_in(const struct schedule *s, int layer) {
    const long n = s->offload.selected - first_of(s, layer), all = in_layer(s, layer);
    return n < 0 ? 0 : n > all ? all : n;
}

static long kept_before(const struct schedule *s, int end) {
    long kept = 0;
    for (int layer = 0; layer < end; ++layer)
        kept += in_layer(s, layer) - selected_in(s, layer);
    return kept;
}

/* Most boundaries on the device while each layer is at work. */
static long walk_peak(const struct schedule *s) {
    long peak = 0;
    for (int layer = 0; layer < s->layers; ++layer) { /* forward: this one goes, the next is made */
        const long live = kept_before(s, layer) + in_layer(s, layer) + in_layer(s, layer + 1);
        peak = live > peak ? live : peak;
    }
    for (int layer = s->layers - 1; layer >= 0; --layer) {
        long live = kept_before(s, layer + 1);
        for (int ahead = layer; ahead >= layer - s->offload.depth && ahead >= 0; --ahead)
            live += selected_in(s, ahead);
        peak = live > peak ? live : peak;
    }
    return peak;
}

static void bounds_hold_on_a_walk(void **state) {
    (void)state;
    for (int i = 0; i < 20000; ++i) {
        const struct schedule s = draw(4);
        const struct boundary_offload *const o = &s.offload;
        const double walked = (double)walk_peak(&s) * o->bytes;
        assert_close(o->device_phase_bytes, walked, 0);
        assert_true(walked <= o->device_bytes);
        assert_true(o->device_bytes <= o->bytes * (double)o->boundaries);
    }
}

/* In forward order, each boundary that fits what is left. */
static void selection_is_the_walk(void **state) {
    (void)state;
    for (int i = 0; i < 20000; ++i) {
        const long count = below(60);
        const double bytes = (double)(1 + below(1L << 30)) + 0.25 * (double)below(4);
        const double budget = floor(bytes * (double)below(70) + (double)below(3) - 1.0);
        if (budget < 0.0)
            continue;
        const struct boundary_offload o = offload_of(count, bytes, budget, 1, 1);
        long fits = 0;
        for (double left = budget; fits < count && left >= ceil(bytes); left -= ceil(bytes))
            fits++;
        assert_int_equal(o.selected, fits);
        assert_true(o.host_bytes <= budget);
        assert_true(o.pinned_bytes >= o.bytes && o.pinned_bytes < 2.0 * o.bytes);
        assert_close(log2(o.pinned_bytes), round(log2(o.pinned_bytes)), 0);
    }
}

static void more_room_is_never_worse(void **state) {
    (void)state;
    for (int i = 0; i < 5000; ++i) {
        const long count = 1 + below(60);
        const int depth = (int)below(4), streams = 1 + (int)below(2);
        const double bytes = (double)(1 + below(1000)), budget = (double)below(60000);
        const struct boundary_offload less = offload_of(count, bytes, budget / 2, depth, streams);
        const struct boundary_offload more = offload_of(count, bytes, budget, depth, streams);
        assert_true(more.selected >= less.selected);
        assert_true(more.device_bytes <= less.device_bytes);
        assert_true(more.device_phase_bytes <= less.device_phase_bytes);
        const struct boundary_offload deeper = offload_of(count, bytes, budget, depth + 1, streams);
        assert_true(deeper.device_bytes >= more.device_bytes);
    }
}

static void halving_the_budget(void **state) {
    (void)state;
    const struct boundary_offload whole = offload_of(40, 1000, 32000, 1, 1);
    const struct boundary_offload half = offload_of(40, 1000, 16000, 1, 1);
    assert_close(half.host_bytes, whole.host_bytes / 2, 0);
    assert_close(half.link_bytes, whole.link_bytes / 2, 0);
    assert_close(half.device_bytes - whole.device_bytes, 16000.0, 0);
}

/* ---- exposed copies against a clock ---- */

static double played_forward(const struct schedule *s, double copy_s, double layer_s) {
    double now_s = 0.0;
    for (int layer = 0; layer < s->layers; ++layer)
        now_s += fmax(layer_s, copy_s * (double)selected_in(s, layer));
    return now_s - layer_s * (double)s->layers;
}

static double played_backward(const struct schedule *s, double copy_s, double layer_s) {
    double now_s = 0.0, link_s = 0.0, back_s[16] = {0};
    const int depth = s->offload.depth;
    for (int ahead = 0; ahead < depth; ++ahead) {
        const int layer = s->layers - 1 - ahead;
        if (layer >= 0)
            back_s[layer] = link_s += copy_s * (double)selected_in(s, layer);
    }
    for (int layer = s->layers - 1; layer >= 0; --layer) {
        if (depth > 0)
            now_s = fmax(now_s, back_s[layer]);
        if (layer - depth >= 0 && selected_in(s, layer - depth) > 0)
            back_s[layer - depth] = link_s =
                fmax(link_s, now_s) + copy_s * (double)selected_in(s, layer - depth);
        now_s = fmax(now_s, back_s[layer]) + layer_s;
    }
    return now_s - layer_s * (double)s->layers;
}

static void exposed_as_played(void **state) {
    (void)state;
    for (int i = 0; i < 20000; ++i) {
        const struct schedule s = draw(3);
        const double copy_s = 2.0 * share(), forward_s = share(), backward_s = share();
        const struct boundary_exposed e =
            boundary_offload_exposed(&s.offload, forward_s, backward_s, s.offload.bytes / copy_s);
        assert_close_abs(e.forward_s, played_forward(&s, copy_s, forward_s), 1e-9);
        const double played_s = played_backward(&s, copy_s, backward_s);
        if (s.offload.depth <= 1)
            assert_close_abs(e.backward_s, played_s, 1e-9);
        assert_true(e.backward_s >= played_s - 1e-9);
    }
}

/* ---- edges and faults ---- */

static void edges(void **state) {
    (void)state;
    assert_int_equal(boundary_count(1, 1), 1);
    assert_int_equal(boundary_count(1, 2), 1);
    assert_int_equal(boundary_count(24, 1), 24);
    assert_int_equal(boundary_count(24, 2), 47);
    const struct boundary_offload none = offload_of(0, 10, 100, 1, 1);
    assert_int_equal(none.selected, 0);
    assert_close_abs(none.device_bytes + none.device_phase_bytes + none.host_bytes, 0, 0);
    const struct boundary_exposed nothing = boundary_offload_exposed(&none, 1, 1, 1);
    assert_close_abs(nothing.forward_s + nothing.backward_s, 0, 0);
    assert_close(offload_of(10, 7, 0, 1, 1).device_bytes, 70.0, 0);
    assert_close(offload_of(10, 4096, 0, 1, 1).pinned_bytes, 4096.0, 0);
    assert_close(offload_of(10, 7, (double)INFINITY, 1, 1).device_bytes, 14.0, 0); /* 2 N H b */
    assert_close(offload_of(10, 7, (double)INFINITY, 0, 1).device_bytes, 14.0, 0); /* forward's */
    assert_close(offload_of(10, 7, (double)INFINITY, 3, 1).device_bytes, 28.0, 0);
}

static void faults(void **state) {
    (void)state;
    static const struct {
        long boundaries;
        double bytes, budget;
        int depth, streams;
        const char *words;
    } bad[] = {
        {-1, 1, 1, 1, 1, "-1 boundaries"},      {1, 0, 1, 1, 1, "0 bytes"},
        {1, (double)NAN, 1, 1, 1, "nan bytes"}, {1, (double)INFINITY, 1, 1, 1, "inf bytes"},
        {10, 1e15, 1, 1, 1, "below 2^53"},      {1, 1, -1, 1, 1, "negative"},
        {1, 1, (double)NAN, 1, 1, "negative"},  {1, 1, 1, -1, 1, "depth -1"},
        {1, 1, 1, 1, 0, "0 streams"},           {1, 1, 1, 1, 3, "3 streams"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        struct boundary_offload out = {.boundaries = 77};
        struct status_error err = {0};
        assert_int_equal(boundary_offload_of(bad[i].boundaries, bad[i].bytes, bad[i].budget,
                                             bad[i].depth, bad[i].streams, &out, &err),
                         MOSAIC_BAD_INPUT);
        if (!strstr(err.message, bad[i].words))
            fail_msg("'%s' is not in '%s'", bad[i].words, err.message);
        assert_int_equal(out.boundaries, 77);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_boundary),
        cmocka_unit_test(budgets_of_the_runs),
        cmocka_unit_test(peaks_of_the_runs),
        cmocka_unit_test(phases_promise_more),
        cmocka_unit_test(node_memory_of_the_run),
        cmocka_unit_test(logits_set_the_limit),
        cmocka_unit_test(copies_hide_behind_layers),
        cmocka_unit_test(bounds_hold_on_a_walk),
        cmocka_unit_test(selection_is_the_walk),
        cmocka_unit_test(more_room_is_never_worse),
        cmocka_unit_test(halving_the_budget),
        cmocka_unit_test(exposed_as_played),
        cmocka_unit_test(edges),
        cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
