// SPDX-License-Identifier: GPL-3.0-or-later
/* Probes that are missing, crash, hang or talk rubbish: scripts of sh that do just that. */
#include "close.h"

#include "measure/clock.h"
#include "measure/probe_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define HELLO                                                                                      \
    "{\"protocol\":\"mosaic-probe/1\",\"probe\":\"fake\",\"version\":\"1\",\"device\":{\"name\":"  \
    "\"Toy\",\"count\":2,\"peak_flop_per_s\":{\"fp32\":1e11}},\"software\":{\"toy\":\"3\"},"       \
    "\"quantities\":[\"stream\",\"not_yet_known\"],\"later\":[1]}"
#define SAMPLE                                                                                     \
    "\"quantity\":\"stream\",\"op\":\"copy\",\"bytes\":4096,\"time_s\":{\"median\":2e-6,"          \
    "\"least\":1e-6,\"most\":3e-6},\"rounds\":9,\"verified\":true"
#define GREET "echo '" HELLO "'\n"
#define READ "read -r line\n"

static char folder[] = "/tmp/mosaic-probe-test-XXXXXX";
static char script[sizeof folder + 32];

static const struct sample asked = {.quantity = SAMPLE_STREAM, .value = {0, 4096}};

static int set_up(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    (void)unlink(script);
    return rmdir(folder);
}

static void write_script(const char *body) {
    (void)snprintf(script, sizeof script, "%s/mosaic-probe-fake", folder);
    FILE *const file = fopen(script, "w");
    assert_non_null(file);
    assert_true(fprintf(file, "#!/bin/sh\n%s", body) > 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(script, 0755), 0);
}

static enum mosaic_status start(const char *body, double timeout_s, struct probe_process **probe,
                                struct status_error *err) {
    write_script(body);
    const struct probe_launch launch = {.path = script, .hello_timeout_s = timeout_s};
    return probe_open(&launch, probe, err);
}

