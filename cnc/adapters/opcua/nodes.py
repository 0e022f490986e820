"""What OPC 10000-22 has of a stream: one object for its talker and one for each listener, with the
interfaces that it implements and their members. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from asyncua import ua

_IDS, _KINDS = ua.ObjectIds, ua.VariantType
_NS_PER_S = 1_000_000_000
_SYSTEM_OCTETS = 8
_UINT32_MAX = (1 << 32) - 1
# 5.3.1.6: switches run it, and nothing is known of its talker; else they are about to; or they will
# not.
_STATES = {"configured": ua.TsnStreamState.Ready}
_TALKER = {"none": 0, "ready": 1, "failed": 2}
_LISTENER = {"none": 0, "ready": 1, "partial-failed": 2, "failed": 3}
Stream = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Member:
    """A variable of an object, by its name in the model."""

    name: str
    variant: ua.Variant
    data_type: int


@dataclass(frozen=True, slots=True)
class End:
    """The object of a talker or a listener, in the folder of the model that has this node."""

    folder: int
    name: str
    interfaces: tuple[int, ...]
    members: tuple[Member, ...]


def ends(cuc: str, stream: Stream) -> Iterator[End]:
    """The objects of a stream as the UNI has it."""
    name = f"{cuc}/{stream['stream-id']}"
    listeners: Sequence[Stream] = stream.get("listener", ())
    if talker := stream.get("talker"):
        yield _end(_IDS.TalkerStreams, name, stream, talker, _talker(stream))
    for its in listeners:
        listener = f"{name}/{its['index']}"
        yield _end(_IDS.ListenerStreams, listener, stream, its, _listener(stream))


def _end(folder: int, name: str, stream: Stream, its: Stream, status: list[Member]) -> End:
    info: Stream = stream.get("status-info", {})
    members = [
        Member("StreamId", _octets(stream["stream-id"]), _IDS.Byte),
        Member("StreamName", ua.Variant(name, _KINDS.String), _IDS.String),
        _enumerated("State", _state(stream), _IDS.TsnStreamState),
        *status,
        _enumerated("FailureCode", info.get("failure-code", 0), _IDS.TsnFailureCode),
        Member("FailureSystemIdentifier", _NO_SYSTEM, _IDS.Byte),
    ]
    interfaces = [_IDS.IIeeeBaseTsnStreamType, _IDS.IIeeeBaseTsnStatusStreamType]
    if (latency_ns := its.get("accumulated-latency")) is not None:
        members.append(_number("AccumulatedLatency", latency_ns, _KINDS.UInt32))
    if traffic := stream.get("talker", {}).get("traffic-specification"):
        interfaces.append(_IDS.IIeeeBaseTsnTrafficSpecificationType)
        members += _traffic(traffic)
    for its_interface, its_members in _configured(its):
        interfaces.append(its_interface)
        members += its_members
    return End(folder, name, tuple(interfaces), tuple(members))


def _talker(stream: Stream) -> list[Member]:
    word = stream.get("status-info", {}).get("talker-status", "none")
    return [_enumerated("TalkerStatus", _TALKER[word], _IDS.TsnTalkerStatus)]


def _listener(stream: Stream) -> list[Member]:
    word = stream.get("status-info", {}).get("listener-status", "none")
    return [_enumerated("ListenerStatus", _LISTENER[word], _IDS.TsnListenerStatus)]


def _state(stream: Stream) -> ua.TsnStreamState:
    if stream.get("status-info", {}).get("failure-code"):
        return ua.TsnStreamState.Error
    return _STATES.get(stream.get("stream-status", ""), ua.TsnStreamState.Configuring)


def _traffic(traffic: Stream) -> Iterator[Member]:
    """What a stream states: one that waits to be computed may state less than the model has."""
    for name, leaf, kind in (
        ("MaxIntervalFrames", "max-frames-per-interval", _KINDS.UInt16),
        ("MaxFrameSize", "max-frame-size", _KINDS.UInt32),
    ):
        if (value := traffic.get(leaf)) is not None:
            yield _number(name, value, kind)
    its = traffic.get("interval", {})
    if denominator := its.get("denominator"):
        interval_ns = Fraction(its.get("numerator", 0) * _NS_PER_S, denominator)
        if max(interval_ns.numerator, interval_ns.denominator) <= _UINT32_MAX:
            value = ua.UnsignedRationalNumber(interval_ns.numerator, interval_ns.denominator)
            variant = ua.Variant(value, _KINDS.ExtensionObject)
            yield Member("Interval", variant, _IDS.UnsignedRationalNumber)


def _configured(its: Stream) -> Iterator[tuple[int, list[Member]]]:
    """What the interface of an end has to be configured to: of several, that of the first one."""
    interfaces = its.get("interface-configuration", {}).get("interface-list", ())
    for entry in interfaces[0]["config-list"] if interfaces else ():
        if mac := entry.get("ieee802-mac-addresses"):
            members = [
                Member(name, _octets(mac[leaf]), _IDS.Byte)
                for name, leaf in (
                    ("DestinationAddress", "destination-mac-address"),
                    ("SourceAddress", "source-mac-address"),
                )
                if leaf in mac
            ]
            yield _IDS.IIeeeTsnMacAddressType, members
        if tag := entry.get("ieee802-vlan-tag"):
            yield (
                _IDS.IIeeeTsnVlanTagType,
                [
                    _number("VlanId", tag["vlan-id"], _KINDS.UInt16),
                    _number("PriorityCodePoint", tag["priority-code-point"], _KINDS.Byte),
                ],
            )
        if (offset_ns := entry.get("time-aware-offset")) is not None:
            yield (
                _IDS.IIeeeTsnInterfaceConfigurationTalkerType,
                [_number("TimeAwareOffset", offset_ns, _KINDS.UInt32)],
            )


def _number(name: str, value: int, kind: ua.VariantType) -> Member:
    return Member(name, ua.Variant(value, kind), getattr(_IDS, kind.name))


def _enumerated(name: str, value: int, data_type: int) -> Member:
    return Member(name, ua.Variant(int(value), _KINDS.Int32), data_type)


def _octets(text: str) -> ua.Variant:
    """The octets of a stream-id or an address, as 802.1Q writes them."""
    found = [int(each, 16) for each in text.replace(":", "-").split("-")]
    return ua.Variant(found, _KINDS.Byte)


# Which bridge it was: table 46-15 codes are told with a sentence, and not with an address.
_NO_SYSTEM = ua.Variant([], _KINDS.Byte, Dimensions=[0, _SYSTEM_OCTETS], is_array=True)
