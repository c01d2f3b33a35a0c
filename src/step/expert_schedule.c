// SPDX-License-Identifier: GPL-3.0-or-later
/* From an execution to balanced and chunked routes. */
#include "step/expert_schedule.h"

#include <math.h>

/* Experts that a helper borrows where one rank's load is `multiple` times the mean. */
static double foreign_experts(double ranks, double local, double multiple) {
    const double share = fmin(multiple / ranks, 1.0); /* of all routes, on the busiest rank */
    const double room = 1.0 / ranks - (1.0 - share) / (ranks - 1.0);
    const double load = share / local;
    return room > 0.0 ? fmin(ceil(room / load) + 1.0, local) : 0.0;
}

void expert_schedule_of(const struct step_context *ctx, const struct mesh *shape, double tokens,
                        struct expert_schedule *out) {
    const struct execution *const e = &ctx->workload->execution;
    const long whole_tokens = (long)ceil(tokens);
    *out = (struct expert_schedule){.imbalance = ctx->estimator.balanced_experts
                                                     ? 1.0
                                                     : workload_imbalance(ctx->workload, shape->ep),
                                    .chunks = token_chunks_at(whole_tokens, 1)};
    if (shape->ep <= 1)
        return;
    if (e->dispatch_chunk > 0)
        out->chunks = token_chunks_of(whole_tokens, e->dispatch_chunk,
                                      e->dispatch_chunks_max > 0 ? e->dispatch_chunks_max : 1);
    if (e->balance != BALANCE_LLEP || out->imbalance < ctx->calibration->scalar[CAL_LLEP_THRESHOLD])
        return;
    const double local = (double)ctx->geometry->experts / (double)shape->ep;
    out->foreign_experts = foreign_experts((double)shape->ep, local, out->imbalance);
    out->is_balanced = true;
    out->imbalance = 1.0;
}

double expert_lending_bytes(const struct step_context *ctx, const struct expert_schedule *schedule,
                            double expert_params) {
    return schedule->foreign_experts * expert_params *
           (WEIGHT_BYTES + execution_gradient_bytes(&ctx->workload->execution));
}

double expert_lending_s(const struct step_context *ctx, const struct mesh *shape,
                        const struct expert_schedule *schedule, double expert_params) {
    if (!(schedule->foreign_experts > 0.0))
        return 0.0;
    const struct group_link link = step_group_link(ctx, (struct group){shape->ep, shape->etp});
    const double weights = 2.0; /* forward and backward */
    const double bytes =
        schedule->foreign_experts * expert_params *
        (weights * WEIGHT_BYTES + execution_gradient_bytes(&ctx->workload->execution));
    return bytes / link.bytes_per_s + (weights + 1.0) * link.latency_s;
}

double expert_exchange_guarantee(const struct step_context *ctx, const struct mesh *shape,
                                 const struct expert_schedule *schedule) {
    const struct geometry *const g = ctx->geometry;
    const struct dispatch_shape dispatched = {(double)shape->ep, (double)g->top_k,
                                              (double)g->hidden, (double)g->expert_ffn, BYTES_BF16};
    return shape->ep > 1 ? chunk_guarantee_bytes(&dispatched, &schedule->chunks) : 0.0;
}
