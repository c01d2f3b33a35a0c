// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Quantities: one table of units, one decimal grammar
 *   [+-] (digits [. [digits]] | . digits) [(e|E) [+-] digits]
 * and the conversion between texts and base units.  A unit is a multiplier and a divisor, both
 * exact, so that `27 us` is 27 / 1e6 rounded once and equals 27e-6.
 */
#include "base/units.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum prefix_set { PREFIX_NO, PREFIX_DECIMAL, PREFIX_ALL };

struct unit {
    const char *symbol;
    enum dimension dim;
    double multiply, divide;
    enum prefix_set prefixes;
};

struct prefix {
    const char *symbol;
    double factor;
    bool is_binary;
};

#define BITS_PER_BYTE 8.0
#define KIBI 1024.0
#define MEBI (KIBI * KIBI)
#define GIBI (MEBI * KIBI)
#define TEBI (GIBI * KIBI)

static const struct prefix prefixes[] = {
    {"", 1.0, false},   {"k", 1e3, false},        {"M", 1e6, false},        {"G", 1e9, false},
    {"T", 1e12, false}, {"P", 1e15, false},       {"E", 1e18, false},       {"Z", 1e21, false},
    {"Y", 1e24, false}, {"Ki", KIBI, true},       {"Mi", MEBI, true},       {"Gi", GIBI, true},
    {"Ti", TEBI, true}, {"Pi", TEBI *KIBI, true}, {"Ei", TEBI *MEBI, true},
};

/* In a dimension the first unit is the one printed; times rise. */
static const struct unit units[] = {
    {"B", DIM_BYTES, 1, 1, PREFIX_ALL},
    {"b", DIM_BYTES, 1, BITS_PER_BYTE, PREFIX_ALL},
    {"B/s", DIM_BYTES_PER_S, 1, 1, PREFIX_ALL},
    {"b/s", DIM_BYTES_PER_S, 1, BITS_PER_BYTE, PREFIX_ALL},
    {"FLOP", DIM_FLOP, 1, 1, PREFIX_DECIMAL},
    {"FLOPs", DIM_FLOP, 1, 1, PREFIX_DECIMAL},
    {"FLOP/s", DIM_FLOP_PER_S, 1, 1, PREFIX_DECIMAL},
    {"FLOPs/s", DIM_FLOP_PER_S, 1, 1, PREFIX_DECIMAL},
    {"ns", DIM_TIME, 1, 1e9, PREFIX_NO},
    {"us", DIM_TIME, 1, 1e6, PREFIX_NO},
    {"\xC2\xB5s", DIM_TIME, 1, 1e6, PREFIX_NO}, /* micro sign */
    {"\xCE\xBCs", DIM_TIME, 1, 1e6, PREFIX_NO}, /* Greek mu */
    {"ms", DIM_TIME, 1, 1e3, PREFIX_NO},
    {"s", DIM_TIME, 1, 1, PREFIX_NO},
    {"min", DIM_TIME, 60, 1, PREFIX_NO},
    {"h", DIM_TIME, 3600, 1, PREFIX_NO},
    {"hour", DIM_TIME, 3600, 1, PREFIX_NO},
    {"hours", DIM_TIME, 3600, 1, PREFIX_NO},
    {"d", DIM_TIME, UNITS_SECONDS_PER_DAY, 1, PREFIX_NO},
    {"day", DIM_TIME, UNITS_SECONDS_PER_DAY, 1, PREFIX_NO},
    {"days", DIM_TIME, UNITS_SECONDS_PER_DAY, 1, PREFIX_NO},
    {"week", DIM_TIME, 7 * UNITS_SECONDS_PER_DAY, 1, PREFIX_NO},
    {"weeks", DIM_TIME, 7 * UNITS_SECONDS_PER_DAY, 1, PREFIX_NO},
    {"W", DIM_POWER, 1, 1, PREFIX_DECIMAL},
    {"USD", DIM_PRICE, 1, 1, PREFIX_NO},
    {"USD/h", DIM_PRICE_PER_H, 1, 1, PREFIX_NO},
    {"USD/hour", DIM_PRICE_PER_H, 1, 1, PREFIX_NO},
    {"%", DIM_FRACTION, 1, 100, PREFIX_NO},
};

