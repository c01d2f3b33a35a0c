// SPDX-License-Identifier: GPL-3.0-or-later
/* Certificates are accepted by a checker of their own, and doctored ones are not. */
#include "close.h"

#include "certificate.h"
#include "mosaic.h"
#include "plan_run.h"

#include <jansson.h>
#include <string.h>

static const char *const small[][2] = {
    {"search.geometry.q", "[8, 10, 12, 14, 16]"},
    {"search.geometry.experts", "[8, 16, 48, 128, 256]"},
    {"search.geometry.top_k", "[1, 2, 4]"},
    {"search.geometry.granularity", "[1, 2, 4, 8]"},
    {"search.layout.micro_batch", "[1, 2]"},
    {"search.layout.pp", "[2, 8]"},
};
enum { SMALL = sizeof small / sizeof *small };

static char *certificate_of(const char *const (*overrides)[2], size_t count,
                            const char *const *settings) {
    struct run r = {.session = mosaic_new()};
    char *text = NULL;
    for (size_t i = 0; i < count; ++i)
        assert_int_equal(mosaic_set(r.session, overrides[i][0], overrides[i][1]), MOSAIC_OK);
    assert_int_equal(mosaic_load(r.session, "configs/p6-b200-32n-20d.yaml", &r.document),
                     MOSAIC_OK);
    assert_int_equal(mosaic_plan(r.session, r.document, settings, &r.result), MOSAIC_OK);
    text = strdup(mosaic_result_string(r.result, "document"));
    assert_non_null(text);
    end(&r);
    return text;
}

static const char *const plain[] = {"certificate=on", NULL};

static void accepts(const char *text, struct certificate_check *got) {
    certificate_check(text, got);
    if (!got->accepted)
        fail_msg("refused: %s", got->reason);
}

static void the_small_space(void **state) {
    (void)state;
    struct certificate_check got;
    char *const text = certificate_of(small, SMALL, plain);
    accepts(text, &got);
    print_message("%zu geometries, %zu meshes: %zu off by their bound, %zu by all splits\n",
                  got.geometries, got.meshes, got.closed_by_bound, got.closed_by_splits);
    assert_true(got.geometries > 20 && got.closed_by_bound > 500 && got.closed_by_splits > 5);
    free(text);
}

/* The paper's own space, whole. */
static void the_papers_space(void **state) {
    (void)state;
    struct certificate_check got;
    char *const text = certificate_of(NULL, 0, plain);
    accepts(text, &got);
    print_message("%zu geometries, %zu meshes: %zu off by their bound, %zu by all splits\n",
                  got.geometries, got.meshes, got.closed_by_bound, got.closed_by_splits);
    assert_int_equal(got.geometries, 843);
    free(text);
}

/* Stopped early, it says how far off it may be. */
static void a_search_that_stopped(void **state) {
    (void)state;
    static const char *const settings[] = {"certificate=on", "geometry_limit=6", NULL};
    struct certificate_check got;
    char *const text = certificate_of(small, SMALL, settings);
    assert_non_null(strstr(text, "\"status\": \"limit\""));
    assert_non_null(strstr(text, "\"end\": \"open\""));
    accepts(text, &got);
    free(text);
}

static void targets(void **state) {
    (void)state;
    static const char *const words[] = {"time", "cost"};
    for (size_t i = 0; i < 2; ++i) {
        const char *overrides[SMALL + 2][2];
        memcpy(overrides, small, sizeof small);
        overrides[SMALL][0] = "budget";
        overrides[SMALL][1] = "{target_loss: 1.45, days: 60, goodput: 0.9}";
        overrides[SMALL + 1][0] = "objective";
        overrides[SMALL + 1][1] = words[i];
        struct certificate_check got;
        char *const text = certificate_of((const char *const(*)[2])overrides, SMALL + 2, plain);
        accepts(text, &got);
        free(text);
    }
}

/* ---- doctored ---- */

static json_t *entries_of(json_t *root) {
    return json_object_get(root, "geometries");
}

static json_t *find(json_t *root, const char *end, size_t skip) {
    json_t *const list = entries_of(root);
    for (size_t i = 0; i < json_array_size(list); ++i) {
        json_t *const entry = json_array_get(list, i);
        if (strcmp(json_string_value(json_object_get(entry, "end")), end) == 0 && skip-- == 0)
            return entry;
    }
    fail_msg("no geometry is '%s'", end);
    return NULL;
}

static json_t *best_of(json_t *root) {
    json_t *const at = json_object_get(json_object_get(root, "best"), "index");
    return json_array_get(entries_of(root), (size_t)json_integer_value(at));
}

static void scale(json_t *object, const char *key, double factor) {
    const double value = json_number_value(json_object_get(object, key));
    assert_int_equal(json_object_set_new(object, key, json_real(value * factor)), 0);
}

