"""Caches results of checks by a hash of everything that the check reads."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


class ResultCache:
    """A cache of small texts in files. Results with the key None are not cached."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def of_this_machine(cls, name: str) -> "ResultCache":
        """Returns the cache in the folder that ./dev shares between checkouts and keeps small."""
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return cls(Path(os.environ.get("CANOPY_CACHE") or home / "canopy") / name)

    def get(self, kind: str, key: str | None) -> str | None:
        """Returns the text of a key, or None."""
        if key is None:
            return None
        try:
            return (self._folder / kind / key).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def put(self, kind: str, key: str | None, text: str) -> None:
        """Stores a text. Concurrent readers see either the whole text or none."""
        if key is None:
            return
        folder = self._folder / kind
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as file:
            file.write(text)
        Path(file.name).rename(folder / key)

    def get_or(self, kind: str, key: str | None, compute: Callable[[], str]) -> str:
        """Returns the text of a key. Computes and stores it if there is none."""
        text = self.get(kind, key)
        if text is None:
            text = compute()
            self.put(kind, key, text)
        return text
