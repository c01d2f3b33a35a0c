// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Rows are compared through a sorted list of their numbers, so a table of n rows takes n log n.
 */
#include "fit/run_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double flops_per_parameter_token = 6;
static const double flops_slack = 2; /* either way: attention, recomputation */

enum { LIST_MAX = 384, ITEM_MAX = 48, TAIL_MAX = 32 };

static const struct {
    const char *name, *sentence;
} fates[RUN_FATES] = {
    [RUN_USED] = {"used", ""},
    [RUN_UNFINISHED] = {"unfinished", "not finished, not used"},
    [RUN_DIVERGED] = {"diverged", "diverged, not used"},
    [RUN_DUPLICATE] = {"duplicate", "copy of an earlier row, used once"},
    [RUN_EXCLUDED] = {"excluded", "excluded by status"},
    [RUN_FILTERED] = {"filtered", "left out by the filter"},
};

const char *run_fate_text(enum run_fate fate) {
    return fates[fate].name;
}

void run_rows_list(const struct run_table *table, const bool *is_listed, char *text, size_t size) {
    size_t used = 0, listed = 0, left = 0;
    for (size_t i = 0; i < table->rows; i++)
        left += is_listed[i];
    used += (size_t)snprintf(text, size, left == 1 ? "row" : "rows");
    for (size_t i = 0; i < table->rows;) {
        size_t end = i + 1;
        if (!is_listed[i]) {
            i = end;
            continue;
        }
        while (end < table->rows && is_listed[end])
            end++;
        if (used + ITEM_MAX + TAIL_MAX > size) {
            (void)snprintf(text + used, size - used, " and %zu more", left - listed);
            return;
        }
        const char *comma = listed ? "," : "";
        const size_t first = table->runs[i].row, last = table->runs[end - 1].row;
        used += (size_t)(end - i == 1 ? snprintf(text + used, size - used, "%s %zu", comma, first)
                                      : snprintf(text + used, size - used, "%s %zu-%zu", comma,
                                                 first, last));
        listed += end - i;
        i = end;
    }
}

/* ---- copies ---- */

struct key {
    double value[8];
    const char *name;
    size_t index;
};

static struct key key_of(const struct run *run, size_t index) {
    const struct form_point *p = &run->point;
    return (struct key){{p->n_total, p->n_active, p->tokens, p->granularity, p->experts, p->top_k,
                         run->loss, run->weight},
                        run->name,
                        index};
}

static int compare_values(const struct key *x, const struct key *y) {
    for (size_t i = 0; i < sizeof x->value / sizeof x->value[0]; i++) {
        if (x->value[i] < y->value[i])
            return -1;
        if (x->value[i] > y->value[i])
            return 1;
    }
    return 0;
}

/* By name, then values, then row. */
static int compare_keys(const void *a, const void *b) {
    const struct key *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    if (order == 0)
        order = compare_values(x, y);
    if (order == 0)
        order = x->index < y->index ? -1 : x->index > y->index;
    return order;
}

enum mosaic_status run_rows_mark_copies(struct run_table *table, struct diag_list *diags) {
    struct key *keys = calloc(table->rows + 1, sizeof *keys);
    bool *is_same_name = calloc(table->rows + 1, sizeof *is_same_name);
    size_t count = 0;
    bool any = false;
    if (!keys || !is_same_name) {
        free(keys);
        free(is_same_name);
        return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
    }
    for (size_t i = 0; i < table->rows; i++)
        if (table->runs[i].fate == RUN_USED)
            keys[count++] = key_of(&table->runs[i], i);
    qsort(keys, count, sizeof *keys, compare_keys);
    for (size_t i = 1; i < count; i++) {
        if (strcmp(keys[i].name, keys[i - 1].name) != 0)
            continue;
        if (compare_values(&keys[i], &keys[i - 1]) == 0) {
            table->runs[keys[i].index].fate = RUN_DUPLICATE;
        } else if (keys[i].name[0]) {
            is_same_name[keys[i].index] = any = true;
        }
    }
    if (any) {
        char list[LIST_MAX];
        run_rows_list(table, is_same_name, list, sizeof list);
        diag_warning(diags, NULL, "%s: the name of another row with other values; all are used",
                     list);
    }
    free(keys);
    free(is_same_name);
    return MOSAIC_OK;
}

/* ---- report ---- */

void run_rows_report(struct run_table *table, struct diag_list *diags) {
    bool *is_listed = calloc(table->rows + 1, sizeof *is_listed);
    memset(table->of_fate, 0, sizeof table->of_fate);
    for (size_t i = 0; i < table->rows; i++)
        table->of_fate[table->runs[i].fate]++;
    for (size_t fate = RUN_USED + 1; fate < RUN_FATES; fate++) {
        if (table->of_fate[fate] == 0)
            continue;
        char list[LIST_MAX] = "";
        if (is_listed) {
            for (size_t i = 0; i < table->rows; i++)
                is_listed[i] = table->runs[i].fate == (enum run_fate)fate;
            run_rows_list(table, is_listed, list, sizeof list);
        }
        if (fate == RUN_FILTERED)
            diag_note(diags, NULL, "%zu of %zu runs %s: %s", table->of_fate[fate], table->rows,
                      fates[fate].sentence, list);
        else
            diag_warning(diags, NULL, "%zu of %zu runs %s: %s", table->of_fate[fate], table->rows,
                         fates[fate].sentence, list);
    }
    free(is_listed);
}

void run_rows_check_flops(const struct run_table *table, struct diag_list *diags) {
    bool *is_off = calloc(table->rows + 1, sizeof *is_off);
    bool any = false;
    for (size_t i = 0; is_off && i < table->rows; i++) {
        const struct run *run = &table->runs[i];
        if (run->fate != RUN_USED || !(run->flops > 0))
            continue;
        const double ratio =
            run->flops / (flops_per_parameter_token * run->point.n_active * run->point.tokens);
        is_off[i] = !(ratio <= flops_slack && ratio * flops_slack >= 1);
        any = any || is_off[i];
    }
    if (any) {
        char list[LIST_MAX];
        run_rows_list(table, is_off, list, sizeof list);
        diag_warning(diags, NULL,
                     "%s: FLOPs differ from 6 N_active D by more than a factor %g; is N the active "
                     "count, D one pass?",
                     list, flops_slack);
    }
    free(is_off);
}
