"""The compile cache of one machine: what its keys must know of the machine, and how it stays small.

Bazel's disk cache finds a compile by its command and its inputs, but headers and tools of installed
packages are not among these inputs. `key` prints a hash of these packages' versions, which ./dev
makes a part of each command. `prune` deletes the files that were used least recently.
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
    """The packages that a packages.txt names."""
    lines = (line.strip() for line in text.splitlines())
    return {line for line in lines if line and not line.startswith("#")}


def compiled_from(info: Path) -> set[str]:
    """Packages with headers, compilers or linkers, from dpkg's lists of files."""
    found = set()
    for listing in info.glob("*.list"):
        name = listing.name.removesuffix(".list").split(":")[0]
        text = listing.read_text(encoding="utf-8", errors="replace")
        if name.startswith(_LINKER) or _COMPILED_FROM.search(text):
            found.add(name)
    return found


def installed_versions() -> dict[str, str]:
    """The version of each installed Debian package."""
    listed = subprocess.run(
        ["dpkg-query", "-W", "-f=${db:Status-Status} ${Package}:${Architecture} ${Version}\n"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    rows = (line.split() for line in listed.splitlines())
    return {row[1]: row[2] for row in rows if row[0] == "installed"}


def file_stamps(paths: Iterable[Path]) -> Iterator[str]:
    """Files outside any package, by size and time."""
    for path in sorted(paths):
        if path.is_file():
            stat = path.stat()
            yield f"{path} {stat.st_size} {stat.st_mtime_ns}"


def compiler_version() -> str:
    """What the compiler says of itself; CC may name one that no package holds."""
    command = shutil.which(os.environ.get("CC", "gcc")) or "gcc"
    return subprocess.run(
        [command, "--version"], check=True, capture_output=True, text=True
    ).stdout.splitlines()[0]


def package_lines(wanted: set[str], versions: dict[str, str]) -> Iterator[str]:
    """Name and version of those wanted packages that are installed."""
    for name, version in sorted(versions.items()):
        if name.split(":")[0] in wanted:
            yield f"{name} {version}"


def key_lines() -> Iterator[str]:
    """All that the key is a hash of."""
    wanted = named_packages((ROOT / "packages.txt").read_text()) | compiled_from(DPKG_INFO)
    yield from package_lines(wanted, installed_versions())
    # What ./dev setup installed, which includes LibTorch and nvcc.
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
    """A short name for all of the lines."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def prune(folder: Path, max_bytes: int) -> int:
    """Deletes the least recently used files until the rest fit; returns the bytes that remain.

    A build that runs meanwhile takes what is gone for not cached.
    """
    files = []
    for path in folder.rglob("*"):
        try:
            stat = path.lstat()
        except FileNotFoundError:
            continue
        if not path.is_dir():
            # Reading sets the first, most file systems at most once a day; writing the second.
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
