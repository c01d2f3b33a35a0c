// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * `budget` of a plan or cluster: how long the cluster is there, and what share of that time it
 * works.  Seconds are wall clock; goodput is stated, or follows from failures and checkpoints.
 */
#include "doc/plan_parts.h"

static const double seconds_per_day = UNITS_SECONDS_PER_DAY, seconds_per_hour = 3600.0;

struct goodput_section {
    bool is_formula;
    double value;
    bool has_mtbf;
    double mtbf_per_node_s, checkpoint_interval_s, checkpoint_time_s, restart_time_s;
};

struct budget_section {
    double days, hours, duration_s, model_flops;
    bool has_days, has_hours, has_duration;
    struct goodput_section goodput;
    const struct node *target_loss;
};

#define DURATION_MAX 1e10 /* s; three centuries */
#define DAYS_MAX 100000
#define FLOPS_MAX 1e40

#define GOODPUT_TIME(name, member, flag, text)                                                     \
    {                                                                                              \
        .key = (name), .kind = FIELD_QUANTITY, .dimension = DIM_TIME, .flags = (flag),             \
        FIELD_AT(struct goodput_section, member), .max = DURATION_MAX, .help = (text)              \
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
    GOODPUT_TIME("checkpoint_interval", checkpoint_interval_s, FIELD_REQUIRED | FIELD_OPEN_MIN,
                 "time from one checkpoint to the next"),
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
     .kind = FIELD_FREE,
     .flags = FIELD_HIDDEN,
     FIELD_AT(struct budget_section, target_loss),
     .help = "not supported by this version"},
};
const struct schema doc_budget_schema = SCHEMA("budget", struct budget_section, budget_fields);

static enum mosaic_status fill_goodput(struct loader *l, const struct node *node,
                                       const struct goodput_section *s, const struct cluster *c,
                                       double *goodput) {
    if (!s->is_formula) {
        *goodput = s->value;
        return MOSAIC_OK;
    }
    const struct place place = loader_place(node, "goodput");
    const double mtbf_s = s->has_mtbf ? s->mtbf_per_node_s : c->mtbf_per_node_s;
    if (!(mtbf_s > 0.0)) {
        (void)diag_error(l->diags, &place, "'mtbf_per_node' is missing");
        diag_hint(l->diags, "give it here or as failures.mtbf_per_node of the cluster");
        return MOSAIC_BAD_INPUT;
    }
    if (c->nodes < 1)
        return MOSAIC_BAD_INPUT; /* has been reported */
    struct status_error err;
    if (budget_goodput(mtbf_s, s->checkpoint_interval_s, s->checkpoint_time_s, s->restart_time_s,
                       c->nodes, goodput, &err) != MOSAIC_OK)
        return diag_from_error(l->diags, &place, &err);
    return MOSAIC_OK;
}

enum mosaic_status plan_budget(struct loader *l, const struct node *node, const char *prefix,
                               const struct cluster *cluster, struct budget *budget) {
    struct budget_section s = {0};
    if (node->kind == NODE_MAPPING && node_find(node, "target_loss")) {
        const struct place place = node_find(node, "target_loss")->key_place;
        (void)diag_error(l->diags, &place, "target_loss is not supported by this version");
        diag_hint(l->diags, "give days, and read the loss that the plan reaches");
        return MOSAIC_BAD_INPUT;
    }
    TRY(loader_bind(l, &doc_budget_schema, node, prefix, &s));
    const int given = (int)s.has_days + (int)s.has_hours + (int)s.has_duration;
    if (given != 1)
        return diag_error(l->diags, &node->place, "a budget takes one of days, hours, duration%s",
                          given > 1 ? ", not several" : "");
    struct budget out = {.model_flops = s.model_flops};
    out.seconds = s.has_days    ? s.days * seconds_per_day
                  : s.has_hours ? s.hours * seconds_per_hour
                                : s.duration_s;
    TRY(fill_goodput(l, node, &s.goodput, cluster, &out.goodput));
    *budget = out;
    return MOSAIC_OK;
}
