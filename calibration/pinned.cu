// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What a pinned block of host memory costs: cudaHostAlloc's time, and by how much the memory that
 * the node has left (/proc/meminfo, MemAvailable) and the process's resident set shrink and grow.
 * The driver is asked for the very bytes; allocators of frameworks round them up to a power of two
 * first, which `rounded_bytes` shows beside.  Other programs' memory is in the first figure.
 */
#include "device.h"
#include "timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES, BLOCKS };

static const struct probe_key keys[] = {
    {"bytes", "bytes of a block", 557056L / 8 * 2880 * 2, 1000003, 1, 1L << 36, NULL},
    {"blocks", "blocks held at once", 4, 2, 1, 1024, NULL},
};

/* Of a line "NAME: N kB" of a file of /proc; 0 where there is none. */
static double proc_bytes(const char *path, const char *name) {
    char line[256];
    unsigned long long kib = 0;
    FILE *const file = fopen(path, "r");
    const size_t length = strlen(name);
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, length) == 0 && line[length] == ':')
            kib = strtoull(line + length + 1, NULL, 10);
    if (file)
        (void)fclose(file);
    return 1024.0 * (double)kib;
}

static double available_bytes(void) {
    return proc_bytes("/proc/meminfo", "MemAvailable");
}
static double resident_bytes(void) {
    return proc_bytes("/proc/self/status", "VmRSS");
}

static double power_of_two(double bytes) {
    double power = 1;
    while (power < bytes)
        power *= 2;
    return power;
}

/* Takes the blocks, touches each page, returns the seconds of the calls. */
static double take_blocks(char **blocks, long count, size_t bytes) {
    const double from = timing_clock_s();
    for (long i = 0; i < count; ++i)
        CUDA_CHECK(cudaHostAlloc((void **)&blocks[i], bytes, cudaHostAllocDefault));
    const double taken_s = timing_clock_s() - from;
    for (long i = 0; i < count; ++i)
        memset(blocks[i], 1, bytes);
    return taken_s;
}

static double free_blocks(char **blocks, long count) {
    const double from = timing_clock_s();
    for (long i = 0; i < count; ++i)
        CUDA_CHECK(cudaFreeHost(blocks[i]));
    return timing_clock_s() - from;
}

static void run(struct probe *p) {
    const size_t bytes = (size_t)p->values[BYTES];
    const long count = p->values[BLOCKS];
    char **const blocks = (char **)calloc((size_t)count, sizeof *blocks);
    if (!blocks)
        probe_die(MOSAIC_INTERNAL, "out of memory");
    CUDA_CHECK(cudaDeviceSynchronize());
    const double available = available_bytes(), resident = resident_bytes();
    const double take_s = take_blocks(blocks, count, bytes);
    const double node = available - available_bytes(), process = resident_bytes() - resident;
    const double give_s = free_blocks(blocks, count);
    const double wanted = (double)count * (double)bytes;
    const struct figure figures[] = {
        {"take_s", take_s},       {"give_s", give_s},
        {"wanted_bytes", wanted}, {"rounded_bytes", (double)count * power_of_two((double)bytes)},
        {"node_bytes", node},     {"resident_bytes", process},
    };
    timing_print_figures(p, "allocation", figures, sizeof figures / sizeof *figures);
    free(blocks);
}

/* Blocks hold what is written into them and do not overlap. */
static void check(struct probe *p) {
    const size_t bytes = (size_t)p->values[BYTES];
    const long count = p->values[BLOCKS];
    char **const blocks = (char **)calloc((size_t)count, sizeof *blocks);
    float *const want = (float *)calloc((size_t)count, sizeof *want);
    float *const got = (float *)calloc((size_t)count, sizeof *got);
    if (!blocks || !want || !got)
        probe_die(MOSAIC_INTERNAL, "out of memory");
    (void)take_blocks(blocks, count, bytes);
    for (long i = 0; i < count; ++i)
        memset(blocks[i], (int)(i % 100) + 1, bytes);
    for (long i = 0; i < count; ++i) {
        want[i] = (float)(i % 100 + 1);
        got[i] = want[i];
        for (size_t j = 0; j < bytes; ++j)
            if ((float)blocks[i][j] != want[i])
                got[i] = blocks[i][j];
    }
    timing_compare(p, "content", got, want, (size_t)count, 0);
    (void)free_blocks(blocks, count);
    free(got);
    free(want);
    free(blocks);
}

const struct probe_kind pinned_probe = {
    "schedule", "pinned", "cost of pinned host memory", keys, sizeof keys / sizeof *keys,
    run,        check,
};
