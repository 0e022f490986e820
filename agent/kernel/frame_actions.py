"""What a filter does to a frame: actions of Linux traffic control, as octets.

Each action is a kind (`TCA_ACT_KIND`) with attributes of its own (`TCA_ACT_OPTIONS`), from
linux/tc_act/tc_pedit.h, tc_vlan.h and tc_skbedit.h. An action is encoded as tc(8) does it, and read
back from what the kernel lists, which adds an index and counters. After each the next one follows
(TC_ACT_PIPE), where it does not say else.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from agent.kernel.netlink_batch import attribute, attributes

NLA_F_NESTED = 0x8000
_TC_ACT_UNSPEC, _TC_ACT_PIPE, _TC_ACT_GOTO_CHAIN = -1, 3, 0x20000000
_CHAINS = range(1 << 28)
_GENERIC = struct.Struct("=IIiii")  # tc_gen: index, capab, action, refcnt, bindcnt
_PIPE = _GENERIC.pack(0, 0, _TC_ACT_PIPE, 0, 0)

_PEDIT_PARMS_EX, _PEDIT_KEYS_EX, _PEDIT_KEY_EX = 4, 5, 6
_PEDIT_HEADER, _PEDIT_COMMAND = 1, 2
_ETHERNET, _SET = 1, 0  # TCA_PEDIT_KEY_EX_HDR_TYPE_ETH, TCA_PEDIT_KEY_EX_CMD_SET
_PEDIT_SIZE = struct.Struct("=BBxx")  # nkeys, flags
_PEDIT_KEY = struct.Struct("=4s4siIII")  # mask, value, offset, at, offmask, shift

_VLAN_PARMS, _VLAN_ID, _VLAN_PROTOCOL, _VLAN_PRIORITY = 2, 3, 4, 6
_POP, _PUSH = 1, 2
_8021Q = struct.pack("!H", 0x8100)

_SKBEDIT_PARMS, _SKBEDIT_PRIORITY = 2, 3
_GACT_PARMS = 2
# What the kernel lists beside: the instants of an action's life, and padding.
_PEDIT_TM, _PEDIT_PAD, _VLAN_TM, _VLAN_PAD, _SKBEDIT_TM, _SKBEDIT_PAD = 1, 3, 1, 5, 1, 6
_GACT_TM, _GACT_PAD = 1, 4


@dataclass(frozen=True, slots=True)
class SetDestination:
    """The frame gets this destination MAC address (act_pedit)."""

    mac: bytes

    KIND: ClassVar = "pedit"

    def options(self) -> bytes:
        # Words of four octets: what the mask has is kept, the value is put into the rest.
        keys = (
            _PEDIT_KEY.pack(bytes(4), self.mac[:4], 0, 0, 0, 0),
            _PEDIT_KEY.pack(b"\0\0\xff\xff", self.mac[4:] + bytes(2), 4, 0, 0, 0),
        )
        of_key = attribute(_PEDIT_HEADER, struct.pack("=H", _ETHERNET))
        of_key += attribute(_PEDIT_COMMAND, struct.pack("=H", _SET))
        extended = attribute(_PEDIT_KEY_EX | NLA_F_NESTED, of_key) * len(keys)
        parameters = _PIPE + _PEDIT_SIZE.pack(len(keys), 0) + b"".join(keys)
        return attribute(_PEDIT_PARMS_EX, parameters) + attribute(
            _PEDIT_KEYS_EX | NLA_F_NESTED, extended
        )


@dataclass(frozen=True, slots=True)
class PushVlan:
    """The frame gets a VLAN tag (act_vlan)."""

    vlan_id: int
    pcp: int

    KIND: ClassVar = "vlan"

    def options(self) -> bytes:
        return (
            attribute(_VLAN_PARMS, _PIPE + struct.pack("=i", _PUSH))
            + attribute(_VLAN_ID, struct.pack("=H", self.vlan_id))
            + attribute(_VLAN_PROTOCOL, _8021Q)
            + attribute(_VLAN_PRIORITY, bytes([self.pcp]))
        )


@dataclass(frozen=True, slots=True)
class PopVlan:
    """The frame loses its VLAN tag (act_vlan)."""

    KIND: ClassVar = "vlan"

    def options(self) -> bytes:
        return attribute(_VLAN_PARMS, _PIPE + struct.pack("=i", _POP))


@dataclass(frozen=True, slots=True)
class SetPriority:
    """The frame gets this skb priority, by which queueing disciplines class it (act_skbedit).

    With a `chain` the filters of that chain of the same hook see it next, and no other.
    """

    priority: int
    chain: int | None = None

    KIND: ClassVar = "skbedit"

    def options(self) -> bytes:
        control = _TC_ACT_PIPE if self.chain is None else _TC_ACT_GOTO_CHAIN | self.chain
        return attribute(_SKBEDIT_PARMS, _GENERIC.pack(0, 0, control, 0, 0)) + attribute(
            _SKBEDIT_PRIORITY, struct.pack("=I", self.priority)
        )


@dataclass(frozen=True, slots=True)
class Continue:
    """The frame is counted, and the filters that follow see it, too (act_gact)."""

    KIND: ClassVar = "gact"

    def options(self) -> bytes:
        return attribute(_GACT_PARMS, _GENERIC.pack(0, 0, _TC_ACT_UNSPEC, 0, 0))


FrameAction = SetDestination | PushVlan | PopVlan | SetPriority | Continue


def parse(kind: str, options: bytes) -> FrameAction | None:
    """The action that the kernel lists; None for one that is none of these."""
    found = dict(attributes(options))
    candidate = _candidate(kind, found)
    if candidate is None or _without_life(kind, found) != dict(attributes(candidate.options())):
        return None
    return candidate


def _candidate(kind: str, found: Mapping[int, bytes]) -> FrameAction | None:
    """What the action is if it is one of these at all."""
    if kind == SetDestination.KIND and len(found.get(_PEDIT_PARMS_EX, b"")) == _PEDIT_OCTETS:
        first, second = (
            found[_PEDIT_PARMS_EX][at : at + _PEDIT_KEY.size]
            for at in (_PEDIT_OCTETS - 2 * _PEDIT_KEY.size, _PEDIT_OCTETS - _PEDIT_KEY.size)
        )
        return SetDestination(_PEDIT_KEY.unpack(first)[1] + _PEDIT_KEY.unpack(second)[1][:2])
    if kind == SetPriority.KIND and _SKBEDIT_PRIORITY in found:
        _index, _capab, control, _refcnt, _bindcnt = _GENERIC.unpack(found[_SKBEDIT_PARMS])
        chain = control ^ _TC_ACT_GOTO_CHAIN
        (priority,) = struct.unpack("=I", found[_SKBEDIT_PRIORITY])
        return SetPriority(priority, chain if chain in _CHAINS else None)
    if kind == Continue.KIND:
        return Continue()
    if kind == PushVlan.KIND and _VLAN_ID in found and _VLAN_PRIORITY in found:
        return PushVlan(struct.unpack("=H", found[_VLAN_ID])[0], found[_VLAN_PRIORITY][0])
    return PopVlan() if kind == PopVlan.KIND else None


_PEDIT_OCTETS = _GENERIC.size + _PEDIT_SIZE.size + 2 * _PEDIT_KEY.size
_PARAMETERS = {
    "pedit": _PEDIT_PARMS_EX,
    "vlan": _VLAN_PARMS,
    "skbedit": _SKBEDIT_PARMS,
    "gact": _GACT_PARMS,
}
_LIFE = {
    "pedit": {_PEDIT_TM, _PEDIT_PAD},
    "vlan": {_VLAN_TM, _VLAN_PAD},
    "skbedit": {_SKBEDIT_TM, _SKBEDIT_PAD},
    "gact": {_GACT_TM, _GACT_PAD},
}


def _without_life(kind: str, found: Mapping[int, bytes]) -> dict[int, bytes]:
    """The attributes as they were asked for: without index, references and instants."""
    kept = {number: value for number, value in found.items() if number not in _LIFE[kind]}
    parameters = _PARAMETERS[kind]
    generic = kept[parameters]
    _index, capab, action, _refcnt, _bindcnt = _GENERIC.unpack_from(generic)
    kept[parameters] = _GENERIC.pack(0, capab, action, 0, 0) + generic[_GENERIC.size :]
    if _PEDIT_KEYS_EX in kept and kind == SetDestination.KIND:  # listed without NLA_F_NESTED
        keys = attributes(kept[_PEDIT_KEYS_EX])
        kept[_PEDIT_KEYS_EX] = b"".join(attribute(k | NLA_F_NESTED, value) for k, value in keys)
    return kept
