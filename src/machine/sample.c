// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The quantities and their keys, and samples as lines of JSON.  jansson judges the text: probes
 * link this file too, so it needs neither places nor a tree.  A probe's request is a sample that
 * has not been timed yet: the keys alone.
 */
#include "machine/sample.h"

#include "base/suggest.h"
#include "base/units.h"

#include <assert.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* ---- what can be asked ---- */

enum { ROWS_MOST = 1 << 30, RANKS_MOST = 1 << 20, EXPERTS_MOST = 1 << 16, ROUNDS_MOST = 1 << 30 };
#define BYTES_MOST (1LL << 50)

static const char *const dtype_words[] = {"bf16", "fp16",      "fp32",  "tf32",  "fp64",
                                          "fp8",  "fp8_block", "mxfp8", "nvfp4", NULL};
static const char *const gemm_pass_words[] = {"forward", "backward_data", "backward_weight", NULL};
static const char *const pass_words[] = {"forward", "backward", NULL};
static const char *const operator_words[] = {"norm",    "rope",          "swiglu",   "router_top_k",
                                             "permute", "cross_entropy", "quantise", NULL};
static const char *const stream_words[] = {"copy", "triad", NULL};
static const char *const direction_words[] = {"to_host", "to_device", "both", NULL};
static const char *const load_words[] = {"none", "stream", NULL};
static const char *const collective_words[] = {"all_reduce", "all_gather",     "reduce_scatter",
                                               "all_to_all", "point_to_point", NULL};
static const char *const part_words[] = {"gemm", "collective", "both", NULL};

#define WORD(key, list, text)                                                                      \
    { .name = (key), .words = (list), .help = (text) }
#define WHOLE(key, from, to, text)                                                                 \
    { .name = (key), .least = (from), .most = (to), .help = (text) }
#define SIZE(key, text) WHOLE(key, 1, ROWS_MOST, text)
#define BYTES(text) WHOLE("bytes", 1, BYTES_MOST, text)
#define DTYPE WORD("dtype", dtype_words, "format of the inputs")
#define SHAPE                                                                                      \
    SIZE("m", "rows of the forward product, whichever pass"), SIZE("n", "columns of it"),          \
        SIZE("k", "its inner size")
#define RANKS WHOLE("ranks", 2, RANKS_MOST, "members of the group")

static const struct sample_key gemm_keys[] = {
    DTYPE, WORD("pass", gemm_pass_words, "forward, or either gradient"), SHAPE};
static const struct sample_key grouped_gemm_keys[] = {
    DTYPE,
    WORD("pass", gemm_pass_words, "forward, or either gradient"),
    WHOLE("experts", 1, EXPERTS_MOST, "products"),
    SIZE("rows", "rows of each expert"),
    SIZE("n", "columns"),
    SIZE("k", "inner size")};
static const struct sample_key attention_keys[] = {
    DTYPE,
    WORD("pass", pass_words, "forward or backward"),
    SIZE("batch", "sequences"),
    SIZE("sequence", "tokens of each"),
    SIZE("heads", "query heads"),
    SIZE("kv_heads", "key and value heads"),
    SIZE("head_dim", "width of a head"),
    WHOLE("causal", 0, 1, "1: a token sees no later one")};
static const struct sample_key elementwise_keys[] = {
    WORD("op", operator_words, "the operator"), WORD("pass", pass_words, "forward or backward"),
    SIZE("rows", "tokens"), SIZE("width", "elements of each: hidden, experts, vocabulary")};
static const struct sample_key stream_keys[] = {
    WORD("op", stream_words, "copy reads and writes, triad reads two and writes one"),
    BYTES("read and written together")};
static const struct sample_key sustained_keys[] = {
    DTYPE, SHAPE, WHOLE("seconds", 1, 86400, "how long the loop lasts")};
static const struct sample_key launch_keys[] = {WHOLE("graph", 0, 1, "1: replayed from a graph"),
                                                WHOLE("kernels", 1, 1 << 24, "launched in a row")};
