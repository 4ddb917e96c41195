#!/usr/bin/env python3
"""The command line of the tool: exit codes, clean standard output, JSON, odd paths, interruption.

Usage: test_cli.py TENON [FOLDER]   FOLDER: broken providers built for tests, optional.
Every test runs the tool in a folder of its own, under a time limit; the last line printed is
"N passed, N failed, N skipped". Needs nothing beyond the standard library.
"""
import errno
import json
import os
import pathlib
import pty
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback

GOOD, FAILED, REFUSED, NO_DEVICE, USAGE = 0, 1, 2, 3, 64
LIMIT = 120
TOOL = None
BROKEN = None
ODD = "p ö 日本 🙂 '\""


class Skip(Exception):
    pass


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def text(self):
        return self.out.decode("utf-8")

    @property
    def said(self):
        return self.err.decode("utf-8", "replace")


def clean_environment(extra=None):
    env = {k: v for k, v in os.environ.items() if not k.startswith("TENON_") and k != "NO_COLOR"}
    env.update(extra or {})
    return env


def run(*words, env=None, cwd=None, code=None, out=None):
    done = subprocess.run([TOOL, *map(os.fspath, words)], stdin=subprocess.DEVNULL,
                          stdout=out if out is not None else subprocess.PIPE,
                          stderr=subprocess.PIPE, env=clean_environment(env), cwd=cwd,
                          timeout=LIMIT)
    result = Result(done.returncode, done.stdout or b"", done.stderr)
    if code is not None:
        assert result.code == code, (words, result.code, code, result.out[:500], result.said[:2000])
    return result


def one_line(result, *parts):
    """Exactly one line on stderr, beginning with the tool's name, with all parts in it."""
    lines = result.said.splitlines()
    assert len(lines) == 1 and lines[0].startswith("tenon: "), result.said
    for part in parts:
        assert part in lines[0], (part, lines[0])


def document(result):
    value = json.loads(result.text)
    assert value["schema"] == 1
    return value


def cpu_provider():
    """The shipped CPU provider, found as the tool finds it."""
    base = pathlib.Path(TOOL).resolve().parent
    layout = base / "tenon.layout"
    folders = [base / ".." / "lib" / "tenon"]
    if layout.exists():
        folders = [base / line.split("=", 1)[1] for line in layout.read_text().splitlines()
                   if line.startswith("providers=")]
    for folder in folders:
        for file in sorted(folder.glob("**/tenon-cpu.so")):
            return file.resolve()
    raise Skip("no tenon-cpu.so beside the tool")


def model(folder, *options):
    path = folder / "model.gguf"
    run("make-model", *options, path, code=GOOD)
    return path


# ---- words of the command line ----------------------------------------------------------------

def test_version_loads_nothing(folder):
    provider = cpu_provider()
    log = folder / "debug"
    result = run("--version", env={"TENON_PROVIDERS": str(provider), "LD_DEBUG": "files",
                                   "LD_DEBUG_OUTPUT": str(log)}, code=GOOD)
    assert result.text.startswith("tenon ") and result.err == b""
    traced = "".join(p.read_text() for p in folder.glob("debug*"))
    assert "libc.so" in traced and "tenon-cpu" not in traced, "something was loaded"


def test_version_with_hostile_environment(folder):
    os.mkfifo(folder / "tenon-fifo.so")
    result = run("--version", env={"TENON_PROVIDERS": str(folder / "tenon-fifo.so"),
                                   "TENON_PROVIDER_PATH": "/proc/self:relative:"}, code=GOOD)
    assert result.err == b""


def test_help(folder):
    for words in (["--help"], ["-h"], ["help"], ["list", "--help"], ["inspect", "-h"],
                  ["verify", "--help"], ["bench", "--help"], ["op", "--help"],
                  ["op", "qmatmul", "--help"], ["help", "list"], ["make-model", "--help"]):
        result = run(*words, code=GOOD)
        assert "Usage: tenon" in result.text and result.err == b"", words
        assert all(len(line) <= 110 for line in result.text.splitlines()), words


def test_usage_errors(folder):
    for words, part in (
            ([], "command is missing"), ([""], "unknown command"), (["lst"], "perhaps list"),
            (["--jsn"], "command comes first"), (["list", "--jsn"], "perhaps --json"),
            (["list", "--json=1"], "takes no value"), (["list", "--threads"], "needs a value"),
            (["run", "m.gguf", "-n"], "needs a value"), (["run", "m.gguf", "-p"], "needs a value"),
            (["tokenize", "m.gguf", "-f"], "needs a value"),
            (["list", "--threads", "0"], "1 to"), (["list", "--threads", "-1"], "1 to"),
            (["list", "--threads", "18446744073709551617"], "1 to"),
            (["list", "--threads", "2x"], "1 to"), (["list", "--threads="], "1 to"),
            (["list", "extra"], "too many"), (["list", "-x"], "unknown option"),
            (["list", "--set", "novalue"], "KEY=VALUE"), (["list", "--set", "=v"], "KEY=VALUE"),
            (["list", "--set", "a=b\nc"], "KEY=VALUE"),
            (["list", "--semantic", "nonsense"], "no tag"),
            (["list", "--verbose", "--quiet"], "exclude"),
            (["list", "--provider-dir", ""], "not empty"), (["list", "--select="], "not empty"),
            (["inspect"], "argument is missing"), (["inspect", ""], "empty"),
            (["inspect", "a", "b"], "too many"), (["make-model"], "argument is missing"),
            (["make-model", "--rows", "0", "x"], "from 1"), (["op"], "missing"),
            (["op", "matmul"], "unknown operation"), (["--version", "x"], "no arguments"),
            (["list", "--threads\033[2J"], "\\x1b"), (["help", "nonsense"], "unknown command")):
        result = run(*words, code=USAGE, cwd=folder)
        assert result.out == b"", words
        one_line(result, part, "--help")
    assert list(folder.iterdir()) == []


