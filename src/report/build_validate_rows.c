// SPDX-License-Identifier: GPL-3.0-or-later
/* Lists of a validation about its rows: what was left out, left open, and missed by most. */
#include "report/validate_view.h"

#include "report/build.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 192, KEY_MAX = 320, RECENT_YEAR = 2025, FEW_MICRO_BATCHES = 4 };
static const double short_step_s = 1.0;

static const struct {
    enum unstated bit;
    const char *name;
} flags[] = {{UNSTATED_RECOMPUTE, "recompute"}, {UNSTATED_OVERLAP, "overlap"},
             {UNSTATED_GRAPHS, "cuda_graph"},   {UNSTATED_DISPATCHER, "dispatcher"},
             {UNSTATED_ROUTING, "routing"},     {UNSTATED_STATE, "state"},
             {UNSTATED_SPLIT, "split"}};
enum { FLAGS = sizeof flags / sizeof *flags };

static json_t *whole_or_null(json_t *value, bool ok) {
    if (value && ok)
        return value;
    json_decref(value);
    return NULL;
}

/* Append to a text in a buffer, cut at its end. */
static void add(char *text, size_t size, const char *gap, const char *more) {
    const size_t length = strlen(text);
    if (snprintf(text + length, size - length, "%s%s", length > 0 ? gap : "", more) < 0)
        text[length] = '\0';
}

/* ---- excluded ---- */

static json_t *excluded_entry(const char *id, size_t row, const char *reason) {
    return json_pack("{s:s, s:I, s:s}", "id", id ? id : "", "row", (json_int_t)row, "reason",
                     reason);
}

/* The loader's and ours, by row. */
json_t *build_validate_excluded(const struct validate_view *view) {
    const struct measured_steps *const steps = &view->tables->steps;
    const struct step_validation *const v = view->validation;
    json_t *const list = json_array();
    size_t a = 0, b = 0;
    bool ok = true;
    while (a < steps->excluded_count || b < v->refused_count) {
        const bool is_loaders =
            a < steps->excluded_count &&
            (b == v->refused_count || steps->excluded[a].row <= v->refused[b].step->row);
        json_t *entry;
        if (is_loaders) {
            const struct excluded_step *const e = &steps->excluded[a++];
            entry = excluded_entry(e->id, e->row, e->reason);
        } else {
            const struct refused_step *const r = &v->refused[b++];
            entry = excluded_entry(r->step->id, r->step->row, r->reason);
        }
        ok = json_array_append_new(list, entry) == 0 && ok;
    }
    return whole_or_null(list, ok);
}

/* ---- what was left open ---- */

static void overlap_text(const struct execution *e, char *text, size_t size) {
    static const enum overlap bits[] = {OVERLAP_TP, OVERLAP_CP, OVERLAP_EP, OVERLAP_PP};
    for (size_t i = 0; i < sizeof bits / sizeof *bits; ++i)
        if (e->overlap & (unsigned)bits[i])
            add(text, size, " ", overlap_name(bits[i]));
    if (!e->serial_dp)
        add(text, size, " ", "dp");
    if (!*text)
        add(text, size, "", "none");
}

static void recompute_text(const struct measured_step *step, char *text, size_t size) {
    add(text, size, "", recompute_name(step->mesh.recompute));
    if (step->mesh.recompute != RECOMPUTE_SELECTIVE)
        return;
    const unsigned modules = execution_selective(&step->workload.execution);
    const char *gap = ": ";
    for (int i = 0; i < MODULE_COUNT; ++i)
        if (modules & 1U << i) {
            add(text, size, gap, module_name((enum module)(1U << i)));
            gap = " ";
        }
}

/* What stands in for a flag. */
static void assumed_text(const struct measured_step *step, enum unstated flag, char *text,
                         size_t size) {
    const struct execution *const e = &step->workload.execution;
    text[0] = '\0';
    switch (flag) {
    case UNSTATED_RECOMPUTE:
        recompute_text(step, text, size);
        break;
    case UNSTATED_OVERLAP:
        overlap_text(e, text, size);
        break;
    case UNSTATED_GRAPHS:
        add(text, size, "", graphs_name(e->graphs));
        break;
    case UNSTATED_DISPATCHER:
        add(text, size, "", dispatcher_name(e->dispatcher));
        break;
    case UNSTATED_ROUTING:
        (void)snprintf(text, size, "imbalance %.3g", step->workload.imbalance);
        break;
    case UNSTATED_STATE:
        (void)snprintf(text, size, "gradients %s, moments %s", e->bf16_gradients ? "bf16" : "fp32",
                       e->bf16_moments ? "bf16" : "fp32");
        break;
    case UNSTATED_SPLIT:
        add(text, size, "", "layers balanced over the stages");
        break;
    }
}

