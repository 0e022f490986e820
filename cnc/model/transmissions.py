"""What every talker has to know of a plan: when to send which frames, and how to mark them."""

from __future__ import annotations

from dataclasses import dataclass

from cnc.model import (
    Forwarding,
    Hop,
    IpIdentification,
    Plan,
    Shaper,
    Stream,
    StreamAddress,
    StreamPlan,
    TrafficClass,
)


@dataclass(frozen=True, slots=True)
class Transmission:
    """The frames of one stream on one of its paths.

    The first bit of each leaves `interface` of `talker` `offset_ns` after a multiple of `period_ns`
    on TAI, counted from 1970; of several `frames` in a period that of the first, which the others
    follow back to back. `payload_octets` is a whole IP packet. Any of `dscps` leads into the
    traffic class; `priority` does in a VLAN tag. `path` is 2 for the second copy of a frame that is
    sent twice. `window_ns` after that bit all frames of the period have left at the latest, where
    they share a window with those of other streams of the talker; 0: they share none.

    In a bridged network frames go to `destination_mac`, with `vlan_id` and `pcp` in a VLAN tag; all
    three are None in a routed one. `is_untagged`: frames are sent as before the plan, without a tag
    and to the listener, and the first switch knows them; then all three are None, too. Frames with
    an `ethertype` carry no IP packets: then `ip_version` is None, and `dscps` are empty.

    With an `interval_ns`, in which switches forward its frames, or a `shaper`, by which they send
    them, the talker may have its bursts at any times that are a period apart; `offset_ns` is 0
    then, which is one of those.
    """

    talker: str
    interface: str
    stream: str
    path: int
    listeners: tuple[str, ...]
    period_ns: int
    offset_ns: int
    payload_octets: int
    ip_version: int | None
    traffic_class: int
    priority: int
    dscps: tuple[int, ...]
    destination_mac: str | None = None
    vlan_id: int | None = None
    pcp: int | None = None
    is_untagged: bool = False
    frames: int = 1
    window_ns: int = 0
    ethertype: int | None = None
    interval_ns: int = 0
    shaper: Shaper | None = None

    @property
    def address(self) -> StreamAddress | None:
        """What the frames are sent to in a bridged network; None in a routed one."""
        if self.destination_mac is None or self.vlan_id is None:
            return None
        return StreamAddress(self.destination_mac, self.vlan_id)


def transmissions(plan: Plan) -> list[Transmission]:
    """All of a plan, in the order in which each talker sends in the first period.

    Where both paths of a stream start with one frame, for a switch to copy, it is there once.
    """
    found = [
        _transmission(plan, name, number, path[0])
        for name, placed in plan.streams.items()
        for number, path in enumerate(placed.paths, 1)
        if number == 1 or not _is_copied(plan, placed, path[0])
    ]
    return sorted(found, key=lambda each: (each.talker, each.offset_ns, each.stream, each.path))


def _is_copied(plan: Plan, placed: StreamPlan, first: Hop) -> bool:
    """Whether a switch makes the second copy: in a bridged network the frame that leaves the talker
    by one port at one time is one."""
    return plan.intent.network.forwarding is Forwarding.BRIDGED and first == placed.hops[0]


def _transmission(plan: Plan, name: str, number: int, first: Hop) -> Transmission:
    stream, its_class = plan.intent.streams[name], plan.class_of(name)
    is_untagged = stream.identification is not None
    address = None if is_untagged else plan.addresses.get(name)
    return Transmission(
        talker=first.egress.node,
        interface=first.egress.port,
        stream=name,
        path=number,
        listeners=stream.listeners,
        period_ns=stream.period_ns,
        offset_ns=first.offset_ns,
        payload_octets=stream.payload_octets,
        ip_version=stream.ip_version if stream.ethertype is None else None,
        traffic_class=its_class.number,
        priority=its_class.priority,
        dscps=_dscps(stream, its_class),
        destination_mac=address.destination_mac if address else None,
        vlan_id=address.vlan_id if address else None,
        pcp=its_class.priority if address else None,
        is_untagged=is_untagged,
        frames=stream.frames,
        window_ns=first.window_ns,
        ethertype=stream.ethertype,
        interval_ns=plan.streams[name].interval_ns,
        shaper=plan.streams[name].shaper,
    )


def _dscps(stream: Stream, its_class: TrafficClass) -> tuple[int, ...]:
    """What may stand in the IP headers, if there are any; the one that the first switch knows a
    stream by alone."""
    if stream.ethertype is not None:
        return ()
    match stream.identification:
        case IpIdentification(dscp=int(dscp)):
            return (dscp,)
    return its_class.dscps
