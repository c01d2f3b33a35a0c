// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The attention core: rate of the causal forward by sequence (FLOPs 4 b s^2 H d / 2), the
 * saturating form beside it, and backward and 8-bit rates over those of the same shape.
 */
#include "fit/sample_fit_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double start_share = 0.4, start_half = 800.0;
static const double least_breadth = 4.0, far_sequences = 8.0;
static const size_t least_rows = 3;

static bool is_base(const struct fitting *f, const struct sample *s) {
    return s->value[0] == fitting_word(SAMPLE_ATTENTION, "dtype", f->facts->base_dtype);
}

static bool is_forward(const struct sample *s) {
    return sample_value(s, "pass") == fitting_word(SAMPLE_ATTENTION, "pass", "forward");
}

static bool is_causal(const struct sample *s) {
    return s->quantity == SAMPLE_ATTENTION && sample_value(s, "causal") == 1;
}

double fitting_causal_flop(const struct sample *s) {
    const double length = (double)sample_value(s, "sequence");
    return 2.0 * (double)sample_value(s, "batch") * length * length *
           (double)sample_value(s, "heads") * (double)sample_value(s, "head_dim");
}

static bool takes_forward(const struct fitting *f, const struct sample *s, long long sequence) {
    return is_causal(s) && is_base(f, s) && is_forward(s) &&
           (sequence == 0 || sample_value(s, "sequence") == sequence);
}

static double at_rate(const struct fitting *f, const struct sample *s, const double *p) {
    (void)f;
    return fitting_causal_flop(s) / p[0];
}

static double saturating(const struct fitting *f, const struct sample *s, double share,
                         double half) {
    return fitting_causal_flop(s) / (share * f->facts->peak_flop_per_s[PRECISION_BF16]) *
           (1.0 + half / (double)sample_value(s, "sequence"));
}

static double share_and_half(const struct fitting *f, const struct sample *s, const double *p) {
    return saturating(f, s, p[0], p[1]);
}

static double share_alone(const struct fitting *f, const struct sample *s, const double *p) {
    return saturating(f, s, p[0], fitting_scalar_now(f, CAL_ATTENTION_HALF_SEQUENCE));
}

/* The next longer sequence among causal forward samples; 0 when there is none. */
static long long longer(struct fitting *f, long long sequence) {
    long long next = 0;
    for (size_t i = 0; i < f->count; i++) {
        const struct sample *const s = &f->sample[i];
        if (!takes_forward(f, s, 0))
            continue;
        const long long at = sample_value(s, "sequence");
        if (at > sequence && (next == 0 || at < next))
            next = at;
    }
    return next;
}

static enum mosaic_status fit_curve(struct fitting *f, struct status_error *err) {
    double x[CURVE_MAX_SAMPLES], y[CURVE_MAX_SAMPLES];
    struct fitting_outcome all = {.spread = 0.0};
    size_t count = 0;
    for (long long s = longer(f, 0); s > 0 && count < CURVE_MAX_SAMPLES; s = longer(f, s)) {
        (void)fitting_pick(f, takes_forward, s);
        const struct sample *const first = &f->sample[f->pick[0]];
        struct fitting_outcome o = {.p = {fitting_causal_flop(first) / first->median_s}};
        TRY(fitting_solve(f, at_rate, 1, &o, err));
        x[count] = (double)s;
        y[count++] = fitting_rounded(o.p[0]);
        all.spread = fmax(all.spread, o.spread);
        all.outliers += o.outliers;
    }
    if (count == 0)
        return MOSAIC_OK;
    struct calibration *const c = &f->fit->calibration;
    TRY(curve_build(&c->curve[CAL_ATTENTION_CURVE], CURVE_STEFFEN, x, y, count, err));
    c->has_curve[CAL_ATTENTION_CURVE] = true;
    (void)fitting_pick(f, takes_forward, 0);
    struct sample_entry *const entry =
        fitting_entry(f, SAMPLE_ENTRY_CURVE, CAL_ATTENTION_CURVE, &all);
    if (entry)
        (void)snprintf(entry->method, sizeof entry->method,
                       "causal (halved) FLOPs over time, robust mean by sequence");
    return MOSAIC_OK;
}

