// SPDX-License-Identifier: GPL-3.0-or-later
/* Samples: every quantity printed and read back, and each way in which a line can be wrong. */
#include "close.h"
#include "machine/sample.h"

#include <stdio.h>
#include <string.h>

#define GEMM                                                                                       \
    "\"quantity\": \"gemm\", \"dtype\": \"bf16\", \"pass\": \"forward\", \"m\": 4096, \"n\": "     \
    "512, \"k\": 64"
#define TIMES                                                                                      \
    "\"time_s\": {\"median\": 1e-4, \"least\": 9e-5, \"most\": 2e-4}, \"rounds\": 9, "             \
    "\"verified\": true"

static enum mosaic_status parse(const char *line, struct sample *s, struct status_error *err) {
    static const char *const others[] = {"id", "clock_hz", NULL};
    return sample_parse(line, strlen(line), others, s, err);
}

static void reads_a_line(void **state) {
    (void)state;
    struct sample s;
    struct status_error err;
    assert_int_equal(parse("{\"id\": 3, " GEMM ", " TIMES ", \"clock_hz\": 1}", &s, &err),
                     MOSAIC_OK);
    assert_int_equal(s.quantity, SAMPLE_GEMM);
    assert_int_equal(sample_value(&s, "m"), 4096);
    assert_int_equal(sample_value(&s, "k"), 64);
    assert_close(s.median_s, 1e-4, 0);
    assert_close(s.least_s, 9e-5, 0);
    assert_close(s.most_s, 2e-4, 0);
    assert_int_equal(s.rounds, 9);
    assert_true(s.is_verified);
    assert_int_equal(sample_parse_keys("{" GEMM "}", strlen("{" GEMM "}"), NULL, &s, &err),
                     MOSAIC_OK);
    assert_int_equal(s.rounds, 0);
}

/* The least and the most of every key, the first and the last of its words. */
static struct sample edge(enum sample_quantity quantity, bool is_most) {
    const struct sample_kind *const kind = sample_kind(quantity);
    struct sample s = {.quantity = quantity,
                       .median_s = 1.0 / 3.0,
                       .least_s = 1.2345678901234567e-7,
                       .most_s = 4096.25,
                       .rounds = 11,
                       .is_verified = is_most};
    for (int i = 0; i < kind->key_count; ++i) {
        long long words = 0;
        while (kind->keys[i].words && kind->keys[i].words[words])
            ++words;
        s.value[i] = kind->keys[i].words ? (is_most ? words - 1 : 0)
                     : is_most           ? kind->keys[i].most
                                         : kind->keys[i].least;
    }
    return s;
}

static void every_quantity_comes_back(void **state) {
    (void)state;
    for (int q = 0; q < SAMPLE_QUANTITIES; ++q) {
        assert_true(sample_kind((enum sample_quantity)q)->key_count <= SAMPLE_KEYS_MAX);
        for (int most = 0; most < 2; ++most) {
            const struct sample s = edge((enum sample_quantity)q, most != 0);
            struct sample back;
            struct status_error err = {.message = ""};
            char text[1024], again[1024], keys[1024];
            const int size = sample_print(&s, text, sizeof text);
            assert_true(size > 0 && size < (int)sizeof text && !strchr(text, '\n'));
            assert_int_equal(sample_print(&s, NULL, 0), size);
            if (sample_parse(text, (size_t)size, NULL, &back, &err) != MOSAIC_OK)
                fail_msg("%s: %s", text, err.message);
            assert_int_equal(sample_compare_keys(&s, &back), 0);
            assert_close(back.median_s, s.median_s, 0);
            assert_close(back.least_s, s.least_s, 0);
            assert_int_equal(back.is_verified, s.is_verified);
            assert_int_equal(sample_print(&back, again, sizeof again), size);
            assert_string_equal(text, again);
            assert_true(sample_print_keys(&s, keys, sizeof keys) < size);
            assert_memory_equal(text + 1, keys, strlen(keys));
        }
    }
}

