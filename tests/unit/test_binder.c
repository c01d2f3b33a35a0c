// SPDX-License-Identifier: GPL-3.0-or-later
/* Schema tables: binding, defaults and their origin, every refusal with its place, overrides. */
#include "text/schema.h"

#include "close.h"

#include <stdlib.h>
#include <string.h>
#include <talloc.h>

enum precision { PRECISION_BF16, PRECISION_FP8 };
static const char *const precision_words[] = {"bf16", "fp8", NULL};
static const char *const recompute_words[] = {"none", "selective", "full", NULL};

struct tier {
    const char *name;
    double bytes_per_s, latency_s;
};
struct budget {
    double duration_s, goodput;
    bool has_goodput;
};
struct plan {
    int nodes;
    bool is_dry;
    const char *title;
    double ratio, memory_bytes, tokens;
    enum precision precision;
    struct number_range sparsity;
    struct int_list q, recompute;
    struct number_list sizes;
    struct string_list names;
    struct record_list tiers;
    struct budget budget, spare;
    bool has_spare;
    double limit;
    int form; /* 1: a number, 2: a mapping */
    struct budget either;
    const struct node *free;
};

static const struct field tier_fields[] = {
    {.key = "name",
     .kind = FIELD_STRING,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct tier, name),
     .help = "name"},
    {.key = "bandwidth",
     .kind = FIELD_QUANTITY,
     .dimension = DIM_BYTES_PER_S,
     .flags = FIELD_REQUIRED | FIELD_OPEN_MIN,
     FIELD_AT(struct tier, bytes_per_s),
     .help = "bandwidth per GPU"},
    {.key = "latency",
     .kind = FIELD_QUANTITY,
     .dimension = DIM_TIME,
     FIELD_AT(struct tier, latency_s),
     .fallback = "3 us",
     .help = "latency"},
};
static const struct schema tier_schema = SCHEMA("tier", struct tier, tier_fields);

static enum mosaic_status check_budget(struct binder *binder, const struct node *node,
                                       void *target) {
    const struct budget *budget = target;
    if (budget->duration_s > 100 * 86400.0)
        return binder_error(binder, node_find(node, "days"), "'%s.days' is over 100 days",
                            binder_path(binder));
    return MOSAIC_OK;
}

static const struct field budget_fields[] = {
    {.key = "days",
     .kind = FIELD_QUANTITY,
     .dimension = DIM_TIME,
     .flags = FIELD_REQUIRED | FIELD_OPEN_MIN,
     FIELD_AT(struct budget, duration_s),
     .help = "length of the run"},
    {.key = "goodput",
     .kind = FIELD_NUMBER,
     .dimension = DIM_FRACTION,
     .flags = FIELD_OPEN_MIN,
     .max = 1,
     FIELD_AT(struct budget, goodput),
     FIELD_PRESENCE(struct budget, has_goodput),
     .help = "share of time that trains"},
};
static const struct schema budget_schema = {
    .name = "budget",
    .fields = budget_fields,
    .count = sizeof budget_fields / sizeof budget_fields[0],
    .size = sizeof(struct budget),
    .check = check_budget,
};

/* A number of seconds, or a whole budget. */
static enum mosaic_status parse_either(struct binder *binder, const struct field *field,
                                       const struct node *node, void *target) {
    struct plan *plan = (struct plan *)(void *)((char *)target - field->offset);
    if (node->kind == NODE_SCALAR) {
        struct field number = *field;
        number.kind = FIELD_QUANTITY;
        number.dimension = DIM_TIME;
        plan->form = 1;
        return binder_value(binder, &number, node, &plan->either.duration_s);
    }
    plan->form = 2;
    return binder_mapping(binder, &budget_schema, node, target);
}

