"""Runs canopy_server in a process, reads its metrics, and runs canopy_load against it."""

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_LINE: Final = re.compile(r"^([a-zA-Z_:]\w*(?:\{[^}]*\})?) (\S+)$", re.MULTILINE)
_LISTENER: Final = re.compile(r" listening service=(\S+) address=(\S+)\n")
_STOP_SECONDS: Final = 60

Metrics = dict[str, float]


def total(metrics: Metrics, name: str) -> float:
    """Returns the sum over all series of one metric. Raises KeyError if there are none."""
    values = [value for series, value in metrics.items() if series.split("{")[0] == name]
    if not values:
        raise KeyError(f"there is no metric {name}")
    return sum(values)


@dataclass
class Service:
    """A running server."""

    listeners: dict[str, str]  # addresses by gRPC service; `metrics` is the metrics page
    process: subprocess.Popen[bytes]

    @property
    def address(self) -> str:
        """The address of the scorer."""
        return self.listeners["canopy.v1.Scorer"]

    def metrics(self) -> Metrics:
        """Returns all series of the metrics page."""
        with urllib.request.urlopen(
            f"http://{self.listeners['metrics']}/metrics", timeout=30
        ) as page:
            text = page.read().decode()
        return {series: float(value) for series, value in _LINE.findall(text)}

    def settled(self, gauges: list[str], seconds: float) -> Metrics:
        """Waits for all series of these gauges to be zero, or `seconds`; returns the metrics."""
        deadline = time.monotonic() + seconds
        while True:
            metrics = self.metrics()
            if all(total(metrics, name) == 0 for name in gauges) or time.monotonic() > deadline:
                return metrics
            time.sleep(0.1)

    def resident_mib(self) -> float:
        """Returns the resident memory of the server's process."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024

    def descriptors(self) -> int:
        """Returns the number of open files and sockets of the server's process."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))


@contextmanager
def running(command: list[str], folder: Path, start_seconds: float) -> Iterator[Service]:
    """Runs a server on free loopback ports. At the end, SIGTERM must stop it with exit code 0."""
    log = folder / "server.log"
    command = [*command, "--listen=127.0.0.1:0", "--metrics_listen=127.0.0.1:0"]
    with log.open("wb") as log_file:
        process = subprocess.Popen(command, stderr=log_file)
    try:
        deadline = time.monotonic() + start_seconds
        # The server listens before it loads its models, and is ready once their metrics exist.
        while True:
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"the server did not start:\n{log.read_text()}")
            service = Service(dict(_LISTENER.findall(log.read_text())), process)
            # The listener of the metrics is the last one to be started.
            if "metrics" in service.listeners and any(
                series.startswith("canopy_model_info{") for series in service.metrics()
            ):
                break
            time.sleep(0.05)
        yield service
        process.send_signal(signal.SIGTERM)
        status = process.wait(timeout=_STOP_SECONDS)
        if status != 0:
            sys.exit(f"the server ended with {status}:\n{log.read_text()}")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def start_load(program: list[str], service: Service, report: Path, *flags: str) -> Any:
    """Starts canopy_load in the background, which writes its figures to `report`."""
    command = [*program, f"--targets={service.address}", f"--json={report}", *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def end_load(process: Any, report: Path) -> tuple[int, str, dict[str, Any]]:
    """Waits for a run and returns its exit code, text and figures."""
    text, _ = process.communicate()
    figures: dict[str, Any] = json.loads(report.read_text()) if report.exists() else {}
    return process.returncode, text, figures
