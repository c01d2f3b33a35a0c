// SPDX-License-Identifier: GPL-3.0-or-later
/* The public interface to measuring: a probe -> samples -> a calibration document; and what changed
 * between two of them. */
#include "mosaic_session.h"

#include "doc/data_sheet.h"
#include "doc/devices.h"
#include "doc/import_set.h"
#include "doc/save_calibration.h"
#include "report/calibrate_view.h"
#include "report/result.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <talloc.h>
#include <unistd.h>

enum { TEXT_MAX = 512 };

/* Everything that one calibration holds. */
struct work {
    void *memory; /* talloc */
    struct calibrate_settings settings;
    struct launcher launcher;
    struct document *cluster_document, *base;
    const struct cluster *cluster; /* the document's, or one of the library; or NULL */
    struct device device;          /* without a cluster: peaks of a well-known device */
    bool has_device;
    const char *sheet; /* name of either */
    struct calibrate_run run;
    bool has_run;
    struct record record; /* that a probe plays */
    char *words;
    struct sample_fit *fit;
    char *text; /* of the document */
};

static enum mosaic_status short_of_memory(struct mosaic *session) {
    return diag_status(&session->diags, MOSAIC_INTERNAL, NULL, "out of memory");
}

static enum mosaic_status read_settings(struct mosaic *session, const char *const *settings,
                                        struct calibrate_settings *out) {
    struct status_error err = {0};
    calibrate_settings_init(out);
    for (size_t i = 0; settings && settings[i]; ++i)
        if (calibrate_settings_put(out, settings[i], &err) != MOSAIC_OK)
            return call_report(session, &err);
    return calibrate_settings_check(out, &err) == MOSAIC_OK ? MOSAIC_OK
                                                            : call_report(session, &err);
}

static struct document_options options_of(struct mosaic *session) {
    return (struct document_options){.overrides = session->overrides,
                                     .override_count = session->override_count,
                                     .threads = session->threads,
                                     .seed = session->seed,
                                     .stop = &session->stop};
}

/* ---- what is known beforehand ---- */

static enum mosaic_status load_cluster(struct mosaic *session, struct work *w) {
    const struct document_options options = options_of(session);
    const char *const path = w->settings.cluster;
    if (!path)
        return MOSAIC_OK;
    TRY(document_load_with(path, &options, &session->diags, &w->cluster_document));
    const struct document *const d = w->cluster_document;
    if (d->kind != DOCUMENT_CLUSTER && d->kind != DOCUMENT_PLAN)
        return diag_status(&session->diags, MOSAIC_BAD_INPUT, NULL, "%s is a %s, not a cluster",
                           path, document_kind_name(d->kind));
    w->cluster = &d->problem.cluster;
    w->sheet = w->cluster->name;
    return MOSAIC_OK;
}

/* Before an hour of measuring rather than after it. */
static enum mosaic_status check_output(struct mosaic *session, const struct work *w) {
    const char *const path = w->settings.output;
    struct stat now;
    if (!path || w->launcher.rank > 0)
        return MOSAIC_OK;
    if (stat(path, &now) == 0 && access(path, W_OK) == 0)
        return MOSAIC_OK; /* a device, a pipe, a file behind a link */
    const char *const slash = strrchr(path, '/');
    const char *const folder =
        slash ? talloc_strndup(w->memory, path, (size_t)(slash - path) + 1) : ".";
    if (!folder)
        return short_of_memory(session);
    return access(folder, W_OK | X_OK) == 0
               ? MOSAIC_OK
               : diag_status(&session->diags, MOSAIC_IO, NULL, "cannot create '%s': %s", path,
                             strerror(errno));
}

/* What holds where nothing is measured: the generic calibration. */
static enum mosaic_status load_base(struct mosaic *session, struct work *w) {
    static const char text[] =
        "schema: mosaic-calibration/1\nname: base\ndevice: \"any\"\nentries: []\n";
    return document_parse("generic", text, sizeof text - 1, NULL, 0, &session->diags, &w->base);
}

static const char *environment(void *context, const char *name) {
    (void)context;
    return getenv(name);
}

/* Of the library's clusters, else of the well-known devices. */
static enum mosaic_status find_sheet(struct mosaic *session, struct work *w, const char *name) {
    const char *match = NULL;
    if (w->cluster || w->has_device)
        return MOSAIC_OK;
    TRY(data_sheet_find(w->memory, &session->diags, name, &w->cluster, &w->sheet));
    if (w->cluster)
        return MOSAIC_OK;
    TRY(doc_devices_find(w->memory, &session->diags, name, &w->device, &match));
    w->has_device = match != NULL;
    w->sheet = match;
    return MOSAIC_OK;
}

struct sheet_call {
    struct mosaic *session;
    struct work *work;
};

