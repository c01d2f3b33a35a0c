// SPDX-License-Identifier: GPL-3.0-or-later
/* The loop over the jobs. */
#include "measure/harness.h"

#include "measure/clock.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A time-out bounds what hangs; a job that is foreseen to be long has as much more. */
static const double patience = 4.0;
/* How far the time of one job changes what is foreseen of its quantity. */
static const double scale_least = 0.2, scale_most = 50.0;

static const char *const left_out_words[LEFT_KINDS] = {"refused", "lost", "skipped", "budget"};

const char *left_out_name(enum left_out why) {
    return left_out_words[why];
}

struct runner {
    const struct harness *h;
    struct harness_run *run;
    struct status_error *err;
    double begun_s, scale[SAMPLE_QUANTITIES];
};

/* ---- results ---- */

static enum mosaic_status add_gap(struct runner *r, const struct job *job, enum left_out why,
                                  enum refusal refusal, const char *text) {
    struct harness_gap *const gap = &r->run->gaps[r->run->gap_count++];
    *gap = (struct harness_gap){.keys = job->keys, .why = why, .refusal = refusal};
    (void)snprintf(gap->text, sizeof gap->text, "%s", text);
    r->run->left[why]++;
    if (why == LEFT_REFUSED)
        r->run->refused[refusal]++;
    return MOSAIC_OK;
}

static void add_sample(struct runner *r, const struct sample *sample) {
    r->run->samples[r->run->count++] = *sample;
}

static int by_keys(const void *a, const void *b) {
    const struct sample *const x = a, *const y = b;
    const int keys = sample_compare_keys(x, y);
    return keys ? keys : (x->median_s > y->median_s) - (x->median_s < y->median_s);
}

/* One sample for each keys: of several rounds of partners the middle one. */
static void settle(struct harness_run *run) {
    size_t kept = 0;
    if (run->count > 0)
        qsort(run->samples, run->count, sizeof *run->samples, by_keys);
    for (size_t i = 0; i < run->count;) {
        size_t end = i + 1;
        while (end < run->count && sample_compare_keys(&run->samples[i], &run->samples[end]) == 0)
            end++;
        run->samples[kept++] = run->samples[i + (end - i - 1) / 2];
        i = end;
    }
    run->count = kept;
    for (size_t i = 0; i < kept; ++i)
        run->unverified += !run->samples[i].is_verified;
}

/* ---- one job ---- */

/* What is known of it from an earlier start: a device that cannot will not, a failure may pass. */
static bool is_known(struct runner *r, const struct job *job) {
    const struct journal_entry *const entry =
        journal_find(r->h->journal, &job->keys, job->kind == JOB_PAIRS ? job->round : 0);
    if (!entry || entry->kind == JOURNAL_LOST ||
        (entry->kind == JOURNAL_REFUSED && entry->refusal == REFUSED_FAILED))
        return false;
    if (entry->kind == JOURNAL_REFUSED)
        return add_gap(r, job, LEFT_REFUSED, entry->refusal, entry->text) == MOSAIC_OK;
    add_sample(r, &entry->sample);
    r->run->resumed++;
    return true;
}

static bool was_lost(const struct runner *r, const struct job *job) {
    const struct journal_entry *const entry =
        journal_find(r->h->journal, &job->keys, job->kind == JOB_PAIRS ? job->round : 0);
    return entry && entry->kind == JOURNAL_LOST;
}

static enum mosaic_status keep(struct runner *r, const struct job *job,
                               const struct outcome *outcome) {
    const struct journal_entry entry = {.kind = outcome->kind == OUTCOME_SAMPLE    ? JOURNAL_SAMPLE
                                                : outcome->kind == OUTCOME_REFUSED ? JOURNAL_REFUSED
                                                                                   : JOURNAL_LOST,
                                        .sample = outcome->kind == OUTCOME_SAMPLE ? outcome->sample
                                                                                  : job->keys,
                                        .round = job->kind == JOB_PAIRS ? job->round : 0,
                                        .links = outcome->links,
                                        .refusal = outcome->refusal};
    struct journal_entry whole = entry;
    (void)snprintf(whole.text, sizeof whole.text, "%s", outcome->text);
    switch (outcome->kind) {
    case OUTCOME_SAMPLE:
        add_sample(r, &outcome->sample);
        r->run->measured++;
        break;
    case OUTCOME_REFUSED:
        TRY(add_gap(r, job, LEFT_REFUSED, outcome->refusal, outcome->text));
        break;
    case OUTCOME_LOST:
        TRY(add_gap(r, job, LEFT_LOST, REFUSED_FAILED, outcome->text));
        break;
    case OUTCOME_SKIPPED:
        return add_gap(r, job, LEFT_SKIPPED, REFUSED_FAILED, outcome->text);
    }
    return journal_append(r->h->journal, &whole,
                          outcome->kind == OUTCOME_SAMPLE ? outcome->object : NULL, r->err);
}

