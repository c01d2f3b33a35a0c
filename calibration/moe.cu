// SPDX-License-Identifier: GPL-3.0-or-later
/* The quantity `moe_layer`: one rank's time for the layer of moe_layer.h, alone or among ranks. */
#include "group.h"
#include "moe_layer.h"
#include "quantity.h"

#include <string.h>

static struct moe_sizes sizes_asked(const struct probe *p, const struct sample *asked) {
    struct moe_sizes s = {};
    s.tokens = asked_value(asked, "tokens");
    s.hidden = asked_value(asked, "hidden");
    s.inner = asked_value(asked, "ffn");
    s.experts = asked_value(asked, "experts");
    s.top_k = asked_value(asked, "top_k");
    s.ranks = asked_value(asked, "ranks");
    s.rank = s.ranks > 1 ? group_rank(p) : 0;
    return s;
}

static void queue_forward(struct probe *p, void *context) {
    moe_forward(p, (const struct moe *)context);
}
static void queue_backward(struct probe *p, void *context) {
    moe_backward(p, (const struct moe *)context);
}
static void meet(struct probe *p, void *) {
    group_barrier(p);
}

/* Multiply-adds are two; three matrices forward; backward two of them anew and two
 * gradients of each. */
static double flop_of(const struct moe_sizes *s, bool is_backward) {
    const double matrix = 2.0 * (double)s->hidden * (double)s->inner;
    return (double)(s->tokens * s->top_k) * matrix * (is_backward ? 2.0 + 6.0 : 3.0);
}

static void measure_moe(struct probe *p, const struct sample *asked, struct measured *out) {
    const struct moe_sizes sizes = sizes_asked(p, asked);
    const bool is_backward = strcmp(asked_word(asked, "pass"), "backward") == 0;
    struct moe moe = moe_take(p, &sizes);
    struct work work = {};
    work.queue = is_backward ? queue_backward : queue_forward;
    work.context = &moe;
    /* Ranks must queue it equally often. */
    work.calls = sizes.ranks > 1 ? 1 : CALLS_FILL;
    if (sizes.ranks > 1)
        work.prepare = meet;
    timing_measure(p, &work, &out->timing);
    out->how = sizes.ranks > 1 ? "cuBLAS batches, own moves, NCCL" : "cuBLAS batches, own moves";
    measured_add(out, "flop_per_s", flop_of(&sizes, is_backward) / out->timing.time_s.median);
    measured_add(out, "rows_of_expert", (double)moe.capacity);
}

/* Experts that rows do not divide among, so that some are padded. */
static void check_moe(struct probe *p, const struct sample *asked) {
    const long ranks = asked_value(asked, "ranks");
    struct moe_sizes sizes = sizes_asked(p, asked);
    sizes.tokens = 13;
    sizes.hidden = 40;
    sizes.inner = 24;
    sizes.experts = 3 * ranks;
    sizes.top_k = 2;
    const struct moe moe = moe_take(p, &sizes);
    moe_compare(p, &moe);
}

const struct quantity moe_layer_quantity = {SAMPLE_MOE_LAYER, false, measure_moe, check_moe};
