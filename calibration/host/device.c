// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What this machine is: its processor as the system names it, memory, caches, and three rates that
 * are measured at the start.  The peak is that of multiply-adds on the widest vectors that the
 * processor has, with all operands in registers, by all threads of a device at once: a measured
 * bound, no data sheet.
 */
#include "host.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

enum { ROUNDS = 3, PEAK_ROUNDS = 24, MIB = 1 << 20 };

/* ---- files of the system ---- */

/* The first line of a small file, "" without it. */
static void read_line(const char *path, char *text, size_t size) {
    FILE *const file = fopen(path, "r");
    text[0] = '\0';
    if (!file)
        return;
    if (!fgets(text, (int)size, file))
        text[0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    (void)fclose(file);
}

/* The text after the colon of the first line that starts with `key`. */
static bool read_field(const char *path, const char *key, char *text, size_t size) {
    FILE *const file = fopen(path, "r");
    char line[512];
    bool is_found = false;
    while (file && !is_found && fgets(line, sizeof line, file)) {
        const char *const colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) != 0 || !colon)
            continue;
        is_found = true;
        (void)snprintf(text, size, "%.*s", (int)strcspn(colon + 1 + strspn(colon + 1, " \t"), "\n"),
                       colon + 1 + strspn(colon + 1, " \t"));
    }
    if (file)
        (void)fclose(file);
    return is_found;
}

/* What would break a line of JSON or YAML. */
static void clean(char *text) {
    for (; *text; ++text)
        if ((unsigned char)*text < ' ' || (unsigned char)*text > '~' || strchr("\"\\'", *text))
            *text = ' ';
}

static void read_caches(struct host *host) {
    for (int i = 0; i < HOST_CACHES_MAX; ++i) {
        struct host_cache *const cache = &host->caches[host->cache_count];
        char path[128], text[64];
        (void)snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        read_line(path, text, sizeof text);
        char *unit = NULL;
        cache->bytes = strtod(text, &unit);
        if (unit == text)
            return;
        cache->bytes *= *unit == 'K' ? 1024.0 : *unit == 'M' ? 1048576.0 : 1.0;
        (void)snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
        read_line(path, text, sizeof text);
        cache->level = (int)strtol(text, NULL, 10);
        (void)snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
        read_line(path, cache->type, sizeof cache->type);
        clean(cache->type);
        host->cache_count++;
    }
}

static void read_machine(struct host *host) {
    struct utsname system;
    char text[HOST_NAME_MAX];
    (void)snprintf(host->architecture, sizeof host->architecture, "%.15s",
                   uname(&system) == 0 ? system.machine : "unknown");
    if (!read_field("/proc/cpuinfo", "model name", host->name, sizeof host->name) &&
        !read_field("/proc/cpuinfo", "Model", host->name, sizeof host->name))
        (void)snprintf(host->name, sizeof host->name, "%s processor", host->architecture);
    clean(host->name);
    clean(host->architecture);
    if (read_field("/proc/cpuinfo", "cpu MHz", text, sizeof text))
        host->clock_hz = 1e6 * strtod(text, NULL);
    const long cores = sysconf(_SC_NPROCESSORS_ONLN), page = sysconf(_SC_PAGESIZE);
    const long pages = sysconf(_SC_PHYS_PAGES);
    host->cores = cores > 0 ? (int)cores : 1;
    host->memory_bytes = (double)pages * (double)page;
    host->available_bytes = 0.5 * host->memory_bytes;
    if (read_field("/proc/meminfo", "MemAvailable", text, sizeof text))
        host->available_bytes = 0.5 * 1024.0 * strtod(text, NULL);
    read_caches(host);
}

/* ---- the peak ---- */

enum { PEAK_LOOPS = 1 << 16 };

#ifdef __x86_64__
/* Twelve sums in a register each cover the latency of the multiply-add.  (In a macro: the two
 * widths differ in nothing but their names, and a loop over the sums would not stay in registers.)
 */
