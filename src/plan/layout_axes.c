// SPDX-License-Identifier: GPL-3.0-or-later
/* Axes by name. */
#include "plan/layout_axes.h"

#include "base/suggest.h"
#include "plan/mesh_walk.h"

#include <stdlib.h>
#include <string.h>

enum { VALUE_MAX = 1 << 20 };

/* As texts name them; "mbs" is what engines call a micro-batch. */
static const struct {
    const char *word;
    enum layout_axis axis;
} words[] = {{"tp", LAYOUT_TP},
             {"cp", LAYOUT_CP},
             {"pp", LAYOUT_PP},
             {"vpp", LAYOUT_VPP},
             {"ep", LAYOUT_EP},
             {"etp", LAYOUT_ETP},
             {"micro_batch", LAYOUT_MICRO_BATCH},
             {"mbs", LAYOUT_MICRO_BATCH},
             {"recompute", LAYOUT_RECOMPUTE},
             {"schedule", LAYOUT_SCHEDULE}};
enum { WORDS = sizeof words / sizeof words[0] };
static const char axis_list[] = "tp, cp, pp, vpp, ep, etp, micro_batch (or mbs), recompute (none, "
                                "selective, full), schedule (1f1b, zero_bubble, dualpipe)";

const char *layout_axis_name(enum layout_axis axis) {
    for (size_t i = 0; i < WORDS; ++i)
        if (words[i].axis == axis)
            return words[i].word;
    return "unknown";
}

int layout_axis_get(const struct mesh *m, enum layout_axis axis) {
    const int values[LAYOUT_WAY + 1] = {[LAYOUT_TP] = m->tp,
                                        [LAYOUT_CP] = m->cp,
                                        [LAYOUT_PP] = m->pp,
                                        [LAYOUT_VPP] = m->vpp,
                                        [LAYOUT_EP] = m->ep,
                                        [LAYOUT_ETP] = m->etp,
                                        [LAYOUT_MICRO_BATCH] = m->micro_batch,
                                        [LAYOUT_RECOMPUTE] = (int)m->recompute,
                                        [LAYOUT_SCHEDULE] = (int)m->schedule,
                                        [LAYOUT_WAY] = m->way};
    return (unsigned)axis <= LAYOUT_WAY ? values[axis] : 0;
}

void layout_axis_set(struct mesh *m, enum layout_axis axis, int value) {
    int *const numbers[] = {&m->tp, &m->cp, &m->pp, &m->vpp, &m->ep, &m->etp, &m->micro_batch};
    if (axis == LAYOUT_RECOMPUTE)
        m->recompute = (enum recompute)value;
    else if (axis == LAYOUT_SCHEDULE)
        m->schedule = (enum schedule)value;
    else if (axis == LAYOUT_WAY)
        m->way = value;
    else if ((unsigned)axis < sizeof numbers / sizeof numbers[0])
        *numbers[axis] = value;
}

const char *layout_axis_text(enum layout_axis axis, int value, char out[STATUS_QUOTE_MAX]) {
    if (axis == LAYOUT_RECOMPUTE)
        return recompute_name((enum recompute)value);
    if (axis == LAYOUT_SCHEDULE)
        return schedule_name((enum schedule)value);
    (void)snprintf(out, STATUS_QUOTE_MAX, "%d", value);
    return out;
}

static const struct axis *numbers_of(const struct layout_space *s, enum layout_axis axis) {
    const struct axis *const axes[] = {&s->tp, &s->cp,  &s->pp,         &s->vpp,
                                       &s->ep, &s->etp, &s->micro_batch};
    return (unsigned)axis < sizeof axes / sizeof axes[0] ? axes[axis] : NULL;
}

/* Marks of a space's recomputations or schedules, and how many there are. */
static const bool *marks_of(const struct layout_space *s, enum layout_axis axis, int *count) {
    *count = axis == LAYOUT_RECOMPUTE ? (int)RECOMPUTE_MODES : (int)SCHEDULES;
    return axis == LAYOUT_RECOMPUTE ? s->recompute : s->schedule;
}

