"""The judge of a change notices what one rule alone has against a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from cnc.check import judge
from cnc.check.change import Judged
from cnc.mechanisms.composition import bridge_forwardings
from cnc.mechanisms.stream_filters.model import (
    FilterCapacity,
    Policing,
    PolicingRules,
    StreamFilters,
)
from cnc.model import Intent, Plan
from cnc.planner import plan
from cnc.planner.problem import Problem
from tests.unit.planner_networks import with_streams
from tests.unit.test_check_paths import FRAME_NS, LOWER, UPPER, planned
from tests.unit.test_gate_margin_of_seams import behind_each_other
from tests.unit.test_live_bridged import named, ring

Change = tuple[Plan, Plan]
"""A sound plan, and one after it that is not."""


def of(full: Plan, intent: Intent) -> Change:
    """A plan of this intent without its last stream, and with it."""
    *names, last = full.streams
    fewer = Plan(
        with_streams(intent, *(intent.streams[name] for name in names)),
        {name: full.streams[name] for name in names},
        full.gates,
        full.algorithm,
        addresses={name: its for name, its in full.addresses.items() if name != last},
    )
    return fewer, replace(full, intent=intent)


def two_frames_on_a_link(_: pytest.MonkeyPatch) -> Change:
    def at(offset_ns: int) -> Plan:
        return planned(UPPER, (replace(LOWER[0], offset_ns=offset_ns), *LOWER[1:]))

    return at(FRAME_NS), at(FRAME_NS - 1)


def a_seam_without_its_margin(without: pytest.MonkeyPatch) -> Change:
    sound = plan(behind_each_other())
    without.setattr(Problem, "_seam_ns", lambda *_: 0)
    return sound, plan(behind_each_other())


def more_filtering_entries_than_switches_hold(_: pytest.MonkeyPatch) -> Change:
    full = plan(ring(named("a"), named("b")))
    network = full.intent.network
    bridges = {name: replace(its, filtering_entries_max=1) for name, its in network.bridges.items()}
    return of(full, replace(full.intent, network=replace(network, bridges=bridges)))


def more_stream_filters_than_a_switch_holds(_: pytest.MonkeyPatch) -> Change:
    policing = PolicingRules(Policing.COUNT, {}, {})
    full = plan(ring(named("a"), named("b")).having(policing, FilterCapacity({})))
    filters = {
        name: len(its[StreamFilters].filters) for name, its in bridge_forwardings(full).items()
    }
    fewer = dict.fromkeys(filters, max(filters.values()) - 1)
    return of(full, full.intent.having(FilterCapacity(fewer)))


CHANGES = {
    "overlap": two_frames_on_a_link,
    "gate-seam": a_seam_without_its_margin,
    "filtering-entries": more_filtering_entries_than_switches_hold,
    "stream-filters": more_stream_filters_than_a_switch_holds,
}


@pytest.mark.parametrize("code", CHANGES)
def test_a_change_against_which_one_rule_speaks_is_refused(
    code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change: Callable[[pytest.MonkeyPatch], Change] = CHANGES[code]
    sound, broken = change(monkeypatch)
    judged = Judged(sound)
    assert judged.violations == []
    found = judged.after(broken)
    assert {each.code for each in found} == {code}
    assert found == judge(broken)
