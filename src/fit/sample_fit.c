// SPDX-License-Identifier: GPL-3.0-or-later
/* The samples in order, the parts one after the other, and what feeds nothing. */
#include "fit/sample_fit_parts.h"

#include "base/units.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const enum precision every_precision[] = {PRECISION_BF16, PRECISION_FP8, PRECISION_MXFP8,
                                                 PRECISION_NVFP4};

const char *sample_note_name(enum sample_note_kind kind) {
    static const char *const names[] = {"outlier", "range", "extrapolated",
                                        "falling", "link",  "left_out"};
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "unknown";
}

void sample_facts_of(const struct cluster *cluster, const struct calibration *base,
                     struct sample_facts *out) {
    *out = (struct sample_facts){.hbm_bytes_per_s = cluster->device.hbm_bytes_per_s,
                                 .host_link_bytes_per_s = cluster->host_link_bytes_per_s,
                                 .base_dtype = precision_name(PRECISION_BF16),
                                 .cluster = cluster,
                                 .base = base};
    (void)snprintf(out->device, sizeof out->device, "%s", cluster->device.name);
    for (size_t i = 0; i < sizeof every_precision / sizeof *every_precision; i++)
        out->peak_flop_per_s[every_precision[i]] =
            cluster->device.peak_flop_per_s[every_precision[i]];
}

double sample_number_bytes(const struct sample_facts *facts) {
    static const struct {
        const char *dtype;
        double bytes;
    } wide[] = {{"fp32", 4.0}, {"tf32", 4.0}, {"fp64", 8.0}};
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (strcmp(facts->base_dtype, wide[i].dtype) == 0)
            return wide[i].bytes;
    return 2.0;
}

/* ---- rows ---- */

size_t fitting_pick(struct fitting *f, fitting_takes *takes, long long argument) {
    f->picked = 0;
    for (size_t i = 0; i < f->count; i++)
        if (takes(f, &f->sample[i], argument))
            f->pick[f->picked++] = i;
    return f->picked;
}

double fitting_most(const struct fitting *f, const char *key) {
    double most = 0.0;
    for (size_t i = 0; i < f->picked; i++)
        most = fmax(most, (double)sample_value(&f->sample[f->pick[i]], key));
    return most;
}

double fitting_breadth(const struct fitting *f, const char *key) {
    double least = (double)INFINITY;
    for (size_t i = 0; i < f->picked; i++)
        least = fmin(least, (double)sample_value(&f->sample[f->pick[i]], key));
    return fitting_most(f, key) / least;
}

const struct sample *fitting_find(const struct fitting *f, const struct sample *keys) {
    size_t from = 0, to = f->count;
    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        const int order = sample_compare_keys(&f->sample[middle], keys);
        if (order == 0)
            return &f->sample[middle];
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return NULL;
}

const struct sample *fitting_partner(const struct fitting *f, const struct sample *s,
                                     const char *key, long long value) {
    struct sample keys = *s;
    keys.value[sample_key_index(s->quantity, key)] = value;
    return fitting_find(f, &keys);
}

long long fitting_word(enum sample_quantity quantity, const char *key, const char *word) {
    const int at = sample_key_index(quantity, key);
    const char *const *const words = sample_kind(quantity)->keys[at].words;
    long long i = 0;
    while (words[i] && strcmp(words[i], word) != 0)
        i++;
    return words[i] ? i : -1;
}

/* ---- entries and notes ---- */

void fitting_note(struct fitting *f, enum sample_note_kind kind, const char *format, ...) {
    if (f->fit->note_count == SAMPLE_FIT_NOTES) {
        f->fit->notes_dropped++;
        return;
    }
    struct sample_note *const note = &f->fit->note[f->fit->note_count++];
    note->kind = kind;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(note->text, sizeof note->text, format, args);
    va_end(args);
}

double fitting_rounded(double value) {
    char text[UNITS_TEXT_MAX];
    (void)snprintf(text, sizeof text, "%.6g", value);
    return strtod(text, NULL);
}

double fitting_scalar_now(const struct fitting *f, enum scalar id) {
    return f->fit->calibration.scalar[id];
}

double fitting_hbm(const struct fitting *f) {
    return f->facts->hbm_bytes_per_s > 0.0
               ? f->facts->hbm_bytes_per_s * fitting_scalar_now(f, CAL_HBM_SHARE)
               : (double)INFINITY;
}

static void append(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void append(char *text, const char *format, ...) {
    const size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text + used, SAMPLE_FIT_TEXT - used, format, args);
    va_end(args);
}

/* " forward, backward_data": the words of a key that the rows picked have. */
static void put_words(const struct fitting *f, int key, const char *const *words, char *text) {
    bool is_first = true;
    for (long long w = 0; words[w]; w++) {
        size_t i = 0;
        while (i < f->picked && f->sample[f->pick[i]].value[key] != w)
            i++;
        if (i == f->picked)
            continue;
        append(text, "%s %s", is_first ? "" : ",", words[w]);
        is_first = false;
    }
}

