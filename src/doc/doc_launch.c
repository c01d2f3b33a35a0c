// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Arguments of an engine from their tables.  {fact} in a text is checked here, so that a wrong one
 * is found where it is written; words of a fact that has none, or a word that no argument could
 * ever be given under, likewise.
 */
#include "doc/doc_launch.h"

#include "base/suggest.h"
#include "doc/builtin.h"
#include "doc/calibration_find.h"

#include <string.h>
#include <sys/stat.h>
#include <talloc.h>

enum { ARGUMENTS_MAX = 512, LEFT_MAX = 64, TEXTS_MAX = 16 };
static const char folder[] = "engines/";

struct argument_section {
    const char *name;
    int fact;
    bool has_fact;
    const struct node *words;
    struct string_list texts;
    struct int_list when, unless;
};

struct left_section {
    const char *text;
    struct int_list when;
};

struct launch_section {
    const char *source;
    struct int_list styles, silent;
    struct record_list arguments, left; /* of the sections above */
};

#define CONDITIONS(type, member, text)                                                             \
    {                                                                                              \
        .key = #member, .kind = FIELD_LIST, .item = FIELD_ENUM, .words = launch_words,             \
        .flags = FIELD_UNIQUE, .max_count = LAUNCH_WORDS, FIELD_AT(type, member), .help = (text)   \
    }

static const struct field argument_fields[] = {
    {.key = "name",
     .kind = FIELD_STRING,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct argument_section, name),
     .help = "name of the argument, dots between nested keys"},
    {.key = "value",
     .kind = FIELD_ENUM,
     .words = launch_fact_words,
     FIELD_AT(struct argument_section, fact),
     FIELD_PRESENCE(struct argument_section, has_fact),
     .help = "fact that is its value; left out where the layout has none"},
    {.key = "words",
     .kind = FIELD_FREE,
     FIELD_AT(struct argument_section, words),
     .help = "the engine's word for each word of the fact; an empty one leaves it out"},
    {.key = "text",
     .kind = FIELD_LIST,
     .item = FIELD_STRING,
     .max_count = TEXTS_MAX,
     FIELD_AT(struct argument_section, texts),
     .help = "its value as a text or texts, with {fact} where a fact goes"},
    CONDITIONS(struct argument_section, when, "given where the layout has all of these"),
    CONDITIONS(struct argument_section, unless, "but not with any of these"),
};

static struct launch_set set_of(const struct int_list *list) {
    struct launch_set set = {0, 0};
    for (size_t i = 0; i < list->count; ++i)
        launch_set_add(&set, list->items[i]);
    return set;
}

static size_t length_of(const char *const *words) {
    size_t n = 0;
    while (words[n])
        ++n;
    return n;
}

static enum mosaic_status unknown(struct binder *b, const struct node *node, const char *what,
                                  const char *word, const char *const *known) {
    char shown[STATUS_QUOTE_MAX];
    (void)binder_error(b, node, "unknown %s '%s'", what, status_quote(word, shown, sizeof shown));
    const char *const near = suggest(word, known, length_of(known));
    if (near)
        binder_hint(b, "did you mean '%s'?", near);
    return MOSAIC_BAD_INPUT;
}

/* Each {fact} of a text. */
static enum mosaic_status check_text(struct binder *b, const struct node *node, const char *text) {
    char word[STATUS_QUOTE_MAX];
    for (const char *at = strchr(text, '{'); at; at = strchr(at + 1, '{')) {
        const size_t length = strcspn(at + 1, "}");
        if (at[1 + length] != '}' || length >= sizeof word)
            return binder_error(b, node, "'{' without a fact and '}' behind it");
        (void)snprintf(word, sizeof word, "%.*s", (int)length, at + 1);
        bool is_known = false;
        for (int i = 0; i < LAUNCH_FACTS && !is_known; ++i)
            is_known = strcmp(launch_fact_words[i], word) == 0;
        if (!is_known)
            return unknown(b, node, "fact", word, launch_fact_words);
    }
    return MOSAIC_OK;
}

