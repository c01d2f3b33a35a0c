// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Scalars, ranges and lists.  A number in quotes is a text; only true and false are booleans; what
 * is out of range is reported with the range.
 */
#include "text/binder.h"

#include "base/suggest.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>

enum { RANGE_TEXT_MAX = 128, TYPE_TEXT_MAX = 256 };

struct number_range field_bounds(const struct field *field, bool *is_open_min) {
    const bool has_open = (field->flags & FIELD_OPEN_MIN) != 0;
    const bool has_min = fabs(field->min) > 0, has_max = fabs(field->max) > 0;
    struct number_range range = {-HUGE_VAL, HUGE_VAL};
    *is_open_min = has_open;
    if (has_min || has_max || has_open) {
        range.low = field->min;
        /* 0 is an upper end only below a negative lower one. */
        if (has_max || field->min < 0)
            range.high = field->max;
    } else if (field->dimension == DIM_FRACTION) {
        range = (struct number_range){0, 1};
    } else if (field->dimension != DIM_NUMBER) {
        range.low = 0;
    }
    return range;
}

/* Scalars. */

static enum mosaic_status refuse_kind(struct binder *b, const struct field *field,
                                      const struct node *node) {
    char type[TYPE_TEXT_MAX];
    field_type_text(field, type, sizeof type);
    (void)binder_error(b, node, "'%s' must not be %s", binder_path(b), node_kind_text(node));
    binder_hint(b, "expected: %s", type);
    return MOSAIC_BAD_INPUT;
}

static enum mosaic_status refuse_range(struct binder *b, const struct field *field,
                                       const struct node *node) {
    char range[RANGE_TEXT_MAX], shown[STATUS_QUOTE_MAX];
    field_range_text(field, range, sizeof range);
    (void)binder_error(b, node, "'%s' must be %s, not %s", binder_path(b), range,
                       status_quote(node->text, shown, sizeof shown));
    if (field->dimension == DIM_FRACTION && field->max <= 1)
        binder_hint(b, "a percentage carries its sign: 90 %%");
    return MOSAIC_BAD_INPUT;
}

static bool in_range(const struct field *field, double value) {
    bool is_open_min;
    const struct number_range range = field_bounds(field, &is_open_min);
    return (is_open_min ? value > range.low : value >= range.low) && value <= range.high;
}

static enum mosaic_status read_double(struct binder *b, const struct field *field,
                                      const struct node *node, double *out) {
    struct status_error err;
    double value;
    if (node->kind != NODE_SCALAR)
        return refuse_kind(b, field, node);
    if (node->is_quoted) {
        (void)binder_error(b, node, "'%s' is a text in quotes, not a %s", binder_path(b),
                           units_name(field->dimension));
        binder_hint(b, "remove the quotes");
        return MOSAIC_BAD_INPUT;
    }
    if (strcmp(node->text, "0") == 0 && in_range(field, 0.0)) { /* whatever the unit */
        *out = 0.0;
        return MOSAIC_OK;
    }
    if (units_parse(node->text, field->dimension, &value, &err) != MOSAIC_OK) {
        (void)binder_error(b, node, "%s: %s", binder_path(b), err.message);
        if (err.hint[0])
            binder_hint(b, "%s", err.hint);
        return MOSAIC_BAD_INPUT;
    }
    if (!in_range(field, value))
        return refuse_range(b, field, node);
    *out = value;
    return MOSAIC_OK;
}

static enum mosaic_status read_int(struct binder *b, const struct field *field,
                                   const struct node *node, int *out) {
    char shown[STATUS_QUOTE_MAX];
    double value;
    TRY(read_double(b, field, node, &value));
    if (value < floor(value) || value > floor(value))
        return binder_error(b, node, "'%s' must be a whole number, not %s", binder_path(b),
                            status_quote(node->text, shown, sizeof shown));
    if (value < INT_MIN || value > INT_MAX)
        return binder_error(b, node, "'%s' is too large: %s", binder_path(b),
                            status_quote(node->text, shown, sizeof shown));
    *out = (int)value;
    return MOSAIC_OK;
}

