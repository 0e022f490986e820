"""A change of the kernel is whole or not at all, whatever ends it half-way."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from agent.mechanisms import MECHANISMS
from agent.mechanisms.classification.classifier import Classifier
from agent.mechanisms.classification.iptables_restore import Flavour, RestoreTables
from agent.mechanisms.classification.mangle import Chain, Family
from agent.mechanisms.gates import taprio
from agent.mechanisms.gates.model import GateEntry, GateSchedule, Taprio, TaprioMode
from agent.memory_ports import MemoryPorts
from agent.model import AgentError, Clock
from agent.switch import Switch
from agent.traffic_classes import QueueRange
from tests.stack.recording_kernel import configured, port

NO_PROCESS = BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
SCHEDULE = GateSchedule(0, 1_000_000, (GateEntry(1, 1_000_000),))
GATES = Taprio((0,) * 16, (QueueRange(1, 0),), TaprioMode.SOFTWARE, Clock.TAI, SCHEDULE)


@pytest.fixture
def log():
    return []


class Faulty(MemoryPorts):
    """Ports that write down each step, and refuse one of the objects to be set or to be undone."""

    def __init__(self, log, refused=None, not_undone=None, error=None):
        super().__init__(MECHANISMS, [port(f"p{i}", i) for i in (1, 2, 3)])
        self.log, self.refused, self.not_undone, self.error = log, refused, not_undone, error

    def execute(self, step):
        way = "do" if step.changes else "undo"
        name = step.target.port or "rules"
        if name == (self.refused if way == "do" else self.not_undone):
            raise self.error
        self.log.append(f"{way} {name}")
        super().execute(step)


ALL = {f"p{i}": configured(f"p{i}", GATES, {46: i}) for i in (1, 2, 3)}


def test_steps_are_done_in_the_planned_order_and_undone_in_reverse(log):
    switch = Switch(Faulty(log))
    before = switch.read()
    switch.apply(ALL).undo()
    assert log[:4] == ["do rules", "do p1", "do p2", "do p3"]
    assert log[4:] == ["undo p3", "undo p2", "undo p1", "undo rules"]
    assert switch.read() == before


@pytest.mark.parametrize(
    ("error", "raised", "text"),
    [
        (AgentError("no"), AgentError, "^no$"),
        (NO_PROCESS, AgentError, "^port p2: .*Resource temporarily unavailable$"),
        (KeyboardInterrupt(), KeyboardInterrupt, None),
    ],
)
def test_whatever_ends_a_change_undoes_what_was_done_before(log, error, raised, text):
    switch = Switch(Faulty(log, refused="p2", error=error))
    before = switch.read()
    with pytest.raises(raised, match=text):
        switch.apply(ALL)
    assert log == ["do rules", "do p1", "undo p1", "undo rules"]
    assert switch.read() == before


def test_an_undo_that_fails_leaves_the_others_to_be_restored(log):
    applied = Switch(Faulty(log, not_undone="p2", error=NO_PROCESS)).apply(ALL)
    log.clear()
    with pytest.raises(AgentError, match=r"not restored: .*Resource temporarily unavailable"):
        applied.undo()
    assert log == ["undo p3", "undo p1", "undo rules"]


def test_a_tool_that_cannot_be_started_is_named_with_the_reason(tmp_path, monkeypatch):
    tool = tmp_path / "iptables-nft-restore"
    tool.write_bytes(b"\0")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AgentError, match=r"iptables-nft-restore could not be started: .*format"):
        RestoreTables(Flavour.NFT)


def test_a_qdisc_that_was_removed_for_another_is_put_back_whatever_stops_that():
    asked = []

    class Netlink:
        def tc(self, command, kind, ifindex, handle, **request):
            asked.append((command, request.get("map")))
            if request.get("map") == other.priority_map:
                raise OSError(errno.ENOBUFS, "No buffer space available")

    other = replace(GATES, priority_map=(1, *GATES.priority_map[1:]))
    with pytest.raises(OSError, match="No buffer space"):
        taprio.change(Netlink(), "p1", 2, GATES, other)
    assert [command for command, _ in asked] == ["del", "replace", "replace"]
    assert asked[-1] == ("replace", GATES.priority_map)


def test_rules_of_one_family_are_set_back_when_the_other_fails():
    class Tables:
        name = "in memory"
        chains = dict.fromkeys(Family, Chain())

        def read(self, family):
            return self.chains[family]

        def write(self, family, old, rules):
            if family is Family.IPV6:
                raise NO_PROCESS
            self.chains[family] = Chain(bool(rules), int(bool(rules)), rules)

    tables = Tables()
    with pytest.raises(BlockingIOError):
        Classifier(tables).apply({"p1": {46: 7}})
    assert tables.chains == dict.fromkeys(Family, Chain())
