// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * `budget` of a plan or cluster: how long the cluster is there, or what it may cost, and what share
 * of that time it works.  Seconds are wall clock; goodput is stated, or follows from failures and
 * checkpoints.
 */
#include "doc/plan_parts.h"

#include <math.h>
#include <string.h>

struct goodput_section {
    bool is_formula;
    double value;
    bool has_mtbf;
    double mtbf_per_node_s, checkpoint_interval_s, checkpoint_time_s, restart_time_s;
};

struct budget_section {
    double days, hours, duration_s, gpu_hours, cost_usd, model_flops;
    bool has_days, has_hours, has_duration, has_gpu_hours, has_cost;
    struct goodput_section goodput;
    double target_loss;
    bool has_target_loss;
};

#define DURATION_MAX 1e10 /* s; three centuries */
#define DAYS_MAX 100000
#define GPU_HOURS_MAX 1e12
#define COST_MAX 1e15 /* USD */
#define FLOPS_MAX 1e40
#define LOSS_MAX 100

#define GOODPUT_TIME(name, member, flag, text)                                                     \
    {                                                                                              \
        .key = (name), .kind = FIELD_QUANTITY, .dimension = DIM_TIME, .flags = (flag),             \
        FIELD_AT(struct goodput_section, member), .max = DURATION_MAX, .help = (text)              \
    }
/* A time, or the word `best`: 0. */
static enum mosaic_status parse_interval(struct binder *binder, const struct field *field,
                                         const struct node *node, void *target) {
    static const struct field interval = {.key = "checkpoint_interval",
                                          .kind = FIELD_QUANTITY,
                                          .dimension = DIM_TIME,
                                          .flags = FIELD_OPEN_MIN,
                                          .max = DURATION_MAX};
    (void)field;
    double *const out = target;
    if (node->kind != NODE_SCALAR || node->is_quoted || strcmp(node->text, "best") != 0)
        return binder_value(binder, &interval, node, out);
    *out = 0.0;
    return MOSAIC_OK;
}

static const struct field goodput_fields[] = {
    {.key = "mtbf_per_node",
     .kind = FIELD_QUANTITY,
     .dimension = DIM_TIME,
     .flags = FIELD_OPEN_MIN,
     FIELD_AT(struct goodput_section, mtbf_per_node_s),
     FIELD_PRESENCE(struct goodput_section, has_mtbf),
     .max = 1e11,
     .help = "mean time between failures of one node; the cluster's when left out"},
    {.key = "checkpoint_interval",
     .kind = FIELD_CUSTOM,
     .parse = parse_interval,
     .forms = "quantity (time), e.g. 30 min, or best",
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct goodput_section, checkpoint_interval_s),
     .help = "time from one checkpoint to the next; best: where the goodput is highest"},
    GOODPUT_TIME("checkpoint_time", checkpoint_time_s, FIELD_REQUIRED,
                 "time that training stands still for a checkpoint"),
    GOODPUT_TIME("restart_time", restart_time_s, FIELD_REQUIRED,
                 "time from a failure until training runs again"),
};
static const struct schema goodput_schema =
    SCHEMA("goodput", struct goodput_section, goodput_fields);

static enum mosaic_status parse_goodput(struct binder *binder, const struct field *field,
                                        const struct node *node, void *target) {
    static const struct field share = {.key = "goodput",
                                       .kind = FIELD_QUANTITY,
                                       .dimension = DIM_FRACTION,
                                       .flags = FIELD_OPEN_MIN,
                                       .max = 1.0};
    (void)field;
    struct goodput_section *const out = target;
    if (node->kind == NODE_MAPPING) {
        out->is_formula = true;
        return binder_mapping(binder, &goodput_schema, node, out);
    }
    return binder_value(binder, &share, node, &out->value);
}