/* The entry of that key with one more row; `index` maps keys to entries. */
static bool count_in(json_t *list, json_t *index, const char *key, json_t *fresh) {
    json_t *const known = json_object_get(index, key);
    if (known) {
        json_t *const rows = json_object_get(known, "rows");
        json_decref(fresh);
        return json_integer_set(rows, json_integer_value(rows) + 1) == 0;
    }
    bool ok = json_object_set_new(fresh, "rows", json_integer(1)) == 0;
    ok = json_object_set(index, key, fresh) == 0 && ok;
    return json_array_append_new(list, fresh) == 0 && ok;
}

static bool count_flag(json_t *list, json_t *index, const struct measured_step *step, size_t flag) {
    char assumed[TEXT_MAX], key[KEY_MAX];
    assumed_text(step, flags[flag].bit, assumed, sizeof assumed);
    (void)snprintf(key, sizeof key, "%s\n%s\n%zu\n%s", step->engine->name, step->engine->version,
                   flag, assumed);
    return count_in(list, index, key,
                    json_pack("{s:{s:s, s:s}, s:s, s:s}", "engine", "name", step->engine->name,
                              "version", step->engine->version, "flag", flags[flag].name, "assumed",
                              assumed));
}

json_t *build_validate_unstated(const struct step_validation *validation) {
    json_t *const list = json_array(), *const index = json_object();
    bool ok = true;
    for (size_t k = 0; k < FLAGS; ++k)
        for (size_t i = 0; i < validation->count; ++i) {
            const struct measured_step *const step = validation->errors[i].step;
            if (step->unstated & (unsigned)flags[k].bit)
                ok = count_flag(list, index, step, k) && ok;
        }
    json_decref(index);
    return whole_or_null(list, ok);
}

json_t *build_validate_clusters(const struct step_validation *validation) {
    json_t *const list = json_array(), *const index = json_object();
    bool ok = true;
    for (size_t i = 0; i < validation->count; ++i) {
        const struct measured_step *const step = validation->errors[i].step;
        char key[KEY_MAX];
        (void)snprintf(key, sizeof key, "%s\n%s", step->cluster_name, step->calibration->name);
        ok = count_in(list, index, key,
                      json_pack("{s:s, s:s, s:s}", "name", step->cluster_name, "device",
                                step->cluster.device.name, "calibration",
                                step->calibration->name)) &&
             ok;
    }
    json_decref(index);
    return whole_or_null(list, ok);
}

/* ---- worst ---- */

/* "PP8 EP8 DP32 mb4 full": factors above 1, DP always. */
static void layout_text(const struct mesh *m, char *text, size_t size) {
    const struct {
        const char *name;
        int degree;
    } factors[] = {{"TP", m->tp},   {"CP", m->cp}, {"PP", m->pp},
                   {"VPP", m->vpp}, {"EP", m->ep}, {"ETP", m->etp}};
    char part[TEXT_MAX];
    text[0] = '\0';
    for (size_t i = 0; i < sizeof factors / sizeof *factors; ++i)
        if (factors[i].degree > 1) {
            (void)snprintf(part, sizeof part, "%s%d", factors[i].name, factors[i].degree);
            add(text, size, " ", part);
        }
    (void)snprintf(part, sizeof part, "DP%d mb%d", m->dp, m->micro_batch);
    add(text, size, " ", part);
    if (m->recompute != RECOMPUTE_NONE)
        add(text, size, " ", recompute_name(m->recompute));
}

static bool append_unstated(json_t *list, const struct measured_step *step) {
    char text[TEXT_MAX] = "";
    for (size_t k = 0; k < FLAGS; ++k)
        if (step->unstated & (unsigned)flags[k].bit)
            add(text, sizeof text, ", ", flags[k].name);
    return !*text || append_text(list, "unstated: %s", text);
}

static bool append_calibration(json_t *list, const struct measured_step *step) {
    const struct calibration *const c = step->calibration;
    if (strcmp(c->device, step->cluster.device.name) == 0)
        return true;
    if (strcmp(c->device, "any") == 0)
        return append_text(list, "no calibration of %s: %s stands in", step->cluster.device.name,
                           c->name);
    return append_text(list, "extrapolated: calibration %s was made on %s", c->name, c->device);
}

