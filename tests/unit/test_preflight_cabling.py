"""Cables that are not where the intent has them, as switches hear it over LLDP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from cnc.finding import Check, Finding, Verdict
from cnc.model import EndStation, Network
from cnc.rollout.preflight.cabling import examine_cabling
from cnc.switch.topology import Identifier, TopologyReport
from tests.unit.heard_neighbors import reports
from tests.unit.planner_networks import network

NET = network("controller-s1", "camera-s1", "s1-s2", "s2-drive")
# What is really connected: an interface of a switch, and of whom and where it hears.
AS_PLANNED = {
    "s1": {"controller": ("controller", "eth0"), "camera": ("camera", "eth0"), "s2": ("s2", "s1")},
    "s2": {"s1": ("s1", "s2"), "drive": ("drive", "eth0")},
}


def findings(net: Network, seen: Mapping[str, TopologyReport]) -> list[Finding]:
    return [its for its in examine_cabling(net, seen) if its.verdict is not Verdict.OK]


def test_cables_that_are_where_they_belong_are_no_finding() -> None:
    found = list(examine_cabling(NET, reports(NET, AS_PLANNED)))
    assert {its.where for its in found} == {"s1/s2", "s2/s1"}  # of stations nothing is sure
    assert {(its.check, its.verdict) for its in found} == {(Check.CABLING, Verdict.OK)}


def test_swapped_cables_of_two_stations_are_told_at_both_ports() -> None:
    ports = AS_PLANNED["s1"]
    swapped = {**ports, "controller": ports["camera"], "camera": ports["controller"]}
    found = findings(NET, reports(NET, {**AS_PLANNED, "s1": swapped}))
    assert {its.where: its.text for its in found} == {
        "s1/controller": "LLDP hears end station camera there, the intent has controller/s1",
        "s1/camera": "LLDP hears end station controller there, the intent has camera/s1",
    }
    assert {its.verdict for its in found} == {Verdict.WARNING}


def test_a_station_is_known_by_the_address_that_the_intent_states_whatever_its_name() -> None:
    macs = {"controller": "02:00:00:00:00:01", "camera": "02:00:00:00:00:02"}
    stations = {
        **NET.end_stations,
        **{name: EndStation(name, mac=mac) for name, mac in macs.items()},
    }
    seen = reports(NET, AS_PLANNED)
    lldp = seen["s1"].lldp
    assert lldp is not None
    renamed = [
        replace(its, system_name="camera", port_id=Identifier("02-00-00-00-00-01", "mac-address"))
        for its in lldp.neighbors
        if its.interface == "controller"
    ]
    seen["s1"] = replace(seen["s1"], lldp=replace(lldp, neighbors=tuple(renamed)))
    assert findings(replace(NET, end_stations=stations), seen) == []
    assert [its.where for its in findings(NET, seen)] == ["s1/controller"]


def test_a_switch_at_another_port_than_planned_is_told() -> None:
    moved = {"s1": {**AS_PLANNED["s1"], "s2": ("s2", "drive")}, "s2": {"drive": ("s1", "s2")}}
    found = findings(NET, reports(NET, moved))
    assert {its.where: its.text for its in found} == {
        "s1/s2": "LLDP hears s2/drive there, the intent has s2/s1",
        "s2/drive": "LLDP hears s1/s2 there, the intent has drive/s2",
    }


def test_a_stranger_between_switches_is_told() -> None:
    strange = {**AS_PLANNED["s1"], "s2": ("printer", "eth0")}
    found = findings(NET, reports(NET, {"s1": strange, "s2": {"drive": ("drive", "eth0")}}))
    assert [(its.where, its.text) for its in found] == [
        (
            "s1/s2",
            "LLDP hears printer, which is not s2, there, the intent has s2/s1",
        )
    ]


@pytest.mark.parametrize("whose_lldpd", ["of no answer", "of one without LLDP"])
def test_the_neighbour_of_a_switch_that_does_not_say_who_it_is_may_be_that_switch(
    whose_lldpd: str,
) -> None:
    seen = reports(NET, AS_PLANNED)
    told = seen.pop("s2")
    if whose_lldpd == "of one without LLDP":
        seen["s2"] = replace(told, lldp=None)
    assert [its for its in findings(NET, seen) if its.verdict is Verdict.WARNING] == []


def test_switches_that_hear_nobody_are_one_remark() -> None:
    deaf = {name: replace(its, lldp=None) for name, its in reports(NET, AS_PLANNED).items()}
    [remark] = findings(NET, deaf)
    assert (remark.switch, remark.verdict) == (None, Verdict.UNKNOWN)
    assert "not checked at s1, s2" in remark.text
    assert "lldpd" in str(remark.hint)
