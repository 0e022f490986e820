"""Best effort keeps the share of each port that the operator wishes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from cnc import cli
from cnc import intent as intents
from cnc.check import judge
from cnc.errors import InputError, Unschedulable
from cnc.model import GateMode, Intent, Plan, PortRef
from cnc.planner import Live, exact, gates, plan, shares, timetable
from cnc.planner import problem as problems
from cnc.planner.gates import Window, lists_of
from cnc.planner.shares import Turns, kept_ns
from cnc.plans import file as planfile
from tests.intent_documents import LINE3
from tests.unit.planner_networks import (
    CLASSES,
    CONTROL,
    US,
    examples,
    intent,
    network,
    problem,
    stream,
    with_links,
    with_streams,
)

PERCENT = 10**7
TALKERS = 60
# Hardly any control but the one frame that may come at any time: 1185 ns and not 2688 ns.
RARE = replace(CONTROL, rate_bps=1000)
STAR = network(*(f"t{i}-s1" for i in range(TALKERS)), "s1-s2", "s2-l")
BETWEEN, LAST = PortRef("s1", "s2"), PortRef("s2", "l")


def sharing(wanted: Intent, percent: int | None) -> Intent:
    """The intent with a `min-share` of best effort, or without."""
    share = None if percent is None else percent * PERCENT
    best_effort = replace(wanted.classes["best-effort"], min_share_ppb=share)
    return replace(wanted, classes={**wanted.classes, "best-effort": best_effort})


def many(count: int, percent: int | None, **requirements: object) -> Intent:
    streams = (stream(f"f{i:02}", f"t{i}", "l", **requirements) for i in range(count))
    return sharing(intent(STAR, *streams, classes=(RARE, *CLASSES[1:])), percent)


def kept_percent(planned: Plan, port: PortRef = BETWEEN) -> float:
    """What the list of a port leaves best effort, counted here."""
    listed = planned.gates[port]
    opened = [(e.interval_ns, e.gate_states & 1) for e in listed.entries]
    runs: list[int] = []
    shut = next(i for i, (_, is_open) in enumerate(opened) if not is_open)
    for interval, is_open in opened[shut:] + opened[:shut]:
        if not is_open:
            runs.append(0)
        else:
            runs[-1] += interval
    return 100 * sum(run for run in runs if run >= 1542 * 8) / listed.cycle_ns


def documented(tmp_path: Path, of_class: str, key: str) -> Path:
    """line3 with one more key of a class."""
    lines = LINE3.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if line.strip().startswith(f"{of_class}:"))
    lines[at] = lines[at].replace("}", f", {key}}}")
    assert key in lines[at]
    path = tmp_path / "network.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_class_of_best_effort_states_it(tmp_path: Path) -> None:
    found = intents.load(documented(tmp_path, "best-effort", "min-share: 12.5%"))
    assert found.classes["best-effort"].min_share_ppb == 125_000_000


@pytest.mark.parametrize(
    ("of_class", "value", "refused"),
    [
        ("cyclic", "25%", "found a min-share, and the role scheduled, expected a class with the "),
        ("control", "25%", "found a min-share, and the role control, expected a class with the "),
        ("best-effort", "0%", "expected a share of the cycle from 1ppb to 99%"),
        ("best-effort", "100%", "expected a share of the cycle from 1ppb to 99%"),
        ("best-effort", "0.25", "expected a share of the cycle such as 25%, 12.5%"),
    ],
)
def test_a_share_that_cannot_be_is_refused_with_its_line(
    tmp_path: Path, of_class: str, value: str, refused: str
) -> None:
    path = documented(tmp_path, of_class, f"min-share: {value}")
    line = next(i for i, t in enumerate(path.read_text().splitlines(), 1) if "min-share" in t)
    with pytest.raises(InputError) as error:
        intents.load(path)
    assert f"{path}:{line}: classes.{of_class}.min-share: " in str(error.value)
    assert refused in str(error.value)


def test_the_stream_that_would_break_it_is_refused_with_both_figures() -> None:
    with pytest.raises(Unschedulable) as error:
        plan(many(TALKERS, 50))
    reason = next(iter(error.value.reasons.values()))
    assert "best effort would keep 49.5102%" in reason
    assert "% of s1/s2 in turns of its largest frame or longer, its min-share is 50%" in reason
    assert "without this stream it keeps 50.5097%" in reason


def test_with_best_effort_plans_it_is_left_out_and_the_rest_keeps_the_share() -> None:
    without = plan(many(TALKERS, None))
    assert kept_percent(without) < 50
    planned = plan(many(TALKERS, 50), best_effort=True)
    assert judge(planned) == []
    assert 0 < len(planned.refused) < 20
    assert all("its min-share is 50%" in why for why in planned.refused.values())
    assert min(kept_percent(planned, port) for port in planned.gates) >= 50


def test_a_stream_that_breaks_it_alone_is_told_so() -> None:
    with pytest.raises(Unschedulable) as error:
        plan(many(1, 99, frames=20))
    [reason] = error.value.reasons.values()
    assert ", even with no other stream in the network" in reason


def test_frames_lie_behind_each_other_where_turns_between_them_would_cost_too_much() -> None:
    """One guard band for both is 12.3 µs less than one each."""
    fixed = stream("a", "t0", "l", earliest_ns=500 * US, latest_ns=500 * US)
    late = stream("b", "t1", "l", traffic_classes=("slower",))
    wanted = intent(STAR, fixed, late)
    apart = plan(wanted, algorithm="waiting")
    share = int(kept_percent(apart)) + 1
    planned = plan(sharing(wanted, share), algorithm="waiting")
    assert kept_percent(planned) >= share
    assert judge(planned) == []
    starts = [planned.streams[name].hops[1].offset_ns for name in "ab"]
    assert 0 < starts[1] - starts[0] < 10 * US


@pytest.mark.parametrize(
    "algorithm",
    [
        "auto",
        "no-wait",
        "waiting",
        "ejection",
        pytest.param("exact", marks=pytest.mark.skipif(not exact.is_available(), reason="no")),
    ],
)
def test_every_algorithm_keeps_to_it(algorithm: str) -> None:
    planned = plan(
        many(12, 75, period_ns=500 * US, payload_octets=1200), algorithm=algorithm, best_effort=True
    )
    assert judge(planned) == []
    assert planned.streams
    assert planned.refused
    assert min(kept_percent(planned, port) for port in planned.gates) >= 75


def test_a_live_plan_keeps_to_it() -> None:
    running = plan(many(5, 90))
    live = Live(running)
    added = [stream(f"n{i}", f"t{i + 10}", "l") for i in range(6)]
    with pytest.raises(Unschedulable) as error:
        live.add(added)
    assert "its min-share is 90%" in next(iter(error.value.reasons.values()))
    changes = live.add(added[:1])
    now = with_streams(running.intent, *running.intent.streams.values(), added[0])
    gates_now = {**running.gates, **{p: g for p, g in changes.gates.items() if g}}
    streams = {**running.streams, **changes.streams}
    assert judge(replace(running, intent=now, streams=streams, gates=gates_now)) == []


def test_kept_streams_that_leave_too_little_are_no_plan() -> None:
    running = plan(many(TALKERS, None))
    with pytest.raises(Unschedulable) as error:
        plan(sharing(running.intent, 50), keep=running, best_effort=True)
    assert "best effort would keep 39.5632%" in error.value.reasons["port s1/s2"]


def test_a_port_with_a_short_list_keeps_to_it_or_leaves_streams_out() -> None:
    """Gates that stay open over gaps between frames take these from best effort."""
    spread = [
        stream(f"f{i}", f"t{i}", "l", earliest_ns=i * 100 * US, latest_ns=i * 100 * US)
        for i in range(9)
    ]
    wanted = with_links(intent(STAR, *spread), BETWEEN, gate_entries_max=8)
    assert kept_percent(plan(wanted)) < 60
    planned = plan(sharing(wanted, 60), best_effort=True)
    assert judge(planned) == []
    assert kept_percent(planned) >= 60
    reason, *_ = planned.refused.values()
    assert reason.startswith("left out for port s1/s2: a list of 8 entries leaves the gate open")
    assert "its min-share is 60%" in reason


def test_a_list_of_a_talker_owes_nobody_a_share() -> None:
    wanted = many(10, 80)
    stations = {
        name: replace(station, gate_mode=GateMode.SOFTWARE)
        for name, station in wanted.network.end_stations.items()
    }
    net = replace(wanted.network, end_stations=stations)
    busy = [
        stream(f"b{i:02}", "t0", f"x{i}", payload_octets=1500, period_ns=100 * US) for i in range(5)
    ]
    more = network(*(f"x{i}-s1" for i in range(5)))
    net = replace(
        net,
        links={**net.links, **more.links},
        end_stations={**net.end_stations, **more.end_stations},
    )
    planned = plan(sharing(replace(wanted, network=net, streams={b.name: b for b in busy}), 70))
    assert judge(planned) == []
    assert kept_percent(planned, PortRef("t0", "s1")) < 30


def test_the_judge_counts_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "wanted_ppb", lambda _intent, _link: 0)
    monkeypatch.setattr(gates, "wanted_ppb", lambda _intent, _link: 0)
    planned = plan(many(TALKERS, 50))
    assert {str(v) for v in judge(planned)} >= {
        (
            "s1/s2: class best-effort is open for 395632 ns of 1000000 ns in turns long enough "
            "for its largest frame, its min-share is 50% [best-effort-share]"
        )
    }
    assert {v.code for v in judge(planned)} == {"best-effort-share"}


def test_a_turn_too_short_for_a_largest_frame_counts_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For the judge, too: of a planner that counts it less is left than it says."""
    monkeypatch.setattr(shares, "slot_ns", lambda _intent, _link: 1)
    frames = [
        stream(f"f{i}", f"t{i}", "l", earliest_ns=at, latest_ns=at, period_ns=500 * US)
        for i, at in enumerate(range(0, 250 * US, 25 * US))
    ]
    wanted = intent(STAR, *frames)
    assert judge(plan(sharing(wanted, 50), algorithm="waiting")) == []
    planned = plan(sharing(wanted, 60), algorithm="waiting")
    assert {v.code for v in judge(planned)} == {"best-effort-share"}


