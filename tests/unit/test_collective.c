// SPDX-License-Identifier: GPL-3.0-or-later
/* src/machine/collective.c, cluster.c, calibration.c: placement, bounds, measured curves, checks.
 */
#include "close.h"
#include "machine/collective.h"

#include <string.h>

#define NVLINK 900e9
#define NIC 50e9
#define INTRA 0.75
#define INTER 0.85
#define MEGABYTE 1e6

static struct cluster two_tiers(void) {
    struct cluster c = {
        .name = "test",
        .device = {.name = "B200",
                   .peak_flop_per_s = {2.25e15, 4.5e15, 4.5e15, 0.0},
                   .memory_bytes = 179e9,
                   .hbm_bytes_per_s = 8e12},
        .nodes = 32,
        .gpus_per_node = 8,
        .tiers = {{"nvlink", 8, NVLINK, 3e-6}, {"efa", 256, NIC, 30e-6}},
        .tier_count = 2,
    };
    return c;
}

static struct calibration bare(void) {
    struct calibration c;
    calibration_init(&c);
    for (int i = 0; i < SCALAR_COUNT; ++i)
        c.scalar[i] = calibration_scalar_info((enum scalar)i)->min;
    c.scalar[CAL_COLLECTIVE_INTRA_SHARE] = INTRA;
    c.scalar[CAL_COLLECTIVE_INTER_SHARE] = INTER;
    return c;
}

/* A flat curve of `rate`, measured from 1 kB to 1 GB. */
static void add_flat(struct calibration *c, enum collective_kind kind, int ranks, int inside,
                     double rate) {
    const double x[] = {1e3, 1e9}, y[] = {rate, rate};
    struct status_error err = {0};
    struct collective_curve *const out = &c->collective[c->collective_count++];
    *out = (struct collective_curve){.kind = kind, .ranks = ranks, .ranks_per_domain = inside};
    assert_int_equal(curve_build(&out->bus, CURVE_STEFFEN, x, y, 2, &err), MOSAIC_OK);
}

static double seconds(const struct cluster *cluster, const struct calibration *cal,
                      enum collective_kind kind, int ranks, int stride, double bytes) {
    const struct network net = network_of(cluster, cal);
    return collective_time_s(&net, kind, (struct group){ranks, stride}, bytes, NULL);
}

static void test_placement(void **state) {
    (void)state;
    const struct cluster c = two_tiers();
    static const struct {
        int ranks, stride, inside, domains;
    } cases[] = {{1, 1, 1, 1},   {2, 1, 2, 1}, {8, 1, 8, 1},   {16, 1, 8, 2},  {12, 1, 4, 3},
                 {2, 4, 2, 1},   {4, 4, 2, 2}, {2, 8, 1, 2},   {32, 8, 1, 32}, {4, 16, 1, 4},
                 {64, 2, 4, 16}, {4, 2, 4, 1}, {256, 1, 8, 32}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        const struct group g = {cases[i].ranks, cases[i].stride};
        assert_int_equal(group_ranks_per_domain(&c, g), cases[i].inside);
        assert_int_equal(group_domains(&c, g), cases[i].domains);
    }
}

static void test_nothing_costs_nothing(void **state) {
    (void)state;
    const struct cluster c = two_tiers();
    const struct calibration cal = bare();
    const struct network net = network_of(&c, &cal);
    struct lookup_count count = {{0}};
    for (int kind = 0; kind < COLLECTIVE_KINDS; ++kind) {
        const struct group alone = {1, 1}, eight = {8, 1};
        const enum collective_kind k = (enum collective_kind)kind;
        assert_close_abs(collective_time_s(&net, k, alone, 1e9, &count), 0.0, 0.0);
        assert_close_abs(collective_time_s(&net, k, eight, 0.0, &count), 0.0, 0.0);
        assert_true(collective_is_measured(&net, k, alone));
        /* Where nothing of a kind has been measured there is no range to leave. */
        assert_true(collective_is_measured(&net, k, eight));
    }
    for (int t = 0; t < LOOKUP_TAGS; ++t)
        assert_int_equal(count.tag[t], 0);
}

