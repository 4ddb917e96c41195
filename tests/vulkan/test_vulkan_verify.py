#!/usr/bin/env python3
"""The Vulkan provider through the tool: tenon list, tenon verify, tenon run.

usage: test_vulkan_verify.py TENON [--long]

Parts of the conformance suite: as the device is, through staging, with vectors of several widths,
which change the software device's subgroups, and with the software device passed off as a card. --long runs all of the suite. With
TENON_MODEL_SMOLLM2 and TENON_MODEL_GEMMA3 the models must say on the device what they say on the
processor, with the same logits. Where there is no Vulkan device, or no software one, it says SKIP.

Where the Khronos validation layer is installed it watches these parts, but neither --long, the models,
nor what asks that a provider leaves no file open; any word of it is a failure. A misuse on purpose shows
that it would speak.
"""
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile

TOOL = sys.argv[1]
LONG = "--long" in sys.argv[2:]
NO_DEVICE = 3
LAYER = "VK_LAYER_KHRONOS_validation"
watched = {}  # the environment with the layer, empty where it is not installed
passed = failed = skipped = 0


def run(*arguments, env=None, timeout=3000):
    return subprocess.run([TOOL, *arguments], env={**os.environ, **(env or {})}, timeout=timeout,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


def case(name, good, why=""):
    global passed, failed
    if good:
        passed += 1
    else:
        failed += 1
        print(f"FAILED {name}: {why}")


def skip(name, why):
    global skipped
    skipped += 1
    print(f"SKIP {name}: {why}")


def devices(env=None):
    """The entry of the provider in tenon list."""
    result = run("list", "--json", env=env)
    for provider in json.loads(result.stdout)["providers"]:
        if provider["id"] == "vulkan":
            return provider
    return None


def layer_installed():
    """Does the Vulkan loader know the validation layer?"""
    class Layer(ctypes.Structure):
        _fields_ = [("name", ctypes.c_char * 256), ("versions", ctypes.c_uint32 * 2),
                    ("text", ctypes.c_char * 256)]
    try:
        ask = ctypes.CDLL("libvulkan.so.1").vkEnumerateInstanceLayerProperties
    except (OSError, AttributeError):
        return False
    count = ctypes.c_uint32(64)
    layers = (Layer * count.value)()
    return ask(ctypes.byref(count), layers) >= 0 and any(
        layer.name == LAYER.encode() for layer in layers[:count.value])


def watch(folder):
    """Has the layer watch from here on. A case has a process of its own, whose standard output is
    nowhere, so the layer is told to write to the standard error that they share."""
    with open(os.path.join(folder, "vk_layer_settings.txt"), "w", encoding="ascii") as file:
        file.write("khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG\n"
                   "khronos_validation.report_flags = error,warn\n"
                   "khronos_validation.log_filename = /dev/stderr\n")
    watched.update(VK_INSTANCE_LAYERS=LAYER, VK_LAYER_SETTINGS_PATH=folder)


def speaks(result):
    return "msgNum:" in result.stderr or "alidation" in result.stderr


def verify(name, *arguments, env=None, alone=False):
    """alone: without the layer, which opens a file of its own and leaves memory behind."""
    result = run("verify", "vulkan", "--jobs", "2", *arguments,
                 env={**(env or {}), **({} if alone else watched)})
    if result.returncode == NO_DEVICE:
        skip(name, "no Vulkan device")
        return
    case(name, result.returncode == 0 and not speaks(result),
         (result.stdout + result.stderr)[-2000:])


def check_layer(loader):
    """The layer is heard: a buffer of no bytes, in a case that passes."""
    if not watched or not loader:
        skip("the validation layer", f"{LAYER} is not installed" if loader else "no loader of tests")
        return
    result = run("verify", "vulkan", "--jobs", "2", "--set", "vulkan.library=" + loader, "--filter",
                 "exact/add/*", env={**watched, "TENON_FAULTY_MISUSE": "1"})
    if result.returncode == NO_DEVICE:
        skip("the validation layer", "no Vulkan device")
        return
    case("the validation layer speaks",
         result.returncode == 0 and "VUID-VkBufferCreateInfo-size" in result.stderr,
         f"code {result.returncode}: {(result.stdout + result.stderr)[-2000:]}")


def text_of(model, chain, arith, *more, env=None, tokens="6"):
    """What a run answers: its code, its text and the bits of all logits, and its words."""
    with tempfile.TemporaryDirectory() as folder:
        logits = os.path.join(folder, "logits.npy")
        result = run("run", model, "-p", "Once upon a time", "-n", tokens, "--provider", chain, "--mode",
                     "pin", "--arith", arith, "--logits", logits, *more, env=env)
        bits = b""
        if os.path.exists(logits):
            with open(logits, "rb") as file:
                bits = file.read()
    return result.returncode, (result.stdout, bits), result.stderr


def run_model(name, model, arith, loader):
    """What the processor says, the device says too, in the bits of every logit: alone, with the
    processor behind it, and when it is lost at the first, a middle and a late submit. Class F32 is slow
    where fma is emulated: two tokens, alone."""
    whole = LONG or arith == "a8"
    tokens = "6" if whole else "2"
    code, wanted, words = text_of(model, "cpu", arith, tokens=tokens)
    case(name + " on cpu", code == 0 and wanted[0] and wanted[1], words[-800:])
    for chain in ("vulkan", "vulkan,cpu") if whole else ("vulkan",):
        code, got, words = text_of(model, chain, arith, tokens=tokens)
        case(f"{name} on {chain}", code == 0 and got == wanted,
             f"{got[0]!r}, not {wanted[0]!r}, or other logits: {words[-800:]}")
        graphs = re.search(r"graph +vulkan:0 (\d+) calls", words)
        case(f"{name} on {chain}: steps as graphs", graphs and int(graphs[1]) > 0, words[-800:])
    for n in (4, 9, 13) if loader and whole else ():
        code, got, words = text_of(model, "vulkan,cpu", arith, "--set", "vulkan.library=" + loader,
                                   env={"TENON_FAULTY_CALL": f"QueueSubmit:{n}:-4"})
        case(f"{name}, lost at submit {n}", code == 0 and got == wanted and "is lost" in words,
             f"{got[0]!r}, not {wanted[0]!r}, or other logits: {words[-800:]}")


def main():
    provider = devices()
    case("listed", provider is not None, "tenon list does not know the provider")
    if provider is None:
        return
    nothing = {"VK_ICD_FILENAMES": "/nonexistent", "VK_DRIVER_FILES": "/nonexistent"}
    without = devices(env=nothing)
    case("no driver", without is not None and not without.get("devices"), f"lists {without}")
    result = run("verify", "vulkan", "--stage", "exact", "--filter", "exact/add/*", env=nothing)
    case("verify without a driver", result.returncode == NO_DEVICE,
         f"code {result.returncode}: {result.stdout}{result.stderr}")

    software = any(device.get("kind") == "software" for device in provider.get("devices") or [])
    loader = os.environ.get("TENON_TEST_VULKAN_LOADER")
    check_layer(loader)
    if LONG:
        verify("all", "--time-limit", "600", alone=True)
    else:
        verify("abi", "--stage", "abi", alone=True)
        verify("abi, watched", "--stage", "abi", "--filter", "abi/[!p]*")
        verify("operations", "--filter", "exact/[aegr]*")
        verify("products", "--filter", "exact/qmatmul/*/cols=576*")
    verify("staging", "--set", "vulkan.staging=always", "--filter", "exact/[aeg]*")
    verify("staged products", "--set", "vulkan.staging=always", "--filter",
           "exact/qmatmul/Q4_K/*/cols=768*")
    for way in ("auto", "always"):
        verify("imports, staging=" + way, "--set", "vulkan.import=always", "--set",
               "vulkan.staging=" + way, "--filter", "exact/[aegr]*/*1*")
    for width in (128, 256, 512):
        name = f"vectors of {width} bits"
        if not software:
            skip(name, "no software device")
            continue
        env = {"LP_NATIVE_VECTOR_WIDTH": str(width)}
        verify(name, "--filter", "exact/qmatmul/Q[46]_K/*/cols=256", env=env)
        verify(name + ", operations", "--filter", "exact/[ag]*/*1*", env=env)

    for kind, number in (("integrated", 1), ("discrete", 2)):
        name = f"kernels and memory as on a {kind} device"
        if not loader or not software:
            skip(name, "no software device")
            continue
        env = {"TENON_FAULTY_DEVICE_TYPE": str(number)}
        library = ("--set", "vulkan.library=" + loader)
        verify(name, *library, "--filter", "exact/qmatmul/*/cols=96", env=env)
        verify(name + ", operations", *library, "--filter", "exact/[ag]*/*1*", env=env)

    for variable in ("TENON_MODEL_SMOLLM2", "TENON_MODEL_GEMMA3"):
        model = os.environ.get(variable)
        for arith in ("f32", "a8"):
            name = f"{variable} in {arith}"
            if not model or not provider.get("devices"):
                skip(name, "no model" if not model else "no Vulkan device")
                continue
            run_model(name, model, arith, loader)


with tempfile.TemporaryDirectory() as settings:
    if layer_installed():
        watch(settings)
    main()
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(1 if failed or passed == 0 else 0)
