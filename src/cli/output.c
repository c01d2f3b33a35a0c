// SPDX-License-Identifier: GPL-3.0-or-later
/* Atomic output files. */
#define _XOPEN_SOURCE 700 /* realpath */ // NOLINT(bugprone-reserved-identifier,cert-*)
#include "cli/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char SUFFIX[] = ".XXXXXX";
enum { MODE_NEW = 0666, MODE_BITS = 07777, MODE_DIRECTORY = 0777 };

static enum mosaic_status fail(struct status_error *err, const char *path, const char *what) {
    return status_set(err, MOSAIC_IO, "cannot %s '%s': %s", what, path, strerror(errno));
}

static void clear(struct output *output) {
    free(output->path);
    free(output->temporary);
    *output = (struct output){0};
}

/* The file behind a symbolic link, so that the link survives; a copy of path when there is none. */
static char *resolve(const char *path) {
    char *const real = realpath(path, NULL);
    return real ? real : strdup(path);
}

static enum mosaic_status open_in_place(struct output *output, struct status_error *err) {
    output->stream = fopen(output->path, "w");
    if (output->stream)
        return MOSAIC_OK;
    const enum mosaic_status status = fail(err, output->path, "open");
    clear(output);
    return status;
}

static enum mosaic_status open_beside(struct output *output, mode_t mode,
                                      struct status_error *err) {
    const size_t length = strlen(output->path);
    output->temporary = malloc(length + sizeof SUFFIX);
    if (!output->temporary) {
        clear(output);
        return status_no_memory(err);
    }
    memcpy(output->temporary, output->path, length);
    memcpy(output->temporary + length, SUFFIX, sizeof SUFFIX);
    const int file = mkstemp(output->temporary);
    if (file >= 0 && fchmod(file, mode) == 0)
        output->stream = fdopen(file, "w");
    if (output->stream)
        return MOSAIC_OK;
    const enum mosaic_status status = fail(err, output->path, "create");
    if (file >= 0) {
        (void)close(file);
        (void)unlink(output->temporary);
    }
    clear(output);
    return status;
}

enum mosaic_status output_open(struct output *output, const char *path, struct status_error *err) {
    *output = (struct output){0};
    if (!path || strcmp(path, "-") == 0) {
        output->stream = stdout;
        return MOSAIC_OK;
    }
    output->path = resolve(path);
    if (!output->path)
        return status_no_memory(err);
    struct stat now;
    const bool exists = stat(output->path, &now) == 0;
    if (exists && !S_ISREG(now.st_mode))
        return open_in_place(output, err);
    const mode_t mask = umask(0);
    (void)umask(mask);
    return open_beside(output, exists ? now.st_mode & MODE_BITS : MODE_NEW & ~mask, err);
}

enum mosaic_status output_commit(struct output *output, struct status_error *err) {
    if (!output->path)
        return MOSAIC_OK;
    FILE *const stream = output->stream;
    output->stream = NULL;
    /* A renamed file must not be empty after a crash. */
    const bool flushed = fflush(stream) == 0 && !ferror(stream) &&
                         (!output->temporary || fsync(fileno(stream)) == 0);
    const bool written = (fclose(stream) == 0) && flushed;
    enum mosaic_status status = MOSAIC_OK;
    if (!written || (output->temporary && rename(output->temporary, output->path) != 0)) {
        status = fail(err, output->path, "write");
        if (output->temporary)
            (void)unlink(output->temporary);
    }
    clear(output);
    return status;
}

void output_abandon(struct output *output) {
    if (output->path && output->stream)
        (void)fclose(output->stream);
    if (output->temporary)
        (void)unlink(output->temporary);
    clear(output);
}

enum mosaic_status output_text(const char *path, const char *text) {
    struct status_error err = {0};
    struct output output;
    enum mosaic_status status = output_open(&output, path, &err);
    if (status == MOSAIC_OK) {
        (void)fputs(text, output.stream);
        status = output_commit(&output, &err);
    }
    if (status != MOSAIC_OK)
        (void)fprintf(stderr, "mosaic: %s\n", err.message);
    return status;
}

enum mosaic_status output_directory(const char *path, struct status_error *err) {
    struct stat now;
    if (mkdir(path, MODE_DIRECTORY) == 0)
        return MOSAIC_OK;
    if (errno == EEXIST && stat(path, &now) == 0) {
        if (S_ISDIR(now.st_mode))
            return MOSAIC_OK;
        errno = ENOTDIR;
    }
    return fail(err, path, "make the directory");
}

enum mosaic_status output_check_stdout(void) {
    if (!ferror(stdout) && fflush(stdout) == 0)
        return MOSAIC_OK;
    (void)fprintf(stderr, "mosaic: cannot write to standard output: %s\n", strerror(errno));
    return MOSAIC_IO;
}
