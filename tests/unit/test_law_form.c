// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The law forms: values against the formulas written out, gradients and curvature against
 * differences in every parametrisation, coefficients through parameters and back.
 */
#include "law/form.h"

#include "close.h"
#include "law/form_repeat.h"
#include "law/law.h"
#include "paper_law.h"

#include <string.h>

enum { POINTS = 12 };

/* Published or plausible coefficients of each form. */
static const double known[FORM_KINDS][FORM_MAX_COEFFICIENTS] = {
    [FORM_MOSAIC] = {8.462, 88.32, .1828, .7123, .3129, .1048, .2070, .1249, .5567, .1702, .9513},
    [FORM_MOSAIC_NO_G] = {8.462, 88.32, .1828, .7123, .3129, .1048, .2070, .1249, .5567, .1702},
    [FORM_ABNAR] = {16612.5, 5455.67, .4598, 17.26, .94, .5962, .3954, -.1666, .1603, .1595},
    [FORM_CHINCHILLA] = {482.01, 2085.43, 1.8172, .3478, .3658},
    [FORM_KRAJEWSKI] = {18.1, 30.8, 2.1, .47, .115, .147, .58},
    [FORM_CLARK] = {-.082, -.108, .009, 1.104, 1.847, 314.478},
};

static struct form_point point(int i) {
    struct form_point p = {.n_total = 1e8 * pow(1.9, i),
                           .tokens = 4e12 / pow(2.1, i),
                           .granularity = 1 + i % 7,
                           .experts = 4 << i % 8,
                           .top_k = 1 + i % 3};
    p.sparsity = .98 * i / POINTS;
    p.n_active = p.n_total * (1 - p.sparsity);
    return p;
}

static void values_equal_the_formulas(void **state) {
    (void)state;
    struct status_error err;
    for (int i = 0; i < POINTS; i++) {
        const struct form_point p = point(i);
        const struct law_point q = {p.n_total, p.tokens, p.sparsity, p.granularity};
        double loss;
        assert_int_equal(form_loss(form_of(FORM_MOSAIC), known[FORM_MOSAIC], &p, &loss, &err), 0);
        assert_close(loss, law_loss(&paper_law, &q), 1e-13);

        const double *c = known[FORM_ABNAR];
        const double k = p.top_k / p.experts;
        assert_int_equal(form_loss(form_of(FORM_ABNAR), c, &p, &loss, &err), 0);
        assert_close(loss,
                     c[0] / pow(p.n_total, c[5]) + c[1] / pow(p.tokens, c[6]) +
                         c[2] / pow(k, c[7]) + c[3] / (pow(k, c[8]) * pow(p.n_total, c[9])) + c[4],
                     1e-13);

        c = known[FORM_CHINCHILLA];
        assert_int_equal(form_loss(form_of(FORM_CHINCHILLA), c, &p, &loss, &err), 0);
        assert_close(loss, c[0] / pow(p.n_total, c[3]) + c[1] / pow(p.tokens, c[4]) + c[2], 1e-13);

        c = known[FORM_KRAJEWSKI];
        assert_int_equal(form_loss(form_of(FORM_KRAJEWSKI), c, &p, &loss, &err), 0);
        assert_close(loss,
                     c[3] + (c[2] / pow(p.granularity, c[6]) + c[0]) / pow(p.n_total, c[4]) +
                         c[1] / pow(p.tokens, c[5]),
                     1e-13);

        c = known[FORM_CLARK];
        const double e = p.experts;
        const double saturated = 1 / (1 / (e - 1 + 1 / (1 / c[4] - 1 / c[5])) + 1 / c[5]);
        const double n = log10(p.n_active), h = log10(saturated);
        assert_int_equal(form_loss(form_of(FORM_CLARK), c, &p, &loss, &err), 0);
        assert_close(loss, pow(10, c[0] * n + c[1] * h + c[2] * n * h + c[3]), 1e-13);
    }
}

