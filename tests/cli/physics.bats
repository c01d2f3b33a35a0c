#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-3.0-or-later
# What must slow a step down does.

load common

step_time() {
    "$MOSAIC" predict -f json "$@" configs/examples/predict-table4.yaml |
        grep -m1 -o '"step_time_s": [0-9.e+-]*' | cut -d' ' -f2
}

# fast and slow link of the outer tier under the same layout
slower_on_a_slow_network() {
    fast=$(step_time "$@" --set 'cluster.tiers[1].bandwidth=50 GB/s')
    slow=$(step_time "$@" --set 'cluster.tiers[1].bandwidth=1 MB/s')
    awk -v a="$fast" -v b="$slow" 'BEGIN { exit !(a > 0 && b > 2 * a) }' ||
        { echo "fast $fast, slow $slow" && false; }
}

@test "a pipeline whose stages are smaller than a node still crosses nodes" {
    slower_on_a_slow_network --set nodes=2 --set 'search.layout.pp=[8]' \
        --set 'search.layout.ep=[2]' --set workload.global_batch=64
}

@test "an expert group that does not fit a node lies across two" {
    slower_on_a_slow_network --set nodes=2 --set cluster.node.gpus=6 \
        --set 'cluster.tiers[0].domain=6' --set 'search.layout.pp=[1]' \
        --set 'search.layout.ep=[4]' --set 'search.geometry.experts=[8]' \
        --set workload.global_batch=48 --set 'search.geometry.q=[4]'
}
