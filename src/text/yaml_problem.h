// SPDX-License-Identifier: GPL-3.0-or-later
/* What libyaml says when it gives up, in a user's words and at the place that is to blame. */
#ifndef MOSAIC_TEXT_YAML_PROBLEM_H
#define MOSAIC_TEXT_YAML_PROBLEM_H

#include "text/diag.h"

struct yaml_parser_s;

enum mosaic_status yaml_problem_report(const struct yaml_parser_s *parser,
                                       const struct source *source, struct diag_list *diags);

#endif
