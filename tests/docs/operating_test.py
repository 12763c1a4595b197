"""docs/OPERATING.md and docs/METRICS.md say what the programs do."""

import re
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SERVER, PRINT_METRICS = sys.argv[1:3]
OPERATING: Final = (ROOT / "docs/OPERATING.md").read_text(encoding="utf-8")
METRICS: Final = (ROOT / "docs/METRICS.md").read_text(encoding="utf-8")
REASONS_FILE: Final = ROOT / "base/error_reasons.h"


def printed(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def table_rows() -> list[list[str]]:
    """The cells of each row of the tables of the page."""
    rows = re.findall(r"^\| (.*) \|$", OPERATING, re.MULTILINE)
    return [row.split(" | ") for row in rows]


def declared_reasons() -> set[str]:
    return set(re.findall(r'^    "([A-Z_]+)",$', REASONS_FILE.read_text(), re.MULTILINE))


def named_reasons(code: str) -> set[str]:
    """The last argument of each call of WithErrorReason, where it is a literal."""
    reasons: set[str] = set()
    for call in re.finditer(r"WithErrorReason\(", code):
        depth, last = 1, ""
        for token in re.finditer(r'"(?:\\.|[^"\\])*"|[(),]', code[call.end() :]):
            depth += {"(": 1, ")": -1}.get(token.group(), 0)
            if depth == 0:
                break
            last = token.group()
        if last.startswith('"'):
            reasons.add(last.strip('"'))
    return reasons


class OperatingTest(unittest.TestCase):
    maxDiff = None

    def test_the_page_of_metrics_is_what_the_declarations_print(self) -> None:
        self.assertEqual(METRICS, printed(PRINT_METRICS), "bazel run //tests/docs:print_metrics")

    def test_every_flag_has_a_row_with_its_default(self) -> None:
        flags = dict(
            re.findall(r"^  --(\w+)  .* Default: (.*)\.$", printed(SERVER, "--help"), re.MULTILINE)
        )
        self.assertGreater(len(flags), 30)
        rows = {
            name: cells[1].strip("`")
            for cells in table_rows()
            if cells[0].startswith("`--")
            for name in re.findall(r"--(\w+)", cells[0])
        }
        self.assertEqual(rows, flags)

    def test_every_metric_that_the_page_names_is_there(self) -> None:
        metrics = set(re.findall(r"^\| `(\w+)`", METRICS, re.MULTILINE))
        named = set(re.findall(r"\b((?:canopy|process)_[a-z_]+)", OPERATING))
        programs = {"canopy_server", "canopy_load"}
        missing = {
            name
            for name in named - metrics - programs
            if re.sub(r"_(bucket|sum|count)$", "", name) not in metrics
        }
        self.assertFalse(missing)

    def test_every_reason_has_its_entry(self) -> None:
        entries = {
            cells[0].strip("`") for cells in table_rows() if re.fullmatch(r"`[A-Z_]+`", cells[0])
        }
        self.assertEqual(entries, declared_reasons())

    def test_the_code_names_no_reason_that_is_not_declared(self) -> None:
        found: set[str] = set()
        for folder in ("core", "server"):
            for path in (ROOT / folder).rglob("*.cc"):
                if not path.stem.endswith("_test"):
                    found.update(named_reasons(path.read_text(encoding="utf-8")))
        self.assertEqual(found, declared_reasons())

    def test_every_label_of_refusals_and_every_code_is_explained(self) -> None:
        def values(metric: str, label: str) -> list[str]:
            row = next(line for line in METRICS.splitlines() if f"`{metric}`" in line)
            match = re.search(rf"`{label}`: ([^|<]*)", row)
            assert match is not None
            return match.group(1).strip().split(", ")

        for reason in values("canopy_refused_requests_total", "reason"):
            self.assertIn(f"`{reason}`", OPERATING.replace('{reason="', "`").replace('"}`', "`"))
        for outcome in values("canopy_ended_requests_total", "outcome"):
            if outcome != "answered":
                self.assertIn(outcome, OPERATING)
        entries = " ".join(" ".join(cells[:2]) for cells in table_rows())
        for code in values("canopy_requests_total", "code"):
            if code not in ("OK", "UNKNOWN"):
                self.assertIn(code, entries)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
