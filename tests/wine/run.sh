#!/usr/bin/env bash
# Builds the loader for Windows with mingw and runs its tests under wine.
#
# usage: tests/wine/run.sh [BUILD_DIR]
#
# Everything, the wine prefix (about 700 MB) too, lands in BUILD_DIR. Without mingw or wine the run
# is skipped and says so. The last line is "N passed, N failed, N skipped".
set -uo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd -P)
out=${1:-$source/build/check/windows}
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd -P)
compiler=${TENON_MINGW:-x86_64-w64-mingw32-gcc}

skip() {
    echo "SKIP: $1"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
command -v "$compiler" >/dev/null || skip "no $compiler"
wine=$(command -v wine64 || command -v wine || ls /usr/lib/wine/wine64 2>/dev/null) || skip "no wine"

flags=(-std=c11 -O1 -g -D_WIN32_WINNT=0x0A00 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror
    -ffp-contract=off "-I$source/abi" "-I$source")
built=0 broken=0
build() { # OUTPUT ARGUMENT...
    local output=$1
    shift
    if "$compiler" "${flags[@]}" -o "$output" "$@" -static-libgcc; then
        built=$((built + 1))
    else
        echo "FAIL: $(basename "$output") does not build"
        broken=$((broken + 1))
    fi
}

# The loader without its POSIX half, the probe helper with the reference that its self-test compares
# with, and the test programs.
loader=() helper=() entry=$source/loader/windows_main.c
for file in "$source"/loader/*.c; do
    case $(basename "$file") in
    posix* | windows_main.c) ;;
    probe_main.c | probe_operations.c | probe_target.c | probe_test.c) helper+=("$file") ;;
    *) loader+=("$file") ;;
    esac
done
python3 "$source/loader/manifest.py" "$out/loader_manifest.h" || broken=$((broken + 1))
flags+=("-I$out")
rm -f "$out"/*.exe "$out"/*.dll "$out"/*.o
for file in "${loader[@]}"; do
    build "$out/$(basename "$file" .c).o" -c "$file"
done
objects=()
for file in "${loader[@]}"; do objects+=("$out/$(basename "$file" .c).o"); done
build "$out/test_platform.exe" -municode "$source/tests/wine/test_platform.c" "$entry" \
    "$source"/loader/windows.c "$source"/loader/windows_files.c "$source"/loader/windows_process.c
build "$out/test_loader.exe" -municode "$source/tests/wine/test_loader.c" "$entry" "${objects[@]}"
build "$out/tenon-probe.exe" -municode -DTENON_PROVIDER_PREFIX=tenon_reference_ "${helper[@]}" "$entry" \
    "$source"/providers/reference/*.c "${objects[@]}"

# The fixtures that test_loader.c asks for, compiled as DLLs.
wanted=$(grep -o 'tenon-[a-z_]*\.dll' "$source/tests/wine/test_loader.c" | sort -u)
while IFS='|' read -r name compile link; do
    case $wanted in *"tenon-$name.dll"*) ;; *) continue ;; esac
    IFS=';' read -r -a arguments <<<"$compile"
    build "$out/tenon-$name.dll" -shared "${arguments[@]}" "$source/tests/providers/fixture.c"
done < <(python3 "$source/tests/providers/variants.py" "$source/abi/symbols.def")
# one that needs a library which is not there when it is loaded
build "$out/notthere-1.dll" -shared "$source/tests/providers/library.c"
build "$out/tenon-needs_library.dll" -shared '-DFIXTURE_ID="needs_library"' \
    "$source/tests/providers/fixture.c" "$source/tests/providers/needs_library.c" "$out/notthere-1.dll"
rm -f "$out/notthere-1.dll"

# The Vulkan provider, where its kernels can be made; the Vulkan headers alone, not all of the system's.
if command -v glslc >/dev/null && [ -f /usr/include/vulkan/vulkan_core.h ]; then
    mkdir -p "$out/include"
    for folder in vulkan vk_video; do
        [ -d "/usr/include/$folder" ] && ln -sfn "/usr/include/$folder" "$out/include/$folder"
    done
    if python3 "$source/providers/vulkan/kernels/embed.py" "$(command -v glslc)" "$out/kernels.c" "$out/kernels.d" &&
        python3 "$source/abi/symbols.py" def "$source/abi/symbols.def" "$out/provider.def"; then
        build "$out/tenon-vulkan.dll" -shared "-I$source/providers/vulkan" -isystem "$out/include" \
            "$source"/providers/vulkan/*.c "$source"/providers/common/*.c "$out/kernels.c" "$out/provider.def"
    else
        broken=$((broken + 1))
    fi
fi

# A prefix of its own, without a display, without questions, without wine's remarks.
export WINEPREFIX=$out/prefix WINEARCH=win64 WINEDEBUG=-all WINEDLLOVERRIDES='mscoree,mshtml,winedbg.exe=' DISPLAY=
if [ ! -f "$WINEPREFIX/system.reg" ]; then
    echo "making a wine prefix (about ten seconds)"
    timeout 180 "$wine" wineboot -i >"$out/wineboot.log" 2>&1 || {
        tail -n 5 "$out/wineboot.log"
        skip "wine cannot make a prefix here"
    }
fi
# inside the prefix the tests have folders that nobody else can write, whatever lies around BUILD_DIR
drive=$WINEPREFIX/drive_c/tenon
rm -rf "$drive" && mkdir -p "$drive/scratch" && chmod 755 "$drive" "$drive/scratch"
cp "$out"/*.exe "$out"/*.dll "$drive/"

passed=$built failed=$broken skipped=0
run_test() { # NAME ARGUMENT...
    local log=$out/$1.log line
    if [ ! -f "$drive/$1" ]; then return; fi
    local began=$SECONDS
    timeout 300 "$wine" "C:\\tenon\\$1" "${@:2}" >"$log" 2>"$log.err" </dev/null
    line=$(tr -d '\r' <"$log" | grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' | tail -n 1)
    tr -d '\r' <"$log" | grep -E '^FAIL' | head -n 40
    if [ -z "$line" ]; then
        echo "FAIL: $1 ended without its line"
        tail -n 5 "$log.err"
        failed=$((failed + 1))
        return
    fi
    echo "$1: ${line%% *} checks in $((SECONDS - began)) s"
    set -- $(echo "$line" | tr -cd '0-9 ')
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
}
run_test test_platform.exe 'C:\tenon\scratch' 'C:\tenon\tenon-good.dll'
run_test test_loader.exe 'C:\tenon' 'C:\tenon\tenon-probe.exe'
timeout 60 "$(command -v wineserver || ls /usr/lib/wine/wineserver64 | head -n 1)" -w 2>/dev/null

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
