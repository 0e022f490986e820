"""Who acts for the network of a switch: which term it keeps, and what it refuses."""

from __future__ import annotations

import errno
import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent import operational
from agent.datastore.changes import Changes
from agent.datastore.open_change import Request
from agent.datastore.rollout import Rollout
from agent.datastore.rollouts import AppliedRollouts
from agent.datastore.terms import FILE_OCTETS_MAX, TERMS_FILE, KeptTerm, Terms
from agent.mechanisms.gates.model import GateState
from agent.model import NS_PER_S, AgentError
from tests.stack.recording_kernel import RecordingKernel, port
from tests.stack.sysrepo_client import NOW_NS, entry, gated

HALVES = (entry(0, 0b10, 500_000), entry(1, 0b01, 500_000))
QUARTERS = (entry(0, 0b10, 250_000), entry(1, 0b01, 750_000))
BOTH = (Request("tsn-linux", 1), Request("ietf-interfaces", 1))


def rollout(name, term=None, network="plant", *, former=None, who="ann@noc"):
    return Rollout(
        name, who, NOW_NS + NS_PER_S, None, None, network if term else None, term, former
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "durable" / TERMS_FILE


@pytest.fixture
def terms(path):
    kept = Terms(path)
    kept.take(rollout("1", 7))
    return kept


# --- what is refused -----------------------------------------------------------------------------


def test_without_a_term_kept_all_are_taken(path):
    for each in (rollout("1"), rollout("1", 3)):
        assert Terms(path).refusal(each) is None


@pytest.mark.parametrize("term", [7, 8, 2**63 - 1])
def test_an_equal_or_a_higher_term_is_taken(terms, term):
    assert terms.refusal(rollout("2", term)) is None


def test_a_lower_term_is_refused_with_who_took_the_higher_one_and_when(terms):
    said = terms.refusal(rollout("2", 6, who="bob@lab"))
    assert "rollout 2 of bob@lab comes with term 6" in said
    assert f"network plant, for which ann@noc acts since {terms.kept.taken} (term 7)" in said
    assert "another has taken over" in said


def test_a_rollout_without_a_term_is_refused_with_what_to_do(terms):
    said = terms.refusal(rollout("2", who="bob@laptop"))
    assert "rollout 2 of bob@laptop names no term" in said
    assert "belongs to network plant, for which ann@noc acts since" in said
    assert "`cnc push --take-over`" in said


@pytest.mark.parametrize("term", [1, 7, 8])
def test_another_network_is_refused_whatever_its_term(terms, term):
    said = terms.refusal(rollout("2", term, "lab"))
    assert "rollout 2 of ann@noc is of network lab" in said
    assert "belongs to network plant" in said
    assert "`cnc push --take-over`" in said


@pytest.mark.parametrize(
    ("term", "former", "is_taken"),
    [(8, "plant", True), (7, "plant", False), (8, "lab", False), (8, "other", False)],
)
def test_a_switch_changes_networks_if_told_which_it_leaves_and_by_a_higher_term(
    terms, term, former, is_taken
):
    moved = rollout("2", term, "lab", former=former)
    assert (terms.refusal(moved) is None) is is_taken
    if is_taken:
        terms.take(moved)
        assert (terms.kept.network, terms.kept.term) == ("lab", 8)


def test_the_way_back_to_a_rollout_of_the_network_before_does_not_lead_back_to_that_network(terms):
    terms.take(rollout("2", 8, "lab", former="plant"))
    for back in (rollout("1", 7), rollout("0", 9), rollout("2", 8, "plant", former="lab")):
        terms.take(back)
    assert (terms.kept.network, terms.kept.term) == ("lab", 8)


# --- what is kept --------------------------------------------------------------------------------


def test_the_highest_term_outlives_the_process(path, terms):
    taken = terms.kept
    for term in (7, 5):
        terms.take(rollout("2", term, who="bob@lab"))
    assert terms.kept == taken == KeptTerm("plant", 7, "ann@noc", taken.taken)
    terms.take(rollout("3", 8, who="bob@lab"))
    assert Terms(path).kept == terms.kept
    assert (terms.kept.term, terms.kept.controller) == (8, "bob@lab")


def test_file_and_directory_are_on_the_disk_when_it_returns(path, monkeypatch):
    synced = []
    sync = os.fsync

    def note(descriptor):
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    Terms(path).take(rollout("1", 7))
    assert synced == [str(path.with_suffix(".new")), str(path.parent)]
    synced.clear()
    Terms(path).take(rollout("2", 7))
    assert synced == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_what_cannot_be_kept_is_not_taken(path, terms, monkeypatch, number):
    def full(_descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(AgentError, match=f"term 8 of network plant .* {os.strerror(number)}"):
        terms.take(rollout("2", 8))
    assert terms.kept.term == 7
    monkeypatch.undo()
    assert Terms(path).kept.term == 7


KEPT = {
    "network": "plant",
    "term": 7,
    "controller": "ann@noc",
    "taken": "2026-11-29T10:00:00+00:00",
}
GARBAGE = {
    "empty": b"",
    "torn": json.dumps(KEPT).encode()[:40],
    "no object": b"[]",
    "nested": b"[" * 10_000,
    "no text": b"\xff\0",
    "too long": b" " * FILE_OCTETS_MAX + json.dumps(KEPT).encode(),
    "too little": {"network": "plant"},
    "too much": KEPT | {"more": 1},
    "no number": KEPT | {"term": "7"},
    "no truth": KEPT | {"term": True},
    "no network": KEPT | {"network": None},
}


@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE)
def test_a_file_that_cannot_be_read_counts_as_none_and_says_so(path, content, caplog):
    path.parent.mkdir()
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    terms = Terms(path)
    assert terms.kept is None
    assert f"{path} is ignored and will be replaced" in caplog.text
    terms.take(rollout("1", 3))
    assert Terms(path).kept.term == 3


@pytest.mark.parametrize(("stored", "counts"), [(6, 7), (7, 7), (9, 9)])
def test_of_file_and_configuration_the_higher_term_counts_at_boot(path, terms, stored, counts):
    booted = Terms(path)
    booted.found(rollout("1", stored))
    assert booted.kept.term == counts
    assert Terms(path).kept.term == counts


def test_a_switch_whose_file_is_gone_has_the_term_of_its_configuration(path):
    booted = Terms(path)
    booted.found(Rollout("1", "ann@noc", None, None, "2026-11-29T10:00:00Z", "plant", 4))
    assert Terms(path).kept == KeptTerm("plant", 4, "ann@noc", "2026-11-29T10:00:00Z")


def test_a_configuration_of_another_network_does_not_undo_what_the_file_says(path, terms, caplog):
    booted = Terms(path)
    booted.found(rollout("1", 9, "lab"))
    assert booted.kept == terms.kept
    assert "not of who acts for the network" in caplog.text


def test_a_full_disk_does_not_end_an_agent_that_boots(path, monkeypatch, caplog):
    monkeypatch.setattr("agent.whole_file.replace", lambda *_: (_ for _ in ()).throw(OSError(28)))
    booted = Terms(path)
    booted.found(rollout("1", 4))
    assert booted.kept.term == 4
    assert "will not know of term 4" in caplog.text


# --- in changes ----------------------------------------------------------------------------------


def tree(name, entries, term=None, network="plant"):
    its = {"id": name, "controller": "ann@noc", "apply-before": str(NOW_NS + NS_PER_S)}
    if term is not None:
        its |= {"network": network, "term": str(term)}
    return {
        "ietf-interfaces:interfaces": {"interface": [gated("p1", entries)]},
        "tsn-linux:rollout": its,
    }


FORMER = tree("former", HALVES, 4)


@pytest.fixture
def kernel():
    return RecordingKernel(port("p1"), now_ns=NOW_NS)


@pytest.fixture
def changes(kernel, tmp_path):
    serving = Changes(kernel, lambda: FORMER, rollouts=AppliedRollouts(tmp_path / "rollouts.json"))
    serving.start({})
    commit(serving, FORMER)
    yield serving
    serving.close()


def commit(serving, wanted):
    for request in BOTH:
        serving.refuse(wanted)
        serving.change(request, wanted)
    for request in BOTH:
        serving.done(request, lambda: wanted)


def first_ns(kernel):
    return kernel.states["p1"][GateState].taprio.schedule.entries[0].interval_ns


def test_a_lower_term_moves_no_gate(changes, kernel):
    commit(changes, tree("new", QUARTERS, 5))
    kernel.log.clear()
    with pytest.raises(AgentError, match="comes with term 4"):
        commit(changes, tree("stale", HALVES, 4))
    assert kernel.log == []
    assert first_ns(kernel) == 250_000


def test_the_way_back_is_taken_though_its_term_is_lower(changes, kernel):
    commit(changes, tree("new", QUARTERS, 5))
    commit(changes, FORMER)
    assert first_ns(kernel) == 500_000
    assert changes.kept_term.term == 5
    with pytest.raises(AgentError, match="comes with term 4"):
        commit(changes, tree("stale", QUARTERS, 4))


def test_the_way_back_to_what_no_controller_of_a_service_had_set_is_taken(kernel, tmp_path):
    """As by a controller before terms, which named no instant either."""
    files = tmp_path / "rollouts.json"
    first = {**FORMER, "tsn-linux:rollout": {"id": "old"}}
    serving = Changes(kernel, lambda: first, rollouts=AppliedRollouts(files))
    serving.start({})
    commit(serving, first)
    commit(serving, tree("new", QUARTERS, 1))
    commit(serving, first)
    assert first_ns(kernel) == 500_000
    with pytest.raises(AgentError, match="names no term"):
        commit(serving, tree("laptop", QUARTERS))
    serving.close()


def test_the_way_back_to_what_an_agent_before_terms_had_applied_is_taken(kernel, tmp_path):
    files = tmp_path / "rollouts.json"
    files.write_text(json.dumps({"in_force": "old", "former": None, "is_new": True, "known": {}}))
    first = {**FORMER, "tsn-linux:rollout": {"id": "old"}}
    serving = Changes(kernel, lambda: first, rollouts=AppliedRollouts(files))
    serving.start({})
    serving.reconcile(first)
    for name in ("new", "newer"):
        commit(serving, tree(name, QUARTERS, 1))
    commit(serving, first)
    assert first_ns(kernel) == 500_000
    serving.close()


def test_one_that_was_taken_back_is_of_its_term_again(changes, kernel):
    """A second commit of it, which was held on its way."""
    commit(changes, tree("new", QUARTERS, 4))
    commit(changes, FORMER)
    commit(changes, tree("leader", QUARTERS, 5))
    commit(changes, FORMER)
    with pytest.raises(AgentError, match="comes with term 4"):
        commit(changes, tree("new", QUARTERS, 4))


def test_a_term_is_kept_before_the_kernel_is_touched_and_though_it_refuses(
    changes, kernel, monkeypatch, tmp_path
):
    def refuse(_step):
        kept = json.loads((tmp_path / TERMS_FILE).read_text())
        raise AgentError(f"no: term {kept['term']} is on the disk")

    monkeypatch.setattr(kernel.ports, "execute", refuse)
    with pytest.raises(AgentError, match="no: term 9 is on the disk"):
        commit(changes, tree("new", QUARTERS, 9))
    assert changes.kept_term.term == 9


def test_a_term_that_cannot_be_kept_moves_no_gate(changes, kernel, monkeypatch):
    kernel.log.clear()
    monkeypatch.setattr(
        "agent.whole_file.replace",
        lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device")),
    )
    with pytest.raises(AgentError, match="term 9 of network plant cannot be kept: No space left"):
        commit(changes, tree("new", QUARTERS, 9))
    assert kernel.log == []
    assert changes.kept_term.term == 4


def test_a_late_commit_takes_no_term(changes, kernel):
    kernel.time_ns += 2 * NS_PER_S
    with pytest.raises(AgentError, match="too late"):
        commit(changes, tree("new", QUARTERS, 9))
    assert changes.kept_term.term == 4


def test_what_other_clients_edit_goes_with_the_rollout_in_force(changes, kernel):
    commit(changes, tree("new", QUARTERS, 9))
    commit(changes, FORMER)
    commit(changes, {**FORMER, "ietf-interfaces:interfaces": {"interface": []}})


def reported(kept):
    agent = operational.agent(
        version="1",
        pid=1,
        started=datetime.now(UTC),
        kernel_release="6.12",
        of_mechanisms={},
        tai_offset_s=37,
        ptp=None,
        last_change=None,
        kept_term=kept,
    )
    return agent["tsn-linux:agent"]


def test_the_kept_term_is_reported():
    told = reported(KeptTerm("plant", 7, "ann@noc", "2026-11-29T10:00:00+00:00"))
    assert told["keeps-terms"] is True
    assert told["kept-term"] == {
        "network": "plant",
        "term": "7",
        "controller": "ann@noc",
        "taken": "2026-11-29T10:00:00+00:00",
    }
    assert "kept-term" not in reported(None)
