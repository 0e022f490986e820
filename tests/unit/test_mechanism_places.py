"""What mechanisms promise of a port, and of a bridge as a whole: one test for all of them.

`test_mechanisms.py` is about what each does within a bridge.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from cnc import intent as intents
from cnc.mechanisms.composition import asked_at, previous
from cnc.model import NOTHING_STORED, BridgeForwarding, Plan, PortSettings, StoredPort
from cnc.planner import plan
from cnc.switch.payload import desired_nodes, edit_config
from cnc.switch.readback import stored_ports
from cnc.switch.rollout_id import RolloutId

SCHEDULES = Path(__file__).parents[2] / "schedules"
ID = RolloutId("0e1f3ac2-6f0c-4c6b-9f0c-2d0f6a5a7d11", "operator@cnc", "2026-11-23T09:00:00Z")
BASE_NS = 1_000_000_000_000
# Ports with gates and without, bridges with all that they can be asked for, idle slopes, and an
# end station whose port has gates, talkers and a launch time.
NETWORKS = ("line3", "bridged5", "guarded", "shapers3", "managed")


@cache
def planned(name: str) -> Plan:
    if name != "managed":
        return plan(intents.load(SCHEDULES / f"{name}.yaml"))
    document = yaml.safe_load((SCHEDULES / "guarded.yaml").read_text())
    document["end-stations"] = dict.fromkeys(document["end-stations"]) | {
        "plc": {"management": "10.99.0.9", "gates": "software", "launch-time": "software"}
    }
    return plan(intents.from_document(document, name))


def nodes() -> Iterator[tuple[str, str]]:
    for name in NETWORKS:
        for node in planned(name).intent.network.managed:
            yield name, node


ALL = pytest.mark.parametrize(("network", "node"), [*nodes()])


def settings_of(network: str, node: str) -> dict[str, PortSettings]:
    return desired_nodes(planned(network), [node])[node]


def sent(settings: dict[str, PortSettings]) -> dict[str, StoredPort]:
    """What a switch that had nothing has stored after an edit."""
    bridges = [name for name, its in settings.items() if its.get(BridgeForwarding)]
    return dict(stored_ports(edit_config(settings, BASE_NS, {}, ID), bridges))


@ALL
def test_what_is_sent_to_a_place_is_what_is_configured_there(network: str, node: str) -> None:
    settings = settings_of(network, node)
    stored = sent(settings)
    assert any(stored.values())
    for place, its in settings.items():
        for mechanism, part in asked_at(its):
            assert mechanism.configured(part, stored.get(place, NOTHING_STORED)) is None


@ALL
def test_what_is_stored_in_place_of_it_is_what_a_rollback_asks_for(network: str, node: str) -> None:
    settings = settings_of(network, node)
    stored = sent(settings)
    for place, its in settings.items():
        assert previous(its, stored.get(place)) == its


@ALL
def test_what_was_not_sent_is_a_difference(network: str, node: str) -> None:
    settings = settings_of(network, node)
    for its in settings.values():
        for mechanism, part in asked_at(its):
            asks = mechanism.does(part) is not None
            assert bool(mechanism.configured(part, NOTHING_STORED)) == asks
            assert bool(mechanism.needs_change(part, NOTHING_STORED, None)) == asks
