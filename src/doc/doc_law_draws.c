// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Other laws that the runs allow, of a law document: its `draws` as they are, or drawn from the
 * covariance C of ln |k| of its coefficients,
 *   ln |k| + V sqrt(Lambda) z,  C = V Lambda V',  z standard normal.
 * The eigenvalues, not a Cholesky factor: fitted laws have directions along which C is singular.
 * A covariance is a linear picture.  Where a law's ridge is curved, its draws would miss the very
 * runs that it comes from; none are taken then.
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

struct drawn_section {
    struct string_list names;
    const struct node *rows;
};

static const struct field drawn_fields[] = {
    {.key = "names",
     .kind = FIELD_LIST,
     .item = FIELD_STRING,
     .flags = FIELD_REQUIRED,
     .max_count = FORM_MAX_COEFFICIENTS,
     FIELD_AT(struct drawn_section, names),
     .help = "coefficients, in the order of the rows"},
    {.key = "rows",
     .kind = FIELD_FREE,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct drawn_section, rows),
     .help = "a list of coefficients for each draw"},
};
const struct schema doc_law_drawn_schema = SCHEMA("draws", struct drawn_section, drawn_fields);

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
    s->count++;
    return MOSAIC_OK;
}

static enum mosaic_status check_logarithms(struct loader *l, const struct node *node,
                                           const struct law *law, const struct spread *s) {
    const struct place place = loader_place(node, "names");
    struct law copy = *law;
    for (size_t i = 0; i < s->count; ++i)
        if (!(fabs(*member_of(&copy, s->at[i])) > 0.0))
            return diag_error(l->diags, &place,
                              "coefficient %zu of the covariance is 0: it has no logarithm to vary",
                              i + 1);
    return MOSAIC_OK;
}

static enum mosaic_status take_row(struct loader *l, const struct node *row, size_t i, size_t count,
                                   double *values) {
    if (row->kind != NODE_SEQUENCE || row->count != count)
        return diag_error(l->diags, &row->place, "row %zu must be a list of %zu numbers", i + 1,
                          count);
    for (size_t j = 0; j < count; ++j) {
        const struct node *const cell = row->items[j];
        struct status_error err;
        if (cell->kind != NODE_SCALAR || cell->is_quoted)
            return diag_error(l->diags, &cell->place, "row %zu holds what is no number", i + 1);
        if (units_parse_number(cell->text, &values[j], &err) != MOSAIC_OK)
            return diag_from_error(l->diags, &cell->place, &err);
    }
    return MOSAIC_OK;
}

