"""Makes a control group (cgroup v1 or v2) with memory and CPU limits for one process."""

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/sys/fs/cgroup")
_PERIOD_US: Final = 100_000


class NoGroupError(Exception):
    """This machine or user cannot make such a group. The message gives the reason."""


def _number(path: Path, name: str = "") -> int:
    """Returns the number in the file, or the number after `name` in one of its lines."""
    found = re.search(rf"^{name and name + ' '}(\d+)$", path.read_text(), re.MULTILINE)
    if found is None:
        raise ValueError(f"{path} has no number {name}")
    return int(found[1])


@dataclass
class LimitedGroup:
    """The folders of a group. In cgroup v2 both are the same."""

    memory: Path
    cpu: Path
    is_v2: bool

    def command(self, command: list[str]) -> list[str]:
        """Returns a command that runs `command` in the group."""
        enter = 'for group in "$1" "$2"; do echo $$ > "$group/cgroup.procs"; done'
        shell = ["/bin/sh", "-ec", f'{enter}; shift 2; exec "$@"', "sh"]
        return [*shell, str(self.memory), str(self.cpu), *command]

    def limit(self, memory_bytes: int, cores: float) -> None:
        """Sets the limits on memory and CPU."""
        quota_us = int(cores * _PERIOD_US)
        if self.is_v2:
            (self.memory / "memory.max").write_text(str(memory_bytes))
            (self.cpu / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}")
        else:
            (self.memory / "memory.limit_in_bytes").write_text(str(memory_bytes))
            (self.cpu / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (self.cpu / "cpu.cfs_quota_us").write_text(str(quota_us))

    def peak_bytes(self) -> int:
        """Returns the peak memory of the group, including file pages."""
        name = "memory.peak" if self.is_v2 else "memory.max_usage_in_bytes"
        return _number(self.memory / name)

    def kills(self) -> int:
        """Returns the number of processes of the group that were killed for lack of memory."""
        name = "memory.events" if self.is_v2 else "memory.oom_control"
        return _number(self.memory / name, "oom_kill")

    def throttled(self) -> int:
        """Returns the number of periods in which the group used up its CPU quota."""
        return _number(self.cpu / "cpu.stat", "nr_throttled")


def _folders() -> tuple[Path, Path, bool]:
    """Returns the parent folders for new groups (memory, CPU), and True for cgroup v2."""
    groups = {}
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller] = path.lstrip("/")
    if "memory" in groups and "cpu" in groups:
        return _ROOT / "memory" / groups["memory"], _ROOT / "cpu" / groups["cpu"], False
    if "" not in groups:
        raise NoGroupError("/proc/self/cgroup names no group")
    folder = _ROOT / groups[""]
    enabled = (folder / "cgroup.subtree_control").read_text(encoding="utf-8").split()
    if not {"memory", "cpu"} <= set(enabled):
        raise NoGroupError(f"{folder} does not hand on memory and cpu, but {enabled}")
    return folder, folder, True


@contextmanager
def limited_group() -> Iterator[LimitedGroup]:
    """Makes a group without limits. Raises NoGroupError if that is not possible."""
    made: list[Path] = []
    try:
        try:
            memory, cpu, is_v2 = _folders()
            name = f"canopy_{uuid.uuid4().hex[:8]}"
            for folder in dict.fromkeys((memory / name, cpu / name)):
                folder.mkdir()
                made.append(folder)
            group = LimitedGroup(memory / name, cpu / name, is_v2)
            group.limit(1 << 40, 1)
            group.kills()
        except (OSError, ValueError) as error:
            raise NoGroupError(str(error)) from error
        yield group
    finally:
        for folder in made:
            folder.rmdir()
