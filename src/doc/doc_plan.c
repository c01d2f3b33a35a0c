// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * mosaic-plan/1: a cluster, a budget, a law, an engine, a workload and a space to search.  Sections
 * that other documents hold have been put in place by document.c.
 */
#include "doc/calibration_find.h"
#include "doc/doc_anchors.h"
#include "doc/doc_execution.h"
#include "doc/plan_parts.h"
#include "plan/pareto.h"

#include <math.h>
#include <string.h>

struct limits_section {
    double n_total, n_active;
};

struct tokens_section {
    struct number_range per_active_parameter;
};

struct pareto_section {
    struct number_list days, memory;
};

struct search_section {
    struct int_list nodes;
    struct pareto_section pareto;
    bool has_pareto;
    const struct node *geometry;
    struct tokens_section tokens;
    struct layout_section layout;
    struct ways_section execution;
};

struct plan_section {
    const struct node *cluster, *budget, *law, *engine, *calibration, *model;
    int nodes, estimator, objective;
    bool has_nodes, has_objective;
    struct workload_section workload;
    struct execution_section execution;
    struct limits_section limits;
    struct search_section search;
};

enum { ESTIMATOR_PUBLISHED = 1 };
#define COUNT_MAX 1e18
#define DAYS_MAX 100000

static const char *const estimator_words[] = {"default", "published", NULL};
static const char *const objective_words[] = {[OBJECTIVE_LOSS] = "loss",
                                              [OBJECTIVE_TIME] = "time",
                                              [OBJECTIVE_COST] = "cost",
                                              [OBJECTIVE_TOKENS] = "tokens",
                                              [OBJECTIVES] = NULL};

#define LIMIT(member, text)                                                                        \
    {                                                                                              \
        .key = #member, .kind = FIELD_QUANTITY, .dimension = DIM_COUNT, .fallback = "none",        \
        .flags = FIELD_NONE_OK | FIELD_OPEN_MIN, FIELD_AT(struct limits_section, member),          \
        .max = COUNT_MAX, .none = (double)INFINITY, .help = (text)                                 \
    }
static const struct field limits_fields[] = {
    LIMIT(n_total, "most total parameters, every matrix counted; none for no limit"),
    LIMIT(n_active, "most active parameters, every matrix counted; none for no limit"),
};
static const struct schema limits_schema = SCHEMA("limits", struct limits_section, limits_fields);

static const struct field tokens_fields[] = {
    {.key = "per_active_parameter",
     .kind = FIELD_RANGE,
     .fallback = "[40, 150]",
     .flags = FIELD_NONE_OK,
     FIELD_AT(struct tokens_section, per_active_parameter),
     .max = 1e12,
     .none = (double)INFINITY,
     .help = "tokens per active parameter: infeasible below, capped above"},
};
static const struct schema tokens_schema = SCHEMA("tokens", struct tokens_section, tokens_fields);

static const struct field pareto_fields[] = {
    {.key = "days",
     .kind = FIELD_LIST,
     .item = FIELD_NUMBER,
     .flags = FIELD_UNIQUE | FIELD_OPEN_MIN,
     FIELD_AT(struct pareto_section, days),
     .max = DAYS_MAX,
     .max_count = SPACE_AXIS_MAX,
     .help = "wall-clock days; the budget's own when left out"},
    {.key = "memory",
     .kind = FIELD_LIST,
     .item = FIELD_QUANTITY,
     .dimension = DIM_FRACTION,
     .flags = FIELD_UNIQUE | FIELD_OPEN_MIN,
     FIELD_AT(struct pareto_section, memory),
     .max = 1.0,
     .max_count = SPACE_AXIS_MAX,
     .help = "shares of the device's memory that may be used; all of it when left out"},
};
static const struct schema pareto_schema = SCHEMA("pareto", struct pareto_section, pareto_fields);

