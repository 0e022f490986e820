"""The XDP program of an interface, by rtnetlink (IFLA_XDP of linux/if_link.h).

It sees a frame before filters and the bridge do: in generic mode, which every driver has, or in
native mode in the driver itself.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from agent.kernel.netlink_batch import Message, attribute
from agent.kernel.rtnetlink import IFINFOMSG, RTM_SETLINK

_IFLA_XDP, _FD, _FLAGS = 43 | 0x8000, 1, 3  # nested
_ONLY_IF_NONE = 1 << 0  # XDP_FLAGS_UPDATE_IF_NOEXIST
_NO_PROGRAM = -1


class Mode(IntEnum):
    """XDP_FLAGS_SKB_MODE, XDP_FLAGS_DRV_MODE."""

    GENERIC = 1 << 1
    NATIVE = 1 << 2


def attach(ifindex: int, program: int, mode: Mode, *, replaces: bool) -> Message:
    """Run the program of this descriptor on received frames.

    Unless it `replaces` what is there, which no frame notices, the kernel refuses a second one.
    """
    return _set(ifindex, program, mode if replaces else mode | _ONLY_IF_NONE)


def detach(ifindex: int, mode: Mode) -> Message:
    """Run none any more that runs in this mode."""
    return _set(ifindex, _NO_PROGRAM, mode)


def _set(ifindex: int, program: int, flags: int) -> Message:
    nested = attribute(_FD, struct.pack("=i", program)) + attribute(
        _FLAGS, struct.pack("=I", flags)
    )
    header = IFINFOMSG.pack(0, 0, ifindex, 0, 0)
    return Message(RTM_SETLINK, header + attribute(_IFLA_XDP, nested))
