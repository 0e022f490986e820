"""The XDP program of an interface, by rtnetlink (IFLA_XDP of linux/if_link.h).

In generic mode, which every driver has: the program sees a frame before filters and the bridge do.
"""

from __future__ import annotations

import struct

from agent.kernel.netlink_batch import Message, attribute

_RTM_SETLINK = 19
_INTERFACE = struct.Struct("=BxHiII")  # struct ifinfomsg
_IFLA_XDP, _FD, _FLAGS = 43 | 0x8000, 1, 3  # nested
_ONLY_IF_NONE, _GENERIC = 1 << 0, 1 << 1  # XDP_FLAGS_UPDATE_IF_NOEXIST, XDP_FLAGS_SKB_MODE
_NO_PROGRAM = -1


def attach(ifindex: int, program: int, *, replaces: bool) -> Message:
    """Run the program of this descriptor on received frames.

    Unless it `replaces` what is there, which no frame notices, the kernel refuses a second one.
    """
    return _set(ifindex, program, _GENERIC if replaces else _GENERIC | _ONLY_IF_NONE)


def detach(ifindex: int) -> Message:
    """Run none any more."""
    return _set(ifindex, _NO_PROGRAM, _GENERIC)


def _set(ifindex: int, program: int, flags: int) -> Message:
    nested = attribute(_FD, struct.pack("=i", program)) + attribute(
        _FLAGS, struct.pack("=I", flags)
    )
    header = _INTERFACE.pack(0, 0, ifindex, 0, 0)
    return Message(_RTM_SETLINK, header + attribute(_IFLA_XDP, nested))
