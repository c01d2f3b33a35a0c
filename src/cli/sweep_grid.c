// SPDX-License-Identifier: GPL-3.0-or-later
/* Lists and ranges of --vary, and the points of their product. */
#include "cli/sweep_grid.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_MAX = 4096, UNIT_MAX = 32, QUOTED = STATUS_QUOTE_MAX };

/* LOW..HIGH*FACTOR or LOW..HIGH+STEP. */
struct range {
    double low, high, by;
    bool is_factor;
    char unit[UNIT_MAX]; /* "" for none */
};

static const char *quoted(const char *text, char out[QUOTED]) {
    return status_quote(text, out, QUOTED);
}

/* A decimal number at *at; moves past it and the blanks around it. */
static bool take_number(const char **at, double *value) {
    const char *end = *at + strspn(*at, " ");
    const char *const start = end;
    end += *end == '-' || *end == '+';
    const char *const whole = end;
    end += strspn(end, "0123456789");
    size_t digits = (size_t)(end - whole);
    if (end[0] == '.' && end[1] != '.') {
        const size_t more = strspn(end + 1, "0123456789");
        digits += more;
        end += more + 1;
    }
    if (digits == 0)
        return false;
    if (*end == 'e' || *end == 'E') {
        const char *exponent = end + 1;
        exponent += *exponent == '-' || *exponent == '+';
        const size_t count = strspn(exponent, "0123456789");
        if (count > 0)
            end = exponent + count;
    }
    *value = strtod(start, NULL);
    *at = end + strspn(end, " ");
    return isfinite(*value);
}

/* A unit up to one of `ends`, the same as before where both are there. */
static bool take_unit(const char **at, const char *ends, char unit[UNIT_MAX]) {
    size_t length = strcspn(*at, ends);
    const char *const start = *at;
    *at += length;
    while (length > 0 && start[length - 1] == ' ')
        length--;
    if (length == 0)
        return true;
    if (length >= UNIT_MAX ||
        (*unit && (strlen(unit) != length || strncmp(unit, start, length) != 0)))
        return false;
    memcpy(unit, start, length);
    unit[length] = '\0';
    return true;
}

/* Whether a value is meant as a range: a number, perhaps a unit, two points, a number. */
static bool is_range(const char *text) {
    const char *const points = strstr(text, "..");
    const char *at = text;
    double unused;
    if (!points || !take_number(&at, &unused) || at > points)
        return false;
    for (; at < points; at++)
        if (strchr("\"'[{(=", *at))
            return false;
    at = points + 2;
    return take_number(&at, &unused);
}

static enum mosaic_status read_range(const char *text, struct range *range,
                                     struct status_error *err) {
    char shown[QUOTED];
    const char *at = text;
    *range = (struct range){.by = 0};
    bool fine = take_number(&at, &range->low) && take_unit(&at, ".", range->unit);
    fine = fine && strncmp(at, "..", 2) == 0;
    at += fine ? 2 : 0;
    fine = fine && take_number(&at, &range->high) && take_unit(&at, "*+", range->unit);
    if (fine && *at != '*' && *at != '+') {
        (void)status_set(err, MOSAIC_USAGE, "range '%s' has no step", quoted(text, shown));
        status_hint(err, "4..64*2 doubles, 5..20+5 adds");
        return MOSAIC_USAGE;
    }
    range->is_factor = *at == '*';
    at += fine ? 1 : 0;
    fine = fine && take_number(&at, &range->by) && take_unit(&at, "", range->unit) && *at == '\0';
    if (!fine)
        return status_set(err, MOSAIC_USAGE, "'%s' is no range of numbers with one unit",
                          quoted(text, shown));
    if (range->low > range->high)
        return status_set(err, MOSAIC_USAGE, "range '%s' ends before it begins",
                          quoted(text, shown));
    if (range->is_factor ? !(range->low > 0 && range->by > 1) : !(range->by > 0))
        return status_set(err, MOSAIC_USAGE, "range '%s' never ends: %s", quoted(text, shown),
                          range->is_factor ? "a start above 0 and a factor above 1 are due"
                                           : "a step above 0 is due");
    return MOSAIC_OK;
}

static enum mosaic_status add_value(json_t *values, const char *text, struct status_error *err) {
    char shown[QUOTED];
    for (const char *at = text; *at; at++)
        if ((unsigned char)*at < ' ')
            return status_set(err, MOSAIC_USAGE, "control character in the value '%s'",
                              quoted(text, shown));
    size_t i;
    json_t *other;
    json_array_foreach(values, i, other) {
        if (strcmp(json_string_value(other), text) == 0)
            return status_set(err, MOSAIC_USAGE, "value '%s' is there twice", quoted(text, shown));
    }
    json_t *const value = json_string(text);
    if (!value)
        return status_set(err, MOSAIC_USAGE, "value '%s' is no UTF-8 text", quoted(text, shown));
    if (json_array_size(values) >= SWEEP_VALUES_MAX)
        return status_set(err, MOSAIC_USAGE, "more than %d values", (int)SWEEP_VALUES_MAX);
    return json_array_append_new(values, value) == 0 ? MOSAIC_OK : status_no_memory(err);
}

