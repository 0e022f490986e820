"""`cnc diff`: what changes from one plan to another, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from cnc import cli
from cnc.cli import render
from cnc.errors import InputError
from cnc.model import GateControlList, GateEntry, Plan, PortRef, StreamPlan
from cnc.plans import file as planfile
from cnc.plans.difference import Change, differ_from_ns, difference
from cnc.rollout.history import FILE_NAME, History
from tests.unit.rollout_history import LINE3, begin

S1_S2 = PortRef("s1", "s2")
Shown = Callable[[Plan, Plan], str]


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Shown:
    """What the command prints of two plans, blanks between words being one."""

    def show(before: Plan, after: Plan) -> str:
        render.plan_difference(difference(before, after), as_json=False)
        return "\n".join(" ".join(line.split()) for line in capsys.readouterr().out.splitlines())

    return show


def without(plan: Plan, stream: str) -> Plan:
    wanted = {name: its for name, its in plan.intent.streams.items() if name != stream}
    placed = {name: its for name, its in plan.streams.items() if name != stream}
    return replace(plan, intent=replace(plan.intent, streams=wanted), streams=placed)


def with_placement(plan: Plan, stream: str, placed: StreamPlan) -> Plan:
    return replace(plan, streams={**plan.streams, stream: placed})


def with_mac(plan: Plan, station: str, mac: str) -> Plan:
    stations = plan.intent.network.end_stations
    stations = {**stations, station: replace(stations[station], mac=mac)}
    network = replace(plan.intent.network, end_stations=stations)
    return replace(plan, intent=replace(plan.intent, network=network))


def later(placed: StreamPlan, by_ns: int, *, from_hop: int = 0) -> StreamPlan:
    (way,) = placed.paths
    moved = tuple(
        replace(hop, offset_ns=hop.offset_ns + (by_ns if index >= from_hop else 0))
        for index, hop in enumerate(way)
    )
    return replace(placed, paths=(moved,))


def test_the_same_plan_again_differs_in_nothing(shown: Shown) -> None:
    again = planfile.parse(planfile.dump(LINE3), "again")
    assert difference(LINE3, again).same
    assert shown(LINE3, again) == (
        "no difference in streams, gate control lists or the figures that they depend on"
    )


def test_streams_that_come_and_go_are_named_and_not_said_to_move(shown: Shown) -> None:
    fewer = without(LINE3, "camera")
    assert shown(fewer, LINE3) == "streams added: camera"
    assert shown(LINE3, fewer) == "streams removed: camera"


def test_a_summary_counts_streams_that_come_go_and_are_wanted_otherwise() -> None:
    fewer = without(LINE3, "camera")
    assert difference(fewer, LINE3).streams_summary == "+1 stream"
    assert difference(LINE3, without(fewer, "valves")).streams_summary == "-2 streams"
    valves = replace(LINE3.intent.streams["valves"], latest_ns=1_500)
    wanted = replace(LINE3.intent, streams={**LINE3.intent.streams, "valves": valves})
    other = replace(LINE3, intent=wanted)
    assert difference(fewer, other).streams_summary == "+1 ~1 streams"
    assert difference(LINE3, LINE3).streams_summary == ""


def test_a_new_stream_without_a_place_is_told_apart(shown: Shown) -> None:
    placed = {name: its for name, its in LINE3.streams.items() if name != "camera"}
    refused = replace(LINE3, streams=placed, refused={"camera": "no room"})
    assert shown(without(LINE3, "camera"), refused) == "streams new but not placed: camera"
    assert shown(LINE3, refused) == "streams removed: camera"


def test_what_a_stream_wants_now_is_shown_with_its_unit(shown: Shown) -> None:
    camera = replace(
        LINE3.intent.streams["camera"], period_ns=4_000_000, payload_octets=900, latest_ns=1_500
    )
    streams = {**LINE3.intent.streams, "camera": camera}
    text = shown(LINE3, replace(LINE3, intent=replace(LINE3.intent, streams=streams)))
    assert "camera period 2 ms 4 ms" in text
    assert "camera payload octets 1400 900" in text
    assert "camera latest – 1.5 µs" in text  # noqa: RUF001
    assert "leaves" not in text


def test_a_stream_that_moves_is_shown_from_the_first_port_it_leaves_at_another_time(
    shown: Shown,
) -> None:
    camera = LINE3.streams["camera"]
    text = shown(LINE3, with_placement(LINE3, "camera", later(camera, 1_000, from_hop=1)))
    second = camera.hops[1]
    assert f"camera leaves {second.egress} and 2 ports more at " in text
    assert "motion" not in text


def test_another_path_class_and_bound_are_shown(shown: Shown) -> None:
    camera = LINE3.streams["camera"]
    (way,) = camera.paths
    detour = tuple(replace(hop, traffic_class=5) for hop in (way[0], *way[2:]))
    moved = replace(camera, paths=(detour,), latency_bound_ns=100_000)
    text = shown(LINE3, with_placement(LINE3, "camera", moved))
    assert "camera path t2/eth0 s1/s2 s2/s3 s3/l2 t2/eth0 s2/s3 s3/l2" in text
    assert "camera traffic class 6 5" in text
    assert "camera latency bound " in text
    assert "µs 100 µs" in text


def test_a_class_a_switch_or_a_link_that_changes_is_shown_though_no_stream_moves(
    shown: Shown,
) -> None:
    intent = LINE3.intent
    cyclic = replace(intent.classes["cyclic"], dscps=(34, 36))
    network = replace(
        intent.network,
        clock_error_ns=777,
        links={
            **intent.network.links,
            S1_S2: replace(intent.network.links[S1_S2], rate_bps=100_000_000),
        },
        bridges={name: its for name, its in intent.network.bridges.items() if name != "s3"},
    )
    changed = replace(intent, network=network, classes={**intent.classes, "cyclic": cyclic})
    text = shown(LINE3, replace(LINE3, intent=changed))
    assert "class cyclic dscps " in text
    assert " 34, 36" in text
    assert "link s1/s2 rate bps 1000000000 100000000" in text
    assert "switch s3 there –" in text  # noqa: RUF001
    assert "network clock error " in text
    assert " 777 ns" in text


def test_lists_of_equal_length_say_from_when_on_they_differ(shown: Shown) -> None:
    gates = LINE3.gates[S1_S2]
    first, second, *others = gates.entries
    swapped = replace(gates, entries=(first, replace(second, gate_states=0xFF), *others))
    none_left = {port: its for port, its in LINE3.gates.items() if port != PortRef("s3", "l2")}
    text = shown(LINE3, replace(LINE3, gates={**none_left, S1_S2: swapped}))
    assert "s1/s2 gate control list, from 9.829 µs on 2 ms, 23 entries 2 ms, 23 entries" in text
    assert "s3/l2 gate control list 2 ms, 4 entries –" in text  # noqa: RUF001
    assert "s2/s3" not in text


@pytest.mark.parametrize(
    ("entries", "from_ns"),
    [
        ([(1, 100), (2, 900)], 100),
        ([(1, 400), (2, 600)], 300),
        ([(1, 300), (3, 700)], 300),
        ([(1, 300), (2, 300), (3, 400)], 600),
    ],
)
def test_lists_differ_from_the_first_gate_in_another_state(
    entries: list[tuple[int, int]], from_ns: int
) -> None:
    one = GateControlList(1_000, (GateEntry(1, 300), GateEntry(2, 700)))
    other = GateControlList(1_000, tuple(GateEntry(*entry) for entry in entries))
    assert differ_from_ns(one, other) == differ_from_ns(other, one) == from_ns


def test_of_very_many_differences_a_hundred_are_shown(shown: Shown) -> None:
    names = [f"camera{number:03}" for number in range(250)]
    camera = LINE3.streams["camera"]
    before = replace(LINE3, streams=dict.fromkeys(names, camera))
    after = replace(LINE3, streams=dict.fromkeys(names, later(camera, 5)))
    text = shown(before, after)
    assert text.count("camera") == 100
    assert "and 150 more; --json has all" in text


def test_a_bound_of_jitter_that_changes_is_shown_for_each_listener_that_it_changes_for(
    shown: Shown,
) -> None:
    before = replace(LINE3, jitter_ns={"camera": {"l1": 900, "l2": 2_000}})
    after = replace(LINE3, jitter_ns={"camera": {"l1": 900, "l2": 2_500}, "motion": {"l1": 40}})
    text = shown(before, after)
    assert "camera jitter bound at l2 2 µs 2.5 µs" in text
    assert "motion jitter bound at l1 – 40 ns" in text  # noqa: RUF001
    assert "camera jitter bound at l1" not in text


def test_the_address_of_an_end_station_that_changes_is_shown(
    shown: Shown, capsys: pytest.CaptureFixture[str]
) -> None:
    before = with_mac(LINE3, "l1", "02:00:5e:20:00:02")
    after = with_mac(LINE3, "l1", "02:00:5e:20:00:03")
    assert "end station l1 mac 02:00:5e:20:00:02 02:00:5e:20:00:03" in shown(before, after)
    assert "end station l1 mac – 02:00:5e:20:00:02" in shown(LINE3, before)  # noqa: RUF001
    render.plan_difference(difference(before, LINE3), as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["macs"] == {"l1": {"before": "02:00:5e:20:00:02", "after": None}}
    assert not {"addresses", "jitter_ns"} & found.keys()


def test_programs_get_bounds_of_jitter_that_differ(capsys: pytest.CaptureFixture[str]) -> None:
    after = replace(LINE3, jitter_ns={"camera": {"l1": 900}})
    render.plan_difference(difference(LINE3, after), as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["jitter_ns"] == {"camera": {"before": None, "after": {"l1": 900}}}
    assert "macs" not in found


def test_programs_get_all_that_differs(capsys: pytest.CaptureFixture[str]) -> None:
    camera = LINE3.streams["camera"]
    after = with_placement(without(LINE3, "motion"), "camera", later(camera, 1_000))
    gates = replace(LINE3.gates[S1_S2], cycle_ns=1_000)
    after = replace(after, gates={**LINE3.gates, S1_S2: gates})
    render.plan_difference(difference(LINE3, after), as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert (found["same"], found["added"], found["removed"]) == (False, [], ["motion"])
    assert list(found["wanted"]) == ["motion"]
    assert found["wanted"]["motion"]["after"] is None
    hop = found["placed"]["camera"]["after"]["paths"][0][0]
    assert hop == {
        "egress": "t2/eth0",
        "offset_ns": camera.hops[0].offset_ns + 1_000,
        "traffic_class": 6,
        "window_ns": 0,
    }
    assert found["foundations"] == {}
    assert list(found["gates"]) == ["s1/s2"]
    assert found["gates"]["s1/s2"]["before"]["cycle_ns"] == 2_000_000
    assert found["gates"]["s1/s2"]["after"]["cycle_ns"] == 1_000


def test_a_rollout_can_be_compared_with_a_plan_file(tmp_path: Path) -> None:
    file = tmp_path / "fewer.json"
    planfile.dump(without(LINE3, "camera"), file)
    with History(tmp_path / FILE_NAME) as history:
        begin(history, plan=LINE3).close()
        begin(history, plan=None).close()

    def diff(*plans: str) -> tuple[str, BaseException | None]:
        done = CliRunner().invoke(cli.cnc, ["diff", *plans, "--state-dir", str(tmp_path)])
        return done.output, done.exception

    assert diff("1", str(file)) == ("streams removed: camera\n", None)
    assert diff(str(file), "1") == ("streams added: camera\n", None)
    assert diff("1", "1")[0].startswith("no difference")
    for which, why in (("2", "without a plan"), ("3", "no rollout 3")):
        _, failed = diff("1", which)
        assert isinstance(failed, InputError)
        assert why in str(failed)
    told, ended = diff("1", "none.json")
    assert isinstance(ended, SystemExit)
    assert ended.code == InputError.exit_code
    assert "none.json" in told


def test_a_change_is_told_by_name_in_order() -> None:
    camera = LINE3.streams["camera"]
    found = difference(
        replace(LINE3, streams={"b": camera, "c": camera}),
        replace(LINE3, streams={"a": camera, "c": camera}),
    )
    assert found.placed == {"a": Change(None, camera), "b": Change(camera, None)}
    assert list(found.placed) == ["a", "b"]
    assert (found.added, found.removed) == (["a"], ["b"])
