#!/usr/bin/env python3
"""The same tokens from every chain, and a summary that says what happened.

Usage: test_same_tokens.py TENON PROVIDER_FOLDER OPERATION_FIXTURES BROKEN_FIXTURES
Every run of a small model is compared, tokens and bits of the logits, with one on the reference
alone: all operations on one link or spread over several, calls that fail when made, devices that
are full or lost with work in flight. Real models (TENON_MODEL_SMOLLM2, TENON_MODEL_GEMMA3), when
given, are compared by tokens. The last line printed is "N passed, N failed, N skipped".
"""
import hashlib
import itertools
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import unittest

from tiny_models import WORDS, Tiny

TENON, PROVIDERS, FIXTURES, BROKEN = (sys.argv + [""] * 4)[1:5]
GOOD, FAILED, REFUSED = 0, 1, 2
OPERATIONS = ("embed", "rmsnorm", "qmatmul", "attention", "gated", "add", "argmax")
LINE = re.compile(r"^  (\w+) +(\w+):0 (\d+) calls(?:, (\d+) as fallback)?(?:, (\d+) failed \((.*)\))?$",
                  re.M)
FAREWELL = re.compile(r"closed after (\d+) pieces of work, (\d+) waits, (\d+) bytes in, (\d+) out, "
                      r"(\d+) launches")

PLACE = tempfile.TemporaryDirectory(prefix="tenon tokens ö ")
FOLDER = pathlib.Path(PLACE.name)


def prompt(length, seed):
    draw = random.Random(seed)
    return [1] + [draw.randrange(3, WORDS) for _ in range(length - 1)]


SHORT, MIDDLE, LONG = prompt(2, 1), prompt(13, 2), prompt(90, 3)


def environment():
    return {k: v for k, v in os.environ.items() if not k.startswith("TENON_")}


def start(model, chain, *words, settings=(), limit=120):
    """One `tenon run`, with no more providers at hand than the chain names."""
    command = [TENON, "run", model, *map(os.fspath, words)]
    folders = [PROVIDERS]
    for name in (chain or "").split(","):
        for folder in (FIXTURES, BROKEN):
            path = pathlib.Path(folder) / f"tenon-{name.split(':')[0]}.so"
            if name and path.exists():
                folders.append(path)
    for folder in folders:
        command += ["--provider-dir", folder]
    for setting in settings:
        command += ["--set", setting]
    if chain:
        command += ["--provider", chain]
    return subprocess.run(list(map(os.fspath, command)), capture_output=True, timeout=limit,
                          env=environment())


class Run:
    """What a run gave: tokens, a digest of its logits, the summary's counts."""

    def __init__(self, model, chain, ids=None, count=6, words=(), settings=(), logits=True, text=None,
                 limit=120):
        rows = FOLDER / "rows.npy"
        wanted = ["--ignore-eos", "-n", str(count), "-v", *words]
        wanted += ["--tokens", ",".join(map(str, ids))] if ids else ["-p", text]
        if logits:
            wanted += ["--logits", rows]
        else:
            wanted += ["--json"]
        done = start(model, chain, *wanted, settings=settings, limit=limit)
        self.said = done.stderr.decode("utf-8", "replace")
        assert done.returncode == GOOD, (chain, words, settings, done.returncode, self.said[-3000:])
        assert "never given back" not in self.said, self.said
        assert "broke the contract" not in self.said, self.said
        self.calls, self.fallbacks, self.failed = {}, {}, {}
        if logits:
            data = rows.read_bytes()
            self.tokens = [row.index(max(row)) for row in self.rows(data)]
            self.bits = hashlib.sha256(data).hexdigest()
            for name, link, calls, fallbacks, failed, _ in LINE.findall(self.said):
                self.note(name, link, int(calls), int(fallbacks or 0), int(failed or 0))
        else:
            got = json.loads(done.stdout)
            self.tokens, self.bits = got["tokens"], None
            for one in got["operations"]:
                self.note(one["name"], one["provider"], one["calls"], one["fallbacks"], 0)
        assert len(self.tokens) == count
        found = re.search(r"made again (\d+) times", self.said)
        self.replays = int(found.group(1)) if found else 0
        found = FAREWELL.search(self.said)
        self.work, self.waits, self.bytes_in, self.bytes_out, self.launches = (
            map(int, found.groups()) if found else (0, 0, 0, 0, 0))

    @staticmethod
    def rows(data):
        head = 10 + struct.unpack("<H", data[8:10])[0]
        width = int(re.search(rb"\((\d+), (\d+)\)", data[:head]).group(2))
        return [struct.unpack_from(f"<{width}f", data, at)
                for at in range(head, len(data), 4 * width)]

    def note(self, name, link, calls, fallbacks, failed):
        self.calls[name, link], self.fallbacks[name, link] = calls, fallbacks
        self.failed[name, link] = failed

    def total(self, name):
        return sum(calls for (one, _), calls in self.calls.items() if one == name)

    def who(self, name):
        return {link for (one, link), calls in self.calls.items() if one == name and calls > 0}


