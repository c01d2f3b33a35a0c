// SPDX-License-Identifier: GPL-3.0-or-later
/* The commands: name, option table, operands, and what runs them. */
#ifndef MOSAIC_CLI_COMMAND_H
#define MOSAIC_CLI_COMMAND_H

#include "cli/option.h"
#include "mosaic.h"

struct command {
    const char *name;
    const char *summary; /* one line, no full stop */
    const char *detail;  /* a paragraph for --help */
    const struct option_spec *options;
    size_t option_count;
    struct operand_spec operands;
    enum mosaic_status (*run)(const struct command *command, const struct option_set *options);
};

extern const struct command commands[];
extern const size_t command_count;

const struct command *command_find(const char *name);
/* Usage, detail and options of one command; of the program. */
void command_print_help(const struct command *command, FILE *stream);
void program_print_help(FILE *stream);
/* "mosaic: message" and where to read on, on stderr; returns MOSAIC_USAGE.  command may be NULL. */
enum mosaic_status command_refuse(const struct command *command, const char *message);
/* The same for a name that is no command. */
enum mosaic_status command_refuse_name(const char *name);

enum mosaic_status cmd_plan(const struct command *command, const struct option_set *options);
enum mosaic_status cmd_fit(const struct command *command, const struct option_set *options);
enum mosaic_status cmd_layout(const struct command *command, const struct option_set *options);
enum mosaic_status cmd_predict(const struct command *command, const struct option_set *options);
enum mosaic_status cmd_explain(const struct command *command, const struct option_set *options);
enum mosaic_status cmd_schedules(const struct command *command, const struct option_set *options);
enum mosaic_status cmd_count(const struct command *command, const struct option_set *options);
enum mosaic_status cmd_compare(const struct command *command, const struct option_set *options);
enum mosaic_status cmd_sweep(const struct command *command, const struct option_set *options);
enum mosaic_status cmd_validate(const struct command *command, const struct option_set *options);
enum mosaic_status cmd_check(const struct command *command, const struct option_set *options);
enum mosaic_status cmd_import(const struct command *command, const struct option_set *options);
enum mosaic_status cmd_calibrate(const struct command *command, const struct option_set *options);
enum mosaic_status cmd_export(const struct command *command, const struct option_set *options);
enum mosaic_status cmd_lint(const struct command *command, const struct option_set *options);
enum mosaic_status cmd_completion(const struct command *command, const struct option_set *options);
enum mosaic_status cmd_help(const struct command *command, const struct option_set *options);

#endif
