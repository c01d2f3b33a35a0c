// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * `workload` of a plan.  How uneven experts are loaded is one number, or the tokens of each expert,
 * either under a capacity: an expert takes at most capacity_factor x the mean, the rest is dropped.
 * For one number that bounds the busiest rank; for a list it bounds each expert, and the drop
 * follows.
 */
#include "doc/plan_parts.h"
#include "step/context.h"

#include <math.h>

enum { SEQUENCE_MAX = 16777216, GLOBAL_BATCH_MAX = 1 << 26, CAPACITY_MAX = 1024 };
#define IMBALANCE_MAX 1024
#define COUNT_MAX 1e18
/* 1/3 as people write it: 0.333333. */
#define CAPACITY_SLACK 1e-5
#define BYTES_PER_GB 1e9

static const char *const precision_words[] = {"bf16", "fp8", "mxfp8", "nvfp4", NULL};
static const char *const optimizer_words[] = {"adamw", "muon", NULL};

static const struct field workload_fields[] = {
    {.key = "sequence",
     .kind = FIELD_INT,
     .fallback = "2048",
     FIELD_AT(struct workload_section, sequence),
     .min = 1,
     .max = SEQUENCE_MAX,
     .help = "tokens of a sequence"},
    {.key = "global_batch",
     .kind = FIELD_INT,
     .fallback = "1024",
     FIELD_AT(struct workload_section, global_batch),
     .min = 1,
     .max = GLOBAL_BATCH_MAX,
     .help = "sequences of a step"},
    {.key = "precision",
     .kind = FIELD_ENUM,
     .words = precision_words,
     .fallback = "bf16",
     FIELD_AT(struct workload_section, precision),
     .help = "precision of the matrix multiplications"},
    {.key = "optimizer",
     .kind = FIELD_ENUM,
     .words = optimizer_words,
     .fallback = "adamw",
     FIELD_AT(struct workload_section, optimizer),
     .help = "optimizer"},
    {.key = "vocab",
     .kind = FIELD_INT,
     .fallback = "50257",
     FIELD_AT(struct workload_section, vocab),
     .min = 1,
     .max = GEOMETRY_MAX_VOCAB,
     .help = "rows of the embedding where the model states none"},
    {.key = "imbalance",
     .kind = FIELD_NUMBER,
     .fallback = "1.0",
     FIELD_AT(struct workload_section, imbalance),
     .min = 1,
     .max = IMBALANCE_MAX,
     .help = "tokens of the busiest expert rank over the mean"},
    {.key = "expert_tokens",
     .kind = FIELD_LIST,
     .item = FIELD_NUMBER,
     FIELD_AT(struct workload_section, expert_tokens),
     .min = 0,
     .max = COUNT_MAX,
     .help = "tokens of each expert, as measured, in place of imbalance"},
    {.key = "capacity_factor",
     .kind = FIELD_NUMBER,
     .fallback = "none",
     .flags = FIELD_NONE_OK | FIELD_OPEN_MIN,
     FIELD_AT(struct workload_section, capacity_factor),
     .max = COUNT_MAX,
     .none = (double)INFINITY,
     .help = "an expert takes at most this times the mean: upper limit on imbalance; none for no "
             "limit"},
    {.key = "unique_tokens",
     .kind = FIELD_QUANTITY,
     .dimension = DIM_COUNT,
     .fallback = "none",
     .flags = FIELD_NONE_OK | FIELD_OPEN_MIN,
     FIELD_AT(struct workload_section, unique_tokens),
     .max = COUNT_MAX,
     .none = (double)INFINITY,
     .help = "tokens that there are; beyond them data repeat; none for no limit"},
};
const struct schema plan_workload_schema =
    SCHEMA("workload", struct workload_section, workload_fields);

void plan_workload(const struct workload_section *w, struct workload *out) {
    *out = (struct workload){.sequence = w->sequence,
                             .global_batch = w->global_batch,
                             .precision = (enum precision)w->precision,
                             .optimizer = w->optimizer == 1 ? OPTIMIZER_MUON : OPTIMIZER_ADAMW,
                             .vocab = w->vocab,
                             .imbalance = fmin(w->imbalance, w->capacity_factor),
                             .has_capacity = isfinite(w->capacity_factor)};
}

