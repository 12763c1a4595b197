"""Measures overload, a large call among small ones, and the cost of the service without a device.

A server runs a fake model, whose forwards take a fixed time or none, and canopy_load sends
requests, both on this machine:

    bazel build //tests/integration:fake_canopy_server //client/load:canopy_load
    python3 tests/bench/pressure.py overload large cost

Exits with 1 if a figure is missed, which is to be expected on a busy machine.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
SERVER: Final = ROOT / "bazel-bin/tests/integration/fake_canopy_server"
LOAD: Final = ROOT / "bazel-bin/client/load/canopy_load"
CAPACITY: Final = 200  # requests per second of the paced engine
NORMAL: Final = 0.8 * CAPACITY
FACTORS: Final = (2, 5, 10)
DEADLINE_MS: Final = 1000
START_SECONDS: Final = 30
REFUSAL: Final = re.compile(r"request_refused .*code=RESOURCE_EXHAUSTED .*total_ms=(\S+)")
LEAST_SMALL_REQUESTS: Final = 20_000  # per second, on two cores
missed: list[str] = []


def check(holds: bool, what: str) -> str:
    """Returns a mark for the table. If `holds` is false, the run fails."""
    if not holds:
        missed.append(what)
    return "ok" if holds else "MISSED"


class Running(NamedTuple):
    """A running server: the addresses of its service and metrics, and its log file."""

    address: str
    metrics: str
    log: Path


@contextmanager
def running_server(source: str, *flags: str) -> Iterator[Running]:
    """Runs a server with one fake model."""
    with tempfile.TemporaryDirectory() as folder:
        port_file, log = Path(folder) / "port", Path(folder) / "log"
        with log.open("w") as log_file:
            process = subprocess.Popen(
                [
                    SERVER,
                    f"--model=fake={source}",
                    "--listen=127.0.0.1:0",
                    f"--port_file={port_file}",
                    "--metrics_listen=127.0.0.1:0",
                    *flags,
                ],
                stdout=subprocess.DEVNULL,
                stderr=log_file,
            )
        try:
            give_up = time.monotonic() + START_SECONDS
            while not (port_file.exists() and "serving" in log.read_text()):
                if process.poll() is not None or time.monotonic() > give_up:
                    sys.exit(f"pressure: the server did not start:\n{log.read_text()}")
                time.sleep(0.05)
            metrics = next(
                line.split("address=")[1].split()[0].strip('"')
                for line in log.read_text().splitlines()
                if "service=metrics" in line
            )
            yield Running(f"127.0.0.1:{port_file.read_text().strip()}", metrics, log)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


def metric(address: str, series: str) -> float:
    """Returns one value of the metrics page."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
        for line in page.read().decode().splitlines():
            if line.startswith(series + " "):
                return float(line.rsplit(" ", 1)[1])
    return 0


def start_load(address: str, report: Path, *flags: str) -> subprocess.Popen[bytes]:
    """Starts canopy_load. finish_load reads its report."""
    return subprocess.Popen(
        [LOAD, f"--targets={address}", f"--json={report}", "--progress=never", *flags],
        stdout=subprocess.DEVNULL,
    )


def finish_load(process: subprocess.Popen[bytes], report: Path) -> dict[str, Any]:
    """Waits for canopy_load and returns its report."""
    if process.wait() != 0:
        sys.exit(f"pressure: canopy_load failed with {process.returncode}")
    result: dict[str, Any] = json.loads(report.read_text())
    return result