/* A sheet that cannot be read is said when the samples are fitted. */
static const struct device *sheet_of(void *context, const char *name) {
    const struct sheet_call *const call = context;
    struct work *const w = call->work;
    if (find_sheet(call->session, w, name) != MOSAIC_OK)
        return NULL;
    return w->cluster ? &w->cluster->device : w->has_device ? &w->device : NULL;
}

/* ---- measuring ---- */

/* What the probe said last, for a person. */
static void note_words(struct mosaic *session, const char *words) {
    enum { LINES = 6 };
    const char *at = words + strlen(words);
    int lines = 0;
    while (at > words && lines <= LINES)
        lines += *--at == '\n' && at[1] != '\0';
    at += *at == '\n';
    while (*at) {
        const size_t length = strcspn(at, "\n");
        char line[TEXT_MAX], shown[TEXT_MAX];
        (void)snprintf(line, sizeof line, "%.*s", (int)length, at);
        if (length > 0)
            diag_note(&session->diags, NULL, "the probe said: %s",
                      status_quote(line, shown, sizeof shown));
        at += length + (at[length] == '\n');
    }
}

static enum mosaic_status measure(struct mosaic *session, struct work *w) {
    struct status_error err = {0};
    struct sheet_call call = {session, w};
    const struct calibrate_request request = {.settings = &w->settings,
                                              .cluster = w->cluster,
                                              .cluster_has_nodes =
                                                  w->cluster && w->cluster->nodes > 0,
                                              .sheet_of = sheet_of,
                                              .sheet_context = &call,
                                              .launcher = &w->launcher,
                                              .stop = &session->stop,
                                              .progress = session->progress,
                                              .progress_context = session->progress_context};
    const enum mosaic_status status = calibrate_run(&request, &w->run, w->words, &err);
    if (status == MOSAIC_OK) {
        w->has_run = true;
        return MOSAIC_OK;
    }
    (void)call_report(session, &err);
    note_words(session, w->words);
    return status;
}

/* ---- fitting ---- */

static double told(const struct probe_hello *hello, const char *key) {
    const json_t *const device = json_object_get(hello->root, "device");
    const double value = json_number_value(json_object_get(device, key));
    return value > 0.0 ? value : 0.0;
}

/* The data sheet's figures; else what the probe tells. */
static void facts_of(const struct work *w, struct sample_facts *out) {
    const struct probe_hello *const hello = &w->run.hello;
    static const char *const names[PRECISION_COUNT] = {
        [PRECISION_FP8] = "fp8", [PRECISION_MXFP8] = "mxfp8", [PRECISION_NVFP4] = "nvfp4"};
    if (w->record.is_set) {
        record_facts(&w->record, w->cluster, &w->base->problem.calibration, hello->device, out);
        return;
    }
    *out = (struct sample_facts){.base = &w->base->problem.calibration};
    if (w->cluster) {
        sample_facts_of(w->cluster, out->base, out);
        out->fits_link_shares = true;
    } else {
        (void)snprintf(out->device, sizeof out->device, "%s", hello->device);
        out->hbm_bytes_per_s = told(hello, "copy_bytes_per_s");
        out->peak_flop_per_s[PRECISION_BF16] = protocol_peak(hello, job_base_dtype(hello));
        for (int i = 0; i < PRECISION_COUNT; ++i)
            if (names[i])
                out->peak_flop_per_s[i] = protocol_peak(hello, names[i]);
        for (int i = 0; w->has_device && i < PRECISION_COUNT; ++i)
            out->peak_flop_per_s[i] = w->device.peak_flop_per_s[i];
    }
    out->base_dtype = job_base_dtype(hello);
}

static char *software_of(const struct work *w) {
    json_t *const all = json_object_get(w->run.hello.root, "software");
    char *text = talloc_strdup(w->memory, "");
    for (void *at = json_object_iter(all); text && at; at = json_object_iter_next(all, at)) {
        const char *const version = json_string_value(json_object_iter_value(at));
        if (version)
            text = talloc_asprintf_append(text, "%s%s %s", *text ? ", " : "",
                                          json_object_iter_key(at), version);
    }
    return text;
}

static char *method_of(const struct work *w) {
    const struct calibrate_run *const run = &w->run;
    const char *const level = job_level_words[w->settings.level];
    if (run->ranks == 1)
        return talloc_asprintf(w->memory, "mosaic calibrate, level %s", level);
    return talloc_asprintf(w->memory, "mosaic calibrate, level %s, %d ranks on %d nodes", level,
                           run->ranks, run->nodes);
}

