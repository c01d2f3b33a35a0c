// SPDX-License-Identifier: GPL-3.0-or-later
/* One function a key. */
#include "fit/fit_settings.h"

#include "base/suggest.h"
#include "base/units.h"

#include <math.h>
#include <string.h>
#include <talloc.h>

enum { NUMBER_TEXT = 64 };

static const char huber_prefix[] = "huber:";

typedef enum mosaic_status setting_put(struct fit_settings *settings, const char *value,
                                       struct status_error *err);

enum mosaic_status fit_settings_refuse(const char *key, const char *value, const char *takes,
                                       struct status_error *err) {
    char shown[STATUS_QUOTE_MAX];
    return status_set(err, MOSAIC_USAGE, "%s takes %s, not '%s'", key, takes,
                      status_quote(value, shown, sizeof shown));
}

static bool is_text(const char *value, const char *word) {
    return strcmp(value, word) == 0;
}

static bool read_number(const char *text, double *value) {
    struct status_error unused;
    return units_parse_number(text, value, &unused) == MOSAIC_OK;
}

static enum mosaic_status read_whole(const char *key, const char *text, size_t least, size_t most,
                                     size_t *out, struct status_error *err) {
    double value;
    char takes[NUMBER_TEXT];
    (void)snprintf(takes, sizeof takes, "a whole number from %zu to %zu", least, most);
    if (!read_number(text, &value) || !(value >= (double)least && value <= (double)most) ||
        fabs(value - floor(value)) > 0)
        return fit_settings_refuse(key, text, takes, err);
    *out = (size_t)value;
    return MOSAIC_OK;
}

static enum mosaic_status read_switch(const char *key, const char *text, bool *out,
                                      struct status_error *err) {
    if (!is_text(text, "on") && !is_text(text, "off"))
        return fit_settings_refuse(key, text, "on or off", err);
    *out = is_text(text, "on");
    return MOSAIC_OK;
}

/* ---- one key each ---- */

static enum mosaic_status put_form(struct fit_settings *s, const char *value,
                                   struct status_error *err) {
    const struct form *form = form_find(value);
    const char *names[FORM_KINDS];
    if (form) {
        s->job.form = form->kind;
        return MOSAIC_OK;
    }
    for (size_t k = 0; k < FORM_KINDS; k++)
        names[k] = form_of((enum form_kind)k)->name;
    (void)fit_settings_refuse("form", value, "the name of a form", err);
    const char *near = suggest(value, names, FORM_KINDS);
    if (near)
        status_hint(err, "is it '%s'?", near);
    return MOSAIC_USAGE;
}

static enum mosaic_status put_loss(struct fit_settings *s, const char *value,
                                   struct status_error *err) {
    const size_t prefix = sizeof huber_prefix - 1;
    struct fit_measure measure = {.delta = (double)INFINITY};
    double delta;
    if (is_text(value, "lad"))
        measure.delta = DESCEND_LAD_DELTA;
    else if (is_text(value, "least-squares-raw"))
        measure.is_plain = true;
    else if (strncmp(value, huber_prefix, prefix) == 0 && read_number(value + prefix, &delta) &&
             delta >= DESCEND_LAD_DELTA)
        measure.delta = delta;
    else if (!is_text(value, "least-squares"))
        return fit_settings_refuse(
            "loss", value,
            "least-squares, least-squares-raw, lad or huber:DELTA with DELTA from 1e-6", err);
    s->job.fit.measure = measure;
    return MOSAIC_OK;
}

static enum mosaic_status put_count(struct fit_settings *s, const char *value,
                                    struct status_error *err) {
    if (is_text(value, "all"))
        s->job.runs.count = RUN_COUNT_ALL;
    else if (is_text(value, "no_embedding"))
        s->job.runs.count = RUN_COUNT_NO_EMBEDDING;
    else
        return fit_settings_refuse("count", value, "all or no_embedding", err);
    return MOSAIC_OK;
}

