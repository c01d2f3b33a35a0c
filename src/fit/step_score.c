// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Scores by sorting: layouts first, then within each group of comparable layouts by measured time,
 * with a Fenwick tree over the ranks of the predictions.  One walk counts the pairs (a, b) with
 * a > f b measured and how many of them are predicted in order or reversed, in O(n log n):
 * f = 1 gives concordant and discordant pairs for Kendall's tau-b (Knight 1966), f = 1.05 the
 * pairs of pair_order.
 */
#include "fit/step_score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RANKED_LEAST = 3 };
static const double pair_apart = 1.05; /* measured ratio above which an order counts */
static const double rounding = 1e-12;  /* so that exactly 5 % apart is not above it */

/* One layout by its rows. */
struct layout_mean {
    const struct measured_step *step; /* the first of them */
    double error, distance;           /* means of e and |e| */
    double measured_s, predicted_s;   /* per token */
    size_t rank;                      /* of predicted_s inside its group, from 1 */
};

struct scratch {
    const struct step_error **rows;
    struct layout_mean *means;
    struct layout_mean **order;
    double *distances;
    size_t *tree;
};

struct pair_count {
    size_t pairs, in_order, reversed;
};

static double relative_error(const struct step_error *e) {
    return e->predicted_s / e->step->step_time_s - 1.0;
}

