// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * mosaic-calibration/1: entries, each a scalar, a curve or a collective, with source and licence.
 * The generic document is laid under every other, so each scalar has a value, and between them the
 * one that the document names as `over`; a curve or collective is there only when one of these two
 * has it.  A covariance of fitted scalars is checked and goes no further.
 */
#include "doc/calibration_find.h"

#include "base/suggest.h"
#include "doc/record.h"

#include <string.h>
#include <talloc.h>

struct entry {
    const char *quantity, *against;
    int collective, interpolate, ranks, ranks_per_domain;
    bool has_collective, has_ranks, has_ranks_per_domain;
    const struct node *value, *samples;
    const char *source, *licence, *software, *method, *range;
};

struct calibration_section {
    const char *name, *device, *source, *over;
    struct record_list entries;
    const struct node *covariance, *measured_steps, *measurements;
};

/* Of the logarithms of fitted scalars. */
struct covariance_section {
    struct string_list quantities;
    const struct node *matrix;
};

static const char *const collective_words[] = {"all_reduce", "all_gather",     "reduce_scatter",
                                               "all_to_all", "point_to_point", NULL};
static const char *const interpolate_words[] = {"steffen", "latency", NULL}; /* enum curve_method */

#define ENTRY_TEXT(member, flag, text)                                                             \
    {                                                                                              \
        .key = #member, .kind = FIELD_STRING, .flags = (flag), FIELD_AT(struct entry, member),     \
        .help = (text)                                                                             \
    }
#define ENTRY_RANKS(member, text)                                                                  \
    {                                                                                              \
        .key = #member, .kind = FIELD_INT, FIELD_AT(struct entry, member),                         \
        FIELD_PRESENCE(struct entry, has_##member), .min = 1, .max = CLUSTER_MAX_GPUS,             \
        .help = (text)                                                                             \
    }
static const struct field entry_fields[] = {
    ENTRY_TEXT(quantity, 0, "what was measured, a scalar or a curve"),
    {.key = "collective",
     .kind = FIELD_ENUM,
     .words = collective_words,
     FIELD_AT(struct entry, collective),
     FIELD_PRESENCE(struct entry, has_collective),
     .help = "in place of quantity: the collective whose bus bandwidth follows"},
    {.key = "value",
     .kind = FIELD_FREE,
     FIELD_AT(struct entry, value),
     .help = "of a scalar, with its unit"},
    ENTRY_TEXT(against, 0, "of a curve: the axis of its samples"),
    {.key = "interpolate",
     .kind = FIELD_ENUM,
     .words = interpolate_words,
     .fallback = "steffen",
     FIELD_AT(struct entry, interpolate),
     .help = "monotone cubic, or latency + size/bandwidth fitted to the samples"},
    ENTRY_RANKS(ranks, "of a collective: size of the group"),
    ENTRY_RANKS(ranks_per_domain, "of a collective: members inside one innermost domain"),
    {.key = "samples",
     .kind = FIELD_FREE,
     FIELD_AT(struct entry, samples),
     .help = "list of [x, y]; of a collective [bytes on one rank, bus bandwidth]"},
    ENTRY_TEXT(source, FIELD_REQUIRED, "where the value comes from"),
    ENTRY_TEXT(licence, FIELD_REQUIRED, "licence of the source"),
    ENTRY_TEXT(software, 0, "version of the software measured"),
    ENTRY_TEXT(method, 0, "how it was measured"),
    ENTRY_TEXT(range, 0, "where it holds"),
};
static const struct schema entry_schema = SCHEMA("entry", struct entry, entry_fields);

static const struct field covariance_fields[] = {
    {.key = "quantities",
     .kind = FIELD_LIST,
     .item = FIELD_STRING,
     .flags = FIELD_REQUIRED,
     .max_count = SCALAR_COUNT,
     FIELD_AT(struct covariance_section, quantities),
     .help = "scalars of the document, in the order of the rows"},
    {.key = "matrix",
     .kind = FIELD_FREE,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct covariance_section, matrix),
     .help = "a list of numbers for each quantity"},
};
static const struct schema covariance_schema =
    SCHEMA("covariance", struct covariance_section, covariance_fields);

