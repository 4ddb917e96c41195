#!/usr/bin/env python3
"""An engine sees <tenon/engine.h> and nothing else: no way leads past it to a provider.

    test_engine_boundaries.py SOURCE_ROOT BUILD_DIR

Every source and every object of tools/engine is judged. What is forbidden is derived: the names of
abi/symbols.def and whatever objects of providers, host and loader define. Direct calls of all these
kinds are then planted in a copy of an engine's source, which is compiled here, and must be found.
The last line is "N passed, N failed, N skipped".
"""
import os
import re
import shutil
import sys
import tempfile
import unittest

import test_boundaries as tree

ROOT, BUILD = tree.ROOT, tree.BUILD
ENGINE = os.path.join("tools", "engine")
# the tokenizer reads vocabularies: besides its own it knows the reader of model files
WORDS = re.compile(r"^(tokenizer|tokens|chat)")
WORDS_FILES = {os.path.join("tools", "gguf.h"), os.path.join("tools", "text.h")}
WORDS_OBJECTS = re.compile(r"^(gguf\w*|text)\.c\.o$")
WORDS_HEADERS = {"pcre2.h"}
LOADING = re.compile(r"^_*(dl[a-z_0-9]+|LoadLibrary\w*|GetProcAddress)$")


def source_faults(root, path):
    """Includes of one source that an engine may not have, one line each."""
    wrong = []
    of_words = WORDS.match(os.path.basename(path)) is not None
    for number, quote, name in tree.includes(root, path):
        target = tree.origin(root, path, quote, name)
        where = f"{path}:{number}: includes {name}"
        if target is None:
            if not (tree.is_c_header(name) or of_words and name in WORDS_HEADERS):
                wrong.append(f"{where}: engines need C's headers alone")
        elif target.startswith(ENGINE + os.sep):
            if not of_words and WORDS.match(os.path.basename(target)):
                wrong.append(f"{where}: an engine computes, others read words")
        elif name != "tenon/engine.h" and not (of_words and target in WORDS_FILES):
            wrong.append(f"{where}: an engine sees <tenon/engine.h>")
    return wrong


def engine_objects(build):
    """{source of tools/engine: its objects in the build}"""
    found = {name: [] for name in os.listdir(os.path.join(ROOT, ENGINE)) if name.endswith(".c")}
    for path in tree.objects_below(build, "tools"):
        base = os.path.basename(path)
        if base.startswith("engine_") and base[7:-2] in found:
            found[base[7:-2]].append(path)
    return found


def defined(*paths):
    return tree.names_of(paths[-1], "--defined-only", "--extern-only", *paths[:-1])


def needed(path):
    return tree.names_of(path, "--undefined-only")


def library_names(name):
    """What a shared library of the system exports; None when it cannot be found."""
    done = tree.run("cc", f"-print-file-name={name}")
    path = done.stdout.strip()
    if done.returncode != 0 or not os.path.isabs(path) or not os.path.exists(path):
        return None
    return tree.names_of(path, "-D", "--defined-only")


class Border:
    """What engine objects may need, and names that they may not, whatever else is true."""

    def __init__(self, build):
        self.engine = tree.engine_functions(ROOT)
        self.table = tree.table_names(ROOT)
        self.own = set()
        for paths in engine_objects(build).values():
            for path in paths:
                self.own |= defined(path)
        self.words = set()
        for path in tree.objects_below(build, "tools"):
            if WORDS_OBJECTS.match(os.path.basename(path)):
                self.words |= defined(path)
        self.behind = defined(*tree.objects_below(build, "providers", "host", "loader"))
        self.behind -= self.engine | self.own | self.words
        self.libraries = set()
        for name in ("libc.so.6", "libm.so.6"):
            self.libraries |= library_names(name) or set()
        # a descriptor under any prefix is one
        self.descriptor = re.compile(rf"^(\w+_)?({'|'.join(sorted(self.table))})$")

    def faults(self, path, source):
        """What an object needs and should not, one line each."""
        wrong = []
        words = WORDS.match(source) is not None
        for name in sorted(needed(path)):
            if (self.descriptor.match(name) or name in self.behind or tree.VENDOR.match(name) or
                    LOADING.match(name)):
                wrong.append(f"{source}: calls {name} past the engine's border")
            elif not (name in self.engine or name in self.own or name in self.libraries or
                      words and (name in self.words or name.startswith("pcre2_")) or
                      name.startswith("_")):  # compilers and linkers
                wrong.append(f"{source}: needs {name}, which is neither Tenon's for engines, nor C")
        return wrong


