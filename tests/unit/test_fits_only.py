"""Ports that transmit only what ends before its gate closes, and need no long guard bands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.account import wire
from cnc.check import judge
from cnc.errors import InputError, Unschedulable
from cnc.model import Intent, Plan, PortRef
from cnc.planner import gates, moves, plan, ports
from cnc.planner.margin_cost import best_effort_shares
from cnc.plans import file as planfile
from tests.intent_documents import LINE3, line3_with
from tests.simulator.adversary import Slow
from tests.simulator.outcome import is_kept, misses, starved
from tests.unit.planner_networks import LINE, MS, US, intent, stream, with_links

FIRST, LAST = PortRef("s1", "s2"), PortRef("s2", "l")
BEST_EFFORT = 0x01
# Of 12 and of 1542 octets on the slowest link, and how much longer the latter are on it than at the
# nominal rate, by which the port reckons: 12,336 ns at 1 Gb/s.
GAP_NS, LARGEST_NS, OUTLASTS_NS = 97, 12_338, 2
SHORTEST_NS = 480  # the kernel takes no interval that cannot hold 60 octets
MARGIN_NS = 3 * US


def two_streams(**facts: object) -> Intent:
    wanted = intent(
        replace(LINE, **facts),
        stream("a", "t", "l", earliest_ns=100 * US, latest_ns=100 * US),
        stream("b", "t", "l", earliest_ns=600 * US, latest_ns=600 * US),
    )
    return with_links(wanted, fits_only=True)


def guard_bands_ns(planned: Plan, port: PortRef = LAST) -> list[int]:
    """For how long best effort is shut before each planned frame of the port."""
    edges, at = [], 0
    for entry in planned.gates[port].entries:
        edges.append((at, entry.gate_states & BEST_EFFORT))
        at += entry.interval_ns
    found = []
    for its in planned.streams.values():
        offset = next(hop.offset_ns for hop in its.hops if hop.egress == port)
        before = [edge for edge in edges if edge[0] <= offset]
        shut = next(i for i in range(len(before) - 1, -1, -1) if before[i - 1][1])
        found.append(offset - before[shut][0])
    return found


def with_fits_only(planned: Plan, *, fits_only: bool) -> Plan:
    """The plan on ports that do, or do not, hold back what does not fit."""
    return replace(planned, intent=with_links(planned.intent, fits_only=fits_only))


S2 = "ports: [s1, s3]"


def test_a_switch_states_it_for_its_ports_and_a_port_for_itself(tmp_path: Path) -> None:
    ports_of_s2 = "fits-only: true, ports: {s1: {fits-only: false}, s3: {gate-tick: 1ns}}"
    found = intents.load(line3_with(tmp_path, (S2, ports_of_s2)))
    stated = {str(port) for port, link in found.network.links.items() if link.fits_only}
    assert stated == {"s2/s3"}


def test_what_is_no_truth_value_is_refused_with_its_line(tmp_path: Path) -> None:
    path = line3_with(tmp_path, (S2, "ports: {s1: {fits-only: 1}, s3: {gate-tick: 1ns}}"))
    with pytest.raises(InputError) as refused:
        intents.load(path)
    assert ": switches.s2.ports.s1.fits-only: found 1, expected true or false" in str(refused.value)
    assert f"{path}:" in str(refused.value)


@pytest.mark.parametrize("margin_ns", [0, MARGIN_NS])
def test_the_guard_band_is_the_gap_after_a_frame_and_the_gate_margin(margin_ns: int) -> None:
    planned = plan(two_streams(gate_margin_ns=margin_ns))
    assert judge(planned) == []
    assert guard_bands_ns(planned) == [max(margin_ns + GAP_NS + OUTLASTS_NS, SHORTEST_NS)] * 2
    cautious = plan(with_links(planned.intent, fits_only=False))
    assert guard_bands_ns(cautious) == [margin_ns + LARGEST_NS] * 2


def test_no_frame_moves_and_best_effort_keeps_more() -> None:
    """The figures of docs/reference/bounds.md."""
    line3 = intents.load(LINE3)
    before, after = plan(line3), plan(with_links(line3, fits_only=True))
    assert judge(after) == []
    assert after.streams == before.streams
    kept = [best_effort_shares(each) for each in (before, after)]
    assert [f"{share:.1%}" for _, share, _ in filter(None, kept)] == ["92.7%", "97.5%"]


def test_a_plan_around_one_without_the_key_moves_nothing(tmp_path: Path) -> None:
    wanted = two_streams()
    running = plan(with_links(wanted, fits_only=False))
    for keep, now in ((running, wanted), (plan(wanted), running.intent)):
        planned = plan(now, keep=keep)
        assert moves(keep, planned) == []
        assert judge(planned) == []
        assert planned.gates == plan(now).gates


def test_a_plan_file_has_it(tmp_path: Path) -> None:
    path = line3_with(tmp_path, (S2, f"{S2}, fits-only: true"))
    planned = plan(intents.load(path))
    planfile.dump(planned, tmp_path / "plan.json")
    assert planfile.load(tmp_path / "plan.json") == planned
    assert planned.intent.network.links[PortRef("s2", "s3")].fits_only


def test_small_turns_of_best_effort_cost_no_port_its_exact_list() -> None:
    """With short guard bands there is a turn between frames that are near to each other, too."""
    near = [
        stream(f"f{i}", "t", "l", earliest_ns=i * 5 * US, latest_ns=i * 5 * US) for i in range(5)
    ]
    wanted = with_links(intent(LINE, *near), fits_only=True)
    cautious = plan(with_links(wanted, fits_only=False))
    count = len(cautious.gates[LAST].entries)
    assert len(plan(wanted).gates[LAST].entries) > count
    limited = plan(with_links(wanted, LAST, gate_entries_max=count))
    assert limited.gates[LAST] == cautious.gates[LAST]
    assert judge(limited) == []


def test_the_slot_of_best_effort_holds_its_largest_frame_though_the_gate_opens_late() -> None:
    """In each period one frame of this length leaves 20 µs at most: the port holds the largest one
    back if less than its time is left once the gate has opened."""

    def full(margin_ns: int, payload: int) -> Intent:
        busy = stream("a", "t", "l", period_ns=50 * US, payload_octets=payload)
        net = replace(LINE, gate_margin_ns=margin_ns, clock_error_ns=0)
        return with_links(intent(net, busy), fits_only=True)

    assert judge(plan(full(8 * US, 1000))) == []
    with pytest.raises(Unschedulable) as refused:
        plan(full(12 * US, 1000))
    reason = refused.value.reasons[f"port {FIRST}"]
    assert "its largest frame takes 12.338 µs, and its gate may be off by 12 µs;" in reason


def test_the_judge_counts_the_slot_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "slot_ns", lambda _intent, _link: 0)
    busy = stream("a", "t", "l", period_ns=50 * US, payload_octets=1000)
    net = replace(LINE, gate_margin_ns=12 * US, clock_error_ns=0)
    [found] = {v.text for v in judge(plan(with_links(intent(net, busy), fits_only=True)))}
    assert "its largest frame takes 12338 ns and its gate may be off by 12000 ns" in found


@pytest.mark.parametrize("margin_ns", [0, MARGIN_NS])
def test_no_frame_is_late_on_ports_that_keep_to_it_and_frames_are_on_others(
    margin_ns: int,
) -> None:
    planned = plan(two_streams(gate_margin_ns=margin_ns))
    assert misses(planned, Slow(), duration_ns=3 * MS) == []
    assert is_kept(planned, range(10), duration_ns=3 * MS)
    assert starved(planned) == []
    others = with_fits_only(planned, fits_only=False)
    assert misses(others, Slow(), duration_ns=3 * MS)
    assert {v.code for v in judge(others)} == {"gate-guard"}


def test_the_gate_margin_is_part_of_it_or_frames_are_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate that closes late lets a frame end that much later."""
    monkeypatch.setattr(ports, "guard_ns", lambda *_: GAP_NS)
    planned = plan(two_streams(gate_margin_ns=MARGIN_NS))
    assert {v.code for v in judge(planned)} == {"gate-guard"}
    assert misses(planned, Slow(), duration_ns=3 * MS)


