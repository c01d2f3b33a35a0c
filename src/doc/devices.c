// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Figures that are often mistaken for others (user cases U09, U10, U52): a peak with 2:4 sparsity
 * is twice the dense one, a dense one is halved as if it had been that, NVLink is quoted for both
 * directions together.  The sheet of devices is a document; what it does not hold is not judged,
 * and a plan runs with the figure that it gives.
 */
#include "doc/devices.h"

#include "doc/sections.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>
#include <talloc.h>

struct device_entry {
    const char *match, *source;
    double bf16, fp8, nvfp4, nvfp4_sparse, link;
};

struct device_sheet {
    struct record_list devices;
};

#define RATE(member, dim, text)                                                                    \
    {                                                                                              \
        .key = #member, .kind = FIELD_QUANTITY, .dimension = (dim),                                \
        FIELD_AT(struct device_entry, member), .help = (text)                                      \
    }
static const struct field entry_fields[] = {
    {.key = "match",
     .kind = FIELD_STRING,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct device_entry, match),
     .help = "words of the device's name"},
    RATE(bf16, DIM_FLOP_PER_S, "dense bf16 peak"),
    RATE(fp8, DIM_FLOP_PER_S, "dense fp8 peak, MXFP8 where there is one"),
    RATE(nvfp4, DIM_FLOP_PER_S, "dense NVFP4 peak"),
    RATE(nvfp4_sparse, DIM_FLOP_PER_S, "NVFP4 peak with sparsity, where it is not twice the dense"),
    RATE(link, DIM_BYTES_PER_S, "innermost link, one direction"),
    {.key = "source",
     .kind = FIELD_STRING,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct device_entry, source),
     .help = "where the figures come from"},
};
static const struct schema entry_schema = SCHEMA("device", struct device_entry, entry_fields);
static const struct field sheet_fields[] = {
    {.key = "devices",
     .kind = FIELD_LIST,
     .item = FIELD_MAPPING,
     .nested = &entry_schema,
     .flags = FIELD_REQUIRED,
     FIELD_AT(struct device_sheet, devices),
     .help = "one entry a device"},
};
static const struct schema sheet_schema =
    SCHEMA_DOCUMENT("devices", "mosaic-devices/1", struct device_sheet, sheet_fields);

/* The word stands in the text as a name of its own: B200 is not in GB200, nor H20 in H200. */
static bool has_word(const char *text, const char *word, size_t length) {
    for (const char *at = text; *at; ++at) {
        const bool begins = at == text || !isalnum((unsigned char)at[-1]);
        if (begins && strncasecmp(at, word, length) == 0 && !isdigit((unsigned char)at[length]))
            return true;
    }
    return false;
}

/* Letters of `match` when every word of it stands in the name, else 0. */
static size_t match_length(const char *name, const char *match) {
    size_t letters = 0;
    while (*match) {
        const size_t length = strcspn(match, " ");
        if (length > 0 && !has_word(name, match, length))
            return 0;
        letters += length;
        match += length + strspn(match + length, " ");
    }
    return letters;
}

static const struct device_entry *find(const struct device_sheet *sheet, const char *name) {
    const struct device_entry *best = NULL;
    const struct device_entry *const entries = sheet->devices.items;
    size_t most = 0;
    for (size_t i = 0; i < sheet->devices.count; ++i) {
        const size_t length = match_length(name, entries[i].match);
        if (length <= most)
            continue;
        most = length;
        best = &entries[i];
    }
    return best;
}

static bool is_near(double value, double figure) {
    static const double tolerance = 0.03; /* data sheets round differently: 2450 and 2500 */
    return figure > 0.0 && fabs(value / figure - 1.0) <= tolerance;
}

struct peak_case {
    const struct device *device;
    enum precision precision;
    double dense, sparse;
};

