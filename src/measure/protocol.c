// SPDX-License-Identifier: GPL-3.0-or-later
/* Lines of mosaic-probe/1: hello, requests, answers.  Probes and the replay link this file too. */
#include "measure/protocol.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *word, *text;
} refusals[REFUSALS] = {
#define REFUSAL_ROW(id, word, text) {word, text},
    REFUSAL_LIST(REFUSAL_ROW)
#undef REFUSAL_ROW
};

const char *refusal_name(enum refusal refusal) {
    return refusals[refusal].word;
}

enum refusal refusal_of(const char *word) {
    int i = 0;
    while (i < REFUSALS && strcmp(refusals[i].word, word) != 0)
        ++i;
    return (enum refusal)i;
}

enum mosaic_status protocol_object(const char *line, size_t length, json_t **out,
                                   struct status_error *err) {
    char shown[STATUS_QUOTE_MAX], begun[STATUS_QUOTE_MAX];
    json_error_t wrong;
    json_t *const root = json_loadb(line, length, JSON_REJECT_DUPLICATES, &wrong);
    if (json_is_object(root)) {
        *out = root;
        return MOSAIC_OK;
    }
    const char *const why = root ? "" : wrong.text;
    json_decref(root);
    (void)snprintf(begun, sizeof begun, "%.*s",
                   (int)(length < sizeof begun ? length : sizeof begun), line);
    return status_set(err, MOSAIC_BAD_INPUT, "'%s' is no object of JSON%s%s",
                      status_quote(begun, shown, sizeof shown), *why ? ": " : "", why);
}

/* ---- hello ---- */

/* A text of at most PROTOCOL_WORD_MAX - 1 bytes. */
static enum mosaic_status take_word(const json_t *object, const char *key, bool is_required,
                                    char out[PROTOCOL_WORD_MAX], struct status_error *err) {
    const char *const text = json_string_value(json_object_get(object, key));
    if (!text || !*text) {
        out[0] = '\0';
        return is_required ? status_set(err, MOSAIC_BAD_INPUT, "'%s' is missing", key) : MOSAIC_OK;
    }
    (void)status_quote(text, out, PROTOCOL_WORD_MAX);
    return MOSAIC_OK;
}

static enum mosaic_status take_protocol(const json_t *root, struct status_error *err) {
    char shown[STATUS_QUOTE_MAX];
    const char *const name = json_string_value(json_object_get(root, "protocol"));
    if (!name)
        return status_set(err, MOSAIC_BAD_INPUT, "'protocol' is missing");
    if (strcmp(name, PROTOCOL_NAME) == 0)
        return MOSAIC_OK;
    (void)status_set(err, MOSAIC_BAD_INPUT, "it speaks '%s', not " PROTOCOL_NAME,
                     status_quote(name, shown, sizeof shown));
    status_hint(err, "use the probe that came with this program, version " MOSAIC_VERSION);
    return MOSAIC_BAD_INPUT;
}

/* Quantities that only a later program knows are no error. */
static enum mosaic_status take_quantities(const json_t *root, struct probe_hello *out,
                                          struct status_error *err) {
    const json_t *const list = json_object_get(root, "quantities");
    size_t known = 0;
    if (!json_is_array(list))
        return status_set(err, MOSAIC_BAD_INPUT, "'quantities' is missing");
    for (size_t i = 0; i < json_array_size(list); ++i) {
        const char *const name = json_string_value(json_array_get(list, i));
        for (int q = 0; name && q < SAMPLE_QUANTITIES; ++q)
            if (strcmp(name, sample_kind((enum sample_quantity)q)->name) == 0) {
                out->can[q] = true;
                known++;
            }
    }
    return known > 0 ? MOSAIC_OK
                     : status_set(err, MOSAIC_BAD_INPUT, "'quantities' names nothing known here");
}

static enum mosaic_status take_device(const json_t *root, struct probe_hello *out,
                                      struct status_error *err) {
    enum { DEVICES_MOST = 1024 };
    const json_t *const device = json_object_get(root, "device");
    const json_t *const count = json_object_get(device, "count");
    const double memory = json_number_value(json_object_get(device, "memory_bytes"));
    if (!json_is_object(device))
        return status_set(err, MOSAIC_BAD_INPUT, "'device' is missing");
    enum mosaic_status status = take_word(device, "name", true, out->device, err);
    if (status != MOSAIC_OK)
        return status_set(err, status, "'device.name' is missing");
    TRY(take_word(device, "architecture", false, out->architecture, err));
    const json_int_t devices = count ? json_integer_value(count) : 1;
    if (devices < 1 || devices > DEVICES_MOST)
        return status_set(err, MOSAIC_BAD_INPUT, "'device.count' is no number of devices");
    out->devices = (int)devices;
    out->memory_bytes = isfinite(memory) && memory > 0.0 ? memory : 0.0;
    return MOSAIC_OK;
}

