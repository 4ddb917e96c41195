#!/usr/bin/env python3
"""`tenon tokenize` from outside, on a small model file that is made here.

Usage: test_tokenize_cli.py TENON
The last line printed is "N passed, N failed, N skipped". Needs the standard library alone.
"""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import traceback

GOOD, FAILED, REFUSED, USAGE = 0, 1, 2, 64
LIMIT = 120
TOOL = None


def letters():
    """The 256 tokens of single bytes, in the alphabet of byte-pair vocabularies."""
    own = set(range(33, 127)) | set(range(161, 173)) | set(range(174, 256))
    other = iter(range(256, 512))
    return [chr(b) if b in own else chr(next(other)) for b in range(256)]


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def key_text(name, value):
    return text(name) + struct.pack("<I", 8) + text(value)


def key_array(name, kind, items):
    return text(name) + struct.pack("<IIQ", 9, kind, len(items)) + b"".join(items)


def model(folder, pre="gpt-2", begin=256, without=(), name="model.gguf"):
    """Bytes 0 to 255, <s> 256, "ab" 257; without: bytes that have no token."""
    names = ["?%d" % i if i in without else letter for i, letter in enumerate(letters())]
    names += ["<s>", "ab"]
    keys = [key_text("tokenizer.ggml.model", "gpt2"), key_text("tokenizer.ggml.pre", pre),
            key_array("tokenizer.ggml.tokens", 8, [text(name) for name in names]),
            key_array("tokenizer.ggml.token_type", 5,
                      [struct.pack("<i", 3 if name == "<s>" else 1) for name in names]),
            key_array("tokenizer.ggml.merges", 8, [text("a b")])]
    if begin is not None:
        keys.append(text("tokenizer.ggml.bos_token_id") + struct.pack("<II", 4, begin))
    path = folder / name
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys)) + b"".join(keys))
    return path


def run(*words, data=b"", code=GOOD, out=None):
    env = {k: v for k, v in os.environ.items() if not k.startswith("TENON_")}
    done = subprocess.run([TOOL, "tokenize", *map(os.fspath, words)], input=data,
                          stdout=out if out is not None else subprocess.PIPE,
                          stderr=subprocess.PIPE, env=env, timeout=LIMIT)
    said = done.stderr.decode("utf-8", "replace")
    assert done.returncode == code, (words, done.returncode, code, said[:2000])
    return done.stdout or b"", said


def document(*words, data=b""):
    out, said = run(*words, "--json", data=data)
    value = json.loads(out.decode("utf-8"))
    assert set(value) == {"schema", "ids", "pieces"} and value["schema"] == 1, value
    assert len(value["ids"]) == len(value["pieces"])
    return value, said


def joined(pieces):
    """The bytes that pieces stand for."""
    return b"".join(bytes.fromhex(p["bytes"]) if isinstance(p, dict) else p.encode()
                    for p in pieces)


def test_prompts(folder):
    path = model(folder)
    for words in (["-p", "abc"], ["--prompt", "abc"], ["--prompt=abc"]):
        assert document(path, *words)[0] == {"schema": 1, "ids": [257, 99], "pieces": ["ab", "c"]}
    assert document("-p", "abc", path)[0]["ids"] == [257, 99]
    assert document(path, "-p", "--json")[0]["pieces"] == list("--json")
    assert document(path, "-p", "-f")[0]["pieces"] == ["-", "f"]
    assert document(path, "--prompt", "--")[0]["pieces"] == ["-", "-"]
    assert document(path, "-p", "b", "-p", "a")[0]["ids"] == [97]
    assert json.loads(run("--json", "-p", "a", "--", path)[0])["ids"] == [97]


def test_files_and_pipes(folder):
    path = model(folder)
    data = b"ab\0\r\n\xff\xc3\xa9 <s>\n"
    source = folder / "t ö 🙂.txt"
    source.write_bytes(data)
    for value, _ in (document(path, "-f", source), document(path, "--file=%s" % source),
                     document(path, data=data)):
        assert value["ids"][0] == 257 and 256 in value["ids"]
        assert joined(value["pieces"]) == data
        assert {"bytes": "ff"} in value["pieces"]