enum {
    UNIT_COUNT = sizeof units / sizeof units[0],
    PREFIX_COUNT = sizeof prefixes / sizeof prefixes[0],
    DIGITS_SHOWN = 3,
    DIGITS_EXACT = 17,
    NUMBER_TEXT_MAX = 28, /* sign, 17 digits, point, exponent */
    MAX_TEXT = 200        /* longer is no quantity; the digits of a double end well before */
};

struct dimension_text {
    const char *name, *example;
    bool need_unit;
};

static const struct dimension_text dimension_texts[DIM_KINDS] = {
    [DIM_NUMBER] = {"plain number", "1.5", false},
    [DIM_COUNT] = {"count", "1024", false},
    [DIM_BYTES] = {"size in bytes", "192 GB", true},
    [DIM_BYTES_PER_S] = {"bandwidth", "400 Gb/s", true},
    [DIM_FLOP] = {"number of operations", "3.3 ZFLOP", true},
    [DIM_FLOP_PER_S] = {"compute rate", "2.25 PFLOP/s", true},
    [DIM_TIME] = {"time", "27 us", true},
    [DIM_POWER] = {"power", "1.2 kW", true},
    [DIM_PRICE] = {"price", "250 USD", true},
    [DIM_PRICE_PER_H] = {"price per hour", "4.5 USD/h", true},
    [DIM_FRACTION] = {"fraction", "0.9 or 90 %", false},
};

const char *units_name(enum dimension dim) {
    return dimension_texts[dim].name;
}

const char *units_example(enum dimension dim) {
    return dimension_texts[dim].example;
}

const char *units_base(enum dimension dim) {
    static const char *const symbols[DIM_KINDS] = {
        [DIM_NUMBER] = "1",   [DIM_COUNT] = "1",
        [DIM_BYTES] = "byte", [DIM_BYTES_PER_S] = "B/s",
        [DIM_FLOP] = "FLOP",  [DIM_FLOP_PER_S] = "FLOP/s",
        [DIM_TIME] = "s",     [DIM_POWER] = "W",
        [DIM_PRICE] = "USD",  [DIM_PRICE_PER_H] = "USD/h",
        [DIM_FRACTION] = "1"};
    return symbols[dim];
}

bool units_need_unit(enum dimension dim) {
    return dimension_texts[dim].need_unit;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

/* strtod in the C locale whatever the caller's thread has set. */
static double convert(const char *text) {
    const locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const locale_t before = c_locale ? uselocale(c_locale) : (locale_t)0;
    const double value = strtod(text, NULL);
    if (c_locale) {
        (void)uselocale(before);
        freelocale(c_locale);
    }
    return value;
}

/* e+07 to e7, e-07 to e-7. */
static void shorten_exponent(char *text) {
    char *exponent = strchr(text, 'e');
    if (!exponent)
        return;
    char *to = exponent + 1;
    const char *from = exponent + 1;
    if (*from == '-')
        *to++ = *from;
    from++; /* printf always writes a sign */
    while (*from == '0' && from[1])
        from++;
    memmove(to, from, strlen(from) + 1);
}

static void print_number(double value, int digits, char *buffer, size_t size) {
    const locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const locale_t before = c_locale ? uselocale(c_locale) : (locale_t)0;
    (void)snprintf(buffer, size, "%.*g", digits, value);
    shorten_exponent(buffer);
    if (c_locale) {
        (void)uselocale(before);
        freelocale(c_locale);
    }
}

static size_t skip_digits(const char *text, size_t at) {
    while (is_digit(text[at]))
        at++;
    return at;
}

/* Length of the decimal number that text starts with, 0 when there is none. */
static size_t scan_number(const char *text) {
    size_t at = text[0] == '+' || text[0] == '-' ? 1 : 0;
    const size_t whole = at;
    at = skip_digits(text, at);
    size_t digits = at - whole;
    if (text[at] == '.') {
        const size_t end = skip_digits(text, at + 1);
        digits += end - (at + 1);
        at = end;
    }
    if (digits == 0)
        return 0;
    if (text[at] == 'e' || text[at] == 'E') {
        const size_t sign = text[at + 1] == '+' || text[at + 1] == '-' ? 1 : 0;
        if (is_digit(text[at + 1 + sign]))
            at = skip_digits(text, at + 1 + sign);
    }
    return at;
}

static bool has_leading_zero(const char *text) {
    const size_t at = text[0] == '+' || text[0] == '-' ? 1 : 0;
    return text[at] == '0' && is_digit(text[at + 1]);
}

static bool is_not_finite_word(const char *text) {
    static const char *const words[] = {"nan", "inf", "infinity"};
    const char *at = text;
    if (*at == '+' || *at == '-')
        at++;
    if (*at == '.')
        at++;
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
        size_t i = 0;
        while (words[w][i] && (at[i] | 0x20) == words[w][i])
            i++;
        if (!words[w][i] && (!at[i] || is_blank(at[i])))
            return true;
    }
    return false;
}

