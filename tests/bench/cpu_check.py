"""Times encode_benchmark and transformers on a CPU, alternating between them in rounds.

    cpu_check.py --binary bazel-bin/tests/bench/encode_benchmark [--rounds 3] [--json FILE]

Each round runs the benchmark's cases with the path backend and with the measured policy, then the
same shapes with transformers: float32, one thread, random weights of the same sizes. It compares
CPU seconds, which depend less on other programs of the machine than wall time. Prints the medians
of all rounds, and exits with 1 if a speed-up of AIMS is not reached. Needs no network.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from gpu_check import MODELS, Case, Sizes, decoder_config, encode, make_case, paths_of
from transformers import AutoModel

# These sizes must equal those in encode_benchmark.cc.
CASES: dict[str, Sizes] = {
    "wide": [(490, [18] * 64, 0), (490, [18] * 2, 0)],
    "small": [(100, [16] * 4, 0)],
    "typed": [(440, [16] * 4, 0)] * 5,
    "alone": [(0, [128], 0)] * 16,
}
BACKENDS = ("path", "measured")
# (case, the slower alternative, required speed-up). The last one is below 1 to allow for noise.
AIMS = [("wide", "transformers", 10.0), ("small", "transformers", 1.0), ("alone", "path", 0.95)]


def make_model(name: str) -> Any:
    """Returns the decoder of the benchmark's config with random weights."""
    torch.manual_seed(0)
    return AutoModel.from_config(decoder_config(name)).float().eval()


def run_benchmark(binary: str) -> dict[str, tuple[float, str]]:
    """Returns the CPU seconds of each CASE/BACKEND, and the backend that ran."""
    command = [
        binary,
        f"--benchmark_filter=/({'|'.join(BACKENDS)})$",
        "--benchmark_format=json",
        "--benchmark_min_time=0.2",
    ]
    finished = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    entries = json.loads(finished.stdout)["benchmarks"]
    return {entry["name"]: (entry["cpu_time"] / 1000, entry["label"]) for entry in entries}


def time_peer(model: Any, case: Case) -> float:
    """Returns the CPU seconds of one padded forward over all paths."""
    paths = paths_of(case)
    begin = time.process_time()
    encode(model, paths, rows_per_batch=len(paths))
    return time.process_time() - begin


def measure(binary: str, rounds: int) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Returns seconds per round by CASE/BACKEND and CASE/transformers, and backends that ran."""
    rng = random.Random(1)
    cases = {name: make_case(rng, sizes, MODELS["15m"][-1]) for name, sizes in CASES.items()}
    model = make_model("15m")
    time_peer(model, cases["small"])
    seconds: dict[str, list[float]] = {}
    ran: dict[str, str] = {}
    for index in range(rounds):
        values: dict[str, float] = {}
        for name, (value, label) in run_benchmark(binary).items():
            values[name] = value
            ran[name] = label
        for name, case in cases.items():
            values[f"{name}/transformers"] = time_peer(model, case)
        print(f"round {index + 1}:", *(f"{key} {value:.3f}" for key, value in values.items()))
        sys.stdout.flush()
        for name, value in values.items():
            seconds.setdefault(name, []).append(value)
    return seconds, ran


def main() -> int:
    """Measures all cases, prints one line per case and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="file for the figures of all rounds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    seconds, ran = measure(options.binary, options.rounds)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for case in CASES:
        ours, path, peer = (medians[f"{case}/{by}"] for by in ("measured", "path", "transformers"))
        print(
            f"{case:6} measured takes {ran[f'{case}/measured']:9} {ours:7.3f} s, "
            f"path {path:7.3f} s ({path / ours:5.2f}x), "
            f"transformers {peer:7.3f} s ({peer / ours:5.2f}x)"
        )
    if options.json:
        options.json.write_text(json.dumps(seconds, indent=1), encoding="utf-8")
    missed = [
        f"{case}: {ratio:.2f} x as fast as {peer}, aim {aim}"
        for case, peer, aim in AIMS
        if (ratio := medians[f"{case}/{peer}"] / medians[f"{case}/measured"]) < aim
    ]
    for line in missed:
        print(f"MISSED {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
