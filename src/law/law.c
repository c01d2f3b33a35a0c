// SPDX-License-Identifier: GPL-3.0-or-later
//
// The MOSAIC law (arXiv 2608.10605, eq. 10), its terms and its gradient:
//   L = a/N^alpha + b/D^beta + c/(1-S)^lambda + j/((1-S)^delta N^gamma G^eta) + e
// Every term is an exponential of a linear form in ln N, ln D, ln(1-S), ln G, so the derivatives
// are the terms themselves times an exponent.
#include "law/law.h"

#include <float.h>
#include <math.h>

// A printed limit is rounded and N(1-S) is computed: neither should raise a flag by itself.
static const double RANGE_SLACK = 1e-9;

static double power_term(double amplitude, double ln_value) {
    return amplitude > 0 ? amplitude * exp(ln_value) : 0;
}

void law_evaluate(const struct law *law, const struct law_point *p, struct law_terms *out) {
    const double n = log(p->n_total), d = log(p->tokens), u = log1p(-p->sparsity);
    const double g = log(p->granularity);

    out->size = power_term(law->a, -law->alpha * n);
    out->data = power_term(law->b, -law->beta * d);
    out->sparsity = power_term(law->c, -law->lambda * u);
    out->joint = power_term(law->j, -law->delta * u - law->gamma * n - law->eta * g);
    out->floor = law->e;
    out->loss = out->size + out->data + out->sparsity + out->joint + out->floor;
}

double law_loss(const struct law *law, const struct law_point *p) {
    struct law_terms terms;
    law_evaluate(law, p, &terms);
    return terms.loss;
}

void law_differentiate(const struct law *law, const struct law_point *p, struct law_gradient *out) {
    struct law_terms t;
    law_evaluate(law, p, &t);
    out->n_total = -(law->alpha * t.size + law->gamma * t.joint);
    out->tokens = -law->beta * t.data;
    out->one_minus_sparsity = -(law->lambda * t.sparsity + law->delta * t.joint);
    out->granularity = -law->eta * t.joint;
}

void law_elasticities(const struct law *law, const struct law_point *p, struct law_gradient *out) {
    const double loss = law_loss(law, p);
    law_differentiate(law, p, out);
    out->n_total /= loss;
    out->tokens /= loss;
    out->one_minus_sparsity /= loss;
    out->granularity /= loss;
}

void law_needed_mfu(const struct law *law, const struct law_point *p, struct law_mfu_needed *out) {
    struct law_gradient g;
    law_differentiate(law, p, &g);
    out->n_total = 1 - g.n_total / g.tokens;
    out->one_minus_sparsity = 1 - g.one_minus_sparsity / g.tokens;
    out->granularity = g.granularity / g.tokens;
}

static bool is_outside(double value, const struct law_range *range) {
    if (!(range->min <= range->max)) {
        return false;
    }
    return value < range->min - RANGE_SLACK * fabs(range->min) ||
           value > range->max + RANGE_SLACK * fabs(range->max);
}

unsigned law_outside(const struct law *law, const struct law_point *p) {
    const double n_active = p->n_total * (1 - p->sparsity);
    unsigned flags = 0;

    flags |= is_outside(p->n_total, &law->n_total) ? LAW_OUTSIDE_N_TOTAL : 0;
    flags |= is_outside(n_active, &law->n_active) ? LAW_OUTSIDE_N_ACTIVE : 0;
    flags |= is_outside(p->tokens, &law->tokens) ? LAW_OUTSIDE_TOKENS : 0;
    flags |= is_outside(p->sparsity, &law->sparsity) ? LAW_OUTSIDE_SPARSITY : 0;
    flags |= is_outside(p->granularity, &law->granularity) ? LAW_OUTSIDE_GRANULARITY : 0;
    flags |= is_outside(p->tokens / n_active, &law->tokens_per_active)
                 ? LAW_OUTSIDE_TOKENS_PER_ACTIVE
                 : 0;
    return flags;
}

double law_tokens_for_loss(const struct law *law, const struct law_point *p, double loss) {
    struct law_point infinite = *p;
    infinite.tokens = DBL_MAX;
    struct law_terms t;
    law_evaluate(law, &infinite, &t);
    const double data = loss - (t.size + t.sparsity + t.joint + t.floor);
    if (!(data > 0)) {
        return (double)INFINITY;
    }
    // ln first: b / data may overflow where its root does not.
    return exp((log(law->b) - log(data)) / law->beta);
}

struct coefficient {
    const char *name;
    double value, min, max;
};

static enum mosaic_status check_coefficients(const struct law *law, struct status_error *err) {
    const double top = LAW_AMPLITUDE_MAX, power = LAW_EXPONENT_MAX;
    const struct coefficient all[] = {
        {"a", law->a, 0, top},
        {"b", law->b, 0, top},
        {"c", law->c, 0, top},
        {"j", law->j, 0, top},
        {"e", law->e, 0, top},
        {"alpha", law->alpha, -power, power},
        {"beta", law->beta, -power, power},
        {"lambda", law->lambda, -power, power},
        {"delta", law->delta, -power, power},
        {"gamma", law->gamma, -power, power},
        {"eta", law->eta, -power, power},
    };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (!(all[i].value >= all[i].min && all[i].value <= all[i].max)) {
            return status_set(err, MOSAIC_BAD_INPUT,
                              "law '%s': coefficient %s is %g; it must lie in %g to %g", law->name,
                              all[i].name, all[i].value, all[i].min, all[i].max);
        }
    }
    return MOSAIC_OK;
}

enum mosaic_status law_check(const struct law *law, struct status_error *err) {
    TRY(check_coefficients(law, err));
    if (!(law->b > 0 && law->beta > 0)) {
        return status_set(err, MOSAIC_BAD_INPUT,
                          "law '%s': the loss does not fall with tokens (b %g, beta %g)", law->name,
                          law->b, law->beta);
    }
    const bool falls_with_n = (law->a > 0 && law->alpha > 0) || (law->j > 0 && law->gamma > 0);
    if (!falls_with_n || (law->a > 0 && law->alpha < 0) || (law->j > 0 && law->gamma < 0)) {
        return status_set(err, MOSAIC_BAD_INPUT,
                          "law '%s': the loss does not fall with size (a %g, alpha %g, j %g, gamma "
                          "%g)",
                          law->name, law->a, law->alpha, law->j, law->gamma);
    }
    return MOSAIC_OK;
}

enum mosaic_status law_point_check(const struct law_point *p, struct status_error *err) {
    if (!(p->n_total >= 1 && p->n_total <= LAW_COUNT_MAX)) {
        return status_set(err, MOSAIC_BAD_INPUT, "%g total parameters; need 1 to %g", p->n_total,
                          LAW_COUNT_MAX);
    }
    if (!(p->tokens >= 1 && p->tokens <= LAW_COUNT_MAX)) {
        return status_set(err, MOSAIC_BAD_INPUT, "%g tokens; need 1 to %g", p->tokens,
                          LAW_COUNT_MAX);
    }
    if (!(p->granularity >= 1 / LAW_GRANULARITY_MAX && p->granularity <= LAW_GRANULARITY_MAX)) {
        return status_set(err, MOSAIC_BAD_INPUT, "granularity %g; need %g to %g", p->granularity,
                          1 / LAW_GRANULARITY_MAX, LAW_GRANULARITY_MAX);
    }
    if (!(p->sparsity >= 0 && p->sparsity < 1)) {
        return status_set(err, MOSAIC_BAD_INPUT, "sparsity %g; need 0 <= S < 1", p->sparsity);
    }
    return MOSAIC_OK;
}
