"""Checks, before a change, that a bridge can police what end stations send."""

from __future__ import annotations

from collections.abc import Iterator

from cnc.data_tree.tree import BridgeReport
from cnc.mechanism import Needs, SinceRevision
from cnc.mechanisms.stream_filters.model import CyclicGate, StreamFilters
from cnc.model import BridgeForwarding
from cnc.support.wording import named


def _of_frames(revision: str, what: str) -> SinceRevision:
    task = f"have {what}s count preamble and gap of each frame, as bounds do"
    otherwise = "state `policing: off` of the classes with `shaping`"
    return SinceRevision(
        "tsn-linux", revision, f"frame-overhead of a {what}", Needs(task, otherwise)
    )


_OF_METERS = _of_frames("2026-12-02", "flow meter")
_OF_GATES = _of_frames("2026-12-03", "stream gate")


def since(desired: StreamFilters) -> Iterator[SinceRevision]:
    """What filters need of modules that older agents have without it."""
    if any(its.meter and its.meter.overhead_octets for its in desired.filters):
        yield _OF_METERS
    if any(
        isinstance(its.gate, CyclicGate) and its.gate.overhead_octets for its in desired.filters
    ):
        yield _OF_GATES


def preflight(
    device: str, desired: BridgeForwarding, report: BridgeReport
) -> Iterator[tuple[str, str]]:
    """Whether the ports are the bridge's by which end stations send, but no planned frames pass."""
    policed = {its.of.port for its in desired[StreamFilters].filters}
    if missing := sorted(policed - desired.members - {*report.ports}):
        yield (
            f"is not the bridge of {named(missing)}, where frames of end stations are policed",
            f"add each on the switch: ip link set PORT master {device}",
        )