static enum mosaic_status read_bool(struct binder *b, const struct field *field,
                                    const struct node *node, bool *out) {
    char shown[STATUS_QUOTE_MAX];
    if (node->kind != NODE_SCALAR)
        return refuse_kind(b, field, node);
    const bool is_true = strcmp(node->text, "true") == 0;
    if (node->is_quoted || (!is_true && strcmp(node->text, "false") != 0))
        return binder_error(b, node, "'%s' must be true or false, not %s%s", binder_path(b),
                            node->is_quoted ? "the text " : "",
                            status_quote(node->text, shown, sizeof shown));
    *out = is_true;
    return MOSAIC_OK;
}

static size_t word_count(const struct field *field) {
    size_t count = 0;
    while (field->words[count])
        count++;
    return count;
}

static enum mosaic_status read_word(struct binder *b, const struct field *field,
                                    const struct node *node, int *out) {
    if (node->kind != NODE_SCALAR)
        return refuse_kind(b, field, node);
    const size_t count = word_count(field);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(node->text, field->words[i]) == 0) {
            *out = (int)i;
            return MOSAIC_OK;
        }
    }
    char shown[STATUS_QUOTE_MAX], type[TYPE_TEXT_MAX];
    (void)binder_error(b, node, "'%s' cannot be '%s'", binder_path(b),
                       status_quote(node->text, shown, sizeof shown));
    const char *near = suggest(node->text, field->words, count);
    field_type_text(field, type, sizeof type);
    if (near)
        binder_hint(b, "did you mean '%s'?", near);
    else
        binder_hint(b, "expected: %s", type);
    return MOSAIC_BAD_INPUT;
}

static enum mosaic_status read_string(struct binder *b, const struct field *field,
                                      const struct node *node, const char **out) {
    if (node->kind != NODE_SCALAR)
        return refuse_kind(b, field, node);
    if (node->text[0] == '\0' && !(field->flags & FIELD_EMPTY_OK))
        return binder_error(b, node, "'%s' must not be empty", binder_path(b));
    /* Texts go to terminals, which obey control characters. */
    for (const char *at = node->text; *at; ++at)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            return binder_error(b, node, "'%s' holds a control character", binder_path(b));
    const char *copy = talloc_strdup(b->memory, node->text);
    if (!copy)
        return binder_no_memory(b);
    *out = copy;
    return MOSAIC_OK;
}

enum mosaic_status bind_scalar(struct binder *b, const struct field *field, const struct node *node,
                               void *target) {
    switch (field->kind) {
    case FIELD_STRING:
        return read_string(b, field, node, target);
    case FIELD_BOOL:
        return read_bool(b, field, node, target);
    case FIELD_INT:
        return read_int(b, field, node, target);
    case FIELD_NUMBER:
    case FIELD_QUANTITY:
        return read_double(b, field, node, target);
    case FIELD_ENUM:
        return read_word(b, field, node, target);
    case FIELD_RANGE:
    case FIELD_LIST:
    case FIELD_MAPPING:
    case FIELD_CUSTOM:
    case FIELD_FREE:
        break;
    }
    return MOSAIC_INTERNAL;
}

enum mosaic_status bind_range(struct binder *b, const struct field *field, const struct node *node,
                              void *target) {
    struct number_range range;
    if (node->kind == NODE_SCALAR) {
        TRY(read_double(b, field, node, &range.low));
        range.high = range.low;
    } else if (node->kind == NODE_SEQUENCE && node->count == 2) {
        TRY(read_double(b, field, node->items[0], &range.low));
        TRY(read_double(b, field, node->items[1], &range.high));
        if (range.low > range.high)
            return binder_error(b, node, "'%s' runs from the larger to the smaller end",
                                binder_path(b));
    } else {
        (void)binder_error(b, node, "'%s' must be [low, high] or one value", binder_path(b));
        return MOSAIC_BAD_INPUT;
    }
    *(struct number_range *)target = range;
    return MOSAIC_OK;
}

/* Lists. */

static enum mosaic_status check_length(struct binder *b, const struct field *field,
                                       const struct node *node, size_t count) {
    const size_t most = field->max_count > 0 ? field->max_count : SCHEMA_MAX_ITEMS;
    if (count == 0 && !(field->flags & FIELD_EMPTY_OK))
        return binder_error(b, node, "'%s' must not be empty", binder_path(b));
    if (count > most)
        return binder_error(b, node, "'%s' has %zu items, at most %zu are taken", binder_path(b),
                            count, most);
    return MOSAIC_OK;
}

