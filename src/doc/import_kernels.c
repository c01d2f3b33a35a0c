// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Tables of kernels that were timed one by one, a row each (ai-dynamo/aiconfigurator's data in one
 * table, or the like): columns by name, latency in microseconds.
 *   gemm                  one forward product, 2 m n k FLOPs
 *   attention_fwd_causal  2 batch seq^2 heads head_dim FLOPs, half of the square
 *   nccl_*                bytes of the whole buffer on one rank, bus bandwidth by NCCL's factors
 * A stated rate has to be the work over the latency: what is not in microseconds, not in bytes or
 * counts otherwise shows there.  Whether 8- and 4-bit GEMMs hold the quantisation of their input
 * has to be said, by column `includes` or by the caller; without it they are left out.
 */
#include "doc/import_set.h"

#include "doc/data_sheet.h"
#include "machine/collective.h"
#include "text/csv_read.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <talloc.h>

/* X(identifier, name) */
#define COLUMN_LIST(X)                                                                             \
    X(GPU, "gpu")                                                                                  \
    X(OP, "op")                                                                                    \
    X(DTYPE, "dtype")                                                                              \
    X(LATENCY, "latency_us")                                                                       \
    X(M, "m_or_tokens")                                                                            \
    X(N, "n_or_hidden")                                                                            \
    X(K, "k_or_ffn")                                                                               \
    X(BATCH, "batch")                                                                              \
    X(SEQ, "seq")                                                                                  \
    X(HEADS, "heads")                                                                              \
    X(KV_HEADS, "kv_heads")                                                                        \
    X(HEAD_DIM, "head_dim")                                                                        \
    X(WINDOW, "window")                                                                            \
    X(RANKS, "n_gpus_or_sms")                                                                      \
    X(BYTES, "bytes")                                                                              \
    X(RATE, "rate")                                                                                \
    X(RATE_UNIT, "rate_unit")                                                                      \
    X(INCLUDES, "includes")                                                                        \
    X(SOURCE, "source")                                                                            \
    X(LICENCE, "licence")                                                                          \
    X(SOFTWARE, "software")
#define COLUMN_ENUM(id, name) id,
enum column { COLUMN_LIST(COLUMN_ENUM) COLUMNS };
#undef COLUMN_ENUM
static const char *const column_names[COLUMNS] = {
#define COLUMN_NAME(id, name) [id] = (name),
    COLUMN_LIST(COLUMN_NAME)
#undef COLUMN_NAME
};
enum { ALWAYS = LATENCY + 1 }; /* columns that no table may lack */
enum { OP_KEYS = 5, LEFT_KINDS = 32, LEFT_TEXT = 160, LINE_MOST = 1024, CELL_MOST = 48 };

static const double tera = 1e12, giga = 1e9;
static const double rate_tolerance = 0.01; /* beside the rounding of the text */

struct op {
    const char *name;
    enum sample_quantity quantity;
    enum collective_kind kind; /* of a collective */
    const char *unit;
    struct {
        const char *key;
        enum column column;
    } keys[OP_KEYS];
};
#define COLLECTIVE(text, of)                                                                       \
    {                                                                                              \
        (text), SAMPLE_COLLECTIVE, (of), "GB/s", {                                                 \
            {"ranks", RANKS}, {                                                                    \
                "bytes", BYTES                                                                     \
            }                                                                                      \
        }                                                                                          \
    }
