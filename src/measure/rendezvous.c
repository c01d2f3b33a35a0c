// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The meeting: rank 0 takes connections, each with its own state, so that a silent stranger holds
 * nobody up.
 *   rank 0   {"mosaic": "rendezvous/1", "challenge": A}
 *   rank r   {"challenge": B, "proof": HMAC(secret, "rank" A B card), "card": {...}}
 *   rank 0   {"proof": HMAC(secret, "host" A B)}  or  {"refused": text}
 *   rank 0, once all are here and well   {"do": "begin"}  or  {"do": "end", "text": why}
 */
#include "measure/rendezvous.h"

#include "measure/clock.h"
#include "measure/secret.h"

#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define RENDEZVOUS_NAME "rendezvous/1"
enum { GUESTS_MAX = 256, FAREWELL_S = 2, SPARE_FILES = 64 };
/* How long a stranger at rank 0's port may be silent, and between two rounds of its ports. */
static const double stranger_s = 2.0, nap_s = 0.05;

/* A connection whose card has not been seen. */
struct guest {
    struct wire wire;
    char challenge[SECRET_CHALLENGE];
    double deadline_s;
};

struct host {
    const struct rendezvous_options *options;
    struct team *team;
    int socket, missing, strangers; /* strangers: other secrets, what is no rank */
    struct guest guests[GUESTS_MAX];
    int guest_count;
    struct status_error *err;
};

/* ---- cards ---- */

static json_t *card_json(const struct rendezvous_card *card) {
    json_t *const o =
        json_pack("{s:s, s:i, s:i, s:i, s:s}", "host", card->host, "rank", card->rank, "ranks",
                  card->ranks, "local_rank", card->local_rank, "program", MOSAIC_VERSION);
    if (o && card->hello && json_object_set(o, "hello", card->hello->root) == 0)
        return o;
    if (o && !card->hello &&
        json_object_set_new(o, "failure", json_string(card->failure ? card->failure : "")) == 0)
        return o;
    json_decref(o);
    return NULL;
}

/* What a proof covers, so that no part of it can be exchanged. */
static char *text_of(const char *side, const char *a, const char *b, const json_t *card) {
    char *const shown = card ? json_dumps(card, JSON_COMPACT | JSON_SORT_KEYS) : strdup("");
    const size_t size = shown ? strlen(shown) + (size_t)(2 * SECRET_CHALLENGE + 16) : 0;
    char *const text = shown ? malloc(size) : NULL;
    if (text)
        (void)snprintf(text, size, "%s %s %s %s", side, a, b, shown);
    free(shown);
    return text;
}

static bool prove(const char *secret, const char *side, const char *a, const char *b,
                  const json_t *card, char out[SECRET_HEX]) {
    char *const text = text_of(side, a, b, card);
    if (!text)
        return false;
    secret_proof(secret, text, out);
    free(text);
    return true;
}

