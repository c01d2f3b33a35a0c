// SPDX-License-Identifier: GPL-3.0-or-later
/* The ways out: dying with a message, refusing a request; see probe.h. */
#include "probe.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

[[noreturn]] void probe_die(enum mosaic_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)fputs("mosaic-probe-cuda: ", stderr);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fputs(status == MOSAIC_USAGE ? "\ntry 'mosaic-probe-cuda --help'\n" : "\n", stderr);
    exit(status);
}

[[noreturn]] void probe_refuse(enum refusal why, const char *format, ...) {
    struct probe_refused refused = {why, ""};
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(refused.text, sizeof refused.text, format, arguments);
    va_end(arguments);
    throw refused;
}

[[noreturn]] void probe_cuda_failed(const struct probe_call *call, cudaError_t status) {
    enum refusal why = REFUSED_FAILED;
    if (status == cudaErrorMemoryAllocation)
        why = REFUSED_MEMORY;
    else if (status == cudaErrorNotSupported || status == cudaErrorNoKernelImageForDevice)
        why = REFUSED_UNSUPPORTED;
    probe_refuse(why, "%s:%d: %s: %s", call->file, call->line, call->text,
                 cudaGetErrorString(status));
}

[[noreturn]] void probe_blas_failed(const struct probe_call *call, cublasStatus_t status) {
    enum refusal why = REFUSED_FAILED;
    if (status == CUBLAS_STATUS_ALLOC_FAILED)
        why = REFUSED_MEMORY;
    else if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH)
        why = REFUSED_UNSUPPORTED;
    probe_refuse(why, "%s:%d: %s: %s", call->file, call->line, call->text,
                 cublasGetStatusString(status));
}
