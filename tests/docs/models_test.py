"""Checks that docs/MODELS.md lists the published models that tests/conformance covers."""

import subprocess
import sys
import unittest
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs/MODELS.md").read_text(encoding="utf-8")
TABLE: Final = ROOT / "tests/conformance/published_table.py"


class ModelsTest(unittest.TestCase):
    maxDiff = None

    def test_the_tables_of_published_models_are_those_of_the_test_data(self) -> None:
        command = [sys.executable, str(TABLE)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for table in printed.strip().split("\n\n"):
            self.assertIn(f"\n\n{table}\n", PAGE, "paste what published_table.py prints")


if __name__ == "__main__":
    unittest.main()
