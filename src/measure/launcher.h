// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Who this process is among those that srun, mpirun or torchrun started, from the variables that
 * they set; the innermost launcher counts.
 *   MOSAIC_RANK  MOSAIC_RANKS  MOSAIC_LOCAL_RANK              by hand
 *   RANK  WORLD_SIZE  LOCAL_RANK  MASTER_ADDR  MASTER_PORT     torchrun
 *   OMPI_COMM_WORLD_RANK  _SIZE  _LOCAL_RANK  _LOCAL_SIZE      mpirun of Open MPI
 *   PMI_RANK  PMI_SIZE  MPI_LOCALRANKID  MPI_LOCALNRANKS       mpirun of MPICH
 *   SLURM_PROCID  SLURM_STEP_NUM_TASKS  SLURM_LOCALID  SLURM_STEP_NODELIST   srun
 * srun --mpi=pmi2 sets those of MPICH too; a shell or batch script within an allocation has tasks
 * but is no rank.  MOSAIC_ADDRESS, MOSAIC_PORT and MOSAIC_SECRET go before what follows from these.
 * Ranks of one host meet on loopback and need no name of it.  Where no secret is set the job's
 * identifier stands in: it keeps jobs apart, not strangers.
 */
#ifndef MOSAIC_MEASURE_LAUNCHER_H
#define MOSAIC_MEASURE_LAUNCHER_H

#include "base/status.h"

#include <stdbool.h>

enum { LAUNCHER_TEXT_MAX = 256, LAUNCHER_RANKS_MAX = 4096 };

struct launcher {
    const char *name; /* "srun", ...; "" for a process by itself */
    int rank, ranks, local_rank;
    char host[LAUNCHER_TEXT_MAX];    /* this one, as srun calls it; or "" */
    char address[LAUNCHER_TEXT_MAX]; /* of rank 0; "" for one process */
    int port, ports;                 /* the first one that is free of so many, from `port` */
    char secret[2 * LAUNCHER_TEXT_MAX + 8];
    bool has_secret;              /* of the user's own */
    char note[LAUNCHER_TEXT_MAX]; /* what a person may have meant otherwise, or "" */
};

/* getenv, or a test's. */
typedef const char *launcher_get(void *context, const char *name);

/* One process by itself is no error; ranks out of range or without an address are. */
MOSAIC_MUST_USE enum mosaic_status launcher_read(launcher_get *get, void *context,
                                                 struct launcher *out, struct status_error *err);
/* First host of a Slurm list: "node[03-07,9]-ib,other" gives "node03-ib". */
void launcher_first_host(const char *list, char out[LAUNCHER_TEXT_MAX]);

#endif
