// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What the importers of measurements share: what was asked, what was read, what is doubted.  An
 * importer turns a file into samples (machine/sample.h), so that one fit serves them all; what it
 * takes a figure to mean is said among `definitions`.  A row that cannot be right is left out with
 * a warning that names its line; a file that cannot be right is an error.
 */
#ifndef MOSAIC_DOC_IMPORT_SET_H
#define MOSAIC_DOC_IMPORT_SET_H

#include "doc/document.h"
#include "doc/record.h"
#include "machine/sample.h"

#define IMPORT_KIND_LIST(X)                                                                        \
    X(IMPORT_NCCL_TESTS, "nccl-tests", "collectives: text, CSV or JSON of nccl-tests, rccl-tests") \
    X(IMPORT_NVBANDWIDTH, "nvbandwidth", "copies between host and device: text or JSON")           \
    X(IMPORT_DEEPEP, "deepep", "dispatch and combine: output of DeepEP's tests")                   \
    X(IMPORT_KERNELS, "kernels", "kernels that were timed one by one, a row each: CSV")            \
    X(IMPORT_STEPS, "steps", "measured training steps, a row each: CSV")                           \
    X(IMPORT_SAMPLES, "samples", "what probes measured: a journal, or a document's measurements")

#define IMPORT_KIND_ENUM(id, name, text) id,
enum import_kind { IMPORT_KIND_LIST(IMPORT_KIND_ENUM) IMPORT_KINDS };
#undef IMPORT_KIND_ENUM
const char *import_kind_name(enum import_kind kind);

struct import_settings {
    const char *cluster;            /* document of the machine, or NULL */
    const char *device;             /* its name, where there is no cluster */
    const char *name;               /* of the document to be made */
    const char *over;               /* what it is laid over, or NULL */
    const char *software, *licence; /* as written into it, or NULL */
    /* Of the samples, which the model's bf16 stands for; NULL: bf16, fp32 where no sample has it.
     */
    const char *dtype;
    int collective;            /* enum collective_kind where the file does not say; -1 */
    int ranks, ranks_per_node; /* the same; 0 */
    /* Of kernel tables: "within" or "apart" as the times of 8- and 4-bit GEMMs hold the
     * quantisation of their input or not; NULL: the table says. */
    const char *quantisation;
    bool strict;  /* a warning is an error */
    bool journal; /* the result has the samples as one */
};
void import_settings_init(struct import_settings *settings);
/* KEY=VALUE: cluster, device, name, over, software, licence, dtype, collective, ranks,
 * ranks_per_node, quantisation, strict=on, journal=on.  Points into `pair`. */
MOSAIC_MUST_USE enum mosaic_status import_settings_put(struct import_settings *settings,
                                                       const char *pair, struct status_error *err);

/* A scalar that no sample stands for. */
struct import_value {
    enum scalar scalar;
    double value;
    size_t count; /* figures behind it */
    const char *method, *range;
};
enum { IMPORT_VALUES = 4 };

struct import_texts {
    const char **items;
    size_t count;
};

struct import_set {
    void *memory; /* talloc context of it all */
    struct diag_list *diags;
    const struct import_settings *settings;
    const struct cluster *cluster; /* or NULL */
    struct sample *samples;
    size_t count;
    struct import_value value[IMPORT_VALUES];
    size_t value_count;
    const char *steps; /* lines of `measured_steps:`, or NULL */
    size_t step_count;
    struct import_texts definitions, warnings;
    struct document_input *inputs;
    size_t input_count;
    size_t rows, refused; /* rows of results read, and left out as wrong */
    char device[64], software[256];
    struct record record; /* where the samples come from, where that is told by quantity */
};

/* A file as a source, counted among the inputs. */
MOSAIC_MUST_USE enum mosaic_status import_read(struct import_set *set, const char *path,
                                               struct source **source);
MOSAIC_MUST_USE enum mosaic_status import_add(struct import_set *set, const struct sample *sample);
/* "FILE:LINE: text" (source NULL: the text alone); line 0: the whole file. */
void import_warn(struct import_set *set, const struct source *source, long line, const char *format,
                 ...) __attribute__((format(printf, 4, 5)));
/* Once each. */
void import_define(struct import_set *set, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* An error at a line; MOSAIC_BAD_INPUT. */
enum mosaic_status import_refuse(struct import_set *set, const struct source *source, long line,
                                 const char *format, ...) __attribute__((format(printf, 4, 5)));
MOSAIC_MUST_USE enum mosaic_status import_no_memory(struct import_set *set);

/* The importers, each of one file. */
MOSAIC_MUST_USE enum mosaic_status import_nccl_tests(struct import_set *set, const char *path);
MOSAIC_MUST_USE enum mosaic_status import_nvbandwidth(struct import_set *set, const char *path);
MOSAIC_MUST_USE enum mosaic_status import_deepep(struct import_set *set, const char *path);
MOSAIC_MUST_USE enum mosaic_status import_kernels(struct import_set *set, const char *path);
MOSAIC_MUST_USE enum mosaic_status import_steps(struct import_set *set, const char *path);
MOSAIC_MUST_USE enum mosaic_status import_samples(struct import_set *set, const char *path);
MOSAIC_MUST_USE enum mosaic_status import_file(struct import_set *set, enum import_kind kind,
                                               const char *path);

#endif
