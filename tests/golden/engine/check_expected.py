#!/usr/bin/env python3
"""tenon run against what an independent implementation in binary64 says (expected-*.json).

    check_expected.py TENON PROVIDER_FOLDER

Models are named by TENON_MODEL_SMOLLM2 (SmolLM2-135M-Instruct Q4_1) and TENON_MODEL_GEMMA3 (Gemma 3
270M Q4_K_M); a missing one is skipped and said. For every prompt, greedy tokens must be the expected ones as
long as binary64 puts the best logit further ahead of the second than the class of arithmetic can
err; behind a closer call the rest of that prompt is another story and not compared. Logits: cosine
at least 0.99999 in class F32 with a cache of f32, 0.995 in class A8. The last line is
"N passed, N failed, N skipped".
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

TENON, PROVIDERS = (sys.argv + [""] * 2)[1:3]
HERE = pathlib.Path(__file__).parent
MODELS = {"smollm2": "TENON_MODEL_SMOLLM2", "gemma3": "TENON_MODEL_GEMMA3"}
# lead of the best logit that the class may lose, and the cosine it must reach
CLASSES = {"f32": (0.01, 0.99999), "a8": (1.5, 0.995)}
LONG = os.environ.get("TENON_LONG")


def model_path(name):
    path = os.environ.get(MODELS[name])
    if not path or not os.path.exists(path):
        raise unittest.SkipTest(f"{MODELS[name]} names no file")
    return path


def expected(name):
    return json.loads((HERE / f"expected-{name}.json").read_text())


def run(path, *words):
    done = subprocess.run([TENON, "run", path, "--provider-dir", PROVIDERS, "--json", *words],
                          capture_output=True, timeout=600)
    assert done.returncode == 0, (words, done.stderr.decode())
    return json.loads(done.stdout)


def read_rows(path, vocabulary):
    """The rows of a .npy file of float32 as tuples; no package needed."""
    data = pathlib.Path(path).read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00"
    size = struct.unpack("<H", data[8:10])[0]
    header = eval(data[10:10 + size], {"__builtins__": {}})  # a literal of a dict
    assert header["descr"] == "<f4" and header["shape"][1] == vocabulary, header
    body = data[10 + size:]
    assert len(body) == 4 * header["shape"][0] * vocabulary
    return [struct.unpack_from(f"<{vocabulary}f", body, 4 * vocabulary * i)
            for i in range(header["shape"][0])]


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b))
    return dot / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5


def ids_text(ids):
    return ",".join(map(str, ids))


class Expected(unittest.TestCase):
    def compare(self, name, arith):
        path, want = model_path(name), expected(name)
        lead, floor = CLASSES[arith]
        compared = 0
        prompts = want["prompts"] if LONG else want["prompts"][:-1]
        for entry in prompts:
            with tempfile.TemporaryDirectory() as folder:
                rows_path = os.path.join(folder, "rows.npy")
                got = run(path, "--tokens", ids_text(entry["prompt"]), "-n", str(want["steps"]),
                          "--ignore-eos", "--arith", arith, "--kv", "f32", "--provider", "cpu",
                          "--logits", rows_path)
                rows = read_rows(rows_path, want["vocabulary"])
            self.assertEqual(got["prompt_tokens"], entry["prompt"])
            self.assertEqual(len(got["tokens"]), want["steps"])
            self.assertEqual(len(rows), want["steps"])
            for step, token in enumerate(entry["tokens"]):
                self.assertEqual(rows[step].index(max(rows[step])), got["tokens"][step])
                if step in (0, want["steps"] - 1):
                    sample = entry["sampled"][0 if step == 0 else 1]
                    self.assertGreaterEqual(cosine(rows[step][::want["every"]], sample), floor,
                                            (name, arith, ids_text(entry["prompt"])[:60], step))
                if got["tokens"][step] != token:
                    self.assertLess(entry["ahead"][step], lead,
                                    (name, arith, ids_text(entry["prompt"])[:60], step))
                    break
                compared += 1
        self.assertGreater(compared, len(prompts) * want["steps"] // 2)
        print(f"{name} {arith}: {compared} of {len(prompts) * want['steps']} tokens compared")

    def test_smollm2_f32(self):
        self.compare("smollm2", "f32")

    def test_smollm2_a8(self):
        self.compare("smollm2", "a8")

    def test_gemma3_f32(self):
        self.compare("gemma3", "f32")

    def test_gemma3_a8(self):
        self.compare("gemma3", "a8")

    def same_tokens(self, name):
        """The cut of the prompt, threads and levels change no bit."""
        path, want = model_path(name), expected(name)
        ids = ids_text(want["prompts"][17]["prompt"])
        for arith in ("f32", "a8"):
            answers = {}
            variants = [["--batch", size] for size in ("1", "7", "64", "512")]
            variants += [["--threads", "1"], ["--threads", "3"], ["--level", "portable"]]
            for words in variants:
                with tempfile.TemporaryDirectory() as folder:
                    rows_path = os.path.join(folder, "rows.npy")
                    got = run(path, "--tokens", ids, "-n", "4", "--arith", arith, "--provider",
                              "cpu", "--ignore-eos", "--logits", rows_path, *words)
                    rows = pathlib.Path(rows_path).read_bytes()
                answers[" ".join(words)] = (got["tokens"], rows)
            first = answers["--batch 1"]
            for words, answer in answers.items():
                self.assertEqual(answer[0], first[0], (name, arith, words))
                self.assertTrue(answer[1] == first[1], (name, arith, words, "logits differ"))

    def test_smollm2_same(self):
        self.same_tokens("smollm2")

    def test_gemma3_same(self):
        self.same_tokens("gemma3")


if __name__ == "__main__":
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Expected)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=1).run(suite)
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    for _, why in result.skipped:
        print("SKIP:", why)
    print(f"{result.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(0 if result.wasSuccessful() and result.testsRun > 0 else 1)