static enum mosaic_status write_document(struct mosaic *session, struct work *w) {
    struct status_error err = {0};
    const struct probe_hello *const hello = &w->run.hello;
    struct document *again = NULL;
    struct save_calibration what = {.name = w->settings.name ? w->settings.name : "calibrated",
                                    .device = w->fit->calibration.device,
                                    .source = talloc_asprintf(w->memory, "probe %s %s on %s",
                                                              hello->probe, hello->version,
                                                              hello->device),
                                    .software = software_of(w),
                                    .method = method_of(w),
                                    .writer = "mosaic calibrate",
                                    .fit = w->fit,
                                    .samples = w->run.run.samples,
                                    .sample_count = w->run.run.count};
    if (!what.source || !what.software || !what.method)
        return short_of_memory(session);
    if (w->record.is_set) { /* the same document as of the record itself */
        what.source = w->record.source;
        what.software = what.method = NULL;
        what.writer = "mosaic";
        what.record = &w->record;
        what.record_device = hello->device;
    }
    if (save_calibration(&what, &w->text, &err) != MOSAIC_OK)
        return call_report(session, &err);
    /* What cannot be read again is no result. */
    TRY(document_parse("calibrated", w->text, strlen(w->text), NULL, 0, &session->diags, &again));
    document_free(again);
    return MOSAIC_OK;
}

static enum mosaic_status fit_and_write(struct mosaic *session, struct work *w) {
    struct status_error err = {0};
    struct sample_facts facts;
    if (w->run.run.count == 0)
        return MOSAIC_OK;
    if (record_read(w->run.hello.root, &w->record, &err) != MOSAIC_OK)
        return call_report(session, &err);
    TRY(find_sheet(session, w, w->run.hello.device));
    facts_of(w, &facts);
    if (sample_fit_run(w->run.run.samples, w->run.run.count, &facts, &w->fit, &err) != MOSAIC_OK)
        return call_report(session, &err);
    return w->fit->entry_count > 0 ? write_document(session, w) : MOSAIC_OK;
}

/* ---- the end ---- */

/* What the call ends with: what went wrong is said, and how to go on. */
static enum mosaic_status judge(struct mosaic *session, const struct work *w) {
    const struct harness_run *const h = &w->run.run;
    const size_t lost = h->left[LEFT_LOST] + h->left[LEFT_SKIPPED];
    enum mosaic_status status = MOSAIC_OK;
    if (h->was_stopped) {
        status = diag_status(&session->diags, MOSAIC_INTERRUPTED, NULL,
                             "interrupted after %zu samples", h->count);
    } else if (h->status != MOSAIC_OK) {
        status = call_report(session, &h->error);
    } else if (lost > 0) {
        status = diag_status(&session->diags, MOSAIC_DEVICE, NULL,
                             "%zu of %zu measurements were lost; the result names them", lost,
                             w->run.jobs);
    } else if (w->run.rank_losses > 0) {
        status = diag_status(&session->diags, MOSAIC_DEVICE, NULL,
                             "ranks were lost over measurements that others made: the warnings "
                             "name them");
    } else if (h->count == 0) {
        status = diag_status(&session->diags, MOSAIC_DEVICE, NULL,
                             "nothing was measured: the result names the reasons");
    } else if (!w->text) {
        diag_warning(&session->diags, NULL, "nothing that a calibration holds came out of it");
    }
    if (status != MOSAIC_OK && w->settings.samples)
        diag_hint(&session->diags, "the samples are in %s: the same command goes on from there",
                  w->settings.samples);
    else if (status != MOSAIC_OK && h->count > 0)
        diag_hint(&session->diags, "with --samples FILE the next start would go on from here");
    if (status != MOSAIC_OK)
        note_words(session, w->run.words);
    return status;
}

static enum mosaic_status finish(struct mosaic *session, struct work *w,
                                 struct mosaic_result **result) {
    struct mosaic_result *made = NULL;
    /* Where no fit comes out of it what was measured is still told. */
    const enum mosaic_status fitted = fit_and_write(session, w);
    if (fitted != MOSAIC_OK) {
        free(w->text);
        w->text = NULL;
    }
    const enum mosaic_status end = fitted == MOSAIC_OK ? judge(session, w) : fitted;
    const struct calibrate_view view = {.settings = &w->settings,
                                        .run = &w->run,
                                        .launcher = w->launcher.name,
                                        .cluster = w->cluster_document,
                                        .sheet = w->sheet,
                                        .fit = w->fit,
                                        .diags = &session->diags,
                                        .seed = session->seed};
    const enum mosaic_status status = call_finish(session, build_calibrate(&view), end, &made);
    if (!made)
        return status;
    made->document = w->text;
    w->text = NULL;
    *result = made;
    return status;
}

