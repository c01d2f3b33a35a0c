// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Dense and grouped GEMMs, and what a long loop leaves of a burst.  Operands count as in
 * step/kernel.c, two bytes an element whatever the dtype, and as many as the base dtype has where
 * that is none of 16 bits; a sample of a gradient is one product.
 */
#include "fit/sample_fit_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double start_share = 0.6, start_half = 50.0, start_rows = 100.0;
static const double negligible_size = 1e-3; /* of a side, or rows */
/* A half size shows where sides differ, an exponent only over many octaves of rows. */
static const double least_breadth = 4.0, exponent_breadth = 32.0;
static const size_t least_rows = 4, exponent_rows = 6;
static const double far_sides = 8.0; /* half sizes of a side that a large GEMM has */

static const char *dtype_name(const struct sample *s) {
    return sample_kind(s->quantity)->keys[0].words[s->value[0]];
}

/* Scalar of a dtype's share and the precision whose peak it is a share of. */
struct rate {
    enum precision precision;
    enum scalar share;
    bool is_block;
};

static bool rate_of(const struct fitting *f, const char *dtype, struct rate *out) {
    static const struct {
        const char *name;
        struct rate rate;
    } table[] = {{"fp8", {PRECISION_FP8, CAL_GEMM_SHARE_FP8, false}},
                 {"fp8_block", {PRECISION_FP8, CAL_GEMM_SHARE_FP8, true}},
                 {"mxfp8", {PRECISION_MXFP8, CAL_GEMM_SHARE_MXFP8, false}},
                 {"nvfp4", {PRECISION_NVFP4, CAL_GEMM_SHARE_NVFP4, false}}};
    *out = (struct rate){PRECISION_BF16, CAL_GEMM_SHARE_BF16, false};
    if (strcmp(dtype, f->facts->base_dtype) == 0)
        return f->facts->peak_flop_per_s[PRECISION_BF16] > 0.0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, dtype) == 0) {
            *out = table[i].rate;
            return f->facts->peak_flop_per_s[out->precision] > 0.0;
        }
    return false;
}

static double side(const struct sample *s, const char *key) {
    return (double)sample_value(s, key);
}

static double peak_of(const struct fitting *f, const struct sample *s) {
    struct rate rate;
    return rate_of(f, dtype_name(s), &rate) ? f->facts->peak_flop_per_s[rate.precision] : 0.0;
}

/* The pass over the input that a time holds besides, by the base's bytes; 0: it does not. */
static double quantise_seconds(const struct fitting *f, const struct sample *s) {
    struct rate rate;
    if (!f->facts->gemm_quantises || !rate_of(f, dtype_name(s), &rate) ||
        rate.precision == PRECISION_BF16)
        return 0.0;
    return fitting_scalar_now(f, rate.is_block ? CAL_QUANTISE_BLOCK_BYTES : CAL_QUANTISE_BYTES) *
           side(s, "m") * side(s, "k") / fitting_hbm(f);
}

static double gemm_seconds(const struct fitting *f, const struct sample *s, double share,
                           double half) {
    const double m = side(s, "m"), n = side(s, "n"), k = side(s, "k");
    return 2.0 * m * n * k / (share * peak_of(f, s)) * (1.0 + half / m) * (1.0 + half / n) *
               (1.0 + half / k) +
           sample_number_bytes(f->facts) * (m * k + k * n + m * n) / fitting_hbm(f) +
           quantise_seconds(f, s);
}

static double share_and_half(const struct fitting *f, const struct sample *s, const double *p) {
    return gemm_seconds(f, s, p[0], p[1]);
}

static double share_alone(const struct fitting *f, const struct sample *s, const double *p) {
    return gemm_seconds(f, s, p[0], fitting_scalar_now(f, CAL_GEMM_HALF_SIZE));
}

static double block_alone(const struct fitting *f, const struct sample *s, const double *p) {
    return gemm_seconds(f, s, p[0] * fitting_scalar_now(f, CAL_GEMM_SHARE_FP8),
                        fitting_scalar_now(f, CAL_GEMM_HALF_SIZE));
}

/* ---- dense ---- */

/* What a fit drives towards 0 is none. */
static double size_or_none(double value) {
    return value < negligible_size ? 0.0 : value;
}

static bool takes_gemm(const struct fitting *f, const struct sample *s, long long dtype) {
    (void)f;
    return s->quantity == SAMPLE_GEMM && s->value[0] == dtype;
}

static double smallest_side(const struct sample *s) {
    return fmin(side(s, "m"), fmin(side(s, "n"), side(s, "k")));
}

