// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * libmosaic: plan a Mixture-of-Experts pre-training run for one cluster.
 *
 * Ownership, in one sentence: who creates frees; a document owns everything it was loaded from,
 * and a result owns its text.
 *
 * A session (struct mosaic) carries the settings and the diagnostics of the last call; it is used
 * by one thread at a time, and several sessions may live side by side.  No function prints, exits
 * or aborts.  The first mosaic_new() turns the process-wide GSL error handler off.
 *
 * Results are trees of named values ("best.prediction.step_time_s"); man/mosaic.1 and the JSON
 * schemas in src/report/schema list the keys.  Physical keys end in their unit.
 */
#ifndef MOSAIC_H
#define MOSAIC_H

#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MOSAIC_API __attribute__((visibility("default")))
#define MOSAIC_MUST_USE __attribute__((warn_unused_result))
#else
#define MOSAIC_API
#define MOSAIC_MUST_USE
#endif

/* What a call ended with; the number is the exit status of the command line as well. */
#define MOSAIC_STATUS_LIST(X)                                                                      \
    X(MOSAIC_OK, 0, "done")                                                                        \
    X(MOSAIC_NO_PLAN, 1, "no feasible plan")                                                       \
    X(MOSAIC_USAGE, 2, "usage error")                                                              \
    X(MOSAIC_BAD_INPUT, 3, "bad input")                                                            \
    X(MOSAIC_IO, 4, "input or output failed")                                                      \
    X(MOSAIC_NUMERIC, 5, "numerical failure or limit without a plan")                              \
    X(MOSAIC_DEVICE, 6, "measuring device unavailable")                                            \
    X(MOSAIC_REGRESSION, 7, "regression found")                                                    \
    X(MOSAIC_INTERNAL, 70, "internal error")                                                       \
    X(MOSAIC_INTERRUPTED, 130, "interrupted")

#define MOSAIC_STATUS_ENUM(name, code, text) name = (code),
enum mosaic_status { MOSAIC_STATUS_LIST(MOSAIC_STATUS_ENUM) };
#undef MOSAIC_STATUS_ENUM

/* How a result is written. */
enum mosaic_format { MOSAIC_TABLE, MOSAIC_JSON, MOSAIC_CSV, MOSAIC_YAML };

struct mosaic;          /* one session: settings, diagnostics */
struct mosaic_document; /* a plan, cluster or model file with all that it refers to */
struct mosaic_result;   /* the outcome of one call */

/* Version of the library, "MAJOR.MINOR.PATCH". */
MOSAIC_API const char *mosaic_version(void);
/* Fixed text for a status. */
MOSAIC_API const char *mosaic_status_text(enum mosaic_status status);

/* A new session with default settings, or NULL when memory is short. */
MOSAIC_API MOSAIC_MUST_USE struct mosaic *mosaic_new(void);
MOSAIC_API void mosaic_free(struct mosaic *session);

/* Worker threads, 1 to 256; 0 takes the number of processors.  Never changes a result. */
MOSAIC_API MOSAIC_MUST_USE enum mosaic_status mosaic_set_threads(struct mosaic *session,
                                                                 int threads);
/* Seed of everything random (law fits, bootstrap), 1 at first.  A document whose law is fitted to
 * runs takes it when it is loaded. */
MOSAIC_API void mosaic_set_seed(struct mosaic *session, unsigned long seed);
/* Replace one key of the next documents loaded: "budget.days", "30"; echoed in their results.  Of
 * the same key the last value holds. */
MOSAIC_API MOSAIC_MUST_USE enum mosaic_status mosaic_set(struct mosaic *session, const char *key,
                                                         const char *value);
/* Ask a running call to end with the best found so far; safe in a signal handler. */
MOSAIC_API void mosaic_interrupt(struct mosaic *session);
/* Called now and then with work done and total known so far; NULL turns it off. */
MOSAIC_API void mosaic_on_progress(struct mosaic *session,
                                   void (*call)(void *context, double done, double total),
                                   void *context);

/* Read a plan, cluster or model document and everything that it names. */
MOSAIC_API MOSAIC_MUST_USE enum mosaic_status mosaic_load(struct mosaic *session, const char *path,
                                                          struct mosaic_document **document);
MOSAIC_API void mosaic_document_free(struct mosaic_document *document);