static enum mosaic_status fit_share(struct fitting *f, struct status_error *err) {
    if (!(f->facts->peak_flop_per_s[PRECISION_BF16] > 0.0) ||
        fitting_pick(f, takes_forward, 0) == 0)
        return MOSAIC_OK;
    const double breadth = fitting_breadth(f, "sequence"), most = fitting_most(f, "sequence");
    const bool has_half = f->picked >= least_rows && breadth >= least_breadth;
    struct fitting_outcome o = {.p = {start_share, start_half}};
    TRY(fitting_solve(f, has_half ? share_and_half : share_alone, has_half ? 2 : 1, &o, err));
    struct sample_entry *const share = fitting_scalar(f, CAL_ATTENTION_SHARE, o.p[0], &o);
    if (share)
        (void)snprintf(share->method, sizeof share->method,
                       "share of %.4g TFLOP/s in rate = share peak / (1 + h / sequence)",
                       f->facts->peak_flop_per_s[PRECISION_BF16] / 1e12);
    if (!has_half) {
        fitting_stands_on(share, CAL_ATTENTION_HALF_SEQUENCE);
        return MOSAIC_OK;
    }
    struct sample_entry *const half = fitting_scalar(f, CAL_ATTENTION_HALF_SEQUENCE, o.p[1], &o);
    if (half)
        (void)snprintf(half->method, sizeof half->method, "h of the same fit");
    if (share && most < far_sequences * o.p[1]) {
        share->is_extrapolated = true;
        fitting_note(f, SAMPLE_NOTE_EXTRAPOLATED,
                     "attention.share: at most %.0f tokens, half sequence %.0f: the rate of long "
                     "sequences is extrapolated",
                     most, o.p[1]);
    }
    return MOSAIC_OK;
}

/* ---- ratios to the base's forward of the same shape ---- */

static const struct sample *forward_of(const struct fitting *f, const struct sample *s) {
    return fitting_partner(f, s, "pass", fitting_word(SAMPLE_ATTENTION, "pass", "forward"));
}

static bool takes_backward(const struct fitting *f, const struct sample *s, long long ignored) {
    (void)ignored;
    return is_causal(s) && is_base(f, s) && !is_forward(s) && forward_of(f, s);
}

static double backward_seconds(const struct fitting *f, const struct sample *s, const double *p) {
    return forward_of(f, s)->median_s * fitting_scalar_now(f, CAL_ATTENTION_BACKWARD_FLOP) / p[0];
}

static const struct sample *base_of(const struct fitting *f, const struct sample *s) {
    return fitting_partner(f, s, "dtype",
                           fitting_word(SAMPLE_ATTENTION, "dtype", f->facts->base_dtype));
}

static bool takes_fp8(const struct fitting *f, const struct sample *s, long long dtype) {
    return is_causal(s) && is_forward(s) && s->value[0] == dtype && base_of(f, s);
}

static double fp8_seconds(const struct fitting *f, const struct sample *s, const double *p) {
    return base_of(f, s)->median_s / p[0];
}

static enum mosaic_status fit_ratios(struct fitting *f, struct status_error *err) {
    if (fitting_pick(f, takes_backward, 0) > 0) {
        struct fitting_outcome o = {.p = {1.0}};
        TRY(fitting_solve(f, backward_seconds, 1, &o, err));
        struct sample_entry *const entry =
            fitting_scalar(f, CAL_ATTENTION_BACKWARD_RATE, o.p[0], &o);
        fitting_stands_on(entry, CAL_ATTENTION_BACKWARD_FLOP);
        if (entry)
            (void)snprintf(entry->method, sizeof entry->method,
                           "%g times the forward's FLOPs over the ratio of their times",
                           fitting_scalar_now(f, CAL_ATTENTION_BACKWARD_FLOP));
    }
    if (fitting_pick(f, takes_fp8, fitting_word(SAMPLE_ATTENTION, "dtype", "fp8")) > 0) {
        struct fitting_outcome o = {.p = {1.0}};
        TRY(fitting_solve(f, fp8_seconds, 1, &o, err));
        struct sample_entry *const entry = fitting_scalar(f, CAL_ATTENTION_FP8_FACTOR, o.p[0], &o);
        if (entry)
            (void)snprintf(entry->method, sizeof entry->method,
                           "time of the same shape in %s over that in 8 bits",
                           f->facts->base_dtype);
    }
    return MOSAIC_OK;
}

enum mosaic_status fitting_attention(struct fitting *f, struct status_error *err) {
    TRY(fit_curve(f, err));
    TRY(fit_share(f, err));
    return fit_ratios(f, err);
}
