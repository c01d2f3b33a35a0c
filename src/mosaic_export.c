// SPDX-License-Identifier: GPL-3.0-or-later
/* The public interface to launch arguments: a result read back -> the rules of the engine that it
 * is to run on -> its arguments. */
#include "mosaic_session.h"

#include "doc/doc_launch.h"
#include "report/launch_view.h"
#include "report/result.h"
#include "step/engine_rules.h"
#include "step/legality.h"

#include <stdlib.h>
#include <string.h>

enum { ENTRY_MAX = 100000 };

/* Everything of one export. */
struct export_job {
    const char *to;
    int entry;
    int style; /* enum launch_style; -1: the engine's first, LAUNCH_STYLES: one of the shell's */
    struct launch_plan plan;
    struct document *target; /* NULL: the plan's own engine */
    struct engine engine;
};

static enum mosaic_status bad_setting(struct mosaic *session, const char *setting) {
    char shown[STATUS_QUOTE_MAX];
    (void)diag_status(&session->diags, MOSAIC_USAGE, NULL, "setting '%s' is not known",
                      status_quote(setting, shown, sizeof shown));
    diag_hint(&session->diags, "to=ENGINE, entry=N, style=shell, toml or yaml");
    return MOSAIC_USAGE;
}

static bool read_style(const char *text, int *style) {
    if (strcmp(text, "shell") == 0)
        *style = LAUNCH_STYLES;
    else if (strcmp(text, "toml") == 0)
        *style = LAUNCH_TOML;
    else if (strcmp(text, "yaml") == 0)
        *style = LAUNCH_YAML;
    else
        return false;
    return true;
}

static bool read_entry(const char *text, int *entry) {
    char *end = NULL;
    const long value = strtol(text, &end, 10);
    *entry = (int)value;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && value >= 1 && value <= ENTRY_MAX;
}

static enum mosaic_status read_settings(struct mosaic *session, const char *const *settings,
                                        struct export_job *x) {
    for (size_t i = 0; settings && settings[i]; ++i) {
        const char *const s = settings[i], *const equals = strchr(s, '=');
        const char *const value = equals ? equals + 1 : "";
        bool ok = true;
        if (strncmp(s, "to=", 3) == 0)
            x->to = value;
        else if (strncmp(s, "entry=", 6) == 0)
            ok = read_entry(value, &x->entry);
        else if (strncmp(s, "style=", 6) == 0)
            ok = read_style(value, &x->style);
        else
            ok = false;
        if (!ok)
            return bad_setting(session, s);
    }
    return MOSAIC_OK;
}

/* The engine to launch on, with its arguments. */
static enum mosaic_status load_engine(struct mosaic *session, struct export_job *x) {
    const struct engine *const own = &x->plan.problem.engine;
    char name[sizeof own->name + sizeof own->version + 1];
    (void)snprintf(name, sizeof name, "%s-%s", own->name, own->version);
    if (x->to || !own->launch)
        TRY(doc_launch_engine(x->to ? x->to : name, &session->diags, &x->target));
    x->engine = x->to ? x->target->problem.engine : *own;
    if (x->target)
        x->engine.launch = x->target->problem.engine.launch;
    if (x->engine.launch)
        return MOSAIC_OK;
    (void)diag_error(
        &session->diags, NULL,
        "not launchable on %s %s: its document does not say how it is told what to run",
        x->engine.name, x->engine.version);
    diag_hint(&session->diags, "a section 'launch' lists its arguments: mosaic-plan(5)");
    return MOSAIC_BAD_INPUT;
}

