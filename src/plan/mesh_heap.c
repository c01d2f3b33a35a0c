// SPDX-License-Identifier: GPL-3.0-or-later
/* A binary heap in an array that grows. */
#include "plan/mesh_heap.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_FIRST = 1024 };

void mesh_heap_clear(struct mesh_heap *h) {
    h->count = 0;
    h->out_of_memory = false;
}

void mesh_heap_free(struct mesh_heap *h) {
    free(h->items);
    *h = (struct mesh_heap){.items = NULL};
}

static bool is_before(const struct heap_entry *a, const struct heap_entry *b) {
    if (a->bound_s != b->bound_s)
        return a->bound_s < b->bound_s;
    return a->key < b->key;
}

static bool make_room(struct mesh_heap *h, size_t count) {
    if (count <= h->room)
        return true;
    size_t larger = h->room ? h->room * 2 : ROOM_FIRST;
    while (larger < count)
        larger *= 2;
    struct heap_entry *const moved = realloc(h->items, larger * sizeof *moved);
    if (!moved) {
        h->out_of_memory = true;
        return false;
    }
    h->items = moved;
    h->room = larger;
    return true;
}

void mesh_heap_push(struct mesh_heap *h, const struct heap_entry *entry) {
    if (!make_room(h, h->count + 1))
        return;
    size_t at = h->count++;
    while (at > 0 && is_before(entry, &h->items[(at - 1) / 2])) {
        h->items[at] = h->items[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    h->items[at] = *entry;
}

static void sink(struct mesh_heap *h, struct heap_entry entry) {
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= h->count)
            break;
        if (child + 1 < h->count && is_before(&h->items[child + 1], &h->items[child]))
            ++child;
        if (!is_before(&h->items[child], &entry))
            break;
        h->items[at] = h->items[child];
        at = child;
    }
    h->items[at] = entry;
}

struct heap_entry mesh_heap_pop(struct mesh_heap *h) {
    assert(h->count > 0);
    const struct heap_entry top = h->items[0];
    --h->count;
    if (h->count > 0)
        sink(h, h->items[h->count]);
    return top;
}

void mesh_heap_restore(struct mesh_heap *h, const struct heap_entry *items, size_t count) {
    mesh_heap_clear(h);
    if (count == 0 || !make_room(h, count))
        return;
    memcpy(h->items, items, count * sizeof *items);
    h->count = count;
}
