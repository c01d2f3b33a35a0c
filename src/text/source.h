// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * One input text in memory with its lines.  Only UTF-8 without control bytes passes; a byte-order
 * mark is dropped.  Lines break as YAML 1.1 breaks them (LF, CRLF, CR, NEL, LS, PS), columns count
 * characters from 1.  Memory comes from talloc: `memory` is the parent that frees it, or NULL.
 */
#ifndef MOSAIC_TEXT_SOURCE_H
#define MOSAIC_TEXT_SOURCE_H

#include "base/status.h"

#include <stdbool.h>

enum { SOURCE_MAX_BYTES = 8 * 1024 * 1024 };

struct diag_list;

struct source {
    const char *name;  /* file as the user named it, "<stdin>", or "--set KEY=VALUE" */
    const char *text;  /* NUL-terminated */
    size_t size;       /* bytes without the NUL */
    size_t *lines;     /* offset where each line starts */
    size_t line_count; /* at least 1 */
    bool is_override;  /* from the command line: diagnostics name it without line or excerpt */
    bool is_derived;   /* what stands here follows from other values of the text */
};

/* Where something stands.  A null source with line 0 means "nowhere in particular". */
struct place {
    const struct source *source;
    long line, column; /* from 1; 0 when unknown */
    long span;         /* characters on the line, at least 1 when known */
};

/* Read a file, or standard input for "-"; `from` is where its name was written, or NULL. */
MOSAIC_MUST_USE enum mosaic_status source_read(void *memory, const char *path, size_t limit,
                                               const struct place *from, struct source **source,
                                               struct diag_list *diags);
/* Take a copy of a text. */
MOSAIC_MUST_USE enum mosaic_status source_from_text(void *memory, const char *name,
                                                    const char *text, size_t size,
                                                    struct source **source,
                                                    struct diag_list *diags);
/* The same for a value from the command line; name is what diagnostics call it. */
MOSAIC_MUST_USE enum mosaic_status source_from_override(void *memory, const char *name,
                                                        const char *text, struct source **source,
                                                        struct diag_list *diags);
/* Place of a byte offset. */
struct place source_place(const struct source *source, size_t offset, long span);
/* Text of one line without its break; false when there is no such line. */
bool source_line(const struct source *source, long line, const char **start, size_t *size);
/* Bytes of the UTF-8 character that text starts with and its code point; 0 when it is none. */
size_t source_character(const char *text, size_t size, unsigned long *code);
/* `path` as seen from the directory of the file that names it. */
char *source_resolve(void *memory, const struct source *source, const char *path);
void source_free(struct source *source);

#endif
