// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Speed of a fit: 32 starts and 200 bootstrap refits on a table of runs, best of five.
 *   bench_fit [TABLE [FORM [THREADS]]]
 *   bench_fit --starts [TABLE [FORM]]   the starts instead, as CSV, for bench/scipy_fit.py
 * Prints one JSON object.  Targets on two cores for the default table: 0.5 s and 2 s.
 */
#include "fit/bootstrap.h"
#include "fit/seed.h"

#include <gsl/gsl_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPEATS = 5 };

struct times {
    double fit_s, bootstrap_s, ssr;
    size_t rows, iterations, reached, converged;
};

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static enum mosaic_status once(const struct fit_data *data, struct pool *pool, struct times *times,
                               struct diag_list *diags) {
    struct fit_options options;
    struct bootstrap_options draws;
    struct bootstrap *bootstrap = NULL;
    struct fit fit;
    fit_options_init(&options);
    bootstrap_options_init(&draws);
    const double start = now();
    TRY(fit_run(data, &options, pool, &fit, diags));
    const double middle = now();
    TRY(bootstrap_run(data, &fit, &draws, pool, &bootstrap, diags));
    const double end = now();
    if (times->rows == 0 || middle - start < times->fit_s)
        times->fit_s = middle - start;
    if (times->rows == 0 || end - middle < times->bootstrap_s)
        times->bootstrap_s = end - middle;
    times->rows = fit.rows;
    times->ssr = 2 * fit.objective;
    times->iterations = fit.iterations;
    times->reached = fit.reached;
    times->converged = bootstrap->count;
    bootstrap_free(bootstrap);
    return MOSAIC_OK;
}

static enum mosaic_status print_starts(const struct fit_data *data, struct diag_list *diags) {
    const struct form *const form = data->form;
    struct fit_options options;
    struct fit_model model;
    struct fit_drops drops = {.count = 0};
    double coefficient[FORM_MAX_COEFFICIENTS];
    fit_options_init(&options);
    TRY(fit_model_prepare(data, &options.fixed, &model, &drops, diags));
    for (size_t i = 0; i < form->coefficients; i++)
        (void)printf("%s%c", form->coefficient[i].name, i + 1 < form->coefficients ? ',' : '\n');
    for (size_t start = 0; start < options.starts; start++) {
        struct fit_model one = model;
        if (!seed_model(data, options.seed, start, &one))
            return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
        form_from_parameters(&one.frame, one.u, coefficient);
        for (size_t i = 0; i < form->coefficients; i++)
            (void)printf("%.17g%c", coefficient[i], i + 1 < form->coefficients ? ',' : '\n');
    }
    return MOSAIC_OK;
}

/* Without a pool the starts are printed. */
static enum mosaic_status measure(const char *path, const struct form *form, struct pool *pool,
                                  struct times *times, struct diag_list *diags) {
    const struct run_options options = {.count = RUN_COUNT_ALL};
    struct run_table *table = NULL;
    struct fit_data *data = NULL;
    enum mosaic_status status = MOSAIC_OK;
    TRY_GOTO(run_table_load(NULL, path, NULL, &options, &table, diags));
    TRY_GOTO(fit_data_create(form, table->runs, table->rows, &data, diags));
    if (!pool)
        TRY_GOTO(print_starts(data, diags));
    for (int i = 0; pool && i < REPEATS; i++)
        TRY_GOTO(once(data, pool, times, diags));
out:
    fit_data_free(data);
    run_table_free(table);
    return status;
}

int main(int argc, char **argv) {
    static struct diag_list diags;
    const bool only_starts = argc > 1 && strcmp(argv[1], "--starts") == 0;
    argv += only_starts;
    argc -= only_starts;
    const char *path = argc > 1 ? argv[1] : "configs/runs/mosaic_synth_s0078.csv";
    const struct form *form = form_find(argc > 2 ? argv[2] : "mosaic");
    const int threads = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 2;
    struct times times = {.rows = 0};
    struct status_error err;
    struct pool *pool = NULL;
    (void)gsl_set_error_handler_off();
    if (!form) {
        (void)fprintf(stderr, "bench_fit: no form '%s'\n", argv[2]);
        return MOSAIC_USAGE;
    }
    if (!only_starts && pool_create(threads, NULL, &pool, &err) != MOSAIC_OK) {
        (void)fprintf(stderr, "bench_fit: %s\n", err.message);
        return (int)err.status;
    }
    const enum mosaic_status status = measure(path, form, pool, &times, &diags);
    pool_free(pool);
    if (status != MOSAIC_OK) {
        (void)fprintf(stderr, "bench_fit: %s\n", diags.count ? diags.items[0].message : "failed");
        return (int)status;
    }
    if (only_starts)
        return MOSAIC_OK;
    (void)printf("{\"bench\": \"fit\", \"table\": \"%s\", \"form\": \"%s\", \"runs\": %zu, "
                 "\"threads\": %d, \"starts\": %d, \"fit_s\": %.4f, \"iterations\": %zu, "
                 "\"reached\": %zu, \"ssr\": %.10g, \"refits\": %d, \"bootstrap_s\": %.4f, "
                 "\"converged\": %zu}\n",
                 path, form->name, times.rows, threads, (int)FIT_STARTS, times.fit_s,
                 times.iterations, times.reached, times.ssr, (int)BOOTSTRAP_DRAWS,
                 times.bootstrap_s, times.converged);
    return MOSAIC_OK;
}
