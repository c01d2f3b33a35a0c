// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The protocol; see the header.  Libraries may print to standard output (NCCL does when told to be
 * talkative), so answers go to a copy of it, and the number 1 is made standard error.
 */
#include "clock.h"
#include "device.h"
#include "dnn.h"
#include "dnn_attention.h"
#include "group.h"
#include "quantity.h"
#include "serve.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_MOST = 64 << 10, ROUNDS_USUAL = 9, ROUNDS_MOST = 10000 };

static const char *const refusal_words[] = {"unsupported", "memory", "failed"};

static FILE *answers;

static void open_answers(void) {
    const int copy = dup(STDOUT_FILENO);
    answers = copy >= 0 ? fdopen(copy, "w") : NULL;
    if (!answers || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        probe_die(MOSAIC_IO, "cannot keep standard output apart: %s", strerror(errno));
}

static void flush_answer(void) {
    if (fputc('\n', answers) == EOF || fflush(answers) != 0)
        probe_die(MOSAIC_IO, "cannot write to standard output");
}

/* Takes the object. */
static void answer_json(json_t *object) {
    if (!object || json_dumpf(object, answers, JSON_COMPACT) != 0)
        probe_die(MOSAIC_INTERNAL, "cannot make an answer");
    json_decref(object);
    flush_answer();
}

/* Any bytes as text. */
static json_t *text_of(const char *bytes) {
    char plain[PROBE_TEXT];
    size_t length = 0;
    json_t *const text = json_string(bytes);
    if (text)
        return text;
    for (; bytes[length] && length + 1 < sizeof plain; ++length)
        plain[length] = bytes[length] >= ' ' && bytes[length] <= '~' ? bytes[length] : '?';
    plain[length] = '\0';
    return json_string(plain);
}

static void answer_refusal(json_int_t id, enum refusal why, const char *text) {
    answer_json(json_pack("{s:I, s:s, s:o}", "id", id, "refused", refusal_words[why], "text",
                          text_of(text)));
}

/* ---- hello ---- */

static void add_number(json_t *object, const char *key, double value) {
    if (isfinite(value))
        (void)json_object_set_new(object, key, json_real(value));
}

static void add_version(json_t *object, const char *key, const char *version) {
    if (version[0])
        (void)json_object_set_new(object, key, text_of(version));
}

static json_t *software_of(const struct probe *p) {
    char driver[CLOCK_TEXT], nccl[32], dnn[DNN_TEXT], runtime[32], cuda[32], blas[32];
    json_t *const all = json_object();
    clock_driver_version(driver);
    group_version(nccl, sizeof nccl);
    dnn_version(dnn);
    (void)snprintf(runtime, sizeof runtime, "%d.%d", p->runtime / 1000, p->runtime % 1000 / 10);
    (void)snprintf(cuda, sizeof cuda, "%d.%d", p->driver / 1000, p->driver % 1000 / 10);
    (void)snprintf(blas, sizeof blas, "%d.%d.%d", p->blas_version / 10000,
                   p->blas_version / 100 % 100, p->blas_version % 100);
    add_version(all, "cuda_runtime", runtime);
    add_version(all, "cuda_driver", cuda);
    add_version(all, "nvidia_driver", driver);
    add_version(all, "cublas", blas);
    add_version(all, "nccl", nccl);
    add_version(all, "cudnn", dnn);
    add_version(all, "attention", dnn_attention_is_there() ? "cudnn" : "own");
    return all;
}

static json_t *device_of(const struct probe *p) {
    char architecture[16];
    (void)snprintf(architecture, sizeof architecture, "sm_%d%d", p->properties.major,
                   p->properties.minor);
    return json_pack("{s:o, s:s, s:i, s:I, s:i, s:I}", "name", text_of(p->properties.name),
                     "architecture", architecture, "count", 1, "memory_bytes",
                     (json_int_t)p->properties.totalGlobalMem, "multiprocessors",
                     p->properties.multiProcessorCount, "l2_bytes",
                     (json_int_t)p->properties.l2CacheSize);
}

static json_t *clock_of(const struct probe *p) {
    const struct clock_limits limits = clock_limits(p);
    const struct clock_reading now = clock_read(p);
    json_t *const all = json_object();
    add_number(all, "sm_hz", now.sm_hz);
    add_number(all, "sm_max_hz", limits.sm_hz);
    add_number(all, "memory_hz", now.memory_hz);
    add_number(all, "memory_max_hz", limits.memory_hz);
    add_number(all, "power_limit_w", limits.power_w);
    add_number(all, "temperature_c", now.temperature_c);
    return all;
}

static void say_hello(const struct probe *p) {
    json_t *const names = json_array();
    for (const struct quantity *const *q = quantities; *q; ++q)
        (void)json_array_append_new(names, json_string(sample_kind((*q)->id)->name));
    json_t *const clock = clock_of(p); /* opens what software_of reads */
    answer_json(json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "protocol", "mosaic-probe/1",
                          "probe", "cuda", "version", MOSAIC_VERSION, "device", device_of(p),
                          "software", software_of(p), "clock", clock, "quantities", names));
}

/* ---- requests ---- */

struct request {
    const char *line;
    size_t length;
    json_t *json;
    json_int_t id;
};

static long whole_of(const struct request *r, const char *key, long least, long most) {
    const json_t *const value = json_object_get(r->json, key);
    if (!json_is_integer(value) || json_integer_value(value) < least ||
        json_integer_value(value) > most)
        probe_refuse(REFUSED_FAILED, "'%s' is a whole number from %ld to %ld", key, least, most);
    return (long)json_integer_value(value);
}

