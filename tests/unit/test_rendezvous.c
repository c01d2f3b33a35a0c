// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Four processes on loopback: all come, one never comes, one is killed midway, resume; and what
 * cannot be one job.  The probes are scripts of sed that answer whatever they are asked.
 */
#include "close.h"

#include "measure/clock.h"
#include "measure/secret.h"
#include "measure/team_ask.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 4 };

static char folder[] = "/tmp/mosaic-rendezvous-test-XXXXXX";
static char script[sizeof folder + 32], killer[sizeof folder + 32], hanger[sizeof folder + 32];
static char samples[sizeof folder + 32], marker[sizeof folder + 32];
static char quitter[sizeof folder + 32];

#define HELLO                                                                                      \
    "{\"protocol\":\"mosaic-probe/1\",\"probe\":\"fake\",\"version\":\"1\",\"device\":{\"name\":"  \
    "\"Toy\",\"peak_flop_per_s\":{\"bf16\":1e15}},\"software\":{\"toy\":\"3\"},\"quantities\":["   \
    "\"stream\",\"collective\"]}"
/* Each request to its answer; the times are the same at all ranks. */
#define ANSWER                                                                                     \
    "s/\"group\": \"new\"}/\"group\": \"ab12\"}/\nt\n"                                             \
    "s/\"group\": \"join\".*/\"joined\": true}/\nt\n"                                              \
    "s/\"rounds\": [0-9]*, //\n"                                                                   \
    "s/}$/, \"time_s\": {\"median\": 2e-3, \"least\": 1e-3, \"most\": 3e-3}, \"rounds\": 9, "      \
    "\"verified\": true}/\n"

static void write_script(const char *path, const char *more) {
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fprintf(file, "#!/bin/sh\necho '" HELLO "'\n%sexec sed -u '%s'\n", more, ANSWER) >
                0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0755), 0);
}

static int set_up(void **state) {
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(script, sizeof script, "%s/probe", folder);
    (void)snprintf(killer, sizeof killer, "%s/killer", folder);
    (void)snprintf(hanger, sizeof hanger, "%s/hanger", folder);
    (void)snprintf(quitter, sizeof quitter, "%s/quitter", folder);
    (void)snprintf(marker, sizeof marker, "%s/marker", folder);
    (void)snprintf(samples, sizeof samples, "%s/samples", folder);
    write_script(script, "");
    /* Its parent is the rank that it serves: it dies at the fifth request. */
    write_script(killer, "for i in 1 2 3 4; do read -r line; echo \"$line\" | sed '" ANSWER
                         "'; done\nread -r line\nkill -9 $PPID\n");
    /* Silent at its fifth request, once. */
    char once[1024];
    (void)snprintf(once, sizeof once,
                   "[ -e %s ] || { for i in 1 2 3 4; do read -r line; echo \"$line\" | sed '" ANSWER
                   "'; done\nread -r line\n: >%s\nsleep 60; }\n",
                   marker, marker);
    write_script(hanger, once);
    /* Leaves at its fifth request, and from then on at each. */
    (void)snprintf(once, sizeof once,
                   "[ -e %s ] || for i in 1 2 3 4; do read -r line; echo \"$line\" | sed '" ANSWER
                   "'; done\nread -r line\n: >%s\nexit 9\n",
                   marker, marker);
    write_script(quitter, once);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    (void)unlink(script);
    (void)unlink(killer);
    (void)unlink(hanger);
    (void)unlink(quitter);
    (void)unlink(marker);
    (void)unlink(samples);
    return rmdir(folder);
}

/* ---- one rank ---- */

/* What a test makes of a rank. */
struct actor {
    int rank, ranks;
    const char *host, *secret, *probe, *failure;
    const char *hello; /* in place of the probe's own */
    int local_rank;
};

static int port, ports = 1;

static void choose_port(void) {
    int listening = -1;
    struct status_error err = {0};
    port = 0;
    assert_int_equal(wire_listen(&port, &listening, &err), MOSAIC_OK);
    assert_int_equal(close(listening), 0);
}

static struct launcher launcher_of(const struct actor *a) {
    struct launcher l = {.name = "test",
                         .rank = a->rank,
                         .ranks = a->ranks,
                         .local_rank = a->local_rank,
                         .address = "127.0.0.1",
                         .port = port,
                         .ports = ports};
    (void)snprintf(l.secret, sizeof l.secret, "%s", a->secret ? a->secret : "tell nobody");
    return l;
}

