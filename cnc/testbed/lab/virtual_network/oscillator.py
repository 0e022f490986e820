"""What a node's oscillator does in true time, as the table that its kernel reads at boot.

An oscillator's frequency is off by a constant, by a sinusoid (temperature over a day, here in
seconds) and by a random walk, as crystals without control are (IEEE 1139-2008, annex A: random walk
of frequency). The table has its value in steps, constant within a step: cnc/testbed/lab/vm/kernels/
um-oscillator.patch says how a kernel runs by it.

A kernel drops what an oscillator has gained beyond whole nanoseconds at the end of each step. So
the steps of a table gain whole nanoseconds, and what is left goes to the next one: the offset at
each end is exact to 1 ns, and the frequency within a step to 10 ppb.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Iterator
from itertools import count, islice
from statistics import NormalDist

from cnc.model import NS_PER_S
from cnc.testbed.intent.lab_model import Clock

# The kernel counts in parts of 10^12 and takes so many entries, at most 10 % off.
PARTS_PER_PPB = 1000
MAX_ENTRIES = 100_000
MAX_PPB = 100_000_000
STEP_NS = 100_000_000
_PARTS_PER_NS = 10**12 // STEP_NS  # what one nanosecond in a step is
_ENTRY = struct.Struct("=Qq")


def is_constant(clock: Clock) -> bool:
    """Whether `oscillator-ppb=` says all of a clock's oscillator."""
    return not clock.random_walk_ppt and not clock.sinusoid_amplitude_ppb


def table(clock: Clock, *, duration_ns: int = MAX_ENTRIES * STEP_NS) -> bytes:
    """The table from a kernel's start on; behind its end the frequency stays what it was there.

    The same clock gives the same table on every machine.

    Raises:
        ValueError: it would have too many entries, or a frequency that no kernel takes.
    """
    steps = max(1, -(-duration_ns // STEP_NS))
    if steps > MAX_ENTRIES:
        raise ValueError(
            f"{duration_ns / NS_PER_S:g} s in steps of {STEP_NS / NS_PER_S:g} s are {steps} "
            f"entries, and a kernel takes {MAX_ENTRIES}"
        )
    gained_ns = wanted_parts = 0
    entries = []
    for number, ppb in enumerate(islice(_frequencies_ppb(clock), steps)):
        wanted_parts += round(ppb * PARTS_PER_PPB)
        gain_ns = wanted_parts // _PARTS_PER_NS - gained_ns
        gained_ns += gain_ns
        parts = gain_ns * _PARTS_PER_NS
        if abs(parts) > MAX_PPB * PARTS_PER_PPB:
            raise ValueError(f"a frequency that is off by {ppb:g} ppb; the most is {MAX_PPB}")
        entries.append(_ENTRY.pack(number * STEP_NS, parts))
    return b"".join(entries)


def _frequencies_ppb(clock: Clock) -> Iterator[float]:
    """How far the frequency is off in each step."""
    # Uniform numbers are what `random` promises to repeat in every version.
    uniform = random.Random(clock.seed)  # noqa: S311
    walk_ppb = clock.random_walk_ppt / PARTS_PER_PPB
    normal = NormalDist(0, walk_ppb * math.sqrt(STEP_NS / NS_PER_S) or 1)
    walked_ppb = swing_ppb = 0.0
    for number in count():
        if clock.sinusoid_amplitude_ppb:
            # In the middle of the step: the mean over it, as near as makes no difference.
            phase = 2 * math.pi * (number + 0.5) * STEP_NS / clock.sinusoid_period_ns
            swing_ppb = clock.sinusoid_amplitude_ppb * math.sin(phase)
        yield clock.frequency_offset_ppb + swing_ppb + walked_ppb
        if walk_ppb:
            walked_ppb += normal.inv_cdf(uniform.random() or 0.5)
