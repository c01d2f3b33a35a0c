// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Draws of a law from the covariance C of ln |k| of its coefficients:
 *   ln |k| + V sqrt(Lambda) z,  C = V Lambda V',  z standard normal.
 * The eigenvalues, not a Cholesky factor: fitted laws have directions along which C is singular.
 */
#include "doc/sections.h"

#include "law/form.h"

#include <gsl/gsl_eigen.h>
#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS = 200 };

static const double asymmetry_max = 1e-9; /* of the larger diagonal entry */
static const double negative_max = 1e-9;  /* of the largest eigenvalue */

struct covariance_section {
    int of;
    struct string_list names;
    const struct node *rows;
};

static const char *const of_words[] = {"ln", NULL};

static const struct field covariance_fields[] = {
    {.key = "of",
     .kind = FIELD_ENUM,
     .words = of_words,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct covariance_section, of),
     .help = "of the coefficients' logarithms"},
    {.key = "names",
     .kind = FIELD_LIST,
     .item = FIELD_STRING,
     .flags = FIELD_REQUIRED,
     .max_count = FORM_MAX_COEFFICIENTS,
     FIELD_AT(struct covariance_section, names),
     .help = "coefficients, in the order of the rows"},
    {.key = "rows",
     .kind = FIELD_FREE,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct covariance_section, rows),
     .help = "square and symmetric: a list for each name"},
};
const struct schema doc_law_covariance_schema =
    SCHEMA("covariance", struct covariance_section, covariance_fields);

struct spread {
    size_t count;
    size_t at[FORM_MAX_COEFFICIENTS];                             /* offset in struct law */
    double matrix[FORM_MAX_COEFFICIENTS * FORM_MAX_COEFFICIENTS]; /* then V sqrt(Lambda) */
};

static const struct {
    const char *name;
    size_t at;
} members[] = {
    {"a", offsetof(struct law, a)},         {"b", offsetof(struct law, b)},
    {"c", offsetof(struct law, c)},         {"j", offsetof(struct law, j)},
    {"e", offsetof(struct law, e)},         {"alpha", offsetof(struct law, alpha)},
    {"beta", offsetof(struct law, beta)},   {"lambda", offsetof(struct law, lambda)},
    {"delta", offsetof(struct law, delta)}, {"gamma", offsetof(struct law, gamma)},
    {"eta", offsetof(struct law, eta)},     {"A", offsetof(struct law, a)},
    {"B", offsetof(struct law, b)},         {"E", offsetof(struct law, e)},
};

static double *member_of(struct law *law, size_t at) {
    return (double *)(void *)((char *)law + at);
}

static enum mosaic_status take_name(struct loader *l, const struct node *node, const char *name,
                                    const struct law_kind *kind, struct spread *s) {
    const struct place place = loader_place(node, "names");
    const int i = form_coefficient_index(kind->form, name);
    char shown[STATUS_QUOTE_MAX];
    if (i < 0)
        return diag_error(l->diags, &place, "the %s form has no coefficient '%s'", kind->form->name,
                          status_quote(name, shown, sizeof shown));
    for (size_t m = 0; m < sizeof members / sizeof members[0]; ++m)
        if (strcmp(members[m].name, name) == 0)
            s->at[s->count] = members[m].at;
    for (size_t k = 0; k < s->count; ++k)
        if (s->at[k] == s->at[s->count])
            return diag_error(l->diags, &place, "'%s' is named twice", name);
    struct law law = *kind->law;
    if (!(fabs(*member_of(&law, s->at[s->count])) > 0.0))
        return diag_error(l->diags, &place, "'%s' is 0: it has no logarithm to vary", name);
    s->count++;
    return MOSAIC_OK;
}

static enum mosaic_status take_row(struct loader *l, const struct node *row, size_t i,
                                   struct spread *s) {
    if (row->kind != NODE_SEQUENCE || row->count != s->count)
        return diag_error(l->diags, &row->place,
                          "row %zu of the covariance must be a list of %zu numbers", i + 1,
                          s->count);
    for (size_t j = 0; j < s->count; ++j) {
        const struct node *const cell = row->items[j];
        struct status_error err;
        double *const value = &s->matrix[i * s->count + j];
        if (cell->kind != NODE_SCALAR || cell->is_quoted)
            return diag_error(l->diags, &cell->place, "a covariance is a number");
        if (units_parse_number(cell->text, value, &err) != MOSAIC_OK)
            return diag_from_error(l->diags, &cell->place, &err);
    }
    return MOSAIC_OK;
}

