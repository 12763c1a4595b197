"""The charts of docs/PERFORMANCE.md are what plot.py draws, and show the figures of the pages."""

import subprocess
import sys
import unittest
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PLOT: Final = ROOT / "docs/measurements/plot.py"


class ChartsTest(unittest.TestCase):
    def test_no_chart_is_out_of_date(self) -> None:
        command = [sys.executable, str(PLOT), "--check"]
        checked = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual((checked.returncode, checked.stdout, checked.stderr), (0, "", ""))


if __name__ == "__main__":
    unittest.main()