/* The cluster-optimal plan.  The session keeps what a search has learnt of its steps: one that
 * differs in budget, law or objective alone takes it from there, with the same result.  settings:
 * "time_limit=60 s", "certificate=on", ... as mosaic-plan(1) lists them, ended by NULL; NULL alone
 * takes every default.  MOSAIC_NO_PLAN comes with a result that says why, MOSAIC_NUMERIC where a
 * limit came before any plan. */
MOSAIC_API MOSAIC_MUST_USE enum mosaic_status mosaic_plan(struct mosaic *session,
                                                          const struct mosaic_document *document,
                                                          const char *const *settings,
                                                          struct mosaic_result **result);
/* Step time, MFU and memory of the one geometry and layout that the document pins. */
MOSAIC_API MOSAIC_MUST_USE enum mosaic_status mosaic_predict(struct mosaic *session,
                                                             const struct mosaic_document *document,
                                                             struct mosaic_result **result);
/* The four live sets of the same point that memory schedules bound, without and with them, what is
 * alive in each phase of a step, and timelines. */
MOSAIC_API MOSAIC_MUST_USE enum mosaic_status
mosaic_schedules(struct mosaic *session, const struct mosaic_document *document,
                 struct mosaic_result **result);
/* The `top` (1 to 100) fastest layouts of the one model that the document names, or that
 * mosaic_set(session, "model", FILE) gave it before it was loaded.  MOSAIC_NO_PLAN, when none fits,
 * comes with a result that says why and what would do. */
MOSAIC_API MOSAIC_MUST_USE enum mosaic_status mosaic_layout(struct mosaic *session,
                                                            const struct mosaic_document *document,
                                                            long top,
                                                            struct mosaic_result **result);
/* Why a layout such as "tp=8,pp=4,recompute=full" is illegal, does not fit or loses against the
 * document's best one, with the nearest changes that would help, each evaluated.  Axes left out are
 * the document's.  A text that cannot be read is MOSAIC_USAGE. */
MOSAIC_API MOSAIC_MUST_USE enum mosaic_status mosaic_explain(struct mosaic *session,
                                                             const struct mosaic_document *document,
                                                             const char *layout,
                                                             struct mosaic_result **result);
/* Parameters and FLOPs per token under every convention; sequence 0 takes the document's own. */
MOSAIC_API MOSAIC_MUST_USE enum mosaic_status mosaic_count(struct mosaic *session,
                                                           const struct mosaic_document *document,
                                                           long sequence,
                                                           struct mosaic_result **result);
/* Two predictions term by term, and their losses at equal model FLOPs and equal peak compute. */
MOSAIC_API MOSAIC_MUST_USE enum mosaic_status mosaic_compare(struct mosaic *session,
                                                             const struct mosaic_document *a,
                                                             const struct mosaic_document *b,
                                                             struct mosaic_result **result);
/* Every value of the document with its origin (given, default, derived), and its warnings. */
MOSAIC_API MOSAIC_MUST_USE enum mosaic_status mosaic_lint(struct mosaic *session,
                                                          const struct mosaic_document *document,
                                                          struct mosaic_result **result);

/* Fits a loss law to a table of training runs (CSV).  settings: "form=mosaic", "loss=huber:1e-3",
 * ... as mosaic-fit(1) lists them, ended by NULL; NULL alone takes every default.  Runs that
 * determine no such law end in MOSAIC_NUMERIC with a result that says so. */
MOSAIC_API MOSAIC_MUST_USE enum mosaic_status mosaic_fit(struct mosaic *session, const char *path,
                                                         const char *const *settings,
                                                         struct mosaic_result **result);

/* Fits the constants of the step model to a table of measured training steps (CSV).  settings:
 * "models=FILE", "calibration=NAME", "cross_validation=off" as mosaic-fit(1) explains, ended by
 * NULL.  The result's `documents` hold a mosaic-calibration/1 text a device.  A search without an
 * end is MOSAIC_NUMERIC, with a result that says so. */
MOSAIC_API MOSAIC_MUST_USE enum mosaic_status mosaic_fit_steps(struct mosaic *session,
                                                               const char *rows_path,
                                                               const char *const *settings,
                                                               struct mosaic_result **result);

/* Predictions against measured training steps, a row each (CSV).  settings: "models=FILE",
 * "calibration=FILE", ... as mosaic-validate(1) lists them, ended by NULL; NULL alone takes every
 * default.  A table without a row that can be scored ends in MOSAIC_BAD_INPUT with a result that
 * names the reason of each. */
