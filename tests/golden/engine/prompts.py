"""Twenty prompts: short and long, prose, code, numbers, scripts other than Latin."""

_STORY = ("The lighthouse keeper wrote a line in the log every evening, whether or not a ship had "
          "passed. On the first day of the month he noted the oil that was left, and the height of "
          "the tide, and the wind. ")

PROMPTS = [
    "The capital of France is",
    "Once upon a time",
    "a",
    "def fibonacci(n):\n    if n < 2:\n        return n\n",
    "1, 1, 2, 3, 5, 8, 13,",
    "Water boils at a temperature of",
    "Le chat noir dort sur le canapé et",
    "Die Würde des Menschen ist",
    "春はあけぼの。やうやう白くなりゆく",
    "Привет, как дела? Сегодня",
    "مرحبا بالعالم، هذا",
    "The emoji 🙂 means a smile, and 🚀 means",
    "Q: What is the largest planet?\nA:",
    "{\"name\": \"Ada\", \"born\": 1815, \"field\": ",
    "     spaces   and\ttabs\n\n\nand lines",
    "He said: \"I'll be there at 10:45, don't wait.\" She",
    "#include <stdio.h>\n\nint main(void)\n{\n",
    _STORY * 3 + "Then, one night,",
    _STORY * 8 + "Nobody ever asked him why, until",
    _STORY * 18 + "The last line in the log says that",
]
