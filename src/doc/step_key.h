// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What the step times of a document's problem follow from, as a text: documents with the same key
 * have the same steps on the same machine (plan/memo_store.h).  It is a hash of every file read but
 * the law's, and of every --set but those of the keys below, which only say what a step is worth:
 * budget, law, objective and search.tokens, unique_tokens, the price, and which machines to try.
 */
#ifndef MOSAIC_DOC_STEP_KEY_H
#define MOSAIC_DOC_STEP_KEY_H

#include "doc/document.h"

/* MOSAIC_INTERNAL where the hash cannot be made. */
MOSAIC_MUST_USE enum mosaic_status document_step_key(const struct document *document,
                                                     char key[DOCUMENT_HASH_MAX],
                                                     struct status_error *err);
/* Whether no step time depends on this key of a plan. */
bool step_key_is_free(const char *key);

#endif