static enum mosaic_status take_hello(const json_t *root, struct probe_hello *out,
                                     struct status_error *err) {
    TRY(take_protocol(root, err));
    TRY(take_word(root, "probe", true, out->probe, err));
    TRY(take_word(root, "version", false, out->version, err));
    TRY(take_device(root, out, err));
    return take_quantities(root, out, err);
}

enum mosaic_status protocol_hello(const char *line, size_t length, struct probe_hello *out,
                                  struct status_error *err) {
    struct probe_hello hello = {.devices = 1};
    TRY(protocol_object(line, length, &hello.root, err));
    const enum mosaic_status status = take_hello(hello.root, &hello, err);
    if (status == MOSAIC_OK)
        *out = hello;
    else
        protocol_hello_free(&hello);
    return status;
}

void protocol_hello_free(struct probe_hello *hello) {
    json_decref(hello->root);
    hello->root = NULL;
}

double protocol_peak(const struct probe_hello *hello, const char *dtype) {
    const json_t *const peaks =
        json_object_get(json_object_get(hello->root, "device"), "peak_flop_per_s");
    const double peak = json_number_value(json_object_get(peaks, dtype));
    return isfinite(peak) && peak > 0.0 ? peak : 0.0;
}

static bool same_word(const char *what, const char *now, const char *was,
                      char text[PROTOCOL_TEXT_MAX]) {
    if (strcmp(now, was) == 0)
        return true;
    (void)snprintf(text, PROTOCOL_TEXT_MAX, "the %s is '%s', not '%s'", what, now, was);
    return false;
}

static const char *word_of(const json_t *object, const char *key) {
    const char *const text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* Every version that either names. */
static bool same_software(const json_t *now, const json_t *was, char text[PROTOCOL_TEXT_MAX]) {
    const json_t *const sides[] = {now, was};
    for (int side = 0; side < 2; ++side) {
        json_t *const object = (json_t *)(uintptr_t)sides[side]; /* iterators do not write */
        for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
            const char *const key = json_object_iter_key(at);
            char what[PROTOCOL_WORD_MAX + 16], name[PROTOCOL_WORD_MAX], a[PROTOCOL_WORD_MAX],
                b[PROTOCOL_WORD_MAX];
            (void)snprintf(what, sizeof what, "version of %s",
                           status_quote(key, name, sizeof name));
            if (!same_word(what, status_quote(word_of(now, key), a, sizeof a),
                           status_quote(word_of(was, key), b, sizeof b), text))
                return false;
        }
    }
    return true;
}

/* A processor is measured with so many of its threads. */
static bool same_threads(const struct probe_hello *now, const struct probe_hello *was,
                         char text[PROTOCOL_TEXT_MAX]) {
    const struct probe_hello *const sides[] = {now, was};
    char words[2][PROTOCOL_WORD_MAX];
    for (int i = 0; i < 2; ++i) {
        const json_t *const device = json_object_get(sides[i]->root, "device");
        (void)snprintf(words[i], sizeof words[i], "%" JSON_INTEGER_FORMAT,
                       json_integer_value(json_object_get(device, "threads")));
    }
    return same_word("number of threads", words[0], words[1], text);
}

bool protocol_same(const struct probe_hello *now, const struct probe_hello *was,
                   char text[PROTOCOL_TEXT_MAX]) {
    return same_word("probe", now->probe, was->probe, text) &&
           same_word("version of the probe", now->version, was->version, text) &&
           same_word("device", now->device, was->device, text) &&
           same_word("architecture", now->architecture, was->architecture, text) &&
           same_threads(now, was, text) &&
           same_software(json_object_get(now->root, "software"),
                         json_object_get(was->root, "software"), text);
}

/* ---- requests ---- */

int protocol_ask(long id, int rounds, const struct sample *asked, char *text, size_t size) {
    const int head = snprintf(text, size, "{\"id\": %ld, \"rounds\": %d, ", id, rounds);
    const size_t at = (size_t)head < size ? (size_t)head : size;
    const int keys = sample_print_keys(asked, text + at, size - at);
    const size_t end = at + (size_t)keys < size ? at + (size_t)keys : size;
    return head + keys + snprintf(text + end, size - end, "}");
}

int protocol_new_group(long id, char *text, size_t size) {
    return snprintf(text, size, "{\"id\": %ld, \"group\": \"new\"}", id);
}

int protocol_join(long id, const struct probe_group *group, char *text, size_t size) {
    return snprintf(text, size,
                    "{\"id\": %ld, \"group\": \"join\", \"group_id\": \"%s\", \"rank\": %d, "
                    "\"ranks\": %d, \"ranks_per_domain\": %d}",
                    id, group->id, group->rank, group->ranks, group->ranks_per_domain);
}

/* ---- answers ---- */

/* The object again as a text, for what reads lines; `others` are the members that are no sample's,
 * so that they are passed over. */
