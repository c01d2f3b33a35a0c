// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A term is known by the variables that its exponents act on.  With none it is a second floor, with
 * those of an earlier term it is a copy of that term as far as these data go.
 */
#include "fit/fit_model.h"

#include <math.h>
#include <string.h>

static const double vanished_share = 1e-6; /* of the loss, in every run */
static const double rounding_span = 1e-6;  /* of a logarithm: the same but for printing */
static const double flat_effect = 1e-7;    /* exponent times span of its variable */

static void add_drop(struct fit_drops *drops, struct fit_drop drop) {
    for (size_t i = 0; i < drops->count; i++)
        if (drops->items[i].coefficient == drop.coefficient)
            return;
    if (drops->count < sizeof drops->items / sizeof drops->items[0])
        drops->items[drops->count++] = drop;
}

size_t fit_model_free_count(const struct fit_model *model) {
    size_t count = 0;
    for (size_t i = 0; i < model->frame.form->coefficients; i++)
        count += model->is_free[i];
    return count;
}

/* ---- coefficients given ---- */

static enum mosaic_status fix_clark(const struct fit_fixed *fixed, struct fit_model *model,
                                    struct diag_list *diags) {
    static const double ln10 = 2.302585092994045684;
    memset(model->frame.centre, 0, sizeof model->frame.centre);
    for (size_t i = 0; i < model->frame.form->coefficients; i++) {
        if (!fixed->is_fixed[i])
            continue;
        if (i == 4 || (i == 5 && !(fixed->value[i] > 0)))
            return diag_error(diags, NULL, "%s cannot be fixed at %g",
                              model->frame.form->coefficient[i].name, fixed->value[i]);
        const double written[] = {
            fixed->value[i],     fixed->value[i], fixed->value[i] / ln10, fixed->value[i] * ln10, 0,
            log(fixed->value[i])};
        model->u[i] = written[i];
        model->is_free[i] = false;
    }
    return MOSAIC_OK;
}

static enum mosaic_status fix_given(const struct fit_fixed *fixed, struct fit_model *model,
                                    struct diag_list *diags) {
    const struct form *form = model->frame.form;
    bool any = false;
    for (size_t i = 0; i < form->coefficients; i++) {
        any = any || fixed->is_fixed[i];
        if (fixed->is_fixed[i] && !isfinite(fixed->value[i]))
            return diag_error(diags, NULL, "%s is fixed at %g", form->coefficient[i].name,
                              fixed->value[i]);
    }
    if (any && form->kind == FORM_CLARK)
        return fix_clark(fixed, model, diags);
    for (size_t i = 0; i < form->coefficients; i++) {
        if (!fixed->is_fixed[i])
            continue;
        model->is_free[i] = false;
        if (form->coefficient[i].role == FORM_EXPONENT) {
            model->frame.is_signed[i] = true; /* 0 and negative values are as good */
            model->u[i] = fixed->value[i];
            continue;
        }
        if (fixed->value[i] < 0)
            return diag_error(diags, NULL, "%s is fixed at %g; it cannot be negative",
                              form->coefficient[i].name, fixed->value[i]);
        model->u[i] = log(fixed->value[i]);
        for (size_t k = 0; k < form->terms; k++) {
            if ((size_t)form->term[k].amplitude != i)
                continue;
            /* The amplitude itself is known, not the term at the centre. */
            memset(model->frame.centre[k], 0, sizeof model->frame.centre[k]);
            model->frame.is_gone[k] = !(fixed->value[i] > 0);
        }
    }
    return MOSAIC_OK;
}

/* ---- what the data cannot tell ---- */

static void drop_exponent(struct fit_model *model, size_t i) {
    model->u[i] = model->frame.is_signed[i] ? 0 : -(double)INFINITY;
    model->is_free[i] = false;
}

/* Exponents that only this term uses go with it. */
static void drop_term(struct fit_model *model, size_t k) {
    const struct form *form = model->frame.form;
    model->frame.is_gone[k] = true;
    model->is_free[form->term[k].amplitude] = false;
    for (size_t v = 0; v < FORM_VARIABLES; v++) {
        const int i = form->term[k].exponent[v];
        bool is_shared = false;
        for (size_t other = 0; other < form->terms; other++)
            is_shared =
                is_shared || (!model->frame.is_gone[other] && form->term[other].exponent[v] == i);
        if (i >= 0 && !is_shared && model->is_free[i])
            drop_exponent(model, (size_t)i);
    }
}

