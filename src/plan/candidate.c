// SPDX-License-Identifier: GPL-3.0-or-later
/* From a step time to tokens, loss and score. */
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

/* Until the loss of the law is down to the target; no fewer tokens than the least ratio. */
static bool train_to_target(const struct problem *problem, const struct law *law,
                            const struct geometry *g, double n_active_law, struct training *out) {
    const struct space_limits *const limits = &problem->limits;
    const struct law_point start = candidate_point(problem, g, 1.0);
    const double worth = law_tokens_for_loss(law, &start, problem->budget.target_loss);
    out->tokens =
        isfinite(limits->unique_tokens) ? form_repeat_needed(worth, limits->unique_tokens) : worth;
    out->limited_by = TOKENS_BY_TARGET;
    const double least = limits->tokens_per_active_min * n_active_law;
    if (out->tokens < least) {
        out->tokens = least;
        out->limited_by = TOKENS_BY_LEAST_RATIO;
    }
    return out->tokens <= limits->tokens_per_active_max * n_active_law && out->tokens > 0.0 &&
           isfinite(out->tokens);
}

/* Small is good. */
static double score_of(const struct problem *problem, const struct training *t) {
    switch (problem->objective) {
    case OBJECTIVE_TIME:
        return t->seconds;
    case OBJECTIVE_COST:
        return problem_cost(problem, t->seconds);
    case OBJECTIVE_TOKENS:
        return -t->tokens;
    case OBJECTIVE_LOSS:
    case OBJECTIVES:
        break;
    }
    return t->loss;
}

bool candidate_train(const struct problem *problem, const struct law *law, const struct geometry *g,
                     double step_time_s, struct training *out) {
    const struct workload *const w = &problem->workload;
    const struct budget *const budget = &problem->budget;
    struct param_counts counts;
    count_params(g, &counts);
    *out = (struct training){.seconds = budget->seconds};
    if (objective_has_target(problem->objective)) {
        if (!train_to_target(problem, law, g, counts.n_active_law, out))
            return false;
        const double step_tokens = (double)w->global_batch * (double)w->sequence;
        out->seconds = out->tokens / step_tokens * step_time_s / budget->goodput;
        if (!(out->seconds <= budget->seconds))
            return false;
        out->spare_seconds = isfinite(budget->seconds) ? budget->seconds - out->seconds : 0.0;
    } else {
        out->tokens = candidate_tokens(problem, counts.n_active_law, step_time_s,
                                       &out->spare_seconds, &out->limited_by);
        if (!(out->tokens > 0.0))
            return false;
        out->seconds -= out->spare_seconds;
    }
    const struct law_point point = candidate_point(problem, g, out->tokens);
    out->outside = law_outside(law, &point);
    out->loss = law_loss(law, &point);
    out->score = score_of(problem, out);
    return isfinite(out->loss) && isfinite(out->score);
}

bool candidate_fill(const struct problem *problem, size_t index, const struct best_layout *layout,
                    struct candidate *out) {
    const struct geometry *const g = &problem->geometries.items[index];
    struct param_counts counts;
    count_params(g, &counts);
    *out = (struct candidate){
        .index = index, .layout = layout->layout, .step_time_s = layout->step_time_s};
    if (!candidate_train(problem, &problem->law, g, layout->step_time_s, &out->run))
        return false;
    out->model_flops = 6.0 * counts.n_active_law * out->run.tokens;
    return true;
}

int candidate_compare(const struct problem *problem, const struct candidate *a,
                      const struct candidate *b) {
    if (a->run.score != b->run.score)
        return a->run.score < b->run.score ? -1 : 1;
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
