"""How much later than planned frames may start: what plans, and what follows from them, allow for.

The judge adds that up by itself (`cnc.account.wire`).
"""

from __future__ import annotations

from cnc.mechanisms.frer.derive import client_octets
from cnc.model import ClassRole, Intent, Link, Stream, TalkerInterference, transmission_ns


def start_delay_ns(intent: Intent, link: Link) -> int:
    """How much later than planned a scheduled frame may start on the link.

    At a talker a best-effort frame may be under way, and control frames that come meanwhile go
    first.
    """
    control = transmission_ns(intent.control_burst_octets(), link.rate_bps)
    return control + sender_margin_ns(intent, link) + interference_ns(intent, link)


def sender_margin_ns(intent: Intent, link: Link) -> int:
    """How much later than planned a frame may start for reasons of its sender, other frames apart:
    the gate margin of a switch, the lateness of a talker."""
    talker = intent.network.end_stations.get(link.source.node)
    if talker is None or talker.lateness_ns is None:
        return intent.network.gate_margin_ns
    return talker.lateness_ns


def control_between_ns(intent: Intent, link: Link, stream: Stream) -> int:
    """How long control frames may keep the link between the frames of one period of a stream.

    Those of the burst go ahead of the first frame; while the others wait for their turn, no more
    comes than the rate of control allows (a token bucket, RFC 2697).
    """
    if stream.frames == 1:
        return 0
    rate_bps = intent.control_rate_bps(link)
    octets = client_octets(intent.network, stream, link)
    between_ns = (stream.frames - 1) * intent.network.occupation_ns(link, octets)
    span_ns = start_delay_ns(intent, link) + between_ns
    # What control takes makes the span longer, in which more of it comes. Where control may take
    # all of the link, the sum is beyond any period.
    return -(-rate_bps * span_ns // max(link.rate_bps - rate_bps, 1))


def interference_ns(intent: Intent, link: Link) -> int:
    """How long best effort of the sender itself may keep the link from a scheduled frame."""
    talker = intent.network.end_stations.get(link.source.node)
    if talker is None or talker.interference is TalkerInterference.NONE:
        return 0  # a bridge shuts the gates of best effort in time
    return longest_frame_ns(intent, link, ClassRole.BEST_EFFORT)


def late_interference_ns(intent: Intent, link: Link) -> int:
    """How long best effort of a talker may keep its link from a frame that the talker sends at
    another time than planned: gates of its own do not expect that frame."""
    talker = intent.network.end_stations.get(link.source.node)
    if talker is not None and talker.gate_mode is not None:
        return longest_frame_ns(intent, link, ClassRole.BEST_EFFORT)
    return interference_ns(intent, link)


def longest_frame_ns(intent: Intent, link: Link, role: ClassRole) -> int:
    """Wire time of the largest frame of the classes with `role`; 0 without such a class."""
    octets = max((c.max_frame_octets for c in intent.classes_with(role)), default=None)
    if octets is None:
        return 0
    return transmission_ns(octets + intent.network.overhead.physical_octets, link.rate_bps)
