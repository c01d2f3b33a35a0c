// SPDX-License-Identifier: GPL-3.0-or-later
/* The other ranks' side: what rank 0 asks goes to the probe here, the answer back. */
#include "measure/clock.h"
#include "measure/team_ask.h"

#include <stdio.h>
#include <string.h>

static const double answer_s = 10.0, timeout_least_s = 0.1, timeout_most_s = 86400.0;

static json_t *answer_json(const struct outcome *o, bool is_gone) {
    switch (o->kind) {
    case OUTCOME_SAMPLE:
        return o->object ? json_pack("{s:O}", "sample", o->object) : json_object();
    case OUTCOME_REFUSED:
        return json_pack("{s:s, s:s}", "refused", refusal_name(o->refusal), "text", o->text);
    case OUTCOME_LOST:
    case OUTCOME_SKIPPED:
        break;
    }
    return json_pack("{s:s, s:b}", "lost", o->text, "is_gone", is_gone);
}

static int number_of(const json_t *object, const char *key) {
    return (int)json_integer_value(json_object_get(object, key));
}

/* OUTCOME_SAMPLE without an object is a group that was formed. */
static enum mosaic_status obey(struct prober *own, const json_t *message, struct outcome *out,
                               char id[PROTOCOL_GROUP_MAX], struct status_error *err) {
    const char *const what = json_string_value(json_object_get(message, "do"));
    const double asked_s = json_number_value(json_object_get(message, "timeout"));
    const double timeout_s =
        asked_s > timeout_least_s && asked_s < timeout_most_s ? asked_s : timeout_most_s;
    const char *const group_id = json_string_value(json_object_get(message, "group_id"));
    struct sample keys;
    if (strcmp(what, "ask") == 0) {
        TRY(protocol_keys(json_object_get(message, "keys"), &keys, err));
        return prober_ask(own, &keys, number_of(message, "rounds"), timeout_s, out, err);
    }
    if (strcmp(what, "group") == 0)
        return prober_group(own, NULL, timeout_s, out, id, err);
    if (strcmp(what, "join") != 0 || !group_id || strlen(group_id) >= PROTOCOL_GROUP_MAX)
        return status_set(err, MOSAIC_DEVICE, "rank 0 asked for something unknown");
    struct probe_group group = {.rank = number_of(message, "rank"),
                                .ranks = number_of(message, "ranks"),
                                .ranks_per_domain = number_of(message, "ranks_per_domain")};
    (void)snprintf(group.id, sizeof group.id, "%s", group_id);
    return prober_group(own, &group, timeout_s, out, id, err);
}

/* The probe is asked, and rank 0 learns what came of it, also where it was the last time. */
static enum mosaic_status serve_one(struct wire *wire, struct prober *own, const json_t *message,
                                    const atomic_bool *stop, struct status_error *err) {
    char id[PROTOCOL_GROUP_MAX] = "";
    struct outcome outcome = {.kind = OUTCOME_SKIPPED};
    struct status_error unsent;
    const enum mosaic_status status = obey(own, message, &outcome, id, err);
    if (status != MOSAIC_OK && outcome.kind != OUTCOME_LOST)
        (void)status_quote(err->message, outcome.text, sizeof outcome.text);
    json_t *const answer = answer_json(&outcome, status != MOSAIC_OK);
    json_decref(outcome.object);
    if (!answer)
        return status_no_memory(err);
    int failed = 0;
    if (outcome.kind == OUTCOME_SAMPLE && *id)
        failed = json_object_set_new(answer, "group", json_string(id));
    else if (outcome.kind == OUTCOME_SAMPLE && !json_object_get(answer, "sample"))
        failed = json_object_set_new(answer, "joined", json_true());
    const enum mosaic_status sent =
        failed ? status_no_memory(&unsent)
               : wire_send(wire, answer, clock_now_s() + answer_s, stop, &unsent);
    json_decref(answer);
    if (status != MOSAIC_OK)
        return status;
    if (sent != MOSAIC_OK)
        *err = unsent;
    return sent;
}

/* Rank 0 may form a group and ask before it comes to this rank again. */
static double patience_s(const json_t *message, double idle_timeout_s) {
    const double steps = 3.0, last_s = json_number_value(json_object_get(message, "timeout"));
    return idle_timeout_s + (last_s > 0.0 && last_s < timeout_most_s ? steps * last_s : 0.0);
}

/* A rank whose probe is lost for good measures no more, but stays: where one process ends with an
 * error mpirun ends all of them. */
enum mosaic_status team_serve(struct wire *wire, struct prober *own, double idle_timeout_s,
                              const atomic_bool *stop, struct status_error *err) {
    double wait_s = idle_timeout_s;
    struct status_error lost = {.status = MOSAIC_OK};
    for (;;) {
        json_t *message = NULL;
        const enum mosaic_status heard =
            wire_receive(wire, clock_now_s() + wait_s, stop, &message, err);
        if (heard != MOSAIC_OK) {
            if (heard == MOSAIC_DEVICE)
                status_wrap(err, "rank 0");
            return heard;
        }
        const char *const what = json_string_value(json_object_get(message, "do"));
        const bool is_end = !what || strcmp(what, "end") == 0;
        const bool is_wait = what && strcmp(what, "wait") == 0;
        enum mosaic_status status = MOSAIC_OK;
        if (!is_end && !is_wait && lost.status == MOSAIC_OK)
            status = serve_one(wire, own, message, stop, err);
        if (status == MOSAIC_DEVICE) {
            lost = *err;
            status = MOSAIC_OK;
        }
        wait_s = patience_s(message, idle_timeout_s);
        json_decref(message);
        if (status == MOSAIC_OK && is_end && lost.status != MOSAIC_OK)
            *err = lost;
        if (is_end || status != MOSAIC_OK)
            return status != MOSAIC_OK ? status : lost.status;
    }
}
