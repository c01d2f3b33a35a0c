// SPDX-License-Identifier: GPL-3.0-or-later
/* Quantities: what is read, what is refused and why, and what is printed. */
#include "base/units.h"

#include "close.h"

#include <locale.h>
#include <string.h>

struct reading {
    const char *text;
    enum dimension dim;
    double value;
};

/* Exact: each value is the double nearest to the decimal. */
static const struct reading readings[] = {
    {"0", DIM_NUMBER, 0},
    {"-3", DIM_NUMBER, -3},
    {"+3", DIM_NUMBER, 3},
    {".5", DIM_NUMBER, .5},
    {"5.", DIM_NUMBER, 5},
    {"-0.25", DIM_NUMBER, -.25},
    {"1e18", DIM_NUMBER, 1e18},
    {"1.0e18", DIM_NUMBER, 1e18},
    {"1E+18", DIM_NUMBER, 1e18},
    {"1e-7", DIM_NUMBER, 1e-7},
    {"0.1", DIM_NUMBER, 0.1},
    {"1024", DIM_COUNT, 1024},
    {"671e9", DIM_COUNT, 671e9},
    {"1.4 T", DIM_COUNT, 1.4e12},
    {"192 GB", DIM_BYTES, 192e9},
    {"192GB", DIM_BYTES, 192e9},
    {"186 GiB", DIM_BYTES, 186.0 * 1073741824.0},
    {"1 KiB", DIM_BYTES, 1024},
    {"8 b", DIM_BYTES, 1},
    {"7 B", DIM_BYTES, 7},
    {"400 Gb/s", DIM_BYTES_PER_S, 50e9},
    {"7.7 TB/s", DIM_BYTES_PER_S, 7.7e12},
    {"1 Gib/s", DIM_BYTES_PER_S, 134217728},
    {"2.25 PFLOP/s", DIM_FLOP_PER_S, 2.25e15},
    {"3.3 ZFLOP", DIM_FLOP, 3.3e21},
    {"3.3e21 FLOP", DIM_FLOP, 3.3e21},
    {"27 us", DIM_TIME, 27e-6},
    {"27 \xC2\xB5s", DIM_TIME, 27e-6},
    {"3 ns", DIM_TIME, 3e-9},
    {"1.5 ms", DIM_TIME, 1.5e-3},
    {"2 min", DIM_TIME, 120},
    {"2 h", DIM_TIME, 7200},
    {"20 d", DIM_TIME, 1728000},
    {"20 days", DIM_TIME, 1728000},
    {"1 day", DIM_TIME, 86400},
    {"1.2 kW", DIM_POWER, 1200},
    {"250 USD", DIM_PRICE, 250},
    {"4.5 USD/h", DIM_PRICE_PER_H, 4.5},
    {"0.9", DIM_FRACTION, .9},
    {"90 %", DIM_FRACTION, .9},
    {"90%", DIM_FRACTION, .9},
};

static void reads_quantities(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof readings / sizeof readings[0]; i++) {
        struct status_error err = {0};
        double value = -1;
        const enum mosaic_status status =
            units_parse(readings[i].text, readings[i].dim, &value, &err);
        if (status != MOSAIC_OK)
            fail_msg("%s: %s", readings[i].text, err.message);
        if (fabs(value - readings[i].value) > 0)
            fail_msg("%s: %.17g", readings[i].text, value);
    }
}

struct refusal {
    const char *text;
    enum dimension dim;
    const char *says; /* in message or hint */
};

