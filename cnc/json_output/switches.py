"""What doctor, push, rollback and status print of the switches."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from cnc.json_output.document import (
    BridgeTables,
    Document,
    ForwardingChange,
    Gates,
    PortName,
    RunningGates,
    is_empty,
    is_none,
    with_keys,
)
from cnc.mechanism import Counts
from cnc.mechanisms.registry import WATCHED
from cnc.rollout.preflight import Finding
from cnc.rollout.transaction import SwitchTimes


class Diagnosis(Document):
    """`cnc doctor`. The exit code is 1 if a finding has failed."""

    network: str
    no_plan: str | None
    """Why there are no lists that the switches could be compared with."""
    findings: list[Finding]
    """A check on a switch each, or on one of its ports, and what to do about it."""


class PortChange(Document):
    """What a push changes on a port."""

    port: PortName
    """NODE/PORT."""
    why: str
    before: Gates | None
    after: Gates | None
    """null: no gates."""
    forwarding: ForwardingChange | None = Field(None, exclude_if=is_none)
    """Of a bridge, which has no gates; left out otherwise."""


class Moved(Document):
    """A stream that leaves at other times, on another way or in another class than before."""

    stream: str
    talker: str
    offsets_before_ns: list[int]
    """When its talker has sent each frame, from the start of the period; one for each path."""
    offsets_ns: list[int]
    """When it is to send from now on."""
    reason: str


class Exposed(Document):
    """A stream of a bridged network whose way changes when the switches commit."""

    stream: str
    why: str


class FormerWays(Document):
    """The filtering entries by which streams were forwarded before they got other ways."""

    streams: list[str]
    removed_by: int | None
    """The rollout that removed them; null: none had to, or they are left."""
    left: str | None
    """Why they are left; the exit code is 1 then."""


class Push(Document):
    """`cnc push` and `cnc rollback`."""

    changed: bool
    """False in a dry run, and where every port runs its list and every bridge forwards as planned
    already."""
    dry_run: bool
    base_time_ns: int | None
    """When the schedule starts: TAI, in nanoseconds since 1970. null where nothing has changed."""
    starts_in_ns: int | None
    """How long until then when all switches had confirmed."""
    total_ns: int
    """What the push took."""
    changes: list[PortChange]
    moved: list[Moved]
    """Compared with the plan of the last completed rollout; empty without one."""
    exposed: list[Exposed] = Field([], exclude_if=is_empty)
    """Streams that may lose frames between the commit and the base time; left out if none may."""
    former_ways: FormerWays | None = Field(None, exclude_if=is_none)
    """Left out where no stream of a bridged network got another way."""
    warnings: list[Finding] = Field([], exclude_if=is_empty)
    """What does not prevent the push, as `cnc doctor` finds it; left out if there is nothing."""
    added: list[str] = Field([], exclude_if=is_empty)
    """Streams that the plan of the last completed rollout did not place; left out if there are
    none, or no such plan."""
    removed: list[str] = Field([], exclude_if=is_empty)
    """Streams that it placed and this plan does not; left out if there are none."""
    times: dict[str, SwitchTimes]
    """Where the time went, by switch: making the payload, NETCONF, from YANG to the kernel."""


class ForwardingState(Document):
    """How a bridge is to forward the frames of streams, and does."""

    intended: BridgeTables
    running: BridgeTables | None
    """As the kernel has it, which does not tell the ports that trust; null: unknown, or there is no
    such bridge."""


@with_keys({each.key: (list[each.row], ...) for each in WATCHED})  # type: ignore[name-defined]
class StreamCounts(Document):
    """What a bridge has counted of the frames of streams."""


def _stream_counts(its: Counts) -> dict[str, tuple[object, ...]]:
    return {each.key: its.of(each.row) for each in WATCHED}


class PortState(Document):
    """One port in `cnc status`. The exit code is 1 if one does not agree."""

    port: PortName
    """NODE/PORT."""
    agrees: bool
    """The kernel runs what is intended, nothing else is pending, a cable that streams take has a
    link, and frames of streams come as planned, by all their ways."""
    verdict: str
    """running, pending, no gates, or in words how the port differs or why its state is unknown."""
    intended: Gates | None
    running: RunningGates | None
    pending: RunningGates | None
    """A list that the kernel has and does not run yet."""
    forwarding: ForwardingState | None = Field(None, exclude_if=is_none)
    """Of a bridge, which has no gates; left out otherwise."""
    counts: Annotated[StreamCounts, BeforeValidator(_stream_counts)] = Field(
        StreamCounts.model_validate({each.key: () for each in WATCHED}),
        exclude_if=lambda its: not any(rows for _, rows in its),
    )
    """Left out where nothing is counted."""
