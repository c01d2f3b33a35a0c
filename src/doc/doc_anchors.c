// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Measured steps: bound, predicted one by one as `predict` would, and fitted model by model.  What
 * a step leaves out of its execution is its engine's recipe, never the plan's execution: a what-if
 * of the plan must not move what the step is compared with.
 */
#include "doc/doc_anchors.h"

#include "doc/doc_execution.h"
#include "doc/sections.h"
#include "plan/best_split.h"
#include "step/anchor.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <talloc.h>

enum {
    SEQUENCE_MAX = 16777216,
    BATCH_MAX = 1 << 26,
    IMBALANCE_MAX = 1024,
    PATH_MAX_LENGTH = 96,
    AXIS_MAX = 32,
    ANY_VOCAB = 1 /* where no prediction follows */
};
#define STEP_TIME_MAX 1e7 /* s */
/* A residual beyond these is a mistake rather than one of the model. */
#define RATIO_SUSPECT 0.5
#define RATIO_MAX 3.0

struct degrees_section {
    int tp, cp, pp, vpp, ep, etp, micro_batch, recompute, schedule;
};

struct engine_words {
    const char *name, *version;
};

struct step_section {
    const struct node *model;
    struct engine_words engine;
    bool has_engine, has_execution;
    int nodes, sequence, global_batch, precision, optimizer;
    double imbalance, step_time_s;
    struct degrees_section layout;
    struct execution_section execution;
    const char *source;
};

static const char *const precision_words[] = {"bf16", "fp8", "mxfp8", "nvfp4", NULL};
static const char *const optimizer_words[] = {"adamw", "muon", NULL};
static const char *const recompute_words[] = {"none", "selective", "full", NULL};
static const char *const schedule_words[] = {"1f1b", "zero_bubble", "dualpipe", NULL};
static const enum schedule schedule_of[] = {SCHEDULE_1F1B, SCHEDULE_ZERO_BUBBLE, SCHEDULE_DUALPIPE};

#define DEGREE(member, most, text)                                                                 \
    {                                                                                              \
        .key = #member, .kind = FIELD_INT, .fallback = "1",                                        \
        FIELD_AT(struct degrees_section, member), .min = 1, .max = (most), .help = (text)          \
    }
static const struct field degrees_fields[] = {
    DEGREE(tp, CLUSTER_MAX_GPUS, "tensor-parallel degree"),
    DEGREE(cp, CLUSTER_MAX_GPUS, "context-parallel degree"),
    DEGREE(pp, LAYOUT_MAX_PP, "pipeline stages"),
    DEGREE(vpp, GEOMETRY_MAX_LAYERS, "chunks of a stage"),
    DEGREE(ep, CLUSTER_MAX_GPUS, "expert-parallel degree"),
    DEGREE(etp, CLUSTER_MAX_GPUS, "tensor-parallel degree of the experts"),
    {.key = "micro_batch",
     .kind = FIELD_INT,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct degrees_section, micro_batch),
     .min = 1,
     .max = BATCH_MAX,
     .help = "sequences of a micro-batch"},
    {.key = "recompute",
     .kind = FIELD_ENUM,
     .words = recompute_words,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct degrees_section, recompute),
     .help = "activation recomputation"},
    {.key = "schedule",
     .kind = FIELD_ENUM,
     .words = schedule_words,
     .fallback = "1f1b",
     FIELD_AT(struct degrees_section, schedule),
     .help = "pipeline schedule; with vpp above 1 always interleaved 1f1b"},
};
static const struct schema degrees_schema =
    SCHEMA("layout", struct degrees_section, degrees_fields);

#define ENGINE_WORD(member, text)                                                                  \
    {                                                                                              \
        .key = #member, .kind = FIELD_STRING, .flags = FIELD_REQUIRED,                             \
        FIELD_AT(struct engine_words, member), .help = (text)                                      \
    }
static const struct field engine_fields[] = {
    ENGINE_WORD(name, "name of the engine that ran the step"),
    ENGINE_WORD(version, "its version"),
};
static const struct schema engine_schema = SCHEMA("engine", struct engine_words, engine_fields);

#define WHOLE(member, most, text)                                                                  \
    {                                                                                              \
        .key = #member, .kind = FIELD_INT, .flags = FIELD_REQUIRED,                                \
        FIELD_AT(struct step_section, member), .min = 1, .max = (most), .help = (text)             \
    }