static void test_ring_bound(void **state) {
    (void)state;
    const struct cluster c = two_tiers();
    const struct calibration cal = bare();
    /* in a domain: 7 hops of latency, 7/8 of the buffer */
    const double gather_s = 7.0 * 3e-6 + 1e9 * 7.0 / 8.0 / (INTRA * NVLINK);
    assert_close(seconds(&c, &cal, COLLECTIVE_ALL_GATHER, 8, 1, 1e9), gather_s, 1e-12);
    assert_close(seconds(&c, &cal, COLLECTIVE_REDUCE_SCATTER, 8, 1, 1e9), gather_s, 1e-12);
    /* over nodes: eight members share the traffic of eight NICs */
    const double wide_s = 1e9 * 63.0 / 64.0 / (8.0 * INTER * NIC);
    assert_close(seconds(&c, &cal, COLLECTIVE_ALL_GATHER, 64, 1, 1e9), wide_s, 0.1);
    /* one member a node has one NIC */
    const double strided_s = 1e9 * 3.0 / 4.0 / (INTER * NIC);
    assert_close(seconds(&c, &cal, COLLECTIVE_ALL_GATHER, 4, 8, 1e9), strided_s, 0.02);
    /* eight members never beat the inner link however fast the NICs */
    struct cluster fast = c;
    fast.tiers[1].bytes_per_s = 1e15;
    assert_true(seconds(&fast, &cal, COLLECTIVE_ALL_GATHER, 64, 1, 1e9) >=
                1e9 * 63.0 / 64.0 / (INTRA * NVLINK));
    /* an all-reduce moves twice as much */
    const double reduce_s = seconds(&c, &cal, COLLECTIVE_ALL_REDUCE, 8, 1, 1e12);
    assert_close(reduce_s / seconds(&c, &cal, COLLECTIVE_ALL_GATHER, 8, 1, 1e12), 2.0, 1e-3);
}

static void test_all_to_all_bound(void **state) {
    (void)state;
    const struct cluster c = two_tiers();
    const struct calibration cal = bare();
    assert_close(seconds(&c, &cal, COLLECTIVE_ALL_TO_ALL, 8, 1, 1e9),
                 3e-6 + 1e9 * 7.0 / 8.0 / (INTRA * NVLINK), 1e-12);
    assert_close(seconds(&c, &cal, COLLECTIVE_ALL_TO_ALL, 16, 1, 1e9),
                 33e-6 + 1e9 * 7.0 / 16.0 / (INTRA * NVLINK) + 1e9 * 0.5 / (INTER * NIC), 1e-12);
    assert_close(seconds(&c, &cal, COLLECTIVE_ALL_TO_ALL, 4, 8, 1e9),
                 30e-6 + 1e9 * 0.75 / (INTER * NIC), 1e-12);
    /* it cannot pool NICs: across nodes it is slower than a ring */
    for (int ranks = 16; ranks <= 256; ranks *= 2)
        assert_true(seconds(&c, &cal, COLLECTIVE_ALL_TO_ALL, ranks, 1, 1e9) >
                    seconds(&c, &cal, COLLECTIVE_ALL_GATHER, ranks, 1, 1e9));
}

static void test_point_to_point(void **state) {
    (void)state;
    const struct cluster c = two_tiers();
    const struct calibration cal = bare();
    assert_close(seconds(&c, &cal, COLLECTIVE_POINT_TO_POINT, 2, 1, 1e9),
                 3e-6 + 1e9 / (INTRA * NVLINK), 1e-12);
    assert_close(seconds(&c, &cal, COLLECTIVE_POINT_TO_POINT, 2, 32, 1e9),
                 30e-6 + 1e9 / (INTER * NIC), 1e-12);
}