static const char *word_of(const json_t *object, const char *key) {
    const char *const text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static int number_of(const json_t *object, const char *key) {
    const json_int_t value = json_integer_value(json_object_get(object, key));
    return value < 0 || value > LAUNCHER_RANKS_MAX ? -1 : (int)value;
}

void team_name(const struct team *team, int rank, char *text, size_t size) {
    (void)snprintf(text, size, "rank %d on %s", rank, team->members[rank].host);
}

/* ---- rank 0 ---- */

static void refuse(struct wire *wire, const char *text) {
    json_t *const object = json_pack("{s:s}", "refused", text);
    if (object)
        wire_tell(wire, object);
    json_decref(object);
    wire_close(wire);
}

/* A rank of another job goes on to the next port. */
static void send_on(struct wire *wire) {
    json_t *const object = json_pack("{s:b, s:s}", "foreign", 1, "refused", "the secret differs");
    if (object)
        wire_tell(wire, object);
    json_decref(object);
    wire_close(wire);
}

static void drop_guest(struct host *h, int at) {
    wire_close(&h->guests[at].wire);
    h->guests[at] = h->guests[--h->guest_count];
}

static void accept_guest(struct host *h) {
    struct status_error unused;
    const int made = accept(h->socket, NULL, NULL);
    if (made < 0)
        return;
    if (h->guest_count == GUESTS_MAX) {
        (void)close(made);
        return;
    }
    struct guest *const g = &h->guests[h->guest_count];
    *g =
        (struct guest){.wire = {.socket = -1}, .deadline_s = clock_now_s() + h->options->timeout_s};
    if (wire_open(made, &g->wire, &unused) != MOSAIC_OK)
        return;
    json_t *object = NULL;
    if (secret_challenge(g->challenge, &unused) == MOSAIC_OK)
        object = json_pack("{s:s, s:s}", "mosaic", RENDEZVOUS_NAME, "challenge", g->challenge);
    h->guest_count++;
    if (!object || wire_send(&g->wire, object, clock_now_s() + FAREWELL_S, h->options->stop,
                             &unused) != MOSAIC_OK)
        drop_guest(h, h->guest_count - 1);
    json_decref(object);
}

/* A rank that cannot be of this job ends it: two launches share the meeting point. */
static enum mosaic_status two_jobs(struct host *h, const json_t *card, const char *what,
                                   struct status_error *err) {
    const int rank = number_of(card, "rank");
    char shown[STATUS_QUOTE_MAX];
    (void)status_quote(word_of(card, "host"), shown, sizeof shown);
    if (rank >= 0 && rank < h->team->ranks && h->team->members[rank].is_here)
        (void)status_set(err, MOSAIC_DEVICE, "rank %d came twice, from %s and from %s", rank,
                         h->team->members[rank].host, shown);
    else
        (void)status_set(err, MOSAIC_DEVICE, "rank %d on %s %s", rank, shown, what);
    status_hint(err, "two launches meet here: give each its own MOSAIC_PORT, or start all ranks by "
                     "one srun, mpirun or torchrun");
    return MOSAIC_DEVICE;
}

static enum mosaic_status seat(struct host *h, struct guest *g, const json_t *card,
                               struct status_error *err) {
    const int rank = number_of(card, "rank"), ranks = number_of(card, "ranks");
    char what[STATUS_QUOTE_MAX];
    (void)snprintf(what, sizeof what, "is one of %d ranks, not of %d", ranks, h->team->ranks);
    if (ranks != h->team->ranks)
        return two_jobs(h, card, what, err);
    if (rank < 0 || rank >= ranks)
        return two_jobs(h, card, "is out of range", err);
    struct member *const m = &h->team->members[rank];
    if (m->is_here)
        return two_jobs(h, card, "came twice", err);
    (void)status_quote(word_of(card, "host"), m->host, sizeof m->host);
    (void)status_quote(word_of(card, "failure"), m->failure, sizeof m->failure);
    m->rank = rank;
    m->local_rank = number_of(card, "local_rank");
    m->card = json_incref((json_t *)(uintptr_t)card);
    m->wire = g->wire;
    m->is_here = true;
    g->wire = (struct wire){.socket = -1};
    h->missing--;
    return MOSAIC_OK;
}

/* Answers a guest's card with the host's own proof, and gives it its seat. */
static enum mosaic_status admit(struct host *h, struct guest *g, const json_t *message,
                                struct status_error *err) {
    const char *const theirs = word_of(message, "challenge"), *const secret =
                                                                  h->options->launcher->secret;
    const json_t *const card = json_object_get(message, "card");
    char proof[SECRET_HEX] = "", own[SECRET_HEX] = "";
    struct status_error unused;
    if (strlen(theirs) != SECRET_CHALLENGE - 1 || !json_is_object(card) ||
        !prove(secret, "rank", g->challenge, theirs, card, proof) ||
        !secret_equal(proof, word_of(message, "proof"))) {
        h->strangers++;
        send_on(&g->wire);
        return MOSAIC_OK;
    }
    json_t *const object = prove(secret, "host", g->challenge, theirs, NULL, own)
                               ? json_pack("{s:s}", "proof", own)
                               : NULL;
    const bool is_told = object && wire_send(&g->wire, object, clock_now_s() + FAREWELL_S,
                                             h->options->stop, &unused) == MOSAIC_OK;
    json_decref(object);
    if (!is_told)
        return MOSAIC_OK;
    const enum mosaic_status status = seat(h, g, card, err);
    if (status != MOSAIC_OK)
        refuse(&g->wire, err->message);
    return status;
}

static enum mosaic_status hear_guests(struct host *h, struct status_error *err) {
    for (int i = h->guest_count - 1; i >= 0; --i) {
        struct status_error unused;
        json_t *message = NULL;
        enum mosaic_status status = MOSAIC_OK;
        struct guest *const g = &h->guests[i];
        const bool is_lost = wire_peek(&g->wire, &message, &unused) != MOSAIC_OK;
        if (message)
            status = admit(h, g, message, err);
        if (message || is_lost || clock_now_s() > g->deadline_s)
            drop_guest(h, i);
        json_decref(message);
        TRY(status);
    }
    return MOSAIC_OK;
}

/* Each rank is a file descriptor here. */
static enum mosaic_status allow_files(int ranks, struct status_error *err) {
    struct rlimit limit;
    const rlim_t wanted = (rlim_t)ranks + GUESTS_MAX + SPARE_FILES;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return MOSAIC_OK;
    const rlim_t most = limit.rlim_max;
    limit.rlim_cur = most < wanted ? most : wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0 && most >= (rlim_t)ranks + SPARE_FILES)
        return MOSAIC_OK;
    (void)status_set(err, MOSAIC_DEVICE,
                     "%d ranks need as many open files at rank 0; the limit is "
                     "%llu",
                     ranks, (unsigned long long)most);
    status_hint(err, "raise it on that host: ulimit -n");
    return MOSAIC_DEVICE;
}

