// SPDX-License-Identifier: GPL-3.0-or-later
/* What this build is: version, commit, compiler, libraries. */
#ifndef MOSAIC_REPORT_VERSION_H
#define MOSAIC_REPORT_VERSION_H

#include <stdbool.h>
#include <stdio.h>

/* The commit, "-dirty" when the tree was changed, or "release". */
const char *version_build(void);
/* "mosaic 1.2.3", with `all` the build and each library on a line of its own. */
void version_print(FILE *stream, bool all);

#endif
