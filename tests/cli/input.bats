#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# Bad documents: exit 3, the place on stderr, nothing on stdout, at once.

load common

@test "every file of tests/bad is refused with its place" {
    shopt -s nullglob
    files=(tests/bad/*.yaml tests/bad/*.yml)
    [[ ${#files[@]} -gt 0 ]] || skip "no bad files"
    for file in "${files[@]}"; do
        run --separate-stderr timeout 1 "$MOSAIC" plan --format json "$file"
        refused 3 || { echo "for $file" && false; }
        [[ $stderr =~ ^[^$'\n']*\.ya?ml:[0-9]+:[0-9]+:\ error:\  ]] || {
            echo "no place for $file: $stderr" && false
        }
    done
}

@test "a file that is not there is exit 4, named" {
    run --separate-stderr "$MOSAIC" plan nosuch.yaml
    refused 4
    [[ $stderr == *nosuch.yaml* ]]
}

@test "a directory is refused" {
    run --separate-stderr "$MOSAIC" plan configs
    [[ $status -eq 3 || $status -eq 4 ]]
    [[ -z $output && -n $stderr ]]
}

@test "an unknown key behind --set is refused, with a suggestion" {
    run --separate-stderr "$MOSAIC" predict --set workload.sequnce=4096 "$PREDICT"
    refused 3
    [[ $stderr == *"'sequence'"* || $stderr == *"workload.sequence"* ]]
}

@test "standard input is a document too" {
    run --separate-stderr "$MOSAIC" lint - </dev/null
    refused 3
}
