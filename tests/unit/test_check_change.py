"""The judge of a change says what the judge says, whatever changes, and looks at little for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from cnc.account.frames import Transmission
from cnc.account.travel import Travel
from cnc.account.violation import Violation
from cnc.check import Judgement, judge, judgement
from cnc.check.change import Judged, Named, rules
from cnc.check.paths import transmissions_of
from cnc.model import Plan, StreamPlan
from cnc.planner import Live, plan
from tests.simulator.changes import outcomes
from tests.simulator.mutations import with_stream
from tests.unit.planner_networks import MS, RING, US, intent, stream
from tests.unit.test_live_bridged import after

STREAMS = [
    stream(f"f{n}", "t", ("l", "m")[n % 2], period_ns=(1, 2)[n % 2] * MS, max_latency_ns=MS)
    for n in range(12)
]
MORE = stream("more", "t", "l")


@pytest.fixture
def running() -> Plan:
    return plan(intent(RING, *STREAMS))


@pytest.fixture
def wholly(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """The plans that are judged whole from now on."""
    judged: list[Plan] = []

    def counted(its: Plan) -> Judgement:
        judged.append(its)
        return judgement(its)

    monkeypatch.setattr("cnc.check.change.judgement", counted)
    return judged


def earlier(its: Plan, name: str) -> Plan:
    """A stream leaves its last port before it is there."""
    (path,) = its.streams[name].paths
    hops = (*path[:-1], replace(path[-1], offset_ns=path[-1].offset_ns - 10 * US))
    return with_stream(its, name, StreamPlan((hops,), its.streams[name].latency_bound_ns))


@pytest.mark.parametrize("first", range(1, 25, 4))
def test_both_judges_say_the_same_of_random_changes(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + 4):
        for kind, outcome in outcomes(seed):
            assert outcome in {"sound", "refused"}, f"walk {seed}: {kind}: {outcome}"
            counts[outcome] += 1
    assert min(counts["sound"], counts["refused"]) > 20


def test_of_streams_that_come_and_go_only_their_ports_are_looked_at(
    running: Plan, wholly: list[Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    judged, live = Judged(running), Live(running)
    wholly.clear()
    travelled: list[str] = []

    def counted(of: Plan, by: Travel) -> tuple[list[Transmission], list[Violation]]:
        travelled.extend(of.streams)
        return transmissions_of(of, by)

    monkeypatch.setattr(rules, "transmissions_of", counted)
    longer = after(running, live.add([MORE]), MORE)
    assert judged.after(longer) == []
    assert judged.after(after(longer, live.remove(["f0"]), without="f0")) == []
    assert travelled[0] == "more"
    assert len(travelled) < len(running.streams)
    assert wholly == []


def test_after_a_plan_that_is_refused_the_next_one_is_compared_with_the_sound_one(
    running: Plan, wholly: list[Plan]
) -> None:
    judged = Judged(running)
    broken = earlier(running, "f3")
    assert judged.after(broken) == judge(broken) != []
    assert judged.plan is running
    wholly.clear()
    assert judged.after(after(running, Live(running).add([MORE]), MORE)) == []
    assert wholly == []


def test_the_first_plan_may_be_unsound(running: Plan) -> None:
    broken = earlier(running, "f3")
    judged = Judged(broken)
    assert judged.violations == judge(broken) != []
    assert judged.after(broken) == judged.violations
    assert judged.after(running) == judged.violations == []


def test_streams_and_lists_that_are_named_are_looked_at_alone(running: Plan) -> None:
    judged = Judged(running)
    broken = earlier(earlier(running, "f3"), "f4")
    assert {each.where for each in judge(broken)} >= {"f3", "f4"}
    assert judged.after(broken, Named({"f5"}, ())) == []
    judged = Judged(running)
    assert judged.after(broken, Named({"f4"}, ())) == judge(broken)


def test_what_nobody_has_named_is_found_if_there_are_more_or_fewer(running: Plan) -> None:
    judged = Judged(running)
    longer = after(running, Live(running).add([MORE]), MORE)
    assert judged.after(earlier(longer, "more"), Named((), ())) != []
    assert judged.after(longer, Named((), ())) == []


def test_another_network_is_judged_whole(running: Plan, wholly: list[Plan]) -> None:
    judged = Judged(running)
    wholly.clear()
    net = replace(running.intent.network, clock_error_ns=500_000)
    other = replace(running, intent=replace(running.intent, network=net))
    assert judged.after(other) == judge(other) != []
    assert wholly == [other]


def test_with_a_mechanism_that_looks_at_all_streams_plans_are_judged_whole(
    running: Plan, wholly: list[Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cnc.check.change.are_local", lambda: False)
    judged = Judged(running)
    wholly.clear()
    longer = after(running, Live(running).add([MORE]), MORE)
    assert judged.after(longer) == []
    assert wholly == [longer]
