// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Starts a program as the leader of a process group of its own, with signals as a shell would leave
 * them.  On Linux the kernel kills it when the thread that started it ends, so that no probe
 * outlives a program that was killed; elsewhere the end of its standard input has to do.
 */
#ifndef MOSAIC_MEASURE_PROBE_SPAWN_H
#define MOSAIC_MEASURE_PROBE_SPAWN_H

#include <sys/types.h>

/* ends: its standard input, output and error, descriptors above 2.  0, or an error number as of
 * errno: then there is no process. */
int probe_spawn(const char *path, char *const *arguments, const int ends[3], pid_t *pid);

#endif