static const struct field calibration_fields[] = {
    {.key = "name",
     .kind = FIELD_STRING,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct calibration_section, name),
     .help = "name of the calibration"},
    {.key = "device",
     .kind = FIELD_STRING,
     FIELD_AT(struct calibration_section, device),
     .help = "the GPU it was measured on; that of `over` when left out"},
    {.key = "over",
     .kind = FIELD_STRING,
     FIELD_AT(struct calibration_section, over),
     .help = "the calibration that it is laid over: a name of the library or a file"},
    {.key = "source",
     .kind = FIELD_STRING,
     FIELD_AT(struct calibration_section, source),
     .help = "where the document comes from"},
    {.key = "entries",
     .kind = FIELD_LIST,
     .item = FIELD_MAPPING,
     .nested = &entry_schema,
     .flags = FIELD_REQUIRED | FIELD_EMPTY_OK, /* measured steps may be all there is */
     FIELD_AT(struct calibration_section, entries),
     .help = "what was measured"},
    {.key = "covariance",
     .kind = FIELD_FREE,
     .nested = &covariance_schema,
     FIELD_AT(struct calibration_section, covariance),
     .help = "of the natural logarithms of scalars that were fitted together"},
    {.key = "measured_steps",
     .kind = FIELD_FREE, /* doc_anchors.c */
     FIELD_AT(struct calibration_section, measured_steps),
     .help = "steps that predictions for their models learn from"},
    {.key = "measurements",
     .kind = FIELD_FREE,
     FIELD_AT(struct calibration_section, measurements),
     .help = "samples that the entries were fitted to, a line of JSON each"},
};
const struct schema doc_calibration_schema = SCHEMA_DOCUMENT(
    "calibration", "mosaic-calibration/1", struct calibration_section, calibration_fields);

/* Line of the entry that gave a quantity, to name it when there is a second one. */
struct seen {
    long scalar[SCALAR_COUNT], curve[CURVE_QUANTITIES], collective[CALIBRATION_MAX_COLLECTIVES];
};

/* One entry on its way into the calibration. */
struct target {
    struct loader *l;
    struct calibration *c;
    struct seen *seen;
    const struct node **values; /* as written, by scalar */
    enum value_origin origin;
};

static enum mosaic_status quantity(struct loader *l, const struct node *node, enum dimension dim,
                                   double *value) {
    if (node->kind != NODE_SCALAR || node->is_quoted)
        return diag_error(l->diags, &node->place, "%s is due here, e.g. %s, not %s",
                          units_name(dim), units_example(dim),
                          node->is_quoted ? "a quoted text" : node_kind_text(node));
    struct status_error err;
    if (units_parse(node->text, dim, value, &err) != MOSAIC_OK)
        return diag_from_error(l->diags, &node->place, &err);
    return MOSAIC_OK;
}

static enum mosaic_status doubled(struct loader *l, const struct node *node, const char *what,
                                  long line) {
    return diag_error(l->diags, &node->place, "%s is given twice; first on line %ld", what, line);
}

static enum mosaic_status put_scalar(const struct target *t, const struct node *node, int id) {
    const struct scalar_info *const info = calibration_scalar_info((enum scalar)id);
    double value = 0.0;
    TRY(quantity(t->l, node, info->dimension, &value));
    if (!(value >= info->min && value <= info->max)) {
        char low[UNITS_TEXT_MAX], high[UNITS_TEXT_MAX];
        units_format(info->min, info->dimension, low, sizeof low);
        units_format(info->max, info->dimension, high, sizeof high);
        return diag_error(t->l->diags, &node->place, "'%s' is %s, not within %s to %s", info->key,
                          node->text, low, high);
    }
    t->c->scalar[id] = value;
    t->c->scalar_origin[id] = t->origin;
    t->values[id] = node;
    return MOSAIC_OK;
}

