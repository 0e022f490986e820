"""Frames that count for longer than they are, for gates that reckon with the rate of a link. Pure.

taprio takes a frame's time from the speed of the device, and a veth always says 10 Gb/s: a window
for one frame of an emulated link of 1 Gb/s would let ten pass. The kernel has no other speed to
tell it, but it looks up how long a frame is (__qdisc_calculate_pkt_len, net/sched/sch_api.c): so
each frame counts there as k times as long, k = 10 Gb/s over the rate of the link. Everything below
taprio that counts octets then counts these, too (`scaled`).
"""

from __future__ import annotations

from fractions import Fraction

from agent.kernel.sched_taprio import SizeTable
from agent.mechanisms.gates.model import UNKNOWN_LENGTHS
from agent.model import EmulatedLink

WIRE_OVERHEAD_OCTETS = (
    24  # preamble and delimiter 8, frame check sequence 4, gap 12 (IEEE 802.3 clause 3)
)
# The kernel takes no frame for longer than 1 MiB. A hundred times a frame of 9,000 octets is less.
FACTOR_MAX = 100

ENTRIES = 2048
ENTRY_MAX = 2**16 - 1
PLAIN = SizeTable(overhead=WIRE_OVERHEAD_OCTETS)


def length_factor(emulated: EmulatedLink | None) -> Fraction:
    """By how much frames count for longer; by nothing where that is not to be known."""
    if emulated is None or emulated == UNKNOWN_LENGTHS:
        return Fraction(1)
    return emulated.length_factor


def table(emulated: EmulatedLink | None) -> SizeTable:
    """The size table by which a frame counts for as long as it takes on the link.

    Never for less; for more by what a multiple of 2^size_log leaves, which is nothing for 1 Gb/s
    and for 100 Mb/s. Of a frame that is longer than the table, the kernel adds the last entry as
    often as the table fits into it: so that entry stands for one octet more than its place.
    """
    shown = shown_table(emulated)
    if not shown.size:
        return shown
    factor = length_factor(emulated)
    unit = factor.denominator << shown.size_log
    lengths = (*range(ENTRIES - 1), ENTRIES)
    return shown._replace(data=tuple(-(-factor.numerator * each // unit) for each in lengths))


def shown_table(emulated: EmulatedLink | None) -> SizeTable:
    """What the kernel shows of this table: not its entries (qdisc_dump_stab).

    So their factor is where the kernel shows something that it does not use: its numerator in
    `mpu`, its denominator in `mtu`.
    """
    factor = length_factor(emulated)
    if factor == 1:
        return PLAIN
    size_log = 0
    while factor * ENTRIES > ENTRY_MAX << size_log:
        size_log += 1
    return SizeTable(WIRE_OVERHEAD_OCTETS, size_log, factor.numerator, factor.denominator, ENTRIES)


def emulated_by(shown: SizeTable | None, port: EmulatedLink | None) -> EmulatedLink | None:
    """The link that a port's size table stands for: `port`, if that is the table it should have."""
    return port if shown == shown_table(port) else UNKNOWN_LENGTHS


def wire_octets(counted_octets: int, frames: int, emulated: EmulatedLink | None) -> int:
    """How many octets these frames have, from the MAC header on, that the kernel counts as so many.

    Within an octet a frame, and exact for 1 Gb/s and 100 Mb/s but for lengths that end a table.
    """
    factor = length_factor(emulated)
    return round(counted_octets / factor) - frames * WIRE_OVERHEAD_OCTETS
