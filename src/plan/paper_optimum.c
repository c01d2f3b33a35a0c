// SPDX-License-Identifier: GPL-3.0-or-later
/* The compute optimum, on the declared grid and with N continuous. */
#include "plan/paper_optimum.h"

#include <math.h>

static int bin_of(const struct search_result *search, double sparsity) {
    for (int b = 0; b < search->bin_count - 1; ++b)
        if (sparsity < search->bins[b].high)
            return b;
    return search->bin_count - 1;
}

static void scan_grid(const struct problem *problem, struct search_result *search,
                      struct paper_optimum *out) {
    const struct space_limits *const limits = &problem->limits;
    for (size_t i = 0; i < problem->geometries.count; ++i) {
        struct param_counts counts;
        count_params(&problem->geometries.items[i], &counts);
        const double tokens = out->model_flops / (6.0 * counts.n_active_law);
        const double ratio = tokens / counts.n_active_law;
        if (ratio < limits->tokens_per_active_min || ratio > limits->tokens_per_active_max)
            continue;
        const double loss = candidate_loss(problem, i, tokens, NULL);
        if (!out->has_grid || loss < out->loss) {
            out->has_grid = true;
            out->index = i;
            out->tokens = tokens;
            out->loss = loss;
            out->sparsity = counts.sparsity;
        }
        struct sparsity_bin *const bin = &search->bins[bin_of(search, counts.sparsity)];
        if (!bin->has_model_flops || loss < bin->loss_model_flops) {
            bin->has_model_flops = true;
            bin->loss_model_flops = loss;
            bin->model_flops_sparsity = counts.sparsity;
        }
    }
}

/* The declared ceiling of S, or the sparsest candidate where none is declared. */
static double sparsity_ceiling(const struct problem *problem) {
    double sparsest = 0.0;
    for (size_t i = 0; i < problem->geometries.count; ++i) {
        struct param_counts counts;
        count_params(&problem->geometries.items[i], &counts);
        sparsest = fmax(sparsest, counts.sparsity);
    }
    return problem->limits.sparsity_max < 1.0 ? problem->limits.sparsity_max : sparsest;
}

enum mosaic_status paper_optimum_find(const struct problem *problem, double model_flops,
                                      struct search_result *search, struct paper_optimum *out,
                                      struct status_error *err) {
    *out = (struct paper_optimum){.model_flops = model_flops};
    scan_grid(problem, search, out);
    if (!out->has_grid)
        return MOSAIC_OK;
    out->granularity = problem->geometries.items[out->index].granularity;
    out->sparsity_max = sparsity_ceiling(problem);
    if (!(out->sparsity_max > 0.0) || problem->law_counts_experts)
        return MOSAIC_OK; /* dense models: nothing to choose; experts: S is no share of N */
    /* A budget that leads the continuous optimum out of the law's range leaves it out. */
    out->has_continuous = law_optimum_bounded(&problem->law, model_flops, out->granularity, 0.0,
                                              out->sparsity_max, &out->bounded, err) == MOSAIC_OK &&
                          law_optimum_free(&problem->law, model_flops, out->granularity, &out->free,
                                           err) == MOSAIC_OK;
    return MOSAIC_OK;
}
