"""Draws the charts of docs/PERFORMANCE.md from figures.json.

plot.py           writes the SVG files beside this script
plot.py --check   exits with 1 if a file is out of date, or a figure is not in its source page

Uses Python's standard library only.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).resolve().parent
ROOT: Final = FOLDER.parents[1]
WIDTH: Final = 760
LEFT: Final = 270  # where values begin; left of it are the labels of rows
RIGHT: Final = 60
TOP: Final = 78
ROW: Final = 30
BOTTOM: Final = 34
COLORS: Final = ("#1d4ed8", "#0d9488", "#c2410c")
STYLE: Final = (
    "text{font:12px sans-serif;fill:#1f2328}.title{font-size:15px;font-weight:bold}"
    ".note{fill:#57606a}.value{font-size:11px}"
)

Chart = dict[str, Any]


def number(text: str) -> float:
    """The number that a figure stands for, such as "1,326"."""
    return float(text.replace(",", ""))


def text(x: float, y: float, content: str, kind: str = "", anchor: str = "start") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text{style} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, color: str, width: int = 1) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}"'
        f' stroke-width="{width}"/>'
    )


def dots(chart: Chart) -> Iterator[str]:
    """A dot for each value, on a logarithmic axis from one power of ten to another."""
    values = [number(value) for row in chart["rows"] for value in row["values"]]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    bottom = TOP + ROW * len(chart["rows"])

    def place(value: float) -> float:
        share = (math.log10(value) - low) / (high - low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    for power in range(low, high + 1):
        x = place(10.0**power)
        yield line(x, TOP, x, bottom, "#d0d7de")
        yield text(x, bottom + 18, f"{10.0**power:,g}", "value", "middle")
    for index, row in enumerate(chart["rows"]):
        y = TOP + ROW * (index + 0.5)
        places = [place(number(value)) for value in row["values"]]
        yield text(LEFT - 44, y + 4, row["label"], anchor="end")
        yield line(places[0], y, places[-1], y, "#8c959f", 2)
        for x, color in zip(places, COLORS, strict=False):
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{color}"/>'
        # Values in the middle have no room for a label.
        yield text(places[0] - 9, y + 4, row["values"][0], "value", "end")
        yield text(places[-1] + 9, y + 4, row["values"][-1], "value")


def bars(chart: Chart) -> Iterator[str]:
    """A bar for each row's only value, on a linear axis from 0."""
    longest = max(number(row["values"][0]) for row in chart["rows"])
    for index, row in enumerate(chart["rows"]):
        y = TOP + ROW * (index + 0.5)
        length = number(row["values"][0]) / longest * (WIDTH - LEFT - RIGHT)
        yield text(LEFT - 44, y + 4, row["label"], anchor="end")
        yield (
            f'<rect x="{LEFT}" y="{y - 9:.1f}" width="{length:.1f}" height="18"'
            f' fill="{COLORS[0]}"/>'
        )
        yield text(LEFT + length + 8, y + 4, row["values"][0], "value")


def legend(chart: Chart) -> Iterator[str]:
    """The series with their colours, if there are several."""
    x = float(LEFT)
    for name, color in zip(chart["series"], COLORS, strict=False):
        if len(chart["series"]) > 1:
            yield f'<circle cx="{x + 5:.1f}" cy="60" r="5" fill="{color}"/>'
            yield text(x + 15, 64, name)
        x += 35 + 6.6 * len(name)


def draw(chart: Chart) -> str:
    """The SVG document of a chart."""
    height = TOP + ROW * len(chart["rows"]) + BOTTOM
    body = bars(chart) if chart["kind"] == "bars" else dots(chart)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
            f' viewBox="0 0 {WIDTH} {height}">',
            f"<style>{STYLE}</style>",
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
            text(12, 24, chart["title"], "title"),
            text(12, 43, chart["note"], "note"),
            *legend(chart),
            *body,
            "</svg>\n",
        ]
    )


def cells_of(line_of_table: str) -> list[str]:
    """The cells of a row of a Markdown table."""
    return [cell.strip() for cell in line_of_table.strip().strip("|").split("|")]


def missing_figures(chart: Chart) -> Iterator[str]:
    """The figures that the chart's source page does not have in the row that they name."""
    lines = (ROOT / chart["source"]).read_text(encoding="utf-8").splitlines()
    rows = [cells_of(row) for row in lines if row.startswith("| ")]
    for row in chart["rows"]:
        found = {
            part
            for cells in rows
            if cells[0] == row["cell"]
            for cell in cells
            for part in (cell, *cell.split(", "))
        }
        for value in row["values"]:
            if value not in found:
                yield f"{chart['file']}: {chart['source']} has no {value} in the row {row['cell']}"


def faults(charts: list[Chart]) -> list[str]:
    """What is out of date."""
    found = [fault for chart in charts for fault in missing_figures(chart)]
    for chart in charts:
        path = FOLDER / chart["file"]
        if not path.exists() or path.read_text(encoding="utf-8") != draw(chart):
            found.append(f"{chart['file']} is out of date: run docs/measurements/plot.py")
    return found


def read_charts() -> list[Chart]:
    charts: list[Chart] = json.loads((FOLDER / "figures.json").read_text(encoding="utf-8"))
    return charts


def main() -> int:
    parser = argparse.ArgumentParser(description="Draws the charts of docs/PERFORMANCE.md.")
    parser.add_argument("--check", action="store_true", help="write nothing, report what is stale")
    charts = read_charts()
    if parser.parse_args().check:
        found = faults(charts)
        print(*found, sep="\n", end="\n" if found else "")
        return 1 if found else 0
    for chart in charts:
        (FOLDER / chart["file"]).write_text(draw(chart), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
