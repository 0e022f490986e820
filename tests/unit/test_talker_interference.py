"""No switch gates a talker's port: best effort of the talker itself may be ahead of its streams."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from cnc import intent as intents
from cnc.check import judge
from cnc.errors import InputError, Unschedulable
from cnc.model import EndStation, Intent, Plan, TalkerInterference
from cnc.planner import moves, plan
from tests.simulator.outcome import is_kept
from tests.unit.planner_networks import (
    BEST_EFFORT,
    BLOCKING_NS,
    BUSY_NS,
    CYCLIC,
    LINE,
    MS,
    intent,
    network,
    stream,
)

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
BEST_EFFORT_NS = (BEST_EFFORT.max_frame_octets + 20) * 8 + 2
NONE, ONE_FRAME = TalkerInterference.NONE, TalkerInterference.ONE_FRAME


def with_interference(wanted: Intent, kind: TalkerInterference) -> Intent:
    stations = {name: EndStation(name, interference=kind) for name in wanted.network.end_stations}
    return replace(wanted, network=replace(wanted.network, end_stations=stations))


def planned(kind: TalkerInterference) -> Plan:
    streams = [stream(name, "t", "l") for name in ("a", "b", "c")]
    return plan(with_interference(intent(LINE, *streams), kind))


@pytest.fixture
def document() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(LINE3.read_text())
    return loaded


def interference_of(document: dict[str, Any]) -> dict[str, TalkerInterference]:
    stations = intents.from_document(document, "changed").network.end_stations
    return {name: station.interference for name, station in stations.items()}


def test_a_talker_of_which_nothing_is_said_sends_best_effort(document: dict[str, Any]) -> None:
    del document["defaults"]["talker-interference"]
    assert set(interference_of(document).values()) == {ONE_FRAME}


def test_what_a_station_says_itself_wins_over_the_defaults(document: dict[str, Any]) -> None:
    document["end-stations"] = {
        "t1": {"talker-interference": "one-frame"},
        "t2": {},
        "l1": {},
        "l2": {},
    }
    assert interference_of(document) == {"t1": ONE_FRAME, "t2": NONE, "l1": NONE, "l2": NONE}


def test_another_word_for_it_is_refused(document: dict[str, Any]) -> None:
    document["defaults"]["talker-interference"] = "two-frames"
    with pytest.raises(InputError, match="expected one of one-frame, none"):
        interference_of(document)


def test_the_bound_grows_by_one_frame_of_best_effort_at_the_talker_only() -> None:
    least, more = planned(NONE), planned(ONE_FRAME)
    for name, its in least.streams.items():
        assert more.streams[name].latency_bound_ns == its.latency_bound_ns + BEST_EFFORT_NS
    assert judge(more) == []


def test_streams_of_one_talker_leave_each_other_time_for_it() -> None:
    starts = sorted(its.talker_offsets_ns[0] for its in planned(ONE_FRAME).streams.values())
    busy = BUSY_NS + BLOCKING_NS + BEST_EFFORT_NS
    assert all(after - before >= busy for before, after in pairwise(starts))


def test_the_judge_refuses_a_plan_that_has_no_time_for_it() -> None:
    least = planned(NONE)
    found = judge(replace(least, intent=with_interference(least.intent, ONE_FRAME)))
    assert {"precedence", "bound", "overlap"} <= {violation.code for violation in found}


def test_frames_keep_their_bound_beside_best_effort_of_their_talker() -> None:
    more, least = planned(ONE_FRAME), planned(NONE)
    surprised = replace(least, intent=more.intent)
    seeds = range(3)
    assert is_kept(more, seeds, duration_ns=30 * MS)
    assert not is_kept(surprised, seeds, duration_ns=30 * MS)


def test_a_refusal_says_how_much_of_the_least_latency_it_is() -> None:
    wanted = with_interference(intent(LINE, stream("a", "t", "l", max_latency_ns=1000)), ONE_FRAME)
    with pytest.raises(Unschedulable) as refused:
        plan(wanted)
    assert (
        "best effort of the talker itself 12.338 µs, control frames in the way 8.064 µs"
        in (refused.value.reasons["a"])
    )


def test_streams_of_a_talker_that_begins_to_send_best_effort_are_planned_anew() -> None:
    net = network("t-s1", "u-s1", "s1-l")
    running = plan(intent(net, stream("a", "t", "l"), stream("b", "u", "l")))
    stations = {**net.end_stations, "t": EndStation("t", interference=ONE_FRAME)}
    wanted = replace(running.intent, network=replace(net, end_stations=stations))
    changed = plan(wanted, keep=running)
    assert judge(changed) == []
    assert changed.streams["a"].latency_bound_ns > running.streams["a"].latency_bound_ns
    assert changed.streams["b"] == running.streams["b"]
    assert [move.reason for move in moves(running, changed)] == ["t/s1 changed"]


def test_streams_of_a_talker_whose_best_effort_grows_are_planned_anew() -> None:
    small = replace(BEST_EFFORT, max_frame_octets=64)
    net = network("t-s1", "s1-l")
    interfering = intent(net, stream("a", "t", "l"), classes=(CYCLIC, small))
    running = plan(with_interference(interfering, ONE_FRAME))
    classes = {**running.intent.classes, BEST_EFFORT.name: BEST_EFFORT}
    changed = plan(replace(running.intent, classes=classes), keep=running)
    assert judge(changed) == []
    assert [move.reason for move in moves(running, changed)] == ["t/s1 changed"]
