// SPDX-License-Identifier: GPL-3.0-or-later
/* mosaic fit --steps ROWS.csv */
#ifndef MOSAIC_CLI_FIT_STEPS_H
#define MOSAIC_CLI_FIT_STEPS_H

#include "cli/command.h"

enum mosaic_status fit_steps(const struct command *command, const struct option_set *options);

#endif
