// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The four-dimensional scaling law of MOSAIC (arXiv 2608.10605, eq. 10):
 *   L = a/N^alpha + b/D^beta + c/(1-S)^lambda + j/((1-S)^delta N^gamma G^eta) + e
 * in nats per token, N total parameters by the law's own count, D tokens, S sparsity, G
 * granularity.
 */
#ifndef MOSAIC_LAW_LAW_H
#define MOSAIC_LAW_LAW_H

#include "base/status.h"

#include <stdbool.h>

struct law_point {
    double n_total; /* parameters */
    double tokens;
    double sparsity; /* 0 <= S < 1 */
    double granularity;
};

struct law_range {
    double min, max; /* support of the fit; min > max means unknown */
};

struct law {
    char name[64]; /* "mosaic-2608.10605" */
    char source[128];
    double a, b, c, j, e, alpha, beta, lambda, delta, gamma, eta;
    struct law_range n_total, n_active, tokens, sparsity, granularity, tokens_per_active;
};

struct law_terms {
    double size, data, sparsity, joint, floor; /* nats; they sum to loss */
    double loss;
};

struct law_gradient { /* dL / d ln(variable) */
    double n_total, tokens, one_minus_sparsity, granularity;
};

/* Which variables leave the range that the fit has seen. */
enum {
    LAW_OUTSIDE_N_TOTAL = 1,
    LAW_OUTSIDE_N_ACTIVE = 2,
    LAW_OUTSIDE_TOKENS = 4,
    LAW_OUTSIDE_SPARSITY = 8,
    LAW_OUTSIDE_GRANULARITY = 16,
    LAW_OUTSIDE_TOKENS_PER_ACTIVE = 32
};

/* Elasticities of MFU that would make a point stationary at equal peak-equivalent compute, where
 * D = C_peak MFU / (6 N (1-S)). */
struct law_mfu_needed {
    double n_total;            /* d ln MFU / d ln N */
    double one_minus_sparsity; /* d ln MFU / d ln(1-S) */
    double granularity;        /* -d ln MFU / d ln G */
};

/* Wider than any use, and narrow enough that a checked law at a checked point is always finite. */
#define LAW_COUNT_MAX 1e30      /* parameters, tokens; at least 1 */
#define LAW_GRANULARITY_MAX 1e6 /* and at least its inverse */
#define LAW_AMPLITUDE_MAX 1e60  /* a, b, c, j, e; at least 0 */
#define LAW_EXPONENT_MAX 4.0    /* of either sign */

/* Coefficients in range, N and D terms that fall; lambda, delta and eta may have either sign. */
MOSAIC_MUST_USE enum mosaic_status law_check(const struct law *law, struct status_error *err);
/* N, D, G in range, S in [0, 1). */
MOSAIC_MUST_USE enum mosaic_status law_point_check(const struct law_point *p,
                                                   struct status_error *err);

double law_loss(const struct law *law, const struct law_point *p);
void law_evaluate(const struct law *law, const struct law_point *p, struct law_terms *out);
void law_differentiate(const struct law *law, const struct law_point *p, struct law_gradient *out);
/* The gradient divided by the loss: d ln L / d ln(variable). */
void law_elasticities(const struct law *law, const struct law_point *p, struct law_gradient *out);
/* The local balance of the paper's section 2: at fixed G an optimum has
 * d ln MFU / d ln(1-S) = 1 - (lambda L_sparsity + delta L_joint)/(beta L_data).  Sparser is better
 * where the machine's own value is below the needed one. */
void law_needed_mfu(const struct law *law, const struct law_point *p, struct law_mfu_needed *out);
/* Bits of LAW_OUTSIDE_*; a limit counts as inside, to 1e-9. */
unsigned law_outside(const struct law *law, const struct law_point *p);
/* Tokens that reach `loss` at this N, S, G (p->tokens is not read); infinity when the other terms
 * already exceed it or the number leaves a double's range. */
double law_tokens_for_loss(const struct law *law, const struct law_point *p, double loss);

#endif
