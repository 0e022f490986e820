"""What the kernel announces of bridges, reduced to what matters to static forwarding.

A bridge announces each address that it learns or forgets as it announces an entry that somebody
made: a stranger who sends frames from 10,000 addresses a second is 10,000 messages a second. A
filter in the kernel (classic BPF, socket(7)) drops what does not matter before it reaches the
socket.
"""

from __future__ import annotations

import ctypes
import socket
import struct
import sys
from collections.abc import Sequence
from typing import NamedTuple

from agent.kernel.rtnetlink import RTM_DELLINK, RTM_DELMDB, RTM_NEWMDB

# linux/rtnetlink.h; RTNLGRP_MDB, 26, as a mask
_RTMGRP_LINK, _RTMGRP_NEIGH, _RTMGRP_MDB = 0x1, 0x4, 1 << (26 - 1)
_AF_BRIDGE = 7
_STATIC = 0x40 | 0x80  # NUD_NOARP, NUD_PERMANENT: made by somebody, not learned
_MDB_PERMANENT = 1

# Octets of a message: the lower one of nlmsg_type; the family, which is first in struct ndmsg and
# struct ifinfomsg; the lower one of ndm_state; the state of the first struct br_mdb_entry.
_LOWER = 0 if sys.byteorder == "little" else 1
_TYPE_AT, _FAMILY_AT, _STATE_AT, _GROUP_STATE_AT = 4 + _LOWER, 16, 24 + _LOWER, 40

# linux/bpf_common.h
_LOAD_OCTET, _JUMP_EQUAL, _JUMP_SET, _RETURN = 0x30, 0x15, 0x45, 0x06
_ALL, _NOTHING = 0xFFFF_FFFF, 0
_SO_ATTACH_FILTER = 26
_INSTRUCTION = struct.Struct("=HBBI")  # struct sock_filter


class _Instruction(NamedTuple):
    """`if_true` and `if_false` are how many instructions a jump leaves out."""

    code: int
    value: int
    if_true: int = 0
    if_false: int = 0


# A message that is too short for what is loaded is dropped.
_STATIC_ENTRIES = (
    _Instruction(_LOAD_OCTET, _TYPE_AT),
    _Instruction(_JUMP_EQUAL, RTM_NEWMDB, 5, 0),
    _Instruction(_JUMP_EQUAL, RTM_DELMDB, 4, 0),
    _Instruction(_LOAD_OCTET, _FAMILY_AT),
    _Instruction(_JUMP_EQUAL, _AF_BRIDGE, 0, 5),
    _Instruction(_LOAD_OCTET, _STATE_AT),
    _Instruction(_JUMP_SET, _STATIC, 2, 3),
    _Instruction(_LOAD_OCTET, _GROUP_STATE_AT),
    _Instruction(_JUMP_SET, _MDB_PERMANENT, 0, 1),
    _Instruction(_RETURN, _ALL),
    _Instruction(_RETURN, _NOTHING),
)
_DEPARTURES = (
    _Instruction(_LOAD_OCTET, _TYPE_AT),
    _Instruction(_JUMP_EQUAL, RTM_DELLINK, 0, 3),
    _Instruction(_LOAD_OCTET, _FAMILY_AT),
    _Instruction(_JUMP_EQUAL, _AF_BRIDGE, 0, 1),
    _Instruction(_RETURN, _ALL),
    _Instruction(_RETURN, _NOTHING),
)
_IFINDEX = struct.Struct("=i")
_IFINDEX_AT = 16 + 4  # in struct ifinfomsg


def listen_for_static_entries() -> socket.socket:
    """A socket that hears of entries of bridges that somebody made or removed; raises OSError."""
    return _listen(_RTMGRP_NEIGH | _RTMGRP_MDB, _STATIC_ENTRIES)


def listen_for_departures() -> socket.socket:
    """A socket that hears of ports that leave a bridge (`departed_port`); raises OSError."""
    return _listen(_RTMGRP_LINK, _DEPARTURES)


def departed_port(message: bytes) -> int:
    """The index of the port that has left its bridge."""
    return int(_IFINDEX.unpack_from(message, _IFINDEX_AT)[0])


def _listen(groups: int, instructions: Sequence[_Instruction]) -> socket.socket:
    listening = socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE
    )
    program = b"".join(
        _INSTRUCTION.pack(each.code, each.if_true, each.if_false, each.value)
        for each in instructions
    )
    kept = ctypes.create_string_buffer(program, len(program))
    attached = struct.pack("@HP", len(instructions), ctypes.addressof(kept))
    listening.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, attached)
    # Not before: what is announced in between would pass.
    listening.bind((0, groups))
    return listening