/* Bits of the variables that a term depends on, aliases resolved. */
static unsigned shape_of(const struct fit_data *data, const struct fit_model *model, size_t k) {
    unsigned set = 0;
    for (size_t v = 0; v < FORM_VARIABLES; v++) {
        const int i = model->frame.form->term[k].exponent[v];
        if (i >= 0 && !data->is_constant[v] && (model->is_free[i] || fabs(model->u[i]) > 0))
            if (model->is_free[i] || model->frame.is_signed[i])
                set |= 1U << data->alias[v];
    }
    return set;
}

static void drop_exponents(const struct fit_data *data, struct fit_model *model,
                           struct fit_drops *drops) {
    const struct form *form = model->frame.form;
    for (size_t k = 0; k < form->terms; k++) {
        unsigned seen = 0;
        if (model->frame.is_gone[k])
            continue;
        for (size_t v = 0; v < FORM_VARIABLES; v++) {
            const int i = form->term[k].exponent[v];
            if (i < 0)
                continue;
            const bool is_seen = seen >> data->alias[v] & 1U;
            seen |= 1U << data->alias[v];
            if (!model->is_free[i] || (!data->is_constant[v] && !is_seen))
                continue;
            drop_exponent(model, (size_t)i);
            add_drop(drops, (struct fit_drop){.coefficient = (size_t)i,
                                              .reason = data->is_constant[v] ? FIT_DROP_CONSTANT
                                                                             : FIT_DROP_ALIAS,
                                              .variable = (enum form_variable)v,
                                              .other = data->alias[v]});
        }
    }
}

/* The earlier free term of the same shape, or -1. */
static int same_term(const struct fit_data *data, const struct fit_model *model, size_t k) {
    const struct form *form = model->frame.form;
    const unsigned shape = shape_of(data, model, k);
    for (size_t i = 0; i < form->terms; i++) {
        const bool may_hold = shape == 0 ? (int)i == form->floor : i < k;
        if (may_hold && i != k && !model->frame.is_gone[i] &&
            model->is_free[form->term[i].amplitude] && shape_of(data, model, i) == shape)
            return (int)i;
    }
    return -1;
}

/* A term by its own variable where that is the cause. */
static struct fit_drop drop_of_term(const struct fit_data *data, const struct form *form, size_t k,
                                    int holder) {
    struct fit_drop drop = {.coefficient = (size_t)form->term[k].amplitude,
                            .is_term = true,
                            .reason = FIT_DROP_SAME,
                            .term = (size_t)holder};
    for (size_t v = 0; v < FORM_VARIABLES; v++) {
        if (form->term[k].exponent[v] < 0)
            continue;
        drop.variable = (enum form_variable)v;
        drop.other = data->alias[v];
    }
    return drop;
}

static void drop_terms(const struct fit_data *data, struct fit_model *model,
                       struct fit_drops *drops) {
    const struct form *form = model->frame.form;
    for (size_t k = 0; k < form->terms; k++) {
        if (model->frame.is_gone[k] || !model->is_free[form->term[k].amplitude] ||
            (int)k == form->floor)
            continue;
        const int holder = same_term(data, model, k);
        if (holder < 0)
            continue;
        drop_term(model, k);
        add_drop(drops, drop_of_term(data, form, k, holder));
    }
}

/* An exponent that went with its term is not worth a sentence of its own. */
static void forget_exponents(const struct fit_model *model, struct fit_drops *drops) {
    const struct form *form = model->frame.form;
    size_t kept = 0;
    for (size_t i = 0; i < drops->count; i++) {
        bool is_used = drops->items[i].is_term;
        for (size_t k = 0; k < form->terms; k++)
            for (size_t v = 0; v < FORM_VARIABLES; v++)
                is_used =
                    is_used || (!model->frame.is_gone[k] &&
                                form->term[k].exponent[v] == (int)drops->items[i].coefficient);
        if (is_used)
            drops->items[kept++] = drops->items[i];
    }
    drops->count = kept;
}

