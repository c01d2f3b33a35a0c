// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The declared geometries of a plan, in geometry_compare's order: the products of a grid on the
 * paper's ladder, a list of named models, or one model.  Every product that is left out is counted
 * with its reason.
 */
#include "doc/plan_parts.h"

#include "model/count.h"
#include "model/ladder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>

enum { LADDER_Q_MAX = GEOMETRY_MAX_LAYERS / 4 }; /* 4q layers */

struct grid_section {
    int ladder;
    bool has_ladder, has_sparsity;
    struct int_list q, experts, top_k, granularity;
    struct number_range sparsity;
    struct record_list list;
};

struct listed_model {
    const char *name;
    const struct node *model;
};

static const char *const ladder_words[] = {"mosaic", NULL};
static const double products_max = 1e7, sparsity_slack = 1e-9;

#define GRID_AXIS(member, most, text)                                                              \
    {                                                                                              \
        .key = #member, .kind = FIELD_LIST, .item = FIELD_INT, .flags = FIELD_UNIQUE,              \
        FIELD_AT(struct grid_section, member), .min = 1, .max = (most), .help = (text)             \
    }
static const struct field listed_fields[] = {
    {.key = "name",
     .kind = FIELD_STRING,
     FIELD_AT(struct listed_model, name),
     .help = "name in the results; the model's own when left out"},
    {.key = "model",
     .kind = FIELD_FREE,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct listed_model, model),
     .help = "FILE or mapping of mosaic-model/1"},
};
static const struct schema listed_schema = SCHEMA("model", struct listed_model, listed_fields);

static const struct field grid_fields[] = {
    {.key = "ladder",
     .kind = FIELD_ENUM,
     .words = ladder_words,
     FIELD_AT(struct grid_section, ladder),
     FIELD_PRESENCE(struct grid_section, has_ladder),
     .help = "a grid on this ladder: all products of the four lists"},
    GRID_AXIS(q, LADDER_Q_MAX, "seeds: 4q layers, width 512q"),
    GRID_AXIS(experts, GEOMETRY_MAX_EXPERTS, "routed experts per MoE layer"),
    GRID_AXIS(top_k, GEOMETRY_MAX_EXPERTS, "routed experts used per token, below experts"),
    GRID_AXIS(granularity, GEOMETRY_MAX_FFN, "FFN width over expert width"),
    {.key = "sparsity",
     .kind = FIELD_RANGE,
     .dimension = DIM_FRACTION,
     FIELD_AT(struct grid_section, sparsity),
     FIELD_PRESENCE(struct grid_section, has_sparsity),
     .max = 1.0,
     .help = "least and greatest 1 - active over total parameters, by the law's count"},
    {.key = "list",
     .kind = FIELD_LIST,
     .item = FIELD_MAPPING,
     .nested = &listed_schema,
     FIELD_AT(struct grid_section, list),
     .help = "in place of a ladder: named models"},
};
const struct schema plan_geometry_schema = SCHEMA("geometry", struct grid_section, grid_fields);

/* A space that grows. */
struct growing {
    struct geometry *items;
    const char **names; /* of a list, parallel to items */
    size_t count, room;
};

static enum mosaic_status add(struct loader *l, struct growing *g, const struct geometry *item) {
    if (g->count == g->room) {
        const size_t room = g->room ? g->room * 2 : 64;
        struct geometry *const grown = realloc(g->items, room * sizeof *grown);
        if (!grown)
            return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
        g->items = grown;
        g->room = room;
    }
    g->items[g->count++] = *item;
    return MOSAIC_OK;
}

static int compare(const void *a, const void *b) {
    return geometry_compare(a, b);
}

/* Whether 1 - S lies in the declared range; counts what does not. */
static bool is_in_range(const struct geometry *g, const struct number_range *range,
                        struct geometry_census *census) {
    struct param_counts n;
    count_params(g, &n);
    if (n.sparsity < range->low - sparsity_slack) {
        census->sparsity_low++;
        return false;
    }
    if (n.sparsity > range->high + sparsity_slack) {
        census->sparsity_high++;
        return false;
    }
    return true;
}

/* One product of the grid; granularity 1 always divides and tells the width. */
static enum mosaic_status take_product(struct loader *l, const struct grid_section *s,
                                       const int product[4], int vocab, struct growing *space) {
    struct geometry_census *const census = &l->document->census;
    const int q = product[0], experts = product[1], top_k = product[2], granularity = product[3];
    struct geometry g;
    if (top_k >= experts) {
        census->top_k_large++;
        return MOSAIC_OK;
    }
    if (ladder_geometry(q, experts, top_k, granularity, vocab, &g, NULL) != MOSAIC_OK) {
        const bool is_shape = ladder_geometry(q, experts, top_k, 1, vocab, &g, NULL) == MOSAIC_OK;
        if (is_shape && g.dense_ffn % granularity != 0)
            census->indivisible++;
        else
            census->illegal++;
        return MOSAIC_OK;
    }
    return is_in_range(&g, &s->sparsity, census) ? add(l, space, &g) : MOSAIC_OK;
}

