#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# instructions.sh [DIRECTORY [MOSAIC]]: instructions per item of each benchmark case, counted by valgrind.
# The counts repeat from run to run, unlike seconds.  What loading and preparing cost is counted
# alone (a case that does not exist) and taken off.
set -eu

directory=${1:-build/release/bench}
mosaic=${2:-build/mosaic}
counts=$(mktemp)
trap 'rm -f "$counts"' EXIT

# Instructions and items of one program and case.
count() {
    items=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null --log-file="$counts" \
        "$directory/$1" --once "$2")
    instructions=$(sed -n 's/.*Collected : //p' "$counts")
}

count bench_step nothing
prepared=$instructions
for case in evaluations predictions tables bounds memory legality walk; do
    count bench_step "$case"
    printf '{"bench": "step", "case": "%s", "items": %d, "instructions_per_item": %d}\n' \
        "$case" "$items" $(((instructions - prepared) / items))
done
count bench_search all
printf '{"bench": "search", "geometries": %d, "instructions": %d}\n' "$items" "$instructions"
# Loading the plan is a small part of these.
for case in simumax dsv3 ways free all; do
    count bench_spaces "$case"
    printf '{"bench": "spaces", "case": "%s", "meshes": %d, "instructions": %d}\n' \
        "$case" "$items" "$instructions"
done
# One budget, and six that share what is known of the steps.
for days in 20 5,10,15,20,25,30; do
    valgrind --tool=callgrind --callgrind-out-file=/dev/null --log-file="$counts" \
        "$mosaic" sweep configs/p6-b200-32n-20d.yaml --vary "budget.days=$days" --threads 1 >/dev/null
    printf '{"bench": "sweep", "budgets": "%s", "instructions": %d}\n' \
        "$days" "$(sed -n 's/.*Collected : //p' "$counts")"
done
