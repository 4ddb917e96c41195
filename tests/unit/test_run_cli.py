#!/usr/bin/env python3
"""tenon run and tenon perplexity from outside, on small models that are made here.

Usage: test_run_cli.py TENON PROVIDER_FOLDER
What the engine computes is compared with plain Python floats (tiny_models.py); the rest is words of
the command line, the document, and what a wrong file is told. The last line printed is "N passed,
N failed, N skipped". Needs the standard library alone.
"""
import json
import math
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import unittest


from tiny_models import Tiny

TENON, PROVIDERS = (sys.argv + ["", ""])[1:3]
GOOD, FAILED, REFUSED, USAGE = 0, 1, 2, 64
LIMIT = 120


def environment():
    return {k: v for k, v in os.environ.items() if not k.startswith("TENON_")}


def call(command, *words, code=GOOD, data=b""):
    done = subprocess.run([TENON, command, *map(os.fspath, words), "--provider-dir", PROVIDERS],
                          input=data, capture_output=True, timeout=LIMIT, env=environment())
    assert done.returncode == code, (words, done.returncode, done.stdout[-500:], done.stderr[-2000:])
    done.said = done.stderr.decode("utf-8", "replace")
    return done


def run(*words, **more):
    return call("run", *words, **more)


def document(*words, command="run"):
    value = json.loads(call(command, *words, "--json").stdout)
    assert value["schema"] == 1
    return value


def ids_text(ids):
    return ",".join(map(str, ids))


def rows_of(path):
    """The rows of a .npy file of float32."""
    data = pathlib.Path(path).read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00" and len(data) >= 128
    size = struct.unpack("<H", data[8:10])[0]
    header = data[10:10 + size].decode()
    assert "'descr': '<f4'" in header and "'fortran_order': False" in header
    steps, width = map(int, header.split("(")[1].split(")")[0].split(","))
    body = data[10 + size:]
    assert len(body) == 4 * steps * width
    return [struct.unpack_from(f"<{width}f", body, 4 * width * i) for i in range(steps)]


PROMPT = [1, 262, 263, 270, 259, 40, 41, 42, 280, 281, 3, 4, 5]


