"""Each default of an option stands in one place: two literals for one option drift apart.

Structs whose names end in Options or Limits, and Abseil flags, are looked at. If several of them
have a field or flag of one name, at most one of these has a literal as its default; the others have
a neutral value (zero, one, false, empty), a named constant, or the default of another struct.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from source_files import CPP_SUFFIXES, read, source_files

# One word that means different things in the structs named here.
EXCEPTIONS: Final = {
    ("max_bytes", "GraphLimits"),
    ("max_tokens", "AttentionCheckOptions"),
    ("max_tokens", "GraphLimits"),
}
_COMMENT: Final = re.compile(r"//[^\n]*")
_STRUCT: Final = re.compile(r"struct (\w*(?:Options|Limits)) \{")
_FIELD: Final = re.compile(r"^\s+[\w:<>, ]+?\s(\w+)(?:\s*=\s*([^;]+)|\{([^;]*)\});", re.MULTILINE)
_FLAG: Final = re.compile(r"^ABSL_FLAG\(\s*[\w:<>]+,\s*(\w+),\s*([^;]*?),\s*\"", re.MULTILINE)
_NEUTRAL: Final = {"", "0", "1", "-1", "false", '""', "absl::nullopt", "absl::ZeroDuration()"}
# A constant, an enumerator, or a field of a default-constructed struct.
_NAMED: Final = re.compile(r"(\w+::)*(k[A-Z]\w*|[A-Z][A-Z_0-9]+)|.*\w+\(\)\.\w+.*|(\w+::)+\w+\(\)")


class Default(NamedTuple):
    """One option with its default as the code writes it."""

    option: str
    owner: str
    text: str
    path: str

    def is_literal(self) -> bool:
        return self.text not in _NEUTRAL and not _NAMED.fullmatch(self.text)


def _body(text: str, start: int) -> str:
    """What follows `start` up to the brace that closes the one before it."""
    depth = 1
    for end in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return text[start:end]
    return text[start:]


def defaults(path: str, text: str) -> Iterator[Default]:
    """The defaults of one file."""
    text = _COMMENT.sub("", text)
    for struct in _STRUCT.finditer(text):
        for field in _FIELD.finditer(_body(text, struct.end())):
            value = (field[2] or field[3] or "").strip()
            yield Default(field[1], struct[1], value, path)
    for flag in _FLAG.finditer(text):
        yield Default(flag[1], "ABSL_FLAG", flag[2].strip(), path)


def violations(found: Iterable[Default]) -> Iterator[str]:
    """The options with two literals."""
    literals: dict[str, list[Default]] = defaultdict(list)
    for default in found:
        if default.is_literal() and (default.option, default.owner) not in EXCEPTIONS:
            literals[default.option].append(default)
    for option, each in sorted(literals.items()):
        if len(each) > 1:
            places = ", ".join(f"{one.text} of {one.owner} in {one.path}" for one in each)
            yield f"{option}: several defaults: {places}"


def check() -> list[str]:
    """All violations in the repository, tests aside: they set what they need."""
    found: list[Default] = []
    for path in source_files(*CPP_SUFFIXES):
        if not str(path).startswith("tests/") and "_test" not in path.stem:
            found.extend(defaults(str(path), read(path)))
    return list(violations(found))
