"""How long frames take: IEEE 802.3 clause 3, reckoned from the figures of the intent."""

from __future__ import annotations

from dataclasses import dataclass

from cnc.model import FrameOverhead

_NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class FrameTimes:
    """Octets that are counted beside the payload: by a gate that asks whether a frame fits, on a
    link until the next frame may start, and until the last bit is sent. What a frame is padded to
    is part of its payload."""

    gate_octets: int
    link_octets: int
    last_bit_octets: int

    @classmethod
    def of(cls, overhead: FrameOverhead) -> FrameTimes:
        """By the standard: the gate asks for as much as the link takes."""
        link = overhead.link_layer_octets + overhead.physical_octets
        return cls(link, link, link - overhead.gap_octets)

    def gate_ns(self, payload_octets: int, rate_bps: int) -> int:
        return self._ns(payload_octets, self.gate_octets, rate_bps)

    def link_ns(self, payload_octets: int, rate_bps: int) -> int:
        return self._ns(payload_octets, self.link_octets, rate_bps)

    def last_bit_ns(self, payload_octets: int, rate_bps: int) -> int:
        return self._ns(payload_octets, self.last_bit_octets, rate_bps)

    def _ns(self, payload_octets: int, more_octets: int, rate_bps: int) -> int:
        return octets_ns(payload_octets + more_octets, rate_bps)


def octets_ns(octets: int, rate_bps: int) -> int:
    """Time of octets at a rate, rounded up to whole nanoseconds."""
    return (octets * 8 * _NS_PER_S + rate_bps - 1) // rate_bps
