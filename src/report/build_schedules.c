// SPDX-License-Identifier: GPL-3.0-or-later
/* The result of `schedules`: mosaic.schedules/1. */
#include "report/number.h"
#include "report/put.h"
#include "report/schedules_view.h"

#include <math.h>
#include <stdio.h>

enum { LABEL_SIZE = 96 };

static json_t *whole(double bytes) {
    return json_integer((json_int_t)ceil(bytes));
}

/* Pieces and the largest of them, in words as well; NULL for a set that does not stream. */
static json_t *dispatch_stream(const struct live_sets *s) {
    const struct token_chunks *const c = &s->routes.chunks;
    char text[LABEL_SIZE];
    (void)snprintf(text, sizeof text, "%ld chunk%s of %ld tokens%s", c->count,
                   c->count > 1 ? "s" : "", c->tokens, s->routes.is_balanced ? ", balanced" : "");
    return json_pack("{s:s, s:I, s:I, s:s, s:b, s:f}", "axis", "token chunks", "count",
                     (json_int_t)c->count, "tokens", (json_int_t)c->tokens, "text", text,
                     "balanced", s->routes.is_balanced, "foreign_experts",
                     s->routes.foreign_experts);
}

static json_t *vocabulary_stream(const struct live_sets *s) {
    const struct vocab_ring *const r = &s->ring.ring;
    const char *const moves = r->move == VOCAB_MOVE_WEIGHTS ? "weights" : "activations";
    char text[LABEL_SIZE];
    (void)snprintf(text, sizeof text, "%d shards, %s move", r->ranks, moves);
    return json_pack("{s:s, s:i, s:I, s:s, s:s}", "axis", "vocabulary shards", "count", r->ranks,
                     "columns", (json_int_t)r->columns, "text", text, "moves", moves);
}

static json_t *boundary_stream(const struct live_sets *s) {
    const struct boundary_offload *const b = &s->boundaries;
    char text[LABEL_SIZE], size[NUMBER_MAX];
    (void)snprintf(text, sizeof text, "%ld of %ld boundaries, %s each", b->selected, b->boundaries,
                   number_human(b->bytes, NUMBER_MEMORY, size));
    return json_pack("{s:s, s:I, s:I, s:s, s:o}", "axis", "layers", "count",
                     (json_int_t)b->selected, "of", (json_int_t)b->boundaries, "text", text,
                     "boundary_bytes", whole(b->bytes));
}

static json_t *optimizer_stream(const struct live_sets *s) {
    const struct state_stream *const t = &s->stream;
    char text[LABEL_SIZE], count[NUMBER_MAX], size[NUMBER_MAX];
    (void)snprintf(text, sizeof text, "%s bucket%s up to %s, %d slot%s",
                   number_human((double)t->buckets, NUMBER_COUNT, count), t->buckets > 1 ? "s" : "",
                   number_human(t->largest_params, NUMBER_COUNT, size), t->slots,
                   t->slots > 1 ? "s" : "");
    return json_pack("{s:s, s:I, s:I, s:s, s:i}", "axis", "parameter buckets", "count",
                     (json_int_t)t->buckets, "params", (json_int_t)t->largest_params, "text", text,
                     "slots", t->slots);
}

static json_t *set_row(const struct live_sets *s, enum live_set_kind set) {
    static json_t *(*const streams[LIVE_SETS])(const struct live_sets *s) = {
        dispatch_stream, vocabulary_stream, boundary_stream, optimizer_stream};
    const struct live_set *const l = &s->sets[set];
    json_t *const row =
        json_pack("{s:s, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:f, s:f}", "set", live_set_name(set),
                  "schedule", live_schedule_name(set), "on", l->is_on, "before_bytes",
                  whole(l->before_bytes), "bytes", whole(l->bytes), "guarantee_bytes",
                  whole(l->guarantee_bytes), "host_bytes", whole(l->host_bytes), "link_bytes",
                  whole(l->link_bytes), "extra_time_s", l->extra_s, "extra_flop", l->extra_flop);
    const bool ok = row && (!l->is_on || put(row, "stream", streams[set](s)));
    return whole_or_null(row, ok);
}

