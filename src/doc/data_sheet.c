// SPDX-License-Identifier: GPL-3.0-or-later
/* Over the clusters of the library, in the order of their names. */
#include "doc/data_sheet.h"

#include "doc/step_documents.h"

#include <string.h>
#include <talloc.h>

enum mosaic_status data_sheet_find(void *memory, struct diag_list *diags, const char *device,
                                   const struct cluster **cluster, const char **name) {
    static const struct document_options none = {.seed = 1};
    struct document *const document = talloc_zero(memory, struct document);
    struct step_documents *const all = talloc_zero(memory, struct step_documents);
    size_t longest = 0;
    *cluster = NULL;
    *name = NULL;
    if (!document || !all)
        return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
    all->loader =
        (struct loader){.document = document, .memory = memory, .diags = diags, .options = &none};
    TRY(step_documents_open(all, NULL));
    for (size_t i = 0; i < all->cluster_count; ++i) {
        const char *const known = all->clusters[i].cluster.device.name;
        if (strlen(known) > longest && strstr(device, known)) {
            longest = strlen(known);
            *cluster = &all->clusters[i].cluster;
            *name = all->clusters[i].name;
        }
    }
    return MOSAIC_OK;
}
