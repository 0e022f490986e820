"""How long tests of booted machines wait where all is slower than on the machine of the budget."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.boot import conftest as boot
from tests.boot import limits
from tests.runner import speed


@pytest.fixture(autouse=True)
def measured_anew():
    limits._slowness.cache_clear()
    yield
    limits._slowness.cache_clear()


def test_on_a_machine_three_times_slower_a_test_may_take_three_times_as_long(monkeypatch):
    monkeypatch.setattr(limits, "slowness_now", lambda: 3.0)
    assert limits.patient(1800) == 5400


def test_a_faster_machine_is_no_reason_to_hurry(monkeypatch):
    monkeypatch.setattr(speed, "additions_s", lambda: 0.0)
    assert limits.patient(1800) == 1800


def test_what_others_compute_counts(monkeypatch):
    """The work takes no CPU time here, and four times the reference from start to end."""
    monkeypatch.setattr(speed, "SAMPLES_NOW", 3)
    monkeypatch.setattr(speed, "additions_s", lambda: time.sleep(4 * speed.REFERENCE_S))
    assert limits.patient(1.0) >= 4.0


@pytest.mark.parametrize("stated", [None, pytest.mark.timeout(2400)])
def test_a_limit_that_a_test_states_itself_is_not_shortened(stated, monkeypatch):
    marked: list[pytest.MarkDecorator] = []
    item = SimpleNamespace(
        path=Path(boot.__file__).with_name("test_any.py"),
        get_closest_marker=lambda name: stated,
        add_marker=marked.append,
    )
    monkeypatch.delenv(boot.KIND, raising=False)
    boot.pytest_collection_modifyitems(SimpleNamespace(stash={}), [item])
    limit = pytest.mark.timeout(boot.TEST_LIMIT_S)
    assert [mark.mark for mark in marked] == ([] if stated else [limit.mark])
    assert boot.TEST_LIMIT_S >= 1800