static const struct field search_fields[] = {
    {.key = "nodes",
     .kind = FIELD_LIST,
     .item = FIELD_INT,
     .flags = FIELD_UNIQUE,
     FIELD_AT(struct search_section, nodes),
     .min = 1,
     .max = CLUSTER_MAX_GPUS,
     .max_count = SPACE_AXIS_MAX,
     .help = "numbers of nodes to choose from; `nodes` when left out"},
    {.key = "pareto",
     .kind = FIELD_MAPPING,
     .nested = &pareto_schema,
     FIELD_AT(struct search_section, pareto),
     FIELD_PRESENCE(struct search_section, has_pareto),
     .help = "also the unbeaten plans of a grid: loss, days, GPUs, memory, price"},
    {.key = "geometry",
     .kind = FIELD_FREE,
     .nested = &plan_geometry_schema,
     FIELD_AT(struct search_section, geometry),
     .help = "geometries: a ladder's grid or a list; the paper's grid when left out"},
    {.key = "tokens",
     .kind = FIELD_MAPPING,
     .nested = &tokens_schema,
     .fallback = "{}",
     FIELD_AT(struct search_section, tokens),
     .help = "how long a model is trained"},
    {.key = "layout",
     .kind = FIELD_MAPPING,
     .nested = &plan_layout_schema,
     .fallback = "{}",
     FIELD_AT(struct search_section, layout),
     .help = "layouts; an axis left out is free"},
    {.key = "execution",
     .kind = FIELD_MAPPING,
     .nested = &plan_ways_schema,
     .fallback = "{}",
     FIELD_AT(struct search_section, execution),
     .help = "how the job may run; a key left out is as `execution` says"},
};
static const struct schema search_schema = SCHEMA("search", struct search_section, search_fields);

#define SECTION(member, table, flag, text)                                                         \
    {                                                                                              \
        .key = #member, .kind = FIELD_FREE, .nested = (table), .flags = (flag),                    \
        FIELD_AT(struct plan_section, member), .help = (text)                                      \
    }
static const struct field plan_fields[] = {
    SECTION(cluster, &doc_cluster_schema, FIELD_REQUIRED, "FILE or mapping of mosaic-cluster/1"),
    {.key = "nodes",
     .kind = FIELD_INT,
     FIELD_AT(struct plan_section, nodes),
     FIELD_PRESENCE(struct plan_section, has_nodes),
     .min = 1,
     .max = CLUSTER_MAX_GPUS,
     .help = "number of nodes; the cluster's own when left out"},
    SECTION(budget, &doc_budget_schema, 0, "time on the cluster; the cluster's own when left out"),
    {.key = "objective",
     .kind = FIELD_ENUM,
     .words = objective_words,
     FIELD_AT(struct plan_section, objective),
     FIELD_PRESENCE(struct plan_section, has_objective),
     .help =
         "what the plan is best at: loss, the least in the budget; time or cost, the least until "
         "budget.target_loss; tokens, the most; loss, or time where there is a target, when left "
         "out"},
    SECTION(
        law, &doc_law_schema, 0,
        "{published: NAME}, {runs: FILE, ...}, FILE or mapping of mosaic-law/1; the paper's when "
        "left out"),
    SECTION(engine, &doc_engine_schema, 0,
            "{name: NAME, version: VERSION}, FILE or mapping of mosaic-engine/1"),
    {.key = "estimator",
     .kind = FIELD_ENUM,
     .words = estimator_words,
     .fallback = "default",
     FIELD_AT(struct plan_section, estimator),
     .help = "default, or the terms and constants that the paper published"},
    SECTION(calibration, &doc_calibration_schema, 0,
            "FILE or mapping of mosaic-calibration/1; the cluster's or the generic one otherwise"),
    {.key = "workload",
     .kind = FIELD_MAPPING,
     .nested = &plan_workload_schema,
     .fallback = "{}",
     FIELD_AT(struct plan_section, workload),
     .help = "the job: never searched"},
    {.key = "execution",
     .kind = FIELD_MAPPING,
     .nested = &doc_execution_schema,
     .fallback = "{}",
     FIELD_AT(struct plan_section, execution),
     .help = "how the job runs beyond its degrees, where search.execution lists no choice"},
    {.key = "limits",
     .kind = FIELD_MAPPING,
     .nested = &limits_schema,
     .fallback = "{}",
     FIELD_AT(struct plan_section, limits),
     .help = "bounds on the model"},
    SECTION(model, &doc_model_schema, 0,
            "FILE or mapping of mosaic-model/1; takes the place of search.geometry"),
    {.key = "search",
     .kind = FIELD_MAPPING,
     .nested = &search_schema,
     .fallback = "{}",
     FIELD_AT(struct plan_section, search),
     .help = "what may be chosen"},
};
const struct schema doc_plan_schema =
    SCHEMA_DOCUMENT("plan", "mosaic-plan/1", struct plan_section, plan_fields);

