"""Checks that JSON log lines have the text that Python's UTF-8 decoder makes of the same bytes."""

import json
import random
import subprocess
import sys
import unittest
from typing import Final

SAMPLE: Final = sys.argv[1]
SEED: Final = 20_261_130
# The bytes at which UTF-8 changes its rules, and the bytes that JSON has to escape.
EDGES: Final = bytes.fromhex(
    "00 08 09 0a 0d 1f 20 22 2f 5c 7e 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3"
    " f4 f5 fe ff"
)


def cases() -> list[bytes]:
    """Named texts, every pair of edges, and random mixtures of characters and single bytes."""
    named = [
        b"",
        b"plain",
        "é ü 漢字 😀 \u202e \u2028 \ufeff".encode(),
        b'a "quoted" \\ back\nslash\ttab\x00end',
        "😀".encode()[:-1],
        b"\xed\xa0\x80 surrogate",
        b"\xf4\x90\x80\x80 above",
    ]
    pairs = [bytes((a, b)) for a in EDGES for b in EDGES]
    chance = random.Random(SEED)
    mixed = []
    for _ in range(5_000):
        parts = (
            bytes(chance.choices(EDGES, k=chance.randrange(4)))
            if chance.random() < 0.5
            else chr(chance.choice((chance.randrange(0xD800), 0x1F600, 0x10FFFF, 0xFFFD))).encode()
            for _ in range(chance.randrange(6))
        )
        mixed.append(b"".join(parts))
    return named + pairs + mixed


class LogLineTest(unittest.TestCase):
    def test_every_line_is_the_text_in_ascii(self) -> None:
        texts = cases()
        done = subprocess.run(
            [SAMPLE],
            input="".join(f"{text.hex()}\n" for text in texts),
            capture_output=True,
            text=True,
            encoding="ascii",
            check=True,
        )
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), len(texts))
        for text, line in zip(texts, lines, strict=True):
            self.assertTrue(line.isprintable(), line)
            self.assertEqual(
                json.loads(line),
                {
                    "severity": "INFO",
                    "event": "sample",
                    "value": text.decode("utf-8", errors="replace"),
                },
                text,
            )


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
