// SPDX-License-Identifier: GPL-3.0-or-later
/* One table a mapping for reading, one pack a mapping for writing. */
#include "doc/doc_baseline.h"

#include "base/suggest.h"
#include "text/json_tree.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <sha2.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>

static const char schema_name[] = "mosaic.baseline/1";
enum { DIGITS = 17, INDENT = 2, FILES_MAX = 1024 };
/* Whole numbers up to here are written without an exponent. */
#define WHOLE_MAX 9007199254740992.0

const struct baseline_metric_info *baseline_metric_info(enum baseline_metric metric) {
    static const struct baseline_metric_info infos[BASELINE_METRICS] = {
        [BASELINE_MFU] = {"mfu", "1", DIM_FRACTION, 1.0, NULL, true},
        [BASELINE_STEP_TIME] = {"step_time_s", "s", DIM_TIME, 1.0, "5 ms", false},
        [BASELINE_MEMORY] = {"reserved_bytes", "byte", DIM_BYTES, 1.0, "1 GiB", false},
        [BASELINE_RATE] = {"tokens_per_s_per_gpu", "1/s", DIM_FRACTION, 1.0, NULL, true},
        [BASELINE_TOKENS] = {"tokens", "1", DIM_FRACTION, 1.0, NULL, true},
        [BASELINE_LOSS] = {"loss", "nat", DIM_NUMBER, 1.0, "0.001 nat", false},
        [BASELINE_DAYS] = {"days", "day", DIM_TIME, UNITS_SECONDS_PER_DAY, "6 h", false},
        [BASELINE_GPU_HOURS] = {"gpu_hours", "h", DIM_TIME, UNITS_SECONDS_PER_HOUR, "1000 h",
                                false},
        [BASELINE_COST] = {"cost_usd", "USD", DIM_PRICE, 1.0, "500 USD", false},
    };
    return &infos[metric];
}

const struct baseline_number *baseline_number(const struct baseline_numbers *numbers,
                                              const char *key) {
    for (size_t i = 0; i < numbers->count; ++i)
        if (strcmp(numbers->items[i].key, key) == 0)
            return &numbers->items[i];
    return NULL;
}

enum mosaic_status baseline_add(void *memory, struct baseline_numbers *numbers, const char *key,
                                double value, struct status_error *err) {
    struct baseline_number *const grown = talloc_realloc(
        memory, numbers->items, struct baseline_number, (unsigned)numbers->count + 1);
    const char *const name = talloc_strdup(memory, key);
    if (!grown || !name)
        return status_no_memory(err);
    numbers->items = grown;
    grown[numbers->count++] = (struct baseline_number){name, value};
    return MOSAIC_OK;
}

const struct baseline_entry *baseline_entry(const struct baseline *baseline, size_t i) {
    return (const struct baseline_entry *)baseline->files.items + i;
}

const struct baseline_pair *baseline_pair(const struct record_list *list, size_t i) {
    return (const struct baseline_pair *)list->items + i;
}

const struct baseline_pair *baseline_pair_of(const struct record_list *list, const char *name) {
    for (size_t i = 0; i < list->count; ++i)
        if (strcmp(baseline_pair(list, i)->name, name) == 0)
            return baseline_pair(list, i);
    return NULL;
}

const struct baseline_entry *baseline_find(const struct baseline *baseline, const char *file) {
    for (size_t i = 0; i < baseline->files.count; ++i)
        if (strcmp(baseline_entry(baseline, i)->file, file) == 0)
            return baseline_entry(baseline, i);
    return NULL;
}

static int by_file(const void *a, const void *b) {
    const struct baseline_entry *const left = a, *const right = b;
    return strcmp(left->file, right->file);
}

void baseline_sort(struct baseline *baseline) {
    if (baseline->files.count > 1)
        qsort(baseline->files.items, baseline->files.count, sizeof(struct baseline_entry), by_file);
}

/* ---- inputs ---- */

