// SPDX-License-Identifier: GPL-3.0-or-later
/* Keys of a plan's options. */
#include "doc/plan_settings.h"

#include "base/suggest.h"
#include "base/units.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 48 };
static const char *const keys[] = {"certificate", "sensitivity", "measured", "time_limit",
                                   "geometry_limit"};
enum { KEY_CERTIFICATE, KEY_SENSITIVITY, KEY_MEASURED, KEY_TIME, KEY_GEOMETRIES, KEYS };

static enum mosaic_status refuse(const char *key, const char *text, const char *wanted,
                                 struct status_error *err) {
    char shown[STATUS_QUOTE_MAX];
    (void)status_set(err, MOSAIC_USAGE, "%s is not '%s'", key,
                     status_quote(text, shown, sizeof shown));
    status_hint(err, "%s", wanted);
    return MOSAIC_USAGE;
}

static enum mosaic_status read_switch(const char *key, const char *text, bool *out,
                                      struct status_error *err) {
    *out = strcmp(text, "on") == 0;
    return *out || strcmp(text, "off") == 0 ? MOSAIC_OK : refuse(key, text, "on or off", err);
}

static enum mosaic_status read_count(const char *key, const char *text, long *out,
                                     struct status_error *err) {
    enum { DECIMAL = 10 };
    char *end = NULL;
    errno = 0;
    *out = strtol(text, &end, DECIMAL);
    return errno == 0 && end != text && *end == '\0' && *out >= 1
               ? MOSAIC_OK
               : refuse(key, text, "a whole number of 1 or more", err);
}

static enum mosaic_status read_time(const char *key, const char *text, double *out,
                                    struct status_error *err) {
    struct status_error unused;
    return units_parse(text, DIM_TIME, out, &unused) == MOSAIC_OK && *out > 0.0
               ? MOSAIC_OK
               : refuse(key, text, "a time with its unit, as '60 s' or '5 min'", err);
}

static enum mosaic_status put(struct plan_settings *s, const char *pair, struct status_error *err) {
    const char *const equals = strchr(pair, '=');
    char word[WORD_MAX], shown[STATUS_QUOTE_MAX];
    const size_t length = equals ? (size_t)(equals - pair) : strlen(pair);
    (void)snprintf(word, sizeof word, "%.*s", (int)(length < WORD_MAX ? length : WORD_MAX), pair);
    int key = 0;
    while (key < KEYS && strcmp(word, keys[key]) != 0)
        key++;
    if (!equals || key == KEYS) {
        (void)status_set(err, MOSAIC_USAGE, "a plan has no option '%s'",
                         status_quote(word, shown, sizeof shown));
        const char *const near = suggest(word, keys, KEYS);
        if (near)
            status_hint(err, "did you mean '%s'?", near);
        return MOSAIC_USAGE;
    }
    const char *const text = equals + 1;
    switch (key) {
    case KEY_CERTIFICATE:
        return read_switch(word, text, &s->certificate, err);
    case KEY_SENSITIVITY:
        return read_switch(word, text, &s->sensitivity, err);
    case KEY_TIME:
        return read_time(word, text, &s->time_limit_s, err);
    case KEY_GEOMETRIES:
        return read_count(word, text, &s->geometry_limit, err);
    default:
        s->measured = text;
        return *text ? MOSAIC_OK : refuse(word, text, "FILE, a table of measured steps", err);
    }
}

enum mosaic_status plan_settings_read(const char *const *settings, struct plan_settings *out,
                                      struct status_error *err) {
    *out = (struct plan_settings){.measured = NULL};
    for (size_t i = 0; settings && settings[i]; ++i)
        TRY(put(out, settings[i], err));
    return MOSAIC_OK;
}
