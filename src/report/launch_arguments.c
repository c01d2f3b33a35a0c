// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * From the facts of a layout to an engine's arguments.  Each argument that is given covers the
 * words of its conditions and of its value; a word of the layout that nothing covers would be
 * launched as something else, and is refused.
 */
#include "report/launch_view.h"

#include "report/number.h"
#include "report/put.h"

#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 64 };

/* One evaluation of a launch section. */
struct giving {
    const struct launch_point *point;
    const struct launch *launch;
    struct launch_set words, covered;
    struct diag_list *diags;
    json_t *list;
    bool is_short; /* of memory */
    bool is_refused;
};

/* ---- values ---- */

/* An atom as it stands in a text. */
static const char *atom(const json_t *value, char out[WORD_MAX]) {
    if (json_is_string(value))
        return json_string_value(value);
    if (json_is_real(value))
        return number_exact(json_real_value(value), out);
    (void)snprintf(out, WORD_MAX, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    return out;
}

/* The engine's word, "" for none, NULL where it has no such word. */
static const char *word_of(const struct launch_argument *a, const char *ours) {
    for (size_t i = 0; i < a->word_count; ++i)
        if (strcmp(a->words[i].ours, ours) == 0)
            return a->words[i].theirs;
    return NULL;
}

static void no_word(struct giving *g, const struct launch_argument *a, const char *ours) {
    const struct engine *const e = g->point->engine;
    g->is_refused = true;
    (void)diag_error(g->diags, NULL, "not launchable on %s %s: %s has no word for %s '%s'", e->name,
                     e->version, a->name, launch_fact_words[a->fact], ours);
}

/* A list or a text in the engine's words; takes `value`. */
static json_t *translated(struct giving *g, const struct launch_argument *a, json_t *value) {
    if (a->word_count == 0 || !value)
        return value;
    json_t *const out = json_array();
    const size_t count = json_is_array(value) ? json_array_size(value) : 1;
    for (size_t i = 0; i < count; ++i) {
        const char *const ours =
            json_string_value(json_is_array(value) ? json_array_get(value, i) : value);
        const char *const theirs = ours ? word_of(a, ours) : NULL;
        if (!theirs)
            no_word(g, a, ours ? ours : "");
        else if (theirs[0])
            g->is_short = json_array_append_new(out, json_string(theirs)) != 0 || g->is_short;
    }
    json_t *const first = json_incref(json_array_get(out, 0));
    const bool is_list = json_is_array(value);
    json_decref(value);
    if (is_list && json_array_size(out) > 0) {
        json_decref(first);
        return out;
    }
    json_decref(out);
    return first;
}

/* Written without quotes: a number, true, false. */
static json_t *typed(const char *text) {
    char *end = NULL;
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        return json_boolean(text[0] == 't');
    const long long number = strtoll(text, &end, 10);
    const bool is_number =
        text[0] && *end == '\0' && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'));
    return is_number ? json_integer(number) : json_string(text);
}

static enum launch_fact fact_named(const char *name, size_t length) {
    int i = 0;
    while (i < LAUNCH_FACTS && (strlen(launch_fact_words[i]) != length ||
                                strncmp(launch_fact_words[i], name, length) != 0))
        ++i;
    return (enum launch_fact)i;
}

/* The text with each {fact} replaced; of a fact that is a list its entry `at`.  *count grows to the
 * length of the list.  NULL where a fact is absent. */
static char *filled(struct giving *g, const char *text, size_t at, size_t *count) {
    char *out = NULL, word[WORD_MAX];
    size_t size = 0;
    bool is_absent = false;
    FILE *const stream = open_memstream(&out, &size);
    if (!stream) {
        g->is_short = true;
        return NULL;
    }
    for (; *text && !is_absent; ++text) {
        if (*text != '{') {
            (void)fputc(*text, stream);
            continue;
        }
        const size_t length = strcspn(text + 1, "}");
        const enum launch_fact fact = fact_named(text + 1, length);
        json_t *const value = fact < LAUNCH_FACTS ? launch_facts_value(g->point, fact) : NULL;
        const struct launch_set covers = launch_fact_covers(fact);
        is_absent = value == NULL;
        *count = json_is_array(value) ? json_array_size(value) : *count;
        if (value)
            (void)fputs(atom(json_is_array(value) ? json_array_get(value, at) : value, word),
                        stream);
        if (!is_absent)
            launch_set_join(&g->covered, &covers);
        json_decref(value);
        text += length + 1;
    }
    g->is_short = fclose(stream) != 0 || g->is_short;
    if (!is_absent)
        return out;
    free(out);
    return NULL;
}

/* One text; a list where it holds one. */
static json_t *text_value(struct giving *g, const char *text) {
    size_t count = 0;
    char *first = filled(g, text, 0, &count);
    if (!first)
        return NULL;
    if (count == 0) {
        json_t *const value = strchr(text, '{') ? json_string(first) : typed(first);
        free(first);
        return value;
    }
    json_t *const list = json_array();
    for (size_t i = 0; first && i < count; ++i) {
        g->is_short = json_array_append_new(list, json_string(first)) != 0 || g->is_short;
        free(first);
        first = i + 1 < count ? filled(g, text, i + 1, &count) : NULL;
    }
    return list;
}

static json_t *texts_value(struct giving *g, const struct launch_argument *a) {
    if (a->text_count == 1)
        return text_value(g, a->texts[0]);
    json_t *const list = json_array();
    for (size_t i = 0; i < a->text_count; ++i) {
        json_t *const one = text_value(g, a->texts[i]);
        if (one)
            g->is_short = json_array_append_new(list, one) != 0 || g->is_short;
    }
    if (json_array_size(list) > 0)
        return list;
    json_decref(list); /* none of what it speaks of is there */
    return NULL;
}

/* ---- arguments ---- */

static void give(struct giving *g, const struct launch_argument *a) {
    json_t *value = NULL;
    bool is_stated = true; /* the layout has what it speaks of */
    if (a->has_fact) {
        value = launch_facts_value(g->point, a->fact);
        is_stated = value != NULL;
        value = translated(g, a, value);
    } else {
        value = a->text_count > 0 ? texts_value(g, a) : json_true();
        is_stated = value != NULL;
    }
    if (!is_stated)
        return;
    const struct launch_set covers =
        a->has_fact ? launch_fact_covers(a->fact) : (struct launch_set){0, 0};
    launch_set_join(&g->covered, &a->when);
    launch_set_join(&g->covered, &covers);
    if (!value)
        return; /* a word that needs none */
    const char *const fact = a->has_fact ? launch_fact_words[a->fact] : NULL;
    json_t *const entry =
        json_pack("{s:s, s:o, s:s*}", "name", a->name, "value", value, "fact", fact);
    g->is_short = json_array_append_new(g->list, entry) != 0 || g->is_short;
}

/* Whether the engine could be told this word of a layout. */
static bool can_say(const struct launch *launch, int word) {
    struct launch_set one = {0, 0};
    launch_set_add(&one, word);
    bool can = launch_set_has(&launch->silent, &one);
    for (size_t i = 0; i < launch->argument_count && !can; ++i) {
        const struct launch_argument *const a = &launch->arguments[i];
        const struct launch_set covers =
            a->has_fact ? launch_fact_covers(a->fact) : (struct launch_set){0, 0};
        const bool is_worded = a->word_count == 0 || word_of(a, launch_words[word]);
        can = launch_set_has(&a->when, &one) || (launch_set_has(&covers, &one) && is_worded);
    }
    return can;
}

/* Words of which a layout has one: what the engine takes in place of this one; "" for none. */
static const char *others(const struct launch *launch, int word, char out[STATUS_QUOTE_MAX]) {
    static const int groups[][2] = {{FEATURE_NCCL, FEATURE_ALLGATHER},
                                    {FEATURE_ZERO1, FEATURE_HYBRID},
                                    {FEATURE_BF16, FEATURE_NVFP4},
                                    {FEATURE_RECOMPUTE_NONE, FEATURE_RECOMPUTE_FULL}};
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof groups / sizeof *groups; ++i)
        for (int k = groups[i][0]; k <= groups[i][1]; ++k)
            if (word >= groups[i][0] && word <= groups[i][1] && k != word && can_say(launch, k) &&
                used + strlen(launch_words[k]) + 3 < STATUS_QUOTE_MAX)
                used += (size_t)snprintf(out + used, STATUS_QUOTE_MAX - used, "%s%s",
                                         used ? ", " : "", launch_words[k]);
    return out;
}