static const struct field step_fields[] = {
    {.key = "model",
     .kind = FIELD_FREE,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct step_section, model),
     .help = "FILE or mapping of mosaic-model/1, or a Hugging Face config.json"},
    {.key = "engine",
     .kind = FIELD_MAPPING,
     .nested = &engine_schema,
     FIELD_AT(struct step_section, engine),
     FIELD_PRESENCE(struct step_section, has_engine),
     .help = "what ran the step; the plan's engine when left out"},
    WHOLE(nodes, CLUSTER_MAX_GPUS, "nodes of the cluster that the step ran on"),
    WHOLE(sequence, SEQUENCE_MAX, "tokens of a sequence"),
    WHOLE(global_batch, BATCH_MAX, "sequences of the step"),
    {.key = "precision",
     .kind = FIELD_ENUM,
     .words = precision_words,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct step_section, precision),
     .help = "precision of the matrix multiplications"},
    {.key = "optimizer",
     .kind = FIELD_ENUM,
     .words = optimizer_words,
     .fallback = "adamw",
     FIELD_AT(struct step_section, optimizer),
     .help = "optimizer"},
    {.key = "imbalance",
     .kind = FIELD_NUMBER,
     .fallback = "1.0",
     FIELD_AT(struct step_section, imbalance),
     .min = 1,
     .max = IMBALANCE_MAX,
     .help = "tokens of the busiest expert rank over the mean"},
    {.key = "layout",
     .kind = FIELD_MAPPING,
     .nested = &degrees_schema,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct step_section, layout),
     .help = "how the model was laid out"},
    {.key = "execution",
     .kind = FIELD_MAPPING,
     .nested = &doc_execution_schema,
     FIELD_AT(struct step_section, execution),
     FIELD_PRESENCE(struct step_section, has_execution),
     .help = "how the job ran beyond its degrees; the engine's recipe when left out"},
    {.key = "step_time",
     .kind = FIELD_QUANTITY,
     .dimension = DIM_TIME,
     .flags = FIELD_REQUIRED | FIELD_OPEN_MIN,
     FIELD_AT(struct step_section, step_time_s),
     .max = STEP_TIME_MAX,
     .help = "measured time of one step"},
    {.key = "source",
     .kind = FIELD_STRING,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct step_section, source),
     .help = "where the step comes from"},
};
static const struct schema step_schema = SCHEMA("measured step", struct step_section, step_fields);

struct measured {
    const struct node *node;
    struct step_section s;
    struct geometry geometry;
    const char *name; /* of the model */
    double predicted_s;
    bool is_used; /* by this engine */
};

struct measured_list {
    const struct node *node;
    size_t count;
    struct measured items[ANCHORS_MAX];
    double measured_s[ANCHORS_MAX], predicted_s[ANCHORS_MAX]; /* of one model at a time */
};

static enum mosaic_status no_memory(struct loader *l) {
    return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
}

/* ---- what is written ---- */

/* The same file as an earlier step's: read once. */
static const struct measured *same_model(const struct measured_list *list,
                                         const struct measured *m) {
    const struct node *const mine = m->s.model;
    for (const struct measured *k = list->items; k < m; ++k) {
        const struct node *const other = k->s.model;
        if (other && other->kind == NODE_SCALAR && mine->kind == NODE_SCALAR &&
            k->geometry.layers > 0 && strcmp(other->text, mine->text) == 0 &&
            other->place.source == mine->place.source)
            return k;
    }
    return NULL;
}

static enum mosaic_status read_model(struct loader *l, const struct node *node, const char *prefix,
                                     int vocab, struct measured *m) {
    if (node->kind == NODE_MAPPING)
        return doc_model_bind(l, node, prefix, vocab, &m->geometry, &m->name);
    if (node->kind != NODE_SCALAR || node->text[0] == '\0')
        return diag_error(l->diags, &node->place, "'model' is FILE or a mapping, not %s",
                          node->kind == NODE_SCALAR ? "empty" : node_kind_text(node));
    const char *const expected = document_schema_name(DOCUMENT_MODEL);
    struct yaml_tree *tree = NULL;
    size_t which = 0;
    char *const path = loader_path(l, node);
    if (!path)
        return no_memory(l);
    TRY(loader_read(l, path, &node->place, &tree));
    TRY(schema_document(tree->root, &expected, 1, &which, l->diags));
    return doc_model_bind(l, tree->root, prefix, vocab, &m->geometry, &m->name);
}

