#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# embed.sh FILE...: writes the C table of src/doc/builtin.h with the text of each file.
# configs/laws/x.yaml becomes "laws/x", calibration/data/x.yaml "calibrations/x".
set -eu
export LC_ALL=C

name() {
    path=${1%.yaml}
    case $path in
    *calibration/data/*) printf 'calibrations/%s' "${path##*/}" ;;
    *configs/*) printf '%s' "${path##*configs/}" ;;
    *) printf '%s' "${path##*/}" ;;
    esac
}

# Bytes as numbers: no limit on the length of a literal, nothing to quote.
bytes() {
    od -An -v -tu1 "$1" | sed -e 's/[0-9][0-9]*/&,/g' -e 's/  */ /g'
}

list=$(for file in "$@"; do printf '%s %s\n' "$(name "$file")" "$file"; done | sort)

printf '/* Written by src/doc/embed.sh. */\n#include "doc/builtin.h"\n'
printf '%s\n' "$list" | {
    i=0
    while read -r key file; do
        printf '\nstatic const unsigned char text_%d[] = { /* %s */\n' "$i" "$key"
        bytes "$file"
        printf ' 0};\n'
        i=$((i + 1))
    done
}
printf '\nconst struct builtin_document builtin_documents[] = {\n'
printf '%s\n' "$list" | {
    i=0
    while read -r key file; do
        printf '    {"%s", (const char *)text_%d, sizeof text_%d - 1},\n' "$key" "$i" "$i"
        i=$((i + 1))
    done
}
printf '};\nconst size_t builtin_document_count = %d;\n' "$#"
