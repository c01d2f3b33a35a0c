// SPDX-License-Identifier: GPL-3.0-or-later
/* Two calibrations side by side. */
#include "measure/drift.h"

#include "base/suggest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const verdicts[DRIFT_VERDICTS] = {"same", "changed", "missing", "new"};

const char *drift_verdict_name(enum drift_verdict verdict) {
    return verdicts[verdict];
}

/* ---- samples ---- */

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double middle(double *values, size_t count) {
    if (count == 0)
        return 0.0;
    qsort(values, count, sizeof *values, by_value);
    return values[(count - 1) / 2];
}

static double half_range(const struct sample *s) {
    return (s->most_s - s->least_s) / (2.0 * s->median_s);
}

static const struct sample *find(const struct drift_side *side, const struct sample *keys) {
    for (size_t i = 0; i < side->count; ++i)
        if (sample_compare_keys(&side->samples[i], keys) == 0)
            return &side->samples[i];
    return NULL;
}

static void compare_samples(const struct drift_side *was, const struct drift_side *now,
                            enum sample_quantity quantity, double limit, double *scratch,
                            struct drift_samples *out) {
    double *const ratios = scratch, *const spreads = scratch + was->count;
    for (size_t i = 0; i < was->count; ++i) {
        const struct sample *const a = &was->samples[i];
        const struct sample *const b = a->quantity == quantity ? find(now, a) : NULL;
        if (!b)
            continue;
        const double ratio = b->median_s / a->median_s;
        const double spread = fmax(half_range(a), half_range(b));
        out->changed += fabs(ratio - 1.0) > fmax(limit, spread);
        ratios[out->both] = ratio;
        spreads[out->both++] = spread;
    }
    out->ratio = middle(ratios, out->both);
    out->spread = middle(spreads, out->both);
}

/* Which samples an entry stands on, by the beginning of its name; the longest match counts. */
static int quantity_of(const char *name) {
    static const struct {
        const char *begins;
        enum sample_quantity quantity;
    } parts[] = {{"gemm.", SAMPLE_GEMM},
                 {"gemm.sustained", SAMPLE_SUSTAINED},
                 {"head.forward", SAMPLE_GEMM},
                 {"head.backward", SAMPLE_GEMM},
                 {"head.cross", SAMPLE_ELEMENTWISE},
                 {"grouped_gemm.", SAMPLE_GROUPED_GEMM},
                 {"quantise.", SAMPLE_ELEMENTWISE},
                 {"router.", SAMPLE_ELEMENTWISE},
                 {"permute.", SAMPLE_ELEMENTWISE},
                 {"hbm.", SAMPLE_STREAM},
                 {"attention.", SAMPLE_ATTENTION},
                 {"host.", SAMPLE_LAUNCH},
                 {"optimizer.", SAMPLE_ADAMW},
                 {"offload.", SAMPLE_HOST_COPY},
                 {"ring.", SAMPLE_RING_STRIP},
                 {"collective.", SAMPLE_COLLECTIVE},
                 {"exposed.", SAMPLE_OVERLAP},
                 {"overlapped.", SAMPLE_OVERLAP}};
    size_t longest = 0;
    int quantity = -1;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
        const size_t length = strlen(parts[i].begins);
        if (length > longest && strncmp(name, parts[i].begins, length) == 0) {
            longest = length;
            quantity = (int)parts[i].quantity;
        }
    }
    return quantity;
}

/* ---- rows ---- */

struct finder {
    const struct drift_side *was, *now;
    const struct calibrate_settings *settings;
    struct drift *drift;
};

/* The name is set; judges by the values. */
static void add(struct finder *f, struct drift_row *row, int quantity) {
    bool is_own;
    const double tolerance = calibrate_tolerance_of(f->settings, row->name, &is_own);
    row->spread = quantity < 0 ? 0.0 : f->drift->samples[quantity].spread;
    row->limit = is_own ? tolerance : fmax(tolerance, row->spread);
    if (!row->has_now)
        row->verdict = DRIFT_MISSING;
    else if (!row->has_was)
        row->verdict = DRIFT_NEW;
    else
        row->verdict =
            fabs(row->now - row->was) > row->limit * fabs(row->was) ? DRIFT_CHANGED : DRIFT_SAME;
    f->drift->drifted += row->verdict == DRIFT_CHANGED || row->verdict == DRIFT_MISSING;
    f->drift->rows[f->drift->count++] = *row;
}

