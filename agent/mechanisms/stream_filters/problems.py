"""Why a bridge cannot filter streams as it is asked to. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from agent.mechanisms.stream_filters.model import (
    BURST_MAX_OCTETS,
    CYCLE_MAX_NS,
    ENTRIES_MAX,
    INSTANCES_MAX,
    Address,
    Gate,
    StreamFilterConfig,
)
from agent.model import PortConfig, PortState


def problems(config: PortConfig, state: PortState) -> Iterator[str]:
    """One line each, without the name of the bridge."""
    asked = config[StreamFilterConfig]
    if not asked.filters:
        return
    if state.as_bridge is None:
        yield "it is no bridge, and streams are filtered where a bridge receives them"
        return
    gates = {each.gate.id: each.gate for each in asked.filters}
    meters = {each.meter.id: each.meter for each in asked.filters if each.meter}
    for kind, given in (
        ("stream filters", asked.filters),
        ("stream gates", gates),
        ("flow meters", meters),
    ):
        if len(given) > INSTANCES_MAX:
            yield f"{len(given)} {kind} are more than the {INSTANCES_MAX} that there can be"
    for number in sorted(gates):
        yield from _gate_problems(gates[number])
    for number in sorted(meters):
        if meters[number].burst_octets > BURST_MAX_OCTETS:
            yield (
                f"flow meter {number}: a committed-burst-size of {meters[number].burst_octets} "
                f"octets is more than {BURST_MAX_OCTETS}"
            )
    for number, port in sorted(asked.places):
        if port not in state.as_bridge.ports:
            yield f"stream filter {number}: {port} is no port of it"
    yield from _two_streams(asked.addresses)


def _gate_problems(gate: Gate) -> Iterator[str]:
    if gate.list is None:
        return
    if len(gate.list.entries) > ENTRIES_MAX:
        yield (
            f"stream gate {gate.id}: its list has {len(gate.list.entries)} entries, more than the "
            f"{ENTRIES_MAX} that there can be"
        )
    if gate.list.cycle_ns > CYCLE_MAX_NS:
        yield (
            f"stream gate {gate.id}: its cycle of {gate.list.cycle_ns} ns is longer than "
            f"{CYCLE_MAX_NS} ns"
        )


def _two_streams(addresses: Collection[Address]) -> Iterator[str]:
    handles: dict[tuple[str, str, int], int] = {}
    for each in sorted(addresses):
        first = handles.setdefault((each.port, each.mac, each.vlan_id), each.handle)
        if first != each.handle:
            yield (
                f"frames to {each.mac} in VLAN {each.vlan_id} at {each.port} are of streams "
                f"{first} and {each.handle}; give one of them another address"
            )
