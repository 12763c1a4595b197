"""Runs every check of style and structure; prints what is wrong and exits 1 if anything is."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import layering
import structure
from source_files import CPP_SUFFIXES, ROOT, source_files


def run(*command: str) -> list[str]:
    """The command's output as violations when it fails."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return []
    return [f"$ {command[0]} ...\n{done.stdout}{done.stderr}".rstrip()]


def clang_format() -> list[str]:
    files = [str(path) for path in source_files(*CPP_SUFFIXES)]
    return run("clang-format", "--dry-run", "-Werror", *files) if files else []


def torch_include() -> list[str]:
    """Include flags of the LibTorch that the build uses."""
    home = os.environ.get("TORCH_HOME") or str(
        next((ROOT / ".venv" / "lib").glob("python3*/site-packages/torch"))
    )
    return [f"-isystem{home}/include"]


def cuda_include() -> list[str]:
    """Include flags of CUDA's headers, or of what stands for them."""
    homes = list((ROOT / ".venv" / "lib").glob("python3*/site-packages/nvidia/cu13"))
    if os.environ.get("CUDA_HOME"):
        homes.append(Path(os.environ["CUDA_HOME"]))
    found = [home / "include" for home in homes if (home / "include/cuda_runtime_api.h").exists()]
    return [f"-isystem{found[0] if found else 'kernels/no_cuda'}"]


def clang_tidy() -> list[str]:
    """One process a file; the checks are in .clang-tidy."""
    flags = [
        "-std=c++17",
        "-I.",
        "-isystembazel-bin/proto",
        "-isystembazel-bin/third_party/googleapis",
        *torch_include(),
        *cuda_include(),
    ]
    files = [str(path) for path in source_files(".cc")]

    def tidy(path: str) -> list[str]:
        return run("clang-tidy", "--quiet", path, "--", *flags)

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return [line for lines in pool.map(tidy, files) for line in lines]


def python() -> list[str]:
    """Formatting and rules for all, types for each folder that runs on its own."""
    tools = Path(sys.executable).parent
    found = run(str(tools / "ruff"), "format", "--check", "--quiet", ".")
    found += run(str(tools / "ruff"), "check", "--quiet", ".")
    for folder in sorted({path.parent for path in source_files(".py")}):
        names = [str(path) for path in source_files(".py") if path.parent == folder]
        found += run(str(tools / "mypy"), "--no-error-summary", *names)
    return found


def main() -> int:
    checks: list[Callable[[], list[str]]] = [
        layering.check,
        structure.check,
        clang_format,
        python,
        clang_tidy,
    ]
    failed = 0
    for check in checks:
        start = time.monotonic()
        name = check.__module__ if check.__name__ == "check" else check.__name__
        found = check()
        seconds = time.monotonic() - start
        print(f"lint: {name}: {'ok' if not found else f'{len(found)} found'} ({seconds:.0f} s)")
        for line in found:
            print(f"  {line}")
        failed += len(found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
