"""How long frames take: IEEE 802.3 clause 3, reckoned from the figures of the intent."""

from __future__ import annotations

from dataclasses import dataclass

from cnc.model import FrameOverhead

_NS_PER_S = 1_000_000_000
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class FrameTimes:
    """Octets that are counted beside the payload: by a gate that asks whether a frame fits, on a
    link until the next frame may start, and until the last bit is sent. What a frame is padded to
    is part of its payload. A link may be `faster_ppm` millionths faster than its rate, which gates
    do not know."""

    gate_octets: int
    link_octets: int
    last_bit_octets: int

    @classmethod
    def of(cls, overhead: FrameOverhead) -> FrameTimes:
        """By the standard: the gate asks for as much as the link takes."""
        link = overhead.link_layer_octets + overhead.physical_octets
        return cls(link, link, link - overhead.gap_octets)

    def gate_ns(self, payload_octets: int, rate_bps: int) -> int:
        return octets_ns(payload_octets + self.gate_octets, rate_bps)

    def link_ns(self, payload_octets: int, rate_bps: int, faster_ppm: int = 0) -> int:
        return octets_ns(payload_octets + self.link_octets, rate_bps, faster_ppm)

    def last_bit_ns(self, payload_octets: int, rate_bps: int, faster_ppm: int = 0) -> int:
        return octets_ns(payload_octets + self.last_bit_octets, rate_bps, faster_ppm)


def octets_ns(octets: int, rate_bps: int, faster_ppm: int = 0) -> int:
    """Time of octets at a rate, or one so much faster, rounded up to whole nanoseconds."""
    scaled_bps = rate_bps * (_MILLION + faster_ppm)
    return (octets * 8 * _NS_PER_S * _MILLION + scaled_bps - 1) // scaled_bps