/* No child is left, neither alive nor as a zombie. */
static void assert_collected(void) {
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void assert_says(const struct status_error *err, const char *text) {
    if (!strstr(err->message, text) && !strstr(err->hint, text))
        fail_msg("'%s' (%s) does not say '%s'", err->message, err->hint, text);
}

/* The probe does not get past its hello. */
static void fails_to_start(const char *body, const char *text) {
    struct probe_process *probe = NULL;
    struct status_error err = {0};
    assert_int_equal(start(body, 0.4, &probe, &err), MOSAIC_DEVICE);
    assert_null(probe);
    assert_says(&err, text);
    assert_collected();
}

/* It does, and fails at the first request, within a second or so. */
static void fails_to_answer(const char *body, const char *text) {
    struct probe_process *probe = NULL;
    struct probe_answer answer;
    struct status_error err = {0};
    char all[4096];
    (void)snprintf(all, sizeof all, GREET "%s", body);
    assert_int_equal(start(all, 5.0, &probe, &err), MOSAIC_OK);
    const double begun_s = clock_now_s();
    assert_int_equal(probe_ask(probe, &asked, 9, 0.4, &answer, &err), MOSAIC_DEVICE);
    assert_true(clock_now_s() - begun_s < 4.0);
    assert_says(&err, text);
    assert_false(probe_is_alive(probe));
    assert_collected();
    /* And stays so. */
    assert_int_equal(probe_ask(probe, &asked, 9, 0.4, &answer, &err), MOSAIC_DEVICE);
    probe_close(probe);
}

static void test_answers(void **state) {
    struct probe_process *probe = NULL;
    struct probe_answer answer;
    struct status_error err = {0};
    (void)state;
    assert_int_equal(start(GREET READ
                           "echo '{\"id\":1," SAMPLE ",\"clock_hz\":1e9}'\n" READ
                           "echo '{\"id\":2,\"refused\":\"memory\",\"text\":\"7 GB\"}'\n" READ
                           "echo '{\"id\":3,\"group\":\"ab12\"}'\n" READ
                           "echo '{\"id\":4,\"joined\":true}'\n" READ "exit 0\n",
                           5.0, &probe, &err),
                     MOSAIC_OK);
    const struct probe_hello *const hello = probe_hello(probe);
    assert_string_equal(hello->probe, "fake");
    assert_string_equal(hello->device, "Toy");
    assert_int_equal(hello->devices, 2);
    assert_true(hello->can[SAMPLE_STREAM] && !hello->can[SAMPLE_GEMM]);
    assert_close(protocol_peak(hello, "fp32"), 1e11, 1e-12);
    assert_close_abs(protocol_peak(hello, "bf16"), 0.0, 0.0);
    assert_int_equal(probe_ask(probe, &asked, 9, 5.0, &answer, &err), MOSAIC_OK);
    assert_int_equal(answer.kind, ANSWER_SAMPLE);
    assert_close(answer.sample.median_s, 2e-6, 1e-12);
    assert_non_null(strstr(probe_line(probe), "clock_hz"));
    assert_int_equal(probe_ask(probe, &asked, 9, 5.0, &answer, &err), MOSAIC_OK);
    assert_int_equal(answer.kind, ANSWER_REFUSED);
    assert_int_equal(answer.refusal, REFUSED_MEMORY);
    assert_string_equal(answer.text, "7 GB");
    assert_int_equal(probe_group(probe, NULL, 5.0, &answer, &err), MOSAIC_OK);
    assert_string_equal(answer.group, "ab12");
    const struct probe_group group = {.id = "ab12", .ranks = 2, .ranks_per_domain = 2};
    assert_int_equal(probe_group(probe, &group, 5.0, &answer, &err), MOSAIC_OK);
    assert_true(probe_is_alive(probe));
    probe_close(probe);
    assert_collected();
}

static void test_requests(void **state) {
    char text[512];
    (void)state;
    (void)protocol_ask(7, 5, &asked, text, sizeof text);
    assert_string_equal(
        text,
        "{\"id\": 7, \"rounds\": 5, \"quantity\": \"stream\", \"op\": \"copy\", \"bytes\": 4096}");
    const int whole = protocol_ask(7, 5, &asked, text, 20);
    assert_int_equal(whole, (int)strlen("{\"id\": 7, \"rounds\": 5, \"quantity\": \"stream\", "
                                        "\"op\": \"copy\", \"bytes\": 4096}"));
}

static void test_no_start(void **state) {
    struct probe_process *probe = NULL;
    struct status_error err = {0};
    struct probe_launch launch = {.path = "/nowhere/probe", .hello_timeout_s = 1.0};
    (void)state;
    assert_int_equal(probe_open(&launch, &probe, &err), MOSAIC_DEVICE);
    assert_says(&err, "cannot be started");
    write_script("exit 0\n");
    assert_int_equal(chmod(script, 0644), 0);
    launch.path = script;
    /* root may not execute it either */
    assert_int_equal(probe_open(&launch, &probe, &err), MOSAIC_DEVICE);
    FILE *const file = fopen(script, "w");
    assert_non_null(file);
    assert_true(fputs("\177ELF for another machine", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(script, 0755), 0);
    assert_int_equal(probe_open(&launch, &probe, &err), MOSAIC_DEVICE);
    assert_null(probe);
    assert_collected();
}

static void test_find(void **state) {
    struct status_error err = {0};
    char path[PROBE_PATH_MAX] = "";
    (void)state;
    write_script("exit 0\n");
    assert_int_equal(probe_find("fake", folder, path, &err), MOSAIC_OK);
    assert_string_equal(path, script);
    assert_int_equal(probe_find(script, NULL, path, &err), MOSAIC_OK);
    assert_int_equal(probe_find("fakes", folder, path, &err), MOSAIC_DEVICE);
    assert_says(&err, "no probe 'fakes'");
    assert_says(&err, "beside the program: fake");
    assert_int_equal(probe_find("cuda", folder, path, &err), MOSAIC_DEVICE);
    assert_says(&err, "nvcc");
    assert_int_equal(probe_find("/nowhere/x", NULL, path, &err), MOSAIC_DEVICE);
    assert_int_equal(probe_find(folder, NULL, path, &err), MOSAIC_DEVICE);
    assert_says(&err, "is a directory");
    assert_int_equal(chmod(script, 0644), 0);
    assert_int_equal(probe_find(script, NULL, path, &err), MOSAIC_DEVICE);
    assert_says(&err, "cannot be executed");
}

static void test_bad_hellos(void **state) {
    (void)state;
    fails_to_start("exit 6\n", "ended before its hello with status 6");
    fails_to_start("echo 'no driver: CUDA 12 wants 525' >&2\nexit 6\n", "no driver: CUDA 12 wants");
    fails_to_start("sleep 60\n", "was silent for 0.4 s before its hello");
    fails_to_start("echo hello\nsleep 60\n", "'hello' is no object of JSON");
    fails_to_start("echo '{\"protocol\":\"mosaic-probe/2\"}'\n", "it speaks 'mosaic-probe/2'");
    fails_to_start("echo '{\"probe\":\"x\"}'\n", "'protocol' is missing");
    fails_to_start("echo '{\"protocol\":\"mosaic-probe/1\",\"probe\":\"x\",\"device\":{}}'\n",
                   "'device.name' is missing");
    fails_to_start("echo '{\"protocol\":\"mosaic-probe/1\",\"probe\":\"x\",\"device\":{\"name\":"
                   "\"d\"},\"quantities\":[\"love\"]}'\n",
                   "names nothing known");
    fails_to_start("kill -SEGV $$\n", "signal 11 (SIGSEGV");
    /* A child that holds the streams open goes with its parent. */
    fails_to_start("sleep 60 & wait\n", "was silent");
}

static void test_bad_answers(void **state) {
    (void)state;
    fails_to_answer(READ "echo oops >&2; kill -ABRT $$\n",
                    "crashed measuring stream copy bytes=4096: signal 6 (SIGABRT");
    fails_to_answer(READ "echo oops >&2; exit 3\n", "it said: oops");
    fails_to_answer("exit 0\n", "ended measuring stream copy bytes=4096 with status 0");
    fails_to_answer(READ "sleep 60\n",
                    "was silent for 0.4 s measuring stream copy bytes=4096 and was killed");
    fails_to_answer("sleep 60\n", "was silent");
    fails_to_answer(READ "echo '{\"id\":2," SAMPLE "}'; sleep 60\n", "request 2, not to request 1");
    fails_to_answer(READ "echo '{" SAMPLE "}'; sleep 60\n", "without the id");
    fails_to_answer(READ "echo '{\"id\":1,\"quantity\":\"stream\"}'\n", "answered wrongly");
    fails_to_answer(READ "echo '{\"id\":1,\"refused\":\"mood\"}'\n", "'mood' is no reason");
    fails_to_answer(READ "echo '{\"id\":1," SAMPLE "}' | sed s/4096/4097/\n",
                    "something else than was asked");
    fails_to_answer(READ "echo '{\"id\":1," SAMPLE "}' | sed s/2e-6/-1/\n", "time_s.median");
    fails_to_answer(READ "echo NaN\n", "'NaN' is no object of JSON");
    fails_to_answer(READ "yes no | tr -d '\\n'\n", "a line of more than 65536 bytes");
    fails_to_answer(READ "exec >&-; sleep 60\n", "closed its output measuring stream copy");
    fails_to_answer(READ "echo '{\"id\":1," SAMPLE "}' | sed s/2e-6/NaN/\n", "NaN");
    fails_to_answer(READ "echo '{\"id\":1," SAMPLE "}' | sed s/3e-6/1e999/\n", "overflow");
    fails_to_answer(READ "echo '{\"id\":1," SAMPLE "}' | sed s/1e-6/1e-300/\n", "nothing takes");
    fails_to_answer(READ "echo '{\"id\":1," SAMPLE "}' | sed s/1e-6/4e-6/\n", "out of order");
    fails_to_answer(READ "echo '{\"id\":1," SAMPLE "}' | sed s/:9,/:99999999999999999999,/\n",
                    "too big integer");
    fails_to_answer(READ "echo '{\"id\":1," SAMPLE ",\"id\":1}'\n", "duplicate");
    fails_to_answer(READ "while :; do printf x; sleep 0.05; done\n", "did not end its line");
    /* One that left its output to a process that it cannot be killed with. */
    const double begun_s = clock_now_s();
    fails_to_answer(READ "command -v setsid >&2 && setsid sleep 3 &\nsleep 0.1; exit 3\n",
                    "with status 3");
    assert_true(clock_now_s() - begun_s < 2.5);
    /* It writes ahead and leaves: the answer counts for nothing. */
    fails_to_answer("yes x >&2\n", "was silent");
}

/* Its last words are kept, the last 4 KiB of them. */
static void test_stderr(void **state) {
    struct probe_process *probe = NULL;
    struct probe_answer answer;
    struct status_error err = {0};
    (void)state;
    assert_int_equal(start(GREET "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done "
                                 ">&2\n" READ "echo the end >&2; exit 6\n",
                           5.0, &probe, &err),
                     MOSAIC_OK);
    assert_int_equal(probe_ask(probe, &asked, 9, 5.0, &answer, &err), MOSAIC_DEVICE);
    assert_int_equal(strlen(probe_stderr(probe)), PROBE_STDERR_MAX);
    assert_non_null(strstr(probe_stderr(probe), "line 1999\nthe end\n"));
    probe_close(probe);
    char words[PROBE_STDERR_MAX + 1] = "";
    write_script("echo no device >&2; exit 6\n");
    const struct probe_launch launch = {.path = script, .hello_timeout_s = 5.0, .words = words};
    assert_int_equal(probe_open(&launch, &probe, &err), MOSAIC_DEVICE);
    assert_string_equal(words, "no device\n");
}

static void test_stop(void **state) {
    struct probe_process *probe = NULL;
    struct probe_answer answer;
    struct status_error err = {0};
    atomic_bool stop = false;
    (void)state;
    write_script(GREET READ "sleep 60\n");
    const struct probe_launch launch = {.path = script, .hello_timeout_s = 5.0, .stop = &stop};
    assert_int_equal(probe_open(&launch, &probe, &err), MOSAIC_OK);
    atomic_store(&stop, true);
    const double begun_s = clock_now_s();
    assert_int_equal(probe_ask(probe, &asked, 9, 30.0, &answer, &err), MOSAIC_INTERRUPTED);
    assert_true(clock_now_s() - begun_s < 2.0);
    probe_close(probe);
    assert_collected();
}

/* Who had its standard streams closed has a probe that works all the same. */
static void test_closed_streams(void **state) {
    (void)state;
    write_script(GREET READ "echo '{\"id\":1," SAMPLE "}'\n" READ);
    const pid_t child = fork();
    if (child == 0) {
        const struct probe_launch launch = {.path = script, .hello_timeout_s = 5.0};
        struct probe_process *probe = NULL;
        struct probe_answer answer;
        struct status_error err = {0};
        for (int i = 0; i < 3; ++i)
            (void)close(i);
        if (probe_open(&launch, &probe, &err) != MOSAIC_OK)
            _exit(2);
        if (probe_ask(probe, &asked, 9, 5.0, &answer, &err) != MOSAIC_OK)
            _exit(3);
        probe_close(probe);
        /* None of ours has a standard number. */
        _exit(fcntl(STDERR_FILENO, F_GETFD) < 0 ? 0 : 4);
    }
    int how = 1;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

/* SIGKILL of who started it ends a probe that hangs: the pipe that it inherited closes. */
static void test_orphan(void **state) {
    int ends[2], begun[2];
    char byte;
    (void)state;
#ifndef __linux__
    skip();
#endif
    assert_int_equal(pipe(ends) | pipe(begun), 0);
    write_script(GREET "exec sleep 60\n");
    const pid_t child = fork();
    if (child == 0) {
        const struct probe_launch launch = {.path = script, .hello_timeout_s = 5.0};
        struct probe_process *probe = NULL;
        struct status_error err = {0};
        const bool is_open = probe_open(&launch, &probe, &err) == MOSAIC_OK;
        if (!is_open || write(begun[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            (void)pause();
    }
    assert_int_equal(read(begun[0], &byte, 1), 1);
    (void)close(ends[1]);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    struct pollfd polled = {.fd = ends[0], .events = POLLIN};
    assert_int_equal(poll(&polled, 1, 2000), 1);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    assert_int_equal(close(ends[0]) | close(begun[0]) | close(begun[1]), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),       cmocka_unit_test(test_answers),
        cmocka_unit_test(test_no_start),       cmocka_unit_test(test_find),
        cmocka_unit_test(test_bad_hellos),     cmocka_unit_test(test_bad_answers),
        cmocka_unit_test(test_stderr),         cmocka_unit_test(test_stop),
        cmocka_unit_test(test_closed_streams), cmocka_unit_test(test_orphan),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
