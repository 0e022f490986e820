"""What a rollout left of the ways that streams had before it: found in the history, and named."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import AgentReport, BridgeReport
from cnc.mechanisms.composition import bridge_forwardings
from cnc.model import BridgeForwarding, Management, Plan
from cnc.planner import plan
from cnc.plans.transition import joined, transition
from cnc.rollout.history import History, Phase, SwitchChange
from cnc.rollout.left_over import left_over
from cnc.switch import ConnectOptions
from cnc.switch.device import StoredSwitch
from cnc.watch import Watcher
from cnc.watch.observation import Poll
from tests import bridged_networks
from tests.unit.asked import asked, bridge_forwarding
from tests.unit.places import bridge_report, stored_bridge


def test_what_a_bridge_kept_without_a_change_is_left_until_a_rollout_removes_it() -> None:
    """s2 had the former way before, and is in no record of the rollout that kept it there."""
    former, new = around_and_back()
    with History(None) as history:
        completed(history, former)
        assert left_over(history, former.intent.name) is None
        completed(history, new)
        left = left_over(history, former.intent.name)
        assert left
        assert {name: its.entries for name, its in left.by_switch.items()} == {
            name: its.entries for name, its in transition(former, new).former.items()
        }
        completed(history, None, without_former_ways(new))
        assert left_over(history, former.intent.name) is None
        assert history.running_plan(former.intent.name) == new


def test_a_watch_names_what_is_left_until_a_rollout_removes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    former, new = around_and_back()
    both = joined(bridge_forwarding(new, "s2"), transition(former, new).former["s2"])
    with History(None) as history:
        completed(history, former)
        watching = Watcher(
            new,
            connect=ConnectOptions(Path(os.devnull), Path(os.devnull)),
            history=history,
            interval_s=10.0,
            tell=lambda _: None,
        )

        def told() -> dict[str, str]:
            """What is said of s2 once the history has been read."""
            watching._read_history()
            watching._observer.take(seen_bridge("s2", both))
            found = watching.snapshot().conditions
            return {each.kind: each.text for each in found if each.port == "br0"}

        unnamed = told()
        assert unnamed.keys() == {"drift", "configuration"}
        assert not [text for text in unnamed.values() if "former way" in text]
        completed(history, new)
        named = told()
        assert named.keys() == unnamed.keys()
        for text in named.values():
            assert text.startswith("frames of the previous path of around, left by rollout 2 (")
        with monkeypatch.context() as patch:
            patch.setattr(History, "plan_of", None)  # nothing new: no plan is read
            assert told() == named
        completed(history, None, without_former_ways(new))
        assert told() == unnamed


def around_and_back() -> tuple[Plan, Plan]:
    """A plan, and the next one after a cable is gone: the stream goes around the ring."""
    streams = {"around": bridged_networks.stream("t1", "l2")}
    former = plan(bridged_networks.ring("t1", **streams))
    return former, plan(bridged_networks.ring("t1", without="s1-s2", **streams), keep=former)


def without_former_ways(new: Plan) -> dict[str, SwitchChange]:
    """What a rollout brings that leaves each switch with the entries of the plan alone."""
    return {
        name: SwitchChange(Management("10.99.3.9"), {"br0": None}, {"br0": asked(its)})
        for name, its in bridge_forwardings(new).items()
    }


def completed(
    history: History, plan: Plan | None, switches: Mapping[str, SwitchChange] | None = None
) -> None:
    """Record a rollout that came to its end."""
    journal = history.begin(
        id=str(uuid4()),
        network="bridged-ring",
        operator="o",
        what="w",
        plan=plan,
        base_time_ns=1,
        confirm_by=datetime(2026, 3, 1, tzinfo=UTC),
        switches=switches or {},
    )
    journal.end(Phase.DONE)


def seen_bridge(switch: str, told: BridgeForwarding) -> Poll:
    """A switch whose bridge is configured with this and does it, as a watch sees it."""
    report = bridge_report(BridgeReport(tuple(sorted(told.members)), told))
    stored = stored_bridge(told)
    return Poll(
        switch=switch,
        at=datetime(2026, 3, 1, tzinfo=UTC),
        state=SwitchState(AgentReport(37, 100), {"br0": report}, 0, 0),
        stored=StoredSwitch({"br0": stored}, None),
        counters={},
    )