static json_t *set_rows(const struct live_sets *s) {
    json_t *const list = json_array();
    bool ok = list != NULL;
    for (int i = 0; ok && i < LIVE_SETS; ++i)
        ok = json_array_append_new(list, set_row(s, (enum live_set_kind)i)) == 0;
    return whole_or_null(list, ok);
}

static json_t *phase_row(const struct live_sets *s, enum live_phase_kind phase) {
    const struct live_phase *const p = &s->phases[phase];
    json_t *const parts = json_object();
    const char *name;
    double bytes;
    bool ok = parts != NULL;
    for (int i = 0; ok && (name = live_part(p, i, &bytes)) != NULL; ++i)
        ok = put(parts, name, whole(bytes));
    json_t *const row =
        json_pack("{s:s, s:o, s:o, s:o}", "phase", live_phase_name(phase), "parts", parts, "bytes",
                  whole(p->total_bytes), "held_bytes", whole(p->held_bytes));
    return whole_or_null(row, ok);
}

static json_t *phase_rows(const struct live_sets *s) {
    json_t *const list = json_array();
    bool ok = list != NULL;
    for (int i = 0; ok && i < LIVE_PHASES; ++i)
        if (s->phases[i].total_bytes > 0.0)
            ok = json_array_append_new(list, phase_row(s, (enum live_phase_kind)i)) == 0;
    return whole_or_null(list, ok);
}

/* Pieces are counted from 1 for people. */
static json_t *timeline_row(const struct live_row *r) {
    char label[LABEL_SIZE];
    if (r->is_left_out)
        (void)snprintf(label, sizeof label, "%s %ld to %ld, left out", r->what, r->first + 1,
                       r->last + 1);
    else if (r->first >= 0)
        (void)snprintf(label, sizeof label, "%s %ld", r->what, r->first + 1);
    else
        (void)snprintf(label, sizeof label, "%s", r->what);
    json_t *const row =
        json_pack("{s:f, s:f, s:s, s:s, s:s}", "start_s", r->start_s, "end_s", r->end_s, "lane",
                  live_lane_name(r->lane), "label", label, "what", r->what);
    bool ok = row != NULL;
    if (ok && r->first >= 0)
        ok = put_count(row, "number", (size_t)r->first + 1);
    if (ok && r->is_left_out)
        ok = put_count(row, "left_out", (size_t)(r->last - r->first) + 1);
    return whole_or_null(row, ok);
}

static json_t *timeline(const struct live_timeline *t, enum live_set_kind set) {
    static const char *const spans[LIVE_SETS] = {
        "forward of one MoE layer's experts", "head, forward and backward",
        "one layer, forward and backward", "one optimizer step"};
    json_t *const rows = json_array();
    bool ok = rows != NULL;
    for (int i = 0; ok && i < t->count; ++i)
        if (t->rows[i].set == set)
            ok = json_array_append_new(rows, timeline_row(&t->rows[i])) == 0;
    json_t *const out = json_pack("{s:s, s:s, s:f, s:o}", "set", live_set_name(set), "of",
                                  spans[set], "end_s", t->end_s[set], "rows", rows);
    return whole_or_null(out, ok);
}

static json_t *timelines(const struct live_timeline *t) {
    json_t *const list = json_array();
    bool ok = list != NULL;
    for (int i = 0; ok && i < LIVE_SETS; ++i)
        if (t->end_s[i] > 0.0)
            ok = json_array_append_new(list, timeline(t, (enum live_set_kind)i)) == 0;
    return whole_or_null(list, ok);
}

