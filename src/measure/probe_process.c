// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The child and its three streams.  Its standard input is one end of a pair of sockets, because a
 * write to a dead reader can be kept from raising SIGPIPE there without touching the signals of the
 * process; all waiting is done in poll(), in slices, until a deadline.
 */
#include "measure/probe_process.h"

#include "measure/clock.h"
#include "measure/probe_spawn.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* How long a probe may take to go: by itself, and after SIGKILL (a driver may hold it). */
static const double farewell_s = 2.0, collect_s = 5.0;
enum { CHUNK = 4096, CHUNKS_MOST = 64, NAME_MAX_SHOWN = 64, WHEN_MAX = 160 };

struct probe_process {
    pid_t pid;                  /* of the child and its group; 0 once it has been collected */
    int status, in, out, error; /* as of waitpid; file descriptors, -1: closed */
    const atomic_bool *stop;
    long id; /* of the last request */
    char name[NAME_MAX_SHOWN];
    struct probe_hello hello;
    char *line; /* last whole line, NUL-ended */
    size_t length;
    char *buffer; /* what has been read beyond it */
    size_t used;
    char tail[PROBE_STDERR_MAX + 1];
    size_t tail_used;
};

const struct probe_hello *probe_hello(const struct probe_process *probe) {
    return &probe->hello;
}

const char *probe_stderr(const struct probe_process *probe) {
    return probe->tail;
}

bool probe_is_alive(const struct probe_process *probe) {
    return probe->pid > 0;
}

const char *probe_line(const struct probe_process *probe) {
    return probe->line;
}

static void shut(int *descriptor) {
    if (*descriptor >= 0)
        (void)close(*descriptor);
    *descriptor = -1;
}

/* ---- standard error ---- */

/* The last bytes of all that came; in the end it holds whole characters as they were. */
static void keep_tail(struct probe_process *p, const char *bytes, size_t count) {
    if (count > PROBE_STDERR_MAX) {
        bytes += count - PROBE_STDERR_MAX;
        count = PROBE_STDERR_MAX;
    }
    const size_t room = PROBE_STDERR_MAX - p->tail_used;
    const size_t lost = count > room ? count - room : 0;
    memmove(p->tail, p->tail + lost, p->tail_used - lost);
    p->tail_used -= lost;
    memcpy(p->tail + p->tail_used, bytes, count);
    p->tail_used += count;
    p->tail[p->tail_used] = '\0';
}

static void drain_error(struct probe_process *p) {
    char bytes[CHUNK];
    /* No more than that at a time: it may write faster than this reads. */
    for (int i = 0; p->error >= 0 && i < CHUNKS_MOST; ++i) {
        const ssize_t got = read(p->error, bytes, sizeof bytes);
        if (got > 0)
            keep_tail(p, bytes, (size_t)got);
        else if (got == 0 || (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK))
            shut(&p->error);
        else if (errno != EINTR)
            return;
    }
}

/* The last line that says something, for a hint. */
static void hint_of(const struct probe_process *p, struct status_error *err) {
    size_t end = p->tail_used, begin;
    while (end > 0 && strchr(" \t\r\n", p->tail[end - 1]))
        end--;
    for (begin = end; begin > 0 && p->tail[begin - 1] != '\n';)
        begin--;
    char last[STATUS_TEXT_MAX / 2], shown[STATUS_TEXT_MAX / 2];
    if (begin == end)
        return;
    (void)snprintf(last, sizeof last, "%.*s", (int)(end - begin), p->tail + begin);
    status_hint(err, "it said: %s", status_quote(last, shown, sizeof shown));
}

/* ---- its end ---- */

/* True once the child is gone, and with it what it left in its group: while it is not collected
 * its number cannot be another's. */
static bool collect(struct probe_process *p, double patience_s) {
    const double deadline_s = clock_now_s() + patience_s, nap_s = 0.002;
    for (;;) {
        siginfo_t info = {0};
        const int failed = waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT);
        if (info.si_pid == p->pid || (failed && errno != EINTR)) {
            if (!failed)
                (void)kill(-p->pid, SIGKILL);
            (void)waitpid(p->pid, &p->status, WNOHANG);
            p->pid = 0;
            return true;
        }
        drain_error(p);
        if (clock_now_s() >= deadline_s)
            return false;
        clock_sleep_s(nap_s);
    }
}

