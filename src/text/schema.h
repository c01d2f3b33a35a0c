// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Documents described by tables.  A table of fields says of each key its type, range, default and
 * help; one binder turns a YAML tree into a plain struct, reports everything wrong with it at once,
 * and keeps for each field its text and where that came from.  Man pages and `lint --show-defaults`
 * read the same tables.
 *
 *   static const struct field budget_fields[] = {
 *       {.key = "days", .kind = FIELD_QUANTITY, .dimension = DIM_TIME, .flags = FIELD_REQUIRED,
 *        FIELD_AT(struct budget, duration_s), .max = 1e9, .help = "length of the run"},
 *   };
 *   static const struct schema budget_schema = SCHEMA("budget", struct budget, budget_fields);
 */
#ifndef MOSAIC_TEXT_SCHEMA_H
#define MOSAIC_TEXT_SCHEMA_H

#include "base/units.h"
#include "text/yaml_tree.h"

/* Kind of a field, and what stands at its offset in the target struct. */
enum field_kind {
    FIELD_STRING,   /* const char * */
    FIELD_BOOL,     /* bool */
    FIELD_INT,      /* int */
    FIELD_NUMBER,   /* double */
    FIELD_QUANTITY, /* double in base units of `dimension` */
    FIELD_ENUM,     /* int (or an enum): index into `words` */
    FIELD_RANGE,    /* struct number_range: [low, high], or one number for both; `dimension` */
    FIELD_LIST,     /* one of the lists below, by `item`; one scalar stands for a list of one */
    FIELD_MAPPING,  /* the struct of `nested` */
    FIELD_CUSTOM,   /* whatever `parse` writes */
    FIELD_FREE      /* const struct node *, unchecked */
};

struct number_range {
    double low, high;
};
/* Item FIELD_INT or FIELD_ENUM.  {from, to, step | factor, not} also fills FIELD_INT, and with
 * FIELD_EXCEPT_OK {not: [...]} leaves the list empty and says what it may never hold. */
struct int_list {
    size_t count;
    int *items;
    size_t forbidden_count;
    int *forbidden;
};
struct number_list { /* item FIELD_NUMBER or FIELD_QUANTITY */
    size_t count;
    double *items;
};
struct string_list { /* item FIELD_STRING */
    size_t count;
    const char **items;
};
struct record_list { /* item FIELD_MAPPING: count structs of nested->size bytes */
    size_t count;
    void *items;
};

enum field_flags {
    FIELD_REQUIRED = 1,  /* absent is an error */
    FIELD_NONE_OK = 2,   /* the word `none` is taken: stores `none` */
    FIELD_OPEN_MIN = 4,  /* min itself is out of range */
    FIELD_UNIQUE = 8,    /* list: no value twice; sorted upward (numbers) */
    FIELD_EMPTY_OK = 16, /* list or string: may be empty */
    FIELD_HIDDEN = 32,   /* not in man pages */
    FIELD_EXCEPT_OK = 64 /* list of integers: {not: [...]} is taken */
};

struct binder;
struct field;

/* Reads node into target (the address at the field's offset); reports through binder_error. */
typedef enum mosaic_status field_parse(struct binder *binder, const struct field *field,
                                       const struct node *node, void *target);

struct field {
    const char *key;
    enum field_kind kind;
    enum field_kind item;        /* FIELD_LIST */
    enum dimension dimension;    /* FIELD_QUANTITY, FIELD_RANGE; DIM_NUMBER otherwise */
    unsigned flags;              /* enum field_flags */
    size_t offset;               /* see FIELD_AT */
    size_t presence;             /* see FIELD_PRESENCE; 0: none */
    const char *fallback;        /* default in flow style; NULL: an absent field stays untouched */
    double min, max;             /* in base units; both 0: no range; max 0 with min > 0: no upper */
    double none;                 /* what `none` stores */
    size_t max_count;            /* FIELD_LIST; 0 takes SCHEMA_MAX_ITEMS */
    const char *const *words;    /* FIELD_ENUM; ends in NULL */
    const struct schema *nested; /* FIELD_MAPPING, and lists of it */
    field_parse *parse;          /* FIELD_CUSTOM */
    const char *forms;           /* FIELD_CUSTOM: type text for man pages, "FILE or mapping" */
    const char *help;            /* one line, lower case, no full stop */
};

