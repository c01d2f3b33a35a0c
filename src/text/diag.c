// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Collecting and printing diagnostics.  Whatever a text brings in (control bytes, broken UTF-8) is
 * escaped before it reaches a terminal.
 */
#include "text/diag.h"

#include <stdarg.h>
#include <string.h>
#include <talloc.h>

enum {
    COLUMNS_BEFORE = 60, /* kept before the marked place when a line is cut */
    ESCAPE_CELLS = 4,    /* \xNN */
    LINE_NUMBER_CELLS = 5
};

static const char cut_mark[] = "...";

void diag_init(struct diag_list *list) {
    memset(list, 0, sizeof *list);
}

/* One character of text as it may be shown; returns the cells that it takes. */
static int show_character(const char *text, size_t size, char out[8], size_t *step) {
    unsigned long code = 0;
    const size_t length = source_character(text, size, &code);
    if (length > 0 &&
        (code == '\t' || (code >= 0x20 && code != 0x7F && !(code >= 0x80 && code < 0xA0)))) {
        memcpy(out, code == '\t' ? " " : text, length);
        out[length] = '\0';
        *step = length;
        return 1;
    }
    (void)snprintf(out, 8, "\\x%02X", (unsigned)(unsigned char)text[0]);
    *step = 1;
    return ESCAPE_CELLS;
}

/* Byte offset of a column of a line. */
static size_t offset_of_column(const char *line, size_t size, long column) {
    size_t at = 0;
    for (long c = 1; c < column && at < size; c++) {
        unsigned long code;
        const size_t step = source_character(line + at, size - at, &code);
        at += step ? step : 1;
    }
    return at;
}

static void put(struct diag *diag, size_t *used, const char *text) {
    const size_t length = strlen(text);
    if (*used + length < sizeof diag->excerpt) {
        memcpy(diag->excerpt + *used, text, length + 1);
        *used += length;
    }
}

/* Copy the line around the column, and find where the caret and its tail stand. */
static void take_excerpt(struct diag *diag, const struct place *place) {
    const char *line;
    size_t size, used = 0;
    if (!source_line(place->source, place->line, &line, &size) || size == 0)
        return;
    const long first = place->column > COLUMNS_BEFORE ? place->column - COLUMNS_BEFORE : 1;
    /* Short lines are shown whole, wherever the column is. */
    const bool is_short = size <= DIAG_EXCERPT_COLUMNS;
    size_t at = is_short ? 0 : offset_of_column(line, size, first);
    long column = is_short ? 1 : first;
    int cells = 0;
    if (at > 0) {
        put(diag, &used, cut_mark);
        cells = (int)sizeof cut_mark - 1;
    }
    diag->caret = -1;
    diag->span = 0;
    const long span_end = place->column + (place->span > 1 ? place->span : 1);
    for (; at < size && cells < DIAG_EXCERPT_COLUMNS; column++) {
        char shown[8];
        size_t step;
        if (column == place->column)
            diag->caret = cells;
        const int wide = show_character(line + at, size - at, shown, &step);
        put(diag, &used, shown);
        cells += wide;
        at += step;
        if (column >= place->column && column < span_end)
            diag->span += wide;
    }
    if (at < size)
        put(diag, &used, cut_mark);
    if (diag->caret < 0) /* just after the line's end */
        diag->caret = cells;
    if (diag->span < 1)
        diag->span = 1;
}

static void set_place(struct diag *diag, const struct place *place) {
    if (!place || !place->source)
        return;
    (void)status_quote(place->source->name, diag->file, sizeof diag->file);
    if (place->source->is_override || place->line < 1)
        return;
    diag->line = place->line;
    diag->column = place->column;
    if (place->column > 0)
        take_excerpt(diag, place);
}

/* The next slot, or NULL when the list is full; counts in either case. */
static struct diag *add(struct diag_list *list, enum diag_level level, enum mosaic_status status,
                        const struct place *place) {
    if (level == DIAG_ERROR) {
        list->errors++;
        if (list->status == MOSAIC_OK)
            list->status = status;
    } else if (level == DIAG_WARNING) {
        list->warnings++;
    }
    if (list->count == DIAG_MAX) {
        list->dropped++;
        return NULL;
    }
    struct diag *diag = &list->items[list->count++];
    memset(diag, 0, sizeof *diag);
    diag->level = level;
    diag->status = status;
    set_place(diag, place);
    return diag;
}

static void __attribute__((format(printf, 2, 0)))
add_text(struct diag *diag, const char *format, va_list args) {
    if (diag)
        (void)vsnprintf(diag->message, sizeof diag->message, format, args);
}

enum mosaic_status diag_error(struct diag_list *list, const struct place *place, const char *format,
                              ...) {
    va_list args;
    va_start(args, format);
    add_text(add(list, DIAG_ERROR, MOSAIC_BAD_INPUT, place), format, args);
    va_end(args);
    return MOSAIC_BAD_INPUT;
}