static void add_scalars(struct finder *f) {
    const struct calibration *const was = f->was->calibration, *const now = f->now->calibration;
    for (int i = 0; i < SCALAR_COUNT; ++i) {
        const struct scalar_info *const info = calibration_scalar_info((enum scalar)i);
        struct drift_row row = {.dimension = info->dimension,
                                .has_was = was->scalar_origin[i] == ORIGIN_CALIBRATED,
                                .has_now = now->scalar_origin[i] == ORIGIN_CALIBRATED,
                                .was = was->scalar[i],
                                .now = now->scalar[i]};
        if (!row.has_was && !row.has_now)
            continue;
        (void)snprintf(row.name, sizeof row.name, "%s", info->key);
        add(f, &row, quantity_of(row.name));
    }
}

/* What a curve says at x: a sample, or the two that x lies between. */
struct bounds {
    double low, high;
};

static bool is_same_place(double a, double b) {
    const double apart = 1e-9; /* of what is written and read again */
    return fabs(a - b) <= apart * fabs(b);
}

/* False outside of what was measured: a curve is flat there, which says nothing of the machine. */
static bool bounds_at(const struct curve *c, double x, struct bounds *out) {
    for (int i = 0; i < c->samples; ++i) {
        const bool is_between = i > 0 && c->x[i - 1] < x && x < c->x[i];
        if (!is_between && !is_same_place(c->x[i], x))
            continue;
        const double other = is_same_place(c->x[i], x) ? c->y[i] : c->y[i - 1];
        *out = (struct bounds){.low = fmin(c->y[i], other), .high = fmax(c->y[i], other)};
        return true;
    }
    return false;
}

/* The nearest values that the two allow: where one has no sample, those beside it bound it. */
static void nearest(const struct bounds *was, const struct bounds *now, double *old, double *new) {
    if (now->low > was->high) {
        *old = was->high;
        *new = now->low;
    } else if (now->high < was->low) {
        *old = was->low;
        *new = now->high;
    } else {
        *old = *new = fmax(was->low, now->low);
    }
}

/* Where the two are furthest apart by ratio, over the samples of both.  False: no place is within
 * what both measured. */
static bool furthest(const struct curve *was, const struct curve *now, struct drift_row *row) {
    const struct curve *const sides[] = {was, now};
    double worst = -1.0;
    for (int side = 0; side < 2; ++side)
        for (int i = 0; i < sides[side]->samples; ++i) {
            const double x = sides[side]->x[i];
            struct bounds a, b;
            double old, new;
            if (!bounds_at(was, x, &a) || !bounds_at(now, x, &b))
                continue;
            nearest(&a, &b, &old, &new);
            const double apart = fabs(new - old) / old;
            if (apart > worst) {
                worst = apart;
                row->at = x;
                row->was = old;
                row->now = new;
            }
        }
    return worst >= 0.0;
}

static void add_curve(struct finder *f, struct drift_row *row, const struct curve *was,
                      const struct curve *now, int quantity) {
    row->has_was = was != NULL;
    row->has_now = now != NULL;
    if (was && now) {
        row->has_at = furthest(was, now, row);
        row->has_now = row->has_at; /* nothing of it was measured again */
    }
    add(f, row, quantity);
}

static void add_curves(struct finder *f) {
    const struct calibration *const was = f->was->calibration, *const now = f->now->calibration;
    for (int i = 0; i < CURVE_QUANTITIES; ++i) {
        const struct curve_info *const info = calibration_curve_info((enum curve_quantity)i);
        struct drift_row row = {.dimension = info->dimension};
        if (!was->has_curve[i] && !now->has_curve[i])
            continue;
        (void)snprintf(row.name, sizeof row.name, "%s", info->key);
        add_curve(f, &row, was->has_curve[i] ? &was->curve[i] : NULL,
                  now->has_curve[i] ? &now->curve[i] : NULL, quantity_of(row.name));
    }
}

static const struct curve *bus_of(const struct calibration *c,
                                  const struct collective_curve *like) {
    for (int i = 0; i < c->collective_count; ++i)
        if (c->collective[i].kind == like->kind && c->collective[i].ranks == like->ranks &&
            c->collective[i].ranks_per_domain == like->ranks_per_domain)
            return &c->collective[i].bus;
    return NULL;
}

static void add_collective(struct finder *f, const struct collective_curve *c) {
    struct drift_row row = {.dimension = DIM_BYTES_PER_S};
    (void)snprintf(row.name, sizeof row.name, "%s over %d ranks, %d in a domain",
                   collective_name(c->kind), c->ranks, c->ranks_per_domain);
    add_curve(f, &row, bus_of(f->was->calibration, c), bus_of(f->now->calibration, c),
              SAMPLE_COLLECTIVE);
}

