"""The kernel's refusal of a netlink request, in words."""

from __future__ import annotations

import errno

from pyroute2.netlink.exceptions import NetlinkError

ENOTSUPP = 524  # linux/errno.h: not meant for user space, but it gets there


def reason(refusal: NetlinkError) -> str:
    """The kernel's message and the name of its error number."""
    name = "ENOTSUPP" if refusal.code == ENOTSUPP else errno.errorcode.get(refusal.code, "error")
    return f"{refusal.args[1]} ({name})"