def test_json_of_failures(folder):
    """--json prints one document also when there is nothing to show."""
    for words, code in ((["list", "--json", "--nonsense"], USAGE),
                        (["op", "qmatmul", "--json"], USAGE),
                        (["list", "--json", "--select", "nosuchthing"], USAGE),
                        (["list", "--json", "--config", folder / "none"], REFUSED),
                        (["make-model", "--json", folder / "none" / "x"], REFUSED)):
        result = run(*words, code=code)
        value = document(result)
        assert value["exit"] == code and value["error"] and value["error"] in result.said
    assert "Usage" in run("list", "--json", "--help", code=GOOD).text


def test_configuration_files(folder):
    file = folder / "tenon.conf"
    for text, part in (("cpu.level avx2\n", ":1: "), ("# fine\n\na b = c\n", ":3: "),
                       ("= x\n", ":1: "), ("a=b\nx\0=y\n", ":2: "),
                       ("k = " + "v" * 5000 + "\n", ":1: the line is too long")):
        file.write_text(text)
        one_line(run("list", "--config", file, code=REFUSED), str(file), part)
    file.write_bytes(b"#" * (2 << 20))
    one_line(run("list", "--config", file, code=REFUSED), "bytes are too many")
    one_line(run("list", "--config", folder / "none", code=REFUSED), "No such file")
    one_line(run("list", "--config", folder, code=REFUSED), "regular")
    os.mkfifo(folder / "fifo")
    one_line(run("list", "--config", folder / "fifo", code=REFUSED), "regular")
    file.write_bytes(b"\xef\xbb\xbf# a comment\r\n  other.key =  a value # kept \r\n\r\nempty=\n")
    run("list", "--config", file, code=GOOD)


# ---- models -----------------------------------------------------------------------------------

def test_make_model(folder):
    path = model(folder)
    again = folder / "again.gguf"
    run("make-model", "--seed", "1", again, code=GOOD)
    assert path.read_bytes() == again.read_bytes()
    run("make-model", "--seed=2", again, code=GOOD)
    assert path.read_bytes() != again.read_bytes()
    assert document(run("make-model", "--json", again, code=GOOD))["tensors"] == 19
    one_line(run("make-model", folder / "none" / "x", code=REFUSED), "No such file")
    one_line(run("make-model", folder, code=REFUSED), "regular")
    link = folder / "link"
    link.symlink_to("again.gguf")
    run("make-model", "--seed", "3", link, code=GOOD)
    assert link.is_symlink() and again.read_bytes() != path.read_bytes()
    link.unlink()
    run("make-model", "/dev/null", code=GOOD)
    assert not os.path.isfile("/dev/null")
    assert sorted(p.name for p in folder.iterdir()) == ["again.gguf", "model.gguf"]


def test_inspect_model(folder):
    path = model(folder)
    text = run("inspect", path, code=GOOD).text
    value = document(run("inspect", "--json", "--check-data", path, code=GOOD))
    assert value["kind"] == "gguf" and value["status"] == "good" and value["findings"] == []
    assert value["size"] == path.stat().st_size
    assert len(value["tensors"]) == 19 and len({t["format"] for t in value["tensors"]}) == 19
    for tensor in value["tensors"]:
        assert tensor["name"] in text
        assert tensor["offset"] % value["alignment"] == 0
        assert tensor["offset"] + tensor["bytes"] <= value["size"]