/* Jobs of a quantity take what the last one took against what was foreseen. */
static void learn(struct runner *r, const struct job *job, double took_s) {
    const double ratio = took_s / job->seconds;
    r->scale[job->keys.quantity] = ratio < scale_least  ? scale_least
                                   : ratio > scale_most ? scale_most
                                                        : ratio;
}

static enum mosaic_status run_job(struct runner *r, const struct job *job) {
    struct outcome outcome = {.kind = OUTCOME_SKIPPED};
    const double begun_s = clock_now_s(), foreseen_s = job->seconds * r->scale[job->keys.quantity];
    if (begun_s - r->begun_s + foreseen_s > r->h->budget_s)
        return add_gap(r, job, LEFT_BUDGET, REFUSED_FAILED, "");
    const double timeout_s =
        r->h->timeout_s > patience * job->seconds ? r->h->timeout_s : patience * job->seconds;
    const enum mosaic_status asked =
        r->h->ask(r->h->context, job, timeout_s, &outcome, &r->run->error);
    enum mosaic_status status = MOSAIC_OK;
    if (asked != MOSAIC_INTERRUPTED && (asked == MOSAIC_OK || outcome.kind == OUTCOME_LOST))
        status = keep(r, job, &outcome);
    if (asked != MOSAIC_OK)
        r->run->status = asked;
    /* What was measured is still to be told of. */
    if (status == MOSAIC_IO) {
        r->run->status = status;
        r->run->error = *r->err;
        status = MOSAIC_OK;
    }
    if (outcome.kind == OUTCOME_SAMPLE)
        learn(r, job, clock_now_s() - begun_s);
    json_decref(outcome.object);
    json_decref(outcome.links);
    return status;
}

/* Those that a probe was lost over before this start come last. */
static enum mosaic_status run_jobs(struct runner *r, const bool *comes_last) {
    const struct job_list *const list = r->h->jobs;
    size_t done = 0;
    for (int pass = 0; pass < 2; ++pass)
        for (size_t i = 0; i < list->count; ++i) {
            const struct job *const job = &list->jobs[i];
            if (comes_last[i] != (pass == 1))
                continue;
            if (clock_stopped(r->h->stop))
                r->run->was_stopped = true;
            if (r->run->was_stopped || r->run->status != MOSAIC_OK)
                return MOSAIC_OK;
            if (!is_known(r, job))
                TRY(run_job(r, job));
            if (r->h->progress)
                r->h->progress(r->h->progress_context, (double)++done, (double)list->count);
        }
    return MOSAIC_OK;
}

enum mosaic_status harness_run(const struct harness *harness, struct harness_run *out,
                               struct status_error *err) {
    const size_t most = harness->jobs->count + 1;
    struct harness_run run = {.samples = calloc(most, sizeof *run.samples),
                              .gaps = calloc(most, sizeof *run.gaps)};
    struct runner r = {.h = harness, .run = &run, .err = err, .begun_s = clock_now_s()};
    for (int q = 0; q < SAMPLE_QUANTITIES; ++q)
        r.scale[q] = 1.0;
    bool *const comes_last = calloc(most, sizeof *comes_last);
    const bool has_memory = run.samples && run.gaps && comes_last;
    enum mosaic_status status = has_memory ? MOSAIC_OK : status_no_memory(err);
    for (size_t i = 0; status == MOSAIC_OK && i + 1 < most; ++i)
        comes_last[i] = was_lost(&r, &harness->jobs->jobs[i]);
    if (status == MOSAIC_OK)
        status = run_jobs(&r, comes_last);
    free(comes_last);
    if (status != MOSAIC_OK) {
        harness_run_free(&run);
        return status;
    }
    run.was_stopped = run.was_stopped || run.status == MOSAIC_INTERRUPTED;
    settle(&run);
    *out = run;
    return MOSAIC_OK;
}

void harness_run_free(struct harness_run *run) {
    free(run->samples);
    free(run->gaps);
    *run = (struct harness_run){.count = 0};
}
