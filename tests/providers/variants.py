#!/usr/bin/env python3
"""The fixtures: which file is made of fixture.c with which macros.

    variants.py SYMBOLS_DEF          one line a variant: NAME|COMPILE ARGUMENTS|LINK ARGUMENTS

The file of variant NAME is tenon-NAME.so and its id is NAME, unless the defect is about ids. The
variants about exported names are made for every mandatory name of abi/symbols.def."""
import re
import sys

DEFECTS = """
wrong_bit writes_past_y writes_then_fails writes_x fails loses_device declines_run nonsense_status
flushes_in_run slow prints declines_all no_memory null_prepared ignores_groups stale_weight
null_provider null_device flushes_in_open crashes_in_open signal_in_open locale_in_open
directory_in_open thread_in_open descriptor_in_open driver_too_old runtime_absent no_device kinds
software_only
""".split()

AT_LOAD = """
aborts_at_load loops_at_load exits_at_load illegal_at_load flushes_at_load prints_at_load
logs_at_unload marks_at_load grows_at_load
""".split()

# defects of run that stay hidden from a short look: they show from three tokens on, or late
LATE = """
wrong_bit writes_past_y writes_then_fails fails loses_device nonsense_status flushes_in_run
""".split()


def mandatory_names(symbols_def):
    with open(symbols_def, encoding="utf-8") as file:
        names = re.findall(r"^TENON_SYMBOL\((\w+), MANDATORY,", file.read(), re.M)
    if not names:
        raise SystemExit(f"{symbols_def}: no mandatory name")
    return names


def variants(symbols_def):
    """Yields (name, compile arguments, link arguments)."""

    def fixture(name, *compile_args, link=(), id_=None):
        return name, [f'-DFIXTURE_ID="{id_ or name}"', *compile_args], list(link)

    yield fixture("good")
    yield fixture("good_two")
    for name in mandatory_names(symbols_def):
        short = name.rsplit("_v", 1)[0]
        yield fixture(f"omits_{short}", f"-DFIXTURE_OMIT_{name}")
        yield fixture(f"function_{short}", f"-DFIXTURE_FUNCTION_{name}")
        yield fixture(f"old_{short}", f"-DFIXTURE_OLD_{name}={short}_v0")
        yield fixture(f"unversioned_{short}", f"-DFIXTURE_OLD_{name}={short}")
        yield fixture(f"short_{short}", f"-DFIXTURE_SHORT_{name}")
        yield fixture(f"long_zero_{short}", f"-DFIXTURE_LONG_{name}=0",
                      f"-DFIXTURE_{short.upper()}_SIZE=sizeof(tenon_{name})+16")
        yield fixture(f"long_{short}", f"-DFIXTURE_LONG_{name}=0x1234",
                      f"-DFIXTURE_{short.upper()}_SIZE=sizeof(tenon_{name})+16")
        # says it is longer than the object in the file
        yield fixture(f"overstates_{short}",
                      f"-DFIXTURE_{short.upper()}_SIZE=sizeof(tenon_{name})+4096")
        # says it is shorter than the object in the file
        yield fixture(f"understates_{short}",
                      f"-DFIXTURE_{short.upper()}_SIZE=sizeof(tenon_{name})-8")
        yield fixture(f"empty_{short}", f"-DFIXTURE_{short.upper()}_SIZE=0")
        for word, abi in (("zero", "0"), ("next", "TENON_ABI_VERSION+1"),
                          ("five", "TENON_ABI_VERSION+5"), ("huge", "0xFFFFFFFFu")):
            yield fixture(f"abi_{word}_{short}", f"-DFIXTURE_{short.upper()}_ABI={abi}")
    yield fixture("unknown_need", "-DFIXTURE_NEEDS=4")
    yield fixture("unknown_need_high", "-DFIXTURE_NEEDS=0x8000000000000000u")
    yield fixture("reserved", "-DFIXTURE_RESERVED=7")
    yield fixture("id_upper", id_="Acme")
    yield "id_empty", ["-DFIXTURE_EMPTY_ID"], []
    yield "id_quote", ["-DFIXTURE_QUOTED_ID"], []
    yield fixture("id_endless", id_="abcdefghijabcdefghijabcdefghijab")
    yield fixture("null_open", "-DFIXTURE_OPEN=NULL")
    yield fixture("null_run", "-DFIXTURE_RUN=NULL")
    yield fixture("half_queue", "-DFIXTURE_WITH_QUEUE_OPEN",
                  "-DFIXTURE_QUEUE_OPEN=fixture_queue_open")
    # struct sizes stated too small to hold what the call needs, or absurd
    yield fixture("knows_no_call", "-DFIXTURE_CALL_SIZE=8")
    yield fixture("knows_no_desc", "-DFIXTURE_DESC_SIZE=0")
    yield fixture("knows_no_error", "-DFIXTURE_ERROR_SIZE=0")
    yield fixture("knows_no_services", "-DFIXTURE_SERVICES_SIZE=12")
    yield fixture("knows_huge_call", "-DFIXTURE_CALL_SIZE=0x7FFFFFF8")
    yield fixture("knows_later_call", "-DFIXTURE_CALL_SIZE=sizeof(tenon_qmatmul_call)+32")
    for defect in DEFECTS:
        yield fixture(defect, f"-DDEFECT=DEFECT_{defect.upper()}")
    for defect in LATE:
        yield fixture(f"late_{defect}", f"-DDEFECT=DEFECT_{defect.upper()}",
                      "-DFIXTURE_FROM_TOKENS=3")
    yield fixture("fails_at_call", "-DDEFECT=DEFECT_FAILS", "-DFIXTURE_FROM_CALL=100")
    for defect in AT_LOAD:
        yield fixture(defect, f"-DDEFECT=DEFECT_{defect.upper()}", "-DFIXTURE_AT_LOAD")
    # code that would run if the file were loaded, in a file that must be refused before
    yield fixture("old_and_marks", "-DDEFECT=DEFECT_MARKS_AT_LOAD", "-DFIXTURE_AT_LOAD",
                  "-DFIXTURE_OLD_qmatmul_v1=qmatmul_v0")
    yield fixture("twin_a", id_="twin")
    yield fixture("twin_b", id_="twin")
    yield fixture("shares_a", "-DFIXTURE_SHARED_NAMES")
    yield fixture("shares_b", "-DFIXTURE_SHARED_NAMES")
    yield fixture("unresolved", "-DFIXTURE_UNRESOLVED", link=["-Wl,-z,undefs"])
    yield fixture("executable_stack", link=["-Wl,-z,execstack"])
    yield fixture("text_relocation", "-DFIXTURE_TEXT_RELOCATION", link=["-Wl,-z,notext"])
    yield fixture("static_tls", "-DFIXTURE_STATIC_TLS")


if __name__ == "__main__":
    for variant, compiling, linking in variants(sys.argv[1]):
        print(variant, ";".join(compiling), ";".join(linking), sep="|")