static enum mosaic_status check_words(struct binder *b, const struct node *node,
                                      const struct argument_section *s) {
    const struct node *const words = s->words;
    if (!words)
        return MOSAIC_OK;
    const char *const *const known =
        s->has_fact ? launch_fact_values((enum launch_fact)s->fact) : NULL;
    if (!known)
        return binder_error(b, words, "'words' needs a 'value' that is a word, not a number");
    if (words->kind != NODE_MAPPING || words->count == 0) {
        (void)binder_error(b, words, "'words' must be a mapping");
        binder_hint(b, "e.g. words: {%s: ...}", known[0]);
        return MOSAIC_BAD_INPUT;
    }
    for (size_t i = 0; i < words->count; ++i) {
        const struct node *const item = words->items[i];
        bool is_known = false;
        for (size_t k = 0; known[k] && !is_known; ++k)
            is_known = strcmp(known[k], item->key) == 0;
        if (!is_known)
            return unknown(b, item, "word", item->key, known);
        if (item->kind != NODE_SCALAR)
            return binder_error(b, item, "'%s' must be a text", item->key);
    }
    (void)node;
    return MOSAIC_OK;
}

static enum mosaic_status check_argument(struct binder *b, const struct node *node, void *target) {
    const struct argument_section *const s = target;
    const struct launch_set when = set_of(&s->when), unless = set_of(&s->unless);
    if (s->has_fact && s->texts.count > 0)
        return binder_error(b, node_find(node, "text"), "an argument has a 'value' or a 'text'");
    if ((when.features & unless.features) || (when.conditions & unless.conditions))
        return binder_error(b, node_find(node, "unless"),
                            "a word is in 'when' too: the argument is never given");
    TRY(check_words(b, node, s));
    const struct node *const text = node_find(node, "text");
    for (size_t i = 0; i < s->texts.count; ++i)
        TRY(check_text(b, text, s->texts.items[i]));
    return MOSAIC_OK;
}

static const struct schema argument_schema = {.name = "arguments",
                                              .fields = argument_fields,
                                              .count = sizeof argument_fields /
                                                       sizeof argument_fields[0],
                                              .size = sizeof(struct argument_section),
                                              .check = check_argument};

static const struct field left_fields[] = {
    {.key = "text",
     .kind = FIELD_STRING,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct left_section, text),
     .help = "what a plan does not say, and a launch needs"},
    CONDITIONS(struct left_section, when, "said where the layout has all of these"),
};
static enum mosaic_status check_left(struct binder *b, const struct node *node, void *target) {
    const struct left_section *const s = target;
    return check_text(b, node_find(node, "text"), s->text);
}

static const struct schema left_schema = {.name = "left",
                                          .fields = left_fields,
                                          .count = sizeof left_fields / sizeof left_fields[0],
                                          .size = sizeof(struct left_section),
                                          .check = check_left};

static const struct field launch_fields[] = {
    {.key = "source",
     .kind = FIELD_STRING,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct launch_section, source),
     .help = "where the names come from, with the version"},
    {.key = "styles",
     .kind = FIELD_LIST,
     .item = FIELD_ENUM,
     .words = launch_style_words,
     .flags = FIELD_REQUIRED,
     .max_count = LAUNCH_STYLES,
     FIELD_AT(struct launch_section, styles),
     .help = "how the engine takes its arguments, the usual way first"},
    {.key = "arguments",
     .kind = FIELD_LIST,
     .item = FIELD_MAPPING,
     .nested = &argument_schema,
     .max_count = ARGUMENTS_MAX,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct launch_section, arguments),
     .help = "the arguments, in the order in which they are written"},
    CONDITIONS(struct launch_section, silent, "words that the engine needs no argument for"),
    {.key = "left",
     .kind = FIELD_LIST,
     .item = FIELD_MAPPING,
     .nested = &left_schema,
     .max_count = LEFT_MAX,
     .flags = FIELD_EMPTY_OK,
     FIELD_AT(struct launch_section, left),
     .help = "what is left to the user"},
};
static const struct schema launch_schema = SCHEMA("launch", struct launch_section, launch_fields);

/* ---- from sections ---- */

static bool fill_words(void *memory, const struct node *node, struct launch_argument *out) {
    if (!node)
        return true;
    struct launch_word *const words =
        talloc_array(memory, struct launch_word, (unsigned)node->count);
    if (!words)
        return false;
    for (size_t i = 0; i < node->count; ++i) {
        words[i] = (struct launch_word){talloc_strdup(words, node->items[i]->key),
                                        talloc_strdup(words, node->items[i]->text)};
        if (!words[i].ours || !words[i].theirs)
            return false;
    }
    out->words = words;
    out->word_count = node->count;
    return true;
}