/* Smallest sides of the rows picked, the least and the most. */
static void sides(const struct fitting *f, double *least, double *most) {
    *least = (double)INFINITY;
    *most = 0.0;
    for (size_t i = 0; i < f->picked; i++) {
        const double at = smallest_side(&f->sample[f->pick[i]]);
        *least = fmin(*least, at);
        *most = fmax(*most, at);
    }
}

static void note_small(struct fitting *f, struct sample_entry *entry, double most, double half) {
    if (!entry || most >= far_sides * half)
        return;
    entry->is_extrapolated = true;
    fitting_note(f, SAMPLE_NOTE_EXTRAPOLATED,
                 "%s: the largest GEMM has a side of %.0f, half size %.0f: the rate of large ones "
                 "is extrapolated",
                 calibration_scalar_info((enum scalar)entry->id)->key, most, half);
}

/* Whether a calibration may hold it. */
static bool is_taken(enum scalar id, double value) {
    const struct scalar_info *const info = calibration_scalar_info(id);
    return value >= info->min && value <= info->max;
}

static enum mosaic_status fit_base(struct fitting *f, struct status_error *err) {
    const long long dtype = fitting_word(SAMPLE_GEMM, "dtype", f->facts->base_dtype);
    if (!(f->facts->peak_flop_per_s[PRECISION_BF16] > 0.0) ||
        fitting_pick(f, takes_gemm, dtype) == 0)
        return MOSAIC_OK;
    double least, most;
    sides(f, &least, &most);
    /* Where the least side has many half sizes, what it does is what clocks and caches do. */
    bool has_half =
        f->picked >= least_rows && most >= least_breadth * least && least <= far_sides * start_half;
    struct fitting_outcome o = {.p = {start_share, start_half}};
    TRY(fitting_solve(f, has_half ? share_and_half : share_alone, has_half ? 2 : 1, &o, err));
    if (has_half && !is_taken(CAL_GEMM_SHARE_BF16, o.p[0])) { /* the two trade off: one alone */
        has_half = false;
        o = (struct fitting_outcome){.p = {start_share}};
        TRY(fitting_solve(f, share_alone, 1, &o, err));
    }
    struct sample_entry *const share = fitting_scalar(f, CAL_GEMM_SHARE_BF16, o.p[0], &o);
    fitting_stands_on(share, CAL_HBM_SHARE);
    if (share)
        (void)snprintf(share->method, sizeof share->method,
                       "share of %.4g TFLOP/s in t = 2 m n k / (share peak) (1 + h/m)(1 + h/n)"
                       "(1 + h/k) + operands over the streaming rate",
                       f->facts->peak_flop_per_s[PRECISION_BF16] / 1e12);
    if (!has_half) {
        fitting_stands_on(share, CAL_GEMM_HALF_SIZE);
        return MOSAIC_OK;
    }
    struct sample_entry *const half =
        fitting_scalar(f, CAL_GEMM_HALF_SIZE, size_or_none(o.p[1]), &o);
    fitting_stands_on(half, CAL_HBM_SHARE);
    if (half)
        (void)snprintf(half->method, sizeof half->method, "h of the same fit");
    note_small(f, share, most, o.p[1]);
    return MOSAIC_OK;
}

static enum mosaic_status fit_dtype(struct fitting *f, const char *dtype,
                                    struct status_error *err) {
    struct rate rate;
    if (strcmp(dtype, f->facts->base_dtype) == 0 || !rate_of(f, dtype, &rate) ||
        fitting_pick(f, takes_gemm, fitting_word(SAMPLE_GEMM, "dtype", dtype)) == 0)
        return MOSAIC_OK;
    struct fitting_outcome o = {.p = {rate.is_block ? 1.0 : start_share}};
    TRY(fitting_solve(f, rate.is_block ? block_alone : share_alone, 1, &o, err));
    struct sample_entry *const entry =
        fitting_scalar(f, rate.is_block ? CAL_GEMM_BLOCK_FACTOR : rate.share, o.p[0], &o);
    fitting_stands_on(entry, CAL_HBM_SHARE);
    fitting_stands_on(entry, CAL_GEMM_HALF_SIZE);
    if (rate.is_block)
        fitting_stands_on(entry, CAL_GEMM_SHARE_FP8);
    if (f->facts->gemm_quantises)
        fitting_stands_on(entry, rate.is_block ? CAL_QUANTISE_BLOCK_BYTES : CAL_QUANTISE_BYTES);
    if (entry)
        (void)snprintf(entry->method, sizeof entry->method,
                       "%s of %.4g TFLOP/s, same form as bf16%s",
                       rate.is_block ? "factor over the fp8 share" : "share",
                       f->facts->peak_flop_per_s[rate.precision] / 1e12,
                       f->facts->gemm_quantises ? " + quantisation of the input" : "");
    return MOSAIC_OK;
}

