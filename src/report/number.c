// SPDX-License-Identifier: GPL-3.0-or-later
/* Numbers as text. */
#include "report/number.h"

#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double GIB = 1024.0 * 1024.0 * 1024.0, MIB = 1024.0 * 1024.0;
enum { DIGITS_FIRST = 15, DIGITS_LAST = 17 };

/* printf writes the decimal point of the caller's locale. */
static void plain_point(char *text) {
    const char *const point = localeconv()->decimal_point;
    char *const found = strcmp(point, ".") != 0 ? strstr(text, point) : NULL;
    if (!found)
        return;
    const size_t length = strlen(point);
    *found = '.';
    memmove(found + 1, found + length, strlen(found + length) + 1);
}

const char *number_exact(double value, char out[NUMBER_MAX]) {
    for (int digits = DIGITS_FIRST; digits <= DIGITS_LAST; digits++) {
        (void)snprintf(out, NUMBER_MAX, "%.*g", digits, value);
        if (fabs(strtod(out, NULL) - value) <= 0)
            break;
    }
    plain_point(out);
    /* YAML 1.1 readers want a point even before an exponent. */
    if (!strchr(out, '.')) {
        const size_t mantissa = strcspn(out, "e");
        char tail[NUMBER_MAX];
        memcpy(tail, out + mantissa, strlen(out + mantissa) + 1);
        (void)snprintf(out + mantissa, NUMBER_MAX - mantissa, ".0%.20s", tail);
    }
    return out;
}

const char *number_fixed(double value, int decimals, char out[NUMBER_MAX]) {
    (void)snprintf(out, NUMBER_MAX, "%.*f", decimals, value);
    plain_point(out);
    return out;
}

/* Four significant digits of value in the largest unit that leaves at least 1. */
static void scaled(double value, const double *sizes, const char *const *names, size_t count,
                   char *out) {
    size_t i = 0;
    /* .99995: what would be rounded up to 1000 belongs to the next unit. */
    while (i + 1 < count && fabs(value) < sizes[i] * 0.99995)
        i++;
    const double shown = value / sizes[i];
    const int decimals = fabs(shown) >= 1000 ? 0 : fabs(shown) >= 100 ? 1 : 2;
    (void)snprintf(out, NUMBER_MAX, "%.*f%s", decimals, shown, names[i]);
}

static void human_count(double value, char *out) {
    static const double sizes[] = {1e12, 1e9, 1e6, 1e3};
    static const char *const names[] = {" T", " B", " M", " K"};
    if (fabs(value) < 1e4)
        (void)snprintf(out, NUMBER_MAX, "%.6g", value);
    else
        scaled(value, sizes, names, sizeof sizes / sizeof *sizes, out);
}

static void human_time(double value, char *out) {
    static const double sizes[] = {1.0, 1e-3, 1e-6};
    static const char *const names[] = {" s", " ms", " us"};
    if (value > 0 || value < 0)
        scaled(value, sizes, names, sizeof sizes / sizeof *sizes, out);
    else
        (void)snprintf(out, NUMBER_MAX, "0 s");
}

/* Too little to show in GiB is shown in MiB. */
static void human_memory(double value, char *out) {
    const bool is_small = fabs(value) < GIB / 10;
    if (is_small && (value > 0 || value < 0))
        (void)snprintf(out, NUMBER_MAX, "%.1f MiB", value / MIB);
    else
        (void)snprintf(out, NUMBER_MAX, "%.1f GiB", value / GIB);
}

static void human_plain(double value, char *out) {
    const bool whole = fabs(value) < 1e9 && fabs(value - nearbyint(value)) <= 0;
    (void)snprintf(out, NUMBER_MAX, whole ? "%.0f" : "%.4g", value);
}

const char *number_human(double value, enum number_unit unit, char out[NUMBER_MAX]) {
    switch (unit) {
    case NUMBER_PLAIN:
        human_plain(value, out);
        break;
    case NUMBER_COUNT:
        human_count(value, out);
        break;
    case NUMBER_TIME:
        human_time(value, out);
        break;
    case NUMBER_DAYS:
        (void)snprintf(out, NUMBER_MAX, "%.4g days", value);
        break;
    case NUMBER_SHARE:
        (void)snprintf(out, NUMBER_MAX, "%.1f %%", 100 * value);
        break;
    case NUMBER_MEMORY:
        human_memory(value, out);
        break;
    case NUMBER_FLOP:
        (void)snprintf(out, NUMBER_MAX, "%.3e FLOP", value);
        break;
    case NUMBER_LOSS:
    case NUMBER_RATIO:
        (void)snprintf(out, NUMBER_MAX, "%.4f", value);
        break;
    case NUMBER_RATE:
        (void)snprintf(out, NUMBER_MAX, "%.1f /s", value);
        break;
    }
    plain_point(out);
    return out;
}
