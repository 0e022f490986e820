"""Switches that lie in their replies: every command ends with a verdict or an error in words.

Each leaf of each reply gets values that a YANG module excludes, is left out, renamed or repeated.
"""

from __future__ import annotations

import os
import re
from copy import deepcopy
from pathlib import Path

import pytest

from cnc.data_tree import reply
from cnc.data_tree.tree import KernelSchedule
from cnc.discover.asking import Answers, View
from cnc.discover.draft import draft
from cnc.errors import CncError
from cnc.mechanisms.gates.starvation import Starvation
from cnc.model import GateControlList, GateEntry, Management
from cnc.plans import file as planfile
from cnc.support.format import printable
from cnc.switch.device import ConnectOptions, Device, DeviceError
from cnc.switch.topology import Identifier, InterfaceReport, LldpReport, NeighborReport
from cnc.switch.topology import TopologyReport as Report
from tests.unit.lies import invoke, places, random_changes, say
from tests.unit.lying_switches import (
    NAMESPACES,
    PLAN,
    element,
    leaves,
    lying,
)
from tests.unit.test_cli_printable import is_harmless
from tests.unit.test_starvation import SCHEDULED, state

SWITCH = PLAN.intent.network.bridges["s1"]
LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
EVIL = "\x9b31m\u202eevil"  # XML has no other control characters
SHOWN = r"\u009b31m\u202eevil"
NO_FILES = ConnectOptions(Path(os.devnull), Path(os.devnull))
COMMANDS = {
    "status": ["status", "PLAN"],
    "push --dry-run": ["push", "--dry-run", "PLAN"],
    "push": ["push", "--take-over", "PLAN"],
    "plan --ask-switches": ["plan", "--ask-switches", str(LINE3)],
    "doctor": ["doctor", "PLAN"],
    "discover": ["discover", "10.99.0.1", "10.99.0.2"],
    "rollback": ["rollback", "--take-over", "1"],
    "history": ["history"],
    "history 1": ["history", "1"],
    "history 1 --json": ["history", "1", "--json"],
    "status --json": ["status", "--json", "PLAN"],
    "doctor --json": ["doctor", "--json", "PLAN"],
}
OF_HISTORY = ("rollback", "history", "history 1", "history 1 --json")
WITH_HISTORY = {"status", "push", "push --dry-run", "status --json", *OF_HISTORY}
WITHOUT_KEYS = set(OF_HISTORY[1:])
PLACES = places(PLAN, "s1")


@pytest.fixture
def cnc(tmp_path, monkeypatch):
    """Runs a command; what is no error of ours is raised."""
    planfile.dump(PLAN, tmp_path / "plan.json")

    def run(command):
        words = [str(tmp_path / "plan.json") if w == "PLAN" else w for w in COMMANDS[command]]
        if command in WITH_HISTORY:
            words += ["--state-dir", str(tmp_path / "state")]
        return invoke(monkeypatch, words, None if command in WITHOUT_KEYS else tmp_path)

    return run


def test_the_switches_that_lie_about_nothing_run_the_plan(cnc, monkeypatch):
    lying(monkeypatch)
    assert cnc("status").exit_code == 0
    assert "no change" in cnc("push").output
    assert "schedul" not in cnc("discover").output.partition("\n")[0]


@pytest.mark.parametrize(
    "command", [c for c in COMMANDS if c not in {*OF_HISTORY, "plan --ask-switches"}]
)
@pytest.mark.parametrize("seed", [1, 2])
def test_no_lie_of_a_switch_is_more_than_an_error_in_words(command, seed, cnc, monkeypatch):
    switches = lying(monkeypatch)
    for change in random_changes(PLACES, f"{command} {seed}", 12):
        switches.change = change
        result = cnc(command)
        assert is_harmless(result.output)
        assert len(result.output) < 100_000


