"""Cyclic queuing and forwarding: what is admitted, with which bound, and what the judge says."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import yaml

from cnc import intent as intents
from cnc.check import judge
from cnc.errors import InputError, Unschedulable
from cnc.mechanisms.composition import bridge_forwardings
from cnc.mechanisms.stream_filters.model import CyclicGate, StreamFilters
from cnc.model import GateEntry, Plan, PortRef, Stream, TalkerInterference
from cnc.page.data import page_data
from cnc.planner import Live, plan
from cnc.plans import file as planfile
from cnc.service.refused import CallRefused
from tests.simulator.cyclic import Cyclic, disordered, late
from tests.unit.cyclic_networks import document, intent_of, random_intent, stream
from tests.unit.planner_networks import MS, US, seeded
from tests.unit.service_network import CUC, ONE, Switches, service

UP, TO_LISTENER = PortRef("s1", "up"), PortRef("s3", "l1")


def codes(made: Plan) -> set[str]:
    return {each.code for each in judge(made)}


def many(count: int, **keys: Any) -> dict[str, dict[str, Any]]:
    return {f"f{n}": stream(f"t{1 + n % 2}", **keys) for n in range(count)}


def sends_ns(made: Plan, until_ns: int = 60 * MS, runs: int = 2) -> tuple[list[Any], list[Any]]:
    """The frames that are late, and those out of order, in simulated runs."""
    behind, out = [], []
    for seed in range(runs):
        arrivals = Cyclic(made, seeded(seed)).run(until_ns)
        assert arrivals
        behind += late(made, arrivals)
        out += disordered(arrivals)
    return behind, out


class TestBound:
    def test_it_is_as_many_intervals_as_there_are_switches_and_what_surrounds_them(self):
        """By hand, 1 Gb/s, 3 switches, T = 2 ms: the talker is 20 us late, waits for a frame of
        1,542 octets (12,338 ns), sends 242 (1,937 ns) and what control may meanwhile. Then 0.5 us
        of cable and 10 us of the first switch, 3 T, the window of 1 ms, 0.5 us, and 2 us of
        clocks."""
        made = plan(intent_of(shaping={"by": "cqf", "cycle": "2ms"}))
        control_ns = -(-(1185 * 10 + 12_338 + (20_000 + 12_338 + 1_937)) // 9)
        access_ns = 20_000 + 12_338 + 1_937 + control_ns
        beyond_ns = 500 + 10_000 + 3 * 2 * MS + 1 * MS + 500 + 2 * 1_000
        assert made.streams["a"].latency_bound_ns == pytest.approx(access_ns + beyond_ns, abs=2)
        assert made.streams["a"].latency_bound_ns < (3 + 1) * 2 * MS
        assert not judge(made)

    def test_each_switch_more_adds_an_interval(self):
        bounds = [
            plan(intent_of(switches=n, shaping={"by": "cqf", "cycle": "1ms"}))
            .streams["a"]
            .latency_bound_ns
            for n in (1, 2, 5)
        ]
        assert bounds[1] - bounds[0] == MS
        assert bounds[2] - bounds[1] == 3 * MS

    def test_the_farthest_listener_counts(self):
        streams = {"a": stream("t1", "t2", "l1")}
        made = plan(intent_of(streams=streams, shaping={"by": "cqf", "cycle": "1ms"}))
        assert made.streams["a"].latency_bound_ns > 3 * MS
        assert not judge(made)

    def test_streams_of_a_talker_wait_for_each_others_bursts(self):
        alone = plan(intent_of(shaping={"by": "cqf", "cycle": "1ms"}))
        beside = plan(
            intent_of(
                streams={"a": stream(), "b": stream(frames=10)},
                shaping={"by": "cqf", "cycle": "1ms"},
            )
        )
        more_ns = beside.streams["a"].latency_bound_ns - alone.streams["a"].latency_bound_ns
        assert more_ns >= 10 * 1_936  # and what control sends meanwhile
        assert not judge(beside)


class TestInterval:
    def test_it_is_the_longest_that_divides_the_periods_and_keeps_latencies(self):
        def chosen(latency: str, period: str = "4ms") -> int:
            streams = {"a": stream(period=period, **{"max-latency": latency})}
            made = plan(intent_of(streams=streams))
            assert not judge(made)
            return made.streams["a"].interval_ns

        assert chosen("20ms") == 4 * MS
        assert chosen("14ms") == 2 * MS  # 3.5 intervals of 4 ms, and the rest
        assert chosen("5ms") == MS  # a third of 4 ms is no whole number of nanoseconds
        assert chosen("20ms", "6ms") == 3 * MS

    def test_a_stated_one_holds(self):
        made = plan(intent_of(shaping={"by": "cqf", "cycle": "500us"}))
        assert made.streams["a"].interval_ns == 500 * US
        assert made.gates[UP].cycle_ns == 1 * MS

    def test_a_stream_for_which_none_is_short_enough_is_refused_with_its_figures(self):
        streams = {"a": stream(**{"max-latency": "200us"}), "b": stream("t2")}
        with pytest.raises(Unschedulable, match=r"a: in cycles of .* its max-latency is 200"):
            plan(intent_of(streams=streams))
        made = plan(intent_of(streams=streams, best_effort=True), best_effort=True)
        assert list(made.streams) == ["b"]


class TestWindows:
    def test_the_two_queues_are_open_in_turn_once_in_two_intervals(self):
        made = plan(intent_of(shaping={"by": "cqf", "cycle": "1ms", "share": "40%"}))
        assert made.gates[UP].entries == (
            GateEntry(0xA0, 400 * US),
            GateEntry(0x81, 600 * US),
            GateEntry(0x90, 400 * US),
            GateEntry(0x81, 600 * US),
        )

    def test_they_open_later_where_clocks_differ_by_more_than_a_frame_is_under_way(self):
        made = plan(
            intent_of(shaping={"by": "cqf", "cycle": "1ms"}, defaults={"clock-error": "10us"})
        )
        lead = made.gates[UP].entries[0]
        # 500 ns of cable, 80 octets with preamble, without gap: 576 ns on the fastest link.
        assert lead.gate_states == 0x81
        assert 10 * US - 500 - 640 <= lead.interval_ns <= 10 * US - 500 - 570
        assert not judge(made)

    def test_a_share_that_leaves_no_dead_time_is_refused_with_its_port(self):
        with pytest.raises(InputError, match=r"windows of 985 .* behind them"):
            intent_of(shaping={"by": "cqf", "cycle": "1ms", "share": "98.5%"})

    def test_a_planned_frame_leaves_between_them(self):
        streams = {"a": stream(), "axis": stream("t2", **{"class": "axes"})}
        made = plan(intent_of(streams=streams, shaping={"by": "cqf", "cycle": "1ms"}))
        assert not judge(made)
        assert made.gates[UP].cycle_ns == 4 * MS
        assert {e.gate_states for e in made.gates[UP].entries} >= {0xA0, 0x90, 0xC0}
        assert not made.streams["axis"].is_cyclic


class TestStreamGates:
    def test_frames_of_even_intervals_get_the_queue_of_odd_ones_wherever_they_come_in(self):
        made = plan(intent_of(shaping={"by": "cqf", "cycle": "1ms"}, policing="off"))
        found = {
            PortRef(switch, its.of.port): its.gate
            for switch, told in bridge_forwardings(made).items()
            for its in told[StreamFilters].filters
            if isinstance(its.gate, CyclicGate)
        }
        gate = CyclicGate(MS, even=4, odd=5)
        assert found == {
            PortRef("s1", "t1"): gate,
            PortRef("s2", "down"): gate,
            PortRef("s3", "down"): gate,
        }


class TestAdmission:
    def test_a_port_takes_as_many_frames_of_an_interval_as_leave_in_a_window(self):
        """A window of 1 ms in 2 ms at 100 Mb/s: 19,362 ns a frame of 242 octets, 143,386 ns for a
        frame of best effort and the margin, 11,842 ns for control and what comes meanwhile."""
        keys = {
            "switches": 1,
            "talkers": 10,
            "shaping": {"by": "cqf", "cycle": "2ms"},
            "defaults": {"rate": "100Mbps"},
        }
        streams = {f"f{n}": stream(f"t{1 + n % 10}", period="8ms") for n in range(60)}
        made = plan(intent_of(streams=streams, best_effort=True, **keys), best_effort=True)
        work_ns = len(made.streams) * 19_362
        assert work_ns < 1 * MS - 143_386 - 11_842
        assert work_ns > (1 * MS - 143_386 - 11_842 - 13_000) * 0.9 - 2 * 19_362
        reason = next(iter(made.refused.values()))
        assert reason.startswith("s1/l1: ")
        assert "frames may come in one interval of 2 ms" in reason
        assert not judge(made)

    def test_a_burst_that_its_talker_holds_back_counts_with_the_next_one(self):
        def load(period: str) -> int:
            streams = {f"f{n}": stream(f"t{1 + n % 4}", period=period) for n in range(400)}
            keys = {"talkers": 4, "shaping": {"by": "cqf", "cycle": "1ms", "share": "50%"}}
            made = plan(intent_of(streams=streams, best_effort=True, **keys), best_effort=True)
            assert not judge(made)
            return len(made.streams)

        assert load("1ms") < 0.6 * load("4ms")  # two bursts may come in one interval of a period

    def test_a_stream_that_would_make_another_of_its_talker_late_is_refused(self):
        streams = {
            "a": stream(**{"max-latency": "3700us"}),
            "b": stream(frames=150),
        }
        made = plan(
            intent_of(streams=streams, shaping={"by": "cqf", "cycle": "1ms"}, best_effort=True),
            best_effort=True,
        )
        assert made.refused["b"].startswith("t1/eth0: behind its burst stream a would be late")

    def test_kept_streams_keep_their_place_before_new_ones(self):
        keys = {"shaping": {"by": "cqf", "cycle": "1ms"}, "best_effort": True}
        before = plan(intent_of(streams=many(300), **keys), best_effort=True)
        assert before.refused
        newcomers = {"new": stream("t1"), **many(300)}
        after = plan(intent_of(streams=newcomers, **keys), keep=before, best_effort=True)
        assert after.streams.keys() >= before.streams.keys()
        assert "new" in after.refused

    def test_streams_of_periods_without_a_common_cycle_go_together(self):
        streams = {
            f"f{n}": stream(f"t{1 + n % 2}", period=f"{p}ms")
            for n, p in enumerate((7, 11, 13, 17, 19))
        }
        made = plan(intent_of(streams=streams, shaping={"by": "cqf", "cycle": "1ms"}))
        assert not judge(made)


class TestSimulated:
    @pytest.mark.parametrize("seed", range(12))
    def test_every_frame_is_within_its_bound_and_in_order(self, seed):
        made = plan(random_intent(seed), best_effort=True)
        if not any(its.is_cyclic for its in made.streams.values()):
            pytest.skip("no stream of this network is admitted")
        assert not judge(made)
        behind, out = sends_ns(made)
        assert not behind
        assert not out

    def test_some_frames_need_nearly_all_of_their_bound(self):
        made = plan(
            intent_of(streams=many(60), shaping={"by": "cqf", "cycle": "1ms", "share": "30%"})
        )
        arrivals = Cyclic(made, seeded(1)).run(300 * MS)
        worst = max(
            each.latency_ns / made.streams[each.frame.stream].latency_bound_ns for each in arrivals
        )
        assert 0.85 < worst <= 1


def altered(made: Plan, port: PortRef, *entries: GateEntry) -> Plan:
    gates = replace(made.gates[port], entries=entries)
    return replace(made, gates={**made.gates, port: gates})


@pytest.fixture(scope="module")
def sound() -> Plan:
    keys = {"shaping": {"by": "cqf", "cycle": "1ms", "share": "40%"}}
    made = plan(intent_of(streams=many(40), **keys))
    assert not judge(made)
    return made


class TestJudge:
    def test_windows_of_the_other_parity_are_noticed(self, sound):
        wrong = altered(sound, UP, *sound.gates[UP].entries[2:], *sound.gates[UP].entries[:2])
        assert codes(wrong) == {"cqf-window"}
        assert sends_ns(wrong) != ([], [])

    def test_a_window_up_to_the_end_of_its_interval_is_noticed(self, sound):
        wrong = altered(
            sound,
            UP,
            GateEntry(0x81, 595 * US),
            GateEntry(0xA0, 405 * US),
            GateEntry(0x81, 595 * US),
            GateEntry(0x90, 405 * US),
        )
        assert codes(wrong) == {"cqf-window"}

    def test_without_a_dead_time_frames_slip_into_another_interval(self):
        shaping = {"by": "cqf", "cycle": "1ms", "share": "40%"}
        wrong = plan(intent_of(streams=many(60, period="1ms"), shaping=shaping))
        late = (GateEntry(0x81, 850 * US), GateEntry(0xA0, 150 * US))
        for port in (UP, PortRef("s2", "up")):
            wrong = altered(wrong, port, *late, late[0], GateEntry(0x90, 150 * US))
        assert codes(wrong) == {"cqf-window"}
        assert sends_ns(wrong) != ([], [])

    def test_without_a_lead_frames_leave_an_interval_too_early_by_clocks_that_differ(self):
        keys = {"defaults": {"clock-error": "20us", "propagation": "0ns"}}
        made = plan(intent_of(streams=many(40), shaping={"by": "cqf", "cycle": "1ms"}, **keys))
        half = (GateEntry(0x81, 500 * US), GateEntry(0x90, 500 * US))
        wrong = made
        for port in made.gates:
            wrong = altered(wrong, port, GateEntry(0xA0, 500 * US), half[0], half[1], half[0])
        assert codes(wrong) == {"cqf-window"}
        soonest_ns = [
            min(each.latency_ns for each in Cyclic(its, seeded(4)).run(60 * MS))
            for its in (made, wrong)
        ]
        assert soonest_ns[0] > 2 * MS > soonest_ns[1]

    def test_a_window_that_is_too_short_is_noticed(self, sound):
        entries = (GateEntry(0xA0, 50 * US), GateEntry(0x81, 950 * US))
        wrong = altered(sound, UP, *entries, GateEntry(0x90, 50 * US), entries[1])
        assert codes(wrong) == {"cqf-room"}
        assert sends_ns(wrong) != ([], [])

    def test_a_window_with_best_effort_in_it_is_noticed(self, sound):
        first, *rest = sound.gates[UP].entries
        assert codes(altered(sound, UP, GateEntry(0xA1, first.interval_ns), *rest)) == {
            "cqf-window"
        }

    def test_a_list_that_shuts_control_or_starves_best_effort_is_noticed(self, sound):
        first, second, *rest = sound.gates[UP].entries
        shut = altered(sound, UP, GateEntry(0x20, first.interval_ns), second, *rest)
        assert codes(shut) == {"gate-control"}
        never = [
            GateEntry(each.gate_states & ~1, each.interval_ns) for each in sound.gates[UP].entries
        ]
        assert codes(altered(sound, UP, *never)) == {"starved-best-effort"}

    def test_a_bound_that_is_too_small_is_noticed(self, sound):
        first = sound.streams["f0"]
        less = replace(first, latency_bound_ns=first.latency_bound_ns - 2)
        assert codes(replace(sound, streams={**sound.streams, "f0": less})) == {"bound"}

    def test_a_stream_that_is_forwarded_otherwise_than_its_class_is_noticed(self, sound):
        its = sound.streams["f0"]
        without = replace(sound, streams={**sound.streams, "f0": replace(its, interval_ns=0)})
        assert "cqf-interval" in codes(without)
        longer = replace(sound, streams={**sound.streams, "f0": replace(its, interval_ns=2 * MS)})
        assert "cqf-interval" in codes(longer)

    def test_a_planned_stream_that_may_wait_for_more_than_is_planned_is_noticed(self):
        streams = {"a": stream(), "axis": stream("t1", **{"class": "axes"})}
        made = plan(intent_of(streams=streams, shaping={"by": "cqf", "cycle": "1ms"}))
        assert not judge(made)
        network = made.intent.network
        alone = replace(network.end_stations["t1"], interference=TalkerInterference.NONE)
        network = replace(network, end_stations={**network.end_stations, "t1": alone})
        wrong = replace(made, intent=replace(made.intent, network=network))
        assert codes(wrong) == {"cqf-talker"}

    def test_a_scheduled_stream_said_to_be_cyclic_is_noticed(self):
        streams = {"a": stream(), "axis": stream("t2", **{"class": "axes"})}
        made = plan(intent_of(streams=streams, shaping={"by": "cqf", "cycle": "1ms"}))
        its = replace(made.streams["axis"], interval_ns=MS)
        assert "cqf-interval" in codes(replace(made, streams={**made.streams, "axis": its}))


# What a planner could leave out or mistake, each by what it is called in its module.
BOUND, WINDOWS = (f"cnc.mechanisms.cqf.{each}" for each in ("bound", "windows"))
TALKER = "cnc.mechanisms.talker_link"
LEDGER = "cnc.mechanisms.cqf.admission"
MISTAKES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "no lead for clocks": (f"{WINDOWS}.lead_ns", lambda _own: lambda _network: 0),
    "no dead time": ("cnc.mechanisms.cqf.obstacles.dead_ns", lambda _own: lambda *_: 0),
    "one interval too few": (
        f"{LEDGER}.beyond_talker_ns",
        lambda own: lambda intent, cyclic, *rest: own(intent, cyclic, *rest) - cyclic.interval_ns,
    ),
    "no clock error": (
        f"{LEDGER}.beyond_talker_ns",
        lambda own: lambda intent, *rest: own(intent, *rest) - 2 * intent.network.clock_error_ns,
    ),
    "no processing of the first switch": (
        f"{LEDGER}.beyond_talker_ns",
        lambda own: lambda *rest: own(*rest) - 10_000,
    ),
    "no window": (
        f"{LEDGER}.beyond_talker_ns",
        lambda own: (
            lambda intent, cyclic, *rest: own(intent, cyclic, *rest) - cyclic.queuing.open_ns
        ),
    ),
    "a talker's burst alone": (
        f"{TALKER}.TalkerLink.access_ns",
        lambda _own: lambda its, _reserve=0: its.lateness_ns + 2 * max(its._work_ns.values()),
    ),
    "no jitter of bursts": (f"{LEDGER}.bursts_in_interval", lambda _own: lambda *_: 1),
    "no control in windows": (
        f"{BOUND}.PortWindow.needed_ns",
        lambda _own: lambda its, load: its._wait_ns + load.work_ns,
    ),
    "no wait in windows": (
        f"{BOUND}.PortWindow.needed_ns",
        lambda own: lambda its, load: own(its, load) - its._wait_ns,
    ),
    "payload alone on the wire": (
        f"{LEDGER}.burst_ns",
        lambda own: (
            lambda intent, stream, link: (
                own(intent, stream, link) - stream.frames * 8 * 42 * 10**9 // link.rate_bps
            )
        ),
    ),
    "frames of a burst counted once": (
        f"{LEDGER}.burst_ns",
        lambda own: lambda intent, stream, link: own(intent, replace(stream, frames=1), link),
    ),
    "even and odd confused": (
        "cnc.mechanisms.stream_filters.derive.CyclicGate",
        lambda own: lambda interval_ns, even, odd: own(interval_ns, odd, even),
    ),
    "an interval of half the length at gates": (
        "cnc.mechanisms.stream_filters.derive.CyclicGate",
        lambda own: lambda interval_ns, even, odd: own(interval_ns // 2, even, odd),
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_judge_notices_a_planner_that_is_wrong(mistake, monkeypatch):
    place, made_wrong = MISTAKES[mistake]
    module, name = place.rsplit(".", 1)
    owner: Any = __import__("importlib").import_module(
        module.removesuffix(".TalkerLink").removesuffix(".PortWindow")
    )
    if module.endswith((".TalkerLink", ".PortWindow")):
        owner = getattr(owner, module.rsplit(".", 1)[1])
    found: Counter[str] = Counter()
    wanted = [random_intent(seed, beside=False) for seed in range(8)]
    wanted.append(
        intent_of(
            streams=many(4),
            shaping={"by": "cqf", "cycle": "1ms"},
            defaults={"clock-error": "20us", "propagation": "0ns"},
        )
    )
    monkeypatch.setattr(owner, name, made_wrong(getattr(owner, name)))
    if mistake == "no dead time":
        shaping = {"by": "cqf", "cycle": "1ms", "share": "98.4%"}
        wanted = [intent_of(streams=many(4), shaping=shaping)]
    if mistake == "no lead for clocks":
        for other in ("bound", "interval", "obstacles"):
            monkeypatch.setattr(f"cnc.mechanisms.cqf.{other}.lead_ns", lambda _network: 0)
    for each in wanted:
        found.update(v.code for v in judge(plan(each, best_effort=True)))
    assert found


class TestIntent:
    @pytest.mark.parametrize(
        ("keys", "text"),
        [
            ({"classes": {"sensors-odd": {"shaping": {"odd-of": "axes"}}}}, "expected sensors"),
            ({"classes": {"axes": {"shaping": "cqf"}}}, "one such class"),
            (
                {"classes": {"sensors-odd": {"shaping": {"odd-of": "sensors", "cycle": "1ms"}}}},
                "that of",
            ),
            ({"classes": {"sensors": {"windows": "shared"}}}, "one of both"),
            ({"classes": {"sensors-odd": {"policing": "drop"}}}, "policing"),
            (
                {"classes": {"best-effort": {"shaping": {"odd-of": "sensors"}}}},
                "role best-effort|second queue",
            ),
            ({"streams": {"a": stream(**{"class": "sensors-odd"})}}, "second queue"),
            ({"streams": {"a": stream(**{"class": ["sensors", "axes"]})}}, "alone"),
            ({"streams": {"a": stream(**{"max-jitter": "1ms"})}}, "max-jitter"),
            ({"streams": {"a": stream(window="0us..100us")}}, "window"),
            ({"defaults": {"recovery": {"disturbance": "100us", "required": True}}}, "recovery"),
            ({"forwarding": "routed"}, "routed network"),
        ],
    )
    def test_what_would_have_no_effect_is_refused(self, keys, text):
        with pytest.raises(InputError, match=text):
            intent_of(**keys)

    def test_a_class_without_its_second_queue_is_refused(self):
        wrong = document()
        del wrong["classes"]["sensors-odd"]
        with pytest.raises(InputError, match=r"no class with its second queue"):
            intents.from_document(wrong, "cyclic")

    def test_planned_streams_of_its_talkers_go_before_it(self):
        streams = {"a": stream(), "axis": stream("t1", **{"class": "axes"})}
        intent_of(streams=streams)
        with pytest.raises(
            InputError, match="t1 has talker-interference: none, and its planned stream axis"
        ):
            intent_of(streams=streams, defaults={"talker-interference": "none"})
        classes = {"axes": {"traffic-class": 3, "priority": 3}}
        with pytest.raises(InputError, match="before whose frames any number of class sensors go"):
            intent_of(streams=streams, classes=classes)


def test_a_plan_file_has_the_intervals_of_its_streams(tmp_path):
    made = plan(intent_of(streams=many(3)))
    planfile.dump(made, tmp_path / "plan.json")
    again = planfile.load(tmp_path / "plan.json")
    assert again.streams == made.streams
    assert '"format": "cnc-plan/6"' in (tmp_path / "plan.json").read_text()
    assert not judge(again)


class TestLive:
    """Streams that come and go one by one."""

    SHAPING: ClassVar[dict[str, str]] = {"by": "cqf", "cycle": "1ms"}

    def live(self, reserve: str = "20%", **streams: dict[str, Any]) -> Live:
        classes = {"sensors": {"reserve": reserve}} if reserve else {}
        made = plan(intent_of(streams=streams, shaping=self.SHAPING, classes=classes))
        return Live(made)

    def wanted(self, **streams: dict[str, Any]) -> list[Stream]:
        return list(intent_of(streams=streams, shaping=self.SHAPING).streams.values())

    def test_one_is_admitted_while_bursts_of_its_talker_have_the_reserve_of_the_class(self):
        live = self.live(a=stream())
        promised = live.plan.streams["a"]
        for number in range(60):
            changes = live.add(self.wanted(**{f"new{number}": stream()}))
            assert changes.gates == {}
            assert changes.ports >= {PortRef("t1", "eth0"), UP, TO_LISTENER}
        assert live.plan.streams["a"] == promised
        assert not judge(live.plan)
        with pytest.raises(Unschedulable, match="would come later than is promised"):
            live.add(self.wanted(big=stream(frames=60)))
        assert not judge(live.plan)

    def test_without_a_reserve_others_of_a_talker_would_be_later_than_promised(self):
        live = self.live(reserve="", a=stream())
        with pytest.raises(Unschedulable, match="`reserve` of the class"):
            live.add(self.wanted(b=stream()))
        live.add(self.wanted(c=stream("t2")))
        assert live.plan.streams.keys() == {"a", "c"}
        assert not judge(live.plan)

    def test_what_a_port_has_to_send_is_counted_as_streams_come_and_no_longer_as_they_go(self):
        live = self.live(reserve="90%", **many(2))
        come = self.wanted(**{f"new{n}": stream(f"t{1 + n % 2}") for n in range(214)})
        live.add(come)
        assert not judge(live.plan)
        more = self.wanted(more=stream())
        with pytest.raises(Unschedulable, match=r"more: s1/up: .* frames may come in one interval"):
            live.add(more)
        live.remove([come[0].name])
        live.add(self.wanted(again=stream("t1")))
        assert not judge(live.plan)

    def test_planned_streams_come_and_go_beside_them(self):
        live = self.live(a=stream())
        before = live.plan
        live.add(self.wanted(axis=stream("t2", **{"class": "axes"})))
        assert not judge(live.plan)
        live.add(self.wanted(b=stream()))
        live.remove(["axis", "b"])
        assert live.plan.streams == before.streams
        assert live.plan.gates == before.gates
        assert not judge(live.plan)

    def test_a_planned_stream_is_refused_at_a_talker_that_has_none_to_wait_for_by_its_plan(self):
        keys = {"shaping": self.SHAPING, "defaults": {"talker-interference": "none"}}
        live = Live(plan(intent_of(streams={"a": stream()}, **keys)))
        with pytest.raises(Unschedulable, match="t1 has talker-interference: none"):
            live.add(self.wanted(axis=stream("t1", **{"class": "axes"})))
        assert not judge(live.plan)

    def test_a_planned_stream_that_makes_bursts_of_its_talker_later_than_promised_is_refused(self):
        live = self.live(reserve="", a=stream())
        with pytest.raises(Unschedulable, match="a, which runs: t1/eth0"):
            live.add(self.wanted(axis=stream("t1", **{"class": "axes"})))
        assert live.plan.streams.keys() == {"a"}
        live.add(self.wanted(other=stream("t2", **{"class": "axes"})))
        assert not judge(live.plan)


def test_planned_frames_are_placed_again_where_the_interval_changes():
    streams = {"a": stream(), "axis": stream("t2", **{"class": "axes"})}
    before = plan(intent_of(streams=streams, shaping={"by": "cqf", "cycle": "2ms"}))
    wanted = intent_of(streams=streams, shaping={"by": "cqf", "cycle": "500us"})
    after = plan(wanted, keep=before)
    assert not judge(after)
    assert after.streams["a"].interval_ns == 500 * US


def test_the_page_has_the_way_of_a_stream_without_instants():
    streams = {"a": stream("t1", "l1", "l2")}
    data = page_data(plan(intent_of(streams=streams, shaping={"by": "cqf", "cycle": "1ms"})))
    (found,) = data["streams"]
    names = [each["name"] for each in data["nodes"]]
    ways = [[names[node] for node in way] for way in found["ways"]]
    assert ways == [["t1", "s1", "s2", "s3", "l1"], ["t1", "s1", "s2", "s3", "l2"]]
    assert len(found["ports"]) == 5
    assert (found["interval_ns"], found["hops"]) == (MS, [])


def test_a_service_admits_streams_that_come_and_refuses_what_has_no_room(tmp_path):
    file = tmp_path / "cyclic.yaml"
    classes = {"sensors": {"reserve": "20%"}}
    shaping = {"by": "cqf", "cycle": "1ms"}
    file.write_text(yaml.safe_dump(document(shaping=shaping, classes=classes)))
    switches = Switches()
    long = "00-1B-21-00-00-01:00-09"

    async def ask() -> None:
        async with service(tmp_path, switches, file=file) as asking:
            put = await asking.put(ONE, stream("t2"))
            assert (put["state"], put["placed"]) == ("planned", True)
            assert 3 * MS < put["status"]["latency_bound_ns"] < 4 * MS
            await asking.until(ONE, "configured")
            with pytest.raises(CallRefused, match="would come later than is promised"):
                await asking.put(long, stream("t2", frames=400))
            await asking.call("stream.delete", {"cuc": CUC, "stream_id": ONE})

    asyncio.run(asyncio.wait_for(ask(), 60))
    added = switches.plans[-1] if len(switches.plans[-1].streams) == 2 else switches.plans[0]
    assert added.streams["a"].is_cyclic
    assert all(not judge(each) for each in switches.plans)
