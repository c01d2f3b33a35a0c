// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A sum of terms T_k = A_k exp(-sum_v p_v x_v) with p_v = exp(u) or u itself has
 *   d ln L = sum_k w_k dl_k,  w_k = T_k / L,  l_k = ln T_k,
 *   d2 ln L along v = sum_k w_k (l_k'' + l_k'^2) - (sum_k w_k l_k')^2.
 * The largest l_k is taken out before exp, so nothing overflows.
 */
#include "law/form.h"

#include <math.h>
#include <string.h>

/* clark's parameters beside its coefficients a b c d Estart Emax */
enum { CLARK_A, CLARK_B, CLARK_C, CLARK_D, CLARK_Q, CLARK_MAX };

static const double ln10 = 2.302585092994045684;

#define MOSAIC_TERMS(eta)                                                                          \
    {                                                                                              \
        {"size", 0, {5, -1, -1, -1}}, {"data", 1, {-1, 6, -1, -1}},                                \
            {"sparsity", 2, {-1, -1, 7, -1}}, {"joint", 3, {9, -1, 8, eta}}, {                     \
            "floor", 4, {                                                                          \
                -1, -1, -1, -1                                                                     \
            }                                                                                      \
        }                                                                                          \
    }
#define MOSAIC_COEFFICIENTS(lambda_sign)                                                           \
    {"a", FORM_AMPLITUDE, false}, {"b", FORM_AMPLITUDE, false}, {"c", FORM_AMPLITUDE, false},      \
        {"j", FORM_AMPLITUDE, false}, {"e", FORM_AMPLITUDE, false},                                \
        {"alpha", FORM_EXPONENT, false}, {"beta", FORM_EXPONENT, false},                           \
        {"lambda", FORM_EXPONENT, lambda_sign}, {"delta", FORM_EXPONENT, false}, {                 \
        "gamma", FORM_EXPONENT, false                                                              \
    }

static const struct form forms[FORM_KINDS] = {
    [FORM_MOSAIC] = {.kind = FORM_MOSAIC,
                     .name = "mosaic",
                     .source = "arXiv 2608.10605, eq. 10",
                     .variable = {"N", "D", "1-S", "G"},
                     .coefficient = {MOSAIC_COEFFICIENTS(false), {"eta", FORM_EXPONENT, false}},
                     .coefficients = 11,
                     .term = MOSAIC_TERMS(10),
                     .terms = 5,
                     .floor = 4},
    [FORM_MOSAIC_NO_G] = {.kind = FORM_MOSAIC_NO_G,
                          .name = "mosaic-no-g",
                          .source = "arXiv 2608.10605, eq. 9",
                          .variable = {"N", "D", "1-S", NULL},
                          .coefficient = {MOSAIC_COEFFICIENTS(false)},
                          .coefficients = 10,
                          .term = MOSAIC_TERMS(-1),
                          .terms = 5,
                          .floor = 4},
    [FORM_ABNAR] = {.kind = FORM_ABNAR,
                    .name = "abnar",
                    .source = "arXiv 2501.12370, eq. 6",
                    .variable = {"N", "D", "K/E", NULL},
                    .coefficient = {MOSAIC_COEFFICIENTS(true)},
                    .coefficients = 10,
                    .term = MOSAIC_TERMS(-1),
                    .terms = 5,
                    .floor = 4},
    [FORM_CHINCHILLA] = {.kind = FORM_CHINCHILLA,
                         .name = "chinchilla",
                         .source = "arXiv 2203.15556, approach 3",
                         .variable = {"N", "D", NULL, NULL},
                         .coefficient = {{"A", FORM_AMPLITUDE, false},
                                         {"B", FORM_AMPLITUDE, false},
                                         {"E", FORM_AMPLITUDE, false},
                                         {"alpha", FORM_EXPONENT, false},
                                         {"beta", FORM_EXPONENT, false}},
                         .coefficients = 5,
                         .term = {{"size", 0, {3, -1, -1, -1}},
                                  {"data", 1, {-1, 4, -1, -1}},
                                  {"floor", 2, {-1, -1, -1, -1}}},
                         .terms = 3,
                         .floor = 2},
    [FORM_KRAJEWSKI] = {.kind = FORM_KRAJEWSKI,
                        .name = "krajewski",
                        .source = "arXiv 2402.07871, eq. 9",
                        .variable = {"N", "D", NULL, "G"},
                        .coefficient = {{"a", FORM_AMPLITUDE, false},
                                        {"b", FORM_AMPLITUDE, false},
                                        {"g", FORM_AMPLITUDE, false},
                                        {"c", FORM_AMPLITUDE, false},
                                        {"alpha", FORM_EXPONENT, false},
                                        {"beta", FORM_EXPONENT, false},
                                        {"gamma", FORM_EXPONENT, false}},
                        .coefficients = 7,
                        .term = {{"size", 0, {4, -1, -1, -1}},
                                 {"data", 1, {-1, 5, -1, -1}},
                                 {"granularity", 2, {4, -1, -1, 6}},
                                 {"floor", 3, {-1, -1, -1, -1}}},
                        .terms = 4,
                        .floor = 3},
    [FORM_CLARK] = {.kind = FORM_CLARK,
                    .name = "clark",
                    .source = "arXiv 2202.01169, eq. 1",
                    .variable = {"N_active", NULL, "E", NULL},
                    .coefficient = {{"a", FORM_LINEAR, true},
                                    {"b", FORM_LINEAR, true},
                                    {"c", FORM_LINEAR, true},
                                    {"d", FORM_LINEAR, true},
                                    {"E_start", FORM_SATURATION, false},
                                    {"E_max", FORM_SATURATION, false}},
                    .coefficients = 6,
                    .terms = 0,
                    .floor = -1},
};