def test_inspect_hostile_model(folder):
    path = model(folder)
    data = path.read_bytes()
    cut = folder / "cut.gguf"
    for size in (0, 1, 3, 4, 23, 24, 100, 1000, len(data) // 2, len(data) - 64):
        cut.write_bytes(data[:size])
        result = run("inspect", cut, code=REFUSED)
        assert result.out == b""
        one_line(result, str(cut), "refused", str(size))
        value = document(run("inspect", "--json", cut, code=REFUSED))
        assert value["status"] == "refused" and value["text"]


def test_real_model(folder):
    """Every tensor of SmolLM2-135M-Instruct, where the quickstart or the check has fetched it."""
    path = pathlib.Path(TOOL).resolve().parent.parent / "model" / "smollm2.gguf"
    path = pathlib.Path(os.environ.get("TENON_TEST_MODEL") or path)
    if not path.exists():
        raise Skip(f"no model at {path}")
    value = document(run("inspect", "--json", "--check-data", path, code=GOOD))
    assert len(value["tensors"]) == 272 and len(value["keys"]) == 33 and value["findings"] == []
    assert {t["format"] for t in value["tensors"]} == {"F32", "Q4_1", "Q8_0"}
    assert {t["cols"] for t in value["tensors"]} == {576, 1536}
    embedding = next(t for t in value["tensors"] if t["name"] == "token_embd.weight")
    assert embedding["shape"] == [576, 49152] and embedding["format"] == "Q8_0"
    text = run("inspect", path, code=GOOD).text
    assert all(t["name"] in text for t in value["tensors"])


def keyed(*keys):
    """A model without tensors: keys are (name bytes, type, value bytes)."""
    out = b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys))
    for name, kind, value in keys:
        out += struct.pack("<Q", len(name)) + name + struct.pack("<I", kind) + value
    return out


def test_numbers_and_text_in_json(folder):
    def text(raw):
        return struct.pack("<Q", len(raw)) + raw
    path = folder / "keys.gguf"
    path.write_bytes(keyed(
        (b"big", 10, struct.pack("<Q", 2**64 - 1)), (b"most", 10, struct.pack("<Q", 2**63 - 1)),
        (b"least", 11, struct.pack("<q", -2**63)), (b"nan", 6, struct.pack("<f", float("nan"))),
        (b"inf", 12, struct.pack("<d", float("-inf"))), (b"half", 6, struct.pack("<f", 0.5)),
        (b"bytes", 8, text(b"a\xff\0b\"\\\n\xed\xa0\x80")), (b"\xffname", 7, b"\1"),
        (b"list", 9, struct.pack("<IQ", 0, 10) + bytes(range(10))),
        (b"words", 9, struct.pack("<IQ", 8, 2) + text("日本".encode()) + text(b""))))
    keys = document(run("inspect", "--json", path, code=GOOD))["keys"]
    values = {k["name"]: k["value"] for k in keys}
    assert values["big"] == "18446744073709551615"
    assert values["most"] == 2**63 - 1 and values["least"] == -2**63
    assert values["nan"] == "nan" and values["inf"] == "-inf" and values["half"] == 0.5
    assert values["bytes"] == "a\ufffd\0b\"\\\n\ufffd\ufffd\ufffd" and values["\ufffdname"] is True
    assert values["list"] == list(range(6)) and values["words"] == ["日本", ""]
    all_values = document(run("inspect", "--json", "-v", path, code=GOOD))["keys"]
    assert {k["name"]: k["value"] for k in all_values}["list"] == list(range(10))
    shown = run("inspect", path, code=GOOD).out
    assert b"\xff" not in shown and b"\0" not in shown and b"\\xff" in shown


def test_data_check(folder):
    path = model(folder)
    value = document(run("inspect", "--json", path, code=GOOD))
    tensor = next(t for t in value["tensors"] if t["format"] == "Q6_K")
    data = bytearray(path.read_bytes())
    at = tensor["offset"] + 4 * 210 + 208
    data[at:at + 2] = b"\0\x7e"
    path.write_bytes(data)
    run("inspect", path, code=GOOD)
    result = run("inspect", "--check-data", path, code=FAILED)
    one_line(result, tensor["name"], "block 4")
    value = document(run("inspect", "--json", "--check-data", path, code=FAILED))
    assert [(f["tensor"], f["block"]) for f in value["findings"]] == [(tensor["name"], 4)]


def test_inspect_other_files(folder):
    text = folder / "tenon-text.so"
    text.write_text("no library")
    os.mkfifo(folder / "fifo")
    for path in (text, folder / "fifo", folder, folder / "none", "/dev/zero"):
        result = run("inspect", path, code=REFUSED)
        one_line(result, "refused", "reason=")
        value = document(run("inspect", path, "--json", code=REFUSED))
        assert value["status"] == "refused" and value["reason"] > 0
    one_line(run("inspect", "--check-data", text, code=USAGE), "GGUF")


def test_inspect_provider(folder):
    path = cpu_provider()
    result = run("inspect", path, code=GOOD)
    assert "provider_v1 present" in result.text and result.err == b""
    value = document(run("inspect", "--json", path, code=GOOD))
    assert value["id"] == "cpu" and value["kind"] == "provider" and value["reason"] == 0
    assert {s["name"] for s in value["symbols"] if s["present"]} >= {"provider_v1", "qmatmul_v1"}
    shutil.copy(path, folder / "tenon-cpu.so")
    value = document(run("inspect", "--json", "tenon-cpu.so", cwd=folder, code=GOOD))
    assert value["file"] == os.path.join(os.path.realpath(folder), "tenon-cpu.so")


# ---- finding providers ------------------------------------------------------------------------

def listed(*words, **more):
    return document(run("list", "--json", *words, **more))


