// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Reading and checking one input text.  What libyaml's reader would refuse with no more than a byte
 * offset (bad UTF-8, control characters) is refused here with its line and column.
 */
#include "text/source.h"

#include "text/diag.h"

#include <errno.h>
#include <string.h>
#include <talloc.h>

enum { READ_BLOCK = 64 * 1024, MEGABYTE = 1024 * 1024 };

static const char bom[] = "\xEF\xBB\xBF";
enum { BOM_SIZE = 3, BOM_CODE = 0xFEFF };

struct utf8_form {
    unsigned char mask, lead;
    size_t size;
    unsigned long least;
};

size_t source_character(const char *text, size_t size, unsigned long *code) {
    static const struct utf8_form forms[] = {{0x80, 0x00, 1, 0},
                                             {0xE0, 0xC0, 2, 0x80},
                                             {0xF0, 0xE0, 3, 0x800},
                                             {0xF8, 0xF0, 4, 0x10000}};
    const unsigned char *bytes = (const unsigned char *)text;
    for (size_t f = 0; size > 0 && f < sizeof forms / sizeof forms[0]; f++) {
        if ((bytes[0] & forms[f].mask) != forms[f].lead)
            continue;
        if (forms[f].size > size)
            return 0;
        unsigned long value = bytes[0] & (unsigned char)~forms[f].mask;
        for (size_t i = 1; i < forms[f].size; i++) {
            if ((bytes[i] & 0xC0) != 0x80)
                return 0;
            value = value << 6 | (bytes[i] & 0x3F);
        }
        /* No overlong forms, surrogates, or codes beyond Unicode. */
        if (value < forms[f].least || (value >= 0xD800 && value <= 0xDFFF) || value > 0x10FFFF)
            return 0;
        *code = value;
        return forms[f].size;
    }
    return 0;
}

/* Bytes of the line break at an offset, 0 when there is none. */
static size_t break_size(const char *text, size_t size, size_t at) {
    const unsigned char *bytes = (const unsigned char *)text + at;
    const size_t left = size - at;
    if (left == 0)
        return 0;
    if (bytes[0] == '\r')
        return left > 1 && bytes[1] == '\n' ? 2 : 1;
    if (bytes[0] == '\n')
        return 1;
    if (left > 1 && bytes[0] == 0xC2 && bytes[1] == 0x85)
        return 2;
    if (left > 2 && bytes[0] == 0xE2 && bytes[1] == 0x80 && (bytes[2] == 0xA8 || bytes[2] == 0xA9))
        return 3;
    return 0;
}

static bool index_lines(struct source *source) {
    unsigned capacity = 256;
    source->lines = talloc_array(source, size_t, capacity);
    if (!source->lines)
        return false;
    source->lines[0] = 0;
    source->line_count = 1;
    for (size_t at = 0; at < source->size;) {
        const size_t step = break_size(source->text, source->size, at);
        at += step ? step : 1;
        if (step == 0)
            continue;
        if (source->line_count == capacity) {
            capacity *= 2;
            size_t *more = talloc_realloc(source, source->lines, size_t, capacity);
            if (!more)
                return false;
            source->lines = more;
        }
        source->lines[source->line_count++] = at;
    }
    return true;
}

