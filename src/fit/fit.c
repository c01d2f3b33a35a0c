// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Starts write their own slots and are compared in order afterwards, so threads change nothing.
 */
#include "fit/fit.h"

#include "base/clock.h"
#include "base/suggest.h"
#include "fit/seed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double same_minimum = 1e-6;      /* relative difference of two objectives */
static const double rounding_square = 1e-20;  /* per run: objectives below are all zero */
static const double doubtful_gradient = 1e-6; /* cosine */
static const double revived_share = 1e-2;     /* of the mean loss */
static const double largest_coefficient = 1e60;

struct start {
    struct fit_model model;
    struct fit_drops drops;
    struct descend_outcome outcome;
    bool is_tried, is_done;
};

struct search {
    const struct fit_data *data;
    const struct fit_options *options;
    const struct fit_model *model;
    const struct fit_drops *drops;
    struct start *starts;
};

void fit_options_init(struct fit_options *options) {
    *options = (struct fit_options){.measure = {.delta = (double)INFINITY},
                                    .starts = FIT_STARTS,
                                    .seed = 1,
                                    .limits = {FIT_TOLERANCE, FIT_MAX_ITERATIONS}};
}

static const char *coefficient_at(const void *context, size_t index) {
    const struct form *form = context;
    return form->coefficient[index].name;
}

enum mosaic_status fit_options_fix(struct fit_options *options, const struct form *form,
                                   const char *name, double value, struct status_error *err) {
    const int i = form_coefficient_index(form, name);
    if (i >= 0) {
        options->fixed.is_fixed[i] = true;
        options->fixed.value[i] = value;
        return MOSAIC_OK;
    }
    char shown[STATUS_QUOTE_MAX];
    (void)status_set(err, MOSAIC_BAD_INPUT, "the %s form has no coefficient '%s'", form->name,
                     status_quote(name, shown, sizeof shown));
    const char *near = suggest_from(name, coefficient_at, form, form->coefficients);
    if (near)
        status_hint(err, "is it '%s'?", near);
    return MOSAIC_BAD_INPUT;
}

double fit_log_loss(const struct fit *fit, const double x[FORM_VARIABLES]) {
    return form_log_loss(&fit->model.frame, fit->model.u, x, NULL);
}

/* ---- starts ---- */

static void run_start(void *context, int worker, size_t index) {
    const struct search *search = context;
    struct start *start = &search->starts[index];
    (void)worker;
    if (index > 0 && clock_stopped(search->options->stop))
        return;
    start->is_tried = true;
    start->model = *search->model;
    start->drops = *search->drops;
    if (!seed_model(search->data, search->options->seed, index, &start->model))
        return;
    descend(search->data, &search->options->measure, &search->options->limits, &start->model,
            &start->drops, &start->outcome);
    start->is_done = start->outcome.end != DESCEND_FAILED;
}

static bool is_same_minimum(const struct fit_data *data, double objective, double best) {
    return objective <= best * (1 + same_minimum) + rounding_square * (double)data->count;
}

static void take(const struct fit_data *data, const struct fit_model *model,
                 const struct descend_outcome *outcome, struct fit *fit) {
    fit->model = *model;
    form_from_parameters(&model->frame, model->u, fit->coefficient);
    fit->rows = data->count;
    fit->parameters = fit_model_free_count(model);
    fit->is_determined = data->distinct > fit->parameters;
    fit->objective = outcome->objective;
    fit->gradient = outcome->gradient;
    fit->iterations += outcome->iterations;
    fit->is_converged = outcome->end == DESCEND_CONVERGED || outcome->end == DESCEND_STALLED;
    if (outcome->objective > rounding_square * (double)data->count)
        fit->is_converged = fit->is_converged && outcome->gradient <= doubtful_gradient;
}

/* The best start, once more from where it ended; how many others got there. */
static bool choose(const struct search *search, struct fit *fit) {
    const size_t count = search->options->starts;
    const struct start *best = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct start *start = &search->starts[i];
        fit->starts += start->is_tried;
        fit->iterations += start->outcome.iterations;
        fit->converged += start->is_done && start->outcome.end == DESCEND_CONVERGED;
        if (start->is_done && (!best || start->outcome.objective < best->outcome.objective))
            best = start;
    }
    if (!best)
        return false;
    for (size_t i = 0; i < count; i++)
        fit->reached += search->starts[i].is_done &&
                        is_same_minimum(search->data, search->starts[i].outcome.objective,
                                        best->outcome.objective);
    fit->drops = best->drops;
    take(search->data, &best->model, &best->outcome, fit);
    return true;
}

/* ---- what to say ---- */

