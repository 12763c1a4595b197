"""Lists and reads the files that the repository checks read."""

import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
CPP_SUFFIXES: Final = (".h", ".cc", ".cu", ".cuh")


def source_files(*suffixes: str) -> list[Path]:
    """Returns tracked and new files with one of the suffixes, or all files if none is given."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    paths = (Path(name) for name in sorted(set(listed)))
    return [
        path
        for path in paths
        if (ROOT / path).is_file() and path.suffix in (suffixes or path.suffix)
    ]


def changed_files() -> list[Path]:
    """Returns new files, and files changed since the branch point on origin/main (or HEAD)."""

    def git(*arguments: str) -> list[str]:
        done = subprocess.run(
            ["git", *arguments], cwd=ROOT, check=False, capture_output=True, text=True
        )
        return done.stdout.splitlines() if done.returncode == 0 else []

    base = git("merge-base", "HEAD", "origin/main") or ["HEAD"]
    names = git("diff", "--name-only", base[0]) + git("ls-files", "-o", "--exclude-standard")
    return [Path(name) for name in sorted(set(names))]


def read(path: Path) -> str:
    """Returns the text of a file given by its path relative to the root."""
    return (ROOT / path).read_text(encoding="utf-8")