#define MULTIPLY_ADDS(name, isa, vector, lane_count, set, fma, add, first)                         \
    __attribute__((target(isa))) static double name(float *sink) {                                 \
        const vector a = set(0.999F), b = set(1e-3F);                                              \
        /* Each starts elsewhere, or they would be one to the compiler. */                         \
        vector s0 = set(0.0F), s1 = set(1.0F), s2 = set(2.0F), s3 = set(3.0F), s4 = set(4.0F);     \
        vector s5 = set(5.0F), s6 = set(6.0F), s7 = set(7.0F), s8 = set(8.0F), s9 = set(9.0F);     \
        vector s10 = set(10.0F), s11 = set(11.0F);                                                 \
        for (int n = 0; n < PEAK_LOOPS; ++n) {                                                     \
            s0 = fma(s0, a, b);                                                                    \
            s1 = fma(s1, a, b);                                                                    \
            s2 = fma(s2, a, b);                                                                    \
            s3 = fma(s3, a, b);                                                                    \
            s4 = fma(s4, a, b);                                                                    \
            s5 = fma(s5, a, b);                                                                    \
            s6 = fma(s6, a, b);                                                                    \
            s7 = fma(s7, a, b);                                                                    \
            s8 = fma(s8, a, b);                                                                    \
            s9 = fma(s9, a, b);                                                                    \
            s10 = fma(s10, a, b);                                                                  \
            s11 = fma(s11, a, b);                                                                  \
        }                                                                                          \
        s0 = add(add(add(s0, s1), add(s2, s3)), add(add(s4, s5), add(s6, s7)));                    \
        *sink = first(add(s0, add(add(s8, s9), add(s10, s11))));                                   \
        return 2.0 * (lane_count)*12.0 * PEAK_LOOPS;                                               \
    }
MULTIPLY_ADDS(multiply_adds_256, "avx2,fma", __m256, 8, _mm256_set1_ps, _mm256_fmadd_ps,
              _mm256_add_ps, _mm256_cvtss_f32)
MULTIPLY_ADDS(multiply_adds_512, "avx512f", __m512, 16, _mm512_set1_ps, _mm512_fmadd_ps,
              _mm512_add_ps, _mm512_cvtss_f32)
#endif

/* Multiply and add apart, on vectors that every processor has. */
static double multiply_adds_plain(float *sink) {
    typedef float lanes __attribute__((vector_size(16)));
    lanes s0 = {0.0F}, s1 = s0 + 1.0F, s2 = s0 + 2.0F, s3 = s0 + 3.0F, s4 = s0 + 4.0F;
    lanes s5 = s0 + 5.0F, s6 = s0 + 6.0F, s7 = s0 + 7.0F;
    const lanes a = {0.999F, 0.999F, 0.999F, 0.999F}, b = {1e-3F, 1e-3F, 1e-3F, 1e-3F};
    for (int n = 0; n < PEAK_LOOPS; ++n) {
        s0 = s0 * a + b;
        s1 = s1 * a + b;
        s2 = s2 * a + b;
        s3 = s3 * a + b;
        s4 = s4 * a + b;
        s5 = s5 * a + b;
        s6 = s6 * a + b;
        s7 = s7 * a + b;
    }
    s0 += s1 + s2 + s3 + s4 + s5 + s6 + s7;
    *sink = s0[0];
    return 2.0 * 4.0 * 8.0 * PEAK_LOOPS;
}

struct peak {
    float sink[POOL_MAX_THREADS];
    double flop[POOL_MAX_THREADS];
};

static void peak_range(void *context, size_t first, size_t end) {
    struct peak *const peak = context;
    for (size_t i = first; i < end; ++i) {
        double (*loops)(float *) = multiply_adds_plain;
#ifdef __x86_64__
        if (__builtin_cpu_supports("avx512f"))
            loops = multiply_adds_512;
        else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
            loops = multiply_adds_256;
#endif
        peak->flop[i] = loops(&peak->sink[i]);
    }
}

