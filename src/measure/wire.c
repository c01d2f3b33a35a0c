// SPDX-License-Identifier: GPL-3.0-or-later
/* Sockets that never block: all waiting is in poll(). */
#include "measure/wire.h"

#include "measure/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 1024, SERVICE_MAX = 16, NAME_LENGTH = 256 };

static bool set_up(int socket) {
    const int flags = fcntl(socket, F_GETFL), on = 1;
    (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    return flags >= 0 && fcntl(socket, F_SETFL, flags | O_NONBLOCK) == 0 &&
           fcntl(socket, F_SETFD, FD_CLOEXEC) == 0;
}

enum mosaic_status wire_open(int socket, struct wire *out, struct status_error *err) {
    char *const buffer = malloc(WIRE_LINE_MAX);
    if (buffer && set_up(socket)) {
        *out = (struct wire){.socket = socket, .buffer = buffer};
        return MOSAIC_OK;
    }
    free(buffer);
    (void)close(socket);
    return buffer ? status_set(err, MOSAIC_IO, "cannot set up a socket: %s", strerror(errno))
                  : status_no_memory(err);
}

void wire_close(struct wire *wire) {
    if (wire->socket >= 0)
        (void)close(wire->socket);
    free(wire->buffer);
    *wire = (struct wire){.socket = -1};
}

static bool would_wait(void) {
    return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK;
}

static enum mosaic_status check_time(double deadline_s, const atomic_bool *stop,
                                     struct status_error *err) {
    if (clock_stopped(stop))
        return status_set(err, MOSAIC_INTERRUPTED, "interrupted");
    if (clock_now_s() >= deadline_s)
        return status_set(err, MOSAIC_DEVICE, "it was silent until the time-out");
    return MOSAIC_OK;
}

enum mosaic_status wire_send(struct wire *wire, const json_t *object, double deadline_s,
                             const atomic_bool *stop, struct status_error *err) {
    char *const text = json_dumps(object, JSON_COMPACT);
    if (!text)
        return status_no_memory(err);
    const size_t size = strlen(text) + 1;
    enum mosaic_status status = MOSAIC_OK;
    text[size - 1] = '\n';
    for (size_t done = 0; status == MOSAIC_OK && done < size;) {
        struct pollfd polled = {.fd = wire->socket, .events = POLLOUT};
        const ssize_t sent = send(wire->socket, text + done, size - done, MSG_NOSIGNAL);
        if (sent > 0) {
            done += (size_t)sent;
            continue;
        }
        if (!would_wait())
            status = status_set(err, MOSAIC_DEVICE, "it is gone: %s", strerror(errno));
        else
            status = check_time(deadline_s, stop, err);
        if (status == MOSAIC_OK)
            (void)poll(&polled, 1, clock_wait_ms(deadline_s));
    }
    free(text);
    return status;
}

void wire_tell(struct wire *wire, const json_t *object) {
    const double patience_s = 2.0;
    struct status_error unused;
    const enum mosaic_status told =
        wire_send(wire, object, clock_now_s() + patience_s, NULL, &unused);
    (void)told;
}

/* The first whole line of the buffer, taken out. */
static enum mosaic_status take_line(struct wire *wire, json_t **out, struct status_error *err) {
    const char *const end = memchr(wire->buffer, '\n', wire->used);
    if (!end) {
        if (wire->used == WIRE_LINE_MAX)
            return status_set(err, MOSAIC_DEVICE, "it sent a line that is too long");
        return MOSAIC_OK;
    }
    struct status_error wrong;
    const size_t length = (size_t)(end - wire->buffer);
    const enum mosaic_status status = protocol_object(wire->buffer, length, out, &wrong);
    wire->used -= length + 1;
    memmove(wire->buffer, end + 1, wire->used);
    return status == MOSAIC_OK
               ? MOSAIC_OK
               : status_set(err, MOSAIC_DEVICE, "it sent rubbish: %s", wrong.message);
}

enum mosaic_status wire_peek(struct wire *wire, json_t **out, struct status_error *err) {
    TRY(take_line(wire, out, err));
    if (*out)
        return MOSAIC_OK;
    const ssize_t got =
        recv(wire->socket, wire->buffer + wire->used, WIRE_LINE_MAX - wire->used, 0);
    if (got == 0)
        return status_set(err, MOSAIC_DEVICE, "it closed the connection");
    if (got < 0)
        return would_wait() ? MOSAIC_OK
                            : status_set(err, MOSAIC_DEVICE, "it is gone: %s", strerror(errno));
    wire->used += (size_t)got;
    return take_line(wire, out, err);
}

enum mosaic_status wire_receive(struct wire *wire, double deadline_s, const atomic_bool *stop,
                                json_t **out, struct status_error *err) {
    json_t *object = NULL;
    for (;;) {
        struct pollfd polled = {.fd = wire->socket, .events = POLLIN};
        TRY(wire_peek(wire, &object, err));
        if (object) {
            *out = object;
            return MOSAIC_OK;
        }
        TRY(check_time(deadline_s, stop, err));
        (void)poll(&polled, 1, clock_wait_ms(deadline_s));
    }
}

/* ---- meeting ---- */

static enum mosaic_status listen_on(int family, int *port, int *out, struct status_error *err) {
    struct sockaddr_storage address = {.ss_family = (sa_family_t)family};
    socklen_t size = sizeof(struct sockaddr_in);
    const int on = 1, off = 0, made = socket(family, SOCK_STREAM, 0);
    if (made < 0)
        return status_set(err, MOSAIC_IO, "cannot make a socket: %s", strerror(errno));
    if (family == AF_INET6) {
        struct sockaddr_in6 *const six = (struct sockaddr_in6 *)&address;
        six->sin6_port = htons((in_port_t)*port);
        size = sizeof *six;
        (void)setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    } else {
        struct sockaddr_in *const four = (struct sockaddr_in *)&address;
        four->sin_port = htons((in_port_t)*port);
        four->sin_addr.s_addr = htonl(INADDR_ANY);
    }
    (void)setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(made, (struct sockaddr *)&address, size) != 0 || listen(made, BACKLOG) != 0 ||
        !set_up(made) || getsockname(made, (struct sockaddr *)&address, &size) != 0) {
        const int why = errno;
        (void)close(made);
        (void)status_set(err, MOSAIC_DEVICE, "cannot listen on port %d: %s", *port, strerror(why));
        if (why == EADDRINUSE)
            status_hint(err, "another job may use it: set MOSAIC_PORT to a free port");
        return MOSAIC_DEVICE;
    }
    *port = ntohs(family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                     : ((struct sockaddr_in *)&address)->sin_port);
    *out = made;
    return MOSAIC_OK;
}

