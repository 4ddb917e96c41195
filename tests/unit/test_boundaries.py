#!/usr/bin/env python3
"""The architecture, held by a test: arrows go tools -> host -> loader -> abi, providers -> abi only.

    test_boundaries.py SOURCE_ROOT [BUILD_DIR]

Source level: what each folder may include. Link level, when BUILD_DIR holds a build: what objects
need and export, seen by nm. Each checker is also shown a planted fault and must report it. The
last line is "N passed, N failed, N skipped".
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.getcwd()
BUILD = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None

MAX_LINES = 700
C_HEADERS = set("""assert ctype errno fenv float inttypes limits locale math setjmp signal stdalign
    stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string time wchar""".split())
# instruction sets, and what a provider needs to find its runtime, to lock and to ask for huge pages
PROVIDER_HEADERS = {"immintrin.h", "xmmintrin.h", "cpuid.h", "arm_neon.h", "dlfcn.h", "windows.h",
                    "pthread.h", "sys/mman.h", "sys/sysinfo.h", "unistd.h"}
# headers of an open standard, by provider: types and constants, for nothing is linked
STANDARD_HEADERS = {"vulkan": {"vulkan/vulkan_core.h"}}
# where code of a folder may come from; "system" is anything in <> that the tree does not have
LAYERS = {
    "abi": {"abi"},
    "loader": {"abi", "loader"},
    "host": {"abi", "loader", "host"},
    # the conformance suite is part of the tool: tenon verify
    "tools": {"abi", "loader", "host", "tools", os.path.join("tests", "conformance")},
}
VENDOR = re.compile(r"^(cu[A-Z]|cuda[A-Z]|cublas|nvrtc|hip[A-Z]|rocblas|vk[A-Z]|xrt[A-Z]|MTL|objc_|"
                    r"cl[A-Z]|ze[A-Z])")


def sources(root, folder):
    """Paths, relative to root, of the C sources below a folder."""
    for directory, folders, names in os.walk(os.path.join(root, folder)):
        folders[:] = sorted(f for f in folders if f not in ("abi-frozen", "build", ".git"))
        for name in sorted(names):
            if name.endswith((".c", ".h", ".def")):
                yield os.path.relpath(os.path.join(directory, name), root)


def includes(root, path):
    """(line number, "<" or '"', name) of every include of a file."""
    with open(os.path.join(root, path), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if match:
                yield number, match.group(1), match.group(2)


def origin(root, path, quote, name):
    """The file of the tree that an include leads to, relative to root, or None: the system's."""
    places = [os.path.dirname(path)] if quote == '"' else []
    for place in places + ["", "abi"]:
        candidate = os.path.normpath(os.path.join(place, name))
        if os.path.isfile(os.path.join(root, candidate)):
            return candidate
    return None


def is_c_header(name):
    return name.endswith(".h") and name[:-2] in C_HEADERS


def check_layers(root):
    """What is wrong with the arrows at source level, one line each."""
    wrong = []
    for layer, allowed in LAYERS.items():
        for path in sources(root, layer):
            for number, quote, name in includes(root, path):
                target = origin(root, path, quote, name)
                where = f"{path}:{number}: includes {name}"
                if target is None:
                    if quote == '"' and not generated(name):
                        wrong.append(f"{where}, which is nowhere")
                    elif layer == "abi" and not is_c_header(name):
                        wrong.append(f"{where}: the contract needs no header but C's")
                    continue
                if not any(target.startswith(folder + os.sep) for folder in allowed):
                    wrong.append(f"{where}: {layer} may include {', '.join(sorted(allowed))}")
    for path in sources(root, "loader"):
        base = os.path.basename(path)
        if base.startswith(("posix", "windows")):
            continue
        for number, quote, name in includes(root, path):
            if quote == "<" and origin(root, path, quote, name) is None and not is_c_header(name):
                wrong.append(f"{path}:{number}: includes {name}: systems differ behind platform.h")
    for path in sources(root, os.path.join("tools", "engine")):
        wrong += engine_faults(root, path)
    return wrong