/* Splits at the first '='; both parts live as long as the settings. */
static enum mosaic_status split(struct fit_settings *s, const char *text, const char **left,
                                const char **right, struct status_error *err) {
    const char *equals = strchr(text, '=');
    const size_t length = equals ? (size_t)(equals - text) : 0;
    if (length == 0)
        return status_set(err, MOSAIC_USAGE, "'=' is missing or stands first");
    if (!s->memory)
        s->memory = talloc_new(NULL);
    char *name = s->memory ? talloc_strndup(s->memory, text, length) : NULL;
    char *value = s->memory ? talloc_strdup(s->memory, equals + 1) : NULL;
    if (!name || !value)
        return status_no_memory(err);
    *left = name;
    *right = value;
    return MOSAIC_OK;
}

static enum mosaic_status put_fix(struct fit_settings *s, const char *text,
                                  struct status_error *err) {
    struct fit_job_fix fix = {NULL, 0};
    const char *value = "";
    if (s->job.fix_count == FORM_MAX_COEFFICIENTS)
        return status_set(err, MOSAIC_USAGE, "more coefficients fixed than any form has");
    if (split(s, text, &fix.name, &value, err) != MOSAIC_OK || !read_number(value, &fix.value))
        return fit_settings_refuse("fix", text, "NAME=NUMBER", err);
    s->fixes[s->job.fix_count++] = fix;
    s->job.fixes = s->fixes;
    return MOSAIC_OK;
}

static enum mosaic_status put_filter(struct fit_settings *s, const char *text,
                                     struct status_error *err) {
    struct run_filter filter = {NULL, NULL};
    if (s->job.runs.filter_count == FIT_SETTINGS_FILTERS)
        return status_set(err, MOSAIC_USAGE, "more than %d filters", (int)FIT_SETTINGS_FILTERS);
    if (split(s, text, &filter.column, &filter.value, err) != MOSAIC_OK)
        return fit_settings_refuse("filter", text, "COLUMN=VALUE", err);
    s->filters[s->job.runs.filter_count++] = filter;
    s->job.runs.filters = s->filters;
    return MOSAIC_OK;
}

static enum mosaic_status put_starts(struct fit_settings *s, const char *value,
                                     struct status_error *err) {
    return read_whole("starts", value, 1, FIT_MAX_STARTS, &s->job.fit.starts, err);
}

static enum mosaic_status put_bootstrap(struct fit_settings *s, const char *value,
                                        struct status_error *err) {
    s->job.has_bootstrap = !is_text(value, "none");
    if (is_text(value, "residual"))
        s->job.bootstrap.kind = BOOTSTRAP_RESIDUAL;
    else if (is_text(value, "wild"))
        s->job.bootstrap.kind = BOOTSTRAP_WILD;
    else if (s->job.has_bootstrap)
        return fit_settings_refuse("bootstrap", value, "wild, residual or none", err);
    return MOSAIC_OK;
}

static enum mosaic_status put_draws(struct fit_settings *s, const char *value,
                                    struct status_error *err) {
    return read_whole("draws", value, BOOTSTRAP_DRAWS, BOOTSTRAP_MAX_DRAWS, &s->job.bootstrap.draws,
                      err);
}

static enum mosaic_status put_cross_validation(struct fit_settings *s, const char *value,
                                               struct status_error *err) {
    return read_switch("cross_validation", value, &s->job.has_cross_validation, err);
}

static enum mosaic_status put_comparison(struct fit_settings *s, const char *value,
                                         struct status_error *err) {
    return read_switch("comparison", value, &s->job.has_comparison, err);
}

static enum mosaic_status put_plots(struct fit_settings *s, const char *value,
                                    struct status_error *err) {
    return read_switch("plots", value, &s->job.has_plots, err);
}

