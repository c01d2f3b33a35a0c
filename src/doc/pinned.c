// SPDX-License-Identifier: GPL-3.0-or-later
/* The one geometry and mesh of a document that leaves nothing to choose. */
#include "doc/document.h"

#include "engine/way.h"

#include <string.h>

/* What is not pinned, in words, and the place of the first. */
struct unpinned {
    char text[STATUS_TEXT_MAX / 2];
    size_t used;
    struct place place;
};

static void note(struct unpinned *u, const struct document *d, const char *path, const char *name,
                 size_t count) {
    char one[STATUS_QUOTE_MAX];
    if (count == 0)
        (void)snprintf(one, sizeof one, "%s (free)", name);
    else
        (void)snprintf(one, sizeof one, "%s (%zu values)", name, count);
    const char *const comma = u->used > 0 ? ", " : "";
    const int wrote = snprintf(u->text + u->used, sizeof u->text - u->used, "%s%s", comma, one);
    if (wrote > 0 && u->used + (size_t)wrote < sizeof u->text)
        u->used += (size_t)wrote;
    const struct document_value *const value = document_value(d, path);
    if (!u->place.source && value)
        u->place = value->place;
}

static void fail_at(const struct place *place, const struct document *d, struct status_error *err) {
    if (!err)
        return;
    const char *const file = place->source ? place->source->name : d->path;
    const size_t length = strlen(file) < sizeof err->file ? strlen(file) : sizeof err->file - 1;
    memcpy(err->file, file, length);
    err->file[length] = '\0';
    err->line = place->line;
    err->column = place->column;
}

static int pin(struct unpinned *u, const struct document *d, const char *path, const char *name,
               const struct axis *axis) {
    if (axis->count == 1)
        return axis->values[0];
    note(u, d, path, name, (size_t)axis->count);
    return 1;
}

static void pin_recompute(struct unpinned *u, const struct document *d, struct mesh *mesh) {
    size_t count = 0;
    for (int i = 0; i < RECOMPUTE_MODES; ++i)
        if (d->problem.layouts.recompute[i]) {
            mesh->recompute = (enum recompute)i;
            count++;
        }
    if (count != 1)
        note(u, d, "search.layout.recompute", "recompute", count == RECOMPUTE_MODES ? 0 : count);
}

static void pin_schedule(struct unpinned *u, const struct document *d, struct mesh *mesh) {
    size_t count = 0;
    mesh->schedule = SCHEDULE_1F1B;
    for (int i = 0; i < SCHEDULES; ++i)
        if (d->problem.layouts.schedule[i]) {
            mesh->schedule = (enum schedule)i;
            count++;
        }
    if (count > 1)
        note(u, d, "search.layout.schedule", "schedule", count);
}

/* Whether no earlier way has this one's value. */
static size_t way_differs_from_all(const struct problem *p, int way, enum way_axis axis) {
    const double value = way_axis_get(&problem_workload(p, way)->execution, axis);
    for (int i = 0; i < way; ++i) {
        const double other = way_axis_get(&problem_workload(p, i)->execution, axis);
        if (!(other < value || other > value))
            return 0;
    }
    return 1;
}

/* Keys of search.execution that list several values. */
static void pin_ways(struct unpinned *u, const struct document *d) {
    const struct problem *const p = &d->problem;
    for (int axis = 0; axis < WAY_AXES; ++axis) {
        size_t count = 1;
        for (int i = 1; i < problem_ways(p); ++i)
            count += way_differs_from_all(p, i, (enum way_axis)axis);
        char path[STATUS_QUOTE_MAX];
        (void)snprintf(path, sizeof path, "search.execution.%s",
                       way_axis_name((enum way_axis)axis));
        if (count > 1)
            note(u, d, path, way_axis_name((enum way_axis)axis), count);
    }
}

static struct mesh pin_all(struct unpinned *u, const struct document *d) {
    const struct layout_space *const s = &d->problem.layouts;
    struct mesh mesh = {
        .tp = pin(u, d, "search.layout.tp", "tp", &s->tp),
        .cp = pin(u, d, "search.layout.cp", "cp", &s->cp),
        .pp = pin(u, d, "search.layout.pp", "pp", &s->pp),
        .vpp = pin(u, d, "search.layout.vpp", "vpp", &s->vpp),
        .ep = pin(u, d, "search.layout.ep", "ep", &s->ep),
        .etp = pin(u, d, "search.layout.etp", "etp", &s->etp),
        .micro_batch = pin(u, d, "search.layout.micro_batch", "micro_batch", &s->micro_batch),
    };
    pin_recompute(u, d, &mesh);
    pin_schedule(u, d, &mesh);
    pin_ways(u, d);
    return mesh;
}

/* The checks name what they refuse first: "EP 3 does not divide ...". */
static struct place refused_at(const struct document *d, const struct status_error *err) {
    static const struct {
        const char *word, *path;
    } words[] = {{"TP ", "search.layout.tp"},
                 {"CP ", "search.layout.cp"},
                 {"PP ", "search.layout.pp"},
                 {"VPP ", "search.layout.vpp"},
                 {"EP ", "search.layout.ep"},
                 {"ETP ", "search.layout.etp"},
                 {"micro-batch ", "search.layout.micro_batch"},
                 {"schedule ", "search.layout.schedule"},
                 {"sequence ", "workload.sequence"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; ++i) {
        if (strncmp(err->message, words[i].word, strlen(words[i].word)) != 0)
            continue;
        const struct document_value *const value = document_value(d, words[i].path);
        if (value)
            return value->place;
        if (d->stages_place.source) /* PP and VPP follow from them */
            return d->stages_place;
    }
    return (struct place){NULL, 0, 0, 0};
}

enum mosaic_status document_pinned(const struct document *document, struct geometry *geometry,
                                   struct mesh *mesh, struct status_error *err) {
    struct unpinned u = {.used = 0};
    const struct problem *const p = &document->problem;
    if (!document->has_problem) {
        (void)status_set(err, MOSAIC_BAD_INPUT, "a %s is no plan: it pins no layout",
                         document_kind_name(document->kind));
        fail_at(&u.place, document, err);
        return MOSAIC_BAD_INPUT;
    }
    if (p->geometries.count != 1)
        note(&u, document, "search.geometry", "geometry", p->geometries.count);
    if (p->fleet.nodes.count > 1)
        note(&u, document, "search.nodes", "nodes", (size_t)p->fleet.nodes.count);
    struct mesh out = pin_all(&u, document);
    if (u.used > 0) {
        (void)status_set(err, MOSAIC_BAD_INPUT,
                         "one geometry and one value an axis are due; not pinned: %s", u.text);
        status_hint(err, "give each axis of search.layout one value, and a 'model'");
        fail_at(&u.place, document, err);
        return MOSAIC_BAD_INPUT;
    }
    enum mosaic_status status =
        mesh_complete(&out, &p->geometries.items[0], &p->workload, cluster_gpus(&p->cluster), err);
    if (status != MOSAIC_OK) {
        if (err) {
            const struct place place = refused_at(document, err);
            fail_at(&place, document, err);
        }
        return status;
    }
    *geometry = p->geometries.items[0];
    *mesh = out;
    return MOSAIC_OK;
}