static const struct sample_key host_copy_keys[] = {
    WORD("direction", direction_words, "which way"), BYTES("copied in each direction"),
    WORD("load", load_words, "what the device's memory does meanwhile")};
static const struct sample_key adamw_keys[] = {
    WHOLE("parameters", 1, BYTES_MOST, "stepped"),
    WHOLE("buckets", 1, EXPERTS_MOST, "kernels that share them")};
static const struct sample_key ring_strip_keys[] = {SIZE("rows", "tokens"),
                                                    SIZE("width", "hidden size"),
                                                    SIZE("vocab", "rows of the weight strip")};
static const struct sample_key collective_keys[] = {
    WORD("kind", collective_words, "the collective"), RANKS,
    WHOLE("ranks_per_domain", 1, RANKS_MOST, "members inside one innermost domain"),
    BYTES("the whole buffer on one rank")};
static const struct sample_key overlap_keys[] = {DTYPE,
                                                 SHAPE,
                                                 WORD("kind", collective_words, "the collective"),
                                                 RANKS,
                                                 BYTES("the whole buffer on one rank"),
                                                 WORD("part", part_words, "what was timed")};
static const struct sample_key moe_layer_keys[] = {
    SIZE("tokens", "of one rank"),
    SIZE("hidden", "width of a token"),
    SIZE("ffn", "width of an expert"),
    WHOLE("experts", 1, EXPERTS_MOST, "of the layer"),
    WHOLE("top_k", 1, EXPERTS_MOST, "experts of a token"),
    WHOLE("ranks", 1, RANKS_MOST, "that share the experts"),
    WORD("pass", pass_words, "forward or backward")};

#define COUNTED(table) (table), (int)(sizeof(table) / sizeof *(table))
#define KEYS_SAMPLE_GEMM COUNTED(gemm_keys)
#define KEYS_SAMPLE_GROUPED_GEMM COUNTED(grouped_gemm_keys)
#define KEYS_SAMPLE_ATTENTION COUNTED(attention_keys)
#define KEYS_SAMPLE_ELEMENTWISE COUNTED(elementwise_keys)
#define KEYS_SAMPLE_STREAM COUNTED(stream_keys)
#define KEYS_SAMPLE_SUSTAINED COUNTED(sustained_keys)
#define KEYS_SAMPLE_LAUNCH COUNTED(launch_keys)
#define KEYS_SAMPLE_HOST_COPY COUNTED(host_copy_keys)
#define KEYS_SAMPLE_ADAMW COUNTED(adamw_keys)
#define KEYS_SAMPLE_RING_STRIP COUNTED(ring_strip_keys)
#define KEYS_SAMPLE_COLLECTIVE COUNTED(collective_keys)
#define KEYS_SAMPLE_OVERLAP COUNTED(overlap_keys)
#define KEYS_SAMPLE_MOE_LAYER COUNTED(moe_layer_keys)

#define KIND(id, name, text) {name, text, KEYS_##id},
static const struct sample_kind kinds[SAMPLE_QUANTITIES] = {SAMPLE_QUANTITY_LIST(KIND)};
#undef KIND

const struct sample_kind *sample_kind(enum sample_quantity quantity) {
    return (unsigned)quantity < SAMPLE_QUANTITIES ? &kinds[quantity] : NULL;
}

int sample_key_index(enum sample_quantity quantity, const char *name) {
    const struct sample_kind *const kind = sample_kind(quantity);
    for (int i = 0; kind && i < kind->key_count; ++i)
        if (strcmp(kind->keys[i].name, name) == 0)
            return i;
    return -1;
}

int sample_compare_keys(const struct sample *a, const struct sample *b) {
    if (a->quantity != b->quantity)
        return a->quantity < b->quantity ? -1 : 1;
    for (int i = 0; i < kinds[a->quantity].key_count; ++i)
        if (a->value[i] != b->value[i])
            return a->value[i] < b->value[i] ? -1 : 1;
    return 0;
}

long long sample_value(const struct sample *s, const char *key) {
    const int at = sample_key_index(s->quantity, key);
    assert(at >= 0);
    return s->value[at < 0 ? 0 : at];
}

