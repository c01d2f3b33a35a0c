// SPDX-License-Identifier: GPL-3.0-or-later
/* Terminal properties and the progress bar. */
#include "cli/terminal.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { BAR_WIDTH = 40, LINE_WIDTH = BAR_WIDTH + 16 };
static const double PATIENCE_S = 0.5; /* no bar for what is over by then */
static const double REDRAW_S = 0.1;

static bool is_set(const char *name) {
    const char *const value = getenv(name);
    return value && *value;
}

static bool is_dumb(void) {
    const char *const term = getenv("TERM");
    return !term || !*term || strcmp(term, "dumb") == 0;
}

bool terminal_color(enum terminal_when when, FILE *stream) {
    if (when != TERMINAL_AUTO)
        return when == TERMINAL_ALWAYS;
    return isatty(fileno(stream)) && !is_set("NO_COLOR") && !is_dumb();
}

int terminal_width(FILE *stream) {
    struct winsize size;
    if (!isatty(fileno(stream)))
        return 0;
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return 80;
}

void progress_begin(struct progress *progress, enum terminal_when when) {
    *progress = (struct progress){.when = when, .begun_s = clock_now_s()};
    progress->on =
        when == TERMINAL_ALWAYS || (when == TERMINAL_AUTO && isatty(fileno(stderr)) && !is_dumb());
}

void progress_show(void *context, double done, double total) {
    static const char bar[BAR_WIDTH + 1] = "########################################";
    struct progress *const progress = context;
    const double now = clock_now_s();
    const bool early = progress->when == TERMINAL_AUTO && now - progress->begun_s < PATIENCE_S;
    if (!progress->on || early || !(total > 0) ||
        (progress->drawn && now - progress->last_s < REDRAW_S))
        return;
    const double part = done < 0 ? 0 : done > total ? 1 : done / total;
    const int filled = (int)(part * BAR_WIDTH);
    (void)fprintf(stderr, "\r[%.*s%*s] %3d %% %6.1f s", filled, bar, BAR_WIDTH - filled, "",
                  (int)(100 * part), now - progress->begun_s);
    (void)fflush(stderr);
    progress->drawn = true;
    progress->last_s = now;
}

void progress_end(struct progress *progress) {
    if (progress->drawn)
        (void)fprintf(stderr, "\r%*s\r", LINE_WIDTH, "");
    progress->drawn = false;
    progress->on = false;
}
