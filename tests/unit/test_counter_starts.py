"""Since when the counters of a port count."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from agent.datastore.counter_starts import CounterStarts
from tests.stack.recording_kernel import port

STARTED = datetime(2026, 11, 21, tzinfo=UTC)
LATER = STARTED + timedelta(hours=1)
LATEST = STARTED + timedelta(hours=2)


@pytest.fixture
def starts():
    return CounterStarts(STARTED)


def at(starts, now, **indices):
    """What is said of ports with these interface indices."""
    return starts.of({name: port(name, ifindex) for name, ifindex in indices.items()}, now)


def test_a_port_counts_since_the_start_of_the_agent(starts):
    assert at(starts, LATER, p1=2) == {"p1": STARTED}
    assert at(starts, LATEST, p1=2) == {"p1": STARTED}


def test_a_port_that_was_replugged_counts_since_that_was_seen(starts):
    at(starts, STARTED, p1=2, p2=3)
    assert at(starts, LATER, p1=9, p2=3) == {"p1": LATER, "p2": STARTED}
    assert at(starts, LATEST, p1=9, p2=3) == {"p1": LATER, "p2": STARTED}


def test_a_port_that_was_away_at_a_look_is_still_known_as_another(starts):
    at(starts, STARTED, p1=2)
    assert at(starts, LATER) == {}
    assert at(starts, LATEST, p1=9) == {"p1": LATEST}
