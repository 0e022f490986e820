"""The credit-based shaper and strict priority: what is admitted, with which bound, and what the
judge says."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

import pytest

from cnc.check import judge
from cnc.errors import InputError, Unschedulable
from cnc.mechanisms.cbs.model import IdleSlopes
from cnc.model import Plan, PortRef, Shaper, Theory
from cnc.page.data import page_data
from cnc.planner import plan
from cnc.plans import file as planfile
from tests.simulator.shaped import Harm, Shaped, search
from tests.unit.planner_networks import MS, seeded
from tests.unit.shaped_networks import intent_of, one_class, random_intent, ring_of, stream

TO_LISTENER = PortRef("s1", "l1")
AXIS = {"class": "axes", "payload": "100B", "period": "1ms", "max-latency": "1ms"}


def codes(made: Plan) -> set[str]:
    return {each.code for each in judge(made)}


def slopes(made: Plan, port: PortRef = TO_LISTENER) -> dict[int, int]:
    return dict(made[IdleSlopes].by_port[port])


class TestBound:
    def test_strict_priority_by_hand(self):
        """One switch, 100 Mb/s less 100 ppm. The talker, 0 late, waits for a frame of 1,542 octets
        (123.37 us), sends 242 (19.36), and what control may (148 octets and 1 Mb/s of the 1% more
        that these take: 13.4). Then 0.5 us of cable and 10 of the switch. There the frame waits for
        a frame below (123.37) and control (11.85) with what comes meanwhile (1%), leaves (19.36)
        and is there 0.5 us later, by a clock that is 1 us off."""
        streams = {"a": stream(payload="200B", **{"class": "events"})}
        made = plan(intent_of(switches=1, streams=streams))
        at_talker_ns = 123_372 + 19_362 + (11_841 + (2 * 123_372 + 19_362) // 100) * 100 // 99
        at_switch_ns = (123_372 + 11_841) * 100 // 99 + 720 + 19_362
        expected_ns = at_talker_ns + 500 + 10_000 + at_switch_ns + 500 + 1_000
        assert made.streams["a"].latency_bound_ns == pytest.approx(expected_ns, abs=200)
        assert made.streams["a"].shaper is Shaper.STRICT
        assert made.streams["a"].theory is Theory.STRICT
        assert not judge(made)

    def test_a_frame_behind_others_waits_for_their_credit(self):
        """Of three frames the last begins two idle times later: 2 x 1,242 octets at the slope."""
        one = plan(intent_of(switches=1, streams={"a": stream()}))
        three = plan(
            intent_of(
                switches=1,
                streams={"a": stream(frames=3, period="12ms")},
                classes={"video": {"shaping": {"by": "cbs", "idle-slope": "2510kbps"}}},
            )
        )
        slope_bps = slopes(three)[5]
        assert slope_bps == slopes(one)[5]
        longer_ns = three.streams["a"].latency_bound_ns - one.streams["a"].latency_bound_ns
        assert longer_ns == pytest.approx(2 * 1_242 * 8 * 10**9 // slope_bps, rel=0.12)

    def test_the_slope_is_what_the_streams_need_and_no_less_than_stated(self):
        """1,242 octets each 4 ms are 2.484 Mb/s; control takes 1% of the link before."""
        made = plan(intent_of(switches=1, streams={"a": stream()}))
        assert slopes(made) == {5: pytest.approx(2_484_000 / 0.99, rel=0.001)}
        shaping = {"by": "cbs", "idle-slope": "20Mbps"}
        stated = plan(intent_of(switches=1, classes={"video": {"shaping": shaping}}))
        assert slopes(stated) == {5: 20_000_000}
        assert stated.streams["a"].latency_bound_ns <= made.streams["a"].latency_bound_ns

    def test_the_slope_is_corrected_for_the_time_that_gates_are_shut(self):
        beside = {"a": stream(), "axis": stream("t2", **AXIS)}
        made = plan(intent_of(switches=1, streams=beside))
        alone = plan(intent_of(switches=1, streams={"a": stream()}))
        assert 1.2 < slopes(made)[5] / slopes(alone)[5] < 1.6
        assert made.streams["axis"].theory is Theory.SCHEDULED
        assert not judge(made)

    def test_a_switch_more_costs_no_burst_more(self):
        bounds = [
            plan(intent_of(switches=n)).streams["a"].latency_bound_ns for n in (1, 2, 3, 4, 5)
        ]
        for fewer, more in pairwise(bounds):
            assert more - fewer < MS

    def test_the_farthest_listener_counts(self):
        near, far = (
            plan(intent_of(streams={"a": stream("t1", *listeners)})).streams["a"]
            for listeners in (["t2"], ["t2", "l1"])
        )
        assert far.latency_bound_ns > near.latency_bound_ns


class TestAgainstTheWorstThatIsFound:
    """A bound is never exceeded, and not far from what an adversary finds."""

    INSTANCES: ClassVar[dict[str, tuple[int, float, dict[str, Any]]]] = {
        "one hop": (1, 1.2, {f"f{n}": stream(f"t{n + 1}", payload="1400B") for n in range(4)}),
        "one hop of strict priority": (
            1,
            1.2,
            {f"f{n}": stream(f"t{n + 1}", frames=2, **{"class": "events"}) for n in range(3)},
        ),
        "three hops": (3, 2.0, {f"f{n}": stream(f"t{n + 1}", frames=2) for n in range(3)}),
        "three hops beside gates": (
            3,
            2.0,
            {**{f"f{n}": stream(f"t{n + 1}") for n in range(3)}, "axis": stream("t4", **AXIS)},
        ),
        "five hops": (5, 3.0, {f"f{n}": stream(f"t{n + 1}", period="2ms") for n in range(3)}),
    }

    @pytest.mark.parametrize("name", INSTANCES)
    def test_of_instances_that_are_here(self, name):
        hops, most, streams = self.INSTANCES[name]
        made = plan(intent_of(switches=hops, talkers=4, streams=streams))
        assert 1 <= self.ratio(made) <= most

    @pytest.mark.parametrize(
        ("seed", "hops", "most"),
        [(0, 1, 1.2), (1, 1, 1.2), (4, 3, 2.0), (6, 3, 2.0), (7, 5, 3.0)],
    )
    def test_of_instances_that_are_drawn(self, seed, hops, most):
        made = plan(one_class(seed, hops))
        assert 1 <= self.ratio(made) <= most

    def ratio(self, made: Plan) -> float:
        assert not judge(made)
        rounds = 80 if len(made.intent.network.bridges) == 1 else 30
        return made.streams["f0"].latency_bound_ns / search(made, "f0", seeded(1), rounds)

    @pytest.mark.parametrize("seed", range(12))
    def test_no_bound_is_exceeded_in_random_networks(self, seed):
        made = plan(random_intent(seed), best_effort=True)
        random, shaped = seeded(seed), [n for n, its in made.streams.items() if its.shaper]
        for harm in (Harm(), Harm(freezes=True), Harm(0.5, 0.5, 0.5)):
            phases_ns = {n: random.randrange(8 * MS) for n in shaped}
            phases_ns = {n: ns % made.intent.streams[n].period_ns for n, ns in phases_ns.items()}
            for name, worst_ns in Shaped(made, phases_ns, random, harm).run().items():
                assert worst_ns <= made.streams[name].latency_bound_ns, name


class TestRing:
    def test_ports_that_wait_for_each_other_have_bounds(self):
        made = plan(ring_of(5, 2))
        assert len({its.latency_bound_ns for its in made.streams.values()}) == 1
        assert not judge(made)

    def test_a_ring_without_an_end_is_refused(self):
        with pytest.raises(Unschedulable, match="no bound is found"):
            plan(ring_of(13, 5, payload="1400B", **{"max-latency": "100ms"}))


class TestAdmission:
    def test_what_fits_no_port_is_refused_with_the_port_and_the_rates(self):
        streams = {f"f{n}": stream(f"t{n + 1}", frames=9) for n in range(4)}
        axis = stream("t1", **AXIS)
        with pytest.raises(Unschedulable) as refused:
            plan(intent_of(switches=1, talkers=4, streams={**streams, "axis": axis}))
        assert "s1/l1: streams of class video send" in str(refused.value)

    def test_a_stream_that_would_be_late_is_refused_alone(self):
        streams = {"a": stream(), "b": stream("t2", **{"max-latency": "300us"})}
        made = plan(intent_of(streams=streams, best_effort=True), best_effort=True)
        assert list(made.streams) == ["a"]
        assert "its max-latency is 300 µs" in made.refused["b"]
        assert not judge(made)

    def test_a_stream_that_comes_raises_no_bound_that_is_promised(self):
        before = plan(intent_of(streams={"a": stream()}))
        with pytest.raises(Unschedulable, match="beside it stream a would take up to"):
            plan(intent_of(streams={"a": stream(), "b": stream("t2")}), keep=before)
        again = plan(intent_of(streams={"a": stream()}), keep=before)
        assert again.streams == before.streams

    def test_room_that_is_stated_lets_another_stream_come(self):
        """`idle-slope` of the class is for more than its streams, and the second has a lower
        class."""
        before = plan(intent_of(streams={"a": stream()}))
        later = {"a": stream(), "b": stream("t2", **{"class": "audio"})}
        after = plan(intent_of(streams=later), keep=before)
        assert after.streams["a"] == before.streams["a"]
        assert not judge(after)


class TestPlan:
    def test_a_plan_file_has_all_of_it(self, tmp_path):
        made = plan(intent_of(streams={"a": stream(), "axis": stream("t2", **AXIS)}))
        planfile.dump(made, tmp_path / "plan.json")
        again = planfile.load(tmp_path / "plan.json")
        assert again.streams == made.streams
        assert again[IdleSlopes] == made[IdleSlopes]
        assert '"format": "cnc-plan/7"' in (tmp_path / "plan.json").read_text()

    def test_the_page_says_by_which_theory(self):
        (its,) = page_data(plan(intent_of()))["streams"]
        assert its["theory"] == "CBS"
        assert "interval_ns" not in its

    def test_ports_with_gates_have_a_list_that_leaves_them_open(self):
        made = plan(intent_of(switches=1))
        (entry,) = made.gates[TO_LISTENER].entries
        assert [n for n in range(8) if entry.gate_states >> n & 1] == [0, 3, 4, 5, 7]


CBS = "cnc.mechanisms.cbs"


# What a planner could leave out or mistake, each by what it is called in its module.
MISTAKES: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "no frame of a class below": ("ports.Port", "_below_bits", lambda _own: lambda *_: 0),
    "a frame below once for a class with credit": (
        "ports.Port",
        "_below_bits",
        lambda own: lambda its, c: own(its, c) // (2 if c.shaper is Shaper.CREDIT else 1),
    ),
    "no control": (
        "ports.Port",
        "_control",
        lambda own: lambda its, c: own(its, c)._replace(burst_bits=0, rate_bps=0),
    ),
    "no classes above": (
        "ports.Port",
        "services",
        lambda own: (
            lambda its, c, above, late: own(
                its,
                c,
                {n: a._replace(burst_bits=0) for n, a in above.items()},
                {n: a._replace(burst_bits=0) for n, a in late.items()},
            )
        ),
    ),
    "gates that are never shut": (
        "ports",
        "closed",
        lambda own: lambda *rest: own(*rest)._replace(burst_ns=0),
    ),
    "no jitter of bursts": (
        "flows.Flow",
        "bits_within",
        lambda _own: lambda *_: 0,
    ),
    "no wait at the talker": (
        "bounds",
        "access_ns",
        lambda own: lambda intent, flows: {p: ns // 2 for p, ns in own(intent, flows).items()},
    ),
    "no processing": ("bounds._Network", "_crosses_ns", lambda _own: lambda its, port: 500),
    "no clock error": (
        "bounds._Network",
        "_latencies_ns",
        lambda own: lambda its: {n: ns - 1_000 for n, ns in own(its).items()},
    ),
    "frames of a burst counted once": (
        "flows.Flow",
        "burst_bits",
        lambda _own: property(lambda its: its.frame_bits),
    ),
    "services of ports in a row without what goes beside": (
        "bounds._Network",
        "_in_row",
        lambda own: lambda its, chain, number, flows: own(its, chain[:1], number, flows),
    ),
    "a slope without what gates take": (
        "ports.Port",
        "_left_ppb",
        lambda _own: lambda *_: 10**9,
    ),
    "gates that open in time": (
        "curves",
        "outlasts_ns",
        lambda _own: lambda intent, *_: -intent.network.gate_margin_ns,
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_judge_notices_a_planner_that_is_wrong(mistake, monkeypatch):
    place, name, made_wrong = MISTAKES[mistake]
    module, _, of_class = place.partition(".")
    owner: Any = importlib.import_module(f"{CBS}.{module}")
    owner = getattr(owner, of_class) if of_class else owner
    wanted = [random_intent(seed) for seed in range(6)]
    monkeypatch.setattr(owner, name, made_wrong(getattr(owner, name)))
    found: Counter[str] = Counter()
    for each in wanted:
        found.update(v.code for v in judge(plan(each, best_effort=True)))
    assert found


class TestJudge:
    @pytest.mark.parametrize("seed", range(8))
    def test_it_agrees_with_a_planner_that_is_right(self, seed):
        assert not judge(plan(random_intent(seed), best_effort=True))

    def test_a_bound_that_is_a_little_too_small_is_noticed(self):
        made = plan(intent_of())
        its = made.streams["a"]
        less = replace(its, latency_bound_ns=its.latency_bound_ns - 5_000)
        assert codes(replace(made, streams={"a": less})) == {"bound"}

    def test_a_missing_slope_and_one_too_many_are_noticed(self):
        made = plan(intent_of(switches=1))
        none = replace(made, parts=made.parts.having(IdleSlopes()))
        assert "idle-slope" in codes(none)
        more = IdleSlopes({**made[IdleSlopes].by_port, PortRef("s1", "l2"): {5: 1_000_000}})
        assert codes(replace(made, parts=made.parts.having(more))) == {"idle-slope"}

    def test_a_way_that_ends_before_the_listener_is_noticed(self):
        made = plan(intent_of())
        its = made.streams["a"]
        cut = replace(its, paths=(its.paths[0][:-1],))
        assert codes(replace(made, streams={"a": cut})) >= {"route"}

    def test_a_stream_with_another_shaper_than_its_class_is_noticed(self):
        made = plan(intent_of())
        other = replace(made.streams["a"], shaper=Shaper.STRICT)
        assert "shaper" in codes(replace(made, streams={"a": other}))


class TestIntent:
    @pytest.mark.parametrize(
        ("keys", "text"),
        [
            ({"classes": {"video": {"role": "scheduled", "max-frame": "1542B"}}}, "best-effort"),
            ({"classes": {"video": {"shaping": {"by": "cbs", "cycle": "1ms"}}}}, "shaping: cqf"),
            ({"classes": {"video": {"shaping": {"by": "cbs", "share": "10%"}}}}, "shaping: cqf"),
            (
                {"classes": {"events": {"shaping": {"by": "strict", "idle-slope": "1Mbps"}}}},
                "a class with shaping: cbs",
            ),
            ({"classes": {"video": {"priority": 0}, "best-effort": {"priority": 5}}}, "unmarked"),
            (
                {"classes": {"best-effort": {"traffic-class": 6}, "axes": {"traffic-class": 0}}},
                "any number of its frames may come",
            ),
            ({"streams": {"a": stream(**{"class": ["video", "audio"]})}}, "alone"),
            ({"streams": {"a": stream(**{"max-jitter": "1ms"})}}, "max-jitter"),
            ({"streams": {"a": stream(window="0us..100us")}}, "window"),
            ({"forwarding": "routed"}, "routed network"),
            ({"defaults": {"gates": "full-offload"}}, "gates: software"),
        ],
    )
    def test_what_would_have_no_effect_is_refused(self, keys, text):
        with pytest.raises(InputError, match=text):
            intent_of(**keys)

    def test_planned_streams_of_its_talkers_go_before_it(self):
        low = {"axes": {"traffic-class": 2, "priority": 2}}
        streams = {"a": stream(), "axis": stream("t1", **AXIS)}
        with pytest.raises(InputError, match="any number of streams with shaping go"):
            intent_of(streams=streams, classes=low)
        assert not judge(plan(intent_of(streams=streams)))
