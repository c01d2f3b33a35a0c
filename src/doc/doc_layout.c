// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * `search.layout` of a plan: what each degree may be.  An axis left out is free, one with `not` but
 * for its values.
 */
#include "doc/plan_parts.h"
#include "plan/mesh_walk.h"

#include <stdlib.h>
#include <string.h>

enum { DEGREE_MAX = CLUSTER_MAX_GPUS, VPP_MAX = GEOMETRY_MAX_LAYERS, MICRO_BATCH_MAX = 1 << 20 };

static const char *const recompute_words[] = {"none", "selective", "full", NULL};
/* Interleaving follows from vpp. */
static const char *const schedule_words[] = {"1f1b", "zero_bubble", "dualpipe", NULL};
static const enum schedule schedule_of[] = {SCHEDULE_1F1B, SCHEDULE_ZERO_BUBBLE, SCHEDULE_DUALPIPE};
/* One set of ranks in which groups overlap: none of its own for matrices or stages. */
static const char *const mesh_words[] = {"folded", "overlapping", NULL};
enum { MESH_OVERLAPPING = 1 };
enum { SCHEDULE_WORDS = sizeof schedule_of / sizeof schedule_of[0] };

#define AXIS(member, most, text)                                                                   \
    {                                                                                              \
        .key = #member, .kind = FIELD_LIST, .item = FIELD_INT,                                     \
        .flags = FIELD_UNIQUE | FIELD_EXCEPT_OK, FIELD_AT(struct layout_section, member),          \
        .min = 1, .max = (most), .max_count = SPACE_AXIS_MAX, .help = (text)                       \
    }
static const struct field layout_fields[] = {
    AXIS(tp, DEGREE_MAX, "tensor-parallel degrees; free when left out"),
    AXIS(cp, DEGREE_MAX, "context-parallel degrees; free when left out"),
    AXIS(pp, LAYOUT_MAX_PP, "pipeline stages; free when left out"),
    AXIS(vpp, VPP_MAX, "chunks of a stage (interleaved schedule); free when left out"),
    AXIS(ep, DEGREE_MAX, "expert-parallel degrees; free when left out"),
    AXIS(etp, DEGREE_MAX, "tensor-parallel degrees of the experts; free when left out"),
    AXIS(micro_batch, MICRO_BATCH_MAX, "sequences of a micro-batch; free when left out"),
    {.key = "recompute",
     .kind = FIELD_LIST,
     .item = FIELD_ENUM,
     .words = recompute_words,
     .flags = FIELD_UNIQUE,
     FIELD_AT(struct layout_section, recompute),
     .max_count = RECOMPUTE_MODES,
     .help = "activation recomputation; free when left out"},
    {.key = "schedule",
     .kind = FIELD_LIST,
     .item = FIELD_ENUM,
     .words = schedule_words,
     .fallback = "[1f1b]",
     .flags = FIELD_UNIQUE,
     FIELD_AT(struct layout_section, schedule),
     .max_count = SCHEDULE_WORDS,
     .help = "pipeline schedules; with vpp above 1 always interleaved 1f1b"},
    {.key = "stages",
     .kind = FIELD_CUSTOM,
     .parse = plan_stages_parse,
     .forms = "list of whole numbers or of mappings, or pipeline layout string",
     FIELD_AT(struct layout_section, stages),
     .help = "layers of each stage, or of each of PP x VPP chunks; free when left out"},
    {.key = "mesh",
     .kind = FIELD_ENUM,
     .words = mesh_words,
     .fallback = "folded",
     FIELD_AT(struct layout_section, mesh),
     .help = "overlapping: cp, ep and vocab_ring are groups of one set of ranks, each a divisor of "
             "it; tp, pp, vpp and etp are 1"},
    {.key = "allow_extrapolation",
     .kind = FIELD_BOOL,
     .fallback = "false",
     FIELD_AT(struct layout_section, allow_extrapolation),
     .help = "free axes may take rank counts whose collectives have not been measured"},
};

static enum mosaic_status check(struct binder *binder, const struct node *node, void *target) {
    return plan_stages_pin(binder, node, target);
}

