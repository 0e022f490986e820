"""What last switches count of the copies of streams (802.1CB 10.8), and what that says of a path.

Where a switch eliminates duplicates, no listener misses those of a path that has failed. Copies
of a slower path come later than those of the fastest, but by no more frames than the history of the
recovery function holds (802.1CB 7.4.3.2). So a port by which no copy has come while more than that
came by another has lost its path. The switch itself compares the copies by all ports together
(802.1CB 7.4.4), and so finds ways by which only some are lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cnc.mechanisms.frer.model import FoundErrors, Recovery, SequenceFunctions
from cnc.model import BridgeForwarding, StreamAddress
from cnc.support.format import counted

if TYPE_CHECKING:
    from cnc.data_tree.counters import PortCounters
    from cnc.data_tree.tree import BridgeReport

# What becomes of a copy that comes in by a port.
_OUTCOMES = ("passed", "discarded", "rogue")
# What should not happen: no copy of a frame has come, or one with a number out of its turn.
_ERRORS = {"lost": "lost on all paths", "rogue": "rogue"}


class Path(NamedTuple):
    """The way of a stream by which its copies come in by `port` of its last switch."""

    address: StreamAddress
    port: str


@dataclass(frozen=True, slots=True)
class Silence:
    """How many copies of a stream have come by `others` since one came by the port of a path."""

    copies: int
    others: tuple[str, ...]

    def in_words(self, stream: str, port: str) -> str:
        """Which copies do not come."""
        others = " and ".join(self.others)
        return (
            f"no copy of {stream} arrives at {port}, while {counted(self.copies, 'frame')} arrived "
            f"at {others}"
        )


class Error(NamedTuple):
    """What a counter of `_ERRORS` says of a stream."""

    address: StreamAddress
    counter: str


def recoveries(desired: BridgeForwarding) -> dict[StreamAddress, Recovery]:
    """The streams of which a bridge eliminates duplicates."""
    return {
        address: function
        for address, function in desired[SequenceFunctions].by_stream.items()
        if isinstance(function, Recovery)
    }


def recovery_errors(
    desired: BridgeForwarding, counters: Mapping[str, PortCounters]
) -> dict[Error, int]:
    """How often it happened, at all ports of each stream together."""
    return {
        Error(address, counter): sum(
            counters[port].recovery.get(address, {}).get(counter, 0)
            for port in function.ports
            if port in counters
        )
        for address, function in recoveries(desired).items()
        for counter in _ERRORS
    }


def errors_in_words(desired: BridgeForwarding, counts: Mapping[Error, int]) -> list[str]:
    """So many errors, by stream."""
    return [
        f"{counted(count, 'frame')} of {desired.names.get(its.address, its.address)} "
        f"{_ERRORS[its.counter]}"
        for its, count in sorted(counts.items(), key=str)
        if count
    ]


def copies_by_port(
    address: StreamAddress, recovery: Recovery, counters: Mapping[str, PortCounters]
) -> dict[str, int]:
    """How many copies have come by each port of a recovery function; empty where the switch does
    not report it."""
    counts = {
        port: counters[port].recovery.get(address, {})
        for port in recovery.ports
        if port in counters
    }
    if not any(counts.values()):
        return {}
    return {port: sum(its.get(each, 0) for each in _OUTCOMES) for port, its in counts.items()}


def latent_errors(desired: BridgeForwarding, report: BridgeReport | None) -> list[str]:
    """The streams of which the switch itself has found that copies do not arrive by all paths, in
    words."""
    if report is None:
        return []
    return [
        f"copies of {desired.names.get(address, address)} do not arrive by all paths: "
        f"{counted(its.difference, 'copy')} of them too few or too many"
        for address in sorted(recoveries(desired), key=str)
        if (its := report.counts[FoundErrors].by_stream.get(address)) and its.is_detected
    ]


class SilentPaths:
    """Compares the counters of one switch between looks at it.

    A counter below the previous one has restarted at 0.
    """

    def __init__(self) -> None:
        self._last: dict[Path, int] = {}
        self._missed: dict[Path, int] = {}

    def update(
        self, desired: BridgeForwarding, counters: Mapping[str, PortCounters]
    ) -> dict[Path, Silence]:
        """The paths that are silent as of this look; what came before the first one is ignored."""
        last, self._last = self._last, {}
        missed, self._missed = self._missed, {}
        silent = {}
        for address, function in recoveries(desired).items():
            came = copies_by_port(address, function, counters)
            paths = {port: Path(address, port) for port in came}
            self._last |= {paths[port]: count for port, count in came.items()}
            more = {
                port: _increase(last.get(paths[port], count), count) for port, count in came.items()
            }
            for port, path in paths.items():
                others = tuple(other for other in came if other != port)
                copies = missed.get(path, 0) + max((more[other] for other in others), default=0)
                self._missed[path] = 0 if more[port] else copies
                if self._missed[path] > function.history_length:
                    silent[path] = Silence(copies, others)
        return silent


def _increase(before: int, now: int) -> int:
    return now - before if now >= before else now
