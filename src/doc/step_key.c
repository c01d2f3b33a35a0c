// SPDX-License-Identifier: GPL-3.0-or-later
/* A key that is not known to leave the steps alone counts. */
#include "doc/step_key.h"

#include <sha2.h>
#include <stdint.h>
#include <string.h>

bool step_key_is_free(const char *key) {
    static const char *const sections[] = {
        "budget",       "law",           "objective",     "search.tokens",
        "search.nodes", "search.pareto", "cluster.price", "workload.unique_tokens",
        "price"};
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; ++i) {
        const size_t length = strlen(sections[i]);
        if (strncmp(key, sections[i], length) == 0 &&
            (key[length] == '\0' || key[length] == '.' || key[length] == '['))
            return true;
    }
    return false;
}

/* With its end, so that two texts are not one. */
static void add(SHA2_CTX *context, const char *text) {
    SHA256Update(context, (const uint8_t *)text, strlen(text) + 1);
}

enum mosaic_status document_step_key(const struct document *document, char key[DOCUMENT_HASH_MAX],
                                     struct status_error *err) {
    SHA2_CTX context;
    SHA256Init(&context);
    for (size_t i = 0; i < document->input_count; ++i)
        if (!document->inputs[i].is_of_law)
            add(&context, document->inputs[i].sha256);
    for (size_t i = 0; i < document->override_count; ++i) {
        const struct document_override *const o = &document->overrides[i];
        if (step_key_is_free(o->key))
            continue;
        add(&context, o->key);
        add(&context, o->value);
    }
    return SHA256End(&context, key)
               ? MOSAIC_OK
               : status_set(err, MOSAIC_INTERNAL, "no hash of %s", document->path);
}