static bool pinned_mark(const bool *marks, int count, int *value) {
    int set = 0;
    for (int i = 0; i < count; ++i)
        if (marks[i]) {
            *value = i;
            set++;
        }
    return set == 1;
}

bool layout_axis_pinned(const struct layout_space *s, enum layout_axis axis, int *value) {
    const struct axis *const numbers = numbers_of(s, axis);
    if (numbers) {
        if (numbers->count == 1)
            *value = numbers->values[0];
        return numbers->count == 1;
    }
    int count, found = 0;
    const bool *const marks = marks_of(s, axis, &count);
    if (!pinned_mark(marks, count, &found))
        return false;
    *value = found;
    return true;
}

bool layout_axis_declared(const struct layout_space *s, enum layout_axis axis, int value) {
    const struct axis *const numbers = numbers_of(s, axis);
    if (numbers) {
        for (int i = 0; i < numbers->count; ++i)
            if (numbers->values[i] == value)
                return true;
        return numbers->count == 0 && !axis_forbids(numbers, value);
    }
    int count;
    const bool *const marks = marks_of(s, axis, &count);
    if (value < 0 || value >= count)
        return false;
    /* A space without a schedule takes 1F1B. */
    bool any = false;
    for (int i = 0; i < count; ++i)
        any = any || marks[i];
    return any ? marks[value] : value == 0;
}

unsigned layout_way_difference(const struct execution *a, const struct execution *b) {
    unsigned keys = 0;
    for (int i = 0; i < WAY_AXES; ++i) {
        const double left = way_axis_get(a, (enum way_axis)i),
                     right = way_axis_get(b, (enum way_axis)i);
        if (left < right || left > right)
            keys |= 1u << i;
    }
    return keys;
}

/* Axes first, then keys of the execution. */
static const char *word_at(const void *context, size_t index) {
    (void)context;
    return index < WORDS ? words[index].word : way_axis_name((enum way_axis)(index - WORDS));
}

static bool read_word(enum layout_axis axis, const char *text, int *value) {
    const int count = axis == LAYOUT_RECOMPUTE ? (int)RECOMPUTE_MODES : (int)SCHEDULES;
    char unused[STATUS_QUOTE_MAX];
    for (int i = 0; i < count; ++i)
        if (strcmp(layout_axis_text(axis, i, unused), text) == 0) {
            *value = i;
            /* Interleaving follows from vpp. */
            return axis != LAYOUT_SCHEDULE || i != (int)SCHEDULE_INTERLEAVED;
        }
    return false;
}

static bool read_number(const char *text, int *value) {
    if (text[0] == '\0' || strspn(text, "0123456789") != strlen(text) || strlen(text) > 7)
        return false;
    const long number = strtol(text, NULL, 10);
    *value = (int)number;
    return number >= 1 && number <= VALUE_MAX;
}

static void hint_axes(struct status_error *err) {
    char keys[STATUS_TEXT_MAX] = "";
    for (int i = 0; i < WAY_AXES; ++i) {
        const size_t used = strlen(keys);
        (void)snprintf(keys + used, sizeof keys - used, "%s%s", i ? ", " : "",
                       way_axis_name((enum way_axis)i));
    }
    status_hint(err, "axes: %s; keys of execution: %s", axis_list, keys);
}

static enum mosaic_status refuse_axis(const char *name, struct status_error *err) {
    char quote[STATUS_QUOTE_MAX];
    const char *const near = suggest_from(name, word_at, NULL, WORDS + WAY_AXES);
    (void)status_set(err, MOSAIC_USAGE, "layout: unknown axis '%s'%s%s%s",
                     status_quote(name, quote, sizeof quote), near ? "; did you mean '" : "",
                     near ? near : "", near ? "'?" : "");
    hint_axes(err);
    return MOSAIC_USAGE;
}

static enum mosaic_status refuse_twice(const char *name, struct status_error *err) {
    return status_set(err, MOSAIC_USAGE, "layout: %s is given twice", name);
}