static const struct field plan_fields[] = {
    {.key = "nodes",
     .kind = FIELD_INT,
     .flags = FIELD_REQUIRED,
     .min = 1,
     .max = 65536,
     FIELD_AT(struct plan, nodes),
     .help = "nodes"},
    {.key = "dry",
     .kind = FIELD_BOOL,
     FIELD_AT(struct plan, is_dry),
     .fallback = "false",
     .help = "dry"},
    {.key = "title",
     .kind = FIELD_STRING,
     FIELD_AT(struct plan, title),
     .fallback = "'un: titled'",
     .help = "title"},
    {.key = "ratio",
     .kind = FIELD_NUMBER,
     FIELD_AT(struct plan, ratio),
     .min = -1,
     .max = 1,
     .help = "ratio"},
    {.key = "memory",
     .kind = FIELD_QUANTITY,
     .dimension = DIM_BYTES,
     FIELD_AT(struct plan, memory_bytes),
     .fallback = "192 GB",
     .help = "memory"},
    {.key = "tokens",
     .kind = FIELD_NUMBER,
     .dimension = DIM_COUNT,
     .flags = FIELD_NONE_OK,
     .none = -1,
     FIELD_AT(struct plan, tokens),
     .fallback = "none",
     .help = "tokens"},
    {.key = "precision",
     .kind = FIELD_ENUM,
     .words = precision_words,
     FIELD_AT(struct plan, precision),
     .fallback = "bf16",
     .help = "precision"},
    {.key = "sparsity",
     .kind = FIELD_RANGE,
     .dimension = DIM_FRACTION,
     FIELD_AT(struct plan, sparsity),
     .fallback = "[0.7, 0.981]",
     .help = "sparsity"},
    {.key = "q",
     .kind = FIELD_LIST,
     .item = FIELD_INT,
     .flags = FIELD_UNIQUE,
     .min = 1,
     .max = 64,
     FIELD_AT(struct plan, q),
     .fallback = "[8, 10]",
     .help = "seeds"},
    {.key = "recompute",
     .kind = FIELD_LIST,
     .item = FIELD_ENUM,
     .words = recompute_words,
     FIELD_AT(struct plan, recompute),
     .fallback = "[none, full]",
     .help = "policies"},
    {.key = "sizes",
     .kind = FIELD_LIST,
     .item = FIELD_QUANTITY,
     .dimension = DIM_BYTES,
     .flags = FIELD_EMPTY_OK,
     .max_count = 4,
     FIELD_AT(struct plan, sizes),
     .help = "sizes"},
    {.key = "names",
     .kind = FIELD_LIST,
     .item = FIELD_STRING,
     .flags = FIELD_UNIQUE,
     FIELD_AT(struct plan, names),
     .help = "names"},
    {.key = "tiers",
     .kind = FIELD_LIST,
     .item = FIELD_MAPPING,
     .nested = &tier_schema,
     FIELD_AT(struct plan, tiers),
     .help = "tiers"},
    {.key = "budget",
     .kind = FIELD_MAPPING,
     .nested = &budget_schema,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct plan, budget),
     .help = "budget"},
    {.key = "spare",
     .kind = FIELD_MAPPING,
     .nested = &budget_schema,
     FIELD_AT(struct plan, spare),
     FIELD_PRESENCE(struct plan, has_spare),
     .help = "spare"},
    {.key = "limit",
     .kind = FIELD_QUANTITY,
     .dimension = DIM_FLOP,
     .flags = FIELD_NONE_OK,
     FIELD_AT(struct plan, limit),
     .help = "limit"},
    {.key = "either",
     .kind = FIELD_CUSTOM,
     .parse = parse_either,
     .forms = "a time, or a budget",
     FIELD_AT(struct plan, either),
     .help = "either"},
    {.key = "free", .kind = FIELD_FREE, FIELD_AT(struct plan, free), .help = "free"},
};
static const struct schema plan_schema =
    SCHEMA_DOCUMENT("plan", "test-plan/1", struct plan, plan_fields);

static struct diag_list said;
static void *memory;
static struct plan plan;
static struct bound_list bound;

static int set_up(void **state) {
    (void)state;
    memory = talloc_new(NULL);
    memset(&plan, 0, sizeof plan);
    memset(&bound, 0, sizeof bound);
    diag_init(&said);
    return memory ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    talloc_free(memory);
    return 0;
}

