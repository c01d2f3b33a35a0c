// SPDX-License-Identifier: GPL-3.0-or-later
/* The public interface to measurements of others: files -> samples -> a calibration document. */
#include "mosaic_session.h"

#include "doc/data_sheet.h"
#include "doc/import_set.h"
#include "doc/save_calibration.h"
#include "report/import_view.h"

#include <stdlib.h>
#include <string.h>
#include <talloc.h>

/* Everything of one import but the fit. */
struct import {
    enum import_kind kind;
    struct import_settings asked;
    struct import_set set;
    struct document *cluster, *base;
    struct sample_fit *fit;
    char *document, *journal;
};

static enum mosaic_status read_kind(struct mosaic *session, const char *kind,
                                    enum import_kind *out) {
    char shown[STATUS_QUOTE_MAX];
    for (int i = 0; i < IMPORT_KINDS; ++i)
        if (strcmp(kind, import_kind_name((enum import_kind)i)) == 0) {
            *out = (enum import_kind)i;
            return MOSAIC_OK;
        }
    (void)diag_status(&session->diags, MOSAIC_USAGE, NULL, "unknown kind '%s' of measurements",
                      status_quote(kind, shown, sizeof shown));
    diag_hint(&session->diags, "nccl-tests, nvbandwidth, deepep, kernels, steps or samples");
    return MOSAIC_USAGE;
}

static enum mosaic_status read_settings(struct mosaic *session, const char *const *settings,
                                        struct import_settings *out) {
    struct status_error err = {0};
    import_settings_init(out);
    for (size_t i = 0; settings && settings[i]; ++i)
        if (import_settings_put(out, settings[i], &err) != MOSAIC_OK)
            return call_report(session, &err);
    return MOSAIC_OK;
}

/* A cluster, or whatever names one. */
static enum mosaic_status load_cluster(struct mosaic *session, struct import *m) {
    const struct document_options options = {.overrides = session->overrides,
                                             .override_count = session->override_count,
                                             .threads = session->threads,
                                             .seed = session->seed,
                                             .stop = &session->stop};
    if (!m->asked.cluster)
        return MOSAIC_OK;
    TRY(document_load_with(m->asked.cluster, &options, &session->diags, &m->cluster));
    if (m->cluster->kind != DOCUMENT_CLUSTER && m->cluster->kind != DOCUMENT_PLAN)
        return diag_status(&session->diags, MOSAIC_BAD_INPUT, NULL, "%s is a %s, not a cluster",
                           m->asked.cluster, document_kind_name(m->cluster->kind));
    m->set.cluster = &m->cluster->problem.cluster;
    return MOSAIC_OK;
}

/* What holds where nothing was measured: generic, or what the document will be laid over. */
static enum mosaic_status load_base(struct mosaic *session, struct import *m) {
    static const char head[] = "schema: mosaic-calibration/1\nname: base\n",
                      tail[] = "entries: []\n";
    char *const text =
        talloc_asprintf(m->set.memory, "%s%s: \"%s\"\n%s", head, m->asked.over ? "over" : "device",
                        m->asked.over ? m->asked.over : "any", tail);
    if (!text)
        return import_no_memory(&m->set);
    return document_parse("--over", text, strlen(text), NULL, 0, &session->diags, &m->base);
}

static enum mosaic_status device_of(struct mosaic *session, const struct import *m,
                                    const char **device) {
    *device = m->set.cluster     ? m->set.cluster->device.name
              : m->asked.device  ? m->asked.device
              : m->set.device[0] ? m->set.device
                                 : NULL;
    if (*device)
        return MOSAIC_OK;
    (void)diag_status(&session->diags, MOSAIC_USAGE, NULL,
                      "what device this was measured on is not said");
    diag_hint(&session->diags, "--cluster FILE or --device NAME");
    return MOSAIC_USAGE;
}

/* A processor trains in fp32. */
static const char *base_dtype(const struct import_set *set) {
    static const char *const names[] = {"bf16", "fp32"};
    bool has[2] = {false, false};
    for (size_t i = 0; i < set->count; ++i) {
        const struct sample_kind *const kind = sample_kind(set->samples[i].quantity);
        if (sample_key_index(set->samples[i].quantity, "dtype") != 0)
            continue;
        for (int k = 0; k < 2; ++k)
            has[k] = has[k] || strcmp(kind->keys[0].words[set->samples[i].value[0]], names[k]) == 0;
    }
    return names[!has[0] && has[1]];
}

/* A recorded set is of a device that the library may know. */
static enum mosaic_status find_sheet(struct mosaic *session, struct import *m) {
    const char *sheet = NULL;
    if (!m->set.record.is_set || m->set.cluster)
        return MOSAIC_OK;
    return data_sheet_find(m->set.memory, &session->diags, m->set.device, &m->set.cluster, &sheet);
}

static enum mosaic_status fit_samples(struct mosaic *session, struct import *m) {
    const char *device = NULL;
    struct status_error err = {0};
    struct sample_facts facts = {.base = &m->base->problem.calibration};
    TRY(find_sheet(session, m));
    TRY(device_of(session, m, &device));
    if (m->set.cluster)
        sample_facts_of(m->set.cluster, facts.base, &facts);
    if (m->set.record.is_set)
        record_facts(&m->set.record, m->set.cluster, facts.base, device, &facts);
    facts.base_dtype = m->asked.dtype ? m->asked.dtype : base_dtype(&m->set);
    (void)snprintf(facts.device, sizeof facts.device, "%s", device);
    if (sample_fit_run(m->set.samples, m->set.count, &facts, &m->fit, &err) != MOSAIC_OK)
        return call_report(session, &err);
    for (size_t i = 0; i < m->set.value_count; ++i) {
        const struct import_value *const v = &m->set.value[i];
        if (sample_fit_put(m->fit, v->scalar, v->value, v->method, v->range, &err) != MOSAIC_OK)
            import_warn(&m->set, NULL, 0, "%s", err.message);
    }
    return MOSAIC_OK;
}

