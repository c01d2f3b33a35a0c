// SPDX-License-Identifier: GPL-3.0-or-later
/* The result of `calibrate --compare`: a row an entry with its verdict; samples by quantity. */
#include "report/build.h"
#include "report/calibrate_view.h"
#include "report/put.h"

#include <math.h>

/* Columns of CSV are in the order of the first row's keys: the verdict is in all of them. */
static json_t *row_json(const struct drift_row *row) {
    json_t *const o =
        json_pack("{s:s, s:s, s:s}", "entry", row->name, "unit", units_base(row->dimension),
                  "verdict", drift_verdict_name(row->verdict));
    /* Of a curve that only one side has there is no one value. */
    const bool is_curve = row->has_at || !(row->has_was && row->has_now);
    bool ok = o != NULL;
    if (row->has_at)
        ok = ok && put_real(o, "at", row->at);
    if (row->has_was && (!is_curve || fabs(row->was) > 0.0))
        ok = ok && put_real(o, "old", row->was);
    if (row->has_now && (!is_curve || fabs(row->now) > 0.0))
        ok = ok && put_real(o, "new", row->now);
    if (row->has_was && row->has_now && fabs(row->was) > 0.0)
        ok = ok && put_real(o, "relative", (row->now - row->was) / fabs(row->was));
    ok = ok && put_real(o, "limit", row->limit);
    if (row->spread > 0.0)
        ok = ok && put_real(o, "spread", row->spread);
    return whole_or_null(o, ok);
}

static json_t *rows_json(const struct drift *drift) {
    json_t *const list = json_array();
    bool ok = list != NULL;
    for (size_t i = 0; ok && i < drift->count; ++i)
        ok = json_array_append_new(list, row_json(&drift->rows[i])) == 0;
    return whole_or_null(list, ok);
}

static json_t *samples_json(const struct drift *drift) {
    json_t *const list = json_array();
    bool ok = list != NULL;
    for (int q = 0; ok && q < SAMPLE_QUANTITIES; ++q) {
        const struct drift_samples *const s = &drift->samples[q];
        if (s->both > 0)
            ok = json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:f, s:f}", "quantity",
                                                       sample_kind((enum sample_quantity)q)->name,
                                                       "both", (json_int_t)s->both, "changed",
                                                       (json_int_t)s->changed, "time_ratio",
                                                       s->ratio, "spread", s->spread)) == 0;
    }
    return whole_or_null(list, ok);
}

static json_t *counts_json(const struct drift *drift) {
    size_t counts[DRIFT_VERDICTS] = {0};
    for (size_t i = 0; i < drift->count; ++i)
        counts[drift->rows[i].verdict]++;
    json_t *const o = json_pack("{s:I}", "entries", (json_int_t)drift->count);
    bool ok = o != NULL;
    for (int i = 0; ok && i < DRIFT_VERDICTS; ++i)
        ok = put_count(o, drift_verdict_name((enum drift_verdict)i), counts[i]);
    return whole_or_null(o, ok);
}

static json_t *side_json(const struct document *document) {
    return json_pack("{s:s, s:s, s:s}", "path", document->path, "name", document->name, "device",
                     document->problem.calibration.device);
}

json_t *build_drift(const struct drift_view *view) {
    const struct document *const documents[] = {view->was, view->now};
    json_t *const root = build_head("mosaic.drift/1", documents, 2, view->seed,
                                    view->drift->drifted > 0 ? "drift" : "ok");
    json_t *const warnings = json_array();
    const bool ok = root && put(root, "old", side_json(view->was)) &&
                    put(root, "new", side_json(view->now)) &&
                    put_real(root, "tolerance", view->settings->tolerance) &&
                    put(root, "counts", counts_json(view->drift)) &&
                    put(root, "entries", rows_json(view->drift)) &&
                    put(root, "samples", samples_json(view->drift));
    if (!ok || !warnings || !append_diagnostics(warnings, view->diags)) {
        json_decref(warnings);
        return whole_or_null(root, false);
    }
    return whole_or_null(root, put(root, "warnings", warnings));
}