struct schema {
    const char *name;     /* of the section, for messages and man pages */
    const char *document; /* "mosaic-plan/1" when its root has a key `schema:`, else NULL */
    const struct field *fields;
    size_t count;
    size_t size; /* of the target struct */
    /* Called when all fields of one struct have been bound without error; may be NULL. */
    enum mosaic_status (*check)(struct binder *binder, const struct node *node, void *target);
};

enum { SCHEMA_MAX_ITEMS = 4096 };

#define FIELD_AT(type, member) .offset = offsetof(type, member)
/* A bool in the target that tells whether the key was given (or has a default). */
#define FIELD_PRESENCE(type, member) .presence = offsetof(type, member) + 1
#define SCHEMA(section, type, table)                                                               \
    {                                                                                              \
        .name = (section), .fields = (table), .count = sizeof(table) / sizeof((table)[0]),         \
        .size = sizeof(type)                                                                       \
    }
#define SCHEMA_DOCUMENT(section, doc, type, table)                                                 \
    {                                                                                              \
        .name = (section), .document = (doc), .fields = (table),                                   \
        .count = sizeof(table) / sizeof((table)[0]), .size = sizeof(type)                          \
    }

enum field_origin { ORIGIN_GIVEN, ORIGIN_DEFAULT, ORIGIN_OVERRIDE };

struct bound_field {
    const char *path; /* "tiers[1].bandwidth" */
    const char *text; /* as written, or the default's text */
    enum field_origin origin;
    const struct field *field; /* for its help and type */
    struct place place;        /* of the value; no source for a default */
};

/* Start from {0}; set `prefix` ("cluster") when what is bound stands below that path. */
struct bound_list {
    const char *prefix;
    struct bound_field *items; /* owned by the `memory` given to schema_bind */
    size_t count, capacity;
};

/* Bind a mapping to a struct.  Goes on after an error; all errors are in diags.  Strings and lists
 * in the target belong to `memory`.  bound may be NULL.  On failure target is half filled. */
MOSAIC_MUST_USE enum mosaic_status schema_bind(void *memory, const struct schema *schema,
                                               const struct node *node, void *target,
                                               struct bound_list *bound, struct diag_list *diags);

/* Which of the documents ("mosaic-plan/1", ...) the key `schema` names. */
MOSAIC_MUST_USE enum mosaic_status schema_document(const struct node *root,
                                                   const char *const *documents, size_t count,
                                                   size_t *which, struct diag_list *diags);

/* For FIELD_CUSTOM and checks: report at a node, in the words of the path being bound. */
enum mosaic_status binder_error(struct binder *binder, const struct node *node, const char *format,
                                ...) __attribute__((format(printf, 3, 4)));
void binder_hint(struct binder *binder, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Bind one node by a field description of any kind into target (FIELD_CUSTOM trying forms). */
MOSAIC_MUST_USE enum mosaic_status binder_value(struct binder *binder, const struct field *field,
                                                const struct node *node, void *target);
/* Bind a mapping below the field being parsed. */
MOSAIC_MUST_USE enum mosaic_status binder_mapping(struct binder *binder,
                                                  const struct schema *schema,
                                                  const struct node *node, void *target);
void *binder_memory(struct binder *binder);
const char *binder_path(const struct binder *binder);

/* Every field of a table and of those below it, in order, with its path ("tiers[].bandwidth"). */
typedef void schema_visit(void *context, const char *path, const struct field *field);
void schema_walk(const struct schema *schema, schema_visit *visit, void *context);
/* "quantity (bandwidth), e.g. 400 Gb/s", "one of bf16, fp8", "list of integers". */
void field_type_text(const struct field *field, char *buffer, size_t size);
/* "1 to 65536", "above 0", or "" when there is no range. */
void field_range_text(const struct field *field, char *buffer, size_t size);
/* Check a table itself: keys once, defaults that bind, words and nested tables where due. */
MOSAIC_MUST_USE enum mosaic_status schema_self_check(const struct schema *schema,
                                                     struct status_error *err);

#endif