static struct yaml_tree *parse(const char *text) {
    struct source *source = NULL;
    struct yaml_tree *tree = NULL;
    assert_int_equal(source_from_text(memory, "p.yaml", text, strlen(text), &source, &said),
                     MOSAIC_OK);
    assert_int_equal(yaml_tree_parse(memory, source, &tree, &said), MOSAIC_OK);
    return tree;
}

static enum mosaic_status bind(const char *text) {
    return schema_bind(memory, &plan_schema, parse(text)->root, &plan, &bound, &said);
}

static const struct bound_field *origin_of(const char *path) {
    for (size_t i = 0; i < bound.count; i++) {
        if (strcmp(bound.items[i].path, path) == 0)
            return &bound.items[i];
    }
    fail_msg("no origin of %s", path);
    return NULL;
}

static void binds_what_is_given(void **state) {
    (void)state;
    assert_int_equal(
        bind("schema: test-plan/1\nnodes: 32\ndry: true\ntitle: x y\nratio: -1\nmemory: 186 GiB\n"
             "tokens: 1.4 T\nprecision: fp8\nsparsity: 0.9\nq: [12, 8]\nrecompute: selective\n"
             "sizes: [1 B, 2 KiB]\nnames: [b, a]\n"
             "tiers:\n  - {name: n, bandwidth: 900 GB/s}\n"
             "  - {name: ib, bandwidth: 400 Gb/s, latency: 5 us}\n"
             "budget: {days: 20 d, goodput: 90 %}\nspare: {days: 1 h}\nlimit: 3.3e21 FLOP\n"
             "either: 5 s\nfree: {x: [1]}\n"),
        MOSAIC_OK);
    assert_int_equal(plan.nodes, 32);
    assert_true(plan.is_dry);
    assert_string_equal(plan.title, "x y");
    assert_close(plan.ratio, -1.0, 0);
    assert_close(plan.memory_bytes, 186.0 * 1073741824.0, 0);
    assert_close(plan.tokens, 1.4e12, 0);
    assert_int_equal(plan.precision, PRECISION_FP8);
    assert_close(plan.sparsity.low, 0.9, 0);
    assert_close(plan.sparsity.high, 0.9, 0);
    assert_int_equal(plan.q.count, 2);
    assert_int_equal(plan.q.items[0], 8); /* sorted */
    assert_int_equal(plan.recompute.count, 1);
    assert_int_equal(plan.recompute.items[0], 1);
    assert_close(plan.sizes.items[1], 2048.0, 0);
    assert_string_equal(plan.names.items[0], "b"); /* texts keep their order */
    const struct tier *tiers = plan.tiers.items;
    assert_int_equal(plan.tiers.count, 2);
    assert_close(tiers[0].latency_s, 3e-6, 0);
    assert_close(tiers[1].bytes_per_s, 50e9, 0);
    assert_close(plan.budget.duration_s, 1728000.0, 0);
    assert_close(plan.budget.goodput, 0.9, 1e-15);
    assert_true(plan.budget.has_goodput);
    assert_true(plan.has_spare);
    assert_false(plan.spare.has_goodput);
    assert_close(plan.limit, 3.3e21, 0);
    assert_int_equal(plan.form, 1);
    assert_close(plan.either.duration_s, 5.0, 0);
    assert_int_equal(plan.free->kind, NODE_MAPPING);
}

