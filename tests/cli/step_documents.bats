#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# The shipped calibrations of devices are what `mosaic fit --steps` writes from the shipped table.
# shellcheck disable=SC2154 # run sets output, stderr, status

load common

DATA=calibration/data

# same THREADS: no document more, none less, no byte different
same() {
    local file
    "$MOSAIC" fit --steps $DATA/steps.csv --threads "$1" -f json -o "$BATS_TEST_TMPDIR/out" \
        >"$BATS_TEST_TMPDIR/fit.json"
    for file in "$BATS_TEST_TMPDIR"/out/* "$DATA"/*-steps.yaml; do
        cmp "$BATS_TEST_TMPDIR/out/${file##*/}" "$DATA/${file##*/}" || return 1
    done
}

# Anew by: mosaic fit --steps calibration/data/steps.csv -o calibration/data
@test "one thread writes the shipped documents, byte for byte" {
    [[ ${MOSAIC_FLAVOUR:-release} != asan ]] || skip "takes minutes; two threads do the same"
    same 1
}

@test "two threads write the shipped documents, byte for byte" {
    same 2
}

@test "each shipped document loads, names its device and keeps its covariance" {
    local file
    for file in "$DATA"/*-steps.yaml; do
        "$MOSAIC" lint "$file"
        grep -q '^device: ' "$file"
        grep -q '^covariance:' "$file"
        [[ $(sed -n 's/^name: //p' "$file") == "$(basename "$file" .yaml)" ]]
        # Every entry says where it comes from, under which licence, and how.
        awk '/^  - quantity:/ { entries++ } /^    source:/ { sources++ }
            /^    licence:/ { licences++ } /^    method:/ { methods++ }
            END { exit !(entries > 10 && sources == entries && licences == entries &&
                methods == entries) }' "$file" || { echo "$file" && return 1; }
    done
}

@test "the calibration of every cluster document loads" {
    local cluster named count=0
    for cluster in configs/clusters/*.yaml; do
        "$MOSAIC" lint "$cluster"
        named=$(sed -nE 's/^calibration: ([^ #]+).*/\1/p' "$cluster")
        [[ -n $named ]] || continue # measured clusters that the generic calibration serves
        "$MOSAIC" lint "configs/clusters/$named"
        count=$((count + 1))
    done
    [[ $count -ge 9 ]]
}

@test "each shipped document of steps belongs to a cluster" {
    local file
    for file in "$DATA"/*-steps.yaml; do
        grep -qF "data/${file##*/}" configs/clusters/*.yaml || { echo "$file" && return 1; }
    done
}
