"""Where the time of each frame of a lab goes, against what the kernels run and what is injected."""

from __future__ import annotations

import json
import os
import random
import resource
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from cnc import __version__
from cnc.errors import CncError
from cnc.model import NS_PER_S, Plan, PortRef
from cnc.planner import plan as compute
from cnc.testbed.cli.trace import trace
from cnc.testbed.lab import Lab
from cnc.testbed.traffic import tap
from cnc.testbed.traffic.flows import flows
from cnc.testbed.traffic.recording import run
from cnc.testbed.traffic.trace.account import Account, Layer
from cnc.testbed.traffic.trace.columns import gather
from cnc.testbed.traffic.trace.outliers import Outliers, outliers
from cnc.testbed.traffic.trace.record import record
from cnc.testbed.traffic.trace.taps import Taps
from tests import pcapng_reader
from tests.kernel.gate_waits import CLOCK_NS, check
from tests.kernel.injections import (
    INJECTED_NS,
    dropped,
    late_arrivals,
    late_cable,
    late_program,
    late_queue,
    singled_out,
    some_late_arrivals,
)

STARTED = 2  # frames of a stream until its programs have started
SCHEDULES = Path(__file__).parents[2] / "schedules"
MS = 1_000_000
TRACED_MS = int(os.environ.get("TSN_TRACED_MS", "100"))
FRAME_ROOM_OCTETS = 600  # half of what the kernel takes for a short frame that waits, and more
WAY = [("s1", "t1", "s2"), ("s2", "s1", "s3"), ("s3", "s2", "l1")]  # of motion: in, and out

pytestmark = pytest.mark.virtual_time


def some_of(frames: int, count: int) -> list[int]:
    """The numbers of so many of them, the same ones in every run. 0 is none of them: a talker's
    first frame, which is not counted, has it as well."""
    return sorted(random.Random(4).sample(range(1, frames), count))  # noqa: S311


def medians(found: list[Account]) -> dict[tuple[str, Layer], float]:
    assert found
    assert all(each.row.is_complete for each in found)
    same = zip(*(each.parts for each in found), strict=True)
    return {its[0][:2]: statistics.median(part.duration_ns or 0 for part in its) for its in same}


def test_what_is_injected_at_one_place_is_in_its_layer_alone(
    unscheduled: Lab, tmp_path: Path
) -> None:
    plan = replace(compute(unscheduled.intent), gates={})
    motion = [flow for flow in flows(plan) if flow.name == "motion"]

    def medians_in(name: str) -> dict[tuple[str, Layer], float]:
        traced = record(unscheduled, plan, motion, 10 * MS, tmp_path / name)
        return medians(list(traced.accounts()))

    send, receive = "endpoint.Outlet.send_probe", "endpoint.PacketListener.receive"
    injections: list[tuple[tuple[str, Layer], Callable[[], object]]] = [
        (("t1", Layer.SOCKET), lambda: late_program(send, tmp_path, after=False)),
        (("t1/eth0", Layer.QDISC), lambda: late_queue(unscheduled, PortRef("t1", "eth0"))),
        (("s1/s2", Layer.WIRE), lambda: late_cable(unscheduled, PortRef("s1", "s2"))),
        (("l1", Layer.LISTENER), lambda: late_program(receive, tmp_path, after=True)),
    ]
    for node, ingress, egress in WAY:
        where = f"{node}/{egress}", Layer.PROCESSING
        for inject, port in ((late_arrivals, ingress), (late_queue, egress)):
            chosen = PortRef(node, port)
            injections.append((where, lambda i=inject, p=chosen: i(unscheduled, p)))
    assert len(injections) == 10
    with unscheduled.quiet():
        without = medians_in("without")
        for number, (where, inject) in enumerate(injections):
            with inject():
                found = medians_in(str(number))
            more = {each: found[each] - without[each] for each in found}
            print(number, where, {each: ns for each, ns in more.items() if ns})
            assert more.pop(where) == pytest.approx(INJECTED_NS, abs=CLOCK_NS), where
            assert max(abs(ns) for ns in more.values()) <= CLOCK_NS, (where, more)


