#!/usr/bin/env python3
"""Runs `meson test` and adds up what each test program says of itself.

usage: meson_tests.py BUILD_DIR [meson test option...]

A program's last line "N passed, N failed, N skipped" counts as it says; a program without one counts
as one. meson hides those lines, and a suite that ran nothing must not pass.
"""
import glob
import json
import os
import re
import subprocess
import sys

LINE = re.compile(r"^(?:[\w-]+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.M)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build, options = sys.argv[1], sys.argv[2:]
    logs = os.path.join(build, "meson-logs", "testlog*.json")  # with --wrap its name is in it
    for log in glob.glob(logs):
        os.remove(log)
    status = subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "--num-processes", "2", *options],
                            stdout=subprocess.DEVNULL, check=False).returncode
    passed = failed = skipped = programs = 0
    if not glob.glob(logs):
        sys.exit(f"{build}: there is no build to test\n0 passed, 1 failed, 0 skipped")
    for line in open(glob.glob(logs)[0], encoding="utf-8"):
        test = json.loads(line)
        programs += 1
        output = test.get("stdout") or ""
        found = LINE.findall(output)
        good = test["result"] in ("OK", "EXPECTEDFAIL")
        if found:
            p, f, s = (int(x or 0) for x in found[-1])
        elif test["result"] == "SKIP":
            p, f, s = 0, 0, 1
        else:
            p, f, s = (1, 0, 0) if good else (0, 1, 0)
        if not good and test["result"] != "SKIP" and f == 0:
            f = 1
        passed, failed, skipped = passed + p, failed + f, skipped + s
        print(f"{'ok  ' if f == 0 else 'FAIL'} {test['name']}: {p} passed, {f} failed, {s} skipped "
              f"in {test['duration']:.1f} s")
        if f:
            # indented, so that the counts in it are not counted again
            said = output[-4000:] + (test.get("stderr") or "")[-4000:]
            print("\n".join("    " + line for line in said.splitlines()))
    if programs == 0:
        print("no test program ran")
        failed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed or status or passed == 0 else 0)


main()
