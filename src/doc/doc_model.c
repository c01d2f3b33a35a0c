// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * mosaic-model/1: one model, either by its shape or by its place on the paper's ladder
 * (arXiv 2608.10605, section 7.1).
 */
#include "doc/sections.h"

#include "model/ladder.h"

#include <string.h>

enum { LADDER_Q_MAX = GEOMETRY_MAX_LAYERS / 4 }; /* 4q layers */
enum { PATH_TEXT_MAX = 64 }; /* "search.geometry.list[4095].model.granularity" */

struct ladder_section {
    int q, experts, top_k, granularity;
};

struct model_section {
    const char *name, *source;
    struct ladder_section ladder;
    struct geometry shape;
    int attention;
    bool has_ladder, has_layers, has_head_dim, has_v_head_dim, has_kv_heads, has_first_dense;
    bool has_granularity, has_shared_ffn, has_vocab;
    struct string_list unmodelled;
    bool is_approximate;
};

#define LADDER(member, least, most, text)                                                          \
    {                                                                                              \
        .key = #member, .kind = FIELD_INT, .flags = FIELD_REQUIRED,                                \
        FIELD_AT(struct ladder_section, member), .min = (least), .max = (most), .help = (text)     \
    }
static const struct field ladder_fields[] = {
    LADDER(q, 1, LADDER_Q_MAX, "seed: 4q layers, width 512q"),
    LADDER(experts, 1, GEOMETRY_MAX_EXPERTS, "routed experts per MoE layer"),
    LADDER(top_k, 1, GEOMETRY_MAX_EXPERTS, "routed experts used per token"),
    LADDER(granularity, 1, GEOMETRY_MAX_FFN, "FFN width over expert width"),
};
static const struct schema ladder_schema = SCHEMA("ladder", struct ladder_section, ladder_fields);

static const char *const attention_words[] = {"gqa", "mla", NULL};

/* Ranges and the rules between fields are geometry_check's; the table keeps a value in an int. */
#define SHAPE_OF(member, most, text)                                                               \
    .key = #member, .kind = FIELD_INT, .offset = offsetof(struct model_section, shape.member),     \
    .max = (most), .help = (text)
#define SHAPE(member, most, text)                                                                  \
    { SHAPE_OF(member, most, text) }
