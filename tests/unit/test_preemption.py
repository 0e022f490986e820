"""Ports where best effort gives way to express frames (IEEE 802.1Q-2022 6.7.2, 802.3-2018 99)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnc.account import wire
from cnc.check import judge
from cnc.errors import Unschedulable
from cnc.mechanisms import terms
from cnc.model import GateMode, Intent, PortRef, Shaper, Windows
from cnc.planner import plan, ports
from cnc.planner.margin_cost import best_effort_shares
from tests.simulator.adversary import Chance, Nobody, Slow
from tests.simulator.outcome import misses
from tests.unit.planner_networks import (
    BEST_EFFORT,
    CLASSES,
    CYCLIC,
    LINE,
    MS,
    intent,
    intents,
    stream,
    with_links,
)

FAST_ETHERNET_BPS = 100_000_000
GIGABIT_BPS = 1_000_000_000
LAST = PortRef("s2", "l")
JUMBO = replace(BEST_EFFORT, max_frame_octets=9_000)


def offloaded(wanted: Intent, *, preemption: bool) -> Intent:
    """The intent with switches that run their lists in hardware, and may preempt."""
    network = wanted.network
    bridges = {
        name: replace(its, gate_mode=GateMode.FULL_OFFLOAD) for name, its in network.bridges.items()
    }
    wanted = replace(wanted, network=replace(network, bridges=bridges))
    switch_ports = [port for port in network.links if port.node in bridges]
    return with_links(wanted, *switch_ports, preemption=preemption)


def wanted(*, preemption: bool, rate_bps: int = FAST_ETHERNET_BPS, **facts: object) -> Intent:
    classes = tuple(JUMBO if c.name == BEST_EFFORT.name else c for c in CLASSES)
    asked = intent(LINE, stream("a", "t", "l", max_latency_ns=3 * MS, **facts), classes=classes)
    return offloaded(with_links(asked, rate_bps=rate_bps), preemption=preemption)


def test_a_frame_of_9000_octets_holds_an_express_frame_for_one_piece_and_not_720_us() -> None:
    """By hand, at 100 Mb/s and 100 ppm slower: 9,020 octets on the wire take 721.7 µs. Of a frame
    that gives way 123 octets cannot be divided, 9.84 µs, with preamble and gap 143: 11.44 µs."""
    for preempts, figures in ((False, ({721_673}, {0})), (True, ({0}, {11_442}))):
        asked = wanted(preemption=preempts)
        link = asked.network.links[LAST]
        (best_effort,) = asked.unplanned_classes()
        guards = {ports.guard_ns(asked, link), wire.guard_ns(asked, link, best_effort)}
        held = {terms.interference_ns(asked, link), wire.best_effort_ns(asked, link)}
        assert (guards, held) == figures
    assert terms.UNDIVIDED_OCTETS * 8 * 10 == 9_840


@pytest.mark.parametrize(("octets", "piece"), [(64, 64), (123, 123), (124, 123), (9_000, 123)])
def test_what_cannot_be_divided_is_123_octets_or_a_shorter_frame(octets: int, piece: int) -> None:
    """124 is the shortest frame that can be: 60 octets and a check of 4, and 64 that are left."""
    classes = (*CLASSES[:-1], replace(BEST_EFFORT, max_frame_octets=octets))
    asked = with_links(intent(LINE, classes=classes), rate_bps=GIGABIT_BPS, preemption=True)
    link = asked.network.links[LAST]
    assert -(-(piece + 20) * 8 * 10_000 // 9_999) == terms.gives_way_ns(asked, link)
    assert terms.gives_way_ns(asked, link) == wire.merged_ns(asked, link)


def test_a_class_with_a_bound_of_its_own_does_not_give_way() -> None:
    """Its bound knows nothing of fragments, and what each of them adds to its frame."""
    shaped = replace(BEST_EFFORT, shaper=Shaper.STRICT)
    asked = with_links(intent(LINE, classes=(*CLASSES[:-1], shaped)), preemption=True)
    link = asked.network.links[LAST]
    assert (terms.gives_way_ns(asked, link), wire.merged_ns(asked, link)) == (0, 0)
    assert ports.guard_ns(asked, link) == wire.guard_ns(asked, link, shaped) > 0


@pytest.mark.parametrize("windows", [Windows.EXACT, Windows.SHARED])
def test_a_port_that_preempts_beside_others_that_do_not_has_figures_of_its_own(
    windows: Windows,
) -> None:
    asked = wanted(preemption=False, windows=windows, period_ns=4 * MS)
    for ports_there in ([LAST], [PortRef("s1", "s2")]):
        planned = plan(with_links(asked, *ports_there, preemption=True))
        assert judge(planned) == []
        assert misses(planned, Slow(), duration_ns=12 * MS) == []


@pytest.mark.parametrize("windows", [Windows.EXACT, Windows.SHARED])
def test_best_effort_keeps_what_guard_bands_took(windows: Windows) -> None:
    plain, preempting = (
        plan(wanted(preemption=preemption, windows=windows, period_ns=4 * MS))
        for preemption in (False, True)
    )
    assert judge(preempting) == []
    for adversary in (Slow(), Nobody()):
        assert misses(preempting, adversary, duration_ns=12 * MS) == []
    kept = [(best_effort_shares(each) or ("", 0.0))[1] for each in (plain, preempting)]
    assert kept[1] - kept[0] > 0.17
    # A frame waits for a piece at each switch, and less for control, which waits for one, too.
    bounds = [each.streams["a"].latency_bound_ns for each in (plain, preempting)]
    assert bounds[1] < bounds[0]


def test_a_period_that_has_no_room_for_a_guard_band_is_planned_with_preemption() -> None:
    with pytest.raises(Unschedulable, match="best effort would starve"):
        plan(wanted(preemption=False))
    assert judge(plan(wanted(preemption=True))) == []


def test_a_judge_that_forgets_the_piece_is_told_apart_by_the_frames(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A planner that forgets it is refused; with a judge that forgets it, too, frames are late.
    Without control, whose figures have some room."""
    asked = wanted(preemption=True)
    alone = replace(asked, classes={c.name: c for c in (CYCLIC, JUMBO)})
    assert misses(plan(alone), Slow(), duration_ns=3 * MS) == []
    monkeypatch.setattr(terms, "gives_way_ns", lambda *_: 0)
    planned = plan(alone)
    assert {"bound", "gate-window"} <= {each.code for each in judge(planned)}
    assert misses(planned, Slow(), duration_ns=3 * MS)
    monkeypatch.setattr(wire, "merged_ns", lambda *_: 0)
    assert judge(planned) == []


