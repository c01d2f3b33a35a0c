// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Any document by its schema: reading, overrides, sections, binding, and what is asked of it later.
 */
#include "doc/document.h"

#include "doc/calibration_find.h"
#include "doc/doc_anchors.h"
#include "doc/include.h"
#include "doc/sections.h"

#include <math.h>
#include <string.h>
#include <talloc.h>

static const struct {
    const char *name, *schema;
    const struct schema *table;
} kinds[DOCUMENT_KINDS] = {
    [DOCUMENT_PLAN] = {"plan", "mosaic-plan/1", &doc_plan_schema},
    [DOCUMENT_CLUSTER] = {"cluster", "mosaic-cluster/1", &doc_cluster_schema},
    [DOCUMENT_MODEL] = {"model", "mosaic-model/1", &doc_model_schema},
    [DOCUMENT_LAW] = {"law", "mosaic-law/1", &doc_law_schema},
    [DOCUMENT_CALIBRATION] = {"calibration", "mosaic-calibration/1", &doc_calibration_schema},
    [DOCUMENT_ENGINE] = {"engine", "mosaic-engine/1", &doc_engine_schema},
};

const char *document_kind_name(enum document_kind kind) {
    return (unsigned)kind < DOCUMENT_KINDS ? kinds[kind].name : "unknown";
}

const char *document_schema_name(enum document_kind kind) {
    return (unsigned)kind < DOCUMENT_KINDS ? kinds[kind].schema : "unknown";
}

const struct schema *document_schema(enum document_kind kind) {
    return (unsigned)kind < DOCUMENT_KINDS ? kinds[kind].table : NULL;
}

const char *document_origin_name(enum document_origin origin) {
    static const char *const names[] = {"given", "default", "override", "built in", "derived"};
    return (unsigned)origin < sizeof names / sizeof names[0] ? names[origin] : "unknown";
}

static enum mosaic_status record_count(struct loader *l, const char *path, double value,
                                       const char *help) {
    char text[UNITS_TEXT_MAX];
    (void)snprintf(text, sizeof text, "%.17g", value);
    return loader_record(l, path, text, DOCUMENT_DERIVED, help, NULL);
}

static enum mosaic_status record_derived(struct loader *l) {
    const struct problem *const p = &l->document->problem;
    const double step_tokens = (double)p->workload.global_batch * (double)p->workload.sequence;
    const int gpus = cluster_gpus(&p->cluster);
    TRY(record_count(l, "derived.gpus", gpus, "GPUs of the cluster"));
    if (isfinite(p->budget.seconds))
        TRY(record_count(l, "derived.seconds", p->budget.seconds,
                         "wall-clock seconds of the budget"));
    TRY(record_count(l, "derived.goodput", p->budget.goodput,
                     "share of the time in which training advances"));
    TRY(record_count(l, "derived.step_tokens", step_tokens, "tokens of one step"));
    TRY(record_count(l, "derived.vocab", (double)p->workload.vocab, "vocabulary that counts"));
    return record_count(l, "derived.geometries", (double)p->geometries.count,
                        "geometries of the space");
}

static enum mosaic_status load_plan(struct loader *l, struct yaml_tree *tree,
                                    bool (*is_mine)(const char *key)) {
    struct document *const d = l->document;
    const enum mosaic_status status = include_sections(l, tree, is_mine);
    if (status != MOSAIC_OK && l->broken_count == 0)
        return status; /* an override that does not apply */
    const enum mosaic_status bound = doc_plan_bind(l, tree->root);
    TRY(status);
    TRY(bound);
    d->has_geometry = d->problem.geometries.count == 1;
    if (d->has_geometry)
        d->geometry = d->problem.geometries.items[0];
    return record_derived(l);
}

/* Keys of a cluster document; the others belong to the plan that is made around it. */
static bool is_cluster_key(const char *key) {
    const size_t length = strcspn(key, ".[");
    for (size_t i = 0; i < doc_cluster_schema.count; ++i) {
        const char *const known = doc_cluster_schema.fields[i].key;
        if (strlen(known) == length && strncmp(known, key, length) == 0)
            return true;
    }
    return false;
}

static bool is_plan_key(const char *key) {
    return !is_cluster_key(key);
}

/* A cluster with a budget is planned with the library's plan around it. */
static enum mosaic_status load_planned_cluster(struct loader *l, struct yaml_tree *tree) {
    struct yaml_tree *plan = NULL;
    TRY(loader_builtin(l, "cluster-plan", &plan));
    l->is_default_plan = true;
    TRY(yaml_tree_set(plan, "cluster", "{}", "cluster", l->diags));
    yaml_tree_graft(plan, node_find(plan->root, "cluster"), tree);
    TRY(load_plan(l, plan, is_plan_key));
    l->document->name = l->document->problem.cluster.name;
    return MOSAIC_OK;
}

static enum mosaic_status load_cluster(struct loader *l, struct yaml_tree *tree) {
    TRY(include_overrides(l, tree, is_cluster_key));
    if (node_find(tree->root, "budget"))
        return load_planned_cluster(l, tree);
    TRY(include_overrides(l, tree, is_plan_key));
    struct problem *const p = &l->document->problem;
    struct cluster_document doc = {.nodes = NULL};
    TRY(include_calibration(l, tree, "calibration"));
    TRY(doc_cluster_bind(l, tree->root, "", &doc));
    p->cluster = doc.cluster;
    l->document->name = p->cluster.name;
    TRY(doc_devices_warn(l, tree->root, &p->cluster));
    const bool is_generic = !doc.calibration || doc.calibration->kind == NODE_SCALAR;
    TRY(doc_calibration_bind(l, is_generic ? NULL : doc.calibration, "calibration",
                             &p->calibration));
    calibration_warn_device(l, is_generic ? NULL : doc.calibration, &p->calibration, &p->cluster);
    return doc_anchors_check(l, doc.calibration, "calibration");
}