static const struct refusal refusals[] = {
    {"", DIM_NUMBER, "not a decimal number"},
    {" ", DIM_NUMBER, "not a decimal number"},
    {"-", DIM_NUMBER, "not a decimal number"},
    {".", DIM_NUMBER, "not a decimal number"},
    {"e5", DIM_NUMBER, "not a decimal number"},
    {"010", DIM_NUMBER, "starts with a zero"},
    {"-010", DIM_NUMBER, "starts with a zero"},
    {"00", DIM_COUNT, "octal"},
    {"010 GB", DIM_BYTES, "starts with a zero"},
    {"0x10", DIM_NUMBER, "decimal"},
    {"0o17", DIM_COUNT, "decimal"},
    {"0x1p3", DIM_TIME, "decimal"},
    {"1:30", DIM_TIME, "base-60"},
    {"1:30", DIM_NUMBER, "base-60"},
    {"1_000", DIM_COUNT, "separators"},
    {"1,979", DIM_NUMBER, "separators"},
    {"1,979 TFLOP/s", DIM_FLOP_PER_S, "separators"},
    {"12abc", DIM_NUMBER, "not a decimal number"},
    {"12abc", DIM_BYTES, "unknown unit 'abc'"},
    {"1.2.3", DIM_NUMBER, "not a decimal number"},
    {"1+2", DIM_NUMBER, "not a decimal number"},
    {".nan", DIM_NUMBER, "not a finite number"},
    {".inf", DIM_NUMBER, "not a finite number"},
    {"-.INF", DIM_NUMBER, "not a finite number"},
    {"NaN", DIM_BYTES, "not a finite number"},
    {".inf GB/s", DIM_BYTES_PER_S, "not a finite number"},
    {"inf", DIM_TIME, "not a finite number"},
    {"-Infinity", DIM_COUNT, "not a finite number"},
    {"1e999", DIM_NUMBER, "too large"},
    {"1e-999", DIM_NUMBER, "too small"},
    {"1e300 YFLOP", DIM_FLOP, "too large"},
    {"1.5", DIM_COUNT, "whole number"},
    {"-4", DIM_COUNT, "whole number"},
    {"1.0001 k", DIM_COUNT, "whole number"},
    {"192", DIM_BYTES, "has no unit; a size in bytes is due, e.g. 192 GB"},
    {"400", DIM_BYTES_PER_S, "a bandwidth is due, e.g. 400 Gb/s"},
    {"20", DIM_TIME, "a time is due"},
    {"192 GB", DIM_BYTES_PER_S, "is a size in bytes, but a bandwidth is due"},
    {"27 us", DIM_BYTES_PER_S, "is a time, but a bandwidth is due"},
    {"5 GB", DIM_NUMBER, "is a size in bytes, but a plain number is due"},
    {"5 GB", DIM_COUNT, "is a size in bytes, but a count is due"},
    {"2.25 PFLOP", DIM_FLOP_PER_S, "is a number of operations, but a compute rate is due"},
    {"2.25 PFLOPS", DIM_FLOP_PER_S, "write PFLOP/s"},
    {"5 KB", DIM_BYTES, "kB (1000) or KiB (1024)"},
    {"5 Gbps", DIM_BYTES_PER_S, "b/s"},
    {"5 gb/s", DIM_BYTES_PER_S, "unknown unit"},
    {"5 GB/s/s", DIM_BYTES_PER_S, "unknown unit"},
    {"5 KiFLOP", DIM_FLOP, "unknown unit"},
    {"5 kUSD", DIM_PRICE, "unknown unit"},
    {"5 $", DIM_PRICE, "USD"},
    {"5 s ", DIM_TIME, "unknown unit"},
};

static void refuses_and_says_why(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        struct status_error err = {0};
        double value = 42;
        const enum mosaic_status status =
            units_parse(refusals[i].text, refusals[i].dim, &value, &err);
        if (status != MOSAIC_BAD_INPUT)
            fail_msg("'%s' is taken as %g", refusals[i].text, value);
        if (!strstr(err.message, refusals[i].says) && !strstr(err.hint, refusals[i].says))
            fail_msg("'%s' says: %s; %s", refusals[i].text, err.message, err.hint);
        assert_true(value >= 42 && value <= 42); /* untouched */
    }
}

static void refuses_long_and_hostile_text(void **state) {
    (void)state;
    static char text[100000];
    struct status_error err;
    double value;
    memset(text, '1', sizeof text - 1);
    assert_int_equal(units_parse(text, DIM_NUMBER, &value, &err), MOSAIC_BAD_INPUT);
    assert_true(strlen(err.message) < 200);
    memset(text + 3, 'x', sizeof text - 4);
    assert_int_equal(units_parse(text, DIM_BYTES, &value, &err), MOSAIC_BAD_INPUT);
    assert_int_equal(units_parse("1 \x01\x1b[31m", DIM_BYTES, &value, &err), MOSAIC_BAD_INPUT);
    assert_null(strchr(err.message, 0x1b));
    assert_int_equal(units_parse("x", DIM_BYTES, &value, NULL), MOSAIC_BAD_INPUT);
}

static void parse_number_takes_no_unit(void **state) {
    (void)state;
    struct status_error err;
    double value = 0;
    assert_int_equal(units_parse_number("2.5e3", &value, &err), MOSAIC_OK);
    assert_close(value, 2500.0, 1e-15);
    assert_int_equal(units_parse_number("5 GB", &value, &err), MOSAIC_BAD_INPUT);
    assert_int_equal(units_parse_number("5k", &value, &err), MOSAIC_BAD_INPUT);
}

