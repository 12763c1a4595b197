"""clang-tidy over every .cc file, many to a process.

Nearly all of clang-tidy's time on one file goes into the headers of LibTorch, gRPC and GoogleTest:
files that share one translation unit are checked in a tenth of the time. A file that cannot be
compiled after the others (a helper of one name in both) goes into the next unit.

A unit without findings is not checked again while every file that it reads stays the same.
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

# More files in a unit save little, and its memory grows.
MOST_FILES_TOGETHER: Final = 24
# One unit includes the sources: that is the point of it.
CHECKS: Final = "--checks=-bugprone-suspicious-include"
CONFIG: Final = ".clang-tidy"
# clang's own check of ABSL_GUARDED_BY; .clang-tidy makes its warnings findings.
WARNINGS: Final = ("-Wthread-safety",)


def bazel_info(key: str) -> Path:
    """A folder of this checkout's build."""
    command = ["bazel", "info", key]
    return Path(
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    )


def compiler_flags() -> list[str]:
    """What the compiler is given for any file of the repository."""
    generated = bazel_info("bazel-bin")
    external = bazel_info("output_base") / "external"
    return [
        "-std=c++17",
        *WARNINGS,
        # Every file that does not compile after the others is to be named.
        "-ferror-limit=0",
        # Relative, as HeaderFilterRegex of .clang-tidy has it.
        "-I.",
        f"-isystem{generated}/proto",
        f"-isystem{generated}/third_party/googleapis",
        f"-isystem{external}/torch/include",
        # Where there is no CUDA, what stands for it.
        f"-isystem{external}/cuda/include",
        f"-isystem{ROOT}/kernels/no_cuda",
    ]


def kind(path: Path) -> str:
    """Files of one kind read much the same headers of libraries."""
    room = layering.room_of(str(path))
    top = "torch" if room in layering.TORCH_ROOMS else path.parts[0]
    if top == "tests":
        top = str(path.parent)
    return f"{'core' if top == 'base' else top} {'test' if path.stem.endswith('_test') else ''}"


def kinds(paths: Iterable[Path], changed: Iterable[Path] = ()) -> list[list[Path]]:
    """The files by kind: those with changed files first, then the largest."""
    by_kind: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(paths):
        by_kind[kind(path)].append(path)
    # A header counts for its folder, which is most likely to have a finding.
    folders = {path.parent for path in changed}
    return sorted(
        by_kind.values(),
        key=lambda files: (not any(path.parent in folders for path in files), -len(files)),
    )


COMPILER_ERROR: Final = re.compile(r"^(\S+?):\d+:\d+: (?:fatal )?error: ", re.M)


def apart(output: str, files: list[Path]) -> list[Path]:
    """Those of the files that go into another unit: none when the compiler has no error."""
    broken = set(COMPILER_ERROR.findall(output))
    if not broken:
        return []
    named = [path for path in files[1:] if {str(path), f"./{path}", f"{ROOT}/{path}"} & broken]
    # The error may be in a header that a later file includes.
    return named or files[len(files) // 2 :]


@contextmanager
def unit_of(files: list[Path]) -> Iterator[str]:
    """A source that stands for these files."""
    with tempfile.TemporaryDirectory() as folder:
        unit = Path(folder) / "unit.cc"
        unit.write_text("".join(f'#include "{path}"\n' for path in files), encoding="utf-8")
        yield str(unit) if len(files) > 1 else str(files[0])


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Runs a command at the root."""
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@cache
def clang_version() -> str:
    """What clang-tidy says of itself."""
    return run("clang-tidy", "--version").stdout


@cache
def file_hash(path: str) -> str:
    """A hash of the file's content, read once in the life of this process."""
    return hashlib.sha256((ROOT / path).read_bytes()).hexdigest()


def content_key(files: list[Path], flags: list[str]) -> str | None:
    """A hash of all that decides what the compiler says of a unit; None if it cannot be known.

    The preprocessor lists the files, so a header that comes to stand before another one counts too.
    Folders outside the repository are left out: each checkout has its own.
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
    """The files that do not compile after the others; the compiler alone is quick about it."""
    if len(files) == 1:
        return []

    def compute() -> str:
        with unit_of(files) as source:
            compiled = run("clang++", "-fsyntax-only", "-w", *flags, source)
        return "\n".join(map(str, apart(compiled.stderr, files)))

    key = content_key(files, flags)
    return [Path(line) for line in results.get_or("clashing", key, compute).splitlines()]


def units(files: list[Path], flags: list[str], results: ResultCache) -> Iterator[list[Path]]:
    """The files in few units that compile; what clashes with one unit waits for the next."""
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
    """Whether a file of the repository that clang-tidy may have read was written since then."""
    return any((ROOT / path).stat().st_mtime >= instant for path in source_files(*CPP_SUFFIXES))


def tidy(files: list[Path], flags: list[str], results: ResultCache) -> list[str]:
    """What clang-tidy says about these files, which it reads as one."""
    started = time.time()
    key = content_key(files, flags)
    if results.get("clean", key) is not None:
        return []
    with unit_of(files) as source:
        done = run("clang-tidy", "--quiet", f"--config-file={CONFIG}", CHECKS, source, "--", *flags)
    if done.returncode == 0:
        # What was edited meanwhile may have been read before or after the edit.
        if not is_edited_since(started):
            results.put("clean", key, "")
        return []
    output = (done.stdout + done.stderr).rstrip()
    return [f"$ clang-tidy {' '.join(map(str, files))}\n{output}"]


def clang_tidy() -> Iterator[str]:
    """The findings in every .cc file, those near changed files first; checks are in .clang-tidy."""
    flags = compiler_flags()
    results = ResultCache.of_this_machine("tidy")
    by_kind = kinds(source_files(".cc"), changed_files())
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        # Clashes are quick to find, and what they leave is spread over all threads.
        split = pool.map(lambda files: list(units(files, flags, results)), by_kind)
        checked = [pool.submit(tidy, unit, flags, results) for of_kind in split for unit in of_kind]
        for findings in checked:
            yield from findings.result()
