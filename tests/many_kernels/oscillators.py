"""What an oscillator that an intent states is to do, by the table that its kernel is given."""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path

from cnc.model import NS_PER_S
from cnc.testbed.intent.lab_model import Clock
from cnc.testbed.lab.kernels import offsets
from cnc.testbed.lab.virtual_network import oscillator


def gained_ns(clock: Clock, true_ns: int) -> int:
    """How far it is ahead of true time then, by its frequencies."""
    frequencies = _frequencies(clock)
    steps, rest_ns = divmod(true_ns, oscillator.STEP_NS)
    gained = sum(frequencies[:steps]) * oscillator.STEP_NS + frequencies[steps] * rest_ns
    return gained // 10**12


def assert_runs_by_its_table(node: str, clock: Clock, recorded: Path) -> None:
    """Whether the true offset of a clock is what its frequencies add up to, every second."""
    seen = 0
    for each in offsets.read(recorded):
        if each.node == node and each.time_ns % NS_PER_S == 0:
            assert abs(each.offset_ns - clock.offset_ns - gained_ns(clock, each.time_ns)) <= 2
            seen += 1
    assert seen > 100


@cache
def _frequencies(clock: Clock) -> list[int]:
    """In parts in 10^12, of each step."""
    return [parts for _, parts in struct.iter_unpack("=Qq", oscillator.table(clock))]
