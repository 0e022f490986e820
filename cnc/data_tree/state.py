"""What a switch reports at one time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cnc.data_tree.tree import CLOCK, AgentReport, BridgeReport, GatesReport, PortReport


@dataclass(frozen=True, slots=True)
class SwitchState:
    """State that a switch read at some moment between `asked_ns` and `answered_ns`, which are of
    the controller's monotonic clock: when it was requested, and when it was received."""

    agent: AgentReport | None
    ports: Mapping[str, PortReport]
    asked_ns: int
    answered_ns: int

    def bridge(self, name: str) -> BridgeReport | None:
        """What is reported of a bridge; None: there is no such bridge, or it is not known."""
        place = self.ports.get(name)
        return place.get(BridgeReport) if place else None

    def tai_minus_monotonic_ns(self) -> tuple[int, int] | None:
        """Bounds of (switch's TAI minus controller's monotonic clock); None without a clock.

        Agents up to 0.1.0 report the time of the clock on which a port's list runs: where that is
        not TAI, the port is used only if the switch has no other, and may be wrong
        (`is_tai_certain`).
        """
        clocks = self._clocks_ns(is_tai=True) or self._clocks_ns(is_tai=False)[-1:]
        if not clocks:
            return None
        return max(clocks) - self.answered_ns, min(clocks) - self.asked_ns

    @property
    def is_tai_certain(self) -> bool:
        """Whether the time was read from a clock that is certain to be TAI."""
        return bool(self._clocks_ns(is_tai=True))

    def _clocks_ns(self, *, is_tai: bool) -> list[int]:
        """Sorted times of the ports whose list runs on TAI or that have none (`is_tai`), or of the
        others."""
        gates = (port[GatesReport] for port in self.ports.values())
        return sorted(
            each.current_time_ns
            for each in gates
            if each.current_time_ns is not None and (each.clock in {None, CLOCK}) is is_tai
        )
