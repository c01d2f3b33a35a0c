// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What the fit tests share: tables of configs/runs and of the directory MOSAIC_DATA (skipped
 * without it), rows made from a law, a pool of two threads.
 */
#ifndef MOSAIC_TESTS_FIT_CASE_H
#define MOSAIC_TESTS_FIT_CASE_H

#include "fit/fit_report.h"

#include "close.h"

#include <gsl/gsl_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct diag_list said;
static struct pool *pool;

static inline int set_up(void **state) {
    struct status_error err;
    (void)state;
    (void)gsl_set_error_handler_off();
    return pool_create(2, NULL, &pool, &err) == MOSAIC_OK ? 0 : -1;
}

static inline int tear_down(void **state) {
    (void)state;
    pool_free(pool);
    return 0;
}

static inline bool has_said(const char *text) {
    for (size_t i = 0; i < said.count; i++)
        if (strstr(said.items[i].message, text) || strstr(said.items[i].hint, text))
            return true;
    return false;
}

static inline void must(enum mosaic_status status) {
    if (status != MOSAIC_OK)
        fail_msg("%s", said.items[0].message);
}

/* Rows of a table whose name and source hold these texts (NULL for any). */
static inline struct run_table *load_path(const char *path, const char *name, const char *source) {
    struct run_filter filters[2];
    struct run_options options = {.count = RUN_COUNT_ALL, .filters = filters};
    struct run_table *table = NULL;
    if (name)
        filters[options.filter_count++] = (struct run_filter){"name", name};
    if (source)
        filters[options.filter_count++] = (struct run_filter){"source", source};
    diag_init(&said);
    must(run_table_load(NULL, path, NULL, &options, &table, &said));
    return table;
}

static inline struct run_table *load(const char *file, const char *name, const char *source) {
    char path[512];
    (void)snprintf(path, sizeof path, "configs/runs/%s", file);
    return load_path(path, name, source);
}

/* The same from MOSAIC_DATA; the test is skipped, by name, without it. */
static inline struct run_table *load_private(const char *test, const char *file, const char *name,
                                             const char *source) {
    const char *const directory = getenv("MOSAIC_DATA");
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", directory ? directory : "", file);
    FILE *found = directory ? fopen(path, "r") : NULL;
    if (!found) {
        print_message("%s: needs %s in the directory MOSAIC_DATA: skipped\n", test, file);
        skip();
    }
    (void)fclose(found);
    return load_path(path, name, source);
}

static inline struct fit_data *data_of(enum form_kind kind, const struct run_table *table) {
    struct fit_data *data = NULL;
    must(fit_data_create(form_of(kind), table->runs, table->rows, &data, &said));
    return data;
}

static inline struct fit fit_with(const struct fit_data *data, const struct fit_options *options) {
    struct fit fit;
    diag_init(&said);
    must(fit_run(data, options, pool, &fit, &said));
    return fit;
}

static inline struct fit fit_squares(const struct fit_data *data) {
    struct fit_options options;
    fit_options_init(&options);
    return fit_with(data, &options);
}

static inline struct fit fit_huber(const struct fit_data *data, double delta) {
    struct fit_options options;
    fit_options_init(&options);
    options.measure.delta = delta;
    return fit_with(data, &options);
}

static inline double ssr(const struct fit *fit) {
    return 2 * fit->objective;
}

static inline double coefficient(const struct fit *fit, const char *name) {
    const int i = form_coefficient_index(fit->model.frame.form, name);
    assert_true(i >= 0);
    return fit->coefficient[i];
}

/* Runs of a known law. */
static inline void make_losses(enum form_kind kind, const double *truth, struct run *runs,
                               size_t count) {
    struct status_error err;
    for (size_t i = 0; i < count; i++) {
        runs[i].row = i + 1;
        runs[i].weight = 1;
        runs[i].fate = RUN_USED;
        if (form_loss(form_of(kind), truth, &runs[i].point, &runs[i].loss, &err) != MOSAIC_OK)
            fail_msg("%s", err.message);
    }
}

static inline struct fit_data *data_of_runs(enum form_kind kind, const struct run *runs,
                                            size_t count) {
    struct fit_data *data = NULL;
    diag_init(&said);
    must(fit_data_create(form_of(kind), runs, count, &data, &said));
    return data;
}

static const double refit_chinchilla[] = {482.01, 2085.43, 1.8172, .3478, .3658};
static const double printed_chinchilla[] = {406.4, 410.7, 1.69, .34, .28};
static const double published_abnar[] = {16612.5, 5455.67, .4598,  17.26, .94,
                                         .5962,   .3954,   -.1666, .1603, .1595};
static const double published_mosaic[] = {8.462, 88.32, .1828, .7123, .3129, .1048,
                                          .2070, .1249, .5567, .1702, .9513};

#endif
