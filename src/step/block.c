// SPDX-License-Identifier: GPL-3.0-or-later
/* What the parts of a layer share. */
#include "step/block.h"

double block_collective(const struct block *b, enum collective_kind kind, struct group group,
                        double bytes) {
    return collective_time_s(&b->ctx->network, kind, group, bytes, b->lookups);
}

double block_exposed_share(const struct block *b, enum overlap bit, enum scalar plain,
                           enum scalar overlapped) {
    const bool overlaps = (b->ctx->workload->execution.overlap & (unsigned)bit) != 0;
    return b->ctx->calibration->scalar[overlaps ? overlapped : plain];
}

void block_tp_collectives(struct block *b, struct group group, double bytes, bool with_recompute) {
    const double exposed = block_exposed_share(b, OVERLAP_TP, CAL_TP_EXPOSED, CAL_TP_OVERLAPPED);
    const double forward_s = block_collective(b, COLLECTIVE_ALL_GATHER, group, bytes) +
                             block_collective(b, COLLECTIVE_REDUCE_SCATTER, group, bytes);
    const double passes =
        1.0 + b->ctx->calibration->scalar[CAL_TP_BACKWARD] + (with_recompute ? 1.0 : 0.0);
    b->cost.tp_s += exposed * passes * forward_s;
    b->cost.forward_s += exposed * forward_s;
}

bool block_is_full(const struct block *b) {
    return b->shape->recompute == RECOMPUTE_FULL;
}

bool block_runs_again(const struct block *b, enum module module) {
    return b->shape->recompute == RECOMPUTE_SELECTIVE &&
           (b->ctx->selective & (unsigned)module) != 0;
}

struct module_start module_begin(struct block *b, enum module module) {
    const struct module_start start = {kernel_times_sum(&b->work.forward), b->work.forward_flop,
                                       b->is_inside};
    b->is_inside = b->is_inside || block_runs_again(b, module);
    return start;
}

void module_end(struct block *b, enum module module, struct module_start start,
                const double saved[OFFLOADS]) {
    b->is_inside = start.was_inside;
    if (start.was_inside || !block_runs_again(b, module))
        return;
    b->cost.recompute_s += kernel_times_sum(&b->work.forward) - start.forward_s;
    b->cost.recompute_flop += b->work.forward_flop - start.flop;
    for (int i = 0; saved && i < OFFLOADS; ++i)
        b->saved[i] += saved[i];
}

struct group block_tp_group(const struct block *b) {
    return (struct group){b->shape->tp, 1};
}
