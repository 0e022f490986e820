"""Clocks that differ by their hops in the clock tree: what planner, judge and simulator make of
it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.account import travel
from cnc.check import judge
from cnc.errors import InputError, Unschedulable
from cnc.model import Intent, Network, Plan
from cnc.model.clock_error import ClockErrors
from cnc.planner import plan
from cnc.planner.incremental import unchanged
from cnc.planner.problem import Problem
from cnc.plans import file as planfile
from tests.intent_documents import line3_with
from tests.simulator.adversary import Chance, Slow
from tests.simulator.clocks import clocks_ns
from tests.simulator.outcome import is_kept, misses, unsteady
from tests.unit.planner_networks import (
    BEST_EFFORT,
    CYCLIC,
    MS,
    OUTLASTS_NS,
    RECEIVED_MIN_NS,
    RECEIVED_NS,
    SLOWER,
    US,
    intent,
    network,
    stream,
    with_full_offload,
    with_links,
)
from tests.unit.test_planner_late_hops import long_line

EACH_NS, MOST_NS = 100, 1000
# A frame of 100 octets on the slowest link, and its cable; the switch behind that. A switch starts
# it behind a frame of another class, which may have outlasted its gate.
LINK_NS = RECEIVED_NS + 100
FIRST_NS, HOP_NS = LINK_NS + 1000, OUTLASTS_NS + LINK_NS + 1000


def by_hops(net: Network, each_ns: int = EACH_NS, most_ns: int = MOST_NS) -> Network:
    return replace(net, clock_error_ns=most_ns, clock_error_neighbours_ns=each_ns)


def line(switches: int, *stations: str) -> Network:
    names = [f"s{number}" for number in range(1, switches + 1)]
    cables = [f"{one}-{other}" for one, other in pairwise(names)]
    ends = [*(f"{station}-s1" for station in ("t", *stations)), f"{names[-1]}-l"]
    return by_hops(with_full_offload(network(*cables, *ends, processing_ns=(1000, 1000))))


def across(switches: int, **requirements: object) -> Intent:
    return intent(line(switches), stream("a", "t", "l", **requirements), classes=CLASSES)


CLASSES = (CYCLIC, SLOWER, BEST_EFFORT)


class Drifting(Slow):
    """All takes as long as it may, and each clock is ahead of the one that it follows, or behind;
    the grandmaster is the last node by name, or the first, and so are those that follow it."""

    def __init__(self, step: int, *, first: bool) -> None:
        self._step = step
        self._place = 0 if first else -1

    def chosen(self, several):  # type: ignore[no-untyped-def]
        return sorted(several)[self._place]

    def clock_step_ns(self, most_ns: int) -> int:
        return self._step * most_ns


DRIFTS = [Drifting(step, first=first) for step in (-1, 1) for first in (True, False)]


def late(planned: Plan) -> list[str]:
    """Frames that are late for a clock that drifts, or by chance."""
    found = [miss for each in DRIFTS for miss in misses(planned, each, duration_ns=3 * MS)]
    for seed in range(12):
        found += misses(planned, Chance(seed, loss=0), duration_ns=3 * MS)
    return found


def documented(tmp_path: Path, clock_error: str) -> Path:
    return line3_with(tmp_path, ("  clock-error: 1us ", f"  clock-error: {clock_error} "))


def test_an_intent_states_both_figures(tmp_path: Path) -> None:
    net = intents.load(documented(tmp_path, "{network: 1us, neighbours: 100ns}")).network
    assert (net.clock_error_ns, net.clock_error_neighbours_ns) == (1000, 100)
    for alone in ("1us", "{network: 1us}"):
        net = intents.load(documented(tmp_path, alone)).network
        assert (net.clock_error_ns, net.clock_error_neighbours_ns) == (1000, None)
    assert intents.load(documented(tmp_path, "{network: measured}")).wants_measured_clock_error


@pytest.mark.parametrize(
    ("stated", "refused"),
    [
        (
            "{network: 1us, neighbours: 1us}",
            "clock-error.neighbours: found 1us, expected less than network, 1us",
        ),
        (
            "{network: measured, neighbours: 100ns}",
            "clock-error.network: found measured, expected a duration such as 1us, as neighbours",
        ),
        ("{neighbours: 100ns}", "clock-error: found no network, expected maximum difference"),
        ("{network: 1us, neighbours: 0.1}", "clock-error.neighbours: found 0.1, expected a dur"),
        ("1", "clock-error: found 1, expected a duration such as 250us, 1ms, or measured"),
    ],
)
def test_what_has_no_effect_or_no_unit_is_refused_with_its_line(
    tmp_path: Path, stated: str, refused: str
) -> None:
    path = documented(tmp_path, stated)
    with pytest.raises(InputError) as error:
        intents.load(path)
    assert f"{path}:21: defaults.{refused}" in str(error.value)


def test_a_hop_waits_out_what_its_two_clocks_differ() -> None:
    """The bound has one such error for each hop, and that of talker and last switch once."""
    planned = plan(across(5))
    hops = planned.streams["a"].hops
    gaps = [b.offset_ns - a.offset_ns for a, b in pairwise(hops)]
    assert gaps == [FIRST_NS + EACH_NS] + [HOP_NS + EACH_NS] * 4
    last_ns = OUTLASTS_NS + LINK_NS + 5 * EACH_NS
    assert planned.streams["a"].latency_bound_ns == sum(gaps) + last_ns
    assert judge(planned) == []
    assert late(planned) == []


@pytest.mark.parametrize(("each_ns", "bound_ns"), [(None, 203_293), (50, 142_493)])
def test_a_line_of_64_switches_takes_less_time(each_ns: int | None, bound_ns: int) -> None:
    """The figures of docs/reference/bounds.md."""
    wanted = across(64)
    net = replace(wanted.network, clock_error_neighbours_ns=each_ns)
    planned = plan(replace(wanted, network=net))
    assert planned.streams["a"].latency_bound_ns == bound_ns
    assert judge(planned) == []


def test_a_controller_reaches_farther_along_64_switches_than_with_one_error_for_all() -> None:
    """98 of 128 streams in 125 µs, where 93 have a place with the error of the network alone."""
    figures = {"period_ns": 125 * US, "max_latency_ns": 125 * US}
    there = [stream(f"there{n}", "a", f"b{n}", **figures) for n in range(1, 65)]
    back = [stream(f"back{n}", f"b{n}", "a", **figures) for n in range(1, 65)]
    wanted = long_line(64, *there, *back)
    planned = plan(replace(wanted, network=by_hops(wanted.network, 50)), best_effort=True)
    assert len(planned.streams) >= 98
    assert judge(planned) == []


@pytest.mark.parametrize("spared", [1, 3, 4])
def test_late_hops_are_the_last_of_a_way_and_spare_one_error_each(spared: int) -> None:
    latency = plan(across(5)).streams["a"].latency_bound_ns - spared * EACH_NS
    planned = plan(across(5, max_latency_ns=latency))
    gaps = [b.offset_ns - a.offset_ns for a, b in pairwise(planned.streams["a"].hops)]
    waiting = [FIRST_NS + EACH_NS] + [HOP_NS + EACH_NS] * (4 - spared)
    assert gaps == waiting + [HOP_NS] * spared
    assert planned.streams["a"].latency_bound_ns == latency
    assert judge(planned) == []
    assert late(planned) == []


def test_a_refusal_has_the_sum_of_the_clock_errors() -> None:
    """If no hop waits, it is that of talker and listener, six hops away."""
    with pytest.raises(Unschedulable) as error:
        plan(across(5, max_latency_ns=10 * US))
    reason = error.value.reasons["a"]
    assert "clock error 0.6 µs (clock-error 1 µs, 100 ns between neighbours, stated)" in reason


def neighbours_only(net: Network) -> ClockErrors:
    """What planner and judge would know if any two clocks differed as neighbours do."""
    return ClockErrors(
        replace(net, clock_error_ns=net.clock_error_neighbours_ns, clock_error_neighbours_ns=None)
    )


def test_a_planner_for_which_all_clocks_are_neighbours_makes_frames_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    latency = plan(across(5)).streams["a"].latency_bound_ns - 5 * EACH_NS
    monkeypatch.setattr(
        Problem, "clocks", property(lambda its: neighbours_only(its.intent.network))
    )
    planned = plan(across(5, max_latency_ns=latency))
    assert {v.code for v in judge(planned)} >= {"bound"}
    assert late(planned)
    monkeypatch.setattr(travel, "ClockErrors", neighbours_only)
    assert judge(planned) == []  # a judge as wrong as that would allow it


def ring() -> Intent:
    """A stream from one switch of a ring to the next, and others that share the last port."""
    net = network(
        *(f"s{n}-s{n % 6 + 1}" for n in range(1, 7)),
        "t-s1",
        "u-s2",
        "s2-l",
        processing_ns=(1000, 1000),
    )
    streams = (stream("a", "t", "l"), stream("b", "u", "l"))
    return intent(by_hops(with_full_offload(net)), *streams, classes=CLASSES)


def test_neighbours_in_a_ring_differ_by_the_whole_ring() -> None:
    """The clock tree may leave out the cable between them."""
    planned = plan(ring())
    first, second, _ = planned.streams["a"].hops
    assert second.offset_ns - first.offset_ns == FIRST_NS + EACH_NS
    last = planned.streams["a"].hops[2].offset_ns
    assert last - second.offset_ns >= HOP_NS + 5 * EACH_NS
    assert judge(planned) == []
    assert late(planned) == []


def test_hops_of_the_way_instead_of_the_tree_make_frames_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A planner that takes the cable between two switches for one hop of the tree."""

    class ByWay(ClockErrors):
        def between_ns(self, one: str, other: str) -> int:
            apart = super().between_ns(one, other)
            return EACH_NS if {one, other} == {"s1", "s2"} else min(apart, 3 * EACH_NS)

    monkeypatch.setattr(Problem, "clocks", property(lambda its: ByWay(its.intent.network)))
    planned = plan(ring())
    assert {v.code for v in judge(planned)} & {"bound", "gate-window", "overlap", "precedence"}
    assert late(planned)


