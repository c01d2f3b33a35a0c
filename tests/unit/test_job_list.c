// SPDX-License-Identifier: GPL-3.0-or-later
/* What is asked of a processor, a GPU and a team; order, budget, partners. */
#include "close.h"

#include "measure/job_list.h"

#include <stdio.h>
#include <string.h>

#define EVERYTHING                                                                                 \
    "\"gemm\",\"grouped_gemm\",\"attention\",\"elementwise\",\"stream\",\"sustained\",\"launch\"," \
    "\"host_copy\",\"adamw\",\"ring_strip\",\"collective\",\"overlap\",\"moe_layer\""

static void hello_of(struct probe_hello *out, const char *peaks, double memory, int devices,
                     const char *quantities) {
    char line[2048];
    struct status_error err;
    (void)snprintf(line, sizeof line,
                   "{\"protocol\":\"mosaic-probe/1\",\"probe\":\"x\",\"version\":\"1\",\"device\":"
                   "{\"name\":\"d\",\"count\":%d,\"memory_bytes\":%.0f,\"peak_flop_per_s\":{%s}},"
                   "\"quantities\":[%s]}",
                   devices, memory, peaks, quantities);
    assert_int_equal(protocol_hello(line, strlen(line), out, &err), MOSAIC_OK);
}

static void b200(struct probe_hello *out) {
    hello_of(out, "\"bf16\":2.25e15,\"fp8\":4.5e15,\"mxfp8\":4.5e15,\"nvfp4\":9e15,\"fp32\":8e13",
             1.9e11, 1, EVERYTHING);
}

static void processor(struct probe_hello *out) {
    hello_of(out, "\"fp32\":6e10", 4e9, 4, EVERYTHING);
}

static struct job_list list_of(const struct job_scope *scope) {
    struct job_list list;
    struct status_error err = {0};
    const enum mosaic_status status = job_list_make(scope, &list, &err);
    if (status != MOSAIC_OK)
        fail_msg("%s", err.message);
    return list;
}

static size_t count_of(const struct job_list *list, enum sample_quantity quantity) {
    size_t count = 0;
    for (size_t i = 0; i < list->count; ++i)
        count += list->jobs[i].keys.quantity == quantity;
    return count;
}

/* Every level of every device: within its budget, each job once, most useful first, deterministic,
 * no size that does not fit. */
static void test_levels(void **state) {
    (void)state;
    for (int device = 0; device < 2; ++device) {
        struct probe_hello hello;
        size_t last = 0;
        (device ? b200 : processor)(&hello);
        for (int level = 0; level < JOB_LEVELS; ++level) {
            const struct job_scope scope = {
                .level = (enum job_level)level, .hello = &hello, .ranks = 1};
            struct job_list list = list_of(&scope), again = list_of(&scope);
            assert_int_equal(list.count, again.count);
            double seconds = 0.0;
            for (size_t i = 0; i < list.count; ++i) {
                const struct job *const job = &list.jobs[i];
                assert_int_equal(sample_compare_keys(&job->keys, &again.jobs[i].keys), 0);
                assert_true(i == 0 || job->wave >= list.jobs[i - 1].wave);
                assert_true(job->rounds >= 5 && job->seconds > 0.0 && job->kind == JOB_LOCAL);
                seconds += job->seconds;
                for (size_t k = 0; k < i; ++k)
                    assert_int_not_equal(sample_compare_keys(&job->keys, &list.jobs[k].keys), 0);
            }
            assert_close(seconds, list.seconds, 1e-9);
            assert_true(seconds <= job_level_budget_s((enum job_level)level));
            assert_true(list.count > last);
            last = list.count;
            /* Each quantity has its part, however short the time. */
            const int quantities = level == JOB_FULL ? SAMPLE_QUANTITIES : SAMPLE_MOE_LAYER;
            for (int q = 0; q < quantities; ++q)
                if ((q != SAMPLE_COLLECTIVE && q != SAMPLE_OVERLAP && q != SAMPLE_MOE_LAYER) ||
                    device == 0)
                    if (count_of(&list, (enum sample_quantity)q) == 0)
                        fail_msg("%s: no %s", job_level_words[level],
                                 sample_kind((enum sample_quantity)q)->name);
            if (device == 1 && level > 0)
                assert_true(count_of(&list, SAMPLE_COLLECTIVE) == 0); /* one GPU */
            print_message("%s %s: %zu jobs, %.0f s, %zu too long, %zu too large, %zu beyond\n",
                          device ? "gpu" : "processor", job_level_words[level], list.count,
                          list.seconds, list.too_long, list.too_large, list.beyond);
            job_list_free(&list);
            job_list_free(&again);
        }
        protocol_hello_free(&hello);
    }
}

