// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Rows as measured steps.  A row goes through its numbers, its model, its cluster, its engine, the
 * words of its execution and its mesh; whatever none of these can say leaves it out with its
 * reason.  A number that is none, a doubled id, a bad model are errors of the tables.
 */
#include "doc/doc_steps.h"

#include "doc/step_documents.h"
#include "doc/step_models.h"
#include "doc/step_words.h"

#include <sha2.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>

struct reader {
    struct step_tables *tables;
    void *memory;
    struct diag_list *diags;
    struct step_documents documents;
    struct step_models models;
    struct step_sheet sheet;
    const char **recompute; /* by item: the word */
    bool is_screened;
    size_t compared; /* names, in search of a suggestion */
};

/* Names compared for suggestions, all rows together: tables may hold 100,000 of both. */
enum { COMPARED_MAX = 200000 };

static enum mosaic_status no_memory(struct diag_list *diags) {
    return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
}

/* ---- one row ---- */

static bool refuse_model(struct reader *r, struct step_row *row, const char *name) {
    char shown[STATUS_QUOTE_MAX];
    const bool is_cheap = r->models.count <= COMPARED_MAX - r->compared;
    const char *const near = is_cheap ? step_models_near(&r->models, name) : NULL;
    r->compared += is_cheap ? r->models.count : 0;
    if (!near)
        return step_row_exclude(row, STEP_MODEL, "is not in the table of models");
    return step_row_exclude(row, STEP_MODEL, "is not in the table of models; is it '%s'?",
                            status_quote(near, shown, sizeof shown));
}

static bool take_model(struct reader *r, struct step_row *row, struct measured_step *step) {
    const struct step_model *const model = step_models_find(&r->models, step->model);
    if (!model)
        return refuse_model(r, row, step->model);
    if (model->unknown)
        return step_row_exclude(row, STEP_MODEL, "has the %s, which is not modelled",
                                model->unknown);
    step->geometry = model->geometry;
    return true;
}

/* Whole nodes, or a part of one. */
static bool size_cluster(struct step_row *row, const struct step_numbers *n, struct cluster *c) {
    if (n->gpus_per_node > 0 && n->gpus_per_node != c->gpus_per_node)
        return step_row_exclude(row, STEP_GPUS_PER_NODE, "but %s has %d", c->name,
                                c->gpus_per_node);
    if (n->domain > 0 && n->domain != c->tiers[0].domain)
        return step_row_exclude(row, STEP_DOMAIN, "but %s has %d", c->name, c->tiers[0].domain);
    if (n->gpus < c->gpus_per_node)
        c->gpus_per_node = n->gpus;
    if (n->gpus % c->gpus_per_node != 0)
        return step_row_exclude(row, STEP_N_GPUS, "is no multiple of %d per node: %d mod %d = %d",
                                c->gpus_per_node, n->gpus, c->gpus_per_node,
                                n->gpus % c->gpus_per_node);
    c->nodes = n->gpus / c->gpus_per_node;
    return true;
}

static enum mosaic_status take_cluster(struct reader *r, struct step_row *row,
                                       const struct step_numbers *n, struct measured_step *step) {
    struct step_cluster *const found =
        step_documents_cluster(&r->documents, step->gpu, step->fabric);
    if (!found) {
        char shown[STATUS_QUOTE_MAX];
        (void)step_row_exclude(row, STEP_GPU, "with fabric '%s': no cluster document has both",
                               status_quote(step->fabric, shown, sizeof shown));
        return MOSAIC_OK;
    }
    TRY(step_documents_calibration(&r->documents, found, &step->calibration));
    step->cluster = found->cluster;
    step->cluster_name = found->name;
    step->architecture = found->cluster.device.architecture;
    (void)size_cluster(row, n, &step->cluster);
    return MOSAIC_OK;
}

static enum mosaic_status take_engine(struct reader *r, struct step_row *row,
                                      struct measured_step *step) {
    TRY(step_documents_engine(&r->documents, step->software, &step->engine));
    if (!step->engine)
        (void)step_row_exclude(row, STEP_SOFTWARE, "is a release that no engine document lists");
    return MOSAIC_OK;
}

