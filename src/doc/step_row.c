// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Cells of a row: a number that is none is an error at its cell, an empty one that the step needs
 * leaves the row out.  A row that states tokens per second and GPU instead of a time gets
 *   step = global batch x sequence / (tokens_s_gpu x GPUs).
 */
#include "doc/step_row.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/cluster.h"
#include "model/geometry.h"

static const double bytes_per_gib = 1073741824.0;
static const double imbalance_max = 1e3;
static const double contradiction = 0.05; /* of a step stated twice: beyond rounding */
static const double measured_max = 1e9;   /* seconds, tokens/s, GiB: beyond any of them */

static const struct {
    const char *name;
    bool required;
} columns[STEP_COLUMN_COUNT] = {
#define COLUMN_ROW(id, name, required) {name, (required) != 0},
    STEP_COLUMNS(COLUMN_ROW)
#undef COLUMN_ROW
};

enum mosaic_status step_sheet_open(const struct csv_table *csv, struct diag_list *diags,
                                   struct step_sheet *sheet) {
    const char *missing[STEP_COLUMN_COUNT];
    size_t count = 0, unused[STEP_COLUMN_COUNT];
    *sheet = (struct step_sheet){.csv = csv};
    for (size_t i = 0; i < STEP_COLUMN_COUNT; ++i) {
        sheet->has[i] = csv_table_find(csv, columns[i].name, &sheet->at[i]);
        if (!sheet->has[i] && columns[i].required)
            missing[count++] = columns[i].name;
    }
    return csv_table_columns(csv, missing, count, unused, diags);
}

const char *step_row_text(const struct step_row *row, enum step_column column) {
    const struct step_sheet *const sheet = row->sheet;
    return sheet->has[column] ? csv_table_text(sheet->csv, row->row, sheet->at[column]) : "";
}

struct place step_row_place(const struct step_row *row, enum step_column column) {
    const struct step_sheet *const sheet = row->sheet;
    return csv_table_place(sheet->csv, row->row, sheet->at[sheet->has[column] ? column : STEP_ID]);
}

bool step_row_exclude(struct step_row *row, enum step_column column, const char *format, ...) {
    char shown[STATUS_QUOTE_MAX], message[STATUS_TEXT_MAX / 2];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    (void)snprintf(row->reason, sizeof row->reason, "%s '%s' %s", columns[column].name,
                   status_quote(step_row_text(row, column), shown, sizeof shown), message);
    return false;
}

bool step_row_refuse(struct step_row *row, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(row->reason, sizeof row->reason, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- numbers ---- */

static bool is_empty(const struct step_row *row, enum step_column column) {
    return step_row_text(row, column)[0] == '\0';
}

/* Above 0 and at most `most`; an empty cell or a column that is not there leaves the value. */
static enum mosaic_status read_number(const struct step_row *row, enum step_column column,
                                      double most, double *value) {
    if (is_empty(row, column))
        return MOSAIC_OK;
    double number = 0.0;
    TRY(csv_table_number(row->sheet->csv, row->row, row->sheet->at[column], &number, row->diags));
    if (number > 0.0 && number <= most) {
        *value = number;
        return MOSAIC_OK;
    }
    const struct place place = step_row_place(row, column);
    return diag_error(row->diags, &place, "row %zu: %s is %g; it must be above 0 and at most %g",
                      row->row + 1, columns[column].name, number, most);
}

static enum mosaic_status read_int(struct step_row *row, enum step_column column, double most,
                                   int *value) {
    double number = *value;
    TRY(read_number(row, column, most, &number));
    if (number != floor(number)) {
        const struct place place = step_row_place(row, column);
        return diag_error(row->diags, &place, "row %zu: %s is %g, not a whole number", row->row + 1,
                          columns[column].name, number);
    }
    *value = (int)number;
    if (row->sheet->has[column] && is_empty(row, column) && row->reason[0] == '\0')
        (void)step_row_exclude(row, column, "is empty");
    return MOSAIC_OK;
}

static enum mosaic_status read_ints(struct step_row *row, struct step_numbers *n) {
    const struct {
        enum step_column column;
        double most;
        int *value;
    } all[] = {
        {STEP_N_GPUS, CLUSTER_MAX_GPUS, &n->gpus},
        {STEP_GPUS_PER_NODE, CLUSTER_MAX_GPUS, &n->gpus_per_node},
        {STEP_DOMAIN, CLUSTER_MAX_GPUS, &n->domain},
        {STEP_SEQUENCE, GEOMETRY_MAX_VOCAB, &n->sequence},
        {STEP_MICRO_BATCH, GEOMETRY_MAX_VOCAB, &n->micro_batch},
        {STEP_GLOBAL_BATCH, GEOMETRY_MAX_VOCAB, &n->global_batch},
        {STEP_TP, CLUSTER_MAX_GPUS, &n->tp},
        {STEP_PP, CLUSTER_MAX_GPUS, &n->pp},
        {STEP_VPP, GEOMETRY_MAX_LAYERS, &n->vpp},
        {STEP_CP, CLUSTER_MAX_GPUS, &n->cp},
        {STEP_EP, CLUSTER_MAX_GPUS, &n->ep},
        {STEP_ETP, CLUSTER_MAX_GPUS, &n->etp},
        {STEP_DP, CLUSTER_MAX_GPUS, &n->dp},
    };
    enum mosaic_status status = MOSAIC_OK;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i)
        if (read_int(row, all[i].column, all[i].most, all[i].value) != MOSAIC_OK)
            status = MOSAIC_BAD_INPUT;
    return status;
}

static enum mosaic_status read_measured(struct step_row *row, struct step_numbers *n,
                                        double *tokens_s_gpu) {
    double allocated_gib = 0.0, reserved_gib = 0.0;
    const struct {
        enum step_column column;
        double most;
        double *value;
    } all[] = {
        {STEP_IMBALANCE, imbalance_max, &n->imbalance},
        {STEP_STEP_TIME, measured_max, &n->step_time_s},
        {STEP_TOKENS, measured_max, tokens_s_gpu},
        {STEP_ALLOCATED, measured_max, &allocated_gib},
        {STEP_RESERVED, measured_max, &reserved_gib},
    };
    enum mosaic_status status = MOSAIC_OK;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i)
        if (read_number(row, all[i].column, all[i].most, all[i].value) != MOSAIC_OK)
            status = MOSAIC_BAD_INPUT;
    n->allocated_bytes = allocated_gib * bytes_per_gib;
    n->reserved_bytes = reserved_gib * bytes_per_gib;
    return status;
}

