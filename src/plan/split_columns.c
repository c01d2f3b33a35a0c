// SPDX-License-Identifier: GPL-3.0-or-later
/* Pricing columns, each content once, and the rows of shared nodes. */
#include "plan/split_columns.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

static_assert((int)LAYOUT_MAX_PP <= (int)STAGE_MAX, "every mesh fits the stage program");
static_assert((int)LAYOUT_MAX_PP <= (int)STAGE_RESOURCES_MAX, "and so do its nodes");
static_assert(2 * GEOMETRY_MAX_LAYERS + 1 <= STAGE_LAYERS_MAX, "layers counted twice too");

/* What a stage costs hangs on its place (first, inside, last), its policy and its layers by kind,
 * not on which layers they are: each such content is priced once a mesh. */
enum place { PLACE_FIRST, PLACE_INSIDE, PLACE_LAST, PLACES };

struct price {
    unsigned long mesh; /* number of the mesh that it holds for */
    double busy_s, tail_s;
};

/* Memory hangs on the stage as well: micro-batches in flight. */
struct fit {
    unsigned long mesh;
    bool fits;
    double host_bytes; /* of one GPU */
};

/* One way to run a stage. */
struct policy {
    enum recompute recompute;
    const struct layer_table *table;
    const struct mesh *mesh;
    struct memory_form form;
};

struct split_columns {
    struct price *prices; /* [policy][place][content] */
    struct fit *fits;     /* [policy][stage][content] */
    size_t price_room, fit_room;
    unsigned long mesh; /* meshes so far */
    struct split_space space;
    struct stage_space stages;
    struct policy policies[RECOMPUTE_MODES]; /* recomputing more and more, the mesh's own last */
    int policy_count;
    size_t contents; /* distinct pairs of layer counts */
    const struct stage_column *built;
    size_t count;
    double *tails; /* of the columns built */
    struct stage_column *offered;
    const struct stage_column *given; /* to the program: all or those offered */
    size_t room;
    double *use; /* of those offered, by row */
    size_t use_room;
    struct stage_column *fixed; /* where the layers are */
    size_t fixed_room;
    int rows, nodes[STAGE_RESOURCES_MAX];
    double capacity[STAGE_RESOURCES_MAX];
};

struct split_columns *split_columns_new(void) {
    return calloc(1, sizeof(struct split_columns));
}

void split_columns_free(struct split_columns *c) {
    if (!c)
        return;
    free(c->prices);
    free(c->fits);
    free(c->tails);
    free(c->offered);
    free(c->use);
    free(c->fixed);
    free(c);
}

/* ---- prices ---- */

static struct stage_range range_of(const struct split_columns *c,
                                   const struct stage_column *column) {
    return (struct stage_range){column->stage, stage_space_end(&c->stages, column->first),
                                stage_space_end(&c->stages, column->last)};
}

/* Place of a range's layer counts among all contents; where each stage has one range, its own. */
static size_t content_of(const struct split_columns *c, const struct stage_range *range) {
    if (c->space.fixed)
        return (size_t)range->stage;
    const struct geometry *const g = c->space.ctx->geometry;
    const int dense = stage_dense_layers(g, *range), moe = range->last - range->first - dense;
    return (size_t)dense * ((size_t)geometry_moe_layers(g) + 1) + (size_t)moe;
}

static const struct price *price_of(struct split_columns *c, const struct stage_range *range,
                                    int policy, size_t content) {
    const enum place place = range->stage == 0                       ? PLACE_FIRST
                             : range->stage == c->space.mesh->pp - 1 ? PLACE_LAST
                                                                     : PLACE_INSIDE;
    struct price *const price =
        &c->prices[((size_t)policy * PLACES + (size_t)place) * c->contents + content];
    if (price->mesh != c->mesh) {
        const struct policy *const p = &c->policies[policy];
        struct stage_cost cost;
        stage_cost_of(c->space.ctx, p->table, p->mesh, *range, &cost);
        *price = (struct price){c->mesh, cost.busy_s, cost.tail_s};
    }
    return price;
}

static const struct fit *fit_of(struct split_columns *c, const struct stage_range *range,
                                int policy, size_t content_at) {
    const size_t stage = (size_t)policy * (size_t)c->space.mesh->pp + (size_t)range->stage;
    struct fit *const fit = &c->fits[stage * c->contents + content_at];
    if (fit->mesh == c->mesh)
        return fit;
    const struct step_context *const ctx = c->space.ctx;
    const struct policy *const p = &c->policies[policy];
    struct stage_content content;
    struct memory_items items;
    stage_content_of(ctx, p->table, p->mesh, *range, &content);
    const double flight = stage_in_flight(p->mesh, range->stage);
    memory_of_stage(&p->form, &content, flight, &items);
    *fit = (struct fit){c->mesh, memory_verdict(ctx, items.total) != VERDICT_NO, 0.0};
    if (fit->fits && p->form.uses_host) {
        fit->host_bytes = memory_host_bytes(&p->form, &content, flight);
        fit->fits = memory_host_fits(ctx, (double)stage_gpus_most(ctx, p->mesh, range->stage) *
                                              fit->host_bytes);
    }
    return fit;
}

