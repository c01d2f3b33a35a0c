// SPDX-License-Identifier: GPL-3.0-or-later
/* One prediction as an entry of a baseline. */
#include "report/check_view.h"
#include "report/table.h"

#include <talloc.h>

/* "L48 d6144 E96 K2 G4"; takes o. */
static const char *short_text(void *memory, json_t *o, const char *(*text)(json_t *, char *)) {
    char label[LABEL_MAX];
    const char *const copy = o ? talloc_strdup(memory, text(o, label)) : NULL;
    json_decref(o);
    return copy;
}

/* With a target the loss is given, and more tokens are no gain: what reaching it takes counts. */
static bool has_metric(const struct report_point *point, enum baseline_metric metric) {
    const struct problem *const problem = point->problem;
    const bool has_target = objective_has_target(problem->objective);
    switch (metric) {
    case BASELINE_TOKENS:
        return point->has_tokens && !has_target;
    case BASELINE_LOSS:
        return point->has_tokens;
    case BASELINE_DAYS:
    case BASELINE_GPU_HOURS:
        return point->has_tokens && has_target;
    case BASELINE_COST:
        return point->has_tokens && has_target && problem->cluster.price_usd_per_gpu_h > 0.0;
    case BASELINE_MFU:
    case BASELINE_STEP_TIME:
    case BASELINE_MEMORY:
    case BASELINE_RATE:
    case BASELINE_METRICS:
        break;
    }
    return true;
}

static enum mosaic_status add_metrics(void *memory, const struct report_point *point,
                                      struct baseline_numbers *out, struct status_error *err) {
    const struct prediction *const p = &point->prediction;
    const struct problem *const problem = point->problem;
    const double seconds = point->has_tokens ? point->run.seconds : 0.0;
    const double values[BASELINE_METRICS] = {[BASELINE_MFU] = p->mfu,
                                             [BASELINE_STEP_TIME] = p->step_time_s,
                                             [BASELINE_MEMORY] = p->memory.total,
                                             [BASELINE_RATE] = p->tokens_per_s_per_gpu,
                                             [BASELINE_TOKENS] = point->run.tokens,
                                             [BASELINE_LOSS] = point->run.loss,
                                             [BASELINE_DAYS] = seconds / UNITS_SECONDS_PER_DAY,
                                             [BASELINE_GPU_HOURS] =
                                                 problem_gpu_hours(problem, seconds),
                                             [BASELINE_COST] = problem_cost(problem, seconds)};
    for (int i = 0; i < BASELINE_METRICS; ++i)
        if (has_metric(point, (enum baseline_metric)i))
            TRY(baseline_add(memory, out, baseline_metric_info((enum baseline_metric)i)->key,
                             values[i], err));
    return MOSAIC_OK;
}

static enum mosaic_status add_loss_terms(void *memory, const struct report_point *point,
                                         struct baseline_numbers *out, struct status_error *err) {
    const struct problem *const problem = point->problem;
    const struct law_point at = candidate_point(problem, &point->geometry, point->run.tokens);
    struct law_terms t;
    law_evaluate(&problem->law, &at, &t);
    TRY(baseline_add(memory, out, "size", t.size, err));
    TRY(baseline_add(memory, out, "data", t.data, err));
    TRY(baseline_add(memory, out, "sparsity", t.sparsity, err));
    TRY(baseline_add(memory, out, "joint", t.joint, err));
    return baseline_add(memory, out, "floor", t.floor, err);
}

static enum mosaic_status add_terms(void *memory, const struct report_point *point,
                                    struct baseline_entry *entry, struct status_error *err) {
    const char *name;
    double value;
    for (int i = 0; (name = time_term(&point->prediction.split, i, &value)) != NULL; ++i)
        TRY(baseline_add(memory, &entry->time_split, name, value, err));
    for (int i = 0; (name = memory_item(&point->prediction.memory, i, &value)) != NULL; ++i)
        TRY(baseline_add(memory, &entry->memory, name, value, err));
    TRY(baseline_add(memory, &entry->memory, "capacity", point->prediction.capacity_bytes, err));
    return point->has_tokens ? add_loss_terms(memory, point, &entry->loss_terms, err) : MOSAIC_OK;
}

enum mosaic_status check_entry(void *memory, const struct document *document,
                               const struct report_point *point, struct baseline_entry *entry,
                               struct status_error *err) {
    TRY(baseline_inputs(memory, document, entry, err));
    entry->is_infeasible = !point || point->prediction.verdict == VERDICT_NO;
    if (!point)
        return MOSAIC_OK;
    const struct problem *const problem = point->problem;
    entry->model = short_text(memory, build_geometry(&point->geometry, problem->workload.sequence),
                              table_geometry_text);
    entry->layout = short_text(memory, build_layout(problem, &point->geometry, &point->layout),
                               table_layout_text);
    if (!entry->model || !entry->layout)
        return status_no_memory(err);
    if (!entry->is_infeasible)
        TRY(add_metrics(memory, point, &entry->metrics, err));
    return add_terms(memory, point, entry, err);
}
