// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Least squares bring their own covariance; that of a robust fit is taken over its bootstrap draws.
 */
#include "doc/save_law.h"

#include "base/units.h"
#include "fit/fit_settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT_TEXT = 48, FILE_TEXT = 48, NAME_TEXT = 48 };

struct covariance {
    size_t at[FORM_MAX_COEFFICIENTS], count; /* which coefficients */
    double of[FORM_MAX_COEFFICIENTS][FORM_MAX_COEFFICIENTS];
};

static void put_number(FILE *out, double value) {
    char text[UNITS_TEXT_MAX];
    units_format_exact(value, DIM_NUMBER, text, sizeof text);
    (void)fputs(text, out);
}

static void put_range(FILE *out, const char *key, double low, double high) {
    (void)fprintf(out, "  %s: [", key);
    put_number(out, low);
    (void)fputs(", ", out);
    put_number(out, high);
    (void)fputs("]\n", out);
}

/* Only what a plain YAML word may hold. */
static const char *plain_file(const struct fit_job *job, char *text, size_t size) {
    const char *slash = strrchr(job->table->file, '/');
    (void)status_quote(slash ? slash + 1 : job->table->file, text, size);
    for (char *at = text; *at; at++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *at))
            *at = '-';
    return text;
}

/* ---- parts ---- */

static void put_provenance(FILE *out, const struct fit_job *job, unsigned long seed) {
    char file[FILE_TEXT], loss[SHORT_TEXT];
    (void)fprintf(out,
                  "# Fitted by mosaic %s (seed %lu, %s) to %zu of the %zu runs of\n"
                  "# %s, SHA-256\n# %s.\n",
                  mosaic_version(), seed, fit_settings_loss(&job->fit.measure, loss, sizeof loss),
                  job->fit.rows, job->table->rows, plain_file(job, file, sizeof file), job->sha256);
    (void)fprintf(out, "# rms of ln L %.4g; %zu of %zu starts reached this minimum.\n",
                  job->report.rms_log, job->fit.reached, job->fit.starts);
}

static void put_head(FILE *out, const struct fit_job *job) {
    static const char *const counts[] = {[RUN_COUNT_UNSTATED] = NULL,
                                         [RUN_COUNT_ALL] = "all",
                                         [RUN_COUNT_NO_EMBEDDING] = "no_embedding"};
    char file[FILE_TEXT];
    (void)plain_file(job, file, sizeof file);
    const char *dot = strrchr(file, '.');
    (void)fprintf(out, "schema: mosaic-law/1\nname: fit-%.*s\n",
                  (int)(dot && dot > file ? dot - file : NAME_TEXT), file);
    (void)fprintf(out, "source: \"%s form fitted to %zu runs of %s\"\nform: %s\n", job->form->name,
                  job->fit.rows, file, job->form->name);
    if (counts[job->table->count])
        (void)fprintf(out, "count: %s\n", counts[job->table->count]);
    else
        (void)fputs("# The table does not say whether N includes the embeddings.\n", out);
}

static void put_coefficients(FILE *out, const struct fit_job *job) {
    (void)fputs("\ncoefficients:\n", out);
    for (size_t i = 0; i < job->form->coefficients; i++) {
        (void)fprintf(out, "  %s: ", job->form->coefficient[i].name);
        put_number(out, job->fit.coefficient[i]);
        (void)fputs(job->report.coefficient[i].label == FIT_DROPPED ? " # dropped\n" : "\n", out);
    }
}

static void put_intervals(FILE *out, const struct fit_job *job) {
    struct status_error err;
    struct interval interval;
    bool begun = false;
    for (size_t i = 0; job->bootstrap && i < job->form->coefficients; i++) {
        if (!job->fit.model.is_free[i] ||
            bootstrap_coefficient(job->bootstrap, i, &interval, &err) != MOSAIC_OK)
            continue;
        if (!begun)
            (void)fprintf(out, "\nintervals: # 95 %%, %zu bootstrap refits\n",
                          job->bootstrap->count);
        begun = true;
        put_range(out, job->form->coefficient[i].name, interval.low, interval.high);
    }
}

static void put_labels(FILE *out, const struct fit_job *job) {
    (void)fputs("\nlabels:\n", out);
    for (size_t i = 0; i < job->form->coefficients; i++)
        (void)fprintf(out, "  %s: %s\n", job->form->coefficient[i].name,
                      fit_label_text(job->report.coefficient[i].label));
}

static void put_support(FILE *out, const struct fit_job *job) {
    struct status_error err;
    struct law law;
    if (fit_to_law(job->data, &job->fit, "fit", &law, &err) != MOSAIC_OK)
        return; /* the document says by its coefficients that it is no law to plan with */
    (void)fputs("\nsupport: # least and greatest of the runs\n", out);
    put_range(out, "n_total", law.n_total.min, law.n_total.max);
    put_range(out, "n_active", law.n_active.min, law.n_active.max);
    put_range(out, "tokens", law.tokens.min, law.tokens.max);
    put_range(out, "sparsity", law.sparsity.min, law.sparsity.max);
    put_range(out, "granularity", law.granularity.min, law.granularity.max);
    put_range(out, "tokens_per_active", law.tokens_per_active.min, law.tokens_per_active.max);
}

/* ---- covariance ---- */

