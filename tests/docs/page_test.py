"""Runs the commands of docs/OUTPUTS.md and docs/LOAD.md with real servers.

A ```sh block whose first line is `# ./dev serve FLAGS` runs while a server with these flags runs;
`canopy` and `canopy_load` are replaced by the programs. If a ```text block follows, each of its
lines must appear in the output, in the same order. `...` matches any text. Numbers with a fraction
may differ slightly, because processors and thread counts change the order of sums.
"""

import math
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = (ROOT / "docs/OUTPUTS.md", ROOT / "docs/LOAD.md")
SERVER, CLIENT, LOAD = (Path(path).absolute() for path in sys.argv[1:4])
RUN_SECONDS: Final = 120
BLOCK: Final = re.compile(
    r"^```sh\n# \./dev serve (?P<flags>[^\n]*)\n(?P<script>.*?)^```$"
    r"(?:\n+```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)

ANY_FRACTION: Final = r"(-?\d+\.\d+)"


class Server:
    """Runs canopy_server on a free port within a scope."""

    def __init__(self, flags: str) -> None:
        command = ["bash", "-c", f'exec "{SERVER}" --listen=127.0.0.1:0 {flags}']
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()  # returns at the latest when the process exits
        if not line.startswith("listening on "):
            raise AssertionError("the server did not start")
        return line.removeprefix("listening on ").strip()

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.communicate()


def line_pattern(line: str) -> re.Pattern[str]:
    """Returns a pattern for the line that matches any fractions, with one group for each."""
    texts = re.split(ANY_FRACTION, line)[::2]
    escaped = [re.escape(text).replace(re.escape("..."), ".*") for text in texts]
    return re.compile(f"^{ANY_FRACTION.join(escaped)}$", re.MULTILINE)


def is_close(line: str, match: re.Match[str]) -> bool:
    return all(
        math.isclose(float(wanted), float(found), rel_tol=1e-4, abs_tol=2e-4)
        for wanted, found in zip(re.findall(ANY_FRACTION, line), match.groups(), strict=True)
    )


def missing_lines(expected: str, output: str) -> list[str]:
    """Returns the first expected line that is missing after the previous one, if any."""
    position = 0
    for line in map(str.rstrip, expected.splitlines()):
        matches = line_pattern(line).finditer(output, position)
        found = next((match for match in matches if is_close(line, match)), None)
        if found is None:
            return [line]
        position = found.end()
    return []


class PageTest(unittest.TestCase):
    def test_every_request_runs_and_prints_what_the_page_shows(self) -> None:
        blocks: list[re.Match[str]] = []
        for page in PAGES:
            found = list(BLOCK.finditer(page.read_text(encoding="utf-8")))
            self.assertGreater(len(found), 2, page)
            blocks.extend(found)
        for block in blocks:
            with self.subTest(script=block["script"]), Server(block["flags"]) as address:
                programs = (
                    f'canopy() {{ "{CLIENT}" "$1" --server={address} "${{@:2}}"; }}\n'
                    f'canopy_load() {{ "{LOAD}" --targets={address} "$@"; }}\n'
                )
                done = subprocess.run(
                    ["bash", "-euo", "pipefail", "-c", programs + block["script"]],
                    cwd=ROOT,
                    env={**os.environ, "LC_ALL": "C.UTF-8"},
                    capture_output=True,
                    text=True,
                    timeout=RUN_SECONDS,
                    check=False,
                )
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertFalse(missing_lines(block["output"] or "", done.stdout), done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
