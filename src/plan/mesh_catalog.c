// SPDX-License-Identifier: GPL-3.0-or-later
/* Lists of legal meshes by what legality reads. */
#include "plan/mesh_catalog.h"

#include "plan/way_classes.h"

#include <stdlib.h>
#include <string.h>

enum { LISTS_KEPT = 32 };

struct bytes {
    unsigned char *data;
    size_t count, room;
    bool failed;
};

/* A list with its key; shapes and meshes are its own. */
struct kept_list {
    struct bytes key;
    uint64_t hash;
    struct mesh_catalog catalog;
    struct catalog_degrees *degrees;
    struct catalog_shape *shapes;
    struct catalog_mesh *meshes;
    struct catalog_stages *stages;
    size_t degrees_room, shape_room, mesh_room, stages_room;
    bool failed;
};

struct catalog_cache {
    struct mesh_walker *walker;
    struct kept_list **lists;
    size_t count, room;
    struct bytes key;
};

struct catalog_cache *catalog_cache_new(void) {
    struct catalog_cache *const cache = calloc(1, sizeof *cache);
    if (!cache)
        return NULL;
    cache->walker = mesh_walker_new();
    if (!cache->walker) {
        free(cache);
        return NULL;
    }
    return cache;
}

static void list_free(struct kept_list *list) {
    if (!list)
        return;
    free(list->key.data);
    free(list->degrees);
    free(list->shapes);
    free(list->meshes);
    free(list->stages);
    free(list);
}

static void forget(struct catalog_cache *cache) {
    for (size_t i = 0; i < cache->count; ++i)
        list_free(cache->lists[i]);
    cache->count = 0;
}

void catalog_cache_free(struct catalog_cache *cache) {
    if (!cache)
        return;
    forget(cache);
    mesh_walker_free(cache->walker);
    free(cache->lists);
    free(cache->key.data);
    free(cache);
}

void catalog_cache_trim(struct catalog_cache *cache) {
    if (cache->count > LISTS_KEPT)
        forget(cache);
}

/* ---- keys ---- */

static void add_bytes(void *context, const void *bytes, size_t size) {
    struct bytes *const b = context;
    if (b->failed || size == 0)
        return;
    if (!b->data || b->count + size > b->room) {
        const size_t larger = 2 * (b->count + size);
        unsigned char *const moved = realloc(b->data, larger);
        b->failed = !moved;
        if (!moved)
            return;
        b->data = moved;
        b->room = larger;
    }
    memcpy(b->data + b->count, bytes, size);
    b->count += size;
}

/* FNV-1a over words of 8 bytes, the last one filled up. */
static uint64_t hash_of(const struct bytes *b) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < b->count; i += sizeof hash) {
        uint64_t word = 0;
        const size_t left = b->count - i;
        memcpy(&word, b->data + i, left < sizeof word ? left : sizeof word);
        hash = (hash ^ word) * UINT64_C(0x100000001b3);
        hash ^= hash >> 32;
    }
    return hash;
}

static void find_key(struct catalog_cache *cache, const struct step_context *ctx,
                     const struct layout_space *space) {
    struct way_key rules;
    struct bytes *const key = &cache->key;
    key->count = 0;
    way_rules_key(ctx, &rules);
    add_bytes(key, &rules, sizeof rules);
    struct engine engine = ctx->engine;
    if (ctx->engine.rules.count <= WAY_CONFLICTS_MAX)
        engine.rules = (struct engine_rules){0}; /* told by their conflicts */
    add_bytes(key, &engine, sizeof engine);
    mesh_walker_open(cache->walker, ctx, space);
    mesh_walker_tell(cache->walker, add_bytes, key);
}

/* ---- lists ---- */

static void *room_for(void *items, size_t count, size_t *room, size_t size, bool *failed) {
    if (count < *room)
        return items;
    const size_t larger = *room ? *room * 2 : 256;
    void *const moved = realloc(items, larger * size);
    *failed = *failed || !moved;
    if (!moved)
        return items;
    *room = larger;
    return moved;
}

static bool is_first_of_degrees(const struct kept_list *l, const struct mesh *m) {
    if (l->catalog.shape_count == 0)
        return true;
    const struct catalog_shape *const s = &l->shapes[l->catalog.shape_count - 1];
    return s->tp != m->tp || s->cp != m->cp || s->ep != m->ep || s->etp != m->etp;
}

static void list_shape(void *context, const struct mesh *m) {
    struct kept_list *const l = context;
    if (is_first_of_degrees(l, m)) {
        l->degrees = room_for(l->degrees, l->catalog.degrees_count, &l->degrees_room,
                              sizeof *l->degrees, &l->failed);
        if (!l->failed)
            l->degrees[l->catalog.degrees_count++] =
                (struct catalog_degrees){(uint32_t)l->catalog.shape_count, 0};
    }
    l->shapes =
        room_for(l->shapes, l->catalog.shape_count, &l->shape_room, sizeof *l->shapes, &l->failed);
    if (l->failed)
        return;
    l->degrees[l->catalog.degrees_count - 1].count++;
    l->shapes[l->catalog.shape_count++] =
        (struct catalog_shape){.tp = m->tp,
                               .cp = m->cp,
                               .ep = m->ep,
                               .etp = m->etp,
                               .micro_batch = m->micro_batch,
                               .recompute = m->recompute,
                               .first = (uint32_t)l->catalog.mesh_count,
                               .first_stages = (uint32_t)l->catalog.stages_count};
}