static void shut_all(struct probe_process *p) {
    drain_error(p);
    shut(&p->in);
    shut(&p->out);
    shut(&p->error);
}

static void kill_group(struct probe_process *p) {
    if (p->pid <= 0)
        return;
    (void)kill(-p->pid, SIGKILL);
    (void)collect(p, collect_s);
    shut_all(p);
    p->pid = 0;
}

static const char *signal_name(int number) {
    switch (number) {
    case SIGSEGV:
        return "SIGSEGV, segmentation fault";
    case SIGABRT:
        return "SIGABRT, aborted";
    case SIGBUS:
        return "SIGBUS, bus error";
    case SIGILL:
        return "SIGILL, illegal instruction";
    case SIGFPE:
        return "SIGFPE, arithmetic error";
    case SIGKILL:
        return "SIGKILL, killed: perhaps for want of memory";
    case SIGTERM:
        return "SIGTERM, terminated";
    case SIGPIPE:
        return "SIGPIPE, broken pipe";
    default:
        return "see signal(7)";
    }
}

/* It closed its output: how did it end? */
static enum mosaic_status report_end(struct probe_process *p, const char *when,
                                     struct status_error *err) {
    if (!collect(p, farewell_s)) {
        kill_group(p);
        (void)status_set(err, MOSAIC_DEVICE, "the probe '%s' closed its output %s", p->name, when);
    } else if (WIFSIGNALED(p->status)) {
        const int number = WTERMSIG(p->status);
        (void)status_set(err, MOSAIC_DEVICE, "the probe '%s' crashed %s: signal %d (%s)", p->name,
                         when, number, signal_name(number));
    } else {
        (void)status_set(err, MOSAIC_DEVICE, "the probe '%s' ended %s with status %d", p->name,
                         when, WEXITSTATUS(p->status));
    }
    shut_all(p);
    hint_of(p, err);
    return MOSAIC_DEVICE;
}

/* Ends the process for what `format` says. */
static enum mosaic_status give_up(struct probe_process *p, struct status_error *err,
                                  const char *format, ...) __attribute__((format(printf, 3, 4)));

static enum mosaic_status give_up(struct probe_process *p, struct status_error *err,
                                  const char *format, ...) {
    char text[STATUS_TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const bool stopped = clock_stopped(p->stop);
    kill_group(p);
    (void)status_set(err, stopped ? MOSAIC_INTERRUPTED : MOSAIC_DEVICE, "%s", text);
    if (!stopped)
        hint_of(p, err);
    return err->status;
}

/* ---- lines ---- */

/* Moves the first whole line of the buffer to `line`. */
static bool take_line(struct probe_process *p) {
    assert(p->line && p->buffer);
    const char *const end = memchr(p->buffer, '\n', p->used);
    if (!end)
        return false;
    p->length = (size_t)(end - p->buffer);
    memcpy(p->line, p->buffer, p->length);
    if (p->length > 0 && p->line[p->length - 1] == '\r')
        p->length--;
    p->line[p->length] = '\0';
    p->used -= (size_t)(end - p->buffer) + 1;
    memmove(p->buffer, end + 1, p->used);
    return true;
}

/* 1: something came, 0: nothing yet, -1: the end. */
static int read_some(struct probe_process *p) {
    const ssize_t got = read(p->out, p->buffer + p->used, PROTOCOL_LINE_MAX - p->used);
    if (got > 0) {
        p->used += (size_t)got;
        return 1;
    }
    return got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : -1;
}

/* The probe itself is gone, though what it started may keep its output open. */
static bool has_ended(const struct probe_process *p) {
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == p->pid;
}

static enum mosaic_status next_line(struct probe_process *p, double deadline_s, const char *when,
                                    struct status_error *err) {
    const double begun_s = clock_now_s();
    while (!take_line(p)) {
        struct pollfd polled[] = {{.fd = p->out, .events = POLLIN},
                                  {.fd = p->error, .events = POLLIN}};
        if (clock_stopped(p->stop))
            return give_up(p, err, "interrupted");
        if (p->used == PROTOCOL_LINE_MAX)
            return give_up(p, err, "the probe '%s' wrote a line of more than %d bytes %s", p->name,
                           PROTOCOL_LINE_MAX, when);
        const bool is_late = clock_now_s() >= deadline_s;
        const int ready = poll(polled, 2, clock_wait_ms(deadline_s));
        if (ready < 0 && errno != EINTR)
            return give_up(p, err, "cannot wait for the probe '%s': %s", p->name, strerror(errno));
        drain_error(p);
        const bool is_last = ready == 0 && has_ended(p);
        const int got = read_some(p);
        if (got < 0 || (got == 0 && is_last))
            return report_end(p, when, err);
        /* What came while this process was stopped counts. */
        if (got == 0 && is_late)
            return give_up(p, err, "the probe '%s' %s %.3g s %s and was killed", p->name,
                           p->used > 0 ? "did not end its line in" : "was silent for",
                           deadline_s - begun_s, when);
    }
    return MOSAIC_OK;
}

/* False: the probe reads no more. */
static bool send_all(struct probe_process *p, const char *text, size_t size, double deadline_s) {
    while (size > 0) {
        const ssize_t sent = send(p->in, text, size, MSG_NOSIGNAL);
        struct pollfd polled = {.fd = p->in, .events = POLLOUT};
        if (sent > 0) {
            text += sent;
            size -= (size_t)sent;
        } else if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) {
            return false;
        } else if (clock_stopped(p->stop) || clock_now_s() >= deadline_s) {
            return true; /* the read that follows tells */
        } else {
            drain_error(p);
            (void)poll(&polled, 1, clock_wait_ms(deadline_s));
        }
    }
    return true;
}

