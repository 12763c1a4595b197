"""Runs a server with little memory and CPU, under more load than it can handle.

    tight_limits.py --server bazel-bin/tests/integration/fake_canopy_server --model pace:1000 \\
      --load bazel-bin/client/load/canopy_load

The server runs in its own control group, with `--cores` (a quarter) and with `--room` MiB of memory
above what it uses when idle. Many clients then send large requests at once. Some requests must be
refused with MEMORY_FULL, the others must be answered, and the kernel must not kill a process.
Afterwards a small load must be answered without refusals, and SIGTERM must stop the server with
exit code 0.

Prints the figures, and exits with 1 if a check fails. If no control group can be made, it says so
and exits with 0, or with 1 if --must_run is set.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from limited_group import LimitedGroup, NoGroupError, limited_group
from service import Metrics, Service, end_load, running, start_load

MIB: Final = 1 << 20
REFUSED: Final = 'canopy_refused_requests_total{reason="memory"}'
GAUGES: Final = ["canopy_requests_in_flight", "canopy_request_memory_bytes"]


def load(
    service: Service, group: LimitedGroup, options: argparse.Namespace, folder: Path, *flags: str
) -> Metrics:
    """Returns the counts of one run of canopy_load, such as answered and refused requests."""
    report = folder / "load.json"
    flags = (*flags, "--warmup=0", "--pool=2", "--seed=1", "--thresholds=wrong<=0")
    code, text, figures = end_load(start_load(options.load, service, report, *flags), report)
    print(text)
    if code != 0 or group.kills() > 0:
        sys.exit(f"FAILED   canopy_load ended with {code}, {group.kills()} servers were killed")
    totals: Metrics = figures["totals"]
    return totals


def run(
    service: Service, group: LimitedGroup, options: argparse.Namespace, folder: Path
) -> list[str]:
    """Runs an idle phase, an overload and a small load; returns the problems found."""
    load(service, group, options, folder, "--shapes=tiny", "--requests=50", "--clients=2")
    idle_bytes = int(service.metrics()["process_resident_memory_bytes"])
    limit_bytes = idle_bytes + options.room * MIB
    group.limit(limit_bytes, options.cores)
    many = load(
        service,
        group,
        options,
        folder,
        f"--shapes={options.shape}",
        f"--clients={options.clients}",
        "--connections=4",
        f"--duration={options.seconds}s",
    )
    after = service.settled(GAUGES, seconds=60)
    few = load(service, group, options, folder, "--shapes=tiny", "--requests=50", "--clients=1")
    last = service.metrics()
    print(
        f"idle {idle_bytes / MIB:.0f} MiB, limit {limit_bytes / MIB:.0f} MiB, most in use "
        f"{group.peak_bytes() / MIB:.0f} MiB; {many['answered']:.0f} answered, "
        f"{after[REFUSED]:.0f} refused for memory, {group.kills()} killed; "
        f"throttled in {group.throttled()} periods of {options.cores} cores; "
        f"load average {os.getloadavg()[0]:.1f}"
    )
    checks = {
        "the server knows its group's limit": abs(after["canopy_memory_limit_bytes"] - limit_bytes)
        < 8192,
        "some requests were answered": many["answered"] > 0,
        "some were refused for memory": after[REFUSED] > 0,
        "clients heard of every refusal": many["refused"] >= after[REFUSED],
        "the quota was used up": group.throttled() > 0,
        "nothing was killed": group.kills() == 0,
        "nothing is left": all(after[name] == 0 for name in after if name.split("{")[0] in GAUGES),
        "a small load was answered": few["answered"] == 50 and last[REFUSED] == after[REFUSED],
    }
    return [f"not so: {name}" for name, holds in checks.items() if not holds]


def main() -> int:
    """Makes the group, starts the server and reports the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--server", required=True, help="canopy_server, or the one over fakes")
    parser.add_argument("--model", required=True, help="source of its model")
    parser.add_argument("--load", required=True, nargs="+", help="canopy_load")
    parser.add_argument("--flags", nargs="*", default=[], help="further flags of the server")
    parser.add_argument("--room", type=int, default=128, help="MiB above the idle server")
    parser.add_argument("--cores", type=float, default=0.25, help="that the server may use")
    parser.add_argument("--shape", default="4x64:40+2000", help="of the large requests")
    parser.add_argument("--clients", type=int, default=48, help="that send them")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--must_run", action="store_true", help="no group is a failure")
    options = parser.parse_args()
    try:
        with limited_group() as group, tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            command = [options.server, f"--model=tight={options.model}", *options.flags]
            with running(group.command(command), folder, start_seconds=120) as service:
                problems = run(service, group, options, folder)
    except NoGroupError as error:
        print(f"SKIPPED  no control group can be made here: {error}")
        return 1 if options.must_run else 0
    for problem in problems:
        print(f"FAILED   {problem}")
    print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
