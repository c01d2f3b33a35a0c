// SPDX-License-Identifier: GPL-3.0-or-later
/* From a probe's name to its samples, alone or with other ranks. */
#include "measure/calibrate_run.h"

#include "measure/job_recorded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct runner {
    const struct calibrate_request *request;
    struct calibrate_run *out;
    struct prober prober;
    bool has_probe;
    struct team team;
    struct team_ask ask;
    struct journal journal;
    struct job_list jobs;
    struct status_error *err;
};

/* ---- the probe ---- */

static enum mosaic_status start_probe(struct runner *r, char path[PROBE_PATH_MAX], char *words) {
    const struct calibrate_settings *const s = r->request->settings;
    TRY(probe_find(s->probe, s->beside, path, r->err));
    const struct probe_launch launch = {.path = path,
                                        .options = s->options,
                                        .hello_timeout_s = s->timeout_s,
                                        .stop = r->request->stop};
    const enum mosaic_status status = prober_open(&launch, &r->prober, r->err);
    memcpy(words, r->prober.words, sizeof r->prober.words);
    r->has_probe = status == MOSAIC_OK;
    return status;
}

/* ---- several ranks ---- */

static void card_of(const struct runner *r, const char *failure, struct rendezvous_card *out) {
    const struct launcher *const l = r->request->launcher;
    *out = (struct rendezvous_card){.rank = l->rank,
                                    .ranks = l->ranks,
                                    .local_rank = l->local_rank,
                                    .hello = r->has_probe ? probe_hello(r->prober.probe) : NULL,
                                    .failure = r->has_probe ? NULL : failure};
    if (l->host[0])
        (void)snprintf(out->host, sizeof out->host, "%.*s", (int)sizeof out->host - 1, l->host);
    else if (gethostname(out->host, sizeof out->host - 1) != 0 || !out->host[0])
        (void)snprintf(out->host, sizeof out->host, "an unnamed host");
}

/* Whether or not the probe started, so that rank 0 can name who lacks one. */
static enum mosaic_status meet(struct runner *r, const struct status_error *failed,
                               struct wire *wire) {
    const struct calibrate_request *const q = r->request;
    const struct rendezvous_options options = {
        .launcher = q->launcher,
        .timeout_s = q->settings->timeout_s,
        .gpus_per_node = q->cluster ? q->cluster->gpus_per_node : 0,
        .cluster_gpus = q->cluster && q->cluster_has_nodes ? cluster_gpus(q->cluster) : 0,
        .stop = q->stop};
    struct rendezvous_card card;
    char failure[PROTOCOL_TEXT_MAX];
    (void)snprintf(failure, sizeof failure, "%.250s%s%.250s", failed->message,
                   failed->hint[0] ? "; " : "", failed->hint);
    card_of(r, failure, &card);
    if (q->launcher->rank == 0)
        return rendezvous_host(&options, &card, &r->team, r->err);
    return rendezvous_join(&options, &card, wire, r->err);
}

static enum mosaic_status serve(struct runner *r, struct wire *wire) {
    const double idle_s = 2.0 * r->request->settings->timeout_s;
    const enum mosaic_status status =
        team_serve(wire, &r->prober, idle_s, r->request->stop, r->err);
    wire_close(wire);
    r->out->is_peer = true;
    return status;
}

/* ---- jobs ---- */

static const char team_key[] = "team";

/* At least 1. */
static int number_of(const json_t *object, const char *key) {
    const json_int_t value = json_integer_value(json_object_get(object, key));
    return value < 1 ? 1 : value > LAUNCHER_RANKS_MAX ? LAUNCHER_RANKS_MAX : (int)value;
}

static int domain_of(const struct calibrate_request *q, const struct team *team) {
    const int ranks = team->ranks > 0 ? team->ranks : 1;
    int domain = team->ranks > 0 ? team->ranks_per_node : 1;
    if (q->cluster && q->cluster->tier_count > 0)
        domain = q->cluster->tiers[0].domain;
    return domain < 1 ? 1 : domain > ranks ? ranks : domain;
}

