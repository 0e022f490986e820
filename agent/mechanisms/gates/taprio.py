"""Set and remove the taprio queueing discipline of a port through netlink."""

from __future__ import annotations

import errno
import platform
import re
from dataclasses import replace
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl import TC_H_ROOT

from agent.kernel import sched_taprio, tc_plugins
from agent.kernel.clock import CLOCK_IDS
from agent.kernel.refusal import reason
from agent.mechanisms.gates import frame_lengths
from agent.mechanisms.gates.model import UNKNOWN_LENGTHS, GateOperation, Taprio, TaprioMode
from agent.mechanisms.gates.openings import fitting_sdu_octets
from agent.model import AgentError, Clock
from agent.root_qdisc import HANDLE

tc_plugins.register()

LOOPBACK_INDEX = 1

FLAGS = {
    TaprioMode.SOFTWARE: 0,
    TaprioMode.TXTIME_ASSIST: sched_taprio.FLAG_TXTIME_ASSIST,
    TaprioMode.FULL_OFFLOAD: sched_taprio.FLAG_FULL_OFFLOAD,
}
COMMANDS = {
    GateOperation.SET: sched_taprio.CMD_SET_GATES,
    GateOperation.HOLD: sched_taprio.CMD_SET_AND_HOLD,
    GateOperation.RELEASE: sched_taprio.CMD_SET_AND_RELEASE,
}
MAX_SDU_SINCE = (6, 1)


def same_fixed_part(one: Taprio, other: Taprio) -> bool:
    """True when the kernel can go from one to the other in place, keeping the running schedule."""
    changed = replace(
        one,
        schedule=other.schedule,
        max_sdu_octets=other.max_sdu_octets,
        emulated=other.emulated,
        preemptable=other.preemptable,
    )
    return changed == other


def change(
    ipr: IPRoute, port: str, ifindex: int, before: Taprio | None, after: Taprio | None
) -> None:
    """Bring a port from `before` to `after`; when the kernel refuses, `before` is in force again.

    Map, queues, mode and clock of a running taprio cannot be changed (the kernel answers
    ENOTSUPP): then the qdisc is removed and set again, and all gates are open in between.
    """
    in_place = before is not None and after is not None and same_fixed_part(before, after)
    if before is not None and not in_place:
        _delete(ipr, port, ifindex)
    if after is None:
        return
    try:
        _replace(ipr, port, ifindex, after)
    except BaseException:
        if before is not None and not in_place:
            _replace(ipr, port, ifindex, before)
        raise


def _replace(ipr: IPRoute, port: str, ifindex: int, taprio: Taprio) -> None:
    """One request for everything; what stays as it is does so without a gap.

    The limit of every class is in it, because the kernel keeps the old one of a class left out
    (taprio_parse_tc_entries). The standard's queueMaxSDU counts the service data unit; the kernel
    compares a frame with the limit plus its MAC header of 14 octets, without frame check sequence
    (taprio_update_queue_max_sdu). So both count the same, but for VLAN tags: one that lies in the
    frame's octets uses up 4 of the limit, one that the driver is to insert does not.
    """
    request: dict[str, Any] = {
        "map": taprio.priority_map,
        "queues": [(queue.count, queue.offset) for queue in taprio.queues],
        "base_time": taprio.schedule.base_time_ns,
        "cycle_time": taprio.schedule.cycle_time_ns,
        "sched_entries": [
            (entry.gate_states, entry.interval_ns, COMMANDS[entry.operation])
            for entry in taprio.schedule.entries
        ],
        "tc_entries": [
            {"index": traffic_class, "max_sdu": octets, **_preemption(taprio, traffic_class)}
            for traffic_class, octets in enumerate(_max_sdu_octets(taprio))
        ],
        "stab": frame_lengths.table(taprio.emulated),
    }
    if taprio.mode is not TaprioMode.SOFTWARE:
        request["flags"] = FLAGS[taprio.mode]
    if taprio.mode is not TaprioMode.FULL_OFFLOAD:  # there the port's own hardware clock counts
        request["clockid"] = CLOCK_IDS[taprio.clock]
    try:
        ipr.tc("replace", "taprio", ifindex, HANDLE, **request)
    except NetlinkError as refusal:
        raise AgentError(
            f"port {port}: the kernel refused the schedule: {reason(refusal)}"
        ) from refusal


def _preemption(taprio: Taprio, traffic_class: int) -> dict[str, int]:
    """Also of express classes: the kernel keeps what a class was before, even what it has refused
    (taprio_parse_tc_entries)."""
    if taprio.preemptable is None:
        return {}
    is_preemptable = traffic_class in taprio.preemptable
    return {"fp": sched_taprio.FP_PREEMPTIBLE if is_preemptable else sched_taprio.FP_EXPRESS}


def restart(ipr: IPRoute, port: str, ifindex: int, taprio: Taprio) -> None:
    """Set a stalled schedule again; it starts with the next cycle, all gates open until then.

    Removing the qdisc is the only way to end a timer whose clock was set back. AgentError
    when the kernel refuses; the port then has no gates.
    """
    _delete(ipr, port, ifindex)
    _replace(ipr, port, ifindex, taprio)


def _max_sdu_octets(taprio: Taprio) -> tuple[int, ...]:
    """The limits asked for, and those of an emulated link that the kernel does not know.

    It derives what fits no window from the speed of the device (taprio_update_queue_max_sdu); a
    frame that does fit that, but not the link, would block its class for ever.
    """
    asked = taprio.max_sdu_octets or (0,) * len(taprio.queues)
    if taprio.emulated is None or taprio.emulated == UNKNOWN_LENGTHS:
        return asked
    fitting = fitting_sdu_octets(taprio.schedule, len(asked), taprio.emulated.rate_bps)
    return tuple(
        min((limit for limit in limits if limit), default=0)
        for limits in zip(asked, fitting, strict=True)
    )


def _delete(ipr: IPRoute, port: str, ifindex: int) -> None:
    try:
        ipr.tc("del", "taprio", ifindex, HANDLE, parent=TC_H_ROOT)
    except NetlinkError as refusal:
        raise AgentError(
            f"port {port}: the kernel did not remove the schedule: {reason(refusal)}"
        ) from refusal


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


def no_max_sdu() -> str | None:
    """None, or why this kernel limits no frame sizes: an older one ignores the request."""
    release = platform.release()
    numbers = re.match(r"(\d+)\.(\d+)", release)
    if numbers is None or tuple(map(int, numbers.groups())) >= MAX_SDU_SINCE:
        return None
    return f"queue-max-sdu needs Linux {MAX_SDU_SINCE[0]}.{MAX_SDU_SINCE[1]}; this is {release}"
