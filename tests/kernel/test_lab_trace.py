"""Where the time of each frame of a lab goes, against what the kernels run and what is injected."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from cnc import __version__
from cnc.cli.trace import trace
from cnc.errors import CncError
from cnc.lab import Lab, wires
from cnc.lab.namespaces import of_wires
from cnc.model import NS_PER_S, Plan, PortRef
from cnc.planner import plan as compute
from cnc.traffic import endpoint, tap
from cnc.traffic.flows import flows
from cnc.traffic.recording import run
from cnc.traffic.trace.account import Account, Layer
from cnc.traffic.trace.record import record
from tests import pcapng_reader
from tests.kernel.gate_waits import CLOCK_NS, check

SCHEDULES = Path(__file__).parents[2] / "schedules"
MS = 1_000_000
TRACED_MS = int(os.environ.get("TSN_TRACED_MS", "100"))
INJECTED_NS = 50_000
FRAME_ROOM_OCTETS = 600  # half of what the kernel takes for a short frame that waits, and more

pytestmark = pytest.mark.virtual_time


# A station's program whose talker, or listener, takes so much longer at one place.
LATE_PROGRAM = """
import ctypes, sys
from cnc.talker import sleep_until, tai_ns
from cnc.traffic import endpoint, tap

ctypes.CDLL(None).prctl(29, 1)  # PR_SET_TIMERSLACK

def late(function):
    def do(*arguments):
        result = function(*arguments) if {after} else None
        sleep_until(tai_ns() + {sleep_ns})
        return result if {after} else function(*arguments)
    return do

{place} = late({place})
endpoint.main(*sys.argv[1:])
"""


def tc(running: Lab, node: str, *lines: str) -> None:
    for line in lines:
        subprocess.run(running.command(node, line.split()), check=True)


@contextmanager
def late_program(place: str, directory: Path, *, after: bool) -> Iterator[None]:
    file = directory / "late.py"
    sleep_ns = INJECTED_NS - CLOCK_NS  # from a reading of the clock, which takes the rest
    file.write_text(LATE_PROGRAM.format(place=place, after=after, sleep_ns=sleep_ns))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(endpoint, "__file__", str(file))
        yield


@contextmanager
def late_queue(running: Lab, port: PortRef) -> Iterator[None]:
    tc(running, port.node, f"tc qdisc add dev {port.port} root netem delay 50us")
    yield
    tc(running, port.node, f"tc qdisc del dev {port.port} root")


@contextmanager
def late_arrivals(running: Lab, port: PortRef) -> Iterator[None]:
    tc(
        running,
        port.node,
        "ip link add ifb0 type ifb",
        "ip link set ifb0 up",
        "tc qdisc add dev ifb0 root netem delay 50us",
        f"tc qdisc add dev {port.port} ingress",
        f"tc filter add dev {port.port} ingress matchall action mirred egress redirect dev ifb0",
    )
    yield
    tc(running, port.node, f"tc qdisc del dev {port.port} ingress", "ip link del ifb0")


@contextmanager
def late_cable(running: Lab, port: PortRef) -> Iterator[None]:
    network = running.intent.network
    link = network.links[port]
    exit_ = wires.interfaces(network)[link.target]
    least_ns = link.propagation_ns + network.bridges[link.target.node].processing_min_ns

    def delay(delay_ns: int) -> None:
        netem = f"netem limit {wires.QUEUE_FRAMES} delay {delay_ns / 1000}us"
        netem += f" rate {link.rate_bps}bit {wires.overhead_octets(network)}"
        command = f"tc -n {of_wires(running.intent.name)} qdisc change dev {exit_} root {netem}"
        subprocess.run(command.split(), check=True)

    delay(least_ns + INJECTED_NS)
    yield
    delay(least_ns)


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
    way = [("s1", "t1", "s2"), ("s2", "s1", "s3"), ("s3", "s2", "l1")]
    injections: list[tuple[tuple[str, Layer], Callable[[], object]]] = [
        (("t1", Layer.SOCKET), lambda: late_program(send, tmp_path, after=False)),
        (("t1/eth0", Layer.QDISC), lambda: late_queue(unscheduled, PortRef("t1", "eth0"))),
        (("s1/s2", Layer.WIRE), lambda: late_cable(unscheduled, PortRef("s1", "s2"))),
        (("l1", Layer.LISTENER), lambda: late_program(receive, tmp_path, after=True)),
    ]
    for node, ingress, egress in way:
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
    assert sorted(drawn) == sorted(6 * [".svg", ".png", ".pdf"] + [".json"])
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
