// SPDX-License-Identifier: GPL-3.0-or-later
/* One function a key; the table of models that goes with a table of rows. */
#include "doc/validate_settings.h"

#include "base/suggest.h"
#include "base/units.h"
#include "doc/sections.h"
#include "fit/fit_settings.h"
#include "fit/step_validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>

enum { WORST_INITIAL = 10, WORST_MAX = 1000, TAKES_TEXT = 64, WORD_MAX = 32 };

typedef enum mosaic_status setting_put(struct validate_settings *settings, const char *value,
                                       struct status_error *err);

static enum mosaic_status put_whole(const char *key, const char *text, size_t most, size_t *out,
                                    struct status_error *err) {
    double value;
    char takes[TAKES_TEXT];
    struct status_error unused;
    (void)snprintf(takes, sizeof takes, "a whole number from 0 to %zu", most);
    if (units_parse_number(text, &value, &unused) != MOSAIC_OK ||
        !(value >= 0.0 && value <= (double)most) || fabs(value - floor(value)) > 0.0)
        return fit_settings_refuse(key, text, takes, err);
    *out = (size_t)value;
    return MOSAIC_OK;
}

static enum mosaic_status put_models(struct validate_settings *s, const char *value,
                                     struct status_error *err) {
    if (!*value)
        return fit_settings_refuse("models", value, "a file", err);
    s->models = value;
    return MOSAIC_OK;
}

static enum mosaic_status put_calibration(struct validate_settings *s, const char *value,
                                          struct status_error *err) {
    if (!*value)
        return fit_settings_refuse("calibration", value, "a file, a name of the library or generic",
                                   err);
    s->calibration = value;
    return MOSAIC_OK;
}

static enum mosaic_status put_anchor(struct validate_settings *s, const char *value,
                                     struct status_error *err) {
    return put_whole("anchor", value, VALIDATE_ANCHORS_MAX, &s->anchors, err);
}

static enum mosaic_status put_worst(struct validate_settings *s, const char *value,
                                    struct status_error *err) {
    return put_whole("worst", value, WORST_MAX, &s->worst, err);
}

static enum mosaic_status put_grouping(struct validate_settings *s, const char *word,
                                       struct status_error *err) {
    const char *names[STEP_GROUPING_COUNT];
    for (size_t i = 0; i < STEP_GROUPING_COUNT; ++i) {
        names[i] = step_grouping_name((enum step_grouping)i);
        if (strcmp(word, names[i]) == 0) {
            s->groupings[i] = true;
            return MOSAIC_OK;
        }
    }
    (void)fit_settings_refuse(
        "group_by", word,
        "none, or names of all, kind, slice, gpu, precision, model, source, fabric, gpus, "
        "sequence separated by commas",
        err);
    const char *const near = suggest(word, names, STEP_GROUPING_COUNT);
    if (near)
        status_hint(err, "is it '%s'?", near);
    return MOSAIC_USAGE;
}

static enum mosaic_status put_group_by(struct validate_settings *s, const char *value,
                                       struct status_error *err) {
    memset(s->groupings, 0, sizeof s->groupings);
    if (strcmp(value, "none") == 0)
        return MOSAIC_OK;
    for (const char *at = value;; ++at) {
        char word[WORD_MAX];
        const size_t length = strcspn(at, ",");
        (void)snprintf(word, sizeof word, "%.*s", (int)(length < WORD_MAX ? length : WORD_MAX), at);
        TRY(put_grouping(s, word, err));
        at += length;
        if (!*at)
            return MOSAIC_OK;
    }
}

void validate_settings_init(struct validate_settings *settings) {
    *settings = (struct validate_settings){.worst = WORST_INITIAL};
    for (size_t i = 0; i < STEP_GROUPING_COUNT; ++i)
        settings->groupings[i] = true;
}

enum mosaic_status validate_settings_put(struct validate_settings *settings, const char *pair,
                                         struct status_error *err) {
    static const struct {
        const char *key;
        setting_put *put;
    } keys[] = {{"models", put_models},
                {"calibration", put_calibration},
                {"anchor", put_anchor},
                {"group_by", put_group_by},
                {"worst", put_worst}};
    enum { KEYS = sizeof keys / sizeof *keys };
    const char *names[KEYS];
    char key[WORD_MAX], shown[STATUS_QUOTE_MAX];
    const size_t length = strcspn(pair, "=");
    for (size_t i = 0; i < KEYS; ++i) {
        names[i] = keys[i].key;
        if (pair[length] && strlen(names[i]) == length && strncmp(pair, names[i], length) == 0)
            return keys[i].put(settings, pair + length + 1, err);
    }
    (void)status_set(err, MOSAIC_USAGE, "'%s' is no setting of a validation",
                     status_quote(pair, shown, sizeof shown));
    (void)snprintf(key, sizeof key, "%.*s", (int)(length < WORD_MAX ? length : WORD_MAX), pair);
    const char *const near = suggest(key, names, KEYS);
    if (near)
        status_hint(err, "is it '%s=...'?", near);
    return MOSAIC_USAGE;
}

/* ---- the table of models ---- */

static bool can_read(const char *path) {
    FILE *const file = fopen(path, "r");
    if (file)
        (void)fclose(file);
    return file != NULL;
}

/* Length without this end, or as it is. */
static size_t without(const char *text, size_t length, const char *end) {
    const size_t tail = strlen(end);
    return length > tail && strncmp(text + length - tail, end, tail) == 0 ? length - tail : length;
}

enum mosaic_status validate_models_beside(const char *rows_path, char **models_path,
                                          struct status_error *err) {
    static const char *const ends[] = {"-models.csv", "_models.csv"};
    const size_t whole = without(rows_path, strlen(rows_path), ".csv");
    const size_t stems[] = {whole, without(rows_path, whole, "s"),
                            without(rows_path, whole, "_rows"), without(rows_path, whole, "-rows")};
    const size_t size = strlen(rows_path) + sizeof "-models.csv";
    char *const path = malloc(size);
    if (!path)
        return status_no_memory(err);
    for (size_t i = 0; i < sizeof stems / sizeof *stems; ++i)
        for (size_t k = 0; k < sizeof ends / sizeof *ends; ++k) {
            (void)snprintf(path, size, "%.*s%s", (int)stems[i], rows_path, ends[k]);
            if (can_read(path)) {
                *models_path = path;
                return MOSAIC_OK;
            }
        }
    free(path);
    char shown[STATUS_QUOTE_MAX];
    (void)status_set(err, MOSAIC_USAGE, "no table of models lies beside '%s'",
                     status_quote(rows_path, shown, sizeof shown));
    status_hint(err, "name it: --models FILE");
    return MOSAIC_USAGE;
}

enum mosaic_status validate_generic(void *memory, struct diag_list *diags,
                                    const struct calibration **generic) {
    static const struct document_options none = {.seed = 1};
    struct document *const document = talloc_zero(memory, struct document);
    struct calibration *const calibration = talloc(memory, struct calibration);
    if (!document || !calibration)
        return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
    document->memory = document;
    struct loader l = {.document = document, .memory = document, .diags = diags, .options = &none};
    TRY(doc_calibration_bind(&l, NULL, "calibration", calibration));
    *generic = calibration;
    return MOSAIC_OK;
}