MOSAIC_API MOSAIC_MUST_USE enum mosaic_status mosaic_validate(struct mosaic *session,
                                                              const char *rows_path,
                                                              const char *const *settings,
                                                              struct mosaic_result **result);

/* Predictions (plans, where something is left to choose) of the files of `paths`, ended by NULL,
 * against the baseline of an earlier check.  settings: "baseline=FILE", "tolerance.mfu=1 %", ... as
 * mosaic-check(1) lists them, ended by NULL; "update=on" makes the baseline anew.  Something worse
 * by more than its tolerance is MOSAIC_REGRESSION, with a result that names it. */
MOSAIC_API MOSAIC_MUST_USE enum mosaic_status mosaic_check(struct mosaic *session,
                                                           const char *const *paths,
                                                           const char *const *settings,
                                                           struct mosaic_result **result);

/* Measurements of other tools as a calibration: files of `paths` (ended by NULL), all of one kind:
 * "nccl-tests", "nvbandwidth", "deepep", "steps" or "samples".  settings: "cluster=FILE",
 * "ranks=16", ... as mosaic-import(1) lists them, ended by NULL.  The result's "document" is a
 * mosaic-calibration/1 text. */
MOSAIC_API MOSAIC_MUST_USE enum mosaic_status
mosaic_import(struct mosaic *session, const char *kind, const char *const *paths,
              const char *const *settings, struct mosaic_result **result);

/* Measures this machine with a probe and fits a calibration.  settings: "probe=host",
 * "level=quick", "samples=FILE", ... as measure/calibrate_settings.h lists them, ended by NULL.
 * "document" of the result is the mosaic-calibration/1 text; a probe that fails is MOSAIC_DEVICE,
 * with a result where something was measured.  *result stays NULL at a rank other than 0 of several
 * processes.  "old=FILE", "new=FILE": what differs between two calibrations, MOSAIC_REGRESSION
 * where it is more than noise. */
MOSAIC_API MOSAIC_MUST_USE enum mosaic_status mosaic_calibrate(struct mosaic *session,
                                                               const char *const *settings,
                                                               struct mosaic_result **result);

/* Launch arguments of a layout in a result of plan, layout, predict or explain (JSON), under the
 * rules of an engine.  settings: "to=megatron-2026.08", "entry=2", "style=yaml", ended by NULL;
 * NULL alone takes the best layout and the engine that it was planned for.  "text" of the result is
 * what the engine takes; a layout that it cannot be told, or that breaks its rules, is
 * MOSAIC_BAD_INPUT. */
MOSAIC_API MOSAIC_MUST_USE enum mosaic_status mosaic_export(struct mosaic *session,
                                                            const char *path,
                                                            const char *const *settings,
                                                            struct mosaic_result **result);

MOSAIC_API void mosaic_result_free(struct mosaic_result *result);
/* A number at a key path such as "best.geometry.layers" or "alternatives[0].loss". */
MOSAIC_API MOSAIC_MUST_USE enum mosaic_status
mosaic_result_number(const struct mosaic_result *result, const char *path, double *value);
/* A text at a key path; it lives as long as the result.  NULL when there is none.  "document" is
 * the text of a document that the call made: the mosaic-law/1 (YAML) of a fit, the
 * mosaic.baseline/1 (JSON) of a check that updates. */
MOSAIC_API const char *mosaic_result_string(const struct mosaic_result *result, const char *path);
/* Length of the list at a key path, or 0. */
MOSAIC_API size_t mosaic_result_length(const struct mosaic_result *result, const char *path);
/* The whole result as JSON text; free() it.  NULL when memory is short. */
MOSAIC_API MOSAIC_MUST_USE char *mosaic_result_json(const struct mosaic_result *result);
/* Write the result; width is the number of columns a table may use, 0 for no limit. */
MOSAIC_API MOSAIC_MUST_USE enum mosaic_status
mosaic_result_write(const struct mosaic_result *result, enum mosaic_format format, int width,
                    FILE *stream);

/* Diagnostics of the last call that failed or warned, as text for a person ("" when none). */
MOSAIC_API const char *mosaic_diagnostics(const struct mosaic *session);

#ifdef __cplusplus
}
#endif

#endif
