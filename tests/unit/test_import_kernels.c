// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Kernel tables through the public interface: rows timed by the model's own forms come out as the
 * constants that they were made of; the record of a set is read as it was written.
 */
#include "close.h"

#include "doc/record.h"
#include "machine/collective.h"
#include "mosaic.h"
#include "report/result.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A B200's data sheet and the generic calibration. */
static const double peak16 = 2250e12, peak8 = 4500e12, stream = 0.8 * 8e12, half = 50.0,
                    quantise = 4.0;
static const double share16 = 0.61, share8 = 0.53, attention = 700e12, latency_s = 9e-6,
                    bus = 500e9;

static double gemm_s(double rate, double m, double n, double k) {
    return 2 * m * n * k / rate * (1 + half / m) * (1 + half / n) * (1 + half / k) +
           2 * (m * k + k * n + m * n) / stream;
}

static void write_rows(FILE *out) {
    static const double sides[] = {2048, 4096, 16384};
    for (int i = 0; i < 9; ++i) {
        const double m = 8192, n = sides[i % 3], k = sides[i / 3];
        (void)fprintf(out, "B200,gemm,bfloat16,%g,%g,%g,,,,,,,,%.17g,\n", m, n, k,
                      1e6 * gemm_s(share16 * peak16, m, n, k));
        (void)fprintf(out, "B200,gemm,fp8,%g,%g,%g,,,,,,,,%.17g,quantise\n", m, n, k,
                      1e6 * (gemm_s(share8 * peak8, m, n, k) + quantise * m * k / stream));
    }
    for (int s = 1024; s <= 8192; s *= 2)
        (void)fprintf(out, "B200,attention_fwd_causal,bf16,,,,2,%d,32,8,128,,,%.17g,kv_cache\n", s,
                      1e6 * 2.0 * 2 * s * s * 32 * 128 / attention);
    for (int bytes = 1 << 16; bytes <= 1 << 28; bytes *= 4)
        (void)fprintf(out, "B200,nccl_all_gather,half,,,,,,,,,8,%d,%.17g,\n", bytes,
                      1e6 * (latency_s + 7.0 / 8.0 * bytes / bus));
}

static const char *write_table(char path[], const char *extra) {
    const int file = mkstemp(path);
    FILE *const out = fdopen(file, "w");
    assert_non_null(out);
    (void)fputs("gpu,op,dtype,m_or_tokens,n_or_hidden,k_or_ffn,batch,seq,heads,kv_heads,head_dim,"
                "n_gpus_or_sms,bytes,latency_us,includes\n",
                out);
    write_rows(out);
    (void)fputs(extra, out);
    assert_int_equal(fclose(out), 0);
    return path;
}

static void check_value(struct mosaic_result *result, const char *quantity, const char *member,
                        double want) {
    const size_t count = (size_t)mosaic_result_length(result, "entries");
    for (size_t i = 0; i < count; ++i) {
        char path[64];
        double got = 0;
        (void)snprintf(path, sizeof path, "entries[%zu].quantity", i);
        if (strcmp(mosaic_result_string(result, path), quantity) != 0)
            continue;
        (void)snprintf(path, sizeof path, "entries[%zu].%s", i, member);
        assert_int_equal(mosaic_result_number(result, path, &got), MOSAIC_OK);
        assert_close(got, want, 1e-5);
        return;
    }
    fail_msg("no entry %s", quantity);
}

static void rows_of_the_model_give_its_constants(void **state) {
    (void)state;
    char path[] = "/tmp/mosaic-kernels-XXXXXX";
    const char *const paths[] = {write_table(path, ""), NULL};
    struct mosaic *const session = mosaic_new();
    struct mosaic_result *result = NULL;
    if (mosaic_import(session, "kernels", paths, NULL, &result) != MOSAIC_OK)
        fail_msg("%s", mosaic_diagnostics(session));
    check_value(result, "gemm.bf16.share", "value", share16);
    check_value(result, "gemm.fp8.share", "value", share8);
    check_value(result, "attention.bf16.forward", "points[2][1]", attention);
    check_value(result, "all_gather over 8 ranks, 8 in a domain", "latency_s", latency_s);
    check_value(result, "all_gather over 8 ranks, 8 in a domain", "bandwidth_bytes_per_s", bus);
    mosaic_result_free(result);
    mosaic_free(session);
    (void)unlink(path);
}