typedef enum mosaic_status parse_line(const char *line, size_t length, const char *const *others,
                                      struct sample *out, struct status_error *err);

static enum mosaic_status reparse(const json_t *object, parse_line *parse, struct sample *out,
                                  struct status_error *err) {
    json_t *const root = (json_t *)(uintptr_t)object; /* iterators do not write */
    char *const text = json_dumps(object, JSON_COMPACT);
    const char **const others = calloc(json_object_size(object) + 1, sizeof *others);
    size_t count = 0;
    enum mosaic_status status = MOSAIC_OK;
    if (text && others) {
        for (void *at = json_object_iter(root); at; at = json_object_iter_next(root, at))
            others[count++] = json_object_iter_key(at);
        status = parse(text, strlen(text), others, out, err);
    } else {
        status = status_no_memory(err);
    }
    free(others);
    free(text);
    return status;
}

/* From a fraction of any clock's tick to months: beyond it is rubbish, and a fit's infinity. */
static const double time_least_s = 1e-12, time_most_s = 1e7;

enum mosaic_status protocol_sample(const json_t *object, struct sample *out,
                                   struct status_error *err) {
    struct sample sample;
    TRY(reparse(object, sample_parse, &sample, err));
    if (sample.least_s < time_least_s || sample.most_s > time_most_s)
        return status_set(err, MOSAIC_BAD_INPUT, "'time_s.%s' is %g s, which nothing takes",
                          sample.least_s < time_least_s ? "least" : "most",
                          sample.least_s < time_least_s ? sample.least_s : sample.most_s);
    *out = sample;
    return MOSAIC_OK;
}

enum mosaic_status protocol_keys(const json_t *object, struct sample *out,
                                 struct status_error *err) {
    return reparse(object, sample_parse_keys, out, err);
}

static enum mosaic_status take_refusal(const json_t *root, const char *word,
                                       const struct sample *asked, struct probe_answer *out,
                                       struct status_error *err) {
    char shown[STATUS_QUOTE_MAX];
    const char *const text = json_string_value(json_object_get(root, "text"));
    out->kind = ANSWER_REFUSED;
    out->refusal = refusal_of(word);
    if (out->refusal == REFUSALS)
        return status_set(err, MOSAIC_BAD_INPUT, "'%s' is no reason to refuse",
                          status_quote(word, shown, sizeof shown));
    if (asked)
        out->sample = *asked;
    if (text)
        (void)status_quote(text, out->text, sizeof out->text);
    return MOSAIC_OK;
}

static enum mosaic_status take_group(const json_t *root, struct probe_answer *out,
                                     struct status_error *err) {
    const char *const id = json_string_value(json_object_get(root, "group"));
    if (json_is_true(json_object_get(root, "joined"))) {
        out->kind = ANSWER_JOINED;
        return MOSAIC_OK;
    }
    out->kind = ANSWER_GROUP;
    if (!id || !*id || strlen(id) >= sizeof out->group ||
        strspn(id, "0123456789abcdefABCDEF") != strlen(id))
        return status_set(err, MOSAIC_BAD_INPUT, "the id of a group is missing");
    (void)snprintf(out->group, sizeof out->group, "%s", id);
    return MOSAIC_OK;
}

static enum mosaic_status take_sample(const json_t *root, const struct sample *asked,
                                      struct probe_answer *out, struct status_error *err) {
    out->kind = ANSWER_SAMPLE;
    TRY(protocol_sample(root, &out->sample, err));
    if (sample_compare_keys(&out->sample, asked) != 0)
        return status_set(err, MOSAIC_BAD_INPUT, "it measured something else than was asked");
    return MOSAIC_OK;
}

static enum mosaic_status take_answer(const json_t *root, long id, const struct sample *asked,
                                      struct probe_answer *out, struct status_error *err) {
    const json_t *const answered = json_object_get(root, "id");
    const char *const refused = json_string_value(json_object_get(root, "refused"));
    if (!json_is_integer(answered))
        return status_set(err, MOSAIC_BAD_INPUT, "an answer without the id of its request");
    if (json_integer_value(answered) != id)
        return status_set(err, MOSAIC_BAD_INPUT, "an answer to request %lld, not to request %ld",
                          (long long)json_integer_value(answered), id);
    if (refused)
        return take_refusal(root, refused, asked, out, err);
    return asked ? take_sample(root, asked, out, err) : take_group(root, out, err);
}

enum mosaic_status protocol_answer(const char *line, size_t length, long id,
                                   const struct sample *asked, struct probe_answer *out,
                                   struct status_error *err) {
    json_t *root = NULL;
    struct probe_answer answer = {.kind = ANSWER_SAMPLE};
    TRY(protocol_object(line, length, &root, err));
    const enum mosaic_status status = take_answer(root, id, asked, &answer, err);
    json_decref(root);
    if (status == MOSAIC_OK)
        *out = answer;
    return status;
}
