"""Runs the PromQL expressions and alerts of the docs with promtool on simulated traffic."""

import re
import subprocess
import tempfile
import unittest
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
OPERATING: Final = ROOT / "docs/OPERATING.md"
METRICS: Final = ROOT / "docs/METRICS.md"
# These names look like metrics but are programs.
PROGRAMS: Final = {"canopy_server", "canopy_load", "process_test", "process_stats"}
NAME: Final = re.compile(r"\b(?:canopy|process)_[a-z_]+\b")
SELECTOR: Final = re.compile(r"\b((?:canopy|process)_[a-z_]+)\{([^}]*)\}")
MATCHER: Final = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"')
# Labels that Prometheus adds to every series, and the label of histogram buckets.
TARGET_LABELS: Final = {"job", "instance", "le"}

Series = dict[str, str]


def pages() -> list[Path]:
    """Returns every page that an operator may copy from."""
    return sorted({*ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("docs/**/*.md")})


def declared_metrics() -> dict[str, dict[str, set[str]]]:
    """Returns each metric's labels with their values. No values means any value."""
    metrics: dict[str, dict[str, set[str]]] = {}
    for line in METRICS.read_text(encoding="utf-8").splitlines():
        if not line.startswith("| `"):
            continue
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        labels: dict[str, set[str]] = {}
        for part in cells[4].split("<br>") if len(cells) > 4 and cells[4] else []:
            name, values = part.split(": ", 1)
            own = values.startswith("from ")
            labels[name.strip("`")] = set() if own else set(values.split(", "))
        metrics[cells[0].strip("`")] = labels
    return metrics


def base_name(name: str, metrics: Iterable[str]) -> str:
    """Returns the metric of a series. A histogram has three kinds of series."""
    return name if name in metrics else re.sub(r"_(bucket|sum|count)$", "", name)


def faults(text: str, metrics: dict[str, dict[str, set[str]]]) -> list[str]:
    """Returns metric names, labels and label values in `text` that no metric has."""
    found = [
        f"no metric {name}"
        for name in sorted(set(NAME.findall(text)) - PROGRAMS)
        if base_name(name, metrics) not in metrics
    ]
    for name, matchers in SELECTOR.findall(text):
        labels = metrics.get(base_name(name, metrics), {})
        for label, value in MATCHER.findall(matchers):
            if label in TARGET_LABELS:
                continue
            if label not in labels:
                found.append(f"{name} has no label {label}")
            elif labels[label] and value not in labels[label]:
                found.append(f"{name}{{{label}}} is never {value}")
    return found


def rule_groups() -> list[dict[str, Any]]:
    """Returns the rule groups of all pages."""
    groups: list[dict[str, Any]] = []
    for page in pages():
        for block in re.findall(
            r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S
        ):
            document = yaml.safe_load(block)
            if isinstance(document, dict) and "groups" in document:
                groups += document["groups"]
    return groups


def expressions(text: str) -> list[str]:
    """Returns the code spans of a page that are PromQL, that is, read a metric."""
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
    return [
        span
        for span in spans
        if set(NAME.findall(span)) - PROGRAMS and not span.startswith(("--", "canopy_server"))
    ]


def counters(name: str, rates: dict[str, float], labels: str = "") -> Series:
    """Returns counters with the given rates per minute, keyed by the text between their braces."""
    comma = "," if labels else ""
    return {f"{name}{{{labels}{comma}{key}}}": f"0+{rate}x60" for key, rate in rates.items()}


def traffic(
    calls: dict[str, float] | None = None,
    stream: dict[str, float] | None = None,
    refused: float = 0,
) -> Series:
    """Returns a server's request counters by code, including the series that exist at the start."""
    target = 'job="canopy",instance="a"'
    codes = ("OK", "INTERNAL", "RESOURCE_EXHAUSTED", "INVALID_ARGUMENT")
    series: Series = {}
    for method in ("Score", "ScoreStream"):
        # A stream of a day is one call that has not ended yet.
        rates = {
            f'code="{code}"': (calls or {}).get(code, 0) if method == "Score" else 0
            for code in codes
        }
        series |= counters("canopy_requests_total", rates, f'{target},method="{method}"')
    rates = {f'code="{code}"': (stream or {}).get(code, 0) for code in codes}
    series |= counters("canopy_stream_requests_total", rates, target)
    rates = {'reason="queued_requests"': refused, 'reason="memory"': 0}
    return series | counters("canopy_refused_requests_total", rates, target)


def gauges(**values: float) -> Series:
    return {f'{name}{{job="canopy",instance="a"}}': f"{value}x60" for name, value in values.items()}


def waits(priority: str, slow: float) -> Series:
    """Returns a queue histogram in which `slow` of 100 requests per minute wait for 2 s."""
    name = "canopy_queue_seconds_bucket"
    rates = {'le="0.1"': 100 - slow, 'le="1"': 100 - slow, 'le="2.2"': 100, 'le="+Inf"': 100}
    return counters(name, rates, f'job="canopy",instance="a",priority="{priority}"')


