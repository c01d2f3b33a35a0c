// SPDX-License-Identifier: GPL-3.0-or-later
/* Rank 0's side of a job: who takes part, forming groups, asking all, one outcome of many. */
#include "measure/team_ask.h"

#include "measure/clock.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long an answer may be on its way after a member's own time-out. */
static const double grace_s = 5.0;

/* A rank's part in the job in hand. */
struct team_part {
    int group;               /* -1: takes no part */
    int place, size, inside; /* in its group; inside: ranks of a domain */
    int partner;             /* JOB_PAIRS */
    char id[PROTOCOL_GROUP_MAX];
    struct outcome outcome;
};

enum mosaic_status team_ask_open(struct team *team, struct prober *own, const atomic_bool *stop,
                                 struct team_ask *out, struct status_error *err) {
    *out = (struct team_ask){.team = team,
                             .own = own,
                             .stop = stop,
                             .tallies = calloc((size_t)team->ranks, sizeof *out->tallies),
                             .parts = calloc((size_t)team->ranks, sizeof *out->parts)};
    if (out->tallies && out->parts)
        return MOSAIC_OK;
    team_ask_close(out);
    return status_no_memory(err);
}

void team_ask_close(struct team_ask *ask) {
    free(ask->tallies);
    free(ask->parts);
    *ask = (struct team_ask){.team = NULL};
}

/* ---- who takes part ---- */

static int inside_of(const struct job *job) {
    const int at = sample_key_index(job->keys.quantity, "ranks_per_domain");
    return at < 0 ? job->ranks : (int)job->keys.value[at];
}

/* Rank at a place; the places lie by host, then by local rank. */
static void assign_group(struct team_ask *t, const struct job *job) {
    for (int i = 0; i < job->ranks; ++i) {
        struct team_part *const part = &t->parts[t->team->places[(ptrdiff_t)i * job->stride]];
        part->group = 0;
        part->place = i;
        part->size = job->ranks;
        part->inside = inside_of(job);
    }
}

static void assign_pairs(struct team_ask *t, const struct job *job) {
    const int ranks = t->team->ranks, domain = job->stride, inside = inside_of(job);
    for (int i = 0; i < ranks; ++i) {
        const int other = job_pair_of(i, job->round - 1, ranks);
        const int low = i < other ? i : other;
        if (other < 0 || (i / domain == other / domain) != (inside == 2))
            continue;
        struct team_part *const part = &t->parts[t->team->places[i]];
        part->group = low;
        part->place = i > other;
        part->size = 2;
        part->inside = inside;
        part->partner = t->team->places[other];
    }
}

/* A group with a member that is gone cannot be formed. */
static void void_groups(struct team_ask *t) {
    for (int i = 0; i < t->team->ranks; ++i) {
        const int group = t->parts[i].group;
        if (group < 0 || t->team->members[i].is_here)
            continue;
        for (int k = 0; k < t->team->ranks; ++k)
            if (t->parts[k].group == group)
                t->parts[k].group = -1;
    }
}

static int assign(struct team_ask *t, const struct job *job) {
    int count = 0;
    for (int i = 0; i < t->team->ranks; ++i) {
        t->parts[i].group = job->kind == JOB_LOCAL && t->team->members[i].is_here ? i : -1;
        t->parts[i].outcome = (struct outcome){.kind = OUTCOME_SKIPPED};
    }
    if (job->kind == JOB_GROUP)
        assign_group(t, job);
    else if (job->kind == JOB_PAIRS)
        assign_pairs(t, job);
    void_groups(t);
    for (int i = 0; i < t->team->ranks; ++i)
        count += t->parts[i].group >= 0;
    return count;
}

/* ---- asking ---- */

static json_t *keys_json(const struct sample *keys) {
    enum { TEXT = 1024 };
    char text[TEXT];
    text[0] = '{';
    const int used = sample_print_keys(keys, text + 1, sizeof text - 2);
    (void)snprintf(text + 1 + used, sizeof text - 1 - (size_t)used, "}");
    return json_loads(text, 0, NULL);
}

static void is_gone(struct team_ask *t, int rank, const struct status_error *why) {
    struct member *const m = &t->team->members[rank];
    char name[PROTOCOL_TEXT_MAX];
    /* The wire stays: a process that ends with an error has mpirun end all of them. */
    m->is_here = false;
    (void)status_quote(why->message, m->failure, sizeof m->failure);
    team_name(t->team, rank, name, sizeof name);
    t->parts[rank].outcome = (struct outcome){.kind = OUTCOME_LOST};
    (void)snprintf(t->parts[rank].outcome.text, PROTOCOL_TEXT_MAX, "%.120s: %.380s", name,
                   why->message);
}