/* The first port of those that the job may have that nobody has. */
static enum mosaic_status listen_somewhere(const struct launcher *l, int *socket,
                                           struct status_error *err) {
    enum mosaic_status status = MOSAIC_OK;
    const int count = l->ports > 0 ? l->ports : 1;
    for (int i = 0; i < count; ++i) {
        int port = l->port + i;
        status = wire_listen(&port, socket, err);
        if (status != MOSAIC_DEVICE || !err->hint[0])
            return status;
    }
    if (count > 1)
        (void)status_set(err, MOSAIC_DEVICE, "cannot listen: none of the ports %d to %d is free",
                         l->port, l->port + count - 1);
    status_hint(err, "other jobs may use them: set MOSAIC_PORT to a free port, for all ranks");
    return status;
}

/* "host, port 29400" or "host, ports 29400 to 29415". */
static const char *place_of(const struct launcher *l, char *text, size_t size) {
    char shown[STATUS_QUOTE_MAX];
    (void)status_quote(l->address[0] ? l->address : "this host", shown, sizeof shown);
    if (l->ports > 1)
        (void)snprintf(text, size, "%s, ports %d to %d", shown, l->port, l->port + l->ports - 1);
    else
        (void)snprintf(text, size, "%s, port %d", shown, l->port);
    return text;
}

/* "1, 2, 5": those who are not here. */
static void list_missing(const struct team *team, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < team->ranks && used + 8 < size; ++i)
        if (!team->members[i].is_here)
            used += (size_t)snprintf(text + used, size - used, "%s%d", used ? ", " : "", i);
}

