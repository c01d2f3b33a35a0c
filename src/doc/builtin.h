// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Documents inside the library, so that it works from any directory: the published laws, the
 * calibrations, the clusters, the engines and the device sheet.  The table is written at build time
 * by src/doc/embed.sh from the files under configs/ and calibration/data/.
 */
#ifndef MOSAIC_DOC_BUILTIN_H
#define MOSAIC_DOC_BUILTIN_H

#include <stddef.h>

struct builtin_document {
    const char
        *name; /* "laws/mosaic-2608.10605", "calibrations/generic", "clusters/...", "devices" */
    const char *text;
    size_t size;
};

/* Sorted by name; written by embed.sh. */
extern const struct builtin_document builtin_documents[];
extern const size_t builtin_document_count;

/* A document by name, or NULL. */
const struct builtin_document *builtin_find(const char *name);

#endif
