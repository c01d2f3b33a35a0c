// SPDX-License-Identifier: GPL-3.0-or-later
/* Sources, diagnostics and trees: places, refusals by name, overrides, hostile sizes. */
#include "text/yaml_tree.h"

#include "close.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>
#include <time.h>

static struct diag_list said;

/* A tree of a text, or NULL with its diagnostics in `said`. */
static struct yaml_tree *parse_bytes(const char *text, size_t size) {
    struct source *source = NULL;
    struct yaml_tree *tree = NULL;
    diag_init(&said);
    if (source_from_text(NULL, "t.yaml", text, size, &source, &said) != MOSAIC_OK)
        return NULL;
    if (yaml_tree_parse(NULL, source, &tree, &said) != MOSAIC_OK) {
        source_free(source);
        return NULL;
    }
    (void)talloc_reparent(NULL, tree, source);
    assert_int_equal(said.errors, 0);
    return tree;
}

static struct yaml_tree *parse(const char *text) {
    return parse_bytes(text, strlen(text));
}

static void check_text(const struct node *node, const char *expected) {
    char *text = node_text(NULL, node);
    assert_string_equal(text, expected);
    talloc_free(text);
}

static void builds_a_tree_with_places(void **state) {
    (void)state;
    struct yaml_tree *tree = parse("# head\na: 1\nb:\n  - x y\n  - {c: 'q', d: [1, 2.5]}\n");
    assert_non_null(tree);
    check_text(tree->root, "{a: 1, b: [x y, {c: \"q\", d: [1, 2.5]}]}");
    const struct node *d = node_at(tree->root, "b[1].d");
    assert_non_null(d);
    assert_int_equal(d->kind, NODE_SEQUENCE);
    assert_int_equal(d->place.line, 5);
    assert_int_equal(d->place.column, 17);
    assert_int_equal(d->key_place.column, 14);
    assert_string_equal(d->key, "d");
    assert_string_equal(d->items[1]->text, "2.5");
    assert_int_equal(d->items[1]->place.column, 21);
    assert_int_equal(d->items[1]->place.span, 3);
    assert_true(node_at(tree->root, "b[1].c")->is_quoted);
    assert_false(node_at(tree->root, "a")->is_quoted);
    assert_null(node_at(tree->root, "b[2]"));
    assert_null(node_at(tree->root, "b.c"));
    assert_null(node_at(tree->root, "a[0]"));
    assert_null(node_at(tree->root, "b[x]"));
    assert_null(node_find(tree->root, "zz"));
    yaml_tree_free(tree);
}

static void takes_bom_crlf_and_unicode(void **state) {
    (void)state;
    struct yaml_tree *tree = parse("\xEF\xBB\xBF"
                                   "a: \xC3\xA9t\xC3\xA9\r\nb: 2\r\n");
    assert_non_null(tree);
    assert_string_equal(node_at(tree->root, "a")->text, "\xC3\xA9t\xC3\xA9");
    assert_int_equal(node_at(tree->root, "b")->place.line, 2);
    yaml_tree_free(tree);
    /* Columns count characters. */
    assert_null(parse("{\xC3\xA9: &x 1}"));
    assert_int_equal(said.items[0].column, 5);
    tree = parse("---\na: 1\n...\n");
    assert_non_null(tree);
    yaml_tree_free(tree);
}

struct refusal {
    const char *text;
    long line, column;
    const char *says;
};

