"""YAML to kernel and back on real parts: what an operator does, as the kernels show it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from lxml import etree

from agent.kernel.link import WAKE_UP_PROBE
from cnc import intent as intents
from cnc.data_tree.tree import TSN_LINUX
from cnc.model import GateControlList, GateEntry, Plan, PortRef
from cnc.planner import plan as compute
from cnc.rollout import push, status
from cnc.switch import ConnectOptions
from cnc.switch.device import Device
from cnc.switch.payload import edit_config
from cnc.switch.rollout_id import RolloutId
from cnc.testbed.lab import Lab, lab
from cnc.testbed.lab.switch import AGENT, NETCONF_SERVER
from tests.kernel.shared_lab import SharedLab
from tests.kernel.test_agent_watch import set_tai_offset
from tests.unit.asked import desired_ports

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
READY_TIMEOUT_S = 60


@dataclasses.dataclass(frozen=True)
class Bench:
    """A lab that is up, the intent file it was made from, and that file's plan."""

    lab: Lab
    file: Path
    plan: Plan


def bench(file: Path) -> contextlib.AbstractContextManager[Bench]:
    @contextlib.contextmanager
    def up() -> Iterator[Bench]:
        intent = intents.load(file)
        with lab(intent) as running:
            yield Bench(running, file, compute(intent))

    return up()


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[Bench, SharedLab]]:
    with bench(LINE3) as running:
        yield running, SharedLab(running.lab)


@pytest.fixture(scope="module")
def line3(shared: tuple[Bench, SharedLab]) -> Bench:
    """A lab whose switches can take any plan, whatever they run."""
    return shared[0]