/* ---- reading ---- */

enum { QUOTE = STATUS_QUOTE_MAX };

static const char *quantity_name_at(const void *context, size_t i) {
    (void)context;
    return kinds[i].name;
}

static const char *key_name_at(const void *context, size_t i) {
    return ((const struct sample_kind *)context)->keys[i].name;
}

static enum mosaic_status not_one_of(const char *what, const char *text, suggest_at *at,
                                     const void *context, size_t count, struct status_error *err) {
    char quote[QUOTE];
    const char *const near = suggest_from(text, at, context, count);
    (void)status_set(err, MOSAIC_BAD_INPUT, "unknown %s '%s'", what,
                     status_quote(text, quote, sizeof quote));
    if (near)
        status_hint(err, "did you mean '%s'?", near);
    return MOSAIC_BAD_INPUT;
}

static const char *word_at(const void *context, size_t i) {
    return ((const char *const *)context)[i];
}

static enum mosaic_status read_word(const struct sample_key *key, const json_t *value,
                                    long long *out, struct status_error *err) {
    if (!json_is_string(value))
        return status_set(err, MOSAIC_BAD_INPUT, "'%s' is a word, such as \"%s\"", key->name,
                          key->words[0]);
    long long at = 0;
    while (key->words[at] && strcmp(key->words[at], json_string_value(value)) != 0)
        ++at;
    if (!key->words[at])
        return not_one_of(key->name, json_string_value(value), word_at, key->words, (size_t)at,
                          err);
    *out = at;
    return MOSAIC_OK;
}

static enum mosaic_status read_key(const struct sample_key *key, const json_t *value,
                                   long long *out, struct status_error *err) {
    if (key->words)
        return read_word(key, value, out, err);
    if (!json_is_integer(value))
        return status_set(err, MOSAIC_BAD_INPUT, "'%s' is a whole number", key->name);
    const long long number = json_integer_value(value);
    if (number < key->least || number > key->most)
        return status_set(err, MOSAIC_BAD_INPUT, "'%s' is %lld, not within %lld to %lld", key->name,
                          number, key->least, key->most);
    *out = number;
    return MOSAIC_OK;
}

static enum mosaic_status missing(const char *name, struct status_error *err) {
    return status_set(err, MOSAIC_BAD_INPUT, "a sample needs '%s'", name);
}

