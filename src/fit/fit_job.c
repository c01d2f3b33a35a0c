// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The order of work, and what is skipped when the runs determine nothing: no quality, hold-out or
 * interval is computed for coefficients that any law would have fitted.
 */
#include "fit/fit_job.h"

#include "base/clock.h"

#include <math.h>
#include <sha2.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>

static const double free_sparsity = 1; /* bootstrap_at_optimum: no bound */
static const double half = 0.5;

const char *fit_outcome_text(enum fit_outcome outcome) {
    static const char *const texts[] = {[FIT_DONE] = "ok",
                                        [FIT_UNKNOWABLE] = "undetermined",
                                        [FIT_LIMIT] = "limit",
                                        [FIT_STOPPED] = "interrupted"};
    return texts[outcome];
}

void fit_job_options_init(struct fit_job_options *options) {
    *options = (struct fit_job_options){
        .form = FORM_MOSAIC, .has_cross_validation = true, .has_bootstrap = true};
    fit_options_init(&options->fit);
    bootstrap_options_init(&options->bootstrap);
}

void fit_job_options_seed(struct fit_job_options *options, unsigned long seed) {
    options->fit.seed = seed;
    options->bootstrap.seed = seed;
}

const struct run *fit_job_run_of(const struct fit_job *job, size_t i) {
    return &job->table->runs[job->data->rows[i].row - 1];
}

struct form_point fit_job_centre(const struct fit_job *job) {
    const double n = (double)job->data->count;
    double log_n = 0, log_active = 0, log_tokens = 0, log_g = 0, log_experts = 0, log_top = 0;
    bool has_experts = true;
    for (size_t i = 0; i < job->data->count; i++) {
        const struct form_point *p = &job->data->points[i];
        log_n += log(p->n_total) / n;
        log_active += log(p->n_active) / n;
        log_tokens += log(p->tokens) / n;
        log_g += log(p->granularity) / n;
        has_experts = has_experts && p->experts > 0 && p->top_k > 0;
        if (has_experts) {
            log_experts += log(p->experts) / n;
            log_top += log(p->top_k) / n;
        }
    }
    return (struct form_point){.n_total = exp(log_n),
                               .n_active = exp(log_active),
                               .tokens = exp(log_tokens),
                               .sparsity = fmax(0, 1 - exp(log_active - log_n)),
                               .granularity = exp(log_g),
                               .experts = has_experts ? exp(log_experts) : 0,
                               .top_k = has_experts ? exp(log_top) : 0};
}

/* ---- table ---- */

static enum mosaic_status read_table(struct fit_job *job, const char *path,
                                     const struct place *from, const struct run_options *options,
                                     struct diag_list *diags) {
    struct csv_table *csv = NULL;
    TRY(csv_table_load(job->memory, path, from, &csv, diags));
    /* The file's own bytes where they can be read twice: a source lacks a byte-order mark. */
    if (strcmp(path, "-") == 0 || !SHA256File(path, job->sha256))
        (void)SHA256Data((const uint8_t *)csv->source->text, csv->source->size, job->sha256);
    const enum mosaic_status status = run_table_read(job->memory, csv, options, &job->table, diags);
    csv_table_free(csv);
    return status;
}

/* ---- fit ---- */

static enum mosaic_status apply_fixes(const struct fit_job_options *options,
                                      const struct form *form, struct fit_options *fit,
                                      struct diag_list *diags) {
    struct status_error err;
    enum mosaic_status status = MOSAIC_OK;
    memset(&fit->fixed, 0, sizeof fit->fixed);
    for (size_t i = 0; i < options->fix_count; i++)
        if (fit_options_fix(fit, form, options->fixes[i].name, options->fixes[i].value, &err) !=
            MOSAIC_OK)
            status = diag_from_error(diags, NULL, &err);
    return status;
}

