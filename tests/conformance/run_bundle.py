"""Runs the conformance tests on a GPU machine from a bundle and this checkout, without a build.

    run_bundle.py [--bundle out/bundle] [--device cuda:0] [--json FILE]

The machine needs torch, transformers, and the output of `./dev bundle` from another machine. Each
script that makes checkpoints runs with PyTorch on the device, followed by the tests that read its
checkpoints; then the other tests run. Prints a summary line for each run, and the failed tests.
Exits with 1 if a test failed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
# These are the runs in the BUILD file of this folder. None = the tests need no checkpoints.
RUNS: Final = [
    ("make_checkpoints.py", "conformance", "*ParityTest*:MixedRequestTest*:Float16OverflowTest*"),
    ("make_heads.py", "conformance", "*ParityTest*:*CheckpointTest*"),
    ("make_family_checkpoints.py", "conformance", "*ParityTest*"),
    ("make_published_models.py", "conformance", "*PublishedModel*"),
    (None, "scoring_torch_test", "*"),
    (None, "runtime_torch_test", "*"),
]


def run(script: str | None, program: str, tests: str, options: Any) -> dict[str, Any]:
    """Runs one entry of RUNS and returns its results."""
    environment = {
        **os.environ,
        "CANOPY_TEST_DEVICE": options.device,
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        environment["TEST_TMPDIR"] = folder
        if script is not None:
            checkpoints = Path(folder) / "checkpoints"
            checkpoints.mkdir()
            command = [sys.executable, str(HERE / script), str(checkpoints)]
            subprocess.run(command, env=environment, check=True)
        made = time.monotonic()
        results = Path(folder) / "results.json"
        command = [
            str(options.bundle / "run"),
            program,
            f"--gtest_filter={tests}",
            f"--gtest_output=json:{results}",
        ]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
        cases = [
            {**case, "suite": suite["name"]}
            for suite in (json.loads(results.read_text())["testsuites"] if results.exists() else [])
            for case in suite["testsuite"]
        ]
    failed = [f"{case['suite']}.{case['name']}" for case in cases if "failures" in case]
    # The worst ratio of our error to PyTorch's in a 16-bit dtype, among those that tests record.
    ratios = [
        float(value)
        for case in cases
        for value in case.values()
        if isinstance(value, str) and re.fullmatch(r"\d+\.?\d*(e-?\d+)?", value)
    ]
    return {
        "script": script,
        "program": program,
        "passed": sum(case["result"] == "COMPLETED" for case in cases) - len(failed),
        "failed": failed,
        "largest_error_ratio": max(ratios, default=None),
        "exit_code": done.returncode,
        "seconds": [round(made - begin, 1), round(time.monotonic() - made, 1)],
        "output": done.stdout if done.returncode != 0 else "",
    }


def main() -> int:
    """Runs everything and prints one line per run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bundle", type=Path, default=HERE.parents[1] / "out/bundle")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--json", type=Path, help="file for all results")
    options = parser.parse_args()
    options.bundle = options.bundle.resolve()
    results = []
    for script, program, tests in RUNS:
        result = run(script, program, tests, options)
        results.append(result)
        print(result["output"], end="")
        ratio = result["largest_error_ratio"]
        print(
            f"{script or program}: {result['passed']} passed, {len(result['failed'])} failed, "
            f"exit code {result['exit_code']}, seconds {result['seconds']}"
            + (f", largest error ratio {ratio:.3f}" if ratio is not None else ""),
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    return max(result["exit_code"] != 0 for result in results)


if __name__ == "__main__":
    sys.exit(main())
