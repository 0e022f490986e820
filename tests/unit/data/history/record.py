"""Usage: PYTHONPATH=VERSION .venv/bin/python tests/unit/data/history/record.py INTENT NODE... DIR

Writes into DIR what the `cnc` in the folder VERSION records of two rollouts of an intent: its plan,
and of each node the change of a first rollout and of one that takes all of it away again. README.md
tells what for.
"""

from __future__ import annotations

import json
import sys
import zlib
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

BASE_TIME_NS = 1_800_000_000_000_000_000
EXTRA = "maximum SDU size of 500 octets in traffic class 5"


def of_version(*modules: str) -> Any:
    """The first of these modules that the version has."""
    for module in modules[:-1]:
        try:
            return import_module(module)
        except ModuleNotFoundError:
            pass
    return import_module(modules[-1])


intents, planner = import_module("cnc.intent"), import_module("cnc.planner")
model = of_version("cnc.netconf.tree", "cnc.model")
payload = of_version("cnc.netconf.payload", "cnc.switch.payload")
readback = of_version("cnc.netconf.readback", "cnc.switch.readback")
history = of_version("cnc.history", "cnc.rollout.history")
encoding = of_version("cnc.history.encoding", "cnc.rollout.history.encoding")
Plan = import_module("cnc.model").Plan
StoredPort = model.StoredPort


def main(intent: str, *nodes: str, directory: str) -> None:
    plan = planner.plan(intents.load(Path(intent)))
    nothing = Plan(plan.intent, {}, {}, algorithm="none")
    write(Path(directory, "plan.json"), encoding.plan_to_octets(plan))
    for node in nodes:
        settings = payload.desired_ports(plan, node)
        stored = stored_after(settings)
        first = min(place for place, its in settings.items() if not hasattr(its, "entries"))
        # A gate table that is no schedule, as another client left it; of the other ports nothing.
        draft = stored_port(None, 7, frozenset({8, 46}), is_draft=True)
        before = {**dict.fromkeys(settings), first: draft}
        write_change(Path(directory, f"{node}-first.json"), plan, node, before, settings)
        # What no rollout sets: a limit, and gates in the table of IEEE 802.1DC.
        beside = known({"extras": (EXTRA,), "has_interface_gates": True})
        stored[first] = replace(stored[first], **beside)
        before = {place: stored.get(place) for place in settings}
        left = payload.desired_ports(nothing, node)
        if hasattr(payload, "with_vlans_left"):
            left = payload.with_vlans_left(left, plan, node)
        write_change(Path(directory, f"{node}-last.json"), plan, node, before, left)


def stored_port(*values: object, **others: object) -> Any:
    return StoredPort(*values, **known(others))


def known(values: dict[str, Any]) -> dict[str, Any]:
    """Those of a stored port that the version knows."""
    names = {each.name for each in fields(StoredPort)}
    return {name: value for name, value in values.items() if name in names}


def stored_after(settings: dict[str, Any]) -> dict[str, Any]:
    """What a node has stored after an edit that sets this where nothing was."""
    ids = of_version("cnc.netconf.mark", "cnc.switch.rollout_id")
    id_type = getattr(ids, "Mark", None) or ids.RolloutId
    edit = payload.edit_config(settings, BASE_TIME_NS, {}, id_type("1", "operator", "now"))
    bridges = [name for name, its in settings.items() if hasattr(its, "entries")]
    return dict(readback.stored_ports(edit, *([bridges] if bridges else [])))


def write_change(path: Path, plan: Any, node: str, before: Any, after: Any) -> None:
    network = plan.intent.network
    management = {**network.bridges, **getattr(network, "end_stations", {})}[node].management
    write(path, encoding.change_to_octets(history.SwitchChange(management, before, after)))


def write(path: Path, octets: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(readable(json.loads(zlib.decompress(octets)), 3) + "\n")


def readable(value: Any, levels: int) -> str:
    """JSON with a line for each value of the upper levels."""
    if not levels or not isinstance(value, dict) or not value:
        return json.dumps(value)
    lines = (f"{json.dumps(key)}: {readable(its, levels - 1)}" for key, its in value.items())
    return "{" + ",\n".join(lines).replace("\n", "\n ") + "}"


main(*sys.argv[1:-1], directory=sys.argv[-1])