static void warn_peak(struct loader *l, const struct node *node, const struct peak_case *c) {
    const double value = c->device->peak_flop_per_s[c->precision];
    const bool is_sparse = is_near(value, c->sparse);
    const bool is_half = is_near(2.0 * value, c->dense);
    if (!is_sparse && !is_half)
        return;
    const char *const precision = precision_name(c->precision);
    char path[64], given[UNITS_TEXT_MAX], dense[UNITS_TEXT_MAX];
    (void)snprintf(path, sizeof path, "device.peak.%s", precision);
    units_format(value, DIM_FLOP_PER_S, given, sizeof given);
    units_format(c->dense, DIM_FLOP_PER_S, dense, sizeof dense);
    const struct place place = loader_place(node, path);
    if (is_sparse) {
        diag_warning(l->diags, &place, "%s is the %s peak of '%s' with 2:4 sparsity; dense is %s",
                     given, precision, c->device->name, dense);
        diag_hint(l->diags, "training does not use it: every MFU would read lower than it is");
    } else {
        diag_warning(l->diags, &place,
                     "%s is half of the %s peak of '%s', halved once too often; dense is %s", given,
                     precision, c->device->name, dense);
        diag_hint(l->diags, "%s leaves sparsity out already: every MFU would read twice what it is",
                  dense);
    }
}

static void warn_peaks(struct loader *l, const struct node *node, const struct device *device,
                       const struct device_entry *entry) {
    const double nvfp4_sparse =
        entry->nvfp4_sparse > 0.0 ? entry->nvfp4_sparse : 2.0 * entry->nvfp4;
    const struct peak_case cases[] = {
        {device, PRECISION_BF16, entry->bf16, 2.0 * entry->bf16},
        {device, PRECISION_FP8, entry->fp8, 2.0 * entry->fp8},
        {device, PRECISION_MXFP8, entry->fp8, 2.0 * entry->fp8},
        {device, PRECISION_NVFP4, entry->nvfp4, nvfp4_sparse},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i)
        warn_peak(l, node, &cases[i]);
}

static void warn_link(struct loader *l, const struct node *node, const struct cluster *c,
                      double right) {
    const double value = c->tiers[0].bytes_per_s;
    if (!is_near(value, 2.0 * right))
        return;
    char given[UNITS_TEXT_MAX], one_way[UNITS_TEXT_MAX];
    units_format(value, DIM_BYTES_PER_S, given, sizeof given);
    units_format(right, DIM_BYTES_PER_S, one_way, sizeof one_way);
    const struct place place = loader_place(node, "tiers[0].bandwidth");
    diag_warning(l->diags, &place, "%s is the link of '%s' in both directions; one way is %s",
                 given, c->device.name, one_way);
    diag_hint(l->diags, "tier bandwidths are per GPU and direction");
}

static enum mosaic_status read_sheet(struct loader *l, struct device_sheet *sheet) {
    struct yaml_tree *tree = NULL;
    TRY(loader_builtin(l, "devices", &tree));
    return schema_bind(l->memory, &sheet_schema, tree->root, sheet, NULL, l->diags);
}

enum mosaic_status doc_devices_find(void *memory, struct diag_list *diags, const char *name,
                                    struct device *out, const char **match) {
    static const struct document_options none = {.seed = 1};
    struct document *const document = talloc_zero(memory, struct document);
    struct device_sheet sheet = {{0, NULL}};
    if (!document)
        return diag_status(diags, MOSAIC_INTERNAL, NULL, "out of memory");
    struct loader loader = {
        .document = document, .memory = memory, .diags = diags, .options = &none};
    TRY(read_sheet(&loader, &sheet));
    const struct device_entry *const entry = find(&sheet, name);
    *match = entry ? entry->match : NULL;
    *out = (struct device){.memory_bytes = 0.0};
    if (!entry)
        return MOSAIC_OK;
    (void)snprintf(out->name, sizeof out->name, "%s", entry->match);
    out->peak_flop_per_s[PRECISION_BF16] = entry->bf16;
    out->peak_flop_per_s[PRECISION_FP8] = entry->fp8;
    out->peak_flop_per_s[PRECISION_NVFP4] = entry->nvfp4;
    /* Block formats of 8 bits came with those of 4. */
    out->peak_flop_per_s[PRECISION_MXFP8] = entry->nvfp4 > 0.0 ? entry->fp8 : 0.0;
    return MOSAIC_OK;
}

enum mosaic_status doc_devices_warn(struct loader *l, const struct node *node,
                                    const struct cluster *cluster) {
    struct device_sheet sheet = {{0, NULL}};
    TRY(read_sheet(l, &sheet));
    const struct device_entry *const entry = find(&sheet, cluster->device.name);
    if (!entry)
        return MOSAIC_OK;
    warn_peaks(l, node, &cluster->device, entry);
    warn_link(l, node, cluster, entry->link);
    return MOSAIC_OK;
}
