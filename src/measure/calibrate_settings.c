// SPDX-License-Identifier: GPL-3.0-or-later
/* Keys of a calibration. */
#include "measure/calibrate_settings.h"

#include "base/suggest.h"
#include "base/units.h"

#include <stdio.h>
#include <string.h>

static const double time_least_s = 1e-3, time_most_s = 7 * UNITS_SECONDS_PER_DAY;

void calibrate_settings_init(struct calibrate_settings *settings) {
    *settings = (struct calibrate_settings){
        .level = JOB_DEFAULT, .timeout_s = CALIBRATE_TIMEOUT_S, .tolerance = CALIBRATE_TOLERANCE};
}

/* "60 s", "5 min", or seconds without a unit. */
static enum mosaic_status read_time(const char *key, const char *text, double *out,
                                    struct status_error *err) {
    char shown[STATUS_QUOTE_MAX];
    struct status_error unused;
    double value = 0.0;
    const bool is_read = units_parse(text, DIM_TIME, &value, &unused) == MOSAIC_OK ||
                         units_parse_number(text, &value, &unused) == MOSAIC_OK;
    if (!is_read || !(value >= time_least_s && value <= time_most_s)) {
        (void)status_set(err, MOSAIC_USAGE, "the %s is not '%s'", key,
                         status_quote(text, shown, sizeof shown));
        status_hint(err, "a time up to a week, as '60 s' or '5 min'");
        return MOSAIC_USAGE;
    }
    *out = value;
    return MOSAIC_OK;
}

static enum mosaic_status read_level(const char *text, enum job_level *out,
                                     struct status_error *err) {
    char shown[STATUS_QUOTE_MAX];
    for (int i = 0; i < JOB_LEVELS; ++i)
        if (strcmp(text, job_level_words[i]) == 0) {
            *out = (enum job_level)i;
            return MOSAIC_OK;
        }
    return status_set(err, MOSAIC_USAGE, "'%s' is no level: quick, default or full",
                      status_quote(text, shown, sizeof shown));
}

static enum mosaic_status read_tolerance(struct calibrate_settings *s, const char *key,
                                         struct status_error *err) {
    const size_t length = strcspn(key, "=");
    char shown[STATUS_QUOTE_MAX];
    double share;
    if (key[length] != '=' || length == 0 ||
        units_parse(key + length + 1, DIM_FRACTION, &share, err) != MOSAIC_OK || share < 0.0 ||
        share >= 1.0) {
        (void)status_set(err, MOSAIC_USAGE, "'%s' is no tolerance",
                         status_quote(key, shown, sizeof shown));
        status_hint(err, "all=SHARE or the name of an entry and a share below 1, as "
                         "gemm.bf16.share='2 %%'");
        return MOSAIC_USAGE;
    }
    if (length == strlen("all") && strncmp(key, "all", length) == 0) {
        s->tolerance = share;
        return MOSAIC_OK;
    }
    if (s->tolerance_count == CALIBRATE_TOLERANCES_MAX)
        return status_set(err, MOSAIC_USAGE, "more than %d tolerances", CALIBRATE_TOLERANCES_MAX);
    s->tolerances[s->tolerance_count++] = (struct calibrate_tolerance){key, length, share};
    return MOSAIC_OK;
}

static enum mosaic_status add_option(struct calibrate_settings *s, const char *text,
                                     struct status_error *err) {
    if (s->option_count == CALIBRATE_OPTIONS_MAX)
        return status_set(err, MOSAIC_USAGE, "more than %d options for the probe",
                          CALIBRATE_OPTIONS_MAX);
    s->options[s->option_count++] = text;
    return MOSAIC_OK;
}

enum mosaic_status calibrate_settings_put(struct calibrate_settings *s, const char *pair,
                                          struct status_error *err) {
    static const char tolerance[] = "tolerance.";
    const struct {
        const char *key;
        const char **to;
    } texts[] = {{"probe", &s->probe},     {"beside", &s->beside}, {"cluster", &s->cluster},
                 {"samples", &s->samples}, {"name", &s->name},     {"old", &s->old_path},
                 {"new", &s->new_path},    {"output", &s->output}};
    const size_t length = strcspn(pair, "=");
    const char *const value = pair[length] ? pair + length + 1 : pair + length;
    char key[STATUS_QUOTE_MAX];
    if (strncmp(pair, tolerance, sizeof tolerance - 1) == 0)
        return read_tolerance(s, pair + sizeof tolerance - 1, err);
    (void)snprintf(key, sizeof key, "%.*s", (int)(length < sizeof key ? length : sizeof key), pair);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i)
        if (strcmp(key, texts[i].key) == 0 && *value) {
            *texts[i].to = value;
            return MOSAIC_OK;
        }
    if (strcmp(key, "option") == 0 && pair[length])
        return add_option(s, value, err);
    if (strcmp(key, "level") == 0)
        return read_level(value, &s->level, err);
    if (strcmp(key, "timeout") == 0)
        return read_time("time-out", value, &s->timeout_s, err);
    if (strcmp(key, "budget") == 0)
        return read_time("budget", value, &s->budget_s, err);
    if (strcmp(pair, "restart=on") == 0) {
        s->restart = true;
        return MOSAIC_OK;
    }
    char shown[STATUS_QUOTE_MAX];
    return status_set(err, MOSAIC_USAGE, "'%s' is no setting of a calibration",
                      status_quote(pair, shown, sizeof shown));
}

enum mosaic_status calibrate_settings_check(const struct calibrate_settings *s,
                                            struct status_error *err) {
    if (s->old_path || s->new_path)
        return s->old_path && s->new_path
                   ? MOSAIC_OK
                   : status_set(err, MOSAIC_USAGE, "two calibrations are compared, not one");
    if (!s->probe) {
        (void)status_set(err, MOSAIC_USAGE, "a calibration needs a probe");
        status_hint(err, "--probe cuda, --probe host, or the path of one");
        return MOSAIC_USAGE;
    }
    if (s->restart && !s->samples)
        return status_set(err, MOSAIC_USAGE, "restart is of a journal: samples=FILE names it");
    return MOSAIC_OK;
}

double calibrate_tolerance_of(const struct calibrate_settings *settings, const char *key,
                              bool *is_own) {
    *is_own = false;
    for (size_t i = settings->tolerance_count; i-- > 0;) {
        const struct calibrate_tolerance *const t = &settings->tolerances[i];
        if (strlen(key) == t->length && strncmp(key, t->key, t->length) == 0) {
            *is_own = true;
            return t->share;
        }
    }
    return settings->tolerance;
}