MODELS = {
    "llama": lambda: Tiny("llama"),
    "gemma3": lambda: Tiny("gemma3", layers=6, heads=2, kv_heads=1, head=16),
    "rounded": lambda: Tiny("llama", ffn=64, quantized=True, tied=False),
    "deep": lambda: Tiny("llama", layers=19),
}
WRITTEN, KNOWN = {}, {}


def model(name):
    if name not in WRITTEN:
        WRITTEN[name] = MODELS[name]().write(FOLDER / f"{name}.gguf")
    return WRITTEN[name]


class Base(unittest.TestCase):
    def right(self, name, ids, count=6, words=()):
        """What the reference gives, once for each question."""
        key = (name, tuple(ids), count, tuple(words))
        if key not in KNOWN:
            KNOWN[key] = Run(model(name), "reference", ids, count, words)
        return KNOWN[key]

    def same(self, name, chain, ids=MIDDLE, count=6, words=(), settings=(), logits=True, asked=()):
        """A run with the same answer; words change nothing, asked is part of the question."""
        with self.subTest(model=name, chain=chain, words=words, settings=settings, asked=asked):
            got = Run(model(name), chain, ids, count, [*asked, *words], settings, logits)
            want = self.right(name, ids, count, asked)
            self.assertEqual(got.tokens, want.tokens)
            if logits:
                self.assertEqual(got.bits, want.bits)
            return got
        return None


class Chains(Base):
    """Who is asked changes nothing, and the summary says who answered."""

    def test_every_chain(self):
        for name, arith in (("llama", "f32"), ("gemma3", "f32"), ("rounded", "f32"),
                            ("rounded", "a8")):
            asked = ("--arith", arith)
            for ids in (SHORT, MIDDLE, LONG):
                self.same(name, "cpu", ids, asked=asked)
                self.same(name, "async", ids, asked=asked, logits=False)
                self.same(name, "only_qmatmul", ids, asked=asked)
            for chain in ("only_qmatmul,cpu", "ops_fail", "ops_full", "async,cpu",
                          "only_qmatmul,async", "ops_fail,async,cpu"):
                self.same(name, chain, LONG, asked=asked)

    def test_the_classes_differ(self):
        """Or the runs in class a8 would prove nothing."""
        a, b = (self.right("rounded", LONG, words=("--arith", arith)) for arith in ("f32", "a8"))
        self.assertNotEqual(a.bits, b.bits)

    def test_who_ran_what(self):
        for chain in ("cpu", "ops_fail", "async", "reference"):
            got = self.same("llama", chain)
            for name in OPERATIONS:
                self.assertEqual(got.who(name), {chain}, name)
            self.assertEqual(sum(got.fallbacks.values()), 0)
            self.assertEqual(got.replays, 0)
        for rest in ("reference", "cpu", "async"):
            got = self.same("llama", "only_qmatmul" if rest == "reference" else
                            f"only_qmatmul,{rest}")
            for name in OPERATIONS:
                who = "only_qmatmul" if name == "qmatmul" else rest
                self.assertEqual(got.who(name), {who}, name)
                if who == rest:
                    self.assertEqual(got.fallbacks[name, rest], got.calls[name, rest])

    def test_buffers_stay_on_the_device(self):
        """Norms and the prompt go in once; of a step nothing comes out but its token."""
        for settings, launches in ((["async.graphs=0"], 0), ([], 36)):
            few, many = (self.same("llama", "async", MIDDLE, count, settings=settings, logits=False)
                         for count in (4, 40))
            self.assertGreater(many.work, few.work + 36 * 20)
            self.assertEqual(many.bytes_in, few.bytes_in)
            self.assertLessEqual(many.bytes_out, few.bytes_out + 36 * 4)
            self.assertLessEqual(many.calls["memory", "async"],
                                 few.calls["memory", "async"] + 36)
            self.assertLessEqual(many.waits, few.waits + 36)  # for the token of each step
            self.assertEqual(many.launches - few.launches, launches)
            self.assertEqual(many.calls.get(("graph", "async"), 0), many.launches)

    def test_steps_as_one_piece(self):
        """Recorded or not, with more contexts than may be recorded, and moving ones."""
        for name in ("llama", "gemma3", "rounded"):
            for graphs in (0, 1):
                self.same(name, "async", count=12, settings=[f"async.graphs={graphs}"])
                self.same(name, "async", count=12, logits=False,
                          settings=[f"async.graphs={graphs}"])
        got = self.same("gemma3", "async", count=40, asked=("--ctx", "16"), logits=False)
        self.assertGreater(got.launches, 20)
        # whoever lacks something of a step gets its calls
        for chain, settings in (("only_qmatmul,async", []), ("async,cpu", ["async.memory=40000"]),
                                ("async,cpu", ["async.buffers=2000"])):
            got = self.same("llama", chain, count=12, settings=settings, logits=False)
            self.assertEqual(got.launches, 0)

    def test_transfers_of_a_mixed_chain(self):
        """Where links take turns, bytes move; without buffers none do and every call waits."""
        got = self.same("llama", "only_qmatmul,async", logits=False)
        self.assertGreater(got.calls["memory", "async"], got.calls["qmatmul", "only_qmatmul"])
        got = self.same("llama", "only_qmatmul,cpu")
        self.assertEqual(got.total("memory"), 0)