static enum mosaic_status put_at(struct fit_settings *s, const char *value,
                                 struct status_error *err) {
    static const double most_flops = 1e40;
    char flops_text[NUMBER_TEXT];
    const char *comma = strchr(value, ',');
    const size_t length = comma ? (size_t)(comma - value) : strlen(value);
    double flops, granularity = 0;
    (void)snprintf(flops_text, sizeof flops_text, "%.*s",
                   (int)(length < NUMBER_TEXT ? length : NUMBER_TEXT - 1), value);
    if (length >= NUMBER_TEXT || !read_number(flops_text, &flops) ||
        !(flops >= 1 && flops <= most_flops) ||
        (comma &&
         (!read_number(comma + 1, &granularity) ||
          !(granularity >= 1 / LAW_GRANULARITY_MAX && granularity <= LAW_GRANULARITY_MAX))))
        return fit_settings_refuse("at", value,
                                   "model FLOPs, and a granularity after a comma if any", err);
    s->job.model_flops = flops;
    s->job.granularity = granularity;
    return MOSAIC_OK;
}

/* ---- table of keys ---- */

static const struct setting {
    const char *key;
    setting_put *put;
} keys[] = {
    {"form", put_form},
    {"loss", put_loss},
    {"count", put_count},
    {"fix", put_fix},
    {"filter", put_filter},
    {"starts", put_starts},
    {"draws", put_draws},
    {"bootstrap", put_bootstrap},
    {"cross_validation", put_cross_validation},
    {"comparison", put_comparison},
    {"at", put_at},
    {"plots", put_plots},
};
enum { KEYS = sizeof keys / sizeof *keys };

static const char *key_at(const void *context, size_t index) {
    const struct setting *list = context;
    return list[index].key;
}

void fit_settings_init(struct fit_settings *settings) {
    memset(settings, 0, sizeof *settings);
    fit_job_options_init(&settings->job);
}

enum mosaic_status fit_settings_put(struct fit_settings *settings, const char *pair,
                                    struct status_error *err) {
    const size_t length = strcspn(pair, "=");
    char shown[STATUS_QUOTE_MAX], key[STATUS_QUOTE_MAX];
    (void)snprintf(key, sizeof key, "%.*s", (int)(length < sizeof key ? length : sizeof key - 1),
                   pair);
    if (pair[length] != '=')
        return status_set(err, MOSAIC_USAGE, "a setting is KEY=VALUE, not '%s'",
                          status_quote(pair, shown, sizeof shown));
    for (size_t i = 0; i < KEYS; i++)
        if (is_text(key, keys[i].key))
            return keys[i].put(settings, pair + length + 1, err);
    (void)status_set(err, MOSAIC_USAGE, "a fit has no setting '%s'",
                     status_quote(key, shown, sizeof shown));
    const char *near = suggest_from(key, key_at, keys, KEYS);
    if (near)
        status_hint(err, "is it '%s'?", near);
    return MOSAIC_USAGE;
}

enum mosaic_status fit_settings_check(const struct fit_settings *settings,
                                      struct status_error *err) {
    const enum form_kind form = settings->job.form;
    struct fit_options scratch;
    fit_options_init(&scratch);
    for (size_t i = 0; i < settings->job.fix_count; i++)
        if (fit_options_fix(&scratch, form_of(form), settings->fixes[i].name,
                            settings->fixes[i].value, err) != MOSAIC_OK) {
            err->status = MOSAIC_USAGE;
            return MOSAIC_USAGE;
        }
    if (settings->job.model_flops > 0 && (form == FORM_KRAJEWSKI || form == FORM_CLARK))
        return status_set(err, MOSAIC_USAGE, "a law of the %s form has no optimum to look for",
                          form_of(form)->name);
    return MOSAIC_OK;
}

void fit_settings_free(struct fit_settings *settings) {
    talloc_free(settings->memory);
    settings->memory = NULL;
}

const char *fit_settings_loss(const struct fit_measure *measure, char *buffer, size_t size) {
    if (measure->is_plain && !isfinite(measure->delta))
        (void)snprintf(buffer, size, "least-squares-raw");
    else if (!isfinite(measure->delta))
        (void)snprintf(buffer, size, "least-squares");
    else if (measure->delta <= DESCEND_LAD_DELTA)
        (void)snprintf(buffer, size, "lad");
    else
        (void)snprintf(buffer, size, "%s%g", huber_prefix, measure->delta);
    return buffer;
}