static void put_numbers(const struct fitting *f, int key, char *text) {
    long long least = f->sample[f->pick[0]].value[key], most = least;
    for (size_t i = 1; i < f->picked; i++) {
        const long long value = f->sample[f->pick[i]].value[key];
        least = value < least ? value : least;
        most = value > most ? value : most;
    }
    append(text, " %lld", least);
    if (least < most)
        append(text, " to %lld", most);
}

/* "dtype bf16; pass forward, backward_data; m 256 to 16384" of the rows picked. */
static void put_range(const struct fitting *f, char *text) {
    const struct sample_kind *const kind = sample_kind(f->sample[f->pick[0]].quantity);
    text[0] = '\0';
    for (int k = 0; k < kind->key_count; k++) {
        append(text, "%s%s", k ? "; " : "", kind->keys[k].name);
        if (kind->keys[k].words)
            put_words(f, k, kind->keys[k].words, text);
        else
            put_numbers(f, k, text);
    }
}

struct sample_entry *fitting_entry(struct fitting *f, enum sample_entry_kind kind, int id,
                                   const struct fitting_outcome *outcome) {
    if (f->fit->entry_count == SAMPLE_FIT_ENTRIES)
        return NULL;
    struct sample_entry *const entry = &f->fit->entry[f->fit->entry_count++];
    *entry = (struct sample_entry){.kind = kind,
                                   .id = id,
                                   .quantity = f->sample[f->pick[0]].quantity,
                                   .samples = f->picked,
                                   .outliers = outcome->outliers,
                                   .spread = outcome->spread};
    put_range(f, entry->range);
    for (size_t i = 0; i < f->picked; i++)
        f->is_used[f->pick[i]] = true;
    return entry;
}

struct sample_entry *fitting_scalar(struct fitting *f, enum scalar id, double value,
                                    const struct fitting_outcome *outcome) {
    const struct scalar_info *const info = calibration_scalar_info(id);
    value = fitting_rounded(value);
    if (!(value >= info->min && value <= info->max)) {
        char low[UNITS_TEXT_MAX], high[UNITS_TEXT_MAX], is[UNITS_TEXT_MAX];
        units_format(info->min, info->dimension, low, sizeof low);
        units_format(info->max, info->dimension, high, sizeof high);
        units_format(value, info->dimension, is, sizeof is);
        for (size_t i = 0; i < f->picked; i++)
            f->is_used[f->pick[i]] = true;
        fitting_note(f, SAMPLE_NOTE_RANGE, "%s comes out at %s, not within %s to %s: left out%s",
                     info->key, is, low, high,
                     info->dimension == DIM_FRACTION
                         ? "; is the data sheet that it is a share of the device's?"
                         : "");
        return NULL;
    }
    struct sample_entry *const entry = fitting_entry(f, SAMPLE_ENTRY_SCALAR, (int)id, outcome);
    if (!entry)
        return NULL;
    entry->value = value;
    f->fit->calibration.scalar[id] = value;
    f->fit->calibration.scalar_origin[id] = ORIGIN_CALIBRATED;
    return entry;
}

void fitting_stands_on(struct sample_entry *entry, enum scalar id) {
    if (entry && entry->stands_on_count < SAMPLE_FIT_STANDS_ON)
        entry->stands_on[entry->stands_on_count++] = id;
}

int sample_entry_name(const struct sample_fit *fit, const struct sample_entry *entry, char *text,
                      size_t size) {
    switch (entry->kind) {
    case SAMPLE_ENTRY_SCALAR:
        return snprintf(text, size, "%s", calibration_scalar_info((enum scalar)entry->id)->key);
    case SAMPLE_ENTRY_CURVE:
        return snprintf(text, size, "%s",
                        calibration_curve_info((enum curve_quantity)entry->id)->key);
    case SAMPLE_ENTRY_COLLECTIVE:
        break;
    }
    const struct collective_curve *const c = &fit->calibration.collective[entry->id];
    return snprintf(text, size, "%s over %d ranks, %d in a domain", collective_name(c->kind),
                    c->ranks, c->ranks_per_domain);
}

/* ---- the whole ---- */

static int compare(const void *a, const void *b) {
    const struct sample *const one = a, *const other = b;
    const int order = sample_compare_keys(one, other);
    if (order != 0)
        return order;
    return one->median_s < other->median_s ? -1 : one->median_s > other->median_s;
}

/* What the facts lack for a quantity, as a clause; "" where it is none of them. */
static const char *lack_of(const struct sample_facts *facts, enum sample_quantity q) {
    const bool needs_peak = q == SAMPLE_GEMM || q == SAMPLE_GROUPED_GEMM ||
                            q == SAMPLE_RING_STRIP || q == SAMPLE_MOE_LAYER;
    const bool needs_memory =
        q == SAMPLE_STREAM || q == SAMPLE_ELEMENTWISE || q == SAMPLE_ADAMW || q == SAMPLE_MOE_LAYER;
    if (needs_peak && !(facts->peak_flop_per_s[PRECISION_BF16] > 0.0))
        return ": the device's peak is not known";
    if (needs_memory && !(facts->hbm_bytes_per_s > 0.0))
        return ": the memory's bandwidth is not known";
    if (q == SAMPLE_HOST_COPY && !(facts->host_link_bytes_per_s > 0.0))
        return ": the host link's bandwidth is not known";
    return "";
}

