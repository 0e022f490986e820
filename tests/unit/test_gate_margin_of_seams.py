"""A gate margin keeps the link free between best effort and a window, and between two classes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cnc.check import judge
from cnc.model import Intent, Plan, PortRef
from cnc.planner import Live, plan
from cnc.planner.problem import Problem
from tests.simulator.adversary import Chance
from tests.simulator.outcome import misses
from tests.unit.planner_fuzz import SHORT_LISTS, first_faults, kept_plan, live_plans
from tests.unit.planner_networks import (
    BEST_EFFORT,
    CYCLIC,
    LINE,
    MS,
    OUTLASTS_NS,
    SLOWER,
    US,
    intent,
    network,
    stream,
    with_full_offload,
    with_links,
    with_streams,
)

MARGIN_NS = 800
FRAME_NS = 1137
BETWEEN = PortRef("s1", "s2")


def with_margin(wanted: Intent, margin_ns: int) -> Intent:
    return replace(wanted, network=replace(wanted.network, gate_margin_ns=margin_ns))


def at(start_ns: int, *, play_ns: int = 0) -> dict[str, int]:
    return {"earliest_ns": start_ns, "latest_ns": start_ns + play_ns}


def behind_each_other() -> Intent:
    """Frames of one class, another and the first again; the last may come a whole processing time
    early, before the first has left, and no gate holds it back: the lists are too short."""
    net = network("t-s1", "u-s1", "s1-s2", "s2-l", processing_ns=(0, 40 * US))
    wanted = intent(
        with_full_offload(net),
        stream("first", "t", "l", **at(0)),
        stream(
            "other",
            "u",
            "l",
            traffic_classes=("slower",),
            **at(FRAME_NS + MARGIN_NS, play_ns=10 * US),
        ),
        stream("early", "t", "l", **at(42_500, play_ns=10 * US)),
        classes=(CYCLIC, SLOWER, BEST_EFFORT),
    )
    return with_margin(with_links(wanted, gate_entries_max=6), MARGIN_NS)


def offset_ns(planned: Plan, name: str) -> int:
    return next(hop.offset_ns for hop in planned.streams[name].hops if hop.egress == BETWEEN)


def test_another_class_waits_until_a_frame_that_was_early_has_surely_left() -> None:
    planned = plan(behind_each_other())
    assert judge(planned) == []
    behind = offset_ns(planned, "other") - offset_ns(planned, "first")
    assert behind == FRAME_NS + MARGIN_NS + OUTLASTS_NS + MARGIN_NS


def test_the_judge_refuses_a_seam_without_the_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Problem, "_seam_ns", lambda *_: 0)
    planned = plan(behind_each_other())
    behind = offset_ns(planned, "other") - offset_ns(planned, "first")
    assert behind == FRAME_NS + MARGIN_NS + OUTLASTS_NS
    assert ("gate-seam", str(BETWEEN)) in {(each.code, each.where) for each in judge(planned)}


def test_without_a_margin_nothing_is_kept_free_between_classes() -> None:
    planned = plan(with_margin(behind_each_other(), 0))
    assert judge(planned) == []
    assert offset_ns(planned, "other") - offset_ns(planned, "first") == FRAME_NS + MARGIN_NS


def test_a_gate_that_holds_every_frame_back_needs_nothing_free_after_its_window() -> None:
    wanted = with_links(behind_each_other(), gate_entries_max=0)
    planned = plan(with_streams(wanted, wanted.streams["first"], wanted.streams["other"]))
    behind = offset_ns(planned, "other") - offset_ns(planned, "first")
    assert behind == FRAME_NS + MARGIN_NS + OUTLASTS_NS
    assert judge(planned) == []


@pytest.mark.parametrize("seed", [706, 1077, 1903, 2141])
def test_streams_that_are_kept_without_a_seam_stay_where_gates_hold_frames_back(seed: int) -> None:
    """Their port must not get a shorter list, which another stream would have it have."""
    assert first_faults(kept_plan(seed, SHORT_LISTS)) == []


def test_a_live_plan_shuts_gates_before_seams() -> None:
    wanted = behind_each_other()
    live = Live(plan(wanted))
    live.remove(["other"])
    changes = live.add([wanted.streams["other"]])
    assert changes.gates[BETWEEN] == plan(wanted).gates[BETWEEN]


def test_what_a_live_plan_leaves_between_a_window_and_the_end_of_the_cycle_is_an_entry() -> None:
    assert first_faults(live_plans(1843, SHORT_LISTS)) == []


def test_best_effort_is_shut_the_margin_earlier() -> None:
    wanted = intent(LINE, stream("a", "t", "l", earliest_ns=100 * US))
    least, more = plan(wanted), plan(with_margin(wanted, MARGIN_NS))
    guards = [planned.gates[BETWEEN].entries[1].interval_ns for planned in (least, more)]
    assert guards == [(1522 + 20) * 8 + 2, (1522 + 20) * 8 + 2 + MARGIN_NS]
    assert judge(more) == []


@pytest.mark.parametrize("seed", range(3))
def test_frames_keep_their_bound_beside_best_effort_that_starts_late(seed: int) -> None:
    planned = plan(behind_each_other())
    assert misses(planned, Chance(seed), duration_ns=50 * MS) == []
