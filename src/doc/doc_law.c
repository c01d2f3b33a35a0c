// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * mosaic-law/1: the form of a scaling law, its coefficients, their covariance, and the range of the
 * runs behind it.  In a plan, {runs: FILE, ...} stands for the law that fits them.
 */
#include "doc/sections.h"

#include "law/form.h"

#include <math.h>
#include <string.h>

/* A, B, E: chinchilla's names. */
struct law_coefficients {
    double a, b, c, j, e, alpha, beta, lambda, delta, gamma, eta, A, B, E;
};

struct law_intervals {
    struct number_range a, b, c, j, e, alpha, beta, lambda, delta, gamma, eta, A, B, E;
};

struct law_labels {
    int a, b, c, j, e, alpha, beta, lambda, delta, gamma, eta, A, B, E;
};

struct law_support {
    struct number_range n_total, n_active, tokens, sparsity, granularity, tokens_per_active;
};

struct law_section {
    const char *name, *source;
    int form, count;
    struct law_coefficients coefficients;
    struct law_intervals intervals;
    struct law_labels labels;
    struct law_support support;
    const struct node *covariance, *draws;
};

enum { COUNT_ALL = 2 };

const char *const doc_law_forms[] = {[FORM_MOSAIC] = "mosaic",
                                     [FORM_MOSAIC_NO_G] = "mosaic-no-g",
                                     [FORM_ABNAR] = "abnar",
                                     [FORM_CHINCHILLA] = "chinchilla",
                                     [FORM_KRAJEWSKI] = "krajewski",
                                     [FORM_CLARK] = "clark",
                                     [FORM_KINDS] = NULL};
static const char *const counts[] = {"no_embedding_no_head_no_router",
                                     "no_embedding", [COUNT_ALL] = "all", NULL};
static const char *const label_words[] = {"identified", "weak",    "ridge", "undetermined",
                                          "fixed",      "dropped", NULL};

#define COEFFICIENT(member, text)                                                                  \
    {                                                                                              \
        .key = #member, .kind = FIELD_NUMBER, FIELD_AT(struct law_coefficients, member),           \
        .help = (text)                                                                             \
    }
static const struct field coefficient_fields[] = {
    COEFFICIENT(a, "amplitude of a/N^alpha"),
    COEFFICIENT(b, "amplitude of b/D^beta"),
    COEFFICIENT(c, "amplitude of c/(1-S)^lambda"),
    COEFFICIENT(j, "amplitude of the joint term j/((1-S)^delta N^gamma G^eta)"),
    COEFFICIENT(e, "loss that no model of this form goes below"),
    COEFFICIENT(alpha, "exponent of the total parameters"),
    COEFFICIENT(beta, "exponent of the tokens"),
    COEFFICIENT(lambda, "exponent of 1-S"),
    COEFFICIENT(delta, "exponent of 1-S in the joint term"),
    COEFFICIENT(gamma, "exponent of the total parameters in the joint term"),
    COEFFICIENT(eta, "exponent of the granularity in the joint term"),
    COEFFICIENT(A, "a of the chinchilla form"),
    COEFFICIENT(B, "b of the chinchilla form"),
    COEFFICIENT(E, "e of the chinchilla form"),
};
static const struct schema coefficient_schema =
    SCHEMA("coefficients", struct law_coefficients, coefficient_fields);

#define INTERVAL(member)                                                                           \
    {                                                                                              \
        .key = #member, .kind = FIELD_RANGE, FIELD_AT(struct law_intervals, member),               \
        .help = "confidence interval"                                                              \
    }
static const struct field interval_fields[] = {
    INTERVAL(a),     INTERVAL(b),    INTERVAL(c),      INTERVAL(j),     INTERVAL(e),
    INTERVAL(alpha), INTERVAL(beta), INTERVAL(lambda), INTERVAL(delta), INTERVAL(gamma),
    INTERVAL(eta),   INTERVAL(A),    INTERVAL(B),      INTERVAL(E),
};
static const struct schema interval_schema =
    SCHEMA("intervals", struct law_intervals, interval_fields);

#define LABEL(member)                                                                              \
    {                                                                                              \
        .key = #member, .kind = FIELD_ENUM, .words = label_words,                                  \
        FIELD_AT(struct law_labels, member), .help = "whether the runs determine the coefficient"  \
    }
static const struct field label_fields[] = {
    LABEL(a),      LABEL(b),     LABEL(c),     LABEL(j),   LABEL(e), LABEL(alpha), LABEL(beta),
    LABEL(lambda), LABEL(delta), LABEL(gamma), LABEL(eta), LABEL(A), LABEL(B),     LABEL(E),
};
static const struct schema label_schema = SCHEMA("labels", struct law_labels, label_fields);

