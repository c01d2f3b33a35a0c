// SPDX-License-Identifier: GPL-3.0-or-later
/* mosaic completion SHELL: scripts written from the command and option tables. */
#include "cli/command.h"

#include <string.h>

static void put_words(const char *const *words, FILE *out) {
    for (size_t i = 0; words && words[i]; i++)
        (void)fprintf(out, "%s%s", i ? " " : "", words[i]);
}

/* Inside single quotes; `special` get a backslash. */
static void put_quoted(const char *text, const char *special, const char *quote, FILE *out) {
    for (; *text; text++) {
        if (*text == '\'') {
            (void)fputs(quote, out);
            continue;
        }
        if (strchr(special, *text))
            (void)fputc('\\', out);
        (void)fputc(*text, out);
    }
}

/* ---- bash ---- */

static void bash_option(const struct option_spec *spec, FILE *out) {
    (void)fprintf(out, "        --%s", spec->name);
    if (spec->letter)
        (void)fprintf(out, " | -%c", spec->letter);
    (void)fputs(")\n", out);
    if (spec->kind == OPTION_CHOICE) {
        (void)fputs("            words='", out);
        put_words(spec->choices, out);
        (void)fputs("'\n", out);
    } else if (spec->kind != OPTION_FILE) {
        (void)fputs("            compopt +o default\n", out);
    }
    (void)fputs("            ;;\n", out);
}

/* Without words the reader's own completion of file names takes over. */
static void bash_operands(const struct command *command, FILE *out) {
    (void)fputs("            else\n", out);
    if (command->operands.choices) {
        (void)fputs("                words='", out);
        put_words(command->operands.choices, out);
        (void)fputs("'\n", out);
    } else {
        (void)fprintf(out, "                %s\n",
                      command->operands.is_file ? ":" : "words=$commands");
    }
    (void)fputs("            fi\n", out);
}

static void bash_command(const struct command *command, FILE *out) {
    (void)fprintf(out, "    %s)\n        case $previous in\n", command->name);
    for (size_t i = 0; i < command->option_count; i++)
        if (command->options[i].argument)
            bash_option(&command->options[i], out);
    (void)fputs("        *)\n            if [[ $current == -* ]]; then\n"
                "                words='",
                out);
    for (size_t i = 0; i < command->option_count; i++)
        (void)fprintf(out, "%s--%s", i ? " " : "", command->options[i].name);
    (void)fputs("'\n", out);
    bash_operands(command, out);
    (void)fputs("            ;;\n        esac\n        ;;\n", out);
}

static void print_bash(FILE *out) {
    (void)fputs(
        "# bash completion of mosaic; written by 'mosaic completion bash'\n"
        "_mosaic() {\n"
        "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
        "    local words='' commands='",
        out);
    for (size_t i = 0; i < command_count; i++)
        (void)fprintf(out, "%s%s", i ? " " : "", commands[i].name);
    (void)fputs("'\n    COMPREPLY=()\n"
                "    if ((COMP_CWORD == 1)); then\n"
                "        mapfile -t COMPREPLY < <(compgen -W \"$commands --help --version\" -- "
                "\"$current\")\n"
                "        return\n"
                "    fi\n"
                "    case ${COMP_WORDS[1]} in\n",
                out);
    for (size_t i = 0; i < command_count; i++)
        bash_command(&commands[i], out);
    (void)fputs("    esac\n"
                "    [[ -z $words ]] || mapfile -t COMPREPLY < <(compgen -W \"$words\" -- "
                "\"$current\")\n"
                "}\n"
                "complete -o default -F _mosaic mosaic\n",
                out);
}

/* ---- zsh ---- */

static void zsh_option(const struct option_spec *spec, FILE *out) {
    if (spec->letter)
        (void)fprintf(out, " \\\n            '(-%c --%s)'{-%c,--%s}'[", spec->letter, spec->name,
                      spec->letter, spec->name);
    else
        (void)fprintf(out, " \\\n            '%s--%s[", spec->kind == OPTION_PAIR ? "*" : "",
                      spec->name);
    put_quoted(spec->help, "[]", "'\\''", out);
    (void)fputc(']', out);
    if (spec->argument)
        (void)fprintf(out, ":%s:", spec->argument);
    if (spec->kind == OPTION_CHOICE) {
        (void)fputc('(', out);
        put_words(spec->choices, out);
        (void)fputc(')', out);
    } else if (spec->kind == OPTION_FILE) {
        (void)fputs("_files", out);
    }
    (void)fputc('\'', out);
}