/* clark without a change in N or E. */
static void drop_clark(const struct fit_data *data, struct fit_model *model,
                       struct fit_drops *drops) {
    static const struct {
        size_t coefficient;
        enum form_variable variable;
        double value;
    } needs[] = {{0, FORM_N, 0}, {2, FORM_N, 0}, {1, FORM_U, 0},
                 {2, FORM_U, 0}, {4, FORM_U, 0}, {5, FORM_U, 10}};
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        const size_t c = needs[i].coefficient;
        if (!data->is_constant[needs[i].variable] || !model->is_free[c])
            continue;
        model->is_free[c] = false;
        model->u[c] = needs[i].value;
        add_drop(drops, (struct fit_drop){.coefficient = c,
                                          .reason = FIT_DROP_CONSTANT,
                                          .variable = needs[i].variable});
    }
}

enum mosaic_status fit_model_prepare(const struct fit_data *data, const struct fit_fixed *fixed,
                                     struct fit_model *model, struct fit_drops *drops,
                                     struct diag_list *diags) {
    const struct form *form = data->form;
    bool varies = false;
    memset(model, 0, sizeof *model);
    memset(drops, 0, sizeof *drops);
    form_frame_init(&model->frame, form, data->centre);
    for (size_t i = 0; i < form->coefficients; i++)
        model->is_free[i] = true;
    if (fixed)
        TRY(fix_given(fixed, model, diags));
    for (size_t v = 0; v < FORM_VARIABLES; v++)
        varies = varies || (form->variable[v] && !data->is_constant[v]);
    if (!varies)
        return diag_error(diags, NULL, "nothing that the %s form uses changes between the runs",
                          form->name);
    if (form->kind == FORM_CLARK) {
        drop_clark(data, model, drops);
        return MOSAIC_OK;
    }
    drop_exponents(data, model, drops);
    drop_terms(data, model, drops);
    forget_exponents(model, drops);
    return MOSAIC_OK;
}

/* ---- pruning ---- */

static bool has_vanished(const struct fit_model *model, const struct fit_data *data, size_t k) {
    for (size_t i = 0; i < data->count; i++) {
        double terms[FORM_MAX_TERMS], sum = 0;
        form_terms(&model->frame, model->u, data->rows[i].x, terms);
        for (size_t t = 0; t < model->frame.form->terms; t++)
            sum += terms[t];
        if (terms[k] > vanished_share * sum)
            return false;
    }
    return true;
}

/* A term whose last exponent has gone is part of the floor. */
static void merge_flat(struct fit_model *model, const struct fit_data *data, size_t k,
                       struct fit_drops *drops) {
    const struct form *form = model->frame.form;
    const int a = form->term[k].amplitude;
    if (shape_of(data, model, k) != 0 || form->floor < 0 || (int)k == form->floor)
        return;
    const size_t floor = (size_t)form->floor;
    const int e = form->term[floor].amplitude;
    if (!model->is_free[e] || !model->is_free[a] || model->frame.is_gone[floor])
        return;
    const double top = fmax(model->u[a], model->u[e]);
    model->u[e] = top + log(exp(model->u[a] - top) + exp(model->u[e] - top));
    drop_term(model, k);
    add_drop(drops, (struct fit_drop){.coefficient = (size_t)a,
                                      .is_term = true,
                                      .reason = FIT_DROP_SAME,
                                      .term = floor});
}

static void leave_term(struct fit_model *model, size_t k, struct fit_drops *drops) {
    const size_t a = (size_t)model->frame.form->term[k].amplitude;
    drop_term(model, k);
    add_drop(drops,
             (struct fit_drop){.coefficient = a, .is_term = true, .reason = FIT_DROP_VANISHED});
}

static void leave_exponent(struct fit_model *model, const struct fit_data *data, size_t i,
                           struct fit_drops *drops) {
    const struct form *form = model->frame.form;
    drop_exponent(model, i);
    for (size_t k = 0; k < form->terms; k++)
        for (size_t v = 0; v < FORM_VARIABLES; v++)
            if (!model->frame.is_gone[k] && form->term[k].exponent[v] == (int)i) {
                add_drop(drops, (struct fit_drop){.coefficient = i,
                                                  .reason = FIT_DROP_FLAT,
                                                  .variable = (enum form_variable)v});
                merge_flat(model, data, k, drops);
            }
}

void fit_model_leave_out(struct fit_model *model, const struct fit_data *data, size_t coefficient,
                         struct fit_drops *drops) {
    const struct form *form = model->frame.form;
    if (form->coefficient[coefficient].role == FORM_EXPONENT) {
        leave_exponent(model, data, coefficient, drops);
        return;
    }
    for (size_t k = 0; k < form->terms; k++)
        if ((size_t)form->term[k].amplitude == coefficient && !model->frame.is_gone[k])
            leave_term(model, k, drops);
}

