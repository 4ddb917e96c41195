"""The strings of the golden tokenizer data: every kind of text that tokenizers differ on."""
import random

WRITTEN = [
    # nothing, spaces, ends of line
    "", " ", "  ", "   ", "    ", "        ", " " * 31, " " * 32, " " * 33, " " * 100, "\n", "\n\n",
    "\n\n\n", "\n" * 10, "\n" * 31, "\n" * 40, "\t", "\t\t", "\t\t\t\t", "\r", "\r\n", "\r\n\r\n",
    "\n\r", " \n", "\n ", " \n \n", "  \n  \n  ", "\t\n", "\n\t", "\v", "\f", " \t ", "\t \t",
    " a", "  a", "   a", "a ", "a  ", "a   ", " a ", "  a  b   c  ", "a b", "a  b", "a   b",
    "a\nb", "a\n\nb", "a\n\n\nb", "a \nb", "a\n b", "a \n b", "a  \n  b", "a\tb", "a\t\tb",
    "a \tb", "a\t b", "\na", "\n\na", " \na", "a\n", "a\n\n", "a \n", "a\r\nb", "a\r\n\r\nb",
    "\u00a0", "a\u00a0b", " \u00a0 ", "\u2003x", "x\u2003\u2003y", "a\u2028b\u2029c", "\u3000全角",
    "\u1680", "\u180e", "a\u180eb", "a \u180e b", "\u200b", "a\u200bb", "\u202f1\u202f000", "\x85a",
    "x\u205fy", "\ufeffbom", " \u200d ",
    # words and contractions
    "Hello", "hello", "HELLO", "Hello world", "Hello, world!", " Hello", "Hello World", "HelloWorld",
    "The quick brown fox jumps over the lazy dog.", "antidisestablishmentarianism",
    "I'm", "I'M", "you're", "YOU'RE", "we've", "WE'VE", "he'll", "HE'LL", "they'd", "it's", "IT'S",
    "don't", "DON'T", "can't've", "'s", "'S", " 's", "''s", "'t 're 've 'm 'll 'd", "'T 'RE 'VE 'M",
    "it\u2019s", "rock'n'roll", "'sword", "'Sword", "'rest", "'Real", "o'clock", "'tis", "'x", "x'",
    "'", "''", "'''", "a'b'c", "'\u017f", "I'll've", "We've  it's\nI'd",
    "naïve café", "Straße", "ŒUVRE", "smörgåsbord", "Zażółć gęślą jaźń", "İstanbul", "ǅungla",
    "e\u0301", "cafe\u0301", "a\u0300\u0301\u0302", "Z\u0351\u036b\u0343\u032a\u033ca\u0310l\u0308go",
    "\u0301", " \u0301", "x \u0301y",
    # digits and numbers
    "0", "1", "12", "123", "1234", "12345", "123456", "1234567890", " 1", " 12", " 123", "1 2 3",
    "3.14159", "1,000,000", "1.000.000,00", "-1", "+1", "1e10", "1e-10", "0x1F", "0b1010", "1st 2nd",
    "a1b2c3", "abc123def", "v1.2.3", "2024-01-31T12:34:56Z", "$9.99", "100%", "½ ¾ ⅓", "①②③", "Ⅷ",
    "٠١٢٣٤٥٦٧٨٩", "०१२३", "１２３", "x²+y³", "10^6", "1\n2", "1  2", "12  34", "007", "5'10\"", "৳১০",
    "1a", "a1", "1 a", "一二三123", "12月31日",
    # marks
    "!", "!!", "!!!", "?!", "...", "\u2026", "--", "---", "\u2014", "\u2013", "a-b", "a--b",
    "a - b", "(a)", "[b]", "{c}", "<d>", "\"quoted\"", "\u201cquoted\u201d", "«a»", "a/b", "a\\b",
    "a|b", "a&b", "a@b.c", "#tag", "*bold*", "**bold**", "_it_", "__init__", "~", "`x`", "```", "^",
    "=", "==", "===", "=" * 20, "-" * 20, "*" * 20, "_" * 20, "." * 20, "#" * 20, "~" * 20,
    "!\n", "!\n\n", "! \n", ".\n\n\n", ";\r\n", ")\n}", "};\n\n", "?\n?", " !", "  !", " !!\n\n",
    "http://example.com/a?b=c&d=e#f", "user@example.org", "C:\\dir\\file.txt", "/usr/lib/x.so.6",
    "€5", "£", "¥", "₹", "©®™", "°C", "§1", "¶", "†‡", "•", "→←↑↓", "∑∏∫√∞≈≠≤≥", "α+β=γ", "∀x∃y",
    # emoji and joiners
    "🙂", "🙂🙂", " 🙂", "a🙂b", "🙂 🙂", "👍🏽", "👩‍👩‍👧‍👦", "👩‍👩‍👧‍👦 👨‍🚀", "🏳️‍🌈", "🇩🇪", "🇩🇪🇫🇷", "1️⃣", "☺️", "❤️‍🔥", "🫠",
    "🤖!", "🎉🎊\n🎈", "\u200d", "\ufe0f", "a\ufe0fb", "🧑🏿‍🔬", "🙂" * 10,
    # other scripts
    "你好", "你好，世界！", "中文 English 混合", "天地玄黄宇宙洪荒", "日本語のテキスト", "カタカナ", "ひらがな", "東京タワー2024",
    "한국어 문장입니다.", "ㄱㄴㄷ", "각", "各", "Привет, мир!", "Ёлка", "Ελληνικά", "ά", "עברית", "שָׁלוֹם",
    "العربية", "السَّلَامُ عَلَيْكُمْ", "abc עברית def", "\u202eabc\u202c", "\u200fابج\u200e", "ไทย", "ภาษาไทยไม่มีวรรค",
    "हिन्दी", "नमस्ते दुनिया", "தமிழ்", "తెలుగు", "ქართული", "Հայերեն", "አማርኛ", "မြန်မာ", "ខ្មែរ", "བོད་", "ᏣᎳᎩ",
    "𝓗𝓮𝓵𝓵𝓸", "𝟘𝟙𝟚", "𐍈", "𠜎𠜱", "ﬁ ﬂ", "Ａｂｃ", "ￊﾝｶｸ", "\U000e0041", "\ue000", "\U0010ffff", "\ufffd", "\ufffe",
    # control characters
    "\x01", "\x02\x03", "a\x07b", "\x08", "\x1b[31mred\x1b[0m", "\x7f", "a\x00b", "\x00", "\x00\x00",
    "\x1c\x1d\x1e\x1f", "\x80\x9f", "\xad", "soft\xadhyphen", " \x01 ", "\x04\x06\x13",
    # special tokens inside text, and things that look like them
    "<|im_start|>", "<|im_end|>", "<|im_start|>user\nHi<|im_end|>\n", "a<|im_end|>b",
    "a <|im_end|> b", "<|im_start|><|im_end|>", "<|im_start|", "|im_start|>", "<|im_start|>>",
    "<<|im_start|>", "<|endoftext|>", "x<|endoftext|>y", "<|endoftext|><|endoftext|>",
    "<repo_name>a/b", "<file_sep>", "<bos>", "<eos>", "<pad>", "<unk>", "<mask>", "<bos>Hi<eos>",
    "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n", "<end_of_turn>", "<unused0>",
    "<unused99>x", "[multimodal]", "<s>", "</s>", "<s>a</s>", "a <s> b", "<0x0A>", "<0x41>", "a<0x41>b",
    "<table><tr><td>x</td></tr></table>", "<b>bold</b>", "<strong>x</strong> y", "<ul>\n<li>a</li>\n</ul>",
    "<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>",
    "<|end_of_text|>", "< |im_end|>", "<|IM_END|>", "\u2581", "a\u2581b", "\u2581\u2581\u2581", " \u2581 ",
    "\u0120", "a\u0120b", "\u010a",
    # code
    "int main(void)\n{\n    return 0;\n}\n", "def f(x):\n    return x * 2  # twice\n",
    "for (i = 0; i < n; i++) a[i] += b[i];", "x = {'a': 1, \"b\": [2, 3]}", "if(x!=y&&z||!w){}",
    "#include <stdio.h>\n", "\tif x:\n\t\treturn None\n", "SELECT * FROM t WHERE a >= 10;",
    "<div class=\"a\">\n  <p>text</p>\n</div>", "{\"key\": \"value\", \"n\": null}", "a->b.c::d", "// comment",
    "/* comment */", "$ ls -la | grep x > y 2>&1", "let f = |x| x + 1;", "λx. x", "\\frac{a}{b}",
    "std::vector<std::pair<int,int>>", "snake_case camelCase PascalCase kebab-case", "f(x)(y)[z]",
    "    indented\n        more\n    back\n", "a\n\n\n    b\n\t\n", "i++;;j--", "0xDEADBEEF", "é\tè",
    # long runs
    "a" * 100, "ab" * 60, "aA" * 40, "1" * 100, "é" * 40, "你" * 40, "!" * 100, "a " * 50, " a" * 50,
    "a\n" * 40, "<" * 50, "\u00a0" * 20, "x" + " " * 63 + "y", "\t" * 40, "\r\n" * 20, " \n" * 20,
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt.",
    "Tenon joins engines to accelerators; every provider returns the same bits.",
]

ALPHABETS = [
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", " \t\n\r", " ", "\n",
    "'\"!?.,;:-_()[]{}<>|/\\@#$%^&*+=~`", "àéîõüßçñøåæœ", "αβγδεζηθ", "абвгдеёжз", "אבגדהו", "ابتثجح",
    "कखगघङिीु", "ไทยกขค", "你好世界中文字", "ひらカタ", "한국어", "🙂🚀👍🏽👩\u200d\ufe0f", "\u0300\u0301\u0308\u200b\u00a0\u2003",
    "\x00\x01\x1f\x7f", "½²①Ⅷ٣",
]
SNIPPETS = [" the", "ing", "tion", "'s", "'ll", "123", "<|im_end|>", "<eos>", "\n\n", "    ", "http", " \u2581"]


def generated(count, seed):
    """Random mixtures; the same ones for the same seed."""
    source = random.Random(seed)
    for _ in range(count):
        parts = []
        for _ in range(source.randint(1, 8)):
            if source.random() < 0.2:
                parts.append(source.choice(SNIPPETS))
            else:
                letters = source.choice(ALPHABETS)
                parts.append("".join(source.choice(letters) for _ in range(source.randint(1, 6))))
        yield "".join(parts)
