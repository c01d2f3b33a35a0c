// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Tables of measured steps from arbitrary texts, rows and models apart by a line "%%".  Through
 * the call that `mosaic validate` is: a failure has a message, and whatever comes out is JSON
 * (which has no NaN) in which every row is scored or excluded.
 */
#include "mosaic.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PATH_SIZE = 64, SETTING_SIZE = 80 };
static const char separator[] = "\n%%\n";

static void check(int holds) {
    if (!holds)
        abort();
}

/* Files of this process that live as long as it does, written anew for each input. */
static void write_file(char *path, const char *name, const uint8_t *data, size_t size) {
    (void)snprintf(path, PATH_SIZE, "/tmp/mosaic-fuzz-%ld-%s", (long)getpid(), name);
    FILE *const file = fopen(path, "wb");
    check(file != NULL);
    check(fwrite(data, 1, size, file) == size);
    check(fclose(file) == 0);
}

/* Offset of the separator, or size. */
static size_t split_at(const uint8_t *data, size_t size) {
    const size_t length = sizeof separator - 1;
    for (size_t i = 0; i + length <= size; ++i)
        if (memcmp(data + i, separator, length) == 0)
            return i;
    return size;
}

static void check_result(const struct mosaic_result *result, enum mosaic_status status) {
    json_error_t error;
    char *const text = mosaic_result_json(result);
    check(text != NULL);
    json_t *const json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    check(json != NULL);
    double rows = 0.0, scored = 0.0;
    check(mosaic_result_number(result, "rows_read", &rows) == MOSAIC_OK);
    const enum mosaic_status has_rows = mosaic_result_number(result, "rows", &scored);
    check(status != MOSAIC_OK || (has_rows == MOSAIC_OK && scored >= 1.0));
    check((double)mosaic_result_length(result, "excluded") <= rows && scored <= rows);
    json_decref(json);
    free(text);
}

static void validate(const char *rows, const char *models) {
    char setting[SETTING_SIZE];
    (void)snprintf(setting, sizeof setting, "models=%s", models);
    const char *const settings[] = {setting, "anchor=1", NULL};
    struct mosaic *const session = mosaic_new();
    struct mosaic_result *result = NULL;
    check(session != NULL && mosaic_set_threads(session, 1) == MOSAIC_OK);
    const enum mosaic_status status = mosaic_validate(session, rows, settings, &result);
    check(status == MOSAIC_OK || status == MOSAIC_BAD_INPUT);
    check(status == MOSAIC_OK || mosaic_diagnostics(session)[0] != '\0');
    check(status != MOSAIC_OK || result != NULL);
    if (result)
        check_result(result, status);
    mosaic_result_free(result);
    mosaic_free(session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char rows[PATH_SIZE], models[PATH_SIZE];
    const size_t end = split_at(data, size);
    const size_t next = end < size ? end + sizeof separator - 1 : size;
    write_file(rows, "rows.csv", data, end);
    write_file(models, "models.csv", data + next, size - next);
    validate(rows, models);
    (void)remove(rows);
    (void)remove(models);
    return 0;
}
