#!/usr/bin/env bash
# A provider that was written against older headers means the same with today's: libabigail compares
# the types of what it exports, down to every struct that a function of it is handed.
#
# usage: tests/abidiff.sh FOLDER
#
# Everything lands in FOLDER. Without abidiff the run is skipped and says so. The last line is
# "N passed, N failed, N skipped".
set -uo pipefail
source=$(cd "$(dirname "$0")/.." && pwd -P)
out=${1:?usage: tests/abidiff.sh FOLDER}
passed=0 failed=0

command -v abidiff >/dev/null || {
    echo "SKIP: no abidiff"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
rm -rf "$out" && mkdir -p "$out" || exit 1

# build OUTPUT HEADERS PROVIDER
build() {
    cc -std=c11 -g -O0 -shared -fPIC -fvisibility=hidden -ffp-contract=off "-I$2" -o "$1" "$3"
}

# expect WHAT yes|no OLD NEW: are they the same?
expect() {
    local same=yes
    abidiff "$3" "$4" >"$out/log" 2>&1 || same=no
    if [ "$same" = "$2" ] && [ -f "$3" ] && [ -f "$4" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL: $1"
        head -n 40 "$out/log"
    fi
}

for frozen in "$source"/tests/providers/abi-frozen/*/; do
    version=$(basename "$frozen")
    build "$out/old-$version.so" "$frozen" "$frozen/provider.c"
    build "$out/new-$version.so" "$source/abi" "$frozen/provider.c"
    expect "version $version of the ABI, today" yes "$out/old-$version.so" "$out/new-$version.so"

    # planted: two fields of a struct change places, which no size tells
    mkdir -p "$out/planted"
    cp -r "$source/abi/tenon" "$out/planted/"
    sed -i 's/^    uint64_t memory_total; .*/@/; s/^    uint64_t memory_free; .*/    uint64_t memory_total;/; s/^@$/    uint64_t memory_free;/' \
        "$out/planted/tenon/provider.h"
    cmp -s "$source/abi/tenon/provider.h" "$out/planted/tenon/provider.h" && rm -r "$out/planted"
    build "$out/planted-$version.so" "$out/planted" "$frozen/provider.c"
    expect "fields that changed places are seen" no "$out/old-$version.so" "$out/planted-$version.so"
    rm -rf "$out/planted"
done

echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