/* Explain a text that is no decimal number; rest is what follows the digits. */
static enum mosaic_status refuse_number(const char *text, const char *rest,
                                        struct status_error *err) {
    char shown[STATUS_QUOTE_MAX];
    (void)status_quote(text, shown, sizeof shown);
    if (is_not_finite_word(text))
        return status_set(err, MOSAIC_BAD_INPUT, "'%s' is not a finite number", shown);
    const enum mosaic_status status =
        status_set(err, MOSAIC_BAD_INPUT, "'%s' is not a decimal number", shown);
    if (rest[0] == ':')
        status_hint(err, "base-60 numbers are not read; write a time as '90 s' or '1.5 min'");
    else if ((rest[0] == '_' || rest[0] == ',') && is_digit(rest[1]))
        status_hint(err, "digit separators are not read; write 1000 or 1e3");
    else if ((rest[0] == 'x' || rest[0] == 'o' || rest[0] == 'b') && is_digit(rest[1]))
        status_hint(err, "only decimal numbers are read");
    return status;
}

/* The number that text starts with; *used is its length. */
static enum mosaic_status parse_prefix_number(const char *text, double *value, size_t *used,
                                              struct status_error *err) {
    const size_t length = scan_number(text);
    if (length == 0 || length > MAX_TEXT)
        return refuse_number(text, "", err);
    if (has_leading_zero(text)) {
        char shown[STATUS_QUOTE_MAX];
        (void)status_set(err, MOSAIC_BAD_INPUT, "'%s' starts with a zero",
                         status_quote(text, shown, sizeof shown));
        status_hint(err, "octal numbers are not read; write the decimal number without it");
        return MOSAIC_BAD_INPUT;
    }
    const char *rest = text + length;
    if (*rest == ':' || *rest == '_' || *rest == ',' || *rest == '.' || *rest == '+' ||
        *rest == '-' || (length == 1 && (*rest == 'x' || *rest == 'o')))
        return refuse_number(text, rest, err);
    char digits[MAX_TEXT + 1];
    memcpy(digits, text, length);
    digits[length] = '\0';
    const double parsed = convert(digits);
    bool is_zero = true;
    for (size_t i = 0; i < length && digits[i] != 'e' && digits[i] != 'E'; i++)
        is_zero = is_zero && !(digits[i] >= '1' && digits[i] <= '9');
    if (!isfinite(parsed) || (!is_zero && !(fabs(parsed) > 0)))
        return status_set(err, MOSAIC_BAD_INPUT, "'%.40s' is too %s for a number", digits,
                          isfinite(parsed) ? "small" : "large");
    *value = parsed;
    *used = length;
    return MOSAIC_OK;
}

