// SPDX-License-Identifier: GPL-3.0-or-later
/* One row of a table of measured steps: its cells by name, its numbers, why it is left out. */
#ifndef MOSAIC_DOC_STEP_ROW_H
#define MOSAIC_DOC_STEP_ROW_H

#include "text/csv_read.h"

/* X(identifier, column, required) */
#define STEP_COLUMNS(X)                                                                            \
    X(ID, "id", 1)                                                                                 \
    X(MODEL, "model", 1)                                                                           \
    X(GPU, "gpu", 1)                                                                               \
    X(N_GPUS, "n_gpus", 1)                                                                         \
    X(GPUS_PER_NODE, "gpus_per_node", 0)                                                           \
    X(DOMAIN, "nvlink_domain", 0)                                                                  \
    X(FABRIC, "fabric", 1)                                                                         \
    X(PRECISION, "precision", 1)                                                                   \
    X(SEQUENCE, "seq_len", 1)                                                                      \
    X(MICRO_BATCH, "mbs", 1)                                                                       \
    X(GLOBAL_BATCH, "gbs", 1)                                                                      \
    X(TP, "tp", 1)                                                                                 \
    X(PP, "pp", 1)                                                                                 \
    X(VPP, "vpp", 0)                                                                               \
    X(CP, "cp", 0)                                                                                 \
    X(EP, "ep", 0)                                                                                 \
    X(ETP, "etp", 0)                                                                               \
    X(DP, "dp", 0)                                                                                 \
    X(SHARD, "shard", 1)                                                                           \
    X(RECOMPUTE, "recompute", 1)                                                                   \
    X(OFFLOAD, "offload", 0)                                                                       \
    X(MOMENTS, "moment_dtype", 0)                                                                  \
    X(GRADIENTS, "grad_dtype", 0)                                                                  \
    X(OPTIMIZER, "optimizer", 1)                                                                   \
    X(DISPATCHER, "dispatcher", 1)                                                                 \
    X(OVERLAP, "overlap", 1)                                                                       \
    X(GRAPHS, "cuda_graph", 1)                                                                     \
    X(ROUTING, "routing", 1)                                                                       \
    X(IMBALANCE, "imbalance", 0)                                                                   \
    X(SOFTWARE, "software", 1)                                                                     \
    X(STEP_TIME, "step_time_s", 1)                                                                 \
    X(TOKENS, "tokens_s_gpu", 0)                                                                   \
    X(ALLOCATED, "peak_alloc_gib", 0)                                                              \
    X(RESERVED, "peak_reserved_gib", 0)                                                            \
    X(SOURCE, "source", 0)                                                                         \
    X(LICENCE, "licence", 0)

#define STEP_COLUMN_ENUM(id, name, required) STEP_##id,
enum step_column { STEP_COLUMNS(STEP_COLUMN_ENUM) STEP_COLUMN_COUNT };
#undef STEP_COLUMN_ENUM

struct step_sheet {
    const struct csv_table *csv;
    size_t at[STEP_COLUMN_COUNT];
    bool has[STEP_COLUMN_COUNT];
};

/* Finds the columns; the required ones that are missing are reported. */
MOSAIC_MUST_USE enum mosaic_status
step_sheet_open(const struct csv_table *csv, struct diag_list *diags, struct step_sheet *sheet);

struct step_row {
    const struct step_sheet *sheet;
    size_t row; /* from 0 */
    struct diag_list *diags;
    char reason[STATUS_TEXT_MAX]; /* why it is left out, "" while it is not */
};

/* "" where the table lacks the column. */
const char *step_row_text(const struct step_row *row, enum step_column column);
struct place step_row_place(const struct step_row *row, enum step_column column);
/* Leave the row out: "COLUMN 'TOKEN' message", control bytes shown as '?'.  Returns false. */
bool step_row_exclude(struct step_row *row, enum step_column column, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same where no single cell is to blame. */
bool step_row_refuse(struct step_row *row, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* 0 for a column that the table lacks, and for a measurement that was not made. */
struct step_numbers {
    int gpus, gpus_per_node, domain;
    int sequence, micro_batch, global_batch;
    int tp, pp, vpp, cp, ep, etp; /* 1 for a column that the table lacks */
    int dp;
    double imbalance;
    double step_time_s, allocated_bytes, reserved_bytes;
};

/* All numbers; what is none is reported at its cell, an empty cell leaves the row out. */
MOSAIC_MUST_USE enum mosaic_status step_row_numbers(struct step_row *row,
                                                    struct step_numbers *numbers);

/* Year in a text: four digits, or a container's release such as 25.04; 0 for none. */
int step_year(const char *text);

#endif
