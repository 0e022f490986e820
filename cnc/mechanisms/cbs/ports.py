"""What a port does for the classes that have a shaper there: idle slopes, and service curves.

In any time in which frames of a class wait, or its credit is negative, the class sends all the time
but for

- a frame that was let go before, of a class below, which is not interrupted;
- what classes above send: control by its token bucket, others as they come, or as their credit
  lets them;
- the time for which its gate is shut;
- of a class with credit, the time for which that is negative.

Credit grows by the idle slope while it is negative. Linux (net/sched/sch_cbs.c, 6.12) lets it grow
no more once it is not, until the class has sent again, so that time for which the link is taken may
be lost for good; IEEE 802.1Q-2022 8.6.8.2 lets it grow while frames wait, and freezes it while the
gate is shut. If all such time counts as lost the service holds for both: with B for the longest
frame of a class below, H(t) for what classes above send, C(t) for shut gates,

    strict    R (t - B/R - H(t)/R - C(t))
    credit    I (t - 2 B/R - H(t)/R - C(t))     B once as the class begins to wait, when credit of
                                                 nothing does not grow, and once at last

So in the long run a class with credit has I (1 - its share of H and C), which is why idle slopes
are what the streams need, divided by that (compare 802.1Q-2022 34.3: for shut gates alone).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from cnc.mechanisms.cbs.curves import WHOLE_PPB, Affine, closed
from cnc.mechanisms.cbs.model import SLOPE_UNIT_BPS
from cnc.model import (
    NS_PER_S,
    RATE_TOLERANCE_PPM,
    ClassRole,
    GateControlList,
    Intent,
    Link,
    Shaper,
    TrafficClass,
)

_MILLION = 1_000_000
_TAG_OCTETS = 4
_LEAST_COUNTED_OCTETS = 84  # of the shortest frame, with preamble and gap
# The agent bounds the credit of a class by what it gains while the longest ordinary frame is sent:
# 1,522 octets with a VLAN tag and its frame check sequence, preamble and gap.
HIGHEST_CREDIT_BITS = 8 * 1542


class Service(NamedTuple):
    """At least `rate_bps` after `latency_ns` (rate-latency service)."""

    latency_ns: int
    rate_bps: int


class Crowded(NamedTuple):
    """Why a port has no service for a class."""

    text: str


class Streams(NamedTuple):
    """What the streams of a class send that leave by a port, and the longest of their frames on
    the wire."""

    rate_bps: int
    longest_bits: int


class Port:
    """The port of a switch, with the streams that leave by it, by class."""

    def __init__(
        self,
        intent: Intent,
        link: Link,
        gates: GateControlList | None,
        streams: Mapping[int, Streams],
        held_bps: Mapping[int, int],
    ) -> None:
        """`held_bps` is by class what its idle slope is at least."""
        self._intent, self.link, self._streams = intent, link, streams
        self._held_bps = held_bps
        self._classes = [its for its in intent.shaped_classes() if its.number in streams]
        self.slowest_bps = link.rate_bps * (_MILLION - RATE_TOLERANCE_PPM) // _MILLION
        self._closed = {
            its.number: closed(intent, link, gates, its, streams[its.number].longest_bits)
            for its in self._classes
        }
        self.slopes_bps: dict[int, int] = {}
        self.crowded: Crowded | None = None
        for its in self._classes:
            self._decide_slope(its)

    def _decide_slope(self, its: TrafficClass) -> None:
        """The idle slope of a class, or why its streams take more than it can have."""
        left_ppb = self._left_ppb(its, self._above_bps(its))
        wanted_bps = self._streams[its.number].rate_bps
        if left_ppb <= 0 or wanted_bps * WHOLE_PPB > left_ppb * (self.slowest_bps - SLOPE_UNIT_BPS):
            has_bps = max(left_ppb, 0) * self.slowest_bps // WHOLE_PPB
            self.crowded = self.crowded or Crowded(
                f"{self.link.source}: streams of class {its.name} send {wanted_bps} bit/s there, "
                f"and gates, control and classes above leave it {has_bps} bit/s. What would help: "
                "longer periods, fewer or smaller frames, a way around"
            )
            return
        if its.shaper is not Shaper.CREDIT:
            return
        needed_bps = -(-wanted_bps * WHOLE_PPB // left_ppb)
        needed_bps = -(-needed_bps * _MILLION // (_MILLION - RATE_TOLERANCE_PPM))
        least_bps = max(its.idle_slope_bps, self._held_bps.get(its.number, 0))
        slope_bps = -(-max(needed_bps, least_bps) // SLOPE_UNIT_BPS) * SLOPE_UNIT_BPS
        if slope_bps >= self.slowest_bps:
            self.crowded = self.crowded or Crowded(
                f"{self.link.source}: class {its.name} has an idle slope of {slope_bps} bit/s "
                f"there, and the link {self.link.rate_bps} bit/s. What would help: a lower one"
            )
            return
        self.slopes_bps[its.number] = slope_bps

    def services(
        self, its: TrafficClass, above: Mapping[int, Affine], late: Mapping[int, Affine]
    ) -> dict[int, Service]:
        """What the class has at least, by each way to reckon by which it has enough; of several the
        best counts. `above` is what comes of other classes, `late` what leaves of them."""
        higher = [each for each in self._classes if each.number > its.number]
        # Strict priority is asked from an instant on at which no class above waits, but for those
        # that wait for their credit.
        first = above if its.shaper is Shaper.STRICT else late
        by_rate, by_credit = self._control(its), self._control(its)
        for each in higher:
            has_credit = each.shaper is Shaper.CREDIT
            by_rate = by_rate.plus(late[each.number] if has_credit else first[each.number])
            by_credit = by_credit.plus(
                self.credit_output(each) if has_credit else first[each.number]
            )
        found = {
            way: self._service(its, taken)
            for way, taken in enumerate(dict.fromkeys((by_rate, by_credit)))  # once where alike
        }
        needed_bps = self._streams[its.number].rate_bps
        return {way: each for way, each in found.items() if each and each.rate_bps >= needed_bps}

    def _service(self, its: TrafficClass, taken: Affine) -> Service | None:
        left_ppb = self._left_ppb(its, taken.rate_bps)
        if left_ppb <= 0:
            return None
        below_bits = self._below_bits(its)
        if its.shaper is Shaper.CREDIT:
            slope_bps = self.slopes_bps[its.number] * (_MILLION - RATE_TOLERANCE_PPM) // _MILLION
            below_bits = 2 * below_bits + max(below_bits - HIGHEST_CREDIT_BITS, 0)
        else:
            slope_bps = self.slowest_bps
        bits = below_bits + taken.burst_bits
        held_ns = -(-bits * NS_PER_S // self.slowest_bps) + self._closed[its.number].burst_ns
        return Service(-(-held_ns * WHOLE_PPB // left_ppb), slope_bps * left_ppb // WHOLE_PPB)

    def credit_output(self, its: TrafficClass) -> Affine:
        """What a class with credit sends at most, from the highest credit to the lowest, and one
        frame more: a port may account for a frame and then find that it does not fit before its
        gate shuts (taprio_dequeue_from_txq and qdisc_peek_dequeued of Linux 6.12). Linux accounts
        for a frame without its VLAN tag, which it keeps beside the frame."""
        slope_bps, longest_bits = (
            self.slopes_bps[its.number],
            self._streams[its.number].longest_bits,
        )
        highest_bits = 8 - (-HIGHEST_CREDIT_BITS * slope_bps // self.slowest_bps)
        counted_bps = -(-slope_bps * (_MILLION + RATE_TOLERANCE_PPM) // _MILLION)
        rate_bps = -(-counted_bps * (_LEAST_COUNTED_OCTETS + _TAG_OCTETS) // _LEAST_COUNTED_OCTETS)
        return Affine(highest_bits + 2 * longest_bits, rate_bps)

    def _control(self, its: TrafficClass) -> Affine:
        """What classes of control above a class send."""
        control = self._intent.classes_with(ClassRole.CONTROL)
        if all(each.number < its.number for each in control):
            return Affine(0, 0)
        burst_bits = 8 * self._intent.control_burst_octets()
        return Affine(burst_bits, self._intent.control_rate_bps(self.link))

    def _above_bps(self, its: TrafficClass) -> int:
        """What classes above a class send in the long run."""
        return self._control(its).rate_bps + sum(
            self._streams[each.number].rate_bps
            for each in self._classes
            if each.number > its.number
        )

    def _left_ppb(self, its: TrafficClass, above_bps: int) -> int:
        taken_ppb = -(-above_bps * WHOLE_PPB // self.slowest_bps)
        return WHOLE_PPB - self._closed[its.number].share_ppb - taken_ppb

    def _below_bits(self, its: TrafficClass) -> int:
        """The longest frame that goes before others of a class although it is below."""
        below = [each for each in self._intent.classes.values() if each.number < its.number]
        return max(map(self._wire_bits, below), default=0)

    def _wire_bits(self, its: TrafficClass) -> int:
        return self._bits(its.max_frame_octets)

    def _bits(self, frame_octets: int) -> int:
        return 8 * (frame_octets + self._intent.network.overhead.physical_octets)
