// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * `search.layout.stages`: the layers of each pipeline chunk, as a list of numbers or as a pipeline
 * layout string of Megatron-LM.  Chunk i is on stage i mod PP, so PP x VPP of them pin both.  A
 * list has the embedding in its first chunk and MTP layers and the loss in its last; its entries
 * may say what their stages recompute, which pins that to the most of them.
 */
#include "doc/plan_parts.h"
#include "step/engine_rules.h"

#include <stdio.h>
#include <string.h>
#include <talloc.h>

enum { SUM_MAX = 160, EXAMPLE_MAX = 160 };

#define FORMS                                                                                      \
    "a list of layers by stage, [15, 16, 15, 15] or [{layers: 15, recompute: full}, ...], or a "   \
    "string, \"Et*15|t*16|t*15|t*15L\""

/* ---- reading ---- */

static struct pipeline_chunk *new_chunks(void *memory, size_t count) {
    return talloc_zero_array(memory, struct pipeline_chunk, (unsigned)count);
}

static enum mosaic_status open_list(struct binder *b, const struct node *node, size_t count,
                                    struct stages_section *out) {
    out->chunks = new_chunks(binder_memory(b), count);
    if (!out->chunks)
        return binder_error(b, node, "out of memory");
    out->chunks[0].embedding = true;
    out->chunks[count - 1].loss = true;
    out->count = count;
    out->is_list = true;
    return MOSAIC_OK;
}

static enum mosaic_status read_numbers(struct binder *b, const struct field *field,
                                       const struct node *node, struct stages_section *out) {
    const struct field layers = {.key = field->key,
                                 .kind = FIELD_LIST,
                                 .item = FIELD_INT,
                                 .max = GEOMETRY_MAX_LAYERS,
                                 .max_count = PIPELINE_MAX_LENGTH};
    struct int_list list = {0};
    TRY(binder_value(b, &layers, node, &list));
    TRY(open_list(b, node, list.count, out));
    for (size_t i = 0; i < list.count; ++i)
        out->chunks[i].layers = (uint16_t)list.items[i];
    return MOSAIC_OK;
}

struct stage_section {
    int layers, recompute;
};

static const char *const recompute_words[] = {"none", "selective", "full", NULL};
static const struct field stage_fields[] = {
    {.key = "layers",
     .kind = FIELD_INT,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct stage_section, layers),
     .max = GEOMETRY_MAX_LAYERS,
     .help = "layers of the stage, or of the chunk"},
    {.key = "recompute",
     .kind = FIELD_ENUM,
     .flags = FIELD_REQUIRED,
     .words = recompute_words,
     FIELD_AT(struct stage_section, recompute),
     .help = "what its stage recomputes"},
};
static const struct schema stage_schema = SCHEMA("stages", struct stage_section, stage_fields);

static enum mosaic_status read_entries(struct binder *b, const struct field *field,
                                       const struct node *node, struct stages_section *out) {
    const struct field entries = {.key = field->key,
                                  .kind = FIELD_LIST,
                                  .item = FIELD_MAPPING,
                                  .nested = &stage_schema,
                                  .max_count = PIPELINE_MAX_LENGTH};
    struct record_list list = {0};
    TRY(binder_value(b, &entries, node, &list));
    TRY(open_list(b, node, list.count, out));
    out->recompute = talloc_array(binder_memory(b), int, (unsigned)list.count);
    if (!out->recompute)
        return binder_error(b, node, "out of memory");
    const struct stage_section *const from = list.items;
    for (size_t i = 0; i < list.count; ++i) {
        out->chunks[i].layers = (uint16_t)from[i].layers;
        out->recompute[i] = from[i].recompute;
    }
    return MOSAIC_OK;
}

static enum mosaic_status read_list(struct binder *b, const struct field *field,
                                    const struct node *node, struct stages_section *out) {
    const bool is_detailed = node->count > 0 && node->items[0]->kind == NODE_MAPPING;
    return is_detailed ? read_entries(b, field, node, out) : read_numbers(b, field, node, out);
}

static enum mosaic_status read_string(struct binder *b, const struct node *node,
                                      struct stages_section *out) {
    struct pipeline_chunk *const chunks = new_chunks(binder_memory(b), PIPELINE_MAX_LENGTH);
    if (!chunks)
        return binder_error(b, node, "out of memory");
    struct status_error err = {0};
    if (pipeline_parse(node->text, chunks, PIPELINE_MAX_LENGTH, &out->count, &err) == MOSAIC_OK) {
        out->chunks = chunks;
        return MOSAIC_OK;
    }
    /* The place of the character, while it is on the line. */
    struct node at = *node;
    const long offset = err.column - 1 + (node->is_quoted ? 1 : 0);
    if (offset >= 0 && offset < at.place.span) {
        at.place.column += offset;
        at.place.span = 1;
    }
    (void)binder_error(b, &at, "%s", err.message);
    binder_hint(b, "expected: " FORMS);
    return MOSAIC_BAD_INPUT;
}