@pytest.mark.parametrize(
    ("leaf", "text"),
    [
        ("g:supported-list-max", "1"),
        ("g:supported-list-max", "-1"),
        ("g:supported-interval-max", "1"),
        ("g:numerator", "0"),
        ("g:denominator", "18446744073709551615"),
        ("g:tick-granularity", "7"),
        ("g:tick-granularity", "18446744073709551615"),
    ],
)
def test_limits_that_are_lies_give_a_plan_or_the_reason_why_there_is_none(
    leaf, text, cnc, monkeypatch
):
    lying(monkeypatch, say(leaf, text))
    result = cnc("plan --ask-switches")
    assert result.exit_code in {0, 1}
    if result.exit_code:
        assert "cannot" in shown(result)


@pytest.mark.parametrize("refused", ["", "commit", "lock", "cancel-commit"])
def test_what_switches_lied_during_a_push_is_in_the_history_and_does_nothing(
    refused, cnc, monkeypatch
):
    def change(data):
        say("g:time-interval-value", "18446744073709551615")(data)
        say("t:controller", EVIL)(data)
        for base_time in data.iter(f"{{{NAMESPACES['g']}}}admin-base-time"):
            base_time[0].text = "9" * 20

    lying(monkeypatch, change).refusals = {refused: EVIL}
    pushed = shown(cnc("push"))
    assert ("all switches confirmed" in pushed) is (refused in {"", "cancel-commit"})
    assert (SHOWN in pushed) is (refused in {"commit", "lock"})
    if refused != "lock":
        for command in OF_HISTORY:
            assert is_harmless(shown(cnc(command)))
    if refused == "commit":
        assert SHOWN in shown(cnc("history 1"))


def shown(result):
    """What an operator sees of a command, its error as well."""
    error = result.exception
    return result.output + (printable(str(error)) if isinstance(error, CncError) else "")


@pytest.mark.parametrize(
    ("leaf", "text", "told"),
    [
        ("t:cycle-time-ns", "0", "cycle-time-ns is 0, which is not positive"),
        ("t:cycle-time-ns", "-5", "cycle-time-ns is -5, which is not positive"),
        ("t:traffic-class", "-1", "there is no traffic class -1"),
        ("t:traffic-class", "8", "there is no traffic class 8"),
        ("g:seconds", "9" * 40, "seconds is no number: it has 40 characters"),
        ("g:seconds", "9" * 4300, "seconds has 4300 characters, 4000 at most are read"),
        ("g:seconds", "-1", "current-time is not between 1970 and 2116"),
        ("g:seconds", "9" * 12, "current-time is not between 1970 and 2116"),
        ("t:base-time-ns", "text", "invalid literal for int() with base 10: 'text'"),
        ("t:root-qdisc", "x" * 5000, "root-qdisc has 5000 characters, 4000 at most are read"),
    ],
)
def test_what_no_port_can_report_is_refused_by_its_name(leaf, text, told, monkeypatch):
    lying(monkeypatch, say(leaf, text))
    with (
        Device(SWITCH, NO_FILES) as device,
        pytest.raises(DeviceError, match=re.escape(f"s1: unexpected reply to get: {told}")),
    ):
        device.state(["s2"])


def test_a_list_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(reply, "ENTRIES_MAX", 1000)

    def many(data):
        for kernel in data.iter(f"{{{NAMESPACES['t']}}}schedule"):
            (entry, *_) = kernel.iterchildren(f"{{{NAMESPACES['t']}}}entry")
            kernel.extend(deepcopy(entry) for _ in range(1000))

    lying(monkeypatch, many)
    with (
        Device(SWITCH, NO_FILES) as device,
        pytest.raises(
            DeviceError, match="unexpected reply to get: more than 1000 entries of entry"
        ),
    ):
        device.state(["s2"])


def extend(where, made):
    """Add 1,000 of an element to the first node of this name."""

    def change(data):
        prefix, _, name = where.partition(":")
        for node in data.iter(f"{{{NAMESPACES[prefix]}}}{name}"):
            node.extend(deepcopy(made) for _ in range(1000))
            return

    return change


