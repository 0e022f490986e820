"""The classifier bpf of tc in direct-action mode: a program decides what becomes of a frame.

Messages and dumps of RTM_*TFILTER (struct tcmsg), from linux/rtnetlink.h and linux/pkt_cls.h, at
the ingress of a port's clsact. A filter that is set at the place of another one replaces it: the
kernel puts the new one in before it takes the old one out (cls_bpf_change).
"""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

from agent.kernel.cls_flower import INGRESS
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
    RTM_NEWTFILTER,
    TCA_CHAIN,
    TCA_KIND,
    TCA_OPTIONS,
    TCMSG,
)

_BPF_FD, _BPF_NAME, _BPF_FLAGS, _BPF_ID = 6, 7, 8, 11
_DIRECT_ACTION = 1
_BPF = b"bpf\0"
_ALL_PROTOCOLS = 3  # ETH_P_ALL
_HANDLE = 1
_NUMBER = struct.Struct("=I")


class BpfPlace(NamedTuple):
    """Where the program stands at the ingress of a port: lower `prio` first, in each chain."""

    ifindex: int
    prio: int
    chain: int


def set_program(place: BpfPlace, descriptor: int, name: str) -> Message:
    """The program in its place; `name` is what tc(8) shows."""
    options = attribute(_BPF_FD, _NUMBER.pack(descriptor))
    options += attribute(_BPF_NAME, name.encode() + b"\0")
    options += attribute(_BPF_FLAGS, _NUMBER.pack(_DIRECT_ACTION))
    payload = _place(place, _HANDLE) + attribute(TCA_OPTIONS | NLA_F_NESTED, options)
    return Message(RTM_NEWTFILTER, payload, NLM_F_CREATE)


def delete_program(place: BpfPlace) -> Message:
    """All filters of that `prio` in that chain go."""
    return Message(RTM_DELTFILTER, _place(place, 0))


def programs(kernel: NetlinkSocket, ifindex: int, prio: int) -> dict[int, list[int | None]]:
    """By chain the numbers of the programs of this `prio`; None: a filter of another kind.

    Empty where the port has no hook for filters. Raises NetlinkError.
    """
    info = prio << 16
    request = TCMSG.pack(socket.AF_UNSPEC, ifindex, 0, INGRESS, info)
    found: dict[int, list[int | None]] = {}
    for message in kernel.dump(Message(RTM_GETTFILTER, request)):
        _family, _ifindex, handle, _hook, listed = TCMSG.unpack_from(message.payload)
        if listed >> 16 != prio or not handle:  # without a handle it is the list of filters itself
            continue
        details = dict(attributes(message.payload[TCMSG.size :]))
        (chain,) = _NUMBER.unpack(details.get(TCA_CHAIN, bytes(4)))
        options = dict(attributes(details.get(TCA_OPTIONS, b"")))
        number = options.get(_BPF_ID) if details.get(TCA_KIND) == _BPF else None
        found.setdefault(chain, []).append(_NUMBER.unpack(number)[0] if number else None)
    return found


def _place(place: BpfPlace, handle: int) -> bytes:
    info = place.prio << 16 | socket.htons(_ALL_PROTOCOLS)
    return (
        TCMSG.pack(socket.AF_UNSPEC, place.ifindex, handle, INGRESS, info)
        + attribute(TCA_KIND, _BPF)
        + attribute(TCA_CHAIN, _NUMBER.pack(place.chain))
    )
