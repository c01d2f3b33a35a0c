// SPDX-License-Identifier: GPL-3.0-or-later
/* Journals: read whole at the start, appended line by line. */
#include "measure/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MODE_NEW = 0666, LINES_MAX = 1 << 20 };

static enum mosaic_status fail(const struct journal *j, enum mosaic_status status, long line,
                               struct status_error *err, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

static enum mosaic_status fail(const struct journal *j, enum mosaic_status status, long line,
                               struct status_error *err, const char *format, ...) {
    char text[STATUS_TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)status_set(err, status, "%s", text);
    (void)snprintf(err->file, sizeof err->file, "%s", j->path);
    err->line = line;
    err->column = line > 0;
    return status;
}

static enum mosaic_status fail_io(const struct journal *j, const char *what,
                                  struct status_error *err) {
    char shown[STATUS_QUOTE_MAX];
    return status_set(err, MOSAIC_IO, "cannot %s '%s': %s", what,
                      status_quote(j->path, shown, sizeof shown), strerror(errno));
}

/* ---- reading ---- */

static enum mosaic_status add(struct journal *j, const struct journal_entry *entry,
                              struct status_error *err) {
    if (j->count == j->room) {
        const size_t room = j->room > 0 ? 2 * j->room : 64;
        struct journal_entry *const more = realloc(j->entries, room * sizeof *more);
        if (!more)
            return status_no_memory(err);
        j->entries = more;
        j->room = room;
    }
    j->entries[j->count] = *entry;
    (void)json_incref(j->entries[j->count++].links);
    return MOSAIC_OK;
}

static void take_text(const json_t *object, const char *key, char out[PROTOCOL_TEXT_MAX]) {
    const char *const text = json_string_value(json_object_get(object, key));
    (void)status_quote(text ? text : "", out, PROTOCOL_TEXT_MAX);
}

/* One kind of line. */
static enum mosaic_status take_entry(const json_t *object, struct journal_entry *out,
                                     struct status_error *err) {
    const char *const refused = json_string_value(json_object_get(object, "refused"));
    if (refused) {
        out->kind = JOURNAL_REFUSED;
        out->refusal = refusal_of(refused);
        take_text(object, "text", out->text);
        if (out->refusal == REFUSALS)
            return status_set(err, MOSAIC_BAD_INPUT, "'refused' has no reason that is known");
        return protocol_keys(object, &out->sample, err);
    }
    if (json_object_get(object, "lost")) {
        out->kind = JOURNAL_LOST;
        take_text(object, "lost", out->text);
        return protocol_keys(object, &out->sample, err);
    }
    out->kind = JOURNAL_SAMPLE;
    return protocol_sample(object, &out->sample, err);
}

static enum mosaic_status take_line(struct journal *j, const char *line, size_t length,
                                    struct status_error *err) {
    struct journal_entry entry = {.text = ""};
    json_t *object = NULL;
    if (!j->has_hello) {
        TRY(protocol_hello(line, length, &j->hello, err));
        j->has_hello = true;
        return MOSAIC_OK;
    }
    TRY(protocol_object(line, length, &object, err));
    entry.round = (int)json_integer_value(json_object_get(object, "round"));
    entry.links = json_object_get(object, "links");
    const enum mosaic_status status = take_entry(object, &entry, err);
    const enum mosaic_status added = status == MOSAIC_OK ? add(j, &entry, err) : status;
    json_decref(object);
    return added;
}

/* A first line that was cut off is overwritten: it had better not be somebody's. */
static bool may_be_hello(const char *text, size_t size) {
    struct status_error unused;
    struct probe_hello hello;
    json_t *object = NULL;
    if (text[0] != '{')
        return false;
    if (protocol_object(text, size, &object, &unused) != MOSAIC_OK)
        return true; /* half of one */
    json_decref(object);
    if (protocol_hello(text, size, &hello, &unused) != MOSAIC_OK)
        return false;
    protocol_hello_free(&hello);
    return true;
}

static enum mosaic_status take_lines(struct journal *j, const char *text, size_t size,
                                     struct status_error *err) {
    struct status_error wrong;
    size_t at = 0;
    for (long line = 1; at < size; ++line) {
        const char *const end = memchr(text + at, '\n', size - at);
        if (!end) {
            j->was_cut = true;
            if (line == 1 && !may_be_hello(text, size)) {
                (void)fail(j, MOSAIC_BAD_INPUT, line, err, "no journal of samples");
                status_hint(err, "give another file for --samples");
                return MOSAIC_BAD_INPUT;
            }
            break;
        }
        const size_t length = (size_t)(end - (text + at));
        if (line > LINES_MAX)
            return fail(j, MOSAIC_BAD_INPUT, line, err, "a journal of more than %d lines",
                        LINES_MAX);
        if (take_line(j, text + at, length, &wrong) != MOSAIC_OK) {
            (void)fail(j, wrong.status, line, err, "no line of a journal: %s", wrong.message);
            status_hint(err, "is it a journal of samples? --restart begins anew");
            return wrong.status;
        }
        at += length + 1;
    }
    j->size = (long long)at;
    return MOSAIC_OK;
}

static enum mosaic_status check_kind(const struct journal *j, struct status_error *err) {
    struct stat now;
    if (fstat(j->file, &now) != 0)
        return fail_io(j, "read", err);
    return S_ISREG(now.st_mode) ? MOSAIC_OK
                                : fail(j, MOSAIC_BAD_INPUT, 0, err, "a journal is a regular file");
}

static enum mosaic_status read_all(struct journal *j, struct status_error *err) {
    enum { MOST = 1 << 30 };
    struct stat now;
    if (fstat(j->file, &now) != 0)
        return fail_io(j, "read", err);
    if (now.st_size > MOST)
        return fail(j, MOSAIC_BAD_INPUT, 0, err, "too large for a journal");
    char *const text = malloc((size_t)now.st_size + 1);
    size_t size = 0;
    if (!text)
        return status_no_memory(err);
    enum mosaic_status status = MOSAIC_OK;
    while (status == MOSAIC_OK && size < (size_t)now.st_size) {
        const ssize_t got = read(j->file, text + size, (size_t)now.st_size - size);
        if (got > 0)
            size += (size_t)got;
        else if (got == 0)
            break;
        else if (errno != EINTR)
            status = fail_io(j, "read", err);
    }
    if (status == MOSAIC_OK)
        status = take_lines(j, text, size, err);
    free(text);
    return status;
}

/* Two that write at once would lose each other's lines. */
static enum mosaic_status lock(const struct journal *j, struct status_error *err) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(j->file, F_SETLK, &whole) == 0 || (errno != EACCES && errno != EAGAIN))
        return MOSAIC_OK; /* a file system without locks is no reason to stop */
    (void)fail(j, MOSAIC_IO, 0, err, "another process is writing to this journal");
    status_hint(err, "let each calibration have a file of its own for --samples");
    return MOSAIC_IO;
}

