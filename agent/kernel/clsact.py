"""The queueing discipline that carries filters at the ingress and the egress of a port (tc-bpf(8)).

Several mechanisms and other programs share it: it is made by the first that needs it, and removed
with the last filter. A bridged port with gates has it all the time, since the kernel takes a port
down and up where it comes or goes (qdisc_graft of net/sched/sch_api.c): frames that wait would be
lost, and the timer of a software taprio that runs would stop.
"""

from __future__ import annotations

import errno

from agent.kernel.cls_flower import EGRESS, INGRESS
from agent.kernel.netlink_batch import (
    NLM_F_CREATE,
    NLM_F_EXCL,
    Message,
    NetlinkSocket,
    attribute,
    attributes,
    raise_first,
)
from agent.kernel.rtnetlink import (
    RTM_DELQDISC,
    RTM_GETQDISC,
    RTM_GETTFILTER,
    RTM_NEWQDISC,
    TCA_KIND,
    TCMSG,
)

_HANDLE, _PARENT = 0xFFFF0000, 0xFFFFFFF1  # TC_H_CLSACT
_CLSACT, _TAPRIO = b"clsact\0", b"taprio\0"


def ensure(kernel: NetlinkSocket, ifindex: int) -> None:
    """Make it; one that another program has made serves as well. Raises NetlinkError."""
    request = Message(RTM_NEWQDISC, _clsact(ifindex), NLM_F_CREATE | NLM_F_EXCL)
    raise_first(kernel.send([request]), frozenset({errno.EEXIST}))


def remove_unused(kernel: NetlinkSocket, ifindex: int) -> None:
    """Remove it unless there is a filter at one of its hooks, or the port has gates."""
    if has_gates(kernel, ifindex):
        return
    for hook in (INGRESS, EGRESS):
        request = TCMSG.pack(0, ifindex, 0, hook, 0)
        if kernel.dump(Message(RTM_GETTFILTER, request)):
            return
    kernel.send([Message(RTM_DELQDISC, _clsact(ifindex))])  # refused where there is none


def has_gates(kernel: NetlinkSocket, ifindex: int) -> bool:
    """Whether a taprio qdisc is on the port."""
    return _TAPRIO in _kinds(kernel, ifindex)


def beside_gates(kernel: NetlinkSocket, ifindex: int) -> bool | None:
    """Whether it is on the port; None where the port has no gates."""
    kinds = _kinds(kernel, ifindex)
    return _CLSACT in kinds if _TAPRIO in kinds else None


def _kinds(kernel: NetlinkSocket, ifindex: int) -> set[bytes]:
    """The kinds of all qdiscs of a port. The kernel lists those of all ports, and no less."""
    kinds = set()
    for message in kernel.dump(Message(RTM_GETQDISC, TCMSG.pack(0, ifindex, 0, 0, 0))):
        _family, of_port, *_ = TCMSG.unpack_from(message.payload)
        if of_port == ifindex:
            kinds.add(dict(attributes(message.payload[TCMSG.size :]))[TCA_KIND])
    return kinds


def _clsact(ifindex: int) -> bytes:
    return TCMSG.pack(0, ifindex, _HANDLE, _PARENT, 0) + attribute(TCA_KIND, _CLSACT)
