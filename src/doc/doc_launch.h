// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The section `launch` of mosaic-engine/1: the engine's arguments (engine/launch.h).  It is read
 * where it is asked for: of an engine document, or of an engine that a plan brings along; those of
 * the library are read when something is exported.
 */
#ifndef MOSAIC_DOC_DOC_LAUNCH_H
#define MOSAIC_DOC_DOC_LAUNCH_H

#include "doc/load.h"

/* Belongs to the document that is being loaded; `prefix` is where the section stands. */
MOSAIC_MUST_USE enum mosaic_status doc_launch_bind(struct loader *l, const struct node *node,
                                                   const char *prefix, const struct launch **out);

/* The engine of a name: a file, a document of the library ("megatron-2026.08", "megatron 2026.08"),
 * or the newest of the library by that name ("megatron").  Free with document_free. */
MOSAIC_MUST_USE enum mosaic_status doc_launch_engine(const char *name, struct diag_list *diags,
                                                     struct document **document);

#endif
