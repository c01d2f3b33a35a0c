// SPDX-License-Identifier: GPL-3.0-or-later
/* From a step time to tokens and loss. */
#include "plan/candidate.h"

#include "law/form_repeat.h"

#include <math.h>

double candidate_tokens(const struct problem *problem, double n_active_law, double step_time_s,
                        double *spare_seconds, enum token_limit *limited_by) {
    const struct workload *const w = &problem->workload;
    const double seconds = problem->budget.seconds * problem->budget.goodput;
    const double rate = (double)w->global_batch * (double)w->sequence / step_time_s;
    const double bought = rate * seconds;
    *spare_seconds = 0.0;
    *limited_by = TOKENS_BY_BUDGET;
    double tokens = bought;
    const double most = problem->limits.tokens_per_active_max * n_active_law;
    if (tokens > most) {
        tokens = most;
        *limited_by = TOKENS_BY_RATIO;
    }
    if (tokens < problem->limits.tokens_per_active_min * n_active_law)
        return 0.0;
    *spare_seconds = problem->budget.seconds * (1.0 - tokens / bought);
    return tokens;
}

double candidate_epochs(const struct problem *problem, double tokens) {
    const double unique = problem->limits.unique_tokens;
    return isfinite(unique) ? tokens / unique : 0.0;
}

struct law_point candidate_point(const struct problem *problem, const struct geometry *g,
                                 double tokens) {
    struct param_counts counts;
    count_params(g, &counts);
    const double unique = problem->limits.unique_tokens;
    double sparsity = counts.sparsity;
    if (problem->law_counts_experts)
        sparsity = g->experts > 0 ? 1.0 - (double)g->top_k / (double)g->experts : 0.0;
    else if (problem->law_counts_all)
        sparsity = 1.0 - counts.n_active / counts.n_total;
    return (struct law_point){
        .n_total = problem->law_counts_all ? counts.n_total : counts.n_total_law,
        .tokens = isfinite(unique) ? form_repeat_tokens(tokens, unique) : tokens,
        .sparsity = sparsity,
        .granularity = g->granularity};
}

double candidate_loss(const struct problem *problem, size_t index, double tokens,
                      unsigned *outside) {
    const struct law_point point =
        candidate_point(problem, &problem->geometries.items[index], tokens);
    if (outside)
        *outside = law_outside(&problem->law, &point);
    return law_loss(&problem->law, &point);
}

bool candidate_fill(const struct problem *problem, size_t index, const struct best_layout *layout,
                    struct candidate *out) {
    struct param_counts counts;
    count_params(&problem->geometries.items[index], &counts);
    *out = (struct candidate){
        .index = index, .layout = layout->layout, .step_time_s = layout->step_time_s};
    out->tokens = candidate_tokens(problem, counts.n_active_law, layout->step_time_s,
                                   &out->spare_seconds, &out->limited_by);
    if (!(out->tokens > 0.0))
        return false;
    out->model_flops = 6.0 * counts.n_active_law * out->tokens;
    out->loss = candidate_loss(problem, index, out->tokens, &out->outside);
    return isfinite(out->loss);
}

int candidate_compare(const struct problem *problem, const struct candidate *a,
                      const struct candidate *b) {
    if (a->loss != b->loss)
        return a->loss < b->loss ? -1 : 1;
    if (a->step_time_s != b->step_time_s)
        return a->step_time_s < b->step_time_s ? -1 : 1;
    const int order = geometry_compare(&problem->geometries.items[a->index],
                                       &problem->geometries.items[b->index]);
    if (order != 0)
        return order;
    if (a->index != b->index)
        return a->index < b->index ? -1 : 1;
    return mesh_compare(&a->layout.mesh, &b->layout.mesh);
}
