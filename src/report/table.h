// SPDX-License-Identifier: GPL-3.0-or-later
/* The table reports, one function a schema, and the pieces they share.  A missing key leaves its
 * line, and an empty section its heading, out. */
#ifndef MOSAIC_REPORT_TABLE_H
#define MOSAIC_REPORT_TABLE_H

#include "report/page.h"

enum { LABEL_MAX = 256 };

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* The value at a path; "" and 0 where there is none. */
const char *text_at(json_t *root, const char *path);
double real_at(json_t *root, const char *path);

void table_plan(struct page *page, json_t *root);
void table_fit(struct page *page, json_t *root);
void table_fit_steps(struct page *page, json_t *root);
void table_predict(struct page *page, json_t *root);
void table_count(struct page *page, json_t *root);
void table_compare(struct page *page, json_t *root);
void table_explain(struct page *page, json_t *root);
void table_validate(struct page *page, json_t *root);
void table_layouts(struct page *page, json_t *root);
void table_schedules(struct page *page, json_t *root);
void table_check(struct page *page, json_t *root);
void table_sweep(struct page *page, json_t *root);
void table_import(struct page *page, json_t *root);
void table_calibrate(struct page *page, json_t *root);
void table_drift(struct page *page, json_t *root);
void table_lint(struct page *page, json_t *root, bool show_values);

/* "PP8 EP8 DP32, micro-batch 4, full recompute, deepep": factors above 1, PP and DP always; how the
 * job runs where it is not the plainest. */
const char *table_layout_text(json_t *layout, char out[LABEL_MAX]);
/* "PP8 EP8 mb4 full, deepep" for a column of a list: of how the job runs what differs between the
 * list's rows. */
const char *table_layout_short(json_t *layout, json_t *rows, char out[LABEL_MAX]);
/* Whether it will say how the job runs for some of them. */
bool table_choices_vary(json_t *rows);
/* "L48 d6144 E96 K2 G4". */
const char *table_geometry_text(json_t *geometry, char out[LABEL_MAX]);
/* "n_total_law" -> "n total law". */
const char *table_words(const char *key, char out[LABEL_MAX]);

/* Name of a term of time_split, or the key as words. */
const char *table_term(const char *key, char out[LABEL_MAX]);
/* The same; the correction is that of measured steps, or of the published estimator. */
const char *table_corrected_term(const char *key, bool is_anchored, char out[LABEL_MAX]);

/* `counts`: parameters and FLOPs too. */
void table_geometry(struct page *page, json_t *geometry, bool counts);
void table_layout(struct page *page, json_t *layout);
/* Layers of each stage, and the pipeline layout of uneven ones; brief: nothing of even ones. */
void table_stages(struct page *page, json_t *layout, bool is_brief);
/* MFU under its conventions, rate, interval. */
void table_rates(struct page *page, json_t *prediction);
void table_time_split(struct page *page, json_t *prediction);
/* Items of the worst stage; with `each`, a row a stage as well. */
void table_memory(struct page *page, json_t *prediction, bool each);
void table_lookups(struct page *page, json_t *prediction);
void table_loss_terms(struct page *page, const char *law, json_t *terms);
/* Every number and text below `object`, keys as words. */
void table_any(struct page *page, const char *heading, json_t *object);
/* The numbers of nodes that were tried, the Pareto set, the goodput. */
void table_fleet(struct page *page, json_t *root);
/* How sure a plan is of its step times, what would settle it, what measured steps changed. */
void table_decision(struct page *page, json_t *root);
/* What a plan hangs on: slopes, flips, prices of pins. */
void table_sensitivity(struct page *page, json_t *root);
/* `entries` of a calibration, fitted to samples, and `notes` on the fits. */
void table_entries(struct page *page, json_t *root);
/* Why there is no plan, and what would do: `infeasible` of a result. */
void table_infeasible(struct page *page, const char *heading, json_t *root);
/* Inputs, overrides, version: what the numbers came from. */
void table_provenance(struct page *page, json_t *root);

#endif