/* ---- grouped ---- */

/* The dense rate that a grouped GEMM's is a share of. */
static double dense_rate(const struct fitting *f, const struct sample *s) {
    struct rate rate;
    if (!rate_of(f, dtype_name(s), &rate))
        return 0.0;
    const double factor = rate.is_block ? fitting_scalar_now(f, CAL_GEMM_BLOCK_FACTOR) : 1.0;
    return factor * fitting_scalar_now(f, rate.share) * f->facts->peak_flop_per_s[rate.precision];
}

static double grouped_seconds(const struct fitting *f, const struct sample *s, double share,
                              double half, double exponent) {
    const double e = side(s, "experts"), r = side(s, "rows"), n = side(s, "n"), k = side(s, "k");
    return 2.0 * e * r * n * k / (share * dense_rate(f, s)) * pow(1.0 + half / r, exponent) +
           sample_number_bytes(f->facts) * (e * n * k + e * r * (n + k)) / fitting_hbm(f);
}

static double grouped_of_3(const struct fitting *f, const struct sample *s, const double *p) {
    return grouped_seconds(f, s, p[0], p[1], p[2]);
}

static double grouped_of_2(const struct fitting *f, const struct sample *s, const double *p) {
    return grouped_seconds(f, s, p[0], p[1], fitting_scalar_now(f, CAL_GROUPED_EXPONENT));
}

static double grouped_of_1(const struct fitting *f, const struct sample *s, const double *p) {
    return grouped_seconds(f, s, p[0], fitting_scalar_now(f, CAL_GROUPED_HALF_ROWS),
                           fitting_scalar_now(f, CAL_GROUPED_EXPONENT));
}

/* Of the dtype with most samples: one share holds for all. */
static bool takes_grouped(const struct fitting *f, const struct sample *s, long long dtype) {
    return s->quantity == SAMPLE_GROUPED_GEMM && s->value[0] == dtype && dense_rate(f, s) > 0.0;
}

static size_t distinct(const struct fitting *f, const char *key) {
    size_t count = 0;
    for (size_t i = 0; i < f->picked; i++) {
        size_t k = 0;
        while (k < i && sample_value(&f->sample[f->pick[k]], key) !=
                            sample_value(&f->sample[f->pick[i]], key))
            k++;
        count += k == i;
    }
    return count;
}

static size_t pick_grouped(struct fitting *f) {
    const char *const *const words = sample_kind(SAMPLE_GROUPED_GEMM)->keys[0].words;
    long long best = fitting_word(SAMPLE_GROUPED_GEMM, "dtype", f->facts->base_dtype);
    size_t most = fitting_pick(f, takes_grouped, best);
    for (long long i = 0; most == 0 && words[i]; i++)
        if (fitting_pick(f, takes_grouped, i) > most) {
            most = f->picked;
            best = i;
        }
    return fitting_pick(f, takes_grouped, best);
}

static void stand_grouped(const struct fitting *f, struct sample_entry *entry) {
    struct rate rate;
    if (entry && rate_of(f, dtype_name(&f->sample[f->pick[0]]), &rate)) {
        fitting_stands_on(entry, CAL_HBM_SHARE);
        fitting_stands_on(entry, rate.share);
        if (rate.is_block)
            fitting_stands_on(entry, CAL_GEMM_BLOCK_FACTOR);
    }
}

/* Share, half rows and exponent trade off where the rows do not tell them apart. */
static bool is_grouped(const double *p, size_t parameters) {
    static const enum scalar id[] = {CAL_GROUPED_SHARE, CAL_GROUPED_HALF_ROWS,
                                     CAL_GROUPED_EXPONENT};
    for (size_t i = 0; i < parameters; i++)
        if (!is_taken(id[i], i == 1 ? size_or_none(p[i]) : p[i]))
            return false;
    return true;
}