static enum mosaic_status choose_style(struct mosaic *session, const struct export_job *x,
                                       enum launch_style *out) {
    const struct launch *const launch = x->engine.launch;
    for (size_t i = 0; i < launch->style_count; ++i) {
        const int has = launch->styles[i];
        const bool is_shell = has == LAUNCH_FLAGS || has == LAUNCH_OVERRIDES;
        if (x->style == -1 || x->style == has || (x->style == LAUNCH_STYLES && is_shell)) {
            *out = (enum launch_style)has;
            return MOSAIC_OK;
        }
    }
    return diag_error(&session->diags, NULL, "%s %s takes %s, not %s", x->engine.name,
                      x->engine.version, launch_style_words[launch->styles[0]],
                      x->style == LAUNCH_STYLES ? "shell words" : launch_style_words[x->style]);
}

/* Every rule of the engine that the layout breaks. */
static enum mosaic_status check_rules(struct mosaic *session, const struct export_job *x) {
    struct legality_point point = {.mesh = x->plan.layout.mesh,
                                   .geometry = &x->plan.geometry,
                                   .workload = &x->plan.workload,
                                   .engine = &x->engine,
                                   .gpus = cluster_gpus(&x->plan.problem.cluster)};
    struct violation *const broken = calloc(VIOLATIONS_MAX, sizeof *broken);
    if (!broken)
        return diag_status(&session->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    struct status_error pair = {.message = ""}; /* what lifts a conflict, and its source */
    const int count = legality_find(&point, broken);
    (void)!engine_rules_check(&point.mesh, point.geometry, point.workload, point.engine, &pair);
    for (int i = 0; i < count; ++i) {
        (void)diag_error(&session->diags, NULL, "%s", broken[i].text);
        const bool is_pair = strcmp(broken[i].text, pair.message) == 0;
        const char *const hint = is_pair ? pair.hint : broken[i].hint;
        if (hint[0])
            diag_hint(&session->diags, "%s", hint);
    }
    free(broken);
    const struct stated_stages *const stages = x->plan.workload.stages;
    if (stages->split.is_mixed && !x->engine.recompute_per_stage)
        return diag_error(&session->diags, NULL,
                          "not launchable on %s %s: all of its stages recompute alike",
                          x->engine.name, x->engine.version);
    return count > 0 ? MOSAIC_BAD_INPUT : MOSAIC_OK;
}

static bool is_foreign(const struct export_job *x) {
    const struct engine *const planned = &x->plan.problem.engine;
    return strcmp(planned->name, x->engine.name) != 0 ||
           strcmp(planned->version, x->engine.version) != 0;
}

static enum mosaic_status export_result(struct mosaic *session, struct export_job *x,
                                        struct mosaic_result **result) {
    struct launch_view view = {.plan = &x->plan, .engine = &x->engine, .document = x->target};
    const struct launch_point point = {.geometry = &x->plan.geometry,
                                       .mesh = &x->plan.layout.mesh,
                                       .workload = &x->plan.workload,
                                       .cluster = &x->plan.problem.cluster,
                                       .engine = &x->engine,
                                       .tokens = x->plan.tokens,
                                       .is_foreign = is_foreign(x)};
    json_t *arguments = NULL;
    TRY(choose_style(session, x, &view.style));
    TRY(check_rules(session, x));
    TRY(launch_arguments(&point, &session->diags, &arguments));
    return call_finish(session, build_launch(&view, &point, arguments), MOSAIC_OK, result);
}

enum mosaic_status mosaic_export(struct mosaic *session, const char *path,
                                 const char *const *settings, struct mosaic_result **result) {
    call_begin(session);
    struct export_job *const x = calloc(1, sizeof *x);
    if (!x)
        return diag_status(&session->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    x->entry = 1;
    x->style = -1;
    enum mosaic_status status = read_settings(session, settings, x);
    if (status == MOSAIC_OK) {
        const struct launch_plan_options options = {x->entry, session->threads, &session->stop};
        status = launch_plan_load(path, &options, &session->diags, &x->plan);
    }
    if (status == MOSAIC_OK)
        status = load_engine(session, x);
    if (status == MOSAIC_OK)
        status = export_result(session, x, result);
    document_free(x->target);
    launch_plan_free(&x->plan);
    free(x);
    return status;
}
