// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * An expert layer as exec/expert_dispatch.h runs it: plain expert parallelism over threads as
 * ranks, one chunk, an even router.  Its backward dispatches the tokens again and makes the
 * experts' interior anew; it is timed as the layer with both passes less the layer with one, run
 * after each other.
 */
#include "layer.h"

#include <math.h>
#include <string.h>

static enum mosaic_status layer_body(void *context, struct rank *rank, struct status_error *err) {
    struct host_layer *const l = context;
    static const struct moe_rules rules = {.is_balanced = false};
    struct host_layer_part *const part = &l->parts[rank->index];
    const struct moe_job job = {&l->shape, &rules, &part->batch};
    TRY(rank_barrier(rank, err));
    if (rank->index == 0)
        l->begin_s = host_clock_s();
    TRY(expert_dispatch_run(&job, rank, &part->result, err));
    TRY(rank_barrier(rank, err));
    if (rank->index == 0)
        l->end_s = host_clock_s();
    return MOSAIC_OK;
}

double host_layer_time_s(struct host_layer *l, bool with_backward) {
    struct status_error err;
    for (int r = 0; r < l->ranks; ++r)
        l->parts[r].batch.dy = with_backward ? l->parts[r].dy : NULL;
    if (ranks_run(l->ranks, layer_body, l, NULL, NULL, &err) != MOSAIC_OK)
        return 0.0;
    return l->end_s - l->begin_s;
}

static bool part_take(struct host_job *job, struct host_layer *l, int index) {
    struct host_layer_part *const p = &l->parts[index];
    const size_t tokens = l->tokens, top_k = (size_t)l->shape.top_k;
    const size_t experts = (size_t)l->shape.experts, hidden = (size_t)l->shape.expert.hidden;
    const size_t weights = experts / (size_t)l->ranks * expert_weight_count(&l->shape.expert);
    /* One block a kind for all ranks would bind their parts together in the caches. */
    float *const floats =
        job_floats(job, 2 * tokens * hidden + tokens * top_k + weights, (unsigned)index + 1);
    float *const results =
        job_take(job, 2 * tokens * hidden + tokens * top_k + weights, sizeof *results);
    int *const routes = job_take(job, tokens * top_k, sizeof *routes);
    if (!floats || !results || !routes)
        return false;
    const size_t wide = tokens * hidden, all = 2 * wide + tokens * top_k + weights;
    for (size_t i = 0; i < all; ++i)
        floats[i] *= 0.0625F;
    /* In turn over all experts: as even as their number lets it be, whatever the tokens. */
    for (size_t i = 0; i < tokens * top_k; ++i)
        routes[i] = (int)((i + (size_t)index) % experts);
    p->dy = floats + wide;
    p->batch = (struct moe_batch){.tokens = (long)tokens,
                                  .x = floats,
                                  .experts = routes,
                                  .gates = floats + 2 * wide,
                                  .weights = floats + 2 * wide + tokens * top_k,
                                  .dy = p->dy};
    p->result = (struct moe_result){.y = results,
                                    .dx = results + wide,
                                    .gate_gradients = results + 2 * wide,
                                    .expert_gradients = results + 2 * wide + tokens * top_k};
    return true;
}

bool host_layer_take(struct host_job *job, struct host_layer *l) {
    const size_t experts = job_size(job, "experts"), ranks = job_size(job, "ranks");
    *l = (struct host_layer){.ranks = (int)ranks,
                             .tokens = job_size(job, "tokens"),
                             .shape = {(int)experts,
                                       (int)job_size(job, "top_k"),
                                       {(int)job_size(job, "hidden"), (int)job_size(job, "ffn")}}};
    if (ranks > (size_t)job->host->devices || ranks > HOST_LAYER_RANKS)
        return job_refuse(job, REFUSED_UNSUPPORTED, "%zu ranks, the machine has %d devices", ranks,
                          job->host->devices);
    if (experts % ranks != 0)
        return job_refuse(job, REFUSED_UNSUPPORTED, "%zu experts do not divide among %zu ranks",
                          experts, ranks);
    const double rows = (double)l->tokens * (double)l->shape.top_k;
    const double matrix = (double)l->shape.expert.hidden * (double)l->shape.expert.inner;
    /* 6 forward, 4 again and 12 backward for a row and element of a matrix. */
    if (!job_foresee(job, 22.0 * rows * matrix, job->host->plain_flop_per_s, 0.0))
        return false;
    for (int r = 0; r < l->ranks; ++r)
        if (!part_take(job, l, r))
            return false;
    return true;
}

