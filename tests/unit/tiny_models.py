"""Small models for tests: GGUF files with random float weights, and what their logits should be,
in plain Python floats, written apart from the engine. Needs the standard library alone."""
import math
import random
import struct

U32, F32, BOOL, STRING, ARRAY = 4, 6, 7, 8, 9
WORDS = 256 + 3 + 26  # control tokens, bytes, letters


def _text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value):
    """A key's type and bytes by the kind of the Python value."""
    if isinstance(value, tuple):  # (type, packed) as it is
        return struct.pack("<I", value[0]) + value[1]
    if isinstance(value, bool):
        return struct.pack("<IB", BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", U32, value)
    if isinstance(value, float):
        return struct.pack("<If", F32, value)
    if isinstance(value, str):
        return struct.pack("<I", STRING) + _text(value)
    first = value[0]
    if isinstance(first, str):
        return struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(map(_text, value))
    code, form = (F32, "f") if isinstance(first, float) else (5, "i")
    return struct.pack("<IIQ", ARRAY, code, len(value)) + struct.pack(f"<{len(value)}{form}", *value)


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def _q8_0(values):
    """One block of 32 values, rounded."""
    scale = max(map(abs, values)) / 127
    half = struct.unpack("<e", struct.pack("<e", scale))[0]
    codes = [max(-127, min(127, round(v / half))) if half else 0 for v in values]
    return struct.pack("<e32b", half, *codes)


class Tiny:
    """Keys and tensors, to be changed by a test before write()."""

    def __init__(self, arch="llama", layers=2, width=32, heads=4, kv_heads=2, head=8, ffn=48,
                 tied=True, seed=1, window=5, quantized=False):
        self.arch, self.random = arch, random.Random(seed)
        self.quantized = quantized  # matrices to Q8_0; logits() computes with the exact values
        self.keys, self.tensors = {}, {}
        self.layers, self.width, self.heads, self.kv_heads = layers, width, heads, kv_heads
        self.head, self.ffn, self.window = head, ffn, window
        self.gemma = arch == "gemma3"
        self.keys["general.architecture"] = arch
        for name, value in (("block_count", layers), ("context_length", 512),
                            ("embedding_length", width), ("feed_forward_length", ffn),
                            ("attention.head_count", heads), ("attention.head_count_kv", kv_heads),
                            ("attention.layer_norm_rms_epsilon", f32(1e-5)),
                            ("rope.freq_base", 5000.0)):
            self.keys[f"{arch}.{name}"] = value
        if head * heads != width:
            self.keys[f"{arch}.attention.key_length"] = head
            self.keys[f"{arch}.attention.value_length"] = head
        if self.gemma:
            self.keys["gemma3.attention.sliding_window"] = window
        names = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
        names += [chr(97 + i) for i in range(26)]
        self.keys["tokenizer.ggml.model"] = "llama"
        self.keys["tokenizer.ggml.tokens"] = names
        self.keys["tokenizer.ggml.scores"] = [float(-i) for i in range(len(names))]
        self.keys["tokenizer.ggml.token_type"] = [2, 3, 3] + [6] * 256 + [1] * 26
        self.keys["tokenizer.ggml.bos_token_id"] = 1
        self.keys["tokenizer.ggml.eos_token_id"] = 2
        self.keys["tokenizer.ggml.unknown_token_id"] = 0
        self.keys["tokenizer.ggml.add_space_prefix"] = False
        q, kv = heads * head, kv_heads * head
        self.matrix("token_embd.weight", width, WORDS, 1.0)
        if not tied:
            self.matrix("output.weight", width, WORDS, 1.0)
        self.vector("output_norm.weight", width)
        for layer in range(layers):
            name = f"blk.{layer}."
            self.matrix(name + "attn_q.weight", width, q)
            self.matrix(name + "attn_k.weight", width, kv)
            self.matrix(name + "attn_v.weight", width, kv)
            self.matrix(name + "attn_output.weight", q, width)
            self.matrix(name + "ffn_gate.weight", width, ffn)
            self.matrix(name + "ffn_up.weight", width, ffn)
            self.matrix(name + "ffn_down.weight", ffn, width)
            self.vector(name + "attn_norm.weight", width)
            self.vector(name + "ffn_norm.weight", width)
            if self.gemma:
                self.vector(name + "attn_q_norm.weight", head)
                self.vector(name + "attn_k_norm.weight", head)
                self.vector(name + "post_attention_norm.weight", width)
                self.vector(name + "post_ffw_norm.weight", width)

    def matrix(self, name, cols, rows, size=None):
        size = size or 1.5 / math.sqrt(cols)
        values = [f32(self.random.gauss(0.0, size)) for _ in range(cols * rows)]
        self.tensors[name] = ([cols, rows], values)

    def vector(self, name, count, low=0.5, high=1.5):
        self.tensors[name] = ([count], [f32(self.random.uniform(low, high)) for _ in range(count)])

    def stored(self, shape, values):
        """GGUF's type number and the bytes of a tensor."""
        if not self.quantized or len(shape) < 2:
            return 0, struct.pack(f"<{len(values)}f", *values)
        return 8, b"".join(_q8_0(values[i:i + 32]) for i in range(0, len(values), 32))

    def write(self, path):
        data, records = b"", []
        for name, (shape, values) in self.tensors.items():
            kind, stored = self.stored(shape, values)
            records.append(_text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind,
                                                     len(data)))
            data += stored
            data += bytes(-len(data) % 32)
        head = b"GGUF" + struct.pack("<IQQ", 3, len(records), len(self.keys))
        head += b"".join(_text(name) + _value(value) for name, value in self.keys.items())
        head += b"".join(records)
        with open(path, "wb") as file:
            file.write(head + bytes(-len(head) % 32) + data)
        return path

    # ---- what it computes, in binary64 ----

    def number(self, name, default=None):
        return self.keys.get(f"{self.arch}.{name}", default)

    def product(self, name, x):
        (cols, rows), values = self.tensors[name]
        return [sum(values[o * cols + i] * x[i] for i in range(cols)) for o in range(rows)]

    def norm(self, name, x):
        values = self.tensors[name][1]
        scale = 1.0 / math.sqrt(sum(v * v for v in x) / len(x) + self.number(
            "attention.layer_norm_rms_epsilon"))
        return [v * scale * w for v, w in zip(x, values)]

    def rotate(self, x, position, local):
        rotary = self.number("rope.dimension_count", self.head)
        base = 10000.0 if local else self.number("rope.freq_base")
        factor = 1.0
        if self.number("rope.scaling.type") == "linear" and not local:
            factor = self.number("rope.scaling.factor")
        out = list(x)
        for i in range(rotary // 2):
            angle = position * base ** (-2.0 * i / rotary) / factor
            if "rope_freqs.weight" in self.tensors and not local:
                angle /= self.tensors["rope_freqs.weight"][1][i]
            a, b = (i, i + rotary // 2) if self.gemma else (2 * i, 2 * i + 1)
            out[a] = x[a] * math.cos(angle) - x[b] * math.sin(angle)
            out[b] = x[b] * math.cos(angle) + x[a] * math.sin(angle)
        return out

    def heads_of(self, x):
        return [x[i:i + self.head] for i in range(0, len(x), self.head)]

    def attend(self, layer, h, past):
        name, position = f"blk.{layer}.", len(past)
        local = self.gemma and layer % 6 != 5
        q = self.heads_of(self.product(name + "attn_q.weight", h))
        k = self.heads_of(self.product(name + "attn_k.weight", h))
        v = self.heads_of(self.product(name + "attn_v.weight", h))
        if self.gemma:
            q = [self.norm(name + "attn_q_norm.weight", one) for one in q]
            k = [self.norm(name + "attn_k_norm.weight", one) for one in k]
        q = [self.rotate(one, position, local) for one in q]
        past.append(([self.rotate(one, position, local) for one in k], v))
        seen = past[-self.window:] if local else past
        out = []
        for head, one in enumerate(q):
            group = head * self.kv_heads // self.heads
            scores = [sum(a * b for a, b in zip(one, keys[group])) / math.sqrt(self.head)
                      for keys, _ in seen]
            top = max(scores)
            weights = [math.exp(s - top) for s in scores]
            total = sum(weights)
            out += [sum(w * values[group][i] for w, (_, values) in zip(weights, seen)) / total
                    for i in range(self.head)]
        return self.product(name + "attn_output.weight", out)

    def feed_forward(self, layer, h):
        name = f"blk.{layer}."
        gate = self.product(name + "ffn_gate.weight", h)
        up = self.product(name + "ffn_up.weight", h)
        if self.gemma:
            gate = [0.5 * g * (1 + math.tanh(math.sqrt(2 / math.pi) * (g + 0.044715 * g ** 3)))
                    for g in gate]
        else:
            gate = [g / (1.0 + math.exp(-g)) for g in gate]
        return self.product(name + "ffn_down.weight", [g * u for g, u in zip(gate, up)])

    def logits(self, ids):
        """Of what follows each of ids."""
        pasts, rows = [[] for _ in range(self.layers)], []
        table = self.tensors["token_embd.weight"][1]
        for token in ids:
            x = table[token * self.width:(token + 1) * self.width]
            if self.gemma:
                x = [v * math.sqrt(self.width) for v in x]
            for layer in range(self.layers):
                name = f"blk.{layer}."
                h = self.attend(layer, self.norm(name + "attn_norm.weight", x), pasts[layer])
                if self.gemma:
                    h = self.norm(name + "post_attention_norm.weight", h)
                x = [a + b for a, b in zip(x, h)]
                h = self.feed_forward(layer, self.norm(name + "ffn_norm.weight", x))
                if self.gemma:
                    h = self.norm(name + "post_ffw_norm.weight", h)
                x = [a + b for a, b in zip(x, h)]
            output = "output.weight" if "output.weight" in self.tensors else "token_embd.weight"
            rows.append(self.product(output, self.norm("output_norm.weight", x)))
        return rows