enum mosaic_status units_parse_number(const char *text, double *value, struct status_error *err) {
    double parsed = 0;
    size_t used = 0;
    TRY(parse_prefix_number(text, &parsed, &used, err));
    if (text[used] != '\0')
        return refuse_number(text, text + used, err);
    *value = parsed;
    return MOSAIC_OK;
}

static bool may_prefix(const struct unit *unit, const struct prefix *prefix) {
    if (prefix->symbol[0] == '\0')
        return true;
    return unit->prefixes == PREFIX_ALL || (unit->prefixes == PREFIX_DECIMAL && !prefix->is_binary);
}

/* Find prefix and unit whose symbols together are the text. */
static bool find_unit(const char *text, const struct unit **unit, const struct prefix **prefix) {
    for (size_t u = 0; u < UNIT_COUNT; u++) {
        for (size_t p = 0; p < PREFIX_COUNT; p++) {
            const size_t front = strlen(prefixes[p].symbol);
            if (may_prefix(&units[u], &prefixes[p]) &&
                strncmp(text, prefixes[p].symbol, front) == 0 &&
                strcmp(text + front, units[u].symbol) == 0) {
                *unit = &units[u];
                *prefix = &prefixes[p];
                return true;
            }
        }
    }
    return false;
}

/* Say why a unit is unknown where the reason is a common one. */
static enum mosaic_status refuse_unit(const char *text, const char *symbol, enum dimension dim,
                                      struct status_error *err) {
    char shown[STATUS_QUOTE_MAX], unit_shown[STATUS_QUOTE_MAX];
    (void)status_set(err, MOSAIC_BAD_INPUT, "'%s': unknown unit '%s'; a %s is due, e.g. %s",
                     status_quote(text, shown, sizeof shown),
                     status_quote(symbol, unit_shown, sizeof unit_shown), units_name(dim),
                     units_example(dim));
    const size_t length = strlen(symbol);
    if (symbol[0] == 'K' && (symbol[1] == 'B' || symbol[1] == 'b'))
        status_hint(err, "write k%c (1000) or Ki%c (1024)", symbol[1], symbol[1]);
    else if (length >= 5 && strcmp(symbol + length - 5, "FLOPS") == 0)
        status_hint(err, "write %.*sFLOP/s", (int)(length - 5 < 2 ? length - 5 : 2), symbol);
    else if (length >= 3 && strcmp(symbol + length - 3, "bps") == 0)
        status_hint(err, "write b/s for bits, B/s for bytes per second");
    else if (symbol[0] == '$')
        status_hint(err, "write USD");
    return MOSAIC_BAD_INPUT;
}

static enum mosaic_status finish_count(const char *text, double value, double *out,
                                       struct status_error *err) {
    char shown[STATUS_QUOTE_MAX];
    if (value < 0 || value < floor(value) || value > floor(value))
        return status_set(err, MOSAIC_BAD_INPUT, "'%s' is not a whole number of 0 or more",
                          status_quote(text, shown, sizeof shown));
    *out = value;
    return MOSAIC_OK;
}

/* A count may carry a decimal prefix: 1.4 T. */
static bool count_prefix(const char *symbol, double *factor) {
    for (size_t p = 0; p < PREFIX_COUNT; p++) {
        if (!prefixes[p].is_binary && strcmp(symbol, prefixes[p].symbol) == 0) {
            *factor = prefixes[p].factor;
            return true;
        }
    }
    return false;
}

static enum mosaic_status parse_bare(const char *text, enum dimension dim, double number,
                                     double *value, struct status_error *err) {
    char shown[STATUS_QUOTE_MAX];
    if (dim == DIM_COUNT)
        return finish_count(text, number, value, err);
    if (units_need_unit(dim))
        return status_set(err, MOSAIC_BAD_INPUT, "'%s' has no unit; a %s is due, e.g. %s",
                          status_quote(text, shown, sizeof shown), units_name(dim),
                          units_example(dim));
    *value = number;
    return MOSAIC_OK;
}

