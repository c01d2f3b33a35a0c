// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Columns are found by name once; then each row is judged by its status before its numbers are
 * read, so a diverged run may hold any text where its loss would be.
 */
#include "fit/run_table.h"

#include "base/suggest.h"
#include "base/units.h"
#include "fit/run_rows.h"
#include "fit/run_shape.h"

#include <math.h>
#include <string.h>
#include <strings.h>
#include <talloc.h>

#define COLUMN_LIST(X)                                                                             \
    X(NAME, "name")                                                                                \
    X(GROUP, "group")                                                                              \
    X(N_TOTAL, "n_total")                                                                          \
    X(N_ACTIVE, "n_active")                                                                        \
    X(N_EMBEDDING, "n_embedding")                                                                  \
    X(TOKENS, "tokens")                                                                            \
    X(LOSS, "loss")                                                                                \
    X(SPARSITY, "sparsity")                                                                        \
    X(EXPERTS, "n_experts")                                                                        \
    X(TOP_K, "top_k")                                                                              \
    X(GRANULARITY, "granularity")                                                                  \
    X(FLOPS, "flops")                                                                              \
    X(STATUS, "status")                                                                            \
    X(WEIGHT, "weight")                                                                            \
    X(UNIT, "unit")                                                                                \
    X(BYTES_PER_TOKEN, "bytes_per_token")                                                          \
    X(TOKENIZER, "tokenizer")                                                                      \
    X(COUNT, "count")

#define COLUMN_ENUM(id, text) COLUMN_##id,
enum column { COLUMN_LIST(COLUMN_ENUM) COLUMNS };
#undef COLUMN_ENUM
#define COLUMN_NAME(id, text) text,
static const char *const column_names[COLUMNS] = {COLUMN_LIST(COLUMN_NAME)};
#undef COLUMN_NAME

static const double ln2 = 0.693147180559945309;
static const double loss_max = 13.8;        /* nats: a uniform guess over a million tokens */
static const double sparsity_slack = 0.005; /* between a printed sparsity and the two counts */
static const double embedding_share = 0.2;  /* U69: beyond this an exponent of N is off */
/* Parameters without embeddings below which these exceed a fifth of them, by
 * N_total = N + 47491 N^(1/3) (arXiv 2406.12907). */
static const double small_without_embedding = 1.16e8;

struct word {
    const char *text;
    int value;
};
static const struct word statuses[] = {
    {"done", RUN_USED},          {"finished", RUN_USED},        {"ok", RUN_USED},
    {"completed", RUN_USED},     {"running", RUN_UNFINISHED},   {"unfinished", RUN_UNFINISHED},
    {"pending", RUN_UNFINISHED}, {"preempted", RUN_UNFINISHED}, {"diverged", RUN_DIVERGED},
    {"failed", RUN_DIVERGED},    {"excluded", RUN_EXCLUDED},    {NULL, 0},
};
static const struct word units[] = {
    {"nats", RUN_NATS}, {"bits", RUN_BITS}, {"bpb", RUN_BITS_PER_BYTE}, {NULL, 0}};
static const struct word counts[] = {
    {"all", RUN_COUNT_ALL}, {"no_embedding", RUN_COUNT_NO_EMBEDDING}, {NULL, 0}};

/* What one row at a time is read with. */
struct reader {
    const struct csv_table *csv;
    const struct run_options *options;
    struct run_table *table;
    struct diag_list *diags;
    size_t at[COLUMNS];
    bool has[COLUMNS];
    struct run_shape shape;
    bool counts_shapes;        /* some row's parameters come from its shape */
    size_t first_row[COLUMNS]; /* used row that set the table's unit, tokenizer, count; from 1 */
    bool embeds_much;          /* a row whose embeddings are a large share of N */
};

double run_bits_per_byte(double nats_per_token, double bytes_per_token) {
    return nats_per_token / (ln2 * bytes_per_token);
}

double run_nats_per_token(double bits_per_byte, double bytes_per_token) {
    return bits_per_byte * ln2 * bytes_per_token;
}

/* ---- cells ---- */

