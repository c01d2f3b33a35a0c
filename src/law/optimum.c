// SPDX-License-Identifier: GPL-3.0-or-later
//
// Compute optimum of the law under 6 N (1-S) D = C at fixed G.  With x = ln N, u = ln(1-S) and D
// eliminated the loss is a sum of exponentials of linear forms, convex in (x, u):
//   A e^(-alpha x) + B e^(beta (x+u)) + C e^(-lambda u) + J e^(-delta u - gamma x) + e
// Inner problem, best x at one u: ln(beta B-term) = ln(alpha A-term + gamma J-term), whose
// difference rises and is concave in x, so Newton converges from anywhere.
// Outer problem: by the envelope theorem dL/du at the best x is the partial derivative, which rises
// in u: safeguarded Newton on a bracket.
#include "law/optimum.h"

#include <float.h>
#include <math.h>

enum { MAX_ITERATIONS = 200 };
// Relative change of an ln-variable at which Newton stops; the noise of the slopes is just below.
static const double STEP_TOLERANCE = 64 * DBL_EPSILON;
static const double FLOPS_PER_PARAMETER_TOKEN = 6; // forward and backward of one multiply-add

struct problem {
    const struct law *law;
    double tokens_times_active; // C / 6
    double granularity;
    double ln_a, ln_b, ln_c, ln_j; // ln of each term at x = u = 0; -inf when it is absent
};

static double ln_or_absent(double amplitude) {
    return amplitude > 0 ? log(amplitude) : -(double)INFINITY;
}

// ln(e^p + e^q), at least one of them finite.
static double ln_sum(double p, double q) {
    const double top = fmax(p, q);
    return top + log1p(exp(fmin(p, q) - top));
}

// ln of the size, data and joint terms' pull along x (exponent times term).
struct pulls {
    double ln_size, ln_data, ln_joint;
};

static struct pulls pulls_at(const struct problem *p, double x, double u) {
    const struct law *law = p->law;
    return (struct pulls){
        .ln_size = ln_or_absent(law->alpha) + p->ln_a - law->alpha * x,
        .ln_data = log(law->beta) + p->ln_b + law->beta * (x + u),
        .ln_joint = ln_or_absent(law->gamma) + p->ln_j - law->delta * u - law->gamma * x,
    };
}

static double best_ln_size(const struct problem *p, double u) {
    double x = 0;
    for (int i = 0; i < MAX_ITERATIONS; i++) {
        const struct pulls pull = pulls_at(p, x, u);
        const double ln_fall = ln_sum(pull.ln_size, pull.ln_joint);
        const double size_share = exp(pull.ln_size - ln_fall);
        const double slope = p->law->beta + p->law->alpha * size_share +
                             p->law->gamma * exp(pull.ln_joint - ln_fall);
        const double next = x - (pull.ln_data - ln_fall) / slope;
        const bool done = !(fabs(next - x) > STEP_TOLERANCE * fmax(fabs(x), 1));
        x = next;
        if (done) {
            break;
        }
    }
    return x;
}

// First and second derivative in u of the loss at the best x.
struct slope {
    double first, second;
};

static struct slope slope_at(const struct problem *p, double u) {
    const struct law *law = p->law;
    const double x = best_ln_size(p, u);
    const double size = exp(p->ln_a - law->alpha * x);
    const double data = exp(p->ln_b + law->beta * (x + u));
    const double sparse = exp(p->ln_c - law->lambda * u);
    const double joint = exp(p->ln_j - law->delta * u - law->gamma * x);

    const double data2 = law->beta * law->beta * data;
    const double xx = law->alpha * law->alpha * size + law->gamma * law->gamma * joint + data2;
    const double xu = law->gamma * law->delta * joint + data2;
    const double uu = law->lambda * law->lambda * sparse + law->delta * law->delta * joint + data2;
    return (struct slope){
        .first = law->beta * data - law->lambda * sparse - law->delta * joint,
        .second = uu - xu * xu / xx,
    };
}

// Root of the slope in (low, high), negative at low and positive at high.
static double root_of_slope(const struct problem *p, double low, double high) {
    double u = 0.5 * (low + high);
    for (int i = 0; i < MAX_ITERATIONS; i++) {
        const struct slope s = slope_at(p, u);
        if (s.first < 0) {
            low = u;
        } else {
            high = u;
        }
        double next = u - s.first / s.second;
        if (!(next > low && next < high)) {
            next = 0.5 * (low + high);
        }
        const bool done = fabs(next - u) <= STEP_TOLERANCE * fabs(u);
        u = next;
        if (done) {
            break;
        }
    }
    return u;
}

