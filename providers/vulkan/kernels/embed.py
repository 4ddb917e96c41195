"""Compiles the kernels and writes them as words of C: embed.py GLSLC OUT.c [DEPFILE]
or checks every module with SPIR-V's validator:        embed.py GLSLC --validate SPIRV_VAL

The table below is the one list of kernels (enum vulkan_kernel_id of kernels.h has the same order). A
module in which an addition, product or quotient may be contracted is refused."""
import os
import re
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))

# name, source, defines, bindings, texel bindings (None: both flavours are the same), push words, constants,
# has fused()
KERNELS = [
    ('probe', 'probe', [], 2, None, 1, 1, True),
    ('round', 'round', [], 2, None, 6, 1, False),
    ('stage', 'stage', [], 2, None, 6, 1, False),
    ('gemv_a8', 'product_a8', ['TOKENS=1u'], 4, [0, 1, 2], 32, 5, False),
    ('gemm_a8', 'product_a8', ['TOKENS=4u'], 4, [0, 1, 2], 32, 5, False),
    ('gemv_f32', 'product_f32', ['TOKENS=1u'], 4, [0, 1, 2], 32, 5, True),
    ('gemm_f32', 'product_f32', ['TOKENS=4u'], 4, [0, 1, 2], 32, 5, True),
    ('groups_a8', 'groups', ['A8'], 4, [0, 1, 2], 32, 1, False),
    ('groups_f32', 'groups', [], 4, [0, 1, 2], 32, 1, True),
    ('embed', 'embed', [], 4, None, 16, 5, True),
    ('rmsnorm', 'rmsnorm', [], 6, [], 14, 3, True),
    ('gated', 'gated', [], 4, [], 10, 3, True),
    ('add', 'add', [], 3, None, 7, 1, False),
    ('argmax', 'argmax', [], 2, None, 6, 1, False),
    ('argmax_last', 'argmax_last', [], 2, None, 6, 1, False),
    ('append', 'append', [], 7, None, 10, 3, True),
    ('length', 'length', [], 1, None, 2, 1, False),
    ('scores', 'scores', [], 5, [0], 16, 3, True),
    ('segments', 'segments', [], 3, [0], 16, 3, True),
    ('combine', 'combine', [], 4, [], 16, 4, False),
    ('move', 'move', [], 3, None, 11, 3, True),
]

OP_DECORATE = 71
FLOAT_STEPS = {129: 'FAdd', 131: 'FSub', 133: 'FMul', 136: 'FDiv', 142: 'VectorTimesScalar',
               148: 'Dot'}
NO_CONTRACTION = 42


def check(words, name):
    """Every float step of a module is marked as not to be contracted."""
    at, marked, steps = 5, set(), {}
    while at < len(words):
        count, op = words[at] >> 16, words[at] & 0xffff
        if op == OP_DECORATE and words[at + 2] == NO_CONTRACTION:
            marked.add(words[at + 1])
        if op in FLOAT_STEPS:
            steps[words[at + 2]] = FLOAT_STEPS[op]
        at += count
    loose = {id_: what for id_, what in steps.items() if id_ not in marked}
    if loose:
        sys.exit(f'{name}: float steps that may be contracted: {loose}')


def compile_module(glslc, source, defines, name, validator=None):
    # Not optimized here: spirv-opt loses decorations where it unrolls. Drivers optimize by themselves.
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, 'module.spv')
        subprocess.run([glslc, '--target-env=vulkan1.2', '-O0', '-fshader-stage=compute',
                        *['-D' + d for d in defines], os.path.join(HERE, source + '.comp'),
                        '-o', out], check=True)
        if validator:
            subprocess.run([validator, '--target-env', 'vulkan1.2', out], check=True)
        with open(out, 'rb') as file:
            data = file.read()
    words = struct.unpack(f'<{len(data) // 4}I', data)
    check(words, name)
    return words


def write_words(out, name, words):
    out.append(f'static const uint32_t {name}[{len(words)}] = {{')
    for first in range(0, len(words), 8):
        out.append(' '.join(f'0x{w:08x},' for w in words[first:first + 8]))
    out.append('};')


def variants(texel, fused):
    """The modules of one kernel in the order of its table entry: flavour, then math."""
    return [(['TEXEL'] if flavour and texel is not None else []) + (['DOUBLE'] if math and fused else [])
            for flavour in range(2) for math in range(2)]


def validate(glslc, validator):
    count = 0
    for name, source, defines, _, texel, _, _, fused in KERNELS:
        for extra in {tuple(v) for v in variants(texel, fused)}:
            compile_module(glslc, source, defines + list(extra), name, validator)
            count += 1
    print(f'{count} passed, 0 failed, 0 skipped')


def main():
    glslc, target = sys.argv[1:3]
    if target == '--validate':
        validate(glslc, sys.argv[3])
        return
    out = ['/* Made by kernels/embed.py. */', '#include "kernels.h"', '']
    table = []
    for name, source, defines, bindings, texel, push, constants, fused in KERNELS:
        modules = []
        for extra in variants(texel, fused):
            known = '_'.join(['words', name] + [e.lower() for e in extra])
            if known not in modules:
                write_words(out, known, compile_module(glslc, source, defines + extra, known))
            modules.append(known)
        mask = sum(1 << b for b in texel or [])
        cell = [f'{{{m}, sizeof {m}}}' for m in modules]
        table.append(f'    [VULKAN_{name.upper()}] = {{"{name}", {bindings}, {mask}, {4 * push}, {constants},\n'
                     f'        {{{{{cell[0]}, {cell[1]}}}, {{{cell[2]}, {cell[3]}}}}}}},')
    out += ['', 'const vulkan_kernel vulkan_kernels[VULKAN_KERNEL_COUNT] = {', *table, '};', '']
    with open(target, 'w', encoding='ascii') as file:
        file.write('\n'.join(out))
    if len(sys.argv) > 3:
        sources = sorted(f for f in os.listdir(HERE) if re.search(r'\.(comp|glsl)$', f))
        with open(sys.argv[3], 'w', encoding='utf-8') as file:
            file.write(f'{target}: ' + ' '.join(os.path.join(HERE, s) for s in sources) + '\n')


main()
