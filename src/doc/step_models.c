// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Rows of shapes as geometries.  Widths are those of public configurations: head_dim is the whole
 * query/key head, so that of latent attention is split into head_dim - qk_rope_dim and the RoPE
 * part; shared_ffn_total is all shared experts' width together, taken as one shared expert.
 */
#include "doc/step_models.h"

#include "base/suggest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <talloc.h>

/* X(identifier, column, required) */
#define COLUMN_LIST(X)                                                                             \
    X(MODEL, "model", 1)                                                                           \
    X(LAYERS, "layers", 1)                                                                         \
    X(HIDDEN, "hidden", 1)                                                                         \
    X(HEADS, "heads", 1)                                                                           \
    X(KV_HEADS, "kv_heads", 1)                                                                     \
    X(HEAD_DIM, "head_dim", 1)                                                                     \
    X(V_HEAD_DIM, "v_head_dim", 1)                                                                 \
    X(ATTENTION, "attention_kind", 1)                                                              \
    X(Q_RANK, "q_lora_rank", 0)                                                                    \
    X(KV_RANK, "kv_lora_rank", 0)                                                                  \
    X(ROPE, "qk_rope_dim", 0)                                                                      \
    X(DENSE_FFN, "ffn_dense", 1)                                                                   \
    X(MATRICES, "ffn_matrices", 1)                                                                 \
    X(EXPERTS, "n_experts", 0)                                                                     \
    X(TOP_K, "top_k", 0)                                                                           \
    X(EXPERT_FFN, "expert_ffn", 0)                                                                 \
    X(SHARED, "shared_ffn_total", 0)                                                               \
    X(LIMIT, "group_limit", 0)                                                                     \
    X(FIRST_DENSE, "first_dense_layers", 0)                                                        \
    X(MOE_STEP, "moe_layer_step", 0)                                                               \
    X(MTP, "mtp_layers", 0)                                                                        \
    X(VOCAB, "vocab", 1)                                                                           \
    X(TIED, "tied_embeddings", 0)                                                                  \
    X(WINDOW, "window", 0)                                                                         \
    X(WINDOW_FRACTION, "window_frac", 0)

#define COLUMN_ENUM(id, name, required) COLUMN_##id,
enum column { COLUMN_LIST(COLUMN_ENUM) COLUMNS };
#undef COLUMN_ENUM
static const struct {
    const char *name;
    bool required;
} columns[COLUMNS] = {
#define COLUMN_ROW(id, name, required) {name, (required) != 0},
    COLUMN_LIST(COLUMN_ROW)
#undef COLUMN_ROW
};

/* One row on its way in. */
struct reader {
    void *memory;
    const struct csv_table *csv;
    struct diag_list *diags;
    size_t at[COLUMNS];
    bool has[COLUMNS];
    size_t row;
};

static enum mosaic_status find_columns(struct reader *r) {
    const char *missing[COLUMNS];
    size_t count = 0, unused[COLUMNS];
    for (size_t i = 0; i < COLUMNS; ++i) {
        r->has[i] = csv_table_find(r->csv, columns[i].name, &r->at[i]);
        if (!r->has[i] && columns[i].required)
            missing[count++] = columns[i].name;
    }
    return csv_table_columns(r->csv, missing, count, unused, r->diags);
}

static const char *text_of(const struct reader *r, enum column c) {
    return r->has[c] ? csv_table_text(r->csv, r->row, r->at[c]) : "";
}

static struct place place_of(const struct reader *r, enum column c) {
    return csv_table_place(r->csv, r->row, r->at[r->has[c] ? c : COLUMN_MODEL]);
}

/* A number from 0 to most; an empty optional cell is 0. */
static enum mosaic_status read_number(struct reader *r, enum column c, double most, double *value) {
    *value = 0.0;
    if (!columns[c].required && text_of(r, c)[0] == '\0')
        return MOSAIC_OK;
    TRY(csv_table_number(r->csv, r->row, r->at[c], value, r->diags));
    if (*value >= 0.0 && *value <= most)
        return MOSAIC_OK;
    const struct place place = place_of(r, c);
    return diag_error(r->diags, &place, "row %zu: %s is %g; it must be 0 to %g", r->row + 1,
                      columns[c].name, *value, most);
}