/* Fewer different runs than coefficients: said before a fit would refuse. */
static enum mosaic_status is_enough(struct fit_job *job, const struct fit_options *options,
                                    bool *enough, struct diag_list *diags) {
    struct fit_model model;
    struct fit_drops drops = {.count = 0};
    TRY(fit_model_prepare(job->data, &options->fixed, &model, &drops, diags));
    const size_t wanted = fit_model_free_count(&model);
    *enough = job->data->distinct >= wanted;
    if (*enough)
        return MOSAIC_OK;
    job->fit.drops = drops;
    fit_drops_report(&drops, job->data, diags);
    diag_warning(diags, NULL,
                 "undetermined: %zu different runs for the %zu coefficients of the "
                 "%s form",
                 job->data->distinct, wanted, job->form->name);
    diag_hint(diags, "add runs, fix coefficients or take a smaller form");
    return MOSAIC_OK;
}

static bool is_unknowable(const struct fit_job *job) {
    for (size_t i = 0; i < job->form->coefficients; i++)
        if (job->report.coefficient[i].label == FIT_UNDETERMINED)
            return true;
    return !job->report.has_quality;
}

static enum mosaic_status judge(struct fit_job *job, struct diag_list *diags) {
    struct status_error err;
    if (fit_report_make(job->data, &job->fit, &job->report, &err) != MOSAIC_OK)
        return diag_from_error(diags, NULL, &err);
    for (size_t i = 0; i < job->data->count; i++) {
        const double r = fit_residual_of(job->data, &job->fit, i);
        job->ssr_log += job->data->rows[i].weight * r * r;
    }
    job->has_fit = true;
    job->outcome = is_unknowable(job)       ? FIT_UNKNOWABLE
                   : !job->fit.is_converged ? FIT_LIMIT
                                            : FIT_DONE;
    if (job->outcome == FIT_UNKNOWABLE && job->fit.is_determined)
        diag_warning(diags, NULL,
                     "undetermined: %zu runs say nothing of how well %zu coefficients fit",
                     job->fit.rows, job->fit.parameters);
    return MOSAIC_OK;
}

static enum mosaic_status fit_runs(struct fit_job *job, const struct fit_options *options,
                                   struct pool *pool, struct diag_list *diags) {
    bool enough = false;
    job->outcome = FIT_UNKNOWABLE;
    TRY(fit_data_create(job->form, job->table->runs, job->table->rows, &job->data, diags));
    TRY(is_enough(job, options, &enough, diags));
    if (!enough)
        return MOSAIC_OK;
    struct fit fit;
    const enum mosaic_status status = fit_run(job->data, options, pool, &fit, diags);
    if (status == MOSAIC_NUMERIC)
        return MOSAIC_OK; /* the reason is among the diagnostics */
    TRY(status);
    job->fit = fit;
    return judge(job, diags);
}

/* ---- cross-validation ---- */

static enum mosaic_status hold_largest_out(struct fit_job *job, const struct fit_options *options,
                                           struct pool *pool, struct diag_list *diags) {
    enum mosaic_status status = MOSAIC_OK;
    bool *is_held = calloc(job->data->count + 1, sizeof *is_held);
    if (!is_held)
        return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
    if (hold_largest(job->data, CROSSVAL_SHARE, is_held) > 0) {
        status = hold_out(job->data, options, pool, is_held, &job->largest, diags);
        job->has_largest = status == MOSAIC_OK;
    }
    free(is_held);
    return status;
}

static size_t groups_by_name(const struct fit_job *job, size_t *group) {
    size_t groups = 0;
    for (size_t i = 0; i < job->data->count; i++) {
        const char *name = fit_job_run_of(job, i)->group;
        group[i] = groups;
        for (size_t k = 0; k < i && group[i] == groups; k++)
            if (strcmp(fit_job_run_of(job, k)->group, name) == 0)
                group[i] = group[k];
        groups += group[i] == groups;
    }
    return groups;
}

static bool is_usable(size_t groups) {
    return groups >= 2 && groups <= FIT_JOB_GROUPS;
}

/* As the table has it, not as exp(ln) returns it. */
static double value_of(const struct fit_job *job, size_t i, enum form_variable variable) {
    const struct form_point *p = &job->data->points[i];
    switch (variable) {
    case FORM_N:
        return job->form->kind == FORM_CLARK ? p->n_active : p->n_total;
    case FORM_D:
        return p->tokens;
    case FORM_G:
        return p->granularity;
    case FORM_U:
        break;
    }
    return exp(job->data->rows[i].x[variable]);
}

