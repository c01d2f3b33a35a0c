// SPDX-License-Identifier: GPL-3.0-or-later
/* Filling the stages of a mesh one after the other. */
#include "plan/split_room.h"

#include "step/memory.h"

static bool is_judged(const struct step_context *ctx, const struct layer_table *table,
                      const struct mesh *mesh) {
    const struct execution *const e = &ctx->workload->execution;
    return mesh->pp > 1 && mesh->vpp == 1 && ctx->engine.uneven_stages && !table->is_mixable &&
           !ctx->estimator.pipeline_fraction && !workload_stages(ctx->workload, mesh) &&
           !(e->bucket_params > 0.0) && !(e->checkpoint_host_bytes > 0.0);
}

static bool fits(const struct memory_form *form, struct stage_range range) {
    const struct step_context *const ctx = form->ctx;
    const double flight = stage_in_flight(form->mesh, range.stage);
    struct stage_content content;
    struct memory_items items;
    stage_content_of(ctx, form->table, form->mesh, range, &content);
    memory_of_stage(form, &content, flight, &items);
    return memory_verdict(ctx, items.total) != VERDICT_NO &&
           memory_host_fits(ctx, memory_host_bytes(form, &content, flight) *
                                     (double)stage_gpus_most(ctx, form->mesh, range.stage));
}

/* The most layers from `first` on that a stage holds, at most up to `limit`; a stage like the one
 * before holds about as many. */
static int fill(const struct memory_form *form, int stage, int first, int limit, int guess) {
    int last = first + guess < limit ? first + guess : limit;
    while (last < limit && fits(form, (struct stage_range){stage, first, last + 1}))
        ++last;
    if (last > first + guess)
        return last;
    while (last > first && !fits(form, (struct stage_range){stage, first, last}))
        --last;
    return last;
}

bool split_has_room(const struct step_context *ctx, const struct layer_table *table,
                    const struct mesh *mesh) {
    if (!is_judged(ctx, table, mesh))
        return true;
    struct memory_form form;
    memory_form_of(ctx, table, mesh, &form);
    const int layers = ctx->geometry->layers;
    int first = 0, guess = layers / mesh->pp;
    for (int stage = 0; stage < mesh->pp; ++stage) {
        const int limit = layers - (mesh->pp - 1 - stage);
        const int last = fill(&form, stage, first, limit, guess);
        if (last == first)
            return false;
        guess = last - first;
        first = last;
    }
    return first == layers;
}