static void add_collectives(struct finder *f) {
    const struct calibration *const was = f->was->calibration, *const now = f->now->calibration;
    for (int i = 0; i < was->collective_count; ++i)
        add_collective(f, &was->collective[i]);
    for (int i = 0; i < now->collective_count; ++i)
        if (!bus_of(was, &now->collective[i]))
            add_collective(f, &now->collective[i]);
}

/* ---- tolerances ---- */

static bool is_key(const struct calibrate_tolerance *t, const char *name) {
    return strlen(name) == t->length && strncmp(t->key, name, t->length) == 0;
}

/* Passes over `text`, then over digits; NULL where they are not there. */
static const char *past(const char *at, const char *text) {
    const size_t length = strlen(text);
    if (!at || strncmp(at, text, length) != 0)
        return NULL;
    const size_t digits = strspn(at + length, "0123456789");
    return digits > 0 ? at + length + digits : NULL;
}

/* "all_reduce over 16 ranks, 8 in a domain": any numbers. */
static bool is_collective(const struct calibrate_tolerance *t) {
    static const char tail[] = " in a domain";
    for (int i = 0; i < COLLECTIVE_KINDS; ++i) {
        const char *const name = collective_name((enum collective_kind)i);
        const size_t length = strlen(name);
        if (strncmp(t->key, name, length) != 0)
            continue;
        const char *const at = past(past(t->key + length, " over "), " ranks, ");
        if (at && strncmp(at, tail, sizeof tail - 1) == 0 &&
            (size_t)(at - t->key) + sizeof tail - 1 == t->length)
            return true;
    }
    return false;
}

/* An entry that either has, or that a calibration may have. */
static bool is_known(const struct drift *drift, const struct calibrate_tolerance *t) {
    for (size_t i = 0; i < drift->count; ++i)
        if (is_key(t, drift->rows[i].name))
            return true;
    for (int i = 0; i < SCALAR_COUNT; ++i)
        if (is_key(t, calibration_scalar_info((enum scalar)i)->key))
            return true;
    for (int i = 0; i < CURVE_QUANTITIES; ++i)
        if (is_key(t, calibration_curve_info((enum curve_quantity)i)->key))
            return true;
    return is_collective(t);
}

static const char *row_name_at(const void *context, size_t i) {
    return ((const struct drift *)context)->rows[i].name;
}

/* A gate whose key is misspelt would not be the one that was meant. */
static enum mosaic_status check_tolerances(const struct drift *drift,
                                           const struct calibrate_settings *settings,
                                           struct status_error *err) {
    for (size_t i = 0; i < settings->tolerance_count; ++i) {
        const struct calibrate_tolerance *const t = &settings->tolerances[i];
        char key[STATUS_QUOTE_MAX], shown[STATUS_QUOTE_MAX];
        if (is_known(drift, t))
            continue;
        (void)snprintf(key, sizeof key, "%.*s", (int)t->length, t->key);
        const char *const near = suggest_from(key, row_name_at, drift, drift->count);
        (void)status_set(err, MOSAIC_USAGE, "a tolerance of '%s', which is no entry",
                         status_quote(key, shown, sizeof shown));
        if (near)
            status_hint(err, "did you mean '%s'?", near);
        return MOSAIC_USAGE;
    }
    return MOSAIC_OK;
}

enum mosaic_status drift_find(const struct drift_side *was, const struct drift_side *now,
                              const struct calibrate_settings *settings, struct drift *out,
                              struct status_error *err) {
    enum { ROWS = SCALAR_COUNT + CURVE_QUANTITIES + 2 * CALIBRATION_MAX_COLLECTIVES };
    struct drift drift = {.rows = calloc(ROWS, sizeof *drift.rows)};
    double *const scratch = calloc(2 * was->count + 1, sizeof *scratch);
    struct finder f = {was, now, settings, &drift};
    if (!drift.rows || !scratch) {
        free(drift.rows);
        free(scratch);
        return status_no_memory(err);
    }
    for (int q = 0; q < SAMPLE_QUANTITIES; ++q)
        compare_samples(was, now, (enum sample_quantity)q, settings->tolerance, scratch,
                        &drift.samples[q]);
    add_scalars(&f);
    add_curves(&f);
    add_collectives(&f);
    free(scratch);
    const enum mosaic_status status = check_tolerances(&drift, settings, err);
    if (status == MOSAIC_OK)
        *out = drift;
    else
        drift_free(&drift);
    return status;
}

void drift_free(struct drift *drift) {
    free(drift->rows);
    *drift = (struct drift){.count = 0};
}