static enum mosaic_status take_scalar(const struct target *t, const struct node *node,
                                      const struct entry *e, int id) {
    const struct scalar_info *const info = calibration_scalar_info((enum scalar)id);
    const struct node *const name = node_find(node, "quantity");
    if (t->seen->scalar[id] > 0)
        return doubled(t->l, name, info->key, t->seen->scalar[id]);
    t->seen->scalar[id] = name->place.line;
    if (!e->value || e->samples)
        return diag_error(t->l->diags, &name->place, "'%s' is a scalar: it takes 'value'%s",
                          info->key, e->samples ? ", not 'samples'" : "");
    /* A value that --set gives by the quantity's name stands. */
    const struct node *const present = t->values[id];
    return present && present->is_override ? MOSAIC_OK : put_scalar(t, e->value, id);
}

static enum mosaic_status take_sample(struct loader *l, const struct node *node,
                                      enum dimension x_dim, enum dimension y_dim, double *x,
                                      double *y) {
    if (node->kind != NODE_SEQUENCE || node->count != 2)
        return diag_error(l->diags, &node->place, "a sample is a pair [x, y]");
    TRY(quantity(l, node->items[0], x_dim, x));
    TRY(quantity(l, node->items[1], y_dim, y));
    if (!(*x > 0.0) || !(*y > 0.0))
        return diag_error(l->diags, &node->items[*x > 0.0 ? 1 : 0]->place,
                          "samples are above 0, not %s", node->items[*x > 0.0 ? 1 : 0]->text);
    return MOSAIC_OK;
}

static enum mosaic_status take_samples(const struct target *t, const struct entry *e,
                                       enum dimension x_dim, enum dimension y_dim,
                                       struct curve *curve) {
    const struct node *const list = e->samples;
    struct diag_list *const diags = t->l->diags;
    if (list->kind != NODE_SEQUENCE)
        return diag_error(diags, &list->place, "'samples' is a list of pairs, not %s",
                          node_kind_text(list));
    if (list->count < 1 || list->count > CURVE_MAX_SAMPLES)
        return diag_error(diags, &list->place, "a curve takes 1 to %d samples, not %zu",
                          CURVE_MAX_SAMPLES, list->count);
    double x[CURVE_MAX_SAMPLES] = {0}, y[CURVE_MAX_SAMPLES] = {0};
    for (size_t i = 0; i < list->count; ++i) {
        TRY(take_sample(t->l, list->items[i], x_dim, y_dim, &x[i], &y[i]));
        if (i > 0 && !(x[i] > x[i - 1]))
            return diag_error(diags, &list->items[i]->place, "%s does not rise above %s before it",
                              list->items[i]->items[0]->text, list->items[i - 1]->items[0]->text);
    }
    struct status_error err;
    const enum curve_method method = e->interpolate == 1  ? CURVE_LATENCY
                                     : x_dim == DIM_BYTES ? CURVE_RATE
                                                          : CURVE_STEFFEN;
    if (curve_build(curve, method, x, y, list->count, &err) != MOSAIC_OK)
        return diag_from_error(diags, &list->place, &err);
    return MOSAIC_OK;
}

static enum mosaic_status take_curve(const struct target *t, const struct node *node,
                                     const struct entry *e, int id) {
    const struct curve_info *const info = calibration_curve_info((enum curve_quantity)id);
    const struct node *const name = node_find(node, "quantity");
    if (t->seen->curve[id] > 0)
        return doubled(t->l, name, info->key, t->seen->curve[id]);
    t->seen->curve[id] = name->place.line;
    if (!e->samples || e->value)
        return diag_error(t->l->diags, &name->place, "'%s' is a curve: it takes 'samples'%s",
                          info->key, e->value ? ", not 'value'" : "");
    if (!e->against || strcmp(e->against, info->axis) != 0) {
        const struct place place = loader_place(node, "against");
        return diag_error(t->l->diags, &place, "'%s' is a curve against '%s', not '%s'", info->key,
                          info->axis, e->against ? e->against : "");
    }
    TRY(take_samples(t, e, DIM_NUMBER, info->dimension, &t->c->curve[id]));
    t->c->has_curve[id] = true;
    return MOSAIC_OK;
}

