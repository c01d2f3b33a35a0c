// SPDX-License-Identifier: GPL-3.0-or-later
/* Dispatch. */
#include "cli/command.h"
#include "cli/output.h"
#include "report/version.h"

#include <fcntl.h>
#include <locale.h>
#include <unistd.h>

static enum mosaic_status run_command(const struct command *command, int argc, char **argv) {
    struct option_set options;
    char message[OPTION_MESSAGE_MAX];
    enum mosaic_status status = MOSAIC_OK;
    if (!option_parse(command->options, command->option_count, &command->operands, argc, argv,
                      &options, message))
        status = command_refuse(command, message);
    else if (options.value[OPTION_HELP].given)
        command_print_help(command, stdout);
    else
        status = command->run(command, &options);
    option_set_free(&options);
    return status;
}

/* Options before any command: --help, --version [--verbose]. */
static enum mosaic_status run_program(int argc, char **argv) {
    static const struct option_spec options[] = {
        {OPTION_VERSION, OPTION_FLAG, "version", 'V', NULL, NULL, 0, 0, NULL, ""},
        {OPTION_VERBOSE, OPTION_FLAG, "verbose", 'v', NULL, NULL, 0, 0, NULL, ""},
        {OPTION_HELP, OPTION_FLAG, "help", 'h', NULL, NULL, 0, 0, NULL, ""},
    };
    static const struct operand_spec operands = {"COMMAND", 0, 0, false, NULL};
    struct option_set set;
    char message[OPTION_MESSAGE_MAX];
    enum mosaic_status status = MOSAIC_OK;
    if (!option_parse(options, sizeof options / sizeof *options, &operands, argc, argv, &set,
                      message))
        status = command_refuse(NULL, message);
    else if (set.value[OPTION_HELP].given)
        program_print_help(stdout);
    else if (set.value[OPTION_VERSION].given)
        version_print(stdout, set.value[OPTION_VERBOSE].given);
    else
        status = command_refuse(NULL, "needs a command");
    option_set_free(&set);
    return status;
}

/* A stream that is closed stays so in effect, but its number is taken: what is said there must not
 * go into a file that is opened later. */
static void hold_streams(void) {
    for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++)
        if (fcntl(i, F_GETFD) < 0 && open("/dev/null", i == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            return;
}

int main(int argc, char **argv) {
    hold_streams();
    /* Only for the width of characters; numbers keep their point. */
    (void)setlocale(LC_CTYPE, "");
    enum mosaic_status status;
    const struct command *const command = argc > 1 ? command_find(argv[1]) : NULL;
    if (command)
        status = run_command(command, argc - 1, argv + 1);
    else if (argc > 1 && argv[1][0] != '-')
        status = command_refuse_name(argv[1]);
    else
        status = run_program(argc, argv);
    if (status != MOSAIC_IO && output_check_stdout() != MOSAIC_OK)
        status = MOSAIC_IO;
    return (int)status;
}
