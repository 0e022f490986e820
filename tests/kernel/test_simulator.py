"""The simulator that judges plans, held against Linux: the same frames leave at the same times."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest
import yaml

from cnc import intent as intents
from cnc.lab import lab
from cnc.model import NS_PER_S, Plan
from cnc.planner import plan as compute
from cnc.rollout import push
from cnc.traffic.endpoint import tai_ns
from cnc.traffic.flows import Flow
from cnc.traffic.recording import Frame, run
from tests.simulator.lab_networks import arrivals, offered, random_document

DURATION_NS = 10_000_000
CLOCK_NS = 256  # of virtual time: nothing is known more exactly
JITTERED_RUNS = 10
STRANGE_OF = 500  # frames of best effort one may change places with several others, unexplained


@pytest.mark.virtual_time
@pytest.mark.parametrize("seed", [1, 2])
def test_frames_leave_a_network_when_the_simulator_says(seed: int, tmp_path: Path) -> None:
    """Bursts and overload included: within the resolution of the clock and one frame.

    Every frame of a stream does, and of 500 others all but one."""
    file = tmp_path / "intent.yaml"
    file.write_text(yaml.safe_dump(random_document(seed), sort_keys=False))
    intent = intents.load(file)
    planned = compute(intent, best_effort=True)
    sent = offered(planned, seed, DURATION_NS)
    with lab(intent, timed_wires=True) as running:
        report = push(planned, connect=running.connect)
        time.sleep(max(0, (report.base_time_ns or 0) - tai_ns()) / NS_PER_S)
        with running.quiet():
            record = run(running, sent, DURATION_NS, tmp_path / "record")
    assert len(record) > 500
    largest = max(flow.payload_octets for flow in sent) + 42
    rate = min(link.rate_bps for link in intent.network.links.values())
    tolerance = CLOCK_NS + largest * 8 * NS_PER_S // rate
    strange = unexplained(planned, sent, record, seed, tolerance)
    assert len(strange) <= len(record) // STRANGE_OF, strange
    assert not planned.streams.keys() & {frame.flow for frame, _ in strange}


def unexplained(
    planned: Plan, sent: list[Flow], record: Sequence[Frame], seed: int, tolerance: int
) -> list[tuple[Frame, set[int | None]]]:
    """The frames that arrived at no time, give or take the tolerance, at which they may, or did not
    arrive though they should; with the times at which they may, None for never.

    The instants of sending are known as exactly as the clock; near the end of a window, or where
    frames of several talkers meet, a nanosecond decides about more than that.
    """
    possible: defaultdict[tuple[str, int], set[int | None]] = defaultdict(set)
    strange = list(record)
    for shifts in shifts_ns(seed):
        frames = [(frame.flow, frame.seq, frame.sent_ns + next(shifts)) for frame in record]
        simulated = arrivals(planned, sent, frames)
        for name, number, _ in frames:
            possible[name, number].add(simulated.get((name, number)))
        strange = [
            frame
            for frame in strange
            if not is_expected(frame.received_ns, possible[frame.flow, frame.seq], tolerance)
        ]
        if not strange:
            break
    return [(frame, possible[frame.flow, frame.seq]) for frame in strange]


def shifts_ns(seed: int) -> Iterator[Iterator[int]]:
    """For each run of the simulator what to add to the instants at which frames are sent."""
    random = Random(seed)  # noqa: S311  not for secrets
    for shift in (0, -CLOCK_NS, CLOCK_NS):
        yield iter(lambda shift=shift: shift, None)
    for _ in range(JITTERED_RUNS):
        yield iter(lambda: random.randint(-2 * CLOCK_NS, 2 * CLOCK_NS), None)


def is_expected(received: int | None, expected: set[int | None], tolerance: int) -> bool:
    """Whether a frame came at a time that the simulator holds for possible, or did not come."""
    if received is None:
        return None in expected
    times = [each for each in expected if each is not None]
    return bool(times) and min(times) - tolerance <= received <= max(times) + tolerance