void diag_warning(struct diag_list *list, const struct place *place, const char *format, ...) {
    va_list args;
    va_start(args, format);
    add_text(add(list, DIAG_WARNING, MOSAIC_OK, place), format, args);
    va_end(args);
}

void diag_note(struct diag_list *list, const struct place *place, const char *format, ...) {
    va_list args;
    va_start(args, format);
    add_text(add(list, DIAG_NOTE, MOSAIC_OK, place), format, args);
    va_end(args);
}

enum mosaic_status diag_status(struct diag_list *list, enum mosaic_status status,
                               const struct place *place, const char *format, ...) {
    va_list args;
    va_start(args, format);
    add_text(add(list, DIAG_ERROR, status, place), format, args);
    va_end(args);
    return status;
}

enum mosaic_status diag_from_error(struct diag_list *list, const struct place *place,
                                   const struct status_error *err) {
    struct diag *diag = add(list, DIAG_ERROR, err->status, err->file[0] ? NULL : place);
    if (diag) {
        if (err->file[0]) {
            memcpy(diag->file, err->file, sizeof diag->file);
            diag->line = err->line;
            diag->column = err->column;
        }
        memcpy(diag->message, err->message, sizeof diag->message);
        memcpy(diag->hint, err->hint, sizeof diag->hint);
    }
    return err->status;
}

void diag_hint(struct diag_list *list, const char *format, ...) {
    /* After a dropped one the last kept is not the one that is meant. */
    if (list->count == 0 || list->dropped > 0)
        return;
    struct diag *diag = &list->items[list->count - 1];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(diag->hint, sizeof diag->hint, format, args);
    va_end(args);
}

enum mosaic_status diag_to_error(const struct diag_list *list, struct status_error *err) {
    if (list->status == MOSAIC_OK || !err)
        return list->status;
    (void)status_set(err, list->status, "input refused");
    for (size_t i = 0; i < list->count; i++) {
        const struct diag *diag = &list->items[i];
        if (diag->level != DIAG_ERROR)
            continue;
        memcpy(err->file, diag->file, sizeof err->file);
        memcpy(err->message, diag->message, sizeof err->message);
        memcpy(err->hint, diag->hint, sizeof err->hint);
        err->line = diag->line;
        err->column = diag->column;
        break;
    }
    return list->status;
}

/* Printing. */

struct paint {
    const char *bold, *level[3], *mark, *plain;
};

static const struct paint no_paint = {"", {"", "", ""}, "", ""};
static const struct paint ansi_paint = {
    "\033[1m", {"\033[1;31m", "\033[1;35m", "\033[1;36m"}, "\033[1;32m", "\033[0m"};
static const char *const level_names[] = {"error", "warning", "note"};

static void append_escaped(char **out, const char *text) {
    const size_t size = strlen(text);
    for (size_t at = 0; at < size;) {
        char shown[8];
        size_t step;
        (void)show_character(text + at, size - at, shown, &step);
        *out = talloc_strdup_append_buffer(*out, shown);
        at += step;
    }
}

static void append_excerpt(char **out, const struct diag *diag, const struct paint *paint) {
    *out = talloc_asprintf_append_buffer(*out, "%*ld | %s\n%*s | %*s%s^", LINE_NUMBER_CELLS,
                                         diag->line, diag->excerpt, LINE_NUMBER_CELLS, "",
                                         diag->caret, "", paint->mark);
    for (int i = 1; i < diag->span; i++)
        *out = talloc_strdup_append_buffer(*out, "~");
    *out = talloc_asprintf_append_buffer(*out, "%s\n", paint->plain);
}

static void append_diag(char **out, const struct diag *diag, const struct paint *paint) {
    *out = talloc_strdup_append_buffer(*out, paint->bold);
    append_escaped(out, diag->file);
    if (diag->line > 0 && diag->column > 0)
        *out = talloc_asprintf_append_buffer(*out, ":%ld:%ld", diag->line, diag->column);
    else if (diag->line > 0)
        *out = talloc_asprintf_append_buffer(*out, ":%ld", diag->line);
    *out = talloc_asprintf_append_buffer(*out, "%s%s%s%s:%s ", diag->file[0] ? ": " : "",
                                         paint->plain, paint->level[diag->level],
                                         level_names[diag->level], paint->plain);
    append_escaped(out, diag->message);
    if (diag->hint[0]) {
        *out = talloc_strdup_append_buffer(*out, "; ");
        append_escaped(out, diag->hint);
    }
    *out = talloc_strdup_append_buffer(*out, "\n");
    if (diag->excerpt[0])
        append_excerpt(out, diag, paint);
}

char *diag_text(void *memory, const struct diag_list *list, bool colour) {
    const struct paint *paint = colour ? &ansi_paint : &no_paint;
    char *out = talloc_strdup(memory, "");
    for (size_t i = 0; i < list->count; i++)
        append_diag(&out, &list->items[i], paint);
    if (list->dropped > 0)
        out = talloc_asprintf_append_buffer(out, "and %zu more\n", list->dropped);
    return out;
}
