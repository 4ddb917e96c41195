#!/usr/bin/env bash
# Installs a build into a folder of its own and uses it as a newcomer would: the tool through a
# symbolic link and from another folder, an engine built with pkg-config alone, a provider built
# with nothing but the headers and a C compiler.
#
# usage: tests/install.sh BUILD_DIR INSTALL_DIR
set -uo pipefail
source=$(cd "$(dirname "$0")/.." && pwd -P)
build=$1 out=$2
passed=0 failed=0

expect() { # WHAT COMMAND...
    local what=$1
    shift
    if "$@" >"$out.log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL: $what"
        tail -n 15 "$out.log"
    fi
}

rm -rf "$out" && mkdir -p "$out"
out=$(cd "$out" && pwd -P)
DESTDIR=$out meson install -C "$build" --no-rebuild >"$out.log" 2>&1 || {
    cat "$out.log"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}
prefix=$out$(meson introspect --buildoptions "$build" | python3 -c '
import json, sys
print(next(option["value"] for option in json.load(sys.stdin) if option["name"] == "prefix"))')
tenon=$prefix/bin/tenon
unset TENON_PROVIDERS TENON_PROVIDER_PATH
export XDG_CACHE_HOME=$out/cache

# The built-in provider folder is found from anywhere, also through a link (no search by cwd).
mkdir -p "$out/elsewhere"
ln -sf "$tenon" "$out/elsewhere/t"
lists_cpu() { (cd / && "$1" list --json) | python3 -c '
import json, sys
providers = json.load(sys.stdin)["providers"]
sys.exit(0 if any(p["id"] == "cpu" and p["status"] == "loaded" for p in providers) else 1)'; }
expect "installed tool finds the cpu provider" lists_cpu "$tenon"
expect "so does a symbolic link to it" lists_cpu "$out/elsewhere/t"
expect "--version" "$tenon" --version

# An engine: pkg-config and one header.
pc=$(dirname "$(find "$prefix" -name tenon.pc | head -n 1)")
export PKG_CONFIG_PATH=$pc PKG_CONFIG_SYSROOT_DIR=$out
build_engine() {
    # shellcheck disable=SC2046
    cc -std=c11 -Wall -Wextra -Werror -o "$out/engine" "$source/tests/unit/engine_example.c" \
        $(pkg-config --cflags --libs tenon)
}
run_engine() { LD_LIBRARY_PATH=$(dirname "$pc") "$out/engine"; }
expect "an engine builds with pkg-config alone" build_engine
expect "and runs" run_engine

# A provider: copied out of tree, one compiler, no header but the public ones; unknown to the host.
cp -r "$source/providers/template" "$out/acme"
build_provider() { make -C "$out/acme" INCLUDE="$prefix/include"; }
expect "the template builds out of tree" build_provider
expect "and is found and verified by path" "$tenon" verify "$out/acme/tenon-acme.so"

echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