def test_the_hop_that_some_frames_are_late_at_is_the_first_cause_of_outliers(
    unscheduled: Lab, tmp_path: Path
) -> None:
    plan = replace(compute(unscheduled.intent), gates={})
    motion = [flow for flow in flows(plan) if flow.name == "motion"]
    late = some_of(100, 12)

    def outliers_in(name: str) -> Outliers:
        traced = record(unscheduled, plan, motion, 100 * MS, tmp_path / name)
        (found,) = outliers(gather(traced.accounts()))
        print(name, found.frames, found.threshold_ns, len(found.seqs), found.causes)
        return found

    with unscheduled.quiet():
        assert outliers_in("without").causes == ()
        for node, ingress, egress in WAY:
            with some_late_arrivals(unscheduled, PortRef(node, ingress), late):
                found = outliers_in(node)
            hop = f"{node}/{egress}", Layer.PROCESSING
            assert found.causes[0] == (*hop, len(late)), node
            assert list(found.seqs) == late


def test_lost_frames_are_absent_and_as_many_as_were_dropped(
    unscheduled: Lab, tmp_path: Path
) -> None:
    plan = replace(compute(unscheduled.intent), gates={})
    motion = [flow for flow in flows(plan) if flow.name == "motion"]
    lost = some_of(100, 50)
    port = PortRef("s2", "s1")
    with unscheduled.quiet(), singled_out(unscheduled, port, lost, "drop"):
        traced = record(unscheduled, plan, motion, 100 * MS, tmp_path)
        said = dropped(unscheduled, port)
    accounts = list(traced.accounts())
    (columns,) = gather(accounts)
    counts = len(accounts), columns.frames, columns.lost, columns.incomplete, len(columns)
    assert counts == (100, 100, said, 0, 100 - said)
    absent = [each for each in accounts if each.row.delivered_ns is None]
    assert [each.row.seq for each in absent] == lost
    for each in absent:
        assert each.total_ns is None
        known = {part.place for part in each.parts if part.duration_ns is not None}
        assert known == {"t1", "t1/eth0", "s1/s2"}
    assert 0 not in columns.total_ns


def test_each_frame_waits_at_closed_gates_as_the_lists_say_where_switches_route(
    scheduled: tuple[Lab, Plan], tmp_path: Path
) -> None:
    running, plan = scheduled
    with running.quiet():
        traced = record(running, plan, flows(plan), TRACED_MS * MS, tmp_path)
    check(traced, running)
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"this process had {peak_kib / 1024:.0f} MiB at most")


def test_taps_move_next_to_no_frame(scheduled: tuple[Lab, Plan], tmp_path: Path) -> None:
    running, plan = scheduled
    sent = flows(plan)
    with running.quiet():
        plain = run(running, sent, 100 * MS, tmp_path / "plain")
        stamped = run(running, sent, 100 * MS, tmp_path / "stamped", stamps=True, deliveries=True)
        tapped = record(running, plan, sent, 100 * MS, tmp_path / "tapped").recording

    def moved(one: list[int], other: list[int]) -> list[int]:
        return [abs(a - b) for a, b in zip(one, other, strict=True) if a != b]

    received = [
        [(frame.received_ns or 0) - each.start_ns for frame in each]
        for each in (plain, stamped, tapped)
    ]
    by_taps = moved(received[1], received[2])
    by_all = moved(received[0], received[2])
    beyond = sum(ns > 4 * CLOCK_NS for ns in by_all)
    print(f"{len(tapped)} rows: taps move {len(by_taps)}; with stamps {len(by_all)},")
    print(f"{beyond} of them by more than {4 * CLOCK_NS} ns, the furthest by {max(by_all)} ns")
    assert len(by_taps) <= len(tapped) // 50


