// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The four live sets that the memory schedules of arXiv 2609.14306 bound (its Table 1), of the
 * fullest stage of one point, with and without the schedule, and the phases of a step that they
 * are alive in:
 *   dispatch    interior of routed rows (and those kept), the all-to-all's buffers
 *   vocabulary  logits, what moves, the head's weight and gradient as a rank works with them
 *   boundaries  activations kept at the layers
 *   optimizer   state on the device, or the buckets that pass through
 * "Without" is the same point evaluated with the keys of that schedule off.  Sets are disjoint; a
 * step's peak is what is resident and the fullest phase, their sum only a guarantee.  Everything
 * comes from the descriptors that pricing and executors share.  Default estimator only.
 */
#ifndef MOSAIC_STEP_LIVE_SETS_H
#define MOSAIC_STEP_LIVE_SETS_H

#include "step/expert_schedule.h"
#include "step/memory.h"
#include "step/ring_head.h"

enum live_set_kind { LIVE_DISPATCH, LIVE_VOCABULARY, LIVE_BOUNDARIES, LIVE_OPTIMIZER, LIVE_SETS };

/* One GPU of the stage. */
struct live_set {
    bool is_on;
    double before_bytes, bytes; /* without and with the schedule */
    /* Whatever the router does to the all-to-all's buffers; rows inside the experts are those of
     * the stated routing.  The others are fixed at launch. */
    double guarantee_bytes;
    double host_bytes;
    double link_bytes; /* a step, all directions: what the schedule itself sends */
    double extra_s;    /* a step: predicted with it less without */
    double extra_flop; /* a step, on this GPU: run once more, at the same routing */
};

enum live_phase_kind {
    LIVE_RESIDENT, /* in every phase */
    LIVE_FORWARD,  /* the last layer's */
    LIVE_HEAD,
    LIVE_BACKWARD, /* the last layer's */
    LIVE_STEP,     /* of the optimizer */
    LIVE_PHASES
};

/* X(member): bytes by part; a phase's sum to its total. */
#define LIVE_PARTS(X)                                                                              \
    X(resident)  /* weights, gradients, state, graphs */                                           \
    X(kept)      /* activations for backward */                                                    \
    X(interior)  /* of a layer */                                                                  \
    X(exchange)  /* the all-to-all's */                                                            \
    X(logits)    /* and what moves */                                                              \
    X(gathered)  /* sharded weights and gradients */                                               \
    X(workspace) /* of weight gradients, copies to and from the host */                            \
    X(staging)   /* the optimizer's buckets */

struct live_phase {
#define LIVE_MEMBER(name) double name;
    LIVE_PARTS(LIVE_MEMBER)
#undef LIVE_MEMBER
    double total_bytes;
    double held_bytes; /* with fragmentation and what the runtime takes */
};

struct live_sets {
    int stage;                    /* the fullest */
    struct stage_content content; /* its */
    double in_flight;             /* micro-batches */
    struct memory_items memory;   /* as step_predict has it */
    double guarantee_bytes;       /* the sum over phases; 0 with every schedule off */
    struct live_set sets[LIVE_SETS];
    struct live_phase phases[LIVE_PHASES]; /* all zero: not on this stage */
    /* The largest, which memory.total counts, and the one that runs out after it. */
    enum live_phase_kind fullest, next;
    /* What streams. */
    struct expert_schedule routes;
    struct ring_head ring;
    struct boundary_offload boundaries; /* of a micro-batch; nothing where it is off */
    struct state_stream stream;         /* nothing where it is off */
};

/* The mesh as its fullest stage sees it: with what that recomputes, where stages differ. */
struct mesh live_mesh(const struct step_context *ctx, const struct layer_table *table,
                      const struct mesh *mesh, const struct split *split);
void live_sets_of(const struct step_context *ctx, const struct layer_table *table,
                  const struct mesh *mesh, const struct split *split, struct live_sets *out);

/* "expert dispatch", "PipelinedLLEP", "forward". */
const char *live_set_name(enum live_set_kind set);
const char *live_schedule_name(enum live_set_kind set);
const char *live_phase_name(enum live_phase_kind phase);
/* Name and bytes of part i in the order of the list; NULL beyond the last. */
const char *live_part(const struct live_phase *phase, int i, double *bytes);

/* Tokens of a micro-batch that a rank routes. */
double live_routed_tokens(const struct step_context *ctx, const struct mesh *mesh);
/* The optimizer's buckets of a stage, nothing where it does not stream. */
struct state_stream live_stream_of(const struct step_context *ctx, const struct layer_table *table,
                                   const struct mesh *mesh, const struct stage_content *content);

#endif
