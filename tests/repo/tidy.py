"""Runs clang-tidy on every .cc file, with many files per process.

Nearly all of clang-tidy's time for a file is spent on the headers of LibTorch, gRPC and GoogleTest.
Files that share one translation unit are checked in a tenth of the time. A file that cannot be
compiled after the others (because two files define the same helper) goes into the next unit.

A unit without findings is not checked again until a file that it reads changes.
"""

import hashlib
import os
import re
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

import layering
from result_cache import ResultCache
from source_files import CPP_SUFFIXES, ROOT, changed_files, source_files

# More files per unit save little time and need more memory.
MOST_FILES_TOGETHER: Final = 24
# A unit includes sources on purpose, so this check is turned off.
CHECKS: Final = "--checks=-bugprone-suspicious-include"
CONFIG: Final = ".clang-tidy"
# This is clang's own check of ABSL_GUARDED_BY. .clang-tidy turns its warnings into findings.
WARNINGS: Final = ("-Wthread-safety",)


def bazel_info(key: str) -> Path:
    """Returns a folder of this checkout's build."""
    command = ["bazel", "info", key]
    return Path(
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    )


def compiler_flags() -> list[str]:
    """Returns the compiler flags for any file of the repository."""
    generated = bazel_info("bazel-bin")
    external = bazel_info("output_base") / "external"
    return [
        "-std=c++17",
        *WARNINGS,
        # The compiler must report every file that does not compile after the others.
        "-ferror-limit=0",
        # The path is relative, because HeaderFilterRegex in .clang-tidy expects relative paths.
        "-I.",
        f"-isystem{generated}/proto",
        f"-isystem{generated}/third_party/googleapis",
        f"-isystem{external}/torch/include",
        # Without CUDA, the folder kernels/no_cuda provides a replacement of its headers.
        f"-isystem{external}/cuda/include",
        f"-isystem{ROOT}/kernels/no_cuda",
    ]


def kind(path: Path) -> str:
    """Returns the kind of a file. Files of one kind read mostly the same library headers."""
    room = layering.room_of(str(path))
    top = "torch" if room in layering.TORCH_ROOMS else path.parts[0]
    if top == "tests":
        top = str(path.parent)
    return f"{'core' if top == 'base' else top} {'test' if path.stem.endswith('_test') else ''}"


def kinds(paths: Iterable[Path], changed: Iterable[Path] = ()) -> list[list[Path]]:
    """Returns the files by kind: kinds with changed files first, then the largest kinds."""
    by_kind: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(paths):
        by_kind[kind(path)].append(path)
    # After a change to a header, the files in its folder are the most likely to have findings.
    folders = {path.parent for path in changed}
    return sorted(
        by_kind.values(),
        key=lambda files: (not any(path.parent in folders for path in files), -len(files)),
    )


COMPILER_ERROR: Final = re.compile(r"^(\S+?):\d+:\d+: (?:fatal )?error: ", re.M)


def apart(output: str, files: list[Path]) -> list[Path]:
    """Returns the files that must go into another unit; none if there is no compiler error."""
    broken = set(COMPILER_ERROR.findall(output))
    if not broken:
        return []
    named = [path for path in files[1:] if {str(path), f"./{path}", f"{ROOT}/{path}"} & broken]
    # The error may be in a header that a later file includes.
    return named or files[len(files) // 2 :]


@contextmanager
def unit_of(files: list[Path]) -> Iterator[str]:
    """Yields the path of a source that includes these files."""
    with tempfile.TemporaryDirectory() as folder:
        unit = Path(folder) / "unit.cc"
        unit.write_text("".join(f'#include "{path}"\n' for path in files), encoding="utf-8")
        yield str(unit) if len(files) > 1 else str(files[0])


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in the root folder."""
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@cache
def clang_version() -> str:
    """Returns the version of clang-tidy."""
    return run("clang-tidy", "--version").stdout


@cache
def file_hash(path: str) -> str:
    """Returns a hash of the file's contents; each file is read only once per process."""
    return hashlib.sha256((ROOT / path).read_bytes()).hexdigest()


def content_key(files: list[Path], flags: list[str]) -> str | None:
    """Returns a hash of everything that affects the findings of a unit, or None if it is unknown.

    The preprocessor lists the files that are read, so a new header that hides another one changes
    the hash. Folders outside the repository are left out, because each checkout has its own.
    """
    with unit_of(files) as source:
        listed = run("clang++", "-M", *flags, source)
        if listed.returncode != 0:
            return None
        words = listed.stdout.replace("\\\n", " ").split()[1:]
        read = [word for word in words if word != source or len(files) == 1]
    parts = [clang_version(), (ROOT / CONFIG).read_text(), CHECKS]
    parts += [flag for flag in flags if not flag.startswith("-isystem")]
    parts += map(str, files)
    parts += [f"{Path(path).name} {file_hash(path)}" for path in read]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def clashing(files: list[Path], flags: list[str], results: ResultCache) -> list[Path]:
    """Returns the files that do not compile after the others, using only the fast compiler front
    end."""
    if len(files) == 1:
        return []

    def compute() -> str:
        with unit_of(files) as source:
            compiled = run("clang++", "-fsyntax-only", "-w", *flags, source)
        return "\n".join(map(str, apart(compiled.stderr, files)))

    key = content_key(files, flags)
    return [Path(line) for line in results.get_or("clashing", key, compute).splitlines()]


def units(files: list[Path], flags: list[str], results: ResultCache) -> Iterator[list[Path]]:
    """Yields units that compile; files that clash with one unit wait for the next."""
    waiting = files
    while waiting:
        unit = waiting[:MOST_FILES_TOGETHER]
        later: list[Path] = []
        while others := clashing(unit, flags, results):
            unit = [path for path in unit if path not in others]
            later += others
        yield unit
        waiting = later + waiting[MOST_FILES_TOGETHER:]


def is_edited_since(instant: float) -> bool:
    """Returns True if a file that clang-tidy may have read was written after `instant`."""
    return any((ROOT / path).stat().st_mtime >= instant for path in source_files(*CPP_SUFFIXES))


def tidy(files: list[Path], flags: list[str], results: ResultCache) -> list[str]:
    """Returns the findings of clang-tidy in these files, which it reads as one unit."""
    started = time.time()
    key = content_key(files, flags)
    if results.get("clean", key) is not None:
        return []
    with unit_of(files) as source:
        done = run("clang-tidy", "--quiet", f"--config-file={CONFIG}", CHECKS, source, "--", *flags)
    if done.returncode == 0:
        # A file edited during the run may have been read before or after the edit.
        if not is_edited_since(started):
            results.put("clean", key, "")
        return []
    output = (done.stdout + done.stderr).rstrip()
    return [f"$ clang-tidy {' '.join(map(str, files))}\n{output}"]


def clang_tidy() -> Iterator[str]:
    """Yields the findings in every .cc file, those near changed files first."""
    flags = compiler_flags()
    results = ResultCache.of_this_machine("tidy")
    by_kind = kinds(source_files(".cc"), changed_files())
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        # Clashes are found quickly, and the resulting units are spread over all threads.
        split = pool.map(lambda files: list(units(files, flags, results)), by_kind)
        checked = [pool.submit(tidy, unit, flags, results) for of_kind in split for unit in of_kind]
        for findings in checked:
            yield from findings.result()