def device(busy: float, wasted: float) -> Series:
    target = 'job="canopy",instance="a"'
    return {
        f"canopy_device_busy_seconds_total{{{target}}}": f"0+{busy}x60",
        f"canopy_wasted_device_seconds_total{{{target}}}": f"0+{wasted}x60",
    }


def routes(reason: str, rate: float) -> Series:
    return counters(
        "canopy_routes_total",
        {f'reason="{reason}"': rate, 'reason="none"': 100},
        'job="canopy",instance="a",backend="path"',
    )


BOTH_UP: Final = gauges(canopy_ready=1, up=1)
# FIRES holds, for each alert, series for which it must fire; SILENT holds series for which it must
# not.
FIRES: Final[dict[str, list[Series]]] = {
    "CanopyNotReady": [
        gauges(canopy_ready=0, up=1),
        gauges(up=0),
    ],
    "CanopyInternalErrors": [
        traffic(calls={"OK": 6_000, "INTERNAL": 1}),
        traffic(stream={"OK": 6_000, "INTERNAL": 1}),
        traffic(calls={"INTERNAL": 1}, stream={"INTERNAL": 1}),
    ],
    "CanopyRefusesWork": [
        traffic(calls={"OK": 94, "RESOURCE_EXHAUSTED": 6}, refused=6),
        traffic(stream={"OK": 94, "RESOURCE_EXHAUSTED": 6}, refused=6),
        traffic(calls={"OK": 900}, stream={"OK": 40, "RESOURCE_EXHAUSTED": 60}, refused=60),
        traffic(stream={"RESOURCE_EXHAUSTED": 60}, refused=60),
    ],
    "CanopyQueueWait": [waits("normal", 20) | waits("low", 0)],
    "CanopyWastesDevice": [device(busy=50, wasted=10)],
    "CanopyFallsBack": [routes("backend_failed", 1)],
    "CanopyMemory": [gauges(canopy_memory_limit_bytes=100, canopy_memory_used_bytes=95)],
    "CanopyDescriptors": [gauges(process_open_fds=900, process_max_fds=1_000)],
}
SILENT: Final[dict[str, list[Series]]] = {
    "CanopyNotReady": [BOTH_UP],
    "CanopyInternalErrors": [
        traffic(),
        traffic(calls={"OK": 6_000, "INVALID_ARGUMENT": 60, "RESOURCE_EXHAUSTED": 60}),
        traffic(stream={"OK": 6_000, "INVALID_ARGUMENT": 60, "RESOURCE_EXHAUSTED": 60}),
    ],
    "CanopyRefusesWork": [
        traffic(),
        traffic(calls={"OK": 9_999, "RESOURCE_EXHAUSTED": 1}, refused=1),
        traffic(stream={"OK": 9_999, "RESOURCE_EXHAUSTED": 1}, refused=1),
        traffic(stream={"OK": 96, "RESOURCE_EXHAUSTED": 4}, refused=4),
        traffic(calls={"OK": 900}, stream={"OK": 60, "RESOURCE_EXHAUSTED": 40}, refused=40),
    ],
    "CanopyQueueWait": [
        waits("normal", 5) | waits("low", 5),
        waits("normal", 0) | waits("low", 90),
    ],
    "CanopyWastesDevice": [device(busy=50, wasted=4), device(busy=0, wasted=0)],
    "CanopyFallsBack": [routes("backend_failed", 0), routes("mask_budget", 10)],
    "CanopyMemory": [
        gauges(canopy_memory_limit_bytes=100, canopy_memory_used_bytes=80),
        gauges(canopy_memory_limit_bytes=0, canopy_memory_used_bytes=80),
    ],
    "CanopyDescriptors": [gauges(process_open_fds=700, process_max_fds=1_000)],
}
# The beginning of a row of the "where to look" table, the traffic, and the expected value.
MINUTE: Final = 60
VALUES: Final[list[tuple[str, Series, float]]] = [
    ("share of failures", traffic(calls={"OK": 90, "INTERNAL": 10}), 0.1),
    ("share of failures", traffic(stream={"OK": 90, "INTERNAL": 10}), 0.1),
    (
        "share of failures",
        traffic(calls={"OK": 100}, stream={"OK": 60, "INVALID_ARGUMENT": 40}),
        0.2,
    ),
    ("load, requests of streams", traffic(calls={"OK": 600}, stream={"OK": 60}), 1),
    ("is the device full?", device(busy=30, wasted=0), 0.5),
    ("work for nobody", device(busy=50, wasted=5), 0.1),
    ("do requests wait?", waits("normal", 0), 0.09),
]


def promtool(*arguments: str) -> str:
    """Runs promtool. Returns its output if it fails, else ""."""
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def input_series(series: Series) -> list[dict[str, str]]:
    return [{"series": name, "values": values} for name, values in series.items()]