static void zsh_command(const struct command *command, FILE *out) {
    (void)fprintf(out, "    %s)\n        _arguments", command->name);
    for (size_t i = 0; i < command->option_count; i++)
        zsh_option(&command->options[i], out);
    if (command->operands.is_file) {
        (void)fputs(" \\\n            '*:file:_files'", out);
    } else {
        (void)fputs(" \\\n            '1:word:(", out);
        if (command->operands.choices)
            put_words(command->operands.choices, out);
        else
            for (size_t i = 0; i < command_count; i++)
                (void)fprintf(out, "%s%s", i ? " " : "", commands[i].name);
        (void)fputs(")'", out);
    }
    (void)fputs("\n        ;;\n", out);
}

static void print_zsh(FILE *out) {
    (void)fputs("#compdef mosaic\n"
                "# zsh completion of mosaic; written by 'mosaic completion zsh'\n"
                "_mosaic() {\n    local -a commands\n    commands=(\n",
                out);
    for (size_t i = 0; i < command_count; i++) {
        (void)fprintf(out, "        '%s:", commands[i].name);
        put_quoted(commands[i].summary, ":", "'\\''", out);
        (void)fputs("'\n", out);
    }
    (void)fputs("    )\n"
                "    if ((CURRENT == 2)); then\n"
                "        _describe command commands\n"
                "        return\n"
                "    fi\n"
                "    shift words\n"
                "    ((CURRENT--))\n"
                "    case $words[1] in\n",
                out);
    for (size_t i = 0; i < command_count; i++)
        zsh_command(&commands[i], out);
    /* Called by name when autoloaded, registered when sourced. */
    (void)fputs("    esac\n}\n"
                "if [[ $funcstack[1] == _mosaic ]]; then\n"
                "    _mosaic \"$@\"\n"
                "else\n"
                "    compdef _mosaic mosaic\n"
                "fi\n",
                out);
}

/* ---- fish ---- */

static void fish_option(const char *command, const struct option_spec *spec, FILE *out) {
    (void)fprintf(out, "complete -c mosaic -n '__fish_seen_subcommand_from %s' -l %s", command,
                  spec->name);
    if (spec->letter)
        (void)fprintf(out, " -s %c", spec->letter);
    if (spec->kind == OPTION_CHOICE) {
        (void)fputs(" -x -a '", out);
        put_words(spec->choices, out);
        (void)fputc('\'', out);
    } else if (spec->argument) {
        (void)fputs(spec->kind == OPTION_FILE ? " -r -F" : " -x", out);
    }
    (void)fputs(" -d '", out);
    put_quoted(spec->help, "\\", "\\'", out);
    (void)fputs("'\n", out);
}

static void fish_operands(const struct command *command, FILE *out) {
    (void)fprintf(out, "complete -c mosaic -n '__fish_seen_subcommand_from %s'", command->name);
    if (command->operands.is_file) {
        (void)fputs(" -F\n", out);
        return;
    }
    (void)fputs(" -a '", out);
    if (command->operands.choices)
        put_words(command->operands.choices, out);
    else
        for (size_t i = 0; i < command_count; i++)
            (void)fprintf(out, "%s%s", i ? " " : "", commands[i].name);
    (void)fputs("'\n", out);
}

static void print_fish(FILE *out) {
    (void)fputs("# fish completion of mosaic; written by 'mosaic completion fish'\n"
                "complete -c mosaic -f\n"
                "complete -c mosaic -n __fish_use_subcommand -l version -d 'version'\n"
                "complete -c mosaic -n __fish_use_subcommand -l help -d 'help'\n",
                out);
    for (size_t i = 0; i < command_count; i++) {
        (void)fprintf(out, "complete -c mosaic -n __fish_use_subcommand -a %s -d '",
                      commands[i].name);
        put_quoted(commands[i].summary, "\\", "\\'", out);
        (void)fputs("'\n", out);
    }
    for (size_t i = 0; i < command_count; i++) {
        for (size_t k = 0; k < commands[i].option_count; k++)
            fish_option(commands[i].name, &commands[i].options[k], out);
        fish_operands(&commands[i], out);
    }
}

enum mosaic_status cmd_completion(const struct command *command, const struct option_set *options) {
    static const struct {
        const char *shell;
        void (*print)(FILE *out);
    } scripts[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    char message[OPTION_MESSAGE_MAX];
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        if (strcmp(scripts[i].shell, options->operands[0]) == 0) {
            scripts[i].print(stdout);
            return MOSAIC_OK;
        }
    }
    (void)snprintf(message, sizeof message, "unknown shell '%.40s': bash, zsh or fish",
                   options->operands[0]);
    return command_refuse(command, message);
}
