"""Cables that lose, damage and delay frames in a lab: read as written, and nothing to a plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cnc import intent as intents
from cnc.errors import InputError
from cnc.model import Intent, PortRef
from cnc.planner import plan
from cnc.testbed.intent.lab_model import ImpairedLinks, Impairments
from cnc.testbed.lab import wires
from cnc.testbed.lab.kernels import layout
from cnc.testbed.lab.slower import slower
from cnc.testbed.lab.supported import check_cables
from cnc.testbed.traffic.trace.cable_taps import refuse_jitter

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
BAD = {"jitter": "50ns", "frame-loss": "0.1%", "bit-errors": "10ppt"}


def with_impairments(**impairments: Any) -> Intent:
    """line3, whose first two links have these; their ends the other way round in the second."""
    document: dict[str, Any] = json.loads(json.dumps(intents.load(LINE3).document))
    first, second, *others = document["links"]
    document["links"] = [
        {"ends": first, "impairments": impairments},
        {"ends": second[::-1], "impairments": impairments},
        *others,
    ]
    return intents.from_document(document, "line3")


def ends_of(index: int) -> list[PortRef]:
    """The ports of a link of line3."""
    return [PortRef(*end.split("/")) for end in intents.load(LINE3).document["links"][index]]


def lines(intent: Intent) -> dict[str, dict[str, str]]:
    """What virtual-network is told of each cable, by the port that its line has first."""
    found = {}
    for line in layout.cable_lines(intent):
        _, one, _, *options = line.split()
        found[one] = dict(option.split("=") for option in options)
    return found


def test_a_link_has_the_impairments_that_it_states_in_both_directions():
    assert with_impairments(**BAD)[ImpairedLinks].by_port == dict.fromkeys(
        (*ends_of(0), *ends_of(1)), Impairments(50, 1_000_000, 10)
    )
    half = with_impairments(**{"frame-loss": "0.5ppm"})[ImpairedLinks].by_port
    assert half[ends_of(0)[0]] == Impairments(frame_loss_ppb=500)


def test_cables_of_a_lab_have_them_each_with_random_numbers_of_its_own():
    said = lines(with_impairments(**BAD))
    impaired = {name: its for name, its in said.items() if "seed" in its}
    assert [*impaired] == sorted(str(min(ends_of(index))) for index in (0, 1))
    for its in impaired.values():
        assert (its["jitter"], its["loss-ppb"], its["bit-error-ppt"]) == ("50", "1000000", "10")
    first, second = impaired.values()
    assert first["seed"] != second["seed"]


def test_the_random_numbers_of_a_cable_come_from_its_ends_alone():
    intent = with_impairments(**BAD)
    document = {**intent.document, "links": intent.document["links"][::-1], "name": "another"}
    assert lines(intents.from_document(document, "line3")) == lines(intent)


def test_without_the_key_no_cable_impairs_frames():
    assert intents.load(LINE3)[ImpairedLinks].by_port == {}
    assert all("seed" not in its for its in lines(intents.load(LINE3)).values())


def test_a_plan_does_not_depend_on_the_impairments_of_a_lab():
    plain, impaired = plan(intents.load(LINE3)), plan(with_impairments(**BAD))
    assert (impaired.streams, impaired.gates) == (plain.streams, plain.gates)


def test_a_lab_on_one_kernel_refuses_them():
    check_cables(intents.load(LINE3), timed_wires=False)
    with pytest.raises(InputError) as refused:
        check_cables(with_impairments(**{"bit-errors": "1ppb"}), timed_wires=True)
    assert f"the link of {ends_of(0)[0]} has impairments" in str(refused.value)
    assert "namespaces of one kernel" in str(refused.value)
    assert "--kernels own" in str(refused.value.hint)


def test_a_trace_refuses_jitter_since_it_would_not_know_when_frames_arrive():
    refuse_jitter(with_impairments(**{"frame-loss": "1ppm", "bit-errors": "1ppb"}))
    with pytest.raises(InputError, match=r"the link of .* has jitter"):
        refuse_jitter(with_impairments(jitter="1ns"))


def test_jitter_grows_with_a_network_that_is_made_slower():
    assert (
        slower(with_impairments(**BAD), 10)[ImpairedLinks].by_port[ends_of(0)[0]].jitter_ns == 500
    )


def test_a_delay_is_for_labs_of_one_kernel_too_as_long_as_cables_take_time():
    delayed = with_impairments(delay={"pareto": "3ms"})
    assert delayed[ImpairedLinks].by_port[ends_of(0)[0]] == Impairments(pareto_ns=3_000_000)
    check_cables(delayed, timed_wires=True)
    with pytest.raises(InputError, match="has a delay, and on a real clock cables"):
        check_cables(delayed, timed_wires=False)
    with pytest.raises(InputError, match="has impairments, and all nodes"):
        check_cables(with_impairments(delay={"pareto": "3ms"}, jitter="1ns"), timed_wires=True)
    assert [each.get("pareto") for each in lines(delayed).values()].count("3000000") == 2
    slow = slower(delayed, 10)[ImpairedLinks].by_port[ends_of(0)[0]]
    assert slow == Impairments(pareto_ns=30_000_000)
    with pytest.raises(InputError, match="has jitter or a delay, and a trace takes each frame"):
        refuse_jitter(delayed)


def test_netem_gets_the_mean_that_is_stated_and_no_frame_comes_earlier(
    monkeypatch: pytest.MonkeyPatch,
):
    """Of its Pareto distribution the least is two thirds of the scale below the delay."""
    said: list[str] = []
    monkeypatch.setattr(wires, "batch", lambda _, lines, **__: said.extend(lines))
    network = intents.load(LINE3).network
    wires.connect(network, "home", wires.interfaces(network), {ends_of(0)[0]: 3_000_000})
    (delayed,) = [line for line in said if "distribution" in line]
    base_us = (network.links[ends_of(0)[0]].propagation_ns + 1_000) / 1000
    assert f"delay {3_000 + base_us}us 4500.0us distribution pareto rate" in delayed
