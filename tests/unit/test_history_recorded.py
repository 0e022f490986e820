"""What programs of former versions recorded of rollouts is read as it was meant, and written again
as they read it.

`data/history/README.md` tells how they recorded it. What is expected follows from their plans.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from cnc.mechanisms.composition import is_bridge
from cnc.mechanisms.stream_filters.model import StreamFilters, WindowGate
from cnc.model import (
    NO_PARTS,
    BridgeForwarding,
    PlaceParts,
    Plan,
    PortSettings,
    StoredBridge,
    StoredGates,
    StoredPort,
)
from cnc.rollout.history import Outcome, SwitchChange, encoding
from cnc.switch.payload import desired_nodes, edit_config, with_former
from cnc.switch.readback import stored_ports
from cnc.switch.rollout_id import RolloutId
from tests.unit.places import stored_gates

RECORDED = Path(__file__).parent / "data" / "history"
PLANS = sorted(RECORDED.glob("*/plan.json"))
FIRST, LAST = (sorted(RECORDED.glob(f"*/*-{which}.json")) for which in ("first", "last"))
BASE_NS = 1_800_000_000_000_000_000
# Of a stored port: an edit reads the tables of the switch anew, and nothing else needs them.
NO_LONGER_WRITTEN = {"identities", "sequencing", "filters"}
WRITTEN_SINCE = {
    "extras": [],
    "talker": None,
    "forwarding": None,
    "is_draft": False,
    "has_interface_gates": False,
}


def named(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def draft(recorded: Mapping[str, Any]) -> StoredPort:
    """A gate table that is no schedule: the first versions did not tell it from none."""
    return stored_gates(None, 7, dscps={8, 46}, is_draft=recorded.get("is_draft", False))


def with_foreign_settings(stored: StoredPort, recorded: Mapping[str, Any]) -> StoredPort:
    """A port with what no rollout sets, as far as the version looked at it."""
    extra = ("maximum SDU size of 500 octets in traffic class 5",)
    gates = replace(
        stored[StoredGates],
        extras=extra if "extras" in recorded else (),
        has_interface_gates="has_interface_gates" in recorded,
    )
    return stored.having(gates)


def stored_after(settings: Mapping[str, PortSettings]) -> dict[str, StoredPort | None]:
    """What a node has stored after an edit that sets this where nothing was."""
    bridges = [place for place, its in settings.items() if is_bridge(its)]
    edit = edit_config(settings, BASE_NS, {}, RolloutId("1", "operator", "now"))
    found = stored_ports(edit, bridges)
    return {at: without_tables(found[at]) if at in found else None for at in settings}


def without_tables(stored: StoredPort) -> StoredPort:
    bridge = stored.get(StoredBridge)
    return stored.having(replace(bridge, tables=NO_PARTS)) if bridge else stored


_Place = TypeVar("_Place", bound=PlaceParts | None)


def timeless(places: Mapping[str, _Place]) -> dict[str, _Place]:
    """Places without the times of windows of stream filters: these follow from a plan by the time
    model of the version."""
    return {name: its and _timeless(its) for name, its in places.items()}


def _timeless(place: Any) -> Any:
    if bridge := place.get(StoredBridge):
        forwarding = bridge.forwarding and _without_times(bridge.forwarding)
        return place.having(replace(bridge, forwarding=forwarding))
    forwarding = place.get(BridgeForwarding)
    return place.having(_without_times(forwarding)) if forwarding else place


def _without_times(its: BridgeForwarding) -> BridgeForwarding:
    filters = (
        replace(each, gate=replace(each.gate, start_ns=0, open_ns=0))
        if isinstance(each.gate, WindowGate)
        else each
        for each in its[StreamFilters].filters
    )
    return its.having(StreamFilters(tuple(filters)))


def plan_of(path: Path) -> Plan:
    octets = zlib.compress((path.parent / "plan.json").read_bytes())
    return encoding.plan_from_octets(octets, "the recorded plan")


def read(path: Path) -> SwitchChange:
    return encoding.change_from_octets(zlib.compress(path.read_bytes()), Outcome.SAVED, "")


def written(octets: bytes) -> Any:
    return json.loads(zlib.decompress(octets))


def settings_and_port(path: Path) -> tuple[dict[str, PortSettings], str, dict[str, Any]]:
    """What the plan asks of the node, its first port, and what is recorded of that."""
    settings = desired_nodes(plan_of(path))[path.stem.partition("-")[0]]
    port = min(place for place, its in settings.items() if not is_bridge(its))
    return settings, port, json.loads(path.read_text())["before"][port]


@pytest.mark.parametrize("path", FIRST, ids=named)
def test_the_change_of_a_first_rollout_is_what_its_plan_asks_for(path: Path) -> None:
    settings, port, recorded = settings_and_port(path)
    change = read(path)
    assert timeless(change.after) == timeless(settings)
    assert change.before == {**dict.fromkeys(settings), port: draft(recorded)}


@pytest.mark.parametrize("path", LAST, ids=named)
def test_the_change_that_takes_a_plan_away_has_before_what_the_plan_set(path: Path) -> None:
    settings, port, recorded = settings_and_port(path)
    plan, node = plan_of(path), path.stem.partition("-")[0]
    change = read(path)
    nothing = desired_nodes(Plan(plan.intent, {}, {}, algorithm="none"))
    assert timeless(change.after) == timeless(with_former(nothing, plan)[node])
    stored = stored_after(settings)
    own = stored[port]
    assert own
    expected = {**stored, port: with_foreign_settings(own, recorded)}
    assert timeless(change.before) == timeless(expected)


@pytest.mark.parametrize("path", FIRST + LAST, ids=named)
def test_a_change_is_written_as_the_version_that_recorded_it_reads_it(path: Path) -> None:
    recorded = json.loads(path.read_text())
    for place, its in recorded["before"].items():
        kept = its and {key: value for key, value in its.items() if key not in NO_LONGER_WRITTEN}
        recorded["before"][place] = kept and {**WRITTEN_SINCE, **kept}
    assert written(encoding.change_to_octets(read(path))) == {"bridges": {}, **recorded}


@pytest.mark.parametrize("path", PLANS, ids=named)
def test_a_plan_is_written_as_it_was(path: Path) -> None:
    recorded, plan = json.loads(path.read_text()), plan_of(path)
    now = written(encoding.plan_to_octets(plan))
    if recorded["format"] == "cnc-plan/2":  # the intent left out what held without being stated
        assert now.pop("format") == "cnc-plan/3"
        del recorded["format"]
        implied = {"gate-margin": "0ns", "talker-interference": "none", "recovery": "none"}
        recorded["intent"]["defaults"] |= implied
    assert now == recorded