/* ---- verification: the last token of rank 0 against the undivided layer, in double ---- */

static double sigmoid(double g) {
    return 1.0 / (1.0 + exp(-g));
}

static const float *weights_of(const struct host_layer *l, int expert) {
    const int local = l->shape.experts / l->ranks;
    return l->parts[expert / local].batch.weights +
           (size_t)(expert % local) * expert_weight_count(&l->shape.expert);
}

/* Output h of the token, and with a gradient of that output, adds to the input's (h as well). */
static double route_output(const struct host_layer *l, size_t token, size_t slot, size_t h,
                           double *dx) {
    const struct moe_batch *const b = &l->parts[0].batch;
    const size_t hidden = (size_t)l->shape.expert.hidden, inner = (size_t)l->shape.expert.inner;
    const size_t route = token * (size_t)l->shape.top_k + slot;
    const float *const gate = weights_of(l, b->experts[route]), *const up = gate + hidden * inner;
    const float *const down = up + hidden * inner, *const x = b->x + token * hidden;
    const float *const dy = l->parts[0].dy + token * hidden;
    const double weight = (double)b->gates[route];
    double y = 0.0;
    for (size_t i = 0; i < inner; ++i) {
        double g = 0.0, u = 0.0, back = 0.0;
        for (size_t k = 0; k < hidden; ++k) {
            g += (double)x[k] * (double)gate[k * inner + i];
            u += (double)x[k] * (double)up[k * inner + i];
            back += (double)dy[k] * (double)down[i * hidden + k];
        }
        const double s = sigmoid(g);
        y += weight * g * s * u * (double)down[i * hidden + h];
        *dx += weight * back *
               (u * s * (1.0 + g * (1.0 - s)) * (double)gate[h * inner + i] +
                g * s * (double)up[h * inner + i]);
    }
    return y;
}

bool host_layer_is_right(const struct host_layer *l, bool with_backward) {
    const size_t hidden = (size_t)l->shape.expert.hidden, token = l->tokens - 1;
    const size_t h = 7919 % hidden;
    double y = 0.0, dx = 0.0;
    for (size_t slot = 0; slot < (size_t)l->shape.top_k; ++slot)
        y += route_output(l, token, slot, h, &dx);
    const struct moe_result *const r = &l->parts[0].result;
    const double y_error = fabs((double)r->y[token * hidden + h] - y);
    const double dx_error = fabs((double)r->dx[token * hidden + h] - dx);
    return y_error <= 1e-4 * (1.0 + fabs(y)) &&
           (!with_backward || dx_error <= 1e-4 * (1.0 + fabs(dx)));
}

/* ---- the job ---- */

struct layer_job {
    struct host_layer layer;
    bool is_backward;
};

/* Both passes less the first one.  Where other work came between, the difference may be none: then
 * once more. */
static double backward_time_s(struct host_layer *l) {
    enum { TRIES = 8 };
    for (int i = 0; i < TRIES; ++i) {
        const double forward_s = host_layer_time_s(l, false);
        const double both_s = host_layer_time_s(l, true);
        if (forward_s > 0.0 && both_s > forward_s)
            return both_s - forward_s;
    }
    return 0.0;
}

static double layer_timed(void *context, long times) {
    struct layer_job *const j = context;
    double sum_s = 0.0;
    for (long i = 0; i < times; ++i) {
        const double time_s =
            j->is_backward ? backward_time_s(&j->layer) : host_layer_time_s(&j->layer, false);
        if (!(time_s > 0.0))
            return 0.0;
        sum_s += time_s;
    }
    return sum_s;
}

static bool layer_verify(void *context) {
    const struct layer_job *const j = context;
    return host_layer_is_right(&j->layer, j->is_backward);
}

bool moe_layer_measure(struct host_job *job) {
    struct layer_job j = {.is_backward = job_is(job, "pass", "backward")};
    if (!host_layer_take(job, &j.layer))
        return false;
    const struct moe_result *const result = &j.layer.parts[0].result;
    const struct host_work work = {.context = &j,
                                   .timed = layer_timed,
                                   .verify = layer_verify,
                                   .result = j.is_backward ? result->dx : result->y,
                                   .result_count =
                                       j.layer.tokens * (size_t)j.layer.shape.expert.hidden};
    return job_measure(job, &work);
}
