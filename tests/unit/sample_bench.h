// SPDX-License-Identifier: GPL-3.0-or-later
/* A machine whose constants are known, measured without noise; what is fitted to it. */
#ifndef MOSAIC_TESTS_SAMPLE_BENCH_H
#define MOSAIC_TESTS_SAMPLE_BENCH_H

#include "test_doc.h"

#include "fit/sample_fit.h"
#include "machine/collective.h"

#include <stdlib.h>

enum { SAMPLES_MAX = 512 };

struct bench {
    struct sample sample[SAMPLES_MAX];
    size_t count;
    struct sample_facts facts;
    struct cluster cluster;
    struct document *generic;
};

static const double peak16 = 1e15, peak8 = 2e15, hbm = 4e12, link = 5e10;
static const double share16 = 0.7, share8 = 0.6, half = 80.0, hbm_share = 0.8;
static const double block = 0.9, grouped = 0.85, half_rows = 90.0;

static struct sample *add(struct bench *b, const char *keys, double seconds) {
    struct status_error err = {.message = ""};
    struct sample *const s = &b->sample[b->count++];
    assert_true(b->count <= SAMPLES_MAX);
    if (sample_parse_keys(keys, strlen(keys), NULL, s, &err) != MOSAIC_OK)
        fail_msg("%s: %s", keys, err.message);
    s->median_s = seconds;
    s->least_s = 0.99 * seconds;
    s->most_s = 1.02 * seconds;
    s->rounds = 9;
    s->is_verified = true;
    return s;
}

#define ADD(b, seconds, ...)                                                                       \
    do {                                                                                           \
        char keys_[512];                                                                           \
        (void)snprintf(keys_, sizeof keys_, __VA_ARGS__);                                          \
        (void)add((b), keys_, (seconds));                                                          \
    } while (0)

static double gemm_s(double rate, double m, double n, double k) {
    return 2 * m * n * k / rate * (1 + half / m) * (1 + half / n) * (1 + half / k) +
           2 * (m * k + k * n + m * n) / (hbm * hbm_share);
}

static void add_gemms(struct bench *b) {
    static const int side[] = {256, 512, 1024, 4096, 8192};
    static const struct {
        const char *dtype;
        double rate;
    } dtypes[] = {
        {"bf16", share16 * peak16}, {"fp8", share8 * peak8}, {"fp8_block", block * share8 * peak8}};
    for (size_t d = 0; d < 3; ++d)
        for (size_t i = 0; i < 5; ++i)
            for (size_t j = 0; j < 2; ++j) {
                const int m = side[i], n = side[(i + 2 * j) % 5], k = side[(i + j) % 5];
                ADD(b, gemm_s(dtypes[d].rate, m, n, k),
                    "{\"quantity\": \"gemm\", \"dtype\": \"%s\", \"pass\": \"forward\", \"m\": %d, "
                    "\"n\": %d, \"k\": %d}",
                    dtypes[d].dtype, m, n, k);
            }
    ADD(b, gemm_s(share16 * peak16, 8192, 8192, 8192) / 0.75,
        "{\"quantity\": \"sustained\", \"dtype\": \"bf16\", \"m\": 8192, \"n\": 8192, \"k\": 8192, "
        "\"seconds\": 60}");
    for (int rows = 16; rows <= 4096; rows *= 2) {
        const double r = rows, n = 2048, k = 1024, e = 8;
        ADD(b,
            2 * e * r * n * k / (grouped * share16 * peak16) * pow(1 + half_rows / r, 1.3) +
                2 * (e * n * k + e * r * (n + k)) / (hbm * hbm_share),
            "{\"quantity\": \"grouped_gemm\", \"dtype\": \"bf16\", \"pass\": \"forward\", "
            "\"experts\": 8, \"rows\": %d, \"n\": 2048, \"k\": 1024}",
            rows);
    }
}

static void add_attention(struct bench *b) {
    for (int s = 512; s <= 16384; s *= 2) {
        const double flop = 2.0 * 2 * s * s * 16 * 128;
        const double forward = flop / (0.5 * peak16) * (1 + 700.0 / s);
        static const char keys[] =
            "{\"quantity\": \"attention\", \"dtype\": \"%s\", \"pass\": \"%s\", \"batch\": 2, "
            "\"sequence\": %d, \"heads\": 16, \"kv_heads\": 4, \"head_dim\": 128, \"causal\": 1}";
        ADD(b, forward, keys, "bf16", "forward", s);
        ADD(b, forward * 2.5 / 0.8, keys, "bf16", "backward", s);
        ADD(b, forward / 1.3, keys, "fp8", "forward", s);
    }
}

static void add_operators(struct bench *b) {
    static const char keys[] = "{\"quantity\": \"elementwise\", \"op\": \"%s\", \"pass\": \"%s\", "
                               "\"rows\": %d, \"width\": %d}";
    for (int rows = 4096; rows <= 16384; rows *= 2) {
        const double logits = rows * 256.0, wide = rows * 4096.0;
        ADD(b, logits / 2e10, keys, "router_top_k", "forward", rows, 256);
        ADD(b, 2.0 / 3 * 30 * logits / (hbm * hbm_share), keys, "router_top_k", "backward", rows,
            256);
        ADD(b, 1.4 * 4 * wide / (hbm * hbm_share), keys, "permute", "forward", rows, 4096);
        ADD(b, 5 * wide / (hbm * hbm_share), keys, "quantise", "forward", rows, 4096);
        ADD(b, 4 * wide * 6.0 / 3 / hbm, keys, "cross_entropy", "forward", rows, 4096);
        ADD(b, 4 * wide * 12.0 / 3 / hbm, keys, "cross_entropy", "backward", rows, 4096);
        ADD(b, 2.0 * rows * 4096 * 32000 / (0.65 * peak16),
            "{\"quantity\": \"ring_strip\", \"rows\": %d, \"width\": 4096, \"vocab\": 32000}",
            rows);
    }
}

