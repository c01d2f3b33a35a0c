// SPDX-License-Identifier: GPL-3.0-or-later
/* The jobs of a probe that lists its shapes: those and no other, whatever the level. */
#include "close.h"

#include "measure/job_recorded.h"

#include <string.h>

#define HELLO(shapes)                                                                              \
    "{\"protocol\": \"mosaic-probe/1\", \"probe\": \"p\", \"device\": {\"name\": \"B200\"}, "      \
    "\"quantities\": [\"stream\", \"gemm\"]" shapes "}"
#define STREAM "{\"quantity\": \"stream\", \"op\": \"copy\", \"bytes\": 4096}"
#define GEMM                                                                                       \
    "{\"quantity\": \"gemm\", \"dtype\": \"bf16\", \"pass\": \"forward\", \"m\": 7, \"n\": 8, "    \
    "\"k\": 9}"

static bool has_shapes(const char *text) {
    struct status_error err;
    struct probe_hello hello;
    assert_int_equal(protocol_hello(text, strlen(text), &hello, &err), MOSAIC_OK);
    const bool has = job_recorded_has(&hello);
    protocol_hello_free(&hello);
    return has;
}

static enum mosaic_status list_of(const char *text, struct job_list *list,
                                  struct status_error *err) {
    struct probe_hello hello;
    assert_int_equal(protocol_hello(text, strlen(text), &hello, err), MOSAIC_OK);
    assert_true(job_recorded_has(&hello));
    const enum mosaic_status status = job_recorded_make(&hello, list, err);
    protocol_hello_free(&hello);
    return status;
}

static void the_shapes_are_the_jobs(void **state) {
    (void)state;
    struct status_error err;
    struct job_list list;
    assert_int_equal(
        list_of(HELLO(", \"shapes\": [" STREAM ", " GEMM ", " STREAM "]"), &list, &err), MOSAIC_OK);
    assert_int_equal(list.count, 2);
    assert_int_equal(list.jobs[0].keys.quantity, SAMPLE_STREAM);
    assert_int_equal(list.jobs[1].keys.quantity, SAMPLE_GEMM);
    assert_int_equal(sample_value(&list.jobs[1].keys, "k"), 9);
    assert_int_equal(list.jobs[1].kind, JOB_LOCAL);
    job_list_free(&list);
}

static void without_a_list_there_are_none(void **state) {
    (void)state;
    assert_false(has_shapes(HELLO("")));
    assert_false(has_shapes(HELLO(", \"shapes\": \"recorded\"")));
    assert_false(has_shapes(HELLO(", \"shapes\": []")));
}

static void a_shape_that_is_none_is_refused(void **state) {
    (void)state;
    struct status_error err;
    struct job_list list;
    assert_int_equal(
        list_of(HELLO(", \"shapes\": [" STREAM ", {\"quantity\": \"gem\"}]"), &list, &err),
        MOSAIC_BAD_INPUT);
    assert_non_null(strstr(err.message, "a shape that the probe lists"));
    assert_non_null(strstr(err.message, "gem"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_shapes_are_the_jobs),
                                       cmocka_unit_test(without_a_list_there_are_none),
                                       cmocka_unit_test(a_shape_that_is_none_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
