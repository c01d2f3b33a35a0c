// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The result of `calibrate`: what was measured, found in the journal, refused, lost or left for
 * want of time, by quantity; ranks and links that stand out; the fit by entry.
 */
#include "report/calibrate_view.h"
#include "report/import_view.h"
#include "report/put.h"

#include "report/build.h"

#include <string.h>

const char *calibrate_status(const struct calibrate_run *run) {
    const struct harness_run *const h = &run->run;
    if (h->was_stopped)
        return "interrupted";
    if (h->status != MOSAIC_OK)
        return "failed";
    return h->left[LEFT_LOST] + h->left[LEFT_SKIPPED] + run->rank_losses > 0 ? "partial" : "ok";
}

/* ---- the probe ---- */

static json_t *probe_json(const struct probe_hello *hello) {
    json_t *const o = json_pack("{s:s, s:s, s:s, s:i}", "name", hello->probe, "version",
                                hello->version, "device", hello->device, "devices", hello->devices);
    json_t *const software = json_object_get(hello->root, "software");
    bool ok = o != NULL;
    if (hello->architecture[0])
        ok = ok && put(o, "architecture", json_string(hello->architecture));
    if (hello->memory_bytes > 0.0)
        ok = ok && put_real(o, "memory_bytes", hello->memory_bytes);
    json_t *const versions = json_object();
    for (void *at = json_object_iter(software); versions && at;
         at = json_object_iter_next(software, at))
        if (json_is_string(json_object_iter_value(at)))
            (void)json_object_set(versions, json_object_iter_key(at), json_object_iter_value(at));
    return whole_or_null(o, versions && ok && put(o, "software", versions));
}

/* ---- what was done ---- */

static json_t *counts_json(const struct calibrate_run *run) {
    const struct harness_run *const h = &run->run;
    const size_t not_begun =
        run->jobs - h->measured - h->resumed - h->gap_count + h->left[LEFT_BUDGET];
    const size_t left_out = run->too_long + run->too_large + run->beyond;
    json_t *const o = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "jobs", (json_int_t)run->jobs, "left_out",
        (json_int_t)left_out, "samples", (json_int_t)h->count, "measured", (json_int_t)h->measured,
        "resumed", (json_int_t)h->resumed, "unverified", (json_int_t)h->unverified, "probe_starts",
        (json_int_t)run->starts, "not_begun", (json_int_t)not_begun);
    json_t *const refused = json_object();
    bool ok = o && refused;
    for (int i = 0; ok && i < REFUSALS; ++i)
        ok = put_count(refused, refusal_name((enum refusal)i), h->refused[i]);
    if (!ok)
        json_decref(refused);
    ok = ok && put(o, "refused", refused) && put_count(o, "lost", h->left[LEFT_LOST]) &&
         put_count(o, "skipped", h->left[LEFT_SKIPPED]);
    return whole_or_null(o, ok);
}

static json_t *quantity_json(const struct harness_run *h, enum sample_quantity quantity) {
    size_t samples = 0, left[LEFT_KINDS] = {0}, all = 0;
    for (size_t i = 0; i < h->count; ++i)
        samples += h->samples[i].quantity == quantity;
    for (size_t i = 0; i < h->gap_count; ++i)
        if (h->gaps[i].keys.quantity == quantity) {
            left[h->gaps[i].why]++;
            all++;
        }
    if (samples + all == 0)
        return json_null();
    json_t *const o = json_pack("{s:s, s:I}", "quantity", sample_kind(quantity)->name, "samples",
                                (json_int_t)samples);
    bool ok = o != NULL;
    for (int i = 0; ok && i < LEFT_KINDS; ++i)
        ok = put_count(o, left_out_name((enum left_out)i), left[i]);
    return whole_or_null(o, ok);
}

static json_t *quantities_json(const struct harness_run *h) {
    json_t *const list = json_array();
    bool ok = list != NULL;
    for (int q = 0; ok && q < SAMPLE_QUANTITIES; ++q) {
        json_t *const row = quantity_json(h, (enum sample_quantity)q);
        ok = row && (json_is_null(row) || json_array_append_new(list, row) == 0);
    }
    return whole_or_null(list, ok);
}

/* ---- what is missing, once for each reason ---- */

static bool is_same_gap(const struct harness_gap *a, const struct harness_gap *b) {
    return a->keys.quantity == b->keys.quantity && a->why == b->why && a->refusal == b->refusal &&
           strcmp(a->text, b->text) == 0;
}

static json_t *gap_json(const struct harness_run *h, size_t at) {
    enum { KEYS_MAX = 512 };
    char keys[KEYS_MAX];
    const struct harness_gap *const gap = &h->gaps[at];
    size_t count = 0;
    for (size_t i = 0; i < h->gap_count; ++i) {
        if (!is_same_gap(&h->gaps[i], gap))
            continue;
        if (i < at)
            return json_null();
        count++;
    }
    keys[0] = '{';
    const int used = sample_print_keys(&gap->keys, keys + 1, sizeof keys - 2);
    (void)snprintf(keys + 1 + used, sizeof keys - 1 - (size_t)used, "}");
    json_t *const o =
        json_pack("{s:s, s:s, s:I}", "quantity", sample_kind(gap->keys.quantity)->name, "why",
                  left_out_name(gap->why), "count", (json_int_t)count);
    bool ok = o && put(o, "first", json_loads(keys, 0, NULL));
    if (gap->why == LEFT_REFUSED)
        ok = ok && put(o, "reason", json_string(refusal_name(gap->refusal)));
    if (gap->text[0])
        ok = ok && put(o, "text", json_string(gap->text));
    return whole_or_null(o, ok);
}