class Shapes(Base):
    """Levels, threads and batches change nothing."""

    @staticmethod
    def levels():
        done = subprocess.run([TENON, "list", "--json", "--provider-dir", PROVIDERS],
                              capture_output=True, check=True, timeout=60, env=environment())
        detail = next(p["devices"][0]["detail"] for p in json.loads(done.stdout)["providers"]
                      if p["id"] == "cpu")
        return re.search(r"levels=(\S+)", detail).group(1).split(",")

    def test_levels(self):
        levels = self.levels()
        self.assertIn("portable", levels)
        threads = itertools.cycle("123")
        for arith, level, batch in itertools.product(("f32", "a8"), levels, ("1", "7", "64", "512")):
            self.same("rounded", "cpu", LONG, asked=("--arith", arith),
                      words=["--batch", batch, "--threads", next(threads)],
                      settings=[f"cpu.level={level}"])

    def test_chains(self):
        threads = itertools.cycle("231")
        for chain, batch in itertools.product(("reference", "only_qmatmul", "async", "async,cpu"),
                                              ("1", "7", "64", "512")):
            self.same("gemma3", chain, LONG,
                      words=["--batch", batch, "--threads", next(threads)])

    def test_threads_of_every_level(self):
        for level, threads in itertools.product(self.levels(), "123"):
            self.same("gemma3", "cpu", words=["--threads", threads],
                      settings=[f"cpu.level={level}"])


