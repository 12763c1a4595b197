"""Measures requests per second, latency as seen by clients, and how busy the device is.

    service_bench.py --bundle out/bundle [--device cuda:0] [--seconds 6] [--json FILE]

Starts canopy_server with random weights of the size of Qwen3-0.6B and runs canopy_load on the same
machine. The programs come from a bundle that `./dev bundle` made, or from --server and --load.
First, one client and 64 clients send the small and the wide case in a closed loop. Then 64 clients
send questions about one state, whose tokens the server may compute once for all requests of a
forward, and questions of the same sizes that share nothing. "Device busy" is the fraction of time
in which a forward ran.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from service import Service, end_load, running, start_load, total

QWEN3_0_6B: Final[dict[str, Any]] = {
    "architectures": ["Qwen3Model"],
    "model_type": "qwen3",
    "vocab_size": 151936,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
}
ONE_STATE: Final = "state"
NO_STATE: Final = "1x4:440+16"  # the same sizes as "state"
# (name, shape, clients)
RUNS: Final = [
    *((shape, shape, clients) for shape in ("small", "wide") for clients in (1, 64)),
    ("one state", ONE_STATE, 64),
    ("no state", NO_STATE, 64),
]


def measure(
    service: Service, options: argparse.Namespace, run: tuple[str, str, int], folder: Path
) -> dict[str, Any]:
    """Returns the figures of one run."""
    name, shape, clients = run
    report = folder / "load.json"
    flags = [f"--shapes={shape}", f"--clients={clients}", f"--duration={options.seconds}s"]
    flags += [f"--rpc={options.rpc}", "--connections=8", "--threads=4", "--pool=256"]
    # The warm-up is a separate run, so that the metrics cover only the measured requests.
    for seconds in (options.warm_up, options.seconds):
        before, begin = service.metrics(), time.monotonic()
        flags[2] = f"--duration={seconds}s"
        code, text, figures = end_load(
            start_load(options.load, service, report, *flags, "--warmup=0"), report
        )
        if code != 0:
            sys.exit(f"canopy_load ended with {code}:\n{text}")
        after, elapsed = service.metrics(), time.monotonic() - begin
    grown = {
        key: total(after, key) - total(before, key)
        for key in (
            "canopy_device_busy_seconds_total",
            "canopy_forward_requests_count",
            "canopy_forward_requests_sum",
            "canopy_computed_tokens_total",
        )
    }
    answered = figures["totals"]["answered"]
    sending = figures["figures"]["elapsed_s"]
    return {
        "name": name,
        "clients": clients,
        "requests_per_s": figures["figures"]["requests_per_s"],
        "p50_ms": figures["figures"]["latency_p50_ms"],
        "p99_ms": figures["figures"]["latency_p99_ms"],
        "busy_share": grown["canopy_device_busy_seconds_total"] / sending,
        "requests_per_forward": grown["canopy_forward_requests_sum"]
        / max(1.0, grown["canopy_forward_requests_count"]),
        "computed_tokens_per_request": grown["canopy_computed_tokens_total"] / answered,
        "elapsed_s": elapsed,
        "figures": figures["figures"],
        "routes": figures["routes"],
    }


def table(results: list[dict[str, Any]]) -> str:
    """Returns the results as a Markdown table."""
    lines = [
        "| case | clients | requests/s | p50 ms | p99 ms | device busy | requests a forward "
        "| computed tokens a request | queue / plan / device / outside ms (p50) |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for each in results:
        stages = " / ".join(
            f"{each['figures'][f'{stage}_p50_ms']:.2f}"
            for stage in ("queue", "plan", "device", "outside")
        )
        lines.append(
            f"| {each['name']} | {each['clients']} | {each['requests_per_s']:,.0f} "
            f"| {each['p50_ms']:.2f} | {each['p99_ms']:.2f} | {100 * each['busy_share']:.0f} % "
            f"| {each['requests_per_forward']:.1f} | {each['computed_tokens_per_request']:,.0f} "
            f"| {stages} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Starts the server, measures and prints the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bundle", type=Path, help="folder of `./dev bundle`")
    parser.add_argument("--server", help="canopy_server, instead of the bundle's")
    parser.add_argument("--load", help="canopy_load, likewise")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--config", type=Path, help="another model's config.json")
    parser.add_argument("--seconds", type=float, default=6, help="of each run")
    parser.add_argument("--warm_up", type=float, default=2, help="seconds before each run")
    parser.add_argument("--rpc", default="score", help="score or stream")
    parser.add_argument("--flags", nargs="*", default=[], help="further flags of the server")
    parser.add_argument("--json", type=Path, help="file for all figures")
    options = parser.parse_args()
    bundled = [] if options.bundle is None else [str(options.bundle.resolve() / "run")]
    options.load = [options.load] if options.load else [*bundled, "canopy_load"]
    server = [options.server] if options.server else [*bundled, "canopy_server"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        config = options.config or folder / "qwen3-0.6b.json"
        if options.config is None:
            config.write_text(json.dumps(QWEN3_0_6B), encoding="utf-8")
        command = [*server, f"--model=bench=synthetic:{config}", f"--device={options.device}"]
        begin = time.monotonic()
        results = []
        with running(command + options.flags, folder, start_seconds=300) as service:
            print(f"ready after {time.monotonic() - begin:.1f} s", flush=True)
            for run in RUNS:
                results.append(measure(service, options, run, folder))
                print(table(results[-1:]).splitlines()[-1], flush=True)
        log = (folder / "server.log").read_text(encoding="utf-8")
    print(f"\n{log}\n{os.cpu_count()} cores, --rpc={options.rpc}\n{table(results)}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