static const char *text_of(const struct reader *r, size_t row, enum column column) {
    return r->has[column] ? csv_table_text(r->csv, row, r->at[column]) : "";
}

static struct place place_of(const struct reader *r, size_t row, enum column column) {
    return csv_table_place(r->csv, row, r->has[column] ? r->at[column] : 0);
}

/* A number in (low, high]; an absent or, when optional, empty cell leaves the default. */
struct bound {
    double low, high;
    bool low_counts; /* low itself is allowed */
    bool is_optional;
};
static const struct bound count_bound = {1, 1e30, true, false};

static enum mosaic_status read_number(struct reader *r, size_t row, enum column column,
                                      const struct bound *bound, double *value) {
    double read;
    if (!r->has[column] || (bound->is_optional && text_of(r, row, column)[0] == '\0'))
        return MOSAIC_OK;
    TRY(csv_table_number(r->csv, row, r->at[column], &read, r->diags));
    if ((bound->low_counts ? read >= bound->low : read > bound->low) && read <= bound->high) {
        *value = read;
        return MOSAIC_OK;
    }
    const struct place place = place_of(r, row, column);
    return diag_error(r->diags, &place, "row %zu: %s is %g; it must be %s %g and at most %g",
                      row + 1, column_names[column], read, bound->low_counts ? "at least" : "above",
                      bound->low, bound->high);
}

static const struct word *find_word(const struct word *words, const char *text) {
    for (; words->text; words++)
        if (strcasecmp(words->text, text) == 0)
            return words;
    return NULL;
}

static const char *word_at(const void *context, size_t index) {
    const struct word *words = context;
    return words[index].text;
}

static enum mosaic_status unknown_word(struct reader *r, size_t row, enum column column,
                                       const struct word *words) {
    const struct place place = place_of(r, row, column);
    char shown[STATUS_QUOTE_MAX], list[STATUS_TEXT_MAX] = "";
    size_t count = 0, used = 0;
    for (; words[count].text && used < sizeof list; count++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", count ? ", " : "",
                                 words[count].text);
    (void)diag_error(r->diags, &place, "row %zu: unknown %s '%s'", row + 1, column_names[column],
                     status_quote(text_of(r, row, column), shown, sizeof shown));
    const char *near = suggest_from(text_of(r, row, column), word_at, words, count);
    if (near)
        diag_hint(r->diags, "is it '%s'?", near);
    else
        diag_hint(r->diags, "known are: %s", list);
    return MOSAIC_BAD_INPUT;
}

/* A word that all used rows must share. */
static enum mosaic_status shared_word(struct reader *r, size_t row, enum column column,
                                      bool is_same) {
    if (r->first_row[column] == 0) {
        r->first_row[column] = row + 1;
        return MOSAIC_OK;
    }
    if (is_same)
        return MOSAIC_OK;
    const struct place place = place_of(r, row, column);
    char mine[STATUS_QUOTE_MAX], other[STATUS_QUOTE_MAX];
    (void)diag_error(
        r->diags, &place, "row %zu: %s '%s', but row %zu has '%s'; losses of both cannot be mixed",
        row + 1, column_names[column], status_quote(text_of(r, row, column), mine, sizeof mine),
        r->first_row[column],
        status_quote(text_of(r, r->first_row[column] - 1, column), other, sizeof other));
    return MOSAIC_BAD_INPUT;
}

