"""What the demo finds out: where it ran, what the control plane took, what every frame did."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cnc import clock
from cnc.format import counted
from cnc.rollout import PortStatus
from cnc.traffic.measure import Spread, Summary


@dataclass(frozen=True, slots=True)
class Platform:
    """The kernel and clock all figures were taken on.

    `exact`: only sleeping takes time, so frames can be judged to the microsecond.
    """

    kernel: str
    clock: str
    exact: bool

    @classmethod
    def here(cls) -> Platform:
        """As `scripts/vm` told it; without it this is the machine's own kernel."""
        lane = os.environ.get("TSN_VM", "own")
        virtual = os.environ.get("TSN_VIRTUAL_TIME") == "1"
        names = {"uml": "user-mode Linux", "qemu": "QEMU", "own": "this machine's own kernel"}
        return cls(
            kernel=f"Linux {platform.release()}, {names.get(lane, lane)}",
            clock="virtual time" if virtual else "real time",
            exact=clock.is_exact(),
        )

    def __str__(self) -> str:
        return f"{self.kernel}, {self.clock}"


@dataclass(frozen=True, slots=True)
class SwitchFigures:
    """What a push cost on one switch."""

    payload_ns: int
    netconf_ns: int
    apply_ns: int


@dataclass(frozen=True, slots=True)
class Figures:
    """What the control plane took, from the intent to the kernels."""

    platform: str
    plan_ns: int
    check_ns: int
    push_ns: int
    switches: Mapping[str, SwitchFigures]

    def dump(self) -> str:
        return json.dumps(asdict(self), indent=2)

    @classmethod
    def load(cls, text: str) -> Figures:
        """Inverse of `dump`."""
        fields = json.loads(text)
        switches = {name: SwitchFigures(**each) for name, each in fields.pop("switches").items()}
        return cls(**fields, switches=switches)


@dataclass(frozen=True, slots=True)
class Outcome:
    """All the demo found out. `streams` is empty where no traffic was sent.

    The network ran `slower` times slower than its intent says: for a clock that is not exact.
    """

    platform: Platform
    ports: Sequence[PortStatus]
    figures: Figures
    streams: Sequence[Summary] = ()
    wake_up_error: Spread | None = None
    slower: int = 1

    def document(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            **asdict(self),
            "ports": [{**asdict(port), "port": str(port.port)} for port in self.ports],
            "streams": [{**asdict(stream), "lost": stream.lost} for stream in self.streams],
            "disagreements": self.disagreements(),
        }

    def disagreements(self) -> list[str]:
        """What is not as it must be, one line each; none is success.

        Frames are judged only where the clock is exact: elsewhere their times, and in windows
        shorter than the machine is punctual even their arrival, say nothing about the plan.
        """
        found = [f"{port.port}: {port.verdict}" for port in self.ports if not port.agrees]
        if not self.platform.exact:
            return found
        for stream in self.streams:
            name = stream.flow.name
            if stream.lost:
                found.append(f"{name}: {stream.lost} of {counted(stream.sent, 'frame')} lost")
            if stream.late:
                found.append(f"{name}: {stream.late} of {counted(stream.sent, 'frame')} late")
            if stream.outside:
                found.append(
                    f"{name}: {counted(stream.outside, 'frame')} left through a closed gate, "
                    f"the worst {stream.outside_max_ns} ns from its window"
                )
        return found