static bool fill_arguments(void *memory, const struct record_list *list, struct launch *out) {
    const struct argument_section *const from = list->items;
    struct launch_argument *const to =
        talloc_zero_array(memory, struct launch_argument, (unsigned)list->count);
    bool ok = to != NULL;
    for (size_t i = 0; ok && i < list->count; ++i) {
        to[i] = (struct launch_argument){.name = from[i].name,
                                         .has_fact = from[i].has_fact,
                                         .fact = (enum launch_fact)from[i].fact,
                                         .text_count = from[i].texts.count,
                                         .texts = from[i].texts.items,
                                         .when = set_of(&from[i].when),
                                         .unless = set_of(&from[i].unless)};
        ok = fill_words(to, from[i].words, &to[i]);
    }
    out->arguments = to;
    out->argument_count = list->count;
    return ok;
}

static bool fill_left(void *memory, const struct record_list *list, struct launch *out) {
    const struct left_section *const from = list->items;
    struct launch_left *const to =
        talloc_zero_array(memory, struct launch_left, (unsigned)list->count + 1);
    for (size_t i = 0; to && i < list->count; ++i)
        to[i] = (struct launch_left){from[i].text, set_of(&from[i].when)};
    out->left = to;
    out->left_count = list->count;
    return to != NULL;
}

enum mosaic_status doc_launch_bind(struct loader *l, const struct node *node, const char *prefix,
                                   const struct launch **out) {
    struct launch_section s = {0};
    struct launch *const launch = talloc_zero(l->memory, struct launch);
    char *const path = talloc_asprintf(l->memory, "%s%slaunch", prefix, prefix[0] ? "." : "");
    if (!launch || !path)
        return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    TRY(loader_bind(l, &launch_schema, node, path, &s));
    launch->source = s.source;
    launch->styles = s.styles.items;
    launch->style_count = s.styles.count;
    launch->silent = set_of(&s.silent);
    if (!fill_arguments(launch, &s.arguments, launch) || !fill_left(launch, &s.left, launch))
        return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    *out = launch;
    return MOSAIC_OK;
}

/* ---- by name ---- */

static bool is_file(const char *name) {
    struct stat info;
    return strchr(name, '/') != NULL || stat(name, &info) == 0;
}

/* "megatron-2026.08" below the folder; of a name alone the last, which is the newest. */
static const struct builtin_document *find(const char *name) {
    const struct builtin_document *newest = NULL;
    char title[STATUS_QUOTE_MAX];
    (void)snprintf(title, sizeof title, "%s%s", folder, name);
    for (char *at = title; *at; ++at)
        *at = *at == ' ' ? '-' : *at;
    const size_t length = strlen(title);
    for (size_t i = 0; i < builtin_document_count; ++i) {
        const struct builtin_document *const d = &builtin_documents[i];
        if (strcmp(d->name, title) == 0)
            return d;
        if (strncmp(d->name, title, length) == 0 && d->name[length] == '-' &&
            d->name[length + 1] >= '0' && d->name[length + 1] <= '9')
            newest = d;
    }
    return newest;
}

enum mosaic_status doc_launch_engine(const char *name, struct diag_list *diags,
                                     struct document **document) {
    const struct builtin_document *const inside = find(name);
    char title[STATUS_QUOTE_MAX], shown[STATUS_QUOTE_MAX];
    if (inside) {
        (void)snprintf(title, sizeof title, "built-in %s", inside->name);
        return document_parse(title, inside->text, inside->size, NULL, 0, diags, document);
    }
    if (!is_file(name)) {
        (void)diag_error(diags, NULL, "the library holds no engine '%s', and there is no such file",
                         status_quote(name, shown, sizeof shown));
        const char *const near = library_near(folder, name);
        if (near)
            diag_hint(diags, "did you mean '%s'?", near);
        else
            diag_hint(diags, "e.g. --to megatron-2026.08, or the file of an engine document");
        return MOSAIC_BAD_INPUT;
    }
    struct document *d = NULL;
    TRY(document_load(name, NULL, 0, diags, &d));
    if (d->kind != DOCUMENT_ENGINE) {
        (void)diag_error(diags, NULL, "%s is a %s, not an engine", name,
                         document_kind_name(d->kind));
        document_free(d);
        return MOSAIC_BAD_INPUT;
    }
    *document = d;
    return MOSAIC_OK;
}