static const struct op ops[] = {
    {"gemm", SAMPLE_GEMM, COLLECTIVE_KINDS, "TFLOP/s", {{"m", M}, {"n", N}, {"k", K}}},
    {"attention_fwd_causal",
     SAMPLE_ATTENTION,
     COLLECTIVE_KINDS,
     "TFLOP/s",
     {{"batch", BATCH},
      {"sequence", SEQ},
      {"heads", HEADS},
      {"kv_heads", KV_HEADS},
      {"head_dim", HEAD_DIM}}},
    COLLECTIVE("nccl_all_reduce", COLLECTIVE_ALL_REDUCE),
    COLLECTIVE("nccl_all_gather", COLLECTIVE_ALL_GATHER),
    COLLECTIVE("nccl_reduce_scatter", COLLECTIVE_REDUCE_SCATTER),
    COLLECTIVE("nccl_alltoall", COLLECTIVE_ALL_TO_ALL),
};
/* What such tables hold besides, and no entry is fitted to. */
static const char *const unused_ops[] = {"mla_fwd_causal",    "moe_mlp_fwd",     "gdn_fwd",
                                         "mamba2_conv1d_fwd", "deepep_dispatch", "deepep_combine"};
static const struct {
    const char *text, *word;
} dtypes[] = {{"bfloat16", "bf16"},       {"bf16", "bf16"},   {"float16", "fp16"},
              {"half", "fp16"},           {"fp16", "fp16"},   {"float32", "fp32"},
              {"fp32", "fp32"},           {"tf32", "tf32"},   {"fp8", "fp8"},
              {"fp8_block", "fp8_block"}, {"mxfp8", "mxfp8"}, {"nvfp4", "nvfp4"}};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

struct left_out {
    char text[LEFT_TEXT];
    size_t count;
    long first;
};

struct kernels {
    struct import_set *set;
    struct csv_table *table;
    size_t at[COLUMNS], row;
    bool has[COLUMNS];
    const char *file, *gpu;
    bool writes_cache;             /* an attention kernel writes the KV cache too */
    size_t taken, doubled, others; /* others: rows of another GPU */
    struct left_out left[LEFT_KINDS];
    size_t left_count;
};

static const char *cell(const struct kernels *k, enum column column) {
    return k->has[column] ? csv_table_text(k->table, k->row, k->at[column]) : "";
}

static long line_of(const struct kernels *k) {
    return csv_table_place(k->table, k->row, 0).line;
}