static void fill_workload(const struct plan_section *s, struct problem *p) {
    plan_workload(&s->workload, &p->workload);
    doc_execution(&s->execution, &p->workload.execution);
    p->limits.n_total_max = s->limits.n_total;
    p->limits.n_active_max = s->limits.n_active;
    p->limits.unique_tokens = s->workload.unique_tokens;
    const struct number_range *const tokens = &s->search.tokens.per_active_parameter;
    p->limits.tokens_per_active_min = isinf(tokens->low) ? 0.0 : tokens->low;
    p->limits.tokens_per_active_max = tokens->high;
    p->is_published = s->estimator == ESTIMATOR_PUBLISHED;
    p->estimator = p->is_published ? estimator_published() : estimator_default();
    plan_layout(&s->search.layout, &p->layouts);
}

static void fill_numbers(const struct number_list *list, double scale, struct number_axis *out) {
    out->count = (int)list->count;
    for (size_t i = 0; i < list->count; ++i)
        out->values[i] = list->items[i] * scale;
}

static void fill_fleet(const struct search_section *s, struct fleet_space *out) {
    *out = (struct fleet_space){.nodes.count = (int)s->nodes.count, .has_pareto = s->has_pareto};
    for (size_t i = 0; i < s->nodes.count; ++i)
        out->nodes.values[i] = s->nodes.items[i];
    fill_numbers(&s->pareto.days, UNITS_SECONDS_PER_DAY, &out->seconds);
    fill_numbers(&s->pareto.memory, 1.0, &out->memory);
}

/* Keep the first failure, go on to find the others. */
static void keep(enum mosaic_status *status, enum mosaic_status next) {
    if (*status == MOSAIC_OK)
        *status = next;
}

/* Where something is missing that the user's own file should hold. */
static const struct place *missing_at(const struct loader *l, const struct node *root,
                                      const struct plan_section *s) {
    return l->is_default_plan ? &s->cluster->place : &root->place;
}

/* Without a number of its own the problem is of the largest to choose from. */
static enum mosaic_status bind_nodes(struct loader *l, const struct node *root,
                                     const struct plan_section *s, struct problem *p) {
    struct cluster *const cluster = &p->cluster;
    const struct axis *const choice = &p->fleet.nodes;
    if (choice->count == 1)
        cluster->nodes = choice->values[0]; /* a list of one is no choice */
    else if (s->has_nodes)
        cluster->nodes = s->nodes;
    else if (cluster->nodes < 1 && choice->count > 0)
        cluster->nodes = choice->values[choice->count - 1];
    if (cluster->nodes >= 1)
        return MOSAIC_OK;
    if (node_find(root, "nodes"))
        return MOSAIC_BAD_INPUT; /* has been reported */
    (void)diag_error(l->diags, missing_at(l, root, s), "'nodes' is missing");
    diag_hint(l->diags, "number of nodes of the cluster, e.g. nodes: 32");
    return MOSAIC_BAD_INPUT;
}