@pytest.fixture
def new(shared: tuple[Bench, SharedLab]) -> Bench:
    """The same lab; no switch runs a plan or anything else that a test before has left."""
    running, lab = shared
    lab.reset()
    return running


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A lab beside `line3`, for those who take a port of s2 from it."""
    file = tmp_path_factory.mktemp("spoilt") / "spoilt.yaml"
    text = LINE3.read_text().replace("name: line3", "name: spoilt").replace("10.99.0", "10.98.0")
    file.write_text(text)
    with bench(file) as running:
        yield running


def reach(bench: Bench) -> ConnectOptions:
    return ConnectOptions(bench.lab.identity, bench.lab.known_hosts, 60)


def on(bench: Bench, node: str, *argv: str) -> str:
    done = subprocess.run(
        bench.lab.command(node, argv), check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout


def cnc(bench: Bench, *argv: object) -> subprocess.CompletedProcess[str]:
    """The `cnc` command as an operator runs it."""
    keys = {
        "CNC_IDENTITY": str(bench.lab.identity),
        "CNC_KNOWN_HOSTS": str(bench.lab.known_hosts),
    }
    return subprocess.run(
        [sys.executable, "-m", "cnc", *map(str, argv)],
        env={**os.environ, **keys},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def tc_qdisc(bench: Bench, port: PortRef) -> str:
    """A port's qdiscs as `tc`, a reader we did not write, shows them.

    As text: tc's JSON is not valid as soon as a schedule is pending (iproute2 6.1).
    """
    return on(bench, port.node, "tc", "qdisc", "show", "dev", port.port)


def schedules_in(shown: str) -> list[tuple[int, GateControlList]]:
    """(base time, gates) of the running schedule and of the pending one, as far as present."""
    return [
        (
            int(base_time),
            GateControlList(
                int(cycle_time),
                tuple(
                    GateEntry(int(mask, 16), int(interval))
                    for mask, interval in re.findall(r"gatemask (\S+) interval (\d+)", entries)
                ),
            ),
        )
        for base_time, cycle_time, entries in re.findall(
            r"base-time (\d+) cycle-time (\d+) cycle-time-extension \d+\n((?:\s+index .*\n)+)",
            shown,
        )
    ]


def every_qdisc(bench: Bench) -> dict[str, list[str]]:
    """The qdiscs of all ports, a line each, by switch."""
    return {
        name: [
            line
            for line in on(bench, name, "tc", "qdisc", "show").splitlines()
            if WAKE_UP_PROBE not in line
        ]
        for name in bench.plan.intent.network.bridges
    }


def wait_until(condition: Callable[[], object], what: str, timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)


@pytest.mark.reference
def test_every_port_runs_the_plan_after_a_push(line3: Bench) -> None:
    # On a real clock gates are never exact, and on a busy machine late by any time.
    report = push(line3.plan, connect=reach(line3), force_margin=True)
    assert {change.port for change in report.changes} == set(line3.plan.gates)
    for port, gates in line3.plan.gates.items():
        shown = tc_qdisc(line3, port)
        base_times = {base for base, running in schedules_in(shown) if running == gates}
        assert base_times == {report.base_time_ns}
        assert report.base_time_ns is not None
        assert report.base_time_ns % gates.cycle_ns == 0
        assert "taprio 7a0: root" in shown
        assert "tc 8 map 0 0 0 0 0 0 6 7 0 0 0 0 0 0 0 0" in shown
        queues = " ".join(f"offset {queue} count 1" for queue in range(8))
        assert f"queues {queues}" in shown
        assert "clockid TAI" in shown


def test_status_says_what_runs(line3: Bench) -> None:
    push(line3.plan, connect=reach(line3))
    ports = status(line3.plan, connect=reach(line3))
    assert all(port.agrees for port in ports), [p.verdict for p in ports]
    with_gates = {p.port for p in ports if p.verdict in {"running", "pending"}}
    assert with_gates == set(line3.plan.gates)


def test_the_same_plan_again_is_no_change_and_causes_no_kernel_event(
    line3: Bench, tmp_path: Path
) -> None:
    push(line3.plan, connect=reach(line3))
    before = every_qdisc(line3)
    logs = {name: tmp_path / name for name in before}
    monitors = []
    for name, log in logs.items():
        with log.open("wb") as out:
            for argv in (["tc", "monitor"], ["nft", "monitor"]):
                command = line3.lab.command(name, argv)
                monitors.append(subprocess.Popen(command, stdout=out, stderr=out))
    try:
        again = cnc(line3, "push", line3.file)
    finally:
        for monitor in monitors:
            monitor.terminate()
            monitor.wait()
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("no change")
    assert {name: log.read_text() for name, log in logs.items()} == dict.fromkeys(logs, "")
    assert every_qdisc(line3) == before


def test_a_dry_run_names_what_would_change_and_changes_nothing(new: Bench) -> None:
    before = every_qdisc(new)
    shown = cnc(new, "push", "--dry-run", "--json", new.file)
    assert shown.returncode == 0, shown.stderr
    told = json.loads(shown.stdout)
    assert {change["port"] for change in told["changes"]} == {str(port) for port in new.plan.gates}
    assert not told["changed"]
    assert every_qdisc(new) == before


def test_three_pushes_leave_every_rule_once_and_foreign_state_alone(new: Bench) -> None:
    foreign = ["-t", "mangle", "-A", "POSTROUTING", "-p", "udp", "--dport", "9", "-j", "ACCEPT"]
    on(new, "s2", "iptables", *foreign)
    on(new, "s1", "tc", "qdisc", "add", "dev", "mgmt", "root", "pfifo", "limit", "77")
    shorter = without(new.plan, "valves")
    for wanted in (new.plan, shorter, new.plan):
        push(wanted, connect=reach(new))
    for command in ("iptables", "ip6tables"):
        rules = on(new, "s2", f"{command}-save", "-t", "mangle").splitlines()
        for dscp, priority in ((46, 6), (48, 7), (56, 7), (0, 0)):
            ours = [
                rule
                for rule in rules
                if "-o s3 " in rule
                and f"--dscp 0x{dscp:02x}" in rule
                and f"--set-class 0000:{priority:04x}" in rule
            ]
            assert len(ours) == 1, (command, dscp, rules)
        assert sum("-A POSTROUTING -j TSN-CLASSIFY" in rule for rule in rules) == 1
    assert any("--dport 9 " in rule for rule in on(new, "s2", "iptables-save").splitlines())
    assert "limit 77p" in on(new, "s1", "tc", "qdisc", "show", "dev", "mgmt")
    on(new, "s2", "iptables", *("-D" if word == "-A" else word for word in foreign))
    on(new, "s1", "tc", "qdisc", "del", "dev", "mgmt", "root")


def without(plan: Plan, stream: str) -> Plan:
    """The plan of the same intent with one stream less."""
    document = {**plan.intent.document}
    document["streams"] = {k: v for k, v in document["streams"].items() if k != stream}
    return compute(intents.from_document(document, "test"))


def test_a_stream_that_leaves_touches_only_the_ports_it_crossed(new: Bench) -> None:
    push(new.plan, connect=reach(new))
    shorter = without(new.plan, "camera")
    report = push(shorter, connect=reach(new))
    assert {change.port for change in report.changes} == {
        port for port, gates in new.plan.gates.items() if shorter.gates.get(port) != gates
    }
    assert "taprio" not in tc_qdisc(new, PortRef("s3", "l2"))


# --- one of three refuses: none changes --------------------------------------------------------


def make_s3_single_queue(bench: Bench) -> None:
    on(bench, "s2", "ip", "link", "delete", "s3")
    peer = ("peer", "name", "s2", "netns", bench.lab.switch("s3").namespace)
    on(bench, "s2", "ip", "link", "add", "s3", "type", "veth", *peer)
    on(bench, "s2", "ip", "link", "set", "s3", "up")
    on(bench, "s3", "ip", "link", "set", "s2", "up")


def rename_port(bench: Bench, old: str = "s3", new: str = "renamed") -> None:
    on(bench, "s2", "ip", "link", "set", old, "down")
    on(bench, "s2", "ip", "link", "set", old, "name", new)


def set_foreign_qdisc(bench: Bench) -> None:
    on(bench, "s2", "tc", "qdisc", "replace", "dev", "s3", "root", "handle", "5:", "prio")


def remove_foreign_qdisc(bench: Bench) -> None:
    on(bench, "s2", "tc", "qdisc", "del", "dev", "s3", "root")


def assert_refused(bench: Bench, words: list[str]) -> None:
    before = every_qdisc(bench)
    refused = cnc(bench, "push", bench.file)
    assert refused.returncode == 1, refused.stdout + refused.stderr
    for word in words:
        assert word in refused.stderr
    assert "no switch was changed" in refused.stderr
    assert every_qdisc(bench) == before


@pytest.mark.parametrize(
    ("program", "words"),
    [(AGENT, ["s2", "no agent"]), (NETCONF_SERVER, ["s2", "10.99.0.2", "830"])],
)
def test_when_a_program_of_one_switch_is_down_none_changes(
    new: Bench, program: str, words: list[str]
) -> None:
    new.lab.kill("s2", program)
    assert_refused(new, words)


def test_when_one_port_has_a_foreign_qdisc_none_changes(new: Bench) -> None:
    set_foreign_qdisc(new)
    try:
        assert_refused(new, ["s2", "s3", "prio"])
    finally:
        remove_foreign_qdisc(new)


def test_when_one_port_is_not_there_none_changes(spoilt: Bench) -> None:
    rename_port(spoilt)
    try:
        assert_refused(spoilt, ["s2", "s3", "no such"])
    finally:
        rename_port(spoilt, "renamed", "s3")


def test_when_one_port_has_a_single_queue_none_changes(spoilt: Bench) -> None:
    make_s3_single_queue(spoilt)
    assert_refused(spoilt, ["s2", "s3", "8 TX queues", "Multi-queue device is required"])


def test_an_interval_too_short_for_the_port_is_refused_everywhere(
    new: Bench, tmp_path: Path
) -> None:
    """The intent claims 100 Gb/s between s2 and s3; the lab's port there runs at 1 Gb/s."""
    document = yaml.safe_load(new.file.read_text())
    document["links"] = [
        {"ends": ends, "rate": "100Gbps"} if ends == ["s2/s3", "s3/s2"] else ends
        for ends in document["links"]
    ]
    boast = tmp_path / "boast.yaml"
    boast.write_text(yaml.safe_dump(document))
    before = every_qdisc(new)
    refused = cnc(new, "push", boast)
    assert refused.returncode == 1, refused.stdout + refused.stderr
    for word in ("s2/s3", "40 ns", "the kernel requires at least 480", "no switch was changed"):
        assert word in refused.stderr
    assert every_qdisc(new) == before


