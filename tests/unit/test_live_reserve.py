"""The reserve of a class: room in shared windows for streams that come later."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cnc.check import judge
from cnc.errors import Unschedulable
from cnc.model import ClassRole, Intent, Stream, Windows
from cnc.planner import Live, plan
from tests.unit.planner_networks import MS, US, intent, network, stream

PART_PPB = 10**7  # a hundredth


def sent_by(device: int, listener: str = "m") -> Stream:
    return stream(
        f"f{device}",
        f"d{device}",
        listener,
        windows=Windows.SHARED,
        period_ns=MS,
        max_latency_ns=2 * MS,
    )


def late_gates(cables: list[str], first: Stream, reserve: int, recovery_ns: int | None) -> Intent:
    """A network whose gates open up to 50 µs late, with so many hundredths of reserve."""
    late = replace(network(*cables), gate_margin_ns=50 * US, disturbance_ns=recovery_ns)
    wanted = intent(late, first)
    reserved = {
        name: replace(its, reserve_ppb=reserve * PART_PPB)
        for name, its in wanted.classes.items()
        if its.role is ClassRole.SCHEDULED
    }
    return replace(wanted, classes={**wanted.classes, **reserved})


def joined(live: Live, count: int) -> int:
    """How many of as many devices have a stream, until one is refused."""
    for device in range(1, count):
        try:
            live.add([sent_by(device)])
        except Unschedulable:
            return device
    return count


@pytest.mark.parametrize("recovery_ns", [None, 100 * US])
def test_streams_join_one_after_another_where_a_class_has_a_reserve(
    recovery_ns: int | None,
) -> None:
    """And the first of them keeps what was announced to it."""
    cables = [*(f"d{device}-s1" for device in range(40)), "s1-m"]
    with_reserve = plan(late_gates(cables, sent_by(0), 10, recovery_ns))
    live = Live(with_reserve, recovery_step_ns=MS)
    assert joined(live, 40) == 40
    assert judge(live.plan) == []
    assert live.plan.streams["f0"] == with_reserve.streams["f0"]
    without = Live(plan(late_gates(cables, sent_by(0), 0, recovery_ns)), recovery_step_ns=MS)
    assert joined(without, 40) < 20


def test_windows_that_are_opened_for_a_stream_have_the_reserve_too() -> None:
    """The first stream goes to another listener, by a port that the others do not cross."""
    cables = [*(f"d{device}-s1" for device in range(40)), "s1-s2", "s2-s3", "s3-s4"]
    cables += ["s4-m", "s4-x"]
    live = Live(plan(late_gates(cables, sent_by(0, "x"), 20, None)))
    assert joined(live, 40) == 40
    assert judge(live.plan) == []


def test_a_bound_counts_the_reserve_once_and_not_at_each_switch() -> None:
    cables = ["d0-s1", "s1-s2", "s2-s3", "s3-s4", "s4-m"]

    def bound_ns(reserve: int) -> int:
        return plan(late_gates(cables, sent_by(0), reserve, None)).streams["f0"].latency_bound_ns

    more_ns = bound_ns(20) - bound_ns(0)
    assert 200 * US < more_ns < 2 * 200 * US


def test_the_reserve_leaves_less_room_for_the_streams_of_the_plan() -> None:
    cables = [*(f"d{device}-s1" for device in range(300)), "s1-m"]
    streams = [sent_by(device) for device in range(300)]

    def places(reserve: int) -> int:
        wanted = late_gates(cables, streams[0], reserve, None)
        every = replace(wanted, streams={its.name: its for its in streams})
        return len(plan(every, best_effort=True).streams)

    assert places(0) == 300
    assert 0 < places(60) < 250