class Base(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory(prefix="tenon run ö ")
        self.folder = pathlib.Path(self.place.name)
        self.addCleanup(self.place.cleanup)

    def write(self, tiny, name="model.gguf"):
        return tiny.write(self.folder / name)

    def logits(self, path, *words, tokens=PROMPT, count=3):
        out = self.folder / "rows.npy"
        got = document(path, "--tokens", ids_text(tokens), "-n", str(count), "--ignore-eos",
                       "--logits", out, *words)
        rows = rows_of(out)
        assert len(rows) == count and len(got["tokens"]) == count
        return got, rows, out.read_bytes()


class Numbers(Base):
    def agrees(self, tiny):
        path = self.write(tiny)
        got, rows, _ = self.logits(path, "--kv", "f32", "--provider", "cpu")
        expected = tiny.logits(PROMPT + got["tokens"][:-1])[-3:]
        for row, want, token in zip(rows, expected, got["tokens"]):
            self.assertEqual(row.index(max(row)), token)
            scale = max(map(abs, want))
            for a, b in zip(row, want):
                self.assertLess(abs(a - b), 2e-5 * scale)

    def test_llama(self):
        self.agrees(Tiny("llama"))

    def test_llama_separate_output(self):
        self.agrees(Tiny("llama", tied=False))

    def test_llama_one_layer_many_groups(self):
        self.agrees(Tiny("llama", layers=1, heads=6, kv_heads=1, head=8))

    def test_llama_head_size_of_its_own(self):
        self.agrees(Tiny("llama", heads=3, kv_heads=3, head=16))

    def test_llama_linear_scaling(self):
        tiny = Tiny("llama")
        tiny.keys["llama.rope.scaling.type"] = "linear"
        tiny.keys["llama.rope.scaling.factor"] = 4.0
        self.agrees(tiny)

    def test_llama_rope_factors_and_part_rotation(self):
        tiny = Tiny("llama")
        tiny.keys["llama.rope.dimension_count"] = 6
        tiny.vector("rope_freqs.weight", 3, 1.0, 8.0)
        self.agrees(tiny)

    def test_gemma3(self):
        self.agrees(Tiny("gemma3", layers=7, heads=2, kv_heads=1, head=16))

    def test_gemma3_scaled(self):
        tiny = Tiny("gemma3", layers=6, heads=4, kv_heads=2, head=16, window=3)
        tiny.keys["gemma3.rope.scaling.type"] = "linear"
        tiny.keys["gemma3.rope.scaling.factor"] = 8.0
        self.agrees(tiny)


class Same(Base):
    """What may not change a bit."""

    def test_batches_threads_levels_links(self):
        for tiny in (Tiny("llama"), Tiny("gemma3", layers=6)):
            path = self.write(tiny)
            for arith in ("f32", "a8"):
                first = None
                for words in (["--batch", "1"], ["--batch", "2"], ["--batch", "7"],
                              ["--batch", "512"], ["--threads", "1"], ["--threads", "4"],
                              ["--level", "portable"], ["--provider", "reference"],
                              ["--provider", "reference", "--mode", "pin"]):
                    _, _, rows = self.logits(path, "--arith", arith, *words)
                    first = first or rows
                    self.assertTrue(rows == first, words)

    def test_shifting_context(self):
        path = self.write(Tiny("gemma3", layers=6))
        first = None
        for words in (["--batch", "1"], ["--batch", "5"], ["--provider", "reference"]):
            got, _, rows = self.logits(path, "--ctx", "16", *words, count=40)
            first = first or (got["tokens"], rows)
            self.assertEqual(got["tokens"], first[0])
            self.assertTrue(rows == first[1], words)

    def test_room_changes_nothing(self):
        path = self.write(Tiny("llama"))
        answers = [self.logits(path, "--ctx", size)[2] for size in ("16", "17", "512")]
        answers.append(self.logits(path)[2])
        self.assertEqual(len(set(answers)), 1)

    def test_seed(self):
        path = self.write(Tiny("llama"))
        draw = ["--tokens", "1,262", "-n", "24", "--ignore-eos", "--temp", "1.5"]
        seeds = [document(path, *draw, "--seed", str(seed))["tokens"] for seed in (0, 1, 2, 1)]
        self.assertEqual(seeds[1], seeds[3])
        self.assertNotEqual(seeds[0], seeds[1])
        self.assertNotEqual(seeds[1], seeds[2])

    def test_filters_that_leave_one(self):
        path = self.write(Tiny("llama"))
        words = ["--tokens", "1,262", "-n", "12", "--ignore-eos"]
        greedy = document(path, *words)["tokens"]
        self.assertEqual(document(path, *words, "--temp", "0")["tokens"], greedy)
        for one in (["--top-k", "1"], ["--top-p", "0"], ["--min-p", "1"]):
            self.assertEqual(document(path, *words, "--temp", "2", *one)["tokens"], greedy, one)

    def test_penalty(self):
        path = self.write(Tiny("llama"))
        words = ["--tokens", "1,262", "-n", "24", "--ignore-eos", "--repeat-penalty", "1000"]
        tokens = document(path, *words)["tokens"]
        self.assertEqual(len(set(tokens)), len(tokens), "a heavy penalty, and yet a token twice")


class Document(Base):
    def test_shape(self):
        path = self.write(Tiny("llama"))
        got = document(path, "-p", "abc", "-n", "4", "--ignore-eos")
        self.assertEqual(set(got), {"schema", "prompt_tokens", "tokens", "text", "stop", "timings",
                                    "memory", "operations"})
        self.assertEqual(set(got["timings"]),
                         {"load_ms", "first_token_ms", "prefill_tps", "decode_tps"})
        self.assertEqual(set(got["memory"]), {"file", "packed", "kv", "peak_resident"})
        self.assertEqual(got["prompt_tokens"], [1, 259, 260, 261])
        self.assertEqual((len(got["tokens"]), got["stop"]), (4, "length"))
        self.assertEqual(got["memory"]["file"], os.path.getsize(path))
        names = {entry["name"] for entry in got["operations"]}
        self.assertEqual(names, {"qmatmul", "embed", "rmsnorm", "attention", "gated", "add",
                                 "argmax"})
        for entry in got["operations"]:
            self.assertEqual(set(entry), {"name", "provider", "calls", "fallbacks"})

    def test_end_token(self):
        tiny = Tiny("llama", layers=1)
        shape, values = tiny.tensors["token_embd.weight"]
        path = self.write(tiny)
        first = document(path, "--tokens", "1,262", "-n", "1", "--ignore-eos")["tokens"][0]
        tiny.keys["tokenizer.ggml.eos_token_id"] = first
        path = self.write(tiny)
        got = document(path, "--tokens", "1,262", "-n", "8")
        self.assertEqual((got["tokens"], got["stop"], got["text"]), ([first], "end", ""))
        got = document(path, "--tokens", "1,262", "-n", "8", "--ignore-eos")
        self.assertEqual((len(got["tokens"]), got["stop"]), (8, "length"))

    def test_text_and_summary(self):
        path = self.write(Tiny("llama"))
        done = run(path, "-p", "abc", "-n", "6", "--ignore-eos", "--provider", "cpu")
        want = document(path, "-p", "abc", "-n", "6", "--ignore-eos", "--provider", "cpu")
        self.assertEqual(done.stdout.decode("utf-8"), want["text"])
        for part in ("load ", "first token", "prefill 4 tokens", "decode 5", "peak resident",
                     "qmatmul", "cpu:0"):
            self.assertIn(part, done.said)
        self.assertEqual(run(path, "-p", "abc", "-n", "1", "--quiet").stderr, b"")

    def test_nothing_wanted(self):
        path = self.write(Tiny("llama"))
        got = document(path, "-p", "abc", "-n", "0")
        self.assertEqual((got["tokens"], got["text"], got["stop"]), ([], "", "length"))

    def test_file(self):
        path = self.write(Tiny("llama"))
        (self.folder / "prompt").write_bytes(b"abc")
        a = document(path, "-f", self.folder / "prompt", "-n", "3")
        b = document(path, "-p", "abc", "-n", "3")
        self.assertEqual((a["prompt_tokens"], a["tokens"]), (b["prompt_tokens"], b["tokens"]))

    def test_trace(self):
        path = self.write(Tiny("llama"))
        out = self.folder / "trace.json"
        got = document(path, "--tokens", "1,262", "-n", "2", "--ignore-eos", "--trace", out,
                       "--provider", "cpu")
        trace = json.loads(out.read_text())
        events = trace["traceEvents"]
        names = [event["name"] for event in events]
        self.assertEqual(names.count("embed"), 2)
        self.assertEqual(names.count("argmax"), 2)
        self.assertEqual(names.count("append"), 4)
        for event in events:
            self.assertEqual(event["ph"], "X")
            self.assertGreaterEqual(event["dur"], 0)
            self.assertGreater(event["args"]["bytes"], 0)
            self.assertTrue(event["args"]["provider"], event)
        self.assertEqual({event["args"]["provider"] for event in events
                          if event["name"] == "qmatmul"}, {"cpu:0"})
        starts = [event["ts"] for event in events]
        self.assertEqual(starts, sorted(starts))
        self.assertGreater(len(got["operations"]), 0)

    def test_greedy_rows(self):
        path = self.write(Tiny("llama"))
        got, rows, _ = self.logits(path, count=5)
        self.assertEqual([row.index(max(row)) for row in rows], got["tokens"])

    def test_conversation(self):
        tiny = Tiny("llama")
        tiny.keys["tokenizer.chat_template"] = (
            "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}")
        names = tiny.keys["tokenizer.ggml.tokens"]
        names[-2:] = ["<|im_start|>", "<|im_end|>"]
        tiny.keys["tokenizer.ggml.token_type"][-2:] = [3, 3]
        path = self.write(tiny)
        one = run(path, "--chat", "-n", "4", "--ignore-eos", "--quiet", data=b"abc\n")
        self.assertEqual(run(path, "--chat", "-p", "abc", "-n", "4", "--ignore-eos",
                             "--quiet").stdout + b"\n", one.stdout)
        two = run(path, "--chat", "-n", "4", "--ignore-eos", "--quiet", data=b"abc\ndef\n")
        self.assertTrue(two.stdout.startswith(one.stdout))
        self.assertGreater(len(two.stdout), len(one.stdout))
        run(path, "--chat", "-n", "4", "--ctx", "80", "--ignore-eos", data=b"abcdefghijkl\n" * 6)


class Wrong(Base):
    def refused(self, tiny, *parts, code=REFUSED):
        path = self.write(tiny)
        done = run(path, "-p", "abc", "-n", "1", code=code)
        self.assertEqual(done.stdout, b"")
        self.assertEqual(len(done.said.splitlines()), 1 if code == REFUSED else 2, done.said)
        for part in parts:
            self.assertIn(part, done.said)

    def test_numbers(self):
        for key, value, *parts in (
                ("attention.head_count", 0, "is 0", "wanted 1"),
                ("attention.head_count_kv", 0, "is 0", "wanted 1"),
                ("attention.head_count_kv", 3, "does not divide"),
                ("attention.head_count_kv", 8, "is 8", "wanted 1 to 4"),
                ("block_count", 2 ** 31, "2147483648"), ("block_count", 0, "is 0"),
                ("block_count", 3, "blk.2.attn_norm.weight", "missing"),
                ("embedding_length", 33, "does not divide"), ("embedding_length", 0, "is 0"),
                ("feed_forward_length", 0, "is 0"), ("feed_forward_length", 64, "ffn_gate"),
                ("context_length", 0, "is 0"), ("attention.head_count", 5, "does not divide"),
                ("attention.layer_norm_rms_epsilon", math.nan, "is nan"),
                ("attention.layer_norm_rms_epsilon", -1.0, "is -1"),
                ("attention.layer_norm_rms_epsilon", 3, "is a u32", "f32"),
                ("rope.freq_base", 0.0, "is 0"), ("rope.freq_base", math.inf, "is inf"),
                ("rope.dimension_count", 7, "even"), ("rope.dimension_count", 10, "wanted 0 to 8"),
                ("attention.value_length", 4, "wanted the 8 of keys"),
                ("attention.head_count", "4", "is a string", "integer"),
                ("attention.head_count", [4, 4], "array"),
                ("rope.scaling.type", "yarn", "yarn", "linear"), ("expert_count", 8, "expert_count"),
                ("final_logit_softcapping", 30.0, "softcapping")):
            with self.subTest(key=key, value=value):
                tiny = Tiny("llama")
                tiny.keys[f"llama.{key}"] = value
                parts = [part for part in parts]
                if "missing" not in parts and "ffn_gate" not in parts:
                    parts.append(f"llama.{key}" if "divide" not in parts[0] else key.split(".")[0])
                self.refused(tiny, *parts)

    def test_missing_keys(self):
        for key in ("block_count", "embedding_length", "attention.head_count", "context_length",
                    "feed_forward_length", "attention.layer_norm_rms_epsilon"):
            with self.subTest(key=key):
                tiny = Tiny("llama")
                del tiny.keys[f"llama.{key}"]
                self.refused(tiny, f"llama.{key}", "missing")
        tiny = Tiny("llama")
        del tiny.keys["general.architecture"]
        self.refused(tiny, "general.architecture", "missing")
        tiny = Tiny("gemma3", layers=6)
        del tiny.keys["gemma3.attention.sliding_window"]
        self.refused(tiny, "gemma3.attention.sliding_window", "missing")

    def test_other_architecture(self):
        self.refused(Tiny("mamba"), "'mamba'", "llama, gemma3")

    def test_missing_tensors(self):
        for name in Tiny("gemma3", layers=1).tensors:
            with self.subTest(name=name):
                tiny = Tiny("gemma3", layers=1)
                del tiny.tensors[name]
                self.refused(tiny, name, "missing")

    def test_misshapen_tensors(self):
        for name in ("blk.0.attn_q.weight", "blk.1.ffn_down.weight", "token_embd.weight",
                     "blk.0.attn_norm.weight"):
            with self.subTest(name=name):
                tiny = Tiny("llama")
                shape, values = tiny.tensors[name]
                shape[0] *= 2
                values += values
                self.refused(tiny, name, "has shape")
        tiny = Tiny("llama")
        tiny.tensors["blk.0.attn_k.weight"][0].reverse()
        self.refused(tiny, "blk.0.attn_k.weight", "16 x 32", "32 x 16")

    def test_foreign_tensors(self):
        tiny = Tiny("llama")
        tiny.vector("blk.0.attn_q.bias", 32)
        self.refused(tiny, "blk.0.attn_q.bias", "no place")

    def test_vocabulary_larger_than_the_embedding(self):
        tiny = Tiny("llama")
        shape, values = tiny.tensors["token_embd.weight"]
        shape[1] -= 1
        del values[-32:]
        self.refused(tiny, "285", "284")

    def test_norms_that_are_no_numbers(self):
        for bad in (math.nan, math.inf):
            tiny = Tiny("llama")
            tiny.tensors["blk.1.ffn_norm.weight"][1][3] = bad
            self.refused(tiny, "blk.1.ffn_norm.weight", "value 3")
        tiny = Tiny("llama")
        tiny.tensors["rope_freqs.weight"] = ([4], [1.0, 0.0, 1.0, 1.0])
        self.refused(tiny, "rope_freqs.weight", "value 1")

    def test_weights_that_are_no_numbers(self):
        """G16: the answer is no token; the tensor is named."""
        tiny = Tiny("llama")
        tiny.tensors["blk.1.ffn_up.weight"][1][40] = math.nan
        self.refused(tiny, "not finite", "blk.1.ffn_up.weight", code=FAILED)
        tiny = Tiny("llama")
        tiny.tensors["blk.0.attn_v.weight"][1][40] = math.inf
        self.refused(tiny, "not finite", "blk.0.attn_v.weight", code=FAILED)

    def test_files(self):
        path = self.write(Tiny("llama"))
        (self.folder / "text").write_text("no model")
        (self.folder / "empty").write_text("")
        data = path.read_bytes()
        (self.folder / "cut").write_bytes(data[:len(data) // 2])
        for name in ("text", "empty", "cut", "nothing"):
            done = run(self.folder / name, "-p", "a", code=REFUSED)
            self.assertEqual((done.stdout, len(done.said.splitlines())), (b"", 1))
        for words in (["--trace", self.folder / "no" / "t"], ["--logits", self.folder / "no" / "l"],
                      ["--provider", "nosuch"], ["--require-accelerator"]):
            done = run(path, "-p", "a", *words, code=REFUSED)
            self.assertEqual((done.stdout, len(done.said.splitlines())), (b"", 1), done.said)
        done = run(path, "-f", self.folder / "nothing", code=REFUSED)
        self.assertIn("nothing", done.said)
        run(path, "--chat", "-p", "a", code=REFUSED)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()),
                         ["cut", "empty", "model.gguf", "text"], "something was left behind")

    def test_usage(self):
        path = self.write(Tiny("llama"))
        (self.folder / "empty").write_text("")
        for words, part in ((["-p", ""], "empty"), (["-f", self.folder / "empty"], "empty"),
                            ([], "prompt"), (["-p", "a", "--tokens", "1"], "exclude"),
                            (["-p", "a", "-n5"], "unknown option '-n5'"),
                            (["--tokens", "1,,2"], "1,,2"), (["--tokens", "x"], "list of ids"),
                            (["--tokens", "1,285"], "285"), (["--tokens", "4294967296"], "list"),
                            (["-p", "abc", "--ctx", "3"], "4 tokens"), (["-p", "a", "-n", "x"], "x"),
                            (["-p", "a", "--temp", "nan"], "--temp"),
                            (["-p", "a", "--temp", "-1"], "--temp"),
                            (["-p", "a", "--top-p", "2"], "--top-p"),
                            (["-p", "a", "--batch", "0"], "1 to"),
                            (["-p", "a", "--kv", "q8"], "kv"),
                            (["-p", "a", "--mode", "pin"], "--provider"),
                            (["-p", "a", "extra"], "too many"), (["--chat", "--json"], "-p")):
            done = run(path, *words, code=USAGE)
            self.assertIn(part, done.said, words)
            self.assertEqual(len(done.said.splitlines()), 1)
        run("-p", "a", code=USAGE)

    def test_memory(self):
        """A context that no machine holds is refused and not waited for."""
        path = self.write(Tiny("llama"))
        done = subprocess.run(["bash", "-c", 'ulimit -v 2000000; exec "$@"', "-", TENON, "run", path,
                               "-p", "abc", "--ctx", str(2 ** 28), "--provider-dir", PROVIDERS,
                               "--quiet"], capture_output=True, timeout=LIMIT, env=environment())
        self.assertEqual(done.returncode, FAILED, done.stderr)
        self.assertIn(b"memory", done.stderr)

    def test_interrupt(self):
        path = self.write(Tiny("llama"))
        child = subprocess.Popen([TENON, "run", path, "-p", "abc", "-n", "4000000", "--ctx", "64",
                                  "--ignore-eos", "--provider-dir", PROVIDERS],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        try:
            self.assertTrue(child.stdout.read(1), "nothing came")
            child.send_signal(signal.SIGINT)
            _, said = child.communicate(timeout=LIMIT)
        finally:
            child.kill()
        self.assertEqual(child.returncode, GOOD, said)
        self.assertIn(b"interrupted", said)
        self.assertIn(b"qmatmul", said)


class Perplexity(Base):
    def test_rule(self):
        """Against plain Python: chunks, begin tokens, second halves."""
        tiny = Tiny("llama")
        path = self.write(tiny)
        text = "thequickbrownfoxjumpsoverthelazydogandrunsaway"
        (self.folder / "text").write_text(text)
        size = 16
        got = document(path, "-f", self.folder / "text", "--ctx", str(size), "--kv", "f32",
                       "--batch", "5", command="perplexity")
        ids = [1] + [259 + ord(c) - 97 for c in text]
        total, count = 0.0, 0
        for chunk in range(len(ids) // size):
            part = [1] + ids[chunk * size + 1:(chunk + 1) * size]
            rows = tiny.logits(part)
            for i in range(size // 2, size - 1):
                top = max(rows[i])
                total += math.log(sum(math.exp(v - top) for v in rows[i])) + top
                total -= rows[i][part[i + 1]]
                count += 1
        self.assertEqual((got["scored"], got["chunks"]), (count, len(ids) // size))
        self.assertAlmostEqual(got["mean_nll"], total / count, places=4)
        self.assertAlmostEqual(got["perplexity"] / math.exp(total / count), 1.0, places=4)
        line = call("perplexity", path, "-f", self.folder / "text", "--ctx", str(size)).stdout
        self.assertIn(b"perplexity", line)

    def test_wrong(self):
        path = self.write(Tiny("llama"))
        (self.folder / "text").write_text("abc")
        for words, code in (([], USAGE), (["-f", self.folder / "text"], USAGE),
                            (["-f", self.folder / "nothing"], REFUSED)):
            done = call("perplexity", path, *words, code=code)
            self.assertEqual(len(done.said.splitlines()), 1)


if __name__ == "__main__":
    loader = unittest.defaultTestLoader
    suite = unittest.TestSuite(loader.loadTestsFromTestCase(case)
                               for case in (Numbers, Same, Document, Wrong, Perplexity))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=1).run(suite)
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed, "
          f"{len(result.skipped)} skipped")
    sys.exit(0 if result.wasSuccessful() and result.testsRun > 0 else 1)
