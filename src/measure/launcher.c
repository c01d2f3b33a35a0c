// SPDX-License-Identifier: GPL-3.0-or-later
/* Variables of the launchers. */
#include "measure/launcher.h"

#include "measure/pmi_name.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ports below those that systems give to clients; so many are tried, as jobs share hosts. */
enum { PORT_BASE = 29400, PORT_SPAN = 2000, PORT_MAX = 65535, PORTS_TRIED = 16, DECIMAL = 10 };

struct reader {
    launcher_get *get;
    void *context;
    struct status_error *err;
};

static const char *value_of(const struct reader *r, const char *name) {
    const char *const text = name ? r->get(r->context, name) : NULL;
    return text && *text ? text : NULL;
}

static bool has(const struct reader *r, const char *name) {
    return value_of(r, name) != NULL;
}

static bool is_equal(const struct reader *r, const char *a, const char *b) {
    const char *const x = value_of(r, a), *const y = value_of(r, b);
    return x && y && strcmp(x, y) == 0;
}

/* A whole number from least to most; `out` stays as it is where the variable is not set. */
static enum mosaic_status number(const struct reader *r, const char *name, int least, int most,
                                 int *out) {
    const char *const text = value_of(r, name);
    char *end = NULL, shown[STATUS_QUOTE_MAX];
    if (!text)
        return MOSAIC_OK;
    errno = 0;
    const long value = strtol(text, &end, DECIMAL);
    if (errno != 0 || end == text || *end != '\0' || value < least || value > most)
        return status_set(r->err, MOSAIC_USAGE, "%s is '%s', no whole number from %d to %d", name,
                          status_quote(text, shown, sizeof shown), least, most);
    *out = (int)value;
    return MOSAIC_OK;
}

/* ---- launchers ---- */

enum family { BY_HAND, TORCHRUN, OPEN_MPI, MPICH, SRUN };

struct kind {
    enum family family;
    const char *name, *rank, *ranks, *local_rank, *local_ranks;
    const char *needs; /* a variable that its own ranks always have, or NULL */
};

