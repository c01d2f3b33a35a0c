// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Drawing by the program gnuplot, found on PATH and started without a shell.  The script goes to a
 * file without a name, so that no reader can leave the writer with a broken pipe.
 */
#ifndef MOSAIC_REPORT_GNUPLOT_H
#define MOSAIC_REPORT_GNUPLOT_H

#include "base/status.h"

/* Where to write a script, or NULL; close it with fclose(). */
FILE *gnuplot_script(void);
/* Runs the script; what it draws goes to `out`, or nowhere for NULL.  MOSAIC_IO when gnuplot is not
 * installed (the message names the package) or refuses. */
MOSAIC_MUST_USE enum mosaic_status gnuplot_run(FILE *script, FILE *out, struct status_error *err);
/* Whether it is there, by an empty script. */
MOSAIC_MUST_USE enum mosaic_status gnuplot_check(struct status_error *err);

#endif
