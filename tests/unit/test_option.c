// SPDX-License-Identifier: GPL-3.0-or-later
/* Option tables: what parses, what is refused in which words, what --help prints. */
#include "close.h"

/* The program's own files are no part of the library. */
#include "cli/option.c"

static const char *const formats[] = {"table", "json", "csv", NULL};
static const struct option_spec specs[] = {
    {OPTION_FORMAT, OPTION_CHOICE, "format", 'f', "FORMAT", formats, 0, 0, "table", "how to write"},
    {OPTION_OUTPUT, OPTION_FILE, "output", 'o', "FILE", NULL, 0, 0, NULL, "where to"},
    {OPTION_SET, OPTION_PAIR, "set", '\0', "KEY=VALUE", NULL, 0, 0, NULL, "replace a key"},
    {OPTION_SEED, OPTION_NUMBER, "seed", '\0', "N", NULL, 1, 99, "1", "seed"},
    {OPTION_HELP, OPTION_FLAG, "help", 'h', NULL, NULL, 0, 0, NULL, "this text"},
};
enum { SPECS = sizeof specs / sizeof *specs, WORDS_MAX = 12 };
static const struct operand_spec one_file = {"FILE", 1, 1, true, NULL};

/* Splits at spaces; the words live in `line`. */
static bool parse(char *line, struct option_set *set, char message[OPTION_MESSAGE_MAX]) {
    char *words[WORDS_MAX + 1] = {0};
    static char *kept[WORDS_MAX + 1];
    int count = 0;
    for (char *word = strtok(line, " "); word && count < WORDS_MAX; word = strtok(NULL, " "))
        words[count++] = word;
    memcpy(kept, words, sizeof kept);
    message[0] = '\0';
    return option_parse(specs, SPECS, &one_file, count, kept, set, message);
}

static void test_parses(void **state) {
    (void)state;
    struct option_set set;
    char message[OPTION_MESSAGE_MAX];
    char line[] = "plan --set a.b=1 in.yaml -f json --set=c= --seed 42 -oout";
    assert_true(parse(line, &set, message));
    assert_true(set.value[OPTION_FORMAT].given);
    assert_int_equal(set.value[OPTION_FORMAT].number, 1);
    assert_int_equal(set.value[OPTION_SEED].number, 42);
    assert_string_equal(set.value[OPTION_OUTPUT].text, "out");
    assert_int_equal(set.pair_count, 2);
    assert_string_equal(set.pairs[0], "a.b=1");
    assert_string_equal(set.pairs[1], "c=");
    assert_int_equal(set.operand_count, 1);
    assert_string_equal(set.operands[0], "in.yaml");
    assert_false(set.value[OPTION_HELP].given);
    option_set_free(&set);
    char dash[] = "plan -- -x";
    assert_true(parse(dash, &set, message));
    assert_string_equal(set.operands[0], "-x");
    option_set_free(&set);
}

static void test_refuses(void **state) {
    (void)state;
    static const struct {
        const char *line, *want;
    } cases[] = {
        {"plan", "needs FILE"},
        {"plan a b", "unexpected argument 'b'"},
        {"plan a --fromat json", "unknown option '--fromat'; did you mean '--format'?"},
        {"plan a --fromat=json", "unknown option '--fromat'; did you mean '--format'?"},
        {"plan a --zzzzzz", "unknown option '--zzzzzz'"},
        {"plan a -x", "unknown option '-x'"},
        {"plan a --s 1", "option '--s' is ambiguous"},
        {"plan a --format", "--format needs a value: FORMAT"},
        {"plan a -o", "--output needs a value: FILE"},
        {"plan a --format jsn",
         "--format takes table, json or csv, not 'jsn'; did you mean 'json'?"},
        {"plan a --seed 0", "--seed takes a whole number from 1 to 99, not '0'"},
        {"plan a --seed 100", "--seed takes a whole number from 1 to 99, not '100'"},
        {"plan a --seed 1e1", "--seed takes a whole number from 1 to 99, not '1e1'"},
        {"plan a --seed -1", "--seed takes a whole number from 1 to 99, not '-1'"},
        {"plan a --seed 99999999999999999999",
         "--seed takes a whole number from 1 to 99, not '99999999999999999999'"},
        {"plan a --set key", "--set takes KEY=VALUE, not 'key'"},
        {"plan a --set =1", "--set takes KEY=VALUE, not '=1'"},
        {"plan a --output=", "--output needs a file name"},
        {"plan a --help=1", "--help takes no value"},
        {"plan a --seed x --format y", "--seed takes a whole number from 1 to 99, not 'x'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct option_set set;
        char message[OPTION_MESSAGE_MAX];
        char line[128];
        (void)snprintf(line, sizeof line, "%s", cases[i].line);
        assert_false(parse(line, &set, message));
        assert_string_equal(message, cases[i].want);
        option_set_free(&set);
    }
}

static void test_help_wins(void **state) {
    (void)state;
    struct option_set set;
    char message[OPTION_MESSAGE_MAX];
    char line[] = "plan --nonsense --seed x --help";
    assert_true(parse(line, &set, message));
    assert_true(set.value[OPTION_HELP].given);
    option_set_free(&set);
}

static void test_print(void **state) {
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *const stream = open_memstream(&text, &size);
    assert_non_null(stream);
    option_print(specs, SPECS, stream);
    assert_int_equal(fclose(stream), 0);
    assert_string_equal(text,
                        "Options:\n"
                        "  -f, --format FORMAT        how to write: table, json, csv (default "
                        "table)\n"
                        "  -o, --output FILE          where to\n"
                        "      --set KEY=VALUE        replace a key\n"
                        "      --seed N               seed (default 1)\n"
                        "  -h, --help                 this text\n");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parses),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_help_wins),
        cmocka_unit_test(test_print),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