static enum mosaic_status read_shared(struct reader *r, size_t row) {
    if (r->has[COLUMN_UNIT]) {
        const struct word *word = find_word(units, text_of(r, row, COLUMN_UNIT));
        if (!word)
            return unknown_word(r, row, COLUMN_UNIT, units);
        TRY(shared_word(r, row, COLUMN_UNIT, (int)r->table->unit == word->value));
        r->table->unit = (enum run_unit)word->value;
    }
    if (r->has[COLUMN_TOKENIZER]) {
        const char *text = text_of(r, row, COLUMN_TOKENIZER);
        TRY(shared_word(r, row, COLUMN_TOKENIZER, strcmp(r->table->tokenizer, text) == 0));
        r->table->tokenizer = talloc_strdup(r->table, text);
        if (!r->table->tokenizer)
            return diag_status(r->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    }
    if (r->has[COLUMN_COUNT]) {
        const struct word *word = find_word(counts, text_of(r, row, COLUMN_COUNT));
        if (!word)
            return unknown_word(r, row, COLUMN_COUNT, counts);
        if (r->options->count != RUN_COUNT_UNSTATED && (int)r->options->count != word->value) {
            const struct place place = place_of(r, row, COLUMN_COUNT);
            return diag_error(r->diags, &place, "row %zu: count '%s' is not the one asked for",
                              row + 1, word->text);
        }
        TRY(shared_word(r, row, COLUMN_COUNT, (int)r->table->count == word->value));
        r->table->count = (enum run_count)word->value;
    }
    return MOSAIC_OK;
}

/* ---- loss ---- */

static bool is_not_finite(const char *text) {
    if (*text == '-' || *text == '+')
        text++;
    return strcasecmp(text, "nan") == 0 || strcasecmp(text, "inf") == 0 ||
           strcasecmp(text, "infinity") == 0;
}

static enum mosaic_status read_loss(struct reader *r, size_t row, struct run *run) {
    static const struct bound any = {0, 1e300, false, false};
    static const struct bound bytes = {0, 1e3, false, false};
    const struct place place = place_of(r, row, COLUMN_LOSS);
    if (is_not_finite(text_of(r, row, COLUMN_LOSS))) {
        run->fate = RUN_DIVERGED;
        return MOSAIC_OK;
    }
    double loss = 0, bytes_per_token = 0;
    TRY(read_number(r, row, COLUMN_LOSS, &any, &loss));
    if (r->table->unit == RUN_BITS)
        loss *= ln2;
    if (r->table->unit == RUN_BITS_PER_BYTE) {
        if (!r->has[COLUMN_BYTES_PER_TOKEN])
            return diag_error(r->diags, &place,
                              "row %zu: bits per byte need a column 'bytes_per_token'", row + 1);
        TRY(read_number(r, row, COLUMN_BYTES_PER_TOKEN, &bytes, &bytes_per_token));
        loss = run_nats_per_token(loss, bytes_per_token);
    }
    run->loss = loss;
    if (r->options->start_loss > 0 && loss > r->options->start_loss) {
        run->fate = RUN_DIVERGED;
        return MOSAIC_OK;
    }
    if (loss > loss_max) {
        (void)diag_error(r->diags, &place,
                         "row %zu: loss %g nats per token is worse than a uniform guess over a "
                         "million tokens",
                         row + 1, loss);
        diag_hint(r->diags, "a perplexity, or a diverged run? mark it with status 'diverged'");
        return MOSAIC_BAD_INPUT;
    }
    return MOSAIC_OK;
}

/* ---- counts ---- */

static enum mosaic_status link_counts(struct reader *r, size_t row, struct form_point *p,
                                      double sparsity) {
    const bool has_both = p->n_total > 0 && p->n_active > 0;
    if (!has_both) {
        p->sparsity = sparsity >= 0 ? sparsity : 0;
        if (p->n_total > 0)
            p->n_active = p->n_total * (1 - p->sparsity);
        else
            p->n_total = p->n_active / (1 - p->sparsity);
        return MOSAIC_OK;
    }
    if (p->n_active > p->n_total) {
        const struct place place = place_of(r, row, COLUMN_N_ACTIVE);
        return diag_error(r->diags, &place, "row %zu: n_active %g exceeds n_total %g", row + 1,
                          p->n_active, p->n_total);
    }
    p->sparsity = 1 - p->n_active / p->n_total;
    if (sparsity >= 0 && fabs(sparsity - p->sparsity) > sparsity_slack) {
        const struct place place = place_of(r, row, COLUMN_SPARSITY);
        (void)diag_error(r->diags, &place,
                         "row %zu: sparsity %g, but 1 - n_active / n_total is %.4g", row + 1,
                         sparsity, p->sparsity);
        diag_hint(r->diags,
                  "sparsity counts parameters; by experts it comes from n_experts, top_k");
        return MOSAIC_BAD_INPUT;
    }
    return MOSAIC_OK;
}

/* Dense or not must not be guessed from an expert count alone. */
static enum mosaic_status check_experts(struct reader *r, size_t row, const struct form_point *p) {
    const struct place place = place_of(r, row, COLUMN_EXPERTS);
    if (p->experts > 0 && p->top_k > p->experts)
        return diag_error(r->diags, &place, "row %zu: top_k %g exceeds n_experts %g", row + 1,
                          p->top_k, p->experts);
    if (!r->table->has_sparsity && p->experts > p->top_k && p->top_k > 0) {
        (void)diag_error(r->diags, &place,
                         "row %zu: %g of %g experts, but the table gives only one count of "
                         "parameters",
                         row + 1, p->top_k, p->experts);
        diag_hint(r->diags, "give both n_total and n_active, or sparsity");
        return MOSAIC_BAD_INPUT;
    }
    return MOSAIC_OK;
}

/* The columns of a size, or the shape where the row gives no count of parameters. */
static enum mosaic_status read_size(struct reader *r, size_t row, struct form_point *p,
                                    double *embedding) {
    static const struct bound granularity_bound = {1e-6, 1e6, true, false};
    const bool is_stated =
        text_of(r, row, COLUMN_N_TOTAL)[0] || text_of(r, row, COLUMN_N_ACTIVE)[0];
    struct run_size size;
    if (!is_stated && run_shape_is_given(&r->shape, row)) {
        TRY(run_shape_count(&r->shape, row, r->table->count, &size, r->diags));
        p->n_total = size.n_total;
        p->n_active = size.n_active;
        p->granularity = size.granularity;
        p->experts = size.experts;
        p->top_k = size.top_k;
        *embedding = size.n_embedding;
        r->counts_shapes = true;
        return MOSAIC_OK;
    }
    if (!r->has[COLUMN_N_TOTAL] && !r->has[COLUMN_N_ACTIVE]) {
        const struct place place = place_of(r, row, COLUMN_TOKENS);
        return diag_error(r->diags, &place, "row %zu: neither 'layers' nor 'ladder_q' is given",
                          row + 1);
    }
    TRY(read_number(r, row, COLUMN_N_TOTAL, &count_bound, &p->n_total));
    TRY(read_number(r, row, COLUMN_N_ACTIVE, &count_bound, &p->n_active));
    TRY(read_number(r, row, COLUMN_EXPERTS, &count_bound, &p->experts));
    TRY(read_number(r, row, COLUMN_TOP_K, &count_bound, &p->top_k));
    TRY(read_number(r, row, COLUMN_GRANULARITY, &granularity_bound, &p->granularity));
    return check_experts(r, row, p);
}

static enum mosaic_status read_point(struct reader *r, size_t row, struct run *run) {
    static const struct bound sparsity_bound = {0, 1 - 1e-9, true, false};
    static const struct bound embedding_bound = {0, 1e30, true, true};
    struct form_point p = {.granularity = 1};
    double sparsity = -1, embedding = -1;
    TRY(read_size(r, row, &p, &embedding));
    TRY(read_number(r, row, COLUMN_TOKENS, &count_bound, &p.tokens));
    TRY(read_number(r, row, COLUMN_SPARSITY, &sparsity_bound, &sparsity));
    TRY(read_number(r, row, COLUMN_N_EMBEDDING, &embedding_bound, &embedding));
    TRY(link_counts(r, row, &p, sparsity));
    if (r->table->count == RUN_COUNT_NO_EMBEDDING)
        r->embeds_much = r->embeds_much || (embedding >= 0 ? embedding > embedding_share * p.n_total
                                                           : p.n_total < small_without_embedding);
    run->point = p;
    return MOSAIC_OK;
}

/* ---- rows ---- */

/* A number must equal the cell's; any other text must stand in it. */
static bool cell_has_one(const char *cell, const char *choice, size_t length) {
    char text[64];
    double want, have;
    struct status_error ignored;
    if (length == 0)
        return cell[0] == '\0';
    if (length < sizeof text) {
        memcpy(text, choice, length);
        text[length] = '\0';
        if (units_parse_number(text, &want, &ignored) == MOSAIC_OK &&
            units_parse_number(cell, &have, &ignored) == MOSAIC_OK)
            return have >= want && have <= want;
    }
    for (const char *at = cell; *at; at++)
        if (strncmp(at, choice, length) == 0)
            return true;
    return false;
}

static bool cell_has(const char *cell, const char *choices) {
    for (;;) {
        const size_t length = strcspn(choices, "|");
        if (cell_has_one(cell, choices, length))
            return true;
        if (choices[length] == '\0')
            return false;
        choices += length + 1;
    }
}

static enum mosaic_status is_kept(struct reader *r, size_t row, bool *kept) {
    *kept = true;
    for (size_t i = 0; i < r->options->filter_count; i++) {
        const struct run_filter *filter = &r->options->filters[i];
        size_t column;
        TRY(csv_table_columns(r->csv, &filter->column, 1, &column, r->diags));
        *kept = *kept && cell_has(csv_table_text(r->csv, row, column), filter->value);
    }
    return MOSAIC_OK;
}

static enum mosaic_status read_row(struct reader *r, size_t row, struct run *run) {
    static const struct bound weight_bound = {0, 1e30, false, true};
    static const struct bound flops_bound = {0, 1e40, false, true};
    bool kept;
    *run = (struct run){.row = row + 1, .weight = 1, .fate = RUN_USED};
    run->name = talloc_strdup(r->table->runs, text_of(r, row, COLUMN_NAME));
    run->group = talloc_strdup(r->table->runs, text_of(r, row, COLUMN_GROUP));
    if (!run->name || !run->group)
        return diag_status(r->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    TRY(is_kept(r, row, &kept));
    if (!kept) {
        run->fate = RUN_FILTERED;
        return MOSAIC_OK;
    }
    if (r->has[COLUMN_STATUS]) {
        const struct word *word = find_word(statuses, text_of(r, row, COLUMN_STATUS));
        if (!word)
            return unknown_word(r, row, COLUMN_STATUS, statuses);
        run->fate = (enum run_fate)word->value;
        if (run->fate != RUN_USED)
            return MOSAIC_OK;
    }
    TRY(read_shared(r, row));
    TRY(read_loss(r, row, run));
    if (run->fate != RUN_USED)
        return MOSAIC_OK;
    TRY(read_point(r, row, run));
    TRY(read_number(r, row, COLUMN_WEIGHT, &weight_bound, &run->weight));
    return read_number(r, row, COLUMN_FLOPS, &flops_bound, &run->flops);
}

/* ---- table ---- */

enum { NAMES = COLUMNS + RUN_SHAPE_COLUMNS };

static const char *name_at(const void *context, size_t index) {
    (void)context;
    return index < COLUMNS ? column_names[index] : run_shape_name(index - COLUMNS);
}

static size_t names_of(const struct reader *r) {
    return run_shape_is_there(&r->shape) ? NAMES : COLUMNS;
}

static bool is_read(const struct reader *r, const char *name) {
    for (size_t k = 0; k < names_of(r); k++)
        if (strcmp(name, name_at(NULL, k)) == 0)
            return true;
    for (size_t i = 0; i < r->options->filter_count; i++)
        if (strcmp(name, r->options->filters[i].column) == 0)
            return true;
    return false;
}

static void name_ignored(const struct reader *r) {
    char list[STATUS_TEXT_MAX / 2] = "";
    size_t used = 0;
    for (size_t i = 0; i < r->csv->columns; i++) {
        const char *name = r->csv->header[i].text;
        if (name[0] == '\0' || is_read(r, name))
            continue;
        char shown[STATUS_QUOTE_MAX];
        (void)status_quote(name, shown, sizeof shown);
        const char *near = suggest_from(name, name_at, NULL, names_of(r));
        if (near) {
            diag_warning(r->diags, NULL, "column '%s' is not read", shown);
            diag_hint(r->diags, "is it '%s'?", near);
        } else if (used + strlen(shown) + 4 < sizeof list) {
            used += (size_t)snprintf(list + used, sizeof list - used, "%s'%s'", used ? ", " : "",
                                     shown);
        }
    }
    if (used)
        diag_note(r->diags, NULL, "columns not read: %s", list);
}

static enum mosaic_status find_columns(struct reader *r) {
    static const char *const needed[] = {"tokens", "loss"};
    size_t at[2];
    for (size_t k = 0; k < COLUMNS; k++)
        r->has[k] = csv_table_find(r->csv, column_names[k], &r->at[k]);
    run_shape_find(r->csv, &r->shape);
    name_ignored(r);
    enum mosaic_status status = csv_table_columns(r->csv, needed, 2, at, r->diags);
    if (!r->has[COLUMN_N_TOTAL] && !r->has[COLUMN_N_ACTIVE] && !run_shape_is_there(&r->shape)) {
        const struct place place = source_place(r->csv->source, r->csv->header[0].offset, 1);
        status = diag_error(r->diags, &place, "no column 'n_total' or 'n_active'");
        diag_hint(r->diags, "say which count N is by the column's name, or give shapes");
    }
    r->table->has_sparsity =
        r->has[COLUMN_SPARSITY] || (r->has[COLUMN_N_TOTAL] && r->has[COLUMN_N_ACTIVE]);
    r->table->has_experts = r->has[COLUMN_EXPERTS] && r->has[COLUMN_TOP_K];
    return status;
}

static void report_count(const struct reader *r) {
    const struct run_table *table = r->table;
    if (table->count == RUN_COUNT_UNSTATED) {
        diag_warning(r->diags, NULL, "%s does not say whether N includes the embeddings",
                     table->file);
        diag_hint(r->diags, "add a column 'count' with all or no_embedding");
    }
    if (r->embeds_much)
        diag_warning(r->diags, NULL,
                     "N leaves out embeddings that exceed %g %% of it in the smallest runs; the "
                     "exponent of N then comes out too high",
                     100 * embedding_share);
    if (!table->has_sparsity)
        diag_note(r->diags, NULL, "one count of parameters and no sparsity: all runs are dense");
}

static enum mosaic_status read_rows(struct reader *r) {
    enum mosaic_status status = MOSAIC_OK;
    struct run_table *table = r->table;
    for (size_t row = 0; row < r->csv->rows; row++) {
        const enum mosaic_status one = read_row(r, row, &table->runs[row]);
        if (one != MOSAIC_OK && status == MOSAIC_OK)
            status = one;
    }
    TRY(status);
    table->has_sparsity = table->has_sparsity || r->counts_shapes;
    TRY(run_rows_mark_copies(table, r->diags));
    run_rows_report(table, r->diags);
    if (table->of_fate[RUN_USED] == 0)
        return diag_error(r->diags, NULL, "%s holds no run that can be used", table->file);
    run_rows_check_flops(table, r->diags);
    report_count(r);
    return MOSAIC_OK;
}

enum mosaic_status run_table_read(void *memory, const struct csv_table *csv,
                                  const struct run_options *options, struct run_table **out,
                                  struct diag_list *diags) {
    static const struct run_options none = {0};
    struct reader reader = {.csv = csv, .options = options ? options : &none, .diags = diags};
    struct run_table *table = talloc_zero(memory, struct run_table);
    if (!table)
        return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
    enum mosaic_status status = MOSAIC_OK;
    reader.table = table;
    table->rows = csv->rows;
    table->count = reader.options->count;
    table->tokenizer = "";
    table->file = talloc_strdup(table, csv->source->name);
    table->runs = talloc_zero_array(table, struct run, (unsigned)(csv->rows + 1));
    if (!table->file || !table->runs) {
        status = diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
        goto out;
    }
    TRY_GOTO(find_columns(&reader));
    TRY_GOTO(read_rows(&reader));
    *out = table;
    return MOSAIC_OK;
out:
    talloc_free(table);
    return status;
}

enum mosaic_status run_table_load(void *memory, const char *path, const struct place *from,
                                  const struct run_options *options, struct run_table **table,
                                  struct diag_list *diags) {
    struct csv_table *csv = NULL;
    TRY(csv_table_load(memory, path, from, &csv, diags));
    const enum mosaic_status status = run_table_read(memory, csv, options, table, diags);
    csv_table_free(csv);
    return status;
}

void run_table_free(struct run_table *table) {
    talloc_free(table);
}
