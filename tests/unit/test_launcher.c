// SPDX-License-Identifier: GPL-3.0-or-later
/* Who a process is, by the variables that launchers were seen to set: Slurm 22.05, Open MPI 4.1,
 * MPICH 4.0, torchrun. */
#include "close.h"

#include "measure/launcher.h"
#include "measure/pmi_name.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void assert_says(const struct status_error *err, const char *text) {
    if (!strstr(err->message, text) && !strstr(err->hint, text))
        fail_msg("'%s' (%s) does not say '%s'", err->message, err->hint, text);
}

static const char *get(void *context, const char *name) {
    const char *const *const pairs = context;
    for (size_t i = 0; pairs[i]; i += 2)
        if (strcmp(pairs[i], name) == 0)
            return pairs[i + 1];
    return NULL;
}

static struct launcher read_it(const char *const *pairs) {
    struct launcher l;
    struct status_error err = {0};
    if (launcher_read(get, (void *)pairs, &l, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    return l;
}

#define ENV(...)                                                                                   \
    (const char *const[]) {                                                                        \
        __VA_ARGS__, NULL                                                                          \
    }

static void test_alone(void **state) {
    struct launcher l;
    (void)state;
    l = read_it(ENV("HOME", "/"));
    assert_true(l.ranks == 1 && l.rank == 0 && l.name[0] == '\0' && l.note[0] == '\0');
    /* A shell within an allocation has tasks and no rank. */
    l = read_it(ENV("SLURM_NTASKS", "8"));
    assert_int_equal(l.ranks, 1);
    assert_non_null(strstr(l.note, "8 tasks"));
    /* So has a batch script, which is no step; and an interactive step, which is one task. */
    l = read_it(ENV("SLURM_PROCID", "0", "SLURM_NTASKS", "8", "SLURM_LOCALID", "0"));
    assert_int_equal(l.ranks, 1);
    assert_non_null(strstr(l.note, "srun"));
    l = read_it(ENV("SLURM_PROCID", "0", "SLURM_NTASKS", "8", "SLURM_STEP_NUM_TASKS", "1"));
    assert_int_equal(l.ranks, 1);
    assert_non_null(strstr(l.note, "srun"));
    l = read_it(ENV("SLURM_PROCID", "0", "SLURM_NTASKS", "1", "SLURM_STEP_NUM_TASKS", "1"));
    assert_true(l.ranks == 1 && l.note[0] == '\0');
}

#define STEP                                                                                       \
    "SLURM_NTASKS", "16", "SLURM_STEP_NUM_TASKS", "16", "SLURM_STEP_NUM_NODES", "2",               \
        "SLURM_JOB_ID", "4711", "SLURM_STEP_NODELIST", "gpu[07-08,11]-ib"

static void test_srun(void **state) {
    struct launcher l;
    (void)state;
    l = read_it(ENV(STEP, "SLURM_PROCID", "9", "SLURM_LOCALID", "1", "SLURM_STEP_ID", "3",
                    "SLURM_NODEID", "1", "SLURMD_NODENAME", "gpu08"));
    assert_string_equal(l.name, "srun");
    assert_true(l.rank == 9 && l.ranks == 16 && l.local_rank == 1 && l.ports > 1);
    assert_string_equal(l.address, "gpu07-ib");
    assert_string_equal(l.host, "gpu08");
    assert_string_equal(l.secret, "job 4711.3");
    assert_false(l.has_secret);
    const int job_port = l.port;
    /* Another step of the job; beside rank 0 its name need not be known. */
    l = read_it(ENV(STEP, "SLURM_PROCID", "1", "SLURM_STEP_ID", "4", "SLURM_NODEID", "0"));
    assert_string_equal(l.address, "127.0.0.1");
    assert_int_not_equal(l.port, job_port);
    /* But rank 0 tells the name that the others look for. */
    l = read_it(ENV(STEP, "SLURM_PROCID", "0", "SLURM_STEP_ID", "4", "SLURM_NODEID", "0"));
    assert_string_equal(l.address, "gpu07-ib");
    l = read_it(ENV("SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "2", "SLURM_LAUNCH_NODE_IPADDR",
                    "10.0.0.9", "SLURM_JOB_ID", "4712"));
    assert_string_equal(l.address, "10.0.0.9");
    /* srun --mpi=pmi2 */
    l = read_it(ENV(STEP, "SLURM_PROCID", "9", "SLURM_STEP_ID", "3", "PMI_RANK", "9", "PMI_SIZE",
                    "16", "PMI_JOBID", "4711.3", "PMI_FD", "11"));
    assert_string_equal(l.name, "srun");
    assert_string_equal(l.address, "gpu07-ib");
}

static void test_torchrun(void **state) {
    struct launcher l;
    (void)state;
    l = read_it(ENV("RANK", "3", "WORLD_SIZE", "4", "LOCAL_RANK", "1", "LOCAL_WORLD_SIZE", "2",
                    "MASTER_ADDR", "head", "MASTER_PORT", "29500", "SLURM_PROCID", "0",
                    "SLURM_STEP_NUM_TASKS", "2"));
    assert_string_equal(l.name, "torchrun");
    assert_true(l.rank == 3 && l.ranks == 4 && l.local_rank == 1 && l.port == 29501);
    assert_string_equal(l.address, "head");
    /* All on one host: the name of it may be unknown even there. */
    l = read_it(ENV("RANK", "3", "WORLD_SIZE", "4", "LOCAL_RANK", "3", "LOCAL_WORLD_SIZE", "4",
                    "MASTER_ADDR", "head", "MASTER_PORT", "65534"));
    assert_string_equal(l.address, "127.0.0.1");
    assert_true(l.port == 65535 && l.ports == 1);
    /* RANK and WORLD_SIZE of a script's own do not hide who started it. */
    l = read_it(
        ENV("RANK", "0", "WORLD_SIZE", "16", STEP, "SLURM_PROCID", "9", "SLURM_STEP_ID", "0"));
    assert_string_equal(l.name, "srun");
    assert_int_equal(l.rank, 9);
    l = read_it(ENV("RANK", "1", "WORLD_SIZE", "2", "MASTER_ADDR", "pod-0"));
    assert_string_equal(l.name, "torchrun");
}

static void test_mpirun(void **state) {
    struct launcher l;
    (void)state;
    l = read_it(ENV("OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "2",
                    "OMPI_COMM_WORLD_LOCAL_RANK", "1", "OMPI_COMM_WORLD_LOCAL_SIZE", "2",
                    "PMIX_NAMESPACE", "633339905"));
    assert_string_equal(l.address, "127.0.0.1");
    assert_string_equal(l.secret, "job 633339905");
    l = read_it(
        ENV("PMI_RANK", "1", "PMI_SIZE", "2", "MPI_LOCALRANKID", "1", "MPI_LOCALNRANKS", "2"));
    assert_string_equal(l.address, "127.0.0.1");
    /* Within an allocation: orted is a step of one task a node. */
    l = read_it(ENV("OMPI_COMM_WORLD_RANK", "9", "OMPI_COMM_WORLD_SIZE", "16",
                    "OMPI_COMM_WORLD_LOCAL_RANK", "1", "OMPI_COMM_WORLD_LOCAL_SIZE", "8",
                    "SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "1", "SLURM_STEP_NODELIST", "n2",
                    "SLURM_JOB_NODELIST", "n[1-2]"));
    assert_string_equal(l.name, "mpirun");
    assert_string_equal(l.address, "n1");
    l = read_it(ENV("PMI_RANK", "1", "PMI_SIZE", "2", "MOSAIC_ADDRESS", "n1", "MOSAIC_PORT", "99",
                    "MOSAIC_SECRET", "s"));
    assert_string_equal(l.address, "n1");
    assert_true(l.port == 99 && l.ports == 1 && l.has_secret);
    /* By hand before all. */
    l = read_it(ENV("MOSAIC_RANK", "1", "MOSAIC_RANKS", "2", "MOSAIC_ADDRESS", "h", "RANK", "5",
                    "WORLD_SIZE", "6"));
    assert_true(l.rank == 1 && l.ranks == 2);
}

/* MPICH's name of a job is who holds the other end of PMI_FD. */
static void test_pmi_name(void **state) {
    char first[64] = "", second[64] = "";
    int ends[2];
    (void)state;
    assert_false(pmi_name(-1, first, sizeof first));
    assert_int_equal(pipe(ends), 0);
    assert_false(pmi_name(ends[0], first, sizeof first));
    assert_int_equal(close(ends[0]) | close(ends[1]), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    if (pmi_name(ends[0], first, sizeof first)) {
        assert_true(pmi_name(ends[1], second, sizeof second));
        assert_string_equal(first, second);
    }
    assert_int_equal(close(ends[0]) | close(ends[1]), 0);
}

static void bad_launcher(const char *const *pairs, const char *says) {
    struct launcher l;
    struct status_error err = {0};
    assert_int_equal(launcher_read(get, (void *)pairs, &l, &err), MOSAIC_USAGE);
    assert_says(&err, says);
}

static void test_bad_launchers(void **state) {
    (void)state;
    bad_launcher(ENV("OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "2",
                     "OMPI_COMM_WORLD_LOCAL_SIZE", "1"),
                 "MOSAIC_ADDRESS");
    /* Rank 0 too: it would wait for those who do not find it. */
    bad_launcher(ENV("PMI_RANK", "0", "PMI_SIZE", "4", "MPI_LOCALNRANKS", "2"), "MOSAIC_ADDRESS");
    bad_launcher(ENV("RANK", "4", "WORLD_SIZE", "4"), "rank 4 of 4");
    bad_launcher(ENV("RANK", "x", "WORLD_SIZE", "4"), "RANK is 'x'");
    bad_launcher(ENV("RANK", "0", "WORLD_SIZE", "99999999999999999999"), "WORLD_SIZE is '9999");
    bad_launcher(ENV("RANK", "-1", "WORLD_SIZE", "2"), "RANK is '-1'");
    bad_launcher(ENV("MOSAIC_RANK", "1"), "MOSAIC_RANK is set, MOSAIC_RANKS is not");
    bad_launcher(ENV("MOSAIC_RANKS", "2"), "MOSAIC_RANKS is set, MOSAIC_RANK is not");
    bad_launcher(ENV("MOSAIC_RANK", "1", "MOSAIC_RANKS", "2"), "MOSAIC_ADDRESS");
    bad_launcher(ENV("PMI_RANK", "0", "PMI_SIZE", "2", "MPI_LOCALNRANKS", "2", "MOSAIC_PORT", "0"),
                 "MOSAIC_PORT is '0'");
}

static void test_first_host(void **state) {
    static const char *const hosts[][2] = {{"n1,n2", "n1"}, {"n[5,7]", "n5"},
                                           {"", ""},        {"r[1-2]n[03-9]", "r1n03"},
                                           {"n[1-2", "n1"}, {"a[01-02]-ib,b", "a01-ib"},
                                           {"[7-9]", "7"},  {"n[", "n"},
                                           {",x", ""}};
    char first[LAUNCHER_TEXT_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; ++i) {
        launcher_first_host(hosts[i][0], first);
        assert_string_equal(first, hosts[i][1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),      cmocka_unit_test(test_srun),
        cmocka_unit_test(test_torchrun),   cmocka_unit_test(test_mpirun),
        cmocka_unit_test(test_pmi_name),   cmocka_unit_test(test_bad_launchers),
        cmocka_unit_test(test_first_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
