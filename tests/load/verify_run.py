"""Checks that no answer is lost, doubled, reordered or wrong while clients cancel calls and die.

    verify_run.py --server bazel-bin/server/canopy_server \\
      --load bazel-bin/client/load/canopy_load --paths 10000000

Starts canopy_server with a tiny random model (6,304 parameters; on a GPU 86,656) and the measured
policy, so that requests share forwards and larger ones run in parts. Two canopy_load in verify mode
send requests, one with Score and one with ScoreStream. Meanwhile calls and streams are cancelled,
connections closed and client processes killed. Every other answer is compared with the answer for
its paths alone.

At the end, every accepted request must have ended in exactly one way, some requests must have
shared forwards, no request may be left in the server, and SIGTERM must stop it with exit code 0.
Prints the counts, and exits with 1 if a check fails.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from service import Metrics, Service, end_load, running, start_load, total

CONFIG: Final[dict[str, Any]] = {
    "architectures": ["Qwen3ForSequenceClassification"],
    "model_type": "qwen3",
    "vocab_size": 64,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "id2label": {"0": "LABEL_0"},
}
# The smallest sizes that the fused backend supports.
GPU_CONFIG: Final = CONFIG | {"hidden_size": 64, "intermediate_size": 128, "head_dim": 64}
# The tolerance is relative to the largest score, or to 1 if that is larger.
TOLERANCE: Final = 1e-5
FLOAT16_TOLERANCE: Final = 2e-3
# The weight of each shape, and the number of candidates of its requests.
SHAPES: Final = {
    "tiny": (6, 4),
    "5x9:3+4": (6, 45),
    "1x64:40+2": (4, 64),
    "1x250:16+2": (3, 250),
    "2x250:8+2": (2, 500),
    "1x1000:8+2": (1, 1000),
}
# The fractions of calls that are cancelled, and that are killed with their connection. On a stream,
# giving up the call also gives up all its requests in flight.
GIVEN_UP: Final = {"score": (0.03, 0.01), "stream": (0.004, 0.002)}
GAUGES: Final = [
    "canopy_requests_in_flight",
    "canopy_queued_requests",
    "canopy_queued_tokens",
]
SHOWN: Final = (
    "canopy_accepted_requests",
    "canopy_ended_requests",
    "canopy_refused_requests",
    "canopy_forward_requests_sum",
    "canopy_forward_requests_count",
)


def mean_candidates() -> float:
    """Returns the mean number of candidates of a request."""
    weights = sum(weight for weight, _ in SHAPES.values())
    return sum(weight * candidates for weight, candidates in SHAPES.values()) / weights


def check_server(before: Metrics, after: Metrics, figures: list[dict[str, Any]]) -> list[str]:
    """Returns the problems in the server's own counts."""
    problems = [
        f"{name} is {total(after, name):.0f}, not 0" for name in GAUGES if total(after, name) != 0
    ]
    accepted, ended = (
        total(after, name) - total(before, name)
        for name in ("canopy_accepted_requests_total", "canopy_ended_requests_total")
    )
    if accepted != ended:
        problems.append(f"the server accepted {accepted:.0f} requests, and {ended:.0f} ended")
    answered = 'canopy_ended_requests_total{outcome="answered"}'
    served = after.get(answered, 0) - before.get(answered, 0)
    received = sum(each["totals"]["answered"] for each in figures)
    if served < received:
        problems.append(f"clients got {received} answers of {served:.0f}")
    requests, forwards = (
        total(after, name) - total(before, name)
        for name in ("canopy_forward_requests_sum", "canopy_forward_requests_count")
    )
    if requests <= forwards:
        problems.append(f"{forwards:.0f} forwards had {requests:.0f} requests: none were shared")
    return problems


def check_clients(totals: dict[str, int], least_paths: float) -> list[str]:
    """Returns the problems in what both loads sent and received."""
    problems = []
    if totals["wrong"] > 0:
        problems.append(f"{totals['wrong']} answers were wrong")
    if totals["answered_candidates"] < least_paths:
        problems.append(f"only {totals['answered_candidates']} paths were verified")
    # A run without cancelled and killed calls would not test anything.
    if totals["cancelled"] + totals["killed"] == 0:
        problems.append("no call was cancelled or killed")
    if totals["victims_killed"] == 0:
        problems.append("no client process was killed")
    return problems


