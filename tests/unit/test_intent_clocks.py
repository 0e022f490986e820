"""Clocks that an intent gives the nodes of a lab: read as written, and nothing to a plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cnc import intent as intents
from cnc.errors import InputError
from cnc.model import Intent
from cnc.planner import plan
from cnc.testbed.intent.lab_model import Clock, Clocks, ClockStep
from cnc.testbed.lab.supported import check_clocks

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
OFF = {"offset": "-7ms", "frequency-offset": "25ppm"}


def with_clocks(**clocks: dict[str, Any]) -> Intent:
    """line3, in which these nodes have clocks of their own."""
    document: dict[str, Any] = json.loads(json.dumps(intents.load(LINE3).document))
    stations = {name: {} for name in document["end-stations"]}
    document["end-stations"] = stations
    for node, clock in clocks.items():
        (document["switches"] if node in document["switches"] else stations)[node]["clock"] = clock
    return intents.from_document(document, "line3")


def test_switches_and_end_stations_have_the_clocks_that_they_state():
    slow = {"frequency-offset": "-0.5ppm"}
    assert with_clocks(s2=OFF, t1=slow)[Clocks].by_node == {
        "s2": Clock(-7_000_000, 25_000),
        "t1": Clock(0, -500),
    }


def test_a_frequency_swings_and_walks_as_stated():
    swinging = {"sinusoid": {"amplitude": "1.5ppm", "period": "60s"}}
    walking = {"random-walk": "0.2ppb", "seed": 7}
    assert with_clocks(s1=swinging, s2=walking)[Clocks].by_node == {
        "s1": Clock(sinusoid_amplitude_ppb=1_500, sinusoid_period_ns=60_000_000_000),
        "s2": Clock(random_walk_ppt=200, seed=7),
    }


def test_without_a_seed_each_node_walks_in_a_way_of_its_own_and_always_the_same():
    walking = {"random-walk": "3ppb"}
    seeds = {
        node: its.seed for node, its in with_clocks(s1=walking, s2=walking)[Clocks].by_node.items()
    }
    assert seeds["s1"] != seeds["s2"]
    assert with_clocks(s2=walking)[Clocks].by_node["s2"].seed == seeds["s2"]


def test_steps_are_in_the_order_of_time_whatever_that_of_the_list():
    stepping = {"steps": [{"at": "20s", "by": "-1ms"}, {"at": "0s", "by": "1us"}]}
    assert with_clocks(s2=stepping)[Clocks].by_node == {
        "s2": Clock(steps=(ClockStep(0, 1_000), ClockStep(20_000_000_000, -1_000_000)))
    }


def test_without_the_key_all_clocks_tell_true_time():
    assert with_clocks()[Clocks].by_node == {}


def test_a_plan_does_not_depend_on_the_clocks_of_a_lab():
    plain, off = plan(with_clocks()), plan(with_clocks(s1=OFF, t1=OFF))
    assert (off.streams, off.gates) == (plain.streams, plain.gates)


def test_a_lab_whose_nodes_share_a_clock_refuses_one_that_differs():
    check_clocks(with_clocks())
    with pytest.raises(InputError):
        check_clocks(with_clocks(s2={"steps": [{"at": "10s", "by": "1us"}]}))
    with pytest.raises(InputError) as refused:
        check_clocks(with_clocks(s2=OFF))
    assert "switch s2 has a clock of its own" in str(refused.value)
    assert "one kernel, whose clock they share" in str(refused.value)
