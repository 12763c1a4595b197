"""Computes the key of this machine's compile cache, and limits the size of the cache.

Bazel's disk cache finds a compile by its command and its inputs, but these do not include headers
and tools of installed packages. `key` prints a hash of the versions of these packages, which ./dev
adds to each command. `prune` deletes the least recently used files.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
DPKG_INFO: Final = Path("/var/lib/dpkg/info")
LOCAL_INCLUDE: Final = Path("/usr/local/include")
# A package that installs files in one of these folders may change the output of a compile.
_COMPILED_FROM: Final = re.compile(r"^/usr/(include|lib/gcc|lib/llvm-[0-9]+)/", re.MULTILINE)
_LINKER: Final = "binutils"


def named_packages(text: str) -> set[str]:
    """Returns the packages that a packages.txt lists."""
    lines = (line.strip() for line in text.splitlines())
    return {line for line in lines if line and not line.startswith("#")}


def compiled_from(info: Path) -> set[str]:
    """Returns the packages with headers, compilers or linkers, according to dpkg's file lists."""
    found = set()
    for listing in info.glob("*.list"):
        name = listing.name.removesuffix(".list").split(":")[0]
        text = listing.read_text(encoding="utf-8", errors="replace")
        if name.startswith(_LINKER) or _COMPILED_FROM.search(text):
            found.add(name)
    return found


def installed_versions() -> dict[str, str]:
    """Returns the version of each installed Debian package."""
    listed = subprocess.run(
        ["dpkg-query", "-W", "-f=${db:Status-Status} ${Package}:${Architecture} ${Version}\n"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    rows = (line.split() for line in listed.splitlines())
    return {row[1]: row[2] for row in rows if row[0] == "installed"}


def file_stamps(paths: Iterable[Path]) -> Iterator[str]:
    """Yields size and time of each file; used for files that do not belong to a package."""
    for path in sorted(paths):
        if path.is_file():
            stat = path.stat()
            yield f"{path} {stat.st_size} {stat.st_mtime_ns}"


def compiler_version() -> str:
    """Returns the compiler's version line. CC may name a compiler that is not from a package."""
    command = shutil.which(os.environ.get("CC", "gcc")) or "gcc"
    return subprocess.run(
        [command, "--version"], check=True, capture_output=True, text=True
    ).stdout.splitlines()[0]


def package_lines(wanted: set[str], versions: dict[str, str]) -> Iterator[str]:
    """Yields name and version of the wanted packages that are installed."""
    for name, version in sorted(versions.items()):
        if name.split(":")[0] in wanted:
            yield f"{name} {version}"


def key_lines() -> Iterator[str]:
    """Yields all lines that the key is a hash of."""
    wanted = named_packages((ROOT / "packages.txt").read_text()) | compiled_from(DPKG_INFO)
    yield from package_lines(wanted, installed_versions())
    # ./dev setup has installed these requirements, which include LibTorch and nvcc.
    for requirements in ("requirements.txt", "requirements-cuda.txt"):
        yield (ROOT / requirements).read_text()
    for variable in ("CC", "CUDA_HOME", "TORCH_HOME"):
        yield f"{variable} {os.environ.get(variable, '')}"
    yield compiler_version()
    if "CUDA_HOME" in os.environ:
        home = Path(os.environ["CUDA_HOME"])
        yield from file_stamps([home / "bin/nvcc", home / "version.json"])
    yield from file_stamps(LOCAL_INCLUDE.rglob("*"))


def key(lines: Iterable[str]) -> str:
    """Returns a short hash of the lines."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def prune(folder: Path, max_bytes: int) -> int:
    """Deletes the least recently used files until the rest fit; returns the remaining bytes.

    A build that runs at the same time treats deleted files as not cached.
    """
    files = []
    for path in folder.rglob("*"):
        try:
            stat = path.lstat()
        except FileNotFoundError:
            continue
        if not path.is_dir():
            # Reading updates atime, on most file systems at most once a day; writing updates mtime.
            files.append((max(stat.st_atime_ns, stat.st_mtime_ns), stat.st_size, path))
    remaining = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if remaining <= max_bytes:
            break
        path.unlink(missing_ok=True)
        remaining -= size
    return remaining


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("key", help="print the hash of what compiles read outside the repository")
    pruning = commands.add_parser("prune", help="delete the least recently used files of FOLDER")
    pruning.add_argument("folder", type=Path)
    pruning.add_argument("--max_gib", type=float, required=True)
    arguments = parser.parse_args()
    if arguments.command == "key":
        print(key(key_lines()))
    elif arguments.folder.is_dir():
        prune(arguments.folder, int(arguments.max_gib * 2**30))


if __name__ == "__main__":
    main()
