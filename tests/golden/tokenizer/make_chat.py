#!/usr/bin/env python3
"""Writes golden prompts: what jinja2 makes of the chat template of a model file.

    python3 make_chat.py MODEL.gguf OUT.txt     (packages gguf and jinja2)

A line of OUT is 1 or 0 (with or without asking for an answer), then role and content of every
message, then the prompt, separated by tabs and escaped as in make_golden.py.
"""
import sys

import gguf
import jinja2

from make_text import escape

CONVERSATIONS = [
    [("user", "Hi")],
    [("user", "")],
    [("user", "  blanks around \n")],
    [("system", "Be brief."), ("user", "What is 1+1?")],
    [("system", ""), ("user", "x")],
    [("user", "Hello"), ("assistant", "Hello! How can I help?"), ("user", "Tell me about Köln 🙂")],
    [("system", "You are a pirate.\nArr."), ("user", "a"), ("assistant", "b"), ("user", "c"),
     ("assistant", "d")],
    [("user", "tab\there 'quoted' \"double\" {{ x }} {% y %} \\n")],
]


def main():
    model, out = sys.argv[1:3]
    field = gguf.GGUFReader(model).fields["tokenizer.chat_template"]
    template = jinja2.Environment().from_string(bytes(field.parts[field.data[0]]).decode())
    with open(out, "w", encoding="ascii") as file:
        for conversation in CONVERSATIONS:
            for answer in (True, False):
                messages = [{"role": role, "content": text} for role, text in conversation]
                prompt = template.render(messages=messages, add_generation_prompt=answer)
                words = [word for message in conversation for word in message] + [prompt]
                file.write("\t".join(["01"[answer]] + [escape(w.encode()) for w in words]) + "\n")


if __name__ == "__main__":
    main()
