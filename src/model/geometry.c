// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a geometry may be, and the order of two of them.  One table gives every whole-number field
// its name and range; its order is the order of comparison.  Rules that tie fields together stand
// in one function a group below.
#include "model/geometry.h"

#include "model/count.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

struct int_field {
    const char *name;
    size_t offset;
    int min, max;
};

#define FIELD(name, min, max)                                                                      \
    { #name, offsetof(struct geometry, name), (min), (max) }
// Granularity, the one real number, is compared after this many fields.
enum { FIELDS_BEFORE_GRANULARITY = 5 };
static const struct int_field fields[] = {
    FIELD(ladder_q, 0, GEOMETRY_MAX_LAYERS / 4), // 4q layers
    FIELD(hidden, 1, GEOMETRY_MAX_HIDDEN),
    FIELD(layers, 1, GEOMETRY_MAX_LAYERS),
    FIELD(experts, 0, GEOMETRY_MAX_EXPERTS),
    FIELD(top_k, 0, GEOMETRY_MAX_EXPERTS),
    FIELD(first_dense, 0, GEOMETRY_MAX_LAYERS),
    FIELD(heads, 1, GEOMETRY_MAX_HEADS),
    FIELD(kv_heads, 0, GEOMETRY_MAX_HEADS),
    FIELD(head_dim, 1, GEOMETRY_MAX_HIDDEN),
    FIELD(v_head_dim, 1, GEOMETRY_MAX_HIDDEN),
    FIELD(q_rank, 0, GEOMETRY_MAX_HIDDEN),
    FIELD(kv_rank, 0, GEOMETRY_MAX_HIDDEN),
    FIELD(rope_dim, 0, GEOMETRY_MAX_HIDDEN),
    FIELD(ffn_matrices, 2, 3),
    FIELD(dense_ffn, 0, GEOMETRY_MAX_FFN),
    FIELD(expert_ffn, 0, GEOMETRY_MAX_FFN),
    FIELD(node_limit, 0, GEOMETRY_MAX_EXPERTS),
    FIELD(shared_experts, 0, GEOMETRY_MAX_EXPERTS),
    FIELD(shared_ffn, 0, GEOMETRY_MAX_FFN),
    FIELD(window, 0, INT_MAX),
    FIELD(window_layers, 0, GEOMETRY_MAX_LAYERS),
    FIELD(mtp_layers, 0, GEOMETRY_MAX_LAYERS),
    FIELD(vocab, 1, GEOMETRY_MAX_VOCAB),
};
enum { FIELD_COUNT = sizeof fields / sizeof fields[0] };

static const double GRANULARITY_MIN = 1e-3, GRANULARITY_MAX = 1e6;
static const double EXACT_MAX = 9007199254740992.0; // 2^53
static const double LADDER_FFN_PER_HIDDEN = 2.5;    // arXiv 2608.10605, section 7.1

static int field_value(const struct geometry *g, const struct int_field *field) {
    int value;
    memcpy(&value, (const char *)g + field->offset, sizeof value);
    return value;
}

int geometry_moe_layers(const struct geometry *g) {
    return g->layers - g->first_dense;
}

double geometry_reference_granularity(const struct geometry *g) {
    if (g->expert_ffn <= 0) {
        return 1;
    }
    const double dense = g->dense_ffn > 0 ? g->dense_ffn : LADDER_FFN_PER_HIDDEN * g->hidden;
    return dense / g->expert_ffn;
}

static int order(double a, double b) {
    return (a > b) - (a < b);
}

static int compare_fields(const struct geometry *a, const struct geometry *b, int first, int end) {
    int result = 0;
    for (int i = first; i < end && result == 0; i++) {
        result = order(field_value(a, &fields[i]), field_value(b, &fields[i]));
    }
    return result;
}

int geometry_compare(const struct geometry *a, const struct geometry *b) {
    int result = compare_fields(a, b, 0, FIELDS_BEFORE_GRANULARITY);
    if (result == 0) {
        result = order(a->granularity, b->granularity);
    }
    if (result == 0) {
        result = compare_fields(a, b, FIELDS_BEFORE_GRANULARITY, FIELD_COUNT);
    }
    if (result == 0) {
        result = order(a->attention, b->attention);
    }
    return result != 0 ? result : order(a->tied, b->tied);
}

static enum mosaic_status check_ranges(const struct geometry *g, struct status_error *err) {
    for (int i = 0; i < FIELD_COUNT; i++) {
        const int value = field_value(g, &fields[i]);
        if (value < fields[i].min || value > fields[i].max) {
            return status_set(err, MOSAIC_BAD_INPUT, "%s is %d; it must lie in %d to %d",
                              fields[i].name, value, fields[i].min, fields[i].max);
        }
    }
    if (!(g->granularity >= GRANULARITY_MIN && g->granularity <= GRANULARITY_MAX)) {
        return status_set(err, MOSAIC_BAD_INPUT, "granularity is %g; it must be %g to %g",
                          g->granularity, GRANULARITY_MIN, GRANULARITY_MAX);
    }
    return MOSAIC_OK;
}

static enum mosaic_status check_gqa(const struct geometry *g, struct status_error *err) {
    // The ladder keeps 8 KV heads at every seed, so odd seeds do not divide; they count all the
    // same.
    const bool is_ladder = g->ladder_q > 0;
    if (g->kv_heads < 1 || (!is_ladder && g->heads % g->kv_heads != 0)) {
        return status_set(err, MOSAIC_BAD_INPUT, "heads %d is not a multiple of kv_heads %d",
                          g->heads, g->kv_heads);
    }
    if (g->q_rank != 0 || g->kv_rank != 0 || g->rope_dim != 0) {
        return status_set(err, MOSAIC_BAD_INPUT,
                          "q_rank %d, kv_rank %d, rope_dim %d belong to attention mla, this is gqa",
                          g->q_rank, g->kv_rank, g->rope_dim);
    }
    return MOSAIC_OK;
}

static enum mosaic_status check_mla(const struct geometry *g, struct status_error *err) {
    if (g->kv_rank < 1) {
        return status_set(err, MOSAIC_BAD_INPUT, "attention mla needs kv_rank, 1 or more");
    }
    if (g->kv_heads != 0) {
        (void)status_set(err, MOSAIC_BAD_INPUT,
                         "kv_heads is %d; attention mla has no key/value heads of its own",
                         g->kv_heads);
        status_hint(err, "leave kv_heads out");
        return MOSAIC_BAD_INPUT;
    }
    return MOSAIC_OK;
}

static enum mosaic_status check_attention(const struct geometry *g, struct status_error *err) {
    if (g->window_layers > g->layers) {
        return status_set(err, MOSAIC_BAD_INPUT, "window_layers %d exceeds layers %d",
                          g->window_layers, g->layers);
    }
    if ((g->window > 0) != (g->window_layers > 0)) {
        return status_set(err, MOSAIC_BAD_INPUT,
                          "window %d with window_layers %d: give both or neither", g->window,
                          g->window_layers);
    }
    switch (g->attention) {
    case ATTENTION_GQA:
        return check_gqa(g, err);
    case ATTENTION_MLA:
        return check_mla(g, err);
    }
    return status_set(err, MOSAIC_BAD_INPUT, "attention kind %d is unknown", (int)g->attention);
}

static enum mosaic_status check_dense(const struct geometry *g, struct status_error *err) {
    if (g->first_dense != g->layers) {
        return status_set(err, MOSAIC_BAD_INPUT,
                          "a model without experts is dense: first_dense is %d, layers %d",
                          g->first_dense, g->layers);
    }
    if (g->top_k != 0 || g->expert_ffn != 0 || g->shared_experts != 0 || g->node_limit != 0) {
        return status_set(err, MOSAIC_BAD_INPUT,
                          "a model without experts has top_k %d, expert_ffn %d, shared_experts %d, "
                          "node_limit %d",
                          g->top_k, g->expert_ffn, g->shared_experts, g->node_limit);
    }
    return MOSAIC_OK;
}

static enum mosaic_status check_moe(const struct geometry *g, struct status_error *err) {
    if (g->first_dense >= g->layers) {
        return status_set(err, MOSAIC_BAD_INPUT,
                          "%d experts, but first_dense %d leaves none of the %d layers for them",
                          g->experts, g->first_dense, g->layers);
    }
    if (g->top_k < 1 || g->top_k > g->experts) {
        return status_set(err, MOSAIC_BAD_INPUT, "top_k is %d; with %d experts it must be 1 to %d",
                          g->top_k, g->experts, g->experts);
    }
    if (g->expert_ffn < 1) {
        return status_set(err, MOSAIC_BAD_INPUT, "%d experts need expert_ffn, 1 or more",
                          g->experts);
    }
    return MOSAIC_OK;
}

static enum mosaic_status check_ffn(const struct geometry *g, struct status_error *err) {
    TRY(g->experts > 0 ? check_moe(g, err) : check_dense(g, err));
    if (g->first_dense > 0 && g->dense_ffn < 1) {
        return status_set(err, MOSAIC_BAD_INPUT, "%d dense layers need dense_ffn, 1 or more",
                          g->first_dense);
    }
    if ((g->shared_experts > 0) != (g->shared_ffn > 0)) {
        return status_set(err, MOSAIC_BAD_INPUT,
                          "shared_experts %d with shared_ffn %d: give both or neither",
                          g->shared_experts, g->shared_ffn);
    }
    return MOSAIC_OK;
}

enum mosaic_status geometry_check(const struct geometry *g, struct status_error *err) {
    TRY(check_ranges(g, err));
    TRY(check_attention(g, err));
    TRY(check_ffn(g, err));

    struct param_counts n;
    count_params(g, &n);
    if (!(n.n_total + n.n_mtp <= EXACT_MAX)) {
        return status_set(err, MOSAIC_BAD_INPUT,
                          "%g parameters: counts are exact only up to 2^53, about 9.0e15",
                          n.n_total + n.n_mtp);
    }
    return MOSAIC_OK;
}
