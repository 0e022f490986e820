"""Why a stream has no place, as table 46-15 of 802.1Q numbers it (docs/operate/uni.md)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from cnc.errors import Lack, Unschedulable
from cnc.model import Intent
from cnc.service import uni
from cnc.service.admission import Admission
from cnc.service.failures import Failure, of_unschedulable
from cnc.service.keys import narrowed
from cnc.service.refused import CallRefused, Code
from tests.unit.uni_bodies import body, network, planned

PACKET = {"ipv4-tuple": {"destination-ip-address": "192.0.2.4"}}
GROUP = {"ieee802-mac-addresses": {"destination-mac-address": "91-E0-F0-00-FE-07"}}
OTHER_GROUP = {"ieee802-mac-addresses": {"destination-mac-address": "91-E0-F0-00-FE-08"}}
TAG = {"ieee802-vlan-tag": {"vlan-id": 10, "priority-code-point": 5}}
MINE, OTHER = "plc__1", "plc__2"
PLC, DRIVE, PANEL = 1, 3, 5


def refused(intent: Intent, *bodies: Mapping[str, Any]) -> CallRefused:
    """Why the last of these streams is refused; the others have a place."""
    admission = Admission(planned(intent))
    *placed, last = bodies
    for number, its in enumerate(placed):
        _put(admission, f"{OTHER}{number}", its)
    with pytest.raises(CallRefused) as refusal:
        _put(admission, MINE, last)
    return refusal.value


def without(*ends: str) -> Intent:
    """bridged5 without the cables that have one of these ends."""
    links = [its for its in network("bridged5.yaml").document["links"] if {*ends}.isdisjoint(its)]
    return network("bridged5.yaml", links=links)


def _put(admission: Admission, name: str, its: Mapping[str, Any]) -> None:
    keys = uni.wanted(its, name, admission.plan.intent)
    with admission.changing({name: keys}, (), "a CUC", partial(narrowed, {name: its})):
        pass


def test_what_would_be_too_late_even_alone_has_the_code_of_a_latency() -> None:
    its = refused(network("line3.yaml"), body(1, [3], [PACKET], max_latency=20_000))

    assert "needs at least" in str(its)
    assert its.code is Code.CONFLICT
    assert its.details["failure_code"] == Failure.LATENCY
    assert its.details["failure_codes"] == {MINE: Failure.LATENCY}


def test_what_finds_no_slot_has_the_code_of_bandwidth() -> None:
    first, second = (body(1, [3], [PACKET], max_latency=45_000) for _ in range(2))
    its = refused(network("line3.yaml"), first, second)
    assert "no free slot" in str(its)
    assert its.details["failure_code"] == Failure.BANDWIDTH


def test_what_nothing_leads_to_has_the_code_of_a_port() -> None:
    """The switch of the panel has lost both its cables to the others."""
    intent = without("s3/s4", "s4/s5")
    its = refused(intent, body(PLC, [PANEL], [GROUP, TAG]))
    assert "listeners" in str(its)
    assert its.details["failure_code"] == Failure.NO_PORT


def test_two_trees_without_a_second_way_have_the_code_of_a_bridges_resources() -> None:
    asked = body(PLC, [DRIVE], [GROUP, TAG])
    asked["talker"]["user-to-network-requirements"]["num-seamless-trees"] = 2
    its = refused(without("s4/s5"), asked)
    assert "way around" in str(its)
    assert its.details["failure_code"] == Failure.BRIDGE_RESOURCES


def test_a_gate_control_list_that_is_full_has_the_code_of_a_bridges_resources() -> None:
    few = {name: {"gate-entries-max": 4} for name in ("t1", "t2", "s2")}
    asked = body(1, [3], [PACKET], max_latency=900_000)
    its = refused(network("line3.yaml", switches__s1__ports=few), asked, asked)
    assert "gate control list" in str(its)
    assert its.details["failure_code"] == Failure.BRIDGE_RESOURCES


def test_stream_filters_that_are_used_up_have_the_code_of_a_bridges_resources() -> None:
    intent = network("bridged5.yaml", policing="drop", switches__s1__stream_filters_max=5)
    its = refused(intent, body(PLC, [DRIVE], [GROUP, TAG]), body(PLC, [DRIVE], [OTHER_GROUP, TAG]))
    assert "stream-filters-max" in str(its)
    assert its.details["failure_code"] == Failure.BRIDGE_RESOURCES


def test_a_bridge_without_filtering_entries_has_the_code_of_an_address_it_cannot_store() -> None:
    intent = network("bridged5.yaml", switches__s1__filtering_entries_max=1)
    its = refused(intent, body(PLC, [DRIVE], [GROUP, TAG]), body(PLC, [DRIVE], [OTHER_GROUP, TAG]))
    assert "filtering-entries-max" in str(its)
    assert its.details["failure_code"] == Failure.NO_ENTRY


def test_an_address_that_another_stream_has_has_its_own_code() -> None:
    its = refused(network("bridged5.yaml"), *(body(PLC, [DRIVE], [GROUP, TAG]) for _ in range(2)))
    assert f"which stream {OTHER}0 has" in str(its)
    assert its.details["failure_code"] == Failure.ADDRESS_IN_USE


def test_frames_that_cannot_be_told_apart_have_the_code_of_identification() -> None:
    its = refused(network("bridged5.yaml"), *(body(PLC, [PANEL], [PACKET]) for _ in range(2)))
    assert "cannot tell" in str(its)
    assert its.details["failure_code"] == Failure.IDENTIFICATION


@pytest.mark.parametrize("lack", Lack)
def test_every_lack_has_a_code(lack: Lack) -> None:
    code = of_unschedulable(Unschedulable({"a": "why", "b": "why"}, lacks={"a": lack}))
    assert Failure(code["a"]) != Failure.NONE
    assert code["b"] == Failure.BANDWIDTH
