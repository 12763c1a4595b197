"""Who may include whom: a folder includes only what stands above it in ALLOWED."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from source_files import CPP_SUFFIXES, read, source_files

# docs/ARCHITECTURE.md draws this table. A folder may always include itself.
ALLOWED: Final[dict[str, tuple[str, ...]]] = {
    "core/base": (),
    "core/tree": ("core/base",),
    "kernels": (),
    "core/ops": ("core/base", "core/tree", "kernels"),
    "core/model": ("core/base", "core/tree", "core/ops"),
    "core/scoring": ("core/base", "core/tree", "core/ops", "core/model"),
    "core/engine": ("core/base", "core/tree", "core/ops", "core/model", "core/scoring"),
    "server": ("core/base", "core/tree", "core/engine", "proto"),
    "client": ("proto",),
}
# Libraries that only some folders may see. LibTorch is slow to compile; gRPC stays at the edges.
LIBRARIES: Final[dict[str, tuple[str, ...]]] = {
    r"(ATen|c10|torch|caffe2)/": ("core/ops", "core/model", "core/scoring", "core/engine"),
    r"(grpc|grpcpp)/": ("server", "client"),
    r"prometheus/": ("server",),
    r"cuda": ("kernels", "core/ops"),
}
# The one header of core/engine with LibTorch in it, and who may see it.
TORCH_RUNNER_PART: Final = "core/engine/part_heads.h"
TORCH_RUNNER_FILES: Final = ("core/engine/part_heads", "core/engine/torch_runner")
# `canopy fingerprint` computes what a server does, by the same code, which has no LibTorch.
CHECKPOINT_PART: Final = "core/model/host_model.h"
CHECKPOINT_FILE: Final = "client/cli/folder_fingerprint.cc"
_INCLUDE: Final = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)


def folder_of(path: str) -> str:
    """The entry of ALLOWED that a file or an included name belongs to, or ''."""
    if path.startswith(("canopy/v1/", "google/rpc/")):
        return "proto"
    return next((name for name in ALLOWED if path.startswith(name + "/")), "")


def violations(path: str, text: str) -> Iterable[str]:
    """What is wrong with the includes of one file."""
    folder = folder_of(path)
    if not folder:
        return
    is_test = path.endswith("_test.cc")
    for name in _INCLUDE.findall(text):
        target = folder_of(name)
        is_fingerprint = path == CHECKPOINT_FILE and name == CHECKPOINT_PART
        if target not in ("", folder, *ALLOWED[folder]) and not is_fingerprint:
            yield f"{path}: {folder} may not include {name}"
        if name.startswith("tests/") and not is_test:
            yield f"{path}: only tests may include {name}"
        if name == TORCH_RUNNER_PART and not path.startswith(TORCH_RUNNER_FILES):
            yield f"{path}: only the LibTorch runner may include {name}"
        for pattern, folders in LIBRARIES.items():
            if re.match(pattern, name) and folder not in folders:
                yield f"{path}: {folder} may not include {name}"
        # Everything that includes the engine would compile LibTorch's headers.
        is_public = folder == "core/engine" and path.endswith(".h") and path != TORCH_RUNNER_PART
        if is_public and re.match(r"(ATen|c10|torch)/", name):
            yield f"{path}: headers of core/engine are free of LibTorch, not {name}"


def check() -> list[str]:
    """All violations in the repository."""
    found: list[str] = []
    for path in source_files(*CPP_SUFFIXES):
        found.extend(violations(str(path), read(Path(path))))
    return found
