"""`cnc doctor` and `cnc push` on a network of real switches: they refuse for the same reasons."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.lab import Lab, lab
from cnc.lab.switch import AGENT, NETCONF_SERVER

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"


@pytest.fixture
def network(tmp_path: Path) -> Iterator[tuple[Lab, Path]]:
    """A lab of three switches, and its intent."""
    file = tmp_path / "ill.yaml"
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
    assert "TAI offset 0 s here and everywhere" in before.stdout
    assert cnc(running, "push", file).returncode == 0
    assert failed(cnc(running, "doctor", "--json", file)) == set()


def leave_one_queue(running: Lab) -> None:
    on(running, "s2", "ip", "link", "delete", "s3")
    peer = ("peer", "name", "s2", "netns", running.switch("s3").namespace)
    on(running, "s2", "ip", "link", "add", "s3", "type", "veth", *peer)
    on(running, "s2", "ip", "link", "set", "s3", "up")
    on(running, "s3", "ip", "link", "set", "s2", "up")


def rename_port(running: Lab) -> None:
    on(running, "s2", "ip", "link", "set", "s3", "down")
    on(running, "s2", "ip", "link", "set", "s3", "name", "renamed")
    on(running, "s2", "ip", "link", "set", "renamed", "up")


@pytest.mark.parametrize(
    ("break_it", "failure"),
    [
        (leave_one_queue, ("s2", "s3", "transmit queues")),
        (rename_port, ("s2", "s3", "ports exist")),
        (
            lambda it: on(it, "s2", "tc", "qdisc", "replace", "dev", "s3", "root", "prio"),
            ("s2", "s3", "root qdisc"),
        ),
        (lambda it: it.kill("s2", AGENT), ("s2", None, "agent")),
        (lambda it: it.kill("s2", NETCONF_SERVER), ("s2", None, "reachable")),
        (
            lambda it: it.known_hosts.write_text(
                it.known_hosts.read_text().replace("10.97.0.2", "10.97.0.20")
            ),
            ("s2", None, "host key"),
        ),
    ],
    ids=["queues", "renamed", "foreign qdisc", "agent", "server", "host key"],
)
def test_what_doctor_calls_a_failure_no_push_gets_past(
    network, break_it: Callable[[Lab], None], failure: tuple[str, str | None, str]
) -> None:
    running, file = network
    break_it(running)
    assert failure in failed(cnc(running, "doctor", "--json", file))
    refused = cnc(running, "push", file)
    assert refused.returncode == 1, refused.stdout + refused.stderr
    assert "s2" in refused.stderr
    assert "no switch was changed" in refused.stderr
    qdiscs = running.command("s1", ["tc", "qdisc", "show"])
    assert "taprio" not in subprocess.run(qdiscs, capture_output=True, text=True, check=True).stdout
