"""Clocks of switches, known only within the time that asking for them took."""

from __future__ import annotations

import dataclasses

from cnc.clocks.offsets import odd_tai_offsets, off_beyond, offsets
from cnc.data_tree.tree import AgentReport
from cnc.model import NS_PER_S
from tests.unit.places import changed
from tests.unit.watched_switches import poll

MS = 1_000_000


def states(**ahead_ns):
    return {name: poll(name, clock_ahead_ns=ahead).state for name, ahead in ahead_ns.items()}


def test_the_middle_clock_is_the_reference_and_the_odd_one_is_found():
    found = offsets(states(s1=0, s2=-37 * NS_PER_S, s3=2 * MS), 0)
    assert {offset.reference for offset in found.values()} == {"s1"}
    assert found["s2"].estimate_ns == found["s2"].certain_ns == -37 * NS_PER_S
    assert off_beyond(found, 1_000) == {
        "s2": "its TAI clock is at least 37 s behind that of s1",
        "s3": "its TAI clock is at least 2 ms ahead of that of s1",
    }


def test_an_answer_that_took_long_proves_nothing():
    asked = states(s1=0, s2=5 * MS)
    asked["s2"] = dataclasses.replace(asked["s2"], answered_ns=10 * MS)
    found = offsets(asked, 10 * MS)
    assert found["s2"].certain_ns == 0
    assert off_beyond(found, 0) == {}


def test_a_clock_may_be_off_by_the_clock_error_and_what_reading_it_costs():
    assert off_beyond(offsets(states(s1=0, s2=MS + 500), 0), 500) == {}
    assert set(off_beyond(offsets(states(s1=0, s2=MS + 501), 0), 500)) == {"s2"}


def test_an_old_reading_proves_less_as_clocks_run_apart():
    found = offsets(states(s1=0, s2=2 * MS), 100 * NS_PER_S)
    assert off_beyond(found, 0) == {}


def test_a_switch_without_a_clock_is_left_out():
    asked = states(s1=0, s2=0)
    asked["s2"] = dataclasses.replace(asked["s2"], ports={})
    assert set(offsets(asked, 0)) == {"s1"}
    assert offsets({}, 0) == {}


def test_a_port_whose_list_runs_on_another_clock_does_not_put_its_switch_off():
    def since_boot(reports):
        other = changed(reports["s3"], clock="monotonic", current_time_ns=10**12)
        return {**reports, "s3": other}

    asked = {**states(s1=0, s3=0), "s2": poll("s2", ports=since_boot).state}
    assert off_beyond(offsets(asked, 0), 0) == {}


def test_of_two_tai_offsets_the_one_nobody_set_is_odd():
    asked = {
        "s1": poll("s1", agent=AgentReport(0, 0)).state,
        "s2": poll("s2", agent=AgentReport(37, 0)).state,
    }
    assert set(odd_tai_offsets(asked)) == {"s1"}


def test_the_same_offset_everywhere_is_nobodys_trouble():
    asked = {name: poll(name, agent=AgentReport(0, 0)).state for name in ("s1", "s2")}
    assert odd_tai_offsets(asked) == {}