def test_list(folder):
    result = run("list", code=GOOD)
    assert "reference" in result.text and "Threads: " in result.text and result.err == b""
    value = listed(code=GOOD)
    for provider in value["providers"]:
        assert set(provider) == {"id", "version", "file", "status", "stage", "reason", "text",
                                 "devices"}
        for device in provider["devices"]:
            assert set(device) >= {"index", "name", "kind", "memory_total", "memory_free", "arith"}
    reference = [p for p in value["providers"] if p["id"] == "reference"]
    assert len(reference) == 1 and reference[0]["status"] == "loaded"
    assert reference[0]["devices"][0]["arith"] == ["F32", "A8"]
    assert value["threads"]["count"] >= 1 and value["threads"]["why"]
    assert listed("--threads", "3", code=GOOD)["threads"]["count"] == 3
    assert "tenon" in run("list", "--why", code=GOOD).text


def provider_files(value, status="loaded"):
    return [p["file"] for p in value["providers"] if p["status"] == status and p["file"]]


def test_provider_directories(folder):
    """W06: a directory given twice, two in the environment, a file, an unknown one."""
    cpu = cpu_provider()
    first, second = folder / "first", folder / "second"
    for place in (first, second):
        place.mkdir(mode=0o755)
        shutil.copy(cpu, place / "tenon-cpu.so")
    alone = {"TENON_PROVIDERS": str(second)}
    value = listed("--provider-dir", first, "--provider-dir", first, env=alone, code=GOOD)
    assert provider_files(value) == [str(first / "tenon-cpu.so")]
    assert any(p["path"] == str(second) for p in value["searched"])
    value = listed(env={"TENON_PROVIDERS": f"{second}:{first}"}, code=GOOD)
    assert provider_files(value) == [str(second / "tenon-cpu.so")]
    value = listed(env={"TENON_PROVIDERS": str(first / "tenon-cpu.so")}, code=GOOD)
    assert provider_files(value) == [str(first / "tenon-cpu.so")]
    value = listed("--provider-dir", second / "tenon-cpu.so", code=GOOD)
    assert provider_files(value)[0] == str(second / "tenon-cpu.so")
    value = listed("--provider-dir", "second", cwd=folder, code=GOOD)
    assert provider_files(value)[0] == str(second / "tenon-cpu.so")
    for missing in (folder / "none", folder / "none.so"):
        value = listed("--provider-dir", missing, code=REFUSED)
        places = [p["path"] for p in value["searched"]] + provider_files(value, "refused")
        assert str(missing) in places
        assert str(missing) in run("list", "--provider-dir", missing, code=REFUSED).text
    value = listed(env={"TENON_PROVIDER_PATH": str(folder / "none")}, code=GOOD)
    assert any(p["path"] == str(folder / "none") for p in value["searched"])
    run("list", env={"TENON_PROVIDERS": ""}, code=GOOD)
    assert "empty" in run("list", env={"TENON_PROVIDERS": ""}, code=GOOD).said


def test_bad_file_found_or_named(folder):
    bad = folder / "tenon-bad.so"
    data = bytearray(cpu_provider().read_bytes())
    bad.write_bytes(data[:4096])
    value = listed("--provider-dir", folder, code=GOOD)
    refused = [p for p in value["providers"] if p["file"] == str(bad)]
    assert len(refused) == 1 and refused[0]["status"] == "refused"
    assert refused[0]["stage"] == "static" and refused[0]["reason"] == 302
    result = run("list", "--provider-dir", folder, code=GOOD)
    assert result.text.count("tenon-bad.so") == 1 and result.err == b""
    value = listed("--provider-dir", bad, code=REFUSED)
    assert any(p["file"] == str(bad) and p["reason"] == 302 for p in value["providers"])
    listed(env={"TENON_PROVIDERS": str(bad)}, code=REFUSED)
    one_line(run("list", "--provider-dir", bad, code=REFUSED), "refused", "stage=static",
             "reason=302", str(bad))


def test_foreign_files_found(folder):
    """L05: another architecture or a text file beside good ones is no news, but an error when
    named."""
    foreign, text = folder / "tenon-foreign.so", folder / "tenon-text.so"
    data = bytearray(cpu_provider().read_bytes())
    data[18:20] = struct.pack("<H", 183)  # e_machine: aarch64
    foreign.write_bytes(data)
    text.write_text("no library")
    result = run("list", "--provider-dir", folder, code=GOOD)
    assert "foreign" not in result.text and "tenon-text" not in result.text and result.err == b""
    result = run("list", "--why", "--provider-dir", folder, code=GOOD)
    line = next(part for part in result.text.splitlines() if "tenon-foreign.so" in part)
    assert "skipped" in line and "aarch64" in line and "x86-64" in line
    value = listed("--provider-dir", folder, code=GOOD)
    skipped = {p["file"] for p in value["providers"] if p["status"] == "skipped"}
    assert skipped >= {str(foreign), str(text)}
    for path in (foreign, text):
        listed("--provider-dir", path, code=REFUSED)
        run("inspect", path, code=REFUSED)