static enum mosaic_status check_coefficients(const struct fit *fit, struct diag_list *diags) {
    const struct form *form = fit->model.frame.form;
    for (size_t i = 0; i < form->coefficients; i++)
        if (!(fabs(fit->coefficient[i]) <= largest_coefficient))
            return diag_status(diags, MOSAIC_NUMERIC, NULL,
                               "undetermined: %s runs away (%g); the table does not hold it",
                               form->coefficient[i].name, fit->coefficient[i]);
    return MOSAIC_OK;
}

static void report(const struct fit_data *data, const struct fit *fit, struct diag_list *diags) {
    fit_drops_report(&fit->drops, data, diags);
    if (!fit->is_determined)
        diag_warning(diags, NULL,
                     "undetermined: %zu coefficients from %zu different runs fit them exactly, "
                     "whatever the law",
                     fit->parameters, data->distinct);
    if (!fit->is_converged)
        diag_warning(diags, NULL, "not converged: gradient %.2g after %zu iterations",
                     fit->gradient, fit->iterations);
    if (fit->reached < FIT_FEW_REACHED)
        diag_warning(diags, NULL,
                     "%zu of %zu starts reached the best minimum: it may not be the global one",
                     fit->reached, fit->starts);
}

static enum mosaic_status check_options(const struct fit_options *options,
                                        struct diag_list *diags) {
    if (options->starts < 1 || options->starts > FIT_MAX_STARTS)
        return diag_error(diags, NULL, "starts must be 1 to %d, not %zu", (int)FIT_MAX_STARTS,
                          options->starts);
    if (!(options->measure.delta >= DESCEND_LAD_DELTA))
        return diag_error(diags, NULL, "Huber's delta is %g; it must be at least %g",
                          options->measure.delta, DESCEND_LAD_DELTA);
    if (!(options->limits.tolerance > 0 && options->limits.tolerance < 1) ||
        options->limits.max_iterations < 1)
        return diag_error(diags, NULL, "tolerance must be above 0 and below 1, iterations above 0");
    return MOSAIC_OK;
}

enum mosaic_status fit_run(const struct fit_data *data, const struct fit_options *options,
                           struct pool *pool, struct fit *out, struct diag_list *diags) {
    struct fit_model model;
    struct fit fit;
    memset(&fit, 0, sizeof fit);
    TRY(check_options(options, diags));
    TRY(fit_model_prepare(data, &options->fixed, &model, &fit.drops, diags));
    fit.measure = options->measure;
    const size_t parameters = fit_model_free_count(&model);
    if (data->distinct < parameters)
        return diag_error(diags, NULL,
                          "undetermined: %zu different runs for the %zu coefficients of the %s "
                          "form; add runs, fix coefficients or take a smaller form",
                          data->distinct, parameters, data->form->name);
    struct search search = {data, options, &model, &fit.drops, NULL};
    const struct fit_drops prepared = fit.drops;
    search.drops = &prepared;
    search.starts = calloc(options->starts, sizeof *search.starts);
    if (!search.starts)
        return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
    pool_run(pool, options->starts, run_start, &search);
    const bool found = choose(&search, &fit);
    free(search.starts);
    if (!found)
        return diag_status(diags, MOSAIC_NUMERIC, NULL,
                           "undetermined: none of %zu starts led to a minimum of the %s form",
                           options->starts, data->form->name);
    TRY(check_coefficients(&fit, diags));
    report(data, &fit, diags);
    *out = fit;
    return MOSAIC_OK;
}

/* A floor that vanished from one set of losses may be there in another. */
static void revive_floor(const struct fit_data *data, struct fit_model *model,
                         struct fit_drops *drops) {
    const struct form *form = model->frame.form;
    if (form->floor < 0)
        return;
    const size_t a = (size_t)form->term[form->floor].amplitude;
    size_t kept = 0;
    for (size_t i = 0; i < drops->count; i++) {
        if (drops->items[i].coefficient != a || drops->items[i].reason != FIT_DROP_VANISHED) {
            drops->items[kept++] = drops->items[i];
            continue;
        }
        model->frame.is_gone[form->floor] = false;
        model->is_free[a] = true;
        model->u[a] = data->mean_log_loss + log(revived_share);
    }
    drops->count = kept;
}

void fit_again(const struct fit_data *data, const struct fit *from,
               const struct descend_limits *limits, struct fit *fit) {
    struct fit_model model = from->model;
    struct fit_drops drops = from->drops;
    struct descend_outcome outcome;
    revive_floor(data, &model, &drops);
    descend(data, &from->measure, limits, &model, &drops, &outcome);
    memset(fit, 0, sizeof *fit);
    fit->drops = drops;
    fit->measure = from->measure;
    fit->starts = 1;
    take(data, &model, &outcome, fit);
}
