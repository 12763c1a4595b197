"""Runs `./dev demo`: starts a server with the demo model and sends all sample questions.

Prints the ranking of each question, the route and the savings, draws the forest, and exits with 0
only if the winners equal those in winners.json.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).resolve().parent
START_SECONDS: Final = 120
SHOWN_CANDIDATES: Final = 3


@contextmanager
def running_server(program: Path, model: Path, log: Path) -> Iterator[str]:
    """Starts the server on a free loopback port, yields its address and stops it at the end."""
    with tempfile.TemporaryDirectory() as folder, log.open("w") as log_file:
        port_file = Path(folder) / "port"
        process = subprocess.Popen(
            [program, f"--model=demo={model}", "--listen=127.0.0.1:0", f"--port_file={port_file}"],
            stderr=log_file,
        )
        try:
            deadline = time.monotonic() + START_SECONDS
            while not (port_file.exists() and port_file.read_text().endswith("\n")):
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"demo: the server did not start; see {log}:\n{log.read_text()}")
                time.sleep(0.05)
            yield f"127.0.0.1:{port_file.read_text().strip()}"
        finally:
            process.send_signal(signal.SIGTERM)
            status = process.wait(timeout=30)
        if status != 0:
            sys.exit(f"demo: the server stopped with {status}; see {log}")


def run_client(*command: str | Path) -> str:
    """Returns the client's standard output. Its errors go to the terminal."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"demo: {Path(command[0]).name} {command[1]} failed with {done.returncode}")
    return done.stdout


def show_question(question: dict[str, Any], result: dict[str, Any], stored: dict[str, Any]) -> bool:
    """Prints one ranking; returns True if the winner is the stored one."""
    scored = [entry for entry in result["candidates"] if "score" in entry]
    ranked = sorted(scored, key=lambda entry: -entry["score"])
    same = bool(ranked) and ranked[0]["id"] == stored["winner"]
    mark = "right" if stored["winner"] == stored["right"] else f"wrong, it is {stored['right']}"
    asked = question["prompt"].split("Q: ")[-1].split("\n")[0]
    print(f"{asked}   ({len(result['candidates'])} candidates; the model is {mark})")
    for place, entry in enumerate(ranked[:SHOWN_CANDIDATES], start=1):
        print(f"  {place}. {entry['id']:<18} {entry['score']:9.3f}")
    if not same:
        print(f"  DIFFERENT: the stored winner is {stored['winner']}")
    return same


def show_route(stats: dict[str, Any]) -> None:
    """Prints the route, the reason for it, and what it saved."""
    saved = 1 - stats["computed_tokens"] / stats["input_tokens"]
    reason = stats.get("reason") or "the reference rules chose a tree backend"
    layout = stats.get("layout") or "none"
    print(f"route            {stats['backend']}, layout {layout}: {reason}")
    print(f"path tokens      {stats['path_tokens']:>8}   every path alone, padded")
    print(f"input tokens     {stats['input_tokens']:>8}   every path alone")
    print(f"computed tokens  {stats['computed_tokens']:>8}   saved {saved:.1%} of the input")
    print(f"device           {stats['device_ms']:8.1f} ms of {stats['total_ms']:.1f} ms in all")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", type=Path, required=True, help="canopy_server")
    parser.add_argument("--client", type=Path, required=True, help="canopy")
    parser.add_argument("--out", type=Path, required=True, help="folder for picture and log")
    arguments = parser.parse_args()
    questions_file = FOLDER / "questions.jsonl"
    questions = [json.loads(line) for line in questions_file.read_text().splitlines()]
    stored = json.loads((FOLDER / "winners.json").read_text())["questions"]
    picture = arguments.out / "demo_forest.svg"

    with running_server(
        arguments.server, FOLDER / "model", arguments.out / "demo_server.log"
    ) as address:
        call = [f"--server={address}", f"--input={questions_file}"]
        response = json.loads(run_client(arguments.client, "score", "--format=json", *call))
        run_client(arguments.client, "explain", f"--svg={picture}", *call)

    same = [
        show_question(question, result, entry)
        for question, result, entry in zip(questions, response["results"], stored, strict=True)
    ]
    print()
    show_route(response["stats"])
    print(f"forest picture   {picture}")
    right = sum(entry["winner"] == entry["right"] for entry in stored)
    count = len(stored)
    print(f"{sum(same)} of {count} stored winners won; {right} of the {count} are right")
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
