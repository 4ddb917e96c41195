"""How texts are written in the golden files."""


def escape(data):
    """Bytes in printable ASCII; all others, and the backslash, as \\xNN."""
    return "".join(chr(b) if 32 <= b < 127 and b != 92 else "\\x%02x" % b for b in data)
