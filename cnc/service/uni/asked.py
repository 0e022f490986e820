"""A stream as a CUC asks for it: the leaves of 802.1Qdj, read once, with what is no number refused.

The body is an object by RFC 7951 without prefixes that has been validated by its YANG: types and
ranges are right, but every leaf that is not a key may be absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cnc.keys.values import CYCLE_MAX_NS, FRAMES_MAX, PAYLOAD_MAX_OCTETS
from cnc.model import NS_PER_S
from cnc.service.uni.refused import Failure, Refused

Body = Mapping[str, Any]
_RANKS = (0, 1)
_TREES = (1, 2)
# 802.1Q-2022 table 8-6: the only algorithm by which a talker of the model lets frames leave.
_STRICT_PRIORITY = 0


@dataclass(frozen=True, slots=True)
class Interface:
    """An interface of an end station as the CUC writes it, and its address as the intent does."""

    written: str
    name: str

    @property
    def mac(self) -> str:
        return self.written.replace("-", ":").lower()


@dataclass(frozen=True, slots=True)
class End:
    """What a talker or a listener says of itself. `max_latency_ns` 0: whatever there is."""

    interfaces: tuple[Interface, ...]
    trees: int
    max_latency_ns: int
    tags: bool
    identifications: frozenset[int]
    index: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """A stream as it is asked for. `fields` are those of its frames by the header they are of.

    `is_scheduled`: its talker sends when it is told to (`time-aware`), else at any time.
    `latest_ns` None: until the interval ends.
    """

    talker: End
    listeners: tuple[End, ...]
    fields: Mapping[str, Mapping[str, Any]]
    period_ns: int
    frames: int
    size_octets: int
    is_scheduled: bool
    earliest_ns: int
    latest_ns: int | None
    jitter_ns: int

    @property
    def trees(self) -> int:
        """Over how many trees its frames go: what the most demanding end asks for."""
        return max(self.talker.trees, *(each.trees for each in self.listeners))


def read(body: Body) -> Asked:
    """Raises Refused."""
    talker = body.get("talker", {})
    listeners = body.get("listener", [])
    if not listeners:
        raise Refused(
            Failure.NO_PORT, "the stream has no listener", "write a listener with its interfaces"
        )
    traffic = talker.get("traffic-specification", {})
    time_aware = traffic.get("time-aware")
    algorithm = traffic.get("transmission-selection", _STRICT_PRIORITY)
    if algorithm != _STRICT_PRIORITY:
        raise Refused(
            Failure.FEATURE,
            f"transmission-selection {algorithm}: the plan counts with a talker of strict priority",
            f"write {_STRICT_PRIORITY}, or leave the leaf out",
        )
    _check_rank(talker)
    period_ns = _period_ns(traffic.get("interval", {}))
    earliest_ns, latest_ns = _window(time_aware or {}, period_ns)
    return Asked(
        talker=_end(talker),
        listeners=tuple(_end(each) for each in listeners),
        fields=_fields(talker.get("data-frame-specification", [])),
        period_ns=period_ns,
        frames=_frames(traffic.get("max-frames-per-interval")),
        size_octets=_size(traffic.get("max-frame-size")),
        is_scheduled=time_aware is not None,
        earliest_ns=earliest_ns,
        latest_ns=latest_ns,
        jitter_ns=(time_aware or {}).get("jitter", 0),
    )


def _end(its: Body) -> End:
    required = its.get("user-to-network-requirements", {})
    can = its.get("interface-capabilities", {})
    trees = required.get("num-seamless-trees", 1)
    if trees not in _TREES:
        raise Refused(
            Failure.BRIDGE_RESOURCES,
            f"num-seamless-trees {trees}: frames go over one tree, or over two",
            "write 1 or 2",
        )
    return End(
        interfaces=tuple(
            Interface(each["mac-address"], each["interface-name"])
            for each in its["end-station-interfaces"]
        ),
        trees=trees,
        max_latency_ns=required.get("max-latency", 0),
        tags=can.get("vlan-tag-capable", False),
        identifications=frozenset(can.get("cb-stream-iden-type-list", ())),
        index=its.get("index", 0),
    )


def _check_rank(talker: Body) -> None:
    """No stream is displaced, so that ranks make no difference here."""
    rank: int = talker.get("stream-rank", {}).get("rank", 1)
    if rank not in _RANKS:
        raise Refused(Failure.FEATURE, f"rank {rank}: there are 0 and 1 alone", "write 0 or 1")


def _fields(specification: list[Body]) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for entry in specification:
        for header, its in entry.items():
            if header == "index":
                continue
            if header in found:
                raise Refused(
                    Failure.IDENTIFICATION,
                    f"data-frame-specification has {header} twice",
                    "write each header once",
                )
            found[header] = its
    if not any(found.values()):
        raise Refused(
            Failure.IDENTIFICATION,
            "data-frame-specification says nothing of the frames of the stream",
            "write by what they are known: MAC addresses, a VLAN tag or an IP packet",
        )
    return found


def _period_ns(interval: Body) -> int:
    numerator, denominator = interval.get("numerator", 0), interval.get("denominator", 0)
    written = f"interval {numerator}/{denominator} s"
    if not numerator or not denominator:
        raise Refused(Failure.FEATURE, f"{written} is no time", "write two numbers above 0")
    period_ns, rest = divmod(numerator * NS_PER_S, denominator)
    if rest:
        raise Refused(
            Failure.FEATURE,
            f"{written} is no whole number of nanoseconds, which all schedules count in",
            "write an interval of whole nanoseconds, such as 1/1000",
        )
    if not 1 <= period_ns <= CYCLE_MAX_NS:
        raise Refused(
            Failure.FEATURE,
            f"{written} is longer than the cycle of a gate control list may be: {CYCLE_MAX_NS} ns",
            "write a shorter one",
        )
    return int(period_ns)


def _window(time_aware: Body, period_ns: int) -> tuple[int, int | None]:
    earliest: int = time_aware.get("earliest-transmit-offset", 0)
    latest: int | None = time_aware.get("latest-transmit-offset")
    if earliest >= period_ns or (latest is not None and latest > period_ns):
        raise Refused(
            Failure.FEATURE,
            f"a transmit offset that is not within the interval of {period_ns} ns",
            "offsets count from the start of each interval: write shorter ones",
        )
    if latest is not None and latest < earliest:
        raise Refused(
            Failure.FEATURE,
            f"latest-transmit-offset {latest} ns is before earliest-transmit-offset {earliest} ns",
            "write a window that is open",
        )
    return earliest, latest


def _frames(frames: int | None) -> int:
    if not frames:
        raise Refused(
            Failure.FEATURE,
            "max-frames-per-interval is absent or 0: the stream would have no frame",
            "write how many frames the talker sends in an interval at most",
        )
    if frames > FRAMES_MAX:
        raise Refused(
            Failure.BRIDGE_RESOURCES,
            f"max-frames-per-interval {frames}: a queue takes {FRAMES_MAX} frames of a stream",
            "write fewer frames, or a shorter interval",
        )
    return frames


def _size(size: int | None) -> int:
    if not size:
        raise Refused(
            Failure.FEATURE,
            "max-frame-size is absent or 0",
            "write the octets of the longest MSDU: of an IP packet with its headers",
        )
    if size > PAYLOAD_MAX_OCTETS:
        raise Refused(
            Failure.FRAME_SIZE,
            f"max-frame-size {size}: no port carries more than {PAYLOAD_MAX_OCTETS} octets",
            "write shorter frames, and more of them",
        )
    return size
