// SPDX-License-Identifier: GPL-3.0-or-later
/* Look-up of the documents inside the library; their text is compiled from build/builtin.c. */
#include "doc/builtin.h"

#include <string.h>

const struct builtin_document *builtin_find(const char *name) {
    for (size_t i = 0; i < builtin_document_count; ++i)
        if (strcmp(builtin_documents[i].name, name) == 0)
            return &builtin_documents[i];
    return NULL;
}
