"""Checks includes: a room may include only the rooms that ALLOWED lists for it."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from source_files import CPP_SUFFIXES, read, source_files

_TREE: Final = ("base", "core/tree")
_CHECKPOINT: Final = ("base", "core/checkpoint/families")
_MODEL: Final = (*_TREE, "core/ops", "core/checkpoint")
_RUNTIME: Final = (*_MODEL, "core/model", "core/scoring", "core/engine")
_WIRE: Final = (*_TREE, "core/engine", "proto")
_RPC: Final = (*_WIRE, "server/wire", "server/net", "server/telemetry")
_LOAD: Final = ("base", "proto", "client", "client/cli")
# docs/ARCHITECTURE.md draws this table, with each room below all rooms that it includes. A room may
# always include itself. Its folder `testing` is only for tests.
ALLOWED: Final[dict[str, tuple[str, ...]]] = {
    "base": (),
    "core/tree": ("base",),
    "kernels": (),
    "core/ops": ("base", "core/tree", "kernels"),
    "core/checkpoint/families": (),
    "core/checkpoint": _CHECKPOINT,
    "core/model": _MODEL,
    "core/training": (*_MODEL, "core/model"),
    "core/scoring": (*_MODEL, "core/model"),
    "core/engine": _TREE,
    "core/runtime": _RUNTIME,
    "server/wire": _WIRE,
    "server/net": ("base",),
    "server/telemetry": (*_WIRE, "server/wire", "server/net"),
    "server/rpc": _RPC,
    "server": (*_RPC, "server/rpc", "core/runtime"),
    "client": ("base", "proto"),
    # `canopy fingerprint` uses the same code as the server.
    "client/cli": ("base", "proto", "client", "core/checkpoint"),
    "client/load/traffic": _LOAD,
    "client/load/report": (*_LOAD, "client/load/traffic"),
    "client/load": (*_LOAD, "client/load/traffic", "client/load/report"),
    "client/examples": ("proto", "client"),
}
TORCH_ROOMS: Final = ("core/ops", "core/model", "core/training", "core/scoring", "core/runtime")
# These libraries are limited to some rooms. LibTorch is slow to compile, and gRPC belongs to the
# edges. Locks come from base/mutex.h, which ThreadSanitizer can see, except that LibTorch's
# generator needs std::mutex.
LIBRARIES: Final[dict[str, tuple[str, ...]]] = {
    r"(ATen|c10|torch|caffe2)/": TORCH_ROOMS,
    r"absl/synchronization/": ("base",),
    r"(mutex|condition_variable|shared_mutex)$": ("base", "core/ops"),
    r"(grpc|grpcpp)/": ("server", "client"),
    r"prometheus/": ("server/telemetry",),
    r"cuda": ("kernels", "core/ops"),
}
# This is the only header of core/runtime that includes LibTorch, and these files may include it.
TORCH_HEADER: Final = "core/runtime/part_heads.h"
TORCH_HEADER_USERS: Final = ("core/runtime/part_heads", "core/runtime/torch_runner")
_INCLUDE: Final = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)


def room_of(path: str) -> str:
    """Returns the entry of ALLOWED that a file or an included name belongs to, or ""."""
    if path.startswith(("canopy/v1/", "google/rpc/")):
        return "proto"
    rooms = [name for name in ALLOWED if path.startswith(name + "/")]
    return max(rooms, key=len, default="")


def may_see(room: str, rooms: tuple[str, ...]) -> bool:
    """Returns True if the room or a room that contains it is in `rooms`."""
    return any(room == name or room.startswith(name + "/") for name in rooms)


def violations(path: str, text: str) -> Iterable[str]:
    """Yields the violations in the includes of one file."""
    room = room_of(path)
    if not room:
        return
    is_test = path.endswith("_test.cc") or "/testing/" in path
    for name in _INCLUDE.findall(text):
        target = room_of(name)
        if target not in ("", room, *ALLOWED[room]):
            yield f"{path}: {room} may not include {name}"
        if (name.startswith("tests/") or "/testing/" in name) and not is_test:
            yield f"{path}: only tests may include {name}"
        if name == TORCH_HEADER and not path.startswith(TORCH_HEADER_USERS):
            yield f"{path}: only the LibTorch runner may include {name}"
        for pattern, rooms in LIBRARIES.items():
            if re.match(pattern, name) and not may_see(room, rooms):
                yield f"{path}: {room} may not include {name}"
        # If these headers included LibTorch, everything that uses the runtime would compile it too.
        is_public = room == "core/runtime" and path.endswith(".h") and path != TORCH_HEADER
        if is_public and re.match(r"(ATen|c10|torch)/", name):
            yield f"{path}: headers of core/runtime are free of LibTorch, not {name}"


def circles() -> Iterable[str]:
    """Yields the rooms of ALLOWED that depend on themselves."""
    for room in ALLOWED:
        reached: set[str] = set()
        waiting = list(ALLOWED[room])
        while waiting:
            other = waiting.pop()
            if other not in reached:
                reached.add(other)
                waiting.extend(ALLOWED.get(other, ()))
        if room in reached:
            yield f"{room} may include itself through other rooms"


def check() -> list[str]:
    """Returns all violations in the repository."""
    found = list(circles())
    for path in source_files(*CPP_SUFFIXES):
        found.extend(violations(str(path), read(Path(path))))
    return found