static enum mosaic_status some_missing(const struct host *h, struct status_error *err) {
    char list[STATUS_TEXT_MAX / 2];
    const struct team *const team = h->team;
    list_missing(team, list, sizeof list);
    (void)status_set(err, MOSAIC_DEVICE, "%d of %d ranks came within %.3g s; missing: %s",
                     team->ranks - h->missing, team->ranks, h->options->timeout_s, list);
    char place[STATUS_TEXT_MAX / 2];
    if (h->strangers > 0)
        status_hint(err, "others with another secret came: is that another job, or MOSAIC_SECRET "
                         "not passed on?");
    else
        status_hint(err,
                    "they did not start, or cannot reach rank 0 at %s: see MOSAIC_ADDRESS and "
                    "MOSAIC_PORT",
                    place_of(h->options->launcher, place, sizeof place));
    return MOSAIC_DEVICE;
}

static enum mosaic_status gather(struct host *h, struct status_error *err) {
    const double deadline_s = clock_now_s() + h->options->timeout_s;
    struct pollfd polled[GUESTS_MAX + 1];
    while (h->missing > 0) {
        polled[0] = (struct pollfd){.fd = h->socket, .events = POLLIN};
        for (int i = 0; i < h->guest_count; ++i)
            polled[i + 1] = (struct pollfd){.fd = h->guests[i].wire.socket, .events = POLLIN};
        if (clock_stopped(h->options->stop))
            return status_set(err, MOSAIC_INTERRUPTED, "interrupted");
        if (clock_now_s() >= deadline_s)
            return some_missing(h, err);
        (void)poll(polled, (nfds_t)h->guest_count + 1, clock_wait_ms(deadline_s));
        if (polled[0].revents & POLLIN)
            accept_guest(h);
        TRY(hear_guests(h, err));
    }
    return MOSAIC_OK;
}

static enum mosaic_status seat_itself(struct team *team, const struct rendezvous_card *card,
                                      struct status_error *err) {
    struct member *const m = &team->members[0];
    m->card = card_json(card);
    if (!m->card)
        return status_no_memory(err);
    (void)snprintf(m->host, sizeof m->host, "%s", card->host);
    (void)snprintf(m->failure, sizeof m->failure, "%s", card->failure ? card->failure : "");
    m->local_rank = card->local_rank;
    m->is_here = true;
    return MOSAIC_OK;
}

static enum mosaic_status tell_all(struct team *team, const atomic_bool *stop,
                                   struct status_error *err) {
    json_t *const begin = json_pack("{s:s}", "do", "begin");
    enum mosaic_status status = begin ? MOSAIC_OK : status_no_memory(err);
    for (int i = 1; status == MOSAIC_OK && i < team->ranks; ++i) {
        status = wire_send(&team->members[i].wire, begin, clock_now_s() + FAREWELL_S, stop, err);
        if (status == MOSAIC_DEVICE)
            status_wrap(err, "rank %d on %s", i, team->members[i].host);
    }
    json_decref(begin);
    return status;
}

enum mosaic_status rendezvous_host(const struct rendezvous_options *options,
                                   const struct rendezvous_card *card, struct team *out,
                                   struct status_error *err) {
    struct team team = {.ranks = card->ranks,
                        .members = calloc((size_t)card->ranks, sizeof *team.members),
                        .places = calloc((size_t)card->ranks, sizeof *team.places)};
    struct host *const h = calloc(1, sizeof *h);
    enum mosaic_status status = MOSAIC_OK;
    if (!team.members || !team.places || !h) {
        status = status_no_memory(err);
        goto out;
    }
    *h = (struct host){.options = options, .team = &team, .socket = -1, .missing = card->ranks - 1};
    for (int i = 0; i < team.ranks; ++i)
        team.members[i].wire.socket = -1;
    TRY_GOTO(seat_itself(&team, card, err));
    TRY_GOTO(allow_files(team.ranks, err));
    TRY_GOTO(listen_somewhere(options->launcher, &h->socket, err));
    TRY_GOTO(gather(h, err));
    TRY_GOTO(team_seat(&team, err));
    TRY_GOTO(team_check(&team, options, err));
    TRY_GOTO(tell_all(&team, options->stop, err));
out:
    if (h) {
        while (h->guest_count > 0)
            drop_guest(h, h->guest_count - 1);
        if (h->socket >= 0)
            (void)close(h->socket);
    }
    free(h);
    if (status == MOSAIC_OK)
        *out = team;
    else
        team_close(&team, err->message);
    return status;
}

