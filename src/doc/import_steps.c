// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Measured training steps, a row each, as `measured_steps` of a calibration (doc_anchors.c checks
 * them).  Columns bear the names of its keys; the time is in `step_time` (with a unit),
 * `step_time_s` or `step_time_ms`, or the median of a `log` of the run: its lines
 * "elapsed time per iteration (ms): N", without the first tenth, in which caches and clocks settle.
 */
#include "doc/import_set.h"

#include "text/csv_read.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>

enum { LOG_STEPS_LEAST = 3, WARM_UP = 10, PLAIN_MAX = 64 };

struct writer {
    struct import_set *set;
    const struct csv_table *table;
    char *text; /* talloc, grows */
    const char *path;
};

static enum mosaic_status say(struct writer *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static enum mosaic_status say(struct writer *w, const char *format, ...) {
    va_list args;
    va_start(args, format);
    w->text = talloc_vasprintf_append_buffer(w->text, format, args);
    va_end(args);
    return w->text ? MOSAIC_OK : import_no_memory(w->set);
}

static const char *cell(const struct writer *w, size_t row, const char *name) {
    size_t column = 0;
    return csv_table_find(w->table, name, &column) ? csv_table_text(w->table, row, column) : "";
}

/* A number or a word that needs no quotes. */
static bool is_plain(const char *text) {
    size_t length = 0;
    for (; text[length]; length++)
        if (!isalnum((unsigned char)text[length]) && !strchr("._+-", text[length]))
            return false;
    return length > 0 && length <= PLAIN_MAX;
}

static enum mosaic_status put_plain(struct writer *w, size_t row, const char *name, const char *key,
                                    const char *indent) {
    const char *const text = cell(w, row, name);
    size_t column = 0;
    if (!text[0])
        return MOSAIC_OK;
    if (!is_plain(text) && csv_table_find(w->table, name, &column)) {
        const struct place place = csv_table_place(w->table, row, column);
        return diag_error(w->set->diags, &place, "'%s' takes a number or a word", name);
    }
    return say(w, "%s%s: %s\n", indent, key, text);
}

static enum mosaic_status put_quoted(struct writer *w, const char *key, const char *text,
                                     const char *indent) {
    TRY(say(w, "%s%s: \"", indent, key));
    for (; *text; text++)
        TRY(say(w, "%s%c", *text == '"' || *text == '\\' ? "\\" : "",
                iscntrl((unsigned char)*text) ? ' ' : *text));
    return say(w, "\"\n");
}

/* ---- the time ---- */

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static enum mosaic_status read_log(struct writer *w, size_t row, double *seconds) {
    static const char words[] = "elapsed time per iteration (ms):";
    const char *const path = source_resolve(w->set->memory, w->table->source, cell(w, row, "log"));
    struct source *source = NULL;
    size_t count = 0;
    if (!path)
        return import_no_memory(w->set);
    TRY(import_read(w->set, path, &source));
    double *const ms = talloc_array(w->set->memory, double, (unsigned)source->line_count + 1);
    if (!ms)
        return import_no_memory(w->set);
    for (const char *at = strstr(source->text, words); at; at = strstr(at + 1, words)) {
        const double value = strtod(at + sizeof words - 1, NULL);
        if (value > 0 && isfinite(value) && count < source->line_count)
            ms[count++] = value;
    }
    const size_t skip = (count + WARM_UP - 1) / WARM_UP, left = count - skip;
    if (count < LOG_STEPS_LEAST + 1)
        return import_refuse(w->set, source, 0,
                             "%zu lines with 'elapsed time per iteration (ms):', and %d are due",
                             count, LOG_STEPS_LEAST + 1);
    qsort(ms + skip, left, sizeof *ms, compare);
    *seconds = 1e-3 * (left % 2 ? ms[skip + left / 2]
                                : 0.5 * (ms[skip + left / 2 - 1] + ms[skip + left / 2]));
    if (ms[count - 1] > 1.5 * ms[skip])
        import_warn(w->set, source, 0,
                    "steps take %.3g to %.3g ms: the median is taken; is the run steady?", ms[skip],
                    ms[count - 1]);
    import_define(w->set, "steps, log: median of the iterations without the first tenth");
    return MOSAIC_OK;
}

static enum mosaic_status read_time(struct writer *w, size_t row, double *seconds) {
    static const struct {
        const char *name;
        double factor;
    } plain[] = {{"step_time_s", 1.0}, {"step_time_ms", 1e-3}};
    size_t column = 0;
    if (csv_table_find(w->table, "step_time", &column) && cell(w, row, "step_time")[0])
        return csv_table_quantity(w->table, row, column, DIM_TIME, seconds, w->set->diags);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (csv_table_find(w->table, plain[i].name, &column) && cell(w, row, plain[i].name)[0]) {
            TRY(csv_table_number(w->table, row, column, seconds, w->set->diags));
            *seconds *= plain[i].factor;
            return MOSAIC_OK;
        }
    if (cell(w, row, "log")[0])
        return read_log(w, row, seconds);
    const struct place place = csv_table_place(w->table, row, 0);
    (void)diag_error(w->set->diags, &place, "this row has no time");
    diag_hint(w->set->diags, "step_time with a unit, step_time_s, step_time_ms or log");
    return MOSAIC_BAD_INPUT;
}

/* ---- a step ---- */

static enum mosaic_status put_step(struct writer *w, size_t row) {
    static const char *const sizes[] = {"nodes",     "sequence",  "global_batch",
                                        "precision", "optimizer", "imbalance"};
    static const char *const axes[] = {"tp",  "cp",          "pp",        "vpp",     "ep",
                                       "etp", "micro_batch", "recompute", "schedule"};
    static const char execution[] = "execution.";
    double seconds = 0;
    TRY(put_quoted(w, "model", cell(w, row, "model"), "  - "));
    if (cell(w, row, "engine")[0]) {
        TRY(say(w, "    engine:\n"));
        TRY(put_quoted(w, "name", cell(w, row, "engine"), "      "));
        TRY(put_quoted(w, "version", cell(w, row, "engine_version"), "      "));
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        TRY(put_plain(w, row, sizes[i], sizes[i], "    "));
    TRY(say(w, "    layout:\n"));
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++)
        TRY(put_plain(w, row, axes[i], axes[i], "      "));
    bool has_execution = false;
    for (size_t c = 0; c < w->table->columns; c++) {
        const char *const name = w->table->header[c].text;
        if (strncmp(name, execution, sizeof execution - 1) != 0 || !cell(w, row, name)[0])
            continue;
        if (!has_execution)
            TRY(say(w, "    execution:\n"));
        has_execution = true;
        TRY(put_plain(w, row, name, name + sizeof execution - 1, "      "));
    }
    TRY(read_time(w, row, &seconds));
    TRY(say(w, "    step_time: %.9g s\n", seconds));
    const char *const source = cell(w, row, "source");
    const char *const slash = strrchr(w->path, '/');
    char here[STATUS_FILE_MAX];
    (void)snprintf(here, sizeof here, "%s, row %zu", slash ? slash + 1 : w->path, row + 1);
    TRY(put_quoted(w, "source", source[0] ? source : here, "    "));
    w->set->step_count++;
    return MOSAIC_OK;
}

enum mosaic_status import_steps(struct import_set *set, const char *path) {
    static const char *const due[] = {"model",     "nodes",       "sequence", "global_batch",
                                      "precision", "micro_batch", "recompute"};
    enum { DUE = sizeof due / sizeof *due };
    struct source *source = NULL;
    struct csv_table *table = NULL;
    size_t columns[DUE];
    TRY(import_read(set, path, &source));
    TRY(csv_table_parse(set->memory, source, &table, set->diags));
    TRY(csv_table_columns(table, due, DUE, columns, set->diags));
    if (table->rows == 0)
        return import_refuse(set, source, 1, "no step is in it");
    struct writer w = {.set = set, .table = table, .path = path};
    w.text = talloc_strdup(set->memory, set->steps ? set->steps : "");
    if (!w.text)
        return import_no_memory(set);
    for (size_t row = 0; row < table->rows; row++) {
        set->rows++;
        TRY(put_step(&w, row));
    }
    set->steps = w.text;
    import_define(set, "steps: whole optimizer steps, end to end; models are looked for from the "
                       "document's folder");
    return MOSAIC_OK;
}