def generated(name):
    """Headers that the build makes."""
    return name in ("loader_manifest.h", "loader_config.h", "config.h") or name.endswith(".spv.h")


def engine_faults(root, path):
    """An engine sees <tenon/engine.h> alone of Tenon. It may use leaf helpers of the tools (text,
    model files), as long as those do not lead to the host or the loader."""
    wrong, seen = [], {path}
    for number, quote, name in includes(root, path):
        if name.startswith("tenon/") and name != "tenon/engine.h":
            wrong.append(f"{path}:{number}: includes {name}: an engine sees <tenon/engine.h>")
    ahead = [path]
    while ahead:
        current = ahead.pop()
        for number, quote, name in includes(root, current):
            target = origin(root, current, quote, name)
            if target is None or target in seen or target.startswith("abi" + os.sep):
                continue
            if not target.startswith("tools" + os.sep):
                wrong.append(f"{path}: reaches {target} through {current}:{number}: "
                             "an engine sees <tenon/engine.h>")
                continue
            seen.add(target)
            ahead.append(target)
    return wrong


def check_providers(root):
    """Providers include the contract, C and their own files; nobody includes a provider."""
    wrong = []
    folder = os.path.join(root, "providers")
    for provider in sorted(os.listdir(folder)):
        if not os.path.isdir(os.path.join(folder, provider)):
            continue
        own = os.path.join("providers", provider) + os.sep
        shared = os.path.join("providers", "common") + os.sep
        for path in sources(root, own):
            for number, quote, name in includes(root, path):
                target = origin(root, path, quote, name)
                where = f"{path}:{number}: includes {name}"
                if target is None:
                    if not (is_c_header(name) or name in PROVIDER_HEADERS or
                            name in STANDARD_HEADERS.get(provider, ()) or
                            name.startswith("simde") or generated(name)):
                        wrong.append(f"{where}: neither C, nor the contract, nor its own")
                elif target.startswith("abi"):
                    if name == "tenon/engine.h":
                        wrong.append(f"{where}: engines include it, providers do not")
                elif not target.startswith((own, shared)):
                    wrong.append(f"{where}: providers stand on the contract alone")
    return wrong


def check_lengths(root):
    """Files that have grown past one job."""
    wrong = []
    for folder in ("abi", "loader", "host", "providers", "tools", "tests"):
        for path in sources(root, folder):
            with open(os.path.join(root, path), encoding="utf-8") as file:
                count = sum(1 for _ in file)
            if count > MAX_LINES:
                wrong.append(f"{path}: {count} lines, at most {MAX_LINES}")
    return wrong


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def names_of(path, *options):
    """Names that nm tells of a file."""
    done = run("nm", *options, path)
    if done.returncode != 0:
        raise RuntimeError(f"nm {path}: {done.stderr.strip()}")
    return {line.split()[-1].split("@")[0] for line in done.stdout.splitlines()
            if line and not line.endswith(":")}


def table_names(root):
    with open(os.path.join(root, "abi", "symbols.def"), encoding="utf-8") as file:
        return set(re.findall(r"^TENON_SYMBOL\((\w+),", file.read(), re.M))


def engine_functions(root):
    """The functions that the headers of engines promise."""
    names = set()
    for path in sources(root, os.path.join("abi", "tenon")):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
        names |= set(re.findall(r"TENON_HOST_API[^;()]*TENON_CALL\s+(\w+)\s*\(", text))
    return names


def objects_below(build, *folders):
    for folder in folders:
        for directory, _, names in os.walk(os.path.join(build, folder)):
            for name in sorted(names):
                if name.endswith(".o"):
                    yield os.path.join(directory, name)


