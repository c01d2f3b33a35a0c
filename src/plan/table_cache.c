// SPDX-License-Identifier: GPL-3.0-or-later
/* One place a table, by a hash of its shape. */
#include "plan/table_cache.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

enum { PLACES = 1024, HASH_BITS = 10 };
static_assert(PLACES == 1 << HASH_BITS, "a hash names a place");

struct place {
    unsigned long age; /* of the cache when it was filled */
    int group;
    struct mesh shape;
    struct layer_table table;
};

struct table_cache {
    unsigned long age; /* 0: of no place */
    struct place places[PLACES];
};

struct table_cache *table_cache_new(void) {
    struct table_cache *const cache = calloc(1, sizeof *cache);
    if (cache)
        cache->age = 1;
    return cache;
}

void table_cache_free(struct table_cache *cache) {
    free(cache);
}

void table_cache_clear(struct table_cache *cache) {
    cache->age++;
}

/* Multiplicative hashing by the golden ratio, field after field. */
static unsigned place_of(int group, const struct mesh *shape) {
    const int fields[] = {group,
                          shape->tp,
                          shape->cp,
                          shape->ep,
                          shape->etp,
                          shape->micro_batch,
                          (int)shape->recompute};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; ++i)
        hash = (hash ^ (uint64_t)fields[i]) * UINT64_C(0x9E3779B97F4A7C15);
    return (unsigned)(hash >> (64 - HASH_BITS));
}

const struct layer_table *table_cache_find(struct table_cache *cache,
                                           const struct step_context *ctx, int group,
                                           const struct mesh *shape, bool *is_filled) {
    struct place *const place = &cache->places[place_of(group, shape)];
    *is_filled = place->age != cache->age || place->group != group ||
                 mesh_compare(&place->shape, shape) != 0;
    if (*is_filled) {
        layer_table_fill(ctx, shape, &place->table);
        place->age = cache->age;
        place->group = group;
        place->shape = *shape;
    }
    return &place->table;
}
