"""Measures how new weights affect clients: latency with and without loads, in alternating phases.

    reload_bench.py --bundle out/bundle [--device cuda:0] [--rounds 3] [--seconds 10]

Starts canopy_server with random weights of the size of Qwen3-0.6B and a score head, and runs
canopy_load with one client and with 16 clients in a closed loop. In every second phase `canopy
load_weights` swaps the weights twice. The programs come from a bundle that `./dev bundle` made, or
from --server, --load and --cli. Exits with 1 if a request fails, or if the 99th percentile with
loads is more than twice that without.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
from service import Service, end_load, running, start_load
from service_bench import QWEN3_0_6B

LOADS_A_PHASE: Final = 2
MOST_SLOWER: Final = 2.0
TURNS: Final = re.compile(
    r"weights_serving .*\bms=(\S+) device_turns=(\d+) longest_turn_ms=(\S+) longest_turn=(\S+)"
)


def tensor_shapes(config: dict[str, Any]) -> dict[str, list[int]]:
    """Returns the names and shapes of the tensors of a Qwen3 reward model."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    head = config["head_dim"]
    queries = config["num_attention_heads"] * head
    keys = config["num_key_value_heads"] * head
    layer = {
        "input_layernorm": [hidden],
        "post_attention_layernorm": [hidden],
        "self_attn.q_norm": [head],
        "self_attn.k_norm": [head],
        "self_attn.q_proj": [queries, hidden],
        "self_attn.k_proj": [keys, hidden],
        "self_attn.v_proj": [keys, hidden],
        "self_attn.o_proj": [hidden, queries],
        "mlp.gate_proj": [inner, hidden],
        "mlp.up_proj": [inner, hidden],
        "mlp.down_proj": [hidden, inner],
    }
    shapes = {"model.embed_tokens.weight": [config["vocab_size"], hidden]}
    for index in range(config["num_hidden_layers"]):
        for name, shape in layer.items():
            shapes[f"model.layers.{index}.{name}.weight"] = shape
    return {**shapes, "model.norm.weight": [hidden], "score.weight": [1, hidden]}


def write_checkpoint(folder: Path, config: dict[str, Any], seed: int) -> None:
    """Writes random bfloat16 weights; large tensors repeat the same numbers."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    draws = np.random.default_rng(seed).normal(0, 0.02, 1 << 20).astype(np.float32)
    # The upper half of a float32 is the bfloat16 with the same leading bits.
    numbers = (draws.view(np.uint32) >> 16).astype(np.uint16)
    header, end = {}, 0
    shapes = tensor_shapes(config)
    for name, shape in shapes.items():
        begin, end = end, end + 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for shape in shapes.values():
            np.resize(numbers, int(np.prod(shape))).tofile(file)


class Loads:
    """Swaps the weights in the background at regular times within a phase."""

    def __init__(self, cli: list[str], admin: str, seconds: float) -> None:
        """Starts the background thread."""
        self._command = [*cli, "load_weights", f"--admin={admin}"]
        self._pause = seconds / LOADS_A_PHASE
        self._error = ""
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        begin = time.monotonic()
        for number in range(LOADS_A_PHASE):
            time.sleep(max(0.0, begin + number * self._pause - time.monotonic()))
            loaded = subprocess.run(
                [*self._command, f"--source=step-{number}"],
                capture_output=True,
                text=True,
                check=False,
            )
            self._error = self._error or (loaded.stderr if loaded.returncode else "")

    def join(self) -> None:
        """Waits for the last load. Exits the program if a load failed."""
        self._thread.join()
        if self._error:
            sys.exit(f"a load failed: {self._error}")


def phase(
    service: Service, options: argparse.Namespace, clients: int, admin: str, folder: Path
) -> dict[str, float]:
    """Returns the figures of one run. Weights are loaded through `admin`, unless it is ""."""
    report = folder / "load.json"
    flags = ["--shapes=small", f"--clients={clients}", f"--duration={options.seconds}s"]
    flags += ["--warmup=500ms", "--thresholds=refused<=0,wrong<=0"]
    process = start_load(options.load, service, report, *flags)
    loads = Loads(options.cli, admin, options.seconds) if admin else None
    code, text, figures = end_load(process, report)
    if loads is not None:
        loads.join()
    if code != 0:
        sys.exit(f"canopy_load ended with {code}:\n{text}")
    result: dict[str, float] = figures["figures"]
    return result


def compare(
    service: Service, options: argparse.Namespace, clients: int, admin: str, folder: Path
) -> bool:
    """Prints a row; returns True if the latency goal is met."""
    quiet, loading = [], []
    for _ in range(options.rounds):
        quiet.append(phase(service, options, clients, "", folder))
        loading.append(phase(service, options, clients, admin, folder))

    def middle(figures: list[dict[str, float]], name: str) -> float:
        return statistics.median(each[name] for each in figures)

    ratio = middle(loading, "latency_p99_ms") / middle(quiet, "latency_p99_ms")
    values = [
        f"{middle(figures, f'latency_{name}_ms'):.2f}"
        for name in ("p50", "p99", "max")
        for figures in (quiet, loading)
    ]
    print(f"| {clients} | {' | '.join(values)} | {ratio:.2f} |", flush=True)
    return ratio <= MOST_SLOWER


def main() -> int:
    """Starts the server, measures and prints the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bundle", type=Path, help="folder of `./dev bundle`")
    parser.add_argument("--server", help="canopy_server, instead of the bundle's")
    parser.add_argument("--load", help="canopy_load, likewise")
    parser.add_argument("--cli", help="canopy, likewise")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--config", type=Path, help="another Qwen3 model's config.json")
    parser.add_argument("--rounds", type=int, default=3, help="of a phase without and one with")
    parser.add_argument("--seconds", type=float, default=10, help="of each phase")
    parser.add_argument("--flags", nargs="*", default=[], help="further flags of the server")
    options = parser.parse_args()
    bundled = [] if options.bundle is None else [str(options.bundle.resolve() / "run")]
    options.load = [options.load] if options.load else [*bundled, "canopy_load"]
    options.cli = [options.cli] if options.cli else [*bundled, "canopy"]
    server = [options.server] if options.server else [*bundled, "canopy_server"]
    config = json.loads(options.config.read_text()) if options.config else dict(QWEN3_0_6B)
    config |= {"architectures": ["Qwen3ForSequenceClassification"], "num_labels": 1}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for number in range(LOADS_A_PHASE):
            write_checkpoint(folder / "weights" / f"step-{number}", config, seed=number)
        command = [
            *server,
            f"--model=bench={folder}/weights/step-0",
            f"--weights_root={folder}/weights",
            "--admin_listen=127.0.0.1:0",
            f"--device={options.device}",
            *options.flags,
        ]
        with running(command, folder, start_seconds=300) as service:
            print(
                "| clients | p50 ms | loading | p99 ms | loading | max ms | loading | p99 ratio |"
            )
            print("| --- | --- | --- | --- | --- | --- | --- | --- |")
            admin = service.listeners["canopy.v1.Admin"]
            held = [compare(service, options, clients, admin, folder) for clients in (1, 16)]
        turns = TURNS.findall((folder / "server.log").read_text(encoding="utf-8"))
    took, counts, longest, names = zip(*turns, strict=True)
    worst = max(range(len(turns)), key=lambda index: float(longest[index]))
    print(
        f"{len(turns)} loads of {statistics.median(map(float, took)) / 1000:.1f} s, "
        f"{counts[0]} turns on the device each, the longest {longest[worst]} ms ({names[worst]}); "
        f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}"
    )
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
