// SPDX-License-Identifier: GPL-3.0-or-later
/* Journals that go on, are cut, are another's; the harness over them with answers made up here. */
#include "close.h"

#include "measure/harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[] = "/tmp/mosaic-journal-test-XXXXXX";

static const char hello_line[] =
    "{\"protocol\":\"mosaic-probe/1\",\"probe\":\"fake\",\"version\":\"1\",\"device\":{\"name\":"
    "\"Toy\"},\"software\":{\"toy\":\"3\",\"blas\":\"0.3\"},\"quantities\":[\"stream\"]}";
static const char sample_line[] =
    "{\"quantity\":\"stream\",\"op\":\"copy\",\"bytes\":4096,\"time_s\":{\"median\":2e-6,\"least\":"
    "1e-6,\"most\":3e-6},\"rounds\":9,\"verified\":true,\"clock_hz\":1.5e9}\n";

static int set_up(void **state) {
    (void)state;
    const int file = mkstemp(path);
    return file < 0 ? -1 : close(file);
}

static int tear_down(void **state) {
    (void)state;
    return unlink(path);
}

static void write_file(const char *text) {
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void read_file(char *text, size_t size) {
    FILE *const file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    assert_int_equal(fclose(file), 0);
}

static struct journal open_it(bool restart) {
    const struct journal_options options = {.restart = restart};
    struct journal journal;
    struct status_error err = {0};
    if (journal_open(path, &options, &journal, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    return journal;
}

static struct probe_hello hello_of(const char *line) {
    struct probe_hello hello;
    struct status_error err;
    assert_int_equal(protocol_hello(line, strlen(line), &hello, &err), MOSAIC_OK);
    return hello;
}

static struct sample stream_of(long long bytes) {
    return (struct sample){.quantity = SAMPLE_STREAM,
                           .value = {0, bytes},
                           .median_s = 1e-6 * (double)bytes,
                           .least_s = 1e-6 * (double)bytes,
                           .most_s = 2e-6 * (double)bytes,
                           .rounds = 3,
                           .is_verified = true};
}

static void test_goes_on(void **state) {
    struct status_error err = {0};
    struct probe_hello hello = hello_of(hello_line);
    char text[4096];
    (void)state;
    write_file("");
    struct journal journal = open_it(false);
    assert_int_equal(journal_begin(&journal, &hello, &err), MOSAIC_OK);
    const struct journal_entry sample = {.kind = JOURNAL_SAMPLE, .sample = stream_of(100)};
    const struct journal_entry refused = {.kind = JOURNAL_REFUSED,
                                          .sample = stream_of(200),
                                          .refusal = REFUSED_MEMORY,
                                          .text = "7 \"GB\""};
    const struct journal_entry lost = {
        .kind = JOURNAL_LOST, .sample = stream_of(300), .text = "it hung"};
    json_t *const links = json_pack("[[i, i]]", 0, 1);
    const struct journal_entry pair = {
        .kind = JOURNAL_SAMPLE, .sample = stream_of(100), .round = 2, .links = links};
    assert_int_equal(journal_append(&journal, &sample, NULL, &err), MOSAIC_OK);
    assert_int_equal(journal_append(&journal, &refused, NULL, &err), MOSAIC_OK);
    assert_int_equal(journal_append(&journal, &lost, NULL, &err), MOSAIC_OK);
    assert_int_equal(journal_append(&journal, &pair, NULL, &err), MOSAIC_OK);
    json_decref(links);
    journal_close(&journal);

    journal = open_it(false);
    assert_int_equal(journal_begin(&journal, &hello, &err), MOSAIC_OK);
    assert_int_equal(journal.count, 4);
    const struct journal_entry *found = journal_find(&journal, &sample.sample, 0);
    assert_non_null(found);
    assert_close(found->sample.median_s, 1e-4, 1e-15);
    assert_null(found->links);
    found = journal_find(&journal, &pair.sample, 2);
    assert_true(found && json_array_size(found->links) == 1);
    found = journal_find(&journal, &refused.sample, 0);
    assert_true(found && found->kind == JOURNAL_REFUSED && found->refusal == REFUSED_MEMORY);
    assert_string_equal(found->text, "7 \"GB\"");
    found = journal_find(&journal, &lost.sample, 0);
    assert_true(found && found->kind == JOURNAL_LOST);
    journal_close(&journal);

    /* Begun anew, nothing is left. */
    journal = open_it(true);
    assert_int_equal(journal.count, 0);
    journal_close(&journal);
    read_file(text, sizeof text);
    assert_string_equal(text, "");
    protocol_hello_free(&hello);
}

/* The last line may be half: it goes, and the next one takes its place. */
static void test_cut(void **state) {
    struct status_error err = {0};
    struct probe_hello hello = hello_of(hello_line);
    char text[4096], whole[4096];
    (void)state;
    const size_t length = strlen(sample_line);
    for (size_t cut = 1; cut <= length; ++cut) {
        (void)snprintf(text, sizeof text, "%s\n%s%.*s", hello_line, sample_line, (int)cut,
                       sample_line);
        write_file(text);
        struct journal journal = open_it(false);
        assert_int_equal(journal.was_cut, cut < length);
        assert_int_equal(journal.count, cut < length ? 1 : 2);
        assert_int_equal(journal_begin(&journal, &hello, &err), MOSAIC_OK);
        const struct journal_entry entry = {.kind = JOURNAL_SAMPLE, .sample = stream_of(100)};
        assert_int_equal(journal_append(&journal, &entry, NULL, &err), MOSAIC_OK);
        journal_close(&journal);
        read_file(whole, sizeof whole);
        assert_non_null(strstr(whole, "\"bytes\": 100"));
        journal = open_it(false);
        assert_false(journal.was_cut);
        assert_int_equal(journal.count, cut < length ? 2 : 3);
        journal_close(&journal);
    }
    /* Half a hello is none. */
    (void)snprintf(text, sizeof text, "%.40s", hello_line);
    write_file(text);
    struct journal journal = open_it(false);
    assert_false(journal.has_hello);
    assert_int_equal(journal_begin(&journal, &hello, &err), MOSAIC_OK);
    journal_close(&journal);
    read_file(text, sizeof text);
    assert_int_equal(text[strlen(text) - 1], '\n');
    protocol_hello_free(&hello);
}

static void refused_with(const char *from, const char *to, const char *says) {
    char line[1024], changed[1024];
    struct status_error err = {0};
    (void)snprintf(line, sizeof line, "%s", hello_line);
    char *const at = strstr(line, from);
    assert_non_null(at);
    (void)snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - line), line, to,
                   at + strlen(from));
    struct probe_hello hello = hello_of(changed);
    struct journal journal = open_it(false);
    assert_int_equal(journal_begin(&journal, &hello, &err), MOSAIC_BAD_INPUT);
    if (!strstr(err.message, says))
        fail_msg("'%s' does not say '%s'", err.message, says);
    assert_non_null(strstr(err.hint, "--restart"));
    journal_close(&journal);
    protocol_hello_free(&hello);
}

static void test_another(void **state) {
    char text[4096];
    (void)state;
    (void)snprintf(text, sizeof text, "%s\n%s", hello_line, sample_line);
    write_file(text);
    refused_with("Toy", "Other", "the device is 'Other', not 'Toy'");
    refused_with("\"fake\"", "\"cuda\"", "the probe is 'cuda', not 'fake'");
    refused_with("\"1\"", "\"2\"", "version of the probe is '2', not '1'");
    refused_with("\"0.3\"", "\"0.4\"", "the version of blas is '0.4', not '0.3'");
    refused_with(",\"blas\":\"0.3\"", "", "the version of blas is '', not '0.3'");
    refused_with("\"blas\"", "\"lapack\"", "version of lapack");
}

static void not_read(const char *text, long line) {
    const struct journal_options options = {.restart = false};
    struct journal journal;
    struct status_error err = {0};
    write_file(text);
    assert_int_equal(journal_open(path, &options, &journal, &err), MOSAIC_BAD_INPUT);
    assert_int_equal(err.line, line);
    assert_non_null(strstr(err.hint, "--restart"));
}

static void test_damaged(void **state) {
    char text[4096];
    (void)state;
    not_read("rubbish\n", 1);
    not_read("{\"protocol\":\"mosaic-probe/2\"}\n", 1);
    (void)snprintf(text, sizeof text, "%s\n%snonsense\n%s", hello_line, sample_line, sample_line);
    not_read(text, 3);
    (void)snprintf(text, sizeof text, "%s\n{\"quantity\":\"stream\"}\n", hello_line);
    not_read(text, 2);
    const struct journal_options options = {.is_read_only = true};
    struct journal journal;
    struct status_error err = {0};
    assert_int_equal(journal_open("/nowhere/j", &options, &journal, &err), MOSAIC_IO);
}

/* Whose file it is not: neither read, nor begun anew, nor overwritten as half a line. */
static void keeps(const char *text) {
    char now[4096];
    struct journal journal;
    for (int restart = 0; restart < 2; ++restart) {
        struct status_error err = {0};
        const struct journal_options options = {.restart = restart};
        write_file(text);
        assert_int_equal(journal_open(path, &options, &journal, &err), MOSAIC_BAD_INPUT);
        read_file(now, sizeof now);
        assert_string_equal(now, text);
    }
}

static void test_somebodys(void **state) {
    struct journal_options options = {.restart = false};
    struct journal journal;
    struct status_error err = {0};
    char text[64];
    (void)state;
    keeps("a note, and no newline");
    keeps("a note\n");
    keeps("x");
    write_file("{\"a\": 1}");
    assert_int_equal(journal_open(path, &options, &journal, &err), MOSAIC_BAD_INPUT);
    read_file(text, sizeof text);
    assert_string_equal(text, "{\"a\": 1}");
    /* A damaged journal of one's own can be begun anew. */
    write_file("{\"protocol\":\"mosaic-probe/2\"}\nrubbish\n");
    journal = open_it(true);
    journal_close(&journal);
    read_file(text, sizeof text);
    assert_string_equal(text, "");
    for (size_t i = 0; i < 2; ++i) {
        options.restart = i > 0;
        assert_int_not_equal(journal_open("/tmp", &options, &journal, &err), MOSAIC_OK);
        assert_int_equal(journal_open("/dev/full", &options, &journal, &err), MOSAIC_BAD_INPUT);
        assert_non_null(strstr(err.message, "regular file"));
    }
}

/* Times that no clock and no patience has. */
static void test_absurd(void **state) {
    static const char *const times[] = {"1e-300", "1e300", "0", "-1e-6"};
    char text[4096];
    (void)state;
    for (size_t i = 0; i < sizeof times / sizeof *times; ++i) {
        (void)snprintf(text, sizeof text,
                       "%s\n{\"quantity\":\"stream\",\"op\":\"copy\",\"bytes\":4096,\"time_s\":"
                       "{\"median\":%s,\"least\":%s,\"most\":%s},\"rounds\":9,\"verified\":true}\n",
                       hello_line, times[i], times[i], times[i]);
        not_read(text, 2);
    }
}

/* Locks are between processes. */
static void test_locked(void **state) {
    (void)state;
    write_file("");
    struct journal journal = open_it(false);
    const pid_t child = fork();
    if (child == 0) {
        struct journal other;
        struct status_error err = {0};
        const struct journal_options options = {.restart = false};
        _exit(journal_open(path, &options, &other, &err) == MOSAIC_IO &&
                      strstr(err.message, "another process")
                  ? 0
                  : 1);
    }
    int how = 1;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    journal_close(&journal);
}

/* ---- the harness ---- */

struct script {
    size_t asked;
    size_t lose_at, stop_at; /* which question; 0: none */
    atomic_bool stop;
};

static enum mosaic_status answer(void *context, const struct job *job, double timeout_s,
                                 struct outcome *out, struct status_error *err) {
    struct script *const s = context;
    const long long bytes = sample_value(&job->keys, "bytes");
    assert_true(timeout_s >= 10.0);
    s->asked++;
    *out = (struct outcome){.kind = OUTCOME_SAMPLE, .sample = stream_of(bytes)};
    out->sample.value[0] = job->keys.value[0];
    if (s->asked == s->stop_at)
        atomic_store(&s->stop, true);
    if (s->asked == s->lose_at)
        *out = (struct outcome){.kind = OUTCOME_LOST, .text = "it hung"};
    else if (bytes > (1LL << 30))
        *out = (struct outcome){.kind = OUTCOME_REFUSED, .refusal = REFUSED_MEMORY};
    else if (bytes == (1LL << 20))
        *out = (struct outcome){.kind = OUTCOME_REFUSED, .refusal = REFUSED_FAILED};
    (void)err;
    return MOSAIC_OK;
}

static struct harness_run run_it(struct script *script, const struct probe_hello *hello,
                                 const struct job_list *jobs, double budget_s) {
    struct status_error err = {0};
    struct journal journal = open_it(false);
    assert_int_equal(journal_begin(&journal, hello, &err), MOSAIC_OK);
    const struct harness harness = {.jobs = jobs,
                                    .journal = &journal,
                                    .ask = answer,
                                    .context = script,
                                    .timeout_s = 10.0,
                                    .budget_s = budget_s,
                                    .stop = &script->stop};
    struct harness_run run;
    assert_int_equal(harness_run(&harness, &run, &err), MOSAIC_OK);
    journal_close(&journal);
    return run;
}

/* No room for the sixth line: what was measured is told, and the file has whole lines. */
static void test_no_room(void **state) {
    struct probe_hello hello = hello_of(hello_line);
    const struct job_scope scope = {.level = JOB_FULL, .hello = &hello, .ranks = 1};
    struct job_list jobs;
    struct status_error err;
    struct rlimit was, limit;
    enum { ROOM = 1000 };
    (void)state;
    write_file("");
    assert_int_equal(job_list_make(&scope, &jobs, &err), MOSAIC_OK);
    void (*const usual)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    limit = was;
    limit.rlim_cur = ROOM;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    struct script script = {.asked = 0};
    struct harness_run run = run_it(&script, &hello, &jobs, 1e9);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    (void)signal(SIGXFSZ, usual);
    assert_int_equal(run.status, MOSAIC_IO);
    assert_non_null(strstr(run.error.message, "cannot write to"));
    assert_true(run.count > 2 && script.asked < jobs.count);
    const size_t told = run.count;
    harness_run_free(&run);
    struct journal journal = open_it(false);
    assert_false(journal.was_cut);
    assert_true(journal.count > 2 && journal.count == told - 1);
    journal_close(&journal);
    job_list_free(&jobs);
    protocol_hello_free(&hello);
}

static void test_harness(void **state) {
    struct probe_hello hello = hello_of(hello_line);
    const struct job_scope scope = {.level = JOB_FULL, .hello = &hello, .ranks = 1};
    struct job_list jobs;
    struct status_error err;
    (void)state;
    write_file("");
    assert_int_equal(job_list_make(&scope, &jobs, &err), MOSAIC_OK);
    assert_true(jobs.count > 20);

    /* Interrupted after five. */
    struct script first = {.stop_at = 5, .lose_at = 3};
    struct harness_run run = run_it(&first, &hello, &jobs, 1e9);
    assert_true(run.was_stopped);
    assert_int_equal(first.asked, 5);
    const size_t refused = run.left[LEFT_REFUSED];
    assert_int_equal(run.measured + refused, 4);
    assert_int_equal(run.left[LEFT_LOST], 1);
    const size_t before = run.measured;
    harness_run_free(&run);

    /* Only the rest is asked; what was lost comes last; what failed is asked again. */
    struct script second = {.asked = 0};
    run = run_it(&second, &hello, &jobs, 1e9);
    assert_false(run.was_stopped);
    assert_int_equal(run.resumed, before);
    assert_int_equal(run.count + run.gap_count, jobs.count);
    assert_true(run.refused[REFUSED_MEMORY] > 0);
    assert_int_equal(run.refused[REFUSED_FAILED], 2);
    assert_int_equal(run.left[LEFT_LOST], 0);
    for (size_t i = 1; i < run.count; ++i)
        assert_true(sample_compare_keys(&run.samples[i - 1], &run.samples[i]) < 0);
    const size_t all = run.count;
    harness_run_free(&run);

    /* A third start has nothing to do but what failed. */
    struct script third = {.asked = 0};
    run = run_it(&third, &hello, &jobs, 1e9);
    assert_int_equal(third.asked, 2);
    assert_int_equal(run.count, all);
    assert_int_equal(run.measured, 0);
    harness_run_free(&run);

    /* And with no time nothing is begun. */
    write_file("");
    struct script fourth = {.asked = 0};
    run = run_it(&fourth, &hello, &jobs, 0.0);
    assert_int_equal(fourth.asked, 0);
    assert_int_equal(run.left[LEFT_BUDGET], jobs.count);
    harness_run_free(&run);
    job_list_free(&jobs);
    protocol_hello_free(&hello);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goes_on), cmocka_unit_test(test_cut),
        cmocka_unit_test(test_another), cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_locked),  cmocka_unit_test(test_somebodys),
        cmocka_unit_test(test_absurd),  cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_harness)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
