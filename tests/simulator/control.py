"""Control on a port: as much as a token bucket lets come to its queue (RFC 2697)."""

from __future__ import annotations

from cnc.model import ClassRole, Intent, Link
from tests.simulator.octets import octets_ns

_MILLION = 1_000_000
_LONG_AGO_NS = -(1 << 62)


class ControlBucket:
    """What an adversary may let come: a burst at any time, and more at its rate. It keeps the
    burst until a frame of another class is on the link, and lets it come then, with all that the
    rate allows meanwhile: that waits together when the frame ends.

    Amounts are the time that the link takes for them, in ns times `_whole`.
    """

    def __init__(self, intent: Intent, link: Link, faster_ppm: int) -> None:
        control = intent.classes_with(ClassRole.CONTROL)
        physical = intent.network.overhead.physical_octets
        octets = sum((c.burst_frames or 4) * (c.max_frame_octets + physical) for c in control)
        rate_bps = sum(link.rate_bps // 10 if c.rate_bps is None else c.rate_bps for c in control)
        self._whole = link.rate_bps * (_MILLION + faster_ppm)
        self._share = rate_bps * _MILLION
        self._burst = octets_ns(octets, link.rate_bps, faster_ppm) * self._whole
        self._level = self._burst  # what may wait, or come at once, at `_as_of_ns`
        self._as_of_ns = _LONG_AGO_NS

    def ahead_ns(self, now_ns: int) -> int:
        """For how long control may be sent from now on, as more comes while it is."""
        return max(0, -(-self._waiting(now_ns) // (self._whole - self._share)))

    def send(self, now_ns: int, lasts_ns: int) -> None:
        """Control is sent from now on for so long."""
        left = self._waiting(now_ns) - lasts_ns * self._whole
        self._level = left + lasts_ns * self._share
        self._as_of_ns = now_ns + lasts_ns

    def hold(self, start_ns: int, end_ns: int) -> None:
        """A frame of another class is on the link: none of control waited when it started."""
        kept = min(self._burst, self._waiting(start_ns))
        self._level = kept + (end_ns - start_ns) * self._share
        self._as_of_ns = end_ns

    def _waiting(self, now_ns: int) -> int:
        """What may wait if the link was free since the last event: what came then and was sent
        since, but for the rest; or a burst that comes now."""
        since_ns = now_ns - self._as_of_ns
        come = self._level + since_ns * self._share
        return max(min(self._burst, come), come - since_ns * self._whole)