static enum mosaic_status bind_budget(struct loader *l, const struct node *root,
                                      const struct plan_section *s, const struct node *of_cluster,
                                      struct problem *p) {
    if (s->budget)
        return plan_budget(l, s->budget, "budget", p);
    if (of_cluster)
        return plan_budget(l, of_cluster, "cluster.budget", p);
    (void)diag_error(l->diags, missing_at(l, root, s), "'budget' is missing");
    diag_hint(l->diags, "wall-clock time on the cluster, e.g. budget: {days: 20}");
    return MOSAIC_BAD_INPUT;
}

/* The plan's calibration, else the cluster's, else (or by its name) the generic one. */
static enum mosaic_status bind_calibration(struct loader *l, const struct plan_section *s,
                                           const struct node *of_cluster, struct problem *p) {
    const bool is_clusters = !s->calibration && of_cluster;
    const struct node *node = is_clusters ? of_cluster : s->calibration;
    if (node && loader_is_broken(l, node))
        return MOSAIC_BAD_INPUT;
    if (node && node->kind == NODE_SCALAR) /* the word `generic`; files have been put in place */
        node = NULL;
    TRY(doc_calibration_bind(l, node, is_clusters ? "cluster.calibration" : "calibration",
                             &p->calibration));
    if (p->cluster.device.name[0]) /* else the cluster has been refused */
        calibration_warn_device(l, node, &p->calibration, &p->cluster);
    return MOSAIC_OK;
}

/* Once everything else is bound: the steps of the calibration that is in use. */
static enum mosaic_status bind_anchors(struct loader *l, const struct plan_section *s,
                                       const struct node *of_cluster, struct problem *p) {
    return s->calibration ? doc_anchors_bind(l, s->calibration, "calibration", p)
                          : doc_anchors_bind(l, of_cluster, "cluster.calibration", p);
}

/* An objective and what the budget holds belong together. */
static enum mosaic_status bind_objective(struct loader *l, const struct node *root,
                                         const struct plan_section *s, struct problem *p) {
    const bool has_target = p->budget.target_loss > 0.0;
    p->objective = s->has_objective ? (enum objective_kind)s->objective
                   : has_target     ? OBJECTIVE_TIME
                                    : OBJECTIVE_LOSS;
    if (objective_has_target(p->objective) == has_target)
        return MOSAIC_OK;
    const struct place place = loader_place(root, s->has_objective ? "objective" : "budget");
    (void)diag_error(l->diags, &place,
                     has_target ? "objective %s has no use for budget.target_loss"
                                : "objective %s needs a budget.target_loss",
                     objective_name(p->objective));
    diag_hint(l->diags, has_target ? "objective: time or cost asks how soon, or how cheaply, a "
                                     "loss can be reached"
                                   : "the loss to reach in nats per token, e.g. budget: "
                                     "{target_loss: 1.45}");
    return MOSAIC_BAD_INPUT;
}

/* The days of a Pareto set are a budget to spend, so what they buy is loss. */
static enum mosaic_status check_pareto(struct loader *l, const struct node *root,
                                       const struct problem *p) {
    if (!p->fleet.has_pareto)
        return MOSAIC_OK;
    const struct place place = loader_place(root, "search.pareto");
    if (p->objective != OBJECTIVE_LOSS) {
        (void)diag_error(l->diags, &place, "a Pareto set has no use for objective %s",
                         objective_name(p->objective));
        diag_hint(l->diags, "it sets loss against days, GPUs, memory and price: objective: loss, "
                            "and no budget.target_loss");
        return MOSAIC_BAD_INPUT;
    }
    const size_t points = pareto_size(p);
    return points <= PARETO_GRID_MAX
               ? MOSAIC_OK
               : diag_error(l->diags, &place, "a Pareto grid of %zu points; at most %d are taken",
                            points, (int)PARETO_GRID_MAX);
}

