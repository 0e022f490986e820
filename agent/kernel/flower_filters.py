"""Filters of the flower classifier with their actions, by netlink and by the hundred.

Messages and dumps of RTM_*TFILTER (struct tcmsg), from linux/rtnetlink.h and linux/pkt_cls.h, for
the two hooks of a port's clsact. A filter that is set at the place of another one replaces it: the
kernel puts the new one in before it takes the old one out, so that no frame meets none (fl_change).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from agent.kernel import frame_actions
from agent.kernel.cls_flower import ANY_PROTOCOL
from agent.kernel.filter_flags import IN_HW
from agent.kernel.frame_actions import FrameAction
from agent.kernel.netlink_batch import (
    NLA_F_NESTED,
    NLM_F_CREATE,
    Message,
    NetlinkSocket,
    attribute,
    attributes,
)
from agent.kernel.rtnetlink import (
    RTM_DELTFILTER,
    RTM_GETTFILTER,
    RTM_NEWACTION,
    RTM_NEWTFILTER,
    TCA_KIND,
    TCA_OPTIONS,
    TCMSG,
)

_TCAMSG = struct.Struct("=Bxxx")
_FLOWER = b"flower\0"
_FLOWER_ACT, _FLOWER_ETH_TYPE, _FLOWER_FLAGS, _FLOWER_IN_HW_COUNT = 3, 8, 22, 86
_ACT_KIND, _ACT_OPTIONS, _ACT_STATS, _ACT_COOKIE = 1, 2, 4, 6
_ACT_TAB = 1
_STATS_BASIC, _STATS_PACKETS_64 = 1, 8
_BASIC, _FLAGS = struct.Struct("=QI"), struct.Struct("=I")


class Key(IntEnum):
    """What of a frame a filter looks at (TCA_FLOWER_KEY_*), beside its Ethertype."""

    ETH_DST, ETH_DST_MASK, ETH_SRC, ETH_SRC_MASK = 4, 5, 6, 7
    IP_PROTO = 9
    IPV4_SRC, IPV4_SRC_MASK, IPV4_DST, IPV4_DST_MASK = 10, 11, 12, 13
    IPV6_SRC, IPV6_SRC_MASK, IPV6_DST, IPV6_DST_MASK = 14, 15, 16, 17
    TCP_SRC, TCP_DST, UDP_SRC, UDP_DST = 18, 19, 20, 21
    VLAN_ID = 23
    TCP_SRC_MASK, TCP_DST_MASK, UDP_SRC_MASK, UDP_DST_MASK = 35, 36, 37, 38
    SCTP_SRC_MASK, SCTP_DST_MASK, SCTP_SRC, SCTP_DST = 39, 40, 41, 42
    IP_TOS, IP_TOS_MASK = 73, 74
    NUM_OF_VLANS = 102


_KEYS = frozenset(Key)


class Place(NamedTuple):
    """Where a filter stands: lower `prio` first; each `prio` of a hook has one Ethertype, which is
    that of its filters (`protocol`; `ANY_PROTOCOL`: of frames of any)."""

    hook: int
    prio: int
    protocol: int
    handle: int


class FlowerFilter(NamedTuple):
    """What a filter matches and does. `cookie` (16 octets at most) means nothing to the kernel."""

    keys: Mapping[Key, bytes]
    actions: tuple[FrameAction, ...]
    cookie: bytes


class Listed(NamedTuple):
    """A filter as the kernel lists it, and how many frames it has met.

    `keys` is None for a filter of another classifier, `filter` also for one with other keys or
    actions than those known here. `flags` are those of `agent.kernel.filter_flags`.
    """

    place: Place
    keys: Mapping[int, bytes] | None = None
    filter: FlowerFilter | None = None
    frames: int = 0
    flags: int = 0

    @property
    def in_hardware(self) -> bool:
        return bool(self.flags & IN_HW)


def set_filter(ifindex: int, place: Place, wanted: FlowerFilter, flags: int = 0) -> Message:
    """A filter in its place; what is there is replaced. `flags`: `agent.kernel.filter_flags`."""
    actions = b"".join(
        attribute(number | NLA_F_NESTED, _action(each, wanted.cookie if number == 1 else b""))
        for number, each in enumerate(wanted.actions, 1)
    )
    options = b"".join(attribute(key, value) for key, value in wanted.keys.items())
    if place.protocol != ANY_PROTOCOL:
        options += attribute(_FLOWER_ETH_TYPE, struct.pack("!H", place.protocol))
    options += attribute(_FLOWER_FLAGS, _FLAGS.pack(flags))
    options += attribute(_FLOWER_ACT | NLA_F_NESTED, actions)
    payload = _place(ifindex, place) + attribute(TCA_KIND, _FLOWER)
    payload += attribute(TCA_OPTIONS | NLA_F_NESTED, options)
    return Message(RTM_NEWTFILTER, payload, NLM_F_CREATE)


def delete_filter(ifindex: int, place: Place) -> Message:
    """Without a handle all filters of that `prio`."""
    payload = _place(ifindex, place) + attribute(TCA_KIND, _FLOWER)
    return Message(RTM_DELTFILTER, payload)


def read_filters(kernel: NetlinkSocket, ifindex: int, hook: int, prio: int) -> Iterator[Listed]:
    """The filters with this `prio` at one hook, whatever their kind; none where there is no hook.

    Raises NetlinkError.
    """
    request = _place(ifindex, Place(hook, prio, 0, 0))
    for message in kernel.dump(Message(RTM_GETTFILTER, request)):
        _family, _ifindex, handle, _parent, info = TCMSG.unpack_from(message.payload)
        if info >> 16 == prio and handle:  # without a handle it is the list of filters itself
            place = Place(hook, prio, socket.ntohs(info & 0xFFFF), handle)
            yield _listed(place, dict(attributes(message.payload[TCMSG.size :])))


def probe_action(kind: str) -> Message:
    """Asks for an action without any option, which is always refused before anything is made.

    With ENOENT where the kernel does not have the action and finds no module for it
    (tcf_action_init_1), with EINVAL where it has.
    """
    action = attribute(_ACT_KIND, kind.encode() + b"\0")
    table = attribute(_ACT_TAB | NLA_F_NESTED, attribute(1 | NLA_F_NESTED, action))
    return Message(RTM_NEWACTION, _TCAMSG.pack(socket.AF_UNSPEC) + table, NLM_F_CREATE)


def _place(ifindex: int, place: Place) -> bytes:
    info = place.prio << 16 | socket.htons(place.protocol)
    return TCMSG.pack(socket.AF_UNSPEC, ifindex, place.handle, place.hook, info)


def _action(action: FrameAction, cookie: bytes) -> bytes:
    encoded = attribute(_ACT_KIND, action.KIND.encode() + b"\0")
    if cookie:
        encoded += attribute(_ACT_COOKIE, cookie)
    return encoded + attribute(_ACT_OPTIONS | NLA_F_NESTED, action.options())


def _listed(place: Place, found: Mapping[int, bytes]) -> Listed:
    if found.get(TCA_KIND) != _FLOWER:
        return Listed(place)
    keys = dict(attributes(found.get(TCA_OPTIONS, b"")))
    listed = [dict(attributes(each)) for _number, each in attributes(keys.pop(_FLOWER_ACT, b""))]
    (flags,) = _FLAGS.unpack(keys.pop(_FLOWER_FLAGS, bytes(_FLAGS.size)))
    for beside in (_FLOWER_ETH_TYPE, _FLOWER_IN_HW_COUNT):
        keys.pop(beside, None)
    parsed = [frame_actions.parse(_kind(each), each.get(_ACT_OPTIONS, b"")) for each in listed]
    actions = tuple(each for each in parsed if each is not None)
    if not actions or len(actions) < len(parsed) or not keys.keys() <= _KEYS:
        return Listed(place, keys, flags=flags)
    known = {Key(number): value for number, value in keys.items()}
    cookie = listed[0].get(_ACT_COOKIE, b"")
    return Listed(place, keys, FlowerFilter(known, actions, cookie), _frames(listed[0]), flags)


def _kind(action: Mapping[int, bytes]) -> str:
    return action.get(_ACT_KIND, b"").rstrip(b"\0").decode()


def _frames(action: Mapping[int, bytes]) -> int:
    """What an action has counted; the longer counter is there once the short one is too short."""
    counters = dict(attributes(action.get(_ACT_STATS, b"")))
    if _STATS_PACKETS_64 in counters:
        return int(struct.unpack("=Q", counters[_STATS_PACKETS_64])[0])
    return int(_BASIC.unpack_from(counters[_STATS_BASIC])[1]) if _STATS_BASIC in counters else 0