static const struct refusal refusals[] = {
    {"", 1, 1, "no document"},
    {"# only this\n\n", 1, 1, "no document"},
    {"---\n", 1, 1, "no document"},
    {"a: &x 1\n", 1, 4, "anchor '&x'"},
    {"a: *x\n", 1, 4, "alias '*x'"},
    {"a: &x [*x]\n", 1, 4, "anchor '&x'"},
    {"a: &x {b: *x}\n", 1, 4, "anchor '&x'"},
    {"a:\n  <<: {b: 1}\n", 2, 3, "merge key"},
    {"a: !!int 3\n", 1, 4, "tag '!!int'"},
    {"a: !x [1]\n", 1, 4, "tag '!x'"},
    {"a: ! 3\n", 1, 4, "tag '!'"},
    {"a: ! '3'\n", 1, 4, "tag '!'"},
    {"a: 1\n---\nb: 2\n", 2, 1, "second document"},
    {"a: 1\n...\n---\nb: 2\n", 3, 1, "second document"},
    {"%YAML 1.1\n---\na: 1\n", 1, 1, "directives"},
    {"%TAG ! tag:x,2000:\n---\na: 1\n", 1, 1, "directives"},
    {"%FOO\n---\na: 1\n", 1, 1, "directives"},
    {"a: 1\nb: 2\na: 3\n", 3, 1, "key 'a' is given twice, first on line 1"},
    {"x: {a: 1, a: 2}\n", 1, 11, "key 'a' is given twice, first on line 1"},
    {"a:\n\tb: 1\n", 2, 1, "tab used as indentation"},
    {"a:\n  \tb: 1\n", 2, 3, "tab used as indentation"},
    {"a: [1,\n\t2]\n", 2, 1, "tab used as indentation"},
    {"? [1]\n: 2\n", 1, 3, "a key must be a word"},
    {"{[1]: 2}\n", 1, 2, "a key must be a word"},
    {"{{a: 1}: 2}\n", 1, 2, "a key must be a word"},
    {"'': 2\n", 1, 1, "empty key"},
    {"a: \"x\nb: 2\n", 1, 4, "the quote is never closed"},
    {"a: 'x\n", 1, 4, "the quote is never closed"},
    {"a: [1, 2\nb: 3\n", 1, 4, "not closed"},
    {"a: {b: 1\n", 1, 4, "not closed"},
    {"a: b: c\n", 1, 5, "unexpected ':'"},
    {"a: 1\n b: 2\n", 2, 3, "unexpected ':'"},
    {"a: 1\nbb\nc: 2\n", 2, 1, "a key without ':'"},
    {"a:\n   b: 1\n  c: 2\n", 3, 3, "does not line up"},
    {"a:\n  - 1\n - 2\n", 3, 2, "does not line up"},
    {"a: @x\n", 1, 4, "cannot start a value"},
    {"a: `x`\n", 1, 4, "cannot start a value"},
    {"a: \"\\q\"\n", 1, 5, "escape"},
    {"a: \"\\0\"\n", 1, 4, "NUL inside"},
    {"a: 1\n}\n", 2, 1, "does not line up"},
    {"a: \xE9t\xE9\n", 1, 4, "byte 0xE9 is not UTF-8"},
    {"a: 1\nb: \xC0\xAF\n", 2, 4, "byte 0xC0 is not UTF-8"},
    {"a: \xED\xA0\x80\n", 1, 4, "is not UTF-8"},
    {"a: \xF4\x90\x80\x80\n", 1, 4, "is not UTF-8"},
    {"a: \xE2\x82", 1, 4, "is not UTF-8"},
    {"a: \x07\n", 1, 4, "control character U+0007"},
    {"a: \x1B[31m\n", 1, 4, "control character U+001B"},
    {"a: \x7F\n", 1, 4, "control character U+007F"},
    {"a: \xC2\x9B\n", 1, 4, "control character U+009B"},
    {"a: \xEF\xBB\xBF\n", 1, 4, "byte-order mark"},
    {"\xFF\xFE"
     "a",
     1, 1, "UTF-16"},
};

static void refuses_by_name_and_place(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *r = &refusals[i];
        struct yaml_tree *tree = parse(r->text);
        if (tree)
            fail_msg("taken: %s", r->text);
        const struct diag *diag = &said.items[0];
        if (diag->line != r->line || diag->column != r->column || !strstr(diag->message, r->says))
            fail_msg("case %zu '%s' says %ld:%ld: %s", i, r->text, diag->line, diag->column,
                     diag->message);
        assert_int_equal(said.status, MOSAIC_BAD_INPUT);
        assert_string_equal(diag->file, "t.yaml");
    }
    assert_null(parse_bytes("a: \0b\n", 6));
    assert_string_equal(said.items[0].message, "NUL byte");
}

static void shows_several_errors_at_once(void **state) {
    (void)state;
    assert_null(parse("a: &x 1\nb: *x\nc: !t 2\na: 3\n"));
    assert_int_equal(said.errors, 4);
    assert_int_equal(said.items[3].line, 4);
}