def test_the_old_schedule_keeps_running_when_a_new_one_is_refused(new: Bench) -> None:
    push(new.plan, connect=reach(new))
    shorter = without(new.plan, "camera")
    taken = PortRef("s2", "s3")
    on(new, taken.node, "tc", "qdisc", "del", "dev", taken.port, "root")
    set_foreign_qdisc(new)
    with pytest.raises(Exception, match="prio"):
        push(shorter, connect=reach(new))
    for port in set(new.plan.gates) - {taken}:
        newest = schedules_in(tc_qdisc(new, port))[-1]
        assert newest[1] == new.plan.gates[port]
    remove_foreign_qdisc(new)


# --- the agent dies ----------------------------------------------------------------------------


def test_a_killed_agent_leaves_the_schedule_and_its_successor_serves_it(
    line3: Bench, tmp_path: Path
) -> None:
    push(line3.plan, connect=reach(line3))
    before = every_qdisc(line3)
    log = tmp_path / "monitor"
    with log.open("wb") as out:
        monitor = subprocess.Popen(line3.lab.command("s2", ["tc", "monitor"]), stdout=out)
        try:
            line3.lab.kill("s2", AGENT)
            assert every_qdisc(line3) == before
            dead = {p.port.node for p in status(line3.plan, connect=reach(line3)) if not p.agrees}
            assert dead == {"s2"}
            line3.lab.start("s2", AGENT)
            wait_until(
                lambda: all(p.agrees for p in status(line3.plan, connect=reach(line3))),
                "the new agent to serve its state",
                READY_TIMEOUT_S,
            )
        finally:
            monitor.terminate()
            monitor.wait()
    seen = log.read_text().splitlines()
    assert [line for line in seen if WAKE_UP_PROBE not in line] == []
    assert every_qdisc(line3) == before
    assert push(line3.plan, connect=reach(line3)).changes == ()


