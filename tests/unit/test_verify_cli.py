"""tenon verify from outside: exit codes, one JSON document, seeds that replay.

usage: test_verify_cli.py TENON PROVIDER_FOLDER [MODEL.gguf]
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

TENON, PROVIDERS, FIXTURES, MODEL = "", "", "", ""
SMALL = "exact/qmatmul/Q4_0/a8/cols=64*"


def run(*words, **more):
    """The exit code, what stood on stdout, what stood on stderr."""
    done = subprocess.run([TENON, "verify", *words], capture_output=True, timeout=300, **more)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def verify(*words):
    return run("--provider-dir", PROVIDERS, *words)


class Verify(unittest.TestCase):
    def test_a_small_run_is_good(self):
        code, out, err = verify("cpu", "--filter", SMALL)
        self.assertEqual(code, 0, out + err)
        self.assertIn("good", out)
        self.assertIn("0 failed", out)

    def test_reference_verifies_itself(self):
        code, out, err = verify("reference", "--filter", "exact/qmatmul/Q8_0/f32/cols=32")
        self.assertEqual(code, 0, out + err)
        code, out, err = verify("reference", "--stage", "abi", "--json")
        self.assertEqual(code, 0, out + err)
        # all of its operations; it has no buffers
        self.assertGreater(json.loads(out)["cases"]["passed"], 30)

    def test_stages_static_and_abi(self):
        for stage, least in (("static", 3), ("abi", 8)):
            code, out, err = verify("cpu", "--stage", stage, "--json")
            self.assertEqual(code, 0, out + err)
            document = json.loads(out)
            self.assertGreaterEqual(document["cases"]["passed"], least)
            self.assertEqual({row["stage"] for row in document["stages"]}, {stage})

    def test_json_shape(self):
        code, out, err = verify("cpu", "--filter", SMALL, "--json")
        self.assertEqual(code, 0, out + err)
        document = json.loads(out)
        self.assertEqual(document["schema"], 1)
        self.assertEqual(document["provider"], "cpu")
        cases = document["cases"]
        self.assertEqual(set(cases), {"run", "passed", "failed", "skipped", "unsupported", "xfail"})
        self.assertEqual(cases["run"], cases["passed"] + cases["failed"] + cases["xfail"])
        self.assertGreater(cases["run"], 0)
        self.assertEqual(document["failures"], [])
        self.assertGreater(document["requests"], 0)

    def test_every_level_is_a_case(self):
        code, out, _ = verify("cpu", "--filter", SMALL, "--json")
        self.assertEqual(code, 0)
        levels = {row["level"] for row in json.loads(out)["stages"] if row["stage"] == "exact"}
        self.assertIn("portable", levels)

    def test_one_level(self):
        code, out, err = verify("cpu", "--filter", SMALL, "--level", "portable", "--json")
        self.assertEqual(code, 0, err)
        rows = [row for row in json.loads(out)["stages"] if row["stage"] == "exact"]
        self.assertEqual([row["level"] for row in rows], ["portable"])

    def test_unknown_level_is_missing(self):
        code, out, err = verify("cpu", "--level", "sse9")
        self.assertEqual((code, out), (2, ""), err)
        self.assertIn("sse9", err)

    def test_unknown_filter_is_usage(self):
        code, out, err = verify("cpu", "--filter", "exact/nothing/*")
        self.assertEqual((code, out), (64, ""), err)
        self.assertIn("matches no case", err)

    def test_unknown_options_are_usage(self):
        for words in (("--stage", "none"), ("--seed", "x"), ("--nonsense",), ("cpu", "cpu"),
                      ("--stage", "abi", "--model", "x.gguf")):
            code, out, err = verify(*words)
            self.assertEqual((code, out), (64, ""), err)

    def test_unknown_provider_is_missing(self):
        code, out, err = verify("nosuch")
        self.assertEqual((code, out), (2, ""), err)
        self.assertIn("nosuch", err)
        code, out, err = verify("nosuch", "--json")
        self.assertEqual(code, 2, err)
        self.assertIn("nosuch", json.loads(out)["error"])

    def test_a_bad_file_is_refused_before_its_first_case(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tenon-bad.so")
            with open(path, "wb") as file:
                file.write(b"\x7fELF but not really")
            os.chmod(path, 0o644)
            code, out, err = run(path)
            self.assertEqual((code, out), (2, ""), err)
            self.assertIn("refused", err)
            self.assertIn(path, err)
            self.assertEqual(len(err.strip().splitlines()), 1, err)
            code, out, err = run(os.path.join(folder, "tenon-none.so"))
            self.assertEqual((code, out), (2, ""), err)

    def test_a_bad_model_is_refused(self):
        with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
            file.write(b"GGUF")
            file.flush()
            code, out, err = verify("cpu", "--model", file.name)
            self.assertEqual((code, out), (2, ""), err)
        code, _, err = verify("cpu", "--model", "/nonexistent.gguf")
        self.assertEqual(code, 2, err)

    def test_declared_failure_that_passes_is_a_failure(self):
        code, out, _ = verify("cpu", "--filter", SMALL, "--level", "portable", "--xfail", "*Q4_0*",
                              "--json", "--seed", "7")
        self.assertEqual(code, 1)
        failure = json.loads(out)["failures"][0]
        self.assertEqual(failure["seed"], 7)
        self.assertIn("cols=64", failure["case"])
        self.assertIn("passes", failure["detail"])

    def fixture(self, name, *folders):
        path = os.path.join(FIXTURES, *folders, f"tenon-{name}.so")
        if not os.path.exists(path):
            self.skipTest("the broken providers were not built")
        return path

    def test_broken_providers(self):
        for name, wanted, words in (("declines_all", 1, "declines everything"),
                                    ("late_wrong_bit", 1, "want 0x"),
                                    ("late_writes_past_y", 1, "wrote outside of y"),
                                    ("late_nonsense_status", 1, "status 42"),
                                    ("stale_weight", 1, "reused-memory"),
                                    ("driver_too_old", 3, "535"),
                                    ("no_device", 3, "no usable device"),
                                    ("wrong_bit", 2, "refused"),
                                    ("old_qmatmul", 2, "qmatmul_v0"),
                                    ("good", 0, "good")):
            code, out, err = run(self.fixture(name), "--filter", "exact/qmatmul/Q4_0/a8/*")
            self.assertEqual(code, wanted, (name, out, err))
            self.assertIn(words, out + err, name)

    def test_a_provider_that_prints_spoils_nothing(self):
        code, out, err = run(self.fixture("prints"), "--filter", SMALL, "--json")
        self.assertEqual(code, 0, err)
        self.assertEqual(json.loads(out)["cases"]["passed"], 1)
        code, out, err = run(self.fixture("prints"), "--stage", "abi", "--json")
        self.assertEqual(code, 1, err)
        self.assertIn("prints", json.loads(out)["failures"][0]["detail"])

    def test_a_provider_with_buffers(self):
        code, out, err = run(self.fixture("async", "operations"), "--stage", "abi", "--json")
        self.assertEqual(code, 0, out + err)
        cases = json.loads(out)["cases"]
        self.assertGreater(cases["passed"], 36)
        self.assertEqual((cases["failed"], cases["skipped"]), (0, 0))

    def test_a_saved_failure_repeats(self):
        with tempfile.TemporaryDirectory() as folder:
            code, out, _ = run(self.fixture("ignores_groups"), "--json", "--filter",
                               "exact/qmatmul/int4-group-g48/f32/cols=300", "--save",
                               os.path.join(folder, "saved"))
            self.assertEqual(code, 1, out)
            line = json.loads(out)["failures"][0]["repeat"]
            path = {**os.environ, "PATH": os.path.dirname(TENON) + ":" + os.environ["PATH"]}
            again = subprocess.run(["sh", "-c", line], env=path, capture_output=True, timeout=60)
            self.assertEqual(again.returncode, 1, again)
            self.assertIn(b"differ", again.stdout + again.stderr)
            right = line.replace("--provider ignores_groups:0", "--provider reference")
            self.assertNotEqual(line, right)
            again = subprocess.run(["sh", "-c", right], env=path, capture_output=True, timeout=60)
            self.assertEqual(again.returncode, 0, again)

    def test_a_seed_replays(self):
        words = (self.fixture("ignores_groups"), "--json", "--filter",
                 "exact/qmatmul/int4-group-g32/f32/cols=96")
        first, again, other = (json.loads(run(*words, "--seed", seed)[1])["failures"]
                               for seed in ("5", "5", "6"))
        self.assertEqual(first, again)
        self.assertEqual(first[0]["seed"], 5)
        self.assertNotEqual(first[0]["detail"], other[0]["detail"])

    def test_model(self):
        if not MODEL:
            self.skipTest("no model given")
        code, out, err = verify("cpu", "--model", MODEL, "--json", "--level", "portable")
        self.assertEqual(code, 0, out + err)
        self.assertGreater(json.loads(out)["cases"]["run"], 0)




if __name__ == "__main__":
    TENON, PROVIDERS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    FIXTURES = os.path.join(PROVIDERS, "..", "tests", "providers")
    MODEL = sys.argv[3] if len(sys.argv) > 3 else ""
    tests = unittest.defaultTestLoader.loadTestsFromTestCase(Verify)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=1).run(tests)
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(0 if result.wasSuccessful() and result.testsRun > 0 else 1)