/* The shares of the network, not those of the calibration, bound what is not measured. */
static void test_shares_of_the_network(void **state) {
    (void)state;
    const struct cluster c = two_tiers();
    struct calibration cal = bare();
    struct network net = network_of(&c, &cal);
    assert_close_abs(net.intra_share, INTRA, 0.0);
    assert_close_abs(net.inter_share, INTER, 0.0);
    net.intra_share = net.inter_share = 1.0;
    const struct group inner = {8, 1}, outer = {4, 8};
    assert_close(collective_time_s(&net, COLLECTIVE_ALL_TO_ALL, inner, 1e9, NULL),
                 3e-6 + 1e9 * 7.0 / 8.0 / NVLINK, 1e-12);
    assert_close(collective_time_s(&net, COLLECTIVE_ALL_TO_ALL, outer, 1e9, NULL),
                 30e-6 + 1e9 * 0.75 / NIC, 1e-12);
    add_flat(&cal, COLLECTIVE_ALL_TO_ALL, 8, 8, 500e9); /* a measured rate knows no share */
    assert_close(collective_time_s(&net, COLLECTIVE_ALL_TO_ALL, inner, 1e9, NULL),
                 1e9 * 7.0 / 8.0 / 500e9, 1e-9);
}

static void test_three_tiers(void **state) {
    (void)state;
    struct cluster c = two_tiers();
    c.tiers[1] = (struct tier){"rail", 64, 100e9, 10e-6};
    c.tiers[2] = (struct tier){"spine", 256, 25e9, 40e-6};
    c.tier_count = 3;
    assert_string_equal(cluster_tier_for(&c, 1)->name, "nvlink");
    assert_string_equal(cluster_tier_for(&c, 8)->name, "nvlink");
    assert_string_equal(cluster_tier_for(&c, 9)->name, "rail");
    assert_string_equal(cluster_tier_for(&c, 64)->name, "rail");
    assert_string_equal(cluster_tier_for(&c, 65)->name, "spine");
    assert_string_equal(cluster_tier_for(&c, 100000)->name, "spine");
    const struct calibration cal = bare();
    assert_close(seconds(&c, &cal, COLLECTIVE_ALL_TO_ALL, 8, 8, 1e9),
                 10e-6 + 1e9 * 7.0 / 8.0 / (INTER * 100e9), 1e-12);
    assert_close(seconds(&c, &cal, COLLECTIVE_ALL_TO_ALL, 8, 32, 1e9),
                 40e-6 + 1e9 * 7.0 / 8.0 / (INTER * 25e9), 1e-12);
}

/* Over all kinds and groups: wider links and lower latency never slow, more bytes never speed. */
static void test_monotone(void **state) {
    (void)state;
    const struct cluster base = two_tiers();
    const struct calibration cal = bare();
    for (int kind = 0; kind < COLLECTIVE_KINDS; ++kind)
        for (int ranks = 2; ranks <= 256; ++ranks)
            for (int stride = 1; ranks * stride <= 256; stride *= 2)
                for (double bytes = 1.0; bytes < 1e12; bytes *= 1e3) {
                    const enum collective_kind k = (enum collective_kind)kind;
                    const double time_s = seconds(&base, &cal, k, ranks, stride, bytes);
                    assert_true(time_s > 0.0 && isfinite(time_s));
                    assert_true(seconds(&base, &cal, k, ranks, stride, 1.5 * bytes) > time_s);
                    for (int tier = 0; tier < 2; ++tier) {
                        struct cluster better = base;
                        better.tiers[tier].bytes_per_s *= 1.7;
                        assert_true(seconds(&better, &cal, k, ranks, stride, bytes) <= time_s);
                        better.tiers[tier].latency_s *= 0.5;
                        assert_true(seconds(&better, &cal, k, ranks, stride, bytes) <= time_s);
                    }
                }
}

