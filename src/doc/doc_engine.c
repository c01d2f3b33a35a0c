// SPDX-License-Identifier: GPL-3.0-or-later
/* mosaic-engine/1: what a training engine of one version can launch. */
#include "doc/sections.h"

struct engine_section {
    const char *name, *version, *source;
    bool uneven_stages, recompute_per_stage, interleaved_batches_divide, kv_replication;
    int vocab_pad_unit;
};

enum { PAD_UNIT_MAX = 65536 };

#define RULE(member, text)                                                                         \
    {                                                                                              \
        .key = #member, .kind = FIELD_BOOL, .flags = FIELD_REQUIRED,                               \
        FIELD_AT(struct engine_section, member), .help = (text)                                    \
    }
static const struct field engine_fields[] = {
    {.key = "name",
     .kind = FIELD_STRING,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct engine_section, name),
     .help = "name of the engine"},
    {.key = "version",
     .kind = FIELD_STRING,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct engine_section, version),
     .help = "version whose rules these are"},
    {.key = "source",
     .kind = FIELD_STRING,
     FIELD_AT(struct engine_section, source),
     .help = "where the rules come from"},
    RULE(uneven_stages, "pipeline stages may hold different numbers of layers"),
    RULE(recompute_per_stage, "stages may recompute differently"),
    RULE(interleaved_batches_divide, "with vpp > 1, pp must divide the micro-batches of a step"),
    RULE(kv_replication, "tp may exceed the key/value heads, which are then replicated"),
    {.key = "vocab_pad_unit",
     .kind = FIELD_INT,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct engine_section, vocab_pad_unit),
     .min = 1,
     .max = PAD_UNIT_MAX,
     .help = "the vocabulary is padded to a multiple of this times tp"},
};
const struct schema doc_engine_schema =
    SCHEMA_DOCUMENT("engine", "mosaic-engine/1", struct engine_section, engine_fields);

enum mosaic_status doc_engine_bind(struct loader *l, const struct node *node, const char *prefix,
                                   struct engine *engine) {
    struct engine_section s = {0};
    TRY(loader_bind(l, &doc_engine_schema, node, prefix, &s));
    struct engine out = {.uneven_stages = s.uneven_stages,
                         .recompute_per_stage = s.recompute_per_stage,
                         .interleaved_batches_divide = s.interleaved_batches_divide,
                         .kv_replication = s.kv_replication,
                         .vocab_pad_unit = s.vocab_pad_unit};
    TRY(loader_copy(l, node, "name", s.name, out.name, sizeof out.name));
    TRY(loader_copy(l, node, "version", s.version, out.version, sizeof out.version));
    *engine = out;
    return MOSAIC_OK;
}
