"""A path that brings no copies loses no frame: the agent tells it before the other path fails."""

# ruff: noqa: F811  (fixtures of another file come by import)

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.events import Event, LatentError, LatentErrorEnded
from agent.mechanisms.frer.model import FrerState, LatentErrorDetection
from tests.kernel.conftest import FAR
from tests.kernel.two_paths import (  # noqa: F401
    VECTOR,
    Network,
    last_config,
    network,
    started_again,
    wire,
    wire_action,
)

LOOK_FRAMES = 100  # at a frame a millisecond
DETECTION = LatentErrorDetection(difference=20, period_ms=50, paths=2, reset_period_ms=500)
WATCHED = replace(VECTOR, latent_errors=DETECTION)
RESET_LOOKS = 5


@pytest.fixture
def watched(network) -> Network:
    """The network, whose last switch looks for latent errors from now on."""
    network.last.apply(last_config(WATCHED))
    assert looked(network) == []
    return network


def looked(network: Network) -> list[Event]:
    return list(network.last.ports.observe().events)


def sent(network: Network, looks: int) -> list[Event]:
    """What is told while frames are sent."""
    events = []
    for _ in range(looks):
        network.send(range(LOOK_FRAMES))
        events += looked(network)
    return events


def test_a_path_that_brings_no_copies_is_told_before_the_other_fails(watched):
    assert sent(watched, 3) == []
    wire("a", "loss", "100%")
    assert sent(watched, 1) == [LatentError(1, LOOK_FRAMES, {"a": 0, "b": LOOK_FRAMES})]
    assert sent(watched, 2 * RESET_LOOKS) == []
    (found,) = watched.last.read()["a"][FrerState].latent_errors.values()
    assert found.detected
    assert found.errors > RESET_LOOKS
    assert found.resets >= 2
    assert len(watched.received()) == watched.total("passed")


def test_frames_that_neither_path_brings_are_no_latent_error(watched):
    wire("a", "loss", "100%")
    wire("b", "loss", "100%")
    assert sent(watched, 3) == []


def test_a_path_that_brings_copies_again_is_told_after_a_reset_period(watched):
    wire("a", "loss", "100%")
    assert len(sent(watched, 1)) == 1
    wire("a")
    assert sent(watched, 3 * RESET_LOOKS) == [LatentErrorEnded(1)]
    (found,) = watched.last.read()["a"][FrerState].latent_errors.values()
    assert not found.detected


def test_no_more_copies_than_the_difference_are_missing_without_being_told(watched):
    at = {
        10: lambda: wire("a", "loss", "100%"),
        10 + DETECTION.difference: lambda: wire("a"),
    }
    watched.send(range(LOOK_FRAMES), at)
    assert looked(watched) == []
    wire("a", "loss", "100%")
    watched.send([LOOK_FRAMES])
    (told,) = looked(watched)
    assert told.difference == DETECTION.difference + 1


def test_an_agent_that_is_started_again_goes_on_looking(watched, tmp_path):
    watched.last = started_again(watched.last, FAR, tmp_path / "last")
    assert not watched.last.apply(last_config(WATCHED)).steps
    assert sent(watched, 1) == []
    wire("a", "loss", "100%")
    assert [each.entry for each in sent(watched, 1)] == [1]


def test_who_looks_for_none_is_told_of_none(network):
    wire("a", "loss", "100%")
    assert sent(network, 3) == []