static enum mosaic_status take_model(struct loader *l, const struct measured_list *list,
                                     const char *prefix, int vocab, struct measured *m) {
    const struct measured *const same = same_model(list, m);
    if (same) {
        m->geometry = same->geometry;
        m->name = same->name;
        return MOSAIC_OK;
    }
    char path[PATH_MAX_LENGTH + sizeof ".model"];
    (void)snprintf(path, sizeof path, "%s.model", prefix);
    return read_model(l, m->s.model, path, vocab, m);
}

/* Every step is looked at, so that all errors are shown. */
static enum mosaic_status read_list(struct loader *l, const struct node *node, const char *prefix,
                                    int vocab, struct measured_list *list) {
    enum mosaic_status status = MOSAIC_OK;
    if (node->kind != NODE_SEQUENCE)
        return diag_error(l->diags, &node->place, "'measured_steps' must be a list, not %s",
                          node_kind_text(node));
    if (node->count > ANCHORS_MAX)
        return diag_error(l->diags, &node->items[ANCHORS_MAX]->place,
                          "%zu measured steps; at most %d", node->count, ANCHORS_MAX);
    list->node = node;
    for (size_t i = 0; i < node->count; ++i) {
        char path[PATH_MAX_LENGTH];
        struct measured *const m = &list->items[i];
        (void)snprintf(path, sizeof path, "%s%smeasured_steps[%zu]", prefix, prefix[0] ? "." : "",
                       i);
        m->node = node->items[i];
        list->count = i + 1;
        enum mosaic_status one = loader_bind(l, &step_schema, m->node, path, &m->s);
        if (m->s.model) {
            const enum mosaic_status model = take_model(l, list, path, vocab, m);
            one = one == MOSAIC_OK ? model : one;
        }
        status = status == MOSAIC_OK ? one : status;
    }
    return status;
}

static enum mosaic_status open_list(struct loader *l, const struct node *calibration,
                                    const char *prefix, int vocab, struct measured_list **out) {
    const struct node *const node = node_find(calibration, "measured_steps");
    *out = NULL;
    if (!node)
        return MOSAIC_OK;
    struct measured_list *const list = talloc_zero(l->memory, struct measured_list);
    if (!list)
        return no_memory(l);
    TRY(read_list(l, node, prefix, vocab, list));
    *out = list;
    return MOSAIC_OK;
}

enum mosaic_status doc_anchors_check(struct loader *l, const struct node *calibration,
                                     const char *prefix) {
    struct measured_list *list;
    return open_list(l, calibration, prefix, ANY_VOCAB, &list);
}

/* ---- what is predicted ---- */

/* Checks name what they refuse first: "EP 3 does not divide ...", "micro-batch 3 ...". */
static struct place refused_at(const struct node *step, const struct status_error *err) {
    char path[AXIS_MAX] = "layout.";
    size_t used = strlen(path);
    for (const char *c = err->message; *c && *c != ' ' && used + 1 < sizeof path; ++c)
        path[used++] = *c == '-' ? '_' : (char)tolower((unsigned char)*c);
    path[used] = '\0';
    return node_at(step, path) ? loader_place(step, path) : loader_place(step, "layout");
}

static enum mosaic_status legal_mesh(struct loader *l, const struct measured *m,
                                     const struct cluster *cluster, const struct engine *engine,
                                     const struct workload *w, struct mesh *mesh) {
    const struct degrees_section *const d = &m->s.layout;
    struct status_error err = {0};
    *mesh = (struct mesh){.tp = d->tp,
                          .cp = d->cp,
                          .pp = d->pp,
                          .vpp = d->vpp,
                          .ep = d->ep,
                          .etp = d->etp,
                          .micro_batch = d->micro_batch,
                          .recompute = (enum recompute)d->recompute,
                          .schedule = schedule_of[d->schedule]};
    enum mosaic_status status = mesh_complete(mesh, &m->geometry, w, cluster_gpus(cluster), &err);
    if (status == MOSAIC_OK)
        status = mesh_check_engine(mesh, &m->geometry, w, engine, &err);
    if (status == MOSAIC_OK)
        return MOSAIC_OK;
    const struct place place = refused_at(m->node, &err);
    return diag_from_error(l->diags, &place, &err);
}