static struct rendezvous_card card_of(const struct actor *a, const struct probe_hello *hello) {
    struct rendezvous_card card = {.rank = a->rank,
                                   .ranks = a->ranks,
                                   .local_rank = a->local_rank,
                                   .hello = a->failure ? NULL : hello,
                                   .failure = a->failure};
    (void)snprintf(card.host, sizeof card.host, "%s", a->host);
    return card;
}

static enum mosaic_status open_probe(const struct actor *a, struct prober *out,
                                     struct probe_hello *hello, struct status_error *err) {
    const struct probe_launch launch = {.path = a->probe ? a->probe : script,
                                        .hello_timeout_s = 10.0};
    TRY(prober_open(&launch, out, err));
    if (a->hello)
        return protocol_hello(a->hello, strlen(a->hello), hello, err);
    *hello = *probe_hello(out->probe);
    (void)json_incref(hello->root);
    return MOSAIC_OK;
}

/* A rank other than 0, in a process of its own; exits with its status. */
static pid_t start_peer(const struct actor *a, double timeout_s) {
    const pid_t child = fork();
    if (child != 0)
        return child;
    const struct launcher launcher = launcher_of(a);
    const struct rendezvous_options options = {.launcher = &launcher, .timeout_s = timeout_s};
    struct prober prober;
    struct probe_hello hello;
    struct status_error err = {0};
    struct wire wire = {.socket = -1};
    enum mosaic_status status = open_probe(a, &prober, &hello, &err);
    if (status == MOSAIC_OK) {
        const struct rendezvous_card card = card_of(a, &hello);
        status = rendezvous_join(&options, &card, &wire, &err);
        if (status == MOSAIC_OK)
            status = team_serve(&wire, &prober, 20.0, NULL, &err);
        prober_close(&prober);
    }
    wire_close(&wire);
    _exit((int)status);
}

static void ends_with(pid_t child, enum mosaic_status status) {
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    if (!WIFEXITED(how) || WEXITSTATUS(how) != (int)status)
        fail_msg("a rank ended with %#x, not with %d", (unsigned)how, (int)status);
}

static enum mosaic_status host_team(const struct actor *a, const struct rendezvous_options *given,
                                    struct team *team, struct status_error *err) {
    const struct launcher launcher = launcher_of(a);
    struct rendezvous_options options = *given;
    struct probe_hello hello;
    options.launcher = &launcher;
    assert_int_equal(protocol_hello(HELLO, strlen(HELLO), &hello, err), MOSAIC_OK);
    const struct rendezvous_card card = card_of(a, &hello);
    const enum mosaic_status status = rendezvous_host(&options, &card, team, err);
    protocol_hello_free(&hello);
    return status;
}

static void assert_says(const struct status_error *err, const char *text) {
    if (!strstr(err->message, text) && !strstr(err->hint, text))
        fail_msg("'%s' (%s) does not say '%s'", err->message, err->hint, text);
}

/* Two hosts of two ranks. */
static const struct actor actors[RANKS] = {
    {.rank = 0, .ranks = RANKS, .host = "a", .local_rank = 0},
    {.rank = 1, .ranks = RANKS, .host = "a", .local_rank = 1},
    {.rank = 2, .ranks = RANKS, .host = "b", .local_rank = 0},
    {.rank = 3, .ranks = RANKS, .host = "b", .local_rank = 1},
};

/* ---- measuring ---- */