static void falls_back_and_keeps_origins(void **state) {
    (void)state;
    struct yaml_tree *tree = parse("schema: test-plan/1\nnodes: 32\nbudget: {days: 20 d}\n"
                                   "tiers: [{name: n, bandwidth: 1 GB/s}]\neither: {days: 2 d}\n");
    assert_int_equal(yaml_tree_set(tree, "nodes", "64", NULL, &said), MOSAIC_OK);
    assert_int_equal(schema_bind(memory, &plan_schema, tree->root, &plan, &bound, &said),
                     MOSAIC_OK);
    assert_int_equal(plan.nodes, 64);
    assert_string_equal(plan.title, "un: titled");
    assert_close(plan.tokens, -1.0, 0);
    assert_close(plan.memory_bytes, 192e9, 0);
    assert_int_equal(plan.q.count, 2);
    assert_int_equal(plan.recompute.items[1], 2);
    assert_false(plan.has_spare);
    assert_null(plan.sizes.items);
    assert_int_equal(plan.form, 2);
    assert_int_equal(origin_of("nodes")->origin, ORIGIN_OVERRIDE);
    assert_string_equal(origin_of("nodes")->text, "64");
    assert_int_equal(origin_of("budget.days")->origin, ORIGIN_GIVEN);
    assert_int_equal(origin_of("budget.days")->place.line, 3);
    assert_int_equal(origin_of("tiers[0].latency")->origin, ORIGIN_DEFAULT);
    assert_string_equal(origin_of("tiers[0].latency")->text, "3 us");
    assert_string_equal(origin_of("tiers[0].latency")->field->help, "latency");
    assert_int_equal(origin_of("q")->origin, ORIGIN_DEFAULT);
    assert_string_equal(origin_of("q")->text, "[8, 10]");
    assert_string_equal(origin_of("either.days")->text, "2 d");
    for (size_t i = 0; i < bound.count; i++) { /* absent without a default is not there */
        assert_string_not_equal(bound.items[i].path, "ratio");
        assert_string_not_equal(bound.items[i].path, "spare");
    }
}

struct refusal {
    const char *line; /* goes in as line 3 */
    long column;
    const char *says, *hint;
};

static const struct refusal refusals[] = {
    {"nodez: 1", 1, "unknown key 'nodez'", "did you mean 'nodes'?"},
    {"spare: {day: 1 d}", 9, "unknown key 'day' in 'spare'", "did you mean 'days'?"},
    {"spare: {zzzz: 1, days: 1 d}", 9, "unknown key 'zzzz' in 'spare'",
     "known keys: days, goodput"},
    {"tiers: [{bandwith: 1 GB/s, name: x}]", 10, "unknown key 'bandwith' in 'tiers[0]'",
     "did you mean 'bandwidth'?"},
    {"tiers: [{name: x}]", 9, "missing key 'bandwidth' in 'tiers[0]'", "bandwidth, e.g. 400 Gb/s"},
    {"spare: {}", 1, "missing key 'days' in 'spare'", "e.g. 27 us"},
    {"spare: 5", 8, "'spare' must be a mapping, not a scalar", ""},
    {"spare: [1]", 8, "'spare' must be a mapping, not a list", ""},
    {"tiers: {name: x}", 8, "'tiers' must not be a mapping", "list"},
    {"tiers: x", 8, "'tiers' must not be a scalar", "list"},
    {"tiers: [x]", 9, "'tiers[0]' must be a mapping", ""},
    {"tiers: []", 8, "'tiers' must not be empty", ""},
    {"dry: yes", 6, "'dry' must be true or false, not yes", ""},
    {"dry: 'true'", 6, "'dry' must be true or false, not the text true", ""},
    {"dry: [true]", 6, "'dry' must not be a list", ""},
    {"title:", 7, "'title' has no value", "text"},
    {"title: ''", 8, "'title' must not be empty", ""},
    {"title: [a]", 8, "'title' must not be a list", ""},
    {"ratio: '0.5'", 8, "'ratio' is a text in quotes", "remove the quotes"},
    {"ratio: 1.5", 8, "'ratio' must be -1 to 1, not 1.5", ""},
    {"ratio: .nan", 8, "ratio: '.nan' is not a finite number", ""},
    {"ratio: 010", 8, "ratio: '010' starts with a zero", "octal"},
    {"ratio: 1:30", 8, "is not a decimal number", "base-60"},
    {"ratio: none", 8, "is not a decimal number", ""},
    {"memory: 192", 9, "memory: '192' has no unit; a size in bytes is due, e.g. 192 GB", ""},
    {"memory: 27 us", 9, "is a time, but a size in bytes is due", ""},
    {"memory: -1 GB", 9, "'memory' must be at least 0 B, not -1 GB", ""},
    {"tokens: 1.5", 9, "whole number", ""},
    {"tokens: nope", 9, "is not a decimal number", ""},
    {"precision: fp9", 12, "'precision' cannot be 'fp9'", "did you mean 'fp8'?"},
    {"precision: double", 12, "'precision' cannot be 'double'", "one of bf16, fp8"},
    {"sparsity: [0.9, 0.7]", 11, "runs from the larger", ""},
    {"sparsity: [0.9]", 11, "'sparsity' must be [low, high] or one value", ""},
    {"sparsity: [0.9, 97]", 17, "'sparsity' must be 0 to 1, not 97", "90 %"},
    {"q: [8, 8]", 4, "'q' names a value twice", ""},
    {"q: [8, 65]", 8, "'q[1]' must be 1 to 64, not 65", ""},
    {"q: [8, 1.5]", 8, "'q[1]' must be a whole number", ""},
    {"q: [[8]]", 5, "'q[0]' must not be a list", "whole number"},
    {"q: {from: 8}", 1, "missing key 'to' in 'q'", ""},
    {"q: {from: 8, to: 12}", 4, "needs either a step or a factor", ""},
    {"q: {from: 8, to: 12, step: 2, factor: 2}", 4, "needs either a step or a factor", ""},
    {"q: {from: 8, to: 4, step: 2}", 4, "runs from the larger", ""},
    {"q: {from: 8, to: 99, step: 2}", 4, "'q' must be 1 to 64", ""},
    {"q: {from: 8, to: 12, step: 0}", 28, "'q.step' must be at least 1, not 0", ""},
    {"recompute: [none, ful]", 19, "'recompute[1]' cannot be 'ful'", "did you mean 'full'?"},
    {"sizes: [1 B, 2 B, 3 B, 4 B, 5 B]", 8, "'sizes' has 5 items, at most 4 are taken", ""},
    {"sizes: [1 B, 2 s]", 14, "sizes[1]: '2 s' is a time", ""},
    {"names: [a, a]", 8, "'names' names a value twice", ""},
    {"spare: {days: 0 d}", 15, "'spare.days' must be above 0 s, not 0 d", ""},
    {"spare: {days: 101 d}", 15, "'spare.days' is over 100 days", ""},
    {"spare: {days: 1 d, goodput: 1.2}", 29, "'spare.goodput' must be above 0 and at most 1",
     "90 %"},
    {"either: [1]", 9, "'either' must be a mapping, not a list", ""},
    {"either: 5", 9, "either: '5' has no unit", ""},
    {"limit: 3.3e21", 8, "has no unit", ""},
};