def test_started_from_anywhere(folder):
    """L07: through a link on PATH, from another directory; the places looked at are named."""
    cpu = cpu_provider()
    link = folder / "tenon"
    link.symlink_to(TOOL)
    done = subprocess.run(["tenon", "list", "--json"], cwd="/", stdout=subprocess.PIPE, check=True,
                          env=clean_environment({"PATH": f"{folder}:{os.environ['PATH']}"}),
                          timeout=LIMIT)
    value = json.loads(done.stdout)
    assert str(cpu) in provider_files(value)
    built_in = [p for p in value["searched"] if p["source"] == "built-in"]
    assert any(os.path.realpath(p["path"]) == str(cpu.parent) for p in built_in)
    text = run("list", "--why", cwd="/", code=GOOD).text
    assert built_in[0]["path"] in text and "-found" in text


def test_threads_and_affinity(folder):
    """T01: one processor allowed, one thread, and the reason is told."""
    allowed = os.sched_getaffinity(0)
    done = subprocess.run([TOOL, "list", "--json"], stdout=subprocess.PIPE, check=True,
                          env=clean_environment(), timeout=LIMIT,
                          preexec_fn=lambda: os.sched_setaffinity(0, {min(allowed)}))
    threads = json.loads(done.stdout)["threads"]
    assert threads["count"] == 1 and "affinity 1" in threads["why"], threads
    threads = listed("--threads", "7", code=GOOD)["threads"]
    assert threads["count"] == 7 and threads["why"] == "asked for", threads


def test_filters(folder):
    result = run("list", "--select", "nosuchthing", code=USAGE)
    assert result.out == b"" and "nosuchthing" in result.said
    cpu_provider()
    value = listed("--disable", "cpu", code=GOOD)
    assert [p["status"] for p in value["providers"] if p["id"] == "cpu"] in (["skipped"], [])


def test_odd_paths(folder):
    """L14: blanks, quotes, other scripts; the bytes come back unharmed."""
    place = folder / ODD
    place.mkdir(mode=0o755)
    path = model(place)
    value = document(run("inspect", "--json", path, code=GOOD))
    assert value["file"] == str(path) and len(value["tensors"]) == 19
    assert str(path) in run("inspect", path, code=GOOD).text
    shutil.copy(cpu_provider(), place / "tenon-cpu.so")
    value = listed("--provider-dir", place, code=GOOD)
    assert provider_files(value)[0] == str(place / "tenon-cpu.so")
    raw = os.fsencode(folder) + b"/bad\xff\n.gguf"
    with open(raw, "wb") as out:
        out.write(b"GGUF")
    result = run("inspect", raw, code=REFUSED)
    one_line(result, "bad\\xff\\x0a.gguf")
    value = document(run("inspect", "--json", raw, code=REFUSED))
    assert value["file"].endswith("bad\ufffd\n.gguf")


# ---- op ---------------------------------------------------------------------------------------

def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def small_product(folder):
    (folder / "w").write_bytes(floats(1, 2, 3, 4, 5, 6))  # 2 rows of 3
    (folder / "x").write_bytes(floats(1, 0, -1, 10, 20, 30))  # 2 tokens
    return ["op", "qmatmul", "--format", "f32", "--rows", "2", "--cols", "3", "--tokens", "2",
            "--weights", folder / "w", "--x", folder / "x", "--out", folder / "y"]


def test_op_product(folder):
    words = small_product(folder)
    expected = floats(-2, -2, 140, 320)
    for extra in ([], ["--provider", "reference", "--mode", "pin"], ["--mode", "auto"],
                  ["--provider", "reference", "--mode", "prefer"], ["--arith", "a8"],
                  ["--threads", "1"], ["--arith=f32", "--semantic", "attn-q"]):
        result = run(*words, *extra, code=GOOD)
        assert (folder / "y").read_bytes() == expected, extra
        assert "class F32" in result.text and "run by " in result.text
        (folder / "y").unlink()
    value = document(run(*words, "--provider", "reference", "--json", code=GOOD))
    assert value["class"] == "F32" and value["ran"][0]["provider"] == "reference"
    assert value["ran"][0]["calls"] == 1
    assert sorted(p.name for p in folder.iterdir()) == ["w", "x", "y"]


def test_op_usage(folder):
    words = small_product(folder)

    def without(name):
        at = words.index(name)
        return words[:at] + words[at + 2:]

    def instead(name, value):
        at = words.index(name)
        return words[:at + 1] + [value] + words[at + 2:]
    for name in ("--format", "--rows", "--cols", "--tokens", "--weights", "--x", "--out"):
        one_line(run(*without(name), code=USAGE), name, "missing")
    one_line(run(*instead("--format", "Q9_Z"), code=USAGE), "Q9_Z")
    one_line(run(*instead("--format", "Q4_0"), code=USAGE), "whole number of blocks")
    one_line(run(*instead("--format", "int4-group"), code=USAGE), "--group is missing")
    one_line(run(*instead("--format", "int8-row"), code=USAGE), "--scales is missing")
    one_line(run(*instead("--rows", str(2**63)), code=USAGE), "overflow")
    one_line(run(*instead("--tokens", str(2**63)), code=USAGE), "overflow")
    one_line(run(*words, "--scales", folder / "x", code=USAGE), "--scales")
    one_line(run(*words, "--group", "32", code=USAGE), "--group")
    one_line(run(*instead("--out", folder / "x"), code=USAGE), "--out names the file of --x")
    (folder / "again").symlink_to("w")
    one_line(run(*instead("--out", folder / "again"), code=USAGE), "--out", "--weights")
    one_line(run(*words, "--layout", "pair", code=USAGE), "--layout")
    one_line(run(*words, "--layout", "both", code=USAGE), "pair|planar")
    one_line(run(*words, "--mode", "pin", code=USAGE), "--provider")
    one_line(run(*words, "--provider", "reference", "--level", "avx2", code=USAGE), "no levels")
    assert not (folder / "y").exists()