enum mosaic_status step_row_numbers(struct step_row *row, struct step_numbers *numbers) {
    struct step_numbers n = {.vpp = 1, .cp = 1, .ep = 1, .etp = 1};
    double tokens_s_gpu = 0.0;
    const enum mosaic_status ints = read_ints(row, &n);
    TRY(read_measured(row, &n, &tokens_s_gpu));
    TRY(ints);
    if (n.imbalance > 0.0 && n.imbalance < 1.0) {
        const struct place place = step_row_place(row, STEP_IMBALANCE);
        return diag_error(row->diags, &place, "row %zu: imbalance is %g; it must be at least 1",
                          row->row + 1, n.imbalance);
    }
    const double by_tokens_s =
        tokens_s_gpu > 0.0 && n.gpus > 0
            ? (double)n.global_batch * (double)n.sequence / (tokens_s_gpu * n.gpus)
            : 0.0;
    if (!(n.step_time_s > 0.0))
        n.step_time_s = by_tokens_s;
    else if (by_tokens_s > 0.0 && row->reason[0] == '\0' &&
             fabs(by_tokens_s / n.step_time_s - 1.0) > contradiction)
        (void)step_row_exclude(row, STEP_TOKENS,
                               "makes a step of %.4g s, but step_time_s is %.4g: which is it?",
                               by_tokens_s, n.step_time_s);
    if (n.step_time_s > measured_max) {
        const struct place place = step_row_place(row, STEP_TOKENS);
        return diag_error(row->diags, &place,
                          "row %zu: tokens_s_gpu is %g: a step of %g s, beyond %g", row->row + 1,
                          tokens_s_gpu, n.step_time_s, measured_max);
    }
    if (!(n.step_time_s > 0.0) && row->reason[0] == '\0')
        (void)step_row_exclude(row, STEP_STEP_TIME, "is empty, and so is tokens_s_gpu");
    *numbers = n;
    return MOSAIC_OK;
}

/* ---- year ---- */

static size_t digits(const char *text) {
    size_t count = 0;
    while (isdigit((unsigned char)text[count]))
        count++;
    return count;
}

/* Year of the digits that begin here: 2025, or 25.04 of a container (month 01 to 12). */
static int year_at(const char *text, size_t count) {
    enum {
        CENTURY = 2000,
        YEARS = 100,
        YEAR_DIGITS = 4,
        SHORT_DIGITS = 2,
        MONTHS = 12,
        FIRST_CONTAINER = 17
    };
    const long value = strtol(text, NULL, 10);
    if (count == YEAR_DIGITS && value >= CENTURY && value < CENTURY + YEARS)
        return (int)value;
    if (count != SHORT_DIGITS || text[count] != '.' || digits(text + count + 1) != SHORT_DIGITS)
        return 0;
    const long month = strtol(text + count + 1, NULL, 10);
    return value >= FIRST_CONTAINER && month >= 1 && month <= MONTHS ? CENTURY + (int)value : 0;
}

int step_year(const char *text) {
    while (*text) {
        const size_t count = digits(text);
        if (count == 0) {
            ++text;
            continue;
        }
        const int year = year_at(text, count);
        if (year > 0)
            return year;
        text += count;
    }
    return 0;
}