static size_t item_size(const struct field *field) {
    switch (field->item) {
    case FIELD_INT:
    case FIELD_ENUM:
        return sizeof(int);
    case FIELD_NUMBER:
    case FIELD_QUANTITY:
        return sizeof(double);
    case FIELD_STRING:
        return sizeof(const char *);
    case FIELD_MAPPING:
        return field->nested->size;
    case FIELD_BOOL:
    case FIELD_RANGE:
    case FIELD_LIST:
    case FIELD_CUSTOM:
    case FIELD_FREE:
        break;
    }
    return 0;
}

static void store_list(const struct field *field, void *target, void *items, size_t count) {
    if (field->item == FIELD_MAPPING)
        *(struct record_list *)target = (struct record_list){count, items};
    else if (field->item == FIELD_STRING)
        *(struct string_list *)target = (struct string_list){count, items};
    else if (field->item == FIELD_INT || field->item == FIELD_ENUM)
        *(struct int_list *)target = (struct int_list){.count = count, .items = items};
    else
        *(struct number_list *)target = (struct number_list){count, items};
}

/* Integers by rule: {from, to, step} or {from, to, factor}, and `not` among them. */
struct progression {
    int from, to, step, factor;
    bool has_step, has_factor;
    struct int_list except;
};

#define EXCEPT_FIELD(type, member, flag)                                                           \
    {                                                                                              \
        .key = "not", .kind = FIELD_LIST, .item = FIELD_INT, .flags = FIELD_UNIQUE | (flag),       \
        FIELD_AT(type, member), .help = "values that are never taken"                              \
    }

static const struct field progression_fields[] = {
    {.key = "from",
     .kind = FIELD_INT,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct progression, from),
     .help = "first value"},
    {.key = "to",
     .kind = FIELD_INT,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct progression, to),
     .help = "no value is above this"},
    {.key = "step",
     .kind = FIELD_INT,
     FIELD_AT(struct progression, step),
     FIELD_PRESENCE(struct progression, has_step),
     .min = 1,
     .help = "each value is this much above the last"},
    {.key = "factor",
     .kind = FIELD_INT,
     FIELD_AT(struct progression, factor),
     FIELD_PRESENCE(struct progression, has_factor),
     .min = 2,
     .help = "each value is this many times the last"},
    EXCEPT_FIELD(struct progression, except, 0U),
};
static const struct schema progression_schema =
    SCHEMA("progression", struct progression, progression_fields);

static const struct field except_fields[] = {
    EXCEPT_FIELD(struct progression, except, (unsigned)FIELD_REQUIRED)};
static const struct schema except_schema = SCHEMA("except", struct progression, except_fields);

/* The list is kept as one value. */
static enum mosaic_status read_rule(struct binder *b, const struct schema *schema,
                                    const struct node *node, struct progression *rule) {
    struct bound_list *const bound = b->bound;
    memset(rule, 0, sizeof *rule);
    b->bound = NULL;
    const enum mosaic_status status = binder_mapping(b, schema, node, rule);
    b->bound = bound;
    return status;
}

static enum mosaic_status read_progression(struct binder *b, const struct field *field,
                                           const struct node *node, struct progression *rule) {
    TRY(read_rule(b, &progression_schema, node, rule));
    if (rule->has_step == rule->has_factor)
        return binder_error(b, node, "'%s' needs either a step or a factor", binder_path(b));
    if (rule->from > rule->to)
        return binder_error(b, node, "'%s' runs from the larger to the smaller end",
                            binder_path(b));
    if (rule->has_factor && rule->from < 1)
        return binder_error(b, node, "'%s' with a factor must start at 1 or more", binder_path(b));
    if (!in_range(field, rule->from) || !in_range(field, rule->to)) {
        char range[RANGE_TEXT_MAX];
        field_range_text(field, range, sizeof range);
        return binder_error(b, node, "'%s' must be %s", binder_path(b), range);
    }
    return MOSAIC_OK;
}

static bool is_listed(const struct int_list *list, int value) {
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i] == value)
            return true;
    return false;
}