def check_undefined(objects, forbidden):
    """Objects that call what only a provider has, or a vendor's library."""
    wrong = []
    for path in objects:
        for name in sorted(names_of(path, "--undefined-only")):
            if name in forbidden or VENDOR.match(name):
                wrong.append(f"{path}: needs {name}")
    return wrong


def check_exports(path, allowed):
    return [f"{path}: exports {name}"
            for name in sorted(names_of(path, "-D", "--defined-only") - allowed)]


def shipped(build):
    """Provider files of a build: shared modules right inside its folder providers/."""
    folder = os.path.join(build, "providers")
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))
            if name.startswith("tenon-") and name.endswith(".so")] if os.path.isdir(folder) else []


def provider_functions(build):
    """Global names that objects of shipped providers define, and the linked-in one does not."""
    names = set()
    for folder in sorted(os.listdir(os.path.join(build, "providers"))):
        if folder.startswith("reference") or "reference" in folder:
            continue
        for path in objects_below(build, os.path.join("providers", folder)):
            names |= names_of(path, "--defined-only", "--extern-only")
    for path in objects_below(build, os.path.join("providers", "reference")):
        names -= names_of(path, "--defined-only", "--extern-only")
    return names


def host_library(build):
    for directory, _, names in os.walk(build):
        if "check" in os.path.relpath(directory, build).split(os.sep):
            continue
        for name in names:
            if re.fullmatch(r"libtenon\.so(\.[0-9.]+)?", name):
                path = os.path.join(directory, name)
                if not os.path.islink(path):
                    return path
    return None


class Source(unittest.TestCase):
    def none(self, wrong):
        self.assertEqual([], wrong, "\n" + "\n".join(wrong))

    def test_there_is_something_to_check(self):
        for folder in ("abi", "loader", "host", "providers", "tools"):
            self.assertGreater(len(list(sources(ROOT, folder))), 3, folder)

    def test_layers(self):
        self.none(check_layers(ROOT))

    def test_providers(self):
        self.none(check_providers(ROOT))

    def test_lengths(self):
        self.none(check_lengths(ROOT))

    def test_engine_example(self):
        path = os.path.join("tests", "unit", "engine_example.c")
        if not os.path.exists(os.path.join(ROOT, path)):
            self.skipTest("no engine example")
        self.none(engine_faults(ROOT, path))
        names = [name for _, _, name in includes(ROOT, path)]
        self.assertIn("tenon/engine.h", names)

    def test_nobody_but_the_platform_loads_libraries(self):
        wrong = []
        for folder in ("abi", "loader", "host", "tools"):
            for path in sources(ROOT, folder):
                if os.path.basename(path).startswith(("posix", "windows")):
                    continue
                with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                    text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
                for call in re.findall(r"\b(dlopen|dlsym|LoadLibrary\w*|GetProcAddress)\s*\(", text):
                    wrong.append(f"{path}: calls {call}")
        self.none(wrong)


class Headers(unittest.TestCase):
    """Every header of the contract compiles alone, as C and as C++, with nothing to warn of."""

    def test_alone(self):
        compilers = [c for c in ("gcc", "g++", "clang-19", "clang++-19", "clang", "clang++")
                     if shutil.which(c)]
        self.assertTrue(compilers, "no compiler")
        headers = [p for p in sources(ROOT, "abi") if p.endswith(".h")]
        self.assertGreater(len(headers), 5)
        warnings = ("-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wpadded -Werror").split()
        for compiler in compilers:
            language = "c++" if "++" in compiler else "c"
            for standard in (["c++17"] if language == "c++" else ["c11", "c17"]):
                for header in headers:
                    name = os.path.relpath(header, "abi")
                    with self.subTest(header=name, compiler=compiler, standard=standard):
                        done = subprocess.run(
                            [compiler, "-x", language, f"-std={standard}", *warnings, "-I",
                             os.path.join(ROOT, "abi"), "-fsyntax-only", "-"],
                            input=f"#include <{name}>\n", capture_output=True, text=True,
                            check=False)
                        self.assertEqual(0, done.returncode, done.stderr)


