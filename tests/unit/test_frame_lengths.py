"""Size tables by which gates on a veth reckon with the rate of an emulated link."""

from __future__ import annotations

import struct

import pytest

from agent.kernel.sched_taprio import SizeTable, size_table
from agent.mechanisms.gates import frame_lengths
from agent.mechanisms.gates.frame_lengths import emulated_by, shown_table, table, wire_octets
from agent.mechanisms.gates.model import UNKNOWN_LENGTHS
from agent.model import EmulatedLink

VETH_BPS = 10**10
MBPS = 10**6
RATES_MBPS = (10_000, 5_000, 2_500, 1_000, 625, 312, 300, 250, 101, 100)


def link(rate_mbps):
    return EmulatedLink(VETH_BPS, rate_mbps * MBPS)


def counted(of: SizeTable, frame_octets):
    """How long the kernel takes a frame to be: __qdisc_calculate_pkt_len of net/sched/sch_api.c."""
    octets = frame_octets + of.overhead
    if not of.size:
        return octets
    if octets < of.size:
        entry = of.data[octets]
    else:
        entry = of.data[of.size - 1] * (octets // of.size) + of.data[octets % of.size]
    return entry << of.size_log


@pytest.mark.parametrize("rate_mbps", RATES_MBPS)
def test_no_frame_counts_for_less_than_it_takes_nor_for_an_octet_more(rate_mbps):
    of = table(link(rate_mbps))
    factor = link(rate_mbps).length_factor
    rounding = 2**of.size_log * (9_062 // frame_lengths.ENTRIES + 1)
    for frame_octets in range(60, 9_039):
        exact = factor * (frame_octets + 24)
        ends_a_table = (frame_octets + 24) % frame_lengths.ENTRIES == frame_lengths.ENTRIES - 1
        assert 0 <= counted(of, frame_octets) - exact < factor * ends_a_table + rounding


@pytest.mark.parametrize("rate_mbps", [1_000, 100])
def test_at_the_usual_rates_a_frame_counts_exactly(rate_mbps):
    of, factor = table(link(rate_mbps)), VETH_BPS // (rate_mbps * MBPS)
    for frame_octets in (60, 1_514, 2_022, 2_024, 9_014):
        assert counted(of, frame_octets) == factor * (frame_octets + 24)


def test_a_frame_of_9000_octets_at_100_megabits_is_no_longer_than_the_kernel_takes():
    assert counted(table(link(100)), 9_018) < 2**20


def test_entries_fit_the_16_bits_that_they_have_in_the_request():
    for rate_mbps in range(100, 10_001, 7):
        assert max(table(link(rate_mbps)).data, default=0) <= 0xFFFF


def test_a_link_as_fast_as_its_device_needs_no_entries():
    assert table(link(10_000)) == table(None) == SizeTable(overhead=24)


def test_a_table_is_written_as_the_kernel_reads_it_and_recognised_without_its_entries():
    written = table(link(1_000)).packed()
    sizespec = struct.pack("=BBhiIIII", 0, 0, 0, 24, 0, 10, 1, 2_048)
    assert written[:28] == struct.pack("=HH", 28, 1) + sizespec
    assert written[28:32] == struct.pack("=HH", 4_100, 2)
    assert written[32:40] == struct.pack("=4H", 0, 10, 20, 30)
    assert size_table(written[:28]) == shown_table(link(1_000))


@pytest.mark.parametrize(
    "shown",
    [
        None,
        SizeTable(),
        SizeTable(overhead=24),
        SizeTable(24, 2, 100, 1, 2_048),
        SizeTable(24, 0, 10, 1, 512),
        SizeTable(20, 0, 10, 1, 2_048),
    ],
)
def test_any_other_table_is_recognised_as_such(shown):
    assert emulated_by(shown_table(link(1_000)), link(1_000)) == link(1_000)
    assert emulated_by(shown, link(1_000)) == UNKNOWN_LENGTHS


def test_what_stands_for_another_table_is_written_as_the_plain_one():
    """So a change can be undone: the kernel does not show what was there."""
    assert table(UNKNOWN_LENGTHS) == SizeTable(overhead=24)


def test_a_table_with_cells_is_none_of_this_kind():
    sizespec = struct.pack("=BBhiIIII", 3, 0, 0, 24, 0, 0, 0, 0)
    assert size_table(struct.pack("=HH", 28, 1) + sizespec) is None


def test_octets_are_what_was_sent_whatever_they_counted_for():
    for rate_mbps in RATES_MBPS:
        of = table(link(rate_mbps))
        frames = (64, 733, 1_514)
        octets = sum(counted(of, each) for each in frames)
        assert abs(wire_octets(octets, len(frames), link(rate_mbps)) - sum(frames)) <= len(frames)
    assert wire_octets(10 * (1_514 + 24), 1, link(1_000)) == 1_514
    assert wire_octets(1_514 + 24, 1, None) == wire_octets(1_514 + 24, 1, UNKNOWN_LENGTHS) == 1_514
