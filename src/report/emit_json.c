// SPDX-License-Identifier: GPL-3.0-or-later
/* JSON by jansson, and the dispatch over formats. */
#include "report/emit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 17, INDENT = 2 };

enum mosaic_status emit_json_text(json_t *root, char **text, struct status_error *err) {
    char *dump = json_dumps(root, JSON_INDENT(INDENT) | JSON_REAL_PRECISION(DIGITS));
    if (!dump)
        return status_set(err, MOSAIC_INTERNAL, "a result cannot be written as JSON");
    const size_t length = strlen(dump);
    char *line = realloc(dump, length + 2);
    if (!line) {
        free(dump);
        return status_no_memory(err);
    }
    line[length] = '\n';
    line[length + 1] = '\0';
    *text = line;
    return MOSAIC_OK;
}

enum mosaic_status emit_json(json_t *root, FILE *stream, struct status_error *err) {
    char *text = NULL;
    TRY(emit_json_text(root, &text, err));
    (void)fputs(text, stream);
    free(text);
    return MOSAIC_OK;
}

static enum mosaic_status emit_format(json_t *root, enum mosaic_format format,
                                      const struct emit_options *options, FILE *stream,
                                      struct status_error *err) {
    switch (format) {
    case MOSAIC_TABLE:
        return emit_table(root, options, stream, err);
    case MOSAIC_JSON:
        return emit_json(root, stream, err);
    case MOSAIC_CSV:
        return emit_csv(root, stream, err);
    case MOSAIC_YAML:
        return emit_yaml(root, stream, err);
    }
    return status_set(err, MOSAIC_USAGE, "unknown output format");
}

/* One write: its error is known, and a result that cannot be composed leaves nothing behind. */
static enum mosaic_status put(const char *text, size_t size, FILE *stream,
                              struct status_error *err) {
    errno = 0;
    if (fwrite(text, 1, size, stream) == size && fflush(stream) == 0 && !ferror(stream))
        return MOSAIC_OK;
    return status_set(err, MOSAIC_IO, "cannot write the result: %s",
                      errno ? strerror(errno) : "write error");
}

enum mosaic_status emit(json_t *root, enum mosaic_format format, const struct emit_options *options,
                        FILE *stream, struct status_error *err) {
    char *text = NULL;
    size_t size = 0;
    FILE *const memory = open_memstream(&text, &size);
    if (!memory)
        return status_no_memory(err);
    enum mosaic_status status = emit_format(root, format, options, memory, err);
    const bool whole = !ferror(memory);
    if (fclose(memory) != 0 || !whole)
        status = status_no_memory(err);
    if (status == MOSAIC_OK)
        status = put(text, size, stream, err);
    free(text);
    return status;
}
