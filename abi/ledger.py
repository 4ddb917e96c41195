#!/usr/bin/env python3
"""The ABI ledger: offset, size and end of every field and the value of every constant.

usage: ledger.py check  MODEL COMPILER...   fails unless the headers match ledger/MODEL.txt
       ledger.py append MODEL COMPILER...   appends what is new, refuses any other change
       ledger.py reset  MODEL COMPILER...   starts anew; reads the reason from TENON_LEDGER_REASON

MODEL is lp64 or llp64. COMPILER is any C11 compiler for that data model; nothing is executed: the
numbers are read from the assembly it writes, so a cross compiler will do. A ledger may only grow at
its end: a line that changes or goes away breaks every provider built before. Until version 1.0 a
reset is allowed, with its reason on the first line.
"""
import os
import re
import subprocess
import sys
import tempfile

ABI = os.path.dirname(os.path.abspath(__file__))
HEADERS = ["base.h", "types.h", "format.h", "provider.h", "engine.h"] + \
    sorted("op/" + name for name in os.listdir(os.path.join(ABI, "tenon", "op")))
# Structs that never cross the border: helpers of one side.
LOCAL = {"tenon_format_info"}


def fields_of(body):
    """Member names of a struct body in order."""
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    names = []
    for member in body.split(";"):
        member = " ".join(member.split())
        if not member:
            continue
        pointer = re.search(r"\(TENON_CALL \*(\w+)\)", member)
        if pointer:
            names.append(pointer.group(1))
            continue
        for part in re.sub(r"^(const )?(struct )?\w+ ", "", member).split(","):
            names.append(re.search(r"(\w+)(\[\w+\])?$", part.strip()).group(1))
    return names


def items():
    """('field', struct, field) and ('const', name) in a fixed order."""
    fields, constants = [], []
    for header in HEADERS:
        text = open(os.path.join(ABI, "tenon", header), encoding="utf-8").read()
        for match in re.finditer(r"typedef struct (\w+) \{(.*?)\n\} \1;", text, flags=re.S):
            if match.group(1) not in LOCAL:
                fields += [("field", match.group(1), name) for name in fields_of(match.group(2))]
        for name, value in re.findall(r"^#define (TENON_[A-Z0-9_]+)(?: +|\s*\\\n\s*)([^\s\\].*)$", text, flags=re.M):
            if re.match(r"^(\(-\d+\)|-?\d+u?|0x[0-9a-fA-F]+u?|UINT64_MAX)( |$)", value):
                constants.append(("const", name))
    for table, prefix in (("reasons.def", "REASON"), ("formats.def", "FORMAT")):
        text = re.sub(r"/\*.*?\*/", "", open(os.path.join(ABI, "tenon", table), encoding="utf-8").read(), flags=re.S)
        constants += [("const", f"TENON_{prefix}_{name}")
                      for name in re.findall(rf"TENON_{prefix}\((\w+),", text)]
    return fields + constants


def measure(compiler):
    """The ledger's lines as this compiler sees the headers."""
    rows = items()
    source = "".join(f"#include <tenon/{header}>\n" for header in HEADERS)
    for i, row in enumerate(rows):
        if row[0] == "field":
            source += f"const uint64_t ledger_{i}[2] = {{offsetof({row[1]}, {row[2]}), " \
                      f"sizeof((({row[1]} *)0)->{row[2]})}};\n"
        else:
            source += f"const uint64_t ledger_{i}[2] = {{(uint64_t)(int64_t)({row[1]}), 1}};\n"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ledger.c")
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
        result = subprocess.run(compiler + ["-std=c11", "-O0", "-g0", "-I", ABI, "-S", "-o", "-", path],
                                capture_output=True, text=True, check=False)
        if result.returncode != 0:
            sys.exit("ledger: the compiler failed:\n" + result.stderr)
    values, current = {}, None
    for line in result.stdout.splitlines():
        label = re.match(r"^_?(ledger_\d+):", line)
        if label:
            current = int(label.group(1)[len("ledger_"):])
            values[current] = []
        elif current is not None:
            data = re.match(r"\s+\.(quad|xword|8byte|zero)\s+(-?(0x)?[0-9a-fA-F]+)", line)
            if data and data.group(1) == "zero":
                values[current] += [0] * (int(data.group(2)) // 8)
            elif data:
                values[current].append(int(data.group(2), 0) & (2**64 - 1))
    lines = []
    for i, row in enumerate(rows):
        if len(values.get(i, [])) != 2:
            sys.exit(f"ledger: cannot read {row} from the compiler's assembly")
        first, second = values[i]
        if row[0] == "field":
            lines.append(f"{row[1]}.{row[2]} offset {first} size {second} end {first + second}")
        else:
            signed = first - 2**64 if first >= 2**63 and first != 2**64 - 1 else first
            lines.append(f"{row[1]} = {signed}")
    return lines


def read_ledger(text):
    lines = text.splitlines()
    head = [line for line in lines if line.startswith("#")]
    return head, [line for line in lines if line and not line.startswith("#")]


def compare(known, now):
    """(complaints, lines to append)."""
    current, complaints = set(now), []
    keys = {line.split(" ")[0]: line for line in now}
    for line in known:
        if line not in current:
            other = keys.get(line.split(" ")[0])
            complaints.append(f"changed: {line}\n     now: {other}" if other else f"removed: {line}")
    old = set(known)
    if len(old) != len(known):
        complaints.append("a line stands twice")
    return complaints, [line for line in now if line not in old]


def committed(path):
    """The ledger of the last commit, or None outside a checkout."""
    result = subprocess.run(["git", "-C", ABI, "show", "HEAD:./" + os.path.relpath(path, ABI)],
                            capture_output=True, text=True, check=False)
    return result.stdout if result.returncode == 0 else None


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in ("check", "append", "reset"):
        sys.exit(__doc__)
    verb, model, compiler = sys.argv[1], sys.argv[2], sys.argv[3:]
    path = os.path.join(ABI, "ledger", model + ".txt")
    now = measure(compiler)
    if verb == "reset":
        reason = os.environ.get("TENON_LEDGER_REASON", "").strip()
        if not reason:
            sys.exit("ledger: a reset needs its reason in TENON_LEDGER_REASON")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"# reset: {reason}\n" + "\n".join(now) + "\n")
        return
    head, known = read_ledger(open(path, encoding="utf-8").read())
    complaints, new = compare(known, now)
    before = committed(path)
    if before is not None:
        old_head, old = read_ledger(before)
        if old_head == head and known[:len(old)] != old:
            complaints.append("the ledger was changed before its end without a reset")
    if complaints:
        sys.exit(f"ledger {model}: the ABI changed:\n" + "\n".join(complaints))
    if verb == "append" and new:
        with open(path, "a", encoding="utf-8") as file:
            file.write("\n".join(new) + "\n")
    elif new:
        sys.exit(f"ledger {model}: not recorded yet (ledger.py append {model} ...):\n" + "\n".join(new))
    print(f"ledger {model}: {len(now)} lines hold")


main()