static void test_measured_curve_is_used(void **state) {
    (void)state;
    const struct cluster c = two_tiers();
    struct calibration cal = bare();
    add_flat(&cal, COLLECTIVE_ALL_TO_ALL, 8, 8, 500e9);
    add_flat(&cal, COLLECTIVE_ALL_REDUCE, 8, 8, 700e9);
    add_flat(&cal, COLLECTIVE_ALL_TO_ALL, 8, 1, 40e9);
    const struct network net = network_of(&c, &cal);
    struct lookup_count count = {{0}};
    const struct group inner = {8, 1}, strided = {8, 8}, four = {4, 1};
    assert_close(collective_time_s(&net, COLLECTIVE_ALL_TO_ALL, inner, MEGABYTE, &count),
                 MEGABYTE * 7.0 / 8.0 / 500e9, 1e-9);
    assert_close(collective_time_s(&net, COLLECTIVE_ALL_REDUCE, inner, MEGABYTE, &count),
                 MEGABYTE * 14.0 / 8.0 / 700e9, 1e-9);
    assert_close(collective_time_s(&net, COLLECTIVE_ALL_TO_ALL, strided, MEGABYTE, &count),
                 MEGABYTE * 7.0 / 8.0 / 40e9, 1e-9);
    assert_int_equal(count.tag[LOOKUP_INTERPOLATED], 3);
    (void)collective_time_s(&net, COLLECTIVE_ALL_TO_ALL, inner, 1e9, &count);
    assert_int_equal(count.tag[LOOKUP_EXACT], 1);
    (void)collective_time_s(&net, COLLECTIVE_ALL_TO_ALL, inner, 1e10, &count);
    assert_int_equal(count.tag[LOOKUP_OUTSIDE], 1);
    /* neither other ranks nor another placement nor another kind borrow it */
    assert_close(collective_time_s(&net, COLLECTIVE_ALL_TO_ALL, four, MEGABYTE, &count),
                 3e-6 + MEGABYTE * 0.75 / (INTRA * NVLINK), 1e-12);
    (void)collective_time_s(&net, COLLECTIVE_REDUCE_SCATTER, strided, MEGABYTE, &count);
    assert_int_equal(count.tag[LOOKUP_OUTSIDE], 3);
    assert_true(collective_is_measured(&net, COLLECTIVE_ALL_TO_ALL, inner));
    assert_true(collective_is_measured(&net, COLLECTIVE_ALL_TO_ALL, strided));
    assert_false(collective_is_measured(&net, COLLECTIVE_ALL_TO_ALL, four));
    assert_true(collective_is_measured(&net, COLLECTIVE_ALL_GATHER, inner)); /* none of the kind */
    assert_false(collective_is_measured(&net, COLLECTIVE_ALL_REDUCE, strided));
}

static void test_longer_ring_borrows_the_widest(void **state) {
    (void)state;
    const struct cluster c = two_tiers();
    struct calibration cal = bare();
    add_flat(&cal, COLLECTIVE_ALL_REDUCE, 8, 8, 700e9); /* one domain: stands for no wide ring */
    const struct group wide = {64, 1};
    assert_close(seconds(&c, &cal, COLLECTIVE_ALL_REDUCE, 64, 1, 1e12),
                 1e12 * 2.0 * 63.0 / 64.0 / (8.0 * INTER * NIC), 1e-3);
    add_flat(&cal, COLLECTIVE_ALL_REDUCE, 32, 8, 360e9);
    add_flat(&cal, COLLECTIVE_ALL_REDUCE, 16, 8, 580e9);
    const struct network net = network_of(&c, &cal);
    struct lookup_count count = {{0}};
    const double time_s = collective_time_s(&net, COLLECTIVE_ALL_REDUCE, wide, MEGABYTE, &count);
    assert_close(time_s, MEGABYTE * 2.0 * 63.0 / 64.0 / 360e9, 1e-9);
    assert_int_equal(count.tag[LOOKUP_OUTSIDE], 1);
    assert_int_equal(count.tag[LOOKUP_EXACT] + count.tag[LOOKUP_INTERPOLATED], 0);
    assert_false(collective_is_measured(&net, COLLECTIVE_ALL_REDUCE, wide));
    /* strided rings do not borrow */
    assert_close(seconds(&c, &cal, COLLECTIVE_ALL_REDUCE, 32, 8, 1e12),
                 1e12 * 2.0 * 31.0 / 32.0 / (INTER * NIC), 1e-3);
}

/* More ranks than were measured: an all-to-all is held to the widest, in what crosses a rank's
 * outer link, and to the links (U47: flat or down, never up). */
