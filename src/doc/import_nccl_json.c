// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * nccl-tests as JSON, in three shapes: a report (`config`, `results` with `out_of_place` and
 * `in_place`), rccl-tests' fragments (an object a row), and a map from sizes (`benchmark`).
 */
#include "doc/import_json.h"
#include "doc/import_nccl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>

static const char *text_of(const json_t *object, const char *key) {
    const char *const text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static double number_of(const json_t *object, const char *key) {
    return import_json_number(json_object_get(object, key));
}

/* ---- a report ---- */

static void take_devices(struct nccl_run *run, const json_t *report) {
    const json_t *const devices = json_object_get(json_object_get(report, "config"), "devices");
    for (size_t i = 0; i < json_array_size(devices); i++) {
        const json_t *const one = json_array_get(devices, i);
        const double rank = number_of(one, "rank"), group = number_of(one, "group");
        if (rank >= 0)
            nccl_run_rank(run, (int)rank, group > 0 ? (int)group : 0, text_of(one, "hostname"),
                          text_of(one, "device_info"));
    }
}

static enum mosaic_status take_result(struct nccl_run *run, const json_t *result, double bytes,
                                      bool in_place) {
    struct nccl_row row = {.bytes = bytes, .in_place = in_place, .line = run->line};
    if (!json_is_object(result))
        return MOSAIC_OK;
    if (json_object_get(result, "cpu_time"))
        return import_refuse(run->set, run->source, run->line,
                             "these are times of the host (cpu_time), not of the device");
    row.time_us = number_of(result, "time");
    row.algbw = number_of(result, "alg_bw");
    row.busbw = number_of(result, "bus_bw");
    row.wrong = number_of(result, "nwrong");
    return nccl_run_row(run, &row);
}

static enum mosaic_status take_report(struct nccl_run *run, const json_t *report) {
    const json_t *const results = json_object_get(report, "results");
    (void)nccl_run_name(run,
                        json_string_value(json_array_get(json_object_get(report, "args"), 0))
                            ? json_string_value(json_array_get(json_object_get(report, "args"), 0))
                            : "");
    take_devices(run, report);
    for (size_t i = 0; i < json_array_size(results); i++) {
        const json_t *const one = json_array_get(results, i);
        const double bytes = number_of(one, "size");
        if (!(bytes >= 0)) {
            run->broken++;
            continue;
        }
        TRY(take_result(run, json_object_get(one, "out_of_place"), bytes, false));
        TRY(take_result(run, json_object_get(one, "in_place"), bytes, true));
    }
    run->out_of_bounds = number_of(json_object_get(report, "out_of_bounds"), "count");
    run->average = number_of(json_object_get(report, "average_bus_bandwidth"), "bandwidth");
    return MOSAIC_OK;
}

/* ---- fragments ---- */

static enum mosaic_status take_fragment(struct nccl_run *run, const json_t *object, long line) {
    const char *const name = text_of(object, "name");
    const double gpus = number_of(object, "gpus"), nodes = number_of(object, "nodes");
    struct import_set *const set = run->set;
    const struct source *const source = run->source;
    if (run->rows > 0) { /* another collective or another size of the group is another run */
        struct nccl_run *const next = talloc_zero(set->memory, struct nccl_run);
        if (!next)
            return import_no_memory(set);
        nccl_run_begin(next, set, source, line);
        (void)nccl_run_name(next, name);
        const bool is_other = next->kind != run->kind || (gpus > 0 && (int)gpus != run->ranks);
        talloc_free(next);
        if (is_other) {
            TRY(nccl_run_end(run));
            nccl_run_begin(run, set, source, line);
        }
    }
    if (run->rows == 0) {
        (void)nccl_run_name(run, name);
        if (gpus > 0) {
            run->ranks = (int)gpus;
            if (nodes > 0 && fmod(gpus, nodes) < 0.5)
                run->host[run->hosts++].ranks = (int)(gpus / nodes);
        }
    }
    const struct nccl_row row = {.bytes = number_of(object, "size"),
                                 .time_us = number_of(object, "time"),
                                 .algbw = number_of(object, "algBw"),
                                 .busbw = number_of(object, "busBw"),
                                 .wrong = number_of(object, "#wrong"),
                                 .in_place = number_of(object, "inPlace") > 0,
                                 .line = line};
    return nccl_run_row(run, &row);
}

/* ---- a map from sizes ---- */

static enum mosaic_status take_sizes(struct nccl_run *run, const json_t *object) {
    const json_t *const list = json_object_get(object, "benchmark");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *const sizes = json_array_get(list, i);
        for (void *at = json_object_iter(sizes); at; at = json_object_iter_next(sizes, at)) {
            const json_t *const one = json_object_iter_value(at);
            struct nccl_row row = {.bytes = strtod(json_object_iter_key(at), NULL),
                                   .time_us = number_of(one, "oop_time"),
                                   .algbw = number_of(one, "oop_algbw"),
                                   .busbw = number_of(one, "oop_busbw"),
                                   .wrong = number_of(one, "oop_error"),
                                   .line = run->line};
            if (!(row.bytes >= 0) || !isfinite(row.time_us)) {
                run->broken++;
                continue;
            }
            TRY(nccl_run_row(run, &row));
        }
    }
    return MOSAIC_OK;
}

static enum mosaic_status take_object(struct nccl_run *run, const json_t *object, long line) {
    struct import_set *const set = run->set;
    const struct source *const source = run->source;
    if (json_object_get(object, "size") && json_object_get(object, "time"))
        return take_fragment(run, object, line);
    const bool is_report = json_object_get(object, "results") != NULL;
    if (!is_report && !json_object_get(object, "benchmark"))
        return MOSAIC_OK;
    TRY(nccl_run_end(run));
    nccl_run_begin(run, set, source, line);
    TRY(is_report ? take_report(run, object) : take_sizes(run, object));
    TRY(nccl_run_end(run));
    nccl_run_begin(run, set, source, line);
    return MOSAIC_OK;
}

enum mosaic_status import_nccl_json(struct import_set *set, const struct source *source) {
    struct nccl_run *const run = talloc_zero(set->memory, struct nccl_run);
    if (!run)
        return import_no_memory(set);
    nccl_run_begin(run, set, source, 1);
    for (size_t at = 0;;) {
        json_t *object = NULL;
        long line = 1;
        TRY(import_json_next(set, source, &at, &object, &line));
        if (!object)
            break;
        const enum mosaic_status status = take_object(run, object, line);
        json_decref(object);
        TRY(status);
    }
    return nccl_run_end(run);
}
