"""What `cnc plan` and `cnc check` print of a plan, and while they work."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.cli import progress, render
from cnc.model import GateControlList, GateEntry, Plan, PortRef
from cnc.planner import plan as compute
from cnc.plans import file as planfile
from cnc.support.format import duration
from tests.bridged_networks import line, stream

REASON = "no room on s1/s2: [its cable] is full, and so is every other way that could have been" * 3


@pytest.fixture(scope="module")
def whole() -> Plan:
    return planfile.load(Path(__file__).parent / "data" / "line3-plan.json")


@pytest.fixture(scope="module")
def partial(whole: Plan) -> Plan:
    streams = {name: its for name, its in whole.streams.items() if name != "camera"}
    return replace(whole, streams=streams, refused={"camera": REASON})


def test_a_plan_for_all_streams_says_nothing_of_refusals(
    whole: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    render.plan(whole, None)
    render.verdict(whole, [], as_json=False)
    shown = capsys.readouterr().out
    assert "line3: 4 streams placed (algorithm: no-wait)" in shown
    assert "plan of line3: valid (4 streams, 4 gate control lists)" in shown
    assert "NO place" not in shown


def test_a_plan_says_of_each_stream_which_windows_its_frames_have(
    whole: Plan, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    render.plan(whole, None)
    assert (
        "placed (algorithm: no-wait), each frame in a window of its own\n"
        in capsys.readouterr().out
    )
    wanted = {
        windows: stream("t1", "l1", windows=windows, **{"class": name})
        for windows, name in (("exact", "fast"), ("shared", "slow"))
    }
    document = line(**wanted).document
    alike = {"defaults": {**document["defaults"], "recovery": "none"}}
    computed = compute(intents.from_document({**document, **alike}, "mixed"))
    render.plan(computed, None)
    shown = re.sub(" +", " ", capsys.readouterr().out)
    alone, beside = (duration(computed.streams[name].latency_bound_ns) for name in wanted)
    assert " bound by leaves talker at latency bound bound if exact allowed\n" in shown
    assert f" 1 ms scheduled 0 ns {alone} 300 µs\n" in shown
    # They are alike, and the one in windows of its own waits for no other.
    assert re.search(f" 1 ms shared [^\n]+ {beside} ≥ {alone} 300 µs\n", shown)
    assert alone != beside


def test_no_line_of_a_table_ends_in_blanks_where_it_is_no_terminal(
    whole: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    render.plan(whole, None)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > len(whole.streams)
    assert [line for line in lines if line != line.rstrip()] == []


def test_the_summary_names_every_stream_without_a_place(
    partial: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    render.plan(partial, None)
    shown = capsys.readouterr().out
    assert "line3: 3 of 4 streams placed" in shown
    assert f"NO place for 1 of 4 streams:\n  camera: {REASON}\n" in shown


def test_the_verdict_names_every_stream_without_a_place(
    partial: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    render.verdict(partial, [], as_json=False)
    assert capsys.readouterr().out == (
        f"NO place for 1 of 4 streams:\n  camera: {REASON}\n"
        "plan of line3: valid (3 of 4 streams, 4 gate control lists)\n"
    )


def test_the_verdict_for_programs_counts_streams_and_gives_the_reasons(
    partial: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    render.verdict(partial, [], as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert (document["streams"], document["placed"]) == (4, 3)
    assert document["refused"] == {"camera": REASON}


def test_a_stream_with_two_paths_shows_both(
    whole: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    motion = whole.streams["motion"]
    (way,) = motion.paths
    later = tuple(replace(hop, offset_ns=hop.offset_ns + 200_000) for hop in way[:-1])
    both = {**whole.streams, "motion": replace(motion, paths=(way, later))}
    render.plan(replace(whole, streams=both), None)
    row = next(line for line in capsys.readouterr().out.splitlines() if "motion" in line)
    assert "cyclic" in row
    assert "(4 + 3 hops)" in row
    assert "14.5 µs, 214.5 µs" in row


def test_a_large_plan_is_shown_in_part_and_says_so(
    whole: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    camera, wanted = whole.streams["camera"], whole.intent.streams["camera"]
    names = [f"camera{number:03}" for number in range(250)]
    intent = replace(whole.intent, streams=dict.fromkeys(names, wanted))
    render.plan(replace(whole, intent=intent, streams=dict.fromkeys(names, camera)), None)
    shown = capsys.readouterr().out
    assert "250 streams placed" in shown
    assert shown.count("camera") == 100
    assert "  and 150 more; the plan file has all\n" in shown


def test_of_many_streams_without_a_place_twenty_are_named(
    whole: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = {f"stream{number:02}": "no room" for number in range(30)}
    render.verdict(replace(whole, refused=refused), [], as_json=False)
    shown = capsys.readouterr().out
    assert "  stream19: no room\nand 10 more\n" in shown
    assert "stream20" not in shown


def test_ports_with_room_for_more_gate_entries_are_not_worth_a_line(
    whole: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    render.plan(whole, None)
    assert "near the limit" not in capsys.readouterr().out


def test_a_port_whose_gate_control_list_is_all_but_full_is_named(
    whole: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    port = PortRef("s1", "s2")
    link = replace(whole.intent.network.links[port], gate_entries_max=63)
    network = replace(whole.intent.network, links={**whole.intent.network.links, port: link})
    full = GateControlList(63_000, tuple(GateEntry(1, 1_000) for _ in range(63)))
    intent = replace(whole.intent, network=network)
    render.plan(replace(whole, intent=intent, gates={**whole.gates, port: full}), None)
    shown = capsys.readouterr().out
    assert "near the limit of their port: s1/s2: 63 of 63 entries\n" in shown


def test_progress_off_a_terminal_is_logged_after_a_second_and_then_every_five(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "cnc.cli.progress")
    now_s = 0.0
    monkeypatch.setattr(progress, "monotonic_s", lambda: now_s)
    with progress.live() as say:
        for tenth in range(130):
            now_s = tenth / 10
            say(f"at {now_s}")
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "")
    assert caplog.messages == ["at 1.0", "at 6.0", "at 11.0"]


@pytest.mark.parametrize(("work_s", "is_shown"), [(0.9, False), (1.1, True)])
def test_progress_on_a_terminal_is_a_line_for_work_of_a_second(
    work_s: float,
    is_shown: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    times = iter([0.0, work_s])
    monkeypatch.setattr(progress, "monotonic_s", lambda: next(times))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress.live() as say:
        say("placing: 3,200 of 10,000 placed")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert ("placing: 3,200 of 10,000 placed" in shown.err) is is_shown