static bool price_column(void *context, int stage, int first, int last, int policy,
                         double *time_s) {
    struct split_columns *const c = context;
    const struct stage_range range = {stage, first, last};
    const size_t content = content_of(c, &range);
    if (!fit_of(c, &range, policy, content)->fits)
        return false;
    *time_s = price_of(c, &range, policy, content)->busy_s;
    return true;
}

/* ---- rooms ---- */

/* *items with room for as many, without their contents; false when memory is short. */
static bool open_room(void **items, size_t *room, size_t count, size_t size) {
    if (count <= *room)
        return true;
    free(*items);
    *items = calloc(count, size);
    *room = *items ? count : 0;
    return *items != NULL;
}

/* Rooms for the prices of one mesh; what earlier meshes left there is marked with their numbers. */
static bool open_prices(struct split_columns *c) {
    const size_t policies = (size_t)c->policy_count;
    const struct geometry *const g = c->space.ctx->geometry;
    const size_t moe = (size_t)geometry_moe_layers(g), pp = (size_t)c->space.mesh->pp;
    c->contents = c->space.fixed ? pp : ((size_t)g->layers - moe + 1) * (moe + 1);
    c->mesh++;
    void *prices = c->prices, *fits = c->fits;
    const bool ok =
        open_room(&prices, &c->price_room, policies * PLACES * c->contents, sizeof *c->prices) &&
        open_room(&fits, &c->fit_room, policies * pp * c->contents, sizeof *c->fits);
    c->prices = prices;
    c->fits = fits;
    return ok;
}

static bool open_columns(struct split_columns *c) {
    if (c->count <= c->room)
        return true;
    free(c->tails);
    free(c->offered);
    c->tails = malloc(c->count * sizeof *c->tails);
    c->offered = malloc(c->count * sizeof *c->offered);
    c->room = c->tails && c->offered ? c->count : 0;
    return c->room > 0;
}

/* ---- rows ---- */

/* The most that any column of a stage keeps of one GPU in host memory. */
static void most_host_bytes(struct split_columns *c, double *most) {
    for (int i = 0; i < c->space.mesh->pp; ++i)
        most[i] = 0.0;
    for (size_t k = 0; k < c->count; ++k) {
        const struct stage_range range = range_of(c, &c->built[k]);
        most[range.stage] =
            fmax(most[range.stage],
                 fit_of(c, &range, c->built[k].policy, content_of(c, &range))->host_bytes);
    }
}

/* Nodes that stages share and that they could fill: one row each. */
static void find_rows(struct split_columns *c) {
    const struct step_context *const ctx = c->space.ctx;
    const struct mesh *const mesh = c->space.mesh;
    const int each = mesh->tp * mesh->cp * mesh->dp, per_node = ctx->cluster->gpus_per_node;
    const double capacity = ctx->cluster->host_memory_bytes;
    double most[LAYOUT_MAX_PP];
    c->rows = 0;
    if (!c->policies[0].form.uses_host || !(capacity > 0.0) || each % per_node == 0)
        return;
    most_host_bytes(c, most);
    for (int node = 0; node * per_node < mesh->pp * each; ++node) {
        double bytes = 0.0;
        int stages = 0;
        for (int i = node * per_node / each; i < mesh->pp && i * each < (node + 1) * per_node;
             ++i, ++stages)
            bytes += (double)stage_gpus_on_node(ctx, mesh, i, node) * most[i];
        if (stages < 2 || bytes <= capacity)
            continue;
        c->nodes[c->rows] = node;
        c->capacity[c->rows++] = capacity;
    }
}

static void write_use(struct split_columns *c, const struct stage_column *column, double *use) {
    const struct stage_range range = range_of(c, column);
    const double bytes = fit_of(c, &range, column->policy, content_of(c, &range))->host_bytes;
    for (int r = 0; r < c->rows; ++r)
        use[r] = (double)stage_gpus_on_node(c->space.ctx, c->space.mesh, range.stage, c->nodes[r]) *
                 bytes;
}

/* ---- building ---- */

/* Stages with their own layers, all policies of each; in order. */
static enum mosaic_status build_fixed(struct split_columns *c, struct status_error *err) {
    const struct split *const split = c->space.fixed;
    const int shift = c->space.ctx->geometry->layers + 1, pp = c->space.mesh->pp;
    void *fixed = c->fixed;
    const bool ok =
        open_room(&fixed, &c->fixed_room, (size_t)pp * 2 * RECOMPUTE_MODES, sizeof *c->fixed);
    c->fixed = fixed;
    if (!ok)
        return status_no_memory(err);
    c->built = c->fixed;
    c->count = 0;
    for (int i = 0; i < pp; ++i)
        for (int after = 0; after < (i == 0 ? 1 : 2); ++after)
            for (int policy = 0; policy < c->policy_count; ++policy) {
                const bool turns = policy == c->stages.needed_policy;
                struct stage_column column = {.stage = i,
                                              .first = split->first[i] + after * shift,
                                              .last = split->first[i + 1] +
                                                      (after || turns ? shift : 0),
                                              .policy = policy};
                if (price_column(c, i, split->first[i], split->first[i + 1], policy,
                                 &column.time_s) &&
                    column.time_s <= c->space.bottleneck_limit_s)
                    c->fixed[c->count++] = column;
            }
    return MOSAIC_OK;
}