static bool take_mesh(struct step_row *row, const struct step_numbers *n,
                      struct measured_step *step) {
    struct mesh *const m = &step->mesh;
    const struct geometry *const g = &step->geometry;
    const int gpus = cluster_gpus(&step->cluster);
    m->tp = n->tp;
    m->cp = n->cp;
    m->pp = n->pp;
    m->vpp = n->vpp;
    m->ep = n->ep;
    m->etp = n->etp;
    m->micro_batch = n->micro_batch;
    if (m->vpp > 1 && g->layers % (m->pp * m->vpp) != 0)
        step->workload.execution.uneven_chunks = true;
    struct status_error err;
    if (mesh_complete(m, g, &step->workload, gpus, &err) != MOSAIC_OK)
        return step_row_refuse(row, "this layout: %s", err.message);
    if (n->dp > 0 && n->dp != m->dp)
        return step_row_exclude(row, STEP_DP, "but %d GPUs / (TP %d x CP %d x PP %d = %d) = %d",
                                gpus, m->tp, m->cp, m->pp, m->tp * m->cp * m->pp, m->dp);
    split_even(g->layers, m->pp, &step->split);
    return true;
}

/* The least recomputation that fits; selective where nothing does: no row of these engines
 * that says what it recomputes says whole layers.  What a row leaves open is settled by the generic
 * calibration, so that it does not hang on constants fitted to the same rows. */
static void recompute_to_fit(struct measured_step *step, const struct calibration *generic) {
    for (int mode = RECOMPUTE_NONE; mode < RECOMPUTE_FULL; ++mode) {
        struct prediction p;
        step->mesh.recompute = (enum recompute)mode;
        measured_step_predict(step, generic, &p);
        if (p.memory.total <= p.capacity_bytes)
            return;
    }
}

static bool take_run(const struct reader *r, struct step_row *row, const struct step_numbers *n,
                     struct measured_step *step) {
    const struct step_facts facts = {&step->geometry, step->engine, n};
    bool to_fit = false;
    if (!step_words_workload(row, &facts, &step->workload, &step->unstated) ||
        !step_words_recompute(row, step->engine, &step->workload.execution, &step->mesh.recompute,
                              &to_fit, &step->unstated))
        return false;
    struct status_error err;
    if (cluster_check(&step->cluster, step->workload.precision, &err) != MOSAIC_OK)
        return step_row_exclude(row, STEP_PRECISION, "on %s: %s", step->cluster_name, err.message);
    if (!take_mesh(row, n, step))
        return false;
    if (to_fit)
        recompute_to_fit(step, r->documents.generic);
    measured_step_balance(step, r->documents.generic);
    return true;
}

/* A time so far off is a mistake of the row, which a fit would follow. */
static bool is_near(struct step_row *row, const struct measured_step *step) {
    struct prediction p;
    measured_step_predict(step, NULL, &p);
    if (measured_step_is_near(step, p.step_time_s, MEASURED_STEP_WRONG))
        return true;
    return step_row_refuse(row,
                           "measured %.3g s, predicted %.3g s by calibration %s: off by more than "
                           "%g; units?",
                           step->step_time_s, p.step_time_s, step->calibration->name,
                           MEASURED_STEP_WRONG);
}

static enum mosaic_status copy_texts(struct reader *r, const struct step_row *row,
                                     struct measured_step *step) {
    const struct {
        enum step_column column;
        const char **text;
    } all[] = {{STEP_ID, &step->id},
               {STEP_MODEL, &step->model},
               {STEP_GPU, &step->gpu},
               {STEP_FABRIC, &step->fabric},
               {STEP_SOFTWARE, &step->software},
               {STEP_SOURCE, &step->source},
               {STEP_LICENCE, &step->licence}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) {
        *all[i].text = talloc_strdup(r->memory, step_row_text(row, all[i].column));
        if (!*all[i].text)
            return no_memory(r->diags);
    }
    if (step->id[0] == '\0') {
        const struct place place = step_row_place(row, STEP_ID);
        return diag_error(r->diags, &place, "row %zu: the id is empty", row->row + 1);
    }
    step->row = row->row + 1;
    step->year = step_year(step->software);
    if (step->year == 0)
        step->year = step_year(step->source);
    return MOSAIC_OK;
}

/* Fills the step, or the row's reason. */
static enum mosaic_status read_step(struct reader *r, struct step_row *row,
                                    struct measured_step *step) {
    struct step_numbers n;
    TRY(copy_texts(r, row, step));
    TRY(step_row_numbers(row, &n));
    if (row->reason[0] || !take_model(r, row, step))
        return MOSAIC_OK;
    TRY(take_cluster(r, row, &n, step));
    if (row->reason[0])
        return MOSAIC_OK;
    TRY(take_engine(r, row, step));
    if (row->reason[0] || !take_run(r, row, &n, step))
        return MOSAIC_OK;
    step->step_time_s = n.step_time_s;
    if (r->is_screened && !is_near(row, step))
        return MOSAIC_OK;
    step->peak_allocated_bytes = n.allocated_bytes;
    step->peak_reserved_bytes = n.reserved_bytes;
    return MOSAIC_OK;
}

