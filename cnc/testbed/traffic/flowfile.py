"""Flows that an operator defines: a YAML file, checked against the network they cross.

Messages read as those about an intent: `FILE:LINE: PATH: found X, expected Y`.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated

from pydantic import Field

from cnc.errors import InputError
from cnc.intent import read, validate
from cnc.keys.mapping import Shape
from cnc.keys.problems import KeyPath, Problems, one_of, shown
from cnc.keys.units import DURATION, RATE, SIZE
from cnc.keys.values import (
    PAYLOAD_MAX_OCTETS,
    Dscp,
    Duration,
    IpVersion,
    Leaf,
    Name,
    Rate,
    choice,
    decimal,
    quantity,
    text,
)
from cnc.model import NS_PER_S, Intent
from cnc.testbed.lab.addressing import next_hops
from cnc.testbed.lab.supported import mtu_octets
from cnc.testbed.traffic.flows import (
    AnyFlow,
    Flow,
    Pattern,
    cbr_period_ns,
    class_of_dscp,
    least_payload_octets,
    saturating_period_ns,
)
from cnc.testbed.traffic.replay.flow import Networks, Replay
from cnc.testbed.traffic.replay.flow import flows as replayed

PERIOD_MIN_NS = 1_000  # no program here sends a million frames a second


class Sending(StrEnum):
    """How the frames of a flow follow one another."""

    PERIODIC = "periodic"
    CBR = "cbr"
    SATURATING = "saturating"


_KEYS_OF = {Sending.PERIODIC: {"period"}, Sending.CBR: {"rate"}, Sending.SATURATING: set[str]()}
_NOT_REPLAYED = ("pattern", "period_ns", "rate_bps", "payload_octets")


def _network(value: object) -> IPv4Network | IPv6Network:
    try:
        return ip_network(str(value))
    except ValueError:
        raise ValueError("an IP address or network, such as 10.1.2.3 or 10.1.0.0/16") from None


class ReplayShape(Shape):
    """Packets of a capture."""

    pcap: Annotated[str, text(".+", "the path of a capture, pcap or pcapng")] = Field(
        description="path of a capture, pcap or pcapng, also compressed by gzip; a relative one "
        "counts from this file"
    )
    speed: Annotated[Decimal, decimal(0, 1000, above=True)] = Field(
        1, validate_default=True, description="how many times as fast as it was captured"
    )
    addresses: (
        dict[Annotated[IPv4Network | IPv6Network, Leaf(_network, {"type": "string"})], Name] | None
    ) = Field(
        None,
        description="a node for each IP address or network; packets go from the node of their "
        "source to that of their destination, in place of talker and listener",
    )


class FlowShape(Shape):
    """One flow."""

    name: Name = Field(description="name of the flow")
    talker: Name | None = Field(None, description="the node that sends")
    listener: Name | None = Field(None, description="the node that receives")
    replay: ReplayShape | None = Field(
        None, description="send packets of a capture, again and again, in place of a pattern"
    )
    pattern: Annotated[Sending, choice(Sending)] = Field(
        "periodic",
        validate_default=True,
        description="periodic: a frame each period; cbr: periodic, at a rate; saturating: a frame "
        "is always ready",
    )
    period_ns: Annotated[int, quantity(DURATION, PERIOD_MIN_NS, NS_PER_S)] | None = Field(
        None, description="of a periodic flow, a duration such as 500us"
    )
    rate_bps: Rate | None = Field(
        None, description="of a cbr flow, counting whole IP packets, such as 100Mbps"
    )
    payload_octets: Annotated[int, quantity(SIZE, 1, PAYLOAD_MAX_OCTETS)] | None = Field(
        None,
        description="the IP packet with its headers, in octets, such as 200B; of a replay that of "
        "each captured packet",
    )
    dscp: Dscp | None = Field(
        None, description="IP code point of its frames, 0 to 63; default 0, of a replay its own"
    )
    offset_ns: Duration = Field(
        "0ns", validate_default=True, description="of its first frame, a duration such as 100us"
    )
    ip: IpVersion | None = Field(
        None, description="IP version, 4 or 6; default 6, of a replay 4, which takes shorter ones"
    )


class FlowsDocument(Shape):
    """What to send."""

    flows: list[FlowShape] = Field(min_length=1, description="a list of flows")


def load(path: Path, intent: Intent) -> list[Flow]:
    """The flows of a file, to be sent through the network of an intent.

    Raises:
        InputError: with one line for each problem found; of a capture with the first one.
    """
    problems = read(path)
    document = validate(problems, FlowsDocument)
    for index, flow in enumerate(document.flows):
        key = ("flows", index)
        if flow.replay and flow.replay.addresses is not None:
            _check_addresses(intent, flow, flow.replay.addresses, key, problems)
        else:
            _check_ends(intent, flow, key, problems)
        if flow.replay:
            _check_replay(flow, key, problems)
        else:
            _check_pattern(flow, key, problems)
            _check_length(intent, flow, key, problems)
        if flow.name in {before.name for before in document.flows[:index]}:
            problems.add((*key, "name"), f"{flow.name} again", "each name once")
    problems.raise_if_any()
    return [built for flow in document.flows for built in _build(intent, flow, path)]


def beside(streams: Sequence[AnyFlow], flows: Sequence[Flow]) -> list[AnyFlow]:
    """Streams, and flows of a file beside them.

    Raises:
        InputError: a flow has the name of a stream.
    """
    for name in sorted({flow.name for flow in flows} & {stream.name for stream in streams}):
        raise InputError(
            f"found a flow called {name}, expected a name that no stream has",
            hint="rename the flow in its file",
        )
    return [*streams, *flows]


def _check_ends(intent: Intent, flow: FlowShape, path: KeyPath, problems: Problems) -> None:
    network = intent.network
    nodes = [*network.end_stations, *network.bridges]
    for end, name in (("talker", flow.talker), ("listener", flow.listener)):
        if name is None:
            problems.add(path, f"no {end}", "one")
            return
        if name not in nodes:
            problems.add((*path, end), shown(name), one_of(nodes, name))
            return
    if flow.listener and flow.talker not in next_hops(network, flow.listener):
        problems.add((*path, "listener"), flow.listener, f"another node that {flow.talker} reaches")


def _check_addresses(
    intent: Intent, flow: FlowShape, addresses: Networks, path: KeyPath, problems: Problems
) -> None:
    for end, name in (("talker", flow.talker), ("listener", flow.listener)):
        if name is not None:
            problems.add((*path, end), name, "none: the addresses say from where to where")
    network = intent.network
    nodes = [*network.end_stations, *network.bridges]
    for each, name in addresses.items():
        if name not in nodes:
            place = (*path, "replay", "addresses", str(each))
            problems.add(place, shown(name), one_of(nodes, name))
    if len({*addresses.values()}) == 1:
        place = (*path, "replay", "addresses")
        problems.add(place, "one node", "two or more, between which packets are sent")


def _check_replay(flow: FlowShape, path: KeyPath, problems: Problems) -> None:
    for key, its in FlowShape.model_fields.items():
        if key in _NOT_REPLAYED and key in flow.model_fields_set:
            actual = f"a {its.alias} beside `replay`"
            problems.add((*path, str(its.alias)), actual, "none: the capture says it")


def _check_pattern(flow: FlowShape, path: KeyPath, problems: Problems) -> None:
    required = _KEYS_OF[flow.pattern]
    for key, value in (("period", flow.period_ns), ("rate", flow.rate_bps)):
        if value is None and key in required:
            problems.add(path, f"no {key}", f"one, for the pattern is {flow.pattern}")
        if value is not None and key not in required:
            actual = f"a {key}, and the pattern {flow.pattern}"
            problems.add((*path, key), actual, f"{' '.join(required) or 'neither period nor rate'}")
    if flow.payload_octets is None:
        problems.add(path, "no payload", "one, or a replay, whose packets have lengths")
        return
    least = least_payload_octets(_ip_version(flow))
    if flow.payload_octets < least:
        what = f"{SIZE.format(least)} or more, to hold headers and a sequence number"
        problems.add((*path, "payload"), SIZE.format(flow.payload_octets), what)
    elif flow.rate_bps and cbr_period_ns(flow.rate_bps, flow.payload_octets) < PERIOD_MIN_NS:
        most = f"a rate at which frames are {DURATION.format(PERIOD_MIN_NS)} apart or more"
        problems.add((*path, "rate"), RATE.format(flow.rate_bps), most)


def _check_length(intent: Intent, flow: FlowShape, path: KeyPath, problems: Problems) -> None:
    """Longer packets would be sent in fragments."""
    mtu = mtu_octets(intent)
    if flow.payload_octets and flow.payload_octets > mtu:
        most = f"{SIZE.format(mtu)} or less, the MTU of the lab's ports, which is as long as the "
        most += "longest packets of streams, or frames of best effort, in the intent"
        problems.add((*path, "payload"), SIZE.format(flow.payload_octets), most)


def _ip_version(flow: FlowShape) -> int:
    return flow.ip or (4 if flow.replay else 6)


def _build(intent: Intent, flow: FlowShape, file: Path) -> Sequence[Flow]:
    """The flow, or those of a replay. All checks have passed."""
    talker, listener, octets = flow.talker or "", flow.listener or "", flow.payload_octets or 0
    if flow.replay:
        replay = Replay(
            name=flow.name,
            pcap=file.parent / flow.replay.pcap,
            speed=flow.replay.speed,
            ends=None if flow.replay.addresses else (talker, listener),
            networks=flow.replay.addresses or {},
            ip_version=_ip_version(flow),
            offset_ns=flow.offset_ns,
            dscp=flow.dscp,
        )
        return replayed(replay, intent, mtu_octets(intent))
    if flow.period_ns:
        period_ns = flow.period_ns
    elif flow.rate_bps:
        period_ns = cbr_period_ns(flow.rate_bps, octets)
    else:
        period_ns = saturating_period_ns(intent, talker, listener, octets)
    dscp = flow.dscp or 0
    return [
        Flow(
            name=flow.name,
            talker=talker,
            listener=listener,
            traffic_class=class_of_dscp(intent, dscp).number,
            ip_version=_ip_version(flow),
            dscp=dscp,
            payload_octets=octets,
            period_ns=period_ns,
            offset_ns=flow.offset_ns,
            latency_bound_ns=None,
            pattern=(
                Pattern.SATURATING if flow.pattern is Sending.SATURATING else Pattern.PERIODIC
            ),
        )
    ]
