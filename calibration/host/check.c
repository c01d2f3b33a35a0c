// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Without a harness: every kind of job once at a small size, its data verified; and this machine as
 * a cluster document, with what was measured in a second.
 */
#include "host.h"

#include "base/units.h"

#include <stdio.h>
#include <string.h>

/* ---- a small job of each kind ---- */

#define PRODUCT "\"m\": 48, \"n\": 34, \"k\": 57"
static const char *const small[] = {
    "{\"quantity\": \"gemm\", \"dtype\": \"fp32\", \"pass\": \"forward\", " PRODUCT "}",
    "{\"quantity\": \"gemm\", \"dtype\": \"fp32\", \"pass\": \"backward_data\", " PRODUCT "}",
    "{\"quantity\": \"gemm\", \"dtype\": \"fp32\", \"pass\": \"backward_weight\", " PRODUCT "}",
    "{\"quantity\": \"grouped_gemm\", \"dtype\": \"fp32\", \"pass\": \"forward\", \"experts\": 3, "
    "\"rows\": 5, \"n\": 34, \"k\": 57}",
    "{\"quantity\": \"grouped_gemm\", \"dtype\": \"fp32\", \"pass\": \"backward_data\", "
    "\"experts\": 3, \"rows\": 5, \"n\": 34, \"k\": 57}",
    "{\"quantity\": \"grouped_gemm\", \"dtype\": \"fp32\", \"pass\": \"backward_weight\", "
    "\"experts\": 3, \"rows\": 5, \"n\": 34, \"k\": 57}",
    "{\"quantity\": \"attention\", \"dtype\": \"fp32\", \"pass\": \"forward\", \"batch\": 2, "
    "\"sequence\": 37, \"heads\": 4, \"kv_heads\": 2, \"head_dim\": 24, \"causal\": 1}",
    "{\"quantity\": \"attention\", \"dtype\": \"fp32\", \"pass\": \"backward\", \"batch\": 2, "
    "\"sequence\": 37, \"heads\": 4, \"kv_heads\": 2, \"head_dim\": 24, \"causal\": 0}",
    "{\"quantity\": \"elementwise\", \"op\": \"norm\", \"pass\": \"forward\", \"rows\": 33, "
    "\"width\": 70}",
    "{\"quantity\": \"elementwise\", \"op\": \"norm\", \"pass\": \"backward\", \"rows\": 33, "
    "\"width\": 70}",
    "{\"quantity\": \"elementwise\", \"op\": \"rope\", \"pass\": \"forward\", \"rows\": 33, "
    "\"width\": 70}",
    "{\"quantity\": \"elementwise\", \"op\": \"rope\", \"pass\": \"backward\", \"rows\": 33, "
    "\"width\": 70}",
    "{\"quantity\": \"elementwise\", \"op\": \"swiglu\", \"pass\": \"forward\", \"rows\": 33, "
    "\"width\": 70}",
    "{\"quantity\": \"elementwise\", \"op\": \"swiglu\", \"pass\": \"backward\", \"rows\": 33, "
    "\"width\": 70}",
    "{\"quantity\": \"elementwise\", \"op\": \"router_top_k\", \"pass\": \"forward\", "
    "\"rows\": 33, \"width\": 70}",
    "{\"quantity\": \"elementwise\", \"op\": \"router_top_k\", \"pass\": \"backward\", "
    "\"rows\": 33, \"width\": 70}",
    "{\"quantity\": \"elementwise\", \"op\": \"permute\", \"pass\": \"forward\", \"rows\": 33, "
    "\"width\": 70}",
    "{\"quantity\": \"elementwise\", \"op\": \"permute\", \"pass\": \"backward\", \"rows\": 33, "
    "\"width\": 70}",
    "{\"quantity\": \"elementwise\", \"op\": \"cross_entropy\", \"pass\": \"forward\", "
    "\"rows\": 33, \"width\": 70}",
    "{\"quantity\": \"elementwise\", \"op\": \"cross_entropy\", \"pass\": \"backward\", "
    "\"rows\": 33, \"width\": 70}",
    "{\"quantity\": \"stream\", \"op\": \"copy\", \"bytes\": 1048576}",
    "{\"quantity\": \"stream\", \"op\": \"triad\", \"bytes\": 1572864}",
    "{\"quantity\": \"launch\", \"graph\": 0, \"kernels\": 16}",
    "{\"quantity\": \"host_copy\", \"direction\": \"to_device\", \"bytes\": 1048576, "
    "\"load\": \"none\"}",
    "{\"quantity\": \"host_copy\", \"direction\": \"both\", \"bytes\": 1048576, "
    "\"load\": \"stream\"}",
    "{\"quantity\": \"adamw\", \"parameters\": 10007, \"buckets\": 3}",
    "{\"quantity\": \"ring_strip\", \"rows\": 9, \"width\": 31, \"vocab\": 65}",
    "{\"quantity\": \"collective\", \"kind\": \"all_reduce\", \"ranks\": 2, "
    "\"ranks_per_domain\": 2, \"bytes\": 8008}",
    "{\"quantity\": \"collective\", \"kind\": \"all_gather\", \"ranks\": 2, "
    "\"ranks_per_domain\": 2, \"bytes\": 8008}",
    "{\"quantity\": \"collective\", \"kind\": \"reduce_scatter\", \"ranks\": 2, "
    "\"ranks_per_domain\": 2, \"bytes\": 8008}",
    "{\"quantity\": \"collective\", \"kind\": \"all_to_all\", \"ranks\": 2, "
    "\"ranks_per_domain\": 2, \"bytes\": 8008}",
    "{\"quantity\": \"collective\", \"kind\": \"point_to_point\", \"ranks\": 2, "
    "\"ranks_per_domain\": 2, \"bytes\": 8008}",
    "{\"quantity\": \"overlap\", \"dtype\": \"fp32\", " PRODUCT ", \"kind\": \"all_reduce\", "
    "\"ranks\": 2, \"bytes\": 8008, \"part\": \"both\"}",
    "{\"quantity\": \"moe_layer\", \"tokens\": 24, \"hidden\": 32, \"ffn\": 16, \"experts\": 4, "
    "\"top_k\": 2, \"ranks\": 1, \"pass\": \"backward\"}",
    "{\"quantity\": \"moe_layer\", \"tokens\": 24, \"hidden\": 32, \"ffn\": 16, \"experts\": 4, "
    "\"top_k\": 2, \"ranks\": 2, \"pass\": \"forward\"}",
};

