"""A switch's kernel in a file: it outlives its agent, as a real one does, and anyone can look."""

from __future__ import annotations

import dataclasses
import pickle
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent.model import Clock, PortState
from tests.stack.recording_kernel import RecordingKernel, port

# Far more than one rollout and what follows it.
MOMENTS_KEPT = 64


@dataclasses.dataclass(frozen=True)
class Moment:
    """The ports as a change left them at `tai_ns`."""

    tai_ns: int
    ports: Mapping[str, PortState]


@dataclasses.dataclass(frozen=True)
class Recorded:
    """The ports as they are, what was done to them since the first agent started, and how the last
    changes left them, in order."""

    ports: Mapping[str, PortState]
    log: list[str]
    moments: Sequence[Moment]

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
        self._moments = deque[Moment](maxlen=MOMENTS_KEPT)
        if path.exists():
            recorded = Recorded.read(path)
            self.ports.states, self.log = dict(recorded.ports), recorded.log
            self._moments.extend(recorded.moments)
        self._save()

    def record(self, *lines: str) -> None:
        super().record(*lines)
        self._save()

    def _save(self) -> None:
        self._moments.append(Moment(self.ports.now_ns(Clock.TAI), dict(self.states)))
        whole = self._path.with_suffix(".new")
        whole.write_bytes(pickle.dumps(Recorded(self.states, self.log, tuple(self._moments))))
        whole.replace(self._path)
