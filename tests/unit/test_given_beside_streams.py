"""Streams beside classes whose windows are given by share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnc import intent as intents
from cnc.check import judge
from cnc.check.change import Judged
from cnc.errors import InputError, Unschedulable
from cnc.mechanisms.gates.openings import openings
from cnc.model import GateControlList, GateEntry, Intent, Plan, PortRef
from cnc.planner import Live, moves, plan
from cnc.plans import file as planfile
from tests.intent_documents import DEFAULTS, ROUTED_CLASSES, class_of

US = 1_000
BETWEEN, TO_LISTENER, BACK = PortRef("s1", "s2"), PortRef("s2", "l1"), PortRef("s2", "s1")
CONTROL, CYCLIC, HIGH, BEST_EFFORT = 0x80, 0x40, 0x20, 0x01
OPEN_TO_ALL = CONTROL | BEST_EFFORT


def stream(period: str = "1ms", **keys: Any) -> dict[str, Any]:
    return {
        "talker": "t1",
        "listeners": ["l1"],
        "period": period,
        "payload": "100B",
        "max-latency": period,
        **keys,
    }


def document(
    share: str = "30%", every: str = "1ms", after: str = "0us", **keys: Any
) -> dict[str, Any]:
    """Two switches in a line, with a class that has a share above best effort, and below that of
    the stream."""
    windows = {"share": share, "every": every, "after": after}
    ports = keys.pop("port", {})
    return {
        "name": "beside",
        "defaults": {**DEFAULTS, "recovery": "none", **keys.pop("defaults", {})},
        "classes": {
            **ROUTED_CLASSES,
            "high": class_of(5, "scheduled", dscp=34, windows=windows),
            **keys.pop("classes", {}),
        },
        "switches": {
            "s1": {"management": "10.99.0.1", "ports": {"t1": {}, "s2": ports}},
            "s2": {"management": "10.99.0.2", "ports": {"s1": {}, "l1": {}}},
        },
        "end-stations": keys.pop("stations", ["t1", "l1"]),
        "links": [["t1/eth0", "s1/t1"], ["s1/s2", "s2/s1"], ["s2/l1", "l1/eth0"]],
        "streams": keys.pop("streams", {"axis": stream()}),
    }


def intent_of(**keys: Any) -> Intent:
    return intents.from_document(document(**keys), "beside")


def spans(gates: GateControlList) -> Iterator[tuple[int, int, int]]:
    """From when until when gates are in a state."""
    at = 0
    for each in gates.entries:
        yield at, at + each.interval_ns, each.gate_states
        at += each.interval_ns


def windows_of(gates: GateControlList, number_bit: int) -> list[tuple[int, int]]:
    """When the gate of a class is open, and over the end of the list not."""
    found: list[tuple[int, int]] = []
    for start, end, states in spans(gates):
        if states & number_bit and found and found[-1][1] == start:
            found[-1] = found[-1][0], end
        elif states & number_bit:
            found.append((start, end))
    return found


def test_a_stream_is_planned_beside_windows_by_share_which_are_as_they_are_given() -> None:
    made = plan(intent_of())
    assert judge(made) == []
    for port in (BETWEEN, TO_LISTENER):
        gates = made.gates[port]
        assert windows_of(gates, 1 << 5) == [(0, 300 * US)]
        [(opens, closes)] = windows_of(gates, 1 << 6)
        assert 300 * US < opens < closes <= gates.cycle_ns


def test_a_port_that_no_stream_leaves_by_runs_the_shares_alone() -> None:
    gates = plan(intent_of()).gates[BACK]
    assert [(e.gate_states, e.interval_ns) for e in gates.entries] == [
        (CONTROL | HIGH, 300 * US),
        (OPEN_TO_ALL, 700 * US),
    ]


def test_the_list_lasts_until_shares_and_streams_repeat_together() -> None:
    made = plan(intent_of(every="400us", streams={"axis": stream("1ms")}))
    gates = made.gates[BETWEEN]
    assert gates.cycle_ns == 2_000 * US
    assert windows_of(gates, 1 << 5) == [(at, at + 120 * US) for at in range(0, 2_000_000, 400_000)]
    assert len(windows_of(gates, 1 << 6)) == 2
    assert judge(made) == []


def test_a_frame_of_a_share_has_left_when_a_planned_one_is_due() -> None:
    made = plan(intent_of(defaults={"gate-margin": "20us"}))
    [hop] = [its for its in made.streams["axis"].hops if its.egress == BETWEEN]
    # A gate that shuts 20 us late may let a frame of 1522 octets start at its end.
    assert hop.offset_ns >= 300 * US + 20 * US + 12_338
    assert judge(made) == []
    sooner = [replace(its, offset_ns=305 * US) for its in made.streams["axis"].hops[1:2]]
    moved = replace(
        made.streams["axis"],
        paths=((made.streams["axis"].hops[0], *sooner, made.streams["axis"].hops[2]),),
    )
    broken = replace(made, streams={"axis": moved})
    assert "gate-guard" in {each.code for each in judge(broken)}


def test_best_effort_has_the_rest_up_to_the_next_window_by_share() -> None:
    gates = plan(intent_of(after="500us")).gates[BETWEEN]
    before = [states for _, end, states in spans(gates) if end == 500 * US]
    assert before == [OPEN_TO_ALL]


def changed(made: Plan, *entries: tuple[int, int]) -> list[str]:
    gates = GateControlList(made.gates[BETWEEN].cycle_ns, tuple(GateEntry(*e) for e in entries))
    return [str(each) for each in judge(replace(made, gates={**made.gates, BETWEEN: gates}))]


def test_the_judge_finds_windows_by_share_that_are_not_as_given() -> None:
    made = plan(intent_of())
    entries = [(e.gate_states, e.interval_ns) for e in made.gates[BETWEEN].entries]
    (first, lasts), *others = entries
    assert changed(made, (first, lasts - 10 * US), (CONTROL, 10 * US), *others) == [
        "s1/s2: gates are 0x80 at 290000 ns of the cycle, 0xa0 by share [gate-given]"
    ]
    *others, (last, lasts) = entries
    assert changed(made, *others, (last, lasts - 10 * US), (last | HIGH, 10 * US)) == [
        "s1/s2: gates are 0xa1 at 990000 ns of the cycle, 0x81 by share [gate-given]"
    ]
    assert "s1/s2: the cycle is 1000000 ns, no multiple of the 2000000 ns given [gate-given]" in [
        str(e) for e in judge(replace(made, intent=intent_of(every="2ms")))
    ]


def test_the_judge_finds_a_stream_at_a_port_that_runs_the_shares_alone() -> None:
    made = plan(intent_of())
    broken = replace(made, gates={**made.gates, BETWEEN: made.gates[BACK]})
    assert {each.code for each in judge(broken)} == {"gate-window", "gate-exclusive", "gate-guard"}


def test_a_stream_that_finds_no_time_beside_shares_is_refused_with_the_reason() -> None:
    with pytest.raises(Unschedulable) as error:
        plan(intent_of(share="45%", every="500us", streams={"axis": stream("300us")}))
    assert (
        "its period of 300 µs and that of class high, 500 µs, have only 100 µs in common"
        in (error.value.reasons["axis"])
    )


@pytest.mark.parametrize("algorithm", ["no-wait", "waiting", "ejection", "exact"])
def test_every_algorithm_keeps_clear_of_shares(algorithm: str) -> None:
    if algorithm == "exact":
        pytest.importorskip("ortools")
    streams = {f"axis-{n}": stream() for n in range(4)}
    made = plan(intent_of(streams=streams), algorithm=algorithm)
    assert len(made.streams) == 4
    assert judge(made) == []


def test_streams_that_are_to_share_windows_are_refused_beside_shares() -> None:
    with pytest.raises(Unschedulable, match="beside classes with windows by share each planned"):
        plan(intent_of(streams={"axis": stream(windows="shared")}))


def test_a_stream_behind_frames_of_a_share_at_its_talker_is_refused() -> None:
    above = {"urgent": class_of(4, "scheduled", dscp=28)}
    keys: dict[str, Any] = {"classes": above, "streams": {"axis": stream(**{"class": "urgent"})}}
    made = plan(intent_of(**keys))  # it sends nothing else
    assert judge(made) == []
    with pytest.raises(InputError) as error:
        intent_of(**keys, defaults={"talker-interference": "one-frame"})
    assert "found urgent, and a talker that may send any number of frames of high before" in str(
        error.value
    )


def test_a_talkers_own_frames_of_a_share_count_as_best_effort_does() -> None:
    small = {"best-effort": {**ROUTED_CLASSES["best-effort"], "max-frame": "128B"}}
    made = plan(intent_of(classes=small, defaults={"talker-interference": "one-frame"}))
    alone = plan(intent_of(classes=small))
    later = made.streams["axis"].latency_bound_ns - alone.streams["axis"].latency_bound_ns
    assert later == 12_338  # a frame of 1522 octets that has just started
    assert judge(made) == []


def test_a_talker_with_gates_shuts_those_of_shares_for_its_frames() -> None:
    talker = {"t1": {"management": "10.99.0.9", "gates": "software"}, "l1": {}}
    made = plan(intent_of(stations=talker))
    talkers = made.gates[PortRef("t1", "eth0")]
    assert {e.gate_states for e in talkers.entries} == {0xE1, 0xC0}
    assert judge(made) == []
    always = GateControlList(talkers.cycle_ns, (GateEntry(0xE1, talkers.cycle_ns),))
    broken = replace(made, gates={**made.gates, PortRef("t1", "eth0"): always})
    assert "class high is open" in "".join(str(each) for each in judge(broken))


def test_best_effort_keeps_its_min_share_beside_shares_and_streams() -> None:
    def kept(share: str) -> dict[str, Any]:
        its = {**ROUTED_CLASSES["best-effort"], "min-share": share}
        return {"classes": {"best-effort": its}}

    made = plan(intent_of(share="50%", **kept("47%")))
    assert judge(made) == []
    with pytest.raises(Unschedulable) as error:
        plan(intent_of(share="50%", **kept("49%")))
    assert "its min-share is 49%" in error.value.reasons["axis"]


def test_late_frames_catch_up_beside_shares() -> None:
    made = plan(intent_of(defaults={"recovery": "100us"}))
    assert made.recovery_ns.keys() == {"axis"}
    assert judge(made) == []


def test_a_port_with_few_entries_leaves_gaps_between_frames_open_but_no_window_by_share() -> None:
    def limited(entries: int) -> Intent:
        streams = {f"axis-{n}": stream("1ms") for n in range(6)}
        port = {"gate-entries-max": entries}
        return intent_of(streams=streams, share="10%", every="250us", port=port)

    made = plan(limited(12))
    assert len(made.gates[BETWEEN].entries) <= 12
    assert windows_of(made.gates[BETWEEN], 1 << 5) == [
        (at * US, (at + 25) * US) for at in range(0, 1_000, 250)
    ]
    assert judge(made) == []
    with pytest.raises(Unschedulable, match="gate entries even with the smallest gaps left open"):
        plan(limited(8))


def test_what_each_class_can_send_beside_streams_is_named_but_for_the_streams_own() -> None:
    made = plan(intent_of())
    its = [each for each in openings(made) if each.port == BETWEEN]
    assert [each.class_name for each in its] == ["control", "high", "best-effort"]
    assert its[1].open_ns == 300 * US
    assert its[2].open_ns == made.gates[BETWEEN].cycle_ns - sum(
        end - start for start, end, states in spans(made.gates[BETWEEN]) if not states & 1
    )


def test_the_plan_is_read_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    made = plan(intent_of())
    planfile.dump(made, tmp_path / "plan.json")
    assert planfile.load(tmp_path / "plan.json") == made


def test_a_kept_stream_stays_where_it_is() -> None:
    before = plan(intent_of())
    after = plan(intent_of(streams={"axis": stream(), "other": stream()}), keep=before)
    assert after.streams["axis"] == before.streams["axis"]
    assert judge(after) == []


def test_streams_come_and_go_beside_shares_that_stay() -> None:
    both = intent_of(streams={"axis": stream(), "other": stream("500us")})
    alone = plan(intent_of(streams={}))
    live, judged = Live(alone), Judged(alone)
    for name in ("axis", "other"):
        changes = live.add([both.streams[name]])
        assert changes.gates.keys() == {BETWEEN, TO_LISTENER}
        assert judged.after(live.plan) == []
        assert judge(live.plan) == []
    live.remove(["axis"])
    assert judged.after(live.plan) == []
    assert windows_of(live.plan.gates[BETWEEN], 1 << 5) == [(0, 300 * US)]
    live.remove(["other"])
    assert judged.after(live.plan) == []
    assert live.plan.gates == alone.gates


def test_many_streams_come_and_go_one_by_one_beside_shares() -> None:
    streams = {f"axis-{n}": stream("250us") for n in range(8)}
    wanted = intent_of(share="10%", every="250us", streams=streams)
    live = Live(plan(replace(wanted, streams={}, document=document(streams={}))))
    for its in wanted.streams.values():
        live.add([its])
        assert judge(live.plan) == []
    for name in [*streams][:-1]:
        live.remove([name])
        assert judge(live.plan) == []


@settings(max_examples=30)
@given(
    share=st.integers(16, 60),
    every=st.sampled_from([250, 500, 1_000]),
    after=st.integers(0, 40),
    margin=st.sampled_from([0, 20]),
    tick=st.sampled_from([1, 4]),
    periods=st.lists(st.sampled_from([250, 500, 1_000, 2_000]), min_size=1, max_size=3),
    recovery=st.sampled_from(["none", "50us"]),
)
def test_whatever_is_planned_beside_shares_is_sound(
    *, share: int, every: int, after: int, margin: int, tick: int, periods: list[int], recovery: str
) -> None:
    after = min(after, every * (100 - share) // 800)  # windows end within `every`
    wanted = intent_of(
        share=f"{share}%",
        every=f"{every}us",
        after=f"{after * 8}us",
        defaults={"gate-margin": f"{margin}us", "recovery": recovery},
        port={"gate-tick": f"{tick}ns"},
        streams={f"s{n}": stream(f"{period}us") for n, period in enumerate(periods)},
    )
    made = plan(wanted, best_effort=True)
    assert judge(made) == []
    for name, its in made.streams.items():
        for hop in its.hops[1:]:
            gates = made.gates[hop.egress]
            by_share = windows_of(gates, 1 << 5)
            opened = range(0, gates.cycle_ns, every * US)
            assert by_share == [
                (at + after * 8 * US, at + after * 8 * US + share * every * US // 100)
                for at in opened
            ]
            period = wanted.streams[name].period_ns
            for turn in range(0, gates.cycle_ns, period):
                due = (hop.offset_ns + turn) % gates.cycle_ns
                assert not any(start <= due < end for start, end in by_share)


def test_a_kept_stream_is_placed_again_where_windows_that_are_given_change():
    before = plan(intent_of(share="30%"))
    wanted = intent_of(share="30%", after=f"{before.streams['axis'].hops[1].offset_ns}ns")
    after = plan(wanted, keep=before)
    assert not judge(after)
    (moved,) = moves(before, after)
    assert moved.reason == "the windows that s1/s2 is given changed"
