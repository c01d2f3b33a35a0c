// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A table of training runs: CSV with a header, columns in any order.
 *   tokens, loss            needed
 *   n_total, n_active       one of them at least; sparsity = 1 - n_active / n_total links them
 *   layers, ladder_q, ...   shapes whose parameters are counted, for a row that gives none; the
 *                           count must then be stated (fit/run_shape.h)
 *   n_experts, top_k        for the forms that count sparsity by experts
 *   granularity             1 when absent
 *   name, group             texts
 *   status                  done (finished, ok), running (unfinished, pending), diverged (failed),
 *                           excluded; only done rows are used
 *   weight, flops           optional numbers
 *   unit                    nats, bits (both per token) or bpb; bytes_per_token goes with bpb
 *   tokenizer, count        one for the whole table; count is all or no_embedding
 *   n_embedding             to judge how far a count without embeddings is off
 * Every row keeps its fate, and each that is not used is named in a diagnostic; a number that
 * cannot be right is an error that names row and column.
 */
#ifndef MOSAIC_FIT_RUN_TABLE_H
#define MOSAIC_FIT_RUN_TABLE_H

#include "law/form.h"
#include "text/csv_read.h"

enum run_fate {
    RUN_USED,
    RUN_UNFINISHED,
    RUN_DIVERGED,
    RUN_DUPLICATE, /* name, point and loss all equal to those of an earlier row */
    RUN_EXCLUDED,  /* by its status */
    RUN_FILTERED   /* by the caller's filter */
};
enum { RUN_FATES = RUN_FILTERED + 1 };

enum run_count { RUN_COUNT_UNSTATED, RUN_COUNT_ALL, RUN_COUNT_NO_EMBEDDING };
enum run_unit { RUN_NATS, RUN_BITS, RUN_BITS_PER_BYTE };

struct run {
    size_t row;       /* from 1, as diagnostics count */
    const char *name; /* "" when the table has none */
    const char *group;
    struct form_point point;
    double loss; /* nats per token */
    double weight;
    double flops; /* 0 when not given */
    enum run_fate fate;
};

struct run_table {
    const char *file;
    struct run *runs; /* every row of the file */
    size_t rows;
    size_t of_fate[RUN_FATES];
    enum run_count count;
    enum run_unit unit;
    const char *tokenizer; /* "" when not stated */
    bool has_sparsity;     /* by a column, both counts or shapes; else S is 0 */
    bool has_experts;
};

struct run_filter {
    const char *column, *value; /* the cell must hold one of the |-separated texts */
};

struct run_options {
    enum run_count count; /* what the caller says that N counts */
    double start_loss;    /* nats; a higher one is a diverged run; 0 when unknown */
    const struct run_filter *filters;
    size_t filter_count;
};

/* options may be NULL. */
MOSAIC_MUST_USE enum mosaic_status run_table_load(void *memory, const char *path,
                                                  const struct place *from,
                                                  const struct run_options *options,
                                                  struct run_table **table,
                                                  struct diag_list *diags);
MOSAIC_MUST_USE enum mosaic_status run_table_read(void *memory, const struct csv_table *csv,
                                                  const struct run_options *options,
                                                  struct run_table **table,
                                                  struct diag_list *diags);
void run_table_free(struct run_table *table);

const char *run_fate_text(enum run_fate fate);
/* Bits per byte of a loss in nats per token, and back. */
double run_bits_per_byte(double nats_per_token, double bytes_per_token);
double run_nats_per_token(double bits_per_byte, double bytes_per_token);

#endif