/* The job of a line; its keys are the program's own. */
static enum refusal run_line(const struct host *host, const char *line, struct host_job *job,
                             struct sample *sample) {
    struct status_error err = {.status = MOSAIC_OK};
    *job = (struct host_job){.host = host, .sample = sample, .rounds = 3};
    if (sample_parse_keys(line, strlen(line), NULL, sample, &err) != MOSAIC_OK)
        (void)job_refuse(job, REFUSED_FAILED, "%s", err.message);
    else
        host_job_run(job);
    return job->refusal;
}

enum mosaic_status host_check(const struct host *host) {
    static struct host_job job;
    bool is_wrong = false;
    for (size_t i = 0; i < sizeof small / sizeof *small; ++i) {
        struct sample sample;
        char text[1024];
        const enum refusal refusal = run_line(host, small[i], &job, &sample);
        is_wrong = is_wrong || refusal == REFUSED_FAILED;
        if (refusal == REFUSED_NOT) {
            (void)sample_print(&sample, text, sizeof text);
            printf("%s\n", text);
            continue;
        }
        printf("%.*s, \"refused\": \"%s\", \"text\": \"%s\"}\n", (int)strlen(small[i]) - 1,
               small[i], refusal_words[refusal], job.text);
    }
    return is_wrong ? MOSAIC_NUMERIC : MOSAIC_OK;
}

/* ---- a cluster document ---- */

/* Bytes a second of a job of so many bytes, 0 where it is refused. */
static double rate_of(const struct host *host, const char *line, double bytes) {
    static struct host_job job;
    struct sample sample;
    return run_line(host, line, &job, &sample) == REFUSED_NOT ? bytes / sample.least_s : 0.0;
}

static const char *text_of(double value, enum dimension dim, char *text) {
    units_format(value, dim, text, UNITS_TEXT_MAX);
    return text;
}

enum mosaic_status host_print_cluster(const struct host *host, FILE *file) {
    static const double stream_bytes = 3.0 * 32 * 1048576, small_bytes = 64;
    char a[UNITS_TEXT_MAX], b[UNITS_TEXT_MAX], c[UNITS_TEXT_MAX], d[UNITS_TEXT_MAX];
    const double triad = rate_of(
        host, "{\"quantity\": \"stream\", \"op\": \"triad\", \"bytes\": 100663296}", stream_bytes);
    double copy = rate_of(
        host, "{\"quantity\": \"stream\", \"op\": \"copy\", \"bytes\": 100663296}", stream_bytes);
    copy = copy > 0.0 ? copy : host->copy_bytes_per_s;
    const double stream = triad > copy ? triad : copy;
    const double latency_rate =
        rate_of(host,
                "{\"quantity\": \"collective\", \"kind\": \"point_to_point\", \"ranks\": 2, "
                "\"ranks_per_domain\": 2, \"bytes\": 64}",
                small_bytes);
    /* With one device nothing travels; a microsecond stands for a hand-over. */
    const double latency_s = latency_rate > 0.0 ? small_bytes / latency_rate : 1e-6;
    (void)fprintf(
        file,
        "# Measured by mosaic-probe-host %s.  Numbers are FP32 and stand for the model's bf16; a\n"
        "# device is %d thread%s, and all memory is one.\n"
        "schema: mosaic-cluster/1\nname: host\n"
        "source: \"measured on this machine\"\n",
        MOSAIC_VERSION, host->options.threads, host->options.threads > 1 ? "s" : "");
    (void)fprintf(
        file,
        "device:\n  name: \"%s\"\n  architecture: \"%s\"\n"
        "  peak: {bf16: %s} # multiply-adds in registers\n  memory: %s\n  hbm_bandwidth: %s\n",
        host->name, host->architecture, text_of(host->peak_flop_per_s, DIM_FLOP_PER_S, a),
        text_of(host->memory_bytes, DIM_BYTES, b), text_of(stream, DIM_BYTES_PER_S, c));
    (void)fprintf(file,
                  "node:\n  gpus: %d\n  host_memory: %s\n  host_link: %s # one copy in a thread\n"
                  "tiers:\n  - {name: memory, bandwidth: %s, latency: %s}\n"
                  "nodes: 1\n",
                  host->devices, text_of(host->memory_bytes * (double)host->devices, DIM_BYTES, a),
                  text_of(0.5 * copy, DIM_BYTES_PER_S, b), text_of(0.5 * copy, DIM_BYTES_PER_S, c),
                  text_of(latency_s, DIM_TIME, d));
    return MOSAIC_OK;
}
