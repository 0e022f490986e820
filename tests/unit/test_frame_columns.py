"""Frames in columns are those that were put in, in the order of the plan."""

from __future__ import annotations

import pytest

from cnc.testbed.traffic.frames import Deliveries, Delivery, Frame, FrameColumns

T0 = 1_800_000_000_000_000_000
SENT = [
    ("torque", 0, T0 + 500, T0 + 756, T0 + 1_012, T0 + 1_100),
    ("motion", 1, T0 + 500, T0 + 600, None, None),
    ("motion", 0, T0, T0 + 256, T0 + 512, T0 + 600),
    ("torque", 1, T0 + 500, T0 + 70_000, T0 + 80_000, T0 + 90_000),
    ("valves", 0, T0 + 400, T0 + 300, T0 + 500, T0 + 600),  # its talker was early
]


def columns_of(sent: list[tuple]) -> FrameColumns:
    motion, torque = Deliveries(), Deliveries()
    motion.add(0, Delivery(T0 + 30_000, T0 + 30_256))
    torque.add(1, Delivery(T0 + 95_000, T0 + 95_512))
    torque.add(0, Delivery(T0 + 28_000, T0 + 30_000))
    torque.add(0, Delivery(T0 + 27_000, T0 + 27_256))
    columns = FrameColumns({"motion": motion, "torque": torque})
    for each in sent:
        flow, *stamps = each
        columns.append(flow, stamps)
    return columns


@pytest.mark.parametrize("sent", [SENT, SENT[::-1]])
def test_frames_come_in_the_order_of_planned_instant_flow_and_number(sent: list[tuple]):
    columns = columns_of(sent)
    columns.sort()
    order = [(frame.flow, frame.seq) for frame in columns]
    assert order == [("motion", 0), ("valves", 0), ("motion", 1), ("torque", 0), ("torque", 1)]
    assert [columns[index] for index in range(len(columns))] == list(columns)
    assert columns[1:3] == tuple(columns)[1:3]
    assert columns[-1] == list(columns)[-1]


def test_a_frame_has_its_stamps_and_copies_in_the_order_in_which_they_came():
    first, second = Delivery(T0 + 27_000, T0 + 27_256), Delivery(T0 + 28_000, T0 + 30_000)
    assert list(columns_of(SENT[:1])) == [
        Frame(
            *("torque", 0, T0 + 500, T0 + 756, T0 + 27_000, T0 + 1_012, T0 + 1_100, 2),
            (first, second),
        )
    ]


def test_what_is_absent_stays_absent():
    (frame,) = columns_of(SENT[1:2])
    assert frame == Frame("motion", 1, T0 + 500, T0 + 600, None, None, None, 0)


def test_a_frame_of_a_flow_that_never_came_is_lost():
    (frame,) = columns_of(SENT[4:])
    assert (frame.received_ns, frame.copies, frame.deliveries) == (None, 0, ())
