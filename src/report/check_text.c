// SPDX-License-Identifier: GPL-3.0-or-later
/* Numbers of a check by their unit, with a sign where they are differences. */
#include "report/check_text.h"
#include "report/result.h"
#include "report/table.h"

#include <math.h>
#include <string.h>

static const double percent = 100.0;

/* Five digits, or a tenth of a per cent could not be seen. */
static const char *figure(double value, const char *metric, char out[NUMBER_MAX]) {
    static const struct {
        const char *metric, *unit;
        double scale;
    } units[] = {{"mfu", " %", 1e-2},
                 {"step_time_s", " s", 1.0},
                 {"reserved_bytes", " GiB", 1024.0 * 1024 * 1024},
                 {"tokens_per_s_per_gpu", " /s", 1.0},
                 {"tokens", " B", 1e9},
                 {"loss", "", 1.0},
                 {"days", " days", 1.0},
                 {"gpu_hours", " GPU-hours", 1.0},
                 {"cost_usd", " USD", 1.0}};
    for (size_t i = 0; i < COUNT_OF(units); i++)
        if (strcmp(metric, units[i].metric) == 0) {
            (void)snprintf(out, NUMBER_MAX, "%.5g%s", value / units[i].scale, units[i].unit);
            return out;
        }
    return value > 0 ? "yes" : "no"; /* feasible */
}

const char *check_figure(json_t *row, const char *key, char out[NUMBER_MAX]) {
    double value;
    return result_real(row, key, &value) ? figure(value, text_at(row, "metric"), out) : "";
}

const char *check_difference(json_t *row, char out[NUMBER_MAX]) {
    double share;
    if (!result_real(row, "relative", &share))
        return "";
    (void)snprintf(out, NUMBER_MAX, fabs(share) < 1e-5 && fabs(share) > 0 ? "%+.1e %%" : "%+.3g %%",
                   percent * share);
    return out;
}

const char *check_tolerance_text(json_t *row, char out[NUMBER_MAX]) {
    double value;
    if (!result_real(row, "tolerance", &value))
        return "";
    if (strcmp(text_at(row, "basis"), "relative") == 0)
        (void)snprintf(out, NUMBER_MAX, "%.3g %%", percent * value);
    else if (strcmp(text_at(row, "unit"), "nat") == 0)
        (void)snprintf(out, NUMBER_MAX, "%.3g nat", value);
    else
        return figure(value, text_at(row, "metric"), out);
    return out;
}

const char *check_row_text(json_t *row, char out[CHECK_TEXT_MAX]) {
    char was[NUMBER_MAX], now[NUMBER_MAX], difference[NUMBER_MAX], tolerance[NUMBER_MAX];
    const char *const left = check_figure(row, "baseline", was);
    const char *const right = check_figure(row, "now", now);
    const char *const change = check_difference(row, difference);
    const char *const limit = check_tolerance_text(row, tolerance);
    (void)snprintf(out, CHECK_TEXT_MAX, "%s -> %s%s%s%s%s%s", *left ? left : "none",
                   *right ? right : "none", *change ? " (" : "", change,
                   *change && *limit ? ", tolerance " : "", *change ? limit : "",
                   *change ? ")" : "");
    return out;
}

const char *check_cause_text(json_t *cause, char out[CHECK_TEXT_MAX]) {
    const double difference = real_at(cause, "difference");
    const char *const kind = text_at(cause, "kind");
    char text[NUMBER_MAX];
    if (strcmp(kind, "loss") == 0)
        (void)snprintf(out, CHECK_TEXT_MAX, "loss term %s %+.3g nat", text_at(cause, "key"),
                       difference);
    else
        (void)snprintf(
            out, CHECK_TEXT_MAX, "%s%s %s%s", strcmp(kind, "memory") == 0 ? "memory " : "",
            text_at(cause, "key"), difference < 0 ? "-" : "+",
            number_human(fabs(difference), kind[0] == 't' ? NUMBER_TIME : NUMBER_MEMORY, text));
    return out;
}

static void append(char out[CHECK_TEXT_MAX], const char *gap, const char *text) {
    const size_t used = strlen(out);
    (void)snprintf(out + used, CHECK_TEXT_MAX - used, "%s%s", used > 0 ? gap : "", text);
}

const char *check_why_text(json_t *file, char out[CHECK_TEXT_MAX]) {
    json_t *const causes = result_at(file, "causes"), *const changed = result_at(file, "changed");
    char text[CHECK_TEXT_MAX];
    out[0] = '\0';
    for (size_t i = 0; i < json_array_size(causes); i++)
        append(out, ", ", check_cause_text(json_array_get(causes, i), text));
    for (size_t i = 0; i < json_array_size(changed); i++) {
        json_t *const change = json_array_get(changed, i);
        if (i == 0)
            append(out, "; ", "changed inputs: ");
        append(out, i > 0 ? ", " : "", text_at(change, "name"));
    }
    return out;
}