static enum mosaic_status take_rows(struct loader *l, const struct node *rows, struct spread *s) {
    if (rows->kind != NODE_SEQUENCE || rows->count != s->count)
        return diag_error(l->diags, &rows->place,
                          "the covariance must have a row for each of its %zu names", s->count);
    for (size_t i = 0; i < s->count; ++i)
        TRY(take_row(l, rows->items[i], i, s->count, &s->matrix[i * s->count]));
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

static void vary(const struct spread *s, const double *z, struct law *law) {
    for (size_t i = 0; i < s->count; ++i) {
        double step = 0.0;
        for (size_t k = 0; k < s->count; ++k)
            step += s->matrix[i * s->count + k] * z[k];
        *member_of(law, s->at[i]) *= exp(step);
    }
}

static double middle_of(const struct law_range *range, double unknown) {
    return range->min > 0.0 && range->min <= range->max ? sqrt(range->min * range->max) : unknown;
}

/* Amid the runs, or where any law has something to say. */
static struct law_point centre_of(const struct law *law) {
    const bool has_sparsity = law->sparsity.min <= law->sparsity.max && law->sparsity.min >= 0.0;
    const double sparsity =
        has_sparsity ? 1.0 - sqrt((1.0 - law->sparsity.min) * (1.0 - law->sparsity.max)) : 0.0;
    return (struct law_point){.n_total = middle_of(&law->n_total, 1e9),
                              .tokens = middle_of(&law->tokens, 2e10),
                              .sparsity = sparsity,
                              .granularity = middle_of(&law->granularity, 1.0)};
}

/* Standard deviation of ln L at a point as the covariance has it, by differences. */
static double linear_spread(const struct law *law, const struct spread *s,
                            const struct law_point *at) {
    const double step = 1e-5;
    double sum = 0.0;
    for (size_t k = 0; k < s->count; ++k) {
        double z[FORM_MAX_COEFFICIENTS] = {0};
        struct law up = *law, down = *law;
        z[k] = step;
        vary(s, z, &up);
        z[k] = -step;
        vary(s, z, &down);
        const double slope = (log(law_loss(&up, at)) - log(law_loss(&down, at))) / (2.0 * step);
        sum += slope * slope;
    }
    return sqrt(sum);
}

/* Half the draws lie within 0.67 of the standard deviation when the picture holds. */
static bool is_linear(const struct law *law, const struct spread *s,
                      const struct law_draws *draws) {
    const struct law_point at = centre_of(law);
    const double linear = linear_spread(law, s, &at), widest = 2.0;
    size_t within = 0;
    for (size_t i = 0; i < draws->count; ++i)
        within += fabs(log(law_loss(&draws->items[i], &at) / law_loss(law, &at))) <=
                  widest * linear * 0.67448975019608171;
    return 2 * within >= draws->count;
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
        double z[FORM_MAX_COEFFICIENTS];
        struct law *const one = &draws->items[draws->count];
        *one = *law;
        for (size_t k = 0; k < s->count; ++k)
            z[k] = gsl_ran_ugaussian(random);
        vary(s, z, one);
        draws->count += law_check(one, &unused) == MOSAIC_OK;
    }
    gsl_rng_free(random);
    if (2 * draws->count >= DRAWS && is_linear(law, s, draws))
        return MOSAIC_OK;
    diag_warning(l->diags, place,
                 "the covariance of %s is too wide to draw laws from: its error is left out",
                 law->name);
    diag_hint(l->diags, "give 'draws', as mosaic fit writes them, or fit the runs in the plan");
    draws->count = 0;
    return MOSAIC_OK;
}

static enum mosaic_status take_names(struct loader *l, const struct node *node,
                                     const struct string_list *names, const struct law_kind *kind,
                                     struct spread *s) {
    for (size_t i = 0; i < names->count; ++i)
        TRY(take_name(l, node, names->items[i], kind, s));
    return MOSAIC_OK;
}

enum mosaic_status doc_law_draw(struct loader *l, const struct node *node, const char *prefix,
                                const struct law_kind *kind, struct law_draws *draws) {
    struct covariance_section section = {.rows = NULL};
    struct spread s = {.count = 0};
    TRY(loader_bind(l, &doc_law_covariance_schema, node, prefix, &section));
    TRY(take_names(l, node, &section.names, kind, &s));
    TRY(check_logarithms(l, node, kind->law, &s));
    TRY(take_rows(l, section.rows, &s));
    TRY(take_root(l, &section.rows->place, &s));
    return draws ? draw(l, &node->place, kind->law, &s, draws) : MOSAIC_OK;
}

enum mosaic_status doc_law_take_draws(struct loader *l, const struct node *node, const char *prefix,
                                      const struct law_kind *kind, struct law_draws *draws) {
    struct drawn_section section = {.rows = NULL};
    struct spread s = {.count = 0};
    TRY(loader_bind(l, &doc_law_drawn_schema, node, prefix, &section));
    TRY(take_names(l, node, &section.names, kind, &s));
    const struct node *const rows = section.rows;
    if (rows->kind != NODE_SEQUENCE || rows->count == 0)
        return diag_error(l->diags, &rows->place, "'rows' must be a list of draws");
    draws->items = calloc(rows->count, sizeof *draws->items);
    if (!draws->items)
        return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    for (size_t i = 0; i < rows->count; ++i) {
        struct law *const one = &draws->items[i];
        double values[FORM_MAX_COEFFICIENTS] = {0};
        struct status_error err;
        *one = *kind->law;
        TRY(take_row(l, rows->items[i], i, s.count, values));
        for (size_t k = 0; k < s.count; ++k)
            *member_of(one, s.at[k]) = values[k];
        if (law_check(one, &err) != MOSAIC_OK)
            return diag_from_error(l->diags, &rows->items[i]->place, &err);
        draws->count++;
    }
    return MOSAIC_OK;
}
