// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * `law: {runs: FILE, ...}`: the law is fitted to a table of runs while the plan is loaded, and its
 * bootstrap gives the draws.  What the runs do not determine is refused: a plan needs one law.
 */
#include "doc/sections.h"

#include "fit/fit_settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>

struct fix_list {
    size_t count;
    struct fit_job_fix items[FORM_MAX_COEFFICIENTS];
};

enum { FILTERS_MAX = 8 };

struct filter_list {
    size_t count;
    struct run_filter items[FILTERS_MAX];
};

struct runs_section {
    const char *runs, *loss;
    int form, count, bootstrap, draws, starts;
    bool has_count;
    double start_loss;
    struct fix_list fix;
    struct filter_list filter;
};

enum { KIND_NONE = 2 }; /* after the bootstrap's kinds */

static const char *const count_words[] = {"no_embedding", "all", NULL};
static const char *const bootstrap_words[] = {
    [BOOTSTRAP_WILD] = "wild", [BOOTSTRAP_RESIDUAL] = "residual", [KIND_NONE] = "none", NULL};

/* {e: 1.6, ...} */
static enum mosaic_status parse_fix(struct binder *binder, const struct field *field,
                                    const struct node *node, void *target) {
    struct fix_list *const list = target;
    enum mosaic_status status = MOSAIC_OK;
    (void)field;
    if (node->kind != NODE_MAPPING)
        return binder_error(binder, node, "'%s' is %s, not a mapping", binder_path(binder),
                            node_kind_text(node));
    for (size_t i = 0; i < node->count; ++i) {
        const struct node *const one = node->items[i];
        const struct field number = {.key = one->key, .kind = FIELD_NUMBER};
        double value = 0.0;
        if (list->count == FORM_MAX_COEFFICIENTS)
            return binder_error(binder, one, "'%s' fixes more than %d coefficients",
                                binder_path(binder), (int)FORM_MAX_COEFFICIENTS);
        if (binder_value(binder, &number, one, &value) != MOSAIC_OK)
            status = MOSAIC_BAD_INPUT;
        else
            list->items[list->count++] = (struct fit_job_fix){one->key, value};
    }
    return status;
}

/* {source: "S-Base|Dense"} */
static enum mosaic_status parse_filter(struct binder *binder, const struct field *field,
                                       const struct node *node, void *target) {
    struct filter_list *const list = target;
    (void)field;
    if (node->kind != NODE_MAPPING)
        return binder_error(binder, node, "'%s' is %s, not a mapping", binder_path(binder),
                            node_kind_text(node));
    for (size_t i = 0; i < node->count; ++i) {
        const struct node *const one = node->items[i];
        if (one->kind != NODE_SCALAR)
            return binder_error(binder, one, "'%s.%s' is %s, not a text", binder_path(binder),
                                one->key, node_kind_text(one));
        if (list->count == FILTERS_MAX)
            return binder_error(binder, one, "'%s' names more than %d columns", binder_path(binder),
                                (int)FILTERS_MAX);
        list->items[list->count++] = (struct run_filter){one->key, one->text};
    }
    return MOSAIC_OK;
}