static enum mosaic_status check_collective(const struct target *t, const struct node *node,
                                           const struct entry *e) {
    struct diag_list *const diags = t->l->diags;
    if (!e->has_ranks || !e->has_ranks_per_domain || !e->samples)
        return diag_error(diags, &node->place,
                          "a collective takes 'ranks', 'ranks_per_domain' and 'samples'");
    if (e->quantity || e->value || e->against)
        return diag_error(diags, &node->place,
                          "a collective takes no 'quantity', 'value' or 'against'");
    if (e->ranks < 2 || e->ranks_per_domain > e->ranks) {
        const struct place place = loader_place(node, e->ranks < 2 ? "ranks" : "ranks_per_domain");
        return diag_error(diags, &place,
                          "%d ranks, %d of them in one domain: 2 or more, and no "
                          "more than all",
                          e->ranks, e->ranks_per_domain);
    }
    return MOSAIC_OK;
}

static enum mosaic_status take_collective(const struct target *t, const struct node *node,
                                          const struct entry *e) {
    TRY(check_collective(t, node, e));
    struct calibration *const c = t->c;
    int at = 0;
    for (; at < c->collective_count; ++at) {
        const struct collective_curve *const other = &c->collective[at];
        if ((int)other->kind == e->collective && other->ranks == e->ranks &&
            other->ranks_per_domain == e->ranks_per_domain)
            break;
    }
    if (at == CALIBRATION_MAX_COLLECTIVES)
        return diag_error(t->l->diags, &node->place, "more than %d collectives",
                          CALIBRATION_MAX_COLLECTIVES);
    if (t->seen->collective[at] > 0) /* 0: of the document below */
        return doubled(t->l, node, collective_words[e->collective], t->seen->collective[at]);
    struct collective_curve *const next = &c->collective[at];
    TRY(take_samples(t, e, DIM_BYTES, DIM_BYTES_PER_S, &next->bus));
    next->kind = (enum collective_kind)e->collective;
    next->ranks = e->ranks;
    next->ranks_per_domain = e->ranks_per_domain;
    t->seen->collective[at] = node->place.line;
    c->collective_count += at == c->collective_count;
    return MOSAIC_OK;
}

/* Keys of scalars, then of curves. */
static const char *key_at(const void *context, size_t i) {
    (void)context;
    return i < SCALAR_COUNT ? calibration_scalar_info((enum scalar)i)->key
                            : calibration_curve_info((enum curve_quantity)(i - SCALAR_COUNT))->key;
}

static enum mosaic_status unknown_quantity(struct loader *l, const struct place *place,
                                           const char *name) {
    char shown[STATUS_QUOTE_MAX];
    (void)diag_error(l->diags, place, "unknown quantity '%s'",
                     status_quote(name, shown, sizeof shown));
    const char *const near = suggest_from(name, key_at, NULL, SCALAR_COUNT + CURVE_QUANTITIES);
    if (near)
        diag_hint(l->diags, "did you mean '%s'?", near);
    return MOSAIC_BAD_INPUT;
}

static enum mosaic_status take_entry(const struct target *t, const struct node *node,
                                     const struct entry *e) {
    if (e->has_collective)
        return take_collective(t, node, e);
    if (!e->quantity)
        return diag_error(t->l->diags, &node->place,
                          "an entry names a 'quantity' or a 'collective'");
    for (size_t i = 0; i < SCALAR_COUNT + CURVE_QUANTITIES; ++i)
        if (strcmp(key_at(NULL, i), e->quantity) == 0)
            return i < SCALAR_COUNT ? take_scalar(t, node, e, (int)i)
                                    : take_curve(t, node, e, (int)(i - SCALAR_COUNT));
    const struct place place = loader_place(node, "quantity");
    return unknown_quantity(t->l, &place, e->quantity);
}