static void refuses_with_place_and_hint(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *r = &refusals[i];
        diag_init(&said);
        char *text = talloc_asprintf(
            memory, "schema: test-plan/1\nnodes: 4\n%s\nbudget: {days: 1 d}\n", r->line);
        const enum mosaic_status status = bind(text);
        if (status != MOSAIC_BAD_INPUT)
            fail_msg("taken: %s", r->line);
        const struct diag *diag = &said.items[0];
        if (diag->line != 3 || diag->column != r->column || !strstr(diag->message, r->says) ||
            !strstr(diag->hint, r->hint))
            fail_msg("'%s' says %ld:%ld: %s; %s", r->line, diag->line, diag->column, diag->message,
                     diag->hint);
    }
}

static void root_refusals(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"nodes: -4\nbudget: {days: 1 d}", "'nodes' must be 1 to 65536, not -4"},
        {"nodes: 0\nbudget: {days: 1 d}", "'nodes' must be 1 to 65536, not 0"},
        {"nodes: 1e30\nbudget: {days: 1 d}", "'nodes' must be 1 to 65536, not 1e30"},
        {"budget: {days: 1 d}", "missing key 'nodes'"},
        {"nodes: 4", "missing key 'budget'"},
        {"[1]", "'plan' must be a mapping, not a list"},
        {"word", "'plan' must be a mapping, not a scalar"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        diag_init(&said);
        assert_int_equal(bind(cases[i].text), MOSAIC_BAD_INPUT);
        assert_string_equal(said.items[0].message, cases[i].says);
    }
}

static void all_errors_at_once(void **state) {
    (void)state;
    assert_int_equal(bind("nodes: 0\ndry: no\nmemory: 3\nq: [a, b]\nbudget: {dayz: 1}\n"),
                     MOSAIC_BAD_INPUT);
    assert_int_equal(said.errors, 7);
}