static enum mosaic_status take_row(struct reader *r, size_t index) {
    struct measured_steps *const steps = &r->tables->steps;
    struct step_row row = {.sheet = &r->sheet, .row = index, .diags = r->diags};
    struct measured_step step = {.id = NULL};
    TRY(read_step(r, &row, &step));
    if (row.reason[0] == '\0') {
        r->recompute[steps->count] = step_row_text(&row, STEP_RECOMPUTE);
        steps->items[steps->count++] = step;
        return MOSAIC_OK;
    }
    const char *const reason = talloc_strdup(r->memory, row.reason);
    if (!reason)
        return no_memory(r->diags);
    steps->excluded[steps->excluded_count++] = (struct excluded_step){step.id, step.row, reason};
    return MOSAIC_OK;
}

/* ---- all rows ---- */

/* What is sorted to find equals: an id with its row, or a step with its recomputation's word. */
struct keyed {
    const struct measured_step *step;
    const char *text;
    size_t index;
};

static int by_index(const struct keyed *a, const struct keyed *b) {
    return (a->index > b->index) - (a->index < b->index);
}

static int compare_ids(const void *a, const void *b) {
    const struct keyed *const x = a, *const y = b;
    const int order = strcmp(x->text, y->text);
    return order != 0 ? order : by_index(x, y);
}

static enum mosaic_status check_ids(const struct reader *r) {
    const struct csv_table *const csv = r->sheet.csv;
    struct keyed *const keys = talloc_zero_array(r->memory, struct keyed, (unsigned)csv->rows + 1);
    if (!keys)
        return no_memory(r->diags);
    for (size_t i = 0; i < csv->rows; ++i)
        keys[i] = (struct keyed){NULL, csv_table_text(csv, i, r->sheet.at[STEP_ID]), i};
    qsort(keys, csv->rows, sizeof *keys, compare_ids);
    enum mosaic_status status = MOSAIC_OK;
    for (size_t i = 1; i < csv->rows; ++i) {
        if (strcmp(keys[i].text, keys[i - 1].text) != 0)
            continue;
        const struct place place = csv_table_place(csv, keys[i].index, r->sheet.at[STEP_ID]);
        char shown[STATUS_QUOTE_MAX];
        status =
            diag_error(r->diags, &place, "row %zu: id '%s' is that of row %zu", keys[i].index + 1,
                       status_quote(keys[i].text, shown, sizeof shown), keys[i - 1].index + 1);
    }
    talloc_free(keys);
    return status;
}

