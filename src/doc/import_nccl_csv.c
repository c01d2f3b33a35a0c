// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nccl-tests as CSV (rccl-tests' output file, sheets of wrappers): columns by their names' letters,
 * so that "algbw (GB/s)", "algBw" and "out_of_place_algbw" are one.
 */
#include "doc/import_nccl.h"

#include "text/csv_read.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>

enum column { SIZE, TIME, ALGBW, BUSBW, WRONG, NAME, GPUS, NODES, IN_PLACE, COLUMN_COUNT };

static const char *const known[COLUMN_COUNT][8] = {
    [SIZE] = {"size", "sizeb", "bytes", "sizebytes"},
    [TIME] = {"time", "timeus", "ooptime", "outofplacetime", "outofplacetimeus"},
    [ALGBW] = {"algbw", "algbwgbs", "oopalgbw", "outofplacealgbw", "outofplacealgbwgbs"},
    [BUSBW] = {"busbw", "busbwgbs", "oopbusbw", "outofplacebusbw", "outofplacebusbwgbs"},
    [WRONG] = {"wrong", "nwrong", "errors", "ooperror", "outofplacewrong", "ooperrors"},
    [NAME] = {"name", "collective", "op", "operation", "test"},
    [GPUS] = {"gpus", "ranks", "nranks", "ngpus"},
    [NODES] = {"nodes", "nnodes"},
    [IN_PLACE] = {"inplace"}};

struct columns {
    bool has[COLUMN_COUNT];
    size_t at[COLUMN_COUNT];
};

static void find_columns(const struct csv_table *table, struct columns *out) {
    *out = (struct columns){.has = {false}};
    for (size_t c = 0; c < table->columns; c++) {
        char name[NCCL_NAME];
        size_t used = 0;
        for (const char *at = table->header[c].text; *at && used + 1 < sizeof name; at++)
            if (isalpha((unsigned char)*at))
                name[used++] = (char)tolower((unsigned char)*at);
        name[used] = '\0';
        for (int k = 0; k < COLUMN_COUNT; k++)
            for (size_t i = 0; i < 8 && known[k][i] && !out->has[k]; i++)
                if (strcmp(known[k][i], name) == 0) {
                    out->has[k] = true;
                    out->at[k] = c;
                }
    }
}

static const char *cell(const struct csv_table *table, const struct columns *c, size_t row,
                        enum column k) {
    return c->has[k] ? csv_table_text(table, row, c->at[k]) : "";
}

static double number(const struct csv_table *table, const struct columns *c, size_t row,
                     enum column k) {
    const char *const text = cell(table, c, row, k);
    char *end = NULL;
    const double value = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(value) ? value : (double)NAN;
}

static bool is_same_run(const struct csv_table *table, const struct columns *c, size_t a,
                        size_t b) {
    return strcmp(cell(table, c, a, NAME), cell(table, c, b, NAME)) == 0 &&
           strcmp(cell(table, c, a, GPUS), cell(table, c, b, GPUS)) == 0 &&
           strcmp(cell(table, c, a, NODES), cell(table, c, b, NODES)) == 0;
}

static void begin(struct nccl_run *run, struct import_set *set, const struct csv_table *table,
                  const struct columns *c, size_t row) {
    const double gpus = number(table, c, row, GPUS), nodes = number(table, c, row, NODES);
    nccl_run_begin(run, set, table->source, csv_table_place(table, row, 0).line);
    (void)nccl_run_name(run, cell(table, c, row, NAME));
    if (gpus >= 1) {
        run->ranks = (int)gpus;
        if (nodes >= 1 && fmod(gpus, nodes) < 0.5)
            run->host[run->hosts++].ranks = (int)(gpus / nodes);
    }
}

static enum mosaic_status take_row(struct nccl_run *run, const struct csv_table *table,
                                   const struct columns *c, size_t row) {
    const char *const place = cell(table, c, row, IN_PLACE);
    const struct nccl_row out = {.bytes = number(table, c, row, SIZE),
                                 .time_us = number(table, c, row, TIME),
                                 .algbw = number(table, c, row, ALGBW),
                                 .busbw = number(table, c, row, BUSBW),
                                 .wrong = number(table, c, row, WRONG),
                                 .in_place = strcmp(place, "1") == 0 || strcmp(place, "true") == 0,
                                 .line = csv_table_place(table, row, 0).line};
    if (!(out.bytes >= 0) || !isfinite(out.time_us)) {
        run->broken++;
        return MOSAIC_OK;
    }
    return nccl_run_row(run, &out);
}

enum mosaic_status import_nccl_csv(struct import_set *set, struct source *source) {
    struct csv_table *table = NULL;
    struct columns c;
    TRY(csv_table_parse(set->memory, source, &table, set->diags));
    struct nccl_run *const run = talloc_zero(set->memory, struct nccl_run);
    if (!run)
        return import_no_memory(set);
    find_columns(table, &c);
    for (int k = SIZE; k <= TIME; k++)
        if (!c.has[k])
            return import_refuse(set, source, 1, "no column '%s'", known[k][0]);
    for (size_t row = 0; row < table->rows; row++) {
        if (row == 0 || !is_same_run(table, &c, row - 1, row)) {
            if (row > 0)
                TRY(nccl_run_end(run));
            begin(run, set, table, &c, row);
        }
        TRY(take_row(run, table, &c, row));
    }
    return nccl_run_end(run);
}
