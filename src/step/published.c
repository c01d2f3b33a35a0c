// SPDX-License-Identifier: GPL-3.0-or-later
/* The paper's composition of the step; kept beside the default one to be compared with it. */
#include "step/published.h"

#include "step/data_parallel.h"

#include <math.h>

double published_state_bytes(enum optimizer optimizer) {
    return optimizer == OPTIMIZER_MUON ? 6.0 : 10.0;
}

/* chi = 1 + c_a2a (t_a2a / t) [EP spans nodes] + c_pp (nodes(PP) - 1)
 *         + c_ovl [PP >= GPUs per node, within one node by the release's count]. */
static double chi_of(const struct step_context *ctx, const struct layer_table *table,
                     const struct mesh *mesh, double step_s) {
    const double *const scalar = ctx->calibration->scalar;
    const int per_node = ctx->cluster->gpus_per_node;
    const int ep_nodes = (mesh->ep * mesh->tp + per_node - 1) / per_node;
    const int pp_nodes = (mesh->pp + per_node - 1) / per_node;
    const double stage_layers = ceil((double)ctx->geometry->layers / (double)mesh->pp);
    const double all_to_all_s =
        (double)mesh->micro_batches * stage_layers * table->cost[LAYER_MOE].all_to_all_s;
    double chi = 1.0;
    if (ep_nodes > 1)
        chi += scalar[CAL_CHI_ALL_TO_ALL] * all_to_all_s / step_s;
    chi += scalar[CAL_CHI_PIPELINE] * (double)(pp_nodes - 1);
    if (mesh->pp >= per_node && pp_nodes == 1)
        chi += scalar[CAL_CHI_OVERLAP];
    return fmax(chi, scalar[CAL_CHI_FLOOR]);
}

/* The first stage (and PP = 1) fully exposed, the others beyond a window of one micro-batch's
 * compute for the gradients and one for the weights; averaged over the stages. */
static double average_exposed_s(const struct mesh *mesh, const struct data_parallel *dp,
                                double compute_s) {
    const double all_s = dp->reduce_s + dp->gather_s;
    if (mesh->pp == 1)
        return all_s;
    const double beyond_s =
        fmax(0.0, dp->reduce_s - compute_s) + fmax(0.0, dp->gather_s - compute_s);
    return (all_s + (double)(mesh->pp - 1) * beyond_s) / (double)mesh->pp;
}

void published_compose(const struct step_context *ctx, const struct layer_table *table,
                       const struct mesh *mesh, struct prediction *out) {
    const double *const scalar = ctx->calibration->scalar;
    const struct geometry *const g = ctx->geometry;
    const double m = (double)mesh->micro_batches, p = (double)mesh->pp;
    const double layers = ceil((double)g->layers / p);
    /* A stage's share of the dense layers only counts where there is a single stage. */
    const int moe_layers = geometry_moe_layers(g);
    const double dense = moe_layers == 0 ? layers
                         : mesh->pp == 1 ? (double)(g->layers - moe_layers)
                                         : 0.0;
    const double moe = layers - dense;
    const struct layer_cost *const dense_cost = &table->cost[LAYER_DENSE];
    const struct layer_cost *const moe_cost = &table->cost[LAYER_MOE];
    const double compute_s = dense * dense_cost->gpu_s + moe * moe_cost->gpu_s;
    const double host_s =
        dense * dense_cost->host_s + moe * moe_cost->host_s + scalar[CAL_HOST_MICRO_BATCH];
    const double micro_batch_s = fmax(compute_s, host_s);
    const double fraction = (p - 1.0) / ((double)mesh->vpp * m);
    const double first_s = table->embedding.gpu_s;
    const double last_s =
        table->head_s + (double)g->mtp_layers * table->cost[table->mtp_kind].gpu_s;

    struct time_split *const t = &out->split;
    add_layers(t, dense_cost, m * dense);
    add_layers(t, moe_cost, m * moe);
    t->dispatch_exposed_s = m * (micro_batch_s - compute_s);
    t->bubble_s = fraction * m * (micro_batch_s + last_s);
    t->head_loss_s = mesh->pp == 1 ? m * (first_s + last_s)
                                   : (m - 1.0) * fmax(first_s, last_s) + first_s + last_s;
    t->pp_exposed_s = m * hand_off_time(ctx, table, mesh, &out->lookups) *
                      (ctx->estimator.hidden_hand_off ? 1.0 : scalar[CAL_PP_EXPOSED]);

    struct stage_cost stage = {.busy_s = compute_s,
                               .dense_params = dense * table->params[LAYER_DENSE].dense +
                                               moe * table->params[LAYER_MOE].dense,
                               .expert_params = moe * table->params[LAYER_MOE].expert};
    struct shard_links links;
    struct data_parallel dp;
    shard_links_of(ctx, mesh, &links);
    data_parallel_of(ctx, table, mesh, &links, &stage, &out->lookups, &dp);
    t->dp_exposed_s = ctx->estimator.dp_average ? average_exposed_s(mesh, &dp, compute_s)
                                                : dp.reduce_exposed_s + dp.gather_exposed_s;
    t->optimizer_s = dp.optimizer_s;
    const double step_s = time_split_sum(t);
    if (ctx->estimator.chi)
        t->correction_s = (chi_of(ctx, table, mesh, step_s) - 1.0) * step_s;
}