static bool has(const struct job_list *list, const char *keys) {
    char text[512];
    for (size_t i = 0; i < list->count; ++i) {
        (void)sample_print_keys(&list->jobs[i].keys, text, sizeof text);
        if (strstr(text, keys))
            return true;
    }
    return false;
}

static void test_dtypes(void **state) {
    struct probe_hello hello;
    (void)state;
    b200(&hello);
    assert_string_equal(job_base_dtype(&hello), "bf16");
    const struct job_scope scope = {.level = JOB_FULL, .hello = &hello, .ranks = 1};
    struct job_list list = list_of(&scope);
    assert_true(has(&list, "\"gemm\", \"dtype\": \"nvfp4\", \"pass\": \"backward_weight\""));
    assert_true(has(&list, "\"gemm\", \"dtype\": \"fp8_block\""));
    assert_true(has(&list, "\"grouped_gemm\", \"dtype\": \"bf16\", \"pass\": \"backward_data\""));
    assert_true(has(&list, "\"attention\", \"dtype\": \"bf16\", \"pass\": \"backward\""));
    job_list_free(&list);
    protocol_hello_free(&hello);
    processor(&hello);
    assert_string_equal(job_base_dtype(&hello), "fp32");
    const struct job_scope small = {.level = JOB_FULL, .hello = &hello, .ranks = 1};
    list = list_of(&small);
    assert_false(has(&list, "\"bf16\""));
    assert_false(has(&list, "\"m\": 16384, \"n\": 16384"));
    job_list_free(&list);
    protocol_hello_free(&hello);
}

/* What tells the rate of large products from the half size is in every quick list, in the numbers
 * of the device; a GPU whose peak nobody knows is no small one. */
static void test_products(void **state) {
    static const char large[] = "\"m\": 8192, \"n\": 8192, \"k\": 8192";
    static const struct {
        const char *peaks, *corners[5];
        double memory;
    } devices[] = {{"\"fp32\":6e10",
                    {"\"gemm\", \"dtype\": \"fp32\", \"pass\": \"forward\", \"m\": 1024, \"n\": "
                     "1024, \"k\": 1024",
                     "\"m\": 32, \"n\": 1024, \"k\": 1024", "\"m\": 1024, \"n\": 32, \"k\": 1024",
                     "\"m\": 1024, \"n\": 1024, \"k\": 32", "\"m\": 64, \"n\": 64, \"k\": 64"},
                    4e9},
                   {"",
                    {"\"gemm\", \"dtype\": \"bf16\", \"pass\": \"forward\", \"m\": 8192, \"n\": "
                     "8192, \"k\": 8192",
                     "\"m\": 128, \"n\": 8192, \"k\": 8192", "\"m\": 8192, \"n\": 128, \"k\": 8192",
                     "\"m\": 8192, \"n\": 8192, \"k\": 128", "\"m\": 256, \"n\": 256, \"k\": 256"},
                    8e10}};
    (void)state;
    for (size_t d = 0; d < sizeof devices / sizeof *devices; ++d) {
        struct probe_hello hello;
        hello_of(&hello, devices[d].peaks, devices[d].memory, 1, EVERYTHING);
        const struct job_scope scope = {.level = JOB_QUICK, .hello = &hello, .ranks = 1};
        struct job_list list = list_of(&scope);
        for (size_t i = 0; i < 5; ++i)
            if (!has(&list, devices[d].corners[i]))
                fail_msg("no %s", devices[d].corners[i]);
        assert_true(list.seconds <= job_level_budget_s(JOB_QUICK) && list.beyond == 0);
        if (d == 1)
            assert_true(has(&list, "\"sustained\", \"dtype\": \"bf16\", \"m\": 8192"));
        job_list_free(&list);
        protocol_hello_free(&hello);
    }
    /* The data sheet of a device that the probe tells no peak of. */
    struct probe_hello hello;
    const struct device slow = {.peak_flop_per_s = {[PRECISION_BF16] = 2e12}};
    hello_of(&hello, "", 8e10, 1, EVERYTHING);
    const struct job_scope scope = {
        .level = JOB_QUICK, .hello = &hello, .device = &slow, .ranks = 1};
    struct job_list list = list_of(&scope);
    assert_false(has(&list, large));
    job_list_free(&list);
    protocol_hello_free(&hello);
}