/* MOSAIC counts sparsity by parameters, Abnar by experts, Clark takes the experts. */
static void each_form_reads_its_own_sparsity(void **state) {
    (void)state;
    struct status_error err;
    struct form_point p = point(4);
    double x[FORM_VARIABLES];
    p.experts = 64;
    p.top_k = 1;
    assert_int_equal(form_variables(form_of(FORM_ABNAR), &p, x, &err), MOSAIC_OK);
    assert_close(exp(x[FORM_U]), 1.0 / 64, 1e-14);
    assert_int_equal(form_variables(form_of(FORM_MOSAIC), &p, x, &err), MOSAIC_OK);
    assert_close(exp(x[FORM_U]), 1 - p.sparsity, 1e-14);
    assert_int_equal(form_variables(form_of(FORM_CLARK), &p, x, &err), MOSAIC_OK);
    assert_close(exp(x[FORM_U]), 64.0, 1e-14);
    p.experts = 0;
    assert_int_equal(form_variables(form_of(FORM_ABNAR), &p, x, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "K/E"));
    assert_int_equal(form_variables(form_of(FORM_CLARK), &p, x, &err), MOSAIC_BAD_INPUT);
    assert_int_equal(form_variables(form_of(FORM_CHINCHILLA), &p, x, &err), MOSAIC_OK);
    assert_close_abs(x[FORM_U], 0, 0);
    p.tokens = (double)NAN;
    assert_int_equal(form_variables(form_of(FORM_CHINCHILLA), &p, x, &err), MOSAIC_BAD_INPUT);
}

static void names(void **state) {
    (void)state;
    for (size_t k = 0; k < FORM_KINDS; k++) {
        const struct form *form = form_of((enum form_kind)k);
        assert_int_equal(form->kind, k);
        assert_ptr_equal(form_find(form->name), form);
        for (size_t i = 0; i < form->coefficients; i++)
            assert_int_equal(form_coefficient_index(form, form->coefficient[i].name), i);
        assert_int_equal(form_coefficient_index(form, "omega"), -1);
    }
    assert_null(form_find("kaplan"));
}

static void frame_at(struct form_frame *frame, const struct form *form) {
    const double centre[FORM_VARIABLES] = {21.5, 24.5, -1.7, 0.9};
    form_frame_init(frame, form, centre);
}

static void parameters_and_back(void **state) {
    (void)state;
    for (size_t k = 0; k < FORM_KINDS; k++) {
        const struct form *form = form_of((enum form_kind)k);
        struct form_frame frame;
        double u[FORM_MAX_COEFFICIENTS], back[FORM_MAX_COEFFICIENTS];
        frame_at(&frame, form);
        form_to_parameters(&frame, known[k], u);
        form_from_parameters(&frame, u, back);
        for (size_t i = 0; i < form->coefficients; i++)
            assert_close(back[i], known[k][i], 1e-12);
    }
}

/* A frame with the first exponents signed, to cover both. */
static void mixed_frame(struct form_frame *frame, const struct form *form, bool some_signed) {
    frame_at(frame, form);
    for (size_t i = 0; some_signed && i < form->coefficients; i += 2)
        frame->is_signed[i] = form->coefficient[i].role == FORM_EXPONENT;
}

