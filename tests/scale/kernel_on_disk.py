"""A switch's kernel in a file: it outlives its agent, as a real one does, and anyone can look."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Mapping
from pathlib import Path

from agent.model import PortState
from tests.stack.recording_kernel import RecordingKernel, port


@dataclasses.dataclass(frozen=True)
class Recorded:
    """The ports as they are, and what was done to them since the first agent started."""

    ports: Mapping[str, PortState]
    log: list[str]

    @classmethod
    def read(cls, path: Path) -> Recorded:
        """What the kernel in this file has now."""
        recorded = pickle.loads(path.read_bytes())  # noqa: S301  our own file
        assert isinstance(recorded, cls)
        return recorded


class KernelOnDisk(RecordingKernel):
    """Goes on from what the file at `path` holds; without one, with these ports unconfigured."""

    def __init__(self, path: Path, *ports: str) -> None:
        super().__init__(*(port(name, ifindex) for ifindex, name in enumerate(ports, start=2)))
        self._path = path
        if path.exists():
            recorded = Recorded.read(path)
            self.ports.states, self.log = dict(recorded.ports), recorded.log
        self._save()

    def record(self, *lines: str) -> None:
        super().record(*lines)
        self._save()

    def _save(self) -> None:
        whole = self._path.with_suffix(".new")
        whole.write_bytes(pickle.dumps(Recorded(self.states, self.log)))
        whole.replace(self._path)