/* The job on its machine, split over the stages as `predict` splits it. */
static enum mosaic_status evaluate(struct loader *l, const struct measured *m,
                                   const struct step_context *ctx, const struct mesh *mesh,
                                   struct prediction *out) {
    struct layer_table table;
    struct best_split best;
    struct split_work work = {0};
    struct status_error err = {0};
    const struct split_request request = {ctx, &table, mesh, (double)INFINITY};
    struct split_scratch *const scratch = split_scratch_new();
    if (!scratch)
        return no_memory(l);
    layer_table_fill(ctx, mesh, &table);
    const enum mosaic_status status = best_split_find(scratch, &request, &best, &work, &err);
    split_scratch_free(scratch);
    if (status != MOSAIC_OK)
        return diag_from_error(l->diags, &m->node->place, &err);
    struct split split;
    split_even(m->geometry.layers, mesh->pp, &split);
    step_predict(ctx, &table, mesh, best.found ? &best.split : &split, out, NULL);
    return MOSAIC_OK;
}

static enum mosaic_status check_ratio(struct loader *l, const struct measured *m,
                                      const struct prediction *p) {
    const struct place place = loader_place(m->node, "step_time");
    const double measured_s = m->s.step_time_s, ratio = measured_s / p->step_time_s;
    if (!step_is_plausible(p))
        return diag_error(l->diags, &m->node->place,
                          "no plausible prediction to compare with: %g s, MFU %g", p->step_time_s,
                          p->mfu);
    if (p->mfu > ratio) {
        (void)diag_error(l->diags, &place, "a step of %.4g s is an MFU of %.3g: above 1",
                         measured_s, p->mfu / ratio);
        diag_hint(l->diags, "check nodes, global_batch, precision and the model");
        return MOSAIC_BAD_INPUT;
    }
    if (ratio > RATIO_MAX || ratio < 1.0 / RATIO_MAX) {
        (void)diag_error(l->diags, &place,
                         "measured %.4g s, predicted %.4g s: a factor of %.3g, beyond %g either "
                         "way",
                         measured_s, p->step_time_s, ratio, RATIO_MAX);
        diag_hint(l->diags, "another unit, batch, layout or model was measured, or the calibration "
                            "is of another machine");
        return MOSAIC_BAD_INPUT;
    }
    if (fabs(ratio - 1.0) > RATIO_SUSPECT) {
        diag_warning(l->diags, &place,
                     "measured %.4g s, predicted %.4g s: %.0f %% apart; anchors are meant for "
                     "smaller residuals",
                     measured_s, p->step_time_s, 100.0 * fabs(ratio - 1.0));
        diag_hint(l->diags, "check the layout and the execution of the step");
    }
    return MOSAIC_OK;
}

static enum mosaic_status predict(struct loader *l, const struct problem *p, struct measured *m) {
    const struct step_section *const s = &m->s;
    struct cluster cluster = p->cluster;
    struct workload w = {.sequence = s->sequence,
                         .global_batch = s->global_batch,
                         .precision = (enum precision)s->precision,
                         .optimizer = s->optimizer == 1 ? OPTIMIZER_MUON : OPTIMIZER_ADAMW,
                         .vocab = m->geometry.vocab,
                         .imbalance = s->imbalance,
                         .execution = p->engine.recipe.execution};
    struct status_error err = {0};
    struct mesh mesh;
    struct step_context ctx;
    struct prediction prediction = {.step_time_s = 0.0};
    cluster.nodes = s->nodes;
    if (s->has_execution)
        doc_execution(&s->execution, &w.execution);
    if (cluster_check(&cluster, w.precision, &err) != MOSAIC_OK) {
        const bool has_peak = cluster.device.peak_flop_per_s[w.precision] > 0.0;
        const struct place place = loader_place(m->node, has_peak ? "nodes" : "precision");
        return diag_from_error(l->diags, &place, &err);
    }
    TRY(legal_mesh(l, m, &cluster, &p->engine, &w, &mesh));
    step_context_init(&ctx, &m->geometry, &cluster, &p->calibration, &w, &p->engine,
                      estimator_default());
    TRY(evaluate(l, m, &ctx, &mesh, &prediction));
    TRY(check_ratio(l, m, &prediction));
    m->predicted_s = prediction.step_time_s;
    return MOSAIC_OK;
}

