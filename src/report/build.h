// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * From the library's structs to result trees (src/report/schema).  Every function returns a new
 * reference, or NULL when memory is short or a number is not finite; builders pass NULL on.
 */
#ifndef MOSAIC_REPORT_BUILD_H
#define MOSAIC_REPORT_BUILD_H

#include "doc/document.h"
#include "fit/fit_job.h"
#include "plan/decision.h"
#include "plan/elasticity.h"
#include "plan/fleet.h"
#include "plan/law_uncertainty.h"
#include "plan/paper_optimum.h"
#include "plan/pareto.h"
#include "plan/search.h"
#include "plan/sensitivity.h"
#include "plan/shortfall.h"

#include <jansson.h>

/* root with the members of parts, which it takes; NULL, both freed, where either is missing. */
json_t *build_joined(json_t *root, json_t *parts);
/* What every result starts with: schema, provenance, status. */
json_t *build_head(const char *schema, const struct document *const *documents, size_t count,
                   unsigned long seed, const char *status);
json_t *build_geometry(const struct geometry *g, int sequence);
json_t *build_layout(const struct problem *problem, const struct geometry *g,
                     const struct layout *layout);
/* stages: mesh.pp entries. */
json_t *build_prediction(const struct problem *problem, const struct geometry *g,
                         const struct prediction *p, const struct memory_items *stages,
                         int stage_count);
json_t *build_law_terms(const struct law *law, const struct law_point *point);
/* Facts of the problem that every result repeats: estimator, calibration, cluster, budget, law. */
MOSAIC_MUST_USE bool build_setting(json_t *root, const struct problem *problem);

/* A row of two predictions side by side, and rows of their times and of their memory. */
typedef bool append_row(json_t *list, const char *key, const char *unit, double a, double b);
MOSAIC_MUST_USE bool append_times(json_t *list, append_row *row, const struct prediction *a,
                                  const struct prediction *b);
MOSAIC_MUST_USE bool append_memory(json_t *list, append_row *row, const struct prediction *a,
                                   const struct prediction *b);

/* One geometry under one layout with its tokens and loss; rank 0 leaves the rank out. */
json_t *build_candidate(const struct problem *problem, const struct candidate *c, int rank);

/* A pinned point, or the best of a plan: what predict and compare talk about. */
struct report_point {
    const struct document *document;
    const struct diag_list *diags; /* of its loading */
    const struct problem
        *problem; /* the document's, or that on the best of its numbers of nodes: */
    struct problem on_best;
    struct geometry geometry;
    struct layout layout;
    struct prediction prediction;
    struct memory_items stages[LAYOUT_MAX_PP];
    bool has_tokens; /* it fits, and the budget buys tokens within the limits */
    struct training run;
};

json_t *build_predict(const struct report_point *point, unsigned long seed);
json_t *build_count(const struct document *document, const struct diag_list *diags,
                    const struct geometry *g, long sequence, unsigned long seed);
json_t *build_compare(const struct report_point *a, const struct report_point *b,
                      unsigned long seed);
json_t *build_lint(const struct document *document, const struct diag_list *diags,
                   unsigned long seed);

struct measured_table;

/* A plan without the steps that were measured for it. */
struct plan_before {
    const struct measured_table *table;
    const struct problem *problem; /* on the best number of nodes */
    const struct search_result *search;
    const struct decision *decision;
};

