"""What a node's oscillator does in true time, as the table that its kernel reads at boot.

An oscillator's frequency is off by a constant, by a sinusoid (temperature over a day, here in
seconds) and by a random walk, as crystals without control are (IEEE 1139-2008, annex A: random walk
of frequency). The table has its value in steps, constant within a step: cnc/lab/vm/kernels/
um-oscillator.patch says how a kernel runs by it.
"""

from __future__ import annotations

import math
import random
import struct
from dataclasses import dataclass
from statistics import NormalDist

NS_PER_S = 10**9
# The kernel counts in parts of 10^12 and takes so many entries, at most 10 % off.
PARTS_PER_PPB = 1000
MAX_ENTRIES = 100_000
MAX_PPB = 100_000_000
_ENTRY = struct.Struct("=Qq")


@dataclass(frozen=True)
class Oscillator:
    """How far a frequency is off, in parts of 10^9; positive: fast.

    `random_walk_ppb` is how far it walks in one second (ppb/√s, one standard deviation). The
    sinusoid begins at 0 and rises.
    """

    frequency_offset_ppb: float = 0
    random_walk_ppb: float = 0
    sinusoid_amplitude_ppb: float = 0
    sinusoid_period_ns: int = 1
    seed: int = 0

    def is_constant(self) -> bool:
        """Whether `oscillator-ppb=` says all of it."""
        return not self.random_walk_ppb and not self.sinusoid_amplitude_ppb


def table(oscillator: Oscillator, *, duration_ns: int, step_ns: int = 100_000_000) -> bytes:
    """The table from a kernel's start on; behind its end the frequency stays what it was there.

    The same oscillator gives the same table on every machine.

    Raises:
        ValueError: it would have too many entries, or a frequency that no kernel takes.
    """
    count = max(1, -(-duration_ns // step_ns))
    if count > MAX_ENTRIES:
        raise ValueError(
            f"{duration_ns / NS_PER_S:g} s in steps of {step_ns / NS_PER_S:g} s are {count} "
            f"entries, and a kernel takes {MAX_ENTRIES}"
        )
    # Uniform numbers are what `random` promises to repeat in every version.
    uniform = random.Random(oscillator.seed)  # noqa: S311
    normal = NormalDist(0, oscillator.random_walk_ppb * math.sqrt(step_ns / NS_PER_S) or 1)
    walked_ppb = 0.0
    entries = []
    for number in range(count):
        # In the middle of the step: the mean over it, as near as makes no difference.
        phase = 2 * math.pi * (number + 0.5) * step_ns / oscillator.sinusoid_period_ns
        swing_ppb = oscillator.sinusoid_amplitude_ppb * math.sin(phase)
        ppb = oscillator.frequency_offset_ppb + swing_ppb + walked_ppb
        if abs(ppb) > MAX_PPB:
            raise ValueError(f"a frequency that is off by {ppb:g} ppb; the most is {MAX_PPB}")
        entries.append(_ENTRY.pack(number * step_ns, round(ppb * PARTS_PER_PPB)))
        if oscillator.random_walk_ppb:
            walked_ppb += normal.inv_cdf(uniform.random() or 0.5)
    return b"".join(entries)
