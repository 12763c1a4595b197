"""What a reader of any file may rely on: size, include guard, a target that names it, links."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from source_files import CPP_SUFFIXES, ROOT, read, source_files

MAX_LINES: Final = 600
MAX_TEST_LINES: Final = 1000
MAX_DEVICE_LINES: Final = 800
# C++ on a page whose first line names the file that it stands in.
_SNIPPET: Final = re.compile(r"^```cpp\n// (\S+\.(?:cc|h))\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_USING: Final = re.compile(r"^using (?:::)?(?:\w+::)+(\w+);", re.MULTILINE)
_TODO: Final = re.compile(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))")
# Homes of people and machines do not belong into a repository.
_MACHINE_PATH: Final = re.compile(r"(?<![\w.$}/])/(root|home|Users)/\w")


def size_limit(path: Path) -> int:
    """Most lines that a file may have."""
    if path.suffix in (".cu", ".cuh"):
        return MAX_DEVICE_LINES
    return MAX_TEST_LINES if "_test" in path.stem else MAX_LINES


def cpp_violations(path: Path, text: str) -> Iterable[str]:
    """Include guard, own header first, size."""
    if text.count("\n") > size_limit(path):
        yield f"{path}: {text.count(chr(10))} lines, limit {size_limit(path)}"
    if path.suffix in (".h", ".cuh"):
        guard = re.sub(r"[^A-Za-z0-9]", "_", str(path)).upper() + "_"
        if f"#ifndef {guard}\n#define {guard}\n" not in text:
            yield f"{path}: include guard is not {guard}"
    own_header = path.with_suffix(".h")
    if path.suffix == ".cc" and (ROOT / own_header).exists():
        # A header that comes first is known to stand alone.
        first = re.search(r'^#include ["<]([^">]+)', text, re.MULTILINE)
        if first is None or first.group(1) != str(own_header):
            yield f"{path}: the first include is not {own_header}"
    if re.search(r"\bsleep_for\b|\bSleepFor\b|\busleep\b", text) and "_test" in path.stem:
        yield f"{path}: a test that sleeps"
    # clang-tidy says so only of the file that it was started with.
    for name in _USING.findall(text):
        if path.suffix == ".cc" and len(re.findall(rf"\b{name}\b", text)) == 1:
            yield f"{path}: nothing uses {name}"


def package_of(path: Path) -> Path:
    """The folder of the Bazel package that a file belongs to: the nearest one with a BUILD file."""
    return next(folder for folder in path.parents if (ROOT / folder / "BUILD").exists())


def build_violations(path: Path, package: Path, build_text: str) -> Iterable[str]:
    """A C++ file that no target of its package names is never compiled."""
    if f'"{path.relative_to(package)}"' not in build_text:
        yield f"{path}: no target in {package}/BUILD names it"


def text_violations(path: Path, text: str) -> Iterable[str]:
    """Loose ends in any text file."""
    for match in _TODO.finditer(text):
        yield f"{path}: {match.group(0)} without an issue"
    if _MACHINE_PATH.search(text):
        yield f"{path}: an absolute path of one machine"


def link_violations(path: Path, text: str) -> Iterable[str]:
    """Relative links of a page that lead nowhere."""
    for target in _LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        if not (ROOT / path.parent / target).exists():
            yield f"{path}: broken link to {target}"


def snippet_violations(path: Path, text: str) -> Iterable[str]:
    """C++ of a page that names its file and does not stand there, word for word."""
    for name, snippet in _SNIPPET.findall(text):
        source = ROOT / name
        if not source.exists() or snippet not in source.read_text(encoding="utf-8"):
            yield f"{path}: the block of {name} does not stand in that file"


def check() -> list[str]:
    """All violations in the repository."""
    found: list[str] = []
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