static int by_layout(const void *a, const void *b) {
    const struct step_error *const x = *(const struct step_error *const *)a;
    const struct step_error *const y = *(const struct step_error *const *)b;
    if (x->step->layout != y->step->layout)
        return x->step->layout < y->step->layout ? -1 : 1;
    return x < y ? -1 : x > y; /* one array: its order */
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int gpus_of(const struct measured_step *s) {
    return s->mesh.tp * s->mesh.cp * s->mesh.pp * s->mesh.dp;
}

static int compare_numbers(long a, long b) {
    return a < b ? -1 : a > b;
}

/* Zero for layouts whose order is a question: the same job on as many of the same GPUs. */
static int compare_group(const struct measured_step *a, const struct measured_step *b) {
    int order = strcmp(a->model, b->model);
    if (order == 0)
        order = strcmp(a->gpu, b->gpu);
    if (order == 0)
        order = compare_numbers((long)a->workload.precision, (long)b->workload.precision);
    if (order == 0)
        order = compare_numbers(a->workload.sequence, b->workload.sequence);
    return order != 0 ? order : compare_numbers(gpus_of(a), gpus_of(b));
}

static int by_measured(const void *a, const void *b) {
    const struct layout_mean *const x = *(const struct layout_mean *const *)a;
    const struct layout_mean *const y = *(const struct layout_mean *const *)b;
    const int group = compare_group(x->step, y->step);
    if (group != 0)
        return group;
    const int time = by_value(&x->measured_s, &y->measured_s);
    return time != 0 ? time : x < y ? -1 : x > y;
}

static int by_predicted(const void *a, const void *b) {
    const struct layout_mean *const x = *(const struct layout_mean *const *)a;
    const struct layout_mean *const y = *(const struct layout_mean *const *)b;
    const int time = by_value(&x->predicted_s, &y->predicted_s);
    return time != 0 ? time : x < y ? -1 : x > y;
}

/* ---- error ---- */

static size_t gather(struct scratch *s, size_t rows, struct step_score *out) {
    size_t layouts = 0, inside = 0;
    qsort(s->rows, rows, sizeof(*s->rows), by_layout);
    for (size_t i = 0, next; i < rows; i = next) {
        struct layout_mean *const mean = &s->means[layouts++];
        *mean = (struct layout_mean){.step = s->rows[i]->step};
        for (next = i; next < rows && s->rows[next]->step->layout == mean->step->layout; ++next) {
            const struct step_error *const row = s->rows[next];
            const double tokens =
                (double)row->step->workload.global_batch * (double)row->step->workload.sequence;
            const double e = relative_error(row);
            mean->error += e;
            mean->distance += fabs(e);
            mean->measured_s += row->step->step_time_s / tokens;
            mean->predicted_s += row->predicted_s / tokens;
            inside += row->low_s <= row->step->step_time_s && row->step->step_time_s <= row->high_s;
        }
        const double count = (double)(next - i);
        mean->error /= count;
        mean->distance /= count;
        mean->measured_s /= count;
        mean->predicted_s /= count;
    }
    out->rows = rows;
    out->layouts = layouts;
    out->coverage = (double)inside / (double)rows;
    return layouts;
}

/* Between the two nearest of n sorted values. */
static double quantile(const double *sorted, size_t n, double share) {
    const double at = share * (double)(n - 1);
    const size_t below = (size_t)at;
    if (below + 1 >= n)
        return sorted[n - 1];
    return sorted[below] + (at - (double)below) * (sorted[below + 1] - sorted[below]);
}

static void score_errors(struct scratch *s, size_t layouts, struct step_score *out) {
    const double middle = 0.5, high = 0.9;
    for (size_t i = 0; i < layouts; ++i) {
        s->distances[i] = s->means[i].distance;
        out->mape += s->means[i].distance;
        out->bias += s->means[i].error;
    }
    out->mape /= (double)layouts;
    out->bias /= (double)layouts;
    qsort(s->distances, layouts, sizeof *s->distances, by_value);
    out->median = quantile(s->distances, layouts, middle);
    out->p90 = quantile(s->distances, layouts, high);
}

/* ---- order ---- */

static size_t low_bit(size_t i) {
    return i & (~i + 1);
}

static void tree_add(size_t *tree, size_t n, size_t rank) {
    for (size_t i = rank; i <= n; i += low_bit(i))
        ++tree[i];
}

/* How many of the ranks added are at most `rank`. */
static size_t tree_through(const size_t *tree, size_t rank) {
    size_t sum = 0;
    for (size_t i = rank; i > 0; i -= low_bit(i))
        sum += tree[i];
    return sum;
}

/* Pairs whose longer one takes more than `factor` times the shorter; items by measured time. */
static struct pair_count count_pairs(struct layout_mean *const *items, size_t n, double factor,
                                     size_t *tree) {
    struct pair_count count = {0, 0, 0};
    size_t shorter = 0;
    memset(tree, 0, (n + 1) * sizeof *tree);
    for (size_t i = 0; i < n; ++i) {
        while (items[shorter]->measured_s * factor < items[i]->measured_s)
            tree_add(tree, n, items[shorter++]->rank);
        count.pairs += shorter;
        count.in_order += tree_through(tree, items[i]->rank - 1);
        count.reversed += shorter - tree_through(tree, items[i]->rank);
    }
    return count;
}

/* Ranks by prediction, equal ones alike; returns the pairs that are not equal. */
static size_t rank_predictions(struct layout_mean **items, size_t n) {
    size_t rank = 0, run = 0, different = 0;
    qsort(items, n, sizeof(*items), by_predicted);
    for (size_t i = 0; i < n; ++i) {
        /* Means of equal predictions over different numbers of rows differ by their rounding. */
        const bool is_new =
            i == 0 || items[i]->predicted_s > items[i - 1]->predicted_s * (1.0 + rounding);
        rank += is_new;
        run = is_new ? i : run;
        different += run;
        items[i]->rank = rank;
    }
    return different;
}

/* Where predictions are equal the worse one counts as chosen. */
static double regret_of(struct layout_mean *const *items, size_t n) {
    const struct layout_mean *chosen = items[0];
    for (size_t i = 1; i < n; ++i)
        if (items[i]->predicted_s <= chosen->predicted_s * (1.0 + rounding))
            chosen = items[i];
    return chosen->measured_s / items[0]->measured_s - 1.0;
}

static void score_group(struct layout_mean **items, size_t n, size_t *tree,
                        struct step_score *out) {
    const size_t different = rank_predictions(items, n);
    qsort(items, n, sizeof(*items), by_measured);
    const struct pair_count apart = count_pairs(items, n, pair_apart * (1.0 + rounding), tree);
    out->pairs += apart.pairs;
    out->pair_order += (double)apart.in_order;
    if (n < RANKED_LEAST)
        return;
    const struct pair_count all = count_pairs(items, n, 1.0, tree);
    const double scale = sqrt((double)all.pairs) * sqrt((double)different);
    ++out->ranked_groups;
    if (scale > 0.0) /* else one side is all ties: no association */
        out->kendall_tau += ((double)all.in_order - (double)all.reversed) / scale;
    out->regret += regret_of(items, n);
}

static void score_order(struct scratch *s, size_t layouts, struct step_score *out) {
    for (size_t i = 0; i < layouts; ++i)
        s->order[i] = &s->means[i];
    qsort(s->order, layouts, sizeof(*s->order), by_measured);
    for (size_t i = 0, next; i < layouts; i = next) {
        for (next = i + 1;
             next < layouts && compare_group(s->order[i]->step, s->order[next]->step) == 0; ++next)
            ;
        score_group(&s->order[i], next - i, s->tree, out);
    }
    if (out->pairs > 0)
        out->pair_order /= (double)out->pairs;
    if (out->ranked_groups > 0) {
        out->kendall_tau /= (double)out->ranked_groups;
        out->regret /= (double)out->ranked_groups;
    }
}

/* ---- the whole ---- */

static bool scratch_make(struct scratch *s, size_t count) {
    s->rows = calloc(count, sizeof(*s->rows));
    s->means = calloc(count, sizeof *s->means);
    s->order = calloc(count, sizeof(*s->order));
    s->distances = calloc(count, sizeof *s->distances);
    s->tree = calloc(count + 1, sizeof *s->tree);
    return s->rows && s->means && s->order && s->distances && s->tree;
}

static void scratch_free(struct scratch *s) {
    free(s->rows);
    free(s->means);
    free(s->order);
    free(s->distances);
    free(s->tree);
}

bool step_score_of(const struct step_error *errors, size_t count,
                   bool (*take)(const struct measured_step *step, const void *context),
                   const void *context, struct step_score *out) {
    struct scratch s = {0};
    struct step_score score = {0};
    size_t taken = 0, rows = 0;
    for (size_t i = 0; i < count; ++i)
        taken += !take || take(errors[i].step, context);
    if (taken > 0 && scratch_make(&s, taken))
        for (size_t i = 0; i < count; ++i)
            if (!take || take(errors[i].step, context))
                s.rows[rows++] = &errors[i];
    if (rows > 0) {
        const size_t layouts = gather(&s, rows, &score);
        score_errors(&s, layouts, &score);
        score_order(&s, layouts, &score);
        *out = score;
    }
    scratch_free(&s);
    return rows > 0;
}

void memory_score_of(const struct memory_error *errors, size_t count, struct memory_score *out) {
    *out = (struct memory_score){0};
    for (size_t i = 0; i < count; ++i) {
        const struct measured_step *const step = errors[i].step;
        if (step->peak_allocated_bytes > 0.0) {
            const double e = errors[i].allocated_bytes / step->peak_allocated_bytes - 1.0;
            ++out->allocated_rows;
            out->allocated_mape += fabs(e);
            out->allocated_bias += e;
        }
        if (step->peak_reserved_bytes > 0.0) {
            ++out->reserved_rows;
            out->reserved_mape += fabs(errors[i].reserved_bytes / step->peak_reserved_bytes - 1.0);
        }
        out->false_refusals += errors[i].total_bytes > step->cluster.device.memory_bytes;
    }
    if (out->allocated_rows > 0) {
        out->allocated_mape /= (double)out->allocated_rows;
        out->allocated_bias /= (double)out->allocated_rows;
    }
    if (out->reserved_rows > 0)
        out->reserved_mape /= (double)out->reserved_rows;
}