def test_op_files(folder):
    words = small_product(folder)
    for name, good in (("w", 24), ("x", 24)):
        data = (folder / name).read_bytes()
        for size in (0, 1, good - 1, good + 1):
            (folder / name).write_bytes((data + b"\0")[:size])
            one_line(run(*words, code=REFUSED), f"has {size} bytes", f"exactly {good}")
        (folder / name).unlink()
        one_line(run(*words, code=REFUSED), "No such file")
        os.mkfifo(folder / name)
        one_line(run(*words, code=REFUSED), "regular")
        (folder / name).unlink()
        (folder / name).mkdir()
        one_line(run(*words, code=REFUSED), "regular")
        (folder / name).rmdir()
        (folder / name).write_bytes(data)
    at = words.index("--out")
    for out in (folder / "none" / "y", "/proc/y"):
        result = run(*words[:at + 1], out, *words[at + 2:], code=REFUSED)
        assert result.out == b""
    assert sorted(p.name for p in folder.iterdir()) == ["w", "x"]


def test_op_missing_providers(folder):
    words = small_product(folder)
    for chain in ("nosuch", "nosuch:0,reference", "reference:7"):
        for mode in ("pin", "prefer", "auto"):
            result = run(*words, "--provider", chain, "--mode", mode, code=REFUSED)
            assert "reason" in result.said and result.out == b""
    for chain in (":", "cpu:", "cpu:x", ",", "reference,,reference", "cpu:99999999999"):
        run(*words, "--provider", chain, code=USAGE)
    assert not (folder / "y").exists()
    missing = folder / "none.so"
    assert "none.so" in run(*words, "--provider-dir", missing, code=REFUSED).said
    assert "none.so" in run(*words, "--quiet", "--provider-dir", missing, code=REFUSED).said


def test_op_levels(folder):
    words = small_product(folder)
    cpu_provider()
    run(*words, "--level", "portable", code=GOOD)
    value = document(run(*words, "--json", "--level", "portable", code=GOOD))
    assert value["ran"][0]["provider"] == "cpu" and "portable" in value["ran"][0]["detail"]
    run(*words, "--provider", "cpu", "--set", "cpu.level=portable", code=GOOD)
    result = run(*words, "--level", "avx9000", code=REFUSED)
    assert "avx9000" in result.said or "level" in result.said
    (folder / "c").write_text("cpu.level = avx9000\n")
    run(*words, "--provider", "cpu", "--config", folder / "c", code=REFUSED)
    run(*words, "--provider", "cpu", "--config", folder / "c", "--set", "cpu.level=portable",
        code=GOOD)


def test_op_same_bits(folder):
    """Every format of a model, reference and cpu, both classes: the files are equal."""
    cpu_provider()
    path = model(folder)
    data = path.read_bytes()
    for tensor in document(run("inspect", "--json", path, code=GOOD))["tensors"]:
        cols, rows = tensor["cols"], tensor["rows"]
        (folder / "w").write_bytes(data[tensor["offset"]:tensor["offset"] + tensor["bytes"]])
        x = [((i * 7919) % 1000 - 500) / 97 for i in range(2 * cols)]
        (folder / "x").write_bytes(floats(*x))
        for arith in ("f32", "a8"):
            got = []
            for provider in ("reference", "cpu"):
                run("op", "qmatmul", "--format", tensor["format"], "--rows", str(rows), "--cols",
                    str(cols), "--tokens", "2", "--weights", folder / "w", "--x", folder / "x",
                    "--out", folder / "y", "--arith", arith, "--provider", provider, "--mode",
                    "pin", code=GOOD)
                got.append((folder / "y").read_bytes())
            assert got[0] == got[1] and len(got[0]) == 8 * rows, (tensor["format"], arith)


