// SPDX-License-Identifier: GPL-3.0-or-later
/* Columns by stage and interval, labels by layer. */
#include "least_step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS_MAX = 256, LABELS_MAX = 24 };

struct column {
    double busy_s, tail_s;
    bool fits;
};

/* Sum and largest tail of the stages so far; none is better in both than another. */
struct label {
    double sum_s, tail_s;
};

struct front {
    int count;
    struct label labels[LABELS_MAX];
};

struct least_step {
    struct column *columns; /* [stage][first][last] */
    double *times;          /* of the columns that fit, in rising order */
    size_t column_room, time_count;
    struct front now[LAYERS_MAX + 1], next[LAYERS_MAX + 1];
};

struct least_step *least_step_new(void) {
    return calloc(1, sizeof(struct least_step));
}

void least_step_free(struct least_step *s) {
    if (!s)
        return;
    free(s->columns);
    free(s->times);
    free(s);
}

/* The published composition knows the even split alone; so do more chunks a stage. */
static bool has_one_split(const struct step_context *ctx, const struct mesh *mesh) {
    return mesh->vpp > 1 || mesh->pp == 1 || !ctx->engine.uneven_stages ||
           ctx->estimator.pipeline_fraction;
}

static double even_step(const struct step_context *ctx, const struct layer_table *table,
                        const struct mesh *mesh, bool *fits) {
    const int pp = mesh->pp, layers = ctx->geometry->layers, longer = layers % pp,
              lead = (pp - longer) / 2;
    struct split split = {.stages = pp};
    struct prediction p;
    for (int i = 0; i < pp; ++i)
        split.first[i + 1] =
            (uint16_t)(split.first[i] + layers / pp + (i >= lead && i < lead + longer));
    step_predict(ctx, table, mesh, &split, &p, NULL);
    *fits = p.verdict != VERDICT_NO;
    return p.step_time_s;
}

double least_step_bound(const struct step_context *ctx, const struct layer_table *table,
                        const struct mesh *mesh) {
    bool fits;
    return ctx->estimator.pipeline_fraction ? even_step(ctx, table, mesh, &fits)
                                            : step_bound(ctx, table, mesh);
}

