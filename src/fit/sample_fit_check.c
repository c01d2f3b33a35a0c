// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Samples that feed no entry are held-out truth: what the calibration just fitted says of them, and
 * what was measured.  A check is of one quantity and its words (operator, pass, direction, load).
 *   elementwise   bytes that the model counts (step/attention_cost.c, ffn_cost.c) / streaming rate
 *   transfers     bytes / the rate that long ones reach: short ones, and copies under load
 *   launch        of a graph, beside a plain launch
 *   attention     backward in 8 bits; without a mask twice the causal FLOPs
 *   overlap       max(exposed x collective, collective - GEMM) + GEMM
 *   moe_layer     sample_fit_layer.c
 */
#include "fit/sample_fit_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is said of a sample ---- */

static bool is_word(const struct sample *s, const char *key, const char *word) {
    return sample_value(s, key) == fitting_word(s->quantity, key, word);
}

static double bytes_of(const struct sample *s) {
    return (double)sample_value(s, "bytes");
}

static bool elementwise_seconds(const struct fitting *f, const struct sample *s, double *out) {
    /* Numbers moved forward per element of the width, and backward over forward. */
    static const struct {
        const char *op;
        double numbers, backward;
    } ops[] = {{"norm", 2.0, 2.0}, {"rope", 2.0, 2.0}, {"swiglu", 3.0, 1.7}};
    const double count = (double)sample_value(s, "rows") * (double)sample_value(s, "width");
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (is_word(s, "op", ops[i].op) && f->facts->hbm_bytes_per_s > 0.0) {
            *out = ops[i].numbers * sample_number_bytes(f->facts) * count / fitting_hbm(f) *
                   (is_word(s, "pass", "backward") ? ops[i].backward : 1.0);
            return true;
        }
    return false;
}

static bool copy_seconds(const struct fitting *f, const struct sample *s, double *out) {
    const double link = f->facts->host_link_bytes_per_s;
    if (is_word(s, "direction", "both"))
        *out = 2.0 * bytes_of(s) / fitting_scalar_now(f, CAL_HOST_MEMORY_RATE);
    else if (link > 0.0)
        *out = bytes_of(s) / (link * fitting_scalar_now(f, CAL_HOST_LINK_SHARE));
    else
        return false;
    return true;
}

static double attention_rate(const struct fitting *f, double sequence) {
    const struct calibration *const c = &f->fit->calibration;
    if (c->has_curve[CAL_ATTENTION_CURVE])
        return curve_at(&c->curve[CAL_ATTENTION_CURVE], sequence, NULL);
    return f->facts->peak_flop_per_s[PRECISION_BF16] * c->scalar[CAL_ATTENTION_SHARE] /
           (1.0 + c->scalar[CAL_ATTENTION_HALF_SEQUENCE] / sequence);
}

static bool attention_seconds(const struct fitting *f, const struct sample *s, double *out) {
    const double *const scalar = f->fit->calibration.scalar;
    const double length = (double)sample_value(s, "sequence");
    const double flop = (sample_value(s, "causal") ? 1.0 : 2.0) * fitting_causal_flop(s);
    double rate = attention_rate(f, length);
    if (is_word(s, "dtype", "fp8"))
        rate *= scalar[CAL_ATTENTION_FP8_FACTOR];
    else if (!is_word(s, "dtype", f->facts->base_dtype))
        return false;
    if (is_word(s, "pass", "backward"))
        rate *= scalar[CAL_ATTENTION_BACKWARD_RATE] / scalar[CAL_ATTENTION_BACKWARD_FLOP];
    *out = flop / rate;
    return rate > 0.0;
}

static double exposed_share(const struct fitting *f, const struct sample *s) {
    if (is_word(s, "kind", "all_reduce"))
        return 1.0 - fitting_scalar_now(f, CAL_DP_OVERLAP);
    return fitting_scalar_now(f, is_word(s, "kind", "all_to_all")       ? CAL_EP_OVERLAPPED
                                 : is_word(s, "kind", "point_to_point") ? CAL_PP_OVERLAPPED
                                                                        : CAL_TP_OVERLAPPED);
}

static bool overlap_seconds(const struct fitting *f, const struct sample *s, double *out) {
    const struct sample *const gemm =
        fitting_partner(f, s, "part", fitting_word(SAMPLE_OVERLAP, "part", "gemm"));
    const struct sample *const collective =
        fitting_partner(f, s, "part", fitting_word(SAMPLE_OVERLAP, "part", "collective"));
    if (!gemm || !collective || !is_word(s, "part", "both"))
        return false;
    *out = gemm->median_s +
           fmax(exposed_share(f, s) * collective->median_s, collective->median_s - gemm->median_s);
    return true;
}

static bool stream_seconds(const struct fitting *f, const struct sample *s, double *out) {
    *out = bytes_of(s) / fitting_hbm(f);
    return f->facts->hbm_bytes_per_s > 0.0;
}

