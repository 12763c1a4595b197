"""clang-tidy over every .cc file, several to a process.

Nearly all of clang-tidy's time on one file goes into the headers of LibTorch, gRPC and GoogleTest:
files of a folder that share one translation unit are checked in a tenth of the time. A file that
cannot be compiled after the others (a helper of one name in both) goes into another unit.
"""

import os
import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from source_files import ROOT, source_files

# More files in a unit save little, and its memory grows.
MOST_FILES_TOGETHER: Final = 24
# One unit includes the sources: that is the point of it.
CHECKS: Final = "--checks=-bugprone-suspicious-include"


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


def groups(paths: Iterable[Path]) -> list[list[Path]]:
    """Files to be checked together: of one folder, tests apart, the largest groups first."""
    by_kind: dict[tuple[Path, bool], list[Path]] = defaultdict(list)
    for path in sorted(paths):
        by_kind[path.parent, path.stem.endswith("_test")].append(path)
    split = [
        files[start : start + MOST_FILES_TOGETHER]
        for files in by_kind.values()
        for start in range(0, len(files), MOST_FILES_TOGETHER)
    ]
    return sorted(split, key=len, reverse=True)


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


def units(files: list[Path], flags: list[str]) -> list[list[Path]]:
    """The files in as few units as they compile in; the compiler alone is quick about it."""
    if len(files) == 1:
        return [files]
    with unit_of(files) as source:
        compiled = run("clang++", "-fsyntax-only", "-w", *flags, source)
    others = apart(compiled.stderr, files)
    if not others:
        return [files]
    return units([path for path in files if path not in others], flags) + units(others, flags)


def tidy(files: list[Path], flags: list[str]) -> list[str]:
    """What clang-tidy says about these files, which it reads as one."""
    with unit_of(files) as source:
        done = run(
            "clang-tidy", "--quiet", "--config-file=.clang-tidy", CHECKS, source, "--", *flags
        )
    if done.returncode == 0:
        return []
    output = (done.stdout + done.stderr).rstrip()
    return [f"$ clang-tidy {' '.join(map(str, files))}\n{output}"]


def clang_tidy() -> list[str]:
    """The findings in every .cc file; the checks are in .clang-tidy."""
    flags = compiler_flags()

    def findings(group: list[Path]) -> list[str]:
        return [line for unit in units(group, flags) for line in tidy(unit, flags)]

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return [line for lines in pool.map(findings, groups(source_files(".cc"))) for line in lines]
