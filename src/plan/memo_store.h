// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What searches have learnt of their steps, kept for later ones: a search_memo for each machine and
 * space.  The key is the caller's promise that steps are the same: a text for everything that they
 * follow from (doc/step_key.h), the number of nodes, the share of the memory; the geometries
 * themselves are compared.  A memo in use stays; of the others, the latest stays, and as many more
 * as a limit allows.
 */
#ifndef MOSAIC_PLAN_MEMO_STORE_H
#define MOSAIC_PLAN_MEMO_STORE_H

#include "plan/search_memo.h"

struct memo_store;
/* NULL when memory is short. */
MOSAIC_MUST_USE struct memo_store *memo_store_new(void);
void memo_store_free(struct memo_store *store);

/* The steps of one job on whatever machine; both are borrowed. */
struct memo_source {
    struct memo_store *store;
    const char *steps;
};

/* The memo of a machine, a new one where there is none; give it back to the same store. */
MOSAIC_MUST_USE enum mosaic_status memo_store_take(const struct memo_source *source, int nodes,
                                                   double memory_share,
                                                   const struct geometry_space *geometries,
                                                   struct search_memo **out,
                                                   struct status_error *err);
/* NULL is none. */
void memo_store_give(struct memo_store *store, const struct search_memo *memo);

/* How many were taken so far, and how many of them had been there. */
struct memo_uses {
    size_t taken, found;
};
struct memo_uses memo_store_uses(const struct memo_store *store);

#endif
