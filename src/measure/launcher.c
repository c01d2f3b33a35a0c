// SPDX-License-Identifier: GPL-3.0-or-later
/* Variables of the launchers. */
#include "measure/launcher.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORT_BASE = 29400, PORT_SPAN = 2000, PORT_MAX = 65535, DECIMAL = 10 };

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

/* A whole number from least to most; `missing` where the variable is not set. */
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

static const struct kind {
    const char *name, *rank, *ranks, *more_ranks, *local_rank, *job;
} kinds[] = {
    {"MOSAIC_RANK", "MOSAIC_RANK", "MOSAIC_RANKS", NULL, "MOSAIC_LOCAL_RANK", NULL},
    {"torchrun", "RANK", "WORLD_SIZE", NULL, "LOCAL_RANK", "TORCHELASTIC_RUN_ID"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL, "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_MCA_ess_base_jobid"},
    {"mpirun", "PMI_RANK", "PMI_SIZE", NULL, "MPI_LOCALRANKID", "PMI_JOBID"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_LOCALID",
     "SLURM_JOB_ID"},
};

static const struct kind *kind_of(const struct reader *r) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
        if (has(r, kinds[i].rank) && (has(r, kinds[i].ranks) || has(r, kinds[i].more_ranks)))
            return &kinds[i];
    return NULL;
}

void launcher_first_host(const char *list, char out[LAUNCHER_TEXT_MAX]) {
    const size_t before = strcspn(list, "[,");
    const char *const open = list + before;
    size_t inside = 0, after = 0;
    const char *tail = "";
    if (*open == '[') {
        inside = strcspn(open + 1, "-,]");
        const char *const close = strchr(open, ']');
        tail = close ? close + 1 : "";
        after = strcspn(tail, ",[");
    }
    (void)snprintf(out, LAUNCHER_TEXT_MAX, "%.*s%.*s%.*s", (int)before, list, (int)inside,
                   *open == '[' ? open + 1 : "", (int)after, tail);
}

/* All ranks of mpirun on one host need no address; of more, it does not tell one. */
static bool is_on_one_host(const struct reader *r, const struct launcher *l) {
    int local = 0;
    struct status_error unused;
    const struct reader quiet = {r->get, r->context, &unused};
    return number(&quiet, "OMPI_COMM_WORLD_LOCAL_SIZE", 1, LAUNCHER_RANKS_MAX, &local) ==
               MOSAIC_OK &&
           local == l->ranks;
}

static enum mosaic_status find_address(const struct reader *r, const struct kind *kind,
                                       struct launcher *l) {
    const char *const given = value_of(r, "MOSAIC_ADDRESS");
    const char *const master = value_of(r, "MASTER_ADDR");
    const char *const nodes = value_of(r, "SLURM_STEP_NODELIST");
    const char *const origin = value_of(r, "SLURM_LAUNCH_NODE_IPADDR");
    const bool is_srun = strcmp(kind->name, "srun") == 0;
    if (given)
        (void)snprintf(l->address, sizeof l->address, "%s", given);
    else if (strcmp(kind->name, "torchrun") == 0 && master)
        (void)snprintf(l->address, sizeof l->address, "%s", master);
    else if (is_srun && nodes)
        launcher_first_host(nodes, l->address);
    else if (is_srun && origin)
        (void)snprintf(l->address, sizeof l->address, "%s", origin);
    else if (is_on_one_host(r, l))
        (void)snprintf(l->address, sizeof l->address, "127.0.0.1");
    if (l->address[0] || l->rank == 0)
        return MOSAIC_OK;
    (void)status_set(r->err, MOSAIC_USAGE, "%s does not tell where rank 0 is", kind->name);
    status_hint(r->err, "set MOSAIC_ADDRESS to the host of rank 0 for all of them: mpirun -x "
                        "MOSAIC_ADDRESS=...");
    return MOSAIC_USAGE;
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
    const char *const job = value_of(r, kind->job);
    int master = 0;
    l->has_secret = secret != NULL;
    (void)snprintf(l->secret, sizeof l->secret, "%s%s", secret ? "" : "job ",
                   secret ? secret
                   : job  ? job
                          : "without a name");
    TRY(number(r, "MASTER_PORT", 1, PORT_MAX - 1, &master));
    /* torchrun's own store listens at MASTER_PORT. */
    l->port = strcmp(kind->name, "torchrun") == 0 && master ? master + 1 : port_of(l->secret);
    TRY(number(r, "MOSAIC_PORT", 1, PORT_MAX, &l->port));
    return find_address(r, kind, l);
}

enum mosaic_status launcher_read(launcher_get *get, void *context, struct launcher *out,
                                 struct status_error *err) {
    const struct reader r = {get, context, err};
    const struct kind *const kind = kind_of(&r);
    struct launcher l = {.name = "", .ranks = 1};
    if (!kind) {
        *out = l;
        return MOSAIC_OK;
    }
    l.name = kind->name;
    TRY(number(&r, has(&r, kind->ranks) ? kind->ranks : kind->more_ranks, 1, LAUNCHER_RANKS_MAX,
               &l.ranks));
    TRY(number(&r, kind->rank, 0, LAUNCHER_RANKS_MAX, &l.rank));
    l.local_rank = l.rank;
    TRY(number(&r, kind->local_rank, 0, LAUNCHER_RANKS_MAX, &l.local_rank));
    if (l.rank >= l.ranks)
        return status_set(err, MOSAIC_USAGE, "%s gave rank %d of %d: ranks count from 0",
                          kind->name, l.rank, l.ranks);
    if (l.ranks > 1)
        TRY(find_meeting(&r, kind, &l));
    *out = l;
    return MOSAIC_OK;
}
