// SPDX-License-Identifier: GPL-3.0-or-later
/* Samples that feed no entry, beside what the fitted calibration says of them. */
#include "report/import_view.h"
#include "report/put.h"

static json_t *check_json(const struct sample_check *check) {
    char longest[SAMPLE_FIT_TEXT];
    (void)sample_print_name(&check->sample, longest, sizeof longest);
    return json_pack("{s:s, s:I, s:f, s:f, s:s, s:f, s:f, s:s}", "check", check->name, "samples",
                     (json_int_t)check->samples, "error", check->error, "worst_error", check->worst,
                     "longest", longest, "predicted_s", check->predicted_s, "measured_s",
                     check->sample.median_s, "text", check->text);
}

json_t *build_sample_checks(const struct sample_fit *fit) {
    json_t *const list = json_array();
    bool ok = list != NULL;
    for (size_t i = 0; ok && i < fit->check_count; i++)
        ok = json_array_append_new(list, check_json(&fit->check[i])) == 0;
    return whole_or_null(list, ok);
}
