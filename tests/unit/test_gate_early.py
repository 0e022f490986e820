"""Gates that may open and close sooner than their list says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnc import intent as intents
from cnc.check import judge
from cnc.errors import InputError, Unschedulable
from cnc.model import GateControlList, GateEntry, GateMode, Intent, Link, Plan, PortRef, Stream
from cnc.planner import plan
from cnc.planner.incremental import unchanged
from cnc.planner.lateness import port as port_lateness
from cnc.planner.problem import Problem, _HopTimes
from cnc.planner.shares import kept_ns
from cnc.plans import file as planfile
from tests.intent_documents import LINE3, line3_with
from tests.simulator.adversary import Chance, Slow
from tests.simulator.gates import moved
from tests.simulator.outcome import is_kept, misses
from tests.unit.planner_networks import (
    BLOCKING_NS,
    BUSY_NS,
    LINE,
    MS,
    OUTLASTS_NS,
    US,
    examples,
    intent,
    network,
    stream,
    with_links,
)
from tests.unit.planner_networks import (
    intents as random_intents,
)
from tests.unit.test_recovery import assert_in_time_again, planned_to_recover

SCHEDULES = Path(__file__).parents[2] / "schedules"
FIRST, LAST = PortRef("s1", "s2"), PortRef("s2", "l")
EARLY_NS = 300
WINDOW_NS = BUSY_NS + BLOCKING_NS + OUTLASTS_NS
LARGEST_NS = 12_338  # 1542 octets on the slowest link
MEETING = network("t-s1", "u-s3", "s1-s2", "s3-s2", "s2-l")


class Hasty(Slow):
    """All takes as long as it may, and gates are as early as they may be."""

    def early_ns(self, most_ns: int) -> int:
        return most_ns


def early(wanted: Intent, early_ns: int = EARLY_NS) -> Intent:
    bridges = wanted.network.bridges
    ports = [port for port in wanted.network.links if port.node in bridges]
    return with_links(wanted, *ports, gate_early_ns=early_ns)


def on_early_gates(planned: Plan, early_ns: int = EARLY_NS) -> Plan:
    """The plan where gates are as early as it did not expect."""
    return replace(planned, intent=early(planned.intent, early_ns))


def busy() -> Intent:
    """Frames of two classes from two sides, one behind the other on the last port."""
    classes = (("cyclic",), ("slower",))
    return intent(
        MEETING,
        *(
            stream(f"f{i:02}", "tu"[i % 2], "l", traffic_classes=classes[i // 2 % 2])
            for i in range(12)
        ),
    )


def test_the_port_comes_before_the_switch_and_the_switch_before_the_default(
    tmp_path: Path,
) -> None:
    path = line3_with(
        tmp_path,
        ("  clock-error:", "  gate-early: 100ns\n  clock-error:"),
        ("ports: [s1, s3]", "gate-early: 50ns, ports: {s1: {gate-early: 20ns}, s3: {}}"),
        (
            "end-stations: [t1, t2, l1, l2]",
            "end-stations: {t1: {gates: software, management: 10.99.0.9}, t2: {}, l1: {}, l2: {}}",
        ),
    )
    links = intents.load(path).network.links
    stated = {str(port): link.gate_early_ns for port, link in links.items()}
    assert (stated["s2/s1"], stated["s2/s3"], stated["s1/s2"]) == (20, 50, 100)
    assert (stated["t1/eth0"], stated["t2/eth0"]) == (100, 0)


def test_what_is_no_duration_is_refused_with_its_line(tmp_path: Path) -> None:
    path = line3_with(tmp_path, ("ports: [s1, s3]", "gate-early: -5ns, ports: [s1, s3]"))
    with pytest.raises(InputError) as error:
        intents.load(path)
    assert f"{path}:41: switches.s2.gate-early: found '-5ns', expected a duration" in str(
        error.value
    )


def test_a_window_stays_open_for_as_long_as_its_gate_may_be_early() -> None:
    single = intent(LINE, stream("a", "t", "l"))
    exact, planned = plan(single), plan(early(single))
    for port, more in ((FIRST, EARLY_NS), (LAST, EARLY_NS)):
        windows = [
            next(e.interval_ns for e in each.gates[port].entries if e.gate_states == 0xC0)
            for each in (exact, planned)
        ]
        assert windows == [WINDOW_NS, WINDOW_NS + more]
    assert planned.streams == exact.streams  # it moves nobody where nobody is in the way
    assert judge(planned) == []


def test_frames_are_in_time_whenever_gates_are_early() -> None:
    planned = plan(early(busy()))
    assert planned.streams.keys() == busy().streams.keys()
    assert judge(planned) == []
    assert misses(planned, Hasty(), duration_ns=3 * MS) == []
    assert is_kept(planned, range(20), duration_ns=3 * MS)


def test_they_are_not_in_time_by_a_plan_that_does_not_expect_it() -> None:
    unaware = on_early_gates(plan(busy()))
    assert any(misses(unaware, Chance(seed), duration_ns=3 * MS) for seed in range(20))
    assert {v.code for v in judge(unaware)} >= {"gate-window", "gate-exclusive"}


def test_the_judge_wants_the_window_to_the_nanosecond() -> None:
    planned = plan(early(intent(LINE, stream("a", "t", "l"))))
    assert judge(planned) == []
    found = judge(on_early_gates(planned, EARLY_NS + 1))
    assert {v.code for v in found} == {"gate-window", "gate-exclusive"}
    assert all(f"and gates may change {EARLY_NS + 1} ns early" in v.text for v in found)


def test_the_next_switch_expects_frames_as_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port with a short list keeps nobody waiting: there the order hangs on when frames come."""
    wanted = early(
        intent(MEETING, *(stream(f"f{i:02}", "tu"[i % 2], "l") for i in range(12))), 2 * US
    )
    wanted = with_links(wanted, LAST, gate_entries_max=8)
    assert judge(plan(wanted, algorithm="waiting")) == []
    compute = Problem._compute_hop

    def unaware(self: Problem, link: Link, its: Stream) -> _HopTimes:
        times = compute(self, link, its)
        return times._replace(min_ns=times.min_ns + link.gate_early_ns)

    monkeypatch.setattr(Problem, "_compute_hop", unaware)
    assert {v.code for v in judge(plan(wanted, algorithm="waiting"))} == {"fifo"}


