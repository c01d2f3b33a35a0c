// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Jobs among the members of a team, from rank 0: each is asked at the same time, and one that dies
 * or is silent is named and left out of what follows.
 *   rank 0   {"do": "ask", "rounds": 9, "timeout": S, keys}   {"do": "group", ...}  {"do": "join"}
 *   rank r   {"sample": {...}}  {"refused": why, "text": ...}  {"lost": text, "is_gone": bool}
 * Of a local job the middle rank's sample counts, of a group's the slowest one's; a rank, or a
 * pair, whose fastest round is slower than the slowest of most others is slow beyond noise.
 */
#ifndef MOSAIC_MEASURE_TEAM_ASK_H
#define MOSAIC_MEASURE_TEAM_ASK_H

#include "measure/prober.h"
#include "measure/rendezvous.h"

/* How often a rank was slower than the others, or its probe lost over a measurement. */
struct team_tally {
    size_t asked, slow, lost;
    double worst;                 /* largest ratio to the middle rank where it was slow */
    char text[PROTOCOL_TEXT_MAX]; /* of the last loss */
};

struct team_ask {
    struct team *team;
    struct prober *own;
    const atomic_bool *stop;
    struct team_tally *tallies; /* by rank */
    struct team_part *parts;    /* by rank, of the job in hand */
    struct job formed;          /* the job whose groups are formed */
    bool is_formed;
};

MOSAIC_MUST_USE enum mosaic_status team_ask_open(struct team *team, struct prober *own,
                                                 const atomic_bool *stop, struct team_ask *out,
                                                 struct status_error *err);
void team_ask_close(struct team_ask *ask);
/* context is a struct team_ask. */
harness_ask team_ask_job;

/* A rank other than 0: answers until it is let go. */
MOSAIC_MUST_USE enum mosaic_status team_serve(struct wire *wire, struct prober *own,
                                              double idle_timeout_s, const atomic_bool *stop,
                                              struct status_error *err);

/* A pair, or a rank, that is slower than its like; from the links that a journal keeps. */
struct slow_link {
    int a, b;     /* ranks; b -1: all pairs of rank a */
    double ratio; /* to the median of its like */
};
/* links: lists of [a, b, bytes, ranks_per_domain, median, least, most].  Returns how many of them
 * were found, at most `room`, ranks first. */
size_t team_slow_links(const json_t *const *links, size_t count, int ranks, struct slow_link *out,
                       size_t room);

#endif