/* 0 for two steps of one layout. */
static int compare_layouts(const struct keyed *a, const struct keyed *b) {
    const struct measured_step *const x = a->step, *const y = b->step;
    const int texts[] = {strcmp(x->model, y->model), strcmp(x->gpu, y->gpu),
                         strcmp(x->fabric, y->fabric), strcmp(a->text, b->text)};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i)
        if (texts[i] != 0)
            return texts[i];
    const struct mesh *const m = &x->mesh, *const n = &y->mesh;
    const struct execution *const e = &x->workload.execution, *const f = &y->workload.execution;
    const int left[] = {(int)e->sharding,
                        (int)e->dispatcher,
                        (int)e->graphs,
                        (int)(e->overlap & OVERLAP_EP),
                        (int)x->workload.precision,
                        x->workload.sequence,
                        m->tp,
                        m->pp,
                        m->vpp,
                        m->cp,
                        m->ep,
                        m->etp,
                        m->micro_batch};
    const int right[] = {(int)f->sharding,
                         (int)f->dispatcher,
                         (int)f->graphs,
                         (int)(f->overlap & OVERLAP_EP),
                         (int)y->workload.precision,
                         y->workload.sequence,
                         n->tp,
                         n->pp,
                         n->vpp,
                         n->cp,
                         n->ep,
                         n->etp,
                         n->micro_batch};
    for (size_t i = 0; i < sizeof left / sizeof left[0]; ++i)
        if (left[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    return 0;
}

static int compare_steps(const void *a, const void *b) {
    const int order = compare_layouts(a, b);
    return order != 0 ? order : by_index(a, b);
}

/* Layouts are numbered in the order of their first rows. */
static enum mosaic_status number_layouts(struct reader *r) {
    struct measured_steps *const steps = &r->tables->steps;
    const size_t count = steps->count;
    struct keyed *const keys = talloc_zero_array(r->memory, struct keyed, (unsigned)count + 1);
    size_t *const first = talloc_zero_array(r->memory, size_t, (unsigned)count + 1);
    if (!keys || !first)
        return no_memory(r->diags);
    for (size_t i = 0; i < count; ++i)
        keys[i] = (struct keyed){&steps->items[i], r->recompute[i], i};
    qsort(keys, count, sizeof *keys, compare_steps);
    for (size_t i = 0, start = 0; i < count; ++i) {
        if (compare_layouts(&keys[i], &keys[start]) != 0)
            start = i;
        first[keys[i].index] = keys[start].index;
        steps->items[keys[start].index].layout_rows = i - start + 1;
    }
    for (size_t i = 0; i < count; ++i) {
        struct measured_step *const step = &steps->items[i], *const head = &steps->items[first[i]];
        if (step == head)
            step->layout = steps->layouts++;
        step->layout = head->layout;
        step->layout_rows = head->layout_rows;
    }
    talloc_free(keys);
    talloc_free(first);
    return MOSAIC_OK;
}

static enum mosaic_status read_rows(struct reader *r) {
    const size_t rows = r->sheet.csv->rows;
    struct measured_steps *const steps = &r->tables->steps;
    if (rows == 0) {
        const struct place place = {r->sheet.csv->source, 1, 1, 1};
        return diag_error(r->diags, &place, "a header without rows: no measured step");
    }
    steps->rows = rows;
    steps->items = talloc_zero_array(r->memory, struct measured_step, (unsigned)rows + 1);
    steps->excluded = talloc_zero_array(r->memory, struct excluded_step, (unsigned)rows + 1);
    r->recompute = talloc_zero_array(r->memory, const char *, (unsigned)rows + 1);
    if (!steps->items || !steps->excluded || !r->recompute)
        return no_memory(r->diags);
    enum mosaic_status status = check_ids(r);
    for (size_t i = 0; i < rows; ++i) {
        const enum mosaic_status one = take_row(r, i);
        if (status == MOSAIC_OK)
            status = one;
    }
    TRY(status);
    return number_layouts(r);
}

/* ---- files ---- */

static enum mosaic_status read_table(struct reader *r, const char *path, struct csv_table **csv) {
    char sha256[DOCUMENT_HASH_MAX];
    TRY(csv_table_load(r->memory, path, NULL, csv, r->diags));
    const struct source *const source = (*csv)->source;
    if (strcmp(path, "-") == 0 || !SHA256File(path, sha256))
        (void)SHA256Data((const uint8_t *)source->text, source->size, sha256);
    return loader_add_input(&r->documents.loader, path, sha256);
}

static enum mosaic_status load(struct reader *r, const char *rows_path, const char *models_path,
                               const struct step_table_options *options) {
    struct csv_table *rows = NULL, *models = NULL;
    TRY(read_table(r, rows_path, &rows));
    TRY(read_table(r, models_path, &models));
    TRY(step_documents_open(&r->documents, options ? options->calibration : NULL));
    TRY(step_models_read(r->memory, models, r->diags, &r->models));
    TRY(step_sheet_open(rows, r->diags, &r->sheet));
    TRY(read_rows(r));
    r->tables->inputs = r->documents.loader.inputs;
    r->tables->input_count = r->documents.loader.input_count;
    return MOSAIC_OK;
}

enum mosaic_status doc_steps_load(const char *rows_path, const char *models_path,
                                  const struct step_table_options *options, struct diag_list *diags,
                                  struct step_tables **out) {
    struct step_tables *const tables = talloc_zero(NULL, struct step_tables);
    if (!tables)
        return no_memory(diags);
    tables->memory = tables;
    struct reader r = {.tables = tables,
                       .memory = tables,
                       .diags = diags,
                       .is_screened = options && options->is_screened,
                       .documents = {.loader = {.memory = tables, .diags = diags}}};
    const enum mosaic_status status = load(&r, rows_path, models_path, options);
    if (status != MOSAIC_OK) {
        talloc_free(tables);
        return status;
    }
    *out = tables;
    return MOSAIC_OK;
}

void doc_steps_free(struct step_tables *tables) {
    talloc_free(tables);
}
