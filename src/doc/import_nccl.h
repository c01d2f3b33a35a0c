// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * One run of nccl-tests, whatever shape its output came in.  By its convention
 *   algbw = size / time,   busbw = algbw x factor(kind, ranks)  (machine/collective.h)
 * with size the whole buffer on one rank.  Rows that break it are left out, and a factor of other
 * ranks than the run's refuses the run.
 */
#ifndef MOSAIC_DOC_IMPORT_NCCL_H
#define MOSAIC_DOC_IMPORT_NCCL_H

#include "doc/import_set.h"

enum { NCCL_HOSTS = 1024, NCCL_NAME = 64 };

struct nccl_row {
    double bytes, time_us, algbw, busbw; /* GB/s; NaN where not given */
    double wrong;                        /* NaN: not checked */
    bool in_place;
    long line;
};

struct nccl_host {
    char name[NCCL_NAME];
    int ranks;
};

enum { NCCL_KIND_UNKNOWN = -1, NCCL_KIND_FOREIGN = -2 };

struct nccl_run {
    struct import_set *set;
    const struct source *source;
    long line; /* where it begins */
    int kind;  /* enum collective_kind, or one of the above */
    char program[NCCL_NAME];
    int ranks;  /* of the largest number, + 1; 0 unknown */
    int firsts; /* how often rank 0 came */
    bool has_groups;
    struct nccl_host host[NCCL_HOSTS];
    int hosts;
    struct nccl_row *row;
    size_t rows, broken; /* broken: lines that begin like a row and are none */
    double average;      /* of the footer, GB/s; NaN */
    double out_of_bounds;
};

void nccl_run_begin(struct nccl_run *run, struct import_set *set, const struct source *source,
                    long line);
/* "all_reduce_perf", "/path/alltoall_perf", "AllReduce": false where it is no collective's. */
bool nccl_run_name(struct nccl_run *run, const char *name);
void nccl_run_rank(struct nccl_run *run, int rank, int group, const char *host, const char *device);
MOSAIC_MUST_USE enum mosaic_status nccl_run_row(struct nccl_run *run, const struct nccl_row *row);
/* Judges the run and adds its samples; nothing where it has no row. */
MOSAIC_MUST_USE enum mosaic_status nccl_run_end(struct nccl_run *run);

/* The shapes. */
MOSAIC_MUST_USE enum mosaic_status import_nccl_text(struct import_set *set,
                                                    const struct source *source);
MOSAIC_MUST_USE enum mosaic_status import_nccl_json(struct import_set *set,
                                                    const struct source *source);
MOSAIC_MUST_USE enum mosaic_status import_nccl_csv(struct import_set *set, struct source *source);

#endif