class Sources(unittest.TestCase):
    def test_every_source(self):
        paths = [p for p in tree.sources(ROOT, ENGINE)]
        self.assertGreater(len(paths), 20)
        wrong = [line for path in paths for line in source_faults(ROOT, path)]
        self.assertEqual([], wrong, "\n" + "\n".join(wrong))

    def test_planted(self):
        copy = tempfile.mkdtemp(prefix="tenon-engine-")
        self.addCleanup(shutil.rmtree, copy)
        for folder in ("abi", "host", "loader", "providers", "tools"):
            shutil.copytree(os.path.join(ROOT, folder), os.path.join(copy, folder),
                            ignore=lambda _, names: [n for n in names if n.endswith(".so")])
        for source, include in (("step.c", "<tenon/provider.h>"), ("step.c", "<tenon/op/add.h>"),
                                ("engine.c", '"../../host/host.h"'), ("llama.c", "<host/host.h>"),
                                ("model.c", '"../gguf.h"'), ("model.c", '"tokenizer.h"'),
                                ("engine.c", "<dlfcn.h>"), ("engine.c", "<pcre2.h>"),
                                ("chat.c", "<unistd.h>"), ("tokens.c", '"../opening.h"'),
                                ("gemma3.c", '"../../providers/reference/device.h"'),
                                ("rope.c", "<cuda.h>"), ("rope.h", "<vulkan/vulkan.h>")):
            with self.subTest(source=source, include=include):
                path = os.path.join(ENGINE, source)
                self.assertEqual([], source_faults(copy, path))
                with open(os.path.join(copy, path), "r+", encoding="utf-8") as file:
                    before = file.read()
                    file.write(f"#include {include}\n")
                self.assertEqual(1, len(source_faults(copy, path)))
                with open(os.path.join(copy, path), "w", encoding="utf-8") as file:
                    file.write(before)


class Objects(unittest.TestCase):
    border = None

    def setUp(self):
        if not BUILD or not shutil.which("nm"):
            self.skipTest("no build folder")
        if Objects.border is None:
            Objects.border = Border(BUILD)

    def test_there_is_something_to_hold(self):
        self.assertGreater(len(self.border.engine), 40)
        self.assertGreater(len(self.border.behind), 200)
        self.assertIn("qmatmul_v1", self.border.table)
        self.assertTrue(self.border.descriptor.match("tenon_reference_qmatmul_v1"))
        self.assertLess({"malloc", "memcpy", "sqrtf"}, self.border.libraries)

    def test_every_object(self):
        objects = engine_objects(BUILD)
        missing = [name for name, paths in objects.items() if not paths]
        self.assertEqual([], missing, "sources without an object")
        wrong = [line for name, paths in objects.items() for path in paths
                 for line in self.border.faults(path, name)]
        self.assertEqual([], wrong, "\n" + "\n".join(wrong))
        self.assertTrue(any(needed(path) & self.border.engine
                            for paths in objects.values() for path in paths))

    def compiled(self, source, call):
        """The object of an engine's source with one more function in it."""
        folder = tempfile.mkdtemp(prefix="tenon-engine-")
        self.addCleanup(shutil.rmtree, folder)
        for directory in ("abi", "tools"):
            shutil.copytree(os.path.join(ROOT, directory), os.path.join(folder, directory))
        path = os.path.join(folder, ENGINE, source)
        with open(path, "a", encoding="utf-8") as file:
            file.write(call)
        out = os.path.join(folder, "planted.o")
        done = tree.run("cc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-I", os.path.join(folder, "abi"),
                        "-c", path, "-o", out)
        self.assertEqual(0, done.returncode, done.stderr)
        return out

    def test_planted_calls(self):
        calls = [f"{prefix}{name}" for name in sorted(self.border.table)
                 for prefix in ("", "tenon_reference_", "acme_")]
        functions = sorted(tree.provider_functions(BUILD) - self.border.table)
        self.assertTrue(functions)
        calls += [functions[0], functions[-1], "reference_exp", "reference_qmatmul_run",
                  "border_operate", "loader_create", "cuInit", "vkCreateInstance", "dlopen", "dlsym",
                  "pcre2_match_8", "gguf_open", "nobody_knows_this"]
        for name in ("border_operate", "loader_create", "reference_exp"):
            self.assertIn(name, self.border.behind, "gone: plant another one")
        text = "".join(f"extern int {name}(void);\n" for name in calls)
        text += "int planted(void);\nint planted(void)\n{\n    return "
        text += " + ".join(f"{name}()" for name in calls) + ";\n}\n"
        self.assertEqual([], self.border.faults(self.compiled("llama.c", ""), "llama.c"))
        wrong = self.border.faults(self.compiled("llama.c", text), "llama.c")
        for name in calls:
            self.assertEqual(1, sum(re.search(rf"\b{name}\b", line) is not None for line in wrong),
                             name)
        self.assertEqual(len(calls), len(wrong), wrong)

    def test_one_planted_call(self):
        """One call in the place where it would be tempting: a product past the host."""
        text = ("#include <tenon/provider.h>\nextern const tenon_qmatmul_v1 "
                "tenon_reference_qmatmul_v1;\nint32_t planted(const tenon_qmatmul_call *call);\n"
                "int32_t planted(const tenon_qmatmul_call *call)\n{\n    return "
                "tenon_reference_qmatmul_v1.run(NULL, NULL, call, NULL);\n}\n")
        self.assertEqual([], self.border.faults(self.compiled("step.c", ""), "step.c"))
        wrong = self.border.faults(self.compiled("step.c", text), "step.c")
        self.assertEqual(1, len(wrong), wrong)
        self.assertIn("tenon_reference_qmatmul_v1", wrong[0])


def main():
    suite = unittest.TestSuite(
        unittest.defaultTestLoader.loadTestsFromTestCase(case) for case in (Sources, Objects))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=1).run(suite)
    failed = len({case.id().split(" (")[0] for case, _ in result.failures + result.errors})
    for case, why in result.skipped:
        print(f"SKIP: {case.id()}: {why}")
    passed = result.testsRun - failed - len(result.skipped)
    print(f"{passed} passed, {failed} failed, {len(result.skipped)} skipped")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
