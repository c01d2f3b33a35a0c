// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Documents as people write them (DESIGN 4) turned into the structs that the planner takes.  Any
 * document is known by its first key `schema:`.  A plan, or a cluster with a `budget`, gives a
 * whole problem; a model gives one geometry; laws, calibrations and engines are only checked.  A
 * plan that names runs in place of a law has it fitted while it is loaded.
 *
 * A section of a plan is inline, a path seen from the file that names it, or the name of a document
 * built into the library (builtin.h).  Everything wrong is reported at its place, up to 20 at once.
 * A document owns all that it points to, and everything that its problem points to.
 */
#ifndef MOSAIC_DOC_DOCUMENT_H
#define MOSAIC_DOC_DOCUMENT_H

#include "plan/problem.h"
#include "text/diag.h"
#include "text/schema.h"

#include <stdatomic.h>

enum document_kind {
    DOCUMENT_PLAN,
    DOCUMENT_CLUSTER,
    DOCUMENT_MODEL,
    DOCUMENT_LAW,
    DOCUMENT_CALIBRATION,
    DOCUMENT_ENGINE,
    DOCUMENT_KINDS
};

/* "plan", ... and "mosaic-plan/1", ... */
const char *document_kind_name(enum document_kind kind);
const char *document_schema_name(enum document_kind kind);
/* The table of fields of a document (man pages, `lint --show-defaults`). */
const struct schema *document_schema(enum document_kind kind);

/* One `--set KEY=VALUE`. */
struct document_override {
    const char *key, *value;
};

enum { DOCUMENT_HASH_MAX = 65 };

/* A file that was read, in the order of reading. */
struct document_input {
    const char *path;               /* as given, or as seen from the file that names it */
    char sha256[DOCUMENT_HASH_MAX]; /* hexadecimal, of the file's bytes */
    bool is_of_law;                 /* a law, or runs that one is fitted to */
};

enum document_origin {
    DOCUMENT_GIVEN,    /* written in a file of the user's */
    DOCUMENT_DEFAULT,  /* left out */
    DOCUMENT_OVERRIDE, /* by --set */
    DOCUMENT_BUILT_IN, /* from a document inside the library */
    DOCUMENT_DERIVED   /* follows from the others */
};
const char *document_origin_name(enum document_origin origin);

/* One value of the document and where it came from. */
struct document_value {
    const char *path; /* "cluster.device.memory" */
    const char *text; /* as written, or the default's text */
    const char *help; /* one line, or "" */
    enum document_origin origin;
    struct place place; /* no source for a default or a derived value */
};

/* What became of the products of a declared grid (a list of models has only `products`). */
struct geometry_census {
    size_t products;      /* q x experts x top_k x granularity */
    size_t top_k_large;   /* top_k >= experts: no sparse model */
    size_t indivisible;   /* granularity does not divide the FFN width */
    size_t illegal;       /* out of geometry_check's ranges */
    size_t sparsity_low;  /* below the declared range */
    size_t sparsity_high; /* above it */
    size_t too_large;     /* beyond limits.n_total or limits.n_active */
    size_t doubled;       /* equal to another in every field */
};

struct document {
    enum document_kind kind;
    const char *path; /* as given */
    const char *name; /* the document's own name, or "" */

    bool has_problem; /* plan, or cluster with a budget */
    struct problem problem;
    struct geometry_census census;
    struct place stages_place; /* of problem.workload.stages; no source where not stated */

    bool has_geometry; /* exactly one geometry is named: a model, or a plan with one candidate */
    struct geometry geometry;

    const struct document_input *inputs;
    size_t input_count;
    const struct document_override *overrides;
    size_t override_count;
    const struct document_value *values; /* in the order of the tables */
    size_t value_count;
    /* Names of problem.geometries.items, item by item; NULL where they come from a grid. */
    const char *const *geometry_names;

    void *memory; /* talloc context of it all */
};

struct document_options {
    const struct document_override *overrides;
    size_t override_count;
    int threads;             /* of a law's fit; 0: all processors; never changes a result */
    unsigned long seed;      /* of a law's fit and draws */
    const atomic_bool *stop; /* may be NULL; ends a law's fit */
};

/* Read a document and everything that it names.  diags gathers errors, warnings and notes; on
 * success it may hold the latter two.  diags must have been set up by diag_init. */
MOSAIC_MUST_USE enum mosaic_status document_load(const char *path,
                                                 const struct document_override *overrides,
                                                 size_t override_count, struct diag_list *diags,
                                                 struct document **document);
/* The same with all options; document_load takes all processors and seed 1. */
MOSAIC_MUST_USE enum mosaic_status document_load_with(const char *path,
                                                      const struct document_options *options,
                                                      struct diag_list *diags,
                                                      struct document **document);
/* The same from a text in memory; `name` is what diagnostics call it, and other files are looked
 * for from its directory. */
MOSAIC_MUST_USE enum mosaic_status document_parse(const char *name, const char *text, size_t size,
                                                  const struct document_override *overrides,
                                                  size_t override_count, struct diag_list *diags,
                                                  struct document **document);
void document_free(struct document *document);

/* The one geometry and mesh that the document pins; dp and micro_batches follow from the others.
 * Fails with the place of the first axis that is not pinned, and the names of all of them. */
MOSAIC_MUST_USE enum mosaic_status document_pinned(const struct document *document,
                                                   struct geometry *geometry, struct mesh *mesh,
                                                   struct status_error *err);

/* The value at a path, or NULL. */
const struct document_value *document_value(const struct document *document, const char *path);

#endif