enum mosaic_status plan_stages_parse(struct binder *b, const struct field *field,
                                     const struct node *node, void *target) {
    struct stages_section *const out = target;
    if (node->kind == NODE_SEQUENCE)
        return read_list(b, field, node, out);
    if (node->kind == NODE_SCALAR)
        return read_string(b, node, out);
    (void)binder_error(b, node, "'stages' is a mapping");
    binder_hint(b, "expected: " FORMS);
    return MOSAIC_BAD_INPUT;
}

/* ---- PP and VPP ---- */

/* 0 where the axis is free. */
static enum mosaic_status only_value(struct binder *b, const struct node *layout, const char *key,
                                     const struct int_list *axis, int *value) {
    if (axis->count > 1) {
        (void)binder_error(b, node_find(layout, key),
                           "%s has %zu values, but 'stages' is for one pipeline", key, axis->count);
        binder_hint(b, "leave %s out, or give the one value of these stages", key);
        return MOSAIC_BAD_INPUT;
    }
    *value = axis->count == 1 ? axis->items[0] : 0;
    return MOSAIC_OK;
}

static enum mosaic_status pin_axis(struct binder *b, struct int_list *axis, int value) {
    if (axis->count == 1)
        return MOSAIC_OK;
    axis->items = talloc_array(binder_memory(b), int, 1);
    if (!axis->items)
        return binder_error(b, NULL, "out of memory");
    axis->items[0] = value;
    axis->count = 1;
    return MOSAIC_OK;
}

/* Chunks of one stage recompute alike, and the most of all is what the layout recomputes. */
static enum mosaic_status pin_recompute(struct binder *b, const struct node *layout, int stages,
                                        struct layout_section *s) {
    const int *const recompute = s->stages.recompute;
    const struct node *const node = node_find(layout, "stages");
    int most = 0;
    for (int i = 0; recompute && i < (int)s->stages.count; ++i) {
        most = recompute[i] > most ? recompute[i] : most;
        if (recompute[i] != recompute[i % stages])
            return binder_error(b, node,
                                "chunks %d and %d are on stage %d, but recompute differently: %s "
                                "and %s",
                                i % stages, i, i % stages, recompute_words[recompute[i % stages]],
                                recompute_words[recompute[i]]);
    }
    if (!recompute)
        return MOSAIC_OK;
    bool is_listed = s->recompute.count == 0;
    for (size_t i = 0; i < s->recompute.count; ++i)
        is_listed = is_listed || s->recompute.items[i] == most;
    if (!is_listed) {
        (void)binder_error(b, node_find(layout, "recompute"),
                           "recompute does not list %s, which some of the stages do",
                           recompute_words[most]);
        binder_hint(b, "leave recompute out, or give %s: the most of any stage",
                    recompute_words[most]);
        return MOSAIC_BAD_INPUT;
    }
    s->recompute.count = 0; /* or the list would be kept */
    return pin_axis(b, &s->recompute, most);
}

enum mosaic_status plan_stages_pin(struct binder *b, const struct node *layout,
                                   struct layout_section *s) {
    if (s->stages.count == 0)
        return MOSAIC_OK;
    const struct node *const node = node_find(layout, "stages");
    const int count = (int)s->stages.count;
    int pp, vpp;
    TRY(only_value(b, layout, "pp", &s->pp, &pp));
    TRY(only_value(b, layout, "vpp", &s->vpp, &vpp));
    const int given = pp > 0 ? pp : vpp > 0 ? vpp : 1;
    const int stages = pp > 0 ? pp : vpp > 0 ? count / vpp : count;
    const int turns = vpp > 0 ? vpp : pp > 0 ? count / pp : 1;
    if (pp > 0 && vpp > 0 && (long)pp * vpp != count)
        (void)binder_error(b, node, "stages has %d chunks, but PP %d x VPP %d = %ld", count, pp,
                           vpp, (long)pp * vpp);
    else if (count % given != 0)
        (void)binder_error(b, node,
                           "stages has %d chunks, which %s %d does not divide: %d mod %d = %d",
                           count, pp > 0 ? "PP" : "VPP", given, count, given, count % given);
    else if (stages > LAYOUT_MAX_PP)
        (void)binder_error(b, node, "stages has %d chunks: PP %d exceeds %d", count, stages,
                           (int)LAYOUT_MAX_PP);
    else {
        TRY(pin_axis(b, &s->pp, stages));
        TRY(pin_axis(b, &s->vpp, turns));
        return pin_recompute(b, layout, stages, s);
    }
    binder_hint(b, "PP x VPP chunks are due; without pp and vpp each chunk is a stage");
    return MOSAIC_BAD_INPUT;
}