def test_drift_is_named_and_the_next_push_puts_it_right(line3: Bench) -> None:
    push(line3.plan, connect=reach(line3))
    on(line3, "s2", "tc", "qdisc", "del", "dev", "s3", "root")
    drifted = [p for p in status(line3.plan, connect=reach(line3)) if not p.agrees]
    assert [str(p.port) for p in drifted] == ["s2/s3"]
    report = push(line3.plan, connect=reach(line3))
    assert [str(change.port) for change in report.changes] == ["s2/s3"]
    assert all(port.agrees for port in status(line3.plan, connect=reach(line3)))


def test_lists_that_are_given_run_in_kernels_as_they_are_read_back(
    new: Bench, tmp_path: Path
) -> None:
    """One port has a list of its own, which lasts shorter than its cycle, all others a share."""
    document = yaml.safe_load(new.file.read_text())
    document["streams"] = {}
    document["classes"]["cyclic"]["windows"] = {"share": "30%", "every": "1ms", "after": "100us"}
    entries = [
        {"open": ["control", "cyclic"], "for": "200us"},
        {"open": ["control", "best-effort"], "for": "250us"},
    ]
    own = {"cycle": "500us", "base-offset": "50us", "entries": entries}
    document["switches"]["s2"]["ports"] = {"s1": {}, "s3": {"gate-control-list": own}}
    file = tmp_path / "given.yaml"
    file.write_text(yaml.safe_dump(document))
    plan = compute(intents.load(file))
    push(plan, connect=reach(new))
    assert len(plan.gates) == 8
    for port, gates in plan.gates.items():
        assert [each for _, each in schedules_in(tc_qdisc(new, port))][-1] == gates
    assert plan.gates[PortRef("s2", "s3")].entries == (
        GateEntry(0x81, 50_000),
        GateEntry(0xC0, 200_000),
        GateEntry(0x81, 250_000),
    )
    assert all(port.agrees for port in status(plan, connect=reach(new)))
    on(new, "s2", "tc", "qdisc", "del", "dev", "s3", "root")
    drifted = [p for p in status(plan, connect=reach(new)) if not p.agrees]
    assert [str(p.port) for p in drifted] == ["s2/s3"]
    report = push(plan, connect=reach(new))
    assert [str(change.port) for change in report.changes] == ["s2/s3"]
    assert all(port.agrees for port in status(plan, connect=reach(new)))
    assert (
        schedules_in(tc_qdisc(new, PortRef("s2", "s3")))[-1][1] == plan.gates[PortRef("s2", "s3")]
    )


@pytest.fixture
def tai_offset_of_today() -> Iterator[None]:
    """CLOCK_TAI is 37 s ahead of UTC, as ptp4l or chrony set it."""
    set_tai_offset(37)
    yield
    set_tai_offset(0)


def configure_lists_on(clock: str, bench: Bench) -> None:
    """Let all lists of all switches run on another kernel clock than TAI."""
    for bridge in bench.plan.intent.network.bridges.values():
        ports = desired_ports(bench.plan, bridge.name)
        with Device(bridge, reach(bench)) as switch:
            mark = RolloutId.of_this_controller()
            config = edit_config(ports, 0, switch.stored(ports).ports, mark)
            for taprio in config.iter(f"{{{TSN_LINUX}}}taprio"):
                etree.SubElement(taprio, f"{{{TSN_LINUX}}}clock").text = clock
            switch.edit(config)
            switch.commit_confirmed(60, mark.id)
            switch.confirm(mark.id)


@pytest.mark.usefixtures("tai_offset_of_today")
def test_lists_on_utc_are_brought_to_tai_with_a_base_time_ahead_of_tai(line3: Bench) -> None:
    configure_lists_on("realtime", line3)
    ports = list(line3.plan.gates)
    assert all("clockid REALTIME" in tc_qdisc(line3, port) for port in ports)
    begun_tai_ns = time.clock_gettime_ns(time.CLOCK_TAI)
    report = push(line3.plan, connect=reach(line3))
    assert report.base_time_ns is not None
    assert report.base_time_ns > begun_tai_ns
    for port in ports:
        shown = tc_qdisc(line3, port)
        assert "clockid TAI" in shown
        assert report.base_time_ns in {base for base, _ in schedules_in(shown)}