/* What begins anew is a journal, or was one; any other file is somebody's. */
static enum mosaic_status clear(const struct journal *j, struct status_error *err) {
    char first = '{';
    if (pread(j->file, &first, 1, 0) < 0)
        return fail_io(j, "read", err);
    if (first != '{') {
        (void)fail(j, MOSAIC_BAD_INPUT, 1, err, "no journal of samples: it is left as it is");
        status_hint(err, "give another file for --samples, or remove this one");
        return MOSAIC_BAD_INPUT;
    }
    return ftruncate(j->file, 0) == 0 ? MOSAIC_OK : fail_io(j, "write", err);
}

/* Where standard error is closed, what is said there must not go into the journal. */
static int above_streams(int file) {
    if (file < 0 || file > STDERR_FILENO)
        return file;
    const int moved = fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int why = errno;
    (void)close(file);
    errno = why;
    return moved;
}

enum mosaic_status journal_open(const char *path, const struct journal_options *options,
                                struct journal *out, struct status_error *err) {
    struct journal j = {.file = -1};
    if (!path) {
        *out = j;
        return MOSAIC_OK;
    }
    j.path = strdup(path);
    if (!j.path)
        return status_no_memory(err);
    const int access = options->is_read_only ? O_RDONLY : O_RDWR | O_CREAT;
    j.file = above_streams(open(path, access | O_CLOEXEC, MODE_NEW));
    enum mosaic_status status = j.file < 0 ? fail_io(&j, "open", err) : MOSAIC_OK;
    if (status == MOSAIC_OK && !options->is_read_only)
        status = lock(&j, err);
    if (status == MOSAIC_OK)
        status = check_kind(&j, err);
    if (status == MOSAIC_OK && options->restart)
        status = clear(&j, err);
    if (status == MOSAIC_OK)
        status = read_all(&j, err);
    if (status == MOSAIC_OK)
        *out = j;
    else
        journal_close(&j);
    return status;
}

