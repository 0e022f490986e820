"""What a CUC asks for as the keys of a stream of the intent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cnc.mechanisms.terms import added_octets
from cnc.model import Elimination, Forwarding, Intent, Stream
from cnc.service.uni.asked import Asked, Body, read
from cnc.service.uni.frames import Frames, frames_of
from cnc.service.uni.ground import ground
from cnc.service.uni.latency import budget_ns
from cnc.service.uni.refused import Failure, Refused
from cnc.service.uni.stations import ends

_NOT_IP_OCTETS = 46  # what 802.3 pads shorter frames to
_TWO_TREES = 2
# Of a stream without a max-latency: how much later than by the fastest way it may be. What it is
# told at first holds, since no stream that has a place is moved.
_WITHOUT_LIMIT = 2
_AT_ANY_TIME = 10  # the same where it waits for others at each switch


def wanted(body: Body, name: str, intent: Intent) -> dict[str, Any]:
    """The keys of the stream `name`. Raises Refused."""
    asked = read(body)
    talker, listeners = ends(asked, intent)
    frames = frames_of(asked, intent)
    payload_octets = max(asked.size_octets, _least_octets(frames))
    early_ns = _early_ns(asked, talker, intent)
    earliest_ns = max(0, asked.earliest_ns - early_ns)
    latest_ns = (asked.period_ns - 1 if asked.latest_ns is None else asked.latest_ns) - early_ns
    if latest_ns < earliest_ns:
        raise Refused(
            Failure.FEATURE,
            f"jitter {asked.jitter_ns} ns: no offset leaves a talker that may be as much early "
            "time within its window",
            "write a longer window, or a smaller jitter",
        )
    stream = Stream(
        name,
        talker=talker,
        listeners=listeners,
        traffic_classes=(),
        period_ns=asked.period_ns,
        payload_octets=payload_octets,
        max_latency_ns=0,
        ip_version=frames.ip_version or 4,
        paths=asked.trees,
        frames=asked.frames,
        elimination=Elimination.SWITCH if asked.trees == _TWO_TREES else Elimination.LISTENER,
    )
    fastest_ns = ground(intent.network).least_ns(stream)
    within_ns = budget_ns(asked, listeners, payload_octets, intent, untagged=frames.untagged)
    if within_ns is None:
        max_latency_ns = max(asked.period_ns, _WITHOUT_LIMIT * fastest_ns)
        max_latency_ns *= 1 if asked.is_scheduled else _AT_ANY_TIME
    else:
        latest_ns = min(latest_ns, within_ns - fastest_ns)
        max_latency_ns = within_ns - earliest_ns
        if latest_ns < earliest_ns:
            raise too_late(within_ns, earliest_ns + fastest_ns)
    window = {"earliest": f"{earliest_ns}ns", "latest": f"{latest_ns}ns"}
    classes = _classes(frames, stream, intent)
    keys: dict[str, Any] = {
        "talker": talker,
        "listeners": [*listeners],
        # A class in which talkers send at any time has no other beside it.
        "class": classes if asked.is_scheduled else classes[0],
        "period": f"{asked.period_ns}ns",
        "payload": f"{payload_octets}B",
        "max-latency": f"{max_latency_ns}ns",
        **({"window": window} if asked.is_scheduled else {}),
        "ip": stream.ip_version,
        "frames": asked.frames,
        **frames.keys,
    }
    return {**keys, **_trees(asked, intent)}


def too_late(within_ns: int, least_ns: int) -> Refused:
    """That no place is soon enough: the last bit would be there after `least_ns` at least."""
    return Refused(
        Failure.LATENCY,
        f"max-latency: the last bit of a frame would have to be there {within_ns} ns after the "
        f"start of the interval, and is after {least_ns} ns at the soonest",
        "write a longer max-latency, which counts from the start of the interval; or an earlier "
        "earliest-transmit-offset",
    )


def _least_octets(frames: Frames) -> int:
    """The payload that a stream has at least in the intent: what its frames are padded to, and the
    headers of IP and UDP, which the intent counts as part of it."""
    return 48 if frames.ip_version == 6 else _NOT_IP_OCTETS  # noqa: PLR2004  IPv6 and UDP


def _early_ns(asked: Asked, talker: str, intent: Intent) -> int:
    """How much sooner than it is told the talker may send.

    The plan counts with talkers that are late, never early. So it plans a frame for the earliest
    instant at which the talker may send it, tells the talker the middle, and needs room for twice
    the jitter in its lateness.
    """
    jitter_ns = asked.jitter_ns
    if not jitter_ns:
        return 0
    station = intent.network.end_stations[talker]
    if station.management is not None:
        raise Refused(
            Failure.FEATURE,
            f"jitter {jitter_ns} ns of {talker}, whose agent tells its talkers when to send, to "
            "the earliest instant",
            "write jitter 0: how late these talkers are is measured, or stated in the intent",
        )
    known_ns = intent.network.lateness_ns(talker)
    if known_ns < 2 * jitter_ns:
        raise Refused(
            Failure.FEATURE,
            f"jitter {jitter_ns} ns, earlier or later: the plan has room for {known_ns} ns of "
            f"lateness of {talker}",
            f"write `{station.lateness_key}: {2 * jitter_ns}ns` of {talker} in the intent file",
        )
    return jitter_ns


def _classes(frames: Frames, stream: Stream, intent: Intent) -> list[str]:
    """The classes whose frames may be as long."""
    overhead = intent.network.overhead
    octets = max(stream.payload_octets, overhead.min_payload_octets)
    octets += overhead.link_layer_octets + added_octets(stream)
    fit = [each.name for each in frames.classes if octets <= each.max_frame_octets]
    if fit:
        return fit
    most = max((each.max_frame_octets for each in frames.classes), default=0)
    raise Refused(
        Failure.FRAME_SIZE,
        f"max-frame-size {stream.payload_octets} makes a frame of {octets} octets, and the classes "
        f"for streams have frames of {most} at most",
        "write shorter frames, and more of them; or a longer `max-frame` of a class in the intent",
    )


def _trees(asked: Asked, intent: Intent) -> Mapping[str, Any]:
    if asked.trees != _TWO_TREES:
        return {}
    if not asked.is_scheduled:
        raise Refused(
            Failure.BRIDGE_RESOURCES,
            "num-seamless-trees 2 without time-aware: streams that are sent at any time have one",
            "write 1, or time-aware",
        )
    if intent.network.forwarding is Forwarding.ROUTED:
        raise Refused(
            Failure.BRIDGE_RESOURCES,
            "num-seamless-trees 2: switches that forward by IP address eliminate no duplicates",
            "write 1, or `forwarding: bridged` in the intent",
        )
    return {"paths": _TWO_TREES, "elimination": str(Elimination.SWITCH)}
