"""What switches keep that the database of several controllers does not know."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import AgentReport, KeptTerm
from cnc.service.lease.survey import survey
from cnc.switch import ConnectOptions
from cnc.switch.device import DeviceError
from cnc.switch.rollout_id import RolloutId, Term

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
CONNECT = ConnectOptions(Path("key"), Path("known_hosts"))
TAKEN = "2026-11-29T10:00:00+00:00"
SWITCHES = intents.load(LINE3).network.managed.values()


class Kept:
    """A switch that keeps a term, and runs a rollout."""

    def __init__(self, name, term=None, rollout=None):
        self.name = name
        self.term = term and KeptTerm("line3", term, "cnc@server", TAKEN)
        self.rollout = rollout

    def __enter__(self):
        return self

    def __exit__(self, *_): ...

    def state(self, _ports):
        return SwitchState(AgentReport(37, 100, keeps_terms=True, kept_term=self.term), {}, 0, 0)

    def rollout_id(self):
        return self.rollout


@pytest.fixture
def kept(monkeypatch):
    found = {name: Kept(name, 4) for name in ("s1", "s2", "s3")}

    def device(switch, _options):
        if isinstance(its := found[switch.name], DeviceError):
            raise its
        return its

    monkeypatch.setattr(import_module("cnc.rollout.claim"), "Device", device)
    return found


def found(known_term=4, known=("r1",)):
    knows = set(known).__contains__
    return survey(SWITCHES, "line3", known_term=known_term, knows=knows, connect=CONNECT)


def rollout(name, *, before_ns=12):
    return RolloutId(name, "cnc@other", TAKEN, apply_before_ns=before_ns, term=Term("line3", 4))


def test_of_switches_that_keep_what_is_known_nothing_is_said(kept):
    kept["s1"].rollout = rollout("r1")
    assert (found().unknown, found().highest) == ((), 4)


def test_a_higher_term_than_the_database_has_is_named_with_its_switch(kept):
    kept["s2"].term = KeptTerm("line3", 6, "cnc@other", TAKEN)
    (line,) = found().unknown
    assert line.startswith("s2: ")
    assert "(term 6)" in line
    assert found().highest == 6


def test_a_rollout_that_is_not_in_the_history_is_named_with_its_switch(kept):
    kept["s3"].rollout = rollout("r2")
    assert found().unknown == (f"s3: it runs rollout r2 of cnc@other, {TAKEN}",)
    assert found().rollouts == {"r2"}


def test_a_switch_that_a_term_was_told_alone_runs_no_rollout(kept):
    kept["s3"].rollout = rollout("r2", before_ns=None)
    assert found().unknown == ()


def test_a_term_of_another_network_does_not_count(kept):
    kept["s1"].term = KeptTerm("plant", 9, "cnc@other", TAKEN)
    assert (found().unknown, found().highest) == ((), 4)


def test_a_switch_that_does_not_answer_is_left_out(kept):
    kept["s1"] = DeviceError("s1", "no route to host")
    assert (found().unknown, found().highest) == ((), 4)
