"""A control group with a memory limit and a CPU quota, of cgroup v1 or v2, for one process."""

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
    """This machine, or this user, cannot make such a group; says why."""


def _number(path: Path, name: str = "") -> int:
    """The file's number, or that beside `name` in its lines."""
    found = re.search(rf"^{name and name + ' '}(\d+)$", path.read_text(), re.MULTILINE)
    if found is None:
        raise ValueError(f"{path} has no number {name}")
    return int(found[1])


@dataclass
class LimitedGroup:
    """Folders of a group; one and the same in v2."""

    memory: Path
    cpu: Path
    is_v2: bool

    def command(self, command: list[str]) -> list[str]:
        """`command`, to be run in the group."""
        enter = 'for group in "$1" "$2"; do echo $$ > "$group/cgroup.procs"; done'
        shell = ["/bin/sh", "-ec", f'{enter}; shift 2; exec "$@"', "sh"]
        return [*shell, str(self.memory), str(self.cpu), *command]

    def limit(self, memory_bytes: int, cores: float) -> None:
        """Sets both limits."""
        quota_us = int(cores * _PERIOD_US)
        if self.is_v2:
            (self.memory / "memory.max").write_text(str(memory_bytes))
            (self.cpu / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}")
        else:
            (self.memory / "memory.limit_in_bytes").write_text(str(memory_bytes))
            (self.cpu / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (self.cpu / "cpu.cfs_quota_us").write_text(str(quota_us))

    def peak_bytes(self) -> int:
        """The most that the group ever held, file pages included."""
        name = "memory.peak" if self.is_v2 else "memory.max_usage_in_bytes"
        return _number(self.memory / name)

    def kills(self) -> int:
        """Processes of the group that were killed because its memory ran out."""
        name = "memory.events" if self.is_v2 else "memory.oom_control"
        return _number(self.memory / name, "oom_kill")

    def throttled(self) -> int:
        """Periods in which the group had used up its quota."""
        return _number(self.cpu / "cpu.stat", "nr_throttled")


def _folders() -> tuple[Path, Path, bool]:
    """Where groups below this process's own stand: memory, CPU, whether that is v2."""
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
    """A new group without limits. NoGroupError where there can be none."""
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