def test_a_tap_has_room_for_a_second_however_long_frames_are_sent(
    scheduled: tuple[Lab, Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, plan = scheduled
    motion = [flow for flow in flows(plan) if flow.name == "motion"]
    per_second = NS_PER_S // motion[0].period_ns

    def traced_through(room_octets: int) -> list[Account]:
        monkeypatch.setattr(tap, "RECEIVE_BUFFER_OCTETS", room_octets)  # which the kernel doubles
        with running.quiet():
            return list(record(running, plan, motion, 3 * NS_PER_S, tmp_path).accounts())

    found = traced_through(per_second * FRAME_ROOM_OCTETS)
    assert len(found) == 3 * per_second
    assert all(each.row.is_complete for each in found)
    with pytest.raises(CncError, match="no room in the buffer of the tap"):
        traced_through(per_second * FRAME_ROOM_OCTETS // 2)


def test_a_repeated_trace_has_the_same_rows(scheduled: tuple[Lab, Plan], tmp_path: Path) -> None:
    """But for those of a talker whose timer is due less than 500 ns after another one: user-mode
    Linux lets it fire with that or up to 500 ns late (TIMER_MIN_DELTA). And but for the first two
    frames of each stream: programs that have just started take the time of their first page faults,
    which depends on what ran before."""

    def rows(name: str) -> list[str]:
        command = [str(SCHEDULES / "line3.yaml"), "--cycles", "10", "-o", str(tmp_path / name)]
        assert CliRunner().invoke(trace, command, catch_exceptions=False).exit_code == 0
        found = (tmp_path / name / "trace.csv").read_text().splitlines()
        assert found[0].startswith("flow,seq,")
        assert len(found) == 1 + 210
        return [row for row in found[1:] if int(row.split(",")[1]) >= STARTED]

    one, other = rows("one"), rows("other")
    assert len(one) > 150
    others = [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]]
    assert len(others) <= len(one) // 50, others


def test_without_a_tap_the_frames_that_pass_it_are_incomplete_and_none_is_shorter(
    scheduled: tuple[Lab, Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, plan = scheduled
    gone = PortRef("s3", "l1")
    with running.quiet():
        whole = list(record(running, plan, flows(plan), 20 * MS, tmp_path / "whole").accounts())
        monkeypatch.setattr(
            "cnc.testbed.traffic.trace.record.Taps",
            lambda lab, ports, *others, **options: Taps(lab, {*ports} - {gone}, *others, **options),
        )
        found = list(record(running, plan, flows(plan), 20 * MS, tmp_path / "gone").accounts())
    assert len(found) == len(whole)
    for each, before in zip(found, whole, strict=True):
        passes = gone in [crossing.port for crossing in each.row.crossings]
        assert each.row.is_complete != passes
        assert each.total_ns == (None if passes else before.total_ns)
        known = {part[:2]: part for part in each.parts if part.duration_ns is not None}
        same = {part[:2]: part for part in before.parts if part[:2] in known}
        assert known == same, each.row.seq


def test_the_command_shows_all_figures_and_writes_tables_a_capture_and_pictures(
    scheduled: tuple[Lab, Plan], tmp_path: Path
) -> None:
    file = str(SCHEDULES / "line3.yaml")
    shown = ["--frame", "motion/17", "--outliers", "--correlation", "--drift"]
    written = ["-o", str(tmp_path), "--pictures", str(tmp_path / "drawn")]
    whole = [file, "--cycles", "10", *shown, *written, "--json"]
    done = CliRunner().invoke(trace, whole, catch_exceptions=False)
    found = json.loads(done.stdout)
    for flow in found["flows"]:
        assert (flow["lost"], flow["incomplete"]) == (0, 0), flow["flow"]
        sums_ns = [stage["sum_ns"] for stage in flow["stages"].values()]
        assert sum(sums_ns) == flow["total_sum_ns"], flow["flow"]
    torque = next(each for each in found["drifts"] if each["flow"] == "torque")
    assert (torque["frames"], len(torque["blocks"])) == (40, 10)
    assert {each["absent"] for each in found["correlations"]} == {0}
    for each in (its for flow in found["correlations"] for its in flow["layers"]):
        assert each["correlation"] is None or abs(each["correlation"]) <= 1 + 1e-9
    (frame,) = found["frames"]
    assert frame["total_ns"] == sum(part["duration_ns"] for part in frame["parts"])
    assert len((tmp_path / "trace.csv").read_text().splitlines()) > 100
    drawn = [path.suffix for path in (tmp_path / "drawn").iterdir()]
    assert sorted(drawn) == sorted(8 * [".svg", ".png", ".pdf"] + [".html", ".json"])
    for directory in (tmp_path, tmp_path / "drawn"):
        made_by = json.loads((directory / "platform.json").read_text())
        assert (made_by["clock"], made_by["version"]) == ("virtual time", __version__)
    capture = pcapng_reader.read((tmp_path / "trace.pcapng").read_bytes())
    way = [each.port for each in capture.frames if "motion/17" in each.comments]
    assert way == ["t1/eth0", "s1/t1", "s1/s2", "s2/s1", "s2/s3", "s3/s2", "s3/l1", "l1/eth0"]


def test_lists_that_nobody_pushed_are_not_accounted_by(
    scheduled: tuple[Lab, Plan], tmp_path: Path
) -> None:
    text = (SCHEDULES / "line3.yaml").read_text()
    other = tmp_path / "line3.yaml"
    other.write_text(text.replace("payload: 1400B", "payload: 700B"))
    done = CliRunner().invoke(trace, [str(other), "--cycles", "10"])
    assert done.exit_code == 1
    assert "runs another gate control list than the plan has" in str(done.exception)
