// SPDX-License-Identifier: GPL-3.0-or-later
/* Data sheets of well-known devices (devices.yaml), by a device's name. */
#ifndef MOSAIC_DOC_DEVICES_H
#define MOSAIC_DOC_DEVICES_H

#include "doc/document.h"

/* Dense peaks of the entry whose words stand in the name; `match` are those words, NULL where the
 * sheet has no such device, and `memory` (talloc) owns them.  All else of `out` is 0: the sheet
 * does not hold it. */
MOSAIC_MUST_USE enum mosaic_status doc_devices_find(void *memory, struct diag_list *diags,
                                                    const char *name, struct device *out,
                                                    const char **match);

#endif