/* What the ranges of single keys cannot say. */
static enum mosaic_status check_together(const struct sample *s, struct status_error *err) {
    static const char *const pairs[][2] = {
        {"ranks_per_domain", "ranks"}, {"top_k", "experts"}, {"kv_heads", "heads"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i) {
        const int part = sample_key_index(s->quantity, pairs[i][0]);
        const int whole = sample_key_index(s->quantity, pairs[i][1]);
        if (part >= 0 && whole >= 0 && s->value[part] > s->value[whole])
            return status_set(err, MOSAIC_BAD_INPUT, "'%s' is %lld, more than '%s', %lld",
                              pairs[i][0], s->value[part], pairs[i][1], s->value[whole]);
    }
    return MOSAIC_OK;
}

static enum mosaic_status read_keys(const json_t *object, struct sample *s,
                                    struct status_error *err) {
    const json_t *const name = json_object_get(object, "quantity");
    if (!name)
        return missing("quantity", err);
    if (!json_is_string(name))
        return status_set(err, MOSAIC_BAD_INPUT, "'quantity' is a word, such as \"gemm\"");
    size_t at = 0;
    while (at < SAMPLE_QUANTITIES && strcmp(kinds[at].name, json_string_value(name)) != 0)
        ++at;
    if (at == SAMPLE_QUANTITIES)
        return not_one_of("quantity", json_string_value(name), quantity_name_at, NULL,
                          SAMPLE_QUANTITIES, err);
    s->quantity = (enum sample_quantity)at;
    for (int i = 0; i < kinds[at].key_count; ++i) {
        const struct sample_key *const key = &kinds[at].keys[i];
        const json_t *const value = json_object_get(object, key->name);
        if (!value) {
            (void)missing(key->name, err);
            status_wrap(err, "%s", kinds[at].name);
            return MOSAIC_BAD_INPUT;
        }
        TRY(read_key(key, value, &s->value[i], err));
    }
    return check_together(s, err);
}

static enum mosaic_status read_times(const json_t *object, struct sample *s,
                                     struct status_error *err) {
    const struct {
        const char *name;
        double *to;
    } parts[] = {{"median", &s->median_s}, {"least", &s->least_s}, {"most", &s->most_s}};
    const json_t *const times = json_object_get(object, "time_s");
    if (!times)
        return missing("time_s", err);
    if (!json_is_object(times))
        return status_set(err, MOSAIC_BAD_INPUT,
                          "'time_s' is an object of median, least and most, in seconds");
    if (json_object_size(times) > sizeof parts / sizeof *parts)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "'time_s' has median, least and most, nothing else");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
        const json_t *const value = json_object_get(times, parts[i].name);
        if (!json_is_number(value))
            return status_set(err, MOSAIC_BAD_INPUT, "'time_s.%s' is %s", parts[i].name,
                              value ? "not a number" : "missing");
        *parts[i].to = json_number_value(value);
        if (!(*parts[i].to > 0.0) || !isfinite(*parts[i].to))
            return status_set(err, MOSAIC_BAD_INPUT, "'time_s.%s' is %g, not above 0",
                              parts[i].name, *parts[i].to);
    }
    if (s->least_s > s->median_s || s->median_s > s->most_s)
        return status_set(err, MOSAIC_BAD_INPUT,
                          "'time_s': least %g, median %g and most %g are out of order", s->least_s,
                          s->median_s, s->most_s);
    return MOSAIC_OK;
}

static enum mosaic_status read_timing(const json_t *object, struct sample *s,
                                      struct status_error *err) {
    TRY(read_times(object, s, err));
    const json_t *const rounds = json_object_get(object, "rounds");
    const json_t *const verified = json_object_get(object, "verified");
    if (!rounds || !verified)
        return missing(rounds ? "verified" : "rounds", err);
    if (!json_is_integer(rounds) || json_integer_value(rounds) < 1 ||
        json_integer_value(rounds) > ROUNDS_MOST)
        return status_set(err, MOSAIC_BAD_INPUT, "'rounds' is a whole number within 1 to %d",
                          (int)ROUNDS_MOST);
    if (!json_is_boolean(verified))
        return status_set(err, MOSAIC_BAD_INPUT, "'verified' is true or false");
    s->rounds = (int)json_integer_value(rounds);
    s->is_verified = json_is_true(verified);
    return MOSAIC_OK;
}

static bool is_listed(const char *const *list, const char *name) {
    for (; list && *list; ++list)
        if (strcmp(*list, name) == 0)
            return true;
    return false;
}

static enum mosaic_status check_members(const json_t *object, const struct sample_kind *kind,
                                        const char *const *own, const char *const *others,
                                        struct status_error *err) {
    const enum sample_quantity quantity = (enum sample_quantity)(kind - kinds);
    /* jansson's iterator takes a pointer to non-const, and does not write. */
    for (void *at = json_object_iter((json_t *)(uintptr_t)object); at;
         at = json_object_iter_next((json_t *)(uintptr_t)object, at)) {
        const char *const name = json_object_iter_key(at);
        if (sample_key_index(quantity, name) < 0 && !is_listed(own, name) &&
            !is_listed(others, name)) {
            (void)not_one_of("member", name, key_name_at, kind, (size_t)kind->key_count, err);
            status_wrap(err, "%s", kind->name);
            return MOSAIC_BAD_INPUT;
        }
    }
    return MOSAIC_OK;
}

