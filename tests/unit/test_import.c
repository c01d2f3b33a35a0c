// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Imports through the public interface: every input cut anywhere and spoiled in turn ends in a
 * result or in bad input, never worse; what collectives come out as, number by number.
 */
#include "close.h"
#include "schema_check.h"

#include "mosaic.h"
#include "report/result.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char cluster[] = "cluster=configs/clusters/p6-b200.yaml";

static const struct {
    const char *kind, *path, *setting;
} inputs[] = {{"nccl-tests", "tests/import/all_reduce-new.txt", NULL},
              {"nccl-tests", "tests/import/all_reduce-old.txt", NULL},
              {"nccl-tests", "tests/import/all_reduce.csv", NULL},
              {"nccl-tests", "tests/import/all_reduce.json", NULL},
              {"nccl-tests", "tests/import/all_reduce-fragments.json", NULL},
              {"nvbandwidth", "tests/import/nvbandwidth.txt", NULL},
              {"nvbandwidth", "tests/import/nvbandwidth.json", NULL},
              {"deepep", "tests/import/deepep-internode.txt", "ranks=32"},
              {"samples", "tests/import/samples.jsonl", NULL},
              {"steps", "tests/import/steps.csv", NULL},
              {"kernels", "tests/import/kernels.csv", NULL}};
enum { INPUTS = sizeof inputs / sizeof *inputs };

static char *read_whole(const char *path, size_t *size) {
    FILE *const file = fopen(path, "rb");
    assert_non_null(file);
    char *const text = malloc(1 << 16);
    *size = fread(text, 1, (1 << 16) - 1, file);
    text[*size] = '\0';
    (void)fclose(file);
    return text;
}

static enum mosaic_status import(struct mosaic *session, size_t i, const char *path,
                                 struct mosaic_result **result) {
    const char *const paths[] = {path, NULL};
    const char *const settings[] = {cluster, inputs[i].setting, NULL};
    return mosaic_import(session, inputs[i].kind, paths, settings, result);
}

static void results_fit_their_schema(void **state) {
    (void)state;
    struct mosaic *const session = mosaic_new();
    for (size_t i = 0; i < INPUTS; ++i) {
        struct mosaic_result *result = NULL;
        char message[SCHEMA_MESSAGE_MAX];
        if (import(session, i, inputs[i].path, &result) != MOSAIC_OK)
            fail_msg("%s: %s", inputs[i].path, mosaic_diagnostics(session));
        if (!schema_check_file("src/report/schema/mosaic.import-1.json", result->root, message))
            fail_msg("%s: %s", inputs[i].path, message);
        mosaic_result_free(result);
    }
    mosaic_free(session);
}

/* 24 ranks: t = 60 us + size 2 (23/24) / 330 GB/s, two decimals of a microsecond. */
static void numbers_are_those_of_the_run(void **state) {
    (void)state;
    struct mosaic *const session = mosaic_new();
    for (size_t i = 0; i < 5; ++i) {
        struct mosaic_result *result = NULL;
        assert_int_equal(import(session, i, inputs[i].path, &result), MOSAIC_OK);
        assert_int_equal(mosaic_result_length(result, "entries"), 1);
        assert_int_equal(mosaic_result_length(result, "entries[0].points"), 8);
        for (int k = 0; k < 8; ++k) {
            char key[64];
            double bytes = 0, bus = 0;
            (void)snprintf(key, sizeof key, "entries[0].points[%d][0]", k);
            assert_int_equal(mosaic_result_number(result, key, &bytes), MOSAIC_OK);
            (void)snprintf(key, sizeof key, "entries[0].points[%d][1]", k);
            assert_int_equal(mosaic_result_number(result, key, &bus), MOSAIC_OK);
            const double factor = 2.0 * 23 / 24;
            assert_close(bytes, ldexp(65536.0, 2 * k > 14 ? 14 : 2 * k), 0);
            assert_close(bus, factor * bytes / (60e-6 + bytes * factor / 330e9), 2e-4);
        }
        mosaic_result_free(result);
    }
    mosaic_free(session);
}

struct spoiled {
    char path[64];
    struct mosaic *session;
};

static void must_end(struct spoiled *s, size_t i, const char *text, size_t size) {
    struct mosaic_result *result = NULL;
    FILE *const file = fopen(s->path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    (void)fclose(file);
    const enum mosaic_status status = import(s->session, i, s->path, &result);
    if (status != MOSAIC_OK && status != MOSAIC_BAD_INPUT && status != MOSAIC_IO)
        fail_msg("%s: %d: %s", inputs[i].path, status, mosaic_diagnostics(s->session));
    if (status == MOSAIC_OK) {
        assert_non_null(mosaic_result_string(result, "document"));
        mosaic_result_free(result);
    } else {
        assert_true(strlen(mosaic_diagnostics(s->session)) > 0);
    }
}

static void spoiled_files_end_well(void **state) {
    (void)state;
    static const char bad[] = {'0', '9', '-', 'e', '{', '"', ' ', '\n', ','};
    struct spoiled s = {.session = mosaic_new()};
    (void)snprintf(s.path, sizeof s.path, "/tmp/mosaic-test-import-%ld", (long)getpid());
    for (size_t i = 0; i < INPUTS; ++i) {
        size_t size = 0;
        char *const text = read_whole(inputs[i].path, &size);
        for (size_t cut = 0; cut < size; cut += size / 25 + 1)
            must_end(&s, i, text, cut);
        for (size_t at = 0, k = 0; at < size; at += size / 40 + 1, ++k) {
            const char kept = text[at];
            text[at] = bad[k % sizeof bad];
            must_end(&s, i, text, size);
            text[at] = kept;
        }
        free(text);
    }
    (void)unlink(s.path);
    mosaic_free(s.session);
}

static void settings_are_checked(void **state) {
    (void)state;
    static const char *const wrong[] = {"ranks=0",    "ranks=two",       "collective=gather",
                                        "colour=red", "quantisation=on", "strict=off"};
    struct mosaic *const session = mosaic_new();
    const char *const paths[] = {inputs[2].path, NULL}, *const none[] = {NULL};
    struct mosaic_result *result = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        const char *const settings[] = {wrong[i], NULL};
        assert_int_equal(mosaic_import(session, "nccl-tests", paths, settings, &result),
                         MOSAIC_USAGE);
    }
    assert_int_equal(mosaic_import(session, "nccl-tests", none, NULL, &result), MOSAIC_USAGE);
    assert_int_equal(mosaic_import(session, "nccl", paths, NULL, &result), MOSAIC_USAGE);
    assert_int_equal(mosaic_import(session, "nccl-tests", paths, NULL, &result), MOSAIC_USAGE);
    const char *const device[] = {"device=B200", NULL};
    assert_int_equal(mosaic_import(session, "nccl-tests", paths, device, &result), MOSAIC_OK);
    mosaic_result_free(result);
    mosaic_free(session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_fit_their_schema),
        cmocka_unit_test(numbers_are_those_of_the_run),
        cmocka_unit_test(spoiled_files_end_well),
        cmocka_unit_test(settings_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