def test_a_plan_file_has_it(tmp_path: Path) -> None:
    planned = plan(intents.load(documented(tmp_path, "best-effort", "min-share: 25%")))
    planfile.dump(planned, tmp_path / "plan.json")
    assert planfile.load(tmp_path / "plan.json") == planned


def test_the_plan_tells_what_best_effort_keeps_where_a_share_is_stated(tmp_path: Path) -> None:
    stated = documented(tmp_path, "best-effort", "min-share: 25%")
    told = CliRunner().invoke(cli.cnc, ["plan", str(stated)])
    assert "best effort keeps 92.3585% of s2/s3, the port that leaves it the least" in told.output
    assert "(min-share 25%)" in told.output
    unstated = CliRunner().invoke(cli.cnc, ["plan", str(LINE3)])
    assert "min-share" not in unstated.output


@st.composite
def reservations(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Windows that do not overlap, of periods that divide each other or do not."""
    periods = draw(st.sampled_from([(200, 400, 800), (200, 300), (100,)]))
    found: list[tuple[int, int, int]] = []
    for _ in range(draw(st.integers(1, 8))):
        period = draw(st.sampled_from(periods)) * US
        start = draw(st.integers(0, period - 1))
        its = start, draw(st.integers(1000, 15_000)), period
        resource = timetable.Resource()
        for number, other in enumerate(found):
            resource.reserve((str(number), 0), *other)  # type: ignore[arg-type]
        if not any(resource.in_the_way(*its)):
            found.append(its)
    return found


@examples(max_examples=200)
@given(reservations(), st.sampled_from([1, 8, 100]), st.booleans())
def test_turns_are_those_of_the_list_that_the_port_gets(
    found: list[tuple[int, int, int]], tick_ns: int, fits_only: bool
) -> None:
    wanted = with_links(many(1, 1), gate_tick_ns=tick_ns, fits_only=fits_only)
    its = problem(wanted)
    number = next(n for n, link in enumerate(its.links) if link.source == BETWEEN)
    link = its.links[number]
    turns = Turns(wanted, link, [])
    for each in found:
        expected = turns.share_ppb(*each)
        turns.add(*each)
        assert turns.share_ppb() == expected
    assert turns.share_ppb() == Turns(wanted, link, found).share_ppb()
    windows = [(period, Window(start, start + length, 6)) for start, length, period in found]
    listed = lists_of(its, {number: windows}).lists.get(BETWEEN)
    if listed is None:
        return  # the cycle is no multiple of the tick
    kept_ppb = kept_ns(wanted, link, listed) * 10**9 // listed.cycle_ns
    shortest_ppb = -(-2 * 480 * 10**9 // listed.cycle_ns) + 2 * tick_ns * 10**9 // listed.cycle_ns
    assert kept_ppb - shortest_ppb - 1 <= turns.share_ppb() <= kept_ppb
