// SPDX-License-Identifier: GPL-3.0-or-later
/* mosaic help [COMMAND] */
#include "cli/command.h"

enum mosaic_status cmd_help(const struct command *command, const struct option_set *options) {
    (void)command;
    if (options->operand_count == 0) {
        program_print_help(stdout);
        return MOSAIC_OK;
    }
    const struct command *const asked = command_find(options->operands[0]);
    if (!asked)
        return command_refuse_name(options->operands[0]);
    command_print_help(asked, stdout);
    return MOSAIC_OK;
}
