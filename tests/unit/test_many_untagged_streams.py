"""Which untagged streams of one talker a switch can tell apart, and that many take no longer each.

Whether one frame could be of two streams is found out here by looking for such a frame.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnc import intent as intents
from cnc.check.forwarding import judge_forwarding
from cnc.errors import CncError
from cnc.mechanisms.composition import bridge_forwardings
from cnc.model import (
    Hop,
    Identification,
    Intent,
    IpIdentification,
    NextProtocol,
    NullIdentification,
    Plan,
    PortRef,
    SourceMacIdentification,
    StreamAddress,
    StreamPlan,
    mac_text,
)
from tests import bridged_networks

WAY = tuple(
    Hop(PortRef(node, port), 9_000 * number, 6)
    for number, (node, port) in enumerate(
        (("t1", "eth0"), ("s1", "s2"), ("s2", "s3"), ("s3", "l1"))
    )
)
SOURCES = ("192.0.2.1", "192.0.2.2")
DESTINATIONS = ("192.0.2.11", "192.0.2.12")
PORTS = (5_000, 5_001)
DSCPS = (0, 46)
MACS = ("02:00:00:00:00:0a", "02:00:00:00:00:0b")


class Frame(NamedTuple):
    """An untagged frame with an IP packet."""

    source_mac: str
    destination_mac: str
    source: str
    destination: str
    protocol: NextProtocol
    source_port: int
    destination_port: int
    dscp: int


FRAMES = [
    Frame(*values)
    for values in product(
        MACS,
        MACS,
        SOURCES,
        DESTINATIONS,
        (NextProtocol.UDP, NextProtocol.TCP),
        PORTS,
        PORTS,
        DSCPS,
    )
]


def is_known(frame: Frame, by: Identification) -> bool:
    match by:
        case SourceMacIdentification(mac):
            return frame.source_mac == mac
        case NullIdentification(mac):
            return frame.destination_mac == mac
    return (
        frame.destination == by.destination
        and by.source in (None, frame.source)
        and by.protocol in (NextProtocol.NONE, frame.protocol)
        and by.source_port in (None, frame.source_port)
        and by.destination_port in (None, frame.destination_port)
        and by.dscp in (None, frame.dscp)
    )


def are_alike(one: Identification, other: Identification) -> bool:
    return any(is_known(frame, one) and is_known(frame, other) for frame in FRAMES)


@st.composite
def ip_identifications(draw: st.DrawFn) -> IpIdentification:
    protocol = draw(st.sampled_from(NextProtocol))
    ports = st.none() if protocol is NextProtocol.NONE else st.none() | st.sampled_from(PORTS)
    return IpIdentification(
        destination=draw(st.sampled_from(DESTINATIONS)),
        source=draw(st.none() | st.sampled_from(SOURCES)),
        protocol=protocol,
        source_port=draw(ports),
        destination_port=draw(ports),
        dscp=draw(st.none() | st.sampled_from(DSCPS)),
    )


IDENTIFICATIONS = st.lists(
    ip_identifications()
    | ip_identifications()
    | st.sampled_from(MACS).map(SourceMacIdentification)
    | st.sampled_from(MACS).map(NullIdentification),
    min_size=1,
    max_size=6,
)


def document(identifications: list[Identification]) -> dict[str, Any]:
    """A stream of t1 for each of these: a, b, c, ..."""
    base = dict(bridged_networks.line().document)
    base["end-stations"] = {**base["end-stations"], "l1": {"mac": "02:00:00:00:01:01"}}
    base["streams"] = {
        name: bridged_networks.stream("t1", "l1", ip=4, identification=stated(by))
        for name, by in zip(names(len(identifications)), identifications, strict=True)
    }
    return base


def names(count: int) -> list[str]:
    return [f"s{number:05}" for number in range(count)]


def stated(by: Identification) -> dict[str, Any]:
    match by:
        case SourceMacIdentification(mac):
            return {"source-mac": mac}
        case NullIdentification(mac):
            return {"destination-mac": mac}
    leaves = {
        "destination": by.destination,
        "source": by.source,
        "protocol": None if by.protocol is NextProtocol.NONE else str(by.protocol),
        "source-port": by.source_port,
        "destination-port": by.destination_port,
        "dscp": by.dscp,
    }
    return {"ip": {key: value for key, value in leaves.items() if value is not None}}


def planned(identifications: list[Identification]) -> Plan:
    """A plan that sends all streams one way; nothing but its translations is of interest."""
    base = bridged_networks.line(x=bridged_networks.stream("t1", "l1"))
    streams = {
        name: replace(base.streams["x"], name=name, ip_version=4, identification=by)
        for name, by in zip(names(len(identifications)), identifications, strict=True)
    }
    stations = dict(base.network.end_stations)
    stations["l1"] = replace(stations["l1"], mac="02:00:00:00:01:01")
    intent: Intent = replace(
        base, streams=streams, network=replace(base.network, end_stations=stations)
    )
    return Plan(
        intent,
        {name: StreamPlan((WAY,), 100_000) for name in streams},
        {},
        algorithm="none",
        addresses={
            name: StreamAddress(mac_text(0x0254_534E_0000 + number), 10)
            for number, name in enumerate(streams)
        },
    )


@given(IDENTIFICATIONS)
def test_a_stream_is_refused_where_a_frame_could_be_of_an_earlier_one(
    identifications: list[Identification],
) -> None:
    expected = {}
    for number, by in enumerate(identifications):
        alike = [n for n in range(number) if are_alike(identifications[n], by)]
        if alike:
            expected[names(number + 1)[-1]] = names(alike[0] + 1)[-1]
    text = ""
    try:
        intents.from_document(document(identifications), "many")
    except CncError as error:
        text = str(error)
    lines = [line for line in text.splitlines() if "cannot tell" in line]
    assert len(lines) == len(expected), text
    for line, (name, first) in zip(lines, expected.items(), strict=True):
        assert f"streams.{name}.identification" in line
        assert f"cannot tell from stream {first} of t1" in line


@given(IDENTIFICATIONS)
def test_the_judge_finds_translations_of_which_one_frame_could_be(
    identifications: list[Identification],
) -> None:
    by_text = {str(by): by for by in identifications}
    found = []
    plan = planned(identifications)
    for violation in judge_forwarding(plan, bridge_forwardings(plan)):
        other, is_too, one = violation.text.partition(" may be ")
        if is_too:
            found.append((by_text[other], by_text[one.removesuffix(", too")]))
    for pair in found:
        assert are_alike(*pair)
    is_expected = any(
        are_alike(one, other)
        for number, one in enumerate(identifications)
        for other in identifications[:number]
    )
    assert bool(found) == is_expected


# --- effort --------------------------------------------------------------------------------------


def of_many(count: int) -> list[Identification]:
    """Every third by its port, every third by its destination, the others by their address."""
    return [
        (
            IpIdentification("192.0.2.1", None, NextProtocol.UDP, None, 1 + number),
            IpIdentification(f"198.51.{100 + number // 200}.{1 + number % 200}"),
            IpIdentification("192.0.2.1", "192.0.2.2", NextProtocol.TCP, 1 + number, 80, 46),
        )[number % 3]
        for number in range(count)
    ]


def calls(work: Callable[[], object]) -> int:
    """How many functions are called meanwhile: what an effort is, whatever the machine does."""
    count = 0

    def seen(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def checked(count: int) -> Callable[[], object]:
    whole = document(of_many(count))
    return lambda: intents.from_document(whole, "many")


def judged(count: int) -> Callable[[], object]:
    plan = planned(of_many(count))
    told = bridge_forwardings(plan)

    def judge() -> None:
        found: Iterator[object] = judge_forwarding(plan, told)
        assert not [*found]

    return judge


@pytest.mark.parametrize("work", [checked, judged])
def test_twice_as_many_untagged_streams_take_twice_the_effort(
    work: Callable[[int], Callable[[], object]],
) -> None:
    assert calls(work(400)) < 2.5 * calls(work(200))