static void zero_needs_no_unit_where_it_is_taken(void **state) {
    (void)state;
    plan.memory_bytes = 7;
    assert_int_equal(bind("nodes: 4\nbudget: {days: 1 d}\nmemory: 0\n"), MOSAIC_OK);
    assert_close(plan.memory_bytes, 0.0, 0);
    assert_int_equal(bind("nodes: 4\nbudget: {days: 0}\n"), MOSAIC_BAD_INPUT);
    assert_non_null(strstr(said.items[0].message, "has no unit"));
}

static void none_is_a_word_where_it_is_due(void **state) {
    (void)state;
    plan.limit = 7;
    assert_int_equal(bind("nodes: 4\nbudget: {days: 1 d}\nlimit: none\nrecompute: none\n"),
                     MOSAIC_OK);
    assert_close(plan.limit, 0.0, 0);
    assert_int_equal(plan.recompute.items[0], 0);
    assert_string_equal(origin_of("limit")->text, "none");
}

static void progressions(void **state) {
    (void)state;
    assert_int_equal(bind("nodes: 4\nbudget: {days: 1 d}\nq: {from: 8, to: 13, step: 2}\n"),
                     MOSAIC_OK);
    assert_int_equal(plan.q.count, 3);
    assert_int_equal(plan.q.items[2], 12);
    assert_string_equal(origin_of("q")->text, "{from: 8, to: 13, step: 2}");
    assert_int_equal(bind("nodes: 4\nbudget: {days: 1 d}\nq: {from: 1, to: 64, factor: 4}\n"),
                     MOSAIC_OK);
    assert_int_equal(plan.q.count, 4);
    assert_int_equal(plan.q.items[3], 64);
}

static void prefix_stands_before_paths(void **state) {
    (void)state;
    struct bound_list below = {.prefix = "cluster"};
    struct budget budget = {0};
    assert_int_equal(
        schema_bind(memory, &budget_schema, parse("days: 1 d\n")->root, &budget, &below, &said),
        MOSAIC_OK);
    assert_string_equal(below.items[0].path, "cluster.days");
    assert_int_equal(
        schema_bind(memory, &budget_schema, parse("days: 1\n")->root, &budget, NULL, &said),
        MOSAIC_BAD_INPUT);
}

static void overrides_are_blamed_by_name(void **state) {
    (void)state;
    struct yaml_tree *tree = parse("nodes: 4\nbudget: {days: 1 d}\n");
    assert_int_equal(yaml_tree_set(tree, "budget.days", "xx", NULL, &said), MOSAIC_OK);
    assert_int_equal(yaml_tree_set(tree, "budgett", "1", NULL, &said), MOSAIC_OK);
    assert_int_equal(schema_bind(memory, &plan_schema, tree->root, &plan, NULL, &said),
                     MOSAIC_BAD_INPUT);
    char *text = diag_text(memory, &said, false);
    assert_non_null(strstr(text, "--set budgett=1: error: unknown key 'budgett'; did you mean "
                                 "'budget'?\n"));
    assert_non_null(
        strstr(text, "--set budget.days=xx: error: budget.days: 'xx' is not a decimal"));
}

static void documents_are_named(void **state) {
    (void)state;
    static const char *const documents[] = {"test-plan/1", "test-cluster/1"};
    static const struct {
        const char *text, *says, *hint;
    } cases[] = {
        {"a: 1", "missing key 'schema'", "start with 'schema: test-plan/1'"},
        {"[a]", "a document is a mapping", ""},
        {"schema: test-plan/2", "is of another version", "this version reads 'test-plan/1'"},
        {"schema: test-plan", "is of another version", "test-plan/1"},
        {"schema: test-clutser/1", "unknown schema", "did you mean 'test-cluster/1'?"},
        {"schema: zzz", "unknown schema 'zzz'", "write 'test-plan/1'"},
        {"schema: [x]", "'schema' must be a text", ""},
    };
    size_t which = 9;
    assert_int_equal(
        schema_document(parse("schema: test-cluster/1\n")->root, documents, 2, &which, &said),
        MOSAIC_OK);
    assert_int_equal(which, 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        diag_init(&said);
        assert_int_equal(schema_document(parse(cases[i].text)->root, documents, 2, &which, &said),
                         MOSAIC_BAD_INPUT);
        assert_non_null(strstr(said.items[0].message, cases[i].says));
        assert_non_null(strstr(said.items[0].hint, cases[i].hint));
    }
}

