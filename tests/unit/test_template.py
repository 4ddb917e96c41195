#!/usr/bin/env python3
"""A provider from outside: the template, copied out of the tree and built with nothing but the
public headers and a C compiler, is found, listed and verified by tools that have never heard of it.

    test_template.py SOURCE_ROOT TENON

TENON is the tool of a build. The last line is "N passed, N failed, N skipped".
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT, TENON = (os.path.abspath(a) for a in sys.argv[1:3])
COMPILERS = [c for c in ("gcc", "clang-19", "clang") if shutil.which(c)][:2]


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


class Template(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="tenon-outside-")
        os.chmod(cls.folder, 0o755)
        for name in ("TENON_PROVIDERS", "TENON_PROVIDER_PATH"):
            os.environ.pop(name, None)
        os.environ["XDG_CACHE_HOME"] = os.path.join(cls.folder, "cache")
        # the headers alone: a folder that holds nothing else of the tree
        shutil.copytree(os.path.join(ROOT, "abi", "tenon"),
                        os.path.join(cls.folder, "include", "tenon"))
        shutil.copytree(os.path.join(ROOT, "providers", "template"),
                        os.path.join(cls.folder, "acme"))
        cls.acme = os.path.join(cls.folder, "acme")
        cls.file = os.path.join(cls.acme, "tenon-acme.so")
        cls.made = run("make", "-C", cls.acme, "INCLUDE=../include", "CC=" + COMPILERS[0])

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def setUp(self):
        self.assertEqual(0, self.made.returncode, self.made.stderr)

    def test_builds_without_warnings(self):
        self.assertEqual("", self.made.stderr)
        for compiler in COMPILERS:
            out = os.path.join(self.folder, "other.so")
            done = run(compiler, "-std=c11", "-shared", "-fPIC", "-fvisibility=hidden",
                       "-ffp-contract=off", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion",
                       "-Wshadow", "-Werror", "-I", os.path.join(self.folder, "include"),
                       "-o", out, os.path.join(self.acme, "acme.c"))
            self.assertEqual(0, done.returncode, done.stderr)

    def test_bare_command_line(self):
        """cc, -I and the file: nothing more is needed."""
        folder = os.path.join(self.folder, "bare")
        os.mkdir(folder)
        done = run(COMPILERS[0], "-shared", "-fPIC", "-ffp-contract=off", "-I",
                   os.path.join(self.folder, "include"), "-o",
                   os.path.join(folder, "tenon-acme.so"), os.path.join(self.acme, "acme.c"))
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual("loaded", self.listed(folder)["status"])

    def listed(self, folder):
        done = run(TENON, "list", "--json", "--provider-dir", folder)
        self.assertEqual(0, done.returncode, done.stderr)
        found = [p for p in json.loads(done.stdout)["providers"]
                 if p["file"] and p["file"].startswith(folder)]
        self.assertEqual(1, len(found), done.stdout)
        return found[0]

    def test_listed(self):
        provider = self.listed(self.acme)
        self.assertEqual("acme", provider["id"])
        self.assertEqual("loaded", provider["status"], provider)
        self.assertEqual("Acme starter", provider["devices"][0]["name"])

    def test_inspected(self):
        done = run(TENON, "inspect", self.file)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("acme", done.stdout)

    def verified(self, *options):
        done = run(TENON, "verify", self.file, "--json", *options)
        self.assertEqual(0, done.returncode, done.stdout[-2000:] + done.stderr[-2000:])
        cases = json.loads(done.stdout)["cases"]
        self.assertGreater(cases["passed"], 0)
        self.assertEqual(0, cases["failed"])

    def test_verified_by_the_rules(self):
        self.verified("--stage", "static")
        self.verified("--stage", "abi")

    def test_verified_to_the_bit(self):
        self.verified("--stage", "exact", "--filter", "*Q8_0*")

    def test_one_changed_bit_is_found(self):
        """The same provider with its segments one block longer: other bits, so it must not pass."""
        folder = os.path.join(self.folder, "wrong")
        shutil.copytree(self.acme, folder)
        path = os.path.join(folder, "acme.c")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        changed = text.replace("#define SEGMENT_BLOCKS 8", "#define SEGMENT_BLOCKS 9")
        self.assertNotEqual(text, changed)
        with open(path, "w", encoding="utf-8") as file:
            file.write(changed)
        os.remove(os.path.join(folder, "tenon-acme.so"))
        self.assertEqual(0, run("make", "-C", folder, "INCLUDE=../include").returncode)
        # the probe's small self-test may find it already (2), a case of the suite else (1)
        done = run(TENON, "verify", os.path.join(folder, "tenon-acme.so"), "--stage", "exact",
                   "--filter", "*Q8_0*")
        self.assertIn(done.returncode, (1, 2), done.stdout[-2000:] + done.stderr[-2000:])


def main():
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Template)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=1).run(suite)
    failed, skipped = len(result.failures) + len(result.errors), len(result.skipped)
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 0 if failed == 0 and result.testsRun > skipped else 1


if __name__ == "__main__":
    sys.exit(main())