def run(service: Service, options: argparse.Namespace, folder: Path) -> list[str]:
    """Runs both loads at once; returns the problems found."""
    requests = max(1, int(options.paths / 2 / mean_candidates()))
    before = service.metrics()
    resident_mib = service.resident_mib()
    loads = {}
    begin = time.monotonic()
    for rpc, (cancel_share, kill_share) in GIVEN_UP.items():
        loads[rpc] = start_load(
            options.load,
            service,
            folder / f"{rpc}.json",
            f"--rpc={rpc}",
            "--verify",
            f"--tolerance={options.tolerance}",
            "--shapes=" + ",".join(f"{name}={weight}" for name, (weight, _) in SHAPES.items()),
            f"--pool={options.pool}",
            f"--requests={requests}",
            "--warmup=0",
            "--clients=16",
            "--connections=4",
            "--abandon_within=30ms",
            f"--cancel_share={cancel_share * options.given_up}",
            f"--kill_share={kill_share * options.given_up}",
            f"--victims={options.victims}",
            f"--victim_life={options.victim_life}",
            "--thresholds=refused<=0,wrong<=0",
            f"--seed={options.seed}",
        )
    problems = []
    figures = []
    for rpc, process in loads.items():
        code, text, report = end_load(process, folder / f"{rpc}.json")
        print(f"--- {rpc}\n{text}")
        if code != 0:
            problems.append(f"canopy_load --rpc={rpc} ended with {code}")
        if report:
            figures.append(report)
    seconds = time.monotonic() - begin
    after = service.settled(GAUGES, seconds=60)
    problems += check_server(before, after, figures)
    for series, value in sorted(after.items()):
        if series.startswith(SHOWN):
            print(f"server   {series} {value - before.get(series, 0):.0f}")
    if len(figures) < len(loads):
        return [*problems, f"{len(loads) - len(figures)} loads left no report"]
    totals = {key: sum(each["totals"][key] for each in figures) for key in figures[0]["totals"]}
    print(
        f"verified {totals['answered_candidates']} candidate paths in {totals['answered']} "
        f"answers, {totals['wrong']} wrong; {totals['cancelled']} calls cancelled, "
        f"{totals['killed']} killed with their connections, {totals['victims_killed']} client "
        f"processes killed; seed {options.seed}\n"
        f"took     {seconds:.0f} s, {totals['answered_candidates'] / seconds:.0f} paths a second, "
        f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n"
        f"server   {resident_mib:.0f} MiB before, {service.resident_mib():.0f} MiB after, "
        f"{service.descriptors()} descriptors left"
    )
    return problems + check_clients(totals, options.least * options.paths)


def main() -> int:
    """Starts the server, runs the loads and reports the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--server", required=True, nargs="+", help="canopy_server")
    parser.add_argument("--load", required=True, nargs="+", help="canopy_load")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda:0")
    parser.add_argument("--paths", type=int, default=50_000, help="candidate paths to send, about")
    parser.add_argument("--least", type=float, default=0.5, help="share of them to be verified")
    parser.add_argument("--pool", type=int, default=16, help="distinct requests of each shape")
    parser.add_argument("--given_up", type=float, default=1, help="times the usual shares")
    parser.add_argument("--victims", type=int, default=1, help="processes to be killed, each rpc")
    parser.add_argument("--victim_life", default="2s", help="the longest that one lives")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    on_gpu = options.device != "cpu"
    options.tolerance = FLOAT16_TOLERANCE if on_gpu else TOLERANCE
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        config = folder / "tiny.json"
        config.write_text(json.dumps(GPU_CONFIG if on_gpu else CONFIG), encoding="utf-8")
        command = [*options.server, f"--model=tiny=synthetic:{config}"]
        command += [f"--device={options.device}", "--policy=measured", "--threads=1"]
        if on_gpu:
            command += ["--dtype=float16", "--max_batch_tokens=2048"]
        else:
            command += ["--max_batch_tokens=512"]
        with running(command, folder, start_seconds=300) as service:
            problems = run(service, options, folder)
    for problem in problems:
        print(f"FAILED   {problem}")
    print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
