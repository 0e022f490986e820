"""The configuration to go back to, on disk: it must outlive the server that wrote it."""

from __future__ import annotations

import os
from pathlib import Path


class Snapshot:
    """A file that is there, whole, or not there at all."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, config: str) -> None:
        """Keep the configuration; when this returns, a power cut cannot take it away."""
        new = self._path.with_suffix(".new")
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(config)
            file.flush()
            os.fsync(descriptor)
        new.rename(self._path)
        self._sync_directory()

    def read(self) -> str | None:
        """The configuration kept, None if there is none."""
        try:
            return self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def remove(self) -> None:
        """Forget it for good."""
        self._path.unlink(missing_ok=True)
        self._sync_directory()

    def _sync_directory(self) -> None:
        descriptor = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
