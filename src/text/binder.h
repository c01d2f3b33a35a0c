// SPDX-License-Identifier: GPL-3.0-or-later
/* What binder.c (mappings, defaults, origins) and bind_value.c (scalars, lists) share. */
#ifndef MOSAIC_TEXT_BINDER_H
#define MOSAIC_TEXT_BINDER_H

#include "text/schema.h"

enum { BINDER_PATH_MAX = 512 };

struct binder {
    void *memory;
    struct diag_list *diags;
    struct bound_list *bound;   /* NULL: origins are not kept */
    const struct node *current; /* mapping being bound: the place of what is missing in it */
    bool is_default;            /* what is bound comes from a default */
    char path[BINDER_PATH_MAX]; /* of the field being bound */
};

/* Append ".key" or "[index]"; returns the length to go back to. */
size_t binder_push_key(struct binder *binder, const char *key);
size_t binder_push_index(struct binder *binder, size_t index);
void binder_pop(struct binder *binder, size_t length);

enum mosaic_status binder_no_memory(struct binder *binder);
/* A scalar kind into its target. */
enum mosaic_status bind_scalar(struct binder *binder, const struct field *field,
                               const struct node *node, void *target);
enum mosaic_status bind_range(struct binder *binder, const struct field *field,
                              const struct node *node, void *target);
enum mosaic_status bind_list(struct binder *binder, const struct field *field,
                             const struct node *node, void *target);
/* The range in force: the field's own, or what its dimension allows. */
struct number_range field_bounds(const struct field *field, bool *is_open_min);

#endif
