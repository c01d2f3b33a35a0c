// SPDX-License-Identifier: GPL-3.0-or-later
/* Report of an import: what the figures mean, what was made of them, what is doubted. */
#include "report/result.h"
#include "report/table.h"

static void summary(struct page *page, json_t *root) {
    const double refused = real_at(root, "rows.refused"), steps = real_at(root, "measured_steps");
    page_heading(page, "Imported measurements");
    page_textf(page, "%s of %s: %.0f results read%s, %.0f samples of %.0f used, %zu entries.",
               text_at(root, "kind"), text_at(root, "device"), real_at(root, "rows.read"),
               refused > 0 ? ", some refused" : "", real_at(root, "samples.used"),
               real_at(root, "samples.total"), json_array_size(result_at(root, "entries")));
    if (refused > 0)
        page_textf(page, "%.0f REFUSED: the warnings say why.", refused);
    if (steps > 0)
        page_textf(page, "%.0f measured steps, which predictions for their models learn from.",
                   steps);
}

void table_import(struct page *page, json_t *root) {
    summary(page, root);
    page_list(page, "What the figures mean", result_at(root, "definitions"));
    table_entries(page, root);
    page_list(page, "Warnings", result_at(root, "warnings"));
    table_provenance(page, root);
}
