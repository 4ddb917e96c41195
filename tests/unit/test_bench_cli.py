"""tenon bench from outside: the shape of its document and its exit codes, never a time.

usage: test_bench_cli.py TENON PROVIDER_FOLDER [MODEL.gguf]
"""
import json
import subprocess
import sys
import unittest

TENON, PROVIDERS, MODEL = "", "", ""
SHORT = ("--rows", "64", "--cols", "256", "--threads", "1")
KEYS = {"provider", "level", "format", "rows", "cols", "tokens", "threads", "arith", "ns_median",
        "ns_min", "ns_max", "gbps", "gops", "bound", "limit", "ratio"}


def bench(*words):
    done = subprocess.run([TENON, "bench", "--provider-dir", PROVIDERS, *words],
                          capture_output=True, timeout=300)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Bench(unittest.TestCase):
    def points(self, *words):
        code, out, err = bench("--json", *words)
        self.assertEqual(code, 0, out + err)
        document = json.loads(out)
        self.assertEqual(document["schema"], 1)
        for key in ("read_gbps", "int8_gops", "f32_gflops"):
            self.assertGreater(document["calibration"][key], 0)
        for point in document["results"]:
            self.assertLessEqual(KEYS, set(point))
            self.assertLessEqual(point["ns_min"], point["ns_median"])
            self.assertLessEqual(point["ns_median"], point["ns_max"])
            self.assertIn(point["bound"], ("memory", "compute"))
            reached = point["gbps"] if point["bound"] == "memory" else point["gops"]
            self.assertAlmostEqual(point["ratio"], reached / point["limit"], delta=1e-6 + 1e-4)
            operations = 2 * point["rows"] * point["cols"] * point["tokens"]
            self.assertAlmostEqual(point["gops"], operations / point["ns_median"],
                                   delta=1e-3 * point["gops"])
        return document["results"]

    def test_one_point(self):
        point, = self.points("--format", "Q4_0", "--tokens", "1", "--level", "portable", *SHORT)
        self.assertEqual((point["provider"], point["format"], point["level"]),
                         ("cpu", "Q4_0", "portable"))
        self.assertEqual((point["rows"], point["cols"], point["tokens"], point["threads"]),
                         (64, 256, 1, 1))
        self.assertEqual(point["arith"], "a8")
        bytes_ = 64 * 256 // 32 * 18
        self.assertAlmostEqual(point["gbps"], bytes_ / point["ns_median"],
                               delta=1e-3 * point["gbps"])

    def test_lists_give_one_point_each(self):
        points = self.points("--format", "Q4_0,F16", "--tokens", "1,3", "--level", "portable",
                             "--rows", "64", "--cols", "256", "--threads", "1,2", "--arith",
                             "f32,a8", "--hot")
        self.assertEqual(len(points), 16)
        self.assertEqual({point["threads"] for point in points}, {1, 2})
        self.assertEqual({point["arith"] for point in points if point["format"] == "F16"}, {"f32"})

    def test_all_levels(self):
        points = self.points("--format", "Q4_0", "--tokens", "1", "--all-levels", *SHORT)
        self.assertIn("portable", [point["level"] for point in points])

    def test_reference(self):
        point, = self.points("--provider", "reference", "--format", "Q8_0", "--tokens", "1", *SHORT)
        self.assertEqual(point["provider"], "reference")

    def test_separate_scales(self):
        self.points("--format", "int4-group", "--group", "48", "--layout", "planar", "--tokens",
                    "1", *SHORT)

    def test_model(self):
        if not MODEL:
            self.skipTest("no model given")
        points = self.points("--model", MODEL, "--tokens", "1", "--level", "portable")
        shapes = [(point["format"], point["rows"], point["cols"]) for point in points]
        self.assertEqual(len(shapes), len(set(shapes)))

    def test_text(self):
        code, out, err = bench("--format", "Q4_0", "--tokens", "1", *SHORT)
        self.assertEqual(code, 0, err)
        self.assertIn("GB/s", out)
        self.assertIn("min .. max", out)

    def test_dispatch(self):
        code, out, err = bench("--dispatch", "--json")
        self.assertEqual(code, 0, err)
        self.assertGreater(json.loads(out)["dispatch"]["ns_per_call"], 0)
        self.assertEqual(bench("--dispatch")[0], 0)

    def test_usage(self):
        for words in (("--format", "Q9_9"), ("--tokens", "0"), ("--tokens", "1,,2"),
                      ("--threads", "x"), ("--arith", "f64"), ("--provider", "cpu,vulkan"),
                      ("--format", "Q4_0", "--cols", "33"), ("--level", "a", "--all-levels"),
                      ("--model", "x.gguf", "--rows", "3"), ("word",)):
            code, out, err = bench(*words)
            self.assertEqual((code, out), (64, ""), (words, err))
            self.assertEqual(len(err.strip().splitlines()), 1, err)

    def test_missing(self):
        for words in (("--provider", "nosuch"), ("--model", "/nonexistent.gguf"),
                      ("--level", "sse9", "--format", "Q4_0", *SHORT)):
            code, out, err = bench(*words)
            self.assertEqual((code, out), (2, ""), (words, err))
            code, out, err = bench("--json", *words)
            self.assertEqual(code, 2, (words, err))
            self.assertEqual(json.loads(out)["exit"], 2)


if __name__ == "__main__":
    TENON, PROVIDERS = sys.argv[1], sys.argv[2]
    MODEL = sys.argv[3] if len(sys.argv) > 3 else ""
    tests = unittest.defaultTestLoader.loadTestsFromTestCase(Bench)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=1).run(tests)
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(0 if result.wasSuccessful() and result.testsRun > 0 else 1)