static double projected_gradient(const struct problem *p, const struct law_optimum *at,
                                 bool free_s) {
    struct law_gradient g;
    law_differentiate(p->law, &at->point, &g);
    // D falls as N and 1-S rise at equal compute.
    const double along_n = g.n_total - g.tokens;
    const double along_s = free_s ? g.one_minus_sparsity - g.tokens : 0;
    return hypot(along_n, along_s);
}

// Fills `out` for the sparsity given; `free_s` tells that S, too, was optimised and is interior.
static enum mosaic_status finish(const struct problem *p, double sparsity, bool free_s,
                                 struct law_optimum *out, struct status_error *err) {
    const double ln_size = best_ln_size(p, log1p(-sparsity));
    struct law_optimum best = {
        .point = {.n_total = exp(ln_size), .sparsity = sparsity, .granularity = p->granularity},
    };
    best.n_active = best.point.n_total * (1 - sparsity);
    best.point.tokens = p->tokens_times_active / best.n_active;
    best.loss = law_loss(p->law, &best.point);
    best.gradient_norm = projected_gradient(p, &best, free_s);
    const enum mosaic_status status = law_point_check(&best.point, err);
    if (status != MOSAIC_OK) {
        status_wrap(err, "a budget of %g model FLOPs leads out of the law's range",
                    p->tokens_times_active * FLOPS_PER_PARAMETER_TOKEN);
        return status;
    }
    *out = best;
    return MOSAIC_OK;
}

static enum mosaic_status set_problem(const struct law *law, double model_flops, double granularity,
                                      struct problem *out, struct status_error *err) {
    TRY(law_check(law, err));
    if (!(isfinite(model_flops) && model_flops > 0)) {
        return status_set(err, MOSAIC_BAD_INPUT, "model FLOPs %g; need a number above 0",
                          model_flops);
    }
    const struct law_point unit = {1, 1, 0, granularity};
    TRY(law_point_check(&unit, err));
    const double tokens_times_active = model_flops / FLOPS_PER_PARAMETER_TOKEN;
    *out = (struct problem){
        .law = law,
        .tokens_times_active = tokens_times_active,
        .granularity = granularity,
        .ln_a = ln_or_absent(law->a),
        .ln_b = log(law->b) - law->beta * log(tokens_times_active),
        .ln_c = ln_or_absent(law->c),
        .ln_j = ln_or_absent(law->j) - law->eta * log(granularity),
    };
    return MOSAIC_OK;
}

enum mosaic_status law_optimum_at(const struct law *law, double model_flops, double granularity,
                                  double sparsity, struct law_optimum *out,
                                  struct status_error *err) {
    if (!(sparsity >= 0 && sparsity < 1)) {
        return status_set(err, MOSAIC_BAD_INPUT, "sparsity %g; need 0 <= S < 1", sparsity);
    }
    struct problem p;
    TRY(set_problem(law, model_flops, granularity, &p, err));
    return finish(&p, sparsity, false, out, err);
}

// NOLINTNEXTLINE(readability-function-size): the arguments are one flat tuple with no other use.
enum mosaic_status law_optimum_bounded(const struct law *law, double model_flops,
                                       double granularity, double s_min, double s_max,
                                       struct law_optimum *out, struct status_error *err) {
    if (!(s_min >= 0 && s_min <= s_max && s_max < 1)) {
        return status_set(err, MOSAIC_BAD_INPUT,
                          "sparsity range [%g, %g]; need 0 <= minimum <= maximum < 1", s_min,
                          s_max);
    }
    struct problem p;
    TRY(set_problem(law, model_flops, granularity, &p, err));

    const double sparse_end = log1p(-s_max), dense_end = log1p(-s_min);
    double sparsity;
    bool interior = false;
    if (!(slope_at(&p, sparse_end).first < 0)) {
        sparsity = s_max;
    } else if (!(slope_at(&p, dense_end).first > 0)) {
        sparsity = s_min;
    } else {
        sparsity = -expm1(root_of_slope(&p, sparse_end, dense_end));
        interior = true;
    }
    TRY(finish(&p, sparsity, interior, out, err));
    out->at_bound = !interior;
    return MOSAIC_OK;
}

enum mosaic_status law_optimum_free(const struct law *law, double model_flops, double granularity,
                                    struct law_optimum *out, struct status_error *err) {
    return law_optimum_bounded(law, model_flops, granularity, 0, LAW_OPTIMUM_SPARSEST, out, err);
}