/* How many measure: the team, or the one that a probe plays from a record. */
static void count_ranks(struct runner *r) {
    struct calibrate_run *const out = r->out;
    const json_t *const played = json_object_get(out->hello.root, team_key);
    const bool is_team = r->team.ranks > 1;
    const int counts[] = {is_team ? r->team.ranks : number_of(played, "ranks"),
                          is_team ? r->team.nodes : number_of(played, "nodes"),
                          is_team ? r->team.ranks_per_node : number_of(played, "ranks_per_node"),
                          is_team ? domain_of(r->request, &r->team)
                                  : number_of(played, "ranks_per_domain")};
    out->ranks = counts[0];
    out->nodes = counts[1];
    out->ranks_per_node = counts[2];
    out->ranks_per_domain = counts[3] < counts[0] ? counts[3] : counts[0];
}

/* The record says how many ranks it is of, so that it can be played by one process. */
static enum mosaic_status sign_hello(struct runner *r) {
    struct calibrate_run *const out = r->out;
    if (r->team.ranks < 2)
        return MOSAIC_OK;
    json_t *const root = json_copy(out->hello.root);
    json_t *const team =
        json_pack("{s:i, s:i, s:i, s:i}", "ranks", out->ranks, "nodes", out->nodes,
                  "ranks_per_node", out->ranks_per_node, "ranks_per_domain", out->ranks_per_domain);
    if (!root || json_object_set_new(root, team_key, team) != 0) {
        json_decref(root);
        return status_no_memory(r->err);
    }
    json_decref(out->hello.root);
    out->hello.root = root;
    return MOSAIC_OK;
}

static const struct device *sheet_of(const struct calibrate_request *q,
                                     const struct probe_hello *hello) {
    if (q->cluster)
        return &q->cluster->device;
    return q->sheet_of ? q->sheet_of(q->sheet_context, hello->device) : NULL;
}

static enum mosaic_status make_jobs(struct runner *r) {
    const struct calibrate_request *const q = r->request;
    struct calibrate_run *const out = r->out;
    const struct job_scope scope = {.level = q->settings->level,
                                    .hello = &out->hello,
                                    .device = sheet_of(q, &out->hello),
                                    .ranks = out->ranks,
                                    .ranks_per_domain = out->ranks_per_domain,
                                    .budget_s = q->settings->budget_s};
    TRY(job_recorded_has(&out->hello) ? job_recorded_make(&out->hello, &r->jobs, r->err)
                                      : job_list_make(&scope, &r->jobs, r->err));
    out->jobs = r->jobs.count;
    out->too_long = r->jobs.too_long;
    out->too_large = r->jobs.too_large;
    out->beyond = r->jobs.beyond;
    return MOSAIC_OK;
}

static enum mosaic_status open_journal(struct runner *r) {
    const struct calibrate_settings *const s = r->request->settings;
    const struct journal_options options = {.restart = s->restart};
    TRY(journal_open(s->samples, &options, &r->journal, r->err));
    r->out->journal_was_cut = r->journal.was_cut;
    return journal_begin(&r->journal, &r->out->hello, r->err);
}

static enum mosaic_status run_jobs(struct runner *r) {
    const struct calibrate_request *const q = r->request;
    const bool is_team = r->team.ranks > 1;
    const double budget_s = q->settings->budget_s;
    if (is_team)
        TRY(team_ask_open(&r->team, &r->prober, q->stop, &r->ask, r->err));
    const struct harness harness = {
        .jobs = &r->jobs,
        .journal = &r->journal,
        .ask = is_team ? team_ask_job : prober_ask_alone,
        .context = is_team ? (void *)&r->ask : (void *)&r->prober,
        .timeout_s = q->settings->timeout_s,
        .budget_s = budget_s > 0.0 ? budget_s : job_level_budget_s(q->settings->level),
        .stop = q->stop,
        .progress = q->progress,
        .progress_context = q->progress_context};
    return harness_run(&harness, &r->out->run, r->err);
}

