#!/usr/bin/env python3
"""Generates from abi/symbols.def, the one table of exported names.

usage: symbols.py KIND SYMBOLS_DEF [OUTPUT]
  map    GNU ld version script of a provider: exports the table's names, hides the rest
  def    module definition file of a Windows provider
  names  one line a name: "name kind type"
  doc    the table of SPEC.md, in Markdown
  check  SPEC_MD in place of OUTPUT: fails when its table is not the generated one
"""
import re
import sys


def read(path):
    """The rows of symbols.def: (name, kind, type, header, [(direction, field)])."""
    text = re.sub(r"/\*.*?\*/", "", open(path, encoding="utf-8").read(), flags=re.S)
    rows = []
    for call in re.finditer(r"TENON_SYMBOL(_VIEW)?\(([^)]*)\)", text):
        fields = [field.strip() for field in call.group(2).split(",")]
        if call.group(1):
            row = next(row for row in rows if row[0] == fields[0])
            row[4].append((fields[1], fields[2]))
        else:
            name, kind, type_, header = fields
            if kind not in ("MANDATORY", "OPTIONAL"):
                sys.exit(f"{path}: {name}: kind {kind} is neither MANDATORY nor OPTIONAL")
            rows.append((name, kind, type_, header, []))
    if not rows:
        sys.exit(f"{path}: no TENON_SYMBOL rows")
    return rows


def doc(rows):
    lines = ["| name | kind | descriptor | header | views in | views out |",
             "|---|---|---|---|---|---|"]
    for name, kind, type_, header, views in rows:
        ins, outs = (", ".join(f"`{f}`" for d, f in views if d == way) or "–"
                     for way in ("IN", "OUT"))
        lines.append(f"| `{name}` | {kind.lower()} | `{type_}` | `{header}` | {ins} | {outs} |")
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    kind, rows = sys.argv[1], read(sys.argv[2])
    names = [row[0] for row in rows]
    if kind == "map":
        out = "{\n    global:\n" + "".join(f"        {n};\n" for n in names) + "    local: *;\n};\n"
    elif kind == "def":
        out = "EXPORTS\n" + "".join(f"    {n} DATA\n" for n in names)
    elif kind == "names":
        out = "".join(f"{row[0]} {row[1]} {row[2]}\n" for row in rows)
    elif kind == "doc":
        out = doc(rows)
    elif kind == "check":
        if doc(rows) not in open(sys.argv[3], encoding="utf-8").read():
            sys.exit(f"{sys.argv[3]}: the table of names is not the one of symbols.def; it should read\n\n"
                     + doc(rows))
        return
    else:
        sys.exit(__doc__)
    if len(sys.argv) > 3:
        with open(sys.argv[3], "w", encoding="utf-8") as file:
            file.write(out)
    else:
        sys.stdout.write(out)


main()