/* The table's own groups, or the first variable that falls into a few. */
static size_t find_groups(struct fit_job *job, size_t *group) {
    static const struct {
        enum form_variable variable;
        const char *name;
    } order[] = {{FORM_G, "granularity"},
                 {FORM_U, "one_minus_sparsity"},
                 {FORM_N, "n_total"},
                 {FORM_D, "tokens"}};
    size_t groups = groups_by_name(job, group);
    if (is_usable(groups)) {
        job->grouped_by = "group";
        for (size_t i = 0; i < job->data->count; i++)
            job->groups[group[i]].name = fit_job_run_of(job, i)->group;
        return groups;
    }
    for (size_t v = 0; v < sizeof order / sizeof *order; v++) {
        if (!job->form->variable[order[v].variable])
            continue;
        groups = groups_by_variable(job->data, order[v].variable, group);
        if (!is_usable(groups))
            continue;
        job->grouped_by = order[v].name;
        for (size_t i = 0; i < job->data->count; i++) {
            job->groups[group[i]].name = "";
            job->groups[group[i]].value = value_of(job, i, order[v].variable);
        }
        return groups;
    }
    return 0;
}

static enum mosaic_status leave_groups(struct fit_job *job, const struct fit_options *options,
                                       struct pool *pool, struct diag_list *diags) {
    struct held_out held[FIT_JOB_GROUPS];
    enum mosaic_status status = MOSAIC_OK;
    size_t *group = calloc(job->data->count + 1, sizeof *group);
    if (!group)
        return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
    const size_t groups = find_groups(job, group);
    if (groups > 0) {
        status = leave_groups_out(job->data, options, pool, group, groups, held, diags);
        for (size_t g = 0; g < groups && status == MOSAIC_OK; g++)
            job->groups[g].held = held[g];
        job->group_count = status == MOSAIC_OK ? groups : 0;
    }
    free(group);
    return status;
}

static enum mosaic_status compare(struct fit_job *job, const struct fit_options *options,
                                  struct pool *pool, struct diag_list *diags) {
    enum form_kind kinds[FORM_KINDS];
    for (size_t k = 0; k < FORM_KINDS; k++)
        kinds[k] = (enum form_kind)k;
    TRY(compare_forms(job->table, kinds, FORM_KINDS, options, pool, job->forms, diags));
    job->form_count = FORM_KINDS;
    return MOSAIC_OK;
}

/* ---- optimum ---- */

static void find_optimum(const struct fit_job *job, const struct law *law,
                         struct fit_job_optimum *optimum, struct diag_list *diags) {
    struct status_error err;
    const double s = optimum->max_sparsity;
    const enum mosaic_status status =
        s < free_sparsity
            ? law_optimum_bounded(law, job->model_flops, job->granularity, 0, s, &optimum->best,
                                  &err)
            : law_optimum_free(law, job->model_flops, job->granularity, &optimum->best, &err);
    optimum->is_found = status == MOSAIC_OK;
    if (!optimum->is_found) {
        diag_warning(diags, NULL, "no optimum at %g model FLOPs: %s", job->model_flops,
                     err.message);
        return;
    }
    if (!(s < free_sparsity) && optimum->best.at_bound)
        diag_warning(diags, NULL, "no interior optimum: the loss falls all the way to S = %d",
                     optimum->best.point.sparsity > half ? 1 : 0);
    if (job->bootstrap)
        optimum->has_draws =
            bootstrap_at_optimum(job->data, job->bootstrap, job->model_flops, job->granularity, s,
                                 &optimum->draws, &err) == MOSAIC_OK;
    if (job->bootstrap && !optimum->has_draws)
        diag_warning(diags, NULL, "no interval for the optimum: %s", err.message);
}

static enum mosaic_status find_optima(struct fit_job *job, const struct fit_job_options *options,
                                      struct diag_list *diags) {
    struct status_error err;
    struct law law;
    double largest = 0, sparsest = 0;
    if (fit_to_law(job->data, &job->fit, "fit", &law, &err) != MOSAIC_OK) {
        diag_warning(diags, NULL, "no optimum: %s", err.message);
        return MOSAIC_OK;
    }
    for (size_t i = 0; i < job->data->count; i++)
        largest = fmax(largest, job->data->points[i].granularity);
    sparsest = fmin(law.sparsity.max, LAW_OPTIMUM_SPARSEST);
    job->model_flops = options->model_flops;
    job->granularity = options->granularity > 0 ? options->granularity : largest;
    job->bounded.max_sparsity = sparsest;
    find_optimum(job, &law, &job->bounded, diags);
    job->free.max_sparsity = free_sparsity;
    /* A form that does not know sparsity would call every dense weight wasted. */
    if (job->form->variable[FORM_U] && !job->data->is_constant[FORM_U])
        find_optimum(job, &law, &job->free, diags);
    return MOSAIC_OK;
}

