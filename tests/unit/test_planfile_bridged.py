"""Plan files of bridged networks: the addresses of all streams, or bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cnc import intent
from cnc.errors import InputError
from cnc.model import Forwarding, StreamAddress
from cnc.planner import plan
from cnc.plans import file as planfile

SCHEDULES = Path(__file__).parents[2] / "schedules"
BRIDGED = plan(intent.load(SCHEDULES / "bridged5.yaml"))
ROUTED = plan(intent.load(SCHEDULES / "line3.yaml"))


def document() -> dict[str, Any]:
    read = json.loads(planfile.dump(BRIDGED))
    assert isinstance(read, dict)
    return read


def test_a_plan_file_has_the_address_of_every_stream() -> None:
    assert document()["addresses"]["orders"] == {
        "destination_mac": "02:00:00:00:01:01",
        "vlan_id": 20,
    }
    read = planfile.parse(planfile.dump(BRIDGED), "plan.json")
    assert read.addresses == BRIDGED.addresses
    assert read.addresses.keys() == read.streams.keys()
    assert read.intent.network.forwarding is Forwarding.BRIDGED
    assert all(isinstance(each, StreamAddress) for each in read.addresses.values())


def test_a_plan_file_of_a_routed_network_has_no_such_section() -> None:
    assert "addresses" not in json.loads(planfile.dump(ROUTED))
    assert planfile.parse(planfile.dump(ROUTED), "plan.json").addresses == {}


def without_all(plan: dict[str, Any]) -> None:
    del plan["addresses"]


def without_one(plan: dict[str, Any]) -> None:
    del plan["addresses"]["log"]


def of_no_stream(plan: dict[str, Any]) -> None:
    plan["addresses"]["lost"] = plan["addresses"]["log"]


def of_an_unplanned_stream(plan: dict[str, Any]) -> None:
    del plan["streams"]["log"]
    plan["refused"]["log"] = "no place"


def without_vlan(plan: dict[str, Any]) -> None:
    del plan["addresses"]["log"]["vlan_id"]


def with_pcp(plan: dict[str, Any]) -> None:
    plan["addresses"]["log"]["pcp"] = 5


def mac_in_capitals(plan: dict[str, Any]) -> None:
    plan["addresses"]["log"]["destination_mac"] = "03:54:53:4E:05:08"


def vlan_of_thirteen_bits(plan: dict[str, Any]) -> None:
    plan["addresses"]["log"]["vlan_id"] = 4096


def vlan_as_truth(plan: dict[str, Any]) -> None:
    plan["addresses"]["log"]["vlan_id"] = True


def as_a_list(plan: dict[str, Any]) -> None:
    plan["addresses"] = []


ONE_EACH = "expected one for each stream of the plan, since the intent's forwarding is bridged"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (without_all, f"addresses: found no address of 'actual-1', {ONE_EACH}"),
        (without_one, f"addresses: found no address of 'log', {ONE_EACH}"),
        (of_no_stream, "addresses.lost: found 'lost', expected a stream of the intent in this"),
        (of_an_unplanned_stream, "addresses: found an address of 'log', expected only streams"),
        (
            without_vlan,
            "addresses.log: found no vlan_id, expected the keys destination_mac, vlan_id",
        ),
        (with_pcp, "addresses.log: found 'pcp', expected the keys destination_mac, vlan_id"),
        (
            mac_in_capitals,
            "addresses.log.destination_mac: found '03:54:53:4E:05:08', expected a MAC",
        ),
        (vlan_of_thirteen_bits, "addresses.log.vlan_id: found 4096, expected an integer from 0 to"),
        (vlan_as_truth, "addresses.log.vlan_id: found true, expected an integer from 0 to 4095"),
        (as_a_list, "addresses: found [], expected an object"),
    ],
)
def test_a_bridged_plan_without_sound_addresses_is_bad_input(
    damage: Callable[[dict[str, Any]], None], message: str
) -> None:
    damaged = document()
    damage(damaged)
    with pytest.raises(InputError) as refused:
        planfile.parse(json.dumps(damaged), "plan.json")
    assert str(refused.value).startswith(f"plan.json: {message}")


def test_addresses_in_the_plan_of_a_routed_network_are_bad_input() -> None:
    routed = json.loads(planfile.dump(ROUTED))
    routed["addresses"] = {"motion": {"destination_mac": "03:54:53:4e:00:00", "vlan_id": 10}}
    with pytest.raises(InputError, match="found addresses, expected none, since the intent's"):
        planfile.parse(json.dumps(routed), "plan.json")
