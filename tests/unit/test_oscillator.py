"""What an oscillator does in true time, as the table that a kernel reads."""

from __future__ import annotations

import itertools
import math
import struct

import pytest

from cnc.testbed.intent.lab_model import Clock
from cnc.testbed.lab.virtual_network.oscillator import STEP_NS, is_constant, table

NS_PER_S = 10**9


def entries(octets: bytes) -> list[tuple[int, float]]:
    """The instants in seconds and the frequency from then on in ppb."""
    return [(at_ns / NS_PER_S, parts / 1000) for at_ns, parts in struct.iter_unpack("=Qq", octets)]


def test_a_constant_frequency_is_the_same_in_every_step():
    constant = Clock(frequency_offset_ppb=-40_000)
    steps = entries(table(constant, duration_ns=NS_PER_S // 2))
    assert steps == [(n / 10, -40_000) for n in range(5)]
    assert is_constant(constant)


def offsets_ns(octets: bytes) -> list[int]:
    """What a clock has gained at the end of each step, as a kernel counts it: whole nanoseconds."""
    gains = (parts * STEP_NS // 10**12 for _, parts in struct.iter_unpack("=Qq", octets))
    return list(itertools.accumulate(gains))


def test_a_sinusoid_gains_for_half_its_period_and_loses_it_again():
    swinging = Clock(sinusoid_amplitude_ppb=500, sinusoid_period_ns=4 * NS_PER_S)
    gained_ns = offsets_ns(table(swinging, duration_ns=8 * NS_PER_S))
    # The integral of the sine over half a period.
    most_ns = 500 * 4 / math.pi
    assert max(gained_ns) == pytest.approx(most_ns, rel=1e-2)
    assert gained_ns.index(max(gained_ns)) in range(18, 21)
    assert gained_ns[39] == pytest.approx(0, abs=1)
    assert gained_ns[59] == pytest.approx(most_ns, rel=1e-2)
    assert not is_constant(swinging)


def test_what_a_kernel_drops_of_a_nanosecond_at_each_step_does_not_add_up():
    slow = Clock(frequency_offset_ppb=-3, random_walk_ppt=1)
    assert offsets_ns(table(slow, duration_ns=100 * NS_PER_S))[-1] == pytest.approx(-300, abs=2)


def test_a_random_walk_goes_as_far_as_the_root_of_the_time():
    ends = []
    for seed in range(200):
        walk = table(Clock(random_walk_ppt=3_000_000, seed=seed), duration_ns=25 * NS_PER_S + 1)
        assert entries(walk)[0] == (0, 0)
        ends.append(entries(walk)[-1][1])
    deviation_ppb = math.sqrt(sum(end**2 for end in ends) / len(ends))
    assert deviation_ppb == pytest.approx(3000 * math.sqrt(25), rel=0.15)


def test_the_same_seed_walks_the_same_way():
    walk = Clock(random_walk_ppt=3000, seed=4)
    assert table(walk, duration_ns=NS_PER_S) == table(walk, duration_ns=NS_PER_S)
    other = Clock(random_walk_ppt=3000, seed=5)
    assert table(walk, duration_ns=NS_PER_S) != table(other, duration_ns=NS_PER_S)


def test_what_no_kernel_takes_is_refused():
    with pytest.raises(ValueError, match="100001 entries, and a kernel takes 100000"):
        table(Clock(), duration_ns=10_000 * NS_PER_S + 1)
    with pytest.raises(ValueError, match="the most is 100000000"):
        table(Clock(frequency_offset_ppb=100_000_010), duration_ns=1)
