// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Memory of one GPU of one stage by item.  What all stages of a mesh share (bytes a parameter, a
 * layer and micro-batch, buffers) is resolved once; a stage then costs a few products.
 */
#ifndef MOSAIC_STEP_MEMORY_H
#define MOSAIC_STEP_MEMORY_H

#include "step/boundary_offload.h"
#include "step/data_parallel.h"

/* Bytes a parameter, dense and expert ones. */
struct state_bytes {
    double weights[2], gradients[2], optimizer[2];
    double device[2]; /* all of them */
    double host[2];   /* optimizer state in host memory */
    /* The same of the part of a head that other ranks of its ring hold: what is shared out among
     * all ranks holds a part of the whole head. */
    double head_weights, head_gradients, head_optimizer, head_host;
};

struct memory_form {
    const struct step_context *ctx;
    const struct layer_table *table;
    const struct mesh *mesh;
    struct state_bytes state;
    bool uses_host;           /* something waits in host memory */
    double away_share;        /* of what may leave a layer's kept activations */
    double kept[LAYER_KINDS]; /* a layer and micro-batch, routed ones as well */
    double here[LAYER_KINDS], here_routed[LAYER_KINDS]; /* of it on the device, routed apart */
    double away[LAYER_KINDS];                           /* and in host memory */
    double interior[LAYER_KINDS]; /* beyond what is kept, while a layer's backward runs */
    double replayed,
        replayed_routed;       /* share that CUDA graphs add of activations, of routed ones */
    double exchange;           /* buffers of the all-to-all, where a stage has experts */
    double gathered;           /* weights and gradients that stand gathered */
    double workspace;          /* of weight gradients */
    bool has_boundaries;       /* some layer boundaries may wait in host memory */
    double exchange_guarantee; /* of the all-to-all's buffers under any router */
    bool has_guarantee;        /* some memory schedule is on */
    double runtime;            /* outside the framework's allocator */
};

void memory_form_of(const struct step_context *ctx, const struct layer_table *table,
                    const struct mesh *mesh, struct memory_form *out);
/* Layer boundaries of one micro-batch of a stage, where some wait on the host. */
void memory_boundaries(const struct step_context *ctx, const struct layer_table *table,
                       const struct stage_content *content, double flight,
                       struct boundary_offload *out);
/* Items and sum of one stage with so many micro-batches in flight. */
void memory_of_stage(const struct memory_form *form, const struct stage_content *content,
                     double flight, struct memory_items *out);
/* The same of the fullest stage, the first of equals; returns which run it is. */
int memory_fullest(const struct memory_form *form, const struct stage_run *runs, int count,
                   struct memory_items *out);
/* The sum over all phases and for any router, which no schedule of the execution exceeds: what
 * memory_of_stage says is the largest phase at the stated routing. */
double memory_guarantee(const struct memory_form *form, const struct stage_content *content,
                        double flight);
/* memory_verdict, and tight from less on where the sizes of what is allocated vary. */
enum verdict memory_verdict_of(const struct memory_form *form, double total_bytes);
/* Bytes that one GPU of the stage keeps in host memory. */
double memory_host_bytes(const struct memory_form *form, const struct stage_content *content,
                         double flight);

/* GPUs of stage i that sit on node n: ranks lie stage after stage, PP outermost. */
int stage_gpus_on_node(const struct step_context *ctx, const struct mesh *mesh, int stage,
                       int node);
/* The most of them on any node. */
int stage_gpus_most(const struct step_context *ctx, const struct mesh *mesh, int stage);
/* Host bytes of the fullest node, by what each stage's GPUs keep there. */
double memory_host_node_bytes(const struct step_context *ctx, const struct mesh *mesh,
                              const double *stage_bytes);

/* Whether a node's host has room for that, where its memory is stated. */
bool memory_host_fits(const struct step_context *ctx, double node_bytes);

#endif