def test_so_is_the_gap_after_the_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "guard_ns", lambda *_: MARGIN_NS)
    planned = plan(two_streams(gate_margin_ns=MARGIN_NS))
    assert {v.code for v in judge(planned)} == {"gate-guard"}
    assert misses(planned, Slow(), duration_ns=3 * MS)


def test_so_is_what_a_frame_takes_longer_on_a_slow_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """The port reckons at the nominal rate, at which 1542 octets fitted: at 100 Mb/s they take up
    to 13 ns more. With a second scheduled class frames would have as long for one of that."""
    wanted = with_links(two_streams(gate_margin_ns=2 * MARGIN_NS), rate_bps=10**8)
    one_class = {name: c for name, c in wanted.classes.items() if name != "slower"}
    wanted = replace(wanted, classes=one_class)
    guard_ns = 2 * MARGIN_NS + 961  # the margin, and 12 octets
    planned = plan(wanted)
    assert guard_bands_ns(planned) == [guard_ns + 13] * 2
    assert misses(planned, Slow(), duration_ns=3 * MS) == []
    monkeypatch.setattr(ports, "guard_ns", lambda *_: guard_ns)
    planned = plan(wanted)
    assert {v.code for v in judge(planned)} == {"gate-guard"}
    assert misses(planned, Slow(), duration_ns=3 * MS)
    monkeypatch.setattr(wire, "_longer_ns", lambda *_: 0)
    assert judge(planned) == []  # a judge as wrong as that would allow it


def test_the_guard_of_a_port_that_starts_anything_is_what_it_was() -> None:
    wanted = two_streams(gate_margin_ns=MARGIN_NS)
    link = replace(wanted.network.links[LAST], fits_only=False)
    assert ports.guard_ns(wanted, link) == LARGEST_NS + MARGIN_NS
    assert ports.slot_ns(wanted, link) == LARGEST_NS
