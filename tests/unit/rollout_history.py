"""Rollouts for the tests of their history."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from cnc.mechanism import Mechanism
from cnc.mechanisms import composition
from cnc.model import (
    GateControlList,
    GateEntry,
    GateMode,
    Management,
    PortConfiguration,
)
from cnc.plans import file as planfile
from cnc.rollout.history import History, Journal, SwitchChange, encoding
from cnc.service import state
from tests.unit.asked import asked
from tests.unit.places import stored_gates

LINE3 = planfile.load(Path(__file__).parent / "data" / "line3-plan.json")
CONFIRM_BY = datetime(2026, 3, 1, 12, 0, 59, tzinfo=UTC)


def opened(path: Path) -> History:
    """The history of the directory that `path` is in, as a file of that name or elsewhere."""
    return state.history(path.parent)


def port(cycle_ns: int = 1_000_000) -> PortConfiguration:
    return PortConfiguration(
        number_of_classes=3,
        priority_map=(0, 0, 0, 0, 0, 0, 2, 1),
        mode=GateMode.SOFTWARE,
        gates=GateControlList(cycle_ns, (GateEntry(0x81, cycle_ns),)),
        dscp_priorities={46: 6},
    )


def change(address: str = "192.0.2.1") -> SwitchChange:
    """A port that gets its first gates, one that gets others, and one that loses its own."""
    stored = stored_gates(port(500_000), 7, dscps={8, 46})
    return SwitchChange(
        Management(address, 830, "operator"),
        before={"p1": None, "p2": stored, "p3": stored},
        after={"p1": asked(port()), "p2": asked(port()), "p3": asked(None)},
    )


def recorded_without(change: SwitchChange, *of_bridges: str) -> bytes:
    """A change of the bridge br0 as it was recorded before these values of bridges were known; the
    change has none of them."""
    document = json.loads(zlib.decompress(encoding.change_to_octets(change)))
    for forwarding in document["bridges"]["br0"].values():
        assert [forwarding.pop(name) for name in of_bridges] == [[] for _ in of_bridges]
    return zlib.compress(json.dumps(document).encode())


def install(patch: pytest.MonkeyPatch, *mechanisms: Mechanism[Any]) -> None:
    """Let these be all mechanisms that there are. `forget_types` has to follow when the patch is
    undone."""
    for module in (encoding, composition):
        patch.setattr(module, "MECHANISMS", mechanisms)
    forget_types()


def forget_types() -> None:
    """Let the history look again at which mechanisms there are."""
    for cached in (encoding._forwarding, encoding._document):
        cached.cache_clear()


def begin(
    history: History, switches: Mapping[str, SwitchChange] | None = None, **its: Any
) -> Journal:
    """Begin a rollout to the switch s1, or to others."""
    described = {
        "id": str(uuid4()),
        "network": "line3",
        "operator": "alice@lab",
        "what": "push line3.yaml",
        "plan": None,
        "base_time_ns": 1_800_000_000_000_000_000,
        "confirm_by": CONFIRM_BY,
        "switches": switches or {"s1": change()},
    }
    return history.begin(**described | its)