/* FLOPs with their unit, or the bare number that papers print. */
static enum mosaic_status parse_flops(struct binder *binder, const struct field *field,
                                      const struct node *node, void *target) {
    (void)field;
    double value = 0.0;
    const bool is_bare = node->kind == NODE_SCALAR && !node->is_quoted &&
                         units_parse_number(node->text, &value, NULL) == MOSAIC_OK;
    const struct field flops = {.key = "model_flops",
                                .kind = is_bare ? FIELD_NUMBER : FIELD_QUANTITY,
                                .dimension = is_bare ? DIM_NUMBER : DIM_FLOP,
                                .flags = FIELD_OPEN_MIN,
                                .max = FLOPS_MAX};
    return binder_value(binder, &flops, node, target);
}

static const struct field budget_fields[] = {
    {.key = "days",
     .kind = FIELD_NUMBER,
     .flags = FIELD_OPEN_MIN,
     FIELD_AT(struct budget_section, days),
     FIELD_PRESENCE(struct budget_section, has_days),
     .max = DAYS_MAX,
     .help = "wall-clock days on the cluster"},
    {.key = "hours",
     .kind = FIELD_NUMBER,
     .flags = FIELD_OPEN_MIN,
     FIELD_AT(struct budget_section, hours),
     FIELD_PRESENCE(struct budget_section, has_hours),
     .max = DAYS_MAX * 24,
     .help = "in place of days: wall-clock hours"},
    {.key = "duration",
     .kind = FIELD_QUANTITY,
     .dimension = DIM_TIME,
     .flags = FIELD_OPEN_MIN,
     FIELD_AT(struct budget_section, duration_s),
     FIELD_PRESENCE(struct budget_section, has_duration),
     .max = DURATION_MAX,
     .help = "in place of days: wall-clock time with its unit"},
    {.key = "gpu_hours",
     .kind = FIELD_NUMBER,
     .flags = FIELD_OPEN_MIN,
     FIELD_AT(struct budget_section, gpu_hours),
     FIELD_PRESENCE(struct budget_section, has_gpu_hours),
     .max = GPU_HOURS_MAX,
     .help = "in place of days: hours of one GPU; more nodes have fewer days"},
    {.key = "cost",
     .kind = FIELD_QUANTITY,
     .dimension = DIM_PRICE,
     .flags = FIELD_OPEN_MIN,
     FIELD_AT(struct budget_section, cost_usd),
     FIELD_PRESENCE(struct budget_section, has_cost),
     .max = COST_MAX,
     .help = "in place of days: what the GPU-hours may cost at the cluster's price"},
    {.key = "goodput",
     .kind = FIELD_CUSTOM,
     .parse = parse_goodput,
     .nested = &goodput_schema,
     .fallback = "1.0",
     .forms = "fraction, or mapping of failures and checkpoints",
     FIELD_AT(struct budget_section, goodput),
     .help = "share of the time in which training advances"},
    {.key = "model_flops",
     .kind = FIELD_CUSTOM,
     .parse = parse_flops,
     .forms = "number of FLOPs",
     FIELD_AT(struct budget_section, model_flops),
     .help = "6 N_active D for the compute optimum beside the plan; the plan's own when left out"},
    {.key = "target_loss",
     .kind = FIELD_NUMBER,
     .flags = FIELD_OPEN_MIN,
     FIELD_AT(struct budget_section, target_loss),
     FIELD_PRESENCE(struct budget_section, has_target_loss),
     .max = LOSS_MAX,
     .help = "nats per token to reach, of the objectives time and cost; the days are then their "
             "limit, and may be left out"},
};
const struct schema doc_budget_schema = SCHEMA("budget", struct budget_section, budget_fields);