static void append_path(void *context, const char *path, const struct field *field) {
    char type[256], range[128];
    char **out = context;
    field_type_text(field, type, sizeof type);
    field_range_text(field, range, sizeof range);
    *out = talloc_asprintf_append(*out, "%s: %s [%s]\n", path, type, range);
}

static void tables_describe_themselves(void **state) {
    (void)state;
    char *text = talloc_strdup(memory, "");
    schema_walk(&plan_schema, append_path, &text);
    static const char *const lines[] = {
        "nodes: whole number [1 to 65536]\n",
        "dry: true or false []\n",
        "memory: size in bytes, e.g. 192 GB [at least 0 B]\n",
        "tokens: count, e.g. 1024, or none [at least 0]\n",
        "precision: one of bf16, fp8 []\n",
        "sparsity: [low, high] or one value; fraction, e.g. 0.9 or 90 % [0 to 1]\n",
        "q: list: whole number, or {from, to, step | factor} [1 to 64]\n",
        "tiers: list: mapping []\n",
        "tiers[].bandwidth: bandwidth, e.g. 400 Gb/s [above 0 B/s]\n",
        "budget.goodput: fraction, e.g. 0.9 or 90 % [above 0 and at most 1]\n",
        "either: a time, or a budget []\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (!strstr(text, lines[i]))
            fail_msg("missing '%s' in\n%s", lines[i], text);
    }
}

static void tables_are_checked(void **state) {
    (void)state;
    struct status_error err = {0};
    if (schema_self_check(&plan_schema, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    static const struct field faults[] = {
        {.key = "a", .kind = FIELD_INT, .fallback = "x", .help = "h"},
        {.key = "a", .kind = FIELD_INT, .fallback = "[1", .help = "h"},
        {.key = "a", .kind = FIELD_INT, .min = 1, .max = 2, .fallback = "3", .help = "h"},
        {.key = "a", .kind = FIELD_ENUM, .help = "h"},
        {.key = "a", .kind = FIELD_MAPPING, .help = "h"},
        {.key = "a", .kind = FIELD_CUSTOM, .help = "h"},
        {.key = "a", .kind = FIELD_INT},
        {.key = "a", .kind = FIELD_LIST, .item = FIELD_BOOL, .help = "h"},
        {.key = "a", .kind = FIELD_INT, .offset = 100, .help = "h"},
        {.key = "a", .kind = FIELD_INT, .flags = FIELD_REQUIRED, .fallback = "1", .help = "h"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        const struct schema one = {.name = "t", .fields = &faults[i], .count = 1, .size = 16};
        assert_int_equal(schema_self_check(&one, &err), MOSAIC_INTERNAL);
    }
    const struct field twice[] = {{.key = "a", .help = "h"}, {.key = "a", .help = "h"}};
    const struct schema doubled = {.name = "t", .fields = twice, .count = 2, .size = 16};
    assert_int_equal(schema_self_check(&doubled, &err), MOSAIC_INTERNAL);
    assert_string_equal(err.message, "t.a is in the table twice");
}

#define BINDER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        BINDER_TEST(binds_what_is_given),
        BINDER_TEST(falls_back_and_keeps_origins),
        BINDER_TEST(refuses_with_place_and_hint),
        BINDER_TEST(root_refusals),
        BINDER_TEST(all_errors_at_once),
        BINDER_TEST(zero_needs_no_unit_where_it_is_taken),
        BINDER_TEST(none_is_a_word_where_it_is_due),
        BINDER_TEST(progressions),
        BINDER_TEST(prefix_stands_before_paths),
        BINDER_TEST(overrides_are_blamed_by_name),
        BINDER_TEST(documents_are_named),
        BINDER_TEST(tables_describe_themselves),
        BINDER_TEST(tables_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
