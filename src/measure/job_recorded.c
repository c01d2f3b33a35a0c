// SPDX-License-Identifier: GPL-3.0-or-later
/* Jobs as a hello lists them. */
#include "measure/job_recorded.h"

#include <stdlib.h>

static const double played_s = 0.01; /* of one answer, for the budget */

static const json_t *shapes_of(const struct probe_hello *hello) {
    return json_object_get(hello->root, "shapes");
}

bool job_recorded_has(const struct probe_hello *hello) {
    return json_is_array(shapes_of(hello)) && json_array_size(shapes_of(hello)) > 0;
}

static bool is_listed(const struct job_list *list, const struct sample *keys) {
    for (size_t i = 0; i < list->count; ++i)
        if (sample_compare_keys(&list->jobs[i].keys, keys) == 0)
            return true;
    return false;
}

enum mosaic_status job_recorded_make(const struct probe_hello *hello, struct job_list *out,
                                     struct status_error *err) {
    const json_t *const shapes = shapes_of(hello);
    const size_t count = json_array_size(shapes);
    struct job_list list = {.jobs = calloc(count + 1, sizeof *list.jobs), .room = count + 1};
    if (!list.jobs)
        return status_no_memory(err);
    for (size_t i = 0; i < count; ++i) {
        struct job job = {.kind = JOB_LOCAL, .rounds = 1, .seconds = played_s};
        const enum mosaic_status status = protocol_keys(json_array_get(shapes, i), &job.keys, err);
        if (status != MOSAIC_OK) {
            job_list_free(&list);
            status_wrap(err, "a shape that the probe lists");
            return status;
        }
        if (is_listed(&list, &job.keys))
            continue;
        list.jobs[list.count++] = job;
        list.seconds += played_s;
    }
    *out = list;
    return MOSAIC_OK;
}