def test_jitter_counts_the_clocks_of_the_last_switch_and_the_listener() -> None:
    """However far away the talker's clock is."""
    least_ns = 2 * EACH_NS + OUTLASTS_NS + RECEIVED_NS - RECEIVED_MIN_NS
    limited = across(20, max_jitter_ns=least_ns)
    planned = plan(limited)
    assert planned.jitter_ns == {"a": {"l": least_ns}}
    assert judge(planned) == []
    assert unsteady(planned, [*DRIFTS, *map(Chance, range(10))], duration_ns=3 * MS) == []
    with pytest.raises(Unschedulable, match=r"clock error 0\.2 µs"):
        plan(across(20, max_jitter_ns=least_ns - 1))


def test_frames_that_no_port_holds_back_keep_their_order() -> None:
    """On ports with short lists the error counts from the clock that held the frame back."""
    busy = intent(
        line(4, "u", "v"),
        *(stream(f"f{n}", "tuv"[n % 3], "l") for n in range(9)),
        classes=CLASSES,
    )
    planned = plan(with_links(busy, gate_entries_max=8))
    assert planned.streams.keys() == busy.streams.keys()
    assert judge(planned) == []
    assert late(planned) == []
    assert is_kept(planned, range(10), duration_ns=3 * MS)


def test_another_cable_that_makes_the_tree_longer_moves_a_running_stream() -> None:
    """Its offsets rested on how far its clocks were apart."""
    wanted = across(4)
    running = plan(wanted)
    assert unchanged(wanted, running)
    net = wanted.network
    closed = network(*(f"s{n}-s{n + 1}" for n in range(1, 4)), "s4-s1", "t-s1", "s4-l")
    links = {port: net.links.get(port, link) for port, link in closed.links.items()}
    assert not unchanged(replace(wanted, network=replace(net, links=links)), running)
    with pytest.raises(InputError, match="another clock error"):
        unchanged(replace(wanted, network=by_hops(net, EACH_NS + 1)), running)


def test_a_plan_file_has_it(tmp_path: Path) -> None:
    path = documented(tmp_path, "{network: 1us, neighbours: 100ns}")
    planned = plan(intents.load(path))
    planfile.dump(planned, tmp_path / "plan.json")
    assert planfile.load(tmp_path / "plan.json") == planned
    assert judge(planned) == []


@pytest.mark.parametrize("seed", range(6))
def test_the_clocks_of_the_simulator_differ_by_no_more_than_they_may(seed: int) -> None:
    net = ring().network
    errors = ClockErrors(net)
    found = clocks_ns(net, Chance(seed))
    for one, its in found.items():
        for other, others in found.items():
            assert abs(its - others) <= errors.between_ns(one, other)


def test_the_simulator_drifts_as_far_as_clocks_may() -> None:
    net = by_hops(line(5), EACH_NS, 450)
    apart = [
        max(found.values()) - min(found.values()) for found in (clocks_ns(net, d) for d in DRIFTS)
    ]
    assert max(apart) == 450