#define SUPPORT(member, text)                                                                      \
    { .key = #member, .kind = FIELD_RANGE, FIELD_AT(struct law_support, member), .help = (text) }
static const struct field support_fields[] = {
    SUPPORT(n_total, "total parameters of the runs fitted, by the law's count"),
    SUPPORT(n_active, "active parameters, by the law's count"),
    SUPPORT(tokens, "training tokens"),
    SUPPORT(sparsity, "1 - active over total parameters"),
    SUPPORT(granularity, "dense width over expert width"),
    SUPPORT(tokens_per_active, "tokens per active parameter"),
};
static const struct schema support_schema = SCHEMA("support", struct law_support, support_fields);

static const struct field law_fields[] = {
    {.key = "name",
     .kind = FIELD_STRING,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct law_section, name),
     .help = "name of the law"},
    {.key = "source",
     .kind = FIELD_STRING,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct law_section, source),
     .help = "where the coefficients come from"},
    {.key = "form",
     .kind = FIELD_ENUM,
     .words = doc_law_forms,
     .fallback = "mosaic",
     FIELD_AT(struct law_section, form),
     .help = "form of the law"},
    {.key = "count",
     .kind = FIELD_ENUM,
     .words = counts,
     .fallback = "no_embedding_no_head_no_router",
     FIELD_AT(struct law_section, count),
     .help = "what its parameter counts leave out"},
    {.key = "coefficients",
     .kind = FIELD_MAPPING,
     .nested = &coefficient_schema,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct law_section, coefficients),
     .help = "coefficients of L in nats per token"},
    {.key = "intervals",
     .kind = FIELD_MAPPING,
     .nested = &interval_schema,
     FIELD_AT(struct law_section, intervals),
     .help = "confidence intervals of the coefficients"},
    {.key = "labels",
     .kind = FIELD_MAPPING,
     .nested = &label_schema,
     FIELD_AT(struct law_section, labels),
     .help = "which coefficients the runs determine"},
    {.key = "support",
     .kind = FIELD_MAPPING,
     .nested = &support_schema,
     FIELD_AT(struct law_section, support),
     .help = "ranges of the runs fitted; what lies outside is flagged"},
    {.key = "covariance",
     .kind = FIELD_FREE,
     .nested = &doc_law_covariance_schema,
     FIELD_AT(struct law_section, covariance),
     .help = "covariance of the coefficients, for the law's uncertainty"},
    {.key = "draws",
     .kind = FIELD_FREE,
     .nested = &doc_law_drawn_schema,
     FIELD_AT(struct law_section, draws),
     .help = "other laws that the runs allow; they go before the covariance"},
};
const struct schema doc_law_schema =
    SCHEMA_DOCUMENT("law", "mosaic-law/1", struct law_section, law_fields);

static struct law_range to_range(struct number_range r) {
    return (struct law_range){r.low, r.high};
}

static const struct {
    const char *name;
    size_t at;
} places[] = {
    {"a", offsetof(struct law_coefficients, a)},
    {"b", offsetof(struct law_coefficients, b)},
    {"c", offsetof(struct law_coefficients, c)},
    {"j", offsetof(struct law_coefficients, j)},
    {"e", offsetof(struct law_coefficients, e)},
    {"alpha", offsetof(struct law_coefficients, alpha)},
    {"beta", offsetof(struct law_coefficients, beta)},
    {"lambda", offsetof(struct law_coefficients, lambda)},
    {"delta", offsetof(struct law_coefficients, delta)},
    {"gamma", offsetof(struct law_coefficients, gamma)},
    {"eta", offsetof(struct law_coefficients, eta)},
    {"A", offsetof(struct law_coefficients, A)},
    {"B", offsetof(struct law_coefficients, B)},
    {"E", offsetof(struct law_coefficients, E)},
};
enum { PLACES = sizeof places / sizeof places[0] };

static double *coefficient_at(struct law_coefficients *k, size_t i) {
    return (double *)(void *)((char *)k + places[i].at);
}

/* Those of the form, no others; what the form lacks is 0. */
static enum mosaic_status settle(struct loader *l, const struct node *node, const struct form *form,
                                 struct law_coefficients *k) {
    enum mosaic_status status = MOSAIC_OK;
    for (size_t i = 0; i < PLACES; ++i) {
        double *const value = coefficient_at(k, i);
        const bool is_needed = form_coefficient_index(form, places[i].name) >= 0;
        const bool is_zero = !(fabs(*value) > 0.0); /* NAN: absent */
        const struct node *const given = node_find(node, places[i].name);
        if (is_needed && !given)
            status = diag_error(l->diags, &node->key_place,
                                "missing key '%s': a coefficient of the %s form", places[i].name,
                                form->name);
        else if (!is_needed && given && !is_zero)
            status = diag_error(l->diags, &given->place, "the %s form has no coefficient '%s'",
                                form->name, places[i].name);
        if (!is_needed)
            *value = 0.0;
    }
    if (status == MOSAIC_OK && form->kind == FORM_CHINCHILLA) {
        k->a = k->A;
        k->b = k->B;
        k->e = k->E;
    }
    return status;
}