static enum mosaic_status bind_machine(struct loader *l, const struct node *root,
                                       const struct plan_section *s, struct problem *p,
                                       struct cluster_document *doc) {
    if (!s->cluster || loader_is_broken(l, s->cluster))
        return MOSAIC_BAD_INPUT;
    TRY(doc_cluster_bind(l, s->cluster, "cluster", doc));
    p->cluster = doc->cluster;
    TRY(bind_nodes(l, root, s, p));
    const struct node *const precision = node_at(root, "workload.precision");
    const struct axis *const choice = &p->fleet.nodes;
    struct cluster largest = p->cluster;
    if (choice->count > 0 && choice->values[choice->count - 1] > largest.nodes)
        largest.nodes = choice->values[choice->count - 1];
    enum mosaic_status status = doc_cluster_check(l, s->cluster, &largest, p->workload.precision,
                                                  precision ? &precision->place : NULL);
    keep(&status, doc_devices_warn(l, s->cluster, &p->cluster));
    return status;
}

static enum mosaic_status bind_law(struct loader *l, const struct node *law, struct problem *p) {
    l->is_in_law = true; /* the runs of a fit */
    const enum mosaic_status status = doc_law_bind(l, law, "law", p);
    l->is_in_law = false;
    return status;
}

static enum mosaic_status bind_rules(struct loader *l, const struct plan_section *s,
                                     struct problem *p) {
    enum mosaic_status status = MOSAIC_OK;
    if (s->law)
        status = loader_is_broken(l, s->law) ? MOSAIC_BAD_INPUT : bind_law(l, s->law, p);
    if (s->engine)
        keep(&status, loader_is_broken(l, s->engine)
                          ? MOSAIC_BAD_INPUT
                          : doc_engine_bind(l, s->engine, "engine", &p->engine));
    return status;
}

/* The plan's own space, or the library's. */
static enum mosaic_status bind_geometries(struct loader *l, const struct node *root,
                                          const struct plan_section *s, struct problem *p) {
    const struct node *space = s->search.geometry;
    if (!s->model && !space) {
        struct yaml_tree *plan = NULL;
        TRY(loader_builtin(l, "cluster-plan", &plan));
        space = node_at(plan->root, "search.geometry");
    }
    return plan_geometries(l, root, space, p);
}

enum mosaic_status doc_plan_bind(struct loader *l, const struct node *root) {
    struct problem *const p = &l->document->problem;
    struct plan_section s = {.cluster = NULL};
    struct cluster_document cluster = {.nodes = NULL};
    enum mosaic_status status = loader_bind(l, &doc_plan_schema, root, "", &s);
    if (root->kind != NODE_MAPPING)
        return status;
    fill_workload(&s, p);
    fill_fleet(&s.search, &p->fleet);
    keep(&status, bind_machine(l, root, &s, p, &cluster));
    keep(&status, bind_budget(l, root, &s, cluster.budget, p));
    if (p->budget.goodput > 0.0) /* otherwise that has been reported */
        keep(&status, bind_objective(l, root, &s, p));
    if (p->budget.goodput > 0.0 && status == MOSAIC_OK)
        keep(&status, check_pareto(l, root, p));
    keep(&status, bind_calibration(l, &s, cluster.calibration, p));
    keep(&status, bind_rules(l, &s, p));
    if (p->workload.vocab >= 1) /* otherwise that has been reported */
        keep(&status, bind_geometries(l, root, &s, p));
    if (status == MOSAIC_OK)
        status = plan_routing(l, root, &s.workload, p);
    if (status == MOSAIC_OK)
        status = plan_layout_check(l, node_at(root, "search.layout"), p);
    if (status == MOSAIC_OK)
        status = plan_stages_check(l, node_at(root, "search.layout"), &s.search.layout, p);
    if (status == MOSAIC_OK)
        status = bind_anchors(l, &s, cluster.calibration, p);
    if (status == MOSAIC_OK)
        status = plan_ways(l, root, &s.search.execution, p);
    l->document->has_problem = status == MOSAIC_OK;
    return status;
}
