// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Figures that are often mistaken for others (user cases U09, U10, U52): a peak with 2:4 sparsity
 * is twice the dense one, NVLink is quoted for both directions together.  The sheet of devices is a
 * document; what it does not hold is not judged.
 */
#include "doc/sections.h"

#include <math.h>
#include <string.h>
#include <strings.h>

struct device_entry {
    const char *match, *source;
    double bf16, fp8, nvfp4, link;
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
     .help = "part of the device's name"},
    RATE(bf16, DIM_FLOP_PER_S, "dense bf16 peak"),
    RATE(fp8, DIM_FLOP_PER_S, "dense fp8 peak"),
    RATE(nvfp4, DIM_FLOP_PER_S, "dense NVFP4 peak"),
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

static bool contains(const char *text, const char *part) {
    const size_t length = strlen(part);
    for (; *text; ++text)
        if (strncasecmp(text, part, length) == 0)
            return true;
    return false;
}

static const struct device_entry *find(const struct device_sheet *sheet, const char *name) {
    const struct device_entry *best = NULL;
    const struct device_entry *const entries = sheet->devices.items;
    for (size_t i = 0; i < sheet->devices.count; ++i)
        if (contains(name, entries[i].match) &&
            (!best || strlen(entries[i].match) > strlen(best->match)))
            best = &entries[i];
    return best;
}

static bool is_double(double value, double right) {
    static const double tolerance = 0.02; /* data sheets round differently */
    return right > 0.0 && fabs(value / (2.0 * right) - 1.0) <= tolerance;
}

static void warn_peak(struct loader *l, const struct node *node, const struct device *device,
                      enum precision precision, double right) {
    const double value = device->peak_flop_per_s[precision];
    if (!is_double(value, right))
        return;
    char path[64], given[UNITS_TEXT_MAX], dense[UNITS_TEXT_MAX];
    (void)snprintf(path, sizeof path, "device.peak.%s", precision_name(precision));
    units_format(value, DIM_FLOP_PER_S, given, sizeof given);
    units_format(right, DIM_FLOP_PER_S, dense, sizeof dense);
    const struct place place = loader_place(node, path);
    diag_warning(l->diags, &place, "%s is the %s peak of '%s' with 2:4 sparsity; dense is %s",
                 given, precision_name(precision), device->name, dense);
    diag_hint(l->diags, "training does not use it: every MFU would read half of what it is");
}

static void warn_link(struct loader *l, const struct node *node, const struct cluster *c,
                      double right) {
    const double value = c->tiers[0].bytes_per_s;
    if (!is_double(value, right))
        return;
    char given[UNITS_TEXT_MAX], one_way[UNITS_TEXT_MAX];
    units_format(value, DIM_BYTES_PER_S, given, sizeof given);
    units_format(right, DIM_BYTES_PER_S, one_way, sizeof one_way);
    const struct place place = loader_place(node, "tiers[0].bandwidth");
    diag_warning(l->diags, &place, "%s is the link of '%s' in both directions; one way is %s",
                 given, c->device.name, one_way);
    diag_hint(l->diags, "tier bandwidths are per GPU and direction");
}

enum mosaic_status doc_devices_warn(struct loader *l, const struct node *node,
                                    const struct cluster *cluster) {
    struct yaml_tree *tree = NULL;
    TRY(loader_builtin(l, "devices", &tree));
    struct device_sheet sheet = {{0, NULL}};
    TRY(schema_bind(l->memory, &sheet_schema, tree->root, &sheet, NULL, l->diags));
    const struct device_entry *const entry = find(&sheet, cluster->device.name);
    if (!entry)
        return MOSAIC_OK;
    const struct device *const device = &cluster->device;
    warn_peak(l, node, device, PRECISION_BF16, entry->bf16);
    warn_peak(l, node, device, PRECISION_FP8, entry->fp8);
    warn_peak(l, node, device, PRECISION_MXFP8, entry->fp8);
    warn_peak(l, node, device, PRECISION_NVFP4, entry->nvfp4);
    warn_link(l, node, cluster, entry->link);
    return MOSAIC_OK;
}