static enum mosaic_status fit_grouped(struct fitting *f, struct status_error *err) {
    if (pick_grouped(f) == 0)
        return MOSAIC_OK;
    static fitting_seconds *const forms[] = {NULL, grouped_of_1, grouped_of_2, grouped_of_3};
    const double breadth = fitting_breadth(f, "rows"), most = fitting_most(f, "rows");
    const size_t rows = distinct(f, "rows");
    size_t parameters = rows >= exponent_rows && breadth >= exponent_breadth ? 3
                        : rows >= 3 && breadth >= least_breadth              ? 2
                                                                             : 1;
    struct fitting_outcome o = {.p = {1.0, start_rows, 1.0}};
    TRY(fitting_solve(f, forms[parameters], parameters, &o, err));
    while (parameters > 1 && !is_grouped(o.p, parameters)) { /* one less */
        parameters--;
        o = (struct fitting_outcome){.p = {1.0, start_rows, 1.0}};
        TRY(fitting_solve(f, forms[parameters], parameters, &o, err));
    }
    struct sample_entry *const share = fitting_scalar(f, CAL_GROUPED_SHARE, o.p[0], &o);
    stand_grouped(f, share);
    if (share)
        (void)snprintf(share->method, sizeof share->method,
                       "share of the dense rate in t = FLOPs / rate (1 + h/rows)^x + weights and "
                       "rows over the streaming rate");
    if (parameters >= 2) {
        struct sample_entry *const half =
            fitting_scalar(f, CAL_GROUPED_HALF_ROWS, size_or_none(o.p[1]), &o);
        stand_grouped(f, half);
        if (half)
            (void)snprintf(half->method, sizeof half->method, "h of the same fit");
        if (share && most < far_sides * o.p[1]) {
            share->is_extrapolated = true;
            fitting_note(f, SAMPLE_NOTE_EXTRAPOLATED,
                         "grouped_gemm.share: at most %.0f rows an expert, half rows %.0f: the "
                         "rate of many rows is extrapolated",
                         most, o.p[1]);
        }
    }
    if (parameters == 3) {
        struct sample_entry *const exponent = fitting_scalar(f, CAL_GROUPED_EXPONENT, o.p[2], &o);
        stand_grouped(f, exponent);
        if (exponent)
            (void)snprintf(exponent->method, sizeof exponent->method, "x of the same fit");
    }
    return MOSAIC_OK;
}

/* ---- sustained ---- */

static const struct sample *burst_of(const struct fitting *f, const struct sample *s,
                                     struct sample *keys) {
    *keys = (struct sample){.quantity = SAMPLE_GEMM};
    keys->value[0] = s->value[0];
    keys->value[1] = fitting_word(SAMPLE_GEMM, "pass", "forward");
    for (int i = 1; i <= 3; i++)
        keys->value[i + 1] = s->value[i]; /* m, n, k */
    return fitting_find(f, keys);
}

/* The same product in a burst: measured, or by the fitted rate. */
static double burst_seconds(const struct fitting *f, const struct sample *s) {
    struct sample burst;
    const struct sample *const measured = burst_of(f, s, &burst);
    if (measured)
        return measured->median_s;
    struct rate rate;
    if (!rate_of(f, dtype_name(s), &rate))
        return 0.0;
    return gemm_seconds(f, &burst, dense_rate(f, &burst) / peak_of(f, &burst),
                        fitting_scalar_now(f, CAL_GEMM_HALF_SIZE));
}

static bool takes_sustained(const struct fitting *f, const struct sample *s, long long ignored) {
    (void)ignored;
    return s->quantity == SAMPLE_SUSTAINED && burst_seconds(f, s) > 0.0;
}

static double sustained_seconds(const struct fitting *f, const struct sample *s, const double *p) {
    return burst_seconds(f, s) / p[0];
}

/* On the fitted rate where a burst of the same product has not been measured. */
static void stand_sustained(const struct fitting *f, struct sample_entry *entry) {
    struct sample keys;
    struct rate rate;
    for (size_t i = 0; i < f->picked && entry && entry->stands_on_count == 0; i++) {
        const struct sample *const s = &f->sample[f->pick[i]];
        if (burst_of(f, s, &keys) || !rate_of(f, dtype_name(s), &rate))
            continue;
        fitting_stands_on(entry, rate.share);
        fitting_stands_on(entry, CAL_GEMM_HALF_SIZE);
        fitting_stands_on(entry, CAL_HBM_SHARE);
    }
}

static enum mosaic_status fit_sustained(struct fitting *f, struct status_error *err) {
    if (fitting_pick(f, takes_sustained, 0) == 0)
        return MOSAIC_OK;
    struct fitting_outcome o = {.p = {1.0}};
    TRY(fitting_solve(f, sustained_seconds, 1, &o, err));
    struct sample_entry *const entry = fitting_scalar(f, CAL_GEMM_SUSTAINED, o.p[0], &o);
    stand_sustained(f, entry);
    if (entry)
        (void)snprintf(entry->method, sizeof entry->method,
                       "time of the same product in a burst over that at the end of the loop");
    return MOSAIC_OK;
}

enum mosaic_status fitting_gemm(struct fitting *f, struct status_error *err) {
    static const char *const others[] = {"fp8", "fp8_block", "mxfp8", "nvfp4"};
    TRY(fit_base(f, err));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        TRY(fit_dtype(f, others[i], err));
    TRY(fit_grouped(f, err));
    return fit_sustained(f, err);
}
