"""Switches that lie about how they forward, police and number frames, in replies that a test
changes: every command ends with a verdict or an error in words, and the watch goes on."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from copy import deepcopy
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.data_tree import reply
from cnc.planner import plan as compute
from cnc.plans import file as planfile
from cnc.switch.device import ConnectOptions, DeviceError
from cnc.switch.node import Managed
from cnc.switch.subscription import Subscription
from cnc.switch.topology import topology_report
from cnc.watch.observer import Observer
from cnc.watch.sources import open_source
from tests.unit.asked import desired_ports
from tests.unit.lies import invoke, places, random_changes, say
from tests.unit.lying_switches import NAMESPACES, element, leaves, lying, state_data
from tests.unit.places import reported_bridge
from tests.unit.test_cli_printable import is_harmless

# Bridges that police, number frames, and take out second copies, and a talker with an agent.
SCHEDULE = intents.read(Path(__file__).parents[2] / "schedules" / "guarded.yaml").document
STATIONS = {name: {} for name in SCHEDULE["end-stations"]} | {"plc": {"management": "10.99.0.9"}}
INTENT = SCHEDULE | {"end-stations": STATIONS}
GUARDED = compute(intents.from_document(INTENT, "guarded.yaml"))
LATENESS = "talker-lateness"
PLACES = sorted({*places(GUARDED, "s1"), *places(GUARDED, "plc")})
COMMANDS = {
    "status": ["status", "PLAN"],
    "status --json": ["status", "--json", "PLAN"],
    "push --dry-run": ["push", "--dry-run", "PLAN"],
    "push": ["push", "--take-over", "PLAN"],
    "doctor": ["doctor", "PLAN"],
    "discover": ["discover", "10.99.0.1", "10.99.0.2"],
    "path": ["path", "set-point", "PLAN"],
    "plan --ask-switches": ["plan", "--ask-switches", "INTENT"],
}
WITH_HISTORY = {"status", "status --json", "push --dry-run", "push", "path"}


@pytest.fixture
def cnc(tmp_path, monkeypatch):
    """Runs a command on the plan; what is no error of ours is raised."""
    files = {"PLAN": tmp_path / "plan.json", "INTENT": tmp_path / "guarded.yaml"}
    planfile.dump(GUARDED, files["PLAN"])
    # What talkers and timers are like is left for the switches to say.
    asked = {k: v for k, v in INTENT["defaults"].items() if k not in {"gate-margin", LATENESS}}
    files["INTENT"].write_text(json.dumps(INTENT | {"defaults": asked}))

    def run(command):
        words = [str(files.get(word, word)) for word in COMMANDS[command]]
        if command in WITH_HISTORY:
            words += ["--state-dir", str(tmp_path / "state")]
        return invoke(monkeypatch, words, tmp_path)

    return run


def test_the_bridges_that_lie_about_nothing_run_the_plan(cnc, monkeypatch):
    lying(monkeypatch, plan=GUARDED)
    assert cnc("status").exit_code == 0
    assert "no change" in cnc("push").output
    assert "from plc by 5 switches to drive: as planned" in cnc("path").output


@pytest.mark.parametrize("command", COMMANDS)
def test_no_lie_of_a_bridge_is_more_than_an_error_in_words(command, cnc, monkeypatch):
    switches = lying(monkeypatch, plan=GUARDED)
    for change in random_changes(PLACES, command, 5):
        switches.change = change
        result = cnc(command)
        assert is_harmless(result.output)
        assert len(result.output) < 100_000


def test_no_lie_of_a_bridge_ends_the_watch(monkeypatch):
    switches = lying(monkeypatch, plan=GUARDED)
    desired = desired_ports(GUARDED, "s1")
    session = Subscription(
        Managed.of(GUARDED.intent.network.bridges["s1"], desired),
        ConnectOptions(Path(os.devnull), Path(os.devnull)),
        on_received=lambda *_: None,
        on_end=lambda _: None,
    )
    observer = Observer(GUARDED, is_known=lambda _: True)
    source = open_source(session, [*desired], 10.0, 30.0)
    assert observer.take(source.look()) == []
    for change in random_changes(PLACES, "watch", 25):
        switches.change = change
        with suppress(DeviceError):
            observer.take(source.look())


def reports(change):
    """What is read of the bridge of s1 in a reply that was changed."""
    data = state_data("s1", GUARDED)
    change(data)
    return reported_bridge(data)


def add_rows(name, row, count):
    """Put so many rows into the first node of this name; `row` is what makes one of a number."""
    prefix, _, local = name.partition(":")

    def change(data):
        (first, *_) = data.iter(f"{{{NAMESPACES[prefix]}}}{local}")
        first.extend(row(number) for number in range(count))

    return change


def entry(number):
    """A filtering entry for one address in all VLANs."""
    address = f"02-00-00-00-{number // 256:02X}-{number % 256:02X}"
    return element("b:filtering-entry", *leaves("b", address=address, vids="1-4094"))


def registration(_):
    return element("b:vlan-registration-entry", *leaves("b", vids="1-4094"))


def foreign(number):
    return element("t:foreign-vlans", *leaves("t", interface=f"p{number}", vids="1-4094"))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            add_rows("b:filtering-database", entry, 5),
            "more than 16384 addresses of filtering-entry",
        ),
        (
            add_rows("b:filtering-database", registration, 1),
            "more than one vlan-registration-entry of VLAN 10",
        ),
        (add_rows("b:component", foreign, 65), "more than 262144 VLANs in foreign-vlans"),
        (say("t:vids", "1-4094,1-4094"), "VLANs are 1 to 4094, in rising order"),
        (say("t:vids", "20,10"), "VLANs are 1 to 4094, in rising order"),
    ],
    ids=["addresses", "registrations", "ports", "ranges", "order"],
)
def test_a_few_characters_do_not_become_millions_of_vlans(change, told):
    with pytest.raises(ValueError, match=told):
        reports(change)


def test_all_vlans_at_each_of_64_ports_are_read():
    found = reports(add_rows("b:component", foreign, 64 - 4)).foreign_vlans
    assert len(found["p59"]) == 4094


@pytest.fixture
def values_read(monkeypatch):
    """The texts of a reply that were looked at, in order."""
    seen = []
    short = reply.short

    def seen_short(text, name):
        seen.append(name)
        return short(text, name)

    monkeypatch.setattr(reply, "short", seen_short)
    return seen


def test_the_ports_of_a_function_are_not_read_again_for_each_of_its_streams(values_read):
    def of_many(data):
        for node in data.iter(f"{{{NAMESPACES['f']}}}sequence-recovery"):
            node.extend(element("f:stream", str(number)) for number in range(100, 300))
            node.extend(element("f:port", f"p{number}") for number in range(200))

    reports(of_many)
    assert len([name for name in values_read if name == "port"]) < 500


def test_what_ports_make_of_code_points_is_not_read_again_for_each_bridge(values_read):
    data = state_data("s1", GUARDED)
    (bridges,) = data.iter(f"{{{NAMESPACES['b']}}}bridges")
    for number in range(50):
        other = deepcopy(bridges[0])
        other[0].text = f"br{number}"
        bridges.append(other)
    values_read.clear()
    assert len(topology_report(data).bridges) == 50
    # Those of 4 ports, twice, and of the bridges.
    assert len([name for name in values_read if name == "name"]) < 100