/* The first number of nodes that gets work done gives the figure; others may get none. */
static enum mosaic_status first_goodput(const struct checkpointing *c, const struct problem *p,
                                        double *goodput, struct status_error *err) {
    const struct axis *const nodes = &p->fleet.nodes;
    struct goodput found;
    enum mosaic_status status = budget_checkpoints(c, p->cluster.nodes, &found, err);
    for (int i = 0; i < nodes->count && status != MOSAIC_OK; ++i)
        status = budget_checkpoints(c, nodes->values[i], &found, err);
    if (status == MOSAIC_OK)
        *goodput = found.value;
    return status;
}

static enum mosaic_status fill_goodput(struct loader *l, const struct node *node,
                                       const struct goodput_section *s, const struct problem *p,
                                       struct budget *out) {
    if (!s->is_formula) {
        out->goodput = s->value;
        return MOSAIC_OK;
    }
    const struct place place = loader_place(node, "goodput");
    const double mtbf_s = s->has_mtbf ? s->mtbf_per_node_s : p->cluster.mtbf_per_node_s;
    if (!(mtbf_s > 0.0)) {
        (void)diag_error(l->diags, &place, "'mtbf_per_node' is missing");
        diag_hint(l->diags, "give it here or as failures.mtbf_per_node of the cluster");
        return MOSAIC_BAD_INPUT;
    }
    if (p->cluster.nodes < 1)
        return MOSAIC_BAD_INPUT; /* has been reported */
    out->checkpoints = (struct checkpointing){.is_stated = true,
                                              .mtbf_per_node_s = mtbf_s,
                                              .interval_s = s->checkpoint_interval_s,
                                              .checkpoint_s = s->checkpoint_time_s,
                                              .restart_s = s->restart_time_s};
    struct status_error err;
    return first_goodput(&out->checkpoints, p, &out->goodput, &err) == MOSAIC_OK
               ? MOSAIC_OK
               : diag_from_error(l->diags, &place, &err);
}

/* Days, or GPU-hours that become days. */
static enum mosaic_status fill_time(struct loader *l, const struct node *node,
                                    const struct budget_section *s, const struct cluster *c,
                                    struct budget *out) {
    out->seconds = s->has_days       ? s->days * UNITS_SECONDS_PER_DAY
                   : s->has_hours    ? s->hours * UNITS_SECONDS_PER_HOUR
                   : s->has_duration ? s->duration_s
                                     : (double)INFINITY;
    out->gpu_hours = s->gpu_hours;
    if (s->has_cost && !(c->price_usd_per_gpu_h > 0.0)) {
        const struct place place = loader_place(node, "cost");
        (void)diag_error(l->diags, &place, "a budget in USD needs the cluster's 'price'");
        diag_hint(l->diags, "price of one GPU, e.g. cluster.price: 4.5 USD/h; or state gpu_hours");
        return MOSAIC_BAD_INPUT;
    }
    if (s->has_cost) {
        out->cost_usd = s->cost_usd;
        out->gpu_hours = s->cost_usd / c->price_usd_per_gpu_h;
    }
    if (c->nodes >= 1)
        budget_spread(out, cluster_gpus(c));
    return MOSAIC_OK;
}

enum mosaic_status plan_budget(struct loader *l, const struct node *node, const char *prefix,
                               struct problem *problem) {
    struct budget_section s = {0};
    TRY(loader_bind(l, &doc_budget_schema, node, prefix, &s));
    const int given = (int)s.has_days + (int)s.has_hours + (int)s.has_duration +
                      (int)s.has_gpu_hours + (int)s.has_cost;
    if (given > 1 || (given == 0 && !s.has_target_loss))
        return diag_error(l->diags, &node->place,
                          "a budget takes one of days, hours, duration, gpu_hours, cost%s",
                          given > 1 ? ", not several" : ", or a target_loss");
    struct budget out = {.model_flops = s.model_flops, .target_loss = s.target_loss};
    TRY(fill_time(l, node, &s, &problem->cluster, &out));
    TRY(fill_goodput(l, node, &s.goodput, problem, &out));
    problem->budget = out;
    return MOSAIC_OK;
}
