"""Talkers that send AVTP and PROFINET to one address of a station, told apart by their PCP alone.

t1, t2 ── s1 ── s2 ── s3 ── l1
"""

from __future__ import annotations

import io
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from cnc import intent as intents
from cnc.mechanisms.stream_filters.model import CountedFrames, FilteredStream
from cnc.model import NS_PER_S, Plan, PortRef
from cnc.rollout import status
from cnc.switch.device import Device, Managed
from cnc.testbed.lab import Lab
from cnc.testbed.traffic.capture import Capture
from cnc.testbed.traffic.flows import flows
from cnc.testbed.traffic.probe_filter import ETHERTYPE
from tests import pcapng_reader
from tests.bridged_networks import line, stream
from tests.kernel.test_lab_bridged import FAST, MS, SLOW, sent_through, up
from tests.unit.asked import desired_ports

MAC, ONE_TALKER, TWO_TALKERS = "02:00:5e:10:00:01", 100, 101  # VLANs
AVTP, PROFINET = 0x22F0, 0x8892
SLOWER = {"class": "slow", "pcp": SLOW}
DURATION_NS = NS_PER_S // 2


def sent_to(vlan_id: int, talker: str, **keys: object) -> dict[str, object]:
    """A stream to the one address in a VLAN."""
    return stream(talker, "l1", **{"destination-mac": MAC, "vlan": vlan_id, "pcp": FAST, **keys})


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Lab, Plan]]:
    """The payload of two is too short for an IP packet."""
    document = line(
        sound=sent_to(ONE_TALKER, "t1", ethertype=AVTP, octets=24),
        picture=sent_to(ONE_TALKER, "t1", ethertype=AVTP, octets=1400, **SLOWER),
        inputs=sent_to(TWO_TALKERS, "t2", ethertype=PROFINET, octets=4),
        files=sent_to(TWO_TALKERS, "t1", octets=700, **SLOWER),
    ).document
    with up(intents.from_document({**document, "policing": "drop"}, "shared")) as found:
        yield found


@pytest.mark.virtual_time
def test_each_frame_arrives_in_the_bound_of_its_own_stream(
    running: tuple[Lab, Plan], tmp_path: Path
) -> None:
    lab, plan = running
    record, found = sent_through(lab, plan, flows(plan), DURATION_NS, tmp_path)
    assert [text for each in found for text in each.violations()] == []
    assert {frame.copies for frame in record} == {1}
    assert record.strays == ()
    assert all(port.agrees for port in status(plan, connect=lab.connect))
    desired = desired_ports(plan, "s1")
    with Device(Managed.of(plan.intent.network.bridges["s1"], desired), lab.connect) as device:
        report = device.state(["br0"]).bridge("br0")
    assert report
    counted = {
        (its.of.vlan_id, its.of.port, its.priority): counts
        for its, counts in report.counts[CountedFrames].by_filter.items()
        if isinstance(its.of, FilteredStream)
    }
    assert counted.keys() == {
        (ONE_TALKER, "t1", FAST),
        (ONE_TALKER, "t1", SLOW),
        (TWO_TALKERS, "t2", FAST),
        (TWO_TALKERS, "t1", SLOW),
    }
    # Each program sends one frame of each stream, at any time, before those that are counted.
    assert {its.matching for its in counted.values()} == {DURATION_NS // MS + 1}
    assert all(sum(its.refused.values()) <= 1 for its in counted.values())


@pytest.mark.virtual_time
def test_frames_carry_between_switches_what_is_stated_of_their_stream(
    running: tuple[Lab, Plan], tmp_path: Path
) -> None:
    lab, plan = running
    written = io.BytesIO()
    with Capture(lab.intent.name, [PortRef("s1", "s2")]) as capture:
        thread = Thread(target=capture.run, args=(written,))
        thread.start()
        sent_through(lab, plan, flows(plan), 100 * MS, tmp_path)
        capture.stop()
        thread.join()
    seen: Counter[tuple[int, int, int]] = Counter()
    for frame in pcapng_reader.read(written.getvalue()).frames:
        tagged, control, ethertype = struct.unpack_from("!HHH", frame.octets, 12)
        if frame.is_leaving and tagged == 0x8100:
            seen[control & 0xFFF, control >> 13, ethertype] += 1
    assert seen.keys() == {
        (ONE_TALKER, FAST, AVTP),
        (ONE_TALKER, SLOW, AVTP),
        (TWO_TALKERS, FAST, PROFINET),
        (TWO_TALKERS, SLOW, ETHERTYPE),
    }
    # One more of each stream is sent before, at any time, which the filter may refuse.
    assert {count - 100 for count in seen.values()} <= {0, 1}