def load(address: str, *flags: str) -> dict[str, Any]:
    """Runs canopy_load and returns its report."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        return finish_load(start_load(address, report, *flags), report)


def quantile(values: list[float], share: float) -> float:
    """Returns a quantile of sorted values, or NaN if there are none."""
    return values[min(int(share * len(values)), len(values) - 1)] if values else float("nan")


def overload(seconds: int) -> None:
    """Sends 2, 5 and 10 times the load that the engine can handle, then a normal load (open loop).

    The latency of a refusal as seen by the client includes the effect of two busy processes on one
    machine. So two more figures are printed: the time in the server from the call's start to its
    end, according to its log, and how late the client sent its requests.
    """
    source = f"pace:{1_000_000 // CAPACITY}"
    with running_server(source, "--log_lines_per_second=0") as (address, metrics, log):
        deadline = f"--deadline={DEADLINE_MS}ms"
        peak = load(address, "--clients=16", "--duration=10s", deadline)["figures"]
        peak_rate = peak["requests_per_s"]
        print(f"peak of a closed loop: {peak_rate:.1f} requests a second")
        print(
            "offered  answered/s  of peak         refused in ms p50    p99    max        "
            " in the server p50    p99  sent late p99  most queued  recovery s"
        )
        for factor in FACTORS:
            already = log.stat().st_size
            steps = f"{NORMAL}x10s,{factor * CAPACITY}x{seconds}s,{NORMAL}x10s"
            with tempfile.TemporaryDirectory() as folder:
                report = Path(folder) / "report.json"
                process = start_load(
                    address,
                    report,
                    "--arrivals=step",
                    f"--steps={steps}",
                    "--warmup=0",
                    "--connections=4",
                    f"--latency_goal={DEADLINE_MS}ms",
                    deadline,
                )
                most_queued = 0.0
                while process.poll() is None:
                    queued = metric(metrics, 'canopy_queued_requests{priority="normal"}')
                    most_queued = max(most_queued, queued)
                    time.sleep(0.2)
                result = finish_load(process, report)
            figures, rows = result["figures"], result["intervals"]
            # The first second of the overload fills the queue, and the last second may be
            # incomplete.
            full = [row for row in rows if row["begin_s"] >= 11 and row["end_s"] <= 10 + seconds]
            time_s = sum(row["end_s"] - row["begin_s"] for row in full)
            goodput = sum(row["answered"] for row in full) / time_s
            drop = 10 + seconds
            troubled = [row["end_s"] for row in rows if row["end_s"] > drop and row["refused"]]
            recovery = max([end - drop for end in troubled], default=0)
            good = check(goodput >= 0.9 * peak_rate, f"goodput at {factor} times")
            fast = check(figures["refusal_p99_ms"] <= 5, f"refusals at {factor} times")
            soon = check(recovery <= 2, f"recovery from {factor} times")
            lines = log.read_text()[already:]
            in_server = sorted(float(ms) for ms in REFUSAL.findall(lines))
            print(
                f"{factor:>5} x  {goodput:10.1f}  {goodput / peak_rate:6.1%} {good:<6}"
                f"  {figures['refusal_p50_ms']:12.2f} {figures['refusal_p99_ms']:6.2f}"
                f" {figures['refusal_max_ms']:6.2f} {fast:<6}"
                f" {quantile(in_server, 0.5):18.2f} {quantile(in_server, 0.99):6.2f}"
                f" {figures['lateness_p99_ms']:14.2f} {most_queued:12.0f} {recovery:9.1f} {soon}"
            )


def large(seconds: int) -> None:
    """Measures small calls while one call of 2.2 million path tokens runs in parts (F6)."""
    # A forward takes a millisecond, plus 65 more for a full forward of 16,384 slots.
    with running_server("pace:1000:4000") as (address, metrics, _):
        small = ("--shapes=tiny", "--arrivals=poisson", "--rate=20", f"--duration={seconds}s")
        idle = load(address, *small)["figures"]
        busy_before = metric(metrics, "canopy_device_busy_seconds_total")
        forwards_before = metric(metrics, "canopy_forward_requests_count")
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            flags = ("--shapes=rollout", "--clients=1", "--pool=1", "--warmup=0")
            rollout = start_load(address, report, *flags, f"--duration={seconds + 3}s")
            beside = load(address, *small)["figures"]
            rolled = finish_load(rollout, report)["figures"]
        busy = metric(metrics, "canopy_device_busy_seconds_total") - busy_before
        forwards = metric(metrics, "canopy_forward_requests_count") - forwards_before
        smalls = beside["answered"] + beside["refused"]
        chunk_ms = 1000 * busy / max(forwards - smalls, 1)
        limit = 3 * idle["latency_p99_ms"] + chunk_ms
        mark = check(beside["latency_p99_ms"] <= limit, "small calls beside a large one")
        print("small calls   p50 ms   p99 ms   max ms")
        for name, figures in (("idle", idle), ("beside", beside)):
            print(
                f"{name:<12} {figures['latency_p50_ms']:7.2f}  {figures['latency_p99_ms']:7.2f}"
                f"  {figures['latency_max_ms']:7.2f}"
            )
        print(
            f"one chunk {chunk_ms:.1f} ms; 3 x idle + one chunk = {limit:.1f} ms: {mark}; "
            f"{rolled['answered']:.0f} large calls of {rolled['latency_p50_ms'] / 1000:.1f} s"
        )


def cost(seconds: int) -> None:
    """Measures requests per second, and the time of one request, without a device."""
    with running_server("noop") as (address, _, _):
        for rpc, clients, connections in (
            ("score", 1, 1),
            ("score", 64, 2),
            ("stream", 64, 2),
        ):
            figures = load(
                address,
                f"--rpc={rpc}",
                f"--clients={clients}",
                f"--connections={connections}",
                f"--duration={seconds}s",
            )["figures"]
            rate = figures["requests_per_s"]
            if clients == 1:
                inside = figures["queue_p50_ms"] + figures["plan_p50_ms"]
                spent = figures["outside_p50_ms"] + inside
                mark = f"transport + queue + plan {spent:.3f} ms p50: "
                mark += check(spent <= 0.5, "transport, queue and plan")
            else:
                mark = check(rate >= LEAST_SMALL_REQUESTS, f"{rpc} of {clients} clients")
            print(
                f"{rpc:<6} {clients:>4} clients, {connections} connections: "
                f"{rate:8.0f} requests a second, p50 {figures['latency_p50_ms']:.3f} ms, "
                f"p99 {figures['latency_p99_ms']:.3f} ms; {mark}"
            )


def main() -> None:
    """Runs the measurements that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="+", choices=("overload", "large", "cost"))
    parser.add_argument("--seconds", type=int, default=60, help="of each measured phase")
    options = parser.parse_args()
    for what in options.what:
        load_1m = os.getloadavg()[0]
        print(f"== {what}: {os.cpu_count()} cores, load before {load_1m:.1f}", flush=True)
        {"overload": overload, "large": large, "cost": cost}[what](options.seconds)
    if missed:
        sys.exit("missed: " + ", ".join(missed))


if __name__ == "__main__":
    main()
