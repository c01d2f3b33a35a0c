// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A probe as a child: a process group of its own, requests on its standard input, answers on its
 * standard output, the end of what it says on standard error kept.  Whatever it does (hang, crash,
 * rubbish) ends within the time-out, with the whole group killed and the child collected.
 *
 * Failures are MOSAIC_DEVICE with a message that names the probe; MOSAIC_INTERRUPTED when `stop`
 * was set.  After either the process is gone and only probe_close() is left to call.
 */
#ifndef MOSAIC_MEASURE_PROBE_PROCESS_H
#define MOSAIC_MEASURE_PROBE_PROCESS_H

#include "measure/protocol.h"

#include <stdatomic.h>

enum { PROBE_PATH_MAX = 4096, PROBE_STDERR_MAX = 4096 };

/* NAME is mosaic-probe-NAME in the directory `beside` (may be NULL) or on the PATH; with a slash it
 * is a path. */
MOSAIC_MUST_USE enum mosaic_status probe_find(const char *name, const char *beside,
                                              char path[PROBE_PATH_MAX], struct status_error *err);

struct probe_launch {
    const char *path;
    const char *const *options; /* after "serve", ends with NULL; NULL for none */
    double hello_timeout_s;
    const atomic_bool *stop; /* may be NULL */
    char *
        words; /* may be NULL; takes probe_stderr() of one that does not start: so many bytes + 1 */
};

struct probe_process;
/* Starts and waits for the hello. */
MOSAIC_MUST_USE enum mosaic_status probe_open(const struct probe_launch *launch,
                                              struct probe_process **out, struct status_error *err);
const struct probe_hello *probe_hello(const struct probe_process *probe);
/* What the probe said on standard error, its last 4 KiB; lives as long as the probe. */
const char *probe_stderr(const struct probe_process *probe);
bool probe_is_alive(const struct probe_process *probe);

/* One request and its answer.  asked NULL with a group: joins it; both NULL: asks for a new one. */
MOSAIC_MUST_USE enum mosaic_status probe_ask(struct probe_process *probe,
                                             const struct sample *asked, int rounds,
                                             double timeout_s, struct probe_answer *out,
                                             struct status_error *err);
MOSAIC_MUST_USE enum mosaic_status probe_group(struct probe_process *probe,
                                               const struct probe_group *group, double timeout_s,
                                               struct probe_answer *out, struct status_error *err);
/* The line of the last answer, for a journal. */
const char *probe_line(const struct probe_process *probe);

/* Ends a living probe by closing its input, or else by force; frees.  NULL is accepted. */
void probe_close(struct probe_process *probe);

#endif
