// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What has been measured so far, in a file: the probe's hello, then a line an answer, each on disk
 * before the next is asked for.
 *   {"quantity": ..., keys, "time_s": ..., ...}             a sample, as the probe gave it
 *   {"quantity": ..., keys, "refused": reason, "text": ...}
 *   {"quantity": ..., keys, "lost": text}                   the probe hung or crashed over it
 * A last line that was cut off is dropped; any other that cannot be read is an error.  One process
 * at a time holds the file.  Without a path nothing is written and nothing is found.
 */
#ifndef MOSAIC_MEASURE_JOURNAL_H
#define MOSAIC_MEASURE_JOURNAL_H

#include "measure/protocol.h"

enum journal_kind { JOURNAL_SAMPLE, JOURNAL_REFUSED, JOURNAL_LOST };

struct journal_entry {
    enum journal_kind kind;
    struct sample sample; /* JOURNAL_SAMPLE; otherwise its keys alone */
    int round;            /* of partners, from 1: struct job; else 0 */
    json_t *links;        /* what each pair of that round took, or NULL; the entry owns it */
    enum refusal refusal;
    char text[PROTOCOL_TEXT_MAX]; /* why, or "" */
};

struct journal {
    char *path; /* NULL: not kept */
    int file;
    bool has_hello;
    struct probe_hello hello;
    struct journal_entry *entries; /* in the order of the file */
    size_t count, room;
    bool was_cut;   /* a half-written last line was dropped */
    long long size; /* of the whole lines */
};

/* Reads what is there.  `restart` begins anew; is_read_only takes no lock and needs the file. */
struct journal_options {
    bool restart, is_read_only;
};
MOSAIC_MUST_USE enum mosaic_status journal_open(const char *path,
                                                const struct journal_options *options,
                                                struct journal *out, struct status_error *err);
void journal_close(struct journal *journal);

/* MOSAIC_BAD_INPUT, saying what differs, where the file is another probe's or device's; an empty
 * one takes this hello as its first line. */
MOSAIC_MUST_USE enum mosaic_status
journal_begin(struct journal *journal, const struct probe_hello *hello, struct status_error *err);
/* object: the probe's answer, whose members are kept but for its id; NULL: made from the entry. */
MOSAIC_MUST_USE enum mosaic_status journal_append(struct journal *journal,
                                                  const struct journal_entry *entry,
                                                  const json_t *object, struct status_error *err);
/* The last entry of these keys, in this round; or NULL. */
const struct journal_entry *journal_find(const struct journal *journal, const struct sample *keys,
                                         int round);

#endif
