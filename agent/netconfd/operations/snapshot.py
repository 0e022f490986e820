"""The configuration to go back to, on disk: it must outlive the server that wrote it."""

from __future__ import annotations

from pathlib import Path

from agent import whole_file


class Snapshot:
    """At most one configuration, whole and private. Every call may raise OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, config: str) -> None:
        """Keep the configuration; when this returns, a power cut cannot take it away."""
        whole_file.replace(self._path, config.encode())

    def read(self) -> str | None:
        """The configuration kept, None if there is none."""
        try:
            return self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def remove(self) -> None:
        """Forget it for good."""
        whole_file.remove(self._path)
