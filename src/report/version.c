// SPDX-License-Identifier: GPL-3.0-or-later
/* Version of the build and of the libraries it runs with. */
#include "report/version.h"

#include "mosaic.h"
#include "plan/lp.h"

#include <gsl/gsl_version.h>
#include <jansson.h>
#include <libsmartcols/libsmartcols.h>
#include <yaml.h>

#ifndef MOSAIC_BUILD
#define MOSAIC_BUILD "unknown"
#endif

const char *version_build(void) {
    return MOSAIC_BUILD;
}

void version_print(FILE *stream, bool all) {
    const char *smartcols = "";
    (void)fprintf(stream, "mosaic %s\n", mosaic_version());
    if (!all)
        return;
    (void)scols_get_library_version(&smartcols);
    (void)fprintf(stream, "build      %s\n", version_build());
    (void)fprintf(stream, "compiler   %s\n", __VERSION__);
    (void)fprintf(stream, "glpk       %s\n", lp_library_version());
    (void)fprintf(stream, "gsl        %s\n", gsl_version);
    (void)fprintf(stream, "libyaml    %s\n", yaml_get_version_string());
    (void)fprintf(stream, "jansson    %s\n", jansson_version_str());
    (void)fprintf(stream, "smartcols  %s\n", smartcols);
}