/* Runs all jobs among four ranks, of which the last one has this probe. */
static struct harness_run measure(const char *last_probe, struct team_tally *tally,
                                  enum mosaic_status last) {
    const struct rendezvous_options options = {.timeout_s = 10.0};
    const struct journal_options keep = {.restart = false};
    struct status_error err = {0};
    pid_t peers[RANKS];
    struct prober own;
    struct probe_hello hello;
    struct team team;
    struct team_ask ask;
    struct journal journal;
    struct job_list jobs;
    struct harness_run run;
    choose_port();
    for (int i = 1; i < RANKS; ++i) {
        struct actor a = actors[i];
        a.probe = i == RANKS - 1 ? last_probe : NULL;
        peers[i] = start_peer(&a, 10.0);
    }
    assert_int_equal(open_probe(&actors[0], &own, &hello, &err), MOSAIC_OK);
    if (host_team(&actors[0], &options, &team, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    assert_int_equal(team.nodes, 2);
    assert_int_equal(team.ranks_per_node, 2);
    const struct job_scope scope = {
        .level = JOB_QUICK, .hello = &hello, .ranks = RANKS, .ranks_per_domain = 2};
    assert_int_equal(job_list_make(&scope, &jobs, &err), MOSAIC_OK);
    assert_int_equal(team_ask_open(&team, &own, NULL, &ask, &err), MOSAIC_OK);
    assert_int_equal(journal_open(samples, &keep, &journal, &err), MOSAIC_OK);
    assert_int_equal(journal_begin(&journal, &hello, &err), MOSAIC_OK);
    const struct harness harness = {.jobs = &jobs,
                                    .journal = &journal,
                                    .ask = team_ask_job,
                                    .context = &ask,
                                    .timeout_s = 5.0,
                                    .budget_s = 1e9};
    assert_int_equal(harness_run(&harness, &run, &err), MOSAIC_OK);
    *tally = ask.tallies[RANKS - 1];
    journal_close(&journal);
    team_ask_close(&ask);
    /* A process that ended with an error would have mpirun end all the others. */
    if (last_probe == quitter)
        assert_int_equal(waitpid(peers[RANKS - 1], NULL, WNOHANG), 0);
    team_close(&team, NULL);
    for (int i = 1; i < RANKS - 1; ++i)
        ends_with(peers[i], MOSAIC_OK);
    if (last == MOSAIC_OK || last_probe == quitter)
        ends_with(peers[RANKS - 1], last);
    else
        assert_int_equal(waitpid(peers[RANKS - 1], NULL, 0), peers[RANKS - 1]);
    prober_close(&own);
    protocol_hello_free(&hello);
    assert_true(run.count + run.gap_count <= jobs.count); /* rounds of partners are one sample */
    job_list_free(&jobs);
    return run;
}

static size_t collectives(const struct harness_run *run, int ranks) {
    size_t count = 0;
    for (size_t i = 0; i < run->count; ++i)
        count += run->samples[i].quantity == SAMPLE_COLLECTIVE &&
                 sample_value(&run->samples[i], "ranks") == ranks;
    return count;
}

static void test_all_come(void **state) {
    struct team_tally tally;
    (void)state;
    (void)unlink(samples);
    struct harness_run run = measure(NULL, &tally, MOSAIC_OK);
    assert_int_equal(run.status, MOSAIC_OK);
    assert_int_equal(run.gap_count, 0);
    assert_true(tally.slow == 0 && tally.lost == 0);
    assert_true(collectives(&run, 2) > 0 && collectives(&run, 4) > 0);
    harness_run_free(&run);
}

/* One dies: it is named, what it takes part in is left out, the rest is measured and kept.  A
 * second start asks for what is missing. */
static void test_killed_and_resumed(void **state) {
    struct team_tally tally;
    bool is_named = false;
    (void)state;
    (void)unlink(samples);
    const double begun_s = clock_now_s();
    struct harness_run run = measure(killer, &tally, MOSAIC_DEVICE);
    assert_true(clock_now_s() - begun_s < 20.0);
    assert_int_equal(run.status, MOSAIC_OK);
    assert_true(run.left[LEFT_LOST] + run.left[LEFT_SKIPPED] > 0);
    assert_true(run.count > 0);
    assert_int_equal(collectives(&run, 4), 0);
    for (size_t i = 0; i < run.gap_count; ++i)
        is_named = is_named || strstr(run.gaps[i].text, "rank 3 on b");
    assert_true(is_named);
    const size_t before = run.count;
    harness_run_free(&run);

    run = measure(NULL, &tally, MOSAIC_OK);
    assert_true(run.resumed >= before && run.measured > 0);
    assert_int_equal(run.gap_count, 0);
    assert_true(collectives(&run, 4) > 0);
    const size_t all = run.count;
    harness_run_free(&run);

    run = measure(NULL, &tally, MOSAIC_OK);
    assert_int_equal(run.measured, 0);
    assert_int_equal(run.count, all);
    harness_run_free(&run);
}

/* A probe that hangs costs its measurement and is named; the next one serves the rest. */
static void test_hangs(void **state) {
    struct team_tally tally;
    (void)state;
    (void)unlink(samples);
    struct harness_run run = measure(hanger, &tally, MOSAIC_OK);
    assert_int_equal(run.status, MOSAIC_OK);
    assert_int_equal(tally.lost, 1);
    assert_non_null(strstr(tally.text, "rank 3 on b: the probe 'hanger' was silent"));
    assert_true(run.gap_count <= 1);
    assert_true(collectives(&run, 4) > 0);
    harness_run_free(&run);
}

/* A rank whose probe is lost for good is left out, waits, and then says so by its status. */
static void test_quits(void **state) {
    struct team_tally tally;
    (void)state;
    (void)unlink(samples);
    (void)unlink(marker);
    struct harness_run run = measure(quitter, &tally, MOSAIC_DEVICE);
    assert_int_equal(run.status, MOSAIC_OK);
    assert_true(tally.lost >= 1);
    assert_non_null(strstr(tally.text, "rank 3 on b: the probe 'quitter' ended"));
    assert_true(run.left[LEFT_LOST] + run.left[LEFT_SKIPPED] > 0 && run.count > 0);
    harness_run_free(&run);
}

/* ---- what is no job ---- */

/* Rank 0 with these others; all of them end with MOSAIC_DEVICE. */
static void refused(const struct actor *host, const struct actor *others, size_t count,
                    double timeout_s, const char *says, const char *hints) {
    const struct rendezvous_options options = {.timeout_s = timeout_s};
    struct status_error err = {0};
    struct team team;
    pid_t peers[RANKS];
    choose_port();
    for (size_t i = 0; i < count; ++i)
        peers[i] = start_peer(&others[i], timeout_s);
    const double begun_s = clock_now_s();
    assert_int_equal(host_team(host, &options, &team, &err), MOSAIC_DEVICE);
    assert_true(clock_now_s() - begun_s < timeout_s + 3.0);
    assert_says(&err, says);
    assert_says(&err, hints);
    for (size_t i = 0; i < count; ++i)
        ends_with(peers[i], MOSAIC_DEVICE);
}

static void test_never_comes(void **state) {
    (void)state;
    const struct actor others[] = {actors[1], actors[3]};
    refused(&actors[0], others, 2, 1.0, "3 of 4 ranks came within 1 s; missing: 2",
            "MOSAIC_ADDRESS");
    refused(&actors[0], NULL, 0, 0.3, "1 of 4 ranks came within 0.3 s; missing: 1, 2, 3", "port");
}

static void test_two_jobs(void **state) {
    (void)state;
    /* U54: ranks of another launch. */
    struct actor twice[] = {actors[1], actors[1]};
    twice[1].host = "c";
    refused(&actors[0], twice, 2, 2.0, "rank 1 came twice", "two launches meet here");
    struct actor fewer[] = {actors[1]};
    fewer[0].ranks = 2;
    refused(&actors[0], fewer, 1, 2.0, "is one of 2 ranks, not of 4", "MOSAIC_PORT");
    /* Two hosts of one name. */
    struct actor same[] = {actors[1], actors[2], actors[3]};
    same[1].host = same[2].host = "a";
    refused(&actors[0], same, 3, 2.0, "are both the local rank 0 on a", "one name");
    struct actor stranger[] = {actors[1]};
    stranger[0].secret = "guess";
    refused(&actors[0], stranger, 1, 1.0, "1 of 4 ranks came", "others with another secret came");
}

static void test_differ(void **state) {
    static const struct actor host = {.rank = 0, .ranks = 2, .host = "a"};
    struct actor other[] = {{.rank = 1, .ranks = 2, .host = "a", .local_rank = 1}};
    (void)state;
    /* U55: nodes that are not alike. */
    other[0].hello = "{\"protocol\":\"mosaic-probe/1\",\"probe\":\"fake\",\"version\":\"1\","
                     "\"device\":{\"name\":\"Toy\"},\"software\":{\"toy\":\"4\"},"
                     "\"quantities\":[\"stream\"]}";
    refused(&host, other, 1, 5.0,
            "rank 1 on a differs from rank 0: the version of toy is '4', not '3'",
            "nothing was measured");
    other[0].hello = "{\"protocol\":\"mosaic-probe/1\",\"probe\":\"fake\",\"version\":\"1\","
                     "\"device\":{\"name\":\"Big Toy\"},\"software\":{\"toy\":\"3\"},"
                     "\"quantities\":[\"stream\"]}";
    refused(&host, other, 1, 5.0, "the device is 'Big Toy', not 'Toy'", "nothing was measured");
    other[0].hello = NULL;
    other[0].failure = "no device 1";
    refused(&host, other, 1, 5.0, "rank 1 on a: no device 1", "1 of 2 ranks");
}

static void test_inventory(void **state) {
    (void)state;
    /* U58: one node came up with fewer. */
    static const struct actor host = {.rank = 0, .ranks = 3, .host = "a"};
    static const struct actor others[] = {{.rank = 1, .ranks = 3, .host = "a", .local_rank = 1},
                                          {.rank = 2, .ranks = 3, .host = "b"}};
    refused(&host, others, 2, 5.0, "b has 1 of 2 ranks", "nothing was measured");
    static const struct actor pair[] = {{.rank = 1,
                                         .ranks = 2,
                                         .host = "b",
                                         .hello = "{\"protocol\":\"mosaic-probe/1\",\"probe\":"
                                                  "\"fake\",\"version\":\"1\",\"device\":{\"name\":"
                                                  "\"Toy\",\"count\":7},\"software\":{\"toy\":"
                                                  "\"3\"},\"quantities\":[\"stream\"]}"}};
    static const struct actor first = {.rank = 0, .ranks = 2, .host = "a"};
    refused(&first, pair, 1, 5.0, "a has 1 of 7 devices", "nvidia-smi");
}

/* Who connects and says nothing holds nobody up. */
static void test_silent_stranger(void **state) {
    const struct rendezvous_options options = {.timeout_s = 5.0};
    static const struct actor host = {.rank = 0, .ranks = 2, .host = "a"};
    static const struct actor other = {.rank = 1, .ranks = 2, .host = "a", .local_rank = 1};
    struct status_error err = {0};
    struct team team;
    (void)state;
    choose_port();
    const pid_t silent = fork();
    if (silent == 0) {
        struct wire wire;
        for (int i = 0; i < 500; ++i) {
            if (wire_connect("127.0.0.1", port, clock_now_s() + 5.0, NULL, &wire, &err) ==
                MOSAIC_OK)
                clock_sleep_s(30.0);
            clock_sleep_s(0.01);
        }
        _exit(0);
    }
    clock_sleep_s(0.1);
    const pid_t peer = start_peer(&other, 5.0);
    const double begun_s = clock_now_s();
    if (host_team(&host, &options, &team, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    assert_true(clock_now_s() - begun_s < 4.0);
    team_close(&team, NULL);
    ends_with(peer, MOSAIC_OK);
    assert_int_equal(kill(silent, SIGKILL), 0);
    assert_int_equal(waitpid(silent, NULL, 0), silent);
}

/* A rank goes on from another job's port, from a silent one, from one that is closed; rank 0 takes
 * the first that is free. */
static void test_ports(void **state) {
    const struct rendezvous_options options = {.timeout_s = 15.0};
    static const struct actor host = {.rank = 0, .ranks = 2, .host = "a"};
    static const struct actor other = {.rank = 1, .ranks = 2, .host = "a", .local_rank = 1};
    struct status_error err = {0};
    struct team team;
    int taken = -1, silent;
    (void)state;
    choose_port();
    silent = port;
    assert_int_equal(wire_listen(&silent, &taken, &err), MOSAIC_OK);
    ports = 4;
    const pid_t peer = start_peer(&other, 15.0);
    const double begun_s = clock_now_s();
    if (host_team(&host, &options, &team, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    assert_true(clock_now_s() - begun_s < 10.0);
    team_close(&team, NULL);
    ends_with(peer, MOSAIC_OK);
    /* None is free. */
    ports = 1;
    const struct rendezvous_options soon = {.timeout_s = 0.3};
    assert_int_equal(host_team(&host, &soon, &team, &err), MOSAIC_DEVICE);
    assert_says(&err, "cannot listen");
    assert_says(&err, "MOSAIC_PORT");
    assert_int_equal(close(taken), 0);
}

/* Both jobs find their own rank 0, whichever listens first. */
static void test_side_by_side(void **state) {
    const struct rendezvous_options options = {.timeout_s = 15.0};
    struct actor a = {.rank = 0, .ranks = 2, .host = "a", .secret = "job 1"}, b = a;
    struct actor c = {.rank = 1, .ranks = 2, .host = "a", .local_rank = 1, .secret = "job 1"};
    struct actor d = c;
    struct status_error err = {0};
    struct team team;
    (void)state;
    b.secret = d.secret = "job 2";
    choose_port();
    ports = 4;
    const pid_t first = start_peer(&c, 15.0), second = start_peer(&d, 15.0);
    const pid_t rival = fork();
    if (rival == 0) {
        const enum mosaic_status status = host_team(&b, &options, &team, &err);
        if (status == MOSAIC_OK)
            team_close(&team, NULL);
        _exit((int)status);
    }
    if (host_team(&a, &options, &team, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    team_close(&team, NULL);
    ends_with(rival, MOSAIC_OK);
    ends_with(first, MOSAIC_OK);
    ends_with(second, MOSAIC_OK);
    ports = 1;
}

/* ---- small parts ---- */

static void test_secret(void **state) {
    char proof[SECRET_HEX], a[SECRET_CHALLENGE], b[SECRET_CHALLENGE];
    struct status_error err;
    (void)state;
    /* RFC 4231, cases 2 and 6. */
    secret_proof("Jefe", "what do ya want for nothing?", proof);
    assert_string_equal(proof, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    char key[132];
    memset(key, 0xaa, 131);
    key[131] = '\0';
    secret_proof(key, "Test Using Larger Than Block-Size Key - Hash Key First", proof);
    assert_string_equal(proof, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    assert_true(secret_equal("ab", "ab") && !secret_equal("ab", "ac") && !secret_equal("a", "ab"));
    assert_int_equal(secret_challenge(a, &err), MOSAIC_OK);
    assert_int_equal(secret_challenge(b, &err), MOSAIC_OK);
    assert_string_not_equal(a, b);
    assert_int_equal(strlen(a), SECRET_CHALLENGE - 1);
}

/* Links of four ranks; rank 3 is slow between hosts, or only the pair 0 and 2. */
static json_t *links_of(int rank, int a, int b) {
    json_t *const list = json_array();
    for (int i = 0; i < RANKS; ++i)
        for (int k = i + 1; k < RANKS; ++k) {
            const bool is_slow = i == rank || k == rank || (i == a && k == b);
            const double time = is_slow ? 4e-3 : 1e-3 + 1e-5 * (double)(i + k);
            (void)json_array_append_new(list, json_pack("[i, i, i, i, f, f, f]", i, k, 1 << 20, 1,
                                                        time, 0.95 * time, 1.05 * time));
        }
    return list;
}

static void test_slow_links(void **state) {
    struct slow_link found[8];
    (void)state;
    const json_t *const good[] = {links_of(-1, -1, -1)};
    assert_int_equal(team_slow_links(good, 1, RANKS, found, 8), 0);
    const json_t *const rank[] = {links_of(3, -1, -1)};
    assert_int_equal(team_slow_links(rank, 1, RANKS, found, 8), 1);
    assert_true(found[0].a == 3 && found[0].b == -1 && found[0].ratio > 3.5);
    const json_t *const pair[] = {links_of(-1, 0, 2)};
    assert_int_equal(team_slow_links(pair, 1, RANKS, found, 8), 1);
    assert_true(found[0].a == 0 && found[0].b == 2);
    json_decref((json_t *)good[0]);
    json_decref((json_t *)rank[0]);
    json_decref((json_t *)pair[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_secret),
                                       cmocka_unit_test(test_slow_links),
                                       cmocka_unit_test(test_all_come),
                                       cmocka_unit_test(test_never_comes),
                                       cmocka_unit_test(test_two_jobs),
                                       cmocka_unit_test(test_differ),
                                       cmocka_unit_test(test_inventory),
                                       cmocka_unit_test(test_silent_stranger),
                                       cmocka_unit_test(test_ports),
                                       cmocka_unit_test(test_side_by_side),
                                       cmocka_unit_test(test_hangs),
                                       cmocka_unit_test(test_quits),
                                       cmocka_unit_test(test_killed_and_resumed)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
