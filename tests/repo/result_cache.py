"""Results of checks by a hash of all that the check read, beside the compile cache of ./dev."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


class ResultCache:
    """Small texts by key, in files; a key of None stands for what must not be kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def of_this_machine(cls, name: str) -> "ResultCache":
        """The folder that ./dev shares between checkouts and keeps below its size limit."""
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return cls(Path(os.environ.get("CANOPY_CACHE") or home / "canopy") / name)

    def get(self, kind: str, key: str | None) -> str | None:
        """The text of a key, or None."""
        if key is None:
            return None
        try:
            return (self._folder / kind / key).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def put(self, kind: str, key: str | None, text: str) -> None:
        """Keeps a text; whoever reads meanwhile sees all of it or none."""
        if key is None:
            return
        folder = self._folder / kind
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as file:
            file.write(text)
        Path(file.name).rename(folder / key)

    def get_or(self, kind: str, key: str | None, compute: Callable[[], str]) -> str:
        """The text of a key, computed and kept if there is none."""
        text = self.get(kind, key)
        if text is None:
            text = compute()
            self.put(kind, key, text)
        return text
