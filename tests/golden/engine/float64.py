"""Llama and Gemma 3 in NumPy, binary64 throughout: what an engine's logits should be.

Written from the published descriptions of the two families, apart from Tenon's engine, which it is
compared with. The package gguf reads the file and decodes the weights.
"""
import gguf
import numpy as np


class Model:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.fields = {name: field.contents() for name, field in reader.fields.items()
                       if not name.startswith("tokenizer.")}
        self.arch = self.fields["general.architecture"]
        self.raw = {tensor.name: tensor for tensor in reader.tensors}
        self.kept = {}
        self.layers = self.number("block_count")
        self.heads = self.number("attention.head_count")
        self.kv_heads = self.number("attention.head_count_kv", self.heads)
        self.width = self.number("embedding_length")
        self.head = self.number("attention.key_length", self.width // self.heads)
        self.eps = self.number("attention.layer_norm_rms_epsilon")
        self.gemma = self.arch == "gemma3"
        self.base = self.number("rope.freq_base", 10000.0)
        self.window = self.number("attention.sliding_window", 0)
        self.embedding = self.weight("token_embd.weight")
        self.output = self.weight("output.weight") if "output.weight" in self.raw else self.embedding
        self.clear()

    def number(self, key, default=None):
        value = self.fields.get(f"{self.arch}.{key}", default)
        if value is None:
            raise KeyError(key)
        return value

    def weight(self, name):
        if name not in self.kept:
            tensor = self.raw[name]
            value = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            self.kept[name] = np.ascontiguousarray(value, dtype=np.float64)
        return self.kept[name]

    def clear(self):
        self.length = 0
        self.keys = [np.zeros((0, self.kv_heads, self.head)) for _ in range(self.layers)]
        self.values = [np.zeros((0, self.kv_heads, self.head)) for _ in range(self.layers)]

    def norm(self, x, name):
        scale = 1.0 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.eps)
        return x * scale * self.weight(name)

    def rotate(self, x, positions, base):
        """x [tokens][heads][head]: pairs (i, i + half) for Gemma; for Llama files, whose rows of q
        and k are stored in another order, pairs (2i, 2i + 1)."""
        half = self.head // 2
        speed = base ** (-np.arange(half, dtype=np.float64) * 2.0 / self.head)
        angle = positions[:, None, None] * speed
        cos, sin = np.cos(angle), np.sin(angle)
        if self.gemma:
            a, b = x[..., :half], x[..., half:]
            return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
        a, b = x[..., 0::2], x[..., 1::2]
        out = np.empty_like(x)
        out[..., 0::2] = a * cos - b * sin
        out[..., 1::2] = b * cos + a * sin
        return out

    def attention(self, layer, h):
        name = f"blk.{layer}."
        tokens = h.shape[0]
        q = (h @ self.weight(name + "attn_q.weight").T).reshape(tokens, self.heads, self.head)
        k = (h @ self.weight(name + "attn_k.weight").T).reshape(tokens, self.kv_heads, self.head)
        v = (h @ self.weight(name + "attn_v.weight").T).reshape(tokens, self.kv_heads, self.head)
        local = self.gemma and layer % 6 != 5
        if self.gemma:
            q = self.norm(q, name + "attn_q_norm.weight")
            k = self.norm(k, name + "attn_k_norm.weight")
        at = np.arange(self.length, self.length + tokens, dtype=np.float64)
        base = 10000.0 if local else self.base
        q = self.rotate(q, at, base)
        self.keys[layer] = np.concatenate([self.keys[layer], self.rotate(k, at, base)])
        self.values[layer] = np.concatenate([self.values[layer], v])
        past = np.arange(self.length + tokens, dtype=np.float64)
        seen = past[None, :] <= at[:, None]
        if local:
            seen &= past[None, :] > at[:, None] - self.window
        out = np.empty((tokens, self.heads, self.head))
        for head in range(self.heads):
            group = head * self.kv_heads // self.heads
            score = q[:, head] @ self.keys[layer][:, group].T / np.sqrt(float(self.head))
            score = np.where(seen, score, -np.inf)
            score = np.exp(score - score.max(axis=1, keepdims=True))
            score /= score.sum(axis=1, keepdims=True)
            out[:, head] = score @ self.values[layer][:, group]
        return out.reshape(tokens, -1) @ self.weight(name + "attn_output.weight").T

    def feed_forward(self, layer, h):
        name = f"blk.{layer}."
        gate = h @ self.weight(name + "ffn_gate.weight").T
        up = h @ self.weight(name + "ffn_up.weight").T
        if self.gemma:
            inner = np.sqrt(2.0 / np.pi) * (gate + 0.044715 * gate ** 3)
            gate = 0.5 * gate * (1.0 + np.tanh(inner))
        else:
            gate = gate / (1.0 + np.exp(-gate))
        return (gate * up) @ self.weight(name + "ffn_down.weight").T

    def feed(self, ids):
        """Logits behind the last of some more tokens."""
        x = self.embedding[np.asarray(ids)]
        if self.gemma:
            x = x * np.sqrt(float(self.width))
        for layer in range(self.layers):
            name = f"blk.{layer}."
            h = self.attention(layer, self.norm(x, name + "attn_norm.weight"))
            if self.gemma:
                h = self.norm(h, name + "post_attention_norm.weight")
            x = x + h
            h = self.feed_forward(layer, self.norm(x, name + "ffn_norm.weight"))
            if self.gemma:
                h = self.norm(h, name + "post_ffw_norm.weight")
            x = x + h
        self.length += len(ids)
        return self.output @ self.norm(x[-1], "output_norm.weight")
