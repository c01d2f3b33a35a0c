// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What a fit is worth.  With J = d ln L / d ln(coefficient) at the solution, weights included, and
 * its singular values s_k and vectors v_k:
 *   covariance = sigma^2 sum_k v_k v_k' / s_k^2,  sigma^2 = SSR / (rows - parameters)
 * A small s_k is a direction along which the coefficients move and the losses do not.  Standard
 * errors are given for least squares; robust fits take theirs from the bootstrap.
 */
#ifndef MOSAIC_FIT_FIT_REPORT_H
#define MOSAIC_FIT_FIT_REPORT_H

#include "fit/fit.h"
#include "law/law.h"

enum fit_label {
    FIT_IDENTIFIED,   /* relative standard error below 15 % */
    FIT_WEAK,         /* below 40 % */
    FIT_RIDGE,        /* known in combination with others only */
    FIT_UNDETERMINED, /* as many coefficients as runs, or nothing in the data holds it */
    FIT_GIVEN,        /* fixed by the user */
    FIT_DROPPED       /* 0: it, or its term, was left out */
};

struct fit_coefficient {
    double value, error; /* error: standard error, 0 unless has_error */
    bool has_error;
    enum fit_label label;
};

struct fit_share { /* of a term in the loss, over the runs */
    double low, mean, high;
    double nats; /* its mean */
};

enum { FIT_WEAKEST = 3 };

struct fit_report {
    struct fit_coefficient coefficient[FORM_MAX_COEFFICIENTS];
    struct fit_share share[FORM_MAX_TERMS];
    /* Only when has_quality: more runs than coefficients. */
    bool has_quality;
    double r2;       /* of L, weighted */
    double rms_log;  /* of ln L, per run */
    double rms_loss; /* nats */
    double sigma;    /* of ln L, per degree of freedom */
    double aic, aicc;

    double singular[FORM_MAX_COEFFICIENTS]; /* falling; as many as parameters */
    double condition;                       /* largest over smallest; 0 when that is 0 */
    /* Unit vectors over all coefficients of the smallest singular values, weakest first. */
    double weakest[FIT_WEAKEST][FORM_MAX_COEFFICIENTS];
    size_t weakest_count;
    /* Of ln(coefficient) (the value itself where it may change sign), 0 for those not free. */
    double covariance[FORM_MAX_COEFFICIENTS][FORM_MAX_COEFFICIENTS];
};

/* Fails only when memory is short or numbers leave a double. */
MOSAIC_MUST_USE enum mosaic_status fit_report_make(const struct fit_data *data,
                                                   const struct fit *fit, struct fit_report *report,
                                                   struct status_error *err);
const char *fit_label_text(enum fit_label label);
/* ln L fitted minus observed. */
double fit_residual_of(const struct fit_data *data, const struct fit *fit, size_t i);

/* The fit as the law that plans use, with the support of its data; not for krajewski and clark. */
MOSAIC_MUST_USE enum mosaic_status fit_to_law(const struct fit_data *data, const struct fit *fit,
                                              const char *name, struct law *law,
                                              struct status_error *err);

#endif