static char *repeated(const char *head, const char *text, size_t times) {
    const size_t length = strlen(text), start = strlen(head);
    char *all = malloc(start + length * times + 1);
    assert_non_null(all);
    memcpy(all, head, start);
    for (size_t i = 0; i < times; i++)
        memcpy(all + start + i * length, text, length);
    all[start + length * times] = '\0';
    return all;
}

static void deep_nesting_is_refused_fast(void **state) {
    (void)state;
    static const char *const pieces[] = {"[", "{", "[\n", "- ", "{a: ", "? ", "[ [ {a: "};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        char *text = repeated("a: ", pieces[i], 64000);
        char *at_start = repeated("", pieces[i], 64000);
        const clock_t start = clock();
        assert_null(parse(text));
        assert_null(parse(at_start));
        /* 0.1 s on any machine; sanitizers are given tenfold. */
        assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 1.0);
        assert_true(said.errors >= 1);
        free(text);
        free(at_start);
    }
    char *text = repeated("", "[", YAML_MAX_DEPTH + 1);
    assert_null(parse(text));
    assert_non_null(strstr(said.items[0].message, "nested deeper than 64"));
    assert_int_equal(said.items[0].column, YAML_MAX_DEPTH + 1);
    free(text);
}

static void depth_64_is_taken(void **state) {
    (void)state;
    char *text = repeated("", "[", YAML_MAX_DEPTH);
    char *all = repeated(text, "]", YAML_MAX_DEPTH);
    struct yaml_tree *tree = parse(all);
    assert_non_null(tree);
    yaml_tree_free(tree);
    free(all);
    free(text);
}

static void too_many_values_are_refused(void **state) {
    (void)state;
    char *text = repeated("[", "1,", YAML_MAX_NODES + 10);
    assert_null(parse(text));
    assert_non_null(strstr(said.items[0].message, "more than"));
    free(text);
}

/* Overrides. */

static struct yaml_tree *base_tree(void) {
    return parse("budget: {days: 20 d}\ntiers:\n  - {name: a}\n  - {name: b}\nempty:\n"
                 "cluster: x.yaml\n");
}

static void overrides_replace_and_add(void **state) {
    (void)state;
    struct yaml_tree *tree = base_tree();
    assert_int_equal(yaml_tree_set(tree, "budget.days", "30 d", NULL, &said), MOSAIC_OK);
    assert_int_equal(yaml_tree_set(tree, "tiers[1].bandwidth", "400 Gb/s", NULL, &said), MOSAIC_OK);
    assert_int_equal(yaml_tree_set(tree, "tiers[2].name", "c", NULL, &said), MOSAIC_OK);
    assert_int_equal(yaml_tree_set(tree, "search.layout.tp", "[1, 2]", NULL, &said), MOSAIC_OK);
    assert_int_equal(yaml_tree_set(tree, "empty.x", "'q'", NULL, &said), MOSAIC_OK);
    check_text(tree->root,
               "{budget: {days: 30 d}, tiers: [{name: a}, {name: b, bandwidth: 400 Gb/s}, "
               "{name: c}], empty: {x: \"q\"}, cluster: x.yaml, search: {layout: {tp: [1, 2]}}}");
    const struct node *days = node_at(tree->root, "budget.days");
    assert_true(days->is_override);
    assert_true(node_at(tree->root, "search.layout.tp[1]")->is_override);
    assert_false(node_at(tree->root, "tiers[0].name")->is_override);
    diag_init(&said);
    (void)diag_error(&said, &days->place, "too long");
    char *text = diag_text(NULL, &said, false);
    assert_string_equal(text, "--set budget.days=30 d: error: too long\n");
    talloc_free(text);
    yaml_tree_free(tree);
}