static enum mosaic_status expand(struct loader *l, const struct grid_section *s, int vocab,
                                 struct growing *space) {
    for (size_t a = 0; a < s->q.count; ++a)
        for (size_t b = 0; b < s->experts.count; ++b)
            for (size_t c = 0; c < s->top_k.count; ++c)
                for (size_t d = 0; d < s->granularity.count; ++d) {
                    const int product[4] = {s->q.items[a], s->experts.items[b], s->top_k.items[c],
                                            s->granularity.items[d]};
                    TRY(take_product(l, s, product, vocab, space));
                }
    if (space->count > 1)
        qsort(space->items, space->count, sizeof *space->items, compare);
    return MOSAIC_OK;
}

static enum mosaic_status report_empty(struct loader *l, const struct node *node) {
    const struct geometry_census *const n = &l->document->census;
    (void)diag_error(
        l->diags, &node->place,
        "the declared space is empty: of %zu products %zu have top_k >= experts, %zu a "
        "granularity that does not divide the FFN, %zu a shape out of range, %zu lie "
        "below and %zu above the sparsity range",
        n->products, n->top_k_large, n->indivisible, n->illegal, n->sparsity_low, n->sparsity_high);
    diag_hint(l->diags, "widen the axis that excludes most");
    return MOSAIC_BAD_INPUT;
}

static void note_left_out(struct loader *l, const struct node *node) {
    const struct geometry_census *const n = &l->document->census;
    if (n->indivisible + n->illegal == 0)
        return;
    diag_note(
        l->diags, &node->place,
        "%zu of %zu products are left out: granularity does not divide the FFN in %zu, %zu are "
        "out of range",
        n->indivisible + n->illegal, n->products, n->indivisible, n->illegal);
}

static enum mosaic_status take_grid(struct loader *l, const struct node *node,
                                    const struct grid_section *s, int vocab,
                                    struct growing *space) {
    static const char *const keys[] = {"q", "experts", "top_k", "granularity"};
    const size_t counts[] = {s->q.count, s->experts.count, s->top_k.count, s->granularity.count};
    double products = 1.0;
    for (int i = 0; i < 4; ++i) {
        if (counts[i] == 0)
            return diag_error(l->diags, &node->place,
                              "'%s' is missing: a ladder needs q, experts, "
                              "top_k and granularity",
                              keys[i]);
        products *= (double)counts[i];
    }
    if (products > products_max)
        return diag_error(l->diags, &node->place,
                          "%zu x %zu x %zu x %zu = %.0f geometries; at most "
                          "%.0f",
                          counts[0], counts[1], counts[2], counts[3], products, products_max);
    l->document->census.products = (size_t)products;
    TRY(expand(l, s, vocab, space));
    if (space->count == 0)
        return report_empty(l, node);
    note_left_out(l, node);
    return MOSAIC_OK;
}

static enum mosaic_status take_listed(struct loader *l, const struct listed_model *m, size_t index,
                                      int vocab, struct growing *space) {
    if (loader_is_broken(l, m->model))
        return MOSAIC_BAD_INPUT;
    if (m->model->kind != NODE_MAPPING)
        return diag_error(l->diags, &m->model->place, "'model' is FILE or a mapping, not %s",
                          node_kind_text(m->model));
    char *const path = talloc_asprintf(l->memory, "search.geometry.list[%zu].model", index);
    if (!path)
        return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    struct geometry g;
    const char *own = "";
    TRY(doc_model_bind(l, m->model, path, vocab, &g, &own));
    TRY(add(l, space, &g));
    space->names[space->count - 1] = m->name ? m->name : own;
    return MOSAIC_OK;
}

/* Insertion: a list is short, and names move along. */
static void sort_named(struct growing *space) {
    for (size_t i = 1; i < space->count; ++i)
        for (size_t k = i; k > 0 && geometry_compare(&space->items[k - 1], &space->items[k]) > 0;
             --k) {
            const struct geometry g = space->items[k];
            const char *const name = space->names[k];
            space->items[k] = space->items[k - 1];
            space->names[k] = space->names[k - 1];
            space->items[k - 1] = g;
            space->names[k - 1] = name;
        }
}