def test_the_slot_of_best_effort_may_end_early() -> None:
    """Between two windows it has some time, of which early gates take twice what they are early."""
    full = stream("a", "t", "l", period_ns=50 * US, payload_octets=1000)
    wanted = intent(replace(LINE, clock_error_ns=0), full)
    slot = kept_ns(wanted, wanted.network.links[LAST], plan(wanted).gates[LAST])
    most = (slot - LARGEST_NS) // 2  # the window is longer by it, and the slot ends sooner
    assert judge(plan(early(wanted, most))) == []
    with pytest.raises(Unschedulable) as error:
        plan(early(wanted, most + 2))
    reason = error.value.reasons[f"port {FIRST}"]
    assert (
        "best effort would starve: its largest frame takes 12.338 µs, and its gate may be" in reason
    )


def test_the_gates_of_a_talker_keep_its_best_effort_back_for_longer() -> None:
    stations = LINE.end_stations
    station = replace(stations["t"], gate_mode=GateMode.SOFTWARE)
    net = replace(LINE, end_stations={**stations, "t": station})
    wanted = with_links(intent(net, stream("a", "t", "l")), gate_early_ns=EARLY_NS)
    planned = plan(wanted)
    assert judge(planned) == []
    shut = sum(
        e.interval_ns for e in planned.gates[PortRef("t", "s1")].entries if e.gate_states == 0xD0
    )
    assert shut == LARGEST_NS + BLOCKING_NS + BUSY_NS + EARLY_NS
    earlier = replace(planned, intent=with_links(wanted, gate_early_ns=2 * EARLY_NS))
    on_its_port = {v.code for v in judge(earlier) if v.where == "t/s1"}
    assert on_its_port == {"gate-exclusive"}


@pytest.mark.parametrize("name", ["line3", "line5", "ring6", "bridged5"])
def test_a_shipped_network_recovers_though_its_gates_are_early(name: str) -> None:
    """It takes longer than with exact gates. On ring6 a frame may come at the very moment at which
    an opening ends, and that opening need not send it if it ends early: that saves 2.2 µs, and
    300 ns at each edge cost less."""
    shipped = intents.load(SCHEDULES / f"{name}.yaml")
    planned, earlier = plan(early(shipped)), plan(early(shipped, 1000))
    assert judge(planned) == judge(earlier) == []
    assert planned.streams.keys() == earlier.streams.keys() == shipped.streams.keys()
    assert max(earlier.recovery_ns.values()) > max(plan(shipped).recovery_ns.values())


@examples(max_examples=40)
@given(random_intents(streams_max=5), st.sampled_from([100, 3000]), st.integers(0, 1000))
def test_after_a_disturbance_all_is_as_before_when_it_is_promised(
    wanted: Intent, early_ns: int, seed: int
) -> None:
    ports = [port for port in wanted.network.links if port.node in wanted.network.bridges]
    stating = with_links(early(wanted, early_ns), *ports, fits_only=True)
    planned = planned_to_recover(stating, 20 * US)
    if planned is None:
        return
    assert_in_time_again(planned, 20 * US, seed)


def test_openings_that_end_early_serve_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planner that counts them whole promises too much, and the judge says so."""
    wanted = early(intents.load(LINE3), 20 * US)
    openings = port_lateness.openings
    monkeypatch.setattr(
        port_lateness,
        "openings",
        lambda gates, opened, shut, _early: openings(gates, opened, shut, 0),
    )
    assert "recovery" in {v.code for v in judge(plan(wanted))}


def test_a_running_stream_is_placed_anew_where_its_gates_are_earlier_than_before() -> None:
    wanted = intent(LINE, stream("a", "t", "l"))
    running = plan(wanted)
    assert unchanged(wanted, running)
    assert not unchanged(early(wanted), running)


def test_a_plan_file_has_it(tmp_path: Path) -> None:
    path = line3_with(tmp_path, ("  clock-error:", "  gate-early: 100ns\n  clock-error:"))
    planned = plan(intents.load(path))
    planfile.dump(planned, tmp_path / "plan.json")
    assert planfile.load(tmp_path / "plan.json") == planned
    assert planned.intent.network.links[PortRef("s2", "s3")].gate_early_ns == 100


def test_the_simulator_moves_each_edge_of_a_list_and_keeps_their_order() -> None:
    listed = GateControlList(100, (GateEntry(1, 20), GateEntry(2, 30), GateEntry(4, 50)))
    amounts = iter([10, 0, 40])
    found = moved(listed, lambda: next(amounts))
    assert [(e.gate_states, e.interval_ns) for e in found.entries] == [
        *((1, 20), (2, 1), (4, 69), (1, 10)),
    ]