static void test_wider_all_to_all_is_no_faster(void **state) {
    (void)state;
    const struct cluster c = two_tiers();
    struct calibration cal = bare();
    struct lookup_count count = {{0}};
    const double links_s = 1e12 * (7.0 / 64.0 / (INTRA * NVLINK) + 56.0 / 64.0 / (INTER * NIC));
    add_flat(&cal, COLLECTIVE_ALL_TO_ALL, 32, 8, 570e9);
    assert_close(seconds(&c, &cal, COLLECTIVE_ALL_TO_ALL, 64, 1, 1e12), links_s, 1e-3);
    cal.collective_count = 0;
    add_flat(&cal, COLLECTIVE_ALL_TO_ALL, 16, 8, 50e9);
    add_flat(&cal, COLLECTIVE_ALL_TO_ALL, 32, 8, 20e9);
    const struct network net = network_of(&c, &cal);
    const double outer = 20e9 * 24.0 / 31.0;
    assert_close(
        collective_time_s(&net, COLLECTIVE_ALL_TO_ALL, (struct group){64, 1}, MEGABYTE, &count),
        MEGABYTE * 56.0 / 64.0 / outer, 1e-9);
    assert_int_equal(count.tag[LOOKUP_OUTSIDE], 1);
    for (int n = 16; n < 128; n += 8)
        assert_true(seconds(&c, &cal, COLLECTIVE_ALL_TO_ALL, n, 1, MEGABYTE) <
                    seconds(&c, &cal, COLLECTIVE_ALL_TO_ALL, n + 8, 1, MEGABYTE));
}

/* Measured on 2 and 8 nodes, asked for 4 (U47): between the two, in a variable that has the right
 * limits, and said to be; a free axis does not take it for measured. */
static void test_between_measured_node_counts(void **state) {
    (void)state;
    const struct cluster c = two_tiers();
    struct calibration cal = bare();
    add_flat(&cal, COLLECTIVE_ALL_REDUCE, 16, 8, 100e9);
    add_flat(&cal, COLLECTIVE_ALL_REDUCE, 64, 8, 40e9);
    add_flat(&cal, COLLECTIVE_ALL_TO_ALL, 16, 8, 80e9);
    add_flat(&cal, COLLECTIVE_ALL_TO_ALL, 64, 8, 40e9);
    const struct network net = network_of(&c, &cal);
    const struct group four = {32, 1};
    struct lookup_count count = {{0}};
    /* half of ln 4: the geometric mean */
    assert_close(collective_time_s(&net, COLLECTIVE_ALL_REDUCE, four, MEGABYTE, &count),
                 MEGABYTE * 2.0 * 31.0 / 32.0 / sqrt(100e9 * 40e9), 1e-9);
    /* an all-to-all in what crosses a rank's outer link */
    const double outer = sqrt(80e9 * 8.0 / 15.0 * 40e9 * 56.0 / 63.0);
    assert_close(collective_time_s(&net, COLLECTIVE_ALL_TO_ALL, four, MEGABYTE, &count),
                 MEGABYTE * 24.0 / 32.0 / outer, 1e-9);
    assert_int_equal(count.tag[LOOKUP_INTERPOLATED], 2);
    (void)collective_time_s(&net, COLLECTIVE_ALL_REDUCE, four, 1e12, &count);
    assert_int_equal(count.tag[LOOKUP_OUTSIDE], 1);
    assert_int_equal(count.tag[LOOKUP_EXACT], 0);
    assert_false(collective_is_measured(&net, COLLECTIVE_ALL_REDUCE, four));
    assert_false(collective_is_measured(&net, COLLECTIVE_ALL_TO_ALL, four));
    /* what was measured itself stays */
    assert_close(seconds(&c, &cal, COLLECTIVE_ALL_REDUCE, 64, 1, MEGABYTE),
                 MEGABYTE * 2.0 * 63.0 / 64.0 / 40e9, 1e-9);
}

