// SPDX-License-Identifier: GPL-3.0-or-later
/* From options to a session, and from a result to its output. */
#include "cli/session.h"

#include "base/clock.h"
#include "cli/output.h"
#include "report/emit.h"
#include "report/result.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static struct mosaic *volatile interrupted; /* the session that a signal ends */

static void on_interrupt(int signal_number) {
    struct mosaic *const mosaic = interrupted;
    (void)signal_number;
    if (mosaic)
        mosaic_interrupt(mosaic);
}

void session_catch(void (*handler)(int)) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; ++i) {
        struct sigaction action;
        if (sigaction(signals[i], NULL, &action) != 0 || action.sa_handler == SIG_IGN)
            continue;
        memset(&action, 0, sizeof action);
        action.sa_handler = handler ? handler : SIG_DFL;
        action.sa_flags = handler ? (int)SA_RESETHAND : 0;
        (void)sigemptyset(&action.sa_mask);
        (void)sigaction(signals[i], &action, NULL);
    }
}

static void catch_interrupt(struct mosaic *mosaic) {
    interrupted = mosaic;
    session_catch(mosaic ? on_interrupt : NULL);
}

static enum mosaic_status apply_pair(struct mosaic *mosaic, const char *pair) {
    const char *const equals = strchr(pair, '=');
    char *const key = strdup(pair);
    if (!key)
        return MOSAIC_INTERNAL;
    key[equals - pair] = '\0';
    const enum mosaic_status status = mosaic_set(mosaic, key, equals + 1);
    free(key);
    return status;
}

enum mosaic_status session_apply(struct mosaic *mosaic, const struct option_set *options) {
    if (options->value[OPTION_THREADS].given)
        TRY(mosaic_set_threads(mosaic, (int)options->value[OPTION_THREADS].number));
    if (options->value[OPTION_SEED].given)
        mosaic_set_seed(mosaic, (unsigned long)options->value[OPTION_SEED].number);
    /* As if the plan said `model: FILE`: what --set says of it comes after. */
    if (options->value[OPTION_MODEL].given)
        TRY(mosaic_set(mosaic, "model", options->value[OPTION_MODEL].text));
    for (size_t i = 0; i < options->pair_count; i++)
        if (options->pair_of[i] == OPTION_SET)
            TRY(apply_pair(mosaic, options->pairs[i]));
    return MOSAIC_OK;
}

static enum terminal_when when(const struct option_set *options, enum option_id id) {
    return (enum terminal_when)options->value[id].number;
}

enum mosaic_status session_begin(struct session *session, const struct option_set *options) {
    *session = (struct session){.options = options, .mark_s = clock_now_s()};
    session->mosaic = mosaic_new();
    if (!session->mosaic) {
        session->status = MOSAIC_INTERNAL;
        (void)fputs("mosaic: out of memory\n", stderr);
        return session->status;
    }
    catch_interrupt(session->mosaic);
    progress_begin(&session->progress, when(options, OPTION_PROGRESS));
    mosaic_on_progress(session->mosaic, progress_show, &session->progress);
    session_report(session, NULL, session_apply(session->mosaic, options));
    return session->status;
}

struct mosaic_document *session_load(struct session *session, int index) {
    struct mosaic_document *document = NULL;
    const enum mosaic_status status =
        mosaic_load(session->mosaic, session->options->operands[index], &document);
    session_report(session, "load", status);
    return status == MOSAIC_OK ? document : NULL;
}

void session_report(struct session *session, const char *phase, enum mosaic_status status) {
    const double now = clock_now_s();
    const char *const text = mosaic_diagnostics(session->mosaic);
    progress_end(&session->progress);
    if (session->status == MOSAIC_OK)
        session->status = status;
    if (text && *text)
        (void)fprintf(stderr, "%s%s", text, text[strlen(text) - 1] == '\n' ? "" : "\n");
    else if (status != MOSAIC_OK)
        (void)fprintf(stderr, "mosaic: %s\n", mosaic_status_text(status));
    if (phase && session->options->value[OPTION_VERBOSE].given)
        (void)fprintf(stderr, "mosaic: %s took %.1f ms\n", phase, 1e3 * (now - session->mark_s));
    session->mark_s = now;
    progress_begin(&session->progress, when(session->options, OPTION_PROGRESS));
}

static enum mosaic_status write_result(const struct session *session,
                                       const struct mosaic_result *result,
                                       struct status_error *err) {
    const struct option_set *const options = session->options;
    struct output output;
    TRY(output_open(&output, options->value[OPTION_OUTPUT].text, err));
    const struct emit_options look = {
        .width = terminal_width(output.stream),
        .color = terminal_color(when(options, OPTION_COLOR), output.stream),
        .show_values = options->value[OPTION_SHOW_DEFAULTS].given,
    };
    const enum mosaic_format format = (enum mosaic_format)options->value[OPTION_FORMAT].number;
    const enum mosaic_status status = emit(result->root, format, &look, output.stream, err);
    if (status == MOSAIC_OK)
        return output_commit(&output, err);
    output_abandon(&output);
    return status;
}

static void report_usage(const struct session *session) {
    struct rusage usage;
    const double kib = 1024;
    (void)fprintf(stderr, "mosaic: write took %.1f ms\n", 1e3 * (clock_now_s() - session->mark_s));
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        (void)fprintf(stderr, "mosaic: peak memory %.1f MiB\n", (double)usage.ru_maxrss / kib);
}

enum mosaic_status session_end(struct session *session, struct mosaic_result *result) {
    progress_end(&session->progress);
    if (session->mosaic) {
        mosaic_on_progress(session->mosaic, NULL, NULL);
        catch_interrupt(NULL);
    }
    if (result) {
        struct status_error err = {0};
        const enum mosaic_status status = write_result(session, result, &err);
        if (status != MOSAIC_OK) {
            (void)fprintf(stderr, "mosaic: %s\n", err.message);
            session->status = status;
        } else if (session->options->value[OPTION_VERBOSE].given) {
            report_usage(session);
        }
        mosaic_result_free(result);
    }
    mosaic_free(session->mosaic);
    session->mosaic = NULL;
    return session->status;
}

enum mosaic_status session_run(const struct option_set *options, const char *phase,
                               session_call *call) {
    struct session session;
    struct mosaic_result *result = NULL;
    if (session_begin(&session, options) == MOSAIC_OK) {
        struct mosaic_document *const document = session_load(&session, 0);
        if (document)
            session_report(&session, phase, call(&session, document, &result));
        mosaic_document_free(document);
    }
    return session_end(&session, result);
}
