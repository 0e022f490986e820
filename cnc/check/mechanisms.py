"""What the judges of all mechanisms say, and what their mechanisms do to frames together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache

from cnc.account.frames import AddedOctets, Transmission
from cnc.account.judge import AddressGiven, Judge, Table, Told
from cnc.account.violation import Violation
from cnc.mechanisms.loading import loaded
from cnc.model import BridgeForwarding, Intent, Plan, PortRef, Stream, StreamAddress


@cache
def _judges() -> tuple[Judge, ...]:
    return tuple(each.judge() for each in loaded() if each.judge)


@cache
def _adding() -> tuple[AddedOctets, ...]:
    return tuple(each.added_octets for each in _judges() if each.added_octets)


@cache
def _dropping() -> tuple[Callable[[Intent, str, int], bool], ...]:
    return tuple(each.drops_misfits for each in _judges() if each.drops_misfits)


def judge_ways(plan: Plan, told: Told) -> Iterator[Violation]:
    """What is wrong with what bridges are told, wherever frames go."""
    for each in _judges():
        yield from each.ways(plan, told)


def judge_times(
    plan: Plan, told: Told, transmissions: Sequence[Transmission]
) -> Iterator[Violation]:
    """What is wrong with what bridges are told if frames come by `transmissions`."""
    for each in _judges():
        yield from each.times(plan, told, transmissions, added_octets)


def judge_entering(
    plan: Plan, told: Told, transmissions: Sequence[Transmission]
) -> Iterator[Violation]:
    """What is wrong with what these bridges do with frames as they come from their talkers."""
    for each in _judges():
        yield from each.entering(plan, told, transmissions, added_octets)


def given_ports(plan: Plan) -> set[PortRef]:
    """The ports that run gate control lists as an operator gives them, of those that a plan has
    lists for."""
    return {port for each in _judges() for port in each.given(plan)}


def given_repeats_ns(intent: Intent) -> dict[PortRef, int]:
    """By port after how long windows repeat that an operator gives."""
    return {port: ns for each in _judges() for port, ns in each.repeats(intent).items()}


def judge_given(plan: Plan, ports: Collection[PortRef] | None = None) -> Iterator[Violation]:
    """What is wrong with the lists of ports for which an operator gives any, of these or all."""
    for each in _judges():
        yield from each.lists(plan, ports)


def judge_mixed(before: Plan, after: Plan, silent: Collection[str]) -> Iterator[Violation]:
    """What may break a promise of a plan while some nodes go by it and others by the next."""
    for each in _judges():
        if each.mixed:
            yield from each.mixed.judge(before, after, silent)


def are_decided_alike(before: Plan, after: Plan) -> bool:
    """Whether two plans have the same parts, but for those that mechanisms judge mixed."""
    may_differ = [each.mixed.part() for each in _judges() if each.mixed]
    return before.parts.having(*may_differ) == after.parts.having(*may_differ)


def are_local() -> bool:
    """Whether what any mechanism says of a stream is the same whatever other streams there are."""
    return all(each.is_local for each in _judges())


def tables(plan: Plan, switch: str, told: BridgeForwarding) -> Iterator[Table]:
    """The tables of a switch that hold a limited number of entries."""
    return (each.table(plan, switch, told) for each in _judges() if each.table)


def address_given(told: Told) -> AddressGiven:
    """What follows from what bridges are told."""
    giving = [each.address_given(told) for each in _judges() if each.address_given]

    def given(ingress: PortRef, stream: Stream) -> StreamAddress | None:
        return next(filter(None, (each(ingress, stream) for each in giving)), None)

    return given


def added_octets(stream: Stream) -> int:
    """What first switches put before the payload of a stream's frames, and last ones take away."""
    octets = 0
    for added in _adding():
        octets += added(stream)
    return octets


def drops_misfits(intent: Intent, stream: str, traffic_class: int) -> bool:
    """Whether the first switch is to drop frames of a stream, in a class by its number, that come
    otherwise than planned."""
    return any(drops(intent, stream, traffic_class) for drops in _dropping())