enum mosaic_status baseline_inputs(void *memory, const struct document *document,
                                   struct baseline_entry *entry, struct status_error *err) {
    const size_t inputs = document->input_count, overrides = document->override_count;
    struct baseline_pair *const pairs =
        talloc_zero_array(memory, struct baseline_pair, (unsigned)(inputs + overrides) + 1);
    char *all = talloc_strdup(memory, ""), sha256[DOCUMENT_HASH_MAX];
    if (!pairs)
        return status_no_memory(err);
    for (size_t i = 0; i < inputs; ++i) {
        pairs[i] = (struct baseline_pair){talloc_strdup(memory, document->inputs[i].path),
                                          talloc_strdup(memory, document->inputs[i].sha256)};
        all = talloc_asprintf_append(all, "%s %s\n", pairs[i].value, pairs[i].name);
    }
    for (size_t i = 0; i < overrides; ++i) {
        const struct document_override *const o = &document->overrides[i];
        pairs[inputs + i] =
            (struct baseline_pair){talloc_strdup(memory, o->key), talloc_strdup(memory, o->value)};
        all = talloc_asprintf_append(all, "--set %s=%s\n", o->key, o->value);
    }
    if (!all)
        return status_no_memory(err);
    (void)SHA256Data((const uint8_t *)all, strlen(all), sha256);
    talloc_free(all);
    entry->inputs = (struct record_list){inputs, pairs};
    entry->overrides = (struct record_list){overrides, pairs + inputs};
    entry->sha256 = talloc_strdup(memory, sha256);
    return entry->sha256 ? MOSAIC_OK : status_no_memory(err);
}

/* ---- reading ---- */

static enum mosaic_status take_numbers(struct binder *binder, const struct field *number,
                                       const struct node *node, void *target) {
    struct baseline_numbers *const numbers = target;
    struct status_error err;
    enum mosaic_status status = MOSAIC_OK;
    if (node->kind != NODE_MAPPING)
        return binder_error(binder, node, "'%s' must be numbers by name, not %s",
                            binder_path(binder), node_kind_text(node));
    for (size_t i = 0; i < node->count; ++i) {
        double value;
        if (binder_value(binder, number, node->items[i], &value) != MOSAIC_OK)
            status = MOSAIC_BAD_INPUT;
        else
            TRY(baseline_add(binder_memory(binder), numbers, node->items[i]->key, value, &err));
    }
    return status;
}

static enum mosaic_status parse_numbers(struct binder *binder, const struct field *field,
                                        const struct node *node, void *target) {
    static const struct field number = {.kind = FIELD_NUMBER};
    (void)field;
    return take_numbers(binder, &number, node, target);
}

/* A name that is misspelt would never be compared. */
static enum mosaic_status parse_metrics(struct binder *binder, const struct field *field,
                                        const struct node *node, void *target) {
    static const struct field above_0 = {.kind = FIELD_NUMBER, .flags = FIELD_OPEN_MIN};
    const char *names[BASELINE_METRICS];
    (void)field;
    for (int i = 0; i < BASELINE_METRICS; ++i)
        names[i] = baseline_metric_info((enum baseline_metric)i)->key;
    TRY(take_numbers(binder, &above_0, node, target));
    for (size_t i = 0; i < node->count; ++i) {
        const struct node *const item = node->items[i];
        bool known = false;
        for (int k = 0; k < BASELINE_METRICS; ++k)
            known = known || strcmp(item->key, names[k]) == 0;
        if (known)
            continue;
        char shown[STATUS_QUOTE_MAX];
        const char *const near = suggest(item->key, names, BASELINE_METRICS);
        (void)binder_error(binder, item, "unknown metric '%s'",
                           status_quote(item->key, shown, sizeof shown));
        if (near)
            binder_hint(binder, "did you mean '%s'?", near);
        return MOSAIC_BAD_INPUT;
    }
    return MOSAIC_OK;
}

#define PAIR_FIELD(name, member, text)                                                             \
    {                                                                                              \
        .key = (name), .kind = FIELD_STRING, .flags = FIELD_REQUIRED | FIELD_EMPTY_OK,             \
        FIELD_AT(struct baseline_pair, member), .help = (text)                                     \
    }
static const struct field input_fields[] = {PAIR_FIELD("path", name, "file that was read"),
                                            PAIR_FIELD("sha256", value, "hash of its bytes")};
static const struct field override_fields[] = {PAIR_FIELD("key", name, "key that --set replaced"),
                                               PAIR_FIELD("value", value, "what by")};
static const struct schema input_schema = SCHEMA("inputs", struct baseline_pair, input_fields);
static const struct schema override_schema =
    SCHEMA("overrides", struct baseline_pair, override_fields);

