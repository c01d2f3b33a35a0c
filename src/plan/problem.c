// SPDX-License-Identifier: GPL-3.0-or-later
/* A problem owns its lists of geometries, of ways and of draws of its law, nothing else. */
#include "plan/problem.h"

#include "base/units.h"
#include "step/stage_policies.h"

#include <stdlib.h>

void problem_free(struct problem *p) {
    if (!p)
        return;
    free(p->geometries.items);
    p->geometries.items = NULL;
    p->geometries.count = 0;
    free(p->law_draws.items);
    p->law_draws.items = NULL;
    p->law_draws.count = 0;
    free(p->ways.items);
    p->ways = (struct way_list){0};
}

double problem_gpu_hours(const struct problem *p, double seconds) {
    return seconds / UNITS_SECONDS_PER_HOUR * (double)cluster_gpus(&p->cluster);
}

double problem_cost(const struct problem *p, double seconds) {
    const double price = p->cluster.price_usd_per_gpu_h;
    return problem_gpu_hours(p, seconds) * (price > 0.0 ? price : 1.0);
}

int problem_ways(const struct problem *p) {
    return p->ways.count > 0 ? p->ways.count : 1;
}

const struct workload *problem_workload(const struct problem *p, int way) {
    return p->ways.count > 0 ? &p->ways.items[way] : &p->workload;
}

void problem_context(const struct problem *p, const struct geometry *g, int way,
                     struct step_context *out) {
    step_context_init(out, g, &p->cluster, &p->calibration, problem_workload(p, way), &p->engine,
                      p->estimator);
    out->way = way;
    context_mix_policies(out, p->layouts.recompute);
}

void problem_resize(struct problem *p, int nodes) {
    struct cluster *const c = &p->cluster;
    c->nodes = nodes;
    struct tier *const outer = &c->tiers[c->tier_count - 1];
    if (outer->domain < cluster_gpus(c))
        outer->domain = cluster_gpus(c);
    budget_resize(&p->budget, nodes, cluster_gpus(c));
}

void problem_on(const struct problem *p, int nodes, struct problem *out) {
    *out = *p;
    problem_resize(out, nodes);
}
