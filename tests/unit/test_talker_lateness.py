"""A talker may be late for reasons of its own: as late as its station says, else as gates are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from cnc import intent as intents
from cnc.check import judge
from cnc.errors import Unschedulable
from cnc.model import EndStation, Intent, Plan
from cnc.planner import moves, plan
from cnc.planner.margin_cost import cost_ns
from tests.simulator.outcome import is_kept
from tests.unit.planner_networks import LINE, MS, US, intent, network, stream

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
MARGIN_NS = 5 * US


def with_lateness(wanted: Intent, lateness_ns: int | None) -> Intent:
    """The intent with a gate margin, and talkers that are so late."""
    stations = {
        name: EndStation(name, lateness_ns=lateness_ns) for name in wanted.network.end_stations
    }
    net = replace(wanted.network, end_stations=stations, gate_margin_ns=MARGIN_NS)
    return replace(wanted, network=net)


def planned(lateness_ns: int | None) -> Plan:
    streams = [stream(name, "t", "l") for name in ("a", "b", "c")]
    return plan(with_lateness(intent(LINE, *streams), lateness_ns))


def lateness_of(document: dict[str, Any]) -> dict[str, int | None]:
    stations = intents.from_document(document, "changed").network.end_stations
    return {name: station.lateness_ns for name, station in stations.items()}


@pytest.fixture
def document() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(LINE3.read_text())
    return loaded


def test_a_talker_of_which_nothing_is_said_is_as_late_as_gates() -> None:
    assert planned(None).streams == planned(MARGIN_NS).streams


def test_what_a_station_says_of_its_lateness_wins_over_the_defaults(
    document: dict[str, Any],
) -> None:
    assert set(lateness_of(document).values()) == {None}
    document["defaults"]["talker-lateness"] = "20us"
    document["end-stations"] = {"t1": {"talker-lateness": "0ns"}, "t2": {}, "l1": {}, "l2": {}}
    late, punctual = 20 * US, 0
    assert lateness_of(document) == {"t1": punctual, "t2": late, "l1": late, "l2": late}


@pytest.mark.parametrize("lateness_ns", [0, 2 * US, 20 * US])
def test_the_bound_has_the_lateness_once_in_place_of_the_margin(lateness_ns: int) -> None:
    stated, unstated = planned(lateness_ns), planned(None)
    for name, its in unstated.streams.items():
        expected = its.latency_bound_ns - MARGIN_NS + lateness_ns
        assert stated.streams[name].latency_bound_ns == expected
    assert judge(stated) == []


def test_the_judge_refuses_a_plan_whose_talker_is_later_than_it_allows_for() -> None:
    punctual = planned(0)
    found = judge(replace(punctual, intent=with_lateness(punctual.intent, 20 * US)))
    assert {"precedence", "bound", "overlap"} <= {violation.code for violation in found}


def test_frames_keep_their_bound_if_their_talker_is_late() -> None:
    late, punctual = planned(20 * US), planned(0)
    surprised = replace(punctual, intent=late.intent)
    seeds = range(3)
    assert is_kept(late, seeds, duration_ns=30 * MS)
    assert not is_kept(surprised, seeds, duration_ns=30 * MS)


def test_a_refusal_names_the_talkers_own_part_beside_that_of_gates() -> None:
    wanted = with_lateness(intent(LINE, stream("a", "t", "l", max_latency_ns=1000)), 20 * US)
    with pytest.raises(Unschedulable) as refused:
        plan(wanted)
    expected = (
        "control frames in the way 8.064 µs, late gates 10 µs (gate-margin 5 µs, assumed: none is "
        "stated), the talker's own lateness 20 µs (talker-lateness), "
    )
    assert expected in refused.value.reasons["a"]


def test_what_the_margin_costs_does_not_count_talkers_that_state_their_lateness() -> None:
    stated, unstated = planned(20 * US), planned(None)
    assert cost_ns(stated, stated.streams["a"]) == 2 * MARGIN_NS
    assert cost_ns(unstated, unstated.streams["a"]) == 3 * MARGIN_NS


def test_streams_of_a_talker_that_is_later_than_before_are_planned_anew() -> None:
    net = network("t-s1", "u-s1", "s1-l")
    running = plan(intent(net, stream("a", "t", "l"), stream("b", "u", "l")))
    stations = {**net.end_stations, "t": EndStation("t", lateness_ns=5 * US)}
    wanted = replace(running.intent, network=replace(net, end_stations=stations))
    changed = plan(wanted, keep=running)
    assert judge(changed) == []
    assert changed.streams["a"].latency_bound_ns > running.streams["a"].latency_bound_ns
    assert changed.streams["b"] == running.streams["b"]
    assert [move.reason for move in moves(running, changed)] == ["t/s1 changed"]
