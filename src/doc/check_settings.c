// SPDX-License-Identifier: GPL-3.0-or-later
/* Keys of a check, and tolerances with their units. */
#include "doc/check_settings.h"

#include "base/suggest.h"
#include "base/units.h"

#include <string.h>

enum { WORD_MAX = 48, NUMBER_TEXT_MAX = 64 };

static const char all_metrics[] = "all";

void check_settings_init(struct check_settings *settings) {
    *settings = (struct check_settings){.update = false};
    for (int i = 0; i < BASELINE_METRICS; ++i)
        settings->tolerances[i].value = CHECK_TOLERANCE;
}

/* "0.001 nat": the unit of a loss is no unit of documents. */
static bool read_nats(const char *text, double *value) {
    static const char unit[] = "nat";
    char number[NUMBER_TEXT_MAX];
    const size_t length = strlen(text), tail = sizeof unit - 1;
    if (length <= tail || length - tail >= sizeof number || strcmp(text + length - tail, unit) != 0)
        return false;
    size_t end = length - tail;
    while (end > 0 && text[end - 1] == ' ')
        end--;
    memcpy(number, text, end);
    number[end] = '\0';
    return units_parse_number(number, value, NULL) == MOSAIC_OK;
}

static bool read_absolute(const struct baseline_metric_info *info, const char *text,
                          double *value) {
    if (!info->example)
        return false;
    if (info->dimension == DIM_NUMBER)
        return read_nats(text, value);
    if (units_parse(text, info->dimension, value, NULL) != MOSAIC_OK)
        return false;
    *value /= info->unit_size;
    return true;
}

static enum mosaic_status refuse(const char *key, const char *text, const char *example,
                                 struct status_error *err) {
    char shown[STATUS_QUOTE_MAX];
    (void)status_set(err, MOSAIC_USAGE, "the tolerance of %s is not '%s'", key,
                     status_quote(text, shown, sizeof shown));
    status_hint(err, "give a share below 1, as '0.1 %%'%s%s%s",
                example ? ", or an absolute one, as '" : "", example ? example : "",
                example ? "'" : "");
    return MOSAIC_USAGE;
}

/* Of all metrics for info NULL: a share. */
static enum mosaic_status read_tolerance(const char *key, const char *text,
                                         const struct baseline_metric_info *info,
                                         struct check_tolerance *out, struct status_error *err) {
    double value;
    struct status_error unused;
    const bool is_share = units_parse(text, DIM_FRACTION, &value, &unused) == MOSAIC_OK;
    if (!is_share && !(info && read_absolute(info, text, &value)))
        return refuse(key, text, info ? info->example : NULL, err);
    if (value < 0.0 || (is_share && value >= 1.0))
        return refuse(key, text, info ? info->example : NULL, err);
    *out = (struct check_tolerance){!is_share, value};
    return MOSAIC_OK;
}

static enum mosaic_status put_tolerance(struct check_settings *s, const char *key, size_t length,
                                        const char *text, struct status_error *err) {
    const char *names[BASELINE_METRICS + 1];
    char word[WORD_MAX], shown[STATUS_QUOTE_MAX];
    (void)snprintf(word, sizeof word, "%.*s", (int)(length < WORD_MAX ? length : WORD_MAX), key);
    for (int i = 0; i < BASELINE_METRICS; ++i) {
        const struct baseline_metric_info *const info =
            baseline_metric_info((enum baseline_metric)i);
        names[i] = info->key;
        if (strcmp(word, info->key) == 0)
            return read_tolerance(word, text, info, &s->tolerances[i], err);
    }
    names[BASELINE_METRICS] = all_metrics;
    if (strcmp(word, all_metrics) == 0) {
        struct check_tolerance each;
        TRY(read_tolerance(word, text, NULL, &each, err));
        for (int i = 0; i < BASELINE_METRICS; ++i)
            s->tolerances[i] = each;
        return MOSAIC_OK;
    }
    const char *const near = suggest(word, names, BASELINE_METRICS + 1);
    (void)status_set(err, MOSAIC_USAGE, "'%s' is no metric of a check",
                     status_quote(word, shown, sizeof shown));
    if (near)
        status_hint(err, "did you mean '%s'?", near);
    else
        status_hint(err, "all, or one of mfu, step_time_s, reserved_bytes, tokens_per_s_per_gpu, "
                         "tokens, loss, days, gpu_hours, cost_usd");
    return MOSAIC_USAGE;
}

enum mosaic_status check_settings_put(struct check_settings *settings, const char *pair,
                                      struct status_error *err) {
    static const char baseline[] = "baseline=", tolerance[] = "tolerance.";
    const char *const key = pair + sizeof tolerance - 1;
    char shown[STATUS_QUOTE_MAX];
    if (strncmp(pair, baseline, sizeof baseline - 1) == 0)
        settings->baseline = pair + sizeof baseline - 1;
    else if (strcmp(pair, "update=on") == 0)
        settings->update = true;
    else if (strncmp(pair, tolerance, sizeof tolerance - 1) == 0 && strchr(key, '='))
        return put_tolerance(settings, key, strcspn(key, "="), strchr(key, '=') + 1, err);
    else
        return status_set(err, MOSAIC_USAGE, "'%s' is no setting of a check",
                          status_quote(pair, shown, sizeof shown));
    return MOSAIC_OK;
}
