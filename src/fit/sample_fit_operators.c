// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Operators that bytes bound, each in the unit of its term (step/expert_cost.c, step/end_cost.c): a
 * third of the router's and the loss's traffic is forward, two thirds backward.
 */
#include "fit/sample_fit_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double fp32_bytes = 4.0;
static const double start_share = 0.6;

struct operator_at {
    const char *op, *pass; /* pass NULL: either */
};
static const struct operator_at operators[] = {{"router_top_k", "forward"},
                                               {"router_top_k", "backward"},
                                               {"permute", NULL},
                                               {"quantise", NULL},
                                               {"cross_entropy", NULL}};
enum { TOP_K, ROUTER_BACKWARD, PERMUTE, QUANTISE, CROSS_ENTROPY };

static bool takes(const struct fitting *f, const struct sample *s, long long which) {
    const struct operator_at *const at = &operators[which];
    (void)f;
    return s->quantity == SAMPLE_ELEMENTWISE &&
           s->value[0] == fitting_word(SAMPLE_ELEMENTWISE, "op", at->op) &&
           (!at->pass || s->value[1] == fitting_word(SAMPLE_ELEMENTWISE, "pass", at->pass));
}

static double elements(const struct sample *s) {
    return (double)sample_value(s, "rows") * (double)sample_value(s, "width");
}

static double share_of_pass(const struct sample *s) {
    return s->value[1] == fitting_word(SAMPLE_ELEMENTWISE, "pass", "forward") ? 1.0 / 3.0
                                                                              : 2.0 / 3.0;
}

static double top_k_seconds(const struct fitting *f, const struct sample *s, const double *p) {
    (void)f;
    return elements(s) / p[0];
}

static double router_seconds(const struct fitting *f, const struct sample *s, const double *p) {
    return share_of_pass(s) * p[0] * elements(s) / fitting_hbm(f);
}

/* Rows are read once and written once. */
static double permute_seconds(const struct fitting *f, const struct sample *s, const double *p) {
    return p[0] * 2.0 * sample_number_bytes(f->facts) * elements(s) / fitting_hbm(f);
}

static double quantise_seconds(const struct fitting *f, const struct sample *s, const double *p) {
    return p[0] * elements(s) / fitting_hbm(f);
}

static double loss_seconds(const struct fitting *f, const struct sample *s, const double *p) {
    return share_of_pass(s) * p[0] * fp32_bytes * elements(s) / f->facts->hbm_bytes_per_s;
}

struct term {
    long long which;
    fitting_seconds *seconds;
    enum scalar scalar;
    bool needs_hbm, stands_on_share;
    const char *method;
};

static enum mosaic_status fit_term(struct fitting *f, const struct term *term,
                                   struct status_error *err) {
    if ((term->needs_hbm && !(f->facts->hbm_bytes_per_s > 0.0)) ||
        fitting_pick(f, takes, term->which) == 0)
        return MOSAIC_OK;
    const struct sample *const first = &f->sample[f->pick[0]];
    const double one = 1.0;
    const double at_one = term->seconds(f, first, &one); /* proportional to p, or to 1 / p */
    struct fitting_outcome o = {
        .p = {term->which == TOP_K ? at_one / first->median_s : first->median_s / at_one}};
    TRY(fitting_solve(f, term->seconds, 1, &o, err));
    struct sample_entry *const entry = fitting_scalar(f, term->scalar, o.p[0], &o);
    if (!entry)
        return MOSAIC_OK;
    if (term->stands_on_share)
        fitting_stands_on(entry, CAL_HBM_SHARE);
    (void)snprintf(entry->method, sizeof entry->method, "%s", term->method);
    return MOSAIC_OK;
}

/* ---- the head ---- */

static bool takes_strip(const struct fitting *f, const struct sample *s, long long ignored) {
    (void)ignored;
    return s->quantity == SAMPLE_RING_STRIP && f->facts->peak_flop_per_s[PRECISION_BF16] > 0.0;
}

static double strip_seconds(const struct fitting *f, const struct sample *s, const double *p) {
    return 2.0 * elements(s) * (double)sample_value(s, "vocab") /
           (p[0] * f->facts->peak_flop_per_s[PRECISION_BF16]);
}

static enum mosaic_status fit_strip(struct fitting *f, struct status_error *err) {
    if (fitting_pick(f, takes_strip, 0) == 0)
        return MOSAIC_OK;
    struct fitting_outcome o = {.p = {start_share}};
    TRY(fitting_solve(f, strip_seconds, 1, &o, err));
    struct sample_entry *const entry = fitting_scalar(f, CAL_HEAD_FORWARD_SHARE, o.p[0], &o);
    if (entry)
        (void)snprintf(entry->method, sizeof entry->method,
                       "FLOPs of strips of the vocabulary projection over time, the fold of the "
                       "logits within, as a share of %.4g TFLOP/s",
                       f->facts->peak_flop_per_s[PRECISION_BF16] / 1e12);
    return MOSAIC_OK;
}

enum mosaic_status fitting_operators(struct fitting *f, struct status_error *err) {
    static const struct term terms[] = {
        {TOP_K, top_k_seconds, CAL_TOP_K_RATE, false, false, "logits over time, forward"},
        {ROUTER_BACKWARD, router_seconds, CAL_ROUTER_BYTES, true, true,
         "backward's time at the streaming rate, as two thirds of the bytes per logit"},
        {PERMUTE, permute_seconds, CAL_PERMUTE_PASSES, true, true,
         "time over that of reading and writing as many rows at the streaming rate"},
        {QUANTISE, quantise_seconds, CAL_QUANTISE_BYTES, true, true,
         "time at the streaming rate, per element"},
        {CROSS_ENTROPY, loss_seconds, CAL_CROSS_ENTROPY_PASSES, true, false,
         "fp32 passes at the data sheet's bandwidth; forward a third, backward two"}};
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++)
        TRY(fit_term(f, &terms[i], err));
    return fit_strip(f, err);
}