/* Between two groups that differ in latency alone, and in bandwidth alone, both limits are met. */
static void test_between_has_the_right_limits(void **state) {
    (void)state;
    const struct cluster c = two_tiers();
    struct calibration cal = bare();
    /* per hop 10 us whatever the size: bus falls as 1 / ranks */
    static const int ranks[] = {16, 64};
    for (int i = 0; i < 2; ++i) {
        const double x[] = {1e3, 1e6}, n = ranks[i];
        const double y[] = {1e3 * (n - 1.0) / n / (10e-6 * n), 1e6 * (n - 1.0) / n / (10e-6 * n)};
        struct status_error err = {0};
        struct collective_curve *const out = &cal.collective[cal.collective_count++];
        *out = (struct collective_curve){
            .kind = COLLECTIVE_ALL_GATHER, .ranks = ranks[i], .ranks_per_domain = 8};
        assert_int_equal(curve_build(&out->bus, CURVE_RATE, x, y, 2, &err), MOSAIC_OK);
    }
    /* 320 us but for (n - 1) / n of the two ends */
    assert_close(seconds(&c, &cal, COLLECTIVE_ALL_GATHER, 32, 1, 1e4), 320e-6, 0.01);
    for (int n = 16; n < 64; n += 8)
        assert_true(seconds(&c, &cal, COLLECTIVE_ALL_GATHER, n, 1, 1e4) <
                    seconds(&c, &cal, COLLECTIVE_ALL_GATHER, n + 8, 1, 1e4));
}

/* Fewer nodes than were measured: no faster than those (U47: flat or down, never up). */
static void test_fewer_nodes_are_no_faster(void **state) {
    (void)state;
    const struct cluster c = two_tiers();
    struct calibration cal = bare();
    struct lookup_count count = {{0}};
    const double free_s = seconds(&c, &cal, COLLECTIVE_ALL_REDUCE, 16, 1, 1e9);
    add_flat(&cal, COLLECTIVE_ALL_REDUCE, 64, 8, 40e9);
    const struct network net = network_of(&c, &cal);
    const double time_s =
        collective_time_s(&net, COLLECTIVE_ALL_REDUCE, (struct group){16, 1}, 1e9, &count);
    assert_close(time_s, 1e9 * 2.0 * 15.0 / 16.0 / 40e9, 1e-9);
    assert_true(time_s > free_s);
    assert_int_equal(count.tag[LOOKUP_OUTSIDE], 1);
    cal.collective_count = 0;
    add_flat(&cal, COLLECTIVE_ALL_REDUCE, 64, 8, 4000e9); /* nor faster than the links */
    assert_close(seconds(&c, &cal, COLLECTIVE_ALL_REDUCE, 16, 1, 1e9), free_s, 1e-12);
}

static void expect_refused(const struct cluster *c, const char *word) {
    struct status_error err = {0};
    assert_int_equal(cluster_check(c, PRECISION_BF16, &err), MOSAIC_BAD_INPUT);
    if (!strstr(err.message, word))
        fail_msg("no '%s' in: %s", word, err.message);
}

static void test_cluster_check(void **state) {
    (void)state;
    const struct cluster good = two_tiers();
    struct status_error err = {0};
    assert_int_equal(cluster_check(&good, PRECISION_BF16, &err), MOSAIC_OK);
    assert_int_equal(cluster_gpus(&good), 256);
    assert_int_equal(cluster_check(&good, PRECISION_NVFP4, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "nvfp4"));
#define REFUSED(change, word)                                                                      \
    do {                                                                                           \
        struct cluster c = good;                                                                   \
        change;                                                                                    \
        expect_refused(&c, word);                                                                  \
    } while (0)
    REFUSED(c.nodes = 0, "nodes");
    REFUSED(c.nodes = -4, "-4 nodes");
    REFUSED(c.gpus_per_node = 0, "0 GPUs");
    REFUSED(c.nodes = 2000000000, "at most");
    REFUSED(c.device.memory_bytes = 0.0, "memory");
    REFUSED(c.device.memory_bytes = (double)NAN, "memory");
    REFUSED(c.device.hbm_bytes_per_s = (double)INFINITY, "HBM");
    REFUSED(c.device.peak_flop_per_s[PRECISION_BF16] = -1.0, "bf16");
    REFUSED(c.tier_count = 0, "tiers");
    REFUSED(c.tier_count = CLUSTER_MAX_TIERS + 1, "tiers");
    REFUSED(c.tiers[1].bytes_per_s = 0.0, "efa");
    REFUSED(c.tiers[0].latency_s = -1e-6, "nvlink");
    REFUSED(c.tiers[0].latency_s = (double)NAN, "nvlink");
    REFUSED(c.tiers[1].domain = 8, "inside out");
    REFUSED(c.nodes = 33, "264");
#undef REFUSED
}

