// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Result of an import: what its figures were taken to mean, each entry with what it was fitted to,
 * what is doubted, and the calibration document as text.
 */
#include "report/import_view.h"

#include "report/build.h"
#include "report/put.h"

static bool append(json_t *list, json_t *value) {
    return json_array_append_new(list, value) == 0;
}

static bool put_inputs(json_t *root, const struct import_set *set) {
    json_t *const inputs = json_object_get(json_object_get(root, "provenance"), "inputs");
    bool ok = inputs != NULL;
    for (size_t i = 0; ok && i < set->input_count; i++)
        ok = append(inputs, json_pack("{s:s, s:s}", "path", set->inputs[i].path, "sha256",
                                      set->inputs[i].sha256));
    return ok;
}

static json_t *texts(const char *const *items, size_t count) {
    json_t *const list = json_array();
    bool ok = list != NULL;
    for (size_t i = 0; ok && i < count; i++)
        ok = append(list, json_string(items[i]));
    return whole_or_null(list, ok);
}

static json_t *settings_of(const char *const *settings) {
    size_t count = 0;
    while (settings && settings[count])
        count++;
    return texts(settings, count);
}

/* ---- entries ---- */

static json_t *points_of(const struct curve *curve) {
    json_t *const list = json_array();
    bool ok = list != NULL;
    for (int i = 0; ok && i < curve->samples; i++)
        ok = append(list, json_pack("[f, f]", curve->x[i], curve->y[i]));
    return whole_or_null(list, ok);
}

static bool put_kind(json_t *o, const struct sample_fit *fit, const struct sample_entry *e) {
    const struct calibration *const c = &fit->calibration;
    if (e->kind == SAMPLE_ENTRY_SCALAR) {
        const struct scalar_info *const info = calibration_scalar_info((enum scalar)e->id);
        return put_real(o, "value", e->value) &&
               put(o, "unit", json_string(units_base(info->dimension))) &&
               put(o, "text", json_string(info->text));
    }
    if (e->kind == SAMPLE_ENTRY_CURVE) {
        const struct curve_info *const info = calibration_curve_info((enum curve_quantity)e->id);
        return put(o, "unit", json_string(units_base(info->dimension))) &&
               put(o, "text", json_string(info->text)) && put(o, "axis", json_string(info->axis)) &&
               put(o, "points", points_of(&c->curve[e->id]));
    }
    const struct collective_curve *const curve = &c->collective[e->id];
    bool ok = put(o, "collective", json_string(collective_name(curve->kind))) &&
              put_count(o, "ranks", (size_t)curve->ranks) &&
              put_count(o, "ranks_per_domain", (size_t)curve->ranks_per_domain) &&
              put(o, "unit", json_string(units_base(DIM_BYTES_PER_S))) &&
              put(o, "text", json_string("bus bandwidth by bytes of the buffer on one rank")) &&
              put(o, "axis", json_string("bytes")) && put(o, "points", points_of(&curve->bus));
    if (ok && e->asymptote > 0)
        ok = put_real(o, "latency_s", e->latency_s) &&
             put_real(o, "bandwidth_bytes_per_s", e->asymptote);
    return ok;
}

static json_t *entry_json(const struct sample_fit *fit, const struct sample_entry *e) {
    char name[128];
    (void)sample_entry_name(fit, e, name, sizeof name);
    json_t *const o =
        json_pack("{s:s, s:I, s:I, s:f, s:b, s:s, s:s}", "quantity", name, "samples",
                  (json_int_t)e->samples, "outliers", (json_int_t)e->outliers, "spread", e->spread,
                  "extrapolated", (int)e->is_extrapolated, "method", e->method, "range", e->range);
    json_t *const on = json_array();
    bool ok = o && on;
    for (int i = 0; ok && i < e->stands_on_count; i++)
        ok = append(on, json_string(calibration_scalar_info(e->stands_on[i])->key));
    if (!ok) {
        json_decref(on);
        return whole_or_null(o, false);
    }
    return whole_or_null(o, put(o, "stands_on", on) && put_kind(o, fit, e));
}

json_t *build_sample_entries(const struct sample_fit *fit) {
    json_t *const list = json_array();
    bool ok = list != NULL;
    for (size_t i = 0; ok && i < fit->entry_count; i++)
        ok = append(list, entry_json(fit, &fit->entry[i]));
    return whole_or_null(list, ok);
}

json_t *build_sample_notes(const struct sample_fit *fit) {
    json_t *const list = json_array();
    bool ok = list != NULL;
    for (size_t i = 0; ok && i < fit->note_count; i++)
        ok = append(list, json_pack("{s:s, s:s}", "kind", sample_note_name(fit->note[i].kind),
                                    "text", fit->note[i].text));
    return whole_or_null(list, ok);
}

static bool put_warnings(json_t *root, const struct import_view *view) {
    json_t *const list = texts(view->set->warnings.items, view->set->warnings.count);
    return list && append_diagnostics(list, view->diags) && put(root, "warnings", list);
}

json_t *build_import(const struct import_view *view) {
    const struct import_set *const set = view->set;
    json_t *const root = build_head("mosaic.import/1", NULL, 0, view->seed, "ok");
    const bool ok =
        root && put_inputs(root, set) &&
        put(root, "kind", json_string(import_kind_name(view->kind))) &&
        put(root, "device", json_string(view->fit->calibration.device)) &&
        put(root, "settings", settings_of(view->settings)) &&
        put(root, "rows",
            json_pack("{s:I, s:I}", "read", (json_int_t)set->rows, "refused",
                      (json_int_t)set->refused)) &&
        put(root, "samples",
            json_pack("{s:I, s:I}", "total", (json_int_t)view->fit->samples, "used",
                      (json_int_t)view->fit->used)) &&
        put_count(root, "measured_steps", set->step_count) &&
        put(root, "definitions", texts(set->definitions.items, set->definitions.count)) &&
        put(root, "entries", build_sample_entries(view->fit)) &&
        (view->fit->check_count == 0 || put(root, "checks", build_sample_checks(view->fit))) &&
        put(root, "notes", build_sample_notes(view->fit)) && put_warnings(root, view) &&
        put(root, "document", json_string(view->document)) &&
        (!view->journal || put(root, "journal", json_string(view->journal)));
    return whole_or_null(root, ok);
}