/* Below 1/k not one copy of each token has a place; far above, the buffers are all there is. */
static enum mosaic_status check_capacity(struct loader *l, const struct node *node,
                                         const struct workload_section *s,
                                         const struct problem *p) {
    const double factor = s->capacity_factor;
    const struct place place = loader_place(node, "capacity_factor");
    const struct geometry *least = NULL;
    for (size_t i = 0; i < p->geometries.count; ++i) {
        const struct geometry *const g = &p->geometries.items[i];
        if (g->experts > 0 && (!least || g->top_k < least->top_k))
            least = g;
    }
    if (!least || isinf(factor))
        return MOSAIC_OK;
    if (factor * (double)least->top_k < 1.0 - CAPACITY_SLACK) {
        (void)diag_error(l->diags, &place,
                         "capacity_factor %g holds less than one copy of each token: %g x top_k %d "
                         "= %g",
                         factor, factor, least->top_k, factor * (double)least->top_k);
        diag_hint(l->diags, "at least 1/%d = %.4g", least->top_k, 1.0 / (double)least->top_k);
        return MOSAIC_BAD_INPUT;
    }
    if (factor > CAPACITY_MAX) {
        const double bytes = factor * (double)least->top_k * (double)s->sequence *
                             (double)least->hidden * (double)BYTES_BF16;
        (void)diag_error(l->diags, &place,
                         "capacity_factor %g reserves %g x top_k %d x %d tokens x hidden %d x %d "
                         "bytes = %.4g GB a layer for one sequence",
                         factor, factor, least->top_k, s->sequence, least->hidden, BYTES_BF16,
                         bytes / BYTES_PER_GB);
        diag_hint(l->diags, "at most %d; experts/top_k holds all tokens on one expert",
                  CAPACITY_MAX);
        return MOSAIC_BAD_INPUT;
    }
    return MOSAIC_OK;
}

static enum mosaic_status check_tokens(struct loader *l, const struct node *node,
                                       const struct number_list *tokens, const struct problem *p) {
    const struct place place = loader_place(node, "expert_tokens");
    double most = 0.0;
    for (size_t i = 0; i < tokens->count; ++i)
        most = fmax(most, tokens->items[i]);
    if (most <= 0.0)
        return diag_error(l->diags, &place, "expert_tokens: no expert has a token");
    const struct node *const imbalance = node_find(node, "imbalance");
    if (imbalance) {
        (void)diag_error(l->diags, &imbalance->place,
                         "imbalance and expert_tokens both say how uneven the experts are");
        diag_hint(l->diags, "state one of them");
        return MOSAIC_BAD_INPUT;
    }
    for (size_t i = 0; i < p->geometries.count; ++i) {
        const int experts = p->geometries.items[i].experts;
        if ((size_t)experts == tokens->count)
            continue;
        (void)diag_error(l->diags, &place, "expert_tokens lists %zu experts, but %s has %d",
                         tokens->count, p->geometries.count == 1 ? "the model" : "a geometry",
                         experts);
        diag_hint(l->diags, "one number an expert, and a model with that many");
        return MOSAIC_BAD_INPUT;
    }
    return MOSAIC_OK;
}

/* Tokens above the capacity are dropped. */
static void cap_tokens(struct number_list *tokens, double capacity_factor, double *dropped) {
    double total = 0.0, kept = 0.0;
    for (size_t i = 0; i < tokens->count; ++i)
        total += tokens->items[i];
    const double most = capacity_factor * total / (double)tokens->count;
    for (size_t i = 0; i < tokens->count; ++i) {
        tokens->items[i] = fmin(tokens->items[i], most);
        kept += tokens->items[i];
    }
    *dropped = fmax(0.0, 1.0 - kept / total);
}

static bool are_equal(const struct number_list *list) {
    for (size_t i = 1; i < list->count; ++i)
        if (list->items[i] < list->items[0] || list->items[i] > list->items[0])
            return false;
    return true;
}

enum mosaic_status plan_routing(struct loader *l, const struct node *root,
                                struct workload_section *s, struct problem *p) {
    const struct node *const node = node_find(root, "workload");
    struct number_list *const tokens = &s->expert_tokens;
    if (!node)
        return MOSAIC_OK;
    TRY(check_capacity(l, node, s, p));
    if (tokens->count == 0)
        return MOSAIC_OK;
    TRY(check_tokens(l, node, tokens, p));
    if (!isinf(s->capacity_factor)) {
        const struct node *const stated = node_at(root, "execution.dropped");
        if (stated)
            return diag_error(l->diags, &stated->place,
                              "'dropped' follows from expert_tokens and capacity_factor");
        cap_tokens(tokens, s->capacity_factor, &p->workload.execution.dropped);
    }
    p->workload.imbalance = 1.0;
    if (are_equal(tokens))
        return MOSAIC_OK; /* balanced: to the last bit what no list gives */
    p->workload.expert_tokens = tokens->items;
    p->workload.expert_count = (int)tokens->count;
    return MOSAIC_OK;
}