/* What of the row makes it hard to predict. */
static json_t *reasons(const struct step_error *error, unsigned outside) {
    const struct measured_step *const step = error->step;
    json_t *const list = json_array();
    const struct execution *const e = &step->workload.execution;
    bool ok = true;
    if (!measured_step_is_near(step, error->predicted_s, MEASURED_STEP_SUSPECT))
        ok = append_text(list, "off by more than %g: units?", MEASURED_STEP_SUSPECT) && ok;
    if (step->step_time_s < short_step_s)
        ok = append_text(list, "short step: fixed costs weigh") && ok;
    if (step->mesh.micro_batches <= FEW_MICRO_BATCHES)
        ok = append_text(list, "%d micro-batch%s: fixed costs weigh", step->mesh.micro_batches,
                         step->mesh.micro_batches == 1 ? "" : "es") &&
             ok;
    ok = append_unstated(list, step) && ok;
    if (outside > 0)
        ok = append_text(list, "%u look-ups outside what is calibrated", outside) && ok;
    if (step->geometry.experts > 0 &&
        (step->workload.expert_tokens || step->workload.imbalance > 1.0))
        ok = append_text(list, "natural routing") && ok;
    if (e->sharding == SHARD_FSDP || e->sharding == SHARD_HYBRID)
        ok =
            append_text(list, "weights gathered layer by layer (%s)", sharding_name(e->sharding)) &&
            ok;
    if (step->year > 0 && step->year < RECENT_YEAR)
        ok = append_text(list, "software of %d", step->year) && ok;
    return whole_or_null(list, append_calibration(list, step) && ok);
}

static double error_of(const struct step_error *e) {
    return e->predicted_s / e->step->step_time_s - 1.0;
}

static int by_distance(const void *a, const void *b) {
    const struct step_error *const x = *(const struct step_error *const *)a;
    const struct step_error *const y = *(const struct step_error *const *)b;
    const double p = fabs(error_of(x)), q = fabs(error_of(y));
    if (p < q || p > q)
        return p > q ? -1 : 1;
    return x < y ? -1 : x > y; /* one array: its order */
}

static json_t *worst_entry(const struct step_error *e, unsigned outside) {
    const struct measured_step *const step = e->step;
    char layout[TEXT_MAX];
    layout_text(&step->mesh, layout, sizeof layout);
    return json_pack("{s:s, s:I, s:s, s:s, s:i, s:s, s:f, s:f, s:f, s:I, s:o}", "id", step->id,
                     "row", (json_int_t)step->row, "model", step->model, "gpu", step->gpu, "gpus",
                     measured_step_gpus(step), "layout", layout, "measured_s", step->step_time_s,
                     "predicted_s", e->predicted_s, "error", error_of(e), "layout_rows",
                     (json_int_t)step->layout_rows, "reasons", reasons(e, outside));
}

static bool is_listed(const struct step_error **listed, size_t count, size_t layout) {
    for (size_t i = 0; i < count; ++i)
        if (listed[i]->step->layout == layout)
            return true;
    return false;
}

/* Of each layout its worst row. */
json_t *build_validate_worst(const struct step_validation *validation, size_t most) {
    const size_t count = validation->count;
    const struct step_error **const order = calloc(count + 1, sizeof(*order));
    json_t *const list = json_array();
    size_t listed = 0;
    bool ok = order != NULL;
    for (size_t i = 0; ok && i < count; ++i)
        order[i] = &validation->errors[i];
    if (ok)
        qsort(order, count, sizeof(*order), by_distance);
    for (size_t i = 0; ok && i < count && listed < most; ++i) {
        const struct step_error *const e = order[i];
        if (is_listed(order, listed, e->step->layout))
            continue;
        order[listed++] = e; /* at or before i: those behind it are done with */
        ok = json_array_append_new(
                 list, worst_entry(e, validation->outside[e - validation->errors])) == 0;
    }
    free(order);
    return whole_or_null(list, ok);
}

json_t *build_validate_predictions(const struct step_validation *validation) {
    json_t *const list = json_array();
    bool ok = true;
    for (size_t i = 0; i < validation->count; ++i) {
        const struct step_error *const e = &validation->errors[i];
        ok = json_array_append_new(
                 list, json_pack("{s:s, s:f, s:f, s:f, s:f, s:f}", "id", e->step->id, "measured_s",
                                 e->step->step_time_s, "predicted_s", e->predicted_s, "low_s",
                                 e->low_s, "high_s", e->high_s, "error", error_of(e))) == 0 &&
             ok;
    }
    return whole_or_null(list, ok);
}
