"""How far clocks that follow one another are apart at most."""

from __future__ import annotations

import pytest

from cnc.clocks.findings import examine_clocks
from cnc.clocks.synchronization_tree import ClockTree
from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import AgentReport, ClockReport, ClockSource, PtpReport
from cnc.model import ClocksApart
from cnc.rollout.preflight import Check, Verdict

CLOCK_ERROR_NS = 1_000


def state(name, parent=None, offset_ns=0, *, is_managed=True):
    """A switch whose clock has its name, and is a grandmaster without a parent."""
    ptp = PtpReport(
        "gm",
        is_grandmaster=parent is None,
        offset_from_master_ns=-offset_ns if parent else None,
        port_states=("master",) if parent is None else ("slave", "master"),
        identity=name,
        parent=parent or name,
    )
    clock = ClockReport(ClockSource.MANAGED, 0, offset_ns, 10) if is_managed else None
    return SwitchState(AgentReport(37, 100, ptp=ptp, clock=clock), {}, 0, 0)


def line(*offsets_ns, is_managed=True):
    """Switches that follow one another, the first one the grandmaster."""
    states = {"s1": state("s1", is_managed=is_managed)}
    for number, offset_ns in enumerate(offsets_ns, start=2):
        states[f"s{number}"] = state(
            f"s{number}", f"s{number - 1}", offset_ns, is_managed=is_managed
        )
    return states


def widest(states, among=None):
    return ClockTree(states).widest(among)


def test_offsets_along_a_line_add_up():
    assert widest(line(300, 200, 400)) == ClocksApart("s1", "s4", 900, 3)


def test_two_branches_meet_at_the_clock_that_both_follow():
    states = line(100)
    states |= {"a": state("a", "s2", 300), "b": state("b", "s2", 200), "c": state("c", "a", 50)}

    assert widest(states) == ClocksApart("b", "c", 550, 3)


def test_a_clock_that_is_no_switch_joins_those_that_follow_it():
    states = {"s1": state("s1", "station", 300), "s2": state("s2", "station", 400)}

    assert widest(states) == ClocksApart("s1", "s2", 700, 2)


def test_the_offset_of_this_moment_counts_where_the_agent_keeps_no_other():
    assert widest(line(300, 200, is_managed=False)) == ClocksApart("s1", "s3", 500, 2)


@pytest.mark.parametrize(
    "states",
    [
        {},
        line(),
        {"s1": state("s1"), "s2": state("s2")},  # two grandmasters
        {"s1": state("s1", "elsewhere", 5), "s2": state("s2", "nowhere", 5)},
    ],
)
def test_clocks_that_follow_no_common_one_are_not_compared(states):
    assert widest(states) is None


def test_of_some_switches_the_clocks_between_them_count_as_well():
    states = line(300, 200, 400)

    assert widest(states, {"s2", "s4"}) == ClocksApart("s2", "s4", 600, 2)
    assert widest(states, {"s3"}) is None


def test_clocks_that_follow_each_other_in_a_circle_end_the_search():
    states = {"s1": state("s1", "s2", 1), "s2": state("s2", "s3", 1), "s3": state("s3", "s1", 1)}

    assert widest(states) is not None


def refusals(states):
    found = examine_clocks(states, CLOCK_ERROR_NS)
    return [each for each in found if each.check is Check.PTP and each.verdict is Verdict.FAILED]


def test_a_line_of_clocks_that_are_each_close_enough_is_refused_where_its_ends_are_not():
    assert refusals(line(400, 400)) == []
    (finding,) = refusals(line(400, 400, 400))

    assert finding.switch == "s4"
    assert finding.text == (
        "up to 1.2 µs from s1, by the offsets of 3 clocks on the way, added; the plan allows 1 µs"
    )
    assert "clock-error" in finding.hint


def test_of_a_clock_that_is_too_far_from_the_one_that_it_follows_that_alone_is_told():
    (finding,) = refusals(line(400, 1_200))

    assert finding.switch == "s3"
    assert "the plan allows 1 µs" in finding.text
    assert "added" not in finding.text