static const struct field runs_fields[] = {
    {.key = "runs",
     .kind = FIELD_STRING,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct runs_section, runs),
     .help = "CSV of training runs to fit the law to"},
    {.key = "form",
     .kind = FIELD_ENUM,
     .words = doc_law_forms,
     .fallback = "mosaic",
     FIELD_AT(struct runs_section, form),
     .help = "form of the law"},
    {.key = "count",
     .kind = FIELD_ENUM,
     .words = count_words,
     FIELD_AT(struct runs_section, count),
     FIELD_PRESENCE(struct runs_section, has_count),
     .help = "what N counts in the runs; needed where the table does not say"},
    {.key = "filter",
     .kind = FIELD_CUSTOM,
     .forms = "mapping of a column to texts, one of which its cells must hold",
     .parse = parse_filter,
     FIELD_AT(struct runs_section, filter),
     .help = "rows to fit to: {column: \"TEXT|TEXT\"}"},
    {.key = "fix",
     .kind = FIELD_CUSTOM,
     .forms = "mapping of a coefficient to its value",
     .parse = parse_fix,
     FIELD_AT(struct runs_section, fix),
     .help = "coefficients that are given: {e: 1.6}"},
    {.key = "start_loss",
     .kind = FIELD_NUMBER,
     .fallback = "0",
     FIELD_AT(struct runs_section, start_loss),
     .max = 1e6,
     .help = "nats; a run above it has diverged; 0 when unknown"},
    {.key = "loss",
     .kind = FIELD_STRING,
     .fallback = "least-squares",
     FIELD_AT(struct runs_section, loss),
     .help = "least-squares, least-squares-raw, huber:DELTA or lad"},
    {.key = "starts",
     .kind = FIELD_INT,
     .fallback = "32",
     FIELD_AT(struct runs_section, starts),
     .min = 1,
     .max = FIT_MAX_STARTS,
     .help = "starting points of the fit"},
    {.key = "bootstrap",
     .kind = FIELD_ENUM,
     .words = bootstrap_words,
     .fallback = "wild",
     FIELD_AT(struct runs_section, bootstrap),
     .help = "where the draws of the law come from"},
    {.key = "draws",
     .kind = FIELD_INT,
     .fallback = "200",
     FIELD_AT(struct runs_section, draws),
     .min = BOOTSTRAP_DRAWS,
     .max = BOOTSTRAP_MAX_DRAWS,
     .help = "refits of the bootstrap"},
};
const struct schema doc_law_runs_schema = SCHEMA("runs", struct runs_section, runs_fields);

static enum mosaic_status no_memory(struct loader *l) {
    return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
}

static void fill(const struct loader *l, const struct runs_section *s,
                 struct fit_job_options *options) {
    fit_job_options_init(options);
    fit_job_options_seed(options, l->options->seed);
    options->form = (enum form_kind)s->form;
    options->runs.count = !s->has_count   ? RUN_COUNT_UNSTATED
                          : s->count == 0 ? RUN_COUNT_NO_EMBEDDING
                                          : RUN_COUNT_ALL;
    options->runs.start_loss = s->start_loss;
    options->runs.filters = s->filter.items;
    options->runs.filter_count = s->filter.count;
    options->fixes = s->fix.items;
    options->fix_count = s->fix.count;
    options->fit.starts = (size_t)s->starts;
    options->has_cross_validation = false;
    options->has_bootstrap = s->bootstrap != KIND_NONE;
    options->bootstrap.kind =
        s->bootstrap == BOOTSTRAP_RESIDUAL ? BOOTSTRAP_RESIDUAL : BOOTSTRAP_WILD;
    options->bootstrap.draws = (size_t)s->draws;
    options->stop = l->options->stop;
}

/* The planner's N leaves out embedding, head and router, or nothing. */
static enum mosaic_status take_count(struct loader *l, const struct fit_job *job,
                                     const struct place *place, struct problem *problem) {
    if (job->table->count == RUN_COUNT_UNSTATED) {
        (void)diag_error(l->diags, place, "the table does not say what its N counts");
        diag_hint(l->diags, "add count: no_embedding or count: all beside 'runs'");
        return MOSAIC_BAD_INPUT;
    }
    problem->law_counts_all = job->table->count == RUN_COUNT_ALL;
    problem->law_counts_experts = job->form->kind == FORM_ABNAR;
    return MOSAIC_OK;
}

static enum mosaic_status check_outcome(struct loader *l, const struct fit_job *job,
                                        const struct place *place) {
    switch (job->outcome) {
    case FIT_DONE:
        return MOSAIC_OK;
    case FIT_UNKNOWABLE:
        (void)diag_error(l->diags, place,
                         "undetermined: these runs hold no law of the %s form to plan with",
                         job->form->name);
        diag_hint(l->diags, "add runs, fix coefficients or take a smaller form");
        return MOSAIC_BAD_INPUT;
    case FIT_LIMIT:
        return diag_status(l->diags, MOSAIC_NUMERIC, place, "the fit of the %s form did not end",
                           job->form->name);
    case FIT_STOPPED:
        break;
    }
    return diag_status(l->diags, MOSAIC_INTERRUPTED, place, "interrupted");
}

