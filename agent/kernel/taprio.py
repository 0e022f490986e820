"""Read, set and remove the taprio queueing discipline of a port through netlink."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl import TC_H_ROOT
from pyroute2.netlink.rtnl.tcmsg import plugins

from agent.kernel import sched_taprio
from agent.kernel.clock import CLOCK_IDS
from agent.model import (
    AgentError,
    Clock,
    GateEntry,
    QueueRange,
    Schedule,
    Taprio,
    TaprioMode,
)

plugins["taprio"] = sched_taprio

HANDLE = 0x7A0_0000  # 7a0:, by which the agent knows its own qdisc
LOOPBACK_INDEX = 1

# What the kernel does not count in a frame's length but the wire carries: preamble and start
# delimiter 8, frame check sequence 4, inter-frame gap 12 (IEEE 802.3 clause 3).
WIRE_OVERHEAD_OCTETS = 24

ENOTSUPP = 524  # the kernel's own, absent from the C library

_FLAGS = {
    TaprioMode.SOFTWARE: 0,
    TaprioMode.TXTIME_ASSIST: sched_taprio.FLAG_TXTIME_ASSIST,
    TaprioMode.FULL_OFFLOAD: sched_taprio.FLAG_FULL_OFFLOAD,
}
_MODES = {flags: mode for mode, flags in _FLAGS.items()}
_CLOCKS = {clock_id: clock for clock, clock_id in CLOCK_IDS.items()}


@dataclass(frozen=True, slots=True)
class RootQdisc:
    """`taprio` is set when the qdisc is ours; `foreign` names one that somebody else attached."""

    kind: str
    foreign: str | None
    taprio: Taprio | None = None
    running: Schedule | None = None
    pending: Schedule | None = None


def read(ipr: IPRoute, now_ns: Callable[[Clock], int]) -> dict[int, RootQdisc]:
    """The root qdisc of every interface that has one, by interface index."""
    return {
        message["index"]: _root_qdisc(message, now_ns)
        for message in ipr.get_qdiscs()
        if message["parent"] == TC_H_ROOT
    }


def _root_qdisc(message: Any, now_ns: Callable[[Clock], int]) -> RootQdisc:
    kind, handle = message.get("TCA_KIND"), message["handle"]
    if handle == 0:  # the kernel's own default, which gives way to any other
        return RootQdisc(kind, None)
    if kind != "taprio" or handle != HANDLE:
        return RootQdisc(kind, f"{kind} {handle >> 16:x}:")
    options = message.get("TCA_OPTIONS")
    clock = _CLOCKS[options.get("TCA_TAPRIO_ATTR_SCHED_CLOCKID", CLOCK_IDS[Clock.TAI])]
    admin = options.get("TCA_TAPRIO_ATTR_ADMIN_SCHED")
    running, pending = _schedule(options), _schedule(admin) if admin else None
    if running and not pending and running.base_time_ns > now_ns(clock):
        # With offload the kernel hands the list to the hardware and shows it as running at once.
        running, pending = None, running
    newest = pending or running
    if newest is None:
        raise AgentError(f"interface {message['index']}: the kernel shows taprio without schedule")
    qopt = options.get("TCA_TAPRIO_ATTR_PRIOMAP")
    classes = qopt["num_tc"]
    taprio = Taprio(
        priority_map=tuple(qopt["prio_tc_map"]),
        queues=tuple(
            QueueRange(count, offset)
            for count, offset in zip(qopt["count"][:classes], qopt["offset"][:classes], strict=True)
        ),
        mode=_MODES[options.get("TCA_TAPRIO_ATTR_FLAGS", 0)],
        clock=clock,
        schedule=newest,
    )
    return RootQdisc(kind, None, taprio, running, pending)


def _schedule(options: Any) -> Schedule | None:
    entries = options.get("TCA_TAPRIO_ATTR_SCHED_ENTRY_LIST")
    if entries is None:
        return None
    return Schedule(
        base_time_ns=options.get("TCA_TAPRIO_ATTR_SCHED_BASE_TIME"),
        cycle_time_ns=options.get("TCA_TAPRIO_ATTR_SCHED_CYCLE_TIME"),
        entries=tuple(
            GateEntry(
                entry.get("TCA_TAPRIO_SCHED_ENTRY_GATE_MASK"),
                entry.get("TCA_TAPRIO_SCHED_ENTRY_INTERVAL"),
            )
            for entry in entries.get_attrs("TCA_TAPRIO_SCHED_ENTRY")
        ),
    )


def same_fixed_part(one: Taprio, other: Taprio) -> bool:
    """True when the kernel can go from one to the other in place, keeping the running schedule."""
    return replace(one, schedule=other.schedule) == other


def change(
    ipr: IPRoute, port: str, ifindex: int, before: Taprio | None, after: Taprio | None
) -> None:
    """Bring a port from `before` to `after`; when the kernel refuses, `before` is in force again.

    Map, queues, mode and clock of a running taprio cannot be changed (the kernel answers
    ENOTSUPP): then the qdisc is removed and set anew, and all gates are open in between.
    """
    in_place = before is not None and after is not None and same_fixed_part(before, after)
    if before is not None and not in_place:
        _delete(ipr, port, ifindex)
    if after is None:
        return
    try:
        _replace(ipr, port, ifindex, after)
    except AgentError:
        if before is not None and not in_place:
            _replace(ipr, port, ifindex, before)
        raise


def _replace(ipr: IPRoute, port: str, ifindex: int, taprio: Taprio) -> None:
    request: dict[str, Any] = {
        "map": taprio.priority_map,
        "queues": [(queue.count, queue.offset) for queue in taprio.queues],
        "base_time": taprio.schedule.base_time_ns,
        "cycle_time": taprio.schedule.cycle_time_ns,
        "sched_entries": [
            (entry.gate_states, entry.interval_ns) for entry in taprio.schedule.entries
        ],
        "stab": {"overhead": WIRE_OVERHEAD_OCTETS},
    }
    if taprio.mode is not TaprioMode.SOFTWARE:
        request["flags"] = _FLAGS[taprio.mode]
    if taprio.mode is not TaprioMode.FULL_OFFLOAD:  # there the port's own hardware clock counts
        request["clockid"] = CLOCK_IDS[taprio.clock]
    try:
        ipr.tc("replace", "taprio", ifindex, HANDLE, **request)
    except NetlinkError as refusal:
        raise AgentError(
            f"port {port}: the kernel refused the schedule: {reason(refusal)}"
        ) from refusal


def _delete(ipr: IPRoute, port: str, ifindex: int) -> None:
    try:
        ipr.tc("del", "taprio", ifindex, HANDLE, parent=TC_H_ROOT)
    except NetlinkError as refusal:
        raise AgentError(
            f"port {port}: the kernel did not remove the schedule: {reason(refusal)}"
        ) from refusal


def reason(refusal: NetlinkError) -> str:
    """The kernel's own words and the name of its error number."""
    name = "ENOTSUPP" if refusal.code == ENOTSUPP else errno.errorcode.get(refusal.code, "error")
    return f"{refusal.args[1]} ({name})"


def capability(ipr: IPRoute) -> str | None:
    """None, or why this process cannot set taprio here.

    The probe asks for taprio on the loopback, which every kernel refuses before it changes
    anything: EOPNOTSUPP when it knows taprio (the loopback has one queue).
    """
    try:
        ipr.tc("add", "taprio", LOOPBACK_INDEX, HANDLE, clockid=CLOCK_IDS[Clock.TAI])
    except NetlinkError as refusal:
        if refusal.code == errno.EOPNOTSUPP:
            return None
        if refusal.code == errno.ENOENT:
            return (
                f"this kernel has no sch_taprio: {reason(refusal)}; "
                "load the module or boot a kernel with CONFIG_NET_SCH_TAPRIO"
            )
        if refusal.code == errno.EPERM:
            return f"setting a qdisc is not allowed: {reason(refusal)}; CAP_NET_ADMIN is needed"
        return f"taprio cannot be used: {reason(refusal)}"
    raise AgentError("the loopback took a taprio qdisc: remove it with `tc qdisc del dev lo root`")
