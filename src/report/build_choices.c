// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What each choice of how a job runs (offloading, memory schedules) is worth at the best layout:
 * the same layout is predicted once more with that choice taken back.
 */
#include "engine/way.h"
#include "report/build.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 160 };

static void predict_without(const struct problem *problem, const struct geometry *g,
                            const struct layout *layout, enum way_axis axis,
                            struct prediction *out) {
    struct workload plain = *problem_workload(problem, layout->mesh.way);
    way_axis_set(&plain.execution, axis, 0.0);
    struct problem other = *problem;
    other.ways = (struct way_list){1, &plain};
    struct layout same = *layout;
    same.mesh.way = 0;
    best_layout_predict(&other, g, &same, out, NULL);
}

/* The item that grows most from one prediction to another. */
static const char *grown_item(const struct prediction *from, const struct prediction *to) {
    const char *name = NULL;
    double most = 0.0;
    for (int i = 0; i < MEMORY_ITEM_COUNT; ++i) {
        double before, after;
        (void)memory_item(&from->memory, i, &before);
        const char *const item = memory_item(&to->memory, i, &after);
        if (after - before > most) {
            most = after - before;
            name = item;
        }
    }
    return name;
}

static bool append_choice(json_t *list, const struct problem *problem, const struct geometry *g,
                          const struct layout *layout, enum way_axis axis,
                          const struct prediction *p) {
    const double value =
        way_axis_get(&problem_workload(problem, layout->mesh.way)->execution, axis);
    const double gib = UNITS_BYTES_PER_GIB;
    struct prediction without;
    char text[STATUS_QUOTE_MAX], memory[TEXT_MAX], name[STATUS_QUOTE_MAX];
    predict_without(problem, g, layout, axis, &without);
    const char *const item = grown_item(p, &without);
    (void)snprintf(memory, sizeof memory, "%.1f GiB of the fullest GPU, not %.1f%s%s%s",
                   without.memory.total / gib, p->memory.total / gib, item ? " (" : "",
                   item ? item : "", item ? ")" : "");
    (void)snprintf(name, sizeof name, "%s", way_axis_name(axis));
    for (char *c = name; *c; ++c)
        *c = *c == '_' ? ' ' : *c;
    const double longer_s = without.step_time_s - p->step_time_s;
    char step[TEXT_MAX] = "no other step time";
    if (fabs(longer_s) > 1e-9 * p->step_time_s)
        (void)snprintf(step, sizeof step, "a step %.3g s %s", fabs(longer_s),
                       longer_s > 0.0 ? "longer" : "shorter");
    return append_text(list, "%s %s: without it %s%s, and %s", name,
                       way_axis_text(axis, value, text), memory,
                       without.verdict == VERDICT_NO ? ", which is too much" : "", step);
}

/* The largest of what comes and goes within a step: the next to run out when lengths grow. */
static bool append_next(json_t *list, const struct prediction *p) {
    const struct memory_items *const m = &p->memory;
    const struct {
        const char *name;
        double bytes;
    } transients[] = {{"activations", m->activations},
                      {"routed tokens", m->routed},
                      {"logits", m->logits},
                      {"workspace of one layer", m->workspace},
                      {"all-to-all buffers", m->communication},
                      {"gathered weights", m->gathered}};
    size_t most = 0;
    for (size_t i = 1; i < sizeof transients / sizeof transients[0]; ++i)
        most = transients[i].bytes > transients[most].bytes ? i : most;
    return append_text(list, "of what grows with a GPU's tokens, the largest is now: %s, %.1f GiB",
                       transients[most].name, transients[most].bytes / UNITS_BYTES_PER_GIB);
}

bool append_choices(json_t *list, const struct problem *problem, const struct geometry *g,
                    const struct layout *layout, const struct prediction *p) {
    const struct execution *const e = &problem_workload(problem, layout->mesh.way)->execution;
    bool ok = true, any = false;
    for (int i = WAY_OFFLOAD_ACTIVATIONS; i < WAY_AXES; ++i) {
        const enum way_axis axis = (enum way_axis)i;
        if (!(way_axis_get(e, axis) > 0.0))
            continue;
        any = true;
        ok = append_choice(list, problem, g, layout, axis, p) && ok;
    }
    return (!any || append_next(list, p)) && ok;
}
