// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The protocol mosaic-probe/1: a line that says who measures, then an answer to every request, a
 * line of JSON each.  Collectives run among threads of this process until it has joined a group of
 * processes.
 */
#include "group.h"

#include "exec/ranks.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MOST = 1 << 16, ROUNDS_DEFAULT = 9, ROUNDS_MOST = 10000 };

/* ---- the first line ---- */

static json_t *caches_of(const struct host *host) {
    json_t *const caches = json_array();
    for (int i = 0; i < host->cache_count; ++i)
        (void)json_array_append_new(
            caches, json_pack("{s:i, s:s, s:I}", "level", host->caches[i].level, "type",
                              host->caches[i].type, "bytes", (json_int_t)host->caches[i].bytes));
    return caches;
}

static json_t *device_of(const struct host *host) {
    return json_pack("{s:s, s:s, s:i, s:I, s:{s:f}, s:i, s:i, s:I, s:f, s:o}", "name", host->name,
                     "architecture", host->architecture, "count", host->devices, "memory_bytes",
                     (json_int_t)host->memory_bytes, "peak_flop_per_s", "fp32",
                     host->peak_flop_per_s, "threads", host->options.threads, "cores", host->cores,
                     "available_bytes", (json_int_t)host->available_bytes, "copy_bytes_per_s",
                     host->copy_bytes_per_s, "caches", caches_of(host));
}

static json_t *software_of(const struct host *host) {
    json_t *const software =
        json_pack("{s:s, s:s}", "kernels", host->kernels, "compiler", host->compiler);
    if (blas_name())
        (void)json_object_set_new(software, "OpenBLAS", json_string(blas_name()));
#ifdef __GLIBC__
    char text[32];
    (void)snprintf(text, sizeof text, "%d.%d", __GLIBC__, __GLIBC_MINOR__);
    (void)json_object_set_new(software, "glibc", json_string(text));
#endif
    return software;
}

static json_t *hello_of(const struct host *host) {
    json_t *const quantities = json_array(), *const clock = json_object();
    /* An expert layer is of the executors' loops, which other kernels do not tell the rate of. */
    const bool has_layer = host->options.kernels == KERNELS_EXECUTOR;
    for (int q = 0; q < SAMPLE_QUANTITIES; ++q)
        if (host_measures((enum sample_quantity)q) && (q != SAMPLE_MOE_LAYER || has_layer))
            (void)json_array_append_new(quantities,
                                        json_string(sample_kind((enum sample_quantity)q)->name));
    (void)json_object_set_new(clock, "source", json_string("CLOCK_MONOTONIC"));
    if (host->clock_hz > 0.0)
        (void)json_object_set_new(clock, "processor_hz", json_real(host->clock_hz));
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "protocol", "mosaic-probe/1", "probe",
                     "host", "version", MOSAIC_VERSION, "device", device_of(host), "software",
                     software_of(host), "clock", clock, "quantities", quantities);
}

/* A line and the newline, flushed; takes the value. */
static bool say(json_t *value) {
    char *const text = json_dumps(value, JSON_COMPACT);
    json_decref(value);
    if (!text)
        return false;
    const bool is_said = printf("%s\n", text) > 0 && fflush(stdout) == 0;
    free(text);
    return is_said;
}

/* ---- answers ---- */

struct server {
    const struct host *host;
    struct host_group group;
};

