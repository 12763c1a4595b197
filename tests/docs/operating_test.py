"""Checks that docs/OPERATING.md and docs/METRICS.md agree with the programs."""

import re
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SERVER, PRINT_METRICS, PRINT_ERROR_REASONS = sys.argv[1:4]
OPERATING: Final = (ROOT / "docs/OPERATING.md").read_text(encoding="utf-8")
METRICS: Final = (ROOT / "docs/METRICS.md").read_text(encoding="utf-8")


def printed(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def table_rows() -> list[list[str]]:
    """Returns the cells of each row of the page's tables."""
    rows = re.findall(r"^\| (.*) \|$", OPERATING, re.MULTILINE)
    return [row.split(" | ") for row in rows]


def declared_reasons() -> dict[str, str]:
    """Returns the status code of each reason."""
    lines = printed(PRINT_ERROR_REASONS).splitlines()
    return dict(line.split() for line in lines)


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

    def test_every_reason_has_its_entry_with_its_code(self) -> None:
        entries = {
            cells[0].strip("`"): cells[1].removesuffix(", no retry")
            for cells in table_rows()
            if re.fullmatch(r"`[A-Z_]+`", cells[0])
        }
        self.assertEqual(entries, declared_reasons())

    def test_the_code_gives_every_reason(self) -> None:
        used: set[str] = set()
        for folder in ("core", "server", "base"):
            for path in (ROOT / folder).rglob("*.cc"):
                if not path.stem.endswith("_test"):
                    used.update(re.findall(r"ErrorReason::k(\w+)", path.read_text()))
        names = {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).upper() for word in used}
        self.assertEqual(names, set(declared_reasons()))

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