/* ---- what is told of the ranks ---- */

static enum mosaic_status tell_members(struct runner *r) {
    const int ranks = r->team.ranks;
    if (ranks < 2)
        return MOSAIC_OK;
    r->out->members = calloc((size_t)ranks, sizeof *r->out->members);
    if (!r->out->members)
        return status_no_memory(r->err);
    for (int i = 0; i < ranks; ++i) {
        struct calibrate_rank *const m = &r->out->members[i];
        team_name(&r->team, i, m->name, sizeof m->name);
        (void)snprintf(m->failure, sizeof m->failure, "%s", r->team.members[i].failure);
        m->tally = r->ask.tallies[i];
        r->out->rank_losses += m->tally.lost;
    }
    return MOSAIC_OK;
}

static enum mosaic_status tell_links(struct runner *r) {
    const json_t **const links = calloc(r->journal.count + 1, sizeof *links);
    size_t count = 0;
    if (!links)
        return status_no_memory(r->err);
    for (size_t i = 0; i < r->journal.count; ++i)
        if (r->journal.entries[i].links)
            links[count++] = r->journal.entries[i].links;
    if (r->team.ranks > 1)
        r->out->slow_count = team_slow_links(links, count, r->team.ranks, r->out->slow,
                                             sizeof r->out->slow / sizeof *r->out->slow);
    free(links);
    return MOSAIC_OK;
}

/* ---- all of it ---- */

static enum mosaic_status lead(struct runner *r) {
    r->out->hello = *probe_hello(r->prober.probe);
    (void)json_incref(r->out->hello.root);
    count_ranks(r);
    TRY(sign_hello(r));
    TRY(open_journal(r));
    TRY(make_jobs(r));
    if (r->jobs.count == 0)
        return status_set(r->err, MOSAIC_DEVICE,
                          "nothing of what the probe can do fits in the time and memory given");
    TRY(run_jobs(r));
    TRY(tell_members(r));
    return tell_links(r);
}

static enum mosaic_status run_all(struct runner *r, char path[PROBE_PATH_MAX], char *words) {
    struct status_error failed = {.message = ""};
    struct wire wire = {.socket = -1};
    enum mosaic_status status = start_probe(r, path, words);
    if (r->request->launcher->ranks > 1 && (status == MOSAIC_OK || status == MOSAIC_DEVICE)) {
        failed = *r->err;
        status = meet(r, &failed, &wire);
    }
    if (status != MOSAIC_OK)
        return status;
    return r->request->launcher->rank > 0 ? serve(r, &wire) : lead(r);
}

enum mosaic_status calibrate_run(const struct calibrate_request *request, struct calibrate_run *out,
                                 char *words, struct status_error *err) {
    char path[PROBE_PATH_MAX];
    struct runner *const r = calloc(1, sizeof *r);
    if (!r)
        return status_no_memory(err);
    *out = (struct calibrate_run){.ranks = 1};
    *r = (struct runner){.request = request, .out = out, .journal = {.file = -1}, .err = err};
    err->message[0] = err->hint[0] = '\0';
    const enum mosaic_status status = run_all(r, path, words);
    out->starts = r->prober.starts;
    memcpy(out->words, r->prober.words, sizeof out->words);
    if (r->prober.words[0])
        memcpy(words, r->prober.words, sizeof r->prober.words);
    if (r->team.ranks > 0)
        team_close(&r->team, status == MOSAIC_OK ? NULL : err->message);
    team_ask_close(&r->ask);
    job_list_free(&r->jobs);
    journal_close(&r->journal);
    prober_close(&r->prober);
    free(r);
    if (status != MOSAIC_OK)
        calibrate_run_free(out);
    return status;
}

void calibrate_run_free(struct calibrate_run *run) {
    if (run->hello.root)
        protocol_hello_free(&run->hello);
    harness_run_free(&run->run);
    free(run->members);
    run->members = NULL;
}