/* "nccl-tests: a.txt, b.txt" */
static const char *source_text(const struct import *m) {
    char *text = talloc_asprintf(m->set.memory, "%s:", import_kind_name(m->kind));
    for (size_t i = 0; text && i < m->set.input_count; ++i) {
        const char *const slash = strrchr(m->set.inputs[i].path, '/');
        text = talloc_asprintf_append(text, "%s %s", i ? "," : "",
                                      slash ? slash + 1 : m->set.inputs[i].path);
    }
    return text;
}

static enum mosaic_status write_document(struct mosaic *session, struct import *m) {
    struct status_error err = {0};
    struct record *const record = m->set.record.is_set ? &m->set.record : NULL;
    const char *const source = source_text(m);
    if (!source)
        return import_no_memory(&m->set);
    if (record && m->kind == IMPORT_KERNELS)
        (void)snprintf(record->source, sizeof record->source, "%s", source);
    const struct save_calibration what = {.name = m->asked.name,
                                          .device = m->fit->calibration.device,
                                          .over = m->asked.over,
                                          .source = record ? record->source : source,
                                          .licence = m->asked.licence,
                                          .software = m->asked.software ? m->asked.software
                                                                        : m->set.software,
                                          .writer = record ? "mosaic" : "mosaic import",
                                          .fit = m->fit,
                                          .samples = m->set.samples,
                                          .sample_count = m->set.count,
                                          .measured_steps = m->set.steps,
                                          .record = record,
                                          .record_device = m->set.device};
    if (save_calibration(&what, &m->document, &err) != MOSAIC_OK)
        return call_report(session, &err);
    if (m->asked.journal && record &&
        record_journal(record, m->set.device, m->set.samples, m->set.count, &m->journal, &err) !=
            MOSAIC_OK)
        return call_report(session, &err);
    /* What cannot be read again is no result; models are looked for beside the table. */
    const char *const first = m->set.input_count > 0 ? m->set.inputs[0].path : "";
    const char *const slash = strrchr(first, '/');
    const char *const path = talloc_asprintf(m->set.memory, "%.*simported.yaml",
                                             slash ? (int)(slash + 1 - first) : 0, first);
    struct document *again = NULL;
    if (!path)
        return import_no_memory(&m->set);
    TRY(document_parse(path, m->document, strlen(m->document), NULL, 0, &session->diags, &again));
    document_free(again);
    return MOSAIC_OK;
}

static enum mosaic_status run(struct mosaic *session, struct import *m, const char *const *paths,
                              const char *const *settings, struct mosaic_result **result) {
    TRY(load_cluster(session, m));
    TRY(load_base(session, m));
    for (size_t i = 0; paths[i]; ++i)
        TRY(import_file(&m->set, m->kind, paths[i]));
    if (m->asked.journal && !m->set.record.is_set)
        return diag_status(&session->diags, MOSAIC_USAGE, NULL,
                           "a journal is of a recorded set: kernels, or samples that have one");
    TRY(fit_samples(session, m));
    const size_t doubts = m->set.warnings.count;
    if (m->asked.strict && doubts > 0) {
        (void)diag_error(&session->diags, NULL, "%s", m->set.warnings.items[0]);
        diag_hint(&session->diags, "%zu warning%s; without --strict the rest is taken", doubts,
                  doubts > 1 ? "s" : "");
        return MOSAIC_BAD_INPUT;
    }
    if (m->fit->entry_count == 0 && m->set.step_count == 0)
        return diag_error(&session->diags, NULL,
                          "nothing that a calibration holds came out of it%s%s",
                          doubts > 0 ? ": " : "", doubts > 0 ? m->set.warnings.items[0] : "");
    TRY(write_document(session, m));
    const struct import_view view = {.kind = m->kind,
                                     .set = &m->set,
                                     .fit = m->fit,
                                     .document = m->document,
                                     .journal = m->journal,
                                     .settings = settings,
                                     .diags = &session->diags,
                                     .seed = session->seed};
    return call_finish(session, build_import(&view), MOSAIC_OK, result);
}

enum mosaic_status mosaic_import(struct mosaic *session, const char *kind, const char *const *paths,
                                 const char *const *settings, struct mosaic_result **result) {
    call_begin(session);
    struct import m = {.document = NULL};
    TRY(read_kind(session, kind, &m.kind));
    TRY(read_settings(session, settings, &m.asked));
    if (!paths || !paths[0])
        return diag_status(&session->diags, MOSAIC_USAGE, NULL, "no file to import");
    m.set = (struct import_set){
        .memory = talloc_new(NULL), .diags = &session->diags, .settings = &m.asked};
    if (!m.set.memory)
        return diag_status(&session->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    const enum mosaic_status status = run(session, &m, paths, settings, result);
    sample_fit_free(m.fit);
    free(m.document);
    free(m.journal);
    document_free(m.cluster);
    document_free(m.base);
    talloc_free(m.set.memory);
    return status;
}
