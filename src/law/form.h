// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Loss laws that can be fitted, each a function of four logarithms x = (ln N, ln D, ln U, ln G):
 *   mosaic      a/N^alpha + b/D^beta + c/U^lambda + j/(U^delta N^gamma G^eta) + e, U = 1 - N_act/N
 *               (arXiv 2608.10605, eq. 10); mosaic-no-g is the same without G^eta
 *   abnar       the same with U = K/E and lambda of either sign (arXiv 2501.12370, eq. 6)
 *   chinchilla  e + A/N^alpha + B/D^beta (arXiv 2203.15556, approach 3)
 *   krajewski   c + (g/G^gamma + a)/N^alpha + b/D^beta (arXiv 2402.07871, eq. 9)
 *   clark       log10 L = a log10 N + b log10 Ehat + c log10 N log10 Ehat + d with N the dense
 *               parameters, U = E, 1/Ehat = 1/(E-1+q) + 1/Emax, 1/q = 1/Estart - 1/Emax
 *               (arXiv 2202.01169, eq. 1)
 * All but clark are sums of terms, each an exponential of a linear form in x.
 *
 * A fit moves the parameters u of a frame instead of the coefficients: ln of each term at the
 * frame's reference point, ln of each exponent (or the exponent itself where it may change sign).
 */
#ifndef MOSAIC_LAW_FORM_H
#define MOSAIC_LAW_FORM_H

#include "base/status.h"

#include <stdbool.h>

enum form_kind {
    FORM_MOSAIC,
    FORM_MOSAIC_NO_G,
    FORM_ABNAR,
    FORM_CHINCHILLA,
    FORM_KRAJEWSKI,
    FORM_CLARK
};
enum { FORM_KINDS = FORM_CLARK + 1 };
enum form_variable { FORM_N, FORM_D, FORM_U, FORM_G };
enum { FORM_VARIABLES = FORM_G + 1, FORM_MAX_TERMS = 5, FORM_MAX_COEFFICIENTS = 11 };

/* One run or plan; what a form does not use may be 0. */
struct form_point {
    double n_total, n_active, tokens;
    double sparsity; /* 1 - n_active / n_total */
    double granularity;
    double experts, top_k;
};

enum form_role { FORM_AMPLITUDE, FORM_EXPONENT, FORM_LINEAR, FORM_SATURATION };

struct form_coefficient {
    const char *name;
    enum form_role role;
    bool may_change_sign; /* an exponent whose sign the data decide */
};

struct form_term {
    const char *name;             /* "size" */
    int amplitude;                /* coefficient */
    int exponent[FORM_VARIABLES]; /* coefficient, -1 for none */
};

struct form {
    enum form_kind kind;
    const char *name, *source;
    const char *variable[FORM_VARIABLES]; /* "D", NULL when the form does not use it */
    struct form_coefficient coefficient[FORM_MAX_COEFFICIENTS];
    size_t coefficients;
    struct form_term term[FORM_MAX_TERMS]; /* none for clark */
    size_t terms;
    int floor; /* index of the constant term, -1 for none */
};

/* How coefficients are written as parameters. */
struct form_frame {
    const struct form *form;
    double centre[FORM_MAX_TERMS]
                 [FORM_VARIABLES];         /* reference x of each term (clark: of the first) */
    bool is_signed[FORM_MAX_COEFFICIENTS]; /* the exponent itself, not its ln */
    bool is_gone[FORM_MAX_TERMS];          /* a term left out */
};

const struct form *form_of(enum form_kind kind);
/* The form of that name, or NULL. */
const struct form *form_find(const char *name);
/* Index of a coefficient or -1. */
int form_coefficient_index(const struct form *form, const char *name);

/* The form's x at a point; an unused variable is 0. */
MOSAIC_MUST_USE enum mosaic_status form_variables(const struct form *form,
                                                  const struct form_point *p,
                                                  double x[FORM_VARIABLES],
                                                  struct status_error *err);

/* Reference point x for every term, signs as the form has them, no term left out. */
void form_frame_init(struct form_frame *frame, const struct form *form,
                     const double centre[FORM_VARIABLES]);
/* Parameters of coefficients and back; an amplitude or exponent of 0 is -infinity as a ln. */
void form_to_parameters(const struct form_frame *frame, const double *coefficient, double *u);
void form_from_parameters(const struct form_frame *frame, const double *u, double *coefficient);
/* d coefficient[k] / d u, all entries. */
void form_coefficient_gradient(const struct form_frame *frame, const double *u, size_t k,
                               double *gradient);

/* A frame with its parameters, exponents worked out once for many x.  It borrows both. */
struct form_at {
    const struct form_frame *frame;
    const double *u;
    double exponent[FORM_MAX_COEFFICIENTS];
};
void form_at_init(struct form_at *at, const struct form_frame *frame, const double *u);
/* ln L at x; gradient (NULL for none) receives d ln L / d u. */
double form_at_log_loss(const struct form_at *at, const double x[FORM_VARIABLES], double *gradient);
/* ln L at x with its first two derivatives along v. */
struct form_bend {
    double log_loss, first, second;
};
struct form_bend form_at_bend(const struct form_at *at, const double x[FORM_VARIABLES],
                              const double *v);

/* The first of these for one x. */
double form_log_loss(const struct form_frame *frame, const double *u,
                     const double x[FORM_VARIABLES], double *gradient);
/* Each term in nats; they sum to L. clark has none. */
void form_terms(const struct form_frame *frame, const double *u, const double x[FORM_VARIABLES],
                double terms[FORM_MAX_TERMS]);
/* ln of each term over its amplitude, which u need not hold yet (for seeding). */
void form_shapes(const struct form_frame *frame, const double *u, const double x[FORM_VARIABLES],
                 double shapes[FORM_MAX_TERMS]);

/* L of plain coefficients at a point. */
MOSAIC_MUST_USE enum mosaic_status form_loss(const struct form *form, const double *coefficient,
                                             const struct form_point *p, double *loss,
                                             struct status_error *err);

#endif