class Fails(Base):
    """Calls that fail when they are made."""

    def test_every_operation(self):
        clean = self.same("llama", "ops_fail")
        rests = itertools.cycle(("reference", "cpu"))
        for operation, how, at in itertools.product(
                ("embed", "rmsnorm", "qmatmul", "gated", "add", "argmax"), ("clean", "half"),
                (1, 2, 4)):
            rest = next(rests)
            got = self.same("llama", "ops_fail" if rest == "reference" else f"ops_fail,{rest}",
                            settings=[f"ops_fail.operation={operation}", f"ops_fail.at={at}",
                                      f"ops_fail.how={how}"])
            # products are counted by outputs: those of one call fail together
            self.assertIn(got.failed[operation, "ops_fail"],
                          {1, 2, 3} if operation == "qmatmul" else {1})
            self.assertGreaterEqual(got.calls[operation, "ops_fail"], at - 1)
            self.assertGreaterEqual(got.fallbacks[operation, rest], 1)
            self.assertEqual(got.replays, 0)
            for name in OPERATIONS:
                self.assertEqual(got.total(name), clean.total(name), name)
                if name != operation:
                    self.assertEqual(got.who(name), {"ops_fail"}, name)

    def test_a_cache_that_fails_is_made_again(self):
        for operation, how, at in itertools.product(("append", "attention"), ("clean", "half"),
                                                    (1, 2, 7)):
            got = self.same("llama", "ops_fail,cpu",
                            settings=[f"ops_fail.operation={operation}", f"ops_fail.at={at}",
                                      f"ops_fail.how={how}"])
            self.assertEqual(got.replays, 1)
            self.assertIn("attention", {name for name, link in got.calls if link == "cpu"})
            self.assertIn("was told to fail", got.said)

    def test_any_call(self):
        for at, how in itertools.product((1, 11, 23, 60, 111), ("clean", "half")):
            got = self.same("gemma3", "ops_fail", settings=[f"ops_fail.at={at}",
                                                            f"ops_fail.how={how}"])
            self.assertLessEqual(sum(got.failed.values()), 3)
            self.assertGreaterEqual(sum(got.failed.values()) + got.replays, 1)

    def test_again_and_again(self):
        """A link that goes on failing is set aside, said once."""
        got = self.same("llama", "ops_fail,cpu", LONG, words=["--batch", "8"],
                        settings=["ops_fail.operation=qmatmul", "ops_fail.at=3",
                                  "ops_fail.times=1000", "ops_fail.how=half"])
        self.assertEqual(got.said.count("is set aside for this session"), 1)
        self.assertIn("ops_fail:0 was set aside after failures", got.said)
        self.assertEqual(got.calls["qmatmul", "ops_fail"], 3 + 1)  # outputs of two calls
        self.assertGreaterEqual(got.failed["qmatmul", "ops_fail"], 8)
        self.same("gemma3", "ops_fail", settings=["ops_fail.at=1", "ops_fail.times=100000"])

    def test_moving_context(self):
        for at in (300, 700):
            for operation in ("any", "append"):
                self.same("gemma3", "ops_fail", count=30, asked=("--ctx", "16"),
                          settings=[f"ops_fail.operation={operation}", f"ops_fail.at={at // 5}"])


class Full(Base):
    """Devices without room for all of it."""

    def test_layer_17(self):
        """Layers 17 and 18 of 19 run elsewhere: 7 weights each, in every step."""
        count = 6
        for rest in ("reference", "cpu"):
            chain = "ops_full" if rest == "reference" else f"ops_full,{rest}"
            got = self.same("deep", chain, count=count, settings=[f"ops_full.weights={1 + 17 * 7}"])
            self.assertEqual(got.fallbacks["qmatmul", rest], 2 * 7 * count)
            self.assertEqual(got.total("qmatmul"), self.right("deep", MIDDLE).total("qmatmul"))
            self.assertEqual(got.failed["qmatmul", "ops_full"], 14)
            self.assertIn("could not prepare a weight", got.said)
            self.assertIn("the device is full", got.said)
            self.assertEqual(got.who("attention"), {"ops_full"})
            got = self.same("deep", chain, count=count, settings=["ops_full.caches=17"])
            self.assertEqual(got.fallbacks["attention", rest], 2 * count)
            self.assertEqual(got.calls["attention", "ops_full"], 17 * count)
            self.assertEqual(got.who("qmatmul"), {"ops_full"})
        self.same("deep", "ops_full", settings=["ops_full.bytes=200000"])

    def test_nothing_fits(self):
        for settings in (["ops_full.weights=0"], ["ops_full.bytes=1"],
                         ["ops_full.weights=0", "ops_full.caches=0"]):
            got = self.same("llama", "ops_full,cpu", settings=settings)
            self.assertEqual(got.who("qmatmul") | got.who("embed"), {"cpu"})

    def test_small_device_memory(self):
        clean = self.same("llama", "async", logits=False)
        for name, size in itertools.product(("buffers", "memory"), (0, 700, 4000, 40000, 90000)):
            got = self.same("llama", "async,cpu", settings=[f"async.{name}={size}"])
            self.assertEqual(got.replays, 0)
            if name == "buffers" and size == 0:
                self.assertEqual(got.bytes_in + got.bytes_out, 0)
                self.assertGreater(got.waits, clean.waits)
                self.assertEqual(got.who("qmatmul"), {"async"})
                self.assertGreater(got.failed["memory", "async"], 0)