def row_expression(question: str) -> str:
    """Returns the first expression of the row of OPERATING.md that begins with `question`."""
    row = re.search(
        rf"^\| {re.escape(question)} \| `([^`]+)`", OPERATING.read_text(encoding="utf-8"), re.M
    )
    assert row is not None, question
    return row[1]


class AlertsTest(unittest.TestCase):
    maxDiff = None

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.rules = self.folder / "rules.yml"
        self.rules.write_text(yaml.safe_dump({"groups": rule_groups()}), encoding="utf-8")

    def run_tests(self, tests: list[dict[str, Any]]) -> str:
        document = {"rule_files": [str(self.rules)], "evaluation_interval": "1m", "tests": tests}
        path = self.folder / "tests.yml"
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        return promtool("test", "rules", str(path))

    def firing(self, cases: list[tuple[str, Series]]) -> list[bool]:
        """Returns, for each case, True if its alert fires after half an hour and names its
        instance."""
        # promtool reports the name of each test in which an unexpected alert fires.
        report = self.run_tests(
            [
                {
                    "name": f"case {place}.",
                    "interval": "1m",
                    "input_series": input_series(series),
                    "alert_rule_test": [{"eval_time": "30m", "alertname": alert, "exp_alerts": []}],
                }
                for place, (alert, series) in enumerate(cases)
            ]
        )
        fired: list[bool] = []
        for place, (alert, _) in enumerate(cases):
            found = re.search(rf"name: case {place}\.,.*?got:\[.*?\n\s*\]", report, re.S)
            fired.append(found is not None)
            if found is not None:
                self.assertIn(f"alertname: {alert}", found[0])
                self.assertIn('instance="a"', found[0])
        return fired

    def test_promtool_accepts_every_rule(self) -> None:
        self.assertTrue(rule_groups())
        self.assertEqual(promtool("check", "rules", str(self.rules)), "")

    def test_promtool_accepts_every_expression(self) -> None:
        found = [text for page in pages() for text in expressions(page.read_text(encoding="utf-8"))]
        self.assertGreater(len(found), 40)
        rules = [
            {"record": f"canopy:expression:{place}", "expr": text}
            for place, text in enumerate(found)
        ]
        path = self.folder / "expressions.yml"
        groups = {"groups": [{"name": "docs", "rules": rules}]}
        path.write_text(yaml.safe_dump(groups), encoding="utf-8")
        self.assertEqual(promtool("check", "rules", str(path)), "")

    def test_every_name_label_and_value_of_the_docs_is_there(self) -> None:
        metrics = declared_metrics()
        self.assertGreater(len(metrics), 40)
        for page in pages():
            if page != METRICS:
                with self.subTest(page.name):
                    self.assertEqual(faults(page.read_text(encoding="utf-8"), metrics), [])

    def test_a_planted_fault_is_found(self) -> None:
        metrics = declared_metrics()
        for right, wrong in {
            "canopy_refused_requests_total": "canopy_refused_request_total",
            'code="INTERNAL"': 'code="INTERNL"',
            'priority="normal"': 'priorities="normal"',
            "canopy_queue_seconds_bucket": "canopy_queue_second_bucket",
        }.items():
            text = OPERATING.read_text(encoding="utf-8")
            self.assertIn(right, text)
            self.assertTrue(faults(text.replace(right, wrong), metrics), wrong)

    def test_every_alert_fires_when_it_must_and_is_silent_when_it_must(self) -> None:
        alerts = {rule["alert"] for group in rule_groups() for rule in group["rules"]}
        self.assertEqual(alerts, set(FIRES), "each alert has its cases here")
        self.assertEqual(alerts, set(SILENT))
        expected = [
            (alert, series, fires)
            for cases, fires in ((FIRES, True), (SILENT, False))
            for alert in sorted(alerts)
            for series in cases[alert]
        ]
        fired = self.firing([(alert, series) for alert, series, _ in expected])
        for (alert, series, fires), fires_now in zip(expected, fired, strict=True):
            self.assertEqual(fires_now, fires, f"{alert} on {series}")

    def test_an_alert_waits_for_its_time(self) -> None:
        # The server is not ready for a minute.
        loading = {
            'canopy_ready{job="canopy",instance="a"}': "1x28 0x40",
            'up{job="canopy",instance="a"}': "1x60",
        }
        self.assertEqual(self.firing([("CanopyNotReady", loading)]), [False])

    def test_what_the_expressions_of_the_page_give(self) -> None:
        tests = [
            {
                "interval": "1m",
                "input_series": input_series(series),
                "promql_expr_test": [
                    # Labels are dropped and values are rounded, because sums of doubles are not
                    # exact.
                    {
                        "expr": f"round(sum({row_expression(question)}), 1e-6)",
                        "eval_time": "30m",
                        "exp_samples": [{"labels": "{}", "value": value}],
                    }
                ],
            }
            for question, series, value in VALUES
        ]
        self.assertEqual(self.run_tests(tests), "")


if __name__ == "__main__":
    unittest.main()