struct printing {
    double value;
    enum dimension dim;
    const char *text;
};

static const struct printing printings[] = {
    {2.25e15, DIM_FLOP_PER_S, "2.25 PFLOP/s"},
    {179.1e9, DIM_BYTES, "179 GB"},
    {2.549, DIM_TIME, "2.55 s"},
    {27e-6, DIM_TIME, "27 us"},
    {0, DIM_TIME, "0 s"},
    {-0.0, DIM_BYTES, "0 B"},
    {1728000, DIM_TIME, "20 d"},
    {90, DIM_TIME, "1.5 min"},
    {999.7, DIM_BYTES, "1 kB"}, /* rounds over the edge */
    {999.4, DIM_BYTES, "999 B"},
    {50e9, DIM_BYTES_PER_S, "50 GB/s"},
    {-1.5e12, DIM_FLOP, "-1.5 TFLOP"},
    {1092, DIM_COUNT, "1092"},
    {327.2e9, DIM_COUNT, "327 G"},
    {0.124, DIM_FRACTION, "12.4 %"},
    {1200, DIM_POWER, "1.2 kW"},
    {4.5, DIM_PRICE_PER_H, "4.5 USD/h"},
    {1.38972, DIM_NUMBER, "1.39"},
};

static void prints_for_people(void **state) {
    (void)state;
    char text[UNITS_TEXT_MAX];
    for (size_t i = 0; i < sizeof printings / sizeof printings[0]; i++) {
        units_format(printings[i].value, printings[i].dim, text, sizeof text);
        assert_string_equal(text, printings[i].text);
    }
    units_format_memory(186.0 * 1073741824.0, text, sizeof text);
    assert_string_equal(text, "186 GiB");
    units_format_memory(512, text, sizeof text);
    assert_string_equal(text, "512 B");
    units_format(NAN, DIM_TIME, text, sizeof text);
    assert_string_equal(text, "n/a");
}

static void exact_form_reads_back(void **state) {
    (void)state;
    static const double values[] = {0,
                                    1,
                                    -2.5,
                                    0.1,
                                    1.0 / 3,
                                    27e-6,
                                    50e9,
                                    1e18,
                                    7.7e12,
                                    1728000,
                                    192e9,
                                    1e-12,
                                    3.3e21,
                                    1e300,
                                    12345.678901234567,
                                    206158430208.0,
                                    0x1p-1000,
                                    86399.99};
    for (int dim = DIM_NUMBER; dim <= DIM_FRACTION; dim++) {
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
            char text[UNITS_TEXT_MAX];
            double value = values[i], back = 0;
            struct status_error err;
            if (dim == DIM_COUNT)
                value = floor(fabs(value));
            units_format_exact(value, (enum dimension)dim, text, sizeof text);
            if (units_parse(text, (enum dimension)dim, &back, &err) != MOSAIC_OK)
                fail_msg("%.17g prints as '%s': %s", value, text, err.message);
            if (fabs(back - value) > 0)
                fail_msg("%.17g prints as '%s' and reads as %.17g", value, text, back);
        }
    }
    char text[UNITS_TEXT_MAX];
    units_format_exact(1728000, DIM_TIME, text, sizeof text);
    assert_string_equal(text, "20 d");
    units_format_exact(192e9, DIM_BYTES, text, sizeof text);
    assert_string_equal(text, "192 GB");
    units_format_exact(192.0 * 1073741824.0, DIM_BYTES, text, sizeof text);
    assert_string_equal(text, "192 GiB");
    units_format_exact(65536, DIM_COUNT, text, sizeof text);
    assert_string_equal(text, "65536");
}

static void does_not_depend_on_the_locale(void **state) {
    (void)state;
    char text[UNITS_TEXT_MAX];
    double value = 0;
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "C.UTF-8"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!setlocale(LC_ALL, names[i]))
            continue;
        assert_int_equal(units_parse("2.25 PFLOP/s", DIM_FLOP_PER_S, &value, NULL), MOSAIC_OK);
        assert_close(value, 2.25e15, 0);
        units_format(2.25e15, DIM_FLOP_PER_S, text, sizeof text);
        assert_string_equal(text, "2.25 PFLOP/s");
    }
    (void)setlocale(LC_ALL, "C");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_quantities),
        cmocka_unit_test(refuses_and_says_why),
        cmocka_unit_test(refuses_long_and_hostile_text),
        cmocka_unit_test(parse_number_takes_no_unit),
        cmocka_unit_test(prints_for_people),
        cmocka_unit_test(exact_form_reads_back),
        cmocka_unit_test(does_not_depend_on_the_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
