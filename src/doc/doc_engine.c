// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * mosaic-engine/1: what a training engine of one version can launch, how fast its generation runs,
 * what its recipes do unasked, and the releases in measured tables that it speaks for.
 */
#include "doc/builtin.h"
#include "doc/doc_execution.h"
#include "doc/doc_launch.h"
#include "doc/sections.h"

#include <string.h>
#include <talloc.h>

struct engine_section {
    const char *name, *version, *source;
    bool uneven_stages, recompute_per_stage, interleaved_batches_divide, kv_replication;
    bool pipeline_layouts;
    bool shards_master, keeps_quantised, memory_schedules;
    bool interleaved_rounds_divide;
    int vocab_pad_unit;
    struct engine_profile profile;
    struct execution_section recipe;
    bool has_recipe;
    struct record_list conflicts; /* of struct conflict_section */
    const struct node *releases;  /* long: no value to list */
    const struct node *launch;    /* bound where it is asked for */
};

enum { PAD_UNIT_MAX = 65536, CONFLICTS_MAX = 256 };
#define PROFILE_MAX 10
static const char engine_folder[] = "engines/";

#define FACTOR(member, text)                                                                       \
    {                                                                                              \
        .key = #member, .kind = FIELD_NUMBER, .fallback = "1", .flags = FIELD_OPEN_MIN,            \
        FIELD_AT(struct engine_profile, member), .max = PROFILE_MAX, .help = (text)                \
    }
static const struct field profile_fields[] = {
    FACTOR(attention_rate, "rate of the attention core over today's kernels"),
    FACTOR(host_factor, "time spent on launches over today's"),
};
static const struct schema profile_schema =
    SCHEMA("profile", struct engine_profile, profile_fields);

struct conflict_section {
    struct int_list features, unless;
    const char *text, *source;
};

static const struct field conflict_fields[] = {
    {.key = "features",
     .kind = FIELD_LIST,
     .item = FIELD_ENUM,
     .words = feature_words,
     .flags = FIELD_REQUIRED | FIELD_UNIQUE,
     .max_count = FEATURES,
     FIELD_AT(struct conflict_section, features),
     .help = "what has all of these is refused"},
    {.key = "unless",
     .kind = FIELD_LIST,
     .item = FIELD_ENUM,
     .words = feature_words,
     .flags = FIELD_UNIQUE,
     .max_count = FEATURES,
     FIELD_AT(struct conflict_section, unless),
     .help = "but not with any of these"},
    {.key = "text",
     .kind = FIELD_STRING,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct conflict_section, text),
     .help = "why, for the message"},
    {.key = "source",
     .kind = FIELD_STRING,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct conflict_section, source),
     .help = "where the rule comes from"},
};

static uint64_t set_of(const struct int_list *list) {
    uint64_t set = 0;
    for (size_t i = 0; i < list->count; ++i)
        set |= FEATURE_BIT(list->items[i]);
    return set;
}

static enum mosaic_status check_conflict(struct binder *b, const struct node *node, void *target) {
    const struct conflict_section *const s = target;
    const uint64_t both = set_of(&s->features) & set_of(&s->unless);
    for (int i = 0; i < FEATURES; ++i)
        if (both & FEATURE_BIT(i)) {
            const enum mosaic_status status = binder_error(b, node_find(node, "unless"),
                                                           "'%s' is in 'features' too: the rule "
                                                           "never holds",
                                                           feature_words[i]);
            binder_hint(b, "leave it out of one of them");
            return status;
        }
    return MOSAIC_OK;
}

static const struct schema conflict_schema = {.name = "conflicts",
                                              .fields = conflict_fields,
                                              .count = sizeof conflict_fields /
                                                       sizeof conflict_fields[0],
                                              .size = sizeof(struct conflict_section),
                                              .check = check_conflict};

#define RULE(member, text)                                                                         \
    {                                                                                              \
        .key = #member, .kind = FIELD_BOOL, .flags = FIELD_REQUIRED,                               \
        FIELD_AT(struct engine_section, member), .help = (text)                                    \
    }