static enum mosaic_status calibrate(struct mosaic *session, struct work *w,
                                    struct mosaic_result **result) {
    struct status_error err = {0};
    w->words = talloc_zero_array(w->memory, char, PROBE_STDERR_MAX + 1);
    if (!w->words)
        return short_of_memory(session);
    if (launcher_read(environment, NULL, &w->launcher, &err) != MOSAIC_OK)
        return call_report(session, &err);
    if (w->launcher.note[0])
        diag_warning(&session->diags, NULL, "%s", w->launcher.note);
    TRY(check_output(session, w));
    TRY(load_cluster(session, w));
    TRY(load_base(session, w));
    TRY(measure(session, w));
    return w->run.is_peer ? MOSAIC_OK : finish(session, w, result);
}

/* ---- comparing ---- */

/* A document and, where it keeps them, its samples. */
static enum mosaic_status load_side(struct mosaic *session, void *memory, const char *path,
                                    struct document **document, struct import_set *set) {
    static const struct import_settings none = {.dtype = NULL};
    const struct document_options options = options_of(session);
    struct diag_list unused;
    TRY(document_load_with(path, &options, &session->diags, document));
    if ((*document)->kind != DOCUMENT_CALIBRATION)
        return diag_status(&session->diags, MOSAIC_BAD_INPUT, NULL, "%s is a %s, not a calibration",
                           path, document_kind_name((*document)->kind));
    diag_init(&unused);
    *set = (struct import_set){.memory = memory, .diags = &unused, .settings = &none};
    if (import_file(set, IMPORT_SAMPLES, path) != MOSAIC_OK)
        set->count = 0; /* without samples the tolerance alone decides */
    set->diags = NULL;
    return MOSAIC_OK;
}

static enum mosaic_status check_devices(struct mosaic *session, const struct document *was,
                                        const struct document *now) {
    const char *const a = was->problem.calibration.device, *const b =
                                                               now->problem.calibration.device;
    return strcmp(a, b) == 0
               ? MOSAIC_OK
               : diag_status(&session->diags, MOSAIC_BAD_INPUT, NULL,
                             "%s is of the device '%s', %s of '%s'", was->path, a, now->path, b);
}

static enum mosaic_status compare_sides(struct mosaic *session, struct work *w,
                                        struct document *const documents[2],
                                        const struct import_set sets[2],
                                        struct mosaic_result **result) {
    const struct drift_side was = {&documents[0]->problem.calibration, sets[0].samples,
                                   sets[0].count},
                            now = {&documents[1]->problem.calibration, sets[1].samples,
                                   sets[1].count};
    struct status_error err = {0};
    struct drift drift;
    TRY(check_devices(session, documents[0], documents[1]));
    if (drift_find(&was, &now, &w->settings, &drift, &err) != MOSAIC_OK)
        return call_report(session, &err);
    const enum mosaic_status end =
        drift.drifted > 0 ? diag_status(&session->diags, MOSAIC_REGRESSION, NULL,
                                        "%zu of %zu entries drifted", drift.drifted, drift.count)
                          : MOSAIC_OK;
    const struct drift_view view = {.settings = &w->settings,
                                    .was = documents[0],
                                    .now = documents[1],
                                    .drift = &drift,
                                    .diags = &session->diags,
                                    .seed = session->seed};
    const enum mosaic_status status = call_finish(session, build_drift(&view), end, result);
    drift_free(&drift);
    return status;
}

static enum mosaic_status compare(struct mosaic *session, struct work *w,
                                  struct mosaic_result **result) {
    struct document *documents[2] = {NULL, NULL};
    struct import_set sets[2] = {{.memory = NULL}, {.memory = NULL}};
    enum mosaic_status status =
        load_side(session, w->memory, w->settings.old_path, &documents[0], &sets[0]);
    if (status == MOSAIC_OK)
        status = load_side(session, w->memory, w->settings.new_path, &documents[1], &sets[1]);
    if (status == MOSAIC_OK)
        status = compare_sides(session, w, documents, sets, result);
    document_free(documents[0]);
    document_free(documents[1]);
    return status;
}

enum mosaic_status mosaic_calibrate(struct mosaic *session, const char *const *settings,
                                    struct mosaic_result **result) {
    call_begin(session);
    *result = NULL;
    struct work *const w = calloc(1, sizeof *w);
    if (!w)
        return short_of_memory(session);
    w->memory = talloc_new(NULL);
    enum mosaic_status status = w->memory ? MOSAIC_OK : short_of_memory(session);
    if (status == MOSAIC_OK)
        status = read_settings(session, settings, &w->settings);
    if (status == MOSAIC_OK && w->settings.old_path)
        status = compare(session, w, result);
    else if (status == MOSAIC_OK)
        status = calibrate(session, w, result);
    if (w->has_run)
        calibrate_run_free(&w->run);
    sample_fit_free(w->fit);
    free(w->text);
    document_free(w->cluster_document);
    document_free(w->base);
    talloc_free(w->memory);
    free(w);
    return status;
}