static void open_policies(struct split_columns *c) {
    const struct split_space *const s = &c->space;
    c->policy_count = 0;
    for (int r = 0; r < RECOMPUTE_MODES; ++r) {
        if (s->views ? !s->views->tables[r] : r != (int)s->mesh->recompute)
            continue;
        struct policy *const policy = &c->policies[c->policy_count++];
        policy->recompute = (enum recompute)r;
        policy->table = s->views ? s->views->tables[r] : s->table;
        policy->mesh = s->views ? &s->views->meshes[r] : s->mesh;
        memory_form_of(s->ctx, policy->table, policy->mesh, &policy->form);
    }
}

enum mosaic_status split_columns_build(struct split_columns *c, struct stage_workspace *workspace,
                                       const struct split_space *space,
                                       struct stage_problem *problem, struct status_error *err) {
    c->space = *space;
    open_policies(c);
    c->stages = (struct stage_space){.stages = space->mesh->pp,
                                     .layers = space->ctx->geometry->layers,
                                     .policies = c->policy_count,
                                     .needs_policy = c->policy_count > 1,
                                     .needed_policy = c->policy_count - 1,
                                     .is_monotone = true,
                                     .bottleneck_limit_s = space->bottleneck_limit_s,
                                     .column = price_column,
                                     .context = c};
    if (!open_prices(c))
        return status_no_memory(err);
    if (space->fixed)
        TRY(build_fixed(c, err));
    else
        TRY(stage_columns_build(workspace, &c->stages, &c->built, &c->count, err));
    if (!open_columns(c))
        return status_no_memory(err);
    for (size_t i = 0; i < c->count; ++i) {
        const struct stage_range range = range_of(c, &c->built[i]);
        c->tails[i] = price_of(c, &range, c->built[i].policy, content_of(c, &range))->tail_s;
    }
    find_rows(c);
    void *use = c->use;
    const bool ok = open_room(&use, &c->use_room, c->count * (size_t)c->rows, sizeof *c->use);
    c->use = use;
    problem->layers = stage_space_layers(&c->stages);
    problem->resources = c->rows;
    problem->capacity = c->capacity;
    problem->use = c->use;
    return ok ? MOSAIC_OK : status_no_memory(err);
}

double split_columns_least_tail(const struct split_columns *c) {
    double least[LAYOUT_MAX_PP];
    for (int i = 0; i < c->stages.stages; ++i)
        least[i] = INFINITY;
    for (size_t i = 0; i < c->count; ++i)
        least[c->built[i].stage] = fmin(least[c->built[i].stage], c->tails[i]);
    double tail = 0.0;
    for (int i = 0; i < c->stages.stages; ++i)
        if (isfinite(least[i]))
            tail = fmax(tail, least[i]);
    return tail;
}

void split_columns_offer(struct split_columns *c, double tail_limit_s,
                         struct stage_problem *problem) {
    size_t offered = 0;
    c->given = isinf(tail_limit_s) ? c->built : c->offered;
    if (isinf(tail_limit_s))
        offered = c->count;
    for (size_t i = 0; i < c->count && !isinf(tail_limit_s); ++i)
        if (c->tails[i] < tail_limit_s)
            c->offered[offered++] = c->built[i];
    for (size_t i = 0; i < offered && c->rows > 0; ++i)
        write_use(c, &c->given[i], &c->use[i * (size_t)c->rows]);
    problem->columns = c->given;
    problem->column_count = offered;
}

void split_columns_split(const struct split_columns *c, const struct stage_result *result,
                         struct split *out) {
    bool differ = false;
    out->stages = c->stages.stages;
    out->first[0] = 0;
    for (int i = 0; i < out->stages; ++i) {
        const enum recompute r = c->policies[result->policies[i]].recompute;
        out->first[i + 1] = (uint16_t)stage_space_end(&c->stages, result->ends[i]);
        out->recompute[i] = (uint8_t)r;
        differ = differ || r != c->space.mesh->recompute;
    }
    out->is_mixed = differ;
}

double split_columns_tail(struct split_columns *c, const struct stage_result *result) {
    double tail_s = 0.0;
    for (int i = 0; i < c->stages.stages; ++i) {
        const struct stage_column *const column = &c->given[result->columns[i]];
        const struct stage_range range = range_of(c, column);
        tail_s = fmax(tail_s, price_of(c, &range, column->policy, content_of(c, &range))->tail_s);
    }
    return tail_s;
}