static void send_to(struct team_ask *t, int rank, json_t *message, double deadline_s) {
    struct status_error err;
    if (!message)
        (void)status_no_memory(&err);
    if (!message ||
        wire_send(&t->team->members[rank].wire, message, deadline_s, t->stop, &err) != MOSAIC_OK)
        is_gone(t, rank, &err);
    json_decref(message);
}

/* Who takes no part has to know that it is not forgotten, nor that the others are gone. */
static void let_wait(struct team_ask *t, int rank, double timeout_s) {
    struct member *const m = &t->team->members[rank];
    json_t *const message = json_pack("{s:s, s:f}", "do", "wait", "timeout", timeout_s);
    struct status_error unused;
    if (m->is_here) {
        send_to(t, rank, message, clock_now_s() + grace_s);
        return;
    }
    if (message && m->wire.socket >= 0 &&
        wire_send(&m->wire, message, clock_now_s(), NULL, &unused) != MOSAIC_OK)
        wire_close(&m->wire);
    json_decref(message);
}

static void take_text(const json_t *from, const char *key, char out[PROTOCOL_TEXT_MAX]) {
    const char *const text = json_string_value(json_object_get(from, key));
    (void)status_quote(text ? text : "", out, PROTOCOL_TEXT_MAX);
}

/* What a member answered, as an outcome. */
static enum mosaic_status read_answer(struct team_part *part, const json_t *answer,
                                      const struct sample *keys, struct status_error *err) {
    struct outcome *const o = &part->outcome;
    const json_t *const sample = json_object_get(answer, "sample");
    const char *const refused = json_string_value(json_object_get(answer, "refused"));
    const char *const id = json_string_value(json_object_get(answer, "group"));
    *o = (struct outcome){.kind = OUTCOME_SAMPLE};
    if (refused) {
        o->kind = OUTCOME_REFUSED;
        o->refusal = refusal_of(refused);
        o->refusal = o->refusal == REFUSALS ? REFUSED_FAILED : o->refusal;
        take_text(answer, "text", o->text);
    } else if (json_object_get(answer, "lost")) {
        o->kind = OUTCOME_LOST;
        take_text(answer, "lost", o->text);
    } else if (sample && keys) {
        TRY(protocol_sample(sample, &o->sample, err));
        if (sample_compare_keys(&o->sample, keys) != 0)
            return status_set(err, MOSAIC_DEVICE, "it measured something else than was asked");
        o->object = json_incref((json_t *)(uintptr_t)sample);
    } else if (id && strlen(id) < sizeof part->id) {
        (void)snprintf(part->id, sizeof part->id, "%s", id);
    } else if (!json_is_true(json_object_get(answer, "joined"))) {
        return status_set(err, MOSAIC_DEVICE, "it answered something else than was asked");
    }
    return MOSAIC_OK;
}

static void hear(struct team_ask *t, int rank, const struct sample *keys, double deadline_s) {
    struct status_error err;
    json_t *answer = NULL;
    struct member *const m = &t->team->members[rank];
    if (!m->is_here)
        return;
    if (wire_receive(&m->wire, deadline_s, t->stop, &answer, &err) != MOSAIC_OK ||
        read_answer(&t->parts[rank], answer, keys, &err) != MOSAIC_OK) {
        if (err.status != MOSAIC_INTERRUPTED)
            is_gone(t, rank, &err);
    } else if (json_is_true(json_object_get(answer, "is_gone"))) {
        (void)status_set(&err, MOSAIC_DEVICE, "%s", t->parts[rank].outcome.text);
        is_gone(t, rank, &err);
    } else if (t->parts[rank].outcome.kind == OUTCOME_LOST) {
        char name[PROTOCOL_TEXT_MAX], why[PROTOCOL_TEXT_MAX];
        team_name(t->team, rank, name, sizeof name);
        (void)snprintf(why, sizeof why, "%s", t->parts[rank].outcome.text);
        (void)snprintf(t->parts[rank].outcome.text, PROTOCOL_TEXT_MAX, "%.120s: %.380s", name, why);
    }
    json_decref(answer);
}

static bool is_good(const struct team_part *part) {
    return part->group >= 0 && part->outcome.kind == OUTCOME_SAMPLE;
}

