# shellcheck shell=bash
# SPDX-License-Identifier: GPL-3.0-or-later
# For the test scripts: one TAP line a check, what went wrong after it as comment lines.
set -u
tap_count=0
tap_failed=0

# check NAME COMMAND...: passes when the command does; its output is shown only when it fails
check() {
    local name=$1 output
    shift
    tap_count=$((tap_count + 1))
    if output=$("$@" 2>&1); then
        echo "ok $tap_count - $name"
    else
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_count - $name"
        printf '%s\n' "$output" | sed 's/^/# /'
    fi
}

# skip NAME REASON
skip() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # skip $2"
}

# tap_end: the plan, and an exit status that tells of failures
tap_end() {
    echo "1..$tap_count"
    exit $((tap_failed > 0))
}
