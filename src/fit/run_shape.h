// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The size of a run whose row gives the model's shape instead of its parameters, counted as
 * model/count.h does:
 *   layers, hidden, heads, kv_heads, head_dim   grouped-query attention; all needed
 *   dense_ffn, expert_ffn, n_experts, top_k     as far as layers have them; dense without n_experts
 *   shared_experts, shared_ffn                  0; expert_ffn
 *   first_dense, ffn_matrices                   0, or all layers without experts; 3
 *   vocab, tied                                 vocab needed for the count `all`; tied is false
 *   granularity                                 dense_ffn, or 2.5 hidden, over expert_ffn
 * or a place on the paper's ladder: ladder_q with n_experts, top_k, granularity (and vocab).
 * The count `all` takes every matrix, `no_embedding` the law's own: no embedding, head or router.
 */
#ifndef MOSAIC_FIT_RUN_SHAPE_H
#define MOSAIC_FIT_RUN_SHAPE_H

#include "fit/run_table.h"

enum { RUN_SHAPE_COLUMNS = 17 };

struct run_shape {
    const struct csv_table *csv;
    size_t at[RUN_SHAPE_COLUMNS];
    bool has[RUN_SHAPE_COLUMNS];
};

struct run_size {
    double n_total, n_active;
    double n_embedding; /* with the head; -1 without a vocabulary */
    double granularity;
    double experts, top_k; /* 1 of 1 for a dense model */
};

void run_shape_find(const struct csv_table *csv, struct run_shape *shape);
const char *run_shape_name(size_t column);
/* The table has shapes; this row has one. */
bool run_shape_is_there(const struct run_shape *shape);
bool run_shape_is_given(const struct run_shape *shape, size_t row);
MOSAIC_MUST_USE enum mosaic_status run_shape_count(const struct run_shape *shape, size_t row,
                                                   enum run_count count, struct run_size *size,
                                                   struct diag_list *diags);

#endif
