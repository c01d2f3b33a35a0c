// SPDX-License-Identifier: GPL-3.0-or-later
/* Scripts of the report, drawn into output files. */
#include "cli/plot.h"

#include "cli/output.h"
#include "report/gnuplot.h"
#include "report/plot_fit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static enum mosaic_status tell(const struct status_error *err) {
    (void)fprintf(stderr, "mosaic: %s\n", err->message);
    if (err->hint[0])
        (void)fprintf(stderr, "mosaic: %s\n", err->hint);
    return err->status;
}

enum mosaic_status plot_prepare(const char *directory) {
    struct status_error err = {0};
    if (gnuplot_check(&err) != MOSAIC_OK || output_directory(directory, &err) != MOSAIC_OK)
        return tell(&err);
    return MOSAIC_OK;
}

static enum mosaic_status draw(json_t *root, size_t index, const char *path,
                               struct status_error *err) {
    struct output output;
    FILE *const script = gnuplot_script();
    if (!script)
        return status_set(err, MOSAIC_IO, "cannot open a temporary file: %s", strerror(errno));
    enum mosaic_status status = output_open(&output, path, err);
    if (status == MOSAIC_OK) {
        plot_fit_script(root, index, script);
        status = gnuplot_run(script, output.stream, err);
        if (status == MOSAIC_OK)
            status = output_commit(&output, err);
        else
            output_abandon(&output);
    }
    (void)fclose(script);
    return status;
}

enum mosaic_status plot_write(const char *directory, const struct mosaic_result *result) {
    struct status_error err = {0};
    char name[PLOT_NAME_MAX];
    const size_t size = strlen(directory) + sizeof "/" + sizeof name;
    char *const path = malloc(size);
    if (!path) {
        (void)status_no_memory(&err);
        return tell(&err);
    }
    size_t count = 0;
    while (err.status == MOSAIC_OK && plot_fit_name(result->root, count, name)[0]) {
        (void)snprintf(path, size, "%s/%s", directory, name);
        err.status = draw(result->root, count++, path, &err);
    }
    free(path);
    if (count == 0) /* the fit's own status says why */
        (void)fprintf(stderr, "mosaic: nothing is drawn: there is no fit\n");
    return err.status == MOSAIC_OK ? MOSAIC_OK : tell(&err);
}
