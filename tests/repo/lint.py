"""Runs every check of style and structure. Exits with 1 if it finds a violation."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import defaults
import layering
import structure
import tidy
from source_files import CPP_SUFFIXES, ROOT, changed_files, source_files


def run(*command: str) -> list[str]:
    """Runs a command; returns its output as a violation if it fails."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return []
    return [f"$ {command[0]} ...\n{done.stdout}{done.stderr}".rstrip()]


def clang_format() -> list[str]:
    changed = set(changed_files())
    files = sorted(source_files(*CPP_SUFFIXES), key=lambda path: path not in changed)
    return run("clang-format", "--dry-run", "-Werror", *map(str, files)) if files else []


def python() -> list[str]:
    """Checks the format and the rules of all Python files, and the types folder by folder."""
    tools = Path(sys.executable).parent
    found = run(str(tools / "ruff"), "format", "--check", "--quiet", ".")
    found += run(str(tools / "ruff"), "check", "--quiet", ".")
    for folder in sorted({path.parent for path in source_files(".py")}):
        names = [str(path) for path in source_files(".py") if path.parent == folder]
        found += run(str(tools / "mypy"), "--no-error-summary", *names)
    return found


def main() -> int:
    checks: list[Callable[[], Iterable[str]]] = [
        layering.check,
        structure.check,
        defaults.check,
        clang_format,
        python,
        tidy.clang_tidy,
    ]
    failed = 0
    for check in checks:
        start = time.monotonic()
        name = check.__module__ if check.__name__ == "check" else check.__name__
        found = 0
        for line in check():
            print(f"  {line}", flush=True)
            found += 1
        seconds = time.monotonic() - start
        print(f"lint: {name}: {f'{found} found' if found else 'ok'} ({seconds:.0f} s)", flush=True)
        failed += found
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