def test_a_judge_that_wants_whole_guard_bands_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = plan(wanted(preemption=True))
    monkeypatch.setattr(Intent, "preemptable_classes", lambda *_: [])
    assert "gate-guard" in {each.code for each in judge(planned)}


@settings(max_examples=40)
@given(asked=intents(), seed=st.integers(0, 1 << 16))
def test_no_frame_is_late_in_any_network_that_preempts(asked: Intent, seed: int) -> None:
    try:
        alike = offloaded(asked, preemption=True)
        some = [port for number, port in enumerate(alike.network.links) if seed >> number & 1]
        planned = plan(with_links(alike, *some, preemption=False) if some else alike)
    except Unschedulable:
        return
    assert judge(planned) == []
    for adversary in (Slow(), Chance(seed)):
        assert misses(planned, adversary, duration_ns=20 * MS) == []


def test_preemption_is_refused_where_nothing_configures_it() -> None:
    planned = plan(wanted(preemption=True))
    network = planned.intent.network
    bridges = {
        name: replace(its, gate_mode=GateMode.SOFTWARE) for name, its in network.bridges.items()
    }
    software = replace(planned.intent, network=replace(network, bridges=bridges))
    found = judge(replace(planned, intent=software))
    assert {each.code for each in found} == {"preemption"}