static enum mosaic_status read_int(struct reader *r, enum column c, int *value) {
    double number = 0.0;
    TRY(read_number(r, c, GEOMETRY_MAX_VOCAB, &number));
    if (number != floor(number)) {
        const struct place place = place_of(r, c);
        return diag_error(r->diags, &place, "row %zu: %s is %g, not a whole number", r->row + 1,
                          columns[c].name, number);
    }
    *value = (int)number;
    return MOSAIC_OK;
}

static enum mosaic_status read_ints(struct reader *r, struct geometry *g, int *step, int *tied) {
    const struct {
        enum column column;
        int *value;
    } all[] = {
        {COLUMN_LAYERS, &g->layers},
        {COLUMN_HIDDEN, &g->hidden},
        {COLUMN_HEADS, &g->heads},
        {COLUMN_KV_HEADS, &g->kv_heads},
        {COLUMN_HEAD_DIM, &g->head_dim},
        {COLUMN_V_HEAD_DIM, &g->v_head_dim},
        {COLUMN_Q_RANK, &g->q_rank},
        {COLUMN_KV_RANK, &g->kv_rank},
        {COLUMN_ROPE, &g->rope_dim},
        {COLUMN_DENSE_FFN, &g->dense_ffn},
        {COLUMN_MATRICES, &g->ffn_matrices},
        {COLUMN_EXPERTS, &g->experts},
        {COLUMN_TOP_K, &g->top_k},
        {COLUMN_EXPERT_FFN, &g->expert_ffn},
        {COLUMN_SHARED, &g->shared_ffn},
        {COLUMN_LIMIT, &g->node_limit},
        {COLUMN_FIRST_DENSE, &g->first_dense},
        {COLUMN_MOE_STEP, step},
        {COLUMN_MTP, &g->mtp_layers},
        {COLUMN_VOCAB, &g->vocab},
        {COLUMN_TIED, tied},
        {COLUMN_WINDOW, &g->window},
    };
    enum mosaic_status status = MOSAIC_OK;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i)
        if (read_int(r, all[i].column, all[i].value) != MOSAIC_OK)
            status = MOSAIC_BAD_INPUT;
    return status;
}

/* Sets what a geometry states otherwise than the table does. */
static void derive(struct geometry *g, double window_fraction) {
    if (g->attention == ATTENTION_MLA) {
        g->kv_heads = 0;
        g->head_dim -= g->rope_dim;
    } else {
        g->rope_dim = 0; /* it rotates a part of the head and adds no width */
    }
    if (g->experts == 0)
        g->first_dense = g->layers;
    g->shared_experts = g->shared_ffn > 0 ? 1 : 0;
    g->window_layers = g->window > 0 ? (int)lround(window_fraction * (double)g->layers) : 0;
    if (g->window_layers == 0)
        g->window = 0;
    g->granularity = geometry_reference_granularity(g);
}

static bool read_attention(const char *word, enum attention_kind *kind) {
    static const char *const grouped[] = {"MHA", "GQA", "MQA"};
    for (size_t i = 0; i < sizeof grouped / sizeof grouped[0]; ++i)
        if (strcasecmp(word, grouped[i]) == 0) {
            *kind = ATTENTION_GQA;
            return true;
        }
    *kind = ATTENTION_MLA;
    return strcasecmp(word, "MLA") == 0;
}

/* What of a row no geometry can say, or NULL. */
static char *unknown_part(const struct reader *r, bool knows_attention, int experts, int moe_step) {
    char shown[STATUS_QUOTE_MAX];
    if (!knows_attention)
        return talloc_asprintf(r->memory, "attention_kind '%s'",
                               status_quote(text_of(r, COLUMN_ATTENTION), shown, sizeof shown));
    if (experts > 0 && moe_step > 1)
        return talloc_asprintf(r->memory, "moe_layer_step '%d'", moe_step);
    return NULL;
}