static const char *const status_words[] = {"ok", "infeasible", NULL};
#define NUMBERS_FIELD(member, parser, text)                                                        \
    {                                                                                              \
        .key = #member, .kind = FIELD_CUSTOM, FIELD_AT(struct baseline_entry, member),             \
        .parse = (parser), .forms = "mapping of numbers", .help = (text)                           \
    }
#define PAIRS_FIELD(member, table, text)                                                           \
    {                                                                                              \
        .key = #member, .kind = FIELD_LIST, .item = FIELD_MAPPING, .flags = FIELD_EMPTY_OK,        \
        FIELD_AT(struct baseline_entry, member), .nested = &(table), .help = (text)                \
    }
#define TEXT_FIELD(member, flag, text)                                                             \
    {                                                                                              \
        .key = #member, .kind = FIELD_STRING, .flags = (flag),                                     \
        FIELD_AT(struct baseline_entry, member), .help = (text)                                    \
    }
static const struct field entry_fields[] = {
    TEXT_FIELD(file, FIELD_REQUIRED, "plan as it was named"),
    TEXT_FIELD(sha256, FIELD_REQUIRED, "hash of all inputs and overrides"),
    {.key = "status",
     .kind = FIELD_ENUM,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct baseline_entry, is_infeasible),
     .words = status_words,
     .help = "whether it had a plan that fits"},
    TEXT_FIELD(model, 0, "geometry in short"),
    TEXT_FIELD(layout, 0, "layout in short"),
    NUMBERS_FIELD(metrics, parse_metrics, "what is compared"),
    NUMBERS_FIELD(time_split, parse_numbers, "terms of the step time"),
    NUMBERS_FIELD(memory, parse_numbers, "items of the fullest stage, and what the device has"),
    NUMBERS_FIELD(loss_terms, parse_numbers, "terms of the law"),
    PAIRS_FIELD(inputs, input_schema, "files that it was predicted from"),
    PAIRS_FIELD(overrides, override_schema, "keys that --set replaced"),
};
/* A metric that were missing would never be compared; what it buys may be, where the budget buys
 * none or the loss is a target. */
static enum mosaic_status check_metrics(struct binder *binder, const struct node *node,
                                        void *target) {
    const struct baseline_entry *const entry = target;
    for (int i = 0; !entry->is_infeasible && i <= BASELINE_RATE; ++i) {
        const char *const key = baseline_metric_info((enum baseline_metric)i)->key;
        if (!baseline_number(&entry->metrics, key))
            return binder_error(binder, node, "'%s' lacks the metric '%s'", binder_path(binder),
                                key);
    }
    return MOSAIC_OK;
}

static const struct schema entry_schema = {.name = "files",
                                           .fields = entry_fields,
                                           .count = sizeof entry_fields / sizeof *entry_fields,
                                           .size = sizeof(struct baseline_entry),
                                           .check = check_metrics};

static const struct field root_fields[] = {
    {.key = "version",
     .kind = FIELD_STRING,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct baseline, version),
     .help = "version of the program that made it"},
    {.key = "files",
     .kind = FIELD_LIST,
     .item = FIELD_MAPPING,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct baseline, files),
     .max_count = FILES_MAX,
     .nested = &entry_schema,
     .help = "one entry a file"},
};
const struct schema doc_baseline_schema =
    SCHEMA_DOCUMENT("baseline", "mosaic.baseline/1", struct baseline, root_fields);

/* Every file once. */
static enum mosaic_status check_files(const struct node *root, const struct baseline *baseline,
                                      struct diag_list *diags) {
    const struct node *const list = node_find(root, "files");
    for (size_t i = 0; i < baseline->files.count; ++i) {
        const char *const file = baseline_entry(baseline, i)->file;
        if (baseline_find(baseline, file) == baseline_entry(baseline, i))
            continue;
        char shown[STATUS_QUOTE_MAX];
        return diag_error(diags, &list->items[i]->place, "the file '%s' stands here twice",
                          status_quote(file, shown, sizeof shown));
    }
    return MOSAIC_OK;
}

static enum mosaic_status parse(void *memory, struct source *source, struct baseline **out,
                                struct diag_list *diags) {
    static const char *const documents[] = {schema_name};
    struct yaml_tree *tree = NULL;
    size_t which;
    TRY(json_tree_parse(memory, source, &tree, diags));
    TRY(schema_document(tree->root, documents, 1, &which, diags));
    struct baseline *const baseline = talloc_zero(memory, struct baseline);
    if (!baseline)
        return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
    TRY(schema_bind(memory, &doc_baseline_schema, tree->root, baseline, NULL, diags));
    TRY(check_files(tree->root, baseline, diags));
    *out = baseline;
    return MOSAIC_OK;
}