static void find_free(const struct fit_job *job, struct covariance *c) {
    for (size_t i = 0; i < job->form->coefficients; i++)
        if (job->fit.model.is_free[i] && fabs(job->fit.coefficient[i]) > 0)
            c->at[c->count++] = i;
}

/* The report has a signed exponent itself where a document has its ln: d ln v = dv / v. */
static void take_report(const struct fit_job *job, struct covariance *c) {
    double scale[FORM_MAX_COEFFICIENTS];
    for (size_t i = 0; i < c->count; i++)
        scale[i] =
            job->fit.model.frame.is_signed[c->at[i]] ? 1 / job->fit.coefficient[c->at[i]] : 1;
    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < c->count; k++)
            c->of[i][k] = scale[i] * scale[k] * job->report.covariance[c->at[i]][c->at[k]];
}

/* False for a draw that left one of them out. */
static bool log_draw(const struct fit *draw, const struct covariance *c, double *logs) {
    for (size_t i = 0; i < c->count; i++) {
        logs[i] = log(fabs(draw->coefficient[c->at[i]]));
        if (!isfinite(logs[i]))
            return false;
    }
    return true;
}

static bool take_draws(const struct bootstrap *bootstrap, struct covariance *c) {
    double mean[FORM_MAX_COEFFICIENTS] = {0}, logs[FORM_MAX_COEFFICIENTS];
    double used = 0;
    for (size_t d = 0; d < bootstrap->count; d++) {
        if (!log_draw(&bootstrap->draws[d], c, logs))
            continue;
        used += 1;
        /* Welford: one pass, no cancellation. */
        double before[FORM_MAX_COEFFICIENTS];
        for (size_t i = 0; i < c->count; i++) {
            before[i] = logs[i] - mean[i];
            mean[i] += before[i] / used;
        }
        for (size_t i = 0; i < c->count; i++)
            for (size_t k = 0; k < c->count; k++)
                c->of[i][k] += before[i] * before[k] * (used - 1) / used;
    }
    for (size_t i = 0; i < c->count && used > 1; i++)
        for (size_t k = 0; k < c->count; k++)
            c->of[i][k] /= used - 1;
    return 2 * used > (double)bootstrap->count;
}

static void put_covariance(FILE *out, const struct fit_job *job) {
    struct covariance c;
    memset(&c, 0, sizeof c);
    find_free(job, &c);
    if (c.count == 0)
        return;
    if (!isfinite(job->fit.measure.delta))
        take_report(job, &c);
    else if (!job->bootstrap || !take_draws(job->bootstrap, &c))
        return;
    (void)fputs("\ncovariance:\n  of: ln\n  names: [", out);
    for (size_t i = 0; i < c.count; i++)
        (void)fprintf(out, "%s%s", i ? ", " : "", job->form->coefficient[c.at[i]].name);
    (void)fputs("]\n  rows:\n", out);
    for (size_t i = 0; i < c.count; i++) {
        (void)fputs("    - [", out);
        for (size_t k = 0; k < c.count; k++) {
            (void)fputs(k ? ", " : "", out);
            put_number(out, i > k ? c.of[i][k] : c.of[k][i]); /* symmetric to the last digit */
        }
        (void)fputs("]\n", out);
    }
}

bool save_law_can(const struct form *form) {
    return form->kind != FORM_KRAJEWSKI && form->kind != FORM_CLARK;
}

/* Whole coefficient vectors: what a covariance cannot say of a curved ridge. */
static void put_draws(FILE *out, const struct fit_job *job) {
    bool begun = false;
    for (size_t d = 0; job->bootstrap && d < job->bootstrap->count; d++) {
        const struct fit *draw = &job->bootstrap->draws[d];
        struct status_error err;
        struct law law;
        if (fit_to_law(job->data, draw, "draw", &law, &err) != MOSAIC_OK)
            continue;
        if (!begun) {
            (void)fputs("\ndraws: # bootstrap refits\n  names: [", out);
            for (size_t i = 0; i < job->form->coefficients; i++)
                (void)fprintf(out, "%s%s", i ? ", " : "", job->form->coefficient[i].name);
            (void)fputs("]\n  rows:\n", out);
        }
        begun = true;
        (void)fputs("    - [", out);
        for (size_t i = 0; i < job->form->coefficients; i++) {
            (void)fputs(i ? ", " : "", out);
            put_number(out, draw->coefficient[i]);
        }
        (void)fputs("]\n", out);
    }
}

enum mosaic_status save_law(const struct fit_job *job, unsigned long seed, char **text,
                            struct status_error *err) {
    char *written = NULL;
    size_t size = 0;
    if (!save_law_can(job->form))
        return status_set(err, MOSAIC_USAGE, "a law of the %s form cannot plan", job->form->name);
    if (job->outcome != FIT_DONE)
        return status_set(err, MOSAIC_NUMERIC, "no law to write: the fit ended %s",
                          fit_outcome_text(job->outcome));
    FILE *out = open_memstream(&written, &size);
    if (!out)
        return status_no_memory(err);
    put_provenance(out, job, seed);
    put_head(out, job);
    put_coefficients(out, job);
    put_intervals(out, job);
    put_labels(out, job);
    put_support(out, job);
    put_covariance(out, job);
    put_draws(out, job);
    const bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        free(written);
        return status_no_memory(err);
    }
    *text = written;
    return MOSAIC_OK;
}