void journal_close(struct journal *journal) {
    if (journal->file >= 0)
        (void)close(journal->file);
    if (journal->has_hello)
        protocol_hello_free(&journal->hello);
    for (size_t i = 0; i < journal->count; ++i)
        json_decref(journal->entries[i].links);
    free(journal->entries);
    free(journal->path);
    *journal = (struct journal){.file = -1};
}

/* ---- writing ---- */

/* At the end of what is whole, so that a line that was cut off is overwritten. */
static enum mosaic_status write_line(struct journal *j, const json_t *object,
                                     struct status_error *err) {
    char *const text = json_dumps(object, 0);
    if (!text)
        return status_no_memory(err);
    const size_t length = strlen(text);
    size_t done = 0;
    text[length] = '\n'; /* in place of the end */
    bool ok = ftruncate(j->file, (off_t)j->size) == 0;
    while (ok && done <= length) {
        const ssize_t put =
            pwrite(j->file, text + done, length + 1 - done, (off_t)(j->size + (long long)done));
        if (put > 0)
            done += (size_t)put;
        else
            ok = put < 0 && errno == EINTR;
    }
    ok = ok && (fsync(j->file) == 0 || errno == EINVAL || errno == EROFS);
    free(text);
    if (!ok) {
        const enum mosaic_status status = fail_io(j, "write to", err);
        const int undone = ftruncate(j->file, (off_t)j->size); /* no half of a line stays */
        status_hint(err, "is the disk full?  %zu entries are in it, whole%s", j->count,
                    undone == 0 ? "" : ", and a part of one more");
        return status;
    }
    j->size += (long long)length + 1;
    return MOSAIC_OK;
}

enum mosaic_status journal_begin(struct journal *journal, const struct probe_hello *hello,
                                 struct status_error *err) {
    char text[PROTOCOL_TEXT_MAX];
    if (!journal->path)
        return MOSAIC_OK;
    if (journal->has_hello) {
        if (protocol_same(hello, &journal->hello, text))
            return MOSAIC_OK;
        (void)fail(journal, MOSAIC_BAD_INPUT, 1, err, "its samples are of something else: %s",
                   text);
        status_hint(err, "give another file, or --restart to begin this one anew");
        return MOSAIC_BAD_INPUT;
    }
    TRY(write_line(journal, hello->root, err));
    journal->hello = *hello;
    (void)json_incref(journal->hello.root);
    journal->has_hello = true;
    return MOSAIC_OK;
}

static json_t *object_of(const struct journal_entry *entry) {
    enum { TEXT = 4096 };
    char text[TEXT];
    if (entry->kind == JOURNAL_SAMPLE) {
        (void)sample_print(&entry->sample, text, sizeof text);
        return json_loads(text, 0, NULL);
    }
    text[0] = '{';
    const int used = sample_print_keys(&entry->sample, text + 1, sizeof text - 2);
    (void)snprintf(text + 1 + used, sizeof text - 1 - (size_t)used, "}");
    json_t *const object = json_loads(text, 0, NULL);
    const bool is_refused = entry->kind == JOURNAL_REFUSED;
    int failed = object ? 0 : -1;
    if (is_refused && !failed)
        failed = json_object_set_new(object, "refused", json_string(refusal_name(entry->refusal)));
    if (!failed)
        failed =
            json_object_set_new(object, is_refused ? "text" : "lost", json_string(entry->text));
    if (failed) {
        json_decref(object);
        return NULL;
    }
    return object;
}

enum mosaic_status journal_append(struct journal *journal, const struct journal_entry *entry,
                                  const json_t *object, struct status_error *err) {
    enum mosaic_status status = MOSAIC_OK;
    if (journal->path) {
        json_t *const line = object ? json_copy((json_t *)(uintptr_t)object) : object_of(entry);
        if (!line)
            return status_no_memory(err);
        (void)json_object_del(line, "id");
        bool ok = entry->round == 0 ||
                  json_object_set_new(line, "round", json_integer(entry->round)) == 0;
        ok = ok && (!entry->links || json_object_set(line, "links", entry->links) == 0);
        status = ok ? MOSAIC_OK : status_no_memory(err);
        if (status == MOSAIC_OK)
            status = write_line(journal, line, err);
        json_decref(line);
    }
    return status == MOSAIC_OK ? add(journal, entry, err) : status;
}

const struct journal_entry *journal_find(const struct journal *journal, const struct sample *keys,
                                         int round) {
    for (size_t i = journal->count; i-- > 0;)
        if (journal->entries[i].round == round &&
            sample_compare_keys(&journal->entries[i].sample, keys) == 0)
            return &journal->entries[i];
    return NULL;
}
