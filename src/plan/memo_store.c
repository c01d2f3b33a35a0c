// SPDX-License-Identifier: GPL-3.0-or-later
/* A short list, the latest use first. */
#include "plan/memo_store.h"

#include <stdlib.h>
#include <string.h>

/* Geometries of all memos that are kept, about 900 B each. */
enum { KEPT_GEOMETRIES_MAX = 1 << 17 };

struct shelf {
    struct shelf *next;
    char *steps;
    int nodes;
    double memory_share;
    struct geometry *geometries; /* memo->count of them */
    struct search_memo *memo;
    int users;
};

struct memo_store {
    struct shelf *first;
    struct memo_uses uses;
};

struct memo_store *memo_store_new(void) {
    return calloc(1, sizeof(struct memo_store));
}

static void shelf_free(struct shelf *shelf) {
    if (!shelf)
        return;
    search_memo_free(shelf->memo);
    free(shelf->geometries);
    free(shelf->steps);
    free(shelf);
}

void memo_store_free(struct memo_store *store) {
    if (!store)
        return;
    for (struct shelf *shelf = store->first, *next; shelf; shelf = next) {
        next = shelf->next;
        shelf_free(shelf);
    }
    free(store);
}

static bool are_same(const struct shelf *shelf, const struct geometry_space *geometries) {
    if (shelf->memo->count != geometries->count)
        return false;
    for (size_t i = 0; i < geometries->count; ++i)
        if (geometry_compare(&shelf->geometries[i], &geometries->items[i]) != 0)
            return false;
    return true;
}

static bool is_of(const struct shelf *shelf, const struct memo_source *source, int nodes,
                  double memory_share, const struct geometry_space *geometries) {
    return shelf->nodes == nodes && !(shelf->memory_share < memory_share) &&
           !(shelf->memory_share > memory_share) && strcmp(shelf->steps, source->steps) == 0 &&
           are_same(shelf, geometries);
}

/* NULL when memory is short. */
static struct shelf *shelf_new(const struct memo_source *source, int nodes, double memory_share,
                               const struct geometry_space *geometries) {
    struct shelf *const shelf = calloc(1, sizeof *shelf);
    struct status_error unused;
    if (!shelf)
        return NULL;
    const size_t size = geometries->count * sizeof *geometries->items;
    shelf->nodes = nodes;
    shelf->memory_share = memory_share;
    shelf->steps = strdup(source->steps);
    shelf->geometries = malloc(size > 0 ? size : 1);
    if (!shelf->steps || !shelf->geometries ||
        search_memo_new(geometries->count, &shelf->memo, &unused) != MOSAIC_OK) {
        shelf_free(shelf);
        return NULL;
    }
    if (size > 0)
        memcpy(shelf->geometries, geometries->items, size);
    return shelf;
}

enum mosaic_status memo_store_take(const struct memo_source *source, int nodes, double memory_share,
                                   const struct geometry_space *geometries,
                                   struct search_memo **out, struct status_error *err) {
    struct memo_store *const store = source->store;
    struct shelf **at = &store->first;
    while (*at && !is_of(*at, source, nodes, memory_share, geometries))
        at = &(*at)->next;
    struct shelf *const found = *at;
    struct shelf *const shelf = found ? found : shelf_new(source, nodes, memory_share, geometries);
    if (!shelf)
        return status_no_memory(err);
    if (found)
        *at = found->next;
    store->uses.taken++;
    store->uses.found += found != NULL;
    shelf->users++;
    shelf->next = store->first;
    store->first = shelf;
    *out = shelf->memo;
    return MOSAIC_OK;
}

/* The latest one stays, however large. */
static void drop_oldest(struct memo_store *store) {
    size_t kept = 0;
    for (struct shelf **at = &store->first; *at;) {
        struct shelf *const shelf = *at;
        const bool is_first = shelf == store->first;
        kept += shelf->memo->count;
        if (is_first || shelf->users > 0 || kept <= KEPT_GEOMETRIES_MAX) {
            at = &shelf->next;
        } else {
            kept -= shelf->memo->count;
            *at = shelf->next;
            shelf_free(shelf);
        }
    }
}

void memo_store_give(struct memo_store *store, const struct search_memo *memo) {
    struct shelf *shelf = memo ? store->first : NULL;
    while (shelf && shelf->memo != memo)
        shelf = shelf->next;
    if (shelf) {
        shelf->users--;
        drop_oldest(store);
    }
}

struct memo_uses memo_store_uses(const struct memo_store *store) {
    return store->uses;
}
