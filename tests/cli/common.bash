# SPDX-License-Identifier: GPL-3.0-or-later
# For the .bats files: where things are, and checks they share.
# shellcheck shell=bash
bats_require_minimum_version 1.5.0

ROOT=${MOSAIC_ROOT:-$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}
MOSAIC=${MOSAIC:-$ROOT/build/mosaic}
CHECKER=$ROOT/build/${MOSAIC_FLAVOUR:-release}/tests/unit/test_schema
export PREDICT=configs/examples/predict-table4.yaml
export MODEL=configs/models/mosaic-table4.yaml

# Paths in results are as given, so tests run at the root and name files from there.
setup() {
    cd "$ROOT" || return 1
    unset NO_COLOR
}

# The command of `run --separate-stderr` failed with this status and left stdout empty.
# shellcheck disable=SC2154 # run sets them
refused() {
    [[ $status -eq $1 ]] || { echo "status $status, not $1: $stderr" && return 1; }
    [[ -z $output ]] || { echo "on stdout: $output" && return 1; }
    [[ -n $stderr ]] || { echo "nothing on stderr" && return 1; }
}

# Each file is JSON and what the schema that it names asks for.
fits_schema() {
    (cd "$ROOT" && "$CHECKER" "$@")
}

# fixes FILE: layout and step time of each change that an explanation suggests, as its JSON has them
fixes() {
    awk -F'"' '/^  "/ { list = $2 }
        list == "fixes" && $2 == "layout" { layout = $4 }
        list == "fixes" && $2 == "step_time_s" { sub(/[^0-9]*/, "", $3); sub(/,/, "", $3)
            print layout, $3 }' "$1"
}
