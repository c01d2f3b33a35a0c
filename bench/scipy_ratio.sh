#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# scipy_ratio.sh [DIRECTORY]: how many times as long as a fit SciPy's least_squares takes from the
# same starts, on one thread.  Says so where python3-scipy is not installed.
set -eu

directory=${1:-build/release/bench}
table=configs/runs/mosaic_synth_s0078.csv
for python in ${PYTHON:-python3 /usr/bin/python3} ''; do
    if [ -n "$python" ] && "$python" -c 'import scipy' 2>/dev/null; then break; fi
done
if [ -z "$python" ]; then
    echo '{"bench": "scipy_ratio", "skipped": "python3-scipy is not installed"}'
    exit 0
fi
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
"$directory/bench_fit" --starts "$table" >"$files/starts.csv"
"$directory/bench_fit" "$table" mosaic 1 >"$files/ours.json"
"$python" bench/scipy_fit.py "$table" "$files/starts.csv" "$files/ours.json"
