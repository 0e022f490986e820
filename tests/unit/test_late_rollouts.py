"""Which rollouts an agent has applied, and what becomes of one that comes late."""

from __future__ import annotations

import json

import pytest

from agent.datastore.changes import Changes
from agent.datastore.open_change import Request
from agent.datastore.rollout import Rollout
from agent.datastore.rollouts import (
    FILE_OCTETS_MAX,
    KNOWN_MAX,
    UNCONFIRMED_MAX_NS,
    AppliedRollouts,
    lateness,
)
from agent.mechanisms.gates.model import GateState
from agent.model import NS_PER_S, AgentError
from tests.stack.recording_kernel import RecordingKernel, port
from tests.stack.sysrepo_client import NOW_NS, entry, gated

HALVES = (entry(0, 0b10, 500_000), entry(1, 0b01, 500_000))
QUARTERS = (entry(0, 0b10, 250_000), entry(1, 0b01, 750_000))
REQUESTS = {
    "rollout first": [Request("tsn-linux", 1), Request("ietf-interfaces", 1)],
    "rollout last": [Request("ietf-interfaces", 1), Request("tsn-linux", 1)],
}


def tree(name, entries, apply_before_ns):
    return {
        "ietf-interfaces:interfaces": {"interface": [gated("p1", entries)]},
        "tsn-linux:rollout": {"id": name, "apply-before": str(apply_before_ns)},
    }


FORMER = tree("former", HALVES, NOW_NS)
NEW = tree("new", QUARTERS, NOW_NS + NS_PER_S)


@pytest.fixture
def kernel():
    return RecordingKernel(port("p1"), now_ns=NOW_NS)


@pytest.fixture
def changes(kernel):
    serving = Changes(kernel, lambda: FORMER)
    serving.start({})
    serving.reconcile(FORMER)
    yield serving
    serving.close()


def first_ns(kernel):
    return kernel.states["p1"][GateState].taprio.schedule.entries[0].interval_ns


def announced(request, of):
    """The tree of a commit as one announcement shows it: its own module as it is to be."""
    return {
        key: (of if key.startswith(f"{request.module}:") else FORMER)[key] for key in FORMER | of
    }


@pytest.mark.parametrize("requests", REQUESTS.values(), ids=REQUESTS)
def test_steps_that_take_until_it_is_late_are_undone_whichever_module_is_told_first(
    changes, kernel, requests, monkeypatch
):
    execute = kernel.ports.execute

    def slowly(step):
        execute(step)
        kernel.time_ns += 3 * NS_PER_S

    monkeypatch.setattr(kernel.ports, "execute", slowly)
    first, last = requests
    changes.change(first, announced(first, NEW))
    with pytest.raises(AgentError, match=r"2\.000 s after that"):
        changes.change(last, announced(last, NEW))
    changes.abort(first)
    assert first_ns(kernel) == 500_000


def test_no_step_is_taken_any_more_once_it_is_late(changes, kernel):
    rollout, interfaces = REQUESTS["rollout first"]
    changes.change(rollout, announced(rollout, NEW))
    kernel.time_ns += 2 * NS_PER_S
    kernel.log.clear()
    with pytest.raises(AgentError, match=r"1\.000 s after that"):
        changes.change(interfaces, announced(interfaces, NEW))
    assert kernel.log == []


def test_what_cannot_be_undone_is_told_beside_the_instant(changes, kernel, monkeypatch):
    execute = kernel.ports.execute

    def once(step):
        if kernel.time_ns > NOW_NS:
            raise AgentError("port p1: No buffer space available (ENOBUFS)")
        execute(step)
        kernel.time_ns += 3 * NS_PER_S

    monkeypatch.setattr(kernel.ports, "execute", once)
    rollout, interfaces = REQUESTS["rollout first"]
    changes.change(rollout, announced(rollout, NEW))
    with pytest.raises(AgentError, match=r"comes too late(.|\n)*not restored: .*ENOBUFS"):
        changes.change(interfaces, announced(interfaces, NEW))


def test_an_id_is_known_once_its_change_has_landed(changes, kernel):
    rollout, interfaces = REQUESTS["rollout first"]
    for request in (rollout, interfaces):
        changes.change(request, announced(request, NEW))
    changes.abort(interfaces)
    kernel.time_ns += 2 * NS_PER_S
    with pytest.raises(AgentError, match="the commit comes too late"):
        changes.refuse_late(NEW)


def test_the_refusal_says_what_the_clock_lacks():
    rollout = Rollout("7", "ann@noc", NOW_NS)
    said = lateness(rollout, NOW_NS + 1_500_000_000, 0, "unmanaged: the kernel has no TAI offset")
    assert "rollout 7 of ann@noc was to be applied by 2001-09-09 01:46:40.000 TAI" in said
    assert "2001-09-09 01:46:41.500 TAI, 1.500 s after that" in said
    assert "TAI offset 0 s, clock unmanaged: the kernel has no TAI offset" in said
    assert "if this clock is wrong, correct it first" in said


