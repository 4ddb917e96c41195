#!/usr/bin/env python3
"""Writes the golden ids of the tokenizer tests: what the PyPI package llama-cpp-python says.

    python3 make_golden.py MODEL.gguf OUT.txt [NAME...]

A line of OUT is a text, a tab, and its ids. In the text every byte but printable ASCII, and the
backslash, is \\xNN. Texts with a NAME in them are left out: the package takes some names for control
tokens whatever the file says of them. The package is a peer for making this data; no test needs it.
"""
import sys

import llama_cpp

from make_text import escape
from strings import WRITTEN, generated


def main():
    model, out = sys.argv[1:3]
    left_out = sys.argv[3:]
    peer = llama_cpp.Llama(model, vocab_only=True, verbose=False)
    with open(out, "w", encoding="ascii") as file:
        file.write("# ids by llama-cpp-python %s\n" % llama_cpp.__version__)
        for text in WRITTEN + list(generated(150, 1)):
            if any(name in text for name in left_out):
                continue
            data = text.encode()
            # an empty text is no question to the package
            ids = peer.tokenize(data, add_bos=False, special=True) if data else []
            file.write("%s\t%s\n" % (escape(data), " ".join(map(str, ids))))


if __name__ == "__main__":
    main()