/* ---- covariance ---- */

static const double correlation_slack = 1.0001; /* of written digits */

static enum mosaic_status check_quantity(const struct target *t, const struct node *node,
                                         const struct covariance_section *s, size_t i) {
    const struct place place = loader_place(node, "quantities");
    const char *const name = s->quantities.items[i];
    int id = 0;
    while (id < SCALAR_COUNT && strcmp(calibration_scalar_info((enum scalar)id)->key, name) != 0)
        ++id;
    if (id == SCALAR_COUNT)
        return unknown_quantity(t->l, &place, name);
    if (t->seen->scalar[id] == 0)
        return diag_error(t->l->diags, &place, "no entry gives '%s'", name);
    for (size_t k = 0; k < i; ++k)
        if (strcmp(s->quantities.items[k], name) == 0)
            return diag_error(t->l->diags, &place, "'%s' is named twice", name);
    return MOSAIC_OK;
}

static enum mosaic_status read_matrix(struct loader *l, const struct node *matrix, size_t count,
                                      double *values) {
    if (matrix->kind != NODE_SEQUENCE || matrix->count != count)
        return diag_error(l->diags, &matrix->place, "%zu quantities need a matrix of %zu rows",
                          count, count);
    for (size_t i = 0; i < count; ++i) {
        const struct node *const row = matrix->items[i];
        if (row->kind != NODE_SEQUENCE || row->count != count)
            return diag_error(l->diags, &row->place, "row %zu must be a list of %zu numbers", i + 1,
                              count);
        for (size_t k = 0; k < count; ++k)
            TRY(quantity(l, row->items[k], DIM_NUMBER, &values[i * count + k]));
    }
    return MOSAIC_OK;
}

static enum mosaic_status check_pair(struct loader *l, const struct node *matrix,
                                     const double *values, size_t i, size_t k) {
    const size_t count = matrix->count;
    const double one = values[i * count + k], other = values[k * count + i];
    const struct place *const place = &matrix->items[i]->items[k]->place;
    if (one < other || one > other)
        return diag_error(l->diags, place,
                          "the covariance is not symmetric: %g at %zu, %zu and %g at %zu, %zu", one,
                          i + 1, k + 1, other, k + 1, i + 1);
    if (one * one > correlation_slack * values[i * count + i] * values[k * count + k])
        return diag_error(l->diags, place, "a covariance of %g is more than these variances allow",
                          one);
    return MOSAIC_OK;
}

static enum mosaic_status check_matrix(struct loader *l, const struct node *matrix,
                                       const double *values) {
    for (size_t i = 0; i < matrix->count; ++i) {
        const double variance = values[i * matrix->count + i];
        if (!(variance > 0.0))
            return diag_error(l->diags, &matrix->items[i]->items[i]->place,
                              "a variance is above 0, not %g", variance);
        for (size_t k = 0; k < i; ++k)
            TRY(check_pair(l, matrix, values, i, k));
    }
    return MOSAIC_OK;
}

static enum mosaic_status check_covariance(const struct target *t, const struct node *node) {
    struct covariance_section s = {.matrix = NULL};
    struct loader *const l = t->l;
    if (!node)
        return MOSAIC_OK;
    TRY(schema_bind(l->memory, &covariance_schema, node, &s, NULL, l->diags));
    const size_t count = s.quantities.count;
    for (size_t i = 0; i < count; ++i)
        TRY(check_quantity(t, node, &s, i));
    double *const values = talloc_array(l->memory, double, (unsigned)(count * count) + 1);
    if (!values)
        return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    enum mosaic_status status = read_matrix(l, s.matrix, count, values);
    if (status == MOSAIC_OK)
        status = check_matrix(l, s.matrix, values);
    talloc_free(values);
    return status;
}

/* ---- measurements ---- */