class Lost(Base):
    """Work that fails while it is in flight."""

    def check(self, got, last):
        if got.replays == 0:
            # somebody waited for that piece, or nobody needed it any more
            self.assertTrue(last or "was told to fail" in got.said, got.said)
            return
        self.assertIn("async:0 was lost", got.said)

    def everywhere(self, name, chain, asked=(), words=(), settings=(), count=6, ids=MIDDLE):
        whole = self.same(name, chain, ids, count, words, settings, asked=asked).work
        self.assertGreater(whole, 50)
        for key in ("lose_at", "fail_late_at"):
            for at in (1, 2, whole // 9, whole // 5, whole // 3, whole // 2, whole - 40, whole - 1,
                       whole):
                got = self.same(name, chain, ids, count, words, [*settings, f"async.{key}={at}"],
                                asked=asked)
                self.check(got, at >= whole - 1)

    def test_llama(self):
        self.everywhere("llama", "async")

    def test_steps_of_single_calls(self):
        self.everywhere("llama", "async", settings=["async.graphs=0"])

    def test_gemma_beside_a_processor(self):
        self.everywhere("gemma3", "async,cpu", words=["--batch", "7"])

    def test_moving_context(self):
        self.everywhere("gemma3", "async", asked=("--ctx", "16"), count=30)

    def test_beside_a_link_without_buffers(self):
        self.everywhere("llama", "only_qmatmul,async,cpu")

    def test_every_piece_of_a_step(self):
        """Wherever in the last step but one it happens, no token is made of what was lost."""
        for chain, settings in (("only_qmatmul,async,cpu", []), ("async", []),
                                ("async,cpu", ["async.buffers=2000"])):
            first, last = (self.same("llama", chain, SHORT, count, settings=settings,
                                     logits=False).work for count in (2, 3))
            self.assertGreater(last - first, 10)
            for at in range(first + 1, last + 1):
                for key in ("lose_at", "fail_late_at"):
                    self.same("llama", chain, SHORT, 4, settings=[*settings, f"async.{key}={at}"],
                              logits=False)

    def test_without_looking_at_logits(self):
        whole = self.same("llama", "async", count=20, logits=False).work
        for at in range(3, whole, whole // 8):
            got = self.same("llama", "async", count=20, logits=False,
                            settings=[f"async.lose_at={at}"])
            self.assertIn("async", got.who("embed"))
            self.assertIn("reference", got.who("embed"))
            self.assertIn("async:0 is lost and leaves every chain", got.said)

    def test_slow(self):
        """Work is still in flight when the next is given, and when it is lost."""
        for at in (0, 40, 90):
            self.same("llama", "async", settings=["async.delay_us=300", f"async.lose_at={at}"])

    def test_one_loss_after_the_other(self):
        """The replay is hit as well."""
        got = self.same("llama", "async,ops_fail,cpu", settings=[
            "async.lose_at=60", "ops_fail.operation=attention", "ops_fail.at=5"])
        self.assertEqual(got.replays, 2)
        self.assertIn("cpu", got.who("attention"))

    def test_summary(self):
        whole = self.same("llama", "async").work
        got = self.same("llama", "async", settings=[f"async.lose_at={whole // 2}"])
        self.assertEqual(got.replays, 1)
        self.assertIn("async:0 was lost: device failed", got.said)
        self.assertIn("the context was lost with a device and made again 1 times", got.said)
        for name in OPERATIONS:
            self.assertEqual(got.who(name), {"async", "reference"}, name)


class Refused(Base):
    """Modes and conditions that do not allow another link."""

    def refused(self, chain, *parts, words=(), settings=(), code=REFUSED):
        done = start(model("llama"), chain, "--tokens", "1,262", "-n", "4", "--ignore-eos", "--quiet",
                     *words, settings=settings)
        said = done.stderr.decode("utf-8", "replace")
        self.assertEqual(done.returncode, code, said)
        for part in parts:
            self.assertIn(part, said)
        self.assertNotIn("never given back", said)
        return done

    def test_require_accelerator(self):
        only = "--require-accelerator: only processors would compute"
        words = ["--require-accelerator"]
        for chain in ("cpu", "reference", "cpu,reference", None):
            self.refused(chain, only, words=words)
        for settings in (["ops_full.weights=0"], ["ops_full.bytes=64"]):  # has a device, holds nothing
            self.refused("ops_full,cpu", only, words=words, settings=settings)
        self.refused("async", only, words=words, settings=["async.memory=64"])
        self.refused("declines_all,cpu", only, words=words)
        for chain in ("async", "only_qmatmul,cpu", "cpu,ops_fail"):
            self.refused(chain, words=words, code=REFUSED if chain.startswith("cpu") else GOOD)

    def test_pin(self):
        words = ["--mode", "pin"]
        for chain in ("async", "ops_fail", "cpu", "only_qmatmul,cpu", "only_qmatmul,async"):
            done = self.refused(chain, words=words, code=GOOD)
            self.assertEqual(done.stderr, b"")
        self.refused("only_qmatmul", "attention", "no link of the chain offers it", words=words)
        self.refused("declines_all", "declines everything", words=words)
        self.refused("ops_full", "the device is full", "ops_full:0", "blk.", words=words,
                     settings=["ops_full.weights=3"], code=FAILED)
        self.refused("ops_full", "a key-value cache", "the device is full", words=words,
                     settings=["ops_full.caches=1"], code=FAILED)

    def test_pin_and_fail(self):
        words = ["--mode", "pin"]
        for operation in ("embed", "rmsnorm", "qmatmul", "gated", "add", "argmax"):
            self.refused("ops_fail", f"{operation} was told to fail", "ops_fail:0", operation,
                         words=words, code=3, settings=[f"ops_fail.operation={operation}",
                                                        "ops_fail.at=2", "ops_fail.how=half"])
        # another pinned link answers for it
        self.refused("ops_fail,cpu", words=words, code=GOOD, settings=["ops_fail.at=9"])
        for key in ("lose_at", "fail_late_at"):
            done = start(model("llama"), "async", "--tokens", "1,262", "-n", "4", "--ignore-eos",
                         *words, settings=[f"async.{key}=30"])
            self.assertNotIn(done.returncode, (GOOD, REFUSED), done.stderr)
            self.assertIn(b"async:0", done.stderr)

    def test_settings(self):
        for setting in ("ops_fail.at=x", "ops_fail.how=no", "ops_fail.operation=nothing"):
            self.refused("ops_fail", setting.split("=")[0].split(".")[1], settings=[setting])


class Correct(unittest.TestCase):
    """Unless told otherwise the fixtures pass the conformance suite."""

    def verify(self, name, *words):
        done = subprocess.run([TENON, "verify", pathlib.Path(FIXTURES) / f"tenon-{name}.so", "--json",
                               *words], capture_output=True, timeout=300, env=environment())
        self.assertEqual(done.returncode, GOOD, done.stdout[-2000:] + done.stderr[-2000:])

    def test_border(self):
        for name in ("only_qmatmul", "ops_fail", "ops_full", "async"):
            self.verify(name, "--stage", "abi")

    def test_memory(self):
        self.verify("async", "--filter", "*memory*")


class Real(Base):
    """Real models, when they are given: greedy tokens of every chain."""

    PROMPTS = ("Once upon a time", "Die Hauptstadt von Österreich ist", "def fibonacci(n):\n")

    def greedy(self, variable):
        path = os.environ.get(variable)
        if not path:
            self.skipTest(f"{variable} is not set")
        count, words = 12, ("--ctx", "64")
        for text, arith in itertools.product(self.PROMPTS, ("f32", "a8")):
            asked = [*words, "--arith", arith]
            whole = Run(path, "cpu", None, count, asked, logits=False, text=text, limit=600)
            for chain, settings in (("reference", []), ("only_qmatmul,cpu", []),
                                    ("ops_fail,cpu", ["ops_fail.at=400", "ops_fail.how=half"]),
                                    ("ops_full,cpu", [f"ops_full.weights={1 + 17 * 7}"]),
                                    ("async,cpu", ["async.lose_at=1500"])):
                if text != self.PROMPTS[0] and chain != "async,cpu":
                    continue
                with self.subTest(text=text, arith=arith, chain=chain):
                    got = Run(path, chain, None, count, asked, settings, logits=False, text=text,
                              limit=1800)
                    self.assertEqual(got.tokens, whole.tokens)
            for batch in ("1", "7", "64", "512"):
                got = Run(path, "cpu", None, count, [*asked, "--batch", batch], logits=False,
                          text=text, limit=600)
                self.assertEqual(got.tokens, whole.tokens)

    def test_smollm2(self):
        self.greedy("TENON_MODEL_SMOLLM2")

    def test_gemma3(self):
        self.greedy("TENON_MODEL_GEMMA3")


def main():
    suite = unittest.TestSuite(
        unittest.defaultTestLoader.loadTestsFromTestCase(case)
        for case in (Chains, Shapes, Fails, Full, Lost, Refused, Correct, Real))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=1).run(suite)
    failed = len({case.id().split(" (")[0] for case, _ in result.failures + result.errors})
    for case, why in result.skipped:
        print(f"SKIP: {case.id()}: {why}")
    passed = result.testsRun - failed - len(result.skipped)
    print(f"{passed} passed, {failed} failed, {len(result.skipped)} skipped")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
