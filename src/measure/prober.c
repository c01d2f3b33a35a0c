// SPDX-License-Identifier: GPL-3.0-or-later
/* One probe after another. */
#include "measure/prober.h"

#include <stdio.h>
#include <string.h>

enum { LOSSES_MOST = 2 };

static enum mosaic_status start(struct prober *p, struct status_error *err) {
    if (p->probe && probe_is_alive(p->probe))
        return MOSAIC_OK;
    probe_close(p->probe);
    p->probe = NULL;
    struct probe_launch launch = p->launch;
    launch.words = p->words;
    p->starts++;
    return probe_open(&launch, &p->probe, err);
}

enum mosaic_status prober_open(const struct probe_launch *launch, struct prober *out,
                               struct status_error *err) {
    *out = (struct prober){.launch = *launch};
    return start(out, err);
}

void prober_close(struct prober *prober) {
    probe_close(prober->probe);
    prober->probe = NULL;
}

/* The job is lost; the probe too, after too many. */
static enum mosaic_status lose(struct prober *p, const struct status_error *why,
                               struct outcome *out, struct status_error *err) {
    *out = (struct outcome){.kind = OUTCOME_LOST};
    (void)snprintf(out->text, sizeof out->text, "%.250s%s%.250s", why->message,
                   why->hint[0] ? "; " : "", why->hint);
    memcpy(p->words, probe_stderr(p->probe), sizeof p->words);
    *err = *why;
    return ++p->losses < LOSSES_MOST ? MOSAIC_OK : MOSAIC_DEVICE;
}

static enum mosaic_status take(struct prober *p, const struct probe_answer *answer,
                               struct outcome *out) {
    p->losses = 0;
    if (answer->kind == ANSWER_REFUSED) {
        *out = (struct outcome){.kind = OUTCOME_REFUSED, .refusal = answer->refusal};
        (void)snprintf(out->text, sizeof out->text, "%s", answer->text);
    } else {
        *out = (struct outcome){.kind = OUTCOME_SAMPLE, .sample = answer->sample};
    }
    return MOSAIC_OK;
}

enum mosaic_status prober_ask(struct prober *prober, const struct sample *keys, int rounds,
                              double timeout_s, struct outcome *out, struct status_error *err) {
    struct probe_answer answer;
    struct status_error wrong;
    TRY(start(prober, err));
    const enum mosaic_status status =
        probe_ask(prober->probe, keys, rounds, timeout_s, &answer, &wrong);
    if (status == MOSAIC_DEVICE)
        return lose(prober, &wrong, out, err);
    if (status != MOSAIC_OK) {
        *err = wrong;
        return status;
    }
    TRY(take(prober, &answer, out));
    /* The line as it came: what the probe says besides is kept too. */
    if (out->kind == OUTCOME_SAMPLE) {
        const char *const line = probe_line(prober->probe);
        TRY(protocol_object(line, strlen(line), &out->object, err));
    }
    return MOSAIC_OK;
}

enum mosaic_status prober_group(struct prober *prober, const struct probe_group *group,
                                double timeout_s, struct outcome *out, char id[PROTOCOL_GROUP_MAX],
                                struct status_error *err) {
    struct probe_answer answer;
    struct status_error wrong;
    TRY(start(prober, err));
    const enum mosaic_status status = probe_group(prober->probe, group, timeout_s, &answer, &wrong);
    if (status == MOSAIC_DEVICE)
        return lose(prober, &wrong, out, err);
    if (status != MOSAIC_OK) {
        *err = wrong;
        return status;
    }
    if (answer.kind == ANSWER_GROUP)
        (void)snprintf(id, PROTOCOL_GROUP_MAX, "%s", answer.group);
    return take(prober, &answer, out);
}

enum mosaic_status prober_ask_alone(void *context, const struct job *job, double timeout_s,
                                    struct outcome *out, struct status_error *err) {
    return prober_ask(context, &job->keys, job->rounds, timeout_s, out, err);
}