/* The entries were fitted to them: a sample that cannot be read makes that a guess. */
static enum mosaic_status check_measurements(struct loader *l, const struct node *node) {
    if (!node)
        return MOSAIC_OK;
    if (node->kind != NODE_SEQUENCE)
        return diag_error(l->diags, &node->place, "'measurements' is a list of samples, not %s",
                          node_kind_text(node));
    for (size_t i = 0; i < node->count; ++i) {
        const struct node *const item = node->items[i];
        struct sample sample;
        struct status_error err;
        if (item->kind != NODE_SCALAR)
            return diag_error(l->diags, &item->place, "a sample is a quoted line of JSON, not %s",
                              node_kind_text(item));
        if (i == 0 && record_is(item->text))
            continue; /* where they come from */
        if (sample_parse(item->text, strlen(item->text), NULL, &sample, &err) != MOSAIC_OK)
            return diag_from_error(l->diags, &item->place, &err);
    }
    return MOSAIC_OK;
}

/* Whether --set made this mapping: its first leaf came so, and the document has no such key. */
static bool is_override_only(const struct node *item) {
    const struct node *leaf = item;
    while (leaf->kind == NODE_MAPPING && leaf->count > 0)
        leaf = leaf->items[0];
    return item->kind == NODE_MAPPING && leaf->is_override;
}

static enum mosaic_status unknown_override(struct loader *l, const struct node *item) {
    char name[STATUS_TEXT_MAX] = "";
    const struct node *leaf = item;
    for (; leaf; leaf = leaf->kind == NODE_MAPPING && leaf->count > 0 ? leaf->items[0] : NULL) {
        const size_t used = strlen(name);
        (void)snprintf(name + used, sizeof name - used, "%s%s", used > 0 ? "." : "", leaf->key);
        if (leaf->kind != NODE_MAPPING)
            return unknown_quantity(l, &leaf->place, name);
    }
    return unknown_quantity(l, &item->place, name);
}

static size_t leaves(const struct node *node) {
    size_t count = 0;
    for (size_t i = 0; i < node->count; ++i) { /* names have up to three parts */
        const struct node *const item = node->items[i];
        count += item->kind == NODE_MAPPING ? item->count : 1;
    }
    return node->kind == NODE_MAPPING ? count : 1;
}

/* `--set calibration.host.launch_gap=11us` names a quantity, not a key of the document: such
 * members are taken here, and `rest` is the mapping without them. */
