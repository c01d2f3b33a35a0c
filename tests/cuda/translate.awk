# SPDX-License-Identifier: GPL-3.0-or-later
# A source of the CUDA probe as plain C++ for tests/cuda/emulator.h: launches become calls that run
# every thread, shared memory becomes static or the launch's own block.

# Where the text between brackets that open before `at` ends.
function closing(text, at,    depth, c) {
    for (depth = 1; at <= length(text); ++at) {
        c = substr(text, at, 1)
        depth += (c == "(") - (c == ")")
        if (depth == 0)
            return at
    }
    return at
}

# Where the kernel's name that ends at `at`, template arguments and all, begins.
function name_begin(text, at,    depth, c) {
    while (substr(text, at, 1) ~ /[ \n]/)
        --at
    if (substr(text, at, 1) == ">") {
        for (depth = 1; depth > 0; ) {
            c = substr(text, --at, 1)
            depth += (c == ">") - (c == "<")
        }
        --at
    }
    while (substr(text, at, 1) ~ /[A-Za-z0-9_]/)
        --at
    return at + 1
}

{ whole = whole $0 "\n" }

END {
    gsub(/__launch_bounds__\([A-Z_]*\)/, "", whole)
    gsub(/extern __shared__ (__align__\([0-9]*\) )?unsigned char memory\[\];/,
        "unsigned char *const memory = (unsigned char *)emulated_memory();", whole)
    while (match(whole, /extern __shared__ float [a-z]*\[\];/)) {
        name = substr(whole, RSTART + 24, RLENGTH - 27)
        whole = substr(whole, 1, RSTART - 1) "float *const " name " = (float *)emulated_memory();" \
            substr(whole, RSTART + RLENGTH)
    }
    gsub(/__shared__/, "static", whole)
    out = ""
    while ((at = index(whole, "<<<")) > 0) {
        begin = name_begin(whole, at - 1)
        name = substr(whole, begin, at - begin)
        ends = index(whole, ">>>")
        shape = substr(whole, at + 3, ends - at - 3)
        close_at = closing(whole, ends + 4)
        out = out substr(whole, 1, begin - 1) "emulate({" shape "}, [=] { " name "(" \
            substr(whole, ends + 4, close_at - ends - 4) "); })"
        whole = substr(whole, close_at + 1)
    }
    # A header is included by sources alone.
    printf "%s#line 1 \"%s\"\n%s%s", FILENAME ~ /\.h$/ ? "" : "#include \"emulator.h\"\n", FILENAME, \
        out, whole
}
