"""What a bound is made of, and with which changes a stream has a place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from cnc import app, cli
from cnc.model import Intent, Plan, Windows
from cnc.planner import plan, what_if
from tests.unit.planner_networks import LINE, MS, US, intent, stream

SCHEDULES = Path(__file__).parents[2] / "schedules"
# Of a full second switch, in which it has no place.
WIDE = {"max_latency_ns": 900 * US, "payload_octets": 1400, "frames": 40, "period_ns": MS}


def place(wanted: Intent, keep: Plan | None) -> Plan:
    return plan(wanted, keep=keep, best_effort=True)


def refusing(wanted: Intent, name: str) -> Plan:
    found = place(wanted, None)
    assert name in found.refused
    return found


def texts(found: Plan, name: str) -> list[str]:
    return [change.text for change in what_if.changes(found, name, place)]


@pytest.mark.parametrize("name", ["line3", "ring6", "bridged5", "guarded", "beside3"])
@pytest.mark.parametrize("windows", [Windows.AUTO, Windows.SHARED])
def test_the_parts_of_a_bound_are_the_bound(name: str, windows: Windows) -> None:
    wanted = app.load_intent(SCHEDULES / f"{name}.yaml")
    if windows is Windows.SHARED:
        streams = {key: replace(its, windows=windows) for key, its in wanted.streams.items()}
        wanted = replace(wanted, streams=streams)
    computed = place(wanted, None)
    for each in computed.streams:
        found = what_if.bound_of(computed, each)
        assert sum(part.takes_ns for part in found.parts) == found.bound_ns
        assert all(part.takes_ns >= 0 for part in found.parts), (each, found)


def test_a_stream_that_is_too_late_alone_has_the_latency_and_the_payload_with_which_it_is_not() -> (
    None
):
    late = stream("late", "t", "l", max_latency_ns=40 * US, payload_octets=1400)
    found = refusing(intent(LINE, late), "late")
    latency, payload, *_ = what_if.changes(found, "late", place)
    assert latency.text.startswith("max-latency: ")
    assert payload.text.startswith("payload: ")
    needed_ns = int(float(latency.text.split()[1]) * US)
    for max_latency_ns, has_place in ((needed_ns, True), (needed_ns * 98 // 100, False)):
        other = replace(late, max_latency_ns=max_latency_ns)
        assert ("late" in place(intent(LINE, other), None).streams) is has_place


def test_the_nearest_change_comes_first() -> None:
    wide = stream("wide", "t", "l", **WIDE)
    found = place(intent(LINE, wide, stream("other", "t", "l", **WIDE)), None)
    (name,), (other,) = found.refused, found.streams
    changes = what_if.changes(found, name, place)
    assert [change.cost for change in changes] == sorted(change.cost for change in changes)
    assert changes[-1].text == f"without the stream {other}"


def test_a_window_that_is_taken_is_named() -> None:
    first = stream("first", "t", "l", latest_ns=0)
    found = refusing(intent(LINE, first, replace(first, name="second")), "second")
    assert any(text.startswith("no `window`") for text in texts(found, "second"))


def test_others_that_are_refused_do_not_stand_in_the_way() -> None:
    late = stream("late", "t", "l", max_latency_ns=40 * US, payload_octets=1400)
    found = place(intent(LINE, late, replace(late, name="too")), None)
    assert {*found.refused} == {"late", "too"}
    assert texts(found, "late")[0].startswith("max-latency: ")


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(cli.cnc, ["plan", *map(str, words)])
    return done.exit_code, done.output


def test_the_command_shows_the_parts_of_a_bound() -> None:
    code, text = run(SCHEDULES / "line3.yaml", "--explain", "camera")
    assert code == 0
    assert text.startswith("camera: latency bound ")
    assert "switch processing" in text
    assert "gate control lists" not in text


def test_the_command_names_changes_and_fails_for_a_stream_without_a_place(tmp_path: Path) -> None:
    file = tmp_path / "tight.yaml"
    text = (SCHEDULES / "line3.yaml").read_text()
    file.write_text(text.replace("max-latency: 100us", "max-latency: 62us"))
    code, text = run(file, "--explain", "camera")
    assert code == 1
    assert "camera has no place: needs at least" in text
    assert "\n  max-latency: 72.92 µs, in place of 62 µs\n" in text


@pytest.mark.parametrize("words", [["--explain", "nothing"], ["--explain", "camera", "--json"]])
def test_a_stream_that_is_not_there_and_other_output_are_misuse(words: list[str]) -> None:
    done = CliRunner().invoke(cli.cnc, ["plan", str(SCHEDULES / "line3.yaml"), *words])
    assert done.exit_code == 2 or "no stream nothing" in str(done.exception)


def test_a_cyclic_class_has_a_bound_without_such_parts() -> None:
    computed = place(app.load_intent(SCHEDULES / "cqf4.yaml"), None)
    found = what_if.bound_of(computed, "vibration")
    assert (found.parts, found.bound_ns) == ((), computed.streams["vibration"].latency_bound_ns)