/* The largest part of a phase but what is resident. */
static const char *largest_part(const struct live_phase *phase, double *most) {
    static const char *const words[] = {"what is resident",
                                        "kept activations",
                                        "the interior of a layer",
                                        "the all-to-all's buffers",
                                        "logits",
                                        "gathered weights and gradients",
                                        "workspace",
                                        "the optimizer's buckets"};
    double bytes = 0.0;
    int largest = 0;
    *most = 0.0;
    for (int i = 1; live_part(phase, i, &bytes); ++i)
        if (bytes > *most) {
            *most = bytes;
            largest = i;
        }
    return words[largest];
}

static bool append_phases(json_t *list, const struct schedules_view *v) {
    const struct live_sets *const s = v->sets;
    const struct live_phase *const first = &s->phases[s->fullest], *const next =
                                                                       &s->phases[s->next];
    char held[NUMBER_MAX], has[NUMBER_MAX], part[NUMBER_MAX], after[NUMBER_MAX];
    double most;
    const char *const what = largest_part(first, &most);
    return append_text(
        list,
        "The %s phase is the fullest: %s of %s, %s of it %s; the next is the %s phase with %s.",
        live_phase_name(s->fullest), number_human(first->held_bytes, NUMBER_MEMORY, held),
        number_human(v->point->prediction.capacity_bytes, NUMBER_MEMORY, has),
        number_human(most, NUMBER_MEMORY, part), what, live_phase_name(s->next),
        number_human(next->held_bytes, NUMBER_MEMORY, after));
}

static bool append_set(json_t *list, const struct live_sets *s, enum live_set_kind set) {
    const struct live_set *const l = &s->sets[set];
    char before[NUMBER_MAX], after[NUMBER_MAX], time[NUMBER_MAX];
    if (!l->is_on)
        return true;
    return append_text(list, "%s: %s %s instead of %s, a step %s %s.", live_schedule_name(set),
                       live_set_name(set), number_human(l->bytes, NUMBER_MEMORY, after),
                       number_human(l->before_bytes, NUMBER_MEMORY, before),
                       number_human(fabs(l->extra_s), NUMBER_TIME, time),
                       l->extra_s < 0.0 ? "shorter" : "longer");
}

static json_t *why(const struct schedules_view *v) {
    json_t *const list = json_array();
    bool ok = list && append_phases(list, v);
    for (int i = 0; ok && i < LIVE_SETS; ++i)
        ok = append_set(list, v->sets, (enum live_set_kind)i);
    return whole_or_null(list, ok);
}

static json_t *warnings(const struct report_point *point) {
    json_t *const list = json_array();
    const bool ok = list && append_diagnostics(list, point->diags) &&
                    append_prediction_warnings(list, point->problem, &point->prediction);
    return whole_or_null(list, ok);
}

json_t *build_schedules(const struct schedules_view *v) {
    const struct report_point *const point = v->point;
    const struct problem *const problem = point->problem;
    const struct live_sets *const s = v->sets;
    const char *const status = point->prediction.verdict == VERDICT_NO ? "infeasible" : "ok";
    json_t *const root = build_head("mosaic.schedules/1", &point->document, 1, v->seed, status);
    if (!root || !build_setting(root, problem)) {
        json_decref(root);
        return NULL;
    }
    json_t *const parts = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:i, s:o, s:s, s:s, s:o, s:o}", "why", why(v), "geometry",
        build_geometry(&point->geometry, problem->workload.sequence), "layout",
        build_layout(problem, &point->geometry, &point->layout), "prediction",
        build_prediction(problem, &point->geometry, &point->prediction, point->stages,
                         point->layout.mesh.pp),
        "live_sets", set_rows(s), "stage", s->stage, "phases", phase_rows(s), "fullest_phase",
        live_phase_name(s->fullest), "next_phase", live_phase_name(s->next), "timeline",
        timelines(v->timeline), "warnings", warnings(point));
    return build_joined(root, parts);
}
