// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * fork() and execve(): posix_spawn() leaves no room for prctl().  What the child calls before the
 * exec is safe after a fork of a process with threads.
 */
#include "measure/probe_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

extern char **environ;

enum { STATUS_NO_EXEC = 127 };

static void usual_signals(void) {
    static const int signals[] = {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction usual;
    sigset_t none;
    memset(&usual, 0, sizeof usual);
    usual.sa_handler = SIG_DFL;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; ++i)
        (void)sigaction(signals[i], &usual, NULL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* False: the parent has died before the kernel was told to mind it. */
static bool die_with(pid_t parent) {
#ifdef __linux__
    (void)prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0UL, 0UL, 0UL);
#endif
    return getppid() == parent;
}

static _Noreturn void become(const char *path, char *const *arguments, const int ends[3],
                             int report, pid_t parent) {
    int failed = setpgid(0, 0) == 0 ? 0 : errno;
    usual_signals();
    if (!die_with(parent))
        _exit(STATUS_NO_EXEC);
    for (int i = 0; failed == 0 && i < 3; ++i)
        failed = dup2(ends[i], i) == i ? 0 : errno;
    if (failed == 0) {
        (void)execve(path, arguments, environ);
        failed = errno;
    }
    while (write(report, &failed, sizeof failed) < 0 && errno == EINTR) {
    }
    _exit(STATUS_NO_EXEC);
}

/* What the child reports; 0 once the exec has closed its end. */
static int hear(int report) {
    int failed = 0;
    ssize_t got;
    do
        got = read(report, &failed, sizeof failed);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof failed ? failed : 0;
}

int probe_spawn(const char *path, char *const *arguments, const int ends[3], pid_t *pid) {
    int report[2];
    const pid_t parent = getpid();
    if (pipe(report) != 0)
        return errno;
    /* Above 2, as the child puts its streams there. */
    const int written = fcntl(report[1], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int failed = written < 0 || fcntl(report[0], F_SETFD, FD_CLOEXEC) != 0 ? errno : 0;
    (void)close(report[1]);
    const pid_t child = failed ? -1 : fork();
    if (child == 0)
        become(path, arguments, ends, written, parent);
    if (!failed && child < 0)
        failed = errno;
    if (written >= 0)
        (void)close(written);
    if (child > 0) {
        failed = hear(report[0]);
        while (failed && waitpid(child, NULL, 0) < 0 && errno == EINTR)
            continue;
        if (!failed)
            *pid = child;
    }
    (void)close(report[0]);
    return failed;
}
