"""Lateness that rises around a ring: what the planner knows of a port is worked out anew for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from cnc.check import judge
from cnc.check.drains import Drained
from cnc.model import Intent
from cnc.planner import plan
from cnc.planner.backlog import Clearing
from tests.unit.planner_networks import MS, intent, network, stream

SWITCHES = ("s0", "s1", "s2", "s3")
WAYS = (("t0", "l2", 1_000), ("t1", "l3", 400), ("t2", "l0", 100), ("t3", "l0", 1_000))


@pytest.fixture
def wanted() -> Intent:
    """Four switches in a ring of 100 Mb/s, and streams that go half round it, so that each port of
    the ring is fed by the one before."""
    cables = [f"{one}-{other}" for one, other in pairwise([*SWITCHES, SWITCHES[0]])]
    cables += [f"s{n}-{end}{n}" for n in range(4) for end in "tl"]
    ring = replace(network(*cables, rate_bps=100_000_000), disturbance_ns=20_000)
    return intent(
        ring,
        *(
            stream(f"x{number}", talker, listener, payload_octets=octets, max_latency_ns=MS)
            for number, (talker, listener, octets) in enumerate(WAYS)
        ),
    )


def always(answer: object) -> Callable[..., object]:
    return lambda *_: answer


def test_waits_that_are_kept_are_those_that_would_be_worked_out_anew(
    wanted: Intent, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = plan(wanted)
    assert judge(found) == []
    monkeypatch.setattr(Clearing, "is_same_for", always(False))
    monkeypatch.setattr(Drained, "is_same_for", always(False))
    assert plan(wanted) == found
    assert judge(found) == []


def test_waits_of_before_frames_came_later_would_promise_too_little(
    wanted: Intent, monkeypatch: pytest.MonkeyPatch
) -> None:
    promised = plan(wanted).recovery_ns
    monkeypatch.setattr(Clearing, "is_same_for", always(True))
    stale = plan(wanted)
    assert all(stale.recovery_ns[name] <= promised[name] for name in promised)
    assert max(stale.recovery_ns.values()) < max(promised.values())
    assert {violation.code for violation in judge(stale)} == {"recovery"}
