// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A heap of lower bounds, the least first; at equal bounds the least key, which says what is
 * bounded.  An entry is 16 bytes: a queue holds thousands of them.
 */
#ifndef MOSAIC_PLAN_MESH_HEAP_H
#define MOSAIC_PLAN_MESH_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_entry {
    double bound_s;
    uint64_t key;
};

struct mesh_heap {
    struct heap_entry *items; /* owned; the least first */
    size_t count, room;
    bool out_of_memory; /* an entry was lost */
};

void mesh_heap_clear(struct mesh_heap *heap);
void mesh_heap_free(struct mesh_heap *heap);
void mesh_heap_push(struct mesh_heap *heap, const struct heap_entry *entry);
/* Of a heap that is not empty. */
struct heap_entry mesh_heap_pop(struct mesh_heap *heap);
/* In place of all it holds; items as they stood in a heap. */
void mesh_heap_restore(struct mesh_heap *heap, const struct heap_entry *items, size_t count);

#endif
