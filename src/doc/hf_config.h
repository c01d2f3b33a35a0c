// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A Hugging Face `config.json` as a model document: its tree becomes one of mosaic-model/1 whose
 * nodes stand where the configuration has their values, so that overrides, binding and diagnostics
 * go on as with any model.  What no key states outright (layers counted from a pattern, a type's
 * default) has origin DOCUMENT_DERIVED.  What a geometry cannot hold goes to `unmodelled`, which
 * doc_model refuses at its place unless `approx: true`.
 */
#ifndef MOSAIC_DOC_HF_CONFIG_H
#define MOSAIC_DOC_HF_CONFIG_H

#include "doc/load.h"

/* `json` must outlive the model.  Everything wrong is in the loader's diagnostics. */
MOSAIC_MUST_USE enum mosaic_status hf_config_convert(struct loader *l, const struct yaml_tree *json,
                                                     struct yaml_tree **model);

#endif