/* ---- all ---- */

static bool is_stopped(struct fit_job *job, const struct fit_job_options *options) {
    if (clock_stopped(options->stop))
        job->outcome = FIT_STOPPED;
    return job->outcome == FIT_STOPPED;
}

/* What a stop cut short was fitted from too few starts and is left out. */
static enum mosaic_status cross_validate(struct fit_job *job, const struct fit_job_options *options,
                                         const struct fit_options *fit, struct pool *pool,
                                         struct diag_list *diags) {
    if (options->has_cross_validation && !is_stopped(job, options)) {
        TRY(hold_largest_out(job, fit, pool, diags));
        job->has_largest = job->has_largest && !is_stopped(job, options);
    }
    if (options->has_cross_validation && !is_stopped(job, options)) {
        TRY(leave_groups(job, fit, pool, diags));
        if (is_stopped(job, options))
            job->group_count = 0;
    }
    if (options->has_comparison && !is_stopped(job, options)) {
        TRY(compare(job, fit, pool, diags));
        if (is_stopped(job, options))
            job->form_count = 0;
    }
    return MOSAIC_OK;
}

static enum mosaic_status draw(struct fit_job *job, const struct fit_job_options *options,
                               struct pool *pool, struct diag_list *diags) {
    struct bootstrap_options bootstrap = options->bootstrap;
    bootstrap.stop = options->stop;
    const enum mosaic_status status =
        bootstrap_run(job->data, &job->fit, &bootstrap, pool, &job->bootstrap, diags);
    if (status == MOSAIC_NUMERIC)
        job->outcome = FIT_UNKNOWABLE; /* refits run away: so does the fit */
    return status == MOSAIC_NUMERIC || status == MOSAIC_INTERRUPTED ? MOSAIC_OK : status;
}

static enum mosaic_status after_fit(struct fit_job *job, const struct fit_job_options *options,
                                    const struct fit_options *fit, struct pool *pool,
                                    struct diag_list *diags) {
    TRY(cross_validate(job, options, fit, pool, diags));
    if (options->has_bootstrap && !is_stopped(job, options))
        TRY(draw(job, options, pool, diags));
    if (options->model_flops > 0 && !is_stopped(job, options))
        TRY(find_optima(job, options, diags));
    job->has_plots = options->has_plots;
    if (options->has_plots && !is_stopped(job, options))
        job->profile_count =
            profile_run(job->data, &job->fit, &job->report, &fit->limits, pool, job->profiles);
    (void)is_stopped(job, options); /* in the last step */
    return MOSAIC_OK;
}

enum mosaic_status fit_job_run(const char *path, const struct place *from,
                               const struct fit_job_options *options, struct pool *pool,
                               struct fit_job **out, struct diag_list *diags) {
    enum mosaic_status status = MOSAIC_OK;
    struct fit_options fit = options->fit;
    fit.stop = options->stop;
    struct fit_job *job = calloc(1, sizeof *job);
    if (!job)
        return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
    job->form = form_of(options->form);
    job->memory = talloc_new(NULL);
    if (!job->memory) {
        status = diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
        goto out;
    }
    TRY_GOTO(apply_fixes(options, job->form, &fit, diags));
    TRY_GOTO(read_table(job, path, from, &options->runs, diags));
    TRY_GOTO(fit_runs(job, &fit, pool, diags));
    if (job->has_fit && job->outcome != FIT_UNKNOWABLE)
        TRY_GOTO(after_fit(job, options, &fit, pool, diags));
    *out = job;
    job = NULL;
out:
    fit_job_free(job);
    return status;
}

void fit_job_free(struct fit_job *job) {
    if (!job)
        return;
    bootstrap_free(job->bootstrap);
    fit_data_free(job->data);
    talloc_free(job->memory);
    free(job);
}