static enum mosaic_status take_list(struct loader *l, const struct node *node,
                                    const struct grid_section *s, int vocab,
                                    struct growing *space) {
    const struct node *const list = node_find(node, "list");
    const struct listed_model *const models = s->list.items;
    space->names = talloc_zero_array(l->memory, const char *, (unsigned)s->list.count);
    if (!space->names)
        return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    enum mosaic_status status = MOSAIC_OK;
    for (size_t i = 0; i < s->list.count; ++i) {
        if (take_listed(l, &models[i], i, vocab, space) != MOSAIC_OK)
            status = MOSAIC_BAD_INPUT;
    }
    TRY(status);
    sort_named(space);
    for (size_t i = 1; i < space->count; ++i)
        if (geometry_compare(&space->items[i - 1], &space->items[i]) == 0)
            return diag_error(l->diags, &list->place, "models '%s' and '%s' are the same geometry",
                              space->names[i - 1], space->names[i]);
    l->document->census.products = space->count;
    return MOSAIC_OK;
}

/* The vocabulary of the step is the model's; a plan's own serves models that state none. */
static void settle_vocab(struct loader *l, const struct node *root, const struct geometry *g,
                         struct workload *workload) {
    const struct node *const given = node_at(root, "workload.vocab");
    if (given && workload->vocab != g->vocab)
        diag_note(l->diags, &given->place, "the model's vocabulary of %d counts, not %d", g->vocab,
                  workload->vocab);
    workload->vocab = g->vocab;
}

static enum mosaic_status take_model(struct loader *l, const struct node *node, int vocab,
                                     struct growing *space) {
    if (loader_is_broken(l, node))
        return MOSAIC_BAD_INPUT;
    if (node->kind != NODE_MAPPING)
        return diag_error(l->diags, &node->place, "'model' is FILE or a mapping, not %s",
                          node_kind_text(node));
    struct geometry g;
    space->names = talloc_zero_array(l->memory, const char *, 1);
    if (!space->names)
        return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    TRY(doc_model_bind(l, node, "model", vocab, &g, &space->names[0]));
    l->document->census.products = 1;
    return add(l, space, &g);
}

static enum mosaic_status take_space(struct loader *l, const struct node *node, int vocab,
                                     struct growing *space, struct number_range *sparsity) {
    struct grid_section s = {.sparsity = {0.0, 1.0}};
    TRY(loader_bind(l, &plan_geometry_schema, node, "search.geometry", &s));
    if (s.has_ladder == (s.list.count > 0))
        return diag_error(l->diags, &node->place, "a geometry space is one of 'ladder' and 'list'");
    *sparsity = s.sparsity;
    return s.has_ladder ? take_grid(l, node, &s, vocab, space)
                        : take_list(l, node, &s, vocab, space);
}

/* `limits` name every matrix, as n_total and n_active do. */
static enum mosaic_status keep_within_limits(struct loader *l, const struct node *root,
                                             const struct space_limits *limits,
                                             struct growing *space) {
    size_t kept = 0;
    for (size_t i = 0; i < space->count; ++i) {
        struct param_counts counts;
        count_params(&space->items[i], &counts);
        if (counts.n_total > limits->n_total_max || counts.n_active > limits->n_active_max)
            continue;
        space->items[kept] = space->items[i];
        if (space->names)
            space->names[kept] = space->names[i];
        ++kept;
    }
    l->document->census.too_large = space->count - kept;
    if (kept == 0 && space->count > 0) {
        const struct place place = loader_place(root, "limits");
        return diag_error(l->diags, &place, "'limits' exclude all %zu models of the space",
                          space->count);
    }
    space->count = kept;
    return MOSAIC_OK;
}

enum mosaic_status plan_geometries(struct loader *l, const struct node *root,
                                   const struct node *space, struct problem *problem) {
    const struct node *const model = node_find(root, "model");
    struct growing growing = {NULL, NULL, 0, 0};
    struct number_range sparsity = {0.0, 1.0};
    const int vocab = problem->workload.vocab;
    enum mosaic_status status = model ? take_model(l, model, vocab, &growing)
                                      : take_space(l, space, vocab, &growing, &sparsity);
    if (status == MOSAIC_OK)
        status = keep_within_limits(l, root, &problem->limits, &growing);
    problem->geometries = (struct geometry_space){growing.count, growing.items};
    TRY(status);
    l->document->geometry_names = growing.names;
    problem->limits.sparsity_min = sparsity.low;
    problem->limits.sparsity_max = sparsity.high;
    if (growing.names && growing.items)
        settle_vocab(l, root, &growing.items[0], &problem->workload);
    return MOSAIC_OK;
}
