// SPDX-License-Identifier: GPL-3.0-or-later
/* Result of an export: what is launched, on which engine, its arguments, and what they lack. */
#include "report/launch_view.h"

#include "report/build.h"
#include "report/put.h"

#include <stdlib.h>

static json_t *warnings(const struct launch_view *view, bool is_foreign) {
    const struct engine *const planned = &view->plan->problem.engine, *const e = view->engine;
    json_t *const list = json_array();
    bool ok = list != NULL;
    if (ok && view->plan->is_too_large)
        ok = append_text(list, "the layout does not fit in memory, by its own prediction");
    if (ok && is_foreign)
        ok = append_text(list,
                         "chosen and priced for %s %s: on %s %s it will take another time, and may "
                         "not be the best",
                         planned->name, planned->version, e->name, e->version);
    if (ok && view->plan->tokens <= 0.0)
        ok = append_text(list, "the result has no token count: the length of the run is left out");
    return whole_or_null(list, ok);
}

static json_t *styles(const struct launch *launch) {
    json_t *const list = json_array();
    bool ok = list != NULL;
    for (size_t i = 0; ok && i < launch->style_count; ++i)
        ok = json_array_append_new(list, json_string(launch_style_words[launch->styles[i]])) == 0;
    return whole_or_null(list, ok);
}

static json_t *engine_of(const struct engine *e) {
    return json_pack("{s:s, s:s}", "name", e->name, "version", e->version);
}

/* The layout as it stands, on the engine that it is launched on. */
static json_t *layout_of(const struct launch_view *view) {
    struct problem *const problem = malloc(sizeof *problem);
    if (!problem)
        return NULL;
    *problem = view->plan->problem;
    problem->engine = *view->engine;
    problem->workload = view->plan->workload;
    problem->ways.count = 0;
    json_t *const layout = build_layout(problem, &view->plan->geometry, &view->plan->layout);
    free(problem);
    return layout;
}

json_t *build_launch(const struct launch_view *view, const struct launch_point *point,
                     json_t *arguments) {
    const struct launch_plan *const plan = view->plan;
    const struct document *const documents[] = {plan->document, view->document};
    const struct cluster *const c = &plan->problem.cluster;
    json_t *const root =
        build_head("mosaic.launch/1", documents, view->document ? 2 : 1, plan->seed, "ok");
    bool ok = put(root, "plan",
                  json_pack("{s:s, s:s, s:i}", "path", plan->path, "schema", plan->schema, "entry",
                            plan->entry)) &&
              put(root, "engine", engine_of(view->engine)) &&
              put(root, "plan_engine", engine_of(&plan->problem.engine)) &&
              put(root, "source", json_string(view->engine->launch->source)) &&
              put(root, "styles", styles(view->engine->launch)) &&
              put(root, "style", json_string(launch_style_words[view->style])) &&
              put(root, "processes",
                  json_pack("{s:i, s:i, s:i}", "gpus", cluster_gpus(c), "nodes", c->nodes,
                            "gpus_per_node", c->gpus_per_node)) &&
              put(root, "geometry", build_geometry(&plan->geometry, plan->workload.sequence)) &&
              put(root, "layout", layout_of(view));
    ok = (plan->tokens > 0.0 ? put_real(root, "tokens", plan->tokens) : true) && ok;
    ok = put(root, "arguments", arguments) && ok;
    ok = put(root, "left", launch_left(point)) &&
         put(root, "warnings", warnings(view, point->is_foreign)) && ok;
    char *const text = ok ? launch_text(root, view->style) : NULL;
    ok = ok && text && put(root, "text", json_string(text));
    free(text);
    return whole_or_null(root, ok);
}
