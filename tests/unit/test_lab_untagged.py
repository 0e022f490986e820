"""How the lab sends and hears streams that talkers send untagged; nothing here needs a kernel."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

import pytest

from cnc import intent as intents
from cnc.errors import InputError
from cnc.model import Intent
from cnc.planner import plan as compute
from cnc.testbed.json_output.lab import flow_figures
from cnc.testbed.lab.addressing import addresses, bridged_addresses, stated_addresses
from cnc.testbed.traffic.flows import UntaggedFlow, flows
from cnc.testbed.traffic.measure import Summary
from cnc.testbed.traffic.probe_filter import ETHERTYPE, Marks, probe_filter, probe_offset
from cnc.testbed.traffic.untagged import PlainFrames, Sending, UdpPackets
from tests.bridged_networks import line, stream

MAC = "02:00:5e:20:00:01"
SCANNER = {"destination": "192.0.2.11", "protocol": "udp", "destination-port": 5004}


def network(**streams: Mapping[str, Any]) -> Intent:
    document = line().document
    stations = {name: {"mac": MAC} if name == "l1" else {} for name in document["end-stations"]}
    whole = {**document, "end-stations": stations, "streams": streams}
    return intents.from_document(whole, "line")


def sending(known_by: Mapping[str, Any], **keys: Any) -> Sending | None:
    (flow, *_) = flows(compute(network(camera=stream("t1", "l1", identification=known_by, **keys))))
    assert isinstance(flow, UntaggedFlow)
    assert (flow.destination_mac, flow.vlan_id, flow.pcp) == (MAC, None, None)
    return flow.sending


def test_packets_are_sent_as_the_first_switch_knows_them() -> None:
    marks = {**SCANNER, "source": "192.0.2.1", "source-port": 5003, "dscp": 34}
    expected = UdpPackets(4, "192.0.2.11", 5004, "192.0.2.1", 5003, 34)
    assert sending({"ip": marks}, ip=4) == expected
    assert sending({"ip": {"destination": "2001:db8::11"}}) == UdpPackets(6, "2001:db8::11", 5005)


def test_frames_that_are_known_by_an_address_have_it() -> None:
    assert sending({"destination-mac": "91:e0:f0:00:fe:01"}) == PlainFrames("91:e0:f0:00:fe:01")
    assert sending({"source-mac": "02:00:00:00:00:09"}) == PlainFrames(MAC, "02:00:00:00:00:09")


def test_what_the_lab_cannot_send_is_refused() -> None:
    with pytest.raises(InputError, match="stream camera is known by TCP, and cnc lab sends UDP"):
        sending({"ip": {**SCANNER, "protocol": "tcp"}}, ip=4)
    with pytest.raises(InputError, match="a payload of 28 octets cannot hold a probe over IPv4"):
        sending({"ip": SCANNER}, ip=4, octets=28)


def test_a_station_has_the_addresses_that_the_intent_states() -> None:
    wanted = network(camera=stream("t1", "l1", identification={"ip": SCANNER}, ip=4))
    assert bridged_addresses(wanted.network)["l1"].mac == MAC
    assert stated_addresses(wanted) == {"l1": {ip_address("192.0.2.11")}}


def test_an_address_of_the_lab_itself_needs_no_second_one() -> None:
    own = str(addresses(network())["l1"].v6)
    wanted = network(camera=stream("t1", "l1", identification={"ip": {"destination": own}}))
    assert stated_addresses(wanted) == {"l1": frozenset()}


def test_an_address_of_another_node_of_the_lab_is_refused() -> None:
    other = str(addresses(network())["t2"].v6)
    wanted = network(camera=stream("t1", "l1", identification={"ip": {"destination": other}}))
    with pytest.raises(InputError, match=f"stream camera: {other} would be l1, and is t2"):
        stated_addresses(wanted)


def test_programs_are_told_what_such_a_flow_sends() -> None:
    wanted = network(
        camera=stream("t1", "l1", identification={"ip": SCANNER}, ip=4), motion=stream("t1", "l1")
    )
    camera, motion, *_ = (
        flow_figures(Summary(flow, 0, 0, 0, 0, 0, 0, 0, None, None)).model_dump(mode="json")
        for flow in flows(compute(wanted))
    )
    assert camera["flow"]["sending"]["port"] == 5004
    assert "sending" not in motion["flow"]


# --- the filter of the listeners -----------------------------------------------------------------


def passes(program: bytes, frame: bytes) -> bool:
    """Whether a socket filter lets a frame through (linux/filter.h), run here."""
    steps = list(struct.iter_unpack("=HBBI", program))
    at = accumulator = index = 0
    while True:
        operation, if_equal, if_not, operand = steps[at]
        at += 1
        if operation == 0x06:
            return bool(operand)
        if operation == 0x28:
            (accumulator,) = struct.unpack_from("!H", frame, operand)
        elif operation == 0x48:
            (accumulator,) = struct.unpack_from("!H", frame, index + operand)
        elif operation == 0x30:
            accumulator = frame[operand]
        elif operation == 0xB1:
            index = 4 * (frame[operand] & 0xF)
        elif operation == 0x05:
            at += operand
        else:
            assert operation == 0x15
            at += if_equal if accumulator == operand else if_not


def frame(ethertype: int, packet: bytes) -> bytes:
    return bytes(12) + struct.pack("!H", ethertype) + packet + bytes(64)


def ipv4(port: int, protocol: int = 17, options: int = 0) -> bytes:
    header = bytes([0x45 + options]) + bytes(8) + bytes([protocol]) + bytes(10 + 4 * options)
    return frame(0x0800, header + struct.pack("!HHHH", 1, port, 8, 0) + b"probe")


def ipv6(port: int, protocol: int = 17) -> bytes:
    header = b"\x60" + bytes(5) + bytes([protocol]) + bytes(33)
    return frame(0x86DD, header + struct.pack("!HHHH", 1, port, 8, 0) + b"probe")


@pytest.mark.parametrize(
    ("octets", "is_probe"),
    [
        (frame(ETHERTYPE, b"probe"), True),
        (frame(0x22F0, b"probe"), True),
        (frame(0x8892, b"probe"), False),
        (ipv4(5004), True),
        (ipv4(5005, options=3), True),
        (ipv6(5004), True),
        (ipv4(5006), False),
        (ipv6(5006), False),
        (ipv4(5004, protocol=6), False),
        (ipv6(5004, protocol=58), False),
        (frame(0x0806, bytes(46)), False),
    ],
)
def test_listeners_hear_probes_and_nothing_else(octets: bytes, is_probe: bool) -> None:
    assert passes(probe_filter(Marks((5004, 5005), (0x22F0,))), octets) is is_probe
    if is_probe:
        assert octets[probe_offset(octets) :].startswith(b"probe")


def test_without_untagged_streams_no_packet_is_heard() -> None:
    assert not passes(probe_filter(Marks()), ipv4(5004))
    assert passes(probe_filter(Marks()), frame(ETHERTYPE, b""))