static void test_precision_names(void **state) {
    (void)state;
    static const char *const names[] = {"bf16", "fp8", "mxfp8", "nvfp4"};
    for (int i = 0; i < PRECISION_COUNT; ++i)
        assert_string_equal(precision_name((enum precision)i), names[i]);
    assert_string_equal(precision_name(PRECISION_COUNT), "unknown");
    assert_string_equal(collective_name(COLLECTIVE_ALL_TO_ALL), "all_to_all");
    assert_string_equal(collective_name(COLLECTIVE_POINT_TO_POINT), "point_to_point");
    assert_string_equal(collective_name(COLLECTIVE_KINDS), "unknown");
}

static void test_scalar_table(void **state) {
    (void)state;
    for (int i = 0; i < SCALAR_COUNT; ++i) {
        const struct scalar_info *const a = calibration_scalar_info((enum scalar)i);
        assert_true(a->min < a->max);
        assert_true(a->text[0] != '\0');
        for (int j = 0; j < i; ++j)
            assert_string_not_equal(a->key, calibration_scalar_info((enum scalar)j)->key);
        for (int j = 0; j < CURVE_QUANTITIES; ++j)
            assert_string_not_equal(a->key, calibration_curve_info((enum curve_quantity)j)->key);
    }
    assert_null(calibration_scalar_info(SCALAR_COUNT));
    assert_null(calibration_curve_info(CURVE_QUANTITIES));
}

static void test_calibration_check(void **state) {
    (void)state;
    struct status_error err = {0};
    struct calibration c;
    calibration_init(&c);
    assert_int_equal(calibration_check(&c, &err), MOSAIC_BAD_INPUT);
    c = bare();
    assert_int_equal(calibration_check(&c, &err), MOSAIC_OK);
    for (int i = 0; i < SCALAR_COUNT; ++i) {
        const struct scalar_info *const info = calibration_scalar_info((enum scalar)i);
        const double bad[] = {(double)NAN, (double)INFINITY, info->max + 1.0 + info->max * 1e-6,
                              info->min - 1.0};
        for (size_t b = 0; b < sizeof bad / sizeof *bad; ++b) {
            struct calibration broken = c;
            broken.scalar[i] = bad[b];
            assert_int_equal(calibration_check(&broken, &err), MOSAIC_BAD_INPUT);
            assert_non_null(strstr(err.message, info->key));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_placement),
        cmocka_unit_test(test_nothing_costs_nothing),
        cmocka_unit_test(test_ring_bound),
        cmocka_unit_test(test_all_to_all_bound),
        cmocka_unit_test(test_point_to_point),
        cmocka_unit_test(test_shares_of_the_network),
        cmocka_unit_test(test_three_tiers),
        cmocka_unit_test(test_monotone),
        cmocka_unit_test(test_measured_curve_is_used),
        cmocka_unit_test(test_longer_ring_borrows_the_widest),
        cmocka_unit_test(test_wider_all_to_all_is_no_faster),
        cmocka_unit_test(test_between_measured_node_counts),
        cmocka_unit_test(test_between_has_the_right_limits),
        cmocka_unit_test(test_fewer_nodes_are_no_faster),
        cmocka_unit_test(test_cluster_check),
        cmocka_unit_test(test_precision_names),
        cmocka_unit_test(test_scalar_table),
        cmocka_unit_test(test_calibration_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
