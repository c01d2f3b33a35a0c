// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A small user of libmosaic: plans one file and prints the best layout.  It is both C11 and C++,
 * and needs nothing but mosaic.h.
 *   client PLAN
 */
#include <mosaic.h>

static void print_layout(const struct mosaic_result *result) {
    static const char *const axes[] = {"tp", "cp", "pp", "ep", "dp", "micro_batch"};
    printf("best.layout");
    for (size_t i = 0; i < sizeof axes / sizeof axes[0]; i++) {
        char path[64];
        double value = 0;
        (void)snprintf(path, sizeof path, "best.layout.%s", axes[i]);
        if (mosaic_result_number(result, path, &value) == MOSAIC_OK)
            printf(" %s=%.0f", axes[i], value);
    }
    const char *recompute = mosaic_result_string(result, "best.layout.recompute");
    printf(" recompute=%s\n", recompute ? recompute : "?");
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: client PLAN\n");
        return MOSAIC_USAGE;
    }
    struct mosaic *session = mosaic_new();
    if (!session)
        return MOSAIC_INTERNAL;
    struct mosaic_document *document = NULL;
    struct mosaic_result *result = NULL;
    enum mosaic_status status = mosaic_load(session, argv[1], &document);
    if (status == MOSAIC_OK)
        status = mosaic_plan(session, document, NULL, &result);
    if (status == MOSAIC_OK)
        print_layout(result);
    else
        fprintf(stderr, "%s: %s\n%s\n", argv[1], mosaic_status_text(status),
                mosaic_diagnostics(session));
    mosaic_result_free(result);
    mosaic_document_free(document);
    mosaic_free(session);
    return status;
}