static void check_derivatives(const struct form_frame *frame, const double *coefficient) {
    const struct form *form = frame->form;
    struct status_error err;
    const double h = 1e-5;
    double u[FORM_MAX_COEFFICIENTS], gradient[FORM_MAX_COEFFICIENTS];
    form_to_parameters(frame, coefficient, u);
    for (int i = 0; i < POINTS; i++) {
        const struct form_point p = point(i);
        double x[FORM_VARIABLES], along[FORM_MAX_COEFFICIENTS];
        assert_int_equal(form_variables(form, &p, x, &err), MOSAIC_OK);
        const double middle = form_log_loss(frame, u, x, gradient);
        double low[FORM_MAX_COEFFICIENTS], high[FORM_MAX_COEFFICIENTS], slope = 0;
        for (size_t k = 0; k < form->coefficients; k++) {
            double moved[FORM_MAX_COEFFICIENTS];
            memcpy(moved, u, sizeof moved);
            moved[k] = u[k] + h;
            const double above = form_log_loss(frame, moved, x, NULL);
            moved[k] = u[k] - h;
            const double below = form_log_loss(frame, moved, x, NULL);
            assert_close_abs(gradient[k], (above - below) / (2 * h), 1e-8);
            along[k] = sin((double)k + 1 + i);
            slope += along[k] * gradient[k];
            low[k] = u[k] - h * along[k];
            high[k] = u[k] + h * along[k];
        }
        double g_low[FORM_MAX_COEFFICIENTS], g_high[FORM_MAX_COEFFICIENTS], bend = 0;
        assert_close_abs(form_log_loss(frame, high, x, g_high) -
                             form_log_loss(frame, low, x, g_low),
                         2 * h * slope, 1e-9);
        for (size_t k = 0; k < form->coefficients; k++)
            bend += along[k] * (g_high[k] - g_low[k]) / (2 * h);
        struct form_at at;
        form_at_init(&at, frame, u);
        const struct form_bend got = form_at_bend(&at, x, along);
        assert_close_abs(got.log_loss, middle, 1e-14);
        assert_close_abs(got.first, slope, 1e-12 * (1 + fabs(slope)));
        assert_close_abs(got.second, bend, 1e-6 * (1 + fabs(bend)));
        assert_true(isfinite(middle));
    }
}

static void derivatives_equal_differences(void **state) {
    (void)state;
    for (size_t k = 0; k < FORM_KINDS; k++)
        for (int some_signed = 0; some_signed < 2; some_signed++) {
            struct form_frame frame;
            mixed_frame(&frame, form_of((enum form_kind)k), some_signed);
            check_derivatives(&frame, known[k]);
        }
}

static void coefficient_gradients_equal_differences(void **state) {
    (void)state;
    const double h = 1e-6;
    for (size_t k = 0; k < FORM_KINDS; k++) {
        const struct form *form = form_of((enum form_kind)k);
        struct form_frame frame;
        double u[FORM_MAX_COEFFICIENTS], low[FORM_MAX_COEFFICIENTS], high[FORM_MAX_COEFFICIENTS],
            gradient[FORM_MAX_COEFFICIENTS];
        mixed_frame(&frame, form, true);
        form_to_parameters(&frame, known[k], u);
        for (size_t c = 0; c < form->coefficients; c++) {
            form_coefficient_gradient(&frame, u, c, gradient);
            for (size_t i = 0; i < form->coefficients; i++) {
                const double was = u[i];
                u[i] = was + h;
                form_from_parameters(&frame, u, high);
                u[i] = was - h;
                form_from_parameters(&frame, u, low);
                u[i] = was;
                assert_close_abs(gradient[i], (high[c] - low[c]) / (2 * h),
                                 1e-6 * (fabs(known[k][c]) + fabs(gradient[i])));
            }
        }
    }
}

