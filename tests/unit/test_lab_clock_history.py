from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from cnc import intent as intents
from cnc.testbed.experiments.clock_pictures import clock_picture, thinned
from cnc.testbed.json_output.clocks import LabClocks
from cnc.testbed.lab.kernels.clock_history import ClockHistory, RoleSpan
from cnc.testbed.lab.kernels.offsets import Offset, TrueOffsets
from cnc.testbed.lab.kernels.ptp_log import Change, Role, changes

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
FIRST, SECOND = "020000.fffe.020001", "020000.fffe.030002"
# A switch that finds another clock, and loses it when that one's ptp4l ends.
LOG = f"""
INFO tsn-clock: ready
INFO daemon: instance 0: ptp4l[1.429]: port 1: INITIALIZING to LISTENING on INIT_COMPLETE
INFO daemon: instance 0: ptp4l[1.429]: port 2: INITIALIZING to LISTENING on INIT_COMPLETE
INFO daemon: instance 0: ptp4l[1.429]: port 0: INITIALIZING to LISTENING on INIT_COMPLETE
INFO daemon: instance 0: ptp4l[4.641]: port 1: LISTENING to MASTER on ANNOUNCE_RECEIPT_TIMEOUT
INFO daemon: instance 0: ptp4l[4.641]: selected local clock {SECOND} as best master
INFO daemon: instance 0: ptp4l[4.641]: port 1: assuming the grand master role
INFO daemon: instance 0: ptp4l[6.871]: selected best master clock {FIRST}
INFO daemon: instance 0: ptp4l[6.871]: port 1: MASTER to UNCALIBRATED on RS_SLAVE
INFO daemon: instance 0: ptp4l[7.745]: port 1: UNCALIBRATED to SLAVE on MASTER_CLOCK_SELECTED
INFO daemon: instance 0: ptp4l[9.800]: port 1: SLAVE to MASTER on ANNOUNCE_RECEIPT_TIMEOUT_EXPIRES
INFO daemon: instance 0: ptp4l[9.800]: selected local clock {SECOND} as best master
""".splitlines()


def at(time_ms: int, role: Role, followed: str | None = None) -> Change:
    return Change(time_ms * 1_000_000, role, followed)


def test_a_log_tells_what_a_clock_was_and_whom_it_followed():
    assert [*changes(LOG)] == [
        at(1_429, Role.STARTING),
        at(4_641, Role.GRANDMASTER),
        at(6_871, Role.UNCALIBRATED, FIRST),
        at(7_745, Role.FOLLOWS, FIRST),
        at(9_800, Role.GRANDMASTER),
    ]


def test_a_better_clock_elsewhere_makes_no_follower_of_a_grandmaster():
    """ptp4l names the best of the others even where its own clock is better."""
    log = [*LOG[:8], f"ptp4l[5.0]: selected best master clock {FIRST}"]
    assert [*changes(log)][-1] == at(4_641, Role.GRANDMASTER)


def test_the_log_of_linuxptp_4_names_interfaces():
    log = ["ptp4l[0.004]: port 1 (eth0): INITIALIZING to LISTENING on INIT_COMPLETE"]
    assert [*changes(log)] == [at(4, Role.STARTING)]


def test_another_instance_and_a_local_socket_say_nothing_of_the_clock():
    log = [
        "instance 1: ptp4l[1.429]: port 1: UNCALIBRATED to SLAVE on MASTER_CLOCK_SELECTED",
        "instance 0: ptp4l[1.429]: port 0: INITIALIZING to LISTENING on INIT_COMPLETE",
    ]
    assert [*changes(log)] == []


def test_a_clock_all_of_whose_ports_are_down_is_faulty():
    log = [
        "ptp4l[1.000]: port 1: LISTENING to FAULTY on FAULT_DETECTED (FT_UNSPECIFIED)",
        "ptp4l[2.000]: port 1: FAULTY to LISTENING on INIT_COMPLETE",
    ]
    assert [*changes(log)] == [at(1_000, Role.FAULTY), at(2_000, Role.STARTING)]


def history(**distances_ns: list[int]) -> ClockHistory:
    """A record each second from the beginning of a lab of line3 on."""
    intent = intents.load(LINE3)
    recorded = [
        Offset(second * 1_000_000_000, node, its[second], 37)
        for second in range(len(next(iter(distances_ns.values()))))
        for node, its in distances_ns.items()
    ]
    roles = {
        "s1": [RoleSpan(0, Role.GRANDMASTER, None)],
        "s2": [RoleSpan(0, Role.STARTING, None), RoleSpan(2_000_000_000, Role.FOLLOWS, "s1")],
        "s3": [],
    }
    return ClockHistory(intent, Path("offsets.csv"), TrueOffsets(recorded), roles)


def test_a_clock_is_told_from_that_of_the_first_switch_over_the_last_ten_seconds():
    s2 = [9_000, *range(60, 72)]
    its = history(s1=[100] * 13, s2=s2, s3=[-7] * 13)
    first, second, third = its.nodes()
    assert (first.role, first.ahead_ns) == (Role.GRANDMASTER, 0)
    assert (second.role, second.grandmaster) == (Role.FOLLOWS, "s1")
    assert second.since_ns == 2_000_000_000
    assert (second.ahead_ns, second.least_ns, second.greatest_ns) == (-29, -39, -29)
    assert (third.role, third.since_ns, third.ahead_ns) == (None, None, -107)
    document: Any = LabClocks.of(its).model_dump()
    assert document["reference"] == "s1"
    assert [each["role"] for each in document["clocks"][1]["roles"]] == ["starting", "follows"]


def test_a_picture_of_a_long_time_keeps_what_was_furthest_off():
    distances = [(time_ns, -5_000 if time_ns == 7_777 else 1) for time_ns in range(20_000)]
    shown = [*thinned(distances)]
    assert len(shown) <= 1_000
    assert (7_777, -5_000) in shown
    assert all(before < after for (before, _), (after, _) in pairwise(shown))


def test_a_picture_has_a_curve_for_each_clock_and_a_band_for_each_role():
    figure = Figure()
    its = history(s1=[0, 0, 0, 0], s2=[9_000, 500, 60, 61], s3=[1, 2, 3, 4])
    clock_picture(its).draw(figure)
    above, below = figure.axes
    assert [line.get_label() for line in above.lines] == ["s2", "s3"]
    assert [label.get_text() for label in below.get_yticklabels()] == ["s1", "s2", "s3"]
    assert [text.get_text().strip() for text in below.texts if text.get_text().strip()] == ["s1"]
    legend = below.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "starting",
        "follows",
        "grandmaster",
    ]
