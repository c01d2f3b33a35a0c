// SPDX-License-Identifier: GPL-3.0-or-later
/* Errors with place: setting, wrapping, hints. */
#include "base/status.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

const char *mosaic_status_text(enum mosaic_status status) {
    switch (status) {
#define STATUS_CASE(name, code, text)                                                              \
    case name:                                                                                     \
        return text;
        MOSAIC_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
    }
    return "unknown status";
}

enum mosaic_status status_set(struct status_error *err, enum mosaic_status status,
                              const char *format, ...) {
    if (err) {
        memset(err, 0, sizeof *err);
        err->status = status;
        va_list args;
        va_start(args, format);
        (void)vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
    }
    return status;
}

void status_hint(struct status_error *err, const char *format, ...) {
    if (!err)
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(err->hint, sizeof err->hint, format, args);
    va_end(args);
}

void status_wrap(struct status_error *err, const char *format, ...) {
    if (!err)
        return;
    char text[STATUS_TEXT_MAX];
    va_list args;
    va_start(args, format);
    int used = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (used < 0)
        used = 0;
    if ((size_t)used >= sizeof text)
        used = (int)sizeof text - 1;
    if (snprintf(text + used, sizeof text - (size_t)used, ": %s", err->message) < 0)
        text[used] = '\0';
    memcpy(err->message, text, sizeof text);
    err->message[sizeof err->message - 1] = '\0';
}

const char *status_quote(const char *text, char *buffer, size_t size) {
    static const char ellipsis[] = "...";
    const size_t length = strlen(text);
    size_t take = length;
    const bool is_cut = length >= size;
    if (is_cut) {
        take = size - sizeof ellipsis;
        while (take > 0 && ((unsigned char)text[take] & 0xC0) == 0x80) /* inside a character */
            take--;
    }
    for (size_t i = 0; i < take; i++) {
        const unsigned char byte = (unsigned char)text[i];
        buffer[i] = byte < 0x20 || byte == 0x7F ? '?' : text[i];
    }
    if (is_cut)
        memcpy(buffer + take, ellipsis, sizeof ellipsis);
    else
        buffer[take] = '\0';
    return buffer;
}

enum mosaic_status status_no_memory(struct status_error *err) {
    return status_set(err, MOSAIC_INTERNAL, "out of memory");
}