static void left_out(json_t *root) {
    assert_int_equal(json_array_remove(entries_of(root), 3), 0);
}
static void doubled(json_t *root) {
    json_t *const copy = json_deep_copy(json_array_get(entries_of(root), 2));
    assert_int_equal(json_array_set_new(entries_of(root), 3, copy), 0);
}
static void other_shape(json_t *root) {
    json_t *const shape = json_object_get(best_of(root), "geometry");
    assert_int_equal(json_object_set_new(shape, "hidden", json_integer(4352)), 0);
}
static void faster(json_t *root) {
    scale(best_of(root), "step_time_s", 0.999);
}
static void less_loss(json_t *root) {
    json_t *const best = best_of(root);
    scale(best, "loss", 0.9999);
    scale(best, "score", 0.9999);
    scale(json_object_get(root, "best"), "score", 0.9999);
}
static void more_tokens(json_t *root) {
    scale(best_of(root), "tokens", 1.001);
}
/* The least score but the best. */
static void second_best(json_t *root) {
    json_t *taken = NULL;
    double least = 1e300;
    for (size_t i = 0; i < json_array_size(entries_of(root)); ++i) {
        json_t *const entry = json_array_get(entries_of(root), i);
        const json_t *const score = json_object_get(entry, "score");
        if (entry == best_of(root) || !score || json_number_value(score) >= least)
            continue;
        least = json_number_value(score);
        taken = entry;
    }
    json_t *const best = json_object_get(root, "best");
    (void)json_object_set(best, "index", json_object_get(taken, "index"));
    (void)json_object_set(best, "score", json_object_get(taken, "score"));
}
/* The winner hidden behind a bound that it does not have. */
static void hidden_winner(json_t *root) {
    json_t *const best = best_of(root);
    second_best(root);
    static const char *const gone[] = {"layout", "step_time_s", "tokens", "loss", "score"};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; ++i)
        (void)json_object_del(best, gone[i]);
    (void)json_object_set_new(best, "end", json_string("loss_bound"));
    scale(best, "bound_s", 3.0);
    scale(best, "score_bound", 1.1);
}
static void tighter_bound(json_t *root) {
    scale(find(root, "loss_bound", 0), "bound_s", 1.01);
}
static void tighter_score(json_t *root) {
    scale(find(root, "loss_bound", 1), "score_bound", 1.0001);
}
static void no_memory(json_t *root) {
    json_t *const entry = find(root, "loss_bound", 0);
    (void)json_object_set_new(entry, "end", json_string("memory_bound"));
    (void)json_object_del(entry, "bound_s");
    (void)json_object_del(entry, "score_bound");
}
static void fewer_meshes(json_t *root) {
    json_t *const entry = find(root, "loss_bound", 0);
    const json_int_t meshes = json_integer_value(json_object_get(entry, "meshes"));
    (void)json_object_set_new(entry, "meshes", json_integer(meshes - 1));
}
static void left_open(json_t *root) {
    (void)json_object_set_new(find(root, "loss_bound", 0), "end", json_string("open"));
}
static void other_layout(json_t *root) {
    json_t *const layout = json_object_get(best_of(root), "layout");
    (void)json_object_set_new(layout, "recompute", json_string("full"));
}
static void illegal_layout(json_t *root) {
    json_t *const layout = json_object_get(best_of(root), "layout");
    (void)json_object_set_new(layout, "tp", json_integer(3));
}
static void other_file(json_t *root) {
    json_t *const inputs = json_object_get(json_object_get(root, "provenance"), "inputs");
    (void)json_object_set_new(json_array_get(inputs, 1), "sha256", json_string("00"));
}
static void other_plan(json_t *root) {
    json_t *const overrides = json_object_get(json_object_get(root, "provenance"), "overrides");
    (void)json_array_append_new(overrides,
                                json_pack("{s:s, s:s}", "key", "budget.days", "value", "19"));
}

static void refuses(const char *text, void (*doctor)(json_t *), size_t at) {
    struct certificate_check got;
    json_t *const root = json_loads(text, 0, NULL);
    assert_non_null(root);
    doctor(root);
    char *const changed = json_dumps(root, JSON_REAL_PRECISION(17));
    certificate_check(changed, &got);
    print_message("doctored %zu: %s\n", at + 1, got.accepted ? "ACCEPTED" : got.reason);
    assert_false(got.accepted);
    free(changed);
    json_decref(root);
}

static void doctored_ones_are_refused(void **state) {
    (void)state;
    static void (*const doctors[])(json_t *) = {
        left_out,    doubled,       other_shape,    faster,        less_loss, more_tokens,
        second_best, hidden_winner, tighter_bound,  tighter_score, no_memory, fewer_meshes,
        left_open,   other_layout,  illegal_layout, other_file,    other_plan};
    char *const text = certificate_of(small, SMALL, plain);
    for (size_t i = 0; i < sizeof doctors / sizeof *doctors; ++i)
        refuses(text, doctors[i], i);
    free(text);
}

/* ---- measured steps ---- */

static const char measured_path[] = "build/test_certificate_steps.csv";

/* The shortlist of the small space, each layout at a factor of what is predicted, one of them run
 * twice. */