enum mosaic_status units_parse(const char *text, enum dimension dim, double *value,
                               struct status_error *err) {
    double number = 0;
    size_t used = 0;
    TRY(parse_prefix_number(text, &number, &used, err));
    const char *symbol = text + used;
    if (*symbol == '\0')
        return parse_bare(text, dim, number, value, err);
    while (is_blank(*symbol))
        symbol++;
    double factor;
    if (dim == DIM_COUNT && count_prefix(symbol, &factor)) {
        if (!isfinite(number * factor))
            return status_set(err, MOSAIC_BAD_INPUT, "'%.40s' is too large", text);
        return finish_count(text, number * factor, value, err);
    }
    const struct unit *unit = NULL;
    const struct prefix *prefix = NULL;
    if (!find_unit(symbol, &unit, &prefix))
        return dim == DIM_NUMBER ? refuse_number(text, symbol, err)
                                 : refuse_unit(text, symbol, dim, err);
    char shown[STATUS_QUOTE_MAX];
    if (unit->dim != dim)
        return status_set(err, MOSAIC_BAD_INPUT, "'%s' is a %s, but a %s is due, e.g. %s",
                          status_quote(text, shown, sizeof shown), units_name(unit->dim),
                          units_name(dim), units_example(dim));
    const double scaled = number * (prefix->factor * unit->multiply) / unit->divide;
    if (!isfinite(scaled))
        return status_set(err, MOSAIC_BAD_INPUT, "'%s' is too large",
                          status_quote(text, shown, sizeof shown));
    *value = scaled;
    return MOSAIC_OK;
}

/* Printing. */

/* "-0" and the like are plain 0. */
static double plain_zero(double value) {
    return fabs(value) > 0 ? value : 0.0;
}

/* The largest of the rising units that leaves at least 1 after rounding to three digits. */
struct printed_unit {
    const char *prefix, *symbol;
    double size;
};

static void print_scaled(double value, const struct printed_unit *table, size_t count, char *buffer,
                         size_t size) {
    const double half_digit = 0.9995; /* 999.5 of one unit reads as 1 of the next */
    size_t chosen = 0;
    for (size_t i = 1; i < count; i++) {
        if (fabs(value) >= table[i].size * half_digit)
            chosen = i;
    }
    char number[NUMBER_TEXT_MAX];
    const double scaled = value / table[chosen].size;
    print_number(plain_zero(scaled), DIGITS_SHOWN, number, sizeof number);
    (void)snprintf(buffer, size, "%s%s%s%s", number,
                   table[chosen].prefix[0] || table[chosen].symbol[0] ? " " : "",
                   table[chosen].prefix, table[chosen].symbol);
}

static const char *printed_symbol(enum dimension dim) {
    for (size_t u = 0; u < UNIT_COUNT; u++) {
        if (units[u].dim == dim)
            return units[u].symbol;
    }
    return "";
}

static void print_prefixed(double value, const char *symbol, bool is_binary, char *buffer,
                           size_t size) {
    struct printed_unit table[PREFIX_COUNT];
    size_t count = 0;
    for (size_t p = 0; p < PREFIX_COUNT; p++) {
        if (p == 0 || prefixes[p].is_binary == is_binary)
            table[count++] = (struct printed_unit){prefixes[p].symbol, symbol, prefixes[p].factor};
    }
    print_scaled(value, table, count, buffer, size);
}

static void print_time(double value, char *buffer, size_t size) {
    static const struct printed_unit table[] = {
        {"", "ns", 1e-9},
        {"", "us", 1e-6},
        {"", "ms", 1e-3},
        {"", "s", 1},
        {"", "min", 60},
        {"", "h", 3600.0},
        {"", "d", UNITS_SECONDS_PER_DAY},
    };
    if (!(fabs(value) > 0))
        (void)snprintf(buffer, size, "0 s");
    else
        print_scaled(value, table, sizeof table / sizeof table[0], buffer, size);
}