/* A step of forming: leaders make an id, then all join it. */
static enum mosaic_status form_step(struct team_ask *t, bool is_join, double timeout_s,
                                    struct status_error *err) {
    const double deadline_s = clock_now_s() + timeout_s + grace_s;
    enum mosaic_status status = MOSAIC_OK;
    for (int i = 1; i < t->team->ranks; ++i) {
        struct team_part *const part = &t->parts[i];
        if (part->group < 0 || (!is_join && part->place != 0))
            continue;
        send_to(t, i,
                is_join ? json_pack("{s:s, s:s, s:i, s:i, s:i, s:f}", "do", "join", "group_id",
                                    part->id, "rank", part->place, "ranks", part->size,
                                    "ranks_per_domain", part->inside, "timeout", timeout_s)
                        : json_pack("{s:s, s:f}", "do", "group", "timeout", timeout_s),
                deadline_s);
    }
    struct team_part *const own = &t->parts[0];
    if (own->group >= 0 && (is_join || own->place == 0)) {
        struct probe_group group = {
            .rank = own->place, .ranks = own->size, .ranks_per_domain = own->inside};
        (void)snprintf(group.id, sizeof group.id, "%s", own->id);
        status =
            prober_group(t->own, is_join ? &group : NULL, timeout_s, &own->outcome, own->id, err);
    }
    for (int i = 1; i < t->team->ranks; ++i)
        if (t->parts[i].group >= 0 && (is_join || t->parts[i].place == 0))
            hear(t, i, NULL, deadline_s);
    return status;
}

/* The id of each group's leader to all of it; false where it made none. */
static bool share_ids(struct team_ask *t) {
    bool is_any = false;
    for (int i = 0; i < t->team->ranks; ++i) {
        struct team_part *const part = &t->parts[i];
        int leader = 0;
        if (part->group < 0 || part->place == 0)
            continue;
        while (t->parts[leader].group != part->group || t->parts[leader].place != 0)
            leader++;
        if (is_good(&t->parts[leader])) {
            memcpy(part->id, t->parts[leader].id, sizeof part->id);
            is_any = true;
        } else {
            part->outcome = (struct outcome){.kind = OUTCOME_SKIPPED};
            part->group = -1;
        }
    }
    return is_any;
}

static bool is_same_group(const struct job *a, const struct job *b) {
    return a->kind == b->kind && a->ranks == b->ranks && a->stride == b->stride &&
           a->round == b->round && inside_of(a) == inside_of(b);
}

static enum mosaic_status form(struct team_ask *t, const struct job *job, double timeout_s,
                               struct status_error *err) {
    if (job->kind == JOB_LOCAL || (t->is_formed && is_same_group(&t->formed, job)))
        return MOSAIC_OK;
    t->is_formed = false;
    TRY(form_step(t, false, timeout_s, err));
    if (share_ids(t))
        TRY(form_step(t, true, timeout_s, err));
    t->formed = *job;
    t->is_formed = true;
    for (int i = 0; i < t->team->ranks; ++i)
        t->is_formed = t->is_formed && (t->parts[i].group < 0 || is_good(&t->parts[i]));
    return MOSAIC_OK;
}

static bool group_is_formed(const struct team_ask *t, int group) {
    for (int i = 0; i < t->team->ranks; ++i)
        if (t->parts[i].group == group && t->parts[i].outcome.kind != OUTCOME_SAMPLE &&
            t->parts[i].outcome.kind != OUTCOME_SKIPPED)
            return false;
    return true;
}

static enum mosaic_status ask_all(struct team_ask *t, const struct job *job, double timeout_s,
                                  struct status_error *err) {
    const double deadline_s = clock_now_s() + timeout_s + grace_s;
    enum mosaic_status status = MOSAIC_OK;
    for (int i = 0; i < t->team->ranks; ++i)
        if (t->parts[i].group >= 0 && !group_is_formed(t, t->parts[i].group))
            t->parts[i].group = -1;
    for (int i = 1; i < t->team->ranks; ++i) {
        if (t->parts[i].group < 0) {
            let_wait(t, i, timeout_s);
            continue;
        }
        json_t *const message = keys_json(&job->keys);
        json_t *const frame = json_pack("{s:s, s:i, s:f, s:o}", "do", "ask", "rounds", job->rounds,
                                        "timeout", timeout_s, "keys", message);
        send_to(t, i, frame, deadline_s);
    }
    if (t->parts[0].group >= 0)
        status = prober_ask(t->own, &job->keys, job->rounds, timeout_s, &t->parts[0].outcome, err);
    for (int i = 1; i < t->team->ranks; ++i)
        if (t->parts[i].group >= 0)
            hear(t, i, &job->keys, deadline_s);
    return status;
}

/* ---- one outcome of many ---- */

static int by_median(const void *a, const void *b) {
    const struct outcome *const *const x = a, *const *const y = b;
    const double p = (*x)->sample.median_s, q = (*y)->sample.median_s;
    return (p > q) - (p < q);
}

static void tally(struct team_ask *t, struct outcome *const *list, size_t count) {
    const struct outcome *const middle = list[(count - 1) / 2];
    for (int i = 0; i < t->team->ranks; ++i) {
        const struct outcome *const o = &t->parts[i].outcome;
        if (!is_good(&t->parts[i]))
            continue;
        const double ratio = o->sample.median_s / middle->sample.median_s;
        t->tallies[i].asked++;
        if (count < 3 || o->sample.least_s <= middle->sample.most_s)
            continue;
        t->tallies[i].slow++;
        t->tallies[i].worst = ratio > t->tallies[i].worst ? ratio : t->tallies[i].worst;
    }
}