static enum mosaic_status take_draws(struct loader *l, const struct fit_job *job,
                                     const struct place *place, struct problem *problem) {
    const struct bootstrap *const b = job->bootstrap;
    struct law_draws *const draws = &problem->law_draws;
    if (!b)
        return MOSAIC_OK;
    draws->items = calloc(b->count + 1, sizeof *draws->items);
    if (!draws->items)
        return no_memory(l);
    for (size_t i = 0; i < b->count; ++i) {
        struct status_error unused;
        if (fit_to_law(job->data, &b->draws[i], problem->law.name, &draws->items[draws->count],
                       &unused) == MOSAIC_OK)
            draws->count++;
    }
    if (2 * draws->count < b->asked)
        return diag_status(l->diags, MOSAIC_NUMERIC, place,
                           "undetermined: only %zu of %zu bootstrap refits are laws to plan with",
                           draws->count, b->asked);
    return MOSAIC_OK;
}

static enum mosaic_status take_law(struct loader *l, const struct fit_job *job, const char *path,
                                   const struct place *place, struct problem *problem) {
    const char *const slash = strrchr(path, '/');
    char name[sizeof problem->law.name];
    struct status_error err;
    TRY(check_outcome(l, job, place));
    TRY(take_count(l, job, place, problem));
    (void)snprintf(name, sizeof name, "fit of %.*s", (int)sizeof name - 8,
                   slash ? slash + 1 : path);
    if (fit_to_law(job->data, &job->fit, name, &problem->law, &err) != MOSAIC_OK)
        return diag_from_error(l->diags, place, &err);
    return take_draws(l, job, place, problem);
}

/* In the words of mosaic-fit(1). */
static enum mosaic_status take_loss(struct loader *l, const struct node *node, const char *loss,
                                    struct fit_measure *measure) {
    struct fit_settings settings;
    struct status_error err;
    const struct place place = loader_place(node, "loss");
    char *const pair = talloc_asprintf(l->memory, "loss=%s", loss);
    if (!pair)
        return no_memory(l);
    fit_settings_init(&settings);
    enum mosaic_status status = fit_settings_put(&settings, pair, &err);
    if (status == MOSAIC_OK) {
        *measure = settings.job.fit.measure;
    } else {
        err.status = MOSAIC_BAD_INPUT;
        status = diag_from_error(l->diags, &place, &err);
    }
    fit_settings_free(&settings);
    return status;
}

static enum mosaic_status check_form(struct loader *l, const struct node *node,
                                     const struct runs_section *s) {
    if (s->form != FORM_KRAJEWSKI && s->form != FORM_CLARK)
        return MOSAIC_OK;
    const struct place place = loader_place(node, "form");
    (void)diag_error(l->diags, &place, "a law of the %s form cannot plan", doc_law_forms[s->form]);
    diag_hint(l->diags, "plans take mosaic, mosaic-no-g, abnar and chinchilla");
    return MOSAIC_BAD_INPUT;
}

enum mosaic_status doc_law_fit(struct loader *l, const struct node *node, const char *prefix,
                               struct problem *problem) {
    struct runs_section s = {.runs = NULL};
    TRY(loader_bind(l, &doc_law_runs_schema, node, prefix, &s));
    TRY(check_form(l, node, &s));
    const struct node *const runs = node_find(node, "runs");
    char *const path = loader_path(l, runs);
    if (!path)
        return no_memory(l);
    struct fit_job_options options;
    struct status_error err;
    struct pool *pool = NULL;
    struct fit_job *job = NULL;
    fill(l, &s, &options);
    TRY(take_loss(l, node, s.loss, &options.fit.measure));
    if (pool_create(l->options->threads, NULL, &pool, &err) != MOSAIC_OK)
        return diag_from_error(l->diags, &runs->place, &err);
    enum mosaic_status status = fit_job_run(path, &runs->place, &options, pool, &job, l->diags);
    pool_free(pool);
    if (status == MOSAIC_OK) {
        status = loader_add_input(l, path, job->sha256);
        if (status == MOSAIC_OK)
            status = take_law(l, job, path, &runs->place, problem);
        fit_job_free(job);
    }
    return status;
}