static enum mosaic_status take_rows(struct loader *l, const struct node *rows, struct spread *s) {
    if (rows->kind != NODE_SEQUENCE || rows->count != s->count)
        return diag_error(l->diags, &rows->place,
                          "the covariance must have a row for each of its %zu names", s->count);
    for (size_t i = 0; i < s->count; ++i)
        TRY(take_row(l, rows->items[i], i, s));
    for (size_t i = 0; i < s->count; ++i)
        for (size_t j = 0; j < i; ++j) {
            const size_t n = s->count;
            const double scale = fmax(fabs(s->matrix[i * n + i]), fabs(s->matrix[j * n + j]));
            if (!(fabs(s->matrix[i * n + j] - s->matrix[j * n + i]) <= asymmetry_max * scale))
                return diag_error(l->diags, &rows->items[i]->place,
                                  "the covariance is not symmetric: %g at %zu, %zu and %g at %zu, "
                                  "%zu",
                                  s->matrix[i * n + j], i + 1, j + 1, s->matrix[j * n + i], j + 1,
                                  i + 1);
        }
    return MOSAIC_OK;
}

/* The matrix becomes its root V sqrt(Lambda). */
static enum mosaic_status take_root(struct loader *l, const struct place *place, struct spread *s) {
    const size_t n = s->count;
    double values[FORM_MAX_COEFFICIENTS] = {0};
    double vectors[FORM_MAX_COEFFICIENTS * FORM_MAX_COEFFICIENTS] = {0};
    gsl_matrix_view m = gsl_matrix_view_array(s->matrix, n, n);
    gsl_matrix_view v = gsl_matrix_view_array(vectors, n, n);
    gsl_vector_view e = gsl_vector_view_array(values, n);
    gsl_eigen_symmv_workspace *const work = gsl_eigen_symmv_alloc(n);
    if (!work)
        return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    const int failed = gsl_eigen_symmv(&m.matrix, &e.vector, &v.matrix, work);
    gsl_eigen_symmv_free(work);
    double most = 0.0, least = 0.0;
    for (size_t k = 0; k < n; ++k) {
        most = fmax(most, values[k]);
        least = fmin(least, values[k]);
    }
    if (failed || !isfinite(most) || !(least >= -negative_max * most))
        return diag_error(l->diags, place,
                          "the covariance is not one: its least eigenvalue is %g, its largest %g",
                          least, most);
    for (size_t i = 0; i < n; ++i)
        for (size_t k = 0; k < n; ++k)
            s->matrix[i * n + k] = vectors[i * n + k] * sqrt(fmax(values[k], 0.0));
    return MOSAIC_OK;
}

static void draw_one(const struct spread *s, gsl_rng *random, struct law *law) {
    double z[FORM_MAX_COEFFICIENTS];
    for (size_t k = 0; k < s->count; ++k)
        z[k] = gsl_ran_ugaussian(random);
    for (size_t i = 0; i < s->count; ++i) {
        double step = 0.0;
        for (size_t k = 0; k < s->count; ++k)
            step += s->matrix[i * s->count + k] * z[k];
        *member_of(law, s->at[i]) *= exp(step);
    }
}

static enum mosaic_status draw(struct loader *l, const struct place *place, const struct law *law,
                               const struct spread *s, struct law_draws *draws) {
    gsl_rng *const random = gsl_rng_alloc(gsl_rng_mt19937);
    draws->items = calloc(DRAWS, sizeof *draws->items);
    if (!random || !draws->items) {
        if (random)
            gsl_rng_free(random);
        return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    }
    gsl_rng_set(random, l->options->seed);
    for (int i = 0; i < DRAWS; ++i) {
        struct status_error unused;
        struct law *const one = &draws->items[draws->count];
        *one = *law;
        draw_one(s, random, one);
        draws->count += law_check(one, &unused) == MOSAIC_OK;
    }
    gsl_rng_free(random);
    if (2 * draws->count >= DRAWS)
        return MOSAIC_OK;
    return diag_error(l->diags, place, "only %zu of %d draws from the covariance are laws",
                      draws->count, (int)DRAWS);
}

enum mosaic_status doc_law_draw(struct loader *l, const struct node *node, const char *prefix,
                                const struct law_kind *kind, struct law_draws *draws) {
    struct covariance_section section = {.rows = NULL};
    struct spread s = {.count = 0};
    TRY(loader_bind(l, &doc_law_covariance_schema, node, prefix, &section));
    for (size_t i = 0; i < section.names.count; ++i)
        TRY(take_name(l, node, section.names.items[i], kind, &s));
    TRY(take_rows(l, section.rows, &s));
    TRY(take_root(l, &section.rows->place, &s));
    return draw(l, &node->place, kind->law, &s, draws);
}