static const char *word_of(const struct request *r, const char *key) {
    const json_t *const value = json_object_get(r->json, key);
    if (!json_is_string(value))
        probe_refuse(REFUSED_FAILED, "'%s' is a word", key);
    return json_string_value(value);
}

static void answer_group(struct probe *p, const struct request *r) {
    enum { RANKS_MOST = 1 << 20 };
    const char *const what = word_of(r, "group");
    char id[GROUP_ID_TEXT];
    if (strcmp(what, "new") == 0) {
        group_new(id);
        answer_json(json_pack("{s:I, s:s}", "id", r->id, "group", id));
        return;
    }
    if (strcmp(what, "join") != 0)
        probe_refuse(REFUSED_FAILED, "'group' is new or join");
    const struct group_place place = {(int)whole_of(r, "rank", 0, RANKS_MOST),
                                      (int)whole_of(r, "ranks", 1, RANKS_MOST),
                                      (int)whole_of(r, "ranks_per_domain", 1, RANKS_MOST)};
    group_join(p, word_of(r, "group_id"), &place);
    answer_json(json_pack("{s:I, s:b}", "id", r->id, "joined", 1));
}

/* A member of the answer under way, where there is a text. */
static void print_text(const char *key, const char *text) {
    if (!text || !text[0])
        return;
    (void)fprintf(answers, ",\"%s\":", key);
    json_t *const value = text_of(text);
    (void)json_dumpf(value, answers, JSON_ENCODE_ANY);
    json_decref(value);
}

/* The sample's members, then what else is known. */
static void print_answer(const struct probe *p, const struct request *r, const struct sample *s,
                         const struct measured *m) {
    char text[4096];
    const struct clock_reading now = clock_read(p);
    const int length = sample_print(s, text, sizeof text);
    if (length < 2 || (size_t)length >= sizeof text)
        probe_die(MOSAIC_INTERNAL, "cannot print a sample");
    text[length - 1] = '\0'; /* its brace */
    (void)fprintf(answers, "{\"id\":%" JSON_INTEGER_FORMAT ",%s", r->id, text + 1);
    print_text("how", m->how);
    print_text("kernel", m->kernel);
    print_text("reason", m->instead);
    if (m->timing.queue_s.median > 0)
        (void)fprintf(answers, ",\"queue_s\":%.6g", m->timing.queue_s.median);
    for (int i = 0; i < m->figure_count; ++i)
        (void)fprintf(answers, ",\"%s\":%.9g", m->figures[i].name, m->figures[i].value);
    if (isfinite(now.sm_hz))
        (void)fprintf(answers, ",\"clock_hz\":%.9g", now.sm_hz);
    if (isfinite(now.power_w))
        (void)fprintf(answers, ",\"power_w\":%.6g", now.power_w);
    (void)fputc('}', answers);
    flush_answer();
}

static void answer_sample(struct probe *p, const struct request *r) {
    static const char *const others[] = {"id", "rounds", NULL};
    struct sample asked = {};
    struct measured measured = {};
    struct status_error err = {};
    if (sample_parse_keys(r->line, r->length, others, &asked, &err) != MOSAIC_OK)
        probe_refuse(REFUSED_FAILED, "%s%s%s", err.message, err.hint[0] ? "; " : "", err.hint);
    p->repeats = json_object_get(r->json, "rounds") ? (int)whole_of(r, "rounds", 1, ROUNDS_MOST)
                                                    : ROUNDS_USUAL;
    quantity_measure(p, &asked, &measured);
    print_answer(p, r, &asked, &measured);
}

/* What a refusal leaves behind. */
static void recover(struct probe *p) {
    if (device_is_lost(p))
        probe_die(MOSAIC_DEVICE, "the device is lost; start anew");
    group_recover(p);
}

static void answer_request(struct probe *p, const struct request *r) {
    const size_t mark = device_mark();
    try {
        if (json_object_get(r->json, "group") != NULL)
            answer_group(p, r);
        else
            answer_sample(p, r);
        device_release(mark);
    } catch (const probe_refused &refused) {
        *p->release = 1;
        answer_refusal(r->id, refused.why, refused.text);
        recover(p);
        device_release(mark);
    }
}

static void answer_line(struct probe *p, const char *line, size_t length) {
    json_error_t error;
    struct request r = {line, length, NULL, 0};
    if (length > LINE_MOST) {
        answer_refusal(0, REFUSED_FAILED, "a line has 64 KiB at most");
        return;
    }
    r.json = json_loadb(line, length, JSON_REJECT_DUPLICATES, &error);
    const json_t *const id = json_object_get(r.json, "id");
    r.id = json_integer_value(id);
    if (!r.json)
        answer_refusal(0, REFUSED_FAILED, error.text);
    else if (!json_is_integer(id))
        answer_refusal(0, REFUSED_FAILED, "a request is an object with 'id', a whole number");
    else
        answer_request(p, &r);
    json_decref(r.json);
}

int serve_run(struct probe *p) {
    char *line = NULL;
    size_t room = 0;
    json_int_t answered = 0;
    p->is_quiet = true;
    open_answers();
    say_hello(p);
    for (ssize_t length; (length = getline(&line, &room, stdin)) > 0; ++answered)
        answer_line(p, line, (size_t)length);
    free(line);
    answer_json(json_pack("{s:b, s:I}", "bye", 1, "answered", answered));
    group_abort(p);
    return MOSAIC_OK;
}