static json_t *gaps_json(const struct harness_run *h) {
    json_t *const list = json_array();
    bool ok = list != NULL;
    for (size_t i = 0; ok && i < h->gap_count; ++i) {
        json_t *const row = gap_json(h, i);
        ok = row && (json_is_null(row) || json_array_append_new(list, row) == 0);
    }
    return whole_or_null(list, ok);
}

/* ---- ranks ---- */

static json_t *slow_json(const struct calibrate_run *run) {
    json_t *const list = json_array();
    bool ok = list != NULL;
    for (size_t i = 0; ok && i < run->slow_count; ++i) {
        const struct slow_link *const s = &run->slow[i];
        json_t *const o =
            json_pack("{s:s, s:f}", "rank", run->members[s->a].name, "ratio", s->ratio);
        const bool has_partner =
            !o || s->b < 0 || put(o, "partner", json_string(run->members[s->b].name));
        ok = json_array_append_new(list, whole_or_null(o, has_partner)) == 0;
    }
    return whole_or_null(list, ok);
}

static json_t *team_json(const struct calibrate_view *view) {
    const struct calibrate_run *const run = view->run;
    json_t *const o = json_pack("{s:s, s:i, s:i, s:i, s:i}", "launcher",
                                view->launcher[0] ? view->launcher : "a record", "ranks",
                                run->ranks, "nodes", run->nodes, "ranks_per_node",
                                run->ranks_per_node, "ranks_per_domain", run->ranks_per_domain);
    json_t *const gone = json_array();
    bool ok = o && gone;
    for (int i = 0; ok && run->members && i < run->ranks; ++i)
        if (run->members[i].failure[0])
            ok = json_array_append_new(gone, json_pack("{s:s, s:s}", "rank", run->members[i].name,
                                                       "text", run->members[i].failure)) == 0;
    if (!ok)
        json_decref(gone);
    return whole_or_null(o, ok && put(o, "gone", gone) && put(o, "slow_links", slow_json(run)));
}

/* ---- warnings ---- */

static bool warn_ranks(json_t *list, const struct calibrate_run *run) {
    bool ok = true;
    for (int i = 0; run->members && i < run->ranks; ++i) {
        const struct team_tally *const t = &run->members[i].tally;
        if (t->lost > 0)
            ok = append_text(list, "lost over %zu measurements, at last: %s", t->lost, t->text) &&
                 ok;
        if (2 * t->slow > t->asked)
            ok = append_text(list,
                             "%s was slower than the others in %zu of %zu measurements, by up to "
                             "%.2f times",
                             run->members[i].name, t->slow, t->asked, t->worst) &&
                 ok;
    }
    for (size_t i = 0; i < run->slow_count; ++i) {
        const struct slow_link *const s = &run->slow[i];
        ok = append_text(list, "slow link: %s%s%s takes %.2f times as long as its like",
                         run->members[s->a].name, s->b < 0 ? "" : " with ",
                         s->b < 0 ? " with most others" : run->members[s->b].name, s->ratio) &&
             ok;
    }
    return ok;
}

static bool warn(json_t *list, const struct calibrate_view *view) {
    const struct calibrate_run *const run = view->run;
    bool ok = append_diagnostics(list, view->diags) && warn_ranks(list, run);
    if (run->journal_was_cut)
        ok = append_text(list, "the last line of %s was cut off: it was dropped and measured anew",
                         view->settings->samples) &&
             ok;
    if (run->run.unverified > 0)
        ok = append_text(list, "%zu of %zu samples are of data that the probe did not verify",
                         run->run.unverified, run->run.count) &&
             ok;
    if (run->run.left[LEFT_BUDGET] > 0)
        ok = append_text(list, "the time ran out before %zu measurements: --budget gives more",
                         run->run.left[LEFT_BUDGET]) &&
             ok;
    if (view->fit && !view->sheet)
        ok = append_text(list,
                         "no data sheet of '%s' is known: shares of a peak are fitted only as far "
                         "as the probe tells one; --cluster FILE states it",
                         run->hello.device) &&
             ok;
    return ok;
}

json_t *build_calibrate(const struct calibrate_view *view) {
    const struct calibrate_run *const run = view->run;
    json_t *const root = build_head("mosaic.calibrate/1", &view->cluster, view->cluster ? 1 : 0,
                                    view->seed, calibrate_status(run));
    bool ok = root && put(root, "probe", probe_json(&run->hello)) &&
              put(root, "level", json_string(job_level_words[view->settings->level])) &&
              put(root, "counts", counts_json(run)) &&
              put(root, "quantities", quantities_json(&run->run)) &&
              put(root, "gaps", gaps_json(&run->run));
    if (run->ranks > 1)
        ok = ok && put(root, "team", team_json(view));
    if (view->sheet)
        ok = ok && put(root, "data_sheet", json_string(view->sheet));
    if (view->settings->samples)
        ok = ok && put(root, "journal", json_string(view->settings->samples));
    if (view->fit)
        ok = ok && put(root, "entries", build_sample_entries(view->fit)) &&
             (view->fit->check_count == 0 || put(root, "checks", build_sample_checks(view->fit))) &&
             put(root, "notes", build_sample_notes(view->fit)) &&
             put_count(root, "samples_used", view->fit->used);
    if (run->words[0])
        ok = ok && put(root, "probe_said", json_string(run->words));
    json_t *const warnings = json_array();
    if (!ok || !warnings || !warn(warnings, view)) {
        json_decref(warnings);
        return whole_or_null(root, false);
    }
    return whole_or_null(root, put(root, "warnings", warnings));
}
