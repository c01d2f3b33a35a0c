// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What the step model says of an expert layer alone (quantity moe_layer), by the calibration just
 * fitted: the terms of step/expert_cost.c without router, norm and residual,
 *   forward   permutation + experts + dispatch and combine
 *   backward  theirs, and the forward again: the experts are recomputed
 * at the burst rate, as the layer was measured.  The model counts two bytes a number; where the
 * device's have four, memory is so much slower and payloads are so much larger.
 */
#include "fit/sample_fit_parts.h"

#include "machine/collective.h"
#include "step/block.h"

/* One domain of just those ranks, with what the data sheet says of a device. */
static void cluster_of(const struct sample_facts *facts, int ranks, struct cluster *out) {
    const struct cluster *const given = facts->cluster;
    *out =
        (struct cluster){.device = {.memory_bytes = 1.0, .hbm_bytes_per_s = facts->hbm_bytes_per_s},
                         .nodes = 1,
                         .gpus_per_node = ranks,
                         .tiers = {{"domain", ranks, 1.0, 0.0}},
                         .tier_count = 1};
    if (given && given->tier_count > 0) {
        out->tiers[0].bytes_per_s = given->tiers[0].bytes_per_s;
        out->tiers[0].latency_s = given->tiers[0].latency_s;
    }
    for (int i = 0; i < PRECISION_COUNT; i++)
        out->device.peak_flop_per_s[i] = facts->peak_flop_per_s[i];
}

static void geometry_of(const struct sample *s, struct geometry *out) {
    *out = (struct geometry){.layers = 1,
                             .hidden = (int)sample_value(s, "hidden"),
                             .heads = 1,
                             .kv_heads = 1,
                             .head_dim = 2,
                             .v_head_dim = 2,
                             .ffn_matrices = 3,
                             .expert_ffn = (int)sample_value(s, "ffn"),
                             .experts = (int)sample_value(s, "experts"),
                             .top_k = (int)sample_value(s, "top_k"),
                             .granularity = 1.0,
                             .vocab = 2};
}

/* One way, of the device's own numbers; false: neither measured nor a link known. */
static bool exchange_s(const struct sample_facts *facts, const struct step_context *ctx,
                       struct group group, double payload_bytes, double *seconds) {
    struct collective_path path;
    static const enum collective_kind kind = COLLECTIVE_ALL_TO_ALL;
    *seconds = 0.0;
    if (group.ranks <= 1)
        return true;
    collective_paths_of(&ctx->network, group, &kind, 1, &path);
    if (!path.is_measured && !facts->cluster)
        return false;
    *seconds =
        collective_path_s(&path, payload_bytes * sample_number_bytes(facts) / BYTES_BF16, NULL);
    return true;
}

bool sample_layer_seconds(const struct sample_fit *fit, const struct sample_facts *facts,
                          const struct sample *s, double *seconds) {
    const int ranks = (int)sample_value(s, "ranks");
    const double *const scalar = fit->calibration.scalar;
    struct geometry geometry;
    struct cluster cluster;
    const struct engine engine = {.vocab_pad_unit = 1};
    const struct workload workload = {.sequence = (int)sample_value(s, "tokens"),
                                      .global_batch = 1,
                                      .precision = PRECISION_BF16,
                                      .vocab = 2,
                                      .imbalance = 1.0};
    const struct mesh mesh = {.tp = 1,
                              .cp = 1,
                              .pp = 1,
                              .vpp = 1,
                              .ep = ranks,
                              .etp = 1,
                              .dp = ranks,
                              .micro_batch = 1,
                              .micro_batches = 1,
                              .recompute = RECOMPUTE_NONE};
    struct step_context ctx;
    struct lookup_count lookups = {{0}};
    double payload_bytes = 0.0, one_way_s = 0.0;
    if (!(facts->hbm_bytes_per_s > 0.0) || !(facts->peak_flop_per_s[PRECISION_BF16] > 0.0))
        return false;
    geometry_of(s, &geometry);
    cluster_of(facts, ranks, &cluster);
    step_context_init(&ctx, &geometry, &cluster, &fit->calibration, &workload, &engine,
                      estimator_default());
    ctx.gemm_flop_per_s /= scalar[CAL_GEMM_SUSTAINED];
    ctx.gemm16_flop_per_s /= scalar[CAL_GEMM_SUSTAINED];
    ctx.hbm_bytes_per_s *= BYTES_BF16 / sample_number_bytes(facts);
    struct block b = {.ctx = &ctx,
                      .shape = &mesh,
                      .tokens = (double)workload.sequence,
                      .tokens_tp = (double)workload.sequence,
                      .heads = 1.0,
                      .kv_heads = 1.0,
                      .lookups = &lookups};
    moe_block(&b, &payload_bytes);
    if (!exchange_s(facts, &ctx, (struct group){ranks, 1}, payload_bytes, &one_way_s))
        return false;
    const double forward_s = b.work.forward.permute_s + b.expert_forward_s + 2.0 * one_way_s;
    const double backward_s = b.work.backward.permute_s + b.expert_backward_s + 2.0 * one_way_s;
    const bool is_forward =
        sample_value(s, "pass") == fitting_word(SAMPLE_MOE_LAYER, "pass", "forward");
    *seconds = is_forward ? forward_s : forward_s + backward_s;
    return true;
}