/* ---- against the model ---- */

struct stating {
    struct loader *l;
    const struct node *node; /* of `stages` */
    const struct stages_section *section;
    const struct problem *problem;
    struct stated_stages *stages;
};

/* "3 + 29 x 2 + 2 x 0", cut where it is long. */
static const char *sum_text(const struct stated_stages *s, char text[static SUM_MAX]) {
    size_t used = 0, next;
    for (size_t i = 0; i < s->count; i = next) {
        for (next = i + 1; next < s->count && s->chunks[next].layers == s->chunks[i].layers;)
            ++next;
        const char *const plus = i > 0 ? " + " : "";
        char term[32];
        const int length =
            next - i == 1
                ? snprintf(term, sizeof term, "%s%d", plus, s->chunks[i].layers)
                : snprintf(term, sizeof term, "%s%zu x %d", plus, next - i, s->chunks[i].layers);
        if (used + (size_t)length + sizeof " + ..." > SUM_MAX) {
            (void)snprintf(text + used, SUM_MAX - used, " + ...");
            break;
        }
        memcpy(text + used, term, (size_t)length + 1);
        used += (size_t)length;
    }
    return text;
}

/* The stages of one model as even as can be, written as these are; "" where there are none. */
static const char *even_text(const struct stating *s, const struct geometry *g,
                             char text[static EXAMPLE_MAX]) {
    const struct stated_stages *const stages = s->stages;
    text[0] = '\0';
    if (stages->pp > g->layers)
        return text;
    struct split even;
    split_even(g->layers, stages->pp, &even);
    struct pipeline_chunk *const chunks = new_chunks(s->l->memory, stages->count);
    if (!chunks || pipeline_from_split(&even, stages->vpp, g->mtp_layers, chunks, stages->count,
                                       NULL) != MOSAIC_OK)
        return text;
    if (!s->section->is_list) {
        if (pipeline_print(chunks, stages->count, text, EXAMPLE_MAX, NULL) != MOSAIC_OK)
            text[0] = '\0';
        return text;
    }
    int used = 0;
    for (size_t i = 0; i < stages->count; ++i) {
        used += snprintf(text + used, EXAMPLE_MAX - (size_t)used, "%s%d", i > 0 ? ", " : "[",
                         chunks[i].layers);
        if (used + 1 >= EXAMPLE_MAX) {
            text[0] = '\0';
            return text;
        }
    }
    (void)snprintf(text + used, EXAMPLE_MAX - (size_t)used, "]");
    return text;
}

static enum mosaic_status hint_even(const struct stating *s, const struct geometry *g) {
    char text[EXAMPLE_MAX];
    if (*even_text(s, g, text))
        diag_hint(s->l->diags, "as even as can be: %s", text);
    return MOSAIC_BAD_INPUT;
}

/* "the model", or which of several. */
static const char *geometry_words(const struct problem *p, size_t i, char text[static 64]) {
    if (p->geometries.count == 1)
        return "the model";
    (void)snprintf(text, 64, "geometry %zu of %zu", i + 1, p->geometries.count);
    return text;
}

static enum mosaic_status check_geometry(const struct stating *s, size_t at) {
    const struct geometry *const g = &s->problem->geometries.items[at];
    const struct stated_stages *const stages = s->stages;
    long layers = 0, mtp = 0;
    for (size_t i = 0; i < stages->count; ++i) {
        layers += stages->chunks[i].layers;
        mtp += stages->chunks[i].mtp;
    }
    char which[64], sum[SUM_MAX];
    if (layers != g->layers)
        (void)diag_error(s->l->diags, &s->node->place, "stages: %s = %ld layers, but %s has %d",
                         sum_text(stages, sum), layers, geometry_words(s->problem, at, which),
                         g->layers);
    else if (mtp != g->mtp_layers)
        (void)diag_error(s->l->diags, &s->node->place, "stages: %ld MTP layers (m), but %s has %d",
                         mtp, geometry_words(s->problem, at, which), g->mtp_layers);
    else {
        const struct pipeline_need need = {g->layers, g->mtp_layers, stages->pp, stages->vpp};
        struct status_error err = {0};
        if (pipeline_check(stages->chunks, stages->count, &need, &err) == MOSAIC_OK)
            return MOSAIC_OK;
        (void)diag_from_error(s->l->diags, &s->node->place, &err);
    }
    return hint_even(s, g);
}