# --- what is remembered --------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rollouts.json"


def rollout(name, before_ns=NOW_NS):
    return Rollout(name, None, before_ns)


def is_late(applied, name):
    return applied.is_late(rollout(name), NOW_NS + 1)


def applied_in_turn(path, *names):
    applied = AppliedRollouts(path)
    for name in names:
        applied.applied(rollout(name), NOW_NS)
    return applied


def test_the_instant_itself_is_not_late_yet(path):
    assert not AppliedRollouts(path).is_late(rollout("1", NOW_NS), NOW_NS)
    assert AppliedRollouts(path).is_late(rollout("1", NOW_NS), NOW_NS + 1)
    assert not AppliedRollouts(path).is_late(rollout("1", None), NOW_NS + 1)


def test_the_last_sixteen_outlive_the_process(path):
    names = [str(number) for number in range(KNOWN_MAX + 1)]
    applied_in_turn(path, *names)
    late = [name for name in names if is_late(AppliedRollouts(path), name)]
    assert late == ["0"]


def test_one_that_comes_back_counts_as_the_newest(path):
    names = [str(number) for number in range(KNOWN_MAX)]
    applied_in_turn(path, *names, "0", "another")
    assert [name for name in names if is_late(AppliedRollouts(path), name)] == ["1"]


@pytest.mark.parametrize(
    ("after_ns", "is_known"), [(UNCONFIRMED_MAX_NS, False), (UNCONFIRMED_MAX_NS + 1, True)]
)
def test_one_that_its_predecessor_replaces_is_forgotten_while_it_may_be_unconfirmed(
    path, after_ns, is_known
):
    applied = applied_in_turn(path, "former", "new")
    applied.applied(rollout("former"), NOW_NS + after_ns)
    assert is_late(applied, "new") is not is_known
    assert not is_late(applied, "former")


def test_one_that_was_taken_back_while_no_agent_ran_is_forgotten_as_well(path):
    applied_in_turn(path, "former", "new")
    started = AppliedRollouts(path)
    started.applied(rollout("former"), NOW_NS)
    assert is_late(started, "new")


def test_one_that_any_other_replaces_stays_known(path):
    """Whoever put the other there may go back."""
    applied = applied_in_turn(path, "oldest", "former", "new", "oldest")
    applied.applied(Rollout(), NOW_NS)
    assert not any(is_late(applied, name) for name in ("oldest", "former", "new"))


KEPT = {"in_force": None, "former": None, "is_new": False, "known": {}}
GARBAGE = {
    "empty": b"",
    "no object": b"[]",
    "nested": b"[" * 10_000,
    "no text": b"\xff\0",
    "too long": b" " * FILE_OCTETS_MAX + json.dumps(KEPT).encode(),
    "too little": b'{"in_force": null}',
    "too much": KEPT | {"more": 1},
    "no id": KEPT | {"in_force": 1},
    "no former id": KEPT | {"former": [1]},
    "no truth": KEPT | {"is_new": "true"},
    "no ids": KEPT | {"known": None},
    "a list": KEPT | {"known": ["1"]},
    "no instant": KEPT | {"known": {"1": "2"}},
    "too many": KEPT | {"known": dict.fromkeys(map(str, range(KNOWN_MAX + 1)), 1)},
}


@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE)
def test_until_the_next_rollout_nothing_is_late_where_the_file_cannot_be_read(
    path, content, caplog
):
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    applied = AppliedRollouts(path)
    assert f"{path} is ignored and will be replaced" in caplog.text
    applied.applied(rollout("in force"), NOW_NS)
    assert not is_late(applied, "former")

    applied.applied(rollout("next"), NOW_NS)
    assert is_late(applied, "another")
    assert not is_late(AppliedRollouts(path), "in force")


def test_until_the_next_rollout_nothing_is_late_where_the_file_of_one_in_force_is_gone(path):
    applied = AppliedRollouts(path)
    applied.found(rollout("in force"))
    applied.applied(rollout("in force"), NOW_NS)
    assert not is_late(applied, "former")

    applied.applied(rollout("next"), NOW_NS)
    assert is_late(applied, "another")


def test_a_switch_that_no_rollout_has_reached_yet_may_be_late(path):
    applied = AppliedRollouts(path)
    applied.found(Rollout())
    applied.applied(Rollout(), NOW_NS)
    assert is_late(applied, "first")


def test_a_full_disk_or_a_missing_right_ends_nothing(tmp_path, caplog):
    in_the_way = tmp_path / "no directory"
    in_the_way.touch()
    applied = applied_in_turn(in_the_way / "rollouts.json", "1")
    assert "a restarted agent will not know of this rollout" in caplog.text
    assert not is_late(applied, "1")