static double peak_flop_per_s(const struct host *host) {
    static struct peak peak;
    double most = 0.0;
    for (int round = 0; round < PEAK_ROUNDS; ++round) {
        double flop = 0.0;
        const double start = host_clock_s();
        host_parallel(host, (size_t)host->options.threads, peak_range, &peak);
        const double time_s = host_clock_s() - start;
        for (int i = 0; i < host->options.threads; ++i)
            flop += peak.flop[i];
        most = fmax(most, flop / time_s);
    }
    return most;
}

/* ---- rates to foresee jobs by ---- */

static double gemm_flop_per_s(const struct host *host) {
    enum { EDGE = 128 };
    static float x[EDGE * EDGE], w[EDGE * EDGE], y[EDGE * EDGE];
    const size_t mnk[] = {EDGE, EDGE, EDGE};
    const float *const from[] = {x, w, y};
    static float out[EDGE * EDGE];
    if (host->options.kernels == KERNELS_EXECUTOR)
        return host->plain_flop_per_s;
    const struct product product = product_of(PRODUCT_FORWARD, mnk, from, out);
    double least_s = INFINITY;
    for (int round = 0; round < 2 * ROUNDS; ++round) {
        const double start = host_clock_s();
        product_run(host, &product);
        least_s = fmin(least_s, host_clock_s() - start);
    }
    return 2.0 * EDGE * EDGE * EDGE / least_s;
}

static double copy_bytes_per_s(void) {
    enum { BYTES = 16 * MIB };
    char *const from = malloc(BYTES), *const to = malloc(BYTES);
    double least_s = INFINITY;
    if (from && to) {
        memset(from, 1, BYTES);
        for (int round = 0; round <= ROUNDS; ++round) {
            const double start = host_clock_s();
            memcpy(to, from, BYTES);
            least_s = fmin(least_s, host_clock_s() - start);
        }
    }
    free(from);
    free(to);
    return 2.0 * BYTES / least_s;
}

/* ---- threads ---- */

struct ranges {
    host_range *range;
    void *context;
    size_t count, parts;
};

static void ranges_work(void *context, int worker, size_t index) {
    const struct ranges *const r = context;
    (void)worker;
    r->range(r->context, r->count * index / r->parts, r->count * (index + 1) / r->parts);
}

void host_parallel(const struct host *host, size_t count, host_range *range, void *context) {
    if (!host->pool) {
        range(context, 0, count);
        return;
    }
    struct ranges r = {range, context, count, (size_t)pool_threads(host->pool)};
    pool_run(host->pool, r.parts, ranges_work, &r);
}

enum mosaic_status host_open(const struct host_options *options, struct host *host,
                             struct status_error *err) {
    *host = (struct host){.options = *options};
    read_machine(host);
    if (options->threads > host->cores)
        return status_set(err, MOSAIC_USAGE, "--threads is %d, the machine has %d processors",
                          options->threads, host->cores);
    host->devices = host->cores / options->threads;
    host->memory_bytes /= (double)host->devices;
#if defined __clang__
    (void)snprintf(host->compiler, sizeof host->compiler, "clang %s", __clang_version__);
#else
    (void)snprintf(host->compiler, sizeof host->compiler, "gcc %s", __VERSION__);
#endif
    clean(host->compiler);
    static const char *const who[HOST_KERNELS] = {"OpenBLAS", "this program's blocked loops",
                                                  "the executors' plain loops"};
    (void)snprintf(host->kernels, sizeof host->kernels, "%s", who[options->kernels]);
    if (options->threads > 1)
        TRY(pool_create(options->threads, NULL, &host->pool, err));
    blas_threads(options->threads);
    host->peak_flop_per_s = peak_flop_per_s(host);
    host->plain_flop_per_s = executor_gemm_flop_per_s();
    host->gemm_flop_per_s = gemm_flop_per_s(host);
    host->copy_bytes_per_s = copy_bytes_per_s();
    return MOSAIC_OK;
}

void host_close(struct host *host) {
    pool_free(host->pool);
    host->pool = NULL;
}
