// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Stands in for libFuzzer's main: gives each file named on the command line to the fuzz target
 * once, so that a corpus can be replayed by any compiler.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    uint8_t *data = NULL;
    *size = 0;
    if (fseek(file, 0, SEEK_END) == 0) {
        const long length = ftell(file);
        rewind(file);
        /* Exactly the input's size, so that a sanitizer sees the first byte read beyond it. */
        if (length >= 0 && (data = malloc(length > 0 ? (size_t)length : 1)) != NULL)
            *size = fread(data, 1, (size_t)length, file);
    }
    (void)fclose(file);
    return data;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        size_t size = 0;
        uint8_t *data = read_file(argv[i], &size);
        if (!data) {
            fprintf(stderr, "%s: cannot be read\n", argv[i]);
            return 1;
        }
        fprintf(stderr, "%s\n", argv[i]);
        (void)LLVMFuzzerTestOneInput(data, size);
        free(data);
    }
    return 0;
}
