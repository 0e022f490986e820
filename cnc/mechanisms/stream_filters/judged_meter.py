"""How much may come of a stream that may send at any time, as the judge reckons it by itself.

A meter is to let that pass, by which no talker loses a frame that it states, and no more, by which
the bounds of others hold whatever it sends.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from cnc.mechanisms.stream_filters.model import FlowMeter
from cnc.model import NS_PER_S, RATE_TOLERANCE_PPM, Link, Network, Stream

_MILLION = 1_000_000
_ROUNDED_NS = 1_000  # a planner's rounding of times to later


def wrong_meter(
    network: Network, stream: Stream, link: Link, until_ns: int, meter: FlowMeter
) -> Iterator[str]:
    """What is wrong with the flow meter of a stream that leaves its talker over this link, which is
    done with all bursts by `until_ns`."""
    if meter.overhead_octets != (physical := network.overhead.physical_octets):
        yield (
            f"takes {physical} octets beside each frame on the wire, its flow meter adds "
            f"{meter.overhead_octets}"
        )
    frame_bits = 8 * network.wire_octets(stream.payload_octets)
    rate = Fraction(stream.frames * frame_bits * NS_PER_S, stream.period_ns)
    fastest = Fraction(link.rate_bps * (_MILLION + RATE_TOLERANCE_PPM), _MILLION)
    bridge = network.bridges[link.target.node]
    # The first of two bursts waits for all else at its talker, the second for nothing.
    spread_ns = until_ns - frame_bits * NS_PER_S / fastest + 2 * network.clock_error_ns
    spread_ns += bridge.processing_max_ns - bridge.processing_min_ns
    burst = (stream.frames * frame_bits + rate * spread_ns / NS_PER_S) / 8
    if not rate <= meter.rate_bps < rate + 1:
        yield f"sends {float(rate):.3f} bit/s, its flow meter lets {meter.rate_bps} pass"
    rounding = 1 + rate * _ROUNDED_NS / NS_PER_S / 8
    if not burst <= meter.burst_octets <= burst + rounding:
        yield (
            f"may bring {float(burst):.3f} octets at once, its flow meter lets "
            f"{meter.burst_octets} pass"
        )