/* A row that cannot be right; false. */
static bool flag(struct kernels *k, enum column column, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool flag(struct kernels *k, enum column column, const char *format, ...) {
    char text[STATUS_TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    k->set->refused++;
    import_warn(k->set, k->table->source, line_of(k), "column %s: %s; left out",
                column_names[column], text);
    return false;
}

/* A row that is right, and of no use; false. */
static bool leave(struct kernels *k, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool leave(struct kernels *k, const char *format, ...) {
    char text[LEFT_TEXT];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t i = 0;
    while (i < k->left_count && strcmp(k->left[i].text, text) != 0)
        i++;
    if (i == LEFT_KINDS)
        i--; /* among the last kind */
    if (i == k->left_count) {
        (void)snprintf(k->left[i].text, sizeof k->left[i].text, "%s", text);
        k->left[i].first = line_of(k);
        k->left_count++;
    }
    k->left[i].count++;
    return false;
}

static const char *quoted(const char *text, char shown[CELL_MOST]) {
    return status_quote(text, shown, CELL_MOST);
}

/* ---- one row ---- */

static void set_key(struct sample *s, const char *key, long long value) {
    s->value[sample_key_index(s->quantity, key)] = value;
}

static bool set_word(struct sample *s, const char *key, const char *word) {
    const char *const *const words =
        sample_kind(s->quantity)->keys[sample_key_index(s->quantity, key)].words;
    for (long long i = 0; words[i]; i++)
        if (strcmp(words[i], word) == 0) {
            set_key(s, key, i);
            return true;
        }
    return false;
}

static bool read_whole(struct kernels *k, enum column column, long long *out) {
    const char *const text = cell(k, column);
    char shown[CELL_MOST], *end = NULL;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return isdigit((unsigned char)*text) && !*end && errno == 0 && *out > 0
               ? true
               : flag(k, column, "'%s' is no whole number above 0", quoted(text, shown));
}

/* The very number that the text is in seconds: 8.84 us is 8.84e-6. */
static bool read_latency(struct kernels *k, double *seconds) {
    const char *const text = cell(k, LATENCY);
    char shown[CELL_MOST], scaled[CELL_MOST], *end = NULL;
    const double us = strtod(text, &end);
    const bool is_number = *text && !*end && isfinite(us) && !isspace((unsigned char)*text) &&
                           strlen(text) + 4 < sizeof scaled;
    if (!is_number || !(us > 0.0))
        return flag(k, LATENCY, *text ? "'%s' is no time above 0 in microseconds" : "%sempty",
                    quoted(text, shown));
    (void)snprintf(scaled, sizeof scaled, "%se-6", text);
    *seconds = strpbrk(text, "eExX") ? us * 1e-6 : strtod(scaled, NULL);
    return true;
}

static bool read_dtype(struct kernels *k, struct sample *s) {
    const char *const text = cell(k, DTYPE);
    char shown[CELL_MOST];
    for (size_t i = 0; i < COUNT_OF(dtypes); i++)
        if (strcmp(dtypes[i].text, text) == 0)
            return set_word(s, "dtype", dtypes[i].word);
    return flag(k, DTYPE, "unknown dtype '%s'", quoted(text, shown));
}

/* FLOPs, or bytes that count for the bus bandwidth. */
static double work_of(const struct op *op, const struct sample *s) {
    const long long *const v = s->value;
    const double length = (double)v[3];
    if (op->quantity == SAMPLE_GEMM)
        return 2.0 * (double)v[2] * (double)v[3] * (double)v[4];
    if (op->quantity == SAMPLE_ATTENTION)
        return 2.0 * (double)v[2] * length * length * (double)v[4] * (double)v[6];
    return collective_bus_factor(op->kind, (int)v[1]) * (double)v[3];
}

/* Half of the last digit that a text has. */
static double rounding_of(const char *text) {
    const char *const point = strchr(text, '.');
    return 0.5 * pow(10.0, point ? -(double)strspn(point + 1, "0123456789") : 0.0);
}

static bool check_rate(struct kernels *k, const struct op *op, const struct sample *s) {
    const char *const text = cell(k, RATE), *const unit = cell(k, RATE_UNIT);
    const double is = work_of(op, s) / s->median_s / (op->unit[0] == 'T' ? tera : giga);
    char shown[CELL_MOST], *end = NULL;
    if (*unit && strncmp(unit, op->unit, strlen(op->unit)) != 0)
        return flag(k, RATE_UNIT, "'%s' where %s is due", quoted(unit, shown), op->unit);
    if (!*text)
        return true;
    const double said = strtod(text, &end);
    if (*end || !isfinite(said) || said < 0.0)
        return flag(k, RATE, "'%s' is no rate", quoted(text, shown));
    if (fabs(said - is) <= rate_tolerance * is + 1.01 * rounding_of(text))
        return true;
    return flag(k, RATE,
                "%s %s, but %s over the latency is %.4g: are the units, or the count, others?",
                quoted(text, shown), op->unit,
                op->quantity == SAMPLE_COLLECTIVE ? "bytes by the bus factor" : "FLOPs", is);
}

static bool is_narrow(const struct sample *s) {
    const char *const word = sample_kind(s->quantity)->keys[0].words[s->value[0]];
    return s->quantity == SAMPLE_GEMM && (strstr(word, "fp8") || strstr(word, "fp4"));
}

static bool has_narrow(const struct import_set *set) {
    for (size_t i = 0; i < set->count; i++)
        if (set->samples[i].quantity == SAMPLE_GEMM && is_narrow(&set->samples[i]))
            return true;
    return false;
}

/* What the latency holds beside the op. */
static bool take_includes(struct kernels *k, const struct sample *s) {
    const char *const text = cell(k, INCLUDES), *const asked = k->set->settings->quantisation;
    const bool is_gemm = s->quantity == SAMPLE_GEMM, is_quantise = strcmp(text, "quantise") == 0;
    char shown[CELL_MOST];
    if (*text && !(is_gemm && is_quantise && is_narrow(s)) &&
        !(s->quantity == SAMPLE_ATTENTION && strcmp(text, "kv_cache") == 0))
        return flag(k, INCLUDES, "'%s': quantise of an 8- or 4-bit gemm, kv_cache of attention",
                    quoted(text, shown));
    k->writes_cache = k->writes_cache || (*text && !is_gemm);
    if (!is_gemm || !is_narrow(s))
        return true;
    if (!asked && !k->has[INCLUDES])
        return leave(k, "8- and 4-bit GEMMs: whether the time holds the quantisation of the input "
                        "is not said (column includes, --quantisation)");
    const bool is_within = asked ? strcmp(asked, "within") == 0 : is_quantise;
    if (has_narrow(k->set) && k->set->record.gemm_quantises != is_within)
        return leave(k, "8- and 4-bit GEMMs %s the quantisation of the input, unlike those before",
                     is_within ? "with" : "without");
    k->set->record.gemm_quantises = is_within;
    import_define(k->set,
                  "8- and 4-bit GEMMs: the time %s the quantisation of the input, a pass "
                  "of its own in the model",
                  is_within ? "holds" : "is without");
    return true;
}

/* Members inside one innermost domain. */
static long long inside_of(const struct kernels *k, long long ranks) {
    const struct import_set *const set = k->set;
    const long long given = set->settings->ranks_per_node,
                    domain = set->cluster && set->cluster->tier_count > 0
                                 ? set->cluster->tiers[0].domain
                                 : 0;
    const long long inside = given > 0 ? given : domain > 0 ? domain : ranks;
    return inside < ranks ? inside : ranks;
}

static bool read_sample(struct kernels *k, const struct op *op, struct sample *s) {
    char line[LINE_MOST];
    struct status_error err;
    *s = (struct sample){.quantity = op->quantity, .rounds = 1};
    for (size_t i = 0; i < OP_KEYS && op->keys[i].key; i++) {
        long long value = 0;
        if (!read_whole(k, op->keys[i].column, &value))
            return false;
        set_key(s, op->keys[i].key, value);
    }
    if (op->quantity == SAMPLE_COLLECTIVE) {
        (void)set_word(s, "kind", collective_name(op->kind));
        set_key(s, "ranks_per_domain", inside_of(k, sample_value(s, "ranks")));
    } else if (!read_dtype(k, s)) {
        return false;
    }
    if (op->quantity == SAMPLE_ATTENTION)
        set_key(s, "causal", 1);
    if (!read_latency(k, &s->median_s))
        return false;
    s->least_s = s->most_s = s->median_s;
    (void)sample_print(s, line, sizeof line);
    if (sample_parse(line, strlen(line), NULL, s, &err) != MOSAIC_OK)
        return flag(k, OP, "%s", err.message);
    return check_rate(k, op, s) && take_includes(k, s);
}

/* ---- where it comes from ---- */

static const char between[] = " | ";

static bool is_listed(const char *list, const char *text) {
    const size_t length = strlen(text);
    for (const char *at = strstr(list, text); at; at = strstr(at + 1, text)) {
        const bool begins =
            at == list || (at >= list + sizeof between - 1 &&
                           strncmp(at - (sizeof between - 1), between, sizeof between - 1) == 0);
        if (begins &&
            (at[length] == '\0' || strncmp(at + length, between, sizeof between - 1) == 0))
            return true;
    }
    return false;
}

/* Each text once, as far as there is room. */
static void add_text(char list[RECORD_TEXT], const char *text) {
    const size_t used = strlen(list);
    if (*text && !is_listed(list, text) && used + sizeof between + strlen(text) < RECORD_TEXT)
        (void)snprintf(list + used, RECORD_TEXT - used, "%s%s", used ? between : "", text);
}

static void note_origin(struct kernels *k, enum sample_quantity quantity) {
    const struct import_settings *const asked = k->set->settings;
    struct record_origin *const origin = &k->set->record.origin[quantity];
    const char *const source = cell(k, SOURCE), *const licence = cell(k, LICENCE);
    char text[RECORD_TEXT];
    (void)snprintf(text, sizeof text, "%s%s%s", source, *source ? "; " : "", k->file);
    add_text(origin->source, text);
    add_text(origin->licence, asked->licence ? asked->licence
                              : *licence     ? licence
                                             : "measured by the user");
    add_text(origin->software, asked->software ? asked->software : cell(k, SOFTWARE));
}

static void name_methods(struct kernels *k) {
    struct record *const r = &k->set->record;
    static const char one[] = "one kernel at a time";
    (void)snprintf(r->origin[SAMPLE_GEMM].method, RECORD_TEXT, "forward products, %s%s", one,
                   r->gemm_quantises ? ", 8- and 4-bit ones with the quantisation of their input"
                                     : "");
    if (k->writes_cache || !r->origin[SAMPLE_ATTENTION].method[0])
        (void)snprintf(r->origin[SAMPLE_ATTENTION].method, RECORD_TEXT, "causal forward, %s%s", one,
                       k->writes_cache ? ", which writes the KV cache too" : "");
    (void)snprintf(r->origin[SAMPLE_COLLECTIVE].method, RECORD_TEXT, "one collective at a time");
}

/* ---- the table ---- */

static const struct op *find_op(const char *name) {
    for (size_t i = 0; i < COUNT_OF(ops); i++)
        if (strcmp(ops[i].name, name) == 0)
            return &ops[i];
    return NULL;
}

static bool is_unused(const char *name) {
    for (size_t i = 0; i < COUNT_OF(unused_ops); i++)
        if (strcmp(unused_ops[i], name) == 0)
            return true;
    return false;
}

static enum mosaic_status check_columns(struct kernels *k, const struct op *op) {
    for (size_t i = 0; i < OP_KEYS && op->keys[i].key; i++)
        if (!k->has[op->keys[i].column])
            return import_refuse(k->set, k->table->source, 1, "no column '%s', which %s needs",
                                 column_names[op->keys[i].column], op->name);
    return MOSAIC_OK;
}

/* Of one shape the fastest kernel counts: a library picks it. */
static enum mosaic_status keep(struct kernels *k, const struct sample *s) {
    struct import_set *const set = k->set;
    k->taken++;
    for (size_t i = 0; i < set->count; i++)
        if (sample_compare_keys(&set->samples[i], s) == 0) {
            k->doubled++;
            if (s->median_s < set->samples[i].median_s)
                set->samples[i] = *s;
            return MOSAIC_OK;
        }
    return import_add(set, s);
}

static enum mosaic_status take_row(struct kernels *k) {
    const char *const name = cell(k, OP), *const window = cell(k, WINDOW);
    const struct op *const op = find_op(name);
    struct sample s;
    char shown[CELL_MOST];
    if (strcmp(cell(k, GPU), k->gpu) != 0) {
        k->others++;
        return MOSAIC_OK;
    }
    k->set->rows++;
    if (!op) {
        (void)(is_unused(name) ? leave(k, "%s, which no entry is fitted to", name)
                               : flag(k, OP, "unknown op '%s'", quoted(name, shown)));
        return MOSAIC_OK;
    }
    TRY(check_columns(k, op));
    if (op->quantity == SAMPLE_ATTENTION && *window && strcmp(window, "0") != 0) {
        (void)leave(k, "%s with a window, where the model's has none", name);
        return MOSAIC_OK;
    }
    if (!read_sample(k, op, &s))
        return MOSAIC_OK;
    note_origin(k, op->quantity);
    return keep(k, &s);
}

/* The GPU whose rows count: --device as the table spells it, or the only one. */
static enum mosaic_status choose_gpu(struct kernels *k) {
    const char *const asked = k->set->settings->device;
    const char *first = NULL, *other = NULL;
    for (k->row = 0; k->row < k->table->rows; k->row++) {
        const char *const gpu = cell(k, GPU);
        if (asked && strcasecmp(gpu, asked) == 0) {
            k->gpu = gpu;
            return MOSAIC_OK;
        }
        first = first ? first : gpu;
        other = other || strcmp(gpu, first) == 0 ? other : gpu;
    }
    if (!first)
        return import_refuse(k->set, k->table->source, 0, "no row is in it");
    k->gpu = first;
    if (!other && !asked)
        return MOSAIC_OK;
    if (!other)
        return import_refuse(k->set, k->table->source, 1, "its rows are of '%s', none is of '%s'",
                             first, asked);
    (void)import_refuse(k->set, k->table->source, 1, "its rows are of '%s', of '%s' and maybe more",
                        first, other);
    diag_hint(k->set->diags, "--device NAME picks one, as the table spells it");
    return MOSAIC_BAD_INPUT;
}

static enum mosaic_status find_device(struct kernels *k) {
    struct import_set *const set = k->set;
    const char *sheet = NULL;
    TRY(choose_gpu(k));
    if (set->device[0] && strcmp(set->device, k->gpu) != 0)
        return import_refuse(set, k->table->source, 0, "it is of '%s', the table before of '%s'",
                             k->gpu, set->device);
    (void)snprintf(set->device, sizeof set->device, "%s", k->gpu);
    if (!set->cluster)
        return data_sheet_find(set->memory, set->diags, set->device, &set->cluster, &sheet);
    if (!strstr(set->device, set->cluster->device.name))
        import_warn(set, k->table->source, 0, "the table is of '%s', the cluster's device is '%s'",
                    set->device, set->cluster->device.name);
    return MOSAIC_OK;
}

static enum mosaic_status find_columns(struct kernels *k) {
    for (int i = 0; i < COLUMNS; i++) {
        k->has[i] = csv_table_find(k->table, column_names[i], &k->at[i]);
        if (i < ALWAYS && !k->has[i])
            return import_refuse(k->set, k->table->source, 1, "no column '%s'%s", column_names[i],
                                 i == LATENCY ? ": times are in microseconds" : "");
    }
    return MOSAIC_OK;
}

static enum mosaic_status end(struct kernels *k) {
    const struct source *const source = k->table->source;
    for (size_t i = 0; i < k->left_count; i++)
        import_warn(k->set, source, k->left[i].first, "%zu row%s left out, the first here: %s",
                    k->left[i].count, k->left[i].count > 1 ? "s" : "", k->left[i].text);
    if (k->taken == 0)
        return import_refuse(k->set, source, 0, "no kernel that a calibration takes is in it%s%s",
                             k->set->warnings.count > 0 ? ": " : "",
                             k->set->warnings.count > 0 ? k->set->warnings.items[0] : "");
    if (k->others > 0)
        import_define(k->set, "%zu row%s of other GPUs passed over", k->others,
                      k->others > 1 ? "s are" : " is");
    if (k->doubled > 0)
        import_define(k->set, "of several kernels of one shape the fastest counts");
    name_methods(k);
    k->set->record.is_set = true;
    return MOSAIC_OK;
}

enum mosaic_status import_kernels(struct import_set *set, const char *path) {
    struct source *source = NULL;
    const char *const slash = strrchr(path, '/');
    struct kernels *const k = talloc_zero(set->memory, struct kernels);
    if (!k)
        return import_no_memory(set);
    k->set = set;
    k->file = slash ? slash + 1 : path;
    TRY(import_read(set, path, &source));
    TRY(csv_table_parse(set->memory, source, &k->table, set->diags));
    TRY(find_columns(k));
    TRY(find_device(k));
    import_define(set, "latency_us: microseconds of one kernel, alone on the device");
    for (k->row = 0; k->row < k->table->rows; k->row++)
        TRY(take_row(k));
    return end(k);
}