static const struct field engine_fields[] = {
    {.key = "name",
     .kind = FIELD_STRING,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct engine_section, name),
     .help = "name of the engine"},
    {.key = "version",
     .kind = FIELD_STRING,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct engine_section, version),
     .help = "version whose rules these are"},
    {.key = "source",
     .kind = FIELD_STRING,
     FIELD_AT(struct engine_section, source),
     .help = "where the rules come from"},
    RULE(uneven_stages, "pipeline stages may hold different numbers of layers"),
    {.key = "pipeline_layouts",
     .kind = FIELD_BOOL,
     .fallback = "false",
     FIELD_AT(struct engine_section, pipeline_layouts),
     .help = "takes a pipeline layout string"},
    RULE(recompute_per_stage, "stages may recompute differently"),
    RULE(interleaved_batches_divide, "with vpp > 1, pp must divide the micro-batches of a step"),
    {.key = "interleaved_rounds_divide",
     .kind = FIELD_BOOL,
     .fallback = "false",
     FIELD_AT(struct engine_section, interleaved_rounds_divide),
     .help = "with vpp > 1, micro-batches divide evenly over their rounds of pp or more"},
    {.key = "shards_master",
     .kind = FIELD_BOOL,
     .fallback = "false",
     FIELD_AT(struct engine_section, shards_master),
     .help = "weights sharded by FSDP are the FP32 ones, without a copy in bf16"},
    {.key = "memory_schedules",
     .kind = FIELD_BOOL,
     .fallback = "false",
     FIELD_AT(struct engine_section, memory_schedules),
     .help = "it runs LLEP, chunked dispatch, the vocabulary ring, checkpoint offload and the "
             "optimizer stream"},
    {.key = "keeps_quantised",
     .kind = FIELD_BOOL,
     .fallback = "false",
     FIELD_AT(struct engine_section, keeps_quantised),
     .help = "GEMM inputs wait for backward in the precision they were used in"},
    RULE(kv_replication, "tp may exceed the key/value heads, which are then replicated"),
    {.key = "vocab_pad_unit",
     .kind = FIELD_INT,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct engine_section, vocab_pad_unit),
     .min = 1,
     .max = PAD_UNIT_MAX,
     .help = "the vocabulary is padded to a multiple of this times tp"},
    {.key = "conflicts",
     .kind = FIELD_LIST,
     .item = FIELD_MAPPING,
     .nested = &conflict_schema,
     .max_count = CONFLICTS_MAX,
     .flags = FIELD_EMPTY_OK,
     FIELD_AT(struct engine_section, conflicts),
     .help = "features that the engine does not run together"},
    {.key = "profile",
     .kind = FIELD_MAPPING,
     .nested = &profile_schema,
     FIELD_AT(struct engine_section, profile),
     .help = "speed of this generation over the one that was calibrated"},
    {.key = "recipe",
     .kind = FIELD_MAPPING,
     .nested = &doc_recipe_schema,
     FIELD_AT(struct engine_section, recipe),
     FIELD_PRESENCE(struct engine_section, has_recipe),
     .help = "what the engine's recipes do where a measured run does not say"},
    {.key = "releases",
     .kind = FIELD_FREE,
     FIELD_AT(struct engine_section, releases),
     .help = "names of releases in tables of measured steps that this document speaks for"},
    {.key = "launch",
     .kind = FIELD_FREE,
     FIELD_AT(struct engine_section, launch),
     .help = "arguments that the engine takes, and when"},
};
const struct schema doc_engine_schema =
    SCHEMA_DOCUMENT("engine", "mosaic-engine/1", struct engine_section, engine_fields);

static enum mosaic_status check_releases(struct loader *l, const struct node *releases) {
    if (!releases)
        return MOSAIC_OK;
    const struct node *wrong =
        releases->kind == NODE_SEQUENCE && releases->count > 0 ? NULL : releases;
    for (size_t i = 0; !wrong && i < releases->count; ++i)
        if (releases->items[i]->kind != NODE_SCALAR || releases->items[i]->text[0] == 0)
            wrong = releases->items[i];
    if (!wrong)
        return MOSAIC_OK;
    (void)diag_error(l->diags, &wrong->place, "'releases' must be a list of texts");
    diag_hint(l->diags, "e.g. releases: [\"26.02\", \"26.04\"]");
    return MOSAIC_BAD_INPUT;
}