/* HIGH is in, rounding aside. */
static enum mosaic_status add_range(json_t *values, const char *text, struct status_error *err) {
    const double slack = 1e-9;
    struct range range;
    TRY(read_range(text, &range, err));
    const double reach = range.high + slack * (range.is_factor ? fabs(range.high) : fabs(range.by));
    for (size_t i = 0; i <= SWEEP_VALUES_MAX; i++) {
        char value[VALUE_MAX];
        const double number = range.is_factor ? range.low * pow(range.by, (double)i)
                                              : range.low + (double)i * range.by;
        if (!(number <= reach))
            return MOSAIC_OK;
        (void)snprintf(value, sizeof value, "%.12g%s%s", number, *range.unit ? " " : "",
                       range.unit);
        TRY(add_value(values, value, err));
    }
    return MOSAIC_OK;
}

/* Length of the first value: up to a comma that is not within brackets, braces or quotes. */
static bool first_value(const char *text, size_t *length) {
    char closing[UNIT_MAX];
    size_t depth = 0;
    char quote = '\0';
    const char *at = text;
    for (; *at && !(*at == ',' && depth == 0 && !quote); at++) {
        const char *const bracket = strchr("[]{}", *at);
        if (quote) {
            quote = *at == quote ? '\0' : quote;
        } else if ((*at == '"' || *at == '\'') && (at == text || strchr(" ,:[{", at[-1]))) {
            quote = *at;
        } else if (bracket && (*at == '[' || *at == '{')) {
            if (depth == sizeof closing)
                return false;
            closing[depth++] = bracket[1];
        } else if (bracket && (depth == 0 || closing[--depth] != *at)) {
            return false;
        }
    }
    *length = (size_t)(at - text);
    return depth == 0 && !quote;
}

static enum mosaic_status add_values(json_t *values, const char *list, struct status_error *err) {
    char shown[QUOTED];
    char value[VALUE_MAX];
    for (;;) {
        size_t length;
        list += strspn(list, " ");
        if (!first_value(list, &length))
            return status_set(err, MOSAIC_USAGE, "brackets or quotes of '%s' do not match",
                              quoted(list, shown));
        const char *const next = list + length;
        while (length > 0 && list[length - 1] == ' ')
            length--;
        if (length == 0 || length >= sizeof value)
            return status_set(err, MOSAIC_USAGE, "%s value",
                              length == 0 ? "an empty" : "too long a");
        memcpy(value, list, length);
        value[length] = '\0';
        TRY(is_range(value) ? add_range(values, value, err) : add_value(values, value, err));
        if (*next == '\0')
            return MOSAIC_OK;
        list = next + 1;
    }
}

/* Takes over `values`. */
static enum mosaic_status add_axis(json_t *vary, const char *key, json_t *values,
                                   struct status_error *err) {
    char shown[QUOTED];
    size_t i;
    json_t *axis;
    json_array_foreach(vary, i, axis) {
        if (strcmp(json_string_value(json_object_get(axis, "key")), key) == 0) {
            json_decref(values);
            return status_set(err, MOSAIC_USAGE, "key '%s' is there twice", quoted(key, shown));
        }
    }
    axis = json_pack("{s:s, s:o}", "key", key, "values", values);
    if (!axis)
        return status_set(err, MOSAIC_USAGE, "key '%s' is no UTF-8 text", quoted(key, shown));
    return json_array_append_new(vary, axis) == 0 ? MOSAIC_OK : status_no_memory(err);
}

enum mosaic_status sweep_grid_add(json_t *vary, const char *pair, struct status_error *err) {
    const char *const equals = strchr(pair, '=');
    json_t *const values = json_array();
    char *const key = strdup(pair);
    if (!key || !values || !equals) {
        free(key);
        json_decref(values);
        return status_no_memory(err);
    }
    key[equals - pair] = '\0';
    enum mosaic_status status =
        json_array_size(vary) >= SWEEP_KEYS_MAX
            ? status_set(err, MOSAIC_USAGE, "more than %d keys", (int)SWEEP_KEYS_MAX)
            : add_values(values, equals + 1, err);
    if (status == MOSAIC_OK)
        status = add_axis(vary, key, values, err);
    else
        json_decref(values);
    if (status == MOSAIC_USAGE)
        status_wrap(err, "--vary %s", key);
    free(key);
    return status;
}

size_t sweep_grid_points(const json_t *vary) {
    size_t points = 1;
    size_t i;
    json_t *axis;
    json_array_foreach(vary, i, axis) {
        const size_t count = json_array_size(json_object_get(axis, "values"));
        if (count > SWEEP_POINTS_MAX / points)
            return 0;
        points *= count;
    }
    return points;
}

json_t *sweep_grid_values(const json_t *vary, size_t point) {
    json_t *const list = json_array();
    size_t stride = sweep_grid_points(vary);
    size_t left = point - 1;
    size_t i;
    json_t *axis;
    if (!list || stride == 0)
        return list;
    json_array_foreach(vary, i, axis) {
        json_t *const values = json_object_get(axis, "values");
        stride /= json_array_size(values);
        if (json_array_append(list, json_array_get(values, left / stride)) != 0) {
            json_decref(list);
            return NULL;
        }
        left %= stride;
    }
    return list;
}

size_t sweep_grid_find(const json_t *vary, const json_t *values) {
    size_t point = 0;
    size_t i;
    json_t *axis;
    json_array_foreach(vary, i, axis) {
        json_t *const own = json_object_get(axis, "values");
        json_t *const value = json_array_get(values, i);
        const size_t count = json_array_size(own);
        size_t at = 0;
        while (at < count && !json_equal(json_array_get(own, at), value))
            at++;
        if (at == count)
            return 0;
        point = point * count + at;
    }
    return point + 1;
}
