"""The queueing discipline that carries filters at the ingress and the egress of a port (tc-bpf(8)).

Several mechanisms and other programs share it: it is made by the first that needs it, and removed
with the last filter.
"""

from __future__ import annotations

import errno
import struct

from agent.kernel.cls_flower import EGRESS, INGRESS
from agent.kernel.netlink_batch import (
    NLM_F_CREATE,
    NLM_F_EXCL,
    Message,
    NetlinkSocket,
    attribute,
    raise_first,
)

_RTM_NEWQDISC, _RTM_DELQDISC, _RTM_GETTFILTER = 36, 37, 46
_TCMSG = struct.Struct("=BxxxiIII")
_HANDLE, _PARENT = 0xFFFF0000, 0xFFFFFFF1  # TC_H_CLSACT
_TCA_KIND = 1


def ensure(kernel: NetlinkSocket, ifindex: int) -> None:
    """Make it; one that another program has made serves as well. Raises NetlinkError."""
    request = Message(_RTM_NEWQDISC, _clsact(ifindex), NLM_F_CREATE | NLM_F_EXCL)
    raise_first(kernel.send([request]), frozenset({errno.EEXIST}))


def remove_unused(kernel: NetlinkSocket, ifindex: int) -> None:
    """Remove it unless there is a filter at one of its hooks."""
    for hook in (INGRESS, EGRESS):
        request = _TCMSG.pack(0, ifindex, 0, hook, 0)
        if kernel.dump(Message(_RTM_GETTFILTER, request)):
            return
    kernel.send([Message(_RTM_DELQDISC, _clsact(ifindex))])  # refused where there is none


def _clsact(ifindex: int) -> bytes:
    return _TCMSG.pack(0, ifindex, _HANDLE, _PARENT, 0) + attribute(_TCA_KIND, b"clsact\0")
