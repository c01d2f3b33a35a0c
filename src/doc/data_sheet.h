// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The data sheet of a device that no cluster document was given for: the library's cluster whose
 * device's name is the longest one within the given name ("H100" in "NVIDIA H100 SXM").
 */
#ifndef MOSAIC_DOC_DATA_SHEET_H
#define MOSAIC_DOC_DATA_SHEET_H

#include "doc/document.h"

/* Both NULL where the library knows none; `memory` (talloc) owns them. */
MOSAIC_MUST_USE enum mosaic_status data_sheet_find(void *memory, struct diag_list *diags,
                                                   const char *device,
                                                   const struct cluster **cluster,
                                                   const char **name);

#endif
