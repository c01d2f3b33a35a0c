// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The document mosaic.baseline/1 (JSON): what `mosaic check` predicted of each file when the
 * baseline was made, what that was predicted from, and the terms that name the cause of a change.
 * Files stand in the order of their names and numbers carry 17 digits, so that equal predictions
 * give equal bytes.
 */
#ifndef MOSAIC_DOC_DOC_BASELINE_H
#define MOSAIC_DOC_DOC_BASELINE_H

#include "doc/document.h"

enum baseline_metric {
    BASELINE_MFU,
    BASELINE_STEP_TIME,
    BASELINE_MEMORY,
    BASELINE_RATE,
    BASELINE_TOKENS,
    BASELINE_LOSS,
    BASELINE_DAYS, /* of a plan with a target loss alone, as the next two */
    BASELINE_GPU_HOURS,
    BASELINE_COST, /* where a price is stated */
    BASELINE_METRICS
};

struct baseline_metric_info {
    const char *key, *unit;
    enum dimension dimension; /* of an absolute tolerance */
    double unit_size;         /* in what that is read in */
    const char *example;      /* of one; NULL where there is none */
    bool more_is_better;
};
const struct baseline_metric_info *baseline_metric_info(enum baseline_metric metric);

struct baseline_number {
    const char *key;
    double value;
};
struct baseline_numbers {
    size_t count;
    struct baseline_number *items;
};
/* The number of that key, or NULL. */
const struct baseline_number *baseline_number(const struct baseline_numbers *numbers,
                                              const char *key);
MOSAIC_MUST_USE enum mosaic_status baseline_add(void *memory, struct baseline_numbers *numbers,
                                                const char *key, double value,
                                                struct status_error *err);

/* A file and its hash, or an override and its value. */
struct baseline_pair {
    const char *name, *value;
};

struct baseline_entry {
    const char *file;                     /* as given */
    const char *sha256;                   /* of all inputs and overrides */
    int is_infeasible;                    /* then without metrics */
    const char *model, *layout;           /* in short; NULL where there is none */
    struct record_list inputs, overrides; /* struct baseline_pair */
    struct baseline_numbers metrics, time_split, memory, loss_terms;
};

struct baseline {
    const char *version;      /* of the program that made it */
    struct record_list files; /* struct baseline_entry */
};

const struct baseline_entry *baseline_entry(const struct baseline *baseline, size_t i);
const struct baseline_pair *baseline_pair(const struct record_list *list, size_t i);
/* The pair of that name, or NULL. */
const struct baseline_pair *baseline_pair_of(const struct record_list *list, const char *name);
/* The entry of a file, or NULL. */
const struct baseline_entry *baseline_find(const struct baseline *baseline, const char *file);
/* Puts the entries into the document's order. */
void baseline_sort(struct baseline *baseline);
/* Inputs, overrides and the hash of them all, from a document. */
MOSAIC_MUST_USE enum mosaic_status baseline_inputs(void *memory, const struct document *document,
                                                   struct baseline_entry *entry,
                                                   struct status_error *err);

extern const struct schema doc_baseline_schema;

/* Reads a baseline; all of it is talloc below `memory`.  Whatever is wrong with it, and its absence
 * unless `may_miss`, is MOSAIC_BAD_INPUT with a hint; *out stays NULL where it is missing. */
MOSAIC_MUST_USE enum mosaic_status doc_baseline_load(void *memory, const char *path, bool may_miss,
                                                     struct baseline **out,
                                                     struct diag_list *diags);
/* free() the text. */
MOSAIC_MUST_USE enum mosaic_status doc_baseline_save(const struct baseline *baseline, char **text,
                                                     struct status_error *err);

#endif