static enum mosaic_status load_object(const char *line, size_t length, json_t **object,
                                      struct status_error *err) {
    json_error_t wrong;
    json_t *const value = json_loadb(line, length, JSON_REJECT_DUPLICATES, &wrong);
    if (!value)
        return status_set(err, MOSAIC_BAD_INPUT, "not a line of JSON: %s", wrong.text);
    if (!json_is_object(value)) {
        json_decref(value);
        return status_set(err, MOSAIC_BAD_INPUT, "a sample is a JSON object");
    }
    *object = value;
    return MOSAIC_OK;
}

enum mosaic_status sample_parse_keys(const char *line, size_t length, const char *const *others,
                                     struct sample *out, struct status_error *err) {
    static const char *const own[] = {"quantity", NULL};
    struct sample s = {.rounds = 0};
    json_t *object = NULL;
    TRY(load_object(line, length, &object, err));
    enum mosaic_status status = read_keys(object, &s, err);
    if (status == MOSAIC_OK)
        status = check_members(object, &kinds[s.quantity], own, others, err);
    json_decref(object);
    if (status == MOSAIC_OK)
        *out = s;
    return status;
}

enum mosaic_status sample_parse(const char *line, size_t length, const char *const *others,
                                struct sample *out, struct status_error *err) {
    static const char *const own[] = {"quantity", "time_s", "rounds", "verified", NULL};
    struct sample s = {.rounds = 0};
    json_t *object = NULL;
    TRY(load_object(line, length, &object, err));
    enum mosaic_status status = read_keys(object, &s, err);
    if (status == MOSAIC_OK)
        status = check_members(object, &kinds[s.quantity], own, others, err);
    if (status == MOSAIC_OK)
        status = read_timing(object, &s, err);
    json_decref(object);
    if (status == MOSAIC_OK)
        *out = s;
    return status;
}

/* ---- printing ---- */

/* Counts on where the text ends, as snprintf does. */
struct printer {
    char *text;
    size_t size, used;
};

static void put(struct printer *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct printer *p, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const size_t at = p->used < p->size ? p->used : p->size;
    const int more = vsnprintf(p->text ? p->text + at : NULL, p->size - at, format, args);
    va_end(args);
    p->used += more > 0 ? (size_t)more : 0;
}

static void put_keys(struct printer *p, const struct sample *s) {
    const struct sample_kind *const kind = &kinds[s->quantity];
    put(p, "\"quantity\": \"%s\"", kind->name);
    for (int i = 0; i < kind->key_count; ++i) {
        const struct sample_key *const key = &kind->keys[i];
        if (key->words)
            put(p, ", \"%s\": \"%s\"", key->name, key->words[s->value[i]]);
        else
            put(p, ", \"%s\": %lld", key->name, s->value[i]);
    }
}

static void put_number(struct printer *p, const char *before, double value) {
    char text[UNITS_TEXT_MAX];
    units_format_exact(value, DIM_NUMBER, text, sizeof text);
    put(p, "%s%s", before, text);
}

int sample_print_keys(const struct sample *s, char *text, size_t size) {
    struct printer p = {.text = text, .size = size};
    put_keys(&p, s);
    return (int)p.used;
}

int sample_print(const struct sample *s, char *text, size_t size) {
    struct printer p = {.text = text, .size = size};
    put(&p, "{");
    put_keys(&p, s);
    put_number(&p, ", \"time_s\": {\"median\": ", s->median_s);
    put_number(&p, ", \"least\": ", s->least_s);
    put_number(&p, ", \"most\": ", s->most_s);
    put(&p, "}, \"rounds\": %d, \"verified\": %s}", s->rounds, s->is_verified ? "true" : "false");
    return (int)p.used;
}

int sample_print_name(const struct sample *s, char *text, size_t size) {
    const struct sample_kind *const kind = &kinds[s->quantity];
    struct printer p = {.text = text, .size = size};
    put(&p, "%s", kind->name);
    for (int i = 0; i < kind->key_count; ++i) {
        const struct sample_key *const key = &kind->keys[i];
        if (key->words)
            put(&p, " %s", key->words[s->value[i]]);
        else
            put(&p, " %s=%lld", key->name, s->value[i]);
    }
    return (int)p.used;
}
