// SPDX-License-Identifier: GPL-3.0-or-later
/* Degrees, their arithmetic, and the even split of layers over stages. */
#include "step/layout.h"

const char *schedule_name(enum schedule schedule) {
    static const char *const names[SCHEDULES] = {"1f1b", "interleaved", "zero_bubble", "dualpipe"};
    return (unsigned)schedule < SCHEDULES ? names[schedule] : "unknown";
}

const char *optimizer_name(enum optimizer optimizer) {
    static const char *const names[OPTIMIZERS] = {"adamw", "muon"};
    return (unsigned)optimizer < OPTIMIZERS ? names[optimizer] : "unknown";
}

int mesh_edp(const struct mesh *m) {
    return m->tp * m->cp * m->dp / (m->ep * m->etp);
}

enum schedule mesh_schedule(const struct mesh *m) {
    return m->vpp > 1 ? SCHEDULE_INTERLEAVED : m->schedule;
}

double workload_imbalance(const struct workload *w, int ep) {
    if (ep <= 1)
        return 1.0; /* every row stays on the GPU that routed it */
    if (!w->expert_tokens || w->expert_count < 1 || w->expert_count % ep != 0)
        return w->imbalance;
    const int each = w->expert_count / ep;
    double total = 0.0, busiest = 0.0;
    for (int rank = 0; rank < ep; ++rank) {
        double sum = 0.0;
        for (int i = 0; i < each; ++i)
            sum += w->expert_tokens[rank * each + i];
        total += sum;
        busiest = sum > busiest ? sum : busiest;
    }
    return total > 0.0 ? busiest * (double)ep / total : w->imbalance;
}

int mesh_compare(const struct mesh *a, const struct mesh *b) {
    const int left[] = {a->tp,
                        a->cp,
                        a->pp,
                        a->vpp,
                        a->ep,
                        a->etp,
                        a->micro_batch,
                        (int)a->recompute,
                        (int)a->schedule,
                        a->way};
    const int right[] = {b->tp,
                         b->cp,
                         b->pp,
                         b->vpp,
                         b->ep,
                         b->etp,
                         b->micro_batch,
                         (int)b->recompute,
                         (int)b->schedule,
                         b->way};
    for (size_t i = 0; i < sizeof left / sizeof left[0]; ++i)
        if (left[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    return 0;
}

void split_even(int layers, int stages, struct split *out) {
    const int floor_layers = layers / stages, longer = layers % stages;
    /* The ends carry embedding and head: the longer stages go to the middle. */
    const int lead = (stages - longer) / 2;
    out->stages = stages;
    out->is_mixed = false;
    out->first[0] = 0;
    for (int i = 0; i < stages; ++i) {
        const int extra = i >= lead && i < lead + longer ? 1 : 0;
        out->first[i + 1] = (uint16_t)(out->first[i] + floor_layers + extra);
    }
}

const struct stated_stages *workload_stages(const struct workload *w, const struct mesh *m) {
    return w->stages && w->stages->pp == m->pp && w->stages->vpp == m->vpp ? w->stages : NULL;
}

bool stages_are_even(const struct stated_stages *s) {
    for (size_t i = 1; i < s->count; ++i)
        if (s->chunks[i].layers != s->chunks[0].layers)
            return false;
    return true;
}

bool split_first(const struct workload *w, const struct mesh *m, int layers, struct split *out) {
    const struct stated_stages *const stated = workload_stages(w, m);
    if (!stated) {
        split_even(layers, m->pp, out);
        return false;
    }
    *out = stated->split;
    out->is_mixed = out->is_mixed && stated->recompute == m->recompute;
    return true;
}
