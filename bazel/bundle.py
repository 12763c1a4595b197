"""Copies programs and their shared libraries, except LibTorch and libc, into one folder.

A machine with the same LibTorch runs them as `OUT/run PROGRAM ...`. TORCH_LIB may name the folder
of libtorch.so; by default it is that of the machine's Python.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

# These libraries are part of every Linux with glibc 2.36 (Debian 12) or newer.
_SYSTEM: Final = re.compile(r"^(ld-linux|libc|libm|libdl|libpthread|librt|libresolv)[.-]")
_RUN: Final = """#!/bin/bash
# Runs a bundled program with the bundled libraries and the LibTorch of this machine.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
torch="${TORCH_LIB:-$(python3 -c 'import torch, os; print(os.path.dirname(torch.__file__))')/lib}"
nvidia="$(find "$torch/../../nvidia" -maxdepth 3 -type d -name lib 2>/dev/null | paste -sd:)"
program="$1"
shift
LD_LIBRARY_PATH="$here/lib:$torch:$nvidia" exec "$here/$program" "$@"
"""


def needed_libraries(program: Path) -> list[Path]:
    """Returns the shared libraries of a program outside libc and outside the Python venv."""
    listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    found = re.findall(r"(\S+) => (\S+)", listed)
    missing = [name for name, path in found if path == "not"]
    if missing:
        sys.exit(f"{program}: libraries not found: {', '.join(missing)}")
    return [
        Path(path)
        for name, path in found
        if not _SYSTEM.match(name) and "site-packages" not in path
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("programs", type=Path, nargs="+")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.out, ignore_errors=True)
    (arguments.out / "lib").mkdir(parents=True)
    for program in arguments.programs:
        target = arguments.out / program.name
        shutil.copy(program, target)
        target.chmod(0o755)
        subprocess.run(["strip", "--strip-debug", target], check=True)
        for library in needed_libraries(program):
            shutil.copy(library, arguments.out / "lib" / library.name)
    run = arguments.out / "run"
    run.write_text(_RUN)
    run.chmod(0o755)
    total_bytes = sum(path.stat().st_size for path in arguments.out.rglob("*") if path.is_file())
    print(f"{arguments.out}: {total_bytes / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
