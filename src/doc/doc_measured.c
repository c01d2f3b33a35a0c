// SPDX-License-Identifier: GPL-3.0-or-later
/* Rows of measured steps, each matched with the plan's space and held against its prediction. */
#include "doc/doc_measured.h"

#include "plan/shortlist_id.h"
#include "text/csv_read.h"

#include <math.h>
#include <sha2.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>

enum { COLUMN_ID, COLUMN_TIME, COLUMNS };
static const char *const names[COLUMNS] = {"id", "step_time_s"};
const char doc_measured_header[] = "id,step_time_s";

/* A residual beyond these is a mistake rather than one of the model. */
static const double ratio_suspect = 0.5, ratio_max = 3.0;
static const double step_time_max = 1e7; /* s */

struct reader {
    const struct problem *problem;
    const char *const *names; /* of its models, or NULL */
    const struct csv_table *csv;
    size_t columns[COLUMNS];
    struct diag_list *diags;
    struct measured_table *out;
};

/* ---- rows of a table of steps ---- */

/* Columns of step_row.h that lay a job out, and the axes that they are. */
static const struct {
    const char *column, *axis;
} axes[] = {{"tp", "tp"}, {"cp", "cp"},   {"pp", "pp"},           {"vpp", "vpp"},
            {"ep", "ep"}, {"etp", "etp"}, {"mbs", "micro_batch"}, {"recompute", "recompute"}};

/* "" where the table lacks the column. */
static const char *cell(const struct reader *r, size_t row, const char *name) {
    size_t column;
    return csv_table_find(r->csv, name, &column) ? csv_table_text(r->csv, row, column) : "";
}

/* The table's word for a model: its name in the plan, or the first word of its ids. */
static const char *model_word(const struct reader *r, const char *name,
                              char out[SHORTLIST_MODEL_MAX]) {
    const struct problem *const p = r->problem;
    for (size_t i = 0; r->names && i < p->geometries.count; ++i)
        if (r->names[i] && strcmp(r->names[i], name) == 0)
            return shortlist_model(&p->geometries.items[i], out);
    (void)snprintf(out, SHORTLIST_MODEL_MAX, "%s", name);
    return out;
}

/* Whether a cell, where there is one, has what the plan has. */
static bool is_plans(const struct reader *r, size_t row, const char *name, double value) {
    struct status_error unused;
    double number = 0.0;
    const char *const text = cell(r, row, name);
    return !*text || (units_parse_number(text, &number, &unused) == MOSAIC_OK &&
                      !(number < value) && !(number > value));
}

/* The id of a row that lays its job out in columns of its own; false for another job or table. */
static bool row_id(const struct reader *r, size_t row, char id[SHORTLIST_ID_MAX]) {
    const struct problem *const p = r->problem;
    char model[SHORTLIST_MODEL_MAX];
    if (!*cell(r, row, "model") || !*cell(r, row, "pp") || !*cell(r, row, "mbs") ||
        !is_plans(r, row, "seq_len", p->workload.sequence) ||
        !is_plans(r, row, "gbs", p->workload.global_batch) ||
        !is_plans(r, row, "n_gpus", cluster_gpus(&p->cluster)))
        return false;
    int used = snprintf(id, SHORTLIST_ID_MAX, "%s", model_word(r, cell(r, row, "model"), model));
    for (size_t i = 0; i < sizeof axes / sizeof axes[0]; ++i) {
        const char *const value = cell(r, row, axes[i].column);
        if (*value && used < SHORTLIST_ID_MAX)
            used += snprintf(id + used, (size_t)(SHORTLIST_ID_MAX - used), " %s=%s", axes[i].axis,
                             value);
    }
    return used < SHORTLIST_ID_MAX;
}

static enum mosaic_status find_row(const struct reader *r, size_t row,
                                   struct shortlist_entry *entry, struct status_error *err) {
    char id[SHORTLIST_ID_MAX];
    const char *const given = csv_table_text(r->csv, row, r->columns[COLUMN_ID]);
    const enum mosaic_status found = shortlist_id_find(r->problem, given, entry, err);
    return found != MOSAIC_OK && row_id(r, row, id) ? shortlist_id_find(r->problem, id, entry, err)
                                                    : found;
}

/* ---- rows ---- */

