#!/usr/bin/env python3
"""The inner loops of the CPU provider's matrix kernels keep their accumulators in registers.

usage: test_kernel_loops.py PROVIDER COMPILER OPTIMIZATION SANITIZER

Disassembles the provider and looks at every innermost loop of the kernels: vector registers that are
stored to the stack there are accumulators for which the compiler found no register, which costs more
than the arithmetic around them. A few constants and pieces that are put aside are no matter, so a
share of a function's vector instructions is allowed. All this is the business of GCC at -O3; what was
compiled otherwise, and machines without objdump, are skipped.
Prints "N passed, N failed, N skipped" last.
"""
import re
import shutil
import subprocess
import sys

KERNELS = re.compile(r"^(a8|f32|attention)_")
MOST = 0.10
# Kernels that are known to do worse: twelve accumulators and what they need exceed sixteen registers.
ALLOWED = {"f32_tile_1_6": 0.30}

HEAD = re.compile(r"^[0-9a-f]+ <(.+)>:$")
LINE = re.compile(r"^\s*([0-9a-f]+):\t([a-z0-9]+)\s*(.*)$")
VECTOR = re.compile(r"%[yz]mm\d+")


def functions(text):
    """Name and list of (address, mnemonic, operands) of each function."""
    name, body = None, []
    for line in text.splitlines():
        head = HEAD.match(line)
        if head:
            if name:
                yield name, body
            name, body = head.group(1), []
            continue
        found = LINE.match(line)
        if found and name:
            body.append((int(found.group(1), 16), found.group(2), found.group(3)))
    if name:
        yield name, body


def innermost_loops(body):
    """Ranges of addresses that a jump backwards closes and that hold no other such range."""
    first = body[0][0] if body else 0
    ranges = set()
    for address, mnemonic, operands in body:
        target = re.match(r"([0-9a-f]+) <", operands) if mnemonic.startswith("j") else None
        if target and first <= int(target.group(1), 16) <= address:
            ranges.add((int(target.group(1), 16), address))
    return [one for one in ranges
            if not any(other != one and one[0] <= other[0] and other[1] <= one[1]
                       for other in ranges)]


def stores(body):
    """Vector instructions of innermost loops, those of them that store to the stack, and those that
    reach it through an index: an array of accumulators."""
    framed = any(mnemonic == "mov" and operands == "%rsp,%rbp" for _, mnemonic, operands in body)
    stack = re.compile(r",-?(0x[0-9a-f]+)?\((%rsp|%rbp)(,[^)]*)?\)$" if framed
                       else r",-?(0x[0-9a-f]+)?\((%rsp)(,[^)]*)?\)$")
    loops = innermost_loops(body)
    inside = [f"{address:x}: {mnemonic} {operands}" for address, mnemonic, operands in body
              if VECTOR.search(operands) and any(low <= address <= high for low, high in loops)]
    return (inside, [line for line in inside if stack.search(line)],
            [line for line in inside if re.search(r"\(%rsp,|,%rsp,", line)])


def check_itself():
    """A planted store is seen, a load and what lies outside of loops are not."""
    text = """
0000000000001000 <clean>:
    1000:\tvmovaps %ymm1,0x20(%rsp)
    1004:\tvfmadd231ps (%rdi),%ymm0,%ymm1
    1008:\tdec    %ecx
    100a:\tjne    1004 <clean+0x4>
    100c:\tret
0000000000001010 <spilled>:
    1010:\tvmovaps %zmm1,0x40(%rsp)
    1014:\tvaddps 0x40(%rsp),%zmm0,%zmm0
    1018:\tvmovaps %zmm1,-0x78(%rsp,%rax,1)
    101c:\tjne    1010 <spilled>
0000000000001020 <framed>:
    1020:\tmov    %rsp,%rbp
    1024:\tvmovaps %ymm2,-0x40(%rbp)
    1028:\tjne    1024 <framed+0x4>
"""
    got = {name: tuple(len(part) for part in stores(body)) for name, body in functions(text)}
    return got == {"clean": (1, 0, 0), "spilled": (3, 2, 1), "framed": (1, 1, 0)}


def main():
    if len(sys.argv) != 5:
        print(__doc__, file=sys.stderr)
        print("0 passed, 1 failed, 0 skipped")
        return 1
    objdump = shutil.which("objdump")
    if sys.argv[2:] != ["gcc", "3", "none"] or objdump is None:
        print("SKIP: " + ("compiled by %s -O%s, sanitizer %s" % tuple(sys.argv[2:]) if objdump
                          else "no objdump"))
        print("0 passed, 0 failed, 1 skipped")
        return 0
    text = subprocess.run([objdump, "-d", "--no-show-raw-insn", sys.argv[1]], check=True,
                          capture_output=True, text=True).stdout
    if "elf64-x86-64" not in text:
        print("SKIP: not of x86-64")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    passed, failed = 0, 0
    for name, body in functions(text):
        inside, stored, indexed = stores(body) if KERNELS.match(name) else ((), (), ())
        if not inside:
            continue
        name = re.sub(r"\.(constprop|isra|part|cold).*", "", name)
        most = ALLOWED.get(name, MOST)
        if len(stored) <= most * len(inside) and not indexed:
            passed += 1
            continue
        failed += 1
        print(f"FAIL: {name}: {len(stored)} of {len(inside)} vector instructions of innermost loops "
              f"store to the stack, {most:.0%} are allowed; {len(indexed)} index it, none may")
        print("\n".join("    " + line for line in stored[:12]))
    if not check_itself():
        failed += 1
        print("FAIL: planted spills are not seen")
    if passed + failed < 50:
        failed += 1
        print(f"FAIL: only {passed} kernels were found")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