static size_t line_of(const struct source *source, size_t offset) {
    size_t low = 0, high = source->line_count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (source->lines[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

struct place source_place(const struct source *source, size_t offset, long span) {
    if (offset > source->size)
        offset = source->size;
    const size_t line = line_of(source, offset);
    long column = 1;
    for (size_t at = source->lines[line]; at < offset; column++) {
        unsigned long code;
        const size_t step = source_character(source->text + at, source->size - at, &code);
        at += step ? step : 1;
    }
    return (struct place){source, (long)line + 1, column, span};
}

bool source_line(const struct source *source, long line, const char **start, size_t *size) {
    if (line < 1 || (size_t)line > source->line_count)
        return false;
    const size_t begin = source->lines[line - 1];
    size_t end = begin;
    while (end < source->size && break_size(source->text, source->size, end) == 0)
        end++;
    *start = source->text + begin;
    *size = end - begin;
    return true;
}

/* Characters that YAML 1.1 calls printable, tab and breaks included. */
static bool is_allowed(unsigned long code) {
    return code == '\t' || code == '\n' || code == '\r' || (code >= 0x20 && code <= 0x7E) ||
           code == 0x85 || (code >= 0xA0 && code <= 0xD7FF) ||
           (code >= 0xE000 && code <= 0xFFFD && code != BOM_CODE) || code >= 0x10000;
}

static enum mosaic_status refuse_bytes(const struct source *source, size_t offset,
                                       unsigned long code, struct diag_list *diags) {
    const struct place place = source_place(source, offset, 1);
    const unsigned byte = (unsigned char)source->text[offset];
    if (code == 0)
        (void)diag_error(diags, &place, "NUL byte");
    else if (code == BOM_CODE)
        (void)diag_error(diags, &place, "byte-order mark inside the text");
    else
        (void)diag_error(diags, &place, "control character U+%04lX", code);
    diag_hint(diags, code == 0 && byte == 0 ? "is this a text file?" : "remove it");
    return MOSAIC_BAD_INPUT;
}

static enum mosaic_status check_characters(const struct source *source, struct diag_list *diags) {
    const unsigned char *start = (const unsigned char *)source->text;
    if (source->size >= 2 &&
        ((start[0] == 0xFF && start[1] == 0xFE) || (start[0] == 0xFE && start[1] == 0xFF))) {
        const struct place place = source_place(source, 0, 1);
        (void)diag_error(diags, &place, "the text is UTF-16");
        diag_hint(diags, "save it as UTF-8");
        return MOSAIC_BAD_INPUT;
    }
    for (size_t at = 0; at < source->size;) {
        unsigned long code = 0;
        const size_t step = source_character(source->text + at, source->size - at, &code);
        if (step == 0) {
            const struct place place = source_place(source, at, 1);
            (void)diag_error(diags, &place, "byte 0x%02X is not UTF-8", (unsigned)start[at]);
            diag_hint(diags, start[at] >= 0xA0 ? "the file looks like Latin-1; save it as UTF-8"
                                               : "save the file as UTF-8");
            return MOSAIC_BAD_INPUT;
        }
        if (!is_allowed(code))
            return refuse_bytes(source, at, code, diags);
        at += step;
    }
    return MOSAIC_OK;
}

/* Takes over text, which must be a child of source and NUL-terminated. */
static enum mosaic_status finish(struct source *source, const char *text, size_t size,
                                 struct diag_list *diags) {
    const bool has_bom = size >= BOM_SIZE && memcmp(text, bom, BOM_SIZE) == 0;
    source->text = has_bom ? text + BOM_SIZE : text;
    source->size = has_bom ? size - BOM_SIZE : size;
    if (!index_lines(source))
        return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
    return check_characters(source, diags);
}

static enum mosaic_status copy_text(void *memory, const char *name, const char *text, size_t size,
                                    bool is_override, struct source **out,
                                    struct diag_list *diags) {
    struct source *source = talloc_zero(memory, struct source);
    char *copy = source ? talloc_size(source, size + 1) : NULL;
    if (copy)
        source->name = talloc_strdup(source, name);
    if (!copy || !source->name) {
        talloc_free(source);
        return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
    }
    source->is_override = is_override;
    memcpy(copy, text, size);
    copy[size] = '\0';
    const enum mosaic_status status = finish(source, copy, size, diags);
    if (status != MOSAIC_OK) {
        talloc_free(source);
        return status;
    }
    *out = source;
    return MOSAIC_OK;
}

enum mosaic_status source_from_text(void *memory, const char *name, const char *text, size_t size,
                                    struct source **out, struct diag_list *diags) {
    return copy_text(memory, name, text, size, false, out, diags);
}

enum mosaic_status source_from_override(void *memory, const char *name, const char *text,
                                        struct source **out, struct diag_list *diags) {
    return copy_text(memory, name, text, strlen(text), true, out, diags);
}

/* Read to the end or past the limit; NULL with errno set when reading fails. */
static char *read_all(void *memory, FILE *stream, size_t limit, size_t *size) {
    size_t used = 0, capacity = READ_BLOCK;
    char *text = talloc_size(memory, capacity + 1);
    while (text && used <= limit) {
        errno = 0;
        const size_t got = fread(text + used, 1, capacity - used, stream);
        used += got;
        if (ferror(stream)) {
            const int reason = errno;
            talloc_free(text);
            errno = reason ? reason : EIO;
            return NULL;
        }
        if (got == 0)
            break;
        if (used == capacity) {
            capacity *= 2;
            text = talloc_realloc_size(memory, text, capacity + 1);
        }
    }
    if (!text) {
        errno = ENOMEM;
        return NULL;
    }
    text[used] = '\0';
    *size = used;
    return text;
}

static enum mosaic_status refuse_file(const struct source *source, const char *what, int reason,
                                      const struct place *from, struct diag_list *diags) {
    const enum mosaic_status status = reason == ENOMEM ? MOSAIC_INTERNAL : MOSAIC_IO;
    const struct place whole = {.source = source};
    if (!from)
        return diag_status(diags, status, &whole, "cannot %s: %s", what, strerror(reason));
    return diag_status(diags, status, from, "cannot %s '%s': %s", what, source->name,
                       strerror(reason));
}

static enum mosaic_status read_into(struct source *source, FILE *stream, size_t limit,
                                    const struct place *from, struct diag_list *diags) {
    size_t size = 0;
    char *text = read_all(source, stream, limit, &size);
    if (!text)
        return refuse_file(source, "read", errno, from, diags);
    if (size > limit) {
        const struct place whole = {.source = source};
        return diag_error(diags, &whole, "longer than %zu MiB", limit / MEGABYTE);
    }
    return finish(source, text, size, diags);
}

enum mosaic_status source_read(void *memory, const char *path, size_t limit,
                               const struct place *from, struct source **out,
                               struct diag_list *diags) {
    const bool is_stdin = strcmp(path, "-") == 0;
    struct source *source = talloc_zero(memory, struct source);
    if (source)
        source->name = talloc_strdup(source, is_stdin ? "<stdin>" : path);
    if (!source || !source->name) {
        talloc_free(source);
        return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
    }
    FILE *stream = is_stdin ? stdin : fopen(path, "rb");
    const enum mosaic_status status = stream ? read_into(source, stream, limit, from, diags)
                                             : refuse_file(source, "open", errno, from, diags);
    if (stream && !is_stdin)
        (void)fclose(stream);
    if (status != MOSAIC_OK) {
        talloc_free(source);
        return status;
    }
    *out = source;
    return MOSAIC_OK;
}

char *source_resolve(void *memory, const struct source *source, const char *path) {
    const char *slash = source && !source->is_override ? strrchr(source->name, '/') : NULL;
    if (path[0] == '/' || !slash || strcmp(path, "-") == 0)
        return talloc_strdup(memory, path);
    return talloc_asprintf(memory, "%.*s/%s", (int)(slash - source->name), source->name, path);
}

void source_free(struct source *source) {
    talloc_free(source);
}
