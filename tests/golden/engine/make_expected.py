#!/usr/bin/env python3
"""Makes expected-<name>.json from a model file: what float64.py says to the prompts of prompts.py.

    make_expected.py MODEL.gguf NAME     needs numpy, gguf, llama-cpp-python (its tokenizer only)

For each prompt: ids, the greedy tokens that follow, for each of them how far the best logit is
ahead of the second, and of the first and the last step every 97th logit (of a large vocabulary
every 485th).
"""
import json
import pathlib
import sys

import llama_cpp
import numpy as np

import float64
import prompts

STEPS = 16


def main():
    path, name = sys.argv[1:]
    words = llama_cpp.Llama(path, vocab_only=True, verbose=False)
    model = float64.Model(path)
    every = 97 if len(model.output) < 100000 else 485
    begin = model.gemma  # as tokenizer.ggml.add_bos_token of the two files says
    entries = []
    for text in prompts.PROMPTS:
        ids = words.tokenize(text.encode(), add_bos=begin, special=True)
        model.clear()
        logits = model.feed(ids)
        entry = {"prompt": ids, "tokens": [], "ahead": [], "sampled": []}
        for step in range(STEPS):
            best, second = np.sort(logits)[-1:-3:-1]
            token = int(np.argmax(logits))
            entry["tokens"].append(token)
            entry["ahead"].append(float(f"{best - second:.4g}"))
            if step in (0, STEPS - 1):
                entry["sampled"].append([float(f"{value:.6g}") for value in logits[::every]])
            if step + 1 < STEPS:
                logits = model.feed([token])
        entries.append(entry)
        print(len(ids), entry["tokens"], flush=True)
    out = pathlib.Path(__file__).parent / f"expected-{name}.json"
    document = {"steps": STEPS, "every": every, "vocabulary": len(logits), "prompts": entries}
    out.write_text(json.dumps(document, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
