// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The list of layouts against every tuple of degrees and every split tried by hand, against what
 * `plan` finds for the same model, and what it says when nothing fits, when it is interrupted, and
 * of fewer GPUs.
 */
#include "oracle.h"
#include "plan_case.h"

#include "close.h"
#include "plan/layout_list.h"
#include "plan_run.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 2048, MESHES_MAX = 40000, SPACES = 60 };

static struct layout_list list, other;

static void find(const struct problem *p, const struct geometry *g, size_t top,
                 struct layout_list *out) {
    struct status_error err;
    const struct layout_list_options options = {.top = top};
    if (layout_list_find(p, g, &options, out, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
}

/* ---- brute force ---- */

struct brute {
    const struct problem *problem;
    const struct geometry *geometry;
    struct step_context ctx;
    long legal, fitting;
    double least_bytes;
    double times[MESHES_MAX]; /* of meshes that fit */
};

static bool declares(const struct axis *axis, int value) {
    for (int i = 0; i < axis->count; ++i)
        if (axis->values[i] == value)
            return true;
    return axis->count == 0;
}

static void try_mesh(struct brute *b, struct mesh m) {
    const struct problem *const p = b->problem;
    const struct layout_space *const s = &p->layouts;
    const int world = p->cluster.nodes * p->cluster.gpus_per_node;
    if (!declares(&s->tp, m.tp) || !declares(&s->cp, m.cp) || !declares(&s->pp, m.pp) ||
        !declares(&s->vpp, m.vpp) || !declares(&s->ep, m.ep) || !declares(&s->etp, m.etp) ||
        !declares(&s->micro_batch, m.micro_batch) || !s->recompute[m.recompute] ||
        !oracle_is_legal(p, b->geometry, &m))
        return;
    m.dp = world / (m.tp * m.cp * m.pp);
    m.micro_batches = p->workload.global_batch / (m.micro_batch * m.dp);
    struct layer_table table;
    struct oracle_split best;
    layer_table_fill(&b->ctx, &m, &table);
    oracle_best_split(&b->ctx, &table, &m, &best);
    b->legal++;
    b->least_bytes = fmin(b->least_bytes, best.least_bytes);
    if (!best.found)
        return;
    assert_true(b->fitting < MESHES_MAX);
    b->times[b->fitting++] = best.step_time_s;
}

static void try_rest(struct brute *b, struct mesh m) {
    const int layers = b->geometry->layers, batch = b->problem->workload.global_batch;
    for (m.vpp = 1; m.vpp <= layers; ++m.vpp)
        for (m.micro_batch = 1; m.micro_batch <= batch; ++m.micro_batch)
            for (int r = 0; r < RECOMPUTE_MODES; ++r) {
                m.recompute = (enum recompute)r;
                try_mesh(b, m);
            }
}

static int ascending(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static void enumerate(const struct problem *p, const struct geometry *g, struct brute *b) {
    const int world = p->cluster.nodes * p->cluster.gpus_per_node;
    b->problem = p;
    b->geometry = g;
    b->legal = b->fitting = 0;
    b->least_bytes = (double)INFINITY;
    step_context_init(&b->ctx, g, &p->cluster, &p->calibration, &p->workload, &p->engine,
                      p->estimator);
    struct mesh m = {0};
    for (m.tp = 1; m.tp <= world; ++m.tp)
        for (m.cp = 1; m.tp * m.cp <= world; ++m.cp)
            for (m.pp = 1; m.tp * m.cp * m.pp <= world; ++m.pp)
                for (m.ep = 1; world % (m.tp * m.cp * m.pp) == 0 && m.ep <= world; ++m.ep)
                    for (m.etp = 1; m.ep * m.etp <= world; ++m.etp)
                        if (world % (m.ep * m.etp) == 0)
                            try_rest(b, m);
    qsort(b->times, (size_t)b->fitting, sizeof b->times[0], ascending);
}

/* A small space; its memory lies around what its fastest layout needs. */
static void draw(struct random *r, struct problem *p, struct geometry *g) {
    struct oracle_layout best;
    case_random(r, p, g, 1);
    p->layouts.allow_extrapolation = true;
    oracle_best_layout(p, g, &best);
    if (best.found)
        p->cluster.device.memory_bytes = best.peak_bytes * random_between(r, 0.5, 1.3);
}

static void as_by_hand(void **state) {
    (void)state;
    static struct brute b;
    struct random r = {501};
    struct problem p;
    struct geometry g;
    long listed = 0, empty = 0, full = 0;
    for (int i = 0; i < SPACES; ++i) {
        const size_t top = (size_t)random_int(&r, 1, 12);
        draw(&r, &p, &g);
        enumerate(&p, &g, &b);
        find(&p, &g, top, &list);
        const long want = b.fitting < (long)top ? b.fitting : (long)top;
        assert_int_equal(list.count, want);
        for (long k = 0; k < want; ++k)
            assert_close(list.items[k].step_time_s, b.times[k], 1e-12);
        const struct layout_counts *const c = &list.counts;
        assert_int_equal(c->meshes, b.legal);
        assert_int_equal(c->census.legal, b.legal);
        assert_int_equal(c->closed_by_memory + c->closed_by_bound + c->opened, b.legal);
        assert_true(list.solved <= b.fitting && list.solved >= want);
        assert_int_equal(list.status, want > 0 ? SEARCH_OPTIMAL : SEARCH_INFEASIBLE);
        listed += want;
        empty += want == 0 && b.legal > 0;
        full += want == (long)top && b.fitting > want;
    }
    assert_true(listed > 2 * SPACES && empty > 0 && full > SPACES / 4);
}

static void leanest_as_by_hand(void **state) {
    (void)state;
    static struct brute b;
    struct random r = {77};
    struct problem p;
    struct geometry g;
    int uneven = 0;
    for (int i = 0; i < SPACES; ++i) {
        struct leanest_layout lean;
        struct prediction prediction;
        draw(&r, &p, &g);
        enumerate(&p, &g, &b);
        leanest_layout_find(&p, &g, &lean);
        assert_int_equal(lean.found, b.legal > 0);
        if (!lean.found)
            continue;
        assert_close(lean.needed_bytes, b.least_bytes, 0.0);
        best_layout_predict(&p, &g, &lean.layout, &prediction, NULL);
        assert_close(prediction.memory.total, lean.needed_bytes, 0.0);
        struct split even;
        split_even(g.layers, lean.layout.mesh.pp, &even);
        uneven += memcmp(even.first, lean.layout.split.first,
                         (size_t)(even.stages + 1) * sizeof even.first[0]) != 0;
    }
    assert_true(uneven > 0);
}

/* ---- against plan ---- */

static void same_layout(const struct layout *a, const struct layout *b) {
    assert_int_equal(mesh_compare(&a->mesh, &b->mesh), 0);
    assert_int_equal(a->split.stages, b->split.stages);
    assert_memory_equal(a->split.first, b->split.first,
                        (size_t)(a->split.stages + 1) * sizeof a->split.first[0]);
}

/* Bit for bit, layout and time. */
static void first_is_plans(const struct problem *p, const struct geometry *g) {
    struct status_error err;
    struct best_layout best;
    struct layout_counts counts = {0};
    struct layout_scratch *const scratch = layout_scratch_new();
    assert_non_null(scratch);
    assert_int_equal(best_layout_find(scratch, p, g, &best, &counts, &err), MOSAIC_OK);
    layout_scratch_free(scratch);
    find(p, g, 1, &list);
    assert_int_equal(list.count > 0, best.found);
    if (!best.found)
        return;
    assert_true(list.items[0].step_time_s == best.step_time_s);
    same_layout(&list.items[0].layout, &best.layout);
}

static void plans_layout_first(void **state) {
    (void)state;
    static const char *const plans[] = {"configs/p6-b200-32n-20d.yaml",
                                        "configs/p6-b200-8n-10d.yaml",
                                        "configs/p6-b200-4n-5d.yaml"};
    static struct geometry items[ROOM];
    struct random r = {9};
    struct problem p;
    struct geometry g;
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; ++i) {
        case_load(plans[i], &p, items, ROOM);
        for (size_t k = 0; k < p.geometries.count; k += 1 + p.geometries.count / 40)
            first_is_plans(&p, &items[k]);
        p.layouts.vpp = (struct axis){.count = 3, .values = {1, 2, 4}};
        p.layouts.tp = p.layouts.cp = p.layouts.ep = (struct axis){.count = 0};
        for (size_t k = 0; k < p.geometries.count; k += 1 + p.geometries.count / 10)
            first_is_plans(&p, &items[k]);
        p.estimator = estimator_published();
        for (size_t k = 0; k < p.geometries.count; k += 1 + p.geometries.count / 10)
            first_is_plans(&p, &items[k]);
    }
    for (int i = 0; i < SPACES; ++i) {
        draw(&r, &p, &g);
        first_is_plans(&p, &g);
    }
}

/* An entry hangs neither on the length of the list nor on chance. */
static void entries_stand_alone(void **state) {
    (void)state;
    static struct geometry items[ROOM];
    struct problem p;
    struct prediction prediction;
    case_load("configs/p6-b200-32n-20d.yaml", &p, items, ROOM);
    for (size_t k = 0; k < p.geometries.count; k += 1 + p.geometries.count / 12) {
        find(&p, &items[k], LAYOUT_LIST_MAX, &list);
        find(&p, &items[k], 5, &other);
        assert_true(other.count == (list.count < 5 ? list.count : 5));
        for (size_t i = 0; i < list.count; ++i) {
            const struct listed_layout *const one = &list.items[i];
            best_layout_predict(&p, &items[k], &one->layout, &prediction, NULL);
            assert_true(prediction.step_time_s == one->step_time_s);
            assert_true(prediction.verdict != VERDICT_NO);
            if (i > 0)
                assert_true(one->step_time_s > one[-1].step_time_s ||
                            mesh_compare(&one[-1].layout.mesh, &one->layout.mesh) < 0);
            if (i < other.count) {
                assert_true(other.items[i].step_time_s == one->step_time_s);
                same_layout(&other.items[i].layout, &one->layout);
            }
        }
    }
}

/* ---- ends ---- */

struct stopping {
    atomic_bool stop;
};

static void stop_now(void *context, double done, double total) {
    struct stopping *const s = context;
    assert_true(done >= 0.0 && done < total);
    atomic_store(&s->stop, true);
}

static void stopped(void **state) {
    (void)state;
    static struct geometry items[ROOM];
    struct problem p;
    struct status_error err;
    struct stopping s;
    atomic_init(&s.stop, false);
    case_load("configs/p6-b200-32n-20d.yaml", &p, items, ROOM);
    const struct layout_list_options options = {
        .top = 50, .stop = &s.stop, .progress = stop_now, .progress_context = &s};
    const struct geometry *const g = &items[p.geometries.count / 2];
    assert_int_equal(layout_list_find(&p, g, &options, &list, &err), MOSAIC_OK);
    assert_int_equal(list.status, SEARCH_INTERRUPTED);
    assert_true(list.open > 0 && isfinite(list.open_bound_s));
    assert_int_equal(list.counts.opened + list.open + list.counts.closed_by_memory,
                     list.counts.meshes);
    find(&p, g, 50, &other);
    size_t known = 0;
    for (size_t i = 0; i < other.count; ++i) {
        if (known < list.count &&
            mesh_compare(&list.items[known].layout.mesh, &other.items[i].layout.mesh) == 0)
            known++;
        else
            assert_true(other.items[i].step_time_s >= list.open_bound_s);
    }
    assert_int_equal(known, list.count);
    /* Before anything is opened; and a study is quiet about what was not looked for. */
    struct layout_study *const study = malloc(sizeof *study);
    assert_non_null(study);
    p.geometries = (struct geometry_space){.count = 1, .items = items};
    assert_int_equal(layout_study_run(&p, &options, study, &err), MOSAIC_OK);
    assert_int_equal(study->list.status, SEARCH_INTERRUPTED);
    assert_int_equal(study->list.count, 0);
    assert_true(study->fewest.is_stopped && !study->leanest.found);
    free(study);
}

static void fewest_gpus(void **state) {
    (void)state;
    static struct geometry items[ROOM];
    static const int own[] = {32, 24, 6, 2};
    struct problem p;
    struct status_error err;
    struct fewest_gpus fewest;
    case_load("configs/p6-b200-32n-20d.yaml", &p, items, ROOM);
    long found = 0;
    for (size_t k = 0; k < p.geometries.count; k += 1 + p.geometries.count / 6)
        for (size_t i = 0; i < sizeof own / sizeof own[0]; ++i) {
            p.cluster.nodes = own[i];
            find(&p, &items[k], 1, &list);
            const int also = i % 2 ? 0 : 5;
            assert_int_equal(fewest_gpus_find(&p, &items[k], &list, also, NULL, &fewest, &err),
                             MOSAIC_OK);
            assert_true(list.count == 0 || (fewest.nodes > 0 && fewest.nodes <= own[i]));
            for (int t = 0; t < fewest.count; ++t) {
                struct problem less = p;
                const int nodes = less.cluster.nodes = fewest.tries[t].nodes;
                assert_true((nodes & (nodes - 1)) == 0 || nodes == own[i] || nodes == also);
                assert_true(t == 0 || nodes > fewest.tries[t - 1].nodes);
                find(&less, &items[k], 1, &other);
                assert_int_equal(fewest.tries[t].outcome == FEWEST_FITS, other.count > 0);
                assert_int_equal(fewest.tries[t].outcome == FEWEST_ILLEGAL,
                                 other.counts.meshes == 0);
                if (other.count > 0) {
                    assert_int_equal(t, fewest.count - 1);
                    assert_int_equal(nodes, fewest.nodes);
                    assert_true(other.items[0].step_time_s == fewest.best.step_time_s);
                    found++;
                }
            }
        }
    assert_true(found > 10);
}

/* A 671e9-parameter model on eight 80 GB GPUs. */
static void too_large(void **state) {
    (void)state;
    static struct geometry items[ROOM];
    struct problem p;
    struct status_error err;
    const struct layout_list_options options = {.top = 3};
    struct layout_study *const study = malloc(sizeof *study);
    assert_non_null(study);
    case_load("configs/examples/impossible.yaml", &p, items, ROOM);
    assert_int_equal(layout_study_run(&p, &options, study, &err), MOSAIC_OK);
    assert_int_equal(study->list.status, SEARCH_INFEASIBLE);
    assert_int_equal(study->shortfall.limit, SHORTFALL_MEMORY);
    assert_true(study->leanest.found && study->leanest.needed_bytes > 6.0 * 671e9 / 8.0);
    assert_close(study->shortfall.needed_bytes, study->leanest.needed_bytes, 0.0);
    assert_true(study->shortfall.gpus_needed >= 142);
    /* One answer, whoever asks. */
    assert_int_equal(study->fewest.nodes * 8, study->shortfall.gpus_needed);
    free(study);
}

static void refusals(void **state) {
    (void)state;
    static struct geometry items[ROOM];
    struct problem p;
    struct status_error err;
    struct layout_study *const study = malloc(sizeof *study);
    assert_non_null(study);
    case_load("configs/p6-b200-4n-5d.yaml", &p, items, ROOM);
    struct layout_list_options options = {.top = 3};
    assert_int_equal(layout_study_run(&p, &options, study, &err), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "models"));
    assert_non_null(strstr(err.hint, "--model"));
    options.top = 0;
    assert_int_equal(layout_list_find(&p, items, &options, &list, &err), MOSAIC_USAGE);
    options.top = LAYOUT_LIST_MAX + 1;
    assert_int_equal(layout_list_find(&p, items, &options, &list, &err), MOSAIC_USAGE);
    free(study);
}

/* ---- the public call ---- */

static void run_layout(struct run *r, const char *model, long top, enum mosaic_status want) {
    *r = (struct run){.session = mosaic_new()};
    assert_non_null(r->session);
    assert_int_equal(mosaic_set(r->session, "model", model), MOSAIC_OK);
    assert_int_equal(mosaic_load(r->session, "configs/p6-b200-32n-20d.yaml", &r->document),
                     MOSAIC_OK);
    assert_int_equal(mosaic_layout(r->session, r->document, top, &r->result), want);
}

static void as_plan_says(void **state) {
    (void)state;
    struct run r;
    struct mosaic_result *plan = NULL;
    double step_time_s;
    run_layout(&r, "configs/models/mosaic-table4.yaml", 4, MOSAIC_OK);
    assert_int_equal(mosaic_plan(r.session, r.document, NULL, &plan), MOSAIC_OK);
    assert_int_equal(mosaic_result_number(plan, "best.prediction.step_time_s", &step_time_s),
                     MOSAIC_OK);
    assert_true(step_time_s == number(&r, "layouts[0].prediction.step_time_s"));
    assert_true(step_time_s == number(&r, "layouts[0].step_time_s"));
    assert_int_equal(mosaic_result_length(r.result, "layouts"), 4);
    assert_close(number(&r, "layouts[3].against_best.step_time_s"),
                 number(&r, "layouts[3].step_time_s") - step_time_s, 1e-12);
    assert_close(number(&r, "layouts[3].share_of_best") * number(&r, "layouts[3].step_time_s"),
                 step_time_s, 1e-12);
    assert_null(mosaic_result_string(r.result, "layouts[0].why_not"));
    assert_non_null(strstr(mosaic_result_string(r.result, "layouts[1].why_not"), "slower: "));
    mosaic_result_free(plan);
    end(&r);
}

static void fits_the_page(void **state) {
    (void)state;
    static const char *const models[] = {"configs/models/mosaic-table4.yaml",
                                         "tests/hf/deepseek-v3.json", "tests/hf/llama-3-8b.json"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; ++i) {
        struct run r;
        char *text = NULL;
        size_t size = 0;
        run_layout(&r, models[i], 10, MOSAIC_OK);
        FILE *const stream = open_memstream(&text, &size);
        assert_non_null(stream);
        assert_int_equal(mosaic_result_write(r.result, MOSAIC_TABLE, 100, stream), MOSAIC_OK);
        assert_int_equal(fclose(stream), 0);
        assert_non_null(strstr(text, "Why not the others"));
        for (const char *at = text; *at; at += strcspn(at, "\n") + 1)
            if (strcspn(at, "\n") > 100)
                fail_msg("%.*s", (int)strcspn(at, "\n"), at);
        free(text);
        end(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_by_hand),
        cmocka_unit_test(leanest_as_by_hand),
        cmocka_unit_test(plans_layout_first),
        cmocka_unit_test(entries_stand_alone),
        cmocka_unit_test(stopped),
        cmocka_unit_test(fewest_gpus),
        cmocka_unit_test(too_large),
        cmocka_unit_test(refusals),
        cmocka_unit_test(as_plan_says),
        cmocka_unit_test(fits_the_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