const struct schema plan_layout_schema = {.name = "layout",
                                          .fields = layout_fields,
                                          .count = sizeof layout_fields / sizeof layout_fields[0],
                                          .size = sizeof(struct layout_section),
                                          .check = check};

static int compare_ints(const void *a, const void *b) {
    int x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

static void fill(const struct int_list *list, struct axis *axis) {
    axis->count = (int)list->count;
    for (size_t i = 0; i < list->count; ++i)
        axis->values[i] = list->items[i];
    if (list->count > 0)
        qsort(axis->values, list->count, sizeof axis->values[0], compare_ints);
    axis->forbidden_count = (int)list->forbidden_count;
    for (size_t i = 0; i < list->forbidden_count; ++i)
        axis->forbidden[i] = list->forbidden[i];
}

/* The degrees that an overlapping mesh has none of. */
enum { NO_DEGREES = 4 };
static const char *const no_degree_keys[NO_DEGREES] = {"tp", "pp", "vpp", "etp"};

static void pin_overlapping(struct layout_space *space) {
    struct axis *const axes[NO_DEGREES] = {&space->tp, &space->pp, &space->vpp, &space->etp};
    for (int i = 0; i < NO_DEGREES; ++i)
        if (axes[i]->count == 0) {
            axes[i]->count = 1;
            axes[i]->values[0] = 1;
        }
}

static enum mosaic_status check_overlapping(struct loader *l, const struct node *node,
                                            const struct layout_space *space) {
    const struct node *const mesh = node_find(node, "mesh");
    const struct axis *const axes[NO_DEGREES] = {&space->tp, &space->pp, &space->vpp, &space->etp};
    if (!mesh || !mesh->text || strcmp(mesh->text, mesh_words[MESH_OVERLAPPING]) != 0)
        return MOSAIC_OK;
    for (int i = 0; i < NO_DEGREES; ++i)
        if (axes[i]->count != 1 || axes[i]->values[0] != 1) {
            const struct place place = loader_place(node, no_degree_keys[i]);
            (void)diag_error(l->diags, &place, "an overlapping mesh has no '%s' above 1",
                             no_degree_keys[i]);
            diag_hint(l->diags, "mesh: folded takes all degrees");
            return MOSAIC_BAD_INPUT;
        }
    return MOSAIC_OK;
}

void plan_layout(const struct layout_section *s, struct layout_space *space) {
    memset(space, 0, sizeof *space);
    fill(&s->tp, &space->tp);
    fill(&s->cp, &space->cp);
    fill(&s->pp, &space->pp);
    fill(&s->vpp, &space->vpp);
    fill(&s->ep, &space->ep);
    fill(&s->etp, &space->etp);
    fill(&s->micro_batch, &space->micro_batch);
    for (int i = 0; i < RECOMPUTE_MODES; ++i)
        space->recompute[i] = s->recompute.count == 0;
    for (size_t i = 0; i < s->recompute.count; ++i)
        space->recompute[s->recompute.items[i]] = true;
    for (size_t i = 0; i < s->schedule.count; ++i)
        space->schedule[schedule_of[s->schedule.items[i]]] = true;
    space->allow_extrapolation = s->allow_extrapolation;
    if (s->mesh == MESH_OVERLAPPING)
        pin_overlapping(space);
}

/* The nearest number from 1 up that divides `whole`. */
static int nearest_divisor(int whole, int value) {
    if (value > whole)
        return whole;
    for (int off = 0; off < whole; ++off) {
        if (value - off >= 1 && whole % (value - off) == 0)
            return value - off;
        if (value + off <= whole && whole % (value + off) == 0)
            return value + off;
    }
    return 1;
}

static bool any_divides(const struct axis *axis, int whole) {
    for (int i = 0; i < axis->count; ++i)
        if (whole % axis->values[i] == 0)
            return true;
    for (int d = 1; axis->count == 0 && d <= whole; ++d)
        if (whole % d == 0 && !axis_forbids(axis, d))
            return true;
    return false;
}

/* At least one value of the axis divides `whole`. */
static enum mosaic_status check_divides(struct loader *l, const struct node *node, const char *key,
                                        const struct axis *axis, int whole, const char *of) {
    if (any_divides(axis, whole))
        return MOSAIC_OK;
    /* PP may follow from the stages. */
    const struct place place = loader_place(node, node_find(node, key) ? key : "stages");
    const int value = axis->values[0];
    if (axis->count == 0)
        return diag_error(l->diags, &place, "%s: its `not` leaves no divisor of %s, %d", key, of,
                          whole);
    if (axis->count == 1)
        (void)diag_error(l->diags, &place, "%s %d does not divide %s: %d mod %d = %d", key, value,
                         of, whole, value, whole % value);
    else
        (void)diag_error(l->diags, &place, "%s: none of its %d values divides %s, %d", key,
                         axis->count, of, whole);
    diag_hint(l->diags, "%d would", nearest_divisor(whole, value));
    return MOSAIC_BAD_INPUT;
}

/* Whether some of the numbers of nodes to choose from goes with the axis. */
static bool divides_some_fleet(const struct axis *axis, const struct problem *p) {
    const struct axis *const nodes = &p->fleet.nodes;
    for (int i = 0; i < nodes->count; ++i)
        if (any_divides(axis, nodes->values[i] * p->cluster.gpus_per_node))
            return true;
    return false;
}

/* EP must divide the experts of some geometry; a dense model takes EP 1 only. */
static enum mosaic_status check_experts(struct loader *l, const struct node *node,
                                        const struct problem *p) {
    const struct axis *const ep = &p->layouts.ep;
    if (ep->count == 0)
        return MOSAIC_OK;
    for (size_t i = 0; i < p->geometries.count; ++i) {
        const int experts = p->geometries.items[i].experts > 0 ? p->geometries.items[i].experts : 1;
        for (int k = 0; k < ep->count; ++k)
            if (experts % ep->values[k] == 0)
                return MOSAIC_OK;
    }
    const struct place place = loader_place(node, "ep");
    if (p->geometries.count == 1)
        return diag_error(l->diags, &place, "ep %d does not divide the %d experts%s", ep->values[0],
                          p->geometries.items[0].experts,
                          p->geometries.items[0].experts == 0 ? " of a dense model" : "");
    return diag_error(l->diags, &place,
                      "ep: none of its %d values divides the experts of any of the %zu geometries",
                      ep->count, p->geometries.count);
}

/* Stages pin pp and vpp. */
static enum mosaic_status check_stated(struct loader *l, const struct node *node,
                                       const struct layout_space *s) {
    const struct {
        const char *key;
        const struct axis *axis;
    } pinned[] = {{"pp", &s->pp}, {"vpp", &s->vpp}};
    for (size_t i = 0; i < sizeof pinned / sizeof pinned[0]; ++i)
        if (pinned[i].axis->count > 0 && axis_forbids(pinned[i].axis, pinned[i].axis->values[0])) {
            const struct place place = loader_place(node, pinned[i].key);
            return diag_error(l->diags, &place, "the stages ask for %s %d, which its `not` forbids",
                              pinned[i].key, pinned[i].axis->values[0]);
        }
    return MOSAIC_OK;
}

enum mosaic_status plan_layout_check(struct loader *l, const struct node *node,
                                     const struct problem *p) {
    if (!node)
        return MOSAIC_OK;
    static const char world[] = "the GPUs of the cluster";
    const struct layout_space *const s = &p->layouts;
    const struct {
        const char *key;
        const struct axis *axis;
    } degrees[] = {
        {"tp", &s->tp}, {"cp", &s->cp}, {"pp", &s->pp}, {"ep", &s->ep}, {"etp", &s->etp}};
    const int gpus = cluster_gpus(&p->cluster);
    enum mosaic_status status = check_overlapping(l, node, s);
    if (status == MOSAIC_OK)
        status = check_stated(l, node, s);
    for (size_t i = 0; i < sizeof degrees / sizeof degrees[0]; ++i)
        if (!divides_some_fleet(degrees[i].axis, p) &&
            check_divides(l, node, degrees[i].key, degrees[i].axis, gpus, world) != MOSAIC_OK)
            status = MOSAIC_BAD_INPUT;
    if (check_divides(l, node, "micro_batch", &s->micro_batch, p->workload.global_batch,
                      "the global batch") != MOSAIC_OK)
        status = MOSAIC_BAD_INPUT;
    return status == MOSAIC_OK ? check_experts(l, node, p) : status;
}