static void fill(const struct law_section *s, struct law *law) {
    const struct law_coefficients *const k = &s->coefficients;
    law->a = k->a;
    law->b = k->b;
    law->c = k->c;
    law->j = k->j;
    law->e = k->e;
    law->alpha = k->alpha;
    law->beta = k->beta;
    law->lambda = k->lambda;
    law->delta = k->delta;
    law->gamma = k->gamma;
    law->eta = k->eta;
    law->n_total = to_range(s->support.n_total);
    law->n_active = to_range(s->support.n_active);
    law->tokens = to_range(s->support.tokens);
    law->sparsity = to_range(s->support.sparsity);
    law->granularity = to_range(s->support.granularity);
    law->tokens_per_active = to_range(s->support.tokens_per_active);
}

/* Before the coefficients, which are others then. */
static enum mosaic_status check_form(struct loader *l, const struct node *node) {
    const struct node *const form = node_find(node, "form");
    if (!form || form->kind != NODE_SCALAR ||
        (strcmp(form->text, doc_law_forms[FORM_CLARK]) != 0 &&
         strcmp(form->text, doc_law_forms[FORM_KRAJEWSKI]) != 0))
        return MOSAIC_OK;
    (void)diag_error(l->diags, &form->place, "a law of the %s form cannot plan", form->text);
    diag_hint(l->diags, "plans take mosaic, mosaic-no-g, abnar and chinchilla");
    return MOSAIC_BAD_INPUT;
}

/* Both are checked; the draws as they are go before what a covariance makes of them. */
static enum mosaic_status take_draws(struct loader *l, const char *prefix,
                                     const struct law_section *s, const struct law_kind *kind,
                                     struct law_draws *draws) {
    const char *const dot = *prefix ? "." : "";
    char path[STATUS_TEXT_MAX];
    (void)snprintf(path, sizeof path, "%s%scovariance", prefix, dot);
    if (s->covariance)
        TRY(doc_law_draw(l, s->covariance, path, kind, s->draws ? NULL : draws));
    (void)snprintf(path, sizeof path, "%s%sdraws", prefix, dot);
    return s->draws ? doc_law_take_draws(l, s->draws, path, kind, draws) : MOSAIC_OK;
}

static enum mosaic_status bind_document(struct loader *l, const struct node *node,
                                        const char *prefix, struct problem *problem) {
    static const struct number_range unknown = {1.0, 0.0}; /* min > max */
    struct law_section s = {.support = {unknown, unknown, unknown, unknown, unknown, unknown}};
    for (size_t i = 0; i < PLACES; ++i)
        *coefficient_at(&s.coefficients, i) = (double)NAN;
    TRY(check_form(l, node));
    TRY(loader_bind(l, &doc_law_schema, node, prefix, &s));
    const struct node *const coefficients = node_find(node, "coefficients");
    const struct form *const form = form_of((enum form_kind)s.form);
    struct law out = {.a = 0.0};
    TRY(settle(l, coefficients, form, &s.coefficients));
    TRY(loader_copy(l, node, "name", s.name, out.name, sizeof out.name));
    TRY(loader_copy(l, node, "source", s.source, out.source, sizeof out.source));
    fill(&s, &out);
    struct status_error err;
    if (law_check(&out, &err) != MOSAIC_OK) {
        const struct place place = loader_override_place(coefficients);
        return diag_from_error(l->diags, &place, &err);
    }
    problem->law = out;
    problem->law_counts_all = s.count == COUNT_ALL;
    problem->law_counts_experts = form->kind == FORM_ABNAR;
    if (!node_find(node, "count"))
        diag_warning(l->diags, &node->place,
                     "the law %s does not say what its N counts: taken to be %s", out.name,
                     counts[s.count]);
    return take_draws(l, prefix, &s, &(struct law_kind){form, &problem->law}, &problem->law_draws);
}

enum mosaic_status doc_law_bind(struct loader *l, const struct node *node, const char *prefix,
                                struct problem *problem) {
    const bool is_document = node_find(node, "schema") != NULL;
    return !is_document && node_find(node, "runs") ? doc_law_fit(l, node, prefix, problem)
                                                   : bind_document(l, node, prefix, problem);
}
