// SPDX-License-Identifier: GPL-3.0-or-later
/* Device and host bytes of a stage against what there is. */
#include "plan/stage_need.h"

#include <math.h>

void stage_need_of(const struct step_context *ctx, const struct layer_table *table,
                   const struct mesh *mesh, struct stage_range range, struct stage_need *out) {
    struct memory_items items;
    stage_memory_of(ctx, table, mesh, range, &items);
    out->device_bytes = items.total;
    out->host_bytes =
        stage_host_bytes(ctx, table, mesh, range) * (double)ctx->cluster->gpus_per_node;
}

static bool host_fits(const struct step_context *ctx, const struct stage_need *need) {
    const double capacity = ctx->cluster->host_memory_bytes;
    return !(capacity > 0.0 && need->host_bytes > capacity);
}

bool stage_need_fits(const struct step_context *ctx, const struct stage_need *need) {
    return memory_verdict(ctx, need->device_bytes) != VERDICT_NO && host_fits(ctx, need);
}

double stage_need_scaled(const struct step_context *ctx, const struct stage_need *need) {
    const double device = ctx->cluster->device.memory_bytes, host = ctx->cluster->host_memory_bytes;
    if (!(host > 0.0) || !(need->host_bytes > 0.0))
        return need->device_bytes;
    const double scaled = need->host_bytes / host * device;
    /* Rounding must not decide. */
    return fmax(need->device_bytes, host_fits(ctx, need)
                                        ? fmin(scaled, device)
                                        : fmax(scaled, nextafter(device, (double)INFINITY)));
}

bool stage_need_is_host(const struct step_context *ctx, const struct stage_need *need) {
    return memory_verdict(ctx, need->device_bytes) != VERDICT_NO && !host_fits(ctx, need);
}

void split_need_of(const struct step_context *ctx, const struct layer_table *table,
                   const struct mesh *mesh, const struct split *split, struct stage_need *out) {
    *out = (struct stage_need){0};
    for (int i = 0; i < mesh->pp; ++i) {
        struct stage_need need;
        const struct stage_range range = {i, split->first[i], split->first[i + 1]};
        stage_need_of(ctx, table, mesh, range, &need);
        out->device_bytes = fmax(out->device_bytes, need.device_bytes);
        out->host_bytes = fmax(out->host_bytes, need.host_bytes);
    }
}