/* One note a quantity. */
static void note_unused(struct fitting *f) {
    for (int q = 0; q < SAMPLE_QUANTITIES; q++) {
        size_t unused = 0, first = 0, checked = 0, of_it = 0;
        char name[SAMPLE_FIT_TEXT / 2];
        for (size_t i = f->count; i-- > 0;) {
            if (f->sample[i].quantity != (enum sample_quantity)q)
                continue;
            of_it++;
            checked += f->sample[i].is_verified;
            if (!f->is_used[i] && !f->is_checked[i]) {
                unused++;
                first = i;
            }
        }
        if (unused > 0) {
            (void)sample_print_name(&f->sample[first], name, sizeof name);
            fitting_note(f, SAMPLE_NOTE_LEFT_OUT, "%zu %s sample%s feed%s no entry%s, first %s",
                         unused, sample_kind((enum sample_quantity)q)->name, unused > 1 ? "s" : "",
                         unused > 1 ? "" : "s", lack_of(f->facts, (enum sample_quantity)q), name);
        }
        if (checked < of_it && q != SAMPLE_LAUNCH)
            fitting_note(f, SAMPLE_NOTE_LEFT_OUT,
                         "the data of %zu of %zu %s samples was not verified", of_it - checked,
                         of_it, sample_kind((enum sample_quantity)q)->name);
    }
}

static enum mosaic_status run_parts(struct fitting *f, struct status_error *err) {
    TRY(fitting_memory(f, err));
    TRY(fitting_gemm(f, err));
    TRY(fitting_attention(f, err));
    TRY(fitting_operators(f, err));
    TRY(fitting_host(f, err));
    TRY(fitting_link_shares(f, err));
    TRY(fitting_collectives(f, err));
    TRY(fitting_checks(f, err));
    note_unused(f);
    for (size_t i = 0; i < f->count; i++)
        f->fit->used += f->is_used[i];
    return MOSAIC_OK;
}

enum mosaic_status sample_fit_run(const struct sample *samples, size_t count,
                                  const struct sample_facts *facts, struct sample_fit **out,
                                  struct status_error *err) {
    const size_t room = count > 0 ? count : 1;
    struct sample *const sorted = malloc(room * sizeof *sorted);
    bool *const flags = calloc(room, 3 * sizeof *flags);
    size_t *const pick = malloc(room * sizeof *pick);
    struct sample_fit *const fit = calloc(1, sizeof *fit);
    enum mosaic_status status = MOSAIC_OK;
    if (!sorted || !flags || !pick || !fit) {
        status = status_no_memory(err);
    } else {
        if (count > 0)
            memcpy(sorted, samples, count * sizeof *sorted);
        qsort(sorted, count, sizeof *sorted, compare);
        fit->calibration = *facts->base;
        for (int i = 0; i < SCALAR_COUNT; i++)
            fit->calibration.scalar_origin[i] = ORIGIN_GENERIC;
        memset(fit->calibration.has_curve, 0, sizeof fit->calibration.has_curve);
        fit->calibration.collective_count = 0;
        (void)snprintf(fit->calibration.device, sizeof fit->calibration.device, "%s",
                       facts->device);
        fit->samples = count;
        struct fitting f = {.sample = sorted,
                            .count = count,
                            .facts = facts,
                            .fit = fit,
                            .is_used = flags,
                            .is_outlier = flags + room,
                            .is_checked = flags + 2 * room,
                            .pick = pick};
        status = run_parts(&f, err);
    }
    free(sorted);
    free(flags);
    free(pick);
    if (status == MOSAIC_OK)
        *out = fit;
    else
        free(fit);
    return status;
}

void sample_fit_free(struct sample_fit *fit) {
    free(fit);
}

enum mosaic_status sample_fit_put(struct sample_fit *fit, enum scalar id, double value,
                                  const char *method, const char *range, struct status_error *err) {
    const struct scalar_info *const info = calibration_scalar_info(id);
    const double rounded = fitting_rounded(value);
    if (!(rounded >= info->min && rounded <= info->max) || fit->entry_count == SAMPLE_FIT_ENTRIES)
        return status_set(err, MOSAIC_BAD_INPUT, "%s comes out at %g, not within %g to %g",
                          info->key, rounded, info->min, info->max);
    struct sample_entry *const entry = &fit->entry[fit->entry_count++];
    *entry = (struct sample_entry){.kind = SAMPLE_ENTRY_SCALAR,
                                   .id = (int)id,
                                   .quantity = SAMPLE_QUANTITIES,
                                   .value = rounded};
    (void)snprintf(entry->method, sizeof entry->method, "%s", method);
    (void)snprintf(entry->range, sizeof entry->range, "%s", range);
    fit->calibration.scalar[id] = rounded;
    fit->calibration.scalar_origin[id] = ORIGIN_CALIBRATED;
    return MOSAIC_OK;
}