static enum mosaic_status bind_progression(struct binder *b, const struct field *field,
                                           const struct node *node, void *target) {
    struct progression rule;
    TRY(read_progression(b, field, node, &rule));
    size_t count = 0;
    for (long value = rule.from; value <= rule.to && count <= SCHEMA_MAX_ITEMS; count++)
        value = rule.has_step ? value + rule.step : value * rule.factor;
    TRY(check_length(b, field, node, count));
    int *items = talloc_array(b->memory, int, (unsigned)count);
    if (!items)
        return binder_no_memory(b);
    size_t kept = 0;
    long value = rule.from;
    for (size_t i = 0; i < count; i++) {
        if (!is_listed(&rule.except, (int)value))
            items[kept++] = (int)value;
        value = rule.has_step ? value + rule.step : value * rule.factor;
    }
    if (kept == 0)
        return binder_error(b, node, "'%s': its `not` leaves no value", binder_path(b));
    store_list(field, target, items, kept);
    return MOSAIC_OK;
}

/* {not: [...]}: whatever may be, but for these. */
static enum mosaic_status bind_except(struct binder *b, const struct field *field,
                                      const struct node *node, void *target) {
    struct progression rule;
    TRY(read_rule(b, &except_schema, node, &rule));
    TRY(check_length(b, field, node, rule.except.count));
    *(struct int_list *)target =
        (struct int_list){.forbidden_count = rule.except.count, .forbidden = rule.except.items};
    return MOSAIC_OK;
}

static enum mosaic_status bind_items(struct binder *b, const struct field *item,
                                     const struct node *node, char *items, size_t size) {
    enum mosaic_status status = MOSAIC_OK;
    const bool is_one = node->kind != NODE_SEQUENCE;
    const size_t count = is_one ? 1 : node->count;
    for (size_t i = 0; i < count; i++) {
        const size_t length = is_one ? strlen(b->path) : binder_push_index(b, i);
        const enum mosaic_status one =
            binder_value(b, item, is_one ? node : node->items[i], items + i * size);
        binder_pop(b, length);
        if (status == MOSAIC_OK)
            status = one;
    }
    return status;
}

static int compare_int(const void *left, const void *right) {
    const int a = *(const int *)left, b = *(const int *)right;
    return (a > b) - (a < b);
}

static int compare_double(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static int compare_string(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* FIELD_UNIQUE: numbers are sorted as well. */
static enum mosaic_status make_unique(struct binder *b, const struct field *field,
                                      const struct node *node, void *items, size_t count) {
    const size_t size = item_size(field);
    const bool is_string = field->item == FIELD_STRING;
    const bool is_int = field->item == FIELD_INT || field->item == FIELD_ENUM;
    int (*const compare)(const void *, const void *) = is_string ? compare_string
                                                       : is_int  ? compare_int
                                                                 : compare_double;
    char *sorted = is_string ? talloc_memdup(b->memory, items, count * size) : items;
    if (!sorted)
        return binder_no_memory(b);
    qsort(sorted, count, size, compare);
    for (size_t i = 1; i < count; i++) {
        if (compare(sorted + (i - 1) * size, sorted + i * size) == 0)
            return binder_error(b, node, "'%s' names a value twice", binder_path(b));
    }
    if (is_string)
        talloc_free(sorted);
    return MOSAIC_OK;
}

enum mosaic_status bind_list(struct binder *b, const struct field *field, const struct node *node,
                             void *target) {
    if (field->item == FIELD_INT && node->kind == NODE_MAPPING)
        return (field->flags & FIELD_EXCEPT_OK) && node_find(node, "not") &&
                       !node_find(node, "from")
                   ? bind_except(b, field, node, target)
                   : bind_progression(b, field, node, target);
    const bool is_record = field->item == FIELD_MAPPING;
    if (is_record ? node->kind != NODE_SEQUENCE : node->kind == NODE_MAPPING)
        return refuse_kind(b, field, node);
    const size_t count = node->kind == NODE_SEQUENCE ? node->count : 1;
    const size_t size = item_size(field);
    TRY(check_length(b, field, node, count));
    char *items = talloc_zero_size(b->memory, count * size > 0 ? count * size : 1);
    if (!items)
        return binder_no_memory(b);
    struct field item = *field;
    item.kind = field->item;
    item.flags &= (unsigned)FIELD_OPEN_MIN;
    TRY(bind_items(b, &item, node, items, size));
    if ((field->flags & FIELD_UNIQUE) && !is_record)
        TRY(make_unique(b, field, node, items, count));
    store_list(field, target, items, count);
    return MOSAIC_OK;
}
