// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Columns carry the names of a geometry's fields, so geometry_check's messages name columns.
 */
#include "fit/run_shape.h"

#include "model/count.h"
#include "model/ladder.h"

#include <math.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

enum { NOT_A_FIELD = -1, GATED_MATRICES = 3 };

/* Whole numbers of a geometry; then two columns that are none. */
#define FIELD_LIST(X)                                                                              \
    X(LAYERS, "layers", layers)                                                                    \
    X(LADDER_Q, "ladder_q", ladder_q)                                                              \
    X(HIDDEN, "hidden", hidden)                                                                    \
    X(HEADS, "heads", heads)                                                                       \
    X(KV_HEADS, "kv_heads", kv_heads)                                                              \
    X(HEAD_DIM, "head_dim", head_dim)                                                              \
    X(EXPERTS, "n_experts", experts)                                                               \
    X(TOP_K, "top_k", top_k)                                                                       \
    X(VOCAB, "vocab", vocab)                                                                       \
    X(DENSE_FFN, "dense_ffn", dense_ffn)                                                           \
    X(EXPERT_FFN, "expert_ffn", expert_ffn)                                                        \
    X(SHARED_EXPERTS, "shared_experts", shared_experts)                                            \
    X(SHARED_FFN, "shared_ffn", shared_ffn)                                                        \
    X(FIRST_DENSE, "first_dense", first_dense)                                                     \
    X(FFN_MATRICES, "ffn_matrices", ffn_matrices)

#define COLUMN_ID(id, text, member) id,
enum { FIELD_LIST(COLUMN_ID) GRANULARITY, TIED, COLUMNS };
#undef COLUMN_ID
_Static_assert((int)COLUMNS == (int)RUN_SHAPE_COLUMNS, "columns of a shape");

#define COLUMN(id, text, member) [id] = {text, (int)offsetof(struct geometry, member)},
static const struct {
    const char *name;
    int offset;
} columns[COLUMNS] = {
    /* clang-format off */
    FIELD_LIST(COLUMN)
    [GRANULARITY] = {"granularity", NOT_A_FIELD},
    [TIED] = {"tied", NOT_A_FIELD},
    /* clang-format on */
};
#undef COLUMN

/* One row of the table. */
struct shape_row {
    const struct run_shape *shape;
    size_t row;
    enum run_count count;
    double granularity; /* 0 when not given */
    struct geometry g;
    struct diag_list *diags;
};

const char *run_shape_name(size_t column) {
    return columns[column].name;
}

void run_shape_find(const struct csv_table *csv, struct run_shape *shape) {
    shape->csv = csv;
    for (size_t k = 0; k < RUN_SHAPE_COLUMNS; k++)
        shape->has[k] = csv_table_find(csv, columns[k].name, &shape->at[k]);
}

bool run_shape_is_there(const struct run_shape *shape) {
    return shape->has[LAYERS] || shape->has[LADDER_Q];
}

static const char *text_of(const struct run_shape *shape, size_t row, size_t column) {
    return shape->has[column] ? csv_table_text(shape->csv, row, shape->at[column]) : "";
}

static bool is_given(const struct run_shape *shape, size_t row, size_t column) {
    return text_of(shape, row, column)[0] != '\0';
}

bool run_shape_is_given(const struct run_shape *shape, size_t row) {
    return is_given(shape, row, LAYERS) || is_given(shape, row, LADDER_Q);
}

static bool has(const struct shape_row *r, size_t column) {
    return is_given(r->shape, r->row, column);
}

static struct place place_of(const struct shape_row *r, size_t column) {
    const size_t at = r->shape->has[column] ? r->shape->at[column] : 0;
    return csv_table_place(r->shape->csv, r->row, at);
}

static enum mosaic_status impossible(const struct shape_row *r, const struct status_error *err) {
    size_t column = has(r, LADDER_Q) ? LADDER_Q : LAYERS;
    const char *first = NULL;
    for (size_t k = 0; k < RUN_SHAPE_COLUMNS; k++) {
        const char *const at = has(r, k) ? strstr(err->message, columns[k].name) : NULL;
        if (at && (!first || at < first)) {
            first = at;
            column = k;
        }
    }
    const struct place place = place_of(r, column);
    return diag_error(r->diags, &place, "row %zu, column '%s': impossible shape: %s", r->row + 1,
                      columns[column].name, err->message);
}

/* ---- cells ---- */

static enum mosaic_status read_field(struct shape_row *r, size_t column) {
    double value;
    TRY(csv_table_number(r->shape->csv, r->row, r->shape->at[column], &value, r->diags));
    if (!(value >= 0 && value <= GEOMETRY_MAX_VOCAB) || value - floor(value) > 0) {
        const struct place place = place_of(r, column);
        return diag_error(r->diags, &place,
                          "row %zu: %s is %g; it must be a whole number from 0 to %d", r->row + 1,
                          columns[column].name, value, (int)GEOMETRY_MAX_VOCAB);
    }
    const int whole = (int)value;
    memcpy((char *)&r->g + columns[column].offset, &whole, sizeof whole);
    return MOSAIC_OK;
}

