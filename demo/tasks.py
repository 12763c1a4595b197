"""Generates questions with one right answer and similar wrong answers, as plain text.

Every question belongs to exactly one of two splits. The split is a hash of the question's key (the
unordered operands, the set of numbers, or the word), not of its wording or of a seed. So no
question, and no reordering of one, can be in both training and held-out data.
"""

import hashlib
import random
import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from words import WORDS

Split = Literal["train", "held-out"]

# Training, evaluation and the sample questions use different random streams of this seed.
SEED: Final = 2026

# All questions begin with this header, so that all questions of a request share a prefix.
HEADER: Final = "Answer exactly, with nothing added or left out.\n"
# This character ends every answer, so that no answer is a prefix of another, and the model always
# computes the score at the same byte.
END: Final = "\n"
MAX_CANDIDATES: Final = 64

LETTERS: Final = string.ascii_lowercase
_CONSONANTS: Final = "bcdfghjklmnprstvwz"
_VOWELS: Final = "aeiou"


@dataclass(frozen=True)
class Question:
    """A prompt, its right answer, and distinct wrong answers."""

    task: str
    prompt: str
    answer: str
    distractors: tuple[str, ...]

    @property
    def prefix(self) -> list[int]:
        """Returns the bytes that all candidates of this question share."""
        return list(self.prompt.encode())


@dataclass(frozen=True)
class Draft:
    """A question before its split is known; distractors are made only if it is kept."""

    key: str
    text: str
    answer: str
    distract: Callable[[int], list[str]]


def answer_tokens(answer: str) -> list[int]:
    """Returns the bytes that a candidate adds to the prefix."""
    return list((answer + END).encode())


def split_of(key: str) -> Split:
    """Returns the split of a key; about one key in ten is held out."""
    return "held-out" if hashlib.blake2s(key.encode()).digest()[0] < 26 else "train"


def _take(rng: random.Random, pool: set[str], count: int, first: list[str]) -> list[str]:
    """Returns `count` entries: first those of `first`, then others of the pool in random order."""
    # The set is sorted, because the order of a set of strings differs between Python processes.
    rest = sorted(pool.difference(first))
    rng.shuffle(rest)
    return (first + rest)[:count]


def near_numbers(
    rng: random.Random, value: int, count: int, first: tuple[int, ...] = ()
) -> list[str]:
    """Returns numbers similar to `value`: off by a little, off in one digit, or with swapped
    digits."""
    digits = str(value)
    offsets = [*range(1, 13), *range(20, 100, 10), 100]
    pool = {
        str(value + sign * off) for off in offsets for sign in (1, -1) if value + sign * off >= 0
    }
    for place in range(len(digits)):
        head, tail = digits[:place], digits[place + 1 :]
        pool.update(head + digit + tail for digit in string.digits)
        pool.update((head + tail, head + digits[place] * 2 + tail))
        if tail:
            pool.add(head + tail[0] + digits[place] + tail[1:])
    leads = [str(number) for number in first if number >= 0]
    pool = {entry for entry in pool if entry == "0" or (entry.strip() and entry[0] != "0")}
    span = 40
    while len(pool) < count + 1:
        pool.add(str(max(0, value + rng.randint(-span, span))))
        span += 1
    pool.discard(digits)
    leads = [entry for entry in dict.fromkeys(leads) if entry != digits]
    return _take(rng, pool, count, leads)


def _edit(rng: random.Random, text: str, alphabet: str) -> str:
    """Returns `text` with one typing error: a letter swapped, replaced, dropped or added."""
    kind = rng.random()
    place = rng.randrange(len(text))
    if kind < 0.30:
        other = min(place + 1, len(text) - 1) if rng.random() < 0.6 else rng.randrange(len(text))
        low, high = sorted((place, other))
        if low == high:
            return text
        return text[:low] + text[high] + text[low + 1 : high] + text[low] + text[high + 1 :]
    if kind < 0.70:
        return text[:place] + rng.choice(alphabet) + text[place + 1 :]
    if kind < 0.80:
        return text[:place] + text[place + 1 :]
    if kind < 0.90:
        return text[:place] + text[place] + text[place:]
    return text[:place] + rng.choice(alphabet) + text[place:]


def near_texts(
    rng: random.Random,
    text: str,
    count: int,
    alphabet: str = LETTERS,
    first: tuple[str, ...] = (),
) -> list[str]:
    """Returns texts with one typing error relative to `text`, beginning with those of `first`."""
    found = dict.fromkeys(entry for entry in first if entry != text)
    while len(found) < count:
        changed = _edit(rng, text, alphabet)
        if changed and changed != text:
            found[changed] = None
    return list(found)[:count]


