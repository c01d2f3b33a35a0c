// SPDX-License-Identifier: GPL-3.0-or-later
/* Device and host bytes of a stage against what there is. */
#include "plan/stage_need.h"

#include "step/memory.h"

#include <math.h>

void stage_need_of(const struct step_context *ctx, const struct layer_table *table,
                   const struct mesh *mesh, struct stage_range range, struct stage_need *out) {
    struct memory_form form;
    struct stage_content c;
    struct memory_items items;
    memory_form_of(ctx, table, mesh, &form);
    stage_content_of(ctx, table, mesh, range, &c);
    const double flight = stage_in_flight(mesh, range.stage);
    memory_of_stage(&form, &c, flight, &items);
    out->device_bytes = items.total;
    out->host_bytes =
        memory_host_bytes(&form, &c, flight) * (double)stage_gpus_most(ctx, mesh, range.stage);
}

bool stage_need_is_shared(const struct step_context *ctx, const struct mesh *mesh) {
    return mesh->pp > 1 && mesh->tp * mesh->cp * mesh->dp % ctx->cluster->gpus_per_node != 0;
}

bool stage_need_fits(const struct step_context *ctx, const struct stage_need *need) {
    return memory_verdict(ctx, need->device_bytes) != VERDICT_NO &&
           memory_host_fits(ctx, need->host_bytes);
}

double stage_need_scaled(const struct step_context *ctx, const struct stage_need *need) {
    const double device = ctx->cluster->device.memory_bytes, host = ctx->cluster->host_memory_bytes;
    if (!(host > 0.0) || !(need->host_bytes > 0.0))
        return need->device_bytes;
    const double scaled = need->host_bytes / host * device;
    /* Rounding must not decide. */
    return fmax(need->device_bytes, memory_host_fits(ctx, need->host_bytes)
                                        ? fmin(scaled, device)
                                        : fmax(scaled, nextafter(device, (double)INFINITY)));
}

void split_need_of(const struct step_context *ctx, const struct layer_table *table,
                   const struct mesh *mesh, const struct split *split, struct stage_need *out) {
    struct prediction p;
    step_predict(ctx, table, mesh, split, &p, NULL);
    *out = (struct stage_need){p.memory.total, p.host_node_bytes};
}
