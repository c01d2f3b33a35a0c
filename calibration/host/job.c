// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * One job: a first run, whose data are verified and whose time says how many runs a round needs to
 * stand above the clock's grain; then rounds, as many as asked for and the limit allows.
 */
#include "host.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS_MOST = 1000, RUNS_MOST = 100000, ALIGNMENT = 64 };
/* A round lasts at least so long. */
static const double round_least_s = 2e-4;

const char *const refusal_words[REFUSALS] = {"", "unsupported", "memory", "failed"};

static bool (*const measures[SAMPLE_QUANTITIES])(struct host_job *job) = {
    [SAMPLE_GEMM] = gemm_measure,
    [SAMPLE_GROUPED_GEMM] = grouped_gemm_measure,
    [SAMPLE_ATTENTION] = attention_measure,
    [SAMPLE_ELEMENTWISE] = elementwise_measure,
    [SAMPLE_STREAM] = stream_measure,
    [SAMPLE_SUSTAINED] = sustained_measure,
    [SAMPLE_LAUNCH] = launch_measure,
    [SAMPLE_HOST_COPY] = host_copy_measure,
    [SAMPLE_ADAMW] = adamw_measure,
    [SAMPLE_RING_STRIP] = ring_strip_measure,
    [SAMPLE_COLLECTIVE] = collective_measure,
    [SAMPLE_OVERLAP] = overlap_measure,
    [SAMPLE_MOE_LAYER] = moe_layer_measure,
};

double host_clock_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool host_measures(enum sample_quantity quantity) {
    return (unsigned)quantity < SAMPLE_QUANTITIES && measures[quantity];
}

bool job_refuse(struct host_job *job, enum refusal refusal, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(job->text, sizeof job->text, format, arguments);
    va_end(arguments);
    job->refusal = refusal;
    return false;
}

bool job_foresee(struct host_job *job, double flop, double flop_per_s, double bytes) {
    const double run_s = flop / flop_per_s + bytes / job->host->copy_bytes_per_s;
    if (run_s <= job->host->options.limit_s)
        return true;
    return job_refuse(job, REFUSED_UNSUPPORTED, "one run would take about %.2g s, more than %g s",
                      run_s, job->host->options.limit_s);
}

size_t job_size(const struct host_job *job, const char *key) {
    return (size_t)sample_value(job->sample, key);
}

bool job_is(const struct host_job *job, const char *key, const char *word) {
    const enum sample_quantity quantity = job->sample->quantity;
    const int at = sample_key_index(quantity, key);
    assert(at >= 0);
    return strcmp(sample_kind(quantity)->keys[at].words[job->sample->value[at]], word) == 0;
}

void *job_take(struct host_job *job, size_t count, size_t size) {
    assert(job->block_count < JOB_BLOCKS_MAX);
    const double bytes = (double)count * (double)size;
    void *block = NULL;
    if (bytes > job->host->available_bytes || bytes > (double)(SIZE_MAX / 2) ||
        posix_memalign(&block, ALIGNMENT, count * size + ALIGNMENT) != 0) {
        (void)job_refuse(job, REFUSED_MEMORY, "%.3g bytes for a block, %.3g free", bytes,
                         job->host->available_bytes);
        return NULL;
    }
    memset(block, 0, count * size + ALIGNMENT);
    job->blocks[job->block_count++] = block;
    return block;
}

float *job_floats(struct host_job *job, size_t count, unsigned seed) {
    float *const values = job_take(job, count, sizeof *values);
    unsigned state = seed * 2654435761U + 1;
    for (size_t i = 0; values && i < count; ++i) {
        state = state * 1664525U + 1013904223U;
        values[i] = (float)((int)(state >> 16 & 0x7FFFU) % 9 - 4);
    }
    return values;
}

static double run_times(const struct host_work *work, long times) {
    if (work->timed)
        return work->timed(work->context, times);
    double sum_s = 0.0;
    if (!work->reset) {
        const double start = host_clock_s();
        for (long i = 0; i < times; ++i)
            work->run(work->context);
        return host_clock_s() - start;
    }
    for (long i = 0; i < times; ++i) {
        work->reset(work->context);
        const double start = host_clock_s();
        work->run(work->context);
        sum_s += host_clock_s() - start;
    }
    return sum_s;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static bool first_run(struct host_job *job, const struct host_work *work, double *run_s) {
    *run_s = run_times(work, 1);
    if (!(*run_s >= 0.0) || (work->timed && !(*run_s > 0.0)))
        return job_refuse(job, REFUSED_FAILED, "the run failed");
    if (job->host->options.fault == job->sample->quantity)
        for (size_t i = 0; i < work->result_count; ++i)
            work->result[i] += 1.0F;
    if (work->verify && !work->verify(work->context))
        return job_refuse(job, REFUSED_FAILED, "the result is wrong");
    return true;
}

static long agree(const struct host_work *work, long value) {
    return work->agree ? work->agree(work->context, value) : value;
}

bool job_measure(struct host_job *job, const struct host_work *work) {
    double rounds_s[ROUNDS_MOST]; /* jobs may run side by side */
    const double per_run = work->per_run > 0.0 ? work->per_run : 1.0;
    const double limit_s = job->host->options.limit_s;
    double run_s = 0.0;
    if (!first_run(job, work, &run_s))
        return false;
    /* The first run finds cold caches, so the second says how long one takes. */
    if (agree(work, run_s < round_least_s) > 0)
        run_s = run_times(work, 1);
    const double runs = run_s > 0.0 ? round_least_s / run_s : (double)RUNS_MOST;
    const long times = agree(work, (long)fmin(fmax(runs, 1.0), (double)RUNS_MOST));
    const double fitting = limit_s / (run_s * (double)times);
    const long rounds = agree(work, (long)fmin(fmax(fitting, 1.0), fmin(job->rounds, ROUNDS_MOST)));
    int count = 0;
    for (; count < rounds; ++count) {
        const double time_s = run_times(work, times);
        if (!(time_s > 0.0))
            return job_refuse(job, REFUSED_FAILED, "a round failed");
        rounds_s[count] = time_s / (double)times / per_run;
    }
    if (count == 0)
        return job_refuse(job, REFUSED_FAILED, "another rank is gone");
    qsort(rounds_s, (size_t)count, sizeof *rounds_s, by_value);
    job->sample->least_s = rounds_s[0];
    job->sample->most_s = rounds_s[count - 1];
    job->sample->median_s = 0.5 * (rounds_s[(count - 1) / 2] + rounds_s[count / 2]);
    job->sample->rounds = count;
    job->sample->is_verified = work->verify != NULL;
    return true;
}

void host_job_run(struct host_job *job) {
    const enum sample_quantity quantity = job->sample->quantity;
    job->refusal = REFUSED_NOT;
    job->block_count = 0;
    if (!host_measures(quantity))
        (void)job_refuse(job, REFUSED_UNSUPPORTED, "not measured on a host");
    else if (sample_key_index(quantity, "dtype") >= 0 && !job_is(job, "dtype", "fp32"))
        (void)job_refuse(job, REFUSED_UNSUPPORTED, "the host computes in fp32");
    else if (!measures[quantity](job) && job->refusal == REFUSED_NOT)
        (void)job_refuse(job, REFUSED_FAILED, "no result");
    for (int i = 0; i < job->block_count; ++i)
        free(job->blocks[i]);
    job->block_count = 0;
}