def test_of_a_thousand_ports_that_are_not_locked_a_few_are_named(cnc, monkeypatch):
    faulty = element("t:port", *leaves("t", state="faulty"))

    def change(data):
        say("t:state", "faulty")(data)
        extend("t:ptp", faulty)(data)

    lying(monkeypatch, change)
    assert "not locked: faulty, faulty, faulty, faulty and 997 more" in cnc("doctor").output


def test_a_thousand_locks_are_no_answer(cnc, monkeypatch):
    lock = element("m:global-lock", *leaves("m", locked_by_session=7))
    lying(monkeypatch, extend("m:locks", lock))
    assert "unexpected reply to get: more than 16 entries of global-lock" in cnc("doctor").output


def test_ports_that_nobody_asked_for_are_left_out(monkeypatch):
    def more(data):
        for interfaces in data.iter(f"{{{NAMESPACES['if']}}}interfaces"):
            for number in range(20):
                other = deepcopy(interfaces[0])
                other[0].text = f"other{number}"
                interfaces.append(other)

    lying(monkeypatch, more)
    with Device(SWITCH, NO_FILES) as device:
        assert set(device.state(["s2"]).ports) == {"s2"}
        assert set(device.stored(["s2"]).ports) == {"s2"}


def test_whatever_a_library_raises_at_a_reply_is_an_error_of_the_switch(monkeypatch):
    def broken(*_):
        raise KeyError("an attribute that nobody sends")

    lying(monkeypatch)
    monkeypatch.setattr("cnc.switch.readback.port_reports", broken)
    with (
        Device(SWITCH, NO_FILES) as device,
        pytest.raises(DeviceError, match="unexpected reply to get: 'an attribute that nobody"),
    ):
        device.state(["s2"])


def test_the_length_of_a_cycle_does_not_decide_how_long_a_command_sleeps(cnc, monkeypatch):
    """Three cycles have to pass until frames that wait are starved."""

    def slow(data):
        say("t:cycle-time-ns", str(2**63))(data)
        say("t:backlog-frames", "9")(data)

    lying(monkeypatch, slow)
    assert "another gate control list" in cnc("status").output


def test_a_list_that_is_slow_is_judged_and_one_that_is_slower_by_watch_alone():
    def wait_s(cycle_ns):
        gates = GateControlList(cycle_ns, (GateEntry(1, cycle_ns),))
        starvation = Starvation(PLAN.intent, "s2")
        starvation.update(state(0, number=SCHEDULED, running=KernelSchedule(0, gates)))
        return starvation.next_poll_s

    assert wait_s(10 * 10**9) == 30
    assert wait_s(10**10 + 1) == 0


def topology(neighbors):
    """One switch that hears all of these at its ports p0 to p9."""
    interfaces = {
        f"p{n}": InterfaceReport(f"p{n}", "up", f"02:00:00:00:00:{n:02x}", 10**9) for n in range(10)
    }
    return Report(interfaces, LldpReport(Identifier("02:00:00:00:00:ff"), "s1", tuple(neighbors)))


def draft_of(*reports):
    views = [
        View(Management(f"10.0.0.{number}", 830, "tsn"), report)
        for number, report in enumerate(reports, start=1)
    ]
    return draft(Answers(tuple(views), {}))


def test_thousands_of_neighbours_at_one_port_are_one_remark():
    heard = [NeighborReport("p0", Identifier(f"x{n}"), None, "", "evil") for n in range(16_000)]
    (remark,) = draft_of(topology(heard)).remarks
    assert remark.endswith('("evil", "evil", "evil", "evil" and 15996 more)')


def test_thousands_of_neighbours_of_one_name_get_names_that_an_intent_may_have():
    reports = []
    for number in range(150):
        heard = [
            NeighborReport(f"p{n}", Identifier(f"{number} {n}"), None, "", "x" * 63)
            for n in range(10)
        ]
        report = topology(heard)
        reports.append(
            Report(
                report.interfaces,
                LldpReport(Identifier(f"switch {number}"), f"s{number}", report.lldp.neighbors),
            )
        )
    names = [station.name for station in draft_of(*reports).end_stations]
    assert len(set(names)) == 1500
    assert max(map(len, names)) == 63