void team_close(struct team *team, const char *text) {
    json_t *const end =
        text ? json_pack("{s:s, s:s}", "do", "end", "text", text) : json_pack("{s:s}", "do", "end");
    for (int i = 0; team->members && i < team->ranks; ++i) {
        struct member *const m = &team->members[i];
        if (i > 0 && end && m->wire.socket >= 0)
            wire_tell(&m->wire, end);
        wire_close(&m->wire);
        json_decref(m->card);
    }
    json_decref(end);
    free(team->members);
    free(team->places);
    *team = (struct team){.ranks = 0};
}

/* ---- the others ---- */

/* Somebody else's port: `is_foreign` has the next one tried. */
static enum mosaic_status foreign(const struct launcher *l, int port, const char *why,
                                  bool *is_foreign, struct status_error *err) {
    char shown[STATUS_QUOTE_MAX];
    *is_foreign = true;
    (void)status_set(err, MOSAIC_DEVICE, "at %s, port %d, %s",
                     status_quote(l->address, shown, sizeof shown), port, why);
    status_hint(err, "MOSAIC_PORT and MOSAIC_SECRET have to be the same for all ranks of one job "
                     "and no other");
    return MOSAIC_DEVICE;
}

struct introduction {
    const struct launcher *launcher;
    const struct rendezvous_options *options;
    int port;
    double deadline_s;
    json_t *card;
    bool is_foreign;
};

/* The first word of whoever listens there; rank 0 has one at once. */
static enum mosaic_status hear_challenge(struct introduction *n, struct wire *wire,
                                         char theirs[SECRET_CHALLENGE], struct status_error *err) {
    json_t *message = NULL;
    const double until_s = clock_now_s() + stranger_s;
    const enum mosaic_status status = wire_receive(
        wire, until_s < n->deadline_s ? until_s : n->deadline_s, n->options->stop, &message, err);
    if (status == MOSAIC_INTERRUPTED)
        return status;
    if (status != MOSAIC_OK)
        return foreign(n->launcher, n->port, "nobody answers as rank 0 does", &n->is_foreign, err);
    const bool is_known = strcmp(word_of(message, "mosaic"), RENDEZVOUS_NAME) == 0;
    (void)snprintf(theirs, SECRET_CHALLENGE, "%s", word_of(message, "challenge"));
    json_decref(message);
    return is_known ? MOSAIC_OK
                    : foreign(n->launcher, n->port, "another program answers", &n->is_foreign, err);
}

/* Shows the card, and has rank 0 prove that it knows the secret too. */
static enum mosaic_status introduce(struct introduction *n, struct wire *wire,
                                    struct status_error *err) {
    const char *const secret = n->launcher->secret;
    char own[SECRET_CHALLENGE], theirs[SECRET_CHALLENGE] = "", proof[SECRET_HEX];
    json_t *message = NULL;
    TRY(secret_challenge(own, err));
    TRY(hear_challenge(n, wire, theirs, err));
    if (!prove(secret, "rank", theirs, own, n->card, proof))
        return status_no_memory(err);
    message = json_pack("{s:s, s:s, s:O}", "challenge", own, "proof", proof, "card", n->card);
    if (!message)
        return status_no_memory(err);
    enum mosaic_status status = wire_send(wire, message, n->deadline_s, n->options->stop, err);
    json_decref(message);
    message = NULL;
    if (status == MOSAIC_OK)
        status = wire_receive(wire, n->deadline_s, n->options->stop, &message, err);
    if (status == MOSAIC_DEVICE) /* as where another job's rank 0 has just met all of its own */
        return foreign(n->launcher, n->port, "the connection broke off", &n->is_foreign, err);
    TRY(status);
    char refused[PROTOCOL_TEXT_MAX];
    (void)status_quote(word_of(message, "refused"), refused, sizeof refused);
    const bool is_right = prove(secret, "host", theirs, own, NULL, proof) &&
                          secret_equal(proof, word_of(message, "proof"));
    const bool is_foreign = json_is_true(json_object_get(message, "foreign"));
    json_decref(message);
    if (*refused && !is_foreign)
        return status_set(err, MOSAIC_DEVICE, "rank 0 refused: %s", refused);
    return is_right ? MOSAIC_OK
                    : foreign(n->launcher, n->port, "the secret differs", &n->is_foreign, err);
}