/* ---- requests ---- */

static enum mosaic_status exchange(struct probe_process *p, char *request,
                                   const struct sample *asked, double timeout_s,
                                   struct probe_answer *out, struct status_error *err) {
    char when[WHEN_MAX] = "forming a group";
    const double deadline_s = clock_now_s() + timeout_s;
    if (p->pid <= 0)
        return status_set(err, MOSAIC_DEVICE, "the probe '%s' is gone", p->name);
    if (asked) {
        const int used = snprintf(when, sizeof when, "measuring ");
        (void)sample_print_name(asked, when + used, sizeof when - (size_t)used);
    }
    const size_t size = strlen(request);
    request[size] = '\n';
    /* A dead probe's last answers can still be read, and its end be told. */
    (void)send_all(p, request, size + 1, deadline_s);
    TRY(next_line(p, deadline_s, when, err));
    struct status_error wrong;
    if (protocol_answer(p->line, p->length, p->id, asked, out, &wrong) == MOSAIC_OK)
        return MOSAIC_OK;
    return give_up(p, err, "the probe '%s' answered wrongly %s: %s", p->name, when, wrong.message);
}

enum mosaic_status probe_ask(struct probe_process *probe, const struct sample *asked, int rounds,
                             double timeout_s, struct probe_answer *out, struct status_error *err) {
    char request[PROTOCOL_GROUP_MAX];
    (void)protocol_ask(++probe->id, rounds, asked, request, sizeof request - 1);
    return exchange(probe, request, asked, timeout_s, out, err);
}

enum mosaic_status probe_group(struct probe_process *probe, const struct probe_group *group,
                               double timeout_s, struct probe_answer *out,
                               struct status_error *err) {
    enum { FRAME = 256 };
    char request[PROTOCOL_GROUP_MAX + FRAME];
    probe->id++;
    if (group)
        (void)protocol_join(probe->id, group, request, sizeof request - 1);
    else
        (void)protocol_new_group(probe->id, request, sizeof request - 1);
    TRY(exchange(probe, request, NULL, timeout_s, out, err));
    if (out->kind == ANSWER_REFUSED || out->kind == (group ? ANSWER_JOINED : ANSWER_GROUP))
        return MOSAIC_OK;
    return give_up(probe, err, "the probe '%s' answered wrongly forming a group", probe->name);
}

/* ---- starting ---- */

static bool set_up(int descriptor) {
    const int flags = fcntl(descriptor, F_GETFL);
    return flags >= 0 && fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0;
}