void units_format(double value, enum dimension dim, char *buffer, size_t size) {
    if (!isfinite(value)) {
        (void)snprintf(buffer, size, "n/a");
        return;
    }
    char number[NUMBER_TEXT_MAX];
    const double exact_counts_below = 1e6;
    switch (dim) {
    case DIM_TIME:
        print_time(value, buffer, size);
        return;
    case DIM_NUMBER:
        print_number(plain_zero(value), DIGITS_SHOWN + 1, buffer, size);
        return;
    case DIM_COUNT:
        if (fabs(value) < exact_counts_below)
            print_number(plain_zero(value), DIGITS_EXACT, buffer, size);
        else
            print_prefixed(value, "", false, buffer, size);
        return;
    case DIM_FRACTION:
        print_number(plain_zero(value * 100), DIGITS_SHOWN, number, sizeof number);
        (void)snprintf(buffer, size, "%s %%", number);
        return;
    case DIM_PRICE:
    case DIM_PRICE_PER_H:
        print_number(plain_zero(value), DIGITS_SHOWN + 1, number, sizeof number);
        (void)snprintf(buffer, size, "%s %s", number, printed_symbol(dim));
        return;
    case DIM_BYTES:
    case DIM_BYTES_PER_S:
    case DIM_FLOP:
    case DIM_FLOP_PER_S:
    case DIM_POWER:
        print_prefixed(value, printed_symbol(dim), false, buffer, size);
        return;
    }
}

void units_format_memory(double bytes, char *buffer, size_t size) {
    if (isfinite(bytes))
        print_prefixed(bytes, printed_symbol(DIM_BYTES), true, buffer, size);
    else
        (void)snprintf(buffer, size, "n/a");
}

static void keep_shorter(const char *text, char *best, size_t size) {
    if (best[0] == '\0' || strlen(text) < strlen(best))
        (void)snprintf(best, size, "%s", text);
}

/* Offer best the shortest text of value in one unit that reads back as the same value. */
static void offer_round_trip(double value, double in_unit, enum dimension dim, const char *suffix,
                             char *best, size_t size) {
    for (int digits = 1; digits <= DIGITS_EXACT; digits++) {
        char number[NUMBER_TEXT_MAX], text[UNITS_TEXT_MAX];
        double back = 0;
        print_number(in_unit, digits, number, sizeof number);
        (void)snprintf(text, sizeof text, "%s%s%s", number, suffix[0] ? " " : "", suffix);
        if (units_parse(text, dim, &back, NULL) == MOSAIC_OK && !(back < value) && !(back > value))
            keep_shorter(text, best, size);
    }
}

void units_format_exact(double value, enum dimension dim, char *buffer, size_t size) {
    char best[UNITS_TEXT_MAX] = "";
    if (!isfinite(value)) {
        (void)snprintf(buffer, size, "n/a");
        return;
    }
    value = plain_zero(value);
    if (!units_need_unit(dim)) {
        const enum dimension plain = dim == DIM_COUNT && value < 0 ? DIM_NUMBER : dim;
        offer_round_trip(value, value, plain, "", best, sizeof best);
    }
    for (size_t u = 0; u < UNIT_COUNT && units_need_unit(dim); u++) {
        for (size_t p = 0; p < PREFIX_COUNT && units[u].dim == dim; p++) {
            char suffix[16];
            const double factor = prefixes[p].factor * units[u].multiply;
            (void)snprintf(suffix, sizeof suffix, "%s%s", prefixes[p].symbol, units[u].symbol);
            if (may_prefix(&units[u], &prefixes[p]) && isfinite(value * units[u].divide))
                offer_round_trip(value, value * units[u].divide / factor, dim, suffix, best,
                                 sizeof best);
        }
    }
    (void)snprintf(buffer, size, "%s", best);
}