/* The text in ASCII: it may quote what was sent. */
static json_t *refused(json_int_t id, enum refusal why, const char *text) {
    char plain[STATUS_TEXT_MAX];
    size_t i = 0;
    for (; text[i] && i + 1 < sizeof plain; ++i)
        plain[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    plain[i] = '\0';
    return json_pack("{s:I, s:s, s:s}", "id", id, "refused", refusal_words[why], "text", plain);
}

static json_t *refused_by(json_int_t id, struct status_error *err) {
    char text[2 * STATUS_TEXT_MAX + 4];
    (void)snprintf(text, sizeof text, "%s%s%s", err->message, err->hint[0] ? "; " : "", err->hint);
    return refused(id, REFUSED_FAILED, text);
}

static json_t *measured(const struct host_job *job, json_int_t id) {
    char text[1024];
    json_t *const answer = json_pack("{s:I}", "id", id);
    json_t *const sample = sample_print(job->sample, text, sizeof text) < (int)sizeof text
                               ? json_loads(text, 0, NULL)
                               : NULL;
    (void)json_object_update(answer, sample);
    json_decref(sample);
    if (job->how)
        (void)json_object_set_new(answer, "how", json_string(job->how));
    return answer;
}

/* A whole number of a request within a range, else -1. */
static long whole_of(const json_t *request, const char *key, long least, long most) {
    const json_t *const value = json_object_get(request, key);
    const json_int_t number = json_integer_value(value);
    return json_is_integer(value) && number >= least && number <= most ? (long)number : -1;
}

static json_t *answer_group(struct server *server, const json_t *request, json_int_t id) {
    const char *const what = json_string_value(json_object_get(request, "group"));
    const char *const name = json_string_value(json_object_get(request, "group_id"));
    struct status_error err = {.status = MOSAIC_OK};
    char made[GROUP_ID_SIZE];
    if (what && strcmp(what, "new") == 0)
        return group_new_id(made, &err) == MOSAIC_OK
                   ? json_pack("{s:I, s:s}", "id", id, "group", made)
                   : refused_by(id, &err);
    const struct group_place place = {(int)whole_of(request, "rank", 0, RANKS_MAX),
                                      (int)whole_of(request, "ranks", 1, RANKS_MAX),
                                      (int)whole_of(request, "ranks_per_domain", 1, RANKS_MAX)};
    if (!what || strcmp(what, "join") != 0 || !name || place.rank < 0 || place.ranks < 0 ||
        place.ranks_per_domain < 0)
        return refused(id, REFUSED_FAILED,
                       "'group' is new, or join with group_id, rank, ranks and ranks_per_domain");
    if (group_join(&server->group, name, &place, &err) != MOSAIC_OK)
        return refused_by(id, &err);
    return json_pack("{s:I, s:b}", "id", id, "joined", 1);
}

static json_t *answer_to(struct server *server, const char *line, size_t length,
                         const json_t *request) {
    static const char *const others[] = {"id", "rounds", NULL};
    struct sample sample;
    struct status_error err = {.status = MOSAIC_OK};
    const json_int_t id = json_integer_value(json_object_get(request, "id"));
    if (!json_is_integer(json_object_get(request, "id")))
        return refused(0, REFUSED_FAILED, "a request is an object with 'id', a whole number");
    if (json_object_get(request, "group"))
        return answer_group(server, request, id);
    if (sample_parse_keys(line, length, others, &sample, &err) != MOSAIC_OK)
        return refused_by(id, &err);
    const bool has_rounds = json_object_get(request, "rounds") != NULL;
    const long rounds = has_rounds ? whole_of(request, "rounds", 1, ROUNDS_MOST) : ROUNDS_DEFAULT;
    if (rounds < 0)
        return refused(id, REFUSED_FAILED, "'rounds' is a whole number from 1 to 10000");
    struct host_job job = {
        .host = server->host, .group = &server->group, .sample = &sample, .rounds = (int)rounds};
    host_job_run(&job);
    return job.refusal == REFUSED_NOT ? measured(&job, id) : refused(id, job.refusal, job.text);
}

/* True while the output takes lines. */
static bool answer_line(struct server *server, const char *line, size_t length) {
    json_error_t wrong;
    json_t *const request = json_loadb(line, length, JSON_REJECT_DUPLICATES, &wrong);
    json_t *const answer =
        request ? answer_to(server, line, length, request) : refused(0, REFUSED_FAILED, wrong.text);
    json_decref(request);
    return say(answer);
}

static bool pass_over_line(void) {
    for (int c = 0; c != '\n' && c != EOF;)
        c = getchar();
    return say(refused(0, REFUSED_FAILED, "a line has 64 KiB at most"));
}

enum mosaic_status host_serve(const struct host *host) {
    static char line[LINE_MOST + 2];
    static struct server server;
    json_int_t answered = 0;
    server = (struct server){.host = host, .group = {.wait_s = host->options.wait_s}};
    bool is_said = say(hello_of(host));
    for (; is_said && fgets(line, sizeof line, stdin); ++answered) {
        size_t length = strlen(line);
        const bool is_whole = length > 0 && line[length - 1] == '\n';
        if (!is_whole && length + 1 == sizeof line)
            is_said = pass_over_line();
        else
            is_said = answer_line(&server, line, length - (is_whole ? 1 : 0));
    }
    group_leave(&server.group);
    is_said = is_said && say(json_pack("{s:b, s:I}", "bye", 1, "answered", answered));
    return is_said ? MOSAIC_OK : MOSAIC_IO;
}