/* Goes round the ports until rank 0 of this job is found: it may not listen yet, and others may
 * have been there first. */
static enum mosaic_status find_host(struct introduction *n, struct wire *wire,
                                    struct status_error *err) {
    const struct launcher *const l = n->launcher;
    const int count = l->ports > 0 ? l->ports : 1;
    struct status_error last = {.message = ""};
    char place[STATUS_TEXT_MAX / 2];
    for (int i = 0;; i = (i + 1) % count) {
        n->port = l->port + i;
        n->is_foreign = false;
        enum mosaic_status status =
            wire_connect(l->address, n->port, n->deadline_s, n->options->stop, wire, err);
        const bool is_connected = status == MOSAIC_OK;
        if (is_connected)
            status = introduce(n, wire, err);
        if (status != MOSAIC_DEVICE || (is_connected && !n->is_foreign))
            return status;
        wire_close(wire);
        if (err->hint[0])
            last = *err;
        if (clock_now_s() >= n->deadline_s)
            break;
        if (i == count - 1)
            clock_sleep_s(nap_s);
    }
    if (last.message[0]) {
        *err = last;
        return last.status;
    }
    (void)status_set(err, MOSAIC_DEVICE, "rank 0 was not found at %s within %.3g s",
                     place_of(l, place, sizeof place), n->options->timeout_s);
    status_hint(err, "did it start there?  See MOSAIC_ADDRESS and MOSAIC_PORT");
    return MOSAIC_DEVICE;
}

/* Until rank 0 has seen everybody. */
static enum mosaic_status await_begin(struct wire *wire, const struct rendezvous_options *options,
                                      double deadline_s, struct status_error *err) {
    json_t *message = NULL;
    char text[PROTOCOL_TEXT_MAX];
    if (wire_receive(wire, deadline_s, options->stop, &message, err) != MOSAIC_OK) {
        status_wrap(err, "rank 0");
        return err->status;
    }
    const bool is_begin = strcmp(word_of(message, "do"), "begin") == 0;
    const char *const why = word_of(message, *word_of(message, "text") ? "text" : "refused");
    (void)status_quote(why, text, sizeof text);
    json_decref(message);
    return is_begin ? MOSAIC_OK
                    : status_set(err, MOSAIC_DEVICE, "rank 0 ended it: %s",
                                 *text ? text : "no reason given");
}

enum mosaic_status rendezvous_join(const struct rendezvous_options *options,
                                   const struct rendezvous_card *card, struct wire *out,
                                   struct status_error *err) {
    struct wire wire = {.socket = -1};
    struct introduction n = {.launcher = options->launcher,
                             .options = options,
                             .deadline_s = clock_now_s() + options->timeout_s,
                             .card = card_json(card)};
    if (!n.card)
        return status_no_memory(err);
    enum mosaic_status status = find_host(&n, &wire, err);
    /* Rank 0 waits for the last one as long as this one might have. */
    if (status == MOSAIC_OK)
        status = await_begin(&wire, options, clock_now_s() + options->timeout_s + FAREWELL_S, err);
    json_decref(n.card);
    if (status == MOSAIC_OK)
        *out = wire;
    else
        wire_close(&wire);
    return status;
}
