// SPDX-License-Identifier: GPL-3.0-or-later
/* Suggestions: distances, near words, and silence where nothing is near. */
#include "base/suggest.h"

#include "close.h"

#include <string.h>

static const char *const keys[] = {"bandwidth",   "latency", "domain", "name",
                                   "micro_batch", "tp",      "pp",     "cp"};
enum { KEYS = sizeof keys / sizeof keys[0] };

static void distances(void **state) {
    (void)state;
    assert_int_equal(suggest_distance("", ""), 0);
    assert_int_equal(suggest_distance("abc", ""), 3);
    assert_int_equal(suggest_distance("", "abc"), 3);
    assert_int_equal(suggest_distance("kitten", "sitting"), 3);
    assert_int_equal(suggest_distance("bandwith", "bandwidth"), 1);
    assert_int_equal(suggest_distance("bandwdith", "bandwidth"), 1); /* a swap is one */
    assert_int_equal(suggest_distance("ca", "abc"), 3); /* optimal string alignment, not 2 */
    assert_int_equal(suggest_distance("Name", "nAME"), 0);
    for (size_t i = 0; i < KEYS; i++) {
        for (size_t j = 0; j < KEYS; j++)
            assert_int_equal(suggest_distance(keys[i], keys[j]),
                             suggest_distance(keys[j], keys[i]));
    }
}

static void finds_the_near_word(void **state) {
    (void)state;
    assert_string_equal(suggest("bandwith", keys, KEYS), "bandwidth");
    assert_string_equal(suggest("Latency", keys, KEYS), "latency");
    assert_string_equal(suggest("microbatch", keys, KEYS), "micro_batch");
    assert_string_equal(suggest("naem", keys, KEYS), "name");
    assert_string_equal(suggest("dp", keys, KEYS), "tp"); /* the first of equals */
}

static void is_silent_when_nothing_is_near(void **state) {
    (void)state;
    assert_null(suggest("colour", keys, KEYS));
    assert_null(suggest("x", keys, KEYS));
    assert_null(suggest("", keys, KEYS));
    assert_null(suggest("bandwidth", keys, 0));
    assert_null(suggest("zzzzzzzzzz", keys, KEYS));
}

static void long_words_are_far(void **state) {
    (void)state;
    char word[200];
    memset(word, 'a', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    assert_null(suggest(word, keys, KEYS));
    word[64] = '\0';
    assert_int_equal(suggest_distance(word, word), 0);
}

static const char *some(const void *context, size_t index) {
    (void)context;
    return index % 2 ? NULL : keys[index];
}

static void callback_may_leave_words_out(void **state) {
    (void)state;
    assert_string_equal(suggest_from("domian", some, NULL, KEYS), "domain");
    assert_null(suggest_from("latency", some, NULL, KEYS));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances),
        cmocka_unit_test(finds_the_near_word),
        cmocka_unit_test(is_silent_when_nothing_is_near),
        cmocka_unit_test(long_words_are_far),
        cmocka_unit_test(callback_may_leave_words_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