static void write_steps(void) {
    static const double factors[] = {1.12, 0.97, 1.05, 1.2, 0.9};
    struct run r = {.session = mosaic_new()};
    FILE *const file = fopen(measured_path, "w");
    assert_non_null(file);
    assert_true(fputs("id,step_time_s\n", file) >= 0);
    for (size_t i = 0; i < SMALL; ++i)
        assert_int_equal(mosaic_set(r.session, small[i][0], small[i][1]), MOSAIC_OK);
    assert_int_equal(mosaic_load(r.session, "configs/p6-b200-32n-20d.yaml", &r.document),
                     MOSAIC_OK);
    assert_int_equal(mosaic_plan(r.session, r.document, NULL, &r.result), MOSAIC_OK);
    char path[64];
    const char *id;
    size_t count = 0;
    for (; count < 5; ++count) {
        (void)snprintf(path, sizeof path, "shortlist[%zu].id", count);
        id = mosaic_result_string(r.result, path);
        if (!id)
            break;
        (void)snprintf(path, sizeof path, "shortlist[%zu].step_time_s", count);
        const double measured_s = number(&r, path) * factors[count];
        (void)snprintf(path, sizeof path, "shortlist[%zu].id", count);
        assert_true(fprintf(file, "%s,%.17g\n", id, measured_s) > 0);
        if (count == 1)
            assert_true(fprintf(file, "%s,%.17g\n", id, 1.01 * measured_s) > 0);
    }
    assert_true(count >= 2);
    assert_int_equal(fclose(file), 0);
    end(&r);
}

static json_t *of_measured(json_t *root, const char *list, size_t i) {
    return json_array_get(json_object_get(json_object_get(root, "measured"), list), i);
}
static void no_steps(json_t *root) {
    (void)json_object_del(root, "measured");
}
static void other_factor(json_t *root) {
    scale(of_measured(root, "factors", 0), "log_factor", 1.0001);
}
static void faster_steps(json_t *root) {
    scale(of_measured(root, "layouts", 0), "step_time_s", 0.99);
}
static void fewer_steps(json_t *root) {
    (void)json_object_set_new(of_measured(root, "layouts", 1), "steps", json_integer(1));
}
static void step_left_out(json_t *root) {
    json_t *const layouts = json_object_get(json_object_get(root, "measured"), "layouts");
    assert_int_equal(json_array_remove(layouts, 1), 0);
}
static void no_factor(json_t *root) {
    json_t *const factors = json_object_get(json_object_get(root, "measured"), "factors");
    assert_int_equal(json_array_clear(factors), 0);
}
static void other_table(json_t *root) {
    json_t *const measured = json_object_get(root, "measured");
    (void)json_object_set_new(measured, "sha256", json_string("00"));
}
static void measured_elsewhere(json_t *root) {
    json_t *const layout = json_object_get(of_measured(root, "layouts", 0), "layout");
    (void)json_object_set_new(layout, "pp", json_integer(4));
}

/* The certificate carries what moves the steps, and the checker derives it anew. */
static void measured_steps(void **state) {
    (void)state;
    static const char *const settings[] = {"certificate=on",
                                           "measured=build/test_certificate_steps.csv", NULL};
    static void (*const doctors[])(json_t *) = {
        no_steps,    other_factor,       faster_steps,  fewer_steps,   step_left_out, no_factor,
        other_table, measured_elsewhere, hidden_winner, tighter_bound, faster};
    write_steps();
    struct certificate_check got;
    char *const before = certificate_of(small, SMALL, plain);
    char *const text = certificate_of(small, SMALL, settings);
    assert_null(strstr(before, "\"measured\""));
    assert_non_null(strstr(text, "\"log_factor\""));
    accepts(text, &got);
    for (size_t i = 0; i < sizeof doctors / sizeof *doctors; ++i)
        refuses(text, doctors[i], i);
    (void)remove(measured_path);
    certificate_check(text, &got);
    assert_false(got.accepted);
    free(text);
    free(before);
}

static void same_on_any_threads(void **state) {
    (void)state;
    struct run r = {.session = mosaic_new()};
    char *texts[2];
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(mosaic_set_threads(r.session, i + 1), MOSAIC_OK);
        assert_int_equal(mosaic_load(r.session, "configs/p6-b200-4n-5d.yaml", &r.document),
                         MOSAIC_OK);
        assert_int_equal(mosaic_plan(r.session, r.document, plain, &r.result), MOSAIC_OK);
        texts[i] = strdup(mosaic_result_string(r.result, "document"));
        mosaic_result_free(r.result);
        mosaic_document_free(r.document);
    }
    assert_string_equal(texts[0], texts[1]);
    free(texts[0]);
    free(texts[1]);
    mosaic_free(r.session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_small_space),           cmocka_unit_test(the_papers_space),
        cmocka_unit_test(a_search_that_stopped),     cmocka_unit_test(targets),
        cmocka_unit_test(doctored_ones_are_refused), cmocka_unit_test(measured_steps),
        cmocka_unit_test(same_on_any_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
