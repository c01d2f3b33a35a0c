// SPDX-License-Identifier: GPL-3.0-or-later
/* The list itself: what fits, in order, within the budget.  job_shapes.c says what there is. */
#include "measure/job_list.h"

#include "measure/job_shapes.h"

#include <stdlib.h>
#include <string.h>

const char *const job_level_words[JOB_LEVELS + 1] = {"quick", "default", "full", NULL};

/* Quick ends within a minute, the default within five, with room for starting and fitting. */
static const struct {
    double budget_s, job_s; /* all jobs, the longest one */
    int rounds, waves;
} levels[JOB_LEVELS] = {
    {50.0, 2.0, 5, 1},
    {270.0, 8.0, 9, 2},
    {3600.0, 60.0, 15, 3},
};

double job_level_budget_s(enum job_level level) {
    return levels[level].budget_s;
}

int job_pair_rounds(int places) {
    return places < 2 ? 0 : places % 2 == 0 ? places - 1 : places;
}

/* The circle method: of an odd number of places, one with i + j = round meets, and the last one
 * takes the place that would meet itself. */
int job_pair_of(int place, int round, int places) {
    const bool is_even = places % 2 == 0;
    const int circle = is_even ? places - 1 : places;
    if (circle < 1 || (circle == 1 && !is_even))
        return -1;
    if (is_even && place == places - 1) {
        for (int i = 0; i < circle; ++i)
            if (2 * i % circle == round % circle)
                return i;
        return -1;
    }
    const int other = ((round - place) % circle + circle) % circle;
    return other != place ? other : is_even ? places - 1 : -1;
}

/* ---- building ---- */

static int by_wave(const void *a, const void *b) {
    const struct job *const x = a, *const y = b;
    if (x->wave != y->wave)
        return x->wave < y->wave ? -1 : 1;
    if (x->keys.quantity != y->keys.quantity)
        return x->keys.quantity < y->keys.quantity ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* The same keys in another round of partners are another job. */
static bool is_same(const struct job *a, const struct job *b) {
    return a->kind == b->kind && a->round == b->round &&
           sample_compare_keys(&a->keys, &b->keys) == 0;
}

/* Of equal jobs the first one stays, in the earliest wave. */
static void drop_doubles(struct job_list *list) {
    size_t kept = 0;
    for (size_t i = 0; i < list->count; ++i) {
        struct job *const job = &list->jobs[i];
        size_t k = 0;
        while (k < kept && !is_same(&list->jobs[k], job))
            ++k;
        if (k == kept)
            list->jobs[kept++] = *job;
        else if (job->wave < list->jobs[k].wave)
            list->jobs[k].wave = job->wave;
    }
    list->count = kept;
    for (size_t i = 0; i < kept; ++i)
        list->jobs[i].order = (int)i;
}

/* A job too dear for what is left makes room for cheaper ones behind it. */
static void cut(struct job_list *list, double budget_s) {
    size_t kept = 0;
    for (size_t i = 0; i < list->count; ++i) {
        if (list->seconds + list->jobs[i].seconds > budget_s) {
            list->beyond++;
            continue;
        }
        list->seconds += list->jobs[i].seconds;
        list->jobs[kept++] = list->jobs[i];
    }
    list->count = kept;
}

/* Every quantity has its turn: sorted by wave and quantity, a budget that ends would always cost
 * the same ones.  So a wave goes round the quantities, a job of each in turn. */
static void take_turns(struct job_list *list) {
    size_t turn[SAMPLE_QUANTITIES] = {0};
    int wave = -1;
    for (size_t i = 0; i < list->count; ++i) {
        struct job *const job = &list->jobs[i];
        if (job->wave != wave)
            memset(turn, 0, sizeof turn);
        wave = job->wave;
        job->wave = (int)turn[job->keys.quantity]++;
        job->wave += wave * TURNS_MAX;
    }
    qsort(list->jobs, list->count, sizeof *list->jobs, by_wave);
    for (size_t i = 0; i < list->count; ++i)
        list->jobs[i].wave /= TURNS_MAX;
}

enum mosaic_status job_list_make(const struct job_scope *scope, struct job_list *out,
                                 struct status_error *err) {
    struct job_list list = {.count = 0};
    const struct shape_limits limits = {.job_s = levels[scope->level].job_s,
                                        .rounds = levels[scope->level].rounds,
                                        .waves = levels[scope->level].waves};
    const enum mosaic_status status = job_shapes_all(scope, &limits, &list, err);
    if (status != MOSAIC_OK) {
        job_list_free(&list);
        return status;
    }
    drop_doubles(&list);
    if (list.count > 0) {
        qsort(list.jobs, list.count, sizeof *list.jobs, by_wave);
        take_turns(&list);
    }
    cut(&list, scope->budget_s > 0.0 ? scope->budget_s : levels[scope->level].budget_s);
    *out = list;
    return MOSAIC_OK;
}

void job_list_free(struct job_list *list) {
    free(list->jobs);
    *list = (struct job_list){.count = 0};
}