static enum mosaic_status read_tied(struct shape_row *r) {
    static const char *const words[] = {"false", "true", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(text_of(r->shape, r->row, TIED), words[i]) == 0) {
            r->g.tied = i % 2 == 1;
            return MOSAIC_OK;
        }
    char shown[STATUS_QUOTE_MAX];
    const struct place place = place_of(r, TIED);
    return diag_error(r->diags, &place, "row %zu: tied is '%s'; it must be true or false",
                      r->row + 1,
                      status_quote(text_of(r->shape, r->row, TIED), shown, sizeof shown));
}

static enum mosaic_status read_cells(struct shape_row *r) {
    for (size_t k = 0; k < RUN_SHAPE_COLUMNS; k++)
        if (columns[k].offset != NOT_A_FIELD && has(r, k))
            TRY(read_field(r, k));
    if (has(r, TIED))
        TRY(read_tied(r));
    if (has(r, GRANULARITY))
        TRY(csv_table_number(r->shape->csv, r->row, r->shape->at[GRANULARITY], &r->granularity,
                             r->diags));
    return MOSAIC_OK;
}

static enum mosaic_status need(struct shape_row *r, const size_t *needed, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (has(r, needed[i]))
            continue;
        const struct place place = place_of(r, needed[i]);
        return diag_error(r->diags, &place, "row %zu: to count its parameters needs '%s'",
                          r->row + 1, columns[needed[i]].name);
    }
    return MOSAIC_OK;
}

/* ---- shapes ---- */

static enum mosaic_status from_matrices(struct shape_row *r) {
    static const size_t needed[] = {LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM};
    struct geometry *g = &r->g;
    struct status_error err;
    TRY(need(r, needed, sizeof needed / sizeof *needed));
    g->v_head_dim = g->head_dim;
    if (!has(r, FIRST_DENSE))
        g->first_dense = g->experts > 0 ? 0 : g->layers;
    if (!has(r, SHARED_FFN) && g->shared_experts > 0)
        g->shared_ffn = g->expert_ffn;
    if (!has(r, FFN_MATRICES))
        g->ffn_matrices = GATED_MATRICES;
    g->granularity = has(r, GRANULARITY) ? r->granularity : geometry_reference_granularity(g);
    return geometry_check(g, &err) == MOSAIC_OK ? MOSAIC_OK : impossible(r, &err);
}

static enum mosaic_status from_ladder(struct shape_row *r) {
    static const size_t needed[] = {EXPERTS, TOP_K, GRANULARITY};
    const struct geometry g = r->g;
    struct status_error err;
    for (size_t k = 0; k < RUN_SHAPE_COLUMNS; k++) {
        const bool goes_with =
            k == LADDER_Q || k == EXPERTS || k == TOP_K || k == VOCAB || k == GRANULARITY;
        if (goes_with || !has(r, k))
            continue;
        const struct place place = place_of(r, k);
        return diag_error(r->diags, &place,
                          "row %zu: %s beside ladder_q: the ladder gives the whole shape",
                          r->row + 1, columns[k].name);
    }
    TRY(need(r, needed, sizeof needed / sizeof *needed));
    if (!(r->granularity >= 1 && r->granularity <= GEOMETRY_MAX_FFN) ||
        r->granularity - floor(r->granularity) > 0) {
        const struct place place = place_of(r, GRANULARITY);
        return diag_error(r->diags, &place,
                          "row %zu: granularity is %g; the ladder takes a whole number from 1",
                          r->row + 1, r->granularity);
    }
    return ladder_geometry(g.ladder_q, g.experts, g.top_k, (int)r->granularity, g.vocab, &r->g,
                           &err) == MOSAIC_OK
               ? MOSAIC_OK
               : impossible(r, &err);
}

static void measure(const struct shape_row *r, struct run_size *size) {
    struct param_counts n;
    const bool is_dense = r->g.experts == 0;
    count_params(&r->g, &n);
    *size = (struct run_size){
        .n_total = r->count == RUN_COUNT_ALL ? n.n_total : n.n_total_law,
        .n_active = r->count == RUN_COUNT_ALL ? n.n_active : n.n_active_law,
        .n_embedding = has(r, VOCAB) ? n.embedding + n.head : -1,
        .granularity = r->g.granularity,
        .experts = is_dense ? 1 : r->g.experts,
        .top_k = is_dense ? 1 : r->g.top_k,
    };
}

enum mosaic_status run_shape_count(const struct run_shape *shape, size_t row, enum run_count count,
                                   struct run_size *size, struct diag_list *diags) {
    static const size_t vocab = VOCAB;
    /* Without embeddings any vocabulary will do. */
    struct shape_row r = {
        .shape = shape, .row = row, .count = count, .g = {.vocab = 1}, .diags = diags};
    if (count == RUN_COUNT_UNSTATED) {
        const struct place place = place_of(&r, has(&r, LADDER_Q) ? LADDER_Q : LAYERS);
        (void)diag_error(diags, &place,
                         "row %zu: which parameters of its shape to count is not stated", row + 1);
        diag_hint(diags, "add a column 'count' with all or no_embedding");
        return MOSAIC_BAD_INPUT;
    }
    TRY(read_cells(&r));
    if (count == RUN_COUNT_ALL)
        TRY(need(&r, &vocab, 1));
    TRY(has(&r, LADDER_Q) ? from_ladder(&r) : from_matrices(&r));
    measure(&r, size);
    return MOSAIC_OK;
}