/* What mosaic_plan found. */
struct plan_report {
    const struct document *document;
    const struct problem *declared; /* the document's, or that with measured steps */
    const struct problem *problem;  /* the document's, or that on another number of nodes */
    const struct search_result *search;
    const struct fleet *fleet;
    const struct pareto *pareto;
    const struct paper_optimum *paper;             /* NULL when there is none */
    const struct mfu_elasticities *elasticities;   /* NULL when there are none */
    const struct shortfall *shortfall;             /* NULL unless infeasible */
    const struct law_uncertainty *law_uncertainty; /* NULL when the law has no draws */
    const struct sensitivity *sensitivity;         /* NULL unless asked for */
    const struct decision *decision;               /* no draws where there is none */
    const struct plan_before *measured;            /* NULL without measured steps */
    const struct diag_list *diags;
};
json_t *build_plan(const struct plan_report *report, unsigned long seed);
/* The mosaic.certificate/1 of a plan as text; free() it.  memo: of the search. */
char *build_certificate(const struct plan_report *report, const struct search_memo *memo,
                        unsigned long seed);
const char *build_search_status(enum search_status status);

/* A fit and what it was asked for. */
struct fit_view {
    const struct fit_job *job;
    const struct fit_measure *measure;
    enum bootstrap_kind bootstrap;
    const char *const *settings; /* KEY=VALUE, echoed; ends with NULL; may be NULL */
    const struct diag_list *diags;
    unsigned long seed;
};
#define BUILD_FIT_LEVEL 0.95 /* of all intervals */
json_t *build_fit(const struct fit_view *view);
/* Curves and profiles of a fit, as plot_fit.h draws them. */
json_t *build_fit_plots(const struct fit_job *job);

/* What leaves a space without a plan, with its figures; NULL for NULL. */
json_t *build_shortfall(const struct shortfall *s);

/* Each number of nodes that was tried; the unbeaten plans of a Pareto grid; the goodput at the
 * stated interval of checkpoints and at the best one.  NULL where that is not asked for. */
json_t *build_by_nodes(const struct plan_report *report);
json_t *build_pareto(const struct plan_report *report);
json_t *build_goodput(const struct problem *problem);
/* Days, GPU-hours and, where the cluster states a price, USD of so many seconds of all of it. */
bool build_put_spent(json_t *object, const struct problem *problem, double seconds);
/* What the three of them have to say, as sentences. */
MOSAIC_MUST_USE bool append_fleet_warnings(json_t *list, const struct plan_report *report);

/* How far a plan's outcome can be trusted; NULL where there is none. */
json_t *build_uncertainty(const struct plan_report *report);
/* What a plan hangs on; NULL for NULL. */
json_t *build_sensitivity(const struct problem *problem, const struct sensitivity *s);
/* How sure a plan is of its step times; the short runs that would settle it, as a list and as a CSV
 * to fill in; what those already made have changed.  NULL where there is none. */
json_t *build_decision(const struct plan_report *report);
json_t *build_shortlist(const struct plan_report *report);
json_t *build_shortlist_template(const struct plan_report *report);
json_t *build_measured(const struct plan_report *report);
/* The same as sentences. */
MOSAIC_MUST_USE bool append_decision(json_t *list, const struct plan_report *report);
/* Reasons and warnings of a plan, as lists of sentences. */
json_t *build_why(const struct plan_report *report);
json_t *build_plan_warnings(const struct plan_report *report);
/* Warnings that any prediction carries: extrapolation, tight memory, what is not calibrated. */
MOSAIC_MUST_USE bool append_prediction_warnings(json_t *list, const struct problem *problem,
                                                const struct prediction *p);
MOSAIC_MUST_USE bool append_diagnostics(json_t *list, const struct diag_list *diags);
/* A term of time_split as a sentence calls it: "the pipeline bubble". */
const char *build_term_name(const char *term);
/* One sentence: the three largest terms of a step. */
MOSAIC_MUST_USE bool append_binding(json_t *list, const struct prediction *p);
/* What offloading and each memory schedule of a layout is worth, p being its prediction; nothing
 * where there is none. */
MOSAIC_MUST_USE bool append_choices(json_t *list, const struct problem *problem,
                                    const struct geometry *g, const struct layout *layout,
                                    const struct prediction *p);
/* Append a formatted sentence. */
MOSAIC_MUST_USE bool append_text(json_t *list, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
