// SPDX-License-Identifier: GPL-3.0-or-later
/* The report for a person: one function a schema, a plain list of keys for any other. */
#include "report/result.h"
#include "report/table.h"

#include <string.h>

static void table_fallback(struct page *page, json_t *root) {
    table_any(page, "Result", root);
}

enum mosaic_status emit_table(json_t *root, const struct emit_options *options, FILE *stream,
                              struct status_error *err) {
    static const struct {
        const char *schema;
        void (*print)(struct page *page, json_t *root);
    } reports[] = {
        {"mosaic.plan/1", table_plan},           {"mosaic.fit/1", table_fit},
        {"mosaic.predict/1", table_predict},     {"mosaic.count/1", table_count},
        {"mosaic.compare/1", table_compare},     {"mosaic.validate/1", table_validate},
        {"mosaic.fit_steps/1", table_fit_steps}, {"mosaic.layout/1", table_layouts},
        {"mosaic.explain/1", table_explain},     {"mosaic.schedules/1", table_schedules},
        {"mosaic.check/1", table_check},         {"mosaic.sweep/1", table_sweep},
        {"mosaic.import/1", table_import},       {"mosaic.calibrate/1", table_calibrate},
        {"mosaic.drift/1", table_drift},
    };
    const char *const schema = result_text(root, "schema");
    const char *const text = result_text(root, "text");
    if (schema && text && strcmp(schema, "mosaic.launch/1") == 0) { /* for an engine */
        (void)fputs(text, stream);
        return MOSAIC_OK;
    }
    struct page page;
    page_init(&page, stream, options);
    void (*print)(struct page *, json_t *) = table_fallback;
    for (size_t i = 0; schema && i < sizeof reports / sizeof *reports; i++)
        if (strcmp(schema, reports[i].schema) == 0)
            print = reports[i].print;
    if (schema && strcmp(schema, "mosaic.lint/1") == 0)
        table_lint(&page, root, options && options->show_values);
    else
        print(&page, root);
    if (page.status != MOSAIC_OK)
        return status_set(err, page.status, "a table cannot be laid out");
    return MOSAIC_OK;
}
