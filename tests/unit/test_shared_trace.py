"""Traces of plans in which frames share windows: margins, and what a capture says of a frame."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from cnc.model import Plan
from cnc.testbed.traffic.recording import Recording
from cnc.testbed.traffic.trace import captured, circumstances
from cnc.testbed.traffic.trace.clocks import OneClock
from cnc.testbed.traffic.trace.margins import Margins
from cnc.testbed.traffic.trace.record import Trace
from tests import pcapng_reader
from tests.unit.planner_networks import US
from tests.unit.shared_windows import example
from tests.unit.traced_frames import T0, Record


@pytest.fixture(scope="module")
def line3() -> Plan:
    """On s1/s2 frames share a window of 60 µs that opens after 100 µs."""
    return example("line3", window_ns=60 * US, slot_ns=100 * US)


def test_the_margin_of_a_shared_hop_lasts_until_the_frame_must_leave_in_its_window(
    line3: Plan,
) -> None:
    record = Record(line3)
    at_s1 = T0 + 1040 + 100 + 1000  # sent on time; reception, cable and processing
    stamps = [(">t1/eth0", T0), ("s1/t1", T0 + 1140), (">s1/s2", at_s1 + 99 * US)]
    record.add("torque", 0, (T0, T0, T0), [], stamps)
    margins = Margins(line3, OneClock())
    for row in record.rows():
        margins.add(row)
    first, *_ = (each for each in margins.hops() if each.flow == "torque")
    frame_ns = 1137  # 142 octets on the slowest link of 1 Gb/s
    assert first.margin_ns == (160 * US - frame_ns) - (1040 + 100 + 1000)
    parts_ns = first.processing_ns, first.clock_ns, first.start_ns, first.turn_ns
    assert sum(parts_ns) == first.margin_ns
    assert all(part >= 0 for part in parts_ns)


def test_a_capture_says_in_which_window_a_frame_was_to_leave(line3: Plan) -> None:
    record = Record(line3)
    stamps = [(">t1/eth0", T0), ("s1/t1", T0 + 1140), (">s1/s2", T0 + 112 * US)]
    record.add("torque", 0, (T0, T0, T0), [], stamps)
    under = circumstances.of_one_kernel(line3, timed_wires=True)
    recording = Recording(T0, tuple(record.frames))
    trace, file = Trace(line3, record.sent, recording, record.taps(), under), io.BytesIO()
    captured.write(trace, file, system="Linux")
    *_, leaves = pcapng_reader.read(file.getvalue()).frames
    planned = "planned 100 to 160 µs after the start, left 12 µs later"
    assert leaves.comments == ["torque/0", planned]


def test_a_stream_without_instants_has_no_margins_nor_planned_times(line3: Plan) -> None:
    its = replace(line3.streams["torque"], interval_ns=100 * US)
    cyclic = replace(line3, streams={**line3.streams, "torque": its})
    record = Record(cyclic)
    record.add("torque", 0, (T0, T0, T0), [], [(">t1/eth0", T0), (">s1/s2", T0 + 112 * US)])
    margins = Margins(cyclic, OneClock())
    for row in record.rows():
        margins.add(row)
    assert not [each for each in margins.hops() if each.flow == "torque"]
    under = circumstances.of_one_kernel(cyclic, timed_wires=True)
    recording = Recording(T0, tuple(record.frames))
    trace, file = Trace(cyclic, record.sent, recording, record.taps(), under), io.BytesIO()
    captured.write(trace, file, system="Linux")
    assert [each.comments for each in pcapng_reader.read(file.getvalue()).frames][-1] == [
        "torque/0"
    ]
