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

@test "a calibrated quantity is set by its name, a wrong one is refused with a suggestion" {
    run --separate-stderr "$MOSAIC" lint --show-defaults --set calibration.host.launch_gap='11 us' configs/p6-b200-4n-5d.yaml
    [[ $status -eq 0 && $output == *"host.launch_gap"*"11 us"*"override"* ]]
    run --separate-stderr "$MOSAIC" plan --set calibration.host.launch_gapp='11 us' configs/p6-b200-4n-5d.yaml
    refused 3
    [[ $stderr == *"did you mean 'host.launch_gap'"* ]]
}

@test "limits leave large models out, and an empty rest is refused" {
    run --separate-stderr "$MOSAIC" plan -f json --set limits.n_total=30e9 configs/p6-b200-4n-5d.yaml
    [[ $status -eq 0 ]]
    [[ $(grep -m1 -o '"n_total": [0-9]*' <<<"$output" | cut -d' ' -f2) -le 30000000000 ]]
    run --separate-stderr "$MOSAIC" plan --set limits.n_total=3e6 configs/p6-b200-4n-5d.yaml
    refused 3
    [[ $stderr == *"exclude all"* ]]
}