const struct form *form_of(enum form_kind kind) {
    return &forms[kind];
}

const struct form *form_find(const char *name) {
    for (size_t i = 0; i < FORM_KINDS; i++)
        if (strcmp(forms[i].name, name) == 0)
            return &forms[i];
    return NULL;
}

int form_coefficient_index(const struct form *form, const char *name) {
    for (size_t i = 0; i < form->coefficients; i++)
        if (strcmp(form->coefficient[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* ---- variables ---- */

/* 1-S of the form: by parameters, or by experts for Abnar; E itself for clark. */
static double third_variable(const struct form *form, const struct form_point *p) {
    switch (form->kind) {
    case FORM_ABNAR:
        return p->experts > 0 ? p->top_k / p->experts : 0;
    case FORM_CLARK:
        return p->experts;
    case FORM_MOSAIC:
    case FORM_MOSAIC_NO_G:
    case FORM_CHINCHILLA:
    case FORM_KRAJEWSKI:
        break;
    }
    return 1 - p->sparsity;
}

enum mosaic_status form_variables(const struct form *form, const struct form_point *p,
                                  double x[FORM_VARIABLES], struct status_error *err) {
    const double value[FORM_VARIABLES] = {form->kind == FORM_CLARK ? p->n_active : p->n_total,
                                          p->tokens, third_variable(form, p), p->granularity};
    double out[FORM_VARIABLES] = {0};
    for (size_t v = 0; v < FORM_VARIABLES; v++) {
        if (!form->variable[v])
            continue;
        if (!(isfinite(value[v]) && value[v] > 0))
            return status_set(err, MOSAIC_BAD_INPUT, "the %s form needs %s above 0, not %g",
                              form->name, form->variable[v], value[v]);
        out[v] = log(value[v]);
    }
    if (form->kind == FORM_CLARK && p->experts < 1)
        return status_set(err, MOSAIC_BAD_INPUT, "the clark form needs at least 1 expert, not %g",
                          p->experts);
    memcpy(x, out, sizeof out);
    return MOSAIC_OK;
}

/* ---- frame ---- */

void form_frame_init(struct form_frame *frame, const struct form *form,
                     const double centre[FORM_VARIABLES]) {
    memset(frame, 0, sizeof *frame);
    frame->form = form;
    for (size_t k = 0; k < FORM_MAX_TERMS; k++)
        memcpy(frame->centre[k], centre, sizeof frame->centre[k]);
    for (size_t i = 0; i < form->coefficients; i++)
        frame->is_signed[i] =
            form->coefficient[i].role == FORM_EXPONENT && form->coefficient[i].may_change_sign;
}

static double exponent_of(const struct form_frame *frame, const double *u, size_t i) {
    return frame->is_signed[i] ? u[i] : exp(u[i]);
}

/* sum of exponent times variable over a term. */
static double fall(const struct form_frame *frame, const struct form_term *term, const double *u,
                   const double x[FORM_VARIABLES]) {
    double sum = 0;
    for (size_t v = 0; v < FORM_VARIABLES; v++)
        if (term->exponent[v] >= 0)
            sum += exponent_of(frame, u, (size_t)term->exponent[v]) * x[v];
    return sum;
}

static void clark_to_parameters(const struct form_frame *frame, const double *coefficient,
                                double *u) {
    const double n0 = frame->centre[0][FORM_N];
    const double start = coefficient[4], max = coefficient[5];
    u[CLARK_A] = coefficient[CLARK_A];
    u[CLARK_C] = coefficient[CLARK_C] / ln10;
    u[CLARK_B] = coefficient[CLARK_B] + u[CLARK_C] * n0;
    u[CLARK_D] = coefficient[CLARK_D] * ln10 + u[CLARK_A] * n0;
    u[CLARK_Q] = -log(1 / start - 1 / max);
    u[CLARK_MAX] = log(max);
}

static void clark_from_parameters(const struct form_frame *frame, const double *u,
                                  double *coefficient) {
    const double n0 = frame->centre[0][FORM_N];
    coefficient[CLARK_A] = u[CLARK_A];
    coefficient[CLARK_B] = u[CLARK_B] - u[CLARK_C] * n0;
    coefficient[CLARK_C] = u[CLARK_C] * ln10;
    coefficient[CLARK_D] = (u[CLARK_D] - u[CLARK_A] * n0) / ln10;
    coefficient[4] = 1 / (exp(-u[CLARK_Q]) + exp(-u[CLARK_MAX]));
    coefficient[5] = exp(u[CLARK_MAX]);
}

void form_to_parameters(const struct form_frame *frame, const double *coefficient, double *u) {
    const struct form *form = frame->form;
    if (form->kind == FORM_CLARK) {
        clark_to_parameters(frame, coefficient, u);
        return;
    }
    for (size_t i = 0; i < form->coefficients; i++)
        u[i] = frame->is_signed[i] ? coefficient[i] : log(coefficient[i]);
    for (size_t k = 0; k < form->terms; k++)
        u[form->term[k].amplitude] -= fall(frame, &form->term[k], u, frame->centre[k]);
}

void form_from_parameters(const struct form_frame *frame, const double *u, double *coefficient) {
    const struct form *form = frame->form;
    if (form->kind == FORM_CLARK) {
        clark_from_parameters(frame, u, coefficient);
        return;
    }
    for (size_t i = 0; i < form->coefficients; i++)
        coefficient[i] = exponent_of(frame, u, i);
    for (size_t k = 0; k < form->terms; k++) {
        const int a = form->term[k].amplitude;
        coefficient[a] =
            frame->is_gone[k] ? 0 : exp(u[a] + fall(frame, &form->term[k], u, frame->centre[k]));
    }
}

static void clark_coefficient_gradient(const struct form_frame *frame, const double *u, size_t k,
                                       double *gradient) {
    const double n0 = frame->centre[0][FORM_N];
    double coefficient[FORM_MAX_COEFFICIENTS];
    clark_from_parameters(frame, u, coefficient);
    switch (k) {
    case CLARK_A:
        gradient[CLARK_A] = 1;
        break;
    case CLARK_B:
        gradient[CLARK_B] = 1;
        gradient[CLARK_C] = -n0;
        break;
    case CLARK_C:
        gradient[CLARK_C] = ln10;
        break;
    case CLARK_D:
        gradient[CLARK_D] = 1 / ln10;
        gradient[CLARK_A] = -n0 / ln10;
        break;
    case CLARK_Q:
        gradient[CLARK_Q] = coefficient[4] * coefficient[4] * exp(-u[CLARK_Q]);
        gradient[CLARK_MAX] = coefficient[4] * coefficient[4] * exp(-u[CLARK_MAX]);
        break;
    default:
        gradient[CLARK_MAX] = coefficient[5];
        break;
    }
}

void form_coefficient_gradient(const struct form_frame *frame, const double *u, size_t k,
                               double *gradient) {
    const struct form *form = frame->form;
    memset(gradient, 0, form->coefficients * sizeof *gradient);
    if (form->kind == FORM_CLARK) {
        clark_coefficient_gradient(frame, u, k, gradient);
        return;
    }
    if (form->coefficient[k].role == FORM_EXPONENT) {
        gradient[k] = frame->is_signed[k] ? 1 : exp(u[k]);
        return;
    }
    for (size_t t = 0; t < form->terms; t++) {
        const struct form_term *term = &form->term[t];
        if ((size_t)term->amplitude != k || frame->is_gone[t])
            continue;
        const double value = exp(u[k] + fall(frame, term, u, frame->centre[t]));
        gradient[k] = value;
        for (size_t v = 0; v < FORM_VARIABLES; v++) {
            if (term->exponent[v] < 0)
                continue;
            const size_t i = (size_t)term->exponent[v];
            gradient[i] += value * frame->centre[t][v] * (frame->is_signed[i] ? 1 : exp(u[i]));
        }
    }
}

/* ---- clark ---- */

struct saturation {
    double h;              /* ln Ehat */
    double by_q, by_max;   /* its derivatives in ln q and ln Emax */
    double inv_q, inv_max; /* shares 1/(E-1+q) and 1/Emax of 1/Ehat */
    double q;
};

static struct saturation saturate(const double *u, const double x[FORM_VARIABLES]) {
    struct saturation s = {.q = exp(u[CLARK_Q]), .inv_max = exp(-u[CLARK_MAX])};
    s.inv_q = 1 / (expm1(x[FORM_U]) + s.q);
    const double sum = s.inv_q + s.inv_max;
    s.h = -log(sum);
    s.by_q = s.q * s.inv_q * s.inv_q / sum;
    s.by_max = s.inv_max / sum;
    return s;
}

static double clark_log_loss(const struct form_frame *frame, const double *u,
                             const double x[FORM_VARIABLES], double *gradient) {
    const double n = x[FORM_N] - frame->centre[0][FORM_N];
    const struct saturation s = saturate(u, x);
    const double slope = u[CLARK_B] + u[CLARK_C] * n; /* d ln L / d h */
    if (gradient) {
        gradient[CLARK_A] = n;
        gradient[CLARK_B] = s.h;
        gradient[CLARK_C] = n * s.h;
        gradient[CLARK_D] = 1;
        gradient[CLARK_Q] = slope * s.by_q;
        gradient[CLARK_MAX] = slope * s.by_max;
    }
    return u[CLARK_D] + u[CLARK_A] * n + slope * s.h;
}

static struct form_bend clark_bend(const struct form_frame *frame, const double *u,
                                   const double x[FORM_VARIABLES], const double *v) {
    const double n = x[FORM_N] - frame->centre[0][FORM_N];
    const struct saturation s = saturate(u, x);
    const double vq = v[CLARK_Q], vm = v[CLARK_MAX];
    const double slope = u[CLARK_B] + u[CLARK_C] * n, slope1 = v[CLARK_B] + v[CLARK_C] * n;
    const double sum = s.inv_q + s.inv_max;
    const double h1 = s.by_q * vq + s.by_max * vm;
    const double sum2 =
        s.q * s.inv_q * s.inv_q * (2 * s.q * s.inv_q - 1) * vq * vq + s.inv_max * vm * vm;
    const double h2 = h1 * h1 - sum2 / sum;
    return (struct form_bend){
        .log_loss = u[CLARK_D] + u[CLARK_A] * n + slope * s.h,
        .first = v[CLARK_D] + v[CLARK_A] * n + slope1 * s.h + slope * h1,
        .second = 2 * slope1 * h1 + slope * h2,
    };
}

/* ---- sums of terms ---- */

void form_at_init(struct form_at *at, const struct form_frame *frame, const double *u) {
    const struct form *form = frame->form;
    at->frame = frame;
    at->u = u;
    for (size_t i = 0; i < form->coefficients; i++)
        at->exponent[i] = form->coefficient[i].role == FORM_EXPONENT ? exponent_of(frame, u, i) : 0;
}

/* ln of each term, -infinity when gone; the largest comes back. */
static double log_terms(const struct form_at *at, const double x[FORM_VARIABLES],
                        double l[FORM_MAX_TERMS]) {
    const struct form_frame *frame = at->frame;
    const struct form *form = frame->form;
    double top = -(double)INFINITY;
    for (size_t k = 0; k < form->terms; k++) {
        const struct form_term *term = &form->term[k];
        l[k] = -(double)INFINITY;
        if (frame->is_gone[k])
            continue;
        l[k] = at->u[term->amplitude];
        for (size_t v = 0; v < FORM_VARIABLES; v++)
            if (term->exponent[v] >= 0)
                l[k] -= at->exponent[term->exponent[v]] * (x[v] - frame->centre[k][v]);
        if (l[k] > top)
            top = l[k];
    }
    return top;
}

/* Turns ln terms into shares; ln L comes back. */
static double take_shares(const struct form *form, double top, double l[FORM_MAX_TERMS]) {
    double sum = 0;
    for (size_t k = 0; k < form->terms; k++) {
        l[k] = exp(l[k] - top);
        sum += l[k];
    }
    for (size_t k = 0; k < form->terms; k++)
        l[k] /= sum;
    return sum > 1 ? top + log(sum) : top; /* the largest term alone is 1 */
}

double form_at_log_loss(const struct form_at *at, const double x[FORM_VARIABLES],
                        double *gradient) {
    const struct form_frame *frame = at->frame;
    const struct form *form = frame->form;
    if (form->kind == FORM_CLARK)
        return clark_log_loss(frame, at->u, x, gradient);
    double share[FORM_MAX_TERMS];
    const double top = log_terms(at, x, share);
    const double log_loss = take_shares(form, top, share);
    if (!gradient)
        return log_loss;
    memset(gradient, 0, form->coefficients * sizeof *gradient);
    for (size_t k = 0; k < form->terms; k++) {
        const struct form_term *term = &form->term[k];
        if (frame->is_gone[k])
            continue;
        gradient[term->amplitude] += share[k];
        for (size_t v = 0; v < FORM_VARIABLES; v++)
            if (term->exponent[v] >= 0)
                gradient[term->exponent[v]] -= share[k] * (x[v] - frame->centre[k][v]);
    }
    for (size_t i = 0; i < form->coefficients; i++)
        if (form->coefficient[i].role == FORM_EXPONENT && !frame->is_signed[i])
            gradient[i] *= at->exponent[i];
    return log_loss;
}

double form_log_loss(const struct form_frame *frame, const double *u,
                     const double x[FORM_VARIABLES], double *gradient) {
    struct form_at at;
    form_at_init(&at, frame, u);
    return form_at_log_loss(&at, x, gradient);
}

struct form_bend form_at_bend(const struct form_at *at, const double x[FORM_VARIABLES],
                              const double *v) {
    const struct form_frame *frame = at->frame;
    const struct form *form = frame->form;
    if (form->kind == FORM_CLARK)
        return clark_bend(frame, at->u, x, v);
    double share[FORM_MAX_TERMS];
    const double top = log_terms(at, x, share);
    struct form_bend bend = {.log_loss = take_shares(form, top, share)};
    for (size_t k = 0; k < form->terms; k++) {
        const struct form_term *term = &form->term[k];
        if (frame->is_gone[k])
            continue;
        double first = v[term->amplitude], second = 0;
        for (size_t var = 0; var < FORM_VARIABLES; var++) {
            if (term->exponent[var] < 0)
                continue;
            const size_t i = (size_t)term->exponent[var];
            const double away = x[var] - frame->centre[k][var];
            const double change = frame->is_signed[i] ? v[i] : at->exponent[i] * v[i];
            first -= change * away;
            second -= frame->is_signed[i] ? 0 : change * v[i] * away;
        }
        bend.first += share[k] * first;
        bend.second += share[k] * (second + first * first);
    }
    bend.second -= bend.first * bend.first;
    return bend;
}

void form_terms(const struct form_frame *frame, const double *u, const double x[FORM_VARIABLES],
                double terms[FORM_MAX_TERMS]) {
    struct form_at at;
    form_at_init(&at, frame, u);
    (void)log_terms(&at, x, terms);
    for (size_t k = 0; k < frame->form->terms; k++)
        terms[k] = exp(terms[k]);
}

void form_shapes(const struct form_frame *frame, const double *u, const double x[FORM_VARIABLES],
                 double shapes[FORM_MAX_TERMS]) {
    struct form_at at;
    form_at_init(&at, frame, u);
    (void)log_terms(&at, x, shapes);
    for (size_t k = 0; k < frame->form->terms; k++)
        if (!frame->is_gone[k])
            shapes[k] -= u[frame->form->term[k].amplitude];
}

enum mosaic_status form_loss(const struct form *form, const double *coefficient,
                             const struct form_point *p, double *loss, struct status_error *err) {
    double x[FORM_VARIABLES] = {0}, u[FORM_MAX_COEFFICIENTS] = {0};
    struct form_frame frame;
    TRY(form_variables(form, p, x, err));
    /* At the point itself the terms are their own amplitudes: nothing to cancel. */
    form_frame_init(&frame, form, x);
    for (size_t i = 0; i < form->coefficients; i++)
        frame.is_signed[i] = form->coefficient[i].role == FORM_EXPONENT;
    form_to_parameters(&frame, coefficient, u);
    const double value = exp(form_log_loss(&frame, u, x, NULL));
    if (!isfinite(value))
        return status_set(err, MOSAIC_NUMERIC, "the %s form is not finite at this point",
                          form->name);
    *loss = value;
    return MOSAIC_OK;
}