def _word(rng: random.Random) -> str:
    """Returns a word of 4 to 7 letters: one in four is English, the others are made up."""
    if rng.random() < 0.25:
        word = rng.choice(WORDS)
        if 4 <= len(word) <= 7:
            return word
    start = rng.random() < 0.8
    return "".join(
        rng.choice(_CONSONANTS if (place % 2 == 0) == start or rng.random() < 0.15 else _VOWELS)
        for place in range(rng.randint(4, 7))
    )


def _add(rng: random.Random) -> Draft:
    a, b = rng.randint(10, 999), rng.randint(10, 999)
    key = f"add {min(a, b)} {max(a, b)}"
    value = a + b
    return Draft(key, f"What is {a} + {b}?", str(value), lambda n: near_numbers(rng, value, n))


def _sub(rng: random.Random) -> Draft:
    b, a = sorted((rng.randint(10, 999), rng.randint(10, 999)))
    value = a - b
    key = f"sub {a} {b}"
    return Draft(key, f"What is {a} - {b}?", str(value), lambda n: near_numbers(rng, value, n))


def _mul(rng: random.Random) -> Draft:
    a, b = rng.randint(2, 499), rng.randint(2, 9)
    value = a * b
    # Changing a factor by one is a likely error that does not occur in sums.
    slips = (a * (b + rng.choice((-1, 1))),) if rng.random() < 0.5 else ()
    left, right = (a, b) if rng.random() < 0.5 else (b, a)
    return Draft(
        f"mul {min(a, b)} {max(a, b)}",
        f"What is {left} x {right}?",
        str(value),
        lambda n: near_numbers(rng, value, n, slips),
    )


def _compare(rng: random.Random) -> Draft:
    base = rng.randint(10, 999)
    numbers = {base}
    while len(numbers) < 3:
        numbers.add(
            int(near_numbers(rng, base, 1)[0]) if rng.random() < 0.6 else rng.randint(10, 999)
        )
    if rng.random() < 0.5:
        numbers.add(rng.randint(10, 999))
    shown = sorted(numbers)
    key = "compare " + " ".join(map(str, shown))
    largest = rng.random() < 0.5
    value = shown[-1] if largest else shown[0]
    rng.shuffle(shown)
    # The other numbers of the question are the most similar wrong answers, so they come first.
    others = tuple(number for number in shown if number != value)
    text = f"Which is {'largest' if largest else 'smallest'}: {', '.join(map(str, shown))}?"
    return Draft(key, text, str(value), lambda n: near_numbers(rng, value, n, others))


def _copy(rng: random.Random) -> Draft:
    alphabet = LETTERS + string.digits
    text = "".join(rng.choice(alphabet) for _ in range(rng.randint(4, 8)))
    return Draft(
        f"copy {text}",
        f"Copy this: {text}",
        text,
        lambda n: near_texts(rng, text, n, alphabet),
    )


def _reverse(rng: random.Random) -> Draft:
    word = _word(rng)
    right = word[::-1]
    # The unreversed word comes first half of the time, because forgetting to reverse is a likely
    # error.
    first = (word,) if rng.random() < 0.5 else ()
    return Draft(
        f"word {word}",
        f"Spell backwards: {word}",
        right,
        lambda n: near_texts(rng, right, n, first=first),
    )


def _spell(rng: random.Random) -> Draft:
    word = _word(rng)
    return Draft(
        f"word {word}",
        f"Spell letter by letter: {word}",
        "-".join(word),
        lambda n: ["-".join(wrong) for wrong in near_texts(rng, word, n)],
    )


def _fix(rng: random.Random) -> Draft:
    word = _word(rng)
    place = rng.randint(0, len(word))
    broken = word[:place] + rng.choice(string.digits) + word[place:]
    first = (broken,) if rng.random() < 0.5 else ()
    return Draft(
        f"word {word}",
        f"Remove the digit: {broken}",
        word,
        lambda n: near_texts(rng, word, n, first=first),
    )


TASKS: Final[dict[str, Callable[[random.Random], Draft]]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "compare": _compare,
    "copy": _copy,
    "reverse": _reverse,
    "spell": _spell,
    "fix": _fix,
}


def draw(rng: random.Random, task: str, split: Split, distractors: int) -> Question:
    """Draws questions until one belongs to the split, and returns it."""
    while True:
        draft = TASKS[task](rng)
        if split_of(draft.key) == split:
            break
    prompt = f"{HEADER}Q: {draft.text}\nA: "
    return Question(task, prompt, draft.answer, tuple(draft.distract(distractors)))