static enum mosaic_status refuse_missing(const char *path, struct diag_list *diags) {
    struct status_error err = {0};
    (void)status_set(&err, MOSAIC_BAD_INPUT, "there is no baseline");
    status_hint(&err, "--update writes one");
    (void)snprintf(err.file, sizeof err.file, "%s", path);
    return diag_from_error(diags, NULL, &err);
}

static bool is_missing(const char *path) {
    errno = 0;
    FILE *const file = fopen(path, "rb");
    if (file)
        (void)fclose(file);
    return !file && errno == ENOENT;
}

enum mosaic_status doc_baseline_load(void *memory, const char *path, bool may_miss,
                                     struct baseline **out, struct diag_list *diags) {
    struct source *source = NULL;
    *out = NULL;
    if (is_missing(path))
        return may_miss ? MOSAIC_OK : refuse_missing(path, diags);
    TRY(source_read(memory, path, SOURCE_MAX_BYTES, NULL, &source, diags));
    const enum mosaic_status status = parse(memory, source, out, diags);
    if (status == MOSAIC_BAD_INPUT)
        diag_note(diags, NULL, "%s is no sound baseline; remove it, and --update writes one anew",
                  path);
    return status;
}

/* ---- writing ---- */

static json_t *number_json(double value) {
    const bool is_whole = fabs(value) < WHOLE_MAX && !(fabs(value - floor(value)) > 0.0);
    return is_whole ? json_integer((json_int_t)value) : json_real(value);
}

static json_t *numbers_json(const struct baseline_numbers *numbers) {
    json_t *const o = json_object();
    bool ok = o != NULL;
    for (size_t i = 0; ok && i < numbers->count; ++i)
        ok = json_object_set_new(o, numbers->items[i].key, number_json(numbers->items[i].value)) ==
             0;
    if (ok && numbers->count > 0)
        return o;
    json_decref(o);
    return NULL;
}

static json_t *pairs_json(const struct record_list *list, const char *name, const char *value) {
    json_t *const array = json_array();
    for (size_t i = 0; i < list->count; ++i) {
        const struct baseline_pair *const p = baseline_pair(list, i);
        (void)json_array_append_new(array, json_pack("{s:s, s:s}", name, p->name, value, p->value));
    }
    if (array && json_array_size(array) == list->count)
        return array;
    json_decref(array);
    return NULL;
}

static json_t *entry_json(const struct baseline_entry *e) {
    return json_pack("{s:s, s:s, s:s, s:s*, s:s*, s:o*, s:o*, s:o*, s:o*, s:o, s:o}", "file",
                     e->file, "sha256", e->sha256, "status", status_words[e->is_infeasible],
                     "model", e->model, "layout", e->layout, "metrics", numbers_json(&e->metrics),
                     "time_split", numbers_json(&e->time_split), "memory", numbers_json(&e->memory),
                     "loss_terms", numbers_json(&e->loss_terms), "inputs",
                     pairs_json(&e->inputs, "path", "sha256"), "overrides",
                     pairs_json(&e->overrides, "key", "value"));
}

enum mosaic_status doc_baseline_save(const struct baseline *baseline, char **text,
                                     struct status_error *err) {
    json_t *const files = json_array();
    for (size_t i = 0; i < baseline->files.count; ++i)
        (void)json_array_append_new(files, entry_json(baseline_entry(baseline, i)));
    const bool ok = json_array_size(files) == baseline->files.count;
    json_t *const root = json_pack("{s:s, s:s, s:o}", "schema", schema_name, "version",
                                   baseline->version, "files", files);
    char *const dump =
        ok && root ? json_dumps(root, JSON_INDENT(INDENT) | JSON_REAL_PRECISION(DIGITS)) : NULL;
    json_decref(root);
    const size_t length = dump ? strlen(dump) : 0;
    char *const line = dump ? realloc(dump, length + 2) : NULL;
    if (!line) {
        free(dump);
        return status_no_memory(err);
    }
    memcpy(line + length, "\n", 2);
    *text = line;
    return MOSAIC_OK;
}
