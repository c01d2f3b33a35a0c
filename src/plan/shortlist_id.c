// SPDX-License-Identifier: GPL-3.0-or-later
/* Writing and reading ids; the layout's part is a text of layout_axes.h with blanks for commas. */
#include "plan/shortlist_id.h"

#include "base/suggest.h"
#include "plan/layout_axes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- models ---- */

/* FNV-1a of the shape's figures, which are told apart by their order. */
static unsigned hash_of(const struct geometry *g) {
    const int figures[] = {g->layers,        g->first_dense,    g->hidden,     g->heads,
                           g->kv_heads,      g->head_dim,       g->v_head_dim, (int)g->attention,
                           g->q_rank,        g->kv_rank,        g->rope_dim,   g->ffn_matrices,
                           g->dense_ffn,     g->expert_ffn,     g->experts,    g->top_k,
                           g->node_limit,    g->shared_experts, g->shared_ffn, g->window,
                           g->window_layers, g->mtp_layers,     g->vocab,      (int)g->tied};
    const uint32_t basis = 2166136261u, prime = 16777619u, bits = 0xffffffu;
    uint32_t hash = basis;
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; ++i) {
        char text[16];
        (void)snprintf(text, sizeof text, "%d,", figures[i]);
        for (const char *c = text; *c; ++c)
            hash = (hash ^ (uint32_t)(unsigned char)*c) * prime;
    }
    return (hash ^ hash >> 24) & bits;
}

const char *shortlist_model(const struct geometry *g, char out[SHORTLIST_MODEL_MAX]) {
    int used = snprintf(out, SHORTLIST_MODEL_MAX, "L%d-d%d", g->layers, g->hidden);
    if (g->experts > 0)
        used += snprintf(out + used, (size_t)(SHORTLIST_MODEL_MAX - used), "-E%d-K%d-G%.4g",
                         g->experts, g->top_k, g->granularity);
    (void)snprintf(out + used, (size_t)(SHORTLIST_MODEL_MAX - used), "-%06x", hash_of(g));
    return out;
}

struct labels {
    const struct problem *problem;
    char text[SHORTLIST_MODEL_MAX];
};

static const char *label_at(const void *context, size_t index) {
    struct labels *const labels = *(struct labels *const *)context;
    return shortlist_model(&labels->problem->geometries.items[index], labels->text);
}

static enum mosaic_status find_model(const struct problem *p, const char *label, size_t *index,
                                     struct status_error *err) {
    char quote[STATUS_QUOTE_MAX];
    struct labels labels = {.problem = p};
    struct labels *const at = &labels;
    size_t found = 0;
    for (size_t i = 0; i < p->geometries.count; ++i)
        if (strcmp(shortlist_model(&p->geometries.items[i], labels.text), label) == 0) {
            *index = i;
            found++;
        }
    if (found == 1)
        return MOSAIC_OK;
    (void)status_quote(label, quote, sizeof quote);
    if (found > 1)
        return status_set(err, MOSAIC_BAD_INPUT, "'%s' is %zu models of the plan", quote, found);
    (void)status_set(err, MOSAIC_BAD_INPUT, "no model of the plan is '%s'", quote);
    const char *const near = suggest_from(label, label_at, &at, p->geometries.count);
    if (near)
        status_hint(err, "did you mean '%s'?", near);
    else
        status_hint(err, "ids are those of the plan's shortlist");
    return MOSAIC_BAD_INPUT;
}

/* ---- layouts ---- */

static void add(char out[SHORTLIST_ID_MAX], const char *name, const char *value) {
    size_t used = strlen(out);
    (void)snprintf(out + used, SHORTLIST_ID_MAX - used, " %s=", name);
    used = strlen(out);
    for (; *value && used + 1 < SHORTLIST_ID_MAX; ++value) /* "2 GiB" is one word */
        if (*value != ' ')
            out[used++] = *value;
    out[used] = '\0';
}

/* Whether the ways to run the job differ in a key of the execution. */
static bool is_chosen(const struct problem *p, enum way_axis axis) {
    const double first = way_axis_get(&problem_workload(p, 0)->execution, axis);
    for (int i = 1; i < problem_ways(p); ++i) {
        const double value = way_axis_get(&problem_workload(p, i)->execution, axis);
        if (value < first || value > first)
            return true;
    }
    return false;
}

const char *shortlist_id(const struct problem *problem, size_t index, const struct mesh *mesh,
                         char out[SHORTLIST_ID_MAX]) {
    char text[STATUS_QUOTE_MAX];
    (void)shortlist_model(&problem->geometries.items[index], out);
    if (problem->fleet.nodes.count > 0) {
        (void)snprintf(text, sizeof text, "%d", problem->cluster.nodes);
        add(out, "nodes", text);
    }
    for (int i = 0; i < LAYOUT_AXES; ++i) {
        const enum layout_axis axis = (enum layout_axis)i;
        const int value = layout_axis_get(mesh, axis);
        const bool is_word = axis == LAYOUT_RECOMPUTE || axis == LAYOUT_SCHEDULE;
        const bool is_plain =
            axis == LAYOUT_SCHEDULE ? value == 0 || mesh->vpp > 1 : !is_word && value == 1;
        if (!is_plain || axis == LAYOUT_MICRO_BATCH)
            add(out, layout_axis_name(axis), layout_axis_text(axis, value, text));
    }
    const struct execution *const e = &problem_workload(problem, mesh->way)->execution;
    for (int i = 0; i < WAY_AXES; ++i) {
        const enum way_axis axis = (enum way_axis)i;
        if (is_chosen(problem, axis))
            add(out, way_axis_name(axis), way_axis_text(axis, way_axis_get(e, axis), text));
    }
    return out;
}