static void add_memory(struct bench *b) {
    for (long bytes = 1L << 20; bytes <= 1L << 30; bytes *= 4) {
        ADD(b, (double)bytes / (hbm * hbm_share) + (bytes < 1L << 27 ? 1e-5 : 0.0),
            "{\"quantity\": \"stream\", \"op\": \"copy\", \"bytes\": %ld}", bytes);
        ADD(b, (double)bytes / (0.85 * link),
            "{\"quantity\": \"host_copy\", \"direction\": \"to_host\", \"bytes\": %ld, \"load\": "
            "\"none\"}",
            bytes);
        ADD(b, 2.0 * (double)bytes / 7e10,
            "{\"quantity\": \"host_copy\", \"direction\": \"both\", \"bytes\": %ld, \"load\": "
            "\"none\"}",
            bytes);
    }
    for (long n = 1000000; n <= 256000000; n *= 4)
        ADD(b, 5e-5 + 30.0 * (double)n / hbm,
            "{\"quantity\": \"adamw\", \"parameters\": %ld, \"buckets\": 1}", n);
    for (int kernels = 100; kernels <= 1000; kernels += 300)
        ADD(b, 7e-6, "{\"quantity\": \"launch\", \"graph\": 0, \"kernels\": %d}", kernels);
}

static const struct {
    const char *kind;
    int ranks, inside;
    double latency, bus;
} groups[] = {{"all_reduce", 8, 8, 2e-5, 3e11},
              {"all_gather", 16, 8, 4e-5, 2e11},
              {"all_to_all", 8, 8, 3e-5, 2.5e11},
              {"point_to_point", 2, 1, 1e-5, 4e10}};
enum { GROUPS = sizeof groups / sizeof *groups };

static double group_s(size_t g, double bytes) {
    enum collective_kind kind = COLLECTIVE_ALL_REDUCE;
    while (strcmp(collective_name(kind), groups[g].kind) != 0)
        kind = (enum collective_kind)(kind + 1);
    return groups[g].latency + bytes * collective_bus_factor(kind, groups[g].ranks) / groups[g].bus;
}

static void add_collectives(struct bench *b) {
    for (size_t g = 0; g < GROUPS; ++g)
        for (long bytes = 1L << 16; bytes <= 1L << 30; bytes *= 16)
            ADD(b, group_s(g, (double)bytes),
                "{\"quantity\": \"collective\", \"kind\": \"%s\", \"ranks\": %d, "
                "\"ranks_per_domain\": %d, \"bytes\": %ld}",
                groups[g].kind, groups[g].ranks, groups[g].inside, bytes);
    static const struct {
        const char *kind;
        double exposed;
    } under[] = {
        {"all_gather", 0.2}, {"all_to_all", 0.4}, {"point_to_point", 0.1}, {"all_reduce", 0.25}};
    for (size_t i = 0; i < sizeof under / sizeof *under; ++i)
        for (int m = 2048; m <= 8192; m *= 2) {
            const double alone = gemm_s(share16 * peak16, m, 4096, 4096), wire = 1e-4;
            static const char keys[] =
                "{\"quantity\": \"overlap\", \"dtype\": \"bf16\", \"m\": %d, \"n\": 4096, \"k\": "
                "4096, "
                "\"kind\": \"%s\", \"ranks\": 8, \"bytes\": 1048576, \"part\": \"%s\"}";
            ADD(b, alone, keys, m, under[i].kind, "gemm");
            ADD(b, wire, keys, m, under[i].kind, "collective");
            ADD(b, alone + under[i].exposed * wire, keys, m, under[i].kind, "both");
        }
}

static int setup(void **state) {
    struct bench *const b = calloc(1, sizeof *b);
    b->generic = must_load("calibration/data/generic.yaml", NULL, 0);
    b->facts = (struct sample_facts){.device = "toy",
                                     .peak_flop_per_s = {peak16, peak8, 0, 0},
                                     .hbm_bytes_per_s = hbm,
                                     .host_link_bytes_per_s = link,
                                     .base_dtype = "bf16",
                                     .base = &b->generic->problem.calibration};
    add_gemms(b);
    add_attention(b);
    add_operators(b);
    add_memory(b);
    add_collectives(b);
    *state = b;
    return 0;
}

static int teardown(void **state) {
    struct bench *const b = *state;
    document_free(b->generic);
    free(b);
    return 0;
}

static struct sample_fit *run(const struct bench *b) {
    struct sample_fit *fit = NULL;
    struct status_error err = {.message = ""};
    if (sample_fit_run(b->sample, b->count, &b->facts, &fit, &err) != MOSAIC_OK)
        fail_msg("%s", err.message);
    return fit;
}

static bool has_note(const struct sample_fit *fit, enum sample_note_kind kind, const char *words) {
    for (size_t i = 0; i < fit->note_count; ++i)
        if (fit->note[i].kind == kind && strstr(fit->note[i].text, words))
            return true;
    return false;
}

#endif