/* ---- what follows ---- */

static bool is_in_space(const struct problem *p, const struct geometry *geometry) {
    for (size_t i = 0; i < p->geometries.count; ++i)
        if (geometry_compare(&p->geometries.items[i], geometry) == 0)
            return true;
    return false;
}

/* All steps of the model of `first`, which is not among the anchors yet. */
static void fit_model(struct loader *l, const struct problem *p, struct measured_list *list,
                      const struct measured *first, struct anchors *anchors) {
    const double *const scalar = p->calibration.scalar;
    struct anchor *const anchor = &anchors->items[anchors->count++];
    size_t count = 0;
    for (size_t i = 0; i < list->count; ++i) {
        const struct measured *const m = &list->items[i];
        if (!m->is_used || geometry_compare(&m->geometry, &first->geometry) != 0)
            continue;
        list->measured_s[count] = m->s.step_time_s;
        list->predicted_s[count++] = m->predicted_s;
    }
    anchor->geometry = first->geometry;
    anchor_fit(list->measured_s, list->predicted_s, count, scalar[CAL_ANCHOR_BETWEEN],
               scalar[CAL_ANCHOR_WITHIN], &anchor->residual);
    if (!is_in_space(p, &first->geometry))
        diag_note(l->diags, &first->node->place,
                  "measured steps of '%s' change nothing here: no geometry of the plan equals it",
                  first->name);
}

static bool is_of_engine(const struct measured *m, const struct engine *engine) {
    return !m->s.has_engine || (strcmp(m->s.engine.name, engine->name) == 0 &&
                                strcmp(m->s.engine.version, engine->version) == 0);
}

static enum mosaic_status predict_all(struct loader *l, const struct problem *p,
                                      struct measured_list *list) {
    enum mosaic_status status = MOSAIC_OK;
    for (size_t i = 0; i < list->count; ++i) {
        struct measured *const m = &list->items[i];
        m->is_used = is_of_engine(m, &p->engine);
        if (!m->is_used) {
            const struct place place = loader_place(m->node, "engine");
            diag_note(l->diags, &place, "a step of %s %s says nothing of %s %s: left out",
                      m->s.engine.name, m->s.engine.version, p->engine.name, p->engine.version);
            continue;
        }
        const enum mosaic_status one = predict(l, p, m);
        status = status == MOSAIC_OK ? one : status;
    }
    return status;
}

/* A machine changed by --set moves the predictions that steps are compared with, and the factor
 * would take back what was to be seen. */
static void note_changed_machine(struct loader *l, const struct node *node) {
    static const char *const parts[] = {"cluster.", "calibration."};
    static const char own[] = "measured_steps";
    for (size_t i = 0; i < l->document->override_count; ++i) {
        const char *const key = l->document->overrides[i].key;
        for (size_t k = 0; k < sizeof parts / sizeof parts[0]; ++k)
            if (strncmp(key, parts[k], strlen(parts[k])) == 0 && !strstr(key, own)) {
                diag_note(l->diags, &node->place,
                          "measured steps are compared with predictions under %s as set", key);
                diag_hint(l->diags, "for a what-if of the machine, set measured_steps to []");
                return;
            }
    }
}

enum mosaic_status doc_anchors_bind(struct loader *l, const struct node *calibration,
                                    const char *prefix, struct problem *problem) {
    struct measured_list *list;
    TRY(open_list(l, calibration, prefix, problem->workload.vocab, &list));
    if (!list || list->count == 0)
        return MOSAIC_OK;
    if (problem->is_published) {
        diag_note(l->diags, &list->node->place,
                  "measured steps anchor the default estimator only, not the published one");
        return MOSAIC_OK;
    }
    TRY(predict_all(l, problem, list));
    struct anchors *const anchors = talloc_zero(l->memory, struct anchors);
    if (!anchors)
        return no_memory(l);
    for (size_t i = 0; i < list->count; ++i)
        if (list->items[i].is_used && !anchor_find(anchors, &list->items[i].geometry))
            fit_model(l, problem, list, &list->items[i], anchors);
    note_changed_machine(l, list->node);
    talloc_free(list);
    problem->workload.anchors = anchors->count > 0 ? anchors : NULL;
    return MOSAIC_OK;
}
