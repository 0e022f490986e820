"""A change of the kernel is whole or not at all, whatever ends it half-way."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from agent.kernel import taprio
from agent.kernel.apply import Action, Applied, execute
from agent.kernel.classifier import Classifier
from agent.kernel.iptables_restore import Flavour, RestoreTables
from agent.kernel.mangle import Chain, Family
from agent.model import AgentError, Clock, GateEntry, QueueRange, Schedule, Taprio, TaprioMode

NO_PROCESS = BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
SCHEDULE = Schedule(0, 1_000_000, (GateEntry(1, 1_000_000),))
GATES = Taprio((0,) * 16, (QueueRange(1, 0),), TaprioMode.SOFTWARE, Clock.TAI, SCHEDULE)


@pytest.fixture
def log():
    return []


@pytest.fixture
def action(log):
    """Makes an action that writes down its name, or fails."""

    def make(name, refused_by=None, not_undone_by=None):
        def attempt(what, error):
            if error:
                raise error
            log.append(f"{what} {name}")

        return Action(
            do=lambda: attempt("do", refused_by), undo=lambda: attempt("undo", not_undone_by)
        )

    return make


@pytest.mark.parametrize("error", [AgentError("no"), NO_PROCESS, KeyboardInterrupt()])
def test_whatever_ends_a_change_takes_back_what_was_done_before(action, log, error):
    with pytest.raises(type(error)):
        execute((), [action("gates"), action("rules", refused_by=error)])
    assert log == ["do gates", "undo gates"]


def test_an_undo_that_fails_leaves_the_others_to_be_restored(action, log):
    done = [action("p1"), action("p2", not_undone_by=NO_PROCESS), action("p3")]
    with pytest.raises(AgentError, match=r"not restored: .*Resource temporarily unavailable"):
        Applied((), done).undo()
    assert log == ["undo p3", "undo p1"]


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
