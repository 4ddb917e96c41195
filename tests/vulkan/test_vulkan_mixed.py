#!/usr/bin/env python3
"""Whole models on a Vulkan device: all of it there, and while the device declines calls, caches,
buffers and launches at random.

usage: test_vulkan_mixed.py TENON VULKAN_PROVIDER OPERATION_FIXTURES [--long]

What the device declines runs on the processor or the reference, and buffers move between them; the
tokens are those of the processor alone. Small models always; with TENON_MODEL_SMOLLM2 and
TENON_MODEL_GEMMA3 the real ones. Without a Vulkan device every test says SKIP.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "unit"))
from tiny_models import Tiny  # noqa: E402  (a neighbour, found by the line above)

TOOL, VULKAN, FIXTURES = sys.argv[1:4]
LONG = "--long" in sys.argv[4:]
IDS = "1,4,9,16,25,7,3"
passed = failed = skipped = 0


def run(*arguments, timeout=900):
    return subprocess.run([TOOL, *map(str, arguments)], timeout=timeout, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)


def has_device():
    found = json.loads(run("list", "--json").stdout)["providers"]
    return any(one["id"] == "vulkan" and one.get("devices") for one in found)


def document(model, chain, count, arith, *more):
    done = run("run", model, "--tokens", IDS, "-n", count, "--ignore-eos", "--json", "--arith", arith,
               "--provider", chain, *more)
    if done.returncode != 0:
        return None, done.stderr[-1500:]
    return json.loads(done.stdout), done.stderr


def compare(name, model, count, arith, seeds):
    global passed, failed
    wanted, words = document(model, "cpu", count, arith)
    assert wanted, words
    for seed in seeds:
        for share in (10, 60):
            got, words = document(model, "refuses,cpu", count, arith, "--provider-dir", FIXTURES,
                                  "--set", f"refuses.file={VULKAN}", "--set", f"refuses.seed={seed}",
                                  "--set", f"refuses.share={share}")
            links = {one["provider"] for one in got["operations"]} if got else set()
            if got and got["tokens"] == wanted["tokens"] and links >= {"refuses", "cpu"}:
                passed += 1
                continue
            failed += 1
            print(f"FAILED {name}, seed {seed}, {share} of 100: {got and got['tokens']}, not "
                  f"{wanted['tokens']}, by {links}: {words}")


def resident(name, model, count, arith):
    """All of it on the device: its steps are launched as one, and nothing falls back."""
    global passed, failed
    wanted, words = document(model, "cpu", count, arith)
    assert wanted, words
    for chain in ("vulkan", "vulkan,cpu"):
        got, words = document(model, chain, count, arith, "--mode", "pin")
        calls = {(one["provider"], one["name"]): one["calls"] for one in got["operations"]} if got else {}
        links = {provider for provider, _ in calls}
        if (got and got["tokens"] == wanted["tokens"] and links == {"vulkan"} and
                calls.get(("vulkan", "graph"), 0) >= count - 1):
            passed += 1
            continue
        failed += 1
        print(f"FAILED {name} on {chain}: {got and got['tokens']}, not {wanted['tokens']}: {calls} {words}")


def main():
    global skipped
    if not has_device():
        skipped += 1
        print("SKIP: no Vulkan device")
        return
    with tempfile.TemporaryDirectory(prefix="tenon mixed ") as place:
        place = pathlib.Path(place)
        seeds = range(1, 9) if LONG else (1, 2)
        for name, tiny in (("llama", Tiny("llama")),
                           ("gemma3", Tiny("gemma3", layers=6, heads=2, kv_heads=1, head=16)),
                           ("rounded", Tiny("llama", ffn=64, quantized=True, tied=False))):
            model = tiny.write(place / f"{name}.gguf")
            for arith in ("f32", "a8") if name == "rounded" else ("f32",):
                resident(f"{name}, {arith}", model, 8, arith)
                compare(f"{name}, {arith}", model, 8, arith, seeds)
    for variable in ("TENON_MODEL_SMOLLM2", "TENON_MODEL_GEMMA3"):
        if not os.environ.get(variable):
            skipped += 1
            print(f"SKIP {variable}: not set")
            continue
        for arith in ("f32", "a8") if LONG else ("a8",):
            resident(f"{variable}, {arith}", os.environ[variable], 6, arith)
        compare(variable, os.environ[variable], 6, "a8", seeds if LONG else (1,))


main()
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(1 if failed or passed + skipped == 0 else 0)