static bool launch_seconds(const struct fitting *f, const struct sample *s, double *out) {
    (void)s;
    *out = fitting_scalar_now(f, CAL_HOST_GAP);
    return true;
}

static bool layer_seconds(const struct fitting *f, const struct sample *s, double *out) {
    return sample_layer_seconds(f->fit, f->facts, s, out);
}

/* Quantities that may be left over, and how the prediction is meant. */
static const struct {
    bool (*seconds)(const struct fitting *f, const struct sample *s, double *out);
    const char *text;
} checks[SAMPLE_QUANTITIES] = {
    [SAMPLE_ELEMENTWISE] = {elementwise_seconds,
                            "bytes that the model counts, at the streaming rate"},
    [SAMPLE_STREAM] = {stream_seconds, "shorter than those that hbm.share counts"},
    [SAMPLE_HOST_COPY] = {copy_seconds, "at the rate of long copies without load"},
    [SAMPLE_LAUNCH] = {launch_seconds, "from a graph, beside host.launch_gap of a plain launch"},
    [SAMPLE_ATTENTION] = {attention_seconds,
                          "by the rates of the base's causal core and their factors"},
    [SAMPLE_OVERLAP] = {overlap_seconds,
                        "the collective outlasts the GEMM, or is exposed as fitted"},
    [SAMPLE_MOE_LAYER] = {layer_seconds,
                          "permutation, experts and all-to-all; backward with the forward again"},
};

static bool seconds_of(const struct fitting *f, const struct sample *s, double *out) {
    return checks[s->quantity].seconds && checks[s->quantity].seconds(f, s, out);
}

/* ---- groups of samples ---- */

/* Of one quantity with the same words, `part` apart. */
static bool is_alike(const struct sample *a, const struct sample *b) {
    if (a->quantity != b->quantity)
        return false;
    const struct sample_kind *const kind = sample_kind(a->quantity);
    for (int k = 0; k < kind->key_count; k++)
        if (kind->keys[k].words && a->value[k] != b->value[k])
            return false;
    return true;
}

static void name_check(const struct sample *s, struct sample_check *check) {
    const struct sample_kind *const kind = sample_kind(s->quantity);
    int used = snprintf(check->name, sizeof check->name, "%s", kind->name);
    for (int k = 0; k < kind->key_count && used < (int)sizeof check->name; k++)
        if (kind->keys[k].words)
            used += snprintf(check->name + used, sizeof check->name - (size_t)used, " %s",
                             kind->keys[k].words[s->value[k]]);
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Starts at `first`; later ones like it are taken with it. */
static void check_group(struct fitting *f, size_t first, double *logs) {
    struct sample_check *const check = &f->fit->check[f->fit->check_count++];
    *check = (struct sample_check){.quantity = f->sample[first].quantity, .worst = 0.0};
    double worst = 0.0;
    name_check(&f->sample[first], check);
    for (size_t i = first; i < f->count; i++) {
        double predicted_s = 0.0;
        if (f->is_used[i] || f->is_checked[i] || !is_alike(&f->sample[first], &f->sample[i]) ||
            !seconds_of(f, &f->sample[i], &predicted_s))
            continue;
        const double r = log(predicted_s / f->sample[i].median_s);
        logs[check->samples++] = r;
        f->is_checked[i] = true;
        worst = fabs(r) > fabs(worst) ? r : worst;
        if (f->sample[i].median_s <= check->sample.median_s)
            continue;
        check->sample = f->sample[i];
        check->predicted_s = predicted_s;
    }
    qsort(logs, check->samples, sizeof *logs, by_value);
    const size_t n = check->samples;
    check->error = exp(0.5 * (logs[(n - 1) / 2] + logs[n / 2])) - 1.0;
    check->worst = exp(worst) - 1.0;
    (void)snprintf(check->text, sizeof check->text, "%s", checks[check->quantity].text);
}

/* The two alone belong to what was made of both. */
static void check_parts(struct fitting *f) {
    for (size_t i = 0; i < f->count; i++) {
        const struct sample *const s = &f->sample[i];
        if (s->quantity != SAMPLE_OVERLAP || f->is_used[i])
            continue;
        const struct sample *const both =
            fitting_partner(f, s, "part", fitting_word(SAMPLE_OVERLAP, "part", "both"));
        if (both && f->is_checked[both - f->sample])
            f->is_checked[i] = true;
    }
}

enum mosaic_status fitting_checks(struct fitting *f, struct status_error *err) {
    double *const logs = calloc(f->count + 1, sizeof *logs);
    if (!logs)
        return status_no_memory(err);
    for (size_t i = 0; i < f->count; i++) {
        double ignored = 0.0;
        if (!f->is_used[i] && !f->is_checked[i] && seconds_of(f, &f->sample[i], &ignored) &&
            f->fit->check_count < SAMPLE_FIT_CHECKS)
            check_group(f, i, logs);
    }
    check_parts(f);
    for (size_t i = 0; i < f->count; i++)
        f->fit->checked += f->is_checked[i];
    free(logs);
    return MOSAIC_OK;
}
