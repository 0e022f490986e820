"""What an oscillator does in true time, as the table that a kernel reads."""

from __future__ import annotations

import math
import struct

import pytest

from cnc.lab.virtual_network.oscillator import Oscillator, table

NS_PER_S = 10**9


def entries(octets: bytes) -> list[tuple[int, float]]:
    """The instants in seconds and the frequency from then on in ppb."""
    return [(at_ns / NS_PER_S, parts / 1000) for at_ns, parts in struct.iter_unpack("=Qq", octets)]


def test_a_constant_frequency_is_the_same_in_every_step():
    constant = Oscillator(frequency_offset_ppb=-40_000)
    steps = entries(table(constant, duration_ns=NS_PER_S // 2))
    assert steps == [(n / 10, -40_000) for n in range(5)]
    assert constant.is_constant()


def test_a_sinusoid_rises_to_its_amplitude_and_comes_back():
    swinging = Oscillator(sinusoid_amplitude_ppb=500, sinusoid_period_ns=4 * NS_PER_S)
    steps = dict(entries(table(swinging, duration_ns=4 * NS_PER_S, step_ns=NS_PER_S // 100)))
    assert max(steps.values()) == pytest.approx(500, rel=1e-3)
    assert min(steps.values()) == pytest.approx(-500, rel=1e-3)
    assert sum(steps.values()) == pytest.approx(0, abs=1)
    assert steps[0.5] == pytest.approx(500 * math.sin(math.pi / 4), rel=1e-2)
    assert not swinging.is_constant()


def test_a_random_walk_goes_as_far_as_the_root_of_the_time():
    ends = []
    for seed in range(200):
        walk = table(Oscillator(random_walk_ppb=3, seed=seed), duration_ns=25 * NS_PER_S + 1)
        assert entries(walk)[0] == (0, 0)
        ends.append(entries(walk)[-1][1])
    deviation_ppb = math.sqrt(sum(end**2 for end in ends) / len(ends))
    assert deviation_ppb == pytest.approx(3 * math.sqrt(25), rel=0.15)


def test_the_same_seed_walks_the_same_way():
    walk = Oscillator(random_walk_ppb=3, seed=4)
    assert table(walk, duration_ns=NS_PER_S) == table(walk, duration_ns=NS_PER_S)
    other = Oscillator(random_walk_ppb=3, seed=5)
    assert table(walk, duration_ns=NS_PER_S) != table(other, duration_ns=NS_PER_S)


def test_what_no_kernel_takes_is_refused():
    with pytest.raises(ValueError, match="100001 entries, and a kernel takes 100000"):
        table(Oscillator(), duration_ns=10_000 * NS_PER_S + 1)
    with pytest.raises(ValueError, match="the most is 100000000"):
        table(Oscillator(frequency_offset_ppb=100_000_001), duration_ns=1)