#define SHAPE_IF(member, most, text)                                                               \
    { SHAPE_OF(member, most, text), FIELD_PRESENCE(struct model_section, has_##member) }
static const struct field model_fields[] = {
    {.key = "name",
     .kind = FIELD_STRING,
     FIELD_AT(struct model_section, name),
     .help = "name of the model"},
    {.key = "source",
     .kind = FIELD_STRING,
     FIELD_AT(struct model_section, source),
     .help = "where the shape comes from"},
    {.key = "ladder",
     .kind = FIELD_MAPPING,
     .nested = &ladder_schema,
     FIELD_AT(struct model_section, ladder),
     FIELD_PRESENCE(struct model_section, has_ladder),
     .help = "place on the paper's ladder; no other shape is given then"},
    SHAPE_IF(layers, GEOMETRY_MAX_LAYERS, "decoder layers, without MTP layers"),
    SHAPE_IF(first_dense, GEOMETRY_MAX_LAYERS,
             "leading layers with a dense FFN; 0 when left out, all without experts"),
    SHAPE(hidden, GEOMETRY_MAX_HIDDEN, "model width"),
    {.key = "attention",
     .kind = FIELD_ENUM,
     .words = attention_words,
     .fallback = "gqa",
     FIELD_AT(struct model_section, attention),
     .help = "grouped-query or multi-head latent attention"},
    SHAPE(heads, GEOMETRY_MAX_HEADS, "query heads"),
    SHAPE_IF(kv_heads, GEOMETRY_MAX_HEADS, "key/value heads; as many as heads when left out"),
    SHAPE_IF(head_dim, GEOMETRY_MAX_HIDDEN,
             "width of a query/key head (mla: without the RoPE part); hidden/heads when left out"),
    SHAPE_IF(v_head_dim, GEOMETRY_MAX_HIDDEN, "width of a value head; head_dim when left out"),
    SHAPE(q_rank, GEOMETRY_MAX_HIDDEN, "mla: rank of the query projection, 0 for a full one"),
    SHAPE(kv_rank, GEOMETRY_MAX_HIDDEN, "mla: rank of the joint key/value projection"),
    SHAPE(rope_dim, GEOMETRY_MAX_HIDDEN, "mla: width of the decoupled RoPE part of a head"),
    {.key = "ffn_matrices",
     .kind = FIELD_INT,
     .offset = offsetof(struct model_section, shape.ffn_matrices),
     .fallback = "3",
     .min = 2,
     .max = 3,
     .help = "3 for a gated FFN, 2 for a plain one"},
    SHAPE(dense_ffn, GEOMETRY_MAX_FFN, "width of a dense layer's FFN"),
    SHAPE(expert_ffn, GEOMETRY_MAX_FFN, "width of one routed expert"),
    SHAPE(experts, GEOMETRY_MAX_EXPERTS, "routed experts per MoE layer; 0 for a dense model"),
    SHAPE(top_k, GEOMETRY_MAX_EXPERTS, "routed experts used per token"),
    SHAPE(node_limit, GEOMETRY_MAX_EXPERTS,
          "nodes that the experts of a token may lie on, 0 for any number"),
    SHAPE(shared_experts, GEOMETRY_MAX_EXPERTS, "always-active experts per MoE layer"),
    SHAPE_IF(shared_ffn, GEOMETRY_MAX_FFN, "width of one shared expert; expert_ffn when left out"),
    {.key = "granularity",
     .kind = FIELD_NUMBER,
     .offset = offsetof(struct model_section, shape.granularity),
     FIELD_PRESENCE(struct model_section, has_granularity),
     .flags = FIELD_OPEN_MIN,
     .max = GEOMETRY_MAX_FFN,
     .help = "the law's G; FFN width over expert width when left out"},
    SHAPE(window, GEOMETRY_MAX_VOCAB, "sliding window in tokens, 0 for none"),
    SHAPE(window_layers, GEOMETRY_MAX_LAYERS, "layers that use the window"),
    SHAPE(mtp_layers, GEOMETRY_MAX_LAYERS, "multi-token-prediction layers"),
    SHAPE_IF(vocab, GEOMETRY_MAX_VOCAB, "rows of the embedding, unpadded"),
    {.key = "tied",
     .kind = FIELD_BOOL,
     .offset = offsetof(struct model_section, shape.tied),
     .fallback = "false",
     .help = "input embedding and LM head share one matrix"},
    {.key = "unmodelled",
     .kind = FIELD_LIST,
     .item = FIELD_STRING,
     .flags = FIELD_EMPTY_OK,
     FIELD_AT(struct model_section, unmodelled),
     .help = "what the model has and no key here tells; refused unless approx"},
    {.key = "approx",
     .kind = FIELD_BOOL,
     .fallback = "false",
     FIELD_AT(struct model_section, is_approximate),
     .help = "take the model without what is unmodelled"},
};
const struct schema doc_model_schema =
    SCHEMA_DOCUMENT("model", "mosaic-model/1", struct model_section, model_fields);

/* What a ladder's document may hold beside `ladder`. */
static bool goes_with_ladder(const char *key) {
    static const char *const keys[] = {"schema", "name", "source", "ladder", "vocab"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; ++i)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

static enum mosaic_status from_ladder(struct loader *l, const struct node *node,
                                      const struct model_section *s, struct geometry *out) {
    for (size_t i = 0; i < node->count; ++i) {
        const struct node *const item = node->items[i];
        if (!goes_with_ladder(item->key))
            return diag_error(l->diags, &item->key_place,
                              "'%s' beside 'ladder': the ladder gives the whole shape", item->key);
    }
    struct status_error err;
    if (ladder_geometry(s->ladder.q, s->ladder.experts, s->ladder.top_k, s->ladder.granularity,
                        s->shape.vocab, out, &err) != MOSAIC_OK) {
        const struct place place = loader_place(node, "ladder");
        return diag_from_error(l->diags, &place, &err);
    }
    return MOSAIC_OK;
}

static void derive_heads(const struct model_section *s, struct geometry *g) {
    if (!s->has_head_dim && g->heads > 0)
        g->head_dim = g->hidden / g->heads;
    if (!s->has_v_head_dim)
        g->v_head_dim = g->head_dim;
    if (!s->has_kv_heads && g->attention == ATTENTION_GQA)
        g->kv_heads = g->heads;
}

/* What follows from the rest where the document leaves it out. */
static void derive(const struct model_section *s, struct geometry *g) {
    g->attention = s->attention == 1 ? ATTENTION_MLA : ATTENTION_GQA;
    derive_heads(s, g);
    if (!s->has_first_dense)
        g->first_dense = g->experts > 0 ? 0 : g->layers;
    if (!s->has_shared_ffn && g->shared_experts > 0)
        g->shared_ffn = g->expert_ffn;
    if (!s->has_granularity)
        g->granularity = geometry_reference_granularity(g);
}

/* Made of a Hugging Face config.json: some of its values stand in no file. */
static bool is_imported(const struct node *node) {
    for (size_t i = 0; i < node->count; ++i)
        if (node->items[i]->place.source && node->items[i]->place.source->is_derived)
            return true;
    return false;
}

/* Such a config states the width of a dense FFN although no layer has one: it is kept for what it
 * still decides. */
static void explain_width(struct loader *l, const struct node *node, const char *prefix,
                          const struct geometry *g) {
    static const char key[] = "dense_ffn";
    char path[PATH_TEXT_MAX];
    if (!(g->dense_ffn > 0) || g->first_dense > 0 || !is_imported(node))
        return;
    (void)snprintf(path, sizeof path, "%s%s%s", prefix, prefix[0] ? "." : "", key);
    for (size_t i = 0; i < l->value_count; ++i)
        if (strcmp(l->values[i].path, path) == 0) {
            l->values[i].origin = DOCUMENT_DERIVED;
            l->values[i].help = "no layer is dense: sets the law's granularity only";
        }
}

/* Things that pass and that their author may not have meant (user cases U03, U04). */
static void warn(struct loader *l, const struct node *node, const struct model_section *s,
                 const struct geometry *g) {
    if (!s->has_head_dim) {
        diag_warning(l->diags, &node->place, "'head_dim' is left out and taken as hidden/heads: %d",
                     g->head_dim);
        diag_hint(l->diags, "models with another head width are common; state it");
    }
    if (g->dense_ffn > 0 && g->first_dense == 0 && !is_imported(node)) {
        const struct place place = loader_place(node, "dense_ffn");
        diag_note(l->diags, &place, "'dense_ffn' %d is unused: no layer is dense", g->dense_ffn);
    }
}

/* geometry_check names the field first: "heads 32 is not a multiple of kv_heads 5". */
static struct place place_of(const struct node *node, const struct status_error *err) {
    char key[STATUS_QUOTE_MAX];
    const size_t length = strcspn(err->message, " ");
    if (length >= sizeof key)
        return node->place;
    memcpy(key, err->message, length);
    key[length] = '\0';
    const struct node *const member = node_find(node, key);
    return member ? member->place : node->place;
}

/* Values of the shape that the document left out. */
static enum mosaic_status record_derived(struct loader *l, const char *prefix,
                                         const struct model_section *s, const struct geometry *g) {
    const struct {
        const char *key;
        bool is_given;
        double value;
    } rows[] = {
        {"first_dense", s->has_first_dense, g->first_dense},
        {"kv_heads", s->has_kv_heads || g->attention == ATTENTION_MLA, g->kv_heads},
        {"head_dim", s->has_head_dim, g->head_dim},
        {"v_head_dim", s->has_v_head_dim, g->v_head_dim},
        {"shared_ffn", s->has_shared_ffn || g->shared_experts == 0, g->shared_ffn},
        {"granularity", s->has_granularity, g->granularity},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        char path[PATH_TEXT_MAX], text[UNITS_TEXT_MAX];
        if (rows[i].is_given)
            continue;
        (void)snprintf(path, sizeof path, "%s%s%s", prefix, prefix[0] ? "." : "", rows[i].key);
        (void)snprintf(text, sizeof text, "%.17g", rows[i].value);
        TRY(loader_record(l, path, text, DOCUMENT_DERIVED, "follows from the others", NULL));
    }
    return MOSAIC_OK;
}

/* Structure that counts would leave out is refused, or named where that is wanted. */
static enum mosaic_status check_unmodelled(struct loader *l, const struct node *node,
                                           const char *prefix, const struct model_section *s) {
    const struct node *const list = node_find(node, "unmodelled");
    for (size_t i = 0; i < s->unmodelled.count; ++i) {
        const struct node *const item = list->kind == NODE_SEQUENCE ? list->items[i] : list;
        if (s->is_approximate) {
            diag_warning(l->diags, &item->place, "approximate: %s", s->unmodelled.items[i]);
        } else {
            (void)diag_error(l->diags, &item->place, "%s", s->unmodelled.items[i]);
            diag_hint(l->diags, "--set %s%sapprox=true takes the model without it", prefix,
                      prefix[0] ? "." : "");
        }
    }
    return s->unmodelled.count == 0 || s->is_approximate ? MOSAIC_OK : MOSAIC_BAD_INPUT;
}

static enum mosaic_status from_shape(struct loader *l, const struct node *node, const char *prefix,
                                     const struct model_section *s, struct geometry *out) {
    if (!s->has_layers)
        return diag_error(l->diags, &node->place, "a model needs 'layers' or 'ladder'");
    struct geometry g = s->shape;
    derive(s, &g);
    struct status_error err;
    if (geometry_check(&g, &err) != MOSAIC_OK) {
        const struct place place = place_of(node, &err);
        return diag_from_error(l->diags, &place, &err);
    }
    TRY(record_derived(l, prefix, s, &g));
    explain_width(l, node, prefix, &g);
    warn(l, node, s, &g);
    *out = g;
    return MOSAIC_OK;
}

enum mosaic_status doc_model_bind(struct loader *l, const struct node *node, const char *prefix,
                                  int vocab, struct geometry *geometry, const char **name) {
    struct model_section s = {.shape = {.vocab = vocab}};
    TRY(loader_bind(l, &doc_model_schema, node, prefix, &s));
    TRY(check_unmodelled(l, node, prefix, &s));
    if (s.shape.vocab < 1) {
        (void)diag_error(l->diags, &node->place, "'vocab' is missing");
        diag_hint(l->diags, "rows of the embedding, e.g. vocab: 50257");
        return MOSAIC_BAD_INPUT;
    }
    TRY(s.has_ladder ? from_ladder(l, node, &s, geometry)
                     : from_shape(l, node, prefix, &s, geometry));
    if (name)
        *name = s.name ? s.name : "";
    return MOSAIC_OK;
}