static void keys_are_ordered(void **state) {
    (void)state;
    const struct sample a = edge(SAMPLE_GEMM, false), b = edge(SAMPLE_GEMM, true);
    const struct sample c = edge(SAMPLE_STREAM, false);
    assert_true(sample_compare_keys(&a, &b) < 0 && sample_compare_keys(&b, &a) > 0);
    assert_true(sample_compare_keys(&b, &c) < 0 && sample_compare_keys(&c, &a) > 0);
    assert_int_equal(sample_key_index(SAMPLE_GEMM, "n"), 3);
    assert_int_equal(sample_key_index(SAMPLE_GEMM, "rows"), -1);
    assert_null(sample_kind(SAMPLE_QUANTITIES));
}

static void refuses(void **state) {
    (void)state;
    static const struct {
        const char *line, *message, *hint;
    } cases[] = {
        {"", "not a line of JSON", ""},
        {"{" GEMM, "not a line of JSON", ""},
        {"[1]", "a sample is a JSON object", ""},
        {"{}", "a sample needs 'quantity'", ""},
        {"{\"quantity\": 3}", "'quantity' is a word", ""},
        {"{\"quantity\": \"gem\"}", "unknown quantity 'gem'", "did you mean 'gemm'?"},
        {"{" GEMM "}", "a sample needs 'time_s'", ""},
        {"{\"quantity\": \"stream\", \"op\": \"copy\"}", "stream: a sample needs 'bytes'", ""},
        {"{\"quantity\": \"stream\", \"op\": \"cpy\", \"bytes\": 8}", "unknown op 'cpy'",
         "did you mean 'copy'?"},
        {"{\"quantity\": \"stream\", \"op\": 1, \"bytes\": 8}", "'op' is a word, such as \"copy\"",
         ""},
        {"{\"quantity\": \"stream\", \"op\": \"copy\", \"bytes\": 8.0}",
         "'bytes' is a whole number", ""},
        {"{\"quantity\": \"stream\", \"op\": \"copy\", \"bytes\": 0}", "'bytes' is 0, not within 1",
         ""},
        {"{\"quantity\": \"collective\", \"kind\": \"all_reduce\", \"ranks\": 8, "
         "\"ranks_per_domain\": 16, \"bytes\": 8}",
         "'ranks_per_domain' is 16, more than 'ranks', 8", ""},
        {"{" GEMM ", " TIMES ", \"kk\": 1}", "gemm: unknown member 'kk'", ""},
        {"{" GEMM ", \"m\": 2, " TIMES "}", "duplicate", ""},
        {"{" GEMM ", \"time_s\": 1, \"rounds\": 1, \"verified\": true}", "'time_s' is an object",
         ""},
        {"{" GEMM ", \"time_s\": {\"median\": 1, \"least\": 1}, \"rounds\": 1, \"verified\": true}",
         "'time_s.most' is missing", ""},
        {"{" GEMM ", \"time_s\": {\"median\": 1, \"least\": 2, \"most\": 3}, \"rounds\": 1, "
         "\"verified\": true}",
         "out of order", ""},
        {"{" GEMM ", \"time_s\": {\"median\": 1, \"least\": 0, \"most\": 3}, \"rounds\": 1, "
         "\"verified\": true}",
         "'time_s.least' is 0, not above 0", ""},
        {"{" GEMM ", \"time_s\": {\"median\": 1, \"least\": 1, \"most\": 1, \"mean\": 1}, "
         "\"rounds\": 1, \"verified\": true}",
         "nothing else", ""},
        {"{" GEMM ", \"time_s\": {\"median\": 1, \"least\": 1, \"most\": 1}, \"rounds\": 0, "
         "\"verified\": true}",
         "'rounds' is a whole number", ""},
        {"{" GEMM ", \"time_s\": {\"median\": 1, \"least\": 1, \"most\": 1}, \"rounds\": 1}",
         "a sample needs 'verified'", ""},
        {"{" GEMM ", \"time_s\": {\"median\": 1, \"least\": 1, \"most\": 1}, \"rounds\": 1, "
         "\"verified\": 1}",
         "'verified' is true or false", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        struct sample s = {.rounds = 77};
        struct status_error err = {.message = ""};
        assert_int_equal(parse(cases[i].line, &s, &err), MOSAIC_BAD_INPUT);
        if (!strstr(err.message, cases[i].message))
            fail_msg("%s: '%s', not '%s'", cases[i].line, err.message, cases[i].message);
        assert_string_equal(err.hint, cases[i].hint);
        assert_int_equal(s.rounds, 77); /* untouched */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_line),
        cmocka_unit_test(every_quantity_comes_back),
        cmocka_unit_test(keys_are_ordered),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
