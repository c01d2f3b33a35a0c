// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * XML 1.0 escapes five marks and knows no control characters but tab and line ends; workflow
 * commands escape per cent and line ends, and in properties colons and commas as well.
 */
#include "report/junit.h"
#include "report/check_text.h"
#include "report/result.h"
#include "report/table.h"

#include <string.h>

static bool is_word(json_t *object, const char *key, const char *word) {
    return strcmp(text_at(object, key), word) == 0;
}

/* ---- JUnit ---- */

static void put_xml(const char *text, FILE *stream) {
    static const char marks[] = "&<>\"'";
    static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"};
    enum { BLANK = 0x20 };
    for (; *text; text++) {
        const char *const mark = strchr(marks, *text);
        if (mark)
            (void)fputs(names[mark - marks], stream);
        else
            (void)fputc((unsigned char)*text < BLANK ? ' ' : *text, stream);
    }
}

static void put_attribute(const char *name, const char *value, FILE *stream) {
    (void)fprintf(stream, " %s=\"", name);
    put_xml(value, stream);
    (void)fputc('"', stream);
}

static void put_case(json_t *row, json_t *file, FILE *stream) {
    char text[CHECK_TEXT_MAX], why[CHECK_TEXT_MAX];
    (void)fputs("    <testcase", stream);
    put_attribute("classname", text_at(row, "file"), stream);
    put_attribute("name", text_at(row, "metric"), stream);
    if (!is_word(row, "verdict", "regression")) {
        (void)fputs("/>\n", stream);
        return;
    }
    (void)fputs(">\n      <failure type=\"regression\"", stream);
    put_attribute("message", check_row_text(row, text), stream);
    (void)fputc('>', stream);
    put_xml(check_why_text(file, why), stream);
    (void)fputs("</failure>\n    </testcase>\n", stream);
}

struct tally {
    size_t tests, failures;
};

/* Of one file, or of all for NULL. */
static struct tally count_rows(json_t *rows, const char *file) {
    struct tally tally = {0, 0};
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *const row = json_array_get(rows, i);
        if (file && !is_word(row, "file", file))
            continue;
        tally.tests++;
        tally.failures += is_word(row, "verdict", "regression");
    }
    return tally;
}

void junit_write(json_t *root, FILE *stream) {
    json_t *const rows = result_at(root, "differences"), *const files = result_at(root, "files");
    const struct tally all = count_rows(rows, NULL);
    (void)fprintf(stream,
                  "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                  "<testsuites name=\"mosaic check\" tests=\"%zu\" failures=\"%zu\">\n",
                  all.tests, all.failures);
    for (size_t i = 0; i < json_array_size(files); i++) {
        json_t *const file = json_array_get(files, i);
        const char *const name = text_at(file, "file");
        const struct tally tally = count_rows(rows, name);
        (void)fputs("  <testsuite", stream);
        put_attribute("name", name, stream);
        (void)fprintf(stream, " tests=\"%zu\" failures=\"%zu\" errors=\"0\">\n", tally.tests,
                      tally.failures);
        for (size_t k = 0; k < json_array_size(rows); k++)
            if (is_word(json_array_get(rows, k), "file", name))
                put_case(json_array_get(rows, k), file, stream);
        (void)fputs("  </testsuite>\n", stream);
    }
    (void)fputs("</testsuites>\n", stream);
}

/* ---- annotations ---- */

static void put_command(const char *text, const char *special, FILE *stream) {
    for (; *text; text++) {
        if (strchr(special, *text))
            (void)fprintf(stream, "%%%02X", (unsigned)(unsigned char)*text);
        else
            (void)fputc(*text, stream);
    }
}

static json_t *file_named(json_t *files, const char *name) {
    for (size_t i = 0; i < json_array_size(files); i++)
        if (is_word(json_array_get(files, i), "file", name))
            return json_array_get(files, i);
    return NULL;
}

void annotations_write(json_t *root, FILE *stream) {
    static const char in_message[] = "%\r\n", in_property[] = "%\r\n:,";
    json_t *const rows = result_at(root, "differences"), *const files = result_at(root, "files");
    char text[CHECK_TEXT_MAX], why[CHECK_TEXT_MAX];
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *const row = json_array_get(rows, i);
        const bool is_worse = is_word(row, "verdict", "regression");
        if (!is_worse && !is_word(row, "verdict", "better"))
            continue;
        (void)fprintf(stream, "::%s file=", is_worse ? "error" : "notice");
        put_command(text_at(row, "file"), in_property, stream);
        (void)fprintf(stream, ",title=mosaic check%s ", "%3A");
        put_command(text_at(row, "metric"), in_property, stream);
        (void)fputs(is_worse ? " is worse::" : " is better::", stream);
        put_command(check_row_text(row, text), in_message, stream);
        if (*check_why_text(file_named(files, text_at(row, "file")), why)) {
            (void)fputs("; ", stream);
            put_command(why, in_message, stream);
        }
        (void)fputc('\n', stream);
    }
}
