// SPDX-License-Identifier: GPL-3.0-or-later
/* Result of explain: what a layout breaks, lacks or loses, with the changes that help. */
#include "engine/way.h"
#include "report/build.h"
#include "report/explain_view.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SENTENCE_MAX = 640 };

/* With the ways that the explanation's meshes name. */
static const struct problem *problem_of(const struct explain_view *v) {
    return &v->explanation->problem;
}

static const struct execution *execution_of(const struct explain_view *v, const struct mesh *m) {
    return &problem_workload(problem_of(v), m->way)->execution;
}

static void say(char text[SENTENCE_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Append to a sentence, cut where it is full. */
static void say(char text[SENTENCE_MAX], const char *format, ...) {
    const size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text + used, SENTENCE_MAX - used, format, args);
    va_end(args);
}

/* ---- the layout asked about ---- */

static const char *origin_of_key(const struct explain_view *v, const char *key) {
    const struct document_value *const value = document_value(v->document, key);
    return value && value->origin == DOCUMENT_DEFAULT ? "default" : "plan";
}

static const char *origin_of_axis(const struct explain_view *v, enum layout_axis axis) {
    const enum explain_origin origin = v->explanation->origins[axis];
    char key[STATUS_QUOTE_MAX];
    (void)snprintf(key, sizeof key, "search.layout.%s", layout_axis_name(axis));
    return origin == EXPLAIN_PLAN ? origin_of_key(v, key) : explain_origin_name(origin);
}

static const char *origin_of_operand(const struct explain_view *v, enum operand operand) {
    if (operand <= OPERAND_MICRO_BATCH)
        return origin_of_axis(v, (enum layout_axis)operand);
    if (operand == OPERAND_DP || operand == OPERAND_MICRO_BATCHES)
        return "derived";
    if (operand == OPERAND_GPUS)
        return "cluster";
    if (operand == OPERAND_GLOBAL_BATCH)
        return origin_of_key(v, "workload.global_batch");
    if (operand == OPERAND_SEQUENCE)
        return origin_of_key(v, "workload.sequence");
    return operand == OPERAND_SHARD_RANKS ? origin_of_key(v, "execution.shard_ranks") : "model";
}

static json_t *axis_value(enum layout_axis axis, int value) {
    char text[STATUS_QUOTE_MAX];
    return axis == LAYOUT_RECOMPUTE || axis == LAYOUT_SCHEDULE
               ? json_string(layout_axis_text(axis, value, text))
               : json_integer(value);
}

static json_t *way_value(enum way_axis axis, double value) {
    const char *const *const words = way_axis_words(axis);
    if (words)
        return json_string(words[(int)value]);
    return axis == WAY_OFFLOAD_ACTIVATIONS || axis == WAY_OFFLOAD_OPTIMIZER
               ? json_real(value)
               : json_integer((json_int_t)value);
}

/* Keys of the execution that are given, or that the plan lists several values of. */
static void add_way_axes(const struct explain_view *v, json_t *list) {
    const struct explanation *const e = v->explanation;
    for (int i = 0; i < WAY_AXES; ++i) {
        const enum way_axis axis = (enum way_axis)i;
        if (e->shown_ways & 1u << i)
            (void)json_array_append_new(
                list,
                json_pack("{s:s, s:o, s:s, s:b}", "axis", way_axis_name(axis), "value",
                          way_value(axis, way_axis_get(execution_of(v, &e->point.mesh), axis)),
                          "origin", explain_origin_name(e->way_origins[i]), "declared",
                          (e->undeclared_ways & 1u << i) ? 0 : 1));
    }
}

static json_t *axes(const struct explain_view *v) {
    const struct explanation *const e = v->explanation;
    json_t *const list = json_array();
    for (int i = 0; i < LAYOUT_AXES; ++i) {
        const enum layout_axis axis = (enum layout_axis)i;
        (void)json_array_append_new(
            list,
            json_pack("{s:s, s:o, s:s, s:b}", "axis", layout_axis_name(axis), "value",
                      axis_value(axis, layout_axis_get(&e->point.mesh, axis)), "origin",
                      origin_of_axis(v, axis), "declared", (e->undeclared & 1u << i) ? 0 : 1));
    }
    add_way_axes(v, list);
    return list;
}

/* ---- broken rules ---- */

static json_t *factors(const struct explain_view *v, unsigned operands) {
    json_t *const list = json_array();
    for (int i = 0; i < OPERANDS; ++i) {
        const enum operand operand = (enum operand)i;
        if (operands & 1u << i)
            (void)json_array_append_new(
                list, json_pack("{s:s, s:i, s:s}", "name", operand_name(operand), "value",
                                operand_value(&v->explanation->point, operand), "origin",
                                origin_of_operand(v, operand)));
    }
    return list;
}

static json_t *violations(const struct explain_view *v) {
    const struct explanation *const e = v->explanation;
    const struct engine *const engine = &problem_of(v)->engine;
    json_t *const list = json_array();
    for (int i = 0; i < e->violation_count; ++i) {
        const struct violation *const broken = &e->violations[i];
        json_t *const o = json_pack("{s:s, s:s, s:s, s:o}", "rule", broken->rule, "class",
                                    legality_kind_name(broken->kind), "text", broken->text,
                                    "factors", factors(v, broken->operands));
        if (o && broken->kind == LEGALITY_ENGINE)
            (void)json_object_set_new(
                o, "engine",
                json_pack("{s:s, s:s}", "name", engine->name, "version", engine->version));
        if (o && broken->hint[0])
            (void)json_object_set_new(o, "hint", json_string(broken->hint));
        (void)json_array_append_new(list, o);
    }
    return list;
}

static bool why_illegal(json_t *list, const struct explain_view *v) {
    const struct explanation *const e = v->explanation;
    bool ok = true;
    for (int i = 0; i < e->violation_count; ++i) {
        const struct violation *const broken = &e->violations[i];
        char text[SENTENCE_MAX] = "";
        const char *comma = "";
        for (int o = 0; o < OPERANDS; ++o)
            if (broken->operands & 1u << o) {
                say(text, "%s%s %d %s", comma, operand_name((enum operand)o),
                    operand_value(&e->point, (enum operand)o),
                    origin_of_operand(v, (enum operand)o));
                comma = ", ";
            }
        ok = append_text(list, "%s (%s)%s%s", broken->text, text, broken->hint[0] ? "; " : "",
                         broken->hint) &&
             ok;
    }
    return ok;
}

/* ---- changes ---- */

static void changed_text(const struct explain_view *v, const struct explain_change *c,
                         char text[SENTENCE_MAX]) {
    const struct mesh *const from = &v->explanation->point.mesh, *const to = &c->layout.mesh;
    const struct execution *const before = execution_of(v, from), *const after =
                                                                      execution_of(v, to);
    const unsigned keys = layout_way_difference(before, after);
    char old[STATUS_QUOTE_MAX], new[STATUS_QUOTE_MAX];
    text[0] = '\0';
    for (int i = 0; i < LAYOUT_AXES; ++i) {
        const enum layout_axis axis = (enum layout_axis)i;
        if (c->axes & 1u << i)
            say(text, "%s%s %s -> %s", text[0] ? ", " : "", layout_axis_name(axis),
                layout_axis_text(axis, layout_axis_get(from, axis), old),
                layout_axis_text(axis, layout_axis_get(to, axis), new));
    }
    for (int i = 0; i < WAY_AXES; ++i) {
        const enum way_axis axis = (enum way_axis)i;
        if (keys & 1u << i)
            say(text, "%s%s %s -> %s", text[0] ? ", " : "", way_axis_name(axis),
                way_axis_text(axis, way_axis_get(before, axis), old),
                way_axis_text(axis, way_axis_get(after, axis), new));
    }
}

/* What --layout takes: every axis, and the keys of the execution that the plan leaves open, that
 * are given or that change. */
static void mesh_text(const struct explain_view *v, const struct mesh *m, char text[SENTENCE_MAX]) {
    const struct explanation *const e = v->explanation;
    const struct execution *const execution = execution_of(v, m);
    const unsigned keys =
        e->shown_ways | layout_way_difference(execution, execution_of(v, &e->point.mesh));
    char value[STATUS_QUOTE_MAX];
    text[0] = '\0';
    for (int i = 0; i < LAYOUT_AXES; ++i) {
        const enum layout_axis axis = (enum layout_axis)i;
        say(text, "%s%s=%s", i ? "," : "", layout_axis_name(axis),
            layout_axis_text(axis, layout_axis_get(m, axis), value));
    }
    for (int i = 0; i < WAY_AXES; ++i)
        if (keys & 1u << i)
            say(text, ",%s=%s", way_axis_name((enum way_axis)i),
                way_axis_text((enum way_axis)i, way_axis_get(execution, (enum way_axis)i), value));
}

static json_t *change_list(const struct explain_view *v, const struct explain_change *c) {
    const struct mesh *const from = &v->explanation->point.mesh, *const to = &c->layout.mesh;
    const struct execution *const before = execution_of(v, from), *const after =
                                                                      execution_of(v, to);
    const unsigned keys = layout_way_difference(before, after);
    json_t *const list = json_array();
    for (int i = 0; i < LAYOUT_AXES; ++i) {
        const enum layout_axis axis = (enum layout_axis)i;
        if (c->axes & 1u << i)
            (void)json_array_append_new(
                list, json_pack("{s:s, s:o, s:o}", "axis", layout_axis_name(axis), "from",
                                axis_value(axis, layout_axis_get(from, axis)), "to",
                                axis_value(axis, layout_axis_get(to, axis))));
    }
    for (int i = 0; i < WAY_AXES; ++i) {
        const enum way_axis axis = (enum way_axis)i;
        if (keys & 1u << i)
            (void)json_array_append_new(
                list, json_pack("{s:s, s:o, s:o}", "axis", way_axis_name(axis), "from",
                                way_value(axis, way_axis_get(before, axis)), "to",
                                way_value(axis, way_axis_get(after, axis))));
    }
    return list;
}

static json_t *change(const struct explain_view *v, const struct explain_change *c) {
    char changed[SENTENCE_MAX], layout[SENTENCE_MAX];
    changed_text(v, c, changed);
    mesh_text(v, &c->layout.mesh, layout);
    json_t *const o =
        json_pack("{s:s, s:o, s:s, s:i, s:i, s:f, s:f, s:f, s:s, s:b}", "text", changed, "changes",
                  change_list(v, c), "layout", layout, "dp", c->layout.mesh.dp, "micro_batches",
                  c->layout.mesh.micro_batches, "step_time_s", c->step_time_s, "mfu", c->mfu,
                  "reserved_bytes", c->memory_bytes, "verdict", verdict_name(c->verdict),
                  "declared", c->is_declared ? 1 : 0);
    if (o && c->host_bytes > 0.0)
        (void)json_object_set_new(o, "host_bytes", json_real(ceil(c->host_bytes)));
    return o;
}

static json_t *changes(const struct explain_view *v, const struct explain_change *list, int count) {
    json_t *const out = json_array();
    for (int i = 0; i < count; ++i)
        (void)json_array_append_new(out, change(v, &list[i]));
    return out;
}

static bool why_changes(json_t *list, const struct explain_view *v) {
    const struct explanation *const e = v->explanation;
    char text[SENTENCE_MAX];
    if (e->verdict == EXPLAIN_ILLEGAL && e->neighbour_count == 0)
        return append_text(list, "no change of up to four axes makes it legal");
    if (e->verdict == EXPLAIN_ILLEGAL) {
        const struct explain_change *const c = &e->neighbours[0];
        changed_text(v, c, text);
        const bool ok =
            append_text(list, "the nearest legal layout: %s, a step of %.4g s, memory %s", text,
                        c->step_time_s, c->verdict == VERDICT_NO ? "too small" : "fits");
        if (c->verdict != VERDICT_NO || e->fix_count == 0)
            return ok;
        changed_text(v, &e->fixes[0], text);
        return append_text(list, "the fastest that fits as well: %s, a step of %.4g s", text,
                           e->fixes[0].step_time_s) &&
               ok;
    }
    if (e->fix_count == 0)
        return append_text(list, "no change of one or two axes fits");
    changed_text(v, &e->fixes[0], text);
    return append_text(list, "the fastest change that fits: %s, a step of %.4g s", text,
                       e->fixes[0].step_time_s);
}

/* ---- memory ---- */

enum { LARGEST = 3 };

/* Indices of the largest values, largest first. */
static void largest(const double *values, int count, int order[LARGEST]) {
    for (int k = 0; k < LARGEST; ++k) {
        order[k] = -1;
        for (int i = 0; i < count; ++i) {
            bool is_taken = false;
            for (int j = 0; j < k; ++j)
                is_taken = is_taken || order[j] == i;
            if (!is_taken && (order[k] < 0 || values[i] > values[order[k]]))
                order[k] = i;
        }
    }
}

/* What waits on the host, and what of it a node has. */
static bool why_host_too_small(json_t *list, const struct explain_view *v) {
    const struct explanation *const e = v->explanation;
    const struct execution *const x = execution_of(v, &e->point.mesh);
    const struct cluster *const c = &problem_of(v)->cluster;
    const double gib = UNITS_BYTES_PER_GIB, host = e->side.prediction.host_bytes,
                 needed = e->side.prediction.host_node_bytes;
    char what[SENTENCE_MAX] = "";
    for (int i = WAY_OFFLOAD_ACTIVATIONS; i < WAY_AXES; ++i) {
        const enum way_axis axis = (enum way_axis)i;
        char value[STATUS_QUOTE_MAX];
        if ((axis == WAY_OFFLOAD_ACTIVATIONS || axis == WAY_OFFLOAD_OPTIMIZER ||
             axis == WAY_CHECKPOINT_OFFLOAD || axis == WAY_OPTIMIZER_BUCKET) &&
            way_axis_get(x, axis) > 0.0)
            say(what, "%s%s %s", what[0] ? ", " : "", way_axis_name(axis),
                way_axis_text(axis, way_axis_get(x, axis), value));
    }
    if (needed < host * (double)c->gpus_per_node) /* stages share nodes */
        return append_text(list,
                           "host memory is too small: %.1f GiB on the fullest node, up to %.1f GiB "
                           "a GPU (%s), of %.1f GiB, %.1f GiB too much",
                           needed / gib, host / gib, what, c->host_memory_bytes / gib,
                           (needed - c->host_memory_bytes) / gib);
    return append_text(
        list,
        "host memory is too small: %.1f GiB a GPU (%s) x %d GPUs a node = %.1f GiB of "
        "%.1f GiB, %.1f GiB too much",
        host / gib, what, c->gpus_per_node, needed / gib, c->host_memory_bytes / gib,
        (needed - c->host_memory_bytes) / gib);
}

static bool why_too_large(json_t *list, const struct explain_view *v) {
    const struct explanation *const e = v->explanation;
    const struct prediction *const p = &e->side.prediction;
    const struct cluster *const c = &problem_of(v)->cluster;
    const double gib = UNITS_BYTES_PER_GIB;
    const bool is_host = c->host_memory_bytes > 0.0 && p->host_node_bytes > c->host_memory_bytes;
    if (is_host && !why_host_too_small(list, v))
        return false;
    if (p->memory.total <= p->capacity_bytes)
        return append_text(list, "device memory suffices: %.1f GiB of %.1f GiB",
                           p->memory.total / gib, p->capacity_bytes / gib);
    double bytes[MEMORY_ITEM_COUNT];
    int order[LARGEST];
    char text[SENTENCE_MAX] = "";
    for (int i = 0; i < MEMORY_ITEM_COUNT; ++i)
        (void)memory_item(&p->memory, i, &bytes[i]);
    largest(bytes, MEMORY_ITEM_COUNT, order);
    for (int k = 0; k < LARGEST; ++k) {
        double unused;
        say(text, "%s%s %.1f", k ? ", " : "", memory_item(&p->memory, order[k], &unused),
            bytes[order[k]] / gib);
    }
    return append_text(list,
                       "stage %d of %d (from 0) needs %.1f GiB of %.1f GiB, %.1f GiB too much; "
                       "most of it: %s GiB",
                       p->worst_stage, e->point.mesh.pp, p->memory.total / gib,
                       p->capacity_bytes / gib, (p->memory.total - p->capacity_bytes) / gib, text);
}

static json_t *fewest(const struct explanation *e) {
    const struct shortfall *const s = &e->fewest;
    if (!e->has_fewest)
        return NULL;
    json_t *const o = json_pack("{s:i, s:f, s:b}", "gpus", s->gpus, "capacity_bytes",
                                s->capacity_bytes, "declared", e->fewest_is_free ? 0 : 1);
    if (o && isfinite(s->needed_bytes))
        (void)json_object_set_new(o, "needed_bytes", json_real(ceil(s->needed_bytes)));
    if (o && s->host_needed_bytes > 0.0) {
        (void)json_object_set_new(o, "host_needed_bytes", json_real(ceil(s->host_needed_bytes)));
        (void)json_object_set_new(o, "host_capacity_bytes", json_real(s->host_capacity_bytes));
    }
    if (o && s->gpus_needed > 0)
        (void)json_object_set_new(o, "minimum_gpus", json_integer(s->gpus_needed));
    else if (o)
        (void)json_object_set_new(o, "gpus_tried", json_integer(s->gpus_tried));
    return o;
}

static bool why_fewest(json_t *list, const struct explanation *e) {
    const struct shortfall *const s = &e->fewest;
    const char *const space = e->fewest_is_free ? "any layout" : "a declared layout";
    if (!e->has_fewest)
        return true;
    if (s->gpus_needed > 0)
        return append_text(list,
                           "%s needs at least %d such GPUs to hold the model; there are %d (every "
                           "number of nodes from there on tried, by memory)",
                           space, s->gpus_needed, s->gpus);
    return append_text(list, "no count of such GPUs up to %d holds the model in %s", s->gpus_tried,
                       space);
}

/* ---- against the winner ---- */

static bool add_term(json_t *list, const char *key, const char *unit, double layout,
                     double winner) {
    json_t *const row = json_pack("{s:s, s:s, s:f, s:f, s:f}", "key", key, "unit", unit, "layout",
                                  layout, "winner", winner, "difference", layout - winner);
    return json_array_append_new(list, row) == 0;
}

static json_t *terms(const struct explanation *e) {
    json_t *const list = json_array();
    const struct prediction *const p = &e->side.prediction, *const q = &e->winner.prediction;
    bool ok = list && append_times(list, add_term, p, q);
    ok = ok && add_term(list, "mfu", "1", p->mfu, q->mfu) &&
         add_term(list, "tokens_per_s_per_gpu", "1/s", p->tokens_per_s_per_gpu,
                  q->tokens_per_s_per_gpu);
    ok = ok && append_memory(list, add_term, p, q);
    if (ok && e->side.has_tokens && e->winner.has_tokens)
        ok = add_term(list, "tokens", "1", e->side.run.tokens, e->winner.run.tokens) &&
             add_term(list, "loss", "nat", e->side.run.loss, e->winner.run.loss);
    if (ok)
        return list;
    json_decref(list);
    return NULL;
}

static bool why_loss(json_t *list, const struct explanation *e) {
    if (!e->side.has_tokens || !e->winner.has_tokens)
        return true;
    return append_text(list,
                       "it trains on %.4g tokens against %.4g: a predicted loss of %.4f against "
                       "%.4f, %.2g nats %s",
                       e->side.run.tokens, e->winner.run.tokens, e->side.run.loss,
                       e->winner.run.loss, fabs(e->side.run.loss - e->winner.run.loss),
                       e->side.run.loss > e->winner.run.loss ? "worse" : "better or equal");
}

/* The terms that lose, largest first, with what the rest wins back. */
static bool why_loses(json_t *list, const struct explanation *e) {
    const struct prediction *const p = &e->side.prediction, *const q = &e->winner.prediction;
    double lost[TIME_TERM_COUNT], won = 0.0;
    int order[LARGEST];
    char text[SENTENCE_MAX] = "";
    for (int i = 0; i < TIME_TERM_COUNT; ++i) {
        double left, right;
        (void)time_term(&p->split, i, &left);
        (void)time_term(&q->split, i, &right);
        lost[i] = left - right;
        won += fmax(right - left, 0.0);
    }
    largest(lost, TIME_TERM_COUNT, order);
    for (int k = 0; k < LARGEST; ++k) {
        double unused;
        if (lost[order[k]] > 0.0)
            say(text, "%s%s (+%.3g s)", k ? ", " : "",
                build_term_name(time_term(&p->split, order[k], &unused)), lost[order[k]]);
    }
    bool ok =
        append_text(list,
                    "a step takes %.4g s against %.4g s of the plan's best layout, %.3g times "
                    "as long (MFU %.1f %% against %.1f %%)",
                    p->step_time_s, q->step_time_s, p->step_time_s / q->step_time_s, 100.0 * p->mfu,
                    100.0 * q->mfu);
    ok = append_text(list, "it loses by %s; other terms win %.3g s back", text, won) && ok;
    return why_loss(list, e) && ok;
}

static bool why_best(json_t *list, const struct explanation *e) {
    const struct prediction *const p = &e->side.prediction, *const q = &e->winner.prediction;
    if (!e->has_winner)
        return append_text(list, "it is legal and fits; the plan's own space holds no layout");
    if (mesh_compare(&e->side.layout.mesh, &e->winner.layout.mesh) == 0)
        return append_text(list, "it is the plan's best layout: a step of %.4g s, MFU %.1f %%",
                           p->step_time_s, 100.0 * p->mfu);
    return append_text(list,
                       "a step takes %.4g s, no longer than the %.4g s of the best layout that the "
                       "plan's own space holds",
                       p->step_time_s, q->step_time_s);
}

/* ---- the result ---- */

static json_t *why(const struct explain_view *v) {
    const struct explanation *const e = v->explanation;
    json_t *const list = json_array();
    bool ok = list != NULL;
    if (ok && e->verdict == EXPLAIN_ILLEGAL)
        ok = why_illegal(list, v) && why_changes(list, v) && why_fewest(list, e);
    else if (ok && (e->verdict == EXPLAIN_DOES_NOT_FIT || e->verdict == EXPLAIN_ILLEGAL))
        ok = why_too_large(list, v) && why_changes(list, v) && why_fewest(list, e);
    else if (ok && e->verdict == EXPLAIN_LOSES)
        ok = why_loses(list, e);
    else if (ok)
        ok = why_best(list, e);
    if (ok)
        return list;
    json_decref(list);
    return NULL;
}

/* A pipeline that never fills. */
static bool warn_bubble(json_t *list, const struct mesh *m) {
    if (m->micro_batches == 0 || m->micro_batches >= m->pp || m->vpp > 1)
        return true;
    return append_text(list,
                       "%d micro-batches do not fill %d stages: a 1F1B bubble of (PP - 1)/"
                       "(micro-batches + PP - 1) = %d/%d = %.1f %%",
                       m->micro_batches, m->pp, m->pp - 1, m->micro_batches + m->pp - 1,
                       100.0 * (double)(m->pp - 1) / (double)(m->micro_batches + m->pp - 1));
}

static bool warn_undeclared(json_t *list, const struct explanation *e) {
    char text[SENTENCE_MAX] = "";
    for (int i = 0; i < LAYOUT_AXES; ++i) {
        const enum layout_axis axis = (enum layout_axis)i;
        char value[STATUS_QUOTE_MAX];
        if (e->undeclared & 1u << i)
            say(text, "%s%s %s", text[0] ? ", " : "", layout_axis_name(axis),
                layout_axis_text(axis, layout_axis_get(&e->point.mesh, axis), value));
    }
    return !text[0] || append_text(list, "the plan's search.layout leaves out: %s", text);
}

/* Values that neither `execution` nor search.execution has. */
static bool warn_undeclared_ways(json_t *list, const struct explain_view *v) {
    const struct explanation *const e = v->explanation;
    char text[SENTENCE_MAX] = "";
    for (int i = 0; i < WAY_AXES; ++i) {
        const enum way_axis axis = (enum way_axis)i;
        char value[STATUS_QUOTE_MAX];
        if (e->undeclared_ways & 1u << i)
            say(text, "%s%s %s", text[0] ? ", " : "", way_axis_name(axis),
                way_axis_text(axis, way_axis_get(execution_of(v, &e->point.mesh), axis), value));
    }
    return !text[0] ||
           append_text(list, "the plan's execution and search.execution leave out: %s", text);
}

static json_t *warnings(const struct explain_view *v) {
    const struct explanation *const e = v->explanation;
    json_t *const list = json_array();
    bool ok = list && append_diagnostics(list, v->diags);
    if (ok && e->is_searched)
        ok = append_text(list, "the plan declares several models: this is the best plan's");
    ok = ok && warn_undeclared(list, e) && warn_undeclared_ways(list, v);
    if (ok && e->verdict != EXPLAIN_ILLEGAL)
        ok = warn_bubble(list, &e->point.mesh) &&
             append_prediction_warnings(list, problem_of(v), &e->side.prediction);
    if (ok)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *side(const struct explain_view *v, const struct explain_side *s) {
    const struct problem *const problem = problem_of(v);
    const struct geometry *const g = &v->explanation->geometry;
    json_t *const o =
        json_pack("{s:o, s:o}", "layout", build_layout(problem, g, &s->layout), "prediction",
                  build_prediction(problem, g, &s->prediction, s->stages, s->layout.mesh.pp));
    if (o && s->has_tokens) {
        (void)json_object_set_new(o, "tokens", json_real(s->run.tokens));
        (void)json_object_set_new(o, "loss", json_real(s->run.loss));
    }
    return o;
}

/* What only some verdicts have. */
static bool add_optional(json_t *root, const struct explain_view *v) {
    const struct explanation *const e = v->explanation;
    bool ok = true;
    if (e->verdict == EXPLAIN_ILLEGAL)
        ok = json_object_set_new(root, "violations", violations(v)) == 0 &&
             json_object_set_new(root, "neighbours",
                                 changes(v, e->neighbours, e->neighbour_count)) == 0;
    else
        ok = json_object_update_new(root, side(v, &e->side)) == 0;
    if (ok && (e->verdict == EXPLAIN_DOES_NOT_FIT || e->verdict == EXPLAIN_ILLEGAL))
        ok = json_object_set_new(root, "fixes", changes(v, e->fixes, e->fix_count)) == 0;
    if (ok && e->has_fewest)
        ok = json_object_set_new(root, "fewest_gpus", fewest(e)) == 0;
    if (ok && e->has_winner)
        ok = json_object_set_new(root, "winner", side(v, &e->winner)) == 0;
    if (ok && e->has_winner && e->verdict != EXPLAIN_ILLEGAL)
        ok = json_object_set_new(root, "terms", terms(e)) == 0;
    return ok;
}

json_t *build_explain(const struct explain_view *v, unsigned long seed) {
    const struct explanation *const e = v->explanation;
    json_t *const root = build_head("mosaic.explain/1", &v->document, 1, seed, "ok");
    json_t *const parts =
        json_pack("{s:s, s:o, s:o, s:s, s:o, s:o}", "verdict", explain_verdict_name(e->verdict),
                  "why", why(v), "geometry",
                  build_geometry(&e->geometry, problem_of(v)->workload.sequence), "geometry_origin",
                  e->is_searched ? "best_plan" : "plan", "axes", axes(v), "warnings", warnings(v));
    const bool ok = root && parts && build_setting(root, problem_of(v)) &&
                    json_object_update(root, parts) == 0 && add_optional(root, v);
    json_decref(parts);
    if (ok)
        return root;
    json_decref(root);
    return NULL;
}