static enum mosaic_status load_part(struct loader *l, struct yaml_tree *tree) {
    struct document *const d = l->document;
    struct problem *const p = &d->problem;
    TRY(include_overrides(l, tree, NULL));
    switch (d->kind) {
    case DOCUMENT_MODEL:
        TRY(doc_model_bind(l, tree->root, "", 0, &d->geometry, &d->name));
        d->has_geometry = true;
        return MOSAIC_OK;
    case DOCUMENT_LAW:
        TRY(doc_law_bind(l, tree->root, "", p));
        d->name = p->law.name;
        return MOSAIC_OK;
    case DOCUMENT_CALIBRATION:
        TRY(doc_calibration_bind(l, tree->root, "", &p->calibration));
        TRY(doc_anchors_check(l, tree->root, ""));
        d->name = p->calibration.name;
        return MOSAIC_OK;
    case DOCUMENT_ENGINE:
        TRY(doc_engine_bind(l, tree->root, "", &p->engine));
        d->name = p->engine.name;
        return MOSAIC_OK;
    case DOCUMENT_PLAN:
    case DOCUMENT_CLUSTER:
    case DOCUMENT_KINDS:
        break;
    }
    return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "unknown kind of document");
}

static enum mosaic_status load_tree(struct loader *l, struct yaml_tree *tree) {
    const char *names[DOCUMENT_KINDS];
    for (size_t i = 0; i < DOCUMENT_KINDS; ++i)
        names[i] = kinds[i].schema;
    size_t which = 0;
    TRY(schema_document(tree->root, names, DOCUMENT_KINDS, &which, l->diags));
    l->document->kind = (enum document_kind)which;
    if (l->document->kind == DOCUMENT_PLAN)
        return load_plan(l, tree, NULL);
    if (l->document->kind == DOCUMENT_CLUSTER)
        return load_cluster(l, tree);
    return load_part(l, tree);
}

static enum mosaic_status copy_overrides(struct loader *l) {
    const size_t count = l->options->override_count;
    const struct document_override *const from = l->options->overrides;
    struct document_override *const copy =
        talloc_zero_array(l->memory, struct document_override, (unsigned)count + 1);
    if (!copy)
        return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    for (size_t i = 0; i < count; ++i) {
        copy[i].key = talloc_strdup(copy, from[i].key);
        copy[i].value = talloc_strdup(copy, from[i].value);
        if (!copy[i].key || !copy[i].value)
            return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    }
    l->document->overrides = copy;
    l->document->override_count = count;
    return MOSAIC_OK;
}

/* A text in memory, or the file `path` where text is NULL. */
static enum mosaic_status load(struct loader *l, const char *path, const char *text, size_t size) {
    struct yaml_tree *tree = NULL;
    struct document *const d = l->document;
    TRY(copy_overrides(l));
    d->name = "";
    d->path = talloc_strdup(l->memory, path);
    if (!d->path)
        return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    TRY(text ? loader_read_text(l, path, text, size, &tree) : loader_read(l, path, NULL, &tree));
    TRY(load_tree(l, tree));
    d->inputs = l->inputs;
    d->input_count = l->input_count;
    d->values = l->values;
    d->value_count = l->value_count;
    return MOSAIC_OK;
}

static enum mosaic_status open_document(const char *path, const char *text, size_t size,
                                        const struct document_options *options,
                                        struct diag_list *diags, struct document **document) {
    struct document *const d = talloc_zero(NULL, struct document);
    if (!d)
        return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
    d->memory = d;
    struct loader l = {.document = d, .memory = d, .diags = diags, .options = options};
    const size_t errors = diags->errors;
    enum mosaic_status status = load(&l, path, text, size);
    if (status == MOSAIC_OK && diags->errors > errors)
        status = diags->status;
    if (status != MOSAIC_OK) {
        document_free(d);
        return status;
    }
    *document = d;
    return MOSAIC_OK;
}

enum mosaic_status document_load_with(const char *path, const struct document_options *options,
                                      struct diag_list *diags, struct document **document) {
    return open_document(path, NULL, 0, options, diags, document);
}

enum mosaic_status document_load(const char *path, const struct document_override *overrides,
                                 size_t override_count, struct diag_list *diags,
                                 struct document **document) {
    const struct document_options options = {
        .overrides = overrides, .override_count = override_count, .seed = 1};
    return open_document(path, NULL, 0, &options, diags, document);
}

enum mosaic_status document_parse(const char *name, const char *text, size_t size,
                                  const struct document_override *overrides, size_t override_count,
                                  struct diag_list *diags, struct document **document) {
    const struct document_options options = {
        .overrides = overrides, .override_count = override_count, .seed = 1};
    return open_document(name, text, size, &options, diags, document);
}

void document_free(struct document *document) {
    if (!document)
        return;
    problem_free(&document->problem);
    talloc_free(document);
}

const struct document_value *document_value(const struct document *document, const char *path) {
    for (size_t i = 0; i < document->value_count; ++i)
        if (strcmp(document->values[i].path, path) == 0)
            return &document->values[i];
    return NULL;
}
