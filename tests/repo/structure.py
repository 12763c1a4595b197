"""Checks the structure of files: size, include guard, a target that lists each file, and links."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from layering import ALLOWED
from source_files import CPP_SUFFIXES, ROOT, read, source_files

MAX_LINES: Final = 600
MAX_TEST_LINES: Final = 1000
MAX_DEVICE_LINES: Final = 800
# A folder with more units is hard to overview and should be split into rooms.
MAX_UNITS: Final = 25
MAX_README_LINES: Final = 80
# Matches a C++ block in a page whose first line names its source file.
_SNIPPET: Final = re.compile(r"^```cpp\n// (\S+\.(?:cc|h))\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
_FENCED: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)
_USING: Final = re.compile(r"^using (?:::)?(?:\w+::)+(\w+);", re.MULTILINE)
_TODO: Final = re.compile(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))")
# Home folders of people and machines must not appear in the repository.
_MACHINE_PATH: Final = re.compile(r"(?<![\w.$}/])/(root|home|Users)/\w")


def size_limit(path: Path) -> int:
    """Returns the maximum number of lines of a file."""
    if path.suffix in (".cu", ".cuh"):
        return MAX_DEVICE_LINES
    return MAX_TEST_LINES if "_test" in path.stem else MAX_LINES


def cpp_violations(path: Path, text: str) -> Iterable[str]:
    """Yields violations of size, include guard and order of includes."""
    if text.count("\n") > size_limit(path):
        yield f"{path}: {text.count(chr(10))} lines, limit {size_limit(path)}"
    if path.suffix in (".h", ".cuh"):
        guard = re.sub(r"[^A-Za-z0-9]", "_", str(path)).upper() + "_"
        if f"#ifndef {guard}\n#define {guard}\n" not in text:
            yield f"{path}: include guard is not {guard}"
    own_header = path.with_suffix(".h")
    if path.suffix == ".cc" and (ROOT / own_header).exists():
        # Including the own header first shows that the header compiles on its own.
        first = re.search(r'^#include ["<]([^">]+)', text, re.MULTILINE)
        if first is None or first.group(1) != str(own_header):
            yield f"{path}: the first include is not {own_header}"
    if re.search(r"\bsleep_for\b|\bSleepFor\b|\busleep\b", text) and "_test" in path.stem:
        yield f"{path}: a test that sleeps"
    # clang-tidy reports unused declarations only for the file that it was started with.
    for name in _USING.findall(text):
        if path.suffix == ".cc" and len(re.findall(rf"\b{name}\b", text)) == 1:
            yield f"{path}: nothing uses {name}"


def package_of(path: Path) -> Path:
    """Returns the folder of the file's Bazel package: the nearest one with a BUILD file."""
    return next(folder for folder in path.parents if (ROOT / folder / "BUILD").exists())


def build_violations(path: Path, package: Path, build_text: str) -> Iterable[str]:
    """Yields a C++ file that no target of its package lists, because it would never be compiled."""
    if f'"{path.relative_to(package)}"' not in build_text:
        yield f"{path}: no target in {package}/BUILD names it"


def units_of(paths: Iterable[Path]) -> dict[Path, set[str]]:
    """Returns the production units of each folder. A header and its source are one unit."""
    units: dict[Path, set[str]] = {}
    for path in paths:
        if not path.stem.endswith(("_test", "_benchmark")):
            units.setdefault(path.parent, set()).add(path.stem)
    return units


def room_violations(units: dict[Path, set[str]], pages: dict[str, str | None]) -> Iterable[str]:
    """Yields folders with too many units, and rooms with a missing (None) or too long README."""
    for folder, names in units.items():
        if len(names) > MAX_UNITS:
            yield f"{folder}: {len(names)} units, limit {MAX_UNITS}"
    for room, page in pages.items():
        if page is None:
            yield f"{room}: a room without a README.md"
        elif page.count("\n") > MAX_README_LINES:
            yield f"{room}/README.md: {page.count(chr(10))} lines, limit {MAX_README_LINES}"


def index_violations(room: str, names: Iterable[str], page: str) -> Iterable[str]:
    """Yields units that a room's page does not mention; `prefix*` covers all such names."""
    prefixes = tuple(re.findall(r"`(\w+)\*`", page))
    for name in sorted(names):
        if not re.search(rf"`{name}\b", page) and not name.startswith(prefixes):
            yield f"{room}/README.md does not name {name}"


def page_of(room: str) -> str | None:
    """Returns the text of a room's README.md, or None."""
    page = ROOT / room / "README.md"
    return page.read_text(encoding="utf-8") if page.exists() else None


def text_violations(path: Path, text: str) -> Iterable[str]:
    """Yields violations that any text file can have."""
    for match in _TODO.finditer(text):
        yield f"{path}: {match.group(0)} without an issue"
    if _MACHINE_PATH.search(text):
        yield f"{path}: an absolute path of one machine"


def anchors(text: str) -> set[str]:
    """Returns the anchors of a page's headings, as sites that render Markdown name them."""
    found = set()
    for heading in _HEADING.findall(_FENCED.sub("", text)):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        found.add(re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-"))
    return found


def link_violations(path: Path, text: str) -> Iterable[str]:
    """Yields relative links of a page to files or headings that do not exist."""
    for target, anchor in _LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        page = ROOT / path.parent / target if target else None
        if page is not None and not page.exists():
            yield f"{path}: broken link to {target}"
        elif anchor and (page is None or page.suffix == ".md"):
            known = anchors(text if page is None else page.read_text(encoding="utf-8"))
            if anchor not in known:
                yield f"{path}: broken link to {target}#{anchor}"


def snippet_violations(path: Path, text: str) -> Iterable[str]:
    """Yields C++ blocks of a page that differ from the file that they name."""
    for name, snippet in _SNIPPET.findall(text):
        source = ROOT / name
        if not source.exists() or snippet not in source.read_text(encoding="utf-8"):
            yield f"{path}: the block of {name} does not stand in that file"


def check() -> list[str]:
    """Returns all violations in the repository."""
    pages = {room: page_of(room) for room in ALLOWED}
    units = units_of(source_files(*CPP_SUFFIXES))
    found = list(room_violations(units, pages))
    for room, page in pages.items():
        found.extend(index_violations(room, units.get(Path(room), ()), page or ""))
    for path in source_files(*CPP_SUFFIXES):
        found.extend(cpp_violations(path, read(path)))
        package = package_of(path)
        found.extend(build_violations(path, package, read(package / "BUILD")))
    for path in source_files(*CPP_SUFFIXES, ".bzl", ".md", ".proto", ".sh"):
        found.extend(text_violations(path, read(path)))
    for path in source_files(".md"):
        found.extend(link_violations(path, read(path)))
        found.extend(snippet_violations(path, read(path)))
    return found
