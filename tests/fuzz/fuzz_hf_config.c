// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Hugging Face configurations from arbitrary texts: JSON to tree, tree to model document, document
 * to geometry.  Every node has a place inside its source, a failure has a diagnostic, and what is
 * accepted counts a finite, positive model.
 */
#include "doc/document.h"
#include "model/count.h"
#include "text/json_tree.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <talloc.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct diag_list said;

static void check(int holds) {
    if (!holds)
        abort();
}

/* Depth is bounded by YAML_MAX_DEPTH. */
static void check_node(const struct node *node, int depth) {
    check(depth <= YAML_MAX_DEPTH && node->place.source != NULL);
    check(node->place.line >= 1 && (size_t)node->place.line <= node->place.source->line_count);
    check(node->place.column >= 1 && node->place.span >= 1);
    check((node->kind == NODE_SCALAR) == (node->text != NULL));
    for (size_t i = 0; i < node->count; ++i) {
        check((node->kind == NODE_MAPPING) == (node->items[i]->key != NULL));
        check_node(node->items[i], depth + 1);
    }
}

/* Is it one?  Other documents are read by other rules. */
static bool check_tree(const char *text, size_t size) {
    void *const memory = talloc_new(NULL);
    struct source *source = NULL;
    struct yaml_tree *tree = NULL;
    diag_init(&said);
    if (source_from_text(memory, "config.json", text, size, &source, &said) == MOSAIC_OK &&
        json_tree_looks_like(source) && json_tree_parse(memory, source, &tree, &said) == MOSAIC_OK)
        check_node(tree->root, 0);
    else
        check(!source || !json_tree_looks_like(source) || said.errors > 0);
    const bool is_json = tree != NULL;
    talloc_free(memory);
    return is_json;
}

static void check_geometry(const struct geometry *g) {
    static const double sequence = 4096.0;
    struct param_counts n;
    struct flop_counts f;
    count_params(g, &n);
    count_flops(g, sequence, &f);
    check(n.n_total > 0.0 && n.n_active > 0.0 && n.n_active <= n.n_total);
    check(isfinite(n.n_total) && isfinite(f.causal) && f.causal > 0.0 && f.causal <= f.full);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct document *document = NULL;
    const char *const text = size > 0 ? (const char *)data : "";
    if (!check_tree(text, size))
        return 0;
    diag_init(&said);
    if (document_parse("config.json", text, size, NULL, 0, &said, &document) == MOSAIC_OK) {
        check(said.errors == 0);
        if (document->has_geometry)
            check_geometry(&document->geometry);
        document_free(document);
    } else {
        check(said.errors > 0);
    }
    char *const words = diag_text(NULL, &said, size % 2 == 0);
    check(words != NULL);
    talloc_free(words);
    return 0;
}
