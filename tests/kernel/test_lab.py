"""An emulated network comes up whole and goes without a trace."""

from __future__ import annotations

import dataclasses
import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.errors import CncError
from cnc.mechanisms.terms import control_ahead_ns
from cnc.planner import plan as compute
from cnc.rollout import push
from cnc.switch.device import Device, DeviceError
from cnc.testbed.lab import Lab, down, execute, lab, status, up
from cnc.testbed.lab.lifecycle import STATE_ROOT
from cnc.testbed.lab.namespaces import members
from cnc.testbed.lab.switch import AGENT, NETCONF_SERVER, PROGRAMS, SHARED_MEMORY
from cnc.testbed.traffic.measure import summarise
from cnc.testbed.traffic.recording import Flow, flows, run

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
UP = """
import pathlib, sys
from cnc import intent
from cnc.testbed import lab
lab.up(intent.load(pathlib.Path(sys.argv[1])))
"""
MS = 1_000_000
S = 1_000 * MS


@pytest.fixture(scope="module")
def running() -> Iterator[Lab]:
    with lab(dataclasses.replace(intents.load(LINE3), name="labtest")) as found:
        yield found


def traces(name: str) -> list[str]:
    """All that a lab of this name has on the machine."""
    processes = [
        entry.name
        for entry in Path("/proc").iterdir()
        if entry.name.isdecimal() and f"/{name}/".encode() in arguments(entry)
    ]
    links = subprocess.run(["ip", "-o", "link"], check=True, capture_output=True, text=True).stdout
    return [
        *processes,
        *(path.name for path in Path("/run/netns").glob(f"tsn-{name}*")),
        *(path.name for path in SHARED_MEMORY.glob(f"tsn-{name}*")),
        *(line for line in links.splitlines() if f"tsn-{name}" in line),
        *(str(path) for path in STATE_ROOT.glob(name)),
    ]