static void bad_overrides_are_named(void **state) {
    (void)state;
    static const struct {
        const char *path, *value, *says;
    } cases[] = {
        {"", "1", "is not a key path"},
        {"a..b", "1", "is not a key path"},
        {".a", "1", "is not a key path"},
        {"a.", "1", "is not a key path"},
        {"a[", "1", "is not a key path"},
        {"a[-1]", "1", "is not a key path"},
        {"a[1]b", "1", "is not a key path"},
        {"a[99999999999999999999]", "1", "is not a key path"},
        {"budget.days", "[1", "not closed"},
        {"budget.days", "", "no document"},
        {"budget.days", "*x", "alias"},
        {"budget.days", "\xE9", "is not UTF-8"},
        {"budget[0]", "1", "'budget' is a mapping, not a list"},
        {"tiers.name", "1", "'tiers' is a list, not a mapping"},
        {"tiers[5]", "1", "has 2 items"},
        {"cluster.nodes", "1", "'cluster' is a scalar, not a mapping"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct yaml_tree *tree = base_tree();
        assert_int_equal(yaml_tree_set(tree, cases[i].path, cases[i].value, NULL, &said),
                         MOSAIC_BAD_INPUT);
        if (!strstr(said.items[0].message, cases[i].says))
            fail_msg("--set %s=%s: %s", cases[i].path, cases[i].value, said.items[0].message);
        assert_non_null(strstr(said.items[0].file, "--set "));
        assert_int_equal(said.items[0].line, 0);
        yaml_tree_free(tree);
    }
}

static void graft_keeps_the_key(void **state) {
    (void)state;
    struct yaml_tree *tree = base_tree();
    struct yaml_tree *other = parse("nodes: 4\n");
    struct node *cluster = node_at(tree->root, "cluster");
    yaml_tree_graft(tree, cluster, other);
    check_text(cluster, "{nodes: 4}");
    assert_string_equal(cluster->key, "cluster");
    assert_int_equal(cluster->key_place.line, 6);
    assert_int_equal(yaml_tree_set(tree, "cluster.nodes", "8", NULL, &said), MOSAIC_OK);
    check_text(cluster, "{nodes: 8}");
    yaml_tree_free(tree);
}

/* Sources and diagnostics. */

static void files_that_cannot_be_read(void **state) {
    (void)state;
    struct yaml_tree *tree = NULL;
    diag_init(&said);
    assert_int_equal(yaml_tree_load(NULL, "/nonexistent/x.yaml", NULL, &tree, &said), MOSAIC_IO);
    assert_int_equal(said.status, MOSAIC_IO);
    assert_non_null(strstr(said.items[0].message, "No such file"));
    diag_init(&said);
    assert_int_equal(yaml_tree_load(NULL, "/", NULL, &tree, &said), MOSAIC_IO);
    assert_non_null(strstr(said.items[0].message, "directory"));
    assert_null(tree);
    struct source *source = NULL;
    const char *const text = "cluster: nope.yaml\n";
    assert_int_equal(source_from_text(NULL, "plan.yaml", text, strlen(text), &source, &said),
                     MOSAIC_OK);
    const struct place place = source_place(source, 9, 9);
    diag_init(&said);
    assert_int_equal(yaml_tree_load(NULL, "/nope.yaml", &place, &tree, &said), MOSAIC_IO);
    assert_string_equal(said.items[0].file, "plan.yaml");
    assert_int_equal(said.items[0].column, 10);
    source_free(source);
}

static void sizes_are_limited(void **state) {
    (void)state;
    struct source *source = NULL;
    char path[] = "/tmp/mosaic-test-XXXXXX";
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    FILE *file = fdopen(descriptor, "w");
    assert_non_null(file);
    for (int i = 0; i < 100; i++)
        (void)fputs("#23456789\n", file);
    assert_int_equal(fclose(file), 0);
    diag_init(&said);
    assert_int_equal(source_read(NULL, path, 999, NULL, &source, &said), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(said.items[0].message, "longer than"));
    assert_int_equal(source_read(NULL, path, 1000, NULL, &source, &said), MOSAIC_OK);
    assert_int_equal(source->size, 1000);
    assert_int_equal(source->line_count, 101);
    source_free(source);
    (void)remove(path);
}

static void paths_are_resolved_beside_the_file(void **state) {
    (void)state;
    void *memory = talloc_new(NULL);
    const struct source in_dir = {.name = "a/b/plan.yaml"}, here = {.name = "plan.yaml"};
    const struct source set = {.name = "--set cluster=a/b", .is_override = true};
    assert_string_equal(source_resolve(memory, &in_dir, "c.yaml"), "a/b/c.yaml");
    assert_string_equal(source_resolve(memory, &in_dir, "/c.yaml"), "/c.yaml");
    assert_string_equal(source_resolve(memory, &here, "c.yaml"), "c.yaml");
    assert_string_equal(source_resolve(memory, &set, "c.yaml"), "c.yaml");
    assert_string_equal(source_resolve(memory, NULL, "c.yaml"), "c.yaml");
    talloc_free(memory);
}

static void diagnostics_have_excerpt_and_caret(void **state) {
    (void)state;
    struct source *source = NULL;
    const char *const text = "a: 1\n  bandwith: 400 Gb/s\n";
    diag_init(&said);
    assert_int_equal(source_from_text(NULL, "c.yaml", text, strlen(text), &source, &said),
                     MOSAIC_OK);
    const struct place place = source_place(source, 7, 8);
    (void)diag_error(&said, &place, "unknown key '%s'", "bandwith");
    diag_hint(&said, "did you mean 'bandwidth'?");
    diag_warning(&said, NULL, "and a word");
    source_free(source);
    char *out = diag_text(NULL, &said, false);
    assert_string_equal(out, "c.yaml:2:3: error: unknown key 'bandwith'; did you mean "
                             "'bandwidth'?\n"
                             "    2 |   bandwith: 400 Gb/s\n"
                             "      |   ^~~~~~~~\n"
                             "warning: and a word\n");
    talloc_free(out);
    out = diag_text(NULL, &said, true);
    assert_non_null(strstr(out, "\033[1;31merror"));
    talloc_free(out);
    struct status_error err;
    assert_int_equal(diag_to_error(&said, &err), MOSAIC_BAD_INPUT);
    assert_string_equal(err.message, "unknown key 'bandwith'");
    assert_int_equal(err.line, 2);
}

static void long_lines_are_cut_and_bytes_escaped(void **state) {
    (void)state;
    char *text = repeated("", "0123456789", 100);
    text[500] = 0x1B;
    text[501] = (char)0xE9;
    assert_null(parse(text));
    const struct diag *diag = &said.items[0];
    assert_int_equal(diag->column, 501);
    assert_true(strlen(diag->excerpt) < 130);
    assert_int_equal(strncmp(diag->excerpt, "...", 3), 0);
    assert_int_equal(strncmp(diag->excerpt + diag->caret, "\\x1B\\xE9", 8), 0);
    free(text);
    diag_init(&said);
    (void)diag_error(&said, NULL, "bad \x1b[31m and \xE9");
    char *out = diag_text(NULL, &said, false);
    assert_string_equal(out, "error: bad \\x1B[31m and \\xE9\n");
    talloc_free(out);
}

static void twenty_are_kept_the_rest_is_counted(void **state) {
    (void)state;
    diag_init(&said);
    for (int i = 0; i < 27; i++) {
        (void)diag_error(&said, NULL, "number %d", i);
        diag_hint(&said, "hint %d", i);
    }
    assert_int_equal(said.count, DIAG_MAX);
    assert_int_equal(said.errors, 27);
    assert_string_equal(said.items[DIAG_MAX - 1].hint, "hint 19");
    char *out = diag_text(NULL, &said, false);
    assert_non_null(strstr(out, "number 19; hint 19\nand 7 more\n"));
    talloc_free(out);
    diag_init(&said);
    struct status_error err = {.status = MOSAIC_NUMERIC, .message = "no root", .hint = "try"};
    assert_int_equal(diag_from_error(&said, NULL, &err), MOSAIC_NUMERIC);
    assert_int_equal(said.status, MOSAIC_NUMERIC);
    assert_string_equal(said.items[0].hint, "try");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(builds_a_tree_with_places),
        cmocka_unit_test(takes_bom_crlf_and_unicode),
        cmocka_unit_test(refuses_by_name_and_place),
        cmocka_unit_test(shows_several_errors_at_once),
        cmocka_unit_test(deep_nesting_is_refused_fast),
        cmocka_unit_test(depth_64_is_taken),
        cmocka_unit_test(too_many_values_are_refused),
        cmocka_unit_test(overrides_replace_and_add),
        cmocka_unit_test(bad_overrides_are_named),
        cmocka_unit_test(graft_keeps_the_key),
        cmocka_unit_test(files_that_cannot_be_read),
        cmocka_unit_test(sizes_are_limited),
        cmocka_unit_test(paths_are_resolved_beside_the_file),
        cmocka_unit_test(diagnostics_have_excerpt_and_caret),
        cmocka_unit_test(long_lines_are_cut_and_bytes_escaped),
        cmocka_unit_test(twenty_are_kept_the_rest_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