static enum mosaic_status find_way(const struct problem *p, const struct layout_request *request,
                                   int *way, struct status_error *err) {
    for (int w = 0; w < problem_ways(p); ++w) {
        bool is_it = true;
        for (int i = 0; i < WAY_AXES; ++i) {
            const enum way_axis axis = (enum way_axis)i;
            const double wanted = request->given_ways & 1u << i
                                      ? request->ways[i]
                                      : way_axis_get(&problem_workload(p, 0)->execution, axis);
            const double value = way_axis_get(&problem_workload(p, w)->execution, axis);
            is_it = is_it && !(value < wanted) && !(value > wanted);
        }
        if (is_it) {
            *way = w;
            return MOSAIC_OK;
        }
    }
    (void)status_set(err, MOSAIC_BAD_INPUT, "the plan runs no job in this way");
    status_hint(err, "search.execution lists the ways that it may");
    return MOSAIC_BAD_INPUT;
}

static enum mosaic_status check_declared(const struct problem *p, const struct mesh *m,
                                         struct status_error *err) {
    for (int i = 0; i < LAYOUT_AXES; ++i) {
        const enum layout_axis axis = (enum layout_axis)i;
        const int value = layout_axis_get(m, axis);
        char text[STATUS_QUOTE_MAX];
        if (axis == LAYOUT_SCHEDULE && m->vpp > 1)
            continue;
        if (!layout_axis_declared(&p->layouts, axis, value))
            return status_set(err, MOSAIC_BAD_INPUT, "the plan's layouts have no %s of %s",
                              layout_axis_name(axis), layout_axis_text(axis, value, text));
    }
    return MOSAIC_OK;
}

/* "nodes=4 pp=8 ..." into what layout_text_read takes; *nodes as stated, else unchanged. */
static enum mosaic_status read_layout(const char *text, int *nodes, struct layout_request *out,
                                      struct status_error *err) {
    enum { DECIMAL = 10 };
    static const char prefix[] = "nodes=";
    char list[SHORTLIST_ID_MAX];
    if (strncmp(text, prefix, strlen(prefix)) == 0) {
        char *end = NULL;
        const long value = strtol(text + strlen(prefix), &end, DECIMAL);
        if ((*end != ' ' && *end != '\0') || value < 1 || value > CLUSTER_MAX_GPUS)
            return status_set(err, MOSAIC_BAD_INPUT, "'nodes' is no whole number of nodes");
        *nodes = (int)value;
        text = *end ? end + 1 : end;
    }
    (void)snprintf(list, sizeof list, "%s", text);
    for (char *c = list; *c; ++c)
        *c = *c == ' ' ? ',' : *c;
    if (layout_text_read(list, out, err) == MOSAIC_OK)
        return MOSAIC_OK;
    err->status = MOSAIC_BAD_INPUT;
    return MOSAIC_BAD_INPUT;
}

static void fill_axes(struct layout_request *request) {
    for (int i = 0; i < LAYOUT_AXES; ++i)
        if (!(request->given & 1u << i))
            layout_axis_set(&request->mesh, (enum layout_axis)i,
                            i == LAYOUT_RECOMPUTE || i == LAYOUT_SCHEDULE ? 0 : 1);
}

static enum mosaic_status check_nodes(const struct problem *p, int nodes,
                                      struct status_error *err) {
    const struct axis *const axis = &p->fleet.nodes;
    bool found = nodes == p->cluster.nodes;
    for (int i = 0; i < axis->count && !found; ++i)
        found = axis->values[i] == nodes;
    return found ? MOSAIC_OK
                 : status_set(err, MOSAIC_BAD_INPUT, "the plan is for no %d nodes", nodes);
}

enum mosaic_status shortlist_id_find(const struct problem *problem, const char *text,
                                     struct shortlist_entry *out, struct status_error *err) {
    char label[SHORTLIST_MODEL_MAX];
    const size_t length = strcspn(text, " ");
    if (length >= sizeof label || strlen(text) >= SHORTLIST_ID_MAX)
        return status_set(err, MOSAIC_BAD_INPUT, "the id is longer than any");
    (void)snprintf(label, sizeof label, "%.*s", (int)length, text);
    TRY(find_model(problem, label, &out->index, err));
    const struct geometry *const g = &problem->geometries.items[out->index];
    struct layout_request request = {.given = 0};
    struct problem at;
    out->nodes = problem->cluster.nodes;
    text += length;
    TRY(read_layout(text + strspn(text, " "), &out->nodes, &request, err));
    TRY(check_nodes(problem, out->nodes, err));
    problem_on(problem, out->nodes, &at);
    fill_axes(&request);
    struct mesh *const m = &request.mesh;
    TRY(find_way(&at, &request, &m->way, err));
    TRY(check_declared(&at, m, err));
    const struct workload *const w = problem_workload(&at, m->way);
    TRY(mesh_complete(m, g, w, cluster_gpus(&at.cluster), err));
    TRY(mesh_check_engine(m, g, w, &at.engine, err));
    return best_layout_evaluate(&at, g, m, &out->layout, &out->prediction, NULL, err);
}
