"""What comes faster than a host may waits, and others do not."""

from __future__ import annotations

import pytest

from cnc.service.web import pace
from cnc.service.web.pace import Pace


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(pace.time, "monotonic", lambda: now[0])
    return now


def test_so_many_go_at_once_and_the_next_in_their_turn(clock: list[float]) -> None:
    its = Pace(10, at_once=3, wait_max_s=0.25)
    waits = [its.wait_s("a") for _ in range(7)]
    assert waits[:3] == [0.0, 0.0, 0.0]
    assert waits[3:5] == pytest.approx([0.1, 0.2])
    assert waits[5:] == [None, None]  # and they count for nothing
    assert its.wait_s("b") == 0.0
    clock[0] += 0.1
    assert its.wait_s("a") == pytest.approx(0.2)
    clock[0] += 10
    assert [its.wait_s("a") for _ in range(3)] == [0.0, 0.0, 0.0]


def test_hosts_that_were_there_long_ago_are_forgotten(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "_HOSTS_MAX", 2)
    its = Pace(1, at_once=1, wait_max_s=5)
    for host in "abc":
        its.wait_s(host)
    assert its.wait_s("c") == pytest.approx(1.0)
    assert its.wait_s("a") == 0.0
