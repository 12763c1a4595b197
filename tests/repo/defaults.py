"""Checks that each default of an option is written in one place, so that copies cannot diverge.

The check reads Abseil flags and structs whose names end in Options or Limits. If several of them
have a field or flag of the same name, at most one may have a literal as its default. The others
must have a neutral value (zero, one, false, empty), a named constant, or the default of another
struct.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from source_files import CPP_SUFFIXES, read, source_files

# These pairs use a common name with another meaning.
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
# Matches a constant, an enumerator, or a field of a default-constructed struct.
_NAMED: Final = re.compile(r"(\w+::)*(k[A-Z]\w*|[A-Z][A-Z_0-9]+)|.*\w+\(\)\.\w+.*|(\w+::)+\w+\(\)")


class Default(NamedTuple):
    """An option with its default as written in the code."""

    option: str
    owner: str
    text: str
    path: str

    def is_literal(self) -> bool:
        return self.text not in _NEUTRAL and not _NAMED.fullmatch(self.text)


def _body(text: str, start: int) -> str:
    """Returns the text from `start` to the brace that closes the block containing `start`."""
    depth = 1
    for end in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return text[start:end]
    return text[start:]


def defaults(path: str, text: str) -> Iterator[Default]:
    """Yields the defaults of one file."""
    text = _COMMENT.sub("", text)
    for struct in _STRUCT.finditer(text):
        for field in _FIELD.finditer(_body(text, struct.end())):
            value = (field[2] or field[3] or "").strip()
            yield Default(field[1], struct[1], value, path)
    for flag in _FLAG.finditer(text):
        yield Default(flag[1], "ABSL_FLAG", flag[2].strip(), path)


def violations(found: Iterable[Default]) -> Iterator[str]:
    """Yields the options with two literal defaults."""
    literals: dict[str, list[Default]] = defaultdict(list)
    for default in found:
        if default.is_literal() and (default.option, default.owner) not in EXCEPTIONS:
            literals[default.option].append(default)
    for option, each in sorted(literals.items()):
        if len(each) > 1:
            places = ", ".join(f"{one.text} of {one.owner} in {one.path}" for one in each)
            yield f"{option}: several defaults: {places}"


def check() -> list[str]:
    """Returns all violations in the repository. Tests are excluded, because they set what they
    need."""
    found: list[Default] = []
    for path in source_files(*CPP_SUFFIXES):
        if not str(path).startswith("tests/") and "_test" not in path.stem:
            found.extend(defaults(str(path), read(path)))
    return list(violations(found))
