// SPDX-License-Identifier: GPL-3.0-or-later
/* Errors with place: setting, wrapping, quoting, and texts that do not fit. */
#include "base/status.h"

#include "close.h"

#include <string.h>

static void set_clears_what_was_there(void **state) {
    (void)state;
    struct status_error err;
    memset(&err, 'x', sizeof err);
    assert_int_equal(status_set(&err, MOSAIC_IO, "cannot open %s", "a.yaml"), MOSAIC_IO);
    assert_int_equal(err.status, MOSAIC_IO);
    assert_string_equal(err.message, "cannot open a.yaml");
    assert_string_equal(err.hint, "");
    assert_string_equal(err.file, "");
    assert_int_equal(err.line, 0);
    status_hint(&err, "check the %s", "path");
    assert_string_equal(err.hint, "check the path");
    status_wrap(&err, "section %d", 3);
    assert_string_equal(err.message, "section 3: cannot open a.yaml");
    assert_string_equal(err.hint, "check the path");
}

static void no_error_struct_is_fine(void **state) {
    (void)state;
    assert_int_equal(status_set(NULL, MOSAIC_NUMERIC, "%d", 1), MOSAIC_NUMERIC);
    status_hint(NULL, "x");
    status_wrap(NULL, "x");
    assert_int_equal(status_no_memory(NULL), MOSAIC_INTERNAL);
}

static void long_texts_are_cut(void **state) {
    (void)state;
    struct status_error err;
    char text[2000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)status_set(&err, MOSAIC_BAD_INPUT, "%s", text);
    assert_int_equal(strlen(err.message), STATUS_TEXT_MAX - 1);
    status_wrap(&err, "%s", text);
    assert_int_equal(strlen(err.message), STATUS_TEXT_MAX - 1);
    (void)status_set(&err, MOSAIC_BAD_INPUT, "tail");
    status_wrap(&err, "%s", text);
    assert_int_equal(strlen(err.message), STATUS_TEXT_MAX - 1);
}

static void quotes_between_characters(void **state) {
    (void)state;
    char buffer[10];
    assert_string_equal(status_quote("abc", buffer, sizeof buffer), "abc");
    assert_string_equal(status_quote("123456789", buffer, sizeof buffer), "123456789");
    assert_string_equal(status_quote("1234567890", buffer, sizeof buffer), "123456...");
    assert_string_equal(status_quote("12345\xC3\xA9"
                                     "890",
                                     buffer, sizeof buffer),
                        "12345...");
    assert_string_equal(status_quote("a\x1b\x7f\n", buffer, sizeof buffer), "a???");
    assert_string_equal(status_quote("", buffer, sizeof buffer), "");
}

static void every_status_has_a_text(void **state) {
    (void)state;
#define CHECK(name, code, text)                                                                    \
    assert_string_equal(mosaic_status_text(name), text);                                           \
    assert_int_equal(name, code);
    MOSAIC_STATUS_LIST(CHECK)
#undef CHECK
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_clears_what_was_there), cmocka_unit_test(no_error_struct_is_fine),
        cmocka_unit_test(long_texts_are_cut),        cmocka_unit_test(quotes_between_characters),
        cmocka_unit_test(every_status_has_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
