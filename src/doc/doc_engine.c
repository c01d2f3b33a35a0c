// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * mosaic-engine/1: what a training engine of one version can launch, how fast its generation runs,
 * what its recipes do unasked, and the releases in measured tables that it speaks for.
 */
#include "doc/builtin.h"
#include "doc/doc_execution.h"
#include "doc/sections.h"

#include <string.h>
#include <talloc.h>

struct engine_section {
    const char *name, *version, *source;
    bool uneven_stages, recompute_per_stage, interleaved_batches_divide, kv_replication;
    int vocab_pad_unit;
    struct engine_profile profile;
    struct execution_section recipe;
    bool has_recipe;
    const struct node *releases; /* long: no value to list */
};

enum { PAD_UNIT_MAX = 65536 };
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
    RULE(recompute_per_stage, "stages may recompute differently"),
    RULE(interleaved_batches_divide, "with vpp > 1, pp must divide the micro-batches of a step"),
    RULE(kv_replication, "tp may exceed the key/value heads, which are then replicated"),
    {.key = "vocab_pad_unit",
     .kind = FIELD_INT,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct engine_section, vocab_pad_unit),
     .min = 1,
     .max = PAD_UNIT_MAX,
     .help = "the vocabulary is padded to a multiple of this times tp"},
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

static enum mosaic_status fill(struct loader *l, const struct node *node,
                               const struct engine_section *s, struct engine *engine) {
    struct engine out = {.uneven_stages = s->uneven_stages,
                         .recompute_per_stage = s->recompute_per_stage,
                         .interleaved_batches_divide = s->interleaved_batches_divide,
                         .kv_replication = s->kv_replication,
                         .vocab_pad_unit = s->vocab_pad_unit,
                         .profile = s->profile};
    if (s->has_recipe)
        doc_recipe(&s->recipe, &out.recipe);
    TRY(loader_copy(l, node, "name", s->name, out.name, sizeof out.name));
    TRY(loader_copy(l, node, "version", s->version, out.version, sizeof out.version));
    *engine = out;
    return MOSAIC_OK;
}

enum mosaic_status doc_engine_bind(struct loader *l, const struct node *node, const char *prefix,
                                   struct engine *engine) {
    struct engine_section s = {0};
    TRY(loader_bind(l, &doc_engine_schema, node, prefix, &s));
    TRY(check_releases(l, s.releases));
    return fill(l, node, &s, engine);
}

static bool lists(const struct node *releases, const char *release) {
    for (size_t i = 0; releases && i < releases->count; ++i)
        if (strcmp(releases->items[i]->text, release) == 0)
            return true;
    return false;
}

/* One document of the library; what it says is no part of the one being loaded, so that nothing is
 * recorded. */
static enum mosaic_status look_into(struct loader *l, const char *name, const char *release,
                                    struct engine *out, bool *found) {
    struct engine_section s = {0};
    struct yaml_tree *tree = NULL;
    TRY(loader_builtin(l, name, &tree));
    TRY(schema_bind(l->memory, &doc_engine_schema, tree->root, &s, NULL, l->diags));
    TRY(check_releases(l, s.releases));
    *found = lists(s.releases, release);
    return *found ? fill(l, tree->root, &s, out) : MOSAIC_OK;
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
            status = look_into(l, d->name, release, out, found);
    }
    l->memory = outer;
    if (status == MOSAIC_OK) /* otherwise diagnostics refer to it */
        talloc_free(memory);
    return status;
}