/* The first that is not good tells why there is no sample. */
static void fail_of(const struct team_ask *t, struct outcome *out) {
    *out = (struct outcome){.kind = OUTCOME_SKIPPED, .text = "no rank could be asked"};
    for (int i = 0; i < t->team->ranks; ++i)
        if (!t->team->members[i].is_here)
            (void)snprintf(out->text, sizeof out->text, "rank %d on %s is gone", i,
                           t->team->members[i].host);
    for (int kind = OUTCOME_REFUSED; kind <= OUTCOME_LOST; ++kind)
        for (int i = t->team->ranks - 1; i >= 0; --i)
            if ((int)t->parts[i].outcome.kind == kind) {
                *out = t->parts[i].outcome;
                out->object = NULL;
            }
    /* Who is gone is why the others waited in vain. */
    for (int i = 0; i < t->team->ranks; ++i)
        if (!t->team->members[i].is_here && t->parts[i].outcome.kind == OUTCOME_LOST)
            *out = t->parts[i].outcome;
}

static void merge(struct team_ask *t, const struct job *job, struct outcome *out,
                  struct outcome **list) {
    size_t count = 0, failed = 0;
    for (int i = 0; i < t->team->ranks; ++i) {
        if (is_good(&t->parts[i]))
            list[count++] = &t->parts[i].outcome;
        else
            failed += t->parts[i].outcome.kind != OUTCOME_SKIPPED;
    }
    if (count == 0 || (job->kind == JOB_GROUP && failed > 0)) {
        fail_of(t, out);
        return;
    }
    qsort(list, count, sizeof(struct outcome *), by_median);
    if (job->kind == JOB_LOCAL)
        tally(t, list, count);
    *out = *list[job->kind == JOB_GROUP ? count - 1 : (count - 1) / 2];
    out->object = json_incref(out->object);
    out->links = NULL;
}

/* [a, b, bytes, ranks_per_domain, median, least, most] of each pair, by the slower of the two. */
static json_t *links_of(const struct team_ask *t, const struct job *job) {
    json_t *const list = json_array();
    const long long bytes = sample_value(&job->keys, "bytes");
    for (int i = 0; list && i < t->team->ranks; ++i) {
        const int other = t->parts[i].partner;
        if (!is_good(&t->parts[i]) || !is_good(&t->parts[other]) || i > other)
            continue;
        const struct sample *const a = &t->parts[i].outcome.sample, *const b = &t->parts[other]
                                                                                    .outcome.sample;
        const struct sample *const s = a->median_s > b->median_s ? a : b;
        (void)json_array_append_new(list,
                                    json_pack("[i, i, I, i, f, f, f]", i, other, (json_int_t)bytes,
                                              inside_of(job), s->median_s, s->least_s, s->most_s));
    }
    return list;
}

/* A loss that the others' samples hide is told of the rank. */
static void note_loss(struct team_ask *t, int rank) {
    const struct outcome *const o = &t->parts[rank].outcome;
    if (o->kind != OUTCOME_LOST)
        return;
    t->tallies[rank].lost++;
    memcpy(t->tallies[rank].text, o->text, sizeof o->text);
}

enum mosaic_status team_ask_job(void *context, const struct job *job, double timeout_s,
                                struct outcome *out, struct status_error *err) {
    struct team_ask *const t = context;
    struct outcome **const list = calloc((size_t)t->team->ranks, sizeof *list);
    if (!list)
        return status_no_memory(err);
    enum mosaic_status status = MOSAIC_OK;
    if (assign(t, job) > 0) {
        status = form(t, job, timeout_s, err);
        if (status == MOSAIC_OK)
            status = ask_all(t, job, timeout_s, err);
    }
    if (status == MOSAIC_OK && clock_stopped(t->stop))
        status = status_set(err, MOSAIC_INTERRUPTED, "interrupted");
    if (status == MOSAIC_OK || t->parts[0].outcome.kind == OUTCOME_LOST)
        merge(t, job, out, list);
    if (status == MOSAIC_OK && job->kind == JOB_PAIRS)
        out->links = links_of(t, job);
    /* A probe that was lost has left its group. */
    for (int i = 0; i < t->team->ranks; ++i) {
        note_loss(t, i);
        t->is_formed = t->is_formed && t->parts[i].outcome.kind != OUTCOME_LOST;
        json_decref(t->parts[i].outcome.object);
        t->parts[i].outcome.object = NULL;
    }
    free(list);
    return status;
}