static enum mosaic_status take_overrides(const struct target *t, const struct node *node,
                                         struct node *rest) {
    *rest = *node;
    rest->count = 0;
    rest->items = talloc_array(t->l->memory, struct node *, (unsigned)node->count + 1);
    if (!rest->items)
        return diag_status(t->l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    for (size_t i = 0; i < node->count; ++i) {
        struct node *const item = node->items[i];
        const size_t length = strlen(item->key);
        size_t known = 0;
        for (int id = 0; id < SCALAR_COUNT; ++id) {
            const char *const key = calibration_scalar_info((enum scalar)id)->key;
            if (strncmp(key, item->key, length) != 0 || key[length] != '.')
                continue;
            const struct node *const value = node_at(node, key);
            if (!value || !value->is_override)
                continue;
            ++known;
            TRY(put_scalar(t, value, id));
        }
        if (known < leaves(item) && is_override_only(item))
            return unknown_override(t->l, item);
        if (known == 0)
            rest->items[rest->count++] = item;
    }
    return MOSAIC_OK;
}

/* Lay one document over what is there; every bad entry is reported. */
static enum mosaic_status lay(struct loader *l, const struct node *document,
                              enum value_origin origin, const struct node **values,
                              struct calibration *c) {
    struct schema table = doc_calibration_schema;
    if (!node_find(document, "schema"))
        table.document = NULL;
    struct calibration_section s = {.name = NULL};
    struct seen seen = {.scalar = {0}};
    const struct target t = {l, c, &seen, values, origin};
    struct node rest;
    if (document->kind != NODE_MAPPING)
        return schema_bind(l->memory, &table, document, &s, NULL, l->diags);
    TRY(take_overrides(&t, document, &rest));
    if (rest.count == 0 && document->count > 0)
        return MOSAIC_OK; /* the generic document and what --set changes of it */
    const struct node *const node = &rest;
    TRY(schema_bind(l->memory, &table, node, &s, NULL, l->diags));
    TRY(loader_copy(l, node, "name", s.name, c->name, sizeof c->name));
    if (!s.device && !s.over) {
        (void)diag_error(l->diags, &document->place, "missing key 'device'");
        diag_hint(l->diags, "the GPU it was measured on, e.g. device: H100; or over: NAME");
        return MOSAIC_BAD_INPUT;
    }
    if (s.device)
        TRY(loader_copy(l, node, "device", s.device, c->device, sizeof c->device));
    const struct entry *const entries = s.entries.items;
    const struct node *const list = node_find(node, "entries");
    enum mosaic_status status = MOSAIC_OK;
    for (size_t i = 0; i < s.entries.count; ++i) {
        const enum mosaic_status one = take_entry(&t, list->items[i], &entries[i]);
        if (status == MOSAIC_OK)
            status = one;
    }
    if (status == MOSAIC_OK)
        status = check_covariance(&t, s.covariance);
    return status == MOSAIC_OK ? check_measurements(l, s.measurements) : status;
}

/* The name and each scalar; `root` is the document's, or NULL for the generic one alone. */
static enum mosaic_status record(struct loader *l, const char *prefix, const struct calibration *c,
                                 const struct node *const *values, const struct node *root) {
    char path[STATUS_QUOTE_MAX * 2];
    const char *const dot = prefix[0] ? "." : "";
    (void)snprintf(path, sizeof path, "%s%sname", prefix, dot);
    TRY(loader_record(l, path, c->name, root ? DOCUMENT_GIVEN : DOCUMENT_DEFAULT,
                      "name of the calibration", root ? &root->place : NULL));
    for (int i = 0; i < SCALAR_COUNT; ++i) {
        const struct scalar_info *const info = calibration_scalar_info((enum scalar)i);
        const struct node *const value = values[i];
        if (!value)
            continue;
        (void)snprintf(path, sizeof path, "%s%s%s", prefix, dot, info->key);
        const enum document_origin origin = c->scalar_origin[i] != ORIGIN_CALIBRATED
                                                ? DOCUMENT_DEFAULT
                                            : value->is_override ? DOCUMENT_OVERRIDE
                                                                 : DOCUMENT_GIVEN;
        TRY(loader_record(l, path, value->text, origin, info->text,
                          origin == DOCUMENT_DEFAULT ? NULL : &value->place));
    }
    return MOSAIC_OK;
}

enum mosaic_status doc_calibration_bind(struct loader *l, const struct node *node,
                                        const char *prefix, struct calibration *calibration) {
    const struct node *values[SCALAR_COUNT] = {NULL}; /* calibration_check: none is left out */
    calibration_init(calibration);
    struct yaml_tree *generic = NULL;
    TRY(loader_builtin(l, "calibrations/generic", &generic));
    TRY(lay(l, generic->root, ORIGIN_GENERIC, values, calibration));
    if (node) {
        /* Curves belong to the machine they were measured on; only scalars are inherited. */
        memset(calibration->has_curve, 0, sizeof calibration->has_curve);
        calibration->collective_count = 0;
        const struct node *lower = NULL;
        TRY(calibration_lower(l, node, &lower));
        if (lower)
            TRY(lay(l, lower, ORIGIN_CALIBRATED, values, calibration));
        TRY(lay(l, node, ORIGIN_CALIBRATED, values, calibration));
    }
    struct status_error err;
    if (calibration_check(calibration, &err) != MOSAIC_OK)
        return diag_from_error(l->diags, node ? &node->place : NULL, &err);
    return record(l, prefix, calibration, values, node);
}