/* The fastest of several kernels of one shape counts, whatever their order. */
static void the_fastest_kernel_counts(void **state) {
    (void)state;
    char path[] = "/tmp/mosaic-kernels-XXXXXX", rows[512];
    (void)snprintf(rows, sizeof rows,
                   "B200,gemm,bfloat16,8192,2048,2048,,,,,,,,%.17g,\n"
                   "B200,gemm,bfloat16,4096,4096,4096,,,,,,,,%.17g,\n"
                   "B200,gemm,bfloat16,4096,4096,4096,,,,,,,,%.17g,\n",
                   1e7 * gemm_s(share16 * peak16, 8192, 2048, 2048),
                   1e7 * gemm_s(share16 * peak16, 4096, 4096, 4096),
                   1e6 * gemm_s(share16 * peak16, 4096, 4096, 4096));
    const char *const paths[] = {write_table(path, rows), NULL};
    struct mosaic *const session = mosaic_new();
    struct mosaic_result *result = NULL;
    assert_int_equal(mosaic_import(session, "kernels", paths, NULL, &result), MOSAIC_OK);
    check_value(result, "gemm.bf16.share", "value", share16);
    char *const json = mosaic_result_json(result);
    assert_non_null(strstr(json, "the fastest counts"));
    free(json);
    mosaic_result_free(result);
    mosaic_free(session);
    (void)unlink(path);
}

static void a_record_is_read_as_written(void **state) {
    (void)state;
    static struct record was, now;
    struct sample samples[2] = {{.quantity = SAMPLE_COLLECTIVE, .value = {0, 2, 2, 1024}},
                                {.quantity = SAMPLE_GEMM, .value = {0, 0, 64, 64, 64}}};
    struct status_error err;
    char *text = NULL;
    for (int i = 0; i < 2; ++i) {
        samples[i].median_s = samples[i].least_s = samples[i].most_s = 1e-3;
        samples[i].rounds = 1;
    }
    was.is_set = was.gemm_quantises = true;
    (void)snprintf(was.source, sizeof was.source, "it's \"the\" table");
    (void)snprintf(was.origin[SAMPLE_GEMM].software, RECORD_TEXT, "A B 1.2");
    (void)snprintf(was.origin[SAMPLE_GEMM].source, RECORD_TEXT, "one | two");
    (void)snprintf(was.origin[SAMPLE_COLLECTIVE].licence, RECORD_TEXT, "MIT");
    assert_int_equal(record_hello(&was, "H100 SXM", samples, 2, &text, &err), MOSAIC_OK);
    assert_true(record_is(text));
    json_t *const hello = json_loads(text, 0, NULL);
    assert_non_null(hello);
    assert_int_equal(record_read(hello, &now, &err), MOSAIC_OK);
    assert_memory_equal(&now, &was, sizeof now);
    json_decref(hello);
    free(text);
    assert_int_equal(record_journal(&was, "H100 SXM", samples, 2, &text, &err), MOSAIC_OK);
    assert_true(strstr(text, "\"gemm\", \"dtype\"") < strstr(text, "\"collective\", \"kind\""));
    free(text);
    assert_false(record_is("{\"record\": 1}"));
    assert_false(record_is("{\"protocol\": \"mosaic-probe/1\"}"));
    assert_false(record_is("nothing"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_of_the_model_give_its_constants),
                                       cmocka_unit_test(the_fastest_kernel_counts),
                                       cmocka_unit_test(a_record_is_read_as_written)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
