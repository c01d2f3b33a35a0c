// SPDX-License-Identifier: GPL-3.0-or-later
/* Rounds and lines; see the header. */
#include "timing.h"

#include "device.h"
#include "mma.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The first round loads kernels, which waits for the device and would wait for the holder. */
enum { UNTIMED = 3 };

/* Of CALLS_FILL: what a round lasts and its most calls; what untimed rounds last and their most. */
static const double fill_s = 200e-6, warm_s = 20e-3;
enum { FILL_CALLS = 32, WARM_ROUNDS = 50 };

/* Longer than queueing a thousand launches takes. */
#define HOLD_NS 50000000ULL

__global__ void hold_stream(const volatile int *release, unsigned long long longest_ns) {
    const unsigned long long from = device_clock_ns();
    while (!*release && device_clock_ns() - from < longest_ns)
        ;
}

double timing_clock_s(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double between_s(cudaEvent_t from, cudaEvent_t to) {
    float ms = 0;
    CUDA_CHECK(cudaEventElapsedTime(&ms, from, to));
    return 1e-3 * (double)ms;
}

struct round {
    double time_s, queue_s, lane_s[PROBE_LANES];
};

static void queue_round(struct probe *p, const struct work *work, int calls) {
    if (work->prepare)
        work->prepare(p, work->context);
    CUDA_CHECK(cudaEventRecord(p->begin, p->stream));
    for (int i = 0; i < work->lanes; ++i)
        CUDA_CHECK(cudaStreamWaitEvent(p->lane[i], p->begin, 0));
    for (int i = 0; i < calls; ++i, ++p->turn)
        work->queue(p, work->context);
    for (int i = 0; i < work->lanes; ++i) {
        CUDA_CHECK(cudaEventRecord(p->lane_end[i], p->lane[i]));
        CUDA_CHECK(cudaStreamWaitEvent(p->stream, p->lane_end[i], 0));
    }
    CUDA_CHECK(cudaEventRecord(p->end, p->stream));
}

static void run_round(struct probe *p, const struct work *work, bool is_held, int calls,
                      struct round *out) {
    *p->release = !is_held;
    if (is_held) {
        hold_stream<<<1, 1, 0, p->stream>>>(p->release, HOLD_NS);
        LAUNCH_CHECK();
    }
    const double from = timing_clock_s();
    queue_round(p, work, calls);
    out->queue_s = (timing_clock_s() - from) / calls;
    *p->release = 1;
    CUDA_CHECK(cudaEventSynchronize(p->end));
    out->time_s = between_s(p->begin, p->end) / calls;
    for (int i = 0; i < work->lanes; ++i)
        out->lane_s[i] = between_s(p->begin, p->lane_end[i]) / calls;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct spread timing_spread(double *seconds, int count) {
    qsort(seconds, (size_t)count, sizeof *seconds, compare);
    const double median = (seconds[(count - 1) / 2] + seconds[count / 2]) / 2;
    return {median, seconds[0], seconds[count - 1]};
}

/* Of the doubles at `first` and every sizeof(struct round) on. */
static struct spread spread_of(const double *first, int count, double *sorted) {
    for (int i = 0; i < count; ++i)
        sorted[i] = *(const double *)((const char *)first + (size_t)i * sizeof(struct round));
    return timing_spread(sorted, count);
}

/* Untimed rounds; how many calls a timed one has. */
static int warm_up(struct probe *p, const struct work *work) {
    struct round round = {};
    const bool fills = work->calls == CALLS_FILL;
    double total_s = 0;
    for (int i = 0; i < UNTIMED || (fills && total_s < warm_s && i < WARM_ROUNDS); ++i) {
        run_round(p, work, i > 0 && !work->is_free, fills ? 1 : work->calls, &round);
        total_s += round.time_s;
    }
    if (!fills)
        return work->calls;
    const double calls = ceil(fill_s / fmax(round.time_s, 1e-9));
    return (int)fmin(fmax(calls, 1), FILL_CALLS);
}

void timing_measure(struct probe *p, const struct work *work, struct timing *out) {
    const int count = p->repeats;
    struct round *const rounds = (struct round *)host_take((size_t)count * sizeof *rounds);
    double *const sorted = (double *)host_take((size_t)count * sizeof *sorted);
    *out = {};
    const int calls = warm_up(p, work);
    for (int i = 0; i < count; ++i)
        run_round(p, work, !work->is_free, calls, &rounds[i]);
    out->time_s = spread_of(&rounds->time_s, count, sorted);
    out->queue_s = spread_of(&rounds->queue_s, count, sorted);
    for (int i = 0; i < PROBE_LANES; ++i)
        out->lane_s[i] = spread_of(&rounds->lane_s[i], count, sorted);
}

/* ---- lines ---- */

static void print_text(const char *text) {
    putchar('"');
    for (; *text; ++text)
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text >= ' ')
            putchar(*text);
    putchar('"');
}

static void begin_line(const struct probe *p, const char *quantity) {
    printf("{\"schema\":\"mosaic.probe/1\",\"probe\":\"%s.%s\",\"quantity\":\"%s.%s\",\"sizes\":{",
           p->kind->group, p->kind->name, p->kind->name, quantity);
    for (int i = 0; i < p->kind->key_count; ++i) {
        const struct probe_key *const key = &p->kind->keys[i];
        printf("%s\"%s\":", i ? "," : "", key->name);
        if (key->words)
            print_text(key->words[p->values[i]]);
        else
            printf("%ld", p->values[i]);
    }
    putchar('}');
}

static void end_line(const struct probe *p) {
    printf(",\"device\":{\"name\":");
    print_text(p->properties.name);
    printf(
        ",\"compute_capability\":\"%d.%d\",\"multiprocessors\":%d},\"software\":{\"probe\":"
        "\"%s\",\"cuda_runtime\":\"%d.%d\",\"cuda_driver\":\"%d.%d\",\"cublas\":\"%d.%d.%d\"}}\n",
        p->properties.major, p->properties.minor, p->properties.multiProcessorCount, MOSAIC_VERSION,
        p->runtime / 1000, p->runtime % 1000 / 10, p->driver / 1000, p->driver % 1000 / 10,
        p->blas_version / 10000, p->blas_version % 10000 / 100, p->blas_version % 100);
    if (fflush(stdout) != 0)
        probe_die(MOSAIC_IO, "cannot write to standard output");
}

static void print_spread(const char *name, const struct spread *spread) {
    printf(",\"%s\":{\"median\":%.9g,\"least\":%.9g,\"most\":%.9g}", name, spread->median,
           spread->least, spread->most);
}

void timing_print(const struct probe *p, const struct work *work, const struct timing *t) {
    begin_line(p, work->quantity);
    printf(",\"rounds\":%d", p->repeats);
    print_spread("time_s", &t->time_s);
    print_spread("queue_s", &t->queue_s);
    for (int i = 0; i < work->lanes; ++i)
        if (work->lane_names[i])
            print_spread(work->lane_names[i], &t->lane_s[i]);
    if (work->flop > 0)
        printf(",\"flop\":%.17g,\"flop_per_s\":%.9g", work->flop, work->flop / t->time_s.median);
    if (work->bytes > 0)
        printf(",\"bytes\":%.17g,\"bytes_per_s\":%.9g", work->bytes,
               work->bytes / t->time_s.median);
    end_line(p);
}

void timing_take(struct probe *p, const struct work *work) {
    struct timing timing;
    timing_measure(p, work, &timing);
    timing_print(p, work, &timing);
}

void timing_print_figures(const struct probe *p, const char *quantity, const struct figure *figures,
                          int count) {
    begin_line(p, quantity);
    for (int i = 0; i < count; ++i)
        printf(",\"%s\":%.17g", figures[i].name, figures[i].value);
    end_line(p);
}

/* Counts a comparison; keeps the words of the first that fails. */
static void note_comparison(struct probe *p, const char *quantity, double error, double tolerance,
                            bool is_equal) {
    ++p->compared;
    p->worst = fmax(p->worst, isfinite(error) ? tolerance > 0 ? error / tolerance : error : 1e300);
    if (!is_equal && !p->has_failed)
        (void)snprintf(p->difference, sizeof p->difference,
                       "%s differs from the host's by %.3g of its largest value; %.3g is allowed",
                       quantity, error, tolerance);
    p->has_failed = p->has_failed || !is_equal;
}

void timing_compare(struct probe *p, const char *quantity, const float *got, const float *want,
                    size_t count, double tolerance) {
    double largest = 0, difference = 0;
    bool is_finite = true;
    for (size_t i = 0; i < count; ++i) {
        is_finite = is_finite && isfinite(got[i]);
        largest = fmax(largest, fabs((double)want[i]));
        difference = fmax(difference, fabs((double)got[i] - (double)want[i]));
    }
    const double error = largest > 0 ? difference / largest : difference;
    const bool is_equal = is_finite && error <= tolerance;
    note_comparison(p, quantity, is_finite ? error : INFINITY, tolerance, is_equal);
    if (p->is_quiet)
        return;
    begin_line(p, quantity);
    printf(",\"values\":%zu,\"tolerance\":%.9g", count, tolerance);
    if (is_finite)
        printf(",\"difference\":%.9g", error);
    printf(",\"agrees\":%s", is_equal ? "true" : "false");
    end_line(p);
}