/* The rules outlive the section where their texts are. */
static enum mosaic_status fill_rules(struct loader *l, void *keeper, const struct engine_section *s,
                                     struct engine_rules *out) {
    const struct conflict_section *const from = s->conflicts.items;
    if (s->conflicts.count == 0)
        return MOSAIC_OK;
    struct engine_rule *const rules =
        talloc_array(keeper, struct engine_rule, (unsigned)s->conflicts.count);
    bool is_short = !rules;
    for (size_t i = 0; i < s->conflicts.count && !is_short; ++i) {
        rules[i] = (struct engine_rule){.features = set_of(&from[i].features),
                                        .unless = set_of(&from[i].unless),
                                        .text = talloc_strdup(rules, from[i].text),
                                        .source = talloc_strdup(rules, from[i].source)};
        is_short = !rules[i].text || !rules[i].source;
    }
    if (is_short)
        return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    *out = (struct engine_rules){s->conflicts.count, rules};
    return MOSAIC_OK;
}

static enum mosaic_status fill(struct loader *l, void *keeper, const struct node *node,
                               const struct engine_section *s, struct engine *engine) {
    struct engine out = {.uneven_stages = s->uneven_stages,
                         .pipeline_layouts = s->pipeline_layouts,
                         .recompute_per_stage = s->recompute_per_stage,
                         .interleaved_batches_divide = s->interleaved_batches_divide,
                         .interleaved_rounds_divide = s->interleaved_rounds_divide,
                         .kv_replication = s->kv_replication,
                         .shards_master = s->shards_master,
                         .keeps_quantised = s->keeps_quantised,
                         .memory_schedules = s->memory_schedules,
                         .vocab_pad_unit = s->vocab_pad_unit,
                         .profile = s->profile};
    if (s->has_recipe)
        doc_recipe(&s->recipe, &out.recipe);
    TRY(loader_copy(l, node, "name", s->name, out.name, sizeof out.name));
    TRY(loader_copy(l, node, "version", s->version, out.version, sizeof out.version));
    TRY(fill_rules(l, keeper, s, &out.rules));
    *engine = out;
    return MOSAIC_OK;
}

enum mosaic_status doc_engine_bind(struct loader *l, const struct node *node, const char *prefix,
                                   struct engine *engine) {
    struct engine_section s = {0};
    TRY(loader_bind(l, &doc_engine_schema, node, prefix, &s));
    TRY(check_releases(l, s.releases));
    const bool is_asked =
        l->document->kind == DOCUMENT_ENGINE || !loader_is_builtin(node->place.source);
    const struct launch *launch = NULL;
    if (s.launch && is_asked)
        TRY(doc_launch_bind(l, s.launch, prefix, &launch));
    TRY(fill(l, l->memory, node, &s, engine));
    engine->launch = launch;
    return MOSAIC_OK;
}

static bool lists(const struct node *releases, const char *release) {
    for (size_t i = 0; releases && i < releases->count; ++i)
        if (strcmp(releases->items[i]->text, release) == 0)
            return true;
    return false;
}

/* One document of the library; what it says is no part of the one being loaded, so that nothing is
 * recorded. */
static enum mosaic_status look_into(struct loader *l, void *keeper, const char *name,
                                    const char *release, struct engine *out, bool *found) {
    struct engine_section s = {0};
    struct yaml_tree *tree = NULL;
    TRY(loader_builtin(l, name, &tree));
    TRY(schema_bind(l->memory, &doc_engine_schema, tree->root, &s, NULL, l->diags));
    TRY(check_releases(l, s.releases));
    *found = lists(s.releases, release);
    return *found ? fill(l, keeper, tree->root, &s, out) : MOSAIC_OK;
}

enum mosaic_status doc_engine_find(struct loader *l, const char *release, struct engine *out,
                                   bool *found) {
    void *const outer = l->memory;
    void *const memory = talloc_new(outer);
    if (!memory)
        return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    enum mosaic_status status = MOSAIC_OK;
    *found = false;
    l->memory = memory;
    for (size_t i = 0; i < builtin_document_count && !*found && status == MOSAIC_OK; ++i) {
        const struct builtin_document *const d = &builtin_documents[i];
        /* Most need not be read to see that they do not name it. */
        if (strncmp(d->name, engine_folder, sizeof engine_folder - 1) == 0 &&
            strstr(d->text, release))
            status = look_into(l, outer, d->name, release, out, found);
    }
    l->memory = outer;
    if (status == MOSAIC_OK) /* otherwise diagnostics refer to it */
        talloc_free(memory);
    return status;
}