/* Both families where the machine has the later one. */
enum mosaic_status wire_listen(int *port, int *socket, struct status_error *err) {
    struct status_error first;
    const enum mosaic_status status = listen_on(AF_INET6, port, socket, &first);
    if (status == MOSAIC_OK)
        return MOSAIC_OK;
    if (status == MOSAIC_DEVICE && first.hint[0]) {
        *err = first;
        return status;
    }
    return listen_on(AF_INET, port, socket, err);
}

/* A connected socket, or -1. */
static int try_address(const struct addrinfo *info, double deadline_s, const atomic_bool *stop) {
    const int made = socket(info->ai_family, SOCK_STREAM, info->ai_protocol);
    int failed = 0;
    socklen_t size = sizeof failed;
    if (made < 0)
        return -1;
    const bool is_set_up = set_up(made);
    if (is_set_up && connect(made, info->ai_addr, info->ai_addrlen) == 0)
        return made;
    failed = !is_set_up || errno != EINPROGRESS;
    while (!failed) {
        struct pollfd polled = {.fd = made, .events = POLLOUT};
        if (poll(&polled, 1, clock_wait_ms(deadline_s)) > 0)
            break;
        failed = clock_stopped(stop) || clock_now_s() >= deadline_s;
    }
    if (!failed && getsockopt(made, SOL_SOCKET, SO_ERROR, &failed, &size) == 0 && failed == 0)
        return made;
    (void)close(made);
    return -1;
}

/* "[::1]" as in addresses with a port. */
static void bare_address(const char *address, char *out, size_t size) {
    const size_t length = strlen(address);
    const bool is_framed = length > 2 && address[0] == '[' && address[length - 1] == ']';
    (void)snprintf(out, size, "%.*s", (int)(is_framed ? length - 2 : length),
                   is_framed ? address + 1 : address);
}

static enum mosaic_status unknown_host(const char *address, int failed, struct status_error *err) {
    char shown[STATUS_QUOTE_MAX];
    (void)status_set(err, MOSAIC_DEVICE, "the host '%s' is not known: %s",
                     status_quote(address, shown, sizeof shown), gai_strerror(failed));
    status_hint(err, "set MOSAIC_ADDRESS to a name or an address of rank 0 that all hosts know");
    return MOSAIC_DEVICE;
}

enum mosaic_status wire_connect(const char *address, int port, double deadline_s,
                                const atomic_bool *stop, struct wire *out,
                                struct status_error *err) {
    const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    /* An address that drops what is sent to it must not keep the next one waiting. */
    const double attempt_s = 3.0;
    char service[SERVICE_MAX], name[NAME_LENGTH], shown[STATUS_QUOTE_MAX];
    struct addrinfo *list = NULL;
    int made = -1;
    (void)snprintf(service, sizeof service, "%d", port);
    bare_address(address, name, sizeof name);
    const int failed = getaddrinfo(name, service, &wanted, &list);
    for (const struct addrinfo *at = list; at && made < 0 && !clock_stopped(stop);
         at = at->ai_next) {
        const double until_s = clock_now_s() + attempt_s;
        made = try_address(at, until_s < deadline_s ? until_s : deadline_s, stop);
    }
    if (list)
        freeaddrinfo(list);
    if (made >= 0)
        return wire_open(made, out, err);
    if (failed && failed != EAI_AGAIN)
        return unknown_host(address, failed, err);
    if (clock_stopped(stop))
        return status_set(err, MOSAIC_INTERRUPTED, "interrupted");
    return status_set(err, MOSAIC_DEVICE, "nobody listens at %s, port %d",
                      status_quote(address, shown, sizeof shown), port);
}
