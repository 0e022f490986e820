"""Captures of a lab whose gates and talkers keep a plan, verified by that plan and by another.

t1, t2 ── s1 ── s2 ── s3 ── l1
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from cnc import app
from cnc.captures import reading
from cnc.captures.verdict import Captured
from cnc.model import Plan, PortRef
from cnc.testbed.lab import Lab
from cnc.testbed.traffic.capture import Capture
from cnc.testbed.traffic.flows import flows
from tests.bridged_networks import line, stream
from tests.kernel.test_lab_bridged import MS, sent_through, up

PORTS = [PortRef("s1", "t1"), PortRef("s1", "s2"), PortRef("s3", "l1")]
PERIODS = 100
FAULTS = ("early", "late", "gate_closed", "missing", "extra")


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Lab, Plan]]:
    streams = {"one": stream("t1", "l1"), "two": stream("t2", "l1"), "three": stream("t1", "l2")}
    with up(line(**streams)) as found:
        yield found


@pytest.fixture(scope="module")
def captured(running: tuple[Lab, Plan], tmp_path_factory: pytest.TempPathFactory) -> list[Captured]:
    """The frames of a hundred periods, at all ports together."""
    lab, plan = running
    file = tmp_path_factory.mktemp("captures") / "line.pcapng"
    with file.open("wb") as opened, Capture(lab.intent.name, PORTS) as capture:
        thread = Thread(target=capture.run, args=(opened,))
        thread.start()
        record, _ = sent_through(lab, plan, flows(plan), PERIODS * MS, file.parent)
        capture.stop()
        thread.join()
    # Each program sends one frame of each stream, at any time, before those that are counted.
    found = reading.frames(plan.intent.network, file)
    return [its for its in found if its.at_ns >= record.start_ns]


@pytest.mark.virtual_time
def test_every_frame_of_a_network_that_keeps_its_plan_is_as_planned(
    running: tuple[Lab, Plan], captured: list[Captured], tmp_path: Path
) -> None:
    _, plan = running
    found = app.verification(plan)
    for frame in captured:
        found.add(frame)
    verified = found.verified()
    rows = verified.streams
    assert {(row.due.stream, str(row.due.port), row.due.is_leaving) for row in rows} == {
        ("one", "s1/t1", False),
        ("three", "s1/t1", False),
        *((name, "s1/s2", True) for name in ("one", "two", "three")),
        *((name, "s3/l1", True) for name in ("one", "two")),
    }
    assert {row.frames for row in rows} == {PERIODS}
    assert [[getattr(row, key) for key in FAULTS] for row in rows] == [[0] * len(FAULTS)] * len(
        rows
    )
    assert verified.is_as_planned, verified.examples


@pytest.mark.virtual_time
def test_frames_that_come_a_quarter_of_a_period_later_are_late_at_each_port(
    running: tuple[Lab, Plan], captured: list[Captured]
) -> None:
    _, plan = running
    found = app.verification(plan)
    for frame in captured:
        found.add(frame._replace(at_ns=frame.at_ns + MS // 4))
    assert all(row.late == row.frames for row in found.verified().streams)
