"""What every talker has to know of a plan: when to send which frames, and how to mark them."""

from __future__ import annotations

from dataclasses import dataclass

from cnc.model import Plan


@dataclass(frozen=True, slots=True)
class Transmission:
    """The frames of one stream on one of its paths.

    The first bit of each leaves `interface` of `talker` `offset_ns` after a multiple of `period_ns`
    on TAI, counted from 1970. `payload_octets` is a whole IP packet. Any of `dscps` leads into the
    traffic class; `priority` does in a VLAN tag. `path` is 2 for the second copy of a frame that is
    sent twice.
    """

    talker: str
    interface: str
    stream: str
    path: int
    listeners: tuple[str, ...]
    period_ns: int
    offset_ns: int
    payload_octets: int
    ip_version: int
    traffic_class: int
    priority: int
    dscps: tuple[int, ...]


def transmissions(plan: Plan) -> list[Transmission]:
    """All of a plan, in the order in which each talker sends in the first period."""
    found = [
        Transmission(
            talker=path[0].egress.node,
            interface=path[0].egress.port,
            stream=name,
            path=number,
            listeners=stream.listeners,
            period_ns=stream.period_ns,
            offset_ns=path[0].offset_ns,
            payload_octets=stream.payload_octets,
            ip_version=stream.ip_version,
            traffic_class=plan.class_of(name).number,
            priority=plan.class_of(name).priority,
            dscps=plan.class_of(name).dscps,
        )
        for name, placed in plan.streams.items()
        if (stream := plan.intent.streams[name])
        for number, path in enumerate(placed.paths, 1)
    ]
    return sorted(found, key=lambda each: (each.talker, each.offset_ns, each.stream, each.path))