static enum mosaic_status check_engine(const struct stating *s) {
    const struct engine *const e = &s->problem->engine;
    if (e->uneven_stages || stages_are_even(s->stages))
        return MOSAIC_OK;
    char sum[SUM_MAX];
    (void)diag_error(s->l->diags, &s->node->place,
                     "not launchable on %s %s: its stages hold equal numbers of layers, not %s",
                     e->name, e->version, sum_text(s->stages, sum));
    return hint_even(s, &s->problem->geometries.items[0]);
}

static void fill_recompute(const struct stages_section *section, struct stated_stages *stages) {
    const int *const recompute = section->recompute;
    for (int i = 0; recompute && i < stages->pp; ++i) {
        stages->split.recompute[i] = (uint8_t)recompute[i];
        stages->split.is_mixed = stages->split.is_mixed || recompute[i] != recompute[0];
        stages->recompute = recompute[i] > (int)stages->recompute ? (enum recompute)recompute[i]
                                                                  : stages->recompute;
    }
}

/* Whether stages may recompute differently here. */
static enum mosaic_status check_recompute(const struct stating *s) {
    const struct problem *const p = s->problem;
    const struct engine *const e = &p->engine;
    const bool has_other_schedules =
        p->layouts.schedule[SCHEDULE_ZERO_BUBBLE] || p->layouts.schedule[SCHEDULE_DUALPIPE];
    if (!s->stages->split.is_mixed)
        return MOSAIC_OK;
    if (!e->recompute_per_stage)
        (void)diag_error(s->l->diags, &s->node->place,
                         "not launchable on %s %s: all of its stages recompute alike", e->name,
                         e->version);
    else if (p->is_published || p->estimator.pipeline_fraction || p->estimator.release_memory)
        (void)diag_error(s->l->diags, &s->node->place,
                         "the published estimator knows one recomputation for all stages");
    else if (has_other_schedules)
        (void)diag_error(s->l->diags, &s->node->place,
                         "stages that recompute differently take the 1f1b schedule alone");
    else if (p->workload.execution.checkpoint_host_bytes > 0.0)
        (void)diag_error(s->l->diags, &s->node->place,
                         "checkpoint offload takes layer boundaries, which full recomputation "
                         "keeps: all stages must be full");
    else
        return MOSAIC_OK;
    diag_hint(s->l->diags, "give every stage the same recompute");
    return MOSAIC_BAD_INPUT;
}

static void warn(const struct stating *s) {
    if (s->problem->estimator.pipeline_fraction && !stages_are_even(s->stages))
        diag_warning(s->l->diags, &s->node->place,
                     "the published estimator's step time does not see how layers are split; "
                     "memory does");
}

enum mosaic_status plan_stages_check(struct loader *l, const struct node *layout,
                                     const struct layout_section *section, struct problem *p) {
    const struct stages_section *const given = &section->stages;
    if (given->count == 0 || p->geometries.count == 0)
        return MOSAIC_OK;
    struct stated_stages *const stages = talloc_zero(l->memory, struct stated_stages);
    if (!stages)
        return diag_status(l->diags, MOSAIC_INTERNAL, NULL, "out of memory");
    const struct geometry *const g = &p->geometries.items[0];
    if (given->is_list)
        given->chunks[given->count - 1].mtp = (uint16_t)g->mtp_layers;
    stages->pp = section->pp.items[0];
    stages->vpp = section->vpp.items[0];
    stages->count = given->count;
    stages->chunks = given->chunks;
    const struct stating s = {l, node_find(layout, "stages"), given, p, stages};
    for (size_t i = 0; i < p->geometries.count; ++i)
        TRY(check_geometry(&s, i));
    TRY(check_engine(&s));
    split_from_pipeline(stages->chunks, stages->count, stages->pp, &stages->split);
    fill_recompute(given, stages);
    TRY(check_recompute(&s));
    if (stages->vpp > 1 && !stages_are_even(stages)) /* a stated pipeline layout */
        p->workload.execution.uneven_chunks = true;
    warn(&s);
    p->workload.stages = stages;
    l->document->stages_place = s.node->place;
    return MOSAIC_OK;
}
