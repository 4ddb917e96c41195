#!/usr/bin/env python3
"""tenon op over the whole operations, from outside: bits as exact arithmetic has them, odd requests.

usage: test_op_cli.py TENON GOLDEN_FOLDER
Prints "N passed, N failed, N skipped" last.
"""
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

TENON = ""
operations = None


def floats(values):
    return struct.pack(f"<{len(values)}f", *values)


def rounded(values):
    return list(struct.unpack(f"<{len(values)}f", floats(values)))


def some(count, seed, scale=2.0):
    source = random.Random(seed)
    return rounded([source.gauss(0, scale) for _ in range(count)])


class Op(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tenon-op-")
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def run_op(self, *words, code=0):
        done = subprocess.run([TENON, "op", *map(str, words)], capture_output=True, timeout=120,
                              stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, code, (words, done.stderr))
        return done.stdout.decode(), done.stderr.decode()

    def result(self, kind="f"):
        with open(self.path("y"), "rb") as file:
            data = file.read()
        os.unlink(self.path("y"))
        return list(struct.unpack(f"<{len(data) // 4}{kind}", data))

    def same(self, expected, got):
        self.assertEqual(floats(expected), floats(got))

    def every_way(self, words, expected, kind="f"):
        """The same bits by the reference and by whoever comes first."""
        for chain in (["--provider", "reference", "--mode", "pin"], []):
            out, _ = self.run_op(*words, "--out", self.path("y"), *chain)
            self.assertIn("run by ", out)
            if kind == "f":
                self.same(expected, self.result())
            else:
                self.assertEqual(expected, self.result(kind))

    def test_rmsnorm(self):
        x, w = some(2 * 3 * 20, 1), some(20, 2)
        words = ["rmsnorm", "--tokens", 2, "--groups", 3, "--width", 20, "--eps", "1e-6",
                 "--x", self.write("x", floats(x)), "--w", self.write("w", floats(w))]
        eps = rounded([1e-6])[0]
        expected = []
        for g in range(6):
            expected += operations.rmsnorm(x[g * 20:g * 20 + 20], w, eps)
        self.every_way(words, expected)

    def test_gated(self):
        gate, up = some(2 * 9, 3), some(2 * 9, 4)
        for act, function in (("silu", operations.silu), ("gelu-tanh", operations.gelu_tanh),
                              ("gelu-erf", operations.gelu_erf), ("relu", operations.relu)):
            words = ["gated", "--tokens", 2, "--width", 9, "--act", act,
                     "--gate", self.write("g", floats(gate)), "--up", self.write("u", floats(up))]
            expected = [operations.multiply(function(g), u) for g, u in zip(gate, up)]
            self.every_way(words, expected)

    def test_add(self):
        a, b = some(15, 5), some(15, 6)
        words = ["add", "--tokens", 3, "--width", 5, "--a", self.write("a", floats(a)),
                 "--b", self.write("b", floats(b))]
        self.every_way(words, [operations.add(p, q) for p, q in zip(a, b)])

    def test_argmax(self):
        x = [1, 5, 5, -1] + [math.nan, -math.inf, math.nan, -math.inf] + [math.nan] * 4
        words = ["argmax", "--tokens", 3, "--width", 4, "--x", self.write("x", floats(x))]
        self.every_way(words, [1, 1, 0xFFFFFFFF], "I")

    def test_embed(self):
        weight = some(4 * 6, 7)
        words = ["embed", "--format", "F32", "--rows", 4, "--cols", 6, "--tokens", 3,
                 "--weights", self.write("w", floats(weight)),
                 "--ids", self.write("ids", struct.pack("<3I", 3, 0, 3)), "--scale", "0.3"]
        scale = rounded([0.3])[0]
        expected = [operations.multiply(weight[row * 6 + i], scale)
                    for row in (3, 0, 3) for i in range(6)]
        self.every_way(words, expected)
        self.write("ids", struct.pack("<3I", 0, 4, 0))
        _, said = self.run_op(*words, "--out", self.path("y"), code=1)
        self.assertIn("ids[1] is 4", said)
        self.assertFalse(os.path.exists(self.path("y")))

    def test_attention(self):
        heads, kv_heads, size, positions, tokens, window = 4, 2, 8, 7, 3, 5
        q, k = some(tokens * heads * size, 8), some(positions * kv_heads * size, 9)
        v = some(positions * kv_heads * size, 10)
        scale = rounded([0.35])[0]
        turns = []
        for position in range(positions):
            for i in range(size // 4):
                angle = position * 100.0 ** (-4.0 * i / size)
                turns += rounded([math.cos(angle), math.sin(angle)])
        words = ["attention", "--tokens", tokens, "--positions", positions, "--heads", heads,
                 "--kv-heads", kv_heads, "--head-size", size, "--window", window,
                 "--scale", "0.35", "--q", self.write("q", floats(q)),
                 "--k", self.write("k", floats(k)), "--v", self.write("v", floats(v))]
        table = self.write("t", floats(turns))
        for rope, rotary in (("none", 0), ("halves", size // 2), ("adjacent", size // 2)):
            for kind in ("f32", "f16"):
                more = ["--kv", kind]
                if rope != "none":
                    more += ["--rope", rope, "--rotary", rotary, "--table", table]
                pairs = [[(turns[(p * (size // 4) + i) * 2], turns[(p * (size // 4) + i) * 2 + 1])
                          for i in range(rotary // 2)] for p in range(positions)]
                expected = []
                for s in range(tokens):
                    for h in range(heads):
                        g = h // (heads // kv_heads)
                        rows = [slice((t * kv_heads + g) * size, (t * kv_heads + g + 1) * size)
                                for t in range(positions)]
                        at = (s * heads + h) * size
                        expected += operations.attention(
                            q[at:at + size], [k[r] for r in rows], [v[r] for r in rows], scale,
                            positions - tokens + s, window, pairs, rotary, rope == "halves",
                            kind == "f16")
                self.every_way([*words, *more], expected)

    def test_words(self):
        x = self.write("x", floats(some(6, 11)))
        out = ["--out", self.path("y")]
        good = ["add", "--tokens", 2, "--width", 3, "--a", x, "--b", x]
        for missing in ("--tokens", "--width", "--a", "--b"):
            at = good.index(missing)
            _, said = self.run_op(*good[:at], *good[at + 2:], *out, code=64)
            self.assertIn(f"{missing} is missing", said)
        _, said = self.run_op(*good, code=64)
        self.assertIn("--out is missing", said)
        _, said = self.run_op(*good, "--out", x, code=64)
        self.assertIn("--out names the file of --a", said)
        _, said = self.run_op(*good, *out, "--mode", "pin", code=64)
        self.assertIn("--mode pin needs --provider", said)
        good[4] = 4
        _, said = self.run_op(*good, *out, code=2)
        self.assertIn("has 24 bytes, the shape needs exactly 32", said)
        good[4] = 2 ** 63
        _, said = self.run_op(*good, *out, code=64)
        self.assertIn("overflows", said)
        norm = ["rmsnorm", "--tokens", 1, "--width", 6, "--x", x, "--w", x, *out]
        _, said = self.run_op(*norm, "--eps", "small", code=64)
        self.assertIn("is not a number", said)
        _, said = self.run_op(*norm, "--eps", "-1", code=1)
        self.assertIn("eps", said)
        many = ["attention", "--tokens", 2, "--positions", 1, "--heads", 2, "--head-size", 3,
                "--q", x, "--k", x, "--v", x, *out]
        _, said = self.run_op(*many, code=64)
        self.assertIn("more than --positions", said)
        _, said = self.run_op(*many, "--rotary", 2, code=64)
        self.assertIn("need --rope", said)
        _, said = self.run_op(*many, "--rope", "halves", code=64)
        self.assertIn("--table is missing", said)
        self.assertFalse(os.path.exists(self.path("y")))

    def test_json(self):
        x = self.write("x", floats(some(6, 12)))
        out, _ = self.run_op("add", "--tokens", 2, "--width", 3, "--a", x, "--b", x, "--out",
                             self.path("y"), "--provider", "reference", "--json")
        value = json.loads(out)
        self.assertEqual(value["schema"], 1)
        self.assertEqual((value["operation"], value["tokens"], value["width"]), ("add", 2, 3))
        self.assertEqual([(r["provider"], r["calls"]) for r in value["ran"]], [("reference", 1)])
        self.assertEqual(value["others"], [])

    def test_help(self):
        out, _ = self.run_op("--help")
        for name in ("qmatmul", "embed", "rmsnorm", "attention", "gated", "add", "argmax"):
            self.assertIn(f"  {name} ", out)
            told, said = self.run_op(name, "--help")
            self.assertIn("--out", told)
            self.assertEqual(said, "")


def main():
    global TENON, operations
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        print("0 passed, 1 failed, 0 skipped")
        return 1
    TENON = os.path.abspath(sys.argv[1])
    sys.path.insert(0, os.path.abspath(sys.argv[2]))
    operations = __import__("operations")
    done = unittest.TextTestRunner(stream=sys.stderr, verbosity=1).run(
        unittest.defaultTestLoader.loadTestsFromTestCase(Op))
    failed, skipped = len(done.failures) + len(done.errors), len(done.skipped)
    print(f"{done.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 0 if done.wasSuccessful() and done.testsRun > skipped else 1


if __name__ == "__main__":
    sys.exit(main())
