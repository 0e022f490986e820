"""Control frames pile up while a frame of another class is on the link, and then go first."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest

from cnc.account import wire
from cnc.check import judge
from cnc.errors import Unschedulable
from cnc.mechanisms import terms
from cnc.model import PortRef, TalkerInterference
from cnc.planner import Budget, plan
from tests.simulator.adversary import Slow
from tests.simulator.campaign import verdict
from tests.simulator.outcome import missed
from tests.unit.planner_fuzz import SHORT_LISTS, random_intent
from tests.unit.planner_networks import (
    BEST_EFFORT,
    BLOCKING_NS,
    CONTROL,
    CYCLIC,
    LINE,
    MS,
    SLOW_BLOCKING_NS,
    intent,
    stream,
    with_links,
)

LAST = PortRef("s2", "l")
ONE_CLASS = (CONTROL, CYCLIC, BEST_EFFORT)
BURST_NS = 1_185  # a frame of 128 octets


class PilesUp(Slow):
    """Control keeps its burst for the time in which a long frame is on the link."""

    def control_ns(self, longest_ns: int) -> int:
        # Without a frame before it, it lasts a tenth longer than the burst.
        return longest_ns if longest_ns > BURST_NS * 5 // 4 else 0


def test_a_frame_waits_for_what_came_behind_a_frame_of_best_effort_and_while_that_is_sent() -> None:
    exact = replace(LINE, clock_error_ns=0)
    planned = plan(intent(exact, stream("a", "t", "l"), classes=ONE_CLASS))
    assert judge(planned) == []
    assert missed(planned, PilesUp(), duration_ns=3 * MS) == []
    bound_ns = planned.streams["a"].latency_bound_ns
    less = replace(planned.streams["a"], latency_bound_ns=bound_ns - 1)
    assert missed(replace(planned, streams={"a": less}), PilesUp(), duration_ns=3 * MS)


def test_counted_as_it_leaves_control_makes_a_frame_miss_its_window() -> None:
    """As plans counted it: the burst alone. The frame waits for a period, with one on the link."""
    with (
        mock.patch.object(terms, "_others_longest_ns", return_value=0),
        mock.patch.object(wire, "_longest_below_ns", return_value=0),
    ):
        planned = plan(intent(LINE, stream("a", "t", "l"), classes=ONE_CLASS))
        assert judge(planned) == []
    assert {each.code for each in judge(planned)} >= {"gate-window", "bound"}
    late = missed(planned, PilesUp(), duration_ns=3 * MS)
    assert max(each.latency_ns or 0 for each in late) > MS


def test_control_takes_longer_behind_longer_frames_and_on_slower_links() -> None:
    wanted = intent(LINE, classes=ONE_CLASS)
    slow = with_links(wanted, LAST, rate_bps=10**8).network.links[LAST]
    link = wanted.network.links[LAST]
    assert terms.control_ahead_ns(wanted, link) == wire.control_ns(wanted, link) == BLOCKING_NS
    assert terms.control_ahead_ns(wanted, slow) == SLOW_BLOCKING_NS
    # Behind 9042 octets, 72344 ns: (1185 + 7234) / 0.9.
    jumbo = replace(BEST_EFFORT, max_frame_octets=9022)
    longer = intent(LINE, classes=(CONTROL, CYCLIC, jumbo))
    assert terms.control_ahead_ns(longer, link) == wire.control_ns(longer, link) == 9_356


def test_a_class_that_states_no_burst_has_four_frames() -> None:
    four = intent(LINE, classes=(replace(CONTROL, burst_frames=4), CYCLIC, BEST_EFFORT))
    unstated = intent(LINE, classes=(replace(CONTROL, burst_frames=None), CYCLIC, BEST_EFFORT))
    link = four.network.links[LAST]
    assert unstated.control_burst_octets() == four.control_burst_octets() == 4 * 148
    assert wire.control_ns(unstated, link) == terms.control_ahead_ns(four, link)


def test_best_effort_of_a_talker_holds_control_up_as_well() -> None:
    ends = {
        name: replace(end, interference=TalkerInterference.ONE_FRAME)
        for name, end in LINE.end_stations.items()
    }
    frames = stream("a", "t", "l", frames=7, payload_octets=700)
    planned = plan(intent(replace(LINE, end_stations=ends), frames, classes=ONE_CLASS))
    assert judge(planned) == []
    assert missed(planned, PilesUp(), duration_ns=3 * MS) == []


def test_control_that_may_fill_a_link_is_refused() -> None:
    for rate_bps in (10**9, 2 * 10**9):
        classes = (replace(CONTROL, rate_bps=rate_bps), CYCLIC, BEST_EFFORT)
        with pytest.raises(Unschedulable, match="a: control may take all of t/s1") as refused:
            plan(intent(LINE, stream("a", "t", "l"), classes=classes))
        assert "State a smaller `rate`" in refused.value.reasons["a"]


@pytest.mark.parametrize("seed", range(7000, 7012))
def test_no_frame_is_late_whatever_bursts_and_rates_control_has(seed: int) -> None:
    """In random networks, in every other of which talkers send best effort as well."""
    drawn = random_intent(seed, entries_max=(0, 0, *SHORT_LISTS))
    control = replace(
        CONTROL,
        burst_frames=(None, 2, 4, 9)[seed % 4],
        rate_bps=(None, 3_000_000)[seed % 3 % 2],
        max_frame_octets=(128, 600)[seed % 5 % 2],
    )
    ends = {
        name: replace(end, interference=[*TalkerInterference][seed % 2])
        for name, end in drawn.network.end_stations.items()
    }
    wanted = replace(
        drawn,
        classes={**drawn.classes, control.name: control},
        network=replace(drawn.network, end_stations=ends),
    )
    planned = plan(wanted, best_effort=True, budget=Budget(ejections=100))
    assert verdict(planned, seed) == "kept"