def test_empty_text(folder):
    path = model(folder)
    nothing = {"schema": 1, "ids": [], "pieces": []}
    assert document(path, "-p", "")[0] == nothing
    assert document(path, "--prompt=")[0] == nothing
    assert document(path)[0] == nothing
    assert document(path, "-f", "/dev/null")[0] == nothing
    assert run(path, "-p", "")[0] == b""
    assert document(path, "-p", "", "--bos")[0]["ids"] == [256]


def test_for_people(folder):
    out, said = run(model(folder), "-p", "ab\n\x1b", "--bos")
    assert out.decode().split("\n") == ["     256  '<s>'", "     257  'ab'", "      10  '\\x0a'",
                                        "      27  '\\x1b'", ""], out
    assert said == ""


def test_begin(folder):
    assert document(model(folder), "-p", "a", "--bos")[0]["ids"] == [256, 97]
    assert document(model(folder), "-p", "a")[0]["ids"] == [97]
    _, said = run(model(folder, begin=None), "-p", "a", "--bos", code=REFUSED)
    assert "begin token" in said and len(said.splitlines()) == 1
    run(model(folder, begin=None), "-p", "a")


def test_bytes_without_a_token(folder):
    path = model(folder, without=(120, 121))
    value, said = document(path, "-p", "axya")
    assert value["ids"] == [97, 97]
    assert "2 bytes" in said and len(said.splitlines()) == 1, said
    assert run(path, "-p", "axya", "--quiet")[1] == ""


def test_long_text(folder):
    path = model(folder)
    data = b"ab" * 500000
    value, _ = document(path, data=data)
    assert value["ids"] == [257] * 500000


def test_refusals(folder):
    path = model(folder)
    other = folder / "other.txt"
    other.write_bytes(b"no model at all")
    for words, parts in (([folder / "none.gguf"], ["none.gguf", "No such file"]),
                         ([other], ["other.txt"]), ([folder], []), (["/dev/null"], []),
                         ([path, "-f", folder / "none.txt"], ["none.txt", "No such file"]),
                         ([path, "-f", folder], ["directory"]),
                         ([model(folder, pre="smol", name="a"), "-p", "a"],
                          ["'smol'", "gpt-2, llama-bpe, qwen2, smollm"]),
                         ([model(folder, begin=258, name="b"), "-p", "a"], ["bos_token_id", "258 tokens"])):
        out, said = run(*words, code=REFUSED)
        assert out == b"" and len(said.splitlines()) == 1 and said.startswith("tenon: "), said
        for part in parts:
            assert part in said, (part, said)


def test_usage(folder):
    path = model(folder)
    for words in ([], [path, "-p", "a", "-f", "b"], [path, "-p"], [path, "-f"], [path, path],
                  [path, "-f", ""], [path, "--promt", "a"], [path, "-x"], [path, "-prompt", "a"],
                  [path, "-pa"], [path, "-n", "3"], ["--", path, "-p", "a"]):
        out, said = run(*words, code=USAGE)
        assert out == b"" and len(said.splitlines()) == 1, said
    assert "--prompt TEXT" in run(path, "-p", code=USAGE)[1]
    assert b"tenon tokenize" in run("--help")[0]
    assert b"  --prompt, -p TEXT " in run("--help")[0]


def test_full_disk(folder):
    with open("/dev/full", "wb") as full:
        for words in ([], ["--json"]):
            said = run(model(folder), "-p", "abc", *words, code=FAILED, out=full)[1]
            assert said.startswith("tenon: "), said


def main():
    global TOOL
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    TOOL = os.path.abspath(sys.argv[1])
    passed = failed = 0
    for name, test in sorted(globals().items()):
        if not name.startswith("test_") or not callable(test):
            continue
        folder = pathlib.Path(tempfile.mkdtemp(prefix="tenon-tokenize-"))
        try:
            test(folder)
            passed += 1
        except Exception:  # a failing test must not hide the others
            print(f"FAIL: {name}")
            traceback.print_exc(file=sys.stdout)
            failed += 1
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