/* Place of the mesh's stages among those of its shape. */
static uint16_t place_of_stages(struct kept_list *l, const struct mesh *m) {
    struct catalog_shape *const shape = &l->shapes[l->catalog.shape_count - 1];
    const struct catalog_stages stages = {(uint16_t)m->pp,
                                          m->vpp > 1 ? SCHEDULE_1F1B : (uint16_t)m->schedule};
    for (uint32_t i = shape->stages_count; i > 0; --i) {
        const struct catalog_stages *const known = &l->stages[shape->first_stages + i - 1];
        if (known->pp == stages.pp && known->schedule == stages.schedule)
            return (uint16_t)(i - 1);
    }
    l->stages = room_for(l->stages, l->catalog.stages_count, &l->stages_room, sizeof *l->stages,
                         &l->failed);
    if (!l->failed)
        l->stages[l->catalog.stages_count++] = stages;
    return (uint16_t)shape->stages_count++;
}

static void list_mesh(void *context, const struct mesh *m) {
    struct kept_list *const l = context;
    if (l->failed)
        return;
    const uint16_t stages = place_of_stages(l, m);
    l->meshes =
        room_for(l->meshes, l->catalog.mesh_count, &l->mesh_room, sizeof *l->meshes, &l->failed);
    if (l->failed)
        return;
    l->meshes[l->catalog.mesh_count++] =
        (struct catalog_mesh){(uint16_t)m->pp, (uint16_t)m->vpp, (uint16_t)m->schedule, stages};
    l->shapes[l->catalog.shape_count - 1].count++;
}

static void list_again(void *context) {
    struct kept_list *const l = context;
    if (l->failed)
        return;
    struct catalog_shape *const shape = &l->shapes[l->catalog.shape_count - 1];
    const struct catalog_shape *const before = shape - 1;
    shape->first = before->first;
    shape->count = before->count;
    shape->first_stages = before->first_stages;
    shape->stages_count = before->stages_count;
}

/* Walked anew; shapes without a legal mesh stay, as the walk told of them. */
static struct kept_list *list_new(struct catalog_cache *cache, uint64_t hash) {
    struct kept_list *const l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->hash = hash;
    add_bytes(&l->key, cache->key.data, cache->key.count);
    const struct mesh_calls calls = {list_shape, list_mesh, list_again};
    mesh_walker_run(cache->walker, &calls, l, &l->catalog.census);
    l->catalog.degrees = l->degrees;
    l->catalog.shapes = l->shapes;
    l->catalog.meshes = l->meshes;
    l->catalog.stages = l->stages;
    if (!l->failed && !l->key.failed)
        return l;
    list_free(l);
    return NULL;
}

enum mosaic_status catalog_find(struct catalog_cache *cache, const struct step_context *ctx,
                                const struct layout_space *space, const struct mesh_catalog **out,
                                struct status_error *err) {
    find_key(cache, ctx, space);
    if (cache->key.failed)
        return status_no_memory(err);
    const uint64_t hash = hash_of(&cache->key);
    /* Stated stages are borrowed, so are rules: what stands there may have changed. */
    const bool is_known =
        ctx->workload->stages == NULL && ctx->engine.rules.count <= WAY_CONFLICTS_MAX;
    for (size_t i = 0; i < cache->count && is_known; ++i) {
        const struct kept_list *const l = cache->lists[i];
        if (l->hash == hash && l->key.count == cache->key.count &&
            memcmp(l->key.data, cache->key.data, l->key.count) == 0) {
            *out = &l->catalog;
            return MOSAIC_OK;
        }
    }
    bool failed = false;
    cache->lists =
        room_for(cache->lists, cache->count, &cache->room, sizeof(struct kept_list *), &failed);
    if (failed)
        return status_no_memory(err);
    struct kept_list *const l = list_new(cache, hash);
    if (!l)
        return status_no_memory(err);
    cache->lists[cache->count++] = l;
    *out = &l->catalog;
    return MOSAIC_OK;
}

void catalog_shape_fill(const struct catalog_shape *s, int way, struct mesh *out) {
    *out = (struct mesh){.tp = s->tp,
                         .cp = s->cp,
                         .ep = s->ep,
                         .etp = s->etp,
                         .micro_batch = s->micro_batch,
                         .recompute = s->recompute,
                         .way = way};
}

void catalog_mesh_fill(const struct catalog_shape *s, const struct catalog_mesh *m,
                       const struct step_context *ctx, struct mesh *out) {
    catalog_shape_fill(s, ctx->way, out);
    out->pp = m->pp;
    out->vpp = m->vpp;
    out->schedule = (enum schedule)m->schedule;
    out->dp = cluster_gpus(ctx->cluster) / (s->tp * s->cp * out->pp);
    out->micro_batches = ctx->workload->global_batch / (s->micro_batch * out->dp);
}