static enum mosaic_status check_ratio(const struct reader *r, size_t row,
                                      const struct prediction *p, double measured_s) {
    const struct place place = csv_table_place(r->csv, row, r->columns[COLUMN_TIME]);
    const double ratio = measured_s / p->step_time_s;
    if (p->mfu > ratio) {
        (void)diag_error(r->diags, &place, "row %zu: a step of %.4g s is an MFU of %.3g: above 1",
                         row + 1, measured_s, p->mfu / ratio);
        diag_hint(r->diags, "step_time_s is in seconds, and of one whole step");
        return MOSAIC_BAD_INPUT;
    }
    if (ratio > ratio_max || ratio < 1.0 / ratio_max) {
        (void)diag_error(r->diags, &place,
                         "row %zu: measured %.4g s, predicted %.4g s: a factor of %.3g, beyond %g "
                         "either way",
                         row + 1, measured_s, p->step_time_s, ratio, ratio_max);
        diag_hint(r->diags, "step_time_s is in seconds, and of the very layout of the id");
        return MOSAIC_BAD_INPUT;
    }
    if (fabs(ratio - 1.0) > ratio_suspect)
        diag_warning(r->diags, &place, "row %zu: measured %.4g s, predicted %.4g s: %.0f %% apart",
                     row + 1, measured_s, p->step_time_s, 100.0 * fabs(ratio - 1.0));
    return MOSAIC_OK;
}

static enum mosaic_status read_time(const struct reader *r, size_t row, double *seconds) {
    TRY(csv_table_number(r->csv, row, r->columns[COLUMN_TIME], seconds, r->diags));
    if (*seconds > 0.0 && *seconds <= step_time_max)
        return MOSAIC_OK;
    const struct place place = csv_table_place(r->csv, row, r->columns[COLUMN_TIME]);
    return diag_error(r->diags, &place,
                      "row %zu: step_time_s is %g; it must be above 0 and at "
                      "most %g",
                      row + 1, *seconds, step_time_max);
}

static enum mosaic_status read_row(const struct reader *r, size_t row) {
    const struct place place = csv_table_place(r->csv, row, r->columns[COLUMN_ID]);
    struct shortlist_entry entry;
    struct status_error err = {0};
    double seconds = 0.0;
    const enum mosaic_status found = find_row(r, row, &entry, &err);
    if (found != MOSAIC_OK) {
        status_wrap(&err, "row %zu", row + 1);
        (void)diag_from_error(r->diags, &place, &err);
    }
    if (csv_table_text(r->csv, row, r->columns[COLUMN_TIME])[0] == '\0') {
        r->out->empty++;
        return found;
    }
    TRY(read_time(r, row, &seconds));
    TRY(found);
    TRY(check_ratio(r, row, &entry.prediction, seconds));
    const struct measured_layout one = {.index = entry.index,
                                        .nodes = entry.nodes,
                                        .layout = entry.layout,
                                        .steps = 1,
                                        .sum_log_s = log(seconds),
                                        .predicted_s = entry.prediction.step_time_s,
                                        .anchor_factor = entry.prediction.anchor_factor};
    return measured_layouts_add(&r->out->layouts, &one)
               ? MOSAIC_OK
               : diag_error(r->diags, &place, "row %zu: more than %d layouts", row + 1,
                            (int)MEASURED_LAYOUTS_MAX);
}

static enum mosaic_status read_rows(struct reader *r) {
    enum mosaic_status status = MOSAIC_OK;
    TRY(csv_table_columns(r->csv, names, COLUMNS, r->columns, r->diags));
    r->out->rows = r->csv->rows;
    for (size_t row = 0; row < r->csv->rows; ++row) {
        const enum mosaic_status one = read_row(r, row);
        status = status == MOSAIC_OK ? one : status;
    }
    if (status == MOSAIC_OK && r->out->layouts.count == 0) {
        const struct place place = source_place(r->csv->source, 0, 1);
        (void)diag_error(r->diags, &place, "no row has a measured step");
        diag_hint(r->diags, "fill in step_time_s, the median step of a short run in seconds");
        return MOSAIC_BAD_INPUT;
    }
    return status;
}

enum mosaic_status doc_measured_read(const struct document *document, const char *path,
                                     struct diag_list *diags, struct measured_table *out) {
    void *const memory = talloc_new(NULL);
    struct csv_table *csv = NULL;
    if (!memory)
        return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
    memset(out, 0, sizeof *out);
    out->input.path = path;
    enum mosaic_status status = csv_table_load(memory, path, NULL, &csv, diags);
    if (status == MOSAIC_OK) {
        const struct source *const source = csv->source;
        (void)SHA256Data((const uint8_t *)source->text, source->size, out->input.sha256);
        struct reader r = {.problem = &document->problem,
                           .names = document->geometry_names,
                           .csv = csv,
                           .diags = diags,
                           .out = out};
        status = read_rows(&r);
    }
    talloc_free(memory);
    return status;
}
