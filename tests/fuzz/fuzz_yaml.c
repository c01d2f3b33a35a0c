// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Documents from arbitrary texts, through source, tree, override and binder with a table of every
 * kind of field.  A failure has a diagnostic, and what is bound is finite.
 */
#include "text/schema.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct inner {
    const char *name;
    double bytes_per_s;
};
struct outer {
    int nodes, mode;
    bool is_dry;
    double days_s, ratio;
    struct number_range range;
    struct int_list ints, modes;
    struct number_list sizes;
    struct string_list names;
    struct record_list tiers;
    struct inner inner;
    const struct node *free;
};

static const char *const words[] = {"bf16", "fp8", NULL};
static const struct field inner_fields[] = {
    {.key = "n", .kind = FIELD_STRING, .flags = FIELD_REQUIRED, FIELD_AT(struct inner, name)},
    {.key = "b",
     .kind = FIELD_QUANTITY,
     .dimension = DIM_BYTES_PER_S,
     .fallback = "400 Gb/s",
     FIELD_AT(struct inner, bytes_per_s)},
};
static const struct schema inner_schema = SCHEMA("inner", struct inner, inner_fields);
static const struct field outer_fields[] = {
    {.key = "nodes", .kind = FIELD_INT, .min = 1, .max = 99, FIELD_AT(struct outer, nodes)},
    {.key = "mode", .kind = FIELD_ENUM, .words = words, FIELD_AT(struct outer, mode)},
    {.key = "dry", .kind = FIELD_BOOL, FIELD_AT(struct outer, is_dry)},
    {.key = "days",
     .kind = FIELD_QUANTITY,
     .dimension = DIM_TIME,
     .flags = FIELD_NONE_OK,
     FIELD_AT(struct outer, days_s)},
    {.key = "ratio", .kind = FIELD_NUMBER, FIELD_AT(struct outer, ratio)},
    {.key = "range", .kind = FIELD_RANGE, .dimension = DIM_FRACTION, FIELD_AT(struct outer, range)},
    {.key = "ints",
     .kind = FIELD_LIST,
     .item = FIELD_INT,
     .flags = FIELD_UNIQUE,
     .fallback = "[1, 2]",
     FIELD_AT(struct outer, ints)},
    {.key = "modes",
     .kind = FIELD_LIST,
     .item = FIELD_ENUM,
     .words = words,
     FIELD_AT(struct outer, modes)},
    {.key = "sizes",
     .kind = FIELD_LIST,
     .item = FIELD_QUANTITY,
     .dimension = DIM_BYTES,
     .flags = FIELD_EMPTY_OK | FIELD_UNIQUE,
     FIELD_AT(struct outer, sizes)},
    {.key = "names",
     .kind = FIELD_LIST,
     .item = FIELD_STRING,
     .flags = FIELD_UNIQUE,
     FIELD_AT(struct outer, names)},
    {.key = "tiers",
     .kind = FIELD_LIST,
     .item = FIELD_MAPPING,
     .nested = &inner_schema,
     FIELD_AT(struct outer, tiers)},
    {.key = "inner", .kind = FIELD_MAPPING, .nested = &inner_schema, FIELD_AT(struct outer, inner)},
    {.key = "free", .kind = FIELD_FREE, FIELD_AT(struct outer, free)},
};
static const struct schema outer_schema =
    SCHEMA_DOCUMENT("outer", "fuzz/1", struct outer, outer_fields);

static struct diag_list said;

static void check(int holds) {
    if (!holds)
        abort();
}

static void bind(void *memory, const struct node *root) {
    static const char *const documents[] = {"fuzz/1"};
    struct outer outer;
    struct bound_list bound = {0};
    size_t which;
    memset(&outer, 0, sizeof outer);
    check(schema_document(root, documents, 1, &which, &said) == MOSAIC_OK || said.errors > 0);
    diag_init(&said);
    if (schema_bind(memory, &outer_schema, root, &outer, &bound, &said) != MOSAIC_OK) {
        check(said.errors > 0 && said.status == MOSAIC_BAD_INPUT);
        return;
    }
    check(isfinite(outer.ratio) && isfinite(outer.days_s));
    check(outer.ints.count >= 1 && outer.ints.items[0] <= outer.ints.items[outer.ints.count - 1]);
    for (size_t i = 0; i < bound.count; i++)
        check(bound.items[i].path != NULL && bound.items[i].text != NULL);
}

/* The first line of the text is "PATH=VALUE" of an override when it has a '='. */
static void override(struct yaml_tree *tree, const char *text) {
    char path[64];
    const size_t end = strcspn(text, "=\n");
    if (text[end] != '=' || end >= sizeof path)
        return;
    memcpy(path, text, end);
    path[end] = '\0';
    const size_t errors = said.errors;
    if (yaml_tree_set(tree, path, text + end + 1, NULL, &said) == MOSAIC_OK)
        check(node_at(tree->root, path) != NULL);
    else
        check(said.errors > errors);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    void *memory = talloc_new(NULL);
    struct source *source = NULL;
    struct yaml_tree *tree = NULL;
    diag_init(&said);
    const char *text = size > 0 ? (const char *)data : "";
    if (source_from_text(memory, "f.yaml", text, size, &source, &said) == MOSAIC_OK &&
        yaml_tree_parse(memory, source, &tree, &said) == MOSAIC_OK) {
        check(tree->root != NULL && said.errors == 0);
        check(node_text(memory, tree->root) != NULL);
        bind(memory, tree->root);
    } else {
        check(said.errors > 0);
    }
    check(diag_text(memory, &said, size % 2 == 0) != NULL);
    static const char plain[] = "nodes: 4\ninner: {n: x}\ntiers:\n  - {n: a}\n";
    struct source *other = NULL;
    diag_init(&said);
    check(source_from_text(memory, "p.yaml", plain, sizeof plain - 1, &other, &said) == MOSAIC_OK);
    check(yaml_tree_parse(memory, other, &tree, &said) == MOSAIC_OK);
    if (source) {
        override(tree, source->text);
        bind(memory, tree->root);
    }
    check(diag_text(memory, &said, false) != NULL);
    talloc_free(memory);
    return 0;
}
