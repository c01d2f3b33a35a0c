// SPDX-License-Identifier: GPL-3.0-or-later
/* What the terminal can show, and a progress bar on standard error. */
#ifndef MOSAIC_CLI_TERMINAL_H
#define MOSAIC_CLI_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* In the order of the choices of --color and --progress. */
enum terminal_when { TERMINAL_AUTO, TERMINAL_ALWAYS, TERMINAL_NEVER };

/* auto: a terminal, NO_COLOR empty, TERM set and not "dumb". */
bool terminal_color(enum terminal_when when, FILE *stream);
/* Columns, or 0 where the stream is no terminal. */
int terminal_width(FILE *stream);

struct progress {
    enum terminal_when when;
    bool on;        /* may draw */
    bool drawn;     /* something stands on the line */
    double begun_s; /* on clock_now_s() */
    double last_s;
};

void progress_begin(struct progress *progress, enum terminal_when when);
/* For mosaic_on_progress(); context is the struct progress. */
void progress_show(void *context, double done, double total);
void progress_end(struct progress *progress);

#endif