/* Where a team, or the time, is short each kind of collective has a large size first. */
static void test_collectives_take_turns(void **state) {
    static const char *const kinds[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"};
    struct probe_hello hello;
    (void)state;
    processor(&hello);
    const struct job_scope scope = {.level = JOB_QUICK, .hello = &hello, .ranks = 1};
    struct job_list list = list_of(&scope);
    size_t found = 0;
    for (size_t i = 0; i < list.count && found < 4; ++i) {
        char text[512];
        (void)sample_print_keys(&list.jobs[i].keys, text, sizeof text);
        if (list.jobs[i].keys.quantity != SAMPLE_COLLECTIVE)
            continue;
        assert_non_null(strstr(text, kinds[found++]));
        assert_non_null(strstr(text, "\"bytes\": 16777216"));
    }
    assert_int_equal(found, 4);
    /* A layer alone and one that ranks share: held-out truth, forward and backward. */
    assert_true(has(&list, "\"moe_layer\"") && has(&list, "\"ranks\": 1, \"pass\": \"backward\"") &&
                has(&list, "\"ranks\": 4, \"pass\": \"backward\""));
    job_list_free(&list);
    protocol_hello_free(&hello);
}

/* Nothing that the probe cannot, and an honest end where it can little. */
static void test_quantities(void **state) {
    struct probe_hello hello;
    (void)state;
    hello_of(&hello, "", 0.0, 1, "\"stream\",\"launch\"");
    const struct job_scope scope = {.level = JOB_FULL, .hello = &hello, .ranks = 1};
    struct job_list list = list_of(&scope);
    assert_int_equal(list.count, count_of(&list, SAMPLE_STREAM) + count_of(&list, SAMPLE_LAUNCH));
    assert_true(list.count > 0);
    job_list_free(&list);
    const struct job_scope short_one = {
        .level = JOB_FULL, .hello = &hello, .ranks = 1, .budget_s = 1.0};
    list = list_of(&short_one);
    assert_true(list.seconds <= 1.0 && list.beyond > 0 && list.count > 0);
    job_list_free(&list);
    protocol_hello_free(&hello);
}

static void test_team(void **state) {
    struct probe_hello hello;
    (void)state;
    b200(&hello);
    const struct job_scope scope = {
        .level = JOB_DEFAULT, .hello = &hello, .ranks = 16, .ranks_per_domain = 8};
    struct job_list list = list_of(&scope);
    size_t pairs = 0, groups = 0;
    for (size_t i = 0; i < list.count; ++i) {
        const struct job *const job = &list.jobs[i];
        pairs += job->kind == JOB_PAIRS;
        groups += job->kind == JOB_GROUP;
        if (job->kind == JOB_GROUP)
            assert_true((job->ranks - 1) * job->stride < 16);
    }
    assert_true(pairs >= 7 && groups > 20);
    assert_true(has(&list, "\"all_to_all\", \"ranks\": 16, \"ranks_per_domain\": 8"));
    assert_true(has(&list, "\"all_reduce\", \"ranks\": 2, \"ranks_per_domain\": 1"));
    assert_true(has(&list, "\"all_gather\", \"ranks\": 8, \"ranks_per_domain\": 8"));
    assert_true(has(&list, "\"point_to_point\", \"ranks\": 2, \"ranks_per_domain\": 2"));
    job_list_free(&list);
    protocol_hello_free(&hello);
}

/* Rounds of partners: everybody has one, both agree, and all meet once. */
static void test_partners(void **state) {
    (void)state;
    for (int places = 1; places <= 17; ++places) {
        int met[17][17] = {{0}};
        const int rounds = job_pair_rounds(places);
        for (int round = 0; round < rounds; ++round) {
            int idle = 0;
            for (int i = 0; i < places; ++i) {
                const int other = job_pair_of(i, round, places);
                idle += other < 0;
                if (other < 0)
                    continue;
                assert_true(other < places && other != i);
                assert_int_equal(job_pair_of(other, round, places), i);
                met[i][other]++;
            }
            assert_int_equal(idle, places % 2);
        }
        for (int i = 0; i < places; ++i)
            for (int k = 0; k < places; ++k)
                assert_int_equal(met[i][k], i != k);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),     cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_products),   cmocka_unit_test(test_collectives_take_turns),
        cmocka_unit_test(test_quantities), cmocka_unit_test(test_team),
        cmocka_unit_test(test_partners)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
