// SPDX-License-Identifier: GPL-3.0-or-later
/* Child process with files as its three streams: nothing to pump, nothing to deadlock. */
#include "report/gnuplot.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { NOT_FOUND = 127 }; /* what a child that could not be started exits with */

FILE *gnuplot_script(void) {
    return tmpfile();
}

static int spawn(FILE *script, FILE *out, FILE *said, pid_t *child) {
    /* --default-settings: no initialisation file of the user. */
    char program[] = "gnuplot", plain[] = "--default-settings", from_stdin[] = "-";
    char *const arguments[] = {program, plain, from_stdin, NULL};
    posix_spawn_file_actions_t actions;
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed)
        return failed;
    failed = posix_spawn_file_actions_adddup2(&actions, fileno(script), STDIN_FILENO);
    if (!failed)
        failed = out ? posix_spawn_file_actions_adddup2(&actions, fileno(out), STDOUT_FILENO)
                     : posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null",
                                                        O_WRONLY, 0);
    if (!failed)
        failed = posix_spawn_file_actions_adddup2(&actions, fileno(said), STDERR_FILENO);
    if (!failed)
        failed = posix_spawnp(child, program, &actions, NULL, arguments, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return failed;
}

static enum mosaic_status is_missing(struct status_error *err) {
    (void)status_set(err, MOSAIC_IO, "plots need gnuplot, which is not on PATH");
    status_hint(err, "install the package gnuplot-nox");
    return MOSAIC_IO;
}

/* The last line that it said is the reason; those before point at the place. */
static enum mosaic_status refused(FILE *said, struct status_error *err) {
    char line[STATUS_TEXT_MAX / 2], last[STATUS_TEXT_MAX / 2] = "no reason given";
    rewind(said);
    while (fgets(line, sizeof line, said)) {
        line[strcspn(line, "\r\n")] = '\0';
        const char *const text = line + strspn(line, " \t");
        if (*text)
            (void)snprintf(last, sizeof last, "%s", text);
    }
    return status_set(err, MOSAIC_IO, "gnuplot failed: %s", last);
}

enum mosaic_status gnuplot_run(FILE *script, FILE *out, struct status_error *err) {
    pid_t child = 0;
    int how = 0;
    if (fflush(script) != 0 || fseek(script, 0, SEEK_SET) != 0 || (out && fflush(out) != 0))
        return status_set(err, MOSAIC_IO, "cannot write a plot: %s", strerror(errno));
    FILE *const said = tmpfile();
    if (!said)
        return status_set(err, MOSAIC_IO, "cannot open a temporary file: %s", strerror(errno));
    const int failed = spawn(script, out, said, &child);
    while (!failed && waitpid(child, &how, 0) < 0)
        if (errno != EINTR)
            break;
    enum mosaic_status status = MOSAIC_OK;
    if (failed == ENOENT || (!failed && WIFEXITED(how) && WEXITSTATUS(how) == NOT_FOUND))
        status = is_missing(err);
    else if (failed)
        status = status_set(err, MOSAIC_IO, "cannot start gnuplot: %s", strerror(failed));
    else if (how != 0)
        status = refused(said, err);
    (void)fclose(said);
    return status;
}

enum mosaic_status gnuplot_check(struct status_error *err) {
    FILE *const script = gnuplot_script();
    if (!script)
        return status_set(err, MOSAIC_IO, "cannot open a temporary file: %s", strerror(errno));
    const enum mosaic_status status = gnuplot_run(script, NULL, err);
    (void)fclose(script);
    return status;
}