static void terms_sum_and_go(void **state) {
    (void)state;
    struct status_error err;
    const struct form *form = form_of(FORM_MOSAIC);
    struct form_frame frame;
    double u[FORM_MAX_COEFFICIENTS], x[FORM_VARIABLES], terms[FORM_MAX_TERMS],
        shapes[FORM_MAX_TERMS], gradient[FORM_MAX_COEFFICIENTS], back[FORM_MAX_COEFFICIENTS];
    const struct form_point p = point(5);
    frame_at(&frame, form);
    form_to_parameters(&frame, known[FORM_MOSAIC], u);
    assert_int_equal(form_variables(form, &p, x, &err), MOSAIC_OK);
    form_terms(&frame, u, x, terms);
    form_shapes(&frame, u, x, shapes);
    double sum = 0;
    for (size_t k = 0; k < form->terms; k++) {
        sum += terms[k];
        assert_close(exp(shapes[k] + u[form->term[k].amplitude]), terms[k], 1e-12);
    }
    assert_close(log(sum), form_log_loss(&frame, u, x, NULL), 1e-14);

    frame.is_gone[3] = true; /* the joint term, whatever its parameters hold */
    u[3] = (double)NAN;
    assert_close(form_log_loss(&frame, u, x, gradient), log(sum - terms[3]), 1e-14);
    assert_close_abs(gradient[3], 0, 0);
    assert_close_abs(gradient[10], 0, 0);
    form_from_parameters(&frame, u, back);
    assert_close_abs(back[3], 0, 0);
}

/* Far parameters overflow nothing. */
static void far_parameters_stay_finite(void **state) {
    (void)state;
    struct status_error err;
    const struct form *form = form_of(FORM_MOSAIC);
    struct form_frame frame;
    double u[FORM_MAX_COEFFICIENTS], x[FORM_VARIABLES], gradient[FORM_MAX_COEFFICIENTS];
    const struct form_point p = point(POINTS - 1);
    frame_at(&frame, form);
    assert_int_equal(form_variables(form, &p, x, &err), MOSAIC_OK);
    for (size_t i = 0; i < form->coefficients; i++)
        u[i] = i < 5 ? 700.0 : 5.0;
    assert_true(isfinite(form_log_loss(&frame, u, x, gradient)));
    for (size_t i = 0; i < form->coefficients; i++)
        assert_true(isfinite(gradient[i]));
    const double top[FORM_MAX_COEFFICIENTS] = {1e300, 1, 1, 1, 1, -60, 1, 1, 1, 1, 1};
    double loss = 3;
    assert_int_equal(form_loss(form, top, &p, &loss, &err), MOSAIC_NUMERIC);
    assert_close_abs(loss, 3, 0);
}

/* U73: 8.7e9 parameters, 178e9 tokens of the C4 law, from 1, 7 and 44 epochs. */
static void repeated_tokens_are_worth_less(void **state) {
    static const double law[] = {520.8, 1487.7, 1.8691, .35266, .35266};
    static const double epochs[] = {1, 7, 44}, want[] = {2.192, 2.226, 2.419};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct status_error err;
        double loss;
        const double unique = 178e9 / epochs[i], suited = form_repeat_suited(law, unique);
        const struct form_point p = {.n_total = form_repeat_parameters(8.7e9, suited),
                                     .tokens = form_repeat_tokens(178e9, unique)};
        assert_int_equal(form_loss(form_of(FORM_CHINCHILLA), law, &p, &loss, &err), MOSAIC_OK);
        assert_close_abs(loss, want[i], 7e-4);
    }
    /* 4 epochs keep 93 % of their worth, 16 keep 66 %; the first epoch keeps all. */
    assert_close_abs(form_repeat_tokens(4e9, 1e9) / 4e9, .93, .005);
    assert_close_abs(form_repeat_tokens(16e9, 1e9) / 16e9, .66, .005);
    assert_close(form_repeat_tokens(1e9, 1e9), 1e9, 0);
    assert_close(form_repeat_tokens(5e8, 1e9), 5e8, 0);
    assert_true(form_repeat_tokens(1e15, 1e9) < 16.5e9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_equal_the_formulas),
        cmocka_unit_test(each_form_reads_its_own_sparsity),
        cmocka_unit_test(names),
        cmocka_unit_test(parameters_and_back),
        cmocka_unit_test(derivatives_equal_differences),
        cmocka_unit_test(coefficient_gradients_equal_differences),
        cmocka_unit_test(terms_sum_and_go),
        cmocka_unit_test(far_parameters_stay_finite),
        cmocka_unit_test(repeated_tokens_are_worth_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
