// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * MPICH's mpirun sets no variable that tells two of its jobs on a host apart.  But PMI_FD is one
 * end of a pair of sockets, whose other end is its process on this host: its number does.  Nothing
 * is asked over it, which would count as a part in the job's protocol.
 */
#ifndef MOSAIC_MEASURE_PMI_NAME_H
#define MOSAIC_MEASURE_PMI_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* The same for all ranks of a job on this host, and no other job's; false where it cannot be told.
 */
bool pmi_name(int descriptor, char *out, size_t size);

#endif