/* "sharding takes zero1, ddp" or what numbers there are. */
static void hint_way(enum way_axis axis, struct status_error *err) {
    const char *const *const list = way_axis_words(axis);
    char text[STATUS_TEXT_MAX] = "";
    for (int i = 0; list && list[i]; ++i) {
        const size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "", list[i]);
    }
    status_hint(err, "%s takes %s", way_axis_name(axis),
                list ? text : "what execution takes there in a plan");
}

static enum mosaic_status read_way(enum way_axis axis, const char *text, struct layout_request *out,
                                   struct status_error *err) {
    char quote[STATUS_QUOTE_MAX];
    double value = 0.0;
    if (!way_axis_read(axis, text, &value)) {
        (void)status_set(err, MOSAIC_USAGE, "layout: %s '%s' is no value of it",
                         way_axis_name(axis), status_quote(text, quote, sizeof quote));
        hint_way(axis, err);
        return MOSAIC_USAGE;
    }
    if (out->given_ways & 1u << axis)
        return refuse_twice(way_axis_name(axis), err);
    out->given_ways |= 1u << axis;
    out->ways[axis] = value;
    return MOSAIC_OK;
}

static enum mosaic_status read_axis(enum layout_axis axis, const char *name, const char *text,
                                    struct layout_request *out, struct status_error *err) {
    char quote[STATUS_QUOTE_MAX];
    const bool is_word = axis == LAYOUT_RECOMPUTE || axis == LAYOUT_SCHEDULE;
    int value = 0;
    if (is_word ? !read_word(axis, text, &value) : !read_number(text, &value)) {
        (void)status_set(err, MOSAIC_USAGE, "layout: %s '%s' is %s", name,
                         status_quote(text, quote, sizeof quote),
                         is_word ? "no word of it" : "no whole number from 1 to 1048576");
        hint_axes(err);
        return MOSAIC_USAGE;
    }
    if (out->given & 1u << axis)
        return refuse_twice(layout_axis_name(axis), err);
    out->given |= 1u << axis;
    layout_axis_set(&out->mesh, axis, value);
    return MOSAIC_OK;
}

static enum mosaic_status read_pair(char *pair, struct layout_request *out,
                                    struct status_error *err) {
    char quote[STATUS_QUOTE_MAX];
    char *const equals = strchr(pair, '=');
    if (!equals) {
        (void)status_set(err, MOSAIC_USAGE, "layout: '%s' is no AXIS=VALUE",
                         status_quote(pair, quote, sizeof quote));
        hint_axes(err);
        return MOSAIC_USAGE;
    }
    *equals = '\0';
    for (size_t i = 0; i < WORDS; ++i)
        if (strcmp(words[i].word, pair) == 0)
            return read_axis(words[i].axis, pair, equals + 1, out, err);
    for (int i = 0; i < WAY_AXES; ++i)
        if (strcmp(way_axis_name((enum way_axis)i), pair) == 0)
            return read_way((enum way_axis)i, equals + 1, out, err);
    return refuse_axis(pair, err);
}

enum mosaic_status layout_text_read(const char *text, struct layout_request *out,
                                    struct status_error *err) {
    enum { TEXT_MAX = 512 };
    char copy[TEXT_MAX];
    size_t length = 0;
    *out = (struct layout_request){0};
    for (const char *c = text; *c; ++c) { /* blanks around an axis mean nothing */
        if (*c == ' ')
            continue;
        if (length + 1 >= sizeof copy)
            return status_set(err, MOSAIC_USAGE, "layout: a text of more than %d characters",
                              TEXT_MAX - 1);
        copy[length++] = *c;
    }
    copy[length] = '\0';
    for (char *next = copy; next;) {
        char *const pair = next, *const comma = strchr(pair, ',');
        next = comma ? comma + 1 : NULL;
        if (comma)
            *comma = '\0';
        TRY(read_pair(pair, out, err));
    }
    return MOSAIC_OK;
}
