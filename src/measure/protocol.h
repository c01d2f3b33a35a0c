// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * mosaic-probe/1: what a probe and the program that started it say to each other, an object of JSON
 * a line.  The probe speaks first (hello); then each request has its answer, of the same id:
 *   {"id": 7, "rounds": 9, "quantity": ..., keys}     a sample, or {"refused": reason, "text": ...}
 *   {"id": 1, "group": "new"}                         {"group": id}
 *   {"id": 2, "group": "join", "group_id": id, ...}   {"joined": true}
 * Members that nobody asked for are passed over; an answer about something else is an error.
 */
#ifndef MOSAIC_MEASURE_PROTOCOL_H
#define MOSAIC_MEASURE_PROTOCOL_H

#include "machine/sample.h"

#include <jansson.h>

#define PROTOCOL_NAME "mosaic-probe/1"
enum { PROTOCOL_LINE_MAX = 64 * 1024, PROTOCOL_WORD_MAX = 64, PROTOCOL_TEXT_MAX = 512 };
/* NCCL's identifiers are 128 bytes, in hexadecimal here. */
enum { PROTOCOL_GROUP_MAX = 2048 };

struct probe_hello {
    char probe[PROTOCOL_WORD_MAX], version[PROTOCOL_WORD_MAX];
    char device[PROTOCOL_WORD_MAX], architecture[PROTOCOL_WORD_MAX]; /* the latter may be "" */
    int devices;                                                     /* at least 1 */
    double memory_bytes;                                             /* 0: not told */
    bool can[SAMPLE_QUANTITIES];
    json_t *root; /* all of it */
};

/* Takes a line apart; the version of a foreign protocol is named. */
MOSAIC_MUST_USE enum mosaic_status
protocol_hello(const char *line, size_t length, struct probe_hello *out, struct status_error *err);
void protocol_hello_free(struct probe_hello *hello);
/* Dense peak of a word of `dtype`; 0 where none is told. */
double protocol_peak(const struct probe_hello *hello, const char *dtype);
/* Whether samples of the two belong together: probe, version, device, software.  False leaves what
 * differs in `text`: "the device is 'A', not 'B'". */
bool protocol_same(const struct probe_hello *now, const struct probe_hello *was,
                   char text[PROTOCOL_TEXT_MAX]);

/* X(identifier, word, text) */
#define REFUSAL_LIST(X)                                                                            \
    X(REFUSED_UNSUPPORTED, "unsupported", "the probe or the device cannot")                        \
    X(REFUSED_MEMORY, "memory", "it does not fit in the device's memory")                          \
    X(REFUSED_FAILED, "failed", "it was tried and failed")
#define REFUSAL_ENUM(id, word, text) id,
enum refusal { REFUSAL_LIST(REFUSAL_ENUM) REFUSALS };
#undef REFUSAL_ENUM
const char *refusal_name(enum refusal refusal);
/* REFUSALS when it is none. */
enum refusal refusal_of(const char *word);

enum answer_kind { ANSWER_SAMPLE, ANSWER_REFUSED, ANSWER_GROUP, ANSWER_JOINED };

struct probe_answer {
    enum answer_kind kind;
    struct sample sample; /* ANSWER_SAMPLE; ANSWER_REFUSED: what was asked */
    enum refusal refusal;
    char text[PROTOCOL_TEXT_MAX];   /* of a refusal, or "" */
    char group[PROTOCOL_GROUP_MAX]; /* ANSWER_GROUP */
};

/* Requests, without the newline; the number of characters as of snprintf. */
int protocol_ask(long id, int rounds, const struct sample *asked, char *text, size_t size);
int protocol_new_group(long id, char *text, size_t size);
struct probe_group {
    char id[PROTOCOL_GROUP_MAX];
    int rank, ranks, ranks_per_domain;
};
int protocol_join(long id, const struct probe_group *group, char *text, size_t size);

/* What a line answers to request `id`; asked NULL: a group's. */
MOSAIC_MUST_USE enum mosaic_status protocol_answer(const char *line, size_t length, long id,
                                                   const struct sample *asked,
                                                   struct probe_answer *out,
                                                   struct status_error *err);

/* A sample as a line of its own (of journals and documents), whatever else the object holds. */
MOSAIC_MUST_USE enum mosaic_status protocol_sample(const json_t *object, struct sample *out,
                                                   struct status_error *err);
/* The same where only the keys are due. */
MOSAIC_MUST_USE enum mosaic_status protocol_keys(const json_t *object, struct sample *out,
                                                 struct status_error *err);
/* One object of a line; the message says what is wrong with the text. */
MOSAIC_MUST_USE enum mosaic_status protocol_object(const char *line, size_t length, json_t **out,
                                                   struct status_error *err);

#endif
