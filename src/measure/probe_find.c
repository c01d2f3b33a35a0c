// SPDX-License-Identifier: GPL-3.0-or-later
/* Where a probe lies: beside the program, then on the PATH. */
#include "measure/probe_process.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char prefix[] = "mosaic-probe-";

static bool is_program(const char *path) {
    struct stat now;
    return stat(path, &now) == 0 && S_ISREG(now.st_mode) && access(path, X_OK) == 0;
}

static bool join(char path[PROBE_PATH_MAX], const char *folder, size_t length, const char *name) {
    const int size = snprintf(path, PROBE_PATH_MAX, "%.*s%s%s%s", (int)length, folder,
                              length > 0 ? "/" : "./", prefix, name);
    return size > 0 && size < PROBE_PATH_MAX && is_program(path);
}

static bool on_path(const char *name, char path[PROBE_PATH_MAX]) {
    const char *at = getenv("PATH");
    while (at && *at) {
        const size_t length = strcspn(at, ":");
        if (join(path, at, length, name))
            return true;
        at += length;
        at += *at == ':';
    }
    return false;
}

/* The probes that are there, as "cuda, host". */
static void list(const char *beside, char *text, size_t size) {
    DIR *const folder = beside ? opendir(beside) : NULL;
    size_t used = 0;
    text[0] = '\0';
    for (const struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        if (strncmp(entry->d_name, prefix, sizeof prefix - 1) != 0 || used >= size)
            continue;
        char shown[STATUS_QUOTE_MAX];
        used +=
            (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "",
                             status_quote(entry->d_name + sizeof prefix - 1, shown, sizeof shown));
    }
    if (folder)
        (void)closedir(folder);
}

static enum mosaic_status refuse_path(const char *path, struct status_error *err) {
    char shown[STATUS_QUOTE_MAX];
    struct stat now;
    (void)status_quote(path, shown, sizeof shown);
    if (stat(path, &now) != 0)
        (void)status_set(err, MOSAIC_DEVICE, "no probe '%s': %s", shown, strerror(errno));
    else if (S_ISDIR(now.st_mode))
        (void)status_set(err, MOSAIC_DEVICE, "the probe '%s' is a directory", shown);
    else
        (void)status_set(err, MOSAIC_DEVICE, "the probe '%s' cannot be executed", shown);
    status_hint(err, "--probe takes a name, such as host, or the path of an executable");
    return MOSAIC_DEVICE;
}

enum mosaic_status probe_find(const char *name, const char *beside, char path[PROBE_PATH_MAX],
                              struct status_error *err) {
    char shown[STATUS_QUOTE_MAX], there[STATUS_TEXT_MAX / 2];
    char found[PROBE_PATH_MAX];
    if (strchr(name, '/')) {
        if (strlen(name) >= PROBE_PATH_MAX || !is_program(name))
            return refuse_path(name, err);
        (void)snprintf(path, PROBE_PATH_MAX, "%s", name);
        return MOSAIC_OK;
    }
    if ((beside && join(found, beside, strlen(beside), name)) || on_path(name, found)) {
        memcpy(path, found, sizeof found);
        return MOSAIC_OK;
    }
    list(beside, there, sizeof there);
    (void)status_set(err, MOSAIC_DEVICE,
                     "no probe '%s': there is no executable mosaic-probe-%s beside the program or "
                     "on the PATH",
                     status_quote(name, shown, sizeof shown), shown);
    if (strcmp(name, "cuda") == 0)
        status_hint(err, "it is built where nvcc and cuBLAS are; beside the program: %s",
                    *there ? there : "none");
    else
        status_hint(err, "beside the program: %s", *there ? there : "none");
    return MOSAIC_DEVICE;
}