static int by_time(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static struct column *column_at(const struct least_step *s, int layers, int stage, int first,
                                int last) {
    return &s->columns[((size_t)stage * (size_t)(layers + 1) + (size_t)first) *
                           (size_t)(layers + 1) +
                       (size_t)last];
}

static bool price(struct least_step *s, const struct step_context *ctx,
                  const struct layer_table *table, const struct mesh *mesh) {
    const int layers = ctx->geometry->layers;
    const size_t room = (size_t)mesh->pp * (size_t)(layers + 1) * (size_t)(layers + 1);
    if (room > s->column_room) {
        free(s->columns);
        free(s->times);
        s->columns = calloc(room, sizeof *s->columns);
        s->times = calloc(room, sizeof *s->times);
        s->column_room = s->columns && s->times ? room : 0;
        if (s->column_room == 0)
            return false;
    }
    s->time_count = 0;
    for (int i = 0; i < mesh->pp; ++i)
        for (int first = i; first < layers; ++first)
            for (int last = first + 1; last <= layers - (mesh->pp - 1 - i); ++last) {
                struct column *const c = column_at(s, layers, i, first, last);
                struct stage_cost cost;
                struct memory_items items;
                const struct stage_range range = {i, first, last};
                stage_cost_of(ctx, table, mesh, range, &cost);
                stage_memory_of(ctx, table, mesh, range, &items);
                *c = (struct column){cost.busy_s, cost.tail_s,
                                     items.total <= ctx->cluster->device.memory_bytes};
                if (c->fits)
                    s->times[s->time_count++] = c->busy_s;
            }
    qsort(s->times, s->time_count, sizeof *s->times, by_time);
    return true;
}

/* A label that nothing there is as good as; too many are merged into one below both. */
static void offer(struct front *front, struct label label) {
    int kept = 0;
    for (int i = 0; i < front->count; ++i) {
        const struct label *const at = &front->labels[i];
        if (at->sum_s <= label.sum_s && at->tail_s <= label.tail_s)
            return;
        if (!(label.sum_s <= at->sum_s && label.tail_s <= at->tail_s))
            front->labels[kept++] = *at;
    }
    front->count = kept;
    if (kept < LABELS_MAX) {
        front->labels[front->count++] = label;
        return;
    }
    front->labels[kept - 1].sum_s = fmin(front->labels[kept - 1].sum_s, label.sum_s);
    front->labels[kept - 1].tail_s = fmin(front->labels[kept - 1].tail_s, label.tail_s);
}

/* Least B sum + tail of stages no slower than the limit; INFINITY when nothing tiles. */
static double tile(struct least_step *s, int layers, int stages, double limit_s, double weight) {
    for (int at = 0; at <= layers; ++at)
        s->now[at].count = 0;
    s->now[0] = (struct front){1, {{0.0, 0.0}}};
    for (int i = 0; i < stages; ++i) {
        for (int at = 0; at <= layers; ++at)
            s->next[at].count = 0;
        for (int first = i; first < layers; ++first)
            for (int last = first + 1; s->now[first].count > 0 && last <= layers - (stages - 1 - i);
                 ++last) {
                const struct column *const c = column_at(s, layers, i, first, last);
                if (!c->fits || c->busy_s > limit_s)
                    continue;
                for (int k = 0; k < s->now[first].count; ++k) {
                    const struct label *const l = &s->now[first].labels[k];
                    offer(&s->next[last],
                          (struct label){l->sum_s + c->busy_s, fmax(l->tail_s, c->tail_s)});
                }
            }
        memcpy(s->now, s->next, sizeof s->now);
    }
    double least = (double)INFINITY;
    for (int k = 0; k < s->now[layers].count; ++k)
        least =
            fmin(least, weight * s->now[layers].labels[k].sum_s + s->now[layers].labels[k].tail_s);
    return least;
}

static bool stage_fits(const struct step_context *ctx, const struct layer_table *table,
                       const struct mesh *mesh, struct stage_range range) {
    struct memory_items items;
    stage_memory_of(ctx, table, mesh, range, &items);
    return items.total <= ctx->cluster->device.memory_bytes;
}

/* Layers that a stage may have at most from a first one. */
static int layers_from(const struct step_context *ctx, const struct layer_table *table,
                       const struct mesh *mesh, int stage, int first) {
    int last = first;
    while (last < ctx->geometry->layers &&
           stage_fits(ctx, table, mesh, (struct stage_range){stage, first, last + 1}))
        ++last;
    return last - first;
}

/* From its first place, or behind the dense layers: what is between holds no more than either. */
static int most_layers(const struct step_context *ctx, const struct layer_table *table,
                       const struct mesh *mesh, int stage) {
    const int dense = ctx->geometry->first_dense;
    const int here = layers_from(ctx, table, mesh, stage, stage);
    const int behind = layers_from(ctx, table, mesh, stage, stage > dense ? stage : dense);
    return here > behind ? here : behind;
}

bool least_step_fits(struct least_step *s, const struct step_context *ctx,
                     const struct layer_table *table, const struct mesh *mesh) {
    const int layers = ctx->geometry->layers;
    if (has_one_split(ctx, mesh)) {
        bool fits;
        (void)even_step(ctx, table, mesh, &fits);
        return fits;
    }
    int room = 0;
    for (int i = 0; i < mesh->pp; ++i)
        room += most_layers(ctx, table, mesh, i);
    return room >= layers && isfinite(least_step_find(s, ctx, table, mesh, (double)INFINITY));
}

double least_step_find(struct least_step *s, const struct step_context *ctx,
                       const struct layer_table *table, const struct mesh *mesh, double enough) {
    const int layers = ctx->geometry->layers;
    if (has_one_split(ctx, mesh)) {
        bool fits;
        const double time_s = even_step(ctx, table, mesh, &fits);
        return fits ? time_s : (double)INFINITY;
    }
    if (layers > LAYERS_MAX || !price(s, ctx, table, mesh))
        return 0.0; /* nothing is known */
    const struct pipeline_form form = pipeline_form_of(ctx, table, mesh);
    const double factor = step_factor(ctx);
    const double rest = tile(s, layers, mesh->pp, INFINITY, form.sum_weight);
    double best = (double)INFINITY;
    for (size_t i = 0; i < s->time_count; ++i) {
        const double limit_s = s->times[i];
        if (i > 0 && limit_s <= s->times[i - 1])
            continue;
        const double floor_s = factor * (form.max_weight * limit_s + rest);
        if (!(floor_s < best) || floor_s >= enough)
            break;
        best = fmin(best, factor * (form.max_weight * limit_s +
                                    tile(s, layers, mesh->pp, limit_s, form.sum_weight)));
    }
    return isfinite(best) ? best : enough;
}