static void refuse_word(struct giving *g, int word) {
    const struct engine *const e = g->point->engine;
    char has[STATUS_QUOTE_MAX];
    g->is_refused = true;
    (void)diag_error(g->diags, NULL, "not launchable on %s %s: it has no argument for %s", e->name,
                     e->version, launch_words[word]);
    if (others(g->launch, word, has)[0])
        diag_hint(g->diags, "it takes %s: plan with one of them", has);
    else
        diag_hint(g->diags, "plan without it, or name its argument in 'launch' of an engine "
                            "document");
}

/* What no argument speaks of, each by its name. */
static void refuse_rest(struct giving *g) {
    const struct launch_set unsaid = launch_set_unsaid(), none = {0, 0};
    struct launch_set rest = launch_set_minus(&g->words, &g->covered);
    rest = launch_set_minus(&rest, &g->launch->silent);
    rest = launch_set_minus(&rest, &unsaid);
    for (size_t i = 0; i < g->launch->left_count; ++i)
        if (launch_set_allows(&g->words, &g->launch->left[i].when, &none))
            rest = launch_set_minus(&rest, &g->launch->left[i].when);
    for (int i = 0; i < LAUNCH_WORDS; ++i) {
        struct launch_set one = {0, 0};
        launch_set_add(&one, i);
        if (launch_set_has(&rest, &one))
            refuse_word(g, i);
    }
}

enum mosaic_status launch_arguments(const struct launch_point *point, struct diag_list *diags,
                                    json_t **arguments) {
    struct giving g = {.point = point,
                       .launch = point->engine->launch,
                       .words = launch_facts_words(point),
                       .diags = diags,
                       .list = json_array()};
    for (size_t i = 0; g.list && i < g.launch->argument_count; ++i) {
        const struct launch_argument *const a = &g.launch->arguments[i];
        if (launch_set_allows(&g.words, &a->when, &a->unless))
            give(&g, a);
    }
    refuse_rest(&g);
    if (g.is_refused) {
        json_decref(g.list);
        return MOSAIC_BAD_INPUT;
    }
    if (!g.list || g.is_short) {
        json_decref(g.list);
        return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
    }
    *arguments = g.list;
    return MOSAIC_OK;
}

json_t *launch_left(const struct launch_point *point) {
    const struct launch *const launch = point->engine->launch;
    const struct launch_set none = {0, 0};
    struct giving g = {.point = point, .launch = launch, .words = launch_facts_words(point)};
    json_t *const list = json_array();
    bool ok = list != NULL;
    for (size_t i = 0; ok && i < launch->left_count; ++i) {
        size_t count = 0;
        if (!launch_set_allows(&g.words, &launch->left[i].when, &none))
            continue;
        char *const text = filled(&g, launch->left[i].text, 0, &count);
        if (text) /* else it is of a fact that this layout has not */
            ok = json_array_append_new(list, json_string(text)) == 0;
        free(text);
    }
    return whole_or_null(list, ok && !g.is_short);
}
