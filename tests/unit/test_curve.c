// SPDX-License-Identifier: GPL-3.0-or-later
/* src/machine/curve.c: what a curve refuses, its shape between and beyond samples, its tags. */
#include "close.h"
#include "machine/curve.h"

#include <string.h>

enum { OCTAVES = 21 };

/* A collective's bus bandwidth: 512 B to 512 MiB, latency 15 us, 700 GB/s. */
static void table(double *x, double *y) {
    for (int i = 0; i < OCTAVES; ++i) {
        x[i] = ldexp(512.0, i);
        y[i] = x[i] / (15e-6 + x[i] / 700e9);
    }
}

static struct curve build(enum curve_method method, const double *x, const double *y, size_t n) {
    struct curve c;
    struct status_error err = {0};
    if (curve_build(&c, method, x, y, n, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    return c;
}

static void refuse(const double *x, const double *y, size_t n, const char *word) {
    static const enum curve_method methods[] = {CURVE_STEFFEN, CURVE_RATE, CURVE_LATENCY};
    for (size_t m = 0; m < 3; ++m) {
        struct curve c;
        memset(&c, 0x5a, sizeof c);
        const struct curve before = c;
        struct status_error err = {0};
        assert_int_equal(curve_build(&c, methods[m], x, y, n, &err), MOSAIC_BAD_INPUT);
        assert_non_null(strstr(err.message, word));
        assert_memory_equal(&c, &before, sizeof c);
    }
}

static void test_refuses_bad_samples(void **state) {
    (void)state;
    double x[CURVE_MAX_SAMPLES + 1], y[CURVE_MAX_SAMPLES + 1];
    for (int i = 0; i <= CURVE_MAX_SAMPLES; ++i)
        x[i] = y[i] = 1.0 + i;
    refuse(x, y, 0, "not 0");
    refuse(x, y, CURVE_MAX_SAMPLES + 1, "not 65");
    const double bad[] = {0.0, -1.0, (double)NAN, (double)INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        double broken[] = {1.0, 2.0, 3.0};
        broken[1] = bad[i];
        refuse(x, broken, 3, "sample 2");
        refuse(broken, y, 3, "sample 2");
    }
    const double doubled[] = {1.0, 2.0, 2.0}, falling[] = {1.0, 3.0, 2.0};
    refuse(doubled, y, 3, "sample 3");
    refuse(falling, y, 3, "sample 3");
}

static void test_takes_the_largest_count(void **state) {
    (void)state;
    double x[CURVE_MAX_SAMPLES], y[CURVE_MAX_SAMPLES];
    for (int i = 0; i < CURVE_MAX_SAMPLES; ++i) {
        x[i] = pow(1.25, i);
        y[i] = 1.0 + i;
    }
    const struct curve c = build(CURVE_STEFFEN, x, y, CURVE_MAX_SAMPLES);
    assert_close(curve_at(&c, x[0], NULL), 1.0, 1e-12);
    assert_close(curve_at(&c, x[CURVE_MAX_SAMPLES - 1], NULL), (double)CURVE_MAX_SAMPLES, 1e-12);
}

static void test_one_sample_is_constant(void **state) {
    (void)state;
    const double x = 4096.0, y = 3.5;
    const struct curve flat = build(CURVE_STEFFEN, &x, &y, 1);
    const struct curve rate = build(CURVE_LATENCY, &x, &y, 1);
    const double at[] = {1e-3, 4096.0, 1e12};
    for (size_t i = 0; i < 3; ++i) {
        assert_close(curve_at(&flat, at[i], NULL), y, 1e-12);
        assert_close(curve_at(&rate, at[i], NULL), y, 1e-12);
    }
}

static void test_two_samples_are_a_line_in_log_x(void **state) {
    (void)state;
    const double x[] = {16.0, 1024.0}, y[] = {1.0, 4.0};
    const struct curve c = build(CURVE_STEFFEN, x, y, 2);
    assert_close(curve_at(&c, 128.0, NULL), 2.5, 1e-12);
    assert_close(curve_at(&c, 32.0, NULL), 1.5, 1e-12);
}

static void test_samples_are_reproduced(void **state) {
    (void)state;
    double x[OCTAVES], y[OCTAVES];
    table(x, y);
    const struct curve c = build(CURVE_STEFFEN, x, y, OCTAVES);
    for (int i = 0; i < OCTAVES; ++i)
        assert_close(curve_at(&c, x[i], NULL), y[i], 5e-3);
    const double sequence[] = {2048.0, 4096.0, 8192.0, 16384.0};
    const double rate[] = {584.0, 788.7, 1046.05, 1113.7};
    const struct curve attention = build(CURVE_STEFFEN, sequence, rate, 4);
    for (int i = 0; i < 4; ++i)
        assert_close(curve_at(&attention, sequence[i], NULL), rate[i], 1e-3);
}

/* Whatever is tagged exact must be the sample; unevenly spaced, close samples are the hard case. */
static void test_exact_means_exact(void **state) {
    (void)state;
    const double x[] = {1.0, 1.01, 7.0, 100.0, 1e6}, y[] = {1.0, 100.0, 120.0, 20.0, 130.0};
    static const enum curve_method methods[] = {CURVE_STEFFEN, CURVE_RATE, CURVE_LATENCY};
    for (size_t m = 0; m < 3; ++m) {
        const struct curve c = build(methods[m], x, y, 5);
        for (int i = 0; i < 5; ++i) {
            struct lookup_count count = {{0}};
            const double got = curve_at(&c, x[i], &count);
            assert_int_equal(count.tag[LOOKUP_EXACT] + count.tag[LOOKUP_INTERPOLATED], 1);
            if (count.tag[LOOKUP_EXACT])
                assert_close(got, y[i], 1e-9);
        }
    }
}

static void test_monotone_without_overshoot(void **state) {
    (void)state;
    const double x[] = {1.0, 2.0, 4.0, 1000.0, 1100.0, 1e6};
    const double y[] = {1.0, 1.0, 50.0, 50.5, 200.0, 201.0};
    const struct curve c = build(CURVE_STEFFEN, x, y, 6);
    double last = 0.0;
    for (double at = 0.5; at < 2e6; at *= 1.003) {
        const double got = curve_at(&c, at, NULL);
        assert_true(got >= last);
        assert_true(got >= y[0] && got <= y[5]);
        last = got;
    }
    /* a dip stays between its samples */
    const double wave[] = {3.0, 1.0, 3.0, 1.0};
    const struct curve w = build(CURVE_STEFFEN, x, wave, 4);
    for (double at = 1.0; at < 1000.0; at *= 1.01) {
        const double got = curve_at(&w, at, NULL);
        assert_true(got >= 1.0 - 1e-12 && got <= 3.0 + 1e-12);
    }
}

static double seconds(const struct curve *c, double x) {
    return x / curve_at(c, x, NULL);
}

/* Over the samples and a decade beyond: a larger message never takes less time. */
static void expect_time_rises(const struct curve *c) {
    double last_s = 0.0;
    for (double at = c->x[0] * 0.1; at < 10.0 * c->x[c->samples - 1]; at *= 1.003) {
        const double now_s = seconds(c, at);
        if (!(now_s >= last_s * (1.0 - 1e-12)))
            fail_msg("%g takes %.17g s, less than %.17g s before it", at, now_s, last_s);
        last_s = now_s;
    }
}

static void test_time_rises_with_size(void **state) {
    (void)state;
    double x[OCTAVES], y[OCTAVES];
    table(x, y);
    const struct curve c = build(CURVE_RATE, x, y, OCTAVES);
    expect_time_rises(&c);
    for (double at = x[0]; at < x[OCTAVES - 1]; at *= 1.01)
        assert_close(seconds(&c, at), 15e-6 + at / 700e9, 0.02);
    /* the latency alone counts below the first sample, the last rate beyond the last */
    assert_close(seconds(&c, 1.0), x[0] / y[0], 1e-12);
    assert_close(curve_at(&c, 1e15, NULL), y[OCTAVES - 1], 1e-12);
}

/* Times that stand still and then leap, as measured tables have: interpolating the rate itself
 * would give a larger message less time somewhere. */
static void test_time_rises_on_steps(void **state) {
    (void)state;
    double x[OCTAVES], y[OCTAVES];
    unsigned seed = 12345u;
    for (int round = 0; round < 300; ++round) {
        const int n = 1 + round % OCTAVES;
        double at = 512.0, time_s = 10e-6;
        for (int i = 0; i < n; ++i) {
            x[i] = at;
            y[i] = at / time_s;
            seed = seed * 1664525u + 1013904223u;
            at *= 1.01 + 0.25 * (double)(seed >> 28);
            seed = seed * 1664525u + 1013904223u;
            time_s *= seed >> 30 ? 1.0 : 1.0 + 0.3 * (double)(seed >> 26 & 15u);
        }
        const struct curve c = build(CURVE_RATE, x, y, (size_t)n);
        expect_time_rises(&c);
        for (int i = 0; i < n; ++i) {
            const double rate = curve_at(&c, x[i], NULL);
            assert_true(rate > 0.0 && isfinite(rate));
            if (c.is_exact[i])
                assert_close(rate, y[i], 1e-9);
        }
    }
}

static void test_flat_outside(void **state) {
    (void)state;
    double x[OCTAVES], y[OCTAVES];
    table(x, y);
    const struct curve c = build(CURVE_STEFFEN, x, y, OCTAVES);
    assert_close(curve_at(&c, 1.0, NULL), y[0], 1e-12);
    assert_close(curve_at(&c, 1e15, NULL), y[OCTAVES - 1], 1e-12);
}

static unsigned tag_of(const struct curve *c, double x) {
    struct lookup_count count = {{0}};
    (void)curve_at(c, x, &count);
    assert_int_equal(count.tag[0] + count.tag[1] + count.tag[2], 1);
    return count.tag[LOOKUP_EXACT]          ? LOOKUP_EXACT
           : count.tag[LOOKUP_INTERPOLATED] ? LOOKUP_INTERPOLATED
                                            : LOOKUP_OUTSIDE;
}

static void test_tags(void **state) {
    (void)state;
    const double x[] = {1024.0, 4096.0}, y[] = {1.0, 2.0};
    static const enum curve_method methods[] = {CURVE_STEFFEN, CURVE_RATE, CURVE_LATENCY};
    for (size_t m = 0; m < 3; ++m) {
        const struct curve c = build(methods[m], x, y, 2);
        assert_int_equal(tag_of(&c, 1023.0), LOOKUP_OUTSIDE);
        assert_int_equal(tag_of(&c, 1024.0), LOOKUP_EXACT);
        assert_int_equal(tag_of(&c, 1024.0 * (1.0 + 1e-13)), LOOKUP_EXACT);
        assert_int_equal(tag_of(&c, 1025.0), LOOKUP_INTERPOLATED);
        assert_int_equal(tag_of(&c, 4096.0), LOOKUP_EXACT);
        assert_int_equal(tag_of(&c, 4097.0), LOOKUP_OUTSIDE);
    }
}

static void test_counting_changes_no_value(void **state) {
    (void)state;
    double x[OCTAVES], y[OCTAVES];
    table(x, y);
    const struct curve c = build(CURVE_STEFFEN, x, y, OCTAVES);
    struct lookup_count count = {{0}};
    for (double at = 100.0; at < 1e10; at *= 1.7) {
        const double counted = curve_at(&c, at, &count), plain = curve_at(&c, at, NULL);
        assert_memory_equal(&counted, &plain, sizeof plain);
    }
}

static void test_latency_is_recovered(void **state) {
    (void)state;
    double x[OCTAVES], y[OCTAVES];
    table(x, y);
    const struct curve c = build(CURVE_LATENCY, x, y, OCTAVES);
    assert_close(c.latency, 15e-6, 1e-9);
    assert_close(c.asymptote, 700e9, 1e-9);
    /* keeps its form outside */
    assert_close(1.0 / curve_at(&c, 1.0, NULL), 15e-6, 1e-6);
    assert_close(curve_at(&c, 1e15, NULL), 700e9, 1e-4);
}

static void test_latency_through_two_samples(void **state) {
    (void)state;
    const double x[] = {1e6, 1.2e9}, y[] = {6e9, 87e9};
    const struct curve c = build(CURVE_LATENCY, x, y, 2);
    for (int i = 0; i < 2; ++i)
        assert_close(curve_at(&c, x[i], NULL), y[i], 1e-9);
    double last = 0.0, last_time_s = 0.0;
    for (double at = 1.0; at < 1e12; at *= 2.0) {
        const double rate = curve_at(&c, at, NULL);
        assert_true(rate > last && at / rate > last_time_s);
        last = rate;
        last_time_s = at / rate;
    }
}

/* A rate that falls with size would need a negative latency: none is used then. */
static void test_latency_is_never_negative(void **state) {
    (void)state;
    const double x[] = {1e6, 1e9}, y[] = {100e9, 50e9};
    const struct curve c = build(CURVE_LATENCY, x, y, 2);
    assert_close_abs(c.latency, 0.0, 0.0);
    assert_true(c.asymptote >= 50e9 && c.asymptote <= 100e9);
    assert_close(curve_at(&c, 1.0, NULL), c.asymptote, 1e-12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refuses_bad_samples),
        cmocka_unit_test(test_takes_the_largest_count),
        cmocka_unit_test(test_one_sample_is_constant),
        cmocka_unit_test(test_two_samples_are_a_line_in_log_x),
        cmocka_unit_test(test_samples_are_reproduced),
        cmocka_unit_test(test_exact_means_exact),
        cmocka_unit_test(test_monotone_without_overshoot),
        cmocka_unit_test(test_time_rises_with_size),
        cmocka_unit_test(test_time_rises_on_steps),
        cmocka_unit_test(test_flat_outside),
        cmocka_unit_test(test_tags),
        cmocka_unit_test(test_counting_changes_no_value),
        cmocka_unit_test(test_latency_is_recovered),
        cmocka_unit_test(test_latency_through_two_samples),
        cmocka_unit_test(test_latency_is_never_negative),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
