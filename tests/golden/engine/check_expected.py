#!/usr/bin/env python3
"""tenon run against what an independent implementation in binary64 says (expected-*.json).

    check_expected.py TENON PROVIDER_FOLDER

Models are named by TENON_MODEL_SMOLLM2 (SmolLM2-135M-Instruct Q4_1) and TENON_MODEL_GEMMA3 (Gemma 3
270M Q4_K_M); a missing one is skipped and said. For every prompt and class of arithmetic, greedy
tokens must be the expected ones as long as binary64 puts the best logit further ahead of the second
than the class may lose on that model (README.md says how that was measured); behind a closer call the
rest of that prompt is another story and not compared. What the class loses is measured again here and
must not have grown. Logits: cosine at least 0.99999 in class F32 with a cache of f32, 0.995 in class A8.
The last line is "N passed, N failed, N skipped".
"""
import array
import heapq
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
# the lead of the best logit over one of its nearest that the class may lose, by model: measured,
# rounded up; and the cosine that logits must reach
LOSES = {"f32": {"smollm2": 0.0005, "gemma3": 0.0005}, "a8": {"smollm2": 0.94, "gemma3": 0.87}}
COSINES = {"f32": 0.99999, "a8": 0.995}
NEAREST = 10


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
    """The rows of a .npy file of float32; no package needed."""
    data = pathlib.Path(path).read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00"
    size = struct.unpack("<H", data[8:10])[0]
    header = eval(data[10:10 + size], {"__builtins__": {}})  # a literal of a dict
    assert header["descr"] == "<f4" and header["shape"][1] == vocabulary, header
    body = data[10 + size:]
    assert len(body) == 4 * header["shape"][0] * vocabulary
    rows = []
    for i in range(header["shape"][0]):
        row = array.array("f")
        row.frombytes(body[4 * vocabulary * i:4 * vocabulary * (i + 1)])
        rows.append(row)
    return rows


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b))
    return dot / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5


def ids_text(ids):
    return ",".join(map(str, ids))


def lost(right, row):
    """How much of the lead of right's best logit over one of its nearest is gone in row."""
    limit = heapq.nlargest(NEAREST, right)[-1]
    best = right.index(max(right))
    return max((row[i] - row[best]) - (value - right[best])
               for i, value in enumerate(right) if value >= limit)


class Expected(unittest.TestCase):
    def answer(self, name, arith, entry):
        """The tokens and rows of a prompt, against those of binary64. Returns the rows as far as the
        tokens that led to them are the expected ones."""
        want, said = expected(name), (name, arith, ids_text(entry["prompt"])[:60])
        with tempfile.TemporaryDirectory() as folder:
            rows_path = os.path.join(folder, "rows.npy")
            got = run(model_path(name), "--tokens", ids_text(entry["prompt"]), "-n",
                      str(want["steps"]), "--ignore-eos", "--arith", arith, "--kv", "f32",
                      "--provider", "cpu", "--logits", rows_path)
            rows = read_rows(rows_path, want["vocabulary"])
        self.assertEqual(got["prompt_tokens"], entry["prompt"])
        self.assertEqual(len(got["tokens"]), want["steps"])
        self.assertEqual(len(rows), want["steps"])
        for step, token in enumerate(entry["tokens"]):
            self.assertEqual(rows[step].index(max(rows[step])), got["tokens"][step])
            if step in (0, want["steps"] - 1):
                sample = entry["sampled"][0 if step == 0 else 1]
                here = rows[step][::want["every"]]
                self.assertGreaterEqual(cosine(here, sample), COSINES[arith], (said, step))
                if arith == "f32":  # two logits, each off by this much
                    off = 2 * max(abs(a - b) for a, b in zip(here, sample))
                    self.assertLess(off, LOSES[arith][name], (said, step))
            if got["tokens"][step] != token:
                self.assertLess(entry["ahead"][step], LOSES[arith][name], (said, step))
                return rows[:step + 1]
        return rows

    def compare(self, name):
        prompts, compared, most = expected(name)["prompts"], {"f32": 0, "a8": 0}, 0.0
        steps, every = expected(name)["steps"], expected(name)["every"]
        for entry in prompts:
            # class F32 stands for binary64 where that kept only samples; it was just held to it
            right, rows = (self.answer(name, arith, entry) for arith in ("f32", "a8"))
            both = list(zip(right, rows))
            most = max([most] + [lost(*pair) for pair in both])
            close = cosine([x for pair in both for x in pair[0][::every]],
                           [x for pair in both for x in pair[1][::every]])
            self.assertGreaterEqual(close, COSINES["a8"], (name, ids_text(entry["prompt"])[:60]))
            compared["f32"] += len(right)
            compared["a8"] += len(rows)
        self.assertLessEqual(most, LOSES["a8"][name], "class A8 loses more than it did")
        for arith, count in compared.items():
            self.assertGreater(count, len(prompts) * steps // 2)
            print(f"{name} {arith}: {count} of {len(prompts) * steps} tokens compared")
        print(f"{name} a8: a lead of {most:.4f} lost at most")

    def test_smollm2(self):
        self.compare("smollm2")

    def test_gemma3(self):
        self.compare("gemma3")

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
