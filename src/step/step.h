// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The evaluator: one geometry (in the context), one mesh shape's layer table, one mesh, one split
 * of the layers -> one prediction.  It allocates nothing, reads const structs and fills the
 * caller's.
 *
 * With stage times t_i (one micro-batch, forward + backward), m micro-batches and v chunks a stage,
 *   step = A max_i t_i + B sum_i t_i + tail,
 * where the tail (exposed data-parallel collectives, optimizer) is the largest over the stages and
 *   A = s (m - k), B = k + (1 - s)(m - k) / p,
 * with s the share of the slowest stage's excess over the mean that shows (calibration, 1 = all),
 * k the schedule's bubble in stages:
 *   1F1B 1, interleaved 1/v,
 *   zero-bubble 1 - 2W/(F + B)            (ZB-H1, arXiv 2401.10241),
 *   DualPipe    (p/2 - 1)/(p - 1) (F + 2B - 3W)/(F + B)   (arXiv 2412.19437, table 2),
 * F forward, B backward, W its part for the weights, of the whole model.
 */
#ifndef MOSAIC_STEP_STEP_H
#define MOSAIC_STEP_STEP_H

#include "step/prediction.h"
#include "step/stage_content.h"
#include "step/stage_policies.h"

/* One stage, one micro-batch. */
struct stage_cost {
    double busy_s;     /* t_i */
    double gather_s;   /* of it: exposed gathering of sharded weights */
    double offload_s;  /* of it: exposed copies of activations to the host and back */
    double dispatch_s; /* of it: waiting for the host's launches */
    double forward_s;  /* of it: forward */
    double dense_params, expert_params; /* on one GPU */
    double head_elsewhere;              /* as of a stage's content */
    double tail_s; /* gradients, optimizer step and weights, as if no other stage gave slack */
};

/* Work of a micro-batch in forward passes: backward takes two, one more when it recomputes all. */
double step_passes(const struct mesh *mesh);

/* Coefficients of the pipeline's step time. */
struct pipeline_form {
    double max_weight, sum_weight; /* A, B */
};
struct pipeline_form pipeline_form_of(const struct step_context *ctx,
                                      const struct layer_table *table, const struct mesh *mesh);

void stage_cost_of(const struct step_context *ctx, const struct layer_table *table,
                   const struct mesh *mesh, struct stage_range range, struct stage_cost *out);
/* Bytes on one GPU of that stage. */
void stage_memory_of(const struct step_context *ctx, const struct layer_table *table,
                     const struct mesh *mesh, struct stage_range range, struct memory_items *out);
/* What of a memory total the process itself allocates: all but reserve and fragmentation. */
double memory_allocated(const struct memory_items *items);
enum verdict memory_verdict(const struct step_context *ctx, double total_bytes);

/* Everything about one point.  stages (may be NULL) takes mesh->pp entries. */
void step_predict(const struct step_context *ctx, const struct layer_table *table,
                  const struct mesh *mesh, const struct split *split, struct prediction *out,
                  struct memory_items *stages);

/* The same with the tables at hand that step_predict would fill for a mixed split; views may be
 * NULL for any other. */
struct stage_pricing {
    const struct layer_table *table;
    const struct mesh *mesh;
    const struct policy_views *views;
};
void step_predict_of(const struct step_context *ctx, const struct stage_pricing *pricing,
                     const struct split *split, struct prediction *out,
                     struct memory_items *stages);

/* Growth of the step with the number of GPUs (stragglers), >= 1. */
double step_straggler_factor(const struct step_context *ctx);
/* What multiplies the time of a split: stragglers and what measured steps say of the model. */
double step_factor(const struct step_context *ctx);

/* Factor from a predicted step time to either end of its 90 % interval; sigma is a prediction's. */
double step_interval_spread(double sigma);

/* Whether a prediction may be used: finite, positive, MFU <= 1. */
bool step_is_plausible(const struct prediction *p);

/* Seconds of one step with every stage given its fair share of the layers, no imbalance, the least
 * tail and no memory limit: never above step_predict of any split of this mesh (default estimator).
 */
double step_bound(const struct step_context *ctx, const struct layer_table *table,
                  const struct mesh *mesh);
/* Bytes that some stage of every split of this mesh needs at least. */
double step_memory_bound(const struct step_context *ctx, const struct layer_table *table,
                         const struct mesh *mesh);

#endif
