"""`cnc discover` on a network of real switches and end stations, each with an lldpd of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import CliRunner

from cnc import intent as intents
from cnc.cli import cnc
from cnc.testbed.lab import Lab, lab

SCHEDULES = Path(__file__).parents[2] / "schedules"

# Every node has the same files, and with them the same name for lldpd's socket.
CLIENT = """#!/bin/sh
exec {client} -u "{sockets}/$(ip netns identify $$)" "$@"
"""
# Not `lldpcli configure`: a daemon that is configured before it has read its own settings is mute.
DAEMON = 'hostname "$0" && exec lldpd -d -u "$1"'


@pytest.fixture(params=["line3", "bridged5"])
def network(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lab]:
    """An example with lldpd on every node, which calls itself as the node is called."""
    client = shutil.which("lldpcli")
    assert client, "lldpd is not installed; scripts/setup does that"
    file = tmp_path / "heard.yaml"
    example: str = request.param
    text = (SCHEDULES / f"{example}.yaml").read_text()
    file.write_text(text.replace(f"name: {example}", "name: heard"))
    with ExitStack() as daemons:
        sockets = Path(daemons.enter_context(TemporaryDirectory()))
        sockets.chmod(0o755)  # the client runs as lldpd's own user
        wrapper = tmp_path / "lldpcli"
        wrapper.write_text(CLIENT.format(client=client, sockets=sockets))
        wrapper.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        running = daemons.enter_context(lab(intents.load(file)))
        for node in nodes(running):
            socket = str(sockets / running.namespace(node))
            start = running.command(node, ["unshare", "--uts", "sh", "-c", DAEMON, node, socket])
            daemon = daemons.enter_context(subprocess.Popen(start))
            daemons.callback(daemon.terminate)
        wait_for(lambda: all(answers(running, node) for node in nodes(running)))
        yield running


def nodes(running: Lab) -> list[str]:
    network = running.intent.network
    return [*network.bridges, *network.end_stations]


def ask(running: Lab, node: str) -> subprocess.CompletedProcess[str]:
    """What a node's daemon says of its neighbours."""
    question = ["lldpcli", "-f", "json0", "show", "neighbors"]
    return subprocess.run(
        running.command(node, question), check=False, capture_output=True, text=True, timeout=60
    )


def answers(running: Lab, node: str) -> bool:
    """Whether a node's daemon has come as far as listening for questions."""
    return ask(running, node).returncode == 0


def wait_for(condition: Callable[[], bool]) -> None:
    """Within 100 s: a daemon sends anew after half a minute."""
    for _ in range(20):
        if condition():
            return
        time.sleep(5)
    pytest.fail("did not happen within 100 s")


def names_heard(running: Lab) -> list[str]:
    """The names of all neighbours of all nodes."""
    said = [ask(running, node) for node in nodes(running)]
    assert all(done.returncode == 0 for done in said), said
    return [
        chassis["name"][0]["value"]
        for done in said
        for heard in json.loads(done.stdout)["lldp"]
        for interface in heard.get("interface", [])
        for chassis in interface["chassis"]
    ]


def test_what_switches_hear_is_the_network_that_was_built(network, tmp_path):
    built = network.intent.network
    expected = sorted(link.source.node for link in built.links.values())
    wait_for(lambda: sorted(names_heard(network)) == expected)
    user = built.bridges["s1"].management.user
    addresses = [bridge.management.address for bridge in built.bridges.values()]
    written = tmp_path / "found.yaml"
    keys = ["--identity", network.identity, "--known-hosts", network.known_hosts]
    done = CliRunner().invoke(
        cnc, [*map(str, ("discover", *addresses, "--user", user, *keys, "-o", written))]
    )
    assert done.exit_code == 0, done.output
    found = intents.load(written).network
    assert found.forwarding is built.forwarding
    assert {link.source: link.target for link in found.links.values()} == {
        link.source: link.target for link in built.links.values()
    }
    assert {name: its.management for name, its in found.bridges.items()} == {
        name: its.management for name, its in built.bridges.items()
    }
    assert found.end_stations.keys() == built.end_stations.keys()
    assert "one-sided" not in written.read_text()


@pytest.mark.parametrize("network", ["line3"], indirect=True)
def test_swapped_cables_are_warnings_of_doctor(network, tmp_path):
    """An intent with two cables swapped differs from the network as one whose cables were."""
    built = network.intent.network
    expected = sorted(link.source.node for link in built.links.values())
    wait_for(lambda: sorted(names_heard(network)) == expected)
    as_built = tmp_path / "heard.yaml"
    swapped = tmp_path / "swapped.yaml"
    text = as_built.read_text()
    for old, new in (
        ("[t1/eth0,", "[?/eth0,"),
        ("[t2/eth0,", "[t1/eth0,"),
        ("[?/eth0,", "[t2/eth0,"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    swapped.write_text(text)
    keys = ["--identity", network.identity, "--known-hosts", network.known_hosts]

    def warnings(intent: Path) -> list[str]:
        done = CliRunner().invoke(cnc, [*map(str, ("doctor", intent, *keys))])
        lines = done.output.splitlines()
        assert not any(line.startswith("unknown: cabling") for line in lines), done.output
        return [line for line in lines if line.startswith("warning: cabling")]

    assert warnings(as_built) == []
    assert warnings(swapped) == [
        "warning: cabling: s1/t1: LLDP hears end station t1 there, the intent has t2/eth0",
        "warning: cabling: s1/t2: LLDP hears end station t2 there, the intent has t1/eth0",
    ]


def with_example_stream(draft: Path) -> None:
    """As an operator goes on with a draft: the stream that its comments propose is wanted."""
    head, _, example = draft.read_text().partition("# streams:")
    lines = [line.removeprefix("# ") for line in example.splitlines()[:-1]]
    draft.write_text("\n".join([f"{head}streams:", *lines[1:], ""]))


@pytest.mark.parametrize("network", ["bridged5"], indirect=True)
def test_the_draft_of_a_bridged_network_is_pushed_as_it_is(network, tmp_path):
    built = network.intent.network
    expected = sorted(link.source.node for link in built.links.values())
    wait_for(lambda: sorted(names_heard(network)) == expected)
    user = built.bridges["s1"].management.user
    addresses = [bridge.management.address for bridge in built.bridges.values()]
    written = tmp_path / "found.yaml"
    keys = ["--identity", network.identity, "--known-hosts", network.known_hosts]
    commands = [
        ("discover", *addresses, "--user", user, *keys, "-o", written),
        ("push", written, *keys, "--state-dir", tmp_path),
        ("push", written, *keys, "--state-dir", tmp_path),
        ("path", "motion", written, *keys),
    ]
    outputs = []
    for number, command in enumerate(commands):
        done = CliRunner().invoke(cnc, [*map(str, command)])
        assert done.exit_code == 0, f"{done.output}{done.exception}"
        outputs.append(done.output)
        if number == 1:  # pushed as it is; and then with a stream
            with_example_stream(written)
    assert "as planned" in outputs[-1]