class Planted(unittest.TestCase):
    """The checkers can fail: each is shown one fault in a copy of the tree."""

    def setUp(self):
        self.copy = tempfile.mkdtemp(prefix="tenon-boundaries-")
        self.addCleanup(shutil.rmtree, self.copy)
        for folder in ("abi", "loader", "host", "providers", "tools",
                       os.path.join("tests", "conformance")):
            shutil.copytree(os.path.join(ROOT, folder), os.path.join(self.copy, folder),
                            ignore=lambda _, names: [n for n in names if n.endswith(".so")])
        self.before = check_layers(self.copy) + check_providers(self.copy)

    def plant(self, path, line):
        path = os.path.join(self.copy, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def reported(self, wrong, word):
        wrong = [line for line in wrong if line not in self.before]
        self.assertEqual(1, len(wrong), wrong)
        self.assertIn(word, wrong[0])

    def test_host_includes_a_provider(self):
        self.plant("providers/reference/planted.h", "")
        self.plant("host/planted.c", "#include <providers/reference/planted.h>")
        self.reported(check_layers(self.copy), "host/planted.c:1")

    def test_loader_includes_the_host(self):
        self.plant("host/planted.h", "")
        self.plant("loader/planted.c", '#include "../host/planted.h"')
        self.reported(check_layers(self.copy), "loader/planted.c:1")

    def test_loader_includes_a_system_header(self):
        self.plant("loader/planted.c", "#include <dlfcn.h>")
        self.reported(check_layers(self.copy), "platform.h")

    def test_abi_includes_the_host(self):
        self.plant("host/planted.h", "")
        self.plant("abi/tenon/planted.h", "#include <host/planted.h>")
        self.reported(check_layers(self.copy), "abi/tenon/planted.h:1")

    def test_provider_includes_the_engine_header(self):
        self.plant("providers/template/planted.c", "#include <tenon/engine.h>")
        self.reported(check_providers(self.copy), "template/planted.c:1")

    def test_provider_includes_the_loader(self):
        self.plant("providers/template/planted.c", "#include <loader/loader.h>")
        self.reported(check_providers(self.copy), "contract alone")

    def test_provider_includes_another_provider(self):
        self.plant("providers/reference/planted.h", "")
        self.plant("providers/template/planted.c", '#include "../reference/planted.h"')
        self.reported(check_providers(self.copy), "contract alone")

    def test_provider_includes_a_vendor_header(self):
        self.plant("providers/template/planted.c", "#include <cuda.h>")
        self.reported(check_providers(self.copy), "cuda.h")

    def test_engine_reaches_the_host(self):
        self.plant("host/planted.h", "")
        self.plant("tools/planted.h", "#include <host/planted.h>")
        self.plant("tools/engine/planted.c", '#include "../planted.h"')
        self.reported(check_layers(self.copy), "tools/planted.h:1")

    def test_tool_includes_a_provider(self):
        self.plant("providers/reference/planted.h", "")
        self.plant("tools/planted.c", '#include "../providers/reference/planted.h"')
        self.reported(check_layers(self.copy), "tools/planted.c:1")

    def test_engine_includes_the_provider_header(self):
        self.plant("tools/engine/planted.c", "#include <tenon/provider.h>")
        self.reported(check_layers(self.copy), "an engine sees")

    def test_long_file(self):
        self.plant("host/planted.c", "\n" * MAX_LINES)
        self.assertTrue(any("planted.c" in line for line in check_lengths(self.copy)))

    def compiled(self, source):
        self.plant("planted.c", source)
        out = os.path.join(self.copy, "planted.o")
        done = run("cc", "-std=c11", "-fPIC", "-c", os.path.join(self.copy, "planted.c"), "-o", out)
        self.assertEqual(0, done.returncode, done.stderr)
        return out

    def test_direct_call_of_a_vendor(self):
        out = self.compiled("int cuInit(unsigned);\nint f(void);\nint f(void) { return cuInit(0); }")
        self.reported(check_undefined([out], set()), "cuInit")

    def test_direct_call_of_a_provider(self):
        if not BUILD:
            self.skipTest("no build folder")
        names = sorted(provider_functions(BUILD))
        self.assertTrue(names, "shipped providers define no global name at all")
        out = self.compiled(f"extern int {names[0]}(void);\nint f(void);\n"
                            f"int f(void) {{ return {names[0]}(); }}")
        self.reported(check_undefined([out], set(names)), names[0])

    def test_provider_exports_too_much(self):
        out = os.path.join(self.copy, "planted.so")
        self.plant("more.c", "int more(void) { return 1; }")
        done = run("cc", "-shared", "-fPIC", "-o", out, os.path.join(self.copy, "more.c"))
        self.assertEqual(0, done.returncode, done.stderr)
        self.reported(check_exports(out, table_names(ROOT)), "more")


class Linked(unittest.TestCase):
    """What the build made, seen by nm."""

    def setUp(self):
        if not BUILD or not shutil.which("nm"):
            self.skipTest("no build folder")

    def test_shipped_providers_export_the_table_alone(self):
        files = shipped(BUILD)
        self.assertTrue(files, "no shipped provider")
        for path in files:
            self.assertEqual([], check_exports(path, table_names(ROOT)))
            missing = {"provider_v1", "qmatmul_v1"} - names_of(path, "-D", "--defined-only")
            self.assertEqual(set(), missing, path)

    def test_library_exports_the_engine_functions_alone(self):
        path = host_library(BUILD)
        self.assertIsNotNone(path, "no libtenon.so")
        exported = names_of(path, "-D", "--defined-only")
        promised = engine_functions(ROOT)
        self.assertGreater(len(promised), 20)
        self.assertEqual(set(), promised - exported, "declared, not exported")
        extra = {name for name in exported - promised if not re.match(r"TENON_[0-9.]+$", name)}
        self.assertEqual(set(), extra, "exported, not declared")

    def test_nobody_calls_a_provider_or_a_vendor(self):
        objects = list(objects_below(BUILD, "loader", "host", "tools", "tests/unit"))
        self.assertGreater(len(objects), 10)
        forbidden = provider_functions(BUILD)
        self.assertTrue(forbidden)
        # the tests of a provider's own parts are linked with them
        objects = [o for o in objects if not re.search(r"test_(cpu|kernel|pack|level|simde)", o)]
        self.assertEqual([], check_undefined(objects, forbidden - table_names(ROOT)))

    def test_providers_need_nothing_of_the_host(self):
        for path in shipped(BUILD):
            needed = names_of(path, "-D", "--undefined-only")
            self.assertEqual(set(), {n for n in needed if n.startswith(("tenon_", "loader_"))})

    def test_engine_example_needs_the_engine_functions_alone(self):
        objects = [o for o in objects_below(BUILD, "tests/unit") if "engine_example" in o]
        if not objects:
            self.skipTest("no engine example in the build")
        for path in objects:
            tenon = {n for n in names_of(path, "--undefined-only") if "tenon" in n}
            self.assertTrue(tenon)
            self.assertEqual(set(), tenon - engine_functions(ROOT))




def main():
    suite = unittest.TestSuite(
        unittest.defaultTestLoader.loadTestsFromTestCase(case)
        for case in (Source, Headers, Planted, Linked))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=1).run(suite)
    failed = len({case.id().split(" (")[0] for case, _ in result.failures + result.errors})
    skipped = len(result.skipped)
    for case, why in result.skipped:
        print(f"SKIP: {case.id()}: {why}")
    passed = result.testsRun - failed - skipped
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
