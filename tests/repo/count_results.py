"""Counts test cases in Bazel's build event files; the last line is `N passed, N failed`."""

import json
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Totals:
    """The number of test cases by result, and the names of failures."""

    passed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)


def count_cases(label: str, xml_path: Path, target_passed: bool, totals: Totals) -> None:
    """Adds the cases of one test target. A target that failed adds at least one failure."""
    failures_before = len(totals.failures)
    try:
        root = ElementTree.parse(xml_path).getroot()
    except (OSError, ElementTree.ParseError):
        root = ElementTree.Element("none")
    for case in root.iter("testcase"):
        name = f"{label} {case.get('classname', '')}.{case.get('name', '')}"
        if case.find("failure") is not None or case.find("error") is not None:
            totals.failures.append(name)
        elif case.get("status") == "notrun" or case.find("skipped") is not None:
            totals.skipped += 1
        else:
            totals.passed += 1
    if not target_passed and len(totals.failures) == failures_before:
        totals.failures.append(label)


def read_events(path: Path, totals: Totals) -> None:
    """Adds one invocation. A missing file, a failed build or no tests at all is a failure."""
    finished = False
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        event = json.loads(line)
        identity = event.get("id", {})
        if "testResult" in identity and "testResult" in event:
            result = event["testResult"]
            outputs = {entry["name"]: entry.get("uri", "") for entry in result["testActionOutput"]}
            xml = Path(
                urllib.parse.unquote(urllib.parse.urlparse(outputs.get("test.xml", "")).path)
            )
            passed = result.get("status") == "PASSED"
            count_cases(identity["testResult"]["label"], xml, passed, totals)
        elif "targetCompleted" in identity and event.get("completed", {}).get("success") is None:
            if "aborted" not in event:
                totals.failures.append(f"{identity['targetCompleted']['label']} (build)")
        elif "buildFinished" in identity:
            # 0 = all passed; 3 = built, but a test failed, which was counted above.
            code = event["finished"].get("exitCode", {}).get("code", 0)
            finished = code in (0, 3)
    if not finished:
        totals.failures.append(f"{path.name}: the build did not finish")


def main(paths: list[str]) -> int:
    totals = Totals()
    for path in paths:
        read_events(Path(path), totals)
    for failure in totals.failures:
        print(f"FAILED {failure}")
    if totals.skipped:
        print(f"{totals.skipped} skipped")
    print(f"{totals.passed} passed, {len(totals.failures)} failed")
    return 1 if totals.failures or totals.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