/* RANK and WORLD_SIZE are names that scripts set too: alone they come last. */
static const struct kind kinds[] = {
    {BY_HAND, "MOSAIC_RANK", "MOSAIC_RANK", "MOSAIC_RANKS", "MOSAIC_LOCAL_RANK", NULL, NULL},
    {TORCHRUN, "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK"},
    {OPEN_MPI, "mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL},
    {MPICH, "mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL},
    {SRUN, "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL, NULL},
    {TORCHRUN, "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", NULL},
};

static bool is_of(const struct reader *r, const struct kind *kind) {
    if (!has(r, kind->rank) || !has(r, kind->ranks) || (kind->needs && !has(r, kind->needs)))
        return false;
    /* What srun --mpi=pmi2 sets besides its own. */
    return kind->family != MPICH || !is_equal(r, "PMI_RANK", "SLURM_PROCID") ||
           !is_equal(r, "PMI_SIZE", "SLURM_STEP_NUM_TASKS");
}

static const struct kind *kind_of(const struct reader *r) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
        if (is_of(r, &kinds[i]))
            return &kinds[i];
    return NULL;
}

/* ---- where rank 0 is ---- */

/* Of each bracket the first number. */
void launcher_first_host(const char *list, char out[LAUNCHER_TEXT_MAX]) {
    size_t used = 0;
    for (; *list && *list != ',' && used + 1 < LAUNCHER_TEXT_MAX; ++list) {
        if (*list != '[') {
            out[used++] = *list;
            continue;
        }
        const size_t first = strcspn(list + 1, "-,]"), inside = strcspn(list, "]");
        for (size_t i = 0; i < first && used + 1 < LAUNCHER_TEXT_MAX; ++i)
            out[used++] = list[1 + i];
        list += list[inside] ? inside : inside - 1;
    }
    out[used] = '\0';
}

/* Whether all ranks are on this host: no name has to be resolved. */
static bool is_local(const struct reader *r, const struct kind *kind, const struct launcher *l) {
    int local = 0, nodes = 0;
    struct status_error unused;
    const struct reader quiet = {r->get, r->context, &unused};
    if (kind->family == SRUN)
        return number(&quiet, "SLURM_STEP_NUM_NODES", 1, LAUNCHER_RANKS_MAX, &nodes) == MOSAIC_OK &&
               nodes == 1;
    return number(&quiet, kind->local_ranks, 1, LAUNCHER_RANKS_MAX, &local) == MOSAIC_OK &&
           local == l->ranks;
}

/* Another rank on rank 0's host, which srun counts first. */
static bool is_beside(const struct reader *r, const struct kind *kind, const struct launcher *l) {
    int node = -1;
    struct status_error unused;
    const struct reader quiet = {r->get, r->context, &unused};
    return kind->family == SRUN && l->rank > 0 &&
           number(&quiet, "SLURM_NODEID", 0, LAUNCHER_RANKS_MAX, &node) == MOSAIC_OK && node == 0;
}

/* mpirun tells no address; within an allocation its first rank is on the first host. */
static const char *hosts_of(const struct reader *r, const struct kind *kind) {
    const char *const step = value_of(r, "SLURM_STEP_NODELIST");
    if (kind->family == SRUN && step)
        return step;
    return kind->family == OPEN_MPI || kind->family == MPICH ? value_of(r, "SLURM_JOB_NODELIST")
                                                             : NULL;
}

static enum mosaic_status find_address(const struct reader *r, const struct kind *kind,
                                       struct launcher *l) {
    const char *const given = value_of(r, "MOSAIC_ADDRESS");
    const char *const master = kind->family == TORCHRUN ? value_of(r, "MASTER_ADDR") : NULL;
    const char *const hosts = hosts_of(r, kind);
    const char *const origin =
        kind->family == SRUN ? value_of(r, "SLURM_LAUNCH_NODE_IPADDR") : NULL;
    if (given)
        (void)snprintf(l->address, sizeof l->address, "%s", given);
    else if (is_local(r, kind, l) || is_beside(r, kind, l))
        (void)snprintf(l->address, sizeof l->address, "127.0.0.1");
    else if (hosts)
        launcher_first_host(hosts, l->address);
    else if (master || origin)
        (void)snprintf(l->address, sizeof l->address, "%s", master ? master : origin);
    /* By hand the others alone may have been told it. */
    if (l->address[0] || (l->rank == 0 && kind->family == BY_HAND))
        return MOSAIC_OK;
    (void)status_set(r->err, MOSAIC_USAGE, "%s does not tell where rank 0 is", kind->name);
    status_hint(r->err, "set MOSAIC_ADDRESS to the host of rank 0 for all of them: mpirun -x "
                        "MOSAIC_ADDRESS=...");
    return MOSAIC_USAGE;
}

/* ---- which job ---- */

/* Of MPICH the other variables say nothing. */
static bool name_mpich(const struct reader *r, const struct kind *kind, const struct launcher *l,
                       char *out, size_t size) {
    struct status_error unused;
    const struct reader quiet = {r->get, r->context, &unused};
    int descriptor = -1;
    return is_local(r, kind, l) &&
           number(&quiet, "PMI_FD", 0, INT16_MAX, &descriptor) == MOSAIC_OK && descriptor >= 0 &&
           pmi_name(descriptor, out, size);
}

/* What all ranks of the job share with no other one, as far as the launcher tells. */
static void name_job(const struct reader *r, const struct kind *kind, const struct launcher *l,
                     char out[LAUNCHER_TEXT_MAX]) {
    static const char *const names[][3] = {
        [BY_HAND] = {NULL, NULL, NULL},
        [TORCHRUN] = {"TORCHELASTIC_RUN_ID", "MASTER_PORT", NULL},
        [OPEN_MPI] = {"PMIX_NAMESPACE", NULL, "OMPI_MCA_ess_base_jobid"},
        [MPICH] = {"PMI_JOBID", NULL, "SLURM_JOB_ID"},
        [SRUN] = {"SLURM_JOB_ID", "SLURM_STEP_ID", NULL}};
    const char *const *const own = names[kind->family];
    const char *first = value_of(r, own[0]);
    const char *const second = value_of(r, own[1]);
    char found[LAUNCHER_TEXT_MAX / 2];
    if (!first && kind->family == MPICH && name_mpich(r, kind, l, found, sizeof found))
        first = found;
    if (!first)
        first = value_of(r, own[2]);
    if (!first && !second)
        first = "without a name";
    (void)snprintf(out, LAUNCHER_TEXT_MAX, "job %.120s%s%.120s", first ? first : "",
                   second ? "." : "", second ? second : "");
}

/* A port that jobs side by side on one host do not share by chance. */
static int port_of(const char *job) {
    unsigned sum = 0;
    enum { FACTOR = 31 };
    for (; *job; ++job)
        sum = sum * FACTOR + (unsigned char)*job;
    return PORT_BASE + (int)(sum % PORT_SPAN);
}

static enum mosaic_status find_meeting(const struct reader *r, const struct kind *kind,
                                       struct launcher *l) {
    const char *const secret = value_of(r, "MOSAIC_SECRET");
    int master = 0;
    char job[LAUNCHER_TEXT_MAX];
    name_job(r, kind, l, job);
    l->has_secret = secret != NULL;
    if (secret && strlen(secret) >= LAUNCHER_TEXT_MAX)
        return status_set(r->err, MOSAIC_USAGE, "MOSAIC_SECRET has more than %d characters",
                          LAUNCHER_TEXT_MAX - 1);
    /* A secret of a person's own may serve many jobs. */
    (void)snprintf(l->secret, sizeof l->secret, "%s%s%s", secret ? secret : "", secret ? " " : "",
                   job);
    l->port = port_of(l->secret);
    /* torchrun's own store listens at MASTER_PORT. */
    if (kind->family == TORCHRUN) {
        TRY(number(r, "MASTER_PORT", 1, PORT_MAX - 1, &master));
        l->port = master > 0 ? master + 1 : l->port;
    }
    l->ports = PORT_MAX - l->port < PORTS_TRIED ? PORT_MAX - l->port + 1 : PORTS_TRIED;
    if (has(r, "MOSAIC_PORT")) {
        TRY(number(r, "MOSAIC_PORT", 1, PORT_MAX, &l->port));
        l->ports = 1;
    }
    return find_address(r, kind, l);
}

/* ---- all of it ---- */

static enum mosaic_status check_by_hand(const struct reader *r) {
    const bool has_rank = has(r, "MOSAIC_RANK");
    if (has_rank == has(r, "MOSAIC_RANKS"))
        return MOSAIC_OK;
    return status_set(r->err, MOSAIC_USAGE, "%s is set, %s is not: they go together",
                      has_rank ? "MOSAIC_RANK" : "MOSAIC_RANKS",
                      has_rank ? "MOSAIC_RANKS" : "MOSAIC_RANK");
}

/* A script or a shell within an allocation of many tasks. */
static void note_tasks(const struct reader *r, struct launcher *l) {
    struct status_error unused;
    const struct reader quiet = {r->get, r->context, &unused};
    int tasks = 1;
    if (number(&quiet, "SLURM_NTASKS", 1, INT32_MAX, &tasks) == MOSAIC_OK && tasks > 1)
        (void)snprintf(l->note, sizeof l->note,
                       "the allocation has %d tasks, but srun did not start this process: it "
                       "measures alone; put srun before mosaic for all of them",
                       tasks);
}

enum mosaic_status launcher_read(launcher_get *get, void *context, struct launcher *out,
                                 struct status_error *err) {
    const struct reader r = {get, context, err};
    const struct kind *const kind = kind_of(&r);
    struct launcher l = {.name = "", .ranks = 1};
    if (!kind) {
        TRY(check_by_hand(&r));
        note_tasks(&r, &l);
        *out = l;
        return MOSAIC_OK;
    }
    l.name = kind->name;
    TRY(number(&r, kind->ranks, 1, LAUNCHER_RANKS_MAX, &l.ranks));
    TRY(number(&r, kind->rank, 0, LAUNCHER_RANKS_MAX, &l.rank));
    l.local_rank = l.rank;
    TRY(number(&r, kind->local_rank, 0, LAUNCHER_RANKS_MAX, &l.local_rank));
    if (l.rank >= l.ranks)
        return status_set(err, MOSAIC_USAGE, "%s gave rank %d of %d: ranks count from 0",
                          kind->name, l.rank, l.ranks);
    const char *const host = kind->family == SRUN ? value_of(&r, "SLURMD_NODENAME") : NULL;
    (void)snprintf(l.host, sizeof l.host, "%s", host ? host : "");
    if (l.ranks > 1)
        TRY(find_meeting(&r, kind, &l));
    else if (kind->family == SRUN)
        note_tasks(&r, &l); /* an interactive step */
    *out = l;
    return MOSAIC_OK;
}
