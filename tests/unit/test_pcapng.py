"""Captures as files: what is written is what a reader of the format finds."""

from __future__ import annotations

import io
from ipaddress import ip_address

from cnc.captures.pcapng import CaptureFile, Direction
from tests import pcapng_reader


def test_a_frame_is_read_back_with_its_nanosecond_its_port_and_its_direction():
    file = io.BytesIO()
    capture = CaptureFile(file, application="cnc", system="Linux", comment="lab line3")
    ports = [capture.add_interface(name, "", mac="02:00:00:00:00:01") for name in ("s1/a", "s1/b")]
    for length in range(14, 19):  # whatever is left to align
        capture.add_frame(ports[1], 1_893_456_008_118_000_001, bytes(length), Direction.OUTBOUND)
    capture.add_frame(ports[0], 5, b"arrives", Direction.INBOUND, ["motion 17", "late"])
    found = pcapng_reader.read(file.getvalue())
    assert found.comment == "lab line3"
    assert found.ports == ["s1/a", "s1/b"]
    assert [len(frame.octets) for frame in found.frames] == [14, 15, 16, 17, 18, 7]
    assert [frame.length for frame in found.frames] == [14, 15, 16, 17, 18, 7]
    first, last = found.frames[0], found.frames[-1]
    assert (first.port, first.time_ns, first.is_leaving, first.comments) == (
        "s1/b",
        1_893_456_008_118_000_001,
        True,
        [],
    )
    assert (last.port, last.is_leaving, last.comments) == ("s1/a", False, ["motion 17", "late"])


def test_addresses_of_each_kind_have_names_and_ports_their_lost_frames():
    file = io.BytesIO()
    capture = CaptureFile(file, application="cnc", system="Linux", comment="")
    port = capture.add_interface("s1/a", "", mac="02:00:00:00:00:01")
    names = {
        ip_address("10.128.0.1"): "t1",
        ip_address("fd00::1"): "t1",
        "02:00:00:00:00:01": "s1/a",
    }
    capture.add_names(names)
    capture.add_statistics(port, received=9, dropped=4)
    found = pcapng_reader.read(file.getvalue())
    assert found.names == {str(address): name for address, name in names.items()}
    assert found.dropped == {"s1/a": 4}
