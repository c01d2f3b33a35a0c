#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# Help, version, completion, and every kind of usage error.  None of them reads a document.

load common

commands=(plan fit predict layout explain schedules count compare sweep validate lint completion help)

@test "--help lists the commands on stdout" {
    run --separate-stderr "$MOSAIC" --help
    [[ $status -eq 0 && -z $stderr ]]
    for command in "${commands[@]}"; do
        grep -q "^  $command " <<<"$output"
    done
}

@test "each command has --help, and help COMMAND is the same text" {
    for command in "${commands[@]}"; do
        run --separate-stderr "$MOSAIC" "$command" --help
        [[ $status -eq 0 && -z $stderr ]]
        [[ ${lines[0]} == "Usage: mosaic $command "* ]]
        [[ $output == "$("$MOSAIC" help "$command")" ]]
        [[ $(awk 'length > 100' <<<"$output" | wc -l) -eq 0 ]]
    done
}

@test "--help wins over other mistakes" {
    run --separate-stderr "$MOSAIC" plan --nonsense --help
    [[ $status -eq 0 && $output == "Usage: mosaic plan "* ]]
}

@test "--version is one line, with --verbose the build and libraries too" {
    run --separate-stderr "$MOSAIC" --version
    [[ $status -eq 0 && ${#lines[@]} -eq 1 && $output =~ ^mosaic\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
    run --separate-stderr "$MOSAIC" --version --verbose
    [[ $status -eq 0 ]]
    for word in build compiler gsl libyaml jansson; do
        grep -q "^$word  *." <<<"$output"
    done
}

@test "usage errors: status 2, nothing on stdout, where to read on" {
    while IFS='|' read -r arguments message; do
        # shellcheck disable=SC2086 # the arguments are words
        run --separate-stderr "$MOSAIC" $arguments
        refused 2 || { echo "for '$arguments'" && false; }
        [[ $stderr == *"$message"* ]] || { echo "'$stderr' lacks '$message'" && false; }
        [[ $stderr == *"--help'" ]]
    done <<'LIST'
|needs a command
pla|unknown command 'pla'; did you mean 'plan'?
frobnicate|unknown command 'frobnicate'
--hepl|unknown option '--hepl'; did you mean '--help'?
help nope|unknown command 'nope'
plan|mosaic plan: needs FILE
plan a b|unexpected argument 'b'
plan --formt json a|unknown option '--formt'; did you mean '--format'?
plan --format xml a|--format takes table, json, csv or yaml, not 'xml'
plan --format|--format needs a value: FORMAT
plan --threads two a|--threads takes a whole number from 0 to 256, not 'two'
plan --threads 257 a|--threads takes a whole number
plan --seed -1 a|--seed takes a whole number
plan --set nodes a|--set takes KEY=VALUE, not 'nodes'
plan --color sometimes a|--color takes auto, always or never
layout --top 0 a|--top takes a whole number from 1 to 100
layout --top 101 a|--top takes a whole number
layout|mosaic layout: needs PLAN
explain a|--layout is missing
explain --layout tp=1|mosaic explain: needs PLAN
explain --layout|--layout
plan --sequence 8 a|unknown option '--sequence'
count --sequence 0 a|--sequence takes a whole number from 1
compare a|needs A B
validate --anchor 17 a|--anchor takes a whole number from 0 to 16
validate --worst many a|--worst takes a whole number
validate|needs ROWS.csv
sweep a|needs --vary
sweep - --vary nodes=4|FILE cannot be standard input
sweep a b --vary nodes=4|takes one FILE
sweep a --vary nodes|--vary takes KEY=VALUE
sweep a --vary nodes=4..8|range '4..8' has no step; 4..64*2 doubles, 5..20+5 adds
sweep a --vary nodes=8..4+1|ends before it begins
sweep a --vary nodes=1..4*1|never ends
sweep a --vary nodes=1..4+0|never ends
sweep a --vary nodes=1GB..4MB+1|no range of numbers with one unit
sweep a --vary nodes=1..4+1,3|value '3' is there twice
sweep a --vary nodes=4,,8|an empty value
sweep a --vary nodes=[4,8|do not match
sweep a --vary nodes=4 --vary nodes=8|key 'nodes' is there twice
sweep a --vary nodes=1..9000+1 --vary budget.days=1..9000+1|more than 1000000 points
sweep a --vary nodes=4 --shard 0/3|--shard takes I/N
sweep a --vary nodes=4 --shard 4/3|--shard takes I/N
sweep a --merge --vary nodes=4|--merge takes tables only
sweep a --vary nodes=4 --resume b -o b|add --format csv
compare - -|only one of A and B can be standard input
completion|needs SHELL
completion tcsh|unknown shell 'tcsh'
LIST
}

@test "completion scripts name every command and option" {
    for shell in bash zsh fish; do
        run --separate-stderr "$MOSAIC" completion "$shell"
        [[ $status -eq 0 && -z $stderr ]]
        for word in "${commands[@]}" format output threads show-defaults sequence model top; do
            grep -q -- "$word" <<<"$output"
        done
    done
}

@test "bash completion parses and completes" {
    script=$("$MOSAIC" completion bash)
    bash -n <<<"$script"
    # shellcheck source=/dev/null
    source /dev/stdin <<<"$script"
    COMP_WORDS=(mosaic p) COMP_CWORD=1
    _mosaic
    [[ ${COMPREPLY[*]} == "plan predict" ]]
    COMP_WORDS=(mosaic plan --format '') COMP_CWORD=3
    _mosaic
    [[ ${COMPREPLY[*]} == "table json csv yaml" ]]
    COMP_WORDS=(mosaic lint --sh) COMP_CWORD=2
    _mosaic
    [[ ${COMPREPLY[*]} == "--show-defaults" ]]
    COMP_WORDS=(mosaic completion '') COMP_CWORD=2
    _mosaic
    [[ ${COMPREPLY[*]} == "bash zsh fish" ]]
}

@test "zsh and fish completions parse where those shells are" {
    for shell in zsh fish; do
        if command -v "$shell" >/dev/null; then
            "$MOSAIC" completion "$shell" | "$shell" -n
        fi
    done
}

@test "a full disk under help is exit 4" {
    for arguments in --help --version "plan --help" "completion bash"; do
        run bash -c "'$MOSAIC' $arguments >/dev/full"
        [[ $status -eq 4 && $output == *"No space left"* ]]
    done
}