/* The widest span of a variable that an exponent acts on. */
static double span_of(const struct fit_model *model, const struct fit_data *data, size_t i) {
    const struct form *form = model->frame.form;
    double span = 0;
    for (size_t k = 0; k < form->terms; k++)
        for (size_t v = 0; v < FORM_VARIABLES; v++)
            if (!model->frame.is_gone[k] && form->term[k].exponent[v] == (int)i)
                span = fmax(span, data->high[v] - data->low[v]);
    return span;
}

bool fit_model_prune(struct fit_model *model, const struct fit_data *data,
                     struct fit_drops *drops) {
    const struct form *form = model->frame.form;
    const double faint = data->mean_log_loss + log(vanished_share);
    bool any = false;
    if (form->kind == FORM_CLARK)
        return false;
    /* At the centre first: all rows are looked at only when a term is small there. */
    for (size_t k = 0; k < form->terms; k++)
        if (!model->frame.is_gone[k] && model->is_free[form->term[k].amplitude] &&
            model->u[form->term[k].amplitude] < faint && has_vanished(model, data, k)) {
            leave_term(model, k, drops);
            any = true;
        }
    for (size_t i = 0; i < form->coefficients; i++)
        if (form->coefficient[i].role == FORM_EXPONENT && model->is_free[i] &&
            !model->frame.is_signed[i] &&
            exp(model->u[i]) * span_of(model, data, i) <= flat_effect) {
            leave_exponent(model, data, i, drops);
            any = true;
        }
    return any;
}

/* ---- report ---- */

static const char *sameness(const struct fit_data *data, enum form_variable v) {
    return data->high[v] - data->low[v] > rounding_span ? "to 2 % in all runs" : "in all runs";
}

static void report_term(const struct fit_drop *drop, const struct fit_data *data,
                        struct diag_list *diags) {
    const struct form *form = data->form;
    const char *name = form->coefficient[drop->coefficient].name;
    const char *term = name;
    for (size_t k = 0; k < form->terms; k++)
        if ((size_t)form->term[k].amplitude == drop->coefficient)
            term = form->term[k].name;
    if (drop->reason == FIT_DROP_VANISHED) {
        diag_warning(diags, NULL, "the %s term vanished: %s = 0 fits best", term, name);
        return;
    }
    const char *holder = form->term[drop->term].name;
    const char *holds = form->coefficient[form->term[drop->term].amplitude].name;
    if (data->is_constant[drop->variable])
        diag_warning(diags, NULL, "the %s term is dropped: %s is %.4g %s; %s holds it", term,
                     form->variable[drop->variable], exp(data->centre[drop->variable]),
                     sameness(data, drop->variable), holds);
    else if (drop->other != drop->variable)
        diag_warning(diags, NULL,
                     "the %s term is dropped: %s follows %s in these runs, so it cannot be told "
                     "from the %s term; the law holds along that line only",
                     term, form->variable[drop->variable], form->variable[drop->other], holder);
    else
        diag_warning(diags, NULL, "the %s term is dropped: it has the shape of the %s term here",
                     term, holder);
}

void fit_drops_report(const struct fit_drops *drops, const struct fit_data *data,
                      struct diag_list *diags) {
    const struct form *form = data->form;
    for (size_t i = 0; i < drops->count; i++) {
        const struct fit_drop *drop = &drops->items[i];
        const char *name = form->coefficient[drop->coefficient].name;
        if (drop->is_term)
            report_term(drop, data, diags);
        else if (drop->reason == FIT_DROP_CONSTANT)
            diag_warning(diags, NULL, "%s is dropped: %s is %.4g %s", name,
                         form->variable[drop->variable], exp(data->centre[drop->variable]),
                         sameness(data, drop->variable));
        else if (drop->reason == FIT_DROP_ALIAS)
            diag_warning(diags, NULL, "%s is dropped: %s follows %s in these runs", name,
                         form->variable[drop->variable], form->variable[drop->other]);
        else
            diag_warning(diags, NULL, "%s went to 0: its term does not change with %s", name,
                         form->variable[drop->variable]);
    }
    for (size_t v = 0; v < FORM_VARIABLES; v++)
        if (data->is_dependent[v])
            diag_warning(diags, NULL,
                         "%s follows from the other variables in these runs: the law can tell "
                         "their effects apart only by its form",
                         form->variable[v]);
}