/* Closed by an exec, and above the standard streams, which may not be open here. */
static bool move_up(int *descriptor) {
    const int moved = fcntl(*descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (moved < 0)
        return false;
    (void)close(*descriptor);
    *descriptor = moved;
    return true;
}

/* pairs: input, output, error; each [0] the probe's end, [1] ours. */
static bool make_streams(int pairs[3][2]) {
    for (int i = 0; i < 3; ++i) {
        int ends[2];
        if ((i == 0 ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) != 0)
            return false;
        pairs[i][0] = i == 0 ? ends[0] : ends[1];
        pairs[i][1] = i == 0 ? ends[1] : ends[0];
        if (!move_up(&pairs[i][0]) || !move_up(&pairs[i][1]) || !set_up(pairs[i][1]))
            return false;
    }
    return true;
}

/* "PATH serve OPTIONS..."; what it points to is not written. */
static char **arguments_of(const struct probe_launch *launch) {
    static const char serve[] = "serve";
    size_t count = 0;
    while (launch->options && launch->options[count])
        count++;
    char **const list = calloc(count + 3, sizeof *list);
    if (!list)
        return NULL;
    const char *const words[] = {launch->path, serve};
    memcpy(list, words, sizeof words);
    if (count > 0)
        memcpy(list + 2, launch->options, count * sizeof *list);
    return list;
}

static enum mosaic_status start(struct probe_process *p, const struct probe_launch *launch,
                                struct status_error *err) {
    int pairs[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    char **const arguments = arguments_of(launch);
    const bool has_streams = make_streams(pairs);
    int failed = has_streams ? 0 : errno;
    const int ends[3] = {pairs[0][0], pairs[1][0], pairs[2][0]};
    if (arguments && has_streams)
        failed = probe_spawn(launch->path, arguments, ends, &p->pid);
    int *const ours[] = {&p->in, &p->out, &p->error};
    for (int i = 0; i < 3; ++i) {
        shut(&pairs[i][0]);
        *ours[i] = pairs[i][1];
    }
    free(arguments);
    if (!arguments)
        return status_no_memory(err);
    if (failed) {
        p->pid = 0;
        (void)status_set(err, MOSAIC_DEVICE, "the probe '%s' cannot be started: %s", p->name,
                         strerror(failed));
        status_hint(err, "a probe is an executable for this machine: try '%s serve </dev/null'",
                    p->name);
        return MOSAIC_DEVICE;
    }
    return MOSAIC_OK;
}

static enum mosaic_status greet(struct probe_process *p, double timeout_s,
                                struct status_error *err) {
    struct status_error wrong;
    TRY(next_line(p, clock_now_s() + timeout_s, "before its hello", err));
    if (protocol_hello(p->line, p->length, &p->hello, &wrong) == MOSAIC_OK)
        return MOSAIC_OK;
    (void)give_up(p, err, "the hello of the probe '%s' cannot be used: %s", p->name, wrong.message);
    if (wrong.hint[0])
        status_hint(err, "%s", wrong.hint);
    return err->status;
}

enum mosaic_status probe_open(const struct probe_launch *launch, struct probe_process **out,
                              struct status_error *err) {
    struct probe_process *const p = calloc(1, sizeof *p);
    if (!p)
        return status_no_memory(err);
    const char *const slash = strrchr(launch->path, '/');
    p->in = p->out = p->error = -1;
    p->stop = launch->stop;
    (void)status_quote(slash ? slash + 1 : launch->path, p->name, sizeof p->name);
    p->line = malloc(PROTOCOL_LINE_MAX + 1);
    p->buffer = malloc(PROTOCOL_LINE_MAX);
    enum mosaic_status status = p->line && p->buffer ? MOSAIC_OK : status_no_memory(err);
    if (status == MOSAIC_OK)
        status = start(p, launch, err);
    if (status == MOSAIC_OK)
        status = greet(p, launch->hello_timeout_s, err);
    if (status == MOSAIC_OK)
        *out = p;
    else if (launch->words)
        memcpy(launch->words, p->tail, sizeof p->tail);
    if (status != MOSAIC_OK)
        probe_close(p);
    return status;
}

void probe_close(struct probe_process *probe) {
    if (!probe)
        return;
    shut(&probe->in);
    if (probe->pid > 0 && !clock_stopped(probe->stop))
        (void)collect(probe, farewell_s);
    kill_group(probe);
    shut_all(probe);
    protocol_hello_free(&probe->hello);
    free(probe->line);
    free(probe->buffer);
    free(probe);
}
