// SPDX-License-Identifier: GPL-3.0-or-later
/* Plots of a result as files of one directory, each complete or absent. */
#ifndef MOSAIC_CLI_PLOT_H
#define MOSAIC_CLI_PLOT_H

#include "report/result.h"

/* What can be known before the work: gnuplot, and the directory, made if it is not there.  Like
 * plot_write(), says on standard error what failed. */
MOSAIC_MUST_USE enum mosaic_status plot_prepare(const char *directory);
MOSAIC_MUST_USE enum mosaic_status plot_write(const char *directory,
                                              const struct mosaic_result *result);

#endif
