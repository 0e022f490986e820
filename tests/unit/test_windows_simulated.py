"""Windows that frames share, in plans by hand: what the judge allows, the simulator keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import pytest

from cnc.check import judge
from cnc.model import Plan, PortRef
from tests.simulator.adversary import Adversary, Chance, Slow
from tests.simulator.mutations import with_shorter_windows
from tests.simulator.outcome import flows_of, missed, run, sent_by
from tests.unit.planner_networks import BUSY_NS, MS, US
from tests.unit.window_plans import (
    WITHOUT_CONTROL,
    batch,
    beside_exact,
    early,
    line,
    ring,
    stored_batch,
    together,
    two_classes,
)

PLC = PortRef("s1", "plc")
CYCLIC_NUMBER = 6

PLANS: dict[str, Callable[[], Plan]] = {
    **{
        f"{n} devices, margin {margin} ns": partial(batch, n, margin_ns=margin)
        for n in (4, 30, 200, 600)
        for margin in (0, 50 * US)
    },
    **{
        f"{n} switches in a line, margin {margin} ns": partial(line, n, 20, margin_ns=margin)
        for n in (2, 4)
        for margin in (0, 50 * US)
    },
    "a ring": partial(ring, 6, 2),
    "a ring with much to do and a margin": partial(ring, 6, 8, margin_ns=50 * US),
    "a talker that starts all at once": partial(together, 20),
    "several frames of each stream": partial(line, 4, 8, frames=5),
    "several frames from one talker": partial(together, 6, frames=4, margin_ns=20 * US),
    "two classes": two_classes,
    "two classes and a margin": partial(two_classes, margin_ns=50 * US),
    "exact frames beside": beside_exact,
    "exact frames beside, and a margin": partial(beside_exact, margin_ns=20 * US),
    "frames of the next slot": early,
}


def adversaries(chances: int = 6) -> list[Adversary]:
    return [Slow(), *map(Chance, range(chances))]


def late(planned: Plan, against: Iterable[Adversary], duration_ns: int = 4 * MS) -> int:
    """How many frames come late, or never although no link lost them."""
    return sum(len(missed(planned, each, duration_ns=duration_ns)) for each in against)


@pytest.mark.parametrize("name", PLANS)
def test_frames_that_share_windows_by_hand_are_in_time_and_judged_so(name: str) -> None:
    planned = PLANS[name]()
    assert judge(planned) == []
    assert late(planned, adversaries()) == 0


def least_slack_ns(planned: Plan, against: Iterable[Adversary], duration_ns: int = 4 * MS) -> int:
    """By how much the latest frame is sooner than its bound."""
    sent = list(sent_by(planned, flows_of(planned), duration_ns))
    return min(
        planned.streams[each.frame.flow.name].latency_bound_ns - each.latency_ns
        for adversary in against
        for each in run(planned, adversary, sent, end_ns=10 * duration_ns).arrivals
    )


# Those whose worst case is one that the adversaries find, to within a frame, and where.
TIGHT: dict[str, tuple[Callable[[], Plan], int]] = {
    "4 devices": (partial(stored_batch, 4), 849),
    "600 devices and a margin": (
        partial(stored_batch, 600, margin_ns=50 * US, classes=WITHOUT_CONTROL),
        849,
    ),
    "a talker": (partial(together, 20, clock_error_ns=0, classes=WITHOUT_CONTROL), BUSY_NS),
    "a line": (partial(line, 2, 20, clock_error_ns=0, classes=WITHOUT_CONTROL), BUSY_NS),
    "a long line": (
        partial(line, 4, 20, clock_error_ns=0, margin_ns=50 * US, classes=WITHOUT_CONTROL),
        BUSY_NS,
    ),
    "several frames": (
        partial(line, 4, 8, frames=5, clock_error_ns=0, classes=WITHOUT_CONTROL),
        BUSY_NS,
    ),
    "frames of the next slot": (partial(early, classes=WITHOUT_CONTROL), BUSY_NS),
}


@pytest.mark.parametrize("name", TIGHT)
def test_the_latest_frame_comes_as_late_as_its_bound_says(name: str) -> None:
    planned, frame_ns = TIGHT[name][0](), TIGHT[name][1]
    assert 0 <= least_slack_ns(planned, adversaries()) < min(frame_ns, 300)


@pytest.mark.parametrize("name", TIGHT)
def test_in_a_window_to_a_listener_that_is_shorter_by_a_frame_some_frame_is_late(name: str) -> None:
    planned, frame_ns = TIGHT[name][0](), TIGHT[name][1]
    (last,) = [
        port
        for port in planned.gates
        if planned.intent.network.links[port].target.node in {"l", "plc"}
    ]
    shorter = with_shorter_windows(planned, last, CYCLIC_NUMBER, frame_ns)
    assert {violation.code for violation in judge(shorter)} == {"window-full"}
    assert late(shorter, adversaries()) > 0


@pytest.mark.parametrize("name", PLANS)
def test_the_judge_refuses_each_window_that_is_shorter_by_a_frame(name: str) -> None:
    planned = PLANS[name]()
    shared = {
        (hop.egress, hop.traffic_class)
        for its in planned.streams.values()
        for hop in its.hops
        if hop.is_shared and hop.egress in planned.gates
    }
    for port, number in shared:
        codes = {each.code for each in judge(with_shorter_windows(planned, port, number, BUSY_NS))}
        assert codes == {"window-full"}, port


@pytest.mark.parametrize("devices", [1, 4, 200])
@pytest.mark.parametrize("margin", [0, 50 * US])
def test_the_window_of_a_batch_is_its_margin_its_control_and_its_frames(
    devices: int, margin: int
) -> None:
    """At 1 Gb/s, for frames of 106 octets, 848 ns, or a little more on the slowest link.

    A control frame has 148 octets. It comes when the longest frame has just begun, of 1542 octets,
    and a tenth of the rate comes until the last frame starts.
    """
    planned = stored_batch(devices, margin_ns=margin)
    path = planned.streams["f0"].paths[0]
    frames = devices * 849
    control = (1185 + (12_338 + frames - 849) / 10) / 0.9
    assert path[-1].window_ns == pytest.approx(margin + control + frames, abs=10 + frames / 10_000)
    # From the talker, less the gap behind the last frame.
    bound = path[-1].offset_ns + path[-1].window_ns - 95 + 100
    assert planned.streams["f0"].latency_bound_ns == bound
