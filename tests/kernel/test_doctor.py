"""`cnc doctor` and `cnc push` on a network of real switches: they refuse for the same reasons."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.testbed.lab import Lab, lab
from cnc.testbed.lab.switch import AGENT, NETCONF_SERVER
from tests.kernel.shared_lab import SharedLab

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"


@pytest.fixture(scope="module")
def shared() -> Iterator[SharedLab]:
    with lab(intents.load(LINE3)) as running:
        yield SharedLab(running)


@pytest.fixture
def network(shared: SharedLab) -> tuple[Lab, Path]:
    """A lab of three new switches, and its intent."""
    shared.reset()
    return shared.lab, LINE3


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, Path]]:
    """A lab beside it, for those who take a port of s2 from it."""
    file = tmp_path_factory.mktemp("ill") / "ill.yaml"
    text = LINE3.read_text().replace("name: line3", "name: ill").replace("10.99.0", "10.97.0")
    file.write_text(text)
    with lab(intents.load(file)) as running:
        yield running, file


def on(running: Lab, node: str, *argv: str) -> None:
    subprocess.run(running.command(node, argv), check=True, capture_output=True, timeout=60)


def cnc(running: Lab, command: str, *argv: object) -> subprocess.CompletedProcess[str]:
    keys = {"CNC_IDENTITY": str(running.identity), "CNC_KNOWN_HOSTS": str(running.known_hosts)}
    return subprocess.run(
        [sys.executable, "-m", "cnc", command, *map(str, argv)],
        env={**os.environ, **keys, "XDG_STATE_HOME": str(running.known_hosts.parent)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def failed(shown: subprocess.CompletedProcess[str]) -> set[tuple[str, str | None, str]]:
    """Switch, port and check of every failure."""
    found = json.loads(shown.stdout)["findings"]
    failures = {(f["switch"], f["port"], f["check"]) for f in found if f["verdict"] == "failed"}
    assert shown.returncode == (1 if failures else 0), shown.stdout + shown.stderr
    return failures


def test_a_new_network_is_sound_and_so_is_one_that_runs_its_plan(network) -> None:
    running, file = network
    before = cnc(running, "doctor", file)
    assert before.returncode == 0, before.stdout + before.stderr
    assert "a push can go ahead" in before.stdout
    assert "the TAI offset is 0 s on every switch" in before.stdout
    assert cnc(running, "push", file).returncode == 0
    assert failed(cnc(running, "doctor", "--json", file)) == set()


def leave_one_queue(running: Lab) -> None:
    on(running, "s2", "ip", "link", "delete", "s3")
    peer = ("peer", "name", "s2", "netns", running.switch("s3").namespace)
    on(running, "s2", "ip", "link", "add", "s3", "type", "veth", *peer)
    on(running, "s2", "ip", "link", "set", "s3", "up")
    on(running, "s3", "ip", "link", "set", "s2", "up")


def rename_port(running: Lab, old: str = "s3", new: str = "renamed") -> None:
    on(running, "s2", "ip", "link", "set", old, "down")
    on(running, "s2", "ip", "link", "set", old, "name", new)
    on(running, "s2", "ip", "link", "set", new, "up")


def assert_refused_by_both(network: tuple[Lab, Path], failure: tuple[str, str | None, str]) -> None:
    """What doctor calls a failure no push gets past."""
    running, file = network
    assert failure in failed(cnc(running, "doctor", "--json", file))
    refused = cnc(running, "push", file)
    assert refused.returncode == 1, refused.stdout + refused.stderr
    assert "s2" in refused.stderr
    assert "no switch was changed" in refused.stderr
    qdiscs = running.command("s1", ["tc", "qdisc", "show"])
    assert "taprio" not in subprocess.run(qdiscs, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("program", "check"), [(AGENT, "agent"), (NETCONF_SERVER, "reachable")])
def test_without_a_program_of_one_switch_doctor_fails_and_no_push_gets_past(
    network, program: str, check: str
) -> None:
    network[0].kill("s2", program)
    assert_refused_by_both(network, ("s2", None, check))


def test_with_a_foreign_qdisc_doctor_fails_and_no_push_gets_past(network) -> None:
    running, _ = network
    on(running, "s2", "tc", "qdisc", "replace", "dev", "s3", "root", "prio")
    try:
        assert_refused_by_both(network, ("s2", "s3", "root qdisc"))
    finally:
        on(running, "s2", "tc", "qdisc", "del", "dev", "s3", "root")


def test_without_a_host_key_doctor_fails_and_no_push_gets_past(network) -> None:
    known_hosts = network[0].known_hosts
    lines = known_hosts.read_text()
    known_hosts.write_text(lines.replace("10.99.0.2", "10.99.0.20"))
    try:
        assert_refused_by_both(network, ("s2", None, "host key"))
    finally:
        known_hosts.write_text(lines)


def test_without_a_port_doctor_fails_and_no_push_gets_past(spoilt) -> None:
    rename_port(spoilt[0])
    try:
        assert_refused_by_both(spoilt, ("s2", "s3", "ports exist"))
    finally:
        rename_port(spoilt[0], "renamed", "s3")


def test_with_a_single_queue_doctor_fails_and_no_push_gets_past(spoilt) -> None:
    leave_one_queue(spoilt[0])
    assert_refused_by_both(spoilt, ("s2", "s3", "transmit queues"))