def arguments(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
    except OSError:  # it ended, or is no more than a corpse
        return b""


def beside(name: str, directory: Path) -> Path:
    """The intent file of the same network under another name, managed on another subnet."""
    file = directory / f"{name}.yaml"
    text = LINE3.read_text().replace("name: line3", f"name: {name}")
    file.write_text(text.replace("10.99.0", "10.97.0"))
    return file


def on(running: Lab, node: str, *argv: str) -> str:
    done = subprocess.run(
        running.command(node, argv), check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout


def test_every_end_station_reaches_every_other_over_both_ip_versions(running: Lab, tmp_path: Path):
    stations = running.intent.network.end_stations
    sent = [
        Flow(f"{a} {b} {v}", a, b, 0, v, 0, 200, 10 * MS, number * 100_000, None)
        for number, ((a, b), v) in enumerate(
            itertools.product(itertools.permutations(stations, 2), (4, 6))
        )
    ]
    frames = run(running, sent, 50 * MS, tmp_path)
    assert len(frames) == 5 * len(sent)
    assert [frame for frame in frames if frame.received_ns is None] == []


def test_ports_are_named_as_in_the_intent_and_have_a_queue_for_every_class(running: Lab):
    for port in running.intent.network.links:
        queues = on(running, port.node, "ls", f"/sys/class/net/{port.port}/queues").split()
        assert sum(queue.startswith("tx-") for queue in queues) == 8


def test_ports_never_merge_or_cut_up_frames(running: Lab):
    for port in running.intent.network.links:
        shown = on(running, port.node, "ethtool", "-k", port.port).splitlines()
        for offload in ("generic-segmentation", "generic-receive", "tx-tcp-segmentation"):
            (line,) = (line.strip() for line in shown if line.strip().startswith(offload))
            assert line.split(": ")[1].startswith("off")


def test_status_names_every_node_and_the_programs_of_every_switch(running: Lab):
    found = {node.node: node for node in status(running.intent.name)}
    network = running.intent.network
    assert set(found) == {*network.bridges, *network.end_stations}
    assert all(node.present for node in found.values())
    for name in network.bridges:
        assert set(found[name].processes) == set(PROGRAMS)
        for pid in found[name].processes.values():
            assert pid in members(found[name].namespace)


def test_a_command_runs_on_its_node_and_finds_that_switchs_datastore(running: Lab):
    name = running.intent.name
    assert execute(name, "t1", ["test", "-e", "/sys/class/net/eth0"]) == 0
    assert execute(name, "s1", ["test", "-e", "/sys/class/net/eth0"]) == 1
    repository = str(running.switch("s1").repository)
    there = ["sh", "-c", f'test "$SYSREPO_REPOSITORY_PATH" = {repository}']
    assert execute(name, "s1", there) == 0


def test_an_unknown_node_is_refused_with_the_nodes_there_are(running: Lab):
    with pytest.raises(CncError, match="no node s9") as refused:
        execute(running.intent.name, "s9", ["true"])
    assert "s1, s2, s3" in str(refused.value.hint)


def test_a_killed_program_is_missed_by_status_and_can_be_started_again(running: Lab):
    for program in (AGENT, NETCONF_SERVER):
        running.kill("s2", program)
        assert running.switch("s2").pid(program) is None
        assert running.start("s2", program) == running.switch("s2").pid(program)
    running.wait_ready()


def test_a_cut_switch_falls_silent_and_its_open_session_goes_on_once_mended(running: Lab):
    bridge = running.intent.network.bridges["s2"]
    impatient = dataclasses.replace(running.connect, timeout_s=2)
    with Device(bridge, impatient) as waiting, Device(bridge, running.connect) as patient:
        running.link_down("s2")
        with pytest.raises(DeviceError, match="no answer to get in time"):
            waiting.state(["mgmt"])
        repair = threading.Timer(1, running.link_up, ["s2"])
        repair.start()
        assert patient.state(["mgmt"]).agent is not None
        repair.join()


def test_the_other_switches_answer_while_one_is_cut(running: Lab):
    running.link_down("s2")
    try:
        with Device(running.intent.network.bridges["s1"], running.connect) as device:
            assert device.state(["mgmt"]).agent is not None
    finally:
        running.link_up("s2")
    running.wait_ready()


def test_a_lab_that_is_up_is_not_started_twice(running: Lab):
    with pytest.raises(CncError, match="up already"):
        up(running.intent)
    running.wait_ready()


def test_a_second_lab_on_the_same_management_subnet_is_refused_and_leaves_nothing(running: Lab):
    with pytest.raises(CncError, match="controller's address"):
        up(dataclasses.replace(running.intent, name="second"))
    assert traces("second") == []
    running.wait_ready()


def test_nothing_is_left_of_a_lab_that_went_down(tmp_path: Path):
    other = intents.load(beside("gone", tmp_path))
    with lab(other):
        assert traces("gone")
    assert traces("gone") == []


def test_a_process_that_is_about_to_enter_a_lab_ends_with_it(tmp_path: Path):
    """As of a start that was killed between a program's beginning and its move into a node."""
    slow = 'exec 3</run/netns/"$2"; sleep 0.2; exec nsenter --net=/proc/self/fd/3 sleep 1000'
    (tmp_path / "netns").write_text(slow)
    with lab(intents.load(beside("left", tmp_path))):
        subprocess.Popen(
            ["ip", "netns", "exec", "tsn-left-s1"],
            executable="/bin/bash",
            cwd=tmp_path,
            env={**os.environ, "REPOSITORY": "/left/"},
        )
    assert traces("left") == []


def test_taking_down_what_is_not_up_is_no_error():
    down("never-there")
    assert status("never-there") == []


@pytest.mark.parametrize("until", ["/run/netns/tsn-crash-t1", "/run/cnc-lab/crash/s1/sysrepo"])
def test_nothing_is_left_after_a_crash_in_the_middle(tmp_path: Path, until: str):
    said = tmp_path / "said"
    with said.open("w") as file:
        starting = subprocess.Popen(
            [sys.executable, "-c", UP, beside("crash", tmp_path)], stdout=file, stderr=file
        )
    try:
        # Without a deadline: while it waits for a disk, virtual time leaps from sleep to sleep.
        while not Path(until).exists():
            assert starting.poll() is None, said.read_text()
            time.sleep(0.01)
    finally:
        starting.kill()
        starting.wait()
    assert traces("crash")
    down("crash")
    assert traces("crash") == []


def test_a_switch_that_does_not_come_up_is_told_with_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("cnc.testbed.lab.switch.PROGRAMS", (AGENT, "false"))
    monkeypatch.setattr("cnc.testbed.lab.lifecycle.PROGRAMS", (AGENT, "false"))
    monkeypatch.setattr("cnc.testbed.lab.namespaced.PROGRAMS", (AGENT, "false"))
    with pytest.raises(CncError, match="switch s1 did not come up: false ended"):
        up(intents.load(beside("broken", tmp_path)))
    assert traces("broken") == []


@pytest.mark.virtual_time
@pytest.mark.parametrize("timed_wires", [False, True])
def test_every_frame_keeps_its_bound_and_no_gate_lets_one_through_too_early_or_late(
    tmp_path: Path, timed_wires: bool
):
    intent = intents.load(beside("timed", tmp_path))
    plan = compute(intent)
    sent = flows(plan)
    with lab(intent, timed_wires=timed_wires) as running:
        report = push(plan, connect=running.connect)
        assert report.base_time_ns is not None
        time.sleep(max(0, report.base_time_ns - time.clock_gettime_ns(time.CLOCK_TAI)) / S)
        frames = run(running, sent, 1_000 * intent.hyperperiod_ns(), tmp_path)
    control_ns = max(control_ahead_ns(intent, link) for link in intent.network.links.values())
    for found in summarise(plan, sent, frames, timed_wires=timed_wires):
        assert found.sent >= 1_000
        assert found.lost == 0, found
        assert found.late == 0, found
        assert found.outside == 0, found
        if timed_wires and found.flow.latency_bound_ns is not None:
            assert found.latency is not None
            # The lab sends no control that could be ahead on the last link.
            without_control_ns = found.flow.latency_bound_ns - control_ns
            assert found.latency.min_ns > 0.95 * without_control_ns