static enum mosaic_status read_model(struct reader *r, struct step_model *out) {
    struct geometry g = {0};
    int moe_step = 0, tied = 0;
    double window_fraction = 0.0;
    out->name = talloc_strdup(r->memory, text_of(r, COLUMN_MODEL));
    if (!out->name)
        return diag_status(r->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    const enum mosaic_status read = read_ints(r, &g, &moe_step, &tied);
    TRY(read_number(r, COLUMN_WINDOW_FRACTION, 1.0, &window_fraction));
    TRY(read);
    g.tied = tied != 0;
    const bool knows_attention = read_attention(text_of(r, COLUMN_ATTENTION), &g.attention);
    out->unknown = unknown_part(r, knows_attention, g.experts, moe_step);
    derive(&g, window_fraction);
    struct status_error err;
    if (!out->unknown && geometry_check(&g, &err) != MOSAIC_OK) {
        const struct place place = place_of(r, COLUMN_MODEL);
        char shown[STATUS_QUOTE_MAX];
        status_wrap(&err, "model '%s'", status_quote(out->name, shown, sizeof shown));
        return diag_from_error(r->diags, &place, &err);
    }
    out->geometry = g;
    return MOSAIC_OK;
}

/* ---- names ---- */

static int compare_models(const void *a, const void *b) {
    const struct step_model *const *const x = a, *const *const y = b;
    const int order = strcmp((*x)->name, (*y)->name);
    return order != 0 ? order : (*x > *y) - (*x < *y); /* in the order of the rows */
}

static enum mosaic_status check_name(struct reader *r) {
    if (text_of(r, COLUMN_MODEL)[0] != '\0')
        return MOSAIC_OK;
    const struct place place = place_of(r, COLUMN_MODEL);
    return diag_error(r->diags, &place, "row %zu: the model has no name", r->row + 1);
}

/* Sorts all of them by name; items are the rows, one by one. */
static enum mosaic_status check_names(struct reader *r, struct step_models *models) {
    enum mosaic_status status = MOSAIC_OK;
    for (size_t i = 0; i < models->count; ++i)
        models->by_name[i] = &models->items[i];
    qsort(models->by_name, models->count, sizeof *models->by_name, compare_models);
    for (size_t i = 1; i < models->count; ++i) {
        const struct step_model *const one = models->by_name[i];
        if (one->name[0] == '\0' || strcmp(one->name, models->by_name[i - 1]->name) != 0)
            continue;
        r->row = (size_t)(one - models->items);
        const struct place place = place_of(r, COLUMN_MODEL);
        char shown[STATUS_QUOTE_MAX];
        status = diag_error(r->diags, &place, "row %zu: model '%s' is given twice", r->row + 1,
                            status_quote(one->name, shown, sizeof shown));
    }
    return status;
}

enum mosaic_status step_models_read(void *memory, const struct csv_table *csv,
                                    struct diag_list *diags, struct step_models *out) {
    struct reader r = {.memory = memory, .csv = csv, .diags = diags};
    TRY(find_columns(&r));
    struct step_models models = {
        .count = csv->rows,
        .items = talloc_zero_array(memory, struct step_model, (unsigned)csv->rows + 1),
        .by_name = talloc_zero_array(memory, const struct step_model *, (unsigned)csv->rows + 1)};
    if (!models.items || !models.by_name)
        return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
    enum mosaic_status status = MOSAIC_OK;
    for (r.row = 0; r.row < csv->rows; ++r.row) {
        models.items[r.row].name = text_of(&r, COLUMN_MODEL);
        enum mosaic_status one = check_name(&r);
        if (one == MOSAIC_OK)
            one = read_model(&r, &models.items[r.row]);
        if (one != MOSAIC_OK)
            status = one;
    }
    const enum mosaic_status names = check_names(&r, &models);
    TRY(status);
    TRY(names);
    *out = models;
    return MOSAIC_OK;
}

const struct step_model *step_models_find(const struct step_models *models, const char *name) {
    size_t low = 0, high = models->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(name, models->by_name[middle]->name);
        if (order == 0)
            return models->by_name[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static const char *name_at(const void *context, size_t index) {
    const struct step_models *const models = context;
    return models->items[index].name;
}

const char *step_models_near(const struct step_models *models, const char *name) {
    return suggest_from(name, name_at, models, models->count);
}
