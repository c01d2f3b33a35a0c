// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * mosaic-law/1: the form of a scaling law, its coefficients, and the range of the runs behind it.
 */
#include "doc/sections.h"

struct law_coefficients {
    double a, b, c, j, e, alpha, beta, lambda, delta, gamma, eta;
};

struct law_intervals {
    struct number_range a, b, c, j, e, alpha, beta, lambda, delta, gamma, eta;
};

struct law_labels {
    int a, b, c, j, e, alpha, beta, lambda, delta, gamma, eta;
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
};

static const char *const forms[] = {"mosaic", NULL};
static const char *const counts[] = {"no_embedding_no_head_no_router", NULL};
static const char *const label_words[] = {"identified", "ridge", NULL};

#define COEFFICIENT(member, text)                                                                  \
    {                                                                                              \
        .key = #member, .kind = FIELD_NUMBER, .flags = FIELD_REQUIRED,                             \
        FIELD_AT(struct law_coefficients, member), .help = (text)                                  \
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
};
static const struct schema coefficient_schema =
    SCHEMA("coefficients", struct law_coefficients, coefficient_fields);

#define INTERVAL(member)                                                                           \
    {                                                                                              \
        .key = #member, .kind = FIELD_RANGE, FIELD_AT(struct law_intervals, member),               \
        .help = "confidence interval"                                                              \
    }
static const struct field interval_fields[] = {
    INTERVAL(a),     INTERVAL(b),     INTERVAL(c),    INTERVAL(j),
    INTERVAL(e),     INTERVAL(alpha), INTERVAL(beta), INTERVAL(lambda),
    INTERVAL(delta), INTERVAL(gamma), INTERVAL(eta),
};
static const struct schema interval_schema =
    SCHEMA("intervals", struct law_intervals, interval_fields);

#define LABEL(member)                                                                              \
    {                                                                                              \
        .key = #member, .kind = FIELD_ENUM, .words = label_words,                                  \
        FIELD_AT(struct law_labels, member), .help = "whether the runs determine the coefficient"  \
    }
static const struct field label_fields[] = {
    LABEL(a),    LABEL(b),      LABEL(c),     LABEL(j),     LABEL(e),   LABEL(alpha),
    LABEL(beta), LABEL(lambda), LABEL(delta), LABEL(gamma), LABEL(eta),
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
     .words = forms,
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
};
const struct schema doc_law_schema =
    SCHEMA_DOCUMENT("law", "mosaic-law/1", struct law_section, law_fields);

static struct law_range to_range(struct number_range r) {
    return (struct law_range){r.low, r.high};
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

enum mosaic_status doc_law_bind(struct loader *l, const struct node *node, const char *prefix,
                                struct law *law) {
    static const struct number_range unknown = {1.0, 0.0}; /* min > max */
    struct law_section s = {.support = {unknown, unknown, unknown, unknown, unknown, unknown}};
    TRY(loader_bind(l, &doc_law_schema, node, prefix, &s));
    struct law out = {.a = 0.0};
    TRY(loader_copy(l, node, "name", s.name, out.name, sizeof out.name));
    TRY(loader_copy(l, node, "source", s.source, out.source, sizeof out.source));
    fill(&s, &out);
    struct status_error err;
    if (law_check(&out, &err) != MOSAIC_OK) {
        const struct place place = loader_override_place(node_find(node, "coefficients"));
        return diag_from_error(l->diags, &place, &err);
    }
    *law = out;
    return MOSAIC_OK;
}