def test_op_separate_scales(folder):
    """Codes and scales in files of their own; small whole numbers, so that the sums are exact."""
    rows, cols = 5, 200
    x = [(i * 37) % 11 - 5 for i in range(cols)]
    (folder / "x").write_bytes(floats(*x))
    codes = [[(row * 31 + i * 7) % 16 - 8 for i in range(cols)] for row in range(rows)]
    scales = [[2.0 ** ((row + group) % 5 - 2) for group in range(5)] for row in range(rows)]

    def pair(row):
        return bytes((row[i] + 8) | ((row[i + 1] + 8) << 4) for i in range(0, cols, 2))

    def planar(row):
        whole = cols // 64 * 64
        out = b"".join(bytes((row[at + k] + 8) | ((row[at + k + 32] + 8) << 4) for k in range(32))
                       for at in range(0, whole, 64))
        return out + pair(row)[whole // 2:]
    cases = (("int8-row", [], lambda row: struct.pack(f"{cols}b", *row), cols),
             ("int4-row", [], pair, cols), ("int4-row", ["--layout", "planar"], planar, cols),
             ("int4-group", ["--group", "48"], pair, 48),
             ("INT4-GROUP", ["--group", "48", "--layout", "planar"], planar, 48))
    for name, extra, encode, group in cases:
        (folder / "w").write_bytes(b"".join(encode(row) for row in codes))
        groups = -(-cols // group)
        (folder / "s").write_bytes(floats(*[s for row in scales for s in row[:groups]]))
        expected = floats(*[sum(scales[r][i // group] * codes[r][i] * x[i] for i in range(cols))
                            for r in range(rows)])
        words = ["op", "qmatmul", "--format", name, *extra, "--rows", rows, "--cols", cols,
                 "--tokens", 1, "--weights", folder / "w", "--scales", folder / "s", "--x",
                 folder / "x", "--out", folder / "y", "--mode", "pin"]
        for provider in ("reference", "cpu"):
            if provider == "cpu":
                cpu_provider()
            run(*map(str, words), "--provider", provider, code=GOOD)
            assert (folder / "y").read_bytes() == expected, (name, extra, provider)
        (folder / "s").write_bytes(floats(1.0))
        one_line(run(*map(str, words), "--provider", "reference", code=REFUSED), "--scales",
                 "has 4 bytes", f"exactly {4 * rows * groups}")


# ---- outside --------------------------------------------------------------------------------

def test_stdout_that_fails(folder):
    path = model(folder)
    with open("/dev/full", "wb") as full:
        result = run("inspect", path, out=full)
        assert result.code == FAILED and "cannot write" in result.said
        assert run("inspect", "--json", path, out=full).code == FAILED
        assert run("--help", out=full).code == FAILED
    done = subprocess.run(["/bin/sh", "-c", 'exec "$0" inspect "$1" >&- 2>&- <&-', TOOL, str(path)],
                          timeout=LIMIT)
    assert done.returncode in (GOOD, FAILED)
    assert path.read_bytes()[:4] == b"GGUF"


def on_terminal(words, extra=None):
    """Runs with standard output on a terminal; returns what it showed."""
    child, terminal = pty.fork()
    if child == 0:
        os.execve(TOOL, [TOOL, *words], clean_environment({"TERM": "xterm", **(extra or {})}))
    shown = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            break
        if not part:
            break
        shown += part
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == GOOD
    return shown


def test_colour(folder):
    assert b"\033[32m" in on_terminal(["list"])
    assert b"\033[3" not in on_terminal(["list"], {"NO_COLOR": "1"})
    assert b"\033" not in run("list", code=GOOD).out
    assert b"\033[3" not in on_terminal(["list", "--json"])


def test_interrupt_leaves_nothing(folder):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        child = subprocess.Popen([TOOL, "make-model", "--rows", "1000000", str(folder / "m.gguf")],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while not any(p.stat().st_size > 100000 for p in folder.iterdir()):
            assert child.poll() is None and time.monotonic() < end
            time.sleep(0.005)
        child.send_signal(number)
        assert child.wait(timeout=60) == -number
        assert list(folder.iterdir()) == []


def broken(name):
    """A provider of the tests with one defect."""
    if BROKEN is None:
        raise Skip("no folder of broken providers given")
    path = pathlib.Path(BROKEN) / f"tenon-{name}.so"
    if not path.exists():
        raise Skip(f"{path.name} is not built")
    return path


def block_product(folder):
    """A product in a format that the test providers take: 3 rows of one Q8_0 block, 3 tokens
    (some of their defects show from three tokens on)."""
    (folder / "w").write_bytes(b"".join(b"\0\x3c" + bytes([row + 1] * 32) for row in range(3)))
    (folder / "x").write_bytes(floats(*[1.0] * 96))
    return ["op", "qmatmul", "--format", "Q8_0", "--rows", "3", "--cols", "32", "--tokens", "3",
            "--weights", folder / "w", "--x", folder / "x", "--out", folder / "y"]


def test_provider_that_prints(folder):
    """One JSON document, whatever a provider writes to standard output."""
    for name in ("prints", "prints_at_load"):
        value = listed("--provider-dir", broken(name), code=GOOD)
        assert any(p["id"] == name and p["devices"] for p in value["providers"])
        value = document(run(*block_product(folder), "--json", "--provider-dir", broken(name),
                             "--provider", name, "--mode", "pin", code=GOOD))
        assert value["ran"][0]["provider"] == name


def test_refused_provider(folder):
    """A provider of an older release: shown when found, an error when named, never run."""
    path = broken("old_qmatmul")
    result = run("inspect", path, code=REFUSED)
    one_line(result, "symbol=qmatmul_v1", "have=qmatmul_v0", "need=qmatmul_v1", "reason=301",
             str(path))
    value = document(run("inspect", "--json", path, code=REFUSED))
    assert (value["reason"], value["symbol"], value["have"]) == (301, "qmatmul_v1", "qmatmul_v0")
    value = listed("--provider-dir", path, code=REFUSED)
    entry = next(p for p in value["providers"] if p["file"] == str(path))
    assert (entry["status"], entry["stage"], entry["reason"]) == ("refused", "static", 301)
    assert entry["text"].startswith("tenon: refused provider=old_qmatmul stage=static reason=301")
    shutil.copy(path, folder / path.name)
    result = run("list", "--provider-dir", folder, code=GOOD)
    assert "qmatmul_v0" in result.text and result.err == b""
    result = run(*block_product(folder), "--provider-dir", path, code=REFUSED)
    assert "reason=301" in result.said and not (folder / "y").exists()
    result = run(*block_product(folder), "--provider-dir", folder, code=GOOD)
    assert "reason=301" in result.said
    run(*block_product(folder), "--provider-dir", folder, "--provider", "old_qmatmul", code=REFUSED)


def test_devices_that_are_not_there(folder):
    """D01, D09: loaded, 0 devices, and why; naming it has an exit code of its own."""
    for name, reason, words in (("driver_too_old", 1003, ("535", "550")),
                                ("no_device", 1002, ("firmware did not come up",)),
                                ("runtime_absent", 1001, ("not installed",))):
        path = broken(name)
        value = listed("--provider-dir", path, code=GOOD)
        entry = next(p for p in value["providers"] if p["id"] == name)
        assert (entry["status"], entry["reason"], entry["devices"]) == ("loaded", reason, [])
        text = run("list", "--provider-dir", path, code=GOOD).text
        line = next(part for part in text.splitlines() if part.startswith(f"  {name} "))
        assert "loaded, 0 devices: " in line
        for mode in ("pin", "prefer", "auto"):
            result = run(*block_product(folder), "--provider-dir", path, "--provider", name,
                         "--mode", mode, code=NO_DEVICE)
            assert f"reason {reason}" in result.said
            for word in words:
                assert word in line and word in result.said
    assert not (folder / "y").exists()


def test_policy_cells(folder):
    """W07: pin, prefer and auto against a missing, a failing and a slow provider."""
    expected = floats(32, 64, 96) * 3
    outcomes = {("nosuch", "pin"): REFUSED, ("nosuch", "prefer"): REFUSED,
                ("nosuch", "auto"): REFUSED, ("late_fails", "pin"): FAILED,
                ("late_fails", "prefer"): "reference", ("late_fails", "auto"): "reference",
                ("slow", "pin"): "slow", ("slow", "prefer"): "slow", ("slow", "auto"): "slow"}
    for (name, mode), outcome in outcomes.items():
        words = [*block_product(folder), "--provider", name, "--mode", mode, "--json"]
        if name != "nosuch":
            words += ["--provider-dir", broken(name)]
        if isinstance(outcome, int):
            result = run(*words, code=outcome)
            value = document(result)
            assert value["exit"] == outcome and value["error"] in result.said
            assert "reason" in value["error"] and not (folder / "y").exists()
            continue
        value = document(run(*words, code=GOOD))
        assert [entry["provider"] for entry in value["ran"]] == [outcome], (name, mode)
        assert (folder / "y").read_bytes() == expected
        if outcome == "reference":
            other = value["others"][0]
            assert other["provider"] == name and other["failed"] == 1 and other["text"]
            assert value["ran"][0]["fallbacks"] == 1
        (folder / "y").unlink()


def test_declined(folder):
    path = broken("declines_all")
    words = [*block_product(folder), "--provider-dir", path, "--provider", "declines_all"]
    one_line(run(*words, "--mode", "pin", code=REFUSED), "declines everything", "1206")
    result = run(*words, "--mode", "prefer", code=GOOD)
    assert "not by declines_all:0" in result.text and "run by reference:0" in result.text


def main():
    global TOOL, BROKEN
    if len(sys.argv) < 2 or not os.access(sys.argv[1], os.X_OK):
        print("usage: test_cli.py TENON [FOLDER]", file=sys.stderr)
        print("0 passed, 1 failed, 0 skipped")
        return 1
    TOOL = os.path.abspath(sys.argv[1])
    BROKEN = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None
    passed = failed = skipped = 0
    only = os.environ.get("TEST_CLI_ONLY")
    for name, test in sorted(globals().items()):
        if not name.startswith("test_") or not callable(test) or (only and only not in name):
            continue
        folder = pathlib.Path(tempfile.mkdtemp(prefix="tenon-cli-"))
        os.chmod(folder, 0o755)
        try:
            test(folder)
            passed += 1
        except Skip as why:
            print(f"SKIP: {name}: {why}")
            skipped += 1
        except Exception:  # a failing test must not hide the others
            print(f"FAIL: {name}")
            traceback.print_exc(file=sys.stdout)
            failed += 1
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    if passed + failed == 0:
        failed = 1
        print("nothing ran")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
