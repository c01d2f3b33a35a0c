// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Buckets, staging and time of the optimizer state's stream.  Times take every bucket for a mean
 * one; the staging takes the largest.
 */
#include "step/state_stream.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>

/* Parameters whose bytes stay whole in a double. */
static const double most_params = 9007199254740992.0 / STREAM_SLOT_BYTES;

enum { MOST_SLOTS = 1024 };

static enum mosaic_status check(const struct state_stream_request *request, double params,
                                struct status_error *err) {
    if (!(request->bucket_params >= 1.0 && request->bucket_params < most_params))
        return status_set(err, MOSAIC_BAD_INPUT, "a bucket of %g parameters: 1 or more are due",
                          request->bucket_params);
    if (request->slots < 1 || request->slots > MOST_SLOTS)
        return status_set(err, MOSAIC_BAD_INPUT, "%d slots, not 1 to %d", request->slots,
                          MOST_SLOTS);
    if (!(request->gradient_bytes >= 0.0 &&
          request->gradient_bytes <= STREAM_SLOT_BYTES - STREAM_STATE_BYTES))
        return status_set(err, MOSAIC_BAD_INPUT, "gradient of %g bytes a parameter, not 0 to %d",
                          request->gradient_bytes, STREAM_SLOT_BYTES - STREAM_STATE_BYTES);
    if (!(params >= 0.0 && params * (double)request->slots < most_params))
        return status_set(err, MOSAIC_BAD_INPUT, "%g parameters through %d slots", params,
                          request->slots);
    return MOSAIC_OK;
}

static void describe(const struct state_stream_request *request, double params, long buckets,
                     double largest_params, struct state_stream *out) {
    *out = (struct state_stream){
        .params = params,
        .buckets = buckets,
        .largest_params = largest_params,
        .slots = request->slots,
        .staging_bytes = STREAM_SLOT_BYTES * largest_params * (double)request->slots,
        .device_bytes = STREAM_RESIDENT_BYTES * params,
        .host_bytes = (STREAM_STATE_BYTES + request->gradient_bytes) * params,
        .up_bytes = (STREAM_STATE_BYTES + request->gradient_bytes) * params,
        .down_bytes = STREAM_STATE_BYTES * params,
    };
}

static enum mosaic_status sum_of(const size_t *tensor_params, size_t count, size_t *sum,
                                 struct status_error *err) {
    *sum = 0;
    for (size_t i = 0; i < count; ++i) {
        if (tensor_params[i] > SIZE_MAX - *sum)
            return status_set(err, MOSAIC_BAD_INPUT, "tensor %zu of %zu parameters", i,
                              tensor_params[i]);
        *sum += tensor_params[i];
    }
    return MOSAIC_OK;
}

enum mosaic_status state_stream_form(const struct state_stream_request *request,
                                     const size_t *tensor_params, size_t count, size_t *starts,
                                     struct state_stream *out, struct status_error *err) {
    size_t sum, largest = 0, start = 0, end = 0;
    TRY(sum_of(tensor_params, count, &sum, err));
    TRY(check(request, (double)sum, err));
    long buckets = 0;
    for (size_t i = 0; i < count; ++i) {
        end += tensor_params[i];
        const size_t params = end - start;
        if (params == 0 || ((double)params < request->bucket_params && end < sum))
            continue;
        if (starts)
            starts[buckets] = start;
        buckets++;
        largest = params > largest ? params : largest;
        start = end;
    }
    if (starts)
        starts[buckets] = sum;
    describe(request, (double)sum, buckets, (double)largest, out);
    return MOSAIC_OK;
}

enum mosaic_status state_stream_of(const struct state_stream_request *request, double params,
                                   double largest_tensor_params, struct state_stream *out,
                                   struct status_error *err) {
    TRY(check(request, params, err));
    const double all = ceil(params), tensor = ceil(largest_tensor_params);
    if (!(tensor <= all && (tensor > 0.0 || !(all > 0.0))))
        return status_set(err, MOSAIC_BAD_INPUT, "largest tensor of %g parameters among %g",
                          largest_tensor_params, params);
    const double requested = ceil(request->bucket_params);
    describe(request, all, (long)ceil(all / requested), fmin(all, requested - 1.0 + tensor), out);
    return MOSAIC_OK;
}

double state_stream_host_s(const struct state_stream *stream, double host_params_per_s) {
    assert(host_params_per_s > 0.0);
    return stream->params / host_params_per_s;
}

enum mosaic_status state_stream_time(const struct state_stream *stream,
                                     const struct state_stream_rates *rates,
                                     struct state_stream_time *out, struct status_error *err) {
    if (!(rates->up_bytes_per_s > 0.0 && rates->down_bytes_per_s > 0.0 &&
          rates->host_bytes_per_s > 0.0 && rates->update_params_per_s > 0.0))
        return status_set(err, MOSAIC_BAD_INPUT,
                          "rates of %g and %g bytes/s, %g bytes/s of host memory and %g "
                          "parameters/s are not all above 0",
                          rates->up_bytes_per_s, rates->down_bytes_per_s, rates->host_bytes_per_s,
                          rates->update_params_per_s);
    *out = (struct state_stream_time){0};
    if (stream->buckets == 0)
        return MOSAIC_OK;
    const double buckets = (double)stream->buckets;
    const double host = rates->host_bytes_per_s;
    const double up_s = stream->up_bytes / buckets / fmin(rates->up_bytes_per_s, host);
    const double down_s = stream->down_bytes / buckets / fmin(rates->down_bytes_per_s, host);
    const double update_s = stream->params / buckets / rates->update_params_per_s;
    const double host_s = (stream->up_bytes + stream->down_bytes) / buckets / host;
    const double sum_s = up_s + update_s + down_s;
    const double engine_s = fmax(fmax(up_s, down_s), fmax(update_s, host_s));
    const double period_s = fmax(engine_s, sum_s / (double)stream->slots);
    *out = (struct state_stream_time){
        .up_s = up_s,
        .update_s = update_s,
        .down_s = down_s,
        .period_s = period_s,
        .total_s = (buckets - 1.0) * period_s + sum_s,
    };
    return MOSAIC_OK;
}
